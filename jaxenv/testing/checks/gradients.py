"""Gradients: through steps, cut at restarts, under ``jax.checkpoint``."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.task import Task
from jaxenv.testing.compare import ROUNDING, host, place, require_equal, require_finite
from jaxenv.testing.report import Failure, NotApplicable
from jaxenv.testing.subject import Subject, sample_actions, with_strategy
from jaxenv.timestep import TimeStep
from jaxenv.tree import Tree

# What float32 leaves of a central difference over steps of this size, and the places that may lie across a kink.
_STEP, _CLOSE, _AGREE = 1e-2, 2e-2, 0.9


def checkpoint_invariant(subject: Subject) -> None:
    """``jax.checkpoint`` around the step changes neither what is computed nor its gradients."""
    weights = np.ones(subject.rollout.ends[1:].shape, np.float32)
    plain, saved = (
        dict(zip(("value", "gradient"), _pulled(subject, weights, checkpoint=checkpoint), strict=True))
        for checkpoint in (False, True)
    )
    # Rounding grows with the gradients of a whole rollout.
    require_equal(plain, saved, "without jax.checkpoint and with it", tolerance=100 * ROUNDING, axes=())


def gradients_sound(subject: Subject) -> str:
    """Gradients of rewards and observations with respect to params, state and continuous actions are finite.

    Rows after a restart have none with respect to what came before it, and every strategy of restarting gives the
    same ones. Where the environment is declared ``smooth`` they equal finite differences.
    """
    made = subject.rollout
    _, gradients = _pulled(subject, np.ones(made.ends[1:].shape, np.float32))
    require_finite(gradients, "gradient with respect to", axes=())
    if "batch_equals_single_lanes" not in subject.opt_outs:  # else all lanes share what came before
        _require_cut(subject)
    other = "select" if subject.strategy == "compact" else "compact"
    # Those of single steps: over a rollout rounding grows with them.
    wanted = host(_of_single_steps(subject.stack, made.before, made.actions))
    env, *given = host(_of_single_steps(with_strategy(subject.stack, other), made.before, made.actions))
    given = (with_strategy(env, subject.auto_reset.strategy), *given)
    text = f"gradients by {subject.strategy} and by {other}"
    require_equal(wanted, given, text, tolerance=100 * ROUNDING, axes=())
    task = subject.env.unwrapped
    smooth = isinstance(task, Task) and task.smooth
    return _differences_agree(subject) if smooth else "finite, cut at restarts"


def _require_cut(subject: Subject) -> None:
    episode = np.asarray(subject.clock(subject.rollout).episode)
    later = episode > episode[:1]
    if subject.stack.autoreset == "same_step":  # the row on which an episode begins still pays for the one before
        later[1:] &= later[:-1]
    if not later.any():
        raise Failure("no second episode was seen: this shows nothing")
    _, (_, state, actions) = _pulled(subject, later[1:].astype(np.float32))
    _require_none("the state", jax.tree.map(lambda x: x[None], state), np.ones_like(later[:1]))
    _require_none("actions", actions, episode[:-1] == episode[:1])


def _require_none(what: str, gradient: Tree, where: np.ndarray) -> None:
    """Raises a `Failure` at the first gradient ``[T, B, ...]`` that is not 0."""
    for path, x in jax.tree_util.tree_leaves_with_path(gradient):
        leaks = (x != 0) & tree.expand(where, x.ndim)
        if np.any(leaks):
            at = tuple(int(i) for i in np.argwhere(leaks)[0])
            name = f"{what} {tree.path_name(path)}".rstrip()
            raise Failure(f"rows after a restart depend on {name}{place(at)}, before it: gradient {x[at]}")


def _floats(values: Tree) -> Tree:
    """The float leaves of a tree, ``None`` for the others."""
    return jax.tree.map(lambda x: x if _is_float(x) else None, values)


def _is_float(x: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(x), jnp.inexact)


def _filled(floats: Tree, values: Tree) -> Tree:
    """``values`` with its float leaves replaced by ``floats``."""
    return jax.tree.map(lambda x, f: x if f is None else f, values, floats, is_leaf=lambda x: x is None)


def _seen(row: TimeStep) -> jax.Array:
    """One float32 per lane that depends on all of a row's rewards and float observations."""
    leaves = [x for x in jax.tree.leaves((row.reward, row.observation)) if _is_float(x) and x[0].size]
    return sum(jnp.mean(x.astype(jnp.float32).reshape(x.shape[0], -1), axis=1) for x in leaves)  # type: ignore[return-value]


