"""Checkpoints of Orbax: sharded arrays on another number of devices, and that one cut short is never read."""

import json
import re
import shutil
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data, tree
from jaxenv.data import checkpointer as module
from tests.data.test_checkpoint import bits, everything
from tests.packages import imported


@pytest.fixture(autouse=True)
def _orbax():
    imported("orbax.checkpoint", "0.12.4")


@tree.struct
class Named:
    """A struct with a static field."""

    x: jax.Array
    name: str = tree.static(default="none")


def saved(folder, *states, keep=1, config=None):
    """A folder with a checkpoint of each state, from step 1 on."""
    with data.Checkpointer(folder, keep=keep) as checkpointer:
        for step, state in enumerate(states, 1):
            checkpointer.save(step, state, config=config)
    return folder


def test_restore_returns_what_was_saved_bit_for_bit(tmp_path):
    state = {**everything(), "struct": Named(jnp.arange(2), name="kept"), "wide": np.array([2**40, 1])}
    saved(tmp_path, state)
    like = {**jax.eval_shape(everything), "struct": Named(jnp.zeros(2, int), name="kept"), "wide": np.zeros(2, int)}
    for target in (like, jax.tree.map(lambda x: x if isinstance(x, np.ndarray) else jnp.zeros_like(x), state)):
        restored = data.restore(tmp_path, target)
        assert jax.tree.structure(restored) == jax.tree.structure(state)
        assert [x.dtype for x in jax.tree.leaves(restored)] == [x.dtype for x in jax.tree.leaves(state)]
        assert bits(restored) == bits(state)


def test_a_tree_of_one_array_and_one_without_elements_are_restored(tmp_path):
    for number, state in enumerate((jnp.arange(3), {"empty": jnp.zeros((0, 2), bool)})):
        assert bits(data.restore(saved(tmp_path / str(number), state), state)) == bits(state)


def test_arrays_that_are_donated_after_a_save_are_saved_as_they_were(tmp_path):
    advance = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.zeros(1_000_000)
    with data.Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(1, {"x": x})
        for _ in range(3):
            x = advance(x)
    assert np.asarray(data.restore(tmp_path, {"x": x})["x"]).max() == 0


SHARDED = """
import sys
import jax
jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_disable_most_optimizations", True)
import jax.numpy as jnp
import numpy as np
import jaxenv
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxenv import data
from tests.rows import assert_equal

env = jaxenv.make("Pendulum-v1", 8, max_episode_steps=np.arange(3, 11), wrappers=["NormalizeReward"])
unroll = jax.jit(lambda carry: jaxenv.unroll(env, jaxenv.rollout.random_policy(env), *carry, 5))
specs = jaxenv.partition_specs(env.start_shapes())

def on(devices, carry):
    mesh = Mesh(np.array(jax.devices()[:devices]), ("lanes",))
    return jax.device_put(carry, jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs))

(*carry, _), _ = unroll(env.reset(jax.random.key(0)))
(*expected, _), rows = jax.device_get(unroll(tuple(carry)))
for writers in (1, 2, 4):
    folder = f"{sys.argv[1]}/{writers}"
    with data.Checkpointer(folder) as checkpointer:
        checkpointer.save(1, on(writers, tuple(carry)))
    for readers in (1, 2, 4):
        restored = data.restore(folder, on(readers, env.reset(jax.random.key(1))))
        assert_equal(jax.device_get(restored), jax.device_get(tuple(carry)))
        observation = restored[1].observation
        assert len(observation.sharding.device_set) == readers, observation.sharding
        assert observation.addressable_shards[0].data.shape == (8 // readers, 3)
        (*again, _), found = jax.device_get(unroll(restored))
        assert_equal((again, found), (expected, rows), rtol=1e-4)
        print(writers, readers)
"""


def test_lanes_go_on_where_they_were_on_another_number_of_devices(tmp_path):
    line = [sys.executable, "-c", SHARDED, str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    assert len(done.stdout.splitlines()) == 9, done.stderr


# --- cut short -------------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
import jax.numpy as jnp
from jaxenv import data

def killed(event, arguments):
    if event == sys.argv[2] and str(arguments[0]) == sys.argv[1] + "/" + sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)

