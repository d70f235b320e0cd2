"""Where episodes begin and end, and what the rows there hold."""

from typing import Any

import jax
import numpy as np

from jaxenv import tree
from jaxenv.testing.compare import ROUNDING, host, lanes, place, require_equal, steps
from jaxenv.testing.report import Failure, NotApplicable
from jaxenv.testing.subject import LANES, LIMITS, NO_LIMIT, Rollout, Subject, replay, restarting, sample_actions, start
from jaxenv.timestep import StepType, TimeStep
from jaxenv.tree import Tree
from jaxenv.wrapper import Wrapper, layers
from jaxenv.wrappers import TimeLimit
from jaxenv.wrappers.autoreset import AutoResetState

FIRST, MID, LAST = (np.int32(kind) for kind in StepType)


def episode_grammar(subject: Subject) -> str:
    """FIRST comes from a reset alone; the rows read FIRST MID* LAST FIRST, in ``same_step`` FIRST (MID or LAST)*.

    A FIRST row has reward 0, discount 1, zeros for prev_action and for what env_info says about a transition; the
    prev_action of any other row is the action that was given.
    """
    made = subject.rollout
    rows, kind = made.rows, np.asarray(made.rows.step_type)
    _require_nowhere(~np.isin(kind, (FIRST, MID, LAST)), "step_type", kind)
    _require_nowhere(kind[:1] != FIRST, "step_type after reset", kind)
    if subject.stack.autoreset == "same_step":
        _require_nowhere(kind[1:] == FIRST, "a step gives FIRST", kind[1:], first_step=1)
    else:
        _require_nowhere((kind[1:] == FIRST) & (kind[:-1] != LAST), "FIRST not after LAST", kind[1:], first_step=1)
        _require_nowhere((kind[1:] != FIRST) & (kind[:-1] == LAST), "no FIRST after LAST", kind[1:], first_step=1)
    at_first = {
        "reward": (rows.reward, 0),
        "discount": (rows.discount, 1),
        "prev_action": (rows.prev_action, 0),
        "env_info": (_of_transition(subject, rows), 0),
    }
    for field, (values, wanted) in at_first.items():
        for path, x in jax.tree_util.tree_leaves_with_path(values):
            wrong = (x != np.asarray(wanted, x.dtype)) & tree.expand(kind == FIRST, x.ndim)
            _require_nowhere(wrong, f"at FIRST {field} {tree.path_name(path)}".rstrip(), x)
    given = steps(rows.prev_action, slice(1, None))
    require_equal(made.actions, given, "action and prev_action", where=kind[1:] != FIRST, first_step=1)
    return f"{int(np.sum(kind == FIRST))} FIRST rows, {int(np.sum(kind == LAST))} LAST"


def _of_transition(subject: Subject, rows: TimeStep) -> dict[str, Tree]:
    """The entries of env_info that describe a transition: those that do not describe the state."""
    of_state = jax.eval_shape(subject.stack.info_of_state, steps(subject.rollout.states, 0))
    return {n: x for n, x in rows.env_info.items() if n not in of_state and n != "final_observation"}


def _require_nowhere(wrong: np.ndarray, what: str, values: Any, first_step: int = 0) -> None:
    """Raises a `Failure` with the first place and value where ``wrong`` (``[T, B, ...]``) holds."""
    if np.any(wrong):
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise Failure(f"{what}{place(at, first_step=first_step)}: {np.asarray(values)[at]}")


def discount_zero_only_at_last(subject: Subject) -> str:
    """The discount is in [0, 1], and 0 at LAST only."""
    made = subject.rollout
    kind, discount = np.asarray(made.rows.step_type), np.asarray(made.rows.discount)
    _require_nowhere(~((discount >= 0) & (discount <= 1)), "discount", discount)
    _require_nowhere((discount == 0) & (kind != LAST), "discount at a row that is not LAST", discount)
    terminated = (kind == LAST) & (discount == 0)
    return f"{int(terminated.sum())} terminations, {int(np.sum((kind == LAST) & (discount > 0)))} truncations"


