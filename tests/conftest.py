"""Settings of all tests: strict types and ranks, a shared compilation cache, and how code is compiled."""

import gc
import os
import pathlib

import jax
import pytest

import jaxenv
from jaxenv.core import registry
from tests import numeric, skips

_CACHE = pathlib.Path(__file__).parents[1] / ".cache" / "jax"

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
# Processes that tests start read the variable, so no command writes to the user's cache folder.
jax.config.update("jax_compilation_cache_dir", os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE)))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


jaxenv.ids()  # registers them: tests change copies of the registry
# Also while modules are collected, which make the rows that their tests share.
jax.config.update("jax_disable_most_optimizations", True)
# Compiled programs stay, and visiting them again and again took a quarter of the time.
gc.set_threshold(10_000, 20, 20)


@pytest.fixture(autouse=True, scope="module")
def _exempt_what_was_made_from_garbage_collection():
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid.startswith(numeric.PATHS):
            item.add_marker("numeric")


def pytest_sessionfinish(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")  # of a worker of xdist there is none
    for line in skips.unlisted(reporter.stats.get("skipped", [])) if reporter else []:
        reporter.write_line(f"skipped, but not listed in tests/skips.py: {line}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True, scope="module")
def _disable_optimizations_unless_numeric(request):
    # Optimising code that runs once would take most of the time of the other tests.
    jax.config.update("jax_disable_most_optimizations", not request.node.nodeid.startswith(numeric.PATHS))
    yield
    jax.config.update("jax_disable_most_optimizations", False)


# Optimisers, networks, wrappers of gymnax and the code in the documentation rely on JAX's default promotion.
_DEFAULT_PROMOTION = ("tests/training/", "tests/interop/", "tests/clients/", "tests/test_docs.py")


@pytest.fixture(autouse=True, scope="module")
def _allow_promotion(request):
    if request.node.nodeid.startswith(_DEFAULT_PROMOTION):
        jax.config.update("jax_numpy_dtype_promotion", "standard")
        jax.config.update("jax_numpy_rank_promotion", "allow")
    yield
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(autouse=True)
def _forget_registered_ids(monkeypatch):
    """An id that a test registers is gone after it."""
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))


@pytest.fixture
def key():
    return jax.random.key(0)
