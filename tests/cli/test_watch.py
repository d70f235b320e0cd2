"""`jaxenv watch`: games of several agents, and the newest checkpoint. tests/training/test_trained.py has the frames."""

import pytest

from jaxenv import cli
from jaxenv.cli import watch


class Screen:
    """A terminal of 80 columns and 24 lines without keys, which counts what it shows."""

    size = (80, 24)
    shown = 0

    def __init__(self, console):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def show(self, content):
        Screen.shown += 1

    def key(self, timeout):
        return None


@pytest.fixture(scope="module")
def run(tmp_path_factory, drifting):
    """A run of three agents that are lanes."""
    folder = tmp_path_factory.mktemp("run")
    settings = ["--set", "wrappers=AgentsAsLanes", "num_envs=6", "num_eval_episodes=3", "num_evaluations=1"]
    argv = ["train", "SimpleSpread-mpe", "--algo", "drift", "--total-steps", "96", "--max-episode-steps", "4"]
    assert cli.main([*argv, *settings, "--out", str(folder)]) == 0
    return folder


@pytest.fixture(autouse=True)
def _in_a_terminal(monkeypatch, capsys, run):
    capsys.readouterr()
    monkeypatch.setattr(watch._terminal, "shows_pictures", lambda console: True)
    monkeypatch.setattr(watch._terminal, "Screen", Screen)
    monkeypatch.setattr(watch._Pace, "wait", lambda pace: False)


@pytest.mark.parametrize(("options", "games"), [([], 1), (["--num-envs", "6"], 2)])
def test_every_game_is_one_episode(run, capsys, options, games):
    assert cli.main(["watch", str(run), "--episodes", "1", *options]) == 0
    assert capsys.readouterr().out.startswith(f"{games} episodes, mean return ")


def test_the_next_episode_shows_a_newer_checkpoint(run, monkeypatch):
    versions, loaded, load = iter([1, 1, 2]), [], watch.load_policy
    monkeypatch.setattr(watch._checkpoints, "version", lambda folder: next(versions))
    monkeypatch.setattr(watch, "load_policy", lambda *args: loaded.append(Screen.shown) or load(*args))
    monkeypatch.setattr(Screen, "shown", 0)
    assert cli.main(["watch", str(run), "--episodes", "2"]) == 0
    assert loaded == [0, 1 + 5]  # "compiling ...", and the start and four steps of the first episode


def test_a_terminal_of_another_size_gets_pictures_of_another_size(run, monkeypatch):
    sides = []
    monkeypatch.setattr(watch, "frame", lambda trained, moment, layout, episode: sides.append(moment.picture.shape[1]))
    monkeypatch.setattr(Screen, "size", property(lambda screen: (80, 24) if not sides else (20, 24)))
    assert cli.main(["watch", str(run), "--episodes", "2"]) == 0
    assert sides == [42] * 5 + [20] * 5
