"""Applies several transformers in a valid order, and reads a replay buffer through them."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import random, tree
from jaxenv.core.timestep import TimeStep
from jaxenv.data.replay import Batch, Replay, ReplayState
from jaxenv.data.transformers.frame_stacker import FrameStacker
from jaxenv.data.transformers.hindsight import Hindsight
from jaxenv.data.transformers.transformer import Identity, Transformer
from jaxenv.specs import select
from jaxenv.tree import Tree


@dataclasses.dataclass(frozen=True, init=False)
class Sequential(Transformer):
    """Applies transformers to rows ``[B, ...]`` in the given order. Its state is the tuple of their states.

    Transformers that read raw data precede those that change it: `Untransformed` first, then `FrameStacker` and
    `Hindsight` in either order, then all others. A nested `Sequential` is flattened.

    >>> from jaxenv.data.transformers import FrameStacker, RewardClipping
    >>> stack, clip = FrameStacker(3), RewardClipping(-1, 1)
    >>> Sequential(stack, clip) == Sequential(Sequential(stack), clip)
    True
    >>> try:
    ...     Sequential(clip, stack)
    ... except ValueError as error:
    ...     print(str(error).partition(": it")[0])
    Sequential: FrameStacker must precede RewardClipping
    """

    transformers: tuple[Transformer, ...]

    def __init__(self, *transformers: Transformer) -> None:
        flat: list[Transformer] = []
        for transformer in transformers:
            if not isinstance(transformer, Transformer):
                raise ValueError(f"Sequential: transformers must be data transformers, got {transformer!r}")
            flat.extend(transformer.transformers if isinstance(transformer, Sequential) else [transformer])
        object.__setattr__(self, "transformers", tuple(flat))
        self.check()

    def check(self) -> None:
        for index, transformer in enumerate(self.transformers):
            for earlier in self.transformers[:index]:
                if earlier.tier > transformer.tier and not isinstance(earlier, Identity):
                    names = f"{type(transformer).__name__} must precede {type(earlier).__name__}"
                    raise ValueError(f"Sequential: {names}: {transformer.reason}")

    @property
    def is_random(self) -> bool:
        return any(transformer.is_random for transformer in self.transformers)

    def init(self, timestep: TimeStep, key: jax.Array | None = None) -> Tree:
        states, step_type = [], timestep.step_type
        for index, transformer in enumerate(self.transformers):
            own_key = None if key is None else jax.random.fold_in(key, index)
            states.append(transformer.init(timestep, own_key))
            timestep = jax.eval_shape(transformer.transform_timestep, states[-1], timestep)[1]
            # Under shard_map the step type itself, but not its shape, has the axes over which the rows vary.
            timestep = dataclasses.replace(timestep, step_type=step_type)
        return tuple(states)

    def transform_timestep(self, state: Tree, timestep: TimeStep) -> tuple[Tree, TimeStep]:
        states = []
        for transformer, part in zip(self.transformers, state, strict=True):
            part, timestep = transformer.transform_timestep(part, timestep)
            states.append(part)
        return tuple(states), timestep

    def transform_batch(self, state: Tree, batch: Any, replay: Any = None, stored: Any = None) -> Any:
        self._check_goals(batch.experience.timestep.observation)
        states = []
        for transformer, part in zip(self.transformers, state, strict=True):
            part, batch = transformer.transform_batch(part, batch, replay, stored)
            states.append(part)
        return tuple(states), batch

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        for transformer in self.transformers:
            spec = transformer.transform_spec(spec)
        return spec

    def frozen(self) -> Any:
        return Sequential(*(transformer.frozen() for transformer in self.transformers))

    def as_rollout(self) -> "Sequential":
        return Sequential(*(transformer.as_rollout() for transformer in self.transformers))

    def _check_goals(self, observation: Any) -> None:
        """Raises a ``ValueError`` if goals are stacked: frames from before the window would keep the old goal."""
        for stacker in (t for t in self.transformers if isinstance(t, FrameStacker)):
            stacked = select("FrameStacker", observation, stacker.fields)
            for hindsight in (t for t in self.transformers if isinstance(t, Hindsight)):
                if any(jax.tree.leaves(hindsight.goals(stacked)[1])):
                    raise ValueError(
                        f"Sequential: FrameStacker must not stack {hindsight.desired_goal!r}, which Hindsight replaces "
                        f"in the window but not in the rows before it: choose other fields, got {stacker.fields}"
                    )


def create(transformers: Any) -> Transformer:
    """Makes a `Sequential` from a list, or an `Identity` from ``None``; returns a single transformer unchanged."""
    if transformers is None:
        return Identity()
    if isinstance(transformers, list | tuple):
        return Sequential(*transformers)
    if not isinstance(transformers, Transformer):
        rule = "transformers must be a data transformer, a list of them or None"
        raise ValueError(f"create: {rule}, got {transformers!r}")
    return transformers


@dataclasses.dataclass(frozen=True)
class TransformedReplay:
    """Reads a `Replay` through transformers, so that a learner reads what the policy would see.

    The buffer stores raw rows: add them to ``replay`` itself, and read raw rows from it. ``transformer`` may be a list
    for `transformers.create`. Its state comes from the rollout: ``memory[0]`` of ``transformer.wrap_policy``. The
    object holds static options only and is hashable.

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
        """Transforms `Replay.sample` of ``stored``: returns the new state, and windows ``[N, L, ...]``."""
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
