"""`jaxenv render`: pictures of environments. tests/training/test_trained.py has those of trained policies."""

import pytest

from jaxenv import cli
from jaxenv.rollout import _film as _frames
from tests.packages import lazy

Image = lazy("PIL.Image")


@pytest.mark.parametrize("picture", [32, 256])
def test_an_environment_may_have_a_size_besides_that_of_its_picture(capsys, tmp_path, picture):
    file = tmp_path / "sea.png"
    argv = ["render", "DeepSea-bsuite", "--env", "size=3", "--num-steps", "2", "--out", str(file)]
    # The caption is wider than the smaller picture.
    assert cli.main([*argv, "--size", str(picture)]) == 0
    assert str(file) in capsys.readouterr().out
    with Image.open(file) as image:
        assert min(image.size) > picture


def test_a_film_that_ends_before_the_episode_says_so_on_stderr(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(_frames, "_MAX_STEPS", 3)
    assert cli.main(["render", "Pendulum-v1", "--size", "8", "--out", str(tmp_path / "cut.gif")]) == 0
    error = capsys.readouterr().err
    assert error.startswith("jaxenv render: record: the film ends after 3 steps, before the episodes of 1 of 1 lanes")
    assert error.count("\n") == 1


def test_a_baseline_is_rendered_by_its_name(capsys, tmp_path):
    file = tmp_path / "catch.png"
    argv = ["render", "baseline:Catch-bsuite", "--num-steps", "2", "--size", "32", "--out", str(file)]
    assert cli.main(argv) == 0
    assert "Catch-bsuite, seed" in capsys.readouterr().out
    assert file.is_file()


@pytest.mark.usefixtures("drifting")
def test_a_run_whose_agents_are_lanes_is_rendered_as_one_game(capsys, tmp_path):
    run, film = tmp_path / "run", tmp_path / "game.png"
    settings = ["--set", "wrappers=AgentsAsLanes", "num_envs=6", "num_eval_episodes=3", "num_evaluations=1"]
    argv = ["train", "SimpleSpread-mpe", "--algo", "drift", "--total-steps", "96", "--seeds", "1", *settings]
    assert cli.main([*argv, "--out", str(run)]) == 0
    assert cli.main(["render", str(run), "--num-steps", "2", "--size", "32", "--out", str(film)]) == 0
    assert str(film) in capsys.readouterr().out
    with Image.open(film) as image:
        assert 32 <= image.size[1] < 64  # one row, not one for each of the three agents
