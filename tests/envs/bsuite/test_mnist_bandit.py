"""MNISTBandit compared with the package ``bsuite`` on generated images, and reading of images from files."""

import functools
import gzip
import struct
import sys

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import NIGHT, WHITE
from jaxenv.envs.bsuite.mnist_bandit import Files, MNISTBandit, State, find, load
from tests.envs.bsuite import reference
from tests.packages import lazy
from tests.parity import certify
from tests.pictures import pictures, shows

mnist = lazy("bsuite.environments.mnist")

ID = "MNISTBandit-bsuite"

# 200 images of 28 by 28 bytes; the first contains the extreme values.
_RNG = np.random.default_rng(0)
IMAGES = _RNG.integers(256, size=(200, 28, 28), dtype=np.uint8)
IMAGES[0, 0, :4] = 0, 127, 128, 255
LABELS = _RNG.integers(10, size=200, dtype=np.uint8)


def idx(array):
    """An array of bytes as the content of an IDX file."""
    return struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape) + array.tobytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The four compressed files of MNIST with these images."""
    path = tmp_path_factory.mktemp("digits")
    for part in ("train", "t10k"):
        (path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(IMAGES)))
        (path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS)))
    return path


@pytest.fixture
def original(monkeypatch, folder):
    """Constructs the original on the same files."""
    monkeypatch.setattr(mnist.datasets, "load_mnist", functools.partial(mnist.datasets.load_mnist, str(folder)))
    return lambda fraction: mnist.MNISTBandit(fraction)


def loaded(path):
    return load(find(str(path)))


class InTurn:
    """Draws 0, 1, 2, ... in place of the original's ``RandomState``."""

    drawn = -1

    def randint(self, count):
        self.drawn = (self.drawn + 1) % count
        return self.drawn

    def take(self):
        return []


def translated(env):
    shown = env._rng.drawn if env._reset_next_step is False else -1
    return State(np.int32(shown), np.int32(env._correct_label), np.int32(env._total_regret / 2))


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_observations_and_rewards_of_every_image_and_answer_equal_the_original(original, folder, fraction):
    theirs = original(fraction)
    theirs._rng = InTurn()
    env = reference.bare(ID, path=str(folder), fraction=fraction)
    firsts, answers, count = [], iter(np.repeat(np.arange(10), int(200 * fraction))), int(200 * fraction)

    def place(theirs, rng):
        theirs._total_regret = 2.0 * int(rng.integers(1000))
        firsts.append(theirs.reset().observation)
        return next(answers)

    steps = reference.injected_steps(theirs, reference.Translation(ID, translated), 10 * count, place)
    assert {s.before.image.item() for s in steps} == set(range(count))
    error = reference.assert_steps_match(env, steps)
    state = reference.stacked([s.before for s in steps[:count]])
    first = np.asarray(env.observe(state))
    assert first.min() == np.float32(-128 / 255)
    # Both divide bytes by 255 in float32, which compiled code may round differently.
    np.testing.assert_allclose(first, np.array(firsts[:count]), rtol=0, atol=1e-7)
    certify(ID, "bsuite", states=len(steps), tolerance=1e-7, error=max(error, np.abs(first - firsts[:count]).max()))
    np.testing.assert_array_equal(loaded(folder)[1][state.image], state.label)


def test_unsigned_pixels_range_from_zero_to_one(folder):
    env = reference.bare(ID, path=str(folder), signed_pixels=False)
    spec, zero = env.observation_spec(), np.zeros(1, np.int32)
    assert (spec.shape, spec.dtype, spec.minimum.min(), spec.maximum.max()) == ((28, 28), np.float32, 0, 1)
    shown = np.asarray(env.observe(State(zero, zero, zero)))
    np.testing.assert_allclose(shown, IMAGES[:1] / 255, rtol=0, atol=1e-7)


def test_the_default_images_are_the_digits_of_scikit_learn():
    from sklearn.datasets import load_digits

    env, theirs = reference.bare(ID), load_digits()
    spec, lanes = env.observation_spec(), np.arange(len(theirs.target), dtype=np.int32)
    assert (spec.shape, spec.dtype, spec.minimum.min(), spec.maximum.max()) == ((8, 8), np.float32, 0, 1)
    assert env.action_spec().num_values == 10
    assert jaxenv.spec(ID).max_episode_steps is None
    np.testing.assert_array_equal(env.observe(State(lanes, lanes, lanes)), theirs.images / 16)
    np.testing.assert_array_equal(load(Files())[1], theirs.target)


def test_images_are_drawn_uniformly_with_their_labels(folder):
    env = reference.bare(ID, path=str(folder), fraction=0.1)
    state = reference.start(env, 20_000)
    reference.assert_counts_match(np.bincount(state.image, minlength=20), [1000] * 20)
    np.testing.assert_array_equal(state.label, LABELS[state.image])
    assert not state.mistakes.any()


