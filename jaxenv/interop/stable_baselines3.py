"""Environments for stable-baselines3: the lanes of a batch as the sub-environments of one ``VecEnv``."""

import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv._util.library import import_library
from jaxenv.core.environment import Environment
from jaxenv.interop._adapter import RENDERING, joined
from jaxenv.interop._environment import Fixed, environment_of, not_settable, refuse_outside_jax
from jaxenv.interop._gymnasium import RowAdapter
from jaxenv.interop._spaces import cast_to, leaf_spaces
from jaxenv.tree import Tree

_OWNER = "to_stable_baselines3"
# Attributes of an environment of Gymnasium that ``get_attr`` may ask for.
_OF_GYMNASIUM = ("action_space", "observation_space", "metadata", "render_mode", "spec")


def to_stable_baselines3(
    env_or_id: Environment | str,
    num_envs: int | None = None,
    render_mode: Literal["rgb_array"] | None = None,
    **options: Any,
) -> Any:
    """Exports a batch as a ``stable_baselines3.common.vec_env.VecEnv`` whose sub-environments are its lanes.

    A step returns arrays of NumPy and one dict per lane, with the entries of stable-baselines3's ``DummyVecEnv``: the
    entries of ``env_info``, ``"TimeLimit.truncated"``, and where an episode ended ``"terminal_observation"`` and, with
    ``EpisodeStatistics``, ``"episode"``. ``get_attr`` and ``env_method`` reach the environment of a lane,
    ``env.take([lane])``, and the ``action_masks`` that ``MaskablePPO`` of sb3-contrib asks for.

    Args:
        env_or_id: an id, or an environment made with ``autoreset="same_step"``: the step that ends an episode returns
            the first observation of the next one.
        num_envs: number of lanes of an id, 1 by default.
        render_mode: ``"rgb_array"`` for pictures of 256 by 256 pixels, by ``get_images``, or all in one by ``render``.
        **options: of `jaxenv.make`.
    """
    lanes_vec_env = joined(LanesVecEnv)
    refuse_outside_jax(_OWNER, env_or_id)
    if not isinstance(env_or_id, Environment):
        options = {"autoreset": "same_step", **options}
    env = environment_of(_OWNER, env_or_id, num_envs, options)
    if env.autoreset != "same_step":
        raise ValueError(f"{_OWNER}: make {env} with autoreset='same_step', got {env.autoreset!r}")
    return lanes_vec_env(env, render_mode)


class LanesVecEnv(RowAdapter):
    """The methods that stable-baselines3's ``VecEnv`` leaves to its subclasses."""

    _owner = _OWNER
    _base = "stable_baselines3.common.vec_env", "VecEnv", "pip install stable-baselines3"
    _settable = frozenset({"metadata", "render_mode", "reset_infos"})

    def __init__(self: Any, env: Environment, render_mode: str | None = None):
        super().__init__(env, render_mode, env.num_envs)
        for name, spec in (("observation", env.observation_spec()), ("action", env.action_spec())):
            _check_starts(spec, f"{_OWNER}: {env}: {name}")
        spaces, action = import_library("gymnasium.spaces", "pip install gymnasium"), self._of_lane["action"]
        of_integers = isinstance(action, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary)
        if not (of_integers or (isinstance(action, spaces.Box) and action.dtype.kind == "f")):
            rule = "must be floats, one signed integer, or a vector of signed integers or bools for stable-baselines3"
            how = "ActionWrappers such as FlattenAction change it"
            raise ValueError(f"{_OWNER}: {env}: action {rule}, got {action}: {how}")
        super(Fixed, self).__init__(env.num_envs, *self._of_lane.values())  # type: ignore[call-arg]
        self.metadata, self._action = RENDERING, None
        self._is_fixed = True

    def reset(self: Any) -> Tree:  # of a ``VecEnv``
        self._open()
        if any(self._options):
            raise ValueError(f"{_OWNER}: reset has no options, got {self._options}")
        if self._seeds[0] is None and self._state is None:
            self.seed()
        # Lane i has the seed of the batch, which may have 32 bits, plus i.
        seeds = None if self._seeds[0] is None else [seed % 2**32 for seed in self._seeds]
        row = self._restart() if seeds is None else self._start(seeds)
        self._reset_seeds()
        self._keep_masks(row)
        self.reset_infos = _by_lane(row.info, self.num_envs)
        return cast_to(self._spaces, row.observation)

    def step_async(self, actions: Tree) -> None:
        self._open("step")
        self._action = self._actions(actions)

    def step_wait(self: Any) -> tuple[Tree, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        if self._action is None:
            raise ValueError(f"{_OWNER}: call step_async before step_wait")
        row, self._action = self._step(self._action), None
        self._keep_masks(row)
        infos = _by_lane({**row.info, "TimeLimit.truncated": row.truncated}, self.num_envs)
        lanes = np.flatnonzero(row.ended)
        finals = _rows(jax.tree.map(lambda x: x[lanes], cast_to(self._spaces, row.final_observation)))
        for lane, final in zip(lanes.tolist(), finals, strict=True):
            infos[lane]["terminal_observation"] = final
            if row.episode:
                infos[lane]["episode"] = {name: x[lane].item() for name, x in row.episode.items()}
        return cast_to(self._spaces, row.observation), row.reward, row.ended, infos

    def get_images(self) -> list[np.ndarray]:
        """Renders all lanes, uint8 ``[256, 256, 3]`` each; a lane that ended shows its next episode."""
        return list(self._pictures())

    def get_attr(self: Any, attr_name: str, indices: Any = None) -> list[Any]:
        return [self._attribute(lane, attr_name) for lane in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError(not_settable(_OWNER, self.env, attr_name, value))

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        return [method(*method_args, **method_kwargs) for method in self.get_attr(method_name, indices)]

    def env_is_wrapped(self: Any, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]  # the question is about wrappers of Gymnasium

    def _attribute(self, lane: int, name: str) -> Any:
        if name in _OF_GYMNASIUM:
            return getattr(self, name, None)
        if name == "action_masks" and self._has_mask:
            return functools.partial(self._masks_of, lane)
        return getattr(self.env.take(jnp.array([lane])), name)


def _check_starts(spec: Tree, owner: str) -> None:
    for leaf in jax.tree.leaves(leaf_spaces(spec, owner)):
        if np.any(getattr(leaf, "start", 0)):
            raise ValueError(f"{owner}: integers must start at 0 for stable-baselines3, got {leaf}")


def _by_lane(info: dict[str, Tree], num_lanes: int) -> list[dict[str, Any]]:
    rows = zip(*map(_rows, info.values()), strict=True) if info else [()] * num_lanes
    return [dict(zip(info, row, strict=True)) for row in rows]


def _rows(values: Tree) -> list[Any]:
    if isinstance(values, np.ndarray):
        return values.tolist() if values.ndim == 1 else list(values)
    leaves, structure = jax.tree.flatten(values)
    return [jax.tree.unflatten(structure, row) for row in zip(*map(_rows, leaves), strict=True)]
