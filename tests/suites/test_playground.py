"""MuJoCo Playground's environments: equal to Playground's own loop, under the episodes of this library."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.suites import playground as suite
from jaxenv.testing import check_env
from tests.suites.comparison import compare

# Names of JAX and NumPy that MJX and its dependencies still use.
pytestmark = pytest.mark.filterwarnings("ignore")
mujoco_playground = pytest.importorskip("mujoco_playground")

LANES = 2


class Walk(mujoco_playground.MjxEnv):
    """A walk on the line without physics, which compiles fast: observations are a dict, and it ends beyond 2."""

    xml_path, action_size, mj_model, mjx_model = "", 1, None, None

    def reset(self, rng):
        place = jax.random.uniform(rng)
        return mujoco_playground.State(
            place, self._observation(place), jnp.zeros(()), jnp.zeros(()), {"reward/speed": jnp.zeros(())}, {"rng": rng}
        )

    def step(self, state, action):
        place = state.data + action[0] * self._config.reward_config.scale
        state.metrics["reward/speed"] = action[0]  # as Playground's environments do
        done = (jnp.abs(place) > 2).astype(jnp.float32)
        return state.replace(data=place, obs=self._observation(place), reward=action[0], done=done)

    def _observation(self, place):
        return {"state": place[None], "privileged_state": jnp.array([place, place**2])}


def config():
    from ml_collections import config_dict

    inner = config_dict.create(scale=1.0)
    return config_dict.create(ctrl_dt=0.1, sim_dt=0.1, episode_length=6, action_repeat=1, reward_config=inner)


mujoco_playground.dm_control_suite.register_environment("JaxenvWalk", Walk, config)


def load(name, num_envs=LANES, **kwargs):
    return jaxenv.make(f"playground:{name}", num_envs, **kwargs)


@pytest.mark.parametrize(("name", "num_steps"), [("PendulumSwingup", 12), ("JaxenvWalk", 30)])
def test_episodes_equal_those_of_playground(name, num_steps):
    env = suite.single(name, ()).env

    def step(state, action):
        state = env.step(state, action)
        return state, state.obs, state.reward, state.done, state.done

    given = load(name, autoreset=None, max_episode_steps=0)
    _, terminations, truncations = compare(given, num_steps, step, tolerance=1e-4)
    assert (terminations, truncations) == (LANES if name == "JaxenvWalk" else 0, 0)


def test_the_limit_of_the_config_truncates_and_every_episode_starts_in_a_new_state():
    # Playground's BraxAutoResetWrapper replays the first state of a lane.
    assert suite.action_and_limit("CartpoleBalance")[1] == 1000
    env = load("JaxenvWalk", 8)
    policy = jaxenv.rollout.random_policy(env)
    run = jax.jit(lambda key: jaxenv.unroll(env, policy, *env.reset(key), 40)[1].timestep)
    rows = jax.device_get(run(jax.random.key(0)))
    place = rows.observation["state"][..., 0]
    np.testing.assert_array_equal(rows.terminated, np.abs(place) > 2)
    assert rows.truncated.any()
    starts = place[rows.step_type == 0]
    assert len(starts) == len(np.unique(starts)) > 8
    np.testing.assert_array_equal(rows.env_info["reward/speed"], np.where(rows.step_type == 0, 0, rows.reward))


def test_observations_keep_the_structure_of_the_suite():
    spec = load("JaxenvWalk").observation_spec()
    assert {name: leaf.shape for name, leaf in spec.items()} == {"privileged_state": (2,), "state": (1,)}


def test_physics_run_in_jax_and_entries_of_the_config_are_options():
    env = load("PendulumSwingup", sim_dt=0.005).unwrapped._single.env
    assert (env.n_substeps, env.mjx_model.impl.value) == (4, "jax")
    slow = load("JaxenvWalk", **{"reward_config.scale": 0.0})
    state, first = slow.reset(jax.random.key(0))
    _, row = slow.step(state, np.ones((LANES, 1), np.float32))
    np.testing.assert_array_equal(row.observation["state"], first.observation["state"])


def test_a_step_keeps_dtypes_structure_bounds_and_grammar():
    check_env(
        load("JaxenvWalk"),
        properties=["same_tree", "rows_match_specs", "within_specs", "episode_grammar"],
        num_steps=32,
        raise_on_failure=True,
    )


def test_environments_that_use_a_key_twice_say_so():
    assert "no_word_reused" in load("CartpoleBalance").unwrapped.opt_outs
    assert "no_word_reused" not in load("PendulumSwingup").unwrapped.opt_outs


def test_an_environment_whose_models_would_be_downloaded_is_refused(monkeypatch):
    mjx_env = mujoco_playground.registry.mjx_env
    monkeypatch.setattr(mjx_env, "MENAGERIE_PATH", pathlib.Path("none"))
    monkeypatch.setattr(mjx_env, "ensure_menagerie_exists", lambda: pytest.fail("a download was started"))
    with pytest.raises(ValueError, match=r"playground:Go1Joystick.*mujoco_menagerie"):
        load("Go1JoystickFlatTerrain")


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("CartpoleBalanc", {}, r"playground: no environment 'CartpoleBalanc'.*'CartpoleBalance'"),
        (
            "CartpoleBalance",
            {"simdt": 1.0},
            r"CartpoleBalance: unknown keyword 'simdt'.*'sim_dt'",
        ),
        ("CartpoleBalance", {"impl": "c"}, r"playground:CartpoleBalance: playground rejects \{'impl': 'c'\}"),
        ("CartpoleBalance", {"episode_length": 5}, r"episode_length .*got 5"),
        ("CartpoleBalance", {"action_repeat": 2}, r"action_repeat .*got 2"),
    ],
)
def test_wrong_names_and_keywords_are_refused(name, kwargs, message):
    with pytest.raises(ValueError, match=message):
        load(name, **kwargs)
