"""Returns and advantages, compared with rlax: the time of one call on a trajectory, and the largest difference.

All episodes of the trajectory end by termination, which rlax can express. rlax reads discounts but not step types, so
its results at invalid transitions (from a LAST row to the FIRST row after it) are meaningless and are not compared.
"""

import argparse
import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from benchmarks import command, measure
from jaxenv import data
from jaxenv._util.source import install_command
from jaxenv.core.timestep import TimeStep

GAMMA, LAMBDA, N = 0.99, 0.95, 5


def problem(num_steps: int, num_envs: int) -> tuple[TimeStep, TimeStep, jax.Array, jax.Array]:
    """Returns rows ``[T, B]`` of random CartPole episodes without a time limit, the next row, values and log-ratios."""
    env = jaxenv.make("CartPole-v1", num_envs=num_envs, max_episode_steps=0)
    fields = ["step_type", "reward", "discount"]

    @jax.jit
    def play(key):
        policy = jaxenv.rollout.random_policy(env)
        (_, last, _), rows = jaxenv.unroll(env, policy, *env.reset(key), num_steps, fields=fields)
        return rows.timestep, jaxenv.tree.select_fields(last, fields)

    rows, last = play(jax.random.key(0))
    values = jax.random.normal(jax.random.key(1), (num_steps + 1, num_envs))
    log_rhos = 0.1 * jax.random.normal(jax.random.key(2), (num_steps, num_envs))
    return rows, last, values, log_rhos


def _ours(kind: str) -> Callable:
    def gae(rows, last, values, log_rhos):
        return data.gae(rows, last, values, gamma=GAMMA, lambda_=LAMBDA).advantages

    def td_lambda(rows, last, values, log_rhos):
        return data.td_lambda(rows, last, values, gamma=GAMMA, lambda_=LAMBDA)

    def n_step(rows, last, values, log_rhos):
        return data.n_step_return(rows, last, values, n=N, gamma=GAMMA)

    def vtrace(rows, last, values, log_rhos):
        return data.vtrace(rows, last, values, log_rhos, gamma=GAMMA, lambda_=LAMBDA).returns

    return {"gae": gae, "td_lambda": td_lambda, "n_step_return": n_step, "vtrace": vtrace}[kind]


def _theirs(kind: str) -> Callable:
    try:
        import rlax
    except ImportError:
        raise measure.Unavailable(f"rlax is not installed: {install_command('benchmarks')}") from None

    def per_lane(fn):
        """Maps a function of arrays ``[T]`` over the lanes of arrays ``[T, B]``, as users of rlax do."""
        return jax.vmap(fn, in_axes=1, out_axes=1)

    def rows_of(rows, last):
        reward, discount = (data.with_last(getattr(rows, f), getattr(last, f))[1:] for f in ("reward", "discount"))
        return reward, np.float32(GAMMA) * discount

    def gae(rows, last, values, log_rhos):
        one = lambda r, d, v: rlax.truncated_generalized_advantage_estimation(r, d, LAMBDA, v)  # noqa: E731
        return per_lane(one)(*rows_of(rows, last), values)

    def td_lambda(rows, last, values, log_rhos):
        return per_lane(lambda r, d, v: rlax.lambda_returns(r, d, v, LAMBDA))(*rows_of(rows, last), values[1:])

    def n_step(rows, last, values, log_rhos):
        return per_lane(lambda r, d, v: rlax.n_step_bootstrapped_returns(r, d, v, N))(*rows_of(rows, last), values[1:])

    def vtrace(rows, last, values, log_rhos):
        errors = per_lane(lambda v, w, r, d, rho: rlax.vtrace(v, w, r, d, rho, LAMBDA))
        return errors(values[:-1], values[1:], *rows_of(rows, last), jnp.exp(log_rhos)) + values[:-1]

    return {"gae": gae, "td_lambda": td_lambda, "n_step_return": n_step, "vtrace": vtrace}[kind]


KINDS = ("gae", "td_lambda", "n_step_return", "vtrace")


def compare(kind: str, num_steps: int, num_envs: int, repeats: int, calls: int = 20) -> dict[str, Any]:
    """Runs both sides, interleaved, and returns a row of the result file.

    A sample is the time of ``calls`` calls, each of which blocks until its result is available. The ratio is rlax's
    time divided by jaxenv's.
    """
    rows, last, values, log_rhos = problem(num_steps, num_envs)
    arguments = (rows, last, values, log_rhos)
    compiled = {
        name: jax.jit(side(kind)).lower(*arguments).compile() for name, side in (("jaxenv", _ours), ("rlax", _theirs))
    }

    def run(fn):
        def repeat(seed):
            for _ in range(calls):
                result = jax.block_until_ready(fn(*arguments))
            return result

        return repeat

    timed = measure.time_interleaved({name: run(fn) for name, fn in compiled.items()}, repeats)
    times = {name: 1e3 * statistics.median(s for s, _ in samples) / calls for name, samples in timed.items()}
    valid = np.asarray(data.transition_mask(rows, last))
    ours, theirs = (np.asarray(samples[0][1])[valid] for samples in timed.values())
    return {
        "kind": kind,
        "num_steps": num_steps,
        "num_envs": num_envs,
        "contestants": {name: {"milliseconds_per_call": milliseconds} for name, milliseconds in times.items()},
        "ratios": {"rlax": times["rlax"] / times["jaxenv"]},
        "notes": [],
        "rows_compared": int(valid.sum()),
        "largest_difference": float(np.max(np.abs(ours - theirs))),
    }


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table."""
    shown = measure.columns(
        rows,
        ("function", "kind"),
        ("T", "num_steps"),
        ("lanes", "num_envs"),
        *((f"{n} ms", measure.side(n, "milliseconds_per_call", "{:.3f}".format)) for n in ("jaxenv", "rlax")),
        ("ratio", lambda row: f"{row['ratios']['rlax']:.2f}"),
        ("largest difference", lambda row: f"{row['largest_difference']:.1e}"),
    )
    return f"Milliseconds per call; ratio: how many times faster jaxenv is than rlax.\n{shown}"


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_sizes(num_envs=[64, 2048], num_steps=128)


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares every function and number of lanes."""
    for num_envs, kind in itertools.product(args.num_envs, KINDS):
        yield compare(kind, args.num_steps, num_envs, args.repeats)
