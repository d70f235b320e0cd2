"""Names that were not found: the closest known ones, and the messages that suggest them."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any


def closest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known names most like ``name``, best first; none if all are far from it.

    Case and a version at the end do not count. Names that contain ``name`` come after those that are spelt alike.

    >>> closest("cartpole-v9", ["Taxi-v4", "CartPole-v1", "MaskedCartPole-v0"])
    ['CartPole-v1', 'MaskedCartPole-v0']
    >>> closest("HalfCheetah-v4", ["Taxi-v4", "Acrobot-v1"])
    []
    """
    by_stem: dict[str, list[str]] = {}
    for other in known:
        by_stem.setdefault(_stem(other), []).append(other)
    stem = _stem(name)
    alike = difflib.get_close_matches(stem, by_stem, n=count, cutoff=0.65)
    containing = sorted((other for other in by_stem if len(stem) > 2 and stem in other), key=len)
    return [other for found in dict.fromkeys([*alike, *containing]) for other in by_stem[found]][:count]


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """The end of a sentence about an unknown name: a question with the closest names, or ``otherwise`` if none is.

    >>> did_you_mean("auto_reset", ["mode", "autoreset"])
    "did you mean 'autoreset'?"
    """
    found = [repr(other) for other in closest(name, known)]
    if not found:
        return otherwise
    *others, last = found
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"


def unknown_keyword(
    owner: str, name: str, groups: Mapping[str, Iterable[str]], words: Mapping[str, str] | None = None
) -> str:
    """The message about an unknown keyword, with the known ones by group; ``words`` says what to write for some.

    >>> unknown_keyword("Pendulum-v1", "gravitas", {"params": ["gravity", "mass"], "arguments": ["max_torque"]})
    "Pendulum-v1: unknown keyword 'gravitas', did you mean 'gravity'? params: gravity, mass; arguments: max_torque"
    """
    groups = {group: list(names) for group, names in groups.items()}
    hint = did_you_mean(name, [known for names in groups.values() for known in names])
    hint = f"use {words[name]};" if words and name in words else hint
    listed = "; ".join(f"{group}: {', '.join(names)}" for group, names in groups.items() if names)
    return f"{owner}: unknown keyword {name!r}{f', {hint}' if hint else ';'} {listed or 'it takes none'}"


def missing_attribute(obj: Any, name: str, words: Mapping[str, str]) -> Any:
    """The body of a ``__getattr__`` that explains the names that other libraries use for something that exists here.

    Always raises an ``AttributeError``: with the word of this library if ``words`` has one, else Python's own.
    """
    if name in words:
        raise AttributeError(f"{type(obj).__name__} has no attribute {name!r}: use {words[name]}", name=name, obj=obj)
    return object.__getattribute__(obj, name)  # the error of a property that failed must not be hidden


def _stem(name: str) -> str:
    return re.sub(r"-v\d+$", "", name.lower())


def is_redefinition(old: Any, new: Any) -> bool:
    """Whether both are equal, or a class or function of the same module and name, other than a lambda."""
    names = [(getattr(x, "__module__", None), getattr(x, "__qualname__", "<lambda>")) for x in (old, new)]
    return old == new or (names[0] == names[1] and "<lambda>" not in names[0][1])
