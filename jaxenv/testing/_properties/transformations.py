"""JAX transformations: jit, scan, vmap, donation, gradients, and lanes sharded over devices."""

import contextlib
import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxenv import specs, tree
from jaxenv._util.programs import equations
from jaxenv.core._compiled import one_by_one
from jaxenv.core._declared import Declared, map_declared
from jaxenv.core.environment import Environment
from jaxenv.core.lanes import partition_specs
from jaxenv.core.task import Task
from jaxenv.core.timestep import TimeStep
from jaxenv.testing._compare import (
    first,
    leaf_name,
    require_equal,
    require_finite,
    require_nowhere,
    stack,
    take_lanes,
    take_steps,
    to_numpy,
)
from jaxenv.testing._programs import (
    LANES,
    MANY_LANES,
    action_shapes,
    quick,
    quick_options,
    replay,
    replayed,
    start,
    step,
    with_autoreset,
)
from jaxenv.testing._subject import Subject
from jaxenv.testing.report import Failure, require, require_applicable
from jaxenv.tree import Tree


def jit_equals_eager(subject: Subject) -> None:
    """Compiled ``reset`` and ``step`` return what they return eagerly."""
    eager, labels = subject.eager, ("eagerly", "under jit")
    subject.same_starts(eager.resets[0], subject.seeded_start, labels, context="reset")
    subject.same_starts(eager.steps[0], step(subject.stack, *eager.given), labels, context="step")


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
    subject.same_steps(stack(list(map(to_numpy, looped))), rollout.after, ("in a loop", "in a scan"))


def no_callback(subject: Subject) -> None:
    """Compiled code neither calls Python nor transfers data between devices."""
    env, action = subject.env, specs.zeros(subject.env.action_spec(), (LANES,))
    jaxpr = jax.make_jaxpr(lambda env, key, action: env.step(env.reset(key)[0], action))(env, subject.key, action)
    for equation in equations(jaxpr.jaxpr):
        name = equation.primitive.name
        # A transfer names a sharding or a memory; compiled code ignores the name of a device.
        to = equation.params["devices"] if name == "device_put" else ()
        transfers = not all(place is None or isinstance(place, jax.Device) for place in to)
        if transfers or any(word in name for word in ("callback", "print", "infeed", "outfeed")):
            raise Failure(f"the compiled step contains {name}")


def vmap_equals_loop(subject: Subject) -> None:
    """``vmap`` over two rollouts with different keys and params equals the two separate rollouts."""

    def lowered(d: Declared) -> Any:
        is_float = d.dtype is not None and np.asarray(d.value).dtype.kind == "f"
        return np.asarray(d.value) * np.float32(0.99) if is_float else d.value

    rollouts, labels = (subject.rollout, subject.other_rollout), ("alone", "under vmap")
    envs = (subject.stack, map_declared(lowered, subject.stack))

    def start_and_step(env: Environment, keys: jax.Array, states: Tree, actions: Tree) -> Any:
        return env.reset(keys, jnp.arange(LANES, dtype=jnp.int32)), replayed(env, states, actions)

    inputs = (envs, subject.keys, [rollout.before for rollout in rollouts], subject.actions)
    both = jax.jit(jax.vmap(start_and_step), compiler_options=quick_options())(*map(stack, inputs))
    for i, (env, rollout) in enumerate(zip(envs, rollouts, strict=True)):
        starts, steps = take_steps(to_numpy(both), i)
        subject.same_starts(start(env, subject.keys[i]), starts, labels, context="reset")
        subject.same_steps(replay(env, rollout.before, rollout.actions), steps, labels, context="step")


def donation_safe(subject: Subject) -> None:
    """No array appears twice in the output of ``reset`` or ``step``, so that donating the state deletes nothing else.

    The check is eager, since compiled code never returns one array twice.
    """
    with one_by_one():
        alone = subject.env.reset(subject.key)
    for method, output in (("reset", alone), ("reset", subject.eager.resets[0]), ("step", subject.eager.steps[0])):
        seen: dict[int, str] = {}
        for path, x in jax.tree_util.tree_leaves_with_path(output):
            name = leaf_name(output, path)
            if id(x) in seen:
                raise Failure(f"{method}: {seen[id(x)]} and {name} are the same array")
            seen[id(x)] = name


# Central differences in float32: their step, their tolerance, and the fraction that must agree (kinks do not).
_DIFFERENCE_STEP, _DIFFERENCE_TOLERANCE, _MIN_AGREEMENT = 1e-2, 2e-2, 0.9


