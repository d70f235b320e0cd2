"""Declarations of the numeric leaves and options of environments, and checks of the values given for them."""

import dataclasses
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv._util.checks import INT32_MAX, Range, check_choice, is_concrete, is_integer, is_real
from jaxenv.tree import number_dtype, path_name, rebuild
from jaxenv.tree._typed_keys import is_key

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Declared:
    """The declaration of one numeric leaf of an environment, with its value."""

    path: str
    value: Any
    rank: int
    dtype: np.dtype | None  # None: typed keys
    range: Range = Range()
    unit: str = ""
    doc: str = ""
    in_lanes: bool | None = None  # part of a tree, whose arrays all lead with the lanes or not at all

    @property
    def per_lane(self) -> bool:
        return np.ndim(self.value) == self.rank + 1 if self.in_lanes is None else self.in_lanes


def _declaration(field: dataclasses.Field[Any]) -> Mapping[str, Any] | None:
    """Returns rank, dtype, range and unit of a numeric field: from ``leaf``, else rank and dtype of its default."""
    if "rank" in field.metadata:
        return field.metadata
    dtype = number_dtype(field.default)
    return None if dtype is None else {"rank": 0, "dtype": dtype}


def map_declared(fn: Callable[[Declared], Any], obj: T, prefix: str = "") -> T:
    """Applies ``fn`` to every declared numeric leaf of an environment or params object and rebuilds the object.

    It descends into fields that are dataclasses or tuples of dataclasses.
    """
    changes = {}
    for field in dataclasses.fields(obj):  # type: ignore[arg-type]
        if field.metadata.get("static"):
            continue
        value, path = getattr(obj, field.name), prefix + field.name
        declared = _declaration(field)
        if "lanes" in field.metadata:
            changes[field.name] = _map_tree(fn, value, path, field.metadata["lanes"])
        elif declared is not None:
            changes[field.name] = fn(Declared(path, value, **declared))
        elif dataclasses.is_dataclass(value):
            changes[field.name] = map_declared(fn, value, path + ".")
        elif isinstance(value, tuple) and value and all(map(dataclasses.is_dataclass, value)):
            new = tuple(map_declared(fn, x, f"{path}.{i}.") for i, x in enumerate(value))
            changes[field.name] = value if all(a is b for a, b in zip(new, value, strict=True)) else new
        else:
            raise TypeError(
                f"{type(obj).__name__}: field {field.name!r} must be static(), leaf(), a number with a default, "
                f"or a struct or tuple of structs of those, got {type(value).__name__}"
            )
    changes = {name: new for name, new in changes.items() if new is not getattr(obj, name)}
    return rebuild(obj, **changes) if changes else obj


def _map_tree(fn: Callable[[Declared], Any], values: Any, prefix: str, in_lanes: bool) -> Any:
    leaves, structure = jax.tree_util.tree_flatten_with_path(values)
    new = [
        fn(Declared(f"{prefix}.{path_name(path)}", x, max(np.ndim(x) - in_lanes, 0), None, in_lanes=in_lanes))
        for path, x in leaves
    ]
    same = all(a is b for a, (_, b) in zip(new, leaves, strict=True))
    return values if same else jax.tree.unflatten(structure, new)


def declared_leaves(obj: Any) -> list[Declared]:
    """Returns every declared numeric leaf of an environment, inner ones included."""
    collected: list[Declared] = []

    def collect(d: Declared) -> jax.Array:
        collected.append(d)
        return d.value

    map_declared(collect, obj)
    return collected


def hashable(value: Any) -> Any:
    """Converts arrays and lists to nested tuples, so that they can be part of a tree's structure."""
    if isinstance(value, np.ndarray | jax.Array):
        value = np.asarray(value).tolist()
    return tuple(hashable(v) for v in value) if isinstance(value, list | tuple) else value


# An example of each type that is checked, and its name in errors.
_OF_TYPE: dict[Any, Any] = {bool: False, int: 0, float: 0.0, str: ""}
_KINDS = {bool: "True or False", int: "an integer", float: "a number", str: "a string"}


