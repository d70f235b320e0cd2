"""Check that an environment has the properties that wrappers, rollouts and learners rely on."""

from collections.abc import Callable, Iterable

import jax

from jaxenv.core.environment import Environment, check_environment
from jaxenv.testing._run_checks import run_checks
from jaxenv.testing.report import Report, Result, print_result


def check_env(
    env: Environment,
    *,
    key: jax.Array | None = None,
    properties: Iterable[str] | None = None,
    num_steps: int = 64,
    raise_on_failure: bool = False,
    progress: Callable[[Result], None] | None = print_result,
) -> Report:
    """Checks an environment, or a stack of wrappers around one, for the properties in `PROPERTIES`.

    Most checks read one compiled rollout of a few lanes with random actions. In it, lanes end at different times:
    each lane has its own time limit, and an environment without ``AutoReset`` is wrapped in one. The checks compare
    the environment with the contract, not with a reference: a wrong physical constant passes all of them.

    >>> import jaxenv
    >>> report = jaxenv.testing.check_env(
    ...     jaxenv.testing.Chain(), properties=["same_tree", "leading_lanes", "rows_match_specs"]
    ... )
    >>> print(report)
    <Chain>: 3 passed, 0 failed, 0 not applicable
      same_tree          1  passed
      leading_lanes      2  passed
      rows_match_specs   3  passed
    >>> report["same_tree"].title
    'reset and step return the same tree'

    Args:
        env: the environment, of any number of lanes.
        key: one typed key (shape ``()``) from which all keys and actions derive; ``jax.random.key(0)`` by default.
        properties: names of properties; all by default. If ``same_tree``, ``leading_lanes`` or ``rows_match_specs``
            fails, the properties after it are not checked.
        num_steps: number of steps of the shared rollout, at least 16.
        raise_on_failure: whether to raise an ``AssertionError`` with the table of failures.
        progress: called with each `Result` as soon as it is known; by default it prints a line on stderr.

    Returns:
        A `Report`, which prints as a table. An exception inside the environment is a failure whose evidence is the
        exception. A property that a class opts out of (``opt_outs``) is listed with its reason, provided that
        `ALLOWED_OPT_OUTS` allows it.

    Raises:
        ValueError: if ``env`` is not an environment, for an unknown property or too few steps.
        AssertionError: with ``raise_on_failure``, if a property failed.
    """
    check_environment("check_env", env)
    return run_checks("check_env", repr(env), [env], key, properties, num_steps, raise_on_failure, progress)
