"""Recorded rollouts, compiled and eager."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv._util.programs import CACHES
from jaxenv.core._compiled import one_by_one
from jaxenv.core.environment import Environment
from jaxenv.core.timestep import StepType, TimeStep
from jaxenv.core.wrapper import layers
from jaxenv.testing._compare import take_steps
from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import is_key


@dataclasses.dataclass(frozen=True)
class Rollout:
    """A rollout as NumPy arrays: ``states`` and ``rows`` ``[T + 1, B, ...]``, ``actions`` ``[T, B, ...]``."""

    states: Tree
    rows: TimeStep
    actions: Tree

    @property
    def start(self) -> tuple[Tree, TimeStep]:
        """The state and the rows of the reset, ``[B, ...]``."""
        return take_steps((self.states, self.rows), 0)

    @property
    def before(self) -> Tree:
        """The states before the steps, ``[T, B, ...]``."""
        return take_steps(self.states, slice(None, -1))

    @property
    def after(self) -> tuple[Tree, TimeStep]:
        """The states and rows after the steps, ``[T, B, ...]``."""
        return take_steps((self.states, self.rows), slice(1, None))

    @property
    def step_type(self) -> np.ndarray:
        """The step types of the rows, int32 ``[T + 1, B]``."""
        return np.asarray(self.rows.step_type)

    @property
    def ends(self) -> np.ndarray:
        """Whether a row is LAST, bool ``[T + 1, B]``."""
        return self.step_type == StepType.LAST

    @property
    def only_one_step_episodes(self) -> bool:
        """Whether every episode ends on its first step, as in a bandit."""
        return not np.any(self.step_type == StepType.MID)


@dataclasses.dataclass(frozen=True)
class EagerRun:
    """Two resets and two steps without compilation, both steps from the state of the first reset."""

    env: Environment  # the environment object that ran
    before: list[dict[str, Any]]  # the attributes of its layers and of their classes before the run
    given: Tree  # copies of the state and action passed to step, made before the steps
    passed: Tree  # the state and action passed to step, after the steps
    resets: list[tuple[Tree, TimeStep]]  # the outputs of the resets
    steps: list[tuple[Tree, TimeStep]]  # the outputs of the steps

    @classmethod
    def record(cls, env: Environment, key: jax.Array, action: Tree) -> "EagerRun":
        """Runs ``env`` with one key and one batch of actions."""
        before = attributes(env)
        with one_by_one():
            resets = [env.reset(key) for _ in range(2)]
            # The action is a NumPy array, which step could write to. The state is JAX's: steps may use state.at[...].
            state = jax.tree.map(lambda x: x if is_key(x) else jnp.array(x), resets[0][0])
            passed = (state, jax.tree.map(np.array, action))
            given = jax.tree.map(lambda x: x if is_key(x) else np.array(x), passed)
            steps = [env.step(*passed) for _ in range(2)]
        return cls(env, before, given, passed, resets, steps)


def attributes(env: Environment) -> list[dict[str, Any]]:
    """Returns the current attributes of every layer and of its class, without caches."""
    every = [{**vars(type(layer)), **vars(layer)} for layer in layers(env)]
    return [{name: x for name, x in found.items() if name not in CACHES} for found in every]
