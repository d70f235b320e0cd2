"""``Task``: keys, rows and params of an environment, and error messages for its author."""

import copy
import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs, tree
from jaxenv.core._declared import declared_leaves
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.core.wrapper import layers
from jaxenv.testing import Chain, Counting
from tests.rows import assert_equal, unrolled

FIRST, MID, LAST = 0, 1, 2


@tree.struct
class Params:
    speed: float = 1.0
    walls: np.ndarray = tree.leaf(rank=1, default=(5.0, 6.0))


@dataclasses.dataclass
class Plain:
    """A dataclass that is not a pytree."""

    at: jax.Array


class Walk(Task):
    """A position on a line, with everything that an author can declare."""

    params: Params = Params()

    def initial(self, stream):
        return {"at": jnp.zeros(stream.shape, jnp.float32)}

    def transition(self, state, action, stream):
        at = state["at"] + self.params.speed * (action * 2 - 1).astype(jnp.float32)
        walls = jnp.broadcast_to(self.params.walls, (*at.shape, 2))
        return Transition({"at": at}, jnp.abs(at), at >= walls[:, 0], {"moved": action})

    def observe(self, state):
        return state["at"]

    def state_info(self, state):
        return {"twice": 2 * state["at"]}

    def observation_spec(self):
        return specs.Array((), np.float32)

    def action_spec(self):
        return specs.discrete(2)


def variant(**methods):
    """Returns a Walk with some methods replaced."""
    return type("Variant", (Walk,), methods)(num_envs=3)


def step(env, action=None):
    action = jnp.ones(env.num_envs, jnp.int32) if action is None else action
    return jax.jit(lambda key: env.step(env.reset(key)[0], action))(jax.random.key(0))


# --- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ([0.5, 1.5], r"env_id .*got \[0.5, 1.5\]"),
        (np.array([True, False]), r"env_id .*got array"),
        ([0, 2**40], r"env_id .*got 1099511627776"),
        ([0, -1], r"env_id .*got -1"),
        ([1, 1], r"env_id .*got \[1, 1\]"),
        (7, r"env_id .*got int32\[\]"),
        ("ab", r"env_id .*got 'ab'"),
    ],
)
def test_lane_numbers_that_are_cut_wrapped_or_repeated_are_refused(env_id, message):
    with pytest.raises(ValueError, match=f"reset: {message}"):
        Chain(num_envs=2).reset(jax.random.key(0), env_id=env_id)


@pytest.mark.parametrize("num_envs", [0, -1, 2.5, True, "2"])
def test_a_task_refuses_a_number_of_lanes_that_is_not_positive(num_envs):
    with pytest.raises(ValueError, match=r"^Chain: num_envs .*got "):
        Chain(num_envs=num_envs)


def test_traced_lane_numbers_are_checked_by_dtype_only():
    reset = jax.jit(lambda env_id: Chain(num_envs=2).reset(jax.random.key(0), env_id=env_id)[1].env_id)
    assert reset(np.array([3, 3])).tolist() == [3, 3]
    with pytest.raises(ValueError, match=r"reset: env_id .*got float32\[2\]"):
        reset(np.array([0.0, 1.0]))


@pytest.mark.parametrize(
    ("name", "hint"), [("render", ""), ("reset", ": override begin"), ("step", ": override proceed")]
)
def test_final_methods_cannot_be_overridden_since_a_stack_would_not_call_them(name, hint):
    with pytest.raises(TypeError, match=rf"^Mine: {name} is final, a.*{hint}"):
        type("Mine", (Chain,), {name: lambda self: None})


@pytest.mark.parametrize("given", [{}, {"time_limit": jaxenv.tree.leaf(low=1)}], ids=["bare", "leaf"])
def test_a_field_in_place_of_a_property_needs_a_default(given):
    with pytest.raises(TypeError, match=r"^Mine: the field 'time_limit' must have a default or be a property"):
        type("Mine", (Chain,), {"__annotations__": {"time_limit": int}, **given})
    mine = type("Mine", (Chain,), {"__annotations__": {"time_limit": int}, "time_limit": 7})
    assert (mine().time_limit, mine(time_limit=3).time_limit) == (7, 3)