def test_only_mistakes_are_carried_over_to_the_next_episode():
    kept = reference.bare(ID).carry(State(-1, 2, 3), State(4, 5, 0))
    assert (kept.image, kept.label, kept.mistakes) == (4, 5, 3)


def test_npz_files_and_idx_files_plain_or_compressed_give_the_same_images(folder, tmp_path):
    np.savez(tmp_path / "arrays.npz", x_train=IMAGES, y_train=LABELS)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(IMAGES))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(LABELS))
    for path in (folder, tmp_path, tmp_path / "arrays.npz"):
        images, labels, white = loaded(path)
        np.testing.assert_array_equal(images, IMAGES)
        np.testing.assert_array_equal(labels, LABELS)
        assert white == 255
        assert not images.flags.writeable


def test_errors_name_missing_and_invalid_files(folder, tmp_path):
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(IMAGES)[:-1])
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(LABELS))
    np.savez(tmp_path / "names.npz", images=IMAGES, y_train=LABELS)
    np.savez(tmp_path / "sizes.npz", images=IMAGES, labels=LABELS[:-1])
    np.savez(tmp_path / "values.npz", images=IMAGES, labels=LABELS.astype(int) + 1)
    np.savez(tmp_path / "scaled.npz", images=np.float32(IMAGES / 255), labels=LABELS)
    np.savez(tmp_path / "nan.npz", images=np.where(IMAGES == 7, np.nan, IMAGES), labels=LABELS)
    np.savez(tmp_path / "halves.npz", images=IMAGES, labels=LABELS / 2)
    np.savez(tmp_path / "words.npz", images=IMAGES, labels=LABELS.astype(str))
    for path, message in {
        folder / "none.npz": "no file .*none.npz",
        folder / "none": "no file .*none/train-images-idx3-ubyte, plain or with .gz",
        tmp_path: "train-images-idx3-ubyte must be an IDX file of bytes with 3 axes",
        tmp_path / "names.npz": "must contain x_train and y_train, or images and labels, got images, y_train",
        tmp_path / "sizes.npz": r"images must be \[N, H, W\] and labels \[N\], got \(200, 28, 28\) and \(199,\)",
        tmp_path / "values.npz": r"labels in \[0, 9\]",
        tmp_path / "scaled.npz": "scaled.npz: pixels must be integers from 0 to 255, got fractions of float32",
        tmp_path / "nan.npz": "nan.npz: pixels must be integers from 0 to 255, got fractions of float64",
        tmp_path / "halves.npz": "halves.npz: labels must be integers from 0 to 9, got fractions of float64",
        tmp_path / "words.npz": "words.npz: labels must be numbers, got <U",
    }.items():
        with pytest.raises(ValueError, match=f"^{ID}: .*{message}"):
            MNISTBandit(name=ID, path=str(path))


def test_files_are_identified_when_the_environment_is_made(folder, tmp_path, monkeypatch):
    np.savez(tmp_path / "some.npz", images=IMAGES, labels=LABELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    env = MNISTBandit(path="some.npz")
    # The same version of a file gives the same tree structure, so nothing is recompiled.
    assert jax.tree.structure(env) == jax.tree.structure(MNISTBandit(path="some.npz"))
    assert MNISTBandit(path="~/some.npz").files == env.files
    monkeypatch.chdir(folder)
    np.savez(tmp_path / "some.npz", images=IMAGES[:50], labels=LABELS[:50])
    new = MNISTBandit(path=str(tmp_path / "some.npz"))
    assert [len(load(e.files)[1]) for e in (env, new)] == [200, 50]
    with pytest.raises(ValueError, match=r"some.npz has changed since"):
        load.__wrapped__(env.files)


def test_without_scikit_learn_the_error_names_the_extra_and_the_alternative(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r'pip install ".*\[mnist\]", or pass path='):
        load.__wrapped__(Files())


@pytest.mark.parametrize(
    ("fraction", "message"),
    [(0.0, r"fraction .*got 0.0"), (1e-3, r"fraction .*got 0.001")],
)
def test_invalid_fractions_raise(folder, fraction, message):
    with pytest.raises(ValueError, match=f"{ID}: {message}"):
        MNISTBandit(name=ID, path=str(folder), fraction=fraction)


def test_the_picture_shows_white_pixels_white_and_no_image_after_the_step(folder):
    lanes = State(np.int32([0, -1]), *np.int32([[3, 3], [0, 0]]))
    picture = pictures(reference.bare(ID, path=str(folder)), lanes)
    # The image has a border of four pixels and one pixel per pixel.
    expected = NIGHT + IMAGES[0][..., None] / np.float32(255) * (WHITE - NIGHT)
    assert np.abs(picture[0, 16:44, 16:44] - np.round(255 * expected)).max() <= 1
    assert shows(picture[1, :44], NIGHT).all()
