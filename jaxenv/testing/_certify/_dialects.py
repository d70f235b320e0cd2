"""The APIs that `certify` understands: for each, the lines of its loop as text.

The checker executes these lines and prints the same lines in reproductions, so a reproduction does what was checked.
"""

import dataclasses
import sys
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from jaxenv._util.names import did_you_mean


@dataclasses.dataclass(frozen=True)
class Dialect:
    """The loop of one API, for one lane.

    ``reset``, ``action`` and ``step`` are statements, the other texts are expressions over the names that these assign;
    an empty one is absent from the API. ``{key}`` is the name of the key.
    """

    api: str
    members: str  # attributes that the API demands
    reset: str
    step: str
    carry: tuple[str, ...]  # the names that the loop hands from step to step
    action: str = "action = env.action_space(params).sample(key_action)"
    restarts: bool = False  # whether `step` itself starts the next episode
    observation: str = "obs"
    reward: str = "reward"
    done: str = "done"
    terminated: str = ""
    truncated: str = ""
    final: str = ""
    mask: str = ""
    dones: str = ""
    step_type: str = ""
    discount: str = ""
    space: str = ""
    reward_shape: str = "()"
    limit: str = "None"
    prepare: str = ""  # the statement of a reproduction that follows the making of `env`
    flags: str = "b"  # kinds of dtypes of `done`
    adapt: Callable[[Any], dict[str, Any]] = lambda env: {}  # fields that depend on the environment
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)  # why properties do not apply, by name

    @property
    def split(self) -> str:
        names = "key, key_action, key_step" + ("" if self.restarts else ", key_reset")
        return f"{names} = jax.random.split(key, {3 if self.restarts else 4})"


def _available(env: Any) -> dict[str, Any]:
    """Draws available actions, if the environment states them."""
    try:
        [env.action_space(agent).n for agent in env.agents]  # of a vector a mask marks the components
        jax.eval_shape(lambda: env.get_avail_actions(env.reset(jax.random.PRNGKey(0))[1]))
    except (AttributeError, NotImplementedError):
        return {}
    mask = "env.get_avail_actions(state)"
    draw = "jax.random.categorical(k, jnp.where(masks[a], 0.0, -jnp.inf))"
    return {"mask": mask, "action": f"masks = {mask}\naction = {{a: {draw} for a, k in {_AGENT_KEYS}}}"}


_AGENT_KEYS = "zip(env.agents, jax.random.split(key_action, len(env.agents)))"
_MASK = "timestep.observation.action_mask"


def _jumanji_action(env: Any) -> dict[str, Any]:
    """Draws a legal action: the mask has an axis per component of the action, or a row per component."""
    spec, numbers = env.action_spec, getattr(env.action_spec, "num_values", None)
    drawn = "env.action_spec.shape, env.action_spec.dtype, env.action_spec.minimum, env.action_spec.maximum"
    if numbers is None and np.dtype(spec.dtype).kind == "f":
        return {"action": f"action = jax.random.uniform(key_action, {drawn})"}
    mask = getattr(jax.eval_shape(env.reset, jax.random.PRNGKey(0))[1].observation, "action_mask", None)
    if mask is None:
        bounds = "0, env.action_spec.num_values"
        bounds = "env.action_spec.minimum, env.action_spec.maximum + 1" if numbers is None else bounds
        return {"action": f"action = jax.random.randint(key_action, env.action_spec.shape, {bounds})"}
    draw = f"jax.random.categorical(key_action, jnp.where({_MASK}, 0.0, -jnp.inf))"
    if spec.shape and numbers is not None and mask.shape == tuple(numbers):
        flat = draw.replace("-jnp.inf)", "-jnp.inf).ravel()")
        draw = f"jnp.stack(jnp.unravel_index({flat}, {mask.shape}))"
    return {"action": f"action = {draw}.astype(env.action_spec.dtype)", "mask": _MASK}


def _without_restarts(env: Any) -> dict[str, Any]:
    """Leaves restarts to the loop for a class of Craftax that has none."""
    if all(base.__name__ != "EnvironmentNoAutoReset" for base in type(env).__mro__):
        return {}
    return {"restarts": False, "reasons": {**_LOST, **_KEPT}}


