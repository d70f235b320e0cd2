"""Environments for programs that were written for Gymnasium, as vector environments and as single ones.

Importing this module registers every id with Gymnasium: ``gymnasium.make_vec("jaxenv/CartPole-v1", num_envs=64)``.
"""

import functools
from typing import Any, Literal

import jax
import numpy as np

from jaxenv._checks import check_choice
from jaxenv._library import import_library
from jaxenv.environment import Environment
from jaxenv.interop._environment import environment_of
from jaxenv.interop._host_actions import HostActions
from jaxenv.interop._spaces import space_of
from jaxenv.interop._stepper import Seeds, Stepper
from jaxenv.tree import Tree

gymnasium = import_library("gymnasium", "pip install gymnasium")
from gymnasium.vector import AutoresetMode  # noqa: E402
from gymnasium.vector.utils import batch_space  # noqa: E402

_MODES = {
    "next_step": AutoresetMode.NEXT_STEP,
    "same_step": AutoresetMode.SAME_STEP,
    None: AutoresetMode.DISABLED,
}
_FIELDS = ("observation", "reward", "terminated", "truncated", "env_info")


def to_gymnasium_vector(
    env_or_id: Environment | str,
    num_envs: int | None = None,
    *,
    arrays: Literal["numpy", "jax"] = "numpy",
    render_mode: None = None,
    **options,
) -> "JaxenvVectorEnv":
    """A batch as a ``gymnasium.vector.VectorEnv``.

    Args:
        env_or_id: an environment, or an id.
        num_envs: number of lanes of an id, 1 by default.
        arrays: ``"numpy"``: writable NumPy arrays, rewards float64, as Gymnasium's own vector environments return.
            ``"jax"``: arrays of JAX, which other libraries read through DLPack without a copy.
        render_mode: ``None``: there is no rendering.
        **options: options of `jaxenv.load`, if ``env_or_id`` is an id. ``autoreset`` sets the autoreset mode.

    Raises:
        ImportError: without Gymnasium.
        ValueError: for an environment with vector rewards, or whose specs are no spaces.
    """
    check_choice("to_gymnasium_vector", "arrays", arrays, ("numpy", "jax"))
    _check_render_mode("to_gymnasium_vector", render_mode)
    return JaxenvVectorEnv(environment_of("to_gymnasium_vector", env_or_id, num_envs, options), arrays)


