"""EpisodeStatistics, EvalReturn and RunStats on three lanes, the first one of which ends and restarts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.core._moments import Count, Sum
from jaxenv.rollout import Metrics, evaluate, to_host
from jaxenv.specs import Bounded, discrete
from jaxenv.testing import Counting, random_environment
from jaxenv.wrappers import AutoReset, DelayReward, EpisodeStatistics, EvalReturn, RunStats, TimeLimit
from tests.rows import unrolled

F, T = False, True


def env(lanes=3):
    """Lane 0 ends after two steps, the others never; the reward is the action."""
    return Counting(np.array([[2], [0], [0]])[:lanes], num_envs=lanes)


def cut(lanes=3):
    """As `env`, but a limit ends the episodes of lane 0."""
    return TimeLimit(Counting(np.array([0]), num_envs=lanes), np.array([2, 99, 99])[:lanes])


ACTIONS = jnp.array([[2, 1, 3], [2, 1, 3], [9, 1, 3], [4, 1, 3], [5, 1, 3]])


@pytest.mark.parametrize(
    "build", [lambda e: AutoReset(EpisodeStatistics(e)), lambda e: EpisodeStatistics(AutoReset(e))]
)
def test_statistics_are_on_last_rows_only(build):
    rows = unrolled(build(env()), ACTIONS)
    episode = rows.env_info["episode"]
    assert rows.step_type[:, 0].tolist() == [0, 1, 2, 0, 1, 2]
    assert episode["return"].tolist() == [[0, 0, 0], [0, 0, 0], [4, 0, 0], [0, 0, 0], [0, 0, 0], [9, 0, 0]]
    assert episode["length"].tolist() == [[0, 0, 0], [0, 0, 0], [2, 0, 0], [0, 0, 0], [0, 0, 0], [2, 0, 0]]
    assert episode["valid"][:, 0].tolist() == episode["terminated"][:, 0].tolist() == [F, F, T, F, F, T]
    assert not episode["valid"][:, 1:].any()
    assert not episode["truncated"].any()


@pytest.mark.parametrize(
    "build",
    [lambda e: AutoReset(EpisodeStatistics(e), "same_step"), lambda e: EpisodeStatistics(AutoReset(e, "same_step"))],
)
def test_a_same_step_last_row_reports_the_episode_that_it_ends(build):
    episode = unrolled(build(env()), ACTIONS).env_info["episode"]
    assert episode["return"][:, 0].tolist() == [0, 0, 4, 0, 13, 0]
    assert episode["length"][:, 0].tolist() == [0, 0, 2, 0, 2, 0]
    assert episode["length"][:, 1:].sum() == 0


def test_truncation_and_termination_are_distinguished_and_termination_wins_a_tie():
    limited = TimeLimit(env(), np.array([2, 3, 4]))
    episode = unrolled(AutoReset(EpisodeStatistics(limited)), ACTIONS[:4]).env_info["episode"]
    assert episode["truncated"].tolist()[3] == [F, T, F]
    assert episode["truncated"].tolist()[4] == [F, F, T]
    assert (episode["terminated"].tolist()[2], episode["truncated"].tolist()[2]) == ([T, F, F], [F, F, F])
    assert episode["return"][3].tolist() == [0, 3, 0]


def test_a_vector_reward_has_a_vector_return():
    rewards = Bounded((2,), np.float32, -1, 1, "reward")
    task = random_environment(discrete(3, name="observation"), discrete(2, name="action"), rewards, 0.4, num_envs=3)
    rows = unrolled(AutoReset(EpisodeStatistics(task)), jnp.zeros((12, 3), jnp.int32))
    total, last = np.zeros((3, 2)), rows.step_type == 2
    assert last.any()
    for t in range(13):
        total += rows.reward[t]
        np.testing.assert_allclose(rows.env_info["episode"]["return"][t], total * last[t][:, None], atol=1e-6)
        total[last[t]] = 0


def test_nested_episode_statistics_are_refused():
    with pytest.raises(ValueError, match=r"EpisodeStatistics: .* already has env_info\['episode'\]"):
        EpisodeStatistics(EpisodeStatistics(env()))


@pytest.mark.parametrize("task", [env, cut])
@pytest.mark.parametrize("build", [lambda e: AutoReset(EvalReturn(e)), lambda e: EvalReturn(AutoReset(e))])
def test_eval_return_is_always_present_and_valid_exactly_at_the_end(build, task):
    rows = unrolled(build(task()), ACTIONS)
    assert rows.env_info["eval_episode_return"].dtype == np.float32
    assert rows.env_info["eval_episode_return"][:, 0].tolist() == [0, 0, 4, 0, 0, 9]
    np.testing.assert_array_equal(rows.env_info["eval_episode_return_valid"], rows.step_type == 2)


def counters(env, steps):
    """The counters after every step: ``[T + 1, 4, B]``."""

    @jax.jit
    def run(env, key):
        state, _ = env.reset(key)

        def one(state, action):
            state, _ = env.step(state, action)
            return state, state

        _, later = jax.lax.scan(one, state, jnp.zeros((steps, env.num_envs), jnp.int32))
        states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), state, later)
        return states.episodes, states.resets, states.total_steps, states.episode_steps

    return np.stack([np.asarray(x) for x in jax.device_get(run(env, jax.random.key(0)))], axis=1)


def test_run_counters_survive_restarts():
    seen = counters(RunStats(AutoReset(env())), 5)
    assert seen[:, :, 0].tolist() == [
        [0, 1, 0, 0],
        [0, 1, 1, 1],
        [1, 1, 2, 2],
        [1, 2, 2, 0],
        [1, 2, 3, 1],
        [2, 2, 4, 2],
    ]
    assert seen[-1, :, 1].tolist() == [0, 1, 5, 5]


def test_run_counters_count_same_step_rows():
    seen = counters(RunStats(AutoReset(env(), "same_step")), 4)
    assert seen[:, :, 0].tolist() == [[0, 1, 0, 0], [0, 1, 1, 1], [1, 2, 2, 0], [1, 2, 3, 1], [2, 3, 4, 0]]


def test_run_counters_are_equal_inside_and_outside_auto_reset():
    inside, outside = AutoReset(RunStats(env())), RunStats(AutoReset(env()))

    @jax.jit
    def last(env, key):
        state, _ = env.reset(key)
        return jax.lax.scan(lambda s, a: (env.step(s, a)[0], None), state, ACTIONS)[0]

    a, b = last(inside, jax.random.key(0)).inner, last(outside, jax.random.key(0))
    for name in ("episodes", "resets", "total_steps", "episode_steps"):
        np.testing.assert_array_equal(np.asarray(getattr(a, name)), np.asarray(getattr(b, name)), err_msg=name)


def test_run_counters_count_beyond_32_bits():
    stack = RunStats(AutoReset(env()))
    state, _ = stack.reset(jax.random.key(0))
    full = Count(jnp.zeros(3, jnp.uint32), jnp.full(3, np.uint32(2**32 - 1)))
    state, _ = stack.step(tree.rebuild(state, total_steps=full), ACTIONS[0])
    assert np.asarray(state.total_steps).tolist() == [2**32] * 3


# --- the last episodes of every lane ---------------------------------------------------------------------------------


def recent_after(stack, actions):
    """The last episodes of lane 0 after the actions: its returns and its lengths."""

    @jax.jit
    def run(env, key):
        state, _ = env.reset(key)
        return jax.lax.scan(lambda s, a: (env.step(s, a)[0], None), state, actions[:, : env.num_envs])[0]

    state = run(stack, jax.random.key(0))
    recent = getattr(state, "recent", None) or state.inner.recent
    assert not recent.lengths[1:].any(), "the other lanes finish no episode"
    return recent.returns[0].tolist(), recent.lengths[0].tolist()


@pytest.mark.parametrize("task", [env, cut])
@pytest.mark.parametrize("build", [lambda e: RunStats(AutoReset(e), 2), lambda e: AutoReset(RunStats(e, 2))])
def test_run_stats_keeps_the_last_episodes_of_each_lane_across_restarts(build, task):
    assert recent_after(build(task(2)), ACTIONS[:2]) == ([4, 0], [2, 0]), "a length of 0 marks an empty place"
    assert recent_after(build(task(2)), ACTIONS) == ([4, 9], [2, 2])
    assert recent_after(build(task(2)), jnp.tile(ACTIONS[:3], (3, 1))) == ([4, 4], [2, 2]), "the oldest is replaced"


def test_each_lane_keeps_its_own_last_episodes_and_replaces_the_oldest():
    stack = RunStats(AutoReset(Counting(np.array([[2], [1], [0]]), num_envs=3)), 2)
    state, _ = stack.reset(jax.random.key(0))
    for actions in ACTIONS.at[:, 1].set(jnp.array([6, 0, 7, 0, 8])):  # lane 1 restarts on every second step
        state, _ = stack.step(state, actions)
    assert state.recent.returns.tolist() == [[4, 9], [8, 7], [0, 0]]
    assert state.recent.lengths.tolist() == [[2, 2], [1, 1], [0, 0]]


def test_places_without_an_episode_are_not_valid():
    state, _ = RunStats(AutoReset(env()), 2).reset(jax.random.key(0))
    assert not state.recent.valid.any()
    stack = RunStats(AutoReset(env()), 2)
    state, _ = stack.reset(jax.random.key(0))
    for actions in ACTIONS[:2]:
        state, _ = stack.step(state, actions)
    assert state.recent.valid[0].tolist() == [True, False]
    assert state.recent.returns[state.recent.valid].tolist() == [4]


def test_the_last_episodes_are_counted_in_same_step_mode():
    assert recent_after(RunStats(AutoReset(env(2), "same_step"), 2), ACTIONS) == ([4, 13], [2, 2])


def test_an_episode_restarted_by_hand_is_not_among_the_last_ones_and_leaves_no_reward():
    stack = RunStats(AutoReset(env()), 2)
    state, timestep = stack.reset(jax.random.key(0))
    state, timestep = stack.step(state, ACTIONS[0])
    state, timestep = jaxenv.reset_where(stack, state, timestep, jnp.array([True, False, False]))
    for actions in ACTIONS[:2]:
        state, timestep = stack.step(state, actions)
    assert (state.recent.returns[0].tolist(), state.recent.lengths[0].tolist()) == ([4, 0], [2, 0])


def test_an_episode_that_ends_abnormally_is_not_among_the_last_ones():
    class Failing(Counting):
        def transition(self, state, action, stream):
            out = super().transition(state, action, stream)
            return tree.rebuild(out, env_info={"abnormal": action == 9})

    stack = RunStats(AutoReset(Failing(np.array([[2], [0], [0]]), num_envs=3)), 2)
    nine = ACTIONS.at[0, 0].set(9)  # fails in the first step, then restarts
    assert recent_after(stack, jnp.concatenate([nine[:2], ACTIONS])) == ([4, 9], [2, 2])


# --- sums that outgrow float32 ---------------------------------------------------------------------------------------

LARGE = 2**24  # float32 has no number between it and LARGE + 2


class Rich(Counting):
    """Pays ``LARGE`` for the action 9, otherwise the action; the third step ends the episode."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return tree.rebuild(out, reward=jnp.where(action == 9, np.float32(LARGE), out.reward))


