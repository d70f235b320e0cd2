"""The display of an environment in notebooks."""

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv.canvas._html import code, head, page, section, table
from jaxenv.core import _describe
from jaxenv.core.environment import Environment
from jaxenv.tree import Tree

_MAX_ELEMENTS = 8  # the largest spec whose bounds are listed


def describe_html(env: Environment) -> str:
    """Formats the stack, the specs and the params as HTML. Nothing is compiled or computed on a device."""
    lanes = f"{env.num_envs} lane{'s' * (env.num_envs > 1)}"
    limit = _describe.time_limit(env)
    facts = (lanes, f"autoreset {env.autoreset}", limit and f"time limit {limit}", _describe.size(env))
    stack = [
        (code(layer.title), _bytes(layer), "<br>".join(f"{name} {code(s)}" for name, s in layer.specs.items()))
        for layer in _describe.described_layers(env)
    ]
    values = [
        (code(p.name), code(p.value) + (" per lane" if p.per_lane else ""), code(p.unit), code(p.range))
        for p in _describe.params(env)
    ]
    named = (
        ("observation", env.observation_spec()),
        ("action", env.action_spec()),
        ("reward", env.reward_spec()),
        ("discount", env.discount_spec()),
    )
    parts = [
        head(env.name or repr(env.unwrapped), *facts),
        section("Stack, outermost first", table(("layer", "adds state", "shows"), stack)),
        section("Specs of one lane", table(("name", "dtype", "shape", "values"), _spec_rows(*named))),
        section("Params", table(("name", "value", "unit", "allowed"), values)) if values else "",
    ]
    return page(*parts)


def _bytes(layer: _describe.Layer) -> str:
    parts = [
        f"{layer.bytes_per_lane} B per lane" if layer.bytes_per_lane else "",
        f"{layer.bytes_shared} B shared" if layer.bytes_shared else "",
    ]
    return ", ".join(filter(None, parts))


def _spec_rows(*named: tuple[str, Tree]) -> list[tuple[str, ...]]:
    return [
        (code(".".join(filter(None, (name, tree.path_name(path))))), code(spec.dtype), code(spec.shape), _values(spec))
        for name, of in named
        for path, spec in jax.tree_util.tree_leaves_with_path(of)
    ]


def _values(spec: specs.Array) -> str:
    """Formats the values that a spec allows: ``0 .. 3``, ``-2 to 2``, or one range per element."""
    if not isinstance(spec, specs.Bounded) or not spec.numel or spec.dtype == bool:
        return ""
    low, high = spec.minimum.reshape(-1), spec.maximum.reshape(-1)
    word = ".." if spec.is_discrete else "to"
    if (low == low[0]).all() and (high == high[0]).all():
        return code(f"{_number(low[0])} {word} {_number(high[0])}")
    if len(low) <= _MAX_ELEMENTS:
        return "<br>".join(code(f"{_number(a)} {word} {_number(b)}") for a, b in zip(low, high, strict=True))
    return code(f"{_number(low.min())} {word} {_number(high.max())}") + ", by element"


def _number(x: np.generic) -> str:
    return str(x) if np.issubdtype(x.dtype, np.integer) else f"{float(x):g}".replace("inf", "∞")
