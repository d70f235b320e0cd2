"""Recording of the numbers that reference implementations draw from NumPy."""

import numpy as np


class Recorder:
    """A ``RandomState`` that records every call in ``calls`` as (method, arguments, result)."""

    def __init__(self, seed):
        self._random = np.random.RandomState(seed)
        self.calls = []

    def __getattr__(self, name):
        method = getattr(self._random, name)

        def recorded(*args, **kwargs):
            result = method(*args, **kwargs)
            # A copy, because MinAtar modifies its draws in place.
            self.calls.append((name, (*args, *kwargs.values()), np.copy(result)[()]))
            return result

        return recorded

    def take(self):
        """Returns and clears the recorded calls."""
        calls, self.calls = self.calls, []
        return calls
