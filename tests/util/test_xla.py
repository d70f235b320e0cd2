"""Functions that control how XLA compiles and shares arrays.

Tests that are marked with `tells` fail while ``JAXENV_PLAIN`` turns their workaround off and the compiler needs it.
"""

import functools
import os
import subprocess
import sys

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import random
from jaxenv._util import xla


def tells(name):
    """Marks a test that passes with a plain call as soon as the compiler no longer needs the workaround."""
    return pytest.mark.xfail(name in xla.PLAIN, reason=f"the compiler still needs {name}", strict=True)


def only_with(*names):
    """Marks a test of how a workaround compiles, which says nothing about a plain call."""
    plain = sorted(xla.PLAIN.intersection(names))
    return pytest.mark.skipif(bool(plain), reason=f"JAXENV_PLAIN turns {', '.join(plain)} off")


def compiled(function, *arguments):
    """The text of the optimised program."""
    return jax.jit(function).lower(*arguments).compile().as_text()


def test_unshare_copies_a_leaf_that_occurs_twice():
    x, y = jnp.arange(3), jnp.ones(3)
    a, b, c = xla.unshare((x, x, y))
    assert a is x
    assert c is y
    assert b is not x
    assert b.tolist() == [0, 1, 2]


@pytest.mark.compiled
@only_with("separate_if_one_lane")
def test_a_random_word_of_one_lane_is_computed_apart_from_its_consumers():
    # Otherwise some programs of one lane take minutes to compile.
    def programs(lanes):
        words = jnp.arange(lanes, dtype=jnp.uint32)
        return str(jax.make_jaxpr(lambda w: random.bits(random.Stream(w, w, w, w)))(words))

    assert "cond" in programs(1)
    assert "cond" not in programs(2)


@pytest.mark.compiled
@only_with("in_one_kernel")
@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("draw", [lambda s: random.bits(s, (7,)), lambda s: random.separate_bits(s, 7)])
def test_several_random_words_are_computed_in_one_kernel(draw, lanes):
    # XLA would compute a block of the generator for each of its two words. One lane's words are thus apart as well.
    words = jnp.arange(lanes, dtype=jnp.uint32)
    program = jax.jit(lambda w: draw(random.Stream(w, w, w, w))).lower(words).compile().as_text()
    assert program.count(" reduce(") == 1


def test_random_words_of_one_lane_are_those_of_the_lane_in_a_batch():
    words = jnp.arange(3, dtype=jnp.uint32)
    draw = jax.jit(lambda w: random.bits(random.Stream(w, w, w, w), (5,)))
    np.testing.assert_array_equal(draw(words[1:2])[0], draw(words)[1])


BITS = np.arange(32, dtype=np.uint32)
MASKS = (np.uint32(1) << BITS)[None, None]


def expanded(words):
    return xla.in_own_kernels(lambda words, bit: (words[:, None] & bit[None]) != 0, words, np.uint32(1) << BITS)


def flat(words):
    return xla.flat_in_own_kernels(lambda words: (words[:, None, None] & MASKS.reshape(1, 4, 8)) != 0, words)


def test_an_image_in_its_own_kernels_is_the_image_with_and_without_jit():
    words = jnp.array([0, 5, 2**32 - 1], jnp.uint32)
    expected = np.asarray(words)[:, None] >> BITS & 1 != 0
    np.testing.assert_array_equal(expanded(words), expected)
    np.testing.assert_array_equal(jax.jit(expanded)(words), expected)
    np.testing.assert_array_equal(jax.jit(jax.vmap(expanded))(words[None]), expected[None])


@pytest.mark.compiled
@tells("in_own_kernels")
def test_an_image_in_its_own_kernels_is_apart_from_the_kernel_that_stores_it():
    def stored(images, words):
        return images.at[1].set(expanded(words).reshape(3, 4, 8))

    # The bits of an image are shifted words: XLA fuses them into the kernel with the axes of the image.
    kernels = compiled(stored, jnp.zeros((2, 3, 4, 8), bool), jnp.zeros(3, jnp.uint32)).split("\n\n")
    assert not [kernel for kernel in kernels if "and(" in kernel and "dynamic-update-slice(" in kernel]


@pytest.mark.compiled
@tells("in_own_kernels")
def test_a_flat_image_is_converted_without_a_reshape():
    def board(words):
        return xla.flat_in_own_kernels(lambda words: (words[:, :, None] & MASKS) != 0, words)

    def product(words, weights):
        return board(words).reshape(3, 5, 4, 8).reshape(3, -1).astype(jnp.float32) @ weights

    words = jnp.arange(15, dtype=jnp.uint32).reshape(3, 5)
    np.testing.assert_array_equal(board(words), jax.jit(board)(words))
    program = compiled(product, words, jnp.ones((160, 2)))
    kernels = [kernel for kernel in program.split("\n\n") if " convert(" in kernel and "f32[3,5,32]" in kernel]
    assert not kernels


