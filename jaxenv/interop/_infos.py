"""Names that clients reserve in their infos."""

from collections.abc import Iterable, Mapping

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


def has_action_mask(env: Environment) -> bool:
    """Returns whether ``env_info["action_mask"]`` is one array of flags."""
    return specs.is_spec(env.env_info_spec().get("action_mask"))
