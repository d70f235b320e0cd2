"""Pairs of features: modes, strategies, limits, tasks and wrappers together, against a model of one lane in Python."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import Multitask, tree, wrappers
from jaxenv.core.timestep import StepType
from jaxenv.wrappers import AutoReset, MaskedActions, TimeLimit
from tests.ledger import LANES, Model, ledger, play
from tests.rows import assert_equal, unrolled

NUM_STEPS = 31
ACTIONS = np.random.default_rng(0).integers(1, 5, (NUM_STEPS, LANES), dtype=np.int32)
MODES = ("next_step", "same_step", None)
STRATEGIES = ("select", "cond", "compact")
LIMITS = (10**6, 4, np.array([3, 4, 2, 10, 2], np.int32))  # in each lane some episode ends by both, or by one
TASKS = ("one", "given", "drawn")
# Nine choices of four settings, in which any two settings meet in all nine ways.
CHOICES = [(a, b, (a + b) % 3, (a + 2 * b) % 3) for a, b in itertools.product(range(3), repeat=2)]


def rows_without_restarts(env, actions):
    """All rows, where the caller restarts the lanes that ended in place of a step."""

    def rows(env, actions):
        def one(carry, action):
            state, row = carry
            stepped = env.step(state, action)
            restarted = jaxenv.reset_where(env, state, row, row.is_last())
            carry = tree.where(row.is_last(), restarted, stepped)
            return carry, carry[1]

        start = env.reset(jax.random.key(0))
        _, later = jax.lax.scan(one, start, actions)
        return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start[1], later)

    return jax.device_get(jax.jit(rows)(env, actions))


@pytest.mark.parametrize("masked", ["", "inside the limit", "outside the limit"])
@pytest.mark.parametrize(("mode", "strategy", "limit", "task"), CHOICES)
def test_rows_are_those_of_a_model_of_one_lane(mode, strategy, limit, task, masked):
    mode, strategy, limit, task = MODES[mode], STRATEGIES[strategy], LIMITS[limit], TASKS[task]
    shifts = (0,) if task == "one" else (0, 1, 3)
    given = np.array([1, 0, 2, 1, 2], np.int32)
    env = ledger() if task == "one" else Multitask([ledger(s) for s in shifts], -1 if task == "drawn" else given)
    env = MaskedActions(env, "first") if masked == "inside the limit" else env
    env = TimeLimit(env, limit)
    env = MaskedActions(env, "first") if masked == "outside the limit" else env
    if mode is None:
        rows = rows_without_restarts(env, ACTIONS)
    else:
        rows = unrolled(AutoReset(env, mode, strategy, block=2), ACTIONS)
    found = {name: getattr(rows, name) for name in ("step_type", "reward", "discount", "observation", "prev_action")}
    found |= rows.env_info
    tasks = found.get("task_id", np.zeros((NUM_STEPS + 1, LANES), np.int32))
    for lane in range(LANES):
        model = Model(lane, shifts, np.broadcast_to(limit, LANES)[lane], bool(masked))
        if task == "given":
            assert tasks[:, lane].tolist() == [given[lane]] * (NUM_STEPS + 1)
        expected = play(model, ACTIONS[:, lane], mode == "same_step", tasks[:, lane])
        for name, values in found.items():
            assert values[:, lane].tolist() == [row[name] for row in expected], (name, lane)
    assert rows.env_id.tolist() == [list(range(LANES))] * (NUM_STEPS + 1)
    if task == "drawn":
        assert set(tasks.ravel().tolist()) == {0, 1, 2}


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_what_a_state_shows_is_what_its_row_shows(mode):
    tasks = Multitask([ledger(), ledger(1), ledger(3)], np.array([1, 0, 2, 1, 2], np.int32))
    env = AutoReset(MaskedActions(TimeLimit(tasks, 4), "first"), mode)
    step = jax.jit(lambda state, action: (*env.step(state, action), env.env_info_of(state), env.observation_of(state)))
    state, row = env.reset(jax.random.key(0))
    for action in ACTIONS[:12]:
        before = row
        state, row, info, observation = step(state, action)
        assert_equal(*jax.device_get((info, {name: before.env_info[name] for name in info})))
        assert_equal(*jax.device_get((observation, before.observation)))
    assert set(info) == {"action_mask", "phase", "task_id"}


# --- wrappers in other wrappers --------------------------------------------------------------------------------------

WRAPPERS = {
    "MaskedActions": {},
    "StickyAction": {"probability": 0.4, "duration": (1, 2)},
    "ActionDelay": {"delay": 1},
    "ActionRepeat": {"num": 2},
    "FrameStack": {"num": 3},
    "DelayObservation": {"delay": 2},
    "DelayReward": {"num": np.array([1, 2, 3, 2, 1], np.int32)},
    "PreviousActionAndReward": {},
    "TimeLimit": {"duration": np.array([3, 4, 2, 9, 2], np.int32)},
    "ResampleParams": {"distributions": {"rate": (1, 9)}},
    "EpisodeStatistics": {},
    "Trials": {"num_episodes": np.array([2, 1, 3, 2, 1], np.int32)},
}
OTHER = np.array([3, 0, 4, 1, 2], np.int32)  # the lanes in another order


def orders():
    """Two orders of all wrappers and their reverses: of any two, each stands inside and outside of the other."""
    shuffled = [list(np.random.default_rng(seed).permutation(list(WRAPPERS))) for seed in range(2)]
    return [order for names in shuffled for order in (names, names[::-1])]


def wrapped(names):
    env = TimeLimit(ledger(), 10**6)  # never reached; trials need a bound
    for name in names:
        env = getattr(wrappers, name)(env, **WRAPPERS[name])
    return env


@jax.jit
def played(env, actions, env_id):
    """All rows, of lanes ``env_id``."""

    def one(carry, action):
        carry = env.step(carry[0], action)
        return carry, carry[1]

    start = env.reset(jax.random.key(1), env_id=env_id)
    _, later = jax.lax.scan(one, start, actions)
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start[1], later)


@pytest.mark.parametrize("names", orders(), ids=" in ".join)
def test_wrappers_in_any_order_have_equal_episodes_in_both_modes_and_independent_lanes(names):
    lanes, env = np.arange(LANES, dtype=np.int32), AutoReset(wrapped(names), "next_step", "select")
    rows = jax.device_get(played(env, ACTIONS, lanes))
    other = jax.device_get(played(env.take(OTHER), ACTIONS[:, OTHER], OTHER))
    assert_equal(other, jax.tree.map(lambda x: x[:, OTHER], rows))

    # In same_step mode the agent acts on every row; those after LAST belong to steps that restart here.
    acted = [np.flatnonzero(rows.step_type[1:, lane] != StepType.FIRST) for lane in range(LANES)]
    count = min(map(len, acted)) - 1  # the FIRST row that follows must be known
    actions = np.stack([ACTIONS[steps[:count], lane] for lane, steps in enumerate(acted)], axis=1)
    same = AutoReset(wrapped(names), "same_step", "compact", block=2)
    of_state = set(jax.eval_shape(same.env_info_of, same.start_shapes()[0]))
    assert {"action_mask", "phase"} <= of_state
    found = jax.device_get(played(same, actions, lanes))
    num_ends = 0
    for lane, steps in enumerate(acted):
        ours = jax.tree.map(lambda x, lane=lane: x[1:, lane], found)
        stepped = jax.tree.map(lambda x, at=1 + steps[:count], lane=lane: x[at, lane], rows)
        ends = stepped.step_type == StepType.LAST
        shown = jax.tree.map(lambda x, at=1 + steps[:count] + ends, lane=lane: x[at, lane], rows)
        info = dict(ours.env_info)
        assert_equal(info.pop("final_observation"), stepped.observation)
        expected = {name: (shown if name in of_state else stepped).env_info[name] for name in info}
        assert_equal(
            dataclasses.replace(ours, env_info=info),
            dataclasses.replace(stepped, observation=shown.observation, env_info=expected),
        )
        num_ends += ends.sum()
    assert num_ends > LANES
