"""Gymnasium's environments: equal to its bare engines, under the rows of this library; faults of workers."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv._util.library import default_types
from jaxenv.rollout.play._game import Game
from jaxenv.suites import gymnasium as suite
from jaxenv.suites._engine import distinct
from jaxenv.suites.gymnasium import HostEnvironmentError
from jaxenv.testing import check_env
from jaxenv.training import ppo

gymnasium = pytest.importorskip("gymnasium", "1.3")
from tests.suites.host_environments import Counter, Text  # noqa: E402

for entry in (Counter, Text):
    if f"Host{entry.__name__}-v0" not in gymnasium.registry:
        gymnasium.register(f"Host{entry.__name__}-v0", entry, max_episode_steps=100)

LANES = 2
pytestmark = pytest.mark.usefixtures("quiet")
# What compiled code raises for an error in a callback; its text holds that of the error.
FAILED = (HostEnvironmentError, jax.errors.JaxRuntimeError)


@pytest.fixture
def load(loaded):
    """``jaxenv.make`` for the suite; what it loads is closed after the test."""

    def load(name, num_envs=LANES, vectorization="sync", **kwargs):
        loaded.append(jaxenv.make(f"gymnasium:{name}", num_envs, vectorization=vectorization, **kwargs))
        return loaded[-1]

    return load


def zeros(env):
    return env.action_spec().zeros((env.num_envs,))


def rows_of(env, num_steps, key=0):
    """The trajectory of random actions, in compiled code."""
    policy = jaxenv.rollout.random_policy(env)
    run = jax.jit(lambda key: jaxenv.unroll(env, policy, *env.reset(key), num_steps)[1])
    return jax.device_get(run(jax.random.key(key)))


# --- rows ------------------------------------------------------------------------------------------------------------


def assert_equals_bare_engine(name, env, rows, **kwargs):
    """Plays the actions of a trajectory on Gymnasium's own engine and compares whole episodes."""
    clock = env.clock(env.reset(jax.random.key(0))[0])
    seeds = [int(word) for word in jaxenv.random.bits(clock.stream("seed"))]
    bare = gymnasium.make_vec(name, env.num_envs, vectorization_mode="sync", **kwargs)
    observation, _ = bare.reset(seed=seeds)
    ended, ours = np.zeros(env.num_envs, bool), rows.timestep
    np.testing.assert_array_equal(ours.observation[0], observation)
    for t, action in enumerate(rows.action[:-1], start=1):
        observation, reward, terminated, truncated, _ = bare.step(action)
        np.testing.assert_array_equal(ours.observation[t], observation)
        np.testing.assert_array_equal(ours.reward[t], reward.astype(np.float32))
        last = terminated | truncated
        np.testing.assert_array_equal(ours.step_type[t], np.where(ended, 0, np.where(last, 2, 1)))
        np.testing.assert_array_equal(ours.discount[t], np.where(terminated, 0, 1))
        ended = last
    bare.close()


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_whole_episodes_equal_those_of_the_bare_engine(load, vectorization, monkeypatch):
    env = load("CartPole-v1", vectorization=vectorization, max_episode_steps=15)
    rows = rows_of(env, 60)
    ours = rows.timestep
    last = ours.step_type == 2
    assert (last & (ours.discount == 0)).any()
    assert (last & (ours.discount == 1)).any()
    np.testing.assert_array_equal(ours.prev_action[1:], np.where(ours.step_type[1:] == 0, 0, rows.action[:-1]))
    assert_equals_bare_engine("CartPole-v1", env, rows, max_episode_steps=15)


@pytest.mark.parametrize(("limit", "discount"), [(3, 0), (2, 1)])
def test_a_termination_on_the_step_of_the_limit_is_no_truncation(load, limit, discount):
    rows = rows_of(load("HostCounter-v0", max_episode_steps=limit), limit + 1).timestep  # the task ends at 3
    assert rows.step_type[limit].tolist() == [2] * LANES
    assert rows.discount[limit].tolist() == [discount] * LANES


