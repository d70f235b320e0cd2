"""Settings for all tests: strict types and ranks, and compiled code shared between runs and workers."""

import os
import pathlib

import jax
import pytest

_CACHE = pathlib.Path(__file__).parents[1] / ".cache" / "jax"

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_compilation_cache_dir", os.environ.get("JAX_COMPILATION_CACHE_DIR", str(_CACHE)))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)

# Where numbers are the matter, code is compiled as users compile it. Elsewhere most of the time would go into
# optimising code that runs once: as JAX's own tests do, those look at less optimised code.
_NUMERIC = ("envs.", "test_lane_law", "test_numeric", "test_random", "test_running", "test_transformations")


@pytest.fixture(autouse=True, scope="module")
def _compile_quickly(request):
    quickly = not request.module.__name__.removeprefix("tests.").startswith(_NUMERIC)
    jax.config.update("jax_disable_most_optimizations", quickly)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


# Optimisers, networks and the code of the pages promote dtypes and ranks as JAX does by default.
_BY_DEFAULT = ("training.", "test_docs")


@pytest.fixture(autouse=True, scope="module")
def _promote_as_by_default(request):
    lenient = request.module.__name__.removeprefix("tests.").startswith(_BY_DEFAULT)
    if lenient:
        jax.config.update("jax_numpy_dtype_promotion", "standard")
        jax.config.update("jax_numpy_rank_promotion", "allow")
    yield
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key():
    return jax.random.key(0)