with data.Checkpointer(sys.argv[1]) as checkpointer:
    checkpointer.save(1, {"x": jnp.full(4, 1)})
    checkpointer.wait()
    sys.addaudithook(killed)
    checkpointer.save(2, {"x": jnp.full(4, 2)})
"""


@pytest.mark.parametrize(
    ("event", "path", "newest"),
    [
        ("open", "2/arrays/commit_success.txt", 1),
        ("open", "2/commit_success.txt", 1),
        ("shutil.rmtree", "1", 2),
    ],
    ids=["after the arrays", "at the end", "before the old one is deleted"],
)
def test_a_process_killed_while_saving_leaves_a_complete_checkpoint(tmp_path, event, path, newest):
    line = [sys.executable, "-c", KILLED, str(tmp_path), event, path]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "1", "2"]
    assert data.restore(tmp_path, {"x": jnp.zeros(4, int)})["x"].tolist() == [newest] * 4
    saved_again(tmp_path, step=newest + 1)


def saved_again(folder, step):
    with data.Checkpointer(folder) as checkpointer:
        checkpointer.save(step, {"x": jnp.full(4, 7)})
    assert [path.name for path in folder.iterdir()] == [str(step)]
    assert data.restore(folder, {"x": jnp.zeros(4, int)})["x"].tolist() == [7] * 4


@pytest.mark.parametrize("kind", ["without commit", "empty"])
def test_what_is_no_complete_checkpoint_is_not_read(tmp_path, kind):
    saved(tmp_path, {"x": jnp.full(4, 1)}, {"x": jnp.full(4, 2)}, keep=2)
    newest = tmp_path / "2"
    if kind == "without commit":
        (newest / "commit_success.txt").unlink()
    else:
        shutil.rmtree(newest)
        newest.mkdir()
    assert data.restore(tmp_path, {"x": jnp.zeros(4, int)})["x"].tolist() == [1] * 4
    saved_again(tmp_path, step=3)


def test_a_checkpoint_that_is_deleted_while_it_is_read_is_followed_by_the_next(tmp_path, monkeypatch):
    saved(tmp_path, {"x": jnp.full(4, 1)})
    read = module._read

    def overtaken(step, like, partial):
        if step.name == "1":
            saved_again(tmp_path, step=2)
        return read(step, like, partial)

    monkeypatch.setattr(module, "_read", overtaken)
    assert data.restore(tmp_path, {"x": jnp.zeros(4, int)})["x"].tolist() == [7] * 4


def test_a_full_disk_raises_and_leaves_the_checkpoint_before(tmp_path):
    resource = pytest.importorskip("resource")
    checkpointer = data.Checkpointer(tmp_path)
    checkpointer.save(1, {"x": jnp.full(4, 1)})
    checkpointer.wait()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limit[1]))  # no file may become longer
    try:
        checkpointer.save(2, {"x": np.random.default_rng(0).random(100_000)})
        with pytest.raises(OSError, match=r"save: step 2 of .* cannot be written") as raised:
            checkpointer.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert raised.value.errno
    assert data.restore(tmp_path, {"x": jnp.zeros(4, int)})["x"].tolist() == [1] * 4
    checkpointer.save(2, {"x": jnp.full(4, 2)})
    checkpointer.close()
    assert data.restore(tmp_path, {"x": jnp.zeros(4, int)})["x"].tolist() == [2] * 4


# --- damaged ---------------------------------------------------------------------------------------------------------

# Arrays of three sizes: one whose file zstd compresses, one that it leaves as it is, one within the tree of names.
DAMAGED = {
    "noise": np.random.default_rng(0).normal(size=(7, 129)).astype(np.float32),
    "few": np.arange(5, dtype=np.int16),
    "runs": np.arange(3000, dtype=np.int32).reshape(30, 100) // 700,
}


def flipped(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def test_a_flipped_bit_of_any_file_is_refused_or_changes_nothing(tmp_path):
    config = {"gamma": 0.99, "hidden": [64, 32]}
    saved(tmp_path, DAMAGED, config=config)
    info = data.checkpoint_info(tmp_path)
    refused = []
    for path in sorted(path for path in tmp_path.rglob("*") if path.is_file()):
        for bit in np.random.default_rng(1).integers(8 * path.stat().st_size, size=12).tolist():
            flipped(path, bit)
            try:
                assert bits(data.restore(tmp_path, DAMAGED)) == bits(DAMAGED), (path, bit)
                assert data.checkpoint_info(tmp_path) == info, (path, bit)
            except ValueError as error:
                refused.append(str(error))
            flipped(path, bit)
    assert not [text for text in refused if not re.match(r"restore: .* is (damaged: leaf|not a checkpoint)", text)]
    assert [text for text in refused if "leaf noise has other values than were saved" in text]


def test_another_number_in_the_config_of_a_checkpoint_is_refused(tmp_path):
    saved(tmp_path, jnp.arange(3), config={"gamma": 0.99})
    file = tmp_path / "1" / "index" / "metadata"
    file.write_text(file.read_text().replace("0.99", "0.98"))
    with pytest.raises(ValueError, match=r"not a checkpoint of .*: the checksum"):
        data.checkpoint_info(tmp_path)


def test_a_checkpoint_without_checksums_is_refused_as_one_of_an_earlier_version(tmp_path):
    saved(tmp_path, jnp.arange(3))
    file = tmp_path / "1" / "index" / "metadata"
    file.write_text(json.dumps({**json.loads(file.read_text())["index"], "parts": None}))
    with pytest.raises(ValueError, match="it has no checksums"):
        data.restore(tmp_path, jnp.zeros(3, int))


def test_a_damaged_part_is_refused_wherever_it_is_needed(tmp_path):
    """The checksums are those of the parts in which devices held the array: here rows of four."""
    code = f"""
