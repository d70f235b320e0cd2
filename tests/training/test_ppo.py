"""PPO learns continuous and masked actions, from images and with memory, and takes hyperparameters as arrays."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data, specs, tree
from jaxenv._util.programs import equations
from jaxenv.testing import Counting, count_to_two, random_environment
from jaxenv.training import memories, ppo
from jaxenv.training.lanes import DeviceLanes
from jaxenv.wrappers import AutoReset

# --- continuous actions, trees of observations -----------------------------------------------------------------------


@pytest.mark.parametrize("squash", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_continuous_actions_are_learned_from_large_observations(squash):
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
        squash=squash,
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


@pytest.mark.thorough
def test_a_pole_is_balanced_five_times_longer_than_by_chance():
    config = ppo.Config(total_steps=20_480, num_evaluations=4, num_eval_episodes=20)
    _, curve = jax.jit(jax.vmap(ppo.make_train(config)))(jax.random.split(jax.random.key(3), 2))
    assert (curve.returns.mean(axis=-1).max(axis=-1) > 110).all()


# --- actor and critic as one network ---------------------------------------------------------------------------------


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {"env_id": "Breakout-MinAtar", "hidden": (6, 5)},
        {"env_id": "Pendulum-v1", "hidden": ()},
        {"env_id": "CartPole-v1", "hidden": (5, 4, 3), "recurrent": 4},
    ],
)
def test_actor_and_critic_as_one_network_have_the_outputs_and_gradients_of_two(settings, joint):
    config = ppo.Config(num_envs=4, num_minibatches=1, num_steps=4, total_steps=16, num_evaluations=1, **settings)
    env = config.make_env(4)
    _, network, read, _ = ppo.model(config, env)
    row = ppo._one_row(read(env.reset(jax.random.key(0))[1].observation), network.start(4))
    params = network.init(jax.random.key(1), *row)
    params = jax.tree.map(lambda x: x + 0.1 * jnp.sin(jnp.arange(x.size) + 1.0).reshape(x.shape), params)

    def weighted(params):
        inputs, values, _ = network.apply(params, *row)
        return (jnp.cos(jnp.arange(inputs.size)) * inputs.ravel()).sum() + (values * values).sum()

    def weighted_of_both(both):
        return weighted(both if joint else network.parted(both))

    chex.assert_trees_all_equal(network.parted(network.joined(params)), params)
    expected = jax.value_and_grad(weighted)(params)
    value, gradient = jax.value_and_grad(weighted_of_both)(network.joined(params))
    chex.assert_trees_all_close((value, network.parted(gradient)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_only_on_a_gpu_does_an_update_multiply_by_the_weights_of_both_networks(backend, monkeypatch):
    config = ppo.Config(num_envs=4, num_steps=4, num_minibatches=1, total_steps=16, num_evaluations=1, hidden=(5, 4))
    env = config.make_env(4)
    stages = ppo.make_stages(config, env, DeviceLanes(config, None))
    monkeypatch.setattr(jax, "default_backend", lambda: backend)

    def update(key):
        learner = stages.init(key, config.arrays())
        learner, rows, last = stages.collect(learner, env)
        return stages.optimise(config, learner, stages.advantages(config, (), learner, rows, last)[0])

    products = [e for e in equations(jax.make_jaxpr(update)(jax.random.key(0))) if e.primitive.name == "dot_general"]
    together = [e for e in products if e.params["dimension_numbers"][1] != ((), ())]
    assert bool(together) == (backend == "gpu")


# --- losses and masks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", memories.MODELS)
def test_values_of_the_rollout_are_those_of_a_replay_of_its_rows(cell):
    num_layers = 1 if cell in ("gru", "lstm") else 2
    config = ppo.Config(
        num_envs=4, num_steps=30, total_steps=120, num_evaluations=1, recurrent=4, cell=cell, num_layers=num_layers,
        window=7, hidden=(4,),
    )  # fmt: skip
    env = config.make_env(4)
    stages = ppo.make_stages(config, env, DeviceLanes(config, None))

    @jax.jit
    def compared(key):
        learner = stages.init(key, config.arrays())
        learner, _, _ = stages.collect(learner, env)  # the second unroll starts within episodes
        collected, rows, last_observation = stages.collect(learner, env)
        _, found = stages.advantages(config, learner.memory, collected, rows, last_observation)
        network = ppo.model(config, env)[1]
        observation = data.with_last(rows.policy_info["observation"], last_observation)
        starts = data.with_last(rows.timestep.is_first(), collected.timestep.is_first())
        _, values, _ = network.apply(learner.params, observation, learner.memory, starts)
        expected = data.gae(rows.timestep, collected.timestep, values, gamma=config.gamma, lambda_=config.lambda_)
        return found, (values[:-1], expected.advantages), starts

    found, expected, starts = compared(jax.random.key(0))
    assert starts.any()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_one_pass_replays_the_policy_of_the_rollout_and_takes_no_masked_action():
    # One minibatch in one pass: the policy that collected the rows is the one that is optimised.
    config = ppo.Config(
        total_steps=512, num_envs=16, num_steps=32, num_epochs=1, num_minibatches=1, num_evaluations=1,
        num_eval_episodes=16, max_eval_steps=20, hidden=(4,),
    )  # fmt: skip
    env = jaxenv.make("TicTacToe-v0", num_envs=16, opponent="random")
    learner, curve = jax.jit(ppo.make_train(config, env, env))(jax.random.key(0))
    losses = jax.tree.map(lambda x: x.item(), curve.losses)
    assert losses.clip_fraction == 0
    assert losses.kl == pytest.approx(0, abs=1e-6)
    assert losses.policy_loss == pytest.approx(0, abs=1e-5)  # normalised advantages have mean 0
    assert np.log(2) < losses.entropy < np.log(9) - 0.3  # nearly uniform, and fewer than 9 squares are free
    assert losses.value_loss > 0
    for explore in (True, False):
        policy, memory = ppo.make_policy(config, env, learner.params, learner.statistics, explore)
        start = env.reset(jax.random.key(1))
        _, rows = jax.jit(lambda *start: jaxenv.unroll(env, policy, *start, 20, initial_memory=memory))(*start)  # noqa: B023
        legal = np.take_along_axis(rows.timestep.env_info["action_mask"], rows.action[..., None], axis=-1)[..., 0]
        assert legal[~rows.timestep.is_last()].all()


def test_advantages_keep_their_mean_unless_they_are_normalised():
    losses = {}
    for normalize in (True, False):
        config = ppo.Config(
            total_steps=64, num_envs=4, num_steps=16, num_epochs=1, num_minibatches=1, num_evaluations=1,
            num_eval_episodes=1, max_eval_steps=1, hidden=(4,), normalize_advantage=normalize,
        )  # fmt: skip
        _, curve = jax.jit(ppo.make_train(config))(jax.random.key(0))
        losses[normalize] = curve.losses.policy_loss.item()
    assert losses[True] == pytest.approx(0, abs=1e-5)
    assert losses[False] < -1  # minus the mean of the advantages of CartPole: about the sum of ten rewards


def test_with_clip_value_an_update_learns_of_each_value_only_until_it_has_moved_by_clip():
    losses = {}
    for num_epochs in (1, 40):
        for clip_value in (False, True):
            config = ppo.Config(
                total_steps=64, num_envs=4, num_steps=16, num_epochs=num_epochs, num_minibatches=1, num_evaluations=1,
                num_eval_episodes=1, max_eval_steps=1, hidden=(16,), learning_rate=0.03, clip=0.01,
                clip_value=clip_value, max_gradient_norm=100.0,
            )  # fmt: skip
            _, curve = jax.jit(ppo.make_train(config))(jax.random.key(0))
            losses[num_epochs, clip_value] = curve.losses.value_loss.item()
    # In the first gradient step no value has moved.
    assert losses[1, True] == pytest.approx(losses[1, False], rel=1e-5)
    # The errors are about 10, so that steps of 0.01 hardly change them.
    assert losses[40, True] == pytest.approx(losses[1, True], rel=0.05)
    assert losses[40, False] < 0.7 * losses[1, False]


def test_an_annealed_entropy_cost_is_whole_in_the_first_update_and_half_in_the_second_of_two():
    config = ppo.Config(
        total_steps=128, num_envs=4, num_steps=16, num_epochs=4, num_minibatches=1, num_evaluations=2,
        num_eval_episodes=1, max_eval_steps=1, hidden=(4,), learning_rate=0.02, entropy_cost=1.0,
    )  # fmt: skip
    first, second = {}, {}
    for anneal in (False, True):
        train = ppo.make_train(dataclasses.replace(config, anneal_entropy=anneal))
        init, iteration = train.init, train.iteration
        iteration = jax.jit(iteration)
        learner, _ = iteration(init(jax.random.key(0)))
        first[anneal] = learner.params
        for cost in (1.0, 0.5):
            hyperparameters = learner.hyperparameters | {"entropy_cost": np.float32(cost)}
            after, _ = iteration(dataclasses.replace(learner, hyperparameters=hyperparameters))
            second[anneal, cost] = after.params
    same = functools.partial(np.testing.assert_allclose, rtol=0, atol=1e-3)
    jax.tree.map(same, first[True], first[False])
    jax.tree.map(same, second[True, 1.0], second[False, 0.5])
    annealed, constant = (second[anneal, 1.0]["params"]["actor"]["Dense_0"]["kernel"] for anneal in (True, False))
    assert np.abs(constant - annealed).max() > 1e-2


class Ending(Counting):
    """Shows a number of its own where the episode of two steps has ended."""

    shown: jax.Array = tree.leaf(default=0, kw_only=True)

    def observe(self, state):
        return jnp.where(state.step == 2, self.shown, state.step)


SHORT = ppo.Config(
    total_steps=96, num_envs=4, num_steps=8, num_epochs=2, num_minibatches=2, num_evaluations=3, num_eval_episodes=1,
    max_eval_steps=1, hidden=(4,), learning_rate=0.02, entropy_cost=0.1,
)  # fmt: skip


@pytest.fixture(scope="module")
def ending():
    """A function of the number and of hyperparameters: the weights before and after three updates and a fourth."""

    @jax.jit
    def run(shown, hyperparameters):
        envs = (AutoReset(Ending(np.array([2]), shown=shown, num_envs=lanes)) for lanes in (4, 1))
        train = ppo.make_train(SHORT, *envs)
        learners = [train.init(jax.random.key(0), hyperparameters)]
        for _ in range(4):
            learners.append(train.iteration(learners[-1])[0])
        return [jax.flatten_util.ravel_pytree(learner.params)[0] for learner in learners]

    return lambda shown=0, **given: run(shown, SHORT.arrays(given))


def test_nothing_is_learned_from_the_last_rows_of_episodes(ending):
    chex.assert_trees_all_equal(ending(0), ending(7))


def test_every_hyperparameter_has_an_effect_and_the_learning_rate_ends_at_0(ending):
    start, *_, end, later = ending()
    assert (start != end).any()
    assert (end == later).all()
    for name in SHORT.hyperparameters:
        assert (ending(**{name: 1e-3})[3] != end).any(), name


@pytest.mark.parametrize(("ratio", "advantage", "expected"), [(0.5, -1, -0.8), (0.5, 1, 0.5), (2, -1, -2), (2, 1, 1.2)])
def test_a_ratio_counts_up_to_the_clip_on_the_side_to_which_the_advantage_pulls(ratio, advantage, expected):
    config = dataclasses.replace(SHORT, normalize_advantage=False, num_epochs=1, num_minibatches=1)
    stages, learner, batch = collected(config)
    taken = batch.log_probability - jnp.log(jnp.float32(ratio))
    batch = dataclasses.replace(batch, log_probability=taken, advantage=jnp.full_like(batch.advantage, advantage))
    _, losses = stages.optimise(config, learner, batch)
    assert -losses.policy_loss.item() == pytest.approx(expected, rel=1e-4)
    assert losses.clip_fraction.item() == 1


def test_every_update_has_other_minibatches():
    # So many updates that the learning rate of the first two is the same.
    config = dataclasses.replace(SHORT, num_epochs=1, num_minibatches=2, total_steps=10**8, num_evaluations=1)
    stages, learner, batch = collected(config)
    learners = [dataclasses.replace(learner, update=jnp.int32(number)) for number in (0, 1)]
    one, other = (jax.flatten_util.ravel_pytree(stages.optimise(config, x, batch)[0].params)[0] for x in learners)
    assert jnp.abs(one - other).max() > 1e-3


@functools.cache
def collected(config):
    """The stages, a learner after an unroll, and its batch."""
    env = config.make_env(4)
    stages = ppo.make_stages(config, env, DeviceLanes(config, None))
    start = stages.init(jax.random.key(0), config.arrays())
    learner, rows, last_observation = stages.collect(start, env)
    return stages, learner, stages.advantages(config, start.memory, learner, rows, last_observation)[0]


def test_the_observation_after_the_rows_is_normalised_like_theirs():
    config = dataclasses.replace(SHORT, normalize_observation=True)
    env = config.make_env(4)
    stages = ppo.make_stages(config, env, DeviceLanes(config, None))

    @jax.jit
    def collect(key):
        learner, _, (shown,) = stages.collect(stages.init(key, config.arrays()), env)
        return learner.timestep.observation, learner.statistics.value.moments, shown

    raw, moments, shown = collect(jax.random.key(0))
    np.testing.assert_allclose(shown, (raw - moments.mean) / np.sqrt(moments.variance + 1e-8), rtol=1e-4, atol=1e-4)


# --- images ----------------------------------------------------------------------------------------------------------


@pytest.mark.compiled
def test_a_run_on_pixels_has_filters_and_its_rows_keep_their_bytes():
    # Rows of floats would learn the same in four times the memory.
    config = ppo.Config(
        wrappers=(("PixelObservation", {"size": (32, 40)}), "GrayscaleObservation"),
        total_steps=64,
        num_envs=4,
        num_steps=16,
        num_evaluations=1,
        num_eval_episodes=2,
    )
    train = ppo.make_train(config)
    init, iteration = train.init, train.iteration
    learner = jax.eval_shape(init, jax.random.key(0))
    layers = [learner.params["params"]["Torso_0"][f"Dense_{i}"]["kernel"].shape for i in (0, 1)]
    assert layers == [(8 * 8, 16), (4 * 4 * 16, 32)]
    programs = equations(jax.make_jaxpr(iteration)(learner).jaxpr)
    rows = {(str(x.aval.dtype), x.aval.shape) for eqn in programs if eqn.primitive.name == "scan" for x in eqn.outvars}
    assert ("uint8", (16, 4, 32 * 40)) in rows  # unroll stores images flat
    assert not {("float32", (16, 4, 32, 40, 1)), ("float32", (16, 4, 32 * 40))} & rows


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


# --- memory ----------------------------------------------------------------------------------------------------------

CHAIN = ppo.Config(
    env_id="MemoryChain-bsuite",
    recurrent=16,
    hidden=(),
    num_envs=64,
    num_steps=16,
    num_evaluations=1,
    num_eval_episodes=64,
    max_eval_steps=10,
)


@pytest.mark.parametrize("masked", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_the_loss_replays_the_memory_of_the_rollout_with_its_restarts(masked, monkeypatch):
    # With one minibatch in one pass the policy of the rollout is the one that is optimised, in each of 16 updates:
    # all ratios are 1. Episodes of 7 rows end in the middle of the unrolls of 16.
    config = dataclasses.replace(CHAIN, num_epochs=1, num_minibatches=1, learning_rate=0.03, total_steps=16_384)

    class Unmasked(memories.GRU):
        """In the replay of the loss, memory goes on where an episode starts."""

        def __call__(self, memory, x, starts):
            return super().__call__(memory, x, jnp.zeros_like(starts))

    if not masked:
        monkeypatch.setitem(memories.MODELS, "gru", lambda config: Unmasked(config.recurrent))
    learner, curve = jax.jit(ppo.make_train(config))(jax.random.key(0))
    assert np.abs(learner.memory).max() > 0.1
    if masked:
        assert abs(curve.losses.kl.item()) < 1e-5
        assert curve.losses.clip_fraction.item() == 0
    else:
        assert curve.losses.kl.item() > 1e-3


def test_actor_and_critic_read_a_row_itself_next_to_what_the_memory_keeps_of_it():
    _, network, _, _ = ppo.model(CHAIN, jaxenv.make(CHAIN.env_id, num_envs=2))
    row = jnp.stack([jnp.zeros(3), jnp.arange(1.0, 4.0)])[None]  # [1, B, n]
    starts = jnp.zeros((1, 2), bool)
    params = network.init(jax.random.key(0), (row,), network.start(2), starts)
    params["params"]["GRU_0"] = jax.tree.map(jnp.zeros_like, params["params"]["GRU_0"])  # a memory that stays empty
    inputs, values, memory = network.apply(params, (row,), network.start(2), starts)
    np.testing.assert_array_equal(memory, 0)
    assert (inputs[0, 0] != inputs[0, 1]).any()
    assert values[0, 0] != values[0, 1]


@pytest.mark.thorough
@pytest.mark.parametrize("cell", memories.MODELS)
def test_a_policy_with_memory_solves_a_task_in_which_the_last_row_does_not_tell_the_right_action(cell):
    config = dataclasses.replace(CHAIN, total_steps=131_072, learning_rate=5e-3, gamma=0.98, cell=cell, window=16)
    _, curve = jax.jit(ppo.make_train(config))(jax.random.key(0))
    assert curve.returns.mean() > 0.6  # without memory the mean return is 0


# --- hyperparameters -------------------------------------------------------------------------------------------------


def test_learning_rates_under_vmap_train_as_separate_runs():
    config = ppo.Config(
        total_steps=256, num_envs=4, num_steps=16, num_epochs=2, hidden=(8,), num_evaluations=2, num_eval_episodes=2,
        max_eval_steps=5, learning_rate=1e-2,
    )  # fmt: skip
    train, key = ppo.make_train(config), jax.random.key(0)
    both, curve = jax.jit(jax.vmap(lambda rate: train(key, {"learning_rate": rate})))(jnp.array([1e-4, 1e-2]))
    separate, _ = jax.jit(train)(key)
    chex.assert_trees_all_close(jax.tree.map(lambda x: x[1], both.params), separate.params, rtol=1e-7, atol=2e-4)
    moved = jax.tree.map(lambda x: np.abs(x[0] - x[1]).max(initial=0), both.params)
    assert max(jax.tree.leaves(moved)) > 0.01
    # Losses have an axis of evaluations, and show how far the policy moved.
    assert all(x.shape == (2, 2) for x in jax.tree.leaves(curve.losses))
    assert (curve.losses.kl > 0).all()
    assert (curve.losses.kl[1] > 10 * curve.losses.kl[0]).all()


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_seed_in_place_of_the_key_of_a_run_is_refused():
    train = ppo.make_train(ppo.Config(), AutoReset(count_to_two(16)), AutoReset(count_to_two(100)))
    with pytest.raises(ValueError, match=r"^train: key .*got int32\[\]"):
        jax.eval_shape(train, 0)


def test_the_activation_is_the_one_that_is_asked_for():
    env = jaxenv.make("CartPole-v1", num_envs=4)
    timestep = env.reset(jax.random.key(0))[1]
    outputs = []
    for activation in ("tanh", "relu"):
        config = ppo.Config(activation=activation, hidden=(8,))
        _, network, read, _ = ppo.model(config, env)
        observation = read(timestep.observation * 50)
        params = network.init(jax.random.key(0), observation)
        layers = params["params"]["critic"]
        hidden = getattr(jax.nn, activation)(observation[0] @ layers["Dense_0"]["kernel"])
        _, values, _ = network.apply(params, observation)
        np.testing.assert_allclose(values, (hidden @ layers["Dense_1"]["kernel"])[:, 0], rtol=1e-5)
        outputs.append(values)
    assert not np.allclose(*outputs)


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("CartPole-v1", {}),
        ("Pendulum-v1", {}),
        *(("CartPole-v1", {"recurrent": 4, "cell": cell, "window": 4}) for cell in memories.MODELS),
    ],
)
def test_a_run_keeps_its_dtypes_where_jax_has_64_bits(env_id, options):
    sizes = {"num_envs": 4, "num_steps": 4, "total_steps": 64, "num_minibatches": 2, "num_evaluations": 1}
    config = ppo.Config(env_id=env_id, **sizes, **options)
    with jax.enable_x64(True):
        learner, curve = jax.eval_shape(ppo.make_train(config), jax.random.key(0))
    floats = [x.dtype for x in jax.tree.leaves((learner.params, learner.memory, curve.returns)) if x.dtype != bool]
    assert set(floats) == {np.dtype(np.float32)}


def test_integers_without_bounds_are_refused():
    env = AutoReset(random_environment(specs.discrete(2), specs.Array((), np.int32), num_envs=16))
    with pytest.raises(ValueError, match=r"ppo: an action of integers .*got Array"):
        ppo.make_train(ppo.Config(num_envs=16), env, env)(jax.random.key(0))


def test_a_tree_of_actions_is_refused():
    actions = {"left": specs.discrete(2), "right": specs.discrete(3)}
    env = AutoReset(random_environment(specs.discrete(2), actions, num_envs=16))
    with pytest.raises(ValueError, match=r"ppo: the action .*got"):
        ppo.make_train(ppo.Config(), env, env)


# --- seeds -----------------------------------------------------------------------------------------------------------


@pytest.mark.compiled
def test_seeds_that_are_vmapped_factorise_one_matrix_at_a_time():
    # XLA:CPU may wait forever for batches of matrices; see jaxenv/_util/xla.py.
    init = ppo.make_train(ppo.Config()).init
    jaxpr = jax.make_jaxpr(jax.vmap(init))(jax.random.split(jax.random.key(0), 2))
    shapes = [eqn.invars[0].aval.shape for eqn in equations(jaxpr.jaxpr) if "qr" in eqn.primitive.name]
    assert len(shapes) == 6
    assert all(len(shape) == 2 for shape in shapes), shapes
