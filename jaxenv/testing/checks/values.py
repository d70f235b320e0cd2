"""Numbers: bounds, finiteness, actions out of range, masks."""

from typing import Any

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv.testing.compare import ROUNDING, host, place, require_equal, require_finite, steps
from jaxenv.testing.report import Failure, NotApplicable
from jaxenv.testing.subject import Subject, replay, run, sample_actions, start
from jaxenv.timestep import StepType
from jaxenv.tree import Tree
from jaxenv.wrapper import layers
from jaxenv.wrappers import ClipAction, GuardNonFinite

# A bound that only says how large numbers of the dtype get says nothing.
_LARGE = np.finfo(np.float32).max / 2
_MANY_STEPS = 1000


def within_specs(subject: Subject) -> None:
    """Observation, reward and discount are in spec on every row, LAST rows and final observations included.

    The bounds say something, and samples of the specs are finite and within them.
    """
    env, rows = subject.stack, subject.rollout.rows
    spec = env.time_step_spec()
    for field in ("observation", "reward", "discount"):
        _require_within(field, getattr(spec, field), getattr(rows, field))
    if "final_observation" in rows.env_info:
        _require_within("final_observation", spec.observation, rows.env_info["final_observation"])
    for what, wanted in (("observation", spec.observation), ("action", env.action_spec())):
        _require_telling(what, wanted)
        sample = host(jax.jit(lambda key, s=wanted: specs.sample(s, key, (32, 1)))(subject.key))
        require_finite(sample, f"a sample of the {what} spec")
        _require_within(f"a sample of the {what} spec", wanted, sample)


def _require_within(what: str, spec: Tree, rows: Tree) -> None:
    """Raises a `Failure` at the first element ``[T, B, ...]`` that is out of its bounds, NaN included."""
    for (path, s), x in zip(jax.tree_util.tree_leaves_with_path(spec), jax.tree.leaves(rows), strict=True):
        if isinstance(s, specs.Bounded):
            low, high = (specs.aligned(bound, x.ndim) for bound in (s.minimum, s.maximum))
            outside: np.ndarray = ~((x >= low) & (x <= high))
            if np.any(outside):
                at = tuple(int(i) for i in np.argwhere(outside)[0])
                bounds = tuple(np.broadcast_to(b, x.shape)[at] for b in (low, high))
                name = f"{what} {tree.path_name(path)}".rstrip()
                raise Failure(f"{name}{place(at)} is {x[at]}, its bounds are {bounds[0]} and {bounds[1]}")


def _require_telling(what: str, spec: Tree) -> None:
    for path, s in jax.tree_util.tree_leaves_with_path(spec):
        if not isinstance(s, specs.Bounded) or not s.numel:
            continue
        if s.is_continuous:
            vacuous = bool(np.all(np.minimum(np.abs(s.minimum), np.abs(s.maximum)) >= _LARGE))
        else:  # all 256 values of a byte are a picture's
            limits = np.iinfo(s.dtype) if s.dtype.itemsize > 1 else None
            vacuous = limits is not None and bool(np.all((s.minimum == limits.min) & (s.maximum == limits.max)))
        if vacuous:
            name = f"{what} {tree.path_name(path)}".rstrip()
            raise Failure(f"the bounds of {name} are those of every {s.dtype}: say specs.Array, or what they are")


def stays_finite(subject: Subject) -> str:
    """Everything stays finite over a thousand random steps, and with each extreme action held."""
    env, made = subject.stack, subject.rollout
    shuffled = np.random.default_rng(0)
    both = jax.tree.map(lambda *x: np.concatenate(x), *subject.actions)
    begun = steps((made.states, made.rows), 0)
    now, done = begun, 0
    while done < _MANY_STEPS:
        chosen = shuffled.permutation(2 * subject.num_steps)[: subject.num_steps]
        states, rows = host(run(env, *now, steps(both, chosen)))
        require_finite((states, rows), "random actions", first_step=done)
        now, done = steps((states, rows), -1), done + subject.num_steps
    extremes = (specs.Bounded.minimum, specs.Bounded.maximum)
    for end, name in zip(extremes, ("least", "greatest"), strict=True):
        held = jax.tree.map(lambda s, a, end=end: _held(s, a, end), env.action_spec(), made.actions)
        require_finite(host(run(env, *begun, held)), f"the {name} action held")
    return f"{done} steps"


def _held(spec: Any, actions: np.ndarray, end: property) -> np.ndarray:
    """The action at one end of its bounds, always; where there is no such end, a large one."""
    sign = -1 if end is specs.Bounded.minimum else 1
    if not isinstance(spec, specs.Bounded):
        return np.full_like(actions, 100 * sign) if spec.dtype.kind in "fiV" else actions
    bound = end.fget(spec)  # type: ignore[misc]
    large = bound if spec.is_discrete else np.clip(bound, -100, 100).astype(spec.dtype)
    return np.broadcast_to(large, actions.shape).astype(actions.dtype)


