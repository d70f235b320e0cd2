"""Games of Pgx, recorded by ``make_games.py``, and their comparison with games here."""

import itertools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv.envs.board import game_2048
from tests.parity import certify
from tests.rows import unrolled

PGX = "pgx 2.6.0"


def recorded(id):
    with np.load(pathlib.Path(__file__).with_name(f"{id}.npz")) as file:
        return dict(file)


def assert_played_as_pgx(id, rows):
    """Plays the actions of recorded games of two players here and compares every row."""
    env = jaxenv.make(id, num_envs=rows["action"].shape[1])
    ours = unrolled(env, rows["action"][1:].astype(np.int32))
    ends, legal = rows["over"], rows["legal"]
    np.testing.assert_array_equal(ours.is_last(), ends)
    np.testing.assert_array_equal(ours.discount, np.where(ends, 0, 1))
    np.testing.assert_array_equal(ours.reward, rows["reward"])
    np.testing.assert_array_equal(ours.env_info["player"], rows["player"])
    np.testing.assert_array_equal(ours.env_info["action_mask"], rows["action_mask"])
    # After an end the action is ignored.
    np.testing.assert_array_equal(ours.env_info["invalid_move"][1:], (~legal & ends)[1:])
    # Here an illegal move leaves the board alone.
    legally = ~(ends & ~legal)
    np.testing.assert_array_equal(ours.observation[legally], rows["observation"][legally])
    assert (ends & ~legal).sum() > 5
    assert {tuple(reward) for reward in rows["reward"][ends & legal].tolist()} >= {(1, -1), (-1, 1)}
    certify(id, PGX, episodes=ends.sum(), steps=_steps_of_whole_games(ends))
    return ours


def _steps_of_whole_games(ends):
    """The number of moves of games that ended; rows behind an end start the next game."""
    moves = np.zeros(ends.shape[1], int)
    total = 0
    for before, end in itertools.pairwise(ends):
        moves = np.where(before, 0, moves + 1)
        total += moves[end].sum()
    return total


def assert_2048_played_as_pgx(rows):
    """Steps 2048 from every board of recorded games, with the tile that Pgx added, and compares the next board."""
    board = rows["observation"].reshape(*rows["over"].shape, 4, 4).astype(np.int8)
    inside = ~rows["over"][:-1]  # the row after the end of a game starts the next one
    before, after = board[:-1][inside], board[1:][inside]
    now = {name: values[1:][inside] for name, values in rows.items()}
    step = jax.jit(lambda *args: game_2048._move(*args, np.float32(0.1)))
    action = now["action"].astype(np.int32)
    words = _words_of_tile(before, after, action)
    found, moves, gained, legal, over = jax.device_get(step(words_of(before), action, words))
    np.testing.assert_array_equal(legal, now["legal"])
    np.testing.assert_array_equal(board_of(found)[legal], after[legal])
    np.testing.assert_array_equal(gained[legal], now["reward"][legal])
    np.testing.assert_array_equal(board_of(found)[~legal], before[~legal])
    assert (now["reward"][~legal] == -1).all()
    np.testing.assert_array_equal(over, now["over"])
    np.testing.assert_array_equal(moves[:, None] >> np.arange(4) & 1, now["action_mask"])
    np.testing.assert_array_equal(mask_of(before), rows["action_mask"][:-1][inside])
    assert (~legal).sum() > 5
    certify("2048-v0", PGX, states=len(before))


def words_of(board):
    """Boards int8 ``[N, 4, 4]`` as four words of rows ``[N]``."""
    return tuple(np.ascontiguousarray(board).view(np.uint32)[:, row, 0] for row in range(4))


def board_of(words):
    return np.stack(words, axis=-1).view(np.int8).reshape(-1, 4, 4)


@jax.jit
def _legal(rows):
    return game_2048._legal(rows)


def mask_of(board):
    return (np.asarray(_legal(words_of(board)))[:, None] >> np.arange(4) & 1).astype(bool)


