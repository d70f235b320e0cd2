"""Pictures by gymnax's own visualizer, which draws with Matplotlib on the host, one lane at a time."""

import importlib
import types
from typing import Any

import jax
import numpy as np

from jaxenv._util.library import import_library
from jaxenv.tree import Tree

_CLASSIC = ("Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")
_GAMES = ("Asterix-MinAtar", "Breakout-MinAtar", "Freeway-MinAtar", "Seaquest-MinAtar", "SpaceInvaders-MinAtar")
# Id -> the function of gymnax.visualize that draws it. PointRobot's draws on pyplot's current figure.
_DRAWINGS = {
    **dict.fromkeys(_CLASSIC, "vis_gym.init_gym"),
    **dict.fromkeys((*_GAMES, "Pong-misc"), "vis_minatar.init_minatar"),
    **dict.fromkeys(("FourRooms-misc", "MetaMaze-misc"), "vis_maze.init_maze"),
    "Catch-bsuite": "vis_catch.init_catch",
}
# The attributes of gymnax's environment that the drawings read.
_READ = ("name", "rows", "columns", "obs_shape", "occupied_map")
_DPI = 100


def picture(owner: str, env: Any, env_state: Tree, observation: Tree, params: Tree, size: tuple[int, int]) -> jax.Array:
    """Renders all lanes, uint8 ``[B, H, W, 3]``, by a callback to the host."""
    if env.name not in _DRAWINGS:
        native = "the native environments, whose ids have no prefix, all have one"
        raise ValueError(f"render: {owner} has no picture: gymnax draws {', '.join(sorted(_DRAWINGS))}; {native}")
    if env.name in _CLASSIC:
        import_library("pygame", "pip install 'gymnasium[classic-control]'")
    module, function = _DRAWINGS[env.name].split(".")
    draw = getattr(importlib.import_module(f"gymnax.visualize.{module}"), function)
    read = {name: getattr(env, name) for name in _READ if hasattr(env, name)}
    read = {name: np.asarray(value) if isinstance(value, jax.Array) else value for name, value in read.items()}

    def on_host(*lanes: Tree) -> np.ndarray:
        lanes = jax.tree.map(np.asarray, lanes)
        count = len(jax.tree.leaves(lanes)[0])
        return np.stack([one(*jax.tree.map(lambda x, i=i: x[i], lanes)) for i in range(count)])

    def one(env_state: Tree, observation: Tree, params: Tree) -> np.ndarray:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        # JAX must not run in a callback, so the observation is given instead of computed.
        stand_in = types.SimpleNamespace(**read, observe=lambda *_: observation)
        figure = Figure(figsize=(size[1] / _DPI, size[0] / _DPI), dpi=_DPI)
        canvas = FigureCanvasAgg(figure)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        draw(axes, stand_in, env_state, params)
        for spine in axes.spines.values():
            spine.set_visible(False)
        canvas.draw()
        return np.array(canvas.buffer_rgba())[..., :3]

    lanes = jax.tree.leaves(env_state)[0].shape[0]
    shape = jax.ShapeDtypeStruct((lanes, *size, 3), np.uint8)
    return jax.pure_callback(on_host, shape, env_state, observation, params, vmap_method="sequential")
