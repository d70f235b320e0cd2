"""The drawings of the concept pages are those that their script draws, and every concept page starts with one."""

import pathlib
import re
import runpy
from xml.etree import ElementTree

import pytest

DOCS = pathlib.Path(__file__).parents[2] / "docs"
SCRIPT = runpy.run_path(str(DOCS / "pictures" / "concepts.py"))
PAGES = sorted(path.stem for path in DOCS.glob("concepts/*.md"))


@pytest.mark.parametrize("name", SCRIPT["PICTURES"])
def test_a_committed_drawing_is_what_the_script_draws(name):
    assert (DOCS / "pictures" / "concepts" / f"{name}.svg").read_text() == SCRIPT["PICTURES"][name]().svg()


@pytest.mark.parametrize("name", SCRIPT["PICTURES"])
def test_no_shape_leaves_its_panel(name):
    picture = SCRIPT["PICTURES"][name]()
    for shape in ElementTree.fromstring(picture.svg()):
        x, y = (float(shape.get(axis, 0)) for axis in "xy")
        assert 0 <= x + float(shape.get("width", 0)) <= SCRIPT["WIDTH"], shape.attrib
        assert 0 <= y + float(shape.get("height", 0)) <= picture.height, shape.attrib


@pytest.mark.parametrize("page", PAGES)
def test_a_concept_page_starts_with_a_described_drawing(page):
    text = (DOCS / "concepts" / f"{page}.md").read_text()
    first = re.match(rf"# [^\n]+\n\n!\[([^\]]+)\]\(\.\./pictures/concepts/{page}\.svg\)\n", text)
    assert first is not None
    assert len(first.group(1)) > 40