_LOST = {
    "final_observation": "the API returns none: its auto-reset replaces the last observation of an episode",
    "truncation": "the API has one flag for both",
}
_KEPT = {"final_observation": "the row that ends an episode holds it: restarts are left to wrappers"}
_COMPILED = "reset, step = jax.jit(env.reset), jax.jit(env.step)"
_GYMNAX0 = Dialect(
    api="gymnax0",
    members="reset step action_space observation_space default_params",
    prepare="params = env.default_params",
    reset="obs, state = env.reset({key}, params)",
    step="obs, state, reward, done, info = env.step(key_step, state, action, params)",
    carry=("state", "obs"),
    restarts=True,
    space="env.observation_space(params)",
    limit="getattr(params, 'max_steps_in_episode', None)",
    adapt=_without_restarts,
    reasons=_LOST,
)
_STOA = Dialect(
    api="stoa",
    members="reset step observation_space action_space",
    reset="state, timestep = reset({key})",
    action="action = env.action_space().sample(key_action)",
    step="state, timestep = step(state, action)",
    carry=("state", "timestep"),
    observation="timestep.observation",
    reward="timestep.reward",
    done="timestep.step_type >= 2",
    step_type="timestep.step_type",
    discount="timestep.discount",
    space="env.observation_space()",
    prepare=_COMPILED,
    reasons={**_KEPT, "truncation": "the step type and the discount tell it"},
)
_ALL = (
    dataclasses.replace(
        _GYMNAX0,
        api="gymnax",
        step="obs, state, reward, terminated, truncated, info = env.step(key_step, state, action, params)",
        done="terminated | truncated",
        terminated="terminated",
        truncated="truncated",
        final="info['final_observation']",
        reasons={},
    ),
    _GYMNAX0,
    Dialect(
        api="jaxmarl",
        members="reset step agents num_agents action_space observation_space",
        reset="obs, state = env.reset({key})",
        action=f"action = {{a: env.action_space(a).sample(k) for a, k in {_AGENT_KEYS}}}",
        step="obs, state, reward, dones, info = env.step(key_step, state, action)",
        carry=("state", "obs"),
        restarts=True,
        done="dones['__all__']",
        dones="dones",
        space="{a: env.observation_space(a) for a in env.agents}",
        limit="getattr(env, 'max_steps', None)",
        adapt=_available,
        reasons=_LOST,
    ),
    Dialect(
        api="brax",
        members="reset step observation_size action_size",
        reset="state = reset({key})",
        action="action = jax.random.uniform(key_action, (env.action_size,), minval=-1.0)",
        step="state = step(state, action)",
        carry=("state",),
        observation="state.obs",
        reward="state.reward",
        done="state.done",
        flags="bf",
        space="env.observation_size",
        prepare=_COMPILED,
        reasons={
            **_KEPT,
            "truncation": "an environment of Brax only terminates: EpisodeWrapper truncates",
            "arguments_unchanged": "environments of Brax write into the dicts of the state by convention",
        },
    ),
    _STOA,
    dataclasses.replace(
        _STOA,
        api="jumanji",
        members="reset step observation_spec action_spec",
        done="timestep.step_type == 2",
        space="env.observation_spec",
        reward_shape="env.reward_spec.shape if hasattr(env, 'reward_spec') else ()",
        limit="getattr(env, 'time_limit', None)",
        adapt=_jumanji_action,
    ),
    Dialect(
        api="navix",
        members="reset step observation_space action_set max_steps",
        reset="timestep = reset({key})",
        action="action = jax.random.randint(key_action, (), 0, len(env.action_set))",
        step="timestep = step(timestep, action)",
        carry=("timestep",),
        observation="timestep.observation",
        reward="timestep.reward",
        done="timestep.step_type > 0",
        terminated="timestep.step_type == 2",
        truncated="timestep.step_type == 1",
        space="env.observation_space",
        limit="env.max_steps",
        prepare=_COMPILED,
        reasons={
            "restart": "the call of step after the end of an episode starts the next one",
            "final_observation": "the row that ends an episode holds it",
        },
    ),
    dataclasses.replace(
        _STOA,
        api="xminigrid",
        members="reset step observation_shape num_actions default_params",
        prepare="params = env.default_params()",
        reset="timestep = env.reset(params, {key})",
        action="action = jax.random.randint(key_action, (), 0, env.num_actions(params))",
        step="timestep = env.step(params, timestep, action)",
        carry=("timestep",),
        done="timestep.step_type == 2",
        space="env.observation_shape(params)",
        limit="params.max_steps",
    ),
    Dialect(
        api="pgx",
        members="init step num_players",
        reset="state = reset({key})",
        action="action = jax.random.categorical(key_action, jnp.where(state.legal_action_mask, 0.0, -jnp.inf))",
        step="state = step(state, action, key_step)",
        carry=("state",),
        observation="state.observation",
        reward="state.rewards",
        done="state.terminated | state.truncated",
        terminated="state.terminated",
        truncated="state.truncated",
        mask="state.legal_action_mask",
        space="env.observation_shape",
        reward_shape="(env.num_players,)",
        prepare="reset, step = jax.jit(env.init), jax.jit(env.step)",
        reasons={**_KEPT, "truncation": "Pgx truncates by its TimeLimit wrapper only"},
    ),
    Dialect(
        api="gymnasium",
        members="reset step observation_space action_space",
        reset="obs, info = env.reset({key})",
        action="action = env.action_space.sample()",
        step="obs, reward, terminated, truncated, info = env.step(action)",
        carry=("obs",),
        done="terminated or truncated",
        terminated="terminated",
        truncated="truncated",
        space="env.observation_space",
        limit="env.spec.max_episode_steps if env.spec else None",
        reasons={
            **_KEPT,
            **dict.fromkeys(
                ("same_types", "pure", "jit_equals_eager", "vmap_equals_single", "arguments_unchanged"),
                "an environment of Gymnasium keeps its state and runs outside JAX",
            ),
        },
    ),
)
DIALECTS = {dialect.api: dialect for dialect in _ALL}

