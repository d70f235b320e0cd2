"""Values: bounds, finiteness, integers that overflow, out-of-range actions and masks."""

from typing import Any

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv.core.timestep import StepType
from jaxenv.core.wrapper import layers
from jaxenv.testing._compare import require_equal, require_finite, require_nowhere, require_within_bounds, take_steps
from jaxenv.testing._programs import LIMITS, NO_LIMIT, replay, run, run_on, sample
from jaxenv.testing._subject import Subject, poisoned
from jaxenv.testing.report import Failure, require, require_applicable
from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import is_key
from jaxenv.wrappers import ClipAction, GuardNonFinite

# Bounds this large are not tighter than the range of the dtype.
_LARGE = np.finfo(np.float32).max / 2
_MANY_STEPS = 1000


def within_specs(subject: Subject) -> None:
    """Observation, reward and discount lie within their specs on every row, including LAST rows and final observations.

    Bounds are tighter than the range of the dtype, and samples of the specs are finite and within the bounds.
    """
    env, rows = subject.stack, subject.rollout.rows
    spec = env.time_step_spec()
    for field in ("observation", "reward", "discount"):
        require_within_bounds(field, getattr(spec, field), getattr(rows, field))
    if "final_observation" in rows.env_info:
        require_within_bounds("final_observation", spec.observation, rows.env_info["final_observation"])
    observations = sample(spec.observation, subject.key, (32, 1))
    samples = (("observation", spec.observation, observations), ("action", env.action_spec(), subject.actions[0]))
    for name, field_spec, values in samples:
        _require_tight_bounds(name, field_spec)
        require_finite(values, f"a sample of the {name} spec")
        require_within_bounds(f"a sample of the {name} spec", field_spec, values)


def _require_tight_bounds(what: str, spec: Tree) -> None:
    for path, s in jax.tree_util.tree_leaves_with_path(spec):
        if not isinstance(s, specs.Bounded) or not s.numel:
            continue
        if s.is_continuous:
            vacuous = bool(np.all(np.minimum(np.abs(s.minimum), np.abs(s.maximum)) >= _LARGE))
        else:  # an image may use all 256 values of a byte
            limits = np.iinfo(s.dtype) if s.dtype.itemsize > 1 else None
            vacuous = limits is not None and bool(np.all((s.minimum == limits.min) & (s.maximum == limits.max)))
        if vacuous:
            name = f"{what} {tree.path_name(path)}".rstrip()
            raise Failure(f"the bounds of {name} are the range of {s.dtype}: give tighter ones or use specs.Array")


def stays_finite(subject: Subject) -> str:
    """All values stay finite over 1,000 random steps, and while the smallest or largest action is repeated.

    An integer of 8 or 16 bits that counts steps or episodes does not overflow, however long an episode lasts.
    """
    env, rollout = subject.stack, subject.rollout
    generator = np.random.default_rng(0)
    both = jax.tree.map(lambda *x: np.concatenate(x), *subject.actions)
    now, count = rollout.start, 0
    while count < _MANY_STEPS:
        chosen = generator.permutation(2 * subject.num_steps)[: subject.num_steps]
        states, rows = run(env, *now, take_steps(both, chosen))
        require_finite((states, rows), "with random actions", first_step=count)
        now, count = take_steps((states, rows), -1), count + subject.num_steps
    for sign, name in ((-1, "smallest"), (1, "largest")):
        actions = jax.tree.map(lambda s, a, sign=sign: _extreme(s, a, sign), env.action_spec(), rollout.actions)
        require_finite(run(env, *rollout.start, actions), f"with the {name} action repeated")
    _require_no_overflow(subject)
    return f"{count} steps"


def _extreme(spec: Any, actions: np.ndarray, sign: int) -> np.ndarray:
    """Returns the action at one end of its bounds, on every step; a large action if there is no bound."""
    if not isinstance(spec, specs.Bounded):
        return np.full_like(actions, 100 * sign) if spec.dtype.kind in "fiV" else actions
    bound = spec.minimum if sign < 0 else spec.maximum
    extreme = bound if spec.is_discrete else np.clip(bound, -100, 100).astype(spec.dtype)
    return np.broadcast_to(extreme, actions.shape).astype(actions.dtype)


