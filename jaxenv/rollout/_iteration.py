"""How many steps a compiled loop takes in one iteration."""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend import core as jex

from jaxenv._util.checks import check_callable, check_integer

# Few steps fuse into few kernels; from here on the arithmetic of a step takes longer than its launches.
_MOST_LANES = 131_072
_STEPS = 4


def steps_per_iteration(
    step: Callable[[Any, Any], Any], carry: Any, num_envs: int, *, platform: str | None = None
) -> int:
    """Returns the ``unroll`` that `jaxenv.unroll` and `jaxenv.rollout.fold` choose for a ``jax.lax.scan`` of steps.

    On a GPU, up to 131,072 lanes, it is 4: the launches of a step take longer than its arithmetic. It is 1 elsewhere,
    and where a step has loops inside, such as the contacts of Box2D: these take long to compile.

    Args:
        step: the body of the scan, ``step(carry, None)``; on a GPU it is traced once more.
        carry: the initial carry, arrays or their shapes.
        num_envs: the number of lanes.
        platform: ``"cpu"``, ``"gpu"`` or ``"tpu"``; by default the platform of JAX's default device.

    Raises:
        ValueError: if ``platform`` is another one, or ``num_envs`` is not an integer of at least 1.

    >>> steps_per_iteration(lambda x, _: (x + 1, None), 0, 2048, platform="gpu")
    4
    """
    owner = "steps_per_iteration"
    check_callable(owner, "step", step, "(carry, None)")
    check_integer(owner, "num_envs", num_envs, 1)
    platform = jax.default_backend() if platform is None else platform
    if platform not in ("cpu", "gpu", "tpu"):
        raise ValueError(f"{owner}: platform must be 'cpu', 'gpu' or 'tpu', got {platform!r}")
    if platform != "gpu" or num_envs > _MOST_LANES:
        return 1
    return 1 if _has_loop(jax.make_jaxpr(lambda carry: step(carry, None))(carry).jaxpr) else _STEPS


def chosen(owner: str, number: int | None, step: Callable[[Any, Any], Any], carry: Any, num_envs: int) -> int:
    """Returns the user's number of steps in an iteration, or what `steps_per_iteration` chooses for ``None``."""
    if number is not None:
        check_integer(owner, "steps_per_iteration", number, 1)
        return number
    # Another backend, such as METAL, has no choice of its own.
    return steps_per_iteration(step, carry, num_envs) if jax.default_backend() == "gpu" else 1


def _has_loop(jaxpr: jex.Jaxpr) -> bool:
    inner = [p for e in jaxpr.eqns for p in jax.tree.leaves(list(e.params.values()), is_leaf=_is_jaxpr)]
    return any(e.primitive.name in ("while", "scan") for e in jaxpr.eqns) or any(
        _has_loop(getattr(p, "jaxpr", p)) for p in inner if _is_jaxpr(p)
    )


def _is_jaxpr(x: Any) -> bool:
    return isinstance(x, jex.Jaxpr | jex.ClosedJaxpr)
