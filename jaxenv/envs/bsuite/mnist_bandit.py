"""Tell which digit an image shows; every image is an episode.

Reference: bsuite 0.3.6, ``environments/mnist.py`` (tests/envs/bsuite/test_mnist_bandit.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568. Data: LeCun et al. (1998),
doi:10.1109/5.726791; by default the 8 by 8 digits of scikit-learn, from Alpaydin and Kaynak (1998).

Observation   float32[H, W]   the image, then zeros; MNIST's own files give [28, 28], the default [8, 8]
Action        int32           the digit, 0 to 9
Reward        1 if it is right, else -1
Starts        every image is as likely
Terminates    with the first step
Time limit    none
env_info      total_regret: float32, 2 for every wrong digit, summed over all episodes
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.envs.bsuite import digits
from jaxenv.task import Task, Transition


@tree.struct
class State:
    """Each int32 ``[B]``."""

    image: jax.Array  # its number, -1 once it has been answered
    label: jax.Array  # the digit that it shows
    mistakes: jax.Array  # of all episodes


class MNISTBandit(Task):
    """Classification of digits as a bandit; see the module.

    Attributes:
        path: of the images, see `digits.find`; nothing is ever downloaded.
        fraction: what part of the images to use, from the first one on, in (0, 1].
        signed_pixels: as bsuite does, takes MNIST's bytes from 0 to 255 for signed ones, so that what is brighter
            than 127 shows as negative; ``False`` gives what bsuite says it does, numbers from 0 to 1. The default
            images are not concerned: their numbers go from 0 to 1 either way.
        files: what was found at ``path`` when the environment was made; no argument.
    """

    path: str = tree.static(default="")
    fraction: float = tree.static(default=1.0)
    signed_pixels: bool = tree.static(default=True)
    files: Any = tree.static(default=None, init=False)

    def __post_init__(self):
        # Once for all: neither a change of the working folder nor one of the files changes what this one shows.
        if isinstance(self.path, str):  # anything else is refused below
            try:
                object.__setattr__(self, "files", digits.find(self.path))
            except ValueError as error:
                raise ValueError(f"{self}: {error}") from None
        super().__post_init__()

    def check(self):
        if not (isinstance(self.fraction, int | float) and 0 < self.fraction <= 1):
            raise ValueError(f"{self}: fraction must lie in (0, 1], got {self.fraction}")
        if int(self.fraction * self._shape[0]) < 1:
            raise ValueError(f"{self}: fraction leaves no image, got {self.fraction}")

    @property
    def _shape(self) -> tuple[int, ...]:
        # Known without scikit-learn, so that the environment can be listed where that is not installed.
        return self._named(digits.shape)

    def _named(self, read):
        """What ``read`` finds in the files; its errors name the environment."""
        try:
            return read(self.files)
        except (ValueError, ImportError) as error:
            kind = ImportError if isinstance(error, ImportError) else ValueError
            raise kind(f"{self}: {error}") from error

    @property
    def _data(self) -> tuple[np.ndarray, np.ndarray, int]:
        # The cache of `digits` holds the arrays: one copy for all environments, lanes and calls.
        images, labels, white = self._named(digits.load)
        count = int(self.fraction * len(labels))
        if self.signed_pixels:
            images = images.view(np.int8)
        return images[:count], labels[:count], white

    def initial(self, stream):
        _, labels, _ = self._data
        image = random.integers(stream, (), 0, len(labels))
        return State(image, jnp.asarray(labels)[image].astype(jnp.int32), jnp.zeros(stream.shape, jnp.int32))

    def carry(self, old, new):
        return tree.rebuild(new, mistakes=old.mistakes)

    def transition(self, state, action, stream):
        right = action == state.label
        after = State(jnp.full_like(state.image, -1), state.label, state.mistakes + (~right).astype(jnp.int32))
        reward = jnp.where(right, np.float32(1), np.float32(-1))
        return Transition(after, reward, terminated=jnp.ones(action.shape, bool))

    def state_info(self, state):
        return {"total_regret": 2 * state.mistakes.astype(jnp.float32)}

    def observe(self, state):
        images, _, white = self._data
        shown = jnp.asarray(images).at[jnp.maximum(state.image, 0)].get(mode="promise_in_bounds")
        shown = shown.astype(jnp.float32) / np.float32(white)
        return jnp.where(tree.expand(state.image >= 0, 3), shown, np.float32(0))

    def observation_spec(self):
        low, high = (-128 / 255, 127 / 255) if self.path and self.signed_pixels else (0, 1)
        return specs.Bounded(self._shape[1:], np.float32, low, high, "observation")

    def action_spec(self):
        return specs.discrete(10, name="action")
