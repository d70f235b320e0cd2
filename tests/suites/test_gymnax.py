"""gymnax's environments as batched ones: the same numbers as gymnax's own, under the episodes of this library."""

import pickle
import re
import sys

import flax.struct
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, specs, tree
from jaxenv.suites import gymnax as suite
from jaxenv.suites import gymnax_tasks
from jaxenv.testing import check_env
from jaxenv.timestep import StepType
from jaxenv.wrapper import layers

LANES = 8
THOROUGH = ("Acrobot-v1", "Pong-misc", *(id for id in suite.ids() if "MinAtar" in id))  # which take long to trace
EVERY = [
    pytest.param(id, marks=pytest.mark.thorough) if id in THOROUGH else id
    for id in suite.ids()
    if id != "MNISTBandit-bsuite"
]


def load(id, num_envs=LANES, **kwargs):
    return jaxenv.load(f"gymnax:{id}", num_envs, **kwargs)


@jax.jit
def start(env, key):
    return env.reset(key)


@jax.jit
def play(env, state, actions):
    """The last state, and rows ``[T, B]`` for actions ``[T, B, ...]``."""
    return jax.lax.scan(env.step, state, actions)


def rollout(env, num_steps, actions=None, key=0):
    """The FIRST rows, the last state, and the rows of ``num_steps`` random (or the given) actions."""
    if actions is None:
        actions = jax.device_get(specs.sample(env.action_spec(), jax.random.key(1), (num_steps, env.num_envs)))
    state, first = start(env, jax.random.key(key))
    return first, *play(env, state, actions)


# --- the numbers are gymnax's ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["CartPole-v1", pytest.param("MountainCarContinuous-v0", marks=pytest.mark.thorough)])
def test_episodes_are_those_that_gymnax_plays(id):
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
    np.testing.assert_allclose(rows.observation[lived], observation[lived], atol=1e-5)  # rounding of one step or other
    np.testing.assert_allclose(rows.reward[lived], reward[lived], atol=1e-5)
    assert ((rows.discount == 0)[lived] == terminated[lived]).all()
    assert ((rows.step_type == StepType.LAST)[lived] == (terminated | truncated)[lived]).all()
    if id == "CartPole-v1":
        assert 0 < terminated[lived].sum() < LANES  # both kinds of end


def task_of(state):
    while not hasattr(state, "task"):
        state = state.inner
    return state.task


# --- the native environment of the same name -------------------------------------------------------------------------


@jax.jit
def advance(env, task, action, keys):
    out = env.transition(task, action, random.stream(keys))
    return env.observe(out.state), out.reward, out.terminated


def bare(id, num_envs, **kwargs):
    return layers(load(id, num_envs, **kwargs))[-1]


def uniform(seed, ranges, num):
    low, high = np.array(ranges, np.float64).T
    return np.random.default_rng(seed).uniform(low, high, (num, len(ranges))).astype(np.float32).T


PI = np.pi
STATES = {
    # Fields of both states in one order, from where to where numbers are drawn, and params of lanes of their own.
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
        pytest.param("Acrobot-v1", 5e-3, marks=pytest.mark.thorough),  # four slopes a step, of rates up to 12
    ],
)
def test_one_step_is_that_of_the_native_environment_and_params_may_be_one_per_lane(id, tolerance):
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
    assert np.mean(a[2] != b[2]) <= 0.002  # those within rounding of a threshold
    assert a[2].any() or id == "Pendulum-v1"


def zeros(function, *given):
    return jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), jax.eval_shape(function, *given))


def catch_starts(first):
    return {"ball_x": np.argmax(first.observation[:, 0], axis=-1).astype(np.int32)}


def breakout_starts(first):
    left = first.observation[:, 3, 0, 1] != 0
    column = np.where(left, 0, 9).astype(np.int32)
    return {"ball_x": column, "last_x": column, "ball_dir": np.where(left, 2, 3).astype(np.int32)}


def memory_starts(first):
    return {"context": (first.observation[:, 0, 2:] > 0).astype(np.int32)}


