"""Checks at the boundary of an environment: states passed back to it, and results of a task's methods.

``step`` is the innermost call of every loop, so it does not compare its state with a reset's. With a wrong state it
fails somewhere, and the reason is determined only then. Loops check once, before they start. The outputs of a task are
checked while they are traced.
"""

import dataclasses
import reprlib
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import INT32_MAX, Range, check_arrays
from jaxenv._util.programs import programs_of
from jaxenv.core._reward import checked_reward
from jaxenv.core.timestep import TimeStep
from jaxenv.random import Stream, note_on_streams
from jaxenv.tree import Tree
from jaxenv.tree._structure import is_array, mismatch, type_mismatch

if TYPE_CHECKING:
    from jaxenv.core.environment import Environment
    from jaxenv.core.task import Task, Transition


class explained:
    """A context for a call with a state: if the call fails because of a wrong state, the error says so.

    A class, since ``step`` enters it on every call: a generator would cost three times as much.

    Args:
        call: the name of the function or method, with which the error starts.
        env: the environment.
        start: a state, or a state and its timestep; empty if the call takes neither.
        arguments: the other arguments of the call, which must be trees of arrays.
    """

    __slots__ = ("_arguments", "_call", "_env", "_start")

    def __init__(self, call: str, env: "Environment", *start: Tree, **arguments: Tree):
        self._call, self._env, self._start, self._arguments = call, env, start, arguments

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: type[Any] | None, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, Exception):
            if self._start and (fault := start_fault(self._env, *self._start)) is not None:
                raise ValueError(f"{self._call}: {fault}") from None
            note_on_streams(error)
            for name, value in self._arguments.items():
                check_arrays(self._call, name, value)


def start_fault(env: "Environment", *start: Tree) -> str | None:
    """Returns the rule that a state, or a state and its timestep, break in ``env``; ``None`` if there is none."""
    try:
        expected = env.start_shapes()
    except Exception:  # the environment itself fails, and its methods raise that error
        return None
    if (fault := difference(env, expected, *start)) is not None:
        return fault
    try:
        env.check_lanes(env.clock(start[0]).env_id.shape[0])
    except ValueError as error:
        return str(error)
    return None


def difference(env: "Environment", expected: tuple[Tree, TimeStep], *start: Tree) -> str | None:
    """Compares a state, or a state and its timestep, with the ``expected`` ones or their shapes; returns the fault."""
    lanes = None
    for name, own, given in zip(("state", "timestep"), expected, start, strict=False):
        if (found := mismatch(own, given, name)) is not None:
            return f"{found}: pass the {name} that {env} returned"
        for where, shape, x in leaves_with_names(name, own, given):
            if jnp.shape(x) == shape.shape[1:]:
                rule = f"{where} must lead with the lanes, got shape {jnp.shape(x)}"
                return f"{env} takes whole batches, without vmap: {rule}"
            if (jnp.shape(x)[1:], jnp.result_type(x)) != (shape.shape[1:], shape.dtype):
                kind = f"{shape.dtype}[{', '.join(['lanes', *map(str, shape.shape[1:])])}]"
                found = f"{jnp.result_type(x)}{list(jnp.shape(x))}"
                return f"{where} must be {kind}, got {found}: pass the {name} that {env} returned"
            lanes = lanes or jnp.shape(x)[0]
            if jnp.shape(x)[0] != lanes:
                return f"{where} must have {lanes} lanes, as the other arrays, got {jnp.shape(x)[0]}"
    return None


def leaves_with_names(name: str, own: Tree, given: Tree) -> Iterator[tuple[str, Any, Any]]:
    """Yields name, expected and given leaf of every array with lanes, in two trees of one structure."""
    nodes = (jax.tree_util.tree_leaves_with_path(t, is_leaf=tree.is_shared) for t in (own, given))
    for (path, shape), (_, x) in zip(*nodes, strict=True):
        if not tree.is_shared(shape):
            yield f"{name}.{tree.path_name(path)}".rstrip("."), shape, x


def lane_numbers(env_id: Any) -> jax.Array:
    """Returns lane numbers as int32 ``[B]``; raises a ``ValueError`` for anything else. Tracers are not read."""
    if not isinstance(env_id, jax.core.Tracer):
        values = np.asarray(env_id)
        if values.dtype.kind not in "iu":
            hint = ": params belong to the environment, env.with_params(...)" if is_dataclass(env_id) else ""
            raise ValueError(f"reset: env_id must be integers, got {reprlib.repr(env_id)}{hint}")
        Range(low=0, high=INT32_MAX).check("reset", "env_id", values, values.ndim)
        if len(np.unique(values)) < values.size:
            raise ValueError(f"reset: env_id must name each lane once, got {values.tolist()}")
    lanes = jnp.asarray(env_id)
    if lanes.ndim != 1 or not jnp.issubdtype(lanes.dtype, jnp.integer):
        raise ValueError(f"reset: env_id must be integers [B], got {lanes.dtype}{list(lanes.shape)}")
    return lanes.astype(jnp.int32)


def check_leading(task: "Environment", method: str, outputs: Tree, batch: tuple[int, ...]) -> None:
    """Raises a ``ValueError`` unless every array leads with the lanes."""
    for path, x in jax.tree_util.tree_leaves_with_path(outputs):
        if jnp.shape(x)[:1] != batch:
            raise ValueError(
                f"{task}.{method}: every array must lead with the {batch[0]} lanes, "
                f"{tree.path_name(path) or 'an output'} has shape {jnp.shape(x)}"
            )


