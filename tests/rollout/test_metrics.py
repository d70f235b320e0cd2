"""Metrics: the figures of a loop over the stored rows, in every mode, over any number of steps, chunks and shards."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv.rollout import Metrics, merge_totals, random_policy, to_host, unroll
from jaxenv.rollout.sums import Sum
from jaxenv.testing import Counting
from jaxenv.timestep import TimeStep
from jaxenv.wrappers import AutoReset, TimeLimit

MODES = ["next_step", "same_step"]
STEPS = 58
GAMMA = 0.9
FIELDS = ["step_type", "reward", "discount"]


def figures_of(metrics, state):
    return to_host(metrics.compute(metrics.totals(state)))


@functools.cache
def measured(metrics):
    """A compiled function from rows to the figures of one lane batch."""
    return jax.jit(lambda rows: metrics.compute(metrics.totals(metrics.update_rows(start(metrics, rows), rows))))


def start(metrics, rows):
    return metrics.init(jax.tree.map(lambda x: x[0], rows))


def rows(step_type, reward=None, discount=None, **env_info):
    """Rows ``[6, 3]`` from lists of lanes' rows, one text of F, M, L a lane; a T is an L with discount 1.

    What is missing is filled with FIRST rows, which are no steps, so that all share one compiled function.
    """
    lanes, steps = len(step_type), len(step_type[0])
    size = max(steps, 6), max(lanes, 3)

    def filled(x, fill=0):
        x = np.moveaxis(np.asarray(x), 0, 1)
        return np.pad(x, [(0, size[0] - steps), (0, size[1] - lanes)] + [(0, 0)] * (x.ndim - 2), constant_values=fill)

    kinds = np.array([list(lane) for lane in step_type])
    codes = np.select([kinds == "F", kinds == "M"], [0, 1], 2).astype(np.int32)
    return TimeStep(
        step_type=filled(codes),
        reward=filled(np.asarray(codes > 0 if reward is None else reward, np.float32)),
        discount=filled(np.asarray(kinds != "L" if discount is None else discount, np.float32), 1),
        env_info={name: filled(x) for name, x in env_info.items()},
    )


def shown(metrics, stream):
    return to_host(measured(metrics)(stream))


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_three_lanes_whose_middle_one_ends_are_counted_as_written_down_by_hand():
    # Lane 1 ends twice, by the task and by the limit; the others have an episode under way.
    stream = rows(["FMMMMM", "FMLFMT", "FMMMMM"], [[9, 1, 1, 1, 1, 1], [9, 2, 3, 9, 4, 6], [9, -1, -1, -1, -1, -1]])
    found = shown(Metrics(), stream)
    assert (found["steps"], found["episodes"], found["terminated"], found["truncated"]) == (14, 2, 1, 1)
    assert (found["return_mean"], found["return_std"], found["return_max"], found["return_min"]) == (7.5, 2.5, 10, 5)
    assert (found["return_mean_terminated"], found["return_mean_truncated"]) == (5, 10)
    assert (found["length_mean"], found["length_std"]) == (2, 0)
    assert (found["length_mean_terminated"], found["length_mean_truncated"]) == (2, 2)
    assert found["reward_per_step"] == pytest.approx((5 + 15 - 5) / 14)


def test_an_episode_that_is_broken_off_counts_its_steps_and_nothing_else():
    found = shown(Metrics(gamma=GAMMA), rows(["FMMFML", "FMMMMM"]))
    assert (found["steps"], found["episodes"], found["return_mean"], found["length_mean"]) == (9, 1, 2, 2)
    assert found["discounted_return_start"] == pytest.approx(1.9)


def test_a_same_step_last_row_ends_one_episode_and_the_next_one_begins_after_it():
    found = shown(Metrics(gamma=GAMMA), rows(["FMLMML", "FMMMMM"]))
    assert (found["steps"], found["episodes"], found["return_mean"], found["return_std"]) == (10, 2, 2.5, 0.5)
    assert found["discounted_return_start"] == pytest.approx((1.9 + 2.71) / 2)


def test_discounted_returns_are_those_of_the_formulas():
    rewards, gamma = [0, 2, 3, 5], 0.5
    found = shown(Metrics(gamma=gamma), rows(["FMML"], [rewards]))
    assert found["discounted_return_start"] == pytest.approx(2 + 3 / 2 + 5 / 4)
    # ALF: (1/L) sum_l r_l sum_{k<l} gamma^k
    assert found["discounted_return"] == pytest.approx((2 * 1 + 3 * 1.5 + 5 * 1.75) / 3)


def test_the_rows_own_discount_is_a_factor_of_gamma():
    found = shown(Metrics(gamma=0.5), rows(["FMML"], [[0, 2, 3, 5]], [[1, 0.4, 0.5, 0]]))
    of = [2 + 0.2 * (3 + 0.25 * 5), 3 + 0.25 * 5, 5]
    assert found["discounted_return_start"] == pytest.approx(of[0])
    assert found["discounted_return"] == pytest.approx(np.mean(of))


def test_nothing_is_averaged_before_an_episode_finished():
    metrics = Metrics(gamma=GAMMA, env_info=("speed", "speed@max"))
    stream = rows(["FMM"], speed=[[0, 1, 2]])
    on_device = jax.device_get(measured(metrics)(stream))
    none = [n for n in on_device if n not in ("steps", "episodes", "terminated", "truncated", "abnormal")]
    none.remove("reward_per_step")
    assert len(none) == 14
    assert all(math.isnan(on_device[name]) for name in none)
    assert all(value is None for name, value in to_host(on_device).items() if name in none)
    assert figures_of(metrics, start(metrics, stream))["reward_per_step"] is None


def test_an_episode_that_ends_abnormally_is_counted_apart():
    stream = rows(
        ["FMTFL", "FMMLF"], [[0, 1, np.inf, 0, 3], [0, 1, 1, 1, 0]], abnormal=np.array([[0, 0, 1, 0, 0], [0] * 5]) > 0
    )
    found = shown(Metrics(), stream)
    assert (found["episodes"], found["terminated"], found["truncated"], found["abnormal"]) == (2, 2, 0, 1)
    assert (found["return_mean"], found["return_max"]) == (3, 3)


# --- env_info --------------------------------------------------------------------------------------------------------


def test_env_info_is_summed_averaged_or_maximised_over_the_steps_of_an_episode():
    # The values at FIRST do not count; the second lane's episodes have 2 and 1 steps.
    speed = [[7, 1, 2, 3, 4], [7, 5, 1, 7, 8]]
    metrics = Metrics(env_info=("speed", "speed@step", "speed@max"))
    found = shown(metrics, rows(["FMMML", "FMLFL"], speed=speed))
    assert found["speed"] == pytest.approx((10 + 6 + 8) / 3)
    assert found["speed@step"] == pytest.approx((2.5 + 3 + 8) / 3)
    assert found["speed@max"] == pytest.approx((4 + 5 + 8) / 3)


def test_values_that_are_not_finite_are_skipped_and_episodes_without_any_other_do_not_count():
    nan, inf = np.nan, np.inf
    speed = np.array([[0, nan, 2, inf, -4], [0, nan, -inf, 0, nan]], np.float32)
    found = shown(Metrics(env_info=("speed", "speed@step", "speed@max")), rows(["FMMML", "FMLFL"], speed=speed))
    assert (found["speed"], found["speed@step"], found["speed@max"]) == (-2, -1, 2)


def test_env_info_may_be_nested_of_any_dtype_and_shape_and_carry_its_own_suffix():
    flag = np.array([[[1, 0], [0, 1], [1, 1]], [[0, 0], [1, 1], [1, 1]]], bool)
    turns = np.array([[0, 2, 3], [0, 5, 5]], np.int32)
    stream = rows(["FML", "FMM"], **{"cost@step": [[0, 1, 3], [0, 9, 9]]}, slip=flag, turns=turns)
    stream.env_info["car"] = {"wheel": {name: stream.env_info.pop(name) for name in ("slip", "turns")}}
    found = shown(Metrics(env_info=("cost@step", "car.wheel", "car.wheel.turns@max")), stream)
    assert found["cost@step"] == 2
    assert found["car.wheel.slip"] == [1, 2]
    assert found["car.wheel.turns"] == 5
    assert found["car.wheel.turns@max"] == 3


# --- the same as a loop ----------------------------------------------------------------------------------------------


PLAY = Metrics(gamma=GAMMA)
update_rows = jax.jit(PLAY.update_rows)
totals_and_figures = jax.jit(lambda state: (PLAY.totals(state), PLAY.compute(PLAY.totals(state))))
merged_figures = jax.jit(lambda a, b: PLAY.compute(merge_totals(a, b)))


@functools.cache
def played(mode):
    """Rows of lanes that terminate and are truncated out of phase; states and figures at once, and of two halves."""
    lengths = np.array([[2, 7, 3], [9, 1, 4], [5, 5, 6], [3, 3, 3]])
    env = AutoReset(TimeLimit(Counting(lengths, num_envs=4), np.array([4, 3, 5, 3])), mode)
    play = jax.jit(lambda key: unroll(env, random_policy(env), *env.reset(key), STEPS, fields=FIELDS)[1].timestep)
    stream = jax.device_get(play(jax.random.key(0)))
    begun = start(PLAY, stream)
    whole = update_rows(begun, stream)
    first = update_rows(begun, jax.tree.map(lambda x: x[: STEPS // 2], stream))
    last = update_rows(PLAY.clear_finished(first), jax.tree.map(lambda x: x[STEPS // 2 :], stream))
    halves = [totals_and_figures(state) for state in (first, last)]
    merged = merged_figures(halves[0][0], halves[1][0])
    return stream, (whole, last), (totals_and_figures(whole)[1], merged, halves[1][1])


@pytest.fixture(scope="module", params=MODES)
def play(request):
    return request.param, *jax.device_get(played(request.param))


def episodes_by_loop(stream):
    """(return, length, whether the task ended it, the rows' discounted returns) of every finished episode."""
    finished = []
    for lane in range(stream.reward.shape[1]):
        rewards = []
        for t in range(STEPS):
            if stream.step_type[t, lane] == 0:
                continue
            rewards.append(float(stream.reward[t, lane]))
            if stream.step_type[t, lane] == 2:
                of_rows = [sum(GAMMA**k * r for k, r in enumerate(rewards[t:])) for t in range(len(rewards))]
                finished.append((sum(rewards), len(rewards), stream.discount[t, lane] == 0, of_rows))
                rewards = []
    return finished


def test_figures_are_those_of_a_loop_over_the_stored_rows(play):
    mode, stream, _, (figures, _, _) = play
    figures = to_host(figures)
    *columns, of_rows = zip(*episodes_by_loop(stream), strict=True)
    returns, lengths, terminated = map(np.array, columns)
    assert figures["episodes"] == len(returns)
    assert (figures["terminated"], figures["truncated"]) == (terminated.sum(), len(terminated) - terminated.sum())
    for what, values in (("return", returns), ("length", lengths)):
        assert figures[f"{what}_mean"] == pytest.approx(values.mean())
        assert figures[f"{what}_std"] == pytest.approx(values.std())
        assert figures[f"{what}_mean_terminated"] == pytest.approx(values[terminated].mean())
        assert figures[f"{what}_mean_truncated"] == pytest.approx(values[~terminated].mean())
    assert (figures["return_max"], figures["return_min"]) == (returns.max(), returns.min())
    assert figures["discounted_return_start"] == pytest.approx(np.mean([x[0] for x in of_rows]))
    assert figures["discounted_return"] == pytest.approx(np.mean([np.mean(x) for x in of_rows]))
    steps = stream.step_type != 0
    assert figures["steps"] == steps.sum() == (4 * STEPS - 4 if mode == "same_step" else steps.sum())
    assert figures["reward_per_step"] == pytest.approx(stream.reward[steps].mean())


def test_the_play_has_both_ends_out_of_phase(play):
    _, stream, (whole, _), _ = play
    assert whole.finished.terminated.tolist() != whole.finished.truncated.tolist()
    assert whole.finished.terminated[:3].all()
    assert whole.finished.truncated[:3].all()
    assert whole.finished.truncated[3] == 0  # the limit falls on the task's own end, and termination wins
    ended = stream.step_type == 2
    assert np.any(ended.any(axis=1) & ~ended.all(axis=1))


def test_chunks_merge_to_the_whole_although_episodes_cross_them(play):
    _, _, (whole, last), (figures, merged, _) = play
    assert np.any(whole.episode.length > 0)
    jax.tree.map(np.testing.assert_array_equal, last.episode, whole.episode)
    for name, value in to_host(figures).items():
        exact = isinstance(value, int)
        assert to_host(merged)[name] == (value if exact else pytest.approx(value, rel=1e-6)), name


def test_a_chunk_knows_only_the_episodes_that_ended_in_it(play):
    _, stream, _, (_, _, second) = play
    assert to_host(second)["episodes"] == np.sum(stream.step_type[STEPS // 2 :] == 2) > 0
    assert to_host(second)["steps"] == np.sum(stream.step_type[STEPS // 2 :] != 0)


# --- vector rewards --------------------------------------------------------------------------------------------------


def test_a_vector_reward_gives_one_figure_per_component():
    reward = [[[9, 9], [1, 10], [2, 20]], [[9, 9], [5, 50], [5, 50]]]
    found = shown(Metrics(gamma=0.5), rows(["FML", "FLF"], reward))
    assert found["return_mean"] == [4.0, 40.0]
    assert found["return_std"] == [1.0, 10.0]
    assert found["return_max"] == [5.0, 50.0]
    assert found["reward_per_step"] == pytest.approx([8 / 3, 80 / 3])
    assert found["discounted_return_start"] == [3.5, 35.0]
    assert found["length_mean"] == 1.5


# --- very many steps -------------------------------------------------------------------------------------------------


@jax.jit
def one_by_one(sums, x):
    return jax.lax.fori_loop(0, 1000, lambda _, s: s.add(jnp.ones((1, *x.shape), bool), x[None]), sums)


def test_a_sum_does_not_stop_where_float32_counts_no_further():
    behind = np.array([2.0**24, 2.0**24, 2.0**30], np.float32)
    sums = one_by_one(Sum(behind, np.zeros_like(behind)), np.array([1.0, 0.25, 3.0], np.float32))
    exact = behind + 1000 * np.array([1, 0.25, 3.0])
    np.testing.assert_array_equal(np.float64(sums.value) - np.float64(sums.error), exact)
    assert np.float32(2**24) + np.float32(1) == 2**24


def test_the_sum_of_a_million_tenths_is_right_to_its_last_digit():
    sums = jax.jit(lambda x: jax.lax.fori_loop(0, 10**6, lambda _, s: s.add(x[None] > 0, x[None]), Sum.zeros((1,))))(
        np.full(1, 0.1, np.float32)
    )
    assert sums.value.tolist() == pytest.approx([np.float64(np.float32(0.1)) * 10**6], rel=1e-7)


def test_steps_of_all_lanes_are_exact_beyond_32_bits():
    metrics = Metrics()
    stream = rows(["FML", "FMM", "FLF"])
    state = start(metrics, stream)
    rewards = dataclasses.replace(state.finished.rewards, count=np.array([2**32 - 5, 2**31, 7], np.uint32))
    state = dataclasses.replace(state, finished=dataclasses.replace(state.finished, rewards=rewards))

    @jax.jit
    def run(state, stream):
        totals = metrics.totals(metrics.update_rows(state, stream))
        return metrics.compute(totals)["steps"], metrics.compute(merge_totals(totals, totals))["steps"]

    once, twice = run(state, stream)
    exact = 2**32 - 5 + 2**31 + 7 + 2 + 2 + 1
    assert (int(once), int(twice)) == (exact, 2 * exact)
    assert repr(once) == f"Count({exact})"
    assert np.asarray(jax.tree.map(lambda *x: jnp.stack(x), once, twice)).tolist() == [exact, 2 * exact]


def test_the_spread_of_returns_keeps_its_digits_far_from_zero():
    rewards = np.zeros((2, 41), np.float32)
    rewards[:, 1::2] = 1e6 + np.arange(40).reshape(2, 20)
    found = shown(Metrics(), rows(["F" + "LF" * 20] * 2, rewards))
    assert found["return_std"] == pytest.approx(np.std(np.arange(40)), rel=1e-4)
    assert found["return_mean"] == pytest.approx(1e6 + 19.5, rel=1e-7)


# --- shards, seeds, dtypes -------------------------------------------------------------------------------------------


def test_shards_that_add_up_over_a_mesh_axis_say_the_same_as_all_lanes_at_once():
    stream, _, (figures, _, _) = played("next_step")

    def shard(stream):
        totals = PLAY.totals(PLAY.update_rows(start(PLAY, stream), stream))
        return PLAY.compute(totals.psum("shards"))

    halves = jax.tree.map(lambda x: np.moveaxis(x.reshape(STEPS, 2, 2), 1, 0), stream)
    found = jax.jit(jax.vmap(shard, axis_name="shards"))(halves)
    for name, value in to_host(figures).items():
        expected = value if isinstance(value, int) else pytest.approx(value, rel=1e-6)
        assert to_host(found)[name] == [expected, expected], name


def test_metrics_run_inside_shard_map():
    metrics = Metrics(gamma=GAMMA)
    mesh = jax.make_mesh((1,), ("lanes",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec

    def shard(stream):
        state = metrics.update_rows(metrics.clear_finished(start(metrics, stream)), stream)
        return metrics.compute(metrics.totals(state).psum("lanes"))

    stream = rows(["FMML", "FMMM"])
    run = jax.shard_map(shard, mesh=mesh, in_specs=spec(None, "lanes"), out_specs=spec())
    assert to_host(jax.jit(run)(stream))["steps"] == 6


def test_the_state_keeps_its_types_and_leads_with_lanes():
    metrics = Metrics(gamma=GAMMA, env_info=("speed", "speed@max"))
    stream = rows(["FML", "FMM", "FLF"], speed=np.ones((3, 3), np.int32))
    state = start(metrics, stream)
    after = jax.eval_shape(metrics.update, state, jax.tree.map(lambda x: x[0], stream))
    for x, y in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert (x.shape, x.dtype, x.weak_type) == (y.shape, y.dtype, False)
        assert x.shape == (3,)
    shapes = jax.eval_shape(lambda: jax.tree.map(lambda x: jnp.asarray(x[0]), stream))
    assert jax.tree.structure(metrics.init(shapes)) == jax.tree.structure(state)


def test_metrics_are_hashable_and_equal_if_they_measure_the_same():
    assert {Metrics(0.9, ("a",)): 1}[Metrics(gamma=0.9, env_info=["a"])] == 1
    assert Metrics(0.9) != Metrics(0.8)
    assert hash(Metrics(jnp.float32(0.5))) == hash(Metrics(0.5))


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gamma": 1.5}, r"gamma must be in \[0, 1\], got 1.5"),
        ({"gamma": -0.1}, r"gamma must be in \[0, 1\], got -0.1"),
        ({"gamma": math.nan}, r"gamma must be in \[0, 1\], got nan"),
        ({"env_info": "speed"}, "must be a sequence of names, got the text 'speed'"),
        ({"env_info": ("speed@min",)}, "end in @step, @max or neither, got 'speed@min'"),
        ({"env_info": ("",)}, "end in @step, @max or neither, got ''"),
        ({"env_info": ("@max",)}, "end in @step, @max or neither, got '@max'"),
        ({"env_info": ("x@step@max",)}, "end in @step, @max or neither, got 'x@step@max'"),
        ({"gamma": "a"}, r"gamma must be in \[0, 1\], got 'a'"),
        ({"env_info": ("a", "b", "a")}, "must not repeat a name, got 'a' twice"),
    ],
)
def test_faulty_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"Metrics: .*{message}"):
        Metrics(**arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"discount": ()}, r"the rows hold no discount, keep it in unroll\(fields=...\)"),
        ({"reward": ()}, "the rows hold no reward"),
        ({"env_info": ()}, "the rows hold no env_info to find 'speed' in"),
        ({"env_info": {"sped": np.zeros(2)}}, r"field 'speed': no 'speed' here, the fields are \['sped'\]"),
        ({"env_info": {"speed": np.zeros((3, 2))}}, r"env_info 'speed' has shape \(3, 2\), the state \(3,\)"),
        ({"reward": np.zeros((3, 2), np.float32)}, r"the reward has shape \(3, 2\), the state \(3,\)"),
        ({"reward": np.zeros(4, np.float32)}, r"the reward has shape \(4,\), the state \(3,\)"),
    ],
)
def test_rows_that_do_not_fit_are_refused_at_trace_time(changes, message):
    metrics = Metrics(env_info=("speed",))
    row = jax.tree.map(lambda x: x[0], rows(["FM", "FM"], speed=np.zeros((2, 2), np.float32)))
    state = metrics.init(row)
    with pytest.raises(ValueError, match=f"Metrics: .*{message}"):
        jax.eval_shape(lambda state: metrics.update(state, dataclasses.replace(row, **changes)), state)


def test_sums_of_other_kinds_or_other_metrics_are_refused():
    metrics, row = Metrics(GAMMA), jax.tree.map(lambda x: x[0], rows(["FM"]))
    state = jax.eval_shape(metrics.init, row)
    totals = jax.eval_shape(metrics.totals, state)
    for method, sums, message in [
        (
            Metrics().totals,
            state,
            r"totals got the MetricsState of metrics with a gamma and with 0 .* Metrics\(gamma=None",
        ),
        (Metrics(GAMMA, ("a",)).compute, totals, "compute got the Totals of metrics with a gamma and with 0"),
        (lambda state: Metrics().update(state, row), state, "update got the MetricsState of metrics with a gamma"),
        (metrics.compute, state, "compute takes Totals, got MetricsState"),
        (metrics.totals, totals, "totals takes MetricsState, got Totals"),
    ]:
        with pytest.raises(ValueError, match=f"Metrics: {message}"):
            jax.eval_shape(method, sums)


def test_a_state_begins_from_one_row():
    with pytest.raises(ValueError, match=r"init takes one row \[B\], got step_type of shape \(6, 3\)"):
        Metrics().init(rows(["FML"]))
