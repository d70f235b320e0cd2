"""The folder in which the command line keeps compiled programs between runs: JAX's persistent compilation cache."""

import os
import pathlib
import sys

_MOST_BYTES = 2**30
_LEAST_SECONDS = 0.1  # programs that compile faster are not kept


def keep_programs() -> None:
    """Sets JAX's variables of its compilation cache where the user has not; JAX reads them when it is imported.

    The programs that were not used for the longest time are deleted until at most 1 GiB is left: JAX itself bounds the
    folder only with a further package. A folder that cannot be written is a warning.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or "JAX_ENABLE_COMPILATION_CACHE" in os.environ:
        return
    try:
        folder = _user_folder() / "jaxenv" / "programs"
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"{folder} is read-only")
        _delete_oldest(folder)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        print(f"jaxenv: warning: compiled programs are not kept: {error}", file=sys.stderr)
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(_LEAST_SECONDS))


def _delete_oldest(folder: pathlib.Path) -> None:
    left, found = _MOST_BYTES, {program: program.stat() for program in folder.iterdir()}
    for program, status in sorted(found.items(), key=lambda item: item[1].st_atime, reverse=True):
        left -= status.st_size
        if left < 0:
            program.unlink(missing_ok=True)  # another command may have deleted it


def _user_folder() -> pathlib.Path:
    if given := os.environ.get("XDG_CACHE_HOME"):
        return pathlib.Path(given)
    if sys.platform == "win32":
        return pathlib.Path(os.environ.get("LOCALAPPDATA") or pathlib.Path.home() / "AppData" / "Local")
    return pathlib.Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
