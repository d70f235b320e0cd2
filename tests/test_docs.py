"""The code of the documentation runs and prints what it shows; commands, tables and links are complete.

The blocks of a page run in order, in one namespace and in an empty folder:

- ``python``: the code runs. ``print(...)  # text`` shows the line that it prints. A block without a language below
  shows all that it prints instead, or the error that it raises: ``ValueError: ...``.
- ``py``: the code is shown, and compiled, only. `SHOWN_ONLY` says why.
- ``bash``: every command ``jaxenv ...`` has to have valid options, in running text too.
"""

import ast
import linecache
import pathlib
import re
import shlex
import sys
import tomllib
import types
from typing import NamedTuple

import jax
import pytest

import jaxenv
from jaxenv import cli, rollout
from jaxenv.core import registry
from jaxenv.testing import PROPERTIES
from jaxenv.training import baselines, presets

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {str(p.relative_to(DOCS)): p.read_text() for p in sorted(DOCS.rglob("*.md"))}
FILES = {
    str(p.relative_to(ROOT)): p
    for p in sorted([*ROOT.glob("*.md"), *ROOT.glob("benchmarks/*.md"), *DOCS.rglob("*.md")])
}

# The number of ``py`` blocks of a page, and why they do not run here.
SHOWN_ONLY = {
    "quickstart.md": (1, "it loads a run that takes a minute; howto/save-and-load.md runs the same calls"),
    "howto/devices.md": (1, "it starts jax.distributed; tests/training/test_processes.py trains like this"),
    "howto/export-episodes.md": (1, "Minari is not in the extra `test`: tests/data/test_minari.py runs it"),
    "howto/tensorboard-wandb.md": (1, "wandb needs an account"),
    "migrate/brax.md": (1, "Brax is not in the extra `test`: tests/clients/test_migrate.py runs it"),
    "suites/brax.md": (1, "Brax is not in the extra `test`: tests/suites/test_pages.py runs it"),
    "suites/craftax.md": (2, "Craftax is not in the extra `test`: tests/suites/test_pages.py runs it"),
    "suites/envpool.md": (1, "EnvPool is not in the extra `test`: tests/suites/test_pages.py runs it"),
    "suites/gymnasium.md": (2, "it needs Gymnasium 1.3: tests/suites/test_pages.py runs it"),
    "suites/jaxmarl.md": (1, "JaxMARL is not in the extra `test`: tests/suites/test_pages.py runs it"),
    "suites/jumanji.md": (1, "Jumanji is not in the extra `test`: tests/suites/test_pages.py runs it"),
    "suites/navix.md": (1, "NAVIX is not in the extra `test`: tests/suites/test_pages.py runs it"),
    "suites/pgx.md": (1, "Pgx is not in the extra `test`: tests/suites/test_pages.py runs it"),
    "suites/playground.md": (1, "Playground is not in the extra `test`: tests/suites/test_pages.py runs it"),
    "suites/xminigrid.md": (2, "XLand-MiniGrid is not in the extra `test`: tests/suites/test_pages.py runs it"),
    "guides/interop.md": (
        6,
        "torch, stable-baselines3, Brax and JaxMARL are not in the extra `test`: see tests/clients",
    ),
}
LANGUAGES = {"", "bash", "console", "html", "ini", "js", "json", "md", "py", "python", "text", "toml", "yaml"}


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    code: str