@pytest.mark.compiled
@tells("computed_once")
def test_values_that_several_kernels_read_are_computed_once():
    def readers(x):
        values = xla.computed_once(jnp.sin(x))
        return values.sum(), values.sum(axis=0), values.max(axis=1)

    assert compiled(readers, jnp.ones((64, 32))).count(" sine(") == 1


@pytest.mark.parametrize("kind", [jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit])
def test_an_image_in_its_own_kernels_traces_over_a_mesh(kind):
    mesh = jax.make_mesh((1,), ("lanes",), axis_types=(kind,))
    lanes = jax.sharding.PartitionSpec("lanes")
    words = jax.device_put(jnp.arange(4, dtype=jnp.uint32), jax.sharding.NamedSharding(mesh, lanes))
    expected = np.arange(4)[:, None] >> BITS & 1 != 0
    with jax.set_mesh(mesh):
        for image in (expanded, flat):
            np.testing.assert_array_equal(jax.jit(image)(words), expected)
            shards = jax.shard_map(image, mesh=mesh, in_specs=lanes, out_specs=lanes)
            np.testing.assert_array_equal(jax.jit(shards)(words), expected)


def sine_and_more(x, index, flag, limit):
    total = jnp.where(flag, jnp.sin(x) + index.astype(jnp.float32), x)
    return {"sum": total, "large": total > limit}, index + flag.astype(jnp.int32)


def arguments():
    x = jnp.linspace(-2, 2, 12).reshape(3, 4)
    return x, jnp.arange(3, dtype=jnp.int32)[:, None], x > 0.5


def in_one_kernel(x, index, flag):
    return xla.in_one_kernel(sine_and_more, x, index, flag, np.float32(1))


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit, lambda f: jax.jit(jax.vmap(f))])
def test_a_function_in_one_kernel_has_the_results_of_the_function(transform):
    expected = sine_and_more(*arguments(), np.float32(1))
    actual = transform(in_one_kernel)(*arguments())
    expected = jax.tree.map(lambda x: jnp.broadcast_to(x, (3, 4)), expected)
    chex.assert_trees_all_equal_shapes_and_dtypes(actual, expected)
    chex.assert_trees_all_close(actual, expected)


@pytest.mark.compiled
@tells("in_one_kernel")
def test_a_function_in_one_kernel_compiles_to_one():
    program = jax.jit(in_one_kernel).lower(*arguments()).compile().as_text()
    assert program.count(" fusion(") == 1


@pytest.mark.compiled
@only_with("in_one_kernel", "in_small_kernel")
@pytest.mark.parametrize("few", [False, True])
def test_a_function_in_a_small_kernel_is_a_reduction_only_for_many_lanes(few):
    def function(*arguments):
        with xla.few_lanes(few):
            return xla.in_small_kernel(sine_and_more, *arguments, np.float32(1))

    program = jax.jit(function).lower(*arguments())
    assert ("reduce" in program.as_text()) != few
    chex.assert_trees_all_close(program.compile()(*arguments()), in_one_kernel(*arguments()))


def test_a_function_in_one_kernel_is_traced_once_for_all_shapes():
    # Every other trace of a solver costs seconds.
    shapes = []

    def plus_one(x):
        shapes.append(np.shape(x))
        return x + 1

    for lanes in (2, 3):
        jax.jit(lambda x: xla.in_one_kernel(plus_one, x)).trace(jnp.zeros(lanes))
    assert shapes == [()]


@pytest.mark.compiled
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_a_function_in_one_kernel_is_no_reduction_on_other_platforms(platform):
    program = jax.jit(in_one_kernel).trace(*arguments()).lower(lowering_platforms=(platform,)).as_text()
    assert "sine" in program
    assert "reduce" not in program


def test_a_function_in_one_kernel_has_its_derivatives():
    x, index, flag = arguments()
    inside = jax.grad(lambda x: jnp.sum(in_one_kernel(x, index, flag)[0]["sum"]))(x)
    np.testing.assert_allclose(inside, np.where(flag, np.cos(x), 1), rtol=1e-6)


