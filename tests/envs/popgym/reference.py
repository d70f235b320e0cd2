"""Comparison with recorded episodes of POPGym 1.0.7, made by ``make_popgym.py``. What POPGym drew is fed in."""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import random
from jaxenv.envs.classic_control import cart_pole, pendulum
from jaxenv.envs.popgym import (
    _deck,
    _partly_observed,
    autoencode,
    battleship,
    concentration,
    count_recall,
    higher_lower,
    mine_sweeper,
    multiarmed_bandit,
    repeat_first,
    repeat_previous,
    velocity_only_cart_pole,
)
from tests.parity import certify

FOLDER = pathlib.Path(__file__).parent / "recorded"
SIZES = ("Easy", "Medium", "Hard")
IDS = [id for id in jaxenv.ids() if id.endswith("-popgym")]
GAMES = list(dict.fromkeys(id.removesuffix("-popgym").removesuffix(size) for id in IDS for size in SIZES if size in id))
ORIGINAL = "popgym 1.0.7"
# Fractions are quotients of small integers, which XLA may replace by products with the reciprocal.
TOLERANCE = 2e-7
# One step of a pole or a pendulum from the recorded state, in float32; the pendulum's reward is a difference.
CONTROL_TOLERANCE = 2e-5
REWARD_TOLERANCE = 1e-8  # rewards are of the order of 1 / 1000


def recorded(id):
    """The recorded episodes of an id."""
    size = next(size for size in SIZES if id.endswith(f"{size}-popgym"))
    with np.load(FOLDER / f"{id.removesuffix(f'{size}-popgym')}.npz") as arrays:
        return {name.removeprefix(f"{size}."): arrays[name] for name in arrays.files if name.startswith(f"{size}.")}


# --- states with POPGym's draws --------------------------------------------------------------------------------------


def _marks(card, kinds):
    return _deck.marks(jnp.asarray(card), kinds).astype(jnp.int32)


def control_state(game, state, noise, fresh):
    """The state of a pole or a pendulum, from float64 ``[E, 4]`` or ``[E, 2]``."""
    columns = [jnp.asarray(state[:, i], jnp.float32) for i in range(state.shape[1])]
    plain = (pendulum if game.endswith("Pendulum") else cart_pole).State(*columns)
    if game.startswith("Velocity"):
        return velocity_only_cart_pole.State(plain, jnp.full(len(state), fresh))
    return _partly_observed.State(plain, jnp.asarray(noise, jnp.float32)) if game.startswith("Noisy") else plain


def first_state(game, env, rows):
    """The state at the start of the recorded episodes."""
    lanes = len(rows["length"])
    none = jnp.zeros(lanes, jnp.int32)
    drawn = {name.removeprefix("drawn."): x for name, x in rows.items() if name.startswith("drawn.")}
    drawn = {name: x.astype(np.int32) if x.dtype.kind in "iub" else x for name, x in drawn.items()}
    if game == "RepeatFirst":
        card = jnp.asarray(drawn["cards"][:, 0])
        return repeat_first.State(card, card, _marks(card, 4))
    if game == "RepeatPrevious":
        card = jnp.asarray(drawn["cards"][:, 0])
        cards = jnp.zeros((lanes, env.k), jnp.int32).at[:, -1].set(card)
        return repeat_previous.State(cards, _marks(card, 4))
    if game == "HigherLower":
        rank = jnp.asarray(drawn["cards"][:, 0])
        return higher_lower.State(rank, _marks(rank, 13))
    if game == "CountRecall":
        card, query = (jnp.asarray(drawn["cards"][:, 0, i]) for i in range(2))
        return count_recall.State(card, query, _marks(card, env.kinds), _marks(query, env.kinds))
    if game == "Autoencode":
        return autoencode.State(jnp.asarray(drawn["deck"]), none)
    if game == "Concentration":
        deck = jnp.asarray(drawn["deck"])
        return concentration.State(deck, jnp.zeros_like(deck, bool), none - 1, none - 1, none != 0)
    if game == "Battleship":
        board = jnp.asarray(drawn["board"] == 1)
        return battleship.State(board, jnp.zeros_like(board), none != 0)
    if game == "MineSweeper":
        board = jnp.asarray(drawn["board"] == 1)
        return mine_sweeper.State(board, jnp.zeros_like(board), none)
    if game == "MultiarmedBandit":
        return multiarmed_bandit.State(jnp.asarray(drawn["arms"]), none, none, none)
    return control_state(game, drawn["state"], drawn["noise"], True)


def draws(game, rows):
    """What POPGym drew for each step, or the state before it and the noise after it: leaves ``[T, E, ...]``."""
    steps = rows["reward.0"].shape[1]
    if "drawn.cards" in rows:
        cards = np.swapaxes(rows["drawn.cards"], 0, 1).astype(np.int32)[1 : steps + 1]
        return (cards[..., 0], cards[..., 1]) if game == "CountRecall" else (cards,)
    if "drawn.arms" in rows:
        return (np.swapaxes(rows["noise.0"], 0, 1).astype(np.float32),)
    if "state.0" in rows:
        return tuple(np.swapaxes(rows[name], 0, 1).astype(np.float32) for name in ("state.0", "noise.0"))
    return ()


