"""Overcooked compared with JaxMARL, as recorded by ``make_overcooked.py``; every number is compared exactly."""

import functools
import pathlib

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.canvas import BLUE, RED
from jaxenv.envs.grid.overcooked import Cook, Overcooked, State
from tests.draws import chi_square, draw
from tests.errors import like
from tests.parity import certify
from tests.pictures import cells, picture, shows

LAYOUTS = ("cramped_room", "asymm_advantages", "coord_ring", "forced_coord", "counter_circuit")
IDS = {name: f"Overcooked-{name.title().replace('_', '')}-v1" for name in LAYOUTS}
NOTHING, ONION, PLATE, SOUP = range(4)
UP, DOWN, RIGHT, LEFT, STAY, INTERACT = range(6)
FIELDS = ("cells", "directions", "items", "pots")


@functools.cache
def recorded(layout):
    with np.load(pathlib.Path(__file__).parent / "overcooked.npz") as data:
        assert str(data["jaxmarl"]) == "0.2.0"
        return {k.removeprefix(f"{layout}_"): data[k] for k in data if k.startswith(layout)}


def kitchen(env, at, directions, items=(NOTHING, NOTHING), pots=23, step=0):
    """A state of the stack, with free counters; arguments of the cooks are ``[B, 2]``."""
    at, directions, items = (np.broadcast_to(np.array(x, np.int32), (env.num_envs, 2)) for x in (at, directions, items))
    state, _ = reset(env)
    counts = len(state.task.pots)
    pots = np.broadcast_to(np.array(pots, np.int32), (env.num_envs, counts))
    cooks = tuple(Cook(at[:, i], directions[:, i], items[:, i]) for i in range(2))
    steps = np.broadcast_to(np.array(step, np.int32), (env.num_envs,))
    return tree.rebuild(state, task=State(cooks, state.task.counters, tuple(pots[:, i] for i in range(counts)), steps))


@jax.jit
def reset(env):
    return env.reset(jax.random.key(0))


@jax.jit
def advance(env, state, action):
    return env.step(state, action)


@jax.jit
def play(env, state, actions):
    return jax.lax.scan(env.step, state, actions)[1]


@jax.jit
def observed(env, state):
    return env.observe(state)


def begun(layout, prefix):
    """The recorded states at the start of a step or an episode."""
    data = recorded(layout)
    values = [data[f"{prefix}_{name}"] for name in FIELDS]
    env = jaxenv.spec(IDS[layout]).make(len(values[0]))
    return env, kitchen(env, *values)


def assert_rows_equal(rows, data, prefix, every=1):
    np.testing.assert_array_equal(rows.observation[::every], data[f"{prefix}_observation"])
    np.testing.assert_array_equal(rows.reward, data[f"{prefix}_reward"])
    np.testing.assert_array_equal(rows.env_info["shaped_reward"], data[f"{prefix}_shaped"])
    assert not rows.terminated.any()


# --- compared with JaxMARL -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", IDS)
def test_whole_episodes_equal_jaxmarl(layout):
    data = recorded(layout)
    env, state = begun(layout, "first")
    np.testing.assert_array_equal(observed(env, state.task), data["first_observation"])
    rows = jax.device_get(play(env, state, data["actions"].astype(np.int32)))
    assert_rows_equal(rows, data, "step")
    steps, episodes = data["step_done"].shape
    assert data["step_done"][-1].all()
    assert not data["step_done"][:-1].any()
    assert jaxenv.spec(IDS[layout]).max_episode_steps == steps
    certify(IDS[layout], "jaxmarl 0.2.0", episodes=episodes, steps=steps * episodes)


@pytest.mark.parametrize("layout", IDS)
def test_one_step_from_random_states_equals_jaxmarl(layout):
    data = recorded(layout)
    env, state = begun(layout, "pose")
    _, rows = jax.device_get(advance(env, state, data["pose_actions"].astype(np.int32)))
    assert_rows_equal(rows, data, "pose", every=30)
    assert {20} <= set(data["pose_reward"].ravel().tolist())
    assert {0, 3, 5} <= set(data["pose_shaped"].ravel().tolist())
    certify(IDS[layout], "jaxmarl 0.2.0", states=env.num_envs)


@pytest.mark.parametrize("layout", IDS)
def test_random_starts_have_the_distribution_of_jaxmarl(layout):
    state = draw(Overcooked(layout=layout, random_start=True).initial)
    cooks = [[getattr(cook, name) for cook in state.cooks] for name in ("cell", "direction", "item")]
    assert (cooks[0][0] != cooks[0][1]).all()
    for name, ours in zip(FIELDS, [*cooks, state.pots], strict=True):
        for values, theirs in zip(ours, recorded(layout)[f"drawn_{name}"], strict=True):
            counts = np.bincount(values, minlength=64)
            np.testing.assert_array_equal(counts > 0, theirs > 0)
            assert abs(chi_square(counts[counts > 0])) < 5
            assert abs(chi_square(theirs[theirs > 0])) < 5


