"""What adapters report where the task ends on the step on which the time limit is reached: a termination."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv.interop import to_dm_env, to_gymnasium, to_gymnasium_vector, to_gymnax
from tests.interop.ends import LANES, LIMIT, TERMINATED, TRUNCATED, ending, ending_alone


def first_ends(rows):
    """Whether each lane terminated and was truncated by step, ``[T, B]`` each, up to its first end."""
    terminated, truncated = (np.array(x, bool) for x in zip(*rows, strict=True))
    ended = np.cumsum(terminated | truncated, axis=0)
    before = ended - (terminated | truncated) == 0
    return terminated & before, truncated & before


@pytest.mark.parametrize("arrays", ["numpy", "jax"])
@pytest.mark.parametrize("mode", ["next_step", "same_step", None])
def test_a_vector_environment_of_gymnasium_reports_a_termination_where_both_ends_meet(mode, arrays):
    envs = to_gymnasium_vector(ending(mode), arrays=arrays)
    envs.reset(seed=0)
    rows = []
    for _ in range(LIMIT):
        _, _, terminated, truncated, infos = envs.step(np.ones(LANES, np.int32))
        rows.append((terminated, truncated))
        if mode is None and (ended := np.asarray(terminated | truncated)).any():
            envs.reset(options={"reset_mask": ended})
        if mode == "same_step" and np.any(ended := np.asarray(terminated | truncated)):
            assert np.array_equal(infos["_final_obs"], ended)
    terminated, truncated = first_ends(rows)
    np.testing.assert_array_equal(terminated, TERMINATED)
    np.testing.assert_array_equal(truncated, TRUNCATED)


@pytest.mark.parametrize("lane", range(LANES))
def test_a_single_environment_reports_a_termination_where_both_ends_meet(lane):
    env, rows, ended = to_gymnasium(ending_alone(lane)), [], False
    env.reset(seed=0)
    while not ended:
        *_, terminated, truncated, info = env.step(1)
        rows.append((terminated, truncated))
        ended = terminated or truncated
    expected = list(zip(TERMINATED[:, lane].tolist(), TRUNCATED[:, lane].tolist(), strict=True))
    assert rows == expected[: len(rows)]
    assert info["time_limit_reached"] == (len(rows) == LIMIT)


@pytest.mark.parametrize("lane", range(LANES))
def test_dm_env_has_discount_0_where_both_ends_meet(lane):
    env = to_dm_env(ending_alone(lane))
    row, discounts = env.reset(), []
    while not row.last():
        row = env.step(1)
        discounts.append(row.discount)
    assert discounts == (1.0 - TERMINATED[:, lane])[: len(discounts)].tolist()
    assert len(discounts) == 1 + np.argmax((TERMINATED | TRUNCATED)[:, lane])


@pytest.mark.parametrize("method", ["step", "step_env"])
@pytest.mark.parametrize("lane", range(LANES))
def test_gymnax_reports_a_termination_where_both_ends_meet(lane, method):
    for api in ("1.x", "0.x"):
        env = to_gymnax(ending_alone(lane), api=api)
        _, state = env.reset(jax.random.key(0))
        for t in range(LIMIT):
            _, state, _, *ends, info = getattr(env, method)(jax.random.key(t), state, jnp.int32(1))
            terminated, truncated = bool(TERMINATED[t, lane]), bool(TRUNCATED[t, lane])
            if api == "0.x":
                assert [bool(x) for x in ends] == [terminated or truncated]
            else:
                assert [bool(x) for x in ends] == ([terminated, truncated] if method == "step" else [terminated])
                assert (bool(info["terminated"]), bool(info["truncated"])) == (terminated, truncated)
            assert float(info["discount"]) == 1 - terminated
            if terminated or truncated:
                break
