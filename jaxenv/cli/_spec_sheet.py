"""The docstring and arguments of an environment, as the command line and the documentation's catalogue show them."""

import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxenv import tree
from jaxenv._util.checks import Range
from jaxenv.core import EnvSpec, registry
from jaxenv.core._declared import declared_leaves
from jaxenv.wrappers.stack._make import make

# Families in the order of listings: the package under ``jaxenv.envs`` and its title.
FAMILIES = {
    "classic_control": "Classic control",
    "toy_text": "Toy text",
    "box2d": "Box2D",
    "grid": "Grid worlds",
    "minatar": "MinAtar",
    "bsuite": "bsuite",
    "popgym": "POPGym",
    "misc": "Tasks from papers",
    "board": "Board games",
    "games": "Games",
    "particle": "Multi-agent particles",
    "probes": "Probes of learners",
}
REGISTERED = "Registered by you"  # the family of environments that are not defined in this library


@dataclasses.dataclass(frozen=True)
class Argument:
    """A param or an option of an environment."""

    name: str  # the keyword of make
    default: Any  # the value that the id has without the keyword
    unit: str = ""  # the unit, if one is declared
    range: str = ""  # the values that are allowed, such as "above 0", if a range is declared
    description: str = ""  # as declared by doc=


@dataclasses.dataclass(frozen=True)
class SpecSheet:
    """The description of an environment. Text is reStructuredText, see `plain`."""

    id: str
    family: str  # the title of its family
    summary: str  # one sentence
    paragraphs: tuple[str, ...]  # the rest of the docstring as written, then the tables that its table refers to
    params: tuple[Argument, ...]  # the params of the physics
    options: tuple[Argument, ...]  # the constructor arguments


def spec_sheet(id: str) -> SpecSheet:
    """Returns the spec sheet of a registered id, of ``module:ID``, or of ``suite:id``, which has no table.

    >>> sheet = spec_sheet("CartPole-v1")
    >>> sheet.summary
    'Balance a pole on a cart by pushing the cart left or right.'
    >>> sheet.params[0]
    Argument(name='gravity', default=9.8, unit='m/s^2', range='', description='')
    """
    suite, _, name = id.partition(":")
    if registry.suite_of(id):
        text = importlib.import_module(registry.SUITES[suite]).docstring(name)
        declared = ((d.path, d) for d in declared_leaves(make(id).unwrapped))
        params = [_argument(path[7:], d) for path, d in declared if path.startswith("params.")]
        return SpecSheet(id, suite, _joined(text.split("\n\n")[0]), (), tuple(params), ())
    spec = registry.spec(id)
    text = _text(spec.environment)
    module = spec.environment.__module__
    others = [part for paragraph in text if _is_table(paragraph) for part in _referred(paragraph, module)]
    paragraphs = (*text[1:], *dict.fromkeys(others))
    return SpecSheet(id, family(id), summary(id), paragraphs, tuple(_params(spec)), tuple(_options(spec)))


def summary(id: str) -> str:
    """Returns only the summary of the spec sheet of a registered id."""
    cls = registry.spec(id).environment
    text, own = _text(cls), _paragraphs(cls)
    # The classes of one module differ by their own first sentence.
    return _joined(own[0] if own and "module docstring" not in own[0] else text[0] if text else "")


def _text(cls: Any) -> list[str]:
    """Returns the paragraphs of the docstring that describes a class: its own or its module's."""
    module, own = _paragraphs(sys.modules.get(cls.__module__)), _paragraphs(cls)
    return module if any(map(_is_table, module)) and not any(map(_is_table, own)) else own


def family(id: str) -> str:
    """Returns the title of the family of an id: its package in this library, its suite, or `REGISTERED`.

    >>> family("CartPole-v1"), family("TicTacToe-v0"), family("gymnax:CartPole-v1")
    ('Classic control', 'Games', 'gymnax')
    """
    if suite := registry.suite_of(id):
        return suite
    path = registry.spec(id).module.split(".")
    if path[:2] != ["jaxenv", "envs"]:
        return REGISTERED
    package = path[2] if len(path) > 3 else "games"
    return FAMILIES.get(package, package.replace("_", " ").capitalize())


