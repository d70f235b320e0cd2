"""Environments of the package ``bsuite``, played with all they draw written down, and ours held to them.

The original keeps an episode in attributes and draws from one ``RandomState``. Each environment's test gives two
translations: of the original's attributes into our state of one lane, and of the recorded draws of one step into ours.
Ours, put into the same states and given the same draws, must show the same.

An environment of ours that draws in its step has ``advance(state, action, draws)``, which gives what `transition`
gives; the `transition` of one that draws nothing is called without a key.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import jaxenv
from jaxenv import random
from jaxenv.random import Stream
from tests.envs.recorder import Recorder


@dataclasses.dataclass
class Step:
    """One step of the original. States and draws are ours, of one lane, as NumPy arrays."""

    before: Any
    action: int
    draws: Any
    after: Any
    reward: float
    terminated: bool
    observation: np.ndarray  # after the step
    info: dict[str, float]  # bsuite_info() after the step


@dataclasses.dataclass(frozen=True)
class Translation:
    """How the original is written in our arrays.

    Attributes:
        id: of our environment.
        state: the original -> our state of one lane (arrays without the axis of lanes, in our dtypes).
        draws: the recorded calls of one step -> our draws of one lane; ``()`` for one that draws nothing.
    """

    id: str
    state: Callable[[Any], Any]
    draws: Callable[[list], Any] = lambda calls: ()


def recorded(env, seed=0):
    """The original, at the start of an episode, drawing from a `Recorder`."""
    env._rng = Recorder(seed)
    timestep = env.reset()
    assert timestep.first()
    env._rng.take()
    return env


def played_step(env, translation, action):
    """One step of the original as a `Step`. It must not stand at the end of an episode."""
    before = translation.state(env)
    timestep = env.step(int(action))
    assert not timestep.first(), "the original began a new episode instead of stepping"
    # Every end of bsuite is an end of the task.
    assert timestep.discount == (0.0 if timestep.last() else 1.0)
    return Step(
        before,
        int(action),
        translation.draws(env._rng.take()),
        translation.state(env),
        float(timestep.reward),
        timestep.last(),
        np.copy(timestep.observation),
        dict(env.bsuite_info()),
    )


def injected_steps(env, translation, num_steps, place, seed=0):
    """One step from each of many states.

    Args:
        env: the original, from `recorded`.
        translation: of it.
        num_steps: how many.
        place: called with (env, rng) before every step: puts the original's attributes anywhere, and may return the
            action to take; otherwise it is drawn.
        seed: of the states and actions.
    """
    rng = np.random.default_rng(seed)
    steps = []
    for _ in range(num_steps):
        env._reset_next_step = False  # the last step may have ended an episode
        action = place(env, rng)
        env._rng.take()
        action = rng.integers(env.action_spec().num_values) if action is None else action
        steps.append(played_step(env, translation, action))
    return steps


def episodes(make, translation, num_episodes, policy=None, seed=0):
    """Whole episodes of the original: a list of lists of `Step`.

    Args:
        make: without arguments, gives the original; made anew for every episode.
        translation: of it.
        num_episodes: how many.
        policy: called with (env, rng), gives an action; uniform by default.
        seed: of the policy and of the original's draws.
    """
    found = []
    for number in range(num_episodes):
        rng, env = np.random.default_rng([seed, number]), recorded(make(), 1000 * seed + number)
        steps = []
        while not (steps and steps[-1].terminated):
            action = rng.integers(env.action_spec().num_values) if policy is None else policy(env, rng)
            steps.append(played_step(env, translation, action))
        found.append(steps)
    return found


def stacked(rows: Sequence[Any]):
    """Trees of one lane, stacked into one of many: leaves ``[N, ...]``."""
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *rows)


# The environment is an argument, so that one compilation serves all its params.
@jax.jit
def advance(env, state, action, draws):
    """Our step of the bare task: the next state, reward, whether it ended, the observation and the counters."""
    with_draws = hasattr(env, "advance")
    out = env.advance(state, action, draws) if with_draws else env.transition(state, action, None)
    return out.state, (out.reward, out.terminated, env.observe(out.state), env.state_info(out.state))


@jax.jit
def follow(env, state, actions, draws):
    """Our steps by ``actions`` (``[T, B]``) and draws (leaves ``[T, B, ...]``): what `advance` shows, ``[T, ...]``."""
    return jax.lax.scan(lambda state, row: advance(env, state, *row), state, (actions, draws))[1]


def assert_steps_match(env, steps, tolerance=0.0, state_tolerance=None):
    """Every step, given its draws, ends in the original's state, reward, flag, observation and counters.

    Args:
        env: ours, bare.
        steps: of the original.
        tolerance: largest difference of a float; integers and flags are equal.
        state_tolerance: that of the state, if it is another.

    Returns:
        The largest difference found.
    """
    before, after, draws = (stacked([getattr(s, name) for s in steps]) for name in ("before", "after", "draws"))
    action = np.array([s.action for s in steps], np.int32)
    state, shown = jax.device_get(advance(env, before, action, draws))
    assert jax.tree.structure(state) == jax.tree.structure(after)
    errors = []
    for (path, ours), theirs in zip(jax.tree_util.tree_leaves_with_path(state), jax.tree.leaves(after), strict=True):
        name = jax.tree_util.keystr(path, simple=True)
        assert ours.dtype == theirs.dtype, f"{name}: {ours.dtype} is not {theirs.dtype}"
        errors.append(_error(name, ours, theirs, steps, tolerance if state_tolerance is None else state_tolerance))
    return max(_shown_error(shown, steps, tolerance), *errors)


def assert_episodes_match(env, played, tolerance=0.0):
    """Ours, started where the original started and given its actions and draws alone, shows the same to the end.

    Returns:
        The largest difference found.
    """
    longest = max(map(len, played))
    padded = [[*steps, *[steps[-1]] * (longest - len(steps))] for steps in played]
    starts = stacked([steps[0].before for steps in played])
    actions = np.array([[s.action for s in steps] for steps in padded], np.int32).T
    draws = jax.tree.map(lambda x: x.swapaxes(0, 1), stacked([stacked([s.draws for s in steps]) for steps in padded]))
    shown = jax.device_get(follow(env, starts, actions, draws))
    error = 0.0
    for lane, steps in enumerate(played):
        assert steps[-1].terminated
        of_lane = jax.tree.map(lambda x: x[: len(steps), lane], shown)  # noqa: B023
        error = max(error, _shown_error(of_lane, steps, tolerance))
    return error


initial = jax.jit(lambda env, stream: env.initial(stream))


def starts(env, num_lanes, seed=0):
    """Our states at the start of as many episodes, as NumPy arrays: ``initial`` alone, which compiles quickly."""
    return jax.device_get(initial(env, streams(num_lanes, seed)))


def streams(num_lanes, seed=0):
    """Streams of random numbers for as many lanes."""
    words = np.random.default_rng(seed).integers(2**32, size=(4, num_lanes), dtype=np.uint32)
    return random.Stream(*words)


show = jax.jit(lambda env, state: (env.observe(state), env.state_info(state)))


def assert_starts_match(env, original, translation, num_episodes=200, tolerance=0.0):
    """Ours, put where the original's episodes start, shows the same there; gives the largest difference found."""
    states, observations = [], []
    for _ in range(num_episodes):
        timestep = original.reset()
        states.append(translation.state(original))
        observations.append(np.copy(timestep.observation))
        original._rng.take()
    observation, info = jax.device_get(show(env, stacked(states)))
    assert info.keys() == original.bsuite_info().keys()
    theirs = np.stack(observations)
    error = np.abs(np.asarray(observation, theirs.dtype) - theirs)
    assert np.all(error <= tolerance), f"observation of a start is off by {error.max()}"
    return float(error.max())


