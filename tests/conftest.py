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


@pytest.fixture
def key():
    return jax.random.key(0)
