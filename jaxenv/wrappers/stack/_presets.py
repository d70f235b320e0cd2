"""Lists of wrappers by name."""

from typing import Any, Literal

from jaxenv._util.checks import check_choice

PRESETS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "default": [("EpisodeStatistics", {})],
    "control": [
        ("EpisodeStatistics", {}),
        ("NormalizeObservation", {"clip": 10.0}),
        ("NormalizeReward", {"clip": 10.0}),
    ],
    "image": [("EpisodeStatistics", {}), ("SignReward", {}), ("FrameStack", {"num": 4, "axis": -1})],
}


def preset(name: Literal["default", "control", "image"]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the usual wrappers for a kind of environment, as names and arguments for ``make(wrappers=...)``.

    ``"default"`` reports returns and lengths of episodes (`EpisodeStatistics`). ``"control"``, for continuous control,
    also normalises observations and rewards by running statistics and clips both to [-10, 10], as is usual for PPO on
    MuJoCo (Engstrom et al., 2020, arXiv:2005.12729). ``"image"``, for images and boards ``[H, W, C]``, also replaces
    rewards by their sign and shows the last four frames in the channels, as for Atari (Mnih et al., 2015,
    doi:10.1038/nature14236).

    ``make(mode="eval")`` gives the variant for evaluation: statistics are frozen, and rewards come from the task.
    Reported returns are the task's in either mode. The list is new, so wrappers may be added to it.

    Raises:
        ValueError: for an unknown name.

    >>> import jaxenv
    >>> env = jaxenv.make("Breakout-MinAtar", wrappers=preset("image"), mode="eval")
    >>> env
    <AutoReset<FrameStack<EpisodeStatistics<Breakout-MinAtar>>>>
    """
    check_choice("preset", "name", name, tuple(PRESETS))
    return [(wrapper, dict(arguments)) for wrapper, arguments in PRESETS[name]]
