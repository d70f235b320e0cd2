"""Records MiniGrid's levels with objects in the files ``*.npz`` of this folder, as ../make_golden.py does.

    minigrid/bin/python tests/envs/grid/objects/make_golden.py [ID ...]

It records single steps from constructed states, whole episodes, and counts of what the starts of episodes look like.
"""

import pathlib
import sys

import gymnasium
import minigrid  # noqa: F401
import numpy as np
from minigrid.core.grid import Grid
from minigrid.core.world_object import Ball, Box, Door, Goal, Key, Wall
from minigrid.envs import EmptyEnv

sys.path.append(str(pathlib.Path(__file__).parents[4]))

from tests.envs.grid.make_golden import EPISODES, HEADINGS, SEED, STATES, compact, find, towards
from tests.envs.grid.objects import starts

STARTS = 6000
FOLDER = pathlib.Path(__file__).parent
ACTIONS = (0.05, 0.05, 0.25, 0.2, 0.13, 0.2, 0.12)  # probabilities in single steps; turns need few samples
IDS = (
    "MiniGrid-Unlock-v0",
    "MiniGrid-UnlockPickup-v0",
    "MiniGrid-BlockedUnlockPickup-v0",
    "MiniGrid-Fetch-5x5-N2-v0",
    "MiniGrid-Fetch-8x8-N3-v0",
    "MiniGrid-GoToDoor-5x5-v0",
    "MiniGrid-GoToDoor-8x8-v0",
    "MiniGrid-GoToObject-6x6-N2-v0",
    "MiniGrid-PutNear-6x6-N2-v0",
    "MiniGrid-RedBlueDoors-6x6-v0",
    "MiniGrid-MemoryS7-v0",
    "MiniGrid-MemoryS13Random-v0",
    "MiniGrid-LockedRoom-v0",
    "MiniGrid-KeyCorridorS3R1-v0",
    "MiniGrid-KeyCorridorS3R3-v0",
    "MiniGrid-SimpleCrossingS9N1-v0",
    "MiniGrid-SimpleCrossingS11N5-v0",
    "MiniGrid-LavaCrossingS9N1-v0",
    "MiniGrid-Dynamic-Obstacles-5x5-v0",
    "MiniGrid-Dynamic-Obstacles-Random-5x5-v0",
    "MiniGrid-Dynamic-Obstacles-16x16-v0",
    "MiniGrid-MultiRoom-N2-S4-v0",
    "MiniGrid-MultiRoom-N4-S5-v0",
    "MiniGrid-MultiRoom-N6-v0",
    "MiniGrid-ObstructedMaze-1Dl-v0",
    "MiniGrid-ObstructedMaze-1Dlh-v0",
    "MiniGrid-ObstructedMaze-1Dlhb-v0",
    "MiniGrid-ObstructedMaze-2Dlh-v0",
)
# Further sizes, of which only the starts are recorded.
SIZES = tuple(
    f"MiniGrid-{name}"
    for name in (
        *("SimpleCrossingS9N2-v0", "SimpleCrossingS9N3-v0", "LavaCrossingS9N2-v0", "LavaCrossingS9N3-v0"),
        *("LavaCrossingS11N5-v0", "Dynamic-Obstacles-6x6-v0", "Dynamic-Obstacles-Random-6x6-v0"),
        *("Dynamic-Obstacles-8x8-v0", "RedBlueDoors-8x8-v0", "MemoryS9-v0", "MemoryS11-v0", "MemoryS13-v0"),
        *("MemoryS17Random-v0", "Fetch-6x6-N2-v0", "GoToDoor-6x6-v0", "GoToObject-8x8-N2-v0", "PutNear-8x8-N3-v0"),
        *("KeyCorridorS3R2-v0", "KeyCorridorS4R3-v0", "KeyCorridorS5R3-v0", "KeyCorridorS6R3-v0"),
        *("MultiRoom-N4-S5-v1", "ObstructedMaze-2Dl-v0"),
    )
)
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
KINDS = ("door", "key", "ball", "box", "goal")


def code(thing):
    kind, colour, state = thing.encode()
    return kind + 256 * colour + 65536 * state + 2**24 * hidden_in(thing)


