"""Curricula: which levels an update plays, which updates learn, what the buffer then holds."""

import collections
import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data, random, specs, tree
from jaxenv.training import ppo, ued
from jaxenv.training.ued import MUTATED, NEW, REPLAYED
from jaxenv.wrappers import AutoReset, TimeLimit
from tests.rows import assert_equal

NUM_LEVELS, LANES = 64, 8


@tree.struct
class Code:
    number: jax.Array


@tree.struct
class State:
    code: jax.Array
    step: jax.Array


class Guess(jaxenv.Task):
    """Pays 1 for the last digit of the level's number, to base 4; three steps an episode. A mutation adds 1 or 9."""

    Level = Code

    def sample_level(self, stream):
        return Code(random.integers(stream, (1,), 0, NUM_LEVELS)[:, 0])

    def mutate_level(self, level, stream):
        return Code((level.number + jnp.where(random.bernoulli(stream), 1, 9)) % NUM_LEVELS)

    def initial(self, stream, level):
        return State(level.number, jnp.zeros(stream.shape, jnp.int32))

    def transition(self, state, action, stream):
        state = State(state.code, state.step + 1)
        return jaxenv.Transition(state, (action == state.code % 4).astype(jnp.float32), state.step >= 3)

    def observe(self, state):
        return jax.nn.one_hot(state.code, NUM_LEVELS)

    def observation_spec(self):
        return specs.Bounded((NUM_LEVELS,), np.float32, 0, 1)

    def action_spec(self):
        return specs.Bounded((), np.int32, 0, 3)


def make(num_updates=24, **settings):
    """The arguments of a run; it evaluates after each update by default."""
    small = {"hidden": (4,), "recurrent": 4, "learning_rate": 1e-2, "capacity": 32, "num_evaluations": num_updates}
    small["total_steps"] = LANES * 10 * num_updates
    config = ued.Config(
        num_envs=LANES, num_steps=10, num_eval_episodes=4, max_eval_steps=5,
        torso="mlp", replay_probability=0.5, num_edits=3, **(small | settings),
    )  # fmt: skip
    return config, AutoReset(Guess(num_envs=LANES)), AutoReset(Guess(num_envs=4))


@functools.cache
def learners(curriculum):
    """The learner before the run and after each update, as NumPy arrays."""
    train = ued.make_train(*make(curriculum=curriculum))
    iteration, found = jax.jit(train.iteration), [jax.jit(train.init)(jax.random.key(0))]
    for _ in range(train.config.num_updates):
        found.append(iteration(found[-1])[0])
    return found


def changed(before, after):
    return any(not np.array_equal(x, y) for x, y in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True))


def stored(learner, field="scores"):
    """A field of the levels in the buffer, by their numbers."""
    size, buffer = int(learner.buffer.size), learner.buffer
    return dict(zip(buffer.levels.number[:size].tolist(), getattr(buffer, field)[:size].tolist(), strict=True))


def without_values(learner):
    """The learner with a critic of zeros."""
    critic = jax.tree.map(jnp.zeros_like, learner.params["params"]["critic"])
    return dataclasses.replace(learner, params={"params": learner.params["params"] | {"critic": critic}})


CURRICULA = ("plr", "robust_plr", "accel")


@pytest.mark.parametrize("curriculum", CURRICULA)
def test_levels_are_replayed_only_from_a_filled_buffer_and_mutated_only_after_a_replay(curriculum):
    run, added = learners(curriculum), set()
    sources = {NEW: 0, REPLAYED: 0, MUTATED: 0}
    for before, after in itertools.pairwise(run):
        source = int(after.source)
        sources[source] += 1
        played, parents = after.levels.number.tolist(), before.levels.number.tolist()
        if source == REPLAYED:
            assert int(before.buffer.size) >= 16
            assert set(played) <= set(stored(before))
        if source == MUTATED:
            added |= {(number - parent) % NUM_LEVELS for number, parent in zip(played, parents, strict=True)}
        assert (source == MUTATED) == (curriculum == "accel" and int(before.source) == REPLAYED)
    assert sources[NEW] > 2
    assert sources[REPLAYED] > 2
    # Three edits, each with a draw of its own.
    assert added == ({3, 11, 19, 27} if curriculum == "accel" else set())


def task_state(learner):
    nodes = jax.tree.leaves(learner.env_state, is_leaf=lambda x: isinstance(x, State))
    return next(x for x in nodes if isinstance(x, State))


@pytest.mark.parametrize("curriculum", CURRICULA)
def test_every_episode_of_an_update_is_in_the_level_of_its_lane(curriculum):
    # After ten steps the lanes are in their third episode of the update.
    for learner in learners(curriculum)[1:]:
        np.testing.assert_array_equal(task_state(learner).code, learner.levels.number)
        np.testing.assert_array_equal(task_state(learner).step, 2)


