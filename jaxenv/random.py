"""Random numbers for all lanes at once, from a counter.

A lane's numbers are a pure function of its key words, its episode, its step and a static salt for each consumer. Keys
are neither split nor carried: a `Stream` names a position in the space of random numbers, and a draw evaluates the
generator there. The generator is Threefry-2x32 with 13 rounds (Salmon, Moraes, Dror and Shaw, "Parallel random numbers:
as easy as 1, 2, 3", SC 2011, doi:10.1145/2063384.2063405), which passes BigCrush; ``tests/random/test_random.py``
compares it with the published known answers.

Draws take a stream and a shape, as in ``jax.random``: ``uniform(stream)`` returns ``[B]``, ``uniform(stream, (4,))``
returns ``[B, 4]``. `separate_bits` and `separate_uniforms` return the same words as a tuple of arrays ``[B]``, which
fuse better than slices of one array.
"""

import dataclasses
import functools
import hashlib
import itertools
import math
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import (
    INT32_MAX,
    Range,
    check_array,
    check_integer,
    check_order,
    check_text,
    described,
    is_concrete,
    is_integer,
)
from jaxenv._util.names import explained
from jaxenv._util.xla import in_one_kernel, separate_if_one_lane
from jaxenv.tree._typed_keys import is_key

__all__ = [
    "Clock", "KeyWords", "Shape", "Stream", "argmax", "bernoulli", "bits", "categorical", "check_lane_keys",
    "check_one", "check_typed", "exponential", "fold_in", "high_product", "integers", "jax_keys", "lane_words",
    "normal", "permutation", "reseed", "separate_bits", "separate_uniforms", "stream", "threefry2x32", "uniform",
    "unit",
]  # fmt: skip

Shape: TypeAlias = tuple[int, ...]
KeyWords: TypeAlias = tuple[jax.Array, jax.Array]

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA
_GOLDEN = 0x9E3779B1  # odd, so that multiples of it by distinct block numbers are distinct words
_LOGITS = Range(below=math.inf)
_FEW = 16  # numbers of a row that are compared one by one
_MAX_FLAGS = 1024  # of a mask whose words are compared one by one


@tree.struct
class Stream:
    """A source of random numbers: key words and a counter, each ``uint32`` of one shape.

    The shape is ``[B]`` for one stream per lane and ``()`` for a single one. Draws never change a stream, so a second
    draw uses ``fold_in(stream, "name")``.
    """

    k0: Any
    k1: Any
    c0: Any
    c1: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return jnp.shape(self.k0)

    @property
    def __jax_array__(self) -> Any:  # JAX asks for it where it needs an array, or a key
        rule = "jax.random takes JAX keys, not a Stream"
        raise TypeError(f"{rule}: draw with jaxenv.random, or pass jaxenv.random.jax_keys(stream)")


@tree.struct
class Clock:
    """The position of each lane. All random numbers are functions of the clock and of static salts.

    ``key`` (two words ``uint32[B]``) and ``env_id`` (``int32[B]``) never change during a rollout; ``episode``
    (``int32[B]``) counts the episodes of the lane from 0 and ``step`` (``int32[B]``) the steps of this one.
    """

    key: KeyWords
    env_id: jax.Array
    episode: jax.Array
    step: jax.Array

    def stream(self, *salts: str | int) -> Stream:
        """Returns the stream of this episode and step for the consumer named by static ``salts``."""
        k0, k1 = self.key
        stream = Stream(k0, k1, self.episode.astype(jnp.uint32), self.step.astype(jnp.uint32))
        for salt in salts:
            stream = fold_in(stream, salt)
        return stream

    def tick(self) -> "Clock":
        """Returns the clock one step later."""
        return dataclasses.replace(self, step=self.step + 1)


# --- keys ------------------------------------------------------------------------------------------------------------


def check_typed(key: Any, name: str) -> None:
    """Raises a ``ValueError`` unless ``key`` is a typed key or a batch of them."""
    if not is_key(key):
        hint = ", stack keys with jax.numpy.stack" if isinstance(key, list | tuple) else ""
        if getattr(key, "dtype", None) == np.uint32 and np.shape(key)[-1:] == (2,):
            hint = ": jax.random.wrap_key_data converts the result of jax.random.PRNGKey"
        raise ValueError(f"{name} must be a typed key from jax.random.key(seed), got {described(key)}{hint}")


