"""Checks of arguments that many modules share. Each error names the owner, the argument, the rule and the value."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_INT32_MAX = 2**31 - 1


def is_concrete(value: Any) -> bool:
    """Whether ``value`` holds numbers that are known now, as opposed to a tracer or a ``ShapeDtypeStruct``."""
    return isinstance(value, bool | int | float | np.generic | np.ndarray | list | tuple) or (
        isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
    )


def is_integer(value: Any) -> bool:
    """Whether ``value`` is a Python or NumPy integer; booleans are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_real(value: Any) -> bool:
    """Whether ``value`` is one Python or NumPy number; booleans are not, NaN and infinities are."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def check_integer(owner: str, name: str, value: Any, minimum: int, maximum: int = _INT32_MAX) -> None:
    """Raises a ``ValueError`` unless ``value`` is an integer in [minimum, maximum].

    >>> check_integer("unroll", "num_steps", 2.5, 0)
    Traceback (most recent call last):
    ValueError: unroll: num_steps must be an integer, got 2.5
    """
    if not is_integer(value):
        raise ValueError(f"{owner}: {name} must be an integer, got {value!r}")
    if value < minimum:
        raise ValueError(f"{owner}: {name} must be at least {minimum}, got {value}")
    if value > maximum:
        raise ValueError(f"{owner}: {name} must be at most {maximum}, got {value}")


def check_real(owner: str, name: str, value: Any, minimum: float, maximum: float = math.inf) -> None:
    """Raises a ``ValueError`` unless ``value`` is a finite number in [minimum, maximum].

    >>> check_real("Metrics", "gamma", 1.5, 0, 1)
    Traceback (most recent call last):
    ValueError: Metrics: gamma must be in [0, 1], got 1.5
    """
    if not (is_real(value) and minimum <= value <= maximum and math.isfinite(value)):
        if math.isfinite(maximum):
            rule = f"in [{minimum}, {maximum}]"
        else:
            rule = f"a finite number of at least {minimum}" if math.isfinite(minimum) else "a finite number"
        raise ValueError(f"{owner}: {name} must be {rule}, got {value!r}")


def check_range(owner: str, name: str, values: Any, minimum: float, maximum: float = math.inf) -> None:
    """Raises a ``ValueError`` unless all of ``values``, a number or an array, lie in [minimum, maximum].

    Tracers are not checked.

    >>> check_range("FourRooms", "fail_prob", np.array([0.5, 1.5]), 0, 1)
    Traceback (most recent call last):
    ValueError: FourRooms: fail_prob must be in [0, 1], got [0.5 1.5]
    """
    if is_concrete(values) and not np.all((np.asarray(values) >= minimum) & (np.asarray(values) <= maximum)):
        rule = f"be in [{minimum}, {maximum}]" if math.isfinite(maximum) else f"be at least {minimum}"
        raise ValueError(f"{owner}: {name} must {rule}, got {values}")


def check_positive(owner: str, name: str, values: Any) -> None:
    """Raises a ``ValueError`` unless all of ``values``, a number or an array, are positive; tracers are not checked."""
    if is_concrete(values) and not np.all(np.asarray(values) > 0):
        raise ValueError(f"{owner}: {name} must be positive, got {values}")


def check_bool(owner: str, name: str, value: Any) -> None:
    """Raises a ``ValueError`` unless ``value`` is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{owner}: {name} must be True or False, got {value!r}")


def check_choice(owner: str, name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raises a ``ValueError`` unless ``value`` is one of ``choices``.

    >>> check_choice("make", "mode", "test", ("train", "eval"))
    Traceback (most recent call last):
    ValueError: make: mode must be 'train' or 'eval', got 'test'
    """
    if not any(value is choice or (type(value) is type(choice) and value == choice) for choice in choices):
        *others, last = map(repr, choices)
        rule = f"{', '.join(others)} or {last}" if others else last
        raise ValueError(f"{owner}: {name} must be {rule}, got {value!r}")


def check_mask(owner: str, mask: Any, num_lanes: int) -> None:
    """Raises a ``ValueError`` unless ``mask`` is ``bool[num_lanes]``, at trace time."""
    if jnp.shape(mask) != (num_lanes,) or jnp.result_type(mask) != jnp.bool_:
        raise ValueError(f"{owner}: mask must be bool[{num_lanes}], got {jnp.result_type(mask)}{list(jnp.shape(mask))}")
