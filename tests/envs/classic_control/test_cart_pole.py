"""CartPole compared with Gymnasium's, and with the trace printed in the TF-Agents tutorial "Environments"."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import ORANGE
from jaxenv.envs.classic_control.cart_pole import CartPole, State
from tests.envs.classic_control import reference
from tests.envs.classic_control.reference import MARGIN, NUM_STATES
from tests.pictures import centre, lanes, picture

# The defaults and two other sets of params and constructor arguments.
PARAMS = {
    "defaults": {},
    "heavy pole": {"masscart": 0.8, "masspole": 0.4, "length": 0.8, "gravity": 3.7, "angle_limit": 0.3},
    "short and fast": {"masspole": 0.05, "length": 0.2, "force": 4.0, "tau": 0.03, "position_limit": 1.2},
}


def configure(
    env,
    gravity=9.8,
    masscart=1.0,
    masspole=0.1,
    length=0.5,
    force=10.0,
    tau=0.02,
    position_limit=2.4,
    angle_limit=np.deg2rad(12),
):
    env.gravity, env.masscart, env.masspole, env.length = gravity, masscart, masspole, length
    env.force_mag, env.tau = force, tau
    env.x_threshold, env.theta_threshold_radians = position_limit, angle_limit
    env.total_mass = masspole + masscart
    env.polemass_length = masspole * length


def drawn(position_limit=2.4, angle_limit=np.deg2rad(12), **_):
    """States inside, on the edge of and outside the limits, with speeds beyond those of an episode, and actions."""
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (NUM_STATES, 4)) * [1.2 * position_limit, 3, 1.2 * angle_limit, 4]
    edge, offsets = 200, [-1e-2, -1e-4, -1e-5, 1e-5, 1e-4, 1e-2]
    states[:edge, 0] = rng.choice([-1, 1], edge) * (position_limit + rng.choice(offsets, edge))
    states[edge : 2 * edge, 2] = rng.choice([-1, 1], edge) * (angle_limit + rng.choice(offsets, edge))
    states[: 2 * edge, [1, 3]] = 0  # so that they are still close to the limit after the step
    states[0], states[1], states[2:4, 0] = 0, [10 * position_limit, 0, 0, 0], position_limit
    return states, rng.integers(0, 2, NUM_STATES).astype(np.int32)


def decided(rows, position_limit=2.4, angle_limit=np.deg2rad(12), **_):
    """Rows whose position and angle are not close to the limits."""
    x, theta = np.abs(rows.state[:, 0]), np.abs(rows.state[:, 2])
    return (np.abs(x - position_limit) > MARGIN) & (np.abs(theta - angle_limit) > MARGIN)


# The largest numbers are near 10, where float32 has a spacing of 1e-6; 1e-5 allows for the roundings of one step.
@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS.keys())
def test_one_step_from_random_states_equals_gymnasium(params):
    states, actions = drawn(**params)
    theirs = reference.reference_step(reference.reference("CartPole-v1"), states, actions, configure, **params)
    ours = reference.step(reference.bare("CartPole-v1", **params), states, actions)
    reference.assert_rows_match(ours, theirs, tolerance=1e-5, decided=decided(theirs, **params))


def test_with_params_updates_derived_values():
    params = {"masscart": 0.8, "masspole": 0.4, "length": 0.8, "gravity": 3.7, "force": 4.0, "tau": 0.03}
    states, actions = drawn()
    theirs = reference.reference_step(reference.reference("CartPole-v1"), states, actions, configure, **params)
    ours = reference.step(reference.bare("CartPole-v1").with_params(**params), states, actions)
    reference.assert_rows_match(ours, theirs, tolerance=1e-5, decided=decided(theirs))


def test_params_per_lane_give_each_lane_its_own_physics():
    states, actions = drawn()
    rng = np.random.default_rng(1)
    names = ("gravity", "masscart", "masspole", "length", "force", "tau")
    defaults = np.array([9.8, 1.0, 0.1, 0.5, 10.0, 0.02])
    values = dict(zip(names, (defaults * rng.uniform(0.5, 1.5, (NUM_STATES, 6))).T, strict=True))
    theirs = reference.reference_step(reference.reference("CartPole-v1"), states, actions, configure, **values)
    ours = reference.step(reference.bare("CartPole-v1").with_params(**values), states, actions)
    reference.assert_rows_match(ours, theirs, tolerance=1e-5, decided=decided(theirs))


def test_a_pole_exactly_at_a_limit_has_not_fallen():
    # The limits are exact in float32, and one step from rest does not change position and angle.
    states = np.array([[2.5, 0, 0, 0], [-2.5, 0, 0, 0], [0, 0, 0.25, 0], [0, 0, -0.25, 0], [2.5000002, 0, 0, 0]])
    params = {"position_limit": 2.5, "angle_limit": 0.25}
    actions = np.zeros(5, np.int32)
    theirs = reference.reference_step(reference.reference("CartPole-v1"), states, actions, configure, **params)
    ours = reference.step(reference.bare("CartPole-v1", 5, **params), states, actions)
    assert ours.terminated.tolist() == theirs.terminated.tolist() == [False] * 4 + [True]


def test_sutton_barto_reward_is_minus_one_on_failing_and_zero_before():
    states, actions = drawn()
    env = reference.reference("CartPole-v1")
    env._sutton_barto_reward = True
    theirs = reference.reference_step(env, states, actions)
    ours = reference.step(reference.bare("CartPole-v1", sutton_barto_reward=True), states, actions)
    assert set(theirs.reward) == {-1.0, 0.0}
    reference.assert_rows_match(ours, theirs, tolerance=1e-5, decided=decided(theirs))


def growth(episode):
    """The tolerance after each step of an episode.

    A falling pole is unstable: an error grows like exp(rate * t) with rate^2 = g / (l * (4/3 - m_p / m)) near upright.
    Initial rounding errors are 1e-7, so the bound starts from 1e-6; it is at least the tolerance of a single step.
    """
    rate = np.sqrt(9.8 / (0.5 * (4 / 3 - 0.1 / 1.1)))
    return np.maximum(1e-5, 1e-6 * np.exp(rate * 0.02 * np.arange(1, len(episode) + 1)))


def test_whole_random_episodes_equal_gymnasium_to_the_end():
    env, state, starts, first = reference.start_together("CartPole-v1", 8)
    actions = np.random.default_rng(2).integers(0, 2, (500, 8))
    theirs = reference.reference_episodes("CartPole-v1", starts, first, lambda o, t, lane: actions[t, lane])
    ours = reference.replay(env, state, theirs)
    assert all(e.terminated[-1] for e in theirs)
    reference.assert_episodes_match(ours, theirs, [growth(e) for e in theirs])


def test_whole_episodes_of_a_swaying_policy_equal_gymnasium_to_the_end():
    # The policy follows the angle alone and overshoots more and more. Episodes last twice as long as random ones.
    env, state, starts, first = reference.start_together("CartPole-v1", 8)
    theirs = reference.reference_episodes("CartPole-v1", starts, first, lambda o, t, lane: int(o[2] > 0))
    ours = reference.replay(env, state, theirs)
    assert np.mean([len(e) for e in theirs]) > 35
    reference.assert_episodes_match(ours, theirs, [growth(e) for e in theirs])


def test_whole_episodes_of_a_good_policy_reach_the_time_limit_as_in_gymnasium():
    # Each side acts on its own observations, because over the 10 s of an episode errors of replayed actions would grow
    # by exp(40). For the same reason rows are compared only while the tolerance is below 1e-3.
    env, state, starts, first = reference.start_together("CartPole-v1", 8)
    weights = np.array([0.1, 0.3, 3.0, 1.0], np.float32)

    @jax.jit
    def rows(env, state, first):
        def one_step(carry, _):
            state, observation = carry
            action = (jnp.sum(observation * weights[None], axis=-1) > 0).astype(jnp.int32)
            state, timestep = env.step(state, action)
            return (state, timestep.observation), (action, timestep)

        return jax.lax.scan(one_step, (state, first), length=500)[1]

    action, timestep = jax.device_get(rows(env, state, first))
    theirs = reference.reference_episodes(
        "CartPole-v1", starts, first, lambda o, t, lane: int(np.sum(np.float32(o) * weights) > 0)
    )
    assert timestep.truncated.sum(axis=0).tolist() == [1] * 8
    assert timestep.truncated[499].all()
    assert not timestep.terminated.any()
    assert timestep.reward.sum(axis=0).tolist() == [500] * 8
    bound = growth(theirs[0])
    compared = int(np.argmax(bound > 1e-3))
    assert compared > 80
    for lane, episode in enumerate(theirs):
        assert len(episode) == 500
        assert episode.truncated[-1]
        assert not episode.terminated[-1]
        np.testing.assert_array_equal(action[:compared, lane], episode.action[:compared])
        error = np.abs(timestep.observation[:compared, lane] - episode.observation[:compared]).max(axis=-1)
        assert np.all(error <= bound[:compared])


def test_pushing_right_from_the_tutorials_start_gives_its_printed_trace():
    trace = np.array(
        [
            [-0.02944653, 0.04422915, 0.03086922, -0.04273267],
            [-0.02856195, 0.23889515, 0.03001456, -0.32551846],
            [-0.02378405, 0.43357718, 0.02350419, -0.608587],
            [-0.01511251, 0.6283628, 0.01133245, -0.89377517],
            [-0.00254525, 0.8233292, -0.00654305, -1.1828743],
            [0.01392134, 1.0185355, -0.03020054, -1.477601],
            [0.03429205, 1.214013, -0.05975256, -1.7795612],
            [0.0585723, 1.4097542, -0.09534378, -2.090206],
            [0.08676739, 1.6056995, -0.1371479, -2.4107776],
            [0.11888137, 1.8017205, -0.18536346, -2.7422433],
            [0.1549158, 1.9976014, -0.24020831, -3.0852165],
        ],
        np.float32,
    )
    env = reference.bare("CartPole-v0", 1)
    _, first = reference.reset(env, jax.random.key(0))
    state = reference.inject(env, trace[:1])
    rows = jax.device_get(reference.replay_actions(env, state, np.ones((10, 1), np.int32)))
    observation = np.concatenate([env.observation_of(state), rows.observation[:, 0]])
    # The tutorial computes in float64 and prints 8 digits of float32; ten steps in float32 differ by a few roundings.
    np.testing.assert_allclose(observation, trace, rtol=0, atol=1e-6)
    assert [*first.step_type.tolist(), *rows.step_type[:, 0].tolist()] == [0] + [1] * 9 + [2]
    assert [*first.reward.tolist(), *rows.reward[:, 0].tolist()] == [0.0] + [1.0] * 10
    assert [*first.discount.tolist(), *rows.discount[:, 0].tolist()] == [1.0] * 10 + [0.0]


def test_every_component_of_the_start_is_uniform_in_the_start_range():
    states, observation = reference.starting_states("CartPole-v1")
    np.testing.assert_array_equal(observation, states)
    for column in states.T:
        reference.assert_uniform(column, -0.05, 0.05)
    # The four components and the lanes are independent draws.
    assert np.abs(np.corrcoef(states.T) - np.eye(4)).max() < 5 / np.sqrt(len(states))
    assert len(np.unique(states, axis=0)) == len(states)


def test_start_range_is_a_param_and_may_differ_by_lane():
    ranges = np.repeat(np.float32([0.01, 0.2]), 5000)
    states, _ = reference.starting_states("CartPole-v1", start_range=ranges)
    reference.assert_uniform(states[:5000].ravel(), -0.01, 0.01)
    reference.assert_uniform(states[5000:].ravel(), -0.2, 0.2)


@pytest.mark.filterwarnings("ignore:.*CartPole-v0 is out of date:DeprecationWarning")
@pytest.mark.parametrize("env_id", ["CartPole-v0", "CartPole-v1"])
def test_specs_and_registry_row_equal_those_of_gymnasium(env_id):
    reference.assert_specs_match(env_id)


def test_specs_equal_those_of_the_tutorial():
    env = jaxenv.make("CartPole-v0", num_envs=3)
    spec = env.time_step_spec()
    high = np.float32([4.8, np.inf, 0.41887903, np.inf])
    assert env.action_spec() == jaxenv.specs.Bounded((), np.int32, 0, 1)
    assert spec.observation == jaxenv.specs.Bounded((4,), np.float32, -high, high)
    assert (spec.step_type.shape, spec.step_type.dtype) == ((), np.int32)
    assert spec.discount == jaxenv.specs.Bounded((), np.float32, 0, 1)
    assert spec.reward == jaxenv.specs.Array((), np.float32)
    _, timestep = reference.reset(env, jax.random.key(0))
    assert timestep.observation.shape == (3, 4)
    assert timestep.reward.shape == (3,)


def test_in_the_picture_the_pole_of_a_positive_angle_leans_to_the_right():
    left, right = picture(CartPole(), State(*lanes([0, 0], [0, 0], [-0.2, 0.2], [0, 0])), 2)
    assert centre(left, ORANGE)[0] < 0.49 < 0.51 < centre(right, ORANGE)[0]