GAMES = {
    # The native id; arguments that leave nothing to chance, there and here; what is drawn at the start; steps.
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
def test_whole_episodes_are_those_of_the_native_environment(id):
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
    np.testing.assert_allclose(b.reward[lived], a.reward[lived], atol=1e-6)  # DeepSea's cost is divided elsewhere
    wanted = a.observation.astype(np.float32).reshape(b.observation.shape)[lived]  # bsuite's chains have one more axis
    np.testing.assert_allclose(b.observation[lived], wanted, atol=1e-6)


# --- episodes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", EVERY)
def test_types_are_strong_and_those_of_the_specs_and_no_key_is_used_twice(id):
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


def kinds(shapes):
    return [(s.shape, s.dtype, getattr(s, "weak_type", False)) for s in jax.tree.leaves(shapes)]


@pytest.mark.parametrize("id", ["PointRobot-misc", pytest.param("UmbrellaChain-bsuite", marks=pytest.mark.thorough)])
def test_lanes_out_of_phase_keep_grammar_discount_and_bounds(id):
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
        ("DiscountingChain-bsuite", {"max_episode_steps": 50}, False),  # of the user's own, so no end of the task
        ("DiscountingChain-bsuite", {"max_episode_steps": 50, "horizon_terminates": True}, True),
        ("DiscountingChain-bsuite", {"horizon_terminates": False}, False),
        ("Catch-bsuite", {}, False),
        ("Catch-bsuite", {"horizon_terminates": True}, True),
    ],
)
def test_the_horizon_is_an_end_where_the_original_says_so_or_the_user(id, kwargs, terminal):
    assert load(id, **kwargs).env.terminal is terminal


def test_gymnax_sees_the_limit_that_is_given():
    _, _, rows = rollout(load("DiscountingChain-bsuite", 2, max_episode_steps=[4, 8]), 4)
    np.testing.assert_allclose(rows.observation[3, :, 1], [1, 0.5])
    assert rows.is_last()[3].tolist() == [True, False]
    assert rows.discount[3].tolist() == [1, 1]


def test_without_a_limit_the_time_of_a_chain_has_no_bound():
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
def test_the_limit_is_gymnaxs_own_or_the_given(id, kwargs, limit):
    env = load(id, **kwargs)
    assert env.env.duration == limit
    assert env.unwrapped.max_steps_in_episode == limit


def test_the_arms_of_a_bandit_outlive_its_episodes():
    actions = np.full((8, LANES), 3, np.int32)
    _, _, rows = rollout(load("SimpleBandit-bsuite"), 8, actions)
    paid = np.asarray(rows.reward)[np.asarray(rows.is_last())].reshape(-1, LANES)
    assert len(paid) == 4
    assert (paid == paid[0]).all()
    assert len(set(paid[0].tolist())) > 1
    np.testing.assert_allclose(rows.env_info["total_regret"][-2], 4 * (1 - paid[0]), rtol=1e-5)  # of all episodes


def test_deep_sea_ends_by_termination_on_its_horizon_and_keeps_its_counters_and_nothing_else():
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
def test_what_gymnax_tells_of_a_step_and_counters_are_in_env_info_and_what_the_row_says_is_not(id, entries):
    assert sorted(load(id).env_info_spec()) == sorted([*entries, "time_limit_reached"])


@pytest.mark.parametrize("id", ["MemoryChain-bsuite", "UmbrellaChain-bsuite"])
def test_counters_outlive_an_episode_and_the_clock_does_not(id):
    env = bare(id, 2)
    fresh = zeros(env.initial, random.stream(jax.random.split(jax.random.key(0), 2)))
    old = tree.rebuild(fresh, env_state=jax.tree.map(lambda x: x + np.array(3, x.dtype), fresh.env_state))
    carried = env.carry(old, fresh)
    assert all(counter.tolist() == [3, 3] for counter in env.state_info(carried).values())
    assert carried.env_state.time.tolist() == [0, 0]