@pytest.mark.parametrize("curriculum", CURRICULA)
def test_only_plr_learns_from_new_levels(curriculum):
    for before, after in itertools.pairwise(learners(curriculum)):
        learns = curriculum == "plr" or int(after.source) == REPLAYED
        assert changed(before.params, after.params) == learns
        assert changed(before.optimizer, after.optimizer) == learns


@pytest.mark.parametrize("curriculum", CURRICULA)
def test_the_buffer_gets_scores_of_the_levels_that_were_played(curriculum):
    num_changed = 0
    for before, after in itertools.pairwise(learners(curriculum)):
        old, new, played = stored(before), stored(after), set(after.levels.number.tolist())
        if int(after.source) == REPLAYED:
            assert old.keys() == new.keys()
            assert {number for number in old if old[number] != new[number]} <= played
            num_changed += sum(old[number] != new[number] for number in played)
        else:
            assert set(new) <= set(old) | played
            if len(new) < 32:
                assert played <= set(new)
        best, earlier = stored(after, "notes"), stored(before, "notes")
        assert set(best.values()) <= {0, 1, 2, 3}
        for number in best.keys() & earlier.keys():
            if number not in played:
                assert best[number] == earlier[number]
            elif int(after.source) == REPLAYED:
                assert best[number] >= earlier[number]
    assert num_changed > 2


def test_max_monte_carlo_is_the_best_return_minus_the_values_of_the_rows():
    # Without gradient steps that change anything, and with a critic of zeros, the score is the best return.
    config, *envs = make(num_updates=6, curriculum="robust_plr", learning_rate=0.0, num_evaluations=6)
    train = ued.make_train(config, *envs)
    learner = without_values(jax.jit(train.init)(jax.random.key(1)))
    played = collections.Counter()
    for _ in range(6):
        learner, _ = jax.jit(train.iteration)(learner)
        played.update(learner.levels.number.tolist() if int(learner.source) == NEW else [])
    scores, notes = stored(learner), stored(learner, "notes")
    once = [number for number in scores if played[number] == 1]  # others have the mean score of several lanes
    assert len(once) > 8
    assert [scores[number] for number in once] == pytest.approx([notes[number] for number in once], abs=1e-6)


def test_lanes_that_replay_one_level_share_its_best_return():
    # Eight lanes replay seven levels; with a critic of zeros a score is the best return of the level.
    config, *envs = make(num_updates=8, learning_rate=0.0, capacity=7, fill=1.0, temperature=9.0)
    train = ued.make_train(dataclasses.replace(config, replay_probability=1.0), *envs)
    learner, repeated = without_values(jax.jit(train.init)(jax.random.key(1))), 0
    for _ in range(8):
        before, (learner, _) = learner, jax.jit(train.iteration)(learner)
        if int(learner.source) == REPLAYED:
            size, numbers = int(learner.buffer.size), learner.levels.number.tolist()
            repeated += len(numbers) - len(set(numbers))
            np.testing.assert_allclose(learner.buffer.scores[:size], learner.buffer.notes[:size], atol=1e-6)
            earlier = stored(before, "notes")
            assert all(best >= earlier[number] for number, best in stored(learner, "notes").items())
    assert repeated > 5


def test_positive_value_loss_is_that_of_the_advantages():
    # The values of a critic of zeros have no positive part, its advantages have one where the level ever paid.
    config, *envs = make(num_updates=3, learning_rate=0.0, score="positive_value_loss")
    train = ued.make_train(config, *envs)
    learner = without_values(jax.jit(train.init)(jax.random.key(1)))
    for _ in range(3):
        learner, _ = jax.jit(train.iteration)(learner)
    scores, notes = stored(learner), stored(learner, "notes")
    assert {number for number in scores if scores[number] > 0} == {number for number in notes if notes[number] > 0}
    assert 4 < sum(score > 0 for score in scores.values()) < len(scores)
    # At most every step pays 1: returns with gamma * lambda of 3, 2 and 1 steps.
    rate = config.gamma * config.lambda_
    assert max(scores.values()) <= (3 + 2 * rate + rate**2) / 3 + 1e-5


