"""Two agents tell each other which landmark to go to.

Reference: mpe2's ``simple_reference_v3`` (tests/envs/particle/test_mpe2.py), with discrete actions. Each
agent has a landmark to go to, and only the other agent sees which one. Both speak and move at the same time.
Paper: Lowe, Wu, Tamar, Harb, Abbeel and Mordatch (2017), "Multi-agent actor-critic for mixed cooperative-competitive
environments", arXiv:1706.02275; Mordatch and Abbeel (2018), arXiv:1703.04908.

Observation   float32[2, 21]   by agent: velocity; positions of the 3 landmarks relative to it; the colour of the other
              agent's landmark, 0.75 at its number and 0.25 elsewhere; the other agent's word, of 10, one-hot or zeros
Action        int32[2]         move + 5 word; move: 0 stays, 1 to 4 accelerate left, right, down and up
Reward        float32[2]       1 - local_ratio times a team reward, minus the mean distance of the agents to their
              landmarks; minus local_ratio times the distance of the other agent, which an agent guides, to its landmark
Starts        at rest, silent; agents and landmarks uniform in [-1, 1)^2; the landmark of each agent uniform
Terminates    never
Time limit    25 (registry)
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, GREEN, INK, RED, Canvas
from jaxenv.core import Transition
from jaxenv.envs.particle import _particles as particles
from jaxenv.envs.particle._particles import Body, Particles, ParticleTask

_LANDMARKS, _WORDS = 3, 10


@tree.struct
class Params(particles.World):
    """Masses 1: scalars, or ``[B]`` for one value per lane."""

    acceleration: float = tree.leaf(default=5.0, low=0, doc="of an agent along one axis")
    local_ratio: float = tree.leaf(default=0.5, low=0, high=1, doc="weight of the distance of the other agent")


@tree.struct
class State:
    """Particles, and what the agents know."""

    particles: Particles
    goal: jax.Array  # int32[B, 2], the number of the landmark that each agent is to go to
    word: jax.Array  # int32[B, 2], the last word of each agent, -1 at the start


class SimpleReference(ParticleTask):
    """Speakers that are listeners; the module docstring is the specification."""

    params: Params = Params()
    agent_names = ("agent_0", "agent_1")
    action_names = tuple(f"{move}, say {word}" for word in range(_WORDS) for move in particles.MOVES)

    def initial(self, stream: random.Stream) -> State:
        placed = particles.scattered(stream, 2, [1.0] * (2 + _LANDMARKS))
        goal = random.integers(random.fold_in(stream, "goal"), (2,), 0, _LANDMARKS)
        return State(placed, goal, jnp.full_like(goal, -1))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        p = self.params
        moved = particles.advance(state.particles, action % 5, [Body(p.acceleration)] * 2, (), p)
        away = [_distance_to_goal(moved, i, state.goal[:, i]) for i in range(2)]
        of_team = -(away[0] + away[1]) / 2
        rewards = [(1 - p.local_ratio) * of_team - p.local_ratio * away[1 - i] for i in range(2)]
        state = State(moved, state.goal, action // 5)
        return Transition(state, jnp.stack(rewards, axis=-1), terminated=jnp.zeros(action.shape[0], bool))

    def observe(self, state: State) -> jax.Array:
        p, rows = state.particles, []
        for i in range(2):
            columns = [p.x_speed[i], p.y_speed[i]]
            for landmark in range(2, 2 + _LANDMARKS):
                columns += [p.x[landmark] - p.x[i], p.y[landmark] - p.y[i]]
            goal, word = state.goal[:, 1 - i], state.word[:, 1 - i]
            columns += [jnp.where(goal == k, np.float32(0.75), np.float32(0.25)) for k in range(_LANDMARKS)]
            columns += [(word == k).astype(jnp.float32) for k in range(_WORDS)]
            rows.append(columns)
        return particles.stacked(rows)

    def observation_spec(self) -> specs.Bounded:
        low = [-np.inf] * (2 + 2 * _LANDMARKS) + [0.25] * _LANDMARKS + [0.0] * _WORDS
        high = [np.inf] * (2 + 2 * _LANDMARKS) + [0.75] * _LANDMARKS + [1.0] * _WORDS
        return specs.Bounded((2, len(low)), np.float32, [low] * 2, [high] * 2, "observation")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints landmarks as rings and the agents in the colours of theirs, with their words at the lower edge."""
        p = state.particles
        canvas = canvas.view((-1.4, 1.4), (-1.4, 1.4))
        for k, colour in enumerate(_COLOURS):
            canvas = canvas.ring(p.x[2 + k], p.y[2 + k], 0.14, 0.06, colour)
        for i in range(2):
            canvas = canvas.disc(p.x[i], p.y[i], 0.11, INK)
            for k, colour in enumerate(_COLOURS):
                canvas = canvas.disc(p.x[i], p.y[i], 0.08, colour, alpha=state.goal[:, i] == k)
                canvas = canvas.disc(i - 0.5, -1.22, 0.05, colour, alpha=state.goal[:, i] == k)
            canvas = canvas.number(
                jnp.maximum(state.word[:, i], 0), i - 0.36, -1.29, 0.14, INK, digits=1, alpha=state.word[:, i] >= 0
            )
        return canvas


def _distance_to_goal(p: Particles, agent: int, goal: jax.Array) -> jax.Array:
    """Returns the distance of an agent to its landmark, float32 ``[B]``."""
    distances = [particles.distance(p, agent, 2 + k) for k in range(_LANDMARKS)]
    return jnp.select([goal == 0, goal == 1], distances[:2], distances[2])


# --- the picture -----------------------------------------------------------------------------------------------------

_COLOURS = (RED, GREEN, BLUE)  # of the landmarks