@pytest.mark.parametrize(("name", "num_steps"), [("LunarLander-v3", 150), ("BipedalWalker-v3", 120)])
@pytest.mark.filterwarnings("ignore:.*[Ss]wig.*:DeprecationWarning", "ignore:.*precision lowered:UserWarning")
def test_episodes_of_box2d_equal_those_of_the_bare_engine(load, name, num_steps):
    pytest.importorskip("Box2D")
    env = load(name, max_episode_steps=60)
    rows = rows_of(env, num_steps)
    assert (rows.timestep.step_type == 2).any()
    assert_equals_bare_engine(name, env, rows, max_episode_steps=60)


def test_spaces_become_specs_and_actions_arrive_in_them(load):
    env = load("HostCounter-v0")
    assert env.observation_spec()["steps"].dtype == np.float32
    assert env.action_spec()["move"] == jaxenv.specs.Bounded((), np.int32, -1, 1)
    action = {
        "move": jnp.array([-7, 1]),
        "pair": (jnp.array([[1, 2], [0, 1]]), jnp.array([[jnp.nan], [9.0]])),
    }
    state, _ = env.reset(jax.random.key(0))
    state, row = jax.jit(env.step)(state, action)  # the environment asserts that the action is in its space
    assert row.reward.tolist() == [-0.625, 1.125]
    assert row.observation["steps"].tolist() == [1, 1]
    assert row.env_info == {}


def test_seeds_differ_between_lanes_and_resets_and_follow_the_key(load):
    env = load("HostCounter-v0", 8)
    seeds = [np.asarray(env.reset(jax.random.key(n))[1].observation["seed"]) for n in (0, 1, 0)]
    assert len(np.unique(np.concatenate(seeds[:2]), axis=0)) == 16
    np.testing.assert_array_equal(seeds[0], seeds[2])


def test_equal_seeds_of_different_keys_are_replaced():
    seeds, keys = np.array([5, 2**32 - 1, 5, 2**32 - 1, 5], np.uint32), np.array([0, 1, 2, 3, 0], np.uint32)
    assert distinct(seeds, keys, np.zeros_like(keys), below=2**32) == [5, 2**32 - 1, 6, 0, 5]
    assert distinct(seeds, keys, np.zeros_like(keys), below=2**31) == [5, 2**31 - 1, 6, 0, 5]


def test_lanes_of_equal_seeds_get_different_ones(load, monkeypatch):
    monkeypatch.setattr(jaxenv.random, "bits", lambda stream: jnp.full(LANES, 5, jnp.uint32))
    env = load("HostCounter-v0")
    for reset in (env.reset, jax.jit(env.reset)):
        assert reset(jax.random.key(0))[1].observation["seed"].tolist() == [[5, 0], [6, 0]]


def test_episodes_of_a_lane_differ(load):
    rows = rows_of(load("CartPole-v1", max_episode_steps=2), 9).timestep
    starts = rows.observation[rows.step_type == 0]
    assert len(starts) == len(np.unique(starts, axis=0)) == 3 * LANES


def test_the_clock_counts_episodes_and_their_steps(load):
    env, counts = load("CartPole-v1", max_episode_steps=2), []
    state, _ = env.reset(jax.random.key(0))
    for _ in range(4):
        state, _ = env.step(state, zeros(env))
        clock = env.clock(state)
        counts.append((clock.episode.tolist(), clock.step.tolist()))
    assert counts == [([0, 0], [1, 1]), ([0, 0], [2, 2]), ([1, 1], [0, 0]), ([1, 1], [1, 1])]


def test_continuous_actions_are_clipped_and_nan_becomes_0(load):
    env = load("Pendulum-v1")
    state, _ = env.reset(jax.random.key(0))
    _, clipped = env.step(state, np.array([[9.0], [np.nan]], np.float32))
    state, _ = env.reset(jax.random.key(0))
    _, expected = env.step(state, np.array([[2.0], [0.0]], np.float32))
    np.testing.assert_array_equal(clipped.observation, expected.observation)
    np.testing.assert_array_equal(clipped.reward, expected.reward)
    assert clipped.prev_action.tolist() == [[9.0], [0.0]]


