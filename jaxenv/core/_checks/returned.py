"""Rules for what the methods of a task return, checked while they are traced."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import specs, tree
from jaxenv._util.checks import is_concrete
from jaxenv._util.names import did_you_mean
from jaxenv._util.programs import programs_of
from jaxenv.canvas import Canvas
from jaxenv.core._checks.rows import checked_reward
from jaxenv.core._declared import declared_leaves
from jaxenv.core.timestep import TimeStep
from jaxenv.random import Stream
from jaxenv.tree import Tree
from jaxenv.tree._structure import is_array, mismatch, type_mismatch


def check_names_of_params(task: Any, names: Iterable[str]) -> None:
    """Raises a ``ValueError`` for a name that no param of ``task`` has."""
    params = getattr(task, "params", None)
    valid = [f.name for f in dataclasses.fields(params)] if params is not None else []
    if unknown := sorted(set(names) - set(valid)):
        hint = did_you_mean(unknown[0], valid, otherwise=f"the params are {', '.join(valid) or '(none)'}")
        if unknown[0] in {f.name for f in dataclasses.fields(task)}:
            hint = "it is an option, which jaxenv.make sets"
        raise ValueError(f"{task}: no param {unknown[0]!r}, {hint}")


def check_values_per_lane(task: Any) -> None:
    """Raises a ``ValueError`` for a param with values for another number of lanes than ``num_envs``."""
    for d in declared_leaves(task):
        if d.per_lane and is_concrete(d.value) and d.value.shape[0] != task.num_envs:
            rule = f"one per lane would be num_envs = {task.num_envs}"
            raise ValueError(f"{task}: {d.path} has {d.value.shape[0]} values, {rule}")


def check_sampled(task: Any, level: Tree) -> None:
    """Raises a ``ValueError`` unless ``sample_level`` returned a ``Level``, or ``initial`` a state."""
    if task.Level is not None and not isinstance(level, task.Level):
        kinds = f"a {task.Level.__name__}, its Level, got a {type(level).__name__}"
        raise ValueError(f"{task}.sample_level: must return {kinds}")
    method, what = ("initial", "the state") if task.Level is None else ("sample_level", "the level")
    check_returned(task, method, what, level)


def check_entries_of_state(task: Any, of_transition: Mapping[str, Tree], of_state: Mapping[str, Tree]) -> None:
    """Raises a ``ValueError`` for an entry of ``state_info`` that belongs to a transition."""
    if both := of_transition.keys() & of_state.keys():
        raise ValueError(f"{task}: env_info entries {sorted(both)} come from transition and from state_info")
    if "abnormal" in of_state:
        raise ValueError(f"{task}.state_info: 'abnormal' describes a step, return it from transition")


def check_drawn(task: Any, drawn: Any) -> None:
    """Raises a ``ValueError`` unless ``draw`` returned a canvas."""
    if not isinstance(drawn, Canvas):
        rule = "draw must return the canvas, as every method of a canvas returns a new one"
        raise ValueError(f"{type(task).__name__}: {rule}, got {None if drawn is None else type(drawn).__name__}")


def check_leading(task: Any, method: str, outputs: Tree, batch: tuple[int, ...]) -> None:
    """Raises a ``ValueError`` unless the leading axis of every array is the lanes."""
    for path, x in jax.tree_util.tree_leaves_with_path(outputs):
        if jnp.shape(x)[:1] != batch:
            rule = f"every array must lead with the {batch[0]} lanes"
            raise ValueError(f"{task}.{method}: {rule}, {tree.path_name(path) or 'an output'} has shape {jnp.shape(x)}")


def check_specs(task: Any) -> None:
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


def check_transition(task: Any, out: Any, batch: tuple[int, ...]) -> None:
    """Raises a ``ValueError`` unless reward, end and info have a leading axis of lanes, and their shapes and kinds.

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
        rule = f"env_info['abnormal'] must be bool{list(batch)}"
        raise ValueError(f"{task}.transition: {rule}, got {jnp.result_type(abnormal)}{list(jnp.shape(abnormal))}")


def check_no_turns(owner: str, env: Any) -> None:
    """Raises a ``ValueError`` for a game of turns, whose last action was the other agent's."""
    if env.turns:
        rule = "env must not be a game of turns, whose last action is the other agent's"
        raise ValueError(f"{owner}: {rule}, {env} is one: put {owner} outside Opponent")