# How each library makes an environment: import and expression.
_MAKERS = {
    "gymnax": ("import gymnax", "gymnax.make({!r})[0]"),
    "brax": ("from brax import envs", "envs.get_environment({!r})"),
    "jumanji": ("import jumanji", "jumanji.make({!r})"),
    "pgx": ("import pgx", "pgx.make({!r})"),
    "jaxmarl": ("import jaxmarl", "jaxmarl.make({!r})"),
    "navix": ("import navix", "navix.make({!r})"),
    "xminigrid": ("import xminigrid", "xminigrid.make({!r})"),
    "gymnasium": ("import gymnasium", "gymnasium.make({!r})"),
    "craftax": (
        "from craftax.craftax_env import make_craftax_env_from_name",
        "make_craftax_env_from_name({!r}, auto_reset=True)",
    ),
    "playground": ("from mujoco_playground import registry", "registry.load({!r}, config_overrides={{'impl': 'jax'}})"),
}
# The modules of base classes.
_BASES = {
    "gymnax.environments.environment": "gymnax",
    "craftax.environment_base.environment_bases": "gymnax0",
    "jaxmarl.environments.multi_agent_env": "jaxmarl",
    "brax.envs.base": "brax",
    "mujoco_playground._src.mjx_env": "brax",
    "jumanji.env": "jumanji",
    "navix.environments.environment": "navix",
    "pgx.core": "pgx",
    "stoa.environment": "stoa",
    "xminigrid.environment": "xminigrid",
    "gymnasium.core": "gymnasium",
}


@dataclasses.dataclass(frozen=True)
class Source:
    """Where an environment comes from: ``make()`` makes another one, ``setup`` are the statements that do."""

    name: str
    make: Callable[[], Any] | None
    setup: tuple[str, ...]


