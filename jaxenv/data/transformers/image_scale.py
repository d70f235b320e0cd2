"""Scale the bytes of images to floats."""

import dataclasses
from typing import Any

import jax
import numpy as np

from jaxenv import specs
from jaxenv._checks import check_real
from jaxenv._fields import field_paths, select
from jaxenv._observation import map_observation
from jaxenv.data.transformers.row_transformer import RowTransformer
from jaxenv.timestep import TimeStep
from jaxenv.tree import Tree
from jaxenv.wrappers.scale_image import scaled, scaled_spec


@dataclasses.dataclass(frozen=True)
class ImageScale(RowTransformer):
    """Maps the uint8 parts of the observation affinely from 0 .. 255 to float32 ``low`` .. ``high``.

    ``env_info["final_observation"]`` is mapped in the same way. The buffer stores the bytes, a quarter of the floats
    that `jaxenv.wrappers.ScaleImage` stores.

    Args:
        low: the value of 0, finite.
        high: the value of 255, greater than ``low``.
        fields: dotted paths of the uint8 parts of the observation to map; ``None`` for every uint8 array.

    Raises:
        ValueError: for other limits, an unknown field, one that is not uint8, or an observation without a uint8 array.
    """

    low: float = -1.0
    high: float = 1.0
    fields: str | tuple[str, ...] | None = None

    def check(self) -> None:
        for name in ("low", "high"):
            check_real("ImageScale", name, getattr(self, name), -np.inf)
        if not self.low < self.high:
            raise ValueError(f"ImageScale: low must be below high, got {self.low!r} and {self.high!r}")
        field_paths("ImageScale", self.fields)

    def transform_rows(self, timestep: TimeStep) -> TimeStep:
        def scale(is_image: Any, x: Any) -> Any:
            return scaled(x, specs.Array(x.shape[1:], x.dtype), self.low, self.high) if is_image else x

        return map_observation(lambda o: jax.tree.map(scale, _images(o, self.fields), o), timestep)

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        def scale(is_image: Any, s: Any) -> Any:
            return scaled_spec(s, self.low, self.high) if is_image else s

        return map_observation(lambda o: jax.tree.map(scale, _images(o, self.fields), o), spec)


def _images(observation: Tree, fields: Any) -> Any:
    """Marks the leaves of an observation (arrays or specs) that are mapped."""
    return select("ImageScale", observation, fields, "a uint8 array", lambda x: x.dtype == np.uint8)
