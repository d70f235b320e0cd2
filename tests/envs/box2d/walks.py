"""Episodes of Gymnasium's BipedalWalker, and ours.

    python -m tests.envs.box2d.walks record FILE    # plays Gymnasium's, needs gymnasium[box2d]

The file holds ground, observations and rewards of the first steps of some episodes of a random policy, to be replayed
with the same draws and actions, and percentiles of the heights of many grounds. Walking is chaotic: later steps and
other policies are compared by the distributions of whole episodes (``tests.envs.box2d.episodes distributions``).
"""

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.envs.box2d.bipedal_terrain import PAD, POINTS

FILE = pathlib.Path(__file__).parent / "walks.npz"
SEEDS, STEPS = 8, 40
COLUMNS = (22, 40, 100, 199)  # points whose heights are compared
_SPEED, _KNEE = 0.29, 0.1  # of the heuristic policy
_STAY, _PUT, _PUSH = 1, 2, 3


def actions(seed, steps):
    return np.random.default_rng(10_000 + seed).uniform(-1, 1, (steps, 4)).astype(np.float32)


def draws(seed):
    """Numbers that Gymnasium draws for a seed: bumps and gaps of the ground, and the force at the start."""
    rng = np.random.default_rng(seed)
    bumps, gaps = np.zeros(POINTS, np.float32), np.zeros(POINTS, np.int32)
    left, flat = PAD, False
    for i in range(POINTS):
        if i > PAD and not flat:
            bumps[i] = rng.uniform(-1, 1)
        flat, left = left == 1, left - 1
        if flat:
            gaps[i] = left = rng.integers(5, 10)
    for _ in range(POINTS // 20):  # clouds
        rng.uniform(size=11)
    return bumps, gaps, np.float32(rng.uniform(-5, 5))


def play(env, policy, seed):
    """Length, return and outcomes of an episode of Gymnasium's."""
    from gymnasium.envs.box2d.bipedal_walker import BipedalWalkerHeuristics

    observation, _ = env.reset(seed=seed)
    heuristic, rng = BipedalWalkerHeuristics(), np.random.default_rng(10_000 + seed)
    heuristic.a = np.zeros(4)
    total, length, ended = 0.0, 0, False
    while not ended:
        heuristics = policy == "heuristic"
        action = heuristic.step_heuristic(observation) if heuristics else rng.uniform(-1, 1, 4).astype(np.float32)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, length, ended = total + reward, length + 1, terminated or truncated
    lost = terminated and reward == -100
    return {"return": total, "length": length, "lost": lost, "arrived": terminated and not lost}


def gymnasium_episodes(name, policy, num):
    """Lengths, returns and outcomes of ``num`` episodes of Gymnasium's, each in a new environment."""
    import gymnasium

    found = [play(gymnasium.make(name), policy, 50_000 + i) for i in range(num)]
    return {name: np.array([x[name] for x in found]) for name in found[0]}


def pilot(memory, s):
    """Gymnasium's heuristic policy for observations ``[B, 24]``: its memory, three arrays ``[B]``, and actions."""
    state, moving, knee = memory

    def of(leg, k):
        return jnp.where(leg == 0, s[:, 4 + k], s[:, 9 + k])

    stay = state == _STAY
    knee = jnp.where(stay, jnp.minimum(knee + jnp.where(s[:, 2] > _SPEED, 0.06, 0.03), _KNEE), knee)
    hip_target, has_target = jnp.where(stay, 1.1, 0.0), stay
    knee_moving, knee_other = jnp.where(stay, -0.6, 0.0), knee
    state = jnp.where(stay & (of(1 - moving, 0) < 0.1), _PUT, state)
    put = state == _PUT
    hip_target, has_target = jnp.where(put, 0.1, hip_target), has_target | put
    knee_moving = jnp.where(put, _KNEE, knee_moving)
    lands = put & (of(moving, 4) > 0)
    state, knee = jnp.where(lands, _PUSH, state), jnp.where(lands, jnp.minimum(of(moving, 2), _KNEE), knee)
    push = state == _PUSH
    knee_moving, knee_other = jnp.where(push, knee, knee_moving), jnp.where(push, 1.0, knee_other)
    ends = push & ((of(1 - moving, 2) > 0.88) | (s[:, 2] > 1.2 * _SPEED))
    motors = []
    for leg in range(2):
        is_moving, at = moving == leg, 4 + 5 * leg
        hip = jnp.where(is_moving & has_target, 0.9 * (hip_target - s[:, at]) - 0.25 * s[:, at + 1], 0)
        knee_target = jnp.where(is_moving, knee_moving, knee_other)
        motors.append(hip + 0.9 * s[:, 0] + 1.5 * s[:, 1])
        motors.append(4 * (knee_target - s[:, at + 2]) - 0.25 * s[:, at + 3] - 15 * s[:, 3])
    memory = jnp.where(ends, _STAY, state), jnp.where(ends, 1 - moving, moving), knee
    return memory, jnp.clip(0.5 * jnp.stack(motors, axis=-1), -1, 1)


def our_episodes(policy, env):
    """The same for one episode in each lane of a stack with a time limit."""
    num = env.num_envs

    @jax.jit
    def run(key, state, timestep):
        def advance(carry):
            t, state, timestep, memory, ended, length, total, lost, arrived = carry
            memory, action = pilot(memory, timestep.observation)
            if policy == "random":
                action = jax.random.uniform(jax.random.fold_in(key, t), action.shape, minval=-1, maxval=1)
            state, timestep = env.step(state, action)
            on = ~ended
            ends = on & timestep.terminated
            lost, arrived = lost | (ends & (timestep.reward == -100)), arrived | (ends & (timestep.reward != -100))
            total, length = total + jnp.where(on, timestep.reward, 0), length + on.astype(jnp.int32)
            return t + 1, state, timestep, memory, ended | timestep.is_last(), length, total, lost, arrived

        no = jnp.zeros(num, bool)
        count = no.astype(jnp.int32)
        memory = count + _STAY, count, jnp.full(num, _KNEE)
        carry = (np.int32(0), state, timestep, memory, no, count, jnp.zeros(num), no, no)
        return jax.lax.while_loop(lambda c: ~jnp.all(c[4]), advance, carry)[5:]

    found = run(jax.random.key(1), *jax.jit(env.reset)(jax.random.key(0)))
    return dict(zip(("length", "return", "lost", "arrived"), map(np.asarray, found), strict=True))


def record(file):
    import gymnasium

    env = gymnasium.make("BipedalWalker-v3")
    ground, observations, rewards, many = [], [], [], []
    for seed in range(SEEDS):
        observation, _ = env.reset(seed=seed)
        ground.append(np.array(env.unwrapped.terrain_y))
        steps, gains = [observation], []
        for action in actions(seed, STEPS):
            observation, reward, _, _, _ = env.step(action)
            steps.append(observation)
            gains.append(reward)
        observations.append(steps)
        rewards.append(gains)
    for seed in range(4000):
        env.reset(seed=100_000 + seed)
        many.append(np.array(env.unwrapped.terrain_y)[list(COLUMNS)])
    arrays = {"ground": ground, "observations": observations, "rewards": rewards}
    arrays["percentiles"] = np.percentile(many, np.arange(5, 100, 5), axis=0)
    np.savez_compressed(file, **{name: np.asarray(x, np.float32) for name, x in arrays.items()})


if __name__ == "__main__":
    record(sys.argv[2])
