"""Rules of the games without recordings: decks, boards, twins, quirks, errors."""

import collections
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random
from jaxenv.envs.popgym import _deck, battleship, concentration, mine_sweeper, repeat_previous
from tests.draws import chi_square, draw
from tests.envs.popgym import reference


def stream(lanes):
    return random.stream(jax.random.split(jax.random.key(3), lanes))


# --- decks -----------------------------------------------------------------------------------------------------------


def test_the_next_card_has_the_frequencies_of_the_cards_that_remain():
    dealt = jnp.array([[13, 3, 10, 12]])
    cards = draw(lambda lanes: _deck.deal(lanes, jnp.broadcast_to(dealt, (*lanes.shape, 4)), 13))
    counts = np.bincount(cards, minlength=4)
    assert counts[0] == 0
    assert abs(chi_square(counts[1:], np.array([10, 3, 1]) * counts.sum() / 14)) < 4


@pytest.mark.parametrize("id", ["RepeatFirstEasy-popgym", "RepeatPreviousMedium-popgym", "HigherLowerEasy-popgym"])
def test_an_episode_deals_every_card_of_the_deck(id):
    env = jaxenv.spec(id).make(num_envs=3)
    state, timestep = env.reset(jax.random.key(0))
    size = 52 * env.num_decks
    step = jax.jit(env.step)
    for number in range(1, size):
        assert not timestep.is_last().any()
        state, timestep = step(state, jnp.zeros(3, jnp.int32))
        assert (np.asarray(state.task.dealt).sum(axis=1) == number + 1).all()
    assert timestep.terminated.all()
    assert (np.asarray(state.task.dealt) == size // state.task.dealt.shape[1]).all()


def test_decks_that_are_drawn_at_the_start_have_every_card():
    for id, kinds in (("AutoencodeMedium-popgym", 4), ("ConcentrationHard-popgym", 13)):
        deck = np.asarray(jaxenv.spec(id).make(num_envs=4).reset(jax.random.key(0))[0].task.deck)
        assert (np.sort(deck, axis=1) == np.repeat(np.arange(kinds), deck.shape[1] // kinds)).all()
        assert len(np.unique(deck, axis=0)) == 4
    decks = draw(jaxenv.spec("AutoencodeEasy-popgym").make().initial, 4000).deck
    for place in (0, 51):
        assert abs(chi_square(np.bincount(decks[:, place], minlength=4))) < 4


def test_count_recall_shuffles_cards_and_queries_independently():
    state = draw(jaxenv.spec("CountRecallMedium-popgym").make().initial)
    counts = np.zeros((4, 4))
    np.add.at(counts, (state.card, state.query), 1)
    assert abs(chi_square(counts.ravel())) < 4


def test_repeat_previous_asks_for_the_kth_last_card_of_each_lane():
    env = jaxenv.spec("RepeatPreviousEasy-popgym").make(num_envs=3, k=3)
    cards = jnp.array([[2, 0, 1], [3, 1, 0], [0, 0, 2]])
    dealt = jnp.array([[1, 1, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]])  # the third lane has one card so far
    after = env.advance(repeat_previous.State(cards, dealt), jnp.array([2, 1, 0]), jnp.array([3, 0, 1]))
    np.testing.assert_allclose(after.reward, np.array([1, -1, 0]) / 49, rtol=1e-6)
    np.testing.assert_array_equal(after.state.cards, [[0, 1, 3], [1, 0, 0], [0, 2, 1]])


# --- boards ----------------------------------------------------------------------------------------------------------


def test_ships_are_placed_one_after_another_uniformly_over_the_free_places():
    ships = draw(jaxenv.spec("BattleshipEasy-popgym").make(size=4, ship_sizes=(3, 2)).initial).ships

    def places(cells):
        for row, column in itertools.product(range(4), range(4)):
            for down, across in ((1, 0), (0, 1)):
                place = {(row + i * down, column + i * across) for i in range(cells)}
                if max(max(cell) for cell in place) < 4:
                    yield frozenset(place)

    expected = collections.Counter()
    for first in places(3):
        free = [second for second in places(2) if not first & second]
        for second in free:
            expected[first | second] += 1 / 16 / len(free)
    found = collections.Counter(frozenset(map(tuple, np.argwhere(board).tolist())) for board in ships)
    assert found.keys() <= expected.keys()
    numbers = [(found[board], share * len(ships)) for board, share in expected.items()]
    assert abs(chi_square(*np.array(numbers).T)) < 4


def test_battleship_counts_a_cell_once_and_rows_before_columns():
    board = np.zeros((2, 4, 4), bool)
    board[:, 1, 2:] = board[:, 3, 0] = True
    env = jaxenv.spec("BattleshipEasy-popgym").make(num_envs=2, size=4, ship_sizes=(1, 2))
    state = battleship.State(jnp.asarray(board), jnp.zeros((2, 4, 4), bool), jnp.zeros(2, bool))
    rewards = []
    for action in ([[1, 2], [2, 1]], [[1, 2], [3, 0]], [[3, 0], [1, 2]], [[1, 3], [0, 3]]):
        after = env.transition(state, jnp.array(action), stream(2))
        state = after.state
        rewards.append(np.asarray(after.reward).tolist())
    hit, miss = 1 / 3, -1 / 13
    np.testing.assert_allclose(rewards, [[hit, miss], [miss, hit], [hit, hit], [hit, miss]], rtol=1e-6)
    assert after.terminated.tolist() == [True, False]


def test_mines_are_distinct_and_uniform():
    mined = draw(jaxenv.spec("MineSweeperMedium-popgym").make().initial).mined
    assert (mined.sum(axis=(1, 2)) == 6).all()
    # Cells of one board exclude each other, so the statistic is lower than for independent draws.
    assert abs(chi_square(mined.sum(axis=0).ravel())) < 4


def test_mine_sweeper_counts_the_mines_around_a_cell_and_in_it():
    mined = jnp.asarray(np.array([[[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]]], bool).repeat(3, 0))
    env = jaxenv.spec("MineSweeperEasy-popgym").make(num_envs=3, mines=3)
    opened = jnp.zeros((3, 4, 4), bool).at[2, 1, 2].set(True)
    state = mine_sweeper.State(mined, opened, jnp.zeros(3, jnp.int32))
    after = env.transition(state, jnp.array([[0, 1], [2, 3], [1, 2]]), stream(3))
    assert after.state.count.tolist() == [1, 2, 2]
    assert after.terminated.tolist() == [False, True, False]
    np.testing.assert_allclose(after.reward, [1 / 13, -0.5 - 1 / 13, -0.5 / 11], rtol=1e-6)


def test_concentration_finds_a_pair_refuses_the_same_card_and_charges_for_found_ones():
    env = jaxenv.spec("ConcentrationHard-popgym").make(num_envs=4)
    deck = jnp.tile(jnp.arange(52, dtype=jnp.int32) // 4, (4, 1))
    none = jnp.full(4, -1, jnp.int32)
    state = concentration.State(deck, jnp.zeros((4, 52), bool).at[3, :2].set(True), none, none, none == 0)
    rewards = []
    for action in ([5, 5, 5, 0], [7, 5, 8, 5], [9, 9, 9, 1]):
        after = env.transition(state, jnp.array(action), stream(4))
        state = after.state
        rewards.append(np.asarray(after.reward).tolist())
    single, both, pair = -1 / 104, -2 / 104, 2 / 52
    np.testing.assert_allclose(rewards, [[0, 0, 0, single], [pair, both, both, 0], [0, 0, 0, both]], atol=1e-7)
    np.testing.assert_array_equal(np.flatnonzero(state.found[0]), [5, 7])
    shown = np.asarray(env.observe(state))
    assert [np.flatnonzero(row != 13).tolist() for row in shown] == [[5, 7, 9], [9], [9], [0, 1, 5]]


# --- twins -----------------------------------------------------------------------------------------------------------


def battleship_policy(observation):
    ships, shots, _ = observation
    return np.stack([np.argwhere((board == 1) & (shot == 0))[0] for board, shot in zip(ships, shots, strict=True)])


def mine_sweeper_policy(observation):
    return np.stack([np.divmod(np.flatnonzero(cells == 0)[0], 4) for cells in observation])


def concentration_policy(observation):
    """The first card of each free pair on even steps, and its partner on odd ones."""
    actions = []
    for deck, found, first, second in zip(*observation, strict=True):
        turning = second == 2 and first != 2 and not found[first]
        free = [i for i in np.flatnonzero(found == 0) if not turning or (deck[i] == deck[first] and i != first)]
        actions.append(max(free) if not turning else min(free))
    return np.array(actions)


# A policy that reads one full observation, for games whose return is at most 1 by their rules.
BEST = {
    "RepeatFirstEasy-popgym": lambda observation: observation[0],
    "RepeatPreviousEasy-popgym": lambda observation: observation[0][:, 0],
    "CountRecallEasy-popgym": lambda observation: np.stack(
        [dealt[query] * 26 for dealt, query in zip(observation[0], observation[3], strict=True)]
    ).round(),
    "AutoencodeEasy-popgym": lambda observation: np.stack(
        [deck[min(52 - round(52 * held[0]), 51)] for deck, _, held in zip(*observation, strict=True)]
    ),
    "BattleshipEasy-popgym": battleship_policy,
    "MineSweeperEasy-popgym": mine_sweeper_policy,
    "ConcentrationEasy-popgym": concentration_policy,
}


@pytest.mark.parametrize("id", BEST)
def test_the_twin_reaches_the_largest_possible_return(id):
    lanes = 2
    env = jaxenv.make(id, num_envs=lanes, observability="full", autoreset=None)
    state, timestep = env.reset(jax.random.key(1))
    step, total, most = jax.jit(env.step), np.zeros(lanes), 0.0
    while not timestep.is_last().all():
        action = BEST[id](jax.tree.map(np.asarray, timestep.observation))
        state, timestep = step(state, jnp.asarray(action, jnp.int32))
        total += np.asarray(timestep.reward)
        most += max(0.0, np.asarray(timestep.reward).max())
    np.testing.assert_allclose(total, 1, rtol=1e-5)
    assert most < 1 + 1e-5  # no step was worth more
    assert timestep.terminated.all()


@pytest.mark.parametrize("id", ["MultiarmedBanditEasy-popgym", "HigherLowerEasy-popgym"])
def test_a_twin_plays_the_same_episodes(id):
    rows = []
    for observability in ("partial", "full"):
        env = jaxenv.make(id, num_envs=3, observability=observability)
        policy = jaxenv.rollout.random_policy(env)
        _, played = jaxenv.unroll(env, policy, *env.reset(jax.random.key(2)), num_steps=60)
        rows.append(played.timestep)
    np.testing.assert_array_equal(rows[0].reward, rows[1].reward)
    assert rows[0].observation.shape != rows[1].observation.shape


# --- quirks, noise and errors ----------------------------------------------------------------------------------------


def test_velocity_only_shows_positions_at_the_start_only():
    env = jaxenv.spec("VelocityOnlyCartPoleEasy-popgym").make(num_envs=3)
    state, timestep = env.reset(jax.random.key(0))
    np.testing.assert_array_equal(timestep.observation[:, 0], state.task.pole.x)
    state, timestep = env.step(state, jnp.array([0, 1, 1]))
    np.testing.assert_array_equal(timestep.observation[:, 1], state.task.pole.theta_dot)


@pytest.mark.parametrize("id", ["NoisyPositionOnlyCartPoleHard-popgym", "NoisyPositionOnlyPendulumHard-popgym"])
def test_noise_is_normal_new_in_every_step_and_absent_from_the_twin(id):
    lanes = 4000
    env = jaxenv.spec(id).make(num_envs=lanes, noise_sigma=np.repeat([0.0, 0.5], lanes // 2))
    noise = []
    state = env.initial(stream(lanes))
    noise.append(np.asarray(state.noise))
    zeros = jnp.zeros((lanes, *env.action_spec().shape), env.action_spec().dtype)
    state = env.transition(state, zeros, random.fold_in(stream(lanes), 1)).state
    noise.append(np.asarray(state.noise))
    columns = np.concatenate(noise, axis=1)
    assert np.abs(columns.mean(axis=0)).max() < 0.1
    np.testing.assert_allclose(columns.std(axis=0), 1, atol=0.05)
    assert np.abs(np.corrcoef(columns.T) - np.eye(4)).max() < 0.08
    exact = np.asarray(jaxenv.spec(id).make(num_envs=lanes, observability="full").observe(state))
    shown = np.asarray(env.observe(state))
    np.testing.assert_array_equal(
        shown[: lanes // 2], exact[: lanes // 2, :3:2] if "Cart" in id else exact[: lanes // 2, :2]
    )
    spec = env.observation_spec()
    assert (shown <= spec.maximum).all()
    assert (shown == spec.maximum).any()


@pytest.mark.parametrize(
    ("id", "options", "message"),
    [
        ("RepeatFirstEasy-popgym", {"observability": "none"}, r"RepeatFirstEasy-popgym: observability .*got 'none'"),
        ("PositionOnlyPendulumEasy-popgym", {"observability": "all"}, r"observability .*got 'all'"),
        ("RepeatFirstEasy-popgym", {"num_decks": 0}, r"num_decks .*got 0"),
        ("RepeatPreviousEasy-popgym", {"k": 52}, r"k .*got 52"),
        ("CountRecallEasy-popgym", {"deck_type": "faces"}, r"deck_type .*got 'faces'"),
        ("ConcentrationEasy-popgym", {"deck_type": "suits"}, r"deck_type .*got 'suits'"),
        ("BattleshipEasy-popgym", {"ship_sizes": (9,)}, r"ship_sizes .*got \(9,\)"),
        ("BattleshipEasy-popgym", {"ship_sizes": ()}, r"ship_sizes .*got \(\)"),
        ("BattleshipEasy-popgym", {"size": 2, "ship_sizes": (2, 2)}, r"ship_sizes must leave a cell .*got \(2, 2\)"),
        ("BattleshipEasy-popgym", {"size": 5}, r"ship_sizes .*row or a column .*got \(2, 3, 3, 4\)"),
        ("MineSweeperEasy-popgym", {"mines": 14}, r"mines .*got 14"),
        ("NoisyPositionOnlyCartPoleEasy-popgym", {"noise_sigma": -0.1}, r"noise_sigma .*got -0.1"),
    ],
)
def test_invalid_options_raise(id, options, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.make(id, **options)


def test_every_id_of_popgym_without_mazes_is_registered_in_three_sizes():
    assert len(reference.IDS) == 42
    assert len(reference.GAMES) == 14
