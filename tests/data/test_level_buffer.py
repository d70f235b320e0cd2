"""LevelBuffer: places, duplicates and probabilities equal a model in plain Python; jaxued's weights; errors."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import data, tree
from jaxenv.data import LevelBuffer
from jaxenv.data.level_scores import LevelScores
from tests.data.level_model import Model


@tree.struct
class Level:
    walls: jax.Array  # bool[K, 2, 3]
    wind: jax.Array  # float32[K]
    start: jax.Array  # int8[K]


def numbered(numbers):
    """Distinct levels by number."""
    n = np.asarray(numbers, np.int64)
    walls = (n[:, None] >> np.arange(6)) & 1
    return Level(walls.reshape(-1, 2, 3).astype(bool), (n // 64).astype(np.float32), (n % 3).astype(np.int8))


def as_bytes(levels):
    return [b"".join(np.asarray(x)[i].tobytes() for x in jax.tree.leaves(levels)) for i in range(len(levels.wind))]


def assert_same(state, model):
    size = model.size
    assert int(state.size) == size
    assert int(state.time) == model.time
    used = model.places[:size]
    assert as_bytes(state.levels)[:size] == [place["level"] for place in used]
    assert state.scores[:size].tolist() == [place["score"] for place in used]
    assert np.all(state.scores[size:] == -np.inf)
    assert state.notes[:size].tolist() == [place["note"] for place in used]
    assert state.last_used[:size].tolist() == [place["time"] for place in used]


@pytest.mark.parametrize(("capacity", "num_levels"), [(1, 3), (8, 3), (8, 8), (5, 12)])
def test_random_calls_leave_what_a_model_in_plain_python_holds(capacity, num_levels):
    rng = np.random.default_rng(capacity)
    buffer, model = LevelBuffer(capacity), Model(capacity)
    insert, update, sample = jax.jit(buffer.insert), jax.jit(buffer.update), jax.jit(buffer.sample, static_argnums=2)
    state = buffer.init(numbered([0]), jnp.zeros(1, jnp.int32))
    for step in range(60):
        scores = rng.integers(-4, 5, num_levels).astype(np.float32) * 27720  # with ties; means of up to 12 are exact
        scores[rng.random(num_levels) < 0.1] = np.nan
        mask, notes = rng.random(num_levels) < 0.8, rng.integers(0, 100, num_levels, np.int32)
        if step % 3 == 0:
            levels = numbered(rng.integers(0, 3 * capacity, num_levels))  # with duplicates
            state = insert(state, levels, scores, mask, notes)
            model.insert(as_bytes(levels), scores.tolist(), mask, notes.tolist())
        elif step % 3 == 1 and model.size:
            state, drawn = sample(state, jax.random.key(step), num_levels)
            model.use(drawn.place.tolist())
            assert as_bytes(drawn.levels) == [model.places[place]["level"] for place in drawn.place.tolist()]
        else:
            places = rng.integers(-1, capacity + 1, num_levels, np.int32)
            state = update(state, places, scores, mask, notes)
            model.update(places.tolist(), scores.tolist(), mask, notes.tolist())
        assert_same(state, model)
    assert model.size == capacity


@pytest.mark.parametrize("call", ["insert", "update"])
def test_a_level_that_several_lanes_play_gets_the_mean_score_and_the_greatest_notes_of_those_that_count(call):
    buffer, played = LevelBuffer(4), np.array([7, 5, 7, 7, 6, 7])
    scores = jnp.array([0.5, 0.25, 2.0, 9.0, 0.125, 1.25])
    notes = {"best": jnp.array([0.5, 0.1, 0.9, 4.0, -1, 0.2]), "solved": jnp.array([0, 0, 1, 1, 0, 0], bool)}
    notes["pair"] = jnp.array([[1, 8], [0, 0], [5, 3], [9, 9], [0, 0], [2, 2]])
    mask = np.array([True, True, True, False, True, True])
    state = buffer.init(numbered([0]), jax.tree.map(lambda x: x[:1], notes))
    if call == "insert":
        state = buffer.insert(state, numbered(played), scores, mask, notes)
    else:
        old = {"best": jnp.full(3, 2.0), "solved": jnp.ones(3, bool), "pair": jnp.full((3, 2), 7)}
        state = buffer.insert(state, numbered([5, 6, 7]), jnp.array([3.0, 2.0, 1.0]), None, old)
        state = buffer.update(state, played - 5, scores, mask, notes)
    assert int(state.size) == 3
    at = as_numbers(state).index(7)
    assert float(state.scores[at]) == 1.25
    assert jax.tree.map(lambda x: x[at].tolist(), state.notes) == {
        "best": np.float32(0.9).item(),
        "solved": True,
        "pair": [5, 8],
    }


def test_a_stored_level_that_is_inserted_again_keeps_its_greater_note():
    buffer = LevelBuffer(4)
    state = buffer.insert(buffer.init(numbered([0]), jnp.zeros(1)), numbered([1, 2]), jnp.ones(2), None, jnp.ones(2))
    state = buffer.insert(state, numbered([2, 1]), jnp.array([0.25, 0.5]), None, jnp.array([0.5, 3.0]))
    stored = zip(as_numbers(state)[:2], state.scores.tolist(), state.notes.tolist(), strict=False)
    assert sorted(stored) == [(1, 0.5, 3.0), (2, 0.25, 1.0)]


def test_the_best_levels_of_a_long_stream_remain():
    scores = np.random.default_rng(0).permutation(300).astype(np.float32)
    levels = numbered(np.arange(300))
    buffer = LevelBuffer(40)

    def insert(state, batch):
        return buffer.insert(state, *batch), None

    batches = jax.tree.map(lambda x: x.reshape(30, 10, *x.shape[1:]), (levels, scores))
    state, _ = jax.jit(lambda: jax.lax.scan(insert, buffer.init(numbered([0])), batches))()
    assert sorted(state.scores.tolist()) == list(range(260, 300))
    assert sorted(as_bytes(state.levels)) == sorted(as_bytes(tree.gather(levels, np.argsort(scores)[260:])))


def test_negative_zero_and_nan_in_a_level_are_told_apart_by_their_bits():
    buffer = LevelBuffer(4)
    levels = jnp.array([0.0, -0.0, np.nan, np.nan])
    state = buffer.insert(buffer.init(levels), levels, jnp.arange(4.0))
    assert int(state.size) == 3
    assert sorted(state.scores[:3].tolist()) == [0, 1, 2.5]


def test_levels_with_the_same_hash_are_compared():
    # The hashes in the state are set to those of another level.
    buffer = LevelBuffer(4)
    state = buffer.insert(buffer.init(numbered([0])), numbered([1, 2]), jnp.array([0.2, 0.1]))
    state = dataclasses.replace(state, hashes=state.hashes[jnp.array([1, 1, 2, 3])])
    state = buffer.insert(state, numbered([2]), jnp.array([0.3]))
    assert as_bytes(state.levels)[:3] == as_bytes(numbered([1, 2, 2]))
    assert state.scores[:3].tolist() == np.array([0.2, 0.1, 0.3], np.float32).tolist()


# --- sampling --------------------------------------------------------------------------------------------------------


def filled(buffer, scores, last_used, time):
    state = buffer.insert(buffer.init(numbered([0])), numbered(np.arange(len(scores))), jnp.array(scores, jnp.float32))
    order = jnp.argsort(jnp.asarray(as_numbers(state))[: len(scores)])
    return dataclasses.replace(
        state,
        levels=jax.tree.map(lambda x: x.at[: len(scores)].set(x[order]), state.levels),
        scores=state.scores.at[: len(scores)].set(jnp.array(scores, jnp.float32)),
        last_used=state.last_used.at[: len(scores)].set(jnp.array(last_used, jnp.int32)),
        time=jnp.int32(time),
    )


def as_numbers(state):
    return [as_bytes(numbered(np.arange(300))).index(x) for x in as_bytes(state.levels)]


# Computed by jaxued's LevelSampler.level_weights (commit of 2025, version 0.0.5) for these scores and times.
JAXUED = {
    (0.3, 0.3): [0.11657345, 0.6143508, 0.10831974, 0.15788183, 0.0028742, 0.0],
    (1.0, 0.5): [0.23895505, 0.2189781, 0.18843642, 0.3098348, 0.04379562, 0.0],
}


@pytest.mark.parametrize(("temperature", "staleness"), JAXUED)
def test_weights_by_rank_equal_those_of_jaxued(temperature, staleness):
    buffer = LevelBuffer(6, temperature=temperature, staleness=staleness)
    state = filled(buffer, [0.2, 0.9, 0.5, 0.5, -0.1], [3, 10, 7, 1, 10], time=10)
    np.testing.assert_allclose(buffer.weights(state), JAXUED[temperature, staleness], rtol=2e-6)


@pytest.mark.parametrize("prioritization", ["rank", "proportional"])
@pytest.mark.parametrize(("temperature", "staleness"), [(0.3, 0.3), (1.0, 0.0), (2.0, 1.0), (0.1, 0.5)])
def test_weights_equal_the_formulas(prioritization, temperature, staleness):
    rng = np.random.default_rng(0)
    buffer = LevelBuffer(12, prioritization, temperature, staleness)
    for scores in (rng.normal(size=9), rng.integers(0, 3, 9), np.zeros(9), -np.ones(12)):
        times = rng.integers(0, 20, len(scores))
        model = Model(12)
        model.time = 20
        for place, (score, time) in enumerate(zip(np.float32(scores).tolist(), times.tolist(), strict=True)):
            model.places[place] = {"score": score, "time": time}
        weights = buffer.weights(filled(buffer, scores, times, 20))
        np.testing.assert_allclose(weights, model.weights(prioritization, temperature, staleness), rtol=1e-5, atol=1e-7)


def test_a_level_is_drawn_as_often_as_its_weight_says_rounded_down_or_up():
    buffer = LevelBuffer(50, "proportional", temperature=1.0, staleness=0.2)
    rng = np.random.default_rng(1)
    state = filled(buffer, rng.random(40), rng.integers(0, 9, 40), 9)
    expected = 200 * np.asarray(buffer.weights(state))
    draw = jax.jit(jax.vmap(lambda key: buffer.sample(state, key, 200)[1].place))
    places = np.asarray(draw(jax.random.split(jax.random.key(0), 500)))
    counts = np.stack([np.bincount(x, minlength=50) for x in places])
    assert np.all(counts[:, 40:] == 0)
    assert np.all(np.abs(counts - expected) < 1 + 1e-3)
    np.testing.assert_allclose(counts.mean(axis=0), expected, atol=0.1)


def test_sampled_levels_are_no_longer_stale():
    buffer = LevelBuffer(4, staleness=1.0)
    state = buffer.insert(buffer.init(numbered([0])), numbered([1, 2]), jnp.array([2.0, 1.0]))
    state = buffer.insert(state, numbered([3]), jnp.array([3.0]))
    np.testing.assert_allclose(buffer.weights(state), [0.5, 0.5, 0, 0])
    state, sample = buffer.sample(state, jax.random.key(0), 1)
    used = int(sample.place[0])
    assert float(buffer.weights(state)[used]) == 0
    assert int(state.last_used[used]) == int(state.time) == 3


def test_seeds_under_vmap_have_their_own_buffers():
    buffer = LevelBuffer(3)

    def run(key):
        scores = jax.random.normal(key, (5,))
        state = buffer.insert(buffer.init(numbered([0])), numbered(np.arange(5)), scores)
        return buffer.sample(state, key, 4)

    keys = jax.random.split(jax.random.key(0), 3)
    together = jax.jit(jax.vmap(run))(keys)
    for i, key in enumerate(keys):
        alone = jax.jit(run)(key)
        assert jax.tree.all(jax.tree.map(lambda x, y, i=i: np.array_equal(x[i], y), together, alone))


def test_a_saved_buffer_continues_bit_for_bit(tmp_path):
    buffer = LevelBuffer(6)

    def call(state, number):
        levels, scores = numbered(np.arange(4) + number), jnp.arange(4.0) * (-1) ** number
        state, sample = buffer.sample(buffer.insert(state, levels, scores), jax.random.key(number), 3)
        return buffer.update(state, sample.place, jnp.sin(sample.levels.wind + number))

    state = buffer.init(numbered([0]))
    for number in range(4):
        state = call(state, number)
        if number == 1:
            data.save(tmp_path / "levels", state)
    restored = data.restore(tmp_path / "levels", buffer.init(numbered([0])))
    for number in (2, 3):
        restored = call(restored, number)
    assert jax.tree.all(jax.tree.map(np.array_equal, state, restored))


# --- errors ----------------------------------------------------------------------------------------------------------

buffer = LevelBuffer(4)
empty = buffer.init(numbered([0]))
state = buffer.insert(empty, numbered([1, 2]), jnp.array([2.0, 1.0]))
two = numbered([3, 4])
CALLS = {
    "scores and flags": (
        lambda: buffer.insert(state, two, LevelScores(jnp.ones(2), jnp.ones(2, bool))),
        "LevelBuffer.insert: scores .*got a LevelScores",
    ),
    "no capacity": (lambda: LevelBuffer(0), "LevelBuffer: capacity .*got 0"),
    "other prioritization": (lambda: LevelBuffer(4, "topk"), "LevelBuffer: prioritization .*got 'topk'"),
    "temperature": (lambda: LevelBuffer(4, temperature=0), "LevelBuffer: temperature .*got 0"),
    "staleness": (lambda: LevelBuffer(4, staleness=1.5), r"LevelBuffer: staleness .*\[0, 1\].*got 1.5"),
    "no leaf": (lambda: buffer.init({}), "LevelBuffer.init: .*got none"),
    "one level": (lambda: buffer.init(jnp.zeros(())), r"LevelBuffer.init: .*got levels \[\]"),
    "key": (lambda: buffer.init(jax.random.split(jax.random.key(0))), "LevelBuffer.init: levels .*got key"),
    "two numbers of levels": (
        lambda: buffer.init({"a": jnp.zeros(2), "b": jnp.zeros(3)}),
        r"LevelBuffer.init: .*levels.a \[2\], levels.b \[3\]",
    ),
    "other structure": (lambda: buffer.insert(state, two.walls, np.zeros(2)), "LevelBuffer.insert: levels must be"),
    "other shape": (
        lambda: buffer.insert(state, dataclasses.replace(two, walls=np.zeros((2, 3, 2), bool)), np.zeros(2)),
        r"LevelBuffer.insert: levels.walls must be bool\[2, 2, 3\], got bool\[2, 3, 2\]",
    ),
    "other dtype": (
        lambda: buffer.insert(state, dataclasses.replace(two, wind=np.zeros(2, np.int32)), np.zeros(2)),
        r"LevelBuffer.insert: levels.wind must be float32\[2\], got int32\[2\]",
    ),
    "other number": (
        lambda: buffer.insert(state, two, np.zeros(3)),
        r"LevelBuffer.insert: levels.walls must be bool\[3.* got bool\[2",
    ),
    "notes": (
        lambda: buffer.insert(state, two, np.zeros(2), notes=np.zeros(2)),
        "LevelBuffer.insert: notes must be an empty tuple",
    ),
    "matrix of scores": (lambda: buffer.insert(state, two, np.zeros((2, 1))), "LevelBuffer.insert: scores .*(2, 1)"),
    "score": (lambda: buffer.insert(state, two, [0.0, np.nan]), "LevelBuffer.insert: scores .*finite, got nan"),
    "infinite score": (
        lambda: buffer.update(state, np.array([0, 1]), np.array([0.0, -np.inf])),
        "LevelBuffer.update: scores .*finite, got -inf",
    ),
    "mask": (lambda: buffer.insert(state, two, np.zeros(2), [1, 0]), "LevelBuffer.insert: mask .*bool"),
    "empty": (lambda: buffer.sample(empty, jax.random.key(0), 2), "LevelBuffer.sample: .*empty"),
    "update of nothing": (lambda: buffer.update(empty, np.array([0]), np.zeros(1)), "LevelBuffer.update: .*empty"),
    "empty place": (
        lambda: buffer.update(state, np.array([0, 2]), np.zeros(2)),
        r"LevelBuffer.update: place .*\[0, 1\], got 2",
    ),
    "place of floats": (lambda: buffer.get(state, np.zeros(2)), r"LevelBuffer.get: place .*got float32\[2\]"),
    "one place": (lambda: buffer.get(state, 1), "LevelBuffer.get: place .*got"),
    "two keys": (
        lambda: buffer.sample(state, jax.random.split(jax.random.key(0)), 2),
        "LevelBuffer.sample: key .*",
    ),
    "no level to sample": (
        lambda: buffer.sample(state, jax.random.key(0), 0),
        "LevelBuffer.sample: num_levels .*got 0",
    ),
    "rows for a state": (lambda: buffer.weights(two), "LevelBuffer.weights: state .*got Level"),
    "other capacity": (lambda: LevelBuffer(5).weights(state), r"LevelBuffer.weights: state .*5.*\(4,\)"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_refused(name):
    call, message = CALLS[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_scores_that_do_not_count_may_be_infinite():
    after = buffer.insert(state, two, np.array([np.inf, 5.0]), np.array([False, True]))
    assert after.scores[:3].tolist() == [2, 1, 5]
    assert buffer.update(state, np.array([9, 1]), np.array([np.nan, 5.0]), np.array([False, True])).scores[1] == 5


def test_no_levels_are_inserted_by_an_empty_call():
    after = buffer.insert(state, numbered([]), np.zeros(0))
    assert int(after.size) == 2
