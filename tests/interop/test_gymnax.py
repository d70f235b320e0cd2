"""`to_gymnax`: environments of this library behind gymnax's methods, for its wrappers and trainers."""

import dataclasses
import functools
import pickle

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.interop import gymnax, gymnax_v0, to_gymnax
from jaxenv.testing import Counting
from tests.packages import lazy
from tests.rows import assert_equal
from tests.suites import gymnax_rollouts

gymnax_itself, experimental, wrappers = lazy("gymnax"), lazy("gymnax.experimental"), lazy("gymnax.wrappers")
dm_env, gym, purerl = (lazy(f"gymnax.wrappers.{name}") for name in ("dm_env", "gym", "purerl"))
spaces = lazy("gymnax.environments.spaces")

KEYS = jax.random.split(jax.random.key(0), 4)


def started(env, params=None, keys=KEYS):
    return jax.vmap(env.reset, (0, None))(keys, params)


def stepped(env, state, action, params=None, keys=KEYS):
    return jax.vmap(env.step, (0, 0, 0, None))(keys, state, action, params)


def played(env, num_steps, params=None, actions=None):
    """The results of the steps, ``[T, B, ...]``."""
    _, state = started(env, params)
    found = []
    for t in range(num_steps):
        action = jnp.ones(4, jnp.int32) if actions is None else actions[t]
        found.append(stepped(env, state, action, params, jax.vmap(jax.random.fold_in, (0, None))(KEYS, t)))
        state = found[-1][1]
    return jax.device_get(jax.tree.map(lambda *x: jnp.stack(x), *found))


@pytest.mark.parametrize("id", ["CartPole-v1", "Breakout-MinAtar"])
def test_lanes_that_are_vmapped_equal_single_ones(id):
    env = to_gymnax(id)
    obs, state = started(env)
    together = stepped(env, state, jnp.array([0, 1, 1, 0]))
    for lane in range(4):
        alone, one = env.reset(KEYS[lane])
        assert_equal(jax.device_get(alone), np.asarray(obs[lane]), rtol=1e-6)
        expected = jax.tree.map(lambda x, lane=lane: x[lane], together)
        assert_equal(
            jax.device_get(env.step(KEYS[lane], one, int(lane in (1, 2)))), jax.device_get(expected), rtol=1e-6
        )


def test_starts_are_those_of_the_batched_environment():
    obs, _ = started(to_gymnax("CartPole-v1"))
    np.testing.assert_array_equal(obs, jaxenv.make("CartPole-v1", 4).reset(KEYS)[1].observation)


def test_a_step_that_ends_an_episode_shows_both_observations_and_starts_the_next():
    env, params = gymnax.make("CartPole-v1")
    obs, state, _, terminated, truncated, info = played(env, 5, params.replace(max_steps_in_episode=3))
    assert truncated[:, 0].tolist() == [False, False, True, False, False]
    assert not terminated.any()
    assert state.time[:, 0].tolist() == [1, 2, 0, 1, 2]
    assert np.all(np.abs(obs[2]) <= 0.05)  # the range of starts
    assert np.all(np.abs(info["final_observation"][2][:, 1]) > 0.3)  # three pushes to the right
    np.testing.assert_allclose(info["final_observation"][[0, 1, 3, 4]], obs[[0, 1, 3, 4]], atol=1e-6)


def test_step_env_does_not_restart():
    env, params = gymnax.make("CartPole-v1")
    params = params.replace(max_steps_in_episode=1)
    _, state = env.reset(KEYS[0], params)
    _, state, _, terminated, _ = env.step_env(KEYS[1], state, 1, params)
    assert not terminated
    assert env.is_truncated(state, params)
    assert env.step_env(KEYS[1], state, 1, params)[1].time == 2


