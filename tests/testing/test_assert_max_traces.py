"""`assert_max_traces` counts traces and names the argument that caused one too many."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.testing import Chain, Counting, count_to_two
from jaxenv.testing._assert_max_traces import assert_max_traces
from jaxenv.wrappers import AutoReset


def message_of(fn, *calls):
    """The message of a function that may be traced once; only the last of ``calls`` may raise."""
    counted = jax.jit(assert_max_traces(fn, 1))
    for call in calls[:-1]:
        counted(*call)
    with pytest.raises(AssertionError) as error:
        counted(*calls[-1])
    head, *lines = str(error.value).splitlines()
    assert head.endswith("was traced 2 times, 1 allowed. Compared with trace 1:")
    return [line.removeprefix("  ") for line in lines]


def first(x, *rest):
    return jax.tree.leaves(x)[0]


ZEROS = jnp.zeros(3)


# --- counting ---------------------------------------------------------------------------------------------------------


def test_steps_of_an_environment_are_traced_once(key):
    env = AutoReset(count_to_two(num_envs=2))
    reset, step = (jax.jit(assert_max_traces(f, 1)) for f in (env.reset, env.step))
    state, _ = reset(key)
    for action in range(5):
        state, timestep = step(state, np.full(2, action, np.int32))
    assert timestep.step_type.tolist() == [2, 2]
    reset(jax.random.key(1))


def test_new_params_cause_no_trace(key):
    reset = jax.jit(assert_max_traces(lambda env, key: env.reset(key), 1))
    for gravity in (9.8, 3.0):
        reset(jaxenv.make("CartPole-v1", num_envs=2, gravity=gravity), key)


def test_the_allowed_number_of_traces_passes():
    counted = jax.jit(assert_max_traces(first, n=2))
    for lanes in (2, 3, 2, 3):
        counted(jnp.zeros(lanes))
    with pytest.raises(AssertionError, match=r"^first was traced 3 times, 2 allowed"):
        counted(jnp.zeros(4))


def test_calls_with_arrays_are_not_counted():
    counted = assert_max_traces(first, 0)
    assert counted(ZEROS) is ZEROS


def test_zero_traces_may_be_allowed():
    with pytest.raises(AssertionError, match=r"^first was traced 1 times, 0 allowed\.(\n|$)"):
        jax.jit(assert_max_traces(first, 0))(ZEROS)


def test_it_decorates_with_and_without_arguments():
    @jax.jit
    @assert_max_traces
    def once(x):
        """Doubles."""
        return 2 * x

    @jax.jit
    @assert_max_traces(n=2)
    def twice(x):
        return 2 * x

    assert once.__doc__ == "Doubles."
    for lanes in (2, 3):
        twice(jnp.ones(lanes))
    once(jnp.ones(2))
    with pytest.raises(AssertionError, match="once was traced 2 times, 1 allowed"):
        once(jnp.ones(3))


def test_every_wrapped_function_has_its_own_count():
    for lanes in (2, 3):
        jax.jit(assert_max_traces(first, 1))(jnp.zeros(lanes))


def test_a_method_is_named_with_its_owner(key):
    env = Chain(num_envs=2)
    step = jax.jit(assert_max_traces(env.step, 1))
    state, _ = env.reset(key)
    step(state, jnp.zeros(2, jnp.int32))
    with pytest.raises(AssertionError) as error:
        step(state, jnp.zeros(2, jnp.int8))
    assert str(error.value).splitlines()[:2] == [
        "<Chain>.step was traced 2 times, 1 allowed. Compared with trace 1:",
        "  action: dtype: int32[2] before, int8[2] now",
    ]


# --- messages ---------------------------------------------------------------------------------------------------------


def test_a_changed_shape_is_named_by_its_path(key):
    state, _ = Counting(np.array([3]), num_envs=2).reset(key)
    other = tree.set_field(state, "task.step", jnp.zeros(5, jnp.int32))
    assert message_of(first, (state,), (other,)) == ["x.task.step: shape: int32[2] before, int32[5] now"]


def test_a_changed_dtype_is_named():
    calls = ({"a": ZEROS, "b": (ZEROS, ZEROS)},), ({"a": ZEROS, "b": (ZEROS, ZEROS.astype(jnp.bfloat16))},)
    assert message_of(first, *calls) == ["x.b.1: dtype: float32[3] before, bfloat16[3] now"]


def test_a_changed_weak_type_is_named():
    weak = jax.lax.full((3,), 0.0)
    assert weak.weak_type
    assert message_of(first, (ZEROS,), (weak,)) == ["x: weak type: float32[3] before, float32[3] (weak type) now"]


def test_a_python_number_in_place_of_an_array_is_named_with_every_difference():
    assert message_of(first, (ZEROS,), (1,)) == [
        "x: shape, dtype, weak type: float32[3] before, int32[] (weak type) now"
    ]


def test_a_changed_static_argument_is_named_with_both_values():
    counted = jax.jit(assert_max_traces(lambda x, mode: x, 1), static_argnames="mode")
    counted(ZEROS, "train")
    with pytest.raises(AssertionError, match=r"\n  mode: static value: 'train' before, 'eval' now"):
        counted(ZEROS, "eval")


def test_equal_static_values_of_different_types_differ():
    counted = jax.jit(assert_max_traces(lambda x, n: x, 1), static_argnames="n")
    counted(ZEROS, 1)
    with pytest.raises(AssertionError, match=r"\n  n: static value: 1 before, True now"):
        counted(ZEROS, True)


def test_a_static_field_of_an_environment_is_named():
    calls = (AutoReset(Chain(4)), ZEROS), (AutoReset(Chain(5), "same_step"), ZEROS)
    assert message_of(lambda env, x: x, *calls) == [
        "env.mode: static value: 'next_step' before, 'same_step' now",
        "env.env.length: static value: 4 before, 5 now",
    ]


def test_another_wrapper_is_named_without_its_contents():
    calls = (AutoReset(Chain()), ZEROS), (Chain(), ZEROS)
    assert message_of(lambda env, x: x, *calls) == ["env: structure: AutoReset before, Chain now"]


def test_added_and_removed_entries_are_named():
    calls = ({"a": ZEROS, "b": {"c": ZEROS}},), ({"a": ZEROS, "d": ZEROS},)
    assert message_of(first, *calls) == [
        "x.b: structure: dict before, nothing now",
        "x.d: structure: nothing before, float32[3] now",
    ]


def test_none_in_place_of_an_array_is_named():
    assert message_of(first, ((ZEROS, ZEROS),), ((ZEROS, None),)) == ["x.1: structure: float32[3] before, None now"]


class Pair(NamedTuple):
    a: jax.Array
    b: jax.Array


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass
class Tagged:
    """A class whose children have no names."""

    value: jax.Array
    tag: str

    def tree_flatten(self):
        return (self.value,), self.tag

    @classmethod
    def tree_unflatten(cls, tag, children):
        return cls(*children, tag)


def test_different_kinds_of_containers_are_named():
    calls = (Pair(ZEROS, ZEROS),), ((ZEROS, ZEROS),)
    assert message_of(first, *calls) == ["x: structure: Pair before, tuple now"]


def test_the_metadata_of_a_custom_class_is_named():
    calls = (Tagged(ZEROS, "red"),), (Tagged(ZEROS, "blue"),)
    assert message_of(first, *calls) == ["x: structure: Tagged('red') before, Tagged('blue') now"]


def test_variadic_and_keyword_arguments_are_named():
    def fn(*args, **kwargs):
        return args[0]

    counted = jax.jit(assert_max_traces(fn))
    counted(ZEROS, ZEROS, scale=ZEROS)
    with pytest.raises(AssertionError) as error:
        counted(ZEROS, jnp.zeros(4), scale=jnp.zeros(5))
    assert str(error.value).splitlines()[1:] == [
        "  args.1: shape: float32[3] before, float32[4] now",
        "  kwargs.scale: shape: float32[3] before, float32[5] now",
    ]


def test_a_switch_to_a_keyword_argument_is_named():
    counted = jax.jit(assert_max_traces(lambda x, y: x))
    counted(ZEROS, ZEROS)
    with pytest.raises(AssertionError, match=r"arguments passed by.*: \(\) before, \('y',\) now"):
        counted(ZEROS, y=ZEROS)


def test_the_most_similar_earlier_trace_is_compared():
    counted = jax.jit(assert_max_traces(lambda x, y: x, n=2))
    counted(jnp.zeros(2), jnp.zeros(2))
    counted(jnp.zeros(3), jnp.zeros(3))
    with pytest.raises(AssertionError) as error:
        counted(jnp.zeros(2), jnp.zeros(4))
    assert str(error.value).splitlines() == [
        "<lambda> was traced 3 times, 2 allowed. Compared with trace 1:",
        "  y: shape: float32[2] before, float32[4] now",
    ]


def test_a_trace_with_equal_arguments_lists_possible_causes():
    counted = assert_max_traces(first)
    jax.jit(lambda x: counted(x))(ZEROS)
    with pytest.raises(AssertionError, match=r"no argument differs: jax\.jit was called again"):
        jax.jit(lambda x: counted(x))(ZEROS)


# --- misuse -----------------------------------------------------------------------------------------------------------


def test_a_compiled_function_is_refused():
    with pytest.raises(ValueError, match=r"write jax\.jit\(assert_max_traces\(fn\)\)"):
        assert_max_traces(jax.jit(first))


def test_a_number_in_place_of_the_function_is_refused():
    with pytest.raises(ValueError, match=r"fn .*got 2"):
        assert_max_traces(2)


def test_a_negative_number_is_refused():
    with pytest.raises(ValueError, match=r"assert_max_traces: n .*got -1"):
        assert_max_traces(first, -1)


def test_a_partial_function_has_a_name():
    counted = jax.jit(assert_max_traces(functools.partial(first, ZEROS)))
    counted(ZEROS)
    with pytest.raises(AssertionError, match=r"^functools\.partial\(.*first"):
        counted(jnp.zeros(4))
