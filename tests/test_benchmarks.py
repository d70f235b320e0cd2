"""The benchmarks run and count what they claim. No timing decides a test."""

import copy
import importlib
import json
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from benchmarks import __main__ as program
from benchmarks import compare, generator, limit, measure, ours, peers, resets, wrappers

LANES, STEPS = 8, 40
SIZES = ["--num-envs", str(LANES), "--num-steps", str(STEPS), "--repeats", "1"]


@pytest.fixture(autouse=True)
def jax_as_the_peers_know_it():
    # The peers are written for JAX's own promotion of types and ranks.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture
def run(tmp_path):
    """Runs a part at a tiny size and gives what it wrote to its result file."""

    def run(part, *arguments):
        path = tmp_path / "result.json"
        assert module(part).main([*arguments, *SIZES, "--json", str(path)]) == 0
        content = json.loads(path.read_text())
        assert content["benchmark"] == part
        return content

    return run


def module(part):
    return importlib.import_module(f"benchmarks.{program._MODULES.get(part, part)}")


# --- throughput ------------------------------------------------------------------------------------------------------


def first_rows(id, seed):
    """FIRST rows among those that ``STEPS`` steps return."""
    env = jaxenv.make(id, num_envs=LANES)
    state, timestep = env.reset(jax.random.key(seed))
    (_, last, _), rows = jaxenv.unroll(env, jaxenv.rollout.random_policy(env), state, timestep, STEPS)
    return int(rows.timestep.is_first()[1:].sum()) + int(last.is_first().sum())


@pytest.mark.parametrize(
    "store", [pytest.param([], id="summed"), pytest.param(["--store"], id="stored", marks=pytest.mark.thorough)]
)
def test_both_sides_count_their_steps_exactly(run, store):
    content = run("throughput", "--ids", "CartPole-v1", "--peers", "gymnax", *store)
    (row,) = content["rows"]
    assert row["notes"] == []
    mine, theirs = (row["contestants"][name] for name in ("jaxenv", "gymnax"))
    restarts = first_rows("CartPole-v1", seed=1)
    assert restarts > 0
    assert mine["steps"] == [LANES * STEPS - restarts]
    assert theirs["steps"] == [LANES * STEPS]
    assert mine["episodes"][0] >= restarts
    assert theirs["episodes"][0] > 0
    assert row["ratios"] == {"gymnax": pytest.approx(mine["steps_per_second"] / theirs["steps_per_second"])}


def test_all_sides_store_the_same_fields():
    def stored(contestant):
        return {k: (x.shape, x.dtype.itemsize) for k, x in contestant.run(0).items() if k != "steps"}

    settings = ("CartPole-v1", LANES, STEPS, True)
    expected = stored(ours.ours(*settings))
    assert expected["observation"] == ((STEPS, LANES, 4), 4)
    assert expected.keys() == {"observation", "action", "reward", "terminated", "truncated"}
    assert stored(peers.gymnax(*settings)) == expected


def test_numpy_environment_counts_no_step_where_an_episode_begins(run):
    pytest.importorskip("gymnasium")
    content = run("throughput", "--ids", "CartPole-v1", "--peers", "gymnasium")
    theirs = content["rows"][0]["contestants"]["gymnasium"]
    restarts = LANES * STEPS - theirs["steps"][0]
    # Each end but those on the last row is followed by one row that is no step.
    assert 0 < theirs["episodes"][0] - LANES <= restarts <= theirs["episodes"][0]
    assert theirs["compile_seconds"] is None


