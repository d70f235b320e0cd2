"""gymnax's environments: equal to gymnax's own and to native environments, under the episodes of this library."""

import pickle

import chex
import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import random, specs, tree
from jaxenv.core.timestep import StepType
from jaxenv.suites import gymnax as suite
from jaxenv.testing import check_env
from tests.packages import lazy
from tests.suites.gymnax_rollouts import IDS, LANES, bare, kinds, load, play, rollout, start, task_of, zeros

gymnax = lazy("gymnax")

THOROUGH = ("Acrobot-v1", "Pong-misc", *(id for id in IDS if "MinAtar" in id))  # slow to trace
EVERY = [pytest.param(id, marks=pytest.mark.thorough) if id in THOROUGH else id for id in IDS]


# --- compared with gymnax --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["CartPole-v1", pytest.param("MountainCarContinuous-v0", marks=pytest.mark.thorough)])
def test_episodes_equal_those_of_gymnax(id):
    limit, num_steps = 25, 30
    env = load(id, max_episode_steps=limit, autoreset=None, clip_action=False)
    single, params = gymnax.make(id)
    params = params.replace(max_steps_in_episode=limit)
    actions = jax.device_get(specs.sample(env.action_spec(), jax.random.key(1), (num_steps, LANES)))
    state, _ = start(env, jax.random.key(0))
    rows = jax.device_get(play(env, state, actions)[1])

    @jax.jit
    @jax.vmap
    def played_by_gymnax(state, actions):
        def one(state, action):
            _, state, reward, terminated, truncated, info = single.step(jax.random.key(0), state, action, params)
            return state, (info["final_observation"], reward, terminated, truncated)

        return jax.lax.scan(one, tree.strong(state), actions)[1]

    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        theirs = played_by_gymnax(task_of(state).env_state, np.moveaxis(actions, 0, 1))
    observation, reward, terminated, truncated = (np.moveaxis(np.asarray(x), 1, 0) for x in theirs)
    ends = np.argmax(terminated | truncated, axis=0)
    assert (terminated | truncated).any(axis=0).all()
    lived = np.arange(num_steps)[:, None] <= ends  # gymnax restarts after that
    np.testing.assert_allclose(rows.observation[lived], observation[lived], atol=1e-5)  # rounding errors
    np.testing.assert_allclose(rows.reward[lived], reward[lived], atol=1e-5)
    assert ((rows.discount == 0)[lived] == terminated[lived]).all()
    assert ((rows.step_type == StepType.LAST)[lived] == (terminated | truncated)[lived]).all()
    if id == "CartPole-v1":
        assert 0 < terminated[lived].sum() < LANES  # both kinds of end


# --- compared with the native environment of the same name -----------------------------------------------------------


@jax.jit
def advance(env, task, action, keys):
    out = env.transition(task, action, random.stream(keys))
    return env.observe(out.state), out.reward, out.terminated


def uniform(seed, ranges, num):
    low, high = np.array(ranges, np.float64).T
    return np.random.default_rng(seed).uniform(low, high, (num, len(ranges))).astype(np.float32).T


PI = np.pi
STATES = {
    # Fields of both states in one order, the ranges of random values, and ranges of params per lane.
    "CartPole-v1": (
        {"x": "x", "x_dot": "x_dot", "theta": "theta", "theta_dot": "theta_dot"},
        [(-2.4, 2.4), (-4, 4), (-0.2, 0.2), (-4, 4)],
        {"masspole": (0.05, 2), "length": (0.3, 2), "gravity": (5, 15)},
    ),
    "MountainCar-v0": (
        {"position": "position", "velocity": "velocity"},
        [(-1.2, 0.6), (-0.07, 0.07)],
        {"force": (0.0005, 0.002)},
    ),
    "Pendulum-v1": ({"theta": "theta", "theta_dot": "theta_dot"}, [(-PI, PI), (-8, 8)], {"dt": (0.01, 0.1)}),
    "Acrobot-v1": (
        {"theta_1": "joint_angle1", "theta_2": "joint_angle2", "rate_1": "velocity_1", "rate_2": "velocity_2"},
        [(-PI, PI), (-PI, PI), (-6, 6), (-12, 12)],
        {},
    ),
}


