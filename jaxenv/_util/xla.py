"""Workarounds for JAX and XLA, each with the compiler version and the symptom that make it necessary.

No function here changes values: each returns the values that it is given. Remove a workaround when its reason no longer
holds, and run ``python -m benchmarks`` before and after.

The environment variable ``JAXENV_PLAIN`` turns workarounds for kernels into plain calls, to see whether a compiler
still needs them: ``JAXENV_PLAIN=in_one_kernel,computed_once``, or ``JAXENV_PLAIN=all`` for all of `KERNELS`. It is read
at import. With it ``tests/util/test_xla.py`` expects the tests that need a workaround to fail: one that passes says
that the workaround is no longer needed. All other tests pass, some after minutes of compilation.
"""

import contextlib
import contextvars
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxenv._util.programs import can_be_made_again

T = TypeVar("T")

KERNELS = ("in_one_kernel", "in_small_kernel", "in_own_kernels", "computed_once", "separate_if_one_lane")


def _plain(names: str) -> frozenset[str]:
    """Returns the workarounds that ``JAXENV_PLAIN`` names."""
    found = KERNELS if names == "all" else tuple(filter(None, names.split(",")))
    if unknown := [name for name in found if name not in KERNELS]:
        raise ValueError(f"JAXENV_PLAIN: names must be all or some of {', '.join(KERNELS)}, got {unknown[0]!r}")
    return frozenset(found)


PLAIN = _plain(os.environ.get("JAXENV_PLAIN", ""))


def vary_like(reference: jax.Array, values: T, leaves_alone: Callable[[Any], bool] | None = None) -> T:
    """Marks constants as varying over the mesh axes that ``reference`` varies over; the identity outside ``shard_map``.

    JAX 0.9 to 0.10 track over which mesh axes a value varies and require a loop carry to keep its type. A constant
    made inside the loop body (a mask of ones, an entry of ``env_info``) varies over none, so the loop of the
    ``compact`` restart failed to trace under ``shard_map``. Nodes for which ``leaves_alone`` is true stay as they are.
    """

    def varying(x: jax.Array) -> frozenset[str]:
        kind: Any = jax.typeof(x)
        return kind.manual_axis_type.varying if hasattr(kind, "manual_axis_type") else kind.vma

    axes = varying(reference)
    if not axes:
        return values

    def vary(x: Any) -> Any:
        if leaves_alone is not None and leaves_alone(x):
            return x
        missing = tuple(axes - varying(x))
        return jax.lax.pcast(x, missing, to="varying") if missing else x

    return jax.tree.map(vary, values, is_leaf=leaves_alone)


def sharded_like(reference: jax.Array, values: T) -> T:
    """Shards the lanes of constants like ``reference``; the identity without a mesh of explicit axes.

    Such axes (``jax.make_mesh`` since JAX 0.9) are part of an array's type. ``jax.vmap`` (JAX 0.10) refuses arguments
    with different ones, and a constant has no such axes.
    """
    kind: Any = jax.typeof(reference)
    axes = kind.sharding.spec[:1]
    if axes in ((), (None,)):
        return values
    lanes = jax.sharding.NamedSharding(kind.sharding.mesh, jax.sharding.PartitionSpec(*axes))
    return jax.tree.map(lambda x: jax.sharding.reshard(x, lanes), values)


def has_explicit_lanes(x: jax.Array) -> bool:
    """Returns whether the lanes of ``x`` are sharded over axes of a mesh that are explicit."""
    return bool(any(jax.typeof(x).sharding.spec))


def take_rows(table: np.ndarray, index: jax.Array, mode: str | None = None) -> jax.Array:
    """Returns ``table[index]`` for a constant table; its lanes are sharded like ``index``.

    JAX (0.9 to 0.10) does not derive it for an index over a mesh of explicit axes, as a constant has no mesh.
    """
    sharding = jax.typeof(index).sharding
    lanes = sharding if has_explicit_lanes(index) else None
    return jnp.asarray(table).at[index].get(mode=mode, out_sharding=lanes)


