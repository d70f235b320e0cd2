"""Twins: in a rollout, on replay and in specs a transformer shows what the wrapper of the same meaning shows."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs, wrappers
from jaxenv.data import Replay, TransformedReplay
from jaxenv.data.transformers import (
    FrameStacker,
    ImageScale,
    Normalizer,
    ObservationNormalizer,
    RewardClipping,
    RewardFunction,
)
from jaxenv.rollout import Experience
from tests.data.transformers.sensors import sensors
from tests.rows import assert_equal, unrolled


def curve(reward):
    return reward * reward - 3


BOUNDED = specs.Bounded((), np.float32, -3, 90)

TWINS = {
    "clipping": (RewardClipping(1, 4), lambda env: wrappers.ClipReward(env, 1, 4)),
    "function": (RewardFunction(curve), lambda env: wrappers.TransformReward(env, curve)),
    "bounded function": (RewardFunction(curve, BOUNDED), lambda env: wrappers.TransformReward(env, curve, BOUNDED)),
    "images": (ImageScale(0.1, 0.7), lambda env: wrappers.ScaleImage(env, 0.1, 0.7)),
    "one image": (ImageScale(fields=("camera",)), lambda env: wrappers.ScaleImage(env, fields=("camera",))),
    "floats": (
        ObservationNormalizer(clip=1.1, epsilon=0.5),
        lambda env: wrappers.NormalizeObservation(env, epsilon=0.5, clip=1.1),
    ),
    "one float": (
        ObservationNormalizer(fields=("place",)),
        lambda env: wrappers.NormalizeObservation(env, fields=("place",)),
    ),
    "stack": (FrameStacker(3, -1), lambda env: wrappers.FrameStack(env, 3, -1)),
    "new axis": (
        FrameStacker(3, None, ("count", "camera")),
        lambda env: wrappers.FrameStack(env, 3, fields=("count", "camera")),
    ),
}
# FrameStacker refuses rows made in same_step mode.
MODES = [(name, "next_step") for name in TWINS]
MODES += [(name, "same_step") for name, (transformer, _) in TWINS.items() if not isinstance(transformer, FrameStacker)]
ALL = pytest.mark.parametrize(("name", "mode"), MODES)


@functools.cache
def raw(mode):
    """Actions ``[T, B]`` with no symmetry, and the raw rows of T + 1 steps."""
    actions = np.random.default_rng(0).integers(0, 10, (14, 3)).astype(np.int32)
    return actions, unrolled(sensors(mode), actions)


@functools.cache
def wrapped(name, mode):
    return unrolled(TWINS[name][1](sensors(mode)), raw(mode)[0])


@ALL
def test_a_rollout_shows_the_same_rows(name, mode):
    transformer, rows = TWINS[name][0], jax.tree.map(jnp.asarray, raw(mode)[1])
    assert (rows.step_type == 2).any(axis=0).all()
    start = transformer.init(jax.tree.map(lambda x: x[0], rows))
    shown = jax.jit(lambda start, rows: jax.lax.scan(transformer.transform_timestep, start, rows)[1])(start, rows)
    assert_equal(jax.device_get(shown), wrapped(name, mode), rtol=1e-5 if isinstance(transformer, Normalizer) else 1e-6)


@ALL
def test_specs_are_the_same(name, mode):
    transformer, wrapper = TWINS[name]
    shown, expected = transformer.transform_spec(sensors(mode).time_step_spec()), wrapper(sensors(mode))
    specs.require_equal(shown.observation, expected.observation_spec())
    specs.require_equal(shown.reward, expected.reward_spec())
    specs.require_equal(specs.unbatched(shown.env_info, 0), expected.env_info_spec())  # without bounds
    assert jax.tree.structure(shown) == jax.tree.structure(expected.time_step_spec())


@pytest.mark.parametrize("name", [name for name, twin in TWINS.items() if not isinstance(twin[0], Normalizer)])
def test_replayed_windows_show_the_same_rows(name):
    rows, replay = Experience(jax.tree.map(jnp.asarray, raw("next_step")[1])), Replay(15, 3, ignore_earliest=2)
    view = TransformedReplay(replay, TWINS[name][0])
    batch = jax.device_get(view.gather_all((), replay.add(replay.init(rows), rows))[1])
    shown = jax.tree.map(lambda x: np.swapaxes(x, 0, 1), batch.experience.timestep)
    assert_equal(shown, wrapped(name, "next_step"))
