"""``reset``, ``step``, ``render`` and ``reset_where`` as compiled programs outside of traces."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs, tree
from jaxenv.testing import Chain, checked
from jaxenv.wrappers import AutoReset, EpisodeStatistics

KEY = jax.random.key(0)
ACTION = np.array([1, 1, 0], np.int32)


@tree.struct
class Params:
    bonus: float = tree.leaf(default=0.0)


class Noting(Chain):
    """A chain that notes whether the numbers of each transition are known."""

    params: Params = Params()

    def transition(self, state, action, stream):
        known.append(not isinstance(action, jax.core.Tracer))
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, reward=out.reward + self.params.bonus)

    def draw(self, state, canvas):
        known.append(not isinstance(canvas.image(), jax.core.Tracer))
        return canvas


known: list[bool] = []


@pytest.fixture
def env():
    env = AutoReset(EpisodeStatistics(Noting(num_envs=3)))
    env.start_shapes()  # cached: calls `transition` for its shapes
    known.clear()
    return env


def test_calls_outside_of_traces_trace_once_whatever_the_values(env):
    state, timestep = env.reset(KEY)
    env.reset(jax.random.key(1))
    known.clear()
    for i in range(3):
        other = env.with_params(bonus=float(i))
        _, later = other.step(state, (ACTION + i) % 2)
        assert later.reward.tolist() == [i, i, i]
        env.render(state)
        jaxenv.reset_where(env, state, timestep, np.arange(3) == i)
    assert known.count(True) == 0
    assert len(known) <= 2  # step and render, unless another test has compiled them


@pytest.mark.compiled
def test_a_call_inside_of_a_trace_is_no_program_of_its_own(env):
    # A program within a program has the same results and takes longer to trace.
    def operations(function, *args):
        return [equation.primitive.name for equation in jax.make_jaxpr(function)(*args).eqns], known.copy()

    state, _ = env.reset(KEY)
    own, _ = operations(env.proceed, state, ACTION)
    assert operations(env.step, state, ACTION)[0] == own
    gradient = jax.grad(lambda bonus: env.with_params(bonus=bonus).step(state, ACTION)[1].reward.sum())
    assert gradient(1.0) == 3


def test_without_compilation_the_author_sees_numbers(env):
    with jax.disable_jit():
        state, _ = env.reset(KEY)
        known.clear()
        env.step(state, jnp.asarray(ACTION))
    assert known == [True]


def test_wide_integers_of_numpy_are_taken_as_they_are():
    env = Chain(num_envs=3)
    state, _ = env.reset(KEY)
    _, timestep = env.step(state, np.array([0, 1, 1], np.int64))
    assert timestep.prev_action.tolist() == timestep.observation.tolist() == [0, 1, 1]


@pytest.mark.parametrize("action", [np.array([0, -(2**32), 0], np.int64), np.array([0, 2**63, 0], np.uint64)])
def test_wide_integers_of_numpy_are_refused_instead_of_wrapping_around(action):
    env = Chain(num_envs=3)
    with pytest.raises(ValueError, match=rf"action .*got {action[1]} in lane 1"):
        env.step(env.reset(KEY)[0], action)


def test_wide_integers_without_bounds_become_the_nearest_ones():
    class Unbounded(Chain):
        def action_spec(self):
            return specs.Array((), np.int32)

    env = Unbounded(num_envs=3)
    _, timestep = env.step(env.reset(KEY)[0], np.array([2**32 + 1, -(2**40), -7], np.int64))
    assert timestep.prev_action.tolist() == [2**31 - 1, -(2**31), -7]


@pytest.mark.parametrize("action", ["left", ["left"], None, [1, 1, 0], 1.5])
def test_an_action_that_is_no_array_is_refused_by_name(env, action):
    state, _ = env.reset(KEY)
    with pytest.raises(ValueError, match=r"action(\.0)? must (be|have)"):
        env.step(state, action)


def test_an_environment_that_raises_errors_of_its_own_is_not_compiled(env):
    watched = checked(env)
    state, _ = watched.reset(KEY)
    with pytest.raises(ValueError, match="action at lane 1, episode 0, step 0 is 7"):
        watched.step(state, np.array([0, 7, 0], np.int32))