def test_params_of_any_kind_of_number_share_a_program():
    env, params = gymnax.make("CartPole-v1")

    @jax.jit
    @chex.assert_max_traces(n=1)
    def observed(params):
        return env.reset(KEYS[0], params)[0]

    for gravity in (5, 5.0, np.float64(5), np.array(5), jnp.float32(5)):
        observed(params.replace(gravity=gravity))
    observed(params)
    axes = params.replace(**{**dict.fromkeys(vars(params)), "gravity": 0})
    assert axes.gravity is not None
    assert jax.vmap(observed, (axes,))(params.replace(gravity=jnp.arange(3.0))).shape == (3, 4)


def test_time_is_what_the_limit_counts():
    repeat = [("ActionRepeat", {"num": 4})]
    env, params = gymnax.make("Pendulum-v1", wrappers=[*repeat, "RescaleAction"], max_episode_steps=3)
    _, state = env.reset(KEYS[0], params)
    for step in (1, 2, 3):
        _, state, *_, info = env.step_env(KEYS[1], state, jnp.zeros(1), params)
        assert state.time == step
        assert env.is_truncated(state, params) == info["truncated"] == (step == 3)


@pytest.mark.parametrize("make", [functools.partial(gymnax.make, api="0.x"), gymnax_v0.make])
def test_the_older_interface_reports_truncation_as_done(make):
    env, params = make("CartPole-v1")
    _, _, _, done, info = played(env, 3, params.replace(max_steps_in_episode=3))
    assert done[:, 0].tolist() == [False, False, True]
    assert info.keys() == {"discount"}
    assert info["discount"].all()


def test_legacy_keys_are_those_of_typed_keys():
    env = to_gymnax("CartPole-v1")
    typed, raw = (started(env, keys=keys)[0] for keys in (KEYS, jax.random.key_data(KEYS)))
    np.testing.assert_array_equal(typed, raw)


def test_all_randomness_comes_from_the_keys_of_the_call():
    env, params = gymnax.make("CartPole-v1")
    params = params.replace(max_steps_in_episode=1)
    _, state = started(env, params)
    next_starts = [stepped(env, state, jnp.ones(4, jnp.int32), params, keys)[0] for keys in (KEYS, KEYS, KEYS[::-1])]
    np.testing.assert_array_equal(next_starts[0], next_starts[1])
    assert not np.any(next_starts[0] == next_starts[2])


def test_params_have_the_names_of_gymnax_and_one_value_per_lane_under_vmap():
    env, params = gymnax.make("CartPole-v1")
    theirs = gymnax_itself.make("CartPole-v1")[1]
    shared = {"gravity", "masscart", "masspole", "length", "force_mag", "tau", "max_steps_in_episode"}
    assert vars(theirs).keys() & vars(params).keys() == shared
    assert isinstance(params.max_steps_in_episode, int)
    assert params.max_steps_in_episode == theirs.max_steps_in_episode
    many = jax.tree.map(lambda x: jnp.broadcast_to(x, (4,)), params).replace(force_mag=jnp.arange(4.0))
    _, state = started(env)
    obs = jax.vmap(env.step)(KEYS, state, jnp.ones(4, jnp.int32), many)[0]
    pushed = obs[:, 1] - started(env)[0][:, 1]
    np.testing.assert_allclose(pushed[1:] - pushed[:1], 0.0195 * np.arange(1, 4), rtol=0.05)


SAME_IDS = [id for id in gymnax_rollouts.IDS if id in jaxenv.ids()]


@pytest.mark.parametrize("id", SAME_IDS)
def test_a_param_under_a_name_of_gymnax_has_its_shape_and_its_value(id):
    mine, theirs = (vars(make(id)[1]) for make in (gymnax.make, gymnax_itself.make))
    for name in mine.keys() & theirs.keys() - {"max_steps_in_episode"}:
        assert np.shape(mine[name]) == np.shape(theirs[name]), name
        np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-6)


