"""The registry of environment ids. Packages of environments fill it on import, without importing the environments."""

import dataclasses
import importlib
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jaxenv import tree
from jaxenv._util.checks import check_bool, check_integer, check_real, is_integer
from jaxenv._util.names import (
    closest,
    did_you_mean,
    ids_of_suites,
    is_redefinition,
    meaning,
    missing_attribute,
    stem,
    unknown_keyword,
)
from jaxenv.core._checks.given import check_lanes
from jaxenv.core.environment import Environment
from jaxenv.core.wrapper import Wrapper


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """An entry of the registry.

    Attributes:
        id: for example ``"CartPole-v1"``.
        entry_point: a `Task` class, a function that takes ``num_envs`` and returns an environment of as many lanes, or
            ``"module:Class"`` to import when it is first needed.
        max_episode_steps: the time limit that ``make`` applies, ``None`` for no limit.
        reward_threshold: the mean return at which the task counts as solved, where its authors name one.
        kwargs: constructor arguments and params that differ from the class's defaults.
        terminal_limit: whether the limit is the end of the task itself: a termination instead of a truncation.
        limit_follows_params: whether the limit is ``Task.time_limit``, which depends on params and options;
            ``max_episode_steps`` is its value for the defaults of the id.
    """

    id: str
    entry_point: str | Callable[..., Environment]
    max_episode_steps: int | None = None
    reward_threshold: float | None = None
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    terminal_limit: bool = False
    limit_follows_params: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise ValueError(f"EnvSpec: id must be a name, got {self.id!r}")
        entry_point = self.entry_point
        if not callable(entry_point) and not (isinstance(entry_point, str) and all(entry_point.partition(":"))):
            raise ValueError(f"EnvSpec: entry_point must be a class, a function or 'module:Class', got {entry_point!r}")
        _check_entry_point("EnvSpec", entry_point)
        if not isinstance(self.kwargs, Mapping):
            raise ValueError(f"EnvSpec: kwargs must be a dict, got {self.kwargs!r}")
        object.__setattr__(self, "kwargs", dict(self.kwargs))
        if self.max_episode_steps is not None:
            check_integer("EnvSpec", "max_episode_steps", self.max_episode_steps, 1)
        if self.reward_threshold is not None:
            check_real("EnvSpec", "reward_threshold", self.reward_threshold, -math.inf)
        check_bool("EnvSpec", "terminal_limit", self.terminal_limit)
        check_bool("EnvSpec", "limit_follows_params", self.limit_follows_params)

    def __getattr__(self, name: str) -> Any:
        return missing_attribute(self, name, r"^use jaxenv\.spec\(id\)")

    @property
    def environment(self) -> Callable[..., Environment]:
        """The environment's class."""
        if not isinstance(self.entry_point, str):
            return self.entry_point
        module, _, name = self.entry_point.partition(":")
        try:
            found = getattr(importlib.import_module(module), name, None)
        except ModuleNotFoundError as missing:
            if not _is_absent(module, missing):
                raise
            raise ValueError(f"{self.id}: entry_point must name a module, there is none {missing.name!r}") from None
        if not callable(found):
            raise ValueError(f"{self.id}: entry_point must name a class, {module} has no class {name!r}")
        _check_entry_point(self.id, found)
        return found

    @property
    def module(self) -> str:
        """The name of the class's module, which is not imported."""
        entry_point = self.entry_point
        return entry_point.partition(":")[0] if isinstance(entry_point, str) else entry_point.__module__

    @property
    def params(self) -> list[str]:
        """The names of the params of the environment's class; none for a function."""
        cls = self.environment
        return _keywords(cls)[1] if isinstance(cls, type) else []

    def make(self, num_envs: int = 1, **params: Any) -> Environment:
        """Makes the bare environment of ``num_envs`` lanes: no time limit, no restarts, no clipping.

        ``params`` are params (a number, or ``[num_envs]`` for one value per lane) and constructor arguments.
        """
        if not is_integer(num_envs) or num_envs < 1:
            raise ValueError(f"{self.id}: num_envs must be an integer of at least 1, got {num_envs!r}")
        cls, given = self.environment, {**self.kwargs, **params}
        self.check_keywords(given)
        if not isinstance(cls, type):
            parameters = inspect.signature(cls).parameters
            if "num_envs" not in parameters and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                raise ValueError(f"{self.id}: entry_point must take the argument num_envs, {cls} does not")
            env = cls(num_envs=int(num_envs), **given)
            if not isinstance(env, Environment) or env.num_envs != num_envs:
                got = f"one of {env.num_envs}" if isinstance(env, Environment) else repr(env)
                raise ValueError(f"{self.id}: entry_point must return an environment of {num_envs} lanes, got {got}")
            return _renamed(env, self.id)
        options, names = _keywords(cls)
        constructor = {name: value for name, value in given.items() if name in options}
        values = {name: value for name, value in given.items() if name in names}
        if values:  # params and options are checked together, since the ranges of some depend on others
            constructor["params"] = tree.rebuild(_default_params(cls), **values)
        env = cls(num_envs=int(num_envs), name=self.id, **constructor)
        check_lanes(env, env.num_envs)
        return env

    def check_keywords(self, given: Iterable[str], make_options: Sequence[str] = ()) -> None:
        """Raises a ``ValueError`` for a keyword that names neither a param nor a constructor argument.

        The message lists the options of ``make`` as well, if ``make_options`` names them.
        """
        cls = self.environment
        if not isinstance(cls, type):
            parameters = inspect.signature(cls).parameters.values()
            if any(p.kind is p.VAR_KEYWORD for p in parameters):
                return
            options, names = [p.name for p in parameters if p.name != "num_envs"], list[str]()
        else:
            options, names = _keywords(cls)
        if unknown := [name for name in given if name not in options and name not in names]:
            groups = {"params": names, "constructor arguments": options, "options of make": make_options}
            raise ValueError(unknown_keyword(self.id, unknown[0], groups))