def check_one(owner: str, key: Any) -> None:
    """Raises a ``ValueError`` unless ``key`` is one typed key."""
    check_typed(key, f"{owner}: key")
    if key.shape:
        raise ValueError(f"{owner}: key must be one key, got an array of keys of shape {key.shape}")


def lane_words(key: jax.Array, env_id: jax.Array, salt: str = "") -> KeyWords:
    """Returns the key words of each lane: from ``fold_in(key, env_id)`` for one key, from the keys for ``Key[B]``.

    Keys of any JAX implementation are accepted; four words are hashed to two. A ``salt`` other than ``""`` derives
    other words from the same key.

    Raises:
        ValueError: if ``key`` is a raw ``uint32`` key, or a batch of another size than ``env_id``.
    """
    check_typed(key, "lane_words: key")
    if not (hasattr(env_id, "dtype") and jnp.issubdtype(env_id.dtype, jnp.integer) and len(env_id.shape) == 1):
        raise ValueError(f"lane_words: env_id must be integers [B], got {described(env_id)}")
    check_text("lane_words", "salt", salt)
    if key.ndim and key.shape != env_id.shape:
        rule = f"key must be one key or one for each of {env_id.shape[0]} lanes"
        raise ValueError(f"lane_words: {rule}, got keys of shape {key.shape}")
    words = _folded_words(key, env_id) if key.ndim == 0 else _two_words(key)
    return _fold_static(words, salt) if salt else words


def check_lane_keys(key: jax.Array, num_envs: int) -> None:
    """Raises a ``ValueError`` for a batch of keys that does not match ``num_envs`` lanes.

    An environment with one lane, the default, takes any number of keys. Repeated keys, which would give equal episodes,
    are found where the keys are known.
    """
    if key.ndim != 1:  # lane_words refuses more axes
        return
    if key.shape[0] == 0:
        raise ValueError("reset: key must hold at least one key, got none")
    if num_envs not in (1, key.shape[0]) and not jax.export.is_symbolic_dim(key.shape[0]):
        rule = f"key must be one key or num_envs = {num_envs} keys"
        raise ValueError(f"reset: {rule}, got {key.shape[0]} (a part of a batch, such as a shard, passes env_id)")
    words = jax.random.key_data(key)
    if is_concrete(words) and words.is_fully_addressable:
        rows = np.ascontiguousarray(words)
        rows = rows.view(np.uint64) if rows.shape[1] == 2 else rows  # NumPy sorts numbers ten times as fast as rows
        axis = None if rows.shape[1] == 1 else 0
        _, index, inverse = np.unique(rows, axis=axis, return_index=True, return_inverse=True)
        inverse = inverse.ravel()  # NumPy 2 returns a column
        if repeated := np.flatnonzero(index[inverse] != np.arange(inverse.size)).tolist():
            one, other = index[inverse][repeated[0]], repeated[0]
            rule = f"keys must be distinct, got the same for lanes {one} and {other}"
            raise ValueError(f"reset: {rule}, which would play the same episodes (pass env_id if they should)")


def _fold_lanes(key: jax.Array, env_id: jax.Array) -> jax.Array:
    kind = str(jax.random.key_impl(key))
    if kind == "threefry2x32":
        # XLA compiles the loop of jax.random.fold_in over the rounds for 0.1 s. The words need a separate kernel: LLVM
        # takes minutes where the rounds are fused into the loops over an image.
        k0, k1 = jax.random.key_data(key)
        words = in_one_kernel(threefry2x32, k0, k1, jnp.zeros_like(env_id, jnp.uint32), env_id.astype(jnp.uint32), 20)
        return jax.random.wrap_key_data(jnp.stack(words, axis=-1), impl=kind)
    if kind == "rbg":
        return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, env_id)
    # Under vmap other implementations (unsafe_rbg) fold by the lane's position in the batch, so fold one at a time.
    return jax.lax.map(lambda number: jax.random.fold_in(key, number), env_id)