import jax
jax.config.update("jax_num_cpu_devices", 4)
import jax.numpy as jnp
import numpy as np
import tensorstore
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxenv import data
from jaxenv.data import checkpointer

def over(devices):
    return NamedSharding(Mesh(np.array(jax.devices()[:devices]), "x"), P(None, "x"))

x = jnp.arange(72.0).reshape(6, 12)
with data.Checkpointer({str(tmp_path)!r}) as saving:
    saving.save(1, jax.device_put(x, over(4)))
parts = checkpointer.index_of("restore", checkpointer.pathlib.Path({str(tmp_path)!r}))["parts"]["0"]
print([bounds for _, bounds in parts])
parts[2][0] ^= 4
for columns in (slice(0, 5), slice(2, 6), slice(5, 7), slice(8, None), slice(10, 12)):
    read = checkpointer._region_reader(tensorstore.array(np.asarray(x)), parts)
    try:
        assert (read((slice(1, 5), columns)) == x[1:5, columns]).all()
        print(columns)
    except ValueError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    other = "has other values than were saved: their checksum differs"
    assert done.stdout.splitlines() == [
        "[[[0, 6], [0, 3]], [[0, 6], [3, 6]], [[0, 6], [6, 9]], [[0, 6], [9, 12]]]",
        "slice(0, 5, None)",
        "slice(2, 6, None)",
        other,
        other,
        "slice(10, 12, None)",
    ], done.stderr


