"""Check an environment: does it keep the promises that everything else builds on?

>>> import jaxenv
>>> report = jaxenv.testing.check_env(jaxenv.testing.Chain(), properties=[1, 2, 3])
>>> print(report)
<Chain>: 3 passed, 0 failed, 0 not applicable
   1  passed  reset and step return the same tree
   2  passed  every leaf leads with the lanes
   3  passed  rows match time_step_spec
"""

import dataclasses
from collections.abc import Callable, Iterable

import jax

from jaxenv.environment import Environment
from jaxenv.testing.checks import (
    batch,
    episodes,
    gradients,
    randomness,
    restarts,
    sharding,
    structure,
    transformations,
    values,
    wrapping,
)
from jaxenv.testing.report import Failure, NotApplicable, Report, Result, Status
from jaxenv.testing.subject import Subject
from jaxenv.testing.toys import every_kind
from jaxenv.wrapper import layers


@dataclasses.dataclass(frozen=True)
class Property:
    """One promise: its short name, and the function that looks whether a `Subject` keeps it.

    The function returns a remark or nothing, or raises `Failure` or `NotApplicable`.
    """

    name: str
    check: Callable[[Subject], str | None]

    @property
    def says(self) -> str:
        """What is promised, in a sentence or a few."""
        return " ".join((self.check.__doc__ or "").split())


# Numbers are names: 56 to 58 are promises of what is built on environments.
PROPERTIES: dict[int, Property] = {
    1: Property("reset and step return the same tree", structure.same_tree),
    2: Property("every leaf leads with the lanes", structure.leading_lanes),
    3: Property("rows match time_step_spec", structure.matches_spec),
    4: Property("x64 changes nothing", structure.unchanged_by_wide_types),
    5: Property("no implicit promotion", structure.strict_types),
    6: Property("lax.cond chooses between reset and step", structure.cond_chooses),
    7: Property("a state continues from a file", structure.continues_from_a_file),
    8: Property("jit equals eager", transformations.jit_equals_eager),
    9: Property("one trace", transformations.one_trace),
    10: Property("scan equals a loop", transformations.scan_equals_loop),
    11: Property("loops carry it", transformations.loops_carry_it),
    12: Property("no callback in compiled code", transformations.no_callbacks),
    13: Property("vmap equals a loop", transformations.vmap_equals_loop),
    14: Property("jax.checkpoint changes nothing", gradients.checkpoint_changes_nothing),
    15: Property("safe to donate", transformations.donation_safe),
    16: Property("gradients are finite and stop at restarts", gradients.gradients_sound),
    17: Property("lanes over several devices", sharding.shards_equal_one_device),
    18: Property("a batch is a stack of single lanes", batch.batch_equals_single_lanes),
    19: Property("lanes may change places", batch.permutation_equivariant),
    20: Property("a lane ignores its neighbours", batch.independent_of_neighbours),
    21: Property("NaN stays in its lane and episode", batch.nan_contained),
    22: Property("any number of lanes", batch.any_number_of_lanes),
    23: Property("more lanes leave the old ones alone", batch.growing_keeps_old_lanes),
    24: Property("wrong actions are refused", batch.wrong_actions_refused),
    25: Property("a number for all equals one per lane", batch.scalars_equal_lanes),
    26: Property("same key, same bits", randomness.same_key_same_bits),
    27: Property("lanes differ", randomness.lanes_differ),
    28: Property("episodes differ", randomness.episodes_differ),
    29: Property("no random word twice", randomness.no_word_twice),
    30: Property("starts follow their distribution", randomness.starts_as_stated),
    31: Property("stepping twice gives the same", randomness.stepping_twice),
    32: Property("inputs are not mutated", randomness.inputs_untouched),
    33: Property("the environment is immutable", randomness.immutable),
    34: Property("importing it is light", structure.imports_lightly),
    35: Property("values within their specs", values.within_spec),
    36: Property("values stay finite", values.stays_finite),
    37: Property("actions out of range are clipped", values.out_of_range_is_clipped),
    38: Property("NaN actions are contained", values.nan_action_contained),
    39: Property("stepping past the end stays finite", values.goes_on_past_the_end),
    40: Property("a mask leaves an action", values.mask_leaves_an_action),
    41: Property("FIRST MID* LAST FIRST", episodes.grammar),
    42: Property("discount 0 only at LAST", episodes.discount_marks_the_end),
    43: Property("TimeLimit is exact and changes nothing else", episodes.time_limit_exact),
    44: Property("both ends on one step", episodes.both_ends_at_once),
    45: Property("a boundary keeps the step's values", episodes.boundary_keeps_the_step),
    46: Property("modes and strategies agree", episodes.modes_agree),
    47: Property("one-step episodes", episodes.one_step_episodes),
    48: Property("wrappers own what they change", wrapping.owns_what_it_changes),
    49: Property("a restart is a reset", restarts.restart_is_a_reset),
    50: Property("lane state on either side of AutoReset", restarts.either_side_of_restarts),
    51: Property("specs hold at resets and ends", wrapping.specs_hold_at_ends),
    52: Property("identity settings change nothing", wrapping.identity_settings),
    53: Property("statistics equal a recomputation", wrapping.statistics_exact),
    54: Property("repeats stop at the end", wrapping.repeats_stop_at_the_end),
    55: Property("two short unrolls are a long one", transformations.unroll_in_halves),
}

