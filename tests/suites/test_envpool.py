"""EnvPool's environments: equal to its own pools, under the rows of this library; seeds, errors and ends of pools."""

import pickle
import subprocess
import sys
import textwrap
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import interop
from jaxenv.cli.rollout import compiled
from jaxenv.suites import envpool as suite
from jaxenv.suites.envpool import HostEnvironmentError
from jaxenv.testing import check_env

envpool = pytest.importorskip("envpool")

# EnvPool rounds its bounds to float32.
rounds = pytest.mark.filterwarnings("ignore:.*precision lowered:UserWarning")
pytestmark = [rounds, pytest.mark.usefixtures("quiet")]
LANES = 2
# What compiled code raises for an error in a callback; its text holds that of the error.
FAILED = (HostEnvironmentError, jax.errors.JaxRuntimeError)


@pytest.fixture
def load(loaded):
    """``jaxenv.make`` for the suite; what it loads is closed after the test."""

    def load(name, num_envs=LANES, **kwargs):
        loaded.append(jaxenv.make(f"envpool:{name}", num_envs, **kwargs))
        return loaded[-1]

    return load


def zeros(env):
    return env.action_spec().zeros((env.num_envs,))


def rows_of(env, num_steps, key=0):
    """The trajectory of random actions, in compiled code."""
    policy = jaxenv.rollout.random_policy(env)
    run = jax.jit(lambda key: jaxenv.unroll(env, policy, *env.reset(key), num_steps)[1])
    return jax.device_get(run(jax.random.key(key)))


def seeds_of(env):
    clock = env.clock(env.reset(jax.random.key(0))[0])
    return [int(word) % 2**31 for word in jaxenv.random.bits(clock.stream("seed"))]


@pytest.mark.parametrize(
    ("name", "num_steps", "kwargs"),
    [
        ("CartPole-v1", 60, {"max_episode_steps": 15}),
        ("HalfCheetah-v5", 12, {"max_episode_steps": 5}),
        ("LunarLander-v3", 250, {}),
        ("Pong-v5", 12, {"max_episode_steps": 5}),
    ],
)
def test_whole_episodes_equal_those_of_a_bare_pool(load, name, num_steps, kwargs):
    env = load(name, **kwargs)
    rows = rows_of(env, num_steps)
    ours = rows.timestep
    pool = envpool.make_gymnasium(name, num_envs=LANES, env_seed=seeds_of(env), **kwargs)
    observation, info = pool.reset()
    ended = np.zeros(LANES, bool)
    np.testing.assert_array_equal(ours.observation[0], observation.astype(ours.observation.dtype))
    for t, action in enumerate(rows.action[:-1], start=1):
        observation, reward, terminated, truncated, info = pool.step(action)
        np.testing.assert_array_equal(ours.observation[t], observation.astype(ours.observation.dtype))
        np.testing.assert_array_equal(ours.reward[t], reward)
        last = terminated | truncated
        np.testing.assert_array_equal(ours.step_type[t], np.where(ended, 0, np.where(last, 2, 1)))
        np.testing.assert_array_equal(ours.discount[t], np.where(terminated, 0, 1))
        for entry, values in ours.env_info.items():
            np.testing.assert_array_equal(values[t], info[entry].astype(values.dtype))
        ended = last
    last = ours.step_type == 2
    assert last.any()
    if name == "CartPole-v1":
        assert (last & (ours.discount == 0)).any()
        assert (last & (ours.discount == 1)).any()
    np.testing.assert_array_equal(ours.env_info["elapsed_step"][ours.step_type == 0], 0)


def test_an_atari_game_shows_images_and_lives(load):
    env = load("Breakout-v5", 1)
    _, row = env.reset(jax.random.key(0))
    assert env.observation_spec() == jaxenv.specs.Bounded((4, 84, 84), np.uint8, 0, 255)
    assert row.env_info["lives"].tolist() == [5]
    assert len(np.unique(row.observation)) > 1


def test_seeds_differ_between_lanes_and_resets_and_follow_the_key(load):
    env = load("CartPole-v1", 8)
    starts = [np.asarray(env.reset(jax.random.key(n))[1].observation) for n in (0, 1, 0)]
    assert len(np.unique(np.concatenate(starts[:2]), axis=0)) == 16
    np.testing.assert_array_equal(starts[0], starts[2])


def test_episodes_of_a_lane_differ(load):
    rows = rows_of(load("CartPole-v1", max_episode_steps=2), 9).timestep
    starts = rows.observation[rows.step_type == 0]
    assert len(starts) == len(np.unique(starts, axis=0)) == 3 * LANES


def test_a_limit_of_0_removes_the_one_of_the_pool(load):
    env = load("Pendulum-v1", max_episode_steps=0)
    assert (rows_of(env, 210).timestep.step_type[1:] == 1).all()


