"""Shows rows ``[B]`` and trajectories ``[T, B]`` in notebooks, and writes short text for their arrays."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import is_known_array
from jaxenv.canvas._gif import animated
from jaxenv.canvas._html import BLUE, GOLD, GREY, PURPLE, RED, badge, code, head, note, page, section, table
from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import is_key

_MAX_ROWS = 8  # of a table of lanes
_MAX_STEPS = 1000  # of images to play
_MAX_NUMBERS = 8  # of one lane, shown as numbers
_MAX_SIZE = 2**22  # elements of an array whose range is shown: they may have to be copied from a device
_LONGEST_REPR = 32  # elements of an array that `repr` prints

_STEP_TYPES = (("FIRST", BLUE), ("MID", GREY), ("LAST", PURPLE))
_ENDS = (("terminated", RED), ("truncated", GOLD))


# --- text -------------------------------------------------------------------------------------------------------------


class _Unquoted(str):
    __slots__ = ()
    __repr__ = str.__str__


def short(value: Tree) -> str:
    """Returns the ``repr`` of a tree, with arrays of more than 32 elements written as ``float32[128, 4]``."""

    def leaf(x: Any) -> Any:
        large = is_known_array(x) and x.size > _LONGEST_REPR
        return _Unquoted(_kind(x)) if large else x

    return repr(jax.tree.map(leaf, value))


def _kind(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)}" if hasattr(x, "dtype") else type(x).__name__


# --- rows and trajectories --------------------------------------------------------------------------------------------


def timestep_html(timestep: Any) -> str:
    """Shows a `TimeStep`: the first lanes of rows ``[B]``, the ends in rows ``[T, B]``, and all shapes."""
    shape = np.shape(timestep.step_type) if hasattr(timestep.step_type, "shape") else None
    known = shape is not None and all(map(_readable, (timestep.step_type, timestep.reward, timestep.discount)))
    parts = [head("TimeStep", _axes(shape))]
    if known and shape is not None and len(shape) <= 1:
        parts.append(_lanes(timestep))
    if known and shape is not None and len(shape) == 2:
        parts += _trajectory(timestep)
    return page(*parts, _fields(timestep))


def experience_html(experience: Any) -> str:
    """Shows an `Experience`: its ends, all shapes, and the images of lane 0 as a film if it has any."""
    timestep = experience.timestep
    step_type = getattr(timestep, "step_type", ())
    shape = np.shape(step_type) if hasattr(step_type, "shape") else None
    parts = [head("Experience", _axes(shape))]
    if shape is not None and len(shape) == 2:
        if all(map(_readable, (step_type, timestep.reward, timestep.discount))):
            parts += _trajectory(timestep)
        image = next(filter(_is_images, jax.tree.leaves(timestep.observation)), None)
        if image is not None:
            parts.append(section("Observations of lane 0", _film(image)))
    return page(*parts, _fields(experience))


def _axes(shape: tuple[int, ...] | None) -> str:
    if shape is None:
        return ""
    names = {0: "one row", 1: "[B] = ", 2: "[T, B] = "}.get(len(shape), "")
    return names + (str(list(shape)) if shape else "")


def _readable(x: Any) -> bool:
    """Returns whether an array holds numbers: no tracer, no shape, not donated, all of it on this host."""
    if isinstance(x, jax.core.Tracer) or not isinstance(x, np.ndarray | np.generic | jax.Array | int | float):
        return False
    return not isinstance(x, jax.Array) or (x.is_fully_addressable and not x.is_deleted())


def _fields(rows: Any) -> str:
    """Returns the shape, dtype and range of values of every leaf."""
    cells = []
    for path, x in jax.tree_util.tree_leaves_with_path(rows):
        dtype, shape = (code(getattr(x, name)) if hasattr(x, name) else "" for name in ("dtype", "shape"))
        cells.append((code(tree.path_name(path)), dtype or code(type(x).__name__), shape, code(_range(x))))
    return section("Fields", table(("name", "dtype", "shape", "values"), cells)) if cells else note("no fields")


def _range(x: Any) -> str:
    """Returns the smallest and the largest number of an array, and whether it has non-finite ones."""
    if not _readable(x) or not 0 < np.size(x) <= _MAX_SIZE or is_key(x):
        return ""
    if jnp.issubdtype(jnp.result_type(x), jnp.bool_):
        return f"{100 * np.asarray(x).mean():.3g}% true"
    values = np.asarray(x)
    # NumPy has no test for the small floats of other libraries.
    finite = values[np.isfinite(values if values.dtype.kind in "iufc" else values.astype(np.float32))]
    others = f", {values.size - finite.size} not finite" if finite.size < values.size else ""
    if not finite.size:
        return others[2:]
    low, high = _number(finite.min()), _number(finite.max())
    return (low if low == high else f"{low} to {high}") + others


def _number(x: Any) -> str:
    return f"{float(x):.5g}" if jnp.issubdtype(jnp.result_type(x), jnp.floating) else str(x)


# --- rows [B] ---------------------------------------------------------------------------------------------------------


def _lanes(timestep: Any) -> str:
    batched = np.ndim(timestep.step_type) == 1
    count = timestep.step_type.shape[0] if batched else 1
    number = min(count, _MAX_ROWS)

    def lanes(x: Any) -> Any:
        return np.asarray(x[:number]) if batched else np.asarray(x)[None]

    shown = {name: lanes(getattr(timestep, name)) for name in ("step_type", "reward", "discount")}
    ids = lanes(timestep.env_id) if _readable(timestep.env_id) else np.arange(number)
    small = [("observation", timestep.observation), ("prev_action", timestep.prev_action)]
    values = [(name, lanes(leaf)) for name, value in small if (leaf := _few(value, batched)) is not None]
    rows = []
    for i in range(number):
        step_type, discount = shown["step_type"][i], shown["discount"][i]
        numbers = [code(_numbers(x[i])) for _, x in [("", shown["reward"]), ("", shown["discount"]), *values]]
        rows.append((code(ids[i]), _word(step_type) + _ending(step_type, discount), *numbers))
    more = f"{count - number} more lanes" if count > number else ""
    return table(("lane", "step_type", "reward", "discount", *(name for name, _ in values)), rows) + note(more)


def _few(value: Tree, batched: bool) -> Any:
    """Returns the only array of a tree if it has few numbers per lane, else ``None``."""
    leaves = jax.tree.leaves(value)
    if len(leaves) != 1 or not _readable(leaves[0]) or is_key(leaves[0]) or np.ndim(leaves[0]) < batched:
        return None
    return leaves[0] if np.prod(np.shape(leaves[0])[batched:]) <= _MAX_NUMBERS else None


def _numbers(x: np.ndarray) -> str:
    if not np.ndim(x):
        return _number(x)
    return np.array2string(x, precision=4, suppress_small=True, separator=", ", floatmode="maxprec_equal")


def _word(step_type: Any) -> str:
    known = 0 <= int(step_type) < len(_STEP_TYPES)
    return badge(*_STEP_TYPES[int(step_type)]) if known else code(step_type)


def _ending(step_type: Any, discount: Any) -> str:
    if int(step_type) != 2:
        return ""
    word, colour = _ENDS[int(discount != 0)]
    return " " + badge(word, colour)


# --- trajectories [T, B] ----------------------------------------------------------------------------------------------


def _trajectory(timestep: Any) -> list[str]:
    step_type, reward, discount = (np.asarray(x) for x in (timestep.step_type, timestep.reward, timestep.discount))
    if not step_type.size:
        return []
    last = step_type == 2
    terminated, truncated = last & (discount == 0), last & (discount != 0)
    returns = _returns(step_type, reward)
    counts = ", ".join(f"{mask.sum()} {word}" for mask, (word, _) in zip((terminated, truncated), _ENDS, strict=True))
    facts = [f"{last.sum()} episodes ended: {counts}."]
    if len(returns):
        mean = returns.mean(axis=0)
        facts.append(f"Mean return of the {len(returns)} that also started here: {_numbers(np.asarray(mean))}.")
    return [note(" ".join(facts))]


def _returns(step_type: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """Returns the returns of the episodes that start and end in a trajectory, ``[N]`` (or ``[N, R]``)."""
    # The rewards of an episode follow its FIRST row, or in same_step mode the LAST row before it.
    lane, row = np.nonzero(step_type.T != 1)
    whole = (lane[1:] == lane[:-1]) & (step_type[row[1:], lane[1:]] == 2)
    first, end = (lane[1:] * len(reward) + np.stack([row[:-1], row[1:]]) + 1)[:, whole]
    # Lane after lane, with a row of zeros. Every other sum belongs to the rows between two episodes.
    rewards = np.moveaxis(reward, 0, 1).reshape(-1, *reward.shape[2:]).astype(np.float64)
    rewards = np.concatenate([rewards, np.zeros_like(rewards[:1])])
    return np.add.reduceat(rewards, np.stack([first, end], axis=-1).reshape(-1))[::2] if len(first) else rewards[:0]


# --- images -----------------------------------------------------------------------------------------------------------


def _is_images(x: Any) -> bool:
    """Returns whether an array looks like pictures of at least 5 x 5 pixels.

    They are ``[T, B, H, W]``, ``[T, B, H, W, C]``, or ``[T, B, C, H, W]`` with at most 4 channels or square pictures.
    """
    if not _readable(x) or np.ndim(x) not in (4, 5) or not np.size(x):
        return False
    if min(x.shape[3:] if _channels_first(x) else x.shape[2:4]) < 5:
        return False
    return x.dtype == bool or x.dtype == np.uint8 or jnp.issubdtype(x.dtype, jnp.floating)


def _channels_first(x: Any) -> bool:
    return np.ndim(x) == 5 and (x.shape[2] <= 4 or x.shape[2] < x.shape[3] == x.shape[4])


def _film(x: Any) -> str:
    """Returns the images of lane 0 as a film."""
    images = np.asarray(x[:_MAX_STEPS, 0])
    frames = _colours(np.moveaxis(images, 1, -1) if _channels_first(x) else images)
    height, width = frames.shape[1:3]
    return animated(frames, fps=15, width=width * max(round(160 / height), 1))


# Colours of the channels of an observation that is not a picture, such as the planes of MinAtar.
_CHANNELS = np.array(
    [(58, 120, 201), (236, 133, 55), (47, 158, 151), (239, 189, 67), (138, 103, 189), (220, 76, 72), (85, 168, 96),
     (226, 132, 171), (139, 100, 71), (207, 212, 218)],
    np.float32,
)  # fmt: skip


def _colours(images: np.ndarray) -> np.ndarray:
    """Converts images ``[T, H, W]`` or ``[T, H, W, C]`` to uint8 ``[T, H, W, 3]``.

    One channel is grey and three are colours. More uint8 channels are a stack, whose newest image is shown. Other
    channels are masks, each with a colour.
    """
    picture = images.dtype == np.uint8
    values = np.nan_to_num(images.astype(np.float32))
    low, high = min(float(values.min()), 0.0), float(values.max())
    top = 255.0 if picture and high > 16 else 1.0 if 0.5 < high <= 1 else max(high, 1e-6)
    values = (values - low) / (top - low)
    values = values[..., None] if values.ndim == 3 else values
    channels = values.shape[-1]
    if channels not in (1, 3) and picture:
        values, channels = values[..., -1:], 1
    if channels not in (1, 3):
        colours = np.resize(_CHANNELS, (channels, 3)) / 255
        values = (values[..., None] * colours).max(axis=-2)
    return np.broadcast_to(np.clip(values * 255, 0, 255).round().astype(np.uint8), (*values.shape[:3], 3))
