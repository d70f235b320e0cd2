"""Films of the current policy, written by a thread during training."""

import pathlib
import queue
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from jaxenv.canvas._film_files import write_film
from jaxenv.canvas._grid import Grid
from jaxenv.rollout._frames import Moment as Shown
from jaxenv.training import _algorithms
from jaxenv.training._play import Player
from jaxenv.training.config import RunConfig

FOLDER = "films"
_SIZE, _FPS, _MAX_STEPS = 192, 30, 1000


def filmed(runs: Iterator[Any], folder: pathlib.Path, config: RunConfig, every: int) -> Iterator[Any]:
    """Yields the iterations of a run and films every ``every``-th; returns when the last film is written."""
    films = RunFilms(folder, config)
    try:
        for run in runs:
            number = int(run.iterations)
            if number % every == 0:
                films.add(run.learner, jax.device_get(run.curve), number - 1)
            yield run
    finally:
        films.close()


class RunFilms:
    """Writes a GIF of one episode for each given policy, in order."""

    def __init__(self, folder: pathlib.Path, config: RunConfig):
        self._folder, self._config = folder / FOLDER, config
        self._make_policy = _algorithms.module("train", _algorithms.name_of("train", config)).make_policy
        self._queue: queue.Queue[tuple[int, Any, Any] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="jaxenv-run-films", daemon=True)
        self._thread.start()

    def add(self, learner: Any, curve: Any, number: int) -> None:
        """Films the best seed of evaluation ``number``, given learner and curve of all seeds."""
        returns = np.where(curve.finished[number], curve.returns[number], np.nan)
        means = [x[~np.isnan(x)].mean() if not np.isnan(x).all() else -np.inf for x in returns]
        best = int(np.argmax(means))
        # Training donates its arrays to the next iteration, so the weights are copied.
        params, statistics = jax.tree.map(lambda x: np.array(x[best]), (learner.params, learner.statistics))
        self._queue.put((int(curve.steps[number, best]), params, statistics))

    def close(self) -> None:
        """Waits until all films are written."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        player: Player | None = None
        while (given := self._queue.get()) is not None:
            steps, params, statistics = given
            try:
                config = self._config
                env = config.make_env(mode="eval")
                policy, memory = self._make_policy(config, env, params, statistics)
                player = Player(env, policy, _MAX_STEPS) if player is None else player
                self._write(player, memory, self._folder / f"steps-{steps:08d}.gif")
            except Exception as fault:  # a failing film must not end the training
                warnings.warn(f"train: the film after {steps:,} steps is not written: {fault}", stacklevel=1)

    def _write(self, player: Player, memory: Any, path: pathlib.Path) -> None:
        self._folder.mkdir(exist_ok=True)
        grid = Grid((_SIZE, _SIZE), 1, True)
        over = False

        def frames() -> Iterator[np.ndarray]:
            nonlocal over
            for one in player.episode(jax.random.key(0), memory, lambda: _SIZE):
                over = bool(one.over.all())
                yield grid.frame(Shown(one.picture, one.step, one.total, one.over))

        write_film(path, frames(), _FPS)
        if not over:
            warnings.warn(f"train: {path.name} ends after {_MAX_STEPS:,} steps, its episode does not", stacklevel=1)
