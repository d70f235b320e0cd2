"""`to_brax`: environments of this library under Brax's wrappers, evaluator and trainers."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.interop import to_brax
from jaxenv.testing import Counting, RandomEnvironment, random_environment
from tests import packages
from tests.interop.ends import LANES, LIMIT, TERMINATED, TRUNCATED, ending_alone

envs = packages.imported("brax.envs")
from brax.envs.wrappers import training  # noqa: E402
from brax.training import acting  # noqa: E402
from brax.training.agents.ppo import losses, networks, train  # noqa: E402

KEYS = jax.random.split(jax.random.PRNGKey(0), 4)  # Brax's wrappers take legacy keys only
TYPED = jax.random.wrap_key_data(KEYS)


def batch_of(id, length, **options):
    """An environment as Brax's trainers step it."""
    return training.wrap(to_brax(id, max_episode_steps=length, **options), episode_length=length)


def played(env, actions, keys=KEYS):
    """All states, ``[T + 1, B, ...]``, for actions ``[T, B, n]``."""

    def run(keys, actions):
        def one(state, action):
            state = env.step(state, action)
            return state, state

        start = env.reset(keys)
        # Wrappers of Brax write into the state that they receive.
        _, later = jax.lax.scan(one, jax.tree.map(lambda x: x, start), actions)
        return jax.tree.map(lambda x, rest: jnp.concatenate([x[None], rest]), start, later)

    return jax.device_get(jax.jit(run)(keys, actions))


def rows_of_jaxenv(id, length, actions):
    """The same episodes of this library, ``[T + 1, B, ...]``."""
    env = jaxenv.make(id, 4, max_episode_steps=length, autoreset="same_step")

    def run(keys, actions):
        state, first = env.reset(keys)
        _, later = jax.lax.scan(lambda state, action: env.step(state, action), state, actions)
        return jax.tree.map(lambda x, rest: jnp.concatenate([x[None], rest]), first, later)

    return jax.device_get(jax.jit(run)(TYPED, actions))


@pytest.mark.parametrize("lane", range(LANES))
def test_where_both_ends_meet_there_is_no_truncation(lane):
    env = training.wrap(to_brax(ending_alone(lane)), episode_length=LIMIT)
    states = played(env, np.zeros((LIMIT, len(KEYS), env.action_size), np.float32))
    ended = (TERMINATED | TRUNCATED)[:, lane]
    first = 1 + np.argmax(ended)  # later episodes are those of the wrappers
    for found, expected in ((states.done, ended), (states.info["truncation"], TRUNCATED[:, lane])):
        np.testing.assert_array_equal(found[1 : 1 + first], np.tile(expected[:first, None], (1, len(KEYS))))


# --- the protocol -----------------------------------------------------------------------------------------------------


def in_every_order(env):
    yield training.VmapWrapper(env)
    yield training.wrap(env, episode_length=7, action_repeat=2)
    yield training.AutoResetWrapper(training.VmapWrapper(training.EpisodeWrapper(env, 7, 1)))
    yield training.EvalWrapper(training.wrap(env, episode_length=7))


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1", "Breakout-MinAtar"])
def test_steps_keep_the_structure_and_types_of_the_state_under_every_wrapper(id):
    for env in in_every_order(to_brax(id)):
        action = jnp.zeros((4, env.action_size))
        start = jax.eval_shape(env.reset, KEYS)
        after = jax.eval_shape(lambda keys, env=env, action=action: env.step(env.reset(keys), action), KEYS)
        assert jax.tree.structure(start) == jax.tree.structure(after)
        for x, y in zip(jax.tree.leaves(start), jax.tree.leaves(after), strict=True):
            assert (x.shape, x.dtype, x.weak_type) == (y.shape, y.dtype, y.weak_type)
        for name in ("reward", "done"):
            assert getattr(start, name).dtype == jnp.float32
        assert start.obs.shape == (4, env.observation_size)
        assert start.obs.dtype == jnp.float32


