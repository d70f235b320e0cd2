"""Entries of env_info: summed, averaged or maximised over an episode, then averaged over episodes."""

import jax
import numpy as np
import pytest

from jaxenv.rollout import Metrics
from tests.rollout.metrics.trajectories import computed, initial_state, trajectory


def of_two_episodes():
    """Rows of a lane with entries of many kinds."""
    return trajectory(
        ["FMLFL"],
        cost=np.array([[9, 1, 2, 9, 3]], np.float32),
        turns=np.array([[9, 1, 1, 9, 1]], np.int32),
        reached=np.array([[0, 0, 1, 0, 1]], bool),
        action_mask=np.ones((1, 5, 4), bool),
        position=np.ones((1, 5, 2), np.float32),
        abnormal=np.zeros((1, 5), bool),
        length_mean=np.array([[0, 10, 10, 0, 10]], np.float32),
    )


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


def test_the_maximum_of_negative_values_is_negative():
    found = computed(Metrics(env_info=("speed@max",)), trajectory(["FMMML"], speed=[[0, -3, -1, -2, -4]]))
    assert found["speed@max"] == -1


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


def test_by_default_every_number_per_lane_is_measured_and_no_flag_mask_or_vector():
    rows = of_two_episodes()
    rows.env_info["car"] = {"speed@max": rows.env_info["cost"] * 2}
    found = computed(Metrics(), rows)
    assert (found["cost"], found["turns"], found["car.speed@max"]) == (3, 1.5, 5)
    assert found.keys() - computed(Metrics(env_info=()), rows).keys() == {
        "cost",
        "turns",
        "car.speed@max",
        "env_info.length_mean",
    }


def test_the_task_and_the_params_of_an_episode_are_measured_if_they_are_named():
    rows = of_two_episodes()
    rows.env_info["task_id"] = rows.env_info["turns"]
    rows.env_info["params"] = {"length": rows.env_info["cost"]}
    found = computed(Metrics(), rows).keys()
    assert not {"task_id", "params.length"} & found
    assert computed(Metrics(env_info=("params.length@step",)), rows)["params.length@step"] == pytest.approx(2.25)


def test_an_entry_of_the_name_of_a_metric_does_not_replace_it():
    for metrics in (Metrics(), Metrics(env_info=("length_mean",))):
        found = computed(metrics, of_two_episodes())
        assert (found["length_mean"], found["env_info.length_mean"]) == (1.5, 15)


def test_rows_of_same_step_mode_have_no_entries_by_default():
    rows = of_two_episodes()
    rows.env_info["final_observation"] = rows.env_info["cost"]
    assert computed(Metrics(), rows).keys() == computed(Metrics(env_info=()), rows).keys()
    assert computed(Metrics(env_info=("cost",)), rows)["cost"] == 3


def test_without_a_number_in_env_info_nothing_more_is_carried():
    rows = of_two_episodes()
    for name in ("cost", "turns", "length_mean"):
        del rows.env_info[name]
    states = [initial_state(metrics, rows) for metrics in (Metrics(), Metrics(env_info=()))]
    assert jax.tree.structure(states[0]) == jax.tree.structure(states[1])


def test_later_rows_without_an_entry_of_the_first_are_refused():
    rows = of_two_episodes()
    state = initial_state(Metrics(), rows)
    del rows.env_info["cost"]
    with pytest.raises(ValueError, match="Metrics: env_info field 'cost': no 'cost' here"):
        jax.eval_shape(Metrics().update_rows, state, rows)
