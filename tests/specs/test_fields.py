"""The ``fields`` argument: one rule and one sentence for every wrapper that takes it."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs, wrappers
from jaxenv.specs._trees import field_paths, select, select_floats
from jaxenv.testing import random_environment

SPEC = {
    "camera": specs.Bounded((4, 4, 3), np.uint8, 0, 255),
    "arm": {"pose": specs.Bounded((2,), np.float32, -1, 1), "gear": specs.discrete(3)},
}
# Required arguments other than ``fields``.
ARGUMENTS = {
    "AddWhiteNoise": (0.5,),
    "CropObservation": (0, 0, 1, 1),
    "DiscretizeObservation": (2,),
    "DtypeObservation": ("float32",),
    "ObstructView": (0.5, 1),
    "RandomCrop": (1, 1),
    "ReshapeObservation": ((2,),),
    "ResizeObservation": ((2, 2),),
}
TAKING_FIELDS = sorted(
    name
    for name, x in vars(wrappers).items()
    if inspect.isclass(x) and "fields" in inspect.signature(x).parameters and not name.endswith("Wrapper")
)


def wrapped(name, fields):
    env = random_environment(SPEC, specs.discrete(2))
    return getattr(wrappers, name)(env, *ARGUMENTS.get(name, ()), fields=fields)


@pytest.mark.parametrize("name", TAKING_FIELDS)
@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ((), r"fields .*got \(\)"),
        ((3,), r"fields .*got \(3,\)"),
        (3, r"fields .*got 3"),
        (("arm.hand",), r"field 'arm.hand': no 'hand' here, the fields.* \['gear', 'pose'\]"),
        ("lidar", r"field 'lidar': no 'lidar' here, the fields.* \['arm', 'camera'\]"),
    ],
)
def test_every_wrapper_refuses_invalid_fields_with_the_same_sentence(name, fields, sentence):
    with pytest.raises(ValueError, match=f"^{name}: {sentence}"):
        wrapped(name, fields)


def test_paths_are_one_path_a_sequence_or_the_whole_tree():
    assert field_paths("X", "a.b") == ("a.b",)
    assert field_paths("X", ["a", "b"]) == ("a", "b")
    assert field_paths("X", None) == ("",)


def test_named_subtrees_are_selected_with_all_their_leaves():
    assert select("X", SPEC, "arm") == {"camera": False, "arm": {"pose": True, "gear": True}}
    assert select("X", SPEC, ("camera", "arm.gear")) == {"camera": True, "arm": {"pose": False, "gear": True}}


def test_no_fields_select_every_leaf_of_the_kind():
    assert select_floats("X", SPEC, None) == {"camera": False, "arm": {"pose": True, "gear": False}}


@pytest.mark.parametrize("fields", ["arm", "camera", ("arm.pose", "arm.gear")])
def test_a_named_leaf_of_another_kind_is_refused(fields):
    with pytest.raises(ValueError, match=r"X: (arm.gear|camera) .*got Bounded"):
        select_floats("X", SPEC, fields)


def test_an_observation_without_a_leaf_of_the_kind_is_refused():
    with pytest.raises(ValueError, match=r"X: observation .*got Array"):
        select_floats("X", jnp.zeros(3, jnp.int32), None)


def test_arrays_and_shapes_are_selected_like_specs():
    arrays = jax.tree.map(lambda s: s.zeros((2,)), SPEC)
    assert select_floats("X", arrays, "arm.pose") == select_floats("X", SPEC, "arm.pose")
    assert select_floats("X", jax.eval_shape(lambda: arrays), None) == select_floats("X", SPEC, None)
