"""Choose, lane by lane, in which level or state the next episodes start."""

from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv._util.checks import check_mask
from jaxenv.core import Place, Starts, Stateful, TimeStep, layers
from jaxenv.core._checks.given import check_num_places, level_shapes, place_of_levels, place_of_states
from jaxenv.core.levels import refuse_given_levels, starting_at
from jaxenv.tree import Tree


@tree.struct
class LevelReplayState:
    """State of the environment inside, and where the next episodes start.

    Attributes:
        inner: the state of the environment inside.
        next: a `Place`; where agents are lanes it has a leading axis of games, in `jaxenv.tree.Grouped`.
    """

    inner: Tree
    next: Any

    @property
    def values(self) -> Tree:
        """The levels, or the parts of states, leaves ``[B, ...]``."""
        return self._next.values

    @property
    def given(self) -> jax.Array:
        """Whether they are used, bool ``[B]``; the next episode of another lane starts in a new level."""
        return self._next.given

    @property
    def _next(self) -> Any:
        return self.next.value if isinstance(self.next, tree.Grouped) else self.next


class LevelReplay(Stateful):
    """Carries, for each lane of ``[B]``, the level in which its next episodes start, around ``AutoReset``.

    At first every episode starts in a new level. `assign` sets the levels of some lanes: their next episodes (also
    after `jaxenv.reset_where`) start in them until `assign` or `release` changes that. The current episodes go on.
    ``reset`` and ``reset_where`` with levels assign them as well. A lane without an assigned level starts in a new one,
    or in its level of ``with_level``. A lane carries one level, and no row holds it: the caller knows what it assigned,
    and ``given`` where. Put this wrapper outermost, where `assign` can be called. Where agents are lanes, levels and
    masks are per game.

    Args:
        env: an environment whose episodes start in JAX.
        of: ``"level"``, or ``"state"``: `assign` then takes states of ``env`` or of this wrapper, and an episode that
            starts in one is a new one, with a clock, time limit, statistics and stacked frames of its own.

    Raises:
        ValueError: for an ``env`` without levels or with a ``LevelReplay``, and for ``of="state"`` around levels of
            ``with_level``.

    >>> import jaxenv
    >>> env = LevelReplay(jaxenv.make("FrozenLake8x8-v1", num_envs=2))
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> level = jaxenv.sample_level(env, jax.random.key(1))
    >>> state = env.assign(state, level, jnp.array([True, False]))
    """

    of: Literal["level", "state"] = tree.static(default="level")

    owns: ClassVar[frozenset[str]] = frozenset()
    in_evaluation = "left_out"
    place = "batch"

    def check(self) -> None:
        if any(isinstance(layer, LevelReplay) for layer in layers(self.env)):
            raise ValueError("LevelReplay: the environment inside already has a LevelReplay, one is enough")
        if self.of == "state":
            refuse_given_levels("LevelReplay", self.env, "leave out with_level, or build it with of='level'")
        level_shapes(self.env)  # raises where there are none

    def assign(self, state: LevelReplayState, start: Tree, mask: jax.Array | None = None) -> LevelReplayState:
        """Lets the next episodes of the lanes in ``mask`` start in ``start``.

        Args:
            state: a state of this wrapper.
            start: levels ``[B, ...]``, with ``of="state"`` states of ``env`` or of this wrapper.
            mask: bool ``[B]``; all lanes by default. ``start`` is checked in all lanes.
        """
        _check_own("assign", state)
        if self.of == "level":
            place = place_of_levels("assign", self.env, start)
        else:
            given = start.inner if isinstance(start, LevelReplayState) else start
            place = place_of_states("assign", self.env, given)
        check_num_places("assign: start", self.env, place, self.clock(state).env_id.shape[0])
        mask = _mask("assign", mask, state.given.shape[0])
        return self._state(state.inner, tree.where(mask, place.values, state.values), state.given | mask)

    def release(self, state: LevelReplayState, mask: jax.Array | None = None) -> LevelReplayState:
        """Lets the next episodes of the lanes in ``mask`` (bool ``[B]``, all by default) start in other levels."""
        _check_own("release", state)
        return self._state(state.inner, state.values, state.given & ~_mask("release", mask, state.given.shape[0]))

    def _place(self, values: Tree, given: jax.Array) -> Place:
        return Place(values, given, in_state=self.of == "state")

    def _state(self, inner: Tree, values: Tree, given: jax.Array) -> LevelReplayState:
        place = self._place(values, given)
        return LevelReplayState(inner, tree.Grouped(place) if self.lanes_per_game > 1 else place)

    def begin(self, starts: Starts, previous: LevelReplayState | None = None) -> tuple[Tree, TimeStep]:
        values, given = self._nothing(starts) if previous is None else (previous.values, previous.given)
        if (new := starts.place) is not None:
            if new.in_state != (self.of == "state"):
                other = "state" if self.of == "level" else "level"
                rule = f"its episodes start in a {self.of} and cannot start in a {other}"
                raise ValueError(f"LevelReplay: {rule}, build it with of={other!r}")
            old = values
            values = new.or_else(lambda: old)
            given = jnp.ones_like(given) if new.given is None else new.given | given
        state, timestep = super().begin(starts.at(self._place(values, given)), previous)
        return self._state(state, values, given), timestep

    def _nothing(self, starts: Starts) -> tuple[Tree, jax.Array]:
        """Returns zeros in the place of levels or states, given to no lane."""
        levels = self.env.levels()
        shapes = jax.eval_shape(
            lambda: levels.sample(starts) if self.of == "level" else levels.of_state(self.env.begin(starts)[0])
        )
        zeros = tree.vary_like(starts.env_id, tree.zeros(shapes))
        return zeros, jnp.zeros_like(starts.env_id[:: self.lanes_per_game], bool)

    def proceed(self, state: LevelReplayState, action: Tree) -> tuple[Tree, TimeStep]:
        env = self.env if self.autoreset is None else starting_at(self.env, self._place(state.values, state.given))
        inner, timestep = env.proceed(state.inner, action)
        return self._state(inner, state.values, state.given), timestep


def _check_own(call: str, state: Any) -> None:
    if not isinstance(state, LevelReplayState):
        rule = "state must be a LevelReplayState"
        raise ValueError(f"{call}: {rule}, got {type(state).__name__}: pass the state of this wrapper")


def _mask(call: str, mask: jax.Array | None, lanes: int) -> jax.Array:
    if mask is None:
        return jnp.ones(lanes, bool)
    check_mask(call, mask, lanes)
    return jnp.asarray(mask)
