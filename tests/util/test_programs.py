"""Caches of the process: what environments of one structure share goes with the last of them."""

import collections
import functools
import gc
import importlib
import pkgutil
import types
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import interop, tree
from jaxenv._util import programs
from jaxenv.canvas import _films
from jaxenv.testing import Chain, checked
from jaxenv.wrappers import AutoReset, RecordVideo, TransformReward

KEY = jax.random.key(0)


class Table:
    """What a function captures."""

    def __init__(self, number):
        self.values = np.full(1000, number, np.float32)


def captured_reward(number, tables):
    """A reward function that captures a table, of which ``tables`` gets a weak reference."""
    table = Table(number)
    tables.append(weakref.ref(table))
    return lambda reward: reward * jnp.asarray(table.values[:7]).sum()


def stack(number, tables, num_envs=3):
    reward = captured_reward(number, tables)
    return AutoReset(TransformReward(Chain(num_envs=num_envs, length=5), reward), reset_strategy="cond")


class Capturing(Chain):
    """A task whose own static field is a function, restarted by the strategies and read by a lane's code."""

    reward: object = tree.static(default=None)

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return tree.rebuild(out, reward=self.reward(out.reward))


def alive(tables):
    for _ in range(3):  # JAX's caches free more when their keys have gone
        gc.collect()
    return sum(table() is not None for table in tables)


def steps(env):
    state, timestep = env.reset(KEY)
    state, timestep = env.step(state, np.zeros(3, np.int32))
    jaxenv.reset_where(env, state, timestep, np.array([True, False, False]))


def asks_specs(env):
    env.time_step_spec()
    env.describe()


def plays_vector(env):
    adapter = interop.to_gymnasium_vector(env)
    adapter.reset(seed=0)
    adapter.step(np.zeros(3, np.int64))
    adapter.close()


@pytest.fixture
def compiled_fast():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def num_programs():
    """The number of compiled programs of the process."""
    return len(jax.devices()[0].client.live_executables())


# How often each is done, and what is done with a new stack.
USES = {
    "steps": (10, lambda i, tables: steps(stack(i, tables))),
    "specs": (100, lambda i, tables: asks_specs(stack(i, tables))),
    "vector": (10, lambda i, tables: plays_vector(stack(i, tables))),
    "params": (100, lambda i, tables: plays_vector(jaxenv.make("CartPole-v1", 3, gravity=3 + i / 7))),
}


@pytest.mark.parametrize("use", USES)
def test_nothing_stays_of_many_stacks(use, compiled_fast):
    tables, (number, once) = [], USES[use]
    once(0, tables)
    assert alive(tables) == 0
    programs = num_programs()
    for i in range(1, number):
        once(i, tables)
    assert (alive(tables), num_programs()) == (0, programs)


ADAPTERS = {
    "gymnax": lambda env: interop.to_gymnax(env).reset(KEY),
    "dm_env": lambda env: interop.to_dm_env(env).reset(),
    "host": lambda env: interop.host(env).reset(),
    "checked": lambda env: checked(env).reset(KEY),
}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_nothing_stays_of_a_task_with_a_captured_array_in_an_adapter(adapter, compiled_fast):
    tables, programs = [], []
    for i in range(3):
        ADAPTERS[adapter](Capturing(num_envs=1, reward=captured_reward(i, tables)))
        programs.append((alive(tables), num_programs()))
    assert programs[1:] == [(0, programs[0][1])] * 2


@pytest.mark.parametrize("strategy", ["select", "cond", "compact", {"cpu": "compact", "default": "cond"}])
def test_restarts_keep_no_environment(strategy):
    tables = []
    for i in range(2):
        task = Capturing(num_envs=3, reward=captured_reward(i, tables))
        env = AutoReset(task, reset_strategy=strategy)
        state, _ = env.reset(KEY)
        env.step(state, np.zeros(3, np.int32))
        del task, env, state
    assert alive(tables) == 0


def test_a_function_that_captures_its_own_stack_does_not_keep_it():
    table = Table(3)
    reference = weakref.ref(table)
    env = Chain(num_envs=3)
    env = TransformReward(env, lambda reward: reward + env.num_envs + jnp.asarray(table.values[0]))
    steps(env)
    env = table = None  # the function holds the variables, not their values
    gc.collect()
    assert reference() is None


def test_equal_stacks_share_programs_although_the_first_is_gone():
    steps(jaxenv.make("MountainCar-v0", 3))
    gc.collect()
    first = programs.programs_of(jaxenv.make("MountainCar-v0", 3))
    jitted = [x for x in first._results.values() if hasattr(x, "lower")]
    assert jitted
    steps(jaxenv.make("MountainCar-v0", 3, gravity=0.003))
    assert programs.programs_of(jaxenv.make("MountainCar-v0", 3)) is first
    assert [x._cache_size() for x in jitted] == [1] * len(jitted)


def test_structures_that_stay_are_bounded():
    for i in range(programs._MAX_STRUCTURES[True] + 3):
        env = Chain(num_envs=i + 1)
        programs.programs_of(env).jitted(bound_test)
    for compiled, newest in programs._newest.items():
        assert len(newest) <= programs._MAX_STRUCTURES[compiled]
    assert len(programs._newest[True]) == programs._MAX_STRUCTURES[True]


