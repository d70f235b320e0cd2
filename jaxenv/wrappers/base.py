"""Bases for wrappers: three of one function each, one with state per lane, one with state of the whole batch."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _actions, _xla, specs, tree
from jaxenv.random import Stream
from jaxenv.timestep import TimeStep
from jaxenv.tree import Tree
from jaxenv.wrapper import Wrapper, layers


class ActionWrapper(Wrapper):
    """Maps the agent's action, a tree of ``[B, ...]``, to the one for ``env``. Write ``action`` and ``action_spec``.

    Owns ``prev_action``: the agent's action, as it was given, zeros at FIRST.
    """

    owns: ClassVar[frozenset[str]] = frozenset({"prev_action"})

    def action(self, action: Tree) -> Tree:
        """The inner action for an action that fits ``action_spec`` (``[B, ...]``; discrete ones are within bounds)."""
        raise NotImplementedError(f"{type(self).__name__}.action")

    def begin(self, keys, env_id, episode, previous=None):
        state, timestep = self.env.begin(keys, env_id, episode, previous)
        return state, dataclasses.replace(timestep, prev_action=specs.zeros(self.action_spec(), env_id.shape))

    def step(self, state, action):
        spec = self.action_spec()
        given = _actions.conform(spec, action, num_lanes(self, state), str(self))
        state, timestep = self.env.step(state, self.action(_actions.clip_discrete(spec, given)))
        return state, with_prev_action(self, timestep, given)


class ObservationWrapper(Wrapper):
    """Maps the observation, a tree of ``[B, ...]``. Write ``observation``, and ``observation_spec`` for its bounds.

    Owns ``observation``; ``env_info["final_observation"]`` is mapped alike.
    """

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})

    def observation(self, observation: Tree) -> Tree:
        """The new observation for a batch of inner ones, ``[B, ...]``."""
        raise NotImplementedError(f"{type(self).__name__}.observation")

    def observation_spec(self):
        """Shapes and dtypes of what ``observation`` returns, without bounds."""
        return mapped_spec(self.observation, self.env.observation_spec(), self.spec_lanes)

    @property
    def shows_state(self):
        return self.env.shows_state

    def observation_of(self, state):
        return tree.strong(self.observation(self.env.observation_of(self.inner(state))))

    def begin(self, keys, env_id, episode, previous=None):
        state, timestep = self.env.begin(keys, env_id, episode, previous)
        return state, map_observation(self.observation, timestep)

    def step(self, state, action):
        state, timestep = self.env.step(state, action)
        return state, map_observation(self.observation, timestep)


class RewardWrapper(Wrapper):
    """Maps the reward (float32 ``[B]`` or ``[B, R]``). Write ``reward``. At FIRST it is not applied: there it stays 0.

    Owns ``reward``.
    """

    owns: ClassVar[frozenset[str]] = frozenset({"reward"})

    def reward(self, reward: jax.Array) -> jax.Array:
        """The new reward for a batch of inner ones: float32 ``[B]`` or ``[B, R]``."""
        raise NotImplementedError(f"{type(self).__name__}.reward")

    def reward_spec(self):
        """Shape of what ``reward`` returns, without bounds."""
        spec = mapped_spec(self.reward, self.env.reward_spec(), self.spec_lanes)
        return spec.replace(dtype=np.float32, name="reward")

    def begin(self, keys, env_id, episode, previous=None):
        state, timestep = self.env.begin(keys, env_id, episode, previous)
        return state, self._paid(timestep)

    def step(self, state, action):
        state, timestep = self.env.step(state, action)
        return state, self._paid(timestep)

    def _paid(self, timestep: TimeStep) -> TimeStep:
        reward = jnp.asarray(self.reward(timestep.reward), jnp.float32)
        first = tree.expand(timestep.is_first(), reward.ndim)
        return dataclasses.replace(timestep, reward=jnp.where(first, jnp.zeros_like(reward), reward))


@tree.struct
class LaneState:
    """State of a wrapper with lane state: that of ``env`` and its own, every leaf leading with ``[B]``."""

    inner: Tree
    own: Tree


class LaneWrapper(Wrapper):
    """Carries state per lane that begins anew with every episode. Write ``init`` and what you need of the rest.

    The base calls ``init`` by mask wherever an episode starts, so a wrapper is right on either side of ``AutoReset``.
    The fields that ``after`` rewrites must be declared in ``owns``. Each hook gets a stream of its own, a function of
    the clock and of the wrapper's class and place among its class. In ``same_step`` streams a lane wrapper that
    rewrites observations or actions belongs inside ``AutoReset``.
    """

    owns: ClassVar[frozenset[str]] = frozenset()

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        """The wrapper's state for an episode that starts with the observation on ``timestep``: leaves ``[B, ...]``."""
        raise NotImplementedError(f"{type(self).__name__}.init")

    def before(self, own: Tree, action: Tree, stream: Stream) -> tuple[Tree, Tree]:
        """Runs ahead of every inner step: new own state and the action to pass in. Passes both on by default."""
        return own, action

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        """Runs on every row, FIRST included: new own state and the row to pass out. Passes both on by default."""
        return own, timestep

    def __post_init__(self):
        super().__post_init__()
        if self.autoreset == "same_step" and self.rewrites:
            raise ValueError(
                f"{type(self).__name__}: it rewrites {', '.join(sorted(self.rewrites))}, which outside a same_step "
                "AutoReset cannot be right on the row that ends one episode and shows the next: put it inside AutoReset"
            )

    def inner(self, state):
        return state.inner

    def begin(self, keys, env_id, episode, previous=None):
        state, timestep = self.env.begin(keys, env_id, episode, None if previous is None else previous.inner)
        clock = self.env.clock(state)
        own = tree.strong(self.init(timestep, self._stream(clock, "init")))
        own, timestep = self._after(own, timestep, clock)
        if self._acts:
            zeros = specs.zeros(self.action_spec(), env_id.shape)
            timestep = dataclasses.replace(timestep, prev_action=zeros)
        return _xla.unshare((LaneState(state, tree.strong(own)), timestep))

    def step(self, state, action):
        own = state.own
        if self._acts:
            spec = self.action_spec()
            action = _actions.conform(spec, action, num_lanes(self, state), str(self))
            stream = self._stream(self.clock(state), "before")
            own, inner_action = self.before(own, _actions.clip_discrete(spec, action), stream)
        else:
            inner_action = action
        inner, timestep = self.env.step(state.inner, inner_action)
        own, timestep = self._advance(own, timestep, self.clock(state).tick(), self.env.clock(inner))
        if self._acts:
            timestep = with_prev_action(self, timestep, action)
        return _xla.unshare((LaneState(inner, tree.strong(own)), timestep))

    def _advance(self, own, timestep, ticked, clock):
        """Own state and row after a step; ``ticked`` is the clock that was, a step later, ``clock`` the one that is."""
        if self.autoreset is None:  # Episodes begin by `begin` alone.
            return self._after(own, timestep, ticked)
        fresh = tree.strong(self.init(timestep, self._stream(clock, "init")))
        if self.autoreset == "next_step":
            first = timestep.is_first()
            return self._after(tree.where(first, fresh, own), timestep, tree.where(first, clock, ticked))
        # same_step: the LAST row still belongs to the episode that it ends.
        own, row = self._after(own, timestep, ticked)
        return tree.where(self.env.starts(timestep), fresh, tree.strong(own)), row

    def _after(self, own, timestep, clock):
        own, row = self.after(own, timestep, self._stream(clock, "after"))
        check_owned(self, timestep, row)
        return own, row

    @property
    def rewrites(self) -> frozenset[str]:
        """Of observation and action, what the wrapper changes: such wrappers stand inside a ``same_step`` AutoReset."""
        return (self.owns & {"observation", "prev_action"}) | ({"prev_action"} if self._acts else frozenset())

    @property
    def _acts(self) -> bool:
        return type(self).before is not LaneWrapper.before

    def _stream(self, clock, hook: str) -> Stream:
        name = type(self).__name__
        ordinal = sum(type(layer).__name__ == name for layer in layers(self.env))
        return clock.stream("wrapper", f"{name}/{ordinal}/{hook}")


