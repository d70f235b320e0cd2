"""`jaxenv play`: opponents, and what is refused; tests/rollout/play has a whole game."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import data
from jaxenv.cli.play import against
from jaxenv.core.wrapper import layers
from jaxenv.training import ppo, self_play
from jaxenv.wrappers import Opponent
from tests.cli.commands import refusal

CONFIG = self_play.Config(
    num_envs=8,
    num_steps=8,
    num_minibatches=2,
    hidden=(8,),
    num_evaluations=1,
    total_steps=64,
    num_eval_episodes=8,
    league=2,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of one seed, whose policy prefers column 5 to column 2 and both to all others."""
    learner = jax.jit(self_play.make_train(CONFIG).init)(jax.random.key(0))
    params = jax.device_get(learner.params)
    output = params["params"]["actor"]["Dense_1"]
    output["bias"] = np.array([0, 0, 50, 0, 0, 100, 0], np.float32)
    learner = dataclasses.replace(learner, params=params)
    path = tmp_path_factory.mktemp("run")
    curve = {"returns": np.zeros((1, 1, 8)), "finished": np.ones((1, 1, 8), bool), "steps": np.full((1, 1), 64)}
    weights = {"params": learner.params, "statistics": learner.statistics}
    state = {"learner": jax.tree.map(lambda x: x[None], weights), "curve": curve, "iterations": np.int32(1)}
    settings = {"algorithm": "self_play", "num_seeds": 1, **dataclasses.asdict(CONFIG)}
    data.save(path / "checkpoint.npz", state, config=settings)
    return path


def test_the_opponent_of_a_game_against_a_run_plays_by_its_policy(folder):
    trained = jaxenv.training.load(folder)
    env = against(trained.make_env(1), trained)
    assert (env.num_agents, env.num_envs) == (1, 1)
    opponent = next(layer for layer in layers(env) if isinstance(layer, Opponent))
    assert (opponent.side, opponent.league) == ("drawn", 0)
    first, later = set(), []
    for seed in range(8):
        state, timestep = env.reset(jax.random.key(seed))
        board = np.asarray(timestep.observation[0])
        first |= {tuple(np.argwhere(board).ravel().tolist())}  # row and column of the disc of the one who began
        for column in (0, 0, 1):
            state, timestep = env.step(state, np.array([column]))
            later += [np.argwhere(np.asarray(timestep.observation[0])[:, 5]).size]
    assert len(first) == 2
    assert () in first
    assert {place[1] for place in first if place} == {5}
    assert max(later) >= 3  # and goes on in this column


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["CartPole-v1"], "jaxenv play: error: stdin must be a terminal"),
        (["CartPole-v7"], "no environment 'CartPole-v7'"),
        (["CartPole-v1", "--fps", "-1"], "must be an integer from 0"),
        (["CartPole-v1", "--env", "fps=3"], "fps is an option of the command: --fps 3"),
        (["AMaze-13x13-v0", "--edit", "maze.txt"], "unrecognized arguments: --edit maze.txt, use --level FILE"),
        (["ConnectFour-v0", "--against", "RUN"], "jaxenv play: error: stdin must be a terminal"),
        (
            ["ConnectFour-v0", "--against", "runs/nothing"],
            "no folder 'runs/nothing', `jaxenv train ID` writes",
        ),
        (["Othello-v0", "--against", "RUN"], " is a run of ConnectFour-v0, not of Othello-v0"),
        (["ConnectFour-v0", "--against", "RUN", "--policy-seed", "4"], "seed must be at least 0 and below 1"),
        (
            ["CartPole-v1", "--against", "baseline:CartPole-v1"],
            "must name a run in a game of turns, got one of Cart",
        ),
    ],
)
def test_wrong_input_to_play_is_reported_in_one_line_with_exit_code_2(folder, capsys, argv, message):
    assert message in refusal(capsys, "play", *(str(folder) if part == "RUN" else part for part in argv))


def test_a_policy_with_a_memory_is_no_opponent():
    config = ppo.Config(env_id="ConnectFour-v0", wrappers=("Opponent",), recurrent=4, hidden=(4,), num_envs=4)
    env = config.make_env(1, "eval")
    with jax.numpy_rank_promotion("allow"):  # Flax's recurrent layers need it
        learner = jax.eval_shape(ppo.make_train(config).init, jax.random.key(0))
    params = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), learner.params)
    trained = jaxenv.training.Trained(None, "ppo", config, 0, 1, 0, 0.0, params, ())
    with jax.numpy_rank_promotion("allow"), pytest.raises(ValueError, match="memory: the policy has a memory per"):
        against(env, trained)
