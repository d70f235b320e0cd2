"""NormalizeObservation and NormalizeReward: statistics over all lanes that count every row once."""

import dataclasses
import functools
import os
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs, tree
from jaxenv.core import _moments
from jaxenv.testing import Chain, Counting
from jaxenv.wrappers import (
    AutoReset,
    FrameStack,
    NormalizeObservation,
    NormalizeReward,
    TimeLimit,
    statistics,
    with_statistics,
)
from tests.rows import assert_equal, random_actions, unrolled

FIRST, MID, LAST = 0, 1, 2


class Floats(Counting):
    """`Counting` that shows ``{"x": ..., "n": ...}``: the count as a float and as an integer."""

    def observe(self, state):
        count = super().observe(state)
        return {"x": count.astype(jnp.float32), "n": count}

    def observation_spec(self):
        return {"x": specs.Array((), np.float32), "n": specs.Array((), np.int32)}


def counting():
    """Three lanes; only the first one ends, after two steps."""
    return Floats(np.array([[2], [9], [9]]), stride=10, num_envs=3)


@jax.jit
def rolled(env, state, actions):
    """The states and rows after ``actions`` ``[T, B, ...]``."""

    def one(state, action):
        state, timestep = env.step(state, action)
        return state, (state, timestep)

    return jax.lax.scan(one, state, actions)[1]


def end(states):
    return jax.tree.map(lambda x: x[-1], states)


