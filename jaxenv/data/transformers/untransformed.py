"""Keeps the raw rows next to the transformed ones."""

import dataclasses
from typing import Any, ClassVar

from jaxenv import tree
from jaxenv.core.timestep import TimeStep
from jaxenv.data.transformers.transformer import RowTransformer
from jaxenv.specs._fields import field_paths


@dataclasses.dataclass(frozen=True)
class Untransformed(RowTransformer):
    """Copies the raw row ``[B, ...]`` into its field ``untransformed``, for algorithms that need both.

    Later transformers, including the relabelling of `Hindsight`, do not change ``untransformed``.

    Args:
        fields: fields to keep: dotted paths in a TimeStep, such as ``("reward", "observation.camera")``; ``None``
            for the whole row.

    >>> from jaxenv import TimeStep
    >>> state, row = Untransformed(("reward",)).transform_timestep((), TimeStep(step_type=1, reward=5.0))
    >>> row
    TimeStep(
    {'step_type': 1,
     'reward': 5.0,
     'untransformed': TimeStep(
    {'reward': 5.0})})
    """

    fields: str | tuple[str, ...] | None = None

    tier: ClassVar[int] = 1
    reason: ClassVar[str] = "it keeps the row as it was stored, so nothing may have changed it"

    def check(self) -> None:
        field_paths("Untransformed", self.fields)

    def transform_rows(self, timestep: TimeStep) -> TimeStep:
        unset: Any = ()
        raw = dataclasses.replace(timestep, untransformed=unset)
        if self.fields is not None:
            try:
                raw = tree.select_fields(raw, field_paths("Untransformed", self.fields))
            except ValueError as unknown:
                raise ValueError(f"Untransformed: {unknown}") from None
        return dataclasses.replace(timestep, untransformed=raw)

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        return self.transform_rows(spec)
