"""Environments of other libraries: both sides play the same task, and count the same steps."""

import sys

import jax
import pytest

import jaxenv
from benchmarks import __main__ as program
from benchmarks import libraries
from tests.benchmarks.sizes import LANES, STEPS


def test_a_suite_is_compared_with_the_loop_of_its_users_and_a_native_id(run, capsys):
    (row,) = run("throughput", "--ids", "gymnax:CartPole-v1", "--peers", "library", "native")["rows"]
    assert row["contestants"].keys() == {"jaxenv", "library", "native"}
    assert row["ratios"].keys() == {"library", "native"}
    for name, found in row["contestants"].items():
        # gymnax restarts lanes within a step, so every one of its rows is a step; random episodes last about 20 steps.
        expected = LANES * STEPS - (0 if name == "library" else found["episodes"][0])
        assert abs(found["steps"][0] - expected) <= LANES
        assert 5 <= found["episodes"][0] <= 40
    assert "gymnax:CartPole-v1" in capsys.readouterr().out


def test_an_environment_outside_jax_is_compared_with_its_own_loop(run, monkeypatch):
    gymnasium = pytest.importorskip("gymnasium")
    make_vec = gymnasium.make_vec
    one_process = lambda id, n, **_: make_vec(id, n, vectorization_mode="sync")  # noqa: E731
    monkeypatch.setattr(gymnasium, "make_vec", one_process)
    (row,) = run("throughput", "--ids", "gymnasium:CartPole-v1", "--peers", "library", "native")["rows"]
    assert row["contestants"].keys() == {"jaxenv", "library"}
    assert row["notes"] == ["native: no environment here has the task of gymnasium:CartPole-v1"]
    for found in row["contestants"].values():
        # Every episode but the last of a lane has a row after its end, which is no step.
        assert abs(found["steps"][0] + found["episodes"][0] - LANES * STEPS) <= LANES
        assert 5 <= found["episodes"][0] <= 40


def test_a_suite_that_is_missing_is_a_note_of_both_sides(run, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jumanji", None)
    (row,) = run("throughput", "--ids", "jumanji:Snake-v1", "--peers", "library")["rows"]
    assert (row["contestants"], row["ratios"]) == ({}, {})
    assert len(row["notes"]) == 2
    assert "note: jumanji cannot be imported" in capsys.readouterr().out


def test_an_id_of_no_library_is_a_note_and_one_of_no_suite_is_refused(run, capsys):
    (row,) = run("throughput", "--ids", "CardGame-v0", "--peers", "library", "pgx")["rows"]
    assert row["notes"] == ["no library of its own has CardGame-v0", "pgx has no CardGame-v0"]
    with pytest.raises(SystemExit):
        program.parse("throughput", ["--ids", "nosuite:CartPole-v1"])
    assert "no suite and no module 'nosuite'" in capsys.readouterr().err


@pytest.mark.parametrize("loop", ["sums", "stored"])
@pytest.mark.parametrize(
    ("peer", "id"), [(peer, id) for peer in ("jaxmarl", "jumanji") for id in libraries.COUNTERPARTS[peer]]
)
def test_both_sides_of_a_task_of_several_agents_play_the_same_steps(run, peer, id, loop):
    pytest.importorskip(peer)
    (row,) = run("throughput", "--ids", id, "--peers", peer, "--loop", loop)["rows"]
    sides = row["contestants"]
    assert sides[peer]["steps"][0] == LANES * STEPS
    ends = jaxenv.spec(id).max_episode_steps < STEPS
    assert sides["jaxenv"]["steps"][0] == LANES * (STEPS - ends)  # one row starts the second episode
    assert [sides[name]["episodes"][0] for name in ("jaxenv", peer)] == [LANES * ends] * 2


def test_both_sides_play_board_games_of_the_same_length(run):
    pytest.importorskip("pgx")
    (row,) = run("throughput", "--ids", "ConnectFour-v0", "--peers", "pgx")["rows"]
    sides = row["contestants"]
    assert sides["pgx"]["steps"][0] == LANES * STEPS  # a lane restarts in the step that ends its game
    assert abs(LANES * STEPS - sides["jaxenv"]["steps"][0] - sides["jaxenv"]["episodes"][0]) <= LANES
    for side in sides.values():
        assert 10 <= side["steps"][0] / side["episodes"][0] <= 35


@pytest.mark.parametrize("id", ["jumanji:Maze-v0", "jumanji:RubiksCube-v0", "jumanji:Snake-v1"])
def test_actions_of_jumanji_obey_the_masks_where_there_are_masks(id):
    pytest.importorskip("jumanji")
    loop = libraries.jumanji(id.partition(":")[2], LANES)
    state = loop.reset(jax.random.split(jax.random.key(0), LANES))
    mask = getattr(state[1].observation, "action_mask", None)
    drawn = jax.vmap(lambda key: loop.sample(state, key))(jax.random.split(jax.random.key(1), 100))
    assert drawn.shape[:2] == (100, LANES)
    assert drawn.reshape(100, LANES, -1).min() >= 0
    if mask is not None:
        assert jax.numpy.take_along_axis(mask, drawn.T, axis=1).all()
        assert all(set(drawn[:, lane].tolist()) == set(mask[lane].nonzero()[0].tolist()) for lane in range(LANES))


@pytest.mark.parametrize(
    ("peer", "id"), [("jaxmarl", "SimpleSpread-mpe"), ("jumanji", "Foraging-10x10-3p-3f-v3"), ("pgx", "2048-v0")]
)
def test_without_the_peer_jaxenv_is_measured_and_a_note_says_so(run, capsys, monkeypatch, peer, id):
    monkeypatch.setitem(sys.modules, peer, None)
    (row,) = run("throughput", "--ids", id, "--peers", peer)["rows"]
    assert (list(row["contestants"]), row["ratios"]) == (["jaxenv"], {})
    assert f"note: {peer} cannot be imported" in capsys.readouterr().out
