"""Levels of grid worlds as text: read, written, played, and refused."""

import chex
import jax
import jax.numpy as jnp
import pytest

import jaxenv
from jaxenv import tree
from tests.errors import like

KEY = jax.random.key(2)
WRITTEN = (
    "MiniGrid-Empty-Random-5x5-v0",
    "MiniGrid-FourRooms-v0",
    "MiniGrid-LavaCrossingS9N1-v0",
    "MiniGrid-LavaGapS7-v0",
    "MiniGrid-SimpleCrossingS9N1-v0",
    "MiniGrid-DoorKey-8x8-v0",
    "Maze-13x13-v0",
)


@pytest.mark.parametrize("id", WRITTEN)
def test_levels_are_read_as_they_are_written(id):
    env = jaxenv.make(id, num_envs=5).unwrapped
    level = jaxenv.sample_level(env, KEY)
    texts = env.format_levels(level)
    chex.assert_trees_all_equal(env.parse_levels(texts), level)
    assert len(set(texts)) > 1 or "Gap" in id
    env.with_level(env.parse_levels(texts))


def test_a_text_is_played_as_it_looks():
    env = jaxenv.make("MiniGrid-DoorKey-8x8-v0", num_envs=2)
    text = """
######
#>KDG#
######
"""
    closed = text.replace("D", "d")
    env = env.with_level(env.unwrapped.parse_levels([text, closed]))
    state, timestep = env.reset(KEY)
    for action in (3, 2, 5, 2, 2):  # takes the key, opens the door, walks to the goal
        assert not timestep.is_last().any()
        state, timestep = env.step(state, jnp.full(2, action))
    assert timestep.terminated.tolist() == [True, True]


def test_smaller_grids_have_walls_on_the_right_and_below():
    env = jaxenv.make("MiniGrid-LavaGapS7-v0", num_envs=1).unwrapped
    level = env.parse_levels("#####\n#>LG#\n#...#\n#####")
    assert env.format_levels(level)[0].split() == ["#######", "#>LG###", "#...###", *["#######"] * 4]
    state, timestep = env.reset(KEY, level=level)
    _, timestep = env.step(state, jnp.array([2]))  # into the lava
    assert timestep.terminated[0]
    assert timestep.reward[0] == 0


@pytest.mark.parametrize(
    ("id", "text", "rule"),
    [
        ("DoorKey-5x5", "####\n#>KDG#\n####", "text 0, line 2 ...got 6"),
        ("DoorKey-5x5", "#####\n#>KD#\n#..G#\n#..X#\n#####", "text 0, line 4, column 4 ...got 'X'"),
        ("DoorKey-5x5", "#####\n#>.D#\n#..G#\n#####", "text 0 ...one key, K, got none"),
        ("DoorKey-5x5", "#####\n#>KD#\n#d.G#\n#####", "line 3, column 2 ...second door ...line 2, column 4, got 'd'"),
        ("Empty-5x5", "#####\n#>K.#\n#..G#\n#####", "line 2, column 3 ...got 'K'"),
        ("Empty-5x5", "#####\n#>..#\n#..G.\n#####", "line 3, column 5 ...wall, #, ...got '.'"),
        ("Empty-5x5", ">.G", "line 1, column 1 ...wall, #, ...got '>'"),
        ("Empty-5x5", "#####\n#...#\n#..G#\n#####", "one agent, > v < ^, got none"),
        ("Empty-5x5", [], "texts ...got []"),
        ("Empty-5x5", 3, "texts ...got 3"),
        ("Fetch-5x5-N2", "###", "MiniGrid-Fetch-5x5-N2-v0: its levels have no text form"),
    ],
)
def test_texts_that_are_no_levels_are_refused(id, text, rule):
    with pytest.raises(ValueError, match=like(rule)):
        jaxenv.make(f"MiniGrid-{id}-v0").unwrapped.parse_levels(text)


def test_states_without_a_text_are_not_written():
    env = jaxenv.make("MiniGrid-DoorKey-5x5-v0", num_envs=2).unwrapped
    level = env.parse_levels(["#####\n#>K.#\n#.DG#\n#####"] * 2)
    carried = tree.rebuild(level, lock=tree.rebuild(level.lock, key=jnp.array([level.lock.key[0], -1])))
    with pytest.raises(ValueError, match=r"format_levels: the key .*in lane 1 the agent carries it"):
        env.format_levels(carried)
    same = tree.rebuild(level, goal=level.agent.x + 32 * level.agent.y)
    with pytest.raises(ValueError, match=r"format_levels: the agent .*in lane 0 it is with G"):
        env.format_levels(same)