def test_wrappers_with_lane_and_batch_state_work_outside_the_restarts(load):
    wrappers = ["EpisodeStatistics", ("FrameStack", {"num": 2}), "NormalizeObservation"]
    env = load("CartPole-v1", wrappers=wrappers, max_episode_steps=3)
    rows = rows_of(env, 9).timestep
    assert rows.step_type[:, 0].tolist() == [0, 1, 1, 2, 0, 1, 1, 2, 0]
    frames = load("CartPole-v1", wrappers=[("FrameStack", {"num": 2})], max_episode_steps=3)
    rows = rows_of(frames, 9).timestep
    first = rows.observation[4]
    np.testing.assert_array_equal(first, np.repeat(first[:, -1:], 2, axis=1))  # not a frame of the last episode


def test_evaluate_plays_whole_episodes(load):
    env = load("CartPole-v1", max_episode_steps=6)
    found = jax.jit(lambda key: jaxenv.evaluate(env, jaxenv.rollout.random_policy(env), key, 4))(jax.random.key(0))
    assert found.finished.all()
    assert found.lengths.tolist() == found.returns.tolist() == [6, 6, 6, 6]


@pytest.mark.parametrize(("limit", "bound"), [(None, 500), (6, 6), (0, 2**31 - 1)])
def test_the_time_limit_of_the_engine_bounds_an_evaluation(load, limit, bound):
    env = load("CartPole-v1", max_episode_steps=limit, wrappers=["EpisodeStatistics"])
    assert int(env._longest_episode) == bound


def test_ppo_trains_inside_jit(load):
    config = ppo.Config(
        env_id="gymnasium:CartPole-v1",
        num_envs=4,
        num_steps=16,
        total_steps=256,
        num_minibatches=2,
        num_evaluations=1,
        num_eval_episodes=2,
    )
    env, eval_env = load("CartPole-v1", 4), load("CartPole-v1", 2, max_episode_steps=20)
    with default_types():
        _, curve = jax.jit(ppo.make_train(config, env, eval_env))(jax.random.key(0))
    assert curve.finished.all()
    assert (curve.returns > 5).all()


def test_pictures_are_those_of_gymnasium_for_the_newest_state(load):
    pytest.importorskip("pygame")
    env = load("CartPole-v1", 1, render_mode="rgb_array")
    state, _ = env.reset(jax.random.key(0))
    picture = env.render(state, (40, 60))
    assert picture.shape == (1, 40, 60, 3)
    assert len(np.unique(picture)) > 1


# --- states ----------------------------------------------------------------------------------------------------------


def test_without_a_render_mode_there_is_no_picture(load):
    env = load("CartPole-v1", 1)
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match=r'CartPole-v1: render needs pictures.* render_mode="rgb_array"'):
        env.render(state, (40, 60))
    env.step(state, np.zeros(1, np.int32))  # the workers are still there


def test_a_person_can_play_episode_after_episode(load):
    pytest.importorskip("pygame")
    game = Game(load("CartPole-v1", 1, render_mode="rgb_array"))
    game.compile()
    for _ in range(2):
        assert game.picture(32).shape == (32, 32, 3)
        while not game.end:
            game.take(game.controls[0])
        game.restart()
    assert not Game(load("CartPole-v1", 1)).has_picture


def test_every_state_but_the_newest_is_refused(load):
    env, action = load("CartPole-v1"), np.array([0, 1])
    state, _ = env.reset(jax.random.key(0))
    newer, _ = env.step(state, action)
    for step in (env.step, jax.jit(env.step)):
        with pytest.raises(FAILED, match=r"the state is 1 step old, .*earlier reset"):
            jax.block_until_ready(step(state, action))
        with pytest.raises(FAILED, match="the state has its lanes in another order"):
            jax.block_until_ready(step(jax.tree.map(lambda x: x[::-1], newer), action))
    newer, _ = env.step(newer, action)  # a refused state leaves the newest one usable
    env.reset(jax.random.key(1))
    with pytest.raises(HostEnvironmentError, match="another environment"):
        env.step(newer, action)


def test_every_part_of_the_actions_belongs_to_the_history_of_a_state(load):
    env, other = load("HostCounter-v0"), load("HostCounter-v0")
    states = [one.reset(jax.random.key(0))[0] for one in (env, other)]
    action = specs.zeros(env.action_spec(), (LANES,))
    moved = {**action, "pair": (action["pair"][0], action["pair"][1] + np.float32(0.5))}
    env.step(states[0], action)
    elsewhere, _ = other.step(states[1], moved)
    with pytest.raises(HostEnvironmentError, match="another process"):
        env.step(elsewhere, action)


