"""An extension of griffe, which reads the source for the API reference.

It fences the doctests of docstrings, and adds what only exists at run time: the constructors of dataclasses
(environments become dataclasses when they are defined) and names that a module imports when they are first used.
"""

import dataclasses
import importlib
import inspect
import re
from typing import Any

import griffe

KINDS = {kind: griffe.ParameterKind[kind.name.lower()] for kind in type(inspect.Parameter.KEYWORD_ONLY)}


class Docstrings(griffe.Extension):
    """Prepares docstrings and signatures for the reference."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        for module in _modules(pkg):
            classes = [member for member in module.members.values() if not member.is_alias and member.is_class]
            for cls in classes:
                _add_constructor(cls, module.path)
            if "__getattr__" in module.members:
                _add_lazy(module)


def fenced(docstring: str) -> str:
    """The docstring with each doctest, from its first prompt to an empty line, in a fence."""
    found = re.compile(r"^( *)(>>> .*?)(?=\n\s*\n(?! *>>> )|\s*\Z)", flags=re.DOTALL | re.MULTILINE)
    return found.sub(lambda m: f"\n{m[1]}```pycon\n{m[1]}{m[2]}\n{m[1]}```\n", docstring)


def _modules(module: griffe.Module) -> list[griffe.Module]:
    children = [child for child in module.members.values() if not child.is_alias and child.is_module]
    return [module] + [found for child in children for found in _modules(child)]


def _add_lazy(module: griffe.Module) -> None:
    """Adds the names of ``__all__`` that a module imports when they are first used."""
    actual = importlib.import_module(module.path)
    for name in set(getattr(actual, "__all__", ())) - set(module.members):
        module.set_member(name, griffe.Alias(name, f"{getattr(actual, name).__module__}.{name}", parent=module))


def _add_constructor(cls: griffe.Class, module: str) -> None:
    if "__init__" in cls.members or any(part == "__main__" for part in module.split(".")):
        return
    actual = getattr(importlib.import_module(module), cls.name)
    if not dataclasses.is_dataclass(actual):
        return
    parameters = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)]
    for name, parameter in inspect.signature(actual).parameters.items():
        if name not in ("name", "num_envs") or name in cls.members:
            parameters.append(
                griffe.Parameter(
                    name,
                    annotation=_annotation(cls, name),
                    kind=KINDS[parameter.kind],
                    default=None if parameter.default is parameter.empty else _default(parameter.default),
                )
            )
    init = griffe.Function("__init__", lineno=0, endlineno=0, parent=cls, parameters=griffe.Parameters(*parameters))
    cls.set_member("__init__", init)


def _annotation(cls: griffe.Class, name: str) -> Any:
    owners = [cls, *cls.mro()]
    return next((owner.members[name].annotation for owner in owners if name in owner.members), None)


def _default(value: Any) -> str:
    text = getattr(value, "__name__", None) or repr(value)
    return "..." if "<" in text or "\n" in text or len(text) > 60 else text