def loop_options() -> dict[str, Any]:
    """Returns XLA's options for a program of this library that is mostly a loop over steps.

    XLA:GPU (jaxlib 0.11.2) runs a loop body of at least five launches as a CUDA graph, and shorter ones launch by
    launch. CartPole has three: a step of 2048 lanes took 22.8 microseconds on an H200, as a graph 4.8.
    """
    return {"xla_gpu_graph_min_graph_size": 1} if jax.default_backend() == "gpu" else {}


def scan_elementwise(step: Callable[[Any, Any], tuple[Any, Any]], carry: Any, rows: Any) -> tuple[Any, Any]:
    """Acts as ``jax.lax.scan`` for a step of a few elementwise operations on each row.

    On a GPU the launches of an iteration take longer than its operations, so an iteration has eight steps, which XLA
    fuses. On a CPU (jaxlib 0.10.2) that is slower: 2.6 times for 128 rows of 2048 numbers.
    """
    scan = functools.partial(jax.lax.scan, step)
    return jax.lax.platform_dependent(carry, rows, cpu=scan, default=functools.partial(scan, unroll=8))


def in_sequence(function: Callable[..., Any]) -> Callable[..., Any]:
    """Runs ``vmap`` of the function as a loop: for decompositions of matrices (QR, SVD, Cholesky).

    jaxlib 0.10 splits a *batch* of matrices over the threads of XLA:CPU and waits for them on one of these threads. As
    many such calls at a time as the processor has cores wait for each other forever. Orthogonal weights of several
    layers, vmapped over seeds, did so on two cores. Single matrices are decomposed on the thread itself.
    """
    return jax.custom_batching.sequential_vmap(function)


def unshare(values: T) -> T:
    """Copies leaves that occur twice, so that donating one part of a tree never deletes another.

    In eager code an observation may be the same ``jax.Array`` object as a part of the state. JAX deletes donated
    buffers, so ``jit(step, donate_argnums=0)`` would delete the row as well. Under ``jit`` the copies compile to
    nothing.
    """
    seen: set[int] = set()

    def distinct(x: jax.Array) -> jax.Array:
        if id(x) in seen:
            x = jnp.copy(x)
        seen.add(id(x))
        return x

    return jax.tree.map(distinct, values)


def computed_once(values: T) -> T:
    """Keeps XLA:CPU from recomputing ``values`` in every kernel that reads them; the identity elsewhere.

    XLA's CPU back end (jaxlib 0.10.2) has no sound multi-output fusion: it fuses cheap producers into each consumer.
    Elementwise code does better in `in_one_kernel`; this is for values that many different kernels read. XLA cannot
    prove which branch of the ``cond`` runs, because the barrier hides its constant predicate, so the values cross the
    branch as buffers. A barrier alone is removed before kernels are formed.

    Still needed while ``JAXENV_PLAIN=computed_once`` makes
    ``test_values_that_several_kernels_read_are_computed_once`` fail.
    """
    return values if "computed_once" in PLAIN else _apart(values)


def _apart(values: T) -> T:
    """Returns the values; on a CPU, kernels that read them do not recompute them."""

    def behind_a_branch(values: Any) -> Any:
        return jax.lax.cond(_always(), lambda x: x, lambda x: jax.tree.map(_other, x), values)

    return jax.lax.platform_dependent(values, cpu=behind_a_branch, default=lambda values: values)


def _other(x: jax.Array) -> jax.Array:
    """Returns other values of the same type that cost no more to compute."""
    return -x if jnp.issubdtype(x.dtype, jnp.floating) else jnp.bitwise_not(x)


