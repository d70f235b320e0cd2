"""The trajectory of a rollout, with actions."""

import dataclasses
from typing import TYPE_CHECKING, Any

from jaxenv import tree
from jaxenv._util.names import missing_attribute
from jaxenv.canvas import _html
from jaxenv.core.timestep import TimeStep
from jaxenv.tree import Tree

_UNSET: Any = ()
_OF_ROWS = frozenset(field.name for field in dataclasses.fields(TimeStep))


@tree.struct
class Experience:
    """A part of a rollout, every leaf ``[T, B, ...]``; fields that are not kept are ``()``.

    Attributes:
        timestep: the TimeSteps that the policy saw.
        action: its actions. The environment ignores those on LAST rows in ``next_step`` mode.
        policy_info: the policy's ``PolicyStep.info``.
    """

    timestep: TimeStep = _UNSET
    action: Tree = _UNSET
    policy_info: Tree = _UNSET

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _OF_ROWS:
                message = f"Experience has no attribute {name!r}: use experience.timestep.{name}"
                raise AttributeError(message, name=name, obj=self)
            return missing_attribute(self, name, r"\btimestep\b")

    def __repr__(self) -> str:
        fields = ((name, _html.short(getattr(self, name))) for name in self.__dataclass_fields__)
        indented = ((name, text.replace("\n", "\n        ")) for name, text in fields if text != "()")
        kept = (f"\n    {name}={text}" for name, text in indented)
        return f"Experience({','.join(kept)})"

    _repr_html_ = _html.rows_html  # shown by notebooks
