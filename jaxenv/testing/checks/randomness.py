"""Where random numbers come from, and that running an environment changes nothing but what it returns."""

import copy
import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.environment import Environment
from jaxenv.task import Task
from jaxenv.testing.compare import host, is_key, require_equal
from jaxenv.testing.report import Failure, NotApplicable
from jaxenv.testing.subject import (
    LANES,
    Rollout,
    Subject,
    action_shapes,
    attributes,
    carries,
    sample_actions,
    shapes,
    without_restarts,
)
from jaxenv.tree import Tree
from jaxenv.wrapper import Wrapper, layers
from jaxenv.wrappers import FixedResetKey


def reproducible(subject: Subject) -> None:
    """The same keys and actions give the same bits again, and tracing again gives the same code."""
    again = subject.roll(subject.keys[0], subject.actions[0])
    made = subject.rollout
    require_equal((made.states, made.rows), (again.states, again.rows), "one run and the next")
    env = subject.given
    state = shapes(env)[0][0]
    for name, given in (("reset", (subject.key,)), ("step", (state, action_shapes(env)))):
        one, other = (jax.make_jaxpr(lambda env, *a, n=name: getattr(env, n)(*a))(env, *given) for _ in range(2))
        if str(one) != str(other):
            raise Failure(f"{name} traced twice gives different code: something outside its arguments enters")
        require_equal(one.consts, other.consts, f"constants of {name} traced twice", axes=())


def lanes_differ(subject: Subject) -> None:
    """Lanes with different keys start differently, where the start is drawn at all."""
    _require_random_start(subject)
    for made in (subject.rollout, subject.other_rollout):
        if any(np.any(x[0] != x[0, :1]) for x in _numbers(subject.task(made))):
            return
    raise Failure(f"all {LANES} lanes start alike, with two sets of keys")


def episodes_differ(subject: Subject) -> str:
    """Every lane and episode has stream keys of its own, and a start that is drawn varies over episodes."""
    made = subject.rollout
    clock = subject.clock(made)
    named = np.stack([np.asarray(x).ravel() for x in (clock.env_id, clock.episode, *clock.key)], axis=-1)
    episodes, streams = (len(np.unique(named[:, columns], axis=0)) for columns in ([0, 1], [1, 2, 3]))
    if episodes != streams:
        raise Failure(f"{episodes} episodes of all lanes share {streams} stream keys")
    expected = LANES + int(np.sum(made.ends[:-1]))
    if subject.stack.autoreset == "next_step" and episodes != expected:
        raise Failure(f"{expected} episodes were begun, the clock counts {episodes}")
    _require_random_start(subject)
    if any(isinstance(layer, FixedResetKey) for layer in layers(subject.stack)):
        raise NotApplicable("FixedResetKey starts every episode alike")
    lane = _busiest_lane(subject, made)
    begins = np.asarray(clock.step)[:, lane] == 0
    starts = [x[begins, lane] for x in _numbers(subject.task(made))]
    if not any(np.any(x != x[:1]) for x in starts):
        if carries(subject.stack):
            raise NotApplicable("carry keeps what an episode starts with")
        raise Failure(f"lane {lane} starts all its {begins.sum()} episodes alike, from {starts[0][0]}")
    return f"{begins.sum()} starts of lane {lane}"


def _busiest_lane(subject: Subject, made: Rollout) -> int:
    episode = np.asarray(subject.clock(made).episode)
    lane = int(np.argmax(episode[-1]))
    if episode[-1, lane] < 3:
        raise NotApplicable(f"no lane begins more than {episode[-1, lane] + 1} episodes")
    return lane


def no_word_reused(subject: Subject) -> str:
    """No random word is consumed twice, by two lanes, episodes, steps or consumers, and JAX keys are used once.

    Keys are typed: raw ones are refused, and a batch of two keys is a batch.
    """
    _require_typed_keys(subject)
    if any(isinstance(layer, FixedResetKey) for layer in layers(subject.stack)):
        raise NotApplicable("FixedResetKey starts every episode alike")
    # Restarts by AutoReset look at the next start at every step and mostly drop it: here they are called for.
    env = _without_repeats(without_restarts(subject.stack))
    keys, action = subject.keys[0], jax.tree.map(lambda x: x[0], sample_actions(env, subject.key, 1))
    with jax.debug_key_reuse(True), jax.disable_jit(), _drawn() as log:
        state, _ = env.reset(keys)
        for _ in range(2):
            state, _ = env.step(state, action)
        clock = env.clock(state)
        state, _ = env.begin(clock.key, clock.env_id, clock.episode + 1, state)
        env.step(state, action)
    seen: dict[bytes, str] = {}
    for consumer, words in log:
        for lane, word in enumerate(words):
            name = f"lane {lane}, episode {word[2]}, step {word[3]}, {consumer}"
            if (earlier := seen.setdefault(word.tobytes(), name)) is not name:
                raise Failure(f"one block of random words is drawn twice: {earlier}, and {name}")
    if not seen:
        raise NotApplicable("nothing is drawn")
    return f"{len(seen)} blocks of words"


