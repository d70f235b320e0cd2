"""Choose, lane by lane, in which level or state the next episodes start."""

import dataclasses
from typing import Any, ClassVar, Literal, Self

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv._util.checks import check_mask
from jaxenv.core import Environment, TimeStep, Wrapper, layers
from jaxenv.core import _start as starts
from jaxenv.core._start import Start
from jaxenv.core.levels import refuse_given_levels
from jaxenv.random import KeyWords
from jaxenv.tree import Tree


@tree.struct
class LevelReplayState:
    """State of the environment inside, and where the next episodes start.

    Attributes:
        inner: the state of the environment inside.
        place: the levels, or the parts of states, leaves ``[B, ...]``.
        given: bool ``[B]``, whether they are used; the next episode of another lane starts in a new level.
    """

    inner: Tree
    place: Tree
    given: jax.Array


class LevelReplay(Wrapper):
    """Carries, for each lane of ``[B]``, the level in which its next episodes start, around ``AutoReset``.

    At first every episode starts in a new level. `assign` sets the levels of some lanes: their next episodes, those of
    `jaxenv.reset_where` included, start in them until `assign` or `release` changes that. The current episodes go on.
    ``reset`` and ``reset_where`` with levels assign them as well. ``LevelReplay(env).with_level(levels)`` assigns its
    levels at every ``reset`` and ``reset_where``, and what `assign` and `release` set in between holds until the next
    one. A lane carries one level, and no row holds it: the caller knows what it assigned, and ``given`` where. Put this
    wrapper outermost, where `assign` can be called.

    Args:
        env: an environment whose episodes start in JAX.
        of: ``"level"``, or ``"state"``: `assign` then takes states of ``env`` or of this wrapper, and an episode that
            starts in one is a new one, with a clock, time limit, statistics and stacked frames of its own.

    Raises:
        ValueError: for an ``env`` without levels, one that was given levels, or one with a ``LevelReplay``.

    >>> import jaxenv
    >>> env = LevelReplay(jaxenv.make("FrozenLake8x8-v1", num_envs=2))
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> level = jaxenv.sample_level(env, jax.random.key(1))
    >>> state = env.assign(state, level, jnp.array([True, False]))
    """

    of: Literal["level", "state"] = tree.static(default="level")
    _given: Start | None = tree.lanes_leaf(default=None, init=False)

    owns: ClassVar[frozenset[str]] = frozenset()
    in_evaluation = "left_out"
    place = "batch"

    def check(self) -> None:
        if any(isinstance(layer, LevelReplay) for layer in layers(self.env)):
            raise ValueError("LevelReplay: the environment inside already has a LevelReplay, one is enough")
        hint = "give them as LevelReplay(env).with_level(levels)" if self.of == "level" else "use one without them"
        refuse_given_levels("LevelReplay", self.env, hint)
        starts.level_shapes(self.env)  # raises where there are no levels

    def inner(self, state: LevelReplayState) -> Tree:
        return state.inner

    def assign(self, state: LevelReplayState, start: Tree, mask: jax.Array | None = None) -> LevelReplayState:
        """Lets the next episodes of the lanes in ``mask`` start in ``start``.

        Args:
            state: a state of this wrapper.
            start: levels ``[B, ...]``, with ``of="state"`` states of ``env`` or of this wrapper.
            mask: bool ``[B]``; all lanes by default. ``start`` is checked in all lanes.

        Raises:
            ValueError: for levels or states of another stack, another number of lanes, or levels that the task refuses.
        """
        _check_own("assign", state)
        if self.of == "level":
            given = starts.of_levels("assign", self.env, start)
        else:
            given = starts.of_states("assign", self.env, start.inner if isinstance(start, LevelReplayState) else start)
        lanes = state.given.shape[0]
        if given.num_lanes != lanes:
            raise ValueError(f"assign: start must hold {lanes} lanes, as the state, got {given.num_lanes}")
        mask = _mask("assign", mask, lanes)
        return dataclasses.replace(state, place=tree.where(mask, given.place, state.place), given=state.given | mask)

    def release(self, state: LevelReplayState, mask: jax.Array | None = None) -> LevelReplayState:
        """Lets the next episodes of the lanes in ``mask`` (bool ``[B]``, all by default) start in new levels."""
        _check_own("release", state)
        return dataclasses.replace(state, given=state.given & ~_mask("release", mask, state.given.shape[0]))

    def _with_start(self, start: Start) -> Self:
        if start.in_state != (self.of == "state"):
            kinds = ("a level", "a state") if self.of == "level" else ("a state", "a level")
            hint = f"build it with of={'state' if self.of == 'level' else 'level'!r}"
            raise ValueError(f"LevelReplay: its episodes start in {kinds[0]} and cannot start in {kinds[1]}, {hint}")
        return tree.rebuild(self, _given=start)

    def _inside(self, place: Tree, given: jax.Array) -> Environment:
        return self.env._with_start(Start(place, given, self.of == "state"))

    def begin(
        self, keys: KeyWords, env_id: jax.Array, episode: jax.Array, previous: LevelReplayState | None = None
    ) -> tuple[Tree, TimeStep]:
        if previous is None:
            place, given, inner = self._none(keys, env_id, episode), jnp.zeros(env_id.shape, bool), None
        else:
            place, given, inner = previous.place, previous.given, previous.inner
        if self._given is not None:
            place = self._given.or_else(lambda: place)
            given = jnp.ones_like(given) if self._given.given is None else given | self._given.given
        state, timestep = self._inside(place, given).begin(keys, env_id, episode, inner)
        return LevelReplayState(state, place, given), timestep

    def _none(self, keys: KeyWords, env_id: jax.Array, episode: jax.Array) -> Tree:
        """Returns zeros in the place of levels or states."""

        def places() -> Tree:
            if self.of == "level":
                return self.env._new_level(keys, env_id, episode)
            return self.env._start_of(self.env.begin(keys, env_id, episode)[0])

        return tree.vary_like(env_id, tree.zeros(jax.eval_shape(places)))

    def proceed(self, state: LevelReplayState, action: Tree) -> tuple[Tree, TimeStep]:
        inner, timestep = self._inside(state.place, state.given).proceed(state.inner, action)
        return LevelReplayState(inner, state.place, state.given), timestep


def _check_own(call: str, state: Any) -> None:
    if not isinstance(state, LevelReplayState):
        raise ValueError(
            f"{call}: state must be a LevelReplayState, got {type(state).__name__}: pass that of this wrapper"
        )


def _mask(call: str, mask: jax.Array | None, lanes: int) -> jax.Array:
    if mask is None:
        return jnp.ones(lanes, bool)
    check_mask(call, mask, lanes)
    return jnp.asarray(mask)
