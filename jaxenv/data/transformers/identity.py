"""Change nothing."""

import dataclasses
from typing import Any

from jaxenv.data.transformers.row_transformer import RowTransformer
from jaxenv.timestep import TimeStep
from jaxenv.tree import Tree


@dataclasses.dataclass(frozen=True)
class Identity(RowTransformer):
    """Returns rows ``[B, ...]``, windows ``[N, L, ...]`` and specs unchanged."""

    def transform_rows(self, timestep: TimeStep) -> TimeStep:
        return timestep

    def transform_batch(self, state: Tree, batch: Any, replay: Any = None, stored: Any = None) -> Any:
        return state, batch

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        return spec