def test_envpool_takes_the_limit_and_actions_of_every_lane(run, monkeypatch):
    # In its place: Gymnasium's vector environment behind EnvPool's interface, whose action space is that of one lane.
    gymnasium = pytest.importorskip("gymnasium")

    class Pool:
        def __init__(self, id, env_type, num_envs, max_episode_steps):
            assert (id, env_type, num_envs, max_episode_steps) == ("CartPole-v1", "gymnasium", LANES, 500)
            self.envs = gymnasium.make_vec(id, num_envs, vectorization_mode="vector_entry_point")
            self.action_space, self.reset = self.envs.single_action_space, self.envs.reset

        def step(self, action):
            assert action.shape == (LANES,)
            return self.envs.step(action)

    fake = types.SimpleNamespace(make=Pool, list_all_envs=lambda: ["CartPole-v1"])
    monkeypatch.setitem(sys.modules, "envpool", fake)
    row, other = run("throughput", "--ids", "CartPole-v1", "CardGame-v0", "--peers", "envpool")["rows"]
    theirs = row["contestants"]["envpool"]
    assert 0 < theirs["episodes"][0] - LANES <= LANES * STEPS - theirs["steps"][0] <= theirs["episodes"][0]
    assert other["notes"] == ["envpool has no CardGame-v0"]


