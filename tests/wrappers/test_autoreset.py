"""AutoReset: the rows of each mode, equality of the restart strategies (`jaxenv._restart`), and ``reset_where``."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import Wrapper, tree
from jaxenv.testing import Counting, mock_012, random_environment
from jaxenv.wrappers import AutoReset, BatchWrapper, TimeLimit
from tests.rows import assert_equal, random_actions, unrolled, without_first

FIRST, MID, LAST = 0, 1, 2


def counting(lengths, mode="next_step", strategy="select", **kwargs):
    lengths = np.asarray(lengths)
    return AutoReset(Counting(lengths, num_envs=len(lengths), **kwargs), mode, strategy)


# --- documented rows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["select", "cond", "compact"])
def test_next_step_returns_the_documented_rows_for_lengths_2_3_3(strategy):
    env = counting([[2], [3], [3]], strategy=strategy)
    rows = unrolled(env, jnp.tile(jnp.array([1, 2, 3], jnp.int32), (5, 1)))
    assert rows.observation.tolist() == [[0, 0, 0], [1, 1, 1], [2, 2, 2], [0, 3, 3], [1, 0, 0], [2, 1, 1]]
    assert rows.reward.tolist() == [[0, 0, 0], [1, 2, 3], [1, 2, 3], [0, 2, 3], [1, 0, 0], [1, 2, 3]]
    assert rows.step_type.tolist() == [[0, 0, 0], [1, 1, 1], [2, 1, 1], [0, 2, 2], [1, 0, 0], [2, 1, 1]]
    assert rows.discount.tolist() == [[1, 1, 1], [1, 1, 1], [0, 1, 1], [1, 0, 0], [1, 1, 1], [0, 1, 1]]
    assert rows.prev_action.tolist() == [[0, 0, 0], [1, 2, 3], [1, 2, 3], [0, 2, 3], [1, 0, 0], [1, 2, 3]]


@pytest.mark.parametrize("strategy", ["select", "cond", "compact"])
def test_same_step_returns_the_documented_rows_for_lengths_2_3_3(strategy):
    env = counting([[2], [3], [3]], "same_step", strategy)
    rows = unrolled(env, jnp.tile(jnp.array([1, 2, 3], jnp.int32), (4, 1)))
    assert rows.observation.tolist() == [[0, 0, 0], [1, 1, 1], [0, 2, 2], [1, 0, 0], [0, 1, 1]]
    assert rows.reward[1:].tolist() == [[1, 2, 3]] * 4
    final, last = rows.env_info["final_observation"], rows.step_type == LAST
    assert [f[m].tolist() for f, m in zip(final, last, strict=True)] == [[], [], [2], [3, 3], [2]]
    assert final[0].tolist() == [0, 0, 0]
    assert np.array_equal(final[~last], rows.observation[~last])


def test_the_mock_cycles_first_mid_last():
    rows = unrolled(AutoReset(mock_012()), jnp.zeros((7, 1), jnp.int32))
    assert rows.observation[:, 0].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert rows.step_type[:, 0].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert rows.reward[:, 0].tolist() == [0, 0, 1, 0, 0, 1, 0, 0]
    assert rows.discount[:, 0].tolist() == [1, 1, 0, 1, 1, 0, 1, 1]
    assert ((rows.step_type == FIRST).sum(), (rows.step_type == LAST).sum()) == (3, 2)


def test_an_ended_lane_does_not_affect_other_lanes():
    lengths = [[2, 5], [7, 7], [4, 1]]
    together = unrolled(counting(lengths), jnp.full((20, 3), 4, jnp.int32))
    assert np.any((together.step_type == LAST).any(1) & ~(together.step_type == LAST).all(1))
    for lane, one in enumerate(lengths):
        alone = unrolled(counting([one]), jnp.full((20, 1), 4, jnp.int32))
        for name in ("observation", "reward", "discount", "step_type", "prev_action"):
            np.testing.assert_array_equal(getattr(together, name)[:, lane], getattr(alone, name)[:, 0], err_msg=name)


@pytest.mark.parametrize("strategy", ["select", "cond", "compact"])
def test_carried_values_survive_episodes(strategy):
    env = counting([[2], [1], [3]], strategy=strategy, stride=10)
    rows = unrolled(env, jnp.zeros((7, 3), jnp.int32))
    assert rows.observation[:, 0].tolist() == [0, 1, 2, 10, 11, 12, 20, 21]
    assert rows.observation[:, 1].tolist() == [0, 1, 10, 11, 20, 21, 30, 31]
    assert rows.observation[:, 2].tolist() == [0, 1, 2, 3, 10, 11, 12, 13]


class Regret(Counting):
    """Carries the sum of its actions across episodes and shows it."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, state=dataclasses.replace(out.state, episode=state.episode + action))

    def carry(self, old, new):
        return dataclasses.replace(new, episode=old.episode)

    def observe(self, state):
        return state.episode