def time_limit_exact(subject: Subject) -> str:
    """``TimeLimit`` ends episodes after n steps exactly (n = 1 and others, one per lane) and changes nothing else."""
    limit = _own_time_limit(subject)
    made = subject.rollout
    others = [layer for layer in layers(limit.env) if isinstance(layer, TimeLimit)]
    if not others and not _steps_several(subject):  # else rows and clock do not tell what it counts
        _require_exact(subject, made)
    states = subject.below(made.before, limit)
    actions = sample_actions(limit, subject.key, subject.num_steps)
    given = host(replay(limit, states, actions))
    wanted = host(replay(limit.env, limit.inner(states), actions))
    reached = np.asarray(given[1].env_info["time_limit_reached"])
    if not reached.any():
        raise Failure("the limit was never reached: this shows nothing")
    wanted_rows, rows = (_without(t, limit.terminal) for t in (wanted[1], given[1]))
    require_equal(wanted_rows, rows, "below TimeLimit and above", tolerance=ROUNDING, first_step=1)
    require_equal(
        wanted[1].step_type, given[1].step_type, "step_type below TimeLimit and above", where=~reached, first_step=1
    )
    _require_nowhere(reached & (given[1].step_type != LAST), "step_type at the limit", given[1].step_type, 1)
    return f"reached {int(reached.sum())} times"


def _own_time_limit(subject: Subject) -> TimeLimit:
    """The outermost ``TimeLimit`` of the stack as given, with the limits of the shared rollout."""
    if not any(isinstance(layer, TimeLimit) for layer in layers(subject.given)):
        raise NotApplicable("there is no TimeLimit in the stack")
    return next(layer for layer in layers(subject.stack) if isinstance(layer, TimeLimit))


def _steps_several(subject: Subject) -> bool:
    """Whether a wrapper takes several steps of the environment in one, so that rows do not count them."""
    return any(isinstance(layer, Wrapper) and layer.multi_step for layer in layers(subject.stack))


def _require_exact(subject: Subject, made: Rollout) -> None:
    """No episode goes on past its limit, and the limit is reported where it is reached, nowhere else."""
    limits = np.broadcast_to(LIMITS, made.ends.shape)
    if subject.stack.autoreset == "next_step":  # the clock of a LAST row is still that of its episode
        elapsed = np.asarray(subject.clock(made).step)
        reached = np.asarray(made.rows.env_info["time_limit_reached"])
        late = (elapsed > limits) | (reached != (elapsed == limits))
        _require_nowhere(late, "steps since FIRST where the limit is reported wrongly", elapsed)
        _require_nowhere((elapsed == limits) & ~made.ends, "no LAST at the limit, steps since FIRST", elapsed)


def _without(rows: TimeStep, terminal: bool) -> TimeStep:
    """The rows without what ``TimeLimit`` owns."""
    rows = tree.set_field(rows, "step_type", ())
    rows = tree.set_field(rows, "discount", ()) if terminal else rows
    info = {n: x for n, x in rows.env_info.items() if n != "time_limit_reached"}
    return tree.set_field(rows, "env_info", info)


def both_ends_on_one_step(subject: Subject) -> str:
    """Where the task ends on the very step on which the limit is reached, the row is LAST with discount 0."""
    made = subject.rollout
    if _steps_several(subject):
        raise NotApplicable("rows do not count the environment's steps")
    terminated = made.ends & (np.asarray(made.rows.discount) == 0)
    first = np.argmax(made.ends, axis=0)  # the first end, if the task made it
    lengths = np.where(np.take_along_axis(terminated, first[None], axis=0)[0], first, NO_LIMIT).astype(np.int32)
    # A lane with a limit of its own may have ended by it before; one without ends its first episode there.
    lengths = np.where(LIMITS == NO_LIMIT, lengths, LIMITS)
    found = [lane for lane in range(LANES) if LIMITS[lane] == NO_LIMIT and lengths[lane] != NO_LIMIT]
    if not found:
        raise NotApplicable("no task ended by itself in the shared rollout")
    again = subject.roll(subject.keys[0], made.actions, restarting(subject.given, lengths))
    for lane in found:
        at = int(lengths[lane])
        row = lanes(steps(again.rows, at), lane, axis=0)
        if row.step_type != LAST or row.discount != 0:
            raise Failure(f"step_type and discount at step {at}, lane {lane}: {row.step_type} and {row.discount}")
        if not row.env_info.get("time_limit_reached", True):
            raise Failure(f"time_limit_reached at step {at}, lane {lane} is False")
    return f"in lanes {found}"


