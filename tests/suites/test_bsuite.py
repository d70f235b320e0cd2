"""bsuite's settings by their ids, compared with bsuite's own."""

import importlib

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.core.wrapper import layers
from jaxenv.suites import bsuite as suite
from tests.packages import lazy

bsuite, sweep = lazy("bsuite"), lazy("bsuite.sweep")

# What bsuite's loaders add to a setting, and the defaults of its environments where ours differ.
CONSTANTS = {
    "memory_len": {"num_bits": 1},
    "memory_size": {"memory_length": 2},
    "umbrella_distract": {"chain_length": 20},
}
FIRST_OF_EACH = [f"{name}/0" for name in suite.EXPERIMENTS]


def test_ids_settings_episodes_and_tags_equal_bsuite():
    assert sorted(suite.ids()) == sorted(sweep.SWEEP)
    for id in sweep.SWEEP:
        found, setting = suite.experiment(id)
        title = id.partition("/")[0]
        theirs = {name: value for name, value in sweep.SETTINGS[id].items() if name != "seed"}
        assert setting == theirs | CONSTANTS.get(title, {}), id
        assert found.num_episodes == sweep.EPISODES[id]
        assert found.tags == importlib.import_module(f"bsuite.experiments.{title}.sweep").TAGS


@pytest.mark.parametrize("id", [id for id in FIRST_OF_EACH if not id.startswith("mnist")])
def test_specs_and_lengths_of_episodes_equal_bsuite(id):
    """Shapes, numbers of actions, and how long an episode of the first action lasts."""
    theirs, env = bsuite.load_from_id(id), jaxenv.make(f"bsuite:{id}", num_envs=2)
    assert env.observation_spec().shape == theirs.observation_spec().shape
    assert env.action_spec().num_values == theirs.action_spec().num_values
    timestep, length = theirs.reset(), 0
    while not timestep.last():
        timestep, length = theirs.step(0), length + 1
    step, (state, timestep) = jax.jit(env.step), jax.jit(env.reset)(jax.random.key(0))
    lengths = np.zeros(2, int)
    running = np.ones(2, bool)
    while running.any():
        state, timestep = step(state, np.zeros(2, np.int32))
        lengths += running
        running &= ~np.asarray(timestep.is_last())
    # Poles fall after a number of steps that depends on where they started.
    tolerance = 25 if id.startswith("cartpole") else 0
    assert np.abs(lengths - length).max() <= tolerance


def rewards(id: str, num_envs: int, num_steps: int, **kwargs) -> tuple[np.ndarray, np.ndarray]:
    """Rewards ``[T, B]`` of random actions, and whether the row is FIRST."""
    env = jaxenv.make(id, num_envs, **kwargs)
    step, (state, timestep) = jax.jit(env.step), env.reset(jax.random.key(1))
    rng, rows = np.random.default_rng(0), []
    for _ in range(num_steps):
        state, timestep = step(state, rng.integers(env.action_spec().num_values, size=num_envs, dtype=np.int32))
        rows.append((np.asarray(timestep.reward), np.asarray(timestep.is_first())))
    return tuple(map(np.stack, zip(*rows, strict=True)))


def test_noise_is_normal_with_the_scale_of_the_setting():
    # Catch pays integers, so what is left is the noise; setting 2 has the smallest, 0.1.
    noisy, first = rewards("bsuite:catch_noise/2", 512, 40)
    noise = (noisy - np.round(noisy))[~first]
    assert abs(noise.mean()) < 0.005
    assert abs(noise.std() - 0.1) < 0.005
    assert np.unique(noise).size > noise.size * 0.9
    assert np.all(noisy[first] == 0)


@pytest.mark.parametrize(("id", "scale"), [("catch_scale/0", 0.001), ("catch_scale/19", 1000), ("catch_scale/9", 1)])
def test_rewards_are_scaled(id, scale):
    found = np.unique(rewards(f"bsuite:{id}", 64, 12)[0])
    assert np.allclose(found, np.array([-1, 0, 1]) * scale)


def test_evaluation_uses_the_rewards_of_the_task():
    for id in ("bsuite:catch_noise/19", "bsuite:catch_scale/19"):
        assert set(np.unique(rewards(id, 16, 20, mode="eval")[0])) == {-1.0, 0.0, 1.0}


def test_counters_count_the_rewards_of_the_task():
    env = jaxenv.make("bsuite:catch_noise/19", num_envs=64)
    state, timestep = env.reset(jax.random.key(0))
    for _ in range(9):
        state, timestep = env.step(state, np.zeros(64, np.int32))
    assert set(np.unique(timestep.env_info["total_regret"])) == {0.0, 2.0}


def test_wrappers_of_the_caller_stand_around_those_of_the_setting():
    env = jaxenv.make("bsuite:bandit_scale/3", wrappers=["SignReward"])
    names = [type(level).__name__ for level in layers(env)]
    assert names.index("SignReward") < names.index("TransformReward")


@pytest.mark.parametrize(
    ("id", "options", "message"),
    [
        ("cach/0", {}, r"bsuite: no experiment 'cach'.*'catch'"),
        ("DeepSea-bsuite", {}, "'DeepSea-bsuite' is an id"),
        ("catch/20", {}, r"bsuite: 'catch' .*got 'catch/20'"),
        ("catch", {}, r"bsuite: 'catch' .*got 'catch'"),
        ("catch/01", {}, "got 'catch/01'"),
        ("deep_sea/0", {"size": 4}, r"bsuite:deep_sea/0: size is 10 in this setting.* 'DeepSea-bsuite' to"),
        ("catch/0", {"wrappers": "ClipReward"}, r"make: wrappers .*got 'ClipReward'"),
    ],
)
def test_bad_ids_and_options_are_refused(id, options, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.make(f"bsuite:{id}", **options)