def step(game, env, state, action, drawn):
    """One step with the recorded draws."""
    if hasattr(env, "advance"):
        return env.advance(state, action, *drawn)
    none = random.stream(jax.random.split(jax.random.key(0), len(action)))
    if not drawn:
        return env.transition(state, action, none)
    before, noise = drawn
    after = env.transition(control_state(game, before, noise, False), action, none)
    if game.startswith("Noisy"):
        after = jaxenv.tree.rebuild(after, state=jaxenv.tree.rebuild(after.state, noise=noise))
    return after


# --- comparison ------------------------------------------------------------------------------------------------------


def play(id, rows):
    """Our rows of the recorded episodes: both observations ``[T + 1, E, ...]``, rewards and ends ``[T, E]``."""
    game = next(game for game in sorted(GAMES, key=len, reverse=True) if id.startswith(game))
    lanes = len(rows["length"])
    env = jaxenv.spec(id).make(num_envs=lanes)
    twin = jaxenv.spec(id).make(num_envs=lanes, observability="full")

    @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def played(state, actions, drawn):
        def both(state):
            return env.observe(state), twin.observe(state)

        def one(state, row):
            after = step(game, env, state, *row)
            return after.state, (both(after.state), after.reward, after.terminated)

        _, (shown, reward, terminated) = jax.lax.scan(one, state, (actions, drawn))
        shown = jax.tree.map(lambda x, y: jnp.concatenate([x[None], y]), both(state), shown)
        return *shown, reward, terminated

    actions = np.swapaxes(rows["action.0"], 0, 1)
    actions = actions.astype(np.float32 if actions.dtype.kind == "f" else np.int32)
    return jax.device_get(played(first_state(game, env, rows), actions, draws(game, rows)))


def assert_equal(id, rows):
    """Plays the recorded episodes with our environment, compares all rows, and returns the largest difference."""
    shown, full, reward, terminated = play(id, rows)
    control = "state.0" in rows
    tolerance = CONTROL_TOLERANCE if control else TOLERANCE
    lengths, errors = rows["length"], [0.0]
    for lane, length in enumerate(lengths):
        for name, ours in (("seen", shown), ("full", full)):
            if name == "full" and id.startswith("CountRecall"):  # one array of two kinds there
                ours = (*ours[:2], np.stack(ours[2:], axis=-1))
            if name == "seen" and id.startswith("CountRecall"):
                ours = np.stack(ours, axis=-1)
            leaves = ours if isinstance(ours, tuple) else (ours,)
            theirs = [rows[f"{name}.{number}"] for number in range(len(leaves))]
            assert f"{name}.{len(leaves)}" not in rows
            for mine, original in zip(leaves, theirs, strict=True):
                mine, original = mine[: length + 1, lane], original[lane, : length + 1]
                assert mine.shape == original.shape, (id, name, mine.shape, original.shape)
                if mine.dtype.kind == "i":
                    np.testing.assert_array_equal(mine, original, err_msg=f"{id} {name}")
                else:
                    np.testing.assert_allclose(mine, original, rtol=tolerance, atol=tolerance, err_msg=f"{id} {name}")
                    errors.append(np.max(np.abs(mine - original) / np.maximum(1, np.abs(original))))
        theirs = {name: rows[f"{name}.0"][lane, :length] for name in ("reward", "terminated", "truncated")}
        np.testing.assert_allclose(reward[:length, lane], theirs["reward"], rtol=0, atol=REWARD_TOLERANCE, err_msg=id)
        errors.append(np.max(np.abs(reward[:length, lane] - theirs["reward"])))
        np.testing.assert_array_equal(terminated[:length, lane], theirs["terminated"].astype(bool), err_msg=id)
        # Only the time limit truncates, on its last step.
        limit = jaxenv.spec(id).max_episode_steps or 10**9
        assert length <= limit
        np.testing.assert_array_equal(theirs["truncated"] | theirs["terminated"], np.arange(1, length + 1) == length)
        assert bool(theirs["truncated"][-1]) <= (length == limit)
        assert (length == limit) <= bool(theirs["truncated"][-1] | theirs["terminated"][-1])
    return float(max(errors))


def assert_recorded_equal(id):
    """Compares the recorded episodes of an id and certifies them; returns their rows."""
    rows = recorded(id)
    error = assert_equal(id, rows)
    tolerance = CONTROL_TOLERANCE if "state.0" in rows else TOLERANCE
    steps = int(rows["length"].sum())
    if "state.0" in rows:
        certify(id, ORIGINAL, states=steps, tolerance=tolerance, error=error)
    else:
        certify(id, ORIGINAL, episodes=len(rows["length"]), steps=steps, tolerance=tolerance, error=error)
    return rows
