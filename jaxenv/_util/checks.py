"""Checks of arguments that many modules share. Each error names the owner, the argument, the rule and the value."""

import contextlib
import dataclasses
import math
import os
import pathlib
import reprlib
from collections.abc import Sequence
from typing import Any

import jax.core
import jax.numpy as jnp
import numpy as np

INT32_MAX = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Range:
    """An interval of numbers. ``low`` and ``high`` belong to it, ``above`` and ``below`` do not.

    >>> str(Range(above=0)), str(Range(low=0, high=1))
    ('above 0', 'in [0, 1]')
    """

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None

    def __post_init__(self) -> None:
        for end in ("low", "high", "above", "below"):
            if getattr(self, end) is not None:
                check_numbers("Range", end, getattr(self, end))
        for a, b in (("low", "above"), ("high", "below")):
            if getattr(self, a) is not None and getattr(self, b) is not None:
                raise TypeError(f"a range has {a} or {b}, not both")

    def contains(self, values: Any) -> np.ndarray:
        """Returns which ``values`` lie in the range: bool, of the same shape. NaN lies in no range that has an end.

        Ends are rounded to the dtype of floats: float32(pi) is at most pi.
        """
        x = np.asarray(values)
        inside = np.ones(x.shape, bool)
        fits = {"low": np.greater_equal, "high": np.less_equal, "above": np.greater, "below": np.less}
        for name, compare in fits.items():
            if (end := getattr(self, name)) is not None:
                inside &= compare(x, x.dtype.type(end) if x.dtype.kind == "f" else end)
        return inside

    def check(self, owner: str, name: str, values: Any, rank: int = 0) -> None:
        """Raises a ``ValueError`` that names the first of ``values`` outside the range, and its lane.

        Tracers are not checked.

        >>> Range(above=0).check("CartPole-v1", "masscart", np.array([1.0, -1.0]))
        Traceback (most recent call last):
        ValueError: CartPole-v1: masscart must be above 0, got -1.0 in lane 1
        """
        if not is_concrete(values):
            return
        outside = np.argwhere(~self.contains(values))
        if len(outside):
            at = tuple(outside[0].tolist())
            where = f" in lane {at[0]}" if len(at) > rank else ""
            raise ValueError(f"{owner}: {name} must be {self}, got {np.asarray(values)[at]!s}{where}")

    def __bool__(self) -> bool:
        return self != Range()

    def __str__(self) -> str:
        if self.below == math.inf:
            rest = dataclasses.replace(self, below=None, above=None if self.above == -math.inf else self.above)
            return f"finite and {rest}" if rest else "finite"
        low, high = (b if a is None else a for a, b in ((self.low, self.above), (self.high, self.below)))
        if low is not None and high is not None:
            return f"in {'(' if self.low is None else '['}{_end(low)}, {_end(high)}{')' if self.high is None else ']'}"
        words = {"at least": self.low, "at most": self.high, "above": self.above, "below": self.below}
        return next((f"{word} {_end(end)}" for word, end in words.items() if end is not None), "a number")


def _end(value: float) -> str:
    return str(value) if is_integer(value) else f"{value:g}"


def is_concrete(value: Any) -> bool:
    """Returns whether ``value`` holds numbers that are known now, as opposed to a tracer or a ``ShapeDtypeStruct``."""
    return isinstance(value, bool | int | float | list | tuple) or is_known_array(value)


def is_known_array(value: Any) -> bool:
    """Returns whether ``value`` is an array or a NumPy scalar with known values."""
    return isinstance(value, np.ndarray | np.generic | jax.Array) and not isinstance(value, jax.core.Tracer)


def is_integer(value: Any) -> bool:
    """Returns whether ``value`` is a Python or NumPy integer; booleans are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_real(value: Any) -> bool:
    """Returns whether ``value`` is one Python or NumPy number; booleans are not, NaN and infinities are."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def check_integer(owner: str, name: str, value: Any, minimum: int, maximum: int = INT32_MAX) -> None:
    """Raises a ``ValueError`` unless ``value`` is an integer in [minimum, maximum].

    >>> check_integer("unroll", "num_steps", 2.5, 0)
    Traceback (most recent call last):
    ValueError: unroll: num_steps must be an integer, got 2.5
    """
    if not is_integer(value):
        raise ValueError(f"{owner}: {name} must be an integer, got {value!r}")
    if not minimum <= value <= maximum:
        limit = f"at least {minimum}" if value < minimum else f"at most {maximum}"
        raise ValueError(f"{owner}: {name} must be {limit}, got {value}")


