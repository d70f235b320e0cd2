"""Round particles that accelerate, collide and slow down in the plane: what the particle tasks have in common."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import Canvas, Colour
from jaxenv.core import Task, in_small_kernel

MOVES: tuple[str, ...] = ("stay", "left", "right", "down", "up")


@tree.struct
class World:
    """Physical constants: scalars, or ``[B]`` for one value per lane."""

    dt: float = tree.leaf(default=0.1, unit="s", above=0, doc="duration of a step")
    damping: float = tree.leaf(default=0.25, low=0, high=1, doc="fraction of the velocity that is lost in a step")
    contact_force: float = tree.leaf(default=100.0, low=0, doc="force per unit of penetration")
    contact_margin: float = tree.leaf(default=1e-3, above=0, doc="distance over which a contact sets in")


@tree.struct
class Particles:
    """Agents, then landmarks, which stay where they are. Each number is an array of its own, float32 ``[B]``."""

    x: tuple[jax.Array, ...]
    y: tuple[jax.Array, ...]
    x_speed: tuple[jax.Array, ...]  # of the agents alone
    y_speed: tuple[jax.Array, ...]


class Body(NamedTuple):
    """What an agent can do, each a number or ``[B]``; without ``max_speed`` its speed has no bound."""

    acceleration: Any
    max_speed: Any = None


# Two particles that push each other away: their numbers and the sum of their radii.
Contact: TypeAlias = tuple[int, int, Any]


class ParticleTask(Task):
    """Base class of the tasks."""

    finite_observation = True
    # Only the time limit ends an episode, so on most steps no lane ends, and then all lanes end together.
    reset_strategy = {"cpu": "cond", "default": "select"}
    action_names = MOVES
    play_fps = 10

    def action_spec(self) -> specs.Bounded:
        return specs.Bounded((self.num_agents,), np.int32, 0, len(self.action_names) - 1, "action")


def scattered(stream: random.Stream, num_agents: int, reaches: Sequence[float]) -> Particles:
    """Draws particles at rest, the i-th uniform in ``[-reaches[i], reaches[i])^2``; two words each."""
    places = random.separate_uniforms(stream, 2 * len(reaches), -1.0, 1.0)
    x, y = (tuple(r * u for r, u in zip(reaches, places[i::2], strict=True)) for i in (0, 1))
    at_rest = (jnp.zeros(stream.shape, jnp.float32),) * num_agents
    return Particles(x, y, at_rest, at_rest)


def advance(
    particles: Particles, moves: jax.Array, bodies: Sequence[Body], contacts: Sequence[Contact], world: World
) -> Particles:
    """Moves the agents for one step. ``moves`` are numbers of `MOVES`, int32 ``[B, A]``."""
    columns = tuple(jnp.unstack(moves, axis=1))
    x, y, x_speed, y_speed = in_small_kernel(_advanced, particles, columns, tuple(bodies), tuple(contacts), world)
    agents = len(x)
    return Particles((*x, *particles.x[agents:]), (*y, *particles.y[agents:]), x_speed, y_speed)


def _advanced(
    p: Particles, moves: Sequence[Any], bodies: Sequence[Body], contacts: Sequence[Contact], world: World
) -> tuple[tuple[Any, ...], ...]:
    """Returns positions and velocities of the agents after a step; forces are those before it."""
    agents = range(len(moves))
    x_force: list[Any] = [_sign(moves[i] == 2, moves[i] == 1) * bodies[i].acceleration for i in agents]
    y_force: list[Any] = [_sign(moves[i] == 4, moves[i] == 3) * bodies[i].acceleration for i in agents]
    for first, second, reach in contacts:
        across, up = p.x[first] - p.x[second], p.y[first] - p.y[second]
        distance = _length(across, up)
        # Particles at one point have no direction in which to push each other.
        overlap, margin = reach - distance, world.contact_margin  # positive only, smoothed over the margin
        depth = jnp.maximum(overlap, 0) + margin * jnp.log1p(jnp.exp(-jnp.abs(overlap) / margin))
        push = world.contact_force * depth / distance
        for i, sign in ((first, 1), (second, -1)):
            if i in agents:
                x_force[i] += sign * across * push
                y_force[i] += sign * up * push
    x = tuple(p.x[i] + world.dt * p.x_speed[i] for i in agents)
    y = tuple(p.y[i] + world.dt * p.y_speed[i] for i in agents)
    kept = 1 - world.damping
    x_speed, y_speed = [], []
    for i in agents:
        across, up = kept * p.x_speed[i] + world.dt * x_force[i], kept * p.y_speed[i] + world.dt * y_force[i]
        if (limit := bodies[i].max_speed) is not None:
            speed = _length(across, up)
            factor = jnp.where(speed > limit, limit / speed, 1)
            across, up = factor * across, factor * up
        x_speed.append(across)
        y_speed.append(up)
    return x, y, tuple(x_speed), tuple(y_speed)


def _length(across: Any, up: Any) -> jax.Array:
    """Returns the length of a vector, at least 1e-15, so that a gradient at 0 is 0."""
    return jnp.sqrt(jnp.maximum(across * across + up * up, 1e-30))


def _sign(positive: Any, negative: Any) -> Any:
    return positive.astype(jnp.float32) - negative.astype(jnp.float32)


def distance(particles: Particles, first: int, second: int) -> jax.Array:
    """Returns the distance of two particles, float32 ``[B]``."""
    return _length(particles.x[first] - particles.x[second], particles.y[first] - particles.y[second])


def seen(particles: Particles, agent: int) -> list[jax.Array]:
    """Returns velocity and position of an agent, then the positions of landmarks and other agents relative to it."""
    x, y, agents = particles.x, particles.y, len(particles.x_speed)
    columns = [particles.x_speed[agent], particles.y_speed[agent], x[agent], y[agent]]
    for i in [*range(agents, len(x)), *(i for i in range(agents) if i != agent)]:
        columns += [x[i] - x[agent], y[i] - y[agent]]
    return columns


def stacked(rows: Sequence[Sequence[jax.Array]]) -> jax.Array:
    """Returns the observations of all agents, float32 ``[B, A, n]``, from the columns ``[B]`` of each."""
    columns = [column for row in rows for column in row]
    return jnp.stack(columns, axis=-1).reshape(-1, len(rows), len(rows[0]))


# --- the picture -----------------------------------------------------------------------------------------------------


def draw_particles(canvas: Canvas, particles: Particles, sizes: Sequence[Any], colours: Sequence[Colour]) -> Canvas:
    """Paints landmarks, then agents, each a disc of radius and colour ``i``."""
    canvas = canvas.view((-1.4, 1.4), (-1.4, 1.4))
    for i in reversed(range(len(sizes))):
        canvas = canvas.disc(particles.x[i], particles.y[i], sizes[i], colours[i])
    return canvas