@functools.partial(jax.jit, inline=True)  # outside of jit, each operation would be compiled alone
def _folded_words(key: jax.Array, env_id: jax.Array) -> KeyWords:
    return _two_words(_fold_lanes(key, env_id))


def _two_words(key: jax.Array) -> KeyWords:
    data = jax.random.key_data(key)
    words: list[Any] = [data[..., i] for i in range(data.shape[-1])]
    return threefry2x32(*words) if len(words) == 4 else (words[0], words[1])


def reseed(state: Any, key: jax.Array) -> Any:
    """Returns the state of a stack with other random numbers to come, drawn from one typed key or ``Key[B]``.

    A planner that steps a copy of a state otherwise sees the random numbers that the environment is going to draw.
    """

    def is_clock(x: Any) -> bool:
        return isinstance(x, Clock)

    def other(x: Any) -> Any:
        return dataclasses.replace(x, key=lane_words(key, x.env_id)) if is_clock(x) else x

    if not any(map(is_clock, jax.tree.leaves(state, is_leaf=is_clock))):
        raise ValueError(f"random.reseed: state must be the state of an environment, got {described(state)}")
    return jax.tree.map(other, state, is_leaf=is_clock)


def stream(key: jax.Array | Stream) -> Stream:
    """Returns a stream from a typed JAX key (``()`` or ``[B]``); a stream passes through."""
    if isinstance(key, Stream):
        return key
    check_typed(key, "random.stream: key")
    k0, k1 = _two_words(key)
    return Stream(k0, k1, jnp.zeros_like(k0), jnp.zeros_like(k0))


def jax_keys(stream: Stream) -> jax.Array:
    """Returns typed JAX keys (Threefry), one per lane, for code that draws with ``jax.random``."""
    return jax.random.wrap_key_data(bits(stream, (2,)), impl="threefry2x32")


def fold_in(stream: Stream, salt: Any) -> Stream:
    """Derives a stream independent of ``stream`` and of all streams folded with other salts.

    A Python ``int`` or ``str`` costs two integer operations per word; an integer array (``()`` or one per lane) costs
    one block of the generator.
    """
    _check_stream(stream)
    if isinstance(salt, str | int | np.integer):
        k0, k1 = _fold_static((stream.k0, stream.k1), salt if isinstance(salt, str) else int(salt))
    else:
        if not (hasattr(salt, "dtype") and jnp.issubdtype(salt.dtype, jnp.integer)):
            raise ValueError(f"random.fold_in: salt must be text or integers, got {salt!r}")
        _check_lanes("random.fold_in", stream, salt=salt)
        k0, k1 = threefry2x32(stream.k0, stream.k1, jnp.asarray(salt).astype(jnp.uint32), np.uint32(_GOLDEN))
    return dataclasses.replace(stream, k0=k0, k1=k1)


def _fold_static(words: KeyWords, salt: str | int) -> KeyWords:
    h0, h1 = _digest(salt)
    # The product keeps chains of folds from commuting and from cancelling.
    return (words[0] ^ np.uint32(h0)) * np.uint32(_GOLDEN), (words[1] ^ np.uint32(h1)) * np.uint32(_GOLDEN)


