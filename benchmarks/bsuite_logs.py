"""The logs of bsuite's experiments, kept inside compiled training and written as files that bsuite loads."""

import csv
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util import files
from jaxenv.core._moments import Sum
from jaxenv.core.wrapper import Wrapper

STANDARD = ("steps", "episode", "total_return", "episode_len", "episode_return")
_RATIOS = (1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)


def logged_episodes(num_episodes: int) -> tuple[int, ...]:
    """Returns the episodes, counted from 1, that bsuite logs: about as many in 10 to 100 as in 100 to 1000."""
    numbers = {ratio * 10**exponent for exponent in range(len(str(num_episodes))) for ratio in _RATIOS}
    return tuple(int(number) for number in sorted(numbers) if number <= num_episodes and number == int(number))


@tree.struct
class LogState:
    """State of the environment inside, and the log of every lane.

    Attributes:
        inner: the state of the environment inside.
        steps: int32 ``[B]``, rows other than FIRST in all episodes.
        length: int32 ``[B]``, the same in the current episode.
        episodes: int32 ``[B]``, completed episodes.
        total: the rewards of all episodes, ``[B]``.
        of_episode: the rewards of the current episode, ``[B]``.
        table: float32 ``[B, K, C]``, a line for each of the K logged episodes; zeros for pending ones. Counts are exact
            below 2**24.
    """

    inner: Any
    steps: jax.Array
    length: jax.Array
    episodes: jax.Array
    total: Sum
    of_episode: Sum
    table: jax.Array


class Log(Wrapper):
    """Keeps the log that bsuite's ``Logging`` wrapper writes, per lane, in its state.

    Owns no field; goes outside ``AutoReset``. A training run needs no callbacks then: the host
    reads the table from the state of the environment.

    Args:
        env: a stack with ``next_step`` restarts.
        num_episodes: the length of a run. Later episodes are not logged.

    >>> import jax, jax.numpy as jnp, jaxenv
    >>> env = Log(jaxenv.make("bsuite:catch/0"), num_episodes=2)
    >>> state, _ = env.reset(jax.random.key(0))
    >>> for _ in range(19):
    ...     state, _ = env.step(state, jnp.zeros(1, jnp.int32))
    >>> env.columns
    ('steps', 'episode', 'total_return', 'episode_len', 'episode_return', 'total_regret')
    >>> state.table[0, :, 1].tolist(), state.table[0, :, 3].tolist()
    ([1.0, 2.0], [9.0, 9.0])
    """

    num_episodes: int = tree.static(default=1, low=1)

    owns: ClassVar[frozenset[str]] = frozenset()

    def check(self):
        if self.autoreset != "next_step":
            raise ValueError(f"Log: env must restart lanes by autoreset='next_step', got {self.autoreset!r}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the table's columns: common ones, and the counters of this experiment."""
        return (*STANDARD, *sorted(self.env.env_info_spec()))

    def inner(self, state):
        return state.inner

    def begin(self, starts, previous=None):
        state, timestep = super().begin(starts, previous)
        none, nothing = jnp.zeros_like(starts.episode), Sum.zeros(timestep.reward.shape)
        if previous is not None:
            return tree.rebuild(previous, inner=state, length=none, of_episode=nothing), timestep
        lines = (starts.episode.shape[0], len(logged_episodes(self.num_episodes)), len(self.columns))
        return LogState(state, none, none, none, nothing, nothing, jnp.zeros(lines, jnp.float32)), timestep

    def proceed(self, state, action):
        inner, timestep = self.env.proceed(state.inner, action)
        first, last = timestep.is_first(), timestep.is_last()
        new = LogState(
            inner=inner,
            steps=state.steps + (~first).astype(jnp.int32),
            length=jnp.where(first, np.int32(0), state.length + 1),
            episodes=state.episodes + last.astype(jnp.int32),
            total=state.total.add(timestep.reward),
            of_episode=tree.where(first, Sum.zeros(timestep.reward.shape), state.of_episode.add(timestep.reward)),
            table=state.table,
        )
        values = (new.steps, new.episodes, new.total.value, new.length, new.of_episode.value)
        values += tuple(timestep.env_info[name] for name in self.columns[len(STANDARD) :])
        line = jnp.stack([value.astype(jnp.float32) for value in values], axis=-1)
        logged = np.array(logged_episodes(self.num_episodes), np.int32)
        # All other rows are written out of range, where the write is dropped.
        place = jnp.where(
            last[:, None] & (new.episodes[:, None] == logged[None]), np.arange(len(logged))[None], len(logged)
        )
        lane = jnp.arange(last.shape[0], dtype=jnp.int32)
        table = new.table.at[lane, jnp.min(place, axis=-1)].set(line, mode="drop")
        return tree.rebuild(new, table=table), timestep


def path_of(folder: pathlib.Path, id: str) -> pathlib.Path:
    """Returns the file of a setting, under the name that bsuite's ``csv_load`` expects."""
    return folder / f"bsuite_id_-_{id.replace('/', '-')}.csv"


def write(folder: pathlib.Path, id: str, columns: Sequence[str], table: np.ndarray) -> None:
    """Writes the log of one setting, ``[K, C]``. At all times the file is missing or complete."""
    path = path_of(folder, id)
    with files.replacing(path) as temporary, temporary.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(columns)
        lines.writerows([_number(value) for value in line] for line in table)


def read(path: pathlib.Path) -> Mapping[str, np.ndarray]:
    """Returns the columns of a log."""
    with open(path, newline="") as file:
        columns, *lines = csv.reader(file)
    return dict(zip(columns, np.array(lines, np.float64).T, strict=True))


def _number(value: float) -> float | int:
    """Writes whole numbers without a decimal point, like bsuite's counts."""
    return int(value) if float(value).is_integer() else float(value)
