"""Lanes sharded over simulated devices, in separate processes."""

import os
import subprocess
import sys

import pytest

from tests import eight_devices

_ON_FOUR_DEVICES = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import jaxenv
from tests.rows import assert_equal, random_actions

assert len(jax.devices()) == 4
mesh = Mesh(np.array(jax.devices()), ("lanes",))
lanes = NamedSharding(mesh, P("lanes"))
key = jax.random.key(0)
COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")


def make(reset):
    return jaxenv.make("CartPole-v1", num_envs=16, reset_strategy=reset, max_episode_steps=np.arange(3, 19))


# select under plain jit: the caller places the arrays, and the compiler keeps their sharding.
env = make("select")
actions = random_actions(env, 30)
step = jax.jit(env.step)
state, timestep = jax.jit(env.reset)(key)
sharded = jax.device_put(state, lanes)
spread = jax.jit(env.step, out_shardings=lanes)
text = spread.lower(sharded, jax.device_put(actions[0], lanes)).compile().as_text()
assert not any(name in text for name in COLLECTIVES)
for action in actions:
    state, timestep = step(state, action)
    sharded, row = spread(sharded, jax.device_put(action, lanes))
    assert_equal(jax.device_get(row), jax.device_get(timestep), rtol=1e-4)
assert int(env.clock(state).episode.min()) > 0
print("select")

# compact under shard_map: each shard restarts its own lanes, which have global ids.
env = make("compact")


def rollout(env, env_id, actions):
    state, timestep = env.reset(key, env_id=env_id)
    return jax.lax.scan(env.step, state, actions)[1]


whole = jax.device_get(jax.jit(rollout)(env, jnp.arange(16, dtype=jnp.int32), actions))
axes = jax.tree.map(lambda x: P("lanes") if x.ndim else P(), env)
shards = jax.jit(
    jax.shard_map(
        rollout, mesh=mesh, in_specs=(axes, P("lanes"), P(None, "lanes")), out_specs=P(None, "lanes")
    )
)
text = shards.lower(env, jnp.arange(16, dtype=jnp.int32), actions).compile().as_text()
assert not any(name in text for name in COLLECTIVES)
rows = jax.device_get(shards(env, jnp.arange(16, dtype=jnp.int32), actions))
assert rows.env_id[0].tolist() == list(range(16))
assert_equal(rows, whole, rtol=1e-4)
print("compact")
"""


@pytest.mark.compiled
def test_sharded_lanes_equal_unsharded_ones_without_collectives():
    # Lanes that communicate have the same results.
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-c", _ON_FOUR_DEVICES],
        env={**os.environ, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["select", "compact"]


@pytest.mark.compiled
def test_results_are_the_same_on_one_two_four_and_eight_devices():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-m", "tests.eight_devices"],
        env={**os.environ, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [check.__name__ for check in eight_devices.CHECKS]
