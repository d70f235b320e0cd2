"""Environments for programs that were written for Gymnasium, as vector environments and as single ones.

Importing this module registers every id with Gymnasium: ``gymnasium.make_vec("jaxenv/CartPole-v1", num_envs=64)`` and
``gymnasium.make("jaxenv/CartPole-v1")``.
"""

import contextlib
from typing import Any, Literal

from jaxenv._util.checks import check_choice
from jaxenv.core import Wrapper, layers, registry
from jaxenv.interop import _spaces
from jaxenv.interop._gymnasium import JaxenvEnv as JaxenvEnv
from jaxenv.interop._gymnasium import JaxenvVectorEnv as JaxenvVectorEnv
from jaxenv.interop._gymnasium import gymnasium as _gymnasium
from jaxenv.interop._gymnasium import to_gymnasium as to_gymnasium
from jaxenv.interop._gymnasium import to_gymnasium_vector as to_gymnasium_vector
from jaxenv.tree import Tree
from jaxenv.wrappers.stack._make import OPTIONS


def to_space(spec: Tree) -> Any:
    """Converts specs, also in dicts, tuples and lists, to a space of Gymnasium."""
    return _spaces.space_of(spec, _gymnasium.spaces, "to_space")


def make_single(env_or_id: str, render_mode: Literal["rgb_array"] | None = None, **options: Any) -> JaxenvEnv:
    """Makes the environment for ``gymnasium.make``, which adds its own ``TimeLimit`` unless the limit is the task's.

    A limit that ends the task or follows from its params stays inside: ``max_episode_steps`` of ``gymnasium.make``
    truncates earlier and does not move it; the option of `to_gymnasium` does. It also stays inside of wrappers that see
    where episodes end, such as ``EpisodeStatistics``. A keyword that ``make`` does not know is a ``TypeError``, because
    programs try keywords such as ``frameskip`` and drop the ones that raise it.
    """
    try:
        check_choice("to_gymnasium", "render_mode", render_mode, ("rgb_array", None))
    except ValueError as error:
        raise TypeError(f"{error}: got an unexpected keyword argument 'render_mode'") from None
    for name in options:
        try:
            registry.spec(env_or_id).check_keywords([name] if name not in OPTIONS else [])
        except ValueError as error:
            raise TypeError(f"__init__() got an unexpected keyword argument {name!r}: {error}") from None
    if not _is_tasks_own(registry.spec(env_or_id)) and "max_episode_steps" not in options:
        single = to_gymnasium(env_or_id, render_mode=render_mode, **options, max_episode_steps=0)
        if not any(isinstance(level, Wrapper) and level.place == "sees_ends" for level in layers(single.env)):
            return single
    return to_gymnasium(env_or_id, render_mode=render_mode, **options)


def _is_tasks_own(spec: registry.EnvSpec) -> bool:
    """Returns whether the time limit belongs to the task and so stays inside."""
    return spec.terminal_limit or spec.limit_follows_params


def _register(spec: registry.EnvSpec) -> None:
    """Registers an id, unless Gymnasium does not accept it, such as a name with spaces."""
    _gymnasium.registry.pop(f"jaxenv/{spec.id}", None)
    with contextlib.suppress(_gymnasium.error.Error):
        _gymnasium.register(
            f"jaxenv/{spec.id}",
            entry_point=f"{__name__}:make_single",
            vector_entry_point=f"{__name__}:to_gymnasium_vector",
            max_episode_steps=None if _is_tasks_own(spec) else spec.max_episode_steps,
            reward_threshold=spec.reward_threshold,
            kwargs={"env_or_id": spec.id},
        )


for _id in registry.ids():
    _register(registry.spec(_id))
registry.listeners.append(_register)
