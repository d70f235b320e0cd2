"""Memories: all rows at once equal one row after another, with restarts anywhere; each model is what its paper says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import tree
from jaxenv.training.memories import GRU, LSTM, GTrXL, MinGRU

LANES, INPUTS, WINDOW = 6, 4, 5
MODELS = {
    "gru": GRU(INPUTS),
    "lstm": LSTM(INPUTS),
    "mingru": MinGRU(INPUTS),
    "mingru, 2 layers": MinGRU(INPUTS, num_layers=2),
    "gtrxl": GTrXL(INPUTS, num_heads=2, window=WINDOW),
    "gtrxl, 2 layers": GTrXL(INPUTS, num_layers=2, num_heads=2, window=WINDOW),
}

# --- rows at once and one by one -------------------------------------------------------------------------------------


def pattern(rng, num_rows):
    """Draws where episodes start. Lanes 0 to 3 start at the first row, at the last, at two adjacent rows, nowhere."""
    starts = rng.random((num_rows, LANES)) < 0.3
    starts[:, :4] = False
    starts[0, 0] = starts[-1, 1] = True
    starts[num_rows // 2 - 1 : num_rows // 2 + 1, 2] = True
    return starts


def one_by_one(model, params, memory, x, starts):
    """Acts as a rollout does: the memory of a lane is replaced where an episode starts, and reads one row."""

    def step(memory, row):
        x, start = row
        memory = tree.where(start, model.start(LANES), memory)
        memory, out = model.apply(params, memory, x[None], jnp.zeros((1, LANES), bool))
        return memory, out[0]

    return jax.lax.scan(step, memory, (x, starts))


def at_once(model, params, memory, x, starts):
    return model.apply(params, memory, x, starts)


# Attention reads 23 rows in blocks of 5, of which the last one is not full, and fewer rows in one block.
@pytest.mark.parametrize(("name", "num_rows"), [*((name, 23) for name in MODELS), ("gtrxl", 2), ("gtrxl", WINDOW)])
def test_rows_at_once_equal_rows_one_by_one_with_restarts_anywhere(name, num_rows):
    model, rng = MODELS[name], np.random.default_rng(num_rows)
    x = jax.random.normal(jax.random.key(0), (num_rows, LANES, INPUTS))
    params = model.init(jax.random.key(1), model.start(LANES), x, jnp.zeros((num_rows, LANES), bool))
    params = jax.tree.map(lambda p: p + 0.1, params)  # biases that are not 0
    # The rows begin in the middle of episodes.
    memory, _ = one_by_one(model, params, model.start(LANES), x[::-1], pattern(rng, num_rows))
    weights = jax.random.normal(jax.random.key(2), x.shape)

    def results(form):
        def total(params, x, starts):
            memory_after, out = form(model, params, memory, x, starts)
            return jnp.sum(weights * out), (memory_after, out)

        def both(starts):
            gradients, (memory_after, out) = jax.grad(total, (0, 1), has_aux=True)(params, x, starts)
            return (memory_after, out), gradients

        return jax.jit(both)

    rows, steps = results(at_once), results(one_by_one)
    for _ in range(5):
        starts = pattern(rng, num_rows)
        found, expected = rows(starts), steps(starts)
        for (path, a), b in zip(jax.tree.flatten_with_path(found)[0], jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5, err_msg=tree.path_name(path))
        # The comparison notices restarts one row early, one row late, and left out.
        early, late = np.roll(starts, -1, axis=0), np.roll(starts, 1, axis=0)
        for fault in (early, late, np.zeros_like(starts)):
            wrong = rows(fault)[0][1]
            lanes = (fault != starts).any(axis=0)
            assert (np.abs(wrong - expected[0][1]).max(axis=(0, 2))[lanes] > 1e-4).all()


@pytest.mark.parametrize("name", MODELS)
def test_nothing_of_an_abnormal_episode_is_left_after_a_restart(name):
    model, x = MODELS[name], jnp.ones((7, LANES, INPUTS))
    params = model.init(jax.random.key(0), model.start(LANES), x, jnp.zeros((7, LANES), bool))
    nan = jax.tree.map(lambda leaf: jnp.full_like(leaf, True if leaf.dtype == bool else jnp.nan), model.start(LANES))

    def total(params, memory):
        return jnp.sum(model.apply(params, memory, x, jnp.zeros((7, LANES), bool).at[0].set(True))[1])

    found, expected = (jax.value_and_grad(total)(params, memory) for memory in (nan, model.start(LANES)))
    for a, b in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("gtrxl")])
def test_a_nan_ends_at_a_restart_inside_a_call(name):
    model, x = MODELS[name], jnp.ones((7, LANES, INPUTS)).at[2].set(jnp.nan)
    starts = jnp.zeros((7, LANES), bool).at[4].set(True)
    params = model.init(jax.random.key(0), model.start(LANES), x, starts)
    _, found = model.apply(params, model.start(LANES), x, starts)
    np.testing.assert_array_equal(np.isnan(found).any(axis=(1, 2)), [0, 0, 1, 1, 0, 0, 0])


# --- the GRU ---------------------------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_a_gru_restarts_every_lane_by_its_mask_as_in_a_loop_over_rows_and_lanes():
    width, steps, lanes, inputs = 3, 6, 4, 2
    keys = jax.random.split(jax.random.key(0), 4)
    x, memory = jax.random.normal(keys[0], (steps, lanes, inputs)), jax.random.normal(keys[1], (lanes, width))
    starts = jax.random.bernoulli(keys[2], 0.3, (steps, lanes))
    assert starts[0].any()
    assert starts[1:].any()
    gru = GRU(width)
    params = gru.init(keys[3], memory, x, starts)
    params = jax.tree.map(lambda p: p + 0.1, params)  # biases that are not 0
    last, out = gru.apply(params, memory, x, starts)

    p = jax.tree.map(np.asarray, params["params"])
    expected = np.zeros((steps, lanes, width))
    for lane in range(lanes):
        h = np.asarray(memory[lane])
        for t in range(steps):
            h = np.zeros(width) if starts[t, lane] else h
            gates = np.asarray(x[t, lane]) @ p["Dense_0"]["kernel"] + p["Dense_0"]["bias"]
            of_reset, of_update, of_new = np.split(gates, 3)
            reset, update = sigmoid(of_reset + h @ p["reset"]), sigmoid(of_update + h @ p["update"])
            new = np.tanh(of_new + reset * (h @ p["new"] + p["bias"]))
            h = (1 - update) * new + update * h
            expected[t, lane] = h
    np.testing.assert_allclose(out, expected, atol=1e-5)
    np.testing.assert_array_equal(last, out[-1])
    unmasked = gru.apply(params, memory, x, jnp.zeros_like(starts))[1]
    assert np.abs(out - unmasked).max() > 0.05


def test_a_new_gru_has_a_gradient_of_what_it_saw_40_rows_before():
    gru, memory = GRU(64), jnp.zeros((1, 64))
    starts = jnp.zeros((40, 1), bool)
    params = gru.init(jax.random.key(0), memory, jnp.zeros((40, 1, 2)), starts)

    def last(first):
        x = jnp.zeros((40, 1, 2)).at[0, 0].set(first)
        return gru.apply(params, memory, x, starts)[0]

    assert np.abs(jax.jacobian(last)(jnp.zeros(2))).max() > 1e-4  # with biases of 0 it is below 1e-6


# --- the LSTM --------------------------------------------------------------------------------------------------------


def test_an_lstm_and_its_gradients_equal_those_of_a_loop_over_the_rows():
    width, steps, lanes, inputs = 3, 6, 4, 2
    keys = jax.random.split(jax.random.key(0), 6)
    x, memory = jax.random.normal(keys[0], (steps, lanes, inputs)), jax.random.normal(keys[1], (lanes, 2 * width))
    starts = jax.random.bernoulli(keys[2], 0.3, (steps, lanes))
    assert starts[0].any()
    assert starts[1:].any()
    lstm = LSTM(width)
    params = jax.tree.map(lambda p: p + 0.1, lstm.init(keys[3], memory, x, starts))  # biases that are not 0

    def loop(params, memory, x):
        kernel, outputs = params["params"]["kernel"], []
        output, cell = memory[:, :width], memory[:, width:]
        for t in range(steps):
            output, cell = (jnp.where(starts[t][:, None], 0, part) for part in (output, cell))
            read = jnp.concatenate([x[t], jnp.ones((lanes, 1)), output], axis=-1)
            write, keep, show, new = jnp.split(read @ kernel, 4, axis=-1)
            cell = jax.nn.sigmoid(keep) * cell + jax.nn.sigmoid(write) * jnp.tanh(new)
            output = jax.nn.sigmoid(show) * jnp.tanh(cell)
            outputs.append(output)
        return jnp.concatenate([output, cell], axis=-1), jnp.stack(outputs)

    weights = jax.random.normal(keys[4], (lanes, 2 * width)), jax.random.normal(keys[5], (steps, lanes, width))

    def total(run):
        return lambda *arguments: sum(jnp.sum(w * y) for w, y in zip(weights, run(*arguments), strict=True))

    ours = lambda params, memory, x: lstm.apply(params, memory, x, starts)  # noqa: E731
    for found, expected in zip(ours(params, memory, x), loop(params, memory, x), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    gradients = [jax.grad(total(run), (0, 1, 2))(params, memory, x) for run in (ours, loop)]
    for found, expected in zip(*map(jax.tree.leaves, gradients), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


# --- the minGRU ------------------------------------------------------------------------------------------------------


def test_a_min_gru_is_a_weighted_mean_of_what_its_inputs_propose():
    width, steps, lanes, inputs = 3, 6, 4, 2
    keys = jax.random.split(jax.random.key(0), 4)
    x, memory = jax.random.normal(keys[0], (steps, lanes, inputs)), jax.random.normal(keys[1], (lanes, 1, width))
    starts = jax.random.bernoulli(keys[2], 0.3, (steps, lanes))
    gru = MinGRU(width)
    params = jax.tree.map(lambda p: p + 0.1, gru.init(keys[3], memory, x, starts))
    last, out = gru.apply(params, memory, x, starts)

    p = jax.tree.map(np.asarray, params["params"])["Dense_0"]
    for lane in range(lanes):
        h = np.asarray(memory[lane, 0])
        for t in range(steps):
            h = np.zeros(width) if starts[t, lane] else h
            gate, new = np.split(np.asarray(x[t, lane]) @ p["kernel"] + p["bias"], 2)
            h = sigmoid(gate) * h + (1 - sigmoid(gate)) * new
            np.testing.assert_allclose(out[t, lane], h, atol=1e-5)
    np.testing.assert_array_equal(last[:, 0], out[-1])


def test_a_min_gru_of_10000_rows_stays_finite_where_its_gates_are_open_or_shut():
    gru, starts = MinGRU(2), jnp.zeros((10_000, 1), bool)
    x = jnp.where(jnp.arange(10_000)[:, None, None] % 3000 < 1500, 100.0, -100.0) * jnp.array([1.0, -1.0])
    params = gru.init(jax.random.key(0), gru.start(1), x, starts)

    def total(params):
        return jnp.sum(gru.apply(params, gru.start(1), x, starts)[1])

    value, gradient = jax.value_and_grad(total)(params)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((value, gradient)))


# --- the GTrXL -------------------------------------------------------------------------------------------------------


def test_a_gtrxl_equals_a_loop_over_the_rows_of_its_paper():
    width, heads, window, steps = 6, 2, 3, 8
    model = GTrXL(width, num_heads=heads, window=window)
    x = np.asarray(jax.random.normal(jax.random.key(0), (steps, 1, width)))
    starts = np.zeros((steps, 1), bool)
    starts[2] = True
    params = model.init(jax.random.key(1), model.start(1), x, starts)
    keys = iter(jax.random.split(jax.random.key(2), 100))
    params = jax.tree.map(lambda p: p + 0.3 * jax.random.normal(next(keys), p.shape), params)
    _, out = model.apply(params, model.start(1), x, starts)

    p = jax.tree.map(np.asarray, params["params"])
    attention = p["_Attention_0"]
    to_query, to_key, to_value, to_distance, to_out = (attention[f"Dense_{i}"]["kernel"] for i in range(5))

    def norm(x, number):
        scale = p[f"LayerNorm_{number}"]
        return (x - x.mean()) / np.sqrt(x.var() + 1e-6) * scale["scale"] + scale["bias"]

    def gate(x, y, number):
        g = p[f"_Gate_{number}"]
        (reset_x, update_x), (reset_y, update_y, new_y) = (np.split(v @ g[f"Dense_{i}"]["kernel"], n)
                                                           for v, i, n in ((x, 0, 2), (y, 1, 3)))  # fmt: skip
        reset, update = sigmoid(reset_x + reset_y), sigmoid(update_x + update_y - g["bias"])
        return (1 - update) * x + update * np.tanh(new_y + (reset * x) @ g["Dense_2"]["kernel"])

    def layer(x, number):
        return x @ p[f"Dense_{number}"]["kernel"] + p[f"Dense_{number}"]["bias"]

    for t in range(steps):
        seen = range(max(0 if t < 2 else 2, t - window), t + 1)
        mixed = []
        for head in range(heads):
            part = slice(head * width // heads, (head + 1) * width // heads)
            query, scores = (norm(x[t, 0], 0) @ to_query)[part], []
            for s in seen:
                frequencies = 10_000 ** (-np.arange(0, width, 2) / width)
                position = np.concatenate([np.sin((t - s) * frequencies), np.cos((t - s) * frequencies)])
                key, distance = (norm(x[s, 0], 0) @ to_key)[part], (position @ to_distance)[part]
                biases = attention["bias_of_key"][head], attention["bias_of_distance"][head]
                scores.append(((query + biases[0]) @ key + (query + biases[1]) @ distance) / np.sqrt(width / heads))
            share = np.exp(scores) / np.exp(scores).sum()
            mixed.append(sum(w * (norm(x[s, 0], 0) @ to_value)[part] for w, s in zip(share, seen, strict=True)))
        row = gate(x[t, 0], np.maximum(np.concatenate(mixed) @ to_out, 0), 0)
        row = gate(row, np.maximum(layer(np.maximum(layer(norm(row, 1), 0), 0), 1), 0), 1)
        np.testing.assert_allclose(out[t, 0], row, atol=1e-4)


def test_the_gates_of_a_new_gtrxl_have_the_bias_of_the_paper():
    model, x, starts = GTrXL(8, num_heads=2, window=4), jnp.ones((6, 1, 8)), jnp.zeros((6, 1), bool)
    params = model.init(jax.random.key(0), model.start(1), x, starts)
    assert params["params"]["_Gate_0"]["bias"].tolist() == [2.0] * 8