def bound_test(env):
    return env.num_envs


@pytest.mark.parametrize(
    ("value", "can"),
    [(3, True), ("a", True), (bound_test, True), (Table, True), (lambda: 0, False), (Table(1), False)],
)
def test_a_structure_can_be_made_again_if_its_static_fields_are_values(value, can):
    assert programs.can_be_made_again(tree.structure(tree.rebuild(Capturing(), reward=value))) == can


def test_a_structure_is_pickled_once_and_not_kept_if_it_cannot_be_made_again(monkeypatch):
    pickled, tables = [], []
    monkeypatch.setattr(programs, "_Limited", lambda made=programs._Limited: pickled.append(1) or made())
    for _ in range(3):
        programs.can_be_made_again(tree.structure(Chain(num_envs=1, length=1234)))
    assert len(pickled) == 1
    programs.can_be_made_again(tree.structure(Capturing(reward=captured_reward(0, tables))))
    assert alive(tables) == 0


def test_a_new_value_of_a_param_compiles_nothing_in_an_adapter():
    plays_vector(jaxenv.make("CartPole-v1", 3, autoreset="next_step"))
    rewards = {}
    with jax.log_compiles(False), _counting_compilations() as compiled:
        for gravity in (3.7, 9.0, 25.0):
            adapter = interop.to_gymnasium_vector("CartPole-v1", 3, gravity=gravity, autoreset="next_step")
            adapter.reset(seed=0)
            rewards[gravity] = adapter.step(np.ones(3, np.int64))[0][:, 3].tolist()
            adapter.close()
    assert compiled == []
    assert len({tuple(x) for x in rewards.values()}) == 3


class _counting_compilations:
    """The names of the programs that JAX compiles in the block."""

    def __enter__(self):
        self.names = []
        jax.monitoring.register_event_duration_secs_listener(self._note)
        return self.names

    def _note(self, event, seconds, **kwargs):
        if event == "/jax/core/compile/backend_compile_duration":
            self.names.append(kwargs.get("fun_name", event))

    def __exit__(self, *exception):
        jax.monitoring.unregister_event_duration_listener(self._note)


def test_closing_an_adapter_frees_its_programs():
    tables = []
    adapter = interop.host(stack(0, tables))
    adapter.reset()
    own = weakref.ref(programs.programs_of(adapter.env))
    adapter.close()
    gc.collect()
    assert own() is None  # the adapter and its environment still exist


def test_copies_and_pickles_of_an_environment_share_its_programs_or_none():
    import copy
    import pickle

    env = jaxenv.make("CartPole-v1", 3)
    steps(env)
    own = programs.programs_of(env)
    for copied in (copy.copy(env), copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        steps(copied)
        assert programs.programs_of(copied) is own


def test_films_that_have_ended_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(_films, "_MAX_DONE", 5)
    recorder = _films.Recorder()
    settings = _films.Settings(str(tmp_path), ".gif", 10)
    picture = np.zeros((8, 8, 3), np.uint8)
    for episode in range(9):
        recorder.receive(settings, _films.Frame(-1, 0, episode, 0, 1, 0.0, True, picture))
    assert len(recorder._done) == 5


def test_films_keep_no_stack(tmp_path):
    tables = []
    for i in range(3):
        task = jaxenv.spec("CartPole-v1").make(3)
        inside = TransformReward(task, captured_reward(i, tables))
        steps(AutoReset(RecordVideo(inside, str(tmp_path / str(i)), size=16)))
    RecordVideo.flush()
    del task, inside
    assert alive(tables) == 0


# --- every cache ------------------------------------------------------------------------------------------------------

# Caches that need no bound, with the reason.
UNBOUNDED = {
    "jaxenv.core._restart._merged_compact": "keys are numbers of lanes, values small functions",
    "jaxenv.interop._adapter._first_process": "one entry",
    "jaxenv.interop.dm_env._dm_env": "one entry",
    "jaxenv.interop._adapter.joined": "one entry for each adapter",
    "jaxenv.testing._programs.quick_options": "one entry",
}
# Tables that grow only with what a program registers.
TABLES = {
    "jaxenv.core.registry.listeners",
    "jaxenv.core.registry._registry",
    "jaxenv.wrappers.stack._wrapper_data._known",
}
TABLES |= {"jaxenv.tree._export._definitions"}


def modules():
    for found in pkgutil.walk_packages(jaxenv.__path__, "jaxenv."):
        if "__main__" not in found.name:
            try:
                yield importlib.import_module(found.name)
            except ImportError:  # of an optional library
                continue


def test_every_cache_of_the_package_is_bounded():
    unbounded, mutable = set(), set()
    for module in modules():
        for name, value in vars(module).items():
            path = f"{module.__name__}.{name}"
            is_lru = isinstance(value, functools._lru_cache_wrapper) and value.__module__ == module.__name__
            if is_lru and value.cache_parameters()["maxsize"] is None:
                unbounded.add(path)
            empty = isinstance(value, dict | list | set | collections.OrderedDict) and not value
            if empty and not isinstance(value, types.MappingProxyType) and not name.startswith("__"):
                mutable.add(path)
    assert unbounded == set(UNBOUNDED)
    assert mutable <= TABLES