def test_results_of_one_kernel_that_nothing_reads_compile():
    def unread(x, index, flag):
        in_one_kernel(x, index, flag)
        return x + 1

    def unread_after_checkpoint(x, index, flag):
        return jnp.sum(jax.checkpoint(lambda x: in_one_kernel(jax.lax.stop_gradient(x), index, flag)[0]["sum"] * x)(x))

    np.testing.assert_array_equal(jax.jit(unread)(*arguments()), arguments()[0] + 1)
    assert jnp.isfinite(jax.jit(jax.grad(unread_after_checkpoint))(*arguments())).all()


def squared_often(x, y):
    for _ in range(60):
        x, y = x * y - x, x + y * np.float32(0.5)
    return x, y, x


def test_one_kernel_of_many_shared_values_compiles_in_time():
    # A pass that follows every path through the function would never end.
    small = jnp.full(5, 0.25)
    result = jax.jit(lambda x: xla.in_one_kernel(squared_often, x, x)[1])(small)
    np.testing.assert_allclose(result, squared_often(small, small)[1], rtol=1e-5)


@pytest.mark.parametrize("kind", [jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit])
def test_one_kernel_traces_over_a_mesh(kind):
    mesh = jax.make_mesh((1,), ("lanes",), axis_types=(kind,))
    lanes = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("lanes"))
    x, index, flag = arguments()
    with jax.set_mesh(mesh):
        given = [jax.device_put(a, lanes) for a in (x, jnp.broadcast_to(index, x.shape), flag)]
        expected = sine_and_more(x, index, flag, np.float32(1))
        chex.assert_trees_all_close(jax.jit(in_one_kernel)(*given), expected)


def test_one_kernel_of_shards_and_constants_differs_between_shards():
    mesh = jax.make_mesh((1,), ("lanes",), axis_types=(jax.sharding.AxisType.Auto,))
    lanes = jax.sharding.PartitionSpec("lanes")
    x, index, flag = arguments()

    def sharded(out_specs):
        of_flag = functools.partial(in_one_kernel, x, index)
        return jax.jit(jax.shard_map(of_flag, mesh=mesh, in_specs=lanes, out_specs=out_specs))(flag)

    chex.assert_trees_all_close(sharded(lanes), sine_and_more(x, index, flag, np.float32(1)))
    with pytest.raises(ValueError, match="replicat"):
        sharded(jax.sharding.PartitionSpec())


def test_one_kernel_of_some_lanes_under_vmap_is_that_of_all():
    x, index, flag = arguments()
    mapped = jax.vmap(lambda x, flag: in_one_kernel(x, index[:, 0], flag), in_axes=(1, 1), out_axes=1)
    expected = sine_and_more(x, index, flag, np.float32(1))
    chex.assert_trees_all_close(mapped(x, flag), expected)


# --- scans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_a_scan_of_rows_is_that_of_jax_on_every_platform(monkeypatch, platform):
    def chosen(*arguments, default, **branches):
        return branches.get(platform, default)(*arguments)

    def step(total, row):
        total = np.float32(0.5) * total + row["x"]
        return total, {"total": total, "flag": row["flag"] & (total > 0)}

    rows = {"x": jnp.asarray(np.float32(np.arange(13 * 3).reshape(13, 3) % 7 - 3)), "flag": jnp.arange(13) % 3 == 0}
    expected = jax.lax.scan(step, jnp.ones(3), rows)
    monkeypatch.setattr(jax.lax, "platform_dependent", chosen)
    chex.assert_trees_all_equal(xla.scan_elementwise(step, jnp.ones(3), rows), expected)
    program = jax.make_jaxpr(lambda: xla.scan_elementwise(step, jnp.ones(3), rows))()
    assert [e.params["unroll"] for e in program.eqns if e.primitive.name == "scan"] == [{"cpu": 1, "cuda": 8}[platform]]


# --- the switch -------------------------------------------------------------------------------------------------------


@pytest.mark.compiled
def test_workarounds_that_are_named_are_plain_calls():
    code = (
        "import jax, jax.numpy as jnp\n"
        "from tests.util.test_xla import arguments, compiled, expanded, in_one_kernel\n"
        "print(' reduce(' in compiled(in_one_kernel, *arguments()))\n"
        "print('conditional' in compiled(expanded, jnp.zeros(3, jnp.uint32)))\n"
    )
    found = []
    for names in ("", "in_own_kernels", "all"):
        run = [sys.executable, "-c", code]
        done = subprocess.run(run, env={**os.environ, "JAXENV_PLAIN": names}, capture_output=True, text=True)
        found.append(done.stdout.split())
    assert found == [["True", "True"], ["True", "False"], ["False", "False"]]


def test_a_workaround_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"^JAXENV_PLAIN: names .*got 'fast'$"):
        xla._plain("computed_once,fast")
