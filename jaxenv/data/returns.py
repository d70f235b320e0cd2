"""Computes returns and advantages; reads the ends of episodes from ``step_type`` and ``discount``.

All functions have the same arguments and, except for `n_step_return`, take one pass over time::

    fn(experience.timestep, last, values, gamma=..., ...)

============ =============== ========================================================================================
argument     shape           meaning
============ =============== ========================================================================================
timestep     ``[T, B]``      rows of an unroll; ``step_type``, ``reward`` (or ``[T, B, R]``), ``discount`` are read,
                             and ``env_info["abnormal"]`` where present
last         ``[B]``         the TimeStep after them, as `jaxenv.unroll` returns it
values       ``[T + 1, B]``  V of the observations of these T + 1 rows (``[T + 1, B, R]`` for a vector reward)
final_values ``[T + 1, B]``  V of ``env_info["final_observation"]`` of the same rows, read on LAST rows only. Required
                             if the rows hold that observation (``same_step`` mode)
gamma        ``()``, ``[B]`` the learner's discount rate, in [0, 1]. A TimeStep's ``discount`` never contains it
lambda_      ``()``, ``[B]`` in [0, 1], of `td_lambda`, `gae` and `vtrace`
============ =============== ========================================================================================

With r and d for reward and discount, the one-step target of row t is ``r[t+1] + gamma * d[t+1] * V'[t+1]``. ``V'`` is
``values``, except on LAST rows of ``same_step`` trajectories, where it is ``final_values``. The end of a task (LAST,
discount 0) therefore has value 0, a time limit (LAST, discount 1) bootstraps from the value of its observation, and
returns never cross the end of an episode. A value whose weight is 0 by a discount or by the end of an episode is not
read: it may be NaN. Invalid transitions (see `transition_mask`: LAST rows in ``next_step`` mode, rows before FIRST,
rows before an abnormal one) have advantage 0, and their return is their value, or 0 where that is not finite. Exclude
them from means over a batch by that mask: ``jnp.mean(x, where=mask)``.

Results are float32. Gradients flow through ``values`` unless `jax.lax.stop_gradient` is applied. A ``ValueError`` names
shapes that differ from the table, a coefficient out of range, and rows that were made in the other restart mode.
"""

import contextlib
import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import Range, check_array, check_integer
from jaxenv.core._compiled import compiled_once
from jaxenv.core.timestep import StepType, TimeStep
from jaxenv.data.rows import TrajectoryMode, check_mode, check_rows, mask_non_finite, next_rows, transition_mask
from jaxenv.tree import _export


@_export.named_tuple
class Targets(NamedTuple):
    """The result of `gae` and `vtrace`, float32 ``[T, B]`` (or ``[T, B, R]``) each; it unpacks as a pair.

    Attributes:
        advantages: the advantages of the actions; 0 for invalid transitions.
        returns: targets for ``values[:-1]``; equal to ``values`` for invalid transitions, or 0 where these are not
            finite.
    """

    advantages: jax.Array
    returns: jax.Array


@tree.struct
class _Transitions:
    """T transitions in the shape of the reward, ``[T, B]`` or ``[T, B, R]``; masks ``[T, B]`` have axes appended."""

    valid: Any  # whether the row leads to the next one
    continues: Any  # whether it does, and what follows there counts
    value: Any  # of the row
    reward: Any
    decay: Any  # gamma * discount; 0 where not valid
    next_value: Any  # 0 where it does not count

    @property
    def target(self) -> jax.Array:
        """One-step targets."""
        return self.reward + self.decay * self.next_value


def discounted_return(
    timestep: TimeStep, last: TimeStep, values: jax.Array, *, gamma: Any, final_values: Any = None
) -> jax.Array:
    """Computes discounted sums of rewards up to the end of the episode, float32 ``[T, B]`` (or ``[T, B, R]``).

    ``G[t] = r[t+1] + gamma * d[t+1] * G[t+1]``, where ``G`` of a truncated row and of ``last`` is its value. With zeros
    for ``values`` it is the discounted sum of the rewards in the rows. The module describes the arguments.
    """
    x = _transitions("discounted_return", timestep, last, values, gamma, final_values)
    # Values of rows inside an episode are not read.
    x = dataclasses.replace(x, next_value=jnp.where(x.continues, np.float32(0), x.next_value))
    return _mixed(x, values, jnp.ones_like(x.decay))


