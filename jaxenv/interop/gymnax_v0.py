"""The interface of gymnax 0.x, for trainers that were written for it.

Replace ``import gymnax`` by ``from jaxenv.interop import gymnax_v0 as gymnax``.
"""

import functools
from typing import Any

from jaxenv.interop import gymnax

make = functools.partial(gymnax.make, api="0.x")


def __getattr__(name: str) -> Any:
    """The other names of the module ``gymnax``, without its wrappers: those of gymnax 1.x take six values."""
    if name == "wrappers":
        raise AttributeError(
            "gymnax_v0: the wrappers of gymnax 1.x take six values, use those that the trainer brings, or "
            "`from jaxenv.interop import gymnax` and LegacyStepAPIWrapper(LogWrapper(env))"
        )
    return getattr(gymnax, name)
