"""The parts of a stack, the text that ``Environment.describe`` returns, and the display in notebooks."""

import dataclasses
from typing import Any

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import is_concrete
from jaxenv.canvas._html import Unquoted, page, table
from jaxenv.core._declared import Declared, declared_leaves
from jaxenv.core.elements import Composed
from jaxenv.core.environment import Environment
from jaxenv.core.multitask import Multitask
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.tree import Tree

_MAX_ELEMENTS = 8  # the largest spec whose bounds are listed


def parts(env: Environment) -> list[Environment]:
    """Returns the layers of a stack, outermost first, and after a `Composed` its dynamics."""
    found = layers(env)
    return [*found, *parts(found[-1].env)] if isinstance(found[-1], Composed) else found


def title(layer: Environment) -> str:
    """Names a layer with its arguments."""
    if isinstance(layer, Multitask):
        tasks = ", ".join(map(repr, layer.envs))
        return f"Multitask({tasks}, task={layer.task}, agent_chooses={layer.agent_chooses})"
    if isinstance(layer, Composed):
        groups = {group: getattr(layer, group) for group in ("observations", "actions", "rewards", "terminations")}
        names = {
            group: elements.value[0] if group == "actions" else elements.value
            for group, elements in groups.items()
            if elements is not None
        }
        shown = (f"{group}={'/'.join(given)}" for group, given in names.items())
        return f"Composed({', '.join(shown)})"
    return f"{type(layer).__name__ if isinstance(layer, Wrapper) else layer}{arguments(layer)}"


def described_layers(env: Environment) -> list[tuple[str, str]]:
    """Returns the title of each layer of a stack, outermost first, and its additions to the layers inside.

    These are bytes of state, per lane and shared, and the specs of observation and action that it changes.
    """
    every, found = parts(env), []
    sizes, specs = [*map(state_bytes, every), (0, 0)], [*map(_short_specs, every), {}]
    for i, layer in enumerate(every):
        added = zip(sizes[i], sizes[i + 1], ("", " shared"), strict=True)
        adds = [f"+{own - inner} B{suffix}" for own, inner, suffix in added if own > inner]
        adds += [f"{name} {short}" for name, short in specs[i].items() if short != specs[i + 1].get(name)]
        found.append((title(layer), ", ".join(adds)))
    return found


def params(env: Environment) -> list[tuple[str, Declared]]:
    """Returns the params of the physics by name; for a `Multitask` the params of every task."""
    declared = [d for d in declared_leaves(env.unwrapped) if "params." in d.path]
    return [(".".join(part for part in d.path.split(".") if part not in ("env", "params")), d) for d in declared]


def describe(self: Environment) -> str:
    """Describes the stack as text: one line per layer, outermost first, then its params, lanes and specs.

    The line of a layer shows the arguments that differ from their defaults, and its additions to the layer inside:
    bytes of state, per lane and for all lanes together, and a changed observation or action. The line of a param
    shows its value (the smallest and the largest, if lanes differ), its unit and the values that it may take.
    """
    env = self
    stack = described_layers(env)
    width = max(len(title) for title, _ in stack)
    lines = [f"{title:<{width}}  {adds}".rstrip() for title, adds in stack]
    lines += [*_param_lines(env), f"lanes {env.num_envs}, autoreset {env.autoreset}, {size(env)}"]
    return "\n".join([*lines, f"observation {env.observation_spec()}", f"action {env.action_spec()}"])


def time_limit(env: Environment) -> str:
    """Returns the limit of the innermost `TimeLimit` in steps, a range if lanes differ; empty without a limit."""
    # By its name: the wrappers are above this module.
    limits = [d for layer in parts(env) if type(layer).__name__ == "TimeLimit" for d in declared_leaves(layer)]
    found = next((d for d in reversed(limits) if d.path == "duration"), None)
    return "" if found is None else _value(found)


def size(env: Environment) -> str:
    """Formats the bytes of state."""
    per_lane, shared = state_bytes(env)
    return f"{per_lane} bytes of state per lane" + (f" and {shared} shared" if shared else "")


