"""Recorded steps of Box2D next to ours: worlds made of recorded arrays, one step from each, and the differences.

python -m tests.envs.physics2d.steps FILE     # prints the table for a file of tests.envs.physics2d.record
"""

import dataclasses
import pathlib
import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.envs import physics2d
from jaxenv.envs.box2d import bipedal_walker, lunar_lander
from jaxenv.envs.physics2d._block import window
from jaxenv.envs.physics2d._broad import Contacts
from jaxenv.envs.physics2d._contact import Impulses
from jaxenv.envs.physics2d._revolute import JointImpulses
from tests.envs.physics2d.record import BLOCK

FOLDER = pathlib.Path(__file__).parent
# Compiling takes most of the time.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
FREE, GROUND, IMPACT, TWO_EDGES = 0, 1, 2, 3


@dataclasses.dataclass
class Setting:
    """A task whose steps are recorded: its scene, bodies at rest, and the edges near each body."""

    scene: physics2d.Scene
    origins: list
    nearby: int  # edges
    spacing: float
    flags: list  # bodies whose touch is compared
    motors: Callable  # from the actions of all rows to the motors' speeds and torques


def _of_lander(_):
    return [np.float32(0.3), np.float32(-0.3)], [lunar_lander._LEG_TORQUE] * 2


SETTINGS = {
    "steps.npz": Setting(
        lunar_lander.SCENE,
        lunar_lander._ORIGINS,
        lunar_lander.NEARBY,
        lunar_lander.WIDTH / lunar_lander.EDGES,
        [1, 2],
        _of_lander,
    ),
    "walker_steps.npz": Setting(
        bipedal_walker.SCENE,
        bipedal_walker._ORIGINS,
        bipedal_walker.NEARBY,
        bipedal_walker.SPACING,
        [2, 4],
        bipedal_walker._motors,
    ),
}


SETTINGS["hardcore_steps.npz"] = dataclasses.replace(SETTINGS["walker_steps.npz"], scene=bipedal_walker.HARDCORE)


def load(file="steps.npz"):
    """The recorded arrays, and their setting. A file elsewhere has the name of one here."""
    path = pathlib.Path(file)
    with np.load(FOLDER / path if str(path) == path.name else path) as data:
        return dict(data)


def setting_of(data):
    if "blocks" in data:
        return SETTINGS["hardcore_steps.npz"]
    return SETTINGS["steps.npz" if data["before_bodies"].shape[1] == 3 else "walker_steps.npz"]


def blocks_of(data):
    """The blocks near the walkers, or None."""
    if "blocks" not in data:
        return None
    boxes = physics2d.Box(*(jnp.asarray(x) for x in np.moveaxis(data["blocks"], 0, -1)))
    return physics2d.Blocks(boxes, jnp.asarray(data["first_block"]))


def world_before(data):
    """The recorded states before the step, lanes last."""
    setting = setting_of(data)
    lanes = len(data["kind"])
    world = physics2d.start(setting.scene, setting.origins, lanes, setting.nearby)
    last = {name[7:]: jnp.asarray(np.moveaxis(x, 0, -1)) for name, x in data.items() if name.startswith("before_")}
    bodies, joints = last["bodies"], last["joints"]
    # The recorded contacts of a body come newest first, ours from left to right.
    num = setting.nearby
    first = np.round(np.asarray(bodies[:, 0]) / np.float32(setting.spacing)).astype(np.int32) - num // 2
    edge = first[:, None] + np.arange(num, dtype=np.int32)[None, :, None]
    name = edge
    if "blocks" in data:
        index = np.asarray(window(setting.scene, blocks_of(data), bodies[:, 0])[0])
        edge, name = np.concatenate([index, edge], axis=1), np.concatenate([BLOCK + index, edge], axis=1)
    here = (name[:, :, None] == last["edge"][:, None]) & (name[:, :, None] >= 0)
    place, found = np.argmax(here, axis=2), here.any(axis=2)

    def ordered(x):
        return jnp.where(found, np.take_along_axis(np.asarray(x), place, 1), 0)

    contacts = Contacts(
        edge=jnp.asarray(edge),
        age=jnp.where(found, place, -1).astype(jnp.int32),
        count=ordered(last["count"]),
        keys=tuple(ordered(last["keys"][:, :, i]) for i in range(2)),
        impulses=Impulses(*(tuple(ordered(last[n][:, :, i]) for i in range(2)) for n in ("normal", "tangent"))),
    )
    everywhere = jax.tree.map(jnp.zeros_like, world.fat)
    everywhere = type(everywhere)(
        *(x + s for x, s in zip(jax.tree.leaves(everywhere), (-99, -99, 99, 99), strict=True))
    )
    return tree.rebuild(
        world,
        pose=tuple(bodies[:, i] for i in range(3)),
        velocity=tuple(bodies[:, 3 + i] for i in range(3)),
        joints=JointImpulses(*(joints[:, i] for i in range(4))),
        contacts=contacts,
        touched=last["touched"],
        fat=everywhere,
    )


