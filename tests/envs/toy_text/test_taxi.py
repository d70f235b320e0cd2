"""Taxi compared with Gymnasium's."""

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
from tests.pictures import cells, pictures

ID = "Taxi-v4"
NUM_STEPS = 60
RAINY = {"is_rainy": True, "rainy_probability": 0.6}


@pytest.mark.parametrize("options", [{}, {"is_rainy": True}, RAINY], ids=str)
def test_every_outcome_equals_gymnasium(options):
    reference.assert_tables_match(ID, **options)


class Scripted(reference.scripted(Taxi)):
    """Also takes starts, fickleness and new destinations from arrays."""

    start: Any = tree.leaf(default=0, dtype=np.int32)
    fickle: Any = tree.leaf(default=False, dtype=np.bool_)
    new_destinations: Any = tree.leaf(default=(0,), rank=1, dtype=np.int32)

    def initial(self, stream):
        fickle = jnp.asarray(self.fickle) if self.fickle_passenger else ()
        return State(jnp.asarray(self.start), self.stored_prob(1, stream.shape), fickle)

    def reconsider(self, stream):
        return reference.at_step(self.new_destinations, stream)


def recorded(policies, **options):
    """Gymnasium's episodes with the draws of passengers: the index of the new destination among the other stops."""
    chosen = []

    def draws(env):
        # NumPy's generator cannot be patched, so it is replaced. Apart from outcomes it draws by `choice` only.
        if not isinstance(env.np_random, ChoiceRecorder):
            env.np_random = ChoiceRecorder(env.np_random, chosen)
        index = chosen.pop() if chosen else -1
        return {"new_destinations": max(index, 0)}

    def initial_draws(env):
        draws(env)
        return {"start": int(env.s), "fickle": bool(env.fickle_step)}

    return reference.episodes(ID, policies, draws, initial_draws, **options)


class ChoiceRecorder:
    """A generator that records the index of the option drawn by `choice`."""

    def __init__(self, generator, chosen):
        self._generator, self._chosen = generator, chosen

    def __getattr__(self, name):
        return getattr(self._generator, name)

    def choice(self, options):
        number = self._generator.choice(options)
        self._chosen.append(options.index(number))
        return number


@pytest.mark.parametrize("options", [{}, {**RAINY, "fickle_passenger": True, "fickle_probability": 0.7}], ids=str)
def test_whole_episodes_with_recorded_draws_equal_gymnasium(options):
    best = best_policy()
    policies = [lambda at, rng: best[at]] * 6
    policies += [lambda at, rng: rng.integers(6) if rng.random() < 0.2 else best[at]] * 12
    policies += [lambda at, rng: rng.integers(6)] * 2  # these episodes end at the time limit
    played = recorded(policies, **options)
    assert sum(e.terminated[-1] for e in played) >= 12
    assert any(e.truncated[-1] for e in played)
    assert any(-10 in e.reward for e in played)
    if options:
        changed = [lane for lane, e in enumerate(played) if len(set(e.observation % 4) | {e.start % 4}) == 2]
        assert len(changed) >= 5
        assert any(e.draws["choices"].any() for e in played)
        assert any(not e.initial_draws["fickle"] for e in played)
    reference.assert_episodes_match(ID, Scripted, played, **options)


@functools.cache
def best_policy():
    return value_iteration(reference.bare(ID).mdp(), 0.99).argmax(axis=-1)


def test_the_optimal_policy_earns_its_computed_value_from_every_start():
    env = reference.bare(ID, 3000)
    mdp = env.mdp()
    values = value_iteration(mdp).max(axis=-1)
    played = reference.play(env, NUM_STEPS, best_policy())
    first = played.before[0]
    np.testing.assert_allclose(played.returns, values[first], atol=1e-9)
    # The mean over the 300 starts, from the lengths of the paths between stops.
    np.testing.assert_allclose(mdp.start @ values, 7.93, atol=1e-9)
    counts = np.bincount(first, minlength=500)
    assert set(np.flatnonzero(counts)) == set(np.flatnonzero(mdp.start))
    assert (
        np.abs(counts - 10)[mdp.start > 0].max() <= 4.5 * np.sqrt(10) + 2
    )  # 10 expected; small counts have a long tail


