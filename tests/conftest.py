"""Settings for all tests: strict types and ranks, and compiled code shared between runs and workers."""

import os
import pathlib
import re

import jax
import pytest
from jax._src import compiler

_CACHE = pathlib.Path(__file__).parents[1] / ".cache" / "jax"

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_compilation_cache_dir", os.environ.get("JAX_COMPILATION_CACHE_DIR", str(_CACHE)))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)

# Where numbers are the matter, code is compiled as users compile it. Elsewhere most of the time would go into
# optimising code that runs once: as JAX's own tests do, those look at less optimised code, which the compiler's older
# emitters make in half the time.
_NUMERIC = ("envs.", "test_lane_law", "test_numeric", "test_running")
_QUICK_OPTIONS = {"xla_cpu_use_fusion_emitters": False}
_get_compile_options = compiler.get_compile_options


def _get_quick_compile_options(*args, env_options_overrides=None, **kwargs):
    overrides = _QUICK_OPTIONS | dict(env_options_overrides or {})
    return _get_compile_options(*args, env_options_overrides=overrides, **kwargs)


@pytest.fixture(autouse=True, scope="module")
def _compile_quickly(request):
    quickly = not request.module.__name__.removeprefix("tests.").startswith(_NUMERIC)
    jax.config.update("jax_disable_most_optimizations", quickly)
    # JAX takes such options from each call of `jit` or from the environment of a process, not for a while.
    with pytest.MonkeyPatch.context() as patch:
        if quickly:
            patch.setattr(compiler, "get_compile_options", _get_quick_compile_options)
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


# What says once more, for other stacks, what is tested anyway, and takes its time: marked `thorough` and left out by
# default. The kit goes through all environments and wrappers in full by `jaxenv check --all` and the catalogue.
_THOROUGH = re.compile(
    r"test_a_sound_stack_passes\[(?!AutoReset|dict spaces|BatchWrapper)"
    r"|test_every_environment_has_the_shapes_that_it_says\[(?!Breakout|CartPole-v1).*-(same_step|None)\]"
    r"|test_a_stack_of_many_wrappers_around_a_real_environment_passes\[Pendulum"
    r"|test_compact_equals_select_up_to_rounding\[.*-(Pendulum|CardGame|TicTacToe)"
    r"|test_both_sides_count_their_steps_exactly\[stored\]"
    r"|test_seeds_under_vmap_play_as_many_steps_as_one_batch"
    r"|test_resets_run_every_strategy_and_all_play_the_same_steps"
    r"|test_compile_times_are_compared_with_gymnax"
    r"|test_the_gradient_through_five_steps_equals_finite_differences\[(?!CartPole-v1-.*-compact|Pendulum-v1-.*-select)"
    r"|test_starts_are_bitwise_the_same_for_every_batch_size\[.*-(1|64)\]"
    r"|test_integer_rollouts_are_bitwise_the_same_for_every_batch_size\[(select-TicTacToe|compact-CardGame)"
    # Stateless wrappers, whose specs and values have tests of their own.
    r"|test_a_wrapper_keeps_its_promises\[(Affine|Normalize|Flatten|Transform|OneHot)Action\]"
    r"|test_a_wrapper_keeps_its_promises\[(DiscreteActions|DiscretizeAction|ActionOffset|ChannelFirst|ScaleImage)\]"
    r"|test_a_wrapper_keeps_its_promises\[(Clip|Filter|Rescale|Reshape|Dtype|Discretize|Resize|Crop|Grayscale)Observation\]"
    r"|test_a_wrapper_keeps_its_promises\[(Clip|Sparse|Sign|Transform)Reward\]"
)


def pytest_collection_modifyitems(items):
    for item in items:
        if _THOROUGH.match(item.name):
            item.add_marker("thorough")


@pytest.fixture
def key():
    return jax.random.key(0)
