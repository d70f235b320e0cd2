"""Parts of the learners' networks: readers of observations, dense layers and convolutions.

Weights are orthogonal (Saxe et al., 2014, arXiv:1312.6120), biases 0.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxenv import random, specs
from jaxenv._util.xla import in_sequence


class Filters(NamedTuple):
    """A convolution with ``num`` square filters of ``side`` pixels; ``stride`` must divide ``side``."""

    num: int
    side: int
    stride: int


# As in the first DQN (Mnih et al., 2013, arXiv:1312.5602) and for MinAtar (Young and Tian, 2019, arXiv:1903.03176).
LARGE = (Filters(16, 8, 4), Filters(32, 4, 2))
SMALL = (Filters(16, 3, 1),)
_LEAST_SMALL, _LEAST_PIXELS, _LEAST_LARGE = 3, 10, 32
_MOST_VALUES = 1024  # integers with more values are read as numbers


# --- observations ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads a tree of observations: images by convolutions, single integers as categories, the rest flat."""

    filters: tuple[tuple[Filters, ...], ...]  # the convolutions of every leaf, () if it is not an image
    num_values: tuple[int, ...]  # how many values every leaf takes, 0 if it is not a category
    lowest: tuple[int, ...]  # the lowest value of every category

    @classmethod
    def from_spec(cls, owner: str, spec: Any, torso: str = "auto") -> "Reader":
        """Chooses how to read each leaf of the observation by the spec of one lane, a tree.

        The ``torso`` ``"mlp"`` flattens images too; ``"cnn"`` requires one, of at least 3 rows and columns; ``"auto"``
        convolves images of at least 10. The channels of an image come last.
        """
        leaves = jax.tree.leaves(spec, is_leaf=specs.is_spec)
        filters = tuple(_filters(owner, torso, leaf) for leaf in leaves)
        if torso == "cnn" and not any(filters):
            rule = f"an image [H, W] or [H, W, C] of at least {_LEAST_SMALL} rows and columns"
            raise ValueError(f"{owner}: the observation must hold {rule} for torso='cnn', got {spec}")
        categories = [(leaf.num_values, int(leaf.minimum)) if _is_category(leaf) else (0, 0) for leaf in leaves]
        num_values, lowest = zip(*categories, strict=True) if leaves else ((), ())
        return cls(filters, num_values, lowest)

    def __call__(self, observation: Any) -> tuple[jax.Array, ...]:
        """Converts observations ``[B, ...]`` to the form that a network reads and a buffer stores.

        Returns:
            Every image ``[B, H, W, C]`` in its own dtype, every category ``[B]`` as int32 from 0, and all other numbers
            together, ``[B, n]``, in their common dtype or as float32: flags are stored as flags.
        """
        images, categories, numbers = [], [], []
        for x, filters, values, lowest in zip(
            jax.tree.leaves(observation), self.filters, self.num_values, self.lowest, strict=True
        ):
            if filters:
                images.append(x[..., None] if x.ndim == 3 else x)
            elif values:
                categories.append(x.astype(jnp.int32) - np.int32(lowest))
            else:
                numbers.append(x.reshape(x.shape[0], -1))
        if len({x.dtype for x in numbers}) > 1:
            numbers = [x.astype(jnp.float32) for x in numbers]
        return (*images, *categories, *([jnp.concatenate(numbers, axis=-1)] if numbers else []))


class Torso(nn.Module):
    """Turns the output of a `Reader`, leaves ``[..., *shape]``, into one vector ``[..., n]``.

    A ``tower`` reads the images in place of the reader's convolutions, ``[..., H, W, C]`` to ``[..., n]``.
    """

    reader: Reader
    tower: Callable[[jax.Array], jax.Array] | None = None

    @nn.compact
    def __call__(self, inputs: tuple[jax.Array, ...]) -> jax.Array:
        stacks = [filters for filters in self.reader.filters if filters]
        values = [number for number in self.reader.num_values if number]
        images = zip(inputs, stacks, strict=False)
        parts = [_convolve(x, filters) if self.tower is None else self.tower(x) for x, filters in images]
        categories = inputs[len(stacks) : len(stacks) + len(values)]
        parts += [jax.nn.one_hot(x, number) for x, number in zip(categories, values, strict=True)]
        parts += [x.astype(jnp.float32) for x in inputs[len(stacks) + len(values) :]]
        return jnp.concatenate(parts, axis=-1)


def _convolve(image: jax.Array, filters: tuple[Filters, ...]) -> jax.Array:
    """Convolutions as dense layers on patches: on a CPU their gradient is 10 times faster than with ``nn.Conv``."""
    scale, x = np.float32(1 / 255 if image.dtype == jnp.uint8 else 1), image
    for layer in filters:
        x = patches(x, layer.side, layer.stride).astype(jnp.float32) * scale
        x, scale = nn.relu(dense(layer.num)(x)), np.float32(1)
    return x.reshape(*x.shape[:-3], -1)


