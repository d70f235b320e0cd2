"""Judges an environment of any API that runs on JAX, in the words of that API.

``_dialects`` has the loop of each API, ``_trial`` runs it, ``_properties`` judges its rows.
"""

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from jaxenv._util.checks import check_choice, check_integer, check_real
from jaxenv._util.library import default_types
from jaxenv.testing._certify import _properties
from jaxenv.testing._certify._against import matches
from jaxenv.testing._certify._dialects import DIALECTS, Failure, dialect_of, reproduction, source_of
from jaxenv.testing._certify._trial import HostTrial, Trial
from jaxenv.testing._elsewhere import OutOfTime, bounded
from jaxenv.testing.report import Report, Result, Status, Undecided, described, functions_of

PROPERTIES: dict[str, Callable[[Trial], str | None]] = functions_of(_properties)
_LATE = "did not finish in"
T = TypeVar("T")


def certify(
    env: Any,
    api: str | None = None,
    *,
    against: Any = None,
    properties: Sequence[str] | None = None,
    seed: int = 0,
    seconds: float = 60.0,
    progress: Callable[[str], None] = lambda name: None,
) -> Report:
    """Checks an environment of another library in the words of its own API, in about a minute.

    Args:
        env: ``"gymnax:CartPole-v1"``, ``"module:factory"``, a factory without arguments, or an environment; where the
            API has params, also a pair of environment and params.
        api: ``"gymnax"`` (1.x), ``"gymnax0"`` (0.x), ``"brax"``, ``"jumanji"``, ``"pgx"``, ``"jaxmarl"``, ``"navix"``,
            ``"stoa"``, ``"xminigrid"`` or ``"gymnasium"``; by default the API of the base class of ``env``.
        against: a reference, given as ``env`` is, for the property ``matches_reference``: rows from equal states must
            agree where the states of ``env`` fit into the reference, else mean lengths and returns of episodes.
        properties: names of the properties to check, all by default.
        seed: lane ``i`` starts from ``jax.random.PRNGKey(seed + i)``.
        seconds: the time for each property; one that needs more was "not run".
        progress: called with the name of each property before it is checked.

    Returns:
        A `Report`, whose failures have reproductions.

    Raises:
        ValueError: for an unknown id, API or property, or a factory that fails.
        TypeError: for an environment without what its API demands.
        TimeoutError: if making the environment takes longer than ``seconds``.
    """
    if api is not None:
        check_choice("certify", "api", api, tuple(DIALECTS))
    check_integer("certify", "seed", seed, 0)
    check_real("certify", "seconds", seconds, 0, threading.TIMEOUT_MAX)
    checks = dict(PROPERTIES)
    try:
        trial = _in_time(lambda: _trial_of(env, api, seed, seconds), seconds)
        if against is not None:
            reference = _in_time(lambda: _trial_of(against, None, seed, seconds, trial.dialect.api), seconds)
            checks["matches_reference"] = lambda trial: matches(trial, reference)
    except OutOfTime:
        raise TimeoutError(f"certify: the environment was not made in {seconds:g} s") from None
    for name in properties or ():
        check_choice("certify", "properties", name, tuple(checks))
    results: list[Result] = []
    for name, check in checks.items():
        if properties is None or name in ("runs_under_jit", *properties):
            progress(name)
            results.append(_checked(name, check, trial, results))
    return Report(trial.source.name, tuple(results), trial.dialect.api)


def _trial_of(env: Any, api: str | None, seed: int, seconds: float, otherwise: str | None = None) -> Trial:
    source = source_of(env)
    try:
        made = env if source.make is None else source.make()
    except Exception as error:
        raise ValueError(f"certify: {source.name} failed to make an environment: {described(error)}") from error
    pair = isinstance(made, tuple)  # an environment and its params, as gymnax makes them
    one = made[0] if pair else made
    dialect = dialect_of(one, api, otherwise)
    if pair and (len(made) != 2 or "default_params" not in dialect.members):
        rule = f"a tuple of {len(made)}, which the API {dialect.api!r} does not have"
        raise TypeError(f"certify: {source.name} is {rule}")
    if pair and source.make is not None:
        last = source.setup[-1].replace("env = ", "env, params = ", 1)
        source = dataclasses.replace(source, setup=(*source.setup[:-1], last))
        dialect = dataclasses.replace(dialect, prepare="")
    name = type(one).__name__
    try:
        missing = [member for member in dialect.members.split() if not hasattr(one, member)]
        if not missing:
            dialect = dataclasses.replace(dialect, **dialect.adapt(one))
            return (HostTrial if dialect.api == "gymnasium" else Trial)(source, dialect, made, seed, seconds)
    except Exception as error:
        raise ValueError(f"certify: {name} fails before its first reset: {described(error)}") from error
    raise TypeError(f"certify: {name} has no {', '.join(missing)}, which the API {dialect.api!r} demands")


def _checked(name: str, check: Callable[[Trial], str | None], trial: Trial, before: list[Result]) -> Result:
    started = time.perf_counter()

    def result(status: Status, evidence: str = "", **found: Any) -> Result:
        return Result(name, status, " ".join(evidence.split())[:300], time.perf_counter() - started, **found)

    if reason := trial.dialect.reasons.get(name):
        return result(Status.NOT_APPLICABLE, reason)
    if before and before[0].status is not Status.PASSED:
        return result(Status.NOT_RUN, f"{before[0].name} did not pass")
    if name == "restart" and any(r.name == "pure" and r.status is Status.FAILED for r in before):
        return result(Status.NOT_RUN, "pure failed: starts depend on more than their keys")
    # A thread that is still busy may hold the programs that other properties need; the eager one holds none.
    if late := [r.name for r in before if r.evidence.startswith(_LATE) and r.name != "jit_equals_eager"]:
        return result(Status.NOT_RUN, f"{late[0]} did not finish")
    try:
        return result(Status.PASSED, _in_time(lambda: check(trial), trial.seconds) or "")
    except OutOfTime:
        return result(Status.NOT_RUN, f"{_LATE} {trial.seconds:g} s, the time for a property (seconds=, --seconds)")
    except Undecided as skip:
        return result(skip.status, str(skip))
    except Failure as f:
        text = reproduction(trial.source, trial.dialect, trial.seed + f.lane, f)
        where = f"lane {f.lane}, {'at reset' if f.step is None else f'step {f.step}'}"
        found = {"expected": f.expected, "seen": f.seen, "lane": f.lane, "step": f.step, "reproduction": text}
        return result(Status.FAILED, f"{where}: expected {f.expected}; seen {f.seen}", **found)
    except Exception as error:
        return result(Status.NOT_RUN, described(error))


def _in_time(function: Callable[[], T], seconds: float) -> T:
    """Returns the result of a function, computed with JAX's default types."""
    return bounded(default_types()(function), seconds)
