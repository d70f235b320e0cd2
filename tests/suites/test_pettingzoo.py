"""PettingZoo's games: equal to its own loops, as lanes with an axis of agents or with turns; refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv._util.library import default_types
from jaxenv.suites.gymnasium import HostEnvironmentError
from jaxenv.training import ppo

pettingzoo = pytest.importorskip("pettingzoo", "1.27")
from tests.suites.host_games import Countdown, Ferry, Parcels, Solo, Unequal  # noqa: E402

for name, game in (("ferry-v0", Ferry), ("solo-v0", Solo), ("unequal-v0", Unequal)):
    if name not in pettingzoo.parallel_registry:
        pettingzoo.register("parallel", name, game)
if "countdown-v0" not in pettingzoo.aec_registry:
    pettingzoo.register("aec", "countdown-v0", Countdown)

LANES = 3
pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def load(loaded):
    """``jaxenv.make`` for the suite; what it loads is closed after the test."""

    def load(game, num_envs=LANES, vectorization="sync", **kwargs):
        game = f"pettingzoo:{game}" if isinstance(game, str) else game
        loaded.append(jaxenv.make(game, num_envs, vectorization=vectorization, **kwargs))
        return loaded[-1]

    return load


def rows_of(env, num_steps, key=0):
    """The trajectory of random legal actions, in compiled code."""
    policy = jaxenv.rollout.random_policy(env)
    run = jax.jit(lambda key: jaxenv.unroll(env, policy, *env.reset(key), num_steps)[1])
    return jax.device_get(run(jax.random.key(key)))


def seeds_of(env, key=0):
    """The seeds of the episodes of each lane, which a game draws from the seed of its lane."""
    stream = env.clock(env.reset(jax.random.key(key))[0]).stream("seed")
    generators = [np.random.default_rng(int(word)) for word in jaxenv.random.bits(stream)]
    return [lambda generator=generator: int(generator.integers(2**31)) for generator in generators]


def test_agents_that_act_at_once_play_the_episodes_of_the_bare_game(load):
    env = load("ferry-v0", max_cycles=6)
    assert env.agent_names == ("a", "b", "c")
    assert not env.turns
    assert env.observation_spec().shape == (3, 2)
    np.testing.assert_array_equal(env.observation_spec().minimum, 0)  # of c as well, whose rows are 0 after it left
    assert (env.action_spec().shape, env.action_spec().maximum.tolist()) == ((3,), [2, 2, 2])
    rows = rows_of(env, 41)
    ours, info = rows.timestep, rows.timestep.env_info
    ends, left = set(), 0
    for lane, seed in enumerate(seeds_of(env)):
        game, fresh = Ferry(max_cycles=6), True
        for t in range(41):
            if fresh:
                seen, _ = game.reset(seed=seed())
                rewards, terminated, truncated = {}, {}, {}
            else:
                given = {x: rows.action[t - 1, lane, "abc".index(x)] for x in game.agents}
                assert all(info["action_mask"][t - 1, lane, "abc".index(x), given[x]] for x in game.agents)
                actions = {x: np.int64(action) for x, action in given.items()}
                seen, rewards, terminated, truncated, _ = game.step(actions)
            for number, agent in enumerate("abc"):
                shown = seen[agent]["observation"] if agent in seen else np.zeros(0)
                padded = np.concatenate([shown, np.zeros(2 - len(shown))])
                np.testing.assert_array_equal(ours.observation[t, lane, number], padded.astype(np.float32))
                mask = seen[agent]["action_mask"] if agent in seen else np.ones(3 if agent == "b" else 2)
                legal = [*mask.astype(bool), *([False] * (3 - len(mask)))]
                assert info["action_mask"][t, lane, number].tolist() == legal
                assert ours.reward[t, lane, number] == rewards.get(agent, 0)
                assert info["agent_terminated"][t, lane, number] == terminated.get(agent, False)
                assert info["agent_alive"][t, lane, number] == (agent in game.agents)
            over = not game.agents
            cut = over and any(truncated[x] and not terminated[x] for x in truncated)
            assert ours.step_type[t, lane] == (0 if fresh else 2 if over else 1)
            assert ours.discount[t, lane] == (0 if over and not cut else 1)
            ends |= {(over, cut)}
            left += sum(terminated.values()) * (not over)
            fresh = over
    assert ends == {(False, False), (True, False), (True, True)}
    assert left > 3  # agents left games that went on


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_observations_and_actions_may_have_every_kind_of_space(load, vectorization):
    env = load(Parcels, 2, vectorization)
    spec = env.observation_spec()
    assert spec["flags"] == jaxenv.specs.Bounded((2, 3), np.bool_, False, True)
    bounds = [spec["number"], spec["pair"][0], spec["pair"][1]]
    assert [(s.minimum.tolist(), s.maximum.tolist()) for s in bounds] == [  # zeros of agents that have left included
        ([0, 0], [5, 5]),
        ([[0, 0]] * 2, [[4, 4]] * 2),
        ([[0, 0]] * 2, [[9, 9]] * 2),
    ]
    state, row = env.reset(jax.random.key(0))
    assert row.observation["number"].tolist() == [[3, 4]] * 2
    actions = np.array([[[True, False], [True, True]], [[False, True], [False, False]]])
    state, row = env.step(state, actions)
    assert row.reward.tolist() == [[1, 3], [2, 0]]
    assert row.env_info["agent_terminated"].tolist() == [[True, False]] * 2
    assert row.observation["pair"][1].tolist() == [[[2, 5], [2, 5]]] * 2
    state, row = env.step(state, actions)
    assert row.reward.tolist() == [[0, 3], [0, 0]]
    assert row.observation["flags"].tolist() == [[[False] * 3, [True, False, True]]] * 2
    assert row.observation["pair"][0].tolist() == [[[0, 0], [4, 2]]] * 2
    assert row.terminated.all()
    assert jaxenv.specs.contains(spec, jax.tree.map(lambda x: np.asarray(x[0]), row.observation))


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_a_game_of_turns_is_that_of_the_bare_game(load, vectorization):
    env = load("countdown-v0", vectorization=vectorization, moves=9)
    assert env.turns
    assert not env.alternates
    rows = rows_of(env, 60)
    ours, ends, repeated = rows.timestep, set(), 0
    for lane, seed in enumerate(seeds_of(env)):
        game, fresh = Countdown(moves=9), True
        for t in range(60):
            if fresh:
                game.reset(seed=seed())
                rewards, over, cut = {}, False, False
            else:
                mover = game.agent_selection
                game.step(np.int64(rows.action[t - 1, lane]))
                rewards = dict(game.rewards)
                playing = [x for x in game.agents if not (game.terminations[x] or game.truncations[x])]
                over, cut = not playing, any(game.truncations[x] for x in game.agents)
                while not over and (game.terminations[game.agent_selection]):
                    game.step(None)
                repeated += not over and mover == game.agent_selection
            player = "xyz".index(game.agent_selection)
            assert ours.env_info["player"][t, lane] == player
            assert ours.observation["seat"][t, lane] == player
            assert ours.observation["step"][t, lane] == game.steps
            assert ours.reward[t, lane].tolist() == [rewards.get(x, 0) for x in "xyz"]
            assert ours.step_type[t, lane] == (0 if fresh else 2 if over else 1)
            assert ours.discount[t, lane] == (0 if over and not cut else 1)
            ends |= {(over, cut)}
            fresh = over
    assert ends == {(False, False), (True, False), (True, True)}
    assert repeated


@pytest.mark.parametrize("name", ["classic/tictactoe-v3", "classic/connect_four-v3"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pygame's
def test_games_of_pettingzoo_equal_its_own_loop(load, name):
    pytest.importorskip("pygame")
    env = load(name)
    rows = rows_of(env, 50)
    ours, games = rows.timestep, 0
    for lane in range(LANES):
        game, fresh = pettingzoo.make("aec", name), True
        for t in range(50):
            if fresh:
                game.reset()
                rewards = dict.fromkeys(game.possible_agents, 0)
            else:
                game.step(rows.action[t - 1, lane])
                rewards = dict(game.rewards)
            shown = game.observe(game.agent_selection)
            over = all(game.terminations.values())
            np.testing.assert_array_equal(ours.observation[t, lane], shown["observation"])
            if not over:
                np.testing.assert_array_equal(ours.env_info["action_mask"][t, lane], shown["action_mask"])
            assert ours.env_info["player"][t, lane] == game.possible_agents.index(game.agent_selection)
            assert ours.reward[t, lane].tolist() == [rewards[x] for x in game.possible_agents]
            assert ours.step_type[t, lane] == (0 if fresh else 2 if over else 1)
            games += over
            fresh = over
    assert games > LANES


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_games_that_act_at_once_run_in_processes(load):
    pytest.importorskip("pygame")
    env = load("classic/rps-v2", 2, "async", max_cycles=3, render_mode="rgb_array")
    rows = rows_of(env, 9).timestep
    assert np.all(rows.reward.sum(axis=-1) == 0)
    assert np.any(rows.reward != 0)
    assert rows.step_type.T.tolist() == [[0, 1, 1, 2, 0, 1, 1, 2, 0]] * 2
    assert np.all(rows.discount == 1)
    assert env.render(env.reset(jax.random.key(0))[0], (20, 30)).shape == (2, 20, 30, 3)


def test_processes_play_what_this_process_plays(load):
    of_process, here = (rows_of(load("ferry-v0", vectorization=v), 30) for v in ("async", "sync"))
    jax.tree.map(np.testing.assert_array_equal, of_process, here)


def test_a_function_or_an_object_of_the_program_is_a_game(load):
    def shorter():
        return Ferry(max_cycles=3)

    for env in (load(shorter, 4), load(shorter, 4, "async"), load(Ferry(max_cycles=3), 1)):
        rows = rows_of(env, 12).timestep
        assert env.num_agents == 3
        assert rows.reward.shape == (12, env.num_envs, 3)
        assert np.max(np.cumsum(rows.step_type == 0, axis=0)) > 2
    env = load(Countdown, 2, max_episode_steps=2)
    assert env.turns
    assert rows_of(env, 3).timestep.step_type.T.tolist() == [[0, 1, 2]] * 2


def test_a_time_limit_around_the_game_truncates(load):
    rows = rows_of(load("countdown-v0", 8, max_episode_steps=2), 6).timestep
    assert rows.step_type.T.tolist() == [[0, 1, 2, 0, 1, 2]] * 8
    won = (rows.reward == 2).any(axis=-1)
    np.testing.assert_array_equal(rows.discount, np.where(won, 0, 1))
    assert 0 < won.sum() < 16


class Both(Countdown):
    """Ends with its first move, by both flags of all players."""

    def step(self, action):
        super().step(action)
        self.terminations = self.truncations = dict.fromkeys(self.agents, True)


def test_a_game_of_turns_that_ends_by_both_flags_has_terminated(load):
    rows = rows_of(load(Both, 2), 3).timestep
    assert rows.step_type.T.tolist() == [[0, 2, 0]] * 2
    assert rows.discount.T.tolist() == [[1, 0, 1]] * 2


def test_agents_are_lanes_of_a_learner(load):
    env = load("ferry-v0", 12, max_cycles=6, wrappers=["AgentsAsLanes"])
    assert env.num_envs == 12
    rows = rows_of(env, 30).timestep
    last = rows.step_type == 2
    assert (last & (rows.discount == 0)).any()
    assert (last & (rows.discount == 1)).any()
    config = ppo.Config(
        env_id="",
        num_envs=12,
        num_steps=16,
        total_steps=12 * 16 * 3,
        num_evaluations=1,
        num_eval_episodes=12,
        hidden=(8,),
    )
    eval_env = load("ferry-v0", 12, max_cycles=6, wrappers=["AgentsAsLanes"])
    with default_types():
        _, curve = jax.jit(ppo.make_train(config, env, eval_env))(jax.random.key(0))
    assert curve.finished.shape == (1, 12)
    assert curve.finished.all()
    assert np.isfinite(curve.returns).all()


def test_the_key_decides_all_games(load):
    env = load("ferry-v0", 8)
    first, second, third = (rows_of(env, 40, key).timestep.observation for key in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)
    assert len(np.unique(first[0, :, 1, 0])) > 2


def test_refusals(load):
    with pytest.raises(ValueError, match=r"pettingzoo: no environment 'classic/connect_for-v3'.*connect_four"):
        load("classic/connect_for-v3")
    with pytest.raises(ValueError, match=r"pettingzoo:ferry-v0: pettingzoo rejects .*max_cycle"):
        load("ferry-v0", max_cycle=3)
    with pytest.raises(ValueError, match=r"solo-v0: possible_agents must .*, got \('a',\)"):
        load("solo-v0")
    with pytest.raises(ValueError, match=r"unequal-v0: agents must have equal action spaces.*a: Discrete\(2\)"):
        load("unequal-v0")
    with pytest.raises(ValueError, match=r"vectorization must be .*'native'"):
        load("ferry-v0", vectorization="native")
    with pytest.raises(ValueError, match=r"autoreset must be 'next_step'"):
        load("ferry-v0", autoreset="same_step")
    env = load("ferry-v0", alone=True)
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(
        HostEnvironmentError, match=r"a time limit must end the game of all agents.*got a truncation of a"
    ):
        env.step(state, jnp.zeros((LANES, 3), jnp.int32))
    with pytest.raises(ValueError, match=r"action must"):
        env.step(state, jnp.zeros((LANES, 2), jnp.int32))


def test_num_envs_counts_lanes_which_may_be_agents(load):
    games = load("ferry-v0", None, wrappers=["AgentsAsLanes"])
    assert games.num_envs == 3
    twelve = load("ferry-v0", 12, wrappers=["AgentsAsLanes"])
    assert twelve.reset(jax.random.key(0))[1].reward.shape == (12,)
    with pytest.raises(ValueError, match=r"num_envs must .*3 agents.*got 4"):
        load("ferry-v0", 4, wrappers=["AgentsAsLanes"])
