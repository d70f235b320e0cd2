"""Keep a ball in play against an opponent that follows it, with images as observations.

Reference: Kirsch (2018), "Batched pong environment", doi:10.5281/zenodo.1175920, for the ball; gymnax's ``Pong-misc``
for the single player, the opponent and the image (tests/envs/misc/test_pong.py).

Observation   bool[height, width, 3]   channels: the paddles, the ball, the ball one step before
Action        int32                    0 stays, 1 moves up, 2 moves down
Reward        "rally": 1 for every step after which the ball is in play, 0 for the last; "score": 1 if the opponent
              misses the ball, -1 if the player does, 0 otherwise
Starts        paddles and ball in the middle; the ball moves to a random side with a row speed uniform in
              [-serve_y_speed, serve_y_speed); without random_serve it moves horizontally to the right
Terminates    when the ball has left the image on either side
Time limit    1000 (registry)

Columns count from the left, the player's side, and rows from the top. Speeds are in cells per step. As in the original
the player's paddle returns balls within half its height of its centre, and the opponent's reaches one cell further. The
top and bottom borders reflect the ball at row 0 and at the last row.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import GREY, NIGHT, ORANGE, SILVER, SKY, WHITE, Canvas, mix
from jaxenv.core import Range, Task, Transition, check_choice, check_integer, flat_in_own_kernels

UP, DOWN = np.int32(1), np.int32(2)


@tree.struct
class Params:
    """Speeds in cells per step: scalars, or ``[B]`` for one value per lane."""

    ball_x_speed: float = tree.leaf(default=1.0, unit="cells/step", above=0)
    ball_max_y_speed: float = tree.leaf(default=3.0, unit="cells/step", low=0)
    paddle_y_speed: float = tree.leaf(default=1.0, unit="cells/step", low=0)
    serve_y_speed: float = tree.leaf(default=1.0, unit="cells/step", low=0)


@tree.struct
class State:
    """Positions of paddles and ball, each float32 ``[B]``."""

    player: jax.Array  # row of the paddle's centre
    opponent: jax.Array
    row: jax.Array
    column: jax.Array
    row_speed: jax.Array
    column_speed: jax.Array
    last_row: jax.Array  # position of the ball one step before
    last_column: jax.Array


class Pong(Task):
    """Pong for one player; the module docstring is the specification."""

    params: Params = Params()
    width: int = tree.static(default=40, low=4, doc="width of the image, at least 4")
    height: int = tree.static(default=30, doc="height of the image, at least a paddle's height plus one")
    paddle_half_height: int = tree.static(default=2, low=1, doc="cells of a paddle above and below its centre")
    use_ai_policy: bool = tree.static(default=True, doc="whether the opponent follows the ball, or the player's moves")
    random_serve: bool = tree.static(default=True, doc="whether direction and speed of the serve are random")
    reward: str = tree.static(default="rally", doc='``"rally"`` or ``"score"``')
    dtype: str = tree.static(default="bool", doc='dtype of the observation, ``"bool"`` or ``"float32"``')
    action_names = ("stay", "up", "down")
    play_fps = 15

    def check(self) -> None:
        owner, p = f"{self}", self.params
        check_integer(owner, "height", self.height, 2 * self.paddle_half_height + 2)
        check_choice(owner, "reward", self.reward, ("rally", "score"))
        check_choice(owner, "dtype", self.dtype, ("bool", "float32"))
        Range(high=self.width / 2).check(owner, "ball_x_speed", p.ball_x_speed)
        # A border reflects at most once per step, so a faster ball could leave the image.
        Range(high=self.height - 1).check(owner, "ball_max_y_speed", p.ball_max_y_speed)
        Range(high=self.height - 1).check(owner, "serve_y_speed", p.serve_y_speed)

    def initial(self, stream: random.Stream) -> State:
        row = jnp.full(stream.shape, self.height / 2, jnp.float32)
        column = jnp.full(stream.shape, self.width / 2, jnp.float32)
        row_speed, side = jnp.zeros_like(row), jnp.ones_like(row)
        if self.random_serve:
            fraction, coin = random.separate_uniforms(stream, 2, -1.0, 1.0)
            row_speed, side = fraction * self.params.serve_y_speed, jnp.where(coin < 0, -side, side)
        return State(row, row, row, column, row_speed, side * self.params.ball_x_speed, row, column)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
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
        """Takes one step; the paddles move in directions ``player`` and ``opponent``: -1 up, 0 not at all, 1 down."""
        reach, max_speed = np.float32(self.paddle_half_height), self.params.ball_max_y_speed
        player, opponent = self._move(state.player, player), self._move(state.opponent, opponent)

        row, column = state.row + state.row_speed, state.column + state.column_speed
        above, below = row < 0, row >= self.height
        row = jnp.where(above, -row, jnp.where(below, 2.0 * (self.height - 1) - row, row))
        row_speed = jnp.where(above | below, -state.row_speed, state.row_speed)

        # A paddle returns the ball and deflects it in proportion to the distance from the paddle's centre.
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

    def observe(self, state: State) -> jax.Array:
        # Each object is one bit. It is visible where both its row and its entry (column and channel) have the bit set:
        # two short tables per lane, and one operation on bytes per element of the image.
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
        image = flat_in_own_kernels(lambda row, entry: (row & entry) != 0, in_row[:, :, None], in_entry[:, None])
        return image.reshape(-1, self.height, self.width, 3)

    def observation_spec(self) -> specs.Bounded:
        shape = (self.height, self.width, 3)
        if self.dtype == "float32":
            return specs.Bounded(shape, np.float32, 0, 1, "observation")
        return specs.Bounded(shape, np.bool_, False, True, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(3, name="action")

    def _move(self, paddle: jax.Array, direction: jax.Array | np.float32) -> jax.Array:
        """Returns the centre of a paddle after a step. The whole paddle stays in the image."""
        reach = self.paddle_half_height
        return jnp.clip(paddle + direction * self.params.paddle_y_speed, float(reach), float(self.height - reach - 1))

    def _follow(self, state: State) -> jax.Array:
        """Returns the opponent's direction: up if that brings it closer to the ball than down, else down."""
        up, down = (self._move(state.opponent, np.float32(d)) for d in (-1, 1))
        return jnp.where(jnp.abs(state.row - up) < jnp.abs(state.row - down), np.float32(-1), np.float32(1))

    def _cell(self, row: jax.Array, column: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns row and column ``[B, 1]`` of the cell at a position, or of the nearest cell in the image."""
        row = jnp.clip(jnp.floor(row).astype(jnp.int32), 0, self.height - 1)
        column = jnp.clip(jnp.floor(column).astype(jnp.int32), 0, self.width - 1)
        return row[:, None], column[:, None]

    def _covers(self, paddle: jax.Array, row: np.ndarray) -> jax.Array:
        return jnp.abs(row - jnp.floor(paddle).astype(jnp.int32)[:, None]) <= self.paddle_half_height

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints each object at the centre of its cell, with the player on the left, as in the observation."""
        width, height, reach = self.width, self.height, self.paddle_half_height
        canvas = canvas.fill(NIGHT).view((0, width), (0, height), margin=0.03)
        canvas = canvas.box(width / 2, height / 2, width, height, mix(NIGHT, WHITE, 0.05))
        for border in (-0.4, height + 0.4):
            canvas = canvas.box(width / 2, border, width, 0.5, GREY)

        def at(row: jax.Array) -> jax.Array:
            return height - 0.5 - row

        for column, paddle, colour in ((0.5, state.player, SKY), (width - 0.5, state.opponent, ORANGE)):
            canvas = canvas.box(column, at(paddle), 1, 2 * reach + 1, colour, corner=0.4)
        canvas = canvas.disc(state.last_column + 0.5, at(state.last_row), 0.5, SILVER, alpha=0.4)
        return canvas.disc(state.column + 0.5, at(state.row), 0.8, WHITE)


def _bit(number: int, mask: jax.Array | np.ndarray) -> jax.Array:
    return jnp.where(mask, np.uint8(1 << number), np.uint8(0))