def test_it_is_an_environment_of_brax_and_may_be_registered_there():
    envs.register_environment("pole", functools.partial(to_brax, "CartPole-v1"))
    env = envs.create("pole", episode_length=5, batch_size=4)
    assert isinstance(env.unwrapped, envs.Env)
    assert (env.observation_size, env.action_size, env.backend) == (4, 2, "jaxenv")
    assert env.reset(jax.random.PRNGKey(0)).obs.shape == (4, 4)


def test_legacy_keys_are_those_of_typed_keys():
    reset = jax.vmap(to_brax("CartPole-v1").reset)
    np.testing.assert_array_equal(reset(KEYS).obs, reset(TYPED).obs)


def test_lanes_under_vmap_run_the_batched_code():
    shapes = []

    class Recording(jaxenv.Wrapper):
        owns = frozenset()

        def proceed(self, state, action):
            shapes.append(action.shape)
            return super().proceed(state, action)

    env = training.wrap(to_brax(Recording(jaxenv.spec("CartPole-v1").make())), episode_length=5)
    jax.eval_shape(lambda keys: env.step(env.reset(keys), jnp.zeros((4, 2))), KEYS)
    assert (4,) in shapes


# --- episodes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 13])
def test_episodes_are_those_of_this_library(length):
    chosen = jax.random.randint(jax.random.key(1), (40, 4), 0, 2)
    found = played(batch_of("CartPole-v1", length), jax.nn.one_hot(chosen, 2))
    expected = rows_of_jaxenv("CartPole-v1", length, chosen)
    assert expected.terminated.any() == (length > 1)
    np.testing.assert_allclose(found.obs, expected.observation, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.reward, expected.reward)
    np.testing.assert_array_equal(found.done, expected.is_last())
    np.testing.assert_array_equal(found.info["truncation"], expected.truncated)
    np.testing.assert_array_equal(found.info["episode_done"], expected.is_last())


@pytest.mark.parametrize("strategy", ["cond", "compact"])
def test_every_episode_has_a_start_of_its_own_with_every_restart_strategy(strategy):
    class Declaring(jaxenv.Wrapper):
        reset_strategy = strategy

    env = training.wrap(to_brax(Declaring(jaxenv.spec("CartPole-v1").make())), episode_length=2)
    starts = played(env, jnp.zeros((6, 4, 2))).obs[::2]
    expected = rows_of_jaxenv("CartPole-v1", 2, jnp.zeros((6, 4), jnp.int32)).observation[::2]
    np.testing.assert_allclose(starts, expected, rtol=1e-5, atol=1e-6)


def test_ends_are_truncations_only_at_the_time_limit():
    env = Counting([5, 2, 3, 9], num_envs=1)
    limited = jaxenv.wrappers.TimeLimit(env, 3)
    batch = training.wrap(to_brax(limited), episode_length=3)
    found = played(batch, jax.nn.one_hot(jnp.full((11, 4), 7), 10))
    # Episodes of 5, 2, 3, 9 steps, cut after 3. Termination wins on the third step of the third one.
    assert np.flatnonzero(found.done[:, 0]).tolist() == [3, 5, 8, 11]
    assert np.flatnonzero(found.info["truncation"][:, 0]).tolist() == [3, 11]
    assert found.info["steps"][:, 0].tolist() == [0, 1, 2, 3, 1, 2, 1, 2, 3, 1, 2, 3]
    sums = found.info["episode_metrics"]
    assert sums["length"][:, 0].tolist() == found.info["steps"][:, 0].tolist()
    np.testing.assert_array_equal(sums["sum_reward"], 7 * sums["length"])