@tree.struct
class BatchState:
    """State of a wrapper with batch state: that of ``env``, what all lanes share, and what each lane has of its own."""

    inner: Tree
    shared: tree.Shared
    lanes: Tree


class BatchWrapper(Wrapper):
    """Carries state of the whole batch, a running mean say, that survives episodes. Write ``init`` and ``after``.

    Its leaves need not lead with the lanes ``[B]``; state per lane may stand beside it (``init_lanes``).

    It stands outside ``AutoReset``. A lane that starts anew through ``reset_where`` is passed through the statistics as
    they are.

    Args:
        env: any environment.
        frozen: rows no longer change the statistics.
        axis_name: a mesh axis over which ``after`` sums, so that all shards hold the same statistics.
    """

    owns: ClassVar[frozenset[str]] = frozenset()
    opt_outs = dict.fromkeys(
        (
            "sharding_invariant",
            "batch_equals_single_lanes",
            "permutation_equivariant",
            "lane_independent",
            "nan_contained",
            "any_number_of_lanes",
            "growth_invariant",
        ),
        "all lanes share its state",
    )

    frozen: bool = tree.static(default=False, kw_only=True)
    axis_name: str | None = tree.static(default=None, kw_only=True)

    def init(self, timestep: TimeStep) -> Tree:
        """The statistics before any row was seen; leaves need not lead with ``[B]``."""
        raise NotImplementedError(f"{type(self).__name__}.init")

    def init_lanes(self, timestep: TimeStep) -> Tree:
        """State per lane, leaves ``[B, ...]``, that begins anew with every episode; none by default."""
        return ()

    def after(self, shared: Tree, lanes: Tree, timestep: TimeStep, learn: bool) -> tuple[Tree, Tree, TimeStep]:
        """Takes a batch of rows: new statistics, new state per lane and the rows to pass out.

        With ``learn=False`` (frozen, or rows of which some are not real) the rows must not enter the statistics: what
        is returned for them is dropped, and the rows are to be passed through those that were given.
        """
        raise NotImplementedError(f"{type(self).__name__}.after")

    def statistics(self, state: Tree) -> Tree:
        """What all lanes share, in a state of this wrapper."""
        return state.shared.value

    def with_statistics(self, state: Tree, statistics: Tree) -> Tree:
        """The state with other statistics, saved ones say: NumPy arrays will do.

        A row that was shown before stays as it is; to show it anew, start the lanes again by ``reset_where``.

        Raises:
            ValueError: if structure, a shape or a dtype differs from the statistics in ``state``.
        """
        try:
            specs.validate(specs.from_array(state.shared.value), statistics)
        except ValueError as difference:
            raise ValueError(f"{type(self).__name__}: statistics do not fit: {difference}") from None
        return dataclasses.replace(state, shared=tree.Shared(jax.tree.map(jnp.asarray, statistics)))

    def inner(self, state):
        return state.inner

    def begin(self, keys, env_id, episode, previous=None):
        state, timestep = self.env.begin(keys, env_id, episode, None if previous is None else previous.inner)
        lanes = tree.strong(self.init_lanes(timestep))
        if previous is None:
            shared = tree.strong(self.init(timestep))
            if self.axis_name is None:  # A shard with statistics of its own: they vary from the start, or no scan fits.
                shared = _xla.vary_like(env_id, shared)
            return self._see(state, shared, lanes, timestep, not self.frozen)
        # Of these rows only those of restarted lanes will be seen by anybody.
        return self._see(state, previous.shared.value, lanes, timestep, False)

    def step(self, state, action):
        inner, timestep = self.env.step(state.inner, action)
        shared, lanes, learn = state.shared.value, state.lanes, not self.frozen
        if self.autoreset is None:
            return self._see(inner, shared, lanes, timestep, learn)
        fresh = tree.strong(self.init_lanes(timestep))
        if self.autoreset == "next_step":
            lanes = tree.where(timestep.is_first(), fresh, lanes)
            return self._see(inner, shared, lanes, timestep, learn)
        new, row = self._see(inner, shared, lanes, timestep, learn)
        return dataclasses.replace(new, lanes=tree.where(self.env.starts(timestep), fresh, new.lanes)), row

    def _see(self, inner, shared, lanes, timestep, learn: bool):
        # Statistics are constants to differentiation: they would carry a gradient over the start of an episode.
        new, lanes, row = self.after(tree.detach(shared), lanes, timestep, learn)
        check_owned(self, timestep, row)
        shared = tree.Shared(tree.strong(new) if learn else shared)
        return _xla.unshare((BatchState(inner, shared, tree.strong(lanes)), row))


