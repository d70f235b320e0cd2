"""Returns and advantages have the values of rlax's at the transitions that rlax can express.

All episodes end by termination. rlax reads discounts but not step types, so its results from a LAST row to the FIRST
row after it mean nothing.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data

GAMMA, LAMBDA, N = 0.99, 0.95, 5
STEPS, LANES = 40, 8


@pytest.fixture(scope="module")
def played():
    """Rows ``[T, B]`` of random CartPole without a time limit, the next row, values and log-ratios."""
    env = jaxenv.make("CartPole-v1", num_envs=LANES, max_episode_steps=0)
    fields = ["step_type", "reward", "discount"]
    policy = jaxenv.rollout.random_policy(env)
    (_, last, _), rows = jaxenv.unroll(env, policy, *env.reset(jax.random.key(0)), STEPS, fields=fields)
    values = jax.random.normal(jax.random.key(1), (STEPS + 1, LANES))
    log_rhos = 0.1 * jax.random.normal(jax.random.key(2), (STEPS, LANES))
    return rows.timestep, jaxenv.tree.select_fields(last, fields), values, log_rhos


def ours(kind, rows, last, values, log_rhos):
    decay = {"gamma": GAMMA, "lambda_": LAMBDA}
    return {
        "gae": lambda: data.gae(rows, last, values, **decay).advantages,
        "td_lambda": lambda: data.td_lambda(rows, last, values, **decay),
        "n_step_return": lambda: data.n_step_return(rows, last, values, n=N, gamma=GAMMA),
        "vtrace": lambda: data.vtrace(rows, last, values, log_rhos, **decay).returns,
    }[kind]()


def theirs(rlax, kind, rows, last, values, log_rhos):
    reward, discount = (data.with_last(getattr(rows, f), getattr(last, f))[1:] for f in ("reward", "discount"))
    discount, before, after = np.float32(GAMMA) * discount, values[:-1], values[1:]

    def per_lane(fn, *arrays):
        return jax.vmap(fn, in_axes=1, out_axes=1)(*arrays)

    if kind == "gae":
        advantages = rlax.truncated_generalized_advantage_estimation
        return per_lane(lambda r, d, v: advantages(r, d, LAMBDA, v), reward, discount, values)
    if kind == "td_lambda":
        return per_lane(lambda r, d, v: rlax.lambda_returns(r, d, v, LAMBDA), reward, discount, after)
    if kind == "n_step_return":
        return per_lane(lambda r, d, v: rlax.n_step_bootstrapped_returns(r, d, v, N), reward, discount, after)
    errors = per_lane(
        lambda v, w, r, d, rho: rlax.vtrace(v, w, r, d, rho, LAMBDA), before, after, reward, discount, jnp.exp(log_rhos)
    )
    return errors + before


@pytest.mark.filterwarnings("ignore")  # from the imports of rlax
@pytest.mark.parametrize("kind", ["gae", "td_lambda", "n_step_return", "vtrace"])
def test_returns_agree_with_rlax_at_valid_transitions(played, kind):
    rlax = pytest.importorskip("rlax")
    valid = np.asarray(data.transition_mask(*played[:2]))
    assert 250 < valid.sum() < STEPS * LANES
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        expected = np.asarray(theirs(rlax, kind, *played))
    np.testing.assert_allclose(np.asarray(ours(kind, *played))[valid], expected[valid], atol=1e-4)
