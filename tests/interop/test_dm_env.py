"""`to_dm_env`: one lane behind dm_env's methods."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("dm_env")

import dm_env
from absl.testing import absltest
from dm_env import test_utils

import jaxenv
from jaxenv import specs
from jaxenv.interop import to_dm_env
from jaxenv.testing import Chain, Counting, random_environment

DICTS = random_environment(
    {"image": specs.Bounded((3, 3), np.uint8, 0, 255), "pair": (specs.Array((2,), np.float32), specs.discrete(4))},
    {"turn": specs.discrete(3), "push": specs.Bounded((2,), np.float32, -1, 1)},
)


class CheckOfDmEnv(test_utils.EnvironmentTestMixin, absltest.TestCase):
    """dm_env's own check; episodes end within its 20 actions."""

    env = "CartPole-v1"
    limit = 7

    def make_object_under_test(self):
        options = {"max_episode_steps": self.limit} if isinstance(self.env, str) else {}
        return to_dm_env(self.env, seed=1, **options)


class CheckOfContinuousActions(CheckOfDmEnv):
    env = "Pendulum-v1"


class CheckOfImages(CheckOfDmEnv):
    env = "Breakout-MinAtar"


class CheckOfDicts(CheckOfDmEnv):
    env = DICTS


class CheckOfBatchState(CheckOfDmEnv):
    env = jaxenv.make("CartPole-v1", wrappers=["NormalizeObservation"], max_episode_steps=5)


def played(env, num_steps, action=1):
    return [env.step(action) for _ in range(num_steps)]


def test_rows_are_those_of_a_batch_of_one_lane():
    env = jaxenv.make("CartPole-v1", max_episode_steps=3)
    state, timestep = env.reset(jax.random.key(5))
    found = to_dm_env("CartPole-v1", seed=5, max_episode_steps=3)
    for row in played(found, 12):
        np.testing.assert_allclose(row.observation, timestep.observation[0], rtol=1e-6)
        assert row.step_type == timestep.step_type[0]
        assert row.reward == (None if row.first() else timestep.reward[0])
        state, timestep = env.step(state, jnp.ones(1, jnp.int32))


def test_the_action_after_last_and_before_an_episode_is_ignored():
    env = to_dm_env("CartPole-v1", max_episode_steps=2)
    assert [env.step(action).step_type for action in (None, 1, 1, None, 1, 1, "left")] == [0, 1, 2, 0, 1, 2, 0]


def test_the_discount_tells_termination_from_truncation():
    ends = {}
    for name, env in (("terminated", Counting([2])), ("truncated", jaxenv.wrappers.TimeLimit(Counting([9]), 2))):
        ends[name] = next(row for row in played(to_dm_env(env), 5, np.int32(0)) if row.last())
    assert ends["terminated"].discount == 0
    assert ends["truncated"].discount == 1


def test_reset_starts_another_episode_each_time_and_seeds_repeat():
    first, second = (to_dm_env("CartPole-v1", seed=3) for _ in range(2))
    starts = [first.reset().observation.tolist() for _ in range(3)]
    assert len(set(map(tuple, starts))) == 3
    assert [second.reset().observation.tolist() for _ in range(3)] == starts
    assert to_dm_env("CartPole-v1", seed=4).reset().observation.tolist() not in starts


def test_arrays_are_of_numpy_and_keep_their_values():
    env = to_dm_env("CartPole-v1")
    row = env.reset()
    before = row.observation.copy()
    played(env, 3)
    assert type(row.observation) is np.ndarray
    np.testing.assert_array_equal(row.observation, before)


def test_specs_have_names_and_bounds():
    env = to_dm_env("Pendulum-v1")
    spec = env.action_spec()
    assert type(spec) is dm_env.specs.BoundedArray
    assert (spec.name, spec.minimum.item(), spec.maximum.item(), spec.shape) == ("action", -2, 2, (1,))
    assert env.reward_spec() == dm_env.specs.Array((), np.float32)
    assert env.discount_spec() == dm_env.specs.BoundedArray((), np.float32, 0, 1)
    inner = to_dm_env(DICTS).observation_spec()
    assert type(inner["pair"][0]) is dm_env.specs.Array
    assert type(inner["pair"][1]) is dm_env.specs.DiscreteArray


def test_integers_of_any_dtype_are_actions():
    rows = []
    for action in (1, np.uint8(1), np.int64(1), jnp.int32(1)):
        env = to_dm_env("CartPole-v1")
        env.reset()
        rows.append(env.step(action).observation)
    for row in rows[1:]:
        np.testing.assert_array_equal(row, rows[0])


def step_with(action, id="CartPole-v1"):
    env = to_dm_env(id)
    env.reset()
    return env.step(action)


def closed():
    with to_dm_env("CartPole-v1") as env:
        env.reset()
    return env


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: to_dm_env(5), r"to_dm_env: env .*got 5"),
        (lambda: to_dm_env(Chain(), max_episode_steps=3), r"options belong to.*max_episode_steps"),
        (lambda: to_dm_env("CartPole-v1", autoreset="same_step"), "make .* with autoreset='next_step'"),
        (lambda: to_dm_env("CartPole-v1", seed=-1), r"to_dm_env: seed .*got -1"),
        (
            lambda: to_dm_env("CartPole-v1", num_envs=4),
            "leave out num_envs, a dm_env.Environment is one lane",
        ),
        (lambda: to_dm_env(Counting([[3], [4]], num_envs=2)), "holds 2 lanes, the batch has 1"),
        (lambda: step_with(0.5), r"action .*got float64"),
        (lambda: step_with(2), r"to_dm_env: action .*got 2$"),
        (lambda: step_with(np.zeros(1, int)), r"to_dm_env: action .*got \(1,\)$"),
        (lambda: step_with({"a": 1}), r"action .*got object$"),
        (lambda: step_with(np.zeros(1, int), "Pendulum-v1"), r"action .*got int64"),
        (lambda: closed().step(1), "to_dm_env: the environment is closed"),
        (lambda: closed().reset(), "to_dm_env: the environment is closed"),
    ],
)
def test_what_does_not_fit_is_refused(use, message):
    with pytest.raises(ValueError, match=message):
        use()
