"""Single steps and whole episodes of classic control problems, ours and Gymnasium's, as arrays for comparison.

A state is an array of numbers in Gymnasium's order, which is the order of the fields of our ``State``. The reference is
stepped in a Python loop in float64, ours as one batch in one compiled call.
"""

import dataclasses

import jax
import numpy as np

import jaxenv
from jaxenv import tree
from jaxenv.core.wrapper import Wrapper
from tests.packages import lazy
from tests.parity import certify

gymnasium = lazy("gymnasium")

NUM_STATES = 2000

# Flags are not compared where a number is closer to a threshold than this. For numbers near 2.4 in float32 each of the
# few roundings of a step, and that of the threshold, has an error of up to 1.2e-7.
MARGIN = 2e-6


@dataclasses.dataclass
class Rows:
    """Results of one step from N states: ``state [N, S]``, ``observation [N, ...]``, ``reward``, ``terminated [N]``."""

    state: np.ndarray
    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    id: str = ""  # of our environment


@dataclasses.dataclass
class Episode:
    """One lane from the first step to the end of the episode, each ``[T, ...]``."""

    action: np.ndarray
    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    id: str = ""  # of our environment

    def __len__(self):
        return len(self.reward)


# The environment is an argument, so that one compilation serves all params.
advance = jax.jit(lambda env, state, action: env.step(state, action))
reset = jax.jit(lambda env, key: env.reset(key))


@jax.jit
def replay_actions(env, state, actions):
    """Our trajectory ``[T, B]`` for actions ``[T, B, ...]``."""
    return jax.lax.scan(env.step, state, actions)[1]


def bare(env_id, num_envs=NUM_STATES, **params):
    """Our environment without wrappers."""
    return jaxenv.spec(env_id).make(num_envs, **params)


def reference(env_id):
    """Gymnasium's environment without wrappers, after a reset."""
    env = gymnasium.make(env_id).unwrapped
    env.reset(seed=0)
    return env


def inject(env, states):
    """A state of our bare environment with one lane for each of ``states [N, S]``."""
    state, _ = reset(env, jax.random.key(0))
    columns = [np.ascontiguousarray(column, np.float32) for column in np.asarray(states).T]
    return tree.rebuild(state, task=type(state.task)(*columns))


def step(env, states, actions):
    """One step of our bare environment from each of ``states``."""
    state, timestep = jax.device_get(advance(env, inject(env, states), actions))
    return Rows(
        np.stack(jax.tree.leaves(state.task), axis=-1),
        timestep.observation,
        timestep.reward,
        timestep.terminated,
        id=env.name,
    )


def reference_step(env, states, actions, configure=None, **values):
    """One step of Gymnasium's environment from each of ``states``, in float64.

    Args:
        env: from `reference`.
        states: ``[N, S]``, rounded to float32 like ours.
        actions: ``[N, ...]``.
        configure: called as ``configure(env, **values)`` before every step.
        **values: params, one number or one per state, rounded to float32 like ours.
    """
    rows = []
    states = np.asarray(states, np.float32).astype(np.float64)
    values = {k: np.broadcast_to(np.float32(v).astype(np.float64), len(states)) for k, v in values.items()}
    for lane, (state, action) in enumerate(zip(states, actions, strict=True)):
        if configure is not None:
            configure(env, **{name: float(value[lane]) for name, value in values.items()})
        set_state(env, state)
        observation, reward, terminated, truncated, _ = env.step(action)
        assert not truncated
        rows.append((np.asarray(env.state, np.float64), observation, reward, terminated))
    return Rows(*(np.array(column) for column in zip(*rows, strict=True)))


def set_state(env, state):
    """Sets the state of Gymnasium's environment, within an unfinished episode."""
    env.unwrapped.state = np.array(state, np.float64)
    if hasattr(env.unwrapped, "steps_beyond_terminated"):
        env.unwrapped.steps_beyond_terminated = None


