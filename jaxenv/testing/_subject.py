"""The environment under test, with the compiled rollout that most checks share."""

import functools
import importlib.util
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.programs import CACHES
from jaxenv.core._compiled import one_by_one
from jaxenv.core.environment import Environment
from jaxenv.core.timestep import StepType, TimeStep
from jaxenv.core.wrapper import layers
from jaxenv.testing._compare import ROUNDING, require_equal, require_finite, take_steps
from jaxenv.testing._elsewhere import Reply, ask
from jaxenv.testing._programs import LANES, output_shapes, per_lane, run, sample, start, take, with_restarts
from jaxenv.testing.report import Failure, NotApplicable, Undecided, require
from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import is_key
from jaxenv.wrappers import AutoReset


class Rollout(NamedTuple):
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


class EagerRun(NamedTuple):
    """Two resets and two steps without compilation, both steps from the state of the first reset."""

    before: list[dict[str, Any]]  # the attributes of all layers and of their classes before the run
    given: Tree  # copies of the state and action passed to step, made before the steps
    passed: Tree  # the state and action passed to step, after the steps
    resets: list[tuple[Tree, TimeStep]]  # the outputs of the resets
    steps: list[tuple[Tree, TimeStep]]  # the outputs of the steps


def attributes(env: Environment) -> list[dict[str, Any]]:
    """Returns the current attributes of every layer and of its class, without caches."""
    every = [{**vars(type(layer)), **vars(layer)} for layer in layers(env)]
    return [{name: x for name, x in found.items() if name not in CACHES} for found in every]


OTHER_STEPS = 4  # steps of the rollout in another process
_POISON = {2: np.nan, 4: np.inf}  # by lane


def poisoned(x: Any) -> np.ndarray:
    """Copies floats ``[B, ...]``, with NaN in one lane and infinity in another."""
    x = np.array(x)
    for lane, value in _POISON.items():
        x[lane] = value
    return x


