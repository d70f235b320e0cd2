"""Pictures of the games: what is where, and which way it faces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import tree
from jaxenv.canvas import GOLD, RED, SKY, WHITE
from jaxenv.envs.minatar._bitboard import EMPTY, Bitboard
from jaxenv.envs.minatar.seaquest import Diver
from tests.envs.minatar.reference import bare
from tests.pictures import rendered

CELL = 8  # pixels


def pictures(id, change, lanes=2):
    """Pictures of the start of a game that ``change`` has altered, float ``[B, 10, 10, CELL, CELL, 3]`` by cells."""
    env = bare(id, lanes)
    state = env.reset(jax.random.key(0))[0]
    task = tree.rebuild(state.task, game=change(state.task.game))
    image = rendered(env, tree.rebuild(state, task=task), 10 * CELL) / np.float32(255)
    return image.reshape(lanes, 10, CELL, 10, CELL, 3).swapaxes(2, 3)


def cells(row, columns):
    columns = jnp.asarray(columns, jnp.int32)
    return Bitboard.cell(jnp.full_like(columns, row), columns)


def breakout(game):
    ball = jnp.array([0, 7], jnp.int32)
    return tree.rebuild(game, ball_row=ball, ball_column=ball, bricks=game.bricks ^ np.uint32(1 << 12))


def asterix(game):
    enemies, gold = cells(3, [2, 7]), cells(4, [6, 3])
    centre = jnp.array([5, 4], jnp.int32)
    right = tree.where(jnp.array([True, False]), enemies | gold, EMPTY.full((2,)))
    return tree.rebuild(game, player_column=centre, enemies=enemies, gold=gold, right=right)


def freeway(game):
    speed = jnp.array([1, 2, 3, 4, 5, -1, -2, -3], jnp.int32)
    column = jnp.arange(1, 9, dtype=jnp.int32)
    return tree.rebuild(game, speed=jnp.stack([speed, -speed]), column=jnp.stack([column, 9 - column]))


def space_invaders(game):
    return tree.rebuild(game, right=jnp.array([True, False]), column=jnp.array([5, 4], jnp.int32))


def seaquest(game):
    right, place = jnp.array([True, False]), lambda column: jnp.array([column, 9 - column], jnp.int32)
    fish, submarines = cells(2, place(3)), cells(4, place(8))
    swimmer = Diver(jnp.full(2, 6, jnp.int32), place(1), right)
    return tree.rebuild(
        game,
        row=jnp.array([8, 8], jnp.int32),
        column=place(6),
        facing_right=right,
        fish=fish,
        submarines=submarines,
        right=tree.where(right, fish | submarines, EMPTY.full((2,))),
        divers=(swimmer, game.divers[1]),
    )


@pytest.mark.parametrize(
    ("id", "change"),
    [
        ("Asterix-MinAtar", asterix),
        ("Freeway-MinAtar", freeway),
        ("SpaceInvaders-MinAtar", space_invaders),
        ("Seaquest-MinAtar", seaquest),
    ],
)
def test_things_that_face_left_are_mirror_images_of_those_that_face_right(id, change):
    # The chicken and the hero always look the same way, and so do the gauges in the last row.
    rows = slice(0, 5) if id == "Asterix-MinAtar" else slice(1, 9)
    right, left = pictures(id, change)[:, rows]
    np.testing.assert_allclose(left[:, ::-1, :, ::-1], right, atol=2 / 255)
    assert not np.allclose(left, right, atol=0.1)


def test_fish_look_to_where_they_swim():
    right, left = pictures("Seaquest-MinAtar", seaquest)[:, 2]
    for fish, half in ((right[3], slice(CELL // 2, None)), (left[6], slice(0, CELL // 2))):
        white = fish.min(axis=-1)
        assert white[:, half].max() == white.max() > 0.4


def test_cars_have_their_lights_in_front():
    right, left = pictures("Freeway-MinAtar", freeway)[:, 1]
    for car, front, back in ((right[1], -1, 0), (left[8], 0, -1)):
        assert car[..., 1].max(axis=0)[front] > car[..., 1].max(axis=0)[back] + 0.1


def test_breakout_shows_the_ball_and_the_bricks_that_are_left():
    image = pictures("Breakout-MinAtar", breakout)
    middle = image[:, :, :, CELL // 2, CELL // 2]
    np.testing.assert_allclose(middle[[0, 1], [0, 7], [0, 7]], np.stack([WHITE, WHITE]), atol=0.01)
    for row, column, colour, there in ((1, 2, RED, True), (2, 2, None, False), (3, 2, GOLD, True)):
        if there:
            np.testing.assert_allclose(middle[0, row, column], colour, atol=0.01)
        else:
            assert middle[0, row, column].max() < 0.3


def test_seaquest_shows_the_oxygen_left_and_the_divers_aboard():
    def dive(game):
        return tree.rebuild(game, oxygen=jnp.array([200, 100], jnp.int32), aboard=jnp.array([0, 2], jnp.int32))

    image = pictures("Seaquest-MinAtar", dive)[:, 9]
    gauge = np.all(np.isclose(image[:, :4, CELL // 2], SKY, atol=0.02), axis=-1).sum(axis=(1, 2))
    assert gauge[0] > 3 * CELL
    assert abs(gauge[1] / gauge[0] - 0.5) < 0.1
    differs = np.abs(image[0, 4:] - image[1, 4:]).max(axis=(1, 2, 3)) > 0.1
    np.testing.assert_array_equal(differs, [True, True, False, False, False, False])
