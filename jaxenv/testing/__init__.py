"""Toy environments whose streams can be written down, and checks for environments of one's own."""

from jaxenv.testing.check_env import check_env as check_env
from jaxenv.testing.check_wrapper import check_wrapper as check_wrapper
from jaxenv.testing.checked import checked as checked
from jaxenv.testing.match import check_environments_match as check_environments_match
from jaxenv.testing.properties import ALLOWED_OPT_OUTS as ALLOWED_OPT_OUTS
from jaxenv.testing.properties import PROPERTIES as PROPERTIES
from jaxenv.testing.report import Report as Report
from jaxenv.testing.toys import Chain as Chain
from jaxenv.testing.toys import Counting as Counting
from jaxenv.testing.toys import RandomEnvironment as RandomEnvironment
from jaxenv.testing.toys import every_kind as every_kind
from jaxenv.testing.toys import mock_012 as mock_012
from jaxenv.testing.toys import random_environment as random_environment
from jaxenv.testing.traces import assert_max_traces as assert_max_traces
from jaxenv.testing.validate import validate_env as validate_env
