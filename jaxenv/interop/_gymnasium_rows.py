"""Conversion of a TimeStep for the Gymnasium adapters, and of NumPy observations to the types of a space."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_choice
from jaxenv.core.environment import Environment
from jaxenv.core.timestep import TimeStep
from jaxenv.interop._infos import without_episode
from jaxenv.interop._stepper import Stepper
from jaxenv.tree import Tree


class StepResult(NamedTuple):
    """The values that Gymnasium's ``step`` returns, for a batch of lanes.

    ``episode`` has return and length of the episodes that ended, 0 in other lanes; without ``EpisodeStatistics`` it is
    empty.
    """

    observation: Tree
    reward: Any
    terminated: Any
    truncated: Any
    info: dict[str, Tree]
    ended: Any
    episode: dict[str, Any]
    final_observation: Tree = ()
    final_info: Any = ()


@dataclasses.dataclass(frozen=True)
class Rows:
    """The function from a TimeStep to a `StepResult`."""

    same_step: bool  # whether the row that ends an episode shows the next one
    # In same_step mode, the names of infos that describe the state, which belongs to the next episode. All others
    # describe the transition and belong to the episode that ended.
    of_state: frozenset[str]

    def __call__(self, timestep: TimeStep) -> StepResult:
        terminated, truncated = timestep.terminated, timestep.truncated
        ended = terminated | truncated
        info, episode = without_episode(timestep.env_info)
        row = StepResult(timestep.observation, timestep.reward, terminated, truncated, info, ended, episode)
        if not self.same_step:
            return row
        final_observation = info.pop("final_observation")
        transition = {name: value for name, value in info.items() if name not in self.of_state}
        zeros = tree.zeros(transition)
        info.update(tree.where(ended, zeros, transition))
        return row._replace(
            info=info, final_observation=final_observation, final_info=tree.where(ended, transition, zeros)
        )


def rows_of(env: Environment) -> Rows:
    """Builds the `Rows` of an environment."""
    if env.autoreset != "same_step":
        return Rows(False, frozenset())
    state, _ = env.start_shapes()
    return Rows(True, frozenset(jax.eval_shape(env.env_info_of, state)))


RENDERING = {"render_modes": ["rgb_array"], "render_fps": 30}
PICTURE_SIZE = 256


def check_render_mode(owner: str, render_mode: Any) -> None:
    """Raises a ``ValueError`` for an unknown render mode."""
    check_choice(owner, "render_mode", render_mode, ("rgb_array", None))


def frames(owner: str, stepper: Stepper, render_mode: str | None, error: type[Exception]) -> np.ndarray:
    """Renders all lanes, uint8 ``[B, 256, 256, 3]``.

    Raises:
        ValueError: without the render mode, or for an environment without pictures.
        error: before the first reset.
    """
    if render_mode is None:
        raise ValueError(f"{owner}: render needs render_mode='rgb_array', given when the environment is made")
    if not stepper.started:
        raise error(f"{owner}: call reset before render")
    return stepper.render(PICTURE_SIZE)


def spec_of_id(registry: Any, env_or_id: Any, options: dict[str, Any]) -> Any:
    """Gymnasium's spec of an id with options, ``None`` for an environment or an id that is not registered there."""
    spec = registry.get(f"jaxenv/{env_or_id}") if isinstance(env_or_id, str) else None
    if spec is None:
        return None
    limit = options.get("max_episode_steps")
    if not isinstance(limit, int):
        limit = spec.max_episode_steps
    return dataclasses.replace(spec, kwargs={**spec.kwargs, **options}, max_episode_steps=limit or None)


def caster(space: Any, spec: Tree) -> Callable[[Tree], Tree] | None:
    """Returns a function that casts NumPy observations to the dtypes of a space, ``None`` if they have them."""
    dtypes = [leaf.dtype for leaf in leaf_spaces(space)]
    if all(dtype == leaf.dtype for dtype, leaf in zip(dtypes, jax.tree.leaves(spec), strict=True)):
        return None
    return functools.partial(_cast, tree.structure(spec).unflatten(dtypes))


def _cast(dtypes: Tree, observation: Tree) -> Tree:
    return jax.tree.map(lambda dtype, x: x.astype(dtype, copy=False), dtypes, observation)


def leaf_spaces(space: Any) -> list[Any]:
    """Returns the array spaces in a space, in the order of the leaves of its samples."""
    if hasattr(space, "spaces"):
        inside = space.spaces
        inside = [inside[name] for name in sorted(inside)] if hasattr(inside, "keys") else inside
        return [leaf for inner in inside for leaf in leaf_spaces(inner)]
    return [space]


def sample_of(leaves: list[Any], observation: Tree) -> Tree:
    """Returns the observation of one lane ``[1, ...]`` as a sample of a space: integers for Discrete, else arrays.

    Args:
        leaves: the array spaces in the space, as `leaf_spaces` returns them.
        observation: a tree of arrays.
    """
    if isinstance(observation, np.ndarray):
        return _sample(observation, leaves[0])
    values, structure = tree.flatten(observation)
    return structure.unflatten([_sample(x, space) for x, space in zip(values, leaves, strict=True)])


def _sample(x: np.ndarray, space: Any) -> Any:
    is_discrete = space.shape == () and hasattr(space, "n")
    return int(x[0]) if is_discrete else np.asarray(x[0], space.dtype)
