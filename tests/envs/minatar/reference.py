"""Games of the package ``minatar``, played at random with all they draw written down, and ours held to them.

The original keeps a game in Python lists and counters and draws from one ``RandomState`` where it needs a number. Each
game's test gives two translations: of the original's state into our arrays of one lane, and of the recorded draws of
one step into ours. Everything is an integer or a flag, so that all comparisons are exact.
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
from jaxenv.envs.minatar.game import LETTERS
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
    """One step of the original; states are ours, of one lane, as NumPy arrays."""

    before: Any
    action: int  # place in LETTERS
    draws: Any
    after: Any
    reward: int
    terminated: bool
    shown: np.ndarray  # bool [10, 10, channels], after the step


@dataclasses.dataclass(frozen=True)
class Translation:
    """How the original's game is written in our arrays.

    Attributes:
        id: of our environment.
        state: the original's ``Env`` -> our game state of one lane (arrays without the axis of lanes).
        draws: the recorded calls of one step -> our draws of one lane; ``()`` for a game that draws nothing.
    """

    id: str
    state: Callable[[Any], Any]
    draws: Callable[[list], Any] = lambda calls: ()


def original(id, seed=0, ramping=True):
    """The original's game, at the start of an episode, drawing from a `Recorder`."""
    with _without_plotting():
        module = importlib.import_module(f"minatar.environments.{GAMES[id]}")
    env = module.Env(ramping=ramping)
    env.random = Recorder(seed)
    env.reset()
    env.random.take()
    return env


@contextlib.contextmanager
def _without_plotting():
    """The package asks for plotting libraries on import and logs when they are not there; this keeps it quiet."""
    held = {name: sys.modules.get(name) for name in ("matplotlib", "seaborn")}
    logging.disable(logging.WARNING)
    sys.modules.update(dict.fromkeys(held))
    try:
        yield
    finally:
        for name, module in held.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
        logging.disable(logging.NOTSET)


def played_step(env, translation, action):
    """One step of the original by an action of ``LETTERS``, as a `Step`."""
    before = translation.state(env)
    reward, terminated = env.act(int(action))
    draws = translation.draws(env.random.take())
    return Step(before, int(action), draws, translation.state(env), int(reward), bool(terminated), env.state())


def random_steps(
    translation, num_steps, seed=0, ramping=True, weights=(1, 1, 1, 1, 1, 1), prepare=None, every=0, revive=None
):
    """Many steps of random play, over as many episodes as it takes: a list of `Step`.

    Args:
        translation: of the game.
        num_steps: how many.
        seed: of the play and of the original's draws.
        ramping: whether the original becomes harder.
        weights: of the six letters.
        prepare: called with (env, rng) after every reset, to put the original elsewhere than where it starts.
        every: after how many steps it is prepared anew without an end; 0 for never.
        revive: called with (env, rng) after an end; True if it made a state of ``env`` that goes on, so that later
            levels are seen. It must clear ``env.terminal``.
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
    """Whole episodes of the original: a list of lists of `Step`.

    ``policy(env, rng)`` gives an action of ``LETTERS``; an episode that is not over after ``max_steps`` stops there.
    """
    found = []
    for seed in seeds:
        rng, env = np.random.default_rng(seed), original(translation.id, seed, ramping)
        steps = []
        while not (steps and steps[-1].terminated) and len(steps) != max_steps:
            steps.append(played_step(env, translation, policy(env, rng)))
        found.append(steps)
    return found


def stacked(rows: Sequence[Any]):
    """Trees of one lane, stacked into one of many: leaves ``[N, ...]``."""
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *rows)


@jax.jit
def advance(env, game, action, draws):
    """Our step without the sticky action: the next state, the reward, whether it is over and the board."""
    game, reward, terminated = env.advance(game, action, draws)
    return game, reward, terminated, env.show(game)


@jax.jit
def follow(env, game, actions, draws):
    """Our steps by ``actions`` (``[T, B]``) and draws (leaves ``[T, B, ...]``): reward, over, board, ``[T, ...]``."""

    def one(game, row):
        game, *shown = advance(env, game, *row)
        return game, tuple(shown)

    return jax.lax.scan(one, game, (actions, draws))[1]


def assert_steps_match(env, steps):
    """Every step, given its draws, ends in the original's state, reward, flag and board, to the bit."""
    before, after, draws = (stacked([getattr(s, name) for s in steps]) for name in ("before", "after", "draws"))
    action = np.array([s.action for s in steps], np.int32)
    game, reward, terminated, shown = jax.device_get(advance(env, before, action, draws))
    for path, ours in jax.tree_util.tree_leaves_with_path(game):
        name = jax.tree_util.keystr(path, simple=True)
        theirs = _at(after, path)
        assert ours.dtype == theirs.dtype, f"{name}: {ours.dtype} is not {theirs.dtype}"
        _assert_rows_equal(name, ours, theirs, steps)
    _assert_rows_equal("reward", reward, np.array([s.reward for s in steps]), steps)
    _assert_rows_equal("terminated", terminated, np.array([s.terminated for s in steps]), steps)
    _assert_rows_equal("board", shown, np.stack([s.shown for s in steps]), steps)
    certify(env.name, "minatar", states=len(steps))


def assert_episodes_match(env, played):
    """Ours, started where the original started and given its draws alone, shows the same boards to the end."""
    longest = max(map(len, played))
    padded = [[*steps, *[steps[-1]] * (longest - len(steps))] for steps in played]
    starts = stacked([steps[0].before for steps in played])
    actions = np.array([[s.action for s in steps] for steps in padded], np.int32).T
    draws = jax.tree.map(lambda x: x.swapaxes(0, 1), stacked([stacked([s.draws for s in steps]) for steps in padded]))
    reward, terminated, shown = jax.device_get(follow(env, starts, actions, draws))
    for lane, steps in enumerate(played):
        n = len(steps)
        _assert_rows_equal(f"board of lane {lane}", shown[:n, lane], np.stack([s.shown for s in steps]), steps)
        _assert_rows_equal(f"reward of lane {lane}", reward[:n, lane], np.array([s.reward for s in steps]), steps)
        ends = np.array([s.terminated for s in steps])
        _assert_rows_equal(f"terminated in lane {lane}", terminated[:n, lane], ends, steps)
    certify(env.name, "minatar", episodes=len(played), steps=sum(map(len, played)))


def assert_channels_and_actions_match(env):
    """Our channels and minimal actions are the original's, in its order."""
    theirs = original(env.name)
    assert len(env.channels) == len(theirs.channels)
    assert env.observation_spec().shape == tuple(theirs.state_shape())
    assert [LETTERS.index(letter) for letter in env.minimal] == theirs.minimal_action_set()
    assert tuple(theirs.action_map) == tuple(LETTERS)


def _at(tree, path):
    return next(x for p, x in jax.tree_util.tree_leaves_with_path(tree) if p == path)


def _assert_rows_equal(what, ours, theirs, steps):
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape} is not {theirs.shape}"
    wrong = np.flatnonzero(np.any((ours != theirs).reshape(len(steps), -1), axis=-1))
    if wrong.size:
        i = wrong[0]
        raise AssertionError(
            f"{what} differs in {wrong.size} of {len(steps)} steps, first in {i}: {ours[i]} is not {theirs[i]}\n"
            f"by {LETTERS[steps[i].action]!r} with draws {steps[i].draws} from {steps[i].before}"
        )


def bare(id, num_envs=1, **kwargs):
    """Our environment alone: no time limit, no restarts."""
    return jaxenv.spec(id).make(num_envs, **kwargs)
