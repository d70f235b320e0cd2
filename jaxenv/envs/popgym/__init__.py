"""The environments of POPGym, which need memory. Each comes in three sizes and has a fully observable twin."""

from typing import Any

from jaxenv.core import register

_DECKS = [{"num_decks": 1}, {"num_decks": 2}, {"num_decks": 3}]
_LONGER = [{"episode_length": 200}, {"episode_length": 400}, {"episode_length": 600}]
_SHORTER = [{"episode_length": 200}, {"episode_length": 150}, {"episode_length": 100}]
_NOISIER = [{"noise_sigma": 0.1}, {"noise_sigma": 0.2}, {"noise_sigma": 0.3}]

# Class, module, and for each size its options and its time limit, if it has one.
_Options = list[dict[str, Any]]
_GAMES: list[tuple[str, str, _Options, list[int] | None]] = [
    ("Autoencode", "autoencode", _DECKS, None),
    (
        "CountRecall",
        "count_recall",
        [
            {"num_decks": 1, "deck_type": "colors"},
            {"num_decks": 2, "deck_type": "suits"},
            {"num_decks": 4, "deck_type": "ranks"},
        ],
        None,
    ),
    ("RepeatFirst", "repeat_first", [{"num_decks": 1}, {"num_decks": 8}, {"num_decks": 16}], None),
    (
        "RepeatPrevious",
        "repeat_previous",
        [{"num_decks": 1, "k": 4}, {"num_decks": 2, "k": 32}, {"num_decks": 3, "k": 64}],
        None,
    ),
    ("HigherLower", "higher_lower", _DECKS, None),
    ("Battleship", "battleship", [{"size": 8}, {"size": 10}, {"size": 12}], [64, 100, 144]),
    (
        "Concentration",
        "concentration",
        [
            {"num_decks": 1, "deck_type": "colors"},
            {"num_decks": 2, "deck_type": "colors"},
            {"num_decks": 1, "deck_type": "ranks"},
        ],
        [104, 208, 104],
    ),
    (
        "MineSweeper",
        "mine_sweeper",
        [{"size": 4, "mines": 2}, {"size": 6, "mines": 6}, {"size": 8, "mines": 10}],
        [14, 30, 54],
    ),
    (
        "MultiarmedBandit",
        "multiarmed_bandit",
        [{"num_bandits": 10 * n, "episode_length": 200 * n} for n in (1, 2, 3)],
        [200, 400, 600],
    ),
    ("PositionOnlyCartPole", "position_only_cart_pole", _LONGER, [200, 400, 600]),
    ("VelocityOnlyCartPole", "velocity_only_cart_pole", _LONGER, [200, 400, 600]),
    ("NoisyPositionOnlyCartPole", "noisy_position_only_cart_pole", _NOISIER, [200, 200, 200]),
    ("PositionOnlyPendulum", "position_only_pendulum", _SHORTER, [200, 150, 100]),
    ("NoisyPositionOnlyPendulum", "noisy_position_only_pendulum", _NOISIER, [200, 200, 200]),
]

for _name, _module, _options, _limits in _GAMES:
    for _number, _size in enumerate(("Easy", "Medium", "Hard")):
        register(
            f"{_name}{_size}-popgym",
            f"{__name__}.{_module}:{_name}",
            max_episode_steps=_limits[_number] if _limits else None,
            kwargs=_options[_number],
            limit_follows_params=_limits is not None,
        )
