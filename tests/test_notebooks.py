"""Every notebook runs without errors and is stored with its output."""

import pathlib

import jax
import pytest

from tests.packages import lazy

nbformat, nbclient = lazy("nbformat"), lazy("nbclient")

NOTEBOOKS = sorted((pathlib.Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
notebooks = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


# What a line of a cell shows.
SHOWN = {"plt.show()": "image/png", "jaxenv.plot.": "image/png", "jaxenv.film(": "text/html"}


def assert_shows_its_plots(notebook):
    for cell in notebook.cells:
        for line in cell.source.splitlines() if cell.cell_type == "code" else ():
            for start, kind in SHOWN.items():
                if line.startswith(start):
                    assert any(kind in output.get("data", {}) for output in cell.outputs), line


def test_notebooks_exist():
    assert NOTEBOOKS


@pytest.mark.pages
@notebooks
def test_notebook_runs_without_errors(path, monkeypatch):
    # The kernel runs in another process and shares compiled programs with the tests through the cache on disk.
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", jax.config.jax_compilation_cache_dir)
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
    monkeypatch.delenv("MPLBACKEND", raising=False)  # EnvPool sets it at its import
    monkeypatch.setenv("JAXENV_SHORT", "1")  # fewer steps, for the notebooks that train or measure
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    assert_shows_its_plots(notebook)


@notebooks
def test_stored_notebook_shows_its_plots_and_no_errors_or_warnings(path):
    notebook = nbformat.read(path, as_version=4)
    assert_shows_its_plots(notebook)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", output.text
