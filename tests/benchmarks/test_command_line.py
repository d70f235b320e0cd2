"""The command line of the benchmarks: help texts, invalid arguments and exit status."""

import json
import pathlib
import re
import types

import jax
import pytest

import benchmarks
import jaxenv
from benchmarks import __main__ as program
from benchmarks import command, measure, suite, tables

ROOT = pathlib.Path(benchmarks.__file__).parents[1]


@pytest.mark.parametrize(
    ("part", "arguments", "message"),
    [
        ("throughput", ["--ids", "CartPole-v7"], "no environment 'CartPole-v7', did you mean"),
        ("throughput", ["--num-envs", "0"], "must be a whole number of at least 1, got '0'"),
        ("throughput", ["--repeats", "two"], "must be a whole number of at least 1, got 'two'"),
        ("throughput", ["--peers", "brax"], "invalid choice: 'brax'"),
        ("throughput", ["--json", "no/such/folder/a.json"], "it must be a file in an existing folder"),
        ("scaling", ["--plot", "plot.jpg"], "must end with .png, got 'plot.jpg'"),
        ("ppo", ["--ids", "Pendulum-v1"], "must have one integer as action, as purejaxrl's PPO, got 'Pendulum-v1'"),
        ("training", ["--ids", "Swimmer-misc"], "no preset of these ids and learners, the presets are "),
        ("training", ["--table", "--ids", "CartPole-v1"], "leave out --ids, --algos and --ship"),
        ("compare", ["no.json", "no.json"], "cannot read 'no.json'"),
        ("compare", [__file__, __file__], "is not a result file of a benchmark"),
    ],
)
def test_invalid_arguments_exit_with_status_2_and_a_one_line_message(capsys, part, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        program.main([part, *arguments])
    assert stopped.value.code == 2
    text = capsys.readouterr().err
    assert text.startswith(f"jaxenv bench {part}: ")
    assert message in text
    assert text.count("\n") == 1


def test_an_id_that_needs_larger_pictures_is_a_note(capsys):
    argv = ["render", "--no-peers", "--ids", "MiniGrid-FourRooms-v0", "--sizes", "8", "--num-envs", "1"]
    assert program.main([*argv, "--num-steps", "1", "--repeats", "1"]) == 0
    assert "note: MiniGrid-FourRooms-v0: " in capsys.readouterr().out


@pytest.mark.parametrize("part", program.PARTS)
def test_help_of_every_part_shows_its_options_and_defaults(capsys, part):
    with pytest.raises(SystemExit) as stopped:
        program.main([part, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: jaxenv bench {part}")
    written = {"device": "--folder", "suite": "--folder", "training": "--folder", "suites": "--page", "compare": "OLD"}
    written |= {"memories": "--table"}
    assert written.get(part, "--json") in text
    assert "None" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a part is missing"),
        (["fly"], "no part 'fly'"),
        (["scalling"], "no part 'scalling', did you mean 'scaling'?"),
    ],
)
def test_missing_or_unknown_part_is_refused(capsys, arguments, message):
    assert program.main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"jaxenv bench: {message}; the parts are throughput, ")


def test_help_lists_the_parts(capsys):
    assert program.main(["--help"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[3:]] == list(program.PARTS)


def test_compilation_cache_is_restored_after_a_benchmark():
    cached = jax.config.jax_enable_compilation_cache
    with pytest.raises(SystemExit):
        program.main(["host", "--help"])
    assert jax.config.jax_enable_compilation_cache == cached


def test_the_suite_runs_every_part_but_those_that_its_help_names_with_valid_arguments(tmp_path):
    lines = suite.commands(tmp_path, "gpu", [2048, 2**20], repeats=3)
    _, _, left_out = program.PARTS["suite"].removesuffix(", into files").partition("all but ")
    others = {*left_out.replace(" and ", ", ").split(", "), "suite", "compare"}
    assert {part for part, *_ in lines} == program.PARTS.keys() - others
    parsed = [program.parse(part, rest) for part, *rest in lines]
    assert len({args.json for args in parsed}) == len(lines)
    assert all(args.repeats == 3 for args in parsed)
    ids = [id for line, args in zip(lines, parsed, strict=True) if line[0] == "throughput" for id in args.ids]
    assert set(ids) == set(jaxenv.ids())
    stored = [args for line, args in zip(lines, parsed, strict=True) if "stored" in line]
    assert [args.num_envs for args in stored] == [[2048, 2**20]]
    assert [args.plot for line, args in zip(lines, parsed, strict=True) if "--plot" in line] == [
        pathlib.Path(tmp_path / "gpu-scaling.png")
    ]


def commands_of_pages():
    """The commands of all pages, in code blocks and in the text: page, part and options."""
    for path in [ROOT / "README.md", *ROOT.glob("benchmarks/*.md"), *ROOT.glob("docs/**/*.md")]:
        text = path.read_text().replace("\\\n", " ")
        quoted = re.findall(r"`(?:python -m benchmarks|jaxenv bench) ([^`]+)`", text)
        lines = re.findall(r"^(?:PYTHONPATH=\S+ )?(?:python -m benchmarks|jaxenv bench) ([^#\n]+)", text, re.MULTILINE)
        for part, *words in {tuple(found.split()) for found in (*quoted, *lines)} - {("PART",), ("--help",)}:
            yield path.name, part, tuple(word for word in words if word.startswith("--"))


@pytest.mark.parametrize(("page", "part", "flags"), sorted(set(commands_of_pages())))
def test_every_command_of_a_page_names_a_part_and_its_options(capsys, page, part, flags):
    assert part in program.PARTS
    with pytest.raises(SystemExit):
        program.main([part, "--help"])
    assert set(flags) <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))


