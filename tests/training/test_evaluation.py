"""What surrounds the updates of a learner: its two stacks fit the settings and each other, weights fit the stack."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import rollout, specs, wrappers
from jaxenv.canvas import _films
from jaxenv.testing import Counting, count_to_two, random_environment
from jaxenv.training import dqn, evaluation, ppo, sac
from jaxenv.training.config import RunConfig
from jaxenv.training.lanes import DeviceLanes
from jaxenv.wrappers import AutoReset, NormalizeObservation


def environments(env, eval_env):
    return evaluation.environments(RunConfig, RunConfig(), env, eval_env)


def test_two_stacks_of_one_task_are_required():
    env = AutoReset(count_to_two(16))
    with pytest.raises(ValueError, match="config: env and eval_env must"):
        environments(env, None)
    with pytest.raises(ValueError, match=r"config: env and eval_env .*got Array\(\("):
        environments(env, jaxenv.make("CartPole-v1", 100))
    assert environments(env, env) == (env, env)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (lambda: AutoReset(count_to_two(16), "same_step"), "autoreset='next_step', got 'same_step'"),
        (lambda: count_to_two(16), "autoreset='next_step', got None"),
        (lambda: AutoReset(count_to_two(3)), "config.num_envs is 16, .* has 3 lanes"),
        (
            lambda: AutoReset(
                random_environment(
                    specs.discrete(2), specs.discrete(2), specs.Bounded((2,), np.float32, 0, 1), num_envs=16
                )
            ),
            r"reward .*got Array\(\(2",
        ),
        (
            lambda: NormalizeObservation(
                AutoReset(random_environment(specs.Array((2,), np.float32), specs.discrete(2), num_envs=16))
            ),
            r"cannot share.*, set normalize_observation",
        ),
    ],
)
def test_a_stack_that_no_learner_takes_is_refused(env, message):
    with pytest.raises(ValueError, match=f"^config: .*{message}"):
        environments(env(), env())


def test_a_vector_reward_of_the_evaluation_is_refused():
    one, two = (
        AutoReset(random_environment(specs.discrete(2), specs.discrete(2), reward, num_envs=16))
        for reward in (specs.Array((), np.float32), specs.Array((2,), np.float32))
    )
    with pytest.raises(ValueError, match=r"config: the reward .*got .* of <AutoReset"):
        environments(one, two)


@pytest.mark.parametrize("lanes", [4, 2])
def test_the_step_limit_is_that_of_an_episode_however_many_a_lane_plays(lanes):
    config = RunConfig(num_eval_episodes=4, max_eval_steps=3)
    env = AutoReset(Counting(np.array([3]), num_envs=lanes))
    policy = rollout.random_policy(env)
    played = evaluation.episodes(DeviceLanes(config, None), env, policy, (), jax.random.key(0))
    assert played["finished"].all()
    assert played["lengths"].tolist() == [3] * 4


@pytest.mark.parametrize("learner", [ppo, dqn, sac])
def test_a_config_of_another_kind_is_refused(learner):
    name = learner.__name__.rpartition(".")[2]
    with pytest.raises(ValueError, match=rf"^{name}: config .*got 'CartPole-v1'"):
        learner.make_train("CartPole-v1")


@pytest.mark.parametrize(("learner", "id"), [(ppo, "CartPole-v1"), (dqn, "CartPole-v1"), (sac, "Pendulum-v1")])
def test_weights_that_are_not_those_of_one_seed_for_the_stack_are_refused(learner, id):
    config = learner.Config(env_id=id, normalize_observation=True, wrappers=("TimeAwareObservation",))
    init = learner.make_train(config).init
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 3))
    seeds, one = jax.eval_shape(jax.vmap(init), keys), jax.eval_shape(init, jax.random.key(0))
    env = config.make_env(2, "eval")
    with pytest.raises(ValueError, match=r"params are the.* 3 seeds: choose one"):
        learner.make_policy(config, env, seeds.params, seeds.statistics)
    with pytest.raises(ValueError, match=r"normalises observations: pass statistics=learner\.statistics"):
        learner.make_policy(config, env, one.params)
    bare = jaxenv.make(id, num_envs=2)
    with pytest.raises(ValueError, match=r"kernel .*got .*config\.make_env"):
        learner.make_policy(config, bare, one.params, one.statistics)
    other = learner.Config(env_id=id, wrappers=("TimeAwareObservation",), hidden=(8, 8, 8))
    with pytest.raises(ValueError, match=r"^\w+: params\..* .*got a dict"):
        learner.make_policy(other, env, one.params)


LEARNER = {"num_envs": 2, "num_steps": 8, "total_steps": 96, "num_evaluations": 3, "num_eval_episodes": 2}


def test_metrics_of_training_are_those_of_the_rows_since_the_previous_evaluation():
    env = AutoReset(Counting(np.array([4]), num_envs=2))
    _, curve = jax.jit(ppo.make_train(ppo.Config(**LEARNER, hidden=(4,)), env, env))(jax.random.key(0))
    row = np.arange(48).reshape(3, 16) % 5  # of the episodes of both lanes; 0 is FIRST
    assert np.asarray(curve.train["steps"]).tolist() == (2 * np.sum(row > 0, axis=1)).tolist()
    assert np.asarray(curve.train["episodes"]).tolist() == (2 * np.sum(row == 4, axis=1)).tolist()


# --- wrappers for training -------------------------------------------------------------------------------------------


class Counted(wrappers.BatchWrapper):
    """State of the batch."""

    def init(self, timestep):
        return np.int32(0)

    def after(self, shared, lanes, timestep, learn):
        return shared + np.int32(1), lanes, timestep


class Slippery(wrappers.ActionWrapper):
    """An argument has another value in evaluations."""

    slip: float = 0.5

    in_evaluation = {"slip": 0.0}

    def action_spec(self):
        return self.env.action_spec()

    def action(self, action):
        return action


@pytest.fixture
def films(monkeypatch):
    """The films that are complete, in place of files: name -> frames."""
    found = {}
    monkeypatch.setattr(_films, "_write", lambda film: found.setdefault(film.name, []).append(film.shown))
    monkeypatch.setattr(_films, "RECORDER", _films.Recorder())
    yield found
    _films.RECORDER.flush(unfinished=True)


def test_a_learner_films_whole_episodes_of_its_training_and_none_of_its_evaluations(films):
    video = ("RecordVideo", {"folder": "films", "every": 1, "size": 16})
    config = ppo.Config(
        env_id="Pendulum-v1", wrappers=(video,), env_options={"max_episode_steps": 11}, max_eval_steps=11, **LEARNER
    )
    jax.block_until_ready(jax.jit(ppo.make_train(config))(jax.random.key(0)))
    wrappers.RecordVideo.flush()
    # 48 rows of a lane: four episodes of 11 steps and a row FIRST.
    assert {name: [len(frames) for frames in shown] for name, shown in films.items()} == {
        f"lane-0-episode-{episode}": [12] for episode in range(3 + 1)
    }


@pytest.mark.parametrize(
    ("wrapper", "name"),
    [
        (lambda env: AutoReset(wrappers.RandomFirstEpisodeLength(env, 3)), "RandomFirstEpisodeLength"),
        (lambda env: AutoReset(wrappers.NonTerminating(env)), "NonTerminating"),
        (lambda env: wrappers.NormalizeReward(AutoReset(env)), "NormalizeReward"),
        (lambda env: Counted(AutoReset(env)), "Counted"),
        (lambda env: AutoReset(Slippery(env)), "Slippery"),
        (lambda env: AutoReset(jaxenv.Multitask((env, wrappers.NonTerminating(env)))), "NonTerminating"),
    ],
)
def test_a_learner_refuses_to_evaluate_on_a_stack_for_training(wrapper, name):
    env = wrapper(count_to_two(16))
    with pytest.raises(ValueError, match=rf"^config: eval_env .*{name}"):
        evaluation.environments(RunConfig, RunConfig(), env, env)


def test_a_learner_evaluates_on_the_reward_and_the_frozen_stack_that_it_is_given():
    paying_twice = AutoReset(wrappers.TransformReward(count_to_two(16), lambda reward: 2 * reward))
    slippery = AutoReset(Slippery(count_to_two(16), 0.0))
    for stack in (paying_twice, slippery, Counted(AutoReset(count_to_two(16)), frozen=True)):
        assert evaluation.environments(RunConfig, RunConfig(), stack, stack)[1] is stack


# --- episodes that are cut off ---------------------------------------------------------------------------------------


def long(num_envs):
    """Episodes of 23 steps."""
    return Counting(np.array([23]), num_envs=num_envs)


@pytest.mark.parametrize("lanes", [4, 2])
def test_evaluations_last_until_the_time_limit_by_default(lanes):
    env = AutoReset(wrappers.TimeLimit(long(lanes), 11))
    config = RunConfig(num_eval_episodes=4)
    played = evaluation.episodes(DeviceLanes(config, None), env, rollout.random_policy(env), (), jax.random.key(0))
    assert played["lengths"].tolist() == [11] * 4


def test_an_episode_that_an_evaluation_cut_off_cannot_be_read_as_data():
    config, env = RunConfig(num_eval_episodes=4, max_eval_steps=9), AutoReset(long(4))
    policy = rollout.random_policy(env)

    @jax.jit
    def play(key):
        return evaluation.episodes(DeviceLanes(config, None), env, policy, (), key)

    played = play(jax.random.key(0))
    assert np.isnan(played["returns"]).all()
    assert played["lengths"].tolist() == [-1] * 4
    assert not played["terminated"].any()
    assert not played["finished"].any()


class Breaking(Counting):
    """The reward of the third step is NaN in lane 1."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        broken = (np.arange(2) == 1) & (state.step == 2)
        return dataclasses.replace(out, reward=jnp.where(broken, np.float32(np.nan), out.reward))


def test_an_episode_that_ends_at_a_non_finite_row_cannot_be_read_as_data():
    env = AutoReset(wrappers.GuardNonFinite(Breaking(np.array([5]), num_envs=2)))
    config = RunConfig(num_eval_episodes=2)
    played = evaluation.episodes(DeviceLanes(config, None), env, rollout.random_policy(env), (), jax.random.key(0))
    assert np.isnan(played["returns"]).tolist() == [False, True]
    assert played["lengths"].tolist() == [5, -1]
    assert played["finished"].tolist() == [True, False]


@pytest.mark.parametrize("steps", [0, 2.5, True, "10"])
def test_a_wrong_limit_of_evaluations_is_refused(steps):
    with pytest.raises(ValueError, match=r"RunConfig: max_eval_steps .*got "):
        RunConfig(max_eval_steps=steps)
