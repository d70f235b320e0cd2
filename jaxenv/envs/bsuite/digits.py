"""Images of handwritten digits from files that are already here: nothing is ever downloaded."""

import dataclasses
import functools
import gzip
import os
import pathlib
import struct

import numpy as np

# Two bytes of nought, the kind of number (8: bytes) and how many axes follow: the magic numbers of IDX files.
_IMAGES, _LABELS = 0x803, 0x801


@dataclasses.dataclass(frozen=True)
class Files:
    """Which files hold images, and in which version.

    Attributes:
        paths: absolute: one ``.npz`` file, or IDX files of images and of labels; none for scikit-learn's digits.
        stamps: of each, when it was changed (ns) and its size (bytes).
    """

    paths: tuple[str, ...] = ()
    stamps: tuple[tuple[int, int], ...] = ()


def find(path: str) -> Files:
    """The files of a path, as they are now.

    Args:
        path: a folder with MNIST's training files ``train-images-idx3-ubyte`` and ``train-labels-idx1-ubyte``, each
            as it is or with ``.gz``; or an ``.npz`` file with the arrays ``x_train`` and ``y_train`` (or ``images``
            and ``labels``); or ``""`` for the 1797 digits of 8 by 8 pixels that come with scikit-learn. A leading
            ``~`` is the home folder.

    Raises:
        ValueError: if a file is missing.
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


@functools.cache
def load(files: Files) -> tuple[np.ndarray, np.ndarray, int]:
    """Images, labels and the number that stands for white.

    Args:
        files: from `find`. Each version of them is read once, and kept.

    Returns:
        uint8 ``[N, H, W]``, uint8 ``[N]`` (0 to 9), and 255, for scikit-learn's digits 16.

    Raises:
        ValueError: if a file is not what it should be, or no longer the one that was found.
        ImportError: without files, if scikit-learn is not installed.
    """
    for path, stamp in zip(files.paths, files.stamps, strict=True):
        if not os.path.isfile(path) or _stamp(path) != stamp:
            raise ValueError(f"{path} has changed since the environment was made")
    if not files.paths:
        images, labels = _of_scikit_learn()
    elif len(files.paths) == 1:
        images, labels = _of_arrays(files.paths[0])
    else:
        images, labels = (_of_idx(pathlib.Path(p), m) for p, m in zip(files.paths, (_IMAGES, _LABELS), strict=True))
    white = 255 if files.paths else 16
    what = " and ".join(files.paths) or "scikit-learn"
    if images.ndim != 3 or labels.shape != images.shape[:1] or images.size == 0:
        raise ValueError(
            f"digits of {what}: images must be [N, H, W] and labels [N], got {images.shape} and {labels.shape}"
        )
    for name, array in (("images", images), ("labels", labels)):
        if array.dtype.kind not in "iuf":
            raise ValueError(f"digits of {what}: {name} must be numbers, got {array.dtype}")
    if images.min() < 0 or images.max() > white or labels.min() < 0 or labels.max() > 9:
        raise ValueError(f"digits of {what}: pixels must lie within 0 and {white}, labels within 0 and 9")
    images, labels = _whole(images, f"{what}: pixels", white), _whole(labels, f"{what}: labels", 9)
    assert files.paths or images.shape == shape(files)
    images.flags.writeable = labels.flags.writeable = False
    return images, labels, white


def shape(files: Files) -> tuple[int, ...]:
    """How many images, rows and columns there are; of scikit-learn's digits it is known without scikit-learn."""
    return load(files)[0].shape if files.paths else (1797, 8, 8)


def _stamp(path):
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


def _whole(array, what, most):
    """The array as bytes; what they cannot hold, such as pixels scaled to [0, 1], is refused and not cut off."""
    with np.errstate(invalid="ignore"):  # NaN is no number of a byte, as seen below
        whole = array.astype(np.uint8)
    if not np.array_equal(whole, array):
        raise ValueError(f"digits of {what} must be whole numbers from 0 to {most}, got fractions of {array.dtype}")
    return whole


def _of_scikit_learn():
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            "the digits of scikit-learn are not installed: pip install jaxenv[mnist], or give path= to files of MNIST"
        ) from error
    digits = load_digits()
    return digits.images, digits.target


def _of_arrays(file):
    with np.load(file) as arrays:
        for names in (("x_train", "y_train"), ("images", "labels")):
            if all(name in arrays for name in names):
                return tuple(arrays[name] for name in names)
        raise ValueError(f"{file} must hold x_train and y_train, or images and labels, got {', '.join(arrays)}")


def _idx_file(folder, name):
    file = next((f for f in (folder / name, folder / f"{name}.gz") if f.is_file()), None)
    if file is None:
        raise ValueError(f"no file {folder / name}, nor one with .gz")
    return file


def _of_idx(file, magic):
    content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    axes = magic & 0xFF
    found, *shape = struct.unpack_from(f">{1 + axes}I", content) if len(content) >= 4 * (1 + axes) else (None,)
    pixels = np.frombuffer(content, np.uint8, offset=4 * (1 + axes)) if found == magic else np.empty(0, np.uint8)
    if found != magic or pixels.size != np.prod(shape, dtype=int):
        raise ValueError(f"{file} is no IDX file of bytes with {axes} axes")
    return pixels.reshape(shape)
