"""The protocol: a batch of environments as a pair of pure functions.

An author writes what one kind of task does (`Environment.initial`, `transition`, `observe` and two specs); everything
about lanes, clocks, time steps, episodes and checks is written once, here. The file is long because it is the contract
that authors read: half of it is docstrings.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import actions, leaves, random, specs, tree
from jaxenv.random import Clock, Stream, Words
from jaxenv.timestep import StepType, TimeStep, restart

T = TypeVar("T")
Tree: TypeAlias = Any
AutoResetMode: TypeAlias = Literal["next_step", "same_step"] | None
ResetStrategy: TypeAlias = Literal["select", "guarded", "compact"]


@tree.struct
class Transition:
    """What one step of the task gives: the author's side of a TimeStep.

    Attributes:
        state: the task's next state, of the same structure, shapes and dtypes as ``initial`` gave.
        reward: float32 ``[B]`` (or ``[B, R]``).
        terminated: bool ``[B]``, whether the task itself ended. Time limits are not the task's business.
        env_info: dict of arrays ``[B, ...]`` about this transition; zero at FIRST.
    """

    state: Tree
    reward: jax.Array
    terminated: jax.Array
    env_info: dict[str, Tree] = dataclasses.field(default_factory=dict)


@tree.struct
class EnvState:
    """State of an environment: the lanes' clock and the task's own state, every leaf leading with ``[B]``."""

    clock: Clock
    task: Tree


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(tree.static, tree.leaf, tree.key_leaf))
def _frozen(cls: type[T]) -> type[T]:
    return dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(tree.static, tree.leaf, tree.key_leaf))
@_frozen
class Environment:
    """A batch of independent lanes of one task, as pure functions over arrays that lead with ``[B]``.

    Subclasses are frozen dataclasses and pytrees: numeric fields and ``params`` are leaves, fields declared by
    ``tree.static()`` are structure. A numeric leaf is shared by all lanes, or has one more axis: one value per lane.

    Attributes:
        num_envs: how many lanes ``reset(key)`` makes. Everything else takes the batch size from its arrays.
        name: the id under which the environment was made.
    """

    num_envs: int = tree.static(default=1, kw_only=True)
    name: str = tree.static(default="", kw_only=True)

    batched: ClassVar[bool] = True
    # Which way of restarting lanes is the faster here: one name, or one per platform with a "default" entry.
    reset_strategy: ClassVar[ResetStrategy | dict[str, ResetStrategy]] = "select"
    # Whether `make` guards the lanes against non-finite numbers although the actions are discrete.
    can_diverge: ClassVar[bool] = False
    # Whether a finite state always gives a finite observation, so that a guard need not look at it.
    finite_observation: ClassVar[bool] = False
    # Whether one step is a smooth function of params, state and action, so that gradients equal finite differences.
    smooth: ClassVar[bool] = False
    # Promises of `jaxenv.testing.PROPERTIES` that the class does not make: number to reason.
    opt_outs: ClassVar[Mapping[int, str]] = {}

    def __init_subclass__(cls, **kwargs) -> None:
        super().__init_subclass__(**kwargs)
        _frozen(cls)
        tree.register_unchecked(cls)

    def __post_init__(self) -> None:
        converted = leaves.map_declared(lambda d: leaves.number(str(self), d), self)
        for field in dataclasses.fields(self):
            value = getattr(converted, field.name)
            if field.metadata.get("static"):
                value = leaves.option(str(self), field.name, leaves.hashable(value), field.default)
            object.__setattr__(self, field.name, value)
        self.check()

    # --- what an author writes ---------------------------------------------------------------------------------------

    def initial(self, key: Stream) -> Tree:
        """The task state with which an episode starts, every leaf ``[B, ...]``; ``key`` holds one stream per lane."""
        raise NotImplementedError(f"{type(self).__name__}.initial")

    def transition(self, state: Tree, action: Tree, key: Stream) -> Transition:
        """One step of the task for all lanes. ``action`` fits ``action_spec`` (discrete ones are within bounds)."""
        raise NotImplementedError(f"{type(self).__name__}.transition")

    def observe(self, state: Tree) -> Tree:
        """The observation of a task state: a tree of arrays ``[B, ...]``."""
        raise NotImplementedError(f"{type(self).__name__}.observe")

    def observation_spec(self) -> Tree:
        """Spec of one lane's observation."""
        raise NotImplementedError(f"{type(self).__name__}.observation_spec")

    def action_spec(self) -> Tree:
        """Spec of one lane's action."""
        raise NotImplementedError(f"{type(self).__name__}.action_spec")

    def state_info(self, state: Tree) -> dict[str, Tree]:
        """``env_info`` entries that describe the state and are valid on every row, FIRST included. None by default."""
        return {}

    def carry(self, old: Tree, new: Tree) -> Tree:
        """What an episode starts with, given the last task state and a fresh one: keeps what outlives an episode."""
        return new

    def initial_bounds(self) -> tuple[tuple, tuple] | None:
        """Between which numbers ``initial`` draws uniformly: the lower and the upper ends, in the order of the leaves.

        A statement for tests to hold ``initial`` to, one number or ``[B]`` each; ``None``, the default, states nothing.
        """
        return None

    def check(self) -> None:
        """Checks the constructor's arguments; raises ``ValueError`` naming class, argument and value."""

    # --- reset and step ----------------------------------------------------------------------------------------------

    def reset(self, key: jax.Array, env_id: jax.Array | None = None) -> tuple[Tree, TimeStep]:
        """Starts every lane.

        Args:
            key: one typed key (lane i gets ``fold_in(key, env_id[i])``), or ``Key[B]`` with one key per lane.
            env_id: int32 ``[B]``, which lanes these are; ``0 .. B-1`` by default. Shards pass their global ids.

        Returns:
            The state and a TimeStep whose rows are all FIRST.
        """
        if env_id is None:
            count = key.shape[0] if getattr(key, "ndim", 0) == 1 else self.num_envs
            env_id = jnp.arange(count, dtype=jnp.int32)
        env_id = jnp.asarray(env_id, jnp.int32)
        words = random.lane_words(key, env_id)
        self.check_lanes(env_id.shape[0])
        state, timestep = self.begin(words, env_id, jnp.zeros_like(env_id))
        return tree.unshare(tree.vary_like(env_id, (state, timestep)))

    def begin(self, keys: Words, env_id: jax.Array, episode: jax.Array, previous: Tree = None) -> tuple[Tree, TimeStep]:
        """Starts an episode in every lane: the one primitive under ``reset``, ``AutoReset`` and ``reset_where``.

        Args:
            keys: the lanes' key words, two ``uint32[B]``.
            env_id: int32 ``[B]``.
            episode: int32 ``[B]``, the number of the episode in the lane's stream.
            previous: the state that the lanes come from, for what outlives an episode; ``None`` at first.
        """
        clock = Clock(keys, env_id, episode, jnp.zeros_like(episode))
        task = tree.strong(self.initial(clock.stream()))
        if previous is not None:
            task = self.carry(previous.task, task)
        _check_leading(self, "initial", task, env_id.shape)
        shapes = _transition_shapes(self, task, env_id.shape)
        timestep = restart(
            self._observation(task),
            batch_shape=env_id.shape,
            reward_shape=shapes.reward.shape[1:],
            prev_action=specs.zeros(self.action_spec(), env_id.shape),
            env_id=jnp.copy(env_id),
            env_info=self._env_info(tree.zeros(shapes.env_info), task),
        )
        return EnvState(clock, task), timestep

    def step(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        """Advances every lane by one step.

        Returns:
            State and TimeStep of the same structure, shapes and dtypes as ``reset`` gave, so that it scans.

        Raises:
            ValueError: at trace time, if the action's structure, shape, batch size or kind of dtype is not the spec's.
                Discrete actions out of range are clipped.
        """
        spec = self.action_spec()
        clock = state.clock.tick()
        action = actions.conform(spec, action, clock.step.shape[0], str(self))
        out = self.transition(state.task, actions.clip_discrete(spec, action), clock.stream())
        task = _checked_task(self, state.task, out.state)
        _check_leading(
            self,
            "transition",
            {"reward": out.reward, "terminated": out.terminated, "env_info": out.env_info},
            clock.step.shape,
        )
        if jnp.result_type(out.terminated) != jnp.bool_:
            raise ValueError(f"{self}.transition: terminated must be bool, got {jnp.result_type(out.terminated)}")
        timestep = TimeStep(
            step_type=jnp.where(out.terminated, np.int32(StepType.LAST), np.int32(StepType.MID)),
            reward=jnp.asarray(out.reward, jnp.float32),
            discount=jnp.where(out.terminated, np.float32(0), np.float32(1)),
            observation=self._observation(task),
            prev_action=actions.finite(action),
            env_id=clock.env_id,
            env_info=self._env_info(tree.strong(out.env_info), task),
        )
        # Copies where both show one array, so that donating the state never deletes the row. Compiled code has none.
        return tree.unshare(tree.vary_like(clock.env_id, (EnvState(clock, task), timestep)))

    def _observation(self, task: Tree) -> Tree:
        spec, observation = self.observation_spec(), self.observe(task)
        if tree.structure(observation) != tree.structure(spec):
            raise ValueError(
                f"{self}.observe: structure must be {tree.structure(spec)} as in observation_spec, "
                f"got {tree.structure(observation)}"
            )

        def cast(path, s, x):
            if jnp.shape(x)[1:] != s.shape:
                raise ValueError(
                    f"{self}.observe: {tree.path_name(path) or 'observation'} must have shape (lanes, *{s.shape}) "
                    f"as in {s}, got {jnp.shape(x)}"
                )
            return jax.lax.convert_element_type(x, s.dtype)

        return jax.tree_util.tree_map_with_path(cast, spec, observation)

    def _env_info(self, of_transition: dict, task: Tree) -> dict:
        of_state = tree.strong(self.state_info(task))
        if both := of_transition.keys() & of_state.keys():
            raise ValueError(f"{self}: env_info entries {sorted(both)} come from transition and from state_info")
        return {**of_transition, **of_state}

    def check_lanes(self, num_lanes: int) -> None:
        """Raises a ``ValueError`` unless every per-lane leaf of the stack holds ``num_lanes`` lanes, at least 1."""
        if num_lanes < 1:
            raise ValueError(f"{self}: num_envs must be at least 1, got {num_lanes}")
        for declared in leaves.declared_leaves(self):
            if declared.per_lane and np.shape(declared.value)[0] != num_lanes:
                raise ValueError(
                    f"{self}: {declared.path} holds {np.shape(declared.value)[0]} lanes, the batch has {num_lanes}"
                )

    # --- what a stack of wrappers answers as one environment ---------------------------------------------------------

    @property
    def batch_size(self) -> int:
        """The same number as ``num_envs``."""
        return self.num_envs

    @property
    def unwrapped(self) -> "Environment":
        """The environment itself, below all wrappers."""
        return self

    @property
    def autoreset(self) -> AutoResetMode:
        """The mode of the ``AutoReset`` in this stack, ``None`` if there is none."""
        return None

    def clock(self, state: Tree) -> Clock:
        """The lanes' clock in a state of this stack."""
        return state.clock

    def starts(self, timestep: TimeStep) -> jax.Array:
        """Lanes in which a new episode begins with this row's observation, bool ``[B]``.

        It is ``is_first()``, and in ``same_step`` streams ``is_first() | is_last()``.
        """
        return timestep.is_first()

    @property
    def shows_state(self) -> bool:
        """Whether the observation on every row is a function of the state alone, which ``observation_of`` computes."""
        return True

    def observation_of(self, state: Tree) -> Tree:
        """The observation that a row shows for a state of this stack, where it ``shows_state``."""
        return self._observation(state.task)

    def info_of_state(self, state: Tree) -> dict[str, Tree]:
        """The ``env_info`` entries that describe the state, for a state of the whole stack."""
        return tree.strong(self.state_info(state.task))

    def take(self, index: jax.Array) -> Self:
        """The environment of lanes ``index`` (int32 ``[K]``): every per-lane leaf gathered, the rest untouched."""

        def rows(d: leaves.Declared):
            return jnp.asarray(d.value).at[index].get(mode="clip") if d.per_lane else d.value

        return leaves.map_declared(rows, self)._with_num_envs(index.shape[0])

    def _with_num_envs(self, num_envs: int) -> Self:
        return tree.rebuild(self, num_envs=num_envs)

    def with_params(self, **values) -> Self:
        """A new environment whose params have other values; it reaches through wrappers.

        Args:
            **values: one number for all lanes, or an array with one more axis for one per lane.

        Raises:
            ValueError: for an unknown name (the valid ones are listed), text, a non-finite or fractional number where
                that is wrong, or a number of lanes other than ``num_envs``.
        """
        params = getattr(self, "params", None)
        valid = [f.name for f in dataclasses.fields(params)] if params is not None else []
        if unknown := sorted(values.keys() - set(valid)):
            raise ValueError(f"{self}: no param {unknown[0]!r}, the params are {', '.join(valid) or '(none)'}")
        return self._accept(tree.rebuild(self, params=tree.rebuild(params, **values)))

    def _accept(self, changed: Self) -> Self:
        """Checks and converts the leaves of a changed copy, as the constructor does."""
        converted = leaves.map_declared(lambda d: leaves.number(str(self), d), changed)
        for d in leaves.declared_leaves(converted):
            if d.per_lane and leaves.is_concrete(d.value) and d.value.shape[0] != self.num_envs:
                raise ValueError(
                    f"{self}: {d.path} has {d.value.shape[0]} values, one per lane would be num_envs = {self.num_envs}"
                )
        converted.check()
        return converted

    # --- specs -------------------------------------------------------------------------------------------------------

    def reward_spec(self) -> specs.Array:
        """Spec of one lane's reward, from what ``step`` returns: float32 ``()`` or ``(R,)``."""
        reward = self._first_shapes().reward
        return specs.Array(reward.shape[1:], reward.dtype, "reward")

    def discount_spec(self) -> specs.Bounded:
        """Spec of the discount: float32 in [0, 1]."""
        return specs.Bounded((), np.float32, 0.0, 1.0, "discount")

    def env_info_spec(self) -> dict[str, Tree]:
        """Specs of the ``env_info`` entries, from what ``reset`` returns."""
        return specs.unbatched(self._first_shapes().env_info)

    def time_step_spec(self) -> TimeStep:
        """Specs of all fields of a TimeStep; ``prev_action`` starts from zeros, which its bounds may exclude."""
        return TimeStep(
            step_type=specs.Array((), np.int32, "step_type"),
            reward=self.reward_spec(),
            discount=self.discount_spec(),
            observation=self.observation_spec(),
            prev_action=self.action_spec(),
            env_id=specs.Array((), np.int32, "env_id"),
            env_info=self.env_info_spec(),
        )

    @property
    def spec_lanes(self) -> int:
        """The number of lanes to derive specs with: that of the per-lane leaves, which inside a shard is not all."""
        per_lane = [np.shape(d.value)[0] for d in leaves.declared_leaves(self) if d.per_lane]
        return per_lane[0] if per_lane else self.num_envs

    def _first_shapes(self) -> TimeStep:
        """Shapes and dtypes of a batch of FIRST rows; nothing is computed."""
        lanes = (self.spec_lanes,)
        word, number = jax.ShapeDtypeStruct(lanes, jnp.uint32), jax.ShapeDtypeStruct(lanes, jnp.int32)
        return jax.eval_shape(lambda env, *args: env.begin(*args)[1], self, (word, word), number, number)

    # --- the rest ----------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        """The stack as text: one line a level from the outside in, then its lanes and specs.

        A level tells the bytes of state that it adds to a lane, what is shared by all lanes apart, and observation and
        action where they are not those of the level inside.
        """
        levels = self._levels()
        weights = [state_bytes(level) for level in levels]
        told = list(map(_told, levels, [*levels[1:], None], weights, [*weights[1:], (0, 0)]))
        width = max(len(level._title()) for level in levels)
        lines = [f"{level._title():<{width}}  {text}".rstrip() for level, text in zip(levels, told, strict=True)]
        own, shared = weights[0]
        weight = f"{own} bytes of state a lane" + (f" and {shared} shared" if shared else "")
        lines.append(f"lanes {self.num_envs}, autoreset {self.autoreset}, {weight}")
        return "\n".join([*lines, f"observation {self.observation_spec()}", f"action {self.action_spec()}"])

    def _levels(self) -> list["Environment"]:
        return [self]

    def _title(self) -> str:
        return f"{self.name or type(self).__name__}{arguments(self)}"

    def close(self) -> None:
        """Frees what the environment holds outside JAX: nothing here; suites that run processes override it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.name or type(self).__name__}>"


