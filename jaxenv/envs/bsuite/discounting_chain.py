"""Choose once between rewards that come after 1, 3, 10, 30 or 100 steps, one of which is a tenth larger.

Reference: bsuite 0.3.6 ``discounting_chain`` (tests/envs/bsuite/test_discounting_chain.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568.

Observation   float32[1, 2]   the choice, 0 to 4, -1 before it is made; time, from 0 to 1
Action        int32           0 to 4; only the first action counts
Reward        1 in step 1, 3, 10, 30 or 100, as chosen, 0 in all others; 1.1 instead of 1 for choice mapping_seed % 5
Starts        always alike
Terminates    with step 100; with compat="gymnax" never
Time limit    none; with compat="gymnax" give 100
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.task import Task, Transition

_REWARD_STEPS = np.array([1, 3, 10, 30, 100], np.int32)
_NUM_STEPS = np.int32(100)


@tree.struct
class Params:
    """A number, or ``[B]`` for one per lane."""

    mapping_seed: int = tree.leaf(default=0, dtype=np.int32)  # modulo 5, the choice with the larger reward


@tree.struct
class State:
    """Each int32 ``[B]``."""

    time: jax.Array  # steps so far
    choice: jax.Array  # 0 to 4, -1 before


class DiscountingChain(Task):
    """Discounting chain; see the module.

    Attributes:
        compat: ``"gymnax"`` for an episode without an end of its own, which a time limit of 100 steps then truncates.
    """

    params: Params = Params()
    compat: str = tree.static(default="")
    finite_observation = True

    def check(self):
        if self.compat not in ("", "gymnax"):
            raise ValueError(f"{self}: compat must be '' or 'gymnax', got {self.compat!r}")

    def initial(self, stream):
        time = jnp.zeros(stream.shape, jnp.int32)
        return State(time, time - 1)

    def transition(self, state, action, stream):
        choice = jnp.where(state.time == 0, action, state.choice)
        time = state.time + 1
        numbers = np.arange(len(_REWARD_STEPS), dtype=np.int32)[None]
        due = jnp.any((choice[:, None] == numbers) & (time[:, None] == _REWARD_STEPS[None]), axis=-1)
        bonus = choice == self.params.mapping_seed % len(_REWARD_STEPS)
        reward = jnp.where(due, jnp.where(bonus, np.float32(1.1), np.float32(1)), np.float32(0))
        ended = jnp.zeros_like(due) if self.compat else time == _NUM_STEPS
        return Transition(State(time, choice), reward, terminated=ended)

    def observe(self, state):
        time = state.time.astype(jnp.float32) / np.float32(_NUM_STEPS)
        return jnp.stack([state.choice.astype(jnp.float32), time], axis=-1)[:, None]

    def observation_spec(self):
        # Without an end of the task's own, time goes on for as long as the limit lets it.
        latest = np.inf if self.compat else 1
        high = [[len(_REWARD_STEPS) - 1, latest]]
        return specs.Bounded((1, 2), np.float32, [[-1, 0]], high, "observation")

    def action_spec(self):
        return specs.discrete(len(_REWARD_STEPS), name="action")
