"""The base of environments: frozen dataclasses that are pytrees and check their arguments."""

import dataclasses
import inspect
import sys
from collections.abc import Iterable
from typing import Any, dataclass_transform

import jax.core
import jax.numpy as jnp

from jaxenv import tree
from jaxenv.core._declared import check_number, check_static, hashable, map_declared


@dataclass_transform(
    frozen_default=True,
    eq_default=False,
    field_specifiers=(tree.static, tree.leaf, tree.key_leaf, tree.lanes_leaf, tree.shared_leaf),
)
class Module:
    """A frozen dataclass with identity equality, registered as a pytree.

    Every subclass becomes a dataclass without a decorator. Numeric fields and params are leaves, fields declared with
    ``tree.static()`` are structure. The constructor converts numbers to strong int32 or float32 and checks them. JAX
    rebuilds the object from its leaves without running the constructor.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            rule = "declare its arguments as fields, such as size: int = jaxenv.tree.static(default=5)"
            raise TypeError(f"{cls.__name__}: an environment must not define __init__, it is a dataclass: {rule}")
        for name in _annotated(cls):
            default = vars(cls).get(name)
            is_object = dataclasses.is_dataclass(default) and not isinstance(default, type | dataclasses.Field)
            if is_object and jax.tree_util.all_leaves([default]):
                kind = type(default).__name__
                raise TypeError(f"{cls.__name__}: {name} must be a pytree: declare {kind} with @jaxenv.tree.struct")
        dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
        tree.register_unchecked(cls)

    def __post_init__(self) -> None:
        for name, value in self.convert().items():
            object.__setattr__(self, name, value)
        owner = self._owner
        converted = map_declared(lambda d: check_number(owner, d), self)
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(converted, field.name)
            if field.metadata.get("static"):
                if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value)):
                    rule = "must be known while tracing, since it is part of the program"
                    raise ValueError(f"{owner}: {field.name} {rule}, got a traced {jnp.result_type(value)}")
                value = check_static(owner, field, hashable(value))
            object.__setattr__(self, field.name, value)
        self.check()

    @property
    def _owner(self) -> str:
        """The name with which errors about arguments start."""
        return type(self).__name__

    def convert(self) -> dict[str, Any]:
        """Fields that the constructor stores in another form than given, or derives from others: name to value."""
        return {}

    def check(self) -> None:
        """Checks the constructor's arguments; raises a ``ValueError`` naming class, argument and value."""


def _annotated(cls: type) -> Iterable[str]:
    """Returns the names that the body of a class annotates; no annotation is evaluated."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(cls)