@pytest.mark.parametrize("curriculum", ["plr", "robust_plr", "accel"])
def test_levels_are_replayed_from_the_update_after_the_one_that_filled_the_buffer(curriculum):
    config, *envs = make(num_updates=5, curriculum=curriculum, capacity=7, fill=1.0)
    train = ued.make_train(dataclasses.replace(config, replay_probability=1.0), *envs)
    iteration, learner, replays = jax.jit(train.iteration), jax.jit(train.init)(jax.random.key(4)), 0
    for _ in range(5):
        before, (learner, _) = learner, iteration(learner)
        if int(learner.source) != MUTATED:
            assert (int(learner.source) == REPLAYED) == (int(before.buffer.size) == 7)
            replays += int(learner.source) == REPLAYED
    assert replays > 1


def test_the_score_chooses_another_order():
    scores = [
        jax.jit(lambda key, score=score: ued.make_train(*make(num_updates=2, num_evaluations=1, score=score))(key))(
            jax.random.key(0)
        )[0]
        for score in ("max_monte_carlo", "positive_value_loss")
    ]
    assert_equal(scores[0].buffer.levels.number.sort(), scores[1].buffer.levels.number.sort())
    assert changed(scores[0].buffer.scores, scores[1].buffer.scores)
    assert np.all(scores[1].buffer.scores[: int(scores[1].buffer.size)] >= 0)


def test_losses_are_means_over_the_updates_that_learn():
    # A policy that never learns keeps the entropy of its first weights, about log(4).
    config, *envs = make(num_updates=12, num_evaluations=1, curriculum="robust_plr", learning_rate=0.0)
    _, curve = jax.jit(ued.make_train(config, *envs))(jax.random.key(0))
    np.testing.assert_allclose(curve.losses.entropy, np.log(4), rtol=0.01)


def test_sfl_keeps_levels_of_its_last_candidates_and_mixes_them_with_new_ones():
    settings = {"capacity": 16, "num_candidates": 64, "refresh_interval": 4}
    train = ued.make_train(*make(num_updates=12, curriculum="sfl", **settings))
    iteration, learner, num_refreshed = jax.jit(train.iteration), jax.jit(train.init)(jax.random.key(0)), 0
    for update in range(12):
        before, (learner, _) = learner, iteration(learner)
        if update % 4 == 0:
            num_refreshed += changed(before.buffer.levels, learner.buffer.levels)
        else:
            assert not changed(before.buffer.levels, learner.buffer.levels)
        kept = stored(learner)
        # Of a candidate both episodes are solved, one or none; equal candidates have the mean of their scores.
        assert all(0 <= score <= 0.25 for score in kept.values())
        assert {0.0, 0.25} & set(kept.values())
        assert 0.25 in kept.values()
        assert set(learner.levels.number[:4].tolist()) <= set(kept)
        assert not set(learner.levels.number[4:].tolist()) <= set(kept)
        np.testing.assert_array_equal(task_state(learner).code, learner.levels.number)
        assert changed(before.params, learner.params)
    assert num_refreshed == 3


def test_domain_randomisation_is_ppo():
    config, *envs = make(num_updates=2, curriculum="dr")
    assert_equal(
        jax.jit(ued.make_train(config, *envs))(jax.random.key(0)),
        jax.jit(ppo.make_train(config, *envs))(jax.random.key(0)),
    )


def test_a_restored_run_continues_bit_for_bit(tmp_path):
    train = ued.make_train(*make(curriculum="accel"))
    run = learners("accel")
    data.save(tmp_path / "run", run[12])
    learner = data.restore(tmp_path / "run", jax.eval_shape(train.init, jax.random.key(0)))
    iteration = jax.jit(train.iteration)
    for _ in range(12):
        learner, _ = iteration(learner)
    assert_equal(learner, run[24])


def test_seeds_under_vmap_play_the_levels_of_runs_alone():
    train = ued.make_train(*make(num_updates=12, num_evaluations=1, curriculum="accel"))
    keys = jax.random.split(jax.random.key(0), 3)
    together, _ = jax.jit(jax.vmap(train))(keys)
    for i, key in enumerate(keys):
        alone, _ = jax.jit(train)(key)
        assert int(together.source[i]) == int(alone.source)
        assert_equal(together.levels.number[i], alone.levels.number)


def test_replays_learn():
    settings = {"hidden": (16,), "recurrent": 16, "temperature": 2.0, "capacity": 64}
    config, env, _ = make(num_updates=300, num_evaluations=3, **settings)
    config = dataclasses.replace(config, num_eval_episodes=NUM_LEVELS, eval_explore=False)
    eval_env = AutoReset(Guess(num_envs=NUM_LEVELS)).with_level(Code(jnp.arange(NUM_LEVELS)))
    _, curve = jax.jit(ued.make_train(config, env, eval_env))(jax.random.key(0))
    assert curve.returns[-1].mean() > 2  # 0.75 by chance


