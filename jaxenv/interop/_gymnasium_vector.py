"""A batch of lanes as a vector environment of Gymnasium."""

import time
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv._util.checks import check_choice
from jaxenv._util.library import import_library
from jaxenv.core.entries import state_entries
from jaxenv.core.environment import Environment
from jaxenv.interop._adapter import RENDERING, Seeds
from jaxenv.interop._environment import environment_of
from jaxenv.interop._gymnasium_rows import RowAdapter, Rows, StepResult, cast_to, spec_of_id
from jaxenv.interop._lanes import not_settable
from jaxenv.interop._spaces import space_of
from jaxenv.tree import Tree

gymnasium = import_library("gymnasium", "pip install gymnasium")
if not hasattr(gymnasium.vector, "AutoresetMode"):
    raise ImportError(f"gymnasium 1.1 or later is needed, this is {gymnasium.__version__}: pip install -U gymnasium")
AutoresetMode = gymnasium.vector.AutoresetMode

_MODES = {"next_step": AutoresetMode.NEXT_STEP, "same_step": AutoresetMode.SAME_STEP, None: AutoresetMode.DISABLED}
_OWNER = "to_gymnasium_vector"


def to_gymnasium_vector(
    env_or_id: Environment | str,
    num_envs: int | None = None,
    *,
    arrays: Literal["numpy", "jax"] = "numpy",
    render_mode: Literal["rgb_array"] | None = None,
    **options: Any,
) -> "JaxenvVectorEnv":
    """Exports a batch as a ``gymnasium.vector.VectorEnv``.

    Args:
        env_or_id: an environment, or an id.
        num_envs: number of lanes of an id, 1 by default.
        arrays: ``"numpy"``: writable NumPy arrays, rewards float64, as Gymnasium's own vector environments return.
            ``"jax"``: arrays of JAX, which other libraries read through DLPack without a copy; rewards are float32.
        render_mode: ``"rgb_array"`` for pictures of 256 by 256 pixels by ``render``.
        **options: of `jaxenv.make`. ``autoreset`` may also be Gymnasium's ``AutoresetMode``; ``None`` is ``DISABLED``.

    >>> envs = to_gymnasium_vector("CartPole-v1", num_envs=3)
    >>> observations, infos = envs.reset(seed=0)
    >>> observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
    >>> observations.shape, rewards.dtype
    ((3, 4), dtype('float64'))
    """
    check_choice(_OWNER, "arrays", arrays, ("numpy", "jax"))
    if isinstance(options.get("autoreset"), AutoresetMode):
        options["autoreset"] = next(mode for mode, value in _MODES.items() if value is options["autoreset"])
    envs = JaxenvVectorEnv(environment_of(_OWNER, env_or_id, num_envs, options), arrays, render_mode)
    envs.spec = spec_of_id(
        gymnasium.registry, env_or_id, {**options, "num_envs": envs.num_envs, "arrays": arrays}, envs.env
    )
    return envs


