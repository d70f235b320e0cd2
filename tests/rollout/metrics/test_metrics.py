"""Metrics: compared with trajectories written down by hand and with a loop over the stored rows, in every mode."""

import dataclasses
import functools
import math

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv.rollout import Experience, Metrics, to_host
from jaxenv.testing import Chain
from tests.rollout.metrics.play import GAMMA, MODES, STEPS, play
from tests.rollout.metrics.trajectories import compiled, computed, initial_state, trajectory

COST = np.array([[8, 1, 2, 8, 3, 4], [8, 4, 5, 6, 8, 1]], np.float32)  # 8 at FIRST, which does not count

# --- by hand ---------------------------------------------------------------------------------------------------------


def test_three_lanes_whose_middle_one_ends_twice_are_measured_as_by_hand():
    # Lane 1 terminates once and is truncated once; the other lanes have an unfinished episode.
    rows = trajectory(["FMMMMM", "FMLFMT", "FMMMMM"], [[9, 1, 1, 1, 1, 1], [9, 2, 3, 9, 4, 6], [9, -1, -1, -1, -1, -1]])
    found = computed(Metrics(), rows)
    assert (found["steps"], found["episodes"], found["terminated"], found["truncated"]) == (14, 2, 1, 1)
    assert (found["return_mean"], found["return_std"], found["return_max"], found["return_min"]) == (7.5, 2.5, 10, 5)
    assert (found["return_mean_terminated"], found["return_mean_truncated"]) == (5, 10)
    assert (found["length_mean"], found["length_std"]) == (2, 0)
    assert (found["length_mean_terminated"], found["length_mean_truncated"]) == (2, 2)
    assert found["reward_per_step"] == pytest.approx((5 + 15 - 5) / 14)


@pytest.mark.parametrize("ends", ["T", "L"])
def test_episodes_that_end_in_one_way_are_measured_over_several_calls(ends):
    rows = trajectory([f"FM{ends}FM{ends}", f"FMM{ends}FM"], [[9, 4, 6, 9, 2, 3], [9, -1, -2, 6, 9, 7]], cost=COST)
    metrics = Metrics(gamma=0.5, env_info=("cost",))
    state = initial_state(metrics, rows)
    for t in range(6):
        state = jax.jit(metrics.update)(state, jax.tree.map(lambda x, t=t: x[t], rows))
    found = to_host(metrics.compute(metrics.totals(state)))
    of_ends = ("terminated", "truncated") if ends == "L" else ("truncated", "terminated")
    assert (found["steps"], found["episodes"], *(found[name] for name in of_ends)) == (8, 3, 3, 0)
    assert (found["return_mean"], found["return_min"], found["return_max"]) == (6, 3, 10)
    assert found["return_std"] == pytest.approx(np.std([10, 5, 3]))
    assert [found[f"return_mean_{name}"] for name in of_ends] == [6, None]
    assert (found["length_mean"], found["length_std"]) == pytest.approx((7 / 3, np.std([2, 2, 3])))
    assert found["cost"] == pytest.approx((3 + 7 + 15) / 3)
    assert found["discounted_return_start"] == pytest.approx((7 + 3.5 - 0.5) / 3)
    assert found["discounted_return"] == pytest.approx(((7 + 6) / 2 + (3.5 + 3) / 2 + (-0.5 + 1 + 6) / 3) / 3)


def test_the_first_state_can_be_donated():
    metrics = Metrics(gamma=0.5)
    state = metrics.init(Chain(num_envs=3).reset(jax.random.key(0))[1])
    pointers = [x.unsafe_buffer_pointer() for x in jax.tree.leaves(state)]
    assert len(set(pointers)) == len(pointers) > 10


def test_an_episode_cut_short_by_a_first_row_counts_only_its_steps():
    found = computed(Metrics(gamma=GAMMA), trajectory(["FMMFML", "FMMMMM"]))
    assert (found["steps"], found["episodes"], found["return_mean"], found["length_mean"]) == (9, 1, 2, 2)
    assert found["discounted_return_start"] == pytest.approx(1.9)


def test_a_same_step_last_row_ends_one_episode_and_the_next_starts_after_it():
    found = computed(Metrics(gamma=GAMMA), trajectory(["FMLMML", "FMMMMM"]))
    assert (found["steps"], found["episodes"], found["return_mean"], found["return_std"]) == (10, 2, 2.5, 0.5)
    assert found["discounted_return_start"] == pytest.approx((1.9 + 2.71) / 2)