def test_targets_of_brax_do_not_depend_on_the_observation_after_a_truncation():
    found = played(batch_of("CartPole-v1", 3), jnp.zeros((6, 4, 2)))
    done, truncation = found.done[1:], found.info["truncation"][1:]
    values = jnp.arange(1.0, 7.0)[:, None] + jnp.zeros(4)
    after = jnp.full(4, 1e6)  # the value of the observation after the last step, which is that of the next episode
    targets, advantages = losses.compute_gae(
        truncation, done * (1 - truncation), found.reward[1:], values, after, lambda_=0.9, discount=0.5
    )
    # Rows 2 and 5 are truncated and left out. Rows 1 and 4 bootstrap from the value before the last step.
    np.testing.assert_array_equal(advantages[jnp.array([2, 5])], 0)
    np.testing.assert_allclose(targets[jnp.array([1, 4])], 1 + 0.5 * values[jnp.array([2, 5])])


def test_a_lane_that_is_done_earns_nothing_while_brax_repeats_the_action():
    env = training.wrap(to_brax(Counting([3, 5])), episode_length=100, action_repeat=4)
    found = played(env, jax.nn.one_hot(jnp.full((3, 4), 2), 10))
    assert found.reward[:, 0].tolist() == [0, 6, 8, 2]
    assert found.done[:, 0].tolist() == [0, 1, 0, 1]


class Paid(RandomEnvironment):
    """Pays the action."""

    def transition(self, state, action, stream):
        return dataclasses.replace(super().transition(state, action, stream), reward=action.astype(jnp.float32))


def test_evaluation_by_brax_equals_that_of_this_library():
    def limited(num_envs):
        four = specs.discrete(4)
        paid = Paid(spaces=random_environment(four, four).spaces, num_envs=num_envs)
        return jaxenv.wrappers.TimeLimit(paid, 9)

    def repeat(obs, key):  # the observation as the action, both one-hot
        return obs, {}

    key = jax.random.PRNGKey(3)
    env = training.wrap(to_brax(limited(1)), episode_length=9)
    found = acting.Evaluator(env, lambda _: repeat, 16, 9, 1, key).run_evaluation((), {})
    env = jaxenv.wrappers.AutoReset(limited(16))
    keys = jax.random.wrap_key_data(jax.random.split(jax.random.split(key)[1], 16))
    expected = jaxenv.rollout.evaluate(env, lambda timestep, _: timestep.observation, keys)
    assert found["eval/episode_reward"] == expected.returns.mean()
    assert found["eval/avg_episode_length"] == expected.lengths.mean()
    assert 0 < found["eval/episode_time_limit_reached"] < 1


# --- observations, actions and params ---------------------------------------------------------------------------------


def acted(spec, action):
    """The action that an environment of this spec receives."""
    received = []

    class Recording(jaxenv.Wrapper):
        owns = frozenset()

        def proceed(self, state, action):
            jax.debug.callback(received.append, action)
            return super().proceed(state, action)

    observation = specs.Array((1,), np.float32)
    env = to_brax(Recording(random_environment(observation, spec)))
    env.step(env.reset(TYPED[0]), jnp.asarray(action))
    jax.effects_barrier()
    return jax.tree.map(lambda x: np.asarray(x)[0].tolist(), received[0])


def test_actions_are_mapped_from_the_unit_interval():
    force = specs.Bounded((2, 1), np.float32, -1, 3)
    assert acted(force, [-1.0, 0.5]) == [[-1.0], [2.0]]
    assert acted(force, [-7.0, 7.0]) == [[-1.0], [3.0]]
    assert acted(specs.Bounded((), np.int32, 5, 7), [0.1, 0.3, 0.2]) == 6
    assert acted({"b": force, "a": specs.discrete(2)}, [0.1, 0.3, 0.5, 1.0]) == {"a": 1, "b": [[2.0], [3.0]]}


def test_observations_are_vectors():
    image, place = specs.Bounded((2, 2, 3), np.uint8, 0, 255), specs.discrete(4)
    cases = [
        (image, 12),
        (place, 4),
        ((specs.Array((3,), np.float32), place), 7),
        ({"state": image, "pixels/view": image}, {"state": (12,), "pixels/view": (2, 2, 3)}),
        ({"goal": {"x": place, "y": place}}, {"goal": (8,)}),
    ]
    for spec, size in cases:
        env = to_brax(random_environment(spec, place))
        assert env.observation_size == size
        obs = jax.eval_shape(jax.vmap(env.reset), KEYS).obs
        shapes = {name: x.shape[1:] for name, x in obs.items()} if isinstance(obs, dict) else obs.shape[1]
        assert shapes == size
        assert {x.dtype for x in jax.tree.leaves(obs)} == {jnp.dtype("float32")}


