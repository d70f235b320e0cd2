"""DQN: its targets against those computed by hand, what it stores and draws, and what it learns and refuses."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data, random, specs, tree
from jaxenv.testing import Chain, count_to_two, random_environment
from jaxenv.training import dqn
from jaxenv.training.presets import PRESETS
from jaxenv.wrappers import AutoReset, TimeLimit
from tests.rows import assert_equal

LANES = 4


class Walk(jaxenv.Task):
    """Six cells in a circle. Actions 3, 4 and 5 move by 1, 2 and 3; the legal ones depend on the cell; cell 5 ends."""

    def initial(self, stream):
        return random.integers(stream, (), 0, 5)

    def transition(self, state, action, stream):
        cell = (state + action - 2) % 6
        return jaxenv.Transition(cell, reward=(0.5 * cell - 1).astype(jnp.float32), terminated=cell == 5)

    def observe(self, state):
        return state

    def state_info(self, state):
        return {"action_mask": LEGAL[state], "cell": state}

    def observation_spec(self):
        return specs.discrete(6)

    def action_spec(self):
        return specs.Bounded((), np.int32, 3, 5)


LEGAL = jnp.array([[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 0, 0], [1, 1, 1], [0, 0, 1]], bool)


def walk(lanes=LANES):
    return AutoReset(TimeLimit(Walk(num_envs=lanes), 4))


def small(**options):
    """Settings of runs with a table of values: no hidden layers, one update per evaluation."""
    settings = {
        "num_envs": LANES,
        "num_steps": 3,
        "num_gradient_steps": 1,
        "n_step": 1,
        "warmup_steps": 40,
        "buffer_size": 64,
        "batch_size": 16,
        "hidden": (),
        "num_evaluations": 2,
        "num_eval_episodes": LANES,
        "max_eval_steps": 8,
    } | options
    config = dqn.Config(**settings)
    rows = config.num_envs * config.warmup_rows + config.num_evaluations * config.rows_per_update
    return dataclasses.replace(config, total_steps=options.get("total_steps", rows))


PRIORITIZED = {"priority_exponent": 0.5, "num_gradient_steps": 60}


@functools.cache
def compiled(config, env=walk):
    train = dqn.make_train(config, env(), env(config.num_eval_episodes))
    init, iteration = train.init, train.iteration
    return jax.jit(init), jax.jit(iteration)


def started(config, env=walk, **hyperparameters):
    """A learner after the warm-up whose two networks hold random numbers, and its jitted iteration."""
    init, iteration = compiled(config, env)
    learner = init(jax.random.key(0), hyperparameters)

    def drawn(seed):
        leaves, structure = jax.tree.flatten(learner.params)
        keys = jax.random.split(jax.random.key(seed), len(leaves))
        return structure.unflatten([jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=True)])

    return dataclasses.replace(learner, params=drawn(1), target=drawn(2)), iteration


def stored(config, learner):
    """All rows of the buffer as NumPy arrays, ``[B, n]``."""
    replay = data.Replay(config.buffer_size // config.num_envs, config.num_envs, sampling=_sampling(config))
    return jax.device_get(replay.gather_all(learner.buffer).experience)


def _sampling(config):
    alpha = config.priority_exponent
    return data.PrioritizedSampling(alpha, config.n_step + 1) if alpha else data.UniformSampling()


def table(params, dueling=False):
    """The values ``[cells, actions]`` of a network without hidden layers."""
    layers = {name: layer["Dense_0"] for name, layer in params["params"].items()}
    actions, *state = (layers[name]["kernel"] for name in sorted(layers))  # a table has no bias
    return np.asarray(state[0] + actions - actions.mean(axis=-1, keepdims=True) if dueling else actions)


def errors_by_hand(config, rows, online, target):
    """Values of taken actions, and their errors, for all transitions of the rows: two lists."""
    values, errors = [], []
    timestep, cell = rows.timestep, rows.timestep.observation
    for lane in range(cell.shape[0]):
        for start in range(cell.shape[1] - config.n_step):
            if timestep.step_type[lane, start] == 2:
                continue
            value, scale, row = 0.0, 1.0, start
            for _ in range(config.n_step):
                row += 1
                value += scale * timestep.reward[lane, row]
                scale *= config.gamma * timestep.discount[lane, row]
                if timestep.step_type[lane, row] == 2:
                    break
            legal = np.asarray(LEGAL)[cell[lane, row]]
            chosen_by = (online if config.double else target)[cell[lane, row]]
            best = np.argmax(np.where(legal, chosen_by, -np.inf))
            values.append(online[cell[lane, start], rows.action[lane, start] - 3])
            errors.append(values[-1] - value - scale * target[cell[lane, row], best])
    return np.array(values), np.array(errors)


# --- targets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"double": False, "loss": "squared"}, {"n_step": 3, "dueling": True, "gamma": 0.5}], ids=str
)
def test_errors_are_those_computed_by_hand(options):
    # As many draws as windows draw each of them once.
    config = small(**{"loss": "huber"} | options)
    num_windows = LANES * (config.warmup_rows + config.num_steps - config.n_step)
    config = dataclasses.replace(config, batch_size=num_windows)
    learner, iteration = started(config)
    after, curve = iteration(learner)
    rows = stored(config, after)
    last = rows.timestep.step_type == 2
    assert (last & (rows.timestep.discount == 1)).any()
    assert (last & (rows.timestep.discount == 0)).any()
    online, target = (table(x, config.dueling) for x in (learner.params, learner.target))
    values, errors = errors_by_hand(config, rows, online, target)
    squared, absolute = 0.5 * errors**2, np.abs(errors)
    huber = np.where(absolute < 1, squared, absolute - 0.5)
    np.testing.assert_allclose(curve.losses.q_value, values.mean(), rtol=1e-4)
    np.testing.assert_allclose(curve.losses.td_error, absolute.mean(), rtol=1e-4)
    np.testing.assert_allclose(curve.losses.loss, (squared if config.loss == "squared" else huber).mean(), rtol=1e-4)


@pytest.mark.parametrize(("truncated", "value"), [(True, 10.0), (False, (1 - 0.9**3) / (1 - 0.9))])
def test_a_truncated_episode_is_bootstrapped_and_a_terminated_one_is_not(truncated, value):
    # Reward 1 for three steps. The observation is the number of the step, unless the time limit ends the episode.
    class Steps(jaxenv.Task):
        def initial(self, stream):
            return jnp.zeros(stream.shape, jnp.int32)

        def transition(self, state, action, stream):
            return jaxenv.Transition(state + 1, jnp.ones(stream.shape), (state == 2) & (not truncated))

        def observe(self, state):
            return state * (0 if truncated else 1)

        def observation_spec(self):
            return specs.discrete(4)

        def action_spec(self):
            return specs.discrete(2)

    config = small(
        gamma=0.9, num_gradient_steps=50, learning_rate=0.1, target_rate=0.1, num_evaluations=1, total_steps=400
    )
    envs = [AutoReset(TimeLimit(Steps(num_envs=LANES), 3 if truncated else 9)) for _ in range(2)]
    learner, _ = jax.jit(dqn.make_train(config, *envs))(jax.random.key(0))
    np.testing.assert_allclose(table(learner.params)[0], value, atol=0.3)


def test_dueling_layers_are_a_value_and_advantages_of_mean_zero():
    config = small(dueling=True)
    pi, network, see = dqn.model(config, walk())
    observation = see(walk().reset(jax.random.key(0))[1]).observation[0]
    params = network.init(jax.random.key(0), observation)
    params["params"]["state"]["Dense_0"]["kernel"] += 7.0
    params["params"]["actions"]["Dense_0"]["kernel"] += jnp.array([10.0, 0.0, -1.0])
    values = np.asarray(network.apply(params, observation))
    assert values.shape == (LANES, pi.num_inputs)
    np.testing.assert_allclose(values - 7, np.broadcast_to([7, -3, -4], values.shape), atol=0.1)


@pytest.mark.parametrize(("dueling", "initial"), [(False, 5), (True, -5)])
def test_all_values_start_at_the_initial_value(dueling, initial):
    _, network, see = dqn.model(small(dueling=dueling, initial_value=float(initial)), walk())
    observation = see(walk().reset(jax.random.key(0))[1]).observation[0]
    values = network.apply(network.init(jax.random.key(0), observation), observation)
    np.testing.assert_allclose(values, initial, atol=0.1)


@pytest.mark.parametrize("rate", [0.0, 0.25, 1.0])
def test_the_target_network_is_a_moving_average(rate):
    learner, iteration = started(small(), target_rate=rate, learning_rate=0.1)
    after, _ = iteration(learner)
    assert not np.allclose(table(after.params), table(learner.params), atol=1e-3)
    expected = (1 - rate) * table(learner.target) + rate * table(after.params)
    np.testing.assert_allclose(table(after.target), expected, atol=1e-5)


# --- actions ---------------------------------------------------------------------------------------------------------


def test_the_probability_of_a_random_action_falls_over_a_fraction_of_the_run():
    settings = dqn.Config(epsilon_start=0.9, epsilon_end=0.1, exploration_fraction=0.5)
    found = [float(dqn._epsilon(settings, jnp.float32(x))) for x in (0, 0.25, 0.5, 1)]
    np.testing.assert_allclose(found, [0.9, 0.5, 0.1, 0.1], atol=1e-6)


@pytest.mark.parametrize(
    ("mask", "epsilon", "probabilities"),
    [
        ((), 0.0, [0, 1, 0, 0]),
        ((), 0.4, [0.1, 0.7, 0.1, 0.1]),
        ([True, False, True, True], 0.0, [0, 0, 0, 1]),
        ([True, False, True, True], 0.6, [0.2, 0, 0.2, 0.6]),
    ],
)
def test_a_random_action_is_legal_and_any_other_is_the_best_legal_one(mask, epsilon, probabilities):
    q_values = jnp.broadcast_to(jnp.array([1.0, 4.0, 2.0, 3.0]), (4096, 4))
    masks = mask if mask == () else jnp.broadcast_to(jnp.array(mask), (4096, 4))
    stream = random.stream(jax.random.split(jax.random.key(0), 4096))
    action = np.asarray(dqn._epsilon_greedy(q_values, masks, np.float32(epsilon), stream))
    np.testing.assert_allclose(np.bincount(action, minlength=4) / 4096, probabilities, atol=0.04)
    assert not np.bincount(action, minlength=4)[np.array(probabilities) == 0].any()


def test_the_warm_up_is_random_and_legal_whatever_the_schedule():
    config = small()
    learner, iteration = started(config, epsilon_start=0.0, epsilon_end=0.0)
    rows = stored(config, learner)
    cell, action = rows.timestep.observation, rows.action
    assert action.shape == (LANES, 10)
    assert np.asarray(LEGAL)[cell, action - 3].all()
    assert len(set(action[cell == 4])) == 3
    after, curve = iteration(learner)
    assert curve.steps == 40 + 12
    # The rows of the update are those of the greedy policy.
    rows = stored(config, after)
    cell, action = rows.timestep.observation[:, 10:], rows.action[:, 10:]
    best = np.argmax(np.where(LEGAL, table(learner.params), -np.inf), axis=-1)
    np.testing.assert_array_equal(action, best[cell] + 3)


def test_a_policy_explores_only_if_it_is_asked_to():
    config = small(epsilon_end=1.0)
    learner, _ = started(config)
    env = walk(256)
    best = np.argmax(np.where(LEGAL, table(learner.params), -np.inf), axis=-1) + 3

    def greedy_fraction(explore):
        policy, memory = dqn.make_policy(config, env, learner.params, explore=explore)
        _, rows = jaxenv.unroll(env, policy, *env.reset(jax.random.key(0)), 4, initial_memory=memory)
        assert np.asarray(LEGAL)[rows.timestep.observation, rows.action - 3].all()
        return (np.asarray(rows.action) == best[rows.timestep.observation]).mean()

    assert greedy_fraction(False) == 1
    assert greedy_fraction(True) < 0.8


def test_evaluations_explore_if_they_are_asked_to():
    class Guess(jaxenv.Task):
        """Pays for action 1; one step an episode."""

        def initial(self, stream):
            return jnp.zeros(stream.shape, jnp.int32)

        def transition(self, state, action, stream):
            return jaxenv.Transition(state, action.astype(jnp.float32), jnp.ones(stream.shape, bool))

        def observe(self, state):
            return state

        def observation_spec(self):
            return specs.discrete(2)

        def action_spec(self):
            return specs.discrete(2)

    config = small(eval_explore=True, num_eval_episodes=256)
    learner, iteration = started(config, lambda lanes=LANES: AutoReset(Guess(num_envs=lanes)))

    def mean_return(epsilon):
        values = learner.hyperparameters | {"epsilon_end": jnp.float32(epsilon)}
        return iteration(dataclasses.replace(learner, hyperparameters=values))[1].returns.mean()

    assert mean_return(0) in (0, 1)
    assert 0.3 < mean_return(1) < 0.7


# --- replay ----------------------------------------------------------------------------------------------------------


def test_the_buffer_keeps_raw_observations_and_nothing_that_is_not_read():
    config = small(
        env_id="Breakout-MinAtar", num_eval_episodes=2, max_eval_steps=2, normalize_observation=False, buffer_size=96
    )
    learner = jax.eval_shape(dqn.make_train(config).init, jax.random.key(0))
    rows = learner.buffer.rows
    names = sorted(tree.path_name(path) for path, _ in jax.tree.flatten_with_path(rows)[0])
    assert names == ["action", *(f"timestep.{x}" for x in ("discount", "observation.bytes", "reward", "step_type"))]
    assert rows.timestep.observation.bytes.size == 96 * 400 // 8  # a bit for each flag


def test_priorities_are_the_errors_and_those_of_rows_that_are_no_transitions_are_zero():
    # Nothing is learned, and every window is drawn many times.
    constant = {"learning_rate": 0.0, "target_rate": 1e-12}
    config = small(priority_exponent=0.5, **constant, num_gradient_steps=60, num_evaluations=1)
    learner, iteration = started(config)
    after, _ = iteration(learner)
    rows = stored(config, after)
    leaves = np.asarray(after.buffer.sampling.sum_tree.sums)[: config.buffer_size].reshape(-1, LANES).T
    num_windows = rows.action.shape[1] - 1
    _, errors = errors_by_hand(config, rows, table(learner.params), table(learner.target))
    is_transition = rows.timestep.step_type[:, :-1] != 2
    expected = np.zeros((LANES, num_windows))
    expected[is_transition] = np.sqrt(np.abs(errors))
    np.testing.assert_allclose(leaves[:, :num_windows], expected, atol=2e-3)


def test_importance_weights_reduce_the_loss_of_transitions_with_large_errors():
    config = small(**PRIORITIZED)

    def losses(exponent):
        constant = {"learning_rate": 0.0, "target_rate": 0.0}
        learner, iteration = started(config, importance_exponent=exponent, **constant)
        return iteration(learner)[1].losses

    assert losses(1.0).loss < 0.8 * losses(0.0).loss


def test_observations_are_normalised_by_the_statistics_that_the_policy_uses():
    class Far(Walk):
        """The cell as one large number."""

        def observe(self, state):
            return 1000 + 500 * state.astype(jnp.float32)

        def observation_spec(self):
            return specs.Array((), np.float32)

    config = small(normalize_observation=True, total_steps=800, num_evaluations=1)
    envs = [AutoReset(TimeLimit(Far(num_envs=LANES), 4)) for _ in range(2)]
    learner, curve = jax.jit(dqn.make_train(config, *envs))(jax.random.key(0))
    assert int(learner.statistics.value.moments.count) == 4 * int(learner.update) * 3 + 40
    observation = learner.buffer.rows.timestep.observation
    assert set(np.unique(observation)) <= set(range(1000, 4000, 500))
    # An unnormalised observation would make errors of thousands.
    assert curve.losses.td_error < 10


# --- runs ------------------------------------------------------------------------------------------------------------


def test_a_corridor_is_learned():
    config = dqn.Config(
        num_envs=4,
        num_steps=4,
        num_gradient_steps=4,
        total_steps=4000,
        warmup_steps=400,
        gamma=0.9,
        hidden=(32,),
        n_step=2,
        target_rate=0.05,
        priority_exponent=0.6,
        dueling=True,
        epsilon_end=1.0,  # only a greedy evaluation finds the shortest way
        num_evaluations=1,
        num_eval_episodes=4,
        max_eval_steps=50,
    )
    envs = [AutoReset(Chain(6, num_envs=4)) for _ in range(2)]
    _, curve = jax.jit(dqn.make_train(config, *envs))(jax.random.key(0))
    assert (curve.lengths == 5).all()


def test_a_restored_learner_continues_bit_for_bit(tmp_path):
    init, iteration = compiled(small(**PRIORITIZED))
    first, _ = iteration(init(jax.random.key(0)))
    data.save(tmp_path / "learner.npz", first)
    second, curve = iteration(first)
    again, same_curve = iteration(data.restore(tmp_path / "learner.npz", first))
    assert_equal(*(dataclasses.replace(x, key=jax.random.key_data(x.key)) for x in (second, again)))
    assert_equal(curve, same_curve)
    assert int(second.optimizer[1].count) == 120


@pytest.mark.thorough
def test_iterations_are_the_run_of_a_seed():
    # Nothing is learned, so that the rounding of a batch of seeds changes no action.
    config, keys = small(), jax.random.split(jax.random.key(0), 2)
    train = jax.vmap(dqn.make_train(config, walk(), walk()), in_axes=(0, None))
    seeds, curves = jax.jit(train)(keys, {"learning_rate": 0.0})
    init, iteration = compiled(config)
    learner, _ = iteration(init(keys[1], {"learning_rate": 0.0}))
    learner, curve = iteration(learner)
    assert curves.steps.tolist() == [[52, 64], [52, 64]]
    np.testing.assert_array_equal(curves.returns[1, 1], curve.returns)
    seed = jax.tree.map(lambda x: x[1], seeds.buffer.rows)
    np.testing.assert_array_equal(stored(config, learner).action, seed.action.swapaxes(0, 1).reshape(LANES, -1))


def test_hyperparameters_are_those_of_the_learner():
    def largest_step(**values):
        learner, iteration = started(small(), **values)
        return np.abs(table(iteration(learner)[0].params) - table(learner.params)).max()

    assert largest_step(learning_rate=0.1) > 0.05
    assert largest_step(learning_rate=0.0) == 0
    assert 0 < largest_step(learning_rate=0.1, max_gradient_norm=1e-6) < 0.03


def test_the_learning_rate_ends_at_0():
    learner, iteration = started(small(), learning_rate=0.1)
    after, _ = iteration(dataclasses.replace(learner, update=jnp.int32(small().num_updates)))
    np.testing.assert_array_equal(table(after.params), table(learner.params))


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "log"}, r"loss .*got 'log'"),
        ({"num_gradient_steps": 0}, r"num_gradient_steps .*got 0"),
        ({"epsilon_end": 1.5}, r"epsilon_end .*got 1.5"),
        ({"exploration_fraction": 0.0}, r"exploration_fraction .*got 0.0"),
        ({"priority_exponent": -1.0}, r"priority_exponent .*got -1.0"),
        ({"buffer_size": 999}, r"buffer_size .*got 999"),
        ({"buffer_size": 20, "warmup_steps": 0}, r"buffer_size .*got 20"),
        ({"initial_value": float("nan")}, r"initial_value .*got nan"),
        ({"n_step": 12, "warmup_steps": 39}, r"warmup_steps .*got 39"),
        ({"total_steps": 1639}, r"total_steps .*got 1639"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=f"dqn.Config: {message}"):
        dqn.Config(**options)


@pytest.mark.parametrize("env_id", PRESETS["dqn"])
def test_a_preset_is_a_config_that_fits_its_environment(env_id):
    jax.eval_shape(dqn.make_train(dqn.Config(env_id=env_id, **PRESETS["dqn"][env_id])).init, jax.random.key(0))


@pytest.mark.parametrize(
    "action", [specs.Bounded((2,), np.int32, 0, 1), specs.Bounded((1,), np.float32, -1, 1)], ids=str
)
def test_an_action_that_is_not_one_integer_is_refused(action):
    env = AutoReset(random_environment(specs.discrete(2), action, num_envs=8))
    with pytest.raises(ValueError, match=r"dqn: the action .*got Bounded"):
        dqn.make_train(dqn.Config(), env, env)


def test_two_stacks_are_required():
    with pytest.raises(ValueError, match="dqn: env and eval_env must"):
        dqn.make_train(dqn.Config(), AutoReset(count_to_two(8)))
