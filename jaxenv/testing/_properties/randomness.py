"""Randomness and purity: random numbers come from keys alone, and running an environment has no side effects."""

import copy
import dataclasses
import functools
import itertools
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.core.environment import Environment
from jaxenv.core.starts import Starts, next_episodes
from jaxenv.core.task import Task
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.testing._compare import require_equal, take_steps, to_numpy
from jaxenv.testing._elsewhere import defaults
from jaxenv.testing._programs import LANES, action_shapes, carries, quick, quick_options, take
from jaxenv.testing._subject import OTHER_STEPS, Subject, attributes
from jaxenv.testing.report import Failure, NotApplicable, is_authors, place, require, require_applicable
from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import is_key, to_words
from jaxenv.wrappers import AutoReset, FixedResetKey


def reproducible(subject: Subject) -> str:
    """Equal keys and actions give equal bits, and tracing a function twice gives equal programs.

    This includes a trace in another process, where ``hash`` of text has another seed and modules are imported again. An
    environment that cannot be sent there, such as one defined in a notebook, is traced in this process only.
    """
    one, other = subject.rollout, subject.roll(subject.keys[0], subject.actions[0])
    require_equal((one.states, one.rows), (other.states, other.rows), ("in one run", "in the next"))
    env, state = subject.env, subject.shapes[0][0]
    for method, args in (("reset", (subject.key,)), ("step", (state, action_shapes(env)))):
        first, second = (jax.make_jaxpr(lambda env, *a, n=method: getattr(env, n)(*a))(env, *args) for _ in range(2))
        if str(first) != str(second):
            raise Failure(f"two traces of {method} differ: it depends on something other than its arguments")
        labels = ("in the first trace", "in the second")
        require_equal(first.consts, second.consts, labels, context=f"constants of {method}", axes=())
    reply, labels = subject.other_process, ("in this process", "in another")
    if reply.not_run:
        return f"in this process only: {reply.not_run}"
    for name, value in defaults(subject.stack).items():
        if (found := reply.defaults.get(name)) != value:
            raise Failure(f"the default of {name} is {value} {labels[0]} and {found} {labels[1]}")
    if reply.values is not None:
        rollout = subject.rollout
        expected = take_steps((rollout.states, rollout.rows), slice(OTHER_STEPS + 1))
        leaves, structure = jax.tree.flatten(to_words(expected))
        if len(leaves) != len(reply.values):
            raise Failure(f"reset and step return {len(leaves)} arrays {labels[0]} and {len(reply.values)} {labels[1]}")
        # Another program may round differently on each of the steps.
        require_equal(expected, jax.tree.unflatten(structure, reply.values), labels, tolerance=100 * subject.rounding)
    return "in another process too"


def lanes_differ(subject: Subject) -> None:
    """Lanes with different keys start differently, if the start is random."""
    _require_random_start(subject)
    for rollout in (subject.rollout, subject.other_rollout):
        if any(np.any(x[0] != x[0, :1]) for x in subject.task_arrays(rollout)):
            return
    raise Failure(f"all {LANES} lanes start in the same state, with two sets of keys")


def episodes_differ(subject: Subject) -> str:
    """Every episode of every lane has its own stream key, and a random start varies between episodes."""
    clock = subject.stack.clock(subject.rollout.states)
    ids = np.stack([np.asarray(x).ravel() for x in (clock.env_id, clock.episode, *clock.key)], axis=-1)
    num_episodes, num_streams = (len(np.unique(ids[:, columns], axis=0)) for columns in ([0, 1], [1, 2, 3]))
    require(num_episodes == num_streams, f"the {num_episodes} episodes of all lanes share {num_streams} stream keys")
    expected = LANES + int(np.sum(subject.rollout.ends[:-1]))
    if subject.stack.autoreset == "next_step" and num_episodes != expected:
        raise Failure(f"{expected} episodes were started, the clock counts {num_episodes}")
    _require_random_start(subject)
    if any(isinstance(layer, FixedResetKey) for layer in layers(subject.stack)):
        raise NotApplicable("FixedResetKey starts all episodes in the same state")
    episode = np.asarray(clock.episode)[-1]
    lane = int(np.argmax(episode))
    require_applicable(episode[lane] >= 3, f"no lane starts more than {episode[lane] + 1} episodes")
    at_start = np.asarray(clock.step)[:, lane] == 0
    starts = [x[at_start, lane] for x in subject.task_arrays(subject.rollout)]
    if not any(np.any(x != x[:1]) for x in starts):
        require_applicable(not carries(subject.stack), "carry keeps the state that episodes start with")
        raise Failure(f"all {at_start.sum()} episodes of lane {lane} start in the same state, from {starts[0][0]}")
    return f"{at_start.sum()} starts of lane {lane}"


