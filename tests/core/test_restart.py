"""Restart strategies: ``cond`` and ``compact`` start the same episodes as ``select``, under ``vmap`` too."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.testing import Counting
from jaxenv.testing.toys import Counters
from jaxenv.wrappers import AutoReset, TimeLimit
from tests.rows import assert_equal, random_actions, unrolled, without_first

FIRST, MID, LAST = 0, 1, 2


def counting(lengths, mode="next_step", strategy="select", **kwargs):
    lengths = np.asarray(lengths)
    return AutoReset(Counting(lengths, num_envs=len(lengths), **kwargs), mode, strategy)


LANES = 37


def out_of_phase(mode, strategy, block=8):
    """Integer lanes of several lengths from 1 on; more lanes end at once than one block of ``compact`` holds."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 6, (LANES, 7))
    lengths[:20, 0] = 2
    lengths[20:25, 0] = 1
    env = TimeLimit(Counting(lengths, stride=100, num_envs=LANES), 4)
    return AutoReset(env, mode, strategy, block)


def assert_out_of_phase(rows, block=8):
    last = rows.step_type == LAST
    some = last.any(1) & ~last.all(1)
    assert some.sum() >= 3
    assert (rows.discount[last] == 0).any()
    assert (rows.discount[last] == 1).any()
    assert last[1].any(), "some lane must end on its very first step"
    assert last.sum(1).max() > block, "more lanes must end at once than a block holds"


@pytest.fixture(scope="module", params=["next_step", "same_step"])
def selected(request):
    env = out_of_phase(request.param, "select")
    actions = random_actions(env, 40)
    rows = unrolled(env, actions)
    assert_out_of_phase(rows)
    return request.param, actions, rows


@pytest.mark.parametrize(("strategy", "block"), [("cond", 64), ("compact", 1), ("compact", 8), ("compact", 64)])
def test_every_strategy_equals_select_bitwise_on_integers(selected, strategy, block):
    mode, actions, rows = selected
    assert_equal(unrolled(out_of_phase(mode, strategy, block), actions), rows)


@pytest.mark.parametrize("strategy", ["cond", "compact"])
def test_every_strategy_equals_select_under_vmap_over_batches_and_batches_of_batches(strategy):
    lengths = np.random.default_rng(0).integers(1, 6, (LANES, 7))
    actions = jnp.ones((20, LANES), jnp.int32)

    def played(strategy, more, limit):
        # Lengths differ per lane of a batch; one limit applies to all lanes of a batch of batches.
        env = AutoReset(
            TimeLimit(Counting(lengths + more, stride=100, num_envs=LANES), limit), "next_step", strategy, 8
        )
        return jax.lax.scan(env.step, env.reset(jax.random.key(0))[0], actions)[1]

    more, limits = jnp.arange(3), jnp.array([3, 5])
    inner = jax.vmap(functools.partial(played, strategy), in_axes=(0, None))
    together = jax.device_get(jax.jit(jax.vmap(inner, in_axes=(None, 0)))(more, limits))
    alone = jax.jit(functools.partial(played, "select"))
    for i, j in np.ndindex(2, 3):
        expected = jax.device_get(alone(more[j], limits[i]))
        assert_equal(jax.tree.map(lambda x, i=i, j=j: x[i, j], together), expected)


@pytest.mark.compiled
@pytest.mark.parametrize("strategy", ["cond", "compact"])
def test_vmap_keeps_the_branch_on_ended_lanes(strategy):
    env = out_of_phase("next_step", strategy)
    states = jax.vmap(lambda key: env.reset(key)[0])(jax.random.split(jax.random.key(0), 3))
    text = str(jax.make_jaxpr(jax.vmap(env.step))(states, jnp.zeros((3, LANES), jnp.int32)))
    assert "cond[" in text  # selections, into which JAX's own rule turns branches, have the same results


class FromTable(Counting):
    """Reads its first episode from a constant table."""

    def initial(self, stream):
        episode = jnp.asarray(np.arange(7, dtype=np.int32))[jaxenv.random.integers(stream, (), 0, 7)]
        return Counters(episode, jnp.zeros_like(episode))


