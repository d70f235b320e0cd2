"""Tasks of several agents: both sides play whole episodes of the same number of steps."""

import sys

import pytest

import jaxenv
from benchmarks import __main__ as program
from benchmarks import agents
from tests.benchmarks.sizes import LANES, STEPS


@pytest.mark.parametrize("loop", agents.LOOPS)
@pytest.mark.parametrize("id", agents.PEERS)
def test_both_sides_play_the_same_steps(run, id, loop):
    peer = "jaxmarl" if id in agents.JAXMARL else "jumanji"
    pytest.importorskip(peer)
    (row,) = run("agents", "--ids", id, "--loops", loop)["rows"]
    sides = row["contestants"]
    assert sides[peer]["steps"][0] == LANES * STEPS
    ends = jaxenv.spec(id).max_episode_steps < STEPS
    assert sides["jaxenv"]["steps"][0] == LANES * (STEPS - ends)  # one row starts the second episode
    assert [side["episodes"][0] for side in sides.values()] == [LANES * ends] * 2
    assert id in agents.report([row], None)


@pytest.mark.parametrize(("peer", "id"), [("jaxmarl", "SimpleSpread-mpe"), ("jumanji", "Foraging-10x10-3p-3f-v3")])
def test_without_the_peer_jaxenv_is_measured_and_a_note_says_so(run, capsys, monkeypatch, peer, id):
    monkeypatch.setitem(sys.modules, peer, None)
    rows = run("agents", "--ids", id)["rows"]
    assert [(row["loop"], [*row["contestants"]], row["ratios"]) for row in rows] == [
        (loop, ["jaxenv"], {}) for loop in agents.LOOPS
    ]
    out = capsys.readouterr().out
    assert f"note: {peer} cannot be imported" in out


def test_other_ids_are_refused(capsys):
    with pytest.raises(SystemExit):
        program.parse("agents", ["--ids", "TicTacToe-v0"])
    assert "got 'TicTacToe-v0'" in capsys.readouterr().err
