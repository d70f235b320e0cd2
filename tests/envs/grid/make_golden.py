"""Records the behaviour of MiniGrid in the files ``*.npz`` of this folder, which the tests compare with.

    python -m venv minigrid && minigrid/bin/pip install minigrid==3.2.0
    minigrid/bin/python tests/envs/grid/make_golden.py

For each level it records single steps from constructed and played states, whole episodes, and starts of episodes.
Grids are ``Grid.encode()``, uint8 ``[N, S, S, 3]``, columns first; an agent is x, y and direction.
"""

import importlib.metadata
import pathlib
from collections import deque

import gymnasium
import minigrid  # noqa: F401
import numpy as np
from minigrid.core.grid import Grid
from minigrid.core.world_object import Door, Goal, Key, Lava, Wall
from minigrid.envs import EmptyEnv

SEED = 7
STATES, EPISODES, STARTS = 500, 8, 6000
ACTIONS = (0.06, 0.06, 0.4, 0.16, 0.12, 0.16, 0.04)  # probabilities in single steps; turns need few samples
IDS = (
    "MiniGrid-Empty-5x5-v0",
    "MiniGrid-Empty-8x8-v0",
    "MiniGrid-Empty-Random-5x5-v0",
    "MiniGrid-LavaGapS7-v0",
    "MiniGrid-FourRooms-v0",
    "MiniGrid-DoorKey-5x5-v0",
    "MiniGrid-DoorKey-8x8-v0",
    "MiniGrid-DoorKey-16x16-v0",
)
FIXED = {"MiniGrid-Empty-5x5-v0", "MiniGrid-Empty-8x8-v0"}  # levels with a single start
FOLDER = pathlib.Path(__file__).parent
HEADINGS = ((1, 0), (0, 1), (-1, 0), (0, -1))


def state_of(env):
    pose = [*map(int, env.agent_pos), int(env.agent_dir)]
    return {"grid": env.grid.encode(), "agent": pose, "carrying": env.carrying is not None, "step": env.step_count}


def find(env, kind):
    """Returns the cells of all objects of one type."""
    g = env.grid
    return [(x, y) for x in range(g.width) for y in range(g.height) if (c := g.get(x, y)) and c.type == kind]


def shake(env, rng):
    """Randomizes the state within the level: agent, key, door and step count take any possible value."""
    doors, keys = find(env, "door"), find(env, "key")
    if doors:
        door = env.grid.get(*doors[0])
        door.is_open, door.is_locked = [(True, False), (False, False), (False, True)][rng.integers(3)]
        for place in keys:
            env.grid.set(*place, None)
        env.carrying = Key("yellow") if rng.random() < 0.4 else None
    inside = [(x, y) for x in range(env.width) for y in range(env.height)]
    empty = [p for p in inside if env.grid.get(*p) is None]
    if doors and env.carrying is None:
        env.grid.set(*empty[rng.integers(len(empty))], Key("yellow"))
    walkable = [p for p in inside if (c := env.grid.get(*p)) is None or c.can_overlap()]
    env.agent_pos, env.agent_dir = walkable[rng.integers(len(walkable))], int(rng.integers(4))
    env.step_count = env.max_steps - 1 if rng.random() < 0.05 else int(rng.integers(env.max_steps))
    # In half of all states the agent faces an object.
    things = [p for kind in ("door", "key", "goal", "lava") for p in find(env, kind)]
    if rng.random() < 0.5:
        x, y = things[rng.integers(len(things))]
        direction = int(rng.integers(4))
        pos = (x - HEADINGS[direction][0], y - HEADINGS[direction][1])
        if pos in walkable:
            env.agent_pos, env.agent_dir = pos, direction


def one_steps(env, rng, prepare, also=dict):
    """Records single steps; ``also`` returns further entries of a record, computed after the step."""
    rows = []
    for _ in range(STATES):
        prepare(env, rng)
        before, action = state_of(env), int(rng.choice(7, p=ACTIONS))
        observation, reward, terminated, _, _ = env.step(action)
        row = {**before, "action": action, **{f"after_{k}": v for k, v in state_of(env).items()}}
        rows.append({**row, "image": observation["image"], "reward": reward, "terminated": terminated, **also()})
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def towards(env, target):
    """Returns an action on a shortest path to face ``target``, or None if the agent faces it."""
    start = (*map(int, env.agent_pos), int(env.agent_dir))
    queue, first = deque([start]), {start: None}
    while queue:
        x, y, d = node = queue.popleft()
        ahead = (x + HEADINGS[d][0], y + HEADINGS[d][1])
        if ahead == target:
            return first[node]
        c = env.grid.get(*ahead)
        steps = [(0, (x, y, (d - 1) % 4)), (1, (x, y, (d + 1) % 4))]
        if c is None or (c.can_overlap() and c.type not in ("lava", "goal")):
            steps.append((2, (*ahead, d)))
        for action, after in steps:
            if after not in first:
                first[after] = action if node == start else first[node]
                queue.append(after)
    return None


