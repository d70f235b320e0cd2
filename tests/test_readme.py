"""The README's code runs as it stands, and its commands are the ones that CI runs."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_of_the_readme_runs(number, capsys):
    from jaxenv import registry

    known = dict(registry._registry)
    try:
        exec(compile(BLOCKS[number], f"README.md block {number}", "exec"), {"__name__": "readme"})
    finally:
        registry._registry.clear()
        registry._registry.update(known)
    printed = capsys.readouterr().out
    if "def train(" in BLOCKS[number]:
        first, last = map(float, printed.split())
        assert last < first / 2, "training must lengthen the episodes"


def test_the_commands_are_one_line_each_and_marked_for_ci():
    for name in ("run", "test"):
        (command,) = re.findall(rf"<!-- {name} -->\n```bash\n(.*?)```", README, flags=re.DOTALL)
        assert command.count("\n") == 1
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")


def test_every_name_after_jaxenv_in_the_readme_exists():
    import jaxenv

    for path in set(re.findall(r"`(jaxenv\.[a-z_.]+)", README)):
        target = jaxenv
        for name in path.split(".")[1:]:
            target = getattr(target, name)
