"""CliffWalking compared with Gymnasium's."""

import numpy as np
import pytest

import jaxenv
from jaxenv.envs.toy_text.cliff_walking import CliffWalking
from jaxenv.envs.toy_text.tabular import value_iteration
from tests.envs.toy_text import reference

ID, SLIPPERY = "CliffWalking-v1", "CliffWalkingSlippery-v1"
NUM_STEPS = 100


@pytest.mark.parametrize("id", [ID, SLIPPERY])
def test_every_outcome_equals_gymnasium(id):
    reference.assert_tables_match(id)


@pytest.mark.parametrize("id", [ID, SLIPPERY])
def test_whole_episodes_with_recorded_draws_equal_gymnasium(id):
    best = value_iteration(reference.bare(id).mdp(), 0.99).argmax(axis=-1)
    policies = [lambda at, rng: best[at]] * 3 + [
        lambda at, rng: rng.integers(4) if rng.random() < 0.3 else best[at]
    ] * 9
    played = reference.episodes(id, policies)
    assert all(e.terminated[-1] for e in played)
    assert any(-100 in e.reward for e in played)
    reference.assert_episodes_match(id, reference.scripted(CliffWalking), played)


def test_outcome_frequencies_match_the_table_and_the_optimal_policy_earns_its_computed_value():
    env = reference.bare(SLIPPERY, 2048)
    mdp = env.mdp()
    reference.assert_frequencies_match(mdp, reference.play(env, NUM_STEPS))
    policy = value_iteration(mdp, 0.99).argmax(axis=-1)
    value = mdp.start @ value_iteration(reference.following(mdp, policy), horizon=NUM_STEPS)
    reference.assert_policy_earns(reference.play(env, NUM_STEPS, policy), value[0])


def test_the_optimal_path_along_the_cliff_earns_minus_13():
    env = reference.bare(ID)
    values = value_iteration(env.mdp())
    assert env.mdp().start @ values.max(axis=-1) == -13
    played = reference.play(env, 14, values.argmax(axis=-1))
    assert played.returns.tolist() == [-13] * 4
    assert played.terminated[12].all()


def test_there_is_no_time_limit():
    assert jaxenv.spec(ID).max_episode_steps is None
    assert jaxenv.spec(SLIPPERY).max_episode_steps is None


def test_value_iteration_raises_if_values_diverge():
    mdp = reference.bare(ID).mdp()
    endless = type(mdp)(mdp.P[:, :1], mdp.R[:, :1], mdp.terminated[:, :1], mdp.start)  # upwards only
    with pytest.raises(ValueError, match=r"value_iteration: no convergence in 20000 iterations at gamma 1\.0"):
        value_iteration(endless)
    np.testing.assert_allclose(value_iteration(endless, 0.5)[36], -2)
