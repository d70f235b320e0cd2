"""What a wrapper may change, and what it must leave alone."""

import dataclasses
from collections.abc import Mapping

import jax
import numpy as np

from jaxenv import _actions, specs, tree
from jaxenv.environment import Environment
from jaxenv.testing.checks.structure import require_rows_of_spec
from jaxenv.testing.compare import ROUNDING, host, place, require_equal, steps
from jaxenv.testing.report import Failure, NotApplicable
from jaxenv.testing.subject import (
    LANES,
    LIMITS,
    Subject,
    in_mode,
    limited,
    replay,
    restarting,
    sample_actions,
    shapes,
    start,
)
from jaxenv.timestep import StepType, TimeStep
from jaxenv.tree import Tree
from jaxenv.wrapper import Wrapper, layers
from jaxenv.wrappers import ActionWrapper, AutoReset, FixedResetKey, LaneWrapper, TimeLimit


def owned_fields_only(subject: Subject) -> str:
    """A wrapper changes no field of the TimeStep but those that it owns: each level is compared with the one inside.

    ``AutoReset`` and ``TimeLimit`` have properties of their own.
    """
    looked_at = []
    for layer in layers(subject.stack)[:-1]:
        if isinstance(layer, Wrapper) and _comparable(layer):
            _require_same_rows(subject, layer)
            looked_at.append(type(layer).__name__)
    if not looked_at:
        raise NotApplicable("no wrapper in the stack but AutoReset, TimeLimit and those that act by themselves")
    return ", ".join(looked_at)


def _comparable(layer: Wrapper) -> bool:
    """Whether start and action that go in are known from those that are given."""
    return not (isinstance(layer, AutoReset | TimeLimit | FixedResetKey) or layer.multi_step or _acts(layer))


def _acts(layer: Wrapper) -> bool:
    """Whether a wrapper chooses actions of its own: what it hands in cannot be told from outside."""
    owns = "prev_action" in layer.owns and not isinstance(layer, ActionWrapper)
    return owns or (isinstance(layer, LaneWrapper) and layer.rewrites_action)


def _require_same_rows(subject: Subject, layer: Wrapper) -> None:
    name = type(layer).__name__
    keys, numbers = subject.keys[0], np.arange(LANES, dtype=np.int32)
    inside, outside = (host(start(env, keys, numbers)[1]) for env in (layer.env, layer))
    text = f"inside {name} and outside"
    require_equal(*_unowned(layer, inside, outside), f"reset, {text}", tolerance=ROUNDING, axes=("lane",))
    states = subject.below(subject.rollout.before, layer)
    given = sample_actions(layer, subject.key, subject.num_steps)
    outside = host(replay(layer, states, given)[1])
    inside = host(replay(layer.env, layer.inner(states), _passed_in(layer, given))[1])
    require_equal(*_unowned(layer, inside, outside), f"step, {text}", tolerance=ROUNDING, first_step=1)


def _passed_in(layer: Environment, given: Tree) -> Tree:
    """The actions ``[T, B, ...]`` that a wrapper hands to the environment inside."""
    if not isinstance(layer, ActionWrapper):
        return given
    spec = layer.action_spec()
    return host(
        jax.jit(lambda given: jax.lax.map(lambda a: layer.action(_actions.clip_discrete(spec, a)), given))(given)
    )


def _unowned(layer: Wrapper, inside: TimeStep, outside: TimeStep) -> tuple[TimeStep, TimeStep]:
    """Both rows without the fields that the wrapper owns, final observations going with observations."""
    for field in layer.owns:
        inside, outside = (tree.set_field(rows, field, ()) for rows in (inside, outside))
    if "observation" in layer.owns and "env_info" not in layer.owns:
        inside, outside = (_without_final(rows) for rows in (inside, outside))
    return inside, outside


def _without_final(rows: TimeStep) -> TimeStep:
    return _without_info(rows, {"final_observation"})


def _without_info(rows: TimeStep, names: set[str]) -> TimeStep:
    return tree.set_field(rows, "env_info", {n: x for n, x in rows.env_info.items() if n not in names})


