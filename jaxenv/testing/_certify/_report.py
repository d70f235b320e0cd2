"""The result of `certify`: findings with reproductions, as text, JSON and a badge."""

import dataclasses
import json
import textwrap

from jaxenv.testing._certify._dialects import Dialect, Source
from jaxenv.testing.report import Status

# The outcomes, in the order of the summary. What ran out of time, or could not be computed, was not run.
_STATUSES = Status.PASSED, Status.FAILED, Status.NOT_APPLICABLE, Status.NOT_RUN


class Failure(AssertionError):
    """Raised by a property that does not hold.

    ``step`` is None for a reset. ``show`` is the expression that a reproduction prints, also ``before`` its steps;
    statements may come ``after``.
    """

    def __init__(
        self,
        expected: str,
        seen: str,
        lane: int = 0,
        step: int | None = None,
        show: str = "",
        before: bool = False,
        after: tuple[str, ...] = (),
    ) -> None:
        super().__init__(f"expected {expected}, saw {seen}")
        self.expected, self.seen, self.lane, self.step = expected, seen, lane, step
        self.show, self.before, self.after = show, before, after


class Skip(Exception):
    """Raised by a property that does not apply or cannot be decided; the arguments are the status and the reason."""


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of one property; ``reason`` says why it did not apply or was not run, or is a remark."""

    name: str
    status: Status
    seconds: float
    reason: str = ""
    expected: str = ""
    seen: str = ""
    lane: int | None = None
    step: int | None = None
    reproduction: str = ""


@dataclasses.dataclass(frozen=True)
class Certificate:
    """The results for one environment. ``str(certificate)`` is one screen of text, failures first."""

    target: str
    api: str
    results: tuple[Result, ...]

    def of(self, status: str) -> tuple[Result, ...]:
        """Returns the results with a status: "passed", "failed", "not applicable" or "not run"."""
        return tuple(r for r in self.results if r.status == status)

    @property
    def failed(self) -> tuple[Result, ...]:
        """The results of the properties that failed."""
        return self.of(Status.FAILED)

    @property
    def exit_status(self) -> int:
        """0 if all properties that apply passed, 1 if one failed, 3 if none failed but some were not run."""
        return 1 if self.failed else 3 if self.of(Status.NOT_RUN) else 0

    @property
    def badge(self) -> str:
        """A line of Markdown for a README."""
        counts = {status: len(self.of(status)) for status in (Status.PASSED, Status.FAILED, Status.NOT_RUN)}
        text = "%2C_".join(f"{n}_{status}".replace(" ", "_") for status, n in counts.items() if n)
        colour = {0: "brightgreen", 1: "red", 3: "yellow"}[self.exit_status]
        return f"![jaxenv certify](https://img.shields.io/badge/jaxenv_certify-{text}-{colour})"

    def raise_if_failed(self) -> None:
        """Raises an ``AssertionError`` with the text if a property failed."""
        if self.failed:
            raise AssertionError(str(self))

    def as_json(self) -> str:
        """Returns a JSON object with target, API, exit status, badge and results."""
        results = [dataclasses.asdict(r) | {"seconds": round(r.seconds, 2)} for r in self.results]
        head = {"target": self.target, "api": self.api, "exit_status": self.exit_status, "badge": self.badge}
        return json.dumps(head | {"results": results})

    def __str__(self) -> str:
        counts = ", ".join(f"{len(self.of(status))} {status}" for status in _STATUSES)
        lines = [f"{self.target} ({self.api}): {counts}, in {sum(r.seconds for r in self.results):.0f} s"]
        for r in self.failed:
            place = "at reset" if r.step is None else f"step {r.step}"
            lines += ["", f"FAILED {r.name}, lane {r.lane}, {place}"]
            lines += [_line("expected", r.expected), _line("seen", r.seen), "", textwrap.indent(r.reproduction, "    ")]
        for status in (Status.NOT_RUN, Status.NOT_APPLICABLE, Status.PASSED):
            by_reason: dict[str, list[str]] = {}
            for r in self.of(status):
                by_reason.setdefault(r.reason, []).append(r.name)
            if by_reason:
                lines += ["", f"{status}:"]
                lines += [_line(", ".join(names), reason) for reason, names in sorted(by_reason.items())]
        return "\n".join([*lines, "", f"badge: {self.badge}"])


def _line(label: str, text: str) -> str:
    text = f"{label}: {' '.join(text.split())}" if text else label
    return textwrap.fill(text, 110, initial_indent="  ", subsequent_indent="    ")


def reproduction(source: Source, dialect: Dialect, seed: int, failure: Failure) -> str:
    """Returns a program of at most 15 lines, without this library, that shows a failure."""
    show = [f"print({failure.show})"] if failure.show else []
    if dialect.api == "gymnasium":
        start = [dialect.reset.format(key=f"seed={seed}"), f"env.action_space.seed({seed})"]
        loop = [f"if t and ({dialect.done}): {dialect.reset.format(key='')}", dialect.action, dialect.step]
    else:
        start = [f"key = jax.random.PRNGKey({seed})", dialect.reset.format(key="key")]
        again = [] if dialect.restarts else [f"if {dialect.done}: {dialect.reset.format(key='key_reset')}"]
        loop = [dialect.split, *again, *dialect.action.splitlines(), dialect.step]
    lines = [*source.setup, dialect.prepare, *start, *(show if failure.before else [])]
    if failure.step is not None:
        lines += [f"for t in range({failure.step + 1}):", *(f"    {line}" for line in loop)]
    text = "\n".join(filter(None, [*lines, *show, *failure.after]))
    return "".join(f"import {name}\n" for name in ("jax", "jax.numpy as jnp") if f"{name[-3:]}." in text) + text
