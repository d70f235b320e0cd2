"""Spec sheets of environments as data: the docstring of a module of environments, parsed.

The command line and the catalogue of the documentation show them. Environments are not made for it.
"""

import dataclasses
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxenv import registry, tree
from jaxenv._checks import Range
from jaxenv._declared import declared_leaves
from jaxenv._make import load
from jaxenv.registry import EnvSpec

# Families in the order of listings: the package under ``jaxenv.envs`` and its title.
FAMILIES = {
    "classic_control": "Classic control",
    "toy_text": "Toy text",
    "box2d": "Box2D",
    "grid": "Grid worlds",
    "minatar": "MinAtar",
    "bsuite": "bsuite",
    "misc": "Tasks from papers",
    "games": "Games",
    "probes": "Probes of learners",
}
REGISTERED = "Registered by you"  # the family of environments that are not defined in this library


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table of a spec sheet.

    Attributes:
        name: ``"Observation"``, ``"Action"``, ``"Reward"``, ``"Starts"``, ``"Terminates"``, ``"Time limit"``,
            ``"env_info"`` and others.
        entries: pairs of a head, such as the dtype and the shape, and a description. Either may be empty.
    """

    name: str
    entries: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The entries in one line."""
        return "; ".join("  ".join(filter(None, entry)) for entry in self.entries)


@dataclasses.dataclass(frozen=True)
class Argument:
    """A param or an option of an environment.

    Attributes:
        name: the keyword of ``make``.
        default: the value that the id has without the keyword.
        unit: the unit, if one is declared.
        range: the values that are allowed, such as ``"above 0"``, if a range is declared.
        description: what it is, from the class's docstring or from the comment of the field.
    """

    name: str
    default: Any
    unit: str = ""
    range: str = ""
    description: str = ""


@dataclasses.dataclass(frozen=True)
class SpecSheet:
    """What the docstrings of an environment say about it. Text is reStructuredText, see `plain`.

    Attributes:
        id: the id.
        family: the title of its family.
        summary: one sentence.
        references: pairs of a label (``"Reference"``, ``"Paper"``, ``"Physics"``, ``"Task"``, ... or none) and a text.
        rows: the rows of the table, in the order of the docstring; none for an environment without a sheet.
        notes: the paragraphs after the table. Lines of tables and drawings are indented by four spaces.
        params: the params of the physics.
        options: the constructor arguments.
        text: the whole docstring.
    """

    id: str
    family: str
    summary: str
    references: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    params: tuple[Argument, ...]
    options: tuple[Argument, ...]
    text: str

    def row(self, name: str) -> Row | None:
        """The row of this name, ``None`` if there is none."""
        return next((row for row in self.rows if row.name == name), None)


def spec_sheet(id: str) -> SpecSheet:
    """The spec sheet of a registered id, of ``module:ID``, or of ``suite:id``, which has no rows.

    Raises:
        ValueError: for an unknown id, suggesting close ones.
        ImportError: if the library of the suite is not installed.

    >>> sheet = spec_sheet("CartPole-v1")
    >>> sheet.summary
    'Balance a pole on a cart by pushing the cart left or right.'
    >>> sheet.row("Action").entries
    (('int32', '0 pushes left, 1 pushes right'),)
    >>> sheet.params[0]
    Argument(name='gravity', default=9.8, unit='m/s^2', range='', description='')
    """
    if registry.suite_of(id):
        return _of_suite(id)
    spec = registry.spec(id)
    text, head, table, notes = _sheet(spec.environment)
    return SpecSheet(
        id=id,
        family=family(id),
        summary=head[0] if head else "",
        references=tuple(pair for paragraph in head[1:] for pair in _labelled(paragraph)),
        rows=tuple(_of_this_id(row, spec) for row in _rows(table)),
        notes=tuple(notes),
        params=tuple(_params(spec)),
        options=tuple(_options(spec)),
        text=text,
    )


def summary(id: str) -> str:
    """The summary of the spec sheet of a registered id, without its other parts.

    >>> summary("CartPole-v1")
    'Balance a pole on a cart by pushing the cart left or right.'
    """
    head = _sheet(registry.spec(id).environment)[1]
    return head[0] if head else ""


