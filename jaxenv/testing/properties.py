"""The properties that `check_env` checks, and the check itself."""

import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import jax

from jaxenv import wrappers
from jaxenv._util.checks import check_bool, check_callable, check_integer, check_real
from jaxenv._util.names import did_you_mean
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.random import check_one
from jaxenv.testing._elsewhere import OutOfTime, bounded
from jaxenv.testing._properties import batch, episodes, randomness, structure, transformations, values, wrapping
from jaxenv.testing._subject import Subject
from jaxenv.testing.report import Failure, Report, Result, Status, Undecided, described, functions_of, print_result
from jaxenv.testing.toys import every_kind

PROPERTIES: dict[str, Callable[[Subject], str | None]] = {
    name: check
    for module in (structure, transformations, batch, randomness, values, episodes, wrapping)
    for name, check in functions_of(module).items()
}

# The other checks rely on these and would only crash without them.
_PREREQUISITES = ("same_tree", "leading_lanes", "rows_match_specs")

# The checks of these compile nothing.
TRACED_ONLY = (*_PREREQUISITES, "strict_promotion", "one_trace", "no_callback", "wrong_actions_refused")

# The checks of these step one state several times, or restart some of the lanes. Only a class that opts out of
# ``no_callback`` may opt out of them.
HOST_OPT_OUTS = (
    *("state_round_trip", "jit_equals_eager", "scan_equals_loop", "donation_safe", "step_repeatable"),
    *("inputs_unmodified", "immutable", "stays_finite", "actions_clipped", "specs_at_boundaries"),
)

# The properties that a class may opt out of (``opt_outs``). The reasons: state shared by the batch, films, third-party
# code that starts all episodes alike, uses a key twice, follows the default float dtype or leaves its bounds, functions
# without a gradient, discounts that mark more than the end of an episode, episodes that go on after a limit inside,
# starts of which a level fixes a part, and environments computed on the host.
ALLOWED_OPT_OUTS = frozenset(HOST_OPT_OUTS).union(
    ("x64_invariant", "no_callback", "vmap_equals_loop", "gradients_sound", "sharding_invariant", "restart_is_reset"),
    ("batch_equals_single_lanes", "lane_independent", "nan_contained", "any_number_of_lanes", "lanes_differ"),
    ("episodes_differ", "no_word_reused", "within_specs", "discount_zero_only_at_last", "time_limit_exact"),
)

# "quick": specs and step types, in one rollout per mode.
_QUICK = (
    *("same_tree", "leading_lanes", "rows_match_specs", "within_specs", "stays_finite", "mask_leaves_an_action"),
    *("episode_grammar", "discount_zero_only_at_last", "specs_at_boundaries"),
)


def select_properties(properties: Iterable[str] | None) -> list[str]:
    """Returns the given names without duplicates, in the order of `PROPERTIES`; all for None."""
    if properties is None:
        return list(PROPERTIES)
    if isinstance(properties, str) or not isinstance(properties, Iterable):
        raise ValueError(f"properties must be a sequence of names, got {properties!r}")
    given = [name for chosen in properties for name in (_QUICK if chosen == "quick" else (chosen,))]
    for name in given:
        if name not in PROPERTIES:
            every = f"the properties are {', '.join(PROPERTIES)}, and 'quick' for some of them"
            raise ValueError(f"unknown property {name!r}, {did_you_mean(str(name), PROPERTIES, otherwise=every)}")
    return [name for name in PROPERTIES if name in given]


