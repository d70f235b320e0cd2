"""Checkpoints: trees restored bit for bit, or an error that names the first difference."""

import io
import json
import os
import warnings
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data, tree
from jaxenv.data import _index
from tests.rows import assert_equal


def everything():
    return {
        "floats": jnp.array([np.nan, -0.0, np.inf, 1e-40], jnp.float32),
        "halves": jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3),
        "bytes": jnp.zeros((0, 3), jnp.uint8),
        "flags": (jnp.array(True), tree.Shared(jnp.array([1, 2], jnp.int32))),
        "key": jax.random.split(jax.random.key(3), 2),
        "other key": jax.random.key(4, impl="rbg"),
    }


def bits(state):
    plain = jax.tree.map(lambda x: jax.random.key_data(x) if _index.is_key(x) else x, state)
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(plain)]


def test_restore_returns_what_was_saved_bit_for_bit(tmp_path):
    state = everything()
    data.save(tmp_path / "run.npz", state)
    for like in (jax.tree.map(jnp.zeros_like, everything()), jax.eval_shape(everything)):
        restored = data.restore(tmp_path / "run.npz", like)
        assert jax.tree.structure(restored) == jax.tree.structure(state)
        assert [x.dtype for x in jax.tree.leaves(restored)] == [x.dtype for x in jax.tree.leaves(state)]
        assert bits(restored) == bits(state)


def test_a_restored_rollout_continues_in_the_middle_of_its_episodes_bit_for_bit(tmp_path):
    env = jaxenv.make("CartPole-v1", num_envs=3)
    unroll = jax.jit(lambda carry: jaxenv.unroll(env, jaxenv.rollout.random_policy(env), *carry, 30))
    (*carry, _), _ = unroll(env.reset(jax.random.key(0)))
    assert (env.clock(carry[0]).step > 0).any()
    data.save(tmp_path / "run.npz", carry)
    again = data.restore(tmp_path / "run.npz", env.reset(jax.random.key(1)))
    assert_equal(jax.device_get(unroll(tuple(carry))), jax.device_get(unroll(tuple(again))))


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ({"a": jnp.zeros(2), "b": jnp.zeros(3)}, r"holds b float32\[4\] where the tree.* float32\[3\]"),
        ({"a": jnp.zeros(2), "b": jnp.zeros(4, int)}, r"holds b float32\[4\] .* has b int32\[4\]"),
        ({"a": jnp.zeros(2)}, r"holds b float32\[4\] .* has nothing more"),
        ({"a": jnp.zeros(2), "b": jnp.zeros(4), "c": jnp.zeros(1)}, r"holds nothing more .* has c float32\[1\]"),
        ({"a": jnp.zeros(2), "c": jnp.zeros(4)}, r"holds b float32\[4\] .* has c float32\[4\]"),
        ([jnp.zeros(2), jnp.zeros(4)], r"holds a float32\[2\] .* has 0 float32\[2\]"),
    ],
)
def test_restoring_into_another_tree_raises_with_the_first_difference(tmp_path, like, message):
    data.save(tmp_path / "run.npz", {"a": jnp.zeros(2), "b": jnp.zeros(4)})
    with pytest.raises(ValueError, match=message):
        data.restore(tmp_path / "run.npz", like)


def test_64_bit_numbers_are_restored_into_numpy_arrays_and_raise_elsewhere(tmp_path):
    state = {"a": np.array([2**40, 1]), "b": np.array(1 / 3)}
    data.save(tmp_path / "run.npz", state)
    restored = data.restore(tmp_path / "run.npz", jax.tree.map(np.zeros_like, state))
    assert [(x.dtype, x.tolist()) for x in restored.values()] == [(x.dtype, x.tolist()) for x in state.values()]
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), state)
    with pytest.raises(ValueError, match=r"restore: a int64\[2\] needs jax_enable_x64, or a NumPy array"):
        data.restore(tmp_path / "run.npz", shapes)


