"""The editor of levels: scripted keys that move, place, save and play, and what it refuses."""

import jax
import pytest

import jaxenv
from jaxenv.rollout.play import _editor, _terminal
from jaxenv.rollout.play._editor import Editor
from tests.rollout.play.test_terminal import Script


def edited(env, path, *keys, key=None):
    editor = Editor(env, key, path)
    screen = Script(*keys)
    _editor._loop(screen, editor, None, 24)
    return editor, screen


@pytest.fixture(scope="module")
def lake():
    return jaxenv.make("FrozenLake-v1", is_slippery=False)


@pytest.fixture(scope="module")
def maze():
    return jaxenv.make("AMaze-13x13-v0", size=3, num_walls=0)


def test_keys_place_characters_at_the_cursor_and_s_saves_the_file(lake, tmp_path):
    path = tmp_path / "lake.txt"
    editor, _ = edited(lake, path, "right", "h", "down", "space", "left", "left", "G", "up", "up", "s")
    assert path.read_text() == "SHFF\nGFFH\nFFFH\nHFFG\n"
    assert (editor.x, editor.y) == (0, 0)  # the cursor stops at the border
    editor, screen = edited(lake, path)
    assert set(editor.characters) == set("SFHG")
    assert f"read {path}" in screen.frames[0]
    assert " S H F F   " in screen.frames[0]


def test_goal_and_agent_move_where_they_are_placed_again(maze, tmp_path):
    path = tmp_path / "maze.txt"
    path.write_text(">..\n.#.\n..G\n")
    edited(maze, path, "right", "G", "down", "down", "^", "right", "#", "s")
    assert path.read_text() == ".G.\n.#.\n.^#\n"


def test_p_plays_the_level_and_q_comes_back_to_the_editor(maze, tmp_path, monkeypatch):
    games = []
    monkeypatch.setattr(_terminal, "_picture", lambda game, pixels, depth: ["#" * pixels] * (pixels // 2))
    monkeypatch.setattr(_editor, "Game", lambda *given: games.append(_editor_game(*given)) or games[-1])
    path = tmp_path / "maze.txt"
    path.write_text(">.G\n...\n...\n")
    editor, screen = edited(maze, path, "p", "up", "up", "q", "right", "#", "p", "up", "q", "q")
    assert [(game.step, game.end) for game in games] == [(2, "terminated"), (1, "")]  # the wall is in the way
    assert editor.text == ">#G\n...\n..."
    assert "not saved: s saves, q again quits" in screen.frames[-1]


_editor_game = _editor.Game


def test_a_new_file_begins_with_the_level_of_the_key(tmp_path):
    env = jaxenv.make("MiniGrid-DoorKey-5x5-v0")
    key = jax.random.key(3)
    editor = Editor(env, key, tmp_path / "new.txt")
    assert editor.text == env.unwrapped.format_levels(jaxenv.sample_level(env.unwrapped, key))[0]
    editor.press("x")  # no character of a text
    assert not (tmp_path / "new.txt").exists()
    assert set(editor.characters) == set(".#>v<^GKDd_")


def test_a_text_that_is_no_level_is_neither_saved_nor_played(maze, tmp_path):
    path = tmp_path / "maze.txt"
    path.write_text(">.G\n")
    editor, screen = edited(maze, path, "#", "s", "p", "q")
    assert path.read_text() == ">.G\n"
    messages = [frame.split("\n")[1] for frame in screen.frames]
    assert messages[2].startswith("not saved: parse_levels: text 0 must have one agent")
    assert messages[3].startswith("parse_levels: text 0 must have one agent")
    assert not editor.saved


@pytest.mark.parametrize(
    ("made", "text", "rule"),
    [
        (lambda: jaxenv.make("AMaze-13x13-v0"), ">.x", r"line 1, column 3 .*got 'x'"),
        (lambda: jaxenv.make("FrozenLake-v1"), "SF\nFx", r"desc, line 2, column 2 .*got 'x'"),
        (lambda: jaxenv.make("CartPole-v1"), "SF", r"CartPole-v1 has none"),
        (lambda: jaxenv.make("MiniGrid-Fetch-5x5-N2-v0"), "SF", r"Fetch.* no text form"),
        (lambda: jaxenv.make("FrozenLake-v1", 2), "SF", r"play: env .*got num_envs=2"),
    ],
)
def test_files_and_tasks_that_cannot_be_edited_are_refused(made, text, rule, tmp_path):
    path = tmp_path / "level.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=rule):
        Editor(made(), None, path)
    with pytest.raises(ValueError, match="play: edit must be a file of text"):
        Editor(jaxenv.make("FrozenLake-v1"), None, tmp_path)
