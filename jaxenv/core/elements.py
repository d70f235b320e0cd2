"""Environments composed of named elements: observations, actions, rewards and terminations around other dynamics.

An element is a pure function over the batch, with a spec where the result has bounds to declare. Small functions then
define the agent's observations, actions and rewards. Each is written, weighted and logged separately.
"""

import dataclasses
import functools
import inspect
import operator
from collections.abc import Callable, Mapping
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import is_concrete
from jaxenv.core._checks.actions import clip_discrete, conform
from jaxenv.core._declared import Declared, check_number
from jaxenv.core.facts import Facts
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.random import Stream
from jaxenv.tree import Tree

# The name of the dynamics' own termination among the elements.
_OWN = "env"


@dataclasses.dataclass(frozen=True)
class Element:
    """A description of one element, from `Composed.elements`.

    Attributes:
        name: group and name, unique in a composition: ``"rewards.upright"``.
        spec: the spec of one lane's value.
        weight: the factor of a reward, a number or float32 ``[B]``; ``None`` for other elements.
        details: the first line of the function's docstring, or the entry of ``env_info`` that the element stands for.
    """

    name: str
    spec: Tree
    weight: Any = None
    details: str = ""


def _of_dynamics(name: str) -> Any:
    """Returns a property that reads what the dynamics declare."""
    return property(operator.attrgetter(f"env.{name}"))


