"""The code of the documentation runs and prints what its comments say; tables and links are complete."""

import pathlib
import re

import pytest

import jaxenv
from jaxenv import cli, registry

DOCS = pathlib.Path(__file__).parents[1] / "docs"


# The code of these two pages takes too long, or fails on purpose.
SHOWN_ONLY = {"checking.md", "training.md"}
PAGES = [p.name for p in sorted(DOCS.glob("*.md")) if "```python" in p.read_text() and p.name not in SHOWN_ONLY]


@pytest.mark.pages
@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_prints_what_its_comments_say(page, capsys, monkeypatch):
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    known: dict = {"__name__": page}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)):
        exec(compile(block, f"{page} block {number}", "exec"), known)
        expected = re.findall(r"^print\(.*\)  # (.*)$", block, flags=re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize("page", ["writing-wrappers.md", "wrappers.md"])
def test_an_example_has_at_most_thirty_lines(page):
    for example in re.findall(r"^class .*?(?=^\S)", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE):
        assert example.rstrip().count("\n") < 30, example


def test_the_catalogue_is_the_output_of_the_command(capsys):
    assert cli.main(["list", "--bytes", "--markdown"]) == 0
    assert capsys.readouterr().out.strip() in (DOCS / "catalogue.md").read_text()


def test_the_parity_page_names_every_environment():
    text = (DOCS / "parity.md").read_text()
    assert [id for id in jaxenv.ids() if f"`{id}`" not in text] == []


def test_the_conformance_page_has_every_stack_and_no_failure():
    rows = [line.strip("| ").split(" | ") for line in (DOCS / "conformance.md").read_text().splitlines()]
    failed = {row[0].strip("`"): row[2] for row in rows if row[0].startswith("`<AutoReset")}
    assert failed.keys() >= {repr(jaxenv.make(id)) for id in jaxenv.ids()}
    assert set(failed.values()) == {"-"}


@pytest.mark.parametrize("page", sorted([*DOCS.glob("*.md"), *DOCS.parent.glob("*.md")]), ids=lambda p: p.name)
def test_links_of_a_page_lead_to_files(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
