"""JAX transformations: jit, scan, vmap, loops and donation."""

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs
from jaxenv.core._compiled import one_by_one
from jaxenv.core._declared import Declared, map_declared
from jaxenv.core.environment import Environment
from jaxenv.testing._compare import leaf_name, stack, take_steps, to_numpy
from jaxenv.testing._programs import (
    action_shapes,
    equations,
    lane_numbers,
    quick_options,
    replay,
    replayed,
    start,
    step,
)
from jaxenv.testing._stacks import LANES, MANY_LANES
from jaxenv.testing._subject import Subject
from jaxenv.testing.report import Failure
from jaxenv.tree import Tree


def jit_equals_eager(subject: Subject) -> None:
    """Compiled ``reset`` and ``step`` return what they return eagerly."""
    eager, labels = subject.eager, ("eagerly", "under jit")
    compiled = subject.seeded_start
    subject.same_starts(eager.resets[0], compiled, labels, context="reset")
    compiled = step(eager.env, *eager.given)
    subject.same_starts(eager.steps[0], compiled, labels, context="step")


def one_trace(subject: Subject) -> None:
    """One reset and three steps trace each function once. New params trace nothing, another B traces once more."""
    counts: Counter[str] = Counter()

    def counted(method: str) -> Any:
        def traced(env: Environment, *args: Any) -> Any:
            counts[method] += 1
            return getattr(env, method)(*args)

        return jax.jit(traced)

    def require(expected: int, after: str) -> None:
        for method in ("reset", "step"):
            if counts[method] != expected:
                raise Failure(f"{method} was traced {counts[method]} times after {after}, expected {expected}")

    reset, advance, env = counted("reset"), counted("step"), subject.env
    action = action_shapes(env)
    state, _ = reset.trace(env, subject.key).out_info
    for _ in range(3):
        state, _ = advance.trace(env, state, action).out_info
    require(1, "one reset and three steps")
    for name, changed in _with_other_params(env):
        advance.trace(changed, state, action)
        require(1, f"a new value of {name}")
    for count in (MANY_LANES, MANY_LANES):
        other = subject.with_lanes(count)
        later, _ = reset.trace(other, subject.key).out_info
        advance.trace(other, later, action_shapes(other))
        require(2, f"{count} lanes following {LANES}")


def _with_other_params(env: Any) -> Iterator[tuple[str, Any]]:
    """The environment with another value of one float param, for each of them."""
    params = getattr(env.unwrapped, "params", None)
    for field in dataclasses.fields(params) if dataclasses.is_dataclass(params) else ():
        value = getattr(params, field.name)
        if not (isinstance(value, float) or jnp.issubdtype(jnp.result_type(value), jnp.floating)):
            continue
        for factor in (0.99, 1.01):
            with contextlib.suppress(ValueError):  # the value is out of its range
                yield field.name, env.with_params(**{field.name: np.asarray(value) * np.float32(factor)})
                break


def scan_equals_loop(subject: Subject) -> None:
    """Steps inside a scan equal single compiled steps from the same states."""
    env, rollout = subject.stack, subject.rollout
    looped = [step(env, *take_steps((rollout.before, rollout.actions), t)) for t in range(subject.num_steps)]
    expected = stack([to_numpy(after) for after in looped])
    subject.same_steps(expected, rollout.after, ("in a loop", "in a scan"))


def no_callback(subject: Subject) -> None:
    """Compiled code neither calls Python nor transfers data between devices."""

    def reset_and_step(env: Environment, key: jax.Array, action: Tree) -> Any:
        return env.step(env.reset(key)[0], action)

    env = subject.env
    jaxpr = jax.make_jaxpr(reset_and_step)(env, subject.key, specs.zeros(env.action_spec(), (LANES,)))
    for equation in equations(jaxpr.jaxpr):
        name = equation.primitive.name
        if _transfers(equation) or any(word in name for word in ("callback", "print", "infeed", "outfeed")):
            raise Failure(f"the compiled step contains {name}")


def _transfers(equation: Any) -> bool:
    """Returns whether ``device_put`` names a sharding or a memory; compiled code ignores the name of a device."""
    to = equation.params["devices"] if equation.primitive.name == "device_put" else ()
    return not all(place is None or isinstance(place, jax.Device) for place in to)


def vmap_equals_loop(subject: Subject) -> None:
    """``vmap`` over two rollouts with different keys and params equals the two separate rollouts."""
    rollouts, labels = (subject.rollout, subject.other_rollout), ("alone", "under vmap")
    envs = (subject.stack, map_declared(_lower_float, subject.stack))

    def start_and_step(env: Environment, keys: jax.Array, states: Tree, actions: Tree) -> Any:
        return env.reset(keys, jnp.asarray(lane_numbers(LANES))), replayed(env, states, actions)

    inputs = (envs, subject.keys, [rollout.before for rollout in rollouts], subject.actions)
    both = jax.jit(jax.vmap(start_and_step), compiler_options=quick_options())(*map(stack, inputs))
    for i, (env, rollout) in enumerate(zip(envs, rollouts, strict=True)):
        starts, steps = take_steps(to_numpy(both), i)
        expected = start(env, subject.keys[i], lane_numbers(LANES))
        subject.same_starts(expected, starts, labels, context="reset")
        expected = replay(env, rollout.before, rollout.actions)
        subject.same_steps(expected, steps, labels, context="step")


def _lower_float(d: Declared) -> Any:
    """Returns the value of a declared leaf; a float is lowered by one percent."""
    is_float = d.dtype is not None and np.asarray(d.value).dtype.kind == "f"
    return np.asarray(d.value) * np.float32(0.99) if is_float else d.value


def donation_safe(subject: Subject) -> None:
    """No array appears twice in the output of ``reset`` or ``step``, so that donating the state deletes nothing else.

    The check is eager, since compiled code never returns one array twice.
    """
    eager = subject.eager
    with one_by_one():
        alone = subject.env.reset(subject.key)
    for method, output in (("reset", alone), ("reset", eager.resets[0]), ("step", eager.steps[0])):
        seen: dict[int, str] = {}
        for path, x in jax.tree_util.tree_leaves_with_path(output):
            name = leaf_name(output, path)
            if id(x) in seen:
                raise Failure(f"{method}: {seen[id(x)]} and {name} are the same array")
            seen[id(x)] = name