def boundary_keeps_step(subject: Subject) -> str:
    """At a boundary the ended lane's reward, discount and terminal observation are the step's own.

    The other lanes are what they are without auto-reset. Both modes are looked at.
    """
    core, count = subject.auto_reset.env, 0
    for mode in ("next_step", "same_step"):
        made = _variant_rollout(subject, mode)
        _, wanted = host(replay(core, made.before.inner, made.actions))
        _, rows = made.after
        stepped = ~np.asarray(made.before.ended) if mode == "next_step" else np.ones_like(made.ends[1:])
        last = np.asarray(rows.step_type) == LAST
        count += int(last.sum())
        shown, of_state = rows.observation, jax.eval_shape(core.info_of_state, steps(made.before.inner, 0))
        if mode == "same_step":
            shown = rows.env_info["final_observation"]
        for field in ("step_type", "reward", "discount", "prev_action"):
            _require_kept(field, mode, getattr(wanted, field), getattr(rows, field), stepped)
        _require_kept("observation", mode, wanted.observation, shown, stepped)
        _require_kept("observation", mode, wanted.observation, rows.observation, stepped & ~last)
        for name, value in wanted.env_info.items():
            where = stepped & ~last if name in of_state and mode == "same_step" else stepped
            _require_kept(f"env_info {name}", mode, value, rows.env_info[name], where)
    return f"{count} ends"


def _require_kept(what: str, mode: str, wanted: Tree, given: Tree, where: np.ndarray) -> None:
    text = f"{what} without AutoReset and in {mode}"
    require_equal(wanted, given, text, tolerance=ROUNDING, where=where, first_step=1)


def _variant_rollout(subject: Subject, mode: str) -> Rollout:
    env = subject.variant(mode)
    if mode == subject.stack.autoreset and env is subject.stack:
        return subject.rollout
    return subject.roll(subject.keys[0], sample_actions(env, subject.key, subject.num_steps), env)


def modes_agree(subject: Subject) -> str:
    """``same_step`` is ``next_step`` without FIRST rows, and ``compact`` is ``select``, step by step.

    Integers and flags bitwise, floats to 1e-5, each step from the states of the ``next_step`` rollout.
    """
    made = _variant_rollout(subject, "next_step")
    other = "select" if subject.strategy == "compact" else "compact"
    given = replay(subject.variant("next_step", other), made.before, made.actions)
    text = f"by {subject.strategy} and by {other}"
    require_equal(made.after, given, text, tolerance=ROUNDING, first_step=1)

    same = subject.variant("same_step")
    inner = made.before.inner
    states, rows = host(replay(same, AutoResetState(inner, ()), made.actions))
    begun = host(start(same, subject.keys[0], np.arange(LANES, dtype=np.int32)))
    text = "start in next_step and in same_step"
    require_equal(steps(made.states.inner, 0), begun[0].inner, text, tolerance=ROUNDING, axes=("lane",))
    stepped = ~np.asarray(made.before.ended)
    after_states, after = made.after
    for field in ("step_type", "reward", "discount", "prev_action"):
        _require_same(field, getattr(after, field), getattr(rows, field), stepped)
    of_state = jax.eval_shape(same.env.info_of_state, steps(inner, 0))
    for name, value in after.env_info.items():
        if name not in of_state:
            _require_same(f"env_info {name}", value, rows.env_info[name], stepped)
    _require_same("final_observation", after.observation, rows.env_info["final_observation"], stepped)
    # Where the episode ended, the row after next is the FIRST row of the next one.
    last = (stepped & (np.asarray(after.step_type) == LAST))[:-1]
    for what, x, y in (
        ("observation", steps(after.observation, slice(1, None)), rows.observation),
        ("state", steps(after_states.inner, slice(1, None)), states.inner),
    ):
        _require_same(what, x, steps(y, slice(None, -1)), last)
    return f"{int(last.sum())} ends"


def _require_same(what: str, wanted: Tree, given: Tree, where: np.ndarray) -> None:
    text = f"{what} in next_step and in same_step"
    require_equal(wanted, given, text, tolerance=ROUNDING, where=where, first_step=1)


def one_step_episodes(subject: Subject) -> str:
    """An episode may end on its very first step: the rows of such a lane alternate between FIRST and LAST."""
    lane = int(np.argmin(LIMITS))
    for mode, cycle in (("next_step", [FIRST, LAST]), ("same_step", [LAST])):
        made = _variant_rollout(subject, mode)
        kind = np.asarray(made.rows.step_type)[:, lane]
        wanted = np.array([FIRST, *cycle[::-1] * subject.num_steps][: len(kind)], np.int32)
        require_equal(wanted, kind, f"{mode}: step_type of lane {lane}, wanted and given,", axes=("step",))
    return f"lane {lane}"