def test_closing_an_environment_closes_those_of_other_numbers_of_lanes(load):
    env = load("HostCounter-v0")
    more = env.take(np.arange(LANES + 1))
    more.reset(jax.random.key(0))
    env.close()
    with pytest.raises(HostEnvironmentError, match="the environment is closed"):
        more.reset(jax.random.key(0))


def test_a_state_of_another_history_is_refused_at_the_same_step(load):
    env, other = load("CartPole-v1"), load("CartPole-v1")
    state, _ = env.reset(jax.random.key(0))
    same, _ = other.reset(jax.random.key(0))
    state, _ = env.step(state, np.array([0, 1]))
    elsewhere, _ = other.step(same, np.array([1, 1]))
    with pytest.raises(HostEnvironmentError, match="another process"):
        env.step(elsewhere, np.array([0, 0]))
    env.reset(jax.random.key(0))
    env.step(same, np.array([0, 0]))  # two environments with one history are in one state


def test_an_unpickled_environment_has_workers_of_its_own(load):
    env = load("CartPole-v1")
    state, first = env.reset(jax.random.key(0))
    copy = pickle.loads(pickle.dumps(env))
    with pytest.raises(HostEnvironmentError, match="call reset first"):
        copy.step(state, zeros(env))
    np.testing.assert_array_equal(copy.reset(jax.random.key(0))[1].observation, first.observation)
    env.step(state, zeros(env))
    copy.close()


def test_vmap_other_numbers_of_lanes_and_restarts_from_outside_are_refused(load):
    env = load("CartPole-v1")
    state, first = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match="cannot run under vmap"):
        jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 3))
    with pytest.raises(ValueError, match=r"reset .*got 1"):
        env.reset(jax.random.key(0), env_id=jnp.array([1]))
    with pytest.raises(ValueError, match="some lanes cannot be restarted"):
        jaxenv.reset_where(env, state, first, jnp.array([True, False]))
    with pytest.raises(ValueError, match=r"step_where: .* cannot let lanes.* JAX"):
        jaxenv.step_where(env, state, first, jnp.zeros(2, jnp.int32), jnp.array([True, False]))
    for name in ("AutoReset", "GuardNonFinite"):
        with pytest.raises(ValueError, match=name):
            getattr(jaxenv.wrappers, name)(env)
    for wrapper in (("TimeLimit", {"duration": 3}), ("ActionRepeat", {"num": 2}), "NonEpisodic"):
        with pytest.raises(ValueError, match="AutoReset"):
            load("CartPole-v1", wrappers=[wrapper])


# --- workers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raises", r"step failed, all.* [01]: ZeroDivisionError: the physics divided"),
        ("raises_unpicklable", "the worker of lane 0 raised an exception that cannot be pickled"),
        ("exits", "the workers of lanes 0, 1 died"),
        ("killed", "the workers of lanes 0, 1 died"),
        ("hangs", r"the workers of.* 0, 1 did not answer.* 3 seconds, the option"),
    ],
)
def test_a_fault_of_a_worker_ends_in_its_name_and_leaves_no_process(load, fault, message):
    env = load("HostCounter-v0", vectorization="async", fault=fault, timeout=60)
    action = env.action_spec()
    action = jax.tree.map(lambda s: s.zeros((LANES,)), action)
    state, _ = env.reset(jax.random.key(0))
    env.unwrapped.engine._env.timeout = 3.0 if fault == "hangs" else 60.0
    workers = multiprocessing.active_children()
    assert len(workers) == LANES
    run = jax.jit(lambda state: jax.lax.scan(lambda s, _: env.step(s, action), state, length=4))
    begun = time.monotonic()
    with pytest.raises(FAILED, match=message):
        jax.block_until_ready(run(state))
    assert time.monotonic() - begun < 30
    assert multiprocessing.active_children() == []
    assert all(worker.exitcode is not None for worker in workers)
    with pytest.raises(HostEnvironmentError, match="not running, call reset first"):
        env.step(state, action)


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_an_exception_like_those_of_pipes_is_not_taken_for_a_dead_worker(load, vectorization):
    env = load("HostCounter-v0", vectorization=vectorization, fault="raises_eof")
    action = jax.tree.map(lambda s: s.zeros((LANES,)), env.action_spec())
    state, _ = env.step(env.reset(jax.random.key(0))[0], action)
    with pytest.raises(HostEnvironmentError, match=r"step failed, all.*: EOFError: the recording is over$"):
        env.step(state, action)


