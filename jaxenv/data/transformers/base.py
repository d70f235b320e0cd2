"""What every data transformer is, and the base of those without state."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax

from jaxenv import _xla, tree
from jaxenv._declared import hashable
from jaxenv.data.replay.batch import Batch
from jaxenv.rollout._policy import act
from jaxenv.timestep import TimeStep
from jaxenv.tree import Tree


@dataclasses.dataclass(frozen=True)
class Transformer:
    """Rewrites rows between the data and whoever looks at them: a policy in a rollout, a learner on replayed windows.

    Nothing that is stored changes: `jaxenv.unroll` returns raw rows and a replay buffer keeps them, so that what a
    transformer does can be changed, or learned, afterwards. A wrapper of the same meaning changes what is stored.

    A transformer is a pure function of its state and of rows ``[B, ...]``; the object itself holds nothing but static
    options, is hashable, and may be closed over. ``(state, timestep) -> (state, timestep)`` is also what
    ``jax.lax.scan`` takes: ``scan(transformer.transform_timestep, state, experience.timestep)`` gives an on-policy
    learner the rows ``[T, B, ...]`` that the policy saw.

    Attributes:
        tier: where in a `Sequential` it may stand: tiers must not decrease.
        reason: why it must not stand behind a higher tier, as a sentence goes on after "must stand before it:".
    """

    tier: ClassVar[int] = 3
    reason: ClassVar[str] = ""

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers, from the key that ``init`` is given."""
        return False

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, hashable(getattr(self, field.name)))
        self.check()

    def check(self) -> None:
        """Checks the constructor's arguments; raises ``ValueError`` naming class, argument and value."""

    def init(self, timestep: TimeStep, key: jax.Array | None = None) -> Tree:
        """The state before the first row: ``()`` unless the transformer remembers something.

        Leaves lead with the lanes ``[B]`` and begin anew with an episode, but for those in `jaxenv.tree.Shared`, which
        belong to the whole batch and survive.

        Args:
            timestep: rows ``[B, ...]`` of the stream, or their shapes: no number is read.
            key: a typed key, for transformers that draw; ``jax.random.key(0)`` by default.
        """
        return ()

    def transform_timestep(self, state: Tree, timestep: TimeStep) -> tuple[Tree, TimeStep]:
        """Takes the next row of every lane, ``[B, ...]``: new state, and the row to show."""
        raise NotImplementedError(f"{type(self).__name__}.transform_timestep")

    def transform_batch(self, state: Tree, batch: Batch, replay: Any = None, stored: Any = None) -> tuple[Tree, Batch]:
        """Takes windows of raw rows as a replay buffer gave them: new state, and the windows to learn from.

        Args:
            state: of the transformer; what it holds per lane of the rollout is passed on.
            batch: a `jaxenv.data.Batch`, leaves ``[N, L, ...]``.
            replay: the `jaxenv.data.Replay` that the windows come from; for those that read the rows around them.
            stored: its state, not changed since.
        """
        raise NotImplementedError(f"{type(self).__name__}.transform_batch")

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        """The specs of transformed rows, of those of raw rows: ``env.time_step_spec()``, of one lane's shapes."""
        raise NotImplementedError(f"{type(self).__name__}.transform_spec")

    def frozen(self) -> Self:
        """The same transformer without learning: its statistics stay as they are in whatever state it is given."""
        return self

    def wrap_policy(
        self,
        policy: Callable,
        timestep: TimeStep,
        initial_memory: Tree = (),
        *,
        state: Tree = None,
        key: jax.Array | None = None,
    ) -> tuple[Callable, Tree]:
        """A policy that sees transformed rows, for `jaxenv.unroll`, `jaxenv.evaluate` and everything that runs one.

        Its memory is ``(transformer state, memory of policy)``: with an episode the lanes' part of it begins anew, and
        what all lanes share goes on. Carry one state through everything: take it from the memory that a rollout
        returns, give it to ``transform_batch``, and put what that returns into the memory of the next rollout.

        Args:
            policy: as `jaxenv.unroll` takes it.
            timestep: rows ``[B, ...]`` of the stream that it will see, or their shapes.
            initial_memory: of ``policy``, leaves ``[B, ...]``.
            state: whose `jaxenv.tree.Shared` parts (statistics) to start from, those of ``init`` by default; its lanes
                may be others.
            key: a typed key for ``init``. Transformers that draw need it, unless ``state`` says how they go on.

        Returns:
            The policy, and its ``initial_memory``; ``()`` where neither has anything to remember.

        Raises:
            ValueError: for a transformer that draws, without key and state; for a state of another transformer, or of
                rows of other shapes, naming the first difference.

        >>> import jax, jaxenv
        >>> env = jaxenv.make("Pendulum-v1", num_envs=2)
        >>> start = env.reset(jax.random.key(0))
        >>> policy = lambda timestep, key: 0.1 * timestep.observation[:, :, 0].sum(axis=-1, keepdims=True)
        >>> transformer = jaxenv.data.transformers.FrameStacker(3, axis=None)
        >>> policy, memory = transformer.wrap_policy(policy, start[1])
        >>> (_, _, memory), experience = jaxenv.unroll(env, policy, *start, 4, initial_memory=memory)
        >>> memory[0].frames.shape, experience.timestep.observation.shape
        ((2, 3, 3), (4, 2, 3))
        """
        if self.draws and key is None and state is None:
            raise ValueError(f"{type(self).__name__}: it draws random numbers, pass key (or the state to go on from)")
        start = self.init(timestep, key)
        if state is not None:
            _check_state(type(self).__name__, state, start)
            start = jax.tree.map(
                lambda new, old: old if tree.is_shared(new) else new, start, state, is_leaf=tree.is_shared
            )
        start = vary_like(timestep, start)
        if not jax.tree.leaves((start, initial_memory)):
            return lambda timestep, stream: policy(self.transform_timestep(start, timestep)[1], stream), ()
        recurrent = bool(jax.tree.leaves(initial_memory))

        def transformed(timestep, key, memory):
            state, inner = memory
            state, row = self.transform_timestep(state, timestep)
            out = act(policy, row, key, inner, recurrent)
            return dataclasses.replace(out, memory=(state, out.memory))

        return transformed, (start, tree.strong(initial_memory))


