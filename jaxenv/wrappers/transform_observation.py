"""Map observations by a function."""

from collections.abc import Callable
from typing import Any

import jax

from jaxenv import specs, tree
from jaxenv._bounds import mapped_spec
from jaxenv._wrapper_bases import ObservationWrapper


class TransformObservation(ObservationWrapper):
    """Applies a function to the observation of every row, as Gymnasium's wrapper does, but to the batch at once.

    Owns ``observation``; ``env_info["final_observation"]`` is mapped alike.

    Args:
        env: any environment.
        fn: takes the tree of observations, ``[B, ...]``, and returns a tree of arrays that lead with ``[B]``. Lanes
            must not mix in it.
        spec: specs of the result, for one lane; by default shapes and dtypes of what ``fn`` returns, without bounds.

    Raises:
        ValueError: if a leaf of the result does not lead with the lanes, or ``spec`` is not what ``fn`` returns.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.TransformObservation(jaxenv.spec("Pendulum-v1").make(), lambda o: o[:, :2])
    >>> env.observation_spec()
    Array((2,), float32, name='observation')
    """

    fn: Callable = tree.static()
    spec: Any = tree.static(default=None)

    def __post_init__(self):
        if self.spec is not None and not isinstance(self.spec, tree.Static):
            object.__setattr__(self, "spec", tree.Static(self.spec))
        super().__post_init__()

    def check(self):
        if not callable(self.fn):
            raise ValueError(f"TransformObservation: fn must be a function, got {self.fn!r}")
        inner, lanes = specs.batched(self.env.observation_spec(), self.spec_lanes), self.spec_lanes
        shapes = jax.eval_shape(self.fn, jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), inner))
        for path, leaf in tree.flatten_with_path(shapes)[0]:
            if leaf.shape[:1] != (lanes,):
                raise ValueError(
                    f"TransformObservation: fn must return arrays that lead with the lanes, {lanes} here, "
                    f"got shape {leaf.shape} for {tree.path_name(path) or 'the observation'}"
                )
        if self.spec is not None:
            given = specs.unbatched(self.spec.value, 0)
            specs.require_equal(given, specs.unbatched(shapes), "TransformObservation: spec and what fn returns")

    def observation(self, observation):
        return self.fn(observation)

    def observation_spec(self):
        if self.spec is not None:
            return self.spec.value
        inner = self.env.observation_spec()
        mapped = mapped_spec(self.fn, inner, self.spec_lanes)
        # A single array keeps its name; of a tree nobody can say which leaf came from where.
        alone = specs.is_spec(mapped) and specs.is_spec(inner)
        return mapped.replace(name=inner.name) if alone else mapped
