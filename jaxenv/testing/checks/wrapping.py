"""What a wrapper may change, and what it must leave alone."""

from typing import Any

import jax
import numpy as np

from jaxenv import actions, tree
from jaxenv.environment import Environment
from jaxenv.testing.compare import ROUNDING, host, require_equal
from jaxenv.testing.report import NotApplicable
from jaxenv.testing.subject import LANES, Subject, replay, sample_actions, start
from jaxenv.timestep import TimeStep
from jaxenv.wrapper import Wrapper, layers
from jaxenv.wrappers import ActionWrapper, AutoReset, LaneWrapper, TimeLimit

Tree = Any


def owns_what_it_changes(subject: Subject) -> str:
    """A wrapper changes no field of the TimeStep but those that it owns: each level is compared with the one inside.

    ``AutoReset`` and ``TimeLimit`` have properties of their own.
    """
    looked_at = []
    for layer in layers(subject.stack)[:-1]:
        if isinstance(layer, Wrapper) and _comparable(layer):
            _require_same_rows(subject, layer)
            looked_at.append(type(layer).__name__)
    if not looked_at:
        raise NotApplicable("no wrapper in the stack but AutoReset, TimeLimit and those that act by themselves")
    return ", ".join(looked_at)


def _comparable(layer: Wrapper) -> bool:
    """Whether the action that goes in is known from the one that is given."""
    acts = isinstance(layer, LaneWrapper) and type(layer).before is not LaneWrapper.before
    return not (isinstance(layer, AutoReset | TimeLimit) or layer.steps_several or acts)


def _require_same_rows(subject: Subject, layer: Wrapper) -> None:
    name = type(layer).__name__
    keys, numbers = subject.keys[0], np.arange(LANES, dtype=np.int32)
    inside, outside = (host(start(env, keys, numbers)[1]) for env in (layer.env, layer))
    text = f"inside {name} and outside"
    require_equal(*_unowned(layer, inside, outside), f"reset, {text}", tolerance=ROUNDING, axes=("lane",))
    states = subject.below(subject.rollout.before, layer)
    given = sample_actions(layer, subject.key, subject.num_steps)
    outside = host(replay(layer, states, given)[1])
    inside = host(replay(layer.env, layer.inner(states), _passed_in(layer, given))[1])
    require_equal(*_unowned(layer, inside, outside), f"step, {text}", tolerance=ROUNDING, first_step=1)


def _passed_in(layer: Environment, given: Tree) -> Tree:
    """The actions ``[T, B, ...]`` that a wrapper hands to the environment inside."""
    if not isinstance(layer, ActionWrapper):
        return given
    spec = layer.action_spec()
    return host(
        jax.jit(lambda given: jax.lax.map(lambda a: layer.action(actions.clip_discrete(spec, a)), given))(given)
    )


def _unowned(layer: Wrapper, inside: TimeStep, outside: TimeStep) -> tuple[TimeStep, TimeStep]:
    """Both rows without the fields that the wrapper owns, final observations going with observations."""
    for field in layer.owns:
        inside, outside = (tree.set_field(rows, field, ()) for rows in (inside, outside))
    if "observation" in layer.owns and "env_info" not in layer.owns:
        inside, outside = (_without_final(rows) for rows in (inside, outside))
    return inside, outside


def _without_final(rows: TimeStep) -> TimeStep:
    info = {name: value for name, value in rows.env_info.items() if name != "final_observation"}
    return tree.set_field(rows, "env_info", info)