@pytest.mark.parametrize(("fault", "message"), [("hangs", "did not answer within 3 seconds"), ("exits", "died")])
def test_the_lane_of_a_fault_is_named(load, fault, message):
    env = load("HostCounter-v0", vectorization="async", fault=fault)
    action = jax.tree.map(lambda s: s.zeros((LANES,)), env.action_spec())
    state, _ = env.step(env.reset(jax.random.key(0))[0], action)
    env.unwrapped.engine._env.timeout = 3.0
    with pytest.raises(HostEnvironmentError, match=f"the worker of lane 1 {message}"):
        env.step(state, action | {"move": jnp.array([-1, 0])})


def test_the_exit_of_the_interpreter_and_of_a_with_block_end_the_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import multiprocessing
        import jax, jaxenv

        if __name__ == "__main__":
            with jaxenv.make("gymnasium:CartPole-v1", num_envs=1) as env:
                env.reset(jax.random.key(0))
                inside = multiprocessing.active_children()
            assert len(inside) == 1 and not multiprocessing.active_children()
            env = jaxenv.make("gymnasium:CartPole-v1", num_envs=1)
            state, _ = jax.jit(env.reset)(jax.random.key(0))
            print(*[worker.pid for worker in multiprocessing.active_children()])
        """)
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert "Exception ignored" not in done.stderr
    (worker,) = map(int, done.stdout.split())
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_the_workers_of_a_process_that_was_killed_end_although_nobody_reads_their_errors(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import multiprocessing, os
        import jax, jaxenv

        if __name__ == "__main__":
            env = jaxenv.make("gymnasium:CartPole-v1", num_envs=2)
            env.reset(jax.random.key(0))
            errors = env.unwrapped.engine._env.error_queue._writer.fileno()
            os.set_blocking(errors, False)
            os.write(errors, bytes(2**20))  # as much as fits
            os.set_blocking(errors, True)
            print(*[worker.pid for worker in multiprocessing.active_children()], flush=True)
            os._exit(0)
        """)
    )
    # The workers hold the pipe of its output, so this waits for them.
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100, check=False)
    assert len(done.stdout.split()) == 2, done.stderr


CLOSED = """
import gc, signal, tempfile
folder = tempfile.TemporaryDirectory()  # has a finalizer before multiprocessing does
import gymnasium, jax, jaxenv
from gymnasium.envs.classic_control import CartPoleEnv


class Loud(CartPoleEnv):
    def close(self):
        print("closed")


def stubborn():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return CartPoleEnv()


if __name__ == "__main__":
    env = jaxenv.make({make}, 2, vectorization="{vectorization}", context="fork")
    print("made")
    env.reset(jax.random.key(0))
    {then}
    print("end")
"""