def in_own_kernels(function: Callable[..., jax.Array], *arrays: Any) -> jax.Array:
    """Calls ``function(*arrays)``, on a CPU in kernels that contain nothing else; an ordinary call elsewhere.

    For images. XLA:CPU (jaxlib 0.10.2) fuses an image into the kernel that stores or reads it, and the loops of that
    kernel follow the axes of the image. In a rollout that stores ``[T, B, 10, 10, 4]`` the innermost loop runs over
    four channels. LLVM unrolls it before its vectoriser runs, so each byte is computed alone: storing a step of
    Seaquest took 1.4 times as long. The function should return few long axes, such as ``[B, 400]``, and the caller
    should reshape the result. Writing and reading the image once more is not free: where little arithmetic makes an
    image, a rollout that only sums it becomes slower (docs/evidence/performance-trials.md).

    Still needed while ``JAXENV_PLAIN=in_own_kernels`` makes
    ``test_an_image_in_its_own_kernels_is_apart_from_the_kernel_that_stores_it`` fail.

    Args:
        function: maps the arrays to the image.
        *arrays: its inputs, arrays or trees of them. Each is computed once, before the call.
    """
    if "in_own_kernels" in PLAIN or not any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(arrays)):
        return function(*arrays)

    def zeros(*arrays: Any) -> jax.Array:
        image = function(*arrays)  # only for its type and sharding: XLA removes it
        return jnp.zeros_like(image)

    def behind_a_branch(*arrays: Any) -> jax.Array:
        return jax.lax.cond(_always(), function, zeros, *arrays)

    return jax.lax.platform_dependent(*arrays, cpu=behind_a_branch, default=function)


def flat_in_own_kernels(function: Callable[..., jax.Array], *arrays: Any) -> jax.Array:
    """Calls ``function(*arrays)`` as `in_own_kernels` does and returns the image as ``[B, n]``, for kernels to read.

    A network reads an image as ``image.reshape(B, -1).astype(float32)``. XLA:CPU (jaxlib 0.10.2 and 0.12.0) moves the
    conversion in front of the reshape, and the loop over the results divides to find each flag: with an image ``[B, 10,
    70]`` a step of Freeway under a linear policy took 3.8 times as long. Here the reshape is behind the image's kernels
    and in front of those that read it.

    Still needed while ``JAXENV_PLAIN=in_own_kernels`` makes
    ``test_a_flat_image_is_converted_without_a_reshape`` fail.
    """
    image = in_own_kernels(function, *arrays)
    flat = image.reshape(image.shape[0], -1)
    return _apart(flat) if isinstance(flat, jax.core.Tracer) and "in_own_kernels" not in PLAIN else flat


def in_one_kernel(function: Callable[..., T], *arguments: Any) -> T:
    """Calls ``function(*arguments)``, on a CPU in a single kernel, however many results it has.

    XLA:CPU (jaxlib 0.10.2) has no fusion with several results: it makes a kernel per result, and each kernel recomputes
    the shared values. Only a reduction computes several arrays at once in HLO, with any function of scalars as reducer.
    So the elements are the first of two equal rows that are reduced, and the second row keeps the results of the first;
    LLVM removes that step. A solver of 600 operations and nine results ran 1.8 times as fast as in separate kernels and
    compiled in half the time; it vectorises over the lanes.

    Still needed while ``JAXENV_PLAIN=in_one_kernel`` makes ``test_a_function_in_one_kernel_compiles_to_one`` fail.

    Args:
        function: maps scalars to scalars. It is called with scalars and with arrays, so it has elementwise operations
            only, and reads no array but its arguments. A function of a module or a method is traced once for arguments
            of such dtypes and any shapes; a lambda or a closure is traced every time.
        *arguments: trees of arrays, which broadcast against each other. Everything else, such as Python and NumPy
            scalars, is a hashable constant.

    Returns:
        The results, arrays of the shape of all arguments together.
    """
    leaves, structure = jax.tree.flatten(arguments)
    if not any(np.ndim(x) for x in leaves):
        return function(*arguments)
    leaves = [x[()] if isinstance(x, np.ndarray) else x for x in leaves]  # arrays are not hashable, scalars are
    is_array = tuple(bool(np.ndim(x)) or isinstance(x, jax.Array) for x in leaves)
    constants = tuple(None if array else (type(x), x) for x, array in zip(leaves, is_array, strict=True))
    arrays = jnp.broadcast_arrays(*(x for x, array in zip(leaves, is_array, strict=True) if array))
    # Not from the cache below, whose traces ignore these settings: the check ``no_word_reused`` records each draw.
    if jax.config.jax_disable_jit or jax.config.jax_debug_key_reuse:  # type: ignore[attr-defined]
        return _elementwise(function, structure, constants)(*arrays)
    for x in arrays:  # all arguments of a primitive vary over the same axes of a mesh
        arrays = vary_like(x, arrays)
    kinds = tuple(x.dtype for x in arrays)
    context = jax.sharding.get_abstract_mesh(), jax.config.read("jax_enable_x64")
    traced = _cache_of(function) if can_be_made_again(structure) else _traced
    on_arrays, on_scalars, results = traced(function, structure, constants, kinds, context)
    return results.unflatten(_one_kernel.bind(*arrays, function=on_arrays, on_scalars=on_scalars))


