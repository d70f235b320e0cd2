"""Arguments of another type are refused by name before they are used: environments, rows, specs, streams, trees."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import canvas, data, plot, random, rollout, specs, stack, suites, testing, training, tree, wrappers
from jaxenv.testing import Counting
from tests.errors import like

env = Counting([4, 7], num_envs=2)
state, timestep = env.reset(jax.random.key(0))
stream = random.stream(jax.random.split(jax.random.key(1), 3))
spec = specs.Bounded((3,), np.float32, -1, 2)
objects = np.array([object(), object()])
mask = np.array([True, False])
config = training.ppo.Config()

CALLS = {
    # --- an environment is meant ---
    "id for to_data": (lambda: jaxenv.to_data("CartPole-v1"), "to_data: env ...got 'CartPole-v1'"),
    "nothing for layers": (lambda: stack.layers(None), "layers: env ...got None"),
    "number for wrappers": (lambda: wrappers.from_data(3, []), "from_data: env ...got 3"),
    "class": (
        lambda: wrappers.to_data(Counting),
        "layers: env ...got the class Counting",
    ),
    "id for reset_where": (
        lambda: jaxenv.reset_where("CartPole-v1", state, timestep, mask),
        "reset_where: env ...got 'CartPole-v1'",
    ),
    "id for step_where": (
        lambda: jaxenv.step_where("CartPole-v1", state, timestep, jnp.zeros(2), mask),
        "step_where: env ...got 'CartPole-v1'",
    ),
    # --- a state, rows, an action ---
    "row for step_where": (
        lambda: jaxenv.step_where(env, timestep, timestep, jnp.zeros(2, jnp.int32), mask),
        "step_where: state ...got a TimeStep",
    ),
    "nothing for policy_stream": (
        lambda: rollout.policy_stream(env, None),
        "policy_stream: state ...got None",
    ),
    "objects for an action": (lambda: env.step(state, objects), "step: action ...got object"),
    "objects for a mask": (
        lambda: jaxenv.reset_where(env, state, timestep, objects),
        "reset_where: mask ...got object[2]",
    ),
    "row for statistics": (
        lambda: wrappers.statistics(wrappers.NormalizeReward(env), timestep),
        "statistics: state ...got a TimeStep",
    ),
    "map of no row": (
        lambda: wrappers.map_observation(jnp.abs, state),
        "map_observation: timestep ...got TaskState",
    ),
    "reward of text": (lambda: jaxenv.transition(jnp.zeros((2, 3)), "x"), "transition: reward ...got 'x'"),
    "no discount": (lambda: jaxenv.truncation(jnp.zeros((2, 3)), 1, None), "truncation: discount ...got None"),
    "shape of a reward": (
        lambda: jaxenv.restart(jnp.zeros((2, 3)), reward_shape=2),
        "restart: reward_shape ...got 2",
    ),
    "key of lanes": (
        lambda: random.lane_words(jax.random.PRNGKey(0), jnp.arange(2)),
        "lane_words: key ...got uint32[2]",
    ),
    "lanes of floats": (
        lambda: random.lane_words(jax.random.key(0), jnp.zeros(2)),
        "lane_words: env_id ...got float32[2]",
    ),
    # --- shardings, pictures, constructors ---
    "axis of a mesh": (
        lambda: jaxenv.partition_specs(state, axis_name=3),
        "partition_specs: axis_name ...got 3",
    ),
    "text to shard": (
        lambda: jaxenv.partition_specs({"arm": "left"}),
        "partition_specs: values.arm ...got 'left'",
    ),
    "axis of statistics": (
        lambda: wrappers.NormalizeReward(env, axis_name=3),
        "NormalizeReward: axis_name ...got 3",
    ),
    "spec of a transformed action": (
        lambda: wrappers.TransformAction(env, jnp.abs, spec={"arm": 3}),
        "TransformAction: spec.arm ...got 3",
    ),
    "spec of a goal": (
        lambda: wrappers.GoalConditioned(env, jnp.abs, jnp.abs, jnp.abs, goal_spec="x"),
        "GoalConditioned: goal_spec ...got 'x'",
    ),
    "film in a file": (
        lambda: wrappers.RecordVideo(jaxenv.make("CartPole-v1"), folder=__file__),
        rf"RecordVideo: folder ...got {__file__!r}: {__file__} is a file",
    ),
    "params without names": (
        lambda: wrappers.ResampleParams(env, [1]),
        "ResampleParams: distributions ...got [1]",
    ),
    "name of a task": (lambda: Counting([3], name=3), "Counting: name ...got 3"),
    "text in halves": (lambda: canvas.text_width("score", 2.5), "text_width: height ...got 2.5"),
    "colour": (lambda: canvas.mix(3, canvas.RED, 0.5), "mix: first ...got shape ()"),
    "fraction of a colour": (lambda: canvas.mix(canvas.BLUE, canvas.RED, 1.5), "mix: fraction ...got 1.5"),
    # --- specs ---
    "text for a spec": (lambda: specs.zeros("x"), "zeros: spec ...got 'x'"),
    "nothing for a spec": (lambda: specs.batched(None, 2), "batched: spec ...got None"),
    "array for a spec": (
        lambda: specs.flattened(np.zeros(2)),
        "flattened: spec ...got float64[2]",
    ),
    "leaf of a tree of specs": (
        lambda: specs.contains({"arm": 3}, {"arm": 3}),
        "contains: spec.arm ...got 3",
    ),
    "axes of a batch": (lambda: specs.contains(spec, np.zeros(3), -1), "contains: outer ...got [-1]"),
    "key of a sample": (
        lambda: specs.sample(spec, 3),
        "sample: key ...got 3",
    ),
    "text to flatten": (lambda: specs.flatten(spec, "x"), "flatten: value ...got 'x'"),
    "value of another shape": (lambda: specs.validate(spec, np.zeros(4)), "validate: value does... Bounded((3,)"),
    "one-hot": (lambda: specs.unflatten(spec, jnp.zeros(3), one_hot="yes"), "unflatten: one_hot must be True or False"),
    "dtype": (lambda: specs.flatten(spec, jnp.zeros(3), dtype="nope"), "flatten: dtype ...got 'nope'"),
    "spec to compare": (lambda: specs.require_equal(spec, np.zeros(3)), "require_equal: b ...got float64[3]"),
    "shape without axes": (lambda: specs.unbatched({"arm": 3}), "unbatched: spec ...got 3"),
    "objects of a spec": (
        lambda: specs.from_array(objects),
        "from_array: value ...got object",
    ),
    # --- random numbers ---
    "key for a stream": (lambda: random.normal(jax.random.key(0)), "random: stream ...got key"),
    "text for a key": (
        lambda: random.stream("key"),
        "random.stream: key ...got 'key'",
    ),
    "no bound": (lambda: random.uniform(stream, high=None), "random.uniform: high ...got None"),
    "text for a bound": (lambda: random.integers(stream, (), "x", 4), "random.integers: low ...got 'x'"),
    "probabilities": (lambda: random.bernoulli(stream, p=[1, "a"]), "random.bernoulli: p ...got a list"),
    "object for a salt": (lambda: random.fold_in(stream, object()), "random.fold_in: salt ...got <object"),
    # --- trees ---
    "path of a field": (lambda: tree.get_field(timestep, 3), "tree.get_field: path ...got 3"),
    "paths of fields": (
        lambda: tree.select_fields(timestep, "reward"),
        "tree.select_fields: paths ...got 'reward'",
    ),
    "index in halves": (
        lambda: tree.gather(jnp.zeros(2), jnp.zeros(2)),
        "tree.gather: index ...got float32[2]",
    ),
    "number to gather": (
        lambda: tree.gather({"arm": 3}, jnp.array([0])),
        "tree.gather: tree ...got 3",
    ),
    "no mask": (lambda: tree.where(None, 1, 2), "tree.where: mask ...got None"),
    "text to take": (
        lambda: tree.where(mask, {"arm": "left"}, {"arm": jnp.ones(2)}),
        "tree.where: new.arm ...got 'left'",
    ),
    "text to keep": (
        lambda: tree.where(mask, jnp.ones(2), "left"),
        "tree.where: old ...got 'left'",
    ),
    "nothing to take": (
        lambda: tree.where(mask, None, jnp.ones(2)),
        "tree.where: new ...got PyTreeDef(None)",
    ),
    "other tree to keep": (
        lambda: tree.where(mask, jnp.ones(2), {"arm": jnp.ones(2)}),
        "tree.where: new ...got PyTreeDef(*)",
    ),
    "lanes to take": (
        lambda: tree.where(mask, {"arm": jnp.ones((2, 4))}, {"arm": jnp.ones((2, 3))}),
        "tree.where: mask, old and new.arm ...got shapes (2,), (2, 3) and (2, 4)",
    ),
    "text for a class": (lambda: tree.struct("x"), "tree.struct: cls ...got 'x'"),
    "rank of a leaf": (lambda: tree.leaf(rank=2.5), "tree.leaf: rank ...got 2.5"),
    "end of a range": (lambda: tree.leaf(low="x"), "Range: low ...got 'x'"),
    # --- plots, checks, suites ---
    "title": (lambda: plot.evaluation(None, title=3), "plot.evaluation: title ...got 3"),
    "column": (lambda: plot.curves((np.arange(3), np.ones(3)), column=3), "plot.curves: column ...got 3"),
    "thin lines": (lambda: plot.curves((np.arange(3), np.ones(3)), seeds="yes"), "plot.curves: seeds must be True or"),
    "progress": (
        lambda: testing.check_env(env, progress="x"),
        "check_env: progress ...got 'x'",
    ),
    "properties": (lambda: testing.check_env(env, properties=3), "check_env: properties ...got 3"),
    "experiment": (lambda: suites.bsuite.load(3), "bsuite: name ...got 3"),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_another_type_is_refused_by_name(name):
    call, start = CALLS[name]
    with pytest.raises(ValueError, match=f"^{like(start)}"):
        call()


PATHS = {
    "CSV: path": lambda path: rollout.CSV(path),
    "Checkpointer: folder": lambda path: data.Checkpointer(path),
    "Film: path": lambda path: rollout.Film(np.zeros((2, 4, 6, 3), np.uint8)).save(path),
    "RecordVideo: folder": lambda path: wrappers.RecordVideo(jaxenv.spec("CartPole-v1").make(), path, size=(8, 9)),
    "TensorBoard: path": lambda path: rollout.TensorBoard(path),
    "checkpoint_info: path": lambda path: data.checkpoint_info(path),
    "load: folder": lambda path: training.load(path),
    "record: path": lambda path: jaxenv.record(jaxenv.make("CartPole-v1"), path=path),
    "restore: path": lambda path: data.restore(path, jnp.zeros(2)),
    "save: path": lambda path: data.save(path, jnp.zeros(2)),
    "train: folder": lambda path: training.seeds.train(config, 1, folder=path),
    "draw_curve: path": lambda path: training.seeds.draw_curve(path, None, "title"),
    "write_curve: path": lambda path: training.seeds.write_curve(path, None),
}


@pytest.mark.parametrize("path", [3, ["a"], objects[0], np.float32(3)], ids=["number", "list", "object", "numpy"])
@pytest.mark.parametrize("name", PATHS)
def test_a_path_that_is_no_path_is_refused_and_nothing_is_written(name, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=rf"^{name} .*got {re.escape(repr(path))}"):
        PATHS[name](path)
    assert not list(tmp_path.iterdir())


def test_plots_name_the_file_that_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"plot\.curves: runs .*nothing\.csv"):
        plot.curves(tmp_path / "nothing.csv")


def test_traced_arguments_are_allowed():
    moved = jax.jit(lambda state, mask: jaxenv.reset_where(env, state, timestep, mask))(state, mask)
    assert moved[0].clock.episode.tolist() == [1, 0]
    drawn = jax.jit(lambda p: random.bernoulli(stream, (), p))(jnp.array([0.0, 1.0, 0.0]))
    assert drawn.tolist() == [False, True, False]
    taken = jax.jit(lambda index: tree.gather(jnp.array([5, 7, 9]), index))(jnp.array([2, 0]))
    assert taken.tolist() == [9, 5]
