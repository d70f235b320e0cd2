"""Go on 9 by 9 points: two players place stones in turn, and the larger area wins.

Reference: Pgx's ``go_9x9`` 2.6.0 (tests/envs/board/test_go.py contains games that it played). There a player of a game
is black or white at random; here player 0 is black, which moves first.

A group, stones of one colour that touch along lines, is captured and removed when none of its points touches a free
point. A move that leaves a group of its own without a free point is illegal unless it captures. So is taking back at
once a single stone that has just captured a single stone (ko). A stone that restores an earlier position of the game,
whoever is to move, ends the game; the player who placed it loses (positional superko).

The area of a player is its stones and the free points that no path of free points connects with a stone of the
opponent. Black wins if its area exceeds white's by more than ``komi``; with a whole number a tie is white's.

Observation   bool[9, 9, 17]  the positions after the last eight moves, the latest first, each as stones of the player
              to move and of the opponent, empty before the first move; last whether that player is white
Action        int32           0 to 80 places a stone, row by row; 81 passes
Reward        float32[2]      1 for the winner and -1 for the other at the end of a game, else 0; an illegal move loses
Starts        with an empty board, black to move
Terminates    after two passes in a row, 162 moves, a repeated position or an illegal move
Time limit    none; a game has at most 162 moves
env_info      player: int32, the player to move, 0 for black and 1 for white; action_mask: bool[82], its legal
              actions, all of them when the game is over; invalid_move: bool, whether an illegal move ended the game
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLACK, GREY, INK, ORANGE, SAND, WHITE, Canvas, mix
from jaxenv.core import Transition, in_one_kernel
from jaxenv.envs.board._board import BoardGame, Cells, around, connected, two_rewards
from jaxenv.tree import Tree

SIZE = 9
MOST_MOVES = 2 * SIZE * SIZE
_PASS = SIZE * SIZE
_POSITIONS = 8  # in an observation
# In sets of points a free column follows the last one, so that no step leads from one row into the next.
_WIDTH = SIZE + 1
_WORDS = 3
_NUMBER = (np.arange(SIZE)[:, None] * _WIDTH + np.arange(SIZE)[None]).reshape(-1)
_BOARD = Cells.of(_NUMBER, _WORDS)
_STEPS = (1, _WIDTH, -1, -_WIDTH)


@tree.struct
class Params:
    """Scalars, or ``[B]`` for one value per lane."""

    komi: float = tree.leaf(default=7.5, unit="points", doc="how much larger black's area must be than white's")


@tree.struct
class State:
    """Stones, what follows from them, and the positions of the game."""

    own: Cells  # stones of the player to move
    other: Cells
    atari: Cells  # stones of both players in groups with a single free point around them
    legal: Cells  # points where the player to move may place a stone; all of them when the game is over
    recent: jax.Array  # uint16[B, 81], the planes of the observation, one bit each
    digests: jax.Array  # uint32[B, 2, 162], of the positions after each move so far, then 0
    moves: jax.Array  # int32[B], black's turn if even
    passed: jax.Array  # bool[B], whether the last move was a pass


class Go(BoardGame):
    """Go for two players; the module docstring is the specification."""

    params: Params = Params()
    opt_outs = {"sharding_invariant": "groups of stones grow in a loop that ends with the last lane, use shard_map"}
    action_names = (*(f"{'ABCDEFGHJ'[point % SIZE]}{SIZE - point // SIZE}" for point in range(SIZE * SIZE)), "pass")

    def initial(self, stream: random.Stream) -> State:
        lanes = stream.shape
        empty = Cells.of([], _WORDS).full(lanes)
        return State(
            own=empty,
            other=empty,
            atari=empty,
            legal=_BOARD.full(lanes),
            recent=jnp.zeros((*lanes, SIZE * SIZE), jnp.uint16),
            digests=jnp.zeros((*lanes, 2, MOST_MOVES), jnp.uint32),
            moves=jnp.zeros(lanes, jnp.int32),
            passed=jnp.zeros(lanes, bool),
        )

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        stone, passes, illegal = in_one_kernel(_move, state.legal, action)
        own, other, atari, ko = _placed(state, stone)
        black, white = in_one_kernel(_by_colour, own, other, state.moves)
        repeats, digests = _recorded(state, black, white)
        repeats &= stone.any()
        moves, player = state.moves + 1, state.moves % 2
        scored = ((passes & state.passed) | (moves == MOST_MOVES)) & ~repeats & ~illegal
        over = scored | repeats | illegal
        # Who repeats a position or makes an illegal move loses.
        lead = _lead(black, white, scored).astype(jnp.float32)
        black_wins = jnp.where(scored, lead > self.params.komi, player == 1)
        result = jnp.where(over, 2 * black_wins.astype(jnp.int32) - 1, 0)
        after = State(
            own=other,
            other=own,
            atari=atari,
            legal=in_one_kernel(_legal, other, own, atari, ko, over),
            recent=_remembered(state.recent, other, own),
            digests=digests,
            moves=moves,
            passed=passes,
        )
        return Transition(after, two_rewards(result, jnp.zeros_like(player)), over, {"invalid_move": illegal})

    def observe(self, state: State) -> jax.Array:
        white = (state.moves % 2).astype(jnp.uint32) << np.uint32(2 * _POSITIONS)
        bits = state.recent.astype(jnp.uint32) | white[:, None]
        planes = bits[:, :, None] >> np.arange(2 * _POSITIONS + 1, dtype=np.uint32)[None, None]
        return ((planes & np.uint32(1)) != 0).reshape(-1, SIZE, SIZE, 2 * _POSITIONS + 1)

    def state_info(self, state: State) -> dict[str, Tree]:
        points = state.legal.at(_NUMBER)
        passing = jnp.ones_like(points[:, :1])
        return {"player": state.moves % 2, "action_mask": jnp.concatenate([points, passing], axis=-1)}

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((SIZE, SIZE, 2 * _POSITIONS + 1), np.bool_, False, True, "observation")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        canvas = canvas.fill(_WOOD).view_cells(SIZE, SIZE)
        for at in np.arange(SIZE) + 0.5:
            canvas = canvas.line(at, 0.5, at, SIZE - 0.5, 0.04, INK).line(0.5, at, SIZE - 0.5, at, 0.04, INK)
        for x, y in ((2.5, 2.5), (2.5, 6.5), (4.5, 4.5), (6.5, 2.5), (6.5, 6.5)):
            canvas = canvas.disc(x, y, 0.11, INK)
        black, white = (stones.at(_NUMBER) for stones in _by_colour(state.own, state.other, state.moves))
        kinds = black.astype(jnp.int32) + 2 * white.astype(jnp.int32)
        return canvas.tiles(kinds.reshape(-1, SIZE, SIZE), _STONES)


def _move(legal: Cells, action: jax.Array) -> tuple[Cells, jax.Array, jax.Array]:
    """Returns the new stone, empty for a pass and an illegal move, and whether the move is a pass and illegal."""
    stone, passes = Cells.cell(action + action // SIZE, _WORDS) & legal, action == _PASS
    return stone, passes, ~passes & ~stone.any()


def _placed(state: State, stone: Cells) -> tuple[Cells, Cells, Cells, Cells]:
    """Places a stone of the player to move, or none: its stones, the opponent's, those in atari, the point of ko."""
    # The groups that the stone touches or joins: of the opponent one in each direction, and its own.
    seeds = [stone.moved(step) & state.other for step in _STEPS] + [stone]
    inside = [state.other] * len(_STEPS) + [state.own | stone]
    groups = connected(_stacked(seeds), _stacked(inside), _STEPS)
    captured, touched, atari, ko = in_one_kernel(_judged, state.own, state.other, stone, _unstacked(groups))
    # Where stones are captured, groups around them have a further free point.
    own = state.own | stone
    rescued = connected(around(captured, _STEPS), own, _STEPS)
    return own, state.other - captured, (state.atari - touched - rescued) | atari, ko