def reset_where(
    env: Environment, state: Tree, timestep: TimeStep, mask: jax.Array, key: jax.Array | None = None
) -> tuple[Tree, TimeStep]:
    """Restarts the lanes of ``mask`` and returns the whole batch; the other lanes are untouched.

    Args:
        env: any environment; the way to reset by hand where there is no ``AutoReset``.
        state: the current state.
        timestep: the TimeStep that goes with it.
        mask: bool ``[B]``, which lanes to restart.
        key: without it each lane goes on to the next episode of its own stream; with one typed key or ``Key[B]`` the
            restarted lanes get new keys and start again from episode 0. Either way they keep what outlives an episode
            (`Environment.carry`, statistics of the batch); ``env.reset`` makes lanes that remember nothing.

    Raises:
        ValueError: at trace time, if ``mask`` is not bool ``[B]``.
    """
    clock = env.clock(state)
    if jnp.shape(mask) != clock.env_id.shape or jnp.result_type(mask) != jnp.bool_:
        raise ValueError(
            f"reset_where: mask must be bool{list(clock.env_id.shape)}, "
            f"got {jnp.result_type(mask)}{list(jnp.shape(mask))}"
        )
    keys = clock.key if key is None else random.lane_words(key, clock.env_id)
    episode = clock.episode + 1 if key is None else jnp.zeros_like(clock.episode)
    fresh = tree.detach(env.begin(keys, clock.env_id, episode, previous=state))
    return tree.where(mask, fresh, (state, timestep))


