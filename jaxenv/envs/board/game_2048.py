"""2048."""
import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import Task, Transition, in_one_kernel

_SIZE = 4
_U = np.uint32
_BYTES = _U(0x01010101)
_TOP = _U(0x80808080)  # the highest bit of each byte, which no exponent reaches
Rows = tuple  # four words


@tree.struct
class Params:
    four_probability: float = tree.leaf(default=0.1, low=0, high=1, doc="")


@tree.struct
class State:
    rows: tuple
    moves: jax.Array


class Game2048(Task):
    params: Params = Params()
    action_names = ("left", "up", "right", "down")

    def initial(self, stream):
        zeros = jnp.zeros(stream.shape, jnp.uint32)
        words = random.separate_bits(stream, 4)
        return State(*in_one_kernel(_start, zeros, words, self.params.four_probability))

    def transition(self, state, action, stream):
        words = random.separate_bits(stream, 2)
        rows, moves, gained, legal, over = in_one_kernel(_move, state.rows, action, words, self.params.four_probability)
        reward = jnp.where(legal, gained.astype(jnp.float32), np.float32(-1))
        return Transition(State(rows, moves), reward, over, {"invalid_move": ~legal})

    def observe(self, state):
        rows = jnp.stack(state.rows, axis=-1)
        return jax.lax.bitcast_convert_type(rows, jnp.int8)

    def state_info(self, state):
        return {"action_mask": (state.moves[:, None] & (_U(1) << np.arange(4, dtype=np.uint32))) != 0}

    def observation_spec(self):
        return specs.Bounded((4, 4), np.int8, 0, 17, "observation")

    def action_spec(self):
        return specs.discrete(4, name="action")


def _start(zero, words, four):
    rows = _with_tile((zero, zero, zero, zero), words[0], words[1], four)
    rows = _with_tile(rows, words[2], words[3], four)
    return rows, _legal(rows)


def _move(rows, action, words, four):
    sideways, backwards = (action & np.int32(1)) == 0, action >= np.int32(2)
    # Lines run from row to row
    lines = _where(sideways, _transposed(rows), rows)
    lines = _where(backwards, lines[::-1], lines)
    lines, gained = _merged(_slid(lines))
    lines = _where(backwards, lines[::-1], lines)
    moved = _where(sideways, _transposed(lines), lines)
    legal = _differ(moved, rows)
    rows = _where(legal, _with_tile(moved, words[0], words[1], four), rows)
    moves = _legal(rows)
    over = ~legal | (moves == 0)
    return rows, jnp.where(over, _U(15), moves), gained, legal, over


def _where(mask, a, b):
    return tuple(jnp.where(mask, x, y) for x, y in zip(a, b, strict=True))


def _differ(a, b):
    found = a[0] ^ b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        found = found | (x ^ y)
    return found != 0


def _transposed(rows):
    a, b, c, d = rows
    low, high = _U(0x00FF00FF), _U(0xFF00FF00)
    a, b = (a & low) | ((b & low) << _U(8)), ((a & high) >> _U(8)) | (b & high)
    c, d = (c & low) | ((d & low) << _U(8)), ((c & high) >> _U(8)) | (d & high)
    low, high, half = _U(0x0000FFFF), _U(0xFFFF0000), _U(16)
    return (a & low) | (c << half), (b & low) | (d << half), (a >> half) | (c & high), (b >> half) | (d & high)


def _filled(cells):
    """Returns 255 in each byte that is not zero; bytes are below 128."""
    flags = ((cells + ~_TOP) & _TOP) >> _U(7)
    return flags * _U(255)


def _slid(lines):
    a, b, c, d = lines
    for at in (2, 1, 0):
        if at == 2:
            keep = _filled(c); c, d = c | (d & ~keep), d & keep
        elif at == 1:
            keep = _filled(b); b, c, d = b | (c & ~keep), _pick(keep, c, d), d & keep
        else:
            keep = _filled(a); a, b, c, d = a | (b & ~keep), _pick(keep, b, c), _pick(keep, c, d), d & keep
    return a, b, c, d


def _pick(mask, x, y):
    return (x & mask) | (y & ~mask)


def _merged(lines):
    a, b, c, d = lines
    ab = _filled(a) & ~_filled(a ^ b)
    a, b = a + (ab & _BYTES), b & ~ab
    bc = _filled(b) & ~_filled(b ^ c)
    b, c = b + (bc & _BYTES), c & ~bc
    cd = _filled(c) & ~_filled(c ^ d)
    c, d = c + (cd & _BYTES), d & ~cd
    gained = _sum((a & ab) | (b & bc)) + _sum(c & cd)
    # Cells behind a merged pair move up by one.
    b, c, d = b | (c & ab), _pick(~(ab | bc), c, d), d & ~(ab | bc)
    return (a, b, c, d), gained


def _sum(exponents):
    total = _U(0)
    for byte in range(4):
        exponent = (exponents >> _U(8 * byte)) & _U(31)
        total = total + ((_U(1) << exponent) & ~_U(1))
    return total


def _legal(rows):
    a, b, c, d = rows
    left = right = up = down = _U(0)
    inner = _U(0x00FFFFFF)
    for row in rows:
        toward, back = _slides(row & inner, (row >> _U(8)))
        left, right = left | toward, right | back
    for x, y in ((a, b), (b, c), (c, d)):
        toward, back = _slides(x, y)
        up, down = up | toward, down | back
    moves = _U(0)
    for action, found in enumerate((left, up, right, down)):
        moves = moves | jnp.where(found != 0, _U(1 << action), _U(0))
    return moves


def _slides(x, y):
    fx, fy = x + ~_TOP, y + ~_TOP
    merge = (fx & fy) & ~((x ^ y) + ~_TOP)
    return ((fy & ~fx) | merge) & _TOP, ((fx & ~fy) | merge) & _TOP


def _with_tile(rows, word, other_word, four):
    free = tuple((~(row + ~_TOP) & _TOP) >> _U(7) for row in rows)
    counts = [jax.lax.population_count(f) for f in free]
    total = counts[0] + counts[1] + counts[2] + counts[3]
    rank = random.high_product(word, total) + _U(1)
    tile = jnp.where(random.unit(other_word) < four, _U(2), _U(1))
    out = []
    for row, f, count in zip(rows, free, counts, strict=True):
        place = f * _BYTES  # free cells up to each one
        here = jnp.where((rank >= 1) & (rank <= count), rank, _U(127))
        match = ~_filled(place ^ (here * _BYTES)) & (f * _U(255))
        out.append(row | (match & (tile * _BYTES)))
        rank = rank - count
    return tuple(out)
