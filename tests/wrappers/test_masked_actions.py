"""MaskedActions: forbidden actions are replaced by legal ones and reported."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset, MaskedActions
from tests.rows import unrolled
from tests.wrappers.echo import LENGTHS

FIRST, MID, LAST = 0, 1, 2


class Alternating(Counting):
    """Actions 1, 2, 3; 1 and 3 are legal before the first, third, ... step of an episode, 2 before the others."""

    def action_spec(self):
        return specs.discrete(3, start=1)

    def state_info(self, state):
        even = (state.step % 2 == 0)[:, None]
        return {"action_mask": even == np.array([[True, False, True]])}


class Uneven(Alternating):
    """Masks of four actions that read differently from behind, repeat every five steps and differ between lanes."""

    def action_spec(self):
        return specs.discrete(4, start=1)

    def state_info(self, state):
        masks = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 1], [1, 0, 1, 1], [0, 0, 1, 0]], bool)
        return {"action_mask": jnp.asarray(masks)[(state.step + 3 * state.episode) % 5]}


class Stuck(Alternating):
    """No action is legal."""

    def state_info(self, state):
        return {"action_mask": jnp.zeros((*state.step.shape, 3), bool)}


class Misnamed(Alternating):
    def state_info(self, state):
        return {"legal": super().state_info(state)["action_mask"]}


class Narrow(Alternating):
    def state_info(self, state):
        return {"action_mask": super().state_info(state)["action_mask"][:, :2]}


def alternating():
    return Alternating(LENGTHS, stride=10, num_envs=3)


GIVEN = np.array([[1, 2, 3], [1, 2, 3], [3, 3, 2], [1, 2, 1], [2, 3, 2]], np.int32)


@pytest.mark.parametrize("stack", [lambda e, w: AutoReset(w(e)), lambda e, w: w(AutoReset(e))])
def test_forbidden_actions_are_replaced_by_the_first_legal_one_per_lane(stack):
    rows = unrolled(stack(alternating(), lambda e: MaskedActions(e, "first")), GIVEN)
    assert rows.step_type[:, 1].tolist() == [FIRST, MID, LAST, FIRST, MID, LAST]
    assert rows.reward.tolist() == [[0, 0, 0], [1, 1, 3], [2, 2, 2], [3, 0, 1], [2, 1, 2], [1, 2, 1]]
    assert rows.env_info["action_was_illegal"].tolist() == [
        [False, False, False],
        [False, True, False],
        [True, False, True],
        [False, False, True],
        [True, True, True],
        [True, True, True],
    ]
    assert rows.prev_action.tolist() == [[0, 0, 0], *GIVEN[:2].tolist(), [3, 0, 2], *GIVEN[3:].tolist()]


def test_the_same_step_mask_after_an_end_belongs_to_the_new_episode():
    rows = unrolled(AutoReset(MaskedActions(alternating(), "first"), "same_step"), GIVEN)
    assert rows.step_type[:, 1].tolist() == [FIRST, MID, LAST, MID, LAST, MID]
    assert rows.reward[:, 1].tolist() == [0, 1, 2, 3, 2, 3]
    assert rows.env_info["action_was_illegal"][:, 1].tolist() == [False, True, False, False, False, False]
    np.testing.assert_array_equal(rows.env_info["action_mask"][:, 1, 1], [False, True, False, True, False, True])


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_masks_without_symmetry_choose_the_lowest_legal_action(mode):
    # Episodes of 3 steps in lane 0 and of 2 in lane 1: the masks of their steps are 0 1 2, 3 4 0 and 0 1, 3 4, 1 2.
    env = AutoReset(MaskedActions(Uneven(np.array([[3], [2]]), num_envs=2), "first"), mode)
    given = np.array([[4, 2], [3, 3], [1, 2], [2, 1], [4, 4], [2, 3]], np.int32)
    played = [[1, 1, 2, 1, 3, 1], [1, 1, 1, 3, 1, 2]]
    if mode == "next_step":  # the step after LAST plays nothing
        played = [[1, 1, 2, 0, 4, 3], [1, 1, 0, 1, 3, 0]]
    assert unrolled(env, given).reward[1:].T.tolist() == played


def test_random_replacement_plays_all_legal_actions_equally_often():
    lanes = 3000
    env = MaskedActions(Alternating(np.array([0]), num_envs=lanes))
    given = np.broadcast_to(np.arange(lanes) % 3 + 1, (3, lanes)).astype(np.int32)
    rows = unrolled(env, given)
    assert set(rows.reward[2].tolist()) == {2}
    for t in (1, 3):
        replaced = rows.reward[t][rows.env_info["action_was_illegal"][t]]
        assert len(replaced) == lanes / 3
        assert set(replaced.tolist()) == {1, 3}
        np.testing.assert_allclose((replaced == 1).mean(), 0.5, atol=0.06)
        kept = ~rows.env_info["action_was_illegal"][t]
        np.testing.assert_array_equal(rows.reward[t][kept], given[t - 1][kept])
    assert (rows.reward[1] != rows.reward[3]).any(), "every step draws independently"


def test_the_action_passes_through_if_no_action_is_legal():
    rows = unrolled(MaskedActions(Stuck(LENGTHS, num_envs=3)), GIVEN[:1])
    assert rows.reward[1].tolist() == [1, 2, 3]
    assert not rows.env_info["action_was_illegal"].any()


def test_tic_tac_toe_never_ends_by_an_illegal_move():
    env = jaxenv.make("TicTacToe-v0", num_envs=4, wrappers=[MaskedActions])
    rows = unrolled(env, np.zeros((40, 4), np.int32))
    assert rows.env_info["action_was_illegal"].any()
    assert not rows.env_info["invalid_move"].any()
    assert (rows.step_type == LAST).sum() >= 12


def test_numbers_out_of_range_are_clipped_before_the_mask_applies():
    rows = unrolled(MaskedActions(alternating(), "first"), np.array([[-5, 99, 2]], np.int32))
    assert rows.reward[1].tolist() == [1, 3, 1]
    assert rows.env_info["action_was_illegal"][1].tolist() == [False, False, True]
    assert rows.prev_action[1].tolist() == [-5, 99, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MaskedActions(alternating(), "last"), r"replacement .*got 'last'"),
        (
            lambda: MaskedActions(jaxenv.spec("Pendulum-v1").make()),
            r"the action .*got Bounded",
        ),
        (
            lambda: MaskedActions(Misnamed(LENGTHS, num_envs=3)),
            r"hold an action_mask Array\(\(3,\), bool\), got {'legal'",
        ),
        (lambda: MaskedActions(Narrow(LENGTHS, num_envs=3)), r"action_mask Array\(\(3,\), bool\), got .*\(2,\)"),
        (lambda: MaskedActions(AutoReset(alternating(), "same_step")), "MaskedActions: .* put it inside AutoReset"),
    ],
)
def test_environments_without_a_suitable_mask_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
