"""Land a spacecraft between two flags with one main engine and two side engines.

Reference: Gymnasium ``LunarLander-v3`` and ``LunarLanderContinuous-v3`` (tests/envs/box2d/test_lunar_lander.py). The
physics follows Box2D 2.3 by Erin Catto (tests/envs/physics2d/test_world.py).

Observation   float32[8]   x and y relative to the pad, velocity along x and y, angle (rad), angular velocity, contact
              of the first and of the second leg (0 or 1); lengths relative to half the width and height of the picture,
              angular velocity in units of 2.5 rad/s
Action        int32        0 nothing, 1 left engine, 2 main engine, 3 right engine; or with continuous=True float32[2]:
              main throttle (off up to 0, then from 50% to 100%) and side throttle (left below -0.5, right above 0.5)
Reward        increase of the shaping term -100 distance - 100 speed - 100 |angle| + 10 per leg on the ground, minus 0.3
              for the main and 0.03 for a side engine at full throttle; -100 for a crash, +100 for a landing instead
Starts        at the top in the middle, pushed by a force uniform in [-start_force, start_force] along x and y for one
              step; heights of 12 points uniform in [0, 6.67) m, the five in the middle replaced by the pad,
              smoothed over three points; wind_index and torque_index uniform in [-9999, 9999). A level holds these
Terminates    the hull touches the ground, |x| >= 1, or the craft falls asleep: it has not moved for half a second
Time limit    1000 (registry)

With ``enable_wind`` a force of up to wind_power N along x and a torque of up to turbulence_power N m act on the hull
while no leg touches the ground: each is tanh(sin(0.02 i) + sin(0.01 pi i)) of its maximum, where i counts the steps
from its random start. As in the original, the flame's dispersion turns the craft, and the side engines push at a point
that depends on its orientation. Particles of the flames are not simulated; they never affect the craft.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxenv import random, specs, tree
from jaxenv.canvas import GOLD, NIGHT, PURPLE, SILVER, WHITE, Canvas, mix
from jaxenv.core import Range, Task, Transition, clip, sin_cos
from jaxenv.envs import physics2d
from jaxenv.envs.physics2d import Body, Chain, Packed, RevoluteJoint, Scene, World, corners

FPS = 50
SCALE = 30.0  # pixels per metre of the original's picture
WIDTH, HEIGHT = 600 / SCALE, 400 / SCALE  # metres
PAD = HEIGHT / 4
EDGES = 10  # of the ground
NEARBY = 2  # edges that a body can touch

_HULL = [(x / SCALE, y / SCALE) for x, y in ((17, -10), (17, 0), (14, 17), (-14, 17), (-17, 0), (-17, -10))]
_LEG = [(x / SCALE, y / SCALE) for x, y in ((-2, -8), (2, -8), (2, 8), (-2, 8))]
_LEG_AWAY, _LEG_DOWN, _LEG_TORQUE = 20 / SCALE, 18 / SCALE, 40.0
_MAIN_BELOW, _SIDE_AWAY, _SIDE_HEIGHT, _SIDE_LEVER = 4 / SCALE, 12 / SCALE, 14 / SCALE, 17 / SCALE
_SIDES = (-1, 1)  # of the first and the second leg, which is on the left


def _hinge(leg: int) -> RevoluteJoint:
    side = _SIDES[leg]
    lower, upper = (0.9 - 0.5, 0.9) if side < 0 else (-0.9, -0.9 + 0.5)
    return RevoluteJoint(0, 1 + leg, (0, 0), (side * _LEG_AWAY, _LEG_DOWN), lower, upper, side * 0.05)


SCENE = Scene(
    [Body(_HULL, density=5.0, friction=0.1, solid=False), *[Body(_LEG, density=1.0)] * 2],
    [_hinge(1), _hinge(0)],
    ground_friction=0.1,
)
_ORIGINS = [(WIDTH / 2, HEIGHT, 0.0), *((WIDTH / 2 - side * _LEG_AWAY, HEIGHT, side * 0.05) for side in _SIDES)]


@tree.struct
class Params:
    """Forces and powers: scalars, or ``[B]`` for one value per lane."""

    gravity: float = tree.leaf(default=-10.0, unit="m/s^2", above=-12, below=0)
    main_engine_power: float = tree.leaf(default=13.0, low=0, doc="impulse of a step per metre from the centre, N s/m")
    side_engine_power: float = tree.leaf(default=0.6, low=0)
    start_force: float = tree.leaf(default=1000.0, unit="N", low=0)
    wind_power: float = tree.leaf(default=15.0, unit="N", low=0)
    turbulence_power: float = tree.leaf(default=1.5, unit="N m", low=0)


@tree.struct
class LanderLevel:
    """The ground, the push at the start and the indices of the weather.

    Attributes:
        heights: float32 ``[B, 11]``, of the ground in m, in [0, 6.67]; it is straight between its points, 2 m apart.
            The pad is at 3.3 m, between points 4 and 6, and episodes are judged by the distance from it.
        force: float32 ``[B, 2]``, the push along x and y in units of ``start_force``, in [-1, 1].
        weather: int32 ``[B, 2]``, the first index of the wind and of the torque.
    """

    heights: Array
    force: Array
    weather: Array


@tree.struct
class State:
    """The craft, the ground, the last shaping term and the indices of wind and torque."""

    world: Packed  # the hull, the leg on the right and the leg on the left; `world_of` names its parts
    heights: Array  # float32[B, 11], of the ground in m
    shaping: Array  # float32[B], the shaping term of the last observation
    wind_index: Array  # int32[B]
    torque_index: Array  # int32[B]


class LunarLander(Task):
    """A craft over the moon; the module docstring is the specification."""

    reset_strategy = "compact"
    rounding = 1e-3  # 180 iterations have not converged while a leg is on the ground
    opt_outs = {"sharding_invariant": "continuous collision gathers rows of all lanes, use shard_map"}
    params: Params = Params()
    continuous: bool = tree.static(default=False, doc="whether the actions are throttles")
    enable_wind: bool = tree.static(default=False, doc="whether wind and turbulence act on the craft")

    @property
    def action_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("main", "side") if self.continuous else ("nothing", "left engine", "main engine", "right engine")

    play_fps = 25

    Level = LanderLevel

    def sample_level(self, stream: random.Stream) -> LanderLevel:
        heights = random.uniform(random.fold_in(stream, "ground"), (EDGES + 2,), 0.0, HEIGHT / 2)
        force = random.uniform(random.fold_in(stream, "force"), (2,), -1.0, 1.0)
        indices = random.integers(random.fold_in(stream, "wind"), (2,), -9999, 9999)
        return LanderLevel(smoothed(heights), force, indices)

    def mutate_level(self, level: LanderLevel, stream: random.Stream) -> LanderLevel:
        """Moves one of the eight points outside the pad by up to 2 m, or redraws the push at the start, at random."""
        points = jnp.asarray(np.array([0, 1, 2, 3, 7, 8, 9, 10], np.int32))
        point = points[random.integers(random.fold_in(stream, "point"), (), 0, len(points))]
        pushes = random.bernoulli(random.fold_in(stream, "edit"))[:, None]
        change = random.uniform(random.fold_in(stream, "change"), (1,), -2.0, 2.0)
        here = (point[:, None] == np.arange(EDGES + 1, dtype=np.int32)[None]) & ~pushes
        heights = jnp.where(here, clip(level.heights + change, 0, HEIGHT / 2), level.heights)
        force = random.uniform(random.fold_in(stream, "force"), (2,), -1.0, 1.0)
        return tree.rebuild(level, heights=heights, force=jnp.where(pushes, force, level.force))

    def check_level(self, level: LanderLevel) -> None:
        """Raises a ``ValueError`` for heights or forces out of range."""
        for name, values, low, high in (("heights", level.heights, 0, HEIGHT / 2), ("force", level.force, -1, 1)):
            Range(low, high).check(f"{self}", f"level.{name}", np.asarray(values), rank=1)

    def initial(self, stream: random.Stream, level: LanderLevel) -> State:
        """Returns the state after the first step, which the original takes in ``reset``, with idle engines."""
        heights, force, indices = level.heights, level.force, level.weather
        lanes = heights.shape[0]
        strength = jnp.broadcast_to(jnp.asarray(self.params.start_force, jnp.float32), (lanes,))
        world = physics2d.start(SCENE, _ORIGINS, lanes, NEARBY)
        wind, torque, wind_index, torque_index = self._weather(indices[:, 0], indices[:, 1], jnp.ones(lanes, bool))
        push = _on_hull(strength * force[:, 0] + wind, strength * force[:, 1], torque)
        # Bodies start far above the ground.
        world, _ = self._step(world, heights, push, collide_with_ground=False)
        state = State(physics2d.pack(world), heights, jnp.zeros(lanes, jnp.float32), wind_index, torque_index)
        return tree.rebuild(state, shaping=_shaping(_observed(state)))

    def transition(self, state: State, action: Array, stream: random.Stream) -> Transition:
        noise = random.uniform(stream, (2,), -1.0, 1.0)
        return self._advanced(state, action, noise)

    def _advanced(self, state: State, action: Array, noise: Array) -> Transition:
        """Returns the transition, given ``noise [B, 2]`` in [-1, 1), which disperses the flames."""
        main, side, direction = self._throttles(action)
        world = world_of(state)
        flying = ~(world.touched[1] | world.touched[2])
        wind, torque, wind_index, torque_index = self._weather(state.wind_index, state.torque_index, flying)
        world = _fire_engines(world, main, side, direction, noise, self.params)
        world, step = self._step(world, state.heights, _on_hull(wind, jnp.zeros_like(wind), torque))
        state = State(physics2d.pack(world), state.heights, state.shaping, wind_index, torque_index)
        observation = _observed(state)
        shaping = _shaping(observation)
        lost = step.begun[0] | (jnp.abs(observation[0]) >= 1)
        reward = shaping - state.shaping - np.float32(0.3) * main - np.float32(0.03) * side
        reward = jnp.where(step.asleep, np.float32(100), jnp.where(lost, np.float32(-100), reward))
        return Transition(tree.rebuild(state, shaping=shaping), reward, lost | step.asleep)

    def _step(
        self, world: World, heights: Array, push: tuple[Array, ...], **kwargs: Any
    ) -> tuple[World, physics2d.Step]:
        # Loops of unknown length have no derivative in reverse mode.
        gravity, world, heights, push = tree.detach((self.params.gravity, world, heights, push))
        return physics2d.step(
            SCENE,
            world,
            Chain(heights.T, WIDTH / EDGES),
            gravity=gravity,
            motor_speed=[np.float32(0.3 * _SIDES[joint.body_b - 1]) for joint in SCENE.joints],
            motor_torque=[_LEG_TORQUE] * 2,
            force=push,
            dt=1 / FPS,
            **kwargs,
        )

    def _throttles(self, action: Array) -> tuple[Array, Array, Array]:
        """Returns the power of main and side engine in [0, 1] and the side engine's direction, float32 ``[B]``."""
        if not self.continuous:
            main = (action == 2).astype(jnp.float32)
            side = ((action == 1) | (action == 3)).astype(jnp.float32)
            return main, side, (action - 2).astype(jnp.float32)
        action = clip(action, -1, 1)
        main = jnp.where(action[:, 0] > 0, np.float32(0.5) * (action[:, 0] + 1), 0)
        size = jnp.abs(action[:, 1])
        return main, jnp.where(size > np.float32(0.5), size, 0), jnp.sign(action[:, 1])

    def _weather(self, wind_index: Array, torque_index: Array, flying: Array) -> tuple[Array, Array, Array, Array]:
        """Returns wind and torque on the hull, float32 ``[B]``, and the next indices."""
        if not self.enable_wind:
            calm = jnp.zeros(flying.shape, jnp.float32)
            return calm, calm, wind_index, torque_index
        wind = jnp.where(flying, _gust(wind_index) * self.params.wind_power, 0)
        torque = jnp.where(flying, _gust(torque_index) * self.params.turbulence_power, 0)
        one = flying.astype(jnp.int32)
        return wind, torque, wind_index + one, torque_index + one

    def observe(self, state: State) -> Array:
        return jnp.stack(_observed(state), axis=-1)

    def observation_spec(self) -> specs.Bounded:
        high = np.array([2.5, 2.5, 10, 10, 2 * math.pi, 10, 1, 1], np.float32)
        low = np.concatenate([-high[:6], np.zeros(2, np.float32)])
        return specs.Bounded((8,), np.float32, low, high, "observation")

    def action_spec(self) -> specs.Bounded:
        if self.continuous:
            return specs.Bounded((2,), np.float32, -1.0, 1.0, "action")
        return specs.discrete(4, name="action")

    # --- the picture -------------------------------------------------------------------------------------------------

    def shapes(self, state: State) -> list[tuple[np.ndarray, list[tuple[Any, ...]]]]:
        """Returns the craft in world units: pairs of a colour and corners, each two arrays ``[B]``."""
        world = world_of(state)
        colours = (PURPLE, _LEG_COLOUR, _LEG_COLOUR)
        return [(c, corners(SCENE, world, i)) for i, c in reversed(list(enumerate(colours)))]

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the moon, the pad between its flags, and the craft."""
        canvas = canvas.fill(NIGHT).view((0, WIDTH), (0, HEIGHT))
        canvas = canvas.below(lambda x: _height(state.heights, x), SILVER)
        for x in (WIDTH / 2 - WIDTH / EDGES, WIDTH / 2 + WIDTH / EDGES):
            canvas = canvas.line(x, PAD, x, PAD + 1.6, 0.12, WHITE)
            canvas = canvas.polygon([(x, PAD + 1.6), (x, PAD + 1.0), (x + 0.9, PAD + 1.3)], GOLD)
        for colour, points in self.shapes(state):
            canvas = canvas.polygon(points, colour)
        return canvas


def world_of(state: State) -> World:
    """Unpacks poses, velocities, impulses and contacts, with the lanes last."""
    return physics2d.unpack(state.world, SCENE, NEARBY)


def smoothed(heights: Array) -> Array:
    """Smooths 12 random heights to the ground, float32 ``[B, 11]``: a flat pad in the middle, else means of three.

    As in the original, the neighbour on the left of the first point is the last of the 12.
    """
    middle = EDGES // 2
    is_pad = np.abs(np.arange(EDGES + 2) - middle) <= 2
    heights = jnp.where(is_pad[None], np.float32(PAD), heights)
    left, right = (jnp.roll(heights, by, axis=1) for by in (1, -1))
    return (np.float32(0.33) * (left + heights + right))[:, : EDGES + 1]


def _on_hull(x: Array, y: Array, torque: Array) -> tuple[Array, ...]:
    """Returns forces and torques on all bodies, float32 ``[3, B]`` each, that act on the hull only."""
    zero = jnp.zeros_like(x)
    return tuple(jnp.stack([value, zero, zero]) for value in (x, y, torque))


def _gust(index: Array) -> Array:
    """Returns tanh(sin(2 k i) + sin(pi k i)) for k = 0.01, which never repeats."""
    turn = (index % 200).astype(jnp.float32)  # the second sine has a period of 200 steps
    slow = index.astype(jnp.float32) * np.float32(0.02)
    return jnp.tanh(sin_cos(slow)[0] + sin_cos(turn * np.float32(math.pi * 0.01))[0])


def _fire_engines(world: World, main: Array, side: Array, direction: Array, noise: Array, params: Params) -> World:
    """Returns the world after the engines' impulses on the hull."""
    first, second = noise[:, 0] / np.float32(SCALE), noise[:, 1] / np.float32(SCALE)
    s, c = sin_cos(world.pose[2][0])
    # Along the craft and across it; the original's signs make both mirror images.
    along, across = np.float32(_MAIN_BELOW) + 2 * first, 3 * second + direction * np.float32(_SIDE_AWAY)
    main_x, main_y = s * along - c * second, -c * along - s * second
    side_x, side_y = s * first - c * across, -c * first - s * across
    x, y = physics2d.origin(SCENE, world)
    side_at = x + side_x - s * np.float32(_SIDE_LEVER), y + side_y + c * np.float32(_SIDE_HEIGHT)
    engines = (
        (main_x, main_y, main * params.main_engine_power, x + main_x, y + main_y),
        (side_x, side_y, side * params.side_engine_power, *side_at),
    )
    mass, inertia = SCENE.inverse_mass[0], SCENE.inverse_inertia[0]
    vx, vy, w = (v[0] for v in world.velocity)
    for off_x, off_y, power, at_x, at_y in engines:
        push_x, push_y = -off_x * power, -off_y * power
        arm_x, arm_y = at_x - world.pose[0][0], at_y - world.pose[1][0]
        vx, vy, w = vx + mass * push_x, vy + mass * push_y, w + inertia * (arm_x * push_y - arm_y * push_x)
    velocity = tuple(v.at[0].set(new) for v, new in zip(world.velocity, (vx, vy, w), strict=True))
    return tree.rebuild(world, velocity=velocity)


