"""Records games of Pgx in ``ID.npz``, which the tests compare with: ``python tests/envs/board/make_games.py [ID ...]``.

    python -m venv pgx && pgx/bin/pip install pgx==2.6.0

Moves are random legal ones and a few illegal ones; in Go, players like to place stones where they had some, which
repeats positions, and in Hex they like to swap. Rows are those of this library: a game that is over restarts in the
next row, whose action is ignored. Players are numbered by colour, the one that moves first is 0, while Pgx numbers them
at random.
"""

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pgx

GAMES = {
    "ConnectFour-v0": "connect_four",
    "Go-9x9-v0": "go_9x9",
    "Hex-11x11-v0": "hex",
    "Othello-v0": "othello",
    "2048-v0": "2048",
}
LANES, STEPS, ILLEGAL = 40, 130, 0.01
SIZES = {"Go-9x9-v0": (16, 330), "Hex-11x11-v0": (16, 250)}


def play(id, lanes, steps, seed, illegal=ILLEGAL):
    """Games as a dict of arrays ``[steps + 1, lanes, ...]``; ``action`` is the one that led to the row."""
    env = pgx.make(GAMES[id])
    init, step = jax.vmap(env.init), jax.vmap(env.step)

    def row(state, first, action, legal):
        alone = env.num_players == 1
        order = jnp.stack([first, 1 - first], axis=-1)
        shown = state.observation
        if not alone and shown.shape[-1] == 2:
            shown = shown[..., 0].astype(jnp.int8) - shown[..., 1]
        return {
            "action": action,
            "legal": legal,
            "observation": jnp.argmax(shown, axis=-1) if alone else shown,
            "action_mask": state.legal_action_mask,
            "player": (state.current_player != first).astype(jnp.int32),
            "reward": state.rewards[:, 0] if alone else jnp.take_along_axis(state.rewards, order, axis=1),
            "over": state.terminated,
        }

    def begin(key):
        state = init(jax.random.split(key, lanes))
        return state, state.current_player  # who moves first

    def advance(carry, key):
        state, first = carry
        choose, which, tile, again = jax.random.split(key, 4)
        mask = state.legal_action_mask
        wild = jax.random.bernoulli(choose, illegal, (lanes,)) & ~jnp.all(mask, axis=1)
        logits = jnp.where(mask ^ wild[:, None], 0.0, -jnp.inf)
        if id == "Go-9x9-v0":
            earlier = jnp.any(state.observation[..., 2:16:2], axis=-1).reshape(lanes, -1)
            logits += jnp.pad(5.0 * earlier, ((0, 0), (0, 1)))
        if id == "Hex-11x11-v0":
            logits = logits.at[:, 121].add(5)
        action = jax.random.categorical(which, logits).astype(jnp.int32)
        legal = jnp.take_along_axis(mask, action[:, None], axis=1)[:, 0]
        stepped, over = step(state, action, jax.random.split(tile, lanes)), state.terminated
        fresh, new_first = begin(again)

        def chosen(a, b):
            return jnp.where(over.reshape(-1, *[1] * (a.ndim - 1)), a, b)

        carry = jax.tree.map(chosen, (fresh, new_first), (stepped, first))
        return carry, row(*carry, action, legal)

    def run(key):
        key, start = jax.random.split(key)
        carry = begin(start)
        first = row(*carry, jnp.zeros(lanes, jnp.int32), jnp.ones(lanes, bool))
        _, rows = jax.lax.scan(advance, carry, jax.random.split(key, steps))
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, rows)

    return jax.device_get(jax.jit(run)(jax.random.key(seed)))


if __name__ == "__main__":
    for id in sys.argv[1:] or GAMES:
        rows = play(id, *SIZES.get(id, (LANES, STEPS)), seed=0)
        small = {k: v.astype(np.int8) if v.dtype == np.int32 else v for k, v in rows.items()}
        np.savez_compressed(pathlib.Path(__file__).with_name(f"{id}.npz"), **small)
