"""Common parts of the levels: steps and views in cluttered grids, rewards per lane, and invalid arguments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.envs.grid._view import Pose
from jaxenv.envs.grid.door_key import DoorKey
from jaxenv.envs.grid.empty import Empty
from jaxenv.envs.grid.four_rooms import FourRooms
from jaxenv.envs.grid.grid_world import GridWorld, Lock
from jaxenv.envs.grid.lava_gap import LavaGap
from jaxenv.envs.grid.maze import Maze
from jaxenv.wrappers import TimeLimit
from tests.envs.grid import reference
from tests.pictures import rendered
from tests.rows import unrolled


class Clutter(GridWorld):
    """A level with every kind of object; the tests inject the states."""

    def initial(self, stream):
        one = jnp.ones(stream.shape, jnp.int32)
        floor = self.room(self.sizes(stream.shape))
        return self.start(floor, goal=one, agent=Pose(one, one, one), lava=floor, lock=Lock(one, one, one))


def test_steps_and_views_of_cluttered_grids_match_minigrid():
    data = reference.golden("clutter")
    lanes = len(data["action"])
    # Every second lane has its own reward.
    success, penalty = np.where(np.arange(lanes) % 2, 2.5, 1), np.where(np.arange(lanes) % 2, 0.5, 0.9)
    env = Clutter(num_envs=lanes, max_size=9)
    # In those lanes the reward decreases over fewer steps than the time limit and then stays constant.
    scale = np.where(np.arange(lanes) % 2, 20, 50)
    env = TimeLimit(env.with_params(max_steps=scale, success_reward=success, time_penalty=penalty), 50)
    paid = data["reward"] > 0
    own = np.where(paid, success * (1 - penalty * np.minimum(data["after_step"] / scale, 1)), 0)
    np.testing.assert_array_equal(own[::2], data["reward"][::2])
    assert min(np.sum(paid[::2]), np.sum((paid & (data["after_step"] < scale))[1::2])) >= 3
    assert np.sum(paid & (data["after_step"] > scale)) >= 3
    assert np.sum(data["terminated"] & ~paid) >= 5  # walked into lava
    assert np.sum(data["carrying"] & ~data["after_carrying"]) >= 5  # dropped the key
    reference.assert_steps_match(env, {**data, "reward": own})


def test_views_through_walls_match_minigrid():
    data = reference.golden("clutter")
    env = Clutter(num_envs=len(data["action"]), max_size=9, see_through_walls=True)
    state = reference.inject(env, data["after_grid"], data["after_agent"], data["after_carrying"])
    image = jax.jit(lambda env, task: env.observe(task)["image"])(env, state.task)
    np.testing.assert_array_equal(image, data["image_through"])
    assert np.any(data["image_through"] != data["image"])


def test_the_fully_observable_image_is_the_whole_grid():
    data = reference.golden("clutter")
    env = Clutter(num_envs=len(data["action"]), max_size=9, fully_observable=True)
    state = reference.inject(env, data["after_grid"], data["after_agent"], data["after_carrying"])
    reference.assert_whole_grid_matches(env, state, data)


def test_specs_match_minigrid_without_the_mission():
    env = jaxenv.make("MiniGrid-DoorKey-8x8-v0")
    image, direction = env.observation_spec()["image"], env.observation_spec()["direction"]
    assert (image.shape, image.dtype, image.minimum.min(), image.maximum.max()) == ((7, 7, 3), np.uint8, 0, 255)
    assert (direction.num_values, env.action_spec().num_values) == (4, 7)
    assert env.unwrapped.mission == "use the key to open the door and then get to the goal"


@pytest.mark.parametrize("id", [id for id in jaxenv.ids() if id.startswith(("MiniGrid-", "Maze-"))])
def test_rewards_decrease_up_to_the_time_limit_of_the_id(id):
    spec = jaxenv.spec(id)
    assert spec.limit_follows_params
    assert spec.make().max_steps == spec.max_episode_steps


def turning(env, num_steps):
    """The first row of each lane whose time limit is reached, if the agent only turns, and its rows."""
    rows = unrolled(env, np.zeros((num_steps, env.num_envs), np.int32))
    assert not rows.terminated.any()
    return np.argmax(rows.is_last(), axis=0).tolist(), rows


@pytest.mark.parametrize(
    ("params", "limits"),
    [
        ({"max_steps": 30}, [30, 30, 30]),
        ({"size": 5}, [100, 100, 100]),  # 4 * size ** 2
        ({"size": np.array([4, 6, 5])}, [64, 144, 100]),
        ({"size": 5, "max_steps": np.array([21, 0, 34])}, [21, 100, 34]),
        ({"max_steps": 30, "max_episode_steps": 50}, [50, 50, 50]),
        ({"size": 5, "max_episode_steps": np.array([7, 50, 110])}, [7, 50, 110]),
    ],
)
def test_the_time_limit_follows_from_max_steps_and_size_unless_it_is_given(params, limits):
    found, _ = turning(jaxenv.make("MiniGrid-Empty-8x8-v0", num_envs=3, **params), 150)
    assert found == limits


@pytest.mark.slow
@pytest.mark.parametrize("wrappers", [(), ("FlattenObservation", "EpisodeStatistics")])
def test_the_time_limit_follows_params_that_are_changed_later(wrappers):
    env = jaxenv.make("MiniGrid-Empty-8x8-v0", num_envs=2, wrappers=wrappers)
    assert turning(env.with_params(size=np.array([5, 4])), 120)[0] == [100, 64]
    assert turning(env.with_params(max_steps=17), 30)[0] == [17, 17]
    traced = jax.jit(lambda env, steps: unrolled(env.with_params(max_steps=steps), np.zeros((30, 2), np.int32)))
    assert np.argmax(traced(env, np.array([11, 23], np.int32)).is_last(), axis=0).tolist() == [11, 23]
    fixed = jaxenv.make("MiniGrid-Empty-8x8-v0", num_envs=2, wrappers=wrappers, max_episode_steps=19)
    assert turning(fixed.with_params(max_steps=17), 30)[0] == [19, 19]


def test_the_time_limit_of_an_episode_follows_the_params_drawn_for_it():
    drawn = ("ResampleParams", {"distributions": {"max_steps": (3, 9)}})
    _, rows = turning(jaxenv.make("MiniGrid-Empty-8x8-v0", num_envs=4, wrappers=[drawn]), 40)
    for lane in range(4):
        ends = np.flatnonzero(rows.is_last()[:, lane])
        lengths = np.diff(np.concatenate([[-1], ends])) - 1
        assert len(set(lengths)) > 1
        assert lengths.tolist() == rows.env_info["params"]["max_steps"][ends, lane].tolist()


@pytest.mark.slow
def test_a_stack_as_data_keeps_the_limit_that_follows_params():
    env = jaxenv.from_data(jaxenv.to_data(jaxenv.make("MiniGrid-Empty-8x8-v0", num_envs=2, size=np.array([5, 4]))))
    assert turning(env, 110)[0] == [100, 64]
    assert turning(env.with_params(max_steps=17), 30)[0] == [17, 17]


def test_traced_sizes_are_clipped_to_the_valid_range():
    fitted = jax.jit(lambda env, size: env.with_params(size=size).unwrapped.size)
    given = np.array([0, 3, 6, 12, 40], np.int32)
    assert fitted(Maze(num_envs=5), given).tolist() == [13, 5, 5, 11, 13]
    assert fitted(Empty(num_envs=5), given).tolist() == [8, 4, 6, 8, 8]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: jaxenv.make("MiniGrid-Dynamic-Obstacles-5x5-v0", num_obstacles=4),
            "num_obstacles must fit into the grid, 4 need a max_size of 6, got 5",
        ),
        (
            lambda: jaxenv.make("MiniGrid-SimpleCrossingS9N1-v0", num_crossings=7),
            "num_crossings must fit into the grid, 7 need a max_size of 11, got 9",
        ),
        (lambda: Empty(max_size=3), r"Empty: max_size must be in \[4, 29\], got 3"),
        (lambda: DoorKey(max_size=30), r"DoorKey: max_size must be in \[5, 29\], got 30"),
        (lambda: Maze(max_size=12), r"Maze: max_size must be odd, got 12"),
        (lambda: LavaGap(max_size=7).with_params(size=8), r"size must be in 5 .. 7, or 0 for max_size, got 8"),
        (
            lambda: FourRooms().with_params(size=10),
            r"size must be odd and in 5 .. 19, or 0 for max_size, got 10",
        ),
        (lambda: Maze(num_envs=2).with_params(size=[9, 3]), r"size must be odd and in 5 .. 13, .* got 3"),
        (lambda: Empty().with_params(max_steps=-1), r"Empty: max_steps must be at least 0, got -1"),
        (lambda: Maze().with_params(loops=1.5), r"Maze: loops must be in \[0, 1\], got 1.5"),
    ],
)
def test_invalid_arguments_raise_an_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def picture(env, **changes):
    """The pictures of states in which ``changes`` are made, by cells: float ``[B, 8, 8, 8, 8, 3]``."""
    state = env.reset(jax.random.key(0))[0]
    state = tree.rebuild(state, task=tree.rebuild(state.task, **changes))
    image = rendered(env, state, 64) / np.float32(255)
    return image.reshape(-1, 8, 8, 8, 8, 3).swapaxes(2, 3)


def test_the_picture_is_light_where_the_agent_looks_and_its_triangle_points_there():
    x, y, four = 4, 3, np.ones(4, np.int32)
    image = picture(
        jaxenv.spec("MiniGrid-Empty-8x8-v0").make(4), agent=Pose(4 * four, 3 * four, np.arange(4, dtype=np.int32))
    )
    row, column = np.mgrid[1:7, 1:7]
    for lane, (ahead_x, ahead_y) in enumerate([(1, 0), (0, 1), (-1, 0), (0, -1)]):
        ahead = (column - x) * ahead_x + (row - y) * ahead_y
        aside = (column - x) * ahead_y + (row - y) * ahead_x
        expected = (ahead >= 0) & (abs(aside) <= 3)
        light = image[lane, 1:7, 1:7, 4, 4].mean(axis=-1) > 0.2
        bare = ((row != y) | (column != x)) & ((row < 6) | (column < 6))  # neither agent nor goal
        np.testing.assert_array_equal(light[bare], expected[bare])
        triangle = image[lane, y, x, :, :, 0] > 0.6
        steps = np.mgrid[:8, :8] - 3.5
        in_front = steps[0] * ahead_y + steps[1] * ahead_x > 0
        assert triangle[in_front].sum() < triangle[~in_front].sum()


def test_the_picture_shows_the_door_and_the_carried_key():
    env = jaxenv.spec("MiniGrid-DoorKey-8x8-v0").make(4)
    lanes = np.zeros(4, np.int32)
    floor = env.room(lanes + 8).remove_column(lanes + 4).add(lanes + 4, lanes + 3)
    door, beside = lanes + 4 + 32 * 3, lanes + 1 + 32 * 6
    lock = Lock(door, np.array([0, 1, 2, 2], np.int32), np.where([0, 0, 0, 1], -1, beside).astype(np.int32))
    image = picture(env, floor=floor, lock=lock, agent=Pose(lanes + 3, lanes + 3, lanes))
    beyond = image[:, 3, 5, 4, 4].mean(axis=-1)
    np.testing.assert_array_equal(beyond > 0.2, [True, False, False, False])  # only seen through the open door
    doors = image[:, 3, 4]
    assert all(np.abs(doors[i] - doors[j]).max() > 0.2 for i, j in ((0, 1), (0, 2), (1, 2)))
    gold = (image[..., 1] > image[..., 2] + 0.25) & (image[..., 0] > 0.6)
    np.testing.assert_array_equal(gold[:, 6, 1].any(axis=(1, 2)), [True, True, True, False])
    np.testing.assert_array_equal(gold[:, 3, 3].any(axis=(1, 2)), [False, False, False, True])
