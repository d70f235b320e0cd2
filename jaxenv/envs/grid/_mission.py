"""Encodes missions as numbers: one token per word, from the words of all missions of MiniGrid's levels."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# A word's token is its index here; 0 means no word. New words go to the end: trained policies depend on them.
WORDS = (
    "",
    *("red", "green", "blue", "purple", "yellow", "grey"),
    *("key", "ball", "box", "door", "room", "goal", "square", "lava", "opening", "object", "hallway", "rooms"),
    *("a", "the", "to", "from", "at", "of", "and", "then", "you", "must", "near"),
    *("get", "go", "fetch", "pick", "up", "put", "open", "use", "unlock", "avoid", "find", "reach", "traverse"),
    *("matching", "end"),
)
COLOURS = WORDS[1:7]  # in the order of MiniGrid's codes
LENGTH = 20  # tokens in a mission; the longest one, of LockedRoom, has 17 words

_TOKENS = {word: np.uint8(i) for i, word in enumerate(WORDS)}
_FIRST_COLOUR, _FIRST_KIND = _TOKENS["red"], _TOKENS["key"]
_KEY = np.uint32(5)  # MiniGrid's code of a key; the codes of a ball and a box follow


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


def phrase(*parts: str | jax.Array) -> jax.Array:
    """Returns missions made of words that all lanes share and of tokens per lane (uint8 ``[B]``), uint8 ``[B, 20]``."""
    lanes = next(part.shape for part in parts if not isinstance(part, str))
    tokens: list[Any] = []
    for part in parts:
        tokens += [_TOKENS[word] for word in part.split()] if isinstance(part, str) else [part]
    tokens += [_TOKENS[""]] * (LENGTH - len(tokens))
    return jnp.stack([jnp.broadcast_to(token, lanes) for token in tokens], axis=1)


def colour(code: jax.Array) -> jax.Array:
    """Returns the token of the colour of an object, uint8 ``[B]``, given its code."""
    return (code >> np.uint32(8)).astype(jnp.uint8) + _FIRST_COLOUR


def kind(code: jax.Array) -> jax.Array:
    """Returns the token of a key, a ball or a box, uint8 ``[B]``, given its code."""
    return ((code & np.uint32(255)) - _KEY).astype(jnp.uint8) + _FIRST_KIND
