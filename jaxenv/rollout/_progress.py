"""A progress bar for loops on the host."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def progress(total: int, unit: str = "steps") -> Iterator[Callable[[int], None]]:
    """A bar on stderr that the yielded function advances; nothing if stderr is not a terminal or rich is missing."""
    bar: Any = None
    if sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            from rich.console import Console
            from rich.progress import Progress

            bar = Progress(console=Console(stderr=True), transient=True)
    if bar is None:
        yield lambda count: None
        return
    with bar:
        task = bar.add_task(unit, total=total)
        yield lambda count: bar.advance(task, count)