@pytest.mark.parametrize("compiled", [False, True])
def test_the_traceback_of_an_error_in_a_task_has_one_frame_of_the_library_per_level(monkeypatch, compiled):
    def transition(self, state, action, stream):
        raise RuntimeError("a line of the author")

    def advance(state):
        return env.step(state, jnp.ones(3, jnp.int32))

    env = jaxenv.make("CartPole-v1", 3, wrappers=[("FrameStack", {"num": 2})])
    state, _ = env.reset(jax.random.key(0))
    monkeypatch.setattr(type(env.unwrapped), "transition", transition)
    with pytest.raises(RuntimeError, match="a line of the author") as error:
        (jax.jit(advance) if compiled else advance)(state)
    frames = [str(entry.path) for entry in error.traceback if str(entry.path).startswith(jaxenv.__path__[0])]
    assert error.traceback[-1].name == "transition"
    assert len(frames) <= len(layers(env)) + 5, frames  # two of step, and three that compile


def test_a_call_of_step_in_the_form_of_gymnax_is_explained():
    env = jaxenv.make("CartPole-v1", 3)
    key = jax.random.key(0)
    state, _ = env.reset(key)
    for arguments in [(key, state, np.zeros(3, np.int32)), (key, state, np.zeros(3, np.int32), env.params)]:
        with pytest.raises(TypeError, match=rf"^step takes state, action, got {len(arguments)} arguments: a state has"):
            env.step(*arguments)


def test_transition_info_is_zero_on_first_rows_and_state_info_is_not():
    env = variant(initial=lambda self, stream: {"at": jnp.ones(stream.shape, jnp.float32)})
    rows = unrolled(env, jnp.ones((1, 3), jnp.int32))
    assert rows.env_info["moved"].tolist() == [[0, 0, 0], [1, 1, 1]]
    assert rows.env_info["twice"].tolist() == [[2, 2, 2], [4, 4, 4]]


def test_reset_with_one_key_folds_in_the_lane_id():
    env = jaxenv.make("CartPole-v1", num_envs=6)
    key = jax.random.key(3)
    _, by_key = env.reset(key)
    _, by_keys = env.reset(jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(6)))
    _, shard = env.reset(key, env_id=jnp.array([4, 5], jnp.int32))
    assert_equal(jax.device_get(by_key), jax.device_get(by_keys))
    assert shard.env_id.tolist() == [4, 5]
    np.testing.assert_array_equal(shard.observation, by_key.observation[4:])
    assert len(np.unique(by_key.observation, axis=0)) == 6
    _, again = env.reset(key)
    np.testing.assert_array_equal(again.observation, by_key.observation)


@pytest.mark.parametrize(
    "mapped", [lambda f: jax.vmap(f), lambda f: jax.jit(jax.vmap(f)), lambda f: jax.vmap(jax.jit(f))]
)
def test_vmap_of_reset_over_as_many_keys_as_lanes_is_refused(mapped):
    env = jaxenv.make("CartPole-v1", num_envs=3)
    keys = jax.random.split(jax.random.key(0), 3)
    with pytest.raises(
        ValueError, match=r"vmap over 3 keys makes 3 batches of num_envs = 3 lanes: call env.reset\(keys"
    ):
        mapped(env.reset)(keys)
    assert env.reset(keys)[1].reward.shape == (3,)


@pytest.mark.parametrize(
    ("reset", "num_keys"),
    [
        (lambda env: env.reset, 2),
        (lambda env: lambda key: env.reset(key), 3),  # a function of the caller's, such as a training run
        (lambda env: jax.jit(lambda key: env.reset(key)), 3),
    ],
)
def test_vmap_makes_several_batches_where_they_can_be_meant(reset, num_keys):
    env = jaxenv.make("CartPole-v1", num_envs=3)
    keys = jax.random.split(jax.random.key(0), num_keys)
    _, timestep = jax.vmap(reset(env))(keys)
    assert timestep.observation.shape == (num_keys, 3, 4)
    alone = env.reset(keys[1])[1].observation
    np.testing.assert_array_equal(timestep.observation[1], alone)


def test_different_environments_draw_different_numbers_from_one_key():
    key = jax.random.key(0)
    starts = [jaxenv.make(id, 3).reset(key)[1].observation for id in ("CartPole-v0", "CartPole-v1")]
    assert not np.any(starts[0] == starts[1])
    keys = [env.reset(key)[0].clock.key for env in (Walk(), Counting([3]), Walk(name="Walk"))]
    assert not np.array_equal(keys[0], keys[1])
    assert np.array_equal(keys[0], keys[2])