def _without_repeats(env: Environment) -> Environment:
    """The stack without wrappers that take several steps at once: some of those are taken for nothing."""
    if not isinstance(env, Wrapper):
        return env
    inside = _without_repeats(env.env)
    return inside if env.multi_step else tree.rebuild(env, env=inside)


@contextmanager
def _drawn() -> Iterator[list[tuple[str, np.ndarray]]]:
    """Notes every block of random words that is drawn: who drew it, and what names it, uint32 ``[lanes, 4]``."""
    log: list[tuple[str, np.ndarray]] = []
    block = random._block

    def noted(stream, number):
        tweaked = dataclasses.replace(
            stream, k0=stream.k0 + (jnp.asarray(number, jnp.uint32) * np.uint32(random._GOLDEN))
        )
        named = (tweaked.k0, stream.k1, stream.c0, stream.c1)
        if not any(isinstance(x, jax.core.Tracer) for x in named):
            words = np.stack([x.ravel() for x in np.broadcast_arrays(*named)], axis=-1)
            log.append((_consumer(), words))
        return block(stream, number)

    with mock.patch.object(random, "_block", noted):
        yield log


def _consumer() -> str:
    """The function that asks for random numbers: the innermost one outside of the generator and of specs."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals["__name__"] in (__name__, "jaxenv.random", "jaxenv.specs", "jaxenv.tree"):
        frame = frame.f_back
    return f"{frame.f_code.co_qualname}, line {frame.f_lineno}"


def _require_typed_keys(subject: Subject) -> None:
    env = subject.of_lanes(2)
    state, _ = jax.eval_shape(lambda env, keys: env.reset(keys), env, subject.keys[0][:2])
    if env.clock(state).env_id.shape != (2,):
        raise Failure(f"reset takes two keys for {env.clock(state).env_id.shape[0]} lanes")
    try:
        jax.eval_shape(lambda env, key: env.reset(key), env, jax.ShapeDtypeStruct((2,), jnp.uint32))
    except (TypeError, ValueError):
        return
    raise Failure("reset takes a raw uint32 key, which cannot be told from numbers")


def starts_distribution(subject: Subject) -> str:
    """The starts of ten thousand lanes follow one distribution in every episode, lanes and episodes independent.

    Where the environment states it (``initial_bounds``), it is the uniform one between these bounds.
    """
    _require_random_start(subject)
    base = subject.env.unwrapped.take(jnp.zeros(_MANY, jnp.int32))
    words = jax.random.bits(subject.key, (2, _MANY), jnp.uint32)
    number = jnp.arange(_MANY, dtype=jnp.int32)

    @jax.jit
    def begun(env, words, number):
        state, _ = env.begin((words[0], words[1]), number, jnp.zeros_like(number))
        return state.task, env.begin((words[0], words[1]), number, jnp.ones_like(number))[0].task

    tasks = host(begun(base, words, number))
    first, second = map(_columns, tasks)
    stated = base.initial_bounds() if isinstance(base, Task) else None
    bounds = None if stated is None else [_columns(_spread(side, tasks[0])) for side in stated]
    for name, x in first.items():
        if bounds is not None:
            _require_uniform(name, x, *(side[name] for side in bounds))
        elif (far := _distance(x, second[name])) > _FAR:
            raise Failure(f"{name}: the starts of two episodes differ in distribution, {far:.1f} where {_FAR} is rare")
        for what, a, b in (("neighbours", x[:-1], x[1:]), ("one lane's first two episodes", x, second[name])):
            related = abs(_correlation(a, b)) * np.sqrt(len(a))
            if related > _FAR_RELATED:
                raise Failure(f"{name}: starts of {what} are correlated, {related:.1f} standard errors")
    return f"{len(first)} numbers of {_MANY} starts" + (", uniform as stated" if bounds is not None else "")


_MANY = 10_000
_FAR = 2.5  # of Kolmogorov and Smirnov's statistic: by chance once in 100,000 cases
_FAR_RELATED = 5.0


def _columns(task: Tree) -> dict[str, np.ndarray]:
    """The numbers of a task state by name, of every leaf the first few, each float64 ``[lanes]``."""
    columns = {}
    for path, x in jax.tree_util.tree_leaves_with_path(task, is_leaf=lambda x: isinstance(x, random.Clock)):
        if isinstance(x, random.Clock) or is_key(x):
            continue  # an environment of environments: their keys are no start
        rows = np.asarray(x, np.float64).reshape(len(x), -1)[:, :8]
        name = tree.path_name(path) or "state"
        columns.update({f"{name} {i}" if rows.shape[1] > 1 else name: rows[:, i] for i in range(rows.shape[1])})
    return columns


def _spread(side: tuple, task: Tree) -> Tree:
    """Bounds in the order of a state's leaves, as a tree of its shapes."""
    values, structure = tree.flatten(task)
    return structure.unflatten([np.broadcast_to(b, x.shape) for b, x in zip(side, values, strict=True)])


