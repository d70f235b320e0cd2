"""AutoReset: the rows of each mode, gradients and clocks over restarts, and refused stacks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import Wrapper, tree
from jaxenv.testing import Counting, count_to_two, random_environment
from jaxenv.wrappers import AutoReset, BatchWrapper, TimeLimit
from tests.rows import assert_equal, unrolled

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


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_an_episode_that_a_time_limit_ends_is_followed_by_the_start_of_another(mode):
    env = AutoReset(TimeLimit(Counting(np.array([99])), 3), mode)

    def policy(timestep, stream, memory):
        return jaxenv.rollout.PolicyStep(memory, memory + 1, info=env.episode_starts(timestep))

    # One lane without a termination, in calls of two rows.
    state, timestep = env.reset(jax.random.key(0))
    memory, starts, actions = jnp.full(1, 5, jnp.int32), [], []
    for _ in range(5):
        (state, timestep, memory), rows = jaxenv.unroll(
            env, policy, state, timestep, 2, initial_memory=jnp.full(1, 5, jnp.int32), memory=memory
        )
        starts, actions = starts + rows.policy_info[:, 0].tolist(), actions + rows.action[:, 0].tolist()
    period = [5, 6, 7, 8] if mode == "next_step" else [5, 6, 7]
    assert actions == (period * 4)[:10]
    assert starts == [action == 5 for action in actions]


def test_the_mock_cycles_first_mid_last():
    rows = unrolled(AutoReset(count_to_two()), jnp.zeros((7, 1), jnp.int32))
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


# --- gradients, keys, clocks -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["select", "cond", "compact"])
@pytest.mark.parametrize(("param", "value"), [("force", 10.0), ("start_range", 0.05)])
def test_gradients_stop_at_the_start_of_an_episode(strategy, param, value):
    """Lane 0 restarts on the third row, so neither its past nor its start may contribute a gradient there."""
    env = jaxenv.make("CartPole-v1", num_envs=3, max_episode_steps=np.array([2, 9, 9]), reset_strategy=strategy)

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


@pytest.mark.compiled
def test_no_operation_selects_scatters_or_gathers_the_lane_keys_in_select():
    # The same keys after a selection would cost time only.
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
        (lambda env: AutoReset(env, "later"), r"mode .*got 'later'"),
        (
            lambda env: AutoReset(env, reset_strategy="fast"),
            r"strategy .*got 'fast'",
        ),
        (lambda env: AutoReset(env, block=0), r"block .*got 0"),
    ],
)
def test_an_invalid_stack_or_argument_is_refused_by_name(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(count_to_two(2))


def test_a_wrapper_whose_begin_and_step_disagree_is_named_at_trace_time():
    class Forgets(Wrapper):
        def begin(self, *args, **kwargs):
            state, timestep = self.env.begin(*args, **kwargs)
            return state, dataclasses.replace(timestep, env_info={"extra": timestep.reward})

    env = AutoReset(Forgets(count_to_two(2)))
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match=r"<Forgets<Counting>>: begin and step .*got an empty dict"):
        env.step(state, jnp.zeros(2, jnp.int32))


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize(
    ("row", "rule"),
    [
        (lambda row: row.reward, r"in step, timestep .*got an array"),
        (
            lambda row: dataclasses.replace(row, env_info={"extra": row.reward}),
            r"begin and step .*got a dict with 'extra'",
        ),
        (
            lambda row: dataclasses.replace(row, reward=row.reward[0]),
            r"begin and step .*got float32\[\]",
        ),
    ],
)
def test_a_step_that_returns_another_row_is_refused_in_one_sentence(mode, row, rule):
    class Changes(Wrapper):
        owns = frozenset({"reward", "env_info"})

        def proceed(self, state, action):
            state, timestep = self.env.proceed(state, action)
            return state, row(timestep)

    env = AutoReset(Changes(count_to_two(2)), mode)
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match=f"^<Changes<Counting>>: {rule}"):
        jax.eval_shape(env.step, state, jnp.zeros(2, jnp.int32))


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