RICH = jnp.array([[9], [1], [1]])


@pytest.mark.parametrize(
    ("wrap", "shown"),
    [
        (EpisodeStatistics, lambda rows: rows.env_info["episode"]["return"]),
        (EvalReturn, lambda rows: rows.env_info["eval_episode_return"]),
        (lambda e: DelayReward(e, 9), lambda rows: rows.reward),
    ],
)
def test_a_long_return_does_not_stop_growing_where_float32_does(wrap, shown):
    rows = unrolled(wrap(Rich(np.array([3]), num_envs=1)), RICH)
    assert shown(rows)[-1].tolist() == [LARGE + 2]


def test_measured_and_evaluated_returns_do_not_stop_growing_where_float32_does():
    rows = unrolled(AutoReset(Rich(np.array([3]), num_envs=1)), RICH)
    rows = tree.rebuild(rows, env_info={"paid": rows.reward})
    metrics = Metrics(env_info=("paid",))
    state = metrics.init(jax.tree.map(lambda x: x[0], rows))
    found = to_host(metrics.compute(metrics.totals(metrics.update_rows(state, rows))))
    assert (found["return_mean"], found["paid"]) == (LARGE + 2, LARGE + 2)

    def policy(timestep, stream):
        return jnp.where(timestep.observation == 0, 9, 1)

    assert evaluate(AutoReset(Rich(np.array([3]))), policy, jax.random.key(0)).returns.tolist() == [LARGE + 2]


def test_an_infinite_reward_makes_an_infinite_return():
    total = Sum.zeros(())
    for reward in (np.float32(np.inf), np.float32(1)):
        total = total.add(reward)
    assert float(total.value) == np.inf


@pytest.mark.parametrize("build", [lambda env: RunStats(AutoReset(env)), lambda env: AutoReset(RunStats(env))])
def test_run_counters_count_an_episode_that_was_truncated(build):
    # Lane 0 is only ever truncated (at its limit of 2), lane 1 only ever terminates (after 2 steps).
    env = build(TimeLimit(Counting(np.array([[0], [2]]), num_envs=2), np.array([2, 9])))
    state, row = env.reset(jax.random.key(0))
    for _ in range(5):  # F M L F M L
        state, row = env.step(state, np.zeros(2, np.int32))
    assert row.truncated.tolist() == [True, False]
    counters = state if isinstance(env, RunStats) else state.inner
    assert np.asarray(counters.episodes).tolist() == [2, 2]
    assert np.asarray(counters.total_steps).tolist() == [4, 4]
