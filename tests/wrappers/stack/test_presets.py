"""Presets: the stacks that `make` builds from them for training and for evaluation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.core.wrapper import layers
from jaxenv.wrappers import preset


def stack_of(name, id, mode):
    """The class names of the levels that a preset adds to an environment, outermost first."""
    env = jaxenv.make(id, wrappers=preset(name), mode=mode, max_episode_steps=0)
    bare = {type(level).__name__ for level in layers(jaxenv.make(id, max_episode_steps=0))}
    return env, [type(level).__name__ for level in layers(env) if type(level).__name__ not in bare]


@pytest.mark.parametrize(
    ("name", "id", "train", "evaluation"),
    [
        ("default", "CartPole-v1", ["EpisodeStatistics"], ["EpisodeStatistics"]),
        (
            "control",
            "Pendulum-v1",
            ["NormalizeReward", "NormalizeObservation", "EpisodeStatistics"],
            ["NormalizeObservation", "EpisodeStatistics"],
        ),
        (
            "image",
            "Breakout-MinAtar",
            ["FrameStack", "SignReward", "EpisodeStatistics"],
            ["FrameStack", "EpisodeStatistics"],
        ),
    ],
)
def test_a_preset_trains_on_its_stack_and_evaluates_on_the_rewards_of_the_task(name, id, train, evaluation):
    assert stack_of(name, id, "train")[1] == train
    env, found = stack_of(name, id, "eval")
    assert found == evaluation
    assert env.reward_spec() == jaxenv.spec(id).make().reward_spec()
    assert all(level.frozen for level in layers(env) if hasattr(level, "frozen"))


def test_reported_returns_are_those_of_the_task():
    env = jaxenv.make("Pendulum-v1", 2, wrappers=preset("control"), max_episode_steps=1)
    state, timestep = env.reset(jax.random.key(0))
    _, timestep = env.step(state, jnp.zeros((2, 1)))
    plain = jaxenv.make("Pendulum-v1", 2)
    _, raw = plain.step(plain.reset(jax.random.key(0))[0], jnp.zeros((2, 1)))
    assert not np.allclose(timestep.reward, raw.reward)
    np.testing.assert_allclose(timestep.env_info["episode"]["return"], raw.reward, rtol=1e-5)


@pytest.mark.parametrize(
    ("id", "shape"),
    [("Seaquest-MinAtar", (10, 10, 40)), ("MiniGrid-Empty-5x5-v0", (7, 7, 12)), ("BouncingSquares-v0", (64, 64, 12))],
)
def test_the_preset_for_images_stacks_the_frames_in_the_channels(id, shape):
    spec = jaxenv.make(id, wrappers=preset("image")).observation_spec()
    assert shape in [leaf.shape for leaf in jax.tree.leaves(spec)]


def test_changing_the_list_of_a_preset_does_not_change_the_preset():
    first = preset("image")
    first[-1][1]["num"] = 2
    first.append("RunStats")
    assert preset("image")[-1] == ("FrameStack", {"num": 4, "axis": -1})


def test_an_unknown_preset_is_refused():
    with pytest.raises(ValueError, match=r"preset: name .*got 'atari'"):
        preset("atari")
