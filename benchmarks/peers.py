"""Rollouts of the peers under the same policy, each written as its own users write it."""

import contextlib
import dataclasses
import pathlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from benchmarks import linear
from benchmarks.measure import Contestant, Row, Unavailable, jax_contestant
from jaxenv.interop.gymnax import CONSTANT_NAMES


@contextlib.contextmanager
def importable(given: dict[str, Any]) -> Iterator[None]:
    """Makes the given modules importable under their names, in place of what a peer's file imports and does not use."""
    before = {name: sys.modules[name] for name in given if name in sys.modules}
    sys.modules.update(given)
    try:
        yield
    finally:
        for name in given:
            del sys.modules[name]
        sys.modules.update(before)


def module_of_file(path: pathlib.Path) -> types.ModuleType:
    """Runs a file of a peer that is not in a package, and returns it as a module."""
    module = types.ModuleType(path.stem)
    exec(compile(path.read_text(), path.stem, "exec"), module.__dict__)
    return module


class Loop(NamedTuple):
    """The loop that a library's own users write, over B lanes under JAX.

    Attributes:
        reset: Maps keys ``[B]`` to the state.
        step: Maps (state, action, keys ``[B]``) to the state and (observation, reward, terminated, truncated), with
            flags of the rows that are steps where lanes do not restart within the step.
        sample: Maps (state, key) to random actions.
    """

    reset: Callable
    step: Callable
    sample: Callable

    def contestant(self, name: str, num_envs: int, num_steps: int, store: bool = False) -> Contestant:
        """Returns the rollout; the action is carried, as in the rollout of this library."""

        def start(key):
            key, key_reset, key_action = jax.random.split(key, 3)
            state = self.reset(jax.random.split(key_reset, num_envs))
            return state, key, self.sample(state, key_action)

        def step(carry):
            state, key, action = carry
            key, key_step, key_action = jax.random.split(key, 3)
            state, found = self.step(state, action, jax.random.split(key_step, num_envs))
            observation, reward, terminated, truncated, is_step = (*found, jnp.ones(num_envs, bool))[:5]
            row = Row(observation, action, reward, terminated, truncated, is_step)
            return (state, key, self.sample(state, key_action)), row

        return jax_contestant(name, start, step, num_envs, num_steps, store)


def each(sample: Callable[[jax.Array], Any], num_envs: int) -> Callable[[Any, jax.Array], Any]:
    """Returns the `Loop.sample` that draws an action for every lane, whatever its state."""
    return lambda state, key: jax.vmap(sample)(jax.random.split(key, num_envs))


def gymnax(id: str, num_envs: int, num_steps: int, loop: str = "sums") -> Contestant:
    """Runs gymnax as PureJaxRL does: ``vmap`` of ``env.step``, which restarts lanes itself, with split keys.

    Raises:
        Unavailable: If gymnax cannot be imported, lacks the id, or differs in a constant that both sides name.
    """
    env, params = gymnax_env(id)
    if loop == "linear":
        return _gymnax_linear(id, num_envs, num_steps, env, params)
    return like_gymnax(env, params, num_envs).contestant("gymnax", num_envs, num_steps, loop == "stored")


def popjaxrl(id: str, num_envs: int, num_steps: int, loop: str = "sums") -> Contestant:
    """Runs popjaxrl like `gymnax`, the library of its base class. A clone stands in a folder of ``PYTHONPATH``.

    Raises:
        Unavailable: If popjaxrl cannot be imported or lacks the id.
    """
    return like_gymnax(*popjaxrl_env(id), num_envs).contestant("popjaxrl", num_envs, num_steps, loop == "stored")


def popjaxrl_env(id: str) -> tuple[Any, Any]:
    """Returns popjaxrl's environment of an id and its params.

    Raises:
        Unavailable: If popjaxrl cannot be imported or lacks the id.
    """
    name = id.removesuffix("-popgym").replace("PositionOnly", "Stateless")
    name = name.replace("MineSweeper", "Minesweeper").replace("Multiarmed", "MultiArmed")
    if name == id or "VelocityOnly" in id:
        raise Unavailable(f"popjaxrl has no {id}")
    try:
        from popjaxrl.envs import registration
    except ImportError as error:
        raise Unavailable(f"popjaxrl cannot be imported: {error}") from None
    env, params = registration.make(name)
    # popjaxrl applies time limits in its step. gymnax, since popjaxrl was written, applies them to the state after it.
    methods = {
        "is_truncated": lambda self, state, params: jnp.zeros((), bool),
        "is_terminated": lambda self, state, params: self.is_terminal(state, params),
    }
    env.__class__ = type(name, (type(env),), methods)
    return env, params


def like_gymnax(env: Any, params: Any, num_envs: int) -> Loop:
    """Returns the loop over an environment with gymnax's methods, which restarts lanes within its step."""

    def reset(keys):
        return jax.vmap(env.reset, in_axes=(0, None))(keys, params)[1]

    def step(state, action, keys):
        found = jax.vmap(env.step, in_axes=(0, 0, 0, None))(keys, state, action, params)
        observation, state, reward, terminated, *others = found[:-1]
        truncated = others[0] if others else jnp.zeros_like(terminated)  # Craftax does not separate truncations
        return state, (observation, reward, terminated, truncated)

    return Loop(reset, step, each(env.action_space(params).sample, num_envs))


