"""Common parts of the levels with objects: steps and views in cluttered grids, missions, errors, pictures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.envs.grid import _mission
from jaxenv.envs.grid._cell_set import CellSet, nth_cell
from jaxenv.envs.grid._objects import BALL, BOX, DOOR, GREEN, KEY, RED, Objects, encode
from jaxenv.envs.grid._view import Pose
from jaxenv.envs.grid.crossing import SimpleCrossing
from jaxenv.envs.grid.go_to_door import GoToDoor
from jaxenv.envs.grid.key_corridor import KeyCorridor
from jaxenv.envs.grid.memory import Memory
from jaxenv.envs.grid.object_world import ObjectWorld, start_state
from jaxenv.envs.grid.put_near import PutNear
from jaxenv.envs.grid.red_blue_doors import RedBlueDoors
from jaxenv.wrappers import TimeLimit
from tests.envs.grid import reference as plain
from tests.envs.grid.objects import reference
from tests.pictures import rendered


class Clutter(ObjectWorld):
    """A level with every kind of object; the tests inject the states."""

    num_doors = 4

    def initial(self, stream):
        one = jnp.ones(stream.shape, jnp.int32)
        objects = Objects(jnp.stack([one] * 12, axis=1), jnp.stack([one.astype(jnp.uint32)] * 12, axis=1))
        return start_state(self.room(self.sizes(stream.shape)), objects, Pose(one, one, one))


def test_steps_and_views_of_cluttered_grids_match_minigrid():
    data = reference.golden("objects")
    kind = data["after_grid"][..., 0]
    held, after = data["carrying"] & 255, data["after_carrying"] & 255
    for thing in (5, 6, 7):  # keys, balls and boxes
        assert np.sum((held == 0) & (after == thing)) >= 3, "picked up"
        assert np.sum((held == thing) & (after == 0)) >= 3, "dropped"
    assert np.sum(np.sum(kind == 7, axis=(1, 2)) < np.sum(data["grid"][..., 0] == 7, axis=(1, 2))) >= 3, "opened"
    doors, doors_after = ((data[n][..., 0] == 4) * (1 + data[n][..., 2]) for n in ("grid", "after_grid"))
    found = (data["hidden"] > 0) & (kind == 5)
    assert np.sum(np.any(found, axis=(1, 2))) >= 3, "a key in a box"
    for before, now in ((1, 2), (2, 1), (3, 1)):
        assert np.sum(np.any((doors == before) & (doors_after == now), axis=(1, 2))) >= 2, (before, now)
    env = TimeLimit(Clutter(num_envs=len(data["action"]), max_size=9).with_params(max_steps=50), 50)
    reference.assert_steps_match(env, data)


def test_the_fully_observable_image_is_the_whole_grid():
    data = reference.golden("objects")
    env = Clutter(num_envs=len(data["action"]), max_size=9, fully_observable=True)
    state = reference.inject(env, data["after_grid"], data["after_agent"], data["after_carrying"])
    plain.assert_whole_grid_matches(env, state, data)
    columns, rows = (
        jaxenv.make("MiniGrid-RedBlueDoors-6x6-v0", fully_observable=True).observation_spec()["image"].shape[:2]
    )
    assert (columns, rows) == (12, 6)


def test_words_of_missions_have_different_tokens_and_keep_them():
    assert len(set(_mission.WORDS)) == len(_mission.WORDS)
    assert _mission.encode("fetch a red key")[:5].tolist() == [32, 19, 1, 7, 0]
    assert _mission.decode(_mission.encode("go to the goal")) == "go to the goal"


@pytest.mark.parametrize("id", [id for id in jaxenv.ids() if id.startswith("MiniGrid-")])
def test_every_level_can_show_its_mission(id):
    env = jaxenv.spec(id).make(2, observe_mission=True)
    spec = env.observation_spec()["mission"]
    assert (spec.shape, spec.dtype, spec.maximum.max()) == ((20,), np.uint8, len(_mission.WORDS) - 1)
    assert env.mission_text(_mission.encode(env.mission)) == env.mission.replace(",", "")


def test_a_mission_that_never_changes_is_the_text_of_the_level():
    env = jaxenv.make("MiniGrid-DoorKey-5x5-v0", 2, observe_mission=True)
    tokens = env.reset(jax.random.key(0))[1].observation["mission"]
    assert [env.unwrapped.mission_text(t) for t in tokens] == [env.unwrapped.mission] * 2
    assert "mission" not in jaxenv.make("MiniGrid-DoorKey-5x5-v0").observation_spec()
    assert "mission" not in jaxenv.make("MiniGrid-Fetch-5x5-N2-v0", observe_mission=False).observation_spec()


def test_a_set_of_cells_counts_and_numbers_its_cells_row_by_row():
    plane = np.random.default_rng(0).random((50, 6, 6)) < np.linspace(0.1, 1, 50)[:, None, None]
    cells = CellSet.from_plane(jnp.asarray(plane))
    assert cells.count().tolist() == plane.sum(axis=(1, 2)).tolist()
    lanes, y, x = np.nonzero(plane)
    number = np.concatenate([np.arange(n, dtype=np.int32) for n in plane.sum(axis=(1, 2))])
    found = jax.jit(lambda rows, lanes, number: nth_cell(rows[lanes], number))(cells.rows, lanes, number)
    np.testing.assert_array_equal(found, (x, y))


@pytest.mark.parametrize(("direction", "step"), [(0, (0, 1)), (1, (1, 0)), (2, (0, -1)), (3, (-1, 0))])
def test_the_cells_before_a_set_are_those_that_face_it(direction, step):
    plane = np.zeros((1, 5, 5), bool)
    plane[0, 2, 1] = plane[0, 3, 3] = True
    before = CellSet.from_plane(jnp.asarray(plane)).before(direction)
    expected = np.roll(plane, (-step[0], -step[1]), axis=(1, 2))
    bits = np.arange(5, dtype=np.uint32)
    np.testing.assert_array_equal((np.asarray(before.rows)[..., None] >> bits) & 1 == 1, expected)
    np.testing.assert_array_equal((np.asarray(before.columns)[..., None] >> bits) & 1 == 1, expected.swapaxes(1, 2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KeyCorridor(max_size=2), r"KeyCorridor: max_size .*got 2"),
        (lambda: RedBlueDoors(max_size=15), r"RedBlueDoors: max_size .*got 15"),
        (lambda: GoToDoor(max_size=8).with_params(size=4), r"size .*got 4"),
        (
            lambda: PutNear(max_size=6, num_objects=3),
            r"PutNear: num_objects .*got 6",
        ),
        (
            lambda: SimpleCrossing(num_crossings=7),
            r"SimpleCrossing: num_crossings .*got 9",
        ),
    ],
)
def test_invalid_arguments_raise_an_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_picture_shows_objects_by_kind_and_colour_and_what_the_agent_carries():
    env = Clutter(num_envs=6, max_size=8, see_through_walls=True)
    state = env.reset(jax.random.key(0))[0]
    things = [encode(KEY, RED), encode(BALL, RED), encode(BOX, RED), encode(DOOR, RED), encode(BALL, GREEN), 0]
    cells = np.full((6, 12), -2, np.int32)
    cells[:, 5] = 3 + 32 * 4
    codes = np.zeros((6, 12), np.uint32)
    codes[:, 5] = things
    cells[5, 5] = -1
    codes[5, 5] = encode(BALL, GREEN)
    agent = Pose(*(np.full(6, n, np.int32) for n in (5, 5, 0)))
    task = tree.rebuild(state.task, objects=Objects(cells, codes), agent=agent)
    image = rendered(env, tree.rebuild(state, task=task), 64) / np.float32(255)
    image = image.reshape(-1, 8, 8, 8, 8, 3).swapaxes(2, 3)
    shown = image[:, 4, 3]
    for i in range(6):
        for j in range(i):
            assert np.abs(shown[i] - shown[j]).max() > 0.2, (i, j)
    green = image[..., 1] > image[..., 0] + 0.15
    np.testing.assert_array_equal(green[:, 5, 5].any(axis=(1, 2)), [False] * 5 + [True])


@pytest.mark.slow
@pytest.mark.parametrize(("level", "sizes"), [(GoToDoor, (5, 8)), (KeyCorridor, (3, 5)), (Memory, (7, 11))])
def test_a_small_grid_starts_the_same_alone_and_in_a_batch_with_larger_ones(level, sizes):
    options = {"num_rows": 2} if level is KeyCorridor else {}
    within = level(num_envs=40, max_size=sizes[1], **options).with_params(size=np.repeat(sizes, 20).astype(np.int32))
    alone = level(num_envs=20, max_size=sizes[0], **options)
    (mixed, row), (small, small_row) = (jax.device_get(plain.reset(env, jax.random.key(3))) for env in (within, alone))
    grid = reference.grids(small.task, *alone.extent)[0]
    np.testing.assert_array_equal(reference.grids(mixed.task, *alone.extent)[0][:20], grid)
    for name, ours in small_row.observation.items():
        np.testing.assert_array_equal(row.observation[name][:20], ours, err_msg=name)
    assert not np.array_equal(*np.split(reference.grids(mixed.task, *within.extent)[0], 2))


@pytest.mark.slow
@pytest.mark.parametrize("id", ["MiniGrid-ObstructedMaze-1Dlh-v0", "MiniGrid-ObstructedMaze-2Dlh-v0"])
def test_the_boxes_hide_the_keys_of_the_locked_doors(id):
    env = jaxenv.spec(id).make(200)
    code = np.asarray(plain.reset(env, jax.random.key(0))[0].task.objects.code)
    locked = [sorted(row[row >> 16 & 255 == 2] >> 8 & 255) for row in code]
    hidden = [sorted(row[row & 255 == BOX] >> 24) for row in code]
    assert [[colour + 1 for colour in row] for row in locked] == hidden
    assert len(locked[0]) == (2 if "2D" in id else 1)
