"""Walk over uneven ground on two legs with four motors.

Reference: Gymnasium ``BipedalWalker-v3`` (tests/envs/box2d/test_bipedal_walker.py) and ``BipedalWalkerHardcore-v3``
(tests/envs/box2d/test_hardcore.py). The physics follows Box2D 2.3 by Erin Catto (tests/envs/physics2d/test_world.py).

Observation   float32[24]  angle of the hull (rad), its rate, velocity along x and y; for each leg the angle of the hip
              (rad), its rate, the angle of the knee plus 1 (rad), its rate, ground contact of the lower leg (0 or 1);
              and how far 10 rays reach from the hull before they meet the ground, from straight down to almost straight
              ahead. Units: 25 rad/s for the hull, 4 for hips, 6 for knees; 8.33 and 12.5 m/s; 5.33 m for rays
Action        float32[4]   hip and knee of the first leg, hip and knee of the second: the sign is the direction in
              which a motor turns (4 rad/s, knees 6 rad/s), the size its largest torque in units of 80 N m
Reward        increase of the shaping term 4.33 x - 5 |angle of the hull|, minus 0.028 for each unit of torque; -100
              instead if the walker falls or goes back beyond the start of the ground
Starts        standing at x = 4.67 m with both legs together, pushed by a force uniform in [-5, 5] N for one step;
              the ground is flat up to x = 9.33 m, then its slope is a random walk that returns to the level of the
              start, with a flat edge after 5 to 9 others. With ``hardcore`` there is an obstacle instead of the flat
              edge: a stump 0.47 or 0.93 m high, three or four steps of 0.47 m up or down, or a pit 0.93 or 1.4 m wide.
              A level is this ground and the force
Terminates    the hull touches the ground, x < 0, or x > 88.67 m, the far end
Time limit    1600, hardcore 2000 (registry)

As in the original, x is the x of the hull's origin, the first step pulls the legs down by 0.53 m to the hips, and the
end of one contact of a lower leg hides that it still touches another edge or block. The bounds of the observation are
also Gymnasium's: on the row of a fall the angle of the hull may be beyond pi (2 of 512,000 steps).
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import GREEN, GREY, NIGHT, PAPER, PURPLE, RED, SILVER, Canvas, mix
from jaxenv.core import Task, Transition
from jaxenv.envs import physics2d
from jaxenv.envs.box2d import bipedal_level, bipedal_obstacles, bipedal_terrain
from jaxenv.envs.box2d.bipedal_level import WalkerLevel
from jaxenv.envs.box2d.bipedal_terrain import LEVEL, PAD, POINTS, RAYS, SPACING
from jaxenv.envs.physics2d import Body, Packed, RevoluteJoint, Scene, World, corners

FPS = 50
SCALE = 30.0  # pixels per metre of the original's picture
WIDTH, HEIGHT = 600 / SCALE, 400 / SCALE  # of the picture in metres
NEARBY = 6  # edges that a body can touch
END = (POINTS - 10) * SPACING

_HULL = [(-30, 9), (-30, -8), (34, -8), (34, 1), (6, 9)]
_DOWN, _LEG_WIDTH, _LEG = -8 / SCALE, 8 / SCALE, 34 / SCALE
_TORQUE, _HIP_SPEED, _KNEE_SPEED = 80.0, 4.0, 6.0
_COST = 0.00035 * _TORQUE
_SIDES = (-1, 1)  # of the first and the second leg, which start at angles of 0.05 rad
_JOINTS = (2, 3, 1, 0)  # hip and knee of the first leg and of the second, among the joints of the scene
_LOWER = (2, 4)  # the lower legs among the bodies


def _box(width: float, height: float) -> list[tuple[float, float]]:
    x, y = width / 2, height / 2
    return [(-x, -y), (x, -y), (x, y), (-x, y)]


_hip = functools.partial(RevoluteJoint, anchor_a=(0, _DOWN), anchor_b=(0, _LEG / 2), lower=-0.8, upper=1.1)
_knee = functools.partial(RevoluteJoint, anchor_a=(0, -_LEG / 2), anchor_b=(0, _LEG / 2), lower=-1.6, upper=-0.1)
_scene = functools.partial(
    Scene,
    [
        Body([(x / SCALE, y / SCALE) for x, y in _HULL], density=5.0, friction=0.1, solid=False),
        *[Body(_box(_LEG_WIDTH, _LEG), density=1.0), Body(_box(0.8 * _LEG_WIDTH, _LEG), density=1.0)] * 2,
    ],
    [_knee(3, 4), _hip(0, 3, reference_angle=0.05), _hip(0, 1, reference_angle=-0.05), _knee(1, 2)],
    ground_friction=2.5,
    slots=8,
)
SCENE, HARDCORE = _scene(), _scene(blocks=3)
_X, _Y = PAD / 2 * SPACING, LEVEL + 2 * _LEG
_ORIGINS = [(_X, _Y, 0.0), *((_X, _Y - part * _LEG - _DOWN, side * 0.05) for side in _SIDES for part in (0.5, 1.5))]


@tree.struct
class State:
    """The walker, its ground and its last shaping term."""

    world: Packed  # the hull, the first leg from the hip down, the second leg; `world_of` names its parts
    heights: jax.Array  # float32[B, 200], of the ground in m
    shaping: jax.Array  # float32[B], the shaping term of the last state
    blocks: jax.Array | None = None  # float32[B, 4, 38], hardcore: left, lower, right and upper sides in m


class BipedalWalker(Task):
    """A hull on two legs; the module docstring is the specification."""

    reset_strategy = "compact"
    rounding = 1e-3  # 180 iterations have not converged while a leg is on the ground
    opt_outs = {"sharding_invariant": "continuous collision gathers rows of all lanes, use shard_map"}
    action_names = ("hip 1", "knee 1", "hip 2", "knee 2")
    play_fps = 25
    hardcore: bool = tree.static(default=False, doc="whether there are stumps, stairs and pits on the way")

    Level = WalkerLevel

    def sample_level(self, stream: random.Stream) -> WalkerLevel:
        return bipedal_level.sample(stream, self.hardcore)

    def mutate_level(self, level: WalkerLevel, stream: random.Stream) -> WalkerLevel:
        """Edits the ground of every lane once at random, as POET and ACCEL do.

        An edit redraws the bumps of 20 points with a roughness uniform in [0, 3]. With ``hardcore`` it does this, or
        makes one obstacle larger or smaller by one, or places one of uniform kind and size, or removes one, with equal
        probability. An obstacle that would be too close to another one, or have a size beyond the limits of
        `WalkerLevel`, leaves the level unchanged.
        """
        return bipedal_level.mutated(level, stream)

    def check_level(self, level: WalkerLevel) -> None:
        bipedal_level.check(f"{self}", level)

    def initial(self, stream: random.Stream, level: WalkerLevel) -> State:
        heights, blocks = bipedal_level.ground(level)
        return self._started(heights, level.force, blocks)

    def _started(self, heights: jax.Array, force: jax.Array, blocks: Any = None) -> State:
        """Returns the state after the first step, which the original takes in ``reset``, with idle motors."""
        lanes = heights.shape[0]
        world = physics2d.start(SCENE, _ORIGINS, lanes, NEARBY)
        action = jnp.zeros((lanes, 4), jnp.float32)
        none = jnp.zeros((len(SCENE.bodies), lanes), jnp.float32)
        world, _ = _step(world, heights, action, force=(none.at[0].set(force), none, none), compile_fast=True)
        if blocks is not None:  # The first obstacle is out of reach.
            world = physics2d.with_blocks(world, HARDCORE)
        return State(physics2d.pack(world), heights, _shaping(world), blocks)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        world, step = _step(world_of(state), state.heights, action, state.blocks)
        shaping = _shaping(world)
        x, _ = physics2d.origin(SCENE, world)
        lost = step.begun[0] | (x < 0)
        cost = np.float32(_COST) * jnp.sum(jnp.clip(jnp.abs(action), 0, 1), axis=1)
        reward = jnp.where(lost, np.float32(-100), shaping - state.shaping - cost)
        state = State(physics2d.pack(world), state.heights, shaping, state.blocks)
        return Transition(state, reward, lost | (x > np.float32(END)))

    def observe(self, state: State) -> jax.Array:
        world = world_of(state)
        numbers = [world.pose[2][0], np.float32(2 / FPS) * world.velocity[2][0]]
        numbers += [np.float32(0.3 * s / FPS) * v[0] for s, v in zip((WIDTH, HEIGHT), world.velocity, strict=False)]
        for place, j in enumerate(_JOINTS):
            a, b, start = SCENE.joints[j].body_a, SCENE.joints[j].body_b, SCENE.joints[j].reference_angle
            angle = world.pose[2][b] - world.pose[2][a] - np.float32(start)
            rate = world.velocity[2][b] - world.velocity[2][a]
            knee = place % 2 == 1
            numbers += [angle + 1, rate / _KNEE_SPEED] if knee else [angle, rate / _HIP_SPEED]
            if knee:
                numbers.append(world.touched[_LOWER[place // 2]].astype(jnp.float32))
        rays = bipedal_terrain.lidar(state.heights, *physics2d.origin(SCENE, world))
        if state.blocks is not None:
            rays = jnp.minimum(rays, bipedal_obstacles.lidar(state.blocks, *physics2d.origin(SCENE, world)))
        return jnp.concatenate([jnp.stack(numbers, axis=-1), rays], axis=-1)

    def observation_spec(self) -> specs.Bounded:
        leg = [np.pi, 5, np.pi, 5, 5]
        high = np.array([np.pi, 5, 5, 5, *leg, *leg, *[1] * RAYS], np.float32)
        low = np.where(np.isin(np.arange(len(high)), (8, 13)), 0, -high)
        return specs.Bounded(high.shape, np.float32, low, high, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.Bounded((4,), np.float32, -1.0, 1.0, "action")

    # --- the picture -------------------------------------------------------------------------------------------------

    def shapes(self, state: State) -> list[tuple[np.ndarray, list[tuple[Any, ...]]]]:
        """Returns the walker in world units: pairs of a colour and corners, each two arrays ``[B]``."""
        world = world_of(state)
        near, far = mix(PURPLE, NIGHT, 0.2), mix(PURPLE, PAPER, 0.3)
        colours = (PURPLE, far, far, near, near)
        return [(colours[i], corners(SCENE, world, i)) for i in (1, 2, 0, 3, 4)]

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the walker on its ground and the flag at the start; the view moves with the walker."""
        x, _ = physics2d.origin(SCENE, world_of(state))
        left = x - np.float32(WIDTH / 5)
        canvas = canvas.fill(PAPER).view((0, WIDTH), (0, HEIGHT))
        canvas = canvas.below(lambda x: bipedal_terrain.height_at(state.heights, x + left[:, None, None]), GREEN)
        if state.blocks is not None:
            for px, py, width, height in bipedal_obstacles.shown(state.blocks, left):
                canvas = canvas.box(px - left, py, width, height, GREY)
                canvas = canvas.box(px - left, py, width - np.float32(0.14), height - np.float32(0.14), SILVER)
        flag = 3 * SPACING - left
        canvas = canvas.line(flag, LEVEL, flag, LEVEL + 1.7, 0.12, NIGHT)
        canvas = canvas.polygon([(flag, LEVEL + 1.7), (flag, LEVEL + 1.3), (flag + 0.8, LEVEL + 1.5)], RED)
        for colour, points in self.shapes(state):
            canvas = canvas.polygon([(px - left, py) for px, py in points], colour)
        return canvas


