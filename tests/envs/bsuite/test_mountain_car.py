"""bsuite's MountainCar compared with the package ``bsuite``."""

import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import GREY
from jaxenv.envs.bsuite.mountain_car import MountainCar, State
from jaxenv.envs.classic_control.mountain_car import State as Car
from tests.envs.bsuite import reference
from tests.packages import lazy
from tests.parity import certify
from tests.pictures import lanes, picture, shows

mountain_car = lazy("bsuite.environments.mountain_car")

ID = "MountainCar-bsuite"
NUM_STEPS = 2000

# Our options and params; the original's attributes have other names.
SETS = {
    "defaults": {},
    "strong engine": {"force": 0.003, "gravity": 0.0018, "goal_position": 0.35},
    "narrow and short": {"min_position": -1.0, "max_position": 0.7, "max_speed": 0.1, "max_steps": 60},
}
NAMES = {"min_position": "_min_pos", "max_position": "_max_pos", "goal_position": "_goal_pos"}


def original(max_steps=1000, **numbers):
    env = mountain_car.MountainCar(max_steps)
    for name, value in numbers.items():
        setattr(env, NAMES.get(name, f"_{name}"), value)
    return env


def translated(env):
    car = Car(np.float32(env._position), np.float32(env._velocity))
    return State(car, np.int32(env._timestep), np.int32(-env._raw_return))


TRANSLATION = reference.Translation(ID, translated)


def anywhere(env, rng):
    """Cars anywhere on the road, a third of them near the goal and a tenth at the wall; a tenth in the last steps."""
    low, high = env._min_pos, env._max_pos
    where = rng.random()
    if where < 0.33:
        low = env._goal_pos - 0.05
    elif where < 0.43:
        high = low + 0.05
    env._position = float(np.float32(rng.uniform(low, high)))
    env._velocity = float(np.float32(rng.uniform(-1, 1) * env._max_speed))
    last = rng.random() < 0.1
    env._timestep = int(rng.integers(env._max_steps - 3 if last else 0, env._max_steps))
    env._raw_return = -float(rng.integers(100_000))


def pumping(env, rng):
    """Pushes in the direction of motion."""
    return 2 if env._velocity >= 0 else 0


# Numbers are near 1, where float32 has a spacing of 1e-7.
@pytest.mark.parametrize("numbers", SETS.values(), ids=SETS.keys())
def test_one_step_from_any_state_equals_the_original(numbers):
    env = reference.recorded(original(**numbers))
    found = reference.injected_steps(env, TRANSLATION, NUM_STEPS + 20, anywhere)
    played = [s for s in found if abs(s.after.car.position - env._goal_pos) > 2e-6]
    assert len(played) >= NUM_STEPS
    played = played[:NUM_STEPS]
    assert 0.1 < np.mean([s.terminated for s in played]) < 0.9
    assert sum(s.after.car.position == np.float32(env._min_pos) for s in played) >= 10
    assert sum(s.terminated and s.after.car.position < env._goal_pos for s in played) >= 10
    error = reference.assert_steps_match(reference.bare(ID, **numbers), played, 1e-5)
    certify(ID, "bsuite", states=len(played), tolerance=1e-5, error=error)


def test_whole_episodes_equal_the_original_to_the_goal_or_to_step_1000():
    # Rounding errors of 6e-8 accumulate over the steps; the dynamics amplify them little.
    played = reference.episodes(original, TRANSLATION, 5, pumping) + reference.episodes(original, TRANSLATION, 3)
    assert [80 < len(steps) < 200 for steps in played] == [True] * 5 + [False] * 3
    assert [len(steps) for steps in played[5:]] == [1000] * 3
    error = reference.assert_episodes_match(reference.bare(ID), played, 1e-5)
    certify(ID, "bsuite", episodes=len(played), steps=sum(map(len, played)), tolerance=1e-5, error=error)


def test_a_car_exactly_at_the_goal_terminates_at_any_velocity():
    # Without gravity and push the velocity is constant; all numbers are exact in float32.
    position = np.resize(np.float32([0.4375, 0.5625, 0.4375]), NUM_STEPS)
    velocity = np.resize(np.float32([0.0625, -0.0625, 0.0624]), NUM_STEPS)
    count = np.zeros(NUM_STEPS, np.int32)
    env = reference.bare(ID, gravity=0, force=0)
    _, (_, terminated, *_) = reference.advance(env, State(Car(position, velocity), count, count), count, ())
    assert np.asarray(terminated)[:3].tolist() == [True, True, False]


def test_only_the_sum_of_rewards_is_carried_over_to_the_next_episode():
    kept = reference.bare(ID).carry(State(Car(0.1, 0.2), 3, 4), State(Car(-0.5, 0.0), 0, 0))
    assert (kept.car.position, kept.car.velocity, kept.steps, kept.total_steps) == (-0.5, 0.0, 0, 4)


def test_cars_start_at_rest_with_positions_uniform_in_the_originals_range():
    state = reference.start(reference.bare(ID), 4000)
    reference.assert_uniform(state.car.position, -0.6, -0.4)
    assert not any(map(np.any, (state.car.velocity, state.steps, state.total_steps)))


def test_specs_equal_those_of_the_original_and_have_bounds():
    env, theirs = reference.bare(ID), mountain_car.MountainCar()
    observation, action = env.observation_spec(), env.action_spec()
    assert (observation.shape, observation.dtype) == (theirs.observation_spec().shape, theirs.observation_spec().dtype)
    assert action.num_values == theirs.action_spec().num_values
    np.testing.assert_array_equal(observation.minimum, np.float32([[-1.2, -0.07, 0]]))
    np.testing.assert_array_equal(observation.maximum, np.float32([[0.6, 0.07, 1]]))
    assert jaxenv.spec(ID).max_episode_steps is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_steps": 0}, r"max_steps .*got 0"),
        ({"min_position": 0.6}, r"min_position .*got 0.6 and 0.6"),
        ({"min_position": (-1.0, -1.2)}, r"min_position .*got \(-1.0, -1.2\)"),
        ({"max_speed": -0.1}, r"max_speed .*got -0.1"),
        ({"start_low": 5.0, "start_high": 6.0}, r"start_low .*got 5.0"),
        ({"start_low": -0.3}, r"start_low .*got -0.3 and -0.4"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=f"^MountainCar-bsuite: {message}$"):
        reference.bare(ID, **options)


def test_a_narrow_road_requires_a_start_on_it():
    reference.bare(ID, min_position=-0.5, start_low=-0.5)
    with pytest.raises(ValueError, match=r"start_low .*got -0.6"):
        reference.bare(ID, min_position=-0.5)


def test_the_bar_of_the_picture_grows_with_the_steps():
    steps = np.int32([100, 500, 1000])
    images = picture(MountainCar(), State(Car(*lanes([0, 0, 0], [0, 0, 0])), steps, steps), 3)
    few, half, all_steps = shows(images, GREY).any(axis=1).sum(axis=1) / images.shape[2]
    assert few < 0.2
    assert 0.4 < half < 0.55
    assert all_steps > 0.85
