"""Recorded steps of Box2D next to ours: worlds made of recorded arrays, one step from each, and the differences.

python -m tests.physics2d.steps FILE     # prints the table for a file of tests.physics2d.record
"""

import dataclasses
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import physics2d, tree
from jaxenv.envs.box2d import lunar_lander
from jaxenv.physics2d._broad import Contacts
from jaxenv.physics2d._contact import Impulses
from jaxenv.physics2d._revolute import JointImpulses

FILE = pathlib.Path(__file__).parent / "steps.npz"
# Compiling takes most of the time.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
FREE, GROUND, IMPACT, TWO_EDGES = 0, 1, 2, 3


def load(file=FILE):
    with np.load(file) as data:
        return dict(data)


def world_before(data):
    """The recorded states before the step, lanes last."""
    lanes = len(data["kind"])
    world = physics2d.start(lunar_lander.SCENE, lunar_lander._ORIGINS, lanes, lunar_lander.NEARBY)
    last = {name[7:]: jnp.asarray(np.moveaxis(x, 0, -1)) for name, x in data.items() if name.startswith("before_")}
    bodies, joints = last["bodies"], last["joints"]
    edge = last["edge"]
    contacts = Contacts(
        edge=edge,
        age=jnp.where(edge >= 0, jnp.arange(edge.shape[1], dtype=jnp.int32)[None, :, None], -1),
        count=last["count"],
        keys=(last["keys"][:, :, 0], last["keys"][:, :, 1]),
        impulses=Impulses(*((last[n][:, :, 0], last[n][:, :, 1]) for n in ("normal", "tangent"))),
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
    """Of N rows: numbers ``[N, 3 bodies, 6]``, flags of touching legs and of impacts, bool ``[N, ...]``."""

    numbers: np.ndarray
    touched: np.ndarray
    hit: np.ndarray
    begun: np.ndarray
    solved: np.ndarray


def compare(data, scene=lunar_lander.SCENE, **kwargs):
    """Differences of one step from the recorded states."""

    def advance(world, heights):
        chain = physics2d.Chain(heights, lunar_lander.WIDTH / lunar_lander.EDGES)
        speeds = [np.float32(0.3), np.float32(-0.3)]
        torques = [lunar_lander._LEG_TORQUE] * 2
        return physics2d.step(scene, world, chain, gravity=-10.0, motor_speed=speeds, motor_torque=torques, **kwargs)

    world, step = jax.jit(advance, compiler_options=QUICK)(world_before(data), jnp.asarray(data["heights"].T))
    ours = np.moveaxis(np.stack([*world.pose, *world.velocity]), (0, 1, 2), (2, 1, 0))
    return Differences(
        numbers=np.abs(ours - data["after_bodies"]),
        touched=np.asarray(world.touched).T[:, 1:] == data["after_touched"][:, 1:],
        hit=np.asarray(step.hit).T,
        begun=np.asarray(step.begun).T,
        solved=np.asarray(step.solved),
    )


def chosen(data, *kinds):
    """The rows of some kinds."""
    rows = np.isin(data["kind"], kinds)
    return {name: x[rows] for name, x in data.items()}


def crashed(data):
    """Rows in which the hull begins to touch the ground: it is not solid here, and the episode ends."""
    return data["after_touched"][:, 0] & ~data["before_touched"][:, 0]


def main(file=FILE):
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
