"""Grounds of Gymnasium's BipedalWalkerHardcore, and ours for the same draws.

    python -m tests.envs.box2d.obstacles record FILE    # needs gymnasium[box2d]
    python -m tests.envs.box2d.obstacles compare 600    # prints how grounds differ, needs gymnasium[box2d]
    python -m tests.envs.box2d.obstacles episodes 300    # heuristic episodes on the same grounds, needs the same

The file holds grounds and the observations of ``reset`` for some seeds, and of many grounds the numbers of obstacles
and percentiles of heights and places. Box2D's ids depend on the world's history, so each episode has a new environment.
"""

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.envs.box2d import bipedal_obstacles
from jaxenv.envs.box2d.bipedal_obstacles import GRASS, PIT, STAIRS, STUMP, Draws
from jaxenv.envs.box2d.bipedal_terrain import PAD, POINTS, SPACING
from jaxenv.envs.box2d.bipedal_walker import BipedalWalker
from tests.envs.box2d import walks
from tests.envs.physics2d.record import boxes_of

ID = "BipedalWalkerHardcore-v3"
FILE = pathlib.Path(__file__).parent / "obstacles.npz"
SEEDS, MANY = 40, 3000
COLUMNS = (22, 40, 100, 199)  # points whose heights are compared
ORDINALS = (1, 5, 15, 22)  # blocks whose places are compared
SEEN = 202.5 * SPACING  # where rays end that begin within the ground


def ground(draws):
    """Heights and blocks for the numbers that Gymnasium draws."""
    return bipedal_obstacles.ground(*bipedal_obstacles.placed(draws))


