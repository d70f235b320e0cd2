"""Compare two environments row by row."""

import jax

from jaxenv import specs
from jaxenv._util.checks import check_integer, check_real
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.timestep import TimeStep
from jaxenv.random import check_one
from jaxenv.rollout import random_policy, unroll


def check_environments_match(
    a: Environment, b: Environment, key: jax.Array, num_steps: int = 100, tolerance: float = 0.0
) -> None:
    """Steps two environments with the same keys and random actions and compares all rows.

    Both have equal specs and the same number of lanes. ``tolerance`` is the largest absolute and relative difference of
    numbers; flags must be equal. An ``AssertionError`` names the field, ``[step, lane]`` and both values.
    """
    import chex  # 80 ms, which the other tools need not wait for

    owner = "check_environments_match"
    check_environment(owner, a)
    check_environment(owner, b)
    check_one(owner, key)
    check_integer(owner, "num_steps", num_steps, 0)
    check_real(owner, "tolerance", tolerance, 0)
    if a.num_envs != b.num_envs:
        raise ValueError(f"the environments have {a.num_envs} and {b.num_envs} lanes")
    specs.require_equal(a.time_step_spec(), b.time_step_spec(), "time step specs")
    policy = random_policy(a)

    def rollout(env: Environment, key: jax.Array) -> TimeStep:
        reset_key, policy_key = jax.random.split(key)
        state, timestep = env.reset(reset_key)
        return unroll(env, policy, state, timestep, num_steps + 1, key=policy_key)[1].timestep

    rows_a, rows_b = (jax.device_get(jax.jit(rollout)(env, key)) for env in (a, b))
    chex.assert_trees_all_close(rows_a, rows_b, rtol=tolerance, atol=tolerance, custom_message=f"{a} and {b}")
