"""One lane as an environment of Gymnasium, and a batch of lanes as a vector environment."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_choice, described
from jaxenv._util.library import import_library
from jaxenv.core import Environment, TimeStep, layers
from jaxenv.core.entries import state_entries
from jaxenv.interop._adapter import RENDERING, Adapter, Seeds
from jaxenv.interop._environment import (
    ON_HOST,
    check_infos,
    check_reward,
    environment_of,
    has_action_mask,
    not_settable,
    single_lane,
)
from jaxenv.interop._spaces import HostActions, cast_to, leaf_spaces, sample_of, space_of
from jaxenv.tree import Tree
from jaxenv.wrappers import Trials

gymnasium = import_library("gymnasium", "pip install gymnasium")
AutoresetMode = gymnasium.vector.AutoresetMode

_MODES = {"next_step": AutoresetMode.NEXT_STEP, "same_step": AutoresetMode.SAME_STEP, None: AutoresetMode.DISABLED}


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
        self._of_lane = {  # the spaces of one lane's observation and action
            name: space_of(spec, gymnasium.spaces, f"{self._owner}: {name}")
            for name, spec in (("observation", env.observation_spec()), ("action", env.action_spec()))
        }
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


def spec_of_id(env_or_id: Any, options: dict[str, Any], env: Environment) -> Any:
    """Gymnasium's spec of an id with options, ``None`` for an environment or an id that is not registered there.

    It has no limit around `Trials`, whose episodes have it inside.
    """
    spec = gymnasium.registry.get(f"jaxenv/{env_or_id}") if isinstance(env_or_id, str) else None
    if spec is None:
        return None
    limit = options.get("max_episode_steps")
    if not isinstance(limit, int):
        limit = spec.max_episode_steps
    if any(isinstance(layer, Trials) for layer in layers(env)):
        limit = None
    return dataclasses.replace(spec, kwargs={**spec.kwargs, **options}, max_episode_steps=limit or None)


def to_gymnasium(
    env_or_id: Environment | str, *, render_mode: Literal["rgb_array"] | None = None, **options: Any
) -> "JaxenvEnv":
    """Exports one lane as a ``gymnasium.Env``.

    Args:
        env_or_id: an environment of one lane and one reward, made with ``autoreset=None``, or an id.
        render_mode: ``"rgb_array"`` for pictures of 256 by 256 pixels by ``render``.
        **options: of `jaxenv.make`.

    >>> env = to_gymnasium("CartPole-v1")
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step(0)
    >>> reward, terminated, truncated
    (1.0, False, False)
    """
    env = single_lane("to_gymnasium", env_or_id, options, "the caller restarts episodes", "a gymnasium.Env is one lane")
    if env.num_envs != 1:
        raise ValueError(f"to_gymnasium: env must have one lane, got {env.num_envs}: to_gymnasium_vector takes them")
    single = JaxenvEnv(env, render_mode)
    options.pop("autoreset", None)
    single.spec = spec_of_id(env_or_id, options, env)
    return single


class JaxenvEnv(RowAdapter, gymnasium.Env):  # type: ignore[name-defined]
    """The environment that `to_gymnasium` returns, with ``env``, the environment of jaxenv.

    Its errors are ``gymnasium.error.ResetNeeded`` before the first ``reset`` and after the end of an episode, and
    ``gymnasium.error.ClosedEnvironmentError`` after ``close``.
    """

    metadata: ClassVar[dict[str, Any]] = RENDERING
    _owner = "to_gymnasium"
    _settable = frozenset({"metadata", "np_random", "render_mode", "spec"})
    _closed_error, _reset_error = gymnasium.error.ClosedEnvironmentError, gymnasium.error.ResetNeeded

    def __init__(self, env: Environment, render_mode: str | None = None):
        super().__init__(env, render_mode, num_lanes=None)
        self.observation_space, self.action_space = self._of_lane.values()
        self._ended = False
        self._is_fixed = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Tree, dict[str, Any]]:
        """Starts an episode with ``jax.random.key(seed)``. There are no options.

        Without a seed the next episode starts; the first draws a seed, ``np_random_seed``, which determines all.
        """
        self._open()
        if options:
            raise ValueError(f"to_gymnasium: reset has no options, got {next(iter(options))!r}")
        if seed is None and self._state is None:
            seed = int(self.np_random.integers(2**32))
        row = self._restart() if seed is None else self._start([seed])
        super().reset(seed=None if seed is None else int(seed))
        self._ended = False
        self._keep_masks(row)
        return sample_of(self._spaces, row.observation), _info(row)

    def step(self, action: Tree) -> tuple[Tree, float, bool, bool, dict[str, Any]]:
        """Advances by one step; an action of another shape or kind, or a discrete one out of range, is an error."""
        self._open("step")
        if self._ended:
            raise gymnasium.error.ResetNeeded("to_gymnasium: the episode ended, call reset")
        row = self._step(self._actions(action))
        terminated, truncated = bool(row.terminated[0]), bool(row.truncated[0])
        self._ended = terminated or truncated
        self._keep_masks(row)
        info = _info(row)
        if self._ended and row.episode:
            info["episode"] = {"r": float(row.episode["r"][0]), "l": int(row.episode["l"][0])}
        return sample_of(self._spaces, row.observation), float(row.reward[0]), terminated, truncated, info

    @property
    def action_masks(self) -> Callable[[], np.ndarray]:
        """The function that ``MaskablePPO`` of sb3-contrib calls: the flags of the actions that are legal now."""
        if not self._has_mask:
            rule = f"to_gymnasium: {self.env} has no env_info['action_mask']"
            raise AttributeError(rule, name="action_masks", obj=self)
        return lambda: self._masks_of(0)

    def render(self) -> np.ndarray:
        """Renders the state, uint8 ``[256, 256, 3]``; needs ``render_mode="rgb_array"``."""
        return self._pictures()[0]

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Refuses, like ``setattr``: a wrapper would keep the value to itself, where nothing reads it."""
        setattr(self, name, value)
        return True


