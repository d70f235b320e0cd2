"""Numeric arguments of environments: accepted values, conversion, and error messages."""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import tree
from jaxenv.core._declared import Declared, check_number, check_static, declared_leaves, hashable
from jaxenv.testing import Chain
from tests.errors import like


def declared(value, rank=0, dtype=np.float32):
    return Declared("params.gravity", value, rank, None if dtype is None else np.dtype(dtype))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, np.float32),
        (2.5, np.float32),
        (True, np.bool_),
        (3.0, np.int32),
        (np.int64(7), np.int32),
        ([1, 2], np.int32),
    ],
)
def test_number_converts_to_the_declared_dtype(value, dtype):
    got = check_number("Env", declared(value, dtype=dtype))
    assert got.dtype == dtype
    assert got.tolist() == value if isinstance(value, list) else got.item() == value


def test_number_keeps_arrays_of_the_declared_dtype():
    host, device = np.ones(2, np.float32), jnp.ones(2)
    kept = check_number("Env", declared(host))
    host[:] = 9
    assert kept.tolist() == [1, 1], "the caller's array is not aliased"
    assert check_number("Env", declared(kept)) is kept
    with pytest.raises(ValueError, match="read-only"):
        kept[:] = 9
    assert check_number("Env", declared(device)).tolist() == [1, 1]


def test_number_returns_a_strong_type():
    assert not check_number("Env", declared(jnp.asarray(1.0))).weak_type


def test_number_casts_tracers_without_reading_their_values():
    got = jax.jit(lambda x: check_number("Env", declared(x)))(jnp.arange(3))
    assert got.dtype == jnp.float32


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (float("nan"), np.float32, "must be finite"),
        (float("inf"), np.int32, "must be finite"),
        ([0.0, -np.inf], np.float32, "must be finite"),
        (1e300, np.float32, "must be finite"),
        ("9.8", np.float32, "must be a number"),
        (["9.8"], np.float32, "must be a number"),
        (None, np.float32, "must be a number"),
        ([1, [2, 3]], np.float32, "must be a number"),
        (1j, np.float32, "must be a number"),
        (10**30, np.int32, "must be a number"),
        (2.5, np.int32, "must be int32"),
        (2**31, np.int32, "must be int32"),
        (True, np.int32, "must be int32"),
        (True, np.float32, "must be float32"),
        (1, np.bool_, "must be bool"),
        ([[1.0]], np.float32, "must have 0 axes, or 1 for one value"),
        (7, None, "must be a typed key from jax.random.key"),
    ],
)
def test_number_names_the_owner_the_argument_and_the_rule(value, dtype, message):
    with pytest.raises(ValueError, match=f"^Env: gravity {message}"):
        check_number("Env", declared(value, dtype=dtype))


@pytest.mark.parametrize(("shape", "rank", "per_lane"), [((), 0, False), ((3,), 0, True), ((3,), 1, False)])
def test_a_value_per_lane_has_one_axis_more_than_declared(shape, rank, per_lane):
    assert declared(np.zeros(shape), rank).per_lane is per_lane


def test_number_accepts_keys_for_a_key_field():
    key = jax.random.key(0)
    assert check_number("Env", declared(key, dtype=None)) is key


def test_declared_leaves_refuses_an_undeclared_field():
    @dataclasses.dataclass
    class Odd:
        text: str = "x"

    with pytest.raises(TypeError, match="Odd: field 'text' must be static"):
        declared_leaves(Odd())


def test_hashable_turns_arrays_and_lists_into_tuples():
    assert hashable([np.array([[1, 2]]), (3, [4]), "x"]) == (((1, 2),), (3, (4,)), "x")


@tree.struct
class Params:
    """One field of every kind."""

    plain: float = 1.0
    number: float = tree.leaf(default=1.0, unit="m", above=0, doc="a length")
    count: int = tree.leaf(default=3, low=1)
    flag: bool = tree.leaf(default=False)
    table: Any = tree.leaf(rank=1, default=(1.0, 2.0), high=2)


