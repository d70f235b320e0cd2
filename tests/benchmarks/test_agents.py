"""Tasks of several agents: both sides play whole episodes of the same number of steps."""

import pytest

import jaxenv
from benchmarks import agents
from tests.benchmarks.sizes import LANES, STEPS


@pytest.mark.parametrize("loop", agents.LOOPS)
@pytest.mark.parametrize("id", agents.PEERS)
def test_both_sides_play_the_same_steps(run, id, loop):
    pytest.importorskip("jaxmarl")
    (row,) = run("agents", "--ids", id, "--loops", loop)["rows"]
    sides = row["contestants"]
    assert sides["jaxmarl"]["steps"][0] == LANES * STEPS
    ends = jaxenv.spec(id).max_episode_steps < STEPS
    assert sides["jaxenv"]["steps"][0] == LANES * (STEPS - ends)  # one row starts the second episode
    assert [side["episodes"][0] for side in sides.values()] == [LANES * ends] * 2
    assert id in agents.report([row])


def test_without_jaxmarl_a_message_says_so(capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jaxmarl", None)
    assert agents.main(["--num-envs", str(LANES), "--num-steps", str(STEPS)]) == 1
    assert "jaxmarl cannot be imported" in capsys.readouterr().err


def test_other_ids_are_refused(capsys):
    with pytest.raises(SystemExit):
        agents.parse(["--ids", "TicTacToe-v0"])
    assert "got 'TicTacToe-v0'" in capsys.readouterr().err
