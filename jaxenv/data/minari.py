"""Writes episodes of a rollout as a data set of Minari, and reads such data sets as rows."""

import re
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv._util.library import import_library
from jaxenv.core.timestep import StepType, TimeStep
from jaxenv.data.rows import TrajectoryMode, check_numbers
from jaxenv.data.transitions import Transitions, to_transitions
from jaxenv.rollout import Experience


def to_minari(
    experience: Experience,
    last: TimeStep,
    dataset_id: str,
    env: Any,
    mode: TrajectoryMode = "next_step",
    **metadata: Any,
) -> Any:
    """Writes the episodes of an unroll, lane by lane, as a data set of Minari and returns it, a ``MinariDataset``.

    Minari keeps data sets in the folder ``MINARI_DATASETS_PATH``, by default in the home directory. An episode holds
    the observations from its first to its final one. One that the rows cut off, or that ended in a failed step, ends as
    truncated. Discounts must be 1, and 0 where the task ended. Images are stored without loss.

    Args:
        experience: rows ``[T, B, ...]`` from ``env.reset`` on, with step type, reward, discount, observation, action.
        last: the TimeStep after them, as `jaxenv.unroll` returns both.
        dataset_id: Minari's id of a new data set, with a version, such as ``"cart-pole/random-v0"``.
        env: the environment of Gymnasium whose spaces and spec Minari records: ``interop.to_gymnasium(id)`` of the same
            id and options.
        mode: the ``AutoReset`` mode in which the rows were made.
        **metadata: of ``minari.create_dataset_from_buffers``, such as ``author`` and ``description``.
    """
    minari = import_library("minari", "pip install 'jaxenv[minari]'")
    if not (isinstance(dataset_id, str) and re.search(r"-v\d+$", dataset_id)):
        raise ValueError(f"to_minari: dataset_id must end with a version, as cart-pole/random-v0, got {dataset_id!r}")
    if not hasattr(env, "observation_space"):
        rule = "env must be an environment of Gymnasium, as interop.to_gymnasium makes it"
        raise ValueError(f"to_minari: {rule}, got {env!r}")
    transitions = jax.device_get(to_transitions(experience, last, mode))
    episodes = [minari.data_collector.EpisodeBuffer(**episode) for episode in _episodes(transitions)]
    if not episodes:
        raise ValueError("to_minari: the rows must hold a step")
    for name, x, space in (
        ("observation", episodes[0].observations, env.observation_space),
        ("action", episodes[0].actions, env.action_space),
    ):
        first = jax.tree.map(lambda leaf: np.asarray(leaf[0]), x)
        if not space.contains(first):
            raise ValueError(f"to_minari: the {name} space of env, {space}, must contain the rows, got {first}")
    with warnings.catch_warnings(action="ignore"):  # of missing metadata
        return minari.create_dataset_from_buffers(dataset_id, episodes, env=env, jpeg_encoding=False, **metadata)


def _episodes(rows: Transitions) -> list[dict[str, Any]]:
    """Returns the episodes of transitions ``[T, B, ...]`` in the fields of Minari's ``EpisodeBuffer``."""
    last = rows.next_step_type == StepType.LAST
    if not np.all((rows.discount == 1) | (last & (rows.discount == 0)) | ~rows.valid):
        raise ValueError("to_minari: Minari has no discounts, so they must be 1, and 0 where the task ended")
    found = []
    for lane in range(rows.valid.shape[1]):
        valid, ended = rows.valid[:, lane], last[:, lane]
        starts = valid & ~np.concatenate([[False], (valid & ~ended)[:-1]])
        ends = valid & (ended | ~np.concatenate([valid[1:], [False]]))
        for start, end in zip(np.flatnonzero(starts), np.flatnonzero(ends) + 1, strict=True):
            if rows.step_type[start, lane] == StepType.MID:
                rule = "rows must start with the first one of an episode, such as those from env.reset"
                raise ValueError(f"to_minari: {rule}, got row {start} of lane {lane} in the middle of one")
            part = jax.tree.map(lambda x, at=slice(start, end), lane=lane: x[at, lane], rows)
            is_end = np.arange(end - start) == end - start - 1
            final = jax.tree.map(lambda x: x[-1:], part.next_observation)
            episode = {
                "observations": jax.tree.map(lambda *x: np.concatenate(x), part.observation, final),
                "actions": part.action,
                "rewards": part.reward,
                "terminations": is_end & (part.discount == 0),
                "truncations": is_end & (part.discount != 0),
                "infos": {},
            }
            found.append({name: _plain(x) for name, x in episode.items()})
    return found


def _plain(x: Any) -> Any:
    """Makes mappings dicts and sequences tuples, the only trees that Minari stores."""
    if isinstance(x, Mapping):
        return {name: _plain(inner) for name, inner in x.items()}
    return tuple(map(_plain, x)) if isinstance(x, tuple | list) else np.asarray(x)


def from_minari(dataset: Any) -> Experience:
    """Reads a data set of Minari into the rows of one lane, its episodes one after another: leaves ``[N, 1, ...]``.

    Each episode is rows from FIRST to LAST, as of `from_episode`. A replay buffer of one lane takes the rows, and
    `to_transitions` takes all but the last, and the ``timestep`` of the last.

    ``dataset`` is a ``minari.MinariDataset``, whole or a selection by ``filter_episodes``; all of it is read into
    memory. NaN is refused.
    """
    if not hasattr(dataset, "iterate_episodes"):
        raise ValueError(f"from_minari: dataset must be a MinariDataset, as of minari.load_dataset, got {dataset!r}")
    parts = []
    for episode in dataset.iterate_episodes():
        steps = len(episode.rewards)
        kinds = np.full(steps + 1, StepType.MID, np.int32)
        kinds[0], kinds[-1] = StepType.FIRST, StepType.LAST
        action = jax.tree.map(lambda x: np.concatenate([x, np.zeros_like(x[:1])]), episode.actions)
        reward = np.concatenate([np.zeros_like(episode.rewards[:1]), episode.rewards]).astype(np.float32)
        discount = np.concatenate([[1], np.where(episode.terminations, 0, 1)]).astype(np.float32)
        parts.append((kinds, reward, discount, episode.observations, action))
    if not parts:
        raise ValueError("from_minari: dataset must hold an episode, got none")
    whole = jax.tree.map(lambda *x: np.concatenate(x)[:, None], *parts)
    for name, x in zip(("reward", "discount", "observation", "action"), whole[1:], strict=True):
        check_numbers("from_minari", name, x)
    kinds, reward, discount, observation, action = jax.tree.map(jnp.asarray, whole)
    unset: Any = ()
    timestep = TimeStep(kinds, reward, discount, observation, env_info=unset)
    return Experience(timestep, action, unset)
