"""GuardNonFinite: a non-finite number truncates the episode of its own lane only."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import Multitask, specs, tree
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.wrappers import AutoReset, ClipAction, GuardNonFinite, TimeAwareObservation
from tests.rows import unrolled

FIRST, MID, LAST = 0, 1, 2


class Accumulate(Task):
    """Sums actions and terminates from 10 on. A total of exactly 3 makes the value that ``breaks`` names non-finite."""

    breaks: str = tree.static(default="state")

    def initial(self, stream):
        return jnp.ones(stream.shape, jnp.float32)

    def transition(self, state, action, stream):
        total = state + action
        bad = jnp.where(total == 3, jnp.nan, 0).astype(jnp.float32)
        reward = total + (bad if self.breaks == "reward" else 0)
        state = total + (bad if self.breaks == "state" else 0)
        return Transition(state, reward, total >= 10, {"double": 2 * state})

    def state_info(self, state):
        return {"total": state}

    def observe(self, state):
        return jnp.where((state == 3) & (self.breaks == "observation"), jnp.inf, state)

    def observation_spec(self):
        return specs.Array((), np.float32)

    def action_spec(self):
        return specs.Array((), np.float32)


@pytest.mark.parametrize("breaks", ["state", "observation", "reward"])
def test_a_non_finite_lane_is_truncated_and_others_continue(breaks):
    env = AutoReset(GuardNonFinite(Accumulate(breaks, num_envs=2)))
    rows = unrolled(env, jnp.ones((5, 2), jnp.float32).at[0, 1].set(4.0))
    assert rows.step_type[:, 0].tolist() == [FIRST, MID, LAST, FIRST, MID, LAST]
    assert rows.discount[:, 0].tolist() == [1] * 6
    assert rows.reward[:, 0].tolist() == [0, 2, 0, 0, 2, 0]
    assert rows.observation[:, 0].tolist() == [1, 2, 2, 1, 2, 2], "the observation before the bad step"
    assert rows.env_info["abnormal"][:, 0].tolist() == [False, False, True, False, False, True]
    assert np.isfinite(rows.env_info["double"]).all()
    assert rows.env_info["total"][:, 0].tolist() == [1, 2, 2, 1, 2, 2], "it describes the state that is kept"
    assert rows.observation[:, 1].tolist() == [1, 5, 6, 7, 8, 9]
    assert not rows.env_info["abnormal"][:, 1].any()


def test_an_abnormal_row_is_truncated_even_if_the_task_terminated():
    env = AutoReset(GuardNonFinite(Accumulate(num_envs=1)))
    rows = unrolled(env, jnp.array([[jnp.inf]]))
    assert rows.step_type[-1].tolist() == [LAST]
    assert rows.discount[-1].tolist() == [1]
    assert rows.prev_action[-1].tolist() == [0], "entries that are not finite are 0"


@pytest.mark.parametrize("id", ["Pendulum-v1", "MountainCarContinuous-v0"])
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_bad_action_never_reaches_another_lane_or_a_later_episode(id, mode, bad):
    env = jaxenv.make(id, num_envs=3, autoreset=mode)
    clean = jnp.full((12, 3, 1), 0.5)
    rows, reference = unrolled(env, clean.at[4, 1].set(bad)), unrolled(env, clean)
    for name in ("observation", "reward", "discount", "step_type", "prev_action"):
        value = getattr(rows, name)
        assert np.isfinite(value).all(), name
        np.testing.assert_array_equal(value[:, ::2], getattr(reference, name)[:, ::2], err_msg=name)
    assert bool(rows.env_info["abnormal"][5, 1]) is bool(np.isnan(bad)), "infinite actions are clipped"
    assert rows.env_info["abnormal"].sum() == np.isnan(bad)


def test_guard_non_finite_must_be_innermost():
    env = ClipAction(jaxenv.spec("Pendulum-v1").make())
    with pytest.raises(ValueError, match=r"GuardNonFinite: put it innermost.* ClipAction"):
        GuardNonFinite(env)
    timed = TimeAwareObservation(jaxenv.spec("Pendulum-v1").make())
    with pytest.raises(ValueError, match=r"GuardNonFinite: put it inside.* <Multitask>, which show more"):
        GuardNonFinite(Multitask((timed, timed)))


def test_make_guards_continuous_actions_and_leaves_discrete_ones_alone():
    assert repr(jaxenv.make("Pendulum-v1")) == "<AutoReset<TimeLimit<ClipAction<GuardNonFinite<Pendulum-v1>>>>>"
    assert repr(jaxenv.make("CartPole-v1")) == "<AutoReset<TimeLimit<CartPole-v1>>>"
