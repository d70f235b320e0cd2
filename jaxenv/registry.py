"""Ids of environments, and the one place that builds a stack of wrappers in the right order."""

import dataclasses
import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv._checks import is_concrete
from jaxenv._stack_data import wrapper_class
from jaxenv.environment import AutoResetMode, Environment, ResetStrategy
from jaxenv.task import Task
from jaxenv.wrapper import Wrapper, layers
from jaxenv.wrappers import (
    AutoReset,
    BatchWrapper,
    ClipAction,
    FixedResetKey,
    GuardNonFinite,
    LaneWrapper,
    TimeLimit,
)

WrapperLike = Callable[[Environment], Environment] | str | tuple[str, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """What is registered under an id.

    Attributes:
        id: for example ``"CartPole-v1"``.
        entry_point: the class, or ``"module:Class"`` to import when it is first needed.
        max_episode_steps: the time limit that ``make`` applies, ``None`` for no limit.
        reward_threshold: the mean return at which the task counts as solved, where its authors named one.
        kwargs: constructor arguments and params that differ from the class's defaults.
        terminal_limit: whether the limit is the end of the task itself: a termination, no truncation.
    """

    id: str
    entry_point: str | Callable[..., Environment]
    max_episode_steps: int | None = None
    reward_threshold: float | None = None
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    terminal_limit: bool = False

    @property
    def environment(self) -> Callable[..., Environment]:
        """The environment's class."""
        if not isinstance(self.entry_point, str):
            return self.entry_point
        module, _, name = self.entry_point.partition(":")
        return getattr(importlib.import_module(module), name)

    def make(self, num_envs: int = 1, **params) -> Environment:
        """The bare environment: no time limit, no restarts, no clipping.

        Args:
            num_envs: how many lanes.
            **params: params (a number, or ``[num_envs]`` for one value per lane) and constructor arguments.

        Raises:
            ValueError: for an unknown name, listing the valid ones, or a value that does not fit.
        """
        if isinstance(num_envs, bool) or not isinstance(num_envs, int | np.integer) or num_envs < 1:
            raise ValueError(f"{self.id}: num_envs must be an integer of at least 1, got {num_envs!r}")
        cls, given = self.environment, {**self.kwargs, **params}
        if not isinstance(cls, type):
            return _named(cls(num_envs=int(num_envs), **given), self.id)
        options, names = self._keywords(cls)
        if unknown := [name for name in given if name not in options and name not in names]:
            valid = ", ".join(sorted(options | names)) or "(none)"
            raise ValueError(f"{self.id}: unknown keyword {unknown[0]!r}, the valid ones are {valid}")
        constructor = {name: value for name, value in given.items() if name in options}
        env = cls(num_envs=int(num_envs), name=self.id, **constructor)
        values = {name: value for name, value in given.items() if name in names}
        return env.with_params(**values) if values else env

    @staticmethod
    def _keywords(cls: type) -> tuple[set[str], set[str]]:
        """Names of constructor arguments and of params."""
        fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
        params: Any = fields["params"].default if "params" in fields else None
        names = {f.name for f in dataclasses.fields(params)} if params is not None else set()
        return fields.keys() - {"params", "name", "num_envs"}, names


_registry: dict[str, EnvSpec] = {}


def register(
    id: str,
    entry_point: str | Callable[..., Environment],
    *,
    max_episode_steps: int | None = None,
    reward_threshold: float | None = None,
    kwargs: Mapping[str, Any] | None = None,
    terminal_limit: bool = False,
) -> EnvSpec:
    """Makes an environment known under an id.

    Args:
        id: a new name; ``Name-v0`` by custom.
        entry_point: an ``Environment`` class, or ``"module:Class"``.
        max_episode_steps: the time limit that ``make`` applies, ``None`` for no limit.
        reward_threshold: the mean return at which the task counts as solved.
        kwargs: constructor arguments and params that differ from the class's defaults.
        terminal_limit: whether the limit is the end of the task itself: a termination, no truncation.

    Raises:
        ValueError: if the id is taken, or holds a colon (which names a suite in ``load``).
    """
    if id in _registry:
        raise ValueError(f"register: {id!r} is registered already, as {_registry[id].entry_point}")
    if not id or ":" in id:
        raise ValueError(f"register: an id is a name without a colon, got {id!r}")
    if max_episode_steps is not None and max_episode_steps < 1:
        raise ValueError(f"register: max_episode_steps must be at least 1 or None, got {max_episode_steps}")
    _registry[id] = EnvSpec(id, entry_point, max_episode_steps, reward_threshold, dict(kwargs or {}), terminal_limit)
    return _registry[id]


def ids() -> list[str]:
    """All registered ids, sorted."""
    return sorted(_registry)


def spec(id: str) -> EnvSpec:
    """What is registered under an id.

    Raises:
        ValueError: for an unknown id, naming the three closest, and for one of a suite.
    """
    if ":" in id:
        raise ValueError(f"no environment {id!r} here: ids of suites are made by jaxenv.load")
    if id not in _registry:
        by_case = {name.lower(): name for name in reversed(ids())}
        close = [by_case[name] for name in difflib.get_close_matches(id.lower(), by_case, n=3, cutoff=0.0)]
        raise ValueError(f"no environment {id!r}; the closest ids are {', '.join(close)}")
    return _registry[id]


def make(
    id: str | EnvSpec,
    num_envs: int = 1,
    *,
    max_episode_steps: Any = None,
    autoreset: AutoResetMode = "next_step",
    wrappers: Sequence[WrapperLike] = (),
    clip_action: bool = True,
    mode: Literal["train", "eval"] = "train",
    reset: ResetStrategy | None = None,
    fixed_reset_key: Any = None,
    **params,
) -> Environment:
    """Builds an environment with everything around it, in one fixed order.

    From the outside in: wrappers with batch state, ``AutoReset``, lane wrappers, ``TimeLimit``, wrappers that step
    several times or remove ends, ``ClipAction``, ``GuardNonFinite``, the environment. ``env.describe()`` shows it.

    Args:
        id: a registered id, or an `EnvSpec` that is not registered.
        num_envs: how many lanes ``reset(key)`` makes.
        max_episode_steps: ``None`` for the registered limit, 0 for no limit, a number, or int32 ``[num_envs]``. The
            limit counts agent steps.
        autoreset: ``"next_step"``, ``"same_step"``, or ``None`` for a caller who uses ``reset_where``.
        wrappers: innermost first: callables ``env -> env``, names in ``jaxenv.wrappers``, or ``(name, kwargs)``.
        clip_action: clip continuous actions to finite bounds.
        mode: ``"eval"`` freezes wrappers with batch state and leaves out those that own only the reward.
        reset: how lanes are restarted, the ``strategy`` of `AutoReset`: ``"select"``, ``"cond"`` or ``"compact"``;
            ``None`` for what the environment declares.
        fixed_reset_key: a typed key (or ``Key[num_envs]``) from which every episode of a lane starts alike.
        **params: params of the physics and constructor arguments; an array ``[num_envs]`` gives each lane its own.

    Raises:
        ValueError: for anything unknown or out of order, with the valid names or what to swap.
    """
    if mode not in ("train", "eval"):
        raise ValueError(f"make: mode must be 'train' or 'eval', got {mode!r}")
    if autoreset not in ("next_step", "same_step", None):
        raise ValueError(f"make: autoreset must be 'next_step', 'same_step' or None, got {autoreset!r}")
    if reset not in (*get_args(ResetStrategy), None):
        raise ValueError(f"make: reset must be 'select', 'cond', 'compact' or None, got {reset!r}")
    registered = id if isinstance(id, EnvSpec) else spec(id)
    env = registered.make(num_envs, **params)
    if fixed_reset_key is not None:
        env = FixedResetKey(env, fixed_reset_key)
    env = _contained(env, clip_action)
    limit = registered.max_episode_steps if max_episode_steps is None else max_episode_steps
    builders = [_resolve(wrapper) for wrapper in wrappers]
    if mode == "eval":
        builders = [_for_evaluation(build) for build in builders]
    before_limit, before_autoreset = _places(env, builders, autoreset)
    for place, build in enumerate([*builders, lambda env: env]):
        if place == before_limit:
            env = _limited(env, limit, registered.terminal_limit)
        if place == before_autoreset and autoreset is not None:
            env = AutoReset(env, autoreset, reset)
        env = build(env)
    env.check_lanes(num_envs)
    return env


def load(id: str, num_envs: int = 1, **kwargs) -> Environment:
    """`make` across suites: ``load("CartPole-v1", num_envs=8)``; a prefix names a suite: ``"suite:id"``.

    ``load.batched`` is True: one call makes the whole batch.

    Raises:
        ValueError: for an unknown suite or id.
    """
    if ":" not in id:
        return make(id, num_envs, **kwargs)
    suite, _, name = id.partition(":")
    if suite not in _SUITES:
        known = ", ".join(sorted(_SUITES))
        raise ValueError(f"load: no suite {suite!r} (known: {known}); ids of jaxenv itself have no prefix")
    return importlib.import_module(_SUITES[suite]).load(name, num_envs, **kwargs)


load.batched = True  # type: ignore[attr-defined]

# Suites of foreign environments: prefix -> module with a `load(name, num_envs, **kwargs)`.
_SUITES: dict[str, str] = {"gymnax": "jaxenv.suites.gymnax"}


# --- the order of a stack --------------------------------------------------------------------------------------------


def _named(env: Environment, id: str) -> Environment:
    """The stack with ``id`` for the name of the environment at its bottom."""
    if isinstance(env, Wrapper):
        return tree.rebuild(env, env=_named(env.env, id))
    return tree.rebuild(env, name=id)


def _contained(env: Environment, clip_action: bool) -> Environment:
    """The environment with what keeps bad numbers in: a guard where actions are continuous, and clipping."""
    continuous = [s for s in jax.tree.leaves(env.action_spec()) if s.is_continuous]
    if continuous or (isinstance(env.unwrapped, Task) and env.unwrapped.can_diverge):
        env = GuardNonFinite(env)
    if clip_action and any(isinstance(s, specs.Bounded) and s.is_bounded for s in continuous):
        env = ClipAction(env)
    return env


def _limited(env: Environment, limit: Any, terminal: bool) -> Environment:
    """The environment under a time limit; ``None`` and 0 stand for none."""
    if limit is None or (is_concrete(limit) and not np.any(np.asarray(limit))):
        return env
    try:
        return TimeLimit(env, limit, terminal=terminal)
    except ValueError as fault:
        raise ValueError(f"make: max_episode_steps: {fault}") from None


def _resolve(wrapper: WrapperLike) -> Callable[[Environment], Environment]:
    if callable(wrapper):
        return wrapper
    name, kwargs = (wrapper, {}) if isinstance(wrapper, str) else wrapper
    cls = wrapper_class(name, "make")
    return lambda env: cls(env, **kwargs)


def _added(outer: Environment, inner: Environment) -> list[Wrapper]:
    """The wrappers that stand around ``inner`` in ``outer``, outermost first."""
    return layers(outer)[: -len(layers(inner))]  # type: ignore[return-value]


def _places(
    env: Environment, builders: Sequence[Callable[[Environment], Environment]], autoreset: AutoResetMode
) -> tuple[int, int]:
    """Where among the wrappers the time limit and the restarts belong: the number of wrappers that stand inside."""
    before_limit, before_autoreset, blocking = 0, len(builders), ""
    for place, build in enumerate(builders):
        built = build(env)
        for wrapper in reversed(_added(built, env)):
            name = type(wrapper).__name__
            if isinstance(wrapper, AutoReset):
                raise ValueError("make: AutoReset is made by make itself, choose it with autoreset=")
            if isinstance(wrapper, BatchWrapper) and not blocking:
                before_autoreset, blocking = place, name
            before_all = wrapper.multi_step or wrapper.removes_ends
            rewrites = autoreset == "same_step" and isinstance(wrapper, LaneWrapper) and bool(wrapper.rewrites)
            if blocking and (before_all or rewrites or isinstance(wrapper, TimeLimit)):
                raise ValueError(
                    f"make: {name} must stand inside AutoReset, and {blocking} outside it: "
                    f"put {name} before {blocking} in wrappers"
                )
            if before_all:
                before_limit = place + 1
        env = built
    return before_limit, before_autoreset


def _for_evaluation(build: Callable[[Environment], Environment]) -> Callable[[Environment], Environment]:
    """The same wrappers with batch state frozen, and without those that own only the reward."""

    def rebuilt(env: Environment) -> Environment:
        built = build(env)
        added = _added(built, env)
        result = layers(built)[len(added)]  # what the builder left inside, which it may have changed
        for wrapper in reversed(added):
            if wrapper.owns == {"reward"} and not wrapper.multi_step:
                continue
            frozen = {"frozen": True} if isinstance(wrapper, BatchWrapper) else {}
            result = tree.rebuild(wrapper, env=result, **frozen)
        return result

    return rebuilt


# --- the environments of this library --------------------------------------------------------------------------------

_CLASSIC = "jaxenv.envs.classic_control"
register("CartPole-v0", f"{_CLASSIC}.cart_pole:CartPole", max_episode_steps=200, reward_threshold=195.0)
register("CartPole-v1", f"{_CLASSIC}.cart_pole:CartPole", max_episode_steps=500, reward_threshold=475.0)
register("MountainCar-v0", f"{_CLASSIC}.mountain_car:MountainCar", max_episode_steps=200, reward_threshold=-110.0)
register(
    "MountainCarContinuous-v0",
    f"{_CLASSIC}.mountain_car_continuous:MountainCarContinuous",
    max_episode_steps=999,
    reward_threshold=90.0,
)
register("Pendulum-v1", f"{_CLASSIC}.pendulum:Pendulum", max_episode_steps=200)
register("Acrobot-v1", f"{_CLASSIC}.acrobot:Acrobot", max_episode_steps=500, reward_threshold=-100.0)
register("CardGame-v0", "jaxenv.envs.card_game:CardGame")
register("TicTacToe-v0", "jaxenv.envs.tic_tac_toe:TicTacToe")
_MINATAR = "jaxenv.envs.minatar"
register("Asterix-MinAtar", f"{_MINATAR}.asterix:Asterix")
register("Breakout-MinAtar", f"{_MINATAR}.breakout:Breakout")
register("Freeway-MinAtar", f"{_MINATAR}.freeway:Freeway")
register("Seaquest-MinAtar", f"{_MINATAR}.seaquest:Seaquest")
register("SpaceInvaders-MinAtar", f"{_MINATAR}.space_invaders:SpaceInvaders")
_BSUITE = "jaxenv.envs.bsuite"
register("Catch-bsuite", f"{_BSUITE}.catch:Catch")
register("DeepSea-bsuite", f"{_BSUITE}.deep_sea:DeepSea")
register("DeepSeaStochastic-bsuite", f"{_BSUITE}.deep_sea:DeepSea", kwargs={"deterministic": False})
register("MemoryChain-bsuite", f"{_BSUITE}.memory_chain:MemoryChain")
register("UmbrellaChain-bsuite", f"{_BSUITE}.umbrella_chain:UmbrellaChain")
register("DiscountingChain-bsuite", f"{_BSUITE}.discounting_chain:DiscountingChain")
register("SimpleBandit-bsuite", f"{_BSUITE}.simple_bandit:SimpleBandit")
register("MNISTBandit-bsuite", f"{_BSUITE}.mnist_bandit:MNISTBandit")
register("CartPole-bsuite", f"{_BSUITE}.cart_pole:CartPole")
register("CartPoleSwingup-bsuite", f"{_BSUITE}.cart_pole_swingup:CartPoleSwingup")
register("MountainCar-bsuite", f"{_BSUITE}.mountain_car:MountainCar")
_MISC = "jaxenv.envs.misc"
register("FourRooms-misc", f"{_MISC}.four_rooms:FourRooms", max_episode_steps=500)
# In the papers of the three with a terminal limit the horizon is the end of the task: nothing is worth anything beyond.
register("MetaMaze-misc", f"{_MISC}.meta_maze:MetaMaze", max_episode_steps=200, terminal_limit=True)
register("PointRobot-misc", f"{_MISC}.point_robot:PointRobot", max_episode_steps=100)
register(
    "BernoulliBandit-misc", f"{_MISC}.bernoulli_bandit:BernoulliBandit", max_episode_steps=100, terminal_limit=True
)
register("GaussianBandit-misc", f"{_MISC}.gaussian_bandit:GaussianBandit", max_episode_steps=100, terminal_limit=True)
register("Reacher-misc", f"{_MISC}.reacher:Reacher", max_episode_steps=100)
register("Swimmer-misc", f"{_MISC}.swimmer:Swimmer", max_episode_steps=500)
register("Pong-misc", f"{_MISC}.pong:Pong", max_episode_steps=1000)
_TOY_TEXT = "jaxenv.envs.toy_text"
register(
    "FrozenLake-v1",
    f"{_TOY_TEXT}.frozen_lake:FrozenLake",
    max_episode_steps=100,
    reward_threshold=0.7,
    kwargs={"map_name": "4x4"},
)
register(
    "FrozenLake8x8-v1",
    f"{_TOY_TEXT}.frozen_lake:FrozenLake",
    max_episode_steps=200,
    reward_threshold=0.85,
    kwargs={"map_name": "8x8"},
)
register("CliffWalking-v1", f"{_TOY_TEXT}.cliff_walking:CliffWalking")
register("CliffWalkingSlippery-v1", f"{_TOY_TEXT}.cliff_walking:CliffWalking", kwargs={"is_slippery": True})
register("Taxi-v4", f"{_TOY_TEXT}.taxi:Taxi", max_episode_steps=200, reward_threshold=8.0)
register("Blackjack-v1", f"{_TOY_TEXT}.blackjack:Blackjack", kwargs={"natural": False, "sab": True})
_GRID = "jaxenv.envs.grid"
register("MiniGrid-Empty-5x5-v0", f"{_GRID}.empty:Empty", max_episode_steps=100, kwargs={"max_size": 5})
register("MiniGrid-Empty-8x8-v0", f"{_GRID}.empty:Empty", max_episode_steps=256)
register(
    "MiniGrid-Empty-Random-5x5-v0",
    f"{_GRID}.empty:Empty",
    max_episode_steps=100,
    kwargs={"max_size": 5, "random_start": True},
)
register("MiniGrid-LavaGapS7-v0", f"{_GRID}.lava_gap:LavaGap", max_episode_steps=196, kwargs={"max_size": 7})
register("MiniGrid-FourRooms-v0", f"{_GRID}.four_rooms:FourRooms", max_episode_steps=100)
register("MiniGrid-DoorKey-5x5-v0", f"{_GRID}.door_key:DoorKey", max_episode_steps=250, kwargs={"max_size": 5})
register("MiniGrid-DoorKey-8x8-v0", f"{_GRID}.door_key:DoorKey", max_episode_steps=640)
register("MiniGrid-DoorKey-16x16-v0", f"{_GRID}.door_key:DoorKey", max_episode_steps=2560, kwargs={"max_size": 16})
register("Maze-13x13-v0", f"{_GRID}.maze:Maze", max_episode_steps=676)
_PROBES = "jaxenv.envs.probes"
register("NoisyArray-v0", f"{_PROBES}.noisy_array:NoisyArray")
register("RiskyBranch-v0", f"{_PROBES}.risky_branch:RiskyBranch")
_MASKED = f"{_PROBES}.masked_cart_pole:MaskedCartPole"
register("MaskedCartPole-v0", _MASKED, max_episode_steps=200, reward_threshold=195.0)
register("MaskedCartPole-v1", _MASKED, max_episode_steps=500, reward_threshold=475.0)
register(
    "BouncingSquares-v0",
    f"{_PROBES}.bouncing_squares:BouncingSquares",
    max_episode_steps=10,
    kwargs={"color": True},
)
register("ValueUnittest-v0", f"{_PROBES}.learning_tests:ValueUnittest")
register("PolicyUnittest-v0", f"{_PROBES}.learning_tests:PolicyUnittest")
register("MixedPolicyUnittest-v0", f"{_PROBES}.learning_tests:MixedPolicyUnittest")
register("RNNPolicyUnittest-v0", f"{_PROBES}.learning_tests:RNNPolicyUnittest", kwargs={"episode_length": 5})