def check_real(owner: str, name: str, value: Any, minimum: float, maximum: float = math.inf) -> None:
    """Raises a ``ValueError`` unless ``value`` is a finite number in [minimum, maximum]."""
    if not (is_real(value) and minimum <= value <= maximum and math.isfinite(value)):
        if math.isfinite(maximum):
            rule = f"in [{minimum}, {maximum}]"
        else:
            rule = f"a finite number of at least {minimum}" if math.isfinite(minimum) else "a finite number"
        raise ValueError(f"{owner}: {name} must be {rule}, got {value!r}")


def check_order(owner: str, low_name: str, low: Any, high_name: str, high: Any, *, strict: bool = False) -> None:
    """Raises a ``ValueError`` unless ``low <= high`` (``low < high`` if ``strict``); tracers are not checked.

    >>> check_order("MountainCar-v0", "start_low", -0.3, "start_high", -0.4)
    Traceback (most recent call last):
    ValueError: MountainCar-v0: start_low must not exceed start_high, got -0.3 and -0.4
    """
    if not (is_concrete(low) and is_concrete(high)):
        return
    low, high = np.broadcast_arrays(low, high)
    wrong = np.argwhere(~(low < high if strict else low <= high))
    if len(wrong):
        at = tuple(wrong[0].tolist())
        where, rule = f" in lane {at[0]}" if at else "", "be below" if strict else "not exceed"
        raise ValueError(f"{owner}: {low_name} must {rule} {high_name}, got {low[at]!s} and {high[at]!s}{where}")


def check_interval(owner: str, low_name: str, low: Any, high_name: str, high: Any) -> None:
    """Raises a ``ValueError`` unless both are finite float32 numbers or arrays, ``low`` below ``high`` everywhere."""
    check_numbers(owner, low_name, low)
    check_numbers(owner, high_name, high)
    with np.errstate(over="ignore"):
        least, most = (np.asarray(x, np.float32) for x in (low, high))
    if not np.all(np.isfinite(least) & np.isfinite(most) & (least < most)):
        raise ValueError(f"{owner}: {low_name} must be below {high_name}, both finite, got {low!r} and {high!r}")


def check_numbers(owner: str, name: str, values: Any) -> None:
    """Raises a ``ValueError`` unless ``values`` is a number or an array of numbers, none of them NaN."""
    with contextlib.suppress(ValueError):  # rows of different lengths
        array = np.asarray(values)
        if array.dtype.kind in "iuf" and not np.any(np.isnan(array)):
            return
    raise ValueError(f"{owner}: {name} must be a number or an array of numbers, got {values!r}")


def check_bool(owner: str, name: str, value: Any) -> None:
    """Raises a ``ValueError`` unless ``value`` is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{owner}: {name} must be True or False, got {value!r}")


def check_choice(owner: str, name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raises a ``ValueError`` unless ``value`` is one of ``choices``."""
    if not any(value is choice or (type(value) is type(choice) and value == choice) for choice in choices):
        *others, last = map(repr, choices)
        rule = f"{', '.join(others)} or {last}" if others else last
        raise ValueError(f"{owner}: {name} must be {rule}, got {value!r}")


def check_mask(owner: str, mask: Any, num_lanes: int) -> None:
    """Raises a ``ValueError`` unless ``mask`` is ``bool[num_lanes]``, at trace time."""
    if not (hasattr(mask, "dtype") or isinstance(mask, bool | int | float)):
        raise ValueError(f"{owner}: mask must be bool[{num_lanes}], got a {type(mask).__name__}")
    if jnp.shape(mask) != (num_lanes,) or jnp.result_type(mask) != jnp.bool_:
        raise ValueError(f"{owner}: mask must be bool[{num_lanes}], got {jnp.result_type(mask)}{list(jnp.shape(mask))}")


def check_kind(owner: str, name: str, value: Any, kind: type | tuple[type, ...], made: str = "") -> None:
    """Raises a ``ValueError`` unless ``value`` is of a class of this library; ``made`` says how to make one."""
    if not isinstance(value, kind):
        word = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
        article = "an" if word[0] in "AEIO" else "a"
        raise ValueError(f"{owner}: {name} must be {article} {word}{made}, got {described(value)}")


