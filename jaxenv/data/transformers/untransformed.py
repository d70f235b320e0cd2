"""Keep the rows as they were."""

import dataclasses
from typing import ClassVar

from jaxenv import tree
from jaxenv.data.transformers.base import RowTransformer, check_fields


@dataclasses.dataclass(frozen=True)
class Untransformed(RowTransformer):
    """Puts the raw row into its own field ``untransformed``, for an algorithm that needs it beside the transformed one.

    As ALF's ``UntransformedTimeStep``. What another transformer does later, the relabelling of `Hindsight` included,
    leaves ``untransformed`` alone.

    Args:
        fields: what to keep: names of TimeStep fields and dotted paths below them (ALF's ``fields_to_keep``), such as
            ``("reward", "observation.camera")``; ``None`` for the whole row.

    Raises:
        ValueError: for a field that is not there.

    >>> from jaxenv.timestep import TimeStep
    >>> state, row = Untransformed(("reward",)).transform_timestep((), TimeStep(step_type=1, reward=5.0))
    >>> row
    TimeStep(
    {'step_type': 1,
     'reward': 5.0,
     'untransformed': TimeStep(
    {'reward': 5.0})})
    """

    fields: tuple[str, ...] | None = None

    tier: ClassVar[int] = 1
    reason: ClassVar[str] = "it keeps the row as it was stored, so nothing may have changed it"

    def check(self):
        check_fields("Untransformed", self.fields)

    def rows(self, timestep):
        raw = dataclasses.replace(timestep, untransformed=())
        if self.fields is not None:
            try:
                raw = tree.select_fields(raw, self.fields)
            except ValueError as unknown:
                raise ValueError(f"Untransformed: {unknown}") from None
        return dataclasses.replace(timestep, untransformed=raw)

    def transform_spec(self, spec):
        return self.rows(spec)