def _sheet(cls: Any) -> tuple[str, list[str], str, list[str]]:
    """The docstring that describes a class, and its parts, the first of which is about this class."""
    module, own = _docstring(sys.modules.get(cls.__module__)), _docstring(cls)
    text = module if _is_sheet(module) and not _is_sheet(own) else own
    head, table, notes = _parts(text)
    if text == module and own and "module docstring" not in own:  # the classes of one module differ
        head = [_joined(_sections(own)[0]), *head[1:]]
    return text, head, table, notes


def family(id: str) -> str:
    """The title of the family of an id: its package in this library, its suite, or `REGISTERED`.

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
    """Ids by the title of their family, in the order of `FAMILIES`."""
    groups: dict[str, list[str]] = {title: [] for title in FAMILIES.values()}
    for id in ids:
        groups.setdefault(family(id), []).append(id)
    groups[REGISTERED] = groups.pop(REGISTERED, [])
    return {title: members for title, members in groups.items() if members}


def _of_suite(id: str) -> SpecSheet:
    suite, _, name = id.partition(":")
    declared = declared_leaves(load(id).unwrapped)
    text = importlib.import_module(registry.SUITES[suite]).docstring(name)
    params = (
        Argument(d.path.removeprefix("params."), _value(d.value), d.unit, _range(d.range))
        for d in declared
        if d.path.startswith("params.")
    )
    return SpecSheet(id, suite, _joined(text.split("\n\n")[0]), (), (), (), tuple(params), (), text)


def plain(text: str) -> str:
    """Text without the marks of reStructuredText: ``"``x`` and `y`"`` is ``"x and y"``."""
    return text.replace("``", "").replace("`", "")


# --- the docstring ----------------------------------------------------------------------------------------------------


def _docstring(obj: Any) -> str:
    """An object's own docstring; that of a class is not inherited."""
    text = vars(obj).get("__doc__") if isinstance(obj, type) else getattr(obj, "__doc__", None)
    return inspect.cleandoc(text or "") if obj is not None else ""


def _is_sheet(text: str) -> bool:
    return re.search(r"^Observation {2,}", text, re.MULTILINE) is not None


def _parts(text: str) -> tuple[list[str], str, list[str]]:
    """The paragraphs before the table, the table, and the paragraphs after it."""
    text = _sections(text)[0]
    paragraphs = re.split(r"\n\s*\n", text.strip("\n"))
    place = next((i for i, paragraph in enumerate(paragraphs) if _is_sheet(paragraph)), None)
    if place is None:
        return [_joined(paragraphs[0])], "", [_reflowed(p) for p in paragraphs[1:]]
    head = [_joined(paragraphs[0]), *paragraphs[1:place]]
    return head, paragraphs[place], [_reflowed(p) for p in paragraphs[place + 1 :]]


def _sections(text: str) -> tuple[str, str]:
    """A docstring's text, and its list of attributes or arguments."""
    before, _, after = re.sub(r"^(Args|Attributes):$", "\0", text, count=1, flags=re.MULTILINE).partition("\0")
    return before.strip(), after


def _joined(paragraph: str) -> str:
    return " ".join(paragraph.split())


def _reflowed(paragraph: str) -> str:
    """A paragraph in one line, or unchanged if it is indented."""
    return paragraph.strip("\n") if paragraph.startswith("    ") else _joined(paragraph)


def _labelled(paragraph: str) -> Iterator[tuple[str, str]]:
    """The sentences of a paragraph such as ``Reference: ...`` by their label; those before a label have none."""
    for part in re.split(r"\n(?=[A-Z][\w ]*: )", paragraph):
        label, text = re.fullmatch(r"(?s)(?:([A-Z][\w ]*): )?(.*)", part).groups()  # type: ignore[union-attr]
        yield label or "", _joined(text)


def _rows(table: str) -> Iterator[Row]:
    """The rows of a table: a name in the first column, then entries of one or two columns."""
    for block in re.split(r"\n(?=\S)", table) if table else ():
        name, gap, rest = re.fullmatch(r"(?s)(\S+(?: \S+)*)( {2,})(.*)", block).groups()  # type: ignore[union-attr]
        indent = " " * len(name + gap)
        entries: list[tuple[str, str]] = []
        for number, line in enumerate(textwrap.dedent(indent + rest).split("\n")):
            cells = re.split(r" {2,}", line.strip(), maxsplit=1)
            if not number or (not line.startswith(" ") and len(cells) == 2):
                entries.append((cells[0], cells[1]) if len(cells) == 2 else ("", cells[0]))
            else:
                head, text = entries[-1]
                entries[-1] = (head, f"{text} {line.strip()}")
        yield Row(name, tuple(entries))


