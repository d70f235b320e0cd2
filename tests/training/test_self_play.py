"""Self-play: whose weights the opponents have, and ratings."""

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
def run():
    """The learners after each of six updates, first the initial one."""
    train = self_play.make_train(CONFIG)
    learner = jax.jit(train.init)(jax.random.key(0))
    iteration, learners = jax.jit(train.iteration), [learner]
    for _ in range(6):
        learner, curve = iteration(learner)
        learners.append(learner)
    assert np.isfinite(curve.returns).all()
    return learners


def member(learner, number):
    return np.concatenate([np.asarray(x[number]).ravel() for x in jax.tree.leaves(learner.league)])


def weights(learner):
    return np.concatenate([np.asarray(x).ravel() for x in jax.tree.leaves(learner.params)])


def test_the_league_holds_the_learner_and_its_snapshots_of_every_second_update(run):
    for update, learner in enumerate(run):
        assert (member(learner, 0) == weights(learner)).all()
        # Snapshots are taken after the updates 0, 2 and 4; member 1 is replaced by the third.
        assert (member(learner, 1) == weights(run[{0: 0, 1: 1, 2: 1, 3: 1, 4: 1}.get(update, 5)])).all()
        assert (member(learner, 2) == weights(run[0 if update < 3 else 3])).all()
    assert not (weights(run[1]) == weights(run[5])).all()


def test_rows_are_collected_against_the_league():
    train, env = self_play.make_train(CONFIG), CONFIG.make_env(8)
    other = self_play.against(env, jax.tree.map(jnp.ones_like, train.init(jax.random.key(0)).league))
    inner = next(layer for layer in layers(other) if isinstance(layer, Opponent))
    assert all((np.asarray(x) == 1).all() for x in jax.tree.leaves(inner.weights))
    assert inner.side == "drawn"


def test_evaluations_play_against_random_moves():
    opponent = next(layer for layer in layers(CONFIG.make_env(8, "eval")) if isinstance(layer, Opponent))
    assert (opponent.policy, opponent.weights) == (None, None)


def test_players_of_equal_strength_draw_on_average_and_sides_are_fair(run):
    players = jax.device_get(run[-1].league)
    scores = self_play.cross_play(CONFIG, players, jax.random.key(0), num_games=64)
    assert scores.shape == (3, 3)
    assert np.abs(np.asarray(scores)).max() < 0.8
    assert np.abs(np.diag(scores)).max() < 0.5


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
            r"weights\.params\.actor.*\[N, \d+\] for this",
        ),
        (lambda league: jax.tree.map(lambda x: x[:0], league), r"weights\.params\.actor.* got \[0, "),
        (lambda league: jax.tree.map(lambda x: x[..., :5], league), r"weights\.params\.actor.*got \[3, "),
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