# --- what the bases share --------------------------------------------------------------------------------------------


def num_lanes(env: Wrapper, state: Tree) -> int:
    """Number of lanes in a state."""
    return env.clock(state).env_id.shape[0]


def check_owned(wrapper: Wrapper, given: TimeStep, row: TimeStep) -> None:
    """Raises a ``ValueError`` at trace time if a row was changed in a field that the wrapper does not own.

    With the observation it owns ``env_info["final_observation"]``.
    """
    if "observation" in wrapper.owns:
        given, row = _without_final(given), _without_final(row)
    for field in dataclasses.fields(TimeStep):
        before, after = (jax.tree.leaves(getattr(t, field.name)) for t in (given, row))
        same = len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True))
        if not same and field.name not in wrapper.owns:
            raise ValueError(
                f"{type(wrapper).__name__}.after: it changes {field.name} and owns "
                f"{', '.join(sorted(wrapper.owns)) or 'nothing'}: add {field.name!r} to owns"
            )


def _without_final(timestep: TimeStep) -> TimeStep:
    kept = {name: entry for name, entry in timestep.env_info.items() if name != "final_observation"}
    return dataclasses.replace(timestep, env_info=kept)


def chosen(name: str, observation: Tree, fields: tuple[str, ...] | None, floats: bool = False) -> Tree:
    """Which leaves of an observation (arrays or specs) a wrapper is to change: a tree of bools like it.

    Args:
        name: of the wrapper, for errors.
        observation: the tree.
        fields: dotted paths of subtrees; ``None`` for the whole.
        floats: only leaves of a floating dtype, and every path must lead to one.
    """
    if isinstance(fields, str):
        raise ValueError(f"{name}: fields must be a tuple of dotted paths, got {fields!r}")
    if fields is not None and not fields:
        raise ValueError(f"{name}: fields must name at least one part, got {fields}")

    def fits(leaf) -> bool:
        return not floats or bool(jnp.issubdtype(leaf.dtype, jnp.floating))

    inside = jax.tree.map(lambda _: False, observation)
    for path in ("",) if fields is None else fields:
        try:
            below = tree.get_field(observation, path)
        except ValueError as unknown:
            raise ValueError(f"{name}: {unknown}") from None
        if not any(fits(leaf) for leaf in jax.tree.leaves(below)):
            raise ValueError(f"{name}: there must be a float array in {path or 'the observation'}, got {below}")
        inside = tree.set_field(inside, path, jax.tree.map(fits, below))
    return inside


