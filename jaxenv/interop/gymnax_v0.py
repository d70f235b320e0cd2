"""The interface of gymnax 0.x, for trainers that were written for it.

Replace ``import gymnax`` by ``from jaxenv.interop import gymnax_v0 as gymnax``.
"""

import functools
from typing import Any

from jaxenv.interop import gymnax

make = functools.partial(gymnax.make, api="0.x")


def __getattr__(name: str) -> Any:
    """Returns other names of the module ``gymnax``, without its wrappers, which take six values in gymnax 1.x."""
    if name == "wrappers":
        raise AttributeError(
            "gymnax_v0: the wrappers of gymnax 1.x take six values, use the trainer's own, or "
            "`from jaxenv.interop import gymnax` and LegacyStepAPIWrapper(LogWrapper(env))"
        )
    return getattr(gymnax, name)
