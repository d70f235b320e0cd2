"""Let a policy play the other side of a game of two."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import LaneState, TimeStep, Wrapper, has_batch_state
from jaxenv.random import KeyWords, fold_in, integers
from jaxenv.tree import Tree

Side = Literal["first", "second", "drawn"]


@tree.struct
class Seat:
    """The agent's side in each lane, 0 or 1, and its opponent's number in the league, both int32 ``[B]``."""

    side: jax.Array
    member: jax.Array


class Opponent(Wrapper):
    """Turns a game of two into a task of one agent: a policy answers each of its moves inside the step.

    A step is the agent's move and the answer, without one where the move ends the game. The reward, float32 ``[B]``, is
    the agent's column of the rewards of both moves. Observation and ``env_info`` come from the last move; where the
    game goes on it is the agent's turn. On a LAST row they are from the view of the agent whose turn it would be.

    The opponent draws from a stream of its own. Its weights are data: `with_weights` exchanges them without compiling
    anew, so a learner can play its past selves. With a ``league``, each episode draws one of several sets of weights.

    Owns all fields except ``env_id``.

    Args:
        env: a game of two agents that alternate, agent 0 first, without ``AutoReset`` and without batch state.
        policy: a function ``policy(timestep, stream)``, or ``policy(timestep, stream, weights)`` with weights, that
            returns the actions ``[B, ...]`` of the agent to move; ``None`` for a random legal action.
        side: the side of the agent: ``"first"`` moves first, ``"second"`` second; ``"drawn"`` draws it per episode.
        weights: a tree of arrays for ``policy``, or ``None``.
        league: the number of opponents among whom an episode draws one; every array of ``weights`` leads with it, and
            all of them choose an action at every step. 0 for one opponent.

    Raises:
        ValueError: for an ``env`` that is no such game, or for weights that do not lead with the league.

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
        if not self.env.alternates:
            rule = "every move must pass the turn, since each move is answered once"
            raise ValueError(f"Opponent: {rule}, an agent of {self.env} may move several times in a row")
        if self.policy is not None and not callable(self.policy):
            rule = "policy must be None or a function (timestep, stream) or (timestep, stream, weights)"
            raise ValueError(f"Opponent: {rule}, got {self.policy!r}")
        if self.autoreset is not None or has_batch_state(self.env):
            raise ValueError(f"Opponent: AutoReset and state of the whole batch must stand outside, got {self.env!r}")
        for path, x in tree.flatten_with_path(self.weights)[0] if self.league else ():
            if np.shape(x)[:1] != (self.league,):
                rule = f"weights must lead with the {self.league} opponents of the league"
                raise ValueError(f"Opponent: {rule}, {tree.path_name(path) or 'they'} have shape {np.shape(x)}")

    def with_weights(self, weights: Tree) -> Self:
        """Returns the environment with other weights of the same structure, shapes and dtypes.

        Raises:
            ValueError: for weights that do not fit the present ones.
        """
        specs.require_equal(specs.from_array(self.weights), specs.from_array(weights), "Opponent: weights")
        return tree.rebuild(self, weights=weights)

    @property
    def agent_names(self) -> tuple[str, ...]:
        return ("agent",)

    @property
    def turns(self) -> bool:
        return False

    @property
    def observes_state(self) -> bool:
        return self.env.observes_state

    @property
    def reset_strategy(self) -> Any:
        return self.env.reset_strategy if self.side == "first" else "compact"  # a start is a step

    def reward_spec(self) -> specs.Array:
        inner = self.env.reward_spec()
        if not isinstance(inner, specs.Bounded):
            return inner.replace(shape=())
        low, high = inner.minimum.min(), inner.maximum.max()
        return inner.replace(shape=(), minimum=min(low, 2 * low), maximum=max(high, 2 * high))

    def inner(self, state: LaneState) -> Tree:
        return state.inner

    # --- episodes ----------------------------------------------------------------------------------------------------

    def begin(
        self, keys: KeyWords, env_id: jax.Array, episode: jax.Array, previous: LaneState | None = None
    ) -> tuple[Tree, TimeStep]:
        state, first = self.env.begin(keys, env_id, episode, None if previous is None else previous.inner)
        stream = self._stream(self.env.clock(state), "seat")
        side = jnp.full_like(env_id, int(self.side == "second"))
        if self.side == "drawn":
            side = integers(stream, (), 0, 2)
        member = integers(fold_in(stream, "member"), (), 0, max(self.league, 1))
        seat = tree.strong(tree.vary_like(env_id, Seat(side, member)))
        row = first
        if self.side != "first":
            moved, row = self._answered(state, first, seat, seat.side == 1)
            # The row stays a FIRST row: of the opponent's move it shows what describes the state.
            seen = {**first.env_info, **self.env.env_info_of(moved)}
            row = dataclasses.replace(first, observation=row.observation, env_info=seen)
            state = moved
        reward = jnp.zeros(env_id.shape, jnp.float32)
        return LaneState(state, seat), dataclasses.replace(row, reward=reward)

    def proceed(self, state: LaneState, action: Tree) -> tuple[Tree, TimeStep]:
        seat = state.own
        moved, after_move = self.env.proceed(state.inner, action)
        answered = ~after_move.is_last()
        inner, row = self._answered(moved, after_move, seat, answered)
        both = after_move.reward + jnp.where(answered[:, None], row.reward, np.float32(0))
        reward = jnp.where(seat.side == 0, both[:, 0], both[:, 1])
        discount = after_move.discount * jnp.where(answered, row.discount, np.float32(1))
        row = dataclasses.replace(row, reward=reward, discount=discount, prev_action=after_move.prev_action)
        return LaneState(inner, seat), row

    def _answered(self, state: Tree, timestep: TimeStep, seat: Seat, mask: jax.Array) -> tuple[Tree, TimeStep]:
        """Lets the opponent move in the lanes of ``mask``; the other lanes keep their state and their row."""
        answer = self.env.proceed(state, self._chosen(state, timestep, seat))
        return tree.where(mask, answer, (state, timestep))

    def _chosen(self, state: Tree, timestep: TimeStep, seat: Seat) -> Tree:
        """Returns the opponents' actions, ``[B, ...]``."""
        stream = self._stream(self.env.clock(state), "policy")
        policy = self.policy
        if policy is None:
            return specs.sample(self.env.action_spec(), stream, mask=timestep.env_info.get("action_mask"))
        if self.weights is None:
            return policy(timestep, stream)
        if not self.league:
            return policy(timestep, stream, self.weights)
        actions = jax.vmap(lambda weights: policy(timestep, stream, weights))(self.weights)  # [league, B, ...]

        def of_member(x: jax.Array) -> jax.Array:
            return jnp.take_along_axis(x, tree.expand(seat.member, x.ndim - 1)[None], axis=0)[0]

        return jax.tree.map(of_member, actions)
