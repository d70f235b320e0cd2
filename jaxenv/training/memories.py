"""Memories of recurrent policies: GRU, LSTM, minGRU and GTrXL, Flax modules of one interface, `Memory`.

The rows of a lane belong to several episodes, and a memory restarts where one starts. A policy that acts reads one row
of every lane; the loss reads all rows of an update in one call. GRU and LSTM take them one after another, minGRU and
GTrXL all at once.
"""

from collections.abc import Callable
from typing import Any, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_choice
from jaxenv.training.networks import dense, orthogonal

_LONGEST = 100.0  # rows that a GRU and a minGRU remember at first


class Memory(Protocol):
    """What every model implements: a Flax module whose memory is a tree with leaves ``[B, ...]``."""

    width: int  # the width of the outputs; PPO gives as many inputs

    def start(self, num_envs: int) -> Any:
        """Returns the memory at the start of an episode."""

    def __call__(self, memory: Any, x: jax.Array, starts: jax.Array) -> tuple[Any, jax.Array]:
        """Reads rows ``x``, float32 ``[T, B, n]``; one call equals T calls with a row each.

        ``memory`` is the memory before the first row. Before each row where ``starts``, bool ``[T, B]``, is True, the
        lane's memory restarts. Returns the memory after the last row and the outputs ``[T, B, width]``.
        """


class GRU(nn.Module):
    """A gated recurrent unit (Cho et al., 2014, arXiv:1406.1078). Its memory is its output, ``[B, width]``.

    At first the units forget over 2 to 100 rows, by the biases of their update gates (Tallec and Ollivier, 2018,
    arXiv:1804.11188): with zeros, nothing that is 40 rows old would have a gradient.
    """

    width: int

    def start(self, num_envs: int) -> jax.Array:
        return jnp.zeros((num_envs, self.width), jnp.float32)

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
    """A long short-term memory (Hochreiter and Schmidhuber, 1997; Gers et al., 2000).

    Its memory is output and cell, ``[B, 2 * width]``.
    """

    width: int

    def start(self, num_envs: int) -> jax.Array:
        return jnp.zeros((num_envs, 2 * self.width), jnp.float32)

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
    """Propagates gradients row by row, and sums the gradients of the kernel over all rows in one product."""
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


class MinGRU(nn.Module):
    """Layers of gated recurrent units whose gates read the inputs alone (Feng et al., 2024, arXiv:2410.01201).

    A layer computes ``h = keep * h + (1 - keep) * new``, linear in its memory, so an associative scan reads all T rows
    in about ``2 * log2(T)`` steps. The paper computes in logarithms, with a positive ``new``. Plain numbers are safe as
    well, with either sign: ``h`` is a weighted mean of earlier ``new``, its weights are products of numbers below 1,
    and nothing is divided. A weight that underflows is 0, as it should be.

    Its memory is the output of each layer, ``[B, num_layers, width]``. At first the units forget over 2 to 100 rows,
    evenly spaced in the logarithm: units that differ in this tell apart what was seen one row and three rows before.
    """

    width: int
    num_layers: int = 1

    def start(self, num_envs: int) -> jax.Array:
        return jnp.zeros((num_envs, self.num_layers, self.width), jnp.float32)

    @nn.compact
    def __call__(self, memory: jax.Array, x: jax.Array, starts: jax.Array) -> tuple[jax.Array, jax.Array]:
        memory, last = tree.where(starts[0], self.start(x.shape[1]), memory), []  # an abnormal episode's may be NaN
        for layer in range(self.num_layers):
            keep, new = jnp.split(dense(2 * self.width, 1.0, bias_init=self._biases)(x), 2, axis=-1)
            keep = nn.sigmoid(keep)
            kept = jnp.where(starts[..., None], np.float32(0), keep)
            x = _linear_recurrence(memory[:, layer], kept, (1 - keep) * new)
            last.append(x[-1])
        return jnp.stack(last, axis=1), x

    def _biases(self, key: jax.Array, shape: Any, dtype: Any = jnp.float32) -> jax.Array:
        """Initialises the biases of the gate and of the new memory."""
        of_keep = jnp.linspace(0.0, np.log(_LONGEST - 1.0), self.width, dtype=dtype)
        return jnp.concatenate([of_keep, jnp.zeros_like(of_keep)])


@jax.custom_vjp
def _linear_recurrence(memory: jax.Array, keep: jax.Array, add: jax.Array) -> jax.Array:
    """Returns ``h = keep * h + add`` after each row, ``[T, B, n]``."""
    return _linear_forward(memory, keep, add)[0]