KINDS = ["garbage", "empty", "other names", "another index", "one array", "cut off", "plain zip", "text", "no versions"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_save_did_not_write_raises(tmp_path, kind):
    path = tmp_path / "run.npz"
    data.save(path, jnp.arange(3))
    with path.open("r+b") as file:
        match kind:
            case "garbage":
                file.write(b"garbage")
            case "empty":
                file.truncate(0)
            case "other names":
                np.savez(file, a=1)
            case "another index":
                np.savez(file, index=np.frombuffer(b"123", np.uint8))
            case "one array":
                np.save(file, np.arange(3))
            case "cut off":
                file.truncate(100)
            case "plain zip":
                file.truncate(0)
                with zipfile.ZipFile(file, "w") as archive:
                    archive.writestr("index", "[]")
            case "text":
                file.truncate(0)
                with zipfile.ZipFile(file, "w") as archive:
                    archive.writestr("index.npy", "[]")
            case "no versions":
                np.savez(file, index=np.frombuffer(b'{"leaves": []}', np.uint8))
    with pytest.raises(ValueError, match=r"restore: .*run\.npz is not a.* data\.save"):
        data.restore(path, jnp.arange(3))
    with pytest.raises(ValueError, match=r"checkpoint_info: .*run\.npz is not a.* data\.save"):
        data.checkpoint_info(path)


def npy(x):
    file = io.BytesIO()
    np.save(file, x)
    return file.getvalue()


def rewrite(path, member, content):
    """Replaces a member of the archive by other bytes, or removes it."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members = {**members, member: content}
    with zipfile.ZipFile(path, "w") as archive:
        for name, x in members.items():
            if x is not None:
                archive.writestr(name, x)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (npy(np.zeros(2, np.float32)), r"must be float32\[3\].* float32\[2\]"),
        (npy(np.zeros(3, np.int32)), r"must be float32\[3\].* int32\[3\]"),
        (npy(np.zeros((3, 1), np.float32)), r"must be float32\[3\].* float32\[3, 1\]"),
        (npy(np.zeros(3, np.float32))[:-1], r"cannot be read: "),
        (npy(np.zeros(3, np.float32)) + b"0", "holds more bytes"),
        (b"not an array", r"cannot be read: "),
        (None, r"cannot be read: .*1\.npy"),
    ],
    ids=["short", "other dtype", "other shape", "cut", "long", "no header", "missing"],
)
def test_a_leaf_that_was_tampered_with_is_refused_by_file_leaf_and_rule(tmp_path, content, rule):
    state = {"key": jax.random.key(0), "weights": jnp.arange(3.0)}
    data.save(tmp_path / "run.npz", state)
    rewrite(tmp_path / "run.npz", "1.npy", content)
    with pytest.raises(ValueError, match=rf"restore: .*run\.npz is damaged: leaf.* {rule}"):
        data.restore(tmp_path / "run.npz", state)


def test_a_flipped_byte_of_a_leaf_is_refused(tmp_path):
    data.save(tmp_path / "run.npz", {"a": jnp.full(3, 7), "b": jnp.full(3, 8)})
    content = (tmp_path / "run.npz").read_bytes()
    sevens = np.full(3, 7, np.int32).tobytes()
    assert content.count(sevens) == 1
    (tmp_path / "run.npz").write_bytes(content.replace(sevens, sevens[:-1] + b"!"))
    with pytest.raises(ValueError, match=r"run\.npz is damaged: leaf.*: Bad CRC-32"):
        data.restore(tmp_path / "run.npz", {"a": jnp.zeros(3, int), "b": jnp.zeros(3, int)})


@pytest.mark.parametrize(("key_impl", "bits"), [("unsafe_rbg", 4), ("threefry2x32", 4), ("none", 4), ("rbg", 2)])
def test_a_key_of_another_implementation_is_refused(tmp_path, key_impl, bits):
    key = jax.random.key(0, impl="rbg")
    data.save(tmp_path / "run.npz", key)
    with zipfile.ZipFile(tmp_path / "run.npz") as archive:
        index = json.loads(np.load(archive.open("index.npy")).tobytes())
    index["leaves"][0][3] = key_impl
    rewrite(tmp_path / "run.npz", "index.npy", npy(np.frombuffer(json.dumps(index).encode(), np.uint8)))
    rewrite(tmp_path / "run.npz", "0.npy", npy(np.zeros(bits, np.uint32)))
    with pytest.raises(ValueError, match=r"run\.npz is damaged: leaf one array"):
        data.restore(tmp_path / "run.npz", key)


def test_versions_config_and_leaves_are_read_without_the_arrays(tmp_path):
    config = {"env_id": "CartPole-v1", "hidden": [64, 64], "wrappers": []}
    data.save(tmp_path / "run.npz", {"a": jnp.zeros((2, 3)), "key": jax.random.key(0)}, config=config)
    rewrite(tmp_path / "run.npz", "0.npy", b"")
    info = data.checkpoint_info(tmp_path / "run.npz")
    assert (info.jaxenv_version, info.jax_version, info.config) == (jaxenv.__version__, jax.__version__, config)
    assert info.leaves == (("a", "float32", (2, 3)), ("key", str(jax.random.key(0).dtype), ()))


def test_a_checkpoint_of_another_version_is_restored_with_a_warning_and_explains_a_difference(tmp_path, monkeypatch):
    monkeypatch.setattr("jaxenv._util.version.__version__", "0.0.1")
    data.save(tmp_path / "run.npz", jnp.arange(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data.restore(tmp_path / "run.npz", jnp.zeros(3, int))  # of the same version: no warning
    monkeypatch.setattr("jaxenv._util.version.__version__", "0.0.2")
    with pytest.warns(UserWarning, match=r"saved by jaxenv 0\.0\.1, this is 0\.0\.2"):
        assert data.restore(tmp_path / "run.npz", jnp.zeros(3, int)).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"run\.npz, saved by jaxenv 0\.0\.1, this is 0\.0\.2 holds one array"):
        data.restore(tmp_path / "run.npz", jnp.zeros(4, int))


def test_a_config_that_json_cannot_hold_is_refused(tmp_path):
    with pytest.raises(ValueError, match="save: config must"):
        data.save(tmp_path / "run.npz", jnp.arange(3), config={"sizes": np.arange(3)})
    assert not list(tmp_path.iterdir())


def test_saving_a_python_number_raises_and_leaves_the_previous_file(tmp_path):
    data.save(tmp_path / "run.npz", {"step": jnp.array(7)})
    with pytest.raises(ValueError, match=r"save: state\.step .*got 7"):
        data.save(tmp_path / "run.npz", {"step": 7})
    assert data.restore(tmp_path / "run.npz", {"step": jnp.array(0)})["step"] == 7


def test_an_interrupted_save_leaves_the_previous_file_and_no_other(tmp_path, monkeypatch):
    data.save(tmp_path / "run.npz", jnp.arange(3))

    def killed(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        data.save(tmp_path / "run.npz", jnp.arange(4))
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]
    assert data.restore(tmp_path / "run.npz", jnp.zeros(3, jnp.int32)).tolist() == [0, 1, 2]


def test_a_full_disk_raises_one_clear_error_and_leaves_the_previous_file(tmp_path):
    resource = pytest.importorskip("resource")
    data.save(tmp_path / "run.npz", jnp.arange(3))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))  # no file may become longer
    try:
        with pytest.raises(OSError, match=r"save: .*run\.npz cannot be written") as raised:
            data.save(tmp_path / "run.npz", {"many": jnp.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert raised.value.errno
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]
    assert data.restore(tmp_path / "run.npz", jnp.zeros(3, int)).tolist() == [0, 1, 2]


def test_a_save_replaces_what_a_killed_one_has_left(tmp_path, monkeypatch):
    monkeypatch.setattr("pathlib.Path.unlink", lambda *_, **__: None)  # a killed process removes nothing
    monkeypatch.setattr("os.replace", lambda *_: None)
    data.save(tmp_path / "run.npz", jnp.arange(4))
    monkeypatch.undo()
    assert len(list(tmp_path.iterdir())) == 1
    data.save(tmp_path / "run.npz", jnp.arange(3))
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


def test_saves_of_one_path_at_the_same_time_each_write_a_whole_file(tmp_path, monkeypatch):
    path, fsync, saves = tmp_path / "run.npz", os.fsync, iter([jnp.arange(5), jnp.arange(6)])

    def meanwhile(file):
        fsync(file)
        for state in saves:
            data.save(path, state)
            assert data.restore(path, jnp.zeros(state.shape, int)).tolist() == state.tolist()

    monkeypatch.setattr(os, "fsync", meanwhile)
    data.save(path, jnp.arange(3))
    assert data.restore(path, jnp.zeros(3, int)).tolist() == [0, 1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_a_truncated_file_is_reported_as_one(tmp_path):
    data.save(tmp_path / "run.npz", {"a": np.zeros(100)})
    content = (tmp_path / "run.npz").read_bytes()
    (tmp_path / "run.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"run\.npz is not a.* data\.save, or it is"):
        data.restore(tmp_path / "run.npz", {"a": np.zeros(100)})


def test_a_part_is_found_by_its_name(tmp_path):
    data.save(tmp_path / "a.npz", {"a": jnp.array([1.0]), "b": {"c": jnp.array([2.0])}})
    assert data.restore(tmp_path / "a.npz", {"b": {"c": jnp.zeros(1)}}, partial=True)["b"]["c"] == 2


def test_a_part_whose_name_is_not_unique_is_refused(tmp_path):
    saved = {"a.b": jnp.array([1.0]), "a": {"b": jnp.array([2.0])}}
    data.save(tmp_path / "a.npz", saved)
    assert data.restore(tmp_path / "a.npz", saved)["a"]["b"] == 2
    with pytest.raises(ValueError, match=r"holds several leaves.* 'a\.b': restore all"):
        data.restore(tmp_path / "a.npz", {"a": {"b": jnp.zeros(1)}}, partial=True)
