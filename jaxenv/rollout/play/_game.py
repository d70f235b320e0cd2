"""Plays one lane of an environment step by step on the host. Front ends show it."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_path
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.lanes import reset_where
from jaxenv.core.task import Task
from jaxenv.core.wrapper import Wrapper
from jaxenv.rollout.play._controls import Control, controls


class Game:
    """The state of a game: the last row, its picture, and the return so far.

    Attributes:
        name: the id of the environment.
        controls: the actions and their keys.
        fps: steps per second, 0 if the environment waits for each action.
        episode: the number of the episode, from 1.
        step: the step of the episode.
        reward: the reward of the last step; the sum of a vector reward.
        total: the return so far.
        end: ``""``, ``"terminated"``, ``"truncated"``, or ``"failed"`` for a step with numbers that are not finite.
    """

    def __init__(self, env: Environment, key: jax.Array | None = None, level: str | os.PathLike[str] | None = None):
        check_environment("play", env)
        if env.num_envs != 1:
            raise ValueError(f"play: env must have one lane, got num_envs={env.num_envs}")
        if env.autoreset == "same_step":
            raise ValueError('play: env must show the last row of an episode, got autoreset="same_step"')
        self.name = env.name
        self.controls = controls(env)
        self.fps = env.unwrapped.play_fps if isinstance(env.unwrapped, Task) else 0
        self.episode, self.step, self.reward, self.total, self.end = 1, 0, 0.0, 0.0, ""
        self._key = jax.random.key(0) if key is None else key
        self._env = env if level is None else _in_level(env, self._key, level)
        self._state, self._timestep = self._env.reset(self._key)
        try:
            jax.eval_shape(lambda state: self._env.render(state, 64), self._state)
            self.has_picture = True
        except ValueError:
            self.has_picture = False

    def compile(self) -> None:
        """Compiles the step, so that the game does not pause for it; outside JAX there is nothing to compile."""
        if not self._env.facts.outside_jax:
            jax.block_until_ready(self._env.step(self._state, jnp.asarray(self.controls[0].action)[None]))

    def take(self, control: Control) -> None:
        """Takes one step. Does nothing after the end of an episode."""
        if self.end:
            return
        self._state, self._timestep = self._env.step(self._state, jnp.asarray(control.action)[None])
        row = jax.device_get(self._timestep)
        self.step += 1
        self.reward = float(np.sum(row.reward))
        self.total += self.reward
        if row.is_last()[0]:
            failed = np.any(row.env_info.get("abnormal", False))
            self.end = "failed" if failed else "terminated" if row.terminated[0] else "truncated"

    def restart(self) -> None:
        """Starts the next episode."""
        if self._env.facts.outside_jax:
            self._state, self._timestep = self._env.reset(jax.random.fold_in(self._key, self.episode))
        else:
            self._state, self._timestep = reset_where(self._env, self._state, self._timestep, jnp.ones(1, bool))
        self.episode += 1
        self.step, self.reward, self.total, self.end = 0, 0.0, 0.0, ""

    def picture(self, size: int) -> np.ndarray:
        """Returns the picture of the state, uint8 ``[size, size, 3]``."""
        return np.asarray(self._env.render(self._state, size)[0])

    def observation(self, columns: int = 75) -> str:
        """Returns the observation as text in lines of at most ``columns`` characters, for a task without a picture."""
        lane = jax.tree.map(lambda x: np.asarray(x)[0], self._timestep.observation)
        with np.printoptions(precision=3, suppress=True, threshold=400, linewidth=columns):
            return "\n".join(str(x) for x in jax.tree.leaves(lane))

    @property
    def status(self) -> list[str]:
        """Two lines: the last step, and the end of the episode."""
        rewards = f"reward {self.reward:.4g}   return {self.total:.4g}"
        end = f"{self.end} after {self.step} step{'s' * (self.step != 1)}" if self.end else ""
        return [f"episode {self.episode}   step {self.step}   {rewards}", end]


def _in_level(env: Environment, key: jax.Array, path: str | os.PathLike[str]) -> Environment:
    """Returns the stack around the task in the level of a file of text, which is written if it does not exist."""
    file, task = check_path("play", "level", path), env.unwrapped
    form: Any = getattr(task, "text_form", None)
    if form is None:
        raise ValueError(f"play: level needs a task whose levels have a text form, {env.name or env} has none")
    try:
        if not file.exists():
            file.write_text(form.text(task, key) + "\n", encoding="utf-8")
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"play: level must be a file of text, got {str(path)!r}: {error}") from None
    return _around(env, form.with_text(task, text))


def _around(env: Environment, task: Environment) -> Environment:
    """Returns the stack around another task."""
    return tree.rebuild(env, env=_around(env.env, task)) if isinstance(env, Wrapper) else task
