"""Whole episodes of Gymnasium's LunarLander, and ours on the same ground with the same draws.

    python -m tests.envs.box2d.episodes record FILE    # plays Gymnasium's, needs gymnasium[box2d]
    python -m tests.envs.box2d.episodes replay FILE    # prints how ours compare
    python -m tests.envs.box2d.episodes distributions 1000    # own draws on both sides, needs gymnasium[box2d]
    python -m tests.envs.box2d.episodes distributions 1000 "walker heuristic" "walker random"    # of BipedalWalker
    python -m tests.envs.box2d.episodes distributions 1000 "walker heuristic hardcore" "walker random hardcore"

Gymnasium draws from ``numpy.random.default_rng(seed)``, so a seed stands for the ground, the push at the start and the
dispersion of every flame. Actions are random or those of Gymnasium's heuristic pilot. A kind of episodes is named by
its policy and variant, for example ``"heuristic wind"``.
"""

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv.envs.box2d.lunar_lander import EDGES, HEIGHT, LanderLevel, LunarLander, smoothed
from tests.envs.box2d import walks

FILE = pathlib.Path(__file__).parent / "episodes.npz"
LIMIT = 1000
KINDS = {
    "random": {},
    "heuristic": {},
    "random continuous": {"continuous": True},
    "heuristic continuous": {"continuous": True},
    "heuristic wind": {"enable_wind": True},
}


def random_actions(seed, continuous):
    """All actions of an episode of the random policy."""
    rng = np.random.default_rng(10_000 + seed)
    return rng.uniform(-1, 1, (LIMIT, 2)).astype(np.float32) if continuous else rng.integers(0, 4, LIMIT)


def record(seeds, policy, options):
    """Lengths, returns and outcomes of Gymnasium's episodes."""
    import gymnasium
    from gymnasium.envs.box2d.lunar_lander import heuristic

    env = gymnasium.make("LunarLander-v3", **options)
    out = {name: [] for name in ("length", "return", "lost", "asleep")}
    for seed in seeds:
        observation, _ = env.reset(seed=int(seed))
        actions = random_actions(seed, env.unwrapped.continuous)
        total, length, ended = 0.0, 0, False
        while not ended:
            action = actions[length] if policy == "random" else heuristic(env.unwrapped, observation)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, length, ended = total + reward, length + 1, terminated or truncated
        out["length"].append(length)
        out["return"].append(total)
        out["lost"].append(terminated and reward == -100)
        out["asleep"].append(terminated and reward == 100)
    types = {"length": np.int32, "lost": bool, "asleep": bool}
    return {name: np.array(values, types.get(name, np.float32)) for name, values in out.items()}


def draws(seeds, wind):
    """Numbers that Gymnasium draws: heights, force in units of its bound, indices of the wind, noise of each step."""
    heights, force, indices, noise = [], [], [], []
    for seed in seeds:
        rng = np.random.default_rng(int(seed))
        heights.append(rng.uniform(0, HEIGHT / 2, EDGES + 2))
        force.append([rng.uniform(-1000, 1000) / 1000 for _ in range(2)])
        indices.append([rng.integers(-9999, 9999) for _ in range(2)] if wind else [0, 0])
        noise.append(rng.uniform(-1, 1, (LIMIT + 1, 2)))
    return (
        smoothed(jnp.asarray(np.array(heights), jnp.float32)),
        *(jnp.asarray(np.array(x), t) for x, t in ((force, jnp.float32), (indices, jnp.int32), (noise, jnp.float32))),
    )


def pilot(observation, continuous):
    """Gymnasium's heuristic policy for observations ``[B, 8]``."""
    x, y, vx, vy, angle, spin, first, second = observation.T
    on_leg = (first > 0) | (second > 0)
    angle_target = jnp.clip(0.5 * x + vx, -0.4, 0.4)
    turn = jnp.where(on_leg, 0, 0.5 * (angle_target - angle) - spin)
    lift = jnp.where(on_leg, -0.5 * vy, 0.5 * (0.55 * jnp.abs(x) - y) - 0.5 * vy)
    if continuous:
        return jnp.clip(jnp.stack([20 * lift - 1, -20 * turn], axis=-1), -1, 1)
    fire = (lift > jnp.abs(turn)) & (lift > 0.05)
    return jnp.where(fire, 2, jnp.where(turn < -0.05, 3, jnp.where(turn > 0.05, 1, 0))).astype(jnp.int32)


def replay(env: LunarLander, seeds, policy, steps=LIMIT, compiler_options=None):
    """The same as ``record`` for our environment; episodes longer than ``steps`` have no outcome."""
    heights, force, indices, noise = draws(seeds, env.enable_wind)
    kept = jnp.asarray(np.array([random_actions(s, env.continuous) for s in seeds]))
    if not env.continuous:
        kept = kept.astype(jnp.int32)

    def run(noise, kept, state):
        def advance(carry):
            t, state, ended, length, total, lost, asleep = carry
            observation = env.observe(state)
            action = kept[:, t] if policy == "random" else pilot(observation, env.continuous)
            out = env._advanced(state, action, noise[:, t + 1])
            on = ~ended
            ends = on & out.terminated
            return (
                t + 1,
                out.state,
                ended | out.terminated,
                length + on.astype(jnp.int32),
                total + jnp.where(on, out.reward, 0),
                lost | (ends & (out.reward == -100)),
                asleep | (ends & (out.reward == 100)),
            )

        no = jnp.zeros(len(seeds), bool)
        zero = jnp.zeros(len(seeds), jnp.float32)
        carry = (np.int32(0), state, no, no.astype(jnp.int32), zero, no, no)
        return jax.lax.while_loop(lambda c: (c[0] < steps) & ~jnp.all(c[2]), advance, carry)[3:]

    state = jax.jit(env.initial, compiler_options=compiler_options)(None, LanderLevel(heights, force, indices))
    found = jax.jit(run, compiler_options=compiler_options)(noise, kept, state)
    return dict(zip(("length", "return", "lost", "asleep"), map(np.asarray, found), strict=True))


