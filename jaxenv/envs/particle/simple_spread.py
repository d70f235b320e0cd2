"""Agents spread over landmarks without bumping into each other.

Reference: mpe2's ``simple_spread_v3`` (tests/envs/particle/test_mpe2.py), with discrete actions. The agents are discs
that push each other away; landmarks are points. The agents act at the same time. Paper: Lowe, Wu, Tamar, Harb, Abbeel
and Mordatch (2017), "Multi-agent actor-critic for mixed cooperative-competitive environments", arXiv:1706.02275.

Observation   float32[A, 6 A]   by agent: velocity, position; positions of landmarks and of the other agents, relative
              to it; 2 (A - 1) zeros, words that agents of this task never say
Action        int32[A]          0 stays, 1 to 4 accelerate left, right, down and up
Reward        float32[A]        1 - local_ratio times a team reward, minus the distances of the landmarks to the closest
              agent; plus local_ratio times an agent's own: -1 for every agent that it overlaps
Starts        at rest; agents and landmarks uniform in [-1, 1)^2
Terminates    never
Time limit    25 (registry)

Agents at the same point exert no force on each other; in mpe2 their positions become NaN.
"""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, INK, Canvas
from jaxenv.core import Transition, in_small_kernel
from jaxenv.envs.particle import _particles as particles
from jaxenv.envs.particle._particles import Body, Particles, ParticleTask


@tree.struct
class Params(particles.World):
    """Lengths in units of the plane, masses 1: scalars, or ``[B]`` for one value per lane."""

    agent_radius: float = tree.leaf(default=0.15, above=0)
    acceleration: float = tree.leaf(default=5.0, low=0, doc="of an agent along one axis")
    local_ratio: float = tree.leaf(default=0.5, low=0, high=1, doc="weight of an agent's own reward")


class SimpleSpread(ParticleTask):
    """Agents that cover landmarks; the module docstring is the specification."""

    params: Params = Params()
    agents: int = tree.static(default=3, low=2, doc="number of agents and of landmarks")

    @property
    def agent_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"agent_{i}" for i in range(self.agents))

    def initial(self, stream: random.Stream) -> Particles:
        return particles.scattered(stream, self.agents, [1.0] * 2 * self.agents)

    def transition(self, state: Particles, action: jax.Array, stream: random.Stream) -> Transition:
        p, agents = self.params, range(self.agents)
        contacts = [(i, j, 2 * p.agent_radius) for i in agents for j in agents if i < j]
        state = particles.advance(state, action, [Body(p.acceleration)] * self.agents, contacts, p)
        rewards = in_small_kernel(_rewards, state, 2 * p.agent_radius, p.local_ratio)
        return Transition(state, jnp.stack(rewards, axis=-1), terminated=jnp.zeros(action.shape[0], bool))

    def observe(self, state: Particles) -> jax.Array:
        nothing = (jnp.zeros_like(state.x[0]),) * (2 * self.agents - 2)
        return particles.stacked([[*particles.seen(state, i), *nothing] for i in range(self.agents)])

    def observation_spec(self) -> specs.Bounded:
        high = np.full((self.agents, 6 * self.agents), np.inf, np.float32)
        high[:, 4 * self.agents + 2 :] = 0  # words
        return specs.Bounded(high.shape, np.float32, -high, high, "observation")

    def draw(self, state: Particles, canvas: Canvas) -> Canvas:
        n = self.agents
        sizes, colours = [self.params.agent_radius] * n + [0.05] * n, [BLUE] * n + [INK] * n
        return particles.draw_particles(canvas, state, sizes, colours)


def _rewards(state: Particles, touch: Any, local_ratio: Any) -> list[Any]:
    agents = range(len(state.x_speed))
    landmarks = range(len(agents), len(state.x))
    distances = ([particles.distance(state, i, landmark) for i in agents] for landmark in landmarks)
    of_team = -sum(functools.reduce(jnp.minimum, of_agents) for of_agents in distances)
    bumps: list[Any] = [0.0 for _ in agents]
    for i, j in itertools.combinations(agents, 2):
        bump = (particles.distance(state, i, j) < touch).astype(jnp.float32)
        bumps[i], bumps[j] = bumps[i] + bump, bumps[j] + bump
    return [(1 - local_ratio) * of_team - local_ratio * bumps[i] for i in agents]