def with_prev_action(env: Wrapper, timestep: TimeStep, given: Tree) -> TimeStep:
    """The row with the agent's action in ``prev_action``: as given, 0 where not finite, zeros at FIRST."""
    given = _actions.finite(given)
    if env.autoreset is not None:
        given = tree.where(timestep.is_first(), jax.tree.map(jnp.zeros_like, given), given)
    return dataclasses.replace(timestep, prev_action=given)


def summable(x: jax.Array) -> jax.Array:
    """Lanes, bool ``[B]``, in which all numbers are finite and so far from overflow that squares can be summed."""
    return jnp.all(jnp.abs(x.astype(jnp.float32)) < np.float32(1e15), axis=tuple(range(1, x.ndim)))


def map_observation(fn: Any, timestep: TimeStep) -> TimeStep:
    """Applies ``fn`` to the observation and to ``env_info["final_observation"]`` where that is kept."""
    env_info = timestep.env_info
    if "final_observation" in env_info:
        env_info = {**env_info, "final_observation": tree.strong(fn(env_info["final_observation"]))}
    return dataclasses.replace(timestep, observation=tree.strong(fn(timestep.observation)), env_info=env_info)


def mapped_spec(fn: Any, spec: Tree, lanes: int) -> Tree:
    """Specs of what ``fn`` makes of a batch that fits ``spec``: shapes and dtypes, no bounds."""
    batch = jax.tree.map(lambda s: jax.ShapeDtypeStruct((lanes, *s.shape), s.dtype), spec)
    return specs.unbatched(jax.eval_shape(fn, batch))