@pytest.mark.parametrize("strategy", ["select", "cond", "compact"])
def test_the_ignored_action_does_not_change_carried_values(strategy):
    lengths = np.full((2, 1), 2)
    rows = {
        mode: unrolled(AutoReset(Regret(lengths, num_envs=2), mode, strategy), jnp.ones((6, 2), jnp.int32))
        for mode in ("next_step", "same_step")
    }
    assert rows["next_step"].observation[:, 0].tolist() == [0, 1, 2, 2, 3, 4, 4]
    assert rows["same_step"].observation[:5, 0].tolist() == [0, 1, 2, 3, 4]


def test_an_episode_of_one_step_ends_on_its_first_step():
    rows = unrolled(counting([[1], [1]]), jnp.zeros((4, 2), jnp.int32))
    assert rows.step_type[:, 0].tolist() == [FIRST, LAST, FIRST, LAST, FIRST]


# --- all strategies are equal ----------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("strategy", ["cond", "compact"])
def test_vmap_keeps_the_branch_on_ended_lanes(strategy):
    env = out_of_phase("next_step", strategy)
    states = jax.vmap(lambda key: env.reset(key)[0])(jax.random.split(jax.random.key(0), 3))
    text = str(jax.make_jaxpr(jax.vmap(env.step))(states, jnp.zeros((3, LANES), jnp.int32)))
    assert "cond[" in text  # JAX's own batching rule turns branches into selections


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
        jaxenv.make(id, num_envs=130, autoreset=mode, reset=reset, max_episode_steps=limit)
        for reset in ("select", "compact")
    ]
    actions = random_actions(envs[0], 60)
    select, compact = (unrolled(env, actions) for env in envs)
    last = select.step_type == LAST
    assert (last.any(1) & ~last.all(1)).sum() >= 3
    assert_equal(compact, select, rtol=1e-4)


def test_a_strategy_per_platform_resolves_to_the_current_platform():
    class PerPlatform(Counting):
        reset_strategy = {"cpu": "compact", "default": "select"}

    env = AutoReset(PerPlatform(np.array([[2], [3]]), num_envs=2))
    actions = jnp.ones((9, 2), jnp.int32)
    text = jax.jit(lambda s, a: env.step(s, a)).lower(env.reset(jax.random.key(0))[0], actions[0]).as_text()
    assert "while" in text
    assert_equal(unrolled(env, actions), unrolled(counting([[2], [3]]), actions))


# --- gradients, keys, clocks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["select", "cond", "compact"])
@pytest.mark.parametrize(("param", "value"), [("force", 10.0), ("start_range", 0.05)])
def test_gradients_stop_at_the_start_of_an_episode(strategy, param, value):
    """Lane 0 restarts on the third row, so neither its past nor its start may contribute a gradient there."""
    env = jaxenv.make("CartPole-v1", num_envs=3, max_episode_steps=np.array([2, 9, 9]), reset=strategy)

    def final(x):
        stack = env.with_params(**{param: x})
        state, _ = stack.reset(jax.random.key(0))
        _, rows = jax.lax.scan(stack.step, state, jnp.ones((3, 3), jnp.int32))
        return rows.observation[-1, :, 1]

    slope = jax.jit(jax.jacrev(final))(jnp.full(3, value))
    assert slope[0].tolist() == [0, 0, 0]
    assert np.all(np.abs(np.diag(slope)[1:]) > 0.01)
    assert slope[1, 2] == 0