@pytest.mark.parametrize("layout", IDS)
def test_the_usual_start_is_that_of_jaxmarl_and_only_directions_vary(layout):
    state, data = draw(Overcooked(layout=layout).initial), recorded(layout)
    for i, cook in enumerate(state.cooks):
        assert set(cook.cell.tolist()) == {data["first_cells"][0, i]}
        assert abs(chi_square(np.bincount(cook.direction, minlength=4))) < 5
        assert not cook.item.any()
    assert abs(np.corrcoef(*(cook.direction for cook in state.cooks))[0, 1]) < 0.04
    for values, expected in [(state.counters, 0), (state.pots, 23), ([state.step], 0)]:
        assert (np.array(values) == expected).all()


# --- rules -----------------------------------------------------------------------------------------------------------

# Cells are numbered row by row, six a row.
BENCH = """
WXWBWW
W0P1 B
X    O
WWWWWW
"""


def bench(num_envs=1, **params):
    return Overcooked(layout=BENCH, num_envs=num_envs).with_params(**params)


def test_both_cooks_get_the_reward_of_every_soup():
    env = bench(3, delivery_reward=np.array([20, 20, 7], np.float32))
    state = kitchen(env, [7, 13], [UP, LEFT], SOUP)
    _, row = advance(env, state, np.array([[INTERACT, INTERACT], [STAY, INTERACT], [INTERACT, STAY]], np.int32))
    assert row.reward.tolist() == [[40, 40], [20, 20], [7, 7]]
    assert not row.env_info["shaped_reward"].any()


@pytest.mark.parametrize(
    ("at", "actions", "after"),
    [
        ((13, 15), (RIGHT, LEFT), (13, 15)),  # into one cell
        ((13, 14), (RIGHT, LEFT), (13, 14)),  # a swap
        ((13, 14), (RIGHT, STAY), (13, 14)),  # into the other cook
        ((13, 14), (RIGHT, RIGHT), (14, 15)),  # one after the other
        ((14, 15), (RIGHT, UP), (15, 9)),
        ((7, 16), (LEFT, DOWN), (7, 16)),  # against counters
        ((7, 9), (RIGHT, LEFT), (7, 9)),  # against a pot
        ((13, 15), (INTERACT, STAY), (13, 15)),
    ],
)
def test_cooks_neither_share_nor_swap_cells(at, actions, after):
    env = bench()
    state, _ = advance(env, kitchen(env, at, [UP, UP]), np.array([actions], np.int32))
    assert [int(cook.cell[0]) for cook in state.task.cooks] == list(after)
    directions = [int(cook.direction[0]) for cook in state.task.cooks]
    assert directions == [action if action < STAY else UP for action in actions]


def test_agent_0_acts_first_at_a_pot_that_both_face():
    env = bench(2)
    state = kitchen(env, [7, 9], [RIGHT, LEFT], [[PLATE, PLATE], [ONION, ONION]], pots=[[0], [21]])
    state, row = advance(env, state, np.full((2, 2), INTERACT, np.int32))
    assert [cook.item.tolist() for cook in state.task.cooks] == [[SOUP, NOTHING], [PLATE, ONION]]
    assert row.env_info["shaped_reward"].tolist() == [[5, 0], [3, 0]]
    assert state.task.pots[0].tolist() == [23, 19]


@pytest.mark.parametrize("status", range(24))
def test_pots_cook_when_full_until_the_soup_is_ready(status):
    env = bench()
    state, row = advance(env, kitchen(env, [7, 16], [UP, DOWN], pots=status), np.array([[STAY, STAY]], np.int32))
    expected = status if status > 20 else max(status - 1, 0)
    assert int(state.task.pots[0][0]) == expected
    shown = np.asarray(row.observation)[0, 0, 1, 2, [16, 18, 20, 21]].tolist()
    cooks = expected < 20
    assert shown == [0 if cooks else 23 - expected, 3 * cooks, expected if cooks else 0, expected == 0]


def test_a_plate_is_worth_a_reward_while_a_pot_needs_it():
    env = bench(5, plate_reward=2.0)
    items = [[NOTHING, NOTHING], [NOTHING, PLATE], [NOTHING, NOTHING], [NOTHING, ONION], [NOTHING, NOTHING]]
    state = kitchen(env, [10, 15], [RIGHT, DOWN], items, pots=[[22], [22], [23], [0], [22]])
    counters = (state.task.counters[0] | np.uint32([0, 0, 0, 0, PLATE << 4]),)
    state = tree.rebuild(state, task=tree.rebuild(state.task, counters=counters))
    state, row = advance(env, state, np.array([[INTERACT, STAY]] * 5, np.int32))
    assert state.task.cooks[0].item.tolist() == [PLATE] * 5
    assert row.env_info["shaped_reward"].tolist() == [[2, 0], [0, 0], [0, 0], [2, 0], [0, 0]]


def test_agent_1_sees_the_plate_that_agent_0_takes_in_the_same_step():
    env = bench()
    state, row = advance(env, kitchen(env, [9, 10], [UP, RIGHT], pots=22), np.full((1, 2), INTERACT, np.int32))
    assert [int(cook.item[0]) for cook in state.task.cooks] == [PLATE, PLATE]
    assert row.env_info["shaped_reward"].tolist() == [[3, 0]]