def test_ids_that_a_peer_lacks_share_a_note():
    found = [
        ["gymnax has no A-v0"],
        ["gymnax has no B-v0", "envpool has no A-v0"],
        ["gymnax has a different C-v0: m is 2"],
    ]
    assert tables.notes([{"notes": notes} for notes in [*found, ["gymnax has no A-v0"]]]) == [
        "note: gymnax has a different C-v0: m is 2",
        "note: gymnax has no A-v0, B-v0",
        "note: envpool has no A-v0",
    ]


def part_of(*rows, stops=False):
    """A part whose rows are given; with ``stops`` a peer is missing after them."""

    def measured(args):
        yield from rows
        if stops:
            raise measure.Unavailable("no such peer")

    report = lambda rows, args: tables.columns(rows, ("id", "id"), ("n", "n"))  # noqa: E731
    return types.SimpleNamespace(
        __doc__="A part.", options=lambda parser: None, rows=measured, report=report, NAMES=("id",)
    )


def test_a_part_that_is_stopped_keeps_its_rows(tmp_path, capsys):
    path = tmp_path / "rows.json"
    part = part_of({"id": "b", "n": 1}, {"id": "a", "n": 2}, stops=True)
    assert command.run("toy", part, ["--json", str(path)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "jaxenv bench toy: no such peer"
    content = json.loads(path.read_text())
    assert content["benchmark"] == "toy"
    assert [row["id"] for row in content["rows"]] == ["b", "a"]


def test_an_update_replaces_rows_of_the_same_names_and_keeps_the_others(tmp_path, capsys):
    path = tmp_path / "rows.json"
    for rows in ([{"id": "b", "n": 1}, {"id": "c", "n": 1}], [{"id": "b", "n": 2}, {"id": "a", "n": 2}]):
        assert command.run("toy", part_of(*rows), ["--json", str(path), "--update"]) == 0
    assert [(row["id"], row["n"]) for row in json.loads(path.read_text())["rows"]] == [("a", 2), ("b", 2), ("c", 1)]
    assert capsys.readouterr().out.splitlines()[-4:] == ["id  n", "a   2", "b   2", "c   1"]


def test_a_part_without_rows_says_so(capsys):
    assert command.run("toy", part_of(), []) == 0
    assert capsys.readouterr().out == "nothing to run\n"


def test_a_missing_entry_is_a_dash():
    rows = [{"id": "a", "contestants": {"x": {"steps_per_second": 2e6}}, "ratios": {"x": 0.5}}, {"id": "long"}]
    shown = tables.columns(
        [rows[0], rows[1] | {"contestants": {}, "ratios": {}}],
        ("id", "id"),
        ("x", tables.side("x")),
        ("ratio", tables.ratio("x")),
        ("share", tables.ratio("x", ".0%")),
    )
    assert [line.split() for line in shown.splitlines()] == [
        ["id", "x", "ratio", "share"],
        ["a", "2", "0.5x", "50%"],
        ["long", "-", "-", "-"],
    ]


def test_means_of_the_ratios_are_taken_for_each_number_of_lanes():
    rows = [(1, {"x": 2.0, "y": 3.0}), (1, {"x": 8.0}), (4, {"x": 5.0})]
    found = tables.means([{"num_envs": lanes, "ratios": ratios} for lanes, ratios in rows])
    assert [row["num_envs"] for row in found] == [1, 4]
    assert found[0]["ratios"] == pytest.approx({"x": 4.0, "y": 3.0})
    assert found[0]["counts"] == {"x": 2, "y": 1}
    assert found[1]["ratios"] == pytest.approx({"x": 5.0})


def test_ratios_are_those_of_jaxenv_and_empty_without_it():
    def side(name, fails=False):
        def run(seed):
            if fails:
                raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED")
            return {"steps": 8, "terminated": 1, "truncated": 0}

        return measure.Contestant(name, run)

    row = measure.compared([side("jaxenv"), side("gymnax")], (), 3)
    rates = [result["steps_per_second"] for result in row["contestants"].values()]
    assert row["ratios"] == {"gymnax": pytest.approx(rates[0] / rates[1])}
    assert measure.compared([side("jaxenv", fails=True), side("gymnax"), side("envpool")], (), 1)["ratios"] == {}
