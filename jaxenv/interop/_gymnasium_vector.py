"""A batch of lanes as a vector environment of Gymnasium."""

from typing import Any, Literal

import jax
import numpy as np

from jaxenv._util.checks import check_choice
from jaxenv._util.library import import_library
from jaxenv.core.environment import Environment
from jaxenv.interop._environment import check_reward, environment_of
from jaxenv.interop._fixed import Fixed, not_settable
from jaxenv.interop._gymnasium_rows import (
    RENDERING,
    StepResult,
    caster,
    check_render_mode,
    frames,
    rows_of,
    spec_of_id,
)
from jaxenv.interop._host_actions import HostActions
from jaxenv.interop._infos import ON_HOST, EpisodeTimes, check_infos
from jaxenv.interop._spaces import space_of
from jaxenv.interop._stepper import Seeds, Stepper
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
        **options: options of `jaxenv.load`, if ``env_or_id`` is an id. ``autoreset`` sets the autoreset mode:
            ``"next_step"``, ``"same_step"`` or ``None``, or Gymnasium's ``AutoresetMode``, where ``None`` is
            ``DISABLED``.

    Raises:
        ImportError: without Gymnasium.
        ValueError: for vector rewards, or specs that cannot be spaces.

    >>> envs = to_gymnasium_vector("CartPole-v1", num_envs=3)
    >>> observations, infos = envs.reset(seed=0)
    >>> observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
    >>> observations.shape, rewards.dtype
    ((3, 4), dtype('float64'))
    """
    check_choice(_OWNER, "arrays", arrays, ("numpy", "jax"))
    check_render_mode(_OWNER, render_mode)
    if isinstance(options.get("autoreset"), AutoresetMode):
        options["autoreset"] = next(mode for mode, value in _MODES.items() if value is options["autoreset"])
    envs = JaxenvVectorEnv(environment_of(_OWNER, env_or_id, num_envs, options), arrays, render_mode)
    envs.spec = spec_of_id(gymnasium.registry, env_or_id, {**options, "num_envs": envs.num_envs, "arrays": arrays})
    return envs


class JaxenvVectorEnv(Fixed, gymnasium.vector.VectorEnv):  # type: ignore[name-defined]
    """The vector environment that `to_gymnasium_vector` returns.

    Attributes:
        env: the environment of jaxenv.
    """

    _owner = _OWNER
    _settable = frozenset({"closed", "metadata", "np_random", "render_mode", "spec"})

    def __init__(self, env: Environment, arrays: str, render_mode: str | None = None):
        self.closed = True  # versions before 1.2 close deleted objects, even if the constructor failed
        check_reward(_OWNER, env, batch=True)
        check_infos(_OWNER, env, ON_HOST)
        self.env, self.num_envs, self._numpy = env, env.num_envs, arrays == "numpy"
        self.autoreset_mode = _MODES[env.autoreset]  # TorchRL reads it here, as in SyncVectorEnv
        self.metadata = {**RENDERING, "autoreset_mode": self.autoreset_mode, "jax": not self._numpy}
        self.render_mode = render_mode
        spec = env.observation_spec()
        self.single_observation_space = space_of(spec, gymnasium.spaces, f"{_OWNER}: observation")
        self.single_action_space = space_of(env.action_spec(), gymnasium.spaces, f"{_OWNER}: action")
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, env.num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, env.num_envs)
        self._cast = caster(self.single_observation_space, spec) if self._numpy else None
        self._stepper = Stepper(env, rows_of(env), self._numpy, _OWNER)
        self._actions = HostActions(env.action_spec(), env.num_envs, _OWNER)
        self._everywhere = np.ones(env.num_envs, bool)
        self._times = EpisodeTimes(env.num_envs, jax=not self._numpy)
        self._ended: Any = None  # without restarts, the lanes that must be reset
        self.closed = False
        self._is_fixed = True

    def reset(self, *, seed: Seeds | None = None, options: dict[str, Any] | None = None) -> tuple[Tree, dict[str, Any]]:
        """Starts an episode in every lane, or in the lanes of ``options["reset_mask"]``.

        Args:
            seed: an integer, the key ``jax.random.key(seed)`` of the batch, or one per lane. Without it the next
                episodes of the lanes start, so that the first seed determines all of them; the first reset without a
                seed draws one, which ``np_random_seed`` then is.
            options: ``{"reset_mask": mask}`` restarts the lanes of ``mask``, bool ``[num_envs]`` of NumPy
                or JAX.

        Raises:
            ValueError: for a wrong seed or mask, or an unknown option.
            gymnasium.error.ClosedEnvironmentError: after ``close``.
        """
        self._check_open()
        mask = self._mask(options)
        if self._stepper.started and (seed is None or mask is not None):
            row = self._stepper.restart(self._everywhere if mask is None else mask, seed)
        elif mask is None or mask.all():
            seed = int(self.np_random.integers(2**32)) if seed is None else seed
            row = self._stepper.start(seed)
        else:
            raise ValueError(f"{_OWNER}: the first reset starts all lanes, got a reset_mask of {mask.sum()} lanes")
        self._set_random(seed)
        self._keep_ended(row)
        if row.episode:
            self._times.start(self._everywhere if mask is None else mask)
        if mask is None:
            return self._observation(row), _infos(row.info, self._everywhere)
        where = np.where if self._numpy else jax.numpy.where
        infos = jax.tree.map(lambda x: where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, x.dtype.type(0)), row.info)
        return self._observation(row), _infos(infos, mask)

    def step(self, actions: Tree) -> tuple[Tree, Any, Any, Any, dict[str, Any]]:
        """Advances every lane by one step.

        Args:
            actions: ``[num_envs, ...]``, NumPy or JAX. Other dtypes of the same kind are cast. Discrete actions of
                NumPy must lie within the space; JAX actions and continuous ones are clipped to it.

        Raises:
            ValueError: for actions of another shape or kind, or discrete ones out of range.
            gymnasium.error.ResetNeeded: before the first ``reset``, or where a lane's episode ended (``DISABLED``).
            gymnasium.error.ClosedEnvironmentError: after ``close``.
        """
        self._check_open()
        if not self._stepper.started:
            raise gymnasium.error.ResetNeeded(f"{_OWNER}: call reset before step")
        if self.env.autoreset is None and (ended := np.flatnonzero(self._ended)).size:
            raise gymnasium.error.ResetNeeded(
                f"{_OWNER}: the episode of lane {ended[0]} ended, reset it by reset(options={{'reset_mask': mask}})"
            )
        row = self._stepper.step(self._actions(actions))
        self._keep_ended(row)
        infos = _infos(row.info, self._everywhere)
        if self.env.autoreset == "same_step":
            infos.update(self._final(row))
        else:
            infos.update(self._episode(row))
        reward = row.reward.astype(np.float64) if self._numpy else row.reward
        return self._observation(row), reward, row.terminated, row.truncated, infos

    def set_attr(self, name: str, values: Any) -> None:
        """Raises an ``AttributeError``: environments never change."""
        raise AttributeError(not_settable(_OWNER, self.env, name, values), name=name, obj=self)

    def render(self) -> tuple[np.ndarray, ...]:
        """Renders each lane, uint8 ``[256, 256, 3]``.

        Raises:
            ValueError: without ``render_mode="rgb_array"``, or for an environment without pictures.
            gymnasium.error.ResetNeeded: before the first ``reset``.
            gymnasium.error.ClosedEnvironmentError: after ``close``.
        """
        self._check_open()
        return tuple(frames(_OWNER, self._stepper, self.render_mode, gymnasium.error.ResetNeeded))

    def close_extras(self, **kwargs: Any) -> None:
        """Frees the state."""
        self._stepper.close()
        self.env.close()

    def _observation(self, row: StepResult) -> Tree:
        return row.observation if self._cast is None else self._cast(row.observation)

    def _keep_ended(self, row: StepResult) -> None:
        if self.env.autoreset is None:
            self._ended = row.ended

    def _final(self, row: StepResult) -> dict[str, Any]:
        """Returns the last observations and infos like ``SyncVectorEnv``; with JAX arrays, of all lanes."""
        if not self._numpy:
            return {
                "final_obs": row.final_observation,
                "final_info": {**_infos(row.final_info, row.ended), **self._episode(row)},
                "_final_obs": row.ended,
                "_final_info": row.ended,
            }
        if not row.ended.any():
            return {}
        observation = row.final_observation if self._cast is None else self._cast(row.final_observation)
        final = np.full(self.num_envs, None, object)
        for lane in np.flatnonzero(row.ended):
            final[lane] = jax.tree.map(lambda x, lane=lane: x[lane], observation)
        info = {**_infos(row.final_info, row.ended), **self._episode(row)}
        return {"final_obs": final, "final_info": info, "_final_obs": row.ended.copy(), "_final_info": row.ended.copy()}

    def _episode(self, row: StepResult) -> dict[str, Any]:
        """Returns statistics of the episodes that ended, in the form of Gymnasium's ``RecordEpisodeStatistics``."""
        if not row.episode or (self._numpy and not row.ended.any()):
            return {}
        episode = {**row.episode, "t": self._times.ended(row.ended)}
        if self._numpy:
            episode = {name: x.astype(np.float64 if x.dtype.kind == "f" else np.int64) for name, x in episode.items()}
        return _infos({"episode": episode}, row.ended)

    def _mask(self, options: dict[str, Any] | None) -> np.ndarray | None:
        if not options:
            return None
        if unknown := [name for name in options if name != "reset_mask"]:
            raise ValueError(f"{_OWNER}: the only option of reset is reset_mask, got {unknown[0]!r}")
        mask = options["reset_mask"]
        kind = type(mask).__name__
        if not hasattr(mask, "dtype"):
            raise ValueError(f"{_OWNER}: reset_mask must be an array bool[{self.num_envs}], got a {kind}")
        mask = np.asarray(mask)  # wrappers such as JaxToTorch convert the options, too
        if mask.shape != (self.num_envs,) or mask.dtype.kind != "b":
            got = f"{mask.dtype}{list(mask.shape)} ({kind})"
            raise ValueError(f"{_OWNER}: reset_mask must be an array bool[{self.num_envs}], got {got}")
        if not mask.any():
            raise ValueError(f"{_OWNER}: reset_mask must name a lane, got {mask}")
        return mask

    def _set_random(self, seed: Seeds | None) -> None:
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
        elif isinstance(seed, list | tuple | np.ndarray) and all(isinstance(s, int | np.integer) for s in seed):
            self._np_random, self._np_random_seed = np.random.default_rng(seed), tuple(map(int, seed))

    def _check_open(self) -> None:
        if self.closed:
            raise gymnasium.error.ClosedEnvironmentError(f"{_OWNER}: the environment is closed, make a new one")


def _infos(info: dict[str, Tree], mask: Any) -> dict[str, Any]:
    """Converts infos to Gymnasium's form: each entry, and under ``_NAME`` the lanes that have it."""
    infos: dict[str, Any] = {}
    for name, value in info.items():
        infos[name] = _infos(value, mask) if isinstance(value, dict) else value
        infos[f"_{name}"] = mask.copy() if isinstance(mask, np.ndarray) else mask
    return infos
