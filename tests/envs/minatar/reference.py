"""Parity with the package ``minatar``: plays its games, records their random draws, and replays both in ours.

The original keeps a game in Python lists and counters and draws from one ``RandomState`` when it needs a number. Each
game's test defines two translations: from the original's state to our arrays for one lane, and from the recorded draws
of one step to ours. All values are integers or flags, so all comparisons are exact.
"""

import contextlib
import dataclasses
import importlib
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import jaxenv
from jaxenv.envs.minatar.minatar import LETTERS
from tests.envs.recorder import Recorder
from tests.parity import certify

GAMES = {
    "Asterix-MinAtar": "asterix",
    "Breakout-MinAtar": "breakout",
    "Freeway-MinAtar": "freeway",
    "Seaquest-MinAtar": "seaquest",
    "SpaceInvaders-MinAtar": "space_invaders",
}


@dataclasses.dataclass
class Step:
    """One step of the original, with its states translated to ours: NumPy arrays for one lane."""

    before: Any
    action: int  # index into LETTERS
    draws: Any
    after: Any
    reward: int
    terminated: bool
    board: np.ndarray  # bool [10, 10, channels], after the step


@dataclasses.dataclass(frozen=True)
class Translation:
    """Translates the original's game to our arrays.

    Attributes:
        id: id of our environment.
        state: maps the original's ``Env`` to our game state for one lane (arrays without a lane axis).
        draws: maps the recorded calls of one step to our draws for one lane; ``()`` for a game without random draws.
    """

    id: str
    state: Callable[[Any], Any]
    draws: Callable[[list], Any] = lambda calls: ()


def original(id, seed=0, ramping=True):
    """Returns the original's game at the start of an episode; it draws from a `Recorder`."""
    with _without_plotting():
        module = importlib.import_module(f"minatar.environments.{GAMES[id]}")
    env = module.Env(ramping=ramping)
    env.random = Recorder(seed)
    env.reset()
    env.random.take()
    return env


@contextlib.contextmanager
def _without_plotting():
    """Suppresses the import of plotting libraries and the log messages about their absence."""
    saved = {name: sys.modules.get(name) for name in ("matplotlib", "seaborn")}
    logging.disable(logging.WARNING)
    sys.modules.update(dict.fromkeys(saved))
    try:
        yield
    finally:
        for name, module in saved.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
        logging.disable(logging.NOTSET)


def played_step(env, translation, action):
    """Steps the original by an action of ``LETTERS`` and returns the `Step`."""
    before = translation.state(env)
    reward, terminated = env.act(int(action))
    draws = translation.draws(env.random.take())
    return Step(before, int(action), draws, translation.state(env), int(reward), bool(terminated), env.state())


def random_steps(
    translation, num_steps, seed=0, ramping=True, weights=(1, 1, 1, 1, 1, 1), prepare=None, every=0, revive=None
):
    """Plays the original at random, over several episodes if necessary, and returns a list of `Step`.

    Args:
        translation: translation of the game.
        num_steps: number of steps.
        seed: seed of the actions and of the original's draws.
        ramping: whether the original becomes harder.
        weights: relative frequencies of the six letters.
        prepare: called with (env, rng) after every reset; moves the original to another state.
        every: number of steps after which ``prepare`` is called again within an episode; 0 for never.
        revive: called with (env, rng) when an episode ends; returns True if it changed ``env`` so that the episode
            continues, which reaches later levels. It must clear ``env.terminal``.
    """
    rng = np.random.default_rng(seed)
    env = original(translation.id, seed, ramping)
    weights = np.array(weights, float) / np.sum(weights)
    steps, fresh = [], True
    while len(steps) < num_steps:
        if (fresh or (every and len(steps) % every == 0)) and prepare is not None:
            prepare(env, rng)
        steps.append(played_step(env, translation, rng.choice(6, p=weights)))
        fresh = steps[-1].terminated and not (revive is not None and revive(env, rng))
        if fresh:
            env.reset()
            env.random.take()
    return steps


def episodes(translation, policy, seeds, max_steps=None, ramping=True):
    """Plays whole episodes of the original and returns a list of lists of `Step`.

    ``policy(env, rng)`` returns an action of ``LETTERS``. An episode is cut off after ``max_steps``.
    """
    played = []
    for seed in seeds:
        rng, env = np.random.default_rng(seed), original(translation.id, seed, ramping)
        steps = []
        while not (steps and steps[-1].terminated) and len(steps) != max_steps:
            steps.append(played_step(env, translation, policy(env, rng)))
        played.append(steps)
    return played