def test_a_refused_folder_prints_nothing_but_its_error(tmp_path):
    saved(tmp_path, {str(number): x for number, x in enumerate([DAMAGED["noise"]] * 8)})
    largest = max((path for path in tmp_path.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:40])
    code = f"""
import numpy as np
from jaxenv import data
try:
    data.restore({str(tmp_path)!r}, {{str(number): np.zeros((7, 129), np.float32) for number in range(8)}})
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    (line,) = done.stdout.splitlines()
    assert re.search(r"is damaged: leaf \d ", line)
    assert (done.stderr, done.returncode) == ("", 0)


# --- what is kept, and what is refused -------------------------------------------------------------------------------


def test_the_newest_checkpoints_are_kept_and_one_may_be_named(tmp_path):
    saved(tmp_path, *(jnp.full(2, step) for step in (1, 2, 3)), keep=2, config={"gamma": 0.9})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3"]
    like = jnp.zeros(2, int)
    assert data.restore(tmp_path, like).tolist() == [3, 3]
    assert data.restore(tmp_path / "2", like).tolist() == [2, 2]
    info = data.checkpoint_info(tmp_path)
    assert (info.jaxenv_version, info.config, info.leaves) == (
        jaxenv.__version__,
        {"gamma": 0.9},
        (("", "int32", (2,)),),
    )


def test_a_folder_has_one_writer_until_it_is_closed(tmp_path):
    first = data.Checkpointer(tmp_path)
    first.save(1, jnp.arange(3))
    with pytest.raises(ValueError, match=r"^Checkpointer: .* is in use .*, \d+ on .*: close"):
        data.Checkpointer(tmp_path)
    assert data.checkpoint_info(saved(tmp_path / "another", jnp.arange(3))).leaves == (("", "int32", (3,)),)
    first.close()
    assert data.restore(tmp_path, jnp.zeros(3, int)).tolist() == [0, 1, 2]
    saved_again(tmp_path / "another", step=2)


def test_a_checkpointer_that_cannot_be_made_locks_nothing(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no manager")

    with monkeypatch.context() as patch:
        patch.setattr("orbax.checkpoint.CheckpointManager", broken)
        with pytest.raises(RuntimeError, match="no manager"):
            data.Checkpointer(tmp_path)
    saved(tmp_path, jnp.arange(3))


def test_some_leaves_are_read_by_their_names(tmp_path):
    saved(tmp_path, {"a": {"b": jnp.arange(2)}, "c": jax.random.key(1)})
    assert data.restore(tmp_path, {"a": {"b": jnp.zeros(2, int)}}, partial=True)["a"]["b"].tolist() == [0, 1]
    assert data.restore(tmp_path, {"c": jax.random.key(0)}, partial=True)["c"] == jax.random.key(1)
    with pytest.raises(ValueError, match=r"holds d nothing\[\] where the tree.* int32\[2\]"):
        data.restore(tmp_path, {"d": jnp.zeros(2, int)}, partial=True)


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ({"a": jnp.zeros(2), "b": jnp.zeros(3)}, r"holds b float32\[4\] where the tree.* float32\[3\]"),
        ({"a": jnp.zeros(2), "b": jnp.zeros(4, int)}, r"holds b float32\[4\] .* has b int32\[4\]"),
        ({"a": jnp.zeros(2)}, r"holds b float32\[4\] .* has nothing more"),
        ({"a": jnp.zeros(2), "b": np.zeros(4)}, r"holds b float32\[4\] .* has b float64\[4\]"),
    ],
)
def test_restoring_into_another_tree_raises_with_the_first_difference(tmp_path, like, message):
    saved(tmp_path, {"a": jnp.zeros(2), "b": jnp.zeros(4)})
    with pytest.raises(ValueError, match=message):
        data.restore(tmp_path, like)


@pytest.mark.parametrize("left", [0, 100])
def test_arrays_that_are_cut_off_are_refused(tmp_path, left):
    state = {"a": np.random.default_rng(0).integers(0, 255, 4096).astype(np.uint8)}
    saved(tmp_path, state)
    largest = max((path for path in tmp_path.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:left])
    with pytest.raises(ValueError, match=r"restore: .* is damaged"):
        data.restore(tmp_path, state)


def test_a_folder_without_a_checkpoint_is_refused(tmp_path):
    for function, arguments in ((data.restore, (jnp.zeros(2),)), (data.checkpoint_info, ())):
        with pytest.raises(ValueError, match=rf"{function.__name__}: .* holds no complete checkpoint"):
            function(tmp_path, *arguments)


def test_steps_that_do_not_rise_and_arguments_that_do_not_fit_are_refused(tmp_path):
    with data.Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(3, jnp.zeros(2))
        with pytest.raises(ValueError, match=r"save: step .*got 3"):
            checkpointer.save(3, jnp.zeros(2))
        with pytest.raises(ValueError, match=r"save: state\.step .*got 4"):
            checkpointer.save(4, {"step": 4})
        with pytest.raises(ValueError, match="config must"):
            checkpointer.save(4, jnp.zeros(2), config={"sizes": np.arange(3)})
    with pytest.raises(ValueError, match=r"Checkpointer: keep .*got 0"):
        data.Checkpointer(tmp_path, keep=0)


def test_the_error_without_orbax_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    monkeypatch.delattr("orbax.checkpoint")
    for use in (lambda: data.Checkpointer(tmp_path), lambda: data.restore(tmp_path, jnp.zeros(2))):
        with pytest.raises(ImportError, match=r"needs orbax: pip install .*\[orbax\]"):
            use()