def _gymnax_linear(id: str, num_envs: int, num_steps: int, env: Any, params: Any) -> Contestant:
    spec = jaxenv.spec(id).make().action_spec()

    def start(key):
        weights_key = key
        key, key_reset = jax.random.split(key)
        observation, state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key_reset, num_envs), params)
        return linear.weights(weights_key, observation, spec), state, observation, key

    def step(carry):
        weights, state, observation, key = carry
        key, key_action, key_step = jax.random.split(key, 3)
        action = linear.act(spec, weights, observation, lambda n: jax.random.uniform(key_action, (num_envs, n)))
        keys = jax.random.split(key_step, num_envs)
        advance = jax.vmap(env.step, in_axes=(0, 0, 0, None))
        observation, state, reward, terminated, truncated, _ = advance(keys, state, action, params)
        # The next product reads the observation.
        row = Row((), action, reward, terminated, truncated, jnp.ones(num_envs, bool))
        return (weights, state, observation, key), row

    return jax_contestant("gymnax", start, step, num_envs, num_steps, store=False)


def gymnax_env(id: str) -> tuple[Any, Any]:
    """Returns gymnax's environment of an id and its params, with the time limit of this library.

    Raises:
        Unavailable: If gymnax cannot be imported, lacks the id, or differs in a constant that both sides name.
    """
    try:
        import gymnax
    except ImportError as error:
        raise Unavailable(f"gymnax cannot be imported: {error}") from None
    theirs, options = _GYMNAX_IDS.get(id, (id, {}))
    if theirs not in gymnax.registered_envs:
        raise Unavailable(f"gymnax has no {id}")
    if theirs == "MNISTBandit-bsuite":
        raise Unavailable(f"gymnax downloads the images of {theirs}")
    env, params = gymnax.make(theirs, **options)
    limit = jaxenv.spec(id).max_episode_steps
    if limit is not None:
        params = params.replace(max_steps_in_episode=limit)
    if difference := _difference(jaxenv.spec(id).make(), params, CONSTANT_NAMES.get(id, {})):
        raise Unavailable(f"gymnax has a different {id}: {difference}")
    return env, params


def gymnasium(id: str, num_envs: int, num_steps: int, loop: str = "sums") -> Contestant:
    """Runs Gymnasium's own NumPy vector environment of the id; for Box2D, `ASYNC_WORKERS` processes.

    Raises:
        Unavailable: If Gymnasium cannot be imported, or has no NumPy vector environment of the id nor Box2D.
    """
    try:
        import gymnasium
    except ImportError as error:
        raise Unavailable(f"gymnasium cannot be imported: {error}") from None
    known = gymnasium.registry.get(id)
    if known is not None and ".box2d" in str(known.entry_point):
        return _in_workers(gymnasium, id, num_steps, loop == "stored")
    if known is None or known.vector_entry_point is None:
        raise Unavailable(f"gymnasium, in NumPy over lanes, has no {id}")
    limit = jaxenv.spec(id).max_episode_steps
    env = gymnasium.make_vec(
        id, num_envs, vectorization_mode="vector_entry_point", **({} if limit is None else {"max_episode_steps": limit})
    )
    if difference := _difference(jaxenv.spec(id).make(), env, _GYMNASIUM_NAMES):
        raise Unavailable(f"gymnasium has a different {id}: {difference}")

    return gymnasium_loop(env, num_envs, num_steps, loop == "stored")


def gymnasium_loop(env: Any, num_envs: int, num_steps: int, store: bool = False) -> Contestant:
    """Runs a vector environment of Gymnasium under the random policy."""

    def start(seed: int) -> None:
        env.reset(seed=seed)
        env.action_space.seed(seed)

    return in_python("gymnasium", start, env.action_space.sample, env.step, num_envs, num_steps, store, env.close)


ASYNC_WORKERS = 8  # processes, whatever the number of lanes; on two cores eight are faster than 64


def _in_workers(gymnasium: Any, id: str, num_steps: int, store: bool) -> Contestant:
    """Runs Gymnasium's ``AsyncVectorEnv``."""
    try:
        env = gymnasium.make_vec(id, ASYNC_WORKERS, vectorization_mode="async")
    except gymnasium.error.DependencyNotInstalled as error:
        raise Unavailable(f"gymnasium cannot make {id}: {error}") from None
    return gymnasium_loop(env, ASYNC_WORKERS, num_steps, store)


def envpool(id: str, num_envs: int, num_steps: int, loop: str = "sums") -> Contestant:
    """Runs EnvPool in its synchronous mode, with its default number of threads.

    Raises:
        Unavailable: If EnvPool cannot be imported or lacks the id.
    """
    try:
        import envpool
    except ImportError as error:
        raise Unavailable(f"envpool cannot be imported: {error}") from None
    if id not in envpool.list_all_envs():
        raise Unavailable(f"envpool has no {id}")
    limit = jaxenv.spec(id).max_episode_steps
    settings = {} if limit is None else {"max_episode_steps": limit}
    env = envpool.make(id, env_type="gymnasium", num_envs=num_envs, **settings)
    return envpool_loop(env, num_envs, num_steps, loop == "stored")