def hidden_in(thing):
    """Returns 1 + the colour of the key that a box hides, 0 if there is none."""
    key = getattr(thing, "contains", None)
    return 1 + COLOURS.index(key.color) if key else 0


def number(cell):
    return int(cell[0]) + 32 * int(cell[1])


def target_of(env):
    """Returns what the mission is about, as `object_world.State.target` has it."""
    name = type(env).__name__
    if name == "FetchEnv":
        return [code({"key": Key, "ball": Ball}[env.targetType](env.targetColor))]
    if name in ("GoToDoorEnv", "GoToObjectEnv"):
        return [number(env.target_pos)]
    if name == "PutNearEnv":
        moved = {"key": Key, "ball": Ball, "box": Box}[env.move_type](env.moveColor)
        return [code(moved), number(env.target_pos)]
    if name == "MemoryEnv":
        return [number(env.success_pos), number(env.failure_pos)]
    return []


def state_of(env):
    return {
        "grid": env.grid.encode(),
        "hidden": [[hidden_in(env.grid.get(x, y)) for y in range(env.height)] for x in range(env.width)],
        "agent": [*map(int, env.agent_pos), int(env.agent_dir)],
        "carrying": code(env.carrying) if env.carrying else 0,
        "step": env.step_count,
    }


def shake(env, rng):
    """Randomizes the state within the level: agent, doors, objects and step count take any possible value."""
    movable = [p for kind in KINDS[1:4] for p in find(env, kind)]
    if type(env).__name__ == "MemoryEnv":  # its objects cannot move
        movable = []
    for place in find(env, "door"):
        door = env.grid.get(*place)
        door.is_open, door.is_locked = [(True, False), (False, False), (False, True)][rng.integers(3)]
    inside = [(x, y) for x in range(1, env.width - 1) for y in range(1, env.height - 1)]
    things = [env.grid.get(*place) for place in movable]
    for place in movable:
        env.grid.set(*place, None)
    env.carrying = things.pop(rng.integers(len(things))) if things and rng.random() < 0.5 else None
    empty = [p for p in inside if env.grid.get(*p) is None]
    for thing, i in zip(things, rng.permutation(len(empty)), strict=False):
        env.grid.set(*empty[i], thing)
    walkable = [p for p in inside if (c := env.grid.get(*p)) is None or c.can_overlap()]
    env.agent_pos, env.agent_dir = walkable[rng.integers(len(walkable))], int(rng.integers(4))
    env.step_count = env.max_steps - 1 if rng.random() < 0.05 else int(rng.integers(env.max_steps))
    # In most states the agent faces an object, or a cell next to which the mission says something happens.
    things = [p for kind in KINDS for p in find(env, kind)]
    for name in ("success_pos", "failure_pos", "target_pos"):
        if hasattr(env, name):
            things.append(tuple(map(int, getattr(env, name))))
    if hasattr(env, "target_pos") and type(env).__name__ == "PutNearEnv":
        things += [(x + dx, y + dy) for x, y in things[-1:] for dx in range(-2, 3) for dy in range(-2, 3)] * 2
    if things and rng.random() < 0.7:
        x, y = things[rng.integers(len(things))]
        direction = int(rng.integers(4))
        pos = (x - HEADINGS[direction][0], y - HEADINGS[direction][1])
        if pos in walkable:
            env.agent_pos, env.agent_dir = pos, direction


def any_action(env, rng):
    action = int(rng.choice(7, p=ACTIONS)) % env.action_space.n
    return 2 if type(env).__name__ == "MemoryEnv" and rng.random() < 0.5 else action


