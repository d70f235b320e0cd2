"""PPO learns continuous actions and refuses what does not fit; test_seeds.py trains CartPole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.testing import mock_012, random_environment
from jaxenv.testing._programs import equations
from jaxenv.training import ppo
from jaxenv.wrappers import AutoReset

# --- continuous actions, trees of observations -----------------------------------------------------------------------


def test_continuous_actions_are_learned_from_large_observations():
    class Aim(jaxenv.Task):
        """Pays most for the action (0.5, -0.5) on one side and for (-0.5, 0.5) on the other; one step an episode."""

        def initial(self, stream):
            return jaxenv.random.bernoulli(stream)

        def transition(self, state, action, stream):
            target = jnp.where(state[:, None], 1.0, -1.0) * jnp.array([[0.5, -0.5]], jnp.float32)
            return jaxenv.Transition(state, -jnp.sum((action - target) ** 2, axis=-1), jnp.ones(stream.shape, bool))

        def observe(self, state):
            return {"flag": ~state, "far": jnp.where(state, 3000.0, -1000.0)}

        def observation_spec(self):
            return {"flag": specs.Bounded((), bool, False, True), "far": specs.Array((), np.float32)}

        def action_spec(self):
            return specs.Bounded((2,), np.float32, -1, 1)

    config = ppo.Config(
        normalize_observation=True,
        total_steps=16_384,
        num_envs=64,
        num_steps=8,
        hidden=(),
        learning_rate=1e-2,
        num_evaluations=1,
        num_eval_episodes=32,
    )
    envs = [AutoReset(Aim(num_envs=lanes)) for lanes in (64, 32)]
    learner, curve = jax.jit(ppo.make_train(config, *envs))(jax.random.key(0))
    assert curve.returns.min() > -0.05
    moments = learner.statistics.value["far"].moments
    assert int(moments.count) == 16_384
    np.testing.assert_allclose([moments.mean, np.sqrt(moments.variance)], [1000, 2000], rtol=0.05)


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


# --- losses ----------------------------------------------------------------------------------------------------------


def test_losses_of_the_first_pass_are_those_of_an_unchanged_policy():
    # One minibatch in one pass: the policy that collected the rows is the one that is optimised.
    config = ppo.Config(total_steps=1024, num_epochs=1, num_minibatches=1, num_evaluations=1, num_eval_episodes=4)
    _, curve = jax.jit(ppo.make_train(config))(jax.random.key(0))
    losses = jax.tree.map(lambda x: x.item(), curve.losses)
    assert losses.clip_fraction == 0
    assert losses.kl == pytest.approx(0, abs=1e-6)
    assert losses.policy == pytest.approx(0, abs=1e-5)  # normalised advantages have mean 0
    assert losses.entropy == pytest.approx(np.log(2), abs=1e-2)  # the initial policy is nearly uniform
    assert losses.value > 0


def test_losses_of_many_passes_show_how_far_the_policy_moved():
    config = ppo.Config(total_steps=4096, num_epochs=8, learning_rate=0.01, num_evaluations=2, num_eval_episodes=4)
    _, curve = jax.jit(ppo.make_train(config))(jax.random.key(0))
    assert all(x.shape == (2,) for x in curve.losses)
    assert (curve.losses.kl > 0).all()
    assert ((curve.losses.clip_fraction > 0) & (curve.losses.clip_fraction < 1)).all()
    assert (curve.losses.entropy < np.log(2)).all()


# --- images ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("torso", "shape", "layers"),
    [
        ("auto", (40, 64), ppo._LARGE),
        ("auto", (32, 32, 3), ppo._LARGE),
        ("auto", (10, 10, 4), ppo._SMALL),
        ("mlp", (40, 64), ()),
        ("auto", (4, 17), ()),  # four stacked vectors
        ("auto", (7, 7, 3), ()),
        ("auto", (6,), ()),
    ],
)
def test_the_spec_chooses_the_convolutions(torso, shape, layers):
    assert ppo._filters(torso, specs.Bounded(shape, np.uint8, 0, 255)) == layers


def test_an_image_with_its_channels_first_and_a_cnn_without_an_image_are_refused():
    with pytest.raises(ValueError, match=r"channels of an image must come last, .* got Bounded\(\(4, 40, 64\)"):
        ppo._filters("auto", specs.Bounded((4, 40, 64), np.uint8, 0, 255))
    with pytest.raises(ValueError, match=r"must be an image .* for torso='cnn', got Array\(\(4,\)"):
        ppo._filters("cnn", specs.Array((4,), np.float32))
    with pytest.raises(ValueError, match=r"ppo\.Config: torso must be 'auto', 'mlp' or 'cnn', got 'rnn'"):
        ppo.Config(torso="rnn")


@pytest.mark.parametrize(("side", "stride"), [(8, 4), (4, 2), (3, 1)])
def test_a_patch_holds_the_pixels_under_a_filter(side, stride):
    image = np.arange(2 * 19 * 22 * 3).reshape(2, 19, 22, 3)
    patches = np.asarray(ppo._patches(jnp.asarray(image), side, stride))
    rows, columns = (19 // stride * stride - side) // stride + 1, (22 // stride * stride - side) // stride + 1
    assert patches.shape == (2, rows, columns, side * side * 3)
    for lane, row, column in np.ndindex(2, rows, columns):
        window = image[lane, row * stride :, column * stride :][:side, :side]
        np.testing.assert_array_equal(np.sort(patches[lane, row, column]), np.sort(window, axis=None))


def test_bytes_are_scaled_to_one():
    network = ppo.ActorCritic(2, 0, (8,), ppo._SMALL)
    image = jax.random.randint(jax.random.key(0), (3, 10, 12, 1), 0, 256).astype(jnp.uint8)
    params = network.init(jax.random.key(1), image)
    of_bytes, of_floats = (network.apply(params, x) for x in (image, image.astype(jnp.float32) / 255))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), of_bytes, of_floats)


def test_a_run_on_pixels_has_filters_and_its_rows_keep_their_bytes():
    config = ppo.Config(
        wrappers=(("PixelObservation", {"size": (32, 40)}), "GrayscaleObservation"),
        total_steps=64,
        num_envs=4,
        num_steps=16,
        num_evaluations=1,
        num_eval_episodes=2,
    )
    init, iteration = ppo.make_iteration(config)
    learner = jax.eval_shape(init, jax.random.key(0))
    layers = [learner.params["params"][f"Dense_{i}"]["kernel"].shape for i in (0, 1)]
    assert layers == [(8 * 8, 16), (4 * 4 * 16, 32)]
    stored = {eqn.outvars[-1].aval for eqn in equations(jax.make_jaxpr(iteration)(learner).jaxpr)}
    assert ("uint8", (16, 4, 32, 40, 1)) in {(str(x.dtype), x.shape) for x in stored if hasattr(x, "shape")}


@pytest.mark.thorough
def test_an_image_is_learned():
    class Side(jaxenv.Task):
        """Pays for action 1 if the bright pixel is in the right half; one step an episode."""

        def initial(self, stream):
            return jaxenv.random.integers(stream, (), 0, 100)

        def transition(self, state, action, stream):
            reward = (action == (state % 10 >= 5)).astype(jnp.float32)
            return jaxenv.Transition(state, reward, jnp.ones(stream.shape, bool))

        def observe(self, state):
            return (state[:, None] == np.arange(100)[None]).reshape(-1, 10, 10)

        def observation_spec(self):
            return specs.Bounded((10, 10), bool, False, True)

        def action_spec(self):
            return specs.discrete(2)

    config = ppo.Config(total_steps=32_768, num_envs=64, num_steps=8, num_evaluations=1, num_eval_episodes=64)
    envs = [AutoReset(Side(num_envs=64)) for _ in range(2)]
    _, curve = jax.jit(ppo.make_train(config, *envs))(jax.random.key(0))
    assert curve.returns.mean() > 0.9


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, r"num_envs must be at least 1 and below 2\*\*31, got 0"),
        ({"total_steps": 2**31}, r"total_steps must be at least 1 and below 2\*\*31, got 2147483648"),
        ({"num_steps": 2.0}, "num_steps must be of type int, got 2.0"),
        ({"num_envs": True}, "num_envs must be of type int, got True"),
        ({"normalize_observation": "no"}, "normalize_observation must be of type bool, got 'no'"),
        ({"env_id": 3}, "env_id must be of type str, got 3"),
        ({"wrappers": "NormalizeReward"}, "wrappers must be a tuple, got 'NormalizeReward'"),
        ({"hidden": 8}, "hidden must be a tuple, got 8"),
        ({"learning_rate": -1.0}, "learning_rate must be a number of at least 0, got -1.0"),
        ({"hidden": (64, 0)}, r"hidden must hold widths of at least 1, got \(64, 0\)"),
        ({"gamma": 1.5}, r"gamma must be in \[0, 1\], got 1.5"),
        ({"lambda_": float("nan")}, "lambda_ must be .*, got nan"),
        ({"max_gradient_norm": 0.0}, "max_gradient_norm must be above 0, got 0.0"),
        ({"total_steps": 10_239}, "total_steps must be at least 10240, .* got 10239"),
        ({"num_minibatches": 3}, r"num_minibatches must divide num_envs \* num_steps = 1024, got 3"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=f"ppo.Config: {message}"):
        ppo.Config(**options)


def test_two_stacks_of_one_task_are_required():
    env = AutoReset(mock_012(16))
    with pytest.raises(ValueError, match="env and eval_env must be given together"):
        ppo.make_iteration(ppo.Config(), env)
    with pytest.raises(ValueError, match="must have the same observation_spec"):
        ppo.make_iteration(ppo.Config(), env, jaxenv.make("CartPole-v1", 100))


def test_a_seed_in_place_of_the_key_of_a_run_is_refused():
    train = ppo.make_train(ppo.Config(), AutoReset(mock_012(16)), AutoReset(mock_012(100)))
    with pytest.raises(ValueError, match=r"^key must be a typed key from jax\.random\.key\(seed\), got int32\[\]"):
        jax.eval_shape(train, 0)


def test_settings_may_be_lists_and_are_hashable():
    assert hash(ppo.Config(hidden=[8, 8])) == hash(ppo.Config(hidden=(8, 8)))


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (lambda: AutoReset(mock_012(16), "same_step"), "autoreset='next_step', got 'same_step'"),
        (lambda: mock_012(16), "autoreset='next_step', got None"),
        (lambda: AutoReset(mock_012(3)), "config.num_envs is 16, .* has 3 lanes"),
        (
            lambda: AutoReset(
                random_environment(
                    specs.discrete(2), specs.discrete(2), specs.Bounded((2,), np.float32, 0, 1), num_envs=16
                )
            ),
            "reward must be one number per lane",
        ),
        (
            lambda: AutoReset(random_environment(specs.discrete(2), specs.Bounded((2,), np.int32, 0, 1), num_envs=16)),
            "the action must be one discrete number or a continuous array",
        ),
    ],
)
def test_an_environment_that_ppo_cannot_learn_is_refused(env, message):
    with pytest.raises(ValueError, match=message):
        ppo.make_iteration(ppo.Config(), env(), env())


# --- seeds -----------------------------------------------------------------------------------------------------------


def test_seeds_that_are_vmapped_factorise_one_matrix_at_a_time():
    # XLA:CPU may wait forever for batches of matrices; see jaxenv/_xla.py.
    init, _ = ppo.make_iteration(ppo.Config())
    jaxpr = jax.make_jaxpr(jax.vmap(init))(jax.random.split(jax.random.key(0), 2))
    shapes = [eqn.invars[0].aval.shape for eqn in equations(jaxpr.jaxpr) if "qr" in eqn.primitive.name]
    assert len(shapes) == 6
    assert all(len(shape) == 2 for shape in shapes), shapes
