"""The result of `check_env` and `certify`: one `Result` per property, exceptions as evidence, and the `Report`."""

import dataclasses
import enum
import importlib.util
import os
import pathlib
import sys
import sysconfig
import textwrap
import traceback
import types
from collections.abc import Iterator
from typing import Any

# The properties whose failure explains failures of other properties, the most specific first. A side effect, for
# example, changes all values, and a lane that depends on its neighbours differs after a restart too.
_CAUSES = (
    *("same_tree", "leading_lanes", "rows_match_specs", "no_callback", "immutable", "inputs_unmodified"),
    *("step_repeatable", "reproducible", "lane_independent", "batch_equals_single_lanes", "any_number_of_lanes"),
    *("nan_contained", "scalar_equals_per_lane", "repeat_stops_at_end", "restart_is_reset", "stays_finite"),
    "within_specs",
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


class Undecided(Exception):
    """Raised by a check that decides nothing; the message is the reason, such as a rollout that is too short."""

    status = Status.NOT_RUN


class NotApplicable(Undecided):
    """Raised by a check that has nothing to check; the message is the reason."""

    status = Status.NOT_APPLICABLE


def require(holds: Any, evidence: str) -> None:
    """Raises a `Failure` unless a property holds."""
    if not holds:
        raise Failure(evidence)


def require_applicable(applies: Any, reason: str) -> None:
    """Raises `NotApplicable` unless a property applies."""
    if not applies:
        raise NotApplicable(reason)


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of checking one property.

    ``evidence`` is the place (step, lane) of a failure with both values; otherwise a remark, or the reason why the
    property does not apply, was not run, or the class opts out of it. A failure of `certify` also has what was
    ``expected`` and ``seen``, the lane, the step (None at a reset) and a program without this library that shows it.
    """

    name: str
    status: Status
    evidence: str = ""
    seconds: float = dataclasses.field(default=0.0, compare=False)
    expected: str = ""
    seen: str = ""
    lane: int | None = None
    step: int | None = None
    reproduction: str = ""

    def __str__(self) -> str:
        """Formats the result as a line of the table of a `Report`."""
        return _table((self,), names=26)


@dataclasses.dataclass(frozen=True)
class Report:
    """The results for one environment.

    ``report["lane_independent"]`` is the `Result` of one property. ``str(report)`` is a table whose first lines are the
    failures, and their reproductions below it.
    """

    target: str  # the name of the checked environment
    results: tuple[Result, ...]
    api: str = "jaxenv"  # the API in whose words it was checked

    def of(self, status: str) -> tuple[Result, ...]:
        """Returns the results with a status: "passed", "failed", "not applicable", "opted out" or "not run"."""
        return tuple(r for r in self.results if r.status == status)

    @property
    def failed(self) -> tuple[Result, ...]:
        """The results of the properties that failed; failures that explain others come first."""
        failed = self.of(Status.FAILED)
        return tuple(sorted(failed, key=lambda r: _CAUSES.index(r.name) if r.name in _CAUSES else len(_CAUSES)))

    @property
    def exit_status(self) -> int:
        """0 if all properties that apply passed, 1 if one failed, 3 if none failed but some were not run."""
        return 1 if self.failed else 3 if self.of(Status.NOT_RUN) else 0

    @property
    def ok(self) -> bool:
        """Whether no property failed, and none was left out."""
        return self.exit_status == 0

    @property
    def seconds(self) -> float:
        """The seconds of all properties."""
        return sum(r.seconds for r in self.results)

    @property
    def badge(self) -> str:
        """A line of Markdown for a README."""
        counts = {status: len(self.of(status)) for status in (Status.PASSED, Status.FAILED, Status.NOT_RUN)}
        text = "%2C_".join(f"{n}_{status}".replace(" ", "_") for status, n in counts.items() if n)
        colour = {0: "brightgreen", 1: "red", 3: "yellow"}[self.exit_status]
        return f"![jaxenv](https://img.shields.io/badge/jaxenv-{text}-{colour})"

    def raise_if_failed(self) -> None:
        """Raises an ``AssertionError`` with the failures and what was not run, if there are any."""
        if not self.ok:
            raise AssertionError(self._text(self.failed + self.of(Status.NOT_RUN)))

    def as_dict(self) -> dict[str, Any]:
        """Returns target, API, exit status, badge, seconds and results, for ``json.dumps``."""
        results = [{k: v for k, v in dataclasses.asdict(r).items() if v not in ("", None)} for r in self.results]
        head = {"target": self.target, "api": self.api, "exit_status": self.exit_status, "badge": self.badge}
        return {**head, "seconds": round(self.seconds, 2), "results": results}

    def __getitem__(self, name: str) -> Result:
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(f"the report has no property {name!r}, it has {', '.join(r.name for r in self.results)}")

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __str__(self) -> str:
        return self._text(self.failed + tuple(r for r in self.results if r.status is not Status.FAILED))

    def _text(self, results: tuple[Result, ...]) -> str:
        counts = {status: len(self.of(status)) for status in Status}
        shown = [f"{n} {status}" for status, n in counts.items() if n or status in tuple(Status)[:3]]
        programs = [f"\n{r.name}:\n{textwrap.indent(r.reproduction, '    ')}" for r in results if r.reproduction]
        return "\n".join([f"{self.target}: {', '.join(shown)}", _table(_joined(results)), *programs])


def functions_of(module: types.ModuleType) -> dict[str, Any]:
    """Returns the public functions that a module defines, by name and in their order."""
    found = {name: x for name, x in vars(module).items() if getattr(x, "__module__", None) == module.__name__}
    return {name: x for name, x in found.items() if isinstance(x, types.FunctionType) and not name.startswith("_")}


def print_result(result: Result) -> None:
    """Prints a result on stderr."""
    print(result, file=sys.stderr, flush=True)


def _joined(results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Makes one row of more than three properties that were not run for one reason; it lists their names."""
    alike: dict[str, list[Result]] = {}
    for r in results:
        alike.setdefault(r.evidence if r.status is Status.NOT_RUN else r.name, []).append(r)
    for reason, (first, *others) in alike.items():
        if len(others) > 2:
            listed = f"{reason}: {', '.join(r.name for r in (first, *others))}"
            alike[reason] = [dataclasses.replace(first, name=f"{1 + len(others)} properties", evidence=listed)]
    return tuple(r for rs in alike.values() for r in rs)


def _table(results: tuple[Result, ...], names: int = 0) -> str:
    """Formats columns of name, status and evidence; long evidence wraps within its column."""
    if not results:
        return "  nothing was checked"
    names, statuses = max(names, *(len(r.name) for r in results)), max(len(r.status) for r in results)
    lines = []
    for r in results:
        head = f"  {r.name.ljust(names)}  {r.status.ljust(statuses)}  "
        wrapper = textwrap.TextWrapper(max(120, len(head) + 40), head, " " * len(head), break_on_hyphens=False)
        lines.append(wrapper.fill(" ".join(r.evidence.split()) or "-").removesuffix("  -").rstrip())
    return "\n".join(lines)


_PACKAGE = pathlib.Path(__file__).parents[1]
_ENVIRONMENTS = str(_PACKAGE / "envs") + os.sep
_SPECS = (importlib.util.find_spec(name) for name in ("jax", "jaxlib", "numpy", "chex"))
_FOLDERS = (_PACKAGE, *(pathlib.Path(spec.origin).parent for spec in _SPECS if spec and spec.origin))
_LIBRARIES = tuple(str(folder) + os.sep for folder in _FOLDERS)
_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep


def described(error: BaseException) -> str:
    """Formats an exception: its class, message and notes, and the author's line that raised it, if there is one."""
    notes = (note for note in getattr(error, "__notes__", ()) if "\n" not in note)  # JAX's own one spans lines
    message = f"{type(error).__name__}: {'. '.join([str(error), *notes])}"
    line = line_of(error.__traceback__)
    return f"{message} (raised at {line})" if line else message


def line_of(trace: types.TracebackType | None) -> str:
    """Formats the author's innermost line in a traceback, as `place` does; ``""`` without one."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(trace) if is_authors(frame)]
    return place(*frames[-1]) if frames else ""


def place(frame: types.FrameType, line: int) -> str:
    """Formats ``file:line, in function``, with a path relative to the working directory if it lies inside."""
    file = frame.f_code.co_filename
    inside = os.path.isabs(file) and pathlib.Path(file).is_relative_to(pathlib.Path.cwd())
    return f"{os.path.relpath(file) if inside else file}:{line}, in {frame.f_code.co_name}"


def is_authors(frame: types.FrameType) -> bool:
    """Returns whether a frame is outside of this library and JAX, or of an environment of this library."""
    file, name = frame.f_code.co_filename, frame.f_code.co_name
    if file.startswith(_ENVIRONMENTS):
        return True
    generated = file.startswith("<frozen") or (file == "<string>" and name.startswith(("__", "<module>")))
    standard = file.startswith(_STANDARD) and "site-packages" not in file
    return not (generated or standard or file.startswith(_LIBRARIES))
