"""Functions of data that are called outside of traces: a loop in them is compiled at the first call only."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import data
from jaxenv.data import PrioritizedSampling, Replay
from jaxenv.rollout import Metrics
from tests.data.replay.blocks import block
from tests.data.rollouts import unrolled

KEY = jax.random.key(0)


def rows():
    experience, last = jax.tree.map(jnp.asarray, unrolled("next_step"))
    return experience, last, jnp.ones((11, 3))


def of_returns(function):
    experience, last, values = rows()
    return lambda: function(experience.timestep, last, values)


def of_replay(method, **options):
    replay = Replay(16, 3, **options)
    state = replay.add(replay.init(block(0, 4)), block(0, 4))
    return lambda: method(replay, state)


def update_priorities(replay, state):
    batch = replay.sample(state, KEY, 4)
    return replay.update_priorities(state, batch, jnp.ones(4))


def measure():
    experience, last, _ = rows()
    metrics = Metrics(gamma=0.9)
    state = metrics.init(last)
    return lambda: metrics.update_rows(state, experience.timestep)


PRIORITIES = {"sampling": PrioritizedSampling(0.6)}
CALLS = {
    "gae": lambda: of_returns(functools.partial(data.gae, gamma=0.9, lambda_=0.8)),
    "td_lambda": lambda: of_returns(functools.partial(data.td_lambda, gamma=0.9, lambda_=0.8)),
    "n_step_return": lambda: of_returns(functools.partial(data.n_step_return, n=3, gamma=0.9)),
    "to_n_step_transitions": lambda: lambda: data.to_n_step_transitions(*rows()[:2], 3, 0.9),
    "minibatches": lambda: lambda: data.minibatches(KEY, jnp.arange(300), 3),
    "add": lambda: of_replay(lambda replay, state: replay.add(state, block(4, 4))),
    "sample": lambda: of_replay(lambda replay, state: replay.sample(state, KEY, 4), **PRIORITIES),
    "update_priorities": lambda: of_replay(update_priorities, **PRIORITIES),
    "update_rows": measure,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_second_call_compiles_nothing(name, caplog):
    call = CALLS[name]()
    first = call()
    caplog.clear()
    with jax.log_compiles():
        second = call()
    assert [r.getMessage() for r in caplog.records if r.getMessage().startswith("Compiling")] == []
    assert all(map(np.array_equal, jax.tree.leaves(first), jax.tree.leaves(second)))
