"""The pages of documentation that are code run as they stand, and print what they say."""

import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize(
    "page", ["writing-wrappers.md", "wrappers.md", "rollouts.md", "replay.md", "transformers.md", "minatar.md"]
)
def test_the_code_of_a_page_prints_what_its_comments_say(page, capsys):
    known: dict = {"__name__": page}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)):
        exec(compile(block, f"{page} block {number}", "exec"), known)
        told = re.findall(r"^print\(.*\)  # (.*)$", block, flags=re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == told


@pytest.mark.parametrize("page", ["writing-wrappers.md", "wrappers.md"])
def test_an_example_has_at_most_thirty_lines(page):
    for example in re.findall(r"^class .*?(?=^\S)", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE):
        assert example.rstrip().count("\n") < 30, example


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
