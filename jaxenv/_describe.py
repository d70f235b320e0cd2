"""The text that ``Environment.describe`` returns."""

import dataclasses
from typing import TYPE_CHECKING

import jax
import numpy as np

from jaxenv import tree
from jaxenv._checks import is_concrete
from jaxenv._declared import Declared, declared_leaves
from jaxenv.tree import Tree

if TYPE_CHECKING:
    from jaxenv.environment import Environment


def describe(env: "Environment") -> str:
    """The stack as text: one line per level, outermost first, then its params, lanes and specs."""
    levels = env._levels()
    sizes = [state_bytes(level) for level in levels]
    additions = list(map(_additions, levels, [*levels[1:], None], sizes, [*sizes[1:], (0, 0)]))
    width = max(len(level._title()) for level in levels)
    lines = [f"{level._title():<{width}}  {text}".rstrip() for level, text in zip(levels, additions, strict=True)]
    per_lane, shared = sizes[0]
    size = f"{per_lane} bytes of state per lane" + (f" and {shared} shared" if shared else "")
    lines += [*_params(env), f"lanes {env.num_envs}, autoreset {env.autoreset}, {size}"]
    return "\n".join([*lines, f"observation {env.observation_spec()}", f"action {env.action_spec()}"])


def arguments(env: "Environment") -> str:
    """The constructor arguments of one level that differ from their defaults, in parentheses."""
    shown = []
    for field in dataclasses.fields(env):
        value = getattr(env, field.name)
        if field.name in ("num_envs", "name") or dataclasses.is_dataclass(value) or _holds_environments(value):
            continue
        if _is_default(value, field.default):
            continue
        per_lane = np.ndim(value) > field.metadata.get("rank", 0) and not field.metadata.get("static")
        if isinstance(value, np.ndarray) and not value.ndim:
            value = value[()]  # prints float32 in its shortest form
        shown.append(f"{field.name}=<per lane>" if per_lane else f"{field.name}={value!s}")
    return f"({', '.join(shown)})" if shown else ""


def _is_default(value, default) -> bool:
    if not isinstance(value, np.ndarray | jax.Array):
        return type(value) is type(default) and bool(value == default)
    if not is_concrete(value) or default is dataclasses.MISSING or value.shape != np.shape(default):
        return False
    return bool(np.all(np.asarray(value) == np.asarray(default, value.dtype)))


def _params(env: "Environment") -> list[str]:
    """One line per param of the physics: name, value or range of values, unit, and the values allowed."""
    declared = [d for d in declared_leaves(env.unwrapped) if "params." in d.path]
    names = [".".join(part for part in d.path.split(".") if part not in ("env", "params")) for d in declared]
    width = max(map(len, names), default=0)
    lines = []
    for name, d in zip(names, declared, strict=True):
        parts = [_value(d), d.unit, "per lane" if d.per_lane else ""]
        lines.append(f"  {name:<{width}}  {' '.join(filter(None, parts))}" + (f", {d.range}" if d.range else ""))
    return ["params", *lines] if lines else []


def _value(declared: Declared) -> str:
    if not is_concrete(declared.value):
        return "traced"
    value = np.asarray(declared.value)
    if not declared.per_lane:
        return str(value)
    return f"{value.min(axis=0)!s} to {value.max(axis=0)!s}"


def _holds_environments(value) -> bool:
    return isinstance(value, tuple) and bool(value) and all(dataclasses.is_dataclass(x) for x in value)


def state_bytes(env: "Environment") -> tuple[int, int]:
    """Bytes of state per lane, and bytes that all lanes share."""
    state, _ = jax.eval_shape(lambda env, key: env.reset(key), env, jax.random.key(0))
    shared = [x for x in jax.tree.leaves(state, is_leaf=tree.is_shared) if tree.is_shared(x)]
    total, together = (sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(t)) for t in (state, shared))
    return (total - together) // env.num_envs, together


def _additions(
    level: "Environment", inner: "Environment | None", size: tuple[int, int], inner_size: tuple[int, int]
) -> str:
    """What a level adds to the one inside: bytes of state, per lane and shared, and specs that it changes."""
    additions = [
        f"+{own - below} B{suffix}"
        for own, below, suffix in zip(size, inner_size, ("", " shared"), strict=True)
        if own > below
    ]
    for what in ("observation", "action"):
        ours, theirs = (_short(getattr(env, f"{what}_spec")()) if env else "" for env in (level, inner))
        additions += [f"{what} {ours}"] if ours != theirs else []
    return ", ".join(additions)


def _short(spec: Tree) -> str:
    """Dtypes and shapes of a tree of specs: ``{'image': uint8[4, 4, 3]}``."""
    return str(jax.tree.map(lambda s: _Unquoted(f"{s.dtype}{list(s.shape)}"), spec))


class _Unquoted(str):
    __slots__ = ()
    __repr__ = str.__str__
