"""The benchmarks run and count what they claim. No timing decides a test."""

import importlib
import json
import pathlib

import jax
import pytest

import jaxenv

ROOT = pathlib.Path(__file__).parents[1]
LANES, STEPS = 8, 40


@pytest.fixture
def throughput(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    # The peers are written for JAX's own promotion of types and ranks.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield importlib.import_module("benchmarks.throughput")


@pytest.fixture
def run(throughput, tmp_path):
    def run(*arguments):
        path = tmp_path / "result.json"
        sizes = ["--num-envs", str(LANES), "--num-steps", str(STEPS), "--repeats", "1"]
        assert throughput.main([*arguments, *sizes, "--json", str(path)]) == 0
        return json.loads(path.read_text())

    return run


def first_rows(id, seed):
    """FIRST rows among those that ``STEPS`` steps return."""
    env = jaxenv.make(id, num_envs=LANES)
    state, timestep = env.reset(jax.random.key(seed))
    (_, last, _), rows = jaxenv.unroll(env, jaxenv.rollout.random_policy(env), state, timestep, STEPS)
    return int(rows.timestep.is_first()[1:].sum()) + int(last.is_first().sum())


@pytest.mark.parametrize("store", [[], ["--store"]], ids=["summed", "stored"])
def test_both_sides_count_their_steps_exactly(run, store):
    content = run("--ids", "CartPole-v1", "--peers", "gymnax", *store)
    (row,) = content["rows"]
    assert row["notes"] == []
    ours, theirs = (row["contestants"][name] for name in ("jaxenv", "gymnax"))
    restarts = first_rows("CartPole-v1", seed=1)
    assert restarts > 0
    assert ours["steps"] == [LANES * STEPS - restarts]
    assert theirs["steps"] == [LANES * STEPS]
    assert ours["episodes"][0] >= restarts
    assert theirs["episodes"][0] > 0
    assert row["ratios"] == {"gymnax": pytest.approx(ours["steps_per_second"] / theirs["steps_per_second"])}


def test_all_sides_store_the_same_fields(throughput):
    def stored(contestant):
        return {k: (x.shape, x.dtype.itemsize) for k, x in contestant.run(0).items() if k != "steps"}

    from benchmarks import peers

    settings = ("CartPole-v1", LANES, STEPS, True)
    expected = stored(throughput.ours(*settings))
    assert expected["observation"] == ((STEPS, LANES, 4), 4)
    assert expected.keys() == {"observation", "action", "reward", "terminated", "truncated"}
    assert stored(peers.gymnax(*settings)) == expected


def test_numpy_environment_counts_no_step_where_an_episode_begins(run):
    pytest.importorskip("gymnasium")
    content = run("--ids", "CartPole-v1", "--peers", "gymnasium")
    theirs = content["rows"][0]["contestants"]["gymnasium"]
    restarts = LANES * STEPS - theirs["steps"][0]
    # Each end but those on the last row is followed by one row that is no step.
    assert 0 < theirs["episodes"][0] - LANES <= restarts <= theirs["episodes"][0]
    assert theirs["compile_seconds"] is None


def test_result_file_records_where_the_figures_come_from(run):
    content = run("--ids", "TicTacToe-v0", "--peers", "gymnax")
    assert content["benchmark"] == "throughput"
    assert content["settings"]["repeats"] == 1
    record = content["record"]
    assert {"date", "commit", "device", "cpu", "cpu_count", "load_average", "versions"} <= record.keys()
    assert {"jaxenv", "jax", "jaxlib", "numpy", "gymnax"} <= record["versions"].keys()
    (row,) = content["rows"]
    assert (row["id"], row["num_envs"], row["num_steps"]) == ("TicTacToe-v0", LANES, STEPS)
    assert row["contestants"]["jaxenv"].keys() == {
        "steps_per_second",
        "compile_seconds",
        "seconds",
        "steps",
        "episodes",
    }
    # An id that the peer does not have is run without a ratio.
    assert row["ratios"] == {}
    assert row["notes"] == ["gymnax has no TicTacToe-v0"]


def test_another_task_under_the_same_id_is_not_compared(throughput, monkeypatch):
    from benchmarks import peers

    monkeypatch.setitem(peers._GYMNAX_NAMES, "CartPole-v1", {"length": "masspole"})
    with pytest.raises(
        peers.Unavailable, match=r"gymnax plays another CartPole-v1: masspole is 0\.1, here length is 0\.5"
    ):
        peers.gymnax("CartPole-v1", LANES, STEPS, store=False)


def test_default_run_lasts_three_mean_episodes(throughput, monkeypatch):
    monkeypatch.setattr(throughput, "LANE_STEPS", 1)
    assert throughput.default_num_steps("Pendulum-v1", LANES) == 3 * (200 + 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ids", "CartPole-v7"], "no environment 'CartPole-v7'; the closest ids are"),
        (["--num-envs", "0"], "must be a whole number of at least 1, got '0'"),
        (["--repeats", "two"], "must be a whole number of at least 1, got 'two'"),
        (["--peers", "envpool"], "invalid choice: 'envpool'"),
        (["--json", "no/such/folder/a.json"], "it must be a file in a folder that exists"),
    ],
)
def test_bad_arguments_end_with_status_2_and_one_line(throughput, capsys, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        throughput.main(arguments)
    assert stopped.value.code == 2
    text = capsys.readouterr().err
    assert message in text
    assert text.count("\n") == 1
