"""Tree functions over lanes, field paths, ``Static`` and ``struct``."""

import collections
import copy
import dataclasses
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs, tree

Pair = collections.namedtuple("Pair", ["left", "right"])


@tree.struct
class Point:
    x: Any
    y: Any = 0
    unit: str = tree.static(default="m")


MASK = jnp.array([True, False, False])


# --- lanes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ndim", [1, 2, 4])
def test_expand_appends_axes_of_length_1(ndim):
    assert tree.expand(MASK, ndim).shape == (3,) + (1,) * (ndim - 1)


def test_where_takes_new_values_in_the_lanes_of_the_mask():
    new = {"a": jnp.arange(3), "b": (jnp.ones((3, 2)),)}
    old = {"a": jnp.full(3, 9), "b": (jnp.zeros((3, 2)),)}
    got = tree.where(MASK, new, old)
    assert got["a"].tolist() == [0, 9, 9]
    assert got["b"][0].tolist() == [[1, 1], [0, 0], [0, 0]]


def test_where_keeps_a_leaf_that_is_identical_on_both_sides():
    same, other = jnp.arange(3), jnp.zeros(3)
    got = tree.where(MASK, Point(same, jnp.ones(3)), Point(same, other))
    assert got.x is same
    assert got.y is not other


def test_where_keeps_the_old_shared_subtree_even_if_its_length_is_the_batch_size():
    old, new = (tree.Shared({"mean": jnp.full(3, v)}) for v in (1.0, 2.0))
    assert tree.where(MASK, {"s": new}, {"s": old})["s"] is old


def test_where_selects_typed_keys():
    a, b = (jax.random.split(jax.random.key(s), 3) for s in (0, 1))
    got = jax.random.key_data(tree.where(MASK, a, b))
    assert (got[0] == jax.random.key_data(a)[0]).all()
    assert (got[1] == jax.random.key_data(b)[1]).all()


def test_gather_takes_lanes_and_clamps_indices_out_of_range():
    got = tree.gather({"a": jnp.arange(3) * 10, "b": np.arange(6).reshape(3, 2)}, jnp.array([2, 0, 7]))
    assert got["a"].tolist() == [20, 0, 20]
    assert got["b"].tolist() == [[4, 5], [0, 1], [4, 5]]


def test_gather_keeps_a_shared_subtree():
    shared = tree.Shared(jnp.arange(3))
    assert tree.gather((shared, jnp.arange(3)), jnp.array([1]))[0] is shared


def test_zeros_have_the_shapes_and_dtypes_of_the_tree():
    got = tree.zeros({"a": jax.ShapeDtypeStruct((2, 3), jnp.int32), "b": jnp.ones(4, bool)})
    assert (got["a"].shape, got["a"].dtype) == ((2, 3), jnp.int32)
    assert got["b"].tolist() == [False] * 4


def test_strong_drops_weak_types_and_keeps_dtypes():
    got = tree.strong({"weak": jnp.asarray(1.0), "number": 2, "strong": jnp.int8(3)})
    assert [x.weak_type for x in jax.tree.leaves(got)] == [False] * 3
    assert (got["weak"].dtype, got["number"].dtype, got["strong"].dtype) == (jnp.float32, jnp.int32, jnp.int8)


def test_detach_stops_gradients_and_keeps_integers_by_identity():
    n = jnp.arange(2)
    assert tree.detach((n, jnp.ones(2)))[0] is n
    gradient = jax.grad(lambda x: jnp.sum(x * tree.detach(x)))(jnp.array([3.0]))
    assert gradient.tolist() == [3.0]


# --- field paths -----------------------------------------------------------------------------------------------------

DATA = {"a": Pair(left=1, right=[2, 3]), "b": Point(x={"c": 4}), "t": (5, 6)}
PATHS = [("a.left", 1), ("a.right.1", 3), ("b.x.c", 4), ("t.0", 5), ("b.x", {"c": 4})]


@pytest.mark.parametrize(("path", "value"), PATHS)
def test_get_field_returns_the_subtree_at_a_path(path, value):
    assert tree.get_field(DATA, path) == value


def test_get_field_of_the_empty_path_is_the_whole_tree():
    assert tree.get_field(DATA, "") is DATA


@pytest.mark.parametrize("path", [path for path, _ in PATHS])
def test_set_field_changes_that_field_and_nothing_else(path):
    before = repr(DATA)
    got = tree.set_field(DATA, path, "new")
    assert tree.get_field(got, path) == "new"
    others = [p for p, _ in PATHS if not p.startswith(path) and not path.startswith(p)]
    assert [tree.get_field(got, p) for p in others] == [tree.get_field(DATA, p) for p in others]
    assert repr(DATA) == before


