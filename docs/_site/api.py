"""Pages of the API reference: one per public namespace, with every public name, from docstrings."""

import ast
import importlib.util
import inspect
import pathlib
import re
from types import ModuleType

import numpy as np
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

NAMESPACES = """
    jaxenv specs random tree core wrappers stack elements rollout data data.level_scores data.transformers
    training training.ppo training.dqn training.sac training.ued training.paired training.self_play
    training.alphazero training.config training.presets training.lanes training.networks training.memories
    training.distributions training.evaluation training.seeds plot canvas testing interop interop.gymnax
    interop.jaxmarl suites suites.brax suites.bsuite suites.craftax suites.envpool suites.gymnasium suites.gymnax
    suites.jaxmarl suites.jumanji suites.navix suites.pettingzoo suites.pgx suites.playground suites.xminigrid
    envs.toy_text.tabular envs.grid.amaze
"""


def _modules() -> dict[str, ModuleType]:
    """The namespaces that exist, by full name."""
    names = [name if name == "jaxenv" else f"jaxenv.{name}" for name in NAMESPACES.split()]
    found: dict[str, ModuleType] = {}
    for name in names:
        parent, _, last = name.rpartition(".")
        attribute = getattr(found.get(parent), last, None)  # a namespace that stands elsewhere, such as `jaxenv.plot`
        found[name] = attribute if inspect.ismodule(attribute) else importlib.import_module(name)
    return found


MODULES = _modules()


# What most programs call.
FIRST = ("make", "load", "reset_where", "step_where", "unroll", "evaluate", "record", "film")

INTRODUCTION = """\
Every public name, from the docstrings of the source. Shapes are written with the axes `B` (lanes) and `T` (time).
Modules and names that start with an underscore are internal.
"""


def public_names(module: ModuleType) -> list[str]:
    """The names that a module defines, or imports as themselves: those of `FIRST`, then in the order of the source."""
    names = []
    for node in ast.parse(pathlib.Path(module.__file__ or "").read_text()).body:
        if isinstance(node, ast.ImportFrom):
            names += [alias.name for alias in node.names if alias.asname == alias.name]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
    names += [name for name in getattr(module, "__all__", []) if name not in names]
    names.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    return [n for n in names if not n.startswith("_") and not inspect.ismodule(getattr(module, n))]


def _is_ours(thing: object) -> bool:
    """Whether a thing is a class or a function of this library."""
    return callable(thing) and getattr(thing, "__module__", "").startswith("jaxenv")


def summary(thing: object) -> str:
    """The first sentence of a docstring; of a constant its type."""
    if isinstance(thing, np.ndarray):  # a colour
        code = "#" + "".join(f"{round(255 * float(x)):02x}" for x in thing)
        return f'<span class="swatch" style="background: {code}"></span> {code}'
    if not inspect.ismodule(thing) and not _is_ours(thing):
        return "a type of annotations" if getattr(thing, "__module__", "") == "typing" else f"a {type(thing).__name__}"
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[a-z0-9)`])\. ", text)[0].rstrip(".").replace("|", "\\|")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    rows = [f"| [`{full}`]({full}.md) | {summary(module)} |" for full, module in MODULES.items()]
    index = "\n".join(["# API reference", "", INTRODUCTION, "", "| namespace | contents |", "|---|---|", *rows, ""])
    files.append(File.generated(config, "api/index.md", content=index))
    for full, module in MODULES.items():
        files.append(File.generated(config, f"api/{full}.md", content=_page(full, module)))
    return files


def identifier(thing: object, public: str) -> str:
    """The identifier that the parser of the source has for a public name.

    A namespace that stands elsewhere, such as `jaxenv.plot`, has its own name there.
    """
    namespace, _, name = public.rpartition(".")
    return f"{MODULES[namespace].__name__}.{name}"


def _homes() -> dict[str, str]:
    """The public name under which each name is described: the first one in the order of the namespaces."""
    homes: dict[int, str] = {}
    found = {}
    for full, module in MODULES.items():
        for name in public_names(module):
            thing = getattr(module, name)
            found[f"{full}.{name}"] = homes.setdefault(id(thing) if _is_ours(thing) else len(found), f"{full}.{name}")
    return found


HOMES = _homes()


def _page(full: str, module: ModuleType) -> str:
    names = public_names(module)
    links = [f"| [`{n}`][{HOMES[f'{full}.{n}']}] | {summary(getattr(module, n))} |" for n in names]
    table = ["| name | contents |", "|---|---|", *links] if links else []
    described = [n for n in names if HOMES[f"{full}.{n}"] == f"{full}.{n}"]
    blocks = [_block(f"{full}.{n}", getattr(module, n)) for n in described]
    return "\n\n".join([f"# {full} {{ #{full} }}", inspect.getdoc(module) or "", "\n".join(table), *blocks]) + "\n"


def _block(public: str, thing: object) -> str:
    """The description of a name, with anchors for its other public names."""
    here = identifier(thing, public)
    others = [name for name, home in HOMES.items() if home == public and name != here]
    return "\n".join([*(f"[](){{#{name}}}" for name in others), f"\n::: {here}"])
