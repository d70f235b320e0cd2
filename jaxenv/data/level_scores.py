"""Scores levels by an unroll: how much a policy could still learn in the level that a lane plays.

Each function reads rows ``[T, B]`` in which every lane plays one level, and scores each lane's level by its complete
episodes. The row on which an unroll begins counts as the start of an episode. Episodes that did not end within the
rows, were interrupted, or ended abnormally do not count, and a lane without a complete episode has no valid score.
`LevelBuffer.insert` and ``update`` take a `LevelScores` as ``scores, mask``.

All functions take ``timestep``, rows ``[T, B]`` with ``step_type``, ``reward`` and ``discount``, ``last``, the row
after them, and ``mode``, the ``AutoReset`` mode in which they were made. A ``ValueError`` names shapes that do not
match, and rows of the other mode.

================================= =========================================================== =========================
function                          score of a level                                            source
================================= =========================================================== =========================
`positive_value_loss`             mean of the positive part of the advantages                 arXiv:2010.03934
`max_monte_carlo`                 mean of the highest return so far minus the value           arXiv:2110.02439
`learnability`                    ``p * (1 - p)``, where p is the fraction of solved episodes arXiv:2408.15099
================================= =========================================================== =========================

Means are over the steps of an episode, then over the episodes. `max_return` and `mean_return` refer to a
lane's complete episodes.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv._util.checks import check_array, check_real
from jaxenv.core._compiled import compiled_once
from jaxenv.core.timestep import StepType, TimeStep
from jaxenv.data.rows import TrajectoryMode, check_rows, next_rows, transition_mask
from jaxenv.tree import _export


@_export.named_tuple
class LevelScores(NamedTuple):
    """Scores of the levels that B lanes play.

    Attributes:
        scores: float32 ``[B]``; 0 where not valid.
        valid: bool ``[B]``, whether the lane completed an episode.
    """

    scores: jax.Array
    valid: jax.Array


def positive_value_loss(
    timestep: TimeStep, last: TimeStep, advantages: jax.Array, mode: TrajectoryMode = "next_step"
) -> LevelScores:
    """Scores levels by the mean of ``max(advantage, 0)``: where returns exceed the critic's expectation.

    `gae` computes the advantages, float32 ``[T, B]``. The module describes the other arguments.
    """
    owner = "positive_value_loss"
    advantages = _per_row(owner, "advantages", advantages, timestep)
    episodes = _episodes(owner, timestep, last, jnp.maximum(advantages, 0), mode)
    return _per_episode(episodes.means, episodes)


def max_monte_carlo(
    timestep: TimeStep, last: TimeStep, values: jax.Array, max_returns: jax.Array, mode: TrajectoryMode = "next_step"
) -> LevelScores:
    """Scores levels by the mean of ``max_return - value``: an estimate of the regret.

    ``values`` is V of the rows, float32 ``[T, B]``, and ``max_returns``, float32 ``[B]``, the highest return seen in
    each lane's level: of `max_return`, and of the earlier visits that a buffer has noted. Where one is not finite,
    neither is the score of a lane that completed an episode, and `LevelBuffer` refuses or leaves it out.
    """
    owner = "max_monte_carlo"
    values = _per_row(owner, "values", values, timestep)
    check_array(owner, "max_returns", max_returns)
    if jnp.shape(max_returns) != values.shape[1:]:
        raise ValueError(f"{owner}: max_returns must have shape {values.shape[1:]}, got {jnp.shape(max_returns)}")
    episodes = _episodes(owner, timestep, last, jnp.asarray(max_returns, jnp.float32)[None] - values, mode)
    return _per_episode(episodes.means, episodes)


def max_return(timestep: TimeStep, last: TimeStep, mode: TrajectoryMode = "next_step") -> jax.Array:
    """Returns the highest undiscounted return of the complete episodes, float32 ``[B]``; -inf without one."""
    return _episodes("max_return", timestep, last, None, mode).greatest


def mean_return(timestep: TimeStep, last: TimeStep, mode: TrajectoryMode = "next_step") -> LevelScores:
    """Returns the mean undiscounted return of the complete episodes."""
    episodes = _episodes("mean_return", timestep, last, None, mode)
    return _per_episode(episodes.returns, episodes)


def learnability(
    timestep: TimeStep, last: TimeStep, solved_above: float = 0.0, mode: TrajectoryMode = "next_step"
) -> LevelScores:
    """Scores levels by ``p * (1 - p)``, where p is the fraction of episodes with a return above ``solved_above``.

    It is 1/4 where the policy solves every second episode, and 0 where it solves all or none. The threshold is finite.
    """
    check_real("learnability", "solved_above", solved_above, -np.inf)
    episodes = _episodes("learnability", timestep, last, None, mode, float(solved_above))
    p, valid = _per_episode(episodes.solved, episodes)
    return LevelScores(p * (1 - p), valid)


class _Episodes(NamedTuple):
    """Sums over the complete episodes of each lane, ``[B]``."""

    number: jax.Array  # of episodes
    means: jax.Array  # the sum of the means of the episodes
    returns: jax.Array  # the sum of their returns
    greatest: jax.Array  # the greatest return, -inf without an episode
    solved: jax.Array  # episodes with a return above the threshold


def _per_episode(total: jax.Array, episodes: _Episodes) -> LevelScores:
    return LevelScores(total / jnp.maximum(episodes.number, 1), episodes.number > 0)


def _episodes(
    owner: str, timestep: TimeStep, last: TimeStep, x: Any, mode: TrajectoryMode, solved_above: float = 0.0
) -> _Episodes:
    check_rows(owner, timestep, last)
    if jnp.ndim(timestep.reward) != 2:
        raise ValueError(f"{owner}: the reward must be one number per lane [T, B], got {jnp.shape(timestep.reward)}")
    step_type = next_rows(owner, timestep.step_type, last.step_type)
    valid = transition_mask(timestep, last, mode)
    ends = valid & (step_type == np.int32(StepType.LAST))
    reward = next_rows(owner, timestep.reward, last.reward).astype(jnp.float32)
    return _fold(reward if x is None else x, reward, valid, ends, solved_above)


@compiled_once
def _fold(x: jax.Array, reward: jax.Array, valid: jax.Array, ends: jax.Array, solved_above: Any) -> _Episodes:
    """Folds transitions ``[T, B]`` into sums over complete episodes. No episode goes on after an invalid row."""
    zero = jnp.zeros_like(reward[0])

    def step(carry: Any, row: Any) -> Any:
        (number, means, returns, greatest, solved), (total, return_, steps) = carry
        x, reward, valid, ends = row
        total, return_, steps = total + x, return_ + reward, steps + 1
        episodes = _Episodes(
            number + ends.astype(jnp.float32),
            means + jnp.where(ends, total / steps, 0),
            returns + jnp.where(ends, return_, 0),
            jnp.where(ends, jnp.maximum(greatest, return_), greatest),
            solved + (ends & (return_ > solved_above)).astype(jnp.float32),
        )
        return (episodes, jax.tree.map(lambda s: jnp.where(valid & ~ends, s, 0), (total, return_, steps))), None

    start = _Episodes(zero, zero, zero, jnp.full_like(zero, -np.inf), zero), (zero, zero, zero)
    (episodes, _), _ = jax.lax.scan(step, start, (x, reward, valid, ends))
    return episodes


def _per_row(owner: str, name: str, x: Any, timestep: TimeStep) -> jax.Array:
    check_array(owner, name, x)
    shape = jnp.shape(timestep.step_type)
    if jnp.shape(x) != shape:
        raise ValueError(f"{owner}: {name} must have the shape {shape} of the rows, got {jnp.shape(x)}")
    return jnp.asarray(x, jnp.float32)