def test_set_field_keeps_container_types():
    assert isinstance(tree.set_field(DATA, "t.1", "5")["t"], tuple)
    assert tree.set_field(3, "", 4) == 4


def test_set_field_keeps_the_type_and_the_order_of_a_dict():
    ordered = collections.OrderedDict(z=1, a=2)
    got = tree.set_field(ordered, "z", 3)
    assert got == collections.OrderedDict(z=3, a=2)
    assert jax.tree.structure(got) == jax.tree.structure(ordered)
    assert ordered["z"] == 1


def test_paths_may_contain_integer_dict_keys():
    assert tree.get_field({7: 1}, "7") == 1
    assert tree.set_field({7: 1}, "7", 2) == {7: 2}
    assert tree.select_fields({7: 1, 8: 2}, ["8"]) == {8: 2}


@pytest.mark.parametrize(
    ("path", "valid"),
    [
        ("z", "['a', 'b', 't']"),
        ("a.middle", "['left', 'right']"),
        ("a.right.2", "['0', '1']"),
        ("b.unit", "['x', 'y']"),
        ("t.left", "['0', '1']"),
        ("a.left.deeper", "[]"),
    ],
)
@pytest.mark.parametrize("access", [tree.get_field, lambda t, p: tree.set_field(t, p, 0)])
def test_an_unknown_name_in_a_path_is_refused_with_the_valid_names(access, path, valid):
    with pytest.raises(ValueError, match="the fields are") as error:
        access(DATA, path)
    assert repr(path) in str(error.value)
    assert valid in str(error.value)


def test_select_fields_empties_other_fields_and_drops_other_dict_keys():
    got = tree.select_fields(DATA, ["a.right", "t.1"])
    assert got == {"a": Pair((), [2, 3]), "t": ((), 6)}


def test_select_fields_of_a_struct_keeps_its_class_and_static_fields():
    got = tree.select_fields(Point({"c": 1, "d": 2}, 3, unit="km"), ["x.d"])
    assert (got.x, got.y, got.unit) == ({"d": 2}, (), "km")


def test_select_fields_with_the_empty_path_returns_the_whole_tree():
    assert tree.select_fields(DATA, ["", "a.left"]) is DATA


def test_select_fields_refuses_an_unknown_name():
    with pytest.raises(ValueError, match=r"no 'q' here, the fields are \['x', 'y'\]"):
        tree.select_fields(DATA, ["b.q"])


def test_path_name_is_dotted():
    leaves = jax.tree_util.tree_leaves_with_path({"a": Pair([1], 2), "b": Point(3, ())})
    assert [tree.path_name(path) for path, _ in leaves] == ["a.left.0", "a.right", "b.x"]


# --- Static and struct -----------------------------------------------------------------------------------------------


def test_static_compares_and_hashes_by_value():
    def make(n):
        return tree.Static({"a": specs.discrete(n), "b": (specs.Array((2,), np.float32),)})

    assert make(3) == make(3)
    assert hash(make(3)) == hash(make(3))
    assert make(3) != make(4)
    assert make(3) != tree.Static({"a": specs.discrete(3)})
    assert make(3) != make(3).value


def test_static_returns_copies():
    static = tree.Static({"a": 1})
    static.value["a"] = 2
    assert static.value == {"a": 1}
    assert repr(static) == "{'a': 1}"


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_static_copies_and_pickles(again):
    static = tree.Static({"a": specs.discrete(3), "b": Pair(specs.discrete(2), ())})
    assert again(static) == static
    assert hash(again(static)) == hash(static)


def test_struct_is_frozen_and_compares_by_identity():
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2
    assert point != Point(1)


def test_struct_pickles():
    again = pickle.loads(pickle.dumps(Point(np.arange(2), unit="km")))
    assert (again.x.tolist(), again.y, again.unit) == ([0, 1], 0, "km")


def test_static_fields_are_structure_and_other_fields_are_leaves():
    assert jax.tree.leaves(Point(1, 2)) == [1, 2]
    assert jax.tree.structure(Point(1, 2)) == jax.tree.structure(Point(3, 4))
    assert jax.tree.structure(Point(1, 2)) != jax.tree.structure(Point(1, 2, unit="km"))


def test_a_struct_says_what_takes_the_place_of_replace():
    @tree.struct
    class Params:
        mass: float = 1.0

    with pytest.raises(AttributeError, match=r"Params has no attribute 'replace': use .* env.with_params"):
        Params().replace
    with pytest.raises(AttributeError, match="'Params' object has no attribute 'masss'"):
        Params().masss
    assert not hasattr(Params(), "replace")
