"""Where this installation came from: how to install an extra, and the clone that holds the benchmarks."""

import json
import pathlib
from importlib import metadata
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname


def missing(owner: str, error: ImportError, extra: str) -> ImportError:
    """Returns the error for a library that is not installed, with the command that installs its ``extra``."""
    library = (error.name or str(error)).partition(".")[0]
    return ImportError(f"{owner} needs {library}: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Returns the command that installs an extra from where this installation came from."""
    folder = clone()
    if folder is not None:
        return f'pip install "{"." if folder == pathlib.Path.cwd() else folder}[{extra}]"'
    origin = _origin()
    if "vcs_info" in origin:
        return f'pip install "jaxenv[{extra}] @ {origin["vcs_info"]["vcs"]}+{origin["url"]}"'
    return f'pip install ".[{extra}]" in a clone of the repository'


def clone() -> pathlib.Path | None:
    """Returns the clone of the repository that holds this package, or that it was installed from; else ``None``."""
    folders = [pathlib.Path(__file__).parents[2]]
    url = urlparse(_origin().get("url", ""))
    if url.scheme == "file":
        folders.append(pathlib.Path(url2pathname(url.path)))
    return next((folder for folder in folders if (folder / "pyproject.toml").is_file()), None)


def _origin() -> dict[str, Any]:
    """Reads what pip recorded about the source of this installation (``direct_url.json``)."""
    try:
        return json.loads(metadata.distribution("jaxenv").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        return {}