class Varied(Counting):
    """Irregular numbers, and two rewards, the second of which is never negative."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        count = super().observe(out.state)
        rewards = jnp.stack([count * action % 5 - 1, count * count % 7], axis=-1)
        return dataclasses.replace(out, reward=rewards.astype(jnp.float32))

    def observe(self, state):
        count = super().observe(state)
        x = jnp.stack([count % 5 + 5, count * count % 7 + 9], axis=-1).astype(jnp.float32)
        return {"x": x, "y": x[:, 0] + x[:, 1], "n": count % 4}

    def observation_spec(self):
        floats = {"x": specs.Bounded((2,), np.float32, 5, 15), "y": specs.Bounded((), np.float32, 14, 24)}
        return {**floats, "n": specs.discrete(4)}

    def reward_spec(self):
        return specs.Bounded((2,), np.float32, [-1, 0], [4, 6])


@functools.cache
def varied(mode="next_step"):
    """The environment, actions, and the raw rows; lanes end at different times, some episodes by the limit."""
    task = Varied(np.array([[2, 4, 1], [3, 3, 2], [1, 5, 2]]), stride=3, num_envs=3)
    env = AutoReset(TimeLimit(task, 3), mode)
    actions = random_actions(env, 20)
    return env, actions, unrolled(env, actions)


# --- observations ----------------------------------------------------------------------------------------------------


def test_observations_of_three_lanes_are_normalised_by_common_statistics():
    env = NormalizeObservation(AutoReset(counting()))
    shown = unrolled(env, jnp.zeros((3, 3), jnp.int32)).observation
    expected = [[0, 0, 0], [1, 1, 1], [1.2247449] * 3, [3.0486951, 0.3530067, 0.3530067]]
    np.testing.assert_allclose(shown["x"], expected, rtol=1e-5)
    assert shown["n"].tolist() == [[0, 0, 0], [1, 1, 1], [2, 2, 2], [10, 3, 3]]


def test_both_observations_of_a_same_step_last_row_count_and_all_others_once():
    env = NormalizeObservation(AutoReset(counting(), "same_step"))
    state, _ = env.reset(jax.random.key(0))
    states, r = rolled(env, state, jnp.zeros((2, 3), jnp.int32))
    seen = [0, 0, 0, 1, 1, 1, 2, 10, 2, 2]
    statistics = env.statistics(end(states))
    assert int(statistics["x"].count) == 10
    assert statistics["n"] == ()
    np.testing.assert_allclose(statistics["x"].mean[()], np.mean(seen), rtol=1e-6)
    np.testing.assert_allclose(r.observation["x"][1], (np.array([10, 2, 2]) - np.mean(seen)) / np.std(seen), rtol=1e-5)
    final = r.env_info["final_observation"]
    np.testing.assert_allclose(final["x"][1], (np.array([2, 2, 2]) - np.mean(seen)) / np.std(seen), rtol=1e-5)
    assert final["n"][1].tolist() == [2, 2, 2]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_every_row_updates_the_statistics_before_it_is_normalised(mode):
    env, actions, raw = varied(mode)
    shown = unrolled(NormalizeObservation(env, clip=1.5, epsilon=0.01), actions)
    assert (raw.step_type[1:] == LAST).any()
    seen = np.zeros((0, 2))
    for t, row in enumerate(raw.observation["x"].astype(np.float64)):
        seen = np.concatenate([seen, row])
        if mode == "same_step":
            seen = np.concatenate([seen, raw.env_info["final_observation"]["x"][t][raw.step_type[t] == LAST]])
        expected = np.clip((row - seen.mean(0)) / np.sqrt(seen.var(0) + 0.01), -1.5, 1.5)
        np.testing.assert_allclose(shown.observation["x"][t], expected, rtol=1e-4, atol=1e-5)
    for field in dataclasses.fields(raw):
        if field.name not in ("observation", "env_info"):
            assert_equal(getattr(shown, field.name), getattr(raw, field.name))


def test_normalised_parts_are_bounded_by_the_clip_and_other_parts_keep_their_specs():
    env, _, _ = varied()
    plain, clipped = (NormalizeObservation(env, clip=clip).observation_spec() for clip in (None, 5.0))
    n = specs.discrete(4)
    assert plain == {"x": specs.Array((2,), np.float32), "y": specs.Array((), np.float32), "n": n}
    assert clipped["x"] == specs.Bounded((2,), np.float32, -5, 5)
    assert clipped["n"] == n


def test_only_named_fields_are_normalised():
    env, actions, raw = varied()
    chosen = NormalizeObservation(env, fields=("y",))
    assert chosen.observation_spec() == {**env.observation_spec(), "y": specs.Array((), np.float32)}
    states, shown = rolled(chosen, chosen.reset(jax.random.key(0))[0], actions)
    np.testing.assert_array_equal(raw.observation["x"][1:], shown.observation["x"])
    assert (np.abs(shown.observation["y"]) < 4).all()
    assert states.shared.value["x"] == ()


class Breaks(Floats):
    """Shows NaN, or another bad number, on the second step of an episode."""

    bad: float = tree.static(default=np.nan)

    def observe(self, state):
        shown = super().observe(state)
        return {**shown, "x": jnp.where(state.step == 2, np.float32(self.bad), shown["x"])}


def test_a_row_whose_square_overflows_does_not_update_statistics():
    env = NormalizeObservation(AutoReset(Breaks(np.array([[1], [9], [9]]), num_envs=3, bad=1e25)))
    state, _ = env.reset(jax.random.key(0))
    states, r = rolled(env, state, jnp.zeros((3, 3), jnp.int32))
    assert np.isfinite(r.observation["x"]).all()
    assert [int(low) for low in states.shared.value["x"].count.low] == [6, 7, 10]


def test_a_non_finite_row_does_not_update_statistics():
    env = NormalizeObservation(AutoReset(Breaks(np.array([[1], [9], [9]]), num_envs=3)))
    state, _ = env.reset(jax.random.key(0))
    states, r = rolled(env, state, jnp.zeros((3, 3), jnp.int32))
    x = r.observation["x"]
    assert np.isnan(x).tolist() == [[False] * 3, [False, True, True], [False] * 3]
    assert [int(low) for low in states.shared.value["x"].count.low] == [6, 7, 10]
    np.testing.assert_allclose(states.shared.value["x"].mean[-1], np.mean([0, 0, 0, 1, 1, 1, 0, 3, 1, 3]), rtol=1e-6)


# --- rewards ---------------------------------------------------------------------------------------------------------


def test_rewards_are_divided_by_the_standard_deviation_of_returns():
    env = NormalizeReward(AutoReset(counting()), gamma=0.5, epsilon=0.25)
    state, first = env.reset(jax.random.key(0))
    assert first.reward.tolist() == [0, 0, 0]
    assert int(env.statistics(state).count) == 0
    states, r = rolled(env, state, jnp.full((4, 3), 2, jnp.int32))
    assert states.lanes.tolist() == [[2, 2, 2], [3, 3, 3], [0, 3.5, 3.5], [2, 3.75, 3.75]]
    assert states.shared.value.count.low.tolist() == [3, 6, 8, 11]
    a, b, c, d = 4, 2.8284271, 2.5298221, 2.3206066
    np.testing.assert_allclose(r.reward, [[a, a, a], [b, b, b], [0, c, c], [d, d, d]], rtol=1e-5)
    assert r.step_type[:, 0].tolist() == [MID, LAST, FIRST, MID]


@pytest.mark.parametrize("length", [2, 9])  # at 9 the limit ends the episodes of lane 0
def test_same_step_returns_include_the_last_reward_and_restart_after_it(length):
    task = TimeLimit(Counting(np.array([[length], [9], [9]]), num_envs=3), np.array([2, 9, 9]))
    env = NormalizeReward(AutoReset(task, "same_step"), gamma=0.5, epsilon=0.25)
    states, r = rolled(env, env.reset(jax.random.key(0))[0], jnp.full((3, 3), 2, jnp.int32))
    assert states.lanes.tolist() == [[2, 2, 2], [0, 3, 3], [2, 3.5, 3.5]]
    assert states.shared.value.count.low.tolist() == [3, 6, 9]
    np.testing.assert_allclose(r.reward[1], [2.8284271] * 3, rtol=1e-5)
    seen = [2, 2, 2, 3, 3, 3, 3.5, 2, 3.5]
    np.testing.assert_allclose(r.reward[2], [2 / np.sqrt(np.var(seen) + 0.25)] * 3, rtol=1e-5)


@pytest.mark.slow
def test_a_vector_reward_has_statistics_per_component_and_gamma_may_be_per_lane():
    env, actions, raw = varied()
    gamma = np.float32([0.5, 0.9, 0.0])
    normalized = NormalizeReward(env, gamma, clip=2.0)
    shown = unrolled(normalized, actions).reward
    returns, seen = np.zeros((3, 2)), np.zeros((0, 2))
    for t in range(1, len(raw.reward)):
        first = raw.step_type[t] == FIRST
        returns = np.where(first[:, None], 0, gamma[:, None] * returns + raw.reward[t])
        seen = np.concatenate([seen, returns[~first]])
        expected = np.clip(raw.reward[t] / np.sqrt(seen.var(0) + 1e-8), -2, 2)
        np.testing.assert_allclose(shown[t], expected, rtol=1e-4, atol=1e-5)


def test_the_spec_of_a_normalised_reward_keeps_its_sign():
    env = varied()[0].env
    unbounded, bounded = NormalizeReward(env), NormalizeReward(env, clip=3.0)
    assert unbounded.reward_spec() == specs.Bounded((2,), np.float32, [-np.inf, 0], [np.inf, np.inf])
    assert bounded.reward_spec() == specs.Bounded((2,), np.float32, [-3, 0], [3, 3])
    assert NormalizeReward(counting()).reward_spec() == specs.Array((), np.float32)


# --- both ------------------------------------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize("wrapper", [NormalizeObservation, NormalizeReward])


def moments(env, state):
    statistics = env.statistics(state)
    return statistics["x"] if isinstance(statistics, dict) else statistics


@functools.cache
def learned(wrapper):
    """A wrapper, its state after ten steps, and ten more actions."""
    env, actions, _ = varied()
    env = wrapper(env)
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    states, rows = rolled(env, state, actions[:10])
    return env, end(states), jax.tree.map(lambda x: x[-1], rows), actions[10:]


@pytest.mark.slow
@BOTH
def test_a_saved_state_continues_bit_for_bit_and_saved_statistics_load(wrapper):
    env, state, _, actions = learned(wrapper)
    restored = pickle.loads(pickle.dumps(jax.device_get(state)))
    assert_equal(jax.device_get(rolled(env, restored, actions)), jax.device_get(rolled(env, state, actions)))
    saved = pickle.loads(pickle.dumps(jax.device_get(env.statistics(state))))
    loaded = env.with_statistics(jax.jit(env.reset)(jax.random.key(7))[0], saved)
    assert_equal(jax.device_get(env.statistics(loaded)), saved)
    assert int(moments(env, loaded).count) == int(moments(env, state).count) > 3


@pytest.mark.slow
@BOTH
def test_frozen_statistics_stay_and_a_fresh_frozen_wrapper_changes_nothing(wrapper):
    env, state, _, actions = learned(wrapper)
    frozen = dataclasses.replace(env, frozen=True)
    states, rows = rolled(frozen, state, actions)
    assert_equal(jax.device_get(frozen.statistics(end(states))), jax.device_get(env.statistics(state)))
    raw = rolled(env.env, state.inner, actions)[1]
    x = raw.observation if wrapper is NormalizeObservation else raw.reward
    shown = rows.observation if wrapper is NormalizeObservation else rows.reward
    assert_equal(jax.device_get(jax.vmap(lambda x: env.normalize(state, x))(x)), jax.device_get(shown), rtol=1e-6)
    fresh, _ = jax.jit(frozen.reset)(jax.random.key(0))
    assert int(moments(frozen, fresh).count) == 0
    row = jax.tree.map(lambda x: x[0], jax.device_get(x))
    assert_equal(jax.device_get(frozen.normalize(fresh, row)), row)


@BOTH
def test_rows_of_reset_where_are_normalised_but_not_counted(wrapper):
    env, state, timestep, _ = learned(wrapper)

    @jax.jit
    def restarted(env, state):
        return jaxenv.reset_where(env, state, timestep, np.array([True, True, False]))

    new, row = restarted(env, state)
    assert_equal(jax.device_get(env.statistics(new)), jax.device_get(env.statistics(state)))
    assert row.step_type[:2].tolist() == [FIRST, FIRST]
    if wrapper is NormalizeReward:
        assert row.reward[:2].tolist() == [[0, 0], [0, 0]]
        assert new.lanes[:2].tolist() == [[0, 0], [0, 0]]
        assert new.lanes[2].tolist() == state.lanes[2].tolist()
    else:
        raw = restarted(env.env, state.inner)[1].observation["x"]
        np.testing.assert_allclose(env.inverse(new, row.observation)["x"][:2], raw[:2], rtol=1e-5)


@BOTH
def test_the_inverse_restores_raw_values(wrapper):
    env, state, timestep, _ = learned(wrapper)
    x = timestep.observation if wrapper is NormalizeObservation else timestep.reward
    assert_equal(jax.device_get(env.inverse(state, env.normalize(state, x))), jax.device_get(x), rtol=1e-5)


def test_the_statistics_of_two_runs_merge():
    env, state, _, actions = learned(NormalizeObservation)
    other = end(rolled(env, jax.jit(env.reset)(jax.random.key(5))[0], actions)[0])
    merged = _moments.merge(env.statistics(state), env.statistics(other))
    assert int(merged["x"].count) == int(moments(env, state).count) + int(moments(env, other).count)
    assert merged["n"] == ()
    assert int(moments(env, env.with_statistics(state, merged)).count) == 33 + 33


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda e: NormalizeObservation(e, -1.0), r"NormalizeObservation: epsilon .*got -1.0"),
        (
            lambda e: NormalizeObservation(e, clip=0.0),
            r"clip .*got 0.0",
        ),
        (lambda e: NormalizeObservation(e, fields=("n",)), r"NormalizeObservation: n .*got Bounded\(\(\), int32"),
        (lambda e: NormalizeObservation(e, fields=("z",)), "NormalizeObservation: field 'z': no 'z' here"),
        (lambda e: NormalizeReward(e, 1.5), r"NormalizeReward: gamma .*got 1.5"),
        (lambda e: NormalizeReward(e, epsilon=-1.0), r"NormalizeReward: epsilon .*got -1.0"),
        (lambda e: NormalizeReward(e, clip="x"), r"clip .*got 'x'"),
        (lambda e: NormalizeObservation(e, clip=True), r"clip .*got True"),
        (lambda e: NormalizeReward(e, clip=-2.0), r"NormalizeReward: clip .*got -2.0"),
        (lambda e: AutoReset(NormalizeReward(e.env)), "AutoReset: NormalizeReward carries state"),
        (
            lambda e: NormalizeReward(e).with_statistics(learned(NormalizeReward)[1], _moments.empty(())),
            r"NormalizeReward: statistics do not.* Array\(\(2,\), float32\): its shape is \(\)",
        ),
    ],
)
def test_invalid_arguments_are_refused_by_name_and_value(build, message):
    with pytest.raises(ValueError, match=message):
        build(varied()[0])


# --- shards ----------------------------------------------------------------------------------------------------------

_ON_FOUR_DEVICES = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
import jaxenv
from jaxenv import tree
from jaxenv.wrappers import NormalizeObservation, NormalizeReward
from tests.rows import assert_equal, random_actions

assert len(jax.devices()) == 4
mesh = Mesh(np.array(jax.devices()), ("lanes",))
plain = jaxenv.make("Pendulum-v1", num_envs=8, max_episode_steps=np.arange(3, 11))


def rollout(env, env_id, actions):
    state, first = env.reset(jax.random.key(0), env_id=env_id)
    state, rows = jax.lax.scan(env.step, state, actions)
    statistics = env.statistics(state), env.env.statistics(env.inner(state))
    return (rows.observation, rows.reward), statistics


def normalized(**kwargs):
    return NormalizeReward(NormalizeObservation(plain, **kwargs), **kwargs)


actions, env_id = random_actions(plain, 15), jnp.arange(8, dtype=jnp.int32)
rows, statistics = jax.device_get(jax.jit(rollout)(normalized(), env_id, actions))
assert int(statistics[1].count) == 8 * 16


def shards(env, of_statistics):
    axes = jax.tree.map(lambda x: P("lanes") if jnp.ndim(x) else P(), env)
    run = jax.shard_map(
        rollout,
        mesh=mesh,
        in_specs=(axes, P("lanes"), P(None, "lanes")),
        out_specs=(P(None, "lanes"), of_statistics),
    )
    return jax.device_get(jax.jit(run)(env, env_id, actions))


agreed = shards(normalized(axis_name="lanes"), P())
assert_equal(agreed, (rows, statistics), rtol=2e-4)
print("agree")


def alone(env, env_id, actions):
    state, _ = env.reset(jax.random.key(0), env_id=env_id)
    state, rows = jax.lax.scan(env.step, state, actions)
    return env.statistics(state).count.low[None]


env = NormalizeReward(plain)  # at reset its rows are constants, which vary over no axis
axes = jax.tree.map(lambda x: P("lanes") if jnp.ndim(x) else P(), env)
run = jax.shard_map(alone, mesh=mesh, in_specs=(axes, P("lanes"), P(None, "lanes")), out_specs=P("lanes"))
counts = jax.jit(run)(env, env_id, actions)
assert (counts < 32).all()
assert counts.sum() == int(statistics[0].count)
print("alone")
"""