def _linear_forward(memory: Any, keep: Any, add: Any) -> tuple[Any, Any]:
    whole, added = jax.lax.associative_scan(_one_after_the_other, (keep, add))
    h = whole * memory + added
    return h, (memory, keep, h)


def _linear_backward(residuals: Any, d_h: Any) -> Any:
    """The gradients are a linear recurrence from the last row to the first; JAX's own would be many more operations."""
    memory, keep, h = residuals
    keep_of_next = jnp.concatenate([keep[1:], jnp.zeros_like(keep[:1])])
    _, d_add = jax.lax.associative_scan(_one_after_the_other, (keep_of_next, d_h), reverse=True)
    return keep[0] * d_add[0], d_add * jnp.concatenate([memory[None], h[:-1]]), d_add


def _one_after_the_other(first: Any, second: Any) -> tuple[Any, Any]:
    """Composes two maps of ``h``, pairs of factor and summand."""
    keep, add = (jnp.where(second[0] == 0, np.float32(0), second[0] * x) for x in first)  # NaN does not pass a start
    return keep, add + second[1]


_linear_recurrence.defvjp(_linear_forward, _linear_backward)


@tree.struct
class Window:
    """The memory of a `GTrXL`: its last W rows."""

    # The inputs of its layers, float32[B, W, num_layers, width], the oldest row first; 0 if not known.
    rows: jax.Array
    known: jax.Array  # bool[B, W], which rows belong to the current episode


class GTrXL(nn.Module):
    """A transformer with gates in place of residual connections (Parisotto et al., 2019, arXiv:1910.06764).

    In each layer a row attends to itself and to the W rows before it, if they belong to its episode, by relative
    positions (Dai et al., 2019, arXiv:1901.02860). With several layers a row reaches further back. The memory is a
    `Window`. In one call a NaN also reaches rows of the next episode: mask such rows, as PPO does.
    """

    width: int
    num_layers: int = 1
    num_heads: int = 4
    window: int = 32

    def start(self, num_envs: int) -> Window:
        rows = jnp.zeros((num_envs, self.window, self.num_layers, self.width), jnp.float32)
        return Window(rows, jnp.zeros((num_envs, self.window), bool))

    @nn.compact
    def __call__(self, memory: Window, x: jax.Array, starts: jax.Array) -> tuple[Window, jax.Array]:
        x, starts, inputs = x.swapaxes(0, 1), starts.T, []
        before = tree.where(starts[:, 0], self.start(x.shape[0]), memory)  # an abnormal episode's may be NaN
        episode = jnp.where(before.known, np.int32(0), np.int32(-1))
        episode = jnp.concatenate([episode, jnp.cumsum(starts, axis=1, dtype=jnp.int32)], axis=1)
        for layer in range(self.num_layers):
            rows = jnp.concatenate([before.rows[:, :, layer], x], axis=1)
            inputs.append(rows[:, -self.window :])
            x = _Gate()(x, nn.relu(_Attention(self.num_heads, self.window)(nn.LayerNorm()(rows), episode)))
            hidden = nn.relu(dense(2 * self.width)(nn.LayerNorm()(x)))
            x = _Gate()(x, nn.relu(dense(self.width)(hidden)))
        known = episode[:, -self.window :] == episode[:, -1:]
        read = jnp.where(known[..., None, None], jnp.stack(inputs, axis=2), np.float32(0))
        return Window(read, known), x.swapaxes(0, 1)


class _Gate(nn.Module):
    """Merges the output of a layer into its input as a GRU does; the bias of 2 lets little in at first."""

    @nn.compact
    def __call__(self, x: jax.Array, y: jax.Array) -> jax.Array:
        width = x.shape[-1]
        of_x = jnp.split(dense(2 * width, 1.0, use_bias=False)(x), 2, axis=-1)
        of_y = jnp.split(dense(3 * width, 1.0, use_bias=False)(y), 3, axis=-1)
        bias = self.param("bias", nn.initializers.constant(2.0), (width,), jnp.float32)
        reset, update = nn.sigmoid(of_x[0] + of_y[0]), nn.sigmoid(of_x[1] + of_y[1] - bias)
        new = nn.tanh(of_y[2] + dense(width, 1.0, use_bias=False)(reset * x))
        return (1 - update) * x + update * new