def assert_specs_match(env, original):
    """Our specs have the shape, dtype and number of actions of the original's, and its bounds where it gives any."""
    ours, theirs = env.observation_spec(), original.observation_spec()
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    if hasattr(theirs, "minimum"):
        np.testing.assert_array_equal(ours.minimum, np.broadcast_to(theirs.minimum, ours.shape))
        np.testing.assert_array_equal(ours.maximum, np.broadcast_to(theirs.maximum, ours.shape))
    actions = env.action_spec()
    assert (actions.shape, actions.dtype, int(actions.minimum)) == ((), np.int32, 0)
    assert actions.num_values == original.action_spec().num_values
    # Only the original's own ends end an episode.
    assert jaxenv.spec(env.name).max_episode_steps is None


def _shown_error(shown, steps, tolerance):
    reward, terminated, observation, info = shown
    # As a time step of ours shows it: in the dtype of the original's observation.
    theirs = stacked([s.observation for s in steps])
    _error("terminated", terminated, np.array([s.terminated for s in steps]), steps, 0)
    assert info.keys() == steps[0].info.keys()
    return max(
        _error("reward", reward, np.array([s.reward for s in steps]), steps, tolerance),
        _error("observation", np.asarray(observation, theirs.dtype), theirs, steps, tolerance),
        *(_error(name, info[name], np.array([s.info[name] for s in steps]), steps, tolerance) for name in info),
        0.0,
    )


def _error(what, ours, theirs, steps, tolerance):
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape} is not {theirs.shape}"
    error = np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).reshape(len(steps), -1)
    if ours.dtype.kind != "f":
        tolerance = 0
    wrong = np.flatnonzero(~np.all(error <= tolerance, axis=-1))
    if wrong.size:
        i = wrong[0]
        raise AssertionError(
            f"{what} differs in {wrong.size} of {len(steps)} steps, first in {i}: {ours[i]} is not {theirs[i]}\n"
            f"by action {steps[i].action} with draws {steps[i].draws} from {steps[i].before}"
        )
    return float(error.max(initial=0.0))


def assert_counts_match(counts, expected):
    """Counts of draws are those of independent draws with these means, each to 4.5 standard deviations."""
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    assert np.all(np.abs(counts - expected) <= 4.5 * np.sqrt(expected)), f"{counts} where {expected} is expected"


def bare(id, num_envs=1, **kwargs):
    """Our environment alone: no time limit, no restarts."""
    return jaxenv.spec(id).make(num_envs, **kwargs)


_initial = jax.jit(lambda env, key: env.initial(key))


def start(env, num_lanes):
    """The states with which ``num_lanes`` lanes of our bare environment start: leaves ``[num_lanes, ...]``."""
    first, second = np.random.default_rng(1).integers(2**32, size=(2, num_lanes), dtype=np.uint32)
    return jax.device_get(_initial(env, Stream(first, second, np.zeros_like(first), np.zeros_like(first))))


def assert_uniform(sample, low, high, num_bins=20):
    """Bounds respected, and each twentieth between them as likely."""
    rounding = 1e-6 * max(abs(low), abs(high))
    assert low - rounding <= sample.min()
    assert sample.max() <= high + rounding
    counts, _ = np.histogram(np.clip(sample, low, high), num_bins, (low, high))
    assert_counts_match(counts, [len(sample) / num_bins] * num_bins)
