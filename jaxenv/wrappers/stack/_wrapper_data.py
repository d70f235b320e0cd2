"""Stacks of wrappers as plain data, names and arguments, that JSON can store.

A name stands for a wrapper of this library or a registered one. A name in data never causes an import.
"""

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from jaxenv._util.checks import check_choice, is_concrete
from jaxenv._util.names import did_you_mean, is_redefinition, meaning, unknown_keyword
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.tree._typed_keys import is_key

W = TypeVar("W", bound=type[Wrapper])

_known: dict[str, type[Wrapper]] = {}  # the wrappers of this library, then registered ones
_bases = {"Wrapper"}  # the names of classes to subclass

PRESETS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "default": [("EpisodeStatistics", {})],
    "control": [
        ("EpisodeStatistics", {}),
        ("NormalizeObservation", {"clip": 10.0}),
        ("NormalizeReward", {"clip": 10.0}),
    ],
    "image": [("EpisodeStatistics", {}), ("SignReward", {}), ("FrameStack", {"num": 4, "axis": -1})],
}


def register(cls: W) -> W:
    """Registers a wrapper class under its name, for `to_data`, `from_data` and ``make(wrappers=["Name"])``.

    It returns the class, so it also serves as a decorator. A class that is defined again, as in a notebook, replaces
    the earlier one.

    Raises:
        ValueError: if ``cls`` is not a wrapper that can be constructed, or another class has the name.

    >>> import jaxenv
    >>> @jaxenv.wrappers.register
    ... class Quartered(jaxenv.wrappers.RewardWrapper):
    ...     def reward(self, reward):
    ...         return reward / 4
    >>> jaxenv.wrappers.to_data(Quartered(jaxenv.spec("CartPole-v1").make()))
    [('Quartered', {})]
    """
    if not _is_wrapper(cls):
        raise ValueError(f"register: a wrapper class without abstract methods is required, got {cls!r}")
    name = cls.__name__
    if not is_redefinition(other := _known.get(name, cls), cls):
        raise ValueError(f"register: the name {name!r} is taken by {other.__module__}.{other.__qualname__}")
    _known[name] = cls
    return cls


def to_data(env: Environment) -> list[tuple[str, dict[str, Any]]]:
    """Returns the wrappers of a stack, innermost first, as names and constructor arguments for ``make(wrappers=...)``.

    Arguments are numbers, strings, ``None``, and lists and dicts of these; an array with one value per lane (``[B]``)
    becomes a list.

    Raises:
        ValueError: for a wrapper that is neither of this library nor registered, or an argument that is not plain data,
            such as a function; the message names wrapper and argument.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.wrappers.TimeLimit(jaxenv.spec("Pendulum-v1").make(), 200))
    >>> jaxenv.wrappers.to_data(env)[0]
    ('TimeLimit', {'duration': 200, 'terminal': False, 'follows_params': False})
    """
    found = []
    for layer in reversed(layers(env)[:-1]):
        cls = type(layer)
        if _known.get(cls.__name__) is not cls:
            raise ValueError(
                f"to_data: {cls.__name__} is not registered: call jaxenv.wrappers.register({cls.__name__}) where the "
                "class is defined"
            )
        arguments = {
            field.name: plain(f"to_data: {cls.__name__}'s {field.name}", getattr(layer, field.name))
            for field in dataclasses.fields(layer)
            if field.init and field.name not in ("env", "num_envs", "name")
        }
        found.append((cls.__name__, arguments))
    return found


def from_data(env: Environment, data: Sequence[tuple[str, Mapping[str, Any]]]) -> Environment:
    """Wraps ``env`` in the wrappers of ``data``, innermost first, as `to_data` returns them.

    Values per lane must have the shape ``[B]`` of the lanes of ``env``. Names refer to this library's wrappers and to
    registered ones: data cannot cause an import.

    Raises:
        ValueError: for an unknown name, with the closest ones; for arguments that the wrapper does not have or refuses.
    """
    check_environment("from_data", env)
    if isinstance(data, str) or not isinstance(data, Sequence):
        raise ValueError(f"from_data: wrappers must be a list of pairs of a name and arguments, got {data!r}")
    for entry in data:
        if isinstance(entry, str) or not isinstance(entry, Sequence) or len(entry) != 2:
            raise ValueError(f"from_data: a wrapper must be a pair of its name and arguments, got {entry!r}")
        env = wrap(env, wrapper_class(entry[0], "from_data"), entry[1], "from_data")
    return env


