"""Cliff walking against Gymnasium's."""

import numpy as np
import pytest

import jaxenv
from jaxenv.envs.toy_text.cliff_walking import CliffWalking
from jaxenv.envs.toy_text.tabular import value_iteration
from tests.envs.toy_text import reference

ID, SLIPPERY = "CliffWalking-v1", "CliffWalkingSlippery-v1"
NUM_STEPS = 100


@pytest.mark.parametrize("id", [ID, SLIPPERY])
def test_every_outcome_is_gymnasiums(id):
    reference.assert_tables_match(id)


@pytest.mark.parametrize("id", [ID, SLIPPERY])
def test_whole_episodes_are_gymnasiums_when_told_what_it_drew(id):
    best = value_iteration(reference.bare(id).mdp(), 0.99).argmax(axis=-1)
    policies = [lambda at, rng: best[at]] * 3 + [
        lambda at, rng: rng.integers(4) if rng.random() < 0.3 else best[at]
    ] * 9
    played = reference.episodes(id, policies)
    assert all(e.terminated[-1] for e in played)
    assert any(-100 in e.reward for e in played)
    reference.assert_episodes_match(id, reference.fed(CliffWalking), played)


def test_outcomes_are_drawn_as_often_as_the_table_says_and_the_best_policy_earns_what_value_iteration_says():
    env = reference.bare(SLIPPERY, 2048)
    mdp = env.mdp()
    reference.assert_frequencies_match(mdp, reference.play(env, NUM_STEPS))
    policy = value_iteration(mdp, 0.99).argmax(axis=-1)
    worth = mdp.start @ value_iteration(reference.following(mdp, policy), horizon=NUM_STEPS)
    reference.assert_policy_earns(reference.play(env, NUM_STEPS, policy), worth[0])


def test_the_best_way_along_the_cliff_earns_minus_13():
    env = reference.bare(ID)
    values = value_iteration(env.mdp())
    assert env.mdp().start @ values.max(axis=-1) == -13
    played = reference.play(env, 14, values.argmax(axis=-1))
    assert played.returns.tolist() == [-13] * 4
    assert played.terminated[12].all()


def test_there_is_no_time_limit():
    assert jaxenv.spec(ID).max_episode_steps is None
    assert jaxenv.spec(SLIPPERY).max_episode_steps is None


def test_values_that_never_settle_are_refused():
    mdp = reference.bare(ID).mdp()
    endless = type(mdp)(mdp.P[:, :1], mdp.R[:, :1], mdp.terminated[:, :1], mdp.start)  # upwards only
    with pytest.raises(ValueError, match=r"value_iteration: no limit was found in 20000 rounds at gamma 1\.0"):
        value_iteration(endless)
    np.testing.assert_allclose(value_iteration(endless, 0.5)[36], -2)
