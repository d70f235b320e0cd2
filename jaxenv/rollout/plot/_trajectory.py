"""Draws rewards, ends and observations of a trajectory."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import is_concrete, is_integer, is_known_array
from jaxenv._util.library import import_library
from jaxenv._util.names import did_you_mean
from jaxenv.rollout.plot import _style
from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import is_key

_MOST = 6  # components drawn by default


def trajectory(
    experience: Any,
    *,
    lanes: int | Sequence[int] = 0,
    observations: Sequence[int | str] | int | str | None = None,
    axis: Any = None,
    figure: Any = None,
) -> Any:
    """Draws the rewards of some lanes over the steps, one panel below for each selected number of the observation.

    A cross marks a termination, a square a truncation, and a ring the first observation of an episode. Lines have a gap
    between episodes. FIRST rows have no reward.

    Args:
        experience: an `jaxenv.rollout.Experience`, or the `TimeStep` of one, ``[T, B]``.
        lanes: the lanes to show, one number or several.
        observations: the numbers to show, by place (``2``) or by name: ``"velocity"`` in a dict of them,
            ``"camera.5"`` for one of an array. By default all of them if there are at most six; ``()`` for none.
        axis: axes of matplotlib, one per panel; by default a new figure.
        figure: a figure of matplotlib to fill.

    >>> import jaxenv
    >>> step_type, zeros = np.array([[0, 0], [1, 1], [2, 1]]), np.zeros((3, 2), np.float32)
    >>> rows = jaxenv.TimeStep(step_type, zeros, discount=1 + zeros, observation={"angle": zeros, "rate": zeros})
    >>> figure = trajectory(rows, lanes=[0, 1], observations="rate")
    >>> [axis.get_ylabel() for axis in figure.axes]
    ['reward', 'rate']
    """
    rows = getattr(experience, "timestep", experience)
    step_type, reward, discount = (_field(rows, name) for name in ("step_type", "reward", "discount"))
    if step_type.ndim != 2 or not step_type.size:
        raise ValueError(f"plot.trajectory: rows must be [T, B], got step_type of shape {step_type.shape}")
    chosen = _chosen_lanes(lanes, step_type.shape[1])
    rewards = [(f"reward {i}" if reward.ndim > 2 else "reward", x) for i, x in enumerate(_components(reward))]
    numbers = _chosen_observations(rows.observation, observations)
    count = len(rewards) + len(numbers)
    figure, axes = _style.axes_of("plot.trajectory", axis, figure, rows=count, size=(7, 1.2 + 1.4 * count), sharex=True)
    shown: set[str] = set()
    for i, (panel, (name, values)) in enumerate(zip(axes, [*rewards, *numbers], strict=True)):
        is_reward = i < len(rewards)
        panel.set_ylabel(name)
        for place, lane in enumerate(chosen):
            column, colour = values[:, lane].astype(np.float64), _style.colour(place)
            line, marks = _marks(step_type[:, lane], discount[:, lane], column, is_reward)
            panel.plot(*line, color=colour, linewidth=1.4, label=f"lane {lane}")
            for kind, at in marks.items():
                if len(at):
                    panel.plot(at, column[at], **{"color": colour, "linestyle": "none", "zorder": 3, **_MARKERS[kind]})
                    shown.add(kind)
        if is_reward:
            _with_zero(panel, values[:, chosen])
    axes[-1].set_xlabel("row")
    handles = axes[0].get_legend_handles_labels()[0] if len(chosen) > 1 else []
    handles += [_proxy(kind, panel) for kind in _MARKERS if kind in shown]
    _style.legend(axes[0], handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=5, borderaxespad=0.2)
    return figure


def _with_zero(panel: Any, values: np.ndarray) -> None:
    low, high = min(0.0, np.nanmin(values)), max(0.0, np.nanmax(values))
    margin = 0.1 * (high - low) if high > low else 0.5
    if np.isfinite(margin):
        panel.set_ylim(low - margin, high + margin)


def _proxy(kind: str, panel: Any) -> Any:
    lines = import_library("matplotlib.lines", _style.INSTALL)
    return lines.Line2D([], [], label=kind, **{"color": _style.ink(panel), "linestyle": "none", **_MARKERS[kind]})


_MARKERS: dict[str, dict[str, Any]] = {
    "first row": {"marker": "o", "markersize": 4, "markerfacecolor": "none"},
    "terminated": {"marker": "X", "markersize": 7, "markeredgecolor": "none", "color": _style.TERMINATED},
    "truncated": {"marker": "s", "markersize": 6, "markeredgecolor": "none", "color": _style.TRUNCATED},
}


def _marks(
    step_type: np.ndarray, discount: np.ndarray, values: np.ndarray, is_reward: bool
) -> tuple[tuple[np.ndarray, np.ndarray], dict[str, np.ndarray]]:
    """Returns the line of one lane, with a gap in front of every episode, and the rows to mark.

    In ``same_step`` mode a LAST row holds the last reward of an episode and the first observation of the next.
    """
    first, last = step_type == 0, step_type == 2
    restarted = last & ~np.append(first[1:], True)
    starts = first | (np.append(False, last[:-1]) if is_reward else restarted)
    line = np.where(first, np.nan, values) if is_reward else values
    at = np.flatnonzero(starts)
    rows = np.arange(len(values), dtype=np.float64)
    ended = last if is_reward else last & ~restarted
    marks = {"terminated": ended & (discount == 0), "truncated": ended & (discount > 0)}
    marks = marks if is_reward else {"first row": starts, **marks}
    return (np.insert(rows, at, at), np.insert(line, at, np.nan)), {k: np.flatnonzero(m) for k, m in marks.items()}


def _field(rows: Any, name: str) -> np.ndarray:
    x = getattr(rows, name, ())
    if isinstance(x, tuple):
        raise ValueError(f"plot.trajectory: the rows have no {name}, pass an Experience or a TimeStep that keeps it")
    return _concrete(x)


def _concrete(x: Any) -> np.ndarray:
    if not is_concrete(x):
        raise ValueError(f"plot.trajectory: rows must hold numbers, got {type(x).__name__}: plot outside of jit")
    return np.asarray(x)


def _components(x: np.ndarray) -> list[np.ndarray]:
    """Splits an array into its numbers per row, ``[T, B]`` each."""
    return list(np.moveaxis(x.reshape(*x.shape[:2], -1), -1, 0))


def _chosen_lanes(lanes: Any, count: int) -> list[int]:
    lanes = np.asarray(lanes).tolist() if is_known_array(lanes) else lanes
    chosen = [lanes] if is_integer(lanes) else lanes
    rule = f"lanes must be one number of the {count} lanes or a sequence of them"
    if not isinstance(chosen, Sequence) or not len(chosen):
        raise ValueError(f"plot.trajectory: {rule}, got {lanes!r}")
    for lane in chosen:
        if not (is_integer(lane) and -count <= lane < count):
            raise ValueError(f"plot.trajectory: {rule}, got {lane!r}")
    return [int(lane) % count for lane in chosen]


def _chosen_observations(observation: Tree, chosen: Any) -> list[tuple[str, np.ndarray]]:
    """Returns labels and values ``[T, B]`` of the chosen numbers."""
    known: dict[str, tuple[str, np.ndarray]] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(observation):
        if is_key(leaf):
            continue
        name, parts = tree.path_name(path), _components(_concrete(leaf))
        for i, values in enumerate(parts):
            label = f"{name or 'observation'} {i}" if len(parts) > 1 else name or "observation"
            known[name if len(parts) == 1 and name else f"{name}.{i}".strip(".")] = label, values
    if chosen is None:
        return list(known.values()) if len(known) <= _MOST else []
    chosen = np.asarray(chosen).tolist() if is_known_array(chosen) else chosen
    several = isinstance(chosen, Sequence) and not isinstance(chosen, str)
    return [_find(known, which) for which in (chosen if several else [chosen])]


def _find(known: dict[str, tuple[str, np.ndarray]], which: int | str) -> tuple[str, np.ndarray]:
    if is_integer(which) and -len(known) <= int(which) < len(known):
        return list(known.values())[int(which)]
    if isinstance(which, str) and which in known:
        return known[which]
    some = ", ".join(list(known)[:_MOST]) + (", ..." if len(known) > _MOST else "")
    hint = did_you_mean(which, known, otherwise=f"they are {some}") if isinstance(which, str) else f"they are {some}"
    raise ValueError(f"plot.trajectory: observations must be among the {len(known)} numbers, got {which!r}: {hint}")
