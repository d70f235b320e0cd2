"""Where episodes meet: what a restart leaves behind, and wrappers with state on either side of it."""

import dataclasses
from typing import Any

import jax
import numpy as np

from jaxenv import tree
from jaxenv._wrapper_bases import LaneState
from jaxenv.environment import Environment
from jaxenv.testing.compare import ROUNDING, host, require_equal, steps
from jaxenv.testing.report import Failure, NotApplicable
from jaxenv.testing.subject import LIMITS, Rollout, Subject, in_mode, limited, replay, sample_actions, without_restarts
from jaxenv.timestep import StepType, TimeStep
from jaxenv.tree import Tree
from jaxenv.wrapper import Wrapper, layers
from jaxenv.wrappers import AutoReset, BatchWrapper, LaneWrapper
from jaxenv.wrappers.autoreset import AutoResetState


@jax.jit
def _begun(env: Environment, clock: Any, previous: Tree) -> tuple[Tree, TimeStep]:
    """``begin`` for clocks and the states before them, ``[T, B, ...]``."""
    return jax.lax.map(
        lambda given: env.begin(given[0].key, given[0].env_id, given[0].episode, given[1]), (clock, previous)
    )


def restart_is_reset(subject: Subject) -> str:
    """A restart leaves what ``begin`` gives for the next episode: nothing of the one before but what ``carry`` keeps.

    The lane's key and id survive, and its episodes are counted one by one.
    """
    level = next(layer for layer in layers(subject.stack) if not _batch_state(layer))
    made = _next_step_rollout(subject, level)
    level = in_mode(level, "next_step")
    first = np.asarray(made.rows.step_type)[1:] == StepType.FIRST
    if not first.any():
        raise Failure("no episode began: this shows nothing")
    clock = host(level.clock(made.states))
    for name, one in (("key", clock.key), ("env_id", clock.env_id)):
        still = jax.tree.map(lambda x: np.broadcast_to(x[:1], x.shape), one)
        require_equal(still, one, f"the lane's {name} at first and later")
    counted = clock.episode[:1] + np.concatenate([np.zeros_like(first[:1]), first]).cumsum(axis=0, dtype=np.int32)
    require_equal(counted, clock.episode, "episodes begun and the clock's count")
    wanted = host(_begun(level, steps(clock, slice(1, None)), made.before))
    require_equal(wanted, made.after, "by begin and by a restart", tolerance=ROUNDING, where=first, first_step=1)
    return f"{int(first.sum())} restarts"


def _batch_state(env: Environment) -> bool:
    return any(isinstance(layer, BatchWrapper) for layer in layers(env))


def _next_step_rollout(subject: Subject, env: Environment) -> Rollout:
    """The shared rollout where it is one of ``env`` with FIRST rows, else one made for it."""
    if env is subject.stack and env.autoreset == "next_step":
        return subject.rollout
    env = in_mode(env, "next_step")
    return subject.roll(subject.keys[0], sample_actions(env, subject.key, subject.num_steps), env)


def autoreset_commutes(subject: Subject) -> str:
    """A wrapper with lane state gives the same stream inside and outside ``AutoReset``, or says where it belongs.

    Batch state is refused inside, and what rewrites observations or actions is refused outside of ``same_step``.
    """
    said = []
    for layer in layers(subject.given):
        if isinstance(layer, BatchWrapper):
            _require_refused(
                lambda w=layer: AutoReset(dataclasses.replace(w, env=without_restarts(w.env))),
                f"{type(layer).__name__} inside AutoReset",
            )
            said.append(f"{type(layer).__name__} refuses to stand inside")
        elif isinstance(layer, LaneWrapper):
            said.append(_same_on_either_side(subject, layer))
    if not said:
        raise NotApplicable("no wrapper in the stack has state of its own")
    return ", ".join(said)


def _same_on_either_side(subject: Subject, layer: LaneWrapper) -> str:
    core = limited(_fit_for_restarts(layer.env), LIMITS)
    try:
        outside = dataclasses.replace(layer, env=AutoReset(core))
    except ValueError:
        return f"{type(layer).__name__} refuses to stand outside"
    inside = AutoReset(dataclasses.replace(layer, env=core))
    made = subject.roll(subject.keys[0], sample_actions(inside, subject.key, subject.num_steps), inside)
    state, ended = made.before.inner, made.before.ended
    given = host(replay(outside, LaneState(AutoResetState(state.inner, ended), state.own), made.actions))
    moved = AutoResetState(LaneState(given[0].inner.inner, given[0].own), given[0].inner.ended)
    text = f"with {type(layer).__name__} inside AutoReset and outside"
    require_equal(made.after, (moved, given[1]), text, tolerance=ROUNDING, first_step=1)
    if layer.rewrites:
        _require_refused(
            lambda: dataclasses.replace(layer, env=AutoReset(core, "same_step")),
            f"{type(layer).__name__} outside a same_step AutoReset",
        )
    return f"{type(layer).__name__} on either side"


def _fit_for_restarts(env: Environment) -> Environment:
    """What may stand inside ``AutoReset``: the stack without its own one and without batch state."""
    if isinstance(env, AutoReset | BatchWrapper):
        return _fit_for_restarts(env.env)
    return tree.rebuild(env, env=_fit_for_restarts(env.env)) if isinstance(env, Wrapper) else env


def _require_refused(build: Any, what: str) -> None:
    try:
        build()
    except ValueError:
        return
    raise Failure(f"{what} is not refused")