def wrapped(angle):
    """The equivalent angle in [-pi, pi)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


def assert_rows_match(ours, theirs, *, tolerance, decided=None, angles=(), ending=0.1):
    """Compares two `Rows`.

    Args:
        ours: from `step`.
        theirs: from `reference_step`.
        tolerance: the largest allowed difference.
        decided: bool ``[N]``, the rows that are not within `MARGIN` of a threshold; at least 99% of them.
        angles: columns of the state that are compared modulo a turn.
        ending: the fraction of rows that must terminate, so that the comparison of flags is not empty.
    """
    decided = np.ones(len(theirs.state), bool) if decided is None else decided
    assert decided.mean() >= 0.99, f"{(~decided).sum()} of {len(decided)} states are too close to a threshold"
    assert theirs.terminated.mean() >= ending, f"only {theirs.terminated.mean():.1%} of the injected states end"
    assert ours.observation.dtype == theirs.observation.dtype == np.float32
    difference = ours.state - theirs.state
    difference[:, list(angles)] = wrapped(difference[:, list(angles)])
    np.testing.assert_array_equal(ours.terminated[decided], theirs.terminated[decided])
    largest = 0.0
    for what, error in {
        "state": np.abs(difference).max(axis=-1),
        "observation": np.abs(ours.observation.astype(np.float64) - theirs.observation).max(axis=-1),
        "reward": np.abs(ours.reward - theirs.reward),
    }.items():
        worst = np.argmax(error * decided)
        assert error[worst] * decided[worst] <= tolerance, (
            f"{what} of row {worst} is off by {error[worst]:.3g}: {getattr(ours, what)[worst]} is not "
            f"{getattr(theirs, what)[worst]}"
        )
        largest = max(largest, error[worst] * decided[worst])
    certify(ours.id, "gymnasium", states=decided.sum(), tolerance=tolerance, error=largest)


def start_together(env_id, num_envs, **kwargs):
    """Resets our environment with its time limit.

    Returns:
        The environment, its state, the initial states ``[B, S]``, the only numbers that the reference takes from ours,
        and the first observations.
    """
    env = jaxenv.make(env_id, num_envs, autoreset=None, **kwargs)
    state, timestep = reset(env, jax.random.key(1))
    inner, level = state, env
    while isinstance(level, Wrapper):
        inner, level = level.inner(inner), level.env
    return env, state, np.stack(jax.tree.leaves(jax.device_get(inner.task)), axis=-1), np.asarray(timestep.observation)


def reference_episodes(env_id, starts, first, policy):
    """Whole episodes of Gymnasium's environment with its time limit, one for each of ``starts``.

    ``first`` are the observations of ``starts``; ``policy(observation, t, lane)`` returns the action.
    """
    env = gymnasium.make(env_id)
    episodes = []
    for lane, start in enumerate(starts):
        env.reset(seed=0)
        set_state(env, start)
        observation, rows, ended = first[lane], [], False
        while not ended:
            action = policy(observation, len(rows), lane)
            observation, reward, terminated, truncated, _ = env.step(action)
            # A copy, because some of Gymnasium's environments return their own state.
            rows.append((action, np.array(observation), reward, terminated, truncated))
            ended = terminated or truncated
        episodes.append(Episode(*(np.array(column) for column in zip(*rows, strict=True))))
    return episodes


def tolerances(env_id, starts, episodes, allowance):
    """Tolerances for each step of episodes whose errors grow too fast for a single tolerance.

    Replays the actions of ``episodes`` on Gymnasium's environment with the state rounded to float32 after every step,
    and takes the largest difference so far as the effect of rounding. Computing in float32 also rounds within a step,
    so the tolerance is ``allowance`` times that difference, and at least that of a single step, 1e-5.
    """
    bounds = []
    env = gymnasium.make(env_id).unwrapped
    for start, episode in zip(starts, episodes, strict=True):
        env.reset(seed=0)
        set_state(env, start)
        rows = []
        for action in episode.action:
            observation, *_ = env.step(action)
            rows.append(np.array(observation))
            env.state = np.asarray(env.state, np.float32).astype(np.float64)
        difference = np.abs(np.array(rows, np.float64) - episode.observation).max(axis=-1)
        bounds.append(np.maximum(1e-5, allowance * np.maximum.accumulate(difference)))
    return bounds


def replay(env, state, episodes):
    """Our episodes for the actions of the reference's, of the same lengths; no state is set in between."""
    longest = max(len(episode) for episode in episodes)
    lanes = [
        np.concatenate([e.action, np.zeros((longest - len(e), *e.action.shape[1:]), e.action.dtype)]) for e in episodes
    ]
    actions = np.stack(lanes, axis=1)
    rows = jax.device_get(replay_actions(env, state, actions.astype(env.action_spec().dtype)))
    ours = []
    for lane, episode in enumerate(episodes):
        n = len(episode)
        of = (rows.observation, rows.reward, rows.terminated, rows.truncated)
        ours.append(Episode(actions[:n, lane], *(field[:n, lane] for field in of), id=env.unwrapped.name))
    return ours


