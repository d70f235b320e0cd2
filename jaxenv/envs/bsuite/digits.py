"""Images of handwritten digits from files that are already here: nothing is ever downloaded."""

import functools
import gzip
import pathlib
import struct

import numpy as np

# Two bytes of nought, the kind of number (8: bytes) and how many axes follow: the magic numbers of IDX files.
_IMAGES, _LABELS = 0x803, 0x801


@functools.cache
def load(path: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Images, labels and the number that stands for white.

    Args:
        path: a folder with MNIST's training files ``train-images-idx3-ubyte`` and ``train-labels-idx1-ubyte``, each
            as it is or with ``.gz``; or an ``.npz`` file with the arrays ``x_train`` and ``y_train`` (or ``images``
            and ``labels``); or ``""`` for the 1797 digits of 8 by 8 pixels that come with scikit-learn.

    Returns:
        uint8 ``[N, H, W]``, uint8 ``[N]`` (0 to 9), and 255, for scikit-learn's digits 16. Each path is read once.

    Raises:
        ValueError: if a file is missing or is not what it should be.
        ImportError: without a path, if scikit-learn is not installed.
    """
    if not path:
        images, labels = _of_scikit_learn()
    elif path.endswith(".npz"):
        images, labels = _of_arrays(pathlib.Path(path))
    else:
        images = _of_idx(pathlib.Path(path), "train-images-idx3-ubyte", _IMAGES)
        labels = _of_idx(pathlib.Path(path), "train-labels-idx1-ubyte", _LABELS)
    white = 255 if path else 16
    what = path or "scikit-learn"
    if images.ndim != 3 or labels.shape != images.shape[:1] or images.size == 0:
        raise ValueError(
            f"digits of {what}: images must be [N, H, W] and labels [N], got {images.shape} and {labels.shape}"
        )
    if images.min() < 0 or images.max() > white or labels.min() < 0 or labels.max() > 9:
        raise ValueError(f"digits of {what}: pixels must lie within 0 and {white}, labels within 0 and 9")
    images, labels = images.astype(np.uint8), labels.astype(np.uint8)
    assert path or images.shape == shape("")
    images.flags.writeable = labels.flags.writeable = False
    return images, labels, white


def shape(path: str) -> tuple[int, ...]:
    """How many images, rows and columns there are; of scikit-learn's digits it is known without scikit-learn."""
    return load(path)[0].shape if path else (1797, 8, 8)


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
    if not file.is_file():
        raise ValueError(f"no file {file}")
    with np.load(file) as arrays:
        for names in (("x_train", "y_train"), ("images", "labels")):
            if all(name in arrays for name in names):
                return tuple(arrays[name] for name in names)
        raise ValueError(f"{file} must hold x_train and y_train, or images and labels, got {', '.join(arrays)}")


def _of_idx(folder, name, magic):
    file = next((f for f in (folder / name, folder / f"{name}.gz") if f.is_file()), None)
    if file is None:
        raise ValueError(f"no file {folder / name}, nor one with .gz")
    content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    axes = magic & 0xFF
    found, *shape = struct.unpack_from(f">{1 + axes}I", content) if len(content) >= 4 * (1 + axes) else (None,)
    pixels = np.frombuffer(content, np.uint8, offset=4 * (1 + axes)) if found == magic else np.empty(0, np.uint8)
    if found != magic or pixels.size != np.prod(shape, dtype=int):
        raise ValueError(f"{file} is no IDX file of bytes with {axes} axes")
    return pixels.reshape(shape)
