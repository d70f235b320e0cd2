"""Environments under ``vmap``, ``grad`` and ``export``, and with 64-bit types enabled."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import jaxenv
from jaxenv import tree
from tests.rows import assert_equal, random_actions
from tests.stacks import STACKS, rows_of


def rollout(env, key, num_steps=32):
    state, timestep = env.reset(key)
    return jaxenv.unroll(env, jaxenv.rollout.random_policy(env), state, timestep, num_steps)[1]


def each(actions, num_steps):
    return [jax.tree.map(lambda a, t=t: a[t], actions) for t in range(num_steps)]


# --- vmap and grad ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reset", [pytest.param("cond", marks=pytest.mark.thorough), "compact"])
def test_vmap_over_seeds_equals_a_loop_over_them(reset):
    env = jaxenv.make("CartPole-v1", num_envs=5, reset_strategy=reset, max_episode_steps=9)
    keys = jax.random.split(jax.random.key(0), 3)
    together = jax.jit(jax.vmap(lambda key: rollout(env, key)))(keys)
    run = jax.jit(lambda key: rollout(env, key))
    for i, key in enumerate(keys):
        alone = jax.device_get(run(key))
        assert_equal(jax.device_get(jax.tree.map(lambda x, i=i: x[i], together)), alone, rtol=1e-4)


@pytest.mark.parametrize("reset", [pytest.param("cond", marks=pytest.mark.thorough), "compact"])
def test_vmap_over_environments_with_different_params_equals_a_loop(reset):
    env = jaxenv.make("CartPole-v1", num_envs=4, reset_strategy=reset, max_episode_steps=9)
    gravities = jnp.array([3.0, 9.8, 20.0])
    envs = jax.vmap(lambda g: env.with_params(gravity=g))(gravities)
    assert envs.unwrapped.params.gravity.shape == (3,)
    together = jax.jit(jax.vmap(rollout, in_axes=(0, None)))(envs, jax.random.key(0))
    for i, gravity in enumerate(gravities):
        alone = jax.device_get(jax.jit(rollout)(env.with_params(gravity=gravity), jax.random.key(0)))
        assert_equal(jax.device_get(jax.tree.map(lambda x, i=i: x[i], together)), alone, rtol=1e-4)


@pytest.mark.parametrize(
    ("id", "param", "value", "reset"),
    [
        pytest.param("CartPole-v1", "force", 10.0, "select", marks=pytest.mark.thorough),
        pytest.param("CartPole-v1", "force", 10.0, "cond", marks=pytest.mark.thorough),
        pytest.param("CartPole-v1", "force", 10.0, "compact", marks=pytest.mark.thorough),
        ("Pendulum-v1", "mass", 1.0, "select"),
    ],
)
def test_the_gradient_through_five_steps_equals_finite_differences(id, param, value, reset):
    env = jaxenv.make(id, num_envs=3, reset_strategy=reset)
    actions = random_actions(env, 5)

    def loss(x):
        stack = env.with_params(**{param: x})
        state, _ = stack.reset(jax.random.key(0))
        _, rows = jax.lax.scan(stack.step, state, actions)
        return jnp.sum(rows.observation[-1])

    step, loss = 0.02, jax.jit(loss)
    difference = (loss(value + step) - loss(value - step)) / (2 * step)
    assert abs(difference) > 1e-3
    for slope in (jax.grad(loss)(value), jax.jacfwd(loss)(value)):
        np.testing.assert_allclose(slope, difference, rtol=1e-2)


def test_forward_gradients_of_unrolled_steps_equal_reverse_ones():
    """In a large function the compiler may compute a value twice with different rounding; gradients must not change."""
    env = jaxenv.spec("Pendulum-v1").make(num_envs=3)
    actions = random_actions(env, 5)

    def rates(mass):
        stack = env.with_params(mass=mass)
        state, _ = stack.reset(jax.random.key(0))
        for action in actions:
            state, timestep = stack.step(state, action)
        return timestep.observation

    forward, reverse = jax.jit(jax.jacfwd(rates))(1.0), jax.jit(jax.jacrev(rates))(1.0)
    np.testing.assert_allclose(forward, reverse, rtol=1e-4)


def test_the_gradient_with_respect_to_a_bare_environment_is_an_environment():
    env = jaxenv.spec("CartPole-v1").make(num_envs=3)

    def loss(env):
        state, _ = env.reset(jax.random.key(0))
        return jnp.sum(env.step(state, jnp.ones(3, jnp.int32))[1].observation)

    slope = jax.grad(loss)(env)
    assert float(jnp.abs(slope.params.force)) > 0


def test_the_gradient_with_respect_to_a_continuous_action_passes_through_the_stack():
    env = jaxenv.make("Pendulum-v1", num_envs=2)
    state, _ = env.reset(jax.random.key(0))
    slope = jax.grad(lambda a: env.step(state, a)[1].observation[:, 2].sum())(jnp.zeros((2, 1)))
    np.testing.assert_allclose(slope, 3 * 0.05 * np.ones((2, 1)), rtol=1e-5)


# --- export ----------------------------------------------------------------------------------------------------------


def exported(function, *arguments):
    """Exports ``function``, jitted, and reads it back."""
    program = export.export(jax.jit(function), platforms=["cpu", "cuda", "tpu"])(*arguments)
    again = export.deserialize(program.serialize())
    assert again.platforms == ("cpu", "cuda", "tpu")
    return lambda *x: jax.device_get(again.call(*x))


@pytest.mark.parametrize("name", [pytest.param("same step, compact", marks=pytest.mark.thorough), "dict spaces"])
def test_reset_step_and_unroll_survive_export_to_all_platforms(name):
    env, actions, rows = rows_of(name)
    key = jax.random.key(0)
    state, timestep = exported(env.reset, key)(key)
    assert_equal(timestep, jax.tree.map(lambda x: x[0], rows), rtol=1e-5)
    action = each(actions, 1)[0]
    step = exported(env.step, state, action)
    assert_equal(step(state, action)[1], jax.tree.map(lambda x: x[1], rows), rtol=1e-4)

    policy = jaxenv.rollout.random_policy(env)
    unroll = exported(lambda state, timestep: jaxenv.unroll(env, policy, state, timestep, 32), state, timestep)
    _, experience = unroll(state, timestep)
    first, second = (jax.tree.map(lambda x, t=t: x[t], experience) for t in (0, 1))
    assert_equal(first.timestep, timestep)
    assert_equal(second.timestep, step(state, first.action)[1], rtol=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("id", jaxenv.ids())
def test_a_rollout_of_every_id_lowers_to_cuda_and_tpu(id):
    env = jaxenv.make(id, num_envs=4)
    policy = jaxenv.rollout.random_policy(env)
    program = export.export(
        jax.jit(lambda key: jaxenv.unroll(env, policy, *env.reset(key), 8)), platforms=["cuda", "tpu"]
    )(jax.random.key(0))
    assert program.platforms == ("cuda", "tpu")
    assert program.serialize()


def open_lanes(env):
    """Shapes of keys, state, TimeStep and action for a number of lanes that is left open."""
    (lanes,) = export.symbolic_shape("lanes")
    keys = jax.ShapeDtypeStruct((lanes,), jax.random.key(0).dtype)
    state, timestep = jax.eval_shape(env.reset, keys)
    action = jax.tree.map(lambda s: jax.ShapeDtypeStruct((lanes, *s.shape), s.dtype), env.action_spec())
    return keys, state, timestep, action


_LOADED = """
import sys
import jax
import numpy as np
from jax import export
import jaxenv