@pytest.mark.parametrize("strategy", ["cond", "compact"])
def test_vmap_over_a_branch_around_the_step_of_a_task_with_a_constant_table(strategy):
    # JAX makes the table an operand of the branch, and vmap over the predicate gives every operand a batch axis.
    env = AutoReset(FromTable(np.array([[1], [2], [3]]), num_envs=3), "next_step", strategy)
    actions = jnp.ones((2, 3), jnp.int32)

    def step(state, action):
        return env.step(state, action)[0]

    def step_if(go, state, action):
        return jax.lax.cond(go, step, lambda state, action: state, state, action)

    @jax.jit
    def played(keys):
        states = jax.vmap(step)(jax.vmap(lambda key: env.reset(key)[0])(keys), actions)  # lane 0 has ended
        return states, jax.vmap(step)(states, actions), jax.vmap(step_if)(jnp.array([True, False]), states, actions)

    states, stepped, found = jax.device_get(played(jax.random.split(jax.random.key(0), 2)))
    assert states.ended[:, 0].all()
    for batch, expected in enumerate((stepped, states)):
        assert_equal(*(jax.tree.map(lambda x, batch=batch: x[batch], tree) for tree in (found, expected)))


def test_same_step_equals_next_step_without_first_rows():
    env = out_of_phase("next_step", "select")
    actions = random_actions(env, 60)
    longer = unrolled(env, actions)
    # Each lane's same_step actions are those of next_step without the ignored ones, which led to FIRST rows.
    kept = [[] for _ in range(LANES)]
    for t in range(60):
        for lane in range(LANES):
            if longer.step_type[t + 1, lane] != FIRST:
                kept[lane].append(int(actions[t, lane]))
    shortest = min(len(lane) for lane in kept)
    shorter = unrolled(out_of_phase("same_step", "select"), jnp.array([lane[:shortest] for lane in kept], jnp.int32).T)
    assert_out_of_phase(shorter)
    for lane, expected in enumerate(without_first(longer)):
        for name in ("step_type", "reward", "discount", "prev_action"):
            np.testing.assert_array_equal(
                getattr(shorter, name)[:, lane], getattr(expected, name)[: shortest + 1], err_msg=name
            )
        np.testing.assert_array_equal(
            shorter.env_info["time_limit_reached"][:, lane], expected.env_info["time_limit_reached"][: shortest + 1]
        )
        np.testing.assert_array_equal(
            shorter.env_info["final_observation"][:, lane], expected.observation[: shortest + 1]
        )


@pytest.mark.parametrize(
    "id",
    [
        "CartPole-v1",
        *(pytest.param(id, marks=pytest.mark.thorough) for id in ("Pendulum-v1", "CardGame-v0", "TicTacToe-v0")),
    ],
)
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_compact_equals_select_up_to_rounding(id, mode):
    limit = np.random.default_rng(1).integers(3, 20, 130)
    envs = [
        jaxenv.make(id, num_envs=130, autoreset=mode, reset_strategy=reset, max_episode_steps=limit)
        for reset in ("select", "compact")
    ]
    actions = random_actions(envs[0], 60)
    select, compact = (unrolled(env, actions) for env in envs)
    last = select.step_type == LAST
    assert (last.any(1) & ~last.all(1)).sum() >= 3
    assert_equal(compact, select, rtol=1e-4)


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_compact_starts_a_lane_with_its_own_params(mode):
    options = {"max_episode_steps": np.array([2, 3, 9, 9, 4]), "start_range": np.arange(1, 6, dtype=np.float32) / 20}
    select, compact = (
        jaxenv.make("CartPole-v1", 5, autoreset=mode, reset_strategy=strategy, **options)
        for strategy in ("select", "compact")
    )
    actions = random_actions(select, 9)
    assert_equal(unrolled(compact, actions), unrolled(select, actions), rtol=1e-4)


@pytest.mark.compiled
def test_a_strategy_per_platform_resolves_to_the_current_platform():
    # Every strategy has the same results.
    class PerPlatform(Counting):
        reset_strategy = {"cpu": "compact", "default": "select"}

    env = AutoReset(PerPlatform(np.array([[2], [3]]), num_envs=2))
    actions = jnp.ones((9, 2), jnp.int32)
    text = jax.jit(lambda s, a: env.step(s, a)).lower(env.reset(jax.random.key(0))[0], actions[0]).as_text()
    assert "while" in text
    assert_equal(unrolled(env, actions), unrolled(counting([[2], [3]]), actions))
