"""Rules for what an author declares in a class of environments or wrappers."""

import dataclasses
import inspect
import reprlib
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from jaxenv._util.names import did_you_mean
from jaxenv.core.facts import Facts
from jaxenv.core.timestep import TimeStep

_FIELDS = [field.name for field in dataclasses.fields(TimeStep)]


def check_overrides(cls: type, primitives: Mapping[str, str]) -> None:
    """Raises a ``TypeError`` if a class overrides a final method, with the method to implement in its place.

    The same for a field without a default that overrides a property, since no value could be assigned to it.
    """
    for name in (*vars(cls), *vars(cls).get("__annotations__", ())):
        inherited = next((vars(base)[name] for base in cls.__mro__[1:] if name in vars(base)), None)
        if name in vars(cls) and getattr(getattr(inherited, "fget", inherited), "__final__", False):
            hint = f": override {primitives[name]}" if name in primitives else ""
            raise TypeError(f"{cls.__name__}: {name} is final, a subclass cannot override it{hint}")
        own = vars(cls).get(name, dataclasses.MISSING)
        default = own.default if isinstance(own, dataclasses.Field) else own
        if default is dataclasses.MISSING and isinstance(inherited, property):
            rule = f"must have a default or be a property, as in {cls.__bases__[0].__name__}"
            raise TypeError(f"{cls.__name__}: the field {name!r} {rule}")


def check_takes_level(cls: type, initial: Callable[..., Any]) -> None:
    """Raises a ``TypeError`` unless ``initial`` of a class with a ``Level`` takes a level."""
    signature = inspect.signature(initial)
    try:
        signature.bind("self", "stream", "level")
    except TypeError:
        rule = f"as the class declares {cls.Level.__name__} as its Level"  # type: ignore[attr-defined]
        raise TypeError(f"{cls.__name__}: initial must take (self, stream, level), {rule}, got {signature}") from None


def check_wrapper_class(cls: Any, base: Any, places: tuple[str, ...]) -> None:
    """Raises a ``TypeError`` unless the class variables of a subclass of ``base``, `Wrapper`, fit together."""
    owned = vars(cls).get("owns", frozenset())
    if isinstance(owned, str):
        raise TypeError(f"{cls.__name__}: owns must be a set of fields, such as {{{owned!r}}}, got {owned!r}")
    for name in owned if isinstance(owned, frozenset | set) else ():
        if name not in _FIELDS:
            hint = did_you_mean(str(name), _FIELDS, otherwise=f"the fields are {', '.join(_FIELDS)}")
            raise TypeError(f"{cls.__name__}: owns must name fields of a TimeStep, got {name!r}, {hint}")
    fields = [field for field in dataclasses.fields(cls) if field.name != "env"]
    inherited = {
        field.name
        for parent in cls.__bases__
        if dataclasses.is_dataclass(parent)
        for field in dataclasses.fields(parent)
    }
    hidden = {field.name for field in fields} & {field.name for field in dataclasses.fields(Facts)} - inherited
    if hidden and "facts_of" not in vars(cls):
        rule = f"a field {min(hidden)!r} would hide env.{min(hidden)} of the whole stack, give it another name"
        raise TypeError(f"{cls.__name__}: {rule}")
    if cls.place not in places:
        raise TypeError(f"{cls.__name__}: place must be one of {', '.join(places)}, got {cls.place!r}")
    arguments, role = [field.name for field in fields if field.init], cls.in_evaluation
    known = isinstance(role, Mapping) and role.keys() <= set(arguments)
    if role not in (None, "kept", "left_out") and not known:
        values = f"new values of its arguments ({', '.join(arguments) or 'it has none'})"
        rule = f"in_evaluation must be 'kept', 'left_out' or a dict of {values}"
        raise TypeError(f"{cls.__name__}: {rule}, got {role!r}")
    if "proceed" in vars(cls) and not any("owns" in vars(c) for c in cls.__mro__[: cls.__mro__.index(base)]):
        raise TypeError(f"{cls.__name__}: a wrapper that overrides proceed must declare the fields that it owns")


def refuse_no_environment(cls: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NoReturn:
    """Raises a ``ValueError`` for a wrapper whose first argument is no environment."""
    names = [field.name for field in dataclasses.fields(cls) if field.init and field.name != "env"]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    got = f"got {reprlib.repr(args[0]) if args else 'none'}"
    hint = f"in make(wrappers=[...]) write ({cls.__name__!r}, {given})"
    raise ValueError(f"{cls.__name__}: env must be an environment, {got}: {hint}")
