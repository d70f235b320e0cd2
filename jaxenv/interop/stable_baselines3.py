"""Environments for stable-baselines3: the lanes of a batch as the sub-environments of one ``VecEnv``."""

import functools
import time
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.library import import_library
from jaxenv.core.environment import Environment
from jaxenv.core.timestep import TimeStep
from jaxenv.interop._environment import check_reward, environment_of, refuse_outside_jax
from jaxenv.interop._fixed import Fixed, not_settable
from jaxenv.interop._gymnasium_rows import RENDERING, caster, check_render_mode, frames, leaf_spaces
from jaxenv.interop._host_actions import HostActions
from jaxenv.interop._infos import ON_HOST, check_infos, flat_masks, has_action_mask, without_episode
from jaxenv.interop._spaces import space_of
from jaxenv.interop._stepper import Stepper
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

    A step returns arrays of NumPy and one dict per lane, with the entries of stable-baselines3's ``DummyVecEnv``: those
    of ``env_info``, ``"TimeLimit.truncated"``, and where an episode ended ``"terminal_observation"`` and, with
    ``EpisodeStatistics``, ``"episode"``. ``get_attr`` and ``env_method`` reach the environment of a lane,
    ``env.take([lane])``, and the ``action_masks`` that ``MaskablePPO`` of sb3-contrib asks for.

    Args:
        env_or_id: an id, or an environment made with ``autoreset="same_step"``: the step that ends an episode returns
            the first observation of the next one.
        num_envs: number of lanes of an id, 1 by default.
        render_mode: ``"rgb_array"`` for pictures of 256 by 256 pixels: one per lane by ``get_images``, all in one by
            ``render``.
        **options: options of `jaxenv.load`, if ``env_or_id`` is an id.

    Raises:
        ImportError: without stable-baselines3.
        ValueError: for another autoreset mode, vector rewards, specs that cannot be spaces, or actions or integers that
            stable-baselines3 does not know.
    """
    vec_env = _vec_env_class()
    refuse_outside_jax(_OWNER, env_or_id)
    if not isinstance(env_or_id, Environment):
        options = {"autoreset": "same_step", **options}
    env = environment_of(_OWNER, env_or_id, num_envs, options)
    if env.autoreset != "same_step":
        raise ValueError(f"{_OWNER}: make {env} with autoreset='same_step', got {env.autoreset!r}")
    check_reward(_OWNER, env, batch=True)
    check_infos(_OWNER, env, ON_HOST)
    check_render_mode(_OWNER, render_mode)
    return vec_env(env, render_mode)


@functools.cache
def _vec_env_class() -> type:
    library = import_library("stable_baselines3.common.vec_env", "pip install stable-baselines3")
    return type("LanesVecEnv", (_VecEnvMethods, library.VecEnv), {"__module__": __name__})


def _copied(state: dict[str, Any]) -> Any:
    """Copies a ``LanesVecEnv`` from its attributes."""
    copied: Any = object.__new__(_vec_env_class())
    copied.__dict__.update(state)
    return copied


class _StepResult(NamedTuple):
    observation: Tree
    reward: Any
    ended: Any
    truncated: Any
    info: dict[str, Tree]
    episode: dict[str, Any]
    final_observation: Tree


def _step_result(timestep: TimeStep) -> _StepResult:
    info, episode = without_episode(timestep.env_info)
    final = info.pop("final_observation")
    return _StepResult(
        timestep.observation, timestep.reward, timestep.is_last(), timestep.truncated, info, episode, final
    )


class _VecEnvMethods(Fixed):
    """The methods that ``VecEnv`` leaves to its subclasses."""

    _owner = _OWNER
    _settable = frozenset({"metadata", "render_mode", "reset_infos"})
    num_envs: int
    seed: Any
    _seeds: Any
    _options: Any
    _reset_seeds: Any
    _get_indices: Any
    metadata: dict[str, Any]
    _masks: np.ndarray | None

    def __init__(self, env: Environment, render_mode: str | None = None):
        self._env, self._action, self._closed, self.render_mode = env, None, False, render_mode
        self._stepper = Stepper(env, _step_result, numpy=True, owner=_OWNER)
        self._actions = HostActions(env.action_spec(), env.num_envs, _OWNER)
        observation_space, action_space = (
            _space(spec, f"{_OWNER}: {env}: {name}")
            for name, spec in (("observation", env.observation_spec()), ("action", env.action_spec()))
        )
        self._since = time.perf_counter()
        self._cast = caster(observation_space, env.observation_spec()) or _unchanged
        _check_action_space(action_space, f"{_OWNER}: {env}: action")
        super().__init__(env.num_envs, observation_space, action_space)  # type: ignore[call-arg]
        self.metadata = RENDERING
        self._has_mask, self._masks = has_action_mask(env), None
        self._is_fixed = True

    def __reduce__(self) -> Any:
        return _copied, (self.__dict__,)  # pickle cannot find a class that is made on demand

    def reset(self) -> Tree:
        self._check_open()
        if any(self._options):
            raise ValueError(f"{_OWNER}: reset has no options, got {self._options}")
        if self._seeds[0] is None and not self._stepper.started:
            self.seed()
        if self._seeds[0] is None:
            row = self._stepper.restart(np.ones(self.num_envs, bool))
        else:  # lane i has the seed of the batch, which may have 32 bits, plus i
            row = self._stepper.start([seed % 2**32 for seed in self._seeds])
        self._reset_seeds()
        self._keep_masks(row)
        self.reset_infos = _by_lane(row.info, self.num_envs)
        return self._cast(row.observation)

    def step_async(self, actions: Tree) -> None:
        self._check_open()
        if not self._stepper.started:
            raise ValueError(f"{_OWNER}: call reset before step")
        self._action = self._actions(actions)

    def step_wait(self) -> tuple[Tree, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        if self._action is None:
            raise ValueError(f"{_OWNER}: call step_async before step_wait")
        row, self._action = self._stepper.step(self._action), None
        self._keep_masks(row)
        infos = _by_lane({**row.info, "TimeLimit.truncated": row.truncated}, self.num_envs)
        lanes = np.flatnonzero(row.ended)
        finals = _rows(jax.tree.map(lambda x: x[lanes], self._cast(row.final_observation)))
        for lane, final in zip(lanes.tolist(), finals, strict=True):
            infos[lane]["terminal_observation"] = final
        if row.episode and lanes.size:
            seconds = round(time.perf_counter() - self._since, 6)
            for lane in lanes.tolist():
                infos[lane]["episode"] = {**{name: x[lane].item() for name, x in row.episode.items()}, "t": seconds}
        return self._cast(row.observation), row.reward, row.ended, infos

    def get_images(self) -> list[np.ndarray]:
        """Renders all lanes, uint8 ``[256, 256, 3]`` each; a lane that ended shows its next episode.

        Raises:
            ValueError: without ``render_mode="rgb_array"``, before ``reset``, or for an environment without pictures.
        """
        self._check_open()
        return list(frames(_OWNER, self._stepper, self.render_mode, ValueError))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._stepper.close()
            self._env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [self._attribute(lane, attr_name) for lane in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError(not_settable(_OWNER, self._env, attr_name, value))

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        return [method(*method_args, **method_kwargs) for method in self.get_attr(method_name, indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]  # the question is about wrappers of Gymnasium

    def _attribute(self, lane: int, name: str) -> Any:
        if name in _OF_GYMNASIUM:
            return getattr(self, name, None)
        if name == "action_masks" and self._has_mask:
            return functools.partial(self._action_masks, lane)
        return getattr(self._env.take(jnp.array([lane])), name)

    def _action_masks(self, lane: int) -> np.ndarray:
        if self._masks is None:
            raise ValueError(f"{_OWNER}: call reset before action_masks")
        return self._masks[lane].copy()

    def _keep_masks(self, row: _StepResult) -> None:
        if self._has_mask:
            self._masks = flat_masks(row.info)

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"{_OWNER}: the environment is closed, make a new one")


def _space(spec: Tree, owner: str) -> Any:
    space = space_of(spec, import_library("gymnasium.spaces", "pip install gymnasium"), owner)
    for leaf in leaf_spaces(space):
        if np.any(getattr(leaf, "start", 0)):
            raise ValueError(f"{owner}: integers must start at 0 for stable-baselines3, got {leaf}")
    return space


def _check_action_space(space: Any, owner: str) -> None:
    spaces = import_library("gymnasium.spaces", "pip install gymnasium")
    of_integers = isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary)
    if not (of_integers or (isinstance(space, spaces.Box) and space.dtype.kind == "f")):
        rule = "must be floats, one signed integer, or a vector of signed integers or bools for stable-baselines3"
        raise ValueError(f"{owner} {rule}, got {space}: ActionWrappers such as FlattenAction change it")


def _unchanged(observation: Tree) -> Tree:
    return observation


def _by_lane(info: dict[str, Tree], num_lanes: int) -> list[dict[str, Any]]:
    """Splits a dict of arrays ``[B, ...]`` into one dict per lane."""
    rows = zip(*map(_rows, info.values()), strict=True) if info else [()] * num_lanes
    return [dict(zip(info, row, strict=True)) for row in rows]


def _rows(values: Tree) -> list[Any]:
    """Splits arrays ``[B, ...]`` into the values of single lanes."""
    if isinstance(values, np.ndarray):
        return values.tolist() if values.ndim == 1 else list(values)
    leaves, structure = tree.flatten(values)
    return [structure.unflatten(row) for row in zip(*map(_rows, leaves), strict=True)]
