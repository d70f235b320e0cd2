"""Default promotion rules for the peers, and a fixture that runs a part at a tiny size."""

import json

import jax
import pytest

from benchmarks import __main__ as program
from tests.benchmarks.sizes import SIZES


@pytest.fixture(autouse=True)
def default_promotion():
    # The peers rely on JAX's default promotion of dtypes and ranks.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture
def run(tmp_path):
    """Runs a part at a tiny size and returns the content of its result file."""

    def run(part, *arguments):
        path = tmp_path / "result.json"
        assert program.run_part(part, [*arguments, *SIZES, "--json", str(path)]) == 0
        content = json.loads(path.read_text())
        assert content["benchmark"] == part
        return content

    return run
