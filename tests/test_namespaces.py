"""Public namespaces: what `dir` shows of them, and the page of each name that the documentation mentions."""

import importlib.util
import inspect
import pathlib
import re
import types
import typing

import pytest

import jaxenv

DOCS = pathlib.Path(__file__).parents[1] / "docs"
# The namespaces that have a page, as docs/_site/api.py lists them.
NAMESPACES = re.search(r'NAMESPACES = """(.*?)"""', (DOCS / "_site" / "api.py").read_text(), re.DOTALL)[1].split()
# Those whose names `dir` shows; the others are files of one learner, suite or environment.
PACKAGES = ["jaxenv", "specs", "random", "tree", "core", "wrappers", "rollout", "data", "training", "canvas", "testing"]
PACKAGES += ["interop", "suites"]


def namespace(name):
    elsewhere = {"jaxenv": jaxenv, "elements": jaxenv.elements, "plot": jaxenv.plot, "stack": jaxenv.stack}
    return elsewhere.get(name) or importlib.import_module(f"jaxenv.{name}")


def is_ours(name, value):
    """Whether a value is a module, a class or a function of this library, or a constant or an alias."""
    if inspect.ismodule(value):
        return value.__name__.startswith("jaxenv")
    home = getattr(value, "__module__", None) or "jaxenv"
    return (
        home.startswith("jaxenv")
        or (home == "typing" and not hasattr(typing, name))
        or type(value) is types.GenericAlias
    )


@pytest.mark.parametrize("name", PACKAGES)
def test_dir_shows_only_names_of_this_library(name):
    module = namespace(name)
    public = [x for x in dir(module) if not x.startswith("_")]
    assert public
    assert [x for x in public if not is_ours(x, getattr(module, x))] == []


@pytest.mark.parametrize("name", ["canvas", "core", "interop"])
def test_packages_are_attributes(name):
    assert getattr(jaxenv, name) is importlib.import_module(f"jaxenv.{name}")


def mentioned():
    """The dotted names of the pages, with the pages that mention them."""
    found = {}
    for page in sorted(DOCS.rglob("*.md")):
        for name in re.findall(r"(?<![\w./])jaxenv((?:\.[A-Za-z]\w*)+)", page.read_text()):
            found.setdefault(name[1:], page.relative_to(DOCS).as_posix())
    return found


def has_a_page(name):
    """Whether a name stands on the page of a namespace, or is an attribute of what stands there."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        if ".".join(parts[:size]) in NAMESPACES:
            rest = parts[size:]
            return not rest or hasattr(namespace(".".join(parts[:size])), rest[0])
    if parts[0] == "envs":  # the files of environments are described in the catalogue
        return importlib.util.find_spec(f"jaxenv.{name}") is not None
    return hasattr(jaxenv, parts[0]) and not inspect.ismodule(getattr(jaxenv, parts[0]))


def test_every_name_that_the_pages_mention_has_a_page():
    assert {name: page for name, page in mentioned().items() if not has_a_page(name)} == {}