def test_every_counter_of_a_large_kitchen_holds_every_item():
    floors = "WWWWWWW\nW0 W  W\nW  W  W\nWW W WW\nW  1  W\nW  W  W\nW W W W\nW  W  W\nWWWPXOB"
    codes = np.array([list(row) for row in floors.split("\n")])
    flat, offsets = codes.ravel(), (-7, 7, 1, -1)
    poses = [
        (cell, way, item)
        for cell in np.flatnonzero(np.isin(flat, list(" 01"))).tolist()
        for way, offset in enumerate(offsets)
        if flat[cell + offset] == "W"
        for item in (ONION, PLATE, SOUP)
    ]
    assert {cell + offsets[way] for cell, way, _ in poses} == set(np.flatnonzero(flat == "W").tolist()) - {
        0,
        3,
        6,
        21,
        27,
        56,
    }
    at, ways, items = np.array(poses, np.int32).T
    env = Overcooked(layout=floors, num_envs=len(poses))
    other = np.where(at == 8, 31, 8).astype(np.int32)
    start = kitchen(env, np.stack([at, other], 1), np.stack([ways, ways], 1), np.stack([items, 0 * items], 1))
    action = np.tile(np.array([[INTERACT, STAY]], np.int32), (len(poses), 1))
    state, row = advance(env, start, action)
    assert not state.task.cooks[0].item.any()
    image, counter = np.asarray(row.observation)[:, 0], at + np.array(offsets)[ways]
    lies = image.reshape(len(poses), -1, 26)[np.arange(len(poses)), counter]
    expected = np.array([[0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 1, 0], [0, 3, 1, 0, 0]])
    np.testing.assert_array_equal(lies[:, [11, 18, 21, 22, 23]], expected[items])
    assert (image[..., 11].sum(axis=(1, 2)) == (flat == "W").sum() - 1).all()
    state, _ = advance(env, state, action)
    for a, b in zip(jax.tree.leaves(state.task), jax.tree.leaves(start.task), strict=True):
        np.testing.assert_array_equal(a, b + 2 * (a is state.task.step))


def test_each_cook_observes_its_own_layers_first():
    env = jaxenv.make(IDS["counter_circuit"], num_envs=50, random_start=True)
    image = np.asarray(reset(env)[1].observation)
    order = [1, 0, *range(6, 10), *range(2, 6), *range(10, 26)]
    np.testing.assert_array_equal(image[:, 1], image[:, 0][..., order])
    assert (image[:, :, :, :, :2].sum(axis=(2, 3)) == 1).all()


def test_the_last_steps_are_observed_as_urgent_and_end_in_a_truncation():
    env = jaxenv.make(IDS["cramped_room"], 2, max_steps=np.array([42, 400], np.int32), autoreset=None)
    state, _ = reset(env)
    rows = jax.device_get(play(env, state, np.zeros((42, 2, 2), np.int32)))
    urgent = rows.observation[..., 25]
    assert (urgent.min(axis=(2, 3, 4)) == urgent.max(axis=(2, 3, 4))).all()
    assert urgent[:, 0, 0, 0, 0].tolist() == [0, 0] + [1] * 40
    assert not urgent[:, 1].any()
    assert rows.truncated.tolist() == [[False, False]] * 41 + [[True, False]]
    assert not rows.terminated.any()


# --- layouts, picture ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("cramped", "Overcooked: layout ...cramped_room...got 'cramped'"),
        ("WWWW\nW01WW\nWWWW", "Overcooked: layout ...rows of the same length...got"),
        ("WWWW\nW01Z\nWWWW", "Overcooked: layout ...' '...got"),
        ("WWWW\nW0 W\nWWWW", "Overcooked: layout ...one cook 0 and one cook 1...got"),
        ("WW W\nW01W\nWWWW", "Overcooked: layout ...no floor...got"),
        ("\n".join(["W" * 13, "W0" + "1" + "W" * 10, *["W" * 13] * 3]), "Overcooked: layout ...at most 64 cells...got"),
    ],
)
def test_other_layouts_are_refused(layout, message):
    with pytest.raises(ValueError, match=like(message)):
        Overcooked(layout=layout)


def test_a_kitchen_needs_neither_pots_nor_counters_of_items():
    env = Overcooked(layout="XXXX\nX01X\nXXXX", num_envs=3)
    _, row = advance(env, reset(env)[0], np.full((3, 2), INTERACT, np.int32))
    assert not row.observation[..., [10, 11, 16, 18, 20, 21]].any()


def test_the_picture_shows_the_cooks_in_their_cells():
    env, places = bench(3), np.array([[7, 16], [13, 9], [10, 15]])
    image = picture(env, kitchen(env, places, [UP, LEFT]).task, 3, 96)[:, 16:80]
    for i, colour in enumerate((BLUE, RED)):
        found = cells(shows(image, colour), 4, 6).reshape(3, -1)
        assert [np.flatnonzero(lane).tolist() for lane in found] == [[place] for place in places[:, i]]
