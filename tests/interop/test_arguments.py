"""Arguments of adapters are refused by name."""

import dataclasses
import functools
import sys

import jax
import jax.numpy as jnp
import pytest

import jaxenv
from jaxenv import interop, specs
from jaxenv.interop import brax, gymnax, gymnax_v0, stable_baselines3, stoa
from tests.errors import like
from tests.packages import imported

key = jax.random.key(0)


@functools.cache
def made():
    """An environment for gymnax, its params and a state."""
    imported("gymnax")  # to_gymnax reads its spaces
    env = interop.to_gymnax("CartPole-v1")
    return env, env.default_params, env.reset(key, env.default_params)[1]


def step(state=None, action=0, params=None):
    env, default, start = made()
    return env.step(key, state or start, action, params or default)


CALLS = {
    "dict for params": (
        lambda: step(params={"gravity": 3.0}),
        "<GymnaxEnv<TimeLimit<CartPole-v1>>>: params ...got a dict",
    ),
    "param of text": (
        lambda: step(params=dataclasses.replace(made()[1], gravity="heavy")),
        "<GymnaxEnv<TimeLimit<CartPole-v1>>>: params.gravity ...got 'heavy'",
    ),
    "param of text at a reset": (
        lambda: made()[0].reset(key, dataclasses.replace(made()[1], gravity="heavy")),
        "<GymnaxEnv<TimeLimit<CartPole-v1>>>: params.gravity ...got 'heavy'",
    ),
    "text to replace": (lambda: made()[1].replace(gravity="heavy"), "replace: gravity ...got 'heavy'"),
    "list for a state": (
        lambda: step(state=[made()[2]]),
        "<GymnaxEnv<TimeLimit<CartPole-v1>>>: state ...got a list",
    ),
    "object for an action": (
        lambda: step(action=object()),
        "<GymnaxEnv<TimeLimit<CartPole-v1>>>: action ...got object",
    ),
    "spec of an observation": (
        lambda: interop.batch(lambda key: (0, jnp.zeros(2)), lambda *_: 0, action=specs.discrete(2), observation="x"),
        "batch: observation ...got 'x'",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_another_type_is_refused_by_name(name):
    call, start = CALLS[name]
    with pytest.raises(ValueError, match=f"^{like(start)}"):
        call()


def test_axes_of_vmap_may_replace_params():
    axes = made()[1].replace(gravity=None)
    assert axes.gravity is None


NEED_GYMNAX = {
    "to_gymnax": lambda: interop.to_gymnax("Pendulum-v1"),
    "gymnax.environments": lambda: gymnax.environments,
    "gymnax.wrappers": lambda: gymnax.wrappers,
    "gymnax_v0.environments": lambda: gymnax_v0.environments,
    "action space": lambda: made()[0].action_space(made()[1]),
    "observation space": lambda: made()[0].observation_space(made()[1]),
}


@pytest.mark.parametrize("use", NEED_GYMNAX.values(), ids=NEED_GYMNAX)
def test_without_gymnax_the_error_names_the_command_of_the_extra(use, monkeypatch):
    made()
    for module in ("environments", "environments.spaces", "wrappers"):
        monkeypatch.setitem(sys.modules, f"gymnax.{module}", None)
    with pytest.raises(ImportError, match=r'^gymnax is not.* ".*\[gymnax\]"'):
        use()


# What exports an environment of one agent, and which wrapper makes lanes of agents for it.
ONE_AGENT = {
    "to_gymnax": (lambda id: interop.to_gymnax(id), ""),
    "to_brax": (lambda id: brax.BraxEnv(jaxenv.make(id, autoreset=None)), ""),
    "to_stoa": (lambda id: stoa.StoaEnv(jaxenv.make(id, autoreset=None)), ""),
    "to_dm_env": (lambda id: interop.to_dm_env(id), ""),
    "to_gymnasium": (lambda id: interop.to_gymnasium(id), ""),
    "to_gymnasium_vector": (lambda id: interop.to_gymnasium_vector(id, 2), "put AgentsAsLanes in wrappers, or "),
    "to_stable_baselines3": (lambda id: interop.to_stable_baselines3(id, 2), "put AgentsAsLanes in wrappers, or "),
}


@pytest.mark.parametrize("name", ONE_AGENT)
def test_a_game_is_refused_where_one_agent_is_exported_and_the_error_says_what_to_use(name, monkeypatch):
    export, fold = ONE_AGENT[name]
    for package in {"to_gymnax": ["gymnax"], "to_dm_env": ["dm_env"]}.get(name, []):
        imported(package)
    monkeypatch.setattr(stable_baselines3, "joined", lambda cls: cls)
    with pytest.raises(ValueError, match=rf"^{name}: env .*CoinGame.* has 2: {fold}use to_jaxmarl or to_pettingzoo$"):
        export("CoinGame-v0")
    with pytest.raises(ValueError, match=rf"^{name}: env .*ConnectFour.* has 2: put Opponent .*or use to_pettingzoo$"):
        export("ConnectFour-v0")
