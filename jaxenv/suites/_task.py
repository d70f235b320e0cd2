"""The task that all suites share: lanes of one environment that another library wrote for a single lane."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import random, tree
from jaxenv._util.library import default_types
from jaxenv.core import Environment, EnvSpec, Task, Transition
from jaxenv.random import Stream
from jaxenv.suites._options import check_unknown, checked_option
from jaxenv.suites._single import Single, map_lanes, ranks_of, single_of, values_of
from jaxenv.tree import Tree, _typed_keys
from jaxenv.wrappers.stack._make import OPTIONS, make


@tree.struct
class State:
    """The state of the suite, typed keys as their words, and the last observation, every leaf ``[B, ...]``.

    The observation is stored because a suite's observations are not always functions of the state: some are random,
    others belong to the state before the step.
    """

    env_state: Tree
    observation: Tree


class SuiteTask(Task):
    """Lanes of one environment of a suite.

    The suite's functions of one lane run under ``jax.vmap`` and JAX's default types. Each call gets a separate key,
    derived from the lane's stream. Results are cast to fixed dtypes, rewards to float32.
    """

    params: Any  # a struct of the suite's numeric params, one number or one per lane
    suite: str = tree.static()  # the prefix of the id; its module has a function single(id, options)
    id: str = tree.static()  # the suite's id
    options: tuple[Any, ...] = tree.static()  # constructor arguments as sorted pairs of name and value

    def initial(self, stream: Stream) -> Tree:
        env_state, observation = self._map_lanes(self._single.reset, random.jax_keys(stream))
        return self._state(env_state, observation)

    def transition(self, state: Tree, action: Tree, stream: Stream) -> Transition:
        single = self._single

        def step(values: Any, key: jax.Array, env_state: Any, action: Tree) -> Any:
            env_state = _typed_keys.from_words(single.shapes.key_kinds.value, env_state)
            return single.step(values, key, env_state, action)

        given = random.jax_keys(stream), state.env_state, action
        env_state, observation, reward, terminated, info = self._map_lanes(step, *given)
        state = self._state(env_state, observation)
        info = _cast(single.shapes.info, info)
        return Transition(state, reward.astype(jnp.float32), terminated.astype(bool), info)

    def observe(self, state: Tree) -> Tree:
        return state.observation

    def state_info(self, state: Tree) -> dict[str, Tree]:
        return self._single.state_info(state.env_state, state.observation)

    def observation_spec(self) -> Tree:
        return self._single.observation_spec.value

    def action_spec(self) -> Tree:
        return self._single.action_spec.value

    agent_names = property(lambda self: self._single.agent_names)
    turns = property(lambda self: self._single.turns)
    alternates = property(lambda self: self._single.alternates)
    reset_strategy = property(lambda self: self._single.reset_strategy)
    opt_outs = property(lambda self: dict(self._single.opt_outs))

    @property
    def _single(self) -> Any:
        return single_of(self.suite, self.id, self.options)

    def _values(self) -> tuple[dict[str, Any], dict[str, int]]:
        """Returns the numbers that the suite's functions receive, by name, and the ranks of the shared ones."""
        return values_of(self.params), ranks_of(self.params)

    def _map_lanes(self, function: Callable[..., Any], *arguments: Tree) -> Tree:
        """Maps ``function(values, *arguments)`` of the suite over the lanes."""
        values, ranks = self._values()
        with default_types():
            return map_lanes(lambda *given: _typed_keys.to_words(function(*given)), values, ranks, *arguments)

    def _state(self, env_state: Tree, observation: Tree) -> State:
        shapes = self._single.shapes
        return State(_cast(shapes.env_state, env_state), _cast(shapes.observation, observation))


def _cast(shapes: Tree, arrays: Tree) -> Tree:
    return jax.tree.map(lambda s, x: jax.lax.convert_element_type(x, s.dtype), shapes, arrays)


def load_task(
    suite: str,
    single: Callable[[str, tuple[Any, ...]], Single],
    name: str,
    num_envs: int | None,
    constructor: Mapping[str, Any],
    kwargs: Mapping[str, Any],
) -> Environment:
    """Builds an environment of a suite with its stack of wrappers.

    ``single`` builds one configuration from the suite's id and options, the same object for equal arguments.
    ``constructor`` has the arguments of the suite's constructor by name, with their defaults.
    """
    owner = f"{suite}:{name}"
    of_stack = {key: value for key, value in kwargs.items() if key in OPTIONS}
    given = {key: value for key, value in kwargs.items() if key not in OPTIONS}
    own = [key for key in given if key in constructor]
    chosen = {key: checked_option(owner, key, given.pop(key), constructor[key]) for key in own}
    options = tuple(sorted(chosen.items()))
    built = single(name, options)
    check_unknown(owner, given, values_of(built.params), constructor)

    def bare(num_envs: int) -> Environment:
        env = SuiteTask(built.params, suite, name, options, num_envs=num_envs, name=owner)
        return env.with_params(**given) if given else env

    return make(EnvSpec(owner, bare, max_episode_steps=built.limit), num_envs, **of_stack)