def environment(kind):
    return LunarLander(continuous="continuous" in kind, enable_wind="wind" in kind)


def load(kind, file=FILE):
    with np.load(file) as data:
        return {name: data[f"{kind} {name}"] for name in ("length", "return", "lost", "asleep")}


def smirnov(a, b):
    """The two-sample Kolmogorov-Smirnov distance, and the p-value of its limit law."""
    points = np.sort(np.concatenate([a, b]))
    gap = [np.searchsorted(np.sort(x), points, side="right") / len(x) for x in (a, b)]
    distance = np.abs(gap[0] - gap[1]).max()
    scaled = distance * np.sqrt(len(a) * len(b) / (len(a) + len(b)))
    terms = np.arange(1, 101)
    p = 2 * np.sum((-1.0) ** (terms - 1) * np.exp(-2 * terms**2 * scaled**2))
    return distance, float(np.clip(p, 0, 1)) if scaled > 0.2 else 1.0


def distributions(kind, num):
    """Prints returns and outcomes of ``num`` episodes a side, each with its own draws."""
    if kind.startswith("walker"):
        policy = kind.split()[1]
        name = "BipedalWalkerHardcore-v3" if "hardcore" in kind else "BipedalWalker-v3"
        theirs = walks.gymnasium_episodes(name, policy, num)
        ours = walks.our_episodes(policy, jaxenv.make(name, num, autoreset=None))
    else:
        policy, options = kind.split()[0], KINDS[kind]
        theirs = record(range(50_000, 50_000 + num), policy, options)
        ours = played(jaxenv.make("LunarLander-v3", num, autoreset=None, **options))
    distance, p = smirnov(ours["return"], theirs["return"])
    print(f"{kind}, {num} episodes a side: KS {distance:.4f}, p = {p:.3f}")
    for name in theirs:
        a, b = (np.asarray(x[name], np.float64) for x in (ours, theirs))
        error = max(np.sqrt(a.var() / num + b.var() / num), 1e-9)
        print(
            f"  {name}: {a.mean():.4g}, Gymnasium {b.mean():.4g}, {abs(a.mean() - b.mean()) / error:.1f} se", flush=True
        )


def played(env):
    """Lengths, returns and outcomes of one episode in each lane of a stack, flown by the heuristic pilot."""

    @jax.jit
    def run(state, timestep):
        def advance(carry):
            state, timestep, ended, length, total, lost, asleep = carry
            state, timestep = env.step(state, pilot(timestep.observation, env.unwrapped.continuous))
            on = ~ended
            total = total + jnp.where(on, timestep.reward, 0)
            ends = on & timestep.terminated
            lost, asleep = lost | (ends & (timestep.reward == -100)), asleep | (ends & (timestep.reward == 100))
            return state, timestep, ended | timestep.is_last(), length + on.astype(jnp.int32), total, lost, asleep

        no = jnp.zeros(env.num_envs, bool)
        carry = (state, timestep, no, no.astype(jnp.int32), no.astype(jnp.float32), no, no)
        return jax.lax.while_loop(lambda c: ~jnp.all(c[2]), advance, carry)[3:]

    found = run(*jax.jit(env.reset)(jax.random.key(0)))
    return dict(zip(("length", "return", "lost", "asleep"), map(np.asarray, found), strict=True))


def main(command, file=FILE, *kinds):
    if command == "distributions":
        for kind in kinds or [k for k in KINDS if k.startswith("heuristic")]:
            distributions(kind, int(file))
        return
    if command == "record":
        arrays = {}
        for kind, options in KINDS.items():
            found = record(range(200), kind.split()[0], options)
            arrays.update({f"{kind} {name}": x for name, x in found.items()})
            print(kind, found["return"].mean(), found["length"].mean(), flush=True)
        np.savez_compressed(file, **arrays)
        return
    for kind in kinds or KINDS:
        theirs = load(kind, file)
        ours = replay(environment(kind), range(len(theirs["length"])), kind.split()[0])
        gap = np.abs(ours["return"] - theirs["return"])
        same = [np.mean(ours[name] == theirs[name]) for name in ("length", "lost", "asleep")]
        print(
            f"{kind}: same length {same[0]:.3f}, lost {same[1]:.3f}, asleep {same[2]:.3f}; "
            f"return within 0.1 {np.mean(gap < 0.1):.3f}, within 1 {np.mean(gap < 1):.3f}; "
            f"mean {ours['return'].mean():.1f} {theirs['return'].mean():.1f}, "
            f"length {ours['length'].mean():.1f} {theirs['length'].mean():.1f}, "
            f"KS {smirnov(ours['return'], theirs['return'])[0]:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