def n_step_return(
    timestep: TimeStep, last: TimeStep, values: jax.Array, *, n: int, gamma: Any, final_values: Any = None
) -> jax.Array:
    """Computes returns of up to ``n`` rewards and a value, float32 ``[T, B]`` (or ``[T, B, R]``).

    ``G[t] = sum_{k<m} gamma^k D[k] r[t+k+1] + gamma^m D[m] V'[t+m]`` with ``D[k] = d[t+1] ... d[t+k]``, where ``m`` is
    ``n``, or less if the episode or the rows end earlier. Sutton & Barto (2018), section 7.1. It takes n passes, and
    ``n`` is a static integer of at least 1. The module describes the other arguments.
    """
    check_integer("n_step_return", "n", n, 1)
    x = _transitions("n_step_return", timestep, last, values, gamma, final_values)
    return _n_steps(x, jnp.asarray(values, x.value.dtype)[-1:], min(int(n), x.value.shape[0]))


def td_lambda(
    timestep: TimeStep, last: TimeStep, values: jax.Array, *, gamma: Any, lambda_: Any, final_values: Any = None
) -> jax.Array:
    """Computes TD(lambda) returns, float32 ``[T, B]`` (or ``[T, B, R]``).

    ``G[t] = r[t+1] + gamma * d[t+1] * ((1 - lambda) * V'[t+1] + lambda * G[t+1])``: one-step targets for lambda 0,
    `discounted_return` for 1. It equals the returns of `gae`. Sutton & Barto (2018), section 12.1. The module describes
    the arguments.
    """
    x = _transitions("td_lambda", timestep, last, values, gamma, final_values)
    return _mixed(x, values, coefficient("td_lambda", "lambda_", lambda_, timestep))


def gae(
    timestep: TimeStep, last: TimeStep, values: jax.Array, *, gamma: Any, lambda_: Any, final_values: Any = None
) -> Targets:
    """Computes generalised advantages and returns ``advantages + values[:-1]``: float32 ``[T, B]`` each.

    ``A[t] = delta[t] + gamma * lambda * d[t+1] * A[t+1]`` with ``delta[t] = r[t+1] + gamma * d[t+1] * V'[t+1] - V[t]``.
    Schulman et al. (2016), arXiv:1506.02438. The module describes the arguments.

    >>> import jax, jax.numpy as jnp, jaxenv
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.testing.count_to_two())
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> policy = jaxenv.rollout.random_policy(env)
    >>> (_, last, _), rows = jaxenv.unroll(env, policy, state, timestep, 3)
    >>> advantages, returns = gae(rows.timestep, last, jnp.full((4, 1), 0.5), gamma=1.0, lambda_=0.5)
    >>> advantages[:, 0].tolist(), returns[:, 0].tolist()
    ([0.25, 0.5, 0.0], [0.75, 1.0, 0.5])
    """
    x = _transitions("gae", timestep, last, values, gamma, final_values)
    trace = x.decay * coefficient("gae", "lambda_", lambda_, timestep)
    delta = jnp.where(x.valid, x.target - x.value, np.float32(0))
    advantages = _backward(delta, trace, x.continues)
    return Targets(advantages, advantages + x.value)


