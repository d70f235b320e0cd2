"""Assigns keys to actions."""

import dataclasses
import string

import jax
import numpy as np

from jaxenv import specs
from jaxenv.core.environment import Environment
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
    """Returns the controls of an environment; the one that does nothing, if any, has the keys in `WAIT`.

    Raises:
        ValueError: for an action that is neither one discrete number nor one or two continuous ones, and for several
            agents that act at once.
    """
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