@pytest.mark.parametrize(
    ("name", "options", "bound"),
    [
        ("Pendulum-v1", {}, 200),
        ("Pendulum-v1", {"max_episode_steps": 7}, 7),
        ("Pendulum-v1", {"max_episode_steps": 0}, 2**31 - 1),
        ("highway-fast-v0", {}, 2**31 - 1),  # EnvPool shows a limit and does not follow it
    ],
)
def test_the_time_limit_that_envpool_follows_bounds_an_evaluation(load, name, options, bound):
    assert int(load(name, **options)._longest_episode) == bound


@pytest.mark.parametrize("name", ["NChain-v0", "FrozenLake8x8-v1", "Sokoban-v0"])
def test_a_limit_truncates_at_its_step(load, name):
    rows = rows_of(load(name, max_episode_steps=2), 7).timestep
    np.testing.assert_array_equal(rows.step_type, np.tile([[0], [1], [2]], (3, LANES))[:7])
    assert (rows.discount == 1).all()


@pytest.mark.parametrize(
    "name",
    [
        *("Catch-v0", "CliffWalking-v1", "CliffWalkingSlippery-v1", "Maze-v0", "RubiksCube-v0"),
        *("Play2048-v1", "Racetrack-v0", "highway-fast-v0", "tabular/CliffWalking-v0"),
    ],
)
def test_a_limit_that_envpool_does_not_read_is_refused(load, name):
    pool = envpool.make_gymnasium(name, num_envs=LANES, env_seed=[0, 1], max_episode_steps=1)
    _, info = pool.reset()
    for _ in range(2):
        *_, info = pool.step(np.zeros((LANES, *pool.action_space.shape), pool.action_space.dtype))
    assert (info["elapsed_step"] == 2).any()
    for limit in (1, 0):
        with pytest.raises(ValueError, match=f"EnvPool does not read max_episode_steps in .*, got {limit}"):
            load(name, max_episode_steps=limit)


def test_highway_truncates_at_its_duration(load):
    rows = rows_of(load("UTurn-v0", duration=3), 12).timestep
    at_end = rows.is_last() & (rows.env_info["elapsed_step"] == 3)
    assert at_end.any()
    assert (rows.discount[at_end] == 1).all()


@pytest.mark.parametrize("name", ["RubiksCube-partly-scrambled-v0", "Jumanji/RubiksCube-partly-scrambled-v0"])
def test_a_time_limit_of_jumanji_truncates_although_envpool_says_terminated(load, name):
    env = load(name)
    for copy in (env, pickle.loads(pickle.dumps(env)), env.unwrapped._with_num_envs(3)):
        rows = rows_of(copy, 22).timestep
        assert rows.is_last()[20].all()
        assert (rows.discount == 1).all()
    assert suite.action_and_limit(name)[1] == 20


def test_a_last_step_of_the_task_terminates_in_jumanji(load):
    rows = rows_of(load("Knapsack-v1"), 40).timestep
    assert (rows.discount[rows.is_last()] == 0).all()
    assert rows.is_last().any()


@pytest.mark.parametrize(
    ("name", "limit"), [("LaneKeeping-v0", None), ("Highway-v0", 40), ("Knapsack-v1", None), ("Catch-v0", None)]
)
def test_a_limit_that_does_not_end_episodes_is_not_listed(name, limit):
    assert suite.action_and_limit(name)[1] == limit


def test_programs_that_step_from_python_reset_all_lanes_again():
    with interop.host("envpool:CartPole-v1", LANES, seed=3) as envs:
        first, second, again, then = (envs.reset(seed).observation for seed in (None, None, 3, None))
        np.testing.assert_array_equal(first, again)
        np.testing.assert_array_equal(second, then)
        assert (first != second).all()
        with pytest.raises(ValueError, match="some lanes cannot be restarted"):
            envs.reset(mask=np.arange(LANES) == 0)
        seeds = [envs.reset([1, 2]).observation, envs.reset().observation]
        np.testing.assert_array_equal(seeds[0], envs.reset([1, 2], np.ones(LANES, bool)).observation)
        np.testing.assert_array_equal(seeds[1], envs.reset().observation)


def test_devices_cannot_share_the_lanes(load):
    with pytest.raises(ValueError, match=r"devices .*got 2"):
        compiled(load("CartPole-v1"), 4, jax.random.key(0), devices=2)


def test_adapters_that_restart_episodes_themselves_say_who_takes_the_id():
    for adapter in (interop.to_gymnax, interop.to_gymnasium):
        with pytest.raises(ValueError, match=r"envpool:CartPole-v1 runs outside JAX .*; to_gymnasium_vector"):
            adapter("envpool:CartPole-v1")


def test_a_lower_bound_of_the_smallest_float_is_none(load):
    # EnvPool declares 1.2e-38 for float32 and 2.2e-308 for float64.
    for name in ("LunarLander-v3", "WalkerWalk-v1"):
        for spec in jax.tree.leaves(load(name).observation_spec()):
            assert not isinstance(spec, jaxenv.specs.Bounded)