def test_starts_are_said_to_be_alike_only_where_nothing_draws_them():
    def alike(id, **kwargs):
        return {"lanes_differ", "episodes_differ"} <= bare(id, 2, **kwargs).opt_outs.keys()

    assert alike("FourRooms-misc")
    assert not alike("FourRooms-misc", resample_init_pos=True)
    assert not alike("FourRooms-misc", resample_goal_pos=[False, True])
    assert not alike("DeepSea-bsuite", sample_action_map=True)
    assert not alike("CartPole-v1")


# --- numbers and options ---------------------------------------------------------------------------------------------


def test_params_that_follow_from_others_are_computed():
    env = load("CartPole-v1", 2, masspole=[0.1, 1.0], gravity=5.0)
    params = env.unwrapped._single.env_params({**vars(env.unwrapped.params), "max_steps_in_episode": 500})
    np.testing.assert_allclose(params.total_mass, [1.1, 2.0], rtol=1e-6)
    np.testing.assert_allclose(params.polemass_length, [0.05, 0.5], rtol=1e-6)


@pytest.mark.parametrize(
    ("id", "kwargs", "shape", "values"),
    [
        ("Catch-bsuite", {"rows": 6, "columns": 3}, (6, 3), 3),
        ("FourRooms-misc", {"use_visual_obs": True}, (13, 13, 2), 4),
        ("FrozenLake-misc", {"desc": ["SF", "FG"]}, (), 4),
        ("SimpleBandit-bsuite", {"num_actions": 4}, (1, 1), 4),
        ("DeepSea-bsuite", {"size": 4, "action_mapping_key": jax.random.key(3)}, (4, 4), 2),
    ],
)
def test_arguments_of_gymnaxs_constructor_are_options(id, kwargs, shape, values):
    env = load(id, **kwargs)
    assert (env.observation_spec().shape, env.action_spec().num_values) == (shape, values)


def test_bounds_follow_the_options_that_they_show():
    env = load("CartPole-v1", x_threshold=1.0)
    assert env.observation_spec().maximum[0] == 2
    assert load("PointRobot-misc", max_force=0.5).action_spec().maximum.tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="x_threshold moves the bounds of a spec: give it to load"):
        env.with_params(x_threshold=2.0)


