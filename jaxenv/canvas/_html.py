"""Builds the HTML that notebooks show, and short text for arrays."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import jax.core
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import is_known_array
from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import is_key

# Colours are translucent or inherited, so that light and dark pages are readable.
_STYLE = (
    ".jaxenv{font-size:13px;color:inherit;max-width:60em}"
    ".jaxenv caption{font-weight:600;text-align:left;color:inherit;padding:.8em 0 .2em}"
    ".jaxenv table,.jaxenv tr{border:0;border-collapse:collapse;background:none!important;color:inherit}"
    ".jaxenv :is(th,td){text-align:left!important;vertical-align:top;padding:2px 18px 2px 0;white-space:pre-wrap;"
    "border:0;border-bottom:1px solid rgba(128,128,128,.25)}.jaxenv th{font-weight:400;opacity:.7}"
    ".jaxenv td{font:12px ui-monospace,Menlo,Consolas,monospace}"
)


def page(title: str, facts: Iterable[str], *tables: str) -> str:
    """Returns the output for one object: its title, facts about it, and tables."""
    head = f"<strong>{escape(title)}</strong> {escape(' · '.join(filter(None, facts)))}"
    return f'<div class="jaxenv"><style>{_STYLE}</style>{head}{"".join(tables)}</div>'


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table; without rows nothing. A column without a single entry is left out."""
    cells = [[escape(str(cell)) for cell in row] for row in rows]
    kept = [i for i in range(len(columns)) if any(row[i] for row in cells)]
    head = "".join(f"<th>{escape(columns[i])}</th>" for i in kept)
    body = "".join(f"<tr>{''.join(f'<td>{row[i]}</td>' for i in kept)}</tr>" for row in cells)
    return f"<table><caption>{escape(title)}</caption><tr>{head}</tr>{body}</table>" if cells else ""


_STEP_TYPES = {0: "FIRST", 1: "MID", 2: "LAST"}
_MAX_LANES = 8  # of a table
_MAX_NUMBERS = 8  # of one lane, shown as numbers
_MAX_SIZE = 2**22  # elements of an array whose range is shown: they may have to be copied from a device
_LONGEST_REPR = 32  # elements of an array that `repr` prints


class Unquoted(str):
    """Text that `repr` shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def short(value: Tree) -> str:
    """Returns the ``repr`` of a tree, with arrays of more than 32 elements written as ``float32[128, 4]``."""

    def leaf(x: Any) -> Any:
        large = is_known_array(x) and x.size > _LONGEST_REPR
        return Unquoted(f"{x.dtype}{list(x.shape)}") if large else x

    return repr(jax.tree.map(leaf, value))


def rows_html(shown: Any) -> str:
    """Shows where in their episodes the lanes of a `TimeStep` or an `Experience` are, the first lanes, all shapes."""
    timestep = getattr(shown, "timestep", shown)
    step_type, discount = (getattr(timestep, name, ()) for name in ("step_type", "discount"))
    shape = np.shape(step_type) if hasattr(step_type, "shape") else None
    names = {0: "one row", 1: "[B] = ", 2: "[T, B] = "}
    facts, lanes = ["" if shape is None else names.get(len(shape), "") + str(list(shape) or "")], ""
    if _readable(step_type) and _readable(discount) and shape == np.shape(discount):
        last, terminated = np.asarray(step_type) == 2, np.asarray(discount) == 0
        facts += [f"{np.sum(last & terminated)} terminated", f"{np.sum(last & ~terminated)} truncated"]
    if _readable(step_type) and np.ndim(step_type) == 1:
        named = {name: getattr(timestep, name) for name in ("step_type", "reward", "discount", "observation")}
        few = {name: x[:_MAX_LANES] for name, x in named.items() if _readable(x) and x.size <= _MAX_NUMBERS * len(x)}
        few["step_type"] = [_STEP_TYPES.get(int(x), x) for x in few["step_type"]]
        with np.printoptions(precision=4, suppress=True):
            cells = zip(range(_MAX_LANES), *(np.asarray(x) for x in few.values()), strict=False)
            lanes = table("First lanes", ("lane", *few), cells)
    leaves = ((tree.path_name(path), x) for path, x in jax.tree_util.tree_leaves_with_path(shown))
    fields = [(name, getattr(x, "dtype", type(x).__name__), getattr(x, "shape", ""), _range(x)) for name, x in leaves]
    return page(type(shown).__name__, facts, lanes, table("Fields", ("name", "dtype", "shape", "values"), fields))


def _readable(x: Any) -> bool:
    """Returns whether an array holds numbers: no tracer, no shape, not donated, all of it on this host."""
    if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer):
        return x.is_fully_addressable and not x.is_deleted()
    return isinstance(x, np.ndarray | np.generic)


def _range(x: Any) -> str:
    """Returns the smallest and the largest number of an array; nothing for one that is large, or not known."""
    if not _readable(x) or is_key(x) or not 0 < x.size <= _MAX_SIZE:
        return ""
    # NumPy has no test for the small floats of other libraries.
    values = np.asarray(x).astype(np.float64) if jnp.issubdtype(x.dtype, jnp.floating) else np.asarray(x)
    low, high = (f"{bound:.5g}" if values.dtype.kind == "f" else f"{bound}" for bound in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"