@pytest.mark.parametrize(
    ("id", "tolerance"),
    [
        ("CartPole-v1", 1e-5),
        ("MountainCar-v0", 1e-5),
        ("Pendulum-v1", 2e-5),  # rewards up to 17 in float32
        pytest.param("Acrobot-v1", 5e-3, marks=pytest.mark.thorough),  # four Runge-Kutta stages, rates up to 12
    ],
)
def test_one_step_equals_the_native_environment_with_params_per_lane(id, tolerance):
    num = 1000
    names, ranges, own = STATES[id]
    params = dict(zip(own, uniform(1, list(own.values()), num), strict=True)) if own else {}
    native, foreign = jaxenv.spec(id).make(num, **params), bare(id, num, **params)
    keys = jax.random.split(jax.random.key(0), num)
    action = jax.device_get(specs.sample(native.action_spec(), jax.random.key(1), (num,)))
    columns = uniform(0, ranges, num)
    task, blank = (zeros(env.initial, random.stream(keys)) for env in (native, foreign))
    ours = tree.rebuild(task, **dict(zip(names, columns, strict=True)))
    theirs = blank.env_state.replace(**dict(zip(names.values(), columns, strict=True)))
    a = jax.device_get(advance(native, ours, action, keys))
    b = jax.device_get(advance(foreign, tree.rebuild(blank, env_state=theirs), action, keys))
    for one, other in zip(a[:2], b[:2], strict=True):
        np.testing.assert_allclose(other, one, atol=tolerance)
    assert np.mean(a[2] != b[2]) <= 0.002  # states within rounding errors of a threshold
    assert a[2].any() or id == "Pendulum-v1"


def catch_starts(first):
    return {"ball_x": np.argmax(first.observation[:, 0], axis=-1).astype(np.int32)}


def breakout_starts(first):
    left = first.observation[:, 3, 0, 1] != 0
    column = np.where(left, 0, 9).astype(np.int32)
    return {"ball_x": column, "last_x": column, "ball_dir": np.where(left, 2, 3).astype(np.int32)}


def memory_starts(first):
    return {"context": (first.observation[:, 0, 2:] > 0).astype(np.int32)}


GAMES = {
    # The native id; arguments that make both deterministic; the random part of the start; the number of steps.
    "Catch-bsuite": ("Catch-bsuite", {}, {}, catch_starts, 9),
    "FrozenLake-misc": ("FrozenLake-v1", {"is_slippery": False}, {"is_slippery": False}, None, 30),
    "DeepSea-bsuite": ("DeepSea-bsuite", {"randomize_actions": False}, {"randomize_actions": False}, None, 8),
    "MemoryChain-bsuite": ("MemoryChain-bsuite", {"memory_length": 4}, {"memory_length": 4}, memory_starts, 6),
    "DiscountingChain-bsuite": ("DiscountingChain-bsuite", {}, {"max_episode_steps": None}, None, 100),
    "Breakout-MinAtar": ("Breakout-MinAtar", {"sticky_action_prob": 0.0}, {}, breakout_starts, 300),
    "SpaceInvaders-MinAtar": ("SpaceInvaders-MinAtar", {"sticky_action_prob": 0.0}, {}, None, 300),
}


CHEAP = ("Catch-bsuite", "FrozenLake-misc", "DeepSea-bsuite")


@pytest.mark.parametrize("id", [id if id in CHEAP else pytest.param(id, marks=pytest.mark.thorough) for id in GAMES])
def test_whole_episodes_equal_the_native_environment(id):
    name, of_native, of_gymnax, starts, num_steps = GAMES[id]
    stack = {"autoreset": None, "max_episode_steps": 0}
    ours, theirs = jaxenv.make(name, LANES, **stack, **of_native), load(id, **{**stack, **of_gymnax})
    actions = jax.device_get(specs.sample(ours.action_spec(), jax.random.key(1), (num_steps, LANES)))
    state, first = jax.device_get(start(ours, jax.random.key(0)))
    a = jax.device_get(play(ours, state, actions)[1])
    state, _ = jax.device_get(start(theirs, jax.random.key(0)))
    env_state = state.task.env_state.replace(**(starts(first) if starts else {}))
    state = tree.rebuild(state, task=tree.rebuild(state.task, env_state=env_state))
    b = jax.device_get(play(theirs, state, actions)[1])
    ended = a.step_type == StepType.LAST
    lived = np.cumsum(ended, axis=0) - ended == 0
    assert ended.any()
    assert (b.step_type[lived] == a.step_type[lived]).all()
    assert (b.discount[lived] == a.discount[lived]).all()
    np.testing.assert_allclose(b.reward[lived], a.reward[lived], atol=1e-6)  # DeepSea divides its cost in another place
    # Observations of bsuite's chains have one more axis here.
    expected = a.observation.astype(np.float32).reshape(b.observation.shape)[lived]
    np.testing.assert_allclose(b.observation[lived], expected, atol=1e-6)


