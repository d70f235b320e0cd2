"""Messages about unknown names: what a name of another library is here, and the closest known names."""

import difflib
import functools
import inspect
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@functools.lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    """Returns the contents of `names.toml`: by library, what its names are here."""
    import tomllib  # for errors and suites alone, not at start-up

    return tomllib.loads(pathlib.Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))


def meaning(name: str, pattern: str = "") -> str:
    r"""Says what a name of another library is here, as the end of a sentence; empty if the table has no such name.

    The first meaning in which the regular expression is found counts.

    >>> meaning("low"), meaning("agent_num", r"env\."), meaning("low", "jaxenv")
    ('use spec.minimum', 'use env.num_agents', '')
    """
    for uses in (names[name] for library, names in table().items() if library != "ids" and name in names):
        for use in [uses] if isinstance(uses, str) else uses:
            text = use[2:] if use.startswith("- ") else f"use {use}"
            if re.search(pattern, text):
                return text
    return ""


def explained(message: str, name: str, *patterns: str) -> str:
    """Adds to the message about an unknown name what it is here, by the first pattern of `meaning` that fits.

    >>> explained("no field 'obs'", "obs", "")
    "no field 'obs': use timestep.observation"
    """
    found = [text for pattern in patterns if (text := meaning(name, pattern))]
    return f"{message}: {found[0]}" if found else message


def ids_of_suites() -> list[str]:
    """Returns ids of environments of other libraries, with their prefixes; none of the libraries is imported."""
    return [f"{suite}:{id}" for suite, ids in table()["ids"].items() for id in ids]


def closest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Returns the known names most like ``name``, best first; none if no name is close.

    `stem` says what counts. Names that contain ``name`` come after names of similar spelling.

    >>> closest("cartpole-v9", ["Taxi-v4", "CartPole-v1", "MaskedCartPole-v0"])
    ['CartPole-v1', 'MaskedCartPole-v0']
    >>> closest("HalfCheetah-v4", ["Taxi-v4", "Acrobot-v1"])
    []
    """
    by_stem: dict[str, list[str]] = {}
    for other in known:
        by_stem.setdefault(stem(other), []).append(other)
    own = stem(name)
    alike = difflib.get_close_matches(own, by_stem, n=count, cutoff=0.65)
    containing = sorted((other for other in by_stem if len(own) > 3 and own in other), key=len)
    return [other for found in dict.fromkeys([*alike, *containing]) for other in by_stem[found]][:count]


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Ends a sentence about an unknown name: asks for the closest names, or returns ``otherwise`` if none is close.

    >>> did_you_mean("auto_reset", ["mode", "autoreset"])
    "did you mean 'autoreset'?"
    """
    found = [repr(other) for other in closest(name, known)]
    if not found:
        return otherwise
    *others, last = found
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"


def unknown_keyword(owner: str, name: str, groups: Mapping[str, Iterable[str]]) -> str:
    """Returns the message about an unknown keyword, with the known ones by group.

    >>> unknown_keyword("Pendulum-v1", "gravitas", {"params": ["gravity", "mass"], "arguments": ["max_torque"]})
    "Pendulum-v1: unknown keyword 'gravitas', did you mean 'gravity'? params: gravity, mass; arguments: max_torque"
    """
    groups = {group: list(names) for group, names in groups.items()}
    known = [name for names in groups.values() for name in names]
    ways = [r"^use env\.reset\(", *(rf"\b{re.escape(x)}=" for x in known), *(f"^use the {group} " for group in groups)]
    word = meaning(name, "|".join(ways))
    hint = f", {word};" if word else f", {did_you_mean(name, known)}" if closest(name, known) else ";"
    listed = "; ".join(f"{group}: {', '.join(names)}" for group, names in groups.items() if names)
    return f"{owner}: unknown keyword {name!r}{hint} {listed or 'it takes none'}"


def explains_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a method of environments: a keyword that it does not take, or a value too many, is explained."""
    _, *known = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if unknown := kwargs.keys() - known:
            raise TypeError(unknown_keyword(function.__name__, min(unknown), {"arguments": known}))
        if len(args) > 1 + len(known):  # as of gymnax: step(key, state, action, params)
            hint = "a state has its own random numbers, and the environment has the params"
            raise TypeError(f"{function.__name__} takes {', '.join(known)}, got {len(args) - 1} arguments: {hint}")
        return function(*args, **kwargs)

    return call


def missing_attribute(obj: Any, name: str, pattern: str = "") -> Any:
    """Raises the ``AttributeError`` of a ``__getattr__``: Python's own, unless the table explains the name.

    Of several meanings the one with the pattern is preferred.
    """
    message = f"{type(obj).__name__} has no attribute {name!r}"
    if (text := explained(message, name, pattern, "")) != message:
        raise AttributeError(text, name=name, obj=obj)
    return object.__getattribute__(obj, name)  # the error of a property that failed must not be hidden


def stem(name: str) -> str:
    """Returns what of a name counts in a comparison.

    >>> stem("MiniGrid-Empty-5x5-v0"), stem("ALE/Pong-v5"), stem("bsuite:deep_sea/3")
    ('minigridempty5x5', 'pong', 'deepsea')
    """
    return re.sub(r"^(\w+:|ALE/)|[-_]v\d+$|/\d+$|[-_]", "", name).lower()


def is_redefinition(old: Any, new: Any) -> bool:
    """Returns whether both are equal, or a class or function of the same module and name, but not a lambda."""
    names = [(getattr(x, "__module__", None), getattr(x, "__qualname__", "<lambda>")) for x in (old, new)]
    return old == new or (names[0] == names[1] and "<lambda>" not in names[0][1])