def _require_uniform(name: str, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    if np.any((x < low) | (x > high)):
        raise Failure(f"{name}: {x[(x < low) | (x > high)][0]} is outside the stated {low[0]} to {high[0]}")
    if np.all(low == high):
        return
    share = np.sort((x - low) / (high - low))
    grid = np.arange(1, len(x) + 1) / len(x)
    far = np.max(np.maximum(np.abs(share - grid), np.abs(share - grid + 1 / len(x)))) * np.sqrt(len(x))
    if far > _FAR:
        raise Failure(f"{name}: not uniform between the stated {low[0]} and {high[0]}, {far:.1f} where {_FAR} is rare")


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Kolmogorov and Smirnov's distance of two samples of one size, in units of its standard."""
    both = np.sort(np.concatenate([a, b]))
    shares = [np.searchsorted(np.sort(x), both, side="right") / len(x) for x in (a, b)]
    return float(np.max(np.abs(shares[0] - shares[1])) * np.sqrt(len(a) / 2))


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt(np.sum(a * a) * np.sum(b * b))
    return float(np.sum(a * b) / scale) if scale > 0 else 0.0


def _require_random_start(subject: Subject) -> None:
    """Raises `NotApplicable` unless ``initial`` looks at its random stream."""
    word, number = jnp.zeros(LANES, jnp.uint32), jnp.zeros(LANES, jnp.int32)
    base = subject.given.unwrapped
    jaxpr = jax.make_jaxpr(lambda *words: base.begin(words, number, number)[0].task)(word, word).jaxpr
    used = {id(v) for equation in jaxpr.eqns for v in equation.invars} | {id(v) for v in jaxpr.outvars}
    if not used & {id(v) for v in jaxpr.invars}:
        raise NotApplicable("initial draws nothing")


def _numbers(values: Tree) -> list[np.ndarray]:
    return [x for x in jax.tree.leaves(values) if isinstance(x, np.ndarray)]


def step_repeatable(subject: Subject) -> None:
    """Stepping twice from one state, and resetting twice, gives the same bits; op by op, so that Python counts."""
    eager = subject.eager
    for what, (first, second) in (("reset", eager.resets), ("step", eager.steps)):
        require_equal(first, second, f"the first {what} and the second", axes=("lane",))


def inputs_unmodified(subject: Subject) -> None:
    """State and action that step was given are afterwards what they were."""
    eager = subject.eager
    before, after = (dict(zip(("state", "action"), pair, strict=True)) for pair in (eager.given, eager.taken))
    require_equal(before, after, "before and after a step", axes=("lane",))


def immutable(subject: Subject) -> None:
    """Attributes can be neither assigned nor do they change by running; equal configuration shares what is compiled."""
    eager = subject.eager
    for layer, before, now in zip(layers(eager.env), eager.before, attributes(eager.env), strict=True):
        for name in before | now:
            if not name.startswith("__") and before.get(name) is not now.get(name):
                raise Failure(f"{type(layer).__name__}.{name} changed: {before.get(name)!r} and {now.get(name)!r}")
        for field in dataclasses.fields(layer):
            if _assigns(layer, field.name):
                raise Failure(f"{type(layer).__name__}.{field.name} can be assigned: make the class a frozen one")
    one, other = (tree.structure(env) for env in (subject.given, copy.deepcopy(subject.given)))
    if one != other or hash(one) != hash(other):
        raise Failure(f"a copy compiles anew, since a static field compares by identity: {one}")


def _assigns(layer: Environment, name: str) -> bool:
    try:
        setattr(layer, name, getattr(layer, name))
    except AttributeError:  # dataclasses.FrozenInstanceError is one
        return False
    return True
