"""The trajectory, with actions, that a rollout returns to a learner."""

import dataclasses
from typing import TYPE_CHECKING, Any

from jaxenv import _rows_html, tree
from jaxenv._names import missing_attribute
from jaxenv.timestep import TimeStep

# The fields of a TimeStep are not those of an Experience: the error says where they are.
_WORDS = {field.name: f"experience.timestep.{field.name}" for field in dataclasses.fields(TimeStep)}
_WORDS |= {"actions": "experience.action"}


@tree.struct
class Experience:
    """A part of a rollout, every leaf ``[T, B, ...]``; fields that are not kept are ``()``.

    Attributes:
        timestep: the TimeSteps that the policy saw.
        action: its actions. The environment ignores those on LAST rows in ``next_step`` mode.
        policy_info: what the policy returned as ``PolicyStep.info``.
    """

    timestep: Any = ()
    action: Any = ()
    policy_info: Any = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(self, name, _WORDS)

    def __repr__(self) -> str:
        fields = ((name, _rows_html.short(getattr(self, name))) for name in self.__dataclass_fields__)
        indented = ((name, text.replace("\n", "\n        ")) for name, text in fields if text != "()")
        kept = (f"\n    {name}={text}" for name, text in indented)
        return f"Experience({','.join(kept)})"

    _repr_html_ = _rows_html.experience_html  # what notebooks show
