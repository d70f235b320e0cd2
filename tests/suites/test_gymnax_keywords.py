"""Keywords of ``load("gymnax:...")``, environments registered by users, and errors."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.suites import gymnax as suite
from jaxenv.testing import check_env
from tests.errors import like
from tests.packages import lazy
from tests.suites.gymnax_rollouts import IDS, LANES, load, task_of

gymnax, environments = lazy("gymnax"), lazy("tests.suites.gymnax_environments")


def test_derived_params_are_computed():
    env = load("CartPole-v1", 2, masspole=[0.1, 1.0], gravity=5.0)
    params = env.unwrapped._single.env_params({**vars(env.unwrapped.params), "max_steps_in_episode": 500})
    np.testing.assert_allclose(params.total_mass, [1.1, 2.0], rtol=1e-6)
    np.testing.assert_allclose(params.polemass_length, [0.05, 0.5], rtol=1e-6)


@pytest.mark.parametrize(
    ("id", "kwargs", "shape", "values"),
    [
        ("Catch-bsuite", {"rows": 6, "columns": 3}, (6, 3), 3),
        ("FourRooms-misc", {"use_visual_obs": True}, (13, 13, 2), 4),
        ("FrozenLake-misc", {"desc": ["SF", "FG"]}, (), 4),
        ("SimpleBandit-bsuite", {"num_actions": 4}, (1, 1), 4),
        ("DeepSea-bsuite", {"size": 4, "action_mapping_key": jax.random.key(3)}, (4, 4), 2),
    ],
)
def test_constructor_arguments_of_gymnax_are_options(id, kwargs, shape, values):
    env = load(id, **kwargs)
    assert (env.observation_spec().shape, env.action_spec().num_values) == (shape, values)


def test_bounds_follow_the_params_that_determine_them():
    env = load("CartPole-v1", x_threshold=1.0)
    assert env.observation_spec().maximum[0] == 2
    assert load("PointRobot-misc", max_force=0.5).action_spec().maximum.tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="x_threshold determines a spec"):
        env.with_params(x_threshold=2.0)


@pytest.mark.parametrize(
    ("id", "kwargs", "message"),
    [
        ("CartPole", {}, "gymnax: no environment 'CartPole', did you mean 'CartPole-v1'"),
        (
            "Catch-bsuite",
            {"row": 3},
            "gymnax:Catch-bsuite: unknown keyword 'row', did you mean 'rows'",
        ),
        (
            "CartPole-v1",
            {"gravitas": 3},
            "unknown keyword 'gravitas', did you mean 'gravity'",
        ),
        ("CartPole-v1", {"total_mass": 3.0}, "gymnax:CartPole-v1: total_mass is computed"),
        ("CartPole-v1", {"max_steps_in_episode": 3}, "is the time... max_episode_steps to load"),
        ("CartPole-v1", {"x_threshold": [1.0, 2.0]}, "x_threshold determines a spec and ...got [1.0, 2.0]"),
        ("CartPole-v1", {"gravity": [1.0, 2.0, 3.0]}, "gravity has 3 values, one per... num_envs = 8"),
        ("CartPole-v1", {"params": {}}, "gymnax:CartPole-v1: unknown keyword 'params'"),
        ("CartPole-v1", {"mode": "test"}, "make: mode ...got 'test'"),
        ("MetaMaze-misc", {"maze_size": 4}, "gymnax:MetaMaze-misc: gymnax rejects {'maze_size': 4}"),
        ("Catch-bsuite", {"rows": 0}, r"gymnax:Catch-bsuite: gymnax rejects {'rows': 0}"),
        ("DeepSea-bsuite", {"size": 0}, r"gymnax:DeepSea-bsuite: gymnax rejects {'size': 0}"),
        ("Catch-bsuite", {"rows": [5]}, "gymnax:Catch-bsuite: rows ...got (5,)"),
        ("Catch-bsuite", {"rows": {"a": 1}}, "gymnax:Catch-bsuite: rows ...got {'a': 1}"),
        ("Catch-bsuite", {"rows": True}, "gymnax:Catch-bsuite: rows ...got True"),
        ("Catch-bsuite", {"name": "mine"}, "gymnax:Catch-bsuite: unknown keyword 'name'"),
        ("CartPole-v1", {"x_threshold": True}, "x_threshold determines a spec and ...got True"),
        ("CartPole-v1", {"x_threshold": -1.0}, r"gymnax:CartPole-v1: gymnax rejects {'x_threshold': -1.0}"),
        ("CartPole-v1", {"max_episode_steps": 2.5}, "gymnax:CartPole-v1: max_episode_steps ...got 2.5"),
        (
            "CartPole-v1",
            {"max_episode_steps": [1, 2]},
            "CartPole-v1: max_episode_steps has 2 values, one per",
        ),
    ],
)
def test_invalid_ids_and_keywords_raise(id, kwargs, message):
    with pytest.raises(ValueError, match=like(message)):
        load(id, **kwargs)


def test_the_id_is_text():
    with pytest.raises(ValueError, match=r"^gymnax: name .*got None"):
        suite.load(None)


def test_with_params_rejects_derived_params():
    with pytest.raises(ValueError, match=r"total_mass is computed from.* 2\.0"):
        load("CartPole-v1").with_params(total_mass=2.0)


def test_nothing_is_downloaded(monkeypatch, tmp_path):
    monkeypatch.setattr(suite, "_MNIST_FILES", [str(tmp_path / "train.gz")])
    with pytest.raises(ValueError, match=r"gymnax would download MNIST: put the files.*train\.gz"):
        load("MNISTBandit-bsuite")


def test_the_mnist_bandit_works_where_the_data_exist(monkeypatch):
    images = np.random.default_rng(0).integers(-128, 128, (20, 28, 28)).astype(np.int8)
    monkeypatch.setattr(suite, "_MNIST_FILES", [])
    monkeypatch.setattr("gymnax.utils.load_mnist.load_mnist", lambda: ((images, np.arange(20) % 10), None))
    env = load("MNISTBandit-bsuite", fraction=0.5)
    _, timestep = jax.eval_shape(env.reset, jax.random.key(0))
    suite.single.cache_clear()  # so that no other test uses this instance
    assert timestep.observation.shape == (LANES, 28, 28)
    assert "regret" in timestep.env_info
    assert env.env.duration == 1


def test_environments_registered_by_users_with_gymnax_can_be_loaded(monkeypatch):
    monkeypatch.setitem(gymnax.registration._registry, "Pair-v0", environments.Pair)
    monkeypatch.setattr("gymnax.registered_envs", [*gymnax.registered_envs, "Pair-v0"])
    env = load("Pair-v0", 2)
    assert env.observation_spec() == {"near": specs.Bounded((2,), np.float32, -1, 1), "far": specs.discrete(3)}
    assert env.action_spec() == (specs.discrete(3), specs.Bounded((2,), np.float32, -1, 1))
    assert check_env(env, properties=["same_tree", "leading_lanes", "rows_match_specs", "strict_promotion"]).ok
    assert task_of(jax.eval_shape(env.reset, jax.random.key(0))[0]).env_state.time.dtype == np.float32


@pytest.mark.parametrize(("limit", "length"), [(9, 2), (1, 1), (0, 2)])
def test_an_own_is_truncated_of_a_registered_environment_truncates(monkeypatch, limit, length):
    monkeypatch.setitem(gymnax.registration._registry, "Leaving-v0", environments.Leaving)
    monkeypatch.setattr("gymnax.registered_envs", [*gymnax.registered_envs, "Leaving-v0"])
    env = load("Leaving-v0", 2, max_episode_steps=limit, autoreset="same_step")
    rows = jaxenv.unroll(env, jaxenv.rollout.random_policy(env), *env.reset(jax.random.key(0)), 6)[1].timestep
    ends = np.flatnonzero(np.asarray(rows.is_last()[:, 0]))
    np.testing.assert_array_equal(ends, range(length, 6, length))
    assert (rows.discount == 1).all()


def test_required_arguments_and_non_numeric_params_are_supported(monkeypatch):
    monkeypatch.setitem(gymnax.registration._registry, "Odd-v0", environments.Odd)
    monkeypatch.setitem(gymnax.registration._registry, "Handed-v0", lambda **kwargs: environments.Odd(**kwargs))
    monkeypatch.setattr("gymnax.registered_envs", [*gymnax.registered_envs, "Odd-v0", "Handed-v0"])
    assert load("Handed-v0", size=3).unwrapped._single.env.size == 3
    monkeypatch.setitem(gymnax.registration._registry, "Handed-v0", lambda **kwargs: environments.Pair(**kwargs))
    with pytest.raises(ValueError, match="gymnax:Handed-v0: unknown keyword 'speeed'"):
        load("Handed-v0", speeed=3)
    env = load("Odd-v0", 2, size=3, scale=[1.0, 2.0])
    assert (env.unwrapped._single.env.size, list(vars(env.unwrapped.params))) == (3, ["scale"])
    jax.eval_shape(env.reset, jax.random.key(0))
    with pytest.raises(ValueError, match=r"gymnax:Odd-v0: kind is not a number and .*got 'pole'"):
        load("Odd-v0", size=3, kind="pole")
    with pytest.raises(ValueError, match=r"gymnax:Odd-v0: gymnax cannot make.*'size'"):
        load("Odd-v0")


def test_ids_are_those_registered_with_gymnax():
    assert suite.ids() == sorted(gymnax.registered_envs) == sorted([*IDS, "MNISTBandit-bsuite"])