def no_word_reused(subject: Subject) -> str:
    """No random word is consumed twice by any lane, episode, step or function, and JAX keys are used once.

    Keys are typed: raw keys are refused, and a batch of two keys is a batch.
    """
    _require_typed_keys(subject)
    if any(isinstance(layer, FixedResetKey) for layer in layers(subject.stack)):
        raise NotApplicable("FixedResetKey starts all episodes alike")
    # AutoReset computes the next start on every step and discards most of them, so the check restarts explicitly.
    env = _with_every_draw(subject.stack)
    keys, action = subject.keys[0], take_steps(subject.actions_of(env), 0)

    def two_episodes(keys: jax.Array, action: Tree) -> None:  # so that only what decides on draws is computed
        state, _ = env.reset(keys)
        for _ in range(2):
            state, _ = env.step(state, action)
        state, _ = env.begin(next_episodes(env.clock(state)), state)
        env.step(state, action)

    jax.eval_shape(two_episodes, keys, action)  # checks of a class that run once would draw below
    # No other check uses this setting, so JAX traces the author's compiled functions again, and their draws count.
    with jax.debug_key_reuse(True), _recorded_draws() as draws:
        try:
            jax.jit(two_episodes, compiler_options=quick_options())(keys, action)
            jax.effects_barrier()
        except jax.errors.KeyReuseError:
            with jax.disable_jit():  # names the author's line
                two_episodes(keys, action)
            raise
    seen: dict[bytes, str] = {}
    for consumer, words in sorted(draws, key=lambda draw: draw[1][0, 2:].tolist()):  # by episode and step
        for lane, word in enumerate(words):
            draw = f"lane {lane}, episode {word[2]}, step {word[3]}, {consumer}"
            if (earlier := seen.setdefault(word.tobytes(), draw)) is not draw:
                remedy = "a second draw needs random.fold_in(stream, 'name')"
                raise Failure(f"the same block of random words is drawn twice: {earlier}; {draw}; {remedy}")
    require_applicable(seen, "nothing is drawn")
    return f"{len(seen)} blocks of words"


def _with_every_draw(env: Environment) -> Environment:
    """Removes ``AutoReset`` and wrappers that take several steps at once, since they discard some of what is drawn."""
    if not isinstance(env, Wrapper):
        return env
    inner = _with_every_draw(env.env)
    return inner if isinstance(env, AutoReset) or env.place == "several_steps" else tree.rebuild(env, env=inner)


class _Recorder:
    """Records draws while a check runs. A function that an author compiles stays in JAX's caches and calls it later."""

    draws: list[tuple[str, np.ndarray]] | None = None

    def __call__(self, consumer: str, words: Any) -> None:
        if self.draws is not None:
            self.draws.append((consumer, np.asarray(words)))


_recorder, _recording = _Recorder(), threading.Lock()  # `_block` is replaced by one check at a time


@contextmanager
def _recorded_draws() -> Iterator[list[tuple[str, np.ndarray]]]:
    """Records every block of random words that programs draw: its consumer, and its counters, uint32 ``[lanes, 4]``."""
    thread = threading.get_ident()  # others draw, too, while a check that ran out of time goes on

    def recorded(stream: random.Stream, number: Any) -> Any:
        k0 = stream.k0 + jnp.asarray(number, jnp.uint32) * np.uint32(random._GOLDEN)
        counters = jnp.broadcast_arrays(k0, stream.k1, stream.c0, stream.c1)
        if thread == threading.get_ident():
            words = jnp.stack([x.ravel() for x in counters], axis=-1)
            jax.debug.callback(functools.partial(_recorder, _consumer()), words)
        return block(stream, number)

    with _recording:
        block, draws = random._block, list[tuple[str, np.ndarray]]()
        with mock.patch.object(random, "_block", recorded), mock.patch.object(_recorder, "draws", draws):
            yield draws


