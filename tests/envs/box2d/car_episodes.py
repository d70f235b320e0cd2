"""Episodes and tracks of Gymnasium's CarRacing, and ours on the same tracks with the same actions.

    python -m tests.envs.box2d.car_episodes record FILE    # drives Gymnasium's car, needs gymnasium[box2d]
    python -m tests.envs.box2d.car_episodes replay FILE    # prints how ours compare
    python -m tests.envs.box2d.car_episodes compare 40     # both, for more episodes than the file has

A seed stands for a track and for the driver's noise. The driver aims at a point of the road ahead; every fourth one
acts at random and leaves the road. Actions are multiples of 1/32, so that they are stored as whole numbers.
"""

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.envs.box2d._car_track import MOST, track_through
from jaxenv.envs.box2d.car_racing import CarLevel, CarRacing

FILE = pathlib.Path(__file__).parent / "car_episodes.npz"
SEEDS = range(8)
STEPS = 300
EVERY = 20  # steps between two recorded states
FRAMES = (0, 4, 25, 50, 150, 300)  # steps after which the picture is recorded; 0 is the reset
FILMED = range(3)  # seeds whose pictures are recorded
UNIT = 32
DRAWS = range(40)  # seeds of the tracks whose draws are recorded
LAW = 1000  # tracks of which length, borders and extent are recorded


# --- Gymnasium's side ------------------------------------------------------------------------------------------------


