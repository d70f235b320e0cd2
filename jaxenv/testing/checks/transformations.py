"""Under JAX's transformations: jit, scan, vmap, donation; and what must not stand in compiled code."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._declared import Declared, map_declared
from jaxenv.rollout import random_policy, unroll
from jaxenv.testing.compare import ROUNDING, host, leaf_name, require_equal, steps
from jaxenv.testing.report import Failure
from jaxenv.testing.subject import (
    LANES,
    MORE_LANES,
    Subject,
    action_shapes,
    counted,
    lane_numbers,
    replay,
    start,
    step,
)
from jaxenv.tree import Tree


def jit_equals_eager(subject: Subject) -> None:
    """Compiled reset and step return what they return op by op."""
    eager = subject.eager
    compiled = jax.jit(lambda env, key: env.reset(key))(eager.env, subject.key)
    require_equal(eager.resets[0], compiled, "reset, eager and compiled", tolerance=ROUNDING, axes=("lane",))
    compiled = step(eager.env, *eager.given)
    require_equal(eager.steps[0], compiled, "step, eager and compiled", tolerance=ROUNDING, axes=("lane",))


def one_trace(subject: Subject) -> None:
    """One reset and three steps trace each function once; new params never do so again, another B does once."""
    counts: Counter = Counter()
    reset, advance = (counted(name, lambda env, *given, n=name: getattr(env, n)(*given), counts) for name in _TRACED)
    env = subject.given
    action = action_shapes(env)
    state, _ = reset.trace(env, subject.key).out_info
    for _ in range(3):
        state, _ = advance.trace(env, state, action).out_info
    _require_counts(counts, 1, "reset and three steps")
    for name, changed in _other_values(env):
        advance.trace(changed, state, action)
        _require_counts(counts, 1, f"a new value of {name}")
    for count in (MORE_LANES, MORE_LANES):
        other = subject.of_lanes(count)
        later, _ = reset.trace(other, subject.key).out_info
        advance.trace(other, later, action_shapes(other))
        _require_counts(counts, 2, f"{count} lanes after {LANES}")


_TRACED = ("reset", "step")


def _require_counts(counts: Counter, most: int, after: str) -> None:
    for name in _TRACED:
        if counts[name] != most:
            raise Failure(f"{name} was traced {counts[name]} times after {after}, {most} expected")


def _other_values(env: Any) -> Iterator[tuple[str, Any]]:
    """The environment with other values for each of its float params, one at a time."""
    params = getattr(env.unwrapped, "params", None)
    for field in dataclasses.fields(params) if dataclasses.is_dataclass(params) else ():
        value = getattr(params, field.name)
        if isinstance(value, float) or jnp.issubdtype(jnp.result_type(value), jnp.floating):
            yield field.name, env.with_params(**{field.name: np.asarray(value) * np.float32(0.99)})


def scan_equals_loop(subject: Subject) -> None:
    """Steps inside a scan equal single compiled steps from the same states."""
    made = subject.rollout
    looped = [step(subject.stack, *steps((made.before, made.actions), t)) for t in range(subject.num_steps)]
    wanted = jax.tree.map(lambda *x: np.stack(x), *map(host, looped))
    require_equal(wanted, made.after, "in a loop and in a scan", tolerance=ROUNDING, first_step=1)


def loop_compatible(subject: Subject) -> None:
    """State and TimeStep can be the carry of ``lax.fori_loop`` and of ``lax.while_loop``."""

    def looped(env, key, action):
        start = env.reset(key)
        counted = jax.lax.fori_loop(0, 2, lambda _, now: env.step(now[0], action), start)
        return jax.lax.while_loop(lambda now: now[1].is_mid().all(), lambda now: env.step(now[0], action), counted)

    env = subject.given
    try:
        jax.eval_shape(looped, env, subject.key, action_shapes(env))
    except TypeError as fault:
        raise Failure(f"a loop refuses: {fault}") from None


def no_callback(subject: Subject) -> None:
    """The compiled code calls no Python, moves nothing to another device and feeds nothing in or out."""

    def traced(env, key, action):
        return env.step(env.reset(key)[0], action)

    env = subject.given
    jaxpr = jax.make_jaxpr(traced)(env, subject.key, specs.zeros(env.action_spec(), (LANES,)))
    for equation in _equations(jaxpr.jaxpr):
        name = equation.primitive.name
        moved = name == "device_put" and any(device is not None for device in equation.params.get("devices", ()))
        if moved or any(word in name for word in ("callback", "print", "infeed", "outfeed")):
            raise Failure(f"the compiled step holds {name}")


def _equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a jaxpr, those of nested ones included."""
    for equation in jaxpr.eqns:
        yield equation
        for value in jax.tree.leaves(equation.params, is_leaf=_is_jaxpr):
            if _is_jaxpr(value):
                yield from _equations(getattr(value, "jaxpr", value))