def _judged(own: Cells, other: Cells, stone: Cells, groups: list[Cells]) -> tuple[Cells, Cells, Cells, Cells]:
    """Returns the captured stones, all stones of the groups, those of them in atari, and the point that ko forbids."""
    *others, joined = groups
    free = _BOARD - own - other - stone
    captured = touched = atari = Cells.of([], _WORDS)
    for group in others:
        around_it = around(group, _STEPS) & free
        captured = captured | group.where(~around_it.any())
        atari = atari | group.where(around_it.count() == 1)
        touched = touched | group
    atari = atari | joined.where((around(joined, _STEPS) & (free | captured)).count() == 1)
    surrounded = ~(around(stone, _STEPS) & (_BOARD - other)).any()
    return captured, touched | joined, atari, captured.where(surrounded & (captured.count() == 1))


def _legal(own: Cells, other: Cells, atari: Cells, ko: Cells, over: jax.Array) -> Cells:
    """Returns where ``own`` may place a stone: at a free point, a group that keeps one, or one that it captures."""
    free = _BOARD - own - other
    legal = (free & around(free | (own - atari) | (other & atari), _STEPS)) - ko
    return legal | _BOARD.where(over)


def _by_colour(own: Cells, other: Cells, moves: jax.Array) -> tuple[Cells, Cells]:
    """Returns black and white stones; ``own`` are those of the player whose turn it is after ``moves`` moves."""
    is_black = moves % 2 == 0
    return own.where(is_black) | other.where(~is_black), own.where(~is_black) | other.where(is_black)