def draws(seed):
    """Numbers that Gymnasium draws for a seed: those of the ground, ``[200]`` each, and the force at the start."""
    rng = np.random.default_rng(seed)
    out = {name: np.zeros(POINTS, np.int32) for name in ("gap", "kind", "long", "up")}
    out["bump"] = np.zeros(POINTS, np.float32)
    left, kind, first = PAD, GRASS, False
    for i in range(POINTS):
        if kind == GRASS and not first and i > PAD:
            out["bump"][i] = rng.uniform(-1, 1)
        elif kind == STUMP and first:
            left = rng.integers(1, 3)
            out["long"][i] = left == 2
        elif kind == STAIRS and first:
            out["up"][i] = rng.random() > 0.5
            left = rng.integers(4, 5) * rng.integers(3, 5)
            out["long"][i] = left == 16
        elif kind == PIT and first:
            left = rng.integers(3, 5) + 2
            out["long"][i] = left == 6
        left, first = left - 1, left == 1
        if first:
            out["gap"][i] = left = rng.integers(5, 10)
            kind = rng.integers(1, 4) if kind == GRASS else GRASS
            out["kind"][i] = kind
    for _ in range(POINTS // 20):  # clouds
        rng.uniform(size=11)
    return out, np.float32(rng.uniform(-5, 5))


def drawn(seeds):
    """The draws of some seeds as arrays, and the forces."""
    grounds, forces = zip(*(draws(seed) for seed in seeds), strict=True)
    columns = {name: np.array([x[name] for x in grounds]) for name in grounds[0]}
    flags = {name: jnp.array(columns[name], bool) for name in ("long", "up")}
    return Draws(jnp.array(columns["bump"]), jnp.array(columns["gap"]), jnp.array(columns["kind"]), **flags), forces


def gymnasium_ground(env):
    """Heights, and blocks that rays can meet as rows of their left, lower, right and upper sides."""
    boxes = boxes_of(env)
    return np.array(env.terrain_y), boxes[boxes[:, 0] < SEEN]


def census(heights, blocks):
    """What is compared of one ground: numbers of each shape, heights, and places of some blocks."""
    wide, high = (np.round((blocks[:, 2 + i] - blocks[:, i]) / SPACING) for i in range(2))
    shapes = [np.sum((wide == w) & (high == h)) for w, h in ((1, 1), (2, 2), (4, 1), (1, 4))]
    rising = np.sum((np.diff(blocks[:, 1]) > 0) & (wide[1:] == 4) & (wide[:-1] == 4))
    return [*shapes, rising], heights[list(COLUMNS)], blocks[list(ORDINALS), 0]


def record(file):
    import gymnasium

    heights, blocks, first, many = [], [], [], []
    for seed in range(SEEDS):
        env = gymnasium.make(ID)
        first.append(env.reset(seed=seed)[0])
        ground = gymnasium_ground(env.unwrapped)
        heights.append(ground[0])
        far = np.array([[1e6, -1e6, 1e6, -1e6]] * (bipedal_obstacles.MOST - len(ground[1])))
        blocks.append(np.concatenate([ground[1], far]).T)
    for seed in range(MANY):
        env.reset(seed=100_000 + seed)
        many.append(census(*gymnasium_ground(env.unwrapped)))
    shapes, columns, places = (np.array(x) for x in zip(*many, strict=True))
    percent = np.arange(5, 100, 5)
    arrays = {"heights": heights, "blocks": blocks, "first": first, "shapes": shapes.mean(axis=0)}
    arrays["deviation"] = shapes.std(axis=0)
    arrays["percentiles"] = np.concatenate([np.percentile(x, percent, axis=0) for x in (columns, places)], axis=1)
    np.savez_compressed(file, **{name: np.asarray(x, np.float32) for name, x in arrays.items()})


def compare(num):
    """Prints the largest differences between grounds for the same draws."""
    import gymnasium

    heights, blocks = (np.asarray(x) for x in jax.jit(ground)(drawn(range(num))[0]))
    env = gymnasium.make(ID)
    errors = []
    for seed in range(num):
        env.reset(seed=seed)
        theirs = gymnasium_ground(env.unwrapped)
        ours = blocks[seed].T[blocks[seed, 0] < SEEN]
        assert len(ours) == len(theirs[1]), f"seed {seed}: {len(ours)} blocks, Gymnasium {len(theirs[1])}"
        errors.append((np.abs(heights[seed] - theirs[0]).max(), np.abs(ours - theirs[1]).max()))
    print(f"{num} grounds: heights within {max(errors)[0]:.1e} m, blocks {max(e[1] for e in errors):.1e} m")


def episodes(num, limit=2000):
    """Prints how episodes of the heuristic policy differ from Gymnasium's with the same grounds and pushes."""
    import gymnasium

    env, seeds = BipedalWalker(hardcore=True), range(70_000, 70_000 + num)

    @jax.jit
    def run(draws, forces):
        def advance(carry):
            t, state, memory, ended, length, total, lost = carry
            memory, action = walks.pilot(memory, env.observe(state))
            out = env.transition(state, action, None)
            on = ~ended
            total, length = total + jnp.where(on, out.reward, 0), length + on.astype(jnp.int32)
            lost = lost | (on & out.terminated & (out.reward == -100))
            return t + 1, out.state, memory, ended | out.terminated, length, total, lost

        heights, blocks = ground(draws)
        no = jnp.zeros(num, bool)
        count = no.astype(jnp.int32)
        memory = count + 1, count, jnp.full(num, 0.1)
        carry = np.int32(0), env._started(heights, forces, blocks), memory, no, count, jnp.zeros(num), no
        return jax.lax.while_loop(lambda c: (c[0] < limit) & ~jnp.all(c[3]), advance, carry)[4:]

    draws, forces = drawn(seeds)
    ours = dict(zip(("length", "return", "lost"), map(np.asarray, run(draws, jnp.array(forces))), strict=True))
    found = [walks.play(gymnasium.make(ID), "heuristic", seed) for seed in seeds]
    for name, x in ours.items():
        theirs = np.array([episode[name] for episode in found], np.float64)
        gap = x - theirs
        error = gap.std() / np.sqrt(num)
        print(f"{name}: {x.mean():.4g}, Gymnasium {theirs.mean():.4g}, {abs(gap.mean()) / error:.1f} standard errors")
    first = np.minimum(ours["length"], [episode["length"] for episode in found])
    print(
        f"{np.mean(ours['length'] == [e['length'] for e in found]):.3f} of the same length; median {np.median(first)}"
    )


if __name__ == "__main__":
    command, argument = sys.argv[1:]
    if command == "record":
        record(argument)
    else:
        {"compare": compare, "episodes": episodes}[command](int(argument))