def test_seeds_and_lanes_may_both_be_vmapped():
    env = to_gymnax("CartPole-v1")
    keys = jax.random.split(jax.random.key(1), (2, 4))
    _, state = jax.vmap(lambda k: started(env, keys=k))(keys)
    both = jax.vmap(lambda s, k: stepped(env, s, jnp.ones(4, jnp.int32), keys=k))(state, keys)
    for seed in range(2):
        own = stepped(env, jax.tree.map(lambda x, n=seed: x[n], state), jnp.ones(4, jnp.int32), keys=keys[seed])
        assert_equal(jax.device_get(jax.tree.map(lambda x, n=seed: x[n], both)), jax.device_get(own), rtol=1e-6)


def test_wrappers_of_gymnax_work_around_it():
    env = purerl.LogWrapper(purerl.FlattenObservationWrapper(to_gymnax("Catch-bsuite")))
    out = played(env, 12, actions=jnp.zeros((12, 4), jnp.int32))
    obs, _, reward, terminated, _, info = out
    assert obs.shape == (12, 4, 50)
    ended = info["returned_episode"]
    np.testing.assert_array_equal(ended, terminated)
    np.testing.assert_array_equal(info["returned_episode_returns"][ended], reward[ended])
    step = dm_env.GymnaxToDmEnvWrapper(to_gymnax("CartPole-v1"))
    assert step.step(KEYS[0], step.reset(KEYS[0]), 1).discount == 1


def test_wrappers_of_gymnax_that_change_steps_work_around_it():
    env = wrappers.LegacyStepAPIWrapper(
        purerl.StickyActionWrapper(to_gymnax("CartPole-v1"), 1.0)
    )  # always repeats action 0
    _, state = env.reset(KEYS[0])
    obs, state, reward, done, _ = env.step(KEYS[1], state, 1)
    assert obs[1] < -0.1
    assert (reward, done, state.last_action) == (1, False, 0)


def test_a_legacy_wrapper_outermost_gives_a_trainer_before_1_0_the_log_wrapper_of_gymnax():
    env, params = gymnax.make("Catch-bsuite")
    env = wrappers.LegacyStepAPIWrapper(purerl.LogWrapper(env))
    _, state = started(env, params)
    rows = []
    for _ in range(12):
        _, state, reward, done, info = stepped(env, state, jnp.zeros(4, jnp.int32), params)
        rows.append((reward, done, info["returned_episode"], info["returned_episode_returns"]))
    reward, done, returned, returns = map(np.stack, zip(*rows, strict=True))
    assert done.any(axis=0).all()
    np.testing.assert_array_equal(returned, done)
    np.testing.assert_array_equal(returns[done], reward[done])


def test_rollouts_of_gymnax_last_as_long_as_the_params_say():
    def push_right(policy_params, obs, key):
        return jnp.int32(1)

    env = to_gymnax("CartPole-v1")
    rollout = experimental.RolloutWrapper(
        push_right, env=env, env_params=env.default_params.replace(max_steps_in_episode=12)
    )
    *_, returned = rollout.batch_rollout(KEYS, None)
    assert np.all((returned >= 8) & (returned <= 12))


def test_calls_outside_compiled_code_are_compiled_once():
    env = to_gymnax("CartPole-v1")
    _, state = env.reset(KEYS[0])
    for action in (0, 1):
        _, state, *_ = env.step(KEYS[1], state, action)
    with jax.no_tracing():
        env.step(KEYS[2], state, 1)


def test_an_action_of_one_component_may_be_a_scalar():
    env = to_gymnax("Pendulum-v1")
    _, state = env.reset(KEYS[0])
    scalar, vector = (env.step(KEYS[1], state, action) for action in (0.5, np.array([0.5], np.float32)))
    assert_equal(jax.device_get(scalar), jax.device_get(vector))


def gradients(env):
    """Of the last entry of an observation and of the reward, over the action of Pendulum in a given state."""
    _, state = env.reset(KEYS[0])

    def observed(action):
        obs, _, reward, *_ = env.step(KEYS[1], state, action)
        return obs[2], reward

    _, pull_back = jax.vjp(observed, jnp.array([0.4]))
    return [pull_back(tuple(map(jnp.float32, one)))[0].item() for one in ((1, 0), (0, 1))]


