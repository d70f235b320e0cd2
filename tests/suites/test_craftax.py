"""Craftax's environments: equal to Craftax's own loop, under the episodes of this library."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.suites import craftax as suite
from tests.suites.comparison import compare

# Names of JAX that Craftax's dependencies still use.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
craftax = pytest.importorskip("craftax.craftax_env")

LANES = 4
CLASSIC = "Craftax-Classic-Symbolic-v1"
# Worlds of a quarter of the size, which kill quickly.
DEADLY = {"spawn_zombie_base_chance": 1.0}
STATIC = {"map_size": (32, 32), "max_zombies": 12}


def load(id=CLASSIC, num_envs=LANES, **kwargs):
    return jaxenv.make(f"craftax:{id}", num_envs, **STATIC, **kwargs)


def test_episodes_equal_those_of_craftax_with_its_limit_as_truncation():
    env = load(autoreset=None, max_episode_steps=40, **DEADLY)
    plain = craftax.make_craftax_env_from_name(CLASSIC, auto_reset=False)
    own = type(plain)(plain.static_env_params.replace(**STATIC))
    params = own.default_params.replace(**DEADLY, max_timesteps=40)

    def step(state, action, key):
        observation, state, reward, done, _ = own.step(key, state, action, params)
        return state, observation, reward, state.player_health <= 0, done

    rows, terminations, truncations = compare(env, 41, step, keyed=True)
    assert terminations + truncations == LANES
    assert terminations > 0
    assert truncations > 0
    achieved = rows.env_info["achievements"].sum(axis=-1)
    assert achieved[0].sum() == 0
    assert (achieved[1:] >= achieved[:-1]).all()
    assert achieved[-1].sum() > 0


def test_a_last_row_has_the_achievements_of_the_episode_that_ends():
    env = load(max_episode_steps=30, autoreset="same_step")
    policy = jaxenv.rollout.random_policy(env)
    rows = jax.jit(lambda key: jaxenv.unroll(env, policy, *env.reset(key), 62)[1].timestep)(jax.random.key(0))
    achieved, last = np.asarray(rows.env_info["achievements"].sum(axis=-1)), np.asarray(rows.is_last())
    assert last.any()
    assert (achieved[1:] >= achieved[:-1])[last[1:]].all()
    assert achieved[last].sum() > 0
    after = last[:-1]
    assert (achieved[1:][after] <= achieved[:-1][after]).all()
    assert (achieved[1:][after] < achieved[:-1][after]).any()


@pytest.fixture(scope="module")
def two_episodes():
    """An environment whose lanes have days of different lengths, and the rows of two of its episodes of one step.

    The last step comes after Craftax's own time limit.
    """
    env = load(num_envs=2, max_episode_steps=1, day_length=[300, 2])
    env = pickle.loads(pickle.dumps(env))
    state, row = jax.jit(env.reset)(jax.random.key(0))
    step, rows = jax.jit(env.step), [row]
    for number in range(3):
        if number == 2:
            state = jax.tree_util.tree_map_with_path(_after_the_limit, state)
        state, row = step(state, np.zeros(2, np.int32))
        rows.append(row)
    return env, jax.device_get(rows)


def _after_the_limit(path, leaf):
    return jnp.full_like(leaf, 20_000) if tree.path_name(path).endswith("env_state.timestep") else leaf


def test_craftaxs_own_limit_is_out_of_reach(two_episodes):
    _, rows = two_episodes
    assert rows[3].is_last().all()
    assert rows[3].truncated.all()


def test_every_episode_starts_in_a_world_of_its_own_under_its_declared_bounds(two_episodes):
    env, rows = two_episodes
    assert [row.step_type[0] for row in rows] == [0, 2, 0, 2]
    starts = np.concatenate([row.observation for row in rows if row.is_first().all()])
    assert len(np.unique(starts, axis=0)) == 4
    spec = env.observation_spec()
    assert (spec.minimum.min(), spec.maximum.max()) == (0, 1)
    for row in rows:
        assert row.observation.dtype == spec.dtype
        assert (row.observation >= 0).all()
        assert (row.observation <= 1).all()


def test_params_may_differ_between_lanes_and_options_survive_pickling(two_episodes):
    env, rows = two_episodes
    assert env.params.day_length.tolist() == [300, 2]
    assert env.unwrapped._single is load().unwrapped._single
    light = np.stack([row.observation[:, -2] for row in rows[:2]])
    np.testing.assert_allclose(light[0], light[0, 0])
    assert abs(light[1, 0] - light[0, 0]) < 0.01
    assert abs(light[1, 1] - light[0, 1]) > 0.1


def test_a_world_does_not_depend_on_the_place_of_its_lane_in_a_large_batch():
    # In jaxlib 0.10.2 the noise of small maps under vmap is wrong from the 33rd lane on.
    start, lanes = jax.jit(load(num_envs=40, autoreset=None).reset), np.arange(40, dtype=np.int32)
    _, row = start(jax.random.key(0), lanes)
    _, turned = start(jax.random.key(0), lanes[::-1])
    np.testing.assert_array_equal(row.observation, turned.observation[::-1])


def test_ids_are_those_of_craftax():
    assert CLASSIC in suite.ids()
    action, limit = suite.action_and_limit("Craftax-Pixels-v1")  # loads no textures
    assert (action.num_values, limit) == (43, 100000)
    assert suite.action_and_limit(CLASSIC)[1] == load().env.duration == 10000


@pytest.mark.parametrize(
    ("id", "kwargs", "message"),
    [
        ("Craftax-Symbolic-v2", {}, "craftax: no environment 'Craftax-Symbolic-v2', did you mean"),
        (CLASSIC, {"zombies": 5}, f"craftax:{CLASSIC}: unknown keyword 'zombies', did you mean"),
        (CLASSIC, {"max_cows": 5.5}, r"max_cows .*got 5.5"),
        (CLASSIC, {"max_timesteps": 5}, r"max_timesteps is the time.* max_episode_steps to load, got 5"),
    ],
)
def test_wrong_ids_and_keywords_are_refused(id, kwargs, message):
    with pytest.raises(ValueError, match=message):
        load(id, **kwargs)
