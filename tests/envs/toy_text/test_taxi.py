"""Taxi against Gymnasium's."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.envs.toy_text import tabular
from jaxenv.envs.toy_text.tabular import value_iteration
from jaxenv.envs.toy_text.taxi import State, Taxi
from tests.envs.toy_text import reference

ID = "Taxi-v4"
NUM_STEPS = 60
RAINY = {"is_rainy": True, "rainy_probability": 0.6}


@pytest.mark.parametrize("options", [{}, {"is_rainy": True}, RAINY], ids=str)
def test_every_outcome_is_gymnasiums(options):
    reference.assert_tables_match(ID, **options)


class Fed(reference.fed(Taxi)):
    """Starts, moods and second thoughts are written down as well."""

    start: Any = tree.leaf(default=0, dtype=np.int32)
    mood: Any = tree.leaf(default=False, dtype=np.bool_)
    thoughts: Any = tree.leaf(default=(0,), rank=1, dtype=np.int32)

    def initial(self, stream):
        return State(jnp.asarray(self.start), jnp.asarray(self.mood) if self.fickle_passenger else ())

    def reconsider(self, key):
        return reference.at_step(self.thoughts, key)


def recorded(policies, **options):
    """Gymnasium's episodes, with what a passenger turned to: its place among the other stops."""
    chosen = []

    def note(env):
        # The generator is NumPy's own and cannot be listened to; `choice` is all that it draws besides outcomes.
        if not hasattr(env.np_random, "heard"):
            env.np_random = Listener(env.np_random, chosen)
        thought = chosen.pop() if chosen else -1
        return {"thoughts": max(thought, 0)}

    def begin(env):
        note(env)
        return {"start": int(env.s), "mood": bool(env.fickle_step)}

    return reference.episodes(ID, policies, note, begin, **options)


class Listener:
    """A generator that notes the place of what `choice` gave in the list it was given."""

    heard = True

    def __init__(self, generator, chosen):
        self._generator, self._chosen = generator, chosen

    def __getattr__(self, name):
        return getattr(self._generator, name)

    def choice(self, options):
        number = self._generator.choice(options)
        self._chosen.append(options.index(number))
        return number


@pytest.mark.parametrize("options", [{}, {**RAINY, "fickle_passenger": True, "fickle_probability": 0.7}], ids=str)
def test_whole_episodes_are_gymnasiums_when_told_what_it_drew(options):
    best = best_policy()
    policies = [lambda at, rng: best[at]] * 6
    policies += [lambda at, rng: rng.integers(6) if rng.random() < 0.2 else best[at]] * 12
    policies += [lambda at, rng: rng.integers(6)] * 2  # these end at the time limit
    played = recorded(policies, **options)
    assert sum(e.terminated[-1] for e in played) >= 12
    assert any(e.truncated[-1] for e in played)
    assert any(-10 in e.reward for e in played)
    if options:
        turned = [lane for lane, e in enumerate(played) if len(set(e.observation % 4) | {e.start % 4}) == 2]
        assert len(turned) >= 5
        assert any(e.draws["choices"].any() for e in played)
        assert any(not e.begins["mood"] for e in played)
    reference.assert_episodes_match(ID, Fed, played, **options)


@functools.cache
def best_policy():
    return value_iteration(reference.bare(ID).mdp(), 0.99).argmax(axis=-1)


def test_the_best_policy_earns_what_value_iteration_says_from_every_start():
    env = reference.bare(ID, 3000)
    mdp = env.mdp()
    values = value_iteration(mdp).max(axis=-1)
    played = reference.play(env, NUM_STEPS, best_policy())
    first = played.before[0]
    np.testing.assert_allclose(played.returns, values[first], atol=1e-9)
    # The mean over the 300 starts, as the length of the ways from stop to stop has it.
    np.testing.assert_allclose(mdp.start @ values, 7.93, atol=1e-9)
    counts = np.bincount(first, minlength=500)
    assert set(np.flatnonzero(counts)) == set(np.flatnonzero(mdp.start))
    assert np.abs(counts - 10)[mdp.start > 0].max() <= 4.5 * np.sqrt(10) + 2  # ten each; small counts have a long tail