@pytest.mark.parametrize(
    ("id", "kwargs", "message"),
    [
        ("CartPole", {}, "gymnax: no environment 'CartPole'; the closest ids are CartPole-v1, "),
        ("Catch-bsuite", {"row": 3}, "gymnax:Catch-bsuite: unknown keyword 'row', the valid ones are columns, rows"),
        ("CartPole-v1", {"gravitas": 3}, "unknown keyword 'gravitas', the valid ones are force_mag, gravity, length, "),
        ("CartPole-v1", {"total_mass": 3.0}, "gymnax:CartPole-v1: total_mass follows from other params"),
        ("CartPole-v1", {"max_steps_in_episode": 3}, "is the time limit: give max_episode_steps to load"),
        ("CartPole-v1", {"x_threshold": [1.0, 2.0]}, "x_threshold moves the bounds of a spec and must be a number"),
        ("CartPole-v1", {"gravity": [1.0, 2.0, 3.0]}, "gravity has 3 values, one per lane would be num_envs = 8"),
        ("CartPole-v1", {"params": {}}, "gymnax:CartPole-v1: unknown keyword 'params'"),
        ("CartPole-v1", {"mode": "test"}, "make: mode must be 'train' or 'eval', got 'test'"),
        ("MetaMaze-misc", {"maze_size": 4}, "gymnax:MetaMaze-misc: gymnax refuses {'maze_size': 4}"),
        ("Catch-bsuite", {"rows": 0}, "gymnax:Catch-bsuite: gymnax refuses {'rows': 0}: "),
        ("DeepSea-bsuite", {"size": 0}, "gymnax:DeepSea-bsuite: gymnax refuses {'size': 0}: "),
        ("Catch-bsuite", {"rows": [5]}, "gymnax:Catch-bsuite: rows must be of type int, got (5,)"),
        ("Catch-bsuite", {"rows": {"a": 1}}, "gymnax:Catch-bsuite: rows must be hashable, or an array or a list"),
        ("Catch-bsuite", {"rows": True}, "gymnax:Catch-bsuite: rows must be of type int, got True"),
        ("Catch-bsuite", {"name": "mine"}, "gymnax:Catch-bsuite: unknown keyword 'name'"),
        ("CartPole-v1", {"x_threshold": True}, "x_threshold moves the bounds of a spec and must be a number, got True"),
        ("CartPole-v1", {"x_threshold": -1.0}, "gymnax:CartPole-v1: gymnax refuses {'x_threshold': -1.0}: "),
        ("CartPole-v1", {"max_episode_steps": 2.5}, "gymnax:CartPole-v1: max_episode_steps must be int32, got 2.5"),
        (
            "CartPole-v1",
            {"max_episode_steps": [1, 2]},
            "CartPole-v1: max_episode_steps has 2 values, one per lane would",
        ),
        ("CartPole-v1", {"horizon_terminates": "no"}, "horizon_terminates must be True, False or None, got 'no'"),
        (
            "CartPole-v1",
            {"horizon_terminates": True, "max_episode_steps": 0},
            "=True needs a time limit, got max",
        ),
    ],
)
def test_what_does_not_fit_is_refused(id, kwargs, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        load(id, **kwargs)


def test_params_that_follow_from_others_cannot_be_changed_later_either():
    with pytest.raises(ValueError, match=r"total_mass follows from other params, give those, got 2\.0"):
        load("CartPole-v1").with_params(total_mass=2.0)


def test_nothing_is_downloaded(monkeypatch, tmp_path):
    monkeypatch.setattr(gymnax_tasks, "MNIST_FILES", [str(tmp_path / "train.gz")])
    with pytest.raises(
        ValueError, match=r"gymnax would download MNIST now; put it there yourself: no file .*train\.gz"
    ):
        load("MNISTBandit-bsuite")


def test_the_bandit_of_digits_plays_where_the_data_are(monkeypatch):
    images = np.random.default_rng(0).integers(-128, 128, (20, 28, 28)).astype(np.int8)
    monkeypatch.setattr(gymnax_tasks, "MNIST_FILES", [])
    monkeypatch.setattr("gymnax.utils.load_mnist.load_mnist", lambda: ((images, np.arange(20) % 10), None))
    env = load("MNISTBandit-bsuite", fraction=0.5)
    _, timestep = jax.eval_shape(env.reset, jax.random.key(0))
    suite._single.cache_clear()  # so that nobody else finds it
    assert timestep.observation.shape == (LANES, 28, 28)
    assert "regret" in timestep.env_info
    assert env.env.duration == 1


def test_without_gymnax_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnax", None)
    with pytest.raises(ImportError, match="the gymnax suite needs gymnax: pip install gymnax six"):
        suite.ids()


class Pair(gymnax.environments.environment.Environment):
    """Somebody's own environment: trees for observations and actions, and types that change from reset to step."""

    def reset_env(self, key, params):
        return {"near": jnp.zeros(2), "far": 0}, gymnax.environments.environment.EnvState(time=0)

    def step_env(self, key, state, action, params):
        state = state.replace(time=state.time + 1.0)
        return {"near": action[1], "far": action[0]}, state, 1, state.time > 2, {"seen": state.time}

    def action_space(self, params=None):
        return gymnax.environments.spaces.Tuple(
            [gymnax.environments.spaces.Discrete(3), gymnax.environments.spaces.Box(-1, 1, (2,))]
        )

    def observation_space(self, params):
        return gymnax.environments.spaces.Dict(
            {"near": gymnax.environments.spaces.Box(-1, 1, (2,)), "far": gymnax.environments.spaces.Discrete(3)}
        )


def test_environments_that_were_registered_with_gymnax_are_there_too(monkeypatch):
    monkeypatch.setitem(gymnax.registration._registry, "Pair-v0", Pair)
    monkeypatch.setattr(gymnax, "registered_envs", [*gymnax.registered_envs, "Pair-v0"])
    env = load("Pair-v0", 2)
    assert env.observation_spec() == {"near": specs.Bounded((2,), np.float32, -1, 1), "far": specs.discrete(3)}
    assert env.action_spec() == (specs.discrete(3), specs.Bounded((2,), np.float32, -1, 1))
    assert check_env(env, properties=["same_tree", "leading_lanes", "rows_match_specs", "strict_promotion"]).ok
    assert task_of(jax.eval_shape(env.reset, jax.random.key(0))[0]).env_state.time.dtype == np.float32


@flax.struct.dataclass
class Mass:
    grams: float = 1.0


@flax.struct.dataclass
class OddParams(gymnax.environments.environment.EnvParams):
    scale: float = 1.0
    shift: None = None
    kind: str = flax.struct.field(pytree_node=False, default="cart")
    mass: Mass = Mass()
    max_steps_in_episode: int = 10


class Odd(Pair):
    """It needs an argument, and not all of its params are numbers."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    @property
    def default_params(self):
        return OddParams()

    def observation_space(self, params):
        return {"cart": super().observation_space}[params.kind](params)


def test_arguments_may_be_required_and_params_that_are_no_numbers_stay(monkeypatch):
    monkeypatch.setitem(gymnax.registration._registry, "Odd-v0", Odd)
    monkeypatch.setitem(gymnax.registration._registry, "Handed-v0", lambda **kwargs: Odd(**kwargs))
    monkeypatch.setattr(gymnax, "registered_envs", [*gymnax.registered_envs, "Odd-v0", "Handed-v0"])
    assert load("Handed-v0", size=3).unwrapped._single.env.size == 3
    env = load("Odd-v0", 2, size=3, scale=[1.0, 2.0])
    assert (env.unwrapped._single.env.size, list(vars(env.unwrapped.params))) == (3, ["scale"])
    jax.eval_shape(env.reset, jax.random.key(0))
    with pytest.raises(ValueError, match="gymnax:Odd-v0: kind is no number that lanes could hold and stays 'cart'"):
        load("Odd-v0", size=3, kind="pole")
    with pytest.raises(ValueError, match=r"gymnax:Odd-v0: gymnax refuses \{\}: .*'size'"):
        load("Odd-v0")


def test_ids_are_gymnaxs():
    assert suite.ids() == sorted(gymnax.registered_envs)


# --- under JAX -------------------------------------------------------------------------------------------------------


def test_equal_configurations_share_what_is_compiled():
    traced = []

    @jax.jit
    def one(env, key):
        traced.append(env)
        return env.reset(key)[1]

    for gravity in (9.8, 5, np.float32(1)):
        one(load("CartPole-v1", gravity=gravity), jax.random.key(0))
    assert len(traced) == 1
    assert load("Catch-bsuite", rows=6).unwrapped._single is load("Catch-bsuite", rows=6).unwrapped._single


def test_an_environment_can_be_pickled():
    env = load("FourRooms-misc", use_visual_obs=True, fail_prob=[0.5] * LANES)
    again = pickle.loads(pickle.dumps(env))
    assert jax.tree.structure(again) == jax.tree.structure(env)
    assert again.unwrapped.params.fail_prob.tolist() == [0.5] * LANES


def test_it_may_be_loaded_while_something_is_traced():
    suite._single.cache_clear()
    shape = jax.eval_shape(lambda key: load("DeepSea-bsuite", size=7).reset(key)[1].observation, jax.random.key(0))
    assert shape.shape == (LANES, 7, 7)
    kept = load("DeepSea-bsuite", size=7).unwrapped._single.env.action_mapping
    assert not isinstance(kept, jax.core.Tracer)  # it would belong to that trace


@pytest.mark.parametrize("id", ["DiscountingChain-bsuite", "GaussianBandit-misc"])
def test_wide_types_change_nothing_where_gymnaxs_own_step_raises(id):
    def both(key):
        env = load(id, 2)
        state, first = env.reset(key)
        return first, env.step(state, specs.zeros(env.action_spec(), (2,)))

    narrow = kinds(jax.eval_shape(both, jax.random.key(0)))
    suite._single.cache_clear()
    with jax.enable_x64(True):
        assert kinds(jax.eval_shape(both, jax.random.key(0))) == narrow
