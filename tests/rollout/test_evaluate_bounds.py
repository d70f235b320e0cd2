"""How long an evaluation plays by default: to the time limit, which the whole stack decides."""

import dataclasses
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import Multitask
from jaxenv.rollout import PolicyStep, evaluate
from jaxenv.testing import Chain, Counting
from jaxenv.wrappers import ActionRepeat, AutoReset, NonEpisodic, NoopReset, TimeLimit
from tests.rollout.test_evaluate import MODES, played


class Slow(Chain):
    """Nothing ends it: what the default bound is for."""

    def transition(self, state, action, stream):
        return dataclasses.replace(super().transition(state, action, stream), terminated=jnp.zeros(state.shape, bool))


@pytest.fixture
def _short_default(monkeypatch):
    """Without a time limit an episode has 20 steps."""
    monkeypatch.setattr(sys.modules[evaluate.__module__], "_WITHOUT_LIMIT", 20)


def stay(timestep, stream):
    return jnp.zeros_like(timestep.step_type)


@pytest.mark.usefixtures("_short_default")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("limited", "lengths"),
    [
        (lambda env: TimeLimit(env, 37), [37, 37]),
        (lambda env: TimeLimit(env, np.array([37, 41])), [37, 41]),
        (lambda env: TimeLimit(TimeLimit(env, np.array([97, 41])), np.array([37, 101])), [37, 41]),
        (lambda env: TimeLimit(ActionRepeat(env, 3), 37), [37, 37]),
        (lambda env: ActionRepeat(TimeLimit(env, 101), 3), [34, 34]),
        (lambda env: TimeLimit(NonEpisodic(TimeLimit(env, 5)), 37), [37, 37]),
        (lambda env: Multitask((TimeLimit(env, 37), TimeLimit(env, 41)), np.array([1, 0])), [41, 37]),
        (lambda env: NoopReset(TimeLimit(env, 37), 3), None),
        # A lane without a limit has the bound of a stack without one, which the other lane does not lower.
        (lambda env: TimeLimit(env, np.array([37, 2**31 - 1])), [37, -1]),
        (lambda env: NonEpisodic(TimeLimit(env, 5)), [-1, -1]),
        (lambda env: Multitask((TimeLimit(env, 2**31 - 1), TimeLimit(env, 13)), np.array([1, 0])), [13, -1]),
        (lambda env: env, [-1, -1]),
    ],
)
def test_the_default_bound_is_the_time_limit_where_there_is_one(limited, lengths, mode):
    result = played(AutoReset(limited(Slow(9, num_envs=2)), mode), stay, 10)
    if lengths is None:
        assert result.finished.all()
    else:
        assert result.lengths.reshape(2, 5).tolist() == [[length] * 5 for length in lengths]


@pytest.mark.usefixtures("_short_default")
def test_a_traced_limit_bounds_the_episodes_too():
    env = AutoReset(TimeLimit(Slow(9, num_envs=2), np.array([37, 41])))
    result = jax.jit(lambda env, key: evaluate(env, stay, key, 6))(env, jax.random.key(0))
    assert result.lengths.tolist() == [37] * 3 + [41] * 3


@pytest.mark.usefixtures("_short_default")
def test_an_agent_that_chooses_among_tasks_may_use_the_limits_of_all():
    tasks = [TimeLimit(Slow(9, num_envs=1), limit) for limit in (37, 41)]

    def alternate(timestep, stream, memory):
        action = {"task_id": memory % 2, "action": jnp.zeros_like(memory)}
        return PolicyStep(action, memory + 1)

    env = AutoReset(Multitask(tasks, agent_chooses=True))
    result = played(env, alternate, 2, initial_memory=jnp.zeros(1, jnp.int32))
    assert result.lengths.tolist() == [73, 73]  # 37 steps of the first task, 36 of the second


def test_a_hidden_end_meets_the_bound_of_the_limit_and_is_reported():
    class Hiding(jaxenv.Wrapper):
        """Removes ends and does not say so."""

        owns = frozenset({"step_type"})

        def proceed(self, state, action):
            state, timestep = self.env.proceed(state, action)
            return state, dataclasses.replace(timestep, step_type=jnp.minimum(timestep.step_type, 1))

    env = AutoReset(Hiding(TimeLimit(Slow(9), 5)))
    with pytest.warns(UserWarning, match="evaluate: 3 of 3 episodes had not ended"):
        assert np.isnan(evaluate(env, stay, jax.random.key(0), 3).returns).all()


def test_a_bound_that_int32_cannot_hold_is_the_largest_number():
    env = AutoReset(TimeLimit(Counting(np.array([2])), 2**31 - 2))
    assert played(env, num_episodes=9).lengths.tolist() == [2] * 9


def test_300_whole_episodes_of_a_lane_are_played():
    env = AutoReset(TimeLimit(Slow(9), 500))
    assert played(env, stay, 300).lengths.tolist() == [500] * 300
