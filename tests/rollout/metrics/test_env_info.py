"""Entries of env_info: summed, averaged or maximised over an episode, then averaged over episodes."""

import numpy as np
import pytest

from jaxenv.rollout import Metrics
from tests.rollout.metrics.trajectories import computed, trajectory


def test_an_entry_is_summed_averaged_or_maximised_over_the_steps_of_an_episode():
    # Values at FIRST do not count; the second lane's episodes have 2 and 1 steps.
    speed = [[7, 1, 2, 3, 4], [7, 5, 1, 7, 8]]
    metrics = Metrics(env_info=("speed", "speed@step", "speed@max"))
    found = computed(metrics, trajectory(["FMMML", "FMLFL"], speed=speed))
    assert found["speed"] == pytest.approx((10 + 6 + 8) / 3)
    assert found["speed@step"] == pytest.approx((2.5 + 3 + 8) / 3)
    assert found["speed@max"] == pytest.approx((4 + 5 + 8) / 3)


def test_values_that_are_not_finite_are_skipped_and_episodes_without_a_finite_one_do_not_count():
    nan, inf = np.nan, np.inf
    speed = np.array([[0, nan, 2, inf, -4], [0, nan, -inf, 0, nan]], np.float32)
    metrics = Metrics(env_info=("speed", "speed@step", "speed@max"))
    found = computed(metrics, trajectory(["FMMML", "FMLFL"], speed=speed))
    assert (found["speed"], found["speed@step"], found["speed@max"]) == (-2, -1, 2)


def test_an_entry_may_be_nested_have_any_dtype_and_shape_and_carry_its_own_suffix():
    flag = np.array([[[1, 0], [0, 1], [1, 1]], [[0, 0], [1, 1], [1, 1]]], bool)
    turns = np.array([[0, 2, 3], [0, 5, 5]], np.int32)
    rows = trajectory(["FML", "FMM"], **{"cost@step": [[0, 1, 3], [0, 9, 9]]}, slip=flag, turns=turns)
    rows.env_info["car"] = {"wheel": {name: rows.env_info.pop(name) for name in ("slip", "turns")}}
    found = computed(Metrics(env_info=("cost@step", "car.wheel", "car.wheel.turns@max")), rows)
    assert found["cost@step"] == 2
    assert found["car.wheel.slip"] == [1, 2]
    assert found["car.wheel.turns"] == 5
    assert found["car.wheel.turns@max"] == 3