def patches(image: jax.Array, side: int, stride: int) -> jax.Array:
    """Cuts an image ``[..., H, W, C]`` into square patches, ``stride`` apart: ``[..., h, w, side * side * C]``."""
    *batch, height, width, channels = image.shape
    rows, columns, blocks = height // stride, width // stride, side // stride
    # The image is cut into blocks of stride * stride pixels. A patch is blocks * blocks of them.
    image = image[..., : rows * stride, : columns * stride, :].reshape(*batch, rows, stride, columns, stride, channels)
    image = jnp.moveaxis(image, -4, -3).reshape(*batch, rows, columns, stride * stride * channels)
    h, w = rows - blocks + 1, columns - blocks + 1
    return jnp.concatenate([image[..., i : i + h, j : j + w, :] for i in range(blocks) for j in range(blocks)], axis=-1)


def _filters(owner: str, torso: str, spec: Any) -> tuple[Filters, ...]:
    shape = spec.shape if torso != "mlp" and len(spec.shape) in (2, 3) else (0, 0)
    if min(shape[:2]) >= _LEAST_PIXELS:
        return LARGE if min(shape[:2]) >= _LEAST_LARGE else SMALL
    if len(shape) == 3 and min(shape[1:]) >= _LEAST_PIXELS:
        raise ValueError(f"{owner}: the channels of an image must come last, as of FrameStack(axis=-1), got {spec}")
    if torso == "cnn" and min(shape[:2]) >= _LEAST_SMALL:
        return SMALL
    return ()


def _is_category(spec: Any) -> bool:
    return (
        isinstance(spec, specs.Bounded) and spec.is_discrete and not spec.shape and 1 < spec.num_values <= _MOST_VALUES
    )


# --- layers ----------------------------------------------------------------------------------------------------------


def orthogonal(scale: float) -> Any:
    """Returns an initialiser of orthogonal weights, ``[n, m]``; seeds under ``vmap`` draw one after another."""

    def draw(key: jax.Array, shape: tuple[int, int], dtype: Any = jnp.float32) -> jax.Array:
        # As flax's, in half of its time to compile: normal numbers of jax.random are a loop over rounds.
        q, r = jnp.linalg.qr(random.normal(random.stream(key), (max(shape), min(shape))))
        q = scale * q * jnp.sign(jnp.diagonal(r))[None]  # uniform over all orthogonal matrices
        return (q if shape[0] > shape[1] else q.T).astype(dtype)

    return lambda key, shape, dtype=jnp.float32: in_sequence(lambda key: draw(key, shape, dtype))(key)


def dense(width: int, scale: float = float(np.sqrt(2)), **options: Any) -> nn.Dense:
    """Makes a dense layer with orthogonal weights; ``options`` go to ``nn.Dense``."""
    return nn.Dense(width, kernel_init=orthogonal(scale), **options)


def clipped_adam(max_gradient_norm: Any, **options: Any) -> optax.GradientTransformation:
    """Makes Adam on gradients that are scaled down to a norm; ``options`` go to ``optax.scale_by_adam``."""
    # As one vector: a small network has twelve arrays, and an update of each is several kernels.
    clip_norm, adam = optax.clip_by_global_norm(max_gradient_norm), optax.scale_by_adam(**options)
    return optax.flatten(optax.chain(clip_norm, adam))


class MLP(nn.Module):
    """Dense layers, with an activation after each but the last. It has ``num_outputs`` and weights of ``scale``.

    Without hidden layers and ``last_bias`` the weights are a table of the outputs for each category.
    """

    hidden: tuple[int, ...]
    num_outputs: int
    scale: float = 1.0
    activation: Callable[..., Any] = nn.tanh
    last_bias: bool = True

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in self.hidden:
            x = self.activation(dense(width)(x))
        return dense(self.num_outputs, self.scale, use_bias=self.last_bias)(x)


# --- two networks with one input, as one -----------------------------------------------------------------------------


def stacked_weights(x: jax.Array, y: jax.Array) -> jax.Array:
    """Stacks weights of two `MLP` in the last axis but one, ``y`` filled up with zeros to the outputs of ``x``."""
    return jnp.stack([x, jnp.pad(y, [(0, 0)] * (y.ndim - 1) + [(0, x.shape[-1] - y.shape[-1])])], axis=-2)


def outputs_of_two(both: Any, x: jax.Array, activation: Callable[..., Any]) -> tuple[jax.Array, jax.Array]:
    """Returns the outputs of two `MLP` that read ``x``, ``[..., n]``, given their `stacked_weights`, ``[..., m]`` each.

    One product has the weights of both, so small networks have half of the launches of two calls.
    """
    for i in range(len(both)):
        layer, product = both[f"Dense_{i}"], "...ki,ikm->...km" if i else "...i,ikm->...km"
        x = jnp.einsum(product, activation(x) if i else x, layer["kernel"]) + layer["bias"]
    return x[..., 0, :], x[..., 1, :]