jaxenv.spec("CartPole-v1").make()  # imports the class of its state
files = (open(sys.argv[1] + name, "rb") for name in ("reset", "step", "unroll"))
reset, step, unroll = (export.deserialize(file.read()) for file in files)
state, timestep = reset.call(jax.random.split(jax.random.key(0), 5))
state, timestep = step.call(state, np.ones(5, np.int32))
rows = unroll.call(state, timestep)
np.savez(sys.argv[1] + "rows.npz", *jax.tree.leaves(rows))
"""


def test_an_exported_step_and_unroll_run_in_another_process_with_the_same_bits_for_any_number_of_lanes(tmp_path):
    env = jaxenv.make("CartPole-v1", 2, reset_strategy="compact", max_episode_steps=9, wrappers=["EpisodeStatistics"])
    policy = jaxenv.rollout.random_policy(env)
    keys, state, timestep, action = open_lanes(env)
    programs = {
        "reset": export.export(jax.jit(env.reset))(keys),
        "step": export.export(jax.jit(env.step))(state, action),
        "unroll": export.export(jax.jit(lambda *start: jaxenv.unroll(env, policy, *start, 16)))(state, timestep),
    }
    for name, program in programs.items():
        (tmp_path / name).write_bytes(program.serialize())
    here = f"{tmp_path}{os.sep}"
    same_compiler = {
        **os.environ,
        "JAX_DISABLE_MOST_OPTIMIZATIONS": str(jax.config.read("jax_disable_most_optimizations")),
    }
    done = subprocess.run([sys.executable, "-c", _LOADED, here], capture_output=True, text=True, env=same_compiler)
    assert done.returncode == 0, done.stderr[-3000:]

    start = programs["step"].call(
        programs["reset"].call(jax.random.split(jax.random.key(0), 5))[0], np.ones(5, np.int32)
    )
    rows = jax.device_get(programs["unroll"].call(*start))
    assert rows[1].timestep.env_info["episode"]["valid"].any()
    with np.load(tmp_path / "rows.npz") as loaded:
        for number, x in enumerate(jax.tree.leaves(rows)):
            np.testing.assert_array_equal(loaded[f"arr_{number}"], x)


@pytest.mark.parametrize(
    "id", ["BouncingSquares-v0", "Maze-13x13-v0", "MiniGrid-Empty-Random-5x5-v0", "NoisyArray-v0", "Swimmer-misc"]
)
def test_the_number_of_lanes_may_be_left_open(id):
    env = jaxenv.make(id, 2)
    _, state, timestep, action = open_lanes(env)
    stepped = jax.eval_shape(env.step, state, action)
    assert jax.tree.structure(stepped) == jax.tree.structure((state, timestep))
    assert jax.tree.leaves(stepped) == jax.tree.leaves((state, timestep))


def test_an_environment_that_holds_one_number_per_lane_keeps_its_number_of_lanes():
    with pytest.raises(ValueError, match=r"params.gravity holds 2 lanes, the batch"):
        open_lanes(jaxenv.make("CartPole-v1", 2, gravity=np.array([9.0, 10.0])))


def test_an_exported_function_may_take_the_environment_and_its_params():
    env = jaxenv.make("Pendulum-v1", 2)
    state, _ = env.reset(jax.random.key(0))
    step = exported(lambda env, state, action: env.step(state, action), env, state, np.ones((2, 1), np.float32))
    heavy = env.with_params(mass=2.0)
    expected = jax.device_get(jax.jit(heavy.step)(state, np.ones((2, 1), np.float32)))
    assert_equal(step(heavy, state, np.ones((2, 1), np.float32)), expected, rtol=1e-5)


def test_a_function_in_an_exported_environment_is_refused_with_its_name():
    env = jaxenv.wrappers.TransformReward(jaxenv.make("CartPole-v1"), lambda reward: -reward)
    program = export.export(jax.jit(lambda env: env.unwrapped.params.gravity))(env)
    with pytest.raises(ValueError, match=r"TransformReward: static field fn .*got <function"):
        program.serialize()


@pytest.mark.parametrize(
    "tag",
    [None, True, 3, 0.1, np.inf, "text", (1, ("a", 2.5)), np.dtype(np.int8), np.float32(0.1), np.int16(7)],
    ids=repr,
)
def test_a_static_field_survives_export(tag):
    @tree.struct
    class Tagged:
        x: jax.Array
        tag: object = tree.static()

    program = export.export(jax.jit(lambda: Tagged(jnp.ones(()), (tag,))))()
    kind, ((found,),) = export.deserialize(program.serialize()).out_tree.node_data()
    assert (kind, found, type(found)) == (Tagged, tag, type(tag))


def test_a_class_that_is_defined_again_can_be_exported_again():
    def define():  # as a notebook cell does
        @tree.struct
        class Cell:
            x: object

        return Cell

    for _ in range(3):
        cls = define()
        double = exported(lambda cell: tree.rebuild(cell, x=2 * cell.x), cls(jnp.ones(3)))
        out = double(cls(jnp.ones(3)))
        assert type(out) is cls
        assert out.x.tolist() == [2, 2, 2]


def test_named_tuples_can_be_exported():
    targets = jaxenv.data.Targets(jnp.ones(3), jnp.zeros(3))
    assert type(exported(lambda t: t, targets)(targets)) is jaxenv.data.Targets


# --- 64-bit types ----------------------------------------------------------------------------------------------------

_IN_X64 = """
import jax
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
import numpy as np
import jaxenv
from tests.stacks import STACKS, rows_of

for name, make in STACKS.items():
    env = make(5)
    start = jax.eval_shape(env.reset, jax.random.key(0))
    action = jax.eval_shape(lambda: jaxenv.specs.zeros(env.action_spec(), (5,)))
    for path, x in jax.tree_util.tree_leaves_with_path((start, jax.eval_shape(env.step, start[0], action))):
        assert np.dtype(x.dtype).itemsize <= 4, (name, jax.tree_util.keystr(path), x.dtype)
    print(name, float(np.sum(rows_of(name)[2].reward)) if name in RUN else "", sep="|")
"""

RUN = ("dict spaces",)  # stacks that are run too, since compilation takes long


def test_x64_changes_no_dtype_and_no_reward():
    cache = jax.config.jax_compilation_cache_dir
    done = subprocess.run(
        [sys.executable, "-c", f"RUN = {RUN}\n{_IN_X64}"],
        env={**os.environ, "JAX_ENABLE_X64": "1", "JAX_COMPILATION_CACHE_DIR": cache},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    wide = dict(line.split("|") for line in done.stdout.splitlines())
    assert wide.keys() == STACKS.keys()
    for name in RUN:
        assert float(wide[name]) == pytest.approx(float(np.sum(rows_of(name)[2].reward)), rel=1e-3), name
