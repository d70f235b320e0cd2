"""Plays one lane of an environment on the host: keys for its actions, and its steps. Front ends show it."""

import dataclasses
import os
import string
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs
from jaxenv._util.checks import check_path
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.lanes import reset_where
from jaxenv.core.task import Task

_ARROWS = {"left": "a", "right": "d", "up": "w", "down": "s"}
# Names of actions that are directions.
_DIRECTIONS = {
    **{name: name for name in _ARROWS},
    "forward": "up",
    "north": "up",
    "south": "down",
    "west": "left",
    "east": "right",
    "torque -1": "left",
    "torque 1": "right",
}
_IDLE = ("nothing", "none", "stay", "coast", "done", "torque 0")  # names of actions that do nothing
_COMMANDS = "qr"  # keys of the player itself
WAIT = ("space", ".")
_MOST = 10 + 26 - len(_COMMANDS)


@dataclasses.dataclass(frozen=True)
class Control:
    """An action and its keys."""

    name: str
    keys: tuple[str, ...]  # names of keys, as `jaxenv.canvas._terminal.Screen.key` returns them
    action: np.ndarray  # the action of one lane


def controls(env: Environment) -> list[Control]:
    """Returns the controls of an environment; the one that does nothing, if any, has the keys in `WAIT`."""
    if env.num_agents > 1 and not env.turns:
        raise ValueError(f"play: a person plays one agent, {env.name or env} has {env.num_agents} that act at once")
    spec, names = env.action_spec(), action_names(env)
    if specs.is_spec(spec):
        if isinstance(spec, specs.Bounded) and spec.is_discrete and spec.shape == () and spec.is_bounded:
            if spec.num_values <= _MOST:
                return _discrete(spec, names)
        elif spec.is_continuous and spec.shape in ((), (1,), (2,)):
            return _continuous(spec, names)
    got = jax.tree.map(lambda s: f"{s.dtype}{list(s.shape)}", spec)
    rule = f"the action of {env.name or env} must be one discrete number with at most {_MOST} values"
    raise ValueError(f"play: {rule}, or one or two continuous numbers, got {spec if specs.is_spec(spec) else got}")


def action_names(env: Environment) -> tuple[str, ...]:
    """Returns the names of the actions of the task; none if a wrapper changes the action."""
    task = env.unwrapped
    if not isinstance(task, Task) or repr(task.action_spec()) != repr(env.action_spec()):
        return ()
    return tuple(task.action_names)


def _discrete(spec: specs.Bounded, names: tuple[str, ...]) -> list[Control]:
    """Chooses digits for all actions, then letters; arrows for directions, and initials that are unique."""
    low, count = int(spec.minimum), spec.num_values
    names = names or tuple(str(low + i) for i in range(count))
    arrows = [_DIRECTIONS.get(name) for name in names]
    taken = {*_COMMANDS, *(_ARROWS[arrow] for arrow in arrows if arrow)}
    initials = [name[0].lower() for name in names]
    of_words = [i not in taken and i.isalpha() and initials.count(i) == 1 for i in initials]
    taken |= {initial for initial, unique in zip(initials, of_words, strict=True) if unique}
    numbers = [*string.digits, *(letter for letter in string.ascii_lowercase if letter not in taken)]
    scarce, spare = len(numbers) < count, iter(numbers)
    found = []
    for i, (name, arrow) in enumerate(zip(names, arrows, strict=True)):
        keys = (arrow, _ARROWS[arrow]) if arrow else (initials[i],) if of_words[i] else ()
        keys = WAIT if name in _IDLE else keys
        number = () if scarce and keys else (next(spare),)
        found.append(Control(name, (*keys, *number), np.asarray(low + i, spec.dtype)))
    return found


def _continuous(spec: specs.Array, names: tuple[str, ...]) -> list[Control]:
    """Chooses arrows that push one number to an end and the other one to zero; without bounds, ends are 1."""
    ends = (spec.minimum, spec.maximum) if isinstance(spec, specs.Bounded) else (-np.inf, np.inf)
    low, high = (np.broadcast_to(end, spec.shape).ravel() for end in ends)
    low, high = np.where(np.isfinite(low), low, -1), np.where(np.isfinite(high), high, 1)
    rest = np.clip(0, low, high)
    names = names or tuple(f"number {i + 1}" for i in range(low.size))
    found = []
    for i, arrows in enumerate([("left", "right"), ("down", "up")][: low.size]):
        for arrow, end in zip(arrows, (low[i], high[i]), strict=True):
            action = np.where(np.arange(low.size) == i, end, rest).astype(spec.dtype).reshape(spec.shape)
            found.append(Control(f"{names[i]} {end:+g}", (arrow, _ARROWS[arrow]), action))
    return [*found, Control("zero", WAIT, rest.astype(spec.dtype).reshape(spec.shape))]


class Game:
    """The state of a game: the last row, its picture, and the return so far."""

    def __init__(self, env: Environment, key: jax.Array | None = None, level: str | os.PathLike[str] | None = None):
        check_environment("play", env)
        if env.num_envs != 1:
            raise ValueError(f"play: env must have one lane, got num_envs={env.num_envs}")
        if env.autoreset == "same_step":
            raise ValueError('play: env must show the last row of an episode, got autoreset="same_step"')
        self.name = env.name
        self.controls = controls(env)
        # Steps per second, 0 if the environment waits for each action.
        self.fps = env.unwrapped.play_fps if isinstance(env.unwrapped, Task) else 0
        # The end is "", "terminated", "truncated", or "failed" for a step with numbers that are not finite.
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
    return env._map_task(lambda task: form.with_text(task, text))
