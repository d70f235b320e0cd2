"""States, rows and policies that do not belong to an environment are refused in one sentence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, specs
from jaxenv.testing import Chain, Counting
from jaxenv.wrappers import AutoReset, FrameStack, NormalizeReward, ResampleParams

KEY = jax.random.key(0)
ACTION = np.zeros(3, np.int32)


def counting(num_envs=3):
    return AutoReset(Counting(np.array([9]), num_envs=num_envs))


def start(env):
    return env.reset(KEY)


@pytest.fixture(scope="module")
def starts():
    """State and timestep of stacks that differ from ``counting()``."""
    return {
        "own": start(counting()),
        "without restarts": start(counting().env),
        "another task": start(AutoReset(Chain(num_envs=3))),
        "more lanes": start(counting(5)),
    }


def no_dump(error):
    return "PyTreeDef" not in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda starts: (starts["own"][1], starts["own"][0]), "must be an AutoResetState, got a TimeStep"),
        (lambda starts: (ACTION, starts["own"][0]), "must be an AutoResetState, got an array"),
        (lambda starts: (None, ACTION), "must be an AutoResetState, got None"),
        (lambda starts: (starts["without restarts"][0], ACTION), "must be an AutoResetState, got a TaskState"),
        (lambda starts: (starts["another task"][0], ACTION), r"inner\.task must be .*, got "),
    ],
)
@pytest.mark.parametrize("jitted", [False, True])
def test_step_refuses_what_is_not_its_state(starts, wrong, message, jitted):
    env = counting()
    with pytest.raises(
        ValueError, match=rf"^step: state.*{message}.*: pass the state.* <AutoReset<Counting>>"
    ) as error:
        (jax.jit(env.step) if jitted else env.step)(*wrong(starts))
    assert no_dump(error)


def test_step_refuses_a_state_with_another_number_of_lanes_than_its_params():
    env = jaxenv.make("CartPole-v1", 3, gravity=[1.0, 2.0, 3.0])
    state, _ = jaxenv.make("CartPole-v1", 5).reset(KEY)
    with pytest.raises(ValueError, match=r"^step: .*params\.gravity holds 3 lanes, the batch.* 5"):
        env.step(state, np.zeros(5, np.int32))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("without restarts", r"state .*got a TaskState"),
        ("another task", r"state.inner\.task must be"),
    ],
)
def test_loops_and_reset_where_refuse_the_state_of_another_stack(starts, name, message):
    env, policy = counting(), jaxenv.rollout.random_policy(counting())
    wrong = starts[name]
    for owner, call in {
        "unroll": lambda: jaxenv.unroll(env, policy, *wrong, 2),
        "fold": lambda: jaxenv.rollout.fold(env, policy, lambda value, *_: value, 0, *wrong, 2),
        "reset_where": lambda: jaxenv.reset_where(env, *wrong, wrong[1].is_first()),
    }.items():
        with pytest.raises(ValueError, match=f"^{owner}: {message}") as error:
            call()
        assert no_dump(error)


def test_loops_and_reset_where_refuse_a_timestep_of_another_stack_or_number_of_lanes(starts):
    env, policy = counting(), jaxenv.rollout.random_policy(counting())
    state, timestep = starts["own"]
    mask = timestep.is_first()
    longer, other = starts["more lanes"][1], start(FrameStack(Counting(np.array([9]), num_envs=3), 2))[1]
    for wrong, message in ((longer, "timestep.step_type must have 3 lanes"), (other, "timestep.observation must be")):
        with pytest.raises(ValueError, match=f"^unroll: {message}"):
            jaxenv.unroll(env, policy, state, wrong, 2)
        with pytest.raises(ValueError, match=f"^reset_where: {message}"):
            jaxenv.reset_where(env, state, wrong, mask)
    with pytest.raises(ValueError, match=r"^unroll: state .*got a TimeStep"):
        jaxenv.unroll(env, policy, timestep, state, 2)


def test_unroll_refuses_a_state_whose_arrays_have_other_shapes():
    two, three = (AutoReset(FrameStack(Counting(np.array([9]), num_envs=3), num)) for num in (2, 3))
    with pytest.raises(ValueError, match=r"^unroll: state\.inner\.own .*got int32\[3, 2\]"):
        jaxenv.unroll(three, jaxenv.rollout.random_policy(three), *start(two), 2)


def test_the_state_decides_the_number_of_lanes_and_of_actions():
    state, _ = counting(3).reset(KEY)
    assert counting(2).step(state, ACTION)[1].reward.shape == (3,)
    message = r"action must have shape \(3,\) \(one Bounded.* per lane of the state\), got \(2,\)"
    with pytest.raises(ValueError, match=message):
        counting(2).step(state, ACTION[:2])


def test_a_step_under_vmap_over_the_lanes_is_refused(starts):
    with pytest.raises(ValueError, match=r"^step: .* takes whole batches.*: state\..*got shape \(\)"):
        jax.vmap(counting().step)(starts["own"][0], ACTION)


def test_an_error_of_the_author_is_left_alone(starts):
    class Broken(Counting):
        def transition(self, state, action, stream):
            if broken:
                raise KeyError("mine")
            return super().transition(state, action, stream)

    broken = False  # while shapes are derived
    env = AutoReset(Broken(np.array([9]), num_envs=3))
    state, _ = start(env)
    broken = True
    with pytest.raises(KeyError, match="mine"):
        env.step(state, ACTION)


def test_a_statistic_of_the_batch_may_have_any_length():
    env = NormalizeReward(AutoReset(Counting(np.array([9]), num_envs=3)))
    jaxenv.unroll(env, jaxenv.rollout.random_policy(env), *start(env), 2)


# --- policies and streams --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [None, 3, jaxenv.rollout.random_policy, lambda timestep, stream, memory: ACTION])
def test_a_policy_that_does_not_take_timestep_and_stream_is_refused(starts, policy):
    rule = (
        r"^unroll: policy must be a function of \(timestep, stream\), or of \(timestep, stream, memory\) with initial"
    )
    with pytest.raises(ValueError, match=rule):
        jaxenv.unroll(counting(), policy, *starts["own"], 2)


def test_a_policy_with_a_memory_is_told_to_pass_it(starts):
    hint = r"got <lambda> of \(timestep, stream, memory\): this policy takes a memory: pass initial_memory$"
    with pytest.raises(ValueError, match=hint):
        jaxenv.unroll(counting(), lambda timestep, stream, memory: ACTION, *starts["own"], 2)
    with pytest.raises(ValueError, match=r"got <lambda> of \(timestep\)$"):
        jaxenv.unroll(counting(), lambda timestep: ACTION, *starts["own"], 2)


def test_a_policy_in_place_of_the_environment_is_refused(starts):
    policy = jaxenv.rollout.random_policy(counting())
    with pytest.raises(ValueError, match=r"^unroll: env .*got <function"):
        jaxenv.unroll(policy, counting(), *starts["own"], 2)
    with pytest.raises(ValueError, match=r"^evaluate: env .*got <function"):
        jaxenv.evaluate(policy, counting(), KEY)
    with pytest.raises(ValueError, match=r"^random_policy: env .*got 'CartPole-v1'"):
        jaxenv.rollout.random_policy("CartPole-v1")


def test_a_policy_that_returns_a_pair_is_told_about_policy_step(starts):
    with pytest.raises(ValueError, match=r"action .*got a tuple of 2.* returns PolicyStep\(action, memory"):
        jaxenv.unroll(counting(), lambda timestep, stream: (ACTION, {"value": ACTION}), *starts["own"], 2)


def test_a_policy_that_forgets_its_memory_is_told_about_policy_step(starts):
    policy = lambda timestep, stream, memory: ACTION  # noqa: E731
    with pytest.raises(ValueError, match=r"^policy: memory .*got an empty tuple.*PolicyStep\(action, mem"):
        jaxenv.unroll(counting(), policy, *starts["own"], 2, initial_memory=np.zeros((3, 2)))


@pytest.mark.parametrize("memory", [np.zeros(2), np.zeros(()), {"hidden": np.zeros((2, 3))}])
def test_a_memory_that_does_not_lead_with_the_lanes_is_refused(starts, memory):
    policy = lambda timestep, stream, memory: jaxenv.rollout.PolicyStep(ACTION, memory)  # noqa: E731
    with pytest.raises(ValueError, match=r"^unroll: initial_memory(\.hidden)? .*got shape \("):
        jaxenv.unroll(counting(), policy, *starts["own"], 2, initial_memory=memory)


@pytest.mark.parametrize("change", [lambda m: m[:, :1], lambda m: m.astype(jnp.int32)])
def test_a_policy_that_changes_the_type_of_its_memory_is_refused(starts, change):
    policy = lambda timestep, stream, memory: jaxenv.rollout.PolicyStep(ACTION, change(memory))  # noqa: E731
    with pytest.raises(ValueError, match=r"^policy: memory .*got "):
        jaxenv.unroll(counting(), policy, *starts["own"], 2, initial_memory=np.zeros((3, 2), np.float32))


@pytest.mark.parametrize(
    ("memory", "got"),
    [
        (np.zeros((3, 1), np.float32), r"float32\[3, 1\]"),
        (np.zeros((3, 2), np.int32), r"int32\[3, 2\]"),
        ({}, "an empty dict"),
    ],
)
def test_a_memory_that_is_not_like_the_initial_one_is_refused(starts, memory, got):
    policy = lambda timestep, stream, memory: jaxenv.rollout.PolicyStep(ACTION, memory)  # noqa: E731
    initial = np.zeros((3, 2), np.float32)
    with pytest.raises(ValueError, match=rf"^unroll: memory .*{got}"):
        jaxenv.unroll(counting(), policy, *starts["own"], 2, initial_memory=initial, memory=memory)


def pendulum():
    return jaxenv.spec("Pendulum-v1").make(num_envs=3)


def drawing_with_jax(name):
    class Drawing(Counting):
        def initial(self, stream):
            if name == "initial":
                jax.random.uniform(stream)
            return super().initial(stream)

        def transition(self, state, action, stream):
            if name == "transition":
                jax.random.uniform(stream)
            return super().transition(state, action, stream)

    return Drawing(np.array([9]), num_envs=3)


@pytest.mark.parametrize(
    "call",
    [
        lambda start: jaxenv.unroll(counting(), lambda row, s: jax.random.randint(s, (3,), 0, 2), *start, 2),
        lambda start: jax.random.normal(random.stream(KEY)),
        lambda start: jax.jit(jax.random.split)(random.stream(KEY)),
        lambda start: drawing_with_jax("initial").reset(KEY),
        lambda start: drawing_with_jax("transition").step(start[0].inner, ACTION),
        lambda start: drawing_with_jax("initial").reward_spec(),
        lambda start: ResampleParams(pendulum(), {"gravity": lambda s: jax.random.uniform(s, (3,))}).env_info_spec(),
    ],
    ids=["policy", "alone", "compiled", "initial", "transition", "initial, by a spec", "params, by a spec"],
)
def test_a_stream_given_to_jax_random_is_told_about_jax_keys(starts, call):
    with pytest.raises(TypeError, match=r"takes JAX keys, not a Stream: .* pass jaxenv\.random\.jax_keys\(stream\)"):
        call(starts["own"])


# --- keys ------------------------------------------------------------------------------------------------------------


def test_another_number_of_keys_than_lanes_is_refused_unless_env_id_says_which_lanes_they_are():
    env, keys = counting(4), jax.random.split(KEY, 3)
    with pytest.raises(ValueError, match=r"^reset: key .*got 3"):
        env.reset(keys)
    assert env.reset(keys, env_id=jnp.array([1, 2, 3]))[1].env_id.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("keyword", "hint"),
    [
        ("levels", r", use env.reset\(key, level=level\), or env.with_level\(level\) for all episodes; "),
        ("seed", r", use env.reset\(jax.random.key\(seed\)\); "),
        ("rng", r", use env.reset\(key\); "),
        ("from_stat", r", did you mean 'from_state'\? "),
        ("colour", "; arguments: key, env_id, level, from_state$"),
    ],
)
def test_a_keyword_that_reset_does_not_take_is_explained(keyword, hint):
    with pytest.raises(TypeError, match=f"^reset: unknown keyword '{keyword}'{hint}"):
        counting(2).reset(**{keyword: 1})


def test_an_environment_of_one_lane_takes_any_number_of_keys():
    assert counting(1).reset(jax.random.split(KEY, 3))[1].env_id.tolist() == [0, 1, 2]


def test_no_keys_are_refused():
    with pytest.raises(ValueError, match=r"^reset: key .*got none"):
        counting(1).reset(jax.random.split(KEY, 3)[:0])


def test_repeated_keys_are_refused_unless_env_id_is_given():
    keys = jax.random.split(KEY, 3)[jnp.array([0, 1, 0])]
    with pytest.raises(ValueError, match=r"^reset: keys .*got the same for.* 0 and 2"):
        counting().reset(keys)
    assert counting().reset(keys, env_id=jnp.arange(3))[1].env_id.tolist() == [0, 1, 2]


def test_params_passed_to_reset_are_refused_with_the_place_where_they_belong():
    env = jaxenv.make("CartPole-v1")
    with pytest.raises(ValueError, match=r"^reset: env_id .*got Params\(.*env\.with_params\(\.\.\.\)$"):
        env.reset(KEY, env.params)


@pytest.mark.parametrize("env_id", [3, {"gravity": 9.8}])
def test_env_id_must_be_an_array_of_lanes(env_id):
    with pytest.raises(ValueError, match=r"^reset: env_id must be integers"):
        counting().reset(KEY, env_id)


def test_a_list_of_keys_is_refused():
    with pytest.raises(ValueError, match=r": key .*got a list, stack.* jax\.numpy\.stack"):
        counting().reset([KEY, KEY, KEY])


# --- wrappers around something else ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "got"), [("CartPole-v1", "'CartPole-v1'"), (Chain, "the class Chain"), (None, "None"), (specs, "<module")]
)
def test_a_wrapper_of_what_is_no_environment_is_refused(env, got):
    with pytest.raises(ValueError, match=rf"^AutoReset: env .*got {got}"):
        AutoReset(env)
