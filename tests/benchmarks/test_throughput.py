"""Steps and episodes are counted exactly, peers with a different task are excluded, and timing is interleaved."""

import sys
import types

import jax
import jax.numpy as jnp
import pytest

import jaxenv
from benchmarks import __main__ as program
from benchmarks import measure, ours, peers, scaling
from tests.benchmarks.sizes import LANES, STEPS


def first_rows(id, seed):
    """Counts the FIRST rows that ``STEPS`` steps return."""
    env = jaxenv.make(id, num_envs=LANES)
    state, timestep = env.reset(jax.random.key(seed))
    (_, last, _), rows = jaxenv.unroll(env, jaxenv.rollout.random_policy(env), state, timestep, STEPS)
    return int(rows.timestep.is_first()[1:].sum()) + int(last.is_first().sum())


@pytest.mark.parametrize(
    "loop", [pytest.param([], id="sums"), pytest.param(["--loop", "stored"], id="stored", marks=pytest.mark.thorough)]
)
def test_both_sides_count_their_steps_exactly(run, loop):
    content = run("throughput", "--ids", "CartPole-v1", "--peers", "gymnax", *loop)
    (row,) = content["rows"]
    assert row["notes"] == []
    mine, theirs = (row["contestants"][name] for name in ("jaxenv", "gymnax"))
    restarts = first_rows("CartPole-v1", seed=1)
    assert restarts > 0
    assert mine["steps"] == [LANES * STEPS - restarts]
    assert theirs["steps"] == [LANES * STEPS]
    assert mine["episodes"][0] >= restarts
    assert theirs["episodes"][0] > 0
    assert row["ratios"] == {"gymnax": pytest.approx(mine["steps_per_second"] / theirs["steps_per_second"])}


def test_all_sides_store_the_same_fields():
    def stored(contestant):
        return {k: (x.shape, x.dtype.itemsize) for k, x in contestant.run(0).items() if k != "steps"}

    settings = ("CartPole-v1", LANES, STEPS, "stored")
    expected = stored(ours.rollout_of_id(*settings))
    assert stored(ours.broadcast(*settings[:3])) == expected
    assert expected["observation"] == ((STEPS, LANES, 4), 4)
    assert expected.keys() == {"observation", "action", "reward", "terminated", "truncated"}
    assert stored(peers.gymnax(*settings)) == expected


def test_tree_of_actions_is_stored_by_the_limit_as_well():
    id, num_envs = "MixedPolicyUnittest-v0", 4

    def stored(contestant):
        return jax.tree.map(lambda x: (x.shape, x.dtype), contestant.run(0))

    limit = stored(ours.broadcast(id, num_envs, 3))
    assert len(limit["action"]) == 2
    assert limit == stored(ours.rollout_of_id(id, num_envs, 3, "stored"))
    assert scaling.memory(id, num_envs)["action_bytes_per_lane"] == 8


def test_stored_rows_are_compared_with_a_loop_that_stores_as_many_bytes(run, capsys):
    (row,) = run("throughput", "--ids", "MiniGrid-Empty-5x5-v0", "--peers", "--loop", "stored")["rows"]
    (mine,), (limit,) = (row["contestants"][name]["seconds"] for name in ("jaxenv", "broadcast"))
    assert row["of_broadcast"] == pytest.approx(limit / mine)
    assert row["observation_bytes_per_second"] == pytest.approx(LANES * STEPS * (7 * 7 * 3 + 4) / mine)
    assert row["ratios"] == {}
    assert "of broadcast" in capsys.readouterr().out


def test_gymnasium_rows_that_start_an_episode_are_not_counted_as_steps(run):
    pytest.importorskip("gymnasium")
    content = run("throughput", "--ids", "CartPole-v1", "--peers", "gymnasium")
    theirs = content["rows"][0]["contestants"]["gymnasium"]
    restarts = LANES * STEPS - theirs["steps"][0]
    # Every end except those on the last row is followed by a row that is not a step.
    assert 0 < theirs["episodes"][0] - LANES <= restarts <= theirs["episodes"][0]
    assert theirs["compile_seconds"] is None


