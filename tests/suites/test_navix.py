"""NAVIX's environments: equal to NAVIX's own loop, under the episodes of this library."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.suites import navix as suite
from jaxenv.testing import check_env
from tests.suites.comparison import compare

# Names of JAX that NAVIX's dependencies still use.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
navix = pytest.importorskip("navix")

LANES = 6


def load(id, num_envs=LANES, **kwargs):
    return jaxenv.load(f"navix:{id}", num_envs, **kwargs)


@pytest.mark.parametrize("id", ["Navix-Empty-Random-5x5-v0", "Navix-LavaGapS5-v0"])
def test_episodes_equal_those_of_navix_with_its_limit_as_truncation(id):
    env = navix.make(id, max_steps=30)

    def step(state, action):
        state = env._step(state, action)
        return state, state.observation, state.reward, state.is_termination(), state.is_done()

    _, terminations, truncations = compare(load(id, autoreset=None, max_steps=30), 31, step)
    assert terminations + truncations == LANES
    assert terminations > 0


def test_steps_that_end_an_episode_are_not_the_start_of_the_next_one():
    # navix's own step restarts an episode when it is called after its end.
    env = load("Navix-Empty-Random-5x5-v0", max_episode_steps=3)
    policy = jaxenv.rollout.random_policy(env)
    state, first = jax.jit(env.reset)(jax.random.key(0))
    _, rows = jax.jit(lambda state, first: jaxenv.unroll(env, policy, state, first, 12))(state, first)
    rows = jax.device_get(rows.timestep)
    assert (rows.is_first()[1:] == rows.is_last()[:-1]).all()


def test_the_limit_is_navixs_unless_one_is_given():
    assert load("Navix-Empty-5x5-v0").env.duration == suite.action_and_limit("Navix-Empty-5x5-v0")[1] == 100
    assert load("Navix-Empty-5x5-v0", max_steps=7).env.duration == 7


def test_the_observation_function_is_an_option():
    env = load("Navix-Empty-5x5-v0", 2, observation_fn=navix.observations.categorical_first_person)
    _, first = jax.jit(env.reset)(jax.random.key(0))
    assert first.observation.shape[1:] == env.observation_spec().shape
    assert np.issubdtype(first.observation.dtype, np.integer)


def test_a_step_keeps_dtypes_structure_bounds_and_grammar():
    check_env(
        load("Navix-Empty-Random-5x5-v0", 4),
        properties=["same_tree", "rows_match_specs", "within_specs", "episode_grammar"],
        num_steps=24,
        raise_on_failure=True,
    )


@pytest.mark.parametrize(
    ("id", "kwargs", "message"),
    [
        ("Navix-Empty-5x5", {}, "navix: no environment 'Navix-Empty-5x5', did you mean 'Navix-Empty-5x5-v0'"),
        ("Navix-Empty-5x5-v0", {"steps": 5}, "navix:Navix-Empty-5x5-v0: unknown keyword 'steps'"),
        ("Navix-Empty-5x5-v0", {"max_steps": 5.5}, "max_steps must be of type int, got 5.5"),
    ],
)
def test_wrong_ids_and_keywords_are_refused(id, kwargs, message):
    with pytest.raises(ValueError, match=message):
        load(id, **kwargs)
