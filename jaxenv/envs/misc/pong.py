"""Keep a ball in play against an opponent who follows it, seen as an image.

Reference: Kirsch (2018), "Batched pong environment", doi:10.5281/zenodo.1175920, for the flight of the ball; gymnax's
``Pong-misc`` for the single player, the opponent and the image (tests/envs/misc/test_pong.py).

Observation   bool[height, width, 3]   cells lit by the paddles, by the ball, by the ball one step before
Action        int32                    0 stays, 1 goes up, 2 goes down
Reward        "rally": 1 for every step after which the ball is in play, 0 for the last; "score": 1 if the opponent
              misses the ball, -1 if the player does, 0 otherwise
Starts        paddles and ball in the middle, the ball flying to either side as likely, its speed along the rows uniform
              in [-serve_y_speed, serve_y_speed); level and to the right without random_serve
Terminates    when the ball has left on either side
Time limit    1000 (registry)

Columns are counted from the left, where the player's paddle stands, rows from the top; speeds are cells a step. As in
the original the player's paddle reaches half its height above and below its centre and the opponent's one cell more,
and the borders at the top and at the bottom reflect a ball at row 0 and at the last row.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._checks import is_concrete
from jaxenv.task import Task, Transition

UP, DOWN = np.int32(1), np.int32(2)


@tree.struct
class Params:
    """Speeds in cells a step: scalars, or ``[B]`` for one value per lane."""

    ball_x_speed: float = 1.0
    ball_max_y_speed: float = 3.0
    paddle_y_speed: float = 1.0
    serve_y_speed: float = 1.0


@tree.struct
class State:
    """Paddles and ball, each float32 ``[B]``."""

    player: jax.Array  # row of the paddle's centre
    opponent: jax.Array
    row: jax.Array
    column: jax.Array
    row_speed: jax.Array
    column_speed: jax.Array
    last_row: jax.Array  # of the ball one step before
    last_column: jax.Array


class Pong(Task):
    """Pong for one player; see the module.

    Attributes:
        width: of the image, at least 4.
        height: of the image, enough for a paddle and a cell more.
        paddle_half_height: a paddle is a centre and so many cells on either side.
        use_ai_policy: whether the opponent follows the ball, else both paddles do what the player does.
        random_serve: whether direction and speed of the serve are drawn.
        reward: ``"rally"`` or ``"score"``.
        dtype: of the observation, ``"bool"`` or ``"float32"``.
    """

    params: Params = Params()
    width: int = tree.static(default=40)
    height: int = tree.static(default=30)
    paddle_half_height: int = tree.static(default=2)
    use_ai_policy: bool = tree.static(default=True)
    random_serve: bool = tree.static(default=True)
    reward: str = tree.static(default="rally")
    dtype: str = tree.static(default="bool")

    def check(self):
        if self.width < 4:
            raise ValueError(f"{self}: width must be at least 4, got {self.width}")
        if self.paddle_half_height < 1:
            raise ValueError(f"{self}: paddle_half_height must be at least 1, got {self.paddle_half_height}")
        if self.height < (least := 2 * self.paddle_half_height + 2):
            raise ValueError(f"{self}: height must be at least {least}, got {self.height}")
        for name, allowed in (("reward", ("rally", "score")), ("dtype", ("bool", "float32"))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{self}: {name} must be one of {allowed}, got {getattr(self, name)!r}")
        speed = self.params.ball_x_speed
        if is_concrete(speed) and np.any((np.asarray(speed) <= 0) | (np.asarray(speed) > self.width / 2)):
            raise ValueError(f"{self}: ball_x_speed must be above 0 and at most width / 2, got {speed}")
        # A border reflects once a step: a ball this quick stays between the two.
        for name in ("ball_max_y_speed", "serve_y_speed"):
            speed = getattr(self.params, name)
            if is_concrete(speed) and np.any((np.asarray(speed) < 0) | (np.asarray(speed) > self.height - 1)):
                raise ValueError(f"{self}: {name} must lie in [0, height - 1], got {speed}")
        speed = self.params.paddle_y_speed
        if is_concrete(speed) and np.any(np.asarray(speed) < 0):
            raise ValueError(f"{self}: paddle_y_speed must not be negative, got {speed}")

    def initial(self, stream):
        row = jnp.full(stream.shape, self.height / 2, jnp.float32)
        column = jnp.full(stream.shape, self.width / 2, jnp.float32)
        row_speed, side = jnp.zeros_like(row), jnp.ones_like(row)
        if self.random_serve:
            share, coin = random.separate_uniforms(stream, 2, -1.0, 1.0)
            row_speed, side = share * self.params.serve_y_speed, jnp.where(coin < 0, -side, side)
        return State(row, row, row, column, row_speed, side * self.params.ball_x_speed, row, column)

    def transition(self, state, action, stream):
        direction = (action == DOWN).astype(jnp.float32) - (action == UP).astype(jnp.float32)
        opponent = self._follow(state) if self.use_ai_policy else direction
        state = self.advance(state, direction, opponent)
        missed, scored = state.column < 0, state.column >= self.width
        if self.reward == "rally":
            reward = 1.0 - (missed | scored).astype(jnp.float32)
        else:
            reward = scored.astype(jnp.float32) - missed.astype(jnp.float32)
        return Transition(state, reward, terminated=missed | scored)

    def advance(self, state: State, player: jax.Array, opponent: jax.Array) -> State:
        """One step in which the paddles go in the directions ``player`` and ``opponent``: -1 up, 0, or 1 down."""
        reach, max_speed = np.float32(self.paddle_half_height), self.params.ball_max_y_speed
        player, opponent = self._moved(state.player, player), self._moved(state.opponent, opponent)

        row, column = state.row + state.row_speed, state.column + state.column_speed
        above, below = row < 0, row >= self.height
        row = jnp.where(above, -row, jnp.where(below, 2.0 * (self.height - 1) - row, row))
        row_speed = jnp.where(above | below, -state.row_speed, state.row_speed)

        # Where it meets a paddle a ball is thrown back and deflected, the more the further from the centre.
        off_player, off_opponent = row - player, row - opponent
        by_player = (column <= 1) & (jnp.abs(off_player) <= reach)
        by_opponent = (column > self.width - 2) & (jnp.abs(off_opponent) < reach + 1)
        hit = by_player | by_opponent
        deflected = row_speed + jnp.where(by_player, off_player, off_opponent) / reach
        return State(
            player=player,
            opponent=opponent,
            row=row,
            column=jnp.where(hit, jnp.where(by_player, 2.0, 2.0 * (self.width - 2)) - column, column),
            row_speed=jnp.where(hit, jnp.clip(deflected, -max_speed, max_speed), row_speed),
            column_speed=jnp.where(hit, -state.column_speed, state.column_speed),
            last_row=state.row,
            last_column=state.column,
        )

    def observe(self, state):
        # Each thing is a bit. It is seen in the rows that bear its bit, and there in the entries (column and channel)
        # that do: two short tables a lane, and one operation on bytes for each entry of the image.
        row, entry = (np.arange(n, dtype=np.int32)[None] for n in (self.height, 3 * self.width))
        ball_row, ball_column = self._cell(state.row, state.column)
        last_row, last_column = self._cell(state.last_row, state.last_column)
        in_row = (
            _bit(0, row == ball_row)
            | _bit(1, row == last_row)
            | _bit(2, self._covers(state.player, row))
            | _bit(3, self._covers(state.opponent, row))
        )
        in_entry = (
            _bit(0, entry == 3 * ball_column + 1)
            | _bit(1, entry == 3 * last_column + 2)
            | _bit(2, entry == 0)
            | _bit(3, entry == 3 * (self.width - 1))
        )
        return ((in_row[:, :, None] & in_entry[:, None]) != 0).reshape(-1, self.height, self.width, 3)

    def observation_spec(self):
        shape = (self.height, self.width, 3)
        if self.dtype == "float32":
            return specs.Bounded(shape, np.float32, 0, 1, "observation")
        return specs.Bounded(shape, np.bool_, False, True, "observation")

    def action_spec(self):
        return specs.discrete(3, name="action")

    def _moved(self, paddle: jax.Array, direction: jax.Array | np.float32) -> jax.Array:
        """A paddle's centre after a step; no part of it leaves the image."""
        reach = self.paddle_half_height
        return jnp.clip(paddle + direction * self.params.paddle_y_speed, float(reach), float(self.height - reach - 1))

    def _follow(self, state: State) -> jax.Array:
        """Where the opponent goes: up if that brings it nearer to the ball than down, else down. It never stays."""
        up, down = (self._moved(state.opponent, np.float32(d)) for d in (-1, 1))
        return jnp.where(jnp.abs(state.row - up) < jnp.abs(state.row - down), np.float32(-1), np.float32(1))

    def _cell(self, row: jax.Array, column: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Row and column ``[B, 1]`` of the cell at a place, of the nearest one where that is outside."""
        row = jnp.clip(jnp.floor(row).astype(jnp.int32), 0, self.height - 1)
        column = jnp.clip(jnp.floor(column).astype(jnp.int32), 0, self.width - 1)
        return row[:, None], column[:, None]

    def _covers(self, paddle: jax.Array, row: np.ndarray) -> jax.Array:
        """In which rows a paddle is seen, bool ``[B, height]``."""
        return jnp.abs(row - jnp.floor(paddle).astype(jnp.int32)[:, None]) <= self.paddle_half_height


def _bit(number: int, mask: jax.Array | np.ndarray) -> jax.Array:
    return jnp.where(mask, np.uint8(1 << number), np.uint8(0))