def check_env(
    env: Environment | Callable[[Environment], Environment],
    *around: Environment,
    key: jax.Array | None = None,
    properties: Iterable[str] | None = None,
    num_steps: int = 64,
    max_seconds: float | None = None,
    raise_on_failure: bool = False,
    progress: Callable[[Result], None] | None = print_result,
) -> Report:
    """Checks an environment, a stack of wrappers around one, or a wrapper for the properties in `PROPERTIES`.

    Most checks read one compiled rollout of a few lanes with random actions. In it, lanes end at different times:
    each lane has its own time limit, and an environment without ``AutoReset`` is wrapped in one. The checks compare
    the environment with the contract, not with a reference: a wrong physical constant passes all of them.

    >>> import jaxenv
    >>> print(jaxenv.testing.check_env(jaxenv.testing.Chain(), properties=["same_tree", "leading_lanes"]))
    <Chain>: 2 passed, 0 failed, 0 not applicable
      same_tree      passed
      leading_lanes  passed
    >>> from jaxenv.wrappers import TimeLimit
    >>> print(jaxenv.testing.check_env(lambda env: TimeLimit(env, 9), properties=["same_tree"]))
    TimeLimit around <Counting>, <Chain>, <RandomEnvironment>, <RandomEnvironment>: 1 passed, 0 failed, 0 not applicable
      same_tree  passed

    Args:
        env: the environment, of any number of lanes; or a wrapper, a class or function that takes an environment and
            returns it wrapped.
        *around: the environments that a wrapper is put around; by default every toy environment (integers, floats,
            trees of spaces, a vector reward) that it accepts. A property fails if it fails around one of them.
        key: one typed key (shape ``()``) from which all keys and actions derive; ``jax.random.key(0)`` by default.
        properties: names of properties; all by default. ``"quick"`` stands for the checks of specs and step types,
            which take seconds. If ``same_tree``, ``leading_lanes`` or ``rows_match_specs`` fails, the properties after
            it are not checked.
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
    envs, target = _subjects(env, around)
    try:
        names = select_properties(properties)
    except ValueError as error:
        raise ValueError(f"check_env: {error}") from None
    check_integer("check_env", "num_steps", num_steps, 16)
    key = jax.random.key(0) if key is None else key
    check_one("check_env", key)
    if max_seconds is not None:
        check_real("check_env", "max_seconds", max_seconds, 0, threading.TIMEOUT_MAX)
    check_bool("check_env", "raise_on_failure", raise_on_failure)
    if progress is not None:
        check_callable("check_env", "progress", progress, "(result)")
    subjects = [Subject(env, key, num_steps) for env in envs]
    results: dict[str, Result] = {}
    out_of_time = 0
    for name in sorted(names, key=lambda name: name not in TRACED_ONLY):
        started = time.perf_counter()
        if broken := [p for p in _PREREQUISITES if p in results and results[p].status is Status.FAILED]:
            result = Result(name, Status.NOT_RUN, f"not checked: {broken[0]} failed")
        elif out_of_time == _MAX_OUT_OF_TIME:
            result = Result(name, Status.NOT_RUN, f"{_MAX_OUT_OF_TIME} other properties ran out of time")
        else:
            try:
                result = bounded(functools.partial(_check_all, name, subjects), max_seconds)
            except OutOfTime as error:
                out_of_time += 1
                result = Result(name, Status.NOT_RUN, str(error))
        results[name] = dataclasses.replace(result, seconds=time.perf_counter() - started)
        if progress is not None:
            progress(results[name])
    report = Report(target, tuple(results[name] for name in names))
    if raise_on_failure:
        report.raise_if_failed()
    return report


_MAX_OUT_OF_TIME = 3  # a computation that hangs may be one that most checks share


def _subjects(env: Any, around: tuple[Environment, ...]) -> tuple[list[Environment], str]:
    """Returns the environments to check, and what the report calls them."""
    if isinstance(env, str) and hasattr(wrappers, env):
        raise ValueError(f"check_env: env must be an environment or a wrapper, got {env!r}: pass jaxenv.wrappers.{env}")
    is_wrapper = issubclass(env, Wrapper) if isinstance(env, type) else callable(env)
    if isinstance(env, Environment) or not is_wrapper:
        check_environment("check_env", env)
        if around:
            raise ValueError(f"check_env: around must be empty unless env is a wrapper, got {around} and {env!r}")
        return [env], repr(env)
    for inner in around:
        check_environment("check_env", inner, "around")
    wrapped, refusals = [env(inner) for inner in around], []
    for inner in () if around else every_kind():
        try:
            wrapped.append(env(inner))
        except ValueError as refusal:
            refusals.append(f"{inner!r}: {refusal}")
    if not wrapped:
        rule = "the wrapper refuses all toy environments, pass one that it accepts"
        raise ValueError(f"check_env: {rule}; {'; '.join(refusals)}")
    inside = [layers(env)[min(1, len(layers(env)) - 1)] for env in wrapped]
    return wrapped, f"{type(wrapped[0]).__name__} around {', '.join(map(repr, inside))}"


def _check_all(name: str, subjects: list[Subject]) -> Result:
    """Returns the first failure, else the first that was not run, else the first pass, else the first other result."""
    results = [(_check(name, subject), subject) for subject in subjects]
    for status in (Status.FAILED, Status.NOT_RUN, Status.PASSED):
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
            return Result(name, Status.OPTED_OUT, reason)
        return Result(name, Status.PASSED, PROPERTIES[name](subject) or "")
    except Undecided as reason:
        return Result(name, reason.status, str(reason))
    except Failure as failure:
        return Result(name, Status.FAILED, str(failure))
    except Exception as error:  # a broken environment may raise anything; the other checks still run
        return Result(name, Status.FAILED, described(error))