def test_suite_runs_every_part_into_files_of_one_name(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(program, "run_part", lambda part, arguments: ran.append([part, *arguments]) or part == "limit")
    settings = ["--folder", str(tmp_path), "--prefix", "here", "--num-envs", "8", "--repeats", "2"]
    assert module("suite").main(settings) == 1
    for part, *arguments in ran:
        module(part).parse(arguments)  # ends the program where a part would refuse them
    assert {line[0] for line in ran} == program.PARTS.keys() - {"suite", "compare"}
    files = [line[line.index("--json") + 1] for line in ran]
    assert len(set(files)) == len(ran)
    assert all(name.startswith(str(tmp_path / "here")) for name in files)


def test_result_file_records_where_the_figures_come_from(run):
    content = run("throughput", "--ids", "CardGame-v0", "--peers", "gymnax")
    assert content["settings"]["repeats"] == 1
    record = content["record"]
    expected = {"date", "commit", "device", "cpu", "cpu_count", "load_average_before", "load_average_after", "versions"}
    assert expected <= record.keys()
    assert {"jaxenv", "jax", "jaxlib", "numpy", "gymnax"} <= record["versions"].keys()
    (row,) = content["rows"]
    assert (row["id"], row["num_envs"], row["num_steps"]) == ("CardGame-v0", LANES, STEPS)
    assert row["contestants"]["jaxenv"].keys() == {
        "steps_per_second",
        "compile_seconds",
        "seconds",
        "steps",
        "episodes",
    }
    # An id that the peer does not have is run without a ratio.
    assert row["ratios"] == {}
    assert row["notes"] == ["gymnax has no CardGame-v0"]


def test_another_task_under_the_same_id_is_not_compared(monkeypatch):
    monkeypatch.setitem(peers._GYMNAX_NAMES, "CartPole-v1", {"length": "masspole"})
    with pytest.raises(
        peers.Unavailable, match=r"gymnax plays another CartPole-v1: masspole is 0\.1, here length is 0\.5"
    ):
        peers.gymnax("CartPole-v1", LANES, STEPS, store=False)


def test_default_run_lasts_three_mean_episodes(monkeypatch):
    assert 1 <= ours._mean_length("CardGame-v0") < 21
    monkeypatch.setattr(ours, "_mean_length", lambda id: 200.0)
    assert ours.default_num_steps("Pendulum-v1", LANES) == 2**20 // LANES
    assert ours.default_num_steps("Pendulum-v1", 2**20) == 3 * (200 + 1)


def test_every_contestant_has_every_place_in_the_order():
    order = []
    runs = {name: lambda seed, name=name: order.append((seed, name)) for name in "abc"}
    timed = measure.times_in_turn(runs, 3)
    assert [name for _, name in order] == list("abc" + "abc" + "bca" + "cab")
    assert [seed for seed, _ in order] == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert [len(t) for t in timed.values()] == [3, 3, 3]


# --- the other parts -------------------------------------------------------------------------------------------------


def test_scaling_counts_the_bytes_of_state_and_row(run, tmp_path):
    picture = tmp_path / "plot.png"
    (row,) = run("scaling", "--peers", "--plot", str(picture))["rows"]
    figures = row["contestants"]["jaxenv"]
    # Key, id, episode, step, four floats, ended; type, reward, discount, four floats, action, id, limit reached.
    assert figures["state_bytes_per_lane"] == 2 * 4 + 3 * 4 + 4 * 4 + 1
    assert figures["timestep_bytes_per_lane"] == 3 * 4 + 4 * 4 + 2 * 4 + 1
    assert figures["action_bytes_per_lane"] == 4
    assert figures["nanoseconds_per_step"] == pytest.approx(1e9 / figures["steps_per_second"])
    traffic = 2 * (2 * 4 + 3 * 4 + 4 * 4 + 1) + (3 * 4 + 4 * 4 + 2 * 4 + 1) + 4
    assert figures["traffic_bytes_per_step"] == traffic
    assert figures["memory_limit_nanoseconds"] > 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.thorough
def test_compile_times_stand_beside_gymnax(run):
    first, second = run("compile", "--ids", "MountainCar-v0", "CardGame-v0")["rows"]
    assert first["contestants"].keys() == {"jaxenv", "gymnax"}
    assert first["ratios"].keys() == {"gymnax"}
    assert second["contestants"].keys() == {"jaxenv"}
    assert second["notes"] == ["gymnax has no CardGame-v0"]


@pytest.mark.thorough
def test_resets_run_every_strategy_and_all_play_the_same_steps(run):
    toy, id = run("resets", "--resets", "cheap", "--shares", "0.2", "--ids", "CartPole-v1")["rows"]
    for row in toy, id:
        assert row["contestants"].keys() == {"select", "cond", "compact 16", "compact 64", "compact 256"}
        steps, episodes = (
            {name: figures[what] for name, figures in row["contestants"].items()} for what in ("steps", "episodes")
        )
        assert len({tuple(counts) for counts in steps.values()}) == len({tuple(n) for n in episodes.values()}) == 1
        assert sum(episodes["select"]) > 0
    assert (toy["reset"], toy["share"], id["id"]) == ("cheap", 0.2, "CartPole-v1")


@pytest.mark.thorough
def test_seeds_under_vmap_play_as_many_steps_as_one_batch(run):
    rows = run("seeds", "--ids", "CartPole-v1", "--seeds", "3")["rows"]
    assert [row["strategy"] for row in rows] == ["select", "cond", "compact"]
    under_vmap = {tuple(row["contestants"]["under vmap"]["steps"]) for row in rows}
    assert len(under_vmap) == 1
    for row in rows:
        # FIRST rows are no steps: at most one in nine or so in episodes of CartPole.
        for side in row["contestants"].values():
            assert 0.8 * 3 * LANES * STEPS < side["steps"][0] < 3 * LANES * STEPS


def test_the_share_of_lanes_that_end_is_the_one_asked_for():
    env = resets.AutoReset(resets.Ending(0.2, num_envs=500))
    totals = ours.rollout("select", env, 100).run(0)
    assert totals["terminated"].sum() / totals["steps"].sum() == pytest.approx(0.2, abs=0.01)


def test_the_dear_reset_gives_other_words_than_the_cheap_one():
    stream = jaxenv.random.stream(jax.random.split(jax.random.key(0), 3))
    cheap, dear = (resets.Ending(rounds=rounds).initial(stream) for rounds in resets.ROUNDS.values())
    assert cheap.shape == dear.shape == (3, 16)
    assert not np.any(np.asarray(cheap) == np.asarray(dear))


def test_generators_run(run, monkeypatch):
    few = ("jaxenv.random", "Philox-4x32-7", "jax.random rbg")
    monkeypatch.setattr(generator, "GENERATORS", {name: generator.GENERATORS[name] for name in few})
    (row,) = run("generator")["rows"]
    assert row["contestants"].keys() == generator.GENERATORS.keys()
    assert row["ratios"].keys() == generator.GENERATORS.keys() - {"jaxenv.random"}


ONES = (0xFFFFFFFF,) * 4
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)


