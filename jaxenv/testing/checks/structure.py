"""What reset and step return: trees, shapes, dtypes. Most of it is looked at without computing anything."""

import importlib.util
import os
import pickle
import subprocess
import sys
from typing import Any

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv.environment import Environment
from jaxenv.testing.compare import ROUNDING, host, is_key, leaf_name, require_equal
from jaxenv.testing.report import Failure, NotApplicable
from jaxenv.testing.subject import LANES, Subject, action_shapes, replay, shapes
from jaxenv.tree import Tree
from jaxenv.wrapper import layers


def same_tree(subject: Subject) -> None:
    """What step returns has tree, shapes, dtypes and weak types of what reset returned, and so on from there."""
    env = subject.given
    first, later = shapes(env)
    _require_same_types("reset", first, "step", later)
    again = jax.eval_shape(lambda env, *given: env.step(*given), env, later[0], action_shapes(env))
    _require_same_types("step", later, "the step after it", again)
    keys = jax.eval_shape(lambda env, keys: env.reset(keys), env, subject.keys[0])
    _require_same_types("reset by one key", first, "reset by a key per lane", keys)


def _require_same_types(one: str, a: Tree, other: str, b: Tree) -> None:
    left, right = ({leaf_name(t, path): x for path, x in jax.tree_util.tree_leaves_with_path(t)} for t in (a, b))
    if missing := sorted(left.keys() ^ right.keys()):
        owner = one if missing[0] in left else other
        raise Failure(f"{one} and {other} return different trees: only {owner} has {missing[0]}")
    if tree.structure(a) != tree.structure(b):
        raise Failure(f"{one} and {other} return trees of different classes or static fields")
    for name, x in left.items():
        if _kind(x) != _kind(right[name]):
            raise Failure(f"{name} is {_kind(x)} from {one} and {_kind(right[name])} from {other}")


def _kind(x: Any) -> str:
    return f"{'weak ' if getattr(x, 'weak_type', False) else ''}{x.dtype}{list(x.shape)}"


def leading_lanes(subject: Subject) -> None:
    """Every leaf of state and TimeStep leads with the lanes, whatever their number."""
    for count in (LANES, LANES - 2):
        env = subject.of_lanes(count)
        for method, returned in zip(("reset", "step"), shapes(env), strict=True):
            found = jax.tree_util.tree_leaves_with_path(returned, is_leaf=lambda x: isinstance(x, tree.Shared))
            for path, x in found:
                if not isinstance(x, tree.Shared) and x.shape[:1] != (count,):
                    raise Failure(f"{method} of {count} lanes: {leaf_name(returned, path)} has shape {x.shape}")


def rows_match_specs(subject: Subject) -> None:
    """The TimeStep has structure, shapes and dtypes of ``time_step_spec``; step_type int32, reward, discount float32.

    Property ``within_specs`` checks the bounds, on all rows of a rollout.
    """
    env = subject.given
    spec = env.time_step_spec()
    for field, dtype in (("step_type", np.int32), ("reward", np.float32), ("discount", np.float32)):
        if getattr(spec, field).dtype != dtype:
            raise Failure(f"time_step_spec: {field} is {getattr(spec, field).dtype}, it must be {np.dtype(dtype)}")
    require_rows_of_spec(env, "")


def require_rows_of_spec(env: Environment, of: str) -> None:
    """Raises a `Failure` unless the rows of an environment have structure, shapes and dtypes of ``time_step_spec``."""
    spec = specs.unbatched(specs.batched(env.time_step_spec(), 0))  # without bounds
    for method, (_, timestep) in zip(("reset", "step"), shapes(env), strict=True):
        try:
            specs.validate(spec, timestep, LANES)
        except ValueError as fault:
            raise Failure(f"{method}{of}: {fault}") from None


def x64_invariant(subject: Subject) -> None:
    """``jax_enable_x64`` changes neither dtypes nor numbers."""
    narrow, made = shapes(subject.given), subject.rollout
    with jax.enable_x64(True):
        wide = shapes(subject.given)
        for method, a, b in zip(("reset", "step"), narrow, wide, strict=True):
            _require_same_types(method, a, f"{method} under x64", b)
        given = host(replay(subject.stack, made.before, made.actions))
    require_equal(made.after, given, "as usual and under x64", tolerance=ROUNDING, first_step=1)


def strict_promotion(subject: Subject) -> None:
    """Reset and step mix neither dtypes nor ranks by implicit promotion, which hides mistakes."""
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        try:
            shapes(subject.of_lanes(LANES))
        except (TypeError, ValueError) as fault:
            raise Failure(str(fault)) from None


def cond_compatible(subject: Subject) -> None:
    """``lax.cond`` may choose between what reset and what step returned."""

    def choose(env, key, action, flag):
        start = env.reset(key)
        return jax.lax.cond(flag, lambda: env.step(start[0], action), lambda: start)

    env = subject.given
    try:
        jax.eval_shape(choose, env, subject.key, action_shapes(env), np.True_)
    except TypeError as fault:
        raise Failure(f"lax.cond refuses: {fault}") from None


def state_round_trip(subject: Subject) -> None:
    """A state that was flattened, or pickled and read again, continues to the same bits."""
    made = subject.rollout
    before, actions = made.before, made.actions
    wanted = replay(subject.stack, before, actions)
    leaves, structure = tree.flatten(before)
    require_equal(
        wanted, replay(subject.stack, structure.unflatten(leaves), actions), "as it was and unflattened", first_step=1
    )
    if any(is_key(x) for x in leaves):
        raise Failure("the state holds typed keys, which cannot be pickled: carry plain words")
    read = pickle.loads(pickle.dumps(host(before)))
    require_equal(wanted, replay(subject.stack, read, actions), "as it was and read from a file", first_step=1)


_HEAVY = ("gymnasium", "gym", "gymnax", "brax", "matplotlib", "pygame", "flax", "optax", "IPython")
_IMPORTED = """
import sys
from importlib import import_module
for name in sys.argv[1:]:
    import_module(name)
from jax._src import xla_bridge
print("started" if xla_bridge.backends_are_initialized() else "idle", *sys.modules)
"""


def light_import(subject: Subject) -> str:
    """Importing the modules of the stack starts no backend and pulls in no plotting, gym or learning library."""
    names = sorted({type(layer).__module__ for layer in layers(subject.env)} - {"__main__"})
    names = [name for name in names if importlib.util.find_spec(name) is not None]
    if not names:
        raise NotApplicable("it was written in a script or notebook")
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    command = [sys.executable, "-c", _IMPORTED, *names]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    if done.returncode:
        fault = done.stderr.strip().splitlines()[-1]
        unknown = (f"No module named '{x}'" for name in names for x in (name, name.partition(".")[0]))
        if any(text in fault for text in unknown):
            raise NotApplicable(f"another process cannot import it: {fault}")
        raise Failure(f"importing {', '.join(names)} fails: {fault}")
    state, *modules = done.stdout.splitlines()[-1].split()  # what the modules print themselves aside
    if state == "started":
        raise Failure(f"importing {', '.join(names)} starts a backend: an array is made at import")
    if heavy := sorted(set(_HEAVY) & set(modules)):
        raise Failure(f"importing {', '.join(names)} imports {heavy[0]}")
    return ", ".join(names)
