"""The frames of a film: what is played, and what a frame shows of every lane."""

import math
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._checks import check_bool, check_integer
from jaxenv.canvas import INK, PAPER, check_size, text_width, write
from jaxenv.environment import Environment, check_environment
from jaxenv.rollout._policy import Policy, random_policy
from jaxenv.rollout._policy_loop import PolicyLoop
from jaxenv.timestep import TimeStep
from jaxenv.tree import Tree

GAP = 6  # pixels between lanes
Part = tuple[slice, slice]  # rows and columns of pixels
_MAX_STEPS = 1000  # of a film whose length is not given
_CHUNK = 32  # steps per call of the compiled function


def frames(
    owner: str,
    env: Environment,
    policy: Policy | None,
    *,
    key: jax.Array | None,
    num_steps: int | None,
    max_steps: int | None,
    size: int | tuple[int, int],
    fps: int,
    captions: bool,
    initial_memory: Any,
) -> tuple[Iterator[np.ndarray], tuple[Part, ...]]:
    """Checks the arguments of `jaxenv.film` and `jaxenv.record`.

    Errors start with ``owner``, the name of the calling function.

    Returns:
        The frames, uint8 ``[H, W, 3]``, and the part of a frame that shows each lane.
    """
    check_environment(owner, env)
    if env.autoreset == "same_step":
        rule = "autoreset must be 'next_step' or None: in 'same_step' a LAST row has the state of the next episode"
        raise ValueError(f"{owner}: {rule}, got {env}")
    check_integer(owner, "fps", fps, 1)
    if max_steps is not None:
        check_integer(owner, "max_steps", max_steps, 1)
    check_integer(owner, "num_steps", 0 if num_steps is None else num_steps, 0)
    check_bool(owner, "captions", captions)
    lanes = Lanes(check_size(owner, size), env.num_envs, captions)
    policy = random_policy(env) if policy is None else policy
    shown = moments(owner, env, policy, key, num_steps, max_steps, lanes.size, initial_memory)
    return map(lanes.frame, shown), lanes.parts


@tree.struct
class Moment:
    """What a frame shows of every lane.

    Attributes:
        picture: uint8 ``[B, H, W, 3]``.
        step: int32 ``[B]``, the step of the episode.
        total: float32 ``[B]``, the sum of its rewards so far; of all their components for vector rewards.
        over: bool ``[B]``, lanes that stand still.
    """

    picture: jax.Array
    step: jax.Array
    total: jax.Array
    over: jax.Array


def moments(
    owner: str,
    env: Environment,
    policy: Policy,
    key: jax.Array | None,
    num_steps: int | None,
    max_steps: int | None,
    size: tuple[int, int],
    initial_memory: Any,
) -> Iterator[Moment]:
    """The moments of a film as NumPy arrays, drawn in chunks of steps."""
    start = env.reset(jax.random.key(0) if key is None else key)
    loop = PolicyLoop.create(owner, env, policy, start, None, initial_memory, None)

    def first(state: Tree) -> Moment:
        none = jnp.zeros(env.clock(state).step.shape, jnp.float32)
        return Moment(env.render(state, size), env.clock(state).step, none, none > 0)

    def step(carry: tuple[tuple[Any, TimeStep, Any], Moment], _: Any) -> tuple[Any, ...]:
        of_loop, shown = carry
        starts = env.starts(of_loop[1])
        of_loop, _ = loop.step(of_loop)
        state, timestep, _ = of_loop
        reward = timestep.reward.reshape(timestep.reward.shape[0], -1).sum(axis=-1)
        total = jnp.where(starts | timestep.is_first(), 0, shown.total) + reward
        new = Moment(env.render(state, size), env.clock(state).step, total, shown.over)
        if num_steps is None or env.autoreset is None:
            new = tree.rebuild(tree.where(shown.over, shown, new), over=shown.over | timestep.is_last())
        return (of_loop, new), new

    moment = jax.jit(first)(start[0])
    yield jax.device_get(moment)
    carry = ((*start, loop.memory), moment)
    advance = jax.jit(lambda carry: jax.lax.scan(step, carry, None, length=_CHUNK))
    remaining = (max_steps or _MAX_STEPS) if num_steps is None else num_steps
    while remaining:
        carry, chunk = advance(carry)
        chunk = jax.device_get(chunk)
        for t in range(min(_CHUNK, remaining)):
            moment = jax.tree.map(lambda x, t=t: x[t], chunk)
            yield moment
            remaining -= 1
            if num_steps is None and moment.over.all():
                return
    if num_steps is None and max_steps is None:
        cut = np.count_nonzero(~moment.over)
        warnings.warn(
            f"{owner}: the film ends after {_MAX_STEPS:,} steps, before the episodes of {cut} of {moment.over.size} "
            "lanes: pass max_steps or num_steps",
            stacklevel=2,
        )


class Lanes:
    """Puts the pictures of all lanes and their captions side by side."""

    def __init__(self, size: tuple[int, int], count: int, captions: bool):
        self.size = size
        height, width = size
        self._columns = min(math.ceil(math.sqrt(count * height / width)), count)
        self._letter = max(min(height // 16, round(width / 17)), 5) if captions else 0
        self._cell = (height + (2 * self._letter if captions else 0), width)
        self._grid = (math.ceil(count / self._columns), self._columns)
        # The part of a frame that shows each lane, with its caption.
        self.parts = tuple(self._part(lane) for lane in range(count))

    def frame(self, moment: Moment) -> np.ndarray:
        """The frame of a moment, uint8 ``[H, W, 3]`` with an even height and width, as video codecs want."""
        (height, width), (rows, columns) = self._cell, self._grid
        shape = (rows * (height + GAP) - GAP, columns * (width + GAP) - GAP)
        frame = np.empty((*(n + n % 2 for n in shape), 3), np.uint8)
        frame[:] = np.round(PAPER * 255).astype(np.uint8)
        for lane, part in enumerate(self.parts):
            frame[part][: self.size[0]] = moment.picture[lane]
            if self._letter:
                below = part[0].start + self.size[0] + self._letter // 2
                self._caption(frame, moment, lane, below, part[1].start)
        return frame

    def _part(self, lane: int) -> Part:
        (height, width), (row, column) = self._cell, divmod(lane, self._columns)
        top, left = row * (height + GAP), column * (width + GAP)
        return slice(top, top + height), slice(left, left + width)

    def _caption(self, frame: np.ndarray, moment: Moment, lane: int, top: int, left: int) -> None:
        margin = self._letter // 2
        room = self._cell[1] - 2 * margin
        step, total = f"{moment.step[lane]}", moment.total[lane]
        # In a narrow picture the return has fewer digits, or stands alone; a number that does not fit is left out.
        returns = [f"{total:.{digits}g}" for digits in (4, 3, 2)]
        pairs = [*((step, text) for text in returns), *(("", text) for text in returns), (step, "")]
        fitting = (pair for pair in pairs if text_width(" ".join(filter(None, pair)), self._letter) <= room)
        step, shown = next(fitting, ("", ""))
        write(frame, step, left + margin, top, self._letter, INK)
        write(frame, shown, left + margin + room - text_width(shown, self._letter), top, self._letter, INK)