# Suites of other libraries' environments: prefix -> module with a function ``load(name, num_envs, **kwargs)``.
_SUITES = (
    *("brax", "bsuite", "craftax", "envpool", "gymnasium", "gymnax", "jaxmarl", "jumanji", "navix"),
    *("pettingzoo", "pgx", "playground", "xminigrid"),
)
SUITES = {name: f"jaxenv.suites.{name}" for name in _SUITES}

_registry: dict[str, EnvSpec] = {}
# Called with each new entry, by adapters that list the ids in the registry of another library.
listeners: list[Callable[[EnvSpec], None]] = []


def register(
    id: str,
    entry_point: str | Callable[..., Environment],
    *,
    max_episode_steps: int | None = None,
    reward_threshold: float | None = None,
    kwargs: Mapping[str, Any] | None = None,
    terminal_limit: bool = False,
    limit_follows_params: bool = False,
) -> EnvSpec:
    """Registers an environment under a new id without a colon, ``Name-v0`` by convention.

    The arguments are the attributes of `EnvSpec`. A class or function of the same module and name, or the same text,
    replaces the earlier entry, so that a cell of a notebook can run again and a module can be loaded again.
    """
    if not isinstance(id, str) or not id or ":" in id:
        raise ValueError(f"register: id must be a name without a colon, got {id!r}")
    if id in _registry and not is_redefinition(_registry[id].entry_point, entry_point):
        raise ValueError(f"register: {id!r} is registered already, as {_registry[id].entry_point}")
    given = {} if kwargs is None else kwargs
    _registry[id] = EnvSpec(
        id, entry_point, max_episode_steps, reward_threshold, given, terminal_limit, limit_follows_params
    )
    for listener in listeners:
        listener(_registry[id])
    return _registry[id]


def ids() -> list[str]:
    """Returns all registered ids, sorted."""
    return sorted(_registry)


def suite_of(id: str) -> str | None:
    """Returns the suite that an id names by its prefix; ``None`` for an id of the registry.

    >>> suite_of("gymnax:CartPole-v1"), suite_of("CartPole-v1"), suite_of("my_package.tasks:Hover-v0")
    ('gymnax', None, None)
    """
    prefix, colon, _ = id.partition(":")
    return prefix if colon and prefix in SUITES else None


def import_module(name: str, argument: str = "") -> None:
    """Imports a module that registers environments, for an id or an ``argument``; a missing one is a ``ValueError``."""
    try:
        if not all(part.isidentifier() for part in name.split(".")):
            raise ModuleNotFoundError(name=name)
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if not _is_absent(name, missing):
            raise
        if argument:
            raise ValueError(f"{argument}no module {name!r} on Python's path") from None
        every = f"the suites are {', '.join(sorted(SUITES))}"
        hint = meaning(name, "^use the ids") or did_you_mean(name, SUITES, otherwise=every)
        message = f"no suite and no module {name!r} on Python's path"
        raise ValueError(f"{message}; ids of jaxenv itself have no prefix, {hint}") from None