def envpool_loop(env: Any, num_envs: int, num_steps: int, store: bool = False) -> Contestant:
    """Runs an environment of EnvPool under the random policy."""
    # EnvPool has no batched action space and takes its seed in the constructor, so runs differ only in their actions.
    space = env.action_space
    rng = np.random.default_rng()

    def start(seed):
        nonlocal rng
        rng = np.random.default_rng(seed)
        env.reset()

    def sample():
        if hasattr(space, "n"):
            return rng.integers(space.n, size=num_envs)
        return rng.uniform(space.low, space.high, (num_envs, *space.shape)).astype(space.dtype)

    return in_python("envpool", start, sample, env.step, num_envs, num_steps, store, env.close)


def in_python(
    name: str,
    start: Callable[[int], Any],
    sample: Callable[[], np.ndarray],
    step: Callable[[np.ndarray], tuple],
    num_envs: int,
    num_steps: int,
    store: bool = False,
    close: Callable[[], Any] = lambda: None,
) -> Contestant:
    """Returns the Python loop over a vector environment with Gymnasium's interface and ``next_step`` restarts."""

    def run(seed: int) -> dict[str, Any]:
        start(seed)
        totals = dict.fromkeys(("steps", "observation", "reward", "terminated", "truncated"), 0)
        stored: dict[str, list] = {k: [] for k in Row._fields}
        ended = np.zeros(num_envs, bool)
        for _ in range(num_steps):
            action = sample()
            observation, reward, terminated, truncated, _ = step(action)
            # The row after an end starts the next episode and is not a step.
            row = Row(observation, action, reward, terminated, truncated, ~ended)
            ended = terminated | truncated
            if store:
                for field, value in row._asdict().items():
                    stored[field].append(value)
            else:
                totals["steps"] += np.count_nonzero(row.is_step)
                for field in ("observation", "reward", "terminated", "truncated"):
                    totals[field] += sum(leaf.sum() for leaf in jax.tree.leaves(getattr(row, field)))
        if not store:
            return totals
        whole = {field: np.stack(values) for field, values in stored.items()}
        return {**whole, "steps": whole.pop("is_step")}

    return Contestant(name, run, close=close)


def popgym(id: str, num_envs: int, num_steps: int, loop: str = "sums") -> Contestant:
    """Runs a Python loop over one environment of POPGym, which has no batches, for the steps of 8 lanes.

    Python computes every output, so none is summed or stored.

    Raises:
        Unavailable: If POPGym cannot be imported or lacks the id.
    """
    if not id.endswith("-popgym"):
        raise Unavailable(f"popgym has no {id}")
    try:
        import popgym
    except ImportError as error:
        raise Unavailable(f"popgym cannot be imported: {error}") from None
    env, steps = getattr(popgym.envs, id.removesuffix("-popgym"))(), 8 * num_steps

    def run(seed: int) -> dict[str, Any]:
        env.reset(seed=seed)
        env.action_space.seed(seed)
        terminations = truncations = 0
        for _ in range(steps):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                terminations += terminated
                truncations += truncated
                env.reset()
        return {"steps": steps, "terminated": terminations, "truncated": truncations}

    return Contestant("popgym", run, close=env.close)


PEERS = {"gymnax": gymnax, "gymnasium": gymnasium, "envpool": envpool, "popgym": popgym, "popjaxrl": popjaxrl}
DEFAULT = ("gymnax", "gymnasium", "envpool")  # the others have the ids of POPGym alone


# --- comparison of the tasks -----------------------------------------------------------------------------------------

# Id -> id and options of gymnax, where they differ.
_GYMNAX_IDS: dict[str, tuple[str, dict[str, Any]]] = {
    "FrozenLake-v1": ("FrozenLake-misc", {}),
    "FrozenLake8x8-v1": ("FrozenLake-misc", {"map_name": "8x8"}),
}

_GYMNASIUM_NAMES = CONSTANT_NAMES["CartPole-v1"]  # gymnax took its names from Gymnasium


def _difference(env: jaxenv.Environment, theirs: Any, names: dict[str, str]) -> str:
    """Describes the first constant that both sides name with different values; empty if there is none."""
    for holder in (env, getattr(env, "params", None)):
        for field in dataclasses.fields(holder) if holder is not None else ():
            name = names.get(field.name, field.name)
            ours, other = getattr(holder, field.name), getattr(theirs, name, None)
            numbers = (bool, int, float, np.number, np.ndarray, jax.Array)
            if field.name in ("num_envs", "name") or not (isinstance(ours, numbers) and isinstance(other, numbers)):
                continue
            if not np.allclose(ours, other, rtol=1e-6):
                return f"{name} is {other}, but {field.name} is {ours} in jaxenv"
    return ""
