"""The lane law: lane i depends on its own key, actions and params alone."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._declared import Declared, map_declared
from jaxenv.testing.compare import ROUNDING, host, lanes, require_equal, require_finite, steps
from jaxenv.testing.report import Failure, NotApplicable
from jaxenv.testing.subject import (
    LANES,
    LIMITS,
    MORE_LANES,
    Rollout,
    Subject,
    action_shapes,
    carries,
    lane_numbers,
    replay,
    restarting,
    run,
    shapes,
    start,
)
from jaxenv.tree import Tree


def alone(env: Any, made: Rollout) -> Tree:
    """Every step of a rollout made again lane by lane, in batches of one: states and rows ``[T, B, ...]``."""
    single = []
    for lane in range(LANES):
        at = np.array([lane])
        given = lanes((made.before, made.actions), at)
        single.append(host(replay(env.take(jnp.asarray(at, jnp.int32)), *given)))
    return jax.tree.map(lambda *x: np.concatenate(x, axis=1), *single)


def batch_equals_single_lanes(subject: Subject) -> None:
    """A batch is a stack of B = 1 runs with the same lane keys: starts, and every step from the same state.

    Words, integers and flags bitwise, floats to 1e-5; so many single steps that equal each other are one rollout.
    """
    made = subject.rollout
    for lane in range(LANES):
        own = subject.stack.take(jnp.array([lane], jnp.int32))
        begun = start(own, subject.keys[0][lane : lane + 1], lane_numbers(LANES)[lane : lane + 1])
        wanted = lanes(steps((made.states, made.rows), 0), slice(lane, lane + 1), axis=0)
        require_equal(begun, wanted, f"start of lane {lane}, alone and in a batch", tolerance=ROUNDING, axes=())
    wanted = alone(subject.stack, made)
    require_equal(wanted, made.after, "alone and in a batch", tolerance=ROUNDING, first_step=1)


def permutation_equivariant(subject: Subject) -> None:
    """Lanes that change places take their streams along."""
    made, order = subject.rollout, np.array([4, 0, 6, 5, 1, 3, 2])
    env = subject.stack.take(jnp.asarray(order, jnp.int32))
    begun = start(env, subject.keys[0][order], lane_numbers(LANES)[order])
    wanted = lanes(steps((made.states, made.rows), 0), order, axis=0)
    require_equal(wanted, begun, "start in place and moved", tolerance=ROUNDING, axes=("lane",))
    moved = replay(env, *lanes((made.before, made.actions), order))
    wanted = lanes(made.after, order)
    require_equal(wanted, moved, "in place and moved", tolerance=ROUNDING, first_step=1)


def lane_independent(subject: Subject) -> str:
    """Lane i stays as it is, to the bit, when the others have other keys, actions and so states, and end elsewhere."""
    made, seen = subject.rollout, 0
    for lane in range(LANES):
        keys, actions = (_with_lane(other, own, lane) for own, other in (subject.keys, subject.actions))
        # Their limits too: a neighbour that ends at the same steps in both runs does the same harm in both.
        limits = np.where(np.arange(LANES) == lane, LIMITS, np.roll(LIMITS + 1, 1))
        changed = subject.roll(keys, actions, restarting(subject.given, limits))
        others = np.delete(changed.ends, lane, axis=1).any(axis=1)
        seen += int(np.sum(others & ~changed.ends[:, lane]))
        wanted, given = (lanes((m.states, m.rows), lane) for m in (made, changed))
        require_equal(wanted, given, f"lane {lane}, before and after the others changed", axes=("step",))
    if seen < 3 and not made.of_one_step:
        raise Failure(f"only {seen} steps on which others ended and the lane did not: this shows nothing")
    return f"{seen} times others ended and the lane did not"


def _with_lane(others: Tree, own: Tree, lane: int) -> Tree:
    """Keys ``[B]`` or actions ``[T, B, ...]`` of other lanes, those of one lane kept."""

    def keep(other, mine):
        if isinstance(other, jax.Array):  # keys
            return other.at[lane].set(mine[lane])
        changed = np.copy(other)
        changed[:, lane] = mine[:, lane]
        return changed

    return jax.tree.map(keep, others, own)


def nan_contained(subject: Subject) -> str:
    """NaN and infinity in the state of one lane reach neither another lane nor the lane's next episode.

    Where the environment's ``carry`` keeps numbers for the next episode, only the other lanes are looked at.
    """
    made, env, poisoned = subject.rollout, subject.stack, {2: np.nan, 4: np.inf}
    begun = steps((made.states, made.rows), 0)
    state, count = _poisoned(begun[0], poisoned)
    if not count:
        raise NotApplicable("the state holds no floats")
    states, rows = host(run(env, state, begun[1], made.actions))
    clean = np.broadcast_to(~np.isin(np.arange(LANES), list(poisoned)), made.ends.shape)
    text = f"beside clean lanes and beside lanes {list(poisoned)} with NaN and infinity"
    require_equal((made.states, made.rows), (states, rows), text, where=clean)
    if carries(env):
        return "carry takes numbers along"
    for lane in poisoned:
        fresh = (np.asarray(env.clock(states).episode) > 0) & (np.arange(LANES) == lane)
        if not fresh.any():
            raise Failure(f"lane {lane} never began another episode: this shows nothing")
        # In same_step the first row with the next state is still the last one of the episode before.
        later = fresh & np.roll(fresh, 1, axis=0) if env.autoreset == "same_step" else fresh
        require_finite(states, "an episode after NaN or infinity: state", where=fresh)
        require_finite(rows, "an episode after NaN or infinity: timestep", where=later)
    return ""


def _poisoned(state: Tree, values: dict[int, float]) -> tuple[Tree, int]:
    """A state with NaN and the like in all floats of some lanes, and how many leaves hold floats."""
    count = 0

    def poison(x):
        nonlocal count
        if isinstance(x, tree.Shared) or not jnp.issubdtype(x.dtype, jnp.inexact) or not x[0].size:
            return x
        count += 1
        x = np.array(x)
        for lane, value in values.items():
            x[lane] = value
        return x

    return jax.tree.map(poison, state, is_leaf=lambda x: isinstance(x, tree.Shared)), count


def any_number_of_lanes(subject: Subject) -> str:
    """One lane, odd and prime numbers of lanes work alike; none at all works or is refused by a ``ValueError``."""
    made = subject.rollout
    for count in (1, MORE_LANES):
        index = np.arange(count) % LANES
        env = subject.stack.take(jnp.asarray(index, jnp.int32))
        given = replay(env, *lanes((made.before, made.actions), index))
        wanted = lanes(made.after, index)
        require_equal(wanted, given, f"of {LANES} and of {count} lanes", tolerance=ROUNDING, first_step=1)
    try:
        none = subject.env.take(jnp.zeros(0, jnp.int32))
        jax.eval_shape(lambda env, keys: env.reset(keys), none, subject.keys[0][:0])
    except ValueError as refusal:
        return f"no lanes: {refusal}"
    return "no lanes: works"


def growth_invariant(subject: Subject) -> None:
    """More lanes leave the old ones as they were, from one key: starts, and every step from the same states."""
    reset = jax.jit(lambda env, key: env.reset(key))
    few, many = (host(reset(subject.of_lanes(count), subject.key)) for count in (LANES, MORE_LANES))
    text = f"of {LANES} and of {MORE_LANES} lanes"
    require_equal(few, lanes(many, slice(LANES), axis=0), f"start {text}", tolerance=ROUNDING, axes=("lane",))
    made, index = subject.rollout, np.arange(MORE_LANES) % LANES
    grown = subject.stack.take(jnp.asarray(index, jnp.int32))
    given = host(replay(grown, *lanes((made.before, made.actions), index)))
    require_equal(made.after, lanes(given, slice(LANES)), text, tolerance=ROUNDING, first_step=1)


def wrong_actions_refused(subject: Subject) -> None:
    """An action of the wrong batch size, structure or kind of dtype raises a ``ValueError`` that names both."""
    env = subject.given
    state, action = shapes(env)[0][0], action_shapes(env)

    def refused(given: Tree, what: str, *named: Any) -> None:
        try:
            jax.eval_shape(lambda env, *args: env.step(*args), env, state, given)
        except ValueError as error:
            if missing := [str(name) for name in named if str(name) not in str(error)]:
                raise Failure(f"the refusal of {what} does not name {missing[0]}: {error}") from None
        except Exception as error:
            raise Failure(f"{what} raises {type(error).__name__}, no ValueError: {error}") from None
        else:
            raise Failure(f"{what} passes")

    for count in (1, LANES + 1):
        wrong = jax.tree.map(lambda s, n=count: jax.ShapeDtypeStruct((n, *s.shape[1:]), s.dtype), action)
        if jax.tree.leaves(action):
            refused(wrong, f"an action of {count} lanes for {LANES}", count, LANES)
    refused({"surplus": action}, "an action of another structure", jax.tree.structure({"surplus": action}))
    if any(jnp.issubdtype(s.dtype, jnp.integer) for s in jax.tree.leaves(action)):
        wrong = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, jnp.float32), action)
        refused(wrong, "a float action for an integer spec", "float32")


def scalar_equals_per_lane(subject: Subject) -> str:
    """A number shared by all lanes equals the same number per lane; lanes with their own equal runs of their own."""
    made = subject.rollout
    names: list[str] = []
    spread = per_lane(subject.stack, names, varied=False)
    if not names:
        raise NotApplicable("the environment has no number that all lanes share")
    given = replay(spread, made.before, made.actions)
    require_equal(made.after, given, "one number and one per lane", tolerance=ROUNDING, first_step=1)
    if "batch_equals_single_lanes" in subject.opt_outs:  # its lanes are not what they are alone
        return ", ".join(names)
    mixed = per_lane(subject.stack, [], varied=True)
    together = replay(mixed, made.before, made.actions)
    require_equal(
        alone(mixed, made), together, "alone and with other params beside it", tolerance=ROUNDING, first_step=1
    )
    return ", ".join(names)


def per_lane(env: Any, names: list[str], *, varied: bool) -> Any:
    """The stack with every shared number given once per lane; ``varied`` makes the floats of the lanes differ.

    The names of these numbers are appended to ``names``.
    """

    def spread(d: Declared):
        if d.per_lane or d.dtype is None:
            return d.value
        names.append(d.path.split(".")[-1])
        value = np.asarray(d.value)
        rows = np.broadcast_to(value, (LANES, *value.shape)).copy()
        if varied and rows.dtype.kind == "f":
            rows *= tree.expand(1 - np.arange(LANES, dtype=np.float32) / (10 * LANES), rows.ndim)
        return rows

    return map_declared(spread, env)
