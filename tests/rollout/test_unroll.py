"""Unrolls: the trajectory they return, the fields they keep, and when a policy's memory is reset."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.rollout import PolicyStep, _iteration, _unroll, fold, random_policy, unroll
from jaxenv.testing import Counting, random_environment
from jaxenv.wrappers import AutoReset

LENGTHS = np.array([[2, 3], [3, 1], [4, 2]])
MODES = ["next_step", "same_step"]


def counting(mode):
    return AutoReset(Counting(LENGTHS, stride=100, num_envs=3), mode)


@functools.partial(jax.jit, static_argnames="num_steps")
def advance(env, state, timestep, policy_key, num_steps):
    (state, timestep, _), rows = unroll(env, random_policy(env), state, timestep, num_steps, key=policy_key)
    return (state, timestep), rows


def in_halves(env, start, policy_key, num_steps):
    middle, a = advance(env, *start, policy_key, num_steps // 2)
    end, b = advance(env, *middle, policy_key, num_steps // 2)
    return end, jax.tree.map(lambda x, y: jnp.concatenate([x, y]), a, b)


@pytest.fixture(scope="module")
def cart_pole():
    return jaxenv.make("CartPole-v1", num_envs=4)


@pytest.fixture(scope="module")
def start(cart_pole):
    return jax.jit(cart_pole.reset)(jax.random.key(0))


@pytest.fixture(scope="module")
def rows(cart_pole, start):
    return jax.device_get(advance(cart_pole, *start, None, 40))


# --- rows ------------------------------------------------------------------------------------------------------------


def test_an_unroll_steps_every_lane_num_steps_times():
    env = Counting(np.array([0]), num_envs=3)  # never ends
    state, timestep = env.reset(jax.random.key(0))
    (state, timestep, _), experience = unroll(env, random_policy(env), state, timestep, 5)
    assert env.clock(state).step.tolist() == [5, 5, 5]
    assert timestep.observation.tolist() == [5, 5, 5]
    assert experience.timestep.observation.tolist() == [[t] * 3 for t in range(5)]


def test_every_leaf_of_a_trajectory_has_leading_time_and_lane_axes(rows):
    for leaf in jax.tree.leaves(rows[1]):
        assert leaf.shape[:2] == (40, 4)


@pytest.mark.parametrize("mode", MODES)
def test_each_row_has_the_timestep_that_the_policy_saw_and_the_action_that_leads_to_the_next(mode):
    env = counting(mode)
    state, timestep = start = env.reset(jax.random.key(0))
    end, experience = jax.jit(lambda s, t: unroll(env, random_policy(env), s, t, 12))(*start)
    step = jax.jit(env.step)
    for t in range(12):
        chex.assert_trees_all_equal(jax.tree.map(lambda x, t=t: x[t], experience.timestep), timestep)
        state, timestep = step(state, experience.action[t])
    chex.assert_trees_all_equal(end[:2], (state, timestep))


def test_two_unrolls_of_half_the_length_equal_one_of_the_whole_bit_for_bit(cart_pole, start, rows):
    chex.assert_trees_all_equal(in_halves(cart_pole, start, None, 40), rows)


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
def test_images_of_bytes_and_flags_are_stored_flat_and_returned_in_their_shape(platform, monkeypatch):
    monkeypatch.setattr(_unroll.jax, "default_backend", lambda: platform)
    observation = {
        "bytes": specs.Bounded((2, 3), np.uint8, 0, 255),
        "flags": specs.Bounded((3, 2, 1), np.bool_, False, True),
        "flag": specs.Bounded((), np.bool_, False, True),
        "floats": specs.Bounded((2, 3), np.float32, 0, 1),
    }
    env = AutoReset(random_environment(observation, specs.discrete(2), num_envs=5))
    state, timestep = start = env.reset(jax.random.key(0))
    stored = jax.jit(lambda s, t: unroll(env, random_policy(env), s, t, 4, fields=["observation", "env_info"])[1])
    text = stored.lower(*start).as_text()
    kinds = ("4x5x6xui8", "4x5x6xi1", "4x5xi32", "4x5x6xf32")
    assert [kind in text for kind in kinds] == [True, True, platform == "tpu", False]
    rows = stored(*start).timestep.observation
    whole = jax.jit(lambda s, t: unroll(env, random_policy(env), s, t, 4)[1])(*start)
    for t in range(4):
        chex.assert_trees_all_equal(jax.tree.map(lambda x, t=t: x[t], rows), timestep.observation)
        state, timestep = env.step(state, whole.action[t])


def test_on_a_gpu_numbers_and_flags_are_stored_in_one_array_of_each_kind(monkeypatch):
    observation = {
        "word": specs.Bounded((), np.uint32, 0, 2**32 - 1),
        "flag": specs.Bounded((), np.bool_, False, True),
        "small": specs.Bounded((), np.int8, -3, 3),
        "vector": specs.Bounded((2,), np.float32, 0, 1),
    }
    env = AutoReset(random_environment(observation, specs.discrete(2), num_envs=5))
    start = env.reset(jax.random.key(0))

    def policy(timestep, stream):
        return PolicyStep(random_policy(env)(timestep, stream), info=np.arange(3, dtype=np.float32))  # not of lanes

    def play(most_lanes, platform):
        monkeypatch.setattr(_iteration, "_MOST_LANES", most_lanes)
        monkeypatch.setattr(jax, "default_backend", lambda: platform)
        stored = jax.jit(lambda s, t: unroll(env, policy, s, t, 6, steps_per_iteration=1)[1])
        return stored(*start), stored.lower(*start).as_text()

    expected, apart = play(5, "cpu")
    found, text = play(5, "gpu")
    assert np.asarray(expected.timestep.observation["word"]).max() >= 2**31  # no int32 holds it
    chex.assert_trees_all_equal_shapes_and_dtypes(found, expected)
    chex.assert_trees_all_equal(found, expected)
    # step_type, word, flag, prev_action, env_id and action; reward and discount; the others
    kinds = "6x6x5xi32", "6x2x5xf32", "6x5xi8", "6x5x2xf32"
    assert all(kind in text for kind in kinds)
    assert "6x6x5xi32" not in apart
    assert play(4, "gpu")[1] == apart


def test_a_policy_key_gives_two_halves_the_actions_of_the_whole():
    env, key = counting("next_step"), jax.random.key(7)
    start = env.reset(jax.random.key(0))
    chex.assert_trees_all_equal(in_halves(env, start, key, 12), advance(env, *start, key, 12))


def test_an_unroll_of_no_steps_returns_its_arguments():
    env = counting("next_step")
    start = env.reset(jax.random.key(0))
    (*end, _), experience = unroll(env, random_policy(env), *start, 0)
    chex.assert_trees_all_equal(tuple(end), start)
    assert experience.action.shape == (0, 3)


def play(loop, env, num_steps, steps_per_iteration):
    start, policy = env.reset(jax.random.key(0)), random_policy(env)
    if loop == "unroll":
        return unroll(env, policy, *start, num_steps, steps_per_iteration=steps_per_iteration)
    rewards = jnp.zeros(env.num_envs)
    add = lambda value, step, timestep: value + timestep.reward  # noqa: E731
    return fold(env, policy, add, rewards, *start, num_steps, steps_per_iteration=steps_per_iteration)


@pytest.mark.parametrize("loop", ["unroll", "fold"])
def test_iterations_of_several_steps_give_the_same_rows(loop):
    run = functools.partial(play, loop, counting("next_step"), 7)
    chex.assert_trees_all_equal(run(1), run(3), run(20))
    scans = [e for e in jax.make_jaxpr(lambda: run(3))().eqns if e.primitive.name == "scan"]
    assert [e.params["unroll"] for e in scans] == [3]


@pytest.mark.parametrize("loop", ["unroll", "fold"])
@pytest.mark.parametrize("value", [0, -1, 2.0, True])
def test_the_steps_of_an_iteration_are_a_positive_integer(loop, value):
    with pytest.raises(ValueError, match=f"{loop}: steps_per_iteration must be .*got {value}"):
        play(loop, counting("next_step"), 2, value)


@pytest.mark.parametrize(
    ("num_steps", "message"), [(-1, "at least 0, got -1"), (3.0, "an integer, got 3.0"), (True, "integer, got True")]
)
def test_a_number_of_steps_that_is_not_an_integer_or_negative_is_refused(num_steps, message):
    env = counting("next_step")
    with pytest.raises(ValueError, match=f"unroll: num_steps must be .*{message}"):
        unroll(env, random_policy(env), *env.reset(jax.random.key(0)), num_steps)


# --- keys ------------------------------------------------------------------------------------------------------------


def test_a_policy_key_changes_the_actions_and_not_the_starts(cart_pole, start, rows):
    _, own = rows
    _, keyed = jax.device_get(advance(cart_pole, *start, jax.random.key(7), 40))
    assert 0.3 < np.mean(own.action == keyed.action) < 0.7
    compared = 0
    for lane in range(4):
        a, b = (e.timestep.observation[e.timestep.step_type[:, lane] == 0, lane] for e in (own, keyed))
        both = min(len(a), len(b))
        np.testing.assert_array_equal(a[:both], b[:both])
        compared += both
    assert compared >= 6, "the four first starts, and some after episodes that differ"


def test_without_a_policy_key_the_actions_depend_on_the_reset_key():
    env = counting("next_step")
    a, b, c = (advance(env, *env.reset(jax.random.key(seed)), None, 12)[1].action for seed in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert np.any(a != c)


def test_actions_differ_between_lanes_steps_and_episodes():
    # FIRST, LAST, FIRST, LAST: the step within an episode repeats.
    env = AutoReset(Counting(np.array([1]), num_envs=64))
    action = np.asarray(advance(env, *env.reset(jax.random.key(0)), None, 4)[1].action)
    for a, b in [(action[0], action[1]), (action[0], action[2]), (action[:, 0], action[:, 1])]:
        assert np.any(a != b)


# --- memory ----------------------------------------------------------------------------------------------------------

MEMORY = {"count": np.array([5, 50, 500], np.int32), "trace": np.array([[1, 2], [3, 4], [5, 6]], np.float32)}


def remembering(timestep, stream, memory):
    """Acts on its memory, counts, and mixes in the observation."""
    trace = memory["trace"] * 2 + timestep.observation.astype(jnp.float32)[:, None]
    return PolicyStep(memory["count"] % 10, {"count": memory["count"] + 1, "trace": trace}, info=memory)


@functools.partial(jax.jit, static_argnames=("mode", "cuts"))
def remembered(mode, cuts=(16,)):
    env = counting(mode)
    state, timestep = env.reset(jax.random.key(0))
    memory, parts = None, []
    for cut in cuts:
        (state, timestep, memory), part = unroll(
            env, remembering, state, timestep, cut, initial_memory=MEMORY, memory=memory
        )
        parts.append(part)
    return memory, jax.tree.map(lambda *x: jnp.concatenate(x), *parts)


def test_memory_is_reset_at_the_start_of_every_episode_as_computed_by_hand():
    _, experience = remembered("next_step")
    # Lane 0: episodes of 2 and 3 steps, rows F M L F M M L F M L ...; the row after FIRST remembers it.
    assert experience.timestep.step_type[:10, 0].tolist() == [0, 1, 2, 0, 1, 1, 2, 0, 1, 2]
    assert experience.policy_info["count"][:10, 0].tolist() == [5, 6, 7, 5, 6, 7, 8, 5, 6, 7]
    _, experience = remembered("same_step")
    # The LAST row shows the next episode's first observation, so memory is reset there.
    assert experience.timestep.step_type[:8, 0].tolist() == [0, 1, 2, 1, 1, 2, 1, 2]
    assert experience.policy_info["count"][:8, 0].tolist() == [5, 6, 5, 6, 7, 5, 6, 5]


@pytest.mark.parametrize("mode", MODES)
def test_memory_is_reset_lane_by_lane_as_in_a_numpy_loop(mode):
    final, experience = jax.device_get(remembered(mode))
    memory = {name: x.copy() for name, x in MEMORY.items()}
    for t in range(16):
        step_type, observation = experience.timestep.step_type[t], experience.timestep.observation[t]
        for lane in range(3):
            if step_type[lane] == 0 or (mode == "same_step" and step_type[lane] == 2):
                for name in memory:
                    memory[name][lane] = MEMORY[name][lane]
        for name in memory:
            np.testing.assert_array_equal(experience.policy_info[name][t], memory[name], err_msg=f"row {t}")
        np.testing.assert_array_equal(experience.action[t], memory["count"] % 10)
        memory["count"] += 1
        memory["trace"] = memory["trace"] * 2 + observation[:, None]
    chex.assert_trees_all_equal(final, memory)


def test_memory_passed_on_joins_two_unrolls_inside_an_episode():
    whole, parts = remembered("next_step"), remembered("next_step", cuts=(5, 11))
    chex.assert_trees_all_equal(whole, parts)


def test_memory_without_initial_memory_is_refused():
    env = counting("next_step")
    with pytest.raises(ValueError, match="unroll: memory needs initial_memory"):
        unroll(env, remembering, *env.reset(jax.random.key(0)), 2, memory=MEMORY)


def test_a_policy_that_does_not_return_its_memory_is_refused():
    env = counting("next_step")
    with pytest.raises(ValueError, match=r"return PolicyStep\(action, memory\)"):
        unroll(env, lambda t, k, m: m["count"] % 10, *env.reset(jax.random.key(0)), 2, initial_memory=MEMORY)


# --- fields ----------------------------------------------------------------------------------------------------------


def shapes(fields, num_steps=3):
    """The shapes that an unroll over dict observations returns; nothing is compiled."""
    observation = {"camera": specs.Bounded((2, 2), np.uint8, 0, 255), "speed": specs.Array((), np.float32)}
    env = AutoReset(random_environment(observation, specs.discrete(3), num_envs=5))

    def policy(timestep, stream):
        return PolicyStep(random_policy(env)(timestep, stream), info={"value": timestep.observation["speed"]})

    def run(key):
        return unroll(env, policy, *env.reset(key), num_steps, fields=fields)[1]

    return jax.eval_shape(run, jax.random.key(0))


def test_only_the_fields_asked_for_are_kept():
    e = shapes(["reward", "observation.camera", "action"])
    assert e.timestep.reward.shape == e.action.shape == (3, 5)
    assert list(e.timestep.observation) == ["camera"]
    assert e.timestep.observation["camera"].shape == (3, 5, 2, 2)
    assert e.policy_info == ()
    for name in ("step_type", "discount", "prev_action", "env_id", "untransformed", "env_info"):
        assert getattr(e.timestep, name) == ()


def test_a_field_has_a_short_and_a_full_name():
    short, full = shapes(["step_type", "observation"]), shapes(["timestep.step_type", "timestep.observation"])
    assert jax.tree.structure(short) == jax.tree.structure(full)
    assert sorted(short.timestep.observation) == ["camera", "speed"]


@pytest.mark.parametrize("field", ["observation", "timestep.observation"])
def test_observations_of_same_step_mode_need_the_final_ones(field):
    env = counting("same_step")

    def kept(*fields):
        def run(key):
            return unroll(env, random_policy(env), *env.reset(key), 2, fields=["reward", *fields])[1]

        return jax.eval_shape(run, jax.random.key(0)).timestep

    with pytest.raises(ValueError, match=r"same_step mode 'observation' lacks .*'env_info\.final_observation'"):
        kept(field)
    assert list(kept(field, "env_info.final_observation").env_info) == ["final_observation"]
    assert "final_observation" in kept(field, "env_info").env_info
    assert kept("action").observation == ()


def test_policy_info_is_selected_by_dotted_paths():
    e = shapes(["policy_info.value"])
    assert e.policy_info["value"].shape == (3, 5)
    assert e.timestep == () == e.action


def test_all_fields_are_kept_by_default_and_none_for_an_empty_list():
    assert len(jax.tree.leaves(shapes(None))) == 9
    assert jax.tree.leaves(shapes([])) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["obs"], r"no field 'obs', use timestep\.observation"),
        (["x"], "no field 'x', the fields are step_type, .*observation, .*env_info, action, policy_info"),
        ([""], "no field ''"),
        (["observation.sonar"], r"no 'sonar' here, the fields.* \['camera', 'speed'\]"),
        (["policy_info.log_prob"], r"no 'log_prob' here, the fields.* \['value'\]"),
        ("reward", "fields must be a sequence of names, such as ['reward'], got 'reward'".replace("[", r"\[")),
        ([1], r"fields .*got \[1\]"),
    ],
)
def test_an_unknown_field_is_refused_with_the_known_names(fields, message):
    with pytest.raises(ValueError, match=message):
        shapes(fields)


def test_a_field_of_a_row_is_not_one_of_an_experience():
    with pytest.raises(AttributeError, match=r"'step_type': use experience.timestep.step_type$"):
        jaxenv.rollout.Experience().step_type