class _Attention(nn.Module):
    """Attention of T rows to themselves and to the W rows before each, in blocks of W rows: linear in T."""

    num_heads: int
    window: int

    @nn.compact
    def __call__(self, rows: jax.Array, episode: jax.Array) -> jax.Array:
        """Reads rows ``[B, W + T, n]`` and the numbers of their episodes; returns ``[B, T, n]``."""
        width, window, num_rows = rows.shape[-1], self.window, rows.shape[1] - self.window
        heads = self.num_heads, width // self.num_heads
        size = min(num_rows, window)  # of a block
        fill = -num_rows % size
        rows, episode = (jnp.pad(x, [(0, 0), (0, fill)] + [(0, 0)] * (x.ndim - 2)) for x in (rows, episode))

        def product(x: Any) -> jax.Array:
            return dense(width, 1.0, use_bias=False)(x).reshape(*x.shape[:-1], *heads)

        def blocks(x: jax.Array) -> jax.Array:
            return x.reshape(x.shape[0], -1, size, *x.shape[2:])

        def windows(x: jax.Array) -> jax.Array:
            """Returns for each block its rows and the W rows before it."""
            if x.shape[1] == window + size:
                return x[:, None]
            return jnp.concatenate([blocks(x)[:, :-1], blocks(x)[:, 1:]], axis=2)

        query, key, value = blocks(product(rows[:, window:])), windows(product(rows)), windows(product(rows))
        distance = product(_sinusoids(window, width))
        bias_of_key, bias_of_distance = (
            self.param(name, nn.initializers.zeros, heads, jnp.float32) for name in ("bias_of_key", "bias_of_distance")
        )
        by_distance = jnp.einsum("bnqhd,mhd->bnhqm", query + bias_of_distance, distance)
        scores = jnp.einsum("bnqhd,bnkhd->bnhqk", query + bias_of_key, key) + _shifted(by_distance)
        of_query, of_key = blocks(episode[:, window:]), windows(episode)
        back = np.arange(size)[:, None] + window - np.arange(window + size)
        seen = (of_query[:, :, :, None] == of_key[:, :, None]) & (back >= 0) & (back <= window)
        scores = jnp.where(seen[:, :, None], scores / np.float32(np.sqrt(heads[1])), np.float32(-1e30))
        mean = jnp.einsum("bnhqk,bnkhd->bnqhd", jax.nn.softmax(scores), value)
        mean = mean.reshape(mean.shape[0], -1, width)[:, :num_rows]
        return dense(width, 1.0, use_bias=False)(mean)


def _shifted(scores: jax.Array) -> jax.Array:
    """Moves scores by distance, W to 0, to the rows at these distances: ``[..., C, W + 1]`` to ``[..., C, W + C]``."""
    *batch, size, distances = scores.shape
    padded = jnp.pad(scores, [(0, 0)] * (len(batch) + 1) + [(0, size)])
    return padded.reshape(*batch, -1)[..., :-size].reshape(*batch, size, distances + size - 1)


def _sinusoids(window: int, width: int) -> np.ndarray:
    """Returns the vectors of the distances from ``window`` to 0, float32 ``[window + 1, width]``."""
    angles = np.outer(np.arange(window, -1, -1), 1 / 10_000 ** (np.arange(0, width, 2) / width))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)[:, :width].astype(np.float32)


# --- the choice of a model -------------------------------------------------------------------------------------------

# Functions of settings such as `ppo.Config`, whose ``cell`` is a name. Add a model here to choose it there.
MODELS: dict[str, Callable[[Any], Memory]] = {
    "gru": lambda config: GRU(config.recurrent),
    "lstm": lambda config: LSTM(config.recurrent),
    "mingru": lambda config: MinGRU(config.recurrent, config.num_layers),
    "gtrxl": lambda config: GTrXL(config.recurrent, config.num_layers, config.num_heads, config.window),
}


def check(config: Any) -> None:
    """Raises a ``ValueError`` unless the settings of a learner choose a model and fit it."""
    owner, width, name = config.owner, config.recurrent, config.cell
    check_choice(owner, "cell", name, tuple(MODELS))
    if not width and name != type(config).cell:
        raise ValueError(f"{owner}: recurrent must be at least 1 with cell={name!r}, got 0: it is the memory's width")
    if config.num_layers > 1 and (not width or name in ("gru", "lstm")):
        what = f"cell={name!r} has one layer" if width else "recurrent=0 is no memory"
        raise ValueError(f"{owner}: num_layers must be 1, since {what}, got {config.num_layers}")
    if not width or name != "gtrxl":
        return
    if width % config.num_heads:
        raise ValueError(f"{owner}: num_heads must divide recurrent = {width}, got {config.num_heads}")
    if config.window > config.num_steps:
        rule = f"window must be at most num_steps = {config.num_steps}, the rows of a lane in an update"
        raise ValueError(f"{owner}: {rule}, got {config.window}")