_few_lanes = contextvars.ContextVar("few_lanes", default=False)


@contextlib.contextmanager
def few_lanes(few: bool) -> Iterator[None]:
    """Marks programs traced inside the context as one step of few lanes, which Python calls step by step."""
    token = _few_lanes.set(few)
    try:
        yield
    finally:
        _few_lanes.reset(token)


def in_small_kernel(function: Callable[..., T], *arguments: Any) -> T:
    """Acts as `in_one_kernel` for a function of few results, no images; an ordinary call in a program of `few_lanes`.

    XLA:CPU (jaxlib 0.10.2) allocates a buffer for every operation of a reducer in every call of the program, about 70
    ns each: the reducer of Acrobot took 50 us of a step from Python, its arithmetic less than 1 us. With few lanes it
    is faster to recompute the values that several results share.

    No test shows whether this is still needed, because only timing does: compare ``python -m benchmarks host`` with
    and without ``JAXENV_PLAIN=in_small_kernel``.
    """
    plain = "in_small_kernel" in PLAIN or _few_lanes.get()
    return function(*arguments) if plain else in_one_kernel(function, *arguments)


def _elementwise(function: Callable[..., T], structure: Any, constants: tuple[Any, ...]) -> Callable[..., T]:
    """Binds the constants of the function."""

    def elementwise(*arrays: Any) -> Any:
        rest = iter(arrays)
        return function(*jax.tree.unflatten(structure, [next(rest) if c is None else c[1] for c in constants]))

    return elementwise


def _cache_of(function: Any) -> Callable[..., Any]:
    """Returns `_traced` with a cache: one for all module-level functions, else one on the function, freed with it."""
    if "<locals>" not in getattr(function, "__qualname__", "") or not hasattr(function, "__dict__"):
        return _of_modules
    if not hasattr(function, "traced"):
        function.traced = functools.lru_cache(maxsize=64)(_traced)
    return function.traced


def _traced(
    function: Callable[..., Any], structure: Any, constants: tuple[Any, ...], kinds: tuple[np.dtype, ...], _context: Any
) -> tuple[Callable[..., Any], Any, Any]:
    """Traces the function: returns it from arrays to a list, its program for scalars and the structure of its results.

    Cached, because JAX compiles again for another function object. ``_context`` is a part of the cache's key:
    operations keep the mesh and the widest dtypes of the context in which they are traced.
    """
    elementwise = _elementwise(function, structure, constants)
    scalars = [jax.ShapeDtypeStruct((), kind) for kind in kinds]
    on_scalars, results = jax.make_jaxpr(elementwise, return_shape=True)(*scalars)

    def on_arrays(*arrays: Any) -> list[jax.Array]:
        return jax.tree.leaves(elementwise(*arrays))

    return on_arrays, on_scalars, jax.tree.flatten(results)[1]


_of_modules = functools.lru_cache(maxsize=512)(_traced)


def _reduced(*arrays: Any, function: Callable[..., Any], on_scalars: Any) -> list[jax.Array]:
    """Computes the results of ``function`` as a reduction."""
    # Every operand of a reduction has a result: results replace arguments of their type, then use new operands.
    operands, free, places = list(arrays), list(range(len(arrays))), []
    for aval in on_scalars.out_avals:
        place = next((i for i in free if operands[i].dtype == aval.dtype), len(operands))
        if place == len(operands):
            operands.append(jnp.zeros_like(arrays[0], aval.dtype))
        else:
            free.remove(place)
        places.append(place)
    operands.append(jnp.ones_like(arrays[0], bool))
    rows = tuple(jnp.broadcast_to(x[None], (2, *x.shape)) for x in operands)
    starts = tuple(np.zeros((), x.dtype) for x in operands)
    out = jax.lax.reduce(rows, starts, _reducer(on_scalars, len(arrays), tuple(places)), (0,))
    # Without the barrier a pass of StableHLO looks for unused results along every path through the reducer.
    out = jax.lax.optimization_barrier(out)
    return [out[place] for place in places]


