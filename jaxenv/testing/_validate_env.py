"""A quick check of an environment: random episodes are compared with its specs and the grammar of step types."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import check_integer
from jaxenv._util.programs import eval_shape, jitted
from jaxenv.core._declared import declared_leaves
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.timestep import StepType, TimeStep
from jaxenv.random import check_one
from jaxenv.rollout import random_policy, unroll
from jaxenv.specs._trees import fit_fault
from jaxenv.testing._programs import lane_numbers, start
from jaxenv.wrappers import AutoReset

# Many lanes reach rare events sooner: in Blackjack, random play seldom draws 21.
_MIN_LANES = 64
_CHUNK = 32  # steps per call of the compiled rollout

_FIRST, _LAST = np.int32(StepType.FIRST), np.int32(StepType.LAST)
_BEFORE_RESET = np.int32(-1)  # stands for the step type before the row of a reset


def validate_env(env: Environment, key: jax.Array | None = None, episodes: int = 5, max_steps: int = 10_000) -> None:
    """Runs random episodes in all lanes and checks every row, including LAST rows.

    It checks that

    - every field matches ``time_step_spec`` in structure, shape, dtype and bounds (``prev_action`` without bounds),
      and all values are finite; in ``same_step`` mode this includes ``env_info["final_observation"]``, which equals the
      observation on rows other than LAST;
    - step types follow FIRST MID* LAST, and FIRST again; in ``same_step`` mode FIRST (MID or LAST)*;
    - a FIRST row has reward 0, discount 1 and zeros in ``prev_action``, and the discount is 0 only at LAST;
    - episodes end.

    It takes a few seconds. It checks neither the independence of lanes nor the dynamics.

    Args:
        env: any stack; one without ``AutoReset`` is wrapped in one. To find rare faults, at least 64 lanes run unless
            a param is given per lane.
        key: a typed key, ``jax.random.key(0)`` by default.
        episodes: number of episodes that every lane completes.
        max_steps: largest number of steps of an episode.

    The first fault is a ``ValueError`` with the path of the leaf, the lane, the step since the reset (its row is step
    0), the value and the rule.

    >>> import jaxenv
    >>> validate_env(jaxenv.make("CardGame-v0"))
    """
    check_environment("validate_env", env)
    check_integer("validate_env", "episodes", episodes, 1)
    check_integer("validate_env", "max_steps", max_steps, 1)
    played = env if env.autoreset is not None else AutoReset(env)
    key = jax.random.key(0) if key is None else key
    check_one("validate_env", key)
    per_lane = any(declared.per_lane for declared in declared_leaves(env))
    keys = jax.random.split(key, env.num_envs if per_lane else max(env.num_envs, _MIN_LANES))
    spec = _spec(played)
    _check_shapes(played, spec, keys)

    state, timestep = start(played, keys, lane_numbers(len(keys)))
    before, progress = np.full(keys.shape, _BEFORE_RESET), _Progress(keys.shape[0])
    while progress.completed.min() < episodes:
        (state, timestep, _), experience = _play(played, state, timestep)
        rows = jax.device_get(experience.timestep)
        _raise_first(env, _faults(played, spec, rows, before), progress.step)
        progress.advance(env, rows.step_type, max_steps)
        before = np.asarray(rows.step_type[-1])


@jitted
def _play(env: Environment, state: Any, timestep: TimeStep) -> Any:
    return unroll(env, random_policy(env), state, timestep, _CHUNK, fields=["timestep"])


def _spec(env: Environment) -> TimeStep:
    """Returns the specs that rows must match: ``prev_action`` without bounds, the final observation with bounds."""
    spec = env.time_step_spec()
    env_info = dict(spec.env_info)
    if env.autoreset == "same_step" and "final_observation" in env_info:
        env_info["final_observation"] = env.observation_spec()
    # Its zeros may lie outside of the bounds, and so may the actions of a custom policy.
    return dataclasses.replace(spec, prev_action=specs.unbatched(spec.prev_action, 0), env_info=env_info)


# --- shapes ----------------------------------------------------------------------------------------------------------


def _check_shapes(env: Environment, spec: TimeStep, keys: jax.Array) -> None:
    """Checks the structure, shapes and dtypes of the outputs of ``reset`` and ``step``; nothing is computed."""
    lanes = keys.shape[0]
    state, first = eval_shape(lambda env, keys: env.reset(keys, lane_numbers(lanes)), env, keys)
    action = jax.tree.map(lambda s: jax.ShapeDtypeStruct((lanes, *s.shape), s.dtype), env.action_spec())
    _, later = eval_shape(lambda env, *args: env.step(*args), env, state, action)
    for method, row in (("reset", first), ("step", later)):
        if (fault := fit_fault(spec, row, (lanes,))) is not None:
            raise ValueError(f"validate_env: {env}.{method}: {fault}; it must match time_step_spec()")


# --- values ----------------------------------------------------------------------------------------------------------


class _Fault(NamedTuple):
    """A broken rule and its first location: row of the chunk, lane, element of the leaf."""

    position: tuple[int, ...]
    path: str
    value: str
    rule: str


def _raise_first(env: Environment, faults: Iterator[_Fault], steps_before: int) -> None:
    found = min(faults, key=lambda fault: fault.position[:2], default=None)
    if found is None:
        return
    row, lane, *element = found.position
    where = f"{found.path}{element or ''}"
    raise ValueError(
        f"validate_env: {env} at step {steps_before + row}, lane {lane}: {where} is {found.value}, {found.rule}"
    )


def _faults(env: Environment, spec: TimeStep, rows: TimeStep, before: np.ndarray) -> Iterator[_Fault]:
    """Yields the first fault of each rule in rows ``[T, B, ...]``; ``before`` holds the preceding step types."""
    yield from _spec_faults(spec, rows)
    yield from _grammar_faults(rows.step_type, before, same_step=env.autoreset == "same_step")
    yield from _first_faults(rows)
    if env.autoreset == "same_step" and "final_observation" in rows.env_info:
        yield from _final_faults(rows)
    zero_inside = (rows.discount == 0) & (rows.step_type != _LAST)
    yield from _broken("discount", rows.discount, ~zero_inside, "may be 0 only at LAST")


def _broken(path: str, values: Any, holds: Any, rule: str) -> Iterator[_Fault]:
    """Yields the first element at which ``holds`` (with the shape of ``values``) is false, if there is one."""
    if not np.all(holds):
        at = tuple(int(i) for i in np.argwhere(~holds)[0])
        yield _Fault(at, path, str(values[at]), rule)


def _spec_faults(spec: TimeStep, rows: TimeStep) -> Iterator[_Fault]:
    for (path, leaf_spec), values in zip(tree.flatten_with_path(spec)[0], jax.tree.leaves(rows), strict=True):
        name = tree.path_name(path)
        if leaf_spec.is_continuous:
            yield from _broken(name, values, np.isfinite(values), "must be finite")
        if isinstance(leaf_spec, specs.Bounded):
            inside = (values >= leaf_spec.minimum) & (values <= leaf_spec.maximum)
            yield from _broken(name, values, inside, f"must lie within the bounds of {leaf_spec}")


def _grammar_faults(step_type: Any, before: np.ndarray, same_step: bool) -> Iterator[_Fault]:
    known = (step_type >= _FIRST) & (step_type <= _LAST)
    yield from _broken("step_type", step_type, known, "must be 0 (FIRST), 1 (MID) or 2 (LAST)")
    previous = np.concatenate([before[None], step_type[:-1]])
    of_reset, after_last = previous == _BEFORE_RESET, (previous == _LAST) & (not same_step)
    first = step_type == _FIRST
    yield from _broken("step_type", step_type, ~of_reset | first, "must be 0 (FIRST) on the row of a reset")
    yield from _broken("step_type", step_type, ~after_last | first, "must be 0 (FIRST) after LAST")
    rule = "may be 0 (FIRST) only on the row of a reset in same_step mode"
    rule = rule if same_step else "may be 0 (FIRST) only after LAST"
    yield from _broken("step_type", step_type, of_reset | after_last | ~first, rule)


def _first_faults(rows: TimeStep) -> Iterator[_Fault]:
    later = rows.step_type != _FIRST
    yield from _broken("discount", rows.discount, later | (rows.discount == 1), "must be 1 at FIRST")
    for name, subtree in (("reward", rows.reward), ("prev_action", rows.prev_action)):
        for path, values in jax.tree_util.tree_leaves_with_path(subtree):
            holds = tree.expand(later, values.ndim) | (values == 0)
            named = ".".join(filter(None, [name, tree.path_name(path)]))
            yield from _broken(named, values, holds, "must be 0 at FIRST")


def _final_faults(rows: TimeStep) -> Iterator[_Fault]:
    """Yields where the final observation differs from the observation while the episode continues, up to rounding."""
    last, final = rows.step_type == _LAST, rows.env_info["final_observation"]
    pairs = zip(tree.flatten_with_path(final)[0], jax.tree.leaves(rows.observation), strict=True)
    for (path, values), shown in pairs:
        same = values == shown
        if jnp.issubdtype(values.dtype, jnp.inexact):
            same |= np.isclose(values.astype(np.float64), shown.astype(np.float64), 1e-5, 1e-6, equal_nan=True)
        name = ".".join(filter(None, ["env_info.final_observation", tree.path_name(path)]))
        rule = "must equal the observation on rows other than LAST"
        yield from _broken(name, values, same | tree.expand(last, values.ndim), rule)


class _Progress:
    def __init__(self, lanes: int):
        self.step = 0
        self.completed = np.zeros(lanes, np.int64)  # episodes that were followed by another row
        self.length = np.full(lanes, -1)  # steps of the current episode, -1 before its FIRST row
        self.ended = np.zeros(lanes, bool)

    def advance(self, env: Environment, step_type: Any, max_steps: int) -> None:
        """Counts a chunk of step types ``[T, B]``; raises a ``ValueError`` for an episode that does not end."""
        for row in step_type:
            self.completed += self.ended
            self.length = np.where(self.ended & (row != _FIRST), 1, self.length + 1)
            self.length = np.where(row == _FIRST, 0, self.length)
            self.ended = row == _LAST
            endless = (self.length >= max_steps) & ~self.ended
            if np.any(endless):
                where = f"at step {self.step}, lane {int(np.argmax(endless))}: the episode has not ended"
                rule = "it must end within max_steps (TimeLimit ends endless tasks)"
                raise ValueError(f"validate_env: {env} {where} after {max_steps} steps, {rule}")
            self.step += 1