def families(ids: list[str]) -> dict[str, list[str]]:
    """Groups ids by the title of their family, in the order of `FAMILIES`."""
    groups: dict[str, list[str]] = {title: [] for title in FAMILIES.values()}
    for id in ids:
        groups.setdefault(family(id), []).append(id)
    groups[REGISTERED] = groups.pop(REGISTERED, [])
    return {title: members for title, members in groups.items() if members}


def plain(text: str) -> str:
    """Removes the marks of reStructuredText: ``"``x`` and `y`"`` becomes ``"x and y"``."""
    return text.replace("``", "").replace("`", "")


def as_written(paragraph: str) -> bool:
    """Returns whether the lines of a paragraph are kept, as in a table or a drawing."""
    return _is_table(paragraph) or paragraph.startswith("    ")


def _is_table(paragraph: str) -> bool:
    return re.search(r"^Observation {2,}", paragraph, re.MULTILINE) is not None


def _paragraphs(obj: Any) -> list[str]:
    """Returns the paragraphs of an object's own docstring, not an inherited one, without its list of attributes."""
    text = vars(obj).get("__doc__") if isinstance(obj, type) else getattr(obj, "__doc__", None)
    documented = inspect.cleandoc(text or "") if obj else ""
    text = re.split(r"^(?:Args|Attributes):$", documented, maxsplit=1, flags=re.MULTILINE)[0]
    return [paragraph.strip("\n") for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]


def _referred(table: str, module: str) -> Iterator[str]:
    """Yields the tables of the modules that a table refers to, each below its name."""
    for path, stem in re.findall(r"(?:see|as in) (?:`(jaxenv\.[\w.]+)`|(\w+)\.py)", table):
        name = path or f"{module.rpartition('.')[0]}.{stem}"
        for other in filter(_is_table, _paragraphs(importlib.import_module(name))):
            yield f"{name.rpartition('.')[2]}.py:"
            yield other
            yield from _referred(other, name)


def _joined(paragraph: str) -> str:
    return " ".join(paragraph.split())


def _argument(name: str, declared: Any) -> Argument:
    limits = str(declared.range) if declared.range else ""
    return Argument(name, _value(declared.value), declared.unit, limits, declared.doc)


def _params(spec: EnvSpec) -> Iterator[Argument]:
    cls = spec.environment
    params = registry._default_params(cls) if isinstance(cls, type) else None
    if params is None:
        return
    names = [field.name for field in dataclasses.fields(params)]
    params = tree.rebuild(params, **{name: value for name, value in spec.kwargs.items() if name in names})
    for declared in declared_leaves(params):
        doc = declared.doc or _doc(type(params), declared.path)
        yield dataclasses.replace(_argument(declared.path, declared), description=doc)


def _options(spec: EnvSpec) -> Iterator[Argument]:
    cls = spec.environment
    if not isinstance(cls, type):
        hidden = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        for parameter in inspect.signature(cls).parameters.values():
            if parameter.name != "num_envs" and parameter.kind not in hidden:
                default = None if parameter.default is parameter.empty else parameter.default
                yield Argument(parameter.name, spec.kwargs.get(parameter.name, default))
        return
    names = registry._keywords(cls)[0]
    for field in dataclasses.fields(cls):
        if field.name in names:
            default = field.default if field.default is not dataclasses.MISSING else None
            value = _value(spec.kwargs.get(field.name, default))
            limits = field.metadata.get("range", Range())
            unit, doc = field.metadata.get("unit", ""), _doc(cls, field.name)
            yield Argument(field.name, value, unit, str(limits) if limits else "", doc)


def _doc(cls: type, name: str) -> str:
    """Returns the ``doc`` of a field, as declared by the class or by the base whose default it changes."""
    fields = (getattr(base, "__dataclass_fields__", {}).get(name) for base in cls.__mro__)
    return next((doc for field in fields if field is not None and (doc := field.metadata.get("doc"))), "")


def _value(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
