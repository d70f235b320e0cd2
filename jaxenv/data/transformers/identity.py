"""Change nothing."""

import dataclasses

from jaxenv.data.transformers.base import RowTransformer


@dataclasses.dataclass(frozen=True)
class Identity(RowTransformer):
    """Passes rows ``[B, ...]`` and windows ``[N, L, ...]`` on as they are.

    As ALF's ``IdentityDataTransformer``; specs need not be given to be asked for.
    """

    def rows(self, timestep):
        return timestep

    def transform_batch(self, state, batch, replay=None, stored=None):
        return state, batch

    def transform_spec(self, spec):
        return spec
