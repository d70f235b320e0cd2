"""The base of transformers without state."""

import abc
from typing import Any

from jaxenv.data.transformers._windows import map_windows
from jaxenv.data.transformers.transformer import Transformer
from jaxenv.timestep import TimeStep
from jaxenv.tree import Tree


class RowTransformer(Transformer):
    """Maps each row independently, without state. Write ``transform_rows`` and ``transform_spec``."""

    @abc.abstractmethod
    def transform_rows(self, timestep: TimeStep) -> TimeStep:
        """The new rows for rows ``[B, ...]``, of a rollout or of replayed windows."""

    def transform_timestep(self, state: Tree, timestep: TimeStep) -> tuple[Tree, TimeStep]:
        return state, self.transform_rows(timestep)

    def transform_batch(self, state: Tree, batch: Any, replay: Any = None, stored: Any = None) -> Any:
        return state, map_windows(self.transform_rows, batch)