class Composed(Task):
    """The dynamics of one environment, with observations, actions, rewards and terminations made of named elements.

    States, random streams and params come from the dynamics. A group of elements replaces one side of the dynamics; an
    omitted group leaves it unchanged. Functions of a step take ``(state, action, out)``: the dynamics' state before the
    step, the action that the dynamics executed, and the resulting `Transition`, with the ``state`` after the step,
    ``reward``, ``terminated`` and ``env_info``. All arrays have a leading axis ``[B]``. The name of an entry of that
    ``env_info`` may replace such a function.

    ``env_info["rewards"]`` holds the weighted terms by name, float32 ``[B]``; the reward is their sum.
    ``env_info["terminations"]`` reports which terminations occurred, bool ``[B]``. ``elements`` lists all elements.
    If ``actions`` are given, an ``action_mask`` of the dynamics is dropped, because it describes actions that the agent
    does not choose from.

    Args:
        env: the environment that supplies the dynamics, without wrappers: those go around the composition.
        observations: dict of pairs ``(spec, fn)`` by name, where ``fn(state)`` observes the dynamics' state. The
            observation is a dict of the same names.
        actions: one pair ``(specs, fn)``: specs by name, and a function ``fn(state, action)`` that maps the dynamics'
            state and the agent's dict of actions to the dynamics' action. Discrete parts of its result are clipped to
            their bounds.
        rewards: dict of functions of a step by name. Each returns numbers ``[B]``; the reward of the dynamics is
            ``out.reward``.
        terminations: dict of functions of a step by name. Each returns bool ``[B]``; any of them ends the episode. The
            dynamics' own termination is included as ``"env"``, unless an element of that name replaces it.
        weights: dict of factors by name of the reward, one number or one per lane; 1 by default. They become one leaf,
            float32 ``[R]`` or ``[B, R]`` in alphabetical order, so that they can be traced and differentiated.

    Raises:
        ValueError: for an ``env`` with wrappers, an invalid element, an element whose result does not fit, or a weight
            without a reward; the message names the element.

    >>> import jax, jaxenv
    >>> env = Composed(
    ...     jaxenv.testing.Counting([3]),
    ...     rewards={"paid": lambda state, action, out: out.reward, "late": lambda state, action, out: out.state.step},
    ...     weights={"late": -0.5},
    ... )
    >>> state, timestep = env.step(env.reset(jax.random.key(0))[0], np.array([7]))
    >>> timestep.reward.tolist(), timestep.env_info["rewards"]["late"].tolist()
    ([6.5], [-0.5])
    """

    env: Any  # a `Task`, which `EnvSpec.make` is typed to return as an `Environment`
    observations: Any = tree.static(default=None)
    actions: Any = tree.static(default=None)
    rewards: Any = tree.static(default=None)
    terminations: Any = tree.static(default=None)
    weights: Any = tree.leaf(rank=1, default=None)

    num_envs: int = tree.static(init=False, default=1)

    def convert(self) -> dict[str, Any]:
        kind = type(self.env)
        if not isinstance(self.env, Task) or (kind.begin, kind.proceed) != (Task.begin, Task.proceed):
            rule = "env must be a Task that does not override begin or proceed (wrappers go around the composition)"
            raise ValueError(f"Composed: {rule}, got {self.env!r}")
        stored: dict[str, Any] = {"num_envs": self.env.num_envs, "name": self.name or self.env.name}
        for group, checked in _GROUPS.items():
            given = getattr(self, group)
            if given is not None and not isinstance(given, tree.Static):
                stored[group] = tree.Static(checked(given))
        if self.weights is None or isinstance(self.weights, Mapping):
            rewards = stored.get("rewards", self.rewards)
            names = () if rewards is None else tuple(rewards.value)
            stored["weights"] = _stacked(
                names, {**dict.fromkeys(names, 1.0), **(self.weights or {})}, self.env.num_envs
            )
        return stored

    def check(self) -> None:
        if np.shape(self.weights)[-1] != len(self._reward_names):
            rule = f"weights must be {len(self._reward_names)}, one per reward"
            raise ValueError(f"Composed: {rule}, got shape {np.shape(self.weights)}")
        self.start_shapes()  # traces the functions, which raises their errors here

    @property
    def elements(self) -> tuple[Element, ...]:
        """The elements by group, in alphabetical order within a group.

        An omitted group has no elements. Its side of the dynamics is not an element, except for the dynamics' own
        termination, which ``"terminations.env"`` includes.
        """
        found = []
        if self.observations is not None:
            found += [_element("observations", n, spec, fn) for n, (spec, fn) in self.observations.value.items()]
        if self.actions is not None:
            parts, fn = self.actions.value
            found += [_element("actions", name, spec, fn) for name, spec in parts.items()]
        for place, (name, fn) in enumerate(self.rewards.value.items() if self.rewards is not None else ()):
            found.append(_element("rewards", name, specs.Array((), np.float32, name), fn, self.weights[..., place]))
        if self.terminations is not None:
            ends = {_OWN: _own_termination, **self.terminations.value}
            found += [_element("terminations", n, specs.Array((), bool, n), ends[n]) for n in sorted(ends)]
        return tuple(found)

    @property
    def _reward_names(self) -> tuple[str, ...]:
        """The names of the rewards, in the order of the weights."""
        return () if self.rewards is None else tuple(self.rewards.value)

    # What the dynamics declare holds for the composition.
    Level, agent_names, turns, alternates = map(_of_dynamics, ("Level", "agent_names", "turns", "alternates"))
    reset_strategy, rounding, play_fps, opt_outs = map(
        _of_dynamics, ("reset_strategy", "rounding", "play_fps", "opt_outs")
    )
    sample_level, mutate_level, check_level = map(_of_dynamics, ("sample_level", "mutate_level", "check_level"))
    initial, initial_bounds, carry, draw = map(_of_dynamics, ("initial", "initial_bounds", "carry", "draw"))

    def transition(self, state: Tree, action: Tree, stream: Stream) -> Transition:
        if self.actions is not None:
            spec, mapped = self.env.action_spec(), self.actions.value[1](state, action)
            mapped = conform(spec, mapped, stream.shape[0], "Composed: the result of the function of actions")
            action = clip_discrete(spec, mapped)
        out = self.env.transition(state, action, stream)
        reward, terminated, logged = out.reward, out.terminated, {}
        if self.rewards is not None:
            found = _values("reward", self.rewards.value, state, action, out)
            terms = {
                name: self.weights[..., place] * jax.lax.convert_element_type(found[name], np.float32)
                for place, name in enumerate(self._reward_names)
            }
            reward, logged["rewards"] = functools.reduce(operator.add, terms.values()), terms
        if self.terminations is not None:
            ends = {_OWN: _own_termination, **self.terminations.value}
            logged["terminations"] = _values("termination", ends, state, action, out)
            terminated = functools.reduce(operator.or_, logged["terminations"].values())
        if taken := sorted(logged.keys() & out.env_info.keys()):
            raise ValueError(f"Composed: {self.env!r} already has an env_info entry {taken[0]!r}, which elements write")
        return Transition(out.state, reward, terminated, {**out.env_info, **logged})

    def observe(self, state: Tree) -> Tree:
        if self.observations is None:
            return self.env.observe(state)
        return {name: fn(state) for name, (_, fn) in self.observations.value.items()}

    def state_info(self, state: Tree) -> dict[str, Tree]:
        info = self.env.state_info(state)
        return {name: x for name, x in info.items() if self.actions is None or name != "action_mask"}

    def observation_spec(self) -> Tree:
        if self.observations is None:
            return self.env.observation_spec()
        return {name: spec for name, (spec, _) in self.observations.value.items()}

    def action_spec(self) -> Tree:
        return self.env.action_spec() if self.actions is None else self.actions.value[0]

    def reward_spec(self) -> specs.Array:
        return self.env.reward_spec() if self.rewards is None else super().reward_spec()

    # --- forwarded to the dynamics -----------------------------------------------------------------------------------

    @property  # type: ignore[misc]
    def params(self) -> Any:
        """The params of the dynamics."""
        return self.env.params

    def _with_params(self, given: Mapping[str, Any]) -> Self:
        """Copies the composition with other params of the dynamics and other ``weights`` by name. Omitted ones stay."""
        values = dict(given)
        weights = values.pop("weights", None) if self.rewards is not None else None
        changed = tree.rebuild(self, env=self.env.with_params(**values)) if values else self
        if weights is None:
            return changed
        if not isinstance(weights, Mapping):
            raise ValueError(f"Composed: weights must be a mapping of names to numbers, got {weights!r}")
        present = {name: self.weights[..., place] for place, name in enumerate(self._reward_names)}
        return changed._accept(
            tree.rebuild(changed, weights=_stacked(self._reward_names, {**present, **weights}, self.num_envs))
        )

    def _find_facts(self) -> Facts:
        return dataclasses.replace(super()._find_facts(), salt=self.name or self.env.facts.salt)

    @property
    def action_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.env.action_names if self.actions is None else ()

    @property
    def summed_entries(self) -> frozenset[str]:  # type: ignore[override]
        return self.env.summed_entries | {"rewards", "terminations"}

    @property
    def can_diverge(self) -> bool:  # type: ignore[override]
        """True also if the elements map actions to continuous actions of the dynamics."""
        return self.env.can_diverge or any(spec.is_continuous for spec in jax.tree.leaves(self.env.action_spec()))

    @property
    def finite_observation(self) -> bool:  # type: ignore[override]
        return self.env.finite_observation and self.observations is None

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        return self.env.smooth and self.observations is self.actions is self.rewards is None

    def _with_lanes(self, num_envs: int) -> Self:
        return tree.rebuild(self, env=self.env._with_lanes(num_envs), num_envs=num_envs)

    def close(self) -> None:
        self.env.close()

    def __repr__(self) -> str:
        return f"<Composed{self.env!r}>" if self.name == self.env.name else f"<{self.name}>"


