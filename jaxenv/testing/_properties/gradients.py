"""Gradients: finite, and cut at restarts."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core.environment import Environment
from jaxenv.core.task import Task
from jaxenv.core.timestep import TimeStep
from jaxenv.testing._compare import first, location, require_equal, require_finite, to_numpy
from jaxenv.testing._programs import quick
from jaxenv.testing._stacks import with_strategy
from jaxenv.testing._subject import Subject
from jaxenv.testing.report import Failure, NotApplicable
from jaxenv.tree import Tree

# Central differences in float32: their step, their tolerance, and the fraction that must agree (kinks do not).
_DIFFERENCE_STEP, _DIFFERENCE_TOLERANCE, _MIN_AGREEMENT = 1e-2, 2e-2, 0.9


def gradients_sound(subject: Subject) -> str:
    """Gradients of rewards and observations are finite and stop at restarts.

    They are taken with respect to params, state and continuous actions. All restart strategies give the same
    gradients. If the environment declares itself ``smooth``, they equal finite differences.
    """
    rollout = subject.rollout
    gradients = _rollout_gradients(subject, np.ones(rollout.ends[1:].shape, np.float32))
    require_finite(gradients, "gradient with respect to", axes=())
    if subject.lanes_are_independent:
        _require_cut_at_restarts(subject)
    other = "select" if subject.strategy == "compact" else "compact"
    # Single steps: over a rollout, rounding errors grow.
    expected = to_numpy(_step_gradients(subject.stack, rollout.before, rollout.actions))
    env, *actual = to_numpy(_step_gradients(with_strategy(subject.stack, other), rollout.before, rollout.actions))
    actual = (with_strategy(env, subject.auto_reset.reset_strategy), *actual)
    labels = (f"with {subject.strategy}", f"with {other}")
    require_equal(expected, actual, labels, context="gradients", tolerance=100 * subject.rounding, axes=())
    task = subject.original.unwrapped
    smooth = isinstance(task, Task) and task.smooth
    return _require_equal_differences(subject) if smooth else "finite, cut at restarts"


def _require_cut_at_restarts(subject: Subject) -> None:
    episode = np.asarray(subject.clock(subject.rollout).episode)
    later = episode > episode[:1]
    if subject.stack.autoreset == "same_step":  # the row on which an episode starts has the reward of the previous one
        later[1:] &= later[:-1]
    if not later.any():
        raise Failure("no lane started a second episode, the check needs one")
    _, state, actions = _rollout_gradients(subject, later[1:].astype(np.float32))
    _require_zero("the state", jax.tree.map(lambda x: x[None], state), np.ones_like(later[:1]))
    _require_zero("actions", actions, episode[:-1] == episode[:1])


def _require_zero(what: str, gradient: Tree, where: np.ndarray) -> None:
    """Raises a `Failure` at the first gradient ``[T, B, ...]`` that is not 0."""
    for path, x in jax.tree_util.tree_leaves_with_path(gradient):
        leaks = (x != 0) & tree.expand(where, x.ndim)
        if np.any(leaks):
            at = first(leaks)
            name = f"{what} {tree.path_name(path)}".rstrip()
            raise Failure(
                f"rows after a restart have gradient {x[at]} with respect to {name}{location(at)}, before the restart"
            )


def _floats(values: Tree) -> Tree:
    return jax.tree.map(lambda x: x if _is_float(x) else None, values)


def _is_float(x: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(x), jnp.inexact)


def _with_floats(floats: Tree, values: Tree) -> Tree:
    return jax.tree.map(lambda x, f: x if f is None else f, values, floats, is_leaf=lambda x: x is None)


def _scalar(row: TimeStep) -> jax.Array:
    """Reduces a row to one float32 per lane that depends on the reward and on all float observations."""
    leaves = [x for x in jax.tree.leaves((row.reward, row.observation)) if _is_float(x) and x[0].size]
    return sum(jnp.mean(x.astype(jnp.float32).reshape(x.shape[0], -1), axis=1) for x in leaves)  # type: ignore[return-value]


def _rollout_gradients(subject: Subject, weights: np.ndarray) -> Tree:
    """Returns gradients (env, first state, actions) of a weighted sum over the rows of the shared rollout."""
    return to_numpy(_gradients(subject.stack, subject.rollout.start[0], subject.rollout.actions, weights))


@quick
def _gradients(env: Environment, state: Tree, actions: jax.Array, weights: jax.Array) -> Any:
    inputs = (env, state, actions)

    def weighted_sum(floats: Tree) -> jax.Array:
        env, state, actions = _with_floats(floats, inputs)

        def one_step(state: Tree, given: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
            action, weight = given
            state, row = env.step(state, action)
            return state, jnp.sum(weight * _scalar(row))

        return jnp.sum(jax.lax.scan(one_step, state, (actions, weights))[1])

    return jax.grad(weighted_sum)(_floats(inputs))


@quick
def _step_gradients(env: Environment, states: Any, actions: Any) -> Any:
    """Returns gradients (env, states, actions) of the sum of all floats after one step from each of ``states``."""
    inputs = (env, states, actions)

    def total(floats: Any) -> Any:
        env, *states_and_actions = _with_floats(floats, inputs)
        outputs = jax.lax.map(lambda given: env.step(*given), tuple(states_and_actions))
        return sum(jnp.sum(x.astype(jnp.float32)) for x in jax.tree.leaves(outputs) if _is_float(x))

    return jax.grad(total)(_floats(inputs))


@quick
def _step_scalars(env: Environment, floats: Any, inputs: Any) -> Any:
    """Returns `_scalar` of one step from each of the states ``[T, B, ...]``: float32 ``[T, B]``."""
    return jax.lax.map(lambda given: _scalar(env.step(*given)[1]), _with_floats(floats, inputs))


@quick
def _slopes(env: Environment, floats: Any, directions: Any, inputs: Any) -> Any:
    return jax.jvp(lambda floats: _step_scalars(env, floats, inputs), (floats,), (directions,))[1]


def _require_equal_differences(subject: Subject) -> str:
    # Only the task declares itself smooth; its wrappers need not be.
    env, generator = subject.stack.unwrapped, np.random.default_rng(0)
    states = subject.state_of(env, subject.rollout.before)
    inputs = (states, subject.actions_of(env))
    floats = _floats(inputs)
    if not jax.tree.leaves(floats):
        raise NotApplicable("neither the state nor the action has floats")
    directions = jax.tree.map(lambda x: generator.standard_normal(x.shape).astype(np.float32), floats)
    moved = [
        jax.tree.map(lambda x, d, s=s: x + np.float32(s * _DIFFERENCE_STEP) * d, floats, directions) for s in (-1, 1)
    ]
    low, high = (np.asarray(_step_scalars(env, f, inputs)) for f in moved)
    difference = (high - low) / (2 * _DIFFERENCE_STEP)
    slope = np.asarray(_slopes(env, floats, directions, inputs))
    agree = np.abs(difference - slope) <= _DIFFERENCE_TOLERANCE * (1 + np.abs(slope))
    if agree.mean() < _MIN_AGREEMENT:
        at = first(~agree)
        raise Failure(
            f"{agree.mean():.0%} of the gradients equal finite differences; at step {at[0] + 1}, lane {at[1]} the "
            f"gradient is {slope[at]} and the difference is {difference[at]}"
        )
    return f"finite, cut at restarts, {agree.mean():.0%} equal finite differences"
