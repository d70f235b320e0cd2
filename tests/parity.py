"""The parity table: what was compared with which reference implementation, counted by the tests that compare.

    python -m tests.parity > table.md      # further arguments go to pytest, except -n

runs the tests of the environments and prints a row for every id and reference. A test calls `certify` at its end, when
everything that it compares was within its tolerance, so failures are not in the table.
"""

import collections
import contextlib
import dataclasses
import importlib.metadata
import sys

import jaxenv


@dataclasses.dataclass
class Found:
    """Number of comparisons of one kind, their tolerance and the largest difference found."""

    count: int = 0
    steps: int = 0
    tolerance: float = 0.0
    error: float = 0.0

    def add(self, count, steps, tolerance, error):
        self.count += int(count)
        self.steps += int(steps)
        self.tolerance = max(self.tolerance, float(tolerance))
        self.error = max(self.error, float(error))

    def __str__(self):
        if not self.count:
            return "-"
        played = f" ({self.steps:,} steps)" if self.steps else ""
        if self.tolerance == 0:
            return f"{self.count:,}{played} bitwise equal"
        found = f"{self.error:.0e}" if self.error else "none"
        return f"{self.count:,}{played} within {self.tolerance:.0e}, found {found}"


# (id, original) -> states, episodes
_certificates: dict[tuple[str, str], tuple[Found, Found]] = collections.defaultdict(lambda: (Found(), Found()))


def certify(id, original, *, states=0, episodes=0, steps=0, tolerance=0.0, error=0.0):
    """Records that an environment was found equal to its original.

    Args:
        id: the id of the environment.
        original: an installed distribution, whose version is added; or name and version of the source of recorded
            numbers, for example ``"tf-agents 0.19.0"``.
        states: the number of states from which one step was compared, or of entries of a transition table.
        episodes: the number of whole episodes.
        steps: the number of steps in these episodes.
        tolerance: the largest allowed difference; 0 for bitwise equality. Flags are always equal.
        error: the largest difference found.
    """
    assert id in jaxenv.ids(), f"certify: no environment {id!r}"
    assert error <= tolerance, f"certify: an error of {error} exceeds the tolerance {tolerance}"
    assert states or episodes, f"certify: {id}: nothing was compared"
    of_states, of_episodes = _certificates[id, original]
    if states:
        of_states.add(states, 0, tolerance, error)
    if episodes:
        of_episodes.add(episodes, steps, tolerance, error)


def table() -> str:
    """The rows recorded so far, as Markdown."""
    lines = ["| id | original | states, one step each | whole episodes |", "|---|---|---|---|"]
    for (id, original), (states, episodes) in sorted(_certificates.items()):
        lines.append(f"| `{id}` | {_versioned(original)} | {states} | {episodes} |")
    if missing := [f"`{id}`" for id in jaxenv.ids() if all(id != row for row, _ in _certificates)]:
        lines += ["", f"Without a row: {', '.join(missing)}."]
    return "\n".join(lines)


def _versioned(original: str) -> str:
    if " " in original:
        return original
    return f"{original} {importlib.metadata.version(original)}"


def main() -> int:
    import pytest

    with contextlib.redirect_stdout(sys.stderr):  # in one process, which keeps the records
        code = pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "tests/envs", *sys.argv[1:]])
    print(table())
    return int(code) or int(not _certificates)


if __name__ == "__main__":
    # As a script this module is `__main__`, but the tests record in `tests.parity`.
    from tests import parity

    sys.exit(parity.main())
