"""Pgx's games as batched environments: ``jaxenv.make("pgx:connect_four", num_envs=8)``.

A game of several players is a game of turns: every step is the move of the player whose turn it is. With an
``opponent`` it has one agent, player 0, and the others move inside of its step: at random, or by a given policy.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core.environment import Environment
from jaxenv.suites._options import library
from jaxenv.suites._task import Single, Stepped, functions_of, load_task
from jaxenv.tree import Tree

_pgx = library("pgx")
# The player that is the agent if the others have an opponent's policy.
_AGENT = np.int32(0)
_NAMES = ("first", "second", "third", "fourth")
# Games of turns in which a player may move several times in a row.
_REPEATED_MOVES = ("backgammon", "leduc_holdem", "sparrow_mahjong")


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts: all ids of ``pgx.make``."""
    return sorted(_pgx().available_envs())


def load(name: str, /, num_envs: int | None = None, *, opponent: Any = "self", **kwargs: Any) -> Environment:
    """Builds a game of Pgx.

    Args:
        name: an id of Pgx.
        num_envs: the number of lanes that ``reset(key)`` makes.
        opponent: ``"self"`` makes a game of several players a game of turns, of as many agents. Otherwise there is one
            agent, player 0, and this is how the others move: ``"random"`` chooses legal actions uniformly; a function
            ``opponent(observation, mask, key)`` of one lane returns an action, one integer, given the player's
            observation and legal actions, bool ``[n]``.
        **kwargs: keywords of `jaxenv.make`.
    """
    if opponent not in ("random", "self") and not callable(opponent):
        rule = "opponent must be 'random', 'self' or a function (observation, mask, key)"
        raise ValueError(f"pgx:{name}: {rule}, got {opponent!r}")
    return load_task("pgx", name, num_envs, {"opponent": None}, {"opponent": opponent, **kwargs})


@tree.struct
class Game:
    """Pgx's state of a game of turns, and Pgx's number of the player who moved first: its agent 0."""

    state: Any
    first: jax.Array


class PgxSingle(Single):
    """A game of Pgx; `single` builds each configuration once."""

    suite = "pgx"
    reset_strategy = "compact"  # twice as fast as "select" for connect_four against a random opponent

    def build(self, id: str, arguments: dict[str, Any]) -> None:
        self.opponent = arguments.get("opponent", "self")
        self.env = _pgx().make(id)
        self.alone = self.env.num_players == 1  # nobody else moves in the agent's step
        self.turns = self.opponent == "self" and not self.alone
        if self.turns:
            self.agent_names = _NAMES[: self.env.num_players]
            self.alternates = id not in _REPEATED_MOVES
            self.opt_outs = {"sharding_invariant": "Pgx's branches compare values of a shard with constants"}
        elif not self.alone:
            looping = "other players move in a loop that runs until the agent's turn has come in all lanes"
            self.opt_outs = {"sharding_invariant": looping}

    def reset(self, values: Mapping[str, Any], key: jax.Array) -> tuple[Tree, Tree]:
        first, key = jax.random.split(key)
        state = self.env.init(first)
        if self.turns:
            return Game(state, state.current_player), state.observation
        if not self.alone:
            # Rewards of the others' first moves are paid on the agent's first step: a FIRST row has no reward. They can
            # even end the game, which that step then reports.
            state, due = self._others_move(state, key)
            state = state.replace(rewards=due)
        return state, self._observed(state)

    def step(self, values: Mapping[str, Any], key: jax.Array, state: Tree, action: Tree) -> Stepped:
        own, key = jax.random.split(key)
        if self.turns:
            game = self.env.step(state.state, action, own)
            rewards = jnp.roll(game.rewards, -state.first)  # agent 0 is the player who moved first
            return Game(game, state.first), game.observation, rewards, game.terminated, {}
        if self.alone:
            player = state.current_player
            state = self.env.step(state, action, own)
            return state, state.observation, state.rewards[player], state.terminated, {}
        due, none = state.rewards, jnp.zeros_like(state.rewards)
        state = self.env.step(state.replace(rewards=none), action, own)
        moved = state.rewards
        state, later = self._others_move(state, key)
        state = state.replace(rewards=none)
        rewards = due + moved + later
        return state, self._observed(state), rewards[_AGENT], state.terminated, {"player_rewards": rewards}

    def state_info(self, state: Tree, observation: Tree) -> dict[str, Tree]:
        if not self.turns:
            return {"action_mask": state.legal_action_mask}
        game = state.state
        player = (game.current_player - state.first) % np.int32(len(self.agent_names))
        return {"action_mask": game.legal_action_mask, "player": player}

    def declared_action(self) -> Tree:
        return specs.discrete(self.env.num_actions, name="action")

    def _observed(self, state: Any) -> jax.Array:
        """Observes as the agent, even if another player would move next because the game is over."""
        return state.observation if self.alone else self.env._observe(state, _AGENT)

    def _others_move(self, state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        """Plays until the agent's turn or the end of the game; returns the state and the rewards ``[players]``."""

        def others_turn(carry: Any) -> Any:
            state, _, _ = carry
            return (state.current_player != _AGENT) & ~state.terminated

        def move(carry: Any) -> Any:
            state, key, rewards = carry
            key, choose, own = jax.random.split(key, 3)
            state = self.env.step(state, self._choice(state, choose), own)
            return state, key, rewards + state.rewards

        carry = state, key, jnp.zeros_like(state.rewards)
        state, _, rewards = jax.lax.while_loop(others_turn, move, carry)
        return state, rewards

    def _choice(self, state: Any, key: jax.Array) -> jax.Array:
        mask = state.legal_action_mask
        if self.opponent == "random":
            return jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf))
        action = self.opponent(state.observation, mask, key)
        one = jax.tree_util.treedef_is_leaf(jax.tree.structure(action)) and jnp.shape(action) == ()
        if not (one and jnp.issubdtype(jnp.result_type(action), jnp.integer)):
            got = jax.tree.map(lambda x: f"{jnp.result_type(x)}{list(jnp.shape(x))}", action)
            raise ValueError(f"{self.owner}: opponent must return one integer, the action, got {got}")
        return jnp.clip(action, 0, self.env.num_actions - 1).astype(jnp.int32)


single, action_and_limit, docstring = functions_of(PgxSingle)
