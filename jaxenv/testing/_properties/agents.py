"""Several agents in a lane: as lanes of their own, after they have left, and in turns."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core.environment import Environment
from jaxenv.core.timestep import StepType
from jaxenv.testing._compare import require_equal, require_nowhere, take_steps
from jaxenv.testing._programs import replay, run
from jaxenv.testing._properties.restarts import next_step_rollout
from jaxenv.testing._stacks import in_mode
from jaxenv.testing._subject import Rollout, Subject
from jaxenv.testing.report import Failure, NotApplicable
from jaxenv.wrappers.agents.agents_as_lanes import AgentLanes, AgentsAsLanes


def agents_agree(subject: Subject) -> str:
    """The agents of a game see the same rows as lanes of their own, in ``AgentsAsLanes``.

    An agent that has left, by ``env_info["agent_terminated"]``, gets no reward, its action changes nothing, and
    ``env_info["agent_alive"]`` says so. In a game of turns, ``env_info["player"]`` is the number of an agent, and
    every move passes the turn unless ``alternates`` is false.
    """
    env = subject.stack
    if env.num_agents == 1:
        raise NotApplicable("a lane has one agent")
    if env.turns:
        player = subject.rollout.rows.env_info["player"]
        require_nowhere((player < 0) | (player >= env.num_agents), "env_info['player'] is not an agent", player)
        if env.alternates:
            _require_alternation(subject)
        return f"{env.num_agents} agents in turns"
    rollout, env = next_step_rollout(subject, env), in_mode(env, "next_step")
    ended, gone = _departures(rollout)
    _require_gone(subject, env, rollout, gone)
    _require_folds(subject, env, rollout, ended, gone)
    return f"{env.num_agents} agents at once, {int(ended.sum())} left early"


def _require_alternation(subject: Subject) -> None:
    rollout = next_step_rollout(subject, subject.stack)
    player = np.asarray(rollout.rows.env_info["player"])
    repeated = (player[1:] == player[:-1]) & (rollout.step_type[1:] == StepType.MID)
    require_nowhere(repeated, "an agent moves twice in a row, and alternates is true", player[1:])


def _departures(rollout: Rollout) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows on which an agent leaves, and those on which it has left before, bool ``[T + 1, B, A]``."""
    info, reward = rollout.rows.env_info, np.asarray(rollout.rows.reward)
    if "agent_terminated" not in info:
        if "agent_alive" in info:
            raise Failure("env_info has 'agent_alive' without 'agent_terminated', which says when an agent leaves")
        return np.zeros(reward.shape, bool), np.zeros(reward.shape, bool)
    gone, leaves = np.zeros(reward.shape, bool), np.asarray(info["agent_terminated"])
    for step in range(1, len(gone)):
        stays = (rollout.step_type[step] != StepType.FIRST)[:, None]
        gone[step] = (gone[step - 1] | leaves[step - 1]) & stays
    ended = leaves & ~gone
    if "agent_alive" in info:
        alive, expected = np.asarray(info["agent_alive"]), ~(gone | ended)
        require_equal(expected, alive, ("by agent_terminated", "in env_info"), name="agent_alive")
    return ended, gone


def _require_gone(subject: Subject, env: Environment, rollout: Rollout, gone: np.ndarray) -> None:
    reward = np.asarray(rollout.rows.reward)
    require_nowhere(gone & (reward != 0), "a reward of an agent that has left", reward)
    moved = gone[1:]
    if moved.any():
        other = jax.tree.map(
            lambda x: np.where(moved.reshape(moved.shape + (1,) * (x.ndim - 3)), np.roll(x, 1, axis=0), x),
            rollout.actions,
        )
        expected, actual = (replay(env, rollout.before, actions)[1] for actions in (rollout.actions, other))
        expected, actual = (dataclasses.replace(row, prev_action=()) for row in (expected, actual))
        labels = ("with one action", "with another action of an agent that has left")
        subject.same_steps(expected, actual, labels)


def _require_folds(subject: Subject, env: Environment, rollout: Rollout, ended: np.ndarray, gone: np.ndarray) -> None:
    try:
        folded = AgentsAsLanes(env)
    except ValueError:  # agents with different actions are not lanes of one policy
        return
    games, first = rollout.start
    lanes, clock = ended[0].size, env.clock(games)
    env_id = jnp.arange(lanes, dtype=jnp.int32)
    keys = jax.tree.map(lambda x: np.repeat(np.asarray(x), env.num_agents), clock.key)
    state = AgentLanes(tree.Grouped(games), keys, env_id, jnp.zeros(lanes, bool))
    actions = jax.tree.map(lambda x: x.reshape(len(x), lanes, *x.shape[3:]), rollout.actions)
    rows = run(folded, state, folded._row(jax.tree.map(jnp.asarray, first), env_id), actions)[1]
    rows = jax.tree.map(lambda x: x.reshape(*ended.shape, *x.shape[2:]), rows)
    step_type = np.where(ended, StepType.LAST, np.where(gone, StepType.FIRST, rollout.step_type[..., None]))
    expected = {
        "step_type": step_type.astype(np.int32),
        "reward": np.asarray(rollout.rows.reward),
        "discount": np.where(ended, 0, np.where(gone, 1, np.asarray(rollout.rows.discount)[..., None])),
        "observation": rollout.rows.observation,
    }
    actual = {name: getattr(rows, name) for name in expected}
    expected["discount"] = expected["discount"].astype(np.float32)
    later = (slice(1, None),)
    labels = ("in the game", "as a lane")
    pair = take_steps(expected, *later), take_steps(actual, *later)
    subject.same_steps(*pair, labels)
