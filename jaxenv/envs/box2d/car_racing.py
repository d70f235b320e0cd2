"""Drive a car round a race track, seen from above.

Reference: Gymnasium ``CarRacing-v3`` (tests/envs/box2d/test_car_racing.py). The physics follows Box2D 2.3 by Erin
Catto.

Observation   uint8[96, 96, 3] the road ahead of the car, which is always at the same place, and below it bars of the
              speed, of the rates of the wheels, of the steering and of the turning; or with observe_pixels=False
              float32[38]: velocity to the right and ahead (m/s), angular velocity (rad/s), rates of the four wheels
              (rad/s), angles of the front wheels (rad), gas, whether each wheel is on the road (0 or 1), and the middle
              of the road at 12 places, 10.5 m apart, from the one next to the car, to the right and ahead of it (m)
Action        float32[3]: steering (-1 is left, 1 is right), gas and brake (0 to 1); or with continuous=False int32: 0
              nothing, 1 right, 2 left, 3 gas, 4 brake
Reward        1000 / N for each of the N tiles that a wheel touches for the first time, minus 0.1 in every step; -100
              in place of both outside the playfield
Starts        at rest on the first tile of a random track, after one step; a level is the track with its colours
Terminates    all tiles have been visited; or the first one after more than lap_complete_percent of them; or the car is
              more than 333 m from the centre along x or y
Time limit    1000 (registry)

As in the original, the first tile is usually visited in the first step, so that a lap ends with the last tile and not
at the line. A brake above 0.9 blocks the wheels, which then slide.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Range, Task, Transition, clip
from jaxenv.envs.box2d import _car_pixels
from jaxenv.envs.box2d._car_dynamics import DT, Car, drive, origin, parked
from jaxenv.envs.box2d._car_pixels import GROUND, PATCH, PLAYFIELD, ROAD, Colours
from jaxenv.envs.box2d._car_track import MOST, Track, random_track, touching
from jaxenv.envs.box2d._car_track import track_through as track_through

_PLACES, _APART = 12, 3  # of the road in the observation of the state: their number, and tiles between them
_STEERING = np.array([0, -0.6, 0.6, 0, 0], np.float32)  # of the discrete actions, in rad
_GAS = np.array([0, 0, 0, 0.2, 0], np.float32)
_BRAKE = np.array([0, 0, 0, 0, 0.8], np.float32)


@tree.struct
class Params:
    """Scalars, or ``[B]`` for one value per lane."""

    lap_complete_percent: float = tree.leaf(default=0.95, low=0, high=1, doc="a fraction, named as in Gymnasium")


@tree.struct
class CarLevel:
    """A track, the direction of the car on its first tile, and the colours."""

    track: Track  # lines are in the order in which they are driven; ``track_through`` makes one from its middle
    angle: jax.Array  # float32 [B], of the first line across the road, in rad
    colours: Colours  # Gymnasium's unless ``domain_randomize``


@tree.struct
class State:
    """The car, the road and the visited tiles."""

    car: Car
    track: Track
    on_road: jax.Array  # bool[B, 4], which wheels touched the road before the last step
    visited: jax.Array  # bool[B, N], tiles that a wheel has touched
    unpaid: jax.Array  # int32[B], visited tiles of the first step, which the next reward includes
    finished: jax.Array  # bool[B], whether the lap is over
    steps: jax.Array  # int32[B]
    colours: Colours


class CarRacing(Task):
    """A race car on a random track; the module docstring is the specification."""

    reset_strategy = "compact"
    summed_entries = frozenset({"lap_finished"})
    opt_outs = {"sharding_invariant": "loops over the lanes end with the last of them, use shard_map"}
    rounding = 4e-3  # pixels are rounded, and their last levels with them
    play_fps = 50
    params: Params = Params()
    continuous: bool = tree.static(default=True, doc="whether the actions are steering, gas and brake")
    domain_randomize: bool = tree.static(default=False, doc="whether colours of road and grass change by episode")
    observe_pixels: bool = tree.static(default=True, doc="whether the observation is the picture and not the state")

    @property
    def action_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("steering", "gas", "brake") if self.continuous else ("nothing", "right", "left", "gas", "brake")

    Level = CarLevel

    def sample_level(self, stream: random.Stream) -> CarLevel:
        track, angle = random_track(random.fold_in(stream, "track"))
        return CarLevel(track, angle, self._colours(random.fold_in(stream, "colours")))

    def check_level(self, level: CarLevel) -> None:
        """Raises a ``ValueError`` for tracks without tiles or with too many, and for other sides or colours."""
        Range(1, MOST).check(f"{self}", "level.track.length", np.asarray(level.track.length))
        Range(-1, 1).check(f"{self}", "level.track.side", np.asarray(level.track.side), rank=1)
        for name in ("road", "ground", "patch"):
            values = np.asarray(getattr(level.colours, name))
            Range(0, 255).check(f"{self}", f"level.colours.{name}", values, rank=1)

    def initial(self, stream: random.Stream, level: CarLevel) -> State:
        """Returns the state after the first step, which the original takes in ``reset``, without an action."""
        track, lanes = level.track, level.angle.shape
        none, no = jnp.zeros(lanes, jnp.float32), jnp.zeros((*lanes, 4), bool)
        count = jnp.zeros(lanes, jnp.int32)
        state = State(
            car=parked(track.points[:, 0, 0], track.points[:, 1, 0], level.angle),
            track=track,
            on_road=no,
            visited=jnp.zeros((*lanes, MOST), bool),
            unpaid=count,
            finished=no[:, 0],
            steps=count,
            colours=level.colours,
        )
        state, new = self._moved(state, none, none, none)
        return tree.rebuild(state, unpaid=new)

    def _colours(self, stream: random.Stream) -> Colours:
        if not self.domain_randomize:
            batch = (*stream.shape, 3)
            return Colours(*(jnp.broadcast_to(np.array([c], np.float32), batch) for c in (ROAD, GROUND, PATCH)))
        draws = random.uniform(stream, (2, 3), 0.0, 210.0)
        channel = random.integers(random.fold_in(stream, "patch"), (1,), 0, 3)
        ground = draws[:, 1]
        patch = ground + jnp.where(np.arange(3, dtype=np.int32)[None] == channel, np.float32(20), 0)
        return Colours(draws[:, 0], ground, patch)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        state, new = self._moved(state, *self._controls(action))
        tiles = (new + state.unpaid).astype(jnp.float32)
        x, y, _, _ = origin(state.car)
        outside = (jnp.abs(x) > np.float32(PLAYFIELD)) | (jnp.abs(y) > np.float32(PLAYFIELD))
        reward = np.float32(1000) * tiles / state.track.length.astype(jnp.float32) - np.float32(0.1)
        reward = jnp.where(outside, np.float32(-100), reward)
        info = {"lap_finished": state.finished & ~outside}
        return Transition(tree.rebuild(state, unpaid=jnp.zeros_like(new)), reward, state.finished | outside, info)

    def _controls(self, action: jax.Array) -> tuple[jax.Array, ...]:
        """Returns the target steering angle (rad), gas and brake, float32 ``[B]`` each."""
        if not self.continuous:
            return tuple(jnp.asarray(values)[action] for values in (_STEERING, _GAS, _BRAKE))
        steer, gas, brake = (action[:, i] for i in range(3))
        return -clip(steer, -1, 1), clip(gas, 0, 1), clip(brake, 0, 1)

    def _moved(self, state: State, steer: jax.Array, gas: jax.Array, brake: jax.Array) -> tuple[State, jax.Array]:
        """Returns the state after a step, and the number of tiles visited for the first time, int32 ``[B]``."""
        # Tyres use the touches of the step before, and touches are found before the car moves.
        car = drive(state.car, steer, gas, brake, state.on_road)
        poses = tree.detach(state.car.bodies[:, :3, 1:])
        touches = touching(state.track, poses[:, 0], poses[:, 1], poses[:, 2])
        visited = state.visited | touches.any(axis=1)
        count = jnp.sum(visited, axis=1, dtype=jnp.int32)
        new = count - jnp.sum(state.visited, axis=1, dtype=jnp.int32)
        enough = count.astype(jnp.float32) > self.params.lap_complete_percent * state.track.length.astype(jnp.float32)
        lap = visited[:, 0] & ~state.visited[:, 0] & enough
        state = tree.rebuild(
            state,
            car=car,
            on_road=touches.any(axis=2),
            visited=visited,
            finished=state.finished | lap | (count == state.track.length),
            steps=state.steps + np.int32(1),
        )
        return state, new

    def observe(self, state: State) -> jax.Array:
        if self.observe_pixels:
            return self._image(state)
        car, track = state.car, state.track
        x, y, s, c = origin(car)

        def seen(dx: Any, dy: Any) -> Any:
            """Returns vectors ``[B, n]`` to the right and ahead."""
            return c[:, None] * dx + s[:, None] * dy, c[:, None] * dy - s[:, None] * dx

        distance = (track.points[:, 0] - x[:, None]) ** 2 + (track.points[:, 1] - y[:, None]) ** 2
        nearest = jnp.argmin(jnp.where(track.exists, distance, np.float32(np.inf)), axis=1).astype(jnp.int32)
        steps = np.arange(0, _PLACES * _APART, _APART, dtype=np.int32)[None]
        places = (nearest[:, None] + steps) % track.length[:, None]
        ahead_x, ahead_y = (jnp.take_along_axis(track.points[:, i], places, axis=1) for i in (0, 1))
        parts = [
            *seen(car.bodies[:, 3, :1], car.bodies[:, 4, :1]),
            car.bodies[:, 5, :1],
            car.omega,
            car.bodies[:, 2, 1:3] - car.bodies[:, 2, :1],
            car.gas[:, None],
            state.on_road.astype(jnp.float32),
            *seen(ahead_x - x[:, None], ahead_y - y[:, None]),
        ]
        return jnp.concatenate(parts, axis=1)

    def _image(self, state: State, size: tuple[int, int] = (96, 96)) -> jax.Array:
        seconds = state.steps.astype(jnp.float32) * np.float32(DT)
        return _car_pixels.image(state.car, state.track, state.visited, seconds, state.colours, size)

    def observation_spec(self) -> specs.Array:
        if self.observe_pixels:
            return specs.Bounded((96, 96, 3), np.uint8, 0, 255, "observation")
        return specs.Array((14 + 2 * _PLACES,), np.float32, "observation")

    def action_spec(self) -> specs.Bounded:
        if self.continuous:
            low, high = np.array([-1, 0, 0], np.float32), np.ones(3, np.float32)
            return specs.Bounded((3,), np.float32, low, high, "action")
        return specs.discrete(5, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the observed picture in the size of the canvas."""
        return canvas.picture(self._image(state, (min(canvas.size),) * 2))
