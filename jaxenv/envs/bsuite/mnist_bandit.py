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

``path`` is a directory with MNIST's training files ``train-images-idx3-ubyte`` and ``train-labels-idx1-ubyte``, plain
or compressed (``.gz``); or an ``.npz`` file with the arrays ``x_train`` and ``y_train`` (or ``images`` and ``labels``);
or ``""`` for the 1797 digits of 8 by 8 pixels in scikit-learn. A leading ``~`` is the home directory. Nothing is
downloaded.
"""

import dataclasses
import functools
import gzip
import os
import pathlib
import struct
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._util import source
from jaxenv.canvas import GOLD, GREY, NIGHT, WHITE, Canvas
from jaxenv.core import Task, Transition, take_rows

# Magic numbers of IDX files: two zero bytes, the type of the elements (8: uint8) and the number of axes.
_IMAGES, _LABELS = 0x803, 0x801
_DEFAULT_SHAPE = (1797, 8, 8)  # number, rows and columns of scikit-learn's digits


@dataclasses.dataclass(frozen=True)
class Files:
    """Files of images and labels, and their versions."""

    # Absolute paths of one .npz file, or of the IDX files of images and of labels; empty for scikit-learn's digits.
    paths: tuple[str, ...] = ()
    stamps: tuple[tuple[int, int], ...] = ()  # the modification time (ns) and the size (bytes) of each file


@tree.struct
class State:
    """The image and a counter, each int32 ``[B]``."""

    image: jax.Array  # its index, -1 after the step
    label: jax.Array  # its digit
    mistakes: jax.Array  # of all episodes


class MNISTBandit(Task):
    """Classification of digits as a bandit; the module docstring is the specification."""

    path: str = tree.static(default="", doc='the images; ``""`` for the digits of scikit-learn; nothing is downloaded')
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
        return {"files": self._with_owner(find, self.path)}

    def check(self) -> None:
        if int(self.fraction * self._shape[0]) < 1:
            raise ValueError(f"{self}: fraction must leave at least one image, got {self.fraction}")

    @property
    def _shape(self) -> tuple[int, ...]:
        # Does not need scikit-learn, so that the environment can be listed without it.
        return self._with_owner(load, self.files)[0].shape if self.files.paths else _DEFAULT_SHAPE

    @property
    def _data(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Images, labels and the value of white; the cache of `load` keeps one copy for all environments."""
        images, labels, white = self._with_owner(load, self.files)
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


def find(path: str) -> Files:
    """Finds the files at a path in their current version."""
    if not path:
        return Files()
    place = pathlib.Path(path).expanduser().resolve()
    if not path.endswith(".npz"):
        files = [_idx_file(place, name) for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")]
    elif place.is_file():
        files = [place]
    else:
        raise ValueError(f"no file {place}")
    paths = tuple(map(str, files))
    return Files(paths, tuple(map(_stamp, paths)))


@functools.lru_cache(maxsize=4)
def load(files: Files) -> tuple[np.ndarray, np.ndarray, int]:
    """Reads images and labels. The newest versions of files are kept in memory.

    Images are uint8 ``[N, H, W]``, labels uint8 ``[N]`` from 0 to 9. The third value is white: 255, or 16 for the
    digits of scikit-learn. Files with invalid content, or changed since they were found, are a ``ValueError``.
    """
    for path, stamp in zip(files.paths, files.stamps, strict=True):
        if not os.path.isfile(path) or _stamp(path) != stamp:
            raise ValueError(f"{path} has changed since the environment was made")
    if not files.paths:
        images, labels = _from_scikit_learn()
    elif len(files.paths) == 1:
        images, labels = _from_npz(files.paths[0])
    else:
        images, labels = (_from_idx(pathlib.Path(p), m) for p, m in zip(files.paths, (_IMAGES, _LABELS), strict=True))
    white = 255 if files.paths else 16
    origin = " and ".join(files.paths) or "scikit-learn"
    if images.ndim != 3 or labels.shape != images.shape[:1] or images.size == 0:
        got = f"got {images.shape} and {labels.shape}"
        raise ValueError(f"digits of {origin}: images must be [N, H, W] and labels [N], {got}")
    for name, array in (("images", images), ("labels", labels)):
        if array.dtype.kind not in "iuf":
            raise ValueError(f"digits of {origin}: {name} must be numbers, got {array.dtype}")
    if images.min() < 0 or images.max() > white or labels.min() < 0 or labels.max() > 9:
        raise ValueError(f"digits of {origin}: pixels must be in [0, {white}] and labels in [0, 9]")
    images, labels = _as_uint8(images, f"{origin}: pixels", white), _as_uint8(labels, f"{origin}: labels", 9)
    assert files.paths or images.shape == _DEFAULT_SHAPE
    images.flags.writeable = labels.flags.writeable = False
    return images, labels, white


def _stamp(path: Any) -> Any:
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


def _as_uint8(array: np.ndarray, name: str, maximum: int) -> np.ndarray:
    """Casts to uint8. Fractions, such as pixels scaled to [0, 1], raise an error instead of being truncated."""
    with np.errstate(invalid="ignore"):  # NaN fails the comparison below
        converted = array.astype(np.uint8)
    if not np.array_equal(converted, array):
        raise ValueError(f"digits of {name} must be integers from 0 to {maximum}, got fractions of {array.dtype}")
    return converted


def _from_scikit_learn() -> tuple[np.ndarray, np.ndarray]:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        how = source.install_command("mnist")
        rule = f"{how}, or pass path= to MNIST files"
        raise ImportError(f"scikit-learn and its digits are not installed: {rule}") from error
    digits = load_digits()
    return digits.images, digits.target


def _from_npz(file: Any) -> Any:
    with np.load(file) as arrays:
        for names in (("x_train", "y_train"), ("images", "labels")):
            if all(name in arrays for name in names):
                return tuple(arrays[name] for name in names)
        raise ValueError(f"{file} must contain x_train and y_train, or images and labels, got {', '.join(arrays)}")


def _idx_file(folder: Any, name: Any) -> Any:
    file = next((f for f in (folder / name, folder / f"{name}.gz") if f.is_file()), None)
    if file is None:
        raise ValueError(f"no file {folder / name}, plain or with .gz")
    return file


def _from_idx(file: Any, magic: Any) -> Any:
    content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    axes = magic & 0xFF
    found, *shape = struct.unpack_from(f">{1 + axes}I", content) if len(content) >= 4 * (1 + axes) else (None,)
    pixels = np.frombuffer(content, np.uint8, offset=4 * (1 + axes)) if found == magic else np.empty(0, np.uint8)
    if found != magic or pixels.size != np.prod(shape, dtype=int):
        raise ValueError(f"{file} must be an IDX file of bytes with {axes} axes")
    return pixels.reshape(shape)