@pytest.mark.parametrize("lane", ["FMTMMTMT", "FMTFMTFT"])
def test_episodes_that_are_truncated_alone_each_have_their_own_return_over_several_calls(lane):
    metrics, rows = Metrics(), trajectory([lane], [[9, 1, 2, 3, 4, 5, 6, 7]])
    state, found = initial_state(metrics, rows), []
    for call in (slice(0, 2), slice(2, 5), slice(5, 8)):
        state = metrics.update_rows(state, jax.tree.map(lambda x, call=call: x[call], rows))
        results = to_host(metrics.compute(metrics.totals(state)))
        found.append((results["episodes"], results["return_mean"], results["length_mean_truncated"]))
        state = metrics.clear_finished(state)
    same_step = lane[3] == "M"
    assert found[:2] == [(0, None, None), (1, 3, 2)]
    assert found[2] == ((2, (12 + 13) / 2, 2.5) if same_step else (2, (9 + 7) / 2, 1.5))


# --- episodes that are in progress -----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", "LT")
def test_an_episode_that_is_in_progress_when_metrics_begin_is_left_out(end):
    # Lane 1 begins on the row that ends an episode, lane 2 on a FIRST row; a LAST row may start the next episode.
    rows = trajectory([f"MM{end}MM{end}", f"{end}FM{end}FM", f"FM{end}MMM"], np.arange(18).reshape(3, 6))
    found = computed(Metrics(gamma=0.5), rows)
    assert (found["episodes"], found["terminated"], found["truncated"]) == (3, 3 * (end == "L"), 3 * (end == "T"))
    returns = [3 + 4 + 5, 8 + 9, 13 + 14]
    assert found["return_mean"] == pytest.approx(np.mean(returns))
    assert (found["return_max"], found["return_min"]) == (27, 12)
    assert found["length_mean"] == pytest.approx((3 + 2 + 2) / 3)
    assert found["discounted_return_start"] == pytest.approx((3 + 2 + 5 / 4 + 8 + 4.5 + 13 + 7) / 3)
    assert found["steps"] == 15
    assert found["reward_per_step"] == pytest.approx((sum(range(18)) - 7 - 10 - 12) / 15)


def test_metrics_may_begin_on_the_row_before_the_first_one_that_they_add():
    rows = trajectory(["FML", "MML", "LFM"])
    state = initial_state(Metrics(), rows)
    for number in (1, 2):
        state = Metrics().update(state, jax.tree.map(lambda x, number=number: x[number], rows))
    assert to_host(Metrics().compute(Metrics().totals(state)))["episodes"] == 1
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), rows)
    assert not Metrics().init(shapes).episode.is_whole.any()


def test_an_episode_in_progress_that_ends_abnormally_is_still_counted_as_abnormal():
    found = computed(Metrics(), trajectory(["MMT"], abnormal=np.array([[0, 0, 1]]) > 0))
    assert (found["episodes"], found["abnormal"]) == (0, 1)


# --- by formula ------------------------------------------------------------------------------------------------------


def test_discounted_returns_follow_the_formulas():
    rewards, gamma = [0, 2, 3, 5], 0.5
    found = computed(Metrics(gamma=gamma), trajectory(["FMML"], [rewards]))
    assert found["discounted_return_start"] == pytest.approx(2 + 3 / 2 + 5 / 4)
    # (1/L) sum_l r_l sum_{k<l} gamma^k
    assert found["discounted_return"] == pytest.approx((2 * 1 + 3 * 1.5 + 5 * 1.75) / 3)


def test_the_discount_of_a_row_is_a_factor_of_gamma():
    found = computed(Metrics(gamma=0.5), trajectory(["FMML"], [[0, 2, 3, 5]], [[1, 0.4, 0.5, 0]]))
    of_rows = [2 + 0.2 * (3 + 0.25 * 5), 3 + 0.25 * 5, 5]
    assert found["discounted_return_start"] == pytest.approx(of_rows[0])
    assert found["discounted_return"] == pytest.approx(np.mean(of_rows))


def test_means_are_nan_before_the_first_episode_ends():
    metrics = Metrics(gamma=GAMMA, env_info=("speed", "speed@max"))
    rows = trajectory(["FMM"], speed=[[0, 1, 2]])
    on_device = jax.device_get(compiled(metrics)(rows))
    means = [n for n in on_device if n not in ("steps", "episodes", "terminated", "truncated", "abnormal")]
    means.remove("reward_per_step")
    assert len(means) == 14
    assert all(math.isnan(on_device[name]) for name in means)
    assert all(value is None for name, value in to_host(on_device).items() if name in means)
    empty = metrics.totals(initial_state(metrics, rows))
    assert to_host(metrics.compute(empty))["reward_per_step"] is None