def stacked(trees: Sequence[Any]):
    """Stacks trees of one lane into a batch: leaves ``[N, ...]``."""
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *trees)


@jax.jit
def advance(env, game, action, draws):
    """Our step without sticky actions: returns the next state, the reward, whether the game is over, and the board."""
    game, reward, terminated = env.advance(game, action, draws)
    return game, reward, terminated, env.board(game)


@jax.jit
def follow(env, game, actions, draws):
    """Replays ``actions`` ``[T, B]`` with draws ``[T, B, ...]``; returns rewards, ends and boards, ``[T, B, ...]``."""

    def step(game, inputs):
        game, *outputs = advance(env, game, *inputs)
        return game, tuple(outputs)

    return jax.lax.scan(step, game, (actions, draws))[1]


def assert_steps_match(env, steps):
    """Asserts that every step, given its draws, has the original's next state, reward, end and board, bit for bit."""
    before, after, draws = (stacked([getattr(s, name) for s in steps]) for name in ("before", "after", "draws"))
    action = np.array([s.action for s in steps], np.int32)
    game, reward, terminated, board = jax.device_get(advance(env, before, action, draws))
    for path, ours in jax.tree_util.tree_leaves_with_path(game):
        name = jax.tree_util.keystr(path, simple=True)
        theirs = _at(after, path)
        assert ours.dtype == theirs.dtype, f"{name}: expected {theirs.dtype}, got {ours.dtype}"
        _assert_rows_equal(name, ours, theirs, steps)
    _assert_rows_equal("reward", reward, np.array([s.reward for s in steps]), steps)
    _assert_rows_equal("terminated", terminated, np.array([s.terminated for s in steps]), steps)
    _assert_rows_equal("board", board, np.stack([s.board for s in steps]), steps)
    certify(env.name, "minatar", states=len(steps))


def assert_episodes_match(env, played):
    """Asserts that ours, given the original's start, actions and draws, has the same boards to the end."""
    longest = max(map(len, played))
    padded = [[*steps, *[steps[-1]] * (longest - len(steps))] for steps in played]
    starts = stacked([steps[0].before for steps in played])
    actions = np.array([[s.action for s in steps] for steps in padded], np.int32).T
    draws = jax.tree.map(lambda x: x.swapaxes(0, 1), stacked([stacked([s.draws for s in steps]) for steps in padded]))
    reward, terminated, board = jax.device_get(follow(env, starts, actions, draws))
    for lane, steps in enumerate(played):
        n = len(steps)
        _assert_rows_equal(f"board of lane {lane}", board[:n, lane], np.stack([s.board for s in steps]), steps)
        _assert_rows_equal(f"reward of lane {lane}", reward[:n, lane], np.array([s.reward for s in steps]), steps)
        ends = np.array([s.terminated for s in steps])
        _assert_rows_equal(f"terminated in lane {lane}", terminated[:n, lane], ends, steps)
    certify(env.name, "minatar", episodes=len(played), steps=sum(map(len, played)))


def assert_channels_and_actions_match(env):
    """Asserts that our channels and minimal actions are the original's, in its order."""
    theirs = original(env.name)
    assert len(env.channels) == len(theirs.channels)
    assert env.observation_spec().shape == tuple(theirs.state_shape())
    assert [LETTERS.index(letter) for letter in env.minimal] == theirs.minimal_action_set()
    assert tuple(theirs.action_map) == tuple(LETTERS)


def _at(tree, path):
    return next(x for p, x in jax.tree_util.tree_leaves_with_path(tree) if p == path)


def _assert_rows_equal(what, ours, theirs, steps):
    assert ours.shape == theirs.shape, f"{what}: expected shape {theirs.shape}, got {ours.shape}"
    wrong = np.flatnonzero(np.any((ours != theirs).reshape(len(steps), -1), axis=-1))
    if wrong.size:
        i = wrong[0]
        raise AssertionError(
            f"{what} differs in {wrong.size} of {len(steps)} steps, first in {i}: expected {theirs[i]}, got {ours[i]}\n"
            f"after action {LETTERS[steps[i].action]!r} with draws {steps[i].draws} from {steps[i].before}"
        )


def bare(id, num_envs=1, **kwargs):
    """Returns our environment without time limit and restarts."""
    return jaxenv.spec(id).make(num_envs, **kwargs)