def _element(group: str, name: str, spec: Tree, fn: Callable[..., Any] | str, weight: Any = None) -> Element:
    details = f"env_info[{fn!r}]" if isinstance(fn, str) else (inspect.getdoc(fn) or "").partition("\n")[0]
    return Element(f"{group}.{name}", spec, weight, details)


def _own_termination(state: Tree, action: Tree, out: Transition) -> jax.Array:
    """The termination of the dynamics."""
    return out.terminated


# --- checks of constructor arguments ---------------------------------------------------------------------------------


def _by_name(group: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"Composed: {group} must be a mapping with at least one name, got {given!r}")
    for name in given:
        if not isinstance(name, str) or not name or "." in name:  # names are parts of dotted paths
            raise ValueError(f"Composed: {group} must have names that are strings without dots, got {name!r}")
    return dict(given)


def _check_spec(what: str, spec: Tree) -> None:
    found = jax.tree.leaves(spec)
    if not found or not all(specs.is_spec(leaf) for leaf in found):
        raise ValueError(f"Composed: {what} must have a spec or a tree of specs, got {spec!r}")


def _pair(what: str, given: Any) -> tuple[Any, Callable[..., Any]]:
    if not isinstance(given, tuple) or len(given) != 2 or not callable(given[1]):
        raise ValueError(f"Composed: {what} must be a pair (spec, function), got {given!r}")
    return given