def test_two_typed_keys_are_a_batch_and_a_raw_key_is_refused():
    env = jaxenv.make("CartPole-v1", num_envs=2)
    _, timestep = env.reset(jax.random.split(jax.random.key(0), 2))
    assert timestep.env_id.tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"typed key from jax.random.key\(seed\), got uint32\[2\]: .*wrap_key_data"):
        env.reset(jax.random.PRNGKey(0))


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_reset_accepts_keys_of_every_implementation(impl):
    _, timestep = jaxenv.make("CartPole-v1", num_envs=8).reset(jax.random.key(0, impl=impl))
    assert len(np.unique(timestep.observation)) == 32


def test_state_and_timestep_share_no_array_so_the_state_can_be_donated():
    env = jaxenv.make("CartPole-v1", num_envs=4, autoreset="same_step")
    state, timestep = env.reset(jax.random.key(0))
    for rows in ((state, timestep), env.step(state, jnp.ones(4, jnp.int32))):
        arrays = jax.tree.leaves(rows)
        assert len({id(x) for x in arrays}) == len(arrays)
    step_ = jax.jit(env.step, donate_argnums=0)
    for _ in range(3):
        state, following = step_(state, jnp.ones(4, jnp.int32))
        assert timestep.env_id.tolist() == [0, 1, 2, 3]
        timestep = following


def test_an_array_that_occurs_twice_in_a_state_is_copied():
    def initial(self, stream):
        zeros = jnp.zeros(stream.shape, jnp.float32)
        return {"at": zeros, "was": zeros}

    def transition(self, state, action, stream):
        return Transition(state, state["at"], state["at"] > 1, {"moved": action})

    state, _ = variant(initial=initial, transition=transition).reset(jax.random.key(0))
    assert state.task["at"] is not state.task["was"]


# --- params ----------------------------------------------------------------------------------------------------------


def test_rank_alone_decides_whether_a_param_is_per_lane():
    env = Walk(num_envs=2)
    assert env.params.speed.shape == ()
    assert env.params.walls.shape == (2,), "two walls are not two lanes"
    assert not any(d.per_lane for d in declared_leaves(env))
    lanes = env.with_params(speed=[1.0, 2.0], walls=np.array([[1.0, 9.0], [2.0, 9.0]]))
    assert all(d.per_lane for d in declared_leaves(lanes))
    _, timestep = step(lanes)
    assert timestep.observation.tolist() == [1, 2]
    assert timestep.is_last().tolist() == [True, True]


def test_take_gathers_only_values_per_lane():
    env = jaxenv.wrappers.TimeLimit(Walk(num_envs=3).with_params(speed=[1.0, 2.0, 3.0]), np.array([4, 5, 6]))
    rows = env.take(jnp.array([2, 0], jnp.int32))
    assert rows.duration.tolist() == [6, 4]
    assert rows.unwrapped.params.speed.tolist() == [3, 1]
    assert rows.unwrapped.params.walls is env.unwrapped.params.walls


def test_derived_values_follow_a_changed_param():
    params = jaxenv.make("CartPole-v1").with_params(masspole=0.5, masscart=[2.0]).unwrapped.params
    assert params.total_mass.tolist() == [2.5]
    assert params.polemass_length == 0.25