class JaxenvVectorEnv(RowAdapter, gymnasium.vector.VectorEnv):  # type: ignore[name-defined]
    """The vector environment that `to_gymnasium_vector` returns, with ``env``, the environment of jaxenv.

    Its errors are ``gymnasium.error.ResetNeeded`` before the first ``reset`` and, without restarts, where the episode
    of a lane ended, and ``gymnasium.error.ClosedEnvironmentError`` after ``close``.
    """

    _owner = _OWNER
    _settable = frozenset({"closed", "metadata", "np_random", "render_mode", "spec"})
    _closed_error, _reset_error = gymnasium.error.ClosedEnvironmentError, gymnasium.error.ResetNeeded
    __repr__ = gymnasium.vector.VectorEnv.__repr__

    def __init__(self, env: Environment, arrays: str, render_mode: str | None = None):
        self.closed = True  # versions before 1.2 close deleted objects, even if the constructor failed
        self._numpy = arrays == "numpy"
        of_state = state_entries(env) if env.autoreset == "same_step" else None
        super().__init__(env, render_mode, env.num_envs, Rows(of_state), self._numpy)
        self.num_envs = env.num_envs
        self.autoreset_mode = _MODES[env.autoreset]  # TorchRL reads it here, as in SyncVectorEnv
        self.metadata = {**RENDERING, "autoreset_mode": self.autoreset_mode, "jax": not self._numpy}
        self.single_observation_space, self.single_action_space = (
            space_of(spec, gymnasium.spaces, f"{_OWNER}: {name}")
            for name, spec in (("observation", env.observation_spec()), ("action", env.action_spec()))
        )
        self.observation_space, self.action_space = (
            gymnasium.vector.utils.batch_space(space, env.num_envs)
            for space in (self.single_observation_space, self.single_action_space)
        )
        self._everywhere = np.ones(env.num_envs, bool)
        self._origin, self._since = time.perf_counter(), self._xp.zeros(env.num_envs)
        self._ended: Any = None  # without restarts, the lanes that must be reset
        self.closed = False
        self._is_fixed = True

    def reset(self, *, seed: Seeds | None = None, options: dict[str, Any] | None = None) -> tuple[Tree, dict[str, Any]]:
        """Starts an episode in every lane, or in the lanes of ``options["reset_mask"]``, bool ``[num_envs]``.

        The seed is an integer, the key ``jax.random.key(seed)`` of the batch, or one per lane. Without it the next
        episodes of the lanes start; the first reset draws a seed, ``np_random_seed``, which determines all.
        """
        self._open()
        mask = self._mask(options)
        if self._state is not None and (seed is None or mask is not None):
            row = self._restart(mask, seed)
        elif mask is None or mask.all():
            seed = int(self.np_random.integers(2**32)) if seed is None else seed
            row = self._start(seed)
        else:
            raise ValueError(f"{_OWNER}: the first reset starts all lanes, got a reset_mask of {mask.sum()} lanes")
        self._set_random(seed)
        self._ended = row.ended
        self._seconds(self._everywhere if mask is None else mask)
        if mask is None:
            return self._observation(row.observation), _infos(row.info, self._everywhere)
        where = self._xp.where
        infos = jax.tree.map(lambda x: where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, x.dtype.type(0)), row.info)
        return self._observation(row.observation), _infos(infos, mask)

    def step(self, actions: Tree) -> tuple[Tree, Any, Any, Any, dict[str, Any]]:
        """Advances every lane by one step, by actions ``[num_envs, ...]`` of NumPy or JAX.

        Other dtypes of the same kind are cast. Discrete ones of NumPy must lie within the space; others are clipped.
        """
        self._open("step")
        if self.env.autoreset is None and (ended := np.flatnonzero(self._ended)).size:
            how = "reset it by reset(options={'reset_mask': mask})"
            raise gymnasium.error.ResetNeeded(f"{_OWNER}: the episode of lane {ended[0]} ended, {how}")
        row = self._step(self._actions(actions))
        self._ended = row.ended
        infos = _infos(row.info, self._everywhere)
        infos.update(self._final(row) if self.env.autoreset == "same_step" else self._episode(row))
        reward = row.reward.astype(np.float64) if self._numpy else row.reward
        return self._observation(row.observation), reward, row.terminated, row.truncated, infos

    def set_attr(self, name: str, values: Any) -> None:
        """Raises an ``AttributeError``: environments never change."""
        raise AttributeError(not_settable(_OWNER, self.env, name, values), name=name, obj=self)

    def render(self) -> tuple[np.ndarray, ...]:
        """Renders each lane, uint8 ``[256, 256, 3]``; needs ``render_mode="rgb_array"``."""
        return tuple(self._pictures())

    def close(self, **kwargs: Any) -> None:
        """Frees the state."""
        super().close()
        self.closed = True

    @property
    def _xp(self) -> Any:
        return np if self._numpy else jnp

    def _observation(self, observation: Tree) -> Tree:
        return cast_to(self._spaces, observation) if self._numpy else observation

    def _final(self, row: StepResult) -> dict[str, Any]:
        """Returns the last observations and infos like ``SyncVectorEnv``; with JAX arrays, of all lanes."""
        if self._numpy and not row.ended.any():
            return {}
        final = self._observation(row.final_observation)
        if self._numpy:
            of_lanes, final = final, np.full(self.num_envs, None, object)
            for lane in np.flatnonzero(row.ended):
                final[lane] = jax.tree.map(lambda x, lane=lane: x[lane], of_lanes)
        info = {**_infos(row.final_info, row.ended), **self._episode(row)}
        return _infos({"final_obs": final}, row.ended) | {"final_info": info, "_final_info": row.ended.copy()}

    def _episode(self, row: StepResult) -> dict[str, Any]:
        """Returns statistics of the episodes that ended, in the form of Gymnasium's ``RecordEpisodeStatistics``."""
        if not row.episode or (self._numpy and not row.ended.any()):
            return {}
        episode = {**row.episode, "t": self._seconds(row.ended)}
        if self._numpy:
            episode = {name: x.astype(np.float64 if x.dtype.kind == "f" else np.int64) for name, x in episode.items()}
        return _infos({"episode": episode}, row.ended)

    def _seconds(self, mask: Any) -> Any:
        """Returns the seconds of the episodes in the lanes of ``mask``, 0 in others; starts the next ones there."""
        now = time.perf_counter() - self._origin
        seconds = self._xp.where(mask, now - self._since, 0)
        self._since = self._xp.where(mask, now, self._since)
        return seconds

    def _mask(self, options: dict[str, Any] | None) -> np.ndarray | None:
        if not options:
            return None
        if unknown := [name for name in options if name != "reset_mask"]:
            raise ValueError(f"{_OWNER}: the only option of reset is reset_mask, got {unknown[0]!r}")
        mask, kind = options["reset_mask"], type(options["reset_mask"]).__name__
        has_dtype = hasattr(mask, "dtype")  # a list has none
        mask = np.asarray(mask)  # wrappers such as JaxToTorch convert the options, too
        if not has_dtype or mask.shape != (self.num_envs,) or mask.dtype.kind != "b":
            got = f"{mask.dtype}{list(mask.shape)} ({kind})" if has_dtype else f"a {kind}"
            raise ValueError(f"{_OWNER}: reset_mask must be an array bool[{self.num_envs}], got {got}")
        if not mask.any():
            raise ValueError(f"{_OWNER}: reset_mask must name a lane, got {mask}")
        return mask

    def _set_random(self, seed: Seeds | None) -> None:
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
        elif isinstance(seed, list | tuple | np.ndarray) and all(isinstance(s, int | np.integer) for s in seed):
            self._np_random, self._np_random_seed = np.random.default_rng(seed), tuple(map(int, seed))


def _infos(info: dict[str, Tree], mask: Any) -> dict[str, Any]:
    """Converts infos to Gymnasium's form: each entry, and under ``_NAME`` the lanes that have it."""
    infos: dict[str, Any] = {}
    for name, value in info.items():
        infos[name] = _infos(value, mask) if isinstance(value, dict) else value
        infos[f"_{name}"] = mask.copy() if isinstance(mask, np.ndarray) else mask
    return infos
