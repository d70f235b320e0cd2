"""Episodes: starts, ends and the rows at both, restarts, and agents that leave before the end."""

import dataclasses
from typing import Any

import jax
import numpy as np

from jaxenv import tree
from jaxenv.core import has_batch_state
from jaxenv.core.environment import Environment
from jaxenv.core.levels import mutate_level, sample_level
from jaxenv.core.starts import Starts
from jaxenv.core.task import Task
from jaxenv.core.timestep import StepType, TimeStep
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.random import Clock
from jaxenv.testing._compare import require_equal, require_nowhere, take_steps, to_numpy, without
from jaxenv.testing._programs import LANES, LIMITS, in_mode, per_lane, quick, replay, start
from jaxenv.testing._subject import Rollout, Subject
from jaxenv.testing.report import Failure, require, require_applicable
from jaxenv.tree import Tree
from jaxenv.wrappers import BatchWrapper, TimeLimit
from jaxenv.wrappers.episode.autoreset import AutoResetState
from jaxenv.wrappers.episode.time_limit import TimeLimitState

FIRST, MID, LAST = (np.int32(kind) for kind in StepType)


def _transition(rows: TimeStep) -> Tree:
    return {name: getattr(rows, name) for name in ("step_type", "reward", "discount", "prev_action")}


def episode_grammar(subject: Subject) -> str:
    """Step types follow FIRST MID* LAST, and FIRST again; in ``same_step`` mode FIRST (MID or LAST)*.

    A FIRST row has reward 0, discount 1 and zeros in ``prev_action`` and in the ``env_info`` of a transition. On every
    other row, ``prev_action`` is the action passed to ``step``.
    """
    rollout = subject.rollout
    rows, kind = rollout.rows, rollout.step_type
    of_state = {"final_observation", *jax.eval_shape(subject.stack.env_info_of, take_steps(rollout.states, 0))}
    require_nowhere(~np.isin(kind, (FIRST, MID, LAST)), "unknown step_type", kind)
    require_nowhere(kind[:1] != FIRST, "step_type of a reset", kind)
    if subject.stack.autoreset == "same_step":
        require_nowhere(kind[1:] == FIRST, "FIRST from a step", kind[1:], first_step=1)
    else:
        require_nowhere((kind[1:] == FIRST) & (kind[:-1] != LAST), "FIRST not after LAST", kind[1:], first_step=1)
        require_nowhere((kind[1:] != FIRST) & (kind[:-1] == LAST), "no FIRST after LAST", kind[1:], first_step=1)
    of_transition = without(rows, (), of_state)
    for field, expected in (("reward", 0), ("discount", 1), ("prev_action", 0), ("env_info", 0)):
        for path, x in jax.tree_util.tree_leaves_with_path(getattr(of_transition, field)):
            rule = f"{field} {tree.path_name(path)}".rstrip() + " of a FIRST row"
            require_nowhere(x != np.asarray(expected, x.dtype), rule, x, where=kind == FIRST)
    shown = take_steps(rows.prev_action, slice(1, None))
    labels, acted = ("as passed", "as shown"), kind[1:] != FIRST
    require_equal(rollout.actions, shown, labels, name="prev_action", where=acted, first_step=1)
    return f"{int(np.sum(kind == FIRST))} FIRST rows, {int(np.sum(kind == LAST))} LAST rows"


def discount_zero_only_at_last(subject: Subject) -> str:
    """The discount lies in [0, 1] and is 0 only at LAST."""
    kind, discount = subject.rollout.step_type, np.asarray(subject.rollout.rows.discount)
    require_nowhere(~((discount >= 0) & (discount <= 1)), "discount outside of [0, 1]", discount)
    require_nowhere((discount == 0) & (kind != LAST), "discount of a row that is not LAST", discount)
    terminated = (kind == LAST) & (discount == 0)
    return f"{int(terminated.sum())} terminations, {int(np.sum((kind == LAST) & (discount > 0)))} truncations"


