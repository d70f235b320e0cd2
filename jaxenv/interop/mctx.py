"""Search with mctx: the environment is its own model."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, rollout, specs, tree
from jaxenv._util.checks import Range, check_array, check_callable, check_integer
from jaxenv._util.library import import_library
from jaxenv._util.source import install_command
from jaxenv.core import Environment, TimeStep, check_environment, has_batch_state, layers
from jaxenv.tree import Tree
from jaxenv.wrappers import AutoReset, Opponent, StateInInfo

# Returns the logits [B, num_actions] and the values [B] of states, from ``(params, key, state, timestep)``.
Predict = Callable[[Any, jax.Array, Tree, TimeStep], tuple[jax.Array, jax.Array]]


def to_mctx(env: Environment, predict: Predict, gamma: Any = 1.0) -> "SearchModel":
    """Makes the true model for the policies of mctx, such as ``mctx.gumbel_muzero_policy``.

    Values belong to the player to move: in a game of turns the sign changes where the player does, so the rewards of
    both players must sum to 0. An episode that the task ends has value 0 from there; one that a time limit cuts off has
    the predicted value of its last observation. Simulations draw random numbers of their own (`jaxenv.random.reseed`),
    so that no search sees those that are to come. A stochastic step is drawn once for each edge of the tree.

    Args:
        env: a stack with `StateInInfo`, to plan in; or the environment to step, which has neither ``AutoReset`` nor
            batch state. It has one agent, or two that move in turns, and its action is one discrete number.
        predict: a function ``predict(params, key, state, timestep)`` that returns logits ``[B, num_actions]`` and
            values ``[B]`` in the view of the player to move. Illegal actions are masked afterwards.
        gamma: the discount rate.
    """
    _mctx()  # now, not in the middle of a search
    check_callable("to_mctx", "predict", predict, "params, key, state and timestep")
    _check_gamma("to_mctx", gamma)
    return SearchModel(_stepped("to_mctx", env), predict, gamma)


@dataclasses.dataclass(frozen=True)
class SearchModel:
    """The model that `to_mctx` returns. A node's embedding is the state of ``env`` and the player to move."""

    env: Environment
    predict: Predict
    gamma: Any

    def root(self, params: Any, key: jax.Array, timestep: TimeStep, state: Tree = None) -> Any:
        """Returns the ``root`` of a search from each lane's row, ``[B]``; ``params`` and typed key are for ``predict``.

        ``state`` has the states of ``env``; ``None`` for those that `StateInInfo` shows in the row.
        """
        state = timestep.env_info["state"] if state is None else state
        names = self.env.env_info_spec().keys()
        if missing := names - timestep.env_info.keys():
            rule = f"the row must be one of {self.env}, it has no env_info[{min(missing)!r}]"
            raise ValueError(f"search: {rule}: make the search of an Opponent for the stack with this Opponent")
        # Outer layers may have added entries, and an `Opponent` pays one player. The rewards so far do not matter.
        env_info = {name: timestep.env_info[name] for name in names}
        reward = self.env.reward_spec().zeros(timestep.env_id.shape)
        row = dataclasses.replace(timestep, env_info=env_info, reward=reward)
        logits, value = self._predicted(params, key, state, row)
        return _mctx().RootFnOutput(prior_logits=logits, value=value, embedding=(state, _player(self.env, row)))

    def recurrent_fn(self, params: Any, key: Any, action: Any, embedding: Any) -> tuple[Any, Any]:
        """Steps all lanes once, the ``recurrent_fn`` of mctx."""
        step_key, predict_key = jax.random.split(key)
        state, player = embedding
        state, timestep = self.env.step(random.reseed(state, step_key), self.action(action))
        # What is predicted of the end of a task does not count, and 0 times a NaN is NaN.
        goes_on = timestep.discount != 0
        predicted = self._predicted(params, predict_key, state, timestep)
        logits, value = (jnp.where(tree.expand(goes_on, x.ndim), x, np.float32(0)) for x in predicted)
        after, last = _player(self.env, timestep), timestep.is_last()
        discount = self.gamma * timestep.discount * jnp.where(after == player, np.float32(1), np.float32(-1))
        # mctx knows no ends: the value after the last row is a part of the reward, and nothing below it counts.
        reward = _reward(timestep, player) + jnp.where(last, discount * value, np.float32(0))
        discount = jnp.where(last, np.float32(0), discount)
        output = _mctx().RecurrentFnOutput(reward=reward, discount=discount, prior_logits=logits, value=value)
        return output, (state, after)

    def invalid_actions(self, timestep: TimeStep) -> jax.Array:
        """Returns the ``invalid_actions`` of mctx, bool ``[B, num_actions]``."""
        mask = timestep.env_info.get("action_mask")
        if mask is None:
            return jnp.zeros((*timestep.env_id.shape, self.env.action_spec().num_values), bool)
        return ~mask

    def action(self, index: jax.Array) -> jax.Array:
        """Converts mctx's action, a number from 0, to an action of the environment."""
        spec = self.env.action_spec()
        return index.astype(spec.dtype) + spec.minimum

    def _predicted(self, params: Any, key: jax.Array, state: Tree, row: TimeStep) -> tuple[jax.Array, jax.Array]:
        logits, value = self.predict(params, key, state, row)
        return jnp.where(self.invalid_actions(row), jnp.finfo(logits.dtype).min, logits), value


