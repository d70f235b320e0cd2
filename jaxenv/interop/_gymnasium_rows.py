"""The base of adapters that return the rows of Gymnasium, and conversions of NumPy observations to its spaces."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_choice
from jaxenv._util.library import import_library
from jaxenv.core import Environment, TimeStep, layers
from jaxenv.interop._adapter import Adapter
from jaxenv.interop._environment import ON_HOST, check_infos, check_reward, has_action_mask
from jaxenv.interop._spaces import HostActions, space_of
from jaxenv.tree import Tree
from jaxenv.wrappers import Trials


class StepResult(NamedTuple):
    """The values that Gymnasium's ``step`` returns, for a batch of lanes."""

    observation: Tree
    reward: Any
    terminated: Any
    truncated: Any
    ended: Any
    info: dict[str, Tree]
    episode: dict[str, Any]  # return and length of episodes that ended, else 0; empty without ``EpisodeStatistics``
    final_observation: Tree = ()
    final_info: Any = ()


@dataclasses.dataclass(frozen=True)
class Rows:
    """The function from a TimeStep to a `StepResult`."""

    # The infos that describe the state, which belongs to the next episode where ``same_step`` ends one. There others
    # become ``final_info``, and 0 in ``info``. Without it, infos stay together.
    of_state: frozenset[str] | None = None

    def __call__(self, timestep: TimeStep) -> StepResult:
        info, terminated, truncated = dict(timestep.env_info), timestep.terminated, timestep.truncated
        ended = terminated | truncated  # from step_type, XLA:CPU computes the physics again
        episode, final_observation = info.pop("episode", None), info.pop("final_observation", ())
        episode = {} if episode is None else {"r": episode["return"], "l": episode["length"]}
        final_info: Any = ()
        if self.of_state is not None:
            transition = {name: value for name, value in info.items() if name not in self.of_state}
            zeros = tree.zeros(transition)
            info.update(tree.where(ended, zeros, transition))
            final_info = tree.where(ended, transition, zeros)
        ends = terminated, truncated, ended
        return StepResult(timestep.observation, timestep.reward, *ends, info, episode, final_observation, final_info)


class RowAdapter(Adapter):
    """An environment of Gymnasium, or a vector of them; without ``num_lanes``, actions have no lane axis."""

    def __init__(
        self, env: Environment, render_mode: str | None, num_lanes: int | None, rows: Rows = Rows(), numpy: bool = True
    ):
        check_choice(self._owner, "render_mode", render_mode, ("rgb_array", None))
        check_reward(self._owner, env, batch=num_lanes is not None)
        check_infos(self._owner, env, ON_HOST)
        super().__init__(env, rows, numpy)
        self.render_mode = render_mode
        self._actions = HostActions(env.action_spec(), num_lanes, self._owner)
        self._spaces = leaf_spaces(env.observation_spec(), f"{self._owner}: observation")
        self._has_mask = has_action_mask(env)
        self._masks: Any = None

    def _keep_masks(self, row: StepResult) -> None:
        """Copies the action masks, bool ``[B, n]``, for ``MaskablePPO`` of sb3-contrib."""
        if self._has_mask:
            mask: Any = row.info["action_mask"]
            self._masks = mask.reshape(len(mask), -1).astype(bool)

    def _masks_of(self, lane: int) -> np.ndarray:
        self._open("action_masks")
        return self._masks[lane].copy()


def spec_of_id(registry: Any, env_or_id: Any, options: dict[str, Any], env: Environment) -> Any:
    """Gymnasium's spec of an id with options, ``None`` for an environment or an id that is not registered there.

    It has no limit around `Trials`, whose episodes have it inside.
    """
    spec = registry.get(f"jaxenv/{env_or_id}") if isinstance(env_or_id, str) else None
    if spec is None:
        return None
    limit = options.get("max_episode_steps")
    if not isinstance(limit, int):
        limit = spec.max_episode_steps
    if any(isinstance(layer, Trials) for layer in layers(env)):
        limit = None
    return dataclasses.replace(spec, kwargs={**spec.kwargs, **options}, max_episode_steps=limit or None)


def leaf_spaces(spec: Tree, owner: str) -> Tree:
    """Returns a tree like ``spec`` with Gymnasium's space of each array."""
    spaces = import_library("gymnasium.spaces", "pip install gymnasium")
    return jax.tree.map(lambda leaf: space_of(leaf, spaces, owner), spec)


def cast_to(spaces: Tree, observation: Tree) -> Tree:
    """Casts NumPy observations to the dtypes of their `leaf_spaces`."""
    return _by_leaf(lambda space, x: x.astype(space.dtype, copy=False), spaces, observation)


def sample_of(spaces: Tree, observation: Tree) -> Tree:
    """Returns the observation of one lane ``[1, ...]`` as a sample of its space: integers for Discrete, else arrays."""
    return _by_leaf(_sample, spaces, observation)


def _by_leaf(function: Callable[..., Any], spaces: Tree, observation: Tree) -> Tree:
    if isinstance(observation, np.ndarray):  # `jax.tree.map` takes as long as a small step of physics
        return function(spaces, observation)
    return jax.tree.map(function, spaces, observation)


def _sample(space: Any, x: np.ndarray) -> Any:
    is_discrete = space.shape == () and hasattr(space, "n")
    return int(x[0]) if is_discrete else np.asarray(x[0], space.dtype)