class JaxenvVectorEnv(gymnasium.vector.VectorEnv):
    """The vector environment that `to_gymnasium_vector` returns."""

    def __init__(self, env: Environment, arrays: str):
        owner = "to_gymnasium_vector"
        _check_reward(owner, env)
        self.env, self._arrays = env, arrays
        self.num_envs = env.num_envs
        self.metadata = {"render_modes": [], "autoreset_mode": _MODES[env.autoreset], "jax": arrays == "jax"}
        self.single_observation_space = space_of(env.observation_spec(), gymnasium.spaces, f"{owner}: observation")
        self.single_action_space = space_of(env.action_spec(), gymnasium.spaces, f"{owner}: action")
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.action_space = batch_space(self.single_action_space, env.num_envs)
        self._stepper = Stepper(env, _FIELDS, arrays == "numpy", owner)
        self._actions = HostActions(env.action_spec(), env.num_envs, owner)
        self._ended: Any = np.zeros(env.num_envs, bool)
        self._observation: Tree = None

    def reset(self, *, seed: Seeds | None = None, options: dict[str, Any] | None = None) -> tuple[Tree, dict]:
        """Starts an episode in every lane, or in those of ``options["reset_mask"]``."""
        self._check_open()
        mask = None if options is None else options.get("reset_mask")
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
        if mask is not None:
            return self._reset_where(_checked_mask(mask, self.num_envs), seed)
        if seed is not None or not self._stepper.started:
            seed = int(self.np_random.integers(2**32)) if seed is None else seed
            row = self._stepper.start(seed)
        else:
            row = self._stepper.restart(np.ones(self.num_envs, bool))
        observation, _, self._ended, _, env_info = row
        self._observation = observation
        return observation, self._infos(env_info)

    def _reset_where(self, mask: np.ndarray, seed: Seeds | None) -> tuple[Tree, dict]:
        if not self._stepper.started:
            raise ValueError("to_gymnasium_vector: the first reset starts all lanes, leave out reset_mask")
        observation, _, _, _, env_info = self._stepper.restart(mask, seed)
        where = np.where if self._arrays == "numpy" else jax.numpy.where
        choose = lambda x, y: where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, y)  # noqa: E731
        self._observation = jax.tree.map(choose, observation, self._observation)
        self._ended = choose(np.zeros_like(mask), self._ended)
        infos = self._infos(jax.tree.map(lambda x: choose(x, x * 0), env_info), mask)
        return self._observation, infos

    def step(self, actions: Tree) -> tuple[Tree, Any, Any, Any, dict]:
        """Advances every lane by one step."""
        self._check_open()
        if not self._stepper.started:
            raise gymnasium.error.ResetNeeded("to_gymnasium_vector: call reset before step")
        if self.env.autoreset is None and (ended := np.flatnonzero(self._ended)).size:
            raise gymnasium.error.ResetNeeded(
                f"to_gymnasium_vector: the episode of lane {ended[0]} ended, reset it with "
                "reset(options={'reset_mask': mask})"
            )
        observation, reward, terminated, truncated, env_info = self._stepper.step(self._actions(actions))
        self._observation, self._ended = observation, terminated | truncated
        if self._arrays == "numpy":
            reward = reward.astype(np.float64)
        infos = {}
        if self.env.autoreset == "same_step":
            env_info = dict(env_info)
            final = env_info.pop("final_observation")
            if self._arrays == "jax":
                infos = {"final_obs": final, "_final_obs": self._ended}
            elif self._ended.any():
                infos["final_obs"] = np.full(self.num_envs, None, object)
                for i in np.flatnonzero(self._ended):
                    infos["final_obs"][i] = jax.tree.map(lambda x, i=i: x[i], final)
                infos["_final_obs"] = self._ended.copy()
        return observation, reward, terminated, truncated, {**infos, **self._infos(env_info)}

    def render(self) -> None:
        """Raises ``NotImplementedError``: there is no rendering."""
        raise NotImplementedError("to_gymnasium_vector: jaxenv does not render")

    def close_extras(self, **kwargs) -> None:
        """Frees the state."""
        self._stepper.close()
        self.env.close()

    def _infos(self, env_info: dict[str, Tree], mask: np.ndarray | None = None) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for name, value in env_info.items():
            if name == "final_observation":
                continue
            infos[name] = self._infos(value, mask) if isinstance(value, dict) else value
            infos[f"_{name}"] = np.ones(self.num_envs, bool) if mask is None else mask.copy()
        return infos

    def _check_open(self) -> None:
        if self.closed:
            raise gymnasium.error.ClosedEnvironmentError("to_gymnasium_vector: the environment is closed")


def _check_render_mode(owner: str, render_mode: Any) -> None:
    if render_mode is not None:
        raise ValueError(f"{owner}: jaxenv does not render, render_mode must be None, got {render_mode!r}")


def _check_reward(owner: str, env: Environment) -> None:
    if shape := env.reward_spec().shape:
        raise ValueError(f"{owner}: a reward must be one number, {env} has {shape[0]}: wrap it in ScalarizeReward")


def _checked_mask(mask: Any, num_envs: int) -> np.ndarray:
    got = f"{mask.dtype}{list(mask.shape)}" if isinstance(mask, np.ndarray) else f"a {type(mask).__name__}"
    if not isinstance(mask, np.ndarray) or mask.shape != (num_envs,) or mask.dtype != np.bool_:
        raise ValueError(f"to_gymnasium_vector: reset_mask must be a NumPy array bool[{num_envs}], got {got}")
    if not mask.any():
        raise ValueError("to_gymnasium_vector: reset_mask must name a lane, got none")
    return mask
