"""Missions as numbers: one token per word, from the words of all missions of MiniGrid's levels."""

from typing import Any

import numpy as np

# The token of a word is its place here, 0 is the absence of a word. New words are added at the end, because policies
# that were trained know the numbers.
WORDS = (
    "",
    *("red", "green", "blue", "purple", "yellow", "grey"),
    *("key", "ball", "box", "door", "room", "goal", "square", "lava", "opening", "object", "hallway", "rooms"),
    *("a", "the", "to", "from", "at", "of", "and", "then", "you", "must", "near"),
    *("get", "go", "fetch", "pick", "up", "put", "open", "use", "unlock", "avoid", "find", "reach", "traverse"),
    *("matching", "end"),
)
LENGTH = 20  # tokens in a mission; the longest one, of LockedRoom, has 17 words

_TOKENS = {word: np.uint8(i) for i, word in enumerate(WORDS)}


def encode(text: str) -> np.ndarray:
    """Returns the tokens of a mission, uint8 ``[20]``; commas are left out.

    >>> encode("go to the red door")[:6]
    array([31, 21, 20,  1, 10,  0], dtype=uint8)
    """
    tokens = [_TOKENS[word] for word in text.replace(",", "").split()]
    return np.array([*tokens, *[0] * (LENGTH - len(tokens))], np.uint8)


def decode(tokens: Any) -> str:
    """Returns the words of a mission, given its tokens ``[20]``.

    >>> decode(encode("get a green key"))
    'get a green key'
    """
    return " ".join(WORDS[i] for i in np.asarray(tokens) if i)