def test_brax_randomizes_params_per_lane():
    def randomization_fn(params):
        axes = jax.tree.map(lambda _: None, params)
        return dataclasses.replace(params, force=jnp.arange(4.0)), dataclasses.replace(axes, force=0)

    env = to_brax("CartPole-v1")
    wrapped = training.wrap(env, episode_length=9, randomization_fn=randomization_fn)
    found = played(wrapped, jnp.tile(jnp.array([0.0, 1.0]), (1, 4, 1)))
    pushed = found.obs[1, :, 1] - found.obs[0, :, 1]
    np.testing.assert_allclose(pushed[1:] - pushed[:1], 0.0195 * np.arange(1, 4), rtol=0.05)
    assert env.sys.force == 10


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: to_brax("CartPole-v1", autoreset="next_step"), "episodes restart outside .*, leave out autoreset"),
        (lambda: to_brax(jaxenv.make("CartPole-v1")), "episodes restart outside .* with autoreset=None"),
        (lambda: to_brax("CartPole-v1", wrappers=["NormalizeObservation"]), "NormalizeObservation carries state of"),
        (lambda: to_brax(Counting([[3], [4]], num_envs=2)), r"lengths .*got shape \(2, 1\)"),
        (lambda: to_brax("CartPole-v1", reset_strategy="cond"), "reset_strategy"),
        (lambda: to_brax(5), r"env .*got 5"),
        (lambda: to_brax(with_action(specs.Array((2,), np.float32))), r"floats, all with.* Array"),
        (lambda: to_brax(with_action(specs.discrete(3).replace(shape=(2,)))), "single integers and of floats, all"),
        (
            lambda: to_brax(with_reward(specs.Array((2,), np.float32))),
            "a reward must be one number, .* has 2: wrap it in ScalarizeReward",
        ),
        (lambda: to_brax("CartPole-v1").reset(3), r"key .*got 3, use"),
        (lambda: stepped(jnp.array(1)), r"action .*got int32\[\]"),
        (lambda: stepped(jnp.zeros(3)), r"action .*got float32\[3\]"),
    ],
)
def test_what_does_not_fit_is_refused(use, message):
    with pytest.raises(ValueError, match=message):
        use()


def with_action(spec):
    return random_environment(specs.Array((1,), np.float32), spec)


def with_reward(spec):
    return random_environment(specs.Array((1,), np.float32), specs.discrete(2), spec)


def stepped(action):
    env = to_brax("CartPole-v1")
    return env.step(env.reset(KEYS[0]), action)


# --- learning ---------------------------------------------------------------------------------------------------------


def test_ppo_learns(monkeypatch):
    if not hasattr(jax, "device_put_replicated"):  # Brax 0.14 calls what JAX 0.10 removed

        def replicated(x, devices):
            return jax.pmap(lambda _: x, axis_name="i", devices=devices)(jnp.arange(len(devices)))

        monkeypatch.setattr(jax, "device_put_replicated", replicated, raising=False)
    factory = functools.partial(
        networks.make_ppo_networks, policy_hidden_layer_sizes=(64,), value_hidden_layer_sizes=(64,)
    )
    *_, metrics = train.train(
        to_brax("CartPole-v1"),
        80_000,
        episode_length=500,
        num_envs=128,
        unroll_length=32,
        batch_size=32,
        num_minibatches=4,
        num_updates_per_batch=8,
        learning_rate=1e-3,
        discounting=0.99,
        reward_scaling=0.1,
        normalize_observations=True,
        network_factory=factory,
        num_eval_envs=64,
    )
    assert metrics["eval/episode_reward"] > 100  # a random policy has 22
