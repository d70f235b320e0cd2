"""Messages about unknown names: the word of another library, and the closest known names."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

# Words of other libraries (attributes, keywords, wrappers) and what to write instead.
_ENDS = "timestep.is_last(), or timestep.terminated and timestep.truncated for its two kinds"
_STATE = "the state that reset and step return"
_LIMIT = "jaxenv.make(..., max_episode_steps=...)"
WORDS = {
    # members of an environment
    **dict.fromkeys(("action_space", "single_action_space", "act_space"), "env.action_spec()"),
    **dict.fromkeys(("observation_space", "single_observation_space", "obs_space"), "env.observation_spec()"),
    **dict.fromkeys(("obs_shape", "observation_size"), "env.observation_spec().shape"),
    **dict.fromkeys(("reward_range", "rew_space"), "env.reward_spec()"),
    **dict.fromkeys(("seed", "np_random"), "env.reset(jax.random.key(seed))"),
    **dict.fromkeys(("state", "get_state"), _STATE),
    "action_size": "env.action_spec().shape",
    "num_actions": "env.action_spec().num_values",
    "default_params": "env.params",
    "reset_env": "env.reset(key)",
    "step_env": "env.step(state, action) with jaxenv.make(..., autoreset=None)",
    "set_state": "env.step(state, action), from any state",
    "state_space": "jax.eval_shape(env.reset, key), which has the shapes and dtypes of a state",
    "statistics": "jaxenv.wrappers.statistics(env, state), which finds the wrapper inside the stack",
    "with_statistics": "jaxenv.wrappers.with_statistics(env, state, statistics)",
    "metadata": "env.autoreset for the mode of restarts, env.render(state) for pictures",
    "render_mode": "env.render(state)",
    "spec": "jaxenv.spec(env.name)",
    # time limits, and keywords of `make`
    **dict.fromkeys(("max_steps_in_episode", "_max_episode_steps", "timestep_limit", "episode_length"), _LIMIT),
    **dict.fromkeys(("batch_size", "n_envs", "agent_num"), "num_envs"),
    "params": "the params themselves, such as gravity=9.8",
    # fields of a row
    **dict.fromkeys(("obs", "observations", "next_obs"), "timestep.observation"),
    **dict.fromkeys(("done", "dones", "is_done"), _ENDS),
    **dict.fromkeys(("terminal", "termination"), "timestep.terminated"),
    **dict.fromkeys(("is_terminal", "is_terminated"), "the flag terminated that step returns"),
    **dict.fromkeys(("info", "infos", "extras", "get_info"), "timestep.env_info"),
    **{name: f"timestep.is_{name}()" for name in ("first", "mid", "last")},
    "truncation": "timestep.truncated",
    "rewards": "timestep.reward",
    "action": "timestep.prev_action",
    "current_time_step": "the timestep that reset and step return",
    "get_obs": "the observation that reset and step return",
    "replace": "dataclasses.replace(timestep, ...) for a row, env.with_params(...) for params",
    # members of a spec
    "n": "spec.num_values",
    "low": "spec.minimum",
    "high": "spec.maximum",
    # functions of jax.random
    "split": 'random.fold_in(stream, "name") for a further draw, no draw changes its stream',
    "randint": "random.integers(stream, shape, low, high)",
    "choice": "random.integers(stream, shape, low, high), or random.categorical(stream, weights=weights)",
    "PRNGKey": "random.stream(jax.random.key(seed))",
    **{
        draw: f"jax.vmap(jax.random.{draw})(random.jax_keys(stream))"
        for draw in ("gumbel", "truncated_normal", "beta", "gamma", "dirichlet", "laplace", "poisson")
    },
    # wrappers
    **dict.fromkeys(("FrameStackObservation", "FrameStack4"), "FrameStack"),
    **dict.fromkeys(("LogWrapper", "RecordEpisodeStatistics"), "EpisodeStatistics"),
    **dict.fromkeys(("RepeatAction", "FrameSkip"), "ActionRepeat"),
    "MaxAndSkipObservation": "MaxAndSkip",
    "HistoryWrapper": "History",
    "ActionClipWrapper": "ClipAction",
    "ActionDiscretizeWrapper": "DiscretizeAction",
    "ObservationFilterWrapper": "FilterObservation",
}


def closest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Returns the known names most like ``name``, best first; none if no name is close.

    Case and a version at the end do not count. Names that contain ``name`` come after names of similar spelling.

    >>> closest("cartpole-v9", ["Taxi-v4", "CartPole-v1", "MaskedCartPole-v0"])
    ['CartPole-v1', 'MaskedCartPole-v0']
    >>> closest("HalfCheetah-v4", ["Taxi-v4", "Acrobot-v1"])
    []
    """
    by_stem: dict[str, list[str]] = {}
    for other in known:
        by_stem.setdefault(_stem(other), []).append(other)
    stem = _stem(name)
    alike = difflib.get_close_matches(stem, by_stem, n=count, cutoff=0.65)
    containing = sorted((other for other in by_stem if len(stem) > 2 and stem in other), key=len)
    return [other for found in dict.fromkeys([*alike, *containing]) for other in by_stem[found]][:count]


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Ends a sentence about an unknown name: asks for the closest names, or returns ``otherwise`` if none is close.

    >>> did_you_mean("auto_reset", ["mode", "autoreset"])
    "did you mean 'autoreset'?"
    """
    found = [repr(other) for other in closest(name, known)]
    if not found:
        return otherwise
    *others, last = found
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"


def unknown_keyword(owner: str, name: str, groups: Mapping[str, Iterable[str]]) -> str:
    """Returns the message about an unknown keyword, with the known ones by group.

    >>> unknown_keyword("Pendulum-v1", "gravitas", {"params": ["gravity", "mass"], "arguments": ["max_torque"]})
    "Pendulum-v1: unknown keyword 'gravitas', did you mean 'gravity'? params: gravity, mass; arguments: max_torque"
    """
    groups = {group: list(names) for group, names in groups.items()}
    known = [name for names in groups.values() for name in names]
    word = WORDS.get(name, "")
    is_here = word.startswith("env.reset(") or not {*known, *groups}.isdisjoint(re.findall(r"\w+", word))
    hint = f"use {word};" if is_here else did_you_mean(name, known)
    listed = "; ".join(f"{group}: {', '.join(names)}" for group, names in groups.items() if names)
    return f"{owner}: unknown keyword {name!r}{f', {hint}' if hint else ';'} {listed or 'it takes none'}"


def missing_attribute(obj: Any, name: str) -> Any:
    """Raises the ``AttributeError`` of a ``__getattr__``: Python's own, unless the name is in `WORDS`."""
    if name in WORDS:
        raise AttributeError(f"{type(obj).__name__} has no attribute {name!r}: use {WORDS[name]}", name=name, obj=obj)
    return object.__getattribute__(obj, name)  # the error of a property that failed must not be hidden


def _stem(name: str) -> str:
    return re.sub(r"-v\d+$", "", name.lower())


def is_redefinition(old: Any, new: Any) -> bool:
    """Returns whether both are equal, or a class or function of the same module and name, but not a lambda."""
    names = [(getattr(x, "__module__", None), getattr(x, "__qualname__", "<lambda>")) for x in (old, new)]
    return old == new or (names[0] == names[1] and "<lambda>" not in names[0][1])