def actions_clipped(subject: Subject) -> None:
    """An out-of-range action acts like the nearest legal one: always if discrete, under ``ClipAction`` if continuous.

    ``prev_action`` holds the action as passed.
    """
    # Layers outside of ClipAction see the unclipped action and may store or show it.
    env = next((layer for layer in layers(subject.stack) if isinstance(layer, ClipAction)), subject.stack)
    spec, actions, before = env.action_spec(), subject.actions_of(env), subject.state_of(env, subject.rollout.before)

    def is_clipped(s: specs.Array) -> bool:
        if not isinstance(s, specs.Bounded) or s.dtype.kind == "b" or not s.numel:
            return False
        return s.is_discrete or (isinstance(env, ClipAction) and s.is_bounded)

    require_applicable(any(map(is_clipped, jax.tree.leaves(spec))), "no action is bounded and clipped")
    for by in (-1, 1):
        outside = jax.tree.map(lambda s, a, by=by: _beyond(s, a, by) if is_clipped(s) else a, spec, actions)
        nearest = jax.tree.map(_clip, spec, outside)
        expected, actual = replay(env, before, nearest), replay(env, before, outside)
        shown, acted = actual[1].prev_action, np.asarray(actual[1].step_type != StepType.FIRST)
        labels, rounding = ("as passed", "as shown"), subject.rounding
        require_equal(outside, shown, labels, name="prev_action", where=acted, tolerance=rounding)
        expected, actual = ((states, tree.set_field(rows, "prev_action", ())) for states, rows in (expected, actual))
        subject.same_steps(expected, actual, ("with the nearest legal action", "with an out-of-range action"))


def _beyond(spec: specs.Bounded, actions: np.ndarray, by: int) -> np.ndarray:
    """Replaces the actions of every other step by ones beyond a bound."""
    bound = specs.aligned(spec.minimum if by < 0 else spec.maximum, actions.ndim).astype(actions.dtype)
    if spec.is_discrete:
        limits = np.iinfo(spec.dtype)
        far = np.clip(bound.astype(np.int64) + 5 * by, limits.min, limits.max).astype(spec.dtype)
    else:
        far = bound + np.asarray(by, actions.dtype)
    odd = tree.expand(np.arange(actions.shape[0]) % 2 == 1, actions.ndim)
    return np.where(odd, far, actions)


def _clip(spec: Any, actions: np.ndarray) -> np.ndarray:
    if not isinstance(spec, specs.Bounded) or spec.dtype.kind == "b":
        return actions
    return np.clip(actions, specs.aligned(spec.minimum, actions.ndim), specs.aligned(spec.maximum, actions.ndim))


def nan_action_contained(subject: Subject) -> str:
    """A NaN or infinite action reaches no other lane, no ``prev_action`` and no later episode.

    Under ``GuardNonFinite``, rows contain neither NaN nor infinity.
    """
    spec, rollout = subject.stack.action_spec(), subject.rollout
    require_applicable(any(s.is_continuous for s in jax.tree.leaves(spec)), "no action is continuous")

    def poison(s: Any, x: Any) -> Any:  # on the first step, since no restart ignores its action
        return np.concatenate([poisoned(x[0])[None], x[1:]]) if s.is_continuous else x

    actual = subject.roll(subject.keys[0], jax.tree.map(poison, spec, rollout.actions))
    require_finite(actual.rows.prev_action, "prev_action after a NaN action")
    guarded = any(isinstance(layer, GuardNonFinite) for layer in layers(subject.stack))
    if guarded:
        require_finite(actual.rows, "under GuardNonFinite, after a NaN action: timestep")
    if subject.lanes_are_independent:
        subject.require_contained(actual, "the actions of lanes")
    return "guarded" if guarded else "contained"


def finite_past_end(subject: Subject) -> str:
    """Without ``AutoReset``, stepping a lane past LAST keeps all values finite and starts no episode."""
    env, rollout = subject.auto_reset.env, subject.rollout
    states, rows = run_on(env, subject.state_of(env, rollout.start[0]), rollout.actions)
    ended = np.logical_or.accumulate(rows.step_type == StepType.LAST, axis=0)
    require(ended[:-1].any(), "no lane ended, the check needs one")
    require_finite((states, rows), "after LAST", where=ended, first_step=1)
    require_nowhere(rows.step_type == StepType.FIRST, "FIRST without a reset", rows.step_type, first_step=1)
    return f"{int(ended[:-1].sum())} steps past LAST"


