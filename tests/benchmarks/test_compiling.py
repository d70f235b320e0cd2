"""Compile time: a bar on the size of what is compiled, against the record; and the stages that are measured.

The bar is on lines of StableHLO and not on seconds: they are exact, and no other program on the machine changes them.
"""

import json
import pathlib

import jax
import pytest

import benchmarks
import jaxenv
from benchmarks import compiling, updates
from benchmarks.measure import Unavailable
from jaxenv._util.library import default_types

RECORD = pathlib.Path(benchmarks.__file__).parent / "results" / "cpu-compiling.json"
MORE = 1.3  # times the recorded lines
IDS = ("CartPole-v1", "Breakout-MinAtar", "MiniGrid-DoorKey-8x8-v0", "MiniGrid-MultiRoom-N6-v0", "LunarLander-v3")


def lines(program):
    with default_types():
        return compiling.lines_of(jax.jit(program()).lower(jax.random.key(0)))


def recorded(what, id):
    rows = json.loads(RECORD.read_text())["rows"]
    return next(row["contestants"]["jaxenv"]["lines"] for row in rows if (row["what"], row["id"]) == (what, id))


@pytest.mark.parametrize("id", IDS)
def test_a_rollout_is_not_much_longer_than_recorded(id):
    assert lines(compiling.rollouts_of(id)["jaxenv"]) <= MORE * recorded("rollout", id)


@pytest.mark.parametrize("learner", ["ppo", "dqn", "sac"])
def test_a_learner_is_not_much_longer_than_recorded(learner):
    id, makers = compiling.learners_of(learner, None)
    assert lines(makers["jaxenv"]) <= MORE * recorded(learner, id)


def test_unrolled_steps_are_more_lines():
    env = jaxenv.make("CartPole-v1", num_envs=8)

    def program(steps):
        policy = jaxenv.rollout.random_policy(env)
        return lambda: lambda key: jaxenv.unroll(env, policy, *env.reset(key), 100, steps_per_iteration=steps)[1]

    assert lines(program(4)) > MORE * lines(program(1))


def test_a_function_counts_in_the_place_of_every_call_and_a_library_call_is_one_line():
    twice = jax.jit(lambda x: x @ x + 1)
    once = compiling.lines_of(jax.jit(lambda x: twice(x)).lower(jax.numpy.eye(3)))
    both = compiling.lines_of(jax.jit(lambda x: twice(twice(x))).lower(jax.numpy.eye(3)))
    assert both - once >= 4
    assert compiling.lines_of(jax.jit(jax.numpy.linalg.qr).lower(jax.numpy.eye(3))) > 0


def test_all_sides_are_compiled_and_a_missing_one_is_a_note(monkeypatch):
    def missing():
        raise Unavailable("no such peer")

    makers = {"jaxenv": lambda: lambda key: jax.random.bits(key), "gymnax": compiling.reference, "other": missing}
    row = compiling.row_of("rollout", "X-v0", makers, repeats=3)
    assert row["contestants"].keys() == {"reference", "jaxenv", "gymnax"}
    assert row["notes"] == ["no such peer"]
    for side in row["contestants"].values():
        assert side["total"] == pytest.approx(sum(side[stage] for stage in compiling.STAGES))
    assert row["contestants"]["gymnax"]["lines"] == row["contestants"]["reference"]["lines"]
    assert row["ratios"].keys() == {"gymnax"}


def test_every_id_has_a_peer_of_its_kind_and_every_learner_a_program():
    assert compiling.rollouts_of("SimpleSpread-mpe").keys() == {"jaxenv", "jaxmarl"}
    assert compiling.rollouts_of("CartPole-v1").keys() == {"jaxenv", "gymnax"}
    id, makers = compiling.learners_of("ppo of purejaxrl", None)
    assert (id, makers.keys()) == ("CartPole-v1", {"jaxenv", "purejaxrl"})
    assert set(compiling.LEARNERS) > set(updates.LEARNERS)