@functools.lru_cache(maxsize=4096)
def _digest(salt: str | int) -> tuple[int, int]:
    digest = hashlib.blake2b(repr(salt).encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


# --- the generator ---------------------------------------------------------------------------------------------------


def threefry2x32(k0: Any, k1: Any, c0: Any, c1: Any, rounds: int = 13) -> KeyWords:
    """Maps two key words and two counter words to two random words by the Threefry-2x32 block function.

    All are ``uint32`` of shapes that broadcast (``[B]``, say); it works elementwise.
    """
    u32 = np.uint32
    schedule = (k0, k1, k0 ^ k1 ^ u32(_PARITY))
    x0, x1 = c0 + k0, c1 + k1
    for r in range(rounds):
        rotation = _ROTATIONS[r % 8]
        x0 = x0 + x1
        x1 = (x1 << u32(rotation)) | (x1 >> u32(32 - rotation))
        x1 = x1 ^ x0
        if r % 4 == 3:
            s = r // 4 + 1
            x0 = x0 + schedule[s % 3]
            # In this order XLA cannot hoist the sum of key and number out of a loop and reload it at every step.
            x1 = (x1 + u32(s)) + schedule[(s + 1) % 3]
    return x0, x1


def bits(stream: Stream, shape: Shape = ()) -> jax.Array:
    """Draws random ``uint32`` words ``[B, *shape]``; two words cost one block of the generator."""
    _check_stream(stream)
    _check_shape(shape)
    if shape == ():
        return _block(stream, 0)[0]
    total = math.prod(shape)
    blocks = (total + 1) // 2
    lanes = jax.tree.map(lambda word: jnp.expand_dims(word, -1), stream)
    number = jnp.arange(blocks, dtype=np.uint32).reshape((1,) * len(stream.shape) + (blocks,))
    first, second = in_one_kernel(_block, lanes, number) if total > 1 else _block(lanes, number)
    words = jnp.concatenate([first, second[..., : total - blocks]], axis=-1)
    return words.reshape(stream.shape + shape)


def separate_bits(stream: Stream, num: int) -> tuple[jax.Array, ...]:
    """Draws the words of ``bits(stream, (num,))`` as ``num`` arrays ``[B]``."""
    check_integer("random.separate_bits", "num", num, 0)
    # A block has two words, which XLA:CPU would compute in two kernels.
    return in_one_kernel(_separate_bits, stream, num) if num > 1 else _separate_bits(stream, num)


def _separate_bits(stream: Stream, num: int) -> tuple[jax.Array, ...]:
    blocks = (num + 1) // 2
    pairs = [_block(stream, j) for j in range(blocks)]
    return (*(first for first, _ in pairs), *(second for _, second in pairs[: num - blocks]))


def _check_shape(shape: Any) -> None:
    if not isinstance(shape, tuple) or not all(is_integer(n) and n >= 0 for n in shape):
        raise ValueError(f"random: shape must be a tuple of lengths such as (4,), got {shape!r}")


def _check_stream(stream: Any) -> None:
    if not isinstance(stream, Stream):
        hint = ": random.stream(key) makes one from a JAX key" if is_key(stream) else ""
        raise ValueError(f"random: stream must be a Stream, got {described(stream)}{hint}")


def _block(stream: Stream, number: Any) -> KeyWords:
    _check_stream(stream)
    tweak = np.uint32((number * _GOLDEN) & 0xFFFFFFFF) if isinstance(number, int) else number * np.uint32(_GOLDEN)
    return separate_if_one_lane(threefry2x32(stream.k0 + tweak, stream.k1, stream.c0, stream.c1))


# --- distributions ---------------------------------------------------------------------------------------------------


def _check_lanes(owner: str, stream: Stream, rank: int = 0, **arguments: Any) -> None:
    """Raises a ``ValueError`` unless each argument of this rank is one for all lanes or one per lane of the stream."""
    _check_stream(stream)
    for name, value in arguments.items():
        check_array(owner, name, value)
        shape = np.shape(value)
        if len(shape) < rank or shape[: len(shape) - rank] not in ((), stream.shape):
            rule = f"must be one {'row' if rank else 'number'} for all lanes or one per lane"
            raise ValueError(f"{owner}: {name} {rule}, got shape {shape} for a stream of shape {stream.shape}")


def _align(value: Any, stream: Stream, shape: Shape) -> jax.Array:
    """Gives a per-lane argument ``[B]`` the trailing axes of a draw ``[B, *shape]``; scalars broadcast anyway."""
    _check_shape(shape)
    value = jnp.asarray(value)
    return value.reshape(value.shape + (1,) * len(shape)) if value.ndim == len(stream.shape) else value


def unit(word: jax.Array) -> jax.Array:
    """Maps the upper 24 bits of a word to a multiple of 2**-24 in [0, 1): uint32 to float32, elementwise."""
    return (word >> np.uint32(8)).astype(jnp.float32) * np.float32(2**-24)


def uniform(stream: Stream, shape: Shape = (), low: Any = 0.0, high: Any = 1.0) -> jax.Array:
    """Draws uniform float32 ``[B, *shape]`` in [low, high), on a grid of 2**24 points; bounds: scalars or one per lane.

    As with every affine map in float32, the last point may round to ``high``. Equal bounds give the bound.

    Raises:
        ValueError: for bounds of another number of lanes, and outside of traces for ``low`` above ``high``, NaN, or a
            difference that is not finite in float32.
    """
    low, span = _interval("random.uniform", stream, shape, low, high)
    return low + unit(bits(stream, shape)) * span


def separate_uniforms(stream: Stream, num: int, low: Any = 0.0, high: Any = 1.0) -> tuple[jax.Array, ...]:
    """Draws ``uniform(stream, (num,), low, high)`` as ``num`` arrays ``[B]``; raises the same errors."""
    low, span = _interval("random.separate_uniforms", stream, (), low, high)
    return tuple(low + unit(word) * span for word in separate_bits(stream, num))


def _interval(owner: str, stream: Stream, shape: Shape, low: Any, high: Any) -> tuple[jax.Array, jax.Array]:
    _check_lanes(owner, stream, low=low, high=high)
    check_order(owner, "low", low, "high", high)
    if is_concrete(low) and is_concrete(high):
        with np.errstate(over="ignore", invalid="ignore"):
            span = np.asarray(high, np.float32) - np.asarray(low, np.float32)
        if not np.all(np.isfinite(span)):
            raise ValueError(f"{owner}: high - low must be finite in float32, got low {low} and high {high}")
    low = _align(jnp.asarray(low, jnp.float32), stream, shape)
    return low, _align(jnp.asarray(high, jnp.float32), stream, shape) - low


def integers(stream: Stream, shape: Shape, low: Any, high: Any) -> jax.Array:
    """Draws uniform int32 ``[B, *shape]`` in [low, high); bounds are int32 scalars or one per lane.

    The bias is below (high - low) / 2**32.

    Raises:
        ValueError: for bounds that are not integers or of another number of lanes, and outside of traces unless ``low``
            is below ``high`` and both fit int32.
    """
    _check_lanes("random.integers", stream, low=low, high=high)
    for name, bound in (("low", low), ("high", high)):
        dtype = np.asarray(bound).dtype if is_concrete(bound) else jnp.result_type(bound)
        if not jnp.issubdtype(dtype, jnp.integer):
            raise ValueError(f"random.integers: {name} must be integers, got {bound}")
        Range(low=-INT32_MAX - 1, high=INT32_MAX).check("random.integers", name, bound)
    check_order("random.integers", "low", low, "high", high, strict=True)
    low = _align(jnp.asarray(low, jnp.int32), stream, shape)
    span = (_align(jnp.asarray(high, jnp.int32), stream, shape) - low).astype(jnp.uint32)
    return low + high_product(bits(stream, shape), span).astype(jnp.int32)


def high_product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns the upper word of the 64-bit product of two uint32 arrays of one shape, in 32-bit arithmetic."""
    half, low = np.uint32(16), np.uint32(0xFFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    middle = a1 * b0 + ((a0 * b0) >> half)
    return a1 * b1 + (middle >> half) + ((a0 * b1 + (middle & low)) >> half)


def bernoulli(stream: Stream, shape: Shape = (), p: Any = 0.5) -> jax.Array:
    """Draws True with probability ``p`` (a scalar or one per lane), to within 2**-24: bool ``[B, *shape]``.

    Raises:
        ValueError: for another number of lanes, and outside of traces for ``p`` outside of [0, 1].
    """
    _check_lanes("random.bernoulli", stream, p=p)
    Range(0, 1).check("random.bernoulli", "p", p)
    p = _align(jnp.asarray(p, jnp.float32), stream, shape)
    return unit(bits(stream, shape)) < p


def normal(stream: Stream, shape: Shape = ()) -> jax.Array:
    """Draws standard normal float32 ``[B, *shape]``, by inversion; tails reach 5.4 standard deviations."""
    # Midpoints of 2**24 cells of (-1, 1). The integer is centred first, so the midpoints are exact and symmetric.
    cell = (bits(stream, shape) >> np.uint32(8)).astype(jnp.int32) - np.int32(2**23)
    middle = (cell.astype(jnp.float32) + np.float32(0.5)) * np.float32(2**-23)
    return np.float32(np.sqrt(2)) * jax.lax.erf_inv(middle)


def exponential(stream: Stream, shape: Shape = ()) -> jax.Array:
    """Draws standard exponential float32 ``[B, *shape]`` (mean 1), at most 16.7."""
    return -jnp.log1p(-unit(bits(stream, shape)))


def permutation(stream: Stream, n: int) -> jax.Array:
    """Draws a uniform permutation of 0..n-1 for every lane: int32 ``[B, n]``."""
    check_integer("random.permutation", "n", n, 0)
    words = bits(stream, (n,))
    index = jnp.broadcast_to(jnp.arange(n, dtype=jnp.int32), words.shape)
    return jax.lax.sort((words, index), dimension=-1, num_keys=1)[1]


def categorical(stream: Stream, *, weights: Any = None, logits: Any = None) -> jax.Array:
    """Draws an index in proportion to ``weights`` or to ``exp(logits)``: int32 ``[B]``, one word per lane.

    Give one of the two, ``[B, n]``, or ``[n]`` for all lanes, n at least 1. Weights are non-negative numbers with a sum
    that is finite in float32, or a mask; where all are 0 the index is 0. An index of weight 0, or of a logit of minus
    infinity, is never drawn.

    Raises:
        ValueError: for both or neither, for another number of lanes, and outside of traces for a negative weight, NaN,
            a logit of infinity, or weights whose sum is not finite.
    """
    if (weights is None) == (logits is None):
        raise ValueError("random.categorical: pass weights or logits, one of the two")
    name, valid, given = ("weights", Range(low=0), weights) if logits is None else ("logits", _LOGITS, logits)
    _check_lanes("random.categorical", stream, 1, **{name: given})
    if np.shape(given)[-1] == 0:
        raise ValueError(f"random.categorical: {name} must hold at least one number per lane, got none")
    valid.check("random.categorical", name, given, rank=1)
    if weights is not None and is_concrete(weights):
        with np.errstate(over="ignore"):
            if not np.all(np.isfinite(np.sum(np.asarray(weights, np.float32), axis=-1, dtype=np.float32))):
                raise ValueError("random.categorical: weights must have a sum that is finite in float32, got infinity")
    shape = (*stream.shape, np.shape(given)[-1])
    if getattr(weights, "dtype", None) == np.bool_ and shape[-1] <= _MAX_FLAGS:
        return _drawn_flag(stream, jnp.broadcast_to(jnp.asarray(weights), shape))
    numbers = jnp.broadcast_to(jnp.asarray(given, jnp.float32), shape)
    if logits is not None:
        numbers = jnp.exp(numbers - _largest(numbers)[..., None])
    return _drawn_weight(numbers, uniform(stream))


def argmax(x: jax.Array) -> jax.Array:
    """Returns the index of the largest number of each row, the first of equal ones: int32 ``[...]`` for ``[..., n]``.

    The choice without chance, as by ``jnp.argmax``. Over few numbers it compares them one by one: a GPU computes a
    maximum over two or four outputs, and all that it reads, with few threads per lane.
    """
    check_array("random.argmax", "x", x)
    if not np.shape(x) or np.shape(x)[-1] == 0:
        raise ValueError(f"random.argmax: x must be [..., n] with n at least 1, got shape {np.shape(x)}")
    x = jnp.asarray(x)
    if x.shape[-1] > _FEW:
        return jnp.argmax(x, axis=-1).astype(jnp.int32)
    best, index = x[..., 0], jnp.zeros(x.shape[:-1], jnp.int32)
    for i in range(1, x.shape[-1]):
        better = (x[..., i] > best) | ((x[..., i] != x[..., i]) & (best == best))  # as jnp.argmax, the first NaN
        best, index = jnp.where(better, x[..., i], best), jnp.where(better, np.int32(i), index)
    return index


def _largest(x: jax.Array) -> jax.Array:
    """Returns the largest number of each row, ``[...]`` for ``[..., n]``, elementwise if there are few."""
    few = x.shape[-1] <= _FEW
    return functools.reduce(jnp.maximum, [x[..., i] for i in range(x.shape[-1])]) if few else jnp.max(x, axis=-1)


def _drawn_weight(weights: jax.Array, fraction: jax.Array) -> jax.Array:
    """Returns the index in which ``fraction`` of the sum of the weights ``[B, n]`` lies, int32 ``[B]``.

    Few weights are compared one by one. Of many, a block is drawn first, by its sum: XLA has no fast cumulative sum, on
    a CPU (jaxlib 0.10.2) one of 65 numbers takes longer than all else here.
    """
    levels: list[Any] = []  # [B, blocks, numbers of a block], each number the sum of a block of the level before
    while not levels or levels[-1].shape[-2] > 1:
        numbers = jnp.sum(levels[-1], axis=-1) if levels else weights
        width = min(numbers.shape[-1], _FEW)
        padding = [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % width)]
        levels.append(jnp.pad(numbers, padding).reshape(*weights.shape[:-1], -1, width))
    index, threshold = jnp.zeros(fraction.shape, jnp.int32), None
    for blocks in reversed(levels):
        drawn = jnp.arange(blocks.shape[-2], dtype=jnp.int32).reshape((1,) * fraction.ndim + (-1,)) == index[..., None]
        row = blocks[..., 0, :] if threshold is None else jnp.sum(blocks, axis=-2, where=drawn[..., None])
        each = [row[..., i] for i in range(row.shape[-1])]
        below = list(itertools.accumulate(each, initial=jnp.zeros_like(fraction)))
        threshold = fraction * below[-1] if threshold is None else threshold
        place, start = jnp.zeros_like(index), below[0]
        for i, (weight, sum_below) in enumerate(zip(each, below, strict=False)):
            # Sums are rounded: the last one may not exceed the threshold. Zero weights are excluded explicitly.
            reached = (weight > 0) & (threshold >= sum_below)
            place, start = jnp.where(reached, np.int32(i), place), jnp.where(reached, sum_below, start)
        index, threshold = index * np.int32(_FEW) + place, threshold - start
    return index


def _drawn_flag(stream: Stream, mask: jax.Array) -> jax.Array:
    """Draws the index of a True, int32 ``[B]``, as `categorical` does from weights of 0 and 1, in integers.

    Cumulative sums of flags are exact in any order. XLA:CPU (jaxlib 0.10.2) sums 65 of them 13 times as slowly as it
    packs them into words.
    """
    words = []
    for number in range(0, mask.shape[-1], 32):
        flags = mask[..., number : number + 32]
        bits_of_word = jnp.broadcast_to(np.uint32(1) << np.arange(flags.shape[-1], dtype=np.uint32), flags.shape)
        words.append(jnp.sum(jnp.where(flags, bits_of_word, np.uint32(0)), axis=-1, dtype=jnp.uint32))
    counts = [jax.lax.population_count(word) for word in words]
    total = functools.reduce(jnp.add, counts)
    rank = jnp.floor(uniform(stream) * total.astype(jnp.float32)).astype(jnp.uint32)  # of the drawn flag, from 0
    word, start = words[0], jnp.zeros_like(rank)
    for number in range(1, len(words)):
        later = (start == np.uint32(32 * (number - 1))) & (rank >= counts[number - 1])
        rank = jnp.where(later, rank - counts[number - 1], rank)
        word, start = jnp.where(later, words[number], word), jnp.where(later, np.uint32(32 * number), start)
    place = jnp.zeros_like(rank)
    for width in (16, 8, 4, 2, 1):  # halves of the word in which the flag can be
        below = jax.lax.population_count((word >> place) & np.uint32(2**width - 1))
        later = rank >= below
        rank, place = jnp.where(later, rank - below, rank), jnp.where(later, place + np.uint32(width), place)
    return jnp.where(total == 0, np.int32(0), (start + place).astype(jnp.int32))


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(explained(message, name, r"\brandom\."), name=name)


def __dir__() -> list[str]:
    return __all__
