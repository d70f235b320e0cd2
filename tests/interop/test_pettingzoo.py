"""`to_pettingzoo`: games whose agents act at once, and games of turns."""

import copy
import dataclasses
import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("pettingzoo")

import pettingzoo

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of a game that its tests import
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test
from pettingzoo.utils.conversions import parallel_to_aec, turn_based_aec_to_parallel

import jaxenv
from jaxenv import specs, wrappers
from jaxenv.interop import to_pettingzoo
from tests.errors import like
from tests.games import Duel
from tests.interop.games import Nim, Walkers

AT_ONCE = {
    "agents leave": Walkers,
    "cut off": lambda: wrappers.TimeLimit(Walkers(), 3),
    "SimpleSpread-mpe": lambda: "SimpleSpread-mpe",
    "SimpleTag-mpe": lambda: "SimpleTag-mpe",
}
TURNS = {
    "Nim": Nim,
    "cut off": lambda: wrappers.TimeLimit(Nim(), 2),
    "ConnectFour-v0": lambda: "ConnectFour-v0",
    "Othello-v0": lambda: "Othello-v0",
}
# Advice of PettingZoo about names, dicts and bounds, which its own environments do not all follow.
advised = pytest.mark.filterwarnings("ignore::UserWarning:pettingzoo")


@advised
@pytest.mark.parametrize("name", AT_ONCE)
def test_pettingzoos_tests_of_agents_that_act_at_once_pass(name):
    parallel_api_test(to_pettingzoo(AT_ONCE[name]()), num_cycles=60)
    parallel_seed_test(lambda: to_pettingzoo(AT_ONCE[name]()), num_cycles=10)
    api_test(parallel_to_aec(to_pettingzoo(AT_ONCE[name]())), num_cycles=30)


@advised
@pytest.mark.parametrize("name", TURNS)
def test_pettingzoos_tests_of_turns_pass(name):
    api_test(to_pettingzoo(TURNS[name]()), num_cycles=70)
    seed_test(lambda: to_pettingzoo(TURNS[name]()), num_cycles=10)
    parallel_api_test(turn_based_aec_to_parallel(to_pettingzoo(TURNS[name]())), num_cycles=10)


