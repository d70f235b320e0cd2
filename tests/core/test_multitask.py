"""Multitask: several tasks with equal specs in one batch."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from jax.experimental import checkify

import jaxenv
from jaxenv import Multitask, specs
from jaxenv.canvas import GREY, ORANGE
from jaxenv.testing import Chain, Counting, checked
from jaxenv.wrappers import ActionRepeat, AutoReset, DelayObservation, Discount, TimeLimit, TransformReward
from tests.games import Nim
from tests.rows import unrolled


def tasks(num_envs=3):
    """Task 0 ends after two steps and task 1 after nine; their observations differ by 100."""
    short = Counting(np.array([2]), stride=10, num_envs=num_envs)
    return short, Counting(np.array([9, 8]), stride=100, pays="end", num_envs=num_envs)


def lanes(values):
    return np.asarray(values).T.tolist()


def rows(env, steps, action=5):
    return unrolled(env, np.full((steps, env.num_envs), action, np.int32))


@pytest.mark.parametrize(
    ("mode", "kinds", "observations", "rewards"),
    [
        ("next_step", [0, 1, 2, 0, 1], [0, 1, 2, 10, 11], [0, 5, 5, 0, 5]),
        ("same_step", [0, 1, 2, 1, 2], [0, 1, 10, 11, 20], [0, 5, 5, 5, 5]),
    ],
)
def test_every_lane_plays_its_given_task(mode, kinds, observations, rewards):
    r = rows(AutoReset(Multitask(tasks(), np.array([0, 1, 1])), mode), 4)
    assert lanes(r.step_type) == [kinds, [0, 1, 1, 1, 1], [0, 1, 1, 1, 1]]
    assert lanes(r.observation) == [observations, [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert lanes(r.reward) == [rewards, [0] * 5, [0] * 5]
    assert lanes(r.discount)[0] == [0 if kind == 2 else 1 for kind in kinds]
    assert lanes(r.env_info["task_id"]) == [[0] * 5, [1] * 5, [1] * 5]
    assert lanes(r.prev_action)[1] == [0, 5, 5, 5, 5]


def test_a_traced_number_of_no_task_is_clipped_and_refused_by_checked():
    env = AutoReset(Multitask(tasks(4), np.int32(0)))
    level = jaxenv.sample_level(env, jax.random.key(0))
    given = np.array([7, -1, 0, 1], np.int32)

    def start(env, task_id):
        return env.with_level({**level, "task_id": task_id}).reset(jax.random.key(1))[1].env_info["task_id"]

    assert jax.jit(functools.partial(start, env))(given).tolist() == [1, 0, 0, 1]
    with pytest.raises(ValueError, match=r"level.task_id .*2 tasks, got \[ ?7 "):
        start(env, given)
    error, _ = jax.jit(checkify.checkify(functools.partial(start, checked(env))))(given)
    with pytest.raises(checkify.JaxRuntimeError, match="level at lane 0: check_level refuses it"):
        error.throw()
    assert jax.jit(checkify.checkify(functools.partial(start, checked(env))))(given % 2)[0].get() is None

    def with_task(task):
        return Multitask(tasks(4), task).reset(jax.random.key(1))[1].env_info["task_id"]

    assert jax.jit(with_task)(np.array([7, 1, 0, 2], np.int32)).tolist() == [1, 1, 0, 1]


class Purse(Counting):
    """Carries the sum of its actions from episode to episode, and shows it."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, state=dataclasses.replace(out.state, episode=state.episode + action))

    def carry(self, old, new):
        return dataclasses.replace(new, episode=old.episode)


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("strategy", ["select", "cond", "compact"])
def test_each_task_carries_its_own_state_into_its_next_episode(mode, strategy):
    purses = [Purse(np.array([length]), stride=1000, num_envs=4) for length in (2, 3)]
    env = AutoReset(Multitask((*purses, Counting(np.array([2]), num_envs=4)), np.array([1, 0, 2, 1])), mode, strategy)
    actions = np.array([[1, 2, 3, 4], [5, 6, 7, 8], [9, 1, 2, 3], [4, 5, 6, 7], [8, 9, 1, 2], [3, 4, 5, 6]], np.int32)
    shown = lanes(unrolled(env, actions).observation)
    if mode == "next_step":
        assert shown[0] == [0, 1001, 6002, 15003, 15000, 23001, 26002]
        assert shown[1] == [0, 2001, 8002, 8000, 13001, 22002, 22000]
        assert shown[2] == [0, 1, 2, 0, 1, 2, 0]
        assert shown[3] == [0, 4001, 12002, 15003, 15000, 17001, 23002]
    else:
        assert shown[0] == [0, 1001, 6002, 15000, 19001, 27002, 30000]
        assert shown[1] == [0, 2001, 8000, 9001, 14000, 23001, 27000]
        assert shown[3] == [0, 4001, 12002, 15000, 22001, 24002, 30000]