def sensible(env):
    """Returns the next action of a player that sees the whole grid."""
    doors, keys = find(env, "door"), find(env, "key")
    if doors and env.grid.get(*doors[0]).is_locked:
        target, action = (doors[0], 5) if env.carrying else (keys[0], 3)
    elif doors and not env.grid.get(*doors[0]).is_open and env.agent_pos[0] < doors[0][0]:
        target, action = doors[0], 5
    else:
        target, action = find(env, "goal")[0], 2
    step = towards(env, target)
    return action if step is None else step


def episodes(env, rng):
    played = []
    for number in range(EPISODES):
        env.reset(seed=SEED + 1000 + number)
        rows, start, ended = [], state_of(env), False
        # One episode in four is random; it mostly ends by the time limit.
        noise = 0.2 if number % 4 or env.max_steps > 300 else 1.0
        while not ended:
            action = int(rng.integers(7)) if rng.random() < noise else sensible(env)
            observation, reward, terminated, truncated, _ = env.step(action)
            rows.append((action, observation["image"], observation["direction"], reward, terminated, truncated))
            ended = terminated or truncated
        played.append((start, rows))
    longest = max(len(rows) for _, rows in played)
    data = {f"episode_{k}": np.array([start[k] for start, _ in played]) for k in ("grid", "agent")}
    for i, name in enumerate(("action", "image", "direction", "reward", "terminated", "truncated")):
        columns = [np.array([row[i] for row in rows]) for _, rows in played]
        pad = [np.concatenate([c, np.zeros((longest - len(c), *c.shape[1:]), c.dtype)]) for c in columns]
        data[f"episode_{name}"] = np.stack(pad)
    data["episode_length"] = np.array([len(rows) for _, rows in played])
    return data


def starts(env):
    """Records starts: agent, goal, then door and key, the gap in the lava or the four gaps, if the level has them."""
    rows = []
    for number in range(STARTS):
        env.reset(seed=SEED + 10_000 + number)
        row = [*map(int, env.agent_pos), int(env.agent_dir), *find(env, "goal")[0]]
        if find(env, "door"):
            row += [*find(env, "door")[0], *find(env, "key")[0]]
        elif find(env, "lava"):
            (x, *_), rest = zip(*find(env, "lava"), strict=True)
            row += [x, ({*range(1, env.height - 1)} - set(rest)).pop()]
        elif env.width == 19:
            row += [y for y in range(1, 18) if env.grid.get(9, y) is None or env.grid.get(9, y).type == "goal"]
            row += [x for x in range(1, 18) if env.grid.get(x, 9) is None or env.grid.get(x, 9).type == "goal"]
        rows.append(row)
    return np.array(rows, np.uint8)


def clutter(env, rng):
    """Builds a grid with walls, lava, a goal, a door and a key in random cells."""
    env.grid = Grid(env.width, env.height)
    env.grid.wall_rect(0, 0, env.width, env.height)
    cells = [(x, y) for x in range(1, env.width - 1) for y in range(1, env.height - 1)]
    rng.shuffle(cells)
    things = [Goal(), Door("yellow", is_locked=True), Key("yellow")]
    things += [Wall() for _ in range(rng.integers(24))] + [Lava() for _ in range(rng.integers(6))]
    for thing, place in zip(things, cells, strict=False):
        env.grid.set(*place, thing)
    shake(env, rng)


def compact(data):
    """Casts integers to the smallest dtype; float64 rewards and flags stay unchanged."""
    small = {k: v.astype(np.min_scalar_type(v.max())) if v.dtype.kind == "i" else v for k, v in data.items()}
    return {**small, "version": np.array(importlib.metadata.version("minigrid")), "seed": np.array(SEED)}


def main():
    for id in IDS:
        rng = np.random.default_rng(SEED)
        env = gymnasium.make(id).unwrapped

        def prepare(env, rng):
            env.reset(seed=int(rng.integers(2**31)))
            shake(env, rng)

        data = {**one_steps(env, rng, prepare), **episodes(env, rng), "max_steps": np.array(env.max_steps)}
        if id not in FIXED:
            data["starts"] = starts(env)
        np.savez_compressed(FOLDER / f"{id}.npz", **compact(data))
    env = EmptyEnv(size=9, max_steps=50)
    env.see_through_walls = False
    env.reset(seed=SEED)
    rng = np.random.default_rng(SEED)

    def through():
        env.see_through_walls = True
        image = env.gen_obs()["image"]
        env.see_through_walls = False
        return {"image_through": image}

    data = {**one_steps(env, rng, clutter, through), "max_steps": np.array(env.max_steps)}
    np.savez_compressed(FOLDER / "clutter.npz", **compact(data))


if __name__ == "__main__":
    main()
