"""FrozenLake compared with Gymnasium's."""

import functools

import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import GREEN, ORANGE
from jaxenv.envs.toy_text import frozen_lake
from jaxenv.envs.toy_text.frozen_lake import FrozenLake, generate_random_map
from jaxenv.envs.toy_text.tabular import State, value_iteration
from tests.envs.toy_text import reference
from tests.packages import lazy
from tests.pictures import cells, pictures, shows

theirs = lazy("gymnasium.envs.toy_text.frozen_lake")

ID, LARGE = "FrozenLake-v1", "FrozenLake8x8-v1"


@pytest.mark.parametrize(
    ("id", "options"),
    [
        (ID, {}),
        (LARGE, {"success_rate": 0.75, "reward_schedule": (10, -3, -0.5)}),
        (LARGE, {"is_slippery": False, "success_rate": 0.1}),
        # Two starts and two goals; not square, and not a multiple of 32 tiles.
        (ID, {"desc": ["SFFFFGFFFFF", "HFFHFFFFSFF", "FFFFHFFGFFH"], "success_rate": 0.5}),
    ],
)
def test_every_outcome_equals_gymnasium(id, options):
    reference.assert_tables_match(id, **options)


@pytest.mark.parametrize("id", [ID, LARGE])
def test_whole_episodes_with_recorded_draws_equal_gymnasium(id):
    best = value_iteration(reference.bare(id).mdp(), 0.99).argmax(axis=-1)
    # Going up in the first row never leaves it: these episodes end at the time limit.
    policies = [lambda at, rng: best[at]] * 8 + [lambda at, rng: rng.integers(4)] * 8 + [lambda at, rng: 3] * 2
    played = reference.episodes(id, policies)
    assert any(e.reward.sum() == 1 for e in played)
    assert any(e.terminated.any() and e.reward.sum() == 0 for e in played)
    assert sum(e.truncated[-1] and not e.terminated[-1] for e in played) >= 2
    reference.assert_episodes_match(id, reference.scripted(FrozenLake), played)


@functools.cache
def lanes():
    return reference.bare(ID, 4096)


def test_outcome_frequencies_match_the_table():
    reference.assert_frequencies_match(lanes().mdp(), reference.play(lanes(), 100))


def test_the_optimal_policy_earns_its_computed_value():
    mdp = lanes().mdp()
    values = value_iteration(mdp, 0.99)
    policy = values.argmax(axis=-1)
    value = value_iteration(reference.following(mdp, policy), horizon=100)[0, 0]
    # Gymnasium's registry lists 0.74 and 0.91 as the optima of its two lakes with their time limits.
    assert round(value_iteration(mdp, horizon=100).max(axis=-1)[0], 2) == round(value, 2) == 0.74
    # Without a time limit the value of the start is 14 / 17.
    np.testing.assert_allclose(value_iteration(mdp).max(axis=-1)[0], 14 / 17, atol=1e-7)
    reference.assert_policy_earns(reference.play(lanes(), 100, policy), value)


def test_without_slipping_the_goal_is_six_steps_away():
    still = reference.bare(ID, is_slippery=False).mdp()
    np.testing.assert_allclose(value_iteration(still, 0.9).max(axis=-1)[0], 0.9**5, rtol=1e-12)


def test_success_rate_and_rewards_may_differ_by_lane():
    rates, schedules = np.float32([0.0, 0.25, 0.6, 1.0]), np.float32([[1, 0, 0], [5, -1, -2], [0, 0, -1], [1, -1, 0]])
    env = reference.bare(ID, 4, success_rate=rates, reward_schedule=schedules)
    for lane, (rate, schedule) in enumerate(zip(rates.tolist(), schedules.tolist(), strict=True)):
        alone = reference.bare(ID, success_rate=rate, reward_schedule=schedule).mdp()
        of_lane = env.mdp(lane)
        np.testing.assert_array_equal(of_lane.P, alone.P)
        np.testing.assert_array_equal(of_lane.R, alone.R)
    with pytest.raises(ValueError, match=r"params.success_rate differs by lane.*got None"):
        env.mdp()
    with pytest.raises(ValueError, match=r"lane .*got 99"):
        reference.bare(ID).mdp(99)


@pytest.mark.parametrize(("size", "p", "seed"), [(8, 0.8, 0), (8, 0.8, 3), (5, 0.5, 1), (2, 0.3, 2), (21, 0.6, 4)])
def test_a_random_map_equals_gymnasiums_for_the_same_seed(size, p, seed):
    assert list(generate_random_map(size, p, seed)) == theirs.generate_random_map(size, p, seed)


def test_maps_equal_those_of_gymnasium():
    assert {name: list(rows) for name, rows in frozen_lake.MAPS.items()} == theirs.MAPS


def test_a_map_may_be_strings_or_gymnasiums_array_of_bytes():
    own = theirs.FrozenLakeEnv(desc=["SFH", "FFG"]).desc
    assert own.dtype == "S1"
    assert reference.bare(ID, desc=own).rows == reference.bare(ID, desc=np.array(["SFH", "FFG"])).rows == ("SFH", "FFG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"map_name": "5x5"}, r"FrozenLake-v1: map_name .*got '5x5'"),
        ({"desc": ["SF", "G"]}, r"desc .*got \('SF', 'G'\)"),
        ({"desc": ["SX", "FG"]}, r"desc .*got 'X'"),
        ({"desc": ["FF", "FG"]}, r"desc .*got \('FF', 'FG'\)"),
        ({"desc": []}, r"desc .*got \(\)"),
        ({"success_rate": 1.5}, r"success_rate .*got 1.5"),
        ({"reward_schedule": (1.0, 0.0)}, r"reward_schedule .*got 2"),
    ],
)
def test_an_invalid_option_raises(options, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.make(ID, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1,), r"size .*got 1"),
        ((2.5,), r"size .*got 2.5"),
        ((4, 0.0), r"\bp .*got 0.0"),
    ],
)
def test_invalid_arguments_of_a_random_map_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        generate_random_map(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"gamma": 1.5}, r"gamma .*got 1.5"), ({"horizon": 0}, r"horizon .*got 0")],
)
def test_invalid_arguments_of_value_iteration_raise(options, message):
    with pytest.raises(ValueError, match=message):
        value_iteration(reference.bare(ID).mdp(), **options)


def test_the_picture_shows_the_agent_and_the_goal_in_their_cells():
    env = reference.bare(ID, desc=("SFFFF", "FFFFF", "FHFFF", "FFFFF", "FFFFG"))
    index = np.int32([0, 9, 11, 24])
    picture = pictures(env, State(index))
    agent, goal = (cells(shows(picture, colour), 5, 5).reshape(4, 25) for colour in (ORANGE, GREEN))
    np.testing.assert_array_equal(agent, np.arange(25) == index[:, None])
    np.testing.assert_array_equal(goal, np.tile(np.arange(25) == 24, (4, 1)))


def test_the_map_may_be_text_with_a_line_per_row():
    env = reference.bare(ID, desc="\nSFH\nFFG\n")
    assert env.rows == ("SFH", "FFG")
    assert env.observation_spec().num_values == 6


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("SFH\nFxG", r"desc, line 2, column 2 .*S F H G, got 'x'"),
        ("SFH\nFG", r"desc, line 2 .*got 2: 'FG'"),
        ("SFH\n\nFFG", r"desc, line 2 .*got 0"),
        ("FFH\nFFG", "a start S"),
        ("", "at least 1 lines, got 0"),
    ],
)
def test_text_that_is_no_map_is_refused(text, rule):
    with pytest.raises(ValueError, match=rule):
        reference.bare(ID, desc=text)