@pytest.mark.parametrize(
    ("rounds", "counter", "key", "words"),
    [
        (7, (0,) * 4, (0, 0), (0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48)),
        (7, ONES, ONES[:2], (0x5207DDC2, 0x45165E59, 0x4D8EE751, 0x8C52F662)),
        (7, PI[:4], PI[4:], (0x4DFCCABA, 0x190A87F0, 0xC47362BA, 0xB6B5242A)),
        (10, (0,) * 4, (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (10, ONES, ONES[:2], (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (10, PI[:4], PI[4:], (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ],
)
def test_philox_gives_the_published_known_answers(rounds, counter, key, words):
    key, counter = (tuple(jnp.uint32(word) for word in part) for part in (key, counter))
    assert tuple(int(word) for word in generator.philox4x32(key, counter, rounds)) == words


def test_wrappers_are_each_compared_with_the_stack_below(run, monkeypatch):
    few = ("bare", "ClipAction", "AutoReset", "AutoReset + TimeLimit")
    monkeypatch.setattr(wrappers, "STACKS", {name: wrappers.STACKS[name] for name in few})
    (row,) = run("wrappers", "--ids", "Pendulum-v1")["rows"]
    assert row["contestants"].keys() == wrappers.STACKS.keys()
    assert row["ratios"].keys() == wrappers.STACKS.keys() - {"bare"}
    seconds = {name: figures["seconds"][0] for name, figures in row["contestants"].items()}
    expected = seconds["AutoReset + TimeLimit"] / seconds["AutoReset"]
    assert row["ratios"]["AutoReset + TimeLimit"] == pytest.approx(expected)


def test_clipping_is_measured_where_actions_are_continuous():
    assert [wrappers._continuous(id) for id in ("CartPole-v1", "Pendulum-v1")] == [False, True]


def test_stepping_calls_the_step_and_the_empty_functions(run):
    (row,) = run("stepping", "--ids", "CartPole-v1")["rows"]
    assert row["contestants"].keys() == {"jaxenv", "same state", "same state and row"}
    assert all(figures["microseconds_per_call"] > 0 for figures in row["contestants"].values())
    assert (row["num_calls"], row["arrays"]) == (STEPS, 17)


# --- the limit -------------------------------------------------------------------------------------------------------


@pytest.fixture
def compiled():
    try:
        return limit.program()
    except peers.Unavailable as reason:
        pytest.skip(str(reason))


def test_c_plays_the_librarys_own_episodes(compiled):
    lanes, steps = 512, 60
    mine, theirs = (c.run(3) for c in (ours.ours(limit.ID, lanes, steps, False), limit.in_c(lanes, steps)))
    # The same streams: only a lane that falls within rounding of a bound may do so one step later.
    for name in ("steps", "terminated", "truncated", "reward"):
        assert np.mean(np.asarray(mine[name]) == theirs[name]) > 0.99, name
    np.testing.assert_allclose(np.median(np.abs(np.asarray(mine["observation"]) - theirs["observation"])), 0, atol=1e-4)
    assert theirs["terminated"].sum() > lanes


def test_c_ends_episodes_at_the_time_limit(compiled, monkeypatch):
    monkeypatch.setattr(limit.jaxenv, "spec", lambda id: type("Spec", (), {"max_episode_steps": 5}))
    totals = limit.in_c(64, 12).run(0)
    assert totals["truncated"].tolist() == [2] * 64  # on rows 5 and 11; rows 6 and 12 begin an episode
    assert totals["steps"].tolist() == [10] * 64


def test_limit_compares_one_thread_each(compiled, run):
    (row,) = run("limit")["rows"]
    assert row["contestants"].keys() == {"jaxenv", "C"}
    assert row["ratios"].keys() == {"C"}
    assert "processor" in row["notes"][0]


def test_limit_does_without_a_compiler(run, monkeypatch, capsys):
    monkeypatch.setattr(limit.shutil, "which", lambda name: None)
    limit.program.cache_clear()
    (row,) = run("limit")["rows"]
    assert row["contestants"].keys() == {"jaxenv"}
    assert "note: no comparison: no C compiler is found" in capsys.readouterr().out
    limit.program.cache_clear()


# --- compare ---------------------------------------------------------------------------------------------------------

RESULT = {
    "benchmark": "throughput",
    "record": {"device": "cpu: cpu"},
    "rows": [
        {
            "id": "CartPole-v1",
            "num_envs": 64,
            "contestants": {
                "jaxenv": {"steps_per_second": 2e7, "compile_seconds": 2.0},
                "gymnax": {"steps_per_second": 1e6, "compile_seconds": 4.0},
            },
        }
    ],
}


def compared(tmp_path, *arguments, benchmark="throughput", **factors):
    """Status of a comparison of `RESULT` with itself after some of its figures were multiplied."""
    old = {**copy.deepcopy(RESULT), "benchmark": benchmark}
    new = copy.deepcopy(old)
    for name, (figure, factor) in factors.items():
        new["rows"][0]["contestants"][name][figure] *= factor
    for name, content in (("old", old), ("new", new)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return compare.main([*arguments, str(tmp_path / "old.json"), str(tmp_path / "new.json")])


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"jaxenv": ("steps_per_second", 0.8)}, 1),
        ({"jaxenv": ("steps_per_second", 0.95)}, 0),
        ({"jaxenv": ("steps_per_second", 1.5)}, 0),
        ({"gymnax": ("steps_per_second", 0.5)}, 0),
        ({"jaxenv": ("compile_seconds", 1.3)}, 0),
        ({}, 0),
    ],
    ids=["20% slower", "5% slower", "faster", "a slower peer", "one compilation", "the same"],
)
def test_compare_flags_what_became_more_than_a_tenth_slower(tmp_path, capsys, change, status):
    assert compared(tmp_path, **change) == status
    assert ("REGRESSION" in capsys.readouterr().out) == bool(status)


@pytest.mark.parametrize("peer", peers.PEERS)
def test_compare_never_flags_a_peer(tmp_path, peer):
    before, after = ({**RESULT, "rows": [{"contestants": {peer: {"steps_per_second": rate}}}]} for rate in (1e6, 5e5))
    (change,) = compare.changes(before, after)
    assert change.worse == 2
    assert not change.flagged


def test_compare_judges_compile_times_of_their_own_part(tmp_path):
    assert compared(tmp_path, benchmark="compile", jaxenv=("compile_seconds", 1.3)) == 1


def test_compare_beside_a_peer_takes_the_machine_out(tmp_path):
    slower_machine = {"jaxenv": ("steps_per_second", 0.5), "gymnax": ("steps_per_second", 0.52)}
    assert compared(tmp_path, **slower_machine) == 1
    assert compared(tmp_path, "--beside", "gymnax", **slower_machine) == 0
    assert compared(tmp_path, "--beside", "gymnax", jaxenv=("steps_per_second", 0.8)) == 1


def test_compare_writes_every_figure(tmp_path):
    path = tmp_path / "changes.json"
    compared(tmp_path, "--json", str(path), jaxenv=("steps_per_second", 0.8))
    rows = json.loads(path.read_text())["rows"]
    assert [(row["contestant"], row["regression"]) for row in rows] == [("jaxenv", True), ("gymnax", False)]
    assert rows[0]["worse"] == pytest.approx(1.25)


def test_compare_reads_what_a_part_wrote(run, tmp_path, capsys):
    run("throughput", "--ids", "CardGame-v0", "--peers")
    path = str(tmp_path / "result.json")
    assert compare.main([path, path]) == 0
    assert capsys.readouterr().out.endswith("1 figures compared, 0 regressions over 10%\n")


# --- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "arguments", "message"),
    [
        ("throughput", ["--ids", "CartPole-v7"], "no environment 'CartPole-v7'; the closest ids are"),
        ("throughput", ["--num-envs", "0"], "must be a whole number of at least 1, got '0'"),
        ("throughput", ["--repeats", "two"], "must be a whole number of at least 1, got 'two'"),
        ("throughput", ["--peers", "brax"], "invalid choice: 'brax'"),
        ("throughput", ["--json", "no/such/folder/a.json"], "it must be a file in a folder that exists"),
        ("scaling", ["--plot", "plot.jpg"], "must end with .png, got 'plot.jpg'"),
        ("resets", ["--shares", "1.5"], "must be a number from 0 to 1, got '1.5'"),
        ("compare", ["no.json", "no.json"], "cannot read 'no.json'"),
        ("compare", [__file__, __file__], "is no result file of a benchmark"),
    ],
)
def test_bad_arguments_end_with_status_2_and_one_line(capsys, part, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        program.main([part, *arguments])
    assert stopped.value.code == 2
    text = capsys.readouterr().err
    assert text.startswith(f"python -m benchmarks {part}: ")
    assert message in text
    assert text.count("\n") == 1


def test_compare_refuses_files_that_have_nothing_in_common(tmp_path, capsys):
    for name, benchmark in (("a", "throughput"), ("b", "scaling"), ("c", "throughput")):
        rows = [] if name == "c" else RESULT["rows"]
        (tmp_path / name).write_text(json.dumps({**RESULT, "benchmark": benchmark, "rows": rows}))
    for other, message in (("b", "one file is of throughput, the other of scaling"), ("c", "no figure in common")):
        with pytest.raises(SystemExit):
            compare.main([str(tmp_path / "a"), str(tmp_path / other)])
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("part", program.PARTS)
def test_every_part_has_a_help_that_shows_defaults(capsys, part):
    with pytest.raises(SystemExit) as stopped:
        program.main([part, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: python -m benchmarks {part}")
    assert ("--folder" if part == "suite" else "--json") in text
    assert "None" not in text


@pytest.mark.parametrize(("arguments", "message"), [([], "a part is missing"), (["fly"], "no part 'fly'")])
def test_a_part_that_is_missing_or_unknown_is_refused(capsys, arguments, message):
    assert program.main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"python -m benchmarks: {message}; the parts are throughput, ")


def test_help_lists_the_parts(capsys):
    assert program.main(["--help"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[3:]] == list(program.PARTS)


def test_compiled_programs_are_cached_again_after_a_benchmark():
    cached = jax.config.jax_enable_compilation_cache
    with pytest.raises(SystemExit):
        program.main(["limit", "--help"])
    assert jax.config.jax_enable_compilation_cache == cached


# --- data ------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # of what rlax imports
@pytest.mark.parametrize("kind", ["gae", "td_lambda", "n_step_return", "vtrace"])
def test_returns_are_compared_where_both_sides_mean_the_same_and_agree_there(kind):
    pytest.importorskip("rlax")
    row = module("returns").compare(kind, num_steps=40, num_envs=8, repeats=1, calls=1)
    assert row["rows_compared"] > 250
    assert row["largest_difference"] < 1e-4
    mine, theirs = (row["contestants"][name]["milliseconds_per_call"] for name in ("jaxenv", "rlax"))
    assert row["ratios"] == {"rlax": theirs / mine}


@pytest.mark.filterwarnings("ignore")  # of what flashbax imports
def test_replay_is_measured_beside_flashbax_on_the_same_rows(tmp_path):
    pytest.importorskip("flashbax")
    path = tmp_path / "replay.json"
    sizes = ["--scale", "64", "--repeats", "1", "--rows", "cart-pole", "--work", "add-1", "sample-256x2"]
    assert module("replay").main([*sizes, "--json", str(path)]) == 0
    add, sample = json.loads(path.read_text())["rows"]
    assert set(sample["contestants"]) == {"jaxenv", "flashbax", "flashbax items"}
    assert sample["contestants"]["jaxenv"]["bytes_per_row"] < sample["contestants"]["flashbax items"]["bytes_per_row"]
    assert add["ratios"]["flashbax"] > 0