def vtrace(
    timestep: TimeStep,
    last: TimeStep,
    values: jax.Array,
    log_rhos: jax.Array,
    *,
    gamma: Any,
    lambda_: Any = 1.0,
    clip_rho: float = 1.0,
    clip_c: float = 1.0,
    clip_pg_rho: float = 1.0,
    final_values: Any = None,
) -> Targets:
    """Computes V-trace: off-policy returns ``vs`` and policy-gradient advantages, float32 ``[T, B]`` each.

    With ``rho[t] = exp(log_rhos[t])`` and ``c[t] = lambda * min(clip_c, rho[t])``::

        vs[t] - V[t] = min(clip_rho, rho[t]) * delta[t] + gamma * d[t+1] * c[t] * (vs[t+1] - V[t+1])
        advantages[t] = min(clip_pg_rho, rho[t]) * (r[t+1] + gamma * d[t+1] * vs[t+1] - V[t])

    with ``delta`` as in `gae`; at the end of an episode ``vs`` is ``V'``. On policy and without clipping,
    ``vs`` are the TD(lambda) returns. Espeholt et al. (2018), arXiv:1802.01561, section 4.1; lambda as in remark 2.
    ``log_rhos``, ``[T, B]``, is log pi(action) - log mu(action) of each row's action, for the learner's policy pi and
    the behaviour policy mu; it is not read for invalid transitions. ``clip_rho``, ``clip_c`` and ``clip_pg_rho``, the
    bars of the paper, are at least 0; ``inf`` disables clipping. The module describes the other arguments.
    """
    x = _transitions("vtrace", timestep, last, values, gamma, final_values)
    check_array("vtrace", "log_rhos", log_rhos)
    if jnp.shape(log_rhos) != jnp.shape(timestep.step_type):
        rule = f"log_rhos must have shape {jnp.shape(timestep.step_type)}, one per row"
        raise ValueError(f"vtrace: {rule}, got {jnp.shape(log_rhos)}")
    lambda_ = coefficient("vtrace", "lambda_", lambda_, timestep)
    log_rhos = tree.expand(jnp.asarray(log_rhos, x.value.dtype), x.value.ndim)
    # Masked before exp, so that a NaN on an invalid transition reaches neither the result nor its gradient.
    rho = jnp.exp(jnp.where(x.valid, log_rhos, np.float32(0)))
    rho_bar, c_bar, pg_rho_bar = _bar("clip_rho", clip_rho), _bar("clip_c", clip_c), _bar("clip_pg_rho", clip_pg_rho)
    delta = jnp.where(x.valid, jnp.minimum(rho_bar, rho) * (x.target - x.value), np.float32(0))
    trace = x.decay * lambda_ * jnp.minimum(c_bar, rho)
    correction = _backward(delta, trace, x.continues)
    later = jnp.concatenate([correction[1:], jnp.zeros_like(correction[:1])])
    next_vs = x.next_value + jnp.where(x.continues, later, np.float32(0))
    advantages = jnp.minimum(pg_rho_bar, rho) * (x.reward + x.decay * next_vs - x.value)
    return Targets(jnp.where(x.valid, advantages, np.float32(0)), correction + x.value)


def _bar(name: str, value: Any) -> jax.Array:
    number = as_number("vtrace", name, value)
    if number.shape:
        raise ValueError(f"vtrace: {name} must be one number, got shape {number.shape}")
    Range(low=0).check("vtrace", name, value)
    return number


def _mixed(x: _Transitions, values: Any, lambda_: jax.Array) -> jax.Array:
    """Returns TD(lambda) returns. Where the episode ends, the one-step target is the return."""
    weight = jnp.where(x.continues, 1 - lambda_, np.float32(1))
    offset = jnp.where(x.valid, x.reward + x.decay * weight * x.next_value, x.value)
    # The return of `last` is its value.
    return _backward(offset, x.decay * lambda_, x.continues, jnp.asarray(values, x.value.dtype)[-1])


def _transitions(owner: Any, timestep: TimeStep, last: Any, values: Any, gamma: Any, final_values: Any) -> _Transitions:
    check_rows(owner, timestep, last)
    mode: TrajectoryMode = "next_step" if final_values is None else "same_step"
    check_mode(owner, timestep, mode, last, "pass final_values=..., the values of it")
    reward, discount = (next_rows(owner, getattr(timestep, f), getattr(last, f)) for f in ("reward", "discount"))
    shape = (reward.shape[0] + 1, *reward.shape[1:])
    for name, x in (("values", values), ("final_values", final_values)):
        if x is None and name == "final_values":
            continue
        check_array(owner, name, x)
        if jnp.shape(x) != shape:
            raise ValueError(f"{owner}: {name} must have shape {shape}, the rows and the last one, got {jnp.shape(x)}")
    values = tree.vary_like(reward, jnp.asarray(values, reward.dtype))
    next_value = values[1:]
    is_last = next_rows(owner, timestep.step_type, last.step_type) == np.int32(StepType.LAST)
    valid, discount, is_last = (
        tree.expand(x, reward.ndim) for x in (transition_mask(timestep, last, mode), discount, is_last)
    )
    if final_values is not None:
        next_value = jnp.where(is_last, jnp.asarray(final_values, reward.dtype)[1:], next_value)
    # Selected, since 0 times a NaN is NaN. By the discount alone: gamma and lambda may be 0 and have a gradient.
    counts = valid & (discount != 0)
    next_value = jnp.where(counts, next_value, np.float32(0))
    decay = jnp.where(valid, coefficient(owner, "gamma", gamma, timestep) * discount, np.float32(0))
    # Whether the episode continues after `last` is unknown; its value, used as its return, is correct in either case.
    return _Transitions(valid, counts & ~is_last, mask_non_finite(values[:-1], valid), reward, decay, next_value)


