"""Trials: several episodes of one task, which everything outside takes for one."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data, specs
from jaxenv.core.registry import EnvSpec
from jaxenv.testing import Counting
from jaxenv.wrappers import (
    AgentsAsLanes,
    AutoReset,
    LevelReplay,
    NormalizeReward,
    PreviousActionAndReward,
    ResampleParams,
    TimeLimit,
    Trials,
)
from tests import compositions
from tests.games import Duel, Leavers
from tests.rows import assert_equal, random_actions, unrolled

FIRST, MID, LAST = 0, 1, 2
KEY, OTHER = jax.random.key(3), jax.random.key(8)
MODES = ["next_step", "same_step"]
STRATEGIES = ["select", "cond", "compact"]


def scanned(env, start, actions, of_state):
    """Returns the rows ``[T + 1, B, ...]``, and what ``of_state`` takes from the states at these rows."""

    def one(carry, action):
        carry = env.step(carry[0], action)
        return carry, (carry[1], of_state(carry[0]))

    _, later = jax.lax.scan(one, start, actions)
    first = start[1], of_state(start[0])
    return jax.device_get(jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, later))


# --- rows, against a model of one lane -------------------------------------------------------------------------------

LENGTHS = np.array([[2, 4, 1], [3, 1, 5], [1, 2, 2], [4, 3, 6]], np.int32)
LIMIT, NUMBER = np.array([3, 9, 2, 5], np.int32), np.array([2, 3, 1, 2], np.int32)
ACTIONS = np.random.default_rng(0).integers(1, 10, (40, 4), dtype=np.int32)


class Steps(Counting):
    """`Counting` whose ``env_info`` shows the step of the state, and the step that a transition led to."""

    def state_info(self, state):
        return {"step": state.step}

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, env_info={"led_to": out.state.step})


def restarting(strategy):
    kind = type("Steps", (Steps,), {"reset_strategy": strategy, "__module__": __name__})
    return kind(LENGTHS, stride=100, num_envs=4)


def model(lane, number, same_step):
    """The rows of a lane, played in Python."""
    number = int(np.broadcast_to(number, 4)[lane])
    episode = step = of_trial = trial = trial_steps = 0
    returns, rows = [0.0], []

    def row(kind, reward=0, action=0, discount=1, end=False, reached=False, led_to=0, over=False):
        shown = {"observation": 100 * episode + step, "prev_action": action, "prev_reward": reward, "episode_end": end}
        return {
            "step_type": kind, "reward": reward, "discount": discount, "prev_action": action, "observation": shown,
            "step": step, "led_to": led_to, "time_limit_reached": reached, "trial": trial, "trial_steps": trial_steps,
            "first_return": returns[0] if over else 0, "last_return": returns[-1] if over else 0, "episode_end": end,
        }  # fmt: skip

    rows.append(row(FIRST))
    for action in ACTIONS[:, lane].tolist():
        if rows[-1]["step_type"] == LAST and not same_step:
            episode, step, of_trial, trial, trial_steps, returns = episode + 1, 0, 0, trial + 1, 0, [0.0]
            rows.append(row(FIRST))
            continue
        step, trial_steps = step + 1, trial_steps + 1
        returns[-1] += action
        ended, reached = step == LENGTHS[lane, episode % 3], step >= LIMIT[lane]
        end = bool(ended or reached)
        over = end and of_trial == number - 1
        found = row(
            LAST if over else MID, action, action, 0 if ended and over else 1, end, bool(reached), step, over=over
        )
        if end and (not over or same_step):
            episode, step, of_trial = episode + 1, 0, of_trial + 1
            returns.append(0.0)
            if over:
                of_trial, trial, trial_steps, returns = 0, trial + 1, 0, [0.0]
            found |= {"step": 0, "trial": trial, "trial_steps": trial_steps}
            found["observation"] = {**found["observation"], "observation": 100 * episode}
            if over:  # the first observation of the next trial
                found["observation"] |= {"prev_action": 0, "prev_reward": 0, "episode_end": False}
        rows.append(found)
    return rows


@pytest.mark.parametrize(
    ("mode", "strategy", "number"), [*itertools.product(MODES, STRATEGIES, [NUMBER]), ("next_step", "cond", 2)]
)
def test_rows_are_those_of_a_model_of_one_lane(mode, strategy, number):
    trials = Trials(TimeLimit(restarting(strategy), LIMIT), number)
    env = AutoReset(PreviousActionAndReward(trials), mode, strategy, block=3)
    rows, clock = scanned(env, env.reset(KEY), ACTIONS, env.clock)
    info = rows.env_info
    found = {name: getattr(rows, name) for name in ("step_type", "reward", "discount", "prev_action")}
    found |= {"trial": clock.episode, "trial_steps": clock.step, **info["trial"]}
    found |= {name: info[name] for name in ("step", "led_to", "time_limit_reached")}
    played = [model(lane, number, mode == "same_step") for lane in range(4)]
    assert {row["discount"] for rows in played for row in rows if row["step_type"] == LAST} == {0, 1}
    for lane, expected in enumerate(played):
        for name, values in found.items():
            assert values[:, lane].tolist() == [row[name] for row in expected], (name, lane)
        for name, values in rows.observation.items():
            assert values[:, lane].tolist() == [row["observation"][name] for row in expected], (name, lane)


def test_without_restarts_a_caller_restarts_trials():
    env = Trials(TimeLimit(restarting("select"), LIMIT), 2)
    state, row = env.reset(KEY)
    kinds = []
    for action in ACTIONS[:30]:
        ended = row.is_last()
        state, row = jaxenv.tree.where(
            ended, jaxenv.reset_where(env, state, row, ended), env.step(state, jnp.asarray(action))
        )
        kinds.append(row.step_type)
    expected = [[row["step_type"] for row in model(lane, 2, False)][1:31] for lane in range(4)]
    assert np.asarray(kinds).T.tolist() == expected


@pytest.mark.parametrize("mode", MODES)
def test_one_episode_per_trial_changes_nothing_but_its_entries(mode):
    plain = AutoReset(TimeLimit(restarting("select"), LIMIT), mode)
    env = AutoReset(Trials(TimeLimit(restarting("select"), LIMIT), 1), mode)
    found = unrolled(env, ACTIONS)
    found.env_info.pop("trial")
    assert_equal(found, unrolled(plain, ACTIONS))


def test_advantages_bootstrap_across_the_ends_inside_a_trial():
    """Against a calculation by hand: two trials of two episodes of 2 steps, ended by the task and by the limit."""
    env = AutoReset(Trials(TimeLimit(Counting(np.array([2, 2, 9, 9]), stride=10), 2), 2))
    actions = np.array([[1], [2], [3], [4], [9], [5], [6], [7], [8]], np.int32)
    rows = unrolled(env, actions)
    assert rows.step_type[:, 0].tolist() == [FIRST, MID, MID, MID, LAST, FIRST, MID, MID, MID, LAST]
    values = np.array([[0.5], [1.5], [-2], [3], [7], [0.25], [4], [-1], [2], [6]], np.float32)
    take = lambda index: jax.tree.map(lambda x: x[index], rows)  # noqa: E731
    found = data.gae(take(slice(0, 9)), take(9), values, gamma=0.5, lambda_=0.5).advantages[:, 0]
    v, expected = values[:, 0], {}
    rewards = [1, 2, 3, 4, None, 5, 6, 7, 8]
    for start, last_value in ((0, 0.0), (5, 6.0)):  # the first trial terminates, the second is truncated
        advantage = 0.0
        for t in (start + 3, start + 2, start + 1, start):
            after = last_value if t == start + 3 else v[t + 1]
            advantage = rewards[t] + 0.5 * after - v[t] + 0.25 * advantage
            expected[t] = advantage
    for t, advantage in expected.items():
        assert found[t] == pytest.approx(advantage), t


def test_a_memory_lives_through_a_trial():
    env = AutoReset(Trials(TimeLimit(restarting("select"), LIMIT), 2))

    def policy(timestep, stream, memory):
        return jaxenv.rollout.PolicyStep(jnp.ones(4, jnp.int32), memory + 1, memory)

    state, row = env.reset(KEY)
    _, rows = jaxenv.unroll(env, policy, state, row, 40, initial_memory=jnp.zeros(4, jnp.int32))
    for lane in range(4):
        kinds = rows.timestep.step_type[:, lane]
        since = np.arange(40) - np.maximum.accumulate(np.where(kinds == FIRST, np.arange(40), 0))
        assert rows.policy_info[:, lane].tolist() == since.tolist()
        assert since.max() >= 3  # of one step more than the longest episode of lane 2


# --- one task per trial ----------------------------------------------------------------------------------------------


def walk(num_envs=5, **params):
    """Shows its level in ``env_info``; what else its start draws is the last number of the observation."""
    return TimeLimit(compositions.Walk(num_envs=num_envs, **params), 4)


def trials_of(rows, env):
    """Yields, for each whole trial of a lane, the lane and the rows with which its episodes begin."""
    starts = np.asarray(jax.vmap(env.episode_starts)(rows))
    inside = rows.env_info["trial"]["episode_end"] & (rows.step_type == MID)
    for lane in range(starts.shape[1]):
        begins = np.flatnonzero(starts[:, lane])
        for begin, after in itertools.pairwise(begins):
            yield lane, [begin, *(begin + 1 + np.flatnonzero(inside[begin + 1 : after, lane]))]


@pytest.mark.parametrize("strategy", ["cond", "compact"])
@pytest.mark.parametrize("mode", MODES)
def test_a_trial_has_one_level_and_its_episodes_other_randomness(mode, strategy):
    env = AutoReset(Trials(walk(), 3), mode, strategy, block=2)
    rows = unrolled(env, np.ones((80, 5), np.int32), KEY)
    levels, by_lane, drawn = set(), {}, []
    for lane, starts in trials_of(rows, env):
        assert len(starts) == 3
        shown = [(int(rows.env_info["length"][t, lane]), int(rows.env_info["value"][t, lane])) for t in starts]
        assert len(set(shown)) == 1
        drawn += [float(rows.observation[t, lane, 3]) for t in starts]
        levels.add(shown[0])
        by_lane.setdefault(lane, set()).add(shown[0])
    assert len(set(drawn)) == len(drawn)
    assert len(levels) > 8
    assert all(len(found) > 2 for found in by_lane.values())


def test_levels_are_those_of_trials():
    env = AutoReset(Trials(walk(), 2))
    level = jaxenv.sample_level(env, KEY)
    assert_equal(*jax.device_get((env.reset(KEY), env.reset(KEY, level=level))))
    given = compositions.Plan(jnp.array([1, 2, 3, 4, 5]), jnp.array([9, 8, 7, 6, 5]))
    for fixed, every in ((env.with_level(given), True), (env, False)):
        start = fixed.reset(OTHER) if every else fixed.reset(OTHER, level=given)
        rows = scanned(fixed, start, np.ones((30, 5), np.int32), lambda _: ())[0]
        begins = np.cumsum(rows.step_type == FIRST, axis=0)
        same = rows.env_info["value"] == given.value[None]
        assert same[begins == 1].all()
        assert same.all() == every
    state, row = env.reset(KEY)
    mask = jnp.array([True, False, True, False, False])
    state, row = jaxenv.reset_where(env, state, row, mask, level=given)
    assert (np.asarray(row.env_info["value"]) == given.value)[mask].all()


@pytest.mark.parametrize("mode", MODES)
def test_level_replay_assigns_the_levels_of_trials(mode):
    env = LevelReplay(AutoReset(Trials(walk(), 2), mode, "compact"))
    given = compositions.Plan(jnp.array([1, 2, 3, 4, 5]), jnp.array([9, 8, 7, 6, 5]))
    state, row = env.reset(KEY)
    first = np.asarray(row.env_info["value"])
    mask = np.array([True, False, True, True, False])
    state = env.assign(state, given, jnp.asarray(mask))
    rows = scanned(env, (state, row), np.ones((40, 5), np.int32), lambda _: ())[0]
    values = rows.env_info["value"]
    trial = np.cumsum(np.asarray(jax.vmap(env.episode_starts)(rows)), axis=0)
    assert (trial.max(axis=0) >= 4).all()
    for lane in range(5):
        assert (values[trial[:, lane] == 1, lane] == first[lane]).all()  # the current trial goes on
        later = values[trial[:, lane] > 1, lane]
        assert (later == given.value[lane]).all() == mask[lane]


def test_a_trial_from_a_state_starts_there_and_goes_on_in_the_level_of_its_trial():
    env = AutoReset(Trials(walk(), 2))
    state, _ = env.reset(OTHER)
    state, row = env.step(state, jnp.ones(5, jnp.int32))
    long = np.asarray(row.env_info["length"]) > 2
    assert long.sum() > 1
    start = env.reset(KEY, from_state=state)
    assert (np.asarray(start[1].env_info["step"])[long] == 1).all()
    rows = scanned(env, start, np.ones((8, 5), np.int32), lambda _: ())[0]
    first = np.cumsum(rows.step_type == FIRST, axis=0) == 1
    for name in ("length", "value"):
        shown = np.broadcast_to(np.asarray(row.env_info[name])[None], first.shape)
        assert (rows.env_info[name] == shown)[first].all()
    inside = rows.env_info["trial"]["episode_end"] & (rows.step_type == MID)
    assert inside[:, long].any()
    assert (rows.env_info["step"][inside] == 0).all()


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
def test_resampled_params_are_drawn_per_trial(inside):
    draws = {"rate": (1.0, 3.0)}
    env = Trials(ResampleParams(walk(), draws), 3) if inside else ResampleParams(Trials(walk(), 3), draws)
    env = AutoReset(env, "next_step", "compact", block=2)
    rows = unrolled(env, np.ones((60, 5), np.int32))
    rate = rows.env_info["params"]["rate"]
    found = [{float(x) for x in rate[t[0] : t[-1] + 1, lane]} for lane, t in trials_of(rows, env)]
    assert all(len(rates) == 1 for rates in found)
    assert len(set.union(*found)) == len(found) > 10
    moved = rows.step_type != FIRST
    paid = rate * rows.env_info["value"]
    np.testing.assert_allclose(rows.reward[1:][moved[1:]], paid[:-1][moved[1:]], rtol=1e-6)


def test_tasks_of_a_multitask_are_drawn_per_trial():
    env = AutoReset(Trials(TimeLimit(jaxenv.Multitask((compositions.Walk(num_envs=5),) * 3), 4), 3))
    rows = unrolled(env, np.ones((60, 5), np.int32))
    task = rows.env_info["task_id"]
    found = [{int(x) for x in task[t[0] : t[-1] + 1, lane]} for lane, t in trials_of(rows, env)]
    assert all(len(tasks) == 1 for tasks in found)
    assert set.union(*found) == {0, 1, 2}


HIDDEN = {
    "AMaze-13x13-v0": lambda task: (task.floor, task.goal),
    "MetaMaze-misc": lambda task: (task.goal_row, task.goal_column),
    "BernoulliBandit-misc": lambda task: task.means,
}


@pytest.mark.parametrize("id", HIDDEN)
def test_the_hidden_part_of_a_task_stays_in_a_trial_and_changes_between_trials(id):
    options = {"arms_from": "independent"} if "Bandit" in id else {}
    env = jaxenv.make(id, 6, max_episode_steps=3, wrappers=[("Trials", {"num_episodes": 2}), "StateInInfo"], **options)

    def hidden(state):
        while not hasattr(state, "task"):
            state = state.inner
        return HIDDEN[id](state.task)

    rows, shown = scanned(env, env.reset(KEY), random_actions(env, 27), hidden)
    shown = np.concatenate([x.reshape(28, 6, -1) for x in jax.tree.leaves(shown)], axis=-1)
    for lane in range(6):
        trial = np.cumsum(rows.step_type[:, lane] == FIRST)
        of_trials = [np.unique(shown[trial == number, lane], axis=0) for number in (1, 2, 3, 4)]
        assert all(len(found) == 1 for found in of_trials)
        assert len(np.unique(np.concatenate(of_trials), axis=0)) > 2
    assert len(np.unique(shown[0], axis=0)) > 4


def test_actions_have_other_outcomes_in_each_episode_of_a_trial():
    env = jaxenv.make("BernoulliBandit-misc", 200, max_episode_steps=1, wrappers=[("Trials", {"num_episodes": 3})])
    rows = unrolled(env, np.zeros((3, 200), np.int32))
    pays = rows.reward[1:]
    assert (pays[0] != pays[1]).sum() > 10
    assert (pays[1] != pays[2]).sum() > 10


# --- agents ----------------------------------------------------------------------------------------------------------


def test_agents_as_lanes_see_the_trials_of_their_game():
    duel = Trials(TimeLimit(Duel(num_envs=3), np.array([2, 5, 1])), 2)
    env = PreviousActionAndReward(AgentsAsLanes(AutoReset(duel)))
    actions = np.random.default_rng(1).integers(0, 3, (14, 6), dtype=np.int32)
    rows, games = unrolled(env, actions), unrolled(AutoReset(duel), actions.reshape(14, 3, 2))
    np.testing.assert_array_equal(rows.step_type, np.repeat(games.step_type, 2, axis=1))
    np.testing.assert_array_equal(
        rows.observation["episode_end"], np.repeat(games.env_info["trial"]["episode_end"], 2, 1)
    )
    for name in ("first_return", "last_return"):
        np.testing.assert_array_equal(rows.env_info["trial"][name].reshape(15, 3, 2), games.env_info["trial"][name])
    equal = (actions[:, ::2] == actions[:, 1::2]).astype(np.float32)
    first, last = rows.env_info["trial"]["first_return"], rows.env_info["trial"]["last_return"]
    assert (first[4, :2].tolist(), last[4, :2].tolist()) == (
        [equal[:2, 0].sum(), -equal[:2, 0].sum()],
        [equal[2:4, 0].sum(), -equal[2:4, 0].sum()],
    )
    axis = unrolled(AutoReset(PreviousActionAndReward(duel)), actions.reshape(14, 3, 2))
    np.testing.assert_array_equal(axis.observation["episode_end"][..., 1], axis.env_info["trial"]["episode_end"])
    specs.validate(
        AutoReset(PreviousActionAndReward(duel)).observation_spec(), jax.tree.map(lambda x: x[0, 0], axis.observation)
    )


# --- metrics ---------------------------------------------------------------------------------------------------------


def test_metrics_measure_the_first_and_the_last_return_of_trials():
    env = AutoReset(Trials(TimeLimit(restarting("select"), LIMIT), 2))
    rows = unrolled(env, ACTIONS)
    metrics = jaxenv.rollout.Metrics()
    found = metrics.compute(metrics.totals(metrics.update_rows(metrics.init(jax.tree.map(lambda x: x[0], rows)), rows)))
    last = [row for lane in range(4) for row in model(lane, 2, False) if row["step_type"] == LAST]
    for name in ("first_return", "last_return"):
        assert float(found[f"trial.{name}"]) == pytest.approx(np.mean([row[name] for row in last]))
    assert float(found["trial.first_return"]) != float(found["trial.last_return"])
    assert int(found["episodes"]) == len(last)


def test_an_evaluation_plays_whole_trials():
    env = jaxenv.make(
        "BernoulliBandit-misc", 3, max_episode_steps=5, wrappers=[("Trials", {"num_episodes": 4})], mode="eval"
    )
    assert int(env._longest_episode) == 20
    found = jaxenv.evaluate(env, jaxenv.rollout.random_policy(env), KEY, 6)
    assert found.lengths.tolist() == [20] * 6
    assert found.finished.all()


def test_an_abnormal_row_ends_the_trial():
    class Failing(Steps):
        """Its third step fails."""

        def transition(self, state, action, stream):
            out = super().transition(state, action, stream)
            return dataclasses.replace(out, env_info={**out.env_info, "abnormal": out.state.step == 3})

    rows = unrolled(AutoReset(Trials(TimeLimit(Failing(np.array([2, 9, 2])), 9), 3)), ACTIONS[:8, :1])
    assert rows.step_type[:, 0].tolist() == [FIRST, MID, MID, MID, MID, LAST, FIRST, MID, MID]
    assert rows.discount[5, 0] == 1
    assert rows.env_info["abnormal"][:, 0].tolist() == [False] * 5 + [True] + [False] * 3


# --- the stack -------------------------------------------------------------------------------------------------------

THREE = ("Trials", {"num_episodes": 3})


def test_make_places_trials_outside_the_limit_and_inside_the_restarts():
    names = [("ActionRepeat", {"num": 2}), THREE, "PreviousActionAndReward", "NormalizeReward"]
    env = jaxenv.make("CartPole-v1", 2, wrappers=names)
    expected = "<NormalizeReward<AutoReset<PreviousActionAndReward<Trials<TimeLimit<ActionRepeat<CartPole-v1>>>>>>>"
    assert repr(env) == expected
    assert repr(jaxenv.from_data(jaxenv.to_data(env))) == expected


def counting(num_envs=1):
    return Counting(np.array([3]), num_envs=num_envs)


@pytest.mark.parametrize(
    ("wrappers", "message"),
    [
        ([THREE, ("ActionRepeat", {"num": 2})], "Trials must see where episodes end: put ActionRepeat before Trials"),
        (["EpisodeStatistics", THREE], "EpisodeStatistics must see where episodes end: put Trials before"),
        ([THREE, ("ResampleParams", {"distributions": {"length": (1.0, 2.0)}})], "put ResampleParams before Trials"),
        ([THREE, THREE], r"Trials: .* already has env_info\['trial'\], one is enough"),
        (["NormalizeObservation", THREE], "Trials: AutoReset inside would restart its lanes in other tasks"),
        ([("Trials", {"num_episodes": 0})], "Trials: num_episodes must be at least 1, got 0"),
        ([("Trials", {"num_episodes": 1.5})], "Trials: num_episodes must be int32, got 1.5"),
        ([("Trials", {"num_episodes": True})], "Trials: num_episodes must be int32, got True"),
    ],
)
def test_make_refuses_what_does_not_fit(wrappers, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.make("CartPole-v1", 2, wrappers=wrappers)


def test_a_game_of_turns_may_begin_with_the_player_who_moved_last():
    game = TimeLimit(jaxenv.spec("ConnectFour-v0").make(2), 50)
    assert game.facts.alternates
    assert not Trials(game, 2).facts.alternates
    with pytest.raises(ValueError, match="Opponent"):
        jaxenv.wrappers.Opponent(Trials(game, 2), lambda timestep, stream: jnp.zeros(2, jnp.int32))


def test_refuses_episodes_without_a_bound_before_a_step():
    rule = "Trials: every episode of a trial must have a time limit, .*pass max_episode_steps to make"
    spec = EnvSpec("Counting", counting)
    for limit, mode in ((None, "next_step"), (0, None), (np.array([4, 0]), "same_step")):
        with pytest.raises(ValueError, match=rule):
            jaxenv.make(spec, 2, max_episode_steps=limit, autoreset=mode, wrappers=[THREE])
    env = AutoReset(Trials(counting(), 2))
    state, _ = env.reset(KEY)
    with pytest.raises(ValueError, match=rule):
        env.step(state, jnp.zeros(1, jnp.int32))


def test_refuses_environments_whose_trials_cannot_be():
    limited = TimeLimit(counting(2), 4)
    for make, message in [
        (lambda: Trials(AutoReset(limited), 2), "Trials: AutoReset inside .*put Trials inside AutoReset"),
        (lambda: Trials(AgentsAsLanes(Duel(num_envs=2)), 2), "Trials: the agents of a game .*inside AgentsAsLanes"),
        (lambda: Trials(TimeLimit(Leavers(num_envs=2), 3), 2), "Trials: an agent that leaves would wait"),
        (lambda: Trials(limited.with_level(jaxenv.sample_level(limited, KEY)), 2), "Trials: .*with_level on the whole"),
        (lambda: AutoReset(Trials(NormalizeReward(limited), 2)), "AutoReset: NormalizeReward carries state"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
