"""Links of words in code: ids lead to their pages in the catalogue, public names to the API reference."""

import html
import inspect
import posixpath
import re

from api import HOMES, MODULES, public_names
from catalogue import id_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

import jaxenv

# Left as they are: links, headings, blocks of code.
WORD = re.compile(
    r"<a\b.*?</a>|<h[1-6]\b.*?</h[1-6]>|<pre\b.*?</pre>|<autoref\b.*?</autoref>|<code>([^<]*)</code>", re.DOTALL
)

# Short names of these modules, such as State, mean other things on other pages.
QUALIFIED = ("jaxenv.envs.toy_text.tabular",)
QUALIFIED += tuple(f"jaxenv.suites.{name}" for name in ("brax", "gymnasium", "gymnax", "jaxmarl", "jumanji"))
QUALIFIED += tuple(f"jaxenv.suites.{name}" for name in ("bsuite", "craftax", "envpool", "navix"))
QUALIFIED += tuple(f"jaxenv.suites.{name}" for name in ("pettingzoo", "pgx", "playground", "xminigrid"))
QUALIFIED += tuple(f"jaxenv.training.{name}" for name in ("ppo", "dqn", "sac", "seeds", "evaluation", "networks"))
QUALIFIED += ("jaxenv.training.distributions", "jaxenv.training.memories")


def _names() -> dict[str, str]:
    """The identifier in the API reference of each way to write a public name."""
    found: dict[str, set[str]] = {}

    def add(written: str, identifier: str) -> None:
        found.setdefault(written, set()).add(identifier)

    for full, module in MODULES.items():
        if full != "jaxenv":
            add(full, full)
        for name in public_names(module):
            identifier, thing = HOMES[f"{full}.{name}"], getattr(module, name)
            add(f"{full}.{name}", identifier)
            if full != "jaxenv":
                add(f"{full}.{name}".removeprefix("jaxenv."), identifier)
            if name[0].isupper() and full not in QUALIFIED:
                add(name, identifier)
            if inspect.isclass(thing):
                methods = [m for m in vars(thing) if not m.startswith("_") and inspect.getdoc(vars(thing)[m])]
                for method in methods:
                    add(f"{name}.{method}", f"{identifier}.{method}")
    for word, cls in (("env", jaxenv.Environment), ("timestep", jaxenv.TimeStep)):
        for method in (m for m in vars(cls) if not m.startswith("_") and inspect.getdoc(vars(cls)[m])):
            add(f"{word}.{method}", f"jaxenv.{cls.__name__}.{method}")
    # A name that several namespaces have leads to the shortest identifier.
    return {written: min(identifiers, key=len) for written, identifiers in found.items()}


NAMES = _names()
IDS = {id: id_page(id) for id in jaxenv.ids()}


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = page.file.src_uri

    def linked(match: re.Match) -> str:
        text = html.unescape(match[1] or "")
        id = re.sub(r"^<.*<|>+$", "", text)
        if id in IDS and IDS[id] != here:
            target = posixpath.relpath(IDS[id], posixpath.dirname(here)).removesuffix(".md") + ".html"
            code = match[0].replace("&lt;", "<wbr>&lt;")  # where the name of a stack may be broken
            return f'<a class="id" href="{target}">{code}</a>'
        name = NAMES.get(re.sub(r"\(.*\)$", "", text, flags=re.DOTALL))
        return f'<autoref optional identifier="{name}">{match[0]}</autoref>' if name else match[0]

    return content if here.startswith("source/") else WORD.sub(linked, content)