def _consumer() -> str:
    """Names the line that draws: the author's innermost one, or the line of this library's wrapper."""
    stack = (frame for frame, _ in traceback.walk_stack(sys._getframe(1)))
    frames = list(itertools.takewhile(lambda frame: frame.f_code.co_name != "two_episodes", stack))
    tools = (__name__, "jaxenv.random", "jaxenv.specs", "jaxenv.tree", "jaxenv._util.xla")
    outside = (frame for frame in frames if not frame.f_globals["__name__"].startswith(tools))
    found = next(filter(is_authors, frames), None) or next(outside, frames[0])
    return place(found, found.f_lineno)


def _require_typed_keys(subject: Subject) -> None:
    env = subject.with_lanes(2)
    state, _ = jax.eval_shape(lambda env, keys: env.reset(keys), env, subject.keys[0][:2])
    if env.clock(state).env_id.shape != (2,):
        raise Failure(f"reset takes two keys for {env.clock(state).env_id.shape[0]} lanes")
    try:
        jax.eval_shape(lambda env, key: env.reset(key), env, jax.ShapeDtypeStruct((2,), jnp.uint32))
    except (TypeError, ValueError):
        return
    raise Failure("reset accepts a raw uint32 key, which cannot be distinguished from a batch of numbers")


def starts_distribution(subject: Subject) -> str:
    """The starts of 10,000 lanes follow the same distribution in every episode, independently of each other.

    If the environment declares ``initial_bounds``, that distribution is uniform between these bounds.
    """
    _require_random_start(subject)
    if "no_callback" in getattr(subject.original.unwrapped, "opt_outs", ()):
        raise NotApplicable(f"each of {_NUM_STARTS} lanes may be a process of the host")
    task = take(subject.original.unwrapped, np.zeros(_START_BLOCK, np.int32))
    generator = np.random.default_rng(np.asarray(jax.random.key_data(subject.key)))
    words = generator.integers(2**32, size=(2, _NUM_STARTS), dtype=np.uint32)
    # In blocks: 10,000 large worlds at once would take more memory than many machines have.
    numbers = np.arange(_NUM_STARTS, dtype=np.int32).reshape(-1, _START_BLOCK)
    starts = [
        jax.tree.map(
            lambda *part: part[0] if is_key(part[0]) else np.concatenate(part),
            *(to_numpy(_begun(task, words[:, block], block, np.full_like(block, episode))) for block in numbers),
        )
        for episode in range(2)
    ]
    first, second = map(_columns, starts)
    stated = task.initial_bounds() if isinstance(task, Task) else None
    bounds = None
    if stated is not None:  # in the order of the leaves of a state
        sides: Any = (jax.tree.unflatten(tree.structure(starts[0]), side) for side in stated)
        bounds = [_columns(jax.tree.map(lambda x, b: np.broadcast_to(b, x.shape), starts[0], side)) for side in sides]
    for name, x in first.items():
        if bounds is not None:
            _require_uniform(name, x, *(side[name] for side in bounds))
        elif (distance := _ks_distance(x, second[name])) > _KS_LIMIT:
            raise Failure(f"{name}: the starts of two episodes differ in distribution{_statistic(distance)}")
        for pair, a, b in (("neighbouring lanes", x[:-1], x[1:]), ("a lane's first two episodes", x, second[name])):
            deviation = abs(np.corrcoef(a, b)[0, 1]) * np.sqrt(len(a)) if a.std() * b.std() > 0 else 0
            if deviation > _CORRELATION_LIMIT:
                raise Failure(f"{name}: the starts of {pair} are correlated by {deviation:.1f} standard errors")
    return f"{len(first)} numbers of {_NUM_STARTS} starts" + (", uniform as stated" if bounds is not None else "")


@quick
def _begun(env: Environment, words: Any, numbers: Any, episodes: Any) -> Tree:
    return env.begin(Starts((words[0], words[1]), numbers, episodes))[0].task


_NUM_STARTS = 10_000
_START_BLOCK = 1000
_KS_LIMIT = 2.5  # exceeded by chance once in 100,000 tests
_CORRELATION_LIMIT = 5.0  # in standard errors