def specs_at_boundaries(subject: Subject) -> str:
    """Every level of the stack fits its own specs, and where episodes begin and end observations are in bounds.

    So is the final observation of a ``same_step`` stream, whatever stands outside of ``AutoReset``.
    """
    for level in layers(subject.stack)[:-1]:
        require_rows_of_spec(level, f" of {type(level).__name__}")
    count = 0
    for mode in ("next_step", "same_step"):
        env = _in_mode_or_none(subject.stack, mode)
        if env is None:
            continue
        shared = env.autoreset == subject.stack.autoreset
        made = subject.rollout if shared else subject.roll(subject.keys[0], subject.actions[0], env)
        ends = made.ends | (np.asarray(made.rows.step_type) == StepType.FIRST)
        shown = {"observation": made.rows.observation}
        if mode == "same_step":
            shown["final_observation"] = made.rows.env_info["final_observation"]
        for what, values in shown.items():
            _require_bounds(f"{what} in {mode}", env.observation_spec(), values, ends)
        count += int(ends.sum())
    return f"{count} rows"


def _in_mode_or_none(env: Environment, mode: str) -> Environment | None:
    """The stack in another mode, or nothing where a wrapper outside of ``AutoReset`` refuses it."""
    if mode == env.autoreset:
        return env
    try:
        return in_mode(env, mode)
    except ValueError:
        return None


def _require_bounds(what: str, spec: Tree, values: Tree, where: np.ndarray) -> None:
    if tree.structure(spec) != tree.structure(values):
        raise Failure(f"{what} is {tree.structure(values)}, its spec {tree.structure(spec)}")
    for (path, s), x in zip(jax.tree_util.tree_leaves_with_path(spec), jax.tree.leaves(values), strict=True):
        name = f"{what} {tree.path_name(path)}".rstrip()
        if (x.shape[2:], x.dtype) != (s.shape, s.dtype):
            raise Failure(f"{name} is {x.dtype}{list(x.shape[2:])}, its spec says {s.dtype}{list(s.shape)}")
        if isinstance(s, specs.Bounded):
            low, high = (specs.aligned(bound, x.ndim) for bound in (s.minimum, s.maximum))
            outside = ~((x >= low) & (x <= high)) & tree.expand(where, x.ndim)
            if np.any(outside):
                at = tuple(int(i) for i in np.argwhere(outside)[0])
                raise Failure(f"{name}{place(at)} is {x[at]}, out of the bounds of {s}")


# --- what single wrappers promise ------------------------------------------------------------------------------------


def noop_settings(subject: Subject) -> str:
    """With the settings that a wrapper declares for its ``noop_kwargs`` (probability 0, repeat 1) it changes nothing.

    Entries of env_info that it adds and axes of length 1 aside.
    """
    said = []
    for layer in layers(subject.given):
        if isinstance(layer, Wrapper) and layer.noop_kwargs:
            _require_identity(subject, layer)
            said.append(f"{type(layer).__name__}({', '.join(f'{k}={v}' for k, v in layer.noop_kwargs.items())})")
    if not said:
        raise NotApplicable("no wrapper in the stack declares noop_kwargs")
    return ", ".join(said)


def _require_identity(subject: Subject, layer: Wrapper) -> None:
    same = dataclasses.replace(layer, **layer.noop_kwargs)
    made = subject.roll(subject.keys[0], sample_actions(same, subject.key, subject.num_steps), same)
    text = f"inside {type(layer).__name__} and outside, {', '.join(f'{k}={v}' for k, v in layer.noop_kwargs.items())}"

    def require(wanted: Tree, given: Tree, what: str, first_step: int) -> None:
        states, rows = given
        rows = _without_info(rows, rows.env_info.keys() - wanted[1].env_info.keys())
        rows = jax.tree.map(lambda x, y: y.reshape(x.shape) if x.size == y.size else y, wanted[1], rows)
        require_equal(wanted, (same.inner(states), rows), what, tolerance=ROUNDING, first_step=first_step)

    begun = host(start(layer.env, subject.keys[0], np.arange(LANES, dtype=np.int32)))
    first = steps((made.states, made.rows), slice(None, 1))
    require(jax.tree.map(lambda x: x[None], begun), first, f"reset, {text}", 0)
    require(host(replay(layer.env, same.inner(made.before), made.actions)), made.after, text, 1)


