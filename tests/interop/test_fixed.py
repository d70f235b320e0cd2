"""Attributes of exported environments: what programs of other libraries set would have no effect, and is refused."""

import copy
import re

import numpy as np
import pytest

import jaxenv.interop.gymnasium
from jaxenv.interop import (
    host,
    to_brax,
    to_dm_env,
    to_gymnasium,
    to_gymnasium_vector,
    to_gymnax,
    to_jaxmarl,
    to_pettingzoo,
    to_stoa,
)
from tests.packages import imported, lazy

gymnasium = lazy("gymnasium")

MAKERS = {
    "to_gymnasium": (lambda: to_gymnasium("FrozenLake-v1")),
    "to_gymnasium_vector": (lambda: to_gymnasium_vector("FrozenLake-v1", 3)),
    "to_dm_env": (lambda: imported("dm_env") and to_dm_env("FrozenLake-v1")),
    "to_gymnax": (lambda: to_gymnax("FrozenLake-v1")),
    "to_brax": (lambda: imported("brax.envs.base") and to_brax("FrozenLake-v1")),
    "to_stoa": (lambda: imported("stoa") and to_stoa("FrozenLake-v1")),
    "host": (lambda: host("FrozenLake-v1", 3)),
}
GAMES = {
    "to_jaxmarl": (lambda: imported("jaxmarl") and to_jaxmarl("SimpleSpread-mpe")),
    "to_pettingzoo": (lambda: imported("pettingzoo") and to_pettingzoo("ConnectFour-v0")),
}


@pytest.mark.parametrize("name", ["state", "s", "P", "_max_episode_steps", "_elapsed_steps", "colour"])
@pytest.mark.parametrize("adapter", MAKERS)
def test_a_state_or_a_constant_cannot_be_set(adapter, name):
    env = MAKERS[adapter]()
    how = "docs/howto/branch.md steps from a state, docs/howto/start-states.md chooses where episodes start"
    with pytest.raises(AttributeError, match=rf"^{adapter}: {name} cannot be set.*{re.escape(how)}"):
        setattr(env, name, 3)
    assert not hasattr(env, name)


@pytest.mark.parametrize("adapter", MAKERS)
def test_a_param_is_set_where_the_environment_is_made(adapter):
    env = MAKERS[adapter]()
    with pytest.raises(
        AttributeError, match=rf"{adapter}: success_rate cannot be set, .*: {adapter}\(.*success_rate=0.5"
    ):
        env.success_rate = 0.5


@pytest.mark.parametrize("name", ["s", "observation_spaces", "possible_agents"])
@pytest.mark.parametrize("adapter", GAMES)
def test_neither_can_those_of_a_game(adapter, name):
    env = GAMES[adapter]()
    with pytest.raises(AttributeError, match=f"^{adapter}: {name} cannot be set"):
        setattr(env, name, 3)


@pytest.mark.parametrize(
    ("adapter", "name"),
    [
        ("to_gymnasium", "env"),
        ("to_gymnasium", "observation_space"),
        ("to_gymnasium", "action_space"),
        ("to_gymnasium_vector", "num_envs"),
        ("to_gymnasium_vector", "single_action_space"),
        ("to_gymnasium_vector", "autoreset_mode"),
        ("host", "env"),
    ],
)
def test_what_was_compiled_into_the_step_cannot_be_replaced(adapter, name):
    env = MAKERS[adapter]()
    before = getattr(env, name)
    with pytest.raises(AttributeError, match=f"^{adapter}: {name} cannot be set"):
        setattr(env, name, before)
    assert getattr(env, name) is before


def test_gymnasiums_own_ways_to_an_attribute_say_it_too():
    env = gymnasium.make("jaxenv/FrozenLake-v1")
    for use in (
        lambda: setattr(env.unwrapped, "s", 3),
        lambda: env.set_wrapper_attr("s", 3),
        lambda: gymnasium.vector.SyncVectorEnv([lambda: to_gymnasium("FrozenLake-v1")]).set_attr("s", 3),
        lambda: to_gymnasium_vector("FrozenLake-v1", 3).set_attr("s", 3),
    ):
        with pytest.raises(AttributeError, match=r"^to_gymnasium(_vector)?: s cannot be set"):
            use()


def test_what_has_an_effect_is_set():
    env = to_gymnasium("FrozenLake-v1")
    env.render_mode = "rgb_array"
    env.np_random = np.random.default_rng(3)
    expected = int(np.random.default_rng(3).integers(2**32))
    env.reset()
    assert env.np_random_seed == expected
    assert env.render().shape == (256, 256, 3)
    env.spec = gymnasium.spec("jaxenv/FrozenLake-v1")
    env.reset = lambda: "replaced"
    assert env.reset() == "replaced"
    twin = copy.deepcopy(to_gymnasium("FrozenLake-v1"))
    with pytest.raises(AttributeError, match=r"^to_gymnasium: s cannot be set"):
        twin.s = 3


def test_brax_may_set_the_params():
    imported("brax.envs.base")
    env = to_brax("CartPole-v1")
    env.sys = jaxenv.make("CartPole-v1", force=3.0).params
    assert env.sys.force == 3
