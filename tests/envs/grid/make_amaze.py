"""Records the behaviour of jaxued and of minimax in ``amaze.npz``, which the tests compare with.

    git clone https://github.com/DramaCow/jaxued && git -C jaxued checkout 0f8f128
    git clone https://github.com/facebookresearch/minimax && git -C minimax checkout d053054
    python -m venv ued && ued/bin/pip install jax flax chex gymnax
    ued/bin/python tests/envs/grid/make_amaze.py jaxued minimax

Both libraries take the same steps, and every number must be equal before it is recorded, except that the axes of
minimax's image are exchanged. ``minimax`` is imported without the ``__init__`` of its two outermost packages, which
import its learners and their dependencies.
"""

import functools
import pathlib
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np

JAXUED, MINIMAX = map(pathlib.Path, sys.argv[1:3])
for name in ("minimax", "minimax.util"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [str(MINIMAX / "src" / name.replace(".", "/"))]
sys.path.insert(0, str(JAXUED / "src"))
if not hasattr(jax, "tree_map"):
    jax.tree_map = jax.tree.map  # which minimax calls

from jaxued.environments import maze as jaxued  # noqa: E402
from jaxued.environments.maze.level import prefabs  # noqa: E402
from minimax.envs import maze as minimax  # noqa: E402
from minimax.envs.maze.common import EnvInstance  # noqa: E402

STEPS, RANDOM_LEVELS, LIMIT, DRAWS = 250, 92, 250, 20_000
NAMES = [name for name in prefabs if not name.startswith("Trivial")]
ACTIONS = np.array([0.15, 0.15, 0.62, 0.02, 0.02, 0.02, 0.02])
OURS, THEIRS = jaxued.Maze(), minimax.Maze(height=13, width=13, n_walls=60, replace_wall_pos=True)
PARAMS = OURS.default_params.replace(max_steps_in_episode=LIMIT)
KEY = jax.random.PRNGKey(0)
random_level = jaxued.make_level_generator(13, 13, 60)


def starts(level):
    """The states of both libraries in a level."""
    instance = EnvInstance(level.agent_pos, level.agent_dir, level.goal_pos, level.wall_map)
    return OURS.init_state_from_level(level), THEIRS.set_env_instance(instance)[1]


def observed(states):
    first, second = OURS.get_obs(states[0]), THEIRS.get_obs(states[1])
    return (first.image, first.agent_dir), (second["image"].swapaxes(0, 1), second["agent_dir"])


def both(states, action):
    """One step of both, without a restart: the states and what both show."""
    first, second = states
    shown, first, *ends, _ = OURS.step_env(KEY, first, action, PARAMS)
    seen, second, *other, _ = THEIRS.step_env(KEY, second, action)
    rows = (shown.image, shown.agent_dir, *ends), (seen["image"].swapaxes(0, 1), seen["agent_dir"], *other)
    return (first, second), rows


def equal(rows):
    """The rows of jaxued as NumPy arrays, after checking that those of minimax are the same."""
    first, second = jax.device_get(rows)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    return first


@jax.jit
@functools.partial(jax.vmap, in_axes=(0, 1), out_axes=1)
def played(level, actions):
    """Episodes in a level, one after the other, each from its start."""
    begin = starts(level)

    def one(states, action):
        states, rows = both(states, action)
        ended = rows[0][3]
        return jax.tree.map(lambda x, y: jnp.where(ended, x, y), begin, states), rows

    return jax.lax.scan(one, begin, actions)[1]


def clear(levels):
    """Levels whose agents face the goal: it is two cells ahead of them."""
    steps = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])[np.asarray(levels.agent_dir)]
    agent, walls = np.array(levels.agent_pos, int), np.array(levels.wall_map)
    goal = agent + 2 * steps
    inside = np.all((goal >= 0) & (goal < 13), axis=1)
    lanes = np.flatnonzero(inside)
    for by in (1, 2):
        cell = agent[lanes] + by * steps[lanes]
        walls[lanes, cell[:, 1], cell[:, 0]] = False
    goal = np.where(inside[:, None], goal, np.asarray(levels.goal_pos))
    return levels.replace(wall_map=walls, goal_pos=goal.astype(np.uint32))