def _pulled(subject: Subject, weights: np.ndarray, *, checkpoint: bool = False) -> tuple[Tree, Tree]:
    """A weighted sum over the rows of the shared rollout, and its gradients (env, first state, actions)."""
    begun = jax.tree.map(lambda x: x[0], subject.rollout.states)
    return host(_value_and_gradients(subject.stack, begun, subject.rollout.actions, weights, checkpoint))


def _summed(floats: Tree, given: Tree, weights: jax.Array, checkpoint: bool) -> jax.Array:
    env, state, actions = _filled(floats, given)
    advance = jax.checkpoint(env.step) if checkpoint else env.step

    def one_step(state, given):
        action, weight = given
        state, row = advance(state, action)
        return state, jnp.sum(weight * _seen(row))

    return jnp.sum(jax.lax.scan(one_step, state, (actions, weights))[1])


@jax.jit(static_argnums=4)
def _value_and_gradients(env, state, actions, weights, checkpoint):
    given = (env, state, actions)
    return jax.value_and_grad(_summed)(_floats(given), given, weights, checkpoint)


@jax.jit
def _of_single_steps(env, states, actions):
    """Gradients (env, states, actions) of the sum of all floats to which the steps from ``states`` lead."""
    given = (env, states, actions)

    def total(floats):
        env, *where = _filled(floats, given)
        led_to = jax.lax.map(lambda at: env.step(*at), tuple(where))
        return sum(jnp.sum(x.astype(jnp.float32)) for x in jax.tree.leaves(led_to) if _is_float(x))

    return jax.grad(total)(_floats(given))


@jax.jit
def _shown(env, floats, given):
    """``_seen`` of one step from each of the states ``[T, B, ...]``: float32 ``[T, B]``."""
    return jax.lax.map(lambda given: _seen(env.step(*given)[1]), _filled(floats, given))


@jax.jit
def _directional(env, floats, directions, given):
    return jax.jvp(lambda floats: _shown(env, floats, given), (floats,), (directions,))[1]


def _differences_agree(subject: Subject) -> str:
    # Of the environment itself: it says that it is smooth, the wrappers around it say nothing.
    env, draw = subject.stack.unwrapped, np.random.default_rng(0)
    given = (subject.below(subject.rollout.before, env), sample_actions(env, subject.key, subject.num_steps))
    floats = _floats(given)
    if not jax.tree.leaves(floats):
        raise NotApplicable("neither state nor action holds floats")
    directions = jax.tree.map(lambda x: draw.standard_normal(x.shape).astype(np.float32), floats)
    moved = [jax.tree.map(lambda x, d, s=s: x + np.float32(s * _STEP) * d, floats, directions) for s in (-1, 1)]
    low, high = (np.asarray(_shown(env, f, given)) for f in moved)
    difference, slope = (high - low) / (2 * _STEP), np.asarray(_directional(env, floats, directions, given))
    agree = np.abs(difference - slope) <= _CLOSE * (1 + np.abs(slope))
    if agree.mean() < _AGREE:
        at = tuple(int(i) for i in np.argwhere(~agree)[0])
        raise Failure(
            f"{agree.mean():.0%} of the gradients equal finite differences; at step {at[0] + 1}, lane {at[1]}: "
            f"{slope[at]} and {difference[at]}"
        )
    return f"finite, cut at restarts, {agree.mean():.0%} equal finite differences"