def test_an_episode_that_ends_abnormally_counts_only_as_abnormal():
    abnormal = np.array([[0, 0, 1, 0, 0], [0] * 5]) > 0
    rows = trajectory(["FMTFL", "FMMLF"], [[0, 1, np.inf, 0, 3], [0, 1, 1, 1, 0]], abnormal=abnormal)
    found = computed(Metrics(), rows)
    assert (found["episodes"], found["terminated"], found["truncated"], found["abnormal"]) == (2, 2, 0, 1)
    assert (found["return_mean"], found["return_max"]) == (3, 3)


def test_a_vector_reward_has_one_metric_per_component():
    reward = [[[9, 9], [1, 10], [2, 20]], [[9, 9], [5, 50], [5, 50]]]
    found = computed(Metrics(gamma=0.5), trajectory(["FML", "FLF"], reward))
    assert found["return_mean"] == [4.0, 40.0]
    assert found["return_std"] == [1.0, 10.0]
    assert found["return_max"] == [5.0, 50.0]
    assert found["reward_per_step"] == pytest.approx([8 / 3, 80 / 3])
    assert found["discounted_return_start"] == [3.5, 35.0]
    assert found["length_mean"] == 1.5


# --- compared with a loop over the rows ------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=MODES)
def played(request):
    return jax.device_get(play(request.param))


def episodes_by_loop(rows):
    """(return, length, terminated, discounted returns of its rows) of every finished episode."""
    finished = []
    for lane in range(rows.reward.shape[1]):
        rewards = []
        for t in range(STEPS):
            if rows.step_type[t, lane] == 0:
                continue
            rewards.append(float(rows.reward[t, lane]))
            if rows.step_type[t, lane] == 2:
                discounted = [sum(GAMMA**k * r for k, r in enumerate(rewards[t:])) for t in range(len(rewards))]
                finished.append((sum(rewards), len(rewards), rows.discount[t, lane] == 0, discounted))
                rewards = []
    return finished


@pytest.mark.parametrize("mode", MODES)
def test_metrics_equal_those_of_a_loop_over_the_stored_rows(mode):
    played = jax.device_get(play(mode))
    rows, metrics = played.rows, to_host(played.metrics)
    *columns, discounted = zip(*episodes_by_loop(rows), strict=True)
    returns, lengths, terminated = map(np.array, columns)
    assert metrics["episodes"] == len(returns)
    assert (metrics["terminated"], metrics["truncated"]) == (terminated.sum(), len(terminated) - terminated.sum())
    for what, values in (("return", returns), ("length", lengths)):
        assert metrics[f"{what}_mean"] == pytest.approx(values.mean())
        assert metrics[f"{what}_std"] == pytest.approx(values.std())
        assert metrics[f"{what}_mean_terminated"] == pytest.approx(values[terminated].mean())
        assert metrics[f"{what}_mean_truncated"] == pytest.approx(values[~terminated].mean())
    assert (metrics["return_max"], metrics["return_min"]) == (returns.max(), returns.min())
    assert metrics["discounted_return_start"] == pytest.approx(np.mean([x[0] for x in discounted]))
    assert metrics["discounted_return"] == pytest.approx(np.mean([np.mean(x) for x in discounted]))
    steps = rows.step_type != 0
    assert metrics["steps"] == steps.sum() == (4 * STEPS - 4 if mode == "same_step" else steps.sum())
    assert metrics["reward_per_step"] == pytest.approx(rows.reward[steps].mean())


def test_the_play_terminates_and_truncates_lanes_out_of_phase(played):
    totals = played.state.totals
    terminated, truncated = (np.asarray(x.count) for x in (totals.returns_terminated, totals.returns_truncated))
    assert terminated.tolist() != truncated.tolist()
    assert terminated[:3].all()
    assert truncated[:3].all()
    assert truncated[3] == 0  # the limit coincides with termination, which takes precedence
    ended = played.rows.step_type == 2
    assert np.any(ended.any(axis=1) & ~ended.all(axis=1))


