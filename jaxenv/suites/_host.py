"""The environment whose lanes run outside JAX, in an engine that steps and restarts them."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from jaxenv import random, specs, tree
from jaxenv._util.checks import check_bool, check_choice, check_integer, is_concrete, is_integer
from jaxenv.core import Environment, Facts, Starts, StepType, TimeStep
from jaxenv.core._checks import actions as _actions
from jaxenv.core.timestep import TaskState, restart
from jaxenv.random import Clock
from jaxenv.suites._engine import Engine
from jaxenv.tree import Tree
from jaxenv.wrappers import ClipAction, stack
from jaxenv.wrappers.stack import _make
from jaxenv.wrappers.stack._make import OPTIONS

_ON_HOST = "the true state lives outside JAX, where every step happens once and cannot be repeated"
_WHOLE = "one engine holds the whole batch, and every reset seeds and restarts all of its lanes"
# The properties of the conformance kit that repeat a step, and those that step some lanes.
_REPEATED = """x64_invariant state_round_trip jit_equals_eager scan_equals_loop donation_safe step_repeatable
    inputs_unmodified immutable stays_finite actions_clipped"""
_SPLIT = """vmap_equals_loop sharding_invariant batch_equals_single_lanes any_number_of_lanes no_word_reused
    restart_is_reset"""


@tree.struct
class HostState:
    """The JAX side of the lanes: the number of a state of the engine."""

    ticket: jax.Array  # uint32[B, 2]; identifies the state to the engine
    ended: jax.Array  # bool[B], lanes whose row was LAST
    info: dict[str, Tree]  # entries of env_info that describe the state


class HostEnvironment(Environment):
    """Lanes that an engine outside JAX steps and restarts, in ``next_step`` mode.

    Every step is one ordered ``io_callback`` for the whole batch; outside of traces it is a plain call. Observations,
    rewards and ends come from the engine. This library computes clocks, step types and discounts. Gradients are 0.

    ``take`` and unpickling make another engine; all other copies of the environment share it.
    """

    engine: Engine = tree.static()
    num_envs: int = tree.static(default=1, low=1, kw_only=True)
    name: str = tree.static(default="", kw_only=True)

    opt_outs: ClassVar = {
        "no_callback": "every step is a callback",
        "gradients_sound": "code outside JAX has no gradient",
        "specs_at_boundaries": "the engine has no same_step mode with the last observation on every row",
        **dict.fromkeys(_REPEATED.split(), _ON_HOST),
        **dict.fromkeys(_SPLIT.split(), _WHOLE),
    }

    # --- reset and step ----------------------------------------------------------------------------------------------

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        clock, batch = starts.clock, starts.env_id.shape
        if previous is not None:
            raise ValueError(f"{self}: some lanes cannot be restarted from outside: {_WHOLE}; it restarts them itself")
        if batch[0] != self.num_envs:
            raise ValueError(f"{self}: reset must start num_envs = {self.num_envs} lanes, got {batch[0]}")
        seeds = random.bits(clock.stream("seed"))
        ticket, observation, info = self._call(self.engine.reset, self._shown(), seeds, *starts.keys)
        timestep = restart(
            observation,
            batch_shape=batch,
            reward_shape=self.engine.specs.reward_shape,
            prev_action=specs.zeros(self.action_spec(), batch),
            env_id=jnp.copy(starts.env_id),
            env_info=info,
        )
        return TaskState(clock, HostState(ticket, jnp.zeros(batch, bool), self._state_info(info))), timestep

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        spec, clock, lanes = self.action_spec(), state.clock.tick(), state.task
        first = lanes.ended
        action = _actions.conform(spec, action, clock.step.shape[0], str(self))
        given = _actions.finite(_actions.clip_discrete(spec, action))
        batch, flag = clock.step.shape, specs.Array((), np.bool_)
        result = *self._shown(), specs.Array(self.engine.specs.reward_shape, np.float32), flag, flag
        answer = self._call(self.engine.step, result, lanes.ticket, given)
        ticket, observation, info, reward, terminated, truncated = answer
        last = ~first & (terminated | truncated)
        episode = clock.episode + first.astype(jnp.int32)
        clock = dataclasses.replace(clock, episode=episode, step=jnp.where(first, np.int32(0), clock.step))
        row = jnp.where(last, np.int32(StepType.LAST), np.int32(StepType.MID))
        timestep = TimeStep(
            step_type=jnp.where(first, np.int32(StepType.FIRST), row),
            reward=tree.where(first, np.float32(0), reward),
            discount=jnp.where(last & terminated, np.float32(0), np.float32(1)),
            observation=observation,
            prev_action=tree.where(first, specs.zeros(spec, batch), _actions.finite(action)),
            env_id=jnp.copy(clock.env_id),
            env_info=info,
        )
        return TaskState(clock, HostState(ticket, last, self._state_info(info))), timestep

    def _find_facts(self) -> Facts:
        of_engine = self.engine.specs
        return Facts(
            name=self.name,
            salt=self.name or type(self).__name__,
            num_envs=self.num_envs,
            task_names=(self.name or "0",),
            agent_names=of_engine.agent_names,
            turns=of_engine.turns,
            alternates=not of_engine.turns,  # an engine does not say whose turn comes next
            autoreset="next_step",
            reset_strategy="compact",
            observes_state=False,
            outside_jax=True,
            compiles_itself=False,
        )

    @property
    def _longest_episode(self) -> Any:
        return super()._longest_episode if self.engine.limit is None else np.int32(self.engine.limit)

    def _call(self, function: Callable[..., Any], result: Tree, *arguments: Tree) -> Tree:
        """Calls the engine with arrays of the batch, at once or, in a trace, where the compiled code gets to it.

        ``result`` has the specs of one lane's results.
        """
        if all(map(is_concrete, jax.tree.leaves(arguments))):
            return jax.tree.map(jnp.array, function(*arguments))
        batch = arguments[0].shape[:1]
        shapes = jax.tree.map(lambda s: jax.ShapeDtypeStruct((*batch, *s.shape), s.dtype), result)
        try:
            return io_callback(function, shapes, *jax.lax.stop_gradient(arguments), ordered=True)
        except ValueError as error:
            if "vmap" not in str(error):
                raise
            raise ValueError(f"{self} cannot run under vmap: {_WHOLE}; load more lanes instead") from None

    def _shown(self) -> tuple[Tree, Tree, Tree]:
        """Returns the specs of a ticket, an observation and the entries of ``env_info``."""
        return specs.Array((2,), np.uint32), self.engine.specs.observation, self.engine.specs.info

    def picture_of(self, state: Tree, size: tuple[int, int]) -> jax.Array:
        if self.engine.specs.render_mode != "rgb_array":
            raise ValueError(f'{self}: render needs pictures, load with render_mode="rgb_array"')
        picture = specs.Array((*size, 3), np.uint8)
        return self._call(functools.partial(self.engine.render, size), picture, state.task.ticket)

    # --- specs -------------------------------------------------------------------------------------------------------

    def observation_spec(self) -> Tree:
        return self.engine.specs.observation

    def action_spec(self) -> Tree:
        return self.engine.specs.action

    # --- the rest of the interface -----------------------------------------------------------------------------------

    def clock(self, state: Tree) -> Clock:
        return state.clock

    def observation_of(self, state: Tree) -> Tree:
        raise ValueError(f"{self}: {_ON_HOST}")

    def env_info_of(self, state: Tree) -> dict[str, Tree]:
        return dict(state.task.info)

    def _state_info(self, info: dict[str, Tree]) -> dict[str, Tree]:
        """Copies them, so that state and row can both be donated."""
        return {name: jax.tree.map(jnp.copy, info[name]) for name in self.engine.specs.state_info}

    def _with_params(self, values: Mapping[str, Any]) -> Self:
        if values:
            raise ValueError(f"{self}: no param {next(iter(values))!r}: pass arguments of the environment to load")
        return self

    def _with_lanes(self, num_envs: int) -> Self:
        return tree.rebuild(self, num_envs=num_envs, engine=self.engine.with_lanes(num_envs))

    def close(self) -> None:
        self.engine.close()

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self}>"


# Options of `make` that engines take over.
_OWN = {"reset_strategy": "the engine restarts lanes", "fixed_reset_key": "the engine seeds a lane once, at a reset"}


class Options(NamedTuple):
    """The options of `jaxenv.make` that a suite outside JAX has."""

    max_episode_steps: int | None = None
    autoreset: str = "next_step"
    wrappers: Any = ()
    clip_action: bool = True
    mode: str = "train"


def split_keywords(owner: str, num_envs: Any, keywords: Mapping[str, Any]) -> tuple[Options, dict[str, Any]]:
    """Splits the options off the keywords of ``load``; the rest is for the other library."""
    for name, why in _OWN.items():
        if keywords.get(name) is not None:
            raise ValueError(f"{owner}: {name} must be left out, {why}, got {keywords[name]!r}")
    options = Options(**{name: value for name, value in keywords.items() if name in Options._fields})
    if num_envs is not None:
        check_integer(owner, "num_envs", num_envs, 1)
    check_choice(owner, "mode", options.mode, ("train", "eval"))
    check_bool(owner, "clip_action", options.clip_action)
    if options.autoreset != "next_step":
        rule = "autoreset must be 'next_step', since the engine restarts lanes and does not keep the last observation"
        raise ValueError(f"{owner}: {rule} of another mode, got {options.autoreset!r}")
    limit = options.max_episode_steps
    if limit is not None and (not is_integer(limit) or limit < 0):
        rule = "max_episode_steps must be a number of steps for all lanes, 0 for none"
        raise ValueError(f"{owner}: {rule}, got {limit!r}")
    return options, {name: value for name, value in keywords.items() if name not in OPTIONS}


def stack_around(engine: Engine, num_envs: int | None, options: Options) -> Environment:
    """Builds the stack around an engine, with the wrappers of ``load``.

    ``num_envs`` counts the lanes of the stack, which may be agents; by default the lanes of the engine's games.
    """
    env: Environment = HostEnvironment(engine, num_envs=engine.num_envs, name=engine.owner)
    actions = jax.tree.leaves(env.action_spec())
    bounded = any(isinstance(s, specs.Bounded) and s.is_bounded and s.is_continuous for s in actions)
    if options.clip_action and bounded:
        env = ClipAction(env)
    base, added = stack.split(_make.wrapped(env, options.wrappers, "load"), env)
    added = stack.for_evaluation(added) if options.mode == "eval" else added
    env = stack.assemble(base, added, autoreset=None)
    return env if num_envs in (None, env.num_envs) else env._with_num_envs(int(num_envs))
