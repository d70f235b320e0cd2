"""What a check of an environment found: one result for every property, and the table of them."""

import dataclasses
import enum
import textwrap
from collections.abc import Iterator


class Status(enum.StrEnum):
    """How a property came out."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"
    OPTED_OUT = "opted out"


class Failure(AssertionError):
    """Raised by a check whose property does not hold; the text is the evidence: lane, step and both values."""


class NotApplicable(Exception):
    """Raised by a check that has nothing to look at; the text is the reason."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What the check of one property found.

    Attributes:
        number: the number of the property.
        name: its short name.
        status: a `Status`.
        evidence: what was seen: for a failure the place (step, lane) and both values, else a remark or the reason why
            the property does not apply, or was declared not to hold.
    """

    number: int
    name: str
    status: Status
    evidence: str = ""

    def raise_if_failed(self) -> None:
        """Raises an ``AssertionError`` with the evidence if the property failed."""
        if self.status is Status.FAILED:
            raise AssertionError(f"property {self.number}, {self.name}: {self.evidence}")


@dataclasses.dataclass(frozen=True)
class Report:
    """The results of one environment; ``str(report)`` is a table of them, ``report[18]`` the one of property 18.

    Attributes:
        target: what was looked at.
        results: one `Result` for each property, in the order of their numbers.
    """

    target: str
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        """Whether no property failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[Result, ...]:
        """The results of the properties that failed."""
        return tuple(r for r in self.results if r.status is Status.FAILED)

    def raise_if_failed(self) -> None:
        """Raises an ``AssertionError`` with the table of failures if there are any."""
        if not self.ok:
            raise AssertionError(f"{self._summary()}\n{_table(self.failed)}")

    def __getitem__(self, number: int) -> Result:
        for result in self.results:
            if result.number == number:
                return result
        raise KeyError(f"no property {number}, the report has {[r.number for r in self.results]}")

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __str__(self) -> str:
        return f"{self._summary()}\n{_table(self.results)}"

    def _summary(self) -> str:
        counts = {status: sum(r.status is status for r in self.results) for status in Status}
        shown = [f"{n} {status}" for status, n in counts.items() if n or status is not Status.OPTED_OUT]
        return f"{self.target}: {', '.join(shown)}"


def _table(results: tuple[Result, ...], width: int = 120) -> str:
    """Number, status, name and evidence in columns; long evidence goes on below itself."""
    if not results:
        return "  nothing was checked"
    names, statuses = max(len(r.name) for r in results), max(len(r.status) for r in results)
    lines = []
    for r in results:
        head = f"  {r.number:>2}  {r.status.ljust(statuses)}  {r.name.ljust(names)}  "
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
