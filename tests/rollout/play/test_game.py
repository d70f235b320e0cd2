"""A game: steps, returns, ends and restarts of one lane, without a front end."""

import jax
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
    game = Game(jaxenv.make("gymnax:DeepSea-bsuite"))
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


# --- levels as text --------------------------------------------------------------------------------------------------


def test_a_file_of_text_is_the_level_of_the_game(tmp_path):
    path = tmp_path / "maze.txt"
    path.write_text(">#G\n...\n")
    game = Game(jaxenv.make("AMaze-13x13-v0", size=3, num_walls=0), level=path)
    take(game, "forward", "forward")  # against the wall
    assert (game.step, game.end) == (2, "")
    path.write_text(">.G\n...\n")
    game = Game(jaxenv.make("AMaze-13x13-v0", size=3, num_walls=0), level=path)
    take(game, "forward", "forward")
    assert (game.step, game.end) == (2, "terminated")


def test_the_map_of_frozen_lake_keeps_the_options_of_the_stack(tmp_path):
    path = tmp_path / "lake.txt"
    path.write_text("SFF\nFHG\n")
    game = Game(jaxenv.make("FrozenLake-v1", is_slippery=False, max_episode_steps=2), level=path)
    take(game, "right", "right")
    assert game.end == "truncated"
    game.restart()
    take(game, "right", "down")
    assert game.end == "terminated"


def test_a_new_file_gets_the_level_of_the_key(tmp_path):
    env, path = jaxenv.make("MiniGrid-DoorKey-5x5-v0"), tmp_path / "new.txt"
    texts = []
    for seed in (3, 4):
        path.unlink(missing_ok=True)
        Game(env, jax.random.key(seed), level=path)
        (text,) = env.unwrapped.format_levels(jaxenv.sample_level(env.unwrapped, jax.random.key(seed)))
        assert path.read_text() == f"{text}\n"
        texts.append(text)
    assert texts[0] != texts[1]


@pytest.mark.parametrize(
    ("made", "text", "rule"),
    [
        (lambda: jaxenv.make("AMaze-13x13-v0"), ">.x", r"line 1, column 3 .*got 'x'"),
        (lambda: jaxenv.make("FrozenLake-v1"), "SF\nFx", r"desc, line 2, column 2 .*got 'x'"),
        (lambda: jaxenv.make("CartPole-v1"), "SF", r"play: level .*CartPole-v1 has none"),
        (lambda: jaxenv.make("MiniGrid-Fetch-5x5-N2-v0"), "SF", r"Fetch.* no text form"),
        (lambda: jaxenv.make("FrozenLake-v1", 2), "SF", r"play: env .*got num_envs=2"),
    ],
)
def test_files_and_tasks_without_a_level_are_refused(made, text, rule, tmp_path):
    path = tmp_path / "level.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=rule):
        Game(made(), level=path)
    with pytest.raises(ValueError, match=r"play: level .*got '.*'"):
        Game(jaxenv.make("FrozenLake-v1"), level=tmp_path)
