"""Ranges of numbers and the errors of values outside them."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv._util import checks
from jaxenv._util.checks import Range, check_order
from tests.errors import like


@pytest.mark.parametrize(
    ("limits", "inside", "outside", "text"),
    [
        (Range(low=0), [0, 5, np.inf], [-1, np.nan], "at least 0"),
        (Range(above=0), [1e-30, 5], [0, -1, np.nan], "above 0"),
        (Range(high=2.5), [2.5, -np.inf], [2.6, np.nan], "at most 2.5"),
        (Range(below=2), [1], [2, np.nan], "below 2"),
        (Range(low=0, high=1), [0, 1], [-0.1, 1.1], "in [0, 1]"),
        (Range(above=0, high=1), [0.5, 1], [0, 1.1], "in (0, 1]"),
        (Range(low=0, below=1), [0], [1], "in [0, 1)"),
        (Range(above=0, below=math.inf), [1], [0, np.inf, np.nan], "finite and above 0"),
    ],
)
def test_a_range_contains_its_ends_unless_they_are_open_and_never_nan(limits, inside, outside, text):
    assert limits.contains(inside).all()
    assert not limits.contains(outside).any()
    assert str(limits) == text
    for value in outside:
        with pytest.raises(ValueError, match=like(f"Env: x must be {text}, got {value}")):
            limits.check("Env", "x", value)


def test_ends_are_rounded_to_the_dtype_of_the_values():
    assert float(np.float32(math.pi)) > math.pi
    assert Range(high=math.pi).contains(np.float32(math.pi))


@pytest.mark.parametrize(
    ("values", "rank", "fault"),
    [
        ([1.0, -2.0, -3.0], 0, "got -2.0 in lane 1"),
        ([1.0, -2.0, -3.0], 1, "got -2.0"),
        ([[1.0, 1.0], [1.0, -2.0]], 1, "got -2.0 in lane 1"),
    ],
)
def test_the_error_names_the_first_value_outside_and_its_lane(values, rank, fault):
    with pytest.raises(ValueError, match=rf"^Env: x .*{fault}"):
        Range(above=0).check("Env", "x", jnp.array(values), rank)


def test_traced_values_are_not_checked():
    def step(x):
        Range(above=0).check("Env", "x", x)
        check_order("Env", "x", x, "y", -1.0)
        return x

    assert jax.jit(step)(-2.0) == -2


def test_a_range_has_one_lower_and_one_upper_end():
    with pytest.raises(TypeError, match="low or above, not both"):
        Range(low=0, above=0)
    assert not Range()
    assert Range(low=0)


def test_the_order_of_two_arguments_is_checked_lane_by_lane():
    check_order("Env", "low", 1, "high", np.array([1, 2]))
    with pytest.raises(ValueError, match=r"^Env: low .*got 0.5 and 0.25 in lane 1$"):
        check_order("Env", "low", np.float32([0, 0.5]), "high", 0.25)
    with pytest.raises(ValueError, match=r"^Env: low .*got 1 and 1$"):
        check_order("Env", "low", 1, "high", 1, strict=True)
    with pytest.raises(ValueError, match=r"low .*got nan and 1"):
        check_order("Env", "low", np.nan, "high", 1)


@pytest.mark.parametrize(
    ("check", "arguments", "message"),
    [
        (checks.check_real, ("Metrics", "gamma", 1.5, 0, 1), "Metrics: gamma must be in [0, 1], got 1.5"),
        (checks.check_numbers, ("Clip", "low", "a"), "Clip: low must be a number or an array of numbers, got 'a'"),
        (checks.check_choice, ("make", "mode", "x", ("a", "b")), "make: mode must be 'a' or 'b', got 'x'"),
        (checks.check_kind, ("merge", "a", 1, Range), "merge: a must be a Range, got 1"),
        (checks.check_array, ("gae", "values", None), "gae: values must be a number or an array of numbers, got None"),
    ],
)
def test_errors_name_the_owner_the_argument_the_rule_and_the_value(check, arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check(*arguments)