def test_wrong_settings_are_refused():
    config, env, eval_env = make(curriculum="plr")
    with pytest.raises(ValueError, match=r"ued.Config: curriculum .*got 'poet'"):
        dataclasses.replace(config, curriculum="poet")
    with pytest.raises(ValueError, match=r"ued.Config: fill .*got 0"):
        dataclasses.replace(config, fill=0.0)
    with pytest.raises(ValueError, match=r"ued.Config: num_candidates .*8.*got 12"):
        dataclasses.replace(config, curriculum="sfl", num_candidates=12)
    mesh = jax.make_mesh((1,), ("lanes",), axis_types=(jax.sharding.AxisType.Auto,))
    with pytest.raises(ValueError, match=r"ued: mesh must be None .*'plr'"):
        ued.make_train(config, env, eval_env, mesh)
    held_out = env.with_level(Code(jnp.arange(LANES)))
    for curriculum in ("dr", "plr"):
        with pytest.raises(ValueError, match=rf"curriculum '{curriculum}': env must not start in levels .*eval_env"):
            ued.make_train(dataclasses.replace(config, curriculum=curriculum), held_out, eval_env)
    with pytest.raises(ValueError, match=r"ued: config must be ued.Config.*got"):
        ued.make_train(ppo.Config(), env, eval_env)


@pytest.mark.parametrize(
    ("curriculum", "effect"),
    [
        ("plr", "no level is replayed"),
        ("robust_plr", "nothing is learned"),
        ("accel", "nothing is learned"),
        ("sfl", "no candidate is kept"),
    ],
)
def test_an_update_that_is_shorter_than_the_time_limit_is_warned_of_with_both_numbers(curriculum, effect):
    config, _, eval_env = make(curriculum=curriculum, num_candidates=8)
    limited = lambda limit: AutoReset(TimeLimit(Guess(num_envs=LANES), limit))  # noqa: E731
    message = rf"ued.Config: curriculum '{curriculum}': num_steps must be at least 11, .*Guess.*got 10: .*{effect}"
    for limit in (11, np.array([11] + [3] * (LANES - 1), np.int32)):
        with pytest.warns(UserWarning, match=message):
            ued.make_train(config, limited(limit), eval_env)
    ued.make_train(config, limited(10), eval_env)
    ued.make_train(dataclasses.replace(config, curriculum="dr"), limited(11), eval_env)


def test_levels_of_games_whose_agents_are_lanes_are_refused():
    config, _, _ = make(curriculum="plr")
    env, eval_env = (jaxenv.make("CoinGame-v0", lanes, wrappers=["AgentsAsLanes"]) for lanes in (LANES, 4))
    with pytest.raises(ValueError, match=r"ued.Config: curriculum 'plr': a level .*2 lanes of .*AgentsAsLanes.*'dr'"):
        ued.make_train(config, env, eval_env)
    ued.make_train(dataclasses.replace(config, curriculum="dr"), env, eval_env)


def test_a_task_without_mutations_is_refused_by_accel():
    config, _, _ = make(curriculum="accel")
    env, eval_env = (jaxenv.make("FrozenLake-v1", num_envs=lanes) for lanes in (LANES, 4))
    with pytest.raises(ValueError, match=r"ued.Config: curriculum 'accel': .*mutate_level"):
        ued.make_train(config, env, eval_env)


@pytest.mark.parametrize("curriculum", [*CURRICULA, "sfl"])
def test_the_curve_records_the_curriculum(curriculum):
    settings = {"capacity": 16, "num_candidates": 64, "refresh_interval": 4} if curriculum == "sfl" else {}
    train = ued.make_train(*make(num_updates=12, curriculum=curriculum, learning_rate=0.0, **settings))
    iteration, learner = jax.jit(train.iteration), jax.jit(train.init)(jax.random.key(0))
    returns = []
    for _ in range(12):
        learner, evaluation = iteration(learner)
        found, size = evaluation.losses, int(learner.buffer.size)
        scores = np.asarray(learner.buffer.scores)[:size]
        np.testing.assert_allclose(found.buffer_fill, size / len(learner.buffer.scores))
        np.testing.assert_allclose([found.score_mean, found.score_max], [scores.mean(), scores.max()], rtol=1e-5)
        replayed = 0.5 if curriculum == "sfl" else int(learner.source) == REPLAYED
        assert found.replayed == replayed
        if replayed:
            returns.append(float(found.replayed_return))
        else:
            assert found.replayed_return == 0
    assert len(returns) > 1
    # Two whole episodes in each of eight or, with sfl, four levels.
    np.testing.assert_allclose(np.array(returns) * 16 % 1, 0, atol=1e-4)
    assert 0 < max(returns) <= 3
