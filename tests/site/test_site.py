"""The site that ``mkdocs build --strict`` has written to site/: its links, its assets, a page for every name and id."""

import html.parser
import posixpath
import re
import urllib.parse

import pytest

import jaxenv
from jaxenv.cli.listing import spec_text
from tests.site.conftest import SITE

LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
}


class Reader(html.parser.HTMLParser):
    """Collects what a page links to and loads, its anchors, and its text outside code."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded, self.headings = {""}, [], [], []
        self.text, self.all, self._code, self._title = "", "", 0, False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link":
            self.loaded.append(given["href"])
        elif given.get(LOADED.get(tag, "")):
            self.loaded.append(given[LOADED[tag]])
        self.loaded += re.findall(r"url\(['\"]?([^'\")]+)", given.get("style") or "")
        self._code += tag in ("code", "pre", "script", "style")
        self.headings += [tag] if tag == "h1" else []

    def handle_endtag(self, tag):
        self._code -= tag in ("code", "pre", "script", "style")

    def handle_data(self, data):
        self.text += "" if self._code else data
        self.all += data


@pytest.fixture(scope="module")
def pages():
    return {str(p.relative_to(SITE)): Reader(p.read_text()) for p in sorted(SITE.rglob("*.html"))}


def test_links_lead_to_files_and_anchors_of_the_site(pages):
    wrong = []
    for name, page in pages.items():
        for link in page.links + page.loaded:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme in ("http", "https", "mailto", "data"):
                continue
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), urllib.parse.unquote(parts.path)))
            target = name if not parts.path else path
            if name == "404.html" and parts.path.startswith("/"):
                target = parts.path[1:] or "index.html"
            target = "index.html" if target == "." else target
            if not (SITE / target).is_file():
                wrong.append(f"{name}: {link}")
            elif target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{name}: {link} (anchor)")
    assert wrong == []


def test_logs_of_trials_are_not_in_the_site(pages):
    assert [name for name in pages if "-trials" in name or "archive" in name] == []


def test_pages_load_nothing_from_elsewhere(pages):
    foreign = re.compile(r"^(https?:)?//")
    assert [f"{name}: {x}" for name, page in pages.items() for x in page.loaded if foreign.match(x)] == []
    for sheet in SITE.rglob("*.css"):
        loads = re.findall(r"(?:url\(|@import\s+)['\"]?([^'\")\s]+)", sheet.read_text())
        assert [x for x in loads if foreign.match(x)] == [], sheet
    for file in SITE.rglob("*.html"):  # what the theme's script would fetch from other servers
        assert not re.search(r'class="mermaid|data-md-component="source"', file.read_text()), file


def test_every_page_has_one_title_and_no_markup_in_its_text(pages):
    for name, page in pages.items():
        if name != "404.html":
            assert page.headings == ["h1"], name
        if not name.startswith("source/"):
            found = re.search(r"\]\([^)]*\)|\]\[|^:::|```|\{[#.]\w|(?<!\w)\*\*\w", page.text, re.MULTILINE)
            assert not found, f"{name}: {page.text[max(0, found.start() - 60) : found.end() + 60]}"


NAMESPACES = "specs random tree core wrappers elements rollout data training testing"


@pytest.mark.parametrize("namespace", ["jaxenv", *(f"jaxenv.{name}" for name in NAMESPACES.split())])
def test_the_reference_describes_every_public_name(pages, namespace):
    module = jaxenv if namespace == "jaxenv" else getattr(jaxenv, namespace.removeprefix("jaxenv."))
    names = [n for n, x in vars(module).items() if not n.startswith("_") and _is_exported(x, module)]
    page = pages[f"api/{namespace}.html"]
    anchors = {anchor for name, other in pages.items() if name.startswith("api/") for anchor in other.anchors}
    assert [n for n in names if f"{namespace}.{n}" not in anchors] == []
    linked = {link.rpartition(".")[2] for link in page.links}
    assert [n for n in names if n not in linked] == []


def _is_exported(x, module):
    """Whether a module defines a function or class, or a package imports it to offer it."""
    home = getattr(x, "__module__", "")
    offered = hasattr(module, "__path__") and home.startswith("jaxenv") and not home.startswith("jaxenv._util")
    return callable(x) and (offered or home == module.__name__)


@pytest.mark.parametrize("id", jaxenv.ids())
def test_every_id_has_a_page_with_its_picture_specification_evidence_and_training(pages, id):
    [name] = [name for name in pages if name.endswith(f"/{id}.html") and name.startswith("catalogue/")]
    page = pages[name]
    assert any(x.endswith(f"pictures/catalogue/{id}.png") for x in page.loaded)
    assert {"specification", "evidence", "training"} <= page.anchors
    assert re.search("Observation.*Action.*Reward.*Starts.*Terminates.*Time limit", page.all, re.DOTALL)
    assert any(link.endswith(posixpath.relpath(name, "catalogue")) for link in pages["catalogue/index.html"].links)


def test_the_catalogue_has_the_table_of_all_ids(pages):
    shown = pages["catalogue/index.html"].all
    for id in jaxenv.ids():
        assert f"\n{id}\n{spec_text(jaxenv.make(id).observation_spec())}\n" in shown