def test_a_game_is_rendered():
    env = to_pettingzoo("ConnectFour-v0", render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    env.step(3)
    assert before.shape == (256, 256, 3)
    assert not np.array_equal(before, env.render())


def test_rows_are_those_of_a_batch_of_one_lane():
    env = jaxenv.make("SimpleSpread-mpe", 1, autoreset=None)
    state, timestep = env.reset(jax.vmap(jax.random.key)(np.array([5], np.uint32)))
    found = to_pettingzoo("SimpleSpread-mpe")
    observations, _ = found.reset(seed=5)
    for t in range(25):
        for number, agent in enumerate(env.agent_names):
            np.testing.assert_allclose(observations[agent], timestep.observation[0, number], rtol=1e-5, atol=1e-6)
        actions = {agent: (t + number) % 5 for number, agent in enumerate(env.agent_names)}
        state, timestep = env.step(state, np.array([list(actions.values())], np.int32))
        observations, rewards, terminations, truncations, _ = found.step(actions)
        np.testing.assert_allclose(list(rewards.values()), timestep.reward[0], rtol=1e-5)
    assert set(terminations.values()) == {False}
    assert set(truncations.values()) == {True}
    assert found.agents == []


def test_an_agent_that_leaves_terminates_while_the_other_goes_on():
    env = to_pettingzoo(Walkers())
    assert isinstance(env, pettingzoo.ParallelEnv)
    env.reset(seed=0)
    _, rewards, terminations, truncations, infos = env.step({"walker_0": 2, "walker_1": 1})
    assert rewards == {"walker_0": 0.0, "walker_1": 2.0}
    assert terminations == {"walker_0": True, "walker_1": False}
    assert not any(truncations.values())
    assert infos["walker_0"] == {"agent_alive": False, "agent_terminated": True}
    assert env.agents == ["walker_1"]
    observations, rewards, terminations, *_ = env.step({"walker_1": 2})
    assert rewards == {"walker_1": 2.0}
    assert terminations == {"walker_1": True}
    assert observations.keys() == {"walker_1"}
    assert env.agents == []
    with pytest.raises(ValueError, match=like("to_pettingzoo: all agents ...call reset")):
        env.step({})
    env.reset()
    assert env.agents == ["walker_0", "walker_1"]


def test_the_end_of_the_task_terminates_all_agents():
    env = to_pettingzoo(Duel())
    env.reset(seed=0)
    ends = [env.step({"row": 0, "column": 2})[2:4] for _ in range(3)]
    both, neither = {"row": True, "column": True}, {"row": False, "column": False}
    assert ends == [(neither, neither), (neither, neither), (both, neither)]
    assert env.agents == []


def test_a_termination_on_the_step_of_the_limit_is_no_truncation():
    env = to_pettingzoo(wrappers.TimeLimit(Walkers(), 1))
    env.reset(seed=0)
    *_, terminations, truncations, _ = env.step({"walker_0": 2, "walker_1": 0})
    assert terminations == {"walker_0": True, "walker_1": False}
    assert truncations == {"walker_0": False, "walker_1": True}


def test_each_agent_sees_its_own_mask():
    env = to_pettingzoo(Walkers())
    env.reset(seed=0)
    observations, *_ = env.step({"walker_0": 0, "walker_1": 1})
    masks = {agent: x["action_mask"].tolist() for agent, x in observations.items()}
    assert masks == {"walker_0": [1, 1, 1], "walker_1": [1, 0, 1]}
    assert all(env.observation_space(agent).contains(x) for agent, x in observations.items())


def test_a_game_of_turns_gives_each_player_its_reward():
    env = to_pettingzoo(Nim())
    assert isinstance(env, pettingzoo.AECEnv)
    env.reset(seed=0)
    moves, results = iter([2, 0, 2]), []  # 4, 3 and 0 sticks remain
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, _ = env.last()
        if terminated:
            results.append((agent, reward, truncated))
            env.step(None)
            continue
        assert (reward, observation["action_mask"].tolist()) == (0.0, [1, 1, 1])
        env.step(next(moves))
    assert results == [("second", -1.0, False), ("first", 1.0, False)]


def test_the_other_player_sees_what_it_saw_last_and_has_no_move():
    env = to_pettingzoo(Nim())
    env.reset(seed=0)
    sticks = {agent: env.observe(agent)["observation"] for agent in env.agents}
    assert np.argmax(sticks["first"]) == 7
    assert not sticks["second"].any()
    env.step(2)
    assert env.agent_selection == "second"
    assert [int(np.argmax(env.observe(agent)["observation"])) for agent in env.agents] == [7, 4]
    assert [env.observe(agent)["action_mask"].tolist() for agent in env.agents] == [[0, 0, 0], [1, 1, 1]]


class Paid(Nim):
    """Nim in which every move pays the first player 1 and the second 0.25."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, reward=jnp.zeros_like(out.reward) + np.float32([1, 0.25]))


def test_an_agent_gets_the_rewards_since_its_last_move():
    env = to_pettingzoo(Paid())
    env.reset(seed=0)
    found = []
    for _ in range(4):
        found.append((env.agent_selection, env.last()[1]))
        env.step(0)
    assert found == [("first", 0.0), ("second", 0.25), ("first", 2.0), ("second", 0.5)]


def test_a_limit_truncates_a_game_of_turns():
    env = to_pettingzoo(wrappers.TimeLimit(Nim(), 1))
    env.reset(seed=0)
    env.step(0)
    assert set(env.truncations.values()) == {True}
    assert set(env.terminations.values()) == {False}


def test_the_first_seed_determines_all_games():
    first, second = (to_pettingzoo("SimpleSpread-mpe") for _ in range(2))
    starts = [env.reset(seed=seed)[0]["agent_0"] for env, seed in ((first, 3), (second, 3))]
    later = [env.reset()[0]["agent_0"] for env in (first, second)]
    np.testing.assert_array_equal(*starts)
    np.testing.assert_array_equal(*later)
    assert not np.array_equal(starts[0], later[0])
    drawn = [to_pettingzoo("SimpleSpread-mpe").reset()[0]["agent_0"] for _ in range(2)]
    assert not np.array_equal(*drawn)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_continues_from_the_same_state(how):
    env = to_pettingzoo(Nim())
    env.reset(seed=0)
    env.step(2)
    twin = how(env)
    for one in (env, twin):
        one.step(0)
        assert np.argmax(one.observe("first")["observation"]) == 3
    env.close()
    twin.step(2)
    assert twin.rewards == {"first": 1.0, "second": -1.0}


def test_observations_and_actions_may_be_dicts():
    spaces = {
        "image": specs.Bounded((2, 3), np.uint8, 0, 255),
        "place": specs.Bounded((2,), np.int32, 0, np.array([3, 5])),
    }
    shapes = specs_of(to_pettingzoo(dicts(spaces)))
    assert shapes == {"red": (4, (3,)), "blue": (6, (3,))}


def specs_of(env):
    env.reset(seed=0)
    observations, *_ = env.step({agent: env.action_space(agent).sample() for agent in env.agents})
    assert all(env.observation_space(agent).contains(x) for agent, x in observations.items())
    return {a: (int(env.action_space(a)["place"].n), x["image"].shape) for a, x in observations.items()}


def dicts(spaces):
    class Echo(Walkers):
        agent_names = ("red", "blue")

        def initial(self, stream):
            return specs.zeros(spaces, stream.shape)

        def transition(self, state, action, stream):
            zero = np.zeros((*stream.shape, 2), np.float32)
            return jaxenv.core.Transition(action, zero, np.zeros(stream.shape, bool))

        def observe(self, state):
            return state

        def state_info(self, state):
            return {}

        def observation_spec(self):
            return spaces

        action_spec = observation_spec

    return Echo()


REFUSED = {
    "one agent": (lambda: to_pettingzoo("CartPole-v1"), "to_pettingzoo: env ...to_gymnasium takes it"),
    "restarts": (lambda: to_pettingzoo("ConnectFour-v0", autoreset="next_step"), "to_pettingzoo: ...autoreset"),
    "an environment that restarts": (
        lambda: to_pettingzoo(jaxenv.make("ConnectFour-v0", 1)),
        "to_pettingzoo: ...autoreset=None",
    ),
    "lanes": (lambda: to_pettingzoo("ConnectFour-v0", num_envs=2), "to_pettingzoo: ...num_envs...got 2"),
    "an environment of lanes": (
        lambda: to_pettingzoo(jaxenv.make("ConnectFour-v0", 2, autoreset=None)),
        "to_pettingzoo: env ...got 2",
    ),
    "no agents in front": (
        lambda: to_pettingzoo("SimpleSpread-mpe", wrappers=["FlattenObservation"]),
        "to_pettingzoo: every array of the observation ...3 agents",
    ),
    "no action of an agent": (lambda: started(Walkers()).step({"walker_0": 0}), "to_pettingzoo: actions ...walker_0"),
    "another agent": (
        lambda: started(Walkers()).step({"walker_0": 0, "walker_1": 0, "walker_2": 0}),
        "to_pettingzoo: actions ...walker_2",
    ),
    "an action out of range": (
        lambda: started(Walkers()).step({"walker_0": 0, "walker_1": 3}),
        "to_pettingzoo: walker_1: action ...got 3",
    ),
    "a move out of range": (lambda: started(Nim()).step(3), "to_pettingzoo: first: action ...got 3"),
    "no reset": (lambda: to_pettingzoo(Nim()).step(0), "to_pettingzoo: ...reset"),
    "closed": (lambda: closed().reset(), "to_pettingzoo: ...closed"),
    "no picture": (lambda: started(Nim()).render(), "to_pettingzoo: render ...rgb_array"),
    "a key": (lambda: to_pettingzoo(Nim()).reset(seed=jax.random.key(0)), "to_pettingzoo: seed ...key"),
}


def started(task):
    env = to_pettingzoo(task)
    env.reset(seed=0)
    return env


def closed():
    env = started(Nim())
    env.close()
    return env


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_by_name(case):
    use, message = REFUSED[case]
    with pytest.raises(ValueError, match=like(message)):
        use()


def test_a_seed_starts_its_game_at_any_reset():
    env = to_pettingzoo("SimpleSpread-mpe")
    starts = [env.reset(seed=seed)[0]["agent_0"] for seed in (3, 4, 3, None)]
    np.testing.assert_array_equal(starts[0], starts[2])
    assert not np.array_equal(starts[0], starts[1])
    later = [env.reset(seed=3), env.reset()][1][0]["agent_0"]
    np.testing.assert_array_equal(starts[3], later)
