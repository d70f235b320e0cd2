"""Trees, shapes, dtypes and imports. Most of these checks compile nothing."""

import pickle
from typing import Any

import jax
import numpy as np

from jaxenv import tree
from jaxenv.testing._compare import leaf_name, require_equal, to_numpy
from jaxenv.testing._programs import LANES, action_shapes, output_shapes, replay, require_rows_match_specs
from jaxenv.testing._subject import Subject
from jaxenv.testing.report import Failure, NotApplicable, described, require, require_applicable
from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import is_key


def same_tree(subject: Subject) -> None:
    """``reset`` and ``step`` return the same tree, shapes, dtypes and weak types, and so does every later step."""
    env, (of_reset, of_step) = subject.env, subject.shapes
    _require_same_types("reset", of_reset, "step", of_step)
    of_next_step = jax.eval_shape(lambda env, *args: env.step(*args), env, of_step[0], action_shapes(env))
    _require_same_types("step", of_step, "the next step", of_next_step)
    of_keys = jax.eval_shape(lambda env, keys: env.reset(keys), env, subject.keys[0])
    _require_same_types("reset with one key", of_reset, "reset with one key per lane", of_keys)


def _require_same_types(one: str, a: Tree, other: str, b: Tree) -> None:
    left, right = ({leaf_name(t, path): x for path, x in jax.tree_util.tree_leaves_with_path(t)} for t in (a, b))
    if missing := sorted(left.keys() ^ right.keys()):
        owner = one if missing[0] in left else other
        raise Failure(f"{one} and {other} return different trees: only {owner} has {missing[0]}")
    if tree.structure(a) != tree.structure(b):
        raise Failure(f"{one} and {other} return trees of different classes or static fields")
    for name, x in left.items():
        if _type(x) != _type(right[name]):
            raise Failure(f"{name} is {_type(x)} from {one} and {_type(right[name])} from {other}")


def _type(x: Any) -> str:
    return f"{'weak ' if getattr(x, 'weak_type', False) else ''}{x.dtype}{list(x.shape)}"


def leading_lanes(subject: Subject) -> None:
    """The first axis of every leaf of the state and the TimeStep is the lane axis, for any number of lanes.

    Leaves that all lanes share have the same shape for any number of lanes: state per lane would not restart there.
    """
    shared: dict[str, tuple[int, ...]] = {}
    for count in (LANES, LANES - 2):
        for method, output in zip(("reset", "step"), output_shapes(subject.with_lanes(count)), strict=True):
            for path, x in jax.tree_util.tree_leaves_with_path(output, is_leaf=lambda x: isinstance(x, tree.Shared)):
                name = leaf_name(output, path)
                if not isinstance(x, tree.Shared) and x.shape[:1] != (count,):
                    raise Failure(f"{method} of {count} lanes: {name} has shape {x.shape}")
                for number, leaf in enumerate(jax.tree.leaves(x) if isinstance(x, tree.Shared) else ()):
                    shape = shared.setdefault(f"{name} {number}", leaf.shape)
                    if shape != leaf.shape:
                        raise Failure(
                            f"{name}, shared by all lanes, has shape {shape} for {LANES} lanes and {leaf.shape} for "
                            f"{count}: state per lane belongs into init_lanes, which every episode restarts"
                        )


def rows_match_specs(subject: Subject) -> None:
    """The TimeStep has the structure, shapes and dtypes of ``time_step_spec``.

    ``step_type`` is int32, ``reward`` and ``discount`` are float32. The property ``within_specs`` covers bounds.
    """
    spec = subject.env.time_step_spec()
    for field, dtype in (("step_type", np.int32), ("reward", np.float32), ("discount", np.float32)):
        if getattr(spec, field).dtype != dtype:
            raise Failure(f"time_step_spec: {field} must be {np.dtype(dtype)}, got {getattr(spec, field).dtype}")
    require_rows_match_specs(subject.env)


def x64_invariant(subject: Subject) -> None:
    """``jax_enable_x64`` changes neither dtypes nor values."""
    narrow, rollout = subject.shapes, subject.rollout
    with jax.enable_x64(True):
        for method, a, b in zip(("reset", "step"), narrow, output_shapes(subject.env), strict=True):
            _require_same_types(method, a, f"{method} with x64", b)
        wide_rows = replay(subject.stack, rollout.before, rollout.actions)
    subject.same_steps(rollout.after, wide_rows, ("without x64", "with x64"))


def strict_promotion(subject: Subject) -> None:
    """``reset`` and ``step`` rely on no implicit promotion of dtypes or ranks."""
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        try:
            output_shapes(subject.with_lanes(LANES))
        except (TypeError, ValueError) as error:
            raise Failure(described(error)) from None


def state_round_trip(subject: Subject) -> None:
    """A state that was flattened and rebuilt, or pickled and loaded, continues with the same bits.

    Pickle cannot load an instance of a class that is defined inside a function.
    """
    env, before, actions = subject.stack, subject.rollout.before, subject.rollout.actions
    expected = replay(env, before, actions)
    leaves, structure = jax.tree.flatten(before)
    rebuilt = replay(env, jax.tree.unflatten(structure, leaves), actions)
    require_equal(expected, rebuilt, ("from the original state", "from the rebuilt state"), first_step=1)
    if any(is_key(x) for x in leaves):
        raise Failure("the state holds typed keys, which cannot be pickled; use the words of the key instead")
    try:
        copied = pickle.loads(pickle.dumps(to_numpy(before)))
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        if "<locals>" in str(error):
            raise NotApplicable(f"the class of the state is defined inside a function: {error}") from None
        raise Failure(f"the state cannot be pickled: {error}") from None
    loaded = replay(env, copied, actions)
    require_equal(expected, loaded, ("from the original state", "from the pickled state"), first_step=1)


_HEAVY = ("gymnasium", "gym", "gymnax", "brax", "matplotlib", "pygame", "flax", "optax", "IPython")


def light_import(subject: Subject) -> str:
    """Importing the modules of the stack starts no backend and loads no plotting, gym or learning library."""
    names, reply = subject.modules, subject.other_process
    require_applicable(names, "the environment is defined in a script or notebook")
    if reply.import_error:
        unknown = (f"No module named '{x}'" for name in names for x in (name, name.partition(".")[0]))
        if any(text in reply.import_error for text in unknown):
            raise NotApplicable(f"another process cannot import it: {reply.import_error}")
        raise Failure(f"importing {', '.join(names)} fails: {reply.import_error}")
    require_applicable(reply.imported, reply.not_run)
    require(not reply.started, f"importing {', '.join(names)} starts a backend: a module creates an array on import")
    if heavy := sorted(set(_HEAVY) & set(reply.imported)):
        raise Failure(f"importing {', '.join(names)} imports {heavy[0]}")
    return ", ".join(names)