@pytest.mark.slow
def test_shards_with_a_mesh_axis_hold_the_statistics_of_all_lanes():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-c", _ON_FOUR_DEVICES],
        env={**os.environ, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["agree", "alone"]


# --- inside a stack --------------------------------------------------------------------------------------------------


def test_the_statistics_of_a_wrapper_inside_a_stack_are_read_and_replaced():
    inside = NormalizeObservation(NormalizeReward(AutoReset(Floats(np.array([[9], [9]]), num_envs=2))))
    env = FrameStack(inside, 2, fields="x")
    state, _ = env.reset(jax.random.key(0))
    learned = statistics(env, state, "NormalizeReward")
    assert_equal(learned, inside.env.statistics(state.inner.inner))
    loaded = with_statistics(env, state, dataclasses.replace(learned, mean=learned.mean + 1), "NormalizeReward")
    assert float(statistics(env, loaded, "NormalizeReward").mean) == float(learned.mean) + 1
    assert_equal(statistics(env, loaded, "NormalizeObservation"), statistics(env, state, "NormalizeObservation"))
    assert jax.tree.structure(loaded) == jax.tree.structure(state)


def test_the_statistics_of_a_stack_need_one_wrapper_that_fits():
    one = FrameStack(NormalizeReward(Chain()), 2)
    two = NormalizeReward(one)
    none = FrameStack(Chain(), 2)
    for env, name, rule in (
        (two, None, r"name .*got None; .* has N.*, N"),
        (two, "NormalizeReward", r"name .*got 'NormalizeReward'"),
        (one, "NormalizeObservation", r"got 'NormalizeObservation'; <.*> has NormalizeReward$"),
        (none, None, r"got None; <FrameStack<Chain>> has none$"),
    ):
        state, _ = env.reset(jax.random.key(0))
        with pytest.raises(ValueError, match=rf"^statistics: .*{rule}"):
            statistics(env, state, name)
    with pytest.raises(AttributeError, match=r"use jaxenv\.wrappers\.statistics\(env, state\)"):
        one.statistics(state)