def _info(row: StepResult) -> dict[str, Any]:
    return {n: _of_lane(x) if isinstance(x, np.ndarray) else jax.tree.map(_of_lane, x) for n, x in row.info.items()}


def _of_lane(x: np.ndarray) -> Any:
    # Vector environments of Gymnasium make an array of Python's bool, but of NumPy's an array of objects.
    return bool(x[0]) if x.dtype.kind == "b" and x.ndim == 1 else x[0]


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
    check_choice("to_gymnasium_vector", "arrays", arrays, ("numpy", "jax"))
    if isinstance(options.get("autoreset"), AutoresetMode):
        options["autoreset"] = next(mode for mode, value in _MODES.items() if value is options["autoreset"])
    envs = JaxenvVectorEnv(environment_of("to_gymnasium_vector", env_or_id, num_envs, options), arrays, render_mode)
    envs.spec = spec_of_id(env_or_id, {**options, "num_envs": envs.num_envs, "arrays": arrays}, envs.env)
    return envs


class JaxenvVectorEnv(RowAdapter, gymnasium.vector.VectorEnv):  # type: ignore[name-defined]
    """The vector environment that `to_gymnasium_vector` returns, with ``env``, the environment of jaxenv.

    Its errors are ``gymnasium.error.ResetNeeded`` before the first ``reset`` and, without restarts, where the episode
    of a lane ended, and ``gymnasium.error.ClosedEnvironmentError`` after ``close``.
    """

    _owner = "to_gymnasium_vector"
    _settable = frozenset({"closed", "metadata", "np_random", "render_mode", "spec"})
    _closed_error, _reset_error = gymnasium.error.ClosedEnvironmentError, gymnasium.error.ResetNeeded
    __repr__ = gymnasium.vector.VectorEnv.__repr__

    def __init__(self, env: Environment, arrays: str, render_mode: str | None = None):
        self._numpy = arrays == "numpy"
        of_state = state_entries(env) if env.autoreset == "same_step" else None
        super().__init__(env, render_mode, env.num_envs, Rows(of_state), self._numpy)
        self.num_envs = env.num_envs
        self.autoreset_mode = _MODES[env.autoreset]  # TorchRL reads it here, as in SyncVectorEnv
        self.metadata = {**RENDERING, "autoreset_mode": self.autoreset_mode, "jax": not self._numpy}
        self.single_observation_space, self.single_action_space = self._of_lane.values()
        self.observation_space, self.action_space = (
            gymnasium.vector.utils.batch_space(space, env.num_envs)
            for space in (self.single_observation_space, self.single_action_space)
        )
        self._everywhere = np.ones(env.num_envs, bool)
        self._ended: Any = None  # without restarts, the lanes that must be reset
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
            rule = "the first reset starts all lanes"
            raise ValueError(f"to_gymnasium_vector: {rule}, got a reset_mask of {mask.sum()} lanes")
        self._set_random(seed)
        self._ended = row.ended
        if mask is None:
            return self._observation(row.observation), _infos(row.info, self._everywhere)
        where = np.where if self._numpy else jnp.where
        infos = jax.tree.map(lambda x: where(tree.expand(mask, x.ndim), x, x.dtype.type(0)), row.info)
        return self._observation(row.observation), _infos(infos, mask)

    def step(self, actions: Tree) -> tuple[Tree, Any, Any, Any, dict[str, Any]]:
        """Advances every lane by one step, by actions ``[num_envs, ...]`` of NumPy or JAX.

        Other dtypes of the same kind are cast. Discrete ones of NumPy must lie within the space; others are clipped.
        """
        self._open("step")
        if self.env.autoreset is None and (ended := np.flatnonzero(self._ended)).size:
            how = "reset it by reset(options={'reset_mask': mask})"
            raise gymnasium.error.ResetNeeded(f"to_gymnasium_vector: the episode of lane {ended[0]} ended, {how}")
        row = self._step(self._actions(actions))
        self._ended = row.ended
        infos = _infos(row.info, self._everywhere)
        infos.update(self._final(row) if self.env.autoreset == "same_step" else self._episode(row))
        reward = row.reward.astype(np.float64) if self._numpy else row.reward
        return self._observation(row.observation), reward, row.terminated, row.truncated, infos

    def set_attr(self, name: str, values: Any) -> None:
        """Raises an ``AttributeError``: environments never change."""
        raise AttributeError(not_settable("to_gymnasium_vector", self.env, name, values), name=name, obj=self)

    def render(self) -> tuple[np.ndarray, ...]:
        """Renders each lane, uint8 ``[256, 256, 3]``; needs ``render_mode="rgb_array"``."""
        return tuple(self._pictures())

    def close(self, **kwargs: Any) -> None:
        """Frees the state."""
        super().close()
        self.closed = True

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
        episode = row.episode
        if self._numpy:
            episode = {name: x.astype(np.float64 if x.dtype.kind == "f" else np.int64) for name, x in episode.items()}
        return _infos({"episode": episode}, row.ended)

    def _mask(self, options: dict[str, Any] | None) -> np.ndarray | None:
        if not options:
            return None
        if unknown := [name for name in options if name != "reset_mask"]:
            raise ValueError(f"to_gymnasium_vector: the only option of reset is reset_mask, got {unknown[0]!r}")
        given = options["reset_mask"]
        mask = np.asarray(given)  # wrappers such as JaxToTorch convert the options, too
        if not hasattr(given, "dtype") or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            rule = f"reset_mask must be an array bool[{self.num_envs}]"
            raise ValueError(f"to_gymnasium_vector: {rule}, got {described(given)}")
        if not mask.any():
            raise ValueError(f"to_gymnasium_vector: reset_mask must name a lane, got {mask}")
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