class Subject:
    """An environment under test, with or without ``AutoReset``. Compiled results are computed once, on first use."""

    def __init__(self, original: Environment, key: jax.Array, num_steps: int):
        self.original, self.key, self.num_steps = original, key, num_steps

    # --- environments ------------------------------------------------------------------------------------------------

    @functools.cached_property
    def env(self) -> Environment:
        return self.with_lanes(LANES)

    def with_lanes(self, count: int) -> Environment:
        """Returns the environment with ``count`` lanes; the original lanes are repeated."""
        return take(self.original, np.arange(count, dtype=np.int32) % self.original.num_envs)

    def take(self, index: np.ndarray) -> Environment:
        """Returns the lanes ``index``, int32 ``[K]``, of `stack`."""
        return take(self.stack, np.asarray(index, np.int32))

    @functools.cached_property
    def stack(self) -> Environment:
        """The environment with restarts, and with time limits that make its lanes end at different times."""
        return with_restarts(self.env)

    @functools.cached_property
    def auto_reset(self) -> AutoReset:
        for layer in layers(self.stack):
            if isinstance(layer, AutoReset):
                return layer
        raise NotApplicable("the environment restarts its lanes without an AutoReset")

    @property
    def strategy(self) -> str:
        declared = self.auto_reset.reset_strategy
        return declared if isinstance(declared, str) else declared.get(jax.default_backend(), declared["default"])

    def variant(self, mode: str, strategy: str | None = None) -> AutoReset:
        """Returns the ``AutoReset`` in `stack` in another mode, and with another strategy if one is given."""
        return tree.rebuild(self.auto_reset, mode=mode, reset_strategy=strategy or self.auto_reset.reset_strategy)

    def varied(self, env: Any) -> tuple[Any, list[str]]:
        """Returns an environment whose shared values differ between lanes, with their names; ``env`` if it refuses."""
        changed, names = per_lane(env, varied=True)
        try:
            output_shapes(changed)
        except (TypeError, ValueError):
            return env, []
        return changed, names

    @functools.cached_property
    def opt_outs(self) -> dict[str, str]:
        """The properties that layers of the stack opt out of, by name; the value is the layer and its reason."""
        return {
            name: f"{type(layer).__name__}: {reason}"
            for layer in layers(self.stack)
            for name, reason in getattr(layer, "opt_outs", {}).items()
        }

    @property
    def rounding(self) -> float:
        """The largest difference of floats, absolute and relative, between two compilations of one step."""
        return max(ROUNDING, getattr(self.stack.unwrapped, "rounding", ROUNDING))

    @property
    def lanes_are_independent(self) -> bool:
        """Whether no layer shares state between lanes."""
        return "batch_equals_single_lanes" not in self.opt_outs

    def same_steps(self, expected: Tree, actual: Tree, labels: tuple[str, str], **options: Any) -> None:
        """Acts as `require_equal` for the results of steps ``[T, B, ...]``, up to `rounding`."""
        require_equal(expected, actual, labels, tolerance=self.rounding, first_step=1, **options)

    def same_starts(self, expected: Tree, actual: Tree, labels: tuple[str, str], context: str = "") -> None:
        """Acts as `require_equal` for arrays ``[B, ...]``, up to `rounding`."""
        require_equal(expected, actual, labels, tolerance=self.rounding, context=context, axes=("lane",))

    def require_clean(self, actual: Rollout, what: str) -> None:
        """Raises a `Failure` unless lanes next to poisoned ones are as in the shared rollout."""
        rollout, lanes = self.rollout, list(_POISON)
        labels = (f"next to finite {what}", f"next to NaN and infinity in {what} {lanes}")
        clean = np.broadcast_to(~np.isin(np.arange(LANES), lanes), actual.ends.shape)
        require_equal((rollout.states, rollout.rows), (actual.states, actual.rows), labels, where=clean)

    def require_contained(self, actual: Rollout, what: str) -> None:
        """Raises a `Failure` if NaN or infinity of some lanes reaches another lane, or their next episodes."""
        self.require_clean(actual, what)
        for lane in _POISON:
            later = (np.asarray(self.stack.clock(actual.states).episode) > 0) & (np.arange(LANES) == lane)
            require(later.any(), f"lane {lane} never started another episode, the check needs one")
            # In same_step mode, the row on which an episode starts is still the last row of the previous one.
            later_rows = later & np.roll(later, 1, axis=0) if self.stack.autoreset == "same_step" else later
            require_finite(actual.states, "in an episode after NaN or infinity: state", where=later)
            require_finite(actual.rows, "in an episode after NaN or infinity: timestep", where=later_rows)

    # --- rollouts ----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def keys(self) -> tuple[jax.Array, jax.Array]:
        """Two sets of lane keys, each ``Key[B]``."""
        both = jax.random.split(self.key, 2 * LANES)
        return both[:LANES], both[LANES:]

    @functools.cached_property
    def shapes(self) -> tuple[Tree, Tree]:
        return output_shapes(self.env)

    @functools.cached_property
    def actions(self) -> tuple[Tree, Tree]:
        """Two sets of random actions, each ``[T, B, ...]``."""
        both = sample(self.stack.action_spec(), self.key, (2 * self.num_steps, LANES))
        return take_steps(both, slice(None, self.num_steps)), take_steps(both, slice(self.num_steps, None))

    def actions_of(self, env: Environment) -> Tree:
        """Returns random actions ``[T, B, ...]`` of another environment with as many lanes."""
        return take_steps(sample(env.action_spec(), self.key, (2 * self.num_steps, LANES)), slice(None, self.num_steps))

    @functools.cached_property
    def rollout(self) -> Rollout:
        """The shared rollout of `stack`: random actions, and lanes that end at different times.

        On three steps some lanes must end and others not, else checks of one lane's effect on another are void.
        """
        rollout = self.roll(self.keys[0], self.actions[0])
        mixed = np.any(rollout.ends, axis=1) & ~np.all(rollout.ends, axis=1)
        self.require_steps(mixed.sum(), "some lanes end and others do not", rollout)
        return rollout

    def require_steps(self, count: int, what: str, rollout: Rollout) -> None:
        """Raises an exception for fewer than 3 steps on which some lanes end, unless all episodes last one step.

        Episodes inside of ``AutoReset`` have limits; environments that restart themselves may have long ones.
        """
        if count < 3 and np.any(rollout.step_type == StepType.MID):
            has_limits = any(isinstance(layer, AutoReset) for layer in layers(self.stack))
            raise (Failure if has_limits else Undecided)(f"on only {count} steps {what}, the check needs 3")

    @functools.cached_property
    def other_rollout(self) -> Rollout:
        return self.roll(self.keys[1], self.actions[1])

    def roll(self, keys: jax.Array, actions: Tree, env: Environment | None = None) -> Rollout:
        """Returns a rollout of `stack`, or of another environment with as many lanes, compiled once per structure."""
        env = self.stack if env is None else env
        return Rollout(*run(env, *start(env, keys), actions), actions)

    def roll_randomly(self, env: Environment) -> Rollout:
        """Returns a rollout of another environment with as many lanes: the first keys, random actions."""
        return self.roll(self.keys[0], self.actions_of(env), env)

    @functools.cached_property
    def eager(self) -> EagerRun:
        """One eager run of `stack`, shared by all checks because it is slow."""
        env, action = self.stack, jax.tree.map(np.array, take_steps(self.actions[0], 0))
        before = attributes(env)
        with one_by_one():
            resets = [env.reset(self.key) for _ in range(2)]
            # The action is a NumPy array, which step could write to. The state is JAX's: steps may use state.at[...].
            passed = (jax.tree.map(lambda x: x if is_key(x) else jnp.array(x), resets[0][0]), action)
            given = jax.tree.map(lambda x: x if is_key(x) else np.array(x), passed)
            return EagerRun(before, given, passed, resets, [env.step(*passed) for _ in range(2)])

    @functools.cached_property
    def seeded_start(self) -> tuple[Tree, TimeStep]:
        """The state and the rows of a reset of `stack` with one key for all lanes."""
        return start(self.stack, self.key)

    @property
    def modules(self) -> list[str]:
        """The modules that define the layers of the environment, if another process may be able to import them."""
        names = sorted({type(layer).__module__ for layer in layers(self.original)} - {"__main__"})
        return [name for name in names if importlib.util.find_spec(name) is not None]

    @functools.cached_property
    def other_process(self) -> Reply:
        """The findings of another process about `stack`, the first keys and the first few actions."""
        return ask(self.modules, self.stack, self.keys[0], take_steps(self.actions[0], slice(OTHER_STEPS)))

    # --- parts of states ---------------------------------------------------------------------------------------------

    def state_of(self, layer: Environment, state: Tree) -> Tree:
        """Returns the part of a state of `stack` that belongs to one of its layers."""
        for outer in layers(self.stack):
            if outer is layer:
                break
            state = outer.inner(state)  # type: ignore[attr-defined]
        return state

    def task_arrays(self, rollout: Rollout) -> list[np.ndarray]:
        """Returns the arrays ``[T + 1, B, ...]`` in the state of the task, without typed keys."""
        task = self.state_of(self.stack.unwrapped, rollout.states).task
        return [x for x in jax.tree.leaves(task) if isinstance(x, np.ndarray)]
