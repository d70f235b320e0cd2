"""The learner learns where actions are continuous, and refuses what does not fit. CartPole is in test_seeds.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.testing import mock_012, random_environment
from jaxenv.training import ppo
from jaxenv.wrappers import AutoReset

# --- continuous actions, trees of observations -----------------------------------------------------------------------


def test_actions_near_the_target_are_learned_where_they_are_continuous():
    class Aim(jaxenv.Environment):
        """Pays most for the action (0.5, -0.5); one step an episode."""

        def initial(self, key):
            return jnp.zeros(key.shape, jnp.float32)

        def transition(self, state, action, key):
            miss = jnp.sum((action - jnp.array([[0.5, -0.5]], jnp.float32)) ** 2, axis=-1)
            return jaxenv.Transition(state, -miss, jnp.ones(key.shape, bool))

        def observe(self, state):
            return {"nothing": state, "sign": jnp.ones((*state.shape, 2), jnp.float32)}

        def observation_spec(self):
            return {"nothing": specs.Array((), np.float32), "sign": specs.Array((2,), np.float32)}

        def action_spec(self):
            return specs.Bounded((2,), np.float32, -1, 1)

    config = ppo.Config(
        total_steps=8192,
        num_envs=64,
        num_steps=8,
        hidden=(),
        learning_rate=1e-2,
        num_evaluations=1,
        num_eval_episodes=4,
    )
    envs = [AutoReset(Aim(num_envs=lanes)) for lanes in (64, 4)]
    _, curve = jax.jit(ppo.make_train(config, *envs))(jax.random.key(0))
    assert curve.returns.min() > -0.02


@pytest.mark.parametrize(
    "spec", [specs.discrete(3), specs.Bounded((), np.int32, 4, 6), specs.Bounded((2,), np.float32, -1, 1)]
)
def test_probabilities_are_those_of_the_samples(spec):
    pi = ppo._distribution(spec)
    inputs = jnp.broadcast_to(jnp.linspace(-1.0, 0.5, pi.num_inputs), (4096, pi.num_inputs))

    @jax.jit
    def look(key):
        action = pi.sample(inputs, jaxenv.random.stream(jax.random.split(key, 4096)))
        return action, pi.log_probability(inputs, action), pi.entropy(inputs), pi.mode(inputs)

    action, log_p, entropy, mode = jax.device_get(look(jax.random.key(0)))
    assert action.dtype == spec.dtype
    assert action.shape == (4096, *spec.shape)
    # Entropy is the mean of -log p over the samples.
    np.testing.assert_allclose(-log_p.mean(), entropy[0], atol=0.05)
    if spec.is_discrete:
        values, counts = np.unique(action, return_counts=True)
        assert values.tolist() == list(range(int(spec.minimum), int(spec.maximum) + 1))
        for value, count in zip(values, counts, strict=True):
            np.testing.assert_allclose(count / 4096, np.exp(log_p[action == value][0]), atol=0.03)
        assert mode[0] == spec.maximum
    else:
        np.testing.assert_allclose(action.mean(axis=0), mode[0], atol=0.05)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, "num_envs must be an integer of at least 1, got 0"),
        ({"num_steps": 2.0}, "num_steps must be an integer of at least 1, got 2.0"),
        ({"learning_rate": -1.0}, "learning_rate must be a number of at least 0, got -1.0"),
        ({"hidden": (64, 0)}, r"hidden must be widths of at least 1, got \(64, 0\)"),
        ({"gamma": 1.5}, r"gamma must be in \[0, 1\], got 1.5"),
        ({"total_steps": 10_239}, "total_steps must be at least 10240, .* got 10239"),
        ({"num_minibatches": 3}, r"num_minibatches must divide num_envs \* num_steps = 1024, got 3"),
    ],
)
def test_a_setting_that_cannot_be_is_named(options, message):
    with pytest.raises(ValueError, match=f"ppo.Config: {message}"):
        ppo.Config(**options)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (lambda: AutoReset(mock_012(16), "same_step"), "autoreset 'next_step', got 'same_step'"),
        (lambda: mock_012(16), "autoreset 'next_step', got None"),
        (lambda: AutoReset(mock_012(3)), "config.num_envs is 16, .* has 3 lanes"),
        (
            lambda: AutoReset(
                random_environment(
                    specs.discrete(2), specs.discrete(2), specs.Bounded((2,), np.float32, 0, 1), num_envs=16
                )
            ),
            "reward must be one number a lane",
        ),
        (
            lambda: AutoReset(random_environment(specs.discrete(2), specs.Bounded((2,), np.int32, 0, 1), num_envs=16)),
            "actions must be one discrete number or continuous",
        ),
    ],
)
def test_an_environment_that_it_cannot_learn_is_refused(env, message):
    with pytest.raises(ValueError, match=message):
        ppo.make_legs(ppo.Config(), env(), env())
