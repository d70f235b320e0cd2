"""Change nothing."""

import dataclasses

from jaxenv.data.transformers.row_transformer import RowTransformer


@dataclasses.dataclass(frozen=True)
class Identity(RowTransformer):
    """Returns rows ``[B, ...]``, windows ``[N, L, ...]`` and specs unchanged."""

    def transform_rows(self, timestep):
        return timestep

    def transform_batch(self, state, batch, replay=None, stored=None):
        return state, batch

    def transform_spec(self, spec):
        return spec