def _shapes(x: Any, *_: Any, function: Callable[..., Any], on_scalars: Any) -> list[Any]:
    return [x.update(dtype=aval.dtype, weak_type=False) for aval in on_scalars.out_avals]


def _batched(arrays: Any, axes: Any, **program: Any) -> tuple[list[jax.Array], list[int]]:
    size = next(x.shape[axis] for x, axis in zip(arrays, axes, strict=True) if axis is not None)

    def lead(x: Any, axis: Any) -> Any:
        return jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)

    out = _one_kernel.bind(*map(lead, arrays, axes), **program)
    return out, [0] * len(out)


def _differentiated(arrays: Any, tangents: Any, function: Callable[..., Any], on_scalars: Any) -> Any:
    return jax.jvp(function, tuple(arrays), tuple(ad.instantiate_zeros(x) for x in tangents))


def _compiled(function: Any, on_scalars: Any) -> Callable[..., Any]:
    if not hasattr(function, "compiled"):
        function.compiled = jax.jit(functools.partial(_one_kernel.bind, function=function, on_scalars=on_scalars))
    return function.compiled


# A separate primitive: JAX traces the function once for all shapes, and lowers it for one platform only.
_one_kernel = Primitive("one_kernel")
_one_kernel.multiple_results = True
_one_kernel.def_impl(lambda *arrays, **program: _compiled(**program)(*arrays))
_one_kernel.def_abstract_eval(_shapes)
batching.primitive_batchers[_one_kernel] = _batched
ad.primitive_jvps[_one_kernel] = _differentiated
if "in_one_kernel" not in PLAIN:
    mlir.register_lowering(_one_kernel, mlir.lower_fun(_reduced), platform="cpu")
mlir.register_lowering(_one_kernel, mlir.lower_fun(lambda *arrays, function, on_scalars: function(*arrays)))


@functools.lru_cache(maxsize=256)
def _reducer(program: Any, num_arguments: int, places: tuple[int, ...]) -> Callable[..., Any]:
    """Makes a reducer that replaces its arguments by the results of a program of the first element."""

    def reducer(row: tuple[jax.Array, ...], element: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        first = ~row[-1]
        out = list(row)
        results = _without_calls(program.jaxpr, program.consts, element[:num_arguments])
        for place, x in zip(places, results, strict=True):
            out[place] = jax.lax.select(first, x, row[place])
        return *out[:-1], element[-1]

    return reducer


def _without_calls(jaxpr: Any, constants: Any, arguments: Any) -> list[Any]:
    """Evaluates a program with the bodies of jitted functions such as ``jnp.where`` inlined.

    A pass of StableHLO (jaxlib 0.10.2) crashes at a reduction that nothing reads and whose reducer calls functions.
    """
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))

    def read(x: Any) -> jax.Array:
        return x.val if hasattr(x, "val") else values[x]

    for equation in jaxpr.eqns:
        given = [read(x) for x in equation.invars]
        if (body := equation.params.get("jaxpr")) is not None:
            results = _without_calls(body.jaxpr, body.consts, given)
        else:
            out = equation.primitive.bind(*given, **equation.params)
            results = out if equation.primitive.multiple_results else [out]
        values.update(zip(equation.outvars, results, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _always() -> jax.Array:
    """Returns True in a way that XLA cannot see through."""
    return jax.lax.optimization_barrier(jnp.bool_(True))


def separate_if_one_lane(words: T) -> T:
    """Computes the random words of a single lane apart from their consumers; the identity for more lanes.

    In a loop over the cells of one lane's image these words are constant, and LLVM's vectoriser (jaxlib 0.10.2) tries
    to prove that. It has no memory, so the time doubles with every addition of the generator: compiling the ``reset``
    of one lane of Breakout took six minutes.

    Still needed while ``JAXENV_PLAIN=separate_if_one_lane`` makes the tests of ``tests/envs/minatar/test_breakout.py``
    take minutes.
    """
    traced = any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(words))
    apart = traced and "separate_if_one_lane" not in PLAIN
    return _apart(words) if apart and jnp.shape(jax.tree.leaves(words)[0])[:1] == (1,) else words
