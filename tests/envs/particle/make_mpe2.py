"""Records steps and episodes of mpe2 in ``mpe2.npz``, which the tests compare with.

    python -m venv mpe && mpe/bin/pip install mpe2==1.1.1 jaxmarl==0.2.0
    mpe/bin/python tests/envs/particle/make_mpe2.py

JaxMARL takes the same single steps of the default settings, and must agree within 2e-5 before they are recorded.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jaxmarl.environments.mpe.simple_reference import SimpleReferenceMPE
from jaxmarl.environments.mpe.simple_spread import SimpleSpreadMPE
from jaxmarl.environments.mpe.simple_tag import SimpleTagMPE
from mpe2 import simple_reference_v3, simple_spread_v3, simple_tag_v3

STATES, EPISODES, STEPS = 150, 6, 25
TASKS = {
    "spread": (simple_spread_v3, SimpleSpreadMPE, {"N": 4, "local_ratio": 0.2}, {"size": 0.2, "accel": 3.0}),
    "tag": (
        simple_tag_v3,
        SimpleTagMPE,
        {"num_good": 2, "num_adversaries": 2, "num_obstacles": 3},
        {"size": 0.1, "accel": 5.0, "max_speed": 0.8},
    ),
    "reference": (simple_reference_v3, SimpleReferenceMPE, {"local_ratio": 0.8}, {"accel": 2.0}),
}
WORLD = {"dt": 0.15, "damping": 0.4, "contact_force": 60.0, "contact_margin": 1e-2}
random = np.random.default_rng(0)


def drawn(env):
    """A random state: often crowded, with agents beyond the edge."""
    world = env.unwrapped.world
    crowd = random.choice([0.2, 0.5, 1.2])
    state = {"place": crowd * random.uniform(-1, 1, (len(world.entities), 2))}
    state["speed"] = random.normal(0, 0.6, (len(world.agents), 2))
    state = {name: x.astype(np.float32) for name, x in state.items()}
    state["goal"], state["word"] = random.integers(0, 3, 2), random.integers(0, 10, 2)
    return state


def put(env, state):
    world = env.unwrapped.world
    for entity, place in zip(world.entities, state["place"].astype(float), strict=True):
        entity.state.p_pos = place
    for agent, speed in zip(world.agents, state["speed"].astype(float), strict=True):
        agent.state.p_vel = speed
    if world.dim_c == 10:  # the agents of simple_reference
        for i, agent in enumerate(world.agents):
            agent.goal_b = world.landmarks[state["goal"][1 - i]]
            agent.state.c = np.eye(10)[state["word"][i]]


def step(env, action):
    """Steps mpe2; returns the observations, padded with zeros, and the rewards, each by agent."""
    observation, reward, *_ = env.step(dict(zip(env.possible_agents, action.tolist(), strict=True)))
    rows = [observation[name] for name in env.possible_agents]
    longest = max(map(len, rows))
    return {
        "observation": np.stack([np.pad(row, (0, longest - len(row))) for row in rows]).astype(np.float32),
        "reward": np.array([reward[name] for name in env.possible_agents], np.float32),
    }


def compare_with_jaxmarl(make, rows):
    env = make()
    longest = rows["observation"].shape[-1]

    def one(place, speed, goal, word, action):
        _, state = env.reset(jax.random.key(0))
        speed = jnp.zeros_like(state.p_vel).at[: env.num_agents].set(speed)
        state = state.replace(p_pos=place, p_vel=speed)
        if state.goal is not None:
            state = state.replace(goal=goal, c=jax.nn.one_hot(word, 10))
        shown, state, reward, *_ = env.step_env(jax.random.key(0), state, dict(zip(env.agents, action, strict=True)))
        observation = jnp.stack([jnp.pad(shown[a], (0, longest - shown[a].size)) for a in env.agents])
        return observation, jnp.stack([reward[a] for a in env.agents])

    found = jax.vmap(one)(*(rows[name] for name in ("place", "speed", "goal", "word", "action")))
    for ours, name in zip(found, ("observation", "reward"), strict=True):
        print(make.__name__, name, np.abs(ours - rows[name]).max())
        np.testing.assert_allclose(ours, rows[name], rtol=2e-5, atol=2e-5)


def actions(env, *shape):
    return random.integers(0, env.action_space(env.possible_agents[0]).n, (*shape, len(env.possible_agents)))


def stacked(rows):
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


arrays = {}
for task, (module, jaxmarl, options, attributes) in TASKS.items():
    for setting in ("default", "other"):
        env = module.parallel_env(max_cycles=10**6, **(options if setting == "other" else {}))
        env.reset(seed=0)
        if setting == "other":
            for name, value in WORLD.items():
                setattr(env.unwrapped.world, name, value)
            for agent in env.unwrapped.world.agents:
                for name, value in attributes.items():
                    setattr(agent, name, value)
        rows = []
        for action in actions(env, STATES):
            state = drawn(env)
            put(env, state)
            rows.append({**state, "action": action, **step(env, action)})
        rows = stacked(rows)
        if setting == "default":
            compare_with_jaxmarl(jaxmarl, rows)
        episodes = []
        for taken in actions(env, EPISODES, STEPS):
            state = {**drawn(env), "word": np.zeros(2, int)}
            state["speed"] = np.zeros_like(state["speed"])
            put(env, state)
            episodes.append({**state, "action": taken, **stacked([step(env, action) for action in taken])})
        for kind, found in (("step", rows), ("episode", stacked(episodes))):
            arrays |= {
                f"{task}_{setting}_{kind}_{name}": x.astype(np.int8) if x.dtype.kind == "i" else x
                for name, x in found.items()
            }
np.savez_compressed(pathlib.Path(__file__).with_name("mpe2.npz"), **arrays)