def check_no_autoreset(wrapper: Any, consequence: str) -> None:
    """Raises a ``ValueError`` if the lanes restart inside a wrapper, with the ``consequence`` of that."""
    if wrapper.autoreset is not None:
        name = type(wrapper).__name__
        raise ValueError(f"{name}: AutoReset inside {consequence}, put {name} inside AutoReset")


def check_agents(task: Any, timestep: TimeStep) -> None:
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


def checked_state(task: Any, old: Tree, new: Tree) -> Tree:
    """Returns the new state without weak types; raises a ``ValueError`` if structure, a shape or a dtype changed."""
    if (fault := mismatch(old, new, "state")) is None:
        new = tree.strong(new)
        fault = type_mismatch(old, new, "state")
    if fault is not None:
        raise ValueError(f"{task}.transition: {fault}, as initial made it")
    return new


def cast_observation(task: Any, spec: Tree, observation: Tree, num_lanes: int) -> Tree:
    """Casts the observation to the spec's dtypes; raises a ``ValueError`` for another structure or shape, or a loss.

    Flags may become integers and both may become floats, but not the other way round: an image from 0 to 1 would be
    black as uint8.
    """
    if (fault := mismatch(spec, observation, "observation")) is not None:
        raise ValueError(f"{task}.observe: {fault}, as in observation_spec")

    def cast(path: tuple[Any, ...], s: specs.Array, x: jax.Array) -> jax.Array:
        if jnp.shape(x) != (num_lanes, *s.shape):
            rule = f"{tree.path_name(path) or 'observation'} must have shape {(num_lanes, *s.shape)}"
            raise ValueError(f"{task}.observe: {rule}, the lanes and the shape of {s}, got {jnp.shape(x)}")
        if _rank(jnp.result_type(x)) > _rank(s.dtype):
            rule = f"{tree.path_name(path) or 'observation'} must not be {jnp.result_type(x)}, which {s} cannot hold"
            raise ValueError(f"{task}.observe: {rule}: round it with jnp.round, scale it, or convert it with astype")
        return jax.lax.convert_element_type(x, s.dtype)

    return jax.tree_util.tree_map_with_path(cast, spec, observation)


def _rank(dtype: Any) -> int:
    """Flags 0, integers 1, floats 2."""
    return int(dtype != jnp.bool_) + int(jnp.issubdtype(dtype, jnp.inexact))


def transition_shapes(task: Any, state: Tree, batch: tuple[int, ...]) -> Any:
    """Returns the shapes of a transition. They are cached, so that a reset does not trace again."""
    leaves, structure = jax.tree.flatten((jax.tree.flatten(task)[0], state))
    leaves = [jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in leaves]
    programs = programs_of(task)
    key = ("transition_shapes", structure, tuple(leaves), batch, jax.config.read("jax_enable_x64"))
    own, state = jax.tree.unflatten(structure, leaves)
    return programs.result(key, functools.partial(_transition_shapes, programs.structure, own, state, batch))


def _transition_shapes(structure: Any, leaves: list[Any], state: Tree, batch: tuple[int, ...]) -> Any:
    task = jax.tree.unflatten(structure, leaves)
    check_specs(task)
    word = jax.ShapeDtypeStruct(batch, jnp.uint32)
    action = jax.tree.map(lambda s: jax.ShapeDtypeStruct((*batch, *s.shape), s.dtype), task.action_spec())

    def checked(leaves: list[jax.Array], state: Tree, action: Tree, stream: Stream) -> Any:
        task = jax.tree.unflatten(structure, leaves)
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


def check_returned(task: Any, method: str, name: str, values: Tree) -> None:
    """Raises a ``ValueError`` if a leaf is not an array, such as an object of a class that is not a pytree."""
    if values is None:
        raise ValueError(f"{task}.{method}: {name} must be a tree of arrays, got None")
    for path, x in jax.tree.flatten_with_path(values)[0]:
        if not is_array(x):
            where, kind = tree.path_name(path, name), type(x).__name__
            hint = f": declare {kind} with @jaxenv.tree.struct" if dataclasses.is_dataclass(x) else ""
            raise ValueError(f"{task}.{method}: {where} must be a tree of arrays, got an object of class {kind}{hint}")
