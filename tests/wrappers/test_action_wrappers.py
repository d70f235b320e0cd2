"""Stateless action wrappers: the action that the environment receives, specs and ``prev_action``.

Covers ActionOffset, ClipAction, DiscreteActions, DiscretizeAction, FlattenAction, OneHotAction, RescaleAction and
TransformAction.
"""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.testing import random_environment
from jaxenv.wrappers import (
    ActionOffset,
    AutoReset,
    ClipAction,
    DiscreteActions,
    DiscretizeAction,
    FlattenAction,
    OneHotAction,
    RescaleAction,
    TimeLimit,
    TransformAction,
)
from tests.rows import unrolled
from tests.wrappers.echo import box, echo

FIRST, LAST = 0, 2
DIRECTIONS = [[1, 0], [-1, 0], [0, 1], [0, -1]]
MIXED = {"force": box([-2, 0], [2, 10], (2,)), "gear": specs.discrete(3, start=1)}
SQUARE = box(-10, 10, (2, 2))
WIDE = box([-2, 10, 0], [2, 20, 1], (3,))


def ints(low, high, shape=()):
    return specs.Bounded(shape, np.int32, low, high)


def clipped(env):
    return ClipAction(RescaleAction(env, -1, 2))


TABLE = {
    "rescaled": (
        (lambda e: RescaleAction(e, 0, 1), box(-2, 2, (1,))),
        (box(0, 1, (1,)), [[0], [0.5], [1]], [[-2], [0], [2]]),
    ),
    "rescaled by element": (
        (lambda e: RescaleAction(e, (0, 1), (2, 3)), box([-2, 0], [2, 10], (2,))),
        (box([0, 1], [2, 3], (2,)), [[0, 1], [1, 2.5], [2, 3]], [[-2, 0], [0, 7.5], [2, 10]]),
    ),
    "affine, outside too": (
        (lambda e: RescaleAction(e, -1, 2), box(-2, 3)),
        (box(-1, 2), [0, -1, 2, 5], [-1 / 3, -2, 3, 8]),
    ),
    "affine, then clipped": ((clipped, box(-2, 3)), (box(-1, 2), [0, 2.1, -1.1], [-1 / 3, 3, -2])),
    "affine of a tree": (
        (lambda e: RescaleAction(e, 0, 4), {**MIXED, "gear": specs.Array((), np.int32)}),
        (
            {"force": box(0, 4, (2,)), "gear": specs.Array((), np.int32)},
            {"force": [[0, 0], [1, 4]], "gear": [3, 1]},
            {"force": [[-2, 0], [-1, 10]], "gear": [3, 1]},
        ),
    ),
    "affine between the largest floats": (
        (RescaleAction, box(-3e38, 3e38)),
        (box(-1, 1), [-1, 0, 0.5], [-3e38, 0, 1.5e38]),
    ),
    "normalized": ((RescaleAction, box(0, 10)), (box(-1, 1), [-1, 0, 0.5, 3], [0, 5, 7.5, 20])),
    "normalized and clipped": (
        (lambda e: RescaleAction(e, clip=True), MIXED),
        (
            {"force": box(-1, 1, (2,)), "gear": ints(1, 3)},
            {"force": [[-9, 0], [1, 9]], "gear": [2, 2]},
            {"force": [[-2, 5], [2, 10]], "gear": [2, 2]},
        ),
    ),
    "from a table": (
        (lambda e: DiscreteActions(e, DIRECTIONS), box(-1, 1, (2,))),
        (ints(0, 3), [1, 3, 0], [[-1, 0], [0, -1], [1, 0]]),
    ),
    "some of many": ((lambda e: DiscreteActions(e, [4, 0, 7]), specs.discrete(9)), (ints(0, 2), [0, 2, 1], [4, 7, 0])),
    "discretized, one element": (
        (lambda e: DiscretizeAction(e, 5), box(-2, 2, (1,))),
        (ints(0, 4), [0, 1, 2, 3, 4], [[-2], [-1], [0], [1], [2]]),
    ),
    "discretized, a number": ((lambda e: DiscretizeAction(e, 5), box(-10, 10)), (ints(0, 4), [2, 4, 0], [0, 10, -10])),
    "discretized, unlike counts": (
        (lambda e: DiscretizeAction(e, [[2, 5], [3, 2]]), SQUARE),
        (
            ints(0, [[1, 4], [2, 1]], (2, 2)),
            [[[0, 2], [1, 1]], [[1, 4], [2, 0]]],
            [[[-10, 0], [0, 10]], [[10, 10], [10, -10]]],
        ),
    ),
    "discretized, counts that broadcast": (
        (lambda e: DiscretizeAction(e, (3, 2)), SQUARE),
        (ints(0, [[2, 1], [2, 1]], (2, 2)), [[[1, 0], [2, 1]]], [[[0, -10], [10, 10]]]),
    ),
    "discretized, centres": (
        (lambda e: DiscretizeAction(e, 5, "centers"), box(-2, 2, (1,))),
        (ints(0, 4), [0, 1, 2, 4], [[-1.6], [-0.8], [0], [1.6]]),
    ),
    "discretized, flat": (
        (lambda e: DiscretizeAction(e, (2, 3, 5), flatten=True), WIDE),
        (
            ints(0, 29),
            [0, 29, 15, 5, 1, 22],
            [[-2, 10, 0], [2, 20, 1], [2, 10, 0], [-2, 15, 0], [-2, 10, 0.25], [2, 15, 0.5]],
        ),
    ),
    "discretized, flat centres": (
        (lambda e: DiscretizeAction(e, 2, "centers", flatten=True), SQUARE),
        (ints(0, 15), [0, 8, 3], [[[-5, -5], [-5, -5]], [[5, -5], [-5, -5]], [[-5, -5], [5, 5]]]),
    ),
    "offset": ((ActionOffset, ints(-3, 5)), (ints(0, 8), [0, 4, 8], [-3, 1, 5])),
    "offset by element": ((ActionOffset, ints([2, -1], [3, 4], (2,))), (ints(0, [1, 5], (2,)), [[1, 2]], [[3, 1]])),
    "one-hot": (
        (OneHotAction, {"force": box(-2, 2), "gear": ints(1, 3)}),
        (
            {"force": box(-2, 2), "gear": box(0, 1, (3,))},
            {"force": [1, 2], "gear": [[0, 0, 1], [0.2, 0.5, 0.3]]},
            {"force": [1, 2], "gear": [3, 2]},
        ),
    ),
    "one-hot by element": (
        (OneHotAction, ints([0, 5], [1, 6], (2,))),
        (box(0, 1, (2, 2)), [[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[0, 6], [1, 5]]),
    ),
    "flat": (
        (FlattenAction, {"b": box(-1, 1, (2, 2)), "a": box(0, 3)}),
        (
            box([0, -1, -1, -1, -1], [3, 1, 1, 1, 1], (5,)),
            [[1, 2, 3, 4, 5]],
            {"a": [1], "b": [[[2, 3], [4, 5]]]},
        ),
    ),
    "flat, of unlike dtypes": (
        (lambda e: FlattenAction(e, np.float32), {"gear": ints(1, 3), "on": specs.Array((), np.bool_), "x": box(0, 9)}),
        (
            box([1, 0, 0], [3, 1, 9], (3,)),
            [[2.6, 0.2, 4.5], [-1e30, 1, 4], [1e30, 0.7, 0]],
            {"gear": [3, 1, 3], "on": [False, True, True], "x": [4.5, 4, 0]},
        ),
    ),
    "flat, in part without bounds": (
        (FlattenAction, (box(0, 3), specs.Array((2,), np.float32))),
        (box([0, -np.inf, -np.inf], [3, np.inf, np.inf], (3,)), [[1, 2, 3]], ([1], [[2, 3]])),
    ),
    "flat, without bounds": (
        (FlattenAction, (specs.Array((), np.float32), specs.Array((1,), np.float32))),
        (specs.Array((2,), np.float32), [[1, 2]], ([1], [[2]])),
    ),
    "by a function": (
        (lambda e: TransformAction(e, lambda a: {"x": -a["left"]}, {"left": box(0, 1)}), {"x": box(-1, 0)}),
        ({"left": box(0, 1)}, {"left": [0.25]}, {"x": [-0.25]}),
    ),
    "by a function, spec as it was": (
        (lambda e: TransformAction(e, jnp.negative), box(-1, 1)),
        (box(-1, 1), [1], [-1]),
    ),
}


def batch(spec, values):
    """Nested lists as arrays with the dtypes of a tree of specs."""
    return jax.tree.map(lambda s, v: np.asarray(v, s.dtype), spec, values, is_leaf=specs.is_spec)


@pytest.mark.parametrize("name", TABLE)
def test_actions_and_specs_are_mapped_as_tabulated(name):
    (wrapper, inner), (spec, given, expected) = TABLE[name]
    env = wrapper(random_environment(specs.discrete(2), inner))
    assert env.action_spec() == spec
    action = batch(spec, given)
    while env is not env.unwrapped:
        action, env = env.action(action), env.env
    wanted = batch(inner, expected)
    chex.assert_trees_all_equal_shapes_and_dtypes(action, wanted)
    chex.assert_trees_all_close(action, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", ["ends", "centers"])
def test_a_grid_of_actions_never_exceeds_bounds_after_rounding(mode):
    low, high = np.float32([0.1, -0.3, 1 / 3, 0.7]), np.float32([0.1, 0.7, 2 / 3, 0.7000001])
    env = DiscretizeAction(random_environment(specs.discrete(2), box(low, high, (4,))), 11, mode)
    values = np.asarray(env.action(np.tile(np.arange(11, dtype=np.int32)[:, None], (1, 4))))
    assert (values >= low).all()
    assert (values <= high).all()
    if mode == "ends":
        np.testing.assert_array_equal(values[[0, -1]], [low, high])


def test_a_discretized_pendulum_has_five_actions():
    env = DiscretizeAction(jaxenv.spec("Pendulum-v1").make(), 5)
    assert env.action_spec() == specs.Bounded((), np.int32, 0, 4)
    assert env.action(np.arange(5, dtype=np.int32))[:, 0].tolist() == [-2, -1, 0, 1, 2]


def test_numbers_out_of_range_select_the_nearest_table_row_and_prev_action_keeps_them():
    env = AutoReset(DiscreteActions(echo(box(-1, 1, (2,))), DIRECTIONS))
    rows = unrolled(env, np.array([[-7, 1, 99], [3, 2, 1], [1, 2, 3]]))
    executed = rows.env_info["executed"].tolist()
    assert executed[1] == [[1, 0], [-1, 0], [0, -1]]
    assert executed[2] == [[0, -1], [0, 1], [-1, 0]]
    assert rows.step_type[:, 1].tolist() == [FIRST, 1, LAST, FIRST]
    assert rows.prev_action.tolist() == [[0, 0, 0], [-7, 1, 99], [3, 2, 1], [1, 0, 3]]
    assert executed[3][1] == [0, 0]


def test_prev_action_holds_the_flat_number_and_0_where_the_action_was_ignored():
    env = DiscretizeAction(AutoReset(echo(WIDE)), (2, 3, 5), flatten=True)
    rows = unrolled(env, np.array([[29, 30, 1], [5, 5, 5], [22, 7, 0]]))
    assert rows.prev_action.tolist() == [[0, 0, 0], [29, 30, 1], [5, 5, 5], [22, 0, 0]]
    np.testing.assert_allclose(rows.env_info["executed"][1], [[2, 20, 1], [2, 20, 1], [-2, 10, 0.25]])
    assert env.time_step_spec().prev_action == ints(0, 29)


def test_a_tree_of_actions_is_mapped_and_reported_leaf_by_leaf():
    env = RescaleAction(AutoReset(echo(MIXED)), 0, 1)
    given = {"force": np.full((3, 3, 2), 0.5, np.float32), "gear": np.full((3, 3), 9, np.int32)}
    rows = unrolled(env, given)
    assert rows.env_info["executed"]["force"][1].tolist() == [[0, 5]] * 3
    assert rows.env_info["executed"]["gear"][1].tolist() == [3] * 3
    assert rows.prev_action["force"][:, 1].tolist() == [[0, 0], [0.5, 0.5], [0.5, 0.5], [0, 0]]
    assert rows.prev_action["gear"][:, 1].tolist() == [0, 9, 9, 0]


# --- RescaleAction and ClipAction ------------------------------------------------------------------------------------


class PaysAction(Task):
    """Pays the action that it receives."""

    def initial(self, stream):
        return jnp.zeros(stream.shape, jnp.float32)

    def transition(self, state, action, stream):
        return Transition(state, action[:, 0], jnp.zeros(state.shape, bool))

    def observe(self, state):
        return state

    def observation_spec(self):
        return specs.Array((), np.float32)

    def action_spec(self):
        return specs.Bounded((1,), np.float32, -2.0, 2.0)


def test_rescaled_actions_0_half_1_reach_the_environment_as_minus_2_0_2():
    env = RescaleAction(PaysAction(num_envs=3), 0, 1)
    assert env.action_spec() == specs.Bounded((1,), np.float32, 0.0, 1.0)
    rows = unrolled(env, jnp.array([[[0.0], [0.5], [1.0]]]))
    assert rows.reward[1].tolist() == [-2, 0, 2]
    assert rows.prev_action[1, :, 0].tolist() == [0, 0.5, 1]
    assert rows.prev_action[0, :, 0].tolist() == [0, 0, 0]


def test_clipped_actions_stay_within_bounds_and_prev_action_is_the_one_given():
    rows = unrolled(ClipAction(PaysAction(num_envs=3)), jnp.array([[[-5.0], [0.5], [jnp.inf]]]))
    assert rows.reward[1].tolist() == [-2, 0.5, 2]
    assert rows.prev_action[1, :, 0].tolist() == [-5, 0.5, 0]


def test_the_announced_bounds_can_be_dropped_while_actions_are_still_clipped():
    env = ClipAction(PaysAction(num_envs=3), announce_bounds=False)
    assert env.action_spec() == specs.Array((1,), np.float32)
    assert env.env.action_spec() == ClipAction(env.env).action_spec() != env.action_spec()
    rows = unrolled(env, jnp.array([[[-5.0], [0.5], [jnp.inf]]]))
    kept = unrolled(ClipAction(env.env), jnp.array([[[-5.0], [0.5], [jnp.inf]]]))
    assert rows.reward.tolist() == kept.reward.tolist()
    trees = {"wheel": specs.Bounded((), np.float32, -1, 1), "gear": specs.discrete(3)}
    mixed = ClipAction(random_environment(specs.discrete(2), trees), announce_bounds=False)
    assert mixed.action_spec() == {"wheel": specs.Array((), np.float32), "gear": specs.discrete(3)}


def test_prev_action_is_zero_on_the_row_that_ignored_the_action():
    env = RescaleAction(AutoReset(TimeLimit(PaysAction(num_envs=1), 1)), 0, 1)
    rows = unrolled(env, jnp.full((3, 1, 1), 0.7))
    assert rows.step_type[:, 0].tolist() == [FIRST, LAST, FIRST, LAST]
    np.testing.assert_allclose(rows.prev_action[:, 0, 0], [0, 0.7, 0, 0.7], rtol=1e-6)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1, 1), r"minimum .*got 1 and 1"),
        ((1.0, 1 + 1e-9), r"minimum .*got 1\.0 and 1\.000000001"),  # equal in float32
        ((0, 1e39), r"minimum .*got 0 and 1e\+39"),
        ((0, np.inf), r"minimum .*got 0 and inf"),
        (((0.0, 0.0), (1.0, 1.0)), "does not broadcast"),
    ],
)
def test_rescaling_refuses_invalid_bounds(bounds, message):
    env = PaysAction()
    with pytest.raises(ValueError, match=message):
        RescaleAction(env, *bounds).action_spec()


