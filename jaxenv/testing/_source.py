"""Exceptions as evidence, with the line of the author's code that raised them."""

import importlib.util
import os
import pathlib
import sysconfig
import traceback
import types

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
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if is_authors(frame)]
    return f"{message} (raised at {place(*frames[-1])})" if frames else message


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
