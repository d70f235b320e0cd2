"""Choose between a safe way and a lottery, in a decision process of four states.

Reference: ALF's ``StochasticWithRiskyBranch`` (tests/envs/probes/test_risky_branch.py).

Observation   float32[1]   the state: 0 the start, 1 good luck, 2 the safe way, 3 bad luck, 4 the end
Action        int32        0 or 1
Reward        see below; 0 for everything else
Starts        in state 0
Terminates    in state 4
Time limit    none: two steps end any episode

    0 -- 0 --> 1 with good_probability (a half), else 3
    0 -- 1 --> 2
    1 -- 0 --> 4, good_reward (2)
    2 -- 0 --> 4, safe_reward (1.8)
    3 -- 1 --> 4, bad_reward (1)
    all others --> 4

The safe way is worth 1.8, the lottery 1.5. A learner whose values are conditioned on sequences of actions takes the
lottery for 2: those who went on by action 0 after it mostly were the lucky ones.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._checks import is_concrete
from jaxenv.task import Task, Transition

START, GOOD, SAFE, BAD, END = (np.int32(i) for i in range(5))


@tree.struct
class Params:
    """Numbers of the task: scalars, or ``[B]`` for one value per lane."""

    good_probability: float = 0.5
    good_reward: float = 2.0
    safe_reward: float = 1.8
    bad_reward: float = 1.0


@tree.struct
class State:
    """``place``: int32 ``[B]``."""

    place: jax.Array


class RiskyBranch(Task):
    """A lottery and a safe way; see the module."""

    params: Params = Params()

    def check(self):
        p = self.params.good_probability
        if is_concrete(p) and np.any((np.asarray(p) < 0) | (np.asarray(p) > 1)):
            raise ValueError(f"{self}: good_probability must lie in [0, 1], got {p}")

    def initial(self, stream):
        return State(jnp.full(stream.shape, START, jnp.int32))

    def transition(self, state, action, stream):
        p, place, first = self.params, state.place, action == 0
        lucky = random.bernoulli(stream, (), p.good_probability)
        branch = jnp.where(first, jnp.where(lucky, GOOD, BAD), SAFE)
        reward = jnp.where((place == GOOD) & first, p.good_reward, np.float32(0))
        reward = jnp.where((place == SAFE) & first, p.safe_reward, reward)
        reward = jnp.where((place == BAD) & ~first, p.bad_reward, reward)
        after = jnp.where(place == START, branch, END)
        return Transition(State(after), reward, terminated=after == END)

    def observe(self, state):
        return state.place[:, None].astype(jnp.float32)

    def observation_spec(self):
        return specs.Bounded((1,), np.float32, 0, 4, "observation")

    def action_spec(self):
        return specs.discrete(2, name="action")
