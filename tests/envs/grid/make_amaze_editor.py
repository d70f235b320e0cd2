"""Records episodes of jaxued's ``MazeEditor`` in ``amaze_editor.npz``, which the tests compare with.

git clone https://github.com/DramaCow/jaxued && git -C jaxued checkout 0f8f128
python -m venv ued && ued/bin/pip install jax flax chex gymnax
ued/bin/python tests/envs/grid/make_amaze_editor.py jaxued
"""

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np


def main(jaxued):
    sys.path.insert(0, str(jaxued / "src"))
    if not hasattr(jax, "tree_map"):
        jax.tree_map = jax.tree.map  # which jaxued calls

    from jaxued.environments import maze
    from jaxued.environments.maze.env_editor import MazeEditor

    lanes, steps, size = 24, 50, 13
    rng = np.random.default_rng(0)
    actions = rng.integers(0, size**2, (steps, lanes))
    actions[2] += actions[2] == actions[0]  # on the goal jaxued places the agent at random
    actions[2] %= size**2
    # Some steps go back to the cell of the goal, of the agent, and of an earlier wall.
    actions[10], actions[20], actions[30] = actions[0], actions[2], actions[5]

    editor = MazeEditor(maze.Maze(max_height=size, max_width=size))
    params, key = editor.default_params, jax.random.PRNGKey(0)

    @jax.jit
    @jax.vmap
    def played(actions):
        empty = maze.Level(
            wall_map=jnp.zeros((size, size), bool),
            goal_pos=jnp.array([0, 0], jnp.uint32),
            agent_pos=jnp.array([1, 1], jnp.uint32),
            agent_dir=jnp.array(0, jnp.uint8),
            width=size,
            height=size,
        )
        shown, state = editor.reset_env_to_level(key, empty, params)

        def one(state, action):
            shown, state, *_ = editor.step_env(key, state, action, params)
            return state, shown.image

        state, images = jax.lax.scan(one, state, actions)
        return jnp.concatenate([shown.image[None], images]), state.level

    images, level = jax.device_get(played(jnp.asarray(actions.T)))
    np.savez_compressed(
        pathlib.Path(__file__).parent / "amaze_editor.npz",
        jaxued="0.0.2",
        actions=actions.astype(np.uint8),
        images=images.swapaxes(0, 1),
        wall_map=level.wall_map,
        goal_pos=level.goal_pos.astype(np.uint8),
        agent_pos=level.agent_pos.astype(np.uint8),
        agent_dir=level.agent_dir,
    )


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
