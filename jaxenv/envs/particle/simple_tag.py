"""Adversaries chase faster prey around obstacles.

Reference: mpe2's ``simple_tag_v3`` (tests/envs/particle/test_mpe2.py), with discrete actions. Agents and
obstacles are discs; agents are pushed away by all discs that they touch. The agents act at the same time.
Paper: Lowe, Wu, Tamar, Harb, Abbeel and Mordatch (2017), "Multi-agent actor-critic for mixed cooperative-competitive
environments", arXiv:1706.02275.

Agents        A = adversaries + prey, the adversaries first
Observation   float32[A, n]   by agent: velocity, position; positions of obstacles and of the other agents, relative to
              it; velocities of the other prey; n = 2 + 2 A + 2 obstacles + 2 prey, and the observation of a prey ends
              with 2 zeros, because it has one other prey less
Action        int32[A]        0 stays, 1 to 4 accelerate left, right, down and up
Reward        float32[A]      adversaries: a team reward, 10 for every adversary and prey that overlap; prey: -10 for
              every adversary that overlaps it, minus the penalties of both coordinates: with c the distance from the
              middle 0 for c < 0.9, 10 (c - 0.9) for c < 1, else exp(2 c - 2), at most 10
Starts        at rest; agents uniform in [-1, 1)^2, obstacles in [-0.9, 0.9)^2
Terminates    never
Time limit    25 (registry)

Discs at the same point exert no force on each other; in mpe2 their positions become NaN.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import GREEN, GREY, RED, Canvas
from jaxenv.core import Transition, in_small_kernel
from jaxenv.envs.particle import _particles as particles
from jaxenv.envs.particle._particles import Body, Particles, ParticleTask


@tree.struct
class Params(particles.World):
    """Lengths in units of the plane, masses 1: scalars, or ``[B]`` for one value per lane."""

    adversary_radius: float = tree.leaf(default=0.075, above=0)
    prey_radius: float = tree.leaf(default=0.05, above=0)
    obstacle_radius: float = tree.leaf(default=0.2, above=0)
    adversary_acceleration: float = tree.leaf(default=3.0, low=0, doc="along one axis")
    prey_acceleration: float = tree.leaf(default=4.0, low=0, doc="along one axis")
    adversary_max_speed: float = tree.leaf(default=1.0, above=0)
    prey_max_speed: float = tree.leaf(default=1.3, above=0)


class SimpleTag(ParticleTask):
    """Predators and prey; the module docstring is the specification."""

    params: Params = Params()
    adversaries: int = tree.static(default=3, low=1, doc="number of adversaries")
    prey: int = tree.static(default=1, low=1, doc="number of prey, which mpe2 calls good agents")
    obstacles: int = tree.static(default=2, low=0, doc="number of obstacles")

    @property
    def agent_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*(f"adversary_{i}" for i in range(self.adversaries)), *(f"agent_{i}" for i in range(self.prey)))

    def initial(self, stream: random.Stream) -> Particles:
        return particles.scattered(stream, self.num_agents, [1.0] * self.num_agents + [0.9] * self.obstacles)

    def transition(self, state: Particles, action: jax.Array, stream: random.Stream) -> Transition:
        p, radii, agents = self.params, self._radii, self.num_agents
        pairs = itertools.combinations(range(agents + self.obstacles), 2)
        contacts = [(i, j, radii[i] + radii[j]) for i, j in pairs if i < agents]
        bodies = [Body(p.adversary_acceleration, p.adversary_max_speed)] * self.adversaries
        bodies += [Body(p.prey_acceleration, p.prey_max_speed)] * self.prey
        state = particles.advance(state, action, bodies, contacts, p)
        rewards = in_small_kernel(_rewards, state, self.adversaries, p.adversary_radius + p.prey_radius)
        return Transition(state, jnp.stack(rewards, axis=-1), terminated=jnp.zeros(action.shape[0], bool))

    @property
    def _radii(self) -> list[Any]:
        p = self.params
        radii = (p.adversary_radius, self.adversaries), (p.prey_radius, self.prey), (p.obstacle_radius, self.obstacles)
        return [radius for radius, number in radii for _ in range(number)]

    def observe(self, state: Particles) -> jax.Array:
        rows, prey = [], range(self.adversaries, self.num_agents)
        for agent in range(self.num_agents):
            speeds = [(state.x_speed[i], state.y_speed[i]) for i in prey if i != agent]
            nothing = (jnp.zeros_like(state.x[0]),) * (2 * (self.prey - len(speeds)))
            rows.append([*particles.seen(state, agent), *itertools.chain(*speeds), *nothing])
        return particles.stacked(rows)

    def observation_spec(self) -> specs.Bounded:
        size = 2 + 2 * self.num_agents + 2 * self.obstacles + 2 * self.prey
        high = np.full((self.num_agents, size), np.inf, np.float32)
        high[self.adversaries :, -2:] = 0  # padding
        return specs.Bounded(high.shape, np.float32, -high, high, "observation")

    def draw(self, state: Particles, canvas: Canvas) -> Canvas:
        colours = [RED] * self.adversaries + [GREEN] * self.prey + [GREY] * self.obstacles
        return particles.draw_particles(canvas, state, self._radii, colours)


def _rewards(state: Particles, adversaries: int, touch: Any) -> list[Any]:
    caught = []
    for prey in range(adversaries, len(state.x_speed)):
        overlaps = [particles.distance(state, i, prey) < touch for i in range(adversaries)]
        caught.append(10 * sum(overlap.astype(jnp.float32) for overlap in overlaps))
    penalties = [_penalty(state.x[i]) + _penalty(state.y[i]) for i in range(adversaries, len(state.x_speed))]
    return [sum(caught)] * adversaries + [-c - penalty for c, penalty in zip(caught, penalties, strict=True)]


def _penalty(coordinate: Any) -> Any:
    """Returns the penalty of a prey at a coordinate, so that it does not run away for ever."""
    away = jnp.abs(coordinate)
    far = jnp.minimum(jnp.exp(2 * away - 2), 10)
    return jnp.where(away < 0.9, 0, jnp.where(away < 1, 10 * (away - 0.9), far))
