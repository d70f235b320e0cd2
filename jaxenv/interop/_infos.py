"""Names that clients reserve in their infos, and the statistics of episodes in the form that clients read."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxenv import specs
from jaxenv.core.environment import Environment
from jaxenv.tree import Tree

# Names that host programs read in infos of Gymnasium and stable-baselines3, which exchange environments.
ON_HOST = (
    *("episode", "final_info", "final_obs", "final_observation"),
    *("is_success", "terminal_observation", "TimeLimit.truncated"),
)
# The entries that `EpisodeStatistics` reports.
_STATISTICS = {"return", "length", "terminated", "truncated", "valid"}


def check_infos(owner: str, env: Environment, reserved: Iterable[str]) -> None:
    """Raises a ``ValueError`` for an entry of ``env_info`` with a ``reserved`` name, which clients read otherwise.

    Allowed are ``"episode"`` from ``EpisodeStatistics`` with a scalar reward, ``"is_success"`` with one number per
    lane, and ``"final_observation"`` in ``same_step`` mode. Where ``"episode"`` is reserved, so are names that start
    with ``_``: vector environments mark lanes by them.
    """
    reserved = frozenset(reserved)
    found = env.env_info_spec()
    for name in sorted(reserved & found.keys()):
        rule = "is a name that its clients read in another meaning, report it under another one"
        if name == "final_observation" and env.autoreset == "same_step":
            continue
        if name == "is_success" and specs.is_spec(found[name]) and found[name].shape == ():
            continue
        if name == "is_success":
            rule = "must be one number per lane, as its clients read it"
        if name == "episode" and isinstance(found[name], Mapping) and found[name].keys() == _STATISTICS:
            if found[name]["return"].shape == ():
                continue
            rule = "must have a return of one number, put ScalarizeReward before EpisodeStatistics"
        raise ValueError(f"{owner}: env_info[{name!r}] {rule}, got {found[name]} of {env}")
    if "episode" in reserved:
        _check_masks(owner, "env_info", found)


def _check_masks(owner: str, place: str, found: Mapping[str, Tree]) -> None:
    for name, inside in found.items():
        if isinstance(name, str) and name.startswith("_"):
            raise ValueError(f"{owner}: {place}[{name!r}] must not start with '_', which marks masks of lanes")
        if isinstance(inside, Mapping):
            _check_masks(owner, f"{place}[{name!r}]", inside)


def without_episode(env_info: Mapping[str, Tree]) -> tuple[dict[str, Tree], dict[str, Any]]:
    """Splits off return and length of the episodes that ended, under the names that clients read.

    The second is empty without ``EpisodeStatistics``; it is 0 in other lanes.
    """
    info = dict(env_info)
    episode = info.pop("episode", None)
    return info, {} if episode is None else {"r": episode["return"], "l": episode["length"]}


def has_action_mask(env: Environment) -> bool:
    """Returns whether ``env_info["action_mask"]`` is one array of flags."""
    return specs.is_spec(env.env_info_spec().get("action_mask"))


def flat_masks(info: Mapping[str, Any]) -> np.ndarray:
    """Copies the action masks, bool ``[B, n]``."""
    mask = info["action_mask"]
    return mask.reshape(len(mask), -1).astype(bool)


class EpisodeTimes:
    """Measures the seconds that the episodes of a batch take; with ``jax`` by arrays of JAX, never waited for."""

    def __init__(self, num_lanes: int, jax: bool = False):
        self._origin = time.perf_counter()
        self._starts: Any = jnp.zeros(num_lanes, np.float32) if jax else np.zeros(num_lanes)

    def start(self, mask: Any) -> None:
        """Records that episodes start in the lanes of ``mask``."""
        self._starts = self._where(mask, self._now(), self._starts)

    def ended(self, mask: Any) -> Any:
        """Returns the seconds of the episodes that end in the lanes of ``mask``, 0 in others; starts the next ones."""
        seconds = self._where(mask, self._now() - self._starts, self._starts.dtype.type(0))
        self.start(mask)
        return seconds

    def _where(self, *arguments: Any) -> Any:
        return (np if isinstance(self._starts, np.ndarray) else jnp).where(*arguments)

    def _now(self) -> Any:
        return self._starts.dtype.type(time.perf_counter() - self._origin)