def test_tasks_are_drawn_per_lane_and_episode():
    r = rows(AutoReset(TimeLimit(Multitask(tasks(200)), 1)), 2)
    first, last, second = r.env_info["task_id"]
    assert (first == last).all()
    assert 70 < first.sum() < 130
    assert 70 < second.sum() < 130
    assert 70 < (first == second).sum() < 130
    assert (r.observation[2] == np.where(second == 0, 10, 100)).all()


def test_tasks_share_no_random_numbers():
    env = jaxenv.spec("CartPole-v1").make(num_envs=2)
    both = [rows(Multitask((env, env), task), 0, 0).observation for task in (0, 1)]
    assert (both[0] != both[1]).all()


def test_the_agent_may_choose_the_task_and_other_tasks_stand_still():
    env = AutoReset(Multitask(tasks(1), agent_chooses=True))
    assert env.action_spec() == {"task_id": specs.discrete(2), "action": specs.discrete(10)}
    chosen = np.array([[1], [0], [1], [0], [1]], np.int32)
    r = unrolled(env, {"task_id": chosen, "action": np.full((5, 1), 7, np.int32)})
    # Task 0 ends at its second step; then both tasks restart.
    assert lanes(r.step_type) == [[0, 1, 1, 1, 2, 0]]
    assert lanes(r.observation) == [[0, 1, 1, 2, 2, 10]]
    assert lanes(r.reward) == [[0, 0, 7, 0, 7, 0]]
    assert lanes(r.env_info["task_id"]) == [[0, 1, 0, 1, 0, 0]]
    assert lanes(r.prev_action["task_id"]) == [[0, 1, 0, 1, 0, 0]]


def test_tasks_may_have_individual_time_limits():
    short, long = tasks(2)
    r = rows(AutoReset(Multitask((TimeLimit(short, 9), TimeLimit(long, 3)), np.array([0, 1]))), 3)
    assert lanes(r.step_type) == [[0, 1, 2, 0], [0, 1, 1, 2]]
    assert lanes(r.discount) == [[1, 1, 0, 1], [1, 1, 1, 1]]


class Orange(Counting):
    def draw(self, state, canvas):
        return canvas.fill(ORANGE)


class Grey(Counting):
    def draw(self, state, canvas):
        return canvas.fill(GREY)


def test_the_picture_of_a_lane_is_that_of_its_task():
    env = Multitask([Orange(np.array([2]), num_envs=5), Grey(np.array([3]), num_envs=5)], np.array([1, 0, 1, 1, 0]))
    pictures = env.render(env.reset(jax.random.key(0))[0], size=8)
    expected = np.round(255 * np.stack([GREY, ORANGE, GREY, GREY, ORANGE]))
    np.testing.assert_array_equal(pictures[:, 4, 3], expected)