# Which promises a class may declare not to make (``opt_outs``), and what for. All others are everybody's.
ALLOWED_OPT_OUTS: dict[int, str] = {
    4: "code of others that follows the default float type",
    12: "environments that the host computes",
    13: "environments that the host computes",
    16: "functions without a gradient",
    17: "state of the whole batch, or loops of others that run until the last lane is through",
    18: "state of the whole batch",
    19: "state of the whole batch",
    20: "state of the whole batch",
    21: "state of the whole batch",
    22: "state of the whole batch",
    23: "state of the whole batch",
    27: "code of others that starts all episodes alike",
    28: "code of others that starts all episodes alike",
    35: "code of others whose bounds do not hold",
    42: "discounts that mark more than ends",
}

# What these say all others take for granted: without them they would only crash.
_GROUND = (1, 2, 3)


def check_env(
    env: Environment,
    *,
    key: jax.Array | None = None,
    properties: Iterable[int] | None = None,
    num_steps: int = 64,
    raise_on_failure: bool = False,
    progress: Callable[[Result], None] | None = None,
) -> Report:
    """Looks whether an environment, or a stack of wrappers around one, keeps the promises of `PROPERTIES`.

    Most of them are read off one compiled rollout of a few lanes that end at different times, with random actions: an
    environment without ``AutoReset`` is put into one for it, and time limits of the lanes' own get the lanes out of
    phase. What is seen is agreement with the contract, not correctness: a wrong physical constant passes everything.

    Args:
        env: the environment, of any number of lanes.
        key: one typed key (shape ``()``), where keys and actions come from; ``jax.random.key(0)`` by default.
        properties: their numbers; all by default. If one of 1 to 3 fails, the others are not looked at.
        num_steps: length of the shared rollout, at least 16.
        raise_on_failure: raise an ``AssertionError`` with the table of failures.
        progress: called with every `Result` as it comes.

    Returns:
        A `Report`, which prints as a table. An exception inside the environment is a failure, with the exception for
        evidence. What a class declares not to promise (``opt_outs``) is listed with its reason, if `ALLOWED_OPT_OUTS`
        has it.

    Raises:
        ValueError: for an unknown property or too few steps.
        AssertionError: with ``raise_on_failure``, if a property failed.
    """
    return _check("check_env", repr(env), [env], key, properties, num_steps, raise_on_failure, progress)