class RowTransformer(Transformer):
    """Maps rows one by one, without state, alike in rollout and on replay. Write ``rows``, and ``transform_spec``."""

    def rows(self, timestep: TimeStep) -> TimeStep:
        """The new rows for rows ``[B, ...]``."""
        raise NotImplementedError(f"{type(self).__name__}.rows")

    def transform_timestep(self, state, timestep):
        return state, self.rows(timestep)

    def transform_batch(self, state, batch, replay=None, stored=None):
        return state, on_windows(self.rows, batch)


# --- what transformers share -----------------------------------------------------------------------------------------


def rows_of(batch: Batch) -> TimeStep:
    """All rows of windows ``[N, L, ...]``: ``[N * L, ...]``."""
    shape = _windows(batch)
    return jax.tree.map(lambda x: x.reshape(shape[0] * shape[1], *x.shape[2:]), batch.experience.timestep)


def on_windows(fn: Callable[[TimeStep], TimeStep], batch: Batch) -> Batch:
    """Applies a function of rows ``[R, ...]`` to all rows of windows ``[N, L, ...]``."""
    shape = _windows(batch)
    return with_timestep(batch, jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), fn(rows_of(batch))))


def _windows(batch: Batch) -> tuple[int, int]:
    return jax.tree.leaves(batch.experience.timestep)[0].shape[:2]


def with_timestep(batch: Batch, timestep: TimeStep) -> Batch:
    """The windows with other rows."""
    return dataclasses.replace(batch, experience=dataclasses.replace(batch.experience, timestep=timestep))


def map_observation_spec(fn: Callable[[Tree], Tree], spec: TimeStep) -> TimeStep:
    """Applies ``fn`` to the specs of the observation and of ``env_info["final_observation"]`` where that is kept."""
    env_info = spec.env_info
    if "final_observation" in env_info:
        env_info = {**env_info, "final_observation": fn(env_info["final_observation"])}
    return dataclasses.replace(spec, observation=fn(spec.observation), env_info=env_info)


def check_fields(owner: str, fields: Any) -> None:
    """Refuses what is neither ``None`` nor a tuple of dotted paths, at least one."""
    paths = isinstance(fields, tuple) and fields and all(isinstance(field, str) for field in fields)
    if fields is not None and not paths:
        raise ValueError(f"{owner}: fields must be None or a tuple of dotted paths, got {fields!r}")


def check_number(owner: str, name: str, value: Any, fits: Callable[[float], bool], rule: str) -> None:
    """Refuses what is no number, or none that ``fits``: ``rule`` goes on after "must be"."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not fits(value):
        raise ValueError(f"{owner}: {name} must be {rule}, got {value!r}")


def _check_state(owner: str, state: Tree, start: Tree) -> None:
    """Refuses a state of another structure, or whose parts in `jaxenv.tree.Shared` have other shapes or dtypes."""

    def kinds(tree_):
        found = {}
        for path, node in jax.tree_util.tree_leaves_with_path(tree_, is_leaf=tree.is_shared):
            for inner, x in tree.flatten_with_path(node)[0]:
                kind = f"{x.dtype}{list(x.shape)}" if tree.is_shared(node) else "an array per lane"
                found[tree.path_name((*path, *inner)) or "the state"] = kind
        return found

    given, own = kinds(state), kinds(start)
    for name in (*own, *given):
        if given.get(name) != own.get(name):
            raise ValueError(
                f"{owner}: state has {given.get(name, 'nothing')} where this transformer has "
                f"{own.get(name, 'nothing')} at {name}: pass the state of this transformer on rows like these"
            )
    if tree.structure(state) != tree.structure(start):
        raise ValueError(f"{owner}: state has other kinds of nodes than that of this transformer")


def vary_like(timestep: TimeStep, state: Tree) -> Tree:
    """Under ``shard_map``: a state of constants that varies with the rows, so that it fits a loop's carry."""
    reference = timestep.step_type
    return _xla.vary_like(reference, state) if isinstance(reference, jax.Array) else state