def wrap(env: Environment, cls: type[Wrapper], arguments: Any, owner: str) -> Wrapper:
    """Calls the wrapper class ``cls(env, **arguments)``; errors about names start with ``owner``."""
    name = cls.__name__
    if not isinstance(arguments, Mapping):
        raise ValueError(f"{owner}: the arguments of {name} must be a dict of names and values, got {arguments!r}")
    parameters = dict(list(inspect.signature(cls).parameters.items())[1:])
    for argument in arguments:
        if argument not in parameters:
            raise ValueError(unknown_keyword(f"{owner}: {name}", str(argument), {"its arguments": parameters}))
    for argument, parameter in parameters.items():
        if parameter.default is parameter.empty and argument not in arguments:
            raise ValueError(f"{owner}: {name} needs the argument {argument!r}: pass ({name!r}, {{{argument!r}: ...}})")
    return cls(env, **arguments)


def wrapper_class(name: Any, owner: str) -> type[Wrapper]:
    """Finds the wrapper called ``name``, of this library or registered; errors start with ``owner``."""
    if not isinstance(name, str):
        raise ValueError(f"{owner}: the name of a wrapper must be text, got {name!r}")
    if name in _bases - _known.keys():
        raise ValueError(f"{owner}: {name} is a base to subclass, pass the class that you derive from it")
    if name not in _known:
        own = " a wrapper of your own is passed as its class, or by name once registered (module:ID imports it)"
        hint = did_you_mean(name, _known, "jaxenv.wrappers has the names;") + own
        raise ValueError(f"{owner}: no wrapper {name!r}, {meaning(name, r'^use jaxenv.wrappers.') or hint}")
    return _known[name]


def plain(name: str, value: Any) -> Any:
    """Converts a value to data that JSON can store; errors start with ``name``."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {key: plain(name, x) for key, x in value.items()}
    if isinstance(value, tuple | list):
        return [plain(name, x) for x in value]
    if is_concrete(value) and not is_key(value) and np.asarray(value).dtype.kind in "biuf":
        array = np.asarray(value)
        # The shortest number that rounds to a float32: 9.8, not 9.800000190734863.
        return (array.astype(str).astype(np.float64) if array.dtype == np.float32 else array).tolist()
    raise ValueError(f"{name} is not plain data: {value!r}")


def add_library(public: Mapping[str, Any]) -> None:
    """Adds the wrapper classes among the public names of ``jaxenv.wrappers``."""
    wrappers = {name: x for name, x in public.items() if isinstance(x, type) and issubclass(x, Wrapper)}
    _bases.update(name for name, cls in wrappers.items() if cls.__module__.startswith("jaxenv.core."))
    _known.update({name: cls for name, cls in wrappers.items() if name not in _bases})


def _is_wrapper(x: Any) -> bool:
    return isinstance(x, type) and issubclass(x, Wrapper) and not inspect.isabstract(x)


def preset(name: Literal["default", "control", "image"]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the usual wrappers for a kind of environment, as names and arguments for ``make(wrappers=...)``.

    ``"default"`` reports returns and lengths of episodes (`EpisodeStatistics`). ``"control"``, for continuous control,
    also normalises observations and rewards by running statistics and clips both to [-10, 10], as is usual for PPO on
    MuJoCo (Engstrom et al., 2020, arXiv:2005.12729). ``"image"``, for images and boards ``[H, W, C]``, also replaces
    rewards by their sign and shows the last four frames in the channels, as for Atari (Mnih et al., 2015,
    doi:10.1038/nature14236).

    ``make(mode="eval")`` gives the variant for evaluation: statistics are frozen, and rewards come from the task.
    Reported returns are the task's in either mode. The list is new, so wrappers may be added to it.

    >>> import jaxenv
    >>> env = jaxenv.make("Breakout-MinAtar", wrappers=preset("image"), mode="eval")
    >>> env
    <AutoReset<FrameStack<EpisodeStatistics<Breakout-MinAtar>>>>
    """
    check_choice("preset", "name", name, tuple(PRESETS))
    return [(wrapper, dict(arguments)) for wrapper, arguments in PRESETS[name]]
