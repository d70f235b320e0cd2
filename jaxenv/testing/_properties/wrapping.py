"""Wrappers: allowed changes and preserved properties."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core._checks import actions as _actions
from jaxenv.core.environment import Environment
from jaxenv.core.starts import Starts
from jaxenv.core.timestep import StepType, TimeStep
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.testing._compare import require_equal, require_nowhere, require_within_bounds, take_steps, to_numpy, without
from jaxenv.testing._programs import in_mode, replay, require_rows_match_specs, start, with_limits, with_restarts
from jaxenv.testing._subject import Subject
from jaxenv.testing.report import NotApplicable, require, require_applicable
from jaxenv.tree import Tree
from jaxenv.wrappers import ActionWrapper, AutoReset, FixedResetKey, LaneWrapper, TimeLimit


def owned_fields_only(subject: Subject) -> str:
    """A wrapper changes only the fields of the TimeStep that it owns, compared with the environment it wraps.

    Params differ between lanes. Other properties cover ``AutoReset`` and ``TimeLimit``. Wrappers that choose actions
    are not compared.
    """
    checked = []
    for layer in layers(subject.stack)[:-1]:
        if not isinstance(layer, Wrapper) or isinstance(layer, AutoReset | TimeLimit | FixedResetKey):
            continue
        if layer.place != "several_steps" and not _chooses_actions(layer):
            _require_same_rows(subject, layer)
            checked.append(type(layer).__name__)
    if not checked:
        raise NotApplicable("the stack has no wrapper except AutoReset, TimeLimit and wrappers that choose actions")
    return ", ".join(checked)


def _chooses_actions(layer: Wrapper) -> bool:
    """Returns whether the actions that a wrapper passes on may depend on more than the action it receives."""
    owns = "prev_action" in layer.owns and not isinstance(layer, ActionWrapper)
    return owns or (isinstance(layer, LaneWrapper) and layer.rewrites_action)


def _require_same_rows(subject: Subject, layer: Wrapper) -> None:
    name, states = type(layer).__name__, subject.state_of(layer, subject.rollout.before)
    labels, layer = (f"inside {name}", "outside of it"), subject.varied(layer)[0]
    info = ("final_observation",) if "observation" in layer.owns else ()
    inside, outside = (without(start(env, subject.keys[0])[1], layer.owns, info) for env in (layer.env, layer))
    subject.same_starts(inside, outside, labels, context="reset")
    actions = subject.actions_of(layer)
    outside = replay(layer, states, actions)[1]
    inside = replay(layer.env, layer.inner(states), _inner_actions(layer, actions))[1]
    inside, outside = (without(rows, layer.owns, info) for rows in (inside, outside))
    subject.same_steps(inside, outside, labels, context="step")


def _inner_actions(layer: Environment, actions: Tree) -> Tree:
    """Returns the actions ``[T, B, ...]`` that a wrapper passes to the environment it wraps."""
    if not isinstance(layer, ActionWrapper):
        return actions
    inner = lambda action: layer.action(_actions.clip_discrete(layer.action_spec(), action))  # noqa: E731
    return to_numpy(jax.jit(lambda actions: jax.lax.map(inner, actions))(actions))


def specs_at_boundaries(subject: Subject) -> str:
    """Every level of the stack matches its specs, and observations are within bounds where episodes start and end.

    This includes the final observations of ``same_step`` mode, for every wrapper outside of ``AutoReset``. On rows
    other than LAST they equal the observations, which a wrapper that changes only the latter would break.
    """
    for level in layers(subject.stack)[:-1]:
        require_rows_match_specs(level, f" of {type(level).__name__}")
    count = 0
    for env in _in_every_mode(subject.stack):
        mode = env.autoreset
        require_rows_match_specs(env, f" in {mode} mode")
        rollout = subject.rollout if mode == subject.stack.autoreset else subject.roll_randomly(env)
        boundaries = rollout.ends | (rollout.step_type == StepType.FIRST)
        shown: dict[str, Tree] = {"observation": rollout.rows.observation}
        if mode == "same_step":
            shown["final_observation"] = rollout.rows.env_info["final_observation"]
            labels = ("observation in same_step mode", "env_info['final_observation']")
            both, kept = (shown["observation"], shown["final_observation"]), ~rollout.ends
            require_equal(*both, labels, name="observation", tolerance=subject.rounding, where=kept)
        for name, values in shown.items():
            require_within_bounds(f"{name} in {mode} mode", env.observation_spec(), values, boundaries)
        count += int(boundaries.sum())
    return f"{count} rows"


def _in_every_mode(env: Environment) -> Iterator[Environment]:
    """Yields the stack in each mode of ``AutoReset`` that it can have."""
    for mode in ("next_step", "same_step"):
        changed = env
        with contextlib.suppress(ValueError):  # a wrapper refuses the mode
            changed = env if mode == env.autoreset else in_mode(env, mode)
        if changed.autoreset == mode:  # a task may restart its own lanes
            yield changed


# --- properties of some wrappers -------------------------------------------------------------------------------------


def noop_settings(subject: Subject) -> str:
    """With the settings in its ``noop_kwargs``, such as ``num=1``, a wrapper is the identity.

    It may still add entries to ``env_info`` and axes of length 1.
    """
    checked = []
    for layer in layers(subject.env):
        if isinstance(layer, Wrapper) and layer.noop_kwargs:
            settings = ", ".join(f"{k}={v}" for k, v in layer.noop_kwargs.items())
            checked.append(f"{type(layer).__name__}({settings})")
            _require_identity(subject, layer, checked[-1])
    require_applicable(checked, "no wrapper in the stack declares noop_kwargs")
    return ", ".join(checked)


def _require_identity(subject: Subject, layer: Wrapper, name: str) -> None:
    noop = dataclasses.replace(layer, **layer.noop_kwargs)
    rollout, labels = subject.roll_randomly(noop), (f"inside {name}", "outside of it")

    def require(expected: Tree, actual: Tree, context: str, first_step: int) -> None:
        states, rows = actual
        rows = without(rows, (), rows.env_info.keys() - expected[1].env_info.keys())
        rows = jax.tree.map(lambda x, y: y.reshape(x.shape) if x.size == y.size else y, expected[1], rows)
        actual = (noop.inner(states), rows)
        require_equal(expected, actual, labels, context=context, tolerance=subject.rounding, first_step=first_step)

    expected = jax.tree.map(lambda x: x[None], start(layer.env, subject.keys[0]))
    require(expected, take_steps((rollout.states, rollout.rows), slice(None, 1)), "reset", 0)
    require(replay(layer.env, noop.inner(rollout.before), rollout.actions), rollout.after, "step", 1)


def statistics_exact(subject: Subject) -> str:
    """``env_info["episode"]`` equals a recomputed return and length on LAST rows, and is zero on all others."""
    # The innermost level with statistics, since wrappers outside of it may change the reward.
    for level in reversed(layers(subject.env)):
        episode = level.start_shapes()[1].env_info.get("episode")
        if isinstance(episode, Mapping) and {"return", "length"} <= episode.keys():
            break
    else:
        raise NotApplicable('env_info has no "episode"')
    count = 0
    for env in _in_every_mode(with_restarts(level)):
        rollout = subject.roll_randomly(env)
        reward, last = np.asarray(rollout.rows.reward), rollout.ends
        total, length = np.zeros_like(reward), (rollout.step_type != StepType.FIRST).astype(np.int32)
        for t in range(1, len(last)):
            goes_on = ~last[t - 1]
            total[t] = reward[t] + np.where(tree.expand(goes_on, reward[t].ndim), total[t - 1], 0)
            length[t] += np.where(goes_on, length[t - 1], 0)
        expected = {"return": np.where(tree.expand(last, total.ndim), total, 0), "length": np.where(last, length, 0)}
        shown = {name: rollout.rows.env_info["episode"][name] for name in expected}
        require_equal(expected, shown, ("recomputed", f"in {env.autoreset} mode"), name="episode", tolerance=1e-4)
        count += int(last.sum())
    require(count, "no episode ended, the check needs one")
    return f"{count} episodes"


def repeat_stops_at_end(subject: Subject) -> str:
    """A wrapper that takes several steps at once takes none past the end of an episode, and shows the end.

    Its state is the state after the last of these steps, and no later reward enters its row. If
    ``env_info["num_env_frames"]`` counts the steps, its reward is the sum of theirs.
    """
    repeating = [x for x in layers(subject.env) if isinstance(x, Wrapper) and x.place == "several_steps"]
    checked = [_require_stops(subject, layer) for layer in repeating if not _chooses_actions(layer)]
    require_applicable(any(checked), "no wrapper in the stack takes several steps at once")
    return ", ".join(filter(None, checked))


@tree.struct
class _PastEndState:
    inner: Tree
    ended: jax.Array


class _PaysPastEnd(Wrapper):
    """Adds ``pay`` to the reward of every step past the end of an episode."""

    pay: float = 0.0

    owns = frozenset({"reward"})
    keeps_specs = frozenset({"reward"})

    def inner(self, state: Tree) -> Tree:
        return state.inner

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        return _PastEndState(state, jnp.zeros(starts.env_id.shape, bool)), timestep

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        inner, timestep = self.env.proceed(state.inner, action)
        pay = tree.expand(jnp.where(state.ended, self.pay, np.float32(0)), timestep.reward.ndim)
        timestep = dataclasses.replace(timestep, reward=timestep.reward + pay)
        return _PastEndState(inner, state.ended | timestep.is_last()), timestep


def _require_stops(subject: Subject, layer: Wrapper) -> str:
    """Checks one wrapper; returns a remark, empty if none of its steps takes several steps of the environment."""
    name, core = type(layer).__name__, _PaysPastEnd(with_limits(layer.env))
    level = tree.rebuild(layer, env=core)
    rollout = subject.roll_randomly(AutoReset(level))
    states, stepped = rollout.before.inner, ~np.asarray(rollout.before.ended)
    after, rows = replay(level, states, rollout.actions)
    actions = _inner_actions(level, rollout.actions)
    target = np.asarray(level.clock(after).step)
    now, reward, taken = level.inner(states), np.zeros_like(rows.reward), np.zeros_like(target)
    final, frames, ended = now, np.zeros_like(target), np.zeros_like(stepped)
    for _ in range(int(np.max(target - np.asarray(level.clock(states).step)))):
        active = stepped & (np.asarray(core.clock(now).step) < target)
        now, row = replay(core, now, actions)
        taken = taken + active
        continues = active & (np.asarray(core.clock(now).step) < target)
        reward = reward + np.where(tree.expand(active, reward.ndim), row.reward, np.float32(0))
        frames = frames + np.where(active, row.env_info.get("num_env_frames", np.ones_like(frames)), 0)
        last = np.asarray(row.step_type) == StepType.LAST
        require_nowhere(continues & last, f"{name} continues after a step that ends the episode", taken, 1)
        ended |= active & last
        final = jax.tree.map(lambda x, y, a=active: np.where(tree.expand(a, x.ndim), x, y), now, final)
    if taken.max() <= 1:
        return ""

    generous = tree.rebuild(level, env=tree.rebuild(core, pay=np.float32(1000)))
    labels = ("where steps past the end pay 0", "where they pay 1000")
    _, paid = replay(generous, states, rollout.actions)
    subject.same_steps(rows, paid, labels, context=name, where=stepped)
    labels = ("step by step", f"with {name}")
    subject.same_steps(final, level.inner(after), labels, name="state", where=stepped)
    last = np.full_like(rows.step_type, StepType.LAST)
    subject.same_steps(last, rows.step_type, labels, name="step_type", where=ended)
    if (shown := rows.env_info.get("num_env_frames")) is not None:
        subject.same_steps((reward, frames), (rows.reward, shown), labels, name="reward and frames", where=stepped)
    cut = stepped & (taken < taken.max())
    require(cut.any(), "no repeat was cut short, the check needs one")
    return f"{name}: {int(cut.sum())} of {int(stepped.sum())} cut short"
