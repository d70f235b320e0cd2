"""Converts metrics to plain Python numbers."""

from typing import Any

import jax
import numpy as np

from jaxenv.core._count import Count
from jaxenv.rollout.statistic import Statistic


def to_host(metrics: Any) -> Any:
    """Converts metrics of any shape to Python numbers and lists, in one transfer; NaN becomes ``None``.

    >>> to_host({"steps": np.int32(3), "return_mean": np.array([0.5, np.nan])})
    {'steps': 3, 'return_mean': [0.5, None]}
    """
    structure: Any
    leaves, structure = jax.tree.flatten(jax.device_get(metrics), is_leaf=_is_number)
    plain = structure.unflatten([None if x is None else _plain(np.asarray(x).tolist()) for x in leaves])
    # Flattening sorts the names of a dict.
    return {name: plain[name] for name in metrics} if isinstance(metrics, dict) else plain


def _is_number(node: Any) -> bool:
    return node is None or isinstance(node, Count | Statistic)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(x) for x in value]
    return None if value != value else value