@pytest.mark.parametrize("strategy", ["select", "cond", "compact"])
def test_the_clock_keeps_keys_and_ids_and_counts_episodes(strategy):
    env = counting([[2], [1], [3]], strategy=strategy)
    start, _ = env.reset(jax.random.key(0))
    state = start
    for _ in range(4):
        state, _ = jax.jit(env.step)(state, jnp.zeros(3, jnp.int32))
    before, after = env.clock(start), env.clock(state)
    assert_equal(jax.device_get(after.key), jax.device_get(before.key))
    assert after.env_id.tolist() == [0, 1, 2]
    assert after.episode.tolist() == [1, 2, 1]
    assert after.step.tolist() == [1, 0, 0]


def test_no_operation_selects_scatters_or_gathers_the_lane_keys_in_select():
    env = counting([[2], [3]])
    state, _ = env.reset(jax.random.key(0))
    jaxpr = jax.make_jaxpr(env.step)(state, jnp.zeros(2, jnp.int32))
    words = jaxpr.jaxpr.invars[:2]
    assert [v.aval.dtype.name for v in words] == ["uint32", "uint32"]
    assert jaxpr.jaxpr.outvars[:2] == words


def test_episodes_of_a_lane_start_differently():
    env = jaxenv.make("CartPole-v1", num_envs=5, max_episode_steps=1)
    rows = unrolled(env, jnp.zeros((8, 5), jnp.int32))
    starts = rows.observation[rows.step_type == FIRST]
    assert len(np.unique(starts, axis=0)) == len(starts) == 25


# --- reset_where -----------------------------------------------------------------------------------------------------


def test_reset_where_restarts_the_marked_lanes_only():
    env = jaxenv.make("CartPole-v1", num_envs=4, autoreset=None)
    state, timestep = env.reset(jax.random.key(0))
    state, timestep = env.step(state, jnp.ones(4, jnp.int32))
    mask = jnp.array([True, False, True, False])
    new_state, row = jaxenv.reset_where(env, state, timestep, mask)
    assert row.step_type.tolist() == [FIRST, MID, FIRST, MID]
    assert row.reward.tolist() == [0, 1, 0, 1]
    assert env.clock(new_state).episode.tolist() == [1, 0, 1, 0]
    assert env.clock(new_state).step.tolist() == [0, 1, 0, 1]
    for a, b in zip(jax.tree.leaves(new_state), jax.tree.leaves(state), strict=True):
        assert a[1::2].tolist() == b[1::2].tolist()
    # The next episode of a lane equals the one that AutoReset would start.
    auto = unrolled(jaxenv.make("CartPole-v1", num_envs=4, max_episode_steps=1), jnp.ones((2, 4), jnp.int32))
    np.testing.assert_allclose(row.observation[::2], auto.observation[2, ::2], rtol=1e-6)


def test_reset_where_with_a_key_starts_the_marked_lanes_from_new_keys():
    env = jaxenv.make("CartPole-v1", num_envs=4, autoreset=None)
    state, timestep = env.reset(jax.random.key(0))
    mask = jnp.array([False, True, True, False])
    new_state, row = jaxenv.reset_where(env, state, timestep, mask, jax.random.key(7))
    _, fresh = env.reset(jax.random.key(7))
    np.testing.assert_allclose(row.observation[1:3], fresh.observation[1:3], rtol=1e-6)
    assert row.observation[0].tolist() == timestep.observation[0].tolist()
    assert env.clock(new_state).episode.tolist() == [0, 0, 0, 0]