def gradients_sound(subject: Subject) -> str:
    """Gradients of rewards and observations are finite and stop at restarts.

    They are taken with respect to params, state and continuous actions. All restart strategies give the same
    gradients. If the environment declares itself ``smooth``, they equal finite differences.
    """
    rollout, weights = subject.rollout, np.ones(subject.rollout.ends[1:].shape, np.float32)
    gradients = to_numpy(_gradients(subject.stack, rollout.start[0], rollout.actions, weights))
    require_finite(gradients, "gradient with respect to", axes=())
    if subject.lanes_are_independent:
        _require_cut_at_restarts(subject)
    other = "select" if subject.strategy == "compact" else "compact"
    # Single steps: over a rollout, rounding errors grow.
    expected = to_numpy(_step_gradients(subject.stack, rollout.before, rollout.actions))
    changed = with_autoreset(subject.stack, reset_strategy=other)
    env, *actual = to_numpy(_step_gradients(changed, rollout.before, rollout.actions))
    actual = (with_autoreset(env, reset_strategy=subject.auto_reset.reset_strategy), *actual)
    labels = (f"with {subject.strategy}", f"with {other}")
    require_equal(expected, actual, labels, context="gradients", tolerance=100 * subject.rounding, axes=())
    task = subject.original.unwrapped
    return _require_equal_differences(subject) if isinstance(task, Task) and task.smooth else "finite, cut at restarts"


def _require_cut_at_restarts(subject: Subject) -> None:
    rollout = subject.rollout
    episode = np.asarray(subject.stack.clock(rollout.states).episode)
    later = episode > episode[:1]
    if subject.stack.autoreset == "same_step":  # the row on which an episode starts has the reward of the previous one
        later[1:] &= later[:-1]
    require(later.any(), "no lane started a second episode, the check needs one")
    weights = later[1:].astype(np.float32)
    _, state, actions = to_numpy(_gradients(subject.stack, rollout.start[0], rollout.actions, weights))
    _require_zero("the state", jax.tree.map(lambda x: x[None], state), np.ones_like(later[:1]))
    _require_zero("actions", actions, episode[:-1] == episode[:1])


def _require_zero(what: str, gradient: Tree, where: np.ndarray) -> None:
    """Raises a `Failure` at the first gradient ``[T, B, ...]`` that is not 0."""
    for path, x in jax.tree_util.tree_leaves_with_path(gradient):
        name = f"{what} {tree.path_name(path)}".rstrip()
        rule = f"rows after a restart have a gradient with respect to {name} before the restart,"
        require_nowhere(x != 0, rule, x, where=where)


def _floats(values: Tree) -> Tree:
    return jax.tree.map(lambda x: x if _is_float(x) else None, values)


def _is_float(x: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(x), jnp.inexact)


def _with_floats(floats: Tree, values: Tree) -> Tree:
    return jax.tree.map(lambda x, f: x if f is None else f, values, floats, is_leaf=lambda x: x is None)


def _gradient(function: Callable[..., jax.Array], *inputs: Any) -> Any:
    """Returns the gradient of a function with respect to all floats of its inputs; other leaves are None."""
    return jax.grad(lambda floats: function(*_with_floats(floats, inputs)))(_floats(inputs))


def _scalar(row: TimeStep) -> jax.Array:
    """Reduces a row to one float32 per lane that depends on the reward and on all float observations."""
    leaves = [x for x in jax.tree.leaves((row.reward, row.observation)) if _is_float(x) and x[0].size]
    return sum(jnp.mean(x.astype(jnp.float32).reshape(x.shape[0], -1), axis=1) for x in leaves)  # type: ignore[return-value]


@quick
def _gradients(env: Environment, state: Tree, actions: jax.Array, weights: jax.Array) -> Any:
    """Returns gradients (env, first state, actions) of a weighted sum over the rows ``[T, B, ...]`` of a rollout."""

    def weighted_sum(env: Environment, state: Tree, actions: Tree) -> jax.Array:
        def one_step(state: Tree, action: Tree) -> tuple[Any, jax.Array]:
            state, row = env.step(state, action)
            return state, _scalar(row)

        return jnp.sum(weights * jax.lax.scan(one_step, state, actions)[1])

    return _gradient(weighted_sum, env, state, actions)


