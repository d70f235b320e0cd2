"""Blackjack compared with Gymnasium's."""

import contextlib
import functools
from typing import Any

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.envs.toy_text.blackjack import DEALER_CARDS, Blackjack, Hand, State
from tests.envs.toy_text import reference
from tests.packages import lazy
from tests.parity import certify
from tests.pictures import pictures
from tests.rows import unrolled

gymnasium = lazy("gymnasium")
theirs = lazy("gymnasium.envs.toy_text.blackjack")

ID = "Blackjack-v1"
RULES = [{}, {"sab": False}, {"sab": False, "natural": True}, {"sab": True, "natural": True}]
HIT, STICK = 1, 0
DECK = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10])


@contextlib.contextmanager
def recorded():
    """Records every card that Gymnasium draws."""
    draw, cards = theirs.draw_card, []

    def recording(np_random):
        cards.append(draw(np_random))
        return cards[-1]

    theirs.draw_card = recording
    try:
        yield cards
    finally:
        theirs.draw_card = draw


def filled(cards, rng):
    """The cards drawn, followed by random ones that must not matter."""
    assert len(cards) <= DEALER_CARDS
    return [*cards, *rng.choice(DECK, DEALER_CARDS - len(cards))]


def hands(rng, count):
    """Hands of the player, of two or more cards, and of the dealer; some exceed 21."""
    players = [rng.choice(DECK, rng.choice([2, 2, 3, 4, 5])).tolist() for _ in range(count)]
    dealers = rng.choice(DECK, (count, 2))
    # Most rules concern aces and tens.
    for i in range(0, count, 3):
        players[i] = [[1, 10], [10, 1], [1, 1], [10, 10], [1, 10, 10], [1, 4, 6]][i // 3 % 6]
        dealers[i] = [[1, 10], [10, 1], [1, 1], [10, 10], [10, 7]][i // 3 % 5]
    return players, dealers


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_one_step_from_random_hands_equals_gymnasium(rules):
    rng, env = np.random.default_rng(0), reference.original(ID, **rules)
    env.reset(seed=0)
    players, dealers = hands(rng, 2000)
    actions = rng.integers(2, size=2000)
    rows, drawn = [], []
    with recorded() as cards:
        for player, dealer, action in zip(players, dealers, actions, strict=True):
            env.player, env.dealer = list(player), dealer.tolist()
            cards.clear()
            observation, reward, terminated, _, _ = env.step(int(action))
            drawn.append(filled(cards, rng))
            rows.append((*observation, reward, terminated, sum(env.player), theirs.is_natural(env.player)))

    player = Hand(np.array([sum(p) for p in players]), np.array([1 in p for p in players]))
    natural = np.array([theirs.is_natural(p) for p in players])
    state = State(player, natural, dealers[:, 0], dealers[:, 1])
    state = jax.tree.map(lambda x: x if x.dtype == bool else x.astype(np.int32), state)
    out, observed = jax.device_get(advance(reference.bare(ID, **rules), state, *columns(actions, np.array(drawn))))
    ours = (*observed, out.reward, out.terminated, out.state.player.total, out.state.natural)
    for name, mine, other in zip(
        ("sum", "open", "ace", "reward", "ends", "total", "natural"), ours, zip(*rows, strict=True), strict=True
    ):
        np.testing.assert_array_equal(mine, np.array(other, mine.dtype), err_msg=name)
    assert set(np.unique(out.reward)) == ({-1, 0, 1, 1.5} if rules.get("natural") and not rules["sab"] else {-1, 0, 1})
    certify(ID, "gymnasium", states=2000)


@jax.jit
def advance(env, state, action, cards):
    out = env.advance(state, action, cards)
    return out, env.observe(out.state)


def columns(actions, cards):
    return actions.astype(np.int32), [np.ascontiguousarray(c, np.int32) for c in cards.T]


class Scripted(Blackjack):
    """Takes its cards, those dealt and those of every step, from arrays."""

    dealt: Any = tree.leaf(default=(0,) * 4, rank=1, dtype=np.int32)
    taken: Any = tree.leaf(default=((0,),), rank=2, dtype=np.int32)

    def draw_cards(self, stream, count):
        if count == 4:
            return [self.dealt[:, i] for i in range(4)]
        step = stream.c1.astype(np.int32)[:, None] - 1
        return [jax.numpy.take_along_axis(self.taken[:, :, i], step, axis=1)[:, 0] for i in range(count)]


def test_whole_episodes_with_recorded_draws_equal_gymnasium():
    env, rng, played = gymnasium.make(ID, disable_env_checker=True), np.random.default_rng(1), []
    env.reset(seed=1)
    with recorded() as cards:
        for _ in range(60):
            cards.clear()
            observation, _ = env.reset()
            deal, rows, ended = list(cards), [], False
            while not ended:
                action = int(observation[0] < 18 or rng.random() < 0.1)
                cards.clear()
                observation, reward, ended, truncated, _ = env.step(action)
                assert not truncated
                rows.append((action, filled(cards, rng), observation, reward))
            played.append((deal, *map(np.array, zip(*rows, strict=True))))
    longest = max(len(e[1]) for e in played)
    actions, taken = (reference.padded([e[i] for e in played], longest) for i in (1, 2))
    rows = unrolled(
        Scripted(dealt=np.array([e[0] for e in played]), taken=taken, num_envs=60, sab=True), actions.astype(np.int32).T
    )
    observed = np.stack(rows.observation, axis=-1)
    for lane, (deal, _, _, observation, reward) in enumerate(played):
        n = len(reward)
        assert observed[0, lane, 1] == deal[0]
        assert observed[0, lane, 0] in (sum(deal[2:]), sum(deal[2:]) + 10)
        np.testing.assert_array_equal(observed[1 : n + 1, lane], observation)
        np.testing.assert_array_equal(rows.reward[1 : n + 1, lane], reward)
        assert rows.terminated[1 : n + 1, lane].tolist() == [False] * (n - 1) + [True]
    assert longest >= 4
    certify(ID, "gymnasium", episodes=60, steps=sum(len(e[1]) for e in played))


def test_no_dealer_takes_more_cards_than_are_drawn():
    @functools.cache
    def most(total, ace):
        value = total + 10 if ace and total <= 11 else total
        return 0 if value >= 17 else 1 + max(most(total + card, ace or card == 1) for card in range(1, 11))

    assert max(most(a + b, 1 in (a, b)) for a in range(1, 11) for b in range(1, 11)) == DEALER_CARDS


def test_ranks_are_drawn_uniformly_and_independently():
    stream = jaxenv.random.stream(jax.random.split(jax.random.key(0), 40_000))
    cards = np.stack(jax.device_get(jax.jit(reference.bare(ID).draw_cards, static_argnums=1)(stream, DEALER_CARDS)))
    chance = np.array([1] * 9 + [4]) / 13
    for card in cards:
        assert_counts(np.bincount(card, minlength=11)[1:], chance * card.size)
    for one in range(DEALER_CARDS):
        for other in range(one):
            pairs = np.bincount(11 * cards[one] + cards[other], minlength=121).reshape(11, 11)[1:, 1:]
            assert_counts(pairs, np.outer(chance, chance) * cards[one].size)


def assert_counts(counts, expected):
    assert counts.sum() == round(expected.sum())
    assert np.abs(counts - expected).max() <= 5 * np.sqrt(expected.max())
    assert (np.abs(counts - expected) / np.sqrt(expected)).max() <= 5  # for about five thousand counts


def dealer_scores():
    """Probabilities of the dealer's score (0 for a bust) for each open card, from the rules: ``[11, 22]``."""

    @functools.cache
    def after(total, ace):
        value = total + 10 if ace and total <= 11 else total
        if value >= 17:
            return np.eye(22)[value if value <= 21 else 0]
        return np.mean([after(total + card, ace or card == 1) for card in DECK.tolist()], axis=0)

    return [np.zeros(22)] + [np.mean([after(o + h, 1 in (o, h)) for h in DECK.tolist()], axis=0) for o in range(1, 11)]


def test_hitting_below_18_earns_the_return_computed_from_the_rules():
    scores = dealer_scores()

    @functools.cache
    def expected_return(total, ace, open_card):
        value = total + 10 if ace and total <= 11 else total
        if value > 21:
            return -1.0
        if value >= 18:
            return float(np.sign(value - np.arange(22)) @ scores[open_card])
        return float(np.mean([expected_return(total + card, ace or card == 1, open_card) for card in DECK.tolist()]))

    deals = [(a, b, c) for a in DECK.tolist() for b in DECK.tolist() for c in DECK.tolist()]
    expected = np.mean([expected_return(a + b, 1 in (a, b), c) for a, b, c in deals])

    returns = play_below_18(reference.bare(ID, 60_000, sab=False), jax.random.key(3))
    assert abs(returns.mean() - expected) <= 4.5 * returns.std() / np.sqrt(returns.size)


def play_below_18(env, key):
    @jax.jit
    def run(env, key):
        state, first = env.reset(key)

        def one(carry, _):
            state, timestep = carry
            state, timestep = env.step(state, (timestep.observation[0] < 18).astype(np.int32))
            return (state, timestep), (timestep.reward, timestep.terminated)

        return jax.lax.scan(one, (state, first), None, length=14)[1]

    reward, terminated = jax.device_get(run(env, key))
    assert terminated.any(axis=0).all()
    return np.take_along_axis(reward, terminated.argmax(axis=0)[None], axis=0)[0].astype(np.float64)


def test_specs_and_registry_row_equal_those_of_gymnasium():
    env, space = reference.bare(ID), reference.original(ID).observation_space
    assert [spec.num_values for spec in env.observation_spec()] == [int(part.n) for part in space]
    assert all(spec.minimum == 0 and spec.dtype == np.int32 for spec in env.observation_spec())
    assert dict(jaxenv.spec(ID).kwargs) == gymnasium.spec(ID).kwargs


def test_the_picture_hides_the_hidden_card_and_shows_the_rest_of_the_state():
    plain = {"total": 8, "ace": False, "natural": False, "open_card": 5, "hidden_card": 3}
    changes = [{"hidden_card": 9}, {"total": 9}, {"ace": True}, {"natural": True}, {"open_card": 1}]
    columns = [{**plain, **change} for change in ({}, *changes)]
    total, ace, natural, *dealer = (np.array([column[name] for column in columns]) for name in plain)
    first, *others = pictures(reference.bare(ID), State(Hand(total, ace), natural, *dealer))
    assert [(first != other).any() for other in others] == [False, True, True, True, True]