def _columns(task: Tree) -> dict[str, np.ndarray]:
    """Returns the first elements of every leaf of a task state by name, each float64 ``[lanes]``."""
    columns: dict[str, np.ndarray] = {}
    for path, x in jax.tree_util.tree_leaves_with_path(task, is_leaf=lambda x: isinstance(x, random.Clock)):
        if isinstance(x, random.Clock) or is_key(x):
            continue  # keys of the inner environments of a nested environment
        values = np.asarray(x, np.float64).reshape(len(x), -1).T[:8]
        name = tree.path_name(path) or "state"
        columns |= {f"{name} {i}" if len(values) > 1 else name: column for i, column in enumerate(values)}
    return columns


def _require_uniform(name: str, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    outside = (x < low) | (x > high)
    if np.any(outside):
        raise Failure(f"{name}: {x[outside][0]} is outside the stated bounds {low[0]} and {high[0]}")
    if np.all(low == high):
        return
    distance = _ks_distance((x - low) / (high - low), (np.arange(len(x)) + 0.5) / len(x)) * np.sqrt(2)
    if distance > _KS_LIMIT:
        raise Failure(f"{name}: not uniform between the stated bounds {low[0]} and {high[0]}{_statistic(distance)}")


def _statistic(distance: float) -> str:
    return f", the Kolmogorov-Smirnov statistic is {distance:.1f}, above {_KS_LIMIT}"


def _ks_distance(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the Kolmogorov-Smirnov statistic of two samples of equal size, normalised."""
    both = np.sort(np.concatenate([a, b]))
    cdfs = [np.searchsorted(np.sort(x), both, side="right") / len(x) for x in (a, b)]
    return float(np.max(np.abs(cdfs[0] - cdfs[1])) * np.sqrt(len(a) / 2))


def _require_random_start(subject: Subject) -> None:
    """Raises `NotApplicable` unless ``initial`` uses its stream."""
    word, number = (jnp.asarray(np.zeros(LANES, dtype)) for dtype in (np.uint32, np.int32))
    task = subject.env.unwrapped
    jaxpr = jax.make_jaxpr(lambda *words: task.begin(Starts(words, number, number))[0].task)(word, word).jaxpr
    used = {id(v) for equation in jaxpr.eqns for v in equation.invars} | {id(v) for v in jaxpr.outvars}
    require_applicable(used & {id(v) for v in jaxpr.invars}, "initial draws nothing")


def step_repeatable(subject: Subject) -> None:
    """Calling ``reset`` or ``step`` twice with the same arguments gives the same bits.

    The check is eager, so that it sees side effects in Python.
    """
    for method, (first, again) in (("reset", subject.eager.resets), ("step", subject.eager.steps)):
        require_equal(first, again, ("in the first call", "in the second"), context=method, axes=("lane",))


def inputs_unmodified(subject: Subject) -> None:
    """``step`` leaves the state and the action that it receives unchanged."""
    eager = subject.eager
    before, after = (dict(zip(("state", "action"), pair, strict=True)) for pair in (eager.given, eager.passed))
    require_equal(before, after, ("before", "after a step"), axes=("lane",))


def immutable(subject: Subject) -> None:
    """Attributes can be neither assigned nor changed by a run, and environments of equal configuration share code."""
    for layer, before, now in zip(layers(subject.stack), subject.eager.before, attributes(subject.stack), strict=True):
        for name in before | now:
            if not name.startswith("__") and before.get(name) is not now.get(name):
                raise Failure(f"{type(layer).__name__}.{name} changed from {before.get(name)!r} to {now.get(name)!r}")
        for field in dataclasses.fields(layer):
            try:
                setattr(layer, field.name, getattr(layer, field.name))
            except AttributeError:  # the base class of dataclasses.FrozenInstanceError
                continue
            raise Failure(f"{type(layer).__name__}.{field.name} can be assigned, the class must be frozen")
    one, other = (tree.structure(env) for env in (subject.env, copy.deepcopy(subject.env)))
    if one != other or hash(one) != hash(other):
        raise Failure(f"a copy is compiled again, since a static field compares by identity: {one}")