def test_params_of_any_numeric_type_become_strong_float32():
    for value in (9, 9.0, np.float64(9), np.int64(9), jnp.array(9), jnp.array(9.0, jnp.bfloat16)):
        gravity = jaxenv.make("CartPole-v1", gravity=value).unwrapped.params.gravity
        assert gravity.dtype == np.float32
        assert not getattr(gravity, "weak_type", False)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gravitas": 1.0}, r"no param 'gravitas'.*'gravity'"),
        ({"x": 1.0}, "no param 'x', the params"),
        ({"sutton_barto_reward": True}, r"no param 'sutton_barto_reward', it is an.* jaxenv.make sets"),
        ({"gravity": "heavy"}, r"gravity .*got 'heavy'"),
        ({"gravity": np.nan}, r"gravity .*got nan"),
        ({"gravity": [1.0, np.inf]}, r"gravity .*got \[1\.0, inf\]"),
        ({"gravity": [1.0, 2.0, 3.0]}, r"gravity has 3 values, one per.* num_envs = 2"),
        ({"gravity": np.ones((2, 2))}, r"gravity .*got shape \(2, 2\)"),
    ],
)
def test_an_invalid_param_is_refused_with_its_name_and_value(values, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.make("CartPole-v1", num_envs=2).with_params(**values)


def test_reset_refuses_params_for_a_different_number_of_lanes():
    env = jaxenv.make("CartPole-v1", num_envs=2, gravity=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"params.gravity holds 2 lanes, the batch.* 3"):
        env.reset(jax.random.key(0), env_id=jnp.arange(3))


@pytest.mark.parametrize(
    ("index", "got"),
    [
        (np.array([True, False]), r"bool\[2\]"),
        (jnp.array(0), r"int32\[\]"),
        ([0, 1], r"\[0, 1\]"),
        (np.array([0.0]), r"float32\[1\]"),
    ],
)
def test_take_refuses_what_is_no_number_of_lanes(index, got):
    env = jaxenv.make("CartPole-v1", num_envs=2, gravity=[1.0, 2.0])
    with pytest.raises(ValueError, match=rf"take: index .*got {got}"):
        env.take(index)


def test_a_class_with_an_init_of_its_own_is_refused():
    with pytest.raises(TypeError, match=r"Sized: an environment .*__init__.*size: int = jaxenv\.tree\.static"):

        class Sized(Walk):
            def __init__(self, size):
                self.size = size


def test_a_traced_option_is_refused_by_name():
    with pytest.raises(ValueError, match=r"Pendulum-v1: max_torque .*got a traced float32"):
        jax.jit(lambda torque: jaxenv.make("Pendulum-v1", max_torque=torque))(2.0)


def test_an_environment_is_frozen_and_compared_by_identity():
    env = Walk()
    with pytest.raises(dataclasses.FrozenInstanceError):
        env.num_envs = 3
    assert env != Walk()
    assert len({env, Walk()}) == 2
    assert copy.copy(env) is not env


def test_unflattening_accepts_placeholders_such_as_axes_and_shapes():
    env = jaxenv.make("CartPole-v1", num_envs=3)
    axes = jax.tree.map(lambda _: None, env)
    assert axes.unwrapped.params.gravity is None
    assert jax.tree.map(lambda x: x.shape, env).unwrapped.params.gravity == ()


def test_environments_that_differ_in_params_share_a_compilation():
    @jax.jit
    @chex.assert_max_traces(n=1)
    def start(env, key):
        return env.reset(key)

    for gravity in (1.0, 2.0, 3):
        start(jaxenv.make("CartPole-v1", num_envs=2, gravity=gravity), jax.random.key(0))


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (
            {"initial": lambda self, stream: {"at": jnp.zeros(())}},
            r"initial: every array .*, at has",
        ),
        (
            {"observe": lambda self, state: {"a": state["at"]}},
            r"observe: observation .*got a dict with 'a'",
        ),
        (
            {"observation_spec": lambda self: specs.Bounded((), np.uint8, 0, 255)},
            "observe: observation must",
        ),
        (
            {"observe": lambda self, state: state["at"][:, None]},
            r"observe: observation .*got \(3, 1\)",
        ),
        (
            {"observe": lambda self, state: state["at"].mean()},
            r"observe: observation .*got \(\)",
        ),
        (
            {"observe": lambda self, state: jnp.zeros(4)},
            r"observe: observation .*got \(4,\)",
        ),
        (
            {"transition": lambda self, state, a, stream: Transition({"at": a}, state["at"], a == 2)},
            r"state\.at .*got int32\[3\]",
        ),
        (
            {"transition": lambda self, state, a, stream: Transition({"to": a}, state["at"], a == 2)},
            r"transition: state .*got a dict with 'to'",
        ),
        (
            {"initial": lambda self, stream: Plain(jnp.zeros(3))},
            r"initial: the state .*Plain: .*@jaxenv\.tree",
        ),
        (
            {"transition": lambda self, state, a, stream: Transition(Plain(a), state["at"], a == 2)},
            r"transition: state .*Plain: .*@jaxenv\.tree",
        ),
        ({"initial": lambda self, stream: None}, r"initial: the state .*got None"),
        ({"observation_spec": lambda self: (1,)}, r"observation_spec: .*got \(1,\)"),
        ({"action_spec": lambda self: None}, r"action_spec: .*got None"),
        (
            {"transition": lambda self, state, a, stream: Transition(state, None, a == 2)},
            r"transition: reward .*got None",
        ),
        (
            {"transition": lambda self, state, a, stream: Transition(state, state["at"], a == 2, [a])},
            r"transition: env_info .*got list",
        ),
        (
            {"transition": lambda self, state, a, stream: Transition(state, jnp.ones(()), a == 2)},
            r"every array .*, reward has shape",
        ),
        (
            {"transition": lambda self, state, a, stream: Transition(state, state["at"][:, None], a == 2)},
            r"transition: the reward .*got \(3, 1\)",
        ),
        (
            {"transition": lambda self, state, a, stream: Transition(state, jnp.zeros((3, 2, 2)), a == 2)},
            r"transition: the reward .*got \(3, 2, 2\)",
        ),
        (
            {"transition": lambda self, state, a, stream: (state, state["at"], a == 2)},
            r"transition: .*got tuple",
        ),
        (
            {"transition": lambda self, state, a, stream: Transition(state, state["at"], a)},
            r"terminated .*got int32",
        ),
        (
            {"transition": lambda self, state, a, stream: Transition(state, state["at"], a == 2, {"twice": a})},
            r"env_info entries \['twice'\] come from transition.* state_info",
        ),
        (
            {
                "transition": lambda self, state, a, stream: Transition(
                    state, state["at"], a == 2, {"final_observation": a}
                )
            },
            r"transition: env_info\['final_observation'\] is an entry",
        ),
    ],
)
def test_a_wrong_method_is_reported_with_what_it_must_return(methods, message):
    with pytest.raises(ValueError, match=message):
        step(variant(**methods))


