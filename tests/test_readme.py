"""The code of the README runs, and its commands are the ones that CI runs."""

import pathlib
import re

import pytest

from jaxenv import registry

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_of_the_readme_prints_what_its_comments_say(number, capsys, monkeypatch):
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    exec(compile(BLOCKS[number], f"README.md block {number}", "exec"), {"__name__": "readme"})
    expected = re.findall(r"^print\(.*\)  # (.*)$", BLOCKS[number], flags=re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == expected


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