def test_box2d_runs_in_worker_processes_which_are_closed(run, monkeypatch):
    # CartPole stands in for Box2D, which may not be installed.
    gymnasium = pytest.importorskip("gymnasium")
    cart_pole = pytest.importorskip("gymnasium.envs.classic_control").CartPoleEnv
    closed = []

    def make_vec(id, num_envs, vectorization_mode):
        assert (id, num_envs, vectorization_mode) == ("CartPole-v1", peers.ASYNC_WORKERS, "async")
        envs = gymnasium.vector.SyncVectorEnv([cart_pole] * num_envs)
        monkeypatch.setattr(envs, "close_extras", lambda **_: closed.append(True))
        return envs

    monkeypatch.setattr(gymnasium, "make_vec", make_vec)
    monkeypatch.setattr(gymnasium.registry["CartPole-v1"], "entry_point", "gymnasium.envs.box2d:Cart")
    row = run("throughput", "--ids", "CartPole-v1", "--peers", "gymnasium")["rows"][0]
    assert 0 < row["contestants"]["gymnasium"]["steps"][0] <= peers.ASYNC_WORKERS * STEPS
    assert closed == [True]


def test_box2d_that_is_not_installed_is_a_note(monkeypatch):
    gymnasium = pytest.importorskip("gymnasium")

    def make_vec(*_, **__):
        raise gymnasium.error.DependencyNotInstalled("Box2D is not installed")

    monkeypatch.setattr(gymnasium, "make_vec", make_vec)
    with pytest.raises(peers.Unavailable, match="cannot make LunarLander-v3: Box2D is not installed"):
        peers.gymnasium("LunarLander-v3", LANES, STEPS)


def test_envpool_receives_the_time_limit_and_one_action_per_lane(run, monkeypatch):
    # Gymnasium's vector environment stands in for EnvPool, whose action space is that of a single lane.
    gymnasium = pytest.importorskip("gymnasium")

    class Pool:
        def __init__(self, id, env_type, num_envs, max_episode_steps):
            assert (id, env_type, num_envs, max_episode_steps) == ("CartPole-v1", "gymnasium", LANES, 500)
            self.envs = gymnasium.make_vec(id, num_envs, vectorization_mode="vector_entry_point")
            self.action_space = self.envs.single_action_space

        def reset(self):
            return self.envs.reset(seed=0)

        def step(self, action):
            assert action.shape == (LANES,)
            return self.envs.step(action)

        def close(self):
            self.envs.close()

    fake = types.SimpleNamespace(make=Pool, list_all_envs=lambda: ["CartPole-v1"])
    monkeypatch.setitem(sys.modules, "envpool", fake)
    row, other = run("throughput", "--ids", "CartPole-v1", "CardGame-v0", "--peers", "envpool")["rows"]
    theirs = row["contestants"]["envpool"]
    assert 0 < theirs["episodes"][0] - LANES <= LANES * STEPS - theirs["steps"][0] <= theirs["episodes"][0]
    assert other["notes"] == ["envpool has no CardGame-v0"]


