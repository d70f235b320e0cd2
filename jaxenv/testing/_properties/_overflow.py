"""Integers that count steps or episodes until they overflow."""

import jax
import numpy as np

from jaxenv import tree
from jaxenv.core.timestep import StepType
from jaxenv.testing._compare import first, leaf_name, take_steps
from jaxenv.testing._programs import replay
from jaxenv.testing._stacks import LIMITS, NO_LIMIT
from jaxenv.testing._subject import Subject
from jaxenv.testing.report import Failure
from jaxenv.tree._typed_keys import is_key


def require_no_overflow(subject: Subject) -> None:
    """Raises a `Failure` if an integer of 8 or 16 bits in the state counts steps or episodes until it wraps around.

    An integer that only ever grows by one is given each value of its dtype from its smallest one on. It may stop
    growing or end the episode at some value, like an index into a deck or a board.
    """
    rollout = subject.rollout
    kind = rollout.step_type[1:]
    goes_on = (kind == StepType.MID) & (LIMITS == NO_LIMIT)
    restarts = kind == (StepType.LAST if subject.stack.autoreset == "same_step" else StepType.FIRST)
    leaves = jax.tree_util.tree_leaves_with_path(rollout.states, is_leaf=tree.is_shared)
    for number, (path, x) in enumerate(leaves):
        if tree.is_shared(x) or is_key(x) or x.dtype.kind not in "iu" or x.dtype.itemsize > 2:
            continue
        name = f"state {leaf_name(rollout.states, path)}".rstrip()
        for counted, where in (("steps", goes_on), ("episodes", restarts)):
            grows = np.diff(x.astype(np.int32), axis=0)
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
        before = jax.tree.unflatten(structure, changed)
        after, rows = replay(subject.stack, before, take_steps(rollout.actions, at))
        y, looked = jax.tree.leaves(after, is_leaf=tree.is_shared)[number], grows[at]
        lanes = looked.reshape(*looked.shape[:2], -1).any(axis=-1)
        if np.any(lanes & (rows.step_type != rollout.step_type[1:][at])):
            return
        expected = tree.expand(value, x.ndim) + 1
        if np.any(looked & (y != expected) & (expected <= limit)):
            return
        wraps = looked & (expected > limit) & (y < limit)
        if np.any(wraps):
            raise Failure(f"{what} as {x.dtype}: {y[first(wraps)]} follows {limit}")
