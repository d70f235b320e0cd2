"""The rollout in C plays the episodes of jaxenv."""

import numpy as np
import pytest

from benchmarks import limit, ours, peers


@pytest.fixture
def compiled():
    try:
        return limit.program()
    except peers.Unavailable as error:
        pytest.skip(str(error))


def test_c_plays_the_same_episodes_as_jaxenv(compiled):
    lanes, steps = 512, 60
    mine, theirs = (c.run(3) for c in (ours.rollout_of_id(limit.ID, lanes, steps), limit.in_c(lanes, steps)))
    # Both sides use the same streams, so only a lane within rounding of a bound can end at a different step.
    for name in ("steps", "terminated", "truncated", "reward"):
        assert np.mean(np.asarray(mine[name]) == theirs[name]) > 0.99, name
    np.testing.assert_allclose(np.median(np.abs(np.asarray(mine["observation"]) - theirs["observation"])), 0, atol=1e-4)
    assert theirs["terminated"].sum() > lanes


def test_c_truncates_episodes_at_the_time_limit(compiled, monkeypatch):
    monkeypatch.setattr(limit.jaxenv, "spec", lambda id: type("Spec", (), {"max_episode_steps": 5}))
    totals = limit.in_c(64, 12).run(0)
    assert totals["truncated"].tolist() == [2] * 64  # on rows 5 and 11; rows 6 and 12 start an episode
    assert totals["steps"].tolist() == [10] * 64


def test_limit_compares_one_thread_of_each_side(compiled, run):
    (row,) = run("limit")["rows"]
    assert row["contestants"].keys() == {"jaxenv", "C"}
    assert row["ratios"].keys() == {"C"}
    assert "processor" in row["notes"][0]


def test_limit_without_a_compiler_measures_jaxenv_alone(run, monkeypatch, capsys):
    monkeypatch.setattr(limit.shutil, "which", lambda name: None)
    limit.program.cache_clear()
    (row,) = run("limit")["rows"]
    assert row["contestants"].keys() == {"jaxenv"}
    assert "note: no C compiler found" in capsys.readouterr().out
    limit.program.cache_clear()