def described(value: Any) -> str:
    """Describes a wrong value for an error: the value itself if it is short, else its class."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, np.ndarray | jax.Array | jax.ShapeDtypeStruct):
        return f"{value.dtype}{list(value.shape)}"
    short = isinstance(value, str | bytes | bool | int | float | complex | None | np.generic | os.PathLike)
    article = "a " if isinstance(value, dict | list | tuple | set) else ""
    return reprlib.repr(value) if short else f"{article}{type(value).__name__}"


def check_text(owner: str, name: str, value: Any) -> None:
    """Raises a ``ValueError`` unless ``value`` is text."""
    if not isinstance(value, str):
        raise ValueError(f"{owner}: {name} must be text, got {value!r}")


def check_names(owner: str, name: str, value: Any) -> None:
    """Raises a ``ValueError`` unless ``value`` is a sequence of text, and not one text.

    >>> check_names("Table", "columns", "episodes")
    Traceback (most recent call last):
    ValueError: Table: columns must be a sequence of names, such as ['episodes'], got 'episodes'
    """
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(x, str) for x in value):
        example = f", such as [{value!r}]" if isinstance(value, str) else ""
        raise ValueError(f"{owner}: {name} must be a sequence of names{example}, got {value!r}")


def check_callable(owner: str, name: str, value: Any, arguments: str = "") -> None:
    """Raises a ``ValueError`` unless ``value`` can be called; ``arguments`` describes its arguments."""
    if not callable(value):
        of = f" of {arguments}" if arguments else ""
        raise ValueError(f"{owner}: {name} must be a function{of}, got {value!r}")


def check_path(owner: str, name: str, value: Any) -> pathlib.Path:
    """Returns ``value`` as a path; raises a ``ValueError`` unless it is text or an ``os.PathLike``."""
    with contextlib.suppress(TypeError, ValueError):
        return pathlib.Path(value)
    raise ValueError(f"{owner}: {name} must be a path, got {value!r}")


def check_folder(owner: str, name: str, value: Any) -> pathlib.Path:
    """Returns ``value`` as the path of a folder, which need not exist; raises a ``ValueError`` if it is a file."""
    path = check_path(owner, name, value)
    nearest = next((p for p in (path, *path.absolute().parents) if p.exists()), path)
    if nearest.exists() and not nearest.is_dir():
        raise ValueError(f"{owner}: {name} must be a folder, got {str(path)!r}: {nearest} is a file")
    return path


def check_dtype(owner: str, name: str, value: Any) -> np.dtype:
    """Returns ``value`` as a dtype of booleans, integers or real numbers; raises a ``ValueError`` for anything else."""
    with contextlib.suppress(TypeError):
        if value is not None and is_numeric(np.dtype(value)):
            return np.dtype(value)
    raise ValueError(f"{owner}: {name} must be bool, or a dtype of integers or real numbers, got {value!r}")


def is_numeric(dtype: Any) -> bool:
    """Returns whether a dtype holds booleans, integers or real numbers."""
    return any(jnp.issubdtype(dtype, kind) for kind in (jnp.bool_, jnp.integer, jnp.floating))


def check_array(owner: str, name: str, value: Any) -> None:
    """Raises a ``ValueError`` unless ``value`` is a number or an array of numbers, or the tracer or shape of one."""
    with contextlib.suppress(TypeError, ValueError):  # rows of different lengths
        if is_numeric(value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype):
            return
    raise ValueError(f"{owner}: {name} must be a number or an array of numbers, got {described(value)}")


def check_arrays(owner: str, name: str, tree: Any) -> None:
    """Raises a ``ValueError`` that names the first leaf of ``tree`` that is not a number, an array of numbers or keys.

    Leaves may be the tracers or shapes of arrays.

    >>> check_arrays("unroll", "initial_memory", {"hidden": "zeros"})
    Traceback (most recent call last):
    ValueError: unroll: initial_memory.hidden must be an array of numbers, got 'zeros'
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        dtype, kinds = getattr(leaf, "dtype", None), (jax.dtypes.extended, jnp.bool_, jnp.number)
        if dtype is not None and any(jnp.issubdtype(dtype, kind) for kind in kinds):
            continue
        if isinstance(leaf, bool | int | float | complex):
            continue
        where = ".".join(filter(None, (name, jax.tree_util.keystr(path, simple=True, separator="."))))
        raise ValueError(f"{owner}: {where} must be an array of numbers, got {described(leaf)}")
