"""One lane as an environment of Gymnasium."""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import jax
import numpy as np

from jaxenv._util.library import import_library
from jaxenv.core.environment import Environment
from jaxenv.interop._environment import check_reward, environment_of, refuse_num_envs, refuse_outside_jax
from jaxenv.interop._fixed import Fixed
from jaxenv.interop._gymnasium_rows import (
    RENDERING,
    StepResult,
    check_render_mode,
    frames,
    leaf_spaces,
    rows_of,
    sample_of,
    spec_of_id,
)
from jaxenv.interop._host_actions import HostActions
from jaxenv.interop._infos import ON_HOST, EpisodeTimes, check_infos, flat_masks, has_action_mask
from jaxenv.interop._spaces import space_of
from jaxenv.interop._stepper import Stepper
from jaxenv.tree import Tree

gymnasium = import_library("gymnasium", "pip install gymnasium")
_OWNER = "to_gymnasium"


def to_gymnasium(
    env_or_id: Environment | str, *, render_mode: Literal["rgb_array"] | None = None, **options: Any
) -> "JaxenvEnv":
    """Exports one lane as a ``gymnasium.Env``.

    Args:
        env_or_id: an environment of one lane made with ``autoreset=None``, or an id.
        render_mode: ``"rgb_array"`` for pictures of 256 by 256 pixels by ``render``.
        **options: options of `jaxenv.load`, if ``env_or_id`` is an id.

    Raises:
        ImportError: without Gymnasium.
        ValueError: for an environment that restarts its lanes itself, has more than one, or has vector rewards.

    >>> env = to_gymnasium("CartPole-v1")
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step(0)
    >>> reward, terminated, truncated
    (1.0, False, False)
    """
    check_render_mode(_OWNER, render_mode)
    refuse_outside_jax(_OWNER, env_or_id)
    if not isinstance(env_or_id, Environment):
        if options.setdefault("autoreset", None) is not None:
            raise ValueError(
                f"{_OWNER}: the caller restarts episodes, leave out autoreset, got {options['autoreset']!r}"
            )
        refuse_num_envs(_OWNER, options, "a gymnasium.Env is one lane")
    env = environment_of(_OWNER, env_or_id, None, options)
    if env.autoreset is not None:
        raise ValueError(f"{_OWNER}: the caller restarts episodes, make {env} with autoreset=None")
    if env.num_envs != 1:
        raise ValueError(f"{_OWNER}: env must have one lane, got {env.num_envs}: to_gymnasium_vector takes them")
    single = JaxenvEnv(env, render_mode)
    options.pop("autoreset", None)
    single.spec = spec_of_id(gymnasium.registry, env_or_id, options)
    return single