def arguments(env: Environment) -> str:
    """Formats the constructor arguments of one layer that differ from their defaults, in parentheses."""
    shown = []
    for field in dataclasses.fields(env):
        value = getattr(env, field.name)
        members = value if isinstance(value, tuple) and value else (value,)
        if field.name in ("num_envs", "name") or all(map(dataclasses.is_dataclass, members)):
            continue
        if _is_default(value, field.default):
            continue
        per_lane = np.ndim(value) > field.metadata.get("rank", 0) and not field.metadata.get("static")
        if isinstance(value, np.ndarray) and not value.ndim:
            value = value[()]  # prints float32 in its shortest form
        shown.append(f"{field.name}=<per lane>" if per_lane else f"{field.name}={value!s}")
    return f"({', '.join(shown)})" if shown else ""


def _is_default(value: Any, default: Any) -> bool:
    if not isinstance(value, np.ndarray | jax.Array):
        return type(value) is type(default) and bool(value == default)
    if not is_concrete(value) or default is dataclasses.MISSING or value.shape != np.shape(default):
        return False
    return bool(np.all(np.asarray(value) == np.asarray(default, value.dtype)))


def _param_lines(env: Environment) -> list[str]:
    """Formats one line per param of the physics: name, value or range of values, unit, and the values allowed."""
    shown = params(env)
    width = max((len(name) for name, _ in shown), default=0)
    lines = []
    for name, d in shown:
        words = [_value(d), d.unit, "per lane" if d.per_lane else ""]
        lines.append(f"  {name:<{width}}  {' '.join(filter(None, words))}" + (f", {d.range}" if d.range else ""))
    return ["params", *lines] if lines else []


def _value(declared: Declared) -> str:
    if not is_concrete(declared.value):
        return "traced"
    value = np.asarray(declared.value)
    if not declared.per_lane:
        return str(value)
    return f"{value.min(axis=0)!s} to {value.max(axis=0)!s}"


def state_bytes(env: Environment) -> tuple[int, int]:
    """Returns the bytes of state per lane, and bytes that all lanes share."""
    state, _ = env.start_shapes()
    nodes = jax.tree.leaves(state, is_leaf=tree.is_shared)
    shared = [x for x in nodes if tree.is_shared(x) and not isinstance(x, tree.Grouped)]
    total, together = (sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(t)) for t in (state, shared))
    return (total - together) // env._spec_lanes, together


def _short_specs(env: Environment) -> dict[str, str]:
    return {"observation": _short(env.observation_spec()), "action": _short(env.action_spec())}


def _short(spec: Tree) -> str:
    """Formats dtypes and shapes of a tree of specs: ``{'image': uint8[4, 4, 3]}``."""
    return str(jax.tree.map(lambda s: Unquoted(f"{s.dtype}{list(s.shape)}"), spec))


def describe_html(env: Environment) -> str:
    """Formats the stack, the specs and the params as HTML. Nothing is compiled or computed on a device."""
    lanes, limit = f"{env.num_envs} lane{'s' * (env.num_envs > 1)}", time_limit(env)
    facts = (lanes, f"autoreset {env.autoreset}", limit and f"time limit {limit}", size(env))
    row = env.time_step_spec()
    named = {"observation": row.observation, "action": row.prev_action, "reward": row.reward, "discount": row.discount}
    leaves = jax.tree_util.tree_leaves_with_path(named)
    rows = [(tree.path_name(path), spec.dtype, spec.shape, _allowed(spec)) for path, spec in leaves]
    shown = [(n, _value(d) + " per lane" * d.per_lane, d.unit, str(d.range) if d.range else "") for n, d in params(env)]
    return page(
        env.name or repr(env.unwrapped),
        facts,
        table("Stack, outermost first", ("layer", "adds"), described_layers(env)),
        table("Specs of one lane", ("name", "dtype", "shape", "values"), rows),
        table("Params", ("name", "value", "unit", "allowed"), shown),
    )


def _allowed(spec: specs.Array) -> str:
    """Formats the values that a spec allows: ``0 .. 3``, ``-2 to 2``, or one range per element."""
    if not isinstance(spec, specs.Bounded) or not spec.numel or spec.dtype == bool:
        return ""
    low, high, word = spec.minimum.ravel(), spec.maximum.ravel(), ".." if spec.is_discrete else "to"
    same = (low == low[0]).all() and (high == high[0]).all()
    if same or len(low) > _MAX_ELEMENTS:
        return f"{_formatted(low.min())} {word} {_formatted(high.max())}{'' if same else ', by element'}"
    return "\n".join(f"{_formatted(a)} {word} {_formatted(b)}" for a, b in zip(low, high, strict=True))


def _formatted(x: np.generic) -> str:
    return str(x) if np.issubdtype(x.dtype, np.integer) else f"{float(x):g}".replace("inf", "∞")
