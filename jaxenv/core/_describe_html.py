"""The display of an environment in notebooks."""

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv.canvas._html import page, table
from jaxenv.core import _describe
from jaxenv.core.environment import Environment

_MAX_ELEMENTS = 8  # the largest spec whose bounds are listed


def describe_html(env: Environment) -> str:
    """Formats the stack, the specs and the params as HTML. Nothing is compiled or computed on a device."""
    lanes, limit = f"{env.num_envs} lane{'s' * (env.num_envs > 1)}", _describe.time_limit(env)
    facts = (lanes, f"autoreset {env.autoreset}", limit and f"time limit {limit}", _describe.size(env))
    stack = [(layer.title, ", ".join(_describe.additions(layer))) for layer in _describe.described_layers(env)]
    row = env.time_step_spec()
    named = {"observation": row.observation, "action": row.prev_action, "reward": row.reward, "discount": row.discount}
    leaves = jax.tree_util.tree_leaves_with_path(named)
    rows = [(tree.path_name(path), spec.dtype, spec.shape, _values(spec)) for path, spec in leaves]
    params = [(p.name, p.value + " per lane" * p.per_lane, p.unit, p.range) for p in _describe.params(env)]
    return page(
        env.name or repr(env.unwrapped),
        facts,
        table("Stack, outermost first", ("layer", "adds"), stack),
        table("Specs of one lane", ("name", "dtype", "shape", "values"), rows),
        table("Params", ("name", "value", "unit", "allowed"), params),
    )


def _values(spec: specs.Array) -> str:
    """Formats the values that a spec allows: ``0 .. 3``, ``-2 to 2``, or one range per element."""
    if not isinstance(spec, specs.Bounded) or not spec.numel or spec.dtype == bool:
        return ""
    low, high, word = spec.minimum.ravel(), spec.maximum.ravel(), ".." if spec.is_discrete else "to"
    same = (low == low[0]).all() and (high == high[0]).all()
    if same or len(low) > _MAX_ELEMENTS:
        return f"{_number(low.min())} {word} {_number(high.max())}{'' if same else ', by element'}"
    return "\n".join(f"{_number(a)} {word} {_number(b)}" for a, b in zip(low, high, strict=True))


def _number(x: np.generic) -> str:
    return str(x) if np.issubdtype(x.dtype, np.integer) else f"{float(x):g}".replace("inf", "∞")