def test_popgym_plays_one_lane_and_restarts_it_after_each_end(run, monkeypatch):
    gymnasium = pytest.importorskip("gymnasium")

    class Game(gymnasium.Env):
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, seed=None):
            self.time = 0
            return 0, {}

        def step(self, action):
            assert self.time is not None
            time, self.time = self.time + 1, self.time + 1 if self.time < 4 else None
            return 0, 0.0, time == 5, False, {}

    envs = types.SimpleNamespace(RepeatFirstEasy=Game)
    monkeypatch.setitem(sys.modules, "popgym", types.SimpleNamespace(envs=envs))
    row, other = run("throughput", "--ids", "RepeatFirstEasy-popgym", "CardGame-v0", "--peers", "popgym")["rows"]
    theirs = row["contestants"]["popgym"]
    assert (theirs["steps"], theirs["episodes"]) == ([8 * STEPS], [8 * STEPS // 5])
    assert other["notes"] == ["popgym has no CardGame-v0"]


def test_popjaxrl_restarts_lanes_at_its_own_time_limit(run, monkeypatch):
    environment = pytest.importorskip("gymnax").environments.environment

    class Game(environment.Environment):  # as written for gymnax 0.0.6: without params, ends in the step
        def step_env(self, key, time, action, params):
            return jnp.zeros(1), time + 1, jnp.zeros(()), time + 1 == 5, {"discount": self.discount(time, params)}

        def reset_env(self, key, params):
            return jnp.zeros(1), jnp.zeros((), jnp.int32)

        def is_terminal(self, time, params):
            return time == 5

        def action_space(self, params):
            return pytest.importorskip("gymnax").environments.spaces.Discrete(2)

    made = []
    registration = types.SimpleNamespace(make=lambda name: made.append(name) or (Game(), ()))
    monkeypatch.setitem(sys.modules, "popjaxrl", types.ModuleType("popjaxrl"))
    monkeypatch.setitem(sys.modules, "popjaxrl.envs", types.SimpleNamespace(registration=registration))
    ids = ["NoisyPositionOnlyCartPoleEasy-popgym", "VelocityOnlyCartPoleEasy-popgym"]
    row, other = run("throughput", "--ids", *ids, "--peers", "popjaxrl")["rows"]
    assert made == ["NoisyStatelessCartPoleEasy"]
    theirs = row["contestants"]["popjaxrl"]
    assert (theirs["steps"], theirs["episodes"]) == ([LANES * STEPS], [LANES * STEPS // 5])
    assert other["notes"] == [f"popjaxrl has no {ids[1]}"]


def test_suite_writes_one_file_per_run_with_the_given_prefix(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(program, "run_part", lambda part, arguments: ran.append([part, *arguments]) or part == "limit")
    settings = ["--folder", str(tmp_path), "--prefix", "here", "--num-envs", "8", "--repeats", "2"]
    assert program.module_of("suite").main(settings) == 1
    for part, *arguments in ran:
        program.parse(part, arguments)  # exits if the part rejects an argument
    apart = {"device", "launches", "suite", "suites", "libraries", "compare", "training", "devices", "model", "bsuite"}
    apart |= {"memories", "mazes", "levels", "boards", "match", "agents", "updates"}
    assert {line[0] for line in ran} == program.PARTS.keys() - apart
    files = [line[line.index("--json") + 1] for line in ran]
    assert len(set(files)) == len(ran)
    assert all(name.startswith(str(tmp_path / "here")) for name in files)


def test_result_file_records_settings_machine_and_versions(run):
    content = run("throughput", "--ids", "CardGame-v0", "--peers", "gymnax")
    assert content["settings"]["repeats"] == 1
    record = content["record"]
    expected = {"date", "commit", "device", "cpu", "cpu_count", "load_average_before", "load_average_after", "versions"}
    assert expected <= record.keys()
    assert {"jaxenv", "jax", "jaxlib", "numpy", "gymnax"} <= record["versions"].keys()
    (row,) = content["rows"]
    assert (row["id"], row["num_envs"], row["num_steps"]) == ("CardGame-v0", LANES, STEPS)
    assert row["contestants"]["jaxenv"].keys() == {
        "steps_per_second",
        "compile_seconds",
        "seconds",
        "steps",
        "episodes",
    }
    # The peer lacks this id, so there is no ratio.
    assert row["ratios"] == {}
    assert row["notes"] == ["gymnax has no CardGame-v0"]


def test_peer_with_different_constants_is_not_compared(monkeypatch):
    monkeypatch.setitem(peers.CONSTANT_NAMES, "CartPole-v1", {"length": "masspole"})
    with pytest.raises(
        peers.Unavailable, match=r"gymnax has a.* CartPole-v1: masspole is 0\.1, but length is 0\.5 in jaxenv"
    ):
        peers.gymnax("CartPole-v1", LANES, STEPS)


def test_default_run_lasts_at_least_three_mean_episodes(monkeypatch):
    assert 1 <= ours._mean_length("CardGame-v0") < 21
    monkeypatch.setattr(ours, "_mean_length", lambda id: 200.0)
    assert ours.default_num_steps("Pendulum-v1", LANES) == 2**20 // LANES
    assert ours.default_num_steps("Pendulum-v1", 2**20) == 3 * (200 + 1)


def test_default_run_stores_a_limited_number_of_bytes(monkeypatch):
    monkeypatch.setattr(ours, "_mean_length", lambda id: 9.0)
    size = 10 * 10 * 10  # bytes of an image of Seaquest
    assert ours.default_num_steps("Seaquest-MinAtar", 2048, "stored") == 2**29 // (2048 * size)
    assert ours.default_num_steps("Seaquest-MinAtar", 2**20, "stored") == 1
    assert ours.default_num_steps("CardGame-v0", 2048, "stored") == 2**20 // 2048


def test_each_round_starts_with_a_different_run():
    order = []
    runs = {name: lambda seed, name=name: order.append((seed, name)) for name in "abc"}
    timed = measure.time_interleaved(runs, 3)
    assert [name for _, name in order] == list("abc" + "abc" + "bca" + "cab")
    assert [seed for seed, _ in order] == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert [len(t) for t in timed.values()] == [3, 3, 3]