def playouts(env: Environment, gamma: Any = 1.0, max_steps: int | None = None) -> Predict:
    """Returns a ``predict`` for `to_mctx` that needs no network: uniform logits, and the result of one random playout.

    A playout of more than ``max_steps`` is cut off and worth what it has collected. Other arguments as for `to_mctx`.
    """
    env = _stepped("playouts", env)
    _check_gamma("playouts", gamma)
    if max_steps is not None:
        check_integer("playouts", "max_steps", max_steps, 1)
    policy, num_actions = rollout.random_policy(env), env.action_spec().num_values
    longest = np.int32(2**31 - 1 if max_steps is None else max_steps)

    def predict(params: Any, key: jax.Array, state: Tree, timestep: TimeStep) -> tuple[jax.Array, jax.Array]:
        mine, lanes = _player(env, timestep), timestep.env_id.shape

        def goes_on(carry: Any) -> jax.Array:
            *_, weight, count = carry
            return jnp.any(weight != 0) & (count < longest)

        def step(carry: Any) -> Any:
            state, timestep, value, weight, count = carry
            state, timestep = env.step(state, policy(timestep, rollout.policy_stream(env, state)))
            reward = jnp.where(weight != 0, _reward(timestep, mine), np.float32(0))
            value = value + weight * reward
            weight = jnp.where(timestep.is_last(), np.float32(0), weight * gamma * timestep.discount)
            return state, timestep, value, weight, count + np.int32(1)

        weight = jnp.where(timestep.is_last(), np.float32(0), np.float32(1))
        start = random.reseed(state, key), timestep, jnp.zeros(lanes, jnp.float32), weight, np.int32(0)
        return jnp.zeros((*lanes, num_actions), jnp.float32), jax.lax.while_loop(goes_on, step, start)[2]

    return predict


def mcts_policy(env: Environment, num_simulations: int = 800, gamma: Any = 1.0) -> rollout.Policy:
    """Returns plain Monte Carlo tree search as a policy: a random playout for each simulation, no network.

    It takes the action of most visits (``mctx.muzero_policy`` with uniform priors and without noise). It serves a stack
    with `StateInInfo`, and the `Opponent` of one. ``num_simulations`` is per move; ``gamma`` is the discount rate.
    """
    check_environment("mcts_policy", env)
    if not any(isinstance(layer, StateInInfo) for layer in layers(env)):
        raise ValueError(f"mcts_policy: env must have StateInInfo, which shows the state to the policy, got {env!r}")
    check_integer("mcts_policy", "num_simulations", num_simulations, 1)
    model = to_mctx(env, playouts(env, gamma), gamma)

    def policy(timestep: TimeStep, stream: random.Stream) -> jax.Array:
        root_key, search_key = jax.random.split(random.jax_keys(stream)[0])
        root, invalid = model.root(None, root_key, timestep), model.invalid_actions(timestep)
        plain = {"dirichlet_fraction": 0.0, "temperature": 0.0}
        search = _mctx().muzero_policy(None, search_key, root, model.recurrent_fn, num_simulations, invalid, **plain)
        return model.action(search.action)

    return policy


def _mctx() -> Any:
    return import_library("mctx", install_command("mctx"))


def _check_gamma(owner: str, gamma: Any) -> None:
    check_array(owner, "gamma", gamma)
    Range(0, 1).check(owner, "gamma", gamma)


def _stepped(owner: str, env: Environment) -> Environment:
    """Returns the environment inside `StateInInfo`, or ``env`` itself without it; checks that a search can step it."""
    check_environment(owner, env)
    outside: list[Environment] = []
    for layer in layers(env):
        if isinstance(layer, StateInInfo):
            owners = [x for x in outside if not isinstance(x, AutoReset | Opponent)]
            if changing := [x for x in owners if "observation" in getattr(x, "owns", ())]:
                rule = f"StateInInfo must come after {type(changing[-1]).__name__}, which changes observations"
                raise ValueError(f"{owner}: {rule}, got {env!r}")
            env = layer.env
            break
        outside.append(layer)
    if env.autoreset is not None or has_batch_state(env):
        rule = "env must have StateInInfo, or neither AutoReset nor state of the whole batch"
        raise ValueError(f"{owner}: {rule}, got {env!r}")
    if env.num_agents > 2 or (env.num_agents == 2 and not env.turns):
        rule = "env must have one agent, or two that move in turns"
        raise ValueError(f"{owner}: {rule}, {env!r} has {', '.join(env.agent_names)}")
    spec = env.action_spec()
    if not (isinstance(spec, specs.Bounded) and spec.is_discrete and spec.shape == ()):
        raise ValueError(f"{owner}: the action must be one discrete number, got {spec} of {env!r}")
    return env


def _player(env: Environment, timestep: TimeStep) -> jax.Array:
    return timestep.env_info["player"] if env.turns else jnp.zeros_like(timestep.env_id)


def _reward(timestep: TimeStep, player: jax.Array) -> jax.Array:
    if timestep.reward.ndim == 1:
        return timestep.reward
    return jnp.where(player == 0, timestep.reward[:, 0], timestep.reward[:, 1])