def _of_this_id(row: Row, spec: EnvSpec) -> Row:
    """A row of a sheet that several ids share, as it reads for one of them."""
    cls = spec.environment
    own = [entry for entry in row.entries if entry[0] == cls.__name__]
    if own:
        row = Row(row.name, (("", " ".join([*(text for head, text in row.entries if not head), own[0][1]])),))
    entries = tuple(e for entry in row.entries for e in _resolved(row.name, entry, cls.__module__))
    if row.name == "Time limit":
        limit = f"{spec.max_episode_steps} steps" if spec.max_episode_steps else "none"
        entries = tuple((head, re.sub(r"^.*? \(registry\)", limit, text)) for head, text in entries)
    return Row(row.name, entries)


def _resolved(name: str, entry: tuple[str, str], module: str) -> Iterator[tuple[str, str]]:
    """An entry; one that begins with ``see``, followed by a module, is replaced by the row in that module's sheet."""
    text = entry[1]
    see = re.match(r"see (?:`(jaxenv\.[\w.]+)`|(\w+)\.py)", text)
    if not see:
        yield entry
        return
    other = see[1] or f"{module.rpartition('.')[0]}.{see[2]}"
    _, table, _ = _parts(_docstring(importlib.import_module(other)))
    *others, last = next(row.entries for row in _rows(table) if row.name == name)
    yield from others
    yield last[0], last[1] + text[see.end() :]


# --- params and options -----------------------------------------------------------------------------------------------


def _params(spec: EnvSpec) -> Iterator[Argument]:
    cls = spec.environment
    params = registry._default_params(cls) if isinstance(cls, type) else None
    if params is None:
        return
    names = [field.name for field in dataclasses.fields(params)]
    params = tree.rebuild(params, **{name: value for name, value in spec.kwargs.items() if name in names})
    comments = {name: text for base in reversed(type(params).__mro__) for name, text in _comments(base).items()}
    for d in declared_leaves(params):
        yield Argument(d.path, _value(d.value), d.unit, _range(d.range), comments.get(d.path, ""))


def _options(spec: EnvSpec) -> Iterator[Argument]:
    cls = spec.environment
    if not isinstance(cls, type):
        hidden = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        for parameter in inspect.signature(cls).parameters.values():
            if parameter.name != "num_envs" and parameter.kind not in hidden:
                default = None if parameter.default is parameter.empty else parameter.default
                yield Argument(parameter.name, spec.kwargs.get(parameter.name, default))
        return
    described: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        for item in re.split(r"\n(?=\S)", textwrap.dedent(_sections(_docstring(base))[1]).strip("\n")):
            name, _, text = item.partition(":")
            described[name] = _phrase(text)
    names = registry._keywords(cls)[0]
    for field in dataclasses.fields(cls):
        if field.name in names:
            default = field.default if field.default is not dataclasses.MISSING else None
            value = _value(spec.kwargs.get(field.name, default))
            limits = _range(field.metadata.get("range", Range()))
            yield Argument(field.name, value, field.metadata.get("unit", ""), limits, described.get(field.name, ""))


def _range(limits: Range) -> str:
    return str(limits) if limits else ""


def _phrase(text: str) -> str:
    """A description in one line, without the full stop of a single sentence."""
    text = _joined(text)
    return text[:-1] if text.endswith(".") and ". " not in text else text


def _value(value: Any) -> Any:
    """NumPy numbers and arrays as Python values."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _comments(cls: type) -> dict[str, str]:
    """The comments of a class's fields, at the end of the line or on the lines above it; none without a source."""
    try:
        lines = inspect.getsource(cls).splitlines()
    except (OSError, TypeError):
        return {}
    found, above = {}, []
    for line in lines:
        if comment := re.match(r"    # (.*)", line):
            above.append(comment[1])
            continue
        if field := re.match(r"    (\w+): [^#]*(?:# (.*))?", line):
            found[field[1]] = _phrase(" ".join([*above, field[2] or ""]))
        above = []
    return found
