"""Where random numbers come from, and that running an environment changes nothing but what it returns."""

import copy
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.environment import Environment
from jaxenv.random import Stream
from jaxenv.testing.compare import require_equal
from jaxenv.testing.report import Failure, NotApplicable
from jaxenv.testing.subject import LANES, Rollout, Subject, action_shapes, attributes, shapes
from jaxenv.wrapper import layers
from jaxenv.wrappers import FixedResetKey

Tree = Any


def same_key_same_bits(subject: Subject) -> None:
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
        if type(subject.stack.unwrapped).carry is not Environment.carry:
            raise NotApplicable("carry keeps what an episode starts with")
        raise Failure(f"lane {lane} starts all its {begins.sum()} episodes alike, from {starts[0][0]}")
    return f"{begins.sum()} starts of lane {lane}"


def _busiest_lane(subject: Subject, made: Rollout) -> int:
    episode = np.asarray(subject.clock(made).episode)
    lane = int(np.argmax(episode[-1]))
    if episode[-1, lane] < 3:
        raise NotApplicable(f"no lane begins more than {episode[-1, lane] + 1} episodes")
    return lane


def _require_random_start(subject: Subject) -> None:
    """Raises `NotApplicable` unless ``initial`` looks at its random stream."""
    word = jnp.zeros(LANES, jnp.uint32)
    base = subject.given.unwrapped
    jaxpr = jax.make_jaxpr(lambda *words: base.initial(Stream(*words)))(word, word, word, word).jaxpr
    used = {id(v) for equation in jaxpr.eqns for v in equation.invars} | {id(v) for v in jaxpr.outvars}
    if not used & {id(v) for v in jaxpr.invars}:
        raise NotApplicable("initial draws nothing")


def _numbers(values: Tree) -> list[np.ndarray]:
    return [x for x in jax.tree.leaves(values) if isinstance(x, np.ndarray)]


def stepping_twice(subject: Subject) -> None:
    """Stepping twice from one state, and resetting twice, gives the same bits; op by op, so that Python counts."""
    eager = subject.eager
    for what, (first, second) in (("reset", eager.resets), ("step", eager.steps)):
        require_equal(first, second, f"the first {what} and the second", axes=("lane",))


def inputs_untouched(subject: Subject) -> None:
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
