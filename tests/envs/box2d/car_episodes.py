"""Episodes of Gymnasium's CarRacing, and ours on the same track with the same actions.

    python -m tests.envs.box2d.car_episodes record FILE    # drives Gymnasium's car, needs gymnasium[box2d]
    python -m tests.envs.box2d.car_episodes replay FILE    # prints how ours compare

A seed stands for a track and for the driver's noise. The driver aims at a point of the road ahead, with noise that makes
it leave the road now and then. Actions are multiples of 1/32, so that they are stored as whole numbers.
"""

import pathlib
import sys

import numpy as np

FILE = pathlib.Path(__file__).parent / "car_episodes.npz"
SEEDS = range(8)
STEPS = 300
EVERY = 20  # steps between two recorded states
FRAMES = (0, 4, 12, 25, 50, 100, 175, 250, 300)  # steps after which the picture is recorded; 0 is the reset
UNIT = 32


class Driver:
    """Actions for Gymnasium's task, int8 in units of 1/32."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(1000 + seed)
        self.wild = seed % 4 == 3  # random actions, which leave the road
        self.noise = np.zeros(3)

    def __call__(self, task):
        self.noise = 0.9 * self.noise + self.rng.normal(0, 0.15, 3)
        if self.wild:
            action = self.noise * 3 + [0, 0.3, -0.2]
        else:
            hull, track = task.car.hull, np.array(task.track)
            x, y = hull.position
            nearest = np.argmin((track[:, 2] - x) ** 2 + (track[:, 3] - y) ** 2)
            speed = np.hypot(*hull.linearVelocity)
            ahead = track[(nearest + 4 + int(speed / 8)) % len(track)]
            local = hull.GetLocalPoint((ahead[2], ahead[3]))
            error = -np.arctan2(-local[0], local[1])
            action = [1.2 * error, 0.9 * (speed < 45), 0.3 * (speed > 60 or (abs(error) > 0.5 and speed > 30))]
            action = np.array(action) + self.noise
        return np.round(np.clip(action, [-1, 0, 0], 1) * UNIT).astype(np.int8)


def state_of(task):
    """Numbers of hull and wheels: float32 [6, 5], and rates of rolling, phases and flags of the road [3, 4]."""
    bodies = [task.car.hull, *task.car.wheels]
    numbers = [(*b.worldCenter, b.angle, *b.linearVelocity, b.angularVelocity) for b in bodies]
    wheels = [(w.omega, w.phase, bool(w.tiles)) for w in task.car.wheels]
    return np.array(numbers, np.float32).T, np.array(wheels, np.float32).T


def record(seed, steps=STEPS, **options):
    """A dict of what happened in an episode; arrays are padded to the number of steps."""
    import gymnasium

    env = gymnasium.make("CarRacing-v3", **options)
    task, driver = env.unwrapped, Driver(seed)
    frame, _ = env.reset(seed=int(seed))
    out = {name: [] for name in ("action", "reward", "visited", "bodies", "wheels", "frame")}
    for step in range(steps + 1):
        if step:
            action = driver(task)
            frame, reward, terminated, *_ = env.step(action.astype(np.float32) / UNIT)
            assert not terminated
            out["action"].append(action)
            out["reward"].append(reward)
        bodies, wheels = state_of(task)
        out["visited"].append([tile.road_visited for tile in task.road])
        out["bodies"].append(bodies)
        out["wheels"].append(wheels)
        if step in FRAMES:
            out["frame"].append(frame)
    track = np.array(task.track)[:, 1:]  # direction, x, y
    out = {name: np.array(x, np.float32 if name == "reward" else None) for name, x in out.items()}
    return {"track": track.astype(np.float32), **out}


def main(command, file=FILE, *seeds):
    if command == "record":
        arrays = {}
        for seed in map(int, seeds or SEEDS):
            episode = record(seed)
            visited = episode.pop("visited")
            # The step after which each tile was visited, or -1.
            episode["visited"] = np.where(visited.any(axis=0), visited.argmax(axis=0), -1).astype(np.int16)
            arrays.update({f"{seed} {name}": x for name, x in episode.items()})
            print(seed, len(episode["track"]), episode["reward"].sum(), (episode["visited"] >= 0).sum(), flush=True)
        np.savez_compressed(file, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
