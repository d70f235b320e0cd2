"""The site that these tests read, which ``mkdocs build --strict`` writes."""

import pathlib

import pytest

SITE = pathlib.Path(__file__).parents[2] / "site"


@pytest.fixture(autouse=True, scope="module")
def _built():
    if not SITE.exists():
        pytest.skip("`mkdocs build --strict` writes the site")