def test_rescaling_refuses_discrete_actions():
    with pytest.raises(ValueError, match=r"RescaleAction: the action .*got Bounded"):
        RescaleAction(jaxenv.spec("CartPole-v1").make(), 0, 1)


# --- errors ----------------------------------------------------------------------------------------------------------


def made(spec):
    return random_environment(specs.discrete(2), spec)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RescaleAction(made(box(-np.inf, 1))), r"RescaleAction: the action .*got Bounded\(\("),
        (
            lambda: RescaleAction(made(specs.discrete(3))),
            r"RescaleAction: the action .*got Bounded\(\(\), int32, 0, 2\)",
        ),
        (
            lambda: RescaleAction(made(box(0, 1)), 2, 1),
            r"RescaleAction: minimum .*got 2",
        ),
        (
            lambda: RescaleAction(made(box(0, 1, (3,))), (0, 0)),
            "RescaleAction: .*minimum of shape .2,. does not",
        ),
        (lambda: RescaleAction(made(box(0, 1)), 1, 1), r"RescaleAction: minimum .*got 1 and 1"),
        (
            lambda: RescaleAction(made(specs.Array((), np.float32))),
            r"RescaleAction: the action .*got Array\(\(\), float32\)",
        ),
        (lambda: RescaleAction(made(box(0, 1)), clip=1), r"clip .*got 1"),
        (lambda: DiscreteActions(made(MIXED), [[0]]), r"DiscreteActions: the action .*got \{'force':"),
        (lambda: DiscreteActions(made(box(0, 1, (2,))), [[0, 1], [1]]), "the actions in table differ in shape"),
        (
            lambda: DiscreteActions(made(box(0, 1, (2,))), [0, 1]),
            r"table .*got .2,",
        ),
        (lambda: DiscreteActions(made(box(0, 1)), []), "N at least 1, got .0,"),
        (lambda: DiscreteActions(made(box(0, 1)), [0.5, 1.5]), r"table .*got .0.5, 1.5"),
        (lambda: DiscreteActions(made(box(0, 1)), [np.nan]), "table must"),
        (lambda: DiscreteActions(made(specs.discrete(3)), [0.5]), "table must"),
        (
            lambda: DiscreteActions(made(specs.Bounded((), np.uint8, 0, 99)), [1, 300]),
            "hold actions of.*got .1, 300",
        ),
        (lambda: DiscretizeAction(made(box(0, 1)), 1), r"num_actions .*got 1"),
        (lambda: DiscretizeAction(made(box(0, 1)), 2.5), r"num_actions .*got 2.5"),
        (lambda: DiscretizeAction(made(box(0, 1, (3,))), (2, 3)), "num_actions of shape .2,. does not broadcast"),
        (lambda: DiscretizeAction(made(box(0, 1)), 2, "edges"), r"mode .*got 'edges'"),
        (
            lambda: DiscretizeAction(made(box(0, 1, (32,))), 2, flatten=True),
            r"the combinations of num_actions .*got \[2 2 2",
        ),
        (lambda: DiscretizeAction(made(box(0, np.inf)), 2), "one continuous array with finite bounds"),
        (lambda: DiscretizeAction(made(specs.discrete(3)), 2), "one continuous array with finite bounds"),
        (lambda: ActionOffset(made(box(0, 1))), r"ActionOffset: the action .*got Bounded\(\("),
        (lambda: ActionOffset(made(specs.Bounded((), np.int8, -100, 100))), "does not fit int8 from 0 on"),
        (lambda: OneHotAction(made(box(0, 1))), r"OneHotAction: the action .*got Bounded\(\("),
        (lambda: OneHotAction(made(ints(0, [1, 2], (2,)))), "bounded integers of one range"),
        (lambda: OneHotAction(made(specs.Array((), np.int32))), "bounded integers of one range"),
        (
            lambda: FlattenAction(made(MIXED)),
            "FlattenAction: dtype must",
        ),
        (
            lambda: RescaleAction(made(SQUARE), ("a",), 1),
            r"minimum .*got \('a',\)",
        ),
        (lambda: FlattenAction(made(MIXED), np.uint8), "minimum must fit uint8"),
        (lambda: FlattenAction(made(MIXED), "foo"), r"FlattenAction: dtype .*got 'foo'"),
        (lambda: TransformAction(made(MIXED), 3), r"TransformAction: fn .*got 3"),
    ],
)
def test_invalid_action_specs_and_arguments_are_refused_by_name_and_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_action_of_the_wrong_shape_is_refused_by_the_outermost_wrapper():
    env = DiscretizeAction(made(SQUARE), 3)
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match=r"DiscretizeAction.*got \(1, 2\)"):
        env.step(state, np.zeros((1, 2), np.int32))
