"""What the search finds, and in which order: answers and guides before the reference, records last.

Pages of evidence, source code, and the tables and logs of records are not in the index: they match every word.
"""

import fnmatch
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

# The weight of a page by its place. The first pattern that matches counts.
BOOSTS = {
    "faq.md": 4,
    "scope.md": 5,
    "catalogue/classic-control/*": 6,  # the ids that most people mean
    "catalogue/*/*": 1,
    "concepts/*": 3,
    "api/*": 0.2,
    "notebooks/*": 0.5,
    "changelog.md": 0.01,
    "contributing.md": 0.01,
    "decisions.md": 0.01,
    "benchmarks/*": 0.01,
    "source/*": 0.01,
    "*": 2,
}
RECORDS = ("changelog.md", "decisions.md", "benchmarks/*")

SOURCE = re.compile(r'(<details class="mkdocstrings-source"|<table class="highlighttable")')
TABLE = re.compile(r"(<table|<pre)\b")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    path = page.file.src_uri
    boost = next(boost for pattern, boost in BOOSTS.items() if fnmatch.fnmatch(path, pattern))
    page.meta["search"] = {"boost": boost, "exclude": path.startswith("evidence/"), **page.meta.get("search", {})}
    return markdown


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    hidden = TABLE if any(fnmatch.fnmatch(page.file.src_uri, pattern) for pattern in RECORDS) else SOURCE
    return hidden.sub(r'\1 data-search-exclude="true"', html)
