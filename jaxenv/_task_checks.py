"""Checks of what the methods of a task return, made while they are traced."""

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from jaxenv import specs, tree
from jaxenv._programs import programs_of
from jaxenv._reward import checked_reward
from jaxenv._structure import is_array, mismatch
from jaxenv.random import Stream
from jaxenv.tree import Tree

if TYPE_CHECKING:
    from jaxenv.environment import Environment
    from jaxenv.task import Task, Transition


def check_leading(task: "Environment", method: str, outputs: Tree, batch: tuple[int, ...]) -> None:
    """Raises a ``ValueError`` unless every array leads with the lanes."""
    for path, x in jax.tree_util.tree_leaves_with_path(outputs):
        if jnp.shape(x)[:1] != batch:
            raise ValueError(
                f"{task}.{method}: every array must lead with the {batch[0]} lanes, "
                f"{tree.path_name(path) or 'an output'} has shape {jnp.shape(x)}"
            )


def check_specs(task: "Task") -> None:
    """Raises a ``ValueError`` unless both specs are specs or trees of them."""
    for method in ("observation_spec", "action_spec"):
        found = getattr(task, method)()
        if found is None or not all(map(specs.is_spec, jax.tree.leaves(found))):
            rule = "must return a spec or a tree of specs, such as jaxenv.specs.discrete(2)"
            raise ValueError(f"{task}.{method}: {rule}, got {found!r}")


def check_transition(task: "Task", out: "Transition", batch: tuple[int, ...]) -> None:
    """Raises a ``ValueError`` unless reward, end and info lead with the lanes, in their shapes and kinds.

    An entry ``abnormal`` of the info must be bool ``[B]``, too.
    """
    given = {"reward": out.reward, "terminated": out.terminated, "env_info": out.env_info}
    check_leading(task, "transition", given, batch)
    checked_reward(f"{task}.transition", out.reward, batch)
    if jnp.result_type(out.terminated) != jnp.bool_:
        raise ValueError(f"{task}.transition: terminated must be bool, got {jnp.result_type(out.terminated)}")
    for name in ("final_observation", "time_limit_reached"):
        if name in out.env_info:
            raise ValueError(f"{task}.transition: env_info[{name!r}] is an entry of a wrapper, use another name")
    abnormal = out.env_info.get("abnormal")
    if abnormal is not None and (jnp.shape(abnormal), jnp.result_type(abnormal)) != (batch, jnp.bool_):
        found = f"{jnp.result_type(abnormal)}{list(jnp.shape(abnormal))}"
        raise ValueError(f"{task}.transition: env_info['abnormal'] must be bool{list(batch)}, got {found}")


def checked_state(task: "Task", old: Tree, new: Tree) -> Tree:
    """The new state without weak types; raises a ``ValueError`` if structure, a shape or a dtype has changed."""
    if (fault := mismatch(old, new, "state")) is not None:
        raise ValueError(f"{task}.transition: {fault}, as initial made it")
    new = tree.strong(new)
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(old), jax.tree.leaves(new), strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise ValueError(
                f"{task}.transition: state leaf {tree.path_name(path) or 'state'} must stay {a.dtype}{list(a.shape)} "
                f"as initial made it, got {b.dtype}{list(b.shape)}"
            )
    return new


def cast_observation(task: "Task", spec: Tree, observation: Tree, num_lanes: int) -> Tree:
    """The observation in the spec's dtypes; raises a ``ValueError`` for another structure or shape, or lost fractions.

    Flags may become integers and both may become floats, but not the other way round: an image from 0 to 1 would be
    black as uint8.
    """
    if (fault := mismatch(spec, observation, "observation")) is not None:
        raise ValueError(f"{task}.observe: {fault}, as in observation_spec")

    def cast(path: tuple[Any, ...], s: specs.Array, x: jax.Array) -> jax.Array:
        if jnp.shape(x) != (num_lanes, *s.shape):
            raise ValueError(
                f"{task}.observe: {tree.path_name(path) or 'observation'} must have shape {(num_lanes, *s.shape)}, "
                f"the lanes and the shape of {s}, got {jnp.shape(x)}"
            )
        if _rank(jnp.result_type(x)) > _rank(s.dtype):
            raise ValueError(
                f"{task}.observe: {tree.path_name(path) or 'observation'} must not be {jnp.result_type(x)}, which "
                f"{s} cannot hold: round it with jnp.round, scale it, or convert it with astype"
            )
        return jax.lax.convert_element_type(x, s.dtype)

    return jax.tree_util.tree_map_with_path(cast, spec, observation)


def _rank(dtype: Any) -> int:
    """Flags 0, integers 1, floats 2."""
    return int(dtype != jnp.bool_) + int(jnp.issubdtype(dtype, jnp.inexact))


def transition_shapes(task: "Task", state: Tree, batch: tuple[int, ...]) -> "Transition":
    """Shapes of what ``transition`` returns. They are cached, so that a reset does not trace it again."""
    leaves, structure = tree.flatten((tree.flatten(task)[0], state))
    leaves = [jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in leaves]
    programs = programs_of(task)
    key = ("transition_shapes", structure, tuple(leaves), batch, jax.config.read("jax_enable_x64"))
    own, state = structure.unflatten(leaves)
    return programs.result(key, lambda: _transition_shapes(programs.structure, own, state, batch))


def _transition_shapes(structure: Any, leaves: list[Any], state: Tree, batch: tuple[int, ...]) -> "Transition":
    task = structure.unflatten(leaves)
    check_specs(task)
    word = jax.ShapeDtypeStruct(batch, jnp.uint32)
    action = jax.tree.map(lambda s: jax.ShapeDtypeStruct((*batch, *s.shape), s.dtype), task.action_spec())

    def checked(leaves: list[jax.Array], state: Tree, action: Tree, stream: Stream) -> "Transition":
        task = structure.unflatten(leaves)
        out = task.transition(state, action, stream)
        if not hasattr(out, "terminated"):
            raise ValueError(f"{task}.transition: must return a jaxenv.Transition, got {type(out).__name__}")
        for name in ("reward", "terminated"):
            if not is_array(getattr(out, name)):
                raise ValueError(f"{task}.transition: {name} must be an array, got {getattr(out, name)!r}")
        if not isinstance(out.env_info, dict):
            raise ValueError(f"{task}.transition: env_info must be a dict, got {type(out.env_info).__name__}")
        check_arrays(task, "transition", "state", out.state)
        check_arrays(task, "transition", "env_info", out.env_info)
        check_transition(task, out, batch)
        return dataclasses.replace(out, state=())

    return jax.eval_shape(checked, leaves, state, action, Stream(word, word, word, word))


def check_arrays(task: "Task | str", method: str, name: str, values: Tree) -> None:
    """Raises a ``ValueError`` if a leaf is not an array, such as an object of a class that is not a pytree."""
    if values is None:
        raise ValueError(f"{task}.{method}: {name} must be a tree of arrays, got None")
    for path, x in tree.flatten_with_path(values)[0]:
        if not is_array(x):
            where, kind = f"{name}.{tree.path_name(path)}".rstrip("."), type(x).__name__
            hint = f": declare {kind} with @jaxenv.tree.struct" if dataclasses.is_dataclass(x) else ""
            raise ValueError(f"{task}.{method}: {where} must be a tree of arrays, got an object of class {kind}{hint}")
