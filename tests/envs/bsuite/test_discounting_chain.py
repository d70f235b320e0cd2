"""Discounting chain compared with bsuite's, and its ``compat="gymnax"`` with gymnax's."""

import functools

import jax
import numpy as np
import pytest

from jaxenv.canvas import GOLD
from jaxenv.envs.bsuite.discounting_chain import State
from tests import parity
from tests.envs.bsuite import reference
from tests.pictures import pictures, shows

bsuite_discounting_chain = pytest.importorskip("bsuite.environments.discounting_chain")

ID = "DiscountingChain-bsuite"

# The reward of 1.1 and the times are rounded to float32 once or twice.
TOLERANCE = 1e-7


def state(env):
    return State(np.int32(env._timestep), np.int32(env._context))


def place(env, rng):
    """Any time, including times past the end, mostly just before a reward or the end."""
    env._timestep = int(rng.choice([0, 2, 9, 29, 99, 99, rng.integers(105)]))
    env._context = int(rng.integers(5)) if env._timestep else -1


TRANSLATION = reference.Translation(ID, state)
bare = functools.cache(lambda **kwargs: reference.bare(ID, **kwargs))


def original(mapping_seed=0):
    return reference.recorded(bsuite_discounting_chain.DiscountingChain(mapping_seed))


def test_one_step_from_any_state_equals_bsuite():
    steps = reference.injected_steps(original(), TRANSLATION, 2000, place)
    assert np.mean([s.terminated for s in steps]) > 0.1
    assert {s.reward for s in steps} == {0, 1, 1.1}
    error = reference.assert_steps_match(bare(), steps, TOLERANCE)
    parity.certify(ID, "bsuite", states=2000, tolerance=TOLERANCE, error=error)


def test_a_mapping_seed_per_lane_equals_bsuite():
    seeds = []

    def place_in_one(env, rng):
        seeds.append(int(rng.integers(-20, 20)))
        env._rewards = original(seeds[-1])._rewards
        place(env, rng)

    steps = reference.injected_steps(original(), TRANSLATION, 2000, place_in_one)
    error = reference.assert_steps_match(
        bare(num_envs=2000).with_params(mapping_seed=np.array(seeds)), steps, TOLERANCE
    )
    parity.certify(ID, "bsuite", states=2000, tolerance=TOLERANCE, error=error)


def test_whole_episodes_equal_bsuite():
    played = reference.episodes(functools.partial(original, 3), TRANSLATION, 20)
    assert {len(steps) for steps in played} == {100}
    assert {sum(s.reward for s in steps) for steps in played} == {1, 1.1}
    error = reference.assert_episodes_match(bare(mapping_seed=3), played, TOLERANCE)
    parity.certify(ID, "bsuite", episodes=20, steps=2000, tolerance=TOLERANCE, error=error)


def test_starts_and_specs_equal_bsuite_and_have_tight_bounds():
    reference.assert_starts_match(bare(), original(), TRANSLATION, 2)
    reference.assert_specs_match(bare(), original())
    spec = bare().observation_spec()
    assert (spec.minimum.tolist(), spec.maximum.tolist()) == ([[-1, 0]], [[4, 1]])


@pytest.mark.slow
def test_compat_gymnax_equals_gymnax_and_never_terminates():
    import gymnax

    theirs, params = gymnax.make(ID, mapping_seed=2)
    steps = reference.injected_steps(original(2), TRANSLATION, 2000, place)
    before, action = reference.stacked([s.before for s in steps]), np.array([s.action for s in steps], np.int32)

    @jax.jit
    def step_all(key, before, action):
        _, start = theirs.reset_env(key, params)

        def one(time, choice, action):
            state = start.replace(time=time, context=choice)
            observation, state, reward, terminated, _ = theirs.step_env(key, state, action, params)
            return state.time, state.context, observation, reward, terminated

        return jax.vmap(one)(before.time, before.choice, action)

    # gymnax relies on JAX's default dtype promotion.
    with jax.numpy_dtype_promotion("standard"):
        stepped = step_all(jax.random.key(0), before, action)
    time, choice, observation, reward, terminated = jax.device_get(stepped)
    env = bare(mapping_seed=2, compat="gymnax")
    after, shown = jax.device_get(reference.advance(env, before, action, ()))
    np.testing.assert_array_equal(after.time, time)
    np.testing.assert_array_equal(after.choice, choice)
    np.testing.assert_allclose(shown[0], reward, atol=TOLERANCE)
    np.testing.assert_allclose(shown[2][:, 0], observation, atol=TOLERANCE)
    assert not terminated.any()
    assert not shown[1].any()
    assert np.isinf(env.observation_spec().maximum[0, 1])


def test_an_unknown_compat_raises():
    with pytest.raises(ValueError, match="compat must be '' or 'gymnax', got 'gym'"):
        bare(compat="gym")


def test_the_picture_shows_the_larger_reward_of_a_mapping_seed_per_lane():
    lanes = np.zeros(10, np.int32)
    env = reference.bare(ID, num_envs=10, mapping_seed=np.arange(10, dtype=np.int32))
    gold = shows(pictures(env, State(lanes, lanes - 1)), GOLD)
    height = [np.flatnonzero(lane.any(axis=1)).mean() for lane in gold]
    assert np.argsort(height[:5]).tolist() == [0, 1, 2, 3, 4]
    assert height[5:] == height[:5]
