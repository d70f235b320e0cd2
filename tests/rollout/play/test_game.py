"""A game: steps, returns, ends and restarts of one lane, without a front end."""

import pytest

import jaxenv
from jaxenv.rollout.play._game import Game


@pytest.fixture(scope="module")
def lake():
    return Game(jaxenv.make("FrozenLake-v1", is_slippery=False, max_episode_steps=3))


def take(game, *names):
    for name in names:
        game.take(next(control for control in game.controls if control.name == name))


def test_a_game_counts_steps_and_ends_with_the_task_or_the_limit(lake):
    lake.restart()
    take(lake, "down", "right")  # into a hole
    assert (lake.step, lake.end) == (2, "terminated")
    take(lake, "left")  # an ended episode stands still
    assert lake.step == 2
    episode = lake.episode
    lake.restart()
    assert (lake.step, lake.end, lake.total, lake.episode) == (0, "", 0.0, episode + 1)
    take(lake, "left", "left", "left")
    assert (lake.step, lake.end) == (3, "truncated")


def test_the_return_is_the_sum_of_the_rewards():
    game = Game(jaxenv.make("CliffWalking-v1"))
    game.compile()  # has no effect on the game
    take(game, "up", "right", "down")  # into the cliff, back to the start
    assert (game.reward, game.total, game.step, game.end) == (-100.0, -102.0, 3, "")
    assert game.status == ["episode 1   step 3   reward -100   return -102", ""]


def test_the_picture_follows_the_state(lake):
    lake.restart()
    before = lake.picture(32)
    assert before.shape == (32, 32, 3)
    take(lake, "down")
    assert (lake.picture(32) != before).any()


def test_an_environment_without_a_picture_shows_its_observation():
    game = Game(jaxenv.load("gymnax:DeepSea-bsuite"))
    assert not game.has_picture
    assert game.observation().count(" ") >= 3


@pytest.mark.parametrize(
    ("env", "rule"),
    [
        (lambda: jaxenv.make("CartPole-v1", 2), r"play: env .*got num_envs=2"),
        (lambda: jaxenv.make("CartPole-v1", autoreset="same_step"), 'got autoreset="same_step"'),
        (lambda: "CartPole-v1", r"play: env .*got 'CartPole-v1'"),
    ],
)
def test_what_cannot_be_played_is_refused(env, rule):
    with pytest.raises(ValueError, match=rule):
        Game(env())