@pytest.mark.parametrize(("dtype", "spec"), [(bool, np.uint8), (bool, np.float32), (np.int32, np.float32)])
def test_flags_and_integers_become_what_the_spec_declares(dtype, spec):
    env = variant(
        observation_spec=lambda self: specs.Bounded((), spec, 0, 9),
        observe=lambda self, state: state["at"].astype(dtype),
    )
    _, timestep = jax.eval_shape(env.reset, jax.random.key(0))
    assert timestep.observation.dtype == spec


def test_a_reward_of_a_wrong_shape_is_refused_by_reset():
    wrong = variant(transition=lambda self, state, a, stream: Transition(state, state["at"][:, None], a == 2))
    with pytest.raises(ValueError, match=r"reward .*got \(3, 1\)"):
        wrong.reset(jax.random.key(0))


def test_make_refuses_a_task_without_specs():
    jaxenv.register("Specless-v0", type(variant(action_spec=lambda self: 2)))
    try:
        with pytest.raises(ValueError, match=r"action_spec: .*got 2"):
            jaxenv.make("Specless-v0")
    finally:
        del jaxenv.core.registry._registry["Specless-v0"]


def test_params_that_are_no_pytree_are_refused_when_the_class_is_defined():
    with pytest.raises(TypeError, match=r"Mine: params .*jaxenv\.tree\.struct"):

        class Mine(Walk):
            params: Plain = Plain(0.0)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(2, np.int32), r"must have shape \(3,\) .*, got \(2,\)"),
        (np.zeros((3, 1), np.int32), r"must have shape \(3,\) .*, got \(3, 1\)"),
        (np.zeros(3, np.float32), r"must be integers.* int32, got float32"),
        (np.zeros(3, bool), r"must be integers.* int32, got bool: action.astype\('int32'\)"),
        ({"a": np.zeros(3, np.int32)}, r"action .*got a dict with 'a'"),
        (1, r"must have shape \(3,\) .*, got \(\)"),
    ],
)
@pytest.mark.parametrize("jitted", [False, True])
def test_a_wrong_action_is_refused_at_trace_time(action, message, jitted):
    env = Walk(num_envs=3)
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    with pytest.raises(ValueError, match=message):
        (jax.jit(env.step) if jitted else env.step)(state, action)


def test_discrete_actions_may_have_any_integer_dtype():
    for dtype in (np.int8, np.uint8, np.int64):
        _, timestep = step(Walk(num_envs=3), np.ones(3, dtype))
        assert timestep.observation.tolist() == [1, 1, 1]
        assert timestep.prev_action.dtype == np.int32


