"""JaxMARL's environments: equal to JaxMARL's own loop, with the agents as an axis."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv._util.library import default_types
from jaxenv.suites import jaxmarl as suite
from jaxenv.testing import check_env
from tests.suites.comparison import compare

jaxmarl = pytest.importorskip("jaxmarl")
# Warnings of Overcooked, and of JaxMARL's dependencies.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")

LANES = 5


def load(id, num_envs=LANES, **kwargs):
    return jaxenv.make(f"jaxmarl:{id}", num_envs, **kwargs)


def never(before, after, actions):
    return jnp.zeros((), bool)


def defeated(before, after, actions):
    return ~after.state.unit_alive[:5].any() | ~after.state.unit_alive[5:].any()


def told(before, after, actions):
    return actions[before.agent_in_room] == 2


def arrived_or_stuck(before, after, actions):
    return (after.goal_reached | after.move_term).all()


# Options, steps, whether the task ended by itself, and the shape of what an agent sees.
CASES = {
    "MPE_simple_spread_v3": ({"num_agents": 2}, 28, never, (14,)),
    "MPE_simple_tag_v3": ({}, 28, never, (16,)),
    "MPE_simple_speaker_listener_v4": ({"max_steps": 5}, 8, never, (11,)),
    "MPE_simple_world_comm_v3": ({"max_steps": 5}, 8, never, (34,)),
    "overcooked": ({"layout": "coord_ring", "max_steps": 60}, 62, never, (5, 5, 26)),
    "overcooked_v2": ({"max_steps": 20}, 22, never, (4, 5, 30)),
    "coin_game": ({"num_inner_steps": 3, "num_outer_steps": 3}, 10, never, (36,)),
    "switch_riddle": ({}, 8, told, (2,)),
    "HeuristicEnemySMAX": ({"max_steps": 30}, 33, defeated, (127,)),
    "jaxnav": ({"max_steps": 12}, 14, arrived_or_stuck, (205,)),
}


SLOW = ("HeuristicEnemySMAX", "jaxnav", "overcooked_v2")  # to compile


@pytest.mark.parametrize("id", [pytest.param(id, marks=pytest.mark.thorough) if id in SLOW else id for id in CASES])
def test_episodes_equal_those_of_jaxmarl(id):
    options, num_steps, ended, shape = CASES[id]
    named = {"layout": jaxmarl.environments.overcooked.overcooked_layouts.get} if id == "overcooked" else {}
    with default_types():
        own = jaxmarl.make(id, **{name: named.get(name, lambda x: x)(value) for name, value in options.items()})

    def padded(x):
        return jnp.pad(x, [(0, size - own) for size, own in zip(shape, x.shape, strict=True)])

    def step(state, actions, key):
        given = {}
        for number, agent in enumerate(own.agents):
            size = own.action_space(agent).shape
            given[agent] = actions[number, : size[0]] if size else actions[number]
        seen, after, rewards, dones, _ = own.step_env(key, state.state, given)
        seen = jnp.stack([padded(seen[agent]) for agent in own.agents])
        reward = jnp.stack([rewards[agent] for agent in own.agents])
        terminated = dones["__all__"] & ended(state.state, after, actions)
        return dataclasses.replace(state, state=after), seen, reward, terminated, dones["__all__"]

    env = load(id, **options, autoreset=None)
    rows, terminations, truncations = compare(env, num_steps, step, keyed=True)
    assert terminations + truncations == LANES
    if ended in (never, told, defeated):  # agents of jaxnav may take longer
        assert (terminations > 0) == (ended is not never)
    agents = len(own.agents)
    assert (env.agent_names, rows.reward.shape[2:]) == (tuple(own.agents), (agents,))
    assert rows.observation.shape[2:] == (agents, *shape)


def test_hanabi_ends_by_its_rules_and_legal_moves_are_the_mask():
    env = load("hanabi", autoreset=None)
    with default_types():
        own = jaxmarl.make("hanabi")

    def step(state, actions, key):
        given = dict(zip(own.agents, actions, strict=True))
        seen, after, rewards, dones, _ = own.step_env(key, state.state, given)
        seen, reward = (jnp.stack([x[agent] for agent in own.agents]) for x in (seen, rewards))
        return dataclasses.replace(state, state=after), seen, reward, dones["__all__"], dones["__all__"]

    _, terminations, truncations = compare(env, 60, step, keyed=True)
    assert terminations > 0
    assert truncations == 0
    state, first = jax.jit(env.reset)(jax.random.key(1))
    with default_types():
        legal = jax.vmap(own.get_legal_moves)(state.task.env_state.state)
    np.testing.assert_array_equal(first.env_info["action_mask"], np.stack([legal[a] for a in own.agents], axis=1) > 0)


def test_masks_and_the_state_of_the_world_are_those_of_smax():
    env = load("HeuristicEnemySMAX", max_episode_steps=0, autoreset=None)
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    state, row = jax.jit(env.step)(state, np.ones((LANES, 5), np.int32))
    inner = state.task.env_state.state
    with default_types():
        own = jaxmarl.make("HeuristicEnemySMAX")
        legal, world = jax.vmap(own.get_avail_actions)(inner), jax.vmap(own.get_world_state)(inner)
    np.testing.assert_array_equal(row.env_info["action_mask"], np.stack([legal[a] for a in own.agents], axis=1) > 0)
    np.testing.assert_allclose(row.env_info["world_state"], np.stack([world] * 5, axis=1), rtol=1e-6)
    assert row.env_info["agent_done"].shape == (LANES, 5)


def test_an_agent_with_fewer_actions_than_others_has_a_mask():
    env = load("MPE_simple_speaker_listener_v4", autoreset=None)
    assert env.action_spec().num_values == 5
    state, first = jax.jit(env.reset)(jax.random.key(0))
    np.testing.assert_array_equal(first.env_info["action_mask"][0], [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    highest, beyond = (jax.jit(env.step)(state, np.tile(np.int32([said, 2]), (LANES, 1)))[1] for said in (2, 4))
    np.testing.assert_array_equal(highest.observation, beyond.observation)


def test_actions_of_fewer_numbers_are_padded_with_numbers_that_do_nothing():
    env = load("MPE_simple_world_comm_v3", autoreset=None, clip_action=False)
    spec = env.action_spec()
    np.testing.assert_array_equal((spec.maximum != spec.minimum).sum(axis=1), [9, 5, 5, 5, 5, 5])
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    action = np.full((LANES, 6, 9), 0.5, np.float32)
    padding = np.where(spec.maximum == spec.minimum, np.float32(1), action)
    rows = [jax.jit(env.step)(state, x)[1].observation for x in (action, padding)]
    np.testing.assert_array_equal(*rows)


def test_agents_train_as_lanes():
    env = load("MPE_simple_tag_v3", 8, wrappers=["AgentsAsLanes"])
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    _, row = jax.jit(env.step)(state, np.ones(8, np.int32))
    assert (env.num_agents, row.observation.shape, row.reward.shape) == (1, (8, 16), (8,))
    assert not row.observation[3::4, 14:].any()  # the prey sees two numbers less
    assert row.observation[:3, 14:].any()


def test_an_environment_of_one_agent_has_no_axis_of_agents():
    env = load("MPE_simple_v3", 3)
    _, first = jax.jit(env.reset)(jax.random.key(0))
    assert (env.num_agents, first.observation.shape, first.reward.shape) == (1, (3, 4), (3,))


def test_a_step_keeps_dtypes_structure_bounds_and_grammar_and_agents_are_lanes():
    properties = ["same_tree", "rows_match_specs", "within_specs", "episode_grammar", "agents_agree"]
    check_env(load("MPE_simple_spread_v3", 4), properties=properties, num_steps=24, raise_on_failure=True)


@pytest.mark.parametrize(
    ("id", "kwargs", "message"),
    [
        ("MPE_simple_spread", {}, r"jaxmarl: no environment 'MPE_simple_spread'.*'MPE_simple_spread_v3'"),
        ("storm", {}, "jaxmarl: no environment 'storm'"),
        ("MPE_simple_spread_v3", {"num_agent": 5}, r"unknown keyword 'num_agent'.*'num_agents'"),
        ("MPE_simple_spread_v3", {"max_steps": 0}, r"jaxmarl:MPE_simple_spread_v3: max_steps .*got 0"),
        ("overcooked", {"layout": "ring"}, r"jaxmarl:overcooked: jaxmarl rejects {'layout': 'ring'}"),
    ],
)
def test_wrong_ids_and_keywords_are_refused(id, kwargs, message):
    with pytest.raises(ValueError, match=message):
        load(id, **kwargs)


def test_every_id_is_one_of_jaxmarl_and_has_specs():
    assert set(suite.ids()) <= set(jaxmarl.registered_envs)
    for id in suite.ids():
        action, limit = suite.action_and_limit(id)
        assert isinstance(action, specs.Bounded)
        assert (limit is None) == (id == "hanabi")