# --- episodes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", EVERY)
def test_dtypes_are_strong_and_match_the_specs_and_no_key_is_reused(id):
    env = load(id, 2)

    def both(key):
        first = env.reset(key)
        return first, env.step(first[0], specs.zeros(env.action_spec(), (2,)))

    with jax.debug_key_reuse(True):
        (_, first), (_, later) = both_rows = jax.jit(both).trace(jax.random.key(0)).out_info
    before, after = map(kinds, both_rows)
    assert before == after
    assert not any(weak for _, _, weak in before)
    assert kinds(specs.batched(env.time_step_spec(), 2)) == kinds(later) == kinds(first)


@pytest.mark.parametrize("id", ["PointRobot-misc", pytest.param("UmbrellaChain-bsuite", marks=pytest.mark.thorough)])
def test_lanes_out_of_phase_keep_episode_grammar_discount_and_bounds(id):
    check_env(
        load(id, 4),
        properties=[
            "same_tree",
            "leading_lanes",
            "rows_match_specs",
            "within_specs",
            "episode_grammar",
            "discount_zero_only_at_last",
        ],
        num_steps=24,
        raise_on_failure=True,
    )


@pytest.mark.parametrize(
    ("id", "kwargs", "terminal"),
    [
        ("DiscountingChain-bsuite", {}, True),
        ("DiscountingChain-bsuite", {"max_episode_steps": [100] * LANES}, True),
        (
            "DiscountingChain-bsuite",
            {"max_episode_steps": 50},
            False,
        ),  # not the limit of the task
        ("Catch-bsuite", {}, False),
    ],
)
def test_the_horizon_terminates_where_the_original_task_says_so(id, kwargs, terminal):
    assert load(id, **kwargs).env.terminal is terminal


def test_gymnaxs_code_sees_the_given_limit():
    _, _, rows = rollout(load("DiscountingChain-bsuite", 2, max_episode_steps=[4, 8]), 4)
    np.testing.assert_allclose(rows.observation[3, :, 1], [1, 0.5])
    assert rows.is_last()[3].tolist() == [True, False]
    assert rows.discount[3].tolist() == [1, 1]


def test_without_a_limit_the_observed_time_has_no_upper_bound():
    assert load("DiscountingChain-bsuite", max_episode_steps=0).observation_spec().maximum[1] == np.inf


@pytest.mark.parametrize(
    ("id", "kwargs", "limit"),
    [
        ("CartPole-v1", {}, 500),
        ("DeepSea-bsuite", {"size": 5}, 5),
        ("FrozenLake-misc", {"map_name": "8x8"}, 200),
        ("CartPole-v1", {"max_episode_steps": 7}, 7),
    ],
)
def test_the_limit_is_the_given_one_or_gymnaxs(id, kwargs, limit):
    env = load(id, **kwargs)
    assert env.env.duration == limit
    assert env.unwrapped.max_steps_in_episode == limit


def test_the_arms_of_a_bandit_stay_the_same_in_all_episodes():
    actions = np.full((8, LANES), 3, np.int32)
    _, _, rows = rollout(load("SimpleBandit-bsuite"), 8, actions)
    paid = np.asarray(rows.reward)[np.asarray(rows.is_last())].reshape(-1, LANES)
    assert len(paid) == 4
    assert (paid == paid[0]).all()
    assert len(set(paid[0].tolist())) > 1
    np.testing.assert_allclose(rows.env_info["total_regret"][-2], 4 * (1 - paid[0]), rtol=1e-5)  # of all episodes


