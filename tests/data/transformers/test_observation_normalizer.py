"""ObservationNormalizer: its statistics, when they are updated, and what it shows."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv.core.timestep import TimeStep
from jaxenv.data.transformers import ObservationNormalizer
from tests.data.transformers.sensors import row, sensors, unrolled, windows

FLOATS = ("place", "grid")


def first_row():
    return jax.tree.map(lambda x: x[0], unrolled()[0].timestep)


@functools.cache
def normalized(mode, update="rollout", **options):
    """The state after every row, and the normalised observations, of a rollout of all rows."""
    transformer = ObservationNormalizer(mode, update, epsilon=0.0, window=4, rate=0.3, **options)

    @jax.jit
    def run(rows):
        def one(state, timestep):
            state, timestep = transformer.transform_timestep(state, timestep)
            return state, (state, timestep.observation)

        return jax.lax.scan(one, transformer.init(jax.tree.map(lambda x: x[0], rows)), rows)[1]

    return jax.device_get(run(unrolled()[0].timestep))


def weights(mode, updates):
    """The weights of updates of 3 rows, by the definition of the mode."""
    t = np.arange(updates)
    if mode == "window":
        w = (t >= updates - 4).astype(float)
    else:
        w = 0.7 ** (updates - 1 - t) if mode == "exponential" else np.ones(updates)
    return w / w.sum()


@pytest.mark.parametrize("mode", ["adaptive", "window", "exponential"])
def test_a_row_is_normalised_by_the_statistics_up_to_and_including_it(mode):
    raw = unrolled()[0].timestep.observation
    states, result = normalized(mode)
    for t in (0, 1, 3, 4, 10, 23):
        w = weights(mode, t + 1)[:, None]
        for name in FLOATS:
            x = raw[name][: t + 1].astype(np.float64)
            mean = np.sum(w * x.mean(axis=1).reshape(t + 1, -1), axis=0).reshape(x.shape[2:])
            square = np.sum(w * (x**2).mean(axis=1).reshape(t + 1, -1), axis=0).reshape(x.shape[2:])
            deviation = np.sqrt(square - mean**2)
            np.testing.assert_allclose(states.value[name].moments.mean[t], mean, rtol=1e-5)
            if t:
                np.testing.assert_allclose(result[name][t], (x[t] - mean) / deviation, rtol=2e-4, atol=1e-5)
    for name in ("count", "camera"):
        np.testing.assert_array_equal(result[name], raw[name])


@pytest.mark.parametrize(("mode", "count"), [("adaptive", 72), ("window", 12), ("exponential", 72)])
def test_every_row_is_counted_once_while_it_is_in_the_window(mode, count):
    states, _ = normalized(mode)
    assert int(states.value["place"].moments.count.low[-1]) == count


@pytest.mark.parametrize("update", ["replay", "never"])
def test_a_rollout_updates_nothing_unless_update_is_rollout(update):
    states, result = normalized("adaptive", update)
    assert not states.value["place"].moments.count.low.any()
    np.testing.assert_array_equal(result["place"], unrolled()[0].timestep.observation["place"])


@pytest.mark.parametrize("update", ["rollout", "replay", "never"])
def test_replayed_windows_update_statistics_only_if_update_is_replay(update):
    transformer = ObservationNormalizer(update="rollout", fields=("place",), epsilon=0.0)
    start = transformer.init(first_row())
    rows = unrolled()[0].timestep
    state_before, _ = transformer.transform_timestep(start, jax.tree.map(lambda x: jnp.asarray(x[5]), rows))
    batch = windows(unrolled()[0], [0, 2, 1], [3, 8, 8], 2)
    state, result = jax.jit(dataclasses.replace(transformer, update=update).transform_batch)(state_before, batch)
    seen = rows.observation["place"][5].reshape(-1, 2)
    raw = np.asarray(batch.experience.timestep.observation["place"])
    if update == "replay":
        seen = np.concatenate([seen, raw.reshape(-1, 2)])
    assert int(transformer.statistics(state)["place"].count) == len(seen)
    expected = (raw - seen.mean(axis=0)) / seen.std(axis=0)
    np.testing.assert_allclose(result.experience.timestep.observation["place"], expected, rtol=1e-5)


def test_frozen_statistics_and_their_structure_do_not_change():
    transformer = ObservationNormalizer("window", window=2)
    timestep = jax.tree.map(jnp.asarray, first_row())
    start = transformer.init(timestep)
    state, _ = transformer.frozen().transform_timestep(start, timestep)
    assert jax.tree.all(jax.tree.map(lambda a, b: a is b, state, start))
    assert transformer.frozen() == ObservationNormalizer("window", "never", window=2)


@pytest.mark.parametrize("mode", ["adaptive", "window", "exponential"])
def test_rows_that_are_not_finite_never_enter_the_statistics(mode):
    transformer = ObservationNormalizer(mode, window=2, rate=0.5)
    step = jax.jit(lambda state, x: transformer.transform_timestep(state, row(observation=x)))
    good, mixed, bad = (
        jnp.array(x, jnp.float32) for x in ([[1], [2], [6]], [[3], [np.nan], [5]], [[np.inf], [np.nan], [-1e16]])
    )
    state, _ = step(transformer.init(row(observation=good)), good)
    assert float(transformer.statistics(state).mean[0]) == pytest.approx(3)
    state, _ = step(state, mixed)
    mean = {"adaptive": 17 / 5, "window": 17 / 5, "exponential": (0.25 * 3 + 0.5 * 4) / 0.75}[mode]
    assert float(transformer.statistics(state).mean[0]) == pytest.approx(mean)
    after, result = step(state, bad)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool(jnp.array_equal(a, b)), after, state))
    assert np.isnan(result.observation[1, 0])


def test_a_large_common_offset_loses_no_precision():
    transformer = ObservationNormalizer("exponential", rate=0.01)
    noise = np.random.default_rng(0).normal(size=(50, 64, 1))
    rows = jnp.asarray((noise + 1e4).astype(np.float32))
    observed = row(step_type=np.ones(64, np.int32), reward=np.zeros(64), observation=rows[0])

    @jax.jit
    def run(state, rows):
        step_one = lambda state, x: transformer.transform_timestep(state, dataclasses.replace(observed, observation=x))  # noqa: E731
        return jax.lax.scan(step_one, state, rows)[0]

    result = transformer.statistics(run(transformer.init(observed), rows))
    assert float(result.variance[0]) == pytest.approx(1, rel=0.1)


def test_shards_have_common_statistics_only_with_a_mesh_axis():
    mesh = jax.make_mesh((1,), ("lanes",), axis_types=(jax.sharding.AxisType.Auto,))
    lanes = jax.sharding.PartitionSpec(None, "lanes")
    rows = TimeStep(
        step_type=jnp.ones((4, 2), jnp.int32), observation=jnp.arange(8, dtype=jnp.float32).reshape(4, 2), env_info={}
    )

    def run(rows, axis_name):
        transformer = ObservationNormalizer("window", window=2, axis_name=axis_name)
        start = transformer.init(jax.tree.map(lambda x: x[0], rows))
        return jax.lax.scan(transformer.transform_timestep, start, rows)[1].observation

    @jax.jit
    def all_ways(rows):
        sharded = lambda name: jax.shard_map(lambda x: run(x, name), mesh=mesh, in_specs=lanes, out_specs=lanes)(rows)  # noqa: E731
        return run(rows, None), sharded(None), sharded("lanes")

    plain, alone, together = all_ways(rows)
    np.testing.assert_allclose(alone, plain, rtol=1e-6)
    np.testing.assert_allclose(together, plain, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ObservationNormalizer("moving"), r"ObservationNormalizer: mode .*got 'moving'"),
        (lambda: ObservationNormalizer(update=True), r"update .*got True"),
        (lambda: ObservationNormalizer(clip=0), r"ObservationNormalizer: clip .*got 0"),
        (
            lambda: ObservationNormalizer(epsilon=-1),
            r"ObservationNormalizer: epsilon .*got -1",
        ),
        (lambda: ObservationNormalizer(window=0), r"window .*got 0"),
        (lambda: ObservationNormalizer(window=2.0), r"window .*got 2\.0"),
        (lambda: ObservationNormalizer(rate=0), r"ObservationNormalizer: rate .*got 0"),
        (lambda: ObservationNormalizer(fields=3), r"ObservationNormalizer: fields .*got 3"),
    ],
)
def test_an_invalid_argument_raises(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (ObservationNormalizer(fields=("speed",)), "ObservationNormalizer: field 'speed': no 'speed' here"),
        (ObservationNormalizer(fields=("camera",)), "ObservationNormalizer: camera must"),
    ],
)
def test_an_unknown_field_or_one_of_another_kind_raises(transformer, message):
    with pytest.raises(ValueError, match=message):
        transformer.transform_spec(sensors().time_step_spec())
    with pytest.raises(ValueError, match=message):
        transformer.transform_timestep(transformer.init(first_row()), first_row())
