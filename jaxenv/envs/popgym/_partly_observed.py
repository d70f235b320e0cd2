"""Base class of the tasks of POPGym: each has a fully observable twin."""

from typing import Literal

from jaxenv import tree
from jaxenv.core import Task, check_choice


class PartlyObserved(Task):
    """A task that hides part of its state unless it is asked to show it."""

    observability: Literal["partial", "full"] = tree.static(
        default="partial", doc='``"full"`` for the fully observable twin, which shows what the agent must remember'
    )

    @property
    def is_full(self) -> bool:
        """Whether this is the fully observable twin."""
        return self.observability == "full"

    def check(self) -> None:
        super().check()
        check_choice(f"{self}", "observability", self.observability, ("partial", "full"))