def test_a_declaration_has_the_dtype_of_its_default_and_its_range_unit_and_meaning():
    found = {
        d.path: (d.rank, d.dtype, str(d.range) if d.range else "", d.unit, d.doc) for d in declared_leaves(Params())
    }
    assert found == {
        "plain": (0, np.float32, "", "", ""),
        "number": (0, np.float32, "above 0", "m", "a length"),
        "count": (0, np.int32, "at least 1", "", ""),
        "flag": (0, np.bool_, "", "", ""),
        "table": (1, np.float32, "at most 2", "", ""),
    }


@pytest.mark.parametrize(("declare", "name"), [(tree.leaf, "tree.leaf"), (tree.static, "tree.static")])
def test_the_meaning_of_a_field_must_be_text(declare, name):
    with pytest.raises(ValueError, match=f"^{name}: doc must be .*, got 3"):
        declare(default=1.0, doc=3)


def test_params_are_built_by_position_and_by_name_like_any_dataclass():
    assert Params(2.0, 3.0).number == Params(number=3.0).number == dataclasses.replace(Params(), number=3.0).number == 3
    assert jax.tree.leaves(Params(flag=True)) == [1.0, 1.0, 3, True, 1.0, 2.0]


class Ranged(Chain):
    """Has a param and an option with ranges."""

    params: Params = Params()
    share: float = tree.static(default=0.5, above=0, high=1)
    size: int = tree.static(default=5, low=2)
    loose: float = tree.static(default=0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"params": Params(number=0.0)}, "number ...got 0.0"),
        ({"params": Params(count=[3, 0])}, "count ...got 0 in lane 1"),
        ({"params": Params(table=[1, 3])}, "table ...got 3.0"),
        ({"params": Params(table=[[1, 2], [3, 1]])}, "table ...got 3.0 in lane 1"),
        ({"share": 0}, "share ...got 0"),
        ({"share": float("nan")}, "share ...got nan"),
        ({"share": (0.5, 0.5)}, "share ...got (0.5, 0.5)"),
        ({"size": 1}, "size ...got 1"),
        ({"size": 2**31}, "size ...got 2147483648"),
        ({"size": 2.5}, "size ...got 2.5"),
        ({"loose": (1.0, 2.0)}, "loose ...got (1.0, 2.0)"),
    ],
)
def test_values_out_of_range_are_refused_by_the_constructor(arguments, message):
    with pytest.raises(ValueError, match="^" + like(f"Ranged: {message}") + "$"):
        Ranged(num_envs=2, **arguments)


def test_traced_params_are_not_checked():
    assert jax.jit(lambda x: Ranged().with_params(number=x).params.number)(-1.0) == -1


# --- options ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Options:
    steps: int | None = tree.static(default=None, low=1)
    target: float | None = tree.static(default=None, above=-np.inf, below=np.inf)
    widths: tuple[int, ...] = tree.static(default=(64, 32), low=1)
    padding: Literal["reset", "zero"] = tree.static(default="reset")


def option(name, value):
    (field,) = (field for field in dataclasses.fields(Options) if field.name == name)
    return check_static("Task", field, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("steps", None), ("steps", 3), ("target", None), ("target", -2), ("widths", ()), ("padding", "zero")],
)
def test_an_option_in_its_declared_range_is_kept(name, value):
    assert option(name, value) == value


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("steps", 0, "steps ...got 0"),
        ("steps", 2.5, "steps ...got 2.5"),
        ("steps", True, "steps ...got True"),
        ("steps", 2**31, "steps ...got 2147483648"),
        ("target", np.inf, "target ...got inf"),
        ("target", "low", "target ...got 'low'"),
        ("widths", 8, "widths ...got 8"),
        ("widths", (64, 0.5), "widths ...got (64, 0.5)"),
        ("widths", (64, 0), "widths ...got 0"),
        ("padding", "ones", "padding ...got 'ones'"),
    ],
)
def test_an_option_out_of_its_declared_range_is_refused_by_name(name, value, message):
    with pytest.raises(ValueError, match=f"^{like('Task: ' + message)}$"):
        option(name, value)