class Driver:
    """Actions for Gymnasium's task, int8 in units of 1/32."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(1000 + seed)
        self.random = seed % 4 == 3
        self.noise = np.zeros(3)

    def __call__(self, task):
        self.noise = 0.9 * self.noise + self.rng.normal(0, 0.15, 3)
        if self.random:
            action = self.noise * 3 + [0, 0.3, -0.2]
        else:
            hull, track = task.car.hull, np.array(task.track)
            x, y = hull.position
            nearest = np.argmin((track[:, 2] - x) ** 2 + (track[:, 3] - y) ** 2)
            speed = np.hypot(*hull.linearVelocity)
            ahead = track[(nearest + 4 + int(speed / 8)) % len(track)]
            right, forward = hull.GetLocalPoint((ahead[2], ahead[3]))
            error = np.arctan2(right, forward)
            action = [0.8 * error, 0.6 * (speed < 55 - 60 * abs(error)), 0.3 * (speed > 65 - 60 * abs(error))]
            action = np.array(action) + 0.3 * self.noise
        return np.round(np.clip(action, [-1, 0, 0], 1) * UNIT).astype(np.int8)


def state_of(task):
    """Numbers of hull and wheels: float32 [6, 5], and rates of rolling, phases and flags of the road [3, 4]."""
    bodies = [task.car.hull, *task.car.wheels]
    numbers = [(*b.worldCenter, b.angle, *b.linearVelocity, b.angularVelocity) for b in bodies]
    wheels = [(w.omega, w.phase, bool(w.tiles)) for w in task.car.wheels]
    return np.array(numbers, np.float32).T, np.array(wheels, np.float32).T


def record(seed, filmed):
    """What happened in an episode, as arrays."""
    import gymnasium

    env = gymnasium.make("CarRacing-v3")
    task, driver = env.unwrapped, Driver(seed)
    frame, _ = env.reset(seed=int(seed))
    out = {name: [] for name in ("action", "reward", "bodies", "wheels", "frame")}
    visited = []
    for step in range(STEPS + 1):
        if step:
            action = driver(task)
            frame, reward, terminated, *_ = env.step(action.astype(np.float32) / UNIT)
            assert not terminated
            out["action"].append(action)
            out["reward"].append(reward)
        visited.append([tile.road_visited for tile in task.road])
        if step % EVERY == 0:
            bodies, wheels = state_of(task)
            out["bodies"].append(bodies)
            out["wheels"].append(wheels)
        if filmed and step in FRAMES:
            out["frame"].append(frame)
    out = {name: np.array(x, np.float32 if name == "reward" else None) for name, x in out.items() if len(x)}
    visited = np.array(visited)
    # The step after which each tile was visited, or -1.
    out["visited"] = np.where(visited.any(axis=0), visited.argmax(axis=0), -1).astype(np.int16)
    out["lines"] = np.array(task.track, np.float32)[:, 1:].T  # angle, x and y
    return out


def record_tracks(first, count):
    """Draws and tracks, failures included: a list of (draws [2, 12], angle, x and y [3, N] or None, sides [N])."""
    import gymnasium

    task = gymnasium.make("CarRacing-v3").unwrapped
    out = []
    for seed in range(first, first + count):
        pairs = np.random.default_rng(seed).uniform(size=(12, 2))
        task._np_random, task.road_poly, task.road = np.random.default_rng(seed), [], []
        if not task._create_track():
            out.append((pairs.T, None, None))
            continue
        lines = np.array(task.track)[:, 1:].T
        bordered, tile = np.zeros(lines.shape[1], bool), -1
        for _, colour in task.road_poly:
            is_border = isinstance(colour, tuple)
            tile += not is_border
            bordered[tile] |= is_border
        sides = -np.sign(lines[0] - np.roll(lines[0], 1)) * bordered
        out.append((pairs.T, lines, sides))
    return out


def statistics(lines, sides):
    """Of a track: the number of tiles, that of borders, and the largest coordinate."""
    return lines.shape[1], np.abs(sides).sum(), np.abs(lines[1:]).max()


def record_all(file):
    arrays = {}
    for seed in SEEDS:
        episode = record(seed, seed in FILMED)
        arrays.update({f"{seed} {name}": x for name, x in episode.items()})
        print(seed, episode["lines"].shape, episode["reward"].sum(), (episode["visited"] >= 0).sum(), flush=True)
    tracks = record_tracks(DRAWS.start, len(DRAWS))
    arrays["draws"] = np.array([draws for draws, _, _ in tracks], np.float32)
    arrays["length"] = np.array([0 if lines is None else lines.shape[1] for _, lines, _ in tracks], np.int16)
    arrays["sides"], arrays["ends"] = np.zeros((len(tracks), MOST), np.int8), np.zeros((len(tracks), 3), np.float32)
    for i, (_, lines, sides) in enumerate(tracks):
        if lines is not None:
            arrays["sides"][i, : len(sides)], arrays["ends"][i] = sides, lines[:, -1]
    found = record_tracks(10_000, LAW + 200)
    arrays["failed"] = np.mean([lines is None for _, lines, _ in found])
    law = [statistics(lines, sides) for _, lines, sides in found if lines is not None]
    arrays["law"] = np.array(law[:LAW], np.float32)
    np.savez_compressed(file, **arrays)


# --- our side --------------------------------------------------------------------------------------------------------


def load(file=FILE):
    with np.load(file) as data:
        return dict(data)


def episodes_of(data):
    """The arrays of all episodes, each with a leading axis, except the lines, a list."""
    seeds = sorted({int(name.split()[0]) for name in data if name[0].isdigit()})
    kept = ("action", "reward", "bodies", "wheels")
    return {
        "lines": [data[f"{s} lines"] for s in seeds],
        "visited": [data[f"{s} visited"] for s in seeds],
        **{name: np.array([data[f"{s} {name}"] for s in seeds]) for name in kept},
    }


def tracks_of(lines):
    """Our tracks through recorded lines, and the angles of the first lines."""
    length = np.array([x.shape[1] for x in lines], np.int32)
    angle, x, y = (
        jnp.asarray(np.stack([np.pad(x[i], (0, MOST - len(x[i])), "edge") for x in lines])) for i in range(3)
    )
    return jax.jit(track_through)(x, y, angle, jnp.asarray(length)), angle[:, 0]


def replay(episodes, env=None, steps=STEPS):
    """Our rewards ``[S, T]`` and states, leaves ``[T + 1, S, ...]`` but for the track."""
    env = env or CarRacing()
    track, angle = tracks_of(episodes["lines"])
    actions = jnp.asarray(np.moveaxis(episodes["action"][:, :steps].astype(np.float32) / UNIT, 1, 0))

    def run(track, angle, actions):
        def advance(state, action):
            out = env.transition(state, action, None)
            return out.state, (tree.rebuild(out.state, track=()), out.reward)

        stream = random.stream(jax.random.split(jax.random.key(0), len(angle)))
        start = env.initial(stream, CarLevel(track, angle, env._colours(stream)))
        _, (states, rewards) = jax.lax.scan(advance, start, actions)
        start = jax.tree.map(lambda x: x[None], tree.rebuild(start, track=()))
        return jax.tree.map(lambda *x: jnp.concatenate(x), start, states), rewards.T

    states, rewards = jax.jit(run)(track, angle, actions)
    return np.asarray(rewards), tree.rebuild(states, track=track)


def state_at(states, step):
    """The states of all episodes after a step."""
    return tree.rebuild(jax.tree.map(lambda x: x[step], tree.rebuild(states, track=())), track=states.track)


def differences(episodes, states, rewards):
    """The largest differences of each episode in bodies and rewards ``[S]``; tiles visited in another step ``[S]``."""
    steps = rewards.shape[1]
    ours = np.moveaxis(np.asarray(states.car.bodies[::EVERY]), 1, 0)
    bodies = np.abs(ours - episodes["bodies"][:, : ours.shape[1]]).max(axis=(1, 2, 3))
    reward = np.abs(rewards - episodes["reward"][:, :steps]).max(axis=1)
    visited = np.asarray(states.visited)
    other = []
    for i, theirs in enumerate(episodes["visited"]):
        own = visited[:, i, : len(theirs)]
        first = np.where(own.any(axis=0), own.argmax(axis=0), -1)
        other.append(np.sum(first != np.where(theirs > steps, -1, theirs)))
    return bodies, reward, np.array(other)


_observe = jax.jit(CarRacing.observe)


def images(states, steps):
    """Our pictures of the filmed episodes after some steps, int ``[S, T, 96, 96, 3]``."""
    lanes = [tree.gather(state_at(states, t), np.array(FILMED)) for t in steps]
    shown = np.asarray(_observe(CarRacing(), jax.tree.map(lambda *x: jnp.concatenate(x), *lanes)))
    return np.moveaxis(shown.reshape(len(steps), len(FILMED), *shown.shape[1:]), 1, 0).astype(int)


def frames_of(data):
    """Gymnasium's pictures after the steps `FRAMES`, int ``[S, T, 96, 96, 3]``."""
    return np.array([data[f"{seed} frame"] for seed in FILMED]).astype(int)


def report(episodes):
    rewards, states = replay(episodes)
    bodies, reward, other = differences(episodes, states, rewards)
    tiles = sum((v >= 0).sum() for v in episodes["visited"])
    print(f"{len(bodies)} episodes of {STEPS} steps, {tiles} tiles visited, {other.sum()} of them in another step")
    print(f"bodies: median {np.median(bodies):.1e}, most {bodies.max():.1e}; rewards: most {reward.max():.1e}")
    return states


def main(command, argument=FILE):
    if command == "record":
        record_all(argument)
    elif command == "replay":
        data = load(argument)
        error = np.abs(images(report(episodes_of(data)), FRAMES) - frames_of(data))
        for step, whole, field in zip(
            FRAMES, error.mean((0, 2, 3, 4)), error[:, :, :84].mean((0, 2, 3, 4)), strict=True
        ):
            print(f"pictures after {step} steps: mean error {whole:.2f} of 255, without indicators {field:.2f}")
    else:
        found = {f"{s} {k}": v for s in range(100, 100 + int(argument)) for k, v in record(s, False).items()}
        report(episodes_of(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
