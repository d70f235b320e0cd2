"""Navigation: a pattern such as ``guides/*`` in mkdocs.yml stands for pages that match.

Pages that mkdocs.yml names, or that an earlier pattern has taken, are left out. If the folder has an index, its
headings and links give the sections and the order.
"""

import fnmatch
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = [file.src_uri for file in files.documentation_pages()]
    named = set(_leaves(config.nav))
    texts = {page: files.get_file_from_path(page).content_string for page in pages if page.endswith("/index.md")}
    config.nav = _expanded(config.nav, [page for page in pages if page not in named], texts)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Gives the whole width to pages that have no neighbours in the navigation."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]
    elif page.parent is None:
        page.meta["hide"] = ["navigation"]
    return markdown


def _leaves(item: Any) -> list[str]:
    """The texts of a tree of lists and dictionaries."""
    if isinstance(item, str):
        return [item]
    return [leaf for child in (item.values() if isinstance(item, dict) else item) for leaf in _leaves(child)]


def _expanded(item: Any, pages: list[str], indexes: dict[str, str]) -> Any:
    """The tree with patterns replaced by pages, which are taken from the list, and without empty sections."""
    if isinstance(item, dict):
        children = {title: _expanded(value, pages, indexes) for title, value in item.items()}
        return {title: child for title, child in children.items() if child not in ([], {})}
    if isinstance(item, list):
        children = [(child, _expanded(child, pages, indexes)) for child in item]
        return [x for old, new in children for x in (new if _is_pattern(old) else [new]) if x not in ([], {})]
    return _taken(item, pages, indexes) if _is_pattern(item) else item


def _is_pattern(item: Any) -> bool:
    return isinstance(item, str) and "*" in item


def _taken(pattern: str, pages: list[str], indexes: dict[str, str]) -> list[Any]:
    """The pages that match a pattern and are directly in its folder."""
    folder = pattern.rpartition("/")[0]
    found = sorted(page for page in pages if fnmatch.fnmatch(page, pattern) and page.count("/") == pattern.count("/"))
    pages[:] = [page for page in pages if page not in found]
    index = f"{folder}/index.md"
    if index not in found:
        return found
    found.remove(index)
    items: list[Any] = [index]
    for part in re.split(r"^## ", indexes[index], flags=re.MULTILINE):
        heading = part.partition("\n")[0]
        linked = dict.fromkeys(f"{folder}/{name}" for name in re.findall(r"\]\(([\w-]+\.md)\)", part))
        section = [page for page in linked if page in found]
        found = [page for page in found if page not in section]
        if section:
            items += section if heading.startswith("# ") else [{heading: section}]
    return items + found