def mask_leaves_an_action(subject: Subject) -> None:
    """An action mask leaves at least one legal action wherever the environment uses the action."""
    rows = subject.rollout.rows
    require_applicable("action_mask" in rows.env_info, "env_info has no action_mask")
    mask = np.asarray(rows.env_info["action_mask"])
    used = np.ones(mask.shape[:2], bool) if subject.stack.autoreset == "same_step" else ~subject.rollout.ends
    spec = subject.stack.action_spec()
    joint = specs.is_spec(spec) and mask.shape[2:-1] != spec.shape  # one flag for each combination of several integers
    allowed = mask.any(axis=tuple(range(2, mask.ndim)) if joint else -1)
    require_nowhere(~allowed, "no action is legal", mask, where=used)


def _require_no_overflow(subject: Subject) -> None:
    """Raises a `Failure` if an integer of 8 or 16 bits in the state counts steps or episodes until it wraps around.

    An integer that only ever grows by one is given each value of its dtype from its smallest one on. It may stop
    growing or end the episode at some value, like an index into a deck or a board.
    """
    rollout, kind = subject.rollout, subject.rollout.step_type[1:]
    goes_on = (kind == StepType.MID) & (LIMITS == NO_LIMIT)
    restarts = kind == (StepType.LAST if subject.stack.autoreset == "same_step" else StepType.FIRST)
    for number, (path, x) in enumerate(jax.tree_util.tree_leaves_with_path(rollout.states, is_leaf=tree.is_shared)):
        if tree.is_shared(x) or is_key(x) or x.dtype.kind not in "iu" or x.dtype.itemsize > 2:
            continue
        name, grows = f"state {tree.path_name(path)}".rstrip(), np.diff(x.astype(np.int32), axis=0)
        for counted, where in (("steps", goes_on), ("episodes", restarts)):
            inside = tree.expand(where, grows.ndim) & np.ones_like(grows, bool)
            if np.any(grows[inside] == 1) and np.all(np.isin(grows[inside], (0, 1))):
                _require_bounded(subject, number, f"{name} counts {counted}", inside & (grows == 1))


def _require_bounded(subject: Subject, number: int, what: str, grows: np.ndarray) -> None:
    """Raises a `Failure` if a leaf grows by one from all values of its dtype and then wraps around.

    ``number`` counts the leaves of the state, `tree.Shared` subtrees as one; ``what`` names the leaf in the evidence;
    ``grows`` has its elements that grow by one in the shared rollout, bool ``[T, B, ...]``.
    """
    rollout, steps = subject.rollout, np.flatnonzero(grows.any(axis=tuple(range(1, grows.ndim))))
    states, structure = jax.tree.flatten(rollout.before, is_leaf=tree.is_shared)
    x, limit = states[number], np.iinfo(states[number].dtype).max
    values = np.arange(int(x.min()), int(limit) + 1)
    for begin in range(0, len(values), subject.num_steps):
        value = np.resize(values[begin : begin + subject.num_steps], subject.num_steps)
        at = np.resize(steps, subject.num_steps)
        changed = [take_steps(leaf, at) for leaf in states]
        changed[number] = np.broadcast_to(tree.expand(value, x.ndim), x.shape).astype(x.dtype)
        after, rows = replay(subject.stack, jax.tree.unflatten(structure, changed), take_steps(rollout.actions, at))
        y, looked = jax.tree.leaves(after, is_leaf=tree.is_shared)[number], grows[at]
        lanes = looked.reshape(*looked.shape[:2], -1).any(axis=-1)
        if np.any(lanes & (rows.step_type != rollout.step_type[1:][at])):
            return
        expected = tree.expand(value, x.ndim) + 1
        if np.any(looked & (y != expected) & (expected <= limit)):
            return
        wraps = looked & (expected > limit) & (y < limit)
        if np.any(wraps):
            raise Failure(f"{what} as {x.dtype}: {y[wraps][0]} follows {limit}")