def test_numbers_of_a_task_may_be_per_lane_and_follow_take():
    both = tasks(4)
    each = (Discount(both[0], np.array([0.1, 0.2, 0.3, 0.4])), Discount(both[1], np.array([0.5, 0.6, 0.7, 0.8])))
    env = Multitask(each, np.array([0, 1, 0, 1])).take(np.array([1, 2]))
    np.testing.assert_allclose(rows(env, 1).discount[1], [0.6, 0.3])
    with pytest.raises(ValueError, match="holds 4 lanes, the batch has 3"):
        Multitask((Discount(both[0], np.ones(4)),)).reset(jax.random.key(0), env_id=np.arange(3))


def test_params_reach_every_task():
    env = jaxenv.spec("CartPole-v1").make()
    heavy = Multitask((env, TransformReward(env, lambda r: -r))).with_params(gravity=20)
    assert [params.gravity for params in heavy.params] == [20, 20]
    assert Multitask(tasks(4)).params == (None, None)


class Again(Nim):
    alternates = False


class Costly(Counting):
    reset_strategy = "compact"


@pytest.mark.parametrize("order", [1, -1])
def test_facts_of_a_game_and_of_restarts_are_those_of_all_tasks(order):
    short, _ = tasks()
    pair = lambda *envs: Multitask(envs[::order])  # noqa: E731
    assert pair(short, short).observes_state
    assert pair(Nim(), Nim()).alternates
    assert not pair(short, DelayObservation(short)).observes_state
    assert not pair(Nim(), Again()).alternates
    assert pair(short, Costly(np.array([2]), num_envs=3)).reset_strategy == "compact"


@pytest.mark.parametrize("order", [1, -1])
def test_a_step_is_several_steps_if_it_is_in_any_task(order):
    once, twice = (ActionRepeat(task, num) for task, num in zip(tasks(), (1, 2), strict=True))
    assert not once.facts.repeats
    assert Multitask([once, twice][::order]).facts.repeats


def test_all_tasks_are_closed():
    closed = []

    class Engine(Chain):
        def close(self):
            closed.append(self)

    Multitask((Engine(), Engine())).close()
    assert len(closed) == 2


def test_names_of_tasks_are_those_of_the_environments_if_they_differ():
    short, long = (jaxenv.spec(id).make() for id in ("CartPole-v0", "CartPole-v1"))
    assert Multitask((short, TransformReward(long, lambda r: r))).task_names == ("CartPole-v0", "CartPole-v1")
    assert Multitask((short, short)).task_names == ("0", "1")
    named = AutoReset(TimeLimit(Multitask((short, short), names=["light", "heavy"]), 9))
    assert (named.task_names, named.num_tasks) == (("light", "heavy"), 2)
    assert (AutoReset(short).task_names, short.num_tasks) == (("CartPole-v0",), 1)
    assert Chain().task_names == ("0",)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Multitask(()), r"Multitask: envs .*got \(\)"),
        (lambda: Multitask(Chain()), r"Multitask: envs .*got <Chain>"),
        (lambda: Multitask((Chain(5), Chain(6))), r"Multitask: observation specs of.* 0 and 1 differ"),
        (lambda: Multitask((Chain(5), TimeLimit(Chain(5), 3))), "Multitask: env_info specs of tasks 0 and 1 differ"),
        (
            lambda: Multitask((Chain(), AutoReset(Chain()))),
            r"put AutoReset and batch state.* 1 is <AutoReset",
        ),
        (lambda: Multitask((Chain(), Chain(num_envs=2))), "Multitask: task 0 has 1 lanes and task 1 2"),
        (
            lambda: Multitask((Chain(),), names=("a", "b")),
            r"Multitask: names .*got \['a', 'b'\]",
        ),
        (lambda: Multitask((Chain(), Chain()), names=("a", "a")), r"Multitask: names .*got \['a', 'a'\]"),
        (lambda: Multitask((Chain(),), names="a"), r"Multitask: names .*got 'a'"),
        (lambda: Multitask((Chain(),), 1), r"Multitask: task .*got 1"),
        (lambda: Multitask((Chain(),), 0, agent_chooses=True), r"with agent_chooses=True the agent chooses.* 0"),
    ],
)
def test_an_invalid_argument_is_refused_by_name_and_value(build, message):
    with pytest.raises(ValueError, match=message):
        build()
