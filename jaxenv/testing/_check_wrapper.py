"""Check that a wrapper keeps the properties of the environments that it wraps."""

from collections.abc import Callable, Iterable

import jax

from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.wrapper import layers
from jaxenv.testing._check_env import run_checks
from jaxenv.testing._random_environment import every_kind
from jaxenv.testing.report import Report, Result, print_result


def check_wrapper(
    wrapper: Callable[[Environment], Environment],
    *envs: Environment,
    key: jax.Array | None = None,
    properties: Iterable[str] | None = None,
    num_steps: int = 64,
    max_seconds: float | None = None,
    raise_on_failure: bool = False,
    progress: Callable[[Result], None] | None = print_result,
) -> Report:
    """Checks a wrapper for the properties in `PROPERTIES` around each of several environments.

    >>> import jaxenv
    >>> from jaxenv.wrappers import TimeLimit
    >>> print(jaxenv.testing.check_wrapper(lambda env: TimeLimit(env, 9), properties=["same_tree", "leading_lanes"]))
    TimeLimit around <Counting>, <Chain>, <RandomEnvironment>, <RandomEnvironment>: 2 passed, 0 failed, 0 not applicable
      same_tree       1  passed
      leading_lanes   2  passed

    Args:
        wrapper: a class or function that takes an environment and returns it wrapped; bind other arguments.
        *envs: environments without the wrapper. By default, every toy environment (integers, floats, trees of spaces,
            a vector reward) that the wrapper accepts.
        key: this and the other arguments as in `check_env`.
        properties: names of properties.
        num_steps: number of steps.
        max_seconds: the bound on the seconds of each property, in all environments together.
        raise_on_failure: whether to raise an ``AssertionError``.
        progress: called with each `Result`.

    Returns:
        One `Report`. A property fails if it fails around any of the environments; the evidence names that environment.
    """
    if not callable(wrapper) or isinstance(wrapper, Environment):
        hint = f": pass jaxenv.wrappers.{wrapper}" if isinstance(wrapper, str) else ""
        raise ValueError(f"check_wrapper: wrapper must be a class or function that wraps, got {wrapper!r}{hint}")
    for env in envs:
        check_environment("check_wrapper", env)
    wrapped = [wrapper(env) for env in envs] or _around_toys(wrapper)
    inner = [layers(env)[1] if len(layers(env)) > 1 else env for env in wrapped]
    target = f"{type(wrapped[0]).__name__} around {', '.join(map(repr, inner))}"
    arguments = (key, properties, num_steps, max_seconds, raise_on_failure, progress)
    return run_checks("check_wrapper", target, wrapped, *arguments)


def _around_toys(wrapper: Callable[[Environment], Environment]) -> list[Environment]:
    """Puts the wrapper around every toy environment that it accepts."""
    wrapped, refusals = [], []
    for env in every_kind():
        try:
            wrapped.append(wrapper(env))
        except ValueError as refusal:
            refusals.append(f"{env!r}: {refusal}")
    if not wrapped:
        rule = "the wrapper refuses all toy environments, pass one that it accepts"
        raise ValueError(f"check_wrapper: {rule}; {'; '.join(refusals)}")
    return wrapped
