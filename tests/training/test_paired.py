"""PAIRED: who plays which levels, which rows the regret rewards, and that the adversary learns to find it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data, random, specs, tree
from jaxenv.training import ued
from jaxenv.wrappers import AutoReset, ResampleParams
from tests.data.test_level_scores import FIRST, LAST, MID, rows_of
from tests.rows import assert_equal
from tests.training.test_ued import LANES, Code, Guess, State, make

DIGITS = 3


@tree.struct
class Draft:
    level: Code
    step: jax.Array


class Writer(jaxenv.Task):
    """Writes a number to base 4, digit by digit."""

    digits: int = tree.static(default=DIGITS)

    def initial(self, stream):
        zero = jnp.zeros(stream.shape, jnp.int32)
        return Draft(Code(zero), zero)

    def transition(self, state, action, stream):
        state = Draft(Code(4 * state.level.number + action), state.step + 1)
        return jaxenv.Transition(state, jnp.zeros_like(action, jnp.float32), state.step >= self.digits)

    def observe(self, state):
        return state.step.astype(jnp.float32)[:, None]

    def observation_spec(self):
        return specs.Array((1,), np.float32)

    def action_spec(self):
        return specs.discrete(4)


class Edited(Guess):
    """Guesses a number that has been written."""

    def editor(self, num_steps):
        return Writer(num_steps, num_envs=self.num_envs)


class Noisy(Edited):
    """Pays 1 in levels of even numbers and 0 or 1 at random in those of odd ones, where alone there is regret."""

    def transition(self, state, action, stream):
        coin = (random.uniform(stream) < 0.5).astype(jnp.float32)
        reward = jnp.where(state.code % 2 == 1, coin, np.float32(1))
        return jaxenv.Transition(State(state.code, state.step + 1), reward, state.step >= 2)


def paired(task=Edited, num_updates=4, **settings):
    settings = {"curriculum": "paired", "num_editor_steps": DIGITS} | settings
    config, _, _ = make(num_updates, total_steps=2 * LANES * 10 * num_updates, **settings)
    return ued.make_train(config, AutoReset(task(num_envs=LANES)), AutoReset(task(num_envs=4)))


@functools.cache
def run():
    """The learner before a run and after each update, and the arguments of every call of ``gae``."""
    train, calls, traced = paired(gamma=1.0, lambda_=1.0), [], []
    gae = data.gae

    def spied(timestep, last, values, **settings):
        traced.append(None)
        number = len(traced)
        found = gae(timestep, last, values, **settings)
        fields = (timestep.step_type, timestep.reward), (last.step_type, last.reward, last.discount), values, found
        jax.debug.callback(lambda *x: calls.append((number, *x)), *fields)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "gae", spied)
        iteration, start = jax.jit(train.iteration), jax.jit(train.init)(jax.random.key(0))
        learners, curves = [start], []
        for _ in range(train.config.num_updates):
            learner, curve = iteration(learners[-1])
            learners.append(learner)
            curves.append(curve)
        jax.effects_barrier()
    return learners, curves, calls


def learners():
    return run()[0]


def returns(call):
    """The returns of the complete episodes of every lane, of the rows that ``gae`` was given."""
    (step_type, reward), last = call[1], call[2]
    step_type, reward = np.concatenate([step_type, last[0][None]]), np.concatenate([reward, last[1][None]])
    found = [[] for _ in range(step_type.shape[1])]
    for lane, own in enumerate(found):
        total = 0.0
        for kind, paid in zip(step_type[:, lane], reward[:, lane], strict=True):
            total = 0.0 if kind == FIRST else total + paid
            if kind == LAST:
                own.append(total)
    return found


def test_the_regret_is_the_antagonists_best_return_minus_the_protagonists_mean_and_ends_the_adversarys_episode():
    after, curves, calls = run()
    # The students call gae first and second in every update, and the adversary third.
    by_caller = [sorted((c for c in calls if c[0] % 3 == k), key=lambda c: c[0]) for k in (1, 2, 0)]
    assert [len(own) for own in by_caller] == [4, 4, 4]
    for learner, curve, *update in zip(after[1:], curves, *by_caller, strict=True):
        protagonist, antagonist, adversary = update
        best, mean = [max(own) for own in returns(antagonist)], [np.mean(own) for own in returns(protagonist)]
        regret = np.subtract(best, mean)
        assert len(set(regret.tolist())) > 1
        np.testing.assert_allclose(learner.regret, regret, rtol=1e-6)
        (step_type, reward), (last_type, last_reward, last_discount), _, (_, return_) = adversary[1:]
        assert step_type.tolist() == [[FIRST] * LANES] + [[MID] * LANES] * (DIGITS - 1)
        assert not reward.any()
        assert (last_type == LAST).all()
        assert not last_discount.any()
        np.testing.assert_allclose(last_reward, regret, rtol=1e-6)
        # Undiscounted, every step of a lane has the lane's regret as its return.
        np.testing.assert_allclose(return_, np.broadcast_to(regret, (DIGITS, LANES)), rtol=1e-5, atol=1e-5)
        losses = curve.losses
        recorded = [losses.regret, losses.protagonist_return, losses.antagonist_return]
        np.testing.assert_allclose(recorded, [regret.mean(), np.mean(mean), np.mean(best)], rtol=1e-5)


def test_both_students_play_the_levels_that_the_adversary_wrote():
    for learner in learners()[1:]:
        written = learner.adversary.env_state.task.level.number
        assert len(set(written.tolist())) > 1
        for student in (learner, learner.antagonist):
            nodes = jax.tree.leaves(student.env_state, is_leaf=lambda x: isinstance(x, State))
            state = next(x for x in nodes if isinstance(x, State))
            np.testing.assert_array_equal(state.code, written)
            np.testing.assert_array_equal(state.step, 2)  # the third episode of the update
        np.testing.assert_array_equal(learner.levels.number, written)


def test_three_learners_with_weights_of_their_own_learn_in_every_update():
    before, after = learners()[:2]
    roles = [lambda x: x, lambda x: x.antagonist, lambda x: x.adversary]
    for role in roles:
        old, new = jax.tree.leaves(role(before).params), jax.tree.leaves(role(after).params)
        assert any(not np.array_equal(x, y) for x, y in zip(old, new, strict=True))
        assert int(role(after).update) == 1
    own, its = (jax.tree.leaves(role(before).params) for role in roles[:2])
    assert any(not np.array_equal(x, y) for x, y in zip(own, its, strict=True))


def test_rows_of_both_students_count_as_steps():
    _, curves, _ = run()
    assert [int(curve.steps) for curve in curves] == [2 * LANES * 10 * number for number in (1, 2, 3, 4)]


def test_lanes_without_a_complete_episode_have_no_regret():
    ended, unended = rows_of([FIRST, MID, LAST], [0, 1, 1]), rows_of([FIRST, MID, MID], [0, 1, 1])
    for protagonist, antagonist in ((ended, unended), (unended, ended), (unended, unended)):
        assert [x.tolist() for x in ued.paired.regret_of(protagonist, antagonist)] == [[0], [0], [0]]
    negative = rows_of([FIRST, LAST, FIRST, LAST], [0, -1, 0, -2])
    assert [x.tolist() for x in ued.paired.regret_of(negative, negative)] == [[-1], [-1.5], [0.5]]


def test_the_adversary_learns_to_write_levels_with_regret():
    train = paired(Noisy, num_updates=60, num_evaluations=2, recurrent=0, gamma=1.0, lambda_=1.0)
    learner, curve = jax.jit(train)(jax.random.key(0))
    assert (np.asarray(learner.levels.number) % 2).mean() > 0.8  # 0.5 by chance
    assert curve.losses.regret[1] > curve.losses.regret[0] > 0


def test_a_restored_run_continues_bit_for_bit(tmp_path):
    train, found = paired(gamma=1.0, lambda_=1.0), learners()
    data.save(tmp_path / "run", found[2])
    learner = data.restore(tmp_path / "run", jax.eval_shape(train.init, jax.random.key(0)))
    iteration = jax.jit(train.iteration)
    for _ in range(2):
        learner, _ = iteration(learner)
    assert_equal(learner, found[4])


def test_tasks_without_an_editor_of_their_levels_are_refused():
    with pytest.raises(ValueError, match=r"ued.Config: curriculum 'paired': .*editor"):
        paired(Guess)

    @tree.struct
    class Size:
        size: float = 1.0

    class Sized(Edited):
        params: Size = Size()

    config = paired().config
    env = ResampleParams(Sized(num_envs=LANES), {"size": (1.0, 2.0)})
    with pytest.raises(ValueError, match=r"ued.Config: curriculum 'paired': .*level must be"):
        ued.make_train(config, AutoReset(env), AutoReset(tree.rebuild(env, env=Sized(num_envs=4))))
