"""The code of the README runs, and its commands are the ones that CI runs."""

import json
import os
import pathlib
import re
import subprocess
import tomllib

import pytest

from jaxenv import rollout

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_of_the_readme_prints_what_its_comments_say(number, capsys):
    exec(compile(BLOCKS[number], f"README.md block {number}", "exec"), {"__name__": "readme"})
    expected = re.findall(r"^print\(.*\)  # (.*)$", BLOCKS[number], flags=re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == expected


def test_the_commands_are_one_line_each_and_marked_for_ci():
    for name in ("run", "test"):
        (command,) = re.findall(rf"<!-- {name} -->\n```bash\n(.*?)```", README, flags=re.DOTALL)
        assert command.count("\n") == 1
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")


def test_the_readme_is_one_page():
    assert README.count("\n") < 90


def test_the_figures_of_the_readme_and_of_the_home_page_are_those_of_the_benchmarks():
    pages = [ROOT / "benchmarks" / "README.md", *sorted(ROOT.glob("docs/evidence/*.md"))]
    measured = "".join(page.read_text() for page in pages)
    shown = README + (ROOT / "docs" / "index.md").read_text()
    for figure, line in {
        "6.1 times as fast": r"jaxenv is 6\.1 times faster than gymnax in the geometric mean of 26 ids",
        "9.7 times": r"jaxenv is 9\.7 times faster than gymnax in the geometric mean of 26 ids",
        "107 million": r"CartPole-v1 +16384 +64 +107 ",
        "1.3 to 1.8 times": "1.3 to 1.8 times faster than purejaxrl",
    }.items():
        assert figure in shown
        assert re.search(line, measured), figure


def rows_of_cart_pole(file, num_envs):
    rows = json.loads((ROOT / "benchmarks" / "results" / file).read_text())["rows"]
    return [row for row in rows if row["id"] == "CartPole-v1" and row["num_envs"] == num_envs]


def test_the_figures_of_the_gpu_are_in_the_recorded_runs():
    def rounded(steps):  # per second, to three digits or two, in millions
        return [f"{round(steps / 1e6, digits - len(str(int(steps / 1e6)))):,.0f}" for digits in (2, 3)]

    def cells(row):
        return re.search(rf"^\| {re.escape(row)} \| ([\d,]+) \| ([\d,]*)", README, re.MULTILINE).groups()

    for row, num_envs in {"2,048 lanes, one step in an iteration": 2048, "2^20 lanes": 2**20}.items():
        [found] = [found["contestants"] for found in rows_of_cart_pole("h200-sums.json", num_envs)]
        for cell, name in zip(cells(row), ("jaxenv", "gymnax"), strict=True):
            assert cell in rounded(found[name]["steps_per_second"]), (row, name)
    home = (ROOT / "docs" / "index.md").read_text()
    billions = found["jaxenv"]["steps_per_second"] / 1e9
    assert f"| **{billions:.1f} billion** | steps of CartPole per second on one GPU, an H200 |" in home
    [found] = [
        found
        for found in rows_of_cart_pole("h200-options.json", 2048)
        if (found["steps_per_iteration"], found["options"]) == (4, "plain")
    ]
    row = "2,048 lanes, four steps in an iteration (default)"
    assert cells(row)[0] in rounded(found["million_steps_per_second"] * 1e6)
    assert rollout.steps_per_iteration(lambda x, _: (x + 1, None), 0, 2048, platform="gpu") == 4


def packages_of(extra, extras):
    """The names of the packages that an extra brings, through the other extras that it names."""
    for requirement in extras[extra]:
        name, named = re.match(r"([\w-]+)(?:\[(.*?)\])?", requirement).groups()
        if name == "jaxenv":
            for other in named.split(","):
                yield from packages_of(other, extras)
        else:
            yield name


@pytest.mark.parametrize("name", ["run", "test"])
def test_the_commands_install_gymnax_and_what_trains_and_films(name):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (chosen,) = re.findall(rf'<!-- {name} -->\n```bash\n.*?"\.\[(.*?)\]"', README)
    packages = {package for extra in chosen.split(",") for package in packages_of(extra, extras)}
    assert {"gymnax", "six", "flax", "optax", "matplotlib", "pillow", "rich"} <= packages


def test_the_base_install_is_jax_numpy_and_chex():
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [re.match(r"\w+", requirement)[0] for requirement in needed] == ["jax", "numpy", "chex"]


def test_ci_runs_the_commands_in_a_copy_of_the_working_tree(tmp_path):
    command = "cat new.txt; test ! -e ignored.txt; pwd; mkdir .venv; exit 3"
    script, folder = (ROOT / ".ci" / "run").read_text(), tmp_path / "check out"
    files = {
        ".ci/run": script,
        "README.md": f"<!-- test -->\n```bash\n{command}\n```\n",
        ".gitignore": ".venv/\nignored.txt\n",
        ".venv/own.txt": "own",
        "new.txt": "new\n",
        "ignored.txt": "ignored\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    found = subprocess.run(["bash", ".ci/run"], cwd=folder, env=environment, capture_output=True, text=True)
    assert found.returncode == 3, found.stderr
    seen, place = [line for line in found.stdout.splitlines() if not line.startswith("--- ")]  # of the stages
    assert seen == "new"
    assert pathlib.Path(place).parents[1] == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["check out"]  # the copy is removed
    assert sorted(path.name for path in (folder / ".venv").iterdir()) == ["own.txt"]


def test_ci_finds_the_newest_released_python_on_the_path_and_among_those_of_pyenv(tmp_path):
    pythons = {
        "bin/python3.89": "3.89.11",
        "bin/python3.92": "exit 127",  # as pyenv's for a version that is not chosen
        "bin/python3.100": "3.100.4",
        "pyenv/versions/a/bin/python": "3.101.0",
        "pyenv/versions/b/bin/python": "3.99.1",
    }
    for name, version in pythons.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{version if 'exit' in version else f'echo {version}'}\n")
        (tmp_path / name).chmod(0o755)

    def newest():
        environment = {"PATH": f"{tmp_path}/bin:{os.defpath}", "PYENV_ROOT": f"{tmp_path}/pyenv"}
        found = subprocess.run([ROOT / ".ci" / "newest-python"], env=environment, capture_output=True, text=True)
        return found.stdout.strip()

    assert newest() == f"{tmp_path}/pyenv/versions/a/bin/python"
    (tmp_path / "pyenv/versions/a/bin/python").unlink()
    assert newest() == "python3.100"


def test_every_name_after_jaxenv_in_the_readme_exists():
    import jaxenv

    for path in set(re.findall(r"`(jaxenv\.[a-z_.]+)", README)):
        target = jaxenv
        for name in path.split(".")[1:]:
            target = getattr(target, name)