class JaxenvEnv(Fixed, gymnasium.Env):  # type: ignore[name-defined]
    """The environment that `to_gymnasium` returns.

    Attributes:
        env: the environment of jaxenv, one lane.
    """

    metadata: ClassVar[dict[str, Any]] = RENDERING
    _owner = _OWNER
    _settable = frozenset({"metadata", "np_random", "render_mode", "spec"})

    def __init__(self, env: Environment, render_mode: str | None = None):
        check_reward(_OWNER, env)
        check_infos(_OWNER, env, ON_HOST)
        self.env, self.render_mode = env, render_mode
        self.observation_space = space_of(env.observation_spec(), gymnasium.spaces, f"{_OWNER}: observation")
        self.action_space = space_of(env.action_spec(), gymnasium.spaces, f"{_OWNER}: action")
        self._stepper = Stepper(env, rows_of(env), numpy=True, owner=_OWNER)
        self._actions = HostActions(env.action_spec(), None, _OWNER)
        self._leaves = leaf_spaces(self.observation_space)
        self._ended = self._closed = False
        self._times = EpisodeTimes(1)
        self._mask: Any = None
        self._has_mask = has_action_mask(env)
        self._is_fixed = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Tree, dict[str, Any]]:
        """Starts an episode.

        Args:
            seed: the key ``jax.random.key(seed)``. Without it the next episode starts, so that the first seed
                determines all of them; the first reset without a seed draws one, which ``np_random_seed`` then
                is.
            options: none are known.

        Raises:
            ValueError: for a wrong seed, or an option.
            gymnasium.error.ClosedEnvironmentError: after ``close``.
        """
        self._check_open()
        if options:
            raise ValueError(f"{_OWNER}: reset has no options, got {next(iter(options))!r}")
        if seed is None and self._stepper.started:
            row = self._stepper.restart(np.ones(1, bool))
        else:
            seed = int(self.np_random.integers(2**32)) if seed is None else seed
            row = self._stepper.start([seed])
        super().reset(seed=None if seed is None else int(seed))
        self._ended = False
        self._times.start(True)
        self._keep_mask(row)
        return sample_of(self._leaves, row.observation), _info(row)

    def step(self, action: Tree) -> tuple[Tree, float, bool, bool, dict[str, Any]]:
        """Advances by one step.

        Raises:
            ValueError: for an action of another shape or kind, or a discrete one out of range.
            gymnasium.error.ResetNeeded: before the first ``reset``, or after the end of an episode.
            gymnasium.error.ClosedEnvironmentError: after ``close``.
        """
        self._check_open()
        if not self._stepper.started or self._ended:
            why = "the episode ended, call reset" if self._ended else "call reset before step"
            raise gymnasium.error.ResetNeeded(f"{_OWNER}: {why}")
        row = self._stepper.step(self._actions(action))
        self._ended = bool(row.ended[0])
        self._keep_mask(row)
        terminated, truncated = bool(row.terminated[0]), bool(row.truncated[0])
        info = _info(row)
        if self._ended and row.episode:
            seconds = self._times.ended(row.ended)[0]
            info["episode"] = {"r": float(row.episode["r"][0]), "l": int(row.episode["l"][0]), "t": float(seconds)}
        return sample_of(self._leaves, row.observation), float(row.reward[0]), terminated, truncated, info

    @property
    def action_masks(self) -> Callable[[], np.ndarray]:
        """The function that ``MaskablePPO`` of sb3-contrib calls: the flags of the actions that are legal now.

        An environment without ``env_info["action_mask"]`` does not have it.
        """
        if not self._has_mask:
            raise AttributeError(f"{_OWNER}: {self.env} has no env_info['action_mask']", name="action_masks", obj=self)
        return self._action_masks

    def _action_masks(self) -> np.ndarray:
        if self._mask is None:
            raise gymnasium.error.ResetNeeded(f"{_OWNER}: call reset before action_masks")
        return self._mask.copy()

    def _keep_mask(self, row: StepResult) -> None:
        if self._has_mask:
            self._mask = flat_masks(row.info)[0]

    def render(self) -> np.ndarray:
        """Renders the state, uint8 ``[256, 256, 3]``.

        Raises:
            ValueError: without ``render_mode="rgb_array"``, or for an environment without pictures.
            gymnasium.error.ResetNeeded: before the first ``reset``.
            gymnasium.error.ClosedEnvironmentError: after ``close``.
        """
        self._check_open()
        return frames(_OWNER, self._stepper, self.render_mode, gymnasium.error.ResetNeeded)[0]

    def close(self) -> None:
        """Frees the state."""
        if not self._closed:
            self._closed = True
            self._stepper.close()
            self.env.close()

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Refuses, like ``setattr``: a wrapper would keep the value to itself, where nothing reads it."""
        setattr(self, name, value)
        return True

    def __repr__(self) -> str:
        return f"<JaxenvEnv{self.env!r}>"

    def _check_open(self) -> None:
        if self._closed:
            raise gymnasium.error.ClosedEnvironmentError(f"{_OWNER}: the environment is closed, make a new one")


def _info(row: StepResult) -> dict[str, Any]:
    return {
        name: _of_lane(x) if isinstance(x, np.ndarray) else jax.tree.map(_of_lane, x) for name, x in row.info.items()
    }


def _of_lane(x: np.ndarray) -> Any:
    # Vector environments of Gymnasium make an array of Python's bool, but of NumPy's an array of objects.
    return bool(x[0]) if x.dtype.kind == "b" and x.ndim == 1 else x[0]
