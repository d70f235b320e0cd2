"""A lane depends only on its own key, actions and params, and not on the other lanes or their number.

Random words and integers are bitwise equal for every batch size. Floats of one step agree up to the compiler's
rounding, which depends on the batch size. With a fixed instruction set whole rollouts are bitwise equal, which a test
checks in a separate process.
"""

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, tree
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset, TimeLimit
from tests.rows import assert_equal, unrolled

SIZES = (1, 7, 64, 4096)
FLOATS = ["CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1"]
INTEGERS = ["CardGame-v0", "TicTacToe-v0"]
THOROUGH = pytest.mark.thorough


@functools.cache
def rollout_of(id, lanes, reset):
    return rollout(jaxenv.make(id, num_envs=lanes, reset_strategy=reset))


@functools.cache
def start_of(id, lanes):
    env = jaxenv.make(id, num_envs=lanes)
    return env.inner(jax.device_get(jax.jit(env.reset)(jax.random.key(5)))[0])


def rollout(env, num_steps=40):
    """Returns all rows of a random policy, whose draws do not depend on other lanes either."""

    @jax.jit
    def rows(key):
        state, timestep = env.reset(key)
        policy = jaxenv.rollout.random_policy(env)
        (_, last, _), experience = jaxenv.unroll(env, policy, state, timestep, num_steps)
        return experience, last

    return jax.device_get(rows(jax.random.key(5)))


@pytest.mark.parametrize("size", SIZES[:-1])
def test_random_words_are_the_same_for_every_batch_size(size):
    @jax.jit
    def words(env_id):
        clock = random.Clock(random.lane_words(jax.random.key(5), env_id), env_id, env_id * 0, env_id * 0)
        return random.separate_bits(clock.stream("a"), 5), random.bits(clock.stream("b"), (2, 3))

    few, many = (jax.device_get(words(jnp.arange(lanes, dtype=jnp.int32))) for lanes in (size, SIZES[-1]))
    assert_equal(few, jax.tree.map(lambda x: x[:size], many))
    assert len(np.unique(np.concatenate([np.ravel(w) for w in jax.tree.leaves(many)]))) > 0.999 * 11 * SIZES[-1]


@pytest.mark.parametrize("size", [pytest.param(1, marks=THOROUGH), 7, pytest.param(64, marks=THOROUGH)])
@pytest.mark.parametrize("id", FLOATS + INTEGERS)
def test_starts_are_bitwise_the_same_for_every_batch_size(id, size):
    assert_equal(start_of(id, size), jax.tree.map(lambda x: x[:size], start_of(id, SIZES[-1])))


@pytest.mark.parametrize(
    ("reset", "id"),
    [
        ("select", "CardGame-v0"),
        pytest.param("select", "TicTacToe-v0", marks=THOROUGH),
        pytest.param("compact", "CardGame-v0", marks=THOROUGH),
        ("compact", "TicTacToe-v0"),
    ],
)
def test_integer_rollouts_are_bitwise_the_same_for_every_batch_size(id, reset):
    big_rows, big_last = rollout_of(id, SIZES[-1], reset)
    for size in SIZES[:-1]:
        rows, last = rollout_of(id, size, reset)
        assert_equal(rows, jax.tree.map(lambda x, size=size: x[:, :size], big_rows))
        assert_equal(last, jax.tree.map(lambda x, size=size: x[:size], big_last))


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_lanes_out_of_phase_are_bitwise_the_same_for_every_batch_size(mode):
    lengths = np.random.default_rng(0).integers(1, 6, (SIZES[-1], 5))

    def rows(lanes):
        env = AutoReset(TimeLimit(Counting(lengths[:lanes], stride=10, num_envs=lanes), 4), mode, "compact")
        return unrolled(env, jnp.ones((30, lanes), jnp.int32))

    big = rows(SIZES[-1])
    last = big.step_type == 2
    assert (last.any(1) & ~last.all(1)).sum() > 3
    for size in SIZES[:-1]:
        assert_equal(rows(size), jax.tree.map(lambda x, size=size: x[:, :size], big))


WHOLE = ("CartPole-v1", "Pendulum-v1")
_WHOLE_ROLLOUTS = """
import sys
import jax, numpy as np
import jaxenv
from tests.test_lane_law import WHOLE, rollout
from tests.rows import assert_equal

for id in WHOLE:
    for reset in ("select", "compact") if id == "CartPole-v1" else ("select",):
        sizes = (7, 64, 4096)
        stack = {"reset_strategy": reset, "max_episode_steps": 30}
        rows = {n: rollout(jaxenv.make(id, num_envs=n, **stack), 70)[0] for n in sizes}
        for n in sizes[:2]:
            assert_equal(rows[n], jax.tree.map(lambda x: x[:, :n], rows[4096]))
        assert (rows[4096].timestep.step_type == 2).sum() > 4096
    print(id, "bitwise")
"""


def test_whole_rollouts_are_bitwise_the_same_under_one_instruction_set():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa=AVX"
    done = subprocess.run(
        [sys.executable, "-c", _WHOLE_ROLLOUTS], env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == [word for id in WHOLE for word in (id, "bitwise")]


def test_shared_statistics_are_not_selected_by_lane():
    shared = tree.Shared(jnp.arange(4))
    mask = jnp.array([True, False, True, False])
    assert tree.where(mask, tree.Shared(jnp.zeros(4, jnp.int32)), shared).value.tolist() == [0, 1, 2, 3]
