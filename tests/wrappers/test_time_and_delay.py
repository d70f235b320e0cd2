"""TimeAwareObservation, DelayObservation and NoisyObservation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs
from jaxenv.testing import Counting, random_environment
from jaxenv.wrappers import AutoReset, DelayObservation, NoisyObservation, TimeAwareObservation
from tests.rows import assert_equal, random_actions, unrolled


class FromFive(Counting):
    """Counts from 5 within [3, 99]; every episode adds 10."""

    def observe(self, state):
        return 5 + super().observe(state)

    def observation_spec(self):
        return specs.Bounded((), np.int32, 3, 99, "observation")


def counting():
    """Three lanes; only the first one ends, after two steps."""
    return FromFive(np.array([[2], [9], [9]]), stride=10, num_envs=3)


def rows(env, num_steps):
    return unrolled(env, jnp.zeros((num_steps, env.num_envs), jnp.int32))


def floats(num_envs=2, **fields):
    spec = {"x": specs.Bounded((2,), np.float32, -1, 2), "n": specs.discrete(3, start=1), **fields}
    return random_environment(spec, specs.discrete(2), end_probability=0.3, num_envs=num_envs)


# --- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stack",
    [
        lambda e: AutoReset(TimeAwareObservation(e, flatten=False)),
        lambda e: TimeAwareObservation(AutoReset(e), flatten=False),
    ],
)
def test_time_is_0_at_first_and_counts_the_steps_of_each_lane(stack):
    shown = rows(stack(counting()), 6).observation
    assert shown["time"].T.tolist() == [[0, 1, 2, 0, 1, 2, 0], [0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]]
    assert shown["observation"][:, 0].tolist() == [5, 6, 7, 15, 16, 17, 25]


def test_same_step_time_belongs_to_the_observation_it_accompanies():
    r = rows(AutoReset(TimeAwareObservation(counting(), flatten=False), "same_step"), 5)
    final = r.env_info["final_observation"]
    assert r.observation["time"].T.tolist() == [[0, 1, 0, 1, 0, 1], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]
    assert final["time"].T.tolist() == [[0, 1, 2, 1, 2, 1], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]
    assert r.observation["observation"][:, 0].tolist() == [5, 6, 15, 16, 25, 26]


def test_normalised_time_is_a_fraction_of_max_steps_and_stays_there():
    env = TimeAwareObservation(Counting(np.array([0]), num_envs=1), 4, normalize=True)
    assert rows(env, 6).observation[:, 0].tolist() == [
        [0, 0], [1, 0.25], [2, 0.5], [3, 0.75], [4, 1], [5, 1], [6, 1]
    ]  # fmt: skip
    assert env.observation_spec() == specs.Bounded((2,), np.float32, [-(2**31), 0], [2**31, 1])
    hundredths = rows(TimeAwareObservation(counting(), 500, normalize=True), 1).observation
    assert hundredths[1, 0].tolist() == [6, np.float32(0.002)]


TIME = specs.Bounded((), np.int32, 0, 9)
ANY = specs.Bounded((2,), np.float32, -1, 2)


@pytest.mark.parametrize(
    ("inner", "arguments", "expected"),
    [
        ({"x": ANY}, {"flatten": False}, {"x": ANY, "time": TIME}),
        ({"x": ANY}, {"flatten": False, "key": "t"}, {"x": ANY, "t": TIME}),
        ((ANY, ANY), {"flatten": False}, (ANY, ANY, TIME)),
        (ANY, {"flatten": False}, {"observation": ANY, "time": TIME}),
        (ANY, {}, specs.Bounded((3,), np.float32, [-1, -1, 0], [2, 2, 9])),
        (
            {"y": specs.discrete(3, start=1), "x": specs.Array((1, 2), np.float32)},
            {},
            specs.Bounded((4,), np.float32, [-np.inf, -np.inf, 1, 0], [np.inf, np.inf, 3, 9]),
        ),
        (
            {"byte": specs.Array((), np.uint8), "flag": specs.Array((), np.bool_)},
            {},
            specs.Bounded((3,), np.float32, 0, [255, 1, 9]),
        ),
    ],
)
def test_time_joins_dicts_tuples_and_arrays(inner, arguments, expected):
    env = TimeAwareObservation(random_environment(inner, specs.discrete(2)), 9, **arguments)
    assert env.observation_spec() == expected
    specs.validate(env.observation_spec(), unrolled(env, jnp.zeros((1, 1), jnp.int32)).observation, (2, 1))


# --- delay -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stack", [lambda e: AutoReset(DelayObservation(e, 2)), lambda e: DelayObservation(AutoReset(e), 2)]
)
def test_a_delay_shows_blank_values_and_then_past_observations(stack):
    r = rows(stack(counting()), 6)
    assert r.observation.T.tolist() == [[3, 3, 5, 3, 3, 15, 3], [3, 3, 5, 6, 7, 8, 9], [3, 3, 5, 6, 7, 8, 9]]
    assert r.step_type[:, 0].tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_the_same_step_final_observation_is_delayed_as_well():
    r = rows(AutoReset(DelayObservation(counting(), 2), "same_step"), 5)
    assert r.observation.T.tolist() == [[3, 3, 3, 3, 3, 3], [3, 3, 5, 6, 7, 8], [3, 3, 5, 6, 7, 8]]
    assert r.env_info["final_observation"][:, 0].tolist() == [3, 3, 5, 3, 15, 3]


def test_a_delay_of_zero_changes_and_carries_nothing():
    env, actions = floats(), random_actions(floats(), 4)
    assert_equal(unrolled(DelayObservation(env, 0), actions), unrolled(env, actions))
    state, _ = jax.eval_shape(DelayObservation(env, 0).reset, jax.random.key(0))
    assert state.own == ()


def test_the_blank_value_is_the_valid_value_closest_to_zero():
    spec = specs.Bounded((4,), np.float32, [-1, 2, -np.inf, -5], [1, 5, np.inf, -2])
    assert specs.nearest_zero(spec).tolist() == [0, 2, 0, -2]
    assert specs.nearest_zero(specs.Bounded((), np.uint8, 3, 9)) == 3
    assert specs.nearest_zero(specs.Array((2,), np.int32)).tolist() == [0, 0]


# --- noise -----------------------------------------------------------------------------------------------------------


def test_noise_is_gaussian_of_the_given_scale_and_independent():
    """Bounds of 5 standard errors on 10,000 lanes."""
    base = floats(num_envs=10_000, y=specs.Bounded((2,), np.float32, 0, 1))
    scale = np.repeat(np.float32([0.5, 2]), 5_000)
    actions = jnp.zeros((1, 10_000), jnp.int32)
    raw, noisy = unrolled(base, actions), unrolled(NoisyObservation(base, scale), actions)
    np.testing.assert_array_equal(raw.observation["n"], noisy.observation["n"])
    noise = [(noisy.observation[name] - raw.observation[name]) / scale[None, :, None] for name in ("x", "y")]
    columns = np.concatenate(noise).transpose(0, 2, 1).reshape(8, 10_000)  # two rows, one of them FIRST, of each part
    assert (np.abs(columns.mean(1)) < 5 / np.sqrt(10_000)).all()
    assert (np.abs(columns.std(1) - 1) < 5 / np.sqrt(20_000)).all()
    assert (np.abs((columns**3).mean(1)) < 5 * np.sqrt(15 / 10_000)).all()
    assert (np.abs((columns**4).mean(1) - 3) < 5 * np.sqrt(96 / 10_000)).all()
    between_columns = np.corrcoef(columns) - np.eye(8)
    assert (np.abs(between_columns) < 5 / np.sqrt(10_000)).all()
    assert abs(np.corrcoef(columns[0, :-1], columns[0, 1:])[0, 1]) < 5 / np.sqrt(10_000)


def test_noise_is_added_to_named_fields_only_and_removes_their_bounds():
    env = floats(y=specs.Bounded((), np.float32, 0, 1))
    noisy, actions = NoisyObservation(env, 1.0, fields=("y",)), random_actions(env, 3)
    spec = {**env.observation_spec(), "y": specs.Array((), np.float32)}
    assert noisy.observation_spec() == spec
    raw, shown = unrolled(env, actions).observation, unrolled(noisy, actions).observation
    np.testing.assert_array_equal(raw["x"], shown["x"])
    assert (raw["y"] != shown["y"]).all()


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda e: TimeAwareObservation(e, 0), r"TimeAwareObservation: max_steps .*got 0"),
        (
            lambda e: TimeAwareObservation(e, True),
            r"TimeAwareObservation: max_steps .*got True",
        ),
        (
            lambda e: TimeAwareObservation(e, normalize=True),
            "TimeAwareObservation: normalize requires max_steps, got None",
        ),
        (
            lambda e: TimeAwareObservation(e, flatten=False, key="x"),
            r"TimeAwareObservation: key .*got 'x'",
        ),
        (lambda e: DelayObservation(e, -1), r"DelayObservation: delay .*got -1"),
        (lambda e: DelayObservation(e, 1.5), r"DelayObservation.*: delay .*got 1.5"),
        (lambda e: NoisyObservation(e, -0.1), r"NoisyObservation: scale .*got -0.1"),
        (lambda e: NoisyObservation(e, fields=("n",)), r"NoisyObservation: n .*got Bounded\(\(\), int32, 1, 3\)"),
        (lambda e: NoisyObservation(counting()), r"NoisyObservation: observation .*got Bounded\(\("),
        (lambda e: DelayObservation(AutoReset(e, "same_step")), "DelayObservation: .* put it inside AutoReset"),
    ],
)
def test_invalid_arguments_are_refused_by_name_and_value(build, message):
    with pytest.raises(ValueError, match=message):
        build(floats())