def check_static(owner: str, field: dataclasses.Field[Any], value: Any) -> Any:
    """Checks a value of a field declared by ``static``: its type, and its range if one is declared.

    A ``Literal`` declares the choices of a field. The range of a ``tuple[int, ...]`` applies to its entries.
    """
    if get_origin(field.type) is Literal:
        check_choice(owner, field.name, value, get_args(field.type))
    required = field.default is dataclasses.MISSING
    default = _OF_TYPE.get(field.type) if required else field.default
    optional = default is None
    if optional and value is not None:  # a field such as ``str | None``
        kinds = get_args(field.type) if isinstance(field.type, UnionType) else ()
        default = next((_OF_TYPE[kind] for kind in kinds if kind in _OF_TYPE), None)
    alternative = "None or " if optional else ""
    value = check_option(owner, field.name, value, default, alternative)
    if optional and value is None:
        return value
    limits: Range = field.metadata.get("range", Range())
    if limits and field.type == tuple[int, ...]:
        if not (isinstance(value, tuple) and all(map(is_integer, value))):
            raise ValueError(f"{owner}: {field.name} must be a tuple of integers, got {value!r}")
        limits.check(owner, field.name, np.array(value, np.int64), rank=1)
        return value
    if (limits or field.type is float) and not is_real(value):
        raise ValueError(f"{owner}: {field.name} must be {alternative}one number, got {value!r}")
    if limits:
        limits.check(owner, field.name, value)
        if is_integer(value) and limits.high is None:
            Range(high=INT32_MAX).check(owner, field.name, value)
    return value


def check_option(owner: str, name: str, value: Any, default: Any, alternative: str = "") -> Any:
    """Checks that a static argument has the type of its default; returns it as a Python value.

    ``alternative`` names in the error the other values that the caller accepts: ``"None or "``.
    """
    kinds: Any = {bool: bool, int: int, float: int | float, str: str}.get(type(default))
    if isinstance(value, np.generic):
        value = value.item()
    if kinds is None or (isinstance(value, kinds) and isinstance(value, bool) == isinstance(default, bool)):
        return value
    if isinstance(default, float) and isinstance(value, tuple):  # bounds may be given element by element
        return value
    raise ValueError(f"{owner}: {name} must be {alternative}{_KINDS[type(default)]}, got {value!r}")


def check_number(owner: str, declared: Declared) -> Any:
    """Checks a numeric argument and converts it to its declared dtype; tracers are cast without a check of values.

    Raises:
        ValueError: if it is text, not finite, fractional for an integer, a bool for a number, of a rank that is
            neither the declared one nor one more, or out of its range. The message names owner, argument and value.
    """
    value, rank, dtype = declared.value, declared.rank, declared.dtype
    if declared.in_lanes is not None:  # checked where they were given
        return value
    argument = declared.path.split(".")[-1]
    name = f"{owner}: {argument}"
    if dtype is None:
        if not (isinstance(value, jax.Array) and is_key(value)):
            raise ValueError(f"{name} must be a typed key from jax.random.key(seed), got {value!r}")
        return value
    if is_concrete(value):
        try:
            array = np.asarray(value)
            with np.errstate(over="ignore", invalid="ignore"):  # checked below
                exact = array.astype(dtype)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{name} must be a number or an array of numbers, got {value!r}") from None
        if array.dtype.kind not in "biuf" and not jnp.issubdtype(array.dtype, jnp.floating):
            raise ValueError(f"{name} must be a number or an array of numbers, got {value!r}")
        if not (np.all(np.isfinite(array)) and np.all(np.isfinite(exact))):
            raise ValueError(f"{name} must be finite, got {value!r}")
        if dtype.kind in "iuf" and (array.dtype.kind == "b" or (dtype.kind != "f" and np.any(exact != array))):
            raise ValueError(f"{name} must be {dtype.name}, got {value!r}")
        if dtype.kind == "b" and array.dtype.kind != "b":
            raise ValueError(f"{name} must be bool, got {value!r}")
        converted = jnp.asarray(value, dtype) if isinstance(value, jax.Array) else exact
        if isinstance(value, np.ndarray) and value.dtype == dtype and not value.flags.writeable:
            converted = value  # already immutable
        if isinstance(converted, np.ndarray):
            converted.flags.writeable = False
    elif isinstance(value, jax.Array):
        converted = jax.lax.convert_element_type(value, dtype)
    else:
        raise ValueError(f"{name} must be a number or an array of numbers, got {value!r}")
    if converted.ndim not in (rank, rank + 1):
        raise ValueError(
            f"{name} must have {rank} axes, or {rank + 1} for one value per lane, got shape {converted.shape}"
        )
    declared.range.check(owner, argument, converted, rank)
    return converted
