"""Shows a progress bar for loops on the host."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def progress(total: int, unit: str = "steps", done: int = 0) -> Iterator[Callable[..., None]]:
    """Shows a bar on stderr with the time left, from ``done`` on, if stderr is a terminal and rich is installed.

    Yields a function ``advance(count, note="")`` that advances the bar and shows a note after it.
    """
    bar: Any = None
    if sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            from rich.console import Console
            from rich.progress import Progress, TextColumn

            columns = (*Progress.get_default_columns(), TextColumn("{task.fields[note]}", markup=False))
            # Output that is piped to a file must not go to the console of the bar.
            redirect = sys.stdout.isatty()
            bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=redirect)
    if bar is None:
        yield lambda count, note="": None
        return
    with bar:
        task = bar.add_task(unit, total=total, completed=done, note="")
        yield lambda count, note="": bar.update(task, advance=count, note=note)