def _words_of_tile(before, after, action):
    """Random words for which the tile of ``after`` is added to the moved board."""
    moved = np.stack([slid(board, side)[0] for board, side in zip(before, action, strict=True)])
    new = (moved != after).reshape(-1, 16)
    free = (moved == 0).reshape(-1, 16)
    rank, count = np.cumsum(free, axis=1)[np.arange(len(new)), new.argmax(axis=1)] - 1, free.sum(axis=1)
    word = (((2 * rank + 1) << 32) // (2 * np.maximum(count, 1))).astype(np.uint32)
    kind = after.reshape(-1, 16)[np.arange(len(new)), new.argmax(axis=1)]
    return jnp.asarray(word), jnp.asarray(np.where(kind == 2, 0, 2**32 - 1).astype(np.uint32))


# --- the rules in plain Python ---------------------------------------------------------------------------------------


def slid(board, side):
    """A board of 2048 after a move without a new tile, and the sum of the tiles made."""
    turned = np.rot90(board, side)
    out, gained = np.zeros((4, 4), board.dtype), 0
    for row in range(4):
        tiles, line = [int(tile) for tile in turned[row] if tile], []
        while tiles:
            tile = tiles.pop(0)
            if tiles and tiles[0] == tile:
                tiles.pop(0)
                tile += 1
                gained += 2**tile
            line.append(tile)
        out[row, : len(line)] = line
    return np.rot90(out, -side), gained


class ConnectFour:
    """Columns of stones from the bottom; 0 is the player who moves first."""

    def __init__(self):
        self.columns, self.player = [[] for _ in range(7)], 0

    def legal(self):
        return [len(column) < 6 for column in self.columns]

    def view(self):
        board = np.zeros((6, 7), np.int8)
        for number, column in enumerate(self.columns):
            for height, stone in enumerate(column):
                board[5 - height, number] = 1 if stone == self.player else -1
        return board

    def refuse(self):
        """Passes the turn on, as an illegal move does."""
        self.player = 1 - self.player

    def play(self, column):
        """Makes a legal move; returns the rewards of both players and whether the game is over."""
        player, height = self.player, len(self.columns[column])
        self.columns[column].append(player)
        self.player = 1 - player
        for across, up in ((1, 0), (0, 1), (1, 1), (1, -1)):
            line = 1 + sum(self._run(player, column, height, way * across, way * up) for way in (1, -1))
            if line >= 4:
                return (1, -1) if player == 0 else (-1, 1), True
        return (0, 0), not any(self.legal())

    def _run(self, player, column, height, across, up):
        count = 0
        while True:
            column, height = column + across, height + up
            if not (0 <= column < 7 and 0 <= height < len(self.columns[column])):
                return count
            if self.columns[column][height] != player:
                return count
            count += 1


class Othello:
    """A dict from cells to players; 0 is black."""

    def __init__(self):
        self.discs, self.player, self.passed = {(3, 4): 0, (4, 3): 0, (3, 3): 1, (4, 4): 1}, 0, False

    def turned(self, cell):
        """The discs that a disc of the player in this cell turns."""
        if cell in self.discs:
            return []
        found = []
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                line, at = [], (cell[0] + down, cell[1] + right)
                while (down or right) and self.discs.get(at) == 1 - self.player:
                    line.append(at)
                    at = at[0] + down, at[1] + right
                if line and self.discs.get(at) == self.player:
                    found += line
        return found

    def legal(self):
        moves = [bool(self.turned(divmod(cell, 8))) for cell in range(64)]
        return [*moves, not any(moves)]

    def view(self):
        board = np.zeros((8, 8), np.int8)
        for cell, player in self.discs.items():
            board[cell] = 1 if player == self.player else -1
        return board

    def refuse(self):
        """Passes the turn on, as an illegal move does."""
        self.player = 1 - self.player

    def play(self, action):
        """Makes a legal move; returns the rewards of both players and whether the game is over."""
        passes, passed = action == 64, self.passed
        if not passes:
            cell = divmod(action, 8)
            self.discs |= dict.fromkeys([*self.turned(cell), cell], self.player)
        self.player, self.passed = 1 - self.player, passes
        counts = [list(self.discs.values()).count(player) for player in (0, 1)]
        over = sum(counts) == 64 or 0 in counts or (passes and passed)
        lead = int(np.sign(counts[0] - counts[1])) if over else 0
        return (lead, -lead), over


def assert_played_by_the_rules(id, engine, num_steps, lanes, seed=0, illegal=0.01):
    """Plays random moves here, some of them illegal, and compares every row with the rules; returns the number of ends
    by their rewards.
    """
    rng, env = np.random.default_rng(seed), jaxenv.make(id, num_envs=lanes)
    step = jax.jit(env.step)
    state, timestep = jax.jit(env.reset)(jax.random.key(seed))
    games, ends, row = [engine() for _ in range(lanes)], {}, jax.device_get(timestep)
    for _ in range(num_steps):
        mask = row.env_info["action_mask"]
        weights = np.where((rng.random((lanes, 1)) < illegal) & ~mask.all(axis=1, keepdims=True), ~mask, mask)
        action = (weights * rng.random(weights.shape)).argmax(axis=1).astype(np.int32)
        was_over = row.is_last()
        state, timestep = step(state, action)
        row = jax.device_get(timestep)
        for lane in range(lanes):
            if was_over[lane]:
                games[lane] = engine()
                rewards, over, legal = (0, 0), False, True
            elif not (legal := games[lane].legal()[action[lane]]):
                rewards, over = ((-1, 1), True) if games[lane].player == 0 else ((1, -1), True)
                games[lane].refuse()
            else:
                rewards, over = games[lane].play(int(action[lane]))
            game = games[lane]
            mask = [True] * weights.shape[1] if over else game.legal()
            assert row.reward[lane].tolist() == list(rewards)
            assert row.is_last()[lane] == over
            assert row.env_info["invalid_move"][lane] == (not legal)
            assert row.env_info["player"][lane] == game.player
            np.testing.assert_array_equal(row.observation[lane], game.view())
            assert row.env_info["action_mask"][lane].tolist() == mask
            if over:
                kind = rewards if legal else "illegal"
                ends[kind] = ends.get(kind, 0) + 1
    return ends