@quick
def _step_gradients(env: Environment, states: Any, actions: Any) -> Any:
    """Returns gradients (env, states, actions) of the sum of all floats after one step from each of ``states``."""

    def total(*inputs: Any) -> Any:
        return sum(jnp.sum(x.astype(jnp.float32)) for x in filter(_is_float, jax.tree.leaves(replayed(*inputs))))

    return _gradient(total, env, states, actions)


def _scalars(env: Environment, floats: Any, inputs: Any) -> Any:
    """Returns `_scalar` of one step from each of the states ``[T, B, ...]``: float32 ``[T, B]``."""
    return jax.lax.map(lambda given: _scalar(env.step(*given)[1]), _with_floats(floats, inputs))


@quick
def _slopes(env: Environment, floats: Any, directions: Any, inputs: Any) -> Any:
    return jax.jvp(lambda floats: _scalars(env, floats, inputs), (floats,), (directions,))[1]


def _require_equal_differences(subject: Subject) -> str:
    # Only the task declares itself smooth; its wrappers need not be.
    env, generator = subject.stack.unwrapped, np.random.default_rng(0)
    inputs = (subject.state_of(env, subject.rollout.before), subject.actions_of(env))
    floats = _floats(inputs)
    require_applicable(jax.tree.leaves(floats), "neither the state nor the action has floats")
    directions = jax.tree.map(lambda x: generator.standard_normal(x.shape).astype(np.float32), floats)
    steps = np.array([-_DIFFERENCE_STEP, _DIFFERENCE_STEP], np.float32)
    moved = [jax.tree.map(lambda x, d, s=s: x + s * d, floats, directions) for s in steps]
    low, high = (np.asarray(quick(_scalars)(env, f, inputs)) for f in moved)
    difference = (high - low) / (2 * _DIFFERENCE_STEP)
    slope = np.asarray(_slopes(env, floats, directions, inputs))
    agree = np.abs(difference - slope) <= _DIFFERENCE_TOLERANCE * (1 + np.abs(slope))
    if agree.mean() < _MIN_AGREEMENT:
        at = first(~agree)
        raise Failure(
            f"{agree.mean():.0%} of the gradients equal finite differences; at step {at[0] + 1}, lane {at[1]} the "
            f"gradient is {slope[at]} and the difference is {difference[at]}"
        )
    return f"finite, cut at restarts, {agree.mean():.0%} equal finite differences"


_DEVICES = {"select": 2, "compact": 4}  # by restart strategy
_LANES = 8  # divisible by the numbers of devices
_COLLECTIVES = "all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter|collective-broadcast"


def sharding_invariant(subject: Subject) -> str:
    """Lanes sharded over several devices equal lanes on one device, and the step needs no cross-device communication.

    This holds for ``select`` under ``jit`` on 2 devices and for ``compact`` under ``shard_map`` on 4.
    """
    needed = max(_DEVICES.values())
    how = f"call jax.config.update('jax_num_cpu_devices', {needed}) before any computation"
    require_applicable(len(jax.devices()) >= needed, f"needs {needed} devices: {how}")
    rollout, index = subject.rollout, np.arange(_LANES) % LANES
    env = subject.take(index)
    inputs, expected = take_lanes((rollout.before, rollout.actions), index), take_lanes(rollout.after, index)
    for strategy, count in _DEVICES.items():
        mesh, chosen = Mesh(np.array(jax.devices()[:count]), ("lanes",)), with_autoreset(env, reset_strategy=strategy)
        steps, of_env = P(None, "lanes"), partition_specs(chosen)  # leaves per lane are sharded, others replicated
        sharded = jax.tree.map(lambda spec, m=mesh: NamedSharding(m, spec), (of_env, steps, steps))
        if strategy == "select":
            program = jax.jit(replayed, in_shardings=sharded, out_shardings=sharded[-1])
        else:
            program = jax.jit(jax.shard_map(replayed, mesh=mesh, in_specs=(of_env, steps, steps), out_specs=steps))
        placed = jax.device_put((chosen, *inputs), sharded)
        compiled = program.lower(*placed).compile(compiler_options=quick_options())
        if found := re.findall(_COLLECTIVES, compiled.as_text() or ""):
            hint = ": index an array of each lane under jax.vmap, not by the lanes" if "all-gather" in found else ""
            raise Failure(f"the step on {count} devices with {strategy} contains {found[0]}{hint}")
        labels = ("on one device", f"on {count} devices with {strategy}")
        subject.same_steps(expected, to_numpy(compiled(*placed)), labels)
    return " and ".join(map(str, _DEVICES.values())) + " devices"