def world_of(state: State) -> World:
    """Unpacks poses, velocities, impulses and contacts, with the lanes last."""
    return physics2d.unpack(state.world, SCENE if state.blocks is None else HARDCORE, NEARBY)


def _step(
    world: World, heights: jax.Array, action: jax.Array, blocks: jax.Array | None = None, **kwargs: Any
) -> tuple[World, physics2d.Step]:
    # Loops of unknown length have no derivative in reverse mode.
    world, heights, action, blocks = tree.detach((world, heights, action, blocks))
    speed, torque = _motors(action)
    ground = bipedal_terrain.near(heights, world.pose[0][0])
    scene = SCENE if blocks is None else HARDCORE
    near = None if blocks is None else bipedal_obstacles.near(blocks, world.pose[0][0])
    kwargs |= {"motor_speed": speed, "motor_torque": torque}
    return physics2d.step(scene, world, ground, blocks=near, gravity=-10.0, dt=1 / FPS, **kwargs)


def _motors(action: jax.Array) -> tuple[list[jax.Array], list[jax.Array]]:
    """Returns speeds and largest torques of the joints in the scene's order, for actions ``[B, 4]``."""
    sign, size = jnp.sign(action), jnp.clip(jnp.abs(action), 0, 1)
    order = np.argsort(_JOINTS)
    speeds = [sign[:, i] * np.float32(_KNEE_SPEED if i % 2 else _HIP_SPEED) for i in order]
    return speeds, [np.float32(_TORQUE) * size[:, i] for i in order]


def _shaping(world: World) -> jax.Array:
    return np.float32(130 / SCALE) * physics2d.origin(SCENE, world)[0] - 5 * jnp.abs(world.pose[2][0])