def actions_clipped(subject: Subject) -> None:
    """An action out of range acts as the nearest within it: discrete ones always, continuous ones under ClipAction.

    ``prev_action`` holds the action as it was given.
    """
    # What stands outside of ClipAction sees the action as it was given, and may remember or show it.
    env = next((layer for layer in layers(subject.stack) if isinstance(layer, ClipAction)), subject.stack)
    clips, moved = env is not subject.stack or isinstance(env, ClipAction), False
    before = subject.below(subject.rollout.before, env)
    actions = sample_actions(env, subject.key, subject.num_steps)

    def beyond(spec, actions, by):
        nonlocal moved
        if not isinstance(spec, specs.Bounded) or spec.dtype.kind == "b" or not spec.numel:
            return actions
        if spec.is_continuous and not (clips and spec.is_bounded):
            return actions
        moved = True
        if spec.is_continuous:
            return _pushed(spec, actions, by)
        limits = np.iinfo(spec.dtype)
        far = _pushed(spec, actions.astype(np.int64), 5 * by)
        return np.clip(far, limits.min, limits.max).astype(spec.dtype)

    for by in (-1, 1):
        given = jax.tree.map(lambda s, a, by=by: beyond(s, a, by), env.action_spec(), actions)
        if not moved:
            raise NotApplicable("no action is bounded and clipped")
        nearest = jax.tree.map(_nearest, env.action_spec(), given)
        wanted, got = host(replay(env, before, nearest)), host(replay(env, before, given))
        acting = got[1].step_type != StepType.FIRST
        require_equal(given, got[1].prev_action, "action and prev_action", where=acting, tolerance=ROUNDING)
        wanted, got = ((states, tree.set_field(rows, "prev_action", ())) for states, rows in (wanted, got))
        require_equal(wanted, got, "the nearest action and one out of range", tolerance=ROUNDING, first_step=1)


def _pushed(spec: specs.Bounded, actions: np.ndarray, by: int) -> np.ndarray:
    """Half of the actions (every other step) beyond one of their bounds."""
    bound = specs.aligned(spec.minimum if by < 0 else spec.maximum, actions.ndim).astype(actions.dtype)
    far = np.broadcast_to(bound + np.asarray(by, actions.dtype), actions.shape)
    odd = tree.expand(np.arange(actions.shape[0]) % 2 == 1, actions.ndim)
    return np.where(odd, far, actions)


def _nearest(spec: Any, actions: np.ndarray) -> np.ndarray:
    if not isinstance(spec, specs.Bounded) or spec.dtype.kind == "b":
        return actions
    return np.clip(actions, specs.aligned(spec.minimum, actions.ndim), specs.aligned(spec.maximum, actions.ndim))


def nan_action_contained(subject: Subject) -> str:
    """NaN and infinity for an action reach no other lane, no ``prev_action`` and no later episode.

    Under ``GuardNonFinite`` nothing of them is ever seen.
    """
    spec, made = subject.stack.action_spec(), subject.rollout
    if not any(s.is_continuous for s in jax.tree.leaves(spec)):
        raise NotApplicable("no action is continuous")
    poisoned, step = {2: np.nan, 4: np.inf}, 0  # the first one, which no restart ignores

    def poison(s, x):
        x = np.copy(x)
        for lane, value in poisoned.items():
            x[step, lane] = value if s.is_continuous else x[step, lane]
        return x

    actions = jax.tree.map(poison, spec, made.actions)
    given = subject.roll(subject.keys[0], actions)
    clean = np.broadcast_to(~np.isin(np.arange(made.ends.shape[1]), list(poisoned)), made.ends.shape)
    text = f"beside clean actions and beside NaN and infinity in lanes {list(poisoned)}"
    if "batch_equals_single_lanes" not in subject.opt_outs:
        require_equal((made.states, made.rows), (given.states, given.rows), text, where=clean)
    require_finite(given.rows.prev_action, "prev_action after a NaN action")
    guarded = any(isinstance(layer, GuardNonFinite) for layer in layers(subject.stack))
    if guarded:
        require_finite(given.rows, "under GuardNonFinite, after a NaN action: timestep")
    fresh = np.asarray(subject.clock(given).episode) > np.asarray(subject.clock(given).episode)[step]
    if not fresh[:, list(poisoned)].any():
        raise Failure("no poisoned lane began another episode: this shows nothing")
    later = fresh & np.roll(fresh, 1, axis=0) if subject.stack.autoreset == "same_step" else fresh
    if "batch_equals_single_lanes" not in subject.opt_outs:
        require_finite(given.states, "an episode after a NaN action", where=fresh)
        require_finite(given.rows, "an episode after a NaN action", where=later)
    return "cond" if guarded else "contained"


def finite_past_end(subject: Subject) -> str:
    """Without auto-reset a lane may be stepped past LAST: numbers stay finite, and nothing begins anew."""
    env, made = subject.auto_reset.env, subject.rollout
    begun = start(env, subject.keys[0], np.arange(made.ends.shape[1], dtype=np.int32))
    states, rows = host(run(env, *begun, made.actions))
    ended = np.logical_or.accumulate(rows.step_type == StepType.LAST, axis=0)
    if not ended[:-1].any():
        raise Failure("no lane ended: this shows nothing")
    require_finite((states, rows), "after LAST", where=ended)
    again = np.argwhere(rows.step_type[1:] == StepType.FIRST)
    if len(again):
        raise Failure(f"FIRST without a reset{place(again[0], first_step=1)}")
    return f"{int(ended[:-1].sum())} steps past LAST"


def mask_leaves_an_action(subject: Subject) -> None:
    """An action mask leaves at least one legal action wherever an action is asked for."""
    rows = subject.rollout.rows
    if "action_mask" not in rows.env_info:
        raise NotApplicable("env_info has no action_mask")
    mask = np.asarray(rows.env_info["action_mask"])
    asked = np.ones(mask.shape[:2], bool) if subject.stack.autoreset == "same_step" else ~subject.rollout.ends
    none = np.argwhere(~mask.any(axis=-1) & asked)
    if len(none):
        raise Failure(f"no action is legal{place(none[0])}: {mask[tuple(none[0])]}")