def _observed(state: State) -> tuple[Array, ...]:
    """Returns the eight numbers of the observation, float32 ``[B]`` each."""
    world = world_of(state)
    x, y = physics2d.origin(SCENE, world)
    vx, vy, w = (v[0] for v in world.velocity)
    half_width, half_height = np.float32(WIDTH / 2), np.float32(HEIGHT / 2)
    return (
        (x - half_width) / half_width,
        (y - np.float32(PAD + _LEG_DOWN)) / half_height,
        vx * (half_width / FPS),
        vy * (half_height / FPS),
        world.pose[2][0],
        w * np.float32(20 / FPS),
        world.touched[1].astype(jnp.float32),
        world.touched[2].astype(jnp.float32),
    )


def _shaping(observation: tuple[Array, ...]) -> Any:
    x, y, vx, vy, angle, _, first, second = observation
    distance, speed = jnp.sqrt(x * x + y * y), jnp.sqrt(vx * vx + vy * vy)
    return -100 * distance - 100 * speed - 100 * jnp.abs(angle) + 10 * first + 10 * second


# --- the picture -----------------------------------------------------------------------------------------------------

_LEG_COLOUR = mix(PURPLE, NIGHT, 0.25)  # colour of the legs


def _height(heights: Array, x: Array) -> Array:
    """Returns the height of the ground ``[B, 1, W]`` at ``x [1, 1, W]``."""
    place = x * np.float32(EDGES / WIDTH)
    parts = [heights[:, i, None, None] * jnp.maximum(1 - jnp.abs(place - i), 0) for i in range(EDGES + 1)]
    return sum(parts[1:], parts[0])