def check_from_data(owner: str, id: str, modules: Sequence[str] = ()) -> None:
    """Imports ``modules`` and refuses an id from data that would import, and so run, any other module.

    ``modules`` are names of modules that the caller trusts. Any other one in ``"module:ID"`` must be imported already.
    """
    if isinstance(modules, str) or not isinstance(modules, Sequence) or not all(isinstance(x, str) for x in modules):
        raise ValueError(f"{owner}: modules must be a sequence of names of modules, got {modules!r}")
    for name in modules:
        import_module(name, f"{owner}: modules: ")
    module, colon, _ = id.rpartition(":")
    if colon and suite_of(id) is None and module not in sys.modules:
        hint = f"import it first, or pass modules=[{module!r}] (--module {module}) if you trust it"
        raise ValueError(f"{owner}: the id {id!r} from data names a module, which would run its code: {hint}")


def spec(id: str) -> EnvSpec:
    """Returns the `EnvSpec` registered under an id. ``"module:ID"`` first imports the module that registers it.

    Raises:
        ValueError: for an unknown id, suggesting close ones; for an id of a suite; and if there is no such module.
    """
    if not isinstance(id, str):
        hint = "jaxenv.register gives an environment an id"
        if isinstance(id, type):
            hint = f"pass jaxenv.EnvSpec({id.__name__!r}, {id.__name__}), or {hint}"
        elif isinstance(id, list | tuple):
            hint = "jaxenv.make takes several ids"
        raise ValueError(f"id must be the text of a registered id, got {id!r}: {hint}")
    if suite_of(id):
        raise ValueError(f"no environment {id!r} here: ids of suites are made by jaxenv.make")
    module, colon, name = id.rpartition(":")
    if colon:
        import_module(module)
    if name not in _registry:
        every = "`jaxenv list` and jaxenv.ids() list all ids"
        every += f", {module} registers no such one" if colon else "; 'module:ID' imports the module that registers it"
        if "/" in name:
            every = "no id has a slash, and `jaxenv watch`, `eval` and `render` find no folder of a run there"
        hint = did_you_mean(name, reversed(ids()))
        theirs = [id for id in closest(name, ids_of_suites()) if stem(id) == stem(name)]
        if theirs and stem(name) not in map(stem, ids()):
            hint = f"jaxenv.make takes {' or '.join(map(repr, theirs))}{hint and ', or '}{hint}"
        hint = hint or did_you_mean(name, ids_of_suites(), otherwise=every)
        raise ValueError(f"no environment {name!r}, {hint}")
    return _registry[name]


def _is_absent(module: str, missing: ModuleNotFoundError) -> bool:
    """Returns whether the module or a package around it was not found, as opposed to something that it imports."""
    return f"{module}.".startswith(f"{missing.name}.")


def _check_entry_point(owner: str, entry_point: Any) -> None:
    """Raises a ``ValueError`` for a class that cannot be instantiated as an environment, such as an abstract one."""
    if isinstance(entry_point, type) and (not issubclass(entry_point, Environment) or issubclass(entry_point, Wrapper)):
        kind = "the wrapper" if issubclass(entry_point, Wrapper) else "the class"
        rule = "must be a class of environments, such as a Task, or a function that returns one"
        raise ValueError(f"{owner}: entry_point {rule}, got {kind} {entry_point.__name__}")


def _keywords(cls: type) -> tuple[list[str], list[str]]:
    """Returns the names of a class's constructor arguments and of its params."""
    fields = [f.name for f in dataclasses.fields(cls) if f.init]
    params = _default_params(cls)
    names = [f.name for f in dataclasses.fields(params)] if params is not None else []
    return [name for name in fields if name not in ("params", "name", "num_envs")], names


def _default_params(cls: Any) -> Any:
    """Returns the params with which a class is made, ``None`` if it has none."""
    return next((f.default for f in dataclasses.fields(cls) if f.name == "params"), None)


def _renamed(env: Any, id: str) -> Environment:
    """Renames the environment at the bottom of a stack to ``id``."""
    if isinstance(env, Wrapper):
        return tree.rebuild(env, env=_renamed(env.env, id))
    return tree.rebuild(env, name=id)