@pytest.mark.parametrize(
    ("make", "vectorization", "then", "printed"),
    [
        ("lambda: Loud()", "sync", "", "made end closed closed"),
        ("lambda: Loud()", "sync", "del env; gc.collect()", "made closed closed end"),
        ("lambda: Loud()", "sync", "env.close(); env.close(); del env", "made closed closed end"),
        ("stubborn", "async", "", "made end"),
    ],
    ids=["exit", "drop", "close", "no SIGTERM"],
)
def test_an_exit_and_a_drop_close_every_lane_once(tmp_path, make, vectorization, then, printed):
    script = tmp_path / "script.py"
    script.write_text(CLOSED.format(make=make, vectorization=vectorization, then=then))
    line = [sys.executable, "-W", "ignore", script]
    done = subprocess.run(line, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "Exception ignored" not in done.stderr
    assert " ".join(done.stdout.split()).removeprefix("closed ") == printed  # the first lane is made for the specs


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("CartPole-v2", {}, "gymnasium: no environment 'CartPole-v2', did you mean"),
        (
            "CartPole-v1",
            {"gravity": 5},
            r"gymnasium rejects \{'gravity': 5\}.*; load itself takes",
        ),
        ("CartPole-v1", {"vectorization": "threads"}, r"vectorization .*got 'threads'"),
        ("CartPole-v1", {"autoreset": "same_step"}, r"autoreset .*got 'same_step'"),
        ("CartPole-v1", {"reset_strategy": "select"}, r"reset_strategy .*got 'select'"),
        ("CartPole-v1", {"timeout": 0}, r"timeout .*got 0"),
        ("CartPole-v1", {"max_episode_steps": -1}, r"max_episode_steps .*got -1"),
        ("HostText-v0", {}, r"space .*got Text"),
    ],
)
def test_wrong_arguments_are_refused(load, name, kwargs, message):
    with pytest.raises(ValueError, match=message):
        load(name, **kwargs)


def test_options_of_make_may_be_given_their_defaults(load):
    assert load("CartPole-v1", reset_strategy=None, fixed_reset_key=None).action_spec().num_values == 2


def test_ids_are_listed_with_their_actions_where_these_can_be_known():
    assert {"CartPole-v1", "HostCounter-v0"} <= set(suite.ids())
    assert suite.action_and_limit("CartPole-v1") == (jaxenv.specs.Bounded((), np.int32, 0, 1), 500)
    assert suite.action_and_limit("HostText-v0") == (None, 100)
    assert "pole" in suite.docstring("CartPole-v1")


@pytest.mark.parametrize(("name", "num_steps"), [("CartPole-v1", 64), ("Blackjack-v1", 24)])
def test_the_conformance_kit_passes(load, name, num_steps):
    report = check_env(load(name), num_steps=num_steps)
    assert not report.failed
    assert report["starts_distribution"].status == "not applicable"  # it would make 1,000 lanes, each a process


def test_what_too_few_ends_leave_open_is_not_run_instead_of_failed(load):
    report = check_env(load("Pendulum-v1"), properties=["episode_grammar", "same_tree"], num_steps=16)
    assert [(r.name, r.status) for r in report.results] == [("same_tree", "passed"), ("episode_grammar", "not run")]
    assert report.exit_status == 3


# --- the start of workers --------------------------------------------------------------------------------------------

SCRIPT = """
import multiprocessing, time
import gymnasium
__name__ == "__main__" or time.sleep({importing})


def slow(**kwargs):
    multiprocessing.parent_process() is None or time.sleep(30)
    return gymnasium.make("CartPole-v1").unwrapped


gymnasium.register("Slow-v0", slow)

if __name__ == "__main__":
    import jax, jaxenv
    from jaxenv.suites import _gymnasium_lanes as lanes
    {settings}
    with jaxenv.make("gymnasium:{id}", num_envs=2, timeout={timeout}, context="spawn") as env:
        try:
            env.reset(jax.random.key(0))
            print("started")
        except RuntimeError as error:
            print(error)
"""


@pytest.mark.parametrize(
    ("id", "importing", "timeout", "settings", "message"),
    [
        ("CartPole-v1", 4, 2, "", "started"),
        ("CartPole-v1", 60, 60, "lanes._LONGEST_START = 1.0", "0, 1 did not answer within 1 seconds of its start"),
        ("Slow-v0", 0, 60, "lanes._LONGEST_START = 1.0", "0, 1 did not answer within 1 seconds of its start"),
    ],
)
def test_the_time_of_a_step_does_not_count_the_import_of_the_script(
    tmp_path, id, importing, timeout, settings, message
):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(id=id, importing=importing, timeout=timeout, settings=settings))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=False)
    assert message in done.stdout, done.stdout + done.stderr


def test_a_script_without_a_guard_is_told_that_its_workers_died_while_importing_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        'import jax, jaxenv\nenv = jaxenv.make("gymnasium:CartPole-v1", num_envs=1, context="spawn")\n'
        "env.reset(jax.random.key(0))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=False)
    assert "the worker of lane 0 died before it had made its environment" in done.stderr
