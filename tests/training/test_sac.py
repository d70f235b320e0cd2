"""SAC: the squashed policy, the warm-up, critics and their targets, the temperature; a one-step task is learned."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data, specs
from jaxenv._util.programs import equations
from jaxenv.testing import random_environment
from jaxenv.training import sac
from jaxenv.training.distributions import TanhNormal
from jaxenv.wrappers import AutoReset, TimeLimit


class Aim(jaxenv.Task):
    """Pays most for the action (2, -0.5) on one side and for (0, 0.5) on the other; one step an episode."""

    def initial(self, stream):
        return jaxenv.random.bernoulli(stream)

    def transition(self, state, action, stream):
        target = jnp.array([[1.0, 0.0]]) + jnp.where(state[:, None], 1.0, -1.0) * jnp.array([[1.0, -0.5]])
        return jaxenv.Transition(state, -jnp.sum((action - target) ** 2, axis=-1), jnp.ones(stream.shape, bool))

    def observe(self, state):
        return {"flag": ~state, "far": jnp.where(state, 3000.0, -1000.0)}

    def observation_spec(self):
        return {"flag": specs.Bounded((), bool, False, True), "far": specs.Array((), np.float32)}

    def action_spec(self):
        return specs.Bounded((2,), np.float32, np.float32([-2, -1]), np.float32([4, 1]))


SMALL = sac.Config(  # an update of one gradient step before each of two evaluations
    total_steps=80,
    num_envs=8,
    num_gradient_steps=1,
    batch_size=16,
    buffer_size=1024,
    warmup_steps=64,
    hidden=(8,),
    learning_rate=1e-2,
    num_evaluations=2,
    num_eval_episodes=8,
)


def pendulums(config):
    return [jaxenv.make("Pendulum-v1", n, max_episode_steps=4) for n in (config.num_envs, config.num_eval_episodes)]


def aims(config):
    return [AutoReset(Aim(num_envs=n)) for n in (config.num_envs, config.num_eval_episodes)]


def host(learner):
    return jax.device_get(dataclasses.replace(learner, key=()))


@pytest.fixture(scope="module")
def small():
    """The learners of two seeds before, between and after both iterations, the evaluations, and two more iterations.

    These have correlated noise, and one critic of each seed is raised by 100.
    """
    train = sac.make_train(SMALL, *pendulums(SMALL))
    init, iteration = train.init, train.iteration
    learner = jax.jit(jax.vmap(init))(jax.random.split(jax.random.key(0), 2))
    advance = jax.jit(jax.vmap(iteration), donate_argnums=0)  # as training.seeds does
    learners, curves = [host(learner)], []
    for _ in range(2):
        learner, curve = advance(learner)
        learners.append(host(learner))
        curves.append(curve)
    critics = jax.tree.map(jnp.copy, learner.params.critics)
    last = critics["params"][max(critics["params"])]
    last["bias"] = last["bias"].at[np.arange(2), np.arange(2)].add(100)  # [seeds, critics, 1]
    correlated = learner.hyperparameters | {"noise_correlation": jnp.full(2, 0.99)}
    params, later = dataclasses.replace(learner.params, critics=critics), []
    learner = dataclasses.replace(learner, params=params, hyperparameters=correlated)
    before = jax.device_get(params)
    for _ in range(2):
        learner, curve = advance(dataclasses.replace(learner, update=jnp.full(2, SMALL.num_updates)))
        later.append((host(learner), curve))
    return learners, curves, (before, later)


# --- the policy ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.7, -1.0), (-1.5, 0.4)])
def test_the_density_of_a_squashed_action_is_that_of_its_samples(mean, log_std):
    pi = TanhNormal(specs.Bounded((1,), np.float32, -1, 1))
    edges = np.linspace(-1, 1, 20_001)
    unit = (0.5 * (edges[1:] + edges[:-1])).astype(np.float32)
    inputs = jnp.broadcast_to(jnp.float32([mean, log_std]), (20_000, 2))
    density = np.exp(pi.log_probability(inputs, jnp.arctanh(unit)[:, None]))
    np.testing.assert_allclose(density.mean() * 2, 1, atol=1e-3)
    noise = jax.random.normal(jax.random.key(0), (20_000, 1))
    drawn = jnp.tanh(pi.displaced(inputs, noise))
    np.testing.assert_allclose(drawn.mean(), (density * unit).mean() * 2, atol=0.02)
    np.testing.assert_allclose((drawn**2).mean(), (density * unit**2).mean() * 2, atol=0.02)


def test_an_action_reaches_the_bounds_of_each_number_and_never_leaves_them():
    spec = specs.Bounded((2, 2), np.float32, np.float32([[-2, 0], [1, -1]]), np.float32([[4, 1], [3, 1]]))
    pi = TanhNormal(spec)
    np.testing.assert_array_equal(pi.scaled(-jnp.ones((3, 4))), np.broadcast_to(spec.minimum, (3, 2, 2)))
    np.testing.assert_array_equal(pi.scaled(jnp.ones((3, 4))), np.broadcast_to(spec.maximum, (3, 2, 2)))
    np.testing.assert_allclose(pi.scaled(jnp.float32([[0.5, 0, 0, 0]]))[0], [[2.5, 0.5], [2, 0]])


def test_correlated_noise_keeps_its_variance_and_forgets_earlier_episodes():
    stream = jaxenv.random.stream(jax.random.split(jax.random.key(0), 8192))
    starts = jnp.arange(8192) < 4096
    before = jax.random.normal(jax.random.key(1), (8192, 1))
    after = sac._next_noise(before, starts, stream, jnp.float32(0.8))
    np.testing.assert_allclose(after.std(), 1, atol=0.03)
    halves = zip(before.reshape(2, -1), after.reshape(2, -1), strict=True)
    np.testing.assert_allclose([np.corrcoef(a, b)[0, 1] for a, b in halves], [0, 0.8], atol=0.05)


@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
def test_noise_starts_anew_with_every_episode_in_either_mode(autoreset):
    config = sac.Config(noise_correlation=0.9)
    env = config.make_env(2048, "eval", autoreset=autoreset, max_episode_steps=2)
    learner, _ = jax.eval_shape(sac.make_train(config), jax.random.key(0))
    weights = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), learner.params)  # means 0, deviations 1
    policy, memory = sac.make_policy(config, env, weights, explore=True)
    play = jax.jit(lambda key: jaxenv.unroll(env, policy, *env.reset(key), 6, initial_memory=memory)[1])
    sample = jnp.arctanh(jnp.clip(play(jax.random.key(1)).action / 2, -0.999999, 0.999999))
    np.testing.assert_allclose(sample.std(axis=(1, 2)), 1, atol=0.1)


# --- the warm-up -----------------------------------------------------------------------------------------------------


def test_actions_of_the_warm_up_are_uniform_in_the_bounds_also_where_they_correlate():
    config = dataclasses.replace(SMALL, num_envs=64, warmup_steps=4096, total_steps=8192, buffer_size=4096)
    init = sac.make_train(config, *aims(config)).init
    correlations = {"noise_correlation": jnp.float32([0.0, 0.6])}
    learners = host(jax.jit(jax.vmap(init, in_axes=(None, 0)))(jax.random.key(0), correlations))
    replay = data.Replay(64, 64)
    for number in range(2):
        rows = replay.gather_all(jax.tree.map(lambda x: x[number], learners.buffer)).experience  # noqa: B023
        for unit in rows.policy_info.reshape(-1, 2).T:
            np.testing.assert_allclose(np.quantile(unit, [0, 0.25, 0.5, 0.75, 1]), [-1, -0.5, 0, 0.5, 1], atol=0.05)
        # The reward shows which action the environment executed.
        first = np.asarray(rows.timestep.step_type[:, :-1]) == 0
        action = (np.asarray(rows.policy_info[:, :-1]) + 1) * [3, 1] + [-2, -1]
        side = np.where(rows.timestep.observation["flag"][:, :-1, None], -1.0, 1.0)
        reward = -np.sum((action - [1, 0] - side * [1, -0.5]) ** 2, axis=-1)
        np.testing.assert_allclose(rows.timestep.reward[:, 1:][first], reward[first], atol=1e-4)


# --- critics ---------------------------------------------------------------------------------------------------------


def test_the_critics_start_with_different_weights_and_their_targets_with_the_same(small):
    start = small[0][0]
    for leaf in jax.tree.leaves(start.params.critics):
        assert leaf.shape[:2] == (2, 2)  # seeds, critics
        if leaf.ndim == 4:
            assert np.abs(leaf[:, 0] - leaf[:, 1]).max() > 0.01
    chex.assert_trees_all_equal(start.target, start.params.critics)


def test_a_target_takes_the_smaller_value_and_pays_for_entropy():
    batch = data.Transitions(reward=jnp.float32([1, 1, 2]), discount=jnp.float32([1, 0, 1]))
    values = jnp.float32([[10, 10, -4], [20, 20, -3]])
    goal = sac.soft_target(batch, values, jnp.float32([2, 2, -1]), 0.5, 0.9)
    np.testing.assert_allclose(goal, [1 + 0.9 * (10 - 1), 1, 2 + 0.9 * (-4 + 0.5)], rtol=1e-6)


def test_values_of_critics_with_layer_norm_do_not_grow_with_the_observation():
    env, actions = pendulums(SMALL)[0], jnp.zeros((1, 1))
    largest = []
    for layer_norm in (False, True):
        _, _, critics, _ = sac.model(dataclasses.replace(SMALL, layer_norm=layer_norm), env)
        params = critics.init(jax.random.key(0), (jnp.ones((1, 3)),), actions)
        largest.append(jnp.abs(critics.apply(params, (1e6 * jnp.ones((1, 3)),), actions)).max())
    assert largest[0] > 1e4
    assert largest[1] < 10


def test_target_weights_are_a_moving_average_of_the_critics(small):
    for before, after in zip(small[0], small[0][1:], strict=False):
        expected = jax.tree.map(lambda t, c: t + 0.02 * (c - t), before.target, after.params.critics)
        chex.assert_trees_all_close(after.target, expected, rtol=1e-7, atol=1e-7)
        moved = jax.tree.map(lambda x, y: jnp.abs(x - y).max(), after.target, before.target)
        assert max(jax.tree.leaves(moved)) > 1e-5


def test_a_time_limit_has_a_next_value_and_neither_a_termination_nor_an_invalid_row_has():
    class Kinds(jaxenv.Task):
        """Pays 1 for every step; of four kinds of lanes one terminates at once, one fails at its second step."""

        def initial(self, stream):
            return {"kind": jaxenv.random.integers(stream, (), 0, 3), "step": jnp.zeros(stream.shape, jnp.int32)}

        def transition(self, state, action, stream):
            new = {**state, "step": state["step"] + 1}
            abnormal = (state["kind"] == 2) & (state["step"] == 1)
            ones = jnp.ones(stream.shape, jnp.float32)
            return jaxenv.Transition(new, ones, state["kind"] == 0, {"abnormal": abnormal})

        def observe(self, state):
            return state["kind"]

        def observation_spec(self):
            return specs.discrete(3)

        def action_spec(self):
            return specs.Bounded((1,), np.float32, -1, 1)

    config = sac.Config(
        total_steps=1024,
        num_envs=16,
        num_gradient_steps=8,
        batch_size=64,
        warmup_steps=512,
        hidden=(),
        learning_rate=0.03,
        gamma=0.5,
        target_rate=1.0,
        temperature=1e-4,
        learn_temperature=False,
        num_evaluations=1,
        num_eval_episodes=16,
    )
    envs = [AutoReset(TimeLimit(Kinds(num_envs=16), 2)) for _ in range(2)]
    learner, curve = jax.jit(sac.make_train(config, *envs))(jax.random.key(0))
    _, _, critics, read = sac.model(config, envs[0])
    values = critics.apply(learner.params.critics, read(jnp.arange(3)), jnp.zeros((3, 1)))
    # Episodes that end at the time limit, or fail, continue in the critic's eyes: 1 / (1 - gamma).
    np.testing.assert_allclose(values, [[1, 2, 2]] * 2, atol=0.15)
    np.testing.assert_allclose([*curve.losses.temperature, jnp.exp(learner.params.log_temperature)], 1e-4, rtol=1e-4)


def test_the_actor_is_judged_by_the_critic_with_the_smaller_value(small):
    assert (small[2][1][0][1].losses.value < 50).all()


def test_the_learning_rate_ends_at_0(small):
    before, [(learner, _), _] = small[2]
    chex.assert_trees_all_equal(learner.params, before)


def test_noise_goes_on_from_one_update_to_the_next(small):
    (before, _), (after, _) = small[2][1]
    assert not after.timestep.is_first().any()
    np.testing.assert_allclose(after.noise, before.noise, atol=0.7)  # five standard deviations
    assert np.std(after.noise) > 0.5


# --- the temperature, evaluations ------------------------------------------------------------------------------------


def test_the_temperature_falls_while_the_entropy_is_above_minus_the_number_of_actions(small):
    before, between, after = (learner.params.log_temperature for learner in small[0])
    assert (small[1][0].losses.entropy > 0).all()
    assert (after < between).all()
    assert (between < before).all()
    assert (before == 0).all()


@pytest.fixture(scope="module")
def exploring():
    """A run of the first seed with an unattainable entropy and with evaluations that explore."""
    config = dataclasses.replace(SMALL, target_entropy=3.0, temperature=1.0, eval_explore=True)
    key = jax.random.split(jax.random.key(0), 2)[0]
    return jax.jit(sac.make_train(config, *pendulums(config)))(key)


def test_the_temperature_rises_while_the_entropy_is_below_its_target(exploring):
    assert exploring[0].params.log_temperature > 0.01


def test_evaluations_explore_where_asked_to(small, exploring):
    # The episodes start alike, and the temperature has not changed the actor before the first evaluation.
    best, sampled = small[1][0].returns[0], exploring[1].returns[0]
    assert jnp.abs(best - sampled).max() > 0.01


# --- a run -----------------------------------------------------------------------------------------------------------


def test_iterations_one_by_one_are_the_whole_run_and_every_hyperparameter_has_an_effect(small):
    base = SMALL.arrays()
    changed = {"learning_rate": 0.0, "gamma": 0.1, "target_rate": 0.9, "temperature": 0.1, "noise_correlation": 0.9}
    assert changed.keys() == base.keys()
    runs = [base] + [{**base, name: jnp.float32(value)} for name, value in changed.items()]
    train = jax.jit(jax.vmap(sac.make_train(SMALL, *pendulums(SMALL)), in_axes=(None, 0)))
    key = jax.random.split(jax.random.key(0), 2)[0]
    learner, curve = train(key, jax.tree.map(lambda *x: jnp.stack(x), *runs))
    learner = host(learner)

    learners, curves, _ = small
    assert curve.steps[0].tolist() == [72, SMALL.num_rows] == [72, 80] == [c.steps[0] for c in curves]
    np.testing.assert_allclose(curve.returns[0], [c.returns[0] for c in curves], atol=1e-3)
    np.testing.assert_allclose(curve.losses.critic_loss[0], [c.losses.critic_loss[0] for c in curves], rtol=1e-3)
    first = [jax.tree.map(lambda x: x[0], (x.params, x.target)) for x in (learner, learners[-1])]
    chex.assert_trees_all_close(*first, rtol=1e-7, atol=1e-4)

    for number, name in enumerate(changed, start=1):
        others = jax.tree.map(lambda x: np.abs(x[number] - x[0]).max(), (learner.params, learner.target))  # noqa: B023
        assert max(jax.tree.leaves(others)) > 1e-5, name
    # Nothing moves at a learning rate of 0.
    chex.assert_trees_all_equal(*(jax.tree.map(lambda x: x[1], x) for x in (learner.params.critics, learner.target)))


def test_a_one_step_task_with_large_observations_is_learned():
    config = sac.Config(
        normalize_observation=True,
        total_steps=2560,
        num_envs=16,
        num_gradient_steps=4,
        batch_size=64,
        buffer_size=2560,
        warmup_steps=512,
        hidden=(16,),
        learning_rate=1e-2,
        num_evaluations=1,
        num_eval_episodes=32,
    )
    env, eval_env = aims(config)
    learner, curve = jax.jit(sac.make_train(config, env, eval_env))(jax.random.key(0))
    assert curve.returns.min() > -0.3  # the mean of uniform actions is -4.6
    moments = learner.statistics.value["far"].moments
    assert int(moments.count) == 2560
    np.testing.assert_allclose([moments.mean, np.sqrt(moments.variance)], [1000, 2000], rtol=0.1)
    assert learner.buffer.rows.timestep.observation["far"].max() == 3000  # raw rows are stored
    returns = {}
    for explore in (False, True):
        policy, memory = sac.make_policy(config, eval_env, learner.params, learner.statistics, explore)
        episodes = jaxenv.evaluate(eval_env, policy, jax.random.key(1), 32, initial_memory=memory)
        returns[explore] = episodes.returns
    assert returns[False].min() > -0.3
    assert returns[True].std() > returns[False].std()


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_rate": 1.5}, r"target_rate .*got 1.5"),
        ({"noise_correlation": -0.1}, r"noise_correlation .*got -0.1"),
        ({"temperature": 0.0}, r"temperature .*got 0.0"),
        ({"target_entropy": "low"}, r"target_entropy .*got 'low'"),
        ({"batch_size": 0}, r"batch_size .*got 0"),
        ({"warmup_steps": 0}, r"warmup_steps .*got 0"),
        ({"num_steps": 8, "buffer_size": 31}, r"buffer_size .*got 31"),
        ({"buffer_size": 7}, r"buffer_size .*got 7"),
        ({"total_steps": 1039}, r"total_steps .*got 1039"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=f"sac.Config: {message}"):
        sac.Config(**options)


@pytest.mark.parametrize(
    "spec",
    [
        specs.discrete(3),
        specs.Array((2,), np.float32),
        specs.Bounded((2,), np.float32, np.float32([-1, -1]), np.float32([1, np.inf])),
        {"a": specs.Bounded((2,), np.float32, -1, 1)},
    ],
)
def test_actions_without_finite_bounds_are_refused(spec):
    env = AutoReset(random_environment(specs.discrete(2), spec, num_envs=4))
    with pytest.raises(ValueError, match=r"sac: the action .*got "):
        sac.make_train(sac.Config(num_eval_episodes=4), env, env)


@pytest.mark.compiled
def test_seeds_that_are_vmapped_factorise_one_matrix_at_a_time():
    # XLA:CPU may wait forever for batches of matrices; see jaxenv/_util/xla.py.
    init = sac.make_train(SMALL, *pendulums(SMALL)).init
    jaxpr = jax.make_jaxpr(jax.vmap(init))(jax.random.split(jax.random.key(0), 2))
    shapes = [eqn.invars[0].aval.shape for eqn in equations(jaxpr.jaxpr) if eqn.primitive.name == "qr"]
    assert len(shapes) == 4
    assert all(len(shape) == 2 for shape in shapes), shapes