def one_steps(env, rng, prepare, choose=any_action):
    rows = []
    for _ in range(STATES):
        prepare(env, rng)
        target, action = target_of(env), choose(env, rng)
        row = {**state_of(env), "target": target, "action": action}
        observation, reward, terminated, _, _ = env.step(action)
        row |= {f"after_{k}": v for k, v in state_of(env).items()}
        rows.append({**row, "image": observation["image"], "reward": reward, "terminated": terminated})
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def wanted(env):
    """Returns the cells of which the player wants to face one, and the action to take there; or only an action."""
    name, hold = type(env).__name__, env.carrying
    if name in ("GoToDoorEnv", "GoToObjectEnv"):
        return [tuple(map(int, env.target_pos))], 6
    if name == "FetchEnv":
        wants = (env.targetType, env.targetColor)
        return [p for k in ("key", "ball") for p in find(env, k) if (k, env.grid.get(*p).color) == wants], 3
    if name == "PutNearEnv":
        if hold is None:
            kinds = find(env, env.move_type)
            return [p for p in kinds if env.grid.get(*p).color == env.moveColor], 3
        x, y = map(int, env.target_pos)
        near = [(x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
        return [p for p in near if env.grid.get(*p) is None], 4
    if name == "RedBlueDoorEnv":
        doors = {env.grid.get(*p).color: p for p in find(env, "door")}
        return [doors["blue" if env.red_door.is_open else "red"]], 5
    if name == "MemoryEnv":
        return [tuple(map(int, env.success_pos))], 2
    if name in ("CrossingEnv", "DynamicObstaclesEnv"):
        return find(env, "goal"), 2
    return rooms(env, hold)


def rooms(env, hold):
    """Plays levels with locked doors, an object to pick up (``env.obj``) and goals."""

    def near(places):
        return [p for p in places if towards(env, p) is not None or facing(env) == p]

    doors = find(env, "door")
    locked = [p for p in doors if env.grid.get(*p).is_locked]
    colours = {env.grid.get(*p).color for p in locked}
    if goals := near(find(env, "goal")):
        return goals, 2
    if hold and (hold.type != "key" or hold.color not in colours):
        inside = ((x, y) for x in range(1, env.width - 1) for y in range(1, env.height - 1))
        return [p for p in inside if is_clear(env, p)], 4
    if hold and (fitting := near([p for p in locked if env.grid.get(*p).color == hold.color])):
        return fitting, 5
    if not hold and (
        things := near([p for kind in ("box", "ball") for p in find(env, kind) if env.grid.get(*p) is env.obj])
    ):
        return things, 3
    keys = near([p for p in find(env, "key") if env.grid.get(*p).color in colours])
    if not hold and keys and (near(locked) or not find(env, "ball")):
        return keys, 3
    if not hold and (boxes := near([p for p in find(env, "box") if env.grid.get(*p).contains])):
        return boxes, 5
    if shut := near([p for p in doors if not env.grid.get(*p).is_open and p not in locked]):
        return shut, 5
    return near(find(env, "key") if not find(env, "ball") else find(env, "ball")), 3


def facing(env):
    """Returns the cell in front of the agent."""
    return tuple(int(a) + b for a, b in zip(env.agent_pos, HEADINGS[env.agent_dir], strict=True))


def is_clear(env, place):
    """Returns whether a cell is empty and not next to a door."""
    x, y = place
    around = [
        env.grid.get(x + dx, y + dy) for dx, dy in HEADINGS if 0 <= x + dx < env.width and 0 <= y + dy < env.height
    ]
    return env.grid.get(x, y) is None and all(c is None or c.type != "door" for c in around)


def sensible(env, rng):
    """Returns the next action of a player that sees the whole grid."""
    cells, action = wanted(env)
    if facing(env) in cells:
        return action
    steps = [step for p in cells[:4] if (step := towards(env, p)) is not None]
    return steps[0] if steps else int(rng.integers(3))


def episodes(env, rng):
    played = []
    for episode in range(EPISODES):
        observation, _ = env.reset(seed=SEED + 1000 + episode)
        rows, start, ended = [], {**state_of(env), "target": target_of(env)}, False
        start |= {"mission": observation["mission"], "image": observation["image"]}
        # One episode in four is random.
        noise = 0.1 if episode % 4 else 1.0
        while not ended:
            action = int(rng.integers(env.action_space.n)) if rng.random() < noise else sensible(env, rng)
            observation, reward, terminated, truncated, _ = env.step(action)
            assert observation["mission"] == start["mission"]
            row = [action, observation["image"], observation["direction"], reward, terminated, truncated]
            rows.append((*row, obstacles_of(env)))
            ended = terminated or truncated
        played.append((start, rows))
    longest = max(len(rows) for _, rows in played)
    names = ("grid", "hidden", "agent", "target", "mission")
    data = {f"episode_{k}": np.array([start[k] for start, _ in played]) for k in names}
    data["episode_first"] = np.array([start["image"] for start, _ in played])
    for i, name in enumerate(("action", "image", "direction", "reward", "terminated", "truncated", "obstacles")):
        columns = [np.array([row[i] for row in rows]) for _, rows in played]
        pad = [np.concatenate([c, np.zeros((longest - len(c), *c.shape[1:]), c.dtype)]) for c in columns]
        data[f"episode_{name}"] = np.stack(pad)
    data["episode_length"] = np.array([len(rows) for _, rows in played])
    return data


def obstacles_of(env):
    """Returns the cells of the balls that move, in the order in which they move."""
    return [number(ball.cur_pos) for ball in getattr(env, "obstacles", [])]


def counted(env, num_starts=STARTS):
    """Counts what starts look like; see starts.py."""
    agents, grids, missions = [], [], {}
    for episode in range(num_starts):
        observation, _ = env.reset(seed=SEED + 10_000 + episode)
        agents.append(state_of(env)["agent"])
        grids.append(env.grid.encode())
        missions[observation["mission"]] = missions.get(observation["mission"], 0) + 1
    data = {f"counts_{name}": counts for name, counts in starts.counts(agents, np.array(grids)).items()}
    return {**data, "missions": np.array(list(missions)), "counts_missions": np.array(list(missions.values()))}


def clutter(env, rng):
    """Builds a grid with walls, a goal, doors, keys, balls and boxes, one of which hides a key, in random cells."""
    env.grid = Grid(env.width, env.height)
    env.grid.wall_rect(0, 0, env.width, env.height)
    cells = [(x, y) for x in range(1, env.width - 1) for y in range(1, env.height - 1)]
    rng.shuffle(cells)
    colours = [COLOURS[i] for i in rng.integers(6, size=8)]
    things = [Goal(), Key(colours[0]), Key(colours[1]), Ball(colours[2]), Ball(colours[3]), Box(colours[4])]
    things += [
        Box(colours[5], contains=Key(colours[1])),
        Door(colours[0]),
        Door(colours[1]),
        Door(colours[6]),
        Door(colours[7]),
    ]
    things += [Wall() for _ in range(rng.integers(16))]
    for thing, place in zip(things, cells, strict=False):
        env.grid.set(*place, thing)
    shake(env, rng)
    front = env.grid.get(*facing(env))
    if front and front.type == "door" and rng.random() < 0.5:
        env.carrying = Key(front.color)


def handle(env, rng):
    """Returns an action that does something with the object ahead of the agent, half of the time."""
    if rng.random() < 0.5:
        return any_action(env, rng)
    front = env.grid.get(*facing(env))
    if front is None:
        return 4 if env.carrying else 2
    return 5 if front.type in ("door", "box") and rng.random() < 0.6 else 3


def main():
    ids = sys.argv[1:] or (*IDS, "objects", "sizes")
    if "objects" in ids:
        env = EmptyEnv(size=9, max_steps=50)
        env.see_through_walls = False
        env.reset(seed=SEED)
        data = one_steps(env, np.random.default_rng(SEED), clutter, handle)
        np.savez_compressed(FOLDER / "objects.npz", **compact({**data, "max_steps": np.array(env.max_steps)}))
    if "sizes" in ids:
        data = {}
        for id in SIZES:
            env = gymnasium.make(id).unwrapped
            found = {**counted(env, STARTS // 3), "max_steps": np.array(env.max_steps)}
            data |= {f"{id} {name}": value for name, value in found.items()}
            data[f"{id} shape"] = np.array([env.width, env.height])
        np.savez_compressed(FOLDER / "sizes.npz", **compact(data))
    for id in ids:
        if id in ("objects", "sizes"):
            continue
        rng = np.random.default_rng(SEED)
        env = gymnasium.make(id).unwrapped

        def prepare(env, rng):
            env.reset(seed=int(rng.integers(2**31)))
            shake(env, rng)

        data = {**counted(env), **episodes(env, rng), "max_steps": np.array(env.max_steps)}
        if not hasattr(env, "obstacles"):  # their moves are random
            data |= one_steps(env, rng, prepare)
        np.savez_compressed(FOLDER / f"{id}.npz", **compact(data))
        print(
            id,
            np.mean(data["episode_reward"].max(axis=1) > 0),
            data["episode_length"],
            data["missions"][:3],
            flush=True,
        )


if __name__ == "__main__":
    main()