def _lead(black: Cells, white: Cells, lanes: jax.Array) -> jax.Array:
    """Returns by how much black's area is larger than white's, int32 ``[B]``, in the ``lanes`` of a mask."""
    free = _BOARD - black - white
    colours = _stacked([black, white])
    reached = connected(around(colours, _STEPS).where(lanes), free, _STEPS)
    # The area of a player and what its opponent reaches are all points.
    black_reach, white_reach = _unstacked(reached)
    return black.count() - white_reach.count() - white.count() + black_reach.count()


def _recorded(state: State, black: Cells, white: Cells) -> tuple[jax.Array, jax.Array]:
    """Returns whether a position occurred before in the game, and the digests with its own."""
    digest = jnp.stack(in_one_kernel(_digest, black, white), axis=-1)[:, :, None]
    before = jnp.any(jnp.all(state.digests == digest, axis=1), axis=-1)
    now = np.arange(MOST_MOVES, dtype=np.int32)[None, None] == state.moves[:, None, None]
    return before, jnp.where(now, digest, state.digests)


def _digest(black: Cells, white: Cells) -> list[jax.Array]:
    """Returns two words; two different positions have the same ones with a probability of 2^-64."""
    found: list[jax.Array] = []
    for start in (np.uint32(0x9E3779B9), np.uint32(0x7F4A7C15)):
        digest: Any = start
        for word in (*black.words, *white.words):
            digest = digest ^ word
            # The finalizer of MurmurHash3.
            digest = (digest ^ (digest >> np.uint32(16))) * np.uint32(0x85EBCA6B)
            digest = (digest ^ (digest >> np.uint32(13))) * np.uint32(0xC2B2AE35)
            digest = digest ^ (digest >> np.uint32(16))
        found.append(digest)
    return found


def _remembered(recent: jax.Array, own: Cells, other: Cells) -> jax.Array:
    """Returns the planes of the observation after a move, seen by the next player."""
    one, odd = np.uint16(1), np.uint16(0x5555)
    seen = ((recent & odd) << one) | ((recent >> one) & odd)
    latest = own.at(_NUMBER).astype(jnp.uint16) | other.at(_NUMBER).astype(jnp.uint16) << one
    return (seen << np.uint16(2)) | latest


def _stacked(sets: list[Cells]) -> Cells:
    return Cells(tuple(jnp.stack(words) for words in zip(*(cells.words for cells in sets), strict=True)))


def _unstacked(sets: Cells) -> list[Cells]:
    return [Cells(words) for words in zip(*sets.words, strict=True)]


# --- the picture -----------------------------------------------------------------------------------------------------

_WOOD = mix(SAND, ORANGE, 0.25)
_STONES = (
    None,
    lambda canvas: canvas.disc(0.5, 0.5, 0.44, BLACK),
    lambda canvas: canvas.disc(0.5, 0.5, 0.44, GREY).disc(0.5, 0.5, 0.41, WHITE),
)
