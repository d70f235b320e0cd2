"""Returns and advantages, compared with plain loops, for both kinds of stream and all kinds of episode ends."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import data
from jaxenv.core.timestep import TimeStep
from jaxenv.rollout import Experience

FIRST, MID, LAST = 0, 1, 2
MODES = ["next_step", "same_step"]
T = 6


def lane(mode, ends, interrupted=None):
    """Step types and discounts of T + 1 rows; ``ends`` maps rows that end an episode to their discounts."""
    step_type, discount, begins = [], [], 0 not in ends
    for t in range(T + 1):
        begins |= t == interrupted
        step_type.append(FIRST if begins else LAST if t in ends else MID)
        discount.append(1.0 if begins else ends.get(t, 1.0))
        begins = step_type[-1] == LAST and mode == "next_step"
    return step_type, discount


def lanes(mode):
    """Both kinds of end at the first, a middle and the last row, and lanes with several ends."""
    lanes = [lane(mode, {at: discount}) for at in (0, 1, 3, T - 1, T) for discount in (0.0, 1.0)]
    if mode == "next_step":
        lanes += [lane(mode, {1: 1.0, 3: 0.0, 5: 1.0}), lane(mode, {2: 0.0, 4: 1.0, 6: 0.5})]
        lanes += [lane("same_step", {2: 1.0, 4: 0.0})]  # stepped past the end without AutoReset
    else:
        lanes += [lane(mode, {1: 1.0, 2: 0.0, 3: 1.0}), lane(mode, {t: t % 2.0 for t in range(T + 1)})]
    lanes += [lane(mode, {}), lane(mode, {4: 1.0}, interrupted=2)]
    return np.array(lanes).transpose(1, 2, 0)


@functools.cache
def stream(mode):
    """Rows ``[T + 1, B]`` with random rewards, values, final values and log ratios."""
    step_type, discount = lanes(mode)
    generator = np.random.default_rng(0)
    reward, values, final_values, log_rhos = generator.normal(size=(4, *step_type.shape)).astype(np.float32)
    discount = np.where((step_type == MID) & (generator.uniform(size=step_type.shape) < 0.2), 0.5, discount)
    rows = TimeStep(
        step_type.astype(np.int32), np.where(step_type == FIRST, 0, reward), discount.astype(np.float32), env_info={}
    )
    return rows, values, final_values if mode == "same_step" else None, log_rhos[:-1]


def shaped(*shape):
    return np.zeros(shape, np.float32)


def split(rows):
    return jax.tree.map(lambda x: x[:-1], rows), jax.tree.map(lambda x: x[-1], rows)


# --- the reference: definitions, walked forward row by row in float64 ----------------------------------------------


class Lane:
    """One lane of a stream. Every quantity is computed by its definition, not by a recursion."""

    def __init__(self, rows, values, final_values, log_rhos, index, gamma):
        pick = lambda x: np.asarray(x, np.float64)[:, index]  # noqa: E731
        self.step_type, self.reward, self.discount = pick(rows.step_type), pick(rows.reward), pick(rows.discount)
        self.values, self.rho, self.gamma = pick(values), np.exp(pick(log_rhos)), gamma
        self.final_values = None if final_values is None else pick(final_values)

    def is_valid(self, t):
        ignored = self.step_type[t] == LAST and self.final_values is None
        return t < T and self.step_type[t + 1] != FIRST and not ignored

    def value_after(self, t):
        ended = self.step_type[t + 1] == LAST
        return (self.values if self.final_values is None or not ended else self.final_values)[t + 1]

    def steps(self, t):
        """The rows from t on whose actions belong to the same episode."""
        while self.is_valid(t):
            yield t
            if self.step_type[t + 1] == LAST:
                return
            t += 1

    def windows(self, t):
        """Returns over 1, 2, ... steps, up to the end of the episode."""
        total, weight = 0.0, 1.0
        for s in self.steps(t):
            total += weight * self.reward[s + 1]
            weight *= self.gamma * self.discount[s + 1]
            yield total + weight * self.value_after(s)

    def n_step(self, t, n):
        return [self.values[t], *list(self.windows(t))[:n]][-1]

    def mixed(self, t, lambda_):
        windows = list(self.windows(t)) or [self.values[t]]
        weights = [(1 - lambda_) * lambda_**m for m in range(len(windows) - 1)] + [lambda_ ** (len(windows) - 1)]
        return np.dot(weights, windows)

    def vs(self, t, lambda_, clip_rho, clip_c):
        total, weight = self.values[t] if t <= T else 0.0, 1.0
        for s in self.steps(t):
            decay = self.gamma * self.discount[s + 1]
            delta = self.reward[s + 1] + decay * self.value_after(s) - self.values[s]
            total += weight * min(clip_rho, self.rho[s]) * delta
            weight *= decay * lambda_ * min(clip_c, self.rho[s])
        return total

    def policy_gradient(self, t, lambda_, clip_rho, clip_c, clip_pg_rho):
        if not self.is_valid(t):
            return 0.0
        ended = self.step_type[t + 1] == LAST
        later = self.value_after(t) if ended else self.vs(t + 1, lambda_, clip_rho, clip_c)
        target = self.reward[t + 1] + self.gamma * self.discount[t + 1] * later
        return min(clip_pg_rho, self.rho[t]) * (target - self.values[t])


CLIPS = {"clip_rho": 0.9, "clip_c": 1.1, "clip_pg_rho": 1.3}
STEPS = (1, 3, 20)


@jax.jit
def everything(rows, values, final_values, log_rhos, gamma, lambda_):
    timestep, last = split(rows)
    same = {"gamma": gamma, "final_values": final_values}
    return {
        "discounted_return": data.discounted_return(timestep, last, values, **same),
        "td_lambda": data.td_lambda(timestep, last, values, lambda_=lambda_, **same),
        "gae": data.gae(timestep, last, values, lambda_=lambda_, **same),
        "vtrace": data.vtrace(timestep, last, values, log_rhos, lambda_=lambda_, **CLIPS, **same),
        **{f"{n} steps": data.n_step_return(timestep, last, values, n=n, **same) for n in STEPS},
    }


def expected(rows, values, final_values, log_rhos, gamma, lambda_):
    num_lanes = values.shape[1]
    references = [Lane(rows, values, final_values, log_rhos, i, gamma) for i in range(num_lanes)]
    clips = CLIPS["clip_rho"], CLIPS["clip_c"]

    def table(fn):
        return np.array([[fn(x, t) for x in references] for t in range(T)])

    returns = table(lambda x, t: x.mixed(t, lambda_))
    return {
        "discounted_return": table(lambda x, t: x.mixed(t, 1.0)),
        "td_lambda": returns,
        "gae": (returns - values[:-1], returns),
        "vtrace": (
            table(lambda x, t: x.policy_gradient(t, lambda_, *clips, CLIPS["clip_pg_rho"])),
            table(lambda x, t: x.vs(t, lambda_, *clips)),
        ),
        **{f"{n} steps": table(lambda x, t, n=n: x.n_step(t, n)) for n in STEPS},
    }


@pytest.mark.parametrize("lambda_", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("mode", MODES)
def test_all_functions_equal_their_definitions_for_every_kind_and_position_of_episode_end(mode, gamma, lambda_):
    result = everything(*stream(mode), np.float32(gamma), np.float32(lambda_))
    for name, expected_result in expected(*stream(mode), gamma, lambda_).items():
        for x in jax.tree.leaves(result[name]):
            assert x.dtype == np.float32
            assert not x.weak_type
        leaves = map(jax.tree.leaves, (result[name], expected_result))
        chex.assert_trees_all_close(*leaves, rtol=1e-5, atol=1e-5, custom_message=name)


def test_invalid_transitions_have_their_value_as_return_and_advantage_zero_exactly():
    rows, values, final_values, log_rhos = stream("next_step")
    result = everything(rows, values, final_values, log_rhos, np.float32(0.9), np.float32(0.7))
    invalid = ~np.asarray(data.transition_mask(*split(rows)))
    assert invalid.sum() > 8
    for advantages, returns in (result["gae"], result["vtrace"]):
        np.testing.assert_array_equal(advantages[invalid], 0)
        np.testing.assert_array_equal(returns[invalid], values[:-1][invalid])
    for name in ("discounted_return", "td_lambda", "1 steps", "20 steps"):
        np.testing.assert_array_equal(result[name][invalid], values[:-1][invalid])


def test_v_trace_with_ratios_of_at_least_one_equals_generalised_advantage_estimation():
    rows, values, _, log_rhos = stream("next_step")
    timestep, last = split(rows)
    result = jax.jit(functools.partial(data.vtrace, gamma=0.9))(timestep, last, values, log_rhos.clip(0))
    expected_result = everything(rows, values, None, log_rhos, np.float32(0.9), np.float32(1))["gae"]
    np.testing.assert_allclose(result, expected_result, rtol=1e-5, atol=1e-5)


def test_v_trace_does_not_read_the_ratio_of_an_ignored_action():
    rows, values, _, log_rhos = stream("next_step")
    timestep, last = split(rows)
    with_nan = jnp.where(data.transition_mask(timestep, last), log_rhos, np.float32(np.nan))

    @jax.jit
    @jax.grad
    def gradient(log_rhos):
        return sum(x.sum() for x in data.vtrace(timestep, last, values, log_rhos, gamma=0.9, clip_rho=np.inf))

    assert jnp.isfinite(gradient(with_nan)).all()


# --- values that do not count ----------------------------------------------------------------------------------------


def with_nan(mode):
    """The stream with NaN in each value that the end of a task, or the mode, keeps out of the targets."""
    rows, values, final_values, log_rhos = stream(mode)
    terminated = (rows.step_type == LAST) & (rows.discount == 0)
    if mode == "next_step":
        return rows, np.where(terminated, np.float32(np.nan), values), None, log_rhos
    truncated = (rows.step_type == LAST) & ~terminated
    return rows, values, np.where(truncated, final_values, np.float32(np.nan)), log_rhos


@pytest.mark.parametrize("lambda_", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("mode", MODES)
def test_a_value_that_does_not_count_may_be_nan(mode, lambda_):
    coefficients = np.float32(0.9), np.float32(lambda_)
    given, wanted = everything(*with_nan(mode), *coefficients), everything(*stream(mode), *coefficients)
    unread = np.isnan(with_nan(mode)[1][:-1])
    assert np.isnan(np.concatenate([x.ravel() for x in with_nan(mode)[1:3] if x is not None])).sum() > 5
    for name, result in wanted.items():
        for found, right in zip(jax.tree.leaves(given[name]), jax.tree.leaves(result), strict=True):
            np.testing.assert_array_equal(found[~unread], right[~unread], err_msg=name)
            np.testing.assert_array_equal(found[unread], 0, err_msg=name)


@pytest.mark.parametrize("mode", MODES)
def test_a_value_that_does_not_count_leaves_gradients_as_they_are(mode):
    def total(coefficients, log_rhos, values, final_values, rows):
        results = everything(rows, values, final_values, log_rhos, *coefficients)
        valid = data.transition_mask(*split(rows), mode)
        return sum(jnp.sum(x, where=valid) for x in jax.tree.leaves(results))

    slopes = jax.grad(total, argnums=(0, 1))
    # At 0, too, gamma and lambda have the slopes of the values that they would let in.
    for coefficients in ((0.9, 0.7), (0.0, 0.7), (0.9, 0.0), (0.9, 1.0)):
        coefficients = tuple(map(np.float32, coefficients))
        (rows, values, final_values, log_rhos), clean = with_nan(mode), stream(mode)
        found = slopes(coefficients, log_rhos, values, final_values, rows)
        right = slopes(coefficients, clean[3], clean[1], clean[2], rows)
        chex.assert_trees_all_close(found, right, rtol=1e-5, atol=1e-5)
    assert np.isfinite(jax.grad(total, argnums=2)(coefficients, log_rhos, values, final_values, rows)).all()


def test_the_values_inside_an_episode_are_not_read_by_its_discounted_return():
    rows = TimeStep(
        np.array([[FIRST], [MID], [MID], [LAST]], np.int32),
        np.array([[0], [1], [2], [4]], np.float32),
        np.array([[1], [1], [1], [1]], np.float32),
        env_info={},
    )
    values = np.array([[np.nan], [np.nan], [np.nan], [8]], np.float32)
    assert data.discounted_return(*split(rows), values, gamma=0.5)[:, 0].tolist() == [4, 6, 8]


@pytest.mark.parametrize("solve", [data.returns._one_by_one, data.returns._in_parallel])
def test_a_nan_stays_in_its_episode(solve):
    continues = np.array([True, True, False, True, False, True, False])[:, None]
    factor = np.where(continues, np.float32(0.5), 0).astype(np.float32)
    offset = np.array([1, 1, 1, np.nan, 1, 1, 1], np.float32)[:, None]
    found = solve(jnp.asarray(offset), jnp.asarray(factor), jnp.asarray(continues), jnp.full(1, jnp.nan))
    np.testing.assert_array_equal(found[:, 0], [1.75, 1.5, 1, np.nan, 1, 1.5, 1])


# --- the table -----------------------------------------------------------------------------------------------------


def test_step_type_and_discount_determine_which_values_bootstrap_and_which_are_learned():
    kinds = [(FIRST, 1), (MID, 1), (LAST, 0), (LAST, 1)]
    step_type, discount = np.array(kinds).T
    after = np.where(step_type == LAST, FIRST, MID)
    rows = TimeStep(
        np.stack([np.full(4, MID), step_type, after]).astype(np.int32),
        np.zeros((3, 4), np.float32),
        np.stack([np.ones(4), discount, np.ones(4)]).astype(np.float32),
        env_info={},
    )
    timestep, last = split(rows)
    targets = functools.partial(data.td_lambda, timestep, last, gamma=0.5, lambda_=0.0)
    slopes = jax.jit(jax.jacobian(targets))(shaped(3, 4))
    slopes = np.einsum("tbsb->tsb", slopes)
    assert (slopes[0, 1] == 0.5).tolist() == [False, True, False, True], "its value bootstraps the previous value"
    assert (slopes[1, 1] == 0).tolist() == [True, True, False, False], "its value is learned"
    np.testing.assert_array_equal(rows.bootstrap_mask[1], slopes[0, 1] != 0)
    np.testing.assert_array_equal(rows.learn_mask[1], slopes[1, 1] == 0)


def test_returns_bootstrap_from_the_row_before_an_abnormal_one():
    rows = TimeStep(
        np.array([[FIRST], [MID], [LAST], [FIRST]], np.int32),
        np.array([[0], [1], [0], [0]], np.float32),
        np.ones((4, 1), np.float32),
        env_info={"abnormal": np.array([[False], [False], [True], [False]])},
    )
    advantages, returns = data.gae(*split(rows), np.array([[1], [2], [40], [80]], np.float32), gamma=0.5, lambda_=1.0)
    assert returns[:, 0].tolist() == [1 + 0.5 * 2, 2, 40]
    assert advantages[:, 0].tolist() == [1, 0, 0]


def test_final_values_for_rows_of_next_step_mode_are_refused():
    step_type = np.array([[FIRST, FIRST], [LAST, MID], [FIRST, LAST], [MID, FIRST]], np.int32)
    rows, values = TimeStep(step_type, *np.zeros((2, 4, 2), np.float32), env_info={}), np.zeros((4, 2), np.float32)
    with pytest.raises(ValueError, match=r"gae: the rows .*got a FIRST row after every"):
        data.gae(*split(rows), values, gamma=0.9, lambda_=0.9, final_values=values)
    with pytest.raises(ValueError, match=r"transition_mask: the rows .*got a FIRST"):
        data.transition_mask(*split(rows), mode="same_step")
    # Lanes that were restarted by hand on the row after an end are none of AutoReset.
    restarted = TimeStep(
        np.array([[MID, MID], [LAST, LAST], [FIRST, MID], [MID, MID]], np.int32),
        *np.ones((2, 4, 2), np.float32),
        env_info={},
    )
    assert data.transition_mask(*split(restarted), mode="same_step").shape == (3, 2)


# --- shapes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_the_components_of_a_vector_reward_are_independent(mode):
    rows, values, final_values, log_rhos = stream(mode)
    pair = lambda x: None if x is None else np.stack([x, 2 * x + 1], -1)  # noqa: E731
    rewards = np.stack([rows.reward, np.where(rows.step_type == FIRST, 0, 3 * rows.reward)], -1)
    vector = TimeStep(rows.step_type, rewards, rows.discount, env_info={})
    result = everything(vector, pair(values), pair(final_values), log_rhos, np.float32(0.9), np.float32(0.7))
    for r in range(2):
        one = TimeStep(rows.step_type, rewards[..., r], rows.discount, env_info={})
        ends = None if final_values is None else pair(final_values)[..., r]
        expected_result = everything(one, pair(values)[..., r], ends, log_rhos, np.float32(0.9), np.float32(0.7))
        component = jax.tree.map(lambda x, r=r: x[..., r], result)
        chex.assert_trees_all_close(component, expected_result, rtol=1e-5, atol=1e-5)


def test_gamma_and_lambda_may_differ_between_lanes():
    rows, values, final_values, log_rhos = stream("next_step")
    count = values.shape[1]
    rates = np.linspace(0, 1, count, dtype=np.float32), np.linspace(1, 0, count, dtype=np.float32)
    result = everything(rows, values, final_values, log_rhos, *rates)
    for i in (0, 5, count - 1):
        expected_result = everything(rows, values, final_values, log_rhos, rates[0][i], rates[1][i])
        own, expected_own = (jax.tree.map(lambda x, i=i: x[:, i], found) for found in (result, expected_result))
        chex.assert_trees_all_close(own, expected_own, rtol=1e-5, atol=1e-5)


def call(change):
    rows, values, _, log_rhos = stream("next_step")
    timestep, last = split(rows)
    arguments = {"timestep": timestep, "last": last, "values": values, "gamma": 0.9, "log_rhos": log_rhos, **change}
    return data.vtrace(**arguments)


B = lanes("next_step").shape[-1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": shaped(T, B)}, rf"vtrace: values .*got \({T}, {B}\)"),
        ({"values": shaped(T + 1, B, 1)}, rf"values .*got \({T + 1}, {B}, 1\)"),
        ({"final_values": shaped(T, B)}, rf"final_values .*got \({T}, {B}\)"),
        ({"log_rhos": shaped(T + 1, B)}, rf"log_rhos .*got \({T + 1}, {B}\)"),
        ({"gamma": shaped(2)}, r"gamma .*got \(2,\)"),
        ({"gamma": 99.0}, r"gamma .*got 99.0"),
        ({"lambda_": -0.1}, r"lambda_ .*got -0.1"),
        ({"gamma": "abc"}, r"gamma .*got 'abc'"),
        ({"gamma": True}, r"gamma .*got True"),
        ({"lambda_": np.nan}, r"lambda_ .*got nan"),
        ({"gamma": None}, r"gamma .*got None"),
        ({"clip_rho": -1.0}, r"vtrace: clip_rho .*got -1\.0"),
        ({"clip_c": "a"}, r"vtrace: clip_c .*got 'a'"),
        ({"timestep": Experience(stream("next_step")[0])}, r"vtrace: timestep .*got Experience"),
        (
            {"last": stream("next_step")[0]},
            rf"last.step_type .*got \({T + 1}, {B}\)",
        ),
        (
            {"timestep": TimeStep(np.zeros((T, B), np.int32), shaped(T, B))},
            r"timestep.discount is missing, keep.* unroll\(fields=...\)",
        ),
        (
            {"timestep": TimeStep(np.zeros((T, B), np.int32), shaped(T, B), shaped(T, 1))},
            rf"timestep.discount has shape \({T}, 1\), timestep.step_type \({T}, {B}\)",
        ),
    ],
)
def test_an_argument_that_does_not_fit_raises_with_both_shapes(change, message):
    with pytest.raises(ValueError, match=message):
        call(change)


@pytest.mark.parametrize("n", [0, 2.0, True])
def test_an_invalid_number_of_steps_raises(n):
    rows, values, _, _ = stream("next_step")
    with pytest.raises(ValueError, match=rf"n_step_return: n .*got {n}"):
        data.n_step_return(*split(rows), values, n=n, gamma=0.9)


RETURNS = {
    "discounted_return": data.discounted_return,
    "n_step_return": functools.partial(data.n_step_return, n=2),
    "td_lambda": functools.partial(data.td_lambda, lambda_=0.9),
    "gae": functools.partial(data.gae, lambda_=0.9),
    "vtrace": functools.partial(data.vtrace, log_rhos=shaped(T, B)),
}


@pytest.mark.parametrize("name", RETURNS)
def test_rows_of_a_same_step_stream_raise_without_final_values(name):
    rows, values, _, _ = stream("next_step")
    rows = dataclasses.replace(rows, env_info={"final_observation": values})
    with pytest.raises(ValueError, match=rf"{name}: the rows hold env_info\['final_observation'\], pass final_values"):
        RETURNS[name](*split(rows), values, gamma=0.9)


def test_values_may_be_constant_under_shard_map():
    mesh = jax.make_mesh((1,), ("lanes",), axis_types=(jax.sharding.AxisType.Auto,))
    lanes = jax.sharding.PartitionSpec(None, "lanes")
    fns = [functools.partial(fn, values=shaped(T + 1, B), gamma=0.9) for fn in RETURNS.values()]

    def everywhere(rows):
        return [fn(*split(rows)) for fn in fns]

    rows = stream("next_step")[0]
    result = jax.jit(jax.shard_map(everywhere, mesh=mesh, in_specs=lanes, out_specs=lanes))(rows)
    chex.assert_trees_all_close(result, jax.jit(everywhere)(rows), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_returns_of_other_platforms_agree_with_those_of_a_cpu(monkeypatch, mode):
    rows, values, final, log_rhos = stream(mode)
    options = {} if mode == "next_step" else {"final_values": final}
    fns = RETURNS | {"vtrace": functools.partial(data.vtrace, log_rhos=log_rhos)}
    weights = jnp.linspace(-1, 1, log_rhos.size).reshape(log_rhos.shape)

    def weighed(values):
        found = [fn(*split(rows), values, gamma=0.9, **options) for fn in fns.values()]
        return sum(jnp.sum(weights * x) for x in jax.tree.leaves(found)), found

    on_cpu = jax.grad(weighed, has_aux=True)(values)
    chosen = []

    def of_another(*arguments, cpu, default):
        chosen.append(default)
        return default(*arguments)

    monkeypatch.setattr(jax.lax, "platform_dependent", of_another)
    jax.clear_caches()
    elsewhere = jax.grad(weighed, has_aux=True)(values)
    jax.clear_caches()
    chex.assert_trees_all_close(on_cpu, elsewhere, rtol=5e-6, atol=5e-6)
    assert chosen
