"""Parts of the learners' networks: readers of observations, dense layers, convolutions, a GRU and an LSTM.

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
_LONGEST = 100.0  # rows that a GRU remembers at first


# --- observations ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads a tree of observations for a network: images by convolutions, single integers as categories, the rest flat.

    Attributes:
        filters: the convolutions of every leaf, ``()`` if it is not an image.
        num_values: how many values every leaf takes, 0 if it is not a category.
        lowest: the lowest value of every category.
    """

    filters: tuple[tuple[Filters, ...], ...]
    num_values: tuple[int, ...]
    lowest: tuple[int, ...]

    @classmethod
    def from_spec(cls, owner: str, spec: Any, torso: str = "auto") -> "Reader":
        """Chooses how to read each leaf of the observation by its spec.

        Args:
            owner: the learner, for errors.
            spec: the spec of one lane's observation, a tree.
            torso: ``"mlp"`` flattens images too; ``"cnn"`` requires one, of at least 3 rows and columns; ``"auto"``
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


class GRU(nn.Module):
    """A gated recurrent unit over time (Cho et al., 2014, arXiv:1406.1078), restarted by a mask.

    ``memory`` is ``[B, width]``, the inputs are ``[T, B, n]``, and a lane's memory is 0 before each row where
    ``starts``, bool ``[T, B]``, is True. Returns the memory after the last row and the outputs ``[T, B, width]``.

    At first the units forget over 2 to 100 rows, by the biases of their update gates (Tallec and Ollivier, 2018,
    arXiv:1804.11188): with zeros, nothing that is 40 rows old would have a gradient.
    """

    width: int

    @nn.compact
    def __call__(self, memory: jax.Array, x: jax.Array, starts: jax.Array) -> tuple[jax.Array, jax.Array]:
        # All input products at once: only the recurrent product is computed row by row.
        inputs = dense(3 * self.width, 1.0, bias_init=self._biases)(x)
        square = self.width, self.width
        kernels = [self.param(name, orthogonal(1.0), square, jnp.float32) for name in ("reset", "update", "new")]
        kernel = jnp.concatenate(kernels, axis=-1)
        bias = self.param("bias", nn.initializers.zeros, (self.width,), jnp.float32)

        def step(memory: Any, row: Any) -> Any:
            inputs, start = row
            memory = jnp.where(start[:, None], jnp.zeros_like(memory), memory)
            of_inputs, of_memory = jnp.split(inputs, 3, axis=-1), jnp.split(memory @ kernel, 3, axis=-1)
            reset, update = (nn.sigmoid(a + b) for a, b in zip(of_inputs[:2], of_memory[:2], strict=True))
            new = nn.tanh(of_inputs[2] + reset * (of_memory[2] + bias))
            memory = (1 - update) * new + update * memory
            return memory, memory

        return jax.lax.scan(step, memory, (inputs, starts))

    def _biases(self, key: jax.Array, shape: Any, dtype: Any = jnp.float32) -> jax.Array:
        """Initialises the biases of the gates (reset, update) and of the new memory."""
        of_update = jnp.log(jnp.linspace(1.0, _LONGEST - 1.0, self.width, dtype=dtype))
        return jnp.concatenate([jnp.zeros_like(of_update), of_update, jnp.zeros_like(of_update)])


class LSTM(nn.Module):
    """A long short-term memory over time (Hochreiter and Schmidhuber, 1997; Gers et al., 2000), restarted by a mask.

    ``memory`` is ``[B, 2 * width]``, output and cell; the other arguments and the result are as for `GRU`.
    """

    width: int

    @nn.compact
    def __call__(self, memory: jax.Array, x: jax.Array, starts: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = jnp.concatenate([x, jnp.ones((*x.shape[:-1], 1), jnp.float32)], axis=-1)
        kernel = self.param("kernel", self._weights, (x.shape[-1] + self.width, 4 * self.width))
        return _lstm(kernel, memory, x, starts)

    def _weights(self, key: jax.Array, shape: Any) -> jax.Array:
        """Initialises the weights of the inputs, the biases and the weights of the outputs, for each of four gates."""
        of_inputs, *of_outputs = jax.random.split(key, 5)
        square = self.width, self.width
        return jnp.concatenate(
            [
                orthogonal(1.0)(of_inputs, (shape[0] - self.width - 1, shape[1])),
                jnp.zeros((1, shape[1]), jnp.float32),
                jnp.concatenate([orthogonal(1.0)(key, square) for key in of_outputs], axis=-1),
            ]
        )


@jax.custom_vjp
def _lstm(kernel: jax.Array, memory: jax.Array, x: jax.Array, starts: jax.Array) -> tuple[jax.Array, jax.Array]:
    return _lstm_forward(kernel, memory, x, starts)[0]


def _lstm_forward(kernel: Any, memory: Any, x: Any, starts: Any) -> tuple[Any, Any]:
    num_inputs, width = x.shape[-1], memory.shape[-1] // 2
    inputs = (x.reshape(-1, num_inputs) @ kernel[:num_inputs]).reshape(*starts.shape, -1)

    def step(memory: Any, row: Any) -> Any:
        inputs, start = row
        memory = jnp.where(start[:, None], jnp.zeros_like(memory), memory)
        output, cell = jnp.split(memory, 2, axis=-1)
        gates, new = jnp.split(inputs + output @ kernel[num_inputs:], [3 * width], axis=-1)
        gates, new = nn.sigmoid(gates), nn.tanh(new)
        write, keep, show = jnp.split(gates, 3, axis=-1)
        cell = keep * cell + write * new
        shown = nn.tanh(cell)
        return jnp.concatenate([show * shown, cell], axis=-1), (show * shown, (gates, new, shown, memory))

    last, (outputs, saved) = jax.lax.scan(step, memory, (inputs, starts))
    return (last, outputs), (kernel, x, starts, saved)


def _lstm_backward(residuals: Any, gradients: Any) -> Any:
    """Propagates gradients row by row, and sums those of the kernel over all rows in one product."""
    kernel, x, starts, saved = residuals
    d_last, d_outputs = gradients
    num_inputs, width = x.shape[-1], d_last.shape[-1] // 2
    of_inputs, of_outputs = kernel[:num_inputs].T, kernel[num_inputs:].T

    def step(d_memory: Any, row: Any) -> Any:
        d_shown, start, (gates, new, shown, memory) = row
        write, keep, show = jnp.split(gates, 3, axis=-1)
        d_output, d_cell = jnp.split(d_memory, 2, axis=-1)
        d_output = d_output + d_shown
        d_cell = d_cell + d_output * show * (1 - shown**2)
        d_gates = jnp.concatenate([d_cell * new, d_cell * memory[:, width:], d_output * shown], axis=-1)
        d_gates = jnp.concatenate([d_gates * gates * (1 - gates), d_cell * write * (1 - new**2)], axis=-1)
        d_memory = jnp.concatenate([d_gates @ of_outputs, d_cell * keep], axis=-1)
        return jnp.where(start[:, None], jnp.zeros_like(d_memory), d_memory), d_gates

    d_memory, d_gates = jax.lax.scan(step, d_last, (d_outputs, starts, saved), reverse=True)
    read = jnp.concatenate([x, saved[-1][..., :width]], axis=-1)
    flat = d_gates.reshape(-1, d_gates.shape[-1])
    d_kernel = read.reshape(len(flat), -1).T @ flat
    return d_kernel, d_memory, (flat @ of_inputs).reshape(x.shape), np.zeros(starts.shape, jax.dtypes.float0)


_lstm.defvjp(_lstm_forward, _lstm_backward)
