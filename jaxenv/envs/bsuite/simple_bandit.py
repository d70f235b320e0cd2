"""Pull one of several arms; each pays the same amount every time.

Reference: bsuite 0.3.6, ``environments/bandit.py`` (tests/envs/bsuite/test_simple_bandit.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568.

Observation   float32[1, 1]   always 1
Action        int32           the arm, 0 to num_actions - 1
Reward        what the arm pays: 0, 1 / (num_actions - 1), ..., 1, each on one arm
Starts        in the first episode of a lane every order of the arms is as likely; it stays for all others
Terminates    with the first step
Time limit    none
env_info      total_regret: float32, what the best arm would have paid more, summed over all episodes
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.task import Task, Transition


@tree.struct
class State:
    """The regret is counted in steps from one arm to the next better: it adds up exactly, however long a lane lives."""

    arms: jax.Array  # float32[B, num_actions], what each pays
    total_regret: jax.Array  # int32[B], times num_actions - 1


class SimpleBandit(Task):
    """A bandit without chance; see the module.

    Attributes:
        num_actions: how many arms.
        mapping_seed: gives all lanes the one order of arms that bsuite draws from it; ``None``: each lane its own.
        compat: with ``"gymnax"`` the arms are drawn, and the regret is zero, at the start of every episode: as in
            gymnax 1.0.1, where no episode tells anything about the next.
    """

    num_actions: int = tree.static(default=11)
    mapping_seed: int | None = tree.static(default=None)
    compat: str = tree.static(default="")

    def check(self):
        if self.num_actions < 2:
            raise ValueError(f"{self}: num_actions must be at least 2, got {self.num_actions}")
        seed = self.mapping_seed
        if seed is not None and not (isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**32):
            raise ValueError(f"{self}: mapping_seed must be None or a whole number from 0 to 2**32 - 1, got {seed!r}")
        if self.compat not in ("", "gymnax"):
            raise ValueError(f"{self}: compat must be '' or 'gymnax', got {self.compat!r}")

    def initial(self, stream):
        n = self.num_actions
        if self.mapping_seed is None:
            ranks = random.permutation(stream, n)
        else:
            drawn = np.random.RandomState(self.mapping_seed).choice(n, n, replace=False)
            ranks = jnp.broadcast_to(drawn.astype(np.int32), (*stream.shape, n))
        return State(jnp.asarray(np.linspace(0, 1, n), jnp.float32)[ranks], jnp.zeros(stream.shape, jnp.int32))

    def carry(self, old, new):
        return new if self.compat == "gymnax" else old

    def transition(self, state, action, stream):
        pulled = action[:, None] == np.arange(self.num_actions, dtype=np.int32)[None]
        reward = jnp.sum(jnp.where(pulled, state.arms, np.float32(0)), axis=-1)
        regret = jnp.round((1 - reward) * self._steps).astype(jnp.int32)
        after = State(state.arms, state.total_regret + regret)
        return Transition(after, reward, terminated=jnp.ones(action.shape, bool))

    def state_info(self, state):
        return {"total_regret": state.total_regret.astype(jnp.float32) / self._steps}

    def observe(self, state):
        return jnp.ones((*state.total_regret.shape, 1, 1), jnp.float32)

    def observation_spec(self):
        return specs.Bounded((1, 1), np.float32, 1, 1, "observation")

    def action_spec(self):
        return specs.discrete(self.num_actions, name="action")

    @property
    def _steps(self) -> np.float32:
        return np.float32(self.num_actions - 1)
