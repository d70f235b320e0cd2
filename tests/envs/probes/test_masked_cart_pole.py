"""MaskedCartPole: parity with the positions in the observation of Gymnasium's CartPole."""

import numpy as np
import pytest

import jaxenv
from tests.envs.classic_control import reference, test_cart_pole

ID = "MaskedCartPole-v1"


def test_one_step_from_random_states_has_the_positions_of_gymnasium():
    states, actions = test_cart_pole.drawn()
    theirs = reference.reference_step(reference.reference("CartPole-v1"), states, actions)
    theirs.observation = theirs.observation[:, [0, 2]]
    ours = reference.step(reference.bare(ID), states, actions)
    reference.assert_rows_match(ours, theirs, tolerance=1e-5, decided=test_cart_pole.decided(theirs))


def test_whole_random_episodes_have_the_positions_of_gymnasium():
    env, state, starts, first = reference.start_together(ID, 8)
    actions = np.random.default_rng(2).integers(0, 2, (500, 8))
    theirs = reference.reference_episodes("CartPole-v1", starts, first, lambda o, t, lane: actions[t, lane])
    for episode in theirs:
        episode.observation = episode.observation[:, [0, 2]]
    ours = reference.replay(env, state, theirs)
    bounds = [test_cart_pole.growth(e) for e in theirs]
    reference.assert_episodes_match(ours, theirs, bounds)


@pytest.mark.parametrize(("version", "limit", "threshold"), [("v0", 200, 195.0), ("v1", 500, 475.0)])
def test_specs_time_limit_and_reward_threshold_match_tf_agents(version, limit, threshold):
    spec = jaxenv.spec(f"MaskedCartPole-{version}")
    assert (spec.max_episode_steps, spec.reward_threshold) == (limit, threshold)
    high = np.float32([4.8, 24 * np.pi / 180])
    assert spec.make().observation_spec() == jaxenv.specs.Bounded((2,), np.float32, -high, high)
    assert spec.make().action_spec().num_values == 2


@pytest.mark.parametrize("option", ["position_limit", "angle_limit"])
def test_invalid_limits_raise_an_error(option):
    with pytest.raises(ValueError, match=rf"{ID}: {option} .*got nan"):
        reference.bare(ID, **{option: float("nan")})