# --- checks at trace time --------------------------------------------------------------------------------------------


def arguments(env: Environment) -> str:
    """The options of one level as text, for ``describe``."""
    shown = []
    for field in dataclasses.fields(env):
        value = getattr(env, field.name)
        if field.name in ("num_envs", "name") or dataclasses.is_dataclass(value):
            continue
        per_lane = np.ndim(value) > field.metadata.get("rank", 0) and not field.metadata.get("static")
        if isinstance(value, np.ndarray) and not value.ndim:
            value = value[()]  # which shows float32 as short as it is
        shown.append(f"{field.name}=<per lane>" if per_lane else f"{field.name}={value!s}")
    return f"({', '.join(shown)})" if shown else ""


def _told(level: Environment, inside: Environment | None, weight: tuple[int, int], below: tuple[int, int]) -> str:
    """What a level adds to the one inside: bytes of state (of which both weights tell), other observations, actions."""
    told = [
        f"+{own - inner} B{which}"
        for own, inner, which in zip(weight, below, ("", " shared"), strict=True)
        if own > inner
    ]
    for what in ("observation", "action"):
        shown, inner = (_short(getattr(env, f"{what}_spec")()) if env else "" for env in (level, inside))
        told += [f"{what} {shown}"] if shown != inner else []
    return ", ".join(told)