def _is_jaxpr(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(getattr(value, "jaxpr", None), "eqns")


def vmap_equals_loop(subject: Subject) -> None:
    """``vmap`` over two rollouts, with other keys and with other params, gives what each gives alone."""
    pair = (subject.rollout, subject.other_rollout)
    keys = jnp.stack(subject.keys)
    envs = (subject.stack, map_declared(_lowered, subject.stack))
    both = jax.tree.map(lambda *x: jnp.stack(x), *envs)
    begun = jax.jit(jax.vmap(start, in_axes=(0, 0, None)))(both, keys, lane_numbers(LANES))
    states = jax.tree.map(lambda *x: jnp.stack(x), *(made.before for made in pair))
    actions = jax.tree.map(lambda *x: np.stack(x), *subject.actions)
    replayed = jax.jit(jax.vmap(replay))(both, states, actions)
    for i, (env, made) in enumerate(zip(envs, pair, strict=True)):
        first, after = start(env, subject.keys[i], lane_numbers(LANES)), replay(env, made.before, made.actions)
        require_equal(first, host(steps(begun, i)), "reset alone and under vmap", tolerance=ROUNDING, axes=("lane",))
        require_equal(after, host(steps(replayed, i)), "step alone and under vmap", tolerance=ROUNDING, first_step=1)


def _lowered(d: Declared) -> Any:
    """A float param a hundredth lower, everything else as it is."""
    is_float = d.dtype is not None and np.asarray(d.value).dtype.kind == "f"
    return np.asarray(d.value) * np.float32(0.99) if is_float else d.value


def donation_safe(subject: Subject) -> None:
    """No array stands in two places of what reset or step returns, so that donating the state deletes nothing else.

    This is looked at op by op: compiled code returns arrays of their own.
    """
    eager = subject.eager
    for method, returned in (("reset", eager.resets[0]), ("step", eager.steps[0])):
        seen: dict[int, str] = {}
        for path, x in jax.tree_util.tree_leaves_with_path(returned):
            name = leaf_name(returned, path)
            if id(x) in seen:
                raise Failure(f"{method}: {seen[id(x)]} and {name} are one array object")
            seen[id(x)] = name
    state, timestep = eager.resets[1]
    fresh = eager.env.reset(subject.key)
    _delete(fresh[0])
    others = {"its own TimeStep": fresh[1], "another reset": (state, timestep), "the environment": eager.env}
    for what, values in others.items():
        for path, x in jax.tree_util.tree_leaves_with_path(values):
            if isinstance(x, jax.Array) and x.is_deleted():
                raise Failure(f"donating the state that reset returned deletes {tree.path_name(path)} of {what}")


def _delete(values: Tree) -> None:
    for x in jax.tree.leaves(values):
        if isinstance(x, jax.Array):
            x.delete()


def unroll_in_halves(subject: Subject) -> None:
    """An unroll of T steps equals two of T / 2."""
    env, half = subject.stack, 4
    policy = random_policy(env)

    def unrolled(env, state, timestep, num_steps):
        return unroll(env, policy, state, timestep, num_steps)

    compiled = jax.jit(unrolled, static_argnums=3)
    begun = steps((subject.rollout.states, subject.rollout.rows), 0)
    (*last, _), whole = compiled(env, *begun, 2 * half)
    (*middle, _), first = compiled(env, *begun, half)
    (*end, _), second = compiled(env, *middle, half)
    halves = jax.tree.map(lambda a, b: np.concatenate([a, b]), host(first), host(second))
    require_equal(whole, halves, "in one unroll and in two", tolerance=ROUNDING)
    require_equal(last, end, "after one unroll and after two", tolerance=ROUNDING, axes=("lane",))
