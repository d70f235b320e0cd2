"""Redraw the params of the physics for every episode."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._util.names import did_you_mean
from jaxenv.core import Environment, Facts, LaneState, Levels, Starts, Stateful, TimeStep, check_no_autoreset
from jaxenv.core._declared import Declared, declared_leaves
from jaxenv.random import Clock
from jaxenv.tree import Tree


class ResampleParams(Stateful):
    """Draws params for every episode of every lane: domain randomisation.

    The values are drawn at the start of an episode and held in the lane's state; the environment steps with
    ``env.with_params(...)``. ``env_info["params"]`` shows them on every row. Values that ``with_params`` of the whole
    stack sets for these params have no effect; those for other params do. Owns every field that the physics determines:
    ``step_type``, ``reward``, ``discount``, ``observation`` and ``env_info``.

    Args:
        env: any environment without ``AutoReset``.
        distributions: a dict that maps names of params to distributions. ``(low, high)`` is uniform, in [low, high) for
            floats and with both ends for integers. A function draws values ``[B, ...]`` from a stream: ``lambda stream:
            10 * random.normal(stream)``.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.ResampleParams(jaxenv.spec("Pendulum-v1").make(num_envs=2), {"gravity": (9, 11)})
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> [9 <= g < 11 for g in timestep.env_info["params"]["gravity"].tolist()]
    [True, True]
    """

    distributions: Any = tree.static()

    owns: ClassVar[frozenset[str]] = frozenset({"step_type", "reward", "discount", "observation", "env_info"})
    in_evaluation = "kept"
    keeps_specs: ClassVar[frozenset[str]] = frozenset({"observation", "reward"})

    def convert(self) -> dict[str, Any]:
        given = self.distributions
        if isinstance(given, Mapping):
            return {"distributions": tuple(given.items())}
        pairs = isinstance(given, list | tuple) and all(isinstance(x, list | tuple) and len(x) == 2 for x in given)
        if not pairs:  # as stored, by `dataclasses.replace`
            raise ValueError(f"ResampleParams: distributions must be a dict of names to distributions, got {given!r}")
        return {}

    def check(self) -> None:
        known = self._params()
        extremes: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        for name, given in self.distributions:
            if name not in known:
                hint = did_you_mean(name, known, otherwise=f"the params are {', '.join(known) or '(none)'}")
                raise ValueError(f"ResampleParams: no param {name!r}, {hint}")
            if callable(given):
                continue
            try:
                low, high = (float(end) for end in given)
            except (TypeError, ValueError):
                raise ValueError(f"ResampleParams: {name} must be (low, high) or a function, got {given!r}") from None
            if not (np.isfinite(low) and np.isfinite(high) and low <= high):
                raise ValueError(f"ResampleParams: {name}: low must not exceed high, both finite, got {given}")
            for values, end in zip(extremes, given, strict=True):
                values[name] = np.full(_shape(known[name]), end)
        for values in extremes:
            self.env.with_params(**values)  # refuses bounds out of the params' range
        check_no_autoreset(self, "would keep the old params")

    def _params(self) -> dict[str, Declared]:
        return {d.path.rpartition("params.")[2]: d for d in declared_leaves(self.unwrapped) if "params." in d.path}

    def _drawn(self, clock: Clock) -> dict[str, jax.Array]:
        known, values = self._params(), {}
        for name, given in self.distributions:
            stream, shape = self._stream(clock, name), _shape(known[name])
            if callable(given):
                value = given(stream)
            elif jnp.issubdtype(jnp.result_type(known[name].value), jnp.floating):
                value = random.uniform(stream, shape, *given)
            else:
                value = random.integers(stream, shape, given[0], given[1] + 1)
            shape = clock.env_id.shape + shape
            if jnp.shape(value) != shape:
                raise ValueError(f"ResampleParams: {name} must be drawn in shape {shape}, got {jnp.shape(value)}")
            values[name] = jnp.asarray(value, known[name].dtype)
        return values

    def _with(self, values: dict[str, jax.Array], num_lanes: int) -> Environment:
        return self.env._with_num_envs(num_lanes).with_params(**values)

    def _with_drawn_params(self, state: LaneState) -> Environment:
        """Returns the environment with the params of the lanes in a state."""
        return self._with(state.own, self.clock(state).env_id.shape[0])

    def facts_of(self, inner: Facts) -> Facts:
        return inner  # an observation of the state stays one

    def observation_of(self, state: LaneState) -> Tree:
        return self._with_drawn_params(state).observation_of(state.inner)

    def env_info_of(self, state: LaneState) -> dict[str, Tree]:
        return _shown(self._with_drawn_params(state).env_info_of(state.inner), state.own)

    def picture_of(self, state: LaneState, size: tuple[int, int]) -> jax.Array:
        return self._with_drawn_params(state).picture_of(state.inner, size)

    def levels(self) -> Levels:
        """Returns levels that are dicts of ``"params"`` and, for these params, the ``"level"`` of ``env``."""

        def of(params: dict[str, jax.Array]) -> Levels:
            lanes = next(iter(params.values())).shape[0]
            return self._with(params, lanes).levels()  # refuses values out of the params' range

        def sample(starts: Starts) -> dict[str, Tree]:
            params = self._drawn(starts.clock)
            return {"params": params, "level": of(params).sample(starts)}

        return Levels(
            sample=sample,
            mutate=lambda level, stream: {**level, "level": of(level["params"]).mutate(level["level"], stream)},
            check=lambda level: of(level["params"]).check(level["level"]),
            of_state=lambda state: {"params": state.own, "level": of(state.own).of_state(state.inner)},
        )

    def begin(self, starts: Starts, previous: LaneState | None = None) -> tuple[Tree, TimeStep]:
        own = starts.inside("params").values_or_else(lambda: self._drawn(starts.clock))
        env = self._with(own, starts.env_id.shape[0])
        state, timestep = env.begin(starts.inside("level"), None if previous is None else previous.inner)
        return LaneState(state, own), dataclasses.replace(timestep, env_info=_shown(timestep.env_info, own))

    def proceed(self, state: LaneState, action: Tree) -> tuple[Tree, TimeStep]:
        inner, timestep = self._with_drawn_params(state).proceed(state.inner, action)
        return LaneState(inner, state.own), dataclasses.replace(timestep, env_info=_shown(timestep.env_info, state.own))


def _shape(declared: Declared) -> tuple[int, ...]:
    """Returns the shape of one lane's value."""
    shape = np.shape(declared.value)
    return shape[len(shape) - declared.rank :]


def _shown(env_info: dict[str, Any], own: dict[str, jax.Array]) -> dict[str, Any]:
    """Adds the current params to ``env_info``, also those drawn further inside. Copies allow donating the state."""
    return {**env_info, "params": {**jax.tree.map(jnp.copy, own), **env_info.get("params", {})}}
