"""ResampleParams: params redrawn for every episode of every lane."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, specs, tree
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.wrappers import AutoReset, ClipReward, ResampleParams, TimeLimit
from tests.rows import assert_equal, random_actions, unrolled
from tests.testing.twins import Walk

FIRST, LAST = 0, 2


def lanes(values):
    return np.asarray(values).T.tolist()


def walking(num_envs=3, **distributions):
    """A walk from 0."""
    return ResampleParams(Walk(num_envs=num_envs).with_params(spread=0), distributions)


def by_episode(key):
    """0.75 in the first episode, 1.5 in the second and so on: the first counter word of a stream is the episode."""
    return 0.75 * (key.c0 + 1).astype(jnp.float32)


# Lane 0 walks to the right until its episode ends; the others move back and forth.
TO_AND_FRO = np.array([[1, 1, 1], [1, 0, 0], [1, 1, 1], [1, 0, 0], [1, 1, 1]], np.int32)


@pytest.mark.parametrize("strategy", ["select", "compact"])
@pytest.mark.parametrize(
    ("mode", "kinds", "places", "strides"),
    [
        ("next_step", [0, 1, 2, 0, 2, 0], [0, 0.75, 1.5, 0, 1.5, 0], [0.75, 0.75, 0.75, 1.5, 1.5, 2.25]),
        ("same_step", [0, 1, 2, 2, 2, 2], [0, 0.75, 0, 0, 0, 0], [0.75, 0.75, 1.5, 2.25, 3, 3.75]),
    ],
)
def test_the_params_of_a_lane_change_at_the_start_of_an_episode(mode, kinds, places, strides, strategy):
    r = unrolled(AutoReset(walking(stride=by_episode), mode, strategy), TO_AND_FRO)
    others = [0, 0.75, 0, 0.75, 0, 0.75]
    assert lanes(r.step_type) == [kinds, [0, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]]
    assert lanes(r.observation[..., 0]) == [places, others, others]
    assert lanes(r.env_info["params"]["stride"]) == [strides, [0.75] * 6, [0.75] * 6]
    if mode == "same_step":
        assert lanes(r.reward)[0] == [0, 0.75, 1.5, 1.5, 2.25, 3]
        assert lanes(r.env_info["final_observation"][..., 0])[0] == [0, 0.75, 1.5, 1.5, 2.25, 3]


def test_params_are_uniform_over_lanes_and_episodes_and_take_effect_as_reported():
    env = AutoReset(TimeLimit(walking(200, stride=(0.2, 0.4)), 2))
    r = unrolled(env, np.ones((5, 200), np.int32))
    stride = r.env_info["params"]["stride"]
    assert ((stride >= 0.2) & (stride < 0.4)).all()
    assert len(np.unique(stride[0])) > 190
    assert abs(stride[0].mean() - 0.3) < 0.015
    assert (stride[:3] == stride[0]).all()  # FIRST, MID, LAST
    assert (stride[3] != stride[0]).all()
    assert abs(np.corrcoef(stride[0], stride[3])[0, 1]) < 0.2
    for t in (1, 2, 4, 5):
        np.testing.assert_allclose(r.observation[t, :, 0] - r.observation[t - 1, :, 0], stride[t], rtol=1e-5)


def test_a_range_of_one_number_equals_with_params():
    core = Walk(num_envs=3)
    actions = random_actions(core, 12)
    drawn = unrolled(AutoReset(ResampleParams(core, {"stride": (0.25, 0.25), "spread": (0.5, 0.5)})), actions)
    plain = unrolled(AutoReset(core.with_params(stride=0.25)), actions)
    drawn.env_info.pop("params")
    assert (plain.step_type[1:] == FIRST).any()
    assert_equal(drawn, plain)


def test_params_that_are_not_drawn_can_be_set_by_with_params():
    env = ResampleParams(Walk(num_envs=2), {"stride": (0.25, 0.25)}).with_params(spread=0, stride=3)
    r = unrolled(env, np.ones((1, 2), np.int32))
    assert r.observation[..., 0].tolist() == [[0, 0], [0.25, 0.25]]


def test_nested_resample_params_draw_independently_among_other_wrappers():
    env = ResampleParams(ClipReward(ResampleParams(Walk(num_envs=4), {"stride": (0, 1)}), -9, 9), {"spread": (0, 1)})
    r = unrolled(AutoReset(TimeLimit(env, 3)), np.ones((2, 4), np.int32))
    drawn = r.env_info["params"]
    assert sorted(drawn) == ["spread", "stride"]
    assert (drawn["spread"] != drawn["stride"]).all()
    np.testing.assert_allclose(np.diff(r.observation[..., 0], axis=0), drawn["stride"][1:], rtol=1e-5)
    assert env.reward_spec() == specs.Bounded((), np.float32, -9, 9)


def test_make_puts_resample_params_inside_auto_reset():
    env = jaxenv.make("Pendulum-v1", num_envs=2, wrappers=[("ResampleParams", {"distributions": {"mass": (1, 2)}})])
    assert repr(env) == "<AutoReset<ResampleParams<TimeLimit<ClipAction<GuardNonFinite<Pendulum-v1>>>>>>"
    assert env.observation_spec() == jaxenv.spec("Pendulum-v1").make().observation_spec()


@tree.struct
class TableParams:
    """An integer and a table, with a rule that the environment checks."""

    count: int = 3
    table: jnp.ndarray = tree.leaf(rank=1, default=(1.0, 2.0))


class Table(Task):
    """Shows its params."""

    params: TableParams = TableParams()

    def check(self):
        if not isinstance(self.params.count, jnp.ndarray) and np.any(np.asarray(self.params.count) < 0):
            raise ValueError(f"Table: count must not be negative, got {self.params.count}")

    def initial(self, stream):
        return jnp.zeros(stream.shape, jnp.int32)

    def transition(self, state, action, stream):
        return Transition(state, jnp.zeros(state.shape), jnp.ones(state.shape, bool))

    def observe(self, state):
        table = jnp.broadcast_to(self.params.table, (*state.shape, 2))
        return {"count": jnp.broadcast_to(self.params.count, state.shape), "table": table}

    def observation_spec(self):
        return {"count": specs.Array((), np.int32), "table": specs.Array((2,), np.float32)}

    def action_spec(self):
        return specs.discrete(2)


def test_integers_include_both_ends_and_tables_are_drawn_elementwise():
    env = AutoReset(ResampleParams(Table(num_envs=90), {"count": (2, 4), "table": (0, 1)}))
    r = unrolled(env, np.zeros((2, 90), np.int32))
    assert r.observation["count"].dtype == np.int32
    assert set(r.observation["count"].ravel()) == {2, 3, 4}
    assert r.observation["table"].shape == (3, 90, 2)
    assert len(np.unique(r.observation["table"])) > 340
    assert_equal(r.observation, r.env_info["params"])
    assert (r.observation["count"][0] == r.observation["count"][1]).all()  # LAST shows those of its own episode


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: walking(strid=(1, 2)), r"ResampleParams: no param 'strid'.*'stride'\?"),
        (lambda: walking(mass=(1, 2)), "ResampleParams: no param 'mass', the params"),
        (lambda: walking(stride=(2, 1)), r"stride: low .*got \(2, 1\)"),
        (lambda: walking(stride=(0, np.inf)), r"stride: low .*got \(0, inf\)"),
        (lambda: ResampleParams(Walk(), 5), r"distributions .*got 5"),
        (
            lambda: ResampleParams(jaxenv.spec("Pendulum-v1").make(), {"mass": (0, 1)}),
            r"Pendulum-v1: mass .*got 0.0",
        ),
        (lambda: walking(stride=1), r"stride .*got 1"),
        (lambda: walking(stride=(1, 2, 3)), r"stride .*got \(1, 2, 3\)"),
        (lambda: ResampleParams(Table(), {"count": (-1, 2)}), r"Table: count .*got -1"),
        (lambda: ResampleParams(Table(), {"count": (0.5, 2)}), "count must be int32"),
        (lambda: ResampleParams(AutoReset(Walk()), {"stride": (0, 1)}), "put ResampleParams inside AutoReset"),
        (
            lambda: unrolled(walking(stride=lambda stream: random.normal(stream, (2,))), TO_AND_FRO),
            r"stride .*got \(3, 2\)",
        ),
    ],
)
def test_an_invalid_argument_is_refused_by_name_and_value(build, message):
    with pytest.raises(ValueError, match=message):
        build()
