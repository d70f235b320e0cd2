"""Distributions over actions: probabilities belong to the samples, and masked actions have none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.testing import count_to_two
from jaxenv.training import distributions

PAIR = specs.Bounded((2,), np.int32, np.array([0, 5]), np.array([2, 6]))
BOX = specs.Bounded((2,), np.float32, np.array([-1, 2], np.float32), np.array([1, 6], np.float32))
NUM = 4096


def drawn(spec, squash=False):
    """Samples of 4096 lanes, their actions and probabilities, and the mode."""
    pi = distributions.of_spec("learner", spec, squash)
    inputs = jnp.broadcast_to(jnp.linspace(-1.0, 0.5, pi.num_inputs), (NUM, pi.num_inputs))

    @jax.jit
    def draw(key):
        sample = pi.sample(inputs, jaxenv.random.stream(jax.random.split(key, NUM)))
        log_p, mode = pi.log_probability(inputs, sample), pi.to_action(pi.mode(inputs))
        return sample, pi.to_action(sample), log_p, pi.entropy(inputs), mode

    sample, action, log_p, entropy, mode = jax.device_get(draw(jax.random.key(0)))
    assert action.dtype == mode.dtype == spec.dtype
    assert action.shape == mode.shape == (NUM, *spec.shape)
    assert (action >= spec.minimum).all()
    assert (action <= spec.maximum).all()
    return pi, sample, action, log_p, entropy, mode


FLAGS = specs.Bounded((2,), np.bool_, False, True)


@pytest.mark.parametrize(
    "spec",
    [specs.discrete(3), specs.Bounded((), np.int8, 4, 6), PAIR, specs.Bounded((), np.bool_, False, True), FLAGS],
)
def test_integers_are_as_frequent_as_their_probability(spec):
    _, _, action, log_p, entropy, mode = drawn(spec)
    action, mode = action.reshape(NUM, -1), mode.reshape(NUM, -1)
    values, index, counts = np.unique(action, axis=0, return_index=True, return_counts=True)
    lowest, highest = (np.broadcast_to(x, spec.shape).reshape(-1).astype(int) for x in (spec.minimum, spec.maximum))
    assert len(values) == np.prod(highest - lowest + 1)
    np.testing.assert_allclose(counts / NUM, np.exp(log_p[index]), atol=0.03)
    np.testing.assert_allclose(np.exp(log_p[index]).sum(), 1, atol=1e-5)
    np.testing.assert_allclose(-log_p.mean(), entropy[0], atol=0.05)
    np.testing.assert_array_equal(mode[0], highest)  # the logits increase


def test_normal_numbers_are_clipped_after_their_probability_was_taken():
    wide = specs.Bounded((2,), np.float32, -9, 9)
    _, sample, action, log_p, entropy, mode = drawn(wide)
    np.testing.assert_array_equal(action, sample.reshape(NUM, 2))
    np.testing.assert_allclose(mode[0], [-1, -0.5], rtol=1e-6)  # the first of the inputs -1 to 0.5
    np.testing.assert_allclose(action.mean(axis=0), mode[0], atol=0.1)
    np.testing.assert_allclose(-log_p.mean(), entropy[0], atol=0.05)
    _, sample, action, clipped, *_ = drawn(BOX)
    assert (action[:, 0] == 1).any()
    np.testing.assert_array_equal(action, np.clip(sample, BOX.minimum, BOX.maximum))
    np.testing.assert_allclose(clipped, log_p, rtol=1e-5)


def test_standard_deviations_have_a_least_and_a_greatest_value():
    pi = distributions.of_spec("learner", BOX)
    inputs = [np.float32([1, 2, log_std, log_std]) for log_std in (-60, -5, 2, 60)]
    sampled = [pi.displaced(x, np.float32([1, -1])).tolist() for x in inputs]
    assert sampled[0] == sampled[1] != sampled[2] == sampled[3]
    assert pi.entropy(inputs[0]) == pi.entropy(inputs[1]) < pi.entropy(inputs[2]) == pi.entropy(inputs[3])


def test_squashed_numbers_have_the_density_of_the_action():
    pi, sample, action, *_ = drawn(BOX, squash=True)
    np.testing.assert_allclose(action, BOX.minimum + (np.tanh(sample) + 1) / 2 * (BOX.maximum - BOX.minimum), rtol=1e-4)
    # The density over actions in (-1, 1)^2 integrates to 1. Its points are tanh(u), so da = (1 - tanh(u)^2) du.
    u = np.linspace(-6, 6, 241, dtype=np.float32)
    grid = np.stack(np.meshgrid(u, u), axis=-1).reshape(-1, 2)
    inputs = np.broadcast_to(np.array([0.3, -0.2, -0.5, -1.0], np.float32), (len(grid), 4))
    density = np.exp(np.asarray(pi.log_probability(inputs, grid)))
    assert (density * np.prod(1 - np.tanh(grid) ** 2, axis=-1)).sum() * (u[1] - u[0]) ** 2 == pytest.approx(1, abs=1e-3)


def test_a_squashed_number_at_the_bound_has_a_finite_probability():
    pi = distributions.of_spec("learner", BOX, squash=True)
    inputs, far = jnp.zeros((2, 4)), jnp.array([[30.0, 30.0], [-30.0, -30.0]])
    np.testing.assert_array_equal(pi.to_action(far), [BOX.maximum, BOX.minimum])
    assert np.isfinite(pi.log_probability(inputs, far)).all()


def test_the_number_of_log_standard_deviations_is_a_fact_of_a_class():
    assert distributions.Categorical(3).num_log_std == 0
    with pytest.raises(TypeError, match="num_log_std"):
        distributions.Categorical(3, num_log_std=1)


# --- masks -----------------------------------------------------------------------------------------------------------


def test_a_masked_action_is_not_drawn_and_has_no_gradient():
    pi, mask = distributions.Categorical(4), jnp.array([[True, False, True, False]])

    def entropy(logits):
        return pi.entropy(distributions.masked(logits, mask)).sum()

    logits = jnp.array([[0.0, 5.0, 1.0, 6.0]])
    masked = jnp.broadcast_to(distributions.masked(logits, mask), (512, 4))
    stream = jaxenv.random.stream(jax.random.split(jax.random.key(0), 512))
    assert np.unique(pi.sample(masked, stream)).tolist() == [0, 2]
    assert int(pi.mode(masked)[0]) == 2
    two = distributions.Categorical(2).entropy(jnp.array([[0.0, 1.0]]))[0]
    assert float(entropy(logits)) == pytest.approx(float(two), rel=1e-5)
    gradient = np.asarray(jax.grad(entropy)(logits))[0]
    assert (gradient[[1, 3]] == 0).all()
    assert (np.abs(gradient[[0, 2]]) > 0.1).all()
    assert distributions.masked(logits, ()) is logits


def test_only_a_single_integer_has_a_mask():
    _, timestep = jax.eval_shape(count_to_two(2).reset, jax.random.key(0))
    mask = jnp.ones((2, 3), bool)
    with_mask = jaxenv.tree.rebuild(timestep, env_info={"action_mask": mask})
    assert distributions.legal_actions(specs.discrete(3), with_mask) is mask
    assert distributions.legal_actions(specs.discrete(3), timestep) == ()
    assert distributions.legal_actions(PAIR, with_mask) == ()


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_tree_of_actions_and_infinite_bounds_are_refused():
    both = {"left": specs.discrete(2), "right": BOX}
    with pytest.raises(ValueError, match=r"learner: the action .*FlattenAction"):
        distributions.of_spec("learner", both)
    with pytest.raises(ValueError, match=r"learner: squash=True .*got Array\("):
        distributions.of_spec("learner", specs.Array((2,), np.float32), squash=True)