def test_deep_sea_terminates_at_its_horizon_and_carries_over_only_its_counters():
    env = load("DeepSea-bsuite", size=3, autoreset="same_step", randomize_actions=False)
    _, state, rows = rollout(env, 6, np.zeros((6, LANES), np.int32))
    ends = np.arange(6)[:, None] % 3 == 2
    assert ((rows.discount == 0) == ends).all()
    assert (rows.env_info["time_limit_reached"] == ends).all()
    task = task_of(state)
    assert task.env_state.total_bad_episodes.tolist() == [2] * LANES
    assert task.env_state.time.tolist() == [0] * LANES
    assert not task.env_state.bad_episode.any()
    assert rows.env_info["total_bad_episodes"][:, 0].tolist() == [0, 0, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("id", "entries"),
    [
        ("FrozenLake-misc", ["p"]),
        ("CartPole-v1", []),
        ("MemoryChain-bsuite", ["total_perfect", "total_regret"]),
        ("UmbrellaChain-bsuite", ["total_regret"]),
    ],
)
def test_env_info_has_gymnaxs_info_and_counters_without_the_fields_of_a_timestep(id, entries):
    assert sorted(load(id).env_info_spec()) == sorted([*entries, "time_limit_reached"])


@pytest.mark.parametrize("id", ["MemoryChain-bsuite", "UmbrellaChain-bsuite"])
def test_counters_are_carried_over_to_the_next_episode_and_the_time_is_not(id):
    env = bare(id, 2)
    fresh = zeros(env.initial, random.stream(jax.random.split(jax.random.key(0), 2)))
    old = tree.rebuild(fresh, env_state=jax.tree.map(lambda x: x + np.array(3, x.dtype), fresh.env_state))
    carried = env.carry(old, fresh)
    assert all(counter.tolist() == [3, 3] for counter in env.state_info(carried).values())
    assert carried.env_state.time.tolist() == [0, 0]


def test_starts_are_declared_constant_only_where_they_are_not_random():
    def constant(id, **kwargs):
        return {"lanes_differ", "episodes_differ"} <= bare(id, 2, **kwargs).opt_outs.keys()

    assert constant("FourRooms-misc")
    assert not constant("FourRooms-misc", resample_init_pos=True)
    assert not constant("FourRooms-misc", resample_goal_pos=[False, True])
    assert not constant("DeepSea-bsuite", sample_action_map=True)
    assert not constant("CartPole-v1")


# --- under JAX -------------------------------------------------------------------------------------------------------


def test_equal_configurations_share_a_compilation():
    @jax.jit
    @chex.assert_max_traces(n=1)
    def one(env, key):
        return env.reset(key)[1]

    for gravity in (9.8, 5, np.float32(1)):
        one(load("CartPole-v1", gravity=gravity), jax.random.key(0))
    assert load("Catch-bsuite", rows=6).unwrapped._single is load("Catch-bsuite", rows=6).unwrapped._single


def test_an_environment_can_be_pickled():
    env = load("FourRooms-misc", use_visual_obs=True, fail_prob=[0.5] * LANES)
    again = pickle.loads(pickle.dumps(env))
    assert jax.tree.structure(again) == jax.tree.structure(env)
    assert again.unwrapped.params.fail_prob.tolist() == [0.5] * LANES


def test_environments_can_be_loaded_inside_a_trace():
    suite.single.cache_clear()
    shape = jax.eval_shape(lambda key: load("DeepSea-bsuite", size=7).reset(key)[1].observation, jax.random.key(0))
    assert shape.shape == (LANES, 7, 7)
    kept = load("DeepSea-bsuite", size=7).unwrapped._single.env.action_mapping
    assert not isinstance(kept, jax.core.Tracer)  # a tracer would have leaked


@pytest.mark.parametrize("id", ["DiscountingChain-bsuite", "GaussianBandit-misc"])
def test_x64_mode_does_not_change_dtypes(id):
    def both(key):
        env = load(id, 2)
        state, first = env.reset(key)
        return first, env.step(state, specs.zeros(env.action_spec(), (2,)))

    narrow = kinds(jax.eval_shape(both, jax.random.key(0)))
    suite.single.cache_clear()
    with jax.enable_x64(True):
        assert kinds(jax.eval_shape(both, jax.random.key(0))) == narrow


def test_a_gymnax_environment_and_the_native_one_can_share_a_batch():
    env = jaxenv.make(["Pendulum-v1", "gymnax:Pendulum-v1"], 2, task=np.array([0, 1]))
    assert env.task_names == ("Pendulum-v1", "gymnax:Pendulum-v1")
    assert [type(task.unwrapped).__name__ for task in env.unwrapped.envs] == ["Pendulum", "GymnaxEnvironment"]
    assert env.time_step_spec().env_info.keys() == {"abnormal", "task_id", "time_limit_reached"}
