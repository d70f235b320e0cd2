"""The interface of data transformers, and the base class of transformers without state."""

import abc
import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax

from jaxenv import tree
from jaxenv._util.checks import check_kind
from jaxenv.core._declared import hashable
from jaxenv.core.timestep import TimeStep, check_timestep
from jaxenv.data.replay.batch import Batch
from jaxenv.random import Stream
from jaxenv.rollout._policy import Policy, PolicyStep, act, check_policy
from jaxenv.specs import field_paths
from jaxenv.tree import Tree
from jaxenv.tree._structure import mismatch, type_mismatch

# The checks of every subclass: the method, its argument, and the check.
_ARGUMENTS = (
    ("init", "timestep", check_timestep),
    ("transform_timestep", "timestep", check_timestep),
    ("transform_batch", "batch", functools.partial(check_kind, kind=Batch)),
    ("transform_spec", "spec", check_timestep),
)


def _checked(method: Callable[..., Any], argument: str, check: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a method of a transformer to check one of its arguments first."""
    place = list(inspect.signature(method).parameters).index(argument)

    @functools.wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check(type(args[0]).__name__, argument, args[place] if place < len(args) else kwargs.get(argument))
        try:
            return method(*args, **kwargs)
        except AttributeError as error:
            if method.__name__ == "transform_timestep":
                _explain_state(error, *args, **kwargs)
            raise

    return checked


def _explain_state(error: Exception, transformer: "Transformer", state: Tree, timestep: TimeStep) -> None:
    """Raises a ``ValueError`` if a transformer failed because its state has the wrong structure."""
    expected = jax.eval_shape(transformer.init, timestep, jax.random.key(0))
    if (fault := mismatch(expected, state, "state")) is not None:
        raise ValueError(f"{type(transformer).__name__}: {fault}: pass the state of this transformer") from error


@dataclasses.dataclass(frozen=True)
class Transformer(abc.ABC):
    """Rewrites rows for their readers: a policy in a rollout, or a learner on replayed windows.

    Stored rows never change: `jaxenv.unroll` returns raw rows and a replay buffer stores them. The transformation can
    therefore change, or learn, after the rows were stored. A wrapper of the same kind changes the stored rows.

    A transformer is a pure function of its state and of rows ``[B, ...]``. The object holds static options only and is
    hashable; close over it. ``transform_timestep`` has the signature that ``jax.lax.scan`` takes, so
    ``scan(transformer.transform_timestep, state, experience.timestep)`` gives an on-policy learner the rows
    ``[T, B, ...]`` that the policy saw.
    """

    tier: ClassVar[int] = 3  # the position in a `Sequential`, where tiers must not decrease
    reason: ClassVar[str] = ""  # why it must precede higher tiers, a clause for error messages

    @property
    def is_random(self) -> bool:
        """Whether it draws random numbers, from the key given to ``init``."""
        return False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for method, argument, check in _ARGUMENTS:
            if method in vars(cls):
                setattr(cls, method, _checked(vars(cls)[method], argument, check))

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, hashable(getattr(self, field.name)))
        self.check()

    def check(self) -> None:  # noqa: B027
        """Checks the constructor's arguments; raises a ``ValueError`` that names class, argument and value."""

    def init(self, timestep: TimeStep, key: jax.Array | None = None) -> Tree:
        """Returns the state before the first row; ``()`` for a transformer without memory.

        Leaves have a leading axis ``[B]`` and restart with every episode. Leaves in `jaxenv.tree.Shared` belong to the
        whole batch and continue.

        ``timestep`` are rows ``[B, ...]`` like those to transform, or their shapes; values are not read. ``key`` is a
        typed key, for transformers that draw; ``jax.random.key(0)`` by default.
        """
        return ()

    @abc.abstractmethod
    def transform_timestep(self, state: Tree, timestep: TimeStep) -> tuple[Tree, TimeStep]:
        """Transforms the next row of every lane, ``[B, ...]``; returns the new state and row."""

    @abc.abstractmethod
    def transform_batch(self, state: Tree, batch: Batch, replay: Any = None, stored: Any = None) -> tuple[Tree, Batch]:
        """Transforms windows of raw rows from a replay buffer; returns the new state and windows.

        The parts of the state per lane belong to the rollout and pass through. Transformers that read rows around the
        windows need ``replay``, the `jaxenv.data.Replay` of the ``batch``, and its state, unchanged since sampling.
        """

    @abc.abstractmethod
    def transform_spec(self, spec: TimeStep) -> TimeStep:
        """Returns the specs of transformed rows, given the specs of raw rows (``env.time_step_spec()``)."""

    def frozen(self) -> Self:
        """Returns the same transformer with constant statistics, whatever state it is given."""
        return self

    def as_rollout(self) -> "Transformer":
        """Returns the transformer whose ``transform_batch`` shows single rows of a buffer as a rollout sees them.

        Its statistics are constant, and it changes only what a rollout changes.
        """
        return self.frozen()

    def wrap_policy(
        self,
        policy: Policy,
        timestep: TimeStep,
        initial_memory: Tree = (),
        *,
        state: Tree = None,
        key: jax.Array | None = None,
    ) -> tuple[Callable[..., Any], Tree]:
        """Returns a policy that sees transformed rows, for `jaxenv.unroll` and others, and its ``initial_memory``.

        The memory, ``()`` without one, is ``(transformer state, memory of policy)``. At the start of an episode the
        parts of a lane restart and shared parts continue. Rollouts and replay share one state: take it from the memory
        that a rollout returns, pass it to ``transform_batch``, and put the returned state into the memory of the next
        rollout.

        ``timestep`` are rows ``[B, ...]`` like those that ``policy`` will see, or their shapes. ``initial_memory``,
        leaves ``[B, ...]``, is the policy's. ``state`` is a state of this transformer, with any number of lanes: its
        `jaxenv.tree.Shared` parts (statistics) are used instead of the initial ones. Without it, transformers that draw
        require ``key``, a typed key for ``init``.

        >>> import jax, jaxenv
        >>> env = jaxenv.make("Pendulum-v1", num_envs=2)
        >>> start = env.reset(jax.random.key(0))
        >>> policy = lambda timestep, stream: 0.1 * timestep.observation[:, :, 0].sum(axis=-1, keepdims=True)
        >>> transformer = jaxenv.data.transformers.FrameStacker(3, axis=None)
        >>> policy, memory = transformer.wrap_policy(policy, start[1])
        >>> (_, _, memory), experience = jaxenv.unroll(env, policy, *start, 4, initial_memory=memory)
        >>> memory[0].frames.shape, experience.timestep.observation.shape
        ((2, 3, 3), (4, 2, 3))
        """
        recurrent = bool(jax.tree.leaves(initial_memory))
        if self.is_random and key is None and state is None:
            raise ValueError(f"{type(self).__name__}: it draws random numbers, pass key (or state, to continue)")
        start = self.init(timestep, key)
        if state is not None:
            _check_state(type(self).__name__, state, start)
            start = jax.tree.map(
                lambda new, old: old if tree.is_shared(new) else new, start, state, is_leaf=tree.is_shared
            )
        check_policy(type(self).__name__, policy, recurrent)
        start = vary_like_rows(timestep, start)
        if not jax.tree.leaves((start, initial_memory)):
            return lambda timestep, stream: policy(self.transform_timestep(start, timestep)[1], stream), ()

        def transformed(timestep: TimeStep, stream: Stream, memory: tuple[Any, Any]) -> PolicyStep:
            state, inner = memory
            state, row = self.transform_timestep(state, timestep)
            step = act(policy, row, stream, inner, recurrent)
            return dataclasses.replace(step, memory=(state, step.memory))

        return transformed, (start, tree.strong(initial_memory))


def vary_like_rows(timestep: TimeStep, state: Tree) -> Tree:
    """Makes a constant state vary like the rows under ``shard_map``, so that it can be the carry of a loop."""
    reference = timestep.step_type
    return tree.vary_like(reference, state) if isinstance(reference, jax.Array) else state


def _check_state(owner: str, state: Tree, start: Tree) -> None:
    """Raises a ``ValueError`` if the structures, or shapes and dtypes in `jaxenv.tree.Shared`, differ."""

    def of_any_lanes(x: Any) -> Any:
        return x if tree.is_shared(x) else jax.ShapeDtypeStruct((), bool)

    expected, given = (jax.tree.map(of_any_lanes, x, is_leaf=tree.is_shared) for x in (start, state))
    if (fault := type_mismatch(expected, given, "state")) is not None:
        raise ValueError(f"{owner}: {fault}: pass the state of this transformer on rows like these")


class RowTransformer(Transformer):
    """Maps each row independently, without state. Subclasses implement ``transform_rows`` and ``transform_spec``."""

    @abc.abstractmethod
    def transform_rows(self, timestep: TimeStep) -> TimeStep:
        """Returns the new rows for rows ``[B, ...]``, of a rollout or of replayed windows."""

    def transform_timestep(self, state: Tree, timestep: TimeStep) -> tuple[Tree, TimeStep]:
        return state, self.transform_rows(timestep)

    def transform_batch(self, state: Tree, batch: Any, replay: Any = None, stored: Any = None) -> Any:
        return state, map_windows(self.transform_rows, batch)


@dataclasses.dataclass(frozen=True)
class Identity(RowTransformer):
    """Returns rows ``[B, ...]``, windows ``[N, L, ...]`` and specs unchanged."""

    def transform_rows(self, timestep: TimeStep) -> TimeStep:
        return timestep

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        return spec


@dataclasses.dataclass(frozen=True)
class Untransformed(RowTransformer):
    """Copies the raw row ``[B, ...]`` into its field ``untransformed``, for algorithms that need both.

    Later transformers, including the relabelling of `Hindsight`, do not change ``untransformed``. ``fields`` to keep
    are dotted paths in a TimeStep, such as ``("reward", "observation.camera")``; ``None`` for the whole row.

    >>> from jaxenv import TimeStep
    >>> Untransformed(("reward",)).transform_rows(TimeStep(step_type=1, reward=5.0)).untransformed.reward
    5.0
    """

    fields: str | tuple[str, ...] | None = None

    tier: ClassVar[int] = 1
    reason: ClassVar[str] = "it keeps the row as it was stored, so nothing may have changed it"

    def check(self) -> None:
        field_paths("Untransformed", self.fields)

    def transform_rows(self, timestep: TimeStep) -> TimeStep:
        unset: Any = ()
        raw = dataclasses.replace(timestep, untransformed=unset)
        if self.fields is not None:
            try:
                raw = tree.select_fields(raw, field_paths("Untransformed", self.fields))
            except ValueError as unknown:
                raise ValueError(f"Untransformed: {unknown}") from None
        return dataclasses.replace(timestep, untransformed=raw)

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        return self.transform_rows(spec)


def flatten_windows(batch: Batch) -> TimeStep:
    """Returns all rows of windows ``[N, L, ...]``: ``[N * L, ...]``."""
    number, length = _shape(batch)
    return jax.tree.map(lambda x: x.reshape(number * length, *x.shape[2:]), batch.experience.timestep)


def map_windows(fn: Callable[[TimeStep], TimeStep], batch: Batch) -> Batch:
    """Applies a function of rows ``[R, ...]`` to all rows of windows ``[N, L, ...]``."""
    rows = fn(flatten_windows(batch))
    return with_timestep(batch, jax.tree.map(lambda x: x.reshape(*_shape(batch), *x.shape[1:]), rows))


def with_timestep(batch: Batch, timestep: TimeStep) -> Batch:
    """Returns the windows with other rows."""
    return dataclasses.replace(batch, experience=dataclasses.replace(batch.experience, timestep=timestep))


def _shape(batch: Batch) -> tuple[int, int]:
    return jax.tree.leaves(batch.experience.timestep)[0].shape[:2]
