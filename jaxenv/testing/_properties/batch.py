"""The batch: a lane depends only on its own key, actions and params."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core.environment import Environment
from jaxenv.core.wrapper import layers
from jaxenv.testing._compare import require_equal, take_lanes, take_steps
from jaxenv.testing._programs import (
    LANES,
    LIMITS,
    MANY_LANES,
    action_shapes,
    carries,
    output_shapes,
    per_lane,
    replay,
    run,
    start,
    take,
    with_restarts,
)
from jaxenv.testing._subject import Rollout, Subject, poisoned
from jaxenv.testing.report import Failure, NotApplicable, described, require_applicable
from jaxenv.tree import Tree
from jaxenv.wrappers import LevelReplay


def batch_equals_single_lanes(subject: Subject) -> None:
    """A batch equals single lanes (B = 1) with the same keys: starts, and every step from the same states.

    Words, integers and flags agree bitwise, floats to 1e-5.
    """
    rollout, labels = subject.rollout, ("alone", "in a batch")
    for lane in range(LANES):
        at = np.array([lane], np.int32)
        alone = start(subject.take(at), subject.key, at)
        batched = take_lanes(subject.seeded_start, at, axis=0)
        require_equal(alone, batched, labels, context=f"start of lane {lane}", tolerance=subject.rounding, axes=())
    subject.same_steps(_replay_lane_by_lane(subject.stack, rollout, 1), rollout.after, labels)


def _replay_lane_by_lane(env: Environment, rollout: Rollout, count: int) -> Tree:
    """Repeats every step of a rollout in batches of ``count`` equal lanes: states and rows ``[T, B, ...]``."""
    single = []
    for lane in range(LANES):
        at = np.full(count, lane, np.int32)
        after = replay(take(env, at), *take_lanes((rollout.before, rollout.actions), at))
        single.append(take_lanes(after, slice(1)))
    return jax.tree.map(lambda *x: np.concatenate(x, axis=1), *single)


def lane_independent(subject: Subject) -> str:
    """A lane stays bitwise the same when the keys, actions, states and ends of all other lanes change."""
    rollout, count = subject.rollout, 0
    for lane in range(LANES):
        kept = np.arange(LANES) == lane
        keys = jnp.where(kept, *subject.keys)
        mine, others = subject.actions
        actions = jax.tree.map(lambda x, y, at=kept[None]: np.where(tree.expand(at, x.ndim), x, y), mine, others)
        # The limits change too: a lane that ends on the same steps in both runs affects others equally in both.
        limits = np.where(kept, LIMITS, np.roll(LIMITS + 1, 1))
        changed = subject.roll(keys, actions, with_restarts(subject.env, limits))
        others_end = np.delete(changed.ends, lane, axis=1).any(axis=1)
        count += int(np.sum(others_end & ~changed.ends[:, lane]))
        before, after = (take_lanes((r.states, r.rows), lane) for r in (rollout, changed))
        labels = ("before", "after all other lanes changed")
        require_equal(before, after, labels, context=f"lane {lane}", axes=("step",))
    subject.require_steps(count, "another lane ended and the lane did not", rollout)
    return f"{count} steps on which another lane ended and the lane did not"


def nan_contained(subject: Subject) -> str:
    """NaN and infinity in the state of one lane reach neither other lanes nor the lane's next episode.

    If ``carry`` keeps part of the state for the next episode, or ``LevelReplay`` its level, only the other lanes are
    checked.
    """
    rollout, env = subject.rollout, subject.stack
    state, timestep = rollout.start
    if not any(map(_holds_floats, jax.tree.leaves(state, is_leaf=tree.is_shared))):
        raise NotApplicable("the state has no floats")
    state = jax.tree.map(lambda x: poisoned(x) if _holds_floats(x) else x, state, is_leaf=tree.is_shared)
    actual = Rollout(*run(env, state, timestep, rollout.actions), rollout.actions)
    if carries(env) or any(isinstance(layer, LevelReplay) for layer in layers(env)):
        subject.require_clean(actual, "lanes")
        return "only other lanes: a part of the state outlives an episode"
    subject.require_contained(actual, "lanes")
    return ""


def _holds_floats(x: Any) -> bool:
    """Returns whether the lanes of a leaf ``[B, ...]`` hold floats."""
    return not tree.is_shared(x) and jnp.issubdtype(x.dtype, jnp.inexact) and bool(x[0].size)


def any_number_of_lanes(subject: Subject) -> str:
    """One lane and several hundred lanes start like a few lanes with the same key, and step alike from equal states.

    The number of a lane decides its start, so that adding lanes leaves existing ones as they are. Zero lanes work or
    raise a ``ValueError``. The steps of one lane belong to ``batch_equals_single_lanes``.
    """
    numbers = np.arange(MANY_LANES, dtype=np.int32)
    one, many = (start(subject.take(n % LANES), subject.key, n) for n in (numbers[:1], numbers))
    few = take_lanes(subject.seeded_start, numbers[:1], axis=0)
    subject.same_starts(few, one, (f"in {LANES} lanes", "in 1 lane"), context="start")
    labels = (f"in {LANES} lanes", f"in {MANY_LANES} lanes")
    for lane in (0, MANY_LANES - LANES):
        some = numbers[lane : lane + LANES]
        few, expected = start(subject.take(some % LANES), subject.key, some), take_lanes(many, some, axis=0)
        subject.same_starts(few, expected, labels, context=f"start of {LANES} lanes from lane {lane} on")
    rollout, index = subject.rollout, numbers % LANES
    # In the first steps the lanes with the shortest time limits restart.
    taken = take_steps((rollout.after, rollout.before, rollout.actions), slice(10))
    expected, before, actions = take_lanes(taken, index)
    subject.same_steps(expected, replay(subject.take(index), before, actions), labels)
    try:
        jax.eval_shape(lambda env, keys: env.reset(keys), subject.with_lanes(0), subject.keys[0][:0])
    except ValueError as refusal:
        return f"zero lanes raise: {refusal}"
    return "zero lanes work"


def wrong_actions_refused(subject: Subject) -> None:
    """An action of the wrong batch size, structure or kind of dtype raises a ``ValueError`` that names both."""
    env = subject.env
    state, action = subject.shapes[0][0], action_shapes(env)

    def require_refused(wrong: Tree, description: str, *named: Any) -> None:
        try:
            jax.eval_shape(lambda env, *args: env.step(*args), env, state, wrong)
        except ValueError as error:
            if missing := [str(name) for name in named if str(name) not in str(error)]:
                raise Failure(f"the error for {description} does not name {missing[0]}: {error}") from None
        except Exception as error:
            raise Failure(f"{description} must raise a ValueError, it raises {described(error)}") from None
        else:
            raise Failure(f"{description} is accepted")

    for count in (1, LANES + 1) if jax.tree.leaves(action) else ():
        wrong = jax.tree.map(lambda s, n=count: jax.ShapeDtypeStruct((n, *s.shape[1:]), s.dtype), action)
        require_refused(wrong, f"an action of {count} lanes for {LANES}", count, LANES)
    require_refused({"surplus": action}, "an action of another structure", "surplus")
    if any(jnp.issubdtype(s.dtype, jnp.integer) for s in jax.tree.leaves(action)):
        wrong = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, jnp.float32), action)
        require_refused(wrong, "a float action for an integer spec", "float32")


def scalar_equals_per_lane(subject: Subject) -> str:
    """A value shared by all lanes equals the same value given per lane.

    A lane has the same results next to lanes with other values as next to lanes with the same value.
    """
    rollout = subject.rollout
    spread, names = per_lane(subject.stack, varied=False)
    require_applicable(names, "the environment has no value shared by all lanes")
    try:
        output_shapes(spread)
    except (TypeError, ValueError) as error:
        raise Failure(_refused_per_lane(subject.stack, names, error)) from None
    replayed = replay(spread, rollout.before, rollout.actions)
    subject.same_steps(rollout.after, replayed, ("with shared values", "with values per lane"))
    if subject.lanes_are_independent:
        varied, _ = per_lane(subject.stack, varied=True)
        together = replay(varied, rollout.before, rollout.actions)
        alone = _replay_lane_by_lane(varied, rollout, LANES)
        subject.same_steps(alone, together, ("next to equal lanes", "next to lanes with other values"))
    return ", ".join(names)


def _refused_per_lane(env: Environment, names: list[str], error: Exception) -> str:
    """Names the first value with which ``reset`` or ``step`` fails if given per lane, and shows how to use it there."""
    refused = ", ".join(names)
    for name in dict.fromkeys(names):
        try:
            output_shapes(per_lane(env, varied=False, only=name)[0])
        except (TypeError, ValueError) as error_of_name:
            refused, error = name, error_of_name
            break
    return (
        f"{refused} with one value per lane raises {described(error)}. Next to an array x with more axes than the "
        f"lanes, write tree.expand({refused}, x.ndim)"
    )
