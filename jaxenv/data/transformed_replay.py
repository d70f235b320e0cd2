"""Reads a replay buffer through transformers."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import random, tree
from jaxenv.data.replay import Batch, Replay, ReplayState
from jaxenv.data.transformers import create


@dataclasses.dataclass(frozen=True)
class TransformedReplay:
    """Reads a `Replay` through transformers, so that a learner reads what the policy would see.

    The buffer stores raw rows: add them to ``replay`` itself, and read raw rows from it. The state of the transformer
    comes from the rollout: ``memory[0]`` of ``transformer.wrap_policy``. The object holds static options only and is
    hashable.

    Args:
        replay: the buffer.
        transformer: a data transformer, or a list of them for `transformers.create`.

    >>> import jax, jaxenv
    >>> from jaxenv.data import Replay, transformers
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.testing.Counting([9], num_envs=2))
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> policy = lambda timestep, stream: timestep.step_type * 0 + 5
    >>> rows = jaxenv.unroll(env, policy, state, timestep, 4)[1]  # rewards 0, 5, 5, 5
    >>> replay = Replay(capacity=4, num_envs=2)
    >>> stored = replay.add(replay.init(rows), rows)
    >>> clipped = TransformedReplay(replay, transformers.RewardClipping(-1, 1))
    >>> clipped.get((), stored, "timestep.reward", 0, 2).item(), replay.get(stored, "timestep.reward", 0, 2).item()
    (1.0, 5.0)
    """

    replay: Replay
    transformer: Any

    def __post_init__(self) -> None:
        if not isinstance(self.replay, Replay):
            raise ValueError(f"TransformedReplay: replay must be a Replay, got {self.replay!r}")
        object.__setattr__(self, "transformer", create(self.transformer))

    def sample(
        self,
        state: Any,
        stored: ReplayState,
        key: jax.Array | random.Stream,
        batch_size: int,
        length: int = 2,
        importance_exponent: Any = 1.0,
    ) -> tuple[Any, Batch]:
        """Transforms `Replay.sample` of ``stored``, which has the same arguments, by a transformer of this ``state``.

        Returns:
            The new state of the transformer, and windows ``[N, L, ...]``.
        """
        batch = self.replay.sample(stored, key, batch_size, length, importance_exponent)
        return self.transformer.transform_batch(state, batch, self.replay, stored)

    def gather_all(self, state: Any, stored: ReplayState) -> tuple[Any, Batch]:
        """Transforms `Replay.gather_all`: returns the new state, and one window per lane ``[B, n, ...]``."""
        return self.transformer.transform_batch(state, self.replay.gather_all(stored), self.replay, stored)

    def get(self, state: Any, stored: ReplayState, path: str, env_id: Any, position: Any) -> Any:
        """Transforms `Replay.get`: returns leaves ``[*S, ...]`` of a field of any rows.

        Rows are read as a rollout sees them: statistics do not change, and goals come from the environment. ``path`` is
        one of the transformed `Experience`; `Replay.get` describes all other arguments and the errors.
        """
        rows = self.replay.get(stored, "", env_id, position)
        shape = rows.timestep.step_type.shape
        # Windows of one row each, [N, 1, ...].
        windows = jax.tree.map(lambda x: x.reshape(-1, 1, *x.shape[len(shape) :]), rows)
        lane, first = (jnp.broadcast_to(jnp.asarray(x, jnp.int32), shape).reshape(-1) for x in (env_id, position))
        batch = Batch(windows, lane, first, jnp.ones(lane.shape, jnp.float32))
        batch = self.transformer.as_rollout().transform_batch(state, batch, self.replay, stored)[1]
        field = tree.get_field(batch.experience, path)
        return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[2:]), field)
