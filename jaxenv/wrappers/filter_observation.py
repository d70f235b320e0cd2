"""Keep a part of the observation."""

from typing import Any

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv._bounds import rearranged
from jaxenv._wrapper_bases import ObservationWrapper


class FilterObservation(ObservationWrapper):
    """Keeps some entries of a dict, some items of a tuple or some elements of a vector; bounds stay.

    Items and elements are kept in the order in which they are named. As Gymnasium's wrapper, and for vectors as
    TF-Agents' ``ObservationFilterWrapper``. Owns ``observation``; ``env_info["final_observation"]`` is mapped alike.

    Args:
        env: an environment whose observation is a dict, a tuple, a struct or one array with one axis.
        keys: what to keep: keys of a dict; numbers of items or elements, negative ones counting from the end; or dotted
            paths such as ``"robot.camera"``, which leave ``()`` where an item inside a tuple or struct was dropped.

    Raises:
        ValueError: if ``keys`` is empty or names something twice, or something that is not there.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.FilterObservation(jaxenv.spec("Pendulum-v1").make(), (0, -1))
    >>> env.observation_spec()
    Bounded((2,), float32, [-1.0, -8.0], [1.0, 8.0], name='observation')
    """

    keys: Any = tree.static()

    def check(self):
        spec, paths = self.env.observation_spec(), self._paths()
        if not paths:
            raise ValueError(f"FilterObservation: keys must name at least one part, got {self.keys!r}")
        if len(set(paths)) < len(paths):
            raise ValueError(f"FilterObservation: keys must not name anything twice, got {self.keys!r}")
        if specs.is_spec(spec) and spec.ndim != 1:
            raise ValueError(f"FilterObservation: observation must be a tree or an array with one axis, got {spec}")
        # Of a tree without specs nothing but its own fields can be named, of a vector its elements.
        names = dict.fromkeys(range(spec.shape[0])) if specs.is_spec(spec) else jax.tree.map(lambda _: 0, spec)
        try:
            tree.select_fields(names, paths)
        except ValueError as unknown:
            raise ValueError(f"FilterObservation: keys: {unknown}") from None

    def observation(self, observation):
        return self._kept(observation, lambda x, numbers: x[:, numbers])

    def observation_spec(self):
        return self._kept(self.env.observation_spec(), lambda s, numbers: rearranged(s, lambda x: x[:, numbers]))

    def _paths(self) -> list[str]:
        """The keys as dotted paths; numbers that count from the end become those that count from 0."""
        keys = self.keys if isinstance(self.keys, tuple) else (self.keys,)
        count = _length(self.env.observation_spec())
        return [str(key % count) if type(key) is int and -count <= key < count else str(key) for key in keys]

    def _kept(self, node, elements):
        paths = self._paths()
        if specs.is_spec(self.env.observation_spec()):
            return elements(node, np.array(paths, np.int32))
        chosen = tree.select_fields(node, paths)
        if isinstance(node, list | tuple) and not hasattr(node, "_fields"):
            # Of a tuple nothing but what was named is left, in the order of the names.
            return type(node)(chosen[i] for i in dict.fromkeys(int(path.split(".")[0]) for path in paths))
        return chosen


def _length(spec) -> int:
    """How many items or elements can be numbered from the end; none where names are the way."""
    if specs.is_spec(spec):
        return spec.shape[0] if spec.ndim else 0
    return len(spec) if isinstance(spec, list | tuple) else 0
