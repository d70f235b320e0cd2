"""`Twin`: a broken environment next to the sound one from which it derives."""

import dataclasses
from collections.abc import Callable

from jaxenv.core.environment import Environment


@dataclasses.dataclass(frozen=True)
class Twin:
    """A broken environment, the sound one from which it derives, and the properties that must reject it."""

    broken: Callable[[], Environment]
    sound: Callable[[], Environment]
    rejected_by: tuple[str, ...]
