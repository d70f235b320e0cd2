"""Environments for stable-baselines3: the lanes of a batch as the sub-environments of one ``VecEnv``."""

import functools
from typing import Any

import jax
import numpy as np

from jaxenv._library import import_library
from jaxenv.environment import Environment
from jaxenv.interop._environment import environment_of
from jaxenv.interop._host_actions import HostActions
from jaxenv.interop._spaces import space_of
from jaxenv.interop._stepper import Stepper
from jaxenv.tree import Tree

_OWNER = "to_stable_baselines3"
# Attributes of an environment of Gymnasium that ``get_attr`` may ask for.
_GYMNASIUM = ("action_space", "observation_space", "metadata", "render_mode", "spec")
_FIELDS = ("observation", "reward", "terminated", "truncated", "env_info")


def to_stable_baselines3(env_or_id: Environment | str, num_envs: int | None = None, **options) -> Any:
    """A ``stable_baselines3.common.vec_env.VecEnv`` whose sub-environments are the lanes of a batch.

    A step returns arrays of NumPy and one dict per lane, with the entries of stable-baselines3's ``DummyVecEnv``: those
    of ``env_info``, ``"TimeLimit.truncated"``, and ``"terminal_observation"`` where an episode ended. ``get_attr`` and
    ``env_method`` reach the environment of a lane, ``env.take([lane])``.

    Args:
        env_or_id: an id, or an environment with ``autoreset="same_step"``: the step that ends an episode returns the
            first observation of the next one.
        num_envs: number of lanes, by default 1 or those of the environment.
        **options: options of `jaxenv.load`, if ``env_or_id`` is an id.

    Raises:
        ImportError: without stable-baselines3.
        ValueError: for another autoreset mode, a vector reward, or specs that are no spaces of Gymnasium.
    """
    lanes = _lanes_class()
    if not isinstance(env_or_id, Environment):
        options = {"autoreset": "same_step", **options}
    env = environment_of(_OWNER, env_or_id, num_envs, options)
    if env.autoreset != "same_step":
        raise ValueError(f"{_OWNER}: make {env} with autoreset='same_step', got {env.autoreset!r}")
    if env.reward_spec().shape:
        raise ValueError(f"{_OWNER}: the reward must be one number, {env} has {env.reward_spec()}")
    return lanes(env)


@functools.cache
def _lanes_class() -> type:
    library = import_library("stable_baselines3.common.vec_env", "pip install stable-baselines3")
    return type("LanesVecEnv", (_Lanes, library.VecEnv), {"__doc__": "The lanes of a batch as a ``VecEnv``."})


class _Lanes:
    """The methods that ``VecEnv`` leaves to its subclasses."""

    num_envs: int
    seed: Any
    _seeds: Any
    _options: Any
    _reset_seeds: Any
    _get_indices: Any

    def __init__(self, env: Environment):
        spaces = import_library("gymnasium.spaces", "pip install gymnasium")
        self._env, self._actions, self._closed = env, None, False
        self._stepper = Stepper(env, _FIELDS, True, _OWNER)
        self._checked = HostActions(env.action_spec(), env.num_envs, _OWNER)
        observation_space = space_of(env.observation_spec(), spaces, f"{_OWNER}: {env}: observation")
        action_space = space_of(env.action_spec(), spaces, f"{_OWNER}: {env}: action")
        super().__init__(env.num_envs, observation_space, action_space)  # type: ignore[call-arg]

    def reset(self) -> Tree:
        if any(self._options):
            raise ValueError(f"set_options: a reset of {self._env} has no options, got {self._options}")
        self._check_open()
        if self._seeds[0] is None and not self._stepper.started:
            self.seed()
        if self._seeds[0] is None:
            row = self._stepper.restart(np.ones(self.num_envs, bool))
        else:  # the seed of a lane is that of the batch, of up to 32 bits, plus the lane
            row = self._stepper.start([seed % 2**32 for seed in self._seeds])
        self._reset_seeds()
        observation, *_, env_info = row
        del env_info["final_observation"]
        self.reset_infos = _by_lane(env_info, self.num_envs)
        return observation

    def step_async(self, actions: Tree) -> None:
        self._check_open()
        if not self._stepper.started:
            raise ValueError(f"{_OWNER}: call reset before step")
        self._actions = self._checked(actions)

    def step_wait(self) -> tuple[Tree, np.ndarray, np.ndarray, list[dict]]:
        observation, reward, terminated, truncated, env_info = self._stepper.step(self._actions)
        final_observation = env_info.pop("final_observation")
        infos = _by_lane({**env_info, "TimeLimit.truncated": truncated}, self.num_envs)
        ended = terminated | truncated
        lanes = np.flatnonzero(ended)
        final_observations = _rows(jax.tree.map(lambda x: x[lanes], final_observation))
        for lane, final in zip(lanes.tolist(), final_observations, strict=True):
            infos[lane]["terminal_observation"] = final
        return observation, reward, ended, infos

    def close(self) -> None:
        self._closed = True
        self._stepper.close()
        self._env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list:
        return [self._attribute(lane, attr_name) for lane in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError(f"set_attr: environments do not change, make one that has {attr_name}={value!r}")

    def env_method(self, method_name: str, *method_args, indices: Any = None, **method_kwargs) -> list:
        return [method(*method_args, **method_kwargs) for method in self.get_attr(method_name, indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]  # asks for wrappers of Gymnasium

    def _attribute(self, lane: int, name: str) -> Any:
        if name in _GYMNASIUM:
            return getattr(self, name, None)
        return getattr(self._env.take(np.array([lane], np.int32)), name)

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"{_OWNER}: the environment is closed")


def _by_lane(info: dict[str, Tree], num_lanes: int) -> list[dict]:
    """One dict per lane from a dict of arrays ``[B, ...]``."""
    rows = zip(*map(_rows, info.values()), strict=True) if info else [()] * num_lanes
    return [dict(zip(info, row, strict=True)) for row in rows]


def _rows(values: Tree) -> list:
    """The values of single lanes from arrays ``[B, ...]``."""
    if isinstance(values, np.ndarray):
        return values.tolist() if values.ndim == 1 else list(values)
    leaves, structure = jax.tree.flatten(values)
    return [structure.unflatten(row) for row in zip(*map(_rows, leaves), strict=True)]
