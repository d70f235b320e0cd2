"""CardGame compared with the rules of the TF-Agents tutorial "Environments", implemented in this file."""

import jax
import numpy as np

import jaxenv
from jaxenv import tree
from jaxenv.canvas import GREEN, RED
from jaxenv.core.timestep import StepType
from jaxenv.envs.card_game import CardGame, State
from tests.pictures import pictures, shows

DRAW, STOP = 0, 1
FIRST, MID, LAST = int(StepType.FIRST), int(StepType.MID), int(StepType.LAST)


reset = jax.jit(lambda env, key: env.reset(key))
advance = jax.jit(lambda env, state, action: env.step(state, action))


def play(actions):
    """The trajectory ``[T + 1, 10000]`` of lanes that all take ``actions``, the FIRST rows included."""
    env = jaxenv.make("CardGame-v0", num_envs=10_000)
    state, timestep = reset(env, jax.random.key(0))
    rows = [timestep]
    for action in actions:
        state, timestep = advance(env, state, np.full(10_000, action, np.int32))
        rows.append(timestep)
    return jax.tree.map(lambda *row: np.stack(row), *rows)


def from_total(totals, action):
    """One step of the bare environment from given sums of cards."""
    env = jaxenv.spec("CardGame-v0").make(len(totals))
    state, _ = reset(env, jax.random.key(0))
    state = tree.rebuild(state, task=type(state.task)(np.array(totals, np.int32)))
    return jax.device_get(advance(env, state, np.full(len(totals), action, np.int32))[1])


class Game:
    """The tutorial's game with every sum of 21 or more ending the episode; the cards are arguments."""

    def __init__(self):
        self.total, self.ended = 0, False

    def step(self, action, card):
        """Step type, sum, reward and discount of the next row."""
        if self.ended:
            self.total, self.ended = 0, False
            return FIRST, 0, 0.0, 1.0
        if action == DRAW:
            self.total += card
        self.ended = action == STOP or self.total >= 21
        if not self.ended:
            return MID, self.total, 0.0, 1.0
        return LAST, self.total, float(self.total - 21 if self.total <= 21 else -21), 0.0


def test_cards_one_one_two_and_a_stop_give_the_tutorials_printed_trace():
    rows = play([DRAW, DRAW, DRAW, STOP])
    cards = np.diff(rows.observation[:4, :, 0], axis=0)
    drawn = np.flatnonzero(np.all(cards == np.array([[1], [1], [2]]), axis=0))
    assert len(drawn) > 0, "no lane drew 1, 1, 2"
    for lane in drawn:
        assert rows.observation[:, lane].tolist() == [[0], [1], [2], [4], [4]]
        assert rows.reward[:, lane].tolist() == [0, 0, 0, 0, -17]
        assert rows.discount[:, lane].tolist() == [1, 1, 1, 1, 0]
        assert rows.step_type[:, lane].tolist() == [FIRST, MID, MID, MID, LAST]
        assert rows.reward[:, lane].sum() == -17


def test_three_cards_and_a_stop_pay_the_difference_to_21_or_minus_21():
    rows = play([DRAW, DRAW, DRAW, STOP])
    third, fourth = rows.observation[3, :, 0], rows.observation[4, :, 0]
    over = third >= 21
    assert 0 < over.mean() < 1
    # A sum of 21 or more ends with the card that reaches it. The stop is then ignored, and the next game starts.
    assert np.all(rows.step_type[3] == np.where(over, LAST, MID))
    assert np.all(rows.step_type[4] == np.where(over, FIRST, LAST))
    assert np.all(fourth == np.where(over, 0, third))
    paid = np.where(over, rows.reward[3], rows.reward[4])
    assert np.all(paid == np.where(third <= 21, third - 21, -21))


