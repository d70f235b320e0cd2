"""bsuite's CartPole compared with the package ``bsuite``."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.envs.bsuite._pole_task import Pole, last_step
from jaxenv.envs.bsuite.cart_pole import CartPole, State
from tests.envs.bsuite import poles, reference
from tests.packages import lazy
from tests.parity import certify

cartpole = lazy("bsuite.environments.cartpole")

ID = "CartPole-bsuite"

# Arguments of the original's constructor, and physical constants. The last set has another horizon.
SETS = {
    "defaults": ({}, {}),
    "short track, heavy pole": (
        {"height_threshold": 0.5, "x_threshold": 1.5},
        {"mass_cart": 0.7, "mass_pole": 0.4, "length": 0.8, "gravity": 3.7, "force_mag": 4.0},
    ),
    "slow clock": ({"timescale": 0.02, "max_time": 5.0}, {"length": 0.3, "mass_pole": 0.05}),
}


def original(options, config):
    return poles.configure(cartpole.Cartpole(**options), **config)


def ours(options, config):
    return reference.bare(ID, **options, **{{"force_mag": "force"}.get(k, k): v for k, v in config.items()})


def translated(env):
    return State(poles.pole(env), poles.steps(env), np.int32(env._raw_return), np.int32(env._best_episode))


TRANSLATION = reference.Translation(ID, translated)


def anywhere(env, rng):
    """States within the limits and a little outside, a tenth of them in the last steps before the horizon."""
    horizon = last_step(env._timescale, env._max_time)
    num_steps = rng.integers(horizon - 5, horizon) if rng.random() < 0.1 else rng.integers(horizon)
    reach = np.array([1.1 * env._x_threshold, 5, 1.2 * np.arccos(env._height_threshold), 8])
    if rng.random() < 0.1:
        reach[2] = np.pi
    poles.place(env, rng, reach, num_steps)
    env._episode_return = float(num_steps)  # as in every state of an unfinished episode
    env._raw_return, env._best_episode = float(rng.integers(10_000)), float(rng.integers(horizon))


# Numbers are below 16, where float32 has a spacing of 1e-6; a step rounds a few times.
@pytest.mark.parametrize(("options", "config"), SETS.values(), ids=SETS.keys())
def test_one_step_from_any_state_equals_the_original(options, config):
    env = reference.recorded(original(options, config))
    found = reference.injected_steps(env, TRANSLATION, poles.NUM_STEPS + 20, anywhere)
    played = poles.decided(
        found,
        lambda s: [np.cos(float(s.after.pole.theta)) - env._height_threshold, abs(s.after.pole.x) - env._x_threshold],
    )
    assert 0.1 < np.mean([s.terminated for s in played]) < 0.9
    assert sum(s.terminated and s.reward == 1 for s in played) >= 10
    error = reference.assert_steps_match(ours(options, config), played, 1e-5)
    certify(ID, "bsuite", states=len(played), tolerance=1e-5, error=error)


def test_whole_random_episodes_equal_the_original_until_the_pole_falls():
    played = reference.episodes(cartpole.Cartpole, TRANSLATION, 8)
    assert all(50 < len(steps) < 500 for steps in played)
    # Errors grow with exp(4 t), t in s, like those of any falling pole: from 1e-7 to a few 1e-6 within an episode of
    # one second.
    error = reference.assert_episodes_match(reference.bare(ID), played, 1e-5)
    certify(ID, "bsuite", episodes=len(played), steps=sum(map(len, played)), tolerance=1e-5, error=error)


def test_whole_episodes_without_failure_equal_the_original_to_the_end_after_ten_seconds():
    # Without gravity and with little force the pole does not fall and errors do not grow. The end is a termination.
    config = {"gravity": 0.0, "force_mag": 0.01}
    played = reference.episodes(lambda: original({"init_range": 0.01}, config), TRANSLATION, 2)
    assert [len(steps) for steps in played] == [1001] * 2
    assert played[0][-1].reward == 1
    env = reference.bare(ID, gravity=0.0, force=0.01)
    error = reference.assert_episodes_match(env, played, 1e-5)
    certify(ID, "bsuite", episodes=len(played), steps=sum(map(len, played)), tolerance=1e-5, error=error)


@pytest.mark.parametrize(("timescale", "max_time"), [(0.01, 10.0), (0.1, 0.3), (0.02, 5.0), (0.3, 0.1), (0.7, 9.1)])
def test_the_last_step_is_that_of_a_time_accumulated_in_float64(timescale, max_time):
    time, count = 0.0, 0
    while time <= max_time:
        time, count = time + timescale, count + 1
    assert last_step(timescale, max_time) == count


def test_a_cart_exactly_at_its_limit_or_a_pole_exactly_at_its_threshold_fails():
    # These numbers are exact in float32, and without motion and forces a step does not change them.
    x = np.resize(np.float32([2.5, np.nextafter(np.float32(2.5), np.float32(0))]), poles.NUM_STEPS)
    rest, count = np.zeros(poles.NUM_STEPS, np.float32), np.zeros(poles.NUM_STEPS, np.int32)
    state = State(Pole(x, rest, rest, rest), count, count, count)
    for height_threshold, failed in ((0.5, [True, False]), (1.0, [True, True])):
        env = reference.bare(ID, x_threshold=2.5, gravity=0.0, height_threshold=height_threshold)
        _, (reward, terminated, *_) = reference.advance(env, state, count + 1, ())
        assert np.asarray(terminated)[:2].tolist() == failed
        assert np.asarray(reward)[:2].tolist() == [0 if f else 1 for f in failed]


def test_only_the_counters_are_carried_over_to_the_next_episode():
    old = State(Pole(1.0, 2.0, 3.0, 4.0), 5, 6, 7)
    new = State(Pole(0.1, 0.2, 0.3, 0.4), 0, 0, 0)
    kept = reference.bare(ID).carry(old, new)
    assert (kept.pole, kept.steps, kept.total_reward, kept.best_episode) == (new.pole, 0, 6, 7)


def test_initial_states_are_uniform_in_the_range_of_the_original():
    state = reference.start(reference.bare(ID), 4000)
    for column in jax.tree.leaves(state.pole):
        reference.assert_uniform(column, -0.05, 0.05)
    assert np.abs(np.corrcoef(jax.tree.leaves(state.pole)) - np.eye(4)).max() < 5 / np.sqrt(4000)
    assert not any(map(np.any, (state.steps, state.total_reward, state.best_episode)))


def test_specs_equal_those_of_the_original_and_have_bounds():
    env, theirs = reference.bare(ID), cartpole.Cartpole()
    observation, action = env.observation_spec(), env.action_spec()
    assert (observation.shape, observation.dtype) == (theirs.observation_spec().shape, theirs.observation_spec().dtype)
    assert action.num_values == theirs.action_spec().num_values
    assert observation.maximum.tolist() == [[np.inf, np.inf, 1, 1, np.inf, np.float32(1.001)]]
    assert jaxenv.spec(ID).max_episode_steps is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timescale": 0.0}, r"CartPole-bsuite: timescale .*got 0.0"),
        ({"max_time": -1.0}, r"CartPole-bsuite: max_time .*got -1.0"),
        ({"timescale": 1e-9}, r"CartPole-bsuite: max_time .*got 10.0 and 1e-09"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        CartPole(name=ID, **options)


@pytest.mark.parametrize("id", [ID, "CartPoleSwingup-bsuite"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("length", 0.0),
        ("mass_cart", 0.0),
        ("x_threshold", np.float32([1, 0])),
        ("mass_pole", -0.1),
        ("init_range", -1.0),
    ],
)
def test_invalid_physical_constants_raise(id, name, value):
    with pytest.raises(ValueError, match=rf"^{id}: {name} .*got {np.min(value)}"):
        reference.bare(id, 2, **{name: value})