def check_specs(task: "Task") -> None:
    """Raises a ``ValueError`` unless both specs are specs or trees of them, which lead with agents that act at once."""
    for method in ("observation_spec", "action_spec"):
        found = getattr(task, method)()
        if found is None or not all(map(specs.is_spec, jax.tree.leaves(found))):
            rule = "must return a spec or a tree of specs, such as jaxenv.specs.discrete(2)"
            raise ValueError(f"{task}.{method}: {rule}, got {found!r}")
        if task.num_agents > 1 and not task.turns:
            for spec in jax.tree.leaves(found):
                if spec.shape[:1] != (task.num_agents,):
                    rule = f"every shape must lead with the {task.num_agents} agents ({', '.join(task.agent_names)})"
                    raise ValueError(f"{task}.{method}: {rule}, got {spec!r}")


def check_transition(task: "Task", out: "Transition", batch: tuple[int, ...]) -> None:
    """Raises a ``ValueError`` unless reward, end and info lead with the lanes, in their shapes and kinds.

    An entry ``abnormal`` of the info must be bool ``[B]``, too.
    """
    given = {"reward": out.reward, "terminated": out.terminated, "env_info": out.env_info}
    check_leading(task, "transition", given, batch)
    checked_reward(f"{task}.transition", out.reward, batch)
    if (jnp.shape(out.terminated), jnp.result_type(out.terminated)) != (batch, jnp.bool_):
        found = f"{jnp.result_type(out.terminated)}{list(jnp.shape(out.terminated))}"
        hint = ": the episode of a lane ends for all of its agents" if task.num_agents > 1 else ""
        raise ValueError(f"{task}.transition: terminated must be bool{list(batch)}, got {found}{hint}")
    for name in ("final_observation", "time_limit_reached"):
        if name in out.env_info:
            raise ValueError(f"{task}.transition: env_info[{name!r}] is an entry of a wrapper, use another name")
    abnormal = out.env_info.get("abnormal")
    if abnormal is not None and (jnp.shape(abnormal), jnp.result_type(abnormal)) != (batch, jnp.bool_):
        found = f"{jnp.result_type(abnormal)}{list(jnp.shape(abnormal))}"
        raise ValueError(f"{task}.transition: env_info['abnormal'] must be bool{list(batch)}, got {found}")


def check_agents(task: "Task", timestep: TimeStep) -> None:
    """Raises a ``ValueError`` unless the first rows of a task of several agents lead with ``[B, A]`` where they must.

    That is the reward and, if all agents act at once, the info. Games of turns name the player. `check_specs` checks
    observation and action.
    """
    count = f"{task.num_agents} agents ({', '.join(task.agent_names)})"
    if (shape := jnp.shape(timestep.reward)[1:]) != (task.num_agents,):
        raise ValueError(f"{task}.transition: the reward must have one column for each of {count}, got {list(shape)}")
    if task.turns:
        player = timestep.env_info.get("player")
        if player is None or (jnp.shape(player)[1:], jnp.result_type(player)) != ((), jnp.int32):
            found = "none" if player is None else f"{jnp.result_type(player)}{list(jnp.shape(player))}"
            rule = "with turns = True env_info['player'] must be int32 [B], the number of the agent to move"
            raise ValueError(f"{task}.state_info: {rule}, got {found}")
        return
    for path, x in jax.tree_util.tree_leaves_with_path(timestep.env_info):
        if jnp.shape(x)[1:2] != (task.num_agents,):
            rule = f"every array must lead with the lanes and {count}, {tree.path_name(path)} has shape {jnp.shape(x)}"
            raise ValueError(f"{task}.env_info: {rule}")


def checked_state(task: "Task", old: Tree, new: Tree) -> Tree:
    """Returns the new state without weak types; raises a ``ValueError`` if structure, a shape or a dtype changed."""
    if (fault := mismatch(old, new, "state")) is None:
        new = tree.strong(new)
        fault = type_mismatch(old, new, "state")
    if fault is not None:
        raise ValueError(f"{task}.transition: {fault}, as initial made it")
    return new


def cast_observation(task: "Task", spec: Tree, observation: Tree, num_lanes: int) -> Tree:
    """Casts the observation to the spec's dtypes; raises a ``ValueError`` for another structure or shape, or a loss.

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
    """Returns the shapes of a transition. They are cached, so that a reset does not trace again."""
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
        check_returned(task, "transition", "state", out.state)
        check_returned(task, "transition", "env_info", out.env_info)
        check_transition(task, out, batch)
        return dataclasses.replace(out, state=())

    return jax.eval_shape(checked, leaves, state, action, Stream(word, word, word, word))


def check_returned(task: "Task | str", method: str, name: str, values: Tree) -> None:
    """Raises a ``ValueError`` if a leaf is not an array, such as an object of a class that is not a pytree."""
    if values is None:
        raise ValueError(f"{task}.{method}: {name} must be a tree of arrays, got None")
    for path, x in tree.flatten_with_path(values)[0]:
        if not is_array(x):
            where, kind = f"{name}.{tree.path_name(path)}".rstrip("."), type(x).__name__
            hint = f": declare {kind} with @jaxenv.tree.struct" if dataclasses.is_dataclass(x) else ""
            raise ValueError(f"{task}.{method}: {where} must be a tree of arrays, got an object of class {kind}{hint}")