def check_wrapper(
    wrapper: Callable[[Environment], Environment],
    *envs: Environment,
    key: jax.Array | None = None,
    properties: Iterable[int] | None = None,
    num_steps: int = 64,
    raise_on_failure: bool = False,
    progress: Callable[[Result], None] | None = None,
) -> Report:
    """Looks whether a wrapper keeps the promises of `PROPERTIES` around each of some environments.

    >>> import jaxenv
    >>> from jaxenv.wrappers import TimeLimit
    >>> print(jaxenv.testing.check_wrapper(lambda env: TimeLimit(env, 9), properties=[1, 2]))
    TimeLimit around <Counting>, <Chain>, <RandomEnvironment>, <RandomEnvironment>: 2 passed, 0 failed, 0 not applicable
       1  passed  reset and step return the same tree
       2  passed  every leaf leads with the lanes

    Args:
        wrapper: a class or function that takes an environment and returns it wrapped; bind other arguments.
        *envs: environments without the wrapper. By default the toys (integers, floats, trees of spaces, a vector
            reward), those that the wrapper refuses left out.
        key: as in `check_env`, as are ``properties``, ``num_steps``, ``raise_on_failure`` and ``progress``.
        properties: see ``key``.
        num_steps: see ``key``.
        raise_on_failure: see ``key``.
        progress: see ``key``.

    Returns:
        One `Report`: a property failed if it did around any of the environments, which the evidence names.

    Raises:
        ValueError: for an unknown property, too few steps, or a wrapper that refuses all toys.
        AssertionError: with ``raise_on_failure``, if a property failed.
    """
    wrapped = [wrapper(env) for env in envs] or _fitting(wrapper)
    inner = [layers(env)[1] if len(layers(env)) > 1 else env for env in wrapped]
    target = f"{type(wrapped[0]).__name__} around {', '.join(map(repr, inner))}"
    return _check("check_wrapper", target, wrapped, key, properties, num_steps, raise_on_failure, progress)


def _fitting(wrapper: Callable[[Environment], Environment]) -> list[Environment]:
    """The toys inside the wrapper, without those that it refuses."""
    fitting, refusals = [], []
    for env in every_kind():
        try:
            fitting.append(wrapper(env))
        except ValueError as refusal:
            refusals.append(f"{env!r}: {refusal}")
    if not fitting:
        raise ValueError(f"check_wrapper: the wrapper refuses all toys, give it an environment; {'; '.join(refusals)}")
    return fitting


def _check(owner, target, envs, key, properties, num_steps, raise_on_failure, progress) -> Report:
    numbers = sorted(PROPERTIES if properties is None else set(properties))
    if unknown := [n for n in numbers if n not in PROPERTIES]:
        raise ValueError(f"{owner}: no property {unknown[0]}, the properties are {', '.join(map(str, PROPERTIES))}")
    if num_steps < 16:
        raise ValueError(f"{owner}: num_steps must be at least 16, got {num_steps}")
    key = jax.random.key(0) if key is None else key
    subjects = [Subject(env, key, num_steps) for env in envs]
    results: list[Result] = []
    for number in numbers:
        broken = [r.number for r in results if r.number in _GROUND and r.status is Status.FAILED]
        results.append(_skipped(number, broken[0]) if broken else _examined_all(number, subjects))
        if progress is not None:
            progress(results[-1])
    report = Report(target, tuple(results))
    if raise_on_failure:
        report.raise_if_failed()
    return report


def _skipped(number: int, broken: int) -> Result:
    reason = f"not looked at: {broken} failed"
    return Result(number, PROPERTIES[number].name, Status.NOT_APPLICABLE, reason)


def _examined_all(number: int, subjects: list[Subject]) -> Result:
    """The worst that was seen: a failure, else a pass, else the first reason for neither."""
    results = [(_examined(number, subject), subject) for subject in subjects]
    for status in (Status.FAILED, Status.PASSED):
        for result, subject in results:
            if result.status is status:
                around = f"around {layers(subject.env)[-1]!r}: " if len(results) > 1 and result.evidence else ""
                return dataclasses.replace(result, evidence=around + result.evidence)
    return results[0][0]


def _examined(number: int, subject: Subject) -> Result:
    wanted = PROPERTIES[number]
    try:
        if reason := subject.opt_outs.get(number):
            if number not in ALLOWED_OPT_OUTS:
                raise Failure(f"nobody may opt out of it: {reason}")
            return Result(number, wanted.name, Status.OPTED_OUT, reason)
        status, evidence = Status.PASSED, wanted.check(subject) or ""
    except NotApplicable as reason:
        status, evidence = Status.NOT_APPLICABLE, str(reason)
    except Failure as failure:
        status, evidence = Status.FAILED, str(failure)
    except Exception as error:  # whatever a broken environment does, the other checks go on
        status, evidence = Status.FAILED, f"{type(error).__name__}: {error}"
    return Result(number, wanted.name, status, evidence)
