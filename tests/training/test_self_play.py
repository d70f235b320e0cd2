"""Self-play: whose weights the opponents have, and ratings."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.core.wrapper import layers
from jaxenv.training import self_play
from jaxenv.wrappers import Opponent

TINY = {"num_envs": 8, "num_steps": 8, "num_minibatches": 2, "num_epochs": 1, "hidden": (8,), "num_eval_episodes": 8}
CONFIG = self_play.Config(
    **TINY, total_steps=8 * 8 * 6, num_evaluations=6, league=3, snapshot_interval=2, max_eval_steps=50
)


@pytest.fixture(scope="module")
def train():
    train = self_play.make_train(CONFIG)
    return dataclasses.replace(train, init=jax.jit(train.init), iteration=jax.jit(train.iteration))


@pytest.fixture(scope="module")
def run(train):
    """The learners after each of six updates, first the initial one."""
    learner = train.init(jax.random.key(0))
    iteration, learners = train.iteration, [learner]
    for _ in range(6):
        learner, curve = iteration(learner)
        learners.append(learner)
    assert np.isfinite(curve.returns).all()
    return learners


def member(learner, number):
    return np.concatenate([np.asarray(x[number]).ravel() for x in jax.tree.leaves(learner.league)])


def weights(learner):
    return np.concatenate([np.asarray(x).ravel() for x in jax.tree.leaves(learner.params)])


def preferring(players, columns):
    """Players that move at random, the first of them into one of these columns while there is room."""
    players = jax.tree.map(jnp.zeros_like, players)
    layer = players["params"]["actor"]["Dense_1"]
    layer["bias"] = layer["bias"].at[np.arange(len(columns)), np.array(columns)].set(30)
    return players


def test_the_league_holds_the_learner_and_its_snapshots_of_every_second_update(run):
    for update, learner in enumerate(run):
        assert (member(learner, 0) == weights(learner)).all()
        # Snapshots are taken after the updates 0, 2 and 4; member 1 is replaced by the third.
        assert (member(learner, 1) == weights(run[{0: 0, 1: 1, 2: 1, 3: 1, 4: 1}.get(update, 5)])).all()
        assert (member(learner, 2) == weights(run[0 if update < 3 else 3])).all()
    assert not (weights(run[1]) == weights(run[5])).all()


def test_rows_are_collected_against_the_league_of_the_learner_from_both_sides(train, run):
    others = dataclasses.replace(run[3], league=preferring(run[3].league, [0, 0, 0]))
    assert not (weights(train.iteration(others)[0]) == weights(run[4])).all()
    assert next(layer for layer in layers(CONFIG.make_env(8)) if isinstance(layer, Opponent)).side == "drawn"


def test_evaluations_play_against_random_moves():
    opponent = next(layer for layer in layers(CONFIG.make_env(8, "eval")) if isinstance(layer, Opponent))
    assert (opponent.policy, opponent.weights, opponent.side) == (None, None, "drawn")


def test_the_score_is_that_of_the_row_against_the_column_and_sides_are_drawn(run):
    players = preferring(run[-1].league, [0, 6])  # the third moves at random
    scores = np.asarray(self_play.cross_play(CONFIG, players, jax.random.key(0), num_games=64))
    assert scores.shape == (3, 3)
    assert (scores[:2, 2] > 0.3).all()
    assert (scores[2, :2] < -0.3).all()
    assert np.abs(scores[[0, 1], [1, 0]]).max() < 0.5  # whoever moves first has four in its column first


def test_a_difference_of_400_is_odds_of_ten_to_one():
    one = 2 * 10 / 11 - 1
    elo = self_play.ratings([[0, one], [-one, 0]])
    assert elo[0] - elo[1] == pytest.approx(400, abs=15)  # the prior pulls them together
    assert elo.sum() == pytest.approx(0)
    assert self_play.ratings(np.zeros((3, 3))) == pytest.approx(np.zeros(3))
    assert np.isfinite(self_play.ratings([[0, 1], [-1, 0]])).all()


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.full((2, 2), np.nan), r"ratings: scores must be in \[-1, 1\], got nan"),
        ([[0, 3], [-3, 0]], r"ratings: scores must be in \[-1, 1\], got 3.0"),
        (np.zeros((3, 2)), r"ratings: scores must be \[N, N\], got \[3, 2\]"),
        (0.5, r"ratings: scores must be \[N, N\], got \[\]"),
        ("level", r"ratings: scores .*got 'level'"),
    ],
)
def test_scores_without_ratings_are_refused(scores, message):
    with pytest.raises(ValueError, match=message):
        self_play.ratings(scores)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda league: jax.tree.map(lambda x: x[0], league),
            r"weights\.params\.actor.* got float32\[\d+\], the weights of N players",
        ),
        (lambda league: jax.tree.map(lambda x: x[:0], league), r"weights\.params\.actor.* got float32\[0, "),
        (lambda league: jax.tree.map(lambda x: x[..., :5], league), r"weights\.params\.actor.*got float32\[3, "),
        (lambda league: {"actor": league["params"]}, "weights must be a dict with 'params', got a dict with 'actor'"),
        (lambda league: "best", "weights must be an array of numbers, got 'best'"),
    ],
)
def test_weights_of_other_players_are_refused(run, change, message):
    with pytest.raises(ValueError, match=f"cross_play: {message}"):
        self_play.cross_play(CONFIG, change(jax.device_get(run[-1].league)), jax.random.key(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recurrent": 8}, r"self_play\.Config: recurrent .*got 8"),
        ({"normalize_observation": True}, r"self_play\.Config: normalize_observation .*got True"),
        ({"league": 0}, r"self_play\.Config: league .*got 0"),
    ],
)
def test_settings_that_opponents_cannot_have_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        self_play.Config(**TINY, **options)


def test_a_task_without_turns_is_refused():
    with pytest.raises(ValueError, match=r"self_play\.Config: env_id .*turns.*got 'TicTacToe-v0'"):
        self_play.make_train(self_play.Config(**TINY | {"env_id": "TicTacToe-v0"}))


def test_stacks_without_the_league_are_refused():
    stacks = [jaxenv.make("ConnectFour-v0", 8, wrappers=["Opponent"], mode=mode) for mode in ("train", "eval")]
    with pytest.raises(ValueError, match=r"self_play: env .*league of 3"):
        self_play.make_train(CONFIG, *stacks)
