"""Checkpoints: trees restored bit for bit, or an error that names the first difference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data, tree
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
    plain = jax.tree.map(lambda x: jax.random.key_data(x) if data.checkpoint._is_key(x) else x, state)
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
        ({"a": jnp.zeros(2), "b": jnp.zeros(3)}, r"holds b float32\[4\] where the tree to restore has b float32\[3\]"),
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


@pytest.mark.parametrize("kind", ["garbage", "empty", "other names", "another index", "one array", "cut off"])
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
    with pytest.raises(ValueError, match=r"restore: .*run\.npz is not a checkpoint of data\.save"):
        data.restore(path, jnp.arange(3))


def test_saving_a_python_number_raises_and_leaves_the_previous_file(tmp_path):
    data.save(tmp_path / "run.npz", {"step": jnp.array(7)})
    with pytest.raises(ValueError, match="checkpoint: step is a int, not an array"):
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