def blocks_of(text):
    return [Block(*found) for found in re.findall(r"^```([^\n]*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)]


WITH_CODE = [page for page, text in PAGES.items() if "```python\n" in text]


@pytest.mark.pages
@pytest.mark.parametrize("page", WITH_CODE)
def test_the_code_of_a_page_prints_what_it_shows(page, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    script = types.ModuleType("__main__")  # the page is a script, whose classes can be pickled by their names
    monkeypatch.setitem(sys.modules, "__main__", script)
    blocks = blocks_of(PAGES[page])
    for number, (block, below) in enumerate(zip(blocks, [*blocks[1:], Block("python", "")], strict=True)):
        if block.language != "python":
            continue
        shown = below.code if below.language == "" else ""
        raises = re.match(r"\w+Error: ", shown)
        file = f"{page} block {number}"
        linecache.cache[file] = (len(block.code), None, block.code.splitlines(True), file)  # for inspect.getsource
        error = run(compile(block.code, file, "exec"), vars(script), raises)
        printed = capsys.readouterr().out
        comments = re.findall(r"^ *print\(.*\)  # (.*)$", block.code, flags=re.MULTILINE)
        if raises:
            assert_same_output(error, shown)
        elif printed and not comments:
            assert_same_output(printed, shown)
        else:
            assert printed.splitlines() == comments


def run(code, names, raises):
    """Executes code and returns the text of the error that it ``raises``."""
    try:
        exec(code, names)
    except Exception as error:
        if not raises:
            raise
        return f"{type(error).__name__}: {error}"
    return "no error"


def assert_same_output(found, shown):
    """Words and integers are equal. Numbers with a point may differ in their last digits, as processors do."""
    point = r"(-?\d+\.\d+(?:e-?\d+)?)"
    found, shown = (re.split(point, " ".join(text.split())) for text in (found, shown))
    assert found[::2] == shown[::2]
    assert [float(x) for x in found[1::2]] == pytest.approx([float(x) for x in shown[1::2]], rel=1e-3)


@pytest.mark.parametrize("page", PAGES)
def test_code_that_is_shown_only_compiles_and_has_a_reason(page):
    blocks = blocks_of(PAGES[page])
    assert {block.language for block in blocks} <= LANGUAGES
    shown = [block.code for block in blocks if block.language == "py"]
    for code in shown:
        compile(code, page, "exec")
    count, reason = SHOWN_ONLY.get(page, (0, "all of its code runs"))
    assert len(shown) == count, reason


@pytest.mark.parametrize("file", FILES)
def test_no_page_depends_on_the_address_of_the_repository(file):
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert not [url for url in urls.values() if url.rstrip("/") in FILES[file].read_text()]


@pytest.mark.parametrize("file", sorted(FILES.keys() - {"CHANGELOG.md"}))
def test_commands_of_a_page_have_valid_options(file):
    for command in commands_of(FILES[file].read_text()):
        words = shlex.split(command)
        if len(words) > 1:
            cli.make_parser().parse_args(words)
        else:
            assert cli.main([*words, "--help"]) == 0, f"jaxenv {command}"


def commands_of(text):
    """The commands ``jaxenv ...`` in blocks and in running text, without what a shell adds to them."""
    lines = "\n".join(block.code for block in blocks_of(text) if block.language == "bash").replace("\\\n", " ")
    running = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    inline = [" ".join(found.split()) for found in re.findall(r"`([^`]*)`", running)]
    commands = re.split(r"\n|&&|\||>", lines) + [re.split(r"\||>", found)[0] for found in inline]
    found = [re.sub(r"^\s*(\.venv/bin/)?jaxenv (?=[a-z])", "", command) for command in commands]
    return [command for command, whole in zip(found, commands, strict=True) if command != whole]


@pytest.mark.parametrize("page", ["guides/writing-wrappers.md", "wrappers.md"])
def test_an_example_has_at_most_thirty_lines(page):
    for example in re.findall(r"^class .*?(?=^\S)", PAGES[page], flags=re.DOTALL | re.MULTILINE):
        assert example.rstrip().count("\n") < 30, example


def test_the_catalogue_has_the_comment_that_becomes_the_table_of_all_ids_in_the_site():
    assert "\n<!-- jaxenv list --bytes --markdown -->\n" in PAGES["catalogue/index.md"]


def test_the_catalogue_shows_a_picture_of_every_environment():
    shown = re.findall(
        r'<img width="128" alt="([^"]+)"\n  src="\.\./pictures/catalogue/\1\.png">', PAGES["catalogue/index.md"]
    )
    assert sorted(shown) == jaxenv.ids()
    sizes = [(DOCS / f"pictures/catalogue/{id}.png").stat().st_size for id in shown]
    assert max(sizes) < 9_000


def test_the_table_of_versions_has_every_python_that_the_package_names():
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    named = {line.rpartition(" ")[2] for line in classifiers if re.search(r":: 3\.\d", line)}
    assert set(re.findall(r"^\| (3\.\d+) \|", PAGES["howto/install.md"], re.MULTILINE)) == named


def test_the_faq_has_the_oldest_versions_of_python_and_jax():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    python, jax = re.search(r"Python ([\d.]+) or later and JAX ([\d.]+) or later", PAGES["faq.md"]).groups()
    assert f">={python}" == project["requires-python"]
    assert f"jax>={jax}" in project["dependencies"]


def test_the_table_of_suites_has_the_versions_of_the_extras():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = re.findall(r"^\| `(\w+):` \| \[[^]]*\]\(\w+\.md\) ([\d.]+) \|", PAGES["suites/index.md"], re.MULTILINE)
    assert dict(rows).keys() == registry.SUITES.keys() - {"bsuite"}
    assert [row for row in rows if not extras[row[0]][0].startswith(">=".join(row))] == []


def test_the_page_of_the_command_line_says_which_commands_take_env_and_json(capsys):
    options = {}
    for command in cli.COMMANDS.keys() - {"bench"}:
        assert cli.main([command, "--help"]) == 0
        options[command] = set(re.findall(r"--(env|json)\b", capsys.readouterr().out))
    page = PAGES["guides/command-line.md"]
    with_json = re.search(r"^- (`list`[^.]*) take `--json`", page, re.MULTILINE)[1]
    assert set(re.findall(r"`(\w+)`", with_json)) == {command for command, has in options.items() if "json" in has}
    assert "- Commands that build an environment, except `check` and `certify`, take `--env" in page
    assert {command for command, has in options.items() if "env" not in has} == {"list", "check", "certify"}


def test_the_page_of_episodes_names_the_tasks_whose_time_limit_terminates():
    names = re.search(r"\bIn\s([^.]*)\sthe registered limit terminates", PAGES["concepts/episodes.md"])[1]
    terminal = [jaxenv.spec(id).environment.__name__ for id in jaxenv.ids() if jaxenv.spec(id).terminal_limit]
    assert set(re.split(r",\s|\sand\s", names)) == set(terminal)


def test_the_library_ships_a_policy_for_every_preset_of_one_agent_but_the_one_that_the_page_names():
    tuned = {(id, algorithm) for algorithm in ("ppo", "dqn", "sac") for id in presets.PRESETS[algorithm]}
    missing = {
        (id, algorithm) for id, algorithm in tuned - set(baselines.baseline_ids()) if jaxenv.make(id).num_agents == 1
    }
    assert missing == {("Pendulum-v1", "ppo")}
    assert "of PPO, DQN and SAC with one agent, except PPO on Pendulum-v1" in " ".join(
        PAGES["guides/training.md"].split()
    )


def test_the_table_of_metrics_has_every_metric():
    table = PAGES["guides/rollouts.md"].split("| metric | meaning |")[1].split("\n\n")[0]
    metrics, env = rollout.Metrics(gamma=0.99), jaxenv.make("CartPole-v1")
    found = jax.eval_shape(lambda: metrics.compute(metrics.totals(metrics.init(env.reset(jax.random.key(0))[1]))))
    assert set(re.findall(r"`(\w+)`", table)) - {"env_info"} == found.keys()


def test_the_table_of_class_attributes_has_their_defaults():
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", PAGES["guides/writing-environments.md"], re.MULTILINE)
    assert len(rows) == 5
    assert [row for row in rows if ast.literal_eval(row[1]) != getattr(jaxenv.Task, row[0])] == []


def test_the_pages_count_what_there_is():
    for file in ("README.md", "docs/index.md", "docs/glossary.md", "docs/guides/checking.md"):
        counted = re.findall(r"(\d\d)\s+(?:\[?properties|named checks)", FILES[file].read_text())
        assert str(len(PROPERTIES)) in counted, file
    home = " ".join(PAGES["index.md"].split()).lower()
    words = {6: "six", 7: "seven", 8: "eight", 11: "eleven", 12: "twelve", 13: "thirteen"}
    assert f"{words[len(list(ROOT.glob('notebooks/*.ipynb')))]} [notebooks]" in home
    assert f"the environments of {words[len(registry.SUITES.keys() - {'bsuite'})]} other libraries" in home


def test_the_parity_page_names_every_environment():
    text = PAGES["evidence/parity.md"]
    assert [id for id in jaxenv.ids() if f"`{id}`" not in text] == []


def test_the_conformance_page_has_every_stack_and_no_failure():
    rows = [line.strip("| ").split(" | ") for line in PAGES["evidence/conformance.md"].splitlines()]
    failed = {row[0].strip("`"): row[2] for row in rows if row[0].startswith("`<AutoReset")}
    sizes = ("Medium-popgym", "Hard-popgym")  # of the same classes as the easy ids, as the page says
    assert failed.keys() >= {repr(jaxenv.make(id)) for id in jaxenv.ids() if not id.endswith(sizes)}
    assert set(failed.values()) == {"-"}


@pytest.mark.parametrize("file", FILES)
def test_links_of_a_page_lead_to_files_and_headings(file):
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", FILES[file].read_text()):
        path = FILES[file].parent / target if target else FILES[file]
        assert path.exists(), target
        assert not heading or heading in anchors(path), f"{target}#{heading}"


def anchors(path):
    """The anchors that GitHub and MkDocs give to the headings of a page."""
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    headings = (re.sub(r"[^\w\- ]", "", h.lower()) for h in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE))
    return {heading.replace(" ", "-") for heading in headings}
