"""`to_stoa`: environments of this library under Stoa's wrappers, in the order of Stoix's ``make_env``."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.interop import to_stoa
from jaxenv.testing import Counting, random_environment
from tests import packages
from tests.interop.ends import LANES, TERMINATED, TRUNCATED, ending_alone
from tests.rows import assert_equal

stoa = packages.imported("stoa")
from stoa.core_wrappers.auto_reset import CachedAutoResetWrapper  # noqa: E402
from stoa.core_wrappers.optimistic_auto_reset import OptimisticResetVmapWrapper  # noqa: E402
from stoa.core_wrappers.vmap import VmapWrapper  # noqa: E402
from stoa.utility_wrappers.extras_transforms import NoExtrasWrapper  # noqa: E402

KEYS = jax.random.split(jax.random.key(0), 4)
T = 30


def recorded(id="CartPole-v1", limit=12):
    return stoa.RecordEpisodeMetrics(stoa.AddRNGKey(to_stoa(id, max_episode_steps=limit)))


def played(env, actions):
    """The first timestep and those of the steps, ``[T, ...]``."""
    state, first = env.reset(jax.random.key_data(KEYS))  # Stoix passes legacy keys
    unrolled = jax.jit(lambda state, actions: jax.lax.scan(env.step, state, actions)[1])
    return jax.device_get((first, unrolled(state, actions)))


def actions_of(num_steps=T):
    return jax.random.randint(jax.random.key(7), (num_steps, 4), 0, 2)


def test_lanes_without_restarts_are_those_of_the_batch():
    actions = actions_of(10)
    env = jaxenv.make("CartPole-v1", 4, autoreset=None, max_episode_steps=9)
    state, timestep = env.reset(KEYS)
    first, found = played(VmapWrapper(to_stoa("CartPole-v1", max_episode_steps=9)), actions)
    np.testing.assert_array_equal(first.observation, timestep.observation)
    assert first.step_type.tolist() == [0] * 4
    for t in range(9):
        state, timestep = env.step(state, actions[t])
        row = jax.tree.map(lambda x, t=t: x[t], found)
        np.testing.assert_allclose(row.observation, timestep.observation, rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(row.reward, timestep.reward)
        np.testing.assert_array_equal(row.discount, timestep.discount)
        np.testing.assert_array_equal(row.step_type == 2, timestep.terminated)
        np.testing.assert_array_equal(row.step_type == 3, timestep.truncated)
    assert found.step_type.dtype == np.int8


def test_a_single_lane_equals_its_row_under_vmap():
    env = to_stoa("CartPole-v1")
    state, first = VmapWrapper(env).reset(KEYS)
    _, together = VmapWrapper(env).step(state, jnp.array([0, 1, 1, 0]))
    for lane in range(2):
        own, row = env.reset(KEYS[lane])
        # Two programs, one for a lane and one for all, may round differently.
        expected = jax.device_get(jax.tree.map(lambda x, n=lane: x[n], first))
        assert_equal(jax.device_get(row), expected, rtol=1e-6)
        _, row = env.step(own, lane)
        expected = jax.device_get(jax.tree.map(lambda x, n=lane: x[n], together))
        assert_equal(jax.device_get(row), expected, rtol=1e-6)


@pytest.mark.parametrize("restarts", ["auto", "cached", "optimistic", "own"])
def test_episodes_under_stoas_wrappers(restarts, monkeypatch):
    monkeypatch.setattr(jax, "tree_map", jax.tree.map, raising=False)  # Stoa 0.1.2 uses the old name
    if restarts == "own":
        env = to_stoa("CartPole-v1", max_episode_steps=12)
    elif restarts == "optimistic":
        env = OptimisticResetVmapWrapper(recorded(), 4, 1, next_obs_in_extras=True)
    else:
        wrapper = stoa.AutoResetWrapper if restarts == "auto" else CachedAutoResetWrapper
        env = VmapWrapper(wrapper(recorded(), next_obs_in_extras=True))
    first, rows = played(env, actions_of())
    ends = rows.last()
    assert {2, 3} <= set(rows.step_type.reshape(-1).tolist())
    lengths = rows.extras["episode_metrics"]["episode_length"]
    for lane in range(4):
        at = np.flatnonzero(ends[:, lane])
        np.testing.assert_array_equal(lengths[at, lane], np.diff(at, prepend=-1))
    np.testing.assert_array_equal(rows.extras["episode_metrics"]["episode_return"][ends], lengths[ends])
    assert not lengths[~ends].any()
    assert not rows.extras["episode_metrics"]["episode_return"][~ends].any()
    np.testing.assert_array_equal(rows.extras["episode_metrics"]["is_terminal_step"], ends)
    np.testing.assert_array_equal(rows.step_type == 2, rows.discount == 0)
    # The observation before the restart is kept, and that on the row starts the next episode.
    final = rows.extras["next_obs"]
    np.testing.assert_allclose(final[~ends], rows.observation[~ends], rtol=1e-5, atol=1e-7)
    assert np.all(np.abs(rows.observation[ends]) <= 0.05)
    assert np.all(np.any(np.abs(final[ends]) > 0.05, axis=-1))
    np.testing.assert_array_equal(first.extras["next_obs"], first.observation)


def test_a_batch_of_keys_is_an_unroll_of_the_batch():
    actions = actions_of()
    env = jaxenv.make("CartPole-v1", 4, autoreset="same_step", max_episode_steps=12)
    state, timestep = env.reset(KEYS)
    step = jax.jit(env.step)
    _, rows = played(to_stoa("CartPole-v1", max_episode_steps=12), actions)
    for t in range(T):
        state, timestep = step(state, actions[t])
        np.testing.assert_allclose(rows.observation[t], timestep.observation, rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(rows.step_type[t] >= 2, timestep.is_last())
        final = timestep.env_info["final_observation"]
        np.testing.assert_allclose(rows.extras["next_obs"][t], final, rtol=1e-4, atol=1e-6)


def test_the_return_of_a_batch_is_the_sum_of_the_rewards_that_its_rows_show():
    wrappers = ["EpisodeStatistics", ("ClipReward", {"minimum": 0, "maximum": 0.5})]
    _, rows = played(to_stoa("CartPole-v1", max_episode_steps=3, wrappers=wrappers), actions_of(6))
    np.testing.assert_array_equal(rows.extras["episode_metrics"]["episode_return"][:, 0], [0, 0, 1.5] * 2)
    np.testing.assert_array_equal(rows.extras["episode_metrics"]["episode_length"][:, 0], [0, 0, 3] * 2)
    np.testing.assert_array_equal(rows.extras["episode"]["return"][2::3, 0], [3, 3])


def test_a_batch_may_be_divided_as_stoix_does():
    env = to_stoa("CartPole-v1")
    state, _ = env.reset(jax.random.split(jax.random.PRNGKey(0), 4))
    action = jnp.array([0, 1, 1, 0])
    whole = env.step(state, action)
    halves = jax.tree.map(lambda x: x.reshape(2, 2, *x.shape[1:]), (state, action))
    divided = jax.vmap(env.step)(*halves)
    together = jax.tree.map(lambda x: x.reshape(4, *x.shape[2:]), divided)
    assert_equal(jax.device_get(together), jax.device_get(whole), rtol=1e-6)


@pytest.mark.parametrize("id", ["Breakout-MinAtar", "FourRooms-misc"])
def test_environments_with_lookup_tables_restart_in_stoas_cond(id):
    env = VmapWrapper(stoa.AutoResetWrapper(stoa.AddRNGKey(to_stoa(id))))
    state, first = jax.eval_shape(env.reset, jax.random.key_data(KEYS))
    found = jax.eval_shape(env.step, state, jnp.zeros(4, jnp.int32))
    assert jax.tree.structure((state, first)) == jax.tree.structure(found)
    assert [(x.shape, x.dtype) for x in jax.tree.leaves((state, first))] == [
        (x.shape, x.dtype) for x in jax.tree.leaves(found)
    ]


def test_legacy_keys_are_those_of_typed_keys():
    env = to_stoa("CartPole-v1")
    for keys in (KEYS, KEYS[0]):
        raw = jax.random.key_data(keys)
        np.testing.assert_array_equal(env.reset(keys)[1].observation, env.reset(raw)[1].observation)


def test_env_params_are_the_params_of_the_task_and_may_differ_by_lane():
    env = to_stoa("CartPole-v1")
    forces = jnp.array([0.0, 5.0, 10.0, 20.0])
    params = env.params
    many = jax.tree.map(lambda x: jnp.broadcast_to(x, (4,)), params)
    many = jaxenv.tree.rebuild(many, force=forces)
    lanes = VmapWrapper(env, vectorize_over_env_params=True)
    state, first = lanes.reset(KEYS, many)
    _, row = lanes.step(state, jnp.ones(4, jnp.int32), many)
    pushed = row.observation[:, 1] - first.observation[:, 1]
    np.testing.assert_allclose(pushed[1:] - pushed[:1], 0.0195 * forces[1:], rtol=0.05)


def test_wrappers_of_stoa_work_around_it():
    env = stoa.FlattenObservationWrapper(NoExtrasWrapper(to_stoa("Catch-bsuite")))
    state, timestep = env.reset(KEYS[0])
    assert timestep.observation.shape == env.observation_space().shape == (50,)
    assert timestep.extras == {}
    limited = stoa.EpisodeStepLimitWrapper(stoa.AddStartFlagAndPrevAction(to_stoa("CartPole-v1")), 2)
    state, timestep = limited.reset(KEYS[0])
    for _ in range(2):
        state, timestep = limited.step(state, jnp.int32(1))
    assert timestep.step_type == stoa.StepType.TRUNCATED
    assert timestep.observation.shape == (7,)


def test_spaces_are_those_of_the_specs_and_hold_the_values():
    env = to_stoa(
        random_environment(
            {"image": specs.Bounded((3, 3), np.uint8, 0, 255), "pair": (specs.Array((2,), np.float32),)},
            specs.Bounded((2,), np.int32, 0, np.array([2, 4])),
        )
    )
    space, (_, timestep) = env.observation_space(), env.reset(KEYS[0])
    assert isinstance(space, stoa.DictSpace)
    assert space.contains(timestep.observation)
    assert isinstance(env.action_space(), stoa.MultiDiscreteSpace)
    assert env.action_space().num_values.tolist() == [3, 5]
    discrete = to_stoa("CartPole-v1")
    assert discrete.action_space() == stoa.DiscreteSpace(2, jnp.int32)
    assert discrete.observation_space().generate_value().shape == (4,)
    assert discrete.reward_space().contains(discrete.reset(KEYS[0])[1].reward)
    # A discrete space counts its values in int32, which does not hold 2**31.
    wide = specs.Bounded((), np.int32, 0, 2**31 - 1)
    wide_space = to_stoa(random_environment(wide, specs.discrete(2))).observation_space()
    assert isinstance(wide_space, stoa.BoundedArraySpace)
    assert wide_space.sample(jax.random.key(0)) >= 0
    # Stoa has no space of flags that can be sampled: actions 0 and 1 stand for them.
    flags = to_stoa(random_environment(wide, specs.Array((3,), bool)))
    assert flags.action_space().num_values.tolist() == [2, 2, 2]
    state, _ = flags.reset(KEYS[0])
    assert flags.step(state, flags.action_space().sample(KEYS[0]))[1].reward.shape == ()
    tasks = to_stoa(["CartPole-v0", "CartPole-v1"])
    assert tasks.params is None
    pendulum = to_stoa("Pendulum-v1").action_space()
    assert isinstance(pendulum, stoa.BoundedArraySpace)
    assert pendulum.minimum == -2
    with pytest.raises(NotImplementedError, match="states have no space"):
        discrete.environment_space()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: to_stoa("CartPole-v1", autoreset="same_step"), "episodes restart outside"),
        (lambda: to_stoa(jaxenv.make("CartPole-v1")), "to_stoa: episodes restart .* with autoreset=None"),
        (lambda: to_stoa("CartPole-v1", wrappers=["NormalizeObservation"]), "NormalizeObservation carries state of"),
        (lambda: to_stoa(Counting([[3], [4]], num_envs=2)), r"lengths .*got shape \(2, 1\)"),
        (lambda: to_stoa(5), r"to_stoa: env .*got 5"),
        (
            lambda: to_stoa("CartPole-v1").step(to_stoa("CartPole-v1").reset(KEYS[0])[0], jnp.zeros(3, jnp.int32)),
            r"action .*got \(3,\)",
        ),
        (lambda: to_stoa("CartPole-v1").reset(3), r"key .*got 3, use"),
        (lambda: to_stoa("CartPole-v1").reset(KEYS[0], {"gravity": 1}), r"env_params .*got \{'gravity': 1\}"),
    ],
)
def test_what_does_not_fit_is_refused(use, message):
    with pytest.raises(ValueError, match=message):
        use()


@pytest.mark.parametrize("lane", range(LANES))
def test_where_both_ends_meet_the_row_is_a_termination(lane):
    env = VmapWrapper(to_stoa(ending_alone(lane)))
    state, row = env.reset(KEYS)
    for t in range(1 + np.argmax((TERMINATED | TRUNCATED)[:, lane])):
        state, row = env.step(state, jnp.ones(len(KEYS), jnp.int32))
        assert row.step_type.tolist() == [1 + TERMINATED[t, lane] + 2 * TRUNCATED[t, lane]] * len(KEYS)
        assert row.discount.tolist() == [1 - TERMINATED[t, lane]] * len(KEYS)
