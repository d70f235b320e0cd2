"""Ranges of the params of all environments: what lies outside is refused, and their ends give finite rows."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.core._declared import declared_leaves
from tests.errors import like


def declared_params(id):
    return {d.path.removeprefix("params."): d for d in declared_leaves(jaxenv.spec(id).make(3)) if "params." in d.path}


WITH_PARAMS = [id for id in jaxenv.ids() if "params" in vars(jaxenv.spec(id).environment)]


@pytest.mark.parametrize("id", WITH_PARAMS)
def test_values_outside_the_declared_ranges_are_refused_in_every_lane(id):
    for name, d in declared_params(id).items():
        ends = {"low": -1, "above": 0, "high": 1, "below": 0}
        for end, beyond in ends.items():
            if getattr(d.range, end) is not None:
                wrong = d.dtype.type(getattr(d.range, end) + beyond)
                message = rf"^{id}: {name} must be .*, got {re.escape(str(wrong))}"
                with pytest.raises(ValueError, match=message + "$"):
                    jaxenv.make(id, 3, **{name: wrong.item()})
                with pytest.raises(ValueError, match=message + " in lane 1$"):
                    jaxenv.spec(id).make(3).with_params(**{name: jnp.array([d.value, wrong, d.value])})


PHYSICS = [
    "Acrobot-v1 CartPole-v1 MountainCar-v0 MountainCarContinuous-v0 Pendulum-v1 CartPole-bsuite CartPoleSwingup-bsuite",
    "MountainCar-bsuite Reacher-misc Swimmer-misc PointRobot-misc GaussianBandit-misc Pong-misc",
]


@pytest.mark.parametrize("id", " ".join(PHYSICS).split())
def test_rows_are_finite_with_every_float_param_at_zero_or_negative_where_its_range_allows_it(id):
    key = jax.random.key(0)
    for name, d in declared_params(id).items():
        values = [v for v in np.float32([0, -1]) if d.dtype == np.float32 and d.range.contains(v)]
        for value in values:
            try:
                env = jaxenv.spec(id).make(2, **{name: value})
            except ValueError:  # the order of two params, the start on the road
                continue
            spec = env.action_spec()
            state, timestep = env.step(env.reset(key)[0], jnp.ones((2, *spec.shape), spec.dtype))
            for leaf in jax.tree.leaves((state, timestep)):
                assert np.all(np.isfinite(leaf)), (name, value)


@pytest.mark.parametrize(
    ("id", "values", "message"),
    [
        ("CartPole-v1", {"masscart": -1.0}, "masscart ...got -1.0"),
        ("CartPole-v1", {"position_limit": 0}, r"position_limit ...got 0"),
        ("CartPole-v1", {"start_range": 0.5}, "start_range ...got 0.5"),
        ("Acrobot-v1", {"inertia": 0.0}, "inertia ...got 0.0"),
        ("Acrobot-v1", {"max_rate_1": 0.05}, "start_range ...got 0.1"),
        ("Pendulum-v1", {"start_rate": 9}, "start_rate ...got 9.0"),
        ("Pendulum-v1", {"max_torque": float("nan")}, r"max_torque ...got nan"),
        ("MountainCar-v0", {"start_low": -0.3}, "start_low ...got -0.3 and -0.4"),
        ("MountainCarContinuous-v0", {"start_high": 1.0}, "start_high ...got 1.0"),
        ("MountainCar-v0", {"max_position": -1.2}, "min_position ...got -1.2 and -1.2"),
    ],
)
def test_values_of_classic_control_that_give_no_episode_are_refused(id, values, message):
    with pytest.raises(ValueError, match=f"^{id}: {like(message)}$"):
        jaxenv.make(id, 2, **values)


def test_params_and_options_that_depend_on_each_other_may_be_given_together():
    env = jaxenv.spec("MountainCar-v0").make(2, min_position=-0.5, start_low=[-0.5, -0.45])
    assert env.initial_bounds()[0][0].tolist() == np.float32([-0.5, -0.45]).tolist()
