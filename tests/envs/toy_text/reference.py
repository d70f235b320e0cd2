"""Gymnasium's toy text environments with their random draws recorded, and comparisons of ours with them.

Gymnasium has a table of the possible outcomes for every state and action, and `categorical_sample` draws one of them.
Ours is compared with every row of that table and replays whole episodes with the recorded draws.
"""

import contextlib
import dataclasses
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import tree
from jaxenv.envs.toy_text import tabular
from jaxenv.envs.toy_text.tabular import MDP
from jaxenv.wrappers import TimeLimit
from tests.packages import lazy
from tests.parity import certify
from tests.rows import unrolled

gymnasium = lazy("gymnasium")

# Probabilities are float32 here: the error is 1e-8 for 1/3 and a little more for (1 - 0.8) / 2.
TOLERANCE = 1e-7


def bare(id, num_envs=4, **options):
    """Our environment without time limit and restarts."""
    return jaxenv.spec(id).make(num_envs, **options)


def original(id, **options):
    """Gymnasium's environment without any wrapper."""
    return gymnasium.make(id, **options).unwrapped


# --- tables ----------------------------------------------------------------------------------------------------------


def assert_tables_match(id, **options):
    """Compares every outcome of every action in every state, and the exported table, with Gymnasium's."""
    env, theirs = bare(id, **options), original(id, **options)
    ours = tabular.every_outcome(env)
    rows = np.array([[_padded(theirs.P[s][a], ours[0].shape[2]) for a in theirs.P[s]] for s in theirs.P])
    after, reward, terminated, prob = ours
    np.testing.assert_array_equal(after, rows[..., 1])
    np.testing.assert_array_equal(reward, rows[..., 2].astype(np.float32))
    np.testing.assert_array_equal(terminated, rows[..., 3])
    error = np.abs(prob - rows[..., 0]).max()
    assert error <= TOLERANCE

    mdp, table = env.mdp(), table_of(theirs)
    np.testing.assert_allclose(mdp.P, table.P, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(mdp.R, table.R, rtol=1e-6, atol=0)
    np.testing.assert_array_equal(mdp.terminated, table.terminated)
    np.testing.assert_array_equal(mdp.start, table.start)
    np.testing.assert_allclose(mdp.P.sum(axis=-1), 1, rtol=1e-12)
    assert (mdp.P.dtype, mdp.R.dtype, mdp.terminated.dtype) == (np.float64, np.float64, np.bool_)
    certify(id, "gymnasium", states=after.size, tolerance=TOLERANCE, error=error)


def _padded(outcomes, count):
    """The outcomes, where a single one is repeated: it happens whichever number is drawn."""
    assert len(outcomes) in (1, count)
    return [tuple(map(float, outcome)) for outcome in outcomes] * (count // len(outcomes))


def table_of(theirs):
    """Gymnasium's lists as an `MDP`; outcomes with the same next state are summed."""
    num_states, num_actions = theirs.observation_space.n, theirs.action_space.n
    P, R = np.zeros((2, num_states, num_actions, num_states))
    terminated = np.zeros(P.shape, bool)
    for s, actions in theirs.P.items():
        for a, outcomes in actions.items():
            for probability, after, reward, ends in outcomes:
                P[s, a, after] += probability
                R[s, a, after] += probability * reward
                terminated[s, a, after] |= ends and probability > 0
    return MDP(P, np.divide(R, P, out=R, where=P > 0), terminated, theirs.initial_state_distrib)


# --- whole episodes --------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Episode:
    """One episode of Gymnasium's, every array ``[T]``; ``prob`` and ``action_mask`` also have the reset's."""

    start: int
    action: np.ndarray
    draws: dict[str, np.ndarray]
    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    prob: np.ndarray
    action_mask: np.ndarray
    initial_draws: dict[str, Any]

    def __len__(self):
        return len(self.action)


def episodes(id, policies, draws=lambda env: {}, initial_draws=lambda env: {}, seed=0, **options):
    """Whole episodes of Gymnasium's under its time limit, one for each of ``policies(observation, rng) -> action``.

    ``draws(env)`` and ``initial_draws(env)`` return further draws by name, of a step and of a reset.
    """
    env, rng, found = gymnasium.make(id, disable_env_checker=True, **options), np.random.default_rng(seed), []
    env.reset(seed=seed)
    with _recorded(env) as numbers:
        for policy in policies:
            observation, info = env.reset()
            start, first, rows, ended = observation, initial_draws(env.unwrapped), [], False
            probs, masks = [info["prob"]], [info.get("action_mask", [])]
            while not ended:
                action = policy(observation, rng)
                numbers.clear()
                observation, reward, terminated, truncated, info = env.step(action)
                drawn = {"choices": numbers[0], **draws(env.unwrapped)}
                rows.append((action, drawn, observation, reward, terminated, truncated))
                probs.append(info["prob"])
                masks.append(info.get("action_mask", []))
                ended = terminated or truncated
                assert len(rows) < 5000, "the policy does not finish its episode"
            action, drawn, *rest = zip(*rows, strict=True)
            drawn = {name: np.array([row[name] for row in drawn]) for name in drawn[0]}
            found.append(Episode(start, np.array(action), drawn, *map(np.array, [*rest, probs, masks]), first))
    return found


@contextlib.contextmanager
def _recorded(env):
    """Records every number that `categorical_sample` draws in the module of the environment."""
    module, numbers = importlib.import_module(type(env.unwrapped).__module__), []
    sample = module.categorical_sample

    def recording(*args):
        # The position of the drawn outcome in the list; a single outcome is not drawn.
        numbers.append(int(sample(*args)))
        return numbers[-1]

    module.categorical_sample = recording
    try:
        yield numbers
    finally:
        module.categorical_sample = sample


def at_step(script, stream):
    """The column of ``script`` (``[B, T]``) for the step of ``stream``; steps count from 1."""
    return jnp.take_along_axis(script, (stream.c1.astype(jnp.int32) - 1)[:, None], axis=1)[:, 0]


def scripted(cls):
    """A subclass that takes the numbers of its outcomes from ``choices``, int32 ``[B, T]``."""

    class Scripted(cls):
        choices: Any = tree.leaf(default=(0,), rank=1, dtype=np.int32)

        def choose(self, stream):
            return at_step(self.choices, stream)

    return Scripted


def padded(rows, length):
    """Arrays of different lengths as one array ``[B, length, ...]``, padded with zeros."""
    return np.stack([np.concatenate([row, np.zeros((length - len(row), *row.shape[1:]), row.dtype)]) for row in rows])


def assert_episodes_match(id, cls, played, **options):
    """Compares every step of at least five episodes, both ends included, given Gymnasium's draws."""
    registered = jaxenv.spec(id)
    longest = max(map(len, played))
    script = {name: padded([e.draws[name] for e in played], longest) for name in played[0].draws}
    script |= {name: np.array([e.initial_draws[name] for e in played]) for name in played[0].initial_draws}
    made = dataclasses.replace(registered, entry_point=cls).make(len(played), **script, **options)
    env = made if registered.max_episode_steps is None else TimeLimit(made, registered.max_episode_steps)
    rows = unrolled(env, padded([e.action for e in played], longest).astype(np.int32).T)
    error = 0.0
    for lane, e in enumerate(played):
        n, what = len(e), f"lane {lane}"
        assert rows.observation[0, lane] == e.start
        np.testing.assert_array_equal(rows.observation[1 : n + 1, lane], e.observation, err_msg=what)
        np.testing.assert_array_equal(rows.reward[1 : n + 1, lane], e.reward.astype(np.float32), err_msg=what)
        np.testing.assert_array_equal(rows.terminated[1 : n + 1, lane], e.terminated, err_msg=what)
        # If both happen at once, ours reports a termination.
        np.testing.assert_array_equal(rows.truncated[1 : n + 1, lane], e.truncated & ~e.terminated, err_msg=what)
        if e.action_mask.size:
            np.testing.assert_array_equal(rows.env_info["action_mask"][: n + 1, lane], e.action_mask, err_msg=what)
        error = max(error, np.abs(rows.env_info["prob"][: n + 1, lane] - e.prob).max())
    assert len(played) >= 5
    certify(id, "gymnasium", episodes=len(played), steps=sum(map(len, played)), tolerance=TOLERANCE, error=error)


# --- play ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Play:
    """Steps of the first episodes, ``[T, B]`` each; ``alive`` is true until the episode ends."""

    before: np.ndarray
    action: np.ndarray
    after: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    alive: np.ndarray

    @property
    def returns(self):
        """The sum of rewards of every lane's first episode, float64 ``[B]``."""
        return np.sum(self.reward * self.alive, axis=0, dtype=np.float64)


@jax.jit
def _play(env, key, policy, actions):
    start = env.reset(key)

    def one(carry, action):
        state, timestep = carry
        action = jnp.where(action < 0, policy[timestep.observation], action)
        state, timestep = env.step(state, action)
        return (state, timestep), (action, timestep.observation, timestep.reward, timestep.terminated)

    return start[1].observation, jax.lax.scan(one, start, actions)[1]


def play(env, num_steps, policy=None, seed=0):
    """Plays ``policy`` (an action for each state) or random actions; both share one compilation."""
    shape = (num_steps, env.num_envs)
    num_states, num_actions = env.observation_spec().num_values, env.action_spec().num_values
    if policy is None:
        policy, actions = np.zeros(num_states), np.random.default_rng(seed).integers(num_actions, size=shape)
    else:
        actions = np.full(shape, -1)
    found = _play(env, jax.random.key(seed), policy.astype(np.int32), actions.astype(np.int32))
    first, (action, after, reward, terminated) = jax.device_get(found)
    before = np.concatenate([first[None], after[:-1]])
    alive = np.cumsum(terminated, axis=0) - terminated == 0
    return Play(before, action, after, reward, terminated, alive)


def assert_frequencies_match(mdp, played):
    """Compares the frequencies of transitions with the table; impossible ones must not occur."""
    counts = np.zeros(mdp.P.shape)
    np.add.at(counts, tuple(x[played.alive] for x in (played.before, played.action, played.after)), 1)
    expected = counts.sum(axis=-1, keepdims=True) * mdp.P
    assert counts[mdp.P == 0].sum() == 0
    # Counts above 20 are nearly normal. Of a few hundred none exceeds 4.5 standard errors by chance.
    many = expected >= 20
    assert many.sum() >= 30
    off = np.abs(counts - expected)[many] / np.sqrt(expected[many])
    assert off.max() <= 4.5, f"an entry is off by {off.max():.1f} standard errors"


def following(mdp, policy):
    """The table of following ``policy``, with a single action."""
    each = np.arange(len(policy))
    return MDP(
        mdp.P[each, policy][:, None], mdp.R[each, policy][:, None], mdp.terminated[each, policy][:, None], mdp.start
    )


def assert_policy_earns(played, value):
    """The mean return equals ``value`` to within 4.5 standard errors."""
    error = played.returns.std() / np.sqrt(len(played.returns))
    assert abs(played.returns.mean() - value) <= 4.5 * error + 1e-6
