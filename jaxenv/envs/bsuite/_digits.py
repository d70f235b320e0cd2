"""Reads images of handwritten digits from local files; nothing is downloaded."""

import dataclasses
import functools
import gzip
import os
import pathlib
import struct
from typing import Any

import numpy as np

from jaxenv._util import source

# Magic numbers of IDX files: two zero bytes, the type of the elements (8: uint8) and the number of axes.
_IMAGES, _LABELS = 0x803, 0x801


@dataclasses.dataclass(frozen=True)
class Files:
    """Files of images and labels, and their versions."""

    # Absolute paths of one .npz file, or of the IDX files of images and of labels; empty for scikit-learn's digits.
    paths: tuple[str, ...] = ()
    stamps: tuple[tuple[int, int], ...] = ()  # the modification time (ns) and the size (bytes) of each file


def find(path: str) -> Files:
    """Finds the files at a path in their current version.

    It is a directory with MNIST's training files ``train-images-idx3-ubyte`` and ``train-labels-idx1-ubyte``, plain or
    compressed (``.gz``); or an ``.npz`` file with the arrays ``x_train`` and ``y_train`` (or ``images`` and
    ``labels``); or ``""`` for the 1797 digits of 8 by 8 pixels in scikit-learn. A leading ``~`` is the home directory.
    """
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
    assert files.paths or images.shape == shape(files)
    images.flags.writeable = labels.flags.writeable = False
    return images, labels, white


def shape(files: Files) -> tuple[int, ...]:
    """Returns the number of images, rows and columns; the digits of scikit-learn need no scikit-learn for it."""
    return load(files)[0].shape if files.paths else (1797, 8, 8)


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
