"""What originals draw from NumPy, written down so that ours can be given the same."""

import numpy as np


class Recorder:
    """A ``RandomState`` that writes down every call: ``calls`` holds (method, arguments, result)."""

    def __init__(self, seed):
        self._random = np.random.RandomState(seed)
        self.calls = []

    def __getattr__(self, name):
        method = getattr(self._random, name)

        def recorded(*args, **kwargs):
            result = method(*args, **kwargs)
            # Copied: MinAtar multiplies what it drew in place.
            self.calls.append((name, (*args, *kwargs.values()), np.copy(result)[()]))
            return result

        return recorded

    def take(self):
        """The calls since the last time."""
        calls, self.calls = self.calls, []
        return calls