def time_limit_exact(subject: Subject) -> str:
    """``TimeLimit(n)`` ends episodes after exactly n steps, also with one n per lane, and changes nothing else.

    It is exact for an n of 70,000 too.
    """
    require_applicable(any(isinstance(x, TimeLimit) for x in layers(subject.env)), "the stack has no TimeLimit")
    limit = next(layer for layer in layers(subject.stack) if isinstance(layer, TimeLimit))  # with its limits
    others = [layer for layer in layers(limit.env) if isinstance(layer, TimeLimit)]
    several = any(isinstance(layer, Wrapper) and layer.place == "several_steps" for layer in layers(subject.stack))
    # The clock of a LAST row still belongs to the episode that ended in next_step mode only.
    if not others and not several and subject.stack.autoreset == "next_step":
        _require_exact(subject)  # else rows and clock do not show the counted steps
    states, actions = subject.state_of(limit, subject.rollout.before), subject.actions_of(limit)
    _, below = replay(limit.env, limit.inner(states), actions)
    _, rows = replay(limit, states, actions)
    reached = np.asarray(rows.env_info["time_limit_reached"])
    require(reached.any(), "no lane reached the limit, the check needs one")
    labels, owned = ("below TimeLimit", "above it"), ("step_type", *(("discount",) if limit.terminal else ()))
    expected, actual = (without(r, owned, ("time_limit_reached",)) for r in (below, rows))
    subject.same_steps(expected, actual, labels)
    require_equal(below.step_type, rows.step_type, labels, name="step_type", where=~reached, first_step=1)
    require_nowhere(reached & (rows.step_type != LAST), "step_type at the limit", rows.step_type, 1)
    if not others:
        _require_exact_when_late(limit, states, actions)
    return f"reached {int(reached.sum())} times"


def _require_exact(subject: Subject) -> None:
    """Episodes end at their limit at the latest, and ``time_limit_reached`` is true exactly there."""
    rollout = subject.rollout
    elapsed = np.asarray(subject.stack.clock(rollout.states).step)
    reached = np.asarray(rollout.rows.env_info["time_limit_reached"])
    wrong = (elapsed > LIMITS) | (reached != (elapsed == LIMITS))
    require_nowhere(wrong, "time_limit_reached is wrong, steps since FIRST", elapsed)
    require_nowhere((elapsed == LIMITS) & ~rollout.ends, "no LAST at the limit, steps since FIRST", elapsed)


_LATE = 70_000  # a time limit above the range of 16-bit integers