def state_bytes(env: Environment) -> tuple[int, int]:
    """What a lane's state weighs, and what all lanes share."""
    state, _ = jax.eval_shape(lambda env, key: env.reset(key), env, jax.random.key(0))
    shared = [x for x in jax.tree.leaves(state, is_leaf=tree.is_shared) if tree.is_shared(x)]
    total, together = (sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(t)) for t in (state, shared))
    return (total - together) // env.num_envs, together


def _short(spec: Tree) -> str:
    """Dtypes and shapes of a tree of specs: ``{'image': uint8[4, 4, 3]}``."""
    return str(jax.tree.map(lambda s: _Plain(f"{s.dtype}{list(s.shape)}"), spec))


class _Plain(str):
    __slots__ = ()
    __repr__ = str.__str__


def _check_leading(env: Environment, method: str, outputs: Tree, batch: tuple[int, ...]) -> None:
    for path, x in jax.tree_util.tree_leaves_with_path(outputs):
        if jnp.shape(x)[:1] != batch:
            raise ValueError(
                f"{env}.{method}: every array must lead with the {batch[0]} lanes, "
                f"{tree.path_name(path) or 'an output'} has shape {jnp.shape(x)}"
            )


def _checked_task(env: Environment, old: Tree, new: Tree) -> Tree:
    if tree.structure(old) != tree.structure(new):
        raise ValueError(
            f"{env}.transition: the state's structure must stay {tree.structure(old)}, got {tree.structure(new)}"
        )
    new = tree.strong(new)
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(old), jax.tree.leaves(new), strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise ValueError(
                f"{env}.transition: state leaf {tree.path_name(path) or 'state'} must stay {a.dtype}{list(a.shape)} "
                f"as initial made it, got {b.dtype}{list(b.shape)}"
            )
    return new


def _transition_shapes(env: Environment, task: Tree, batch: tuple[int, ...]) -> Transition:
    """Shapes of what ``transition`` returns, remembered: it is traced once, not at every reset."""
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), (env, task))
    leaves, structure = tree.flatten(shapes)
    return _cached_transition_shapes(structure, tuple(leaves), batch, jax.config.read("jax_enable_x64"))


@functools.lru_cache(maxsize=1024)
def _cached_transition_shapes(structure, leaves, batch, _x64) -> Transition:
    env, task = structure.unflatten(leaves)
    word = jax.ShapeDtypeStruct(batch, jnp.uint32)
    action = jax.tree.map(lambda s: jax.ShapeDtypeStruct((*batch, *s.shape), s.dtype), env.action_spec())
    out = jax.eval_shape(type(env).transition, env, task, action, Stream(word, word, word, word))
    return dataclasses.replace(out, state=())
