"""Keep parts of the observation."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import ObservationWrapper
from jaxenv.tree import Tree


class FilterObservation(ObservationWrapper):
    """Keeps some entries of a dict, some items of a tuple or some elements of a vector, with their bounds.

    Items and elements keep the order in which ``keys`` names them. Owns ``observation``; maps
    ``env_info["final_observation"]`` in the same way.

    Args:
        env: an environment whose observation is a dict, a tuple, a struct or one array with one axis.
        keys: the parts to keep: keys of a dict; numbers of items or elements, negative ones counting from the end; or
            dotted paths such as ``"robot.camera"``, which leave ``()`` for dropped items inside a tuple or struct.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.FilterObservation(jaxenv.spec("Pendulum-v1").make(), (0, -1))
    >>> env.observation_spec()
    Bounded((2,), float32, [-1.0, -8.0], [1.0, 8.0], name='observation')
    """

    keys: Any = tree.static()

    in_evaluation = "kept"

    def check(self) -> None:
        spec, paths = self.env.observation_spec(), self._paths()
        if not paths:
            raise ValueError(f"FilterObservation: keys must name at least one part, got {self.keys!r}")
        if len(set(paths)) < len(paths):
            raise ValueError(f"FilterObservation: keys must not repeat a part, got {self.keys!r}")
        if specs.is_spec(spec) and spec.ndim != 1:
            raise ValueError(f"FilterObservation: observation must be a tree or an array with one axis, got {spec}")
        # Paths are checked on a tree of placeholders, since they must not reach the attributes of a spec. A dict of its
        # element numbers represents a vector.
        names = dict.fromkeys(range(spec.shape[0])) if specs.is_spec(spec) else jax.tree.map(lambda _: 0, spec)
        try:
            tree.select_fields(names, paths)
        except ValueError as unknown:
            raise ValueError(f"FilterObservation: {unknown}") from None

    def observation(self, observation: Tree) -> Tree:
        return self._kept(observation, lambda x, numbers: x[:, numbers])

    def observation_spec(self) -> Tree:
        return self._kept(self.env.observation_spec(), lambda s, numbers: specs.rearranged(s, lambda x: x[:, numbers]))

    def _paths(self) -> list[str]:
        """Returns the keys as dotted paths, with numbers counted from 0."""
        keys = self.keys if isinstance(self.keys, tuple) else (self.keys,)
        count = _length(self.env.observation_spec())
        return [str(key % count) if type(key) is int and -count <= key < count else str(key) for key in keys]

    def _kept(self, node: Tree, elements: Callable[..., Any]) -> Tree:
        paths = self._paths()
        if specs.is_spec(self.env.observation_spec()):
            return elements(node, np.array(paths, np.int32))
        chosen = tree.select_fields(node, paths)
        if isinstance(node, list | tuple) and not hasattr(node, "_fields"):
            # A filtered tuple holds only the named items, in the order of their names.
            return type(node)(chosen[i] for i in dict.fromkeys(int(path.split(".")[0]) for path in paths))
        return chosen


def _length(spec: Tree) -> int:
    """Returns how many items or elements negative keys count from; 0 for dicts and structs."""
    if specs.is_spec(spec):
        return spec.shape[0] if spec.ndim else 0
    return len(spec) if isinstance(spec, list | tuple) else 0
