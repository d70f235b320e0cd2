"""The result of a check: one `Result` per property, and the `Report` that holds and prints them."""

import dataclasses
import enum
import sys
import textwrap
from collections.abc import Iterator

# The properties whose failure explains failures of other properties, the most specific first. A side effect, for
# example, changes all values, and a lane that depends on its neighbours differs after a restart too.
_CAUSES = (
    *("same_tree", "leading_lanes", "rows_match_specs", "no_callback", "immutable", "inputs_unmodified"),
    *("step_repeatable", "reproducible", "lane_independent", "permutation_equivariant", "batch_equals_single_lanes"),
    *("growth_invariant", "any_number_of_lanes", "nan_contained", "scalar_equals_per_lane", "repeat_stops_at_end"),
    *("restart_is_reset", "stays_finite", "within_specs"),
)


class Status(enum.StrEnum):
    """The outcome of checking one property."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"
    OPTED_OUT = "opted out"
    NOT_RUN = "not run"


class Failure(AssertionError):
    """Raised by a check whose property does not hold; the message is the evidence: step, lane and both values."""


class NotApplicable(Exception):
    """Raised by a check that has nothing to check; the message is the reason."""


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of checking one property.

    ``name`` is its key in ``PROPERTIES``, ``number`` its position there, ``title`` a short phrase. ``evidence`` is the
    place (step, lane) of a failure with both values; otherwise a remark, or the reason why the property does not apply,
    was not run, or the class opts out of it.
    """

    name: str
    number: int
    title: str
    status: Status
    evidence: str = ""

    def __str__(self) -> str:
        """Formats the result as a line of the table of a `Report`."""
        return _table((self,), names=26)

    def raise_if_failed(self) -> None:
        """Raises an ``AssertionError`` with the evidence if the property failed or was not run."""
        if self.status in (Status.FAILED, Status.NOT_RUN):
            raise AssertionError(f"{self.name} ({self.title}): {self.evidence}")


@dataclasses.dataclass(frozen=True)
class Report:
    """The results for one environment, one `Result` per property in the order of their numbers.

    ``report["lane_independent"]`` is the `Result` of one property. ``str(report)`` is a table whose first lines are the
    failures.
    """

    target: str  # the name of the checked environment
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        """Whether no property failed, and none was left out."""
        return not self.failed and all(r.status is not Status.NOT_RUN for r in self.results)

    @property
    def failed(self) -> tuple[Result, ...]:
        """The results of the properties that failed; failures that explain others come first."""
        failed = [r for r in self.results if r.status is Status.FAILED]
        return tuple(sorted(failed, key=lambda r: _CAUSES.index(r.name) if r.name in _CAUSES else len(_CAUSES)))

    def raise_if_failed(self) -> None:
        """Raises an ``AssertionError`` with the table of failures and of what was not run, if there are any."""
        if not self.ok:
            not_run = tuple(r for r in self.results if r.status is Status.NOT_RUN)
            raise AssertionError(f"{self._summary()}\n{_table(self.failed + not_run)}")

    def __getitem__(self, name: str) -> Result:
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(f"the report has no property {name!r}, it has {', '.join(r.name for r in self.results)}")

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __str__(self) -> str:
        others = tuple(r for r in self.results if r.status is not Status.FAILED)
        return f"{self._summary()}\n{_table(self.failed + others)}"

    def _summary(self) -> str:
        counts = {status: sum(r.status is status for r in self.results) for status in Status}
        shown = [f"{n} {status}" for status, n in counts.items() if n or status in tuple(Status)[:3]]
        return f"{self.target}: {', '.join(shown)}"


def print_result(result: Result) -> None:
    """Prints a result on stderr."""
    print(result, file=sys.stderr, flush=True)


def _table(results: tuple[Result, ...], width: int = 120, names: int = 0) -> str:
    """Formats columns of name, number, status and evidence; long evidence wraps within its column."""
    if not results:
        return "  nothing was checked"
    names, statuses = max(names, *(len(r.name) for r in results)), max(len(r.status) for r in results)
    lines = []
    for r in results:
        head = f"  {r.name.ljust(names)}  {r.number:>2}  {r.status.ljust(statuses)}  "
        lines.append(
            textwrap.fill(
                " ".join(r.evidence.split()) or "-",
                width=max(width, len(head) + 40),
                initial_indent=head,
                subsequent_indent=" " * len(head),
                break_on_hyphens=False,
            )
        )
    return "\n".join(line.removesuffix("  -").rstrip() for line in lines)
