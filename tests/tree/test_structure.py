"""Where two trees differ in structure."""

import dataclasses

import numpy as np
import pytest

from jaxenv import TimeStep, specs, tree
from jaxenv.random import Stream
from jaxenv.tree._structure import mismatch, type_mismatch

X = np.zeros(3)


@dataclasses.dataclass
class Plain:
    at: float = 0.0


def struct(name, **statics):
    fields = {"__annotations__": {"at": float, "size": int}, "size": tree.static(default=0), "__module__": name}
    return tree.struct(type("State", (), fields))(X, **statics)


@pytest.mark.parametrize(
    ("expected", "given", "found"),
    [
        (X, None, "it must be an array, got None"),
        (X, "left", "it must be an array, got a str"),
        (X, Plain(), "it must be an array, got a Plain"),
        (X, [1, 2], "it must be an array, got a list of 2"),
        ((), X, "it must be an empty tuple, got an array"),
        (specs.discrete(2), TimeStep(), "it must be an array, got a TimeStep"),
        ({"a": X}, {"a": X, "b": X}, "it must be a dict with 'a', got a dict with 'a', 'b'"),
        ({"a": X}, {}, "it must be a dict with 'a', got an empty dict"),
        ({"a": {"b": (X, X)}}, {"a": {"b": (X, None)}}, "it.a.b.1 must be an array, got None"),
        (Stream(X, X, X, X), Stream(X, X, X, (X,)), "it.c1 must be an array, got a tuple of 1"),
    ],
)
def test_the_first_difference_is_named_with_both_sides(expected, given, found):
    assert mismatch(expected, given, "it") == found


def test_classes_of_one_name_are_told_apart_by_their_modules():
    assert mismatch(struct("one"), struct("two"), "it") == "it must be a one.State, got a two.State"


def test_static_fields_that_differ_are_reported():
    one = struct("one")
    other = tree.rebuild(one, size=2)
    assert mismatch(one, other, "it") == "it must have the same static fields, got others"


@pytest.mark.parametrize("given", [X, 1.0, True, specs.discrete(2)])
def test_arrays_numbers_and_specs_are_leaves_alike(given):
    assert mismatch({"a": X}, {"a": given}, "it") is None


@pytest.mark.parametrize("given", [1, np.int32(1)])
def test_types_of_numbers_are_compared_like_those_of_arrays(given):
    assert type_mismatch({"at": np.float32(0)}, {"at": given}, "it") == "it.at must be float32[], got int32[]"
    assert type_mismatch({"at": np.int32(0)}, {"at": given}, "it") is None