def test_drift_and_changed_destinations_have_their_declared_frequencies():
    env = reference.bare(ID, 4096, **RAINY, fickle_passenger=True, fickle_probability=0.25)
    mdp = reference.bare(ID, **RAINY).mdp()
    played = reference.play(env, NUM_STEPS, best_policy())

    # The table describes taxi and passenger; only the destination may differ.
    before, after = played.before // 4, played.after // 4
    P = mdp.P.reshape(125, 4, 6, 125, 4).sum(axis=-1)[:, 0]
    moves = (played.action < 4) & played.alive
    counts = np.zeros(P.shape)
    np.add.at(counts, (before[moves], played.action[moves], after[moves]), 1)
    expected = counts.sum(axis=-1, keepdims=True) * P
    assert counts[P == 0].sum() == 0
    many = expected >= 20
    assert many.sum() > 50
    assert (np.abs(counts - expected)[many] / np.sqrt(expected[many])).max() <= 4.5

    changed = (played.before % 4 != played.after % 4) & played.alive
    assert changed.sum(axis=0).max() == 1
    carried = played.before // 4 % 5 == 4
    assert not (changed & ~carried).any()
    # By now nearly all passengers have been driven a step. A quarter of them changed, to each other stop equally often.
    driven = (carried & (played.before // 20 != played.after // 20) & played.alive).any(axis=0)
    fraction = changed.any(axis=0)[driven].mean()
    assert driven.mean() > 0.9
    assert abs(fraction - 0.25) <= 4.5 * np.sqrt(0.25 * 0.75 / driven.sum())
    # Changes are independent of the start and of drift.
    for half in (played.before[0] < 250, played.before[0] >= 250):
        fraction = changed.any(axis=0)[driven & half].mean()
        assert abs(fraction - 0.25) <= 4.5 * np.sqrt(0.25 * 0.75 / (driven & half).sum())
    ahead = tabular.every_outcome(reference.bare(ID, **RAINY))[0][played.before, played.action, 0] // 20
    for drifted in (changed & (ahead == played.after // 20), changed & (ahead != played.after // 20)):
        old, new = (x[drifted] % 4 for x in (played.before, played.after))
        counts = np.bincount(new - (new > old), minlength=3)
        assert np.abs(counts - drifted.sum() / 3).max() <= 4.5 * np.sqrt(drifted.sum() / 3)


def test_rainy_probability_may_differ_by_lane():
    env = reference.bare(ID, 4, is_rainy=True, rainy_probability=np.float32([0.5, 1.0, 0.0, 0.75]))
    np.testing.assert_array_equal(env.mdp(0).P, reference.bare(ID, is_rainy=True, rainy_probability=0.5).mdp().P)
    np.testing.assert_array_equal(env.mdp(1).P, reference.bare(ID).mdp().P)


def test_the_action_mask_equals_gymnasiums_in_every_state():
    env, theirs = reference.bare(ID), reference.original(ID)
    every = np.arange(500, dtype=np.int32)
    mask = np.asarray(jax.jit(lambda index: env.state_info(State(index)))(every)["action_mask"])
    np.testing.assert_array_equal(mask, [theirs.action_mask(s) for s in every])


def test_mdp_with_fickle_passengers_raises():
    with pytest.raises(ValueError, match="mdp needs fickle_passenger=False, got True"):
        reference.bare(ID, fickle_passenger=True).mdp()


@pytest.mark.parametrize("name", ["rainy_probability", "fickle_probability"])
def test_a_probability_outside_0_to_1_raises(name):
    with pytest.raises(ValueError, match=rf"Taxi-v4: {name} must be in \[0, 1\], got 1.25"):
        jaxenv.make(ID, **{name: 1.25})


def test_the_picture_shows_the_passenger_the_taxi_and_the_destination():
    # Cell, passenger and destination; then the cells that differ from the first picture.
    cases = [
        ((12, 0, 1), []),
        ((13, 0, 1), [12, 13]),
        ((12, 2, 1), [0, 20]),
        ((12, 4, 1), [0, 12]),
        ((12, 0, 3), [4, 23]),
    ]
    index = np.int32([(5 * cell + passenger) * 4 + destination for (cell, passenger, destination), _ in cases])
    picture = pictures(reference.bare(ID), State(index))
    differs = cells((picture != picture[:1]).any(axis=-1), 5, 5).reshape(-1, 25)
    assert [np.flatnonzero(lane).tolist() for lane in differs] == [expected for _, expected in cases]
