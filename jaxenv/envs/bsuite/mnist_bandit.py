"""Classify an image of a handwritten digit; each episode is one image.

Reference: bsuite 0.3.6, ``environments/mnist.py`` (tests/envs/bsuite/test_mnist_bandit.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568. Data: LeCun et al. (1998),
doi:10.1109/5.726791; by default the 8 by 8 digits of scikit-learn, from Alpaydin and Kaynak (1998).

Observation   float32[H, W]   the image at the start, zeros after the step; [28, 28] for MNIST, [8, 8] by default
Action        int32           the digit, 0 to 9
Reward        1 for the right digit, else -1
Starts        with an image drawn uniformly
Terminates    with the first step
Time limit    none
env_info      total_regret: float32, 2 for every wrong digit, accumulated over the episodes of a lane
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import GOLD, GREY, NIGHT, WHITE, Canvas
from jaxenv.core import Task, Transition, take_rows
from jaxenv.envs.bsuite import _digits


@tree.struct
class State:
    """The image and a counter, each int32 ``[B]``."""

    image: jax.Array  # its index, -1 after the step
    label: jax.Array  # its digit
    mistakes: jax.Array  # of all episodes


class MNISTBandit(Task):
    """Classification of digits as a bandit; the module docstring is the specification."""

    path: str = tree.static(
        default="", doc='the images, see ``_digits.find``; ``""`` for the digits of scikit-learn; nothing is downloaded'
    )
    fraction: float = tree.static(default=1.0, above=0, high=1, doc="fraction of the images to use, the first ones")
    signed_pixels: bool = tree.static(
        default=True,
        doc="whether MNIST's bytes are read as signed integers, as bsuite does, so that pixels brighter than "
        "127 become negative; ``False`` gives the documented range, 0 to 1. The digits of scikit-learn "
        "range from 0 to 1 either way.",
    )
    files: Any = tree.static(default=None, init=False, doc="the files found at ``path``; not an argument")
    action_names = tuple(f"digit {digit}" for digit in range(10))

    def convert(self) -> dict[str, Any]:
        # The files are identified once, here: later working directories do not matter, and changed files are detected.
        if not isinstance(self.path, str):  # the constructor rejects it after this call
            return {}
        return {"files": self._with_owner(_digits.find, self.path)}

    def check(self) -> None:
        if int(self.fraction * self._shape[0]) < 1:
            raise ValueError(f"{self}: fraction must leave at least one image, got {self.fraction}")

    @property
    def _shape(self) -> tuple[int, ...]:
        # Does not need scikit-learn, so that the environment can be listed without it.
        return self._with_owner(_digits.shape, self.files)

    @property
    def _data(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Images, labels and the value of white; the cache of `_digits.load` keeps one copy for all environments."""
        images, labels, white = self._with_owner(_digits.load, self.files)
        count = int(self.fraction * len(labels))
        if self.signed_pixels:
            images = images.view(np.int8)
        return images[:count], labels[:count], white

    def _with_owner(self, read: Callable[..., Any], argument: Any) -> Any:
        """Returns ``read(argument)``; errors name the environment."""
        try:
            return read(argument)
        except (ValueError, ImportError) as error:
            kind = ImportError if isinstance(error, ImportError) else ValueError
            raise kind(f"{self}: {error}") from error

    def initial(self, stream: random.Stream) -> State:
        _, labels, _ = self._data
        image = random.integers(stream, (), 0, len(labels))
        return State(image, take_rows(labels, image).astype(jnp.int32), jnp.zeros(stream.shape, jnp.int32))

    def carry(self, old: State, new: State) -> State:
        return tree.rebuild(new, mistakes=old.mistakes)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        right = action == state.label
        after = State(jnp.full_like(state.image, -1), state.label, state.mistakes + (~right).astype(jnp.int32))
        reward = jnp.where(right, np.float32(1), np.float32(-1))
        return Transition(after, reward, terminated=jnp.ones(action.shape, bool))

    def state_info(self, state: State) -> dict[str, jax.Array]:
        return {"total_regret": 2 * state.mistakes.astype(jnp.float32)}

    def observe(self, state: State) -> jax.Array:
        images, _, white = self._data
        shown = take_rows(images, jnp.maximum(state.image, 0), mode="promise_in_bounds")
        shown = shown.astype(jnp.float32) / np.float32(white)
        return jnp.where(tree.expand(state.image >= 0, 3), shown, np.float32(0))

    def observation_spec(self) -> specs.Bounded:
        low, high = (-128 / 255, 127 / 255) if self.path and self.signed_pixels else (0, 1)
        return specs.Bounded(self._shape[1:], np.float32, low, high, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(10, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        images, _, white = self._data
        shown = take_rows(images.view(np.uint8), jnp.maximum(state.image, 0), mode="promise_in_bounds")
        shown = jnp.where(tree.expand(state.image >= 0, 3), shown, np.uint8(0))
        border = -(-max(shown.shape[1:]) // 8)
        light = jnp.pad(shown.astype(jnp.float32) / np.float32(white), ((0, 0), *2 * ((border, border),)))[..., None]
        dark, bright = NIGHT.reshape(1, 1, 1, 3), WHITE.reshape(1, 1, 1, 3)
        pixels = jnp.round((dark + light * (bright - dark)) * np.float32(255)).astype(jnp.uint8)
        canvas = canvas.fill(NIGHT).picture(pixels)
        # The right answer stands below the image.
        canvas = canvas.view((0, 10), (0, 10)).text("=", 4.9, 0.2, 0.6, GREY, align=1)
        return canvas.number(state.label, 5.15, 0.2, 0.6, GOLD, digits=1)
