"""The environments of POPGym, which need memory. Each comes in three sizes and has a fully observable twin."""

from jaxenv.core import register

_SMALL, _LONG, _NOISE = (1, 2, 3), (200, 400, 600), (0.1, 0.2, 0.3)

# The options and the time limits of the easy, the medium and the hard id, for each class.
_GAMES: dict[str, tuple[dict[str, tuple], tuple]] = {
    "autoencode:Autoencode": ({"num_decks": _SMALL}, ()),
    "count_recall:CountRecall": ({"num_decks": (1, 2, 4), "deck_type": ("colors", "suits", "ranks")}, ()),
    "repeat_first:RepeatFirst": ({"num_decks": (1, 8, 16)}, ()),
    "repeat_previous:RepeatPrevious": ({"num_decks": _SMALL, "k": (4, 32, 64)}, ()),
    "higher_lower:HigherLower": ({"num_decks": _SMALL}, ()),
    "battleship:Battleship": ({"size": (8, 10, 12)}, (64, 100, 144)),
    "concentration:Concentration": (
        {"num_decks": (1, 2, 1), "deck_type": ("colors", "colors", "ranks")},
        (104, 208, 104),
    ),
    "mine_sweeper:MineSweeper": ({"size": (4, 6, 8), "mines": (2, 6, 10)}, (14, 30, 54)),
    "multiarmed_bandit:MultiarmedBandit": ({"num_bandits": (10, 20, 30), "time_limit": _LONG}, _LONG),
    "position_only_cart_pole:PositionOnlyCartPole": ({"time_limit": _LONG}, _LONG),
    "velocity_only_cart_pole:VelocityOnlyCartPole": ({"time_limit": _LONG}, _LONG),
    "position_only_cart_pole:NoisyPositionOnlyCartPole": ({"noise_sigma": _NOISE}, (200, 200, 200)),
    "position_only_pendulum:PositionOnlyPendulum": ({"time_limit": (200, 150, 100)}, (200, 150, 100)),
    "position_only_pendulum:NoisyPositionOnlyPendulum": ({"noise_sigma": _NOISE}, (200, 200, 200)),
}

for _class, (_options, _limits) in _GAMES.items():
    for _number, _size in enumerate(("Easy", "Medium", "Hard")):
        register(
            f"{_class.partition(':')[2]}{_size}-popgym",
            f"{__name__}.{_class}",
            max_episode_steps=_limits[_number] if _limits else None,
            kwargs={name: values[_number] for name, values in _options.items()},
            limit_follows_params=bool(_limits),
        )
