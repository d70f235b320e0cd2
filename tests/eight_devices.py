"""What holds of lanes on 1, 2, 4 and 8 devices: run by tests/test_sharding.py in a process that simulates eight.

Prints the name of every check that passes.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxenv
from jaxenv import data, partition_specs, rollout
from jaxenv.cli.rollout import compiled
from tests.rows import assert_equal

LANES = 8
DEVICES = (1, 2, 4, 8)
COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
LIMITS = np.arange(3, 3 + LANES)  # every lane ends at another step

STACKS = {
    "params and limits per lane": lambda: jaxenv.make(
        "CartPole-v1", LANES, max_episode_steps=LIMITS, length=np.linspace(0.3, 1, LANES, dtype=np.float32)
    ),
    "compact restarts": lambda: jaxenv.make(
        "CardGame-v0", LANES, reset_strategy="compact", max_episode_steps=LIMITS, wrappers=["RunStats"]
    ),
    "lane state, same_step": lambda: jaxenv.make(
        "Catch-bsuite",
        LANES,
        autoreset="same_step",
        wrappers=[("StickyAction", {"probability": 0.25}), ("FrameStack", {"num": 2}), "EpisodeStatistics"],
    ),
    "statistics of all lanes": lambda: jaxenv.make(
        "Pendulum-v1",
        LANES,
        max_episode_steps=LIMITS,
        wrappers=[(name, {"axis_name": "lanes"}) for name in ("NormalizeReward", "NormalizeObservation")],
    ),
}


def lanes_of(devices, numbers=LANES):
    mesh = Mesh(np.array(jax.devices()[:devices]), ("lanes",))
    return mesh, jax.device_put(jnp.arange(numbers, dtype=jnp.int32), NamedSharding(mesh, P("lanes")))


def collectives(compiled):
    return [name for name in COLLECTIVES if name in compiled.as_text()]


def check_trajectories():
    for name, make in STACKS.items():
        env, compared = make(), None
        for devices in DEVICES:
            found, communicates = played(env, devices)
            assert not communicates or name == "statistics of all lanes", (name, communicates)
            rows = found[0].timestep
            assert rows.env_id[-1].tolist() == list(range(LANES)), name
            assert (rows.step_type == 2).any(axis=0).all(), name
            compared = compared or found
            assert_equal(found, compared, rtol=1e-4)
        assert (rows.prev_action != rows.prev_action[:, :1]).any(), name  # lanes differ
    statistics = jaxenv.wrappers.statistics(env, compared[1], "NormalizeObservation")
    assert int(statistics.count) == LANES * 26


def played(env, devices):
    """Rows and last state of a rollout on some devices, and the collectives of the program."""

    def play(env, env_id):
        state, timestep = env.reset(jax.random.key(0), env_id=env_id)
        (state, _, _), rows = jaxenv.unroll(env, rollout.random_policy(env), state, timestep, 25)
        return rows, state

    mesh, env_id = lanes_of(devices)
    of_state, _ = partition_specs(env.start_shapes())
    specs = {"in_specs": (partition_specs(env), P("lanes")), "out_specs": (P(None, "lanes"), of_state)}
    compiled = jax.jit(jax.shard_map(play, mesh=mesh, **specs)).lower(env, env_id).compile()
    return jax.device_get(compiled(env, env_id)), collectives(compiled)


def check_evaluate():
    env = jaxenv.make("CartPole-v1", LANES)

    def play(key, num_episodes=2 * LANES, env_id=None):
        return rollout.evaluate(env, rollout.random_policy(env), key, num_episodes, env_id=env_id)

    key, keys = jax.random.key(0), jax.random.split(jax.random.key(1), LANES)
    one, many = jax.device_get(jax.jit(lambda: (play(key), play(keys)))())
    for devices in DEVICES[1:]:
        mesh, env_id = lanes_of(devices)
        sharded = jax.device_put(keys, env_id.sharding)
        shard = jax.shard_map(
            lambda keys, env_id, n=2 * LANES // devices: (play(key, n, env_id), play(keys, n, env_id)),
            mesh=mesh,
            in_specs=P("lanes"),
            out_specs=P("lanes"),
        )
        compiled = jax.jit(shard).lower(sharded, env_id).compile()
        assert not collectives(compiled)
        assert_equal(jax.device_get(compiled(sharded, env_id)), (one, many), rtol=1e-4)
    for types in (jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit):
        mesh = jax.make_mesh((4,), ("lanes",), axis_types=(types,))
        sharded = jax.device_put(keys, NamedSharding(mesh, P("lanes")))
        assert_equal(jax.device_get(jax.jit(play)(sharded)), many, rtol=1e-4)


def check_rollout_command():
    for env in (
        jaxenv.make("Pendulum-v1", LANES, max_episode_steps=LIMITS, wrappers=["NormalizeReward"]),
        jaxenv.make("CartPole-v1", LANES, length=np.linspace(0.3, 1, LANES)),
    ):
        plays = (compiled(env, 40, jax.random.key(0), devices)[1]() for devices in (1, 8))
        one, eight = ([*play][-1][-1] for play in plays)
        assert one["episodes"] > LANES
        a, b = (np.array(list(metrics.values()), np.float64) for metrics in (one, eight))  # None becomes NaN
        np.testing.assert_allclose(a, b, rtol=1e-4)


def check_pictures():
    mesh = jax.make_mesh((4,), ("lanes",), axis_types=(jax.sharding.AxisType.Explicit,))
    for id in ("CardGame-v0", "FrozenLake-v1"):  # numbers, and a grid of tiles
        env = jaxenv.make(id, LANES)
        state, _ = env.reset(jax.random.key(0))
        sharded = env.render(jax.device_put(state, NamedSharding(mesh, P("lanes"))), 16)
        assert sharded.sharding.spec[0] == "lanes"
        np.testing.assert_array_equal(sharded, env.render(state, 16))


def check_explicit_axes():
    by_lane = NamedSharding(jax.make_mesh((4,), ("lanes",), axis_types=(jax.sharding.AxisType.Explicit,)), P("lanes"))
    for id, strategy in (("CardGame-v0", "compact"), ("CardGame-v0", "cond"), ("Maze-13x13-v0", None)):
        env = jaxenv.make(id, LANES, reset_strategy=strategy, max_episode_steps=2)
        action = env.action_spec().zeros((LANES,))
        expected = env.reset(jax.random.key(0))
        found = jax.device_put(expected, by_lane)
        for _ in range(4):
            expected, found = (env.step(state, action) for state, _ in (expected, found))
        assert found[1].reward.sharding.spec[0] == "lanes"
        assert_equal(jax.device_get(found), jax.device_get(expected))


def check_replay():
    env = jaxenv.make("Catch-bsuite", LANES)

    def store(env_id):
        state, timestep = env.reset(jax.random.key(0), env_id=env_id)
        _, rows = jaxenv.unroll(env, rollout.random_policy(env), state, timestep, 20)
        replay = data.Replay(capacity=32, num_envs=len(env_id))
        buffer = replay.add(replay.init(rows), rows)
        transitions, _ = replay.sample_transitions(buffer, jax.random.key(1), 2 * len(env_id))
        return buffer.rows, transitions.observation

    whole, _ = jax.jit(store)(jnp.arange(LANES, dtype=jnp.int32))
    mesh, env_id = lanes_of(4)
    specs = P(None, "lanes"), P("lanes")  # pages of 16 rows of each lane; transitions
    shards = jax.jit(jax.shard_map(store, mesh=mesh, in_specs=P("lanes"), out_specs=specs))
    assert not collectives(shards.lower(env_id).compile())
    rows, observation = shards(env_id)
    assert_equal(jax.device_get(rows), jax.device_get(whole))
    assert observation.shape[0] == 2 * LANES


CHECKS = (
    check_trajectories,
    check_evaluate,
    check_rollout_command,
    check_pictures,
    check_explicit_axes,
    check_replay,
)

if __name__ == "__main__":
    assert len(jax.devices()) == 8
    jax.config.update("jax_disable_most_optimizations", True)
    for check in CHECKS:
        check()
        print(check.__name__, flush=True)