def _require_exact_when_late(limit: TimeLimit, states: Tree, actions: Tree) -> None:
    """Raises a `Failure` unless a long time limit is reached on its step."""
    num_steps = len(jax.tree.leaves(actions)[0])
    elapsed = np.broadcast_to(_LATE + np.arange(num_steps)[:, None] - num_steps // 2, (num_steps, LANES))

    def inject(node: Any) -> Any:
        if isinstance(node, Clock):
            return tree.rebuild(node, step=(elapsed - 1).astype(node.step.dtype))
        if isinstance(node, TimeLimitState):
            inner = jax.tree.map(inject, node.inner, is_leaf=_counts_steps)
            return TimeLimitState(inner, (elapsed - 1).astype(node.elapsed.dtype))
        return node

    late = jax.tree.map(inject, states, is_leaf=_counts_steps)
    limit = tree.rebuild(limit, duration=np.full(LANES, _LATE, np.int32))
    reached = np.asarray(replay(limit, late, actions)[1].env_info["time_limit_reached"])
    require_nowhere(reached != (elapsed >= _LATE), f"time_limit_reached is wrong, limit {_LATE}, step", elapsed, 1)


def _counts_steps(node: Tree) -> bool:
    return isinstance(node, Clock | TimeLimitState)


def boundary_keeps_step(subject: Subject) -> str:
    """``AutoReset`` keeps the reward, the discount and the terminal observation of the step that ends an episode.

    The other lanes are the same as without ``AutoReset``, in both modes.
    """
    core, count = subject.auto_reset.env, 0
    for mode in ("next_step", "same_step"):
        rollout = subject.roll_randomly(subject.variant(mode))
        _, expected = replay(core, rollout.before.inner, rollout.actions)
        _, rows = rollout.after
        stepped = ~np.asarray(rollout.before.ended) if mode == "next_step" else np.ones_like(rollout.ends[1:])
        last = np.asarray(rows.step_type) == LAST
        count += int(last.sum())
        of_state = jax.eval_shape(core.env_info_of, take_steps(rollout.before.inner, 0))
        shown = rows.env_info["final_observation"] if mode == "same_step" else rows.observation
        labels = ("without AutoReset", f"in {mode} mode")
        subject.same_steps(_transition(expected), _transition(rows), labels, where=stepped)
        subject.same_steps(expected.observation, shown, labels, name="observation", where=stepped)
        subject.same_steps(expected.observation, rows.observation, labels, name="observation", where=stepped & ~last)
        for name, value in expected.env_info.items():
            where = stepped & ~last if name in of_state and mode == "same_step" else stepped
            subject.same_steps(value, rows.env_info[name], labels, name=f"env_info.{name}", where=where)
    return f"{count} ends"


def modes_agree(subject: Subject) -> str:
    """``same_step`` mode equals ``next_step`` mode without FIRST rows, and ``compact`` equals ``select``.

    ``compact`` starts blocks of three lanes, for every number of lanes that restart at once. Each step starts
    from the states of the ``next_step`` rollout. Integers and flags agree bitwise, floats to 1e-5.
    """
    rollout = subject.roll_randomly(subject.variant("next_step"))
    _require_strategies_agree(subject, rollout)
    same_step = subject.variant("same_step")
    inner = rollout.before.inner
    states, rows = replay(same_step, AutoResetState(inner, ()), rollout.actions)
    begin, _ = start(same_step, subject.keys[0])
    subject.same_starts(take_steps(rollout.states.inner, 0), begin.inner, _MODES, context="start")
    stepped = ~np.asarray(rollout.before.ended)
    after_states, after = rollout.after
    subject.same_steps(_transition(after), _transition(rows), _MODES, where=stepped)
    of_state = jax.eval_shape(same_step.env.env_info_of, take_steps(inner, 0))
    expected = {"final_observation": after.observation, **without(after, (), of_state).env_info}
    actual = {name: rows.env_info[name] for name in expected}
    subject.same_steps(expected, actual, _MODES, name="env_info", where=stepped)
    # After LAST, the next row of the next_step rollout is the FIRST row that same_step mode shows at once.
    last = stepped & (np.asarray(after.step_type) == LAST)
    one, other = (
        {"observation": row.observation, "state": state.inner, "env_info": {n: row.env_info[n] for n in of_state}}
        for row, state in ((after, after_states), (rows, states))
    )
    subject.same_steps(one["env_info"], other["env_info"], _MODES, name="env_info", where=stepped & ~last)
    subject.same_steps(take_steps(one, slice(1, None)), take_steps(other, slice(None, -1)), _MODES, where=last[:-1])
    return f"{int(last[:-1].sum())} ends"


_MODES = ("in next_step mode", "in same_step mode")


def _require_strategies_agree(subject: Subject, rollout: Rollout) -> None:
    restarts = np.random.default_rng(0).random(rollout.ends[1:].shape) < np.linspace(0, 1, subject.num_steps)[:, None]
    before = dataclasses.replace(rollout.before, ended=restarts)
    expected = replay(subject.variant("next_step"), before, rollout.actions)
    block = 3  # not a divisor of the number of lanes
    compact = tree.rebuild(subject.variant("next_step", "compact"), block=block)
    others = {f"with compact, {block} lanes at a time": compact}
    if subject.strategy != "select":
        others["with select"] = subject.variant("next_step", "select")
    for label, env in others.items():
        subject.same_steps(expected, replay(env, before, rollout.actions), (f"with {subject.strategy}", label))


def restart_is_reset(subject: Subject) -> str:
    """A restart equals ``begin`` of the next episode: only what ``carry`` keeps outlives an episode.

    This holds for the caller's params, with another value in every lane, and not just for the defaults.
    The key and the id of the lane stay the same, and the clock counts every episode. A level of a task gives the same
    start under every key and in every lane, and a reset starts in the levels that its key samples. Where the task has
    ``mutate_level``, its results are such levels, too, and no lane's depends on other lanes.
    """
    _require_levels(subject)
    level = _frozen(subject.stack)
    rollout = _next_step_rollout(subject, level)
    level = in_mode(level, "next_step")
    restarted = rollout.step_type[1:] == StepType.FIRST
    require(restarted.any(), "no lane restarted, the check needs one")
    clock = to_numpy(level.clock(rollout.states))
    for name, value in (("key", clock.key), ("env_id", clock.env_id)):
        constant = jax.tree.map(lambda x: np.broadcast_to(x[:1], x.shape), value)
        require_equal(constant, value, ("at first", "later"), name=name)
    restarts = np.concatenate([np.zeros_like(restarted[:1]), restarted]).cumsum(axis=0, dtype=np.int32)
    labels = ("by counting restarts", "in the clock")
    require_equal(clock.episode[:1] + restarts, clock.episode, labels, name="episode")
    clock = take_steps(clock, slice(1, None))
    varied, names = subject.varied(level)
    reset, restart = to_numpy(_begin_twice(varied, clock, rollout.before))
    actual = replay(varied, rollout.before, rollout.actions)
    expected, actual = (
        jax.tree.map(lambda x: () if tree.is_shared(x) else x, x, is_leaf=tree.is_shared) for x in (restart, actual)
    )
    subject.same_steps(expected, actual, ("from begin", "from a restart"), where=restarted)
    if names:
        labels, context = ("from a reset", "from a restart"), f"with other values of {', '.join(names)}"
        (_, one), (_, other) = to_numpy(_begin_twice(per_lane(level, varied=False)[0], clock, rollout.before))
        # If restarts equal resets with the given values, then they do with other values, or these were dropped.
        try:
            require_equal(one, other, labels, tolerance=subject.rounding)
        except Failure:
            pass
        else:
            subject.same_steps(reset[1], restart[1], labels, context=context)
    return f"{int(restarted.sum())} restarts"


def _require_levels(subject: Subject) -> None:
    task = subject.env.unwrapped
    if not isinstance(task, Task):
        return
    one, _ = jax.random.split(subject.key)
    level = to_numpy(sample_level(task, one))
    sampled, given = _starts(task, one, level)
    subject.same_starts(sampled, given, ("from a reset", "from a reset in its levels"))
    _require_fixed_start(subject, task, level, "of one level")
    if type(task).mutate_level is not Task.mutate_level:
        mutated = mutate_level(task, level, one)  # raises unless the results are levels of the task
        _require_fixed_start(subject, task, mutated, "of one mutated level")
        count = LANES // 2
        labels = (f"in a batch of {LANES}", f"in a batch of {count}")
        alone = mutate_level(subject.with_lanes(count).unwrapped, take_steps(level, slice(count)), one)
        subject.same_starts(take_steps(mutated, slice(count)), alone, labels, context="mutate_level")


def _require_fixed_start(subject: Subject, task: Task, level: Tree, context: str) -> None:
    """Requires that each level fixes the start: under another key and in another lane it is the same."""
    one, other = jax.random.split(subject.key)
    reverse = lambda x: jax.tree.map(lambda leaf: leaf[::-1], x)  # noqa: E731
    here, elsewhere = (to_numpy(_starts(task, *x)[1][0].task) for x in ((one, level), (other, reverse(level))))
    labels = ("from a reset", "under another key, in another lane")
    subject.same_starts(reverse(here), elsewhere, labels, context=context)


@quick
def _starts(task: Task, key: jax.Array, level: Tree) -> tuple[Any, Any]:
    return task.reset(key), task.reset(key, level=level)


@quick
def _begin_twice(env: Environment, clock: Any, previous: Tree) -> tuple[Any, Any]:
    """Calls ``begin`` with each of the clocks ``[T, B]``, without and with each of the previous states."""

    def both(given: Any) -> tuple[Any, Any]:
        starts = Starts(given[0].key, given[0].env_id, given[0].episode)
        return env.begin(starts), env.begin(starts, given[1])

    return jax.lax.map(both, (clock, previous))


def _frozen(env: Environment) -> Environment:
    """Freezes the statistics of the stack: a restart does not learn from the row that a step would learn from."""
    if not isinstance(env, Wrapper) or not has_batch_state(env):
        return env
    changes = {"frozen": True} if isinstance(env, BatchWrapper) else {}
    return tree.rebuild(env, env=_frozen(env.env), **changes)


def _next_step_rollout(subject: Subject, env: Environment) -> Rollout:
    """Returns a rollout of ``env`` with FIRST rows: the shared one if possible."""
    if env is subject.stack and env.autoreset == "next_step":
        return subject.rollout
    return subject.roll_randomly(in_mode(env, "next_step"))


def agents_agree(subject: Subject) -> str:
    """An agent that has left, by ``env_info["agent_terminated"]``, gets no reward, and its action changes nothing.

    ``env_info["agent_alive"]`` says who is left. In a game of turns, ``env_info["player"]`` is the number of an agent,
    and every move passes the turn unless ``alternates`` is false.
    """
    env = subject.stack
    require_applicable(env.num_agents > 1, "a lane has one agent")
    if env.turns:
        player = subject.rollout.rows.env_info["player"]
        require_nowhere((player < 0) | (player >= env.num_agents), "env_info['player'] is not an agent", player)
        if env.alternates:
            rollout = _next_step_rollout(subject, env)
            player = np.asarray(rollout.rows.env_info["player"])
            repeated = (player[1:] == player[:-1]) & (rollout.step_type[1:] == StepType.MID)
            require_nowhere(repeated, "an agent moves twice in a row, and alternates is true", player[1:])
        return f"{env.num_agents} agents in turns"
    rollout, env = _next_step_rollout(subject, env), in_mode(env, "next_step")
    ended, gone = _departures(rollout)
    reward, moved = np.asarray(rollout.rows.reward), gone[1:]
    require_nowhere(gone & (reward != 0), "a reward of an agent that has left", reward)
    if moved.any():
        other = jax.tree.map(lambda x: np.where(tree.expand(moved, x.ndim), np.roll(x, 1, axis=0), x), rollout.actions)
        one, other = (without(replay(env, rollout.before, x)[1], ("prev_action",)) for x in (rollout.actions, other))
        subject.same_steps(one, other, ("with one action", "with another action of an agent that has left"))
    return f"{env.num_agents} agents at once, {int(ended.sum())} left early"


def _departures(rollout: Rollout) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows on which an agent leaves, and those on which it has left before, bool ``[T + 1, B, A]``."""
    info, gone = rollout.rows.env_info, np.zeros(np.shape(rollout.rows.reward), bool)
    if "agent_terminated" not in info:
        if "agent_alive" in info:
            raise Failure("env_info has 'agent_alive' without 'agent_terminated', which says when an agent leaves")
        return gone, gone
    leaves = np.asarray(info["agent_terminated"])
    for step in range(1, len(gone)):
        stays = (rollout.step_type[step] != StepType.FIRST)[:, None]
        gone[step] = (gone[step - 1] | leaves[step - 1]) & stays
    ended = leaves & ~gone
    if "agent_alive" in info:
        alive, expected = np.asarray(info["agent_alive"]), ~(gone | ended)
        require_equal(expected, alive, ("by agent_terminated", "in env_info"), name="agent_alive")
    return ended, gone
