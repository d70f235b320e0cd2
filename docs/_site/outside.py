"""Files outside docs/ in the site, and links to them.

The pages of the repository link to each other and to source files by relative paths, which GitHub follows. The site
has the same pages elsewhere, and no public repository to point to. So each linked source file becomes a page under
``source/``, each linked data file is copied, and links are rewritten: both kinds of reader get links that work offline.
"""

import json
import pathlib
import posixpath
import re
from collections.abc import Callable

import notebook
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",  # the home page takes its place
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks/index.md",
    **{f"notebooks/{p.name}": f"notebooks/{p.stem}.md" for p in sorted(ROOT.glob("notebooks/*.ipynb"))},
}
ORIGINS = {page: origin for origin, page in PAGES.items() if origin != "README.md"}
CODE = {".py": "python", ".c": "c", ".sh": "bash", ".toml": "toml", ".md": "markdown"}
LINK = re.compile(r"(\]\()(?!\w+:|<|#)([^)\s#]+)((?:#[^)\s]*)?\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page, origin in ORIGINS.items():
        path = ROOT / origin
        text = notebook.page(json.loads(path.read_text()), page, files, config) if path.suffix == ".ipynb" else None
        given = {"abs_src_path": str(path)} if text is None else {"content": text}
        files.append(File.generated(config, page, **given))
    for file in list(files.documentation_pages()):
        for target in _outward_links(file.content_string, file.src_uri):
            _add(files, config, target)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = page.file.src_uri

    def rewritten(match: re.Match) -> str:
        before, target, after = match.groups()
        place = _site_place(_repository_path(here, target))
        return match[0] if place is None else f"{before}{posixpath.relpath(place, posixpath.dirname(here))}{after}"

    return outside_code(markdown, lambda text: LINK.sub(rewritten, text))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return notebook.with_outputs(html, page.file.src_uri)


def outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """Markdown with ``change`` applied to what is not in a fenced block."""
    parts = re.split(r"(^ *```.*?^ *```[^\n]*$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.lstrip().startswith("```") else change(part) for part in parts)


def _repository_path(page: str, target: str) -> str:
    """The path in the repository that a link of a page leads to."""
    origin = ORIGINS.get(page, f"docs/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))


def _site_place(path: str) -> str | None:
    """Where the site has a file of the repository; ``None`` for what it has not."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/") and not path.endswith((".py", ".csv", "/results")):
        return path.removeprefix("docs/")
    if (ROOT / path).is_dir():
        return f"source/{path}/index.md"
    if not (ROOT / path).exists():
        return None
    suffix = posixpath.splitext(path)[1]
    return f"source/{path}.md" if suffix in CODE else f"source/{path}"


def _outward_links(markdown: str, page: str) -> set[str]:
    """The paths in the repository, of files that are not in the site otherwise, to which a page links."""
    found: set[str] = set()
    outside_code(markdown, lambda text: found.update(_repository_path(page, m[2]) for m in LINK.finditer(text)) or text)
    return {path for path in found if (_site_place(path) or "").startswith("source/")}


def _add(files: Files, config: MkDocsConfig, path: str) -> None:
    """Adds a source file, a data file or the list of a folder to the site."""
    place, source = _site_place(path), ROOT / path
    if files.get_file_from_path(place):
        return
    if source.is_dir():
        entries = sorted(f"{path}/{p.name}" for p in source.iterdir() if p.is_file())
        for entry in entries:
            _add(files, config, entry)
        links = "".join(
            f"- [{posixpath.basename(e)}]({posixpath.relpath(_site_place(e), f'source/{path}')})\n" for e in entries
        )
        text = f"# {path}\n\n{links}"
    elif source.suffix in CODE:
        text = f'# {source.name}\n\n`{path}`\n\n```{CODE[source.suffix]} linenums="1"\n{source.read_text()}```\n'
        text = "---\nsearch:\n  exclude: true\n---\n" + text
    else:
        files.append(File.generated(config, place, abs_src_path=str(source)))
        return
    file = File.generated(config, place, content=text)
    file.inclusion = file.inclusion.NOT_IN_NAV
    files.append(file)
