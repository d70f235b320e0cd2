"""Map observations by a function."""

from collections.abc import Callable
from typing import Any

from jaxenv import specs, tree
from jaxenv.core import ObservationWrapper, check_callable, checked_observation
from jaxenv.tree import Tree


class TransformObservation(ObservationWrapper):
    """Maps the observations of the whole batch by a function.

    Owns ``observation``; maps ``env_info["final_observation"]`` in the same way.

    Args:
        fn: maps a tree of observations ``[B, ...]`` to a tree of arrays ``[B, ...]``. It must not mix lanes.
        spec: specs of the result for one lane; by default the shapes and dtypes that ``fn`` returns, without bounds.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.TransformObservation(jaxenv.spec("Pendulum-v1").make(), lambda o: o[:, :2])
    >>> env.observation_spec()
    Array((2,), float32, name='observation')
    """

    fn: Callable[..., Any] = tree.static()
    spec: Any = tree.static(default=None)

    in_evaluation = "kept"

    def convert(self) -> dict[str, Any]:
        if self.spec is None or isinstance(self.spec, tree.Static):
            return {}
        specs.check_spec("TransformObservation", self.spec)
        return {"spec": tree.Static(self.spec)}  # trees of specs need not be hashable

    def check(self) -> None:
        check_callable("TransformObservation", "fn", self.fn)
        found = self._found()
        if self.spec is not None:
            given = specs.unbatched(self.spec.value, 0)
            specs.require_equal(given, found, "TransformObservation: spec and the result of fn")

    def _found(self) -> Tree:
        """Returns the specs of the result of ``fn``, without bounds."""
        lanes = self._spec_lanes
        return specs.mapped_spec(
            lambda x: checked_observation("TransformObservation: fn", self.fn(x), lanes),
            self.env.observation_spec(),
            lanes,
        )

    def observation(self, observation: Tree) -> Tree:
        return self.fn(observation)

    def observation_spec(self) -> Tree:
        if self.spec is not None:
            return self.spec.value
        inner, mapped = self.env.observation_spec(), self._found()
        # A single array keeps its name. In a tree the origin of a leaf is unknown.
        single = specs.is_spec(mapped) and specs.is_spec(inner)
        return mapped.replace(name=inner.name) if single else mapped