def source_of(env: Any) -> Source:
    """Reads what `certify` was given: ``"gymnax:CartPole-v1"``, ``"module:factory"``, a factory or an environment."""
    if isinstance(env, str):
        prefix, _, name = env.partition(":")
        if not (prefix and name) or (prefix not in _MAKERS and not name.isidentifier()):
            hint = did_you_mean(prefix, _MAKERS, otherwise=f"the libraries are {', '.join(_MAKERS)}")
            raise ValueError(f"certify: env must be 'library:ID' or 'module:factory', got {env!r}, {hint}")
        imports, expression = _MAKERS.get(prefix, (f"from {prefix} import {name}", f"{name}()"))
        setup = imports, f"env = {expression.format(name)}"
    elif isinstance(env, type) or (callable(env) and not hasattr(env, "step")):
        name, module = getattr(env, "__name__", "make_env").replace("<lambda>", "make_env"), env.__module__
        importable = getattr(sys.modules.get(module), name, None) is env
        found = f"from {module} import {name}" if importable else f"# {name} is the factory that you passed"
        return Source(name, env, (found, f"env = {name}()"))
    else:
        env, yours = (env[0], "arguments and params") if isinstance(env, tuple) else (env, "arguments")
        name = type(env).__name__
        made = f"from {type(env).__module__} import {name}", f"env = {name}()  # with the {yours} of yours"
        return Source(name, None, made)

    def make() -> Any:
        scope: dict[str, Any] = {}
        exec("\n".join(setup), scope)
        return scope["env"]

    return Source(env, make, setup)


def dialect_of(env: Any, api: str | None, otherwise: str | None = None) -> Dialect:
    """Returns the dialect of an environment: of its base class if no API is given, ``otherwise`` without one."""
    if api is None:
        api = next((_BASES[c.__module__] for c in type(env).__mro__ if c.__module__ in _BASES), otherwise)
        if api == "gymnax" and not hasattr(sys.modules.get(api), "register") and otherwise is None:
            api = "gymnax0"  # `register` came with gymnax 1.0
    if api is None:
        rule = f"api must be one of {', '.join(DIALECTS)}, got None for {type(env).__name__}"
        raise ValueError(f"certify: {rule}, which derives from none of their classes")
    return DIALECTS[api]


@dataclasses.dataclass(eq=False)
class Failure(AssertionError):
    """Raised by a property that does not hold.

    ``step`` is None for a reset. ``show`` is the expression that a reproduction prints, also ``before`` its "reset" or
    its "steps", in each of its ``runs``, which may be of new ``instances``; statements may come ``after``.
    """

    expected: str
    seen: str
    lane: int = 0
    step: int | None = None
    show: str = ""
    before: str = ""
    after: tuple[str, ...] = ()
    runs: int = 1
    instances: bool = False


def reproduction(source: Source, dialect: Dialect, seed: int, failure: Failure) -> str:
    """Returns a program of at most 15 lines, without this library, that shows a failure."""
    show = [f"print({failure.show})"] if failure.show else []
    if dialect.api == "gymnasium":
        start = [dialect.reset.format(key=f"seed={seed}"), f"env.action_space.seed({seed})"]
        loop = [f"if t and ({dialect.done}): {dialect.reset.format(key='')}", dialect.action, dialect.step]
    else:
        start = [f"key = jax.random.PRNGKey({seed})", dialect.reset.format(key="key")]
        again = [] if dialect.restarts else [f"if {dialect.done}: {dialect.reset.format(key='key_reset')}"]
        loop = [dialect.split, *again, *dialect.action.splitlines(), dialect.step]
    lines = [*(show if failure.before == "reset" else []), *start, *(show if failure.before == "steps" else [])]
    if failure.step is not None:
        lines += [f"for t in range({failure.step + 1}):", *(f"    {line}" for line in loop)]
    made = [source.setup[-1], *filter(None, [dialect.prepare])]
    lines = [*(made if failure.instances else []), *lines, *show]
    if failure.runs > 1:
        lines = [f"for run in range({failure.runs}):", *(f"    {line}" for line in lines)]
    text = "\n".join([*source.setup[:-1], *([] if failure.instances else made), *lines, *failure.after])
    return "".join(f"import {name}\n" for name in ("jax", "jax.numpy as jnp") if f"{name[-3:]}." in text) + text
