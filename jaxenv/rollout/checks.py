"""What the functions of this package ask of their arguments."""

from typing import Any

import numpy as np


def check_whole(name: str, argument: str, value: Any, least: int) -> None:
    """Raises a ``ValueError`` unless ``value`` is a whole number from ``least`` to ``2**31 - 1``.

    >>> check_whole("fold", "num_steps", 2.5, 0)
    Traceback (most recent call last):
    ValueError: fold: num_steps must be a whole number, got 2.5
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name}: {argument} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name}: {argument} must be at least {least}, got {value}")
    if value >= 2**31:
        raise ValueError(f"{name}: {argument} must be at most {2**31 - 1}, got {value}")


def check_sums(metrics: Any, method: str, given: Any, kind: type) -> None:
    """Raises a ``ValueError`` unless ``given`` is a ``MetricsState`` or ``Totals`` as these `Metrics` make them."""
    if not isinstance(given, kind):
        raise ValueError(f"Metrics: {method} takes {kind.__name__}, got {type(given).__name__}")
    sums: Any = getattr(given, "finished", given)
    found = isinstance(sums.starts, tuple), len(sums.entries)
    if found != (metrics.gamma is None, len(metrics.env_info)):
        what = f"{'without' if found[0] else 'with a'} gamma and with {found[1]} env_info names"
        raise ValueError(f"Metrics: {method} got the {kind.__name__} of metrics {what}, these are {metrics}")
