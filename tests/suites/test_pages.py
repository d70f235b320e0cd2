"""The code of the pages of suites, which need packages that the extra ``test`` does not install."""

import contextlib
import pathlib
import re
import sys

import pytest

from jaxenv.core.registry import SUITES

PAGES = pathlib.Path(__file__).parents[2] / "docs" / "suites"


@pytest.mark.filterwarnings("ignore")  # those of the packages
@pytest.mark.parametrize(
    "suite", sorted(SUITES.keys() - {"gymnax", "bsuite", "pettingzoo"})
)  # tests/test_docs.py runs theirs
def test_the_code_of_a_page_prints_what_its_comments_say(suite, capsys):
    with contextlib.redirect_stdout(sys.stdout):  # restores it: the import of JaxMARL replaces it
        pytest.importorskip("mujoco_playground" if suite == "playground" else suite)
    page, names = (PAGES / f"{suite}.md").read_text(), {"__name__": "page"}
    blocks = re.findall(r"^```py\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    assert blocks
    capsys.readouterr()
    for block in blocks:
        exec(compile(block, f"docs/suites/{suite}.md", "exec"), names)
        expected = re.findall(r"^print\(.*\)  # (.*)$", block, flags=re.MULTILINE)
        assert capsys.readouterr().out.splitlines()[-len(expected) :] == expected
