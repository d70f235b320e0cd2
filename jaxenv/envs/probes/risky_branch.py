"""Choose between a safe path and a lottery, in a Markov decision process with five states.

Reference: ALF's ``StochasticWithRiskyBranch`` (tests/envs/probes/test_risky_branch.py).

Observation   float32[1]   the state: 0 start, 1 good luck, 2 safe path, 3 bad luck, 4 end
Action        int32        0 or 1
Reward        see the table; 0 for all other transitions
Starts        in state 0
Terminates    in state 4
Time limit    none: every episode ends after two steps

    state  action  next state                                  reward
    0      0       1 with good_probability (0.5), otherwise 3  0
    0      1       2                                           0
    1      0       4                                           good_reward (2)
    2      0       4                                           safe_reward (1.8)
    3      1       4                                           bad_reward (1)
    all others     4                                           0

The value of the safe path is 1.8, that of the lottery 1.5. A learner that conditions values on action sequences
estimates the lottery at 2, because the transitions with action 0 after it are mostly rewarded after good luck.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.task import Task, Transition

START, GOOD, SAFE, BAD, END = (np.int32(i) for i in range(5))


@tree.struct
class Params:
    """Parameters of the task: scalars, or ``[B]`` for one value per lane."""

    good_probability: float = tree.leaf(default=0.5, low=0, high=1)
    good_reward: float = 2.0
    safe_reward: float = 1.8
    bad_reward: float = 1.0


@tree.struct
class State:
    """The state of the decision process."""

    node: jax.Array  # int32[B], 0 to 4


class RiskyBranch(Task):
    """A lottery and a safe path; see the module docstring."""

    params: Params = Params()

    def initial(self, stream):
        return State(jnp.full(stream.shape, START, jnp.int32))

    def transition(self, state, action, stream):
        p, node, first = self.params, state.node, action == 0
        lucky = random.bernoulli(stream, (), p.good_probability)
        branch = jnp.where(first, jnp.where(lucky, GOOD, BAD), SAFE)
        reward = jnp.where((node == GOOD) & first, p.good_reward, np.float32(0))
        reward = jnp.where((node == SAFE) & first, p.safe_reward, reward)
        reward = jnp.where((node == BAD) & ~first, p.bad_reward, reward)
        after = jnp.where(node == START, branch, END)
        return Transition(State(after), reward, terminated=after == END)

    def observe(self, state):
        return state.node[:, None].astype(jnp.float32)

    def observation_spec(self):
        return specs.Bounded((1,), np.float32, 0, 4, "observation")

    def action_spec(self):
        return specs.discrete(2, name="action")
