"""XLand-MiniGrid's environments: equal to the suite's own loop, under the episodes of this library."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.suites import xminigrid as suite
from jaxenv.testing import check_env
from tests.suites.comparison import compare
from tests.suites.gymnax_rollouts import task_of

xminigrid = pytest.importorskip("xminigrid")

LANES = 6


def load(id, num_envs=LANES, **kwargs):
    return jaxenv.make(f"xminigrid:{id}", num_envs, **kwargs)


def ruleset(tiles):
    """Pick up a ball (goal 1) of one of two colours; the tiles of a red and a blue ball, and a rule without effect."""
    goal = jnp.array([1, 3, 1, 0, 0], jnp.uint8)
    return xminigrid.types.RuleSet(goal, jnp.zeros((2, 7), jnp.uint8), jnp.array(tiles, jnp.uint8))


def own_step(id, **kwargs):
    env, params = xminigrid.make(id, **kwargs)

    def step(state, action):
        timestep = xminigrid.types.TimeStep(state, jnp.uint8(0), jnp.float32(0), jnp.float32(1), ())
        timestep = env.step(params, timestep, action)
        return timestep.state, timestep.observation, timestep.reward, timestep.discount == 0, timestep.last()

    return step


@pytest.mark.parametrize("id", ["MiniGrid-EmptyRandom-5x5", "MiniGrid-DoorKey-5x5"])
def test_episodes_equal_those_of_the_suite_with_its_limit_as_truncation(id):
    env = load(id, autoreset=None, max_steps=40)
    _, terminations, truncations = compare(env, 41, own_step(id, max_steps=40))
    assert terminations + truncations == LANES
    assert truncations > 0
    assert terminations > 0 or id == "MiniGrid-DoorKey-5x5"


def test_rewards_shrink_with_max_steps_and_the_time_limit_follows_it():
    assert load("MiniGrid-Empty-5x5").env.duration == suite.action_and_limit("MiniGrid-Empty-5x5")[1]
    assert load("MiniGrid-Empty-5x5", max_steps=7).env.duration == 7
    assert load("MiniGrid-Empty-5x5", max_steps=7, max_episode_steps=5).env.duration == 5


def test_rulesets_are_params_and_may_differ_between_lanes():
    one, two = ruleset([[3, 1], [3, 4]]), ruleset([[3, 4], [3, 4]])
    both = jax.tree.map(lambda *x: jnp.stack(x), one, two)
    env = load("XLand-MiniGrid-R1-9x9", 2, ruleset=both)
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    grids = np.asarray(task_of(state).env_state.grid)
    red = (grids == [3, 1]).all(axis=-1).sum(axis=(1, 2))
    assert red.tolist() == [1, 0]
    assert env.params.rules.shape == (2, 2, 7)
    shared = load("XLand-MiniGrid-R1-9x9", 2, ruleset=one)
    assert pickle.loads(pickle.dumps(shared)).params.init_tiles.tolist() == [[3, 1], [3, 4]]


def test_numbers_of_a_ruleset_are_bytes():
    env = load("XLand-MiniGrid-R1-9x9")
    goal = np.zeros(env.params.goal.shape, np.int32)
    assert env.with_params(goal=goal + 255).params.goal[0] == 255
    for value in (-1, 300):
        with pytest.raises(ValueError, match=rf"goal .*got .*{value}"):
            env.with_params(goal=goal + value)


def test_only_xland_has_rulesets():
    with pytest.raises(ValueError, match=r"xminigrid:MiniGrid-Empty-5x5: ruleset .*got RuleSet\(goal=Ar"):
        load("MiniGrid-Empty-5x5", ruleset=ruleset([[3, 1]]))


def test_a_step_keeps_dtypes_structure_bounds_and_grammar():
    check_env(
        load("MiniGrid-Empty-5x5", 4),
        properties=["same_tree", "rows_match_specs", "within_specs", "episode_grammar"],
        num_steps=24,
        raise_on_failure=True,
    )


@pytest.mark.parametrize(
    ("id", "kwargs", "message"),
    [
        ("MiniGrid-Empty", {}, "xminigrid: no environment 'MiniGrid-Empty', did you mean"),
        ("MiniGrid-Empty-5x5", {"view": 5}, "xminigrid:MiniGrid-Empty-5x5: unknown keyword 'view'"),
        ("MiniGrid-Empty-5x5", {"view_size": 5.5}, r"view_size .*got 5.5"),
        ("MiniGrid-Empty-5x5", {"max_steps": 0}, r"xminigrid:MiniGrid-Empty-5x5: max_steps .*got 0"),
    ],
)
def test_wrong_ids_and_keywords_are_refused(id, kwargs, message):
    with pytest.raises(ValueError, match=message):
        load(id, **kwargs)