def test_reset_where_outside_auto_reset_clears_its_flag():
    env = counting([[1], [9]])
    state, timestep = env.reset(jax.random.key(0))
    state, timestep = env.step(state, jnp.zeros(2, jnp.int32))
    assert timestep.step_type.tolist() == [LAST, MID]
    state, timestep = jaxenv.reset_where(env, state, timestep, timestep.is_last())
    assert timestep.step_type.tolist() == [FIRST, MID]
    _, timestep = env.step(state, jnp.zeros(2, jnp.int32))
    assert timestep.step_type.tolist() == [LAST, MID], "the lane must step, not restart a second time"


@pytest.mark.parametrize(
    "mask", [np.array([True]), np.array([1, 0]), np.array([[True, False]])], ids=["size", "dtype", "rank"]
)
def test_reset_where_refuses_a_mask_that_is_not_one_bool_per_lane(mask):
    env = counting([[1], [9]])
    state, timestep = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match=r"mask must be bool\[2\], got"):
        jaxenv.reset_where(env, state, timestep, mask)


def test_without_auto_reset_stepping_past_the_end_stays_finite():
    env = jaxenv.make("CartPole-v1", num_envs=2, autoreset=None)
    rows = unrolled(env, jnp.ones((60, 2), jnp.int32))
    assert (rows.step_type[-1] == LAST).all()
    assert np.isfinite(rows.observation).all()


# --- errors ----------------------------------------------------------------------------------------------------------


class Identity(BatchWrapper):
    def init(self, timestep):
        return ()

    def after(self, shared, lanes, timestep, learn):
        return shared, lanes, timestep


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda env: AutoReset(AutoReset(env)), "already has an AutoReset"),
        (lambda env: AutoReset(Identity(env)), "put it outside AutoReset"),
        (lambda env: AutoReset(env, "later"), "mode must be 'next_step' or 'same_step', got 'later'"),
        (
            lambda env: AutoReset(env, strategy="fast"),
            "strategy must be 'select', 'cond', 'compact' or None, got 'fast'",
        ),
        (lambda env: AutoReset(env, block=0), "block must be at least 1, got 0"),
    ],
)
def test_an_invalid_stack_or_argument_is_refused_by_name(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(mock_012(2))


def test_a_wrapper_whose_begin_and_step_disagree_is_named_at_trace_time():
    class Forgets(Wrapper):
        def begin(self, *args, **kwargs):
            state, timestep = self.env.begin(*args, **kwargs)
            return state, dataclasses.replace(timestep, env_info={"extra": timestep.reward})

    env = AutoReset(Forgets(mock_012(2)))
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match="<Forgets<Counting>>: begin and step must return the same tree"):
        env.step(state, jnp.zeros(2, jnp.int32))


def test_random_lanes_end_independently():
    spec = jaxenv.specs.discrete(3)
    env = AutoReset(random_environment(spec, spec, end_probability=np.array([0.0, 0.2, 1.0]), num_envs=3))
    rows = unrolled(env, jnp.zeros((50, 3), jnp.int32))
    ends = (rows.step_type == LAST).sum(0)
    assert ends[0] == 0
    assert 1 <= ends[1] < 25
    assert ends[2] == 25


def test_a_shared_statistic_is_not_mistaken_for_lanes():
    class Mean(BatchWrapper):
        """A statistic whose length happens to be the number of lanes."""

        def init(self, timestep):
            return jnp.zeros(3)

        def after(self, shared, lanes, timestep, learn):
            return shared + timestep.reward.sum(), lanes, timestep

    env = Mean(counting([[2], [3], [4]]))
    state, timestep = env.reset(jax.random.key(0))
    state, timestep = env.step(state, jnp.array([1, 2, 3], jnp.int32))
    assert isinstance(state.shared, tree.Shared)
    state, timestep = jaxenv.reset_where(env, state, timestep, jnp.array([True, False, False]))
    assert state.shared.value.tolist() == [6, 6, 6]
    assert timestep.step_type.tolist() == [FIRST, MID, MID]
