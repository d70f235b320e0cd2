"""The search of the site in site/: what its index has, and what the theme's own script finds in it."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest

from tests.site.conftest import SITE

FIRST = {
    "noise": "faq.html#how-do-i-add-noise-or-delays",
    "gpu": "guides/accelerators.html",
    "equinox": "faq.html#do-flax-nnx-and-equinox-work",
    "cite": "faq.html#how-do-i-cite-it",
    "profile": "faq.html#how-do-i-profile-a-run",
    "self-play": "howto/self-play.html",
    "PRNGKey": "faq.html#does-jaxenv-accept-old-keys-jaxrandomprngkey",
    "recompile": "faq.html#why-does-my-program-recompile",
    "truncated": "faq.html#why-is-an-episode-truncated-and-how-do-i-bootstrap-there",
    "glossary": "glossary.html",
    "nan": "howto/debug-nan.html",
    "license": "faq.html#what-is-the-license",
    "world models": "scope.html#world-models",
    "offline": "scope.html#offline-learning",
    "imitation": "scope.html#imitation-learning",
    "language": "scope.html#language-environments",
    "robotics": "scope.html#robotics-and-contact-rich-physics",
    "contact-rich physics": "scope.html#robotics-and-contact-rich-physics",
    "populations": "scope.html#populations-and-evolution",
    "several GPUs": "scope.html#several-gpus",
    "GTrXL": "api/jaxenv.training.memories.html#jaxenv.training.memories.GTrXL",
    "checkpoints in jit": "scope.html#checkpoints-in-the-middle-of-a-jit",
}


@pytest.fixture(scope="module")
def index():
    return json.loads((SITE / "search" / "search_index.json").read_text())["docs"]


@pytest.fixture(scope="module")
def found():
    if not (node := shutil.which("node")):
        pytest.skip("needs node, which runs the search")
    script = pathlib.Path(__file__).with_name("search.mjs")
    run = subprocess.run(
        [node, script, SITE, *FIRST, "unroll", "benchmarks"], capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout)


@pytest.mark.parametrize("query", FIRST)
def test_the_first_hit_answers(found, query):
    assert found[query][0] == FIRST[query]


def test_the_reference_and_the_records_come_after_the_guides_but_are_found(found):
    hits = found["unroll"]
    assert "api/jaxenv.html#jaxenv.unroll" in hits[:5]
    assert [hit for hit in hits[:10] if re.match("changelog|decisions|benchmarks", hit)] == []
    assert any(hit.startswith("benchmarks/") for hit in found["benchmarks"][:5])


def test_the_index_has_no_source_code_and_no_evidence(index):
    assert "Source code in" not in "".join(entry["text"] for entry in index)
    assert [entry["location"] for entry in index if entry["location"].startswith("evidence/")] == []


def test_pages_from_a_disk_search_in_an_index_that_is_a_script():
    script = (SITE / "search" / "search_index.js").read_text()
    assert script == "var __index = " + (SITE / "search" / "search_index.json").read_text()
    page = (SITE / "faq.html").read_text()
    assert page.index('src="_site/iframe-worker.js"') < page.index("assets/javascripts/bundle")
    assert "window.Worker = class" in (SITE / "_site" / "iframe-worker.js").read_text()