def test_gradients_stop_at_observations():
    np.testing.assert_allclose(gradients(to_gymnax("Pendulum-v1")), [0, -0.0008], rtol=1e-4)


def test_names_of_the_module_are_those_of_gymnax():
    assert gymnax.registered_envs == jaxenv.ids()
    assert gymnax.environments.spaces.Box is spaces.Box
    assert gymnax.wrappers.LogWrapper is purerl.LogWrapper
    assert gymnax_v0.environments.spaces.Box is spaces.Box
    with pytest.raises(AttributeError, match=r"the wrappers of.* 1\.x take six values"):
        gymnax_v0.wrappers.LogWrapper
    with pytest.raises(AttributeError, match=r"has no attribute 'register': use jaxenv\.register"):
        gymnax.register


def test_gymnax_makes_an_environment_that_is_registered_with_it(monkeypatch):
    registration = gymnax_itself.registration
    monkeypatch.setattr(registration, "_registry", dict(registration._registry))
    monkeypatch.setattr(registration, "registered_envs", [])
    gymnax_itself.register("jaxenv/CartPole-v1", functools.partial(to_gymnax, "CartPole-v1"))
    env, params = gymnax_itself.make("jaxenv/CartPole-v1", max_episode_steps=7)
    assert (env.name, params.max_steps_in_episode) == ("CartPole-v1", 7)


def test_methods_that_read_states_of_gymnax_name_what_to_use():
    env = to_gymnax("CartPole-v1")
    assert env.obs_shape == (4,)
    with pytest.raises(AttributeError, match="no attribute 'get_obs': use the observation"):
        env.get_obs(None)
    with pytest.raises(AttributeError, match="no attribute 'is_terminal': use the flag"):
        env.is_terminal(None)
    with pytest.raises(AttributeError, match=r"'GymnaxEnv' object has no.* 'fly'"):
        env.fly()


def test_wrappers_of_gymnax_for_gymnasium_work_around_it():
    single = gym.GymnaxToGymWrapper(to_gymnax("CartPole-v1"), seed=3)
    assert single.action_space.n == 2
    assert single.reset()[0].shape == single.observation_space.shape
    assert single.step(1)[1] == 1
    many = gym.GymnaxToVectorGymWrapper(to_gymnax("CartPole-v1"), num_envs=3)
    assert many.reset()[0].shape == (3, 4)
    assert many.step(np.ones(3, np.int32))[0].shape == (3, 4)


def test_spaces_are_those_of_the_specs():
    pendulum = to_gymnax("Pendulum-v1")
    assert isinstance(pendulum.action_space(), spaces.Box)
    assert pendulum.action_space().low.tolist() == [-2]
    assert pendulum.num_actions == 1
    assert isinstance(to_gymnax("CartPole-v1").action_space(), spaces.Discrete)
    assert to_gymnax("CartPole-v1").num_actions == 2


def changed(**values):
    return to_gymnax("CartPole-v1").default_params.replace(**values)


def test_replaced_params_may_have_axes_for_vmap_and_axes_may_be_replaced():
    many = changed(masscart=jnp.ones((2, 3)), max_steps_in_episode=np.arange(1, 4))
    assert many.masscart.shape == (2, 3)
    axes = jax.tree.map(lambda _: None, many).replace(masscart=0)
    assert (axes.masscart, axes.gravity) == (0, None)
    assert jax.eval_shape(lambda mass: changed(masscart=mass).masscart, jnp.float32(-3)).shape == ()


def test_options_may_have_the_names_of_gymnax():
    made = to_gymnax("CartPole-v1", force_mag=3.0, x_threshold=1.5)
    assert made.default_params.force_mag == 3
    assert made._env.unwrapped.position_limit == 1.5


def stepped_with(params):
    env = to_gymnax("CartPole-v1")
    return env.step(KEYS[0], env.reset(KEYS[0])[1], 1, params)


