"""Agents in another order: where they have the same abilities, their rewards and observations change places, too."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxenv import random
from jaxenv.envs.coin_game import CoinGame
from jaxenv.envs.grid.foraging import Foraging
from jaxenv.envs.matrix_game import MatrixGame
from jaxenv.envs.particle.simple_reference import SimpleReference
from jaxenv.envs.particle.simple_spread import SimpleSpread
from jaxenv.envs.particle.simple_tag import SimpleTag

LANES, STEPS = 32, 12

play = jax.jit(lambda task, state, action, key: task.transition(state, action, random.stream(key)))
observe = jax.jit(lambda task, state: task.observe(state))


def reordered(state, order):
    """The state with agent ``order[i]`` in the place of agent i. Arrays are ``[B, A]``, or there is one per agent."""

    def moved(x):
        if isinstance(x, tuple):  # agents come before landmarks
            return (*(x[i] for i in order), *x[len(order) :])
        return x[:, order]

    values = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    same = {"foods", "total", "begun"}
    return dataclasses.replace(
        state,
        **{
            name: reordered(x, order) if dataclasses.is_dataclass(x) else moved(x)
            for name, x in values.items()
            if name not in same
        },
    )


def of_pairs(observation):
    return {"all": observation}


def of_spread(observation):
    """Own velocity and position, three landmarks, two other agents."""
    return {"own": observation[..., :10], "others": np.sort(observation[..., 10:14:2]), "silent": observation[..., 14:]}


def of_foraging(observation):
    """Food, the agent itself, two others: three numbers each."""
    places = observation.reshape(*observation.shape[:2], -1, 3) @ np.float32([100, 10, 1])
    return {"own": places[..., :-2], "others": np.sort(places[..., -2:])}


def of_tag(observation):
    """Of adversaries: own velocity and position, two obstacles, two other adversaries, two prey, their velocities."""
    seen = observation[:, :3]
    groups = {"others": seen[..., 8:12:2], "prey": seen[..., 12:16:2], "speeds": seen[..., 16:20:2]}
    return {"own": seen[..., :8]} | {name: np.sort(x) for name, x in groups.items()}


# Task, its agents in another order, and what an agent observes, apart from the order of the others.
CASES = {
    "stag hunt": (MatrixGame().with_params(payoff=np.float32([[[4, 0], [3, 2]]] * 2)), [1, 0], of_pairs),
    "coins": (CoinGame().with_params(other_coin=0.5), [1, 0], of_pairs),
    "reference": (SimpleReference().with_params(local_ratio=0.2), [1, 0], of_pairs),
    "spread": (SimpleSpread().with_params(agent_radius=0.3, local_ratio=0.2), [2, 0, 1], of_spread),
    "tag": (SimpleTag(prey=2).with_params(adversary_radius=0.3), [2, 0, 1, 4, 3], of_tag),
    "foraging": (Foraging(agents=3, foods=3, size=6), [2, 0, 1], of_foraging),
}


@pytest.mark.parametrize("case", CASES)
def test_agents_in_another_order_are_paid_and_observe_the_same(case):
    task, order, parts = CASES[case]
    spec, generator = task.action_spec(), np.random.default_rng(3)
    state = jax.jit(lambda task, key: task.initial(random.stream(key)))(
        task, jax.random.split(jax.random.key(1), LANES)
    )
    paid = []
    for step in range(STEPS):
        action = generator.integers(0, spec.maximum.max() + 1, (LANES, len(order)), np.int32)
        keys = jax.random.split(jax.random.key(step), LANES)
        transition = play(task, state, action, keys)
        other = play(task, reordered(state, order), action[:, order], keys)
        np.testing.assert_allclose(other.reward, transition.reward[:, order], rtol=1e-5, atol=1e-4)
        drawn = (transition.reward != 0).any(axis=1) & (case == "coins")  # new coins, each with words of its own
        seen, seen_by_other = (np.asarray(observe(task, x.state))[~drawn] for x in (transition, other))
        expected, found = parts(seen[:, order]), parts(seen_by_other)
        for name in expected:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-4, err_msg=name)
        paid.append(transition.reward)
        state = transition.state
    paid = np.stack(paid)
    assert (paid != paid[:, :, order]).any()  # rewards that all agents share would show nothing
