"""Checks of environments and wrappers, and toy environments with predictable rows."""

import typing as _typing

from jaxenv._util.names import explained as _explained
from jaxenv.testing._certify import certify as certify
from jaxenv.testing._checked import checked as checked
from jaxenv.testing.properties import ALLOWED_OPT_OUTS as ALLOWED_OPT_OUTS
from jaxenv.testing.properties import PROPERTIES as PROPERTIES
from jaxenv.testing.properties import check_env as check_env
from jaxenv.testing.report import Report as Report
from jaxenv.testing.toys import Chain as Chain
from jaxenv.testing.toys import Counting as Counting
from jaxenv.testing.toys import RandomEnvironment as RandomEnvironment
from jaxenv.testing.toys import count_to_two as count_to_two
from jaxenv.testing.toys import every_kind as every_kind
from jaxenv.testing.toys import random_environment as random_environment

if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> _typing.Any:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(_explained(message, name, "^use (chex|jaxenv.testing)"), name=name)
