"""Copies of environments that Python steps, by ``copy.deepcopy`` and ``pickle``."""

import copy
import pickle

import jax
import numpy as np
import pytest

from jaxenv.interop import host, to_dm_env, to_gymnasium, to_gymnasium_vector
from tests.rows import assert_equal

pytest.importorskip("dm_env")
pytest.importorskip("gymnasium")

MAKERS = {
    "host": lambda: host("Catch-bsuite", 2, seed=3),
    "to_dm_env": lambda: to_dm_env("Catch-bsuite", seed=3),
    "to_gymnasium": lambda: to_gymnasium("MiniGrid-Empty-5x5-v0"),  # a dict of an image and an integer
    "to_gymnasium_vector": lambda: to_gymnasium_vector("FrozenLake-v1", 2),  # observations are cast to int64
}
COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda env: pickle.loads(pickle.dumps(env))}


def start(env):
    seed = {"seed": 3} if hasattr(env, "observation_space") else {}
    return arrays(env.reset(**seed))


def play(env, num_steps):
    action = np.array([1, 2], np.int32) if getattr(env, "num_envs", 1) == 2 else np.int32(1)
    return [arrays(env.step(action)) for _ in range(num_steps)]


def arrays(row):
    """A row of any of the interfaces as a tree of arrays of its own."""
    return jax.tree.map(np.array, row, is_leaf=lambda x: x is None)


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("adapter", MAKERS)
def test_a_copy_continues_from_the_same_state(adapter, how):
    env = MAKERS[adapter]()
    start(env)
    play(env, 3)
    twin = COPIES[how](env)
    rows = play(env, 4)
    env.close()  # the copy has a state of its own
    assert_equal(play(twin, 4), rows)


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("adapter", MAKERS)
def test_an_environment_that_has_not_started_is_copied(adapter, how):
    env = MAKERS[adapter]()
    twin = COPIES[how](env)
    found, expected = start(twin), start(env)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    assert all(map(np.array_equal, jax.tree.leaves(found), jax.tree.leaves(expected)))


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_of_a_closed_environment_is_closed(how):
    env = MAKERS["to_dm_env"]()
    start(env)
    env.close()
    with pytest.raises(ValueError, match=r"^to_dm_env: the environment is closed"):
        COPIES[how](env).reset()


def test_an_engine_outside_jax_is_not_copied_with_its_state():
    env = host("gymnasium:CartPole-v1", 2)
    env.reset()
    with pytest.raises(TypeError, match=r"^host: the state of .* cannot be copied"):
        copy.deepcopy(env)
    env.close()