WRONG_SHAPE = r"to_gymnax: params.gravity must be one number, got shape \(3,\): jax.vmap over params gives each lane"


def test_several_tasks_have_no_params_but_the_limit():
    for env in (
        to_gymnax(["CartPole-v0", "CartPole-v1"]),
        to_gymnax(jaxenv.make(["CartPole-v0", "CartPole-v1"], autoreset=None)),
    ):
        params = env.default_params
        assert [field.name for field in dataclasses.fields(params)] == ["max_steps_in_episode"]
        _, state = env.reset(KEYS[0], params)
        *_, truncated, info = env.step(KEYS[0], state, 0, params.replace(max_steps_in_episode=1))
        assert truncated
        assert info["task_id"] in (0, 1)
    with pytest.raises(ValueError, match=r"leave out num_envs, jax\.vmap over keys makes.* 4"):
        to_gymnax(["CartPole-v0", "CartPole-v1"], num_envs=4)


def test_params_pickle():
    params = to_gymnax("CartPole-v1").default_params.replace(gravity=5.0)
    copy = pickle.loads(pickle.dumps(params))
    assert type(copy) is type(params)
    assert (copy.gravity, copy.max_steps_in_episode) == (5, 500)


def reset_state():
    return to_gymnax("CartPole-v1").reset(KEYS[0])[1]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: to_gymnax("CartPole-v1", autoreset="next_step"), "step restarts episodes itself"),
        (lambda: to_gymnax(jaxenv.make("CartPole-v1")), r"step restarts episodes.* with autoreset=None"),
        (lambda: to_gymnax("CartPole-v1", wrappers=["NormalizeObservation"]), "NormalizeObservation carries state of"),
        (
            lambda: to_gymnax(Counting([[3], [4]], num_envs=2)),
            r"to_gymnax: lengths .*got shape \(2, 1\)",
        ),
        (lambda: to_gymnax("CartPole-v1", num_envs=4), r"leave out num_envs, jax.vmap over keys makes.* 4"),
        (lambda: to_gymnax(5), r"to_gymnax: env .*got 5"),
        (lambda: to_gymnax(Counting([3]), max_episode_steps=3), r"options belong to.* got max_episode_steps"),
        (lambda: to_gymnax("CartPole-v1", api="2"), r"api .*got '2'"),
        (lambda: to_gymnax("CartPole-v1").default_params.replace(force=1), "no param 'force', the params are gravity"),
        (lambda: changed(masscart=-3.0), r"replace: masscart .*got -3.0"),
        (lambda: changed(masscart=jnp.array([1.0, -1.0])), r"masscart .*got -1.0 in lane 1"),
        (lambda: changed(max_steps_in_episode=0), r"max_steps_in_episode .*got 0"),
        (lambda: changed(max_steps_in_episode=-1), r"max_steps_in_episode .*got -1"),
        (lambda: changed(max_steps_in_episode=2.5), r"max_steps_in_episode .*got 2.5"),
        (lambda: to_gymnax("CartPole-v1").reset(KEYS[0], changed(gravity=jnp.ones(3))), WRONG_SHAPE),
        (lambda: stepped_with(changed(gravity=jnp.ones(3))), WRONG_SHAPE),
        (lambda: to_gymnax("CartPole-v1", gravity=[1.0]), r"params.gravity .*got shape \(1,\)"),
        (lambda: to_gymnax("CartPole-v1", force=1, force_mag=1), "force_mag and force"),
        (
            lambda: to_gymnax("CartPole-v1").step(KEYS[0], reset_state(), jnp.zeros(3, jnp.int32)),
            r"action .*got \(3,\)",
        ),
        (lambda: to_gymnax("CartPole-v1").reset(0), r"got int32\[\], use jax.random.key\(seed\)"),
        (lambda: to_gymnax("CartPole-v1").reset(KEYS), r"key .*got 4 keys"),
    ],
)
def test_what_does_not_fit_is_refused(use, message):
    with pytest.raises(ValueError, match=message):
        use()
