"""How many steps a compiled loop takes in one iteration."""

from collections.abc import Callable
from typing import Any

import jax

from jaxenv._util.checks import check_callable, check_integer, is_integer
from jaxenv._util.programs import equations

# Few steps fuse into few kernels; from here on the arithmetic of a step takes longer than its launches.
_MOST_LANES = 131_072
_STEPS = 4


def steps_per_iteration(
    step: Callable[[Any, Any], Any], carry: Any, num_envs: int, *, platform: str | None = None
) -> int:
    """Returns the steps that `jaxenv.unroll`, `fold` and `evaluate` take in one iteration of their loop.

    It is the ``unroll`` of ``jax.lax.scan``. On a GPU, up to 131,072 lanes, it is 4: the launches of a step take longer
    than its arithmetic. It is 1 elsewhere, and where a step has loops inside, such as the contacts of Box2D: these take
    long to compile.

    ``step(carry, None)`` is the body of the scan, which is traced once more on a GPU, and ``carry`` the initial carry,
    arrays or their shapes. ``platform`` is ``"cpu"``, ``"gpu"`` or ``"tpu"``, by default ``jax.default_backend()``.

    >>> steps_per_iteration(lambda x, _: (x + 1, None), 0, 2048, platform="gpu")
    4
    """
    owner = "steps_per_iteration"
    check_callable(owner, "step", step, "(carry, None)")
    check_integer(owner, "num_envs", num_envs, 1)
    if platform not in (None, "cpu", "gpu", "tpu"):
        raise ValueError(f"{owner}: platform must be 'cpu', 'gpu' or 'tpu', got {platform!r}")
    if not limited_by_launches(num_envs, platform):
        return 1
    inside = equations(jax.make_jaxpr(lambda carry: step(carry, None))(carry))
    return 1 if any(equation.primitive.name in ("while", "scan") for equation in inside) else _STEPS


def limited_by_launches(num_envs: Any, platform: str | None = None) -> bool:
    """Returns whether the launches of a step take longer than its arithmetic; False for a symbolic number of lanes."""
    return (platform or jax.default_backend()) == "gpu" and is_integer(num_envs) and num_envs <= _MOST_LANES


def chosen(owner: str, number: int | None, step: Callable[[Any, Any], Any], carry: Any, num_envs: int) -> int:
    """Returns the user's number of steps in an iteration, or what `steps_per_iteration` chooses for ``None``."""
    if number is None:  # exported for any number of lanes, `num_envs` is a symbol
        return steps_per_iteration(step, carry, num_envs) if is_integer(num_envs) else 1
    check_integer(owner, "steps_per_iteration", number, 1)
    return number


def while_loop(
    unfinished: Callable[[Any], jax.Array], step: Callable[[Any, Any], Any], carry: Any, num_steps: int
) -> Any:
    """Acts as ``jax.lax.while_loop`` over ``step(carry, None)``, with ``num_steps`` steps in an iteration.

    A GPU asks the host after every iteration. Steps after ``unfinished`` has become false must change nothing that the
    caller reads.
    """

    def body(carry: Any) -> Any:
        return step(carry, None)[0] if num_steps == 1 else jax.lax.scan(step, carry, length=num_steps, unroll=True)[0]

    return jax.lax.while_loop(unfinished, body, carry)