def test_random_play_follows_the_rules_for_the_same_cards():
    rng = np.random.default_rng(0)
    actions = rng.choice([DRAW, STOP], p=[0.85, 0.15], size=60)
    rows = play(actions)
    for lane in range(200):
        game = Game()
        for t, action in enumerate(actions, start=1):
            total = int(rows.observation[t, lane, 0])
            card = total - int(rows.observation[t - 1, lane, 0])
            row = (int(rows.step_type[t, lane]), total, float(rows.reward[t, lane]), float(rows.discount[t, lane]))
            assert row == game.step(action, card)
            if action == DRAW and row[0] != FIRST:
                assert 1 <= card <= 10


def test_reaching_21_ends_with_reward_0_and_exceeding_21_with_minus_21():
    timestep = from_total(np.repeat(np.arange(11, 21), 1000), DRAW)
    total = timestep.observation[:, 0]
    assert set(range(12, 31)) == set(total.tolist())
    assert np.all(timestep.step_type == np.where(total >= 21, LAST, MID))
    assert np.all(timestep.discount == np.where(total >= 21, 0, 1))
    assert np.all(timestep.reward == np.where(total > 21, -21, 0))


def test_stopping_pays_the_sum_minus_21_and_draws_no_card():
    totals = np.arange(10_000) % 21
    timestep = from_total(totals, STOP)
    assert np.all(timestep.observation[:, 0] == totals)
    assert np.all(timestep.reward == totals - 21)
    assert np.all(timestep.step_type == LAST)
    assert np.all(timestep.discount == 0)


def test_the_step_after_any_last_is_first_even_with_further_draws():
    # In the tutorial a sum of 21 or more does not mark the end, and further draws return LAST repeatedly.
    rows = play([DRAW] * 40)
    after_last = rows.step_type[:-1] == LAST
    assert after_last.sum() > 10_000
    assert np.all((rows.step_type[1:] == FIRST) == after_last)
    assert np.all(rows.observation[1:][after_last] == 0)
    assert np.all(rows.reward[1:][after_last] == 0)
    assert np.all(rows.discount[1:][after_last] == 1)
    assert rows.observation.min() == 0
    assert rows.observation.max() <= 30


def test_cards_are_uniform_over_one_to_ten_and_independent_between_steps():
    rows = play([DRAW, DRAW])
    cards = np.diff(rows.observation[..., 0], axis=0)
    assert cards.min() == 1
    assert cards.max() == 10
    # The 0.999 quantiles of chi-square with 9 and with 99 degrees of freedom.
    for step in cards:
        assert chi_square(np.bincount(step, minlength=11)[1:]) < 27.9
    pairs = np.bincount(10 * (cards[0] - 1) + cards[1] - 1, minlength=100)
    assert chi_square(pairs) < 148.2


def chi_square(counts):
    expected = counts.sum() / len(counts)
    return np.sum((counts - expected) ** 2) / expected


def test_lanes_and_episodes_draw_different_cards():
    rows = play([DRAW, STOP, DRAW, DRAW, STOP])
    first, second = rows.observation[1, :, 0], rows.observation[4, :, 0]
    # Episode 0 is a draw and a stop. Row 3 is FIRST, row 4 has the first card of episode 1.
    assert np.all(rows.step_type[3] == FIRST)
    assert abs(np.mean(first == second) - 0.1) < 0.015
    assert abs(np.mean(first[1:] == first[:-1]) - 0.1) < 0.015


def test_specs_equal_those_of_the_tutorial_with_an_upper_bound():
    env = jaxenv.make("CardGame-v0", num_envs=2)
    assert env.observation_spec() == jaxenv.specs.Bounded((1,), np.int32, 0, 30)
    assert env.action_spec() == jaxenv.specs.Bounded((), np.int32, 0, 1)
    assert jaxenv.spec("CardGame-v0").max_episode_steps is None


def test_the_picture_is_green_at_21_and_red_above():
    picture = pictures(CardGame(), State(np.int32([20, 21, 22])))
    for colour, lane in ((GREEN, 1), (RED, 2)):
        assert np.flatnonzero(shows(picture, colour).any(axis=(1, 2))).tolist() == [lane]
