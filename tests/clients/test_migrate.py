"""The blocks of the page on Brax that do not run with the extra ``test`` run here, with the page's other blocks."""

import pathlib
import re

import pytest

from tests import packages

packages.imported("brax.envs")

PAGE = (pathlib.Path(__file__).parents[2] / "docs/migrate/brax.md").read_text()


@pytest.mark.filterwarnings("ignore")  # those of Brax, which announces its own end, and of MuJoCo
def test_the_code_of_both_sides_prints_what_its_comments_say(capsys):
    capsys.readouterr()
    names: dict = {"__name__": "page"}
    for block in re.findall(r"^```py(?:thon)?\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE):
        exec(compile(block, "docs/migrate/brax.md", "exec"), names)
        expected = re.findall(r"^print\(.*\)  # (.*)$", block, flags=re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == expected