def poses(level):
    """The level with the agent at every free cell but the goal, in every direction."""
    free = ~np.asarray(level.wall_map)
    free[level.goal_pos[1], level.goal_pos[0]] = False
    y, x = np.nonzero(free)
    agents = np.repeat(np.stack([x, y], axis=1), 4, axis=0).astype(np.uint32)
    count = len(agents)
    return jax.tree.map(lambda x: np.repeat(np.asarray(x)[None], count, axis=0), level).replace(
        agent_pos=agents, agent_dir=np.tile(np.arange(4, dtype=np.uint8), count // 4)
    )


def fields(name, levels):
    return {f"{name}_{k}": np.asarray(getattr(levels, k)).astype(bool if k == "wall_map" else np.uint8)
            for k in ("wall_map", "goal_pos", "agent_pos", "agent_dir")}  # fmt: skip


def named(prefix, rows):
    return dict(zip([f"{prefix}_{k}" for k in ("image", "direction", "reward", "done")], rows, strict=True))


def counts(levels):
    """How often each cell is a wall, the agent and the goal, and how many levels have each number of walls."""
    walls = np.asarray(levels.wall_map)
    pair = [np.bincount(np.asarray(p) @ np.array([1, 13]), minlength=169) for p in (levels.agent_pos, levels.goal_pos)]
    return np.stack([walls.sum(0).reshape(-1), *pair, np.bincount(walls.sum((1, 2)), minlength=169)])


def main():
    rng = np.random.default_rng(0)
    drawn = jax.vmap(random_level)(jax.random.split(KEY, RANDOM_LEVELS))
    shown = jax.tree.map(lambda x, y: np.concatenate([x, y]), drawn, jaxued.Level.load_prefabs(NAMES))
    levels = jax.tree.map(lambda x, y: np.concatenate([x[:40], y[40:]]), clear(shown), shown)
    actions = rng.choice(7, p=ACTIONS, size=(STEPS, RANDOM_LEVELS + len(NAMES)))
    data = {
        "actions": actions.astype(np.uint8),
        **fields("level", levels),
        **named("step", equal(played(levels, actions))),
    }
    first = equal(jax.jit(jax.vmap(lambda level: observed(starts(level))))(levels))
    data |= {"first_image": first[0], "first_direction": first[1]}

    some = [poses(jax.tree.map(lambda x, i=i: x[i], levels)) for i in range(36, 46)]
    states = jax.tree.map(lambda *x: np.concatenate(x), *some)
    action = rng.integers(0, 7, len(states.agent_dir))
    rows = jax.jit(jax.vmap(lambda level, action: both(starts(level), action)[1]))(states, action)
    data |= {**fields("pose", states), "pose_action": action.astype(np.uint8), **named("pose", equal(rows))}

    keys = jax.random.split(jax.random.PRNGKey(1), DRAWS)
    data["draws"] = counts(jax.jit(jax.vmap(random_level))(keys))
    apart = minimax.Maze(height=13, width=13, n_walls=60)
    data["draws_distinct"] = counts(jax.jit(jax.vmap(lambda key: apart.reset_env(key)[1]))(keys))
    mutate = jaxued.make_level_mutator_minimax(1)
    level = jax.tree.map(lambda x: x[5], drawn)
    edited = jax.jit(jax.vmap(mutate, in_axes=(0, None, None)))(keys, level, 1)
    flips = np.sum(np.asarray(edited.wall_map) != np.asarray(level.wall_map), axis=0).reshape(-1)
    data |= {"edits": np.stack([flips, counts(edited)[2]]), **fields("edited", jax.tree.map(lambda x: x[None], level))}
    for name in NAMES:
        single, other = jaxued.Level.from_str(prefabs[name]), getattr(minimax, name)().reset_env(KEY)[1]
        for ours, theirs in [(single.wall_map, other.wall_map), (single.goal_pos, other.goal_pos),
                             (single.agent_pos, other.agent_pos), (single.agent_dir, other.agent_dir_idx)]:  # fmt: skip
            np.testing.assert_array_equal(ours, theirs)
    data |= {"names": np.array(NAMES), "corridor": np.asarray(minimax.SmallCorridor().wall_map)}
    data |= {"large_corridor": np.asarray(minimax.LargeCorridor().wall_map)}
    data |= {"jaxued": np.array("0.0.2"), "minimax": np.array("0.2.0")}
    np.savez_compressed(pathlib.Path(__file__).parent / "amaze.npz", **data)
    done = data["step_done"]
    print(
        f"{done.size} steps, {done.sum()} episodes, {(data['step_reward'] > 0).sum()} at the goal, {len(action)} poses"
    )


if __name__ == "__main__":
    main()