def statistics_exact(subject: Subject) -> str:
    """``env_info["episode"]`` holds return and length of every finished episode, recomputed, and zeros elsewhere."""
    # The innermost level that shows them: what stands outside may pay something else.
    level = next((x for x in reversed(layers(subject.given)) if _shows_statistics(x)), None)
    if level is None:
        raise NotApplicable('env_info has no "episode"')
    count = 0
    for mode in ("next_step", "same_step"):
        env = _in_mode_or_none(restarting(level), mode)
        if env is None:
            continue
        made = subject.roll(subject.keys[0], sample_actions(env, subject.key, subject.num_steps), env)
        reward, kind = np.asarray(made.rows.reward, np.float64), np.asarray(made.rows.step_type)
        shown = made.rows.env_info["episode"]
        total, length = np.zeros_like(reward[0]), np.zeros(LANES, np.int32)
        for t in range(1, len(kind)):
            counted = kind[t] != StepType.FIRST
            total, length = total + reward[t], length + counted
            last = kind[t] == StepType.LAST
            wanted = {"return": np.where(tree.expand(last, total.ndim), total, 0), "length": np.where(last, length, 0)}
            for name, value in wanted.items():
                far = ~np.isclose(np.asarray(shown[name][t]), value, rtol=1e-4, atol=1e-4)
                if np.any(far):
                    at = tuple(int(i) for i in np.argwhere(far)[0])
                    raise Failure(f"{name} in {mode}{place((t, *at))}: {shown[name][t][at]}, recomputed {value[at]}")
            count += int(last.sum())
            total, length = np.where(tree.expand(last, total.ndim), 0, total), np.where(last, 0, length)
    if not count:
        raise Failure("no episode ended: this shows nothing")
    return f"{count} episodes"


def _shows_statistics(level: Environment) -> bool:
    shown = shapes(level)[0][1].env_info.get("episode")
    return isinstance(shown, Mapping) and {"return", "length"} <= shown.keys()


def repeat_stops_at_end(subject: Subject) -> str:
    """A wrapper that takes several steps at once takes none past the end, and shows the end.

    Its state is the one where they ended. Where ``env_info["num_env_frames"]`` counts them, its reward is their sum.
    """
    several = [x for x in layers(subject.given) if isinstance(x, Wrapper) and x.multi_step and not _acts(x)]
    said = [text for layer in several if (text := _require_stops(subject, layer))]
    if not said:
        raise NotApplicable("no wrapper in the stack takes several steps at once")
    return ", ".join(said)


def _require_stops(subject: Subject, layer: Wrapper) -> str:
    """What was seen; nothing if no step of the wrapper takes several of the environment."""
    name, core = type(layer).__name__, limited(layer.env, LIMITS)
    level = tree.rebuild(layer, env=core)
    env = AutoReset(level)
    made = subject.roll(subject.keys[0], sample_actions(env, subject.key, subject.num_steps), env)
    states, stepped = made.before.inner, ~np.asarray(made.before.ended)
    after, rows = host(replay(level, states, made.actions))
    given = _passed_in(level, made.actions)
    target = np.asarray(level.clock(after).step)
    now, reward, taken = level.inner(states), np.zeros_like(rows.reward), np.zeros_like(target)
    final, frames, ended = now, np.zeros_like(target), np.zeros_like(stepped)
    for _ in range(int(np.max(target - np.asarray(level.clock(states).step)))):
        going = stepped & (np.asarray(core.clock(now).step) < target)
        now, row = host(replay(core, now, given))
        taken = taken + going
        goes_on = going & (np.asarray(core.clock(now).step) < target)
        reward = reward + np.where(tree.expand(going, reward.ndim), row.reward, np.float32(0))
        frames = frames + np.where(going, row.env_info.get("num_env_frames", np.ones_like(frames)), 0)
        last = np.asarray(row.step_type) == StepType.LAST
        if np.any(over := goes_on & last):
            at = tuple(int(j) for j in np.argwhere(over)[0])
            raise Failure(f"{name}{place(at, first_step=1)} goes on after its step {taken[at]}, which ends the episode")
        ended |= going & last
        final = jax.tree.map(lambda x, y, g=going: np.where(tree.expand(g, x.ndim), x, y), now, final)
    if taken.max() <= 1:
        return ""

    def require(wanted: Tree, shown: Tree, what: str, where: np.ndarray) -> None:
        require_equal(wanted, shown, what, tolerance=ROUNDING, where=where, first_step=1)

    require(final, level.inner(after), f"step by step and by {name}: the state", stepped)
    if not level.removes_ends:
        require(np.full_like(rows.step_type, StepType.LAST), rows.step_type, f"the end and by {name}: step_type", ended)
    if "num_env_frames" in rows.env_info:
        require(reward, rows.reward, f"summed and by {name}: reward", stepped)
        require(frames, rows.env_info["num_env_frames"], "frames counted and reported", stepped)
    cut = stepped & (taken < taken.max())
    if not cut.any():
        raise Failure("no repeat was cut short: this shows nothing")
    return f"{name}: {int(cut.sum())} of {int(stepped.sum())} cut short"