@functools.partial(compiled_once, static_argnums=2)
def _n_steps(x: _Transitions, end: jax.Array, n: int) -> jax.Array:
    """Computes returns of up to ``n`` rewards; ``end`` is the value of the row after the last one."""

    def add_step(_: Any, returns: Any) -> Any:
        later = jnp.concatenate([returns[1:], end])
        target = x.reward + x.decay * jnp.where(x.continues, later, x.next_value)
        return jnp.where(x.valid, target, x.value)

    return jax.lax.fori_loop(0, n, add_step, x.value)


@compiled_once
def _backward(offset: jax.Array, factor: jax.Array, continues: jax.Array, start: jax.Array | None = None) -> jax.Array:
    """Solves ``x[t] = offset[t] + factor[t] * x[t+1]`` backwards, from ``start`` (0 by default) after the last row.

    Where not ``continues``, ``x[t]`` is ``offset[t]``, also if ``x[t+1]`` is NaN.
    """
    # Constants, such as the zeros of a learner without critic, do not fit the carry under shard_map.
    start = tree.vary_like(offset, jnp.zeros(offset.shape[1:], offset.dtype) if start is None else start)
    # A GPU takes 2.2 ms for 128 rows one by one, and 0.1 ms in parallel, which on a CPU is four times slower.
    return jax.lax.platform_dependent(offset, factor, continues, start, cpu=_one_by_one, default=_in_parallel)


def _one_by_one(offset: jax.Array, factor: jax.Array, continues: jax.Array, start: jax.Array) -> jax.Array:
    def step(later: Any, row: Any) -> Any:
        x = _before(row, later)
        return x, x

    return jax.lax.scan(step, start, (offset, factor, continues), reverse=True)[1]


def _in_parallel(offset: jax.Array, factor: jax.Array, continues: jax.Array, start: jax.Array) -> jax.Array:
    def compose(later: Any, row: Any) -> Any:
        return _before(row, later[0]), row[1] * later[1], row[2] & later[2]

    offset = offset.at[-1].set(_before((offset[-1], factor[-1], continues[-1]), start))
    return jax.lax.associative_scan(compose, (offset, factor, continues), reverse=True)[0]


def _before(row: tuple[jax.Array, jax.Array, jax.Array], later: jax.Array) -> jax.Array:
    """Returns ``x[t]``, given offset, factor and ``continues`` of row t, and ``x[t+1]``."""
    offset, factor, continues = row
    return offset + factor * jnp.where(continues, later, np.float32(0))


# --- coefficients ----------------------------------------------------------------------------------------------------


def coefficient(owner: str, name: str, value: Any, timestep: TimeStep) -> jax.Array:
    """Casts a number in [0, 1], or one per lane ``[B]``, to float32 that broadcasts to the reward."""
    batch, rank = jnp.shape(timestep.step_type)[1:], jnp.ndim(timestep.reward)
    number = as_number(owner, name, value)
    if number.shape not in ((), batch):
        raise ValueError(f"{owner}: {name} must be one number or have shape {batch}, got {number.shape}")
    check_fraction(owner, name, value)
    return tree.expand(number[None], rank) if number.ndim else number


def check_fraction(owner: str, name: str, value: Any) -> None:
    """Raises a ``ValueError`` for concrete numbers outside [0, 1], and for anything that is not a number."""
    as_number(owner, name, value)
    Range(0, 1).check(owner, name, value)


def as_number(owner: str, name: str, value: Any) -> jax.Array:
    """Casts numbers to float32; raises a ``ValueError`` for anything else."""
    with contextlib.suppress(TypeError, ValueError):
        if not isinstance(value, bool | None):
            return jnp.asarray(value, jnp.float32)
    raise ValueError(f"{owner}: {name} must be a number, got {value!r}")
