"""The interface of a batch of environments, which tasks and wrappers implement.

Use `Environment` in annotations. Subclass `jaxenv.Task` to write an environment, `jaxenv.Wrapper` for a wrapper.
"""

import abc
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, final

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._util.checks import INT32_MAX
from jaxenv._util.names import explains_arguments, missing_attribute
from jaxenv.canvas import check_size
from jaxenv.core import _compiled, _shapes
from jaxenv.core._checks import declared
from jaxenv.core._checks import given as _checks
from jaxenv.core._declared import Declared, map_declared
from jaxenv.core.facts import WithFacts
from jaxenv.core.starts import Levels, Starts
from jaxenv.core.timestep import TimeStep
from jaxenv.random import Clock, KeyWords
from jaxenv.tree import Tree


class Environment(WithFacts, abc.ABC):
    """A batch of independent lanes, as pure functions over arrays that lead with ``[B]``.

    Environments are frozen dataclasses and pytrees. Numeric leaves (params, time limits) are shared by all lanes or
    have one value per lane ``[B]``. ``reset``, ``step`` and ``render`` compile, except under ``jax.disable_jit()``.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        declared.check_overrides(cls, {"reset": "begin", "step": "proceed", "render": "picture_of"})
        super().__init_subclass__(**kwargs)

    # --- episodes: users call `reset` and `step`, layers implement `begin` and `proceed` -----------------------------

    @final
    @explains_arguments
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
                them; later episodes start in the levels of `with_level`, or in new ones without it.
            from_state: states of this stack in which the first episodes start, in place of ``level``. The episode is
                a new one: its clock, time limit, statistics and stacked frames start afresh.

        Returns:
            The state and a TimeStep whose rows are all FIRST.

        Raises:
            ValueError: for a key that is not typed, for no keys, or for another number of keys than lanes; for repeated
                keys or wrong lane numbers outside of traces; for ``jax.vmap(env.reset)`` over as many keys as lanes;
                for levels or states that are not of this stack, or not of as many lanes.
        """
        key, env_id = _checks.reset_arguments(self, key, env_id)
        lanes = env_id.shape[0] if env_id is not None else key.shape[0] if key.ndim else self.num_envs
        place = _checks.given_place("reset", self, lanes, level, from_state)
        with _checks.explained("reset", self):
            return _compiled.first_episodes(self, key, env_id, place)

    @abc.abstractmethod
    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        """Starts an episode in every lane: the primitive under ``reset``, ``AutoReset`` and ``reset_where``.

        Args:
            starts: keys, lane numbers, episode numbers and, if given, the levels or states in which episodes start.
            previous: the lanes' previous state, the source of everything that outlives an episode; ``None`` at a reset.
        """

    @final
    @explains_arguments
    def step(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        """Advances every lane by one step.

        Returns:
            State and TimeStep of the same structure, shapes and dtypes as ``reset`` returned, for ``jax.lax.scan``.

        Raises:
            ValueError: at trace time, if the action's structure, shape, batch size or kind of dtype is not the spec's,
                or if ``state`` is not a state of this stack; and for discrete actions out of range, where the call is
                eager and the host can read them: NumPy arrays, and JAX's on a CPU. Compiled code clips them.
        """
        with _checks.explained("step", self, state, action=action):
            return _compiled.next_step(self, state, action)

    @abc.abstractmethod
    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        """Advances every lane by one step: the primitive under ``step``.

        The arguments are a state of this layer and actions of this layer's ``action_spec``, leaves ``[B, ...]``.
        """

    def _step_lanes(self, state: Tree, action: Tree, mask: jax.Array) -> tuple[Tree, TimeStep]:
        """Steps for `jaxenv.step_where`, which discards the lanes outside of ``mask`` (bool ``[B]``)."""
        return self.step(state, action)

    def levels(self) -> Levels:
        """Returns the functions of the levels in which episodes of this layer start."""
        raise ValueError(f"{self} has no levels: its episodes start outside JAX")

    # --- what a state shows ------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def clock(self, state: Tree) -> Clock:
        """Returns the lanes' clock in a state of this stack."""

    @abc.abstractmethod
    def observation_of(self, state: Tree) -> Tree:
        """Computes the observation that a row shows for a state of this stack, where it ``observes_state``."""

    @abc.abstractmethod
    def env_info_of(self, state: Tree) -> dict[str, Tree]:
        """Returns the ``env_info`` entries that describe the state, for a state of the whole stack."""

    @final
    def render(self, state: Tree, size: int | tuple[int, int] = 128) -> jax.Array:
        """Renders all lanes in pure JAX: uint8 ``[B, H, W, 3]``; ``size`` is height and width, or one number for both.

        Raises:
            ValueError: for an environment that has no picture, a size outside 8 .. 4096 or the state of another stack.
        """
        draw = _compiled.renderer(check_size("render", size))
        with _checks.explained("render", self, state):
            return draw(self, state)

    def picture_of(self, state: Tree, size: tuple[int, int]) -> jax.Array:
        """Renders all lanes: the primitive under ``render``; ``size`` is height and width."""
        raise ValueError(f"render: {self} has no picture, implement draw(state, canvas)")

    @final
    def episode_starts(self, timestep: TimeStep) -> jax.Array:
        """Returns the lanes in which a new episode begins with this row's observation, bool ``[B]``.

        It is ``is_first()``, and in ``same_step`` mode ``is_first() | is_last()``.
        """
        first = timestep.is_first()
        return first | timestep.is_last() if self.autoreset == "same_step" else first

    # --- specs of one lane -------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def observation_spec(self) -> Tree:
        """Returns the spec of one lane's observation."""

    @abc.abstractmethod
    def action_spec(self) -> Tree:
        """Returns the spec of one lane's action."""

    def reward_spec(self) -> specs.Array:
        """Returns the spec of one lane's reward, derived from ``begin``: float32 ``()`` or ``(R,)``."""
        reward = self.start_shapes()[1].reward
        return specs.Array(reward.shape[1:], reward.dtype, "reward")

    @final
    def env_info_spec(self) -> dict[str, Tree]:
        """Returns the specs of the ``env_info`` entries, derived from ``begin``."""
        return specs.unbatched(self.start_shapes()[1].env_info)

    @final
    def time_step_spec(self) -> TimeStep:
        """Returns specs of all fields of a TimeStep. ``prev_action`` starts from zeros, which may be out of bounds."""
        fields: dict[str, Any] = {  # specs in place of arrays
            "step_type": specs.Array((), np.int32, "step_type"),
            "reward": self.reward_spec(),
            "discount": specs.Bounded((), np.float32, 0.0, 1.0, "discount"),
            "observation": self.observation_spec(),
            "prev_action": self.action_spec(),
            "env_id": specs.Array((), np.int32, "env_id"),
            "env_info": self.env_info_spec(),
        }
        return TimeStep(**fields)

    @property
    @final
    def _spec_lanes(self) -> int:
        """The number of lanes for which specs are derived: that of per-lane leaves (in a shard), else ``num_envs``."""
        return next(_checks.lanes_of_leaves(self), ("", self.num_envs))[1]

    @final
    def start_shapes(self) -> tuple[Tree, TimeStep]:
        """Returns the results of ``reset`` as ``jax.ShapeDtypeStruct``; nothing is computed, the result is cached."""
        with _checks.explained("start_shapes", self):
            shapes: tuple[Tree, TimeStep] = _shapes.shapes_of("rows", self, self._spec_lanes)
            return shapes

    @property
    def _longest_episode(self) -> Any:
        """A bound on the agent's steps in an episode, one int32 or one per lane ``[B]``; earlier ends do not count."""
        return np.int32(INT32_MAX)

    # --- other versions of the environment ---------------------------------------------------------------------------

    @final
    def take(self, index: jax.Array) -> Self:
        """Returns the environment of lanes ``index`` (int32 ``[K]``): per-lane leaves are gathered, others untouched.

        It reaches all layers of a stack. Indices are clamped to the range.

        Raises:
            ValueError: at trace time, if ``index`` is not ``[K]`` integers; where the lanes of a game are agents, for
                known numbers that do not cover whole games in order.
        """
        _checks.check_index(self, index)
        games = _checks.games_of(self)

        def gathered(d: Declared) -> Any:
            size = games(d)
            rows = index if size == 1 else index[::size] // size
            return jnp.asarray(d.value).at[rows].get(mode="clip") if d.per_lane else d.value

        return map_declared(gathered, self)._with_num_envs(index.shape[0])

    @final
    def with_params(self, **values: Any) -> Self:
        """Returns a new environment with other values of params; it reaches through wrappers.

        Each is one number for all lanes, or an array with one more axis for one value per lane.

        Raises:
            ValueError: for an unknown name (the valid ones are listed), a value that is text, not finite, or fractional
                for an integer param, or a number of lanes other than ``num_envs``.
        """
        return self._map_task(lambda task: task._with_params(values))

    @final
    def _with_num_envs(self, num_envs: int) -> Self:
        games = _checks.num_games(self, num_envs)
        return self._map_task(lambda task: task._with_lanes(games))

    def _map_task(self, change: Callable[[Any], Any]) -> Self:
        """Rebuilds the stack around its changed task."""
        changed: Self = change(self)
        return changed

    if TYPE_CHECKING:  # attached by `jaxenv.core`, which knows the layers that they read

        def with_level(self, level: Tree) -> Self:
            """Returns the environment in which every episode of lane i starts in level i, unless another is given."""
            ...

        def describe(self) -> str:
            """Describes the stack as text."""
            ...

        params: Any = tree.lanes_leaf(init=False)
        """The params of the task, through any wrappers."""
    else:

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(self, name, r"\benv\b")

        def __getitem__(self, index: Any) -> Any:  # unpacking and loops call it, too
            raise TypeError("an environment is not a sequence: make returns the environment, its params are env.params")

    @property
    def unwrapped(self) -> Any:  # of any class, with attributes that users read
        """The environment below all wrappers: a `Task` or a `Multitask`."""
        return self

    @final
    def _lane_words(self, key: jax.Array, env_id: jax.Array) -> KeyWords:
        """Derives the lanes' key words from a key, two ``uint32[B]``; environments of another name draw other ones."""
        return random.lane_words(key, env_id, salt=self.facts.salt)

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
