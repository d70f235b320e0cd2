"""An AutoReset that starts episodes in a way of its own."""

import pytest

from jaxenv.core import _restart
from jaxenv.wrappers import AutoReset
from jaxenv.wrappers.episode import autoreset

_START = _restart.start_episodes


class Restarting(AutoReset):
    """Twins override ``start``, which takes the arguments of `start_episodes`."""

    def start(self, env, *arguments):
        return _START(env, *arguments)

    def proceed(self, state, action):
        with pytest.MonkeyPatch.context() as patch:
            for module in (_restart, autoreset):
                patch.setattr(module, "start_episodes", self.start)
            return super().proceed(state, action)