def _observations(given: Any) -> dict[str, tuple[Tree, Callable[..., Any]]]:
    for name, element in _by_name("observations", given).items():
        _check_spec(f"observation {name!r}", _pair(f"observation {name!r}", element)[0])
    return dict(given)


def _actions(given: Any) -> tuple[dict[str, Tree], Callable[..., Any]]:
    parts, fn = _pair("actions", given)
    for name, spec in _by_name("actions", parts).items():
        _check_spec(f"action {name!r}", spec)
    return dict(parts), fn


def _of_step(group: str, given: Any) -> dict[str, Callable[..., Any] | str]:
    for name, element in _by_name(group, given).items():
        if not (callable(element) or isinstance(element, str)):
            rule = f"{group[:-1]} {name!r} must be a function of (state, action, out) or the name of an env_info entry"
            raise ValueError(f"Composed: {rule}, got {element!r}")
    return dict(given)


_GROUPS: dict[str, Callable[[Any], Any]] = {
    "observations": _observations,
    "actions": _actions,
    "rewards": functools.partial(_of_step, "rewards"),
    "terminations": functools.partial(_of_step, "terminations"),
}


def _stacked(names: tuple[str, ...], weights: Mapping[str, Any], num_envs: int) -> Any:
    """Stacks weights by name to a leaf ``[R]`` or ``[B, R]``, in the order of ``names``."""
    if unknown := [name for name in weights if name not in names]:
        known = ", ".join(names) or "(none)"
        raise ValueError(f"Composed: weight {unknown[0]!r} belongs to no reward, the rewards are {known}")
    columns = [_weight(name, weights[name], num_envs) for name in names]
    if not columns:
        return np.zeros(0, np.float32)
    xnp: Any = np if all(isinstance(column, np.ndarray) for column in columns) else jnp
    return xnp.stack(xnp.broadcast_arrays(*columns), axis=-1)


def _weight(name: str, value: Any, num_envs: int) -> Any:
    column = check_number("Composed", Declared(f"weight {name!r}", value, 0, np.dtype(np.float32)))
    if is_concrete(column) and np.shape(column) not in ((), (num_envs,)):
        rule = f"weight {name!r} must be one number or {num_envs}, one per lane"
        raise ValueError(f"Composed: {rule}, got {len(column)} values")
    return column


def _values(kind: str, elements: Mapping[str, Any], state: Tree, action: Tree, out: Transition) -> dict[str, jax.Array]:
    """Computes the elements of one group for a step, ``[B]`` each, checked at trace time."""
    lanes, found = jnp.shape(out.reward)[:1], {}
    for name, element in elements.items():
        if isinstance(element, str) and element not in out.env_info:
            known = ", ".join(sorted(out.env_info)) or "(none)"
            fault = f"{kind} {name!r} names no entry of env_info: {element!r}"
            raise ValueError(f"Composed: {fault}, the entries are {known}")
        value = out.env_info[element] if isinstance(element, str) else element(state, action, out)
        if not hasattr(value, "shape") or jnp.shape(value) != lanes:
            shown = f"shape {value.shape}" if hasattr(value, "shape") else repr(value)
            raise ValueError(f"Composed: {kind} {name!r} must have shape {lanes}, one value per lane, got {shown}")
        if kind == "termination" and value.dtype != np.bool_:
            raise ValueError(f"Composed: termination {name!r} must be bool, got {value.dtype}")
        found[name] = value
    return found