def test_clear_finished_keeps_the_unfinished_episodes(played):
    second = played.second_half
    assert np.any(played.state.episode.length > 0)
    chex.assert_trees_all_equal(second.state.episode, played.state.episode)
    later = played.rows.step_type[STEPS // 2 :]
    assert to_host(second.metrics)["episodes"] == np.sum(later == 2) > 0
    assert to_host(second.metrics)["steps"] == np.sum(later != 0)


# --- state -----------------------------------------------------------------------------------------------------------


def test_the_state_keeps_its_types_and_has_a_leading_lane_axis():
    metrics = Metrics(gamma=GAMMA, env_info=("speed", "speed@max"))
    rows = trajectory(["FML", "FMM", "FLF"], speed=np.ones((3, 3), np.int32))
    state = initial_state(metrics, rows)
    after = jax.eval_shape(metrics.update, state, jax.tree.map(lambda x: x[0], rows))
    for x, y in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert (x.shape, x.dtype, x.weak_type) == (y.shape, y.dtype, False)
        assert x.shape == (3,)
    shapes = jax.eval_shape(lambda: jax.tree.map(lambda x: jnp.asarray(x[0]), rows))
    assert jax.tree.structure(metrics.init(shapes)) == jax.tree.structure(state)


def test_metrics_are_hashable_and_equal_if_they_measure_the_same():
    assert {Metrics(0.9, ("a",)): 1}[Metrics(gamma=0.9, env_info=["a"])] == 1
    assert Metrics(0.9) != Metrics(0.8)
    assert hash(Metrics(jnp.float32(0.5))) == hash(Metrics(0.5))


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gamma": 1.5}, r"gamma .*got 1.5"),
        ({"gamma": -0.1}, r"gamma .*got -0.1"),
        ({"gamma": math.nan}, r"gamma .*got nan"),
        ({"env_info": "speed"}, "must be a sequence of names, got 'speed'"),
        ({"env_info": ("speed@min",)}, r"must end in @step, @max or neither.* 'speed@min'"),
        ({"env_info": ("",)}, r"must end in @step, @max or neither.* ''"),
        ({"env_info": ("@max",)}, r"must end in @step, @max or neither.* '@max'"),
        ({"env_info": ("x@step@max",)}, r"must end in @step, @max or neither.* 'x@step@max'"),
        ({"gamma": "a"}, r"gamma .*got 'a'"),
        ({"env_info": ("a", "b", "a")}, "must not repeat a name, got 'a' twice"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"Metrics: .*{message}"):
        Metrics(**arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"discount": ()}, r"the rows have.* unroll\(fields=...\)"),
        ({"reward": ()}, "the rows have no reward"),
        ({"env_info": ()}, r"the rows have.* env_info with an entry 'speed'"),
        ({"env_info": {"sped": np.zeros(2)}}, r"field 'speed': no 'speed' here, the fields.* \['sped'\]"),
        ({"env_info": {"speed": np.zeros((3, 2))}}, r"env_info 'speed' has shape \(3, 2\), in the state \(3,\)"),
        ({"reward": np.zeros((3, 2), np.float32)}, r"the reward has.* \(3, 2\), in the state \(3,\)"),
        ({"reward": np.zeros(4, np.float32)}, r"the reward has.* \(4,\), in the state \(3,\)"),
    ],
)
def test_rows_that_do_not_fit_the_state_are_refused_at_trace_time(changes, message):
    metrics = Metrics(env_info=("speed",))
    row = jax.tree.map(lambda x: x[0], trajectory(["FM", "FM"], speed=np.zeros((2, 2), np.float32)))
    state = metrics.init(row)
    with pytest.raises(ValueError, match=f"Metrics: .*{message}"):
        jax.eval_shape(lambda state: metrics.update(state, dataclasses.replace(row, **changes)), state)


def test_a_state_or_totals_of_other_metrics_are_refused():
    metrics, row = Metrics(GAMMA), jax.tree.map(lambda x: x[0], trajectory(["FM"]))
    state = jax.eval_shape(metrics.init, row)
    totals = jax.eval_shape(metrics.totals, state)
    for method, sums, message in [
        (
            Metrics().totals,
            state,
            r"totals got the MetricsState of metrics with.* env_info \[\], .* Metrics\(gamma=None",
        ),
        (
            Metrics(GAMMA, ("a",)).compute,
            totals,
            "compute got the Totals of metrics",
        ),
        (lambda state: Metrics().update(state, row), state, "update got the MetricsState of metrics"),
        (metrics.compute, state, r"totals .*got MetricsState"),
        (metrics.totals, totals, r"state .*got Totals"),
    ]:
        with pytest.raises(ValueError, match=f"Metrics: {message}"):
            jax.eval_shape(method, sums)


def test_a_state_is_initialised_from_one_row():
    with pytest.raises(ValueError, match=r"init takes one.* \[B\], got step_type of shape \(6, 3\)"):
        Metrics().init(trajectory(["FML"]))


def test_an_experience_or_environment_in_place_of_rows_is_refused():
    rows = trajectory(["FML"])
    state = initial_state(Metrics(), rows)
    update, update_rows = (functools.partial(method, state) for method in (Metrics().update, Metrics().update_rows))
    for method in (Metrics().init, update, update_rows):
        with pytest.raises(ValueError, match=r"^Metrics: rows .*got Experience"):
            method(Experience(rows))
        with pytest.raises(ValueError, match=r"^Metrics: rows .*got Chain$"):
            method(Chain())