def test_pictures_are_those_of_envpool(load):
    env = load("CartPole-v1", render_mode="rgb_array")
    state, _ = env.reset(jax.random.key(0))
    picture = env.render(state, (40, 60))
    assert picture.shape == (LANES, 40, 60, 3)
    assert len(np.unique(picture)) > 1


def test_old_states_and_vmap_are_refused(load):
    env = load("CartPole-v1")
    state, _ = env.reset(jax.random.key(0))
    env.step(state, zeros(env))
    for step in (env.step, jax.jit(env.step)):
        with pytest.raises(FAILED, match=r"envpool:CartPole-v1: step: the state.* 1 step old"):
            jax.block_until_ready(step(state, zeros(env)))
    with pytest.raises(ValueError, match="cannot run under vmap"):
        jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 3))
    with pytest.raises(ValueError, match="some lanes cannot be restarted"):
        jaxenv.reset_where(env, *env.reset(jax.random.key(0)), jnp.array([True, False]))


def test_an_error_of_the_pool_is_named_and_leaves_no_pool(load):
    env = load("HalfCheetah-v5", xml_file="none.xml")  # EnvPool reads the file when the pool is made
    for reset in (env.reset, jax.jit(env.reset)):
        with pytest.raises(FAILED, match=r"reset failed, all.*: RuntimeError: ParseXML"):
            jax.block_until_ready(reset(jax.random.key(0)))
    assert env.unwrapped.engine._env is None


def test_close_and_a_second_reset_free_the_pool(load):
    env = load("CartPole-v1")
    state, _ = env.reset(jax.random.key(0))
    first = weakref.ref(env.engine._env)
    env.reset(jax.random.key(1))
    assert first() is None
    with pytest.raises(HostEnvironmentError, match="the state belongs to an earlier reset"):
        env.step(state, zeros(env))
    second = weakref.ref(env.engine._env)
    env.close()
    assert second() is None
    with pytest.raises(HostEnvironmentError, match="the environment is closed, load it again"):
        env.reset(jax.random.key(0))


def test_an_unpickled_environment_has_a_pool_of_its_own(load):
    env = load("CartPole-v1")
    state, first = env.reset(jax.random.key(0))
    copy = pickle.loads(pickle.dumps(env))
    np.testing.assert_array_equal(copy.reset(jax.random.key(0))[1].observation, first.observation)
    env.step(state, zeros(env))
    copy.close()


def test_the_interpreter_exits_with_a_running_pool(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import jax, jaxenv
        env = jaxenv.make("envpool:CartPole-v1", num_envs=2)
        policy = jaxenv.rollout.random_policy(env)
        state, first = jax.jit(env.reset)(jax.random.key(0))
        rows = jax.jit(lambda s, f: jaxenv.unroll(env, policy, s, f, 5)[1])(state, first)
        print(rows.timestep.observation.shape)
        """)
    )
    line = [sys.executable, "-W", "ignore", script]
    done = subprocess.run(line, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "(5, 2, 4)"), done.stderr


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("CartPole-v2", {}, "envpool: no environment 'CartPole-v2', did you mean"),
        ("CartPole-v1", {"gravity": 5}, r"envpool rejects \{'gravity': 5\}: .*unexpected keyword argument 'gravity'"),
        ("CartPole-v1", {"seed": 3}, r"seed .*got 3"),
        ("CartPole-v1", {"batch_size": 1}, r"batch_size .*got 1"),
        ("CartPole-v1", {"autoreset": "same_step"}, r"autoreset .*got 'same_step'"),
        ("CartPole-v1", {"fixed_reset_key": 1}, r"fixed_reset_key .*got 1"),
        ("CartPole-v1", {"max_episode_steps": -1}, r"max_episode_steps .*got -1"),
        ("Chess-v1", {}, r"environments of several.* 2"),
    ],
)
def test_wrong_arguments_are_refused(load, name, kwargs, message):
    with pytest.raises(ValueError, match=message):
        load(name, **kwargs)


def test_options_of_make_may_be_given_their_defaults(load):
    assert load("CartPole-v1", reset_strategy=None, fixed_reset_key=None).action_spec().num_values == 2


def test_ids_are_listed_without_making_an_environment():
    assert {"CartPole-v1", "Pong-v5", "HalfCheetah-v5"} <= set(suite.ids())
    action, limit = suite.action_and_limit("CartPole-v1")
    assert (action.num_values, limit) == (2, 500)
    assert suite.docstring("Pong-v5") == "atari"


@pytest.mark.parametrize(("name", "num_steps"), [("CartPole-v1", 64), ("LunarLander-v3", 256)])
def test_the_conformance_kit_passes(load, name, num_steps):
    report = check_env(load(name), num_steps=num_steps)
    assert not report.failed
