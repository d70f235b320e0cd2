"""The linear policy reads the observation, keeps its bounds, and is the same on both sides of a comparison."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from benchmarks import linear, ours, peers
from jaxenv import specs

LANES, STEPS, SEED = 8, 12, 3
CART_POLE = jaxenv.spec("CartPole-v1").make().action_spec()


def layer(weights, observation, uniform):
    """Computes the actions of CartPole again, in NumPy."""
    outputs = np.asarray(observation, np.float64) @ np.asarray(weights, np.float64)
    return np.argmax(outputs - np.log(-np.log(np.asarray(uniform, np.float64))), axis=1).astype(np.int32)


def of_jaxenv(key, weights):
    env = jaxenv.make("CartPole-v1", num_envs=LANES)
    state, t = env.reset(key)
    for _ in range(STEPS):
        stream = jaxenv.rollout.policy_stream(env, state)
        state, t = env.step(state, layer(weights, t.observation, jaxenv.random.uniform(stream, (2,))))
        yield t.reward, t.terminated


def of_gymnax(key, weights):
    env, params = peers.gymnax_env("CartPole-v1")
    key, key_reset = jax.random.split(key)
    observation, state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key_reset, LANES), params)
    step = jax.jit(jax.vmap(env.step, in_axes=(0, 0, 0, None)))
    for _ in range(STEPS):
        key, key_action, key_step = jax.random.split(key, 3)
        action = layer(weights, observation, jax.random.uniform(key_action, (LANES, 2)))
        observation, state, reward, terminated, *_ = step(jax.random.split(key_step, LANES), state, action, params)
        yield reward, terminated


@pytest.mark.parametrize(("run", "again"), [(ours.rollout_of_id, of_jaxenv), (peers.gymnax, of_gymnax)])
def test_both_sides_act_by_the_same_layer_on_the_observation(run, again, monkeypatch):
    # Weights that decide nearly every action, so that a policy without them plays other episodes.
    drawn = linear.weights
    monkeypatch.setattr(linear, "weights", lambda *args: 50 * drawn(*args))
    key = jax.random.key(SEED)
    weights = linear.weights(key, jnp.zeros((LANES, 4)), CART_POLE)
    totals = run("CartPole-v1", LANES, STEPS, "linear").run(SEED)
    rewards, terminated = zip(*again(key, weights), strict=True)
    np.testing.assert_array_equal(totals["terminated"], np.sum(terminated, axis=0))
    np.testing.assert_array_equal(totals["reward"], np.sum(rewards, axis=0))
    assert totals["terminated"].any()


def test_flags_and_numbers_become_floats_in_one_row_per_lane():
    flags = jax.random.bernoulli(jax.random.key(0), 0.5, (LANES, 2, 3))
    numbers = jnp.arange(LANES * 4, dtype=jnp.uint8).reshape(LANES, 4)
    expected = np.concatenate([np.asarray(flags).reshape(LANES, -1), numbers], axis=1).astype(np.float32)
    row = linear.flat((flags, numbers))
    assert row.dtype == jnp.float32
    np.testing.assert_array_equal(row, expected)


def test_an_action_follows_the_observation():
    weights = linear.weights(jax.random.key(0), jnp.zeros((LANES, 4)), CART_POLE)
    observation = 100 * jax.random.normal(jax.random.key(1), (LANES, 4))

    def act(observation):
        return linear.act(CART_POLE, weights, observation, lambda n: jnp.full((LANES, n), 0.5))

    np.testing.assert_array_equal(act(observation), jnp.argmax(observation @ weights, axis=1))
    assert (act(observation) != act(-observation)).all()


def test_continuous_actions_are_noisy_around_the_output_and_within_the_bounds():
    spec = specs.Bounded((2,), np.float32, [-1, 0], [3, 10])
    observation = jnp.array([[0.0], [1e6], [0.0], [-1e6]])

    def act(uniform):
        return linear.act(spec, jnp.ones((1, 2)), observation, lambda n: jnp.full((4, n), uniform)).tolist()

    assert act(0.5) == [[1, 5], [3, 10], [1, 5], [-1, 0]]
    for uniform in (0.0, 1 - 2**-24):
        assert all(-1 <= a <= 3 and 0 <= b <= 10 for a, b in act(uniform))
    assert act(0.6)[0] > [1, 5] > act(0.4)[0]


def test_a_tree_of_actions_and_of_observations_has_one_layer():
    spec = {"a": specs.discrete(3, start=5), "b": specs.Bounded((2,), np.float32, -1, 1)}
    observation = {"x": jnp.ones((4, 2, 2), bool), "y": jnp.ones((4, 1), jnp.int32)}
    weights = linear.weights(jax.random.key(0), observation, spec)
    assert weights.shape == (5, 5)
    action = linear.act(spec, weights, observation, lambda n: jax.random.uniform(jax.random.key(1), (4, n)))
    specs.validate(spec, action, (4,))


def test_observations_of_both_sides_have_equally_many_elements():
    for id in ("Breakout-MinAtar", "FourRooms-misc", "Pendulum-v1"):
        env, params = peers.gymnax_env(id)
        theirs = jax.eval_shape(env.reset, jax.random.key(0), params)[0]
        mine = jaxenv.spec(id).make().observation_spec()
        assert sum(x.size for x in jax.tree.leaves(theirs)) == sum(np.prod(x.shape) for x in jax.tree.leaves(mine))


def test_the_row_holds_the_loop_and_the_share_of_the_product(run, capsys):
    (row,) = run("throughput", "--ids", "Pendulum-v1", "--peers", "gymnax", "gymnasium", "--loop", "linear")["rows"]
    assert row["loop"] == "linear"
    assert row["notes"] == ["gymnasium runs a random policy only"]
    seconds = {name: result["seconds"][0] for name, result in row["contestants"].items()}
    assert row["product_share"] == {
        name: pytest.approx(seconds["product"] / seconds[name]) for name in ("jaxenv", "gymnax")
    }
    assert "product" in capsys.readouterr().out
