"""Several agents in a lane: after they have left, and in turns."""

import dataclasses

import jax
import numpy as np

from jaxenv.core.environment import Environment
from jaxenv.core.timestep import StepType
from jaxenv.testing._compare import require_equal, require_nowhere
from jaxenv.testing._programs import replay
from jaxenv.testing._properties.restarts import next_step_rollout
from jaxenv.testing._stacks import in_mode
from jaxenv.testing._subject import Rollout, Subject
from jaxenv.testing.report import Failure, NotApplicable


def agents_agree(subject: Subject) -> str:
    """An agent that has left, by ``env_info["agent_terminated"]``, gets no reward, and its action changes nothing.

    ``env_info["agent_alive"]`` says who is left. In a game of turns, ``env_info["player"]`` is the number of an agent,
    and every move passes the turn unless ``alternates`` is false.
    """
    env = subject.stack
    if env.num_agents == 1:
        raise NotApplicable("a lane has one agent")
    if env.turns:
        player = subject.rollout.rows.env_info["player"]
        require_nowhere((player < 0) | (player >= env.num_agents), "env_info['player'] is not an agent", player)
        if env.alternates:
            rollout = next_step_rollout(subject, env)
            player = np.asarray(rollout.rows.env_info["player"])
            repeated = (player[1:] == player[:-1]) & (rollout.step_type[1:] == StepType.MID)
            require_nowhere(repeated, "an agent moves twice in a row, and alternates is true", player[1:])
        return f"{env.num_agents} agents in turns"
    rollout, env = next_step_rollout(subject, env), in_mode(env, "next_step")
    ended, gone = _departures(rollout)
    _require_gone(subject, env, rollout, gone)
    return f"{env.num_agents} agents at once, {int(ended.sum())} left early"


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
