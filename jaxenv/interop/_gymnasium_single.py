"""One lane as an environment of Gymnasium."""

import time
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import jax
import numpy as np

from jaxenv._util.library import import_library
from jaxenv.core.environment import Environment
from jaxenv.interop._adapter import RENDERING
from jaxenv.interop._environment import single_lane
from jaxenv.interop._gymnasium_rows import RowAdapter, StepResult, sample_of, spec_of_id
from jaxenv.interop._spaces import space_of
from jaxenv.tree import Tree

gymnasium = import_library("gymnasium", "pip install gymnasium")
_OWNER = "to_gymnasium"


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
    env = single_lane(_OWNER, env_or_id, options, "the caller restarts episodes", "a gymnasium.Env is one lane")
    if env.num_envs != 1:
        raise ValueError(f"{_OWNER}: env must have one lane, got {env.num_envs}: to_gymnasium_vector takes them")
    single = JaxenvEnv(env, render_mode)
    options.pop("autoreset", None)
    single.spec = spec_of_id(gymnasium.registry, env_or_id, options, env)
    return single


class JaxenvEnv(RowAdapter, gymnasium.Env):  # type: ignore[name-defined]
    """The environment that `to_gymnasium` returns, with ``env``, the environment of jaxenv.

    Its errors are ``gymnasium.error.ResetNeeded`` before the first ``reset`` and after the end of an episode, and
    ``gymnasium.error.ClosedEnvironmentError`` after ``close``.
    """

    metadata: ClassVar[dict[str, Any]] = RENDERING
    _owner = _OWNER
    _settable = frozenset({"metadata", "np_random", "render_mode", "spec"})
    _closed_error, _reset_error = gymnasium.error.ClosedEnvironmentError, gymnasium.error.ResetNeeded

    def __init__(self, env: Environment, render_mode: str | None = None):
        super().__init__(env, render_mode, num_lanes=None)
        self.observation_space = space_of(env.observation_spec(), gymnasium.spaces, f"{_OWNER}: observation")
        self.action_space = space_of(env.action_spec(), gymnasium.spaces, f"{_OWNER}: action")
        self._ended, self._since = False, 0.0
        self._is_fixed = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Tree, dict[str, Any]]:
        """Starts an episode with ``jax.random.key(seed)``. There are no options.

        Without a seed the next episode starts; the first draws a seed, ``np_random_seed``, which determines all.
        """
        self._open()
        if options:
            raise ValueError(f"{_OWNER}: reset has no options, got {next(iter(options))!r}")
        if seed is None and self._state is None:
            seed = int(self.np_random.integers(2**32))
        row = self._restart() if seed is None else self._start([seed])
        super().reset(seed=None if seed is None else int(seed))
        self._ended, self._since = False, time.perf_counter()
        self._keep_masks(row)
        return sample_of(self._spaces, row.observation), _info(row)

    def step(self, action: Tree) -> tuple[Tree, float, bool, bool, dict[str, Any]]:
        """Advances by one step; an action of another shape or kind, or a discrete one out of range, is an error."""
        self._open("step")
        if self._ended:
            raise gymnasium.error.ResetNeeded(f"{_OWNER}: the episode ended, call reset")
        row = self._step(self._actions(action))
        terminated, truncated = bool(row.terminated[0]), bool(row.truncated[0])
        self._ended = terminated or truncated
        self._keep_masks(row)
        info = _info(row)
        if self._ended and row.episode:
            seconds = time.perf_counter() - self._since
            info["episode"] = {"r": float(row.episode["r"][0]), "l": int(row.episode["l"][0]), "t": seconds}
        return sample_of(self._spaces, row.observation), float(row.reward[0]), terminated, truncated, info

    @property
    def action_masks(self) -> Callable[[], np.ndarray]:
        """The function that ``MaskablePPO`` of sb3-contrib calls: the flags of the actions that are legal now."""
        if not self._has_mask:
            raise AttributeError(f"{_OWNER}: {self.env} has no env_info['action_mask']", name="action_masks", obj=self)
        return lambda: self._masks_of(0)

    def render(self) -> np.ndarray:
        """Renders the state, uint8 ``[256, 256, 3]``; needs ``render_mode="rgb_array"``."""
        return self._pictures()[0]

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Refuses, like ``setattr``: a wrapper would keep the value to itself, where nothing reads it."""
        setattr(self, name, value)
        return True


def _info(row: StepResult) -> dict[str, Any]:
    info = row.info.items()
    return {n: _of_lane(x) if isinstance(x, np.ndarray) else jax.tree.map(_of_lane, x) for n, x in info}


def _of_lane(x: np.ndarray) -> Any:
    # Vector environments of Gymnasium make an array of Python's bool, but of NumPy's an array of objects.
    return bool(x[0]) if x.dtype.kind == "b" and x.ndim == 1 else x[0]