def test_an_undeclared_field_is_refused():
    class Odd(Counting):
        thing: object = None

    with pytest.raises(TypeError, match=r"field 'thing' .*got NoneType"):
        Odd(np.array([1]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"position_limit": "far"}, r"position_limit .*got 'far'"),
        ({"sutton_barto_reward": 1}, r"sutton_barto_reward .*got 1"),
    ],
)
def test_an_invalid_option_is_refused_with_its_name_and_value(options, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.make("CartPole-v1", **options)


def test_an_environment_runs_without_jit():
    env = jaxenv.make("CartPole-v1", num_envs=1)
    with jax.disable_jit():
        _, timestep = step(env)
    assert timestep.step_type.tolist() == [1]


# --- steps that the task itself reports as abnormal ------------------------------------------------------------------


class Failing(Walk):
    """A walk that fails in its third cell: the step is reported as abnormal, with a bad state and reward."""

    continuous: bool = tree.static(default=False)

    def transition(self, state, action, stream):
        out = super().transition(state, jnp.ones(stream.shape, jnp.int32), stream)
        failed = out.state["at"] == 3
        bad = jnp.where(failed, 99, out.state["at"])
        return Transition({"at": bad}, bad, bad > 50, {"abnormal": failed})

    def action_spec(self):
        return specs.Bounded((), np.float32, -1, 1) if self.continuous else specs.discrete(2)


def played_failing(continuous, mode):
    env = jaxenv.make(jaxenv.EnvSpec("Failing-v0", Failing), 2, autoreset=mode, continuous=continuous)
    actions = jnp.zeros((5, 2), env.action_spec().dtype)
    return unrolled(env, actions)


@pytest.mark.parametrize("continuous", [False, True])
def test_a_step_that_the_task_reports_as_abnormal_truncates_the_lane_and_restarts_it(continuous):
    rows = played_failing(continuous, "next_step")
    assert rows.step_type[:, 0].tolist() == [FIRST, MID, MID, LAST, FIRST, MID]
    assert rows.discount[:, 0].tolist() == [1] * 6, "not a termination, whatever the failed step says"
    assert rows.reward[:, 0].tolist() == [0, 1, 2, 0, 0, 1]
    assert rows.observation[:, 0].tolist() == [0, 1, 2, 2, 0, 1], "the state before the failed step"
    assert rows.env_info["twice"][:, 0].tolist() == [0, 2, 4, 4, 0, 2]
    assert rows.env_info["abnormal"][:, 0].tolist() == [False, False, False, True, False, False]


def test_a_same_step_row_keeps_the_report_of_an_abnormal_step():
    rows = played_failing(True, "same_step")
    assert rows.step_type[:, 0].tolist() == [FIRST, MID, MID, LAST, MID, MID]
    assert rows.env_info["abnormal"][:, 0].tolist() == [False, False, False, True, False, False]


def test_a_learner_masks_out_a_step_that_the_task_reports_as_abnormal():
    rows = played_failing(True, "next_step")
    timestep, last = jax.tree.map(lambda x: x[:-1], rows), jax.tree.map(lambda x: x[-1], rows)
    mask = jaxenv.data.transition_mask(timestep, last)
    assert mask[:, 0].tolist() == [True, True, False, False, True]
    values = jnp.full((6, 2), 7.0)
    advantages = jaxenv.data.gae(timestep, last, values, gamma=1.0, lambda_=1.0).advantages
    assert advantages[:, 0].tolist() == [3, 2, 0, 0, 1], "the failed step earns nothing"


def test_abnormal_is_one_flag_per_lane_and_describes_a_step():
    def reports(flag):
        return lambda self, state, action, stream: Transition(state, state["at"], state["at"] > 9, {"abnormal": flag})

    with pytest.raises(ValueError, match=r"env_info\['abnormal'\] .*got float32\[3\]"):
        step(variant(transition=reports(jnp.zeros(3))))
    with pytest.raises(ValueError, match=r"env_info\['abnormal'\] .*got bool\[3, 1\]"):
        step(variant(transition=reports(jnp.zeros((3, 1), bool))))
    with pytest.raises(ValueError, match="'abnormal' describes a step"):
        step(variant(state_info=lambda self, state: {"abnormal": state["at"] > 9}))


def test_an_environment_unpacked_as_env_and_params_is_refused():
    with pytest.raises(TypeError, match=r"make returns the.* env\.params$"):
        _env, _params = jaxenv.make("CartPole-v1")


def test_replace_is_answered_with_what_makes_another_environment():
    with pytest.raises(AttributeError, match=r"'replace': use .* env.with_params\(...\) for params$"):
        jaxenv.make("CartPole-v1").replace
