"""Scale the bytes of images to floats."""

import dataclasses

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv._fields import select
from jaxenv._observation import map_observation
from jaxenv.data.transformers.base import RowTransformer, check_fields, check_number, map_observation_spec
from jaxenv.wrappers.scale_image import scaled, scaled_spec


@dataclasses.dataclass(frozen=True)
class ImageScale(RowTransformer):
    """Maps uint8 0 .. 255 of the observation affinely onto float32 ``low`` .. ``high``.

    As ALF's ``ImageScaleTransformer``. The buffer keeps the bytes, a quarter of the floats that
    `jaxenv.wrappers.ScaleImage` stores. ``env_info["final_observation"]`` is mapped alike.

    Args:
        low: what 0 becomes, finite.
        high: what 255 becomes, above ``low``.
        fields: dotted paths of the parts of the observation to map, each of nothing but uint8; ``None`` for every uint8
            array, of which there must be one.

    Raises:
        ValueError: for other limits, a field that is not there, or one that is not uint8.
    """

    low: float = -1.0
    high: float = 1.0
    fields: tuple[str, ...] | None = None

    def check(self):
        for name in ("low", "high"):
            check_number("ImageScale", name, getattr(self, name), np.isfinite, "a finite number")
        if not self.low < self.high:
            raise ValueError(f"ImageScale: low must lie below high, got {self.low!r} and {self.high!r}")
        check_fields("ImageScale", self.fields)

    def _images(self, observation):
        """Which leaves of an observation (arrays or specs) are mapped."""
        named = select("ImageScale", observation, self.fields)
        if self.fields is None:
            named = jax.tree.map(lambda x: bool(x.dtype == np.uint8), observation)
            if not any(jax.tree.leaves(named)):
                raise ValueError(f"ImageScale: the observation must hold a uint8 array, got {_told(observation)}")
        for (path, x), mark in zip(tree.flatten_with_path(observation)[0], jax.tree.leaves(named), strict=True):
            if mark and x.dtype != np.uint8:
                raise ValueError(
                    f"ImageScale: {tree.path_name(path) or 'the observation'} must be uint8, got {x.dtype}"
                )
        return named

    def rows(self, timestep):
        def shown(mark, x):
            return scaled(x, specs.Array(x.shape[1:], x.dtype), self.low, self.high) if mark else x

        return map_observation(lambda o: jax.tree.map(shown, self._images(o), o), timestep)

    def transform_spec(self, spec):
        def shown(mark, s):
            return scaled_spec(s, self.low, self.high) if mark else s

        return map_observation_spec(lambda o: jax.tree.map(shown, self._images(o), o), spec)


def _told(observation) -> str:
    return str(jax.tree.map(lambda x: str(x.dtype), observation))