def assert_episodes_match(ours, theirs, tolerance, reward_slope=1.0):
    """Compares two lists of `Episode`, at least five of them to the end. Flags must be equal.

    Args:
        ours: from `replay`.
        theirs: from `reference_episodes`.
        tolerance: the largest allowed difference of an observation: a number, or an array ``[T]`` for each episode. A
            lane is compared while the tolerance is below 0.02; larger errors make an unstable system diverge.
        reward_slope: the factor on the tolerance for rewards, which may be steep in the state.
    """
    to_the_end, steps, largest, allowed = 0, 0, 0.0, 0.0
    for lane, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        bound = tolerance[lane] if isinstance(tolerance, list) else np.full(len(b), tolerance)
        n = len(b) if np.all(bound < 0.02) else int(np.argmax(bound >= 0.02))
        to_the_end += n == len(b)
        bound = bound[:n]
        error = np.abs(a.observation[:n].astype(np.float64) - b.observation[:n]).max(axis=-1)
        late = np.flatnonzero(error > bound)
        assert late.size == 0, (
            f"lane {lane}, step {late[0] + 1} of {len(b)}: {a.observation[late[0]]} is not {b.observation[late[0]]}"
        )
        np.testing.assert_array_equal(a.terminated[:n], b.terminated[:n], err_msg=f"terminated in lane {lane}")
        np.testing.assert_array_equal(a.truncated[:n], b.truncated[:n], err_msg=f"truncated in lane {lane}")
        reward_error = np.abs(a.reward[:n] - b.reward[:n])
        assert np.all(reward_error <= reward_slope * bound), f"lane {lane}: a reward is off by {reward_error.max():.3g}"
        steps, largest, allowed = steps + n, max(largest, error.max()), max(allowed, bound.max())
    assert to_the_end >= 5, f"only {to_the_end} episodes could be compared to their end"
    certify(ours[0].id, "gymnasium", episodes=to_the_end, steps=steps, tolerance=allowed, error=largest)


def assert_specs_match(env_id):
    """Compares shapes, dtypes and bounds of our specs with Gymnasium's spaces; discrete actions are int32."""
    env, theirs = bare(env_id, 1), gymnasium.make(env_id)
    observation, action = env.observation_spec(), env.action_spec()
    box = theirs.observation_space
    assert (observation.shape, observation.dtype) == (box.shape, box.dtype) == (box.shape, np.float32)
    np.testing.assert_array_equal(observation.minimum, box.low)
    np.testing.assert_array_equal(observation.maximum, box.high)
    space = theirs.action_space
    assert action.shape == space.shape
    if isinstance(space, gymnasium.spaces.Discrete):
        assert action.dtype == np.int32
        assert (action.minimum, action.maximum) == (space.start, space.start + space.n - 1)
    else:
        assert action.dtype == space.dtype == np.float32
        np.testing.assert_array_equal(action.minimum, space.low)
        np.testing.assert_array_equal(action.maximum, space.high)
    ours, registered = jaxenv.spec(env_id), gymnasium.spec(env_id)
    assert ours.max_episode_steps == registered.max_episode_steps
    assert ours.reward_threshold == registered.reward_threshold


def starting_states(env_id, **params):
    """The initial states ``[10000, S]`` of 10,000 lanes, and their observations."""
    env = bare(env_id, 10_000, **params)
    state, timestep = jax.device_get(reset(env, jax.random.key(2)))
    return np.stack(jax.tree.leaves(state.task), axis=-1), timestep.observation


def assert_uniform(sample, low, high):
    """Checks the range, and mean and variance to within 5 standard errors, of a uniform distribution."""
    n, width = len(sample), high - low
    rounding = 1e-6 * max(abs(low), abs(high))
    assert sample.min() >= low - rounding
    assert sample.max() <= high + rounding
    assert sample.min() < low + 0.01 * width
    assert sample.max() > high - 0.01 * width
    # One draw has variance width^2 / 12, and its squared deviation has variance width^4 / 180.
    assert abs(sample.mean() - (low + high) / 2) < 5 * width / np.sqrt(12 * n)
    assert abs(sample.var() - width**2 / 12) < 5 * width**2 / np.sqrt(180 * n)
