"""Restarts: which state they reset, and wrappers with state on either side."""

from typing import Any

import jax
import numpy as np

from jaxenv import tree
from jaxenv.core import has_batch_state
from jaxenv.core.environment import Environment
from jaxenv.core.levels import mutate_level, sample_level
from jaxenv.core.starts import Starts
from jaxenv.core.task import Task
from jaxenv.core.timestep import StepType
from jaxenv.core.wrapper import Wrapper
from jaxenv.testing._compare import require_equal, take_steps, to_numpy
from jaxenv.testing._programs import quick, replay
from jaxenv.testing._stacks import LANES, in_mode, per_lane
from jaxenv.testing._subject import Rollout, Subject
from jaxenv.testing.report import Failure
from jaxenv.tree import Tree
from jaxenv.wrappers import BatchWrapper


def restart_is_reset(subject: Subject) -> str:
    """A restart equals ``begin`` of the next episode: only what ``carry`` keeps outlives an episode.

    This holds for the caller's params, with another value in every lane, and not just for the defaults.
    The key and the id of the lane stay the same, and the clock counts every episode. A level of a task gives the same
    start under every key and in every lane, and a reset starts in the levels that its key samples. Where the task has
    ``mutate_level``, its results are such levels, too, and no lane's depends on other lanes.
    """
    _require_levels(subject)
    level = _frozen(subject.stack)
    rollout = next_step_rollout(subject, level)
    level = in_mode(level, "next_step")
    restarted = rollout.step_type[1:] == StepType.FIRST
    if not restarted.any():
        raise Failure("no lane restarted, the check needs one")
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
    labels = ("from begin", "from a restart")
    expected, actual = (
        jax.tree.map(lambda x: () if tree.is_shared(x) else x, x, is_leaf=tree.is_shared) for x in (restart, actual)
    )
    subject.same_steps(expected, actual, labels, where=restarted)
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
    labels = ("from a reset", "from a reset in its levels")
    sampled, given = _starts(task, one, level)
    subject.same_starts(sampled, given, labels)
    _require_fixed_start(subject, task, level, "of one level")
    if type(task).mutate_level is not Task.mutate_level:
        mutated = mutate_level(task, level, one)  # raises unless the results are levels of the task
        _require_fixed_start(subject, task, mutated, "of one mutated level")
        count = LANES // 2
        few = lambda x: jax.tree.map(lambda leaf: leaf[:count], x)  # noqa: E731
        labels = (f"in a batch of {LANES}", f"in a batch of {count}")
        alone = mutate_level(subject.with_lanes(count).unwrapped, few(level), one)
        subject.same_starts(few(mutated), alone, labels, context="mutate_level")


def _require_fixed_start(subject: Subject, task: Task, level: Tree, context: str) -> None:
    """Requires that each level fixes the start: under another key and in another lane it is the same."""
    one, other = jax.random.split(subject.key)
    reverse = lambda x: jax.tree.map(lambda leaf: leaf[::-1], x)  # noqa: E731
    here, elsewhere = (to_numpy(_starts(task, *x)[1][0].task) for x in ((one, level), (other, reverse(level))))
    labels = ("from a reset", "under another key, in another lane")
    subject.same_starts(reverse(here), elsewhere, labels, context=context)


@quick
def _starts(task: Task, key: jax.Array, level: Tree) -> tuple[Any, Any]:
    """Resets without and with levels."""
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


def next_step_rollout(subject: Subject, env: Environment) -> Rollout:
    """Returns a rollout of ``env`` with FIRST rows: the shared one if possible."""
    if env is subject.stack and env.autoreset == "next_step":
        return subject.rollout
    return subject.roll_randomly(in_mode(env, "next_step"))