def test_rain_moves_the_taxi_and_passengers_change_their_minds_as_often_as_they_should():
    env = reference.bare(ID, 4096, **RAINY, fickle_passenger=True, fickle_probability=0.25)
    mdp = reference.bare(ID, **RAINY).mdp()
    played = reference.play(env, NUM_STEPS, best_policy())

    # All that the table says of the place and of the passenger holds; only destinations are others.
    where, whither = played.before // 4, played.after // 4
    P = mdp.P.reshape(125, 4, 6, 125, 4).sum(axis=-1)[:, 0]
    moves = (played.action < 4) & played.alive
    counts = np.zeros(P.shape)
    np.add.at(counts, (where[moves], played.action[moves], whither[moves]), 1)
    expected = counts.sum(axis=-1, keepdims=True) * P
    assert counts[P == 0].sum() == 0
    many = expected >= 20
    assert many.sum() > 50
    assert (np.abs(counts - expected)[many] / np.sqrt(expected[many])).max() <= 4.5

    changed = (played.before % 4 != played.after % 4) & played.alive
    assert changed.sum(axis=0).max() == 1
    carried = played.before // 4 % 5 == 4
    assert not (changed & ~carried).any()
    # Nearly all have been driven a step by now: a quarter of them changed, to each of the other stops alike.
    driven = (carried & (played.before // 20 != played.after // 20) & played.alive).any(axis=0)
    share = changed.any(axis=0)[driven].mean()
    assert driven.mean() > 0.9
    assert abs(share - 0.25) <= 4.5 * np.sqrt(0.25 * 0.75 / driven.sum())
    # Neither where the episode began nor where the taxi drifts has to do with what passengers want.
    for half in (played.before[0] < 250, played.before[0] >= 250):
        share = changed.any(axis=0)[driven & half].mean()
        assert abs(share - 0.25) <= 4.5 * np.sqrt(0.25 * 0.75 / (driven & half).sum())
    ahead = tabular.every_outcome(reference.bare(ID, **RAINY))[0][played.before, played.action, 0] // 20
    for drifted in (changed & (ahead == played.after // 20), changed & (ahead != played.after // 20)):
        old, new = (x[drifted] % 4 for x in (played.before, played.after))
        turns = np.bincount(new - (new > old), minlength=3)
        assert np.abs(turns - drifted.sum() / 3).max() <= 4.5 * np.sqrt(drifted.sum() / 3)


def test_every_lane_may_have_its_own_rain():
    env = reference.bare(ID, 4, is_rainy=True, rainy_probability=np.float32([0.5, 1.0, 0.0, 0.75]))
    np.testing.assert_array_equal(env.mdp(0).P, reference.bare(ID, is_rainy=True, rainy_probability=0.5).mdp().P)
    np.testing.assert_array_equal(env.mdp(1).P, reference.bare(ID).mdp().P)


def test_the_mask_marks_what_changes_something_in_every_state():
    env, theirs = reference.bare(ID), reference.original(ID)
    every = np.arange(500, dtype=np.int32)
    mask = np.asarray(jax.jit(lambda number: env.state_info(State(number, ())))(every)["action_mask"])
    np.testing.assert_array_equal(mask, [theirs.action_mask(s) for s in every])


def test_there_is_no_table_of_the_observations_with_fickle_passengers():
    with pytest.raises(ValueError, match="there is no table of the 500 observations"):
        reference.bare(ID, fickle_passenger=True).mdp()


@pytest.mark.parametrize("name", ["rainy_probability", "fickle_probability"])
def test_a_probability_outside_0_and_1_is_refused(name):
    with pytest.raises(ValueError, match=rf"<Taxi-v4>: {name} must lie in \[0, 1\], got 1.25"):
        jaxenv.make(ID, **{name: 1.25})
