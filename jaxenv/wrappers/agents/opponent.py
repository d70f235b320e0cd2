"""Let a policy play the other side of a game of two."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import (
    Facts,
    LaneState,
    Starts,
    Stateful,
    TimeStep,
    check_callable,
    combined_info,
    conform,
    has_batch_state,
    reporting,
)
from jaxenv.random import fold_in, integers
from jaxenv.tree import Tree

Side = Literal["first", "second", "drawn"]


@tree.struct
class Seat:
    """The agent's side in each lane, 0 or 1, and its opponent's number in the league, both int32 ``[B]``."""

    side: jax.Array
    member: jax.Array


class Opponent(Stateful):
    """Turns a game of two into a task of one agent: a policy answers each of its moves inside the step.

    A step is the agent's move and the answer, without one where the move ends the game. The reward, float32 ``[B]``, is
    the agent's column of the rewards of both moves. Observation and ``env_info`` come from the last move; where the
    game goes on it is the agent's turn. On a LAST row they are from the view of the agent whose turn it would be.

    The opponent draws from a separate stream. Its weights are data: `with_weights` exchanges them without another
    compilation, so a learner can play its past selves. A move of a policy that is out of range is clipped;
    `jaxenv.testing.checked` raises there. With a ``league``, each episode draws one of several sets of weights. Owns
    all fields except ``env_id``.

    Args:
        env: a game of two agents that alternate, without ``AutoReset`` and without batch state.
        policy: a function ``policy(timestep, stream)``, or ``policy(timestep, stream, weights)`` with weights, that
            returns the actions ``[B, ...]`` of the agent to move; ``None`` for a random legal action.
        side: the side of the agent: ``"first"`` moves first, ``"second"`` second; ``"drawn"`` draws it per episode. In
            a level the player to move is first. An episode that starts in a state of the stack (``from_state``) goes on
            with the agent's move.
        weights: a tree of arrays for ``policy``, or ``None``.
        league: the number of opponents among whom an episode draws one; every array of ``weights`` leads with it, and
            all of them choose an action at every step. 0 for one opponent.

    >>> import jaxenv
    >>> env = jaxenv.make("ConnectFour-v0", num_envs=2, wrappers=["Opponent"])
    >>> env.reward_spec().shape
    ()
    """

    policy: Callable[..., Any] | None = tree.static(default=None)
    side: Side = tree.static(default="first")
    weights: Any = tree.shared_leaf(default=None)
    league: int = tree.static(default=0, low=0)

    owns: ClassVar[frozenset[str]] = frozenset(f.name for f in dataclasses.fields(TimeStep)) - {"env_id"}
    keeps_specs: ClassVar[frozenset[str]] = frozenset({"observation"})
    in_evaluation = "kept"
    place = "several_steps"

    def check(self) -> None:
        if not self.env.turns or self.env.num_agents != 2:
            kind = "moves in turns" if self.env.turns else "acts at once"
            rule = "env must be a game of two agents that move in turns"
            raise ValueError(f"Opponent: {rule}, {self.env} has {self.env.num_agents} and {kind}")
        if self.league and self.weights is None:
            rule = "league must have weights for each of its opponents"
            raise ValueError(f"Opponent: {rule}, got {self.league} and none")
        if self.weights is not None and self.policy is None:
            rule = "weights must have a policy (timestep, stream, weights) that reads them"
            raise ValueError(f"Opponent: {rule}, got none")
        if not self.env.alternates:
            rule = "every move must pass the turn, since each move is answered once"
            raise ValueError(f"Opponent: {rule}, an agent of {self.env} may move several times in a row")
        if self.policy is not None:
            check_callable("Opponent", "policy", self.policy, "(timestep, stream) or (timestep, stream, weights)")
        if self.autoreset is not None or has_batch_state(self.env):
            raise ValueError(f"Opponent: AutoReset and state of the whole batch must stand outside, got {self.env!r}")
        for path, x in jax.tree.flatten_with_path(self.weights)[0] if self.league else ():
            if np.shape(x)[:1] != (self.league,):
                rule = f"weights must lead with the {self.league} opponents of the league"
                raise ValueError(f"Opponent: {rule}, {tree.path_name(path) or 'they'} have shape {np.shape(x)}")

    def with_weights(self, weights: Tree) -> Self:
        """Returns the environment with other weights of the same structure, shapes and dtypes."""
        specs.require_equal(specs.from_array(self.weights), specs.from_array(weights), "Opponent: weights")
        return tree.rebuild(self, weights=weights)

    def facts_of(self, inner: Facts) -> Facts:
        strategy = inner.reset_strategy if self.side == "first" else "compact"  # a start is a step
        return dataclasses.replace(
            inner, agent_names=("agent",), turns=False, alternates=True, repeats=True, reset_strategy=strategy
        )

    def reward_spec(self) -> specs.Array:
        inner = self.env.reward_spec()
        if not isinstance(inner, specs.Bounded):
            return inner.replace(shape=())
        low, high = inner.minimum.min(), inner.maximum.max()
        return inner.replace(shape=(), minimum=min(low, 2 * low), maximum=max(high, 2 * high))

    def begin(self, starts: Starts, previous: LaneState | None = None) -> tuple[Tree, TimeStep]:
        state, first = super().begin(starts, previous)
        stream = self._stream(self.env.clock(state), "seat")
        lanes, to_move = starts.env_id, first.env_info["player"]  # a level may begin with either player's move
        waits = jnp.full_like(lanes, self.side == "second", bool)
        if self.side == "drawn":
            waits = integers(stream, (), 0, 2) == 1
        if starts.place is not None and starts.place.in_state:  # a state of this stack, in which it is the agent's turn
            waits &= False if starts.place.given is None else ~starts.place.given
        member = integers(fold_in(stream, "member"), (), 0, max(self.league, 1))
        row = first
        if self.side != "first":
            moved, answer = self.env.proceed(state, self._chosen(state, first, member))
            waits &= ~answer.is_last()  # where the opponent's first move would end the game, the agent moves first
            # The row stays a FIRST row: of the opponent's move it shows what describes the state.
            seen = {**first.env_info, **self.env.env_info_of(moved)}
            row = dataclasses.replace(first, observation=answer.observation, env_info=seen)
            state, row = tree.where(waits, (moved, row), (state, first))
        seat = tree.strong(tree.vary_like(lanes, Seat(jnp.where(waits, 1 - to_move, to_move), member)))
        return LaneState(state, seat), dataclasses.replace(row, reward=jnp.zeros(lanes.shape, jnp.float32))

    def proceed(self, state: LaneState, action: Tree) -> tuple[Tree, TimeStep]:
        seat = state.own
        moved, after_move = self.env.proceed(state.inner, action)
        goes_on = ~after_move.is_last()
        move = self._chosen(moved, after_move, seat.member)
        if (report := reporting.get()) is not None:
            report(self.env, moved, move, goes_on)
        answered, answer = self.env.proceed(moved, move)
        answer = dataclasses.replace(
            answer,
            reward=after_move.reward + answer.reward,
            discount=after_move.discount * answer.discount,
            prev_action=after_move.prev_action,
            env_info=combined_info(self.env, after_move.env_info, answer.env_info),
        )
        inner, row = tree.where(goes_on, (answered, answer), (moved, after_move))
        reward = jnp.where(seat.side == 0, row.reward[:, 0], row.reward[:, 1])
        return LaneState(inner, seat), dataclasses.replace(row, reward=reward)

    def _chosen(self, state: Tree, timestep: TimeStep, member: jax.Array) -> Tree:
        """Returns the opponents' actions, ``[B, ...]``."""
        stream = self._stream(self.env.clock(state), "policy")
        policy, spec = self.policy, self.env.action_spec()
        if policy is None:
            return specs.sample(spec, stream, mask=timestep.env_info.get("action_mask"))
        if self.weights is None:
            move = policy(timestep, stream)
        elif not self.league:
            move = policy(timestep, stream, self.weights)
        else:
            moves = jax.vmap(lambda weights: policy(timestep, stream, weights))(self.weights)  # [league, B, ...]

            def of_member(x: jax.Array) -> jax.Array:
                return jnp.take_along_axis(x, tree.expand(member, x.ndim - 1)[None], axis=0)[0]

            move = jax.tree.map(of_member, moves)
        return conform(spec, move, member.shape[0], "Opponent: policy")
