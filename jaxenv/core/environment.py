"""The interface of a batch of environments, which tasks and wrappers implement.

Use `Environment` in annotations. Subclass `jaxenv.Task` to write an environment, `jaxenv.Wrapper` for a wrapper.
"""

import abc
import functools
import re
import reprlib
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._util import xla
from jaxenv._util.checks import INT32_MAX, check_integer
from jaxenv._util.names import missing_attribute
from jaxenv._util.programs import programs_of
from jaxenv.canvas import check_size
from jaxenv.core import _actions, _checks, _describe, _describe_html, _start
from jaxenv.core._compiled import self_compiling
from jaxenv.core._declared import Declared, declared_leaves, map_declared
from jaxenv.core._module import Module
from jaxenv.core.timestep import TimeStep
from jaxenv.random import Clock, KeyWords
from jaxenv.tree import Tree
from jaxenv.tree._structure import is_array

AutoResetMode: TypeAlias = Literal["next_step", "same_step"] | None
ResetStrategy: TypeAlias = Literal["select", "cond", "compact"]


class Environment(Module, abc.ABC):
    """A batch of independent lanes, as pure functions over arrays that lead with ``[B]``.

    Environments are frozen dataclasses and pytrees. A numeric leaf (a param, a time limit) is shared by all lanes, or
    has one more axis ``[B]`` with one value per lane. Called outside of traces, ``reset``, ``step`` and ``render`` run
    as compiled programs; ``jax.disable_jit()`` runs them operation by operation.
    """

    batched: ClassVar[bool] = True
    _repr_html_ = _describe_html.describe_html  # the display in notebooks

    def __init_subclass__(cls, **kwargs: Any) -> None:
        for name in vars(cls):
            inherited = next((vars(base)[name] for base in cls.__mro__[1:] if name in vars(base)), None)
            if getattr(getattr(inherited, "fget", inherited), "__final__", False):
                hint = f": override {_PRIMITIVES[name]}" if name in _PRIMITIVES else ""
                raise TypeError(f"{cls.__name__}: {name} is final, a subclass cannot override it{hint}")
        super().__init_subclass__(**kwargs)

    # --- reset and step ----------------------------------------------------------------------------------------------

    @final
    def reset(
        self, key: jax.Array, env_id: jax.Array | None = None, *, level: Tree = None, from_state: Tree = None
    ) -> tuple[Tree, TimeStep]:
        """Starts an episode in every lane.

        Args:
            key: one typed key (lane i gets ``fold_in(key, env_id[i])``), or ``Key[B]`` with one key per lane. Without
                ``env_id`` the keys must be distinct, and ``num_envs`` of them unless ``num_envs`` is 1, the default.
            env_id: int32 ``[B]``, the global numbers of the lanes, distinct and at least 0; ``0 .. B-1`` by default.
                Shards pass their own.
            level: the levels in which the first episodes start, leaves ``[B, ...]``, as `jaxenv.sample_level` returns
                them; later episodes start in new levels. `with_level` gives the levels of all episodes.
            from_state: states of this stack in which the first episodes start, in place of ``level``. The episode is
                a new one: its clock, time limit, statistics and stacked frames start afresh.

        Returns:
            The state and a TimeStep whose rows are all FIRST.

        Raises:
            ValueError: for a key that is not typed, for no keys, or for another number of keys than lanes; for repeated
                keys or wrong lane numbers outside of traces; for ``jax.vmap(env.reset)`` over as many keys as lanes;
                for levels or states that are not of this stack, or not of as many lanes.
        """
        random.check_typed(key, "reset: key")
        if env_id is None:
            random.check_lane_keys(key, self.num_envs)
            if key.ndim == 0 and isinstance(key, jax.core.Tracer) and _is_called_by_jax():
                key = _refuse_lanes_of_vmap(key, self.num_envs)
        else:
            env_id = _checks.lane_numbers(env_id)
        lanes = env_id.shape[0] if env_id is not None else key.shape[0] if key.ndim else self.num_envs
        env = _start.started("reset", self, lanes, level, from_state)
        with _checks.explained("reset", self):
            return _first_episodes(env, key, env_id)

    @abc.abstractmethod
    def begin(
        self, keys: KeyWords, env_id: jax.Array, episode: jax.Array, previous: Tree = None
    ) -> tuple[Tree, TimeStep]:
        """Starts an episode in every lane: the primitive under ``reset``, ``AutoReset`` and ``reset_where``.

        Tasks and wrappers implement it; wrappers call it on the environment inside.

        Args:
            keys: the lanes' key words, two ``uint32[B]``.
            env_id: int32 ``[B]``.
            episode: int32 ``[B]``, the number of the episode in its lane.
            previous: the lanes' previous state, the source of everything that outlives an episode; ``None`` at a reset.
        """

    @final
    def step(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        """Advances every lane by one step.

        Discrete actions out of range are refused where the call is eager and the host can read them: NumPy arrays, and
        JAX's on a CPU. Compiled code clips them.

        Returns:
            State and TimeStep of the same structure, shapes and dtypes as ``reset`` returned, as ``jax.lax.scan``
            requires.

        Raises:
            ValueError: at trace time, if the action's structure, shape, batch size or kind of dtype is not the spec's,
                or if ``state`` is not a state of this stack; and for discrete actions out of range, as said above.
        """
        with _checks.explained("step", self, state, action=action):
            return _next_step(self, state, action)

    @abc.abstractmethod
    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        """Advances every lane by one step: the primitive under ``step``.

        Tasks and wrappers implement it; wrappers call it on the environment inside. ``step`` checks, compiles and
        explains errors once, at the outermost layer.

        Args:
            state: a state of this layer.
            action: actions of this layer's ``action_spec``, leaves ``[B, ...]``.
        """

    def _step_lanes(self, state: Tree, action: Tree, mask: jax.Array) -> tuple[Tree, TimeStep]:
        """Steps for `jaxenv.step_where`, which discards the lanes outside of ``mask`` (bool ``[B]``)."""
        return self.step(state, action)

    @property
    def _compiles_itself(self) -> bool:
        """Whether ``reset`` and ``step`` run as compiled programs outside of traces."""
        return True

    @property
    def _is_outside_jax(self) -> bool:
        """Whether the lanes are in an engine outside JAX, which resets all of them together."""
        return False

    @property
    def _longest_episode(self) -> Any:
        """A bound on the steps of an episode, one int32 or one per lane ``[B]``; the largest int32 where none is known.

        Steps are the agent's. Earlier ends of an episode do not count.
        """
        return np.int32(INT32_MAX)

    # --- where episodes start ----------------------------------------------------------------------------------------

    @final
    def with_level(self, level: Tree) -> Self:
        """Returns the environment in which every episode of lane i starts in level i.

        Args:
            level: leaves ``[B, ...]``, as `jaxenv.sample_level` returns them. `jaxenv.wrappers.LevelReplay` changes
                the levels while lanes play.

        Raises:
            ValueError: for levels of another task, structure, shape or dtype, or that the task refuses.
        """
        return self._with_start(_start.of_levels("with_level", self, level))

    def _new_level(self, keys: KeyWords, env_id: jax.Array, episode: jax.Array) -> Tree:
        """Samples the levels in which these episodes start if none is given."""
        raise ValueError(f"{self} has no levels: its episodes start outside JAX")

    def _with_start(self, start: _start.Start) -> Self:
        """Returns the environment whose episodes start there."""
        raise ValueError(f"{self} has no levels: its episodes start outside JAX")

    def _start_of(self, state: Tree) -> Tree:
        """Returns the part of a state from which a new episode can start."""
        raise ValueError(f"{self} cannot start in a state: its episodes start outside JAX")

    def _check_level(self, level: Tree) -> None:
        """Raises a ``ValueError`` for levels, of known values, in which the task cannot start."""

    def _mutated(self, level: Tree, stream: random.Stream) -> Tree:
        """Returns levels with one random edit each."""
        raise ValueError(f"{self} has no mutations: implement mutate_level(level, stream)")

    # --- specs of one lane -------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def observation_spec(self) -> Tree:
        """Returns the spec of one lane's observation."""

    @abc.abstractmethod
    def action_spec(self) -> Tree:
        """Returns the spec of one lane's action."""

    def reward_spec(self) -> specs.Array:
        """Returns the spec of one lane's reward, derived from ``begin``: float32 ``()`` or ``(R,)``."""
        reward = self._first_shapes().reward
        return specs.Array(reward.shape[1:], reward.dtype, "reward")

    def discount_spec(self) -> specs.Bounded:
        """Returns the spec of the discount: float32 in [0, 1]."""
        return specs.Bounded((), np.float32, 0.0, 1.0, "discount")

    @final
    def env_info_spec(self) -> dict[str, Tree]:
        """Returns the specs of the ``env_info`` entries, derived from ``begin``."""
        return specs.unbatched(self._first_shapes().env_info)

    @final
    def time_step_spec(self) -> TimeStep:
        """Returns specs of all fields of a TimeStep. ``prev_action`` starts from zeros, which may be out of bounds."""
        fields: dict[str, Any] = {  # specs in place of arrays
            "step_type": specs.Array((), np.int32, "step_type"),
            "reward": self.reward_spec(),
            "discount": self.discount_spec(),
            "observation": self.observation_spec(),
            "prev_action": self.action_spec(),
            "env_id": specs.Array((), np.int32, "env_id"),
            "env_info": self.env_info_spec(),
        }
        return TimeStep(**fields)

    @property
    def spec_lanes(self) -> int:
        """The number of lanes for which specs are derived: that of per-lane leaves (in a shard), else ``num_envs``."""
        per_lane = [np.shape(d.value)[0] for d in declared_leaves(self) if d.per_lane]
        return per_lane[0] if per_lane else self.num_envs

    @final
    def start_shapes(self) -> tuple[Tree, TimeStep]:
        """Returns the results of ``reset`` as ``jax.ShapeDtypeStruct``; nothing is computed, the result is cached."""
        leaves = tuple(jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in tree.flatten(self)[0])
        programs, lanes = programs_of(self), self.spec_lanes
        key = ("start_shapes", leaves, lanes, jax.config.read("jax_enable_x64"))
        with _checks.explained("start_shapes", self):
            return programs.result(key, lambda: _start_shapes(programs.structure, leaves, lanes))

    @final
    def _first_shapes(self) -> TimeStep:
        """Returns shapes and dtypes of a batch of FIRST rows; nothing is computed."""
        return self.start_shapes()[1]

    # --- pictures ----------------------------------------------------------------------------------------------------

    @final
    def render(self, state: Tree, size: int | tuple[int, int] = 128) -> jax.Array:
        """Renders all lanes in pure JAX: uint8 ``[B, H, W, 3]``.

        Args:
            state: a state of this stack.
            size: height and width in pixels, or one number for both.

        Raises:
            ValueError: for an environment that has no picture, a size outside 8 .. 4096 or the state of another stack.
        """
        draw = _renderer(check_size("render", size))
        with _checks.explained("render", self, state):
            return draw(self, state)

    def picture_of(self, state: Tree, size: tuple[int, int]) -> jax.Array:
        """Renders all lanes: the primitive under ``render``; ``size`` is height and width."""
        raise ValueError(f"render: {self} has no picture, implement draw(state, canvas)")

    # --- lanes and episodes ------------------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def num_envs(self) -> int:
        """Number of lanes that ``reset(key)`` makes; all other methods take it from their arrays."""

    @abc.abstractmethod
    def clock(self, state: Tree) -> Clock:
        """Returns the lanes' clock in a state of this stack."""

    @abc.abstractmethod
    def episode_starts(self, timestep: TimeStep) -> jax.Array:
        """Returns the lanes in which a new episode begins with this row's observation, bool ``[B]``.

        It is ``is_first()``, and in ``same_step`` mode ``is_first() | is_last()``.
        """

    @property
    @abc.abstractmethod
    def autoreset(self) -> AutoResetMode:
        """The mode of the ``AutoReset`` in this stack, ``None`` if there is none."""

    @property
    @abc.abstractmethod
    def reset_strategy(self) -> ResetStrategy | Mapping[str, ResetStrategy]:
        """The restart strategy in use: one name, or one per platform with a ``"default"`` entry.

        Without ``AutoReset`` it is the fastest one, as the task declares it.
        """

    @property
    @abc.abstractmethod
    def observes_state(self) -> bool:
        """Whether every row's observation is a function of the state alone, which ``observation_of`` computes."""

    @abc.abstractmethod
    def observation_of(self, state: Tree) -> Tree:
        """Computes the observation that a row shows for a state of this stack, where it ``observes_state``."""

    @abc.abstractmethod
    def env_info_of(self, state: Tree) -> dict[str, Tree]:
        """Returns the ``env_info`` entries that describe the state, for a state of the whole stack."""

    @final
    def lane_words(self, key: jax.Array, env_id: jax.Array) -> KeyWords:
        """Derives the lanes' key words from a key, two ``uint32[B]``.

        They depend on the name of the environment, so different environments draw different numbers from one key.
        """
        return random.lane_words(key, env_id, salt=self.unwrapped._salt)

    @property
    def _salt(self) -> str:
        """The salt of the lanes' streams: the name, or the class of an unnamed task."""
        return self.name or type(self).__name__

    def check_lanes(self, num_lanes: int) -> None:
        """Raises a ``ValueError`` unless every per-lane leaf of the stack holds ``num_lanes`` lanes, at least 1."""
        if not jax.export.is_symbolic_dim(num_lanes):
            check_integer(f"{self}", "num_envs", num_lanes, 1)
        for declared in declared_leaves(self):
            if declared.per_lane and np.shape(declared.value)[0] != num_lanes:
                name = re.sub(r"^(env\.)+", "", declared.path)
                name = re.sub(r"^_given\.place", "level", name)
                raise ValueError(f"{self}: {name} holds {np.shape(declared.value)[0]} lanes, the batch has {num_lanes}")

    # --- other versions of the environment ---------------------------------------------------------------------------

    def take(self, index: jax.Array) -> Self:
        """Returns the environment of lanes ``index`` (int32 ``[K]``): per-lane leaves are gathered, others untouched.

        It reaches all layers of a stack. Indices are clamped to the range.

        Raises:
            ValueError: at trace time, if ``index`` is not ``[K]`` integers.
        """
        if not (is_array(index) and jnp.ndim(index) == 1 and jnp.issubdtype(jnp.result_type(index), jnp.integer)):
            got = f"{jnp.result_type(index)}{list(jnp.shape(index))}" if is_array(index) else repr(index)
            raise ValueError(f"{self}: take: index must be numbers of lanes, integers [K], got {got}")

        def gathered(d: Declared) -> Any:
            return jnp.asarray(d.value).at[index].get(mode="clip") if d.per_lane else d.value

        return map_declared(gathered, self)._with_num_envs(index.shape[0])

    @abc.abstractmethod
    def with_params(self, **values: Any) -> Self:
        """Returns a new environment with other values of params; it reaches through wrappers.

        Args:
            **values: one number for all lanes, or an array with one more axis for one value per lane.

        Raises:
            ValueError: for an unknown name (the valid ones are listed), a value that is text, not finite, or fractional
                for an integer param, or a number of lanes other than ``num_envs``.
        """

    @abc.abstractmethod
    def _with_num_envs(self, num_envs: int) -> Self: ...

    # --- the stack ---------------------------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The id under which the environment was made."""

    if TYPE_CHECKING:

        @property
        def params(self) -> Any:
            """The params of the task, through any wrappers."""
    else:

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(self, name)

        def __getitem__(self, index: Any) -> Any:  # unpacking and loops call it, too
            raise TypeError("an environment is not a sequence: make returns the environment, its params are env.params")

    @property
    def task_names(self) -> tuple[str, ...]:
        """The names of the tasks that lanes play, one unless it is a `Multitask`. A task without a name is ``"0"``."""
        return (self.name or "0",)

    @property
    @final
    def num_tasks(self) -> int:
        """The number of tasks: 1 unless it is a `Multitask`."""
        return len(self.task_names)

    @property
    def agent_names(self) -> tuple[str, ...]:
        """The names of the agents of a lane. With several, rewards lead with ``[B, A]``, one column per agent.

        Observations, actions and the entries of ``env_info`` lead with ``[B, A]``, too, unless the agents take `turns`.
        """
        return ("agent",)

    @property
    @final
    def num_agents(self) -> int:
        """The number of agents of a lane, A."""
        return len(self.agent_names)

    @property
    def lanes_per_game(self) -> int:
        """The number of lanes, one after another, that play one game; 1 unless agents are lanes, as `AgentsAsLanes`."""
        return 1

    @property
    def turns(self) -> bool:
        """Whether the agents move in turns: ``env_info["player"]`` (int32 ``[B]``) says whose move the row shows.

        Observation and action are then those of the agent to move, and have no axis of agents.
        """
        return False

    @property
    def alternates(self) -> bool:
        """Whether every move of a game of turns passes the turn. If not, an agent may move several times in a row."""
        return True

    @property
    @abc.abstractmethod
    def unwrapped(self) -> "Environment":
        """The environment below all wrappers: a `Task` or a `Multitask`."""

    @property
    def opt_outs(self) -> Mapping[str, str]:
        """Properties of ``jaxenv.testing.PROPERTIES`` that this class does not have, each with its reason.

        A class declares them by a plain attribute: ``opt_outs = {"gradients_sound": "its reward is a table"}``.
        """
        return {}

    @final
    def describe(self) -> str:
        """Describes the stack as text: one line per layer, outermost first, then its params, lanes and specs.

        The line of a layer shows the arguments that differ from their defaults, and its additions to the layer inside:
        bytes of state, per lane and for all lanes together, and a changed observation or action. The line of a param
        shows its value (the smallest and the largest, if lanes differ), its unit and the values that it may take.
        """
        return _describe.describe(self)

    @abc.abstractmethod
    def _layers(self) -> "list[Environment]": ...

    def _title(self) -> str:
        return f"{type(self).__name__}{_describe.arguments(self)}"

    def close(self) -> None:
        """Frees resources outside JAX. It does nothing by default; suites that run processes override it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def check_environment(owner: str, env: Any, name: str = "env") -> None:
    """Raises a ``ValueError`` unless ``env`` is an environment; the message says how to make one from the value."""
    if isinstance(env, Environment):
        return
    got = f"the class {env.__name__}: call it" if isinstance(env, type) else reprlib.repr(env)
    got += f": pass jaxenv.make({env!r})" if isinstance(env, str) else ""
    raise ValueError(f"{owner}: {name} must be an environment, got {got}")


def check_devices(owner: str, env: Environment, devices: int) -> None:
    """Raises a ``ValueError`` if several devices would share the lanes of an engine."""
    if devices > 1 and env.unwrapped._is_outside_jax:
        raise ValueError(f"{owner}: devices must be 1, {env.unwrapped} runs outside JAX in one engine, got {devices}")


# Final methods, and the primitives that a subclass implements instead.
_PRIMITIVES = {"reset": "begin", "step": "proceed"}


def _is_called_by_jax() -> bool:
    """Returns whether JAX calls ``reset`` itself, as in ``jax.vmap(env.reset)``, and not a function around it."""
    return sys._getframe(2).f_globals.get("__name__", "").partition(".")[0] == "jax"


def _refuse_lanes_of_vmap(key: jax.Array, num_envs: int) -> jax.Array:
    """Returns the key of a batch; raises a ``ValueError`` under ``jax.vmap`` over as many keys as the batch has lanes.

    Other numbers of keys make several batches, for example one per seed.
    """

    @jax.custom_batching.custom_vmap
    def one(key: jax.Array) -> jax.Array:
        return key

    @one.def_vmap
    def several(axis_size: int, in_batched: list[bool], key: jax.Array) -> tuple[jax.Array, bool]:
        if axis_size == num_envs > 1:
            raise ValueError(
                f"reset: jax.vmap over {axis_size} keys makes {axis_size} batches of num_envs = {num_envs} lanes: call "
                "env.reset(keys), which takes a key per lane; several batches are jax.vmap(lambda key: env.reset(key))"
            )
        return key, in_batched[0]

    result: jax.Array = one(key)
    return result


def _check_action(env: Environment, state: Tree, action: Tree) -> None:
    """Raises a ``ValueError`` for a discrete action out of range in a lane that does not ignore its action."""
    if (bounds := env.__dict__.get("_action_bounds")) is None:  # computed once, as a spec takes longer than a step
        object.__setattr__(env, "_action_bounds", bounds := _actions.discrete_bounds(env.action_spec()))
    if not _actions.are_legal(bounds, action):
        anything = specs.zeros(env.action_spec(), env.clock(state).env_id.shape)
        _, timestep = programs_of(env).jitted(_proceed)(tree.flatten(env)[0], state, anything)
        _actions.check_values(bounds, action, ~np.asarray(timestep.is_first()), env)


def _proceed(env: Environment, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
    return env.proceed(state, action)


_next_step = self_compiling(_proceed, check=_check_action)  # ``env.step``, compiled outside of traces


@self_compiling
def _first_episodes(env: Environment, key: jax.Array, env_id: jax.Array | None) -> tuple[Tree, TimeStep]:
    """Starts the first episodes, for arguments of ``reset`` that have been checked."""
    if env_id is None:
        env_id = jnp.arange(key.shape[0] if key.ndim else env.num_envs, dtype=jnp.int32)
    words = env.lane_words(key, env_id)
    env.check_lanes(env_id.shape[0])
    env_id = tree.vary_like(words[0], env_id)  # seeds over a mesh: each shard has all lane numbers, and its own keys
    state, timestep = env.begin(words, env_id, jnp.zeros_like(env_id))
    return xla.unshare(tree.vary_like(env_id, (state, timestep)))


@functools.lru_cache(maxsize=64)
def _renderer(size: tuple[int, int]) -> Callable[[Environment, Tree], jax.Array]:
    def render(env: Environment, state: Tree) -> jax.Array:
        return env.picture_of(state, size)

    return self_compiling(render)


def _start_shapes(structure: Any, leaves: tuple[Any, ...], num_lanes: int) -> tuple[Tree, TimeStep]:
    word, number = (jax.ShapeDtypeStruct((num_lanes,), dtype) for dtype in (jnp.uint32, jnp.int32))

    def begin(leaves: list[Any], *args: Any) -> tuple[Tree, TimeStep]:
        return structure.unflatten(leaves).begin(*args)

    for name in _axis_names(structure.unflatten(leaves)):  # outside of shard_map they are bound to nothing
        begin = jax.vmap(begin, in_axes=None, out_axes=None, axis_name=name, axis_size=1)
    return jax.eval_shape(begin, leaves, (word, word), number, number)


def _axis_names(env: Any) -> set[str]:
    """Returns the mesh axes over which layers of a stack sum their statistics."""
    names: set[Any] = set()
    while env is not None:
        names.add(getattr(env, "axis_name", None))
        env = vars(env).get("env")
    return names - {None}
