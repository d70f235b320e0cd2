"""Comparison of our environments with those of the package ``bsuite``, whose random draws are recorded.

The original stores an episode in attributes and draws from one ``RandomState``. The test of each environment provides
two translations: from the original's attributes to our state of one lane, and from the recorded draws of one step to
ours. Given the same states and draws, ours must return the same results.

An environment of ours that draws in its step has a method ``advance(state, action, draws)``, which returns what
`transition` does. The `transition` of one that draws nothing is called without a stream.
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
    """One step of the original, with states and draws translated to ours, as NumPy arrays of one lane."""

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
    """How the original translates to our arrays.

    Attributes:
        id: the id of our environment.
        state: maps the original to our state of one lane (arrays without the lane axis, in our dtypes).
        draws: maps the recorded calls of one step to our draws of one lane; ``()`` if there are none.
    """

    id: str
    state: Callable[[Any], Any]
    draws: Callable[[list], Any] = lambda calls: ()


def recorded(env, seed=0):
    """The original at the start of an episode, with its draws recorded."""
    env._rng = Recorder(seed)
    timestep = env.reset()
    assert timestep.first()
    env._rng.take()
    return env


def played_step(env, translation, action):
    """One step of the original as a `Step`. Its episode must not be over."""
    before = translation.state(env)
    timestep = env.step(int(action))
    assert not timestep.first(), "the original restarted instead of stepping"
    # bsuite reports every end as a termination.
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
        translation: the translation of ``env``.
        num_steps: number of steps.
        place: called with (env, rng) before every step: sets the original's attributes, and may return the action to
            take; otherwise the action is drawn.
        seed: the seed of states and actions.
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
        make: constructs the original, for every episode.
        translation: the translation of the original.
        num_episodes: number of episodes.
        policy: called with (env, rng), returns an action; uniform by default.
        seed: the seed of the policy and of the original's draws.
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
    """Stacks trees of one lane: leaves ``[N, ...]``."""
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *rows)


# The environment is an argument, so that one compilation serves all params.
@jax.jit
def advance(env, state, action, draws):
    """A step of our bare task: the next state, reward, termination, observation and counters."""
    with_draws = hasattr(env, "advance")
    out = env.advance(state, action, draws) if with_draws else env.transition(state, action, None)
    return out.state, (out.reward, out.terminated, env.observe(out.state), env.state_info(out.state))


@jax.jit
def follow(env, state, actions, draws):
    """The outputs of `advance`, ``[T, B, ...]``, for ``actions`` ``[T, B]`` and draws ``[T, B, ...]``."""
    return jax.lax.scan(lambda state, row: advance(env, state, *row), state, (actions, draws))[1]


def assert_steps_match(env, steps, tolerance=0.0, state_tolerance=None):
    """Compares the state, reward, termination, observation and counters of every step with the original's.

    Args:
        env: our bare environment.
        steps: steps of the original.
        tolerance: the largest allowed difference of floats; integers and flags must be equal.
        state_tolerance: the tolerance for the state, by default ``tolerance``.

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
    """Compares whole episodes of ours with the original's, given its starts, actions and draws.

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
    """Our initial states as NumPy arrays. Only ``initial`` is compiled, which is quick."""
    return jax.device_get(initial(env, streams(num_lanes, seed)))


def streams(num_lanes, seed=0):
    """A `Stream` of ``num_lanes`` lanes."""
    words = np.random.default_rng(seed).integers(2**32, size=(4, num_lanes), dtype=np.uint32)
    return random.Stream(*words)


show = jax.jit(lambda env, state: (env.observe(state), env.state_info(state)))


def assert_starts_match(env, original, translation, num_episodes=200, tolerance=0.0):
    """Compares observations and counters in the original's initial states; returns the largest difference found."""
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
    """Compares shapes, dtypes and number of actions of the specs, and bounds where the original has them."""
    ours, theirs = env.observation_spec(), original.observation_spec()
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    if hasattr(theirs, "minimum"):
        np.testing.assert_array_equal(ours.minimum, np.broadcast_to(theirs.minimum, ours.shape))
        np.testing.assert_array_equal(ours.maximum, np.broadcast_to(theirs.maximum, ours.shape))
    actions = env.action_spec()
    assert (actions.shape, actions.dtype, int(actions.minimum)) == ((), np.int32, 0)
    assert actions.num_values == original.action_spec().num_values
    # Episodes end only where the original's do.
    assert jaxenv.spec(env.name).max_episode_steps is None


def _shown_error(shown, steps, tolerance):
    reward, terminated, observation, info = shown
    # Our TimeStep has the dtype of the original's observation.
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
    """Compares counts of independent draws with their means, each to within 4.5 standard deviations."""
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    assert np.all(np.abs(counts - expected) <= 4.5 * np.sqrt(expected)), f"{counts} where {expected} is expected"


def bare(id, num_envs=1, **kwargs):
    """Our environment without time limit and restarts."""
    return jaxenv.spec(id).make(num_envs, **kwargs)


_initial = jax.jit(lambda env, key: env.initial(key))


def start(env, num_lanes):
    """The initial states of ``num_lanes`` lanes of our bare environment: leaves ``[num_lanes, ...]``."""
    first, second = np.random.default_rng(1).integers(2**32, size=(2, num_lanes), dtype=np.uint32)
    return jax.device_get(_initial(env, Stream(first, second, np.zeros_like(first), np.zeros_like(first))))


def assert_uniform(sample, low, high, num_bins=20):
    """Checks that the sample is within its bounds and that its histogram is flat."""
    rounding = 1e-6 * max(abs(low), abs(high))
    assert low - rounding <= sample.min()
    assert sample.max() <= high + rounding
    counts, _ = np.histogram(np.clip(sample, low, high), num_bins, (low, high))
    assert_counts_match(counts, [len(sample) / num_bins] * num_bins)
