"""Lanes of a learner over simulated devices: the same run as on one, in a separate process."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv.training import dqn, lanes, ppo

_ON_EIGHT_DEVICES = """
import dataclasses
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxenv import partition_specs, tree
from jaxenv.training import dqn, lanes, ppo, sac, seeds
from tests.rows import assert_equal

assert len(jax.devices()) == 8
jax.config.update("jax_disable_most_optimizations", True)
SHORT = dict(num_envs=8, num_evaluations=2, num_eval_episodes=8, max_eval_steps=40, hidden=(4,))


def train(learner, config, devices):
    mesh = Mesh(np.array(jax.devices()[:devices]), ("lanes",)) if devices else None
    return jax.jit(learner.make_train(config, mesh=mesh))(jax.random.key(0))


def check_shared(run, devices):
    # All devices have the same weights, and each its own lanes.
    for x in jax.tree.leaves((run.params, run.optimizer, run.statistics)):
        shards = [np.asarray(shard.data) for shard in x.addressable_shards]
        assert len(shards) == devices
        for shard in shards[1:]:
            np.testing.assert_array_equal(shard, shards[0])
    assert run.timestep.env_id.sharding.spec == P("lanes")
    assert run.timestep.env_id.tolist() == list(range(8))


def assert_close(a, b):
    a, b = (jax.device_get((dataclasses.replace(run, key=()), curve)) for run, curve in (a, b))
    assert_equal(a[0].params, b[0].params, rtol=1e-5)  # a gradient step changes them by 1e-3
    assert_equal(a, b, rtol=1e-3)


# One minibatch, so that the shuffle changes nothing; short episodes, so that devices have other numbers of valid rows.
config = ppo.Config(
    env_options={"force": 40.0},
    num_steps=8, num_epochs=2, num_minibatches=1, total_steps=256, recurrent=3,
    normalize_observation=True, wrappers=("NormalizeReward",), **SHORT
)
one, eight = train(ppo, config, 0), train(ppo, config, 8)
check_shared(eight[0], 8)
assert int(one[1].train["episodes"].low.sum()) > 0
assert_close(eight, one)
print("ppo")

# Under plain jit the compiler shards what the lanes lead to.
run = ppo.make_train(config)
init, iteration = run.init, run.iteration
learner, mesh = init(jax.random.key(0)), Mesh(np.array(jax.devices()), ("lanes",))
spread = NamedSharding(mesh, P("lanes"))
placed = dataclasses.replace(
    jax.device_put(learner, NamedSharding(mesh, P())),
    timestep=jax.device_put(learner.timestep, spread),
    env_state=jax.tree.map(
        lambda x, spec: jax.device_put(x, NamedSharding(mesh, spec)),
        learner.env_state, partition_specs(learner.env_state),
    ),
)
_, expected = jax.jit(iteration)(learner)
_, found = jax.jit(iteration)(placed)
assert_equal(jax.device_get(found), jax.device_get(expected), rtol=2e-3)
print("jit")

# Batches of every transition in the buffer, so that the draws change nothing.
config = dqn.Config(
    num_steps=4, warmup_steps=64, buffer_size=64, n_step=1, batch_size=56, num_gradient_steps=2, total_steps=192,
    normalize_observation=True, **SHORT
)
one, four = train(dqn, config, 0), train(dqn, config, 4)
check_shared(four[0], 4)
assert_close(four, one)
config = dataclasses.replace(config, priority_exponent=0.6)
run, _ = train(dqn, config, 4)
check_shared(run, 4)
assert len({x.tobytes() for x in np.asarray(run.buffer.sampling.sum_tree.sums)}) == 4  # each has its priorities
print("dqn")

# The noise differs with the devices; the rows of the warm-up do not.
config = sac.Config(
    num_steps=2, warmup_steps=64, buffer_size=256, batch_size=16, num_gradient_steps=2, total_steps=96, **SHORT
)
one, two = (train(sac, config, devices)[0] for devices in (0, 2))
check_shared(two, 2)
first = [np.asarray(run.buffer.rows.policy_info)[0, :, :8] for run in (one, two)]
np.testing.assert_allclose(first[0], first[1], rtol=1e-5)
print("sac")

# Two seeds on four devices: two groups of two.
config = ppo.Config(num_steps=8, num_epochs=1, num_minibatches=1, total_steps=128, **SHORT)
*_, one = seeds.train(config, 2)
*_, four = seeds.train(config, 2, devices=4)
assert four.curve.returns.sharding.spec == P(None, "seeds", "lanes"), four.curve.returns.sharding.spec
assert_close((four.learner, four.curve), (one.learner, one.curve))
print("seeds")
"""


def test_a_run_is_the_same_on_one_and_on_several_devices():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-c", _ON_EIGHT_DEVICES],
        env={**os.environ, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["ppo", "jit", "dqn", "sac", "seeds"]


@pytest.mark.parametrize(
    "config",
    [ppo.Config(num_envs=15, num_minibatches=1), ppo.Config(num_eval_episodes=15), dqn.Config(batch_size=15)],
    ids=["num_envs", "num_eval_episodes", "batch_size"],
)
def test_what_the_devices_cannot_share_equally_is_refused(config, request):
    learner = ppo if isinstance(config, ppo.Config) else dqn
    mesh = jax.sharding.AbstractMesh((2,), ("lanes",))
    name = request.node.callspec.id
    with pytest.raises(ValueError, match=f"Config: 2 devices .*{name}, got 15"):
        learner.make_train(config, mesh=mesh)


def test_means_are_over_valid_rows_and_others_may_be_nan():
    mean = lanes.DeviceLanes(ppo.Config(), None).means(jnp.array([True, False, True, False]))
    rows = jnp.array([[1.0, np.nan, 4, 3], [2.0, np.inf, 4, np.nan]])
    assert float(mean(rows[0])) == 2.5
    assert float(mean(rows)) == 5.5  # the sum over both critics of SAC
    assert jax.grad(lambda x: mean(x**2))(rows[0]).tolist()[::2] == [1, 4]
    assert float(lanes.DeviceLanes(ppo.Config(), None).means(jnp.zeros(4, bool))(rows[0])) == 0


def test_a_mesh_without_an_axis_of_lanes_is_refused():
    with pytest.raises(ValueError, match=r"ppo.Config: mesh .*got \('data',\)"):
        ppo.make_train(ppo.Config(), mesh=jax.sharding.AbstractMesh((1,), ("data",)))
