"""Films of the current policy, written by a thread during training."""

import pathlib
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from jaxenv.canvas._films import write_film
from jaxenv.canvas._grid import Grid
from jaxenv.rollout._film import Reel
from jaxenv.training import _algorithms
from jaxenv.training.config import RunConfig

FOLDER = "films"
_SIZE, _FPS, _MAX_STEPS = 192, 30, 1000


def filmed(runs: Iterator[Any], folder: pathlib.Path, config: RunConfig, every: int) -> Iterator[Any]:
    """Yields the iterations of a run and films every ``every``-th; returns when the last film is written."""
    films = RunFilms(folder, config)
    with ThreadPoolExecutor(1, "jaxenv-run-films") as thread:
        for run in runs:
            number = int(run.iterations)
            if number % every == 0:
                thread.submit(films.write, *best_of(run.learner, jax.device_get(run.curve), number - 1))
            yield run


def best_of(learner: Any, curve: Any, number: int) -> tuple[int, Any, Any]:
    """Returns steps, weights and statistics of the best seed of evaluation ``number``, from the values of all seeds."""
    returns = np.where(curve.finished[number], curve.returns[number], np.nan)
    means = [x[~np.isnan(x)].mean() if not np.isnan(x).all() else -np.inf for x in returns]
    best = int(np.argmax(means))
    # Training donates its arrays to the next iteration, so the weights are copied.
    params, statistics = jax.tree.map(lambda x: np.array(x[best]), (learner.params, learner.statistics))
    return int(curve.steps[number, best]), params, statistics


class RunFilms:
    """Writes a GIF of one episode for each given policy."""

    def __init__(self, folder: pathlib.Path, config: RunConfig):
        self._folder, self._config = folder / FOLDER, config
        self._reel: Reel | None = None
        self._make_policy = _algorithms.module("train", _algorithms.name_of("train", config)).make_policy

    def write(self, steps: int, params: Any, statistics: Any) -> None:
        """Writes the film of the policy after ``steps``; a film that fails is a warning, and the training goes on."""
        try:
            env = self._config.make_env(mode="eval")
            policy, memory = self._make_policy(self._config, env, params, statistics)
            self._reel = self._reel or Reel("train", env, policy, (_SIZE, _SIZE), max_steps=_MAX_STEPS)
            self._folder.mkdir(exist_ok=True)
            path, grid = self._folder / f"steps-{steps:08d}.gif", Grid((_SIZE, _SIZE), 1, True)
            write_film(path, (grid.frame(last := one) for one in self._reel.play(jax.random.key(0), memory)), _FPS)
            if not last.over.all():
                warnings.warn(f"train: {path.name} ends after {_MAX_STEPS:,} steps, its episode does not", stacklevel=1)
        except Exception as fault:
            warnings.warn(f"train: the film after {steps:,} steps is not written: {fault}", stacklevel=1)