@dataclasses.dataclass
class Differences:
    """Of N rows: numbers ``[N, bodies, 6]``, flags of touching legs and of impacts, bool ``[N, ...]``."""

    numbers: np.ndarray
    touched: np.ndarray
    hit: np.ndarray
    begun: np.ndarray
    solved: np.ndarray


def compare(data, scene=None, **kwargs):
    """Differences of one step from the recorded states."""
    setting = setting_of(data)
    speeds, torques = setting.motors(jnp.asarray(data.get("action", np.zeros((len(data["kind"]), 4), np.float32))))

    def advance(world, heights, first):
        chain = physics2d.Chain(heights, setting.spacing, first)
        return physics2d.step(
            scene or setting.scene,
            world,
            chain,
            blocks=blocks_of(data),
            gravity=-10.0,
            **{"motor_speed": speeds, "motor_torque": torques, **kwargs},
        )

    first = jnp.asarray(data.get("first", np.zeros(len(data["kind"]), np.int32)))
    world, step = jax.jit(advance, compiler_options=QUICK)(world_before(data), jnp.asarray(data["heights"].T), first)
    ours = np.moveaxis(np.stack([*world.pose, *world.velocity]), (0, 1, 2), (2, 1, 0))
    return Differences(
        numbers=np.abs(ours - data["after_bodies"]),
        touched=(data["after_touched"] == np.asarray(world.touched).T)[:, setting.flags],
        hit=np.asarray(step.hit).T,
        begun=np.asarray(step.begun).T,
        solved=np.asarray(step.solved),
    )


def worst(differences, rows):
    """The largest difference of each row."""
    return differences.numbers[rows].max(axis=(1, 2))


def chosen(data, *kinds):
    """The rows of some kinds."""
    rows = np.isin(data["kind"], kinds)
    return {name: x[rows] for name, x in data.items()}


def crashed(data):
    """Rows in which the hull begins to touch the ground: it is not solid here, and the episode ends."""
    return data["after_touched"][:, 0] & ~data["before_touched"][:, 0]


def main(file="steps.npz"):
    data = load(file)
    d = compare(data)
    for kind, name in ((FREE, "free"), (GROUND, "ground"), (IMPACT, "impact"), (TWO_EDGES, "two edges")):
        rows = data["kind"] == kind
        crash = crashed(data)
        print(f"{name}: {rows.sum()} rows, of which {(rows & crash).sum()} crashes")
        for label, numbers in (("pose and velocity", slice(0, 5)), ("angular velocity", slice(5, 6))):
            worst = d.numbers[rows & ~crash][..., numbers].max(axis=(1, 2))
            quantiles = [f"{q:.0%} {np.quantile(worst, q):.1e}" for q in (0.5, 0.95, 0.99, 1)]
            print(f"  {label}: {', '.join(quantiles)}")
        same = (d.hit[rows].any(1) == data["hit"][rows].any(1)).mean()
        print(
            f"  flags of legs equal {d.touched[rows].mean():.4f}, impacts {same:.4f}, "
            f"crashes {(d.begun[rows, 0] == crash[rows]).mean():.4f}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
