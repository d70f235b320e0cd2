"""Arguments of adapters are refused by name."""

import dataclasses
import re
import sys

import jax
import jax.numpy as jnp
import pytest

import jaxenv
from jaxenv import interop, specs
from jaxenv.interop import gymnax, gymnax_v0
from tests.interop import optional

optional.imported("gymnax")  # to_gymnax reads its spaces
env = interop.to_gymnax("CartPole-v1")
params, key = env.default_params, jax.random.key(0)
state = env.reset(key, params)[1]
rows = jaxenv.make("CartPole-v1", num_envs=2).reset(key)[1]

CALLS = {
    "dict for params": (
        lambda: env.step(key, state, 0, {"gravity": 3.0}),
        "<GymnaxEnv<TimeLimit<CartPole-v1>>>: params must be env.default_params or a replace of it, got a dict",
    ),
    "param of text": (
        lambda: env.step(key, state, 0, dataclasses.replace(params, gravity="heavy")),
        "<GymnaxEnv<TimeLimit<CartPole-v1>>>: params.gravity must be an array of numbers, got 'heavy'",
    ),
    "param of text at a reset": (
        lambda: env.reset(key, dataclasses.replace(params, gravity="heavy")),
        "<GymnaxEnv<TimeLimit<CartPole-v1>>>: params.gravity must be an array of numbers, got 'heavy'",
    ),
    "text to replace": (lambda: params.replace(gravity="heavy"), "replace: gravity must be a number or an array of"),
    "list for a state": (
        lambda: env.step(key, [state], 0, params),
        "<GymnaxEnv<TimeLimit<CartPole-v1>>>: state must be a GymnaxState, as reset and step return it, got a list",
    ),
    "object for an action": (
        lambda: env.step(key, state, object(), params),
        "<GymnaxEnv<TimeLimit<CartPole-v1>>>: action must be an array of numbers, got object",
    ),
    "number of fields": (
        lambda: interop.host("CartPole-v1", fields=3),
        "host: fields must be a sequence of names, got 3",
    ),
    "spec of an observation": (
        lambda: interop.batch(lambda key: (0, jnp.zeros(2)), lambda *_: 0, action=specs.discrete(2), observation="x"),
        "batch: observation must be a spec or a tree of specs, got 'x'",
    ),
    "dict for a row": (
        lambda: interop.to_dm_timestep({"reward": 1}),
        "to_dm_timestep: timestep must be a TimeStep, got a dict",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_another_type_is_refused_by_name(name):
    call, start = CALLS[name]
    with pytest.raises(ValueError, match=f"^{re.escape(start)}"):
        call()


def test_axes_of_vmap_may_replace_params():
    axes = params.replace(gravity=None)
    assert axes.gravity is None


NEED_GYMNAX = {
    "to_gymnax": lambda: interop.to_gymnax("Pendulum-v1"),
    "gymnax.environments": lambda: gymnax.environments,
    "gymnax.wrappers": lambda: gymnax.wrappers,
    "gymnax_v0.environments": lambda: gymnax_v0.environments,
    "action space": lambda: env.action_space(params),
    "observation space": lambda: env.observation_space(params),
}


@pytest.mark.parametrize("use", NEED_GYMNAX.values(), ids=NEED_GYMNAX)
def test_without_gymnax_the_error_names_the_command_of_the_extra(use, monkeypatch):
    for module in ("environments", "environments.spaces", "wrappers"):
        monkeypatch.setitem(sys.modules, f"gymnax.{module}", None)
    with pytest.raises(ImportError, match=r'^gymnax is not installed: pip install ".*\[gymnax\]"'):
        use()
