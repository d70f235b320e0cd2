"""Check that an environment has the properties that wrappers, rollouts and learners rely on."""

import dataclasses
import threading
from collections.abc import Callable, Iterable

import jax

from jaxenv._util.checks import check_bool, check_callable, check_integer, check_real
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.wrapper import layers
from jaxenv.random import check_one
from jaxenv.testing._bounded import OutOfTime, bounded
from jaxenv.testing._source import described
from jaxenv.testing._subject import Subject
from jaxenv.testing.properties import ALLOWED_OPT_OUTS, HOST_OPT_OUTS, PROPERTIES, TRACED_ONLY, select_properties
from jaxenv.testing.report import Failure, NotApplicable, Report, Result, Status, print_result


def check_env(
    env: Environment,
    *,
    key: jax.Array | None = None,
    properties: Iterable[str] | None = None,
    num_steps: int = 64,
    max_seconds: float | None = None,
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
        max_seconds: the bound on the seconds of each property. A property that takes longer counts as not run, and its
            thread goes on. After three of them, the others are not run.
        raise_on_failure: whether to raise an ``AssertionError`` with the table of failures.
        progress: called with each `Result` as soon as it is known, first those whose checks compile nothing; by
            default it prints a line on stderr.

    Returns:
        A `Report`, which prints as a table. An exception inside the environment is a failure whose evidence is the
        exception. A property that a class opts out of (``opt_outs``) is listed with its reason, provided that
        `ALLOWED_OPT_OUTS` allows it.
    """
    check_environment("check_env", env)
    arguments = (key, properties, num_steps, max_seconds, raise_on_failure, progress)
    return run_checks("check_env", repr(env), [env], *arguments)


# The other checks rely on these and would only crash without them.
_PREREQUISITES = ("same_tree", "leading_lanes", "rows_match_specs")

# A computation that hangs may be one that most checks share.
_MAX_OUT_OF_TIME = 3


def run_checks(
    caller: str,
    target: str,
    envs: list[Environment],
    key: jax.Array | None,
    properties: Iterable[str] | None,
    num_steps: int,
    max_seconds: float | None,
    raise_on_failure: bool,
    progress: Callable[[Result], None] | None,
) -> Report:
    """Checks ``envs`` with the arguments of `check_env`; errors start with ``caller``."""
    try:
        names = select_properties(properties)
    except ValueError as error:
        raise ValueError(f"{caller}: {error}") from None
    check_integer(caller, "num_steps", num_steps, 16)
    key = jax.random.key(0) if key is None else key
    check_one(caller, key)
    if max_seconds is not None:
        check_real(caller, "max_seconds", max_seconds, 0, threading.TIMEOUT_MAX)
    check_bool(caller, "raise_on_failure", raise_on_failure)
    if progress is not None:
        check_callable(caller, "progress", progress, "(result)")
    subjects = [Subject(env, key, num_steps) for env in envs]
    results: dict[str, Result] = {}
    out_of_time = 0
    for name in sorted(names, key=lambda name: name not in TRACED_ONLY):
        broken = [p for p in _PREREQUISITES if p in results and results[p].status is Status.FAILED]
        result: Result | None
        if broken:
            result = _result(name, Status.NOT_RUN, f"not checked: {broken[0]} failed")
        elif out_of_time == _MAX_OUT_OF_TIME:
            result = _result(name, Status.NOT_RUN, f"{_MAX_OUT_OF_TIME} other properties ran out of time")
        elif (result := _within(max_seconds, name, subjects)) is None:
            out_of_time += 1
            result = _result(name, Status.NOT_RUN, f"it takes longer than {max_seconds:g} s")
        results[name] = result
        if progress is not None:
            progress(result)
    report = Report(target, tuple(results[name] for name in names))
    if raise_on_failure:
        report.raise_if_failed()
    return report


def _within(seconds: float | None, name: str, subjects: list[Subject]) -> Result | None:
    """Returns the result of a property, or None if it takes longer."""
    if seconds is None:
        return _check_all(name, subjects)
    try:
        return bounded(lambda: _check_all(name, subjects), seconds)
    except OutOfTime:
        return None


def _check_all(name: str, subjects: list[Subject]) -> Result:
    """Returns the first failure, else the first pass, else the first other result."""
    results = [(_check(name, subject), subject) for subject in subjects]
    for status in (Status.FAILED, Status.PASSED):
        for result, subject in results:
            if result.status is status:
                around = f"around {layers(subject.original)[-1]!r}: " if len(results) > 1 and result.evidence else ""
                return dataclasses.replace(result, evidence=around + result.evidence)
    return results[0][0]


def _check(name: str, subject: Subject) -> Result:
    try:
        if reason := subject.opt_outs.get(name):
            if name not in ALLOWED_OPT_OUTS:
                raise Failure(f"no class may opt out of it: {reason}")
            if name in HOST_OPT_OUTS and "no_callback" not in subject.opt_outs:
                raise Failure(f"only a class that opts out of no_callback may opt out of it: {reason}")
            return _result(name, Status.OPTED_OUT, reason)
        return _result(name, Status.PASSED, PROPERTIES[name].check(subject) or "")
    except NotApplicable as reason:
        return _result(name, Status.NOT_APPLICABLE, str(reason))
    except Failure as failure:
        return _result(name, Status.FAILED, str(failure))
    except Exception as error:  # a broken environment may raise anything; the other checks still run
        return _result(name, Status.FAILED, described(error))


def _result(name: str, status: Status, evidence: str) -> Result:
    return Result(name, PROPERTIES[name].number, PROPERTIES[name].title, status, evidence)
