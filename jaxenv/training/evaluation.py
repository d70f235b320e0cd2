"""The code around the updates of all learners: both environments, start and loop of a run, policies, evaluations."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import rollout, tree
from jaxenv._util.checks import INT32_MAX, check_bool, is_known_array
from jaxenv.core import Environment, TimeStep, check_environment, layers
from jaxenv.data import transformers
from jaxenv.training import _algorithms
from jaxenv.training.config import RunConfig, check_config
from jaxenv.training.lanes import Curve as Curve
from jaxenv.training.lanes import DeviceLanes, PerLane, Train
from jaxenv.tree._structure import mismatch
from jaxenv.wrappers import BatchWrapper, stack

L = TypeVar("L")


@tree.struct
class Learner:
    """The complete state of a run: saved and restored, it continues bit for bit. Each learner adds its own fields."""

    params: Any  # the weights of the network
    optimizer: Any  # the state of Adam
    statistics: Any  # the statistics of the observations, () if they are not normalised
    env_state: PerLane[Any]  # the state of the environment, leaves [B, ...]
    timestep: PerLane[TimeStep]  # the last TimeStep, [B]
    # Metrics of the episodes in progress and of the episodes that ended since the last evaluation.
    metrics: PerLane[Any]
    hyperparameters: dict[str, jax.Array]  # the numbers of `RunConfig.hyperparameters`, float32[] each
    key: jax.Array  # the key of the run, a typed key ()
    update: jax.Array  # int32[], the number of updates so far


def environments(
    kind: type[RunConfig], config: RunConfig, env: Environment | None, eval_env: Environment | None, turns: bool = False
) -> tuple[Environment, Environment]:
    """Returns the stacks to train and to evaluate on, as given, or made from ``config.env_id``.

    With ``turns`` the stack to train on may be a game of turns, of which the learner plays all sides. A config of
    another class than ``kind``, and stacks that do not fit the settings or each other, are a ``ValueError``.
    """
    check_config(config, kind)
    name = config.learner
    if env is None and eval_env is None:
        env = config.make_env(config.num_envs)
        try:
            eval_env = config.make_env(config.num_eval_episodes, "eval")
        except ValueError as error:
            lanes = f"{name}: evaluations have num_eval_episodes = {config.num_eval_episodes} lanes"
            raise ValueError(f"{error} ({lanes})") from error
    if env is None or eval_env is None:
        raise ValueError(f"{name}: env and eval_env must be given together")
    check_environment(name, env)
    check_environment(name, eval_env, "eval_env")
    if env.autoreset != "next_step":
        raise ValueError(f"{name}: env must restart lanes by autoreset='next_step', got {env.autoreset!r} in {env}")
    if env.num_envs != config.num_envs:
        raise ValueError(f"{name}: config.num_envs is {config.num_envs}, {env} has {env.num_envs} lanes")
    for spec in ("observation_spec", "action_spec"):
        ours, theirs = getattr(env, spec)(), getattr(eval_env, spec)()
        if ours != theirs:
            raise ValueError(f"{name}: env and eval_env must have the same {spec}, got {ours} and {theirs}")
    for made in (eval_env,) if turns and env.turns else (env, eval_env):
        if made.num_agents > 1:
            wrapper = "Opponent" if made.turns else "AgentsAsLanes"
            rule = f"env must have one agent, {made} has {made.num_agents} agents: put {wrapper} in wrappers"
            others = " or ".join(f"--algo {learner}" for learner in _algorithms.made_for(made))
            raise ValueError(f"{name}: {rule}{others and f', or train with {others}'}")
        if made.reward_spec().shape != ():
            raise ValueError(f"{name}: the reward must be one number per lane, got {made.reward_spec()} of {made}")
    for level in layers(eval_env):
        if isinstance(level, BatchWrapper) and "observation" in level.owns:
            raise ValueError(f"{name}: evaluation cannot share the statistics of {level}, set normalize_observation")
    if found := next(stack.training_only(eval_env), None):
        rule = f"eval_env must not have {type(found).__name__}, which is for training"
        raise ValueError(f"{name}: {rule}: jaxenv.make(..., mode='eval') makes it, got {eval_env!r}")
    return env, eval_env


def begin(
    learner: type[L],
    lanes: DeviceLanes,
    env: Environment,
    key: jax.Array,
    hyperparameters: dict[str, jax.Array],
    own: Callable[[jax.Array, TimeStep], dict[str, Any]],
) -> L:
    """Returns a learner whose lanes start their first episodes; ``own(key, timestep)`` returns its other fields."""
    own_key, env_key, key = jax.random.split(key, 3)
    env_state, timestep = lanes.on_device(env).reset(env_key, lanes.numbers(env))
    zero = jnp.zeros((), jnp.int32)
    fields = {"env_state": env_state, "timestep": timestep, "metrics": rollout.Metrics().init(timestep)}
    fields |= {"statistics": (), "hyperparameters": hyperparameters, "key": key, "update": zero}
    return learner(**fields | own(own_key, timestep))


def train(
    lanes: DeviceLanes,
    env: Environment,
    eval_env: Environment,
    learner: type[L],
    make_policy: Callable,
    init: Callable[..., L],
    update: Callable[[Any, L], tuple[L, Any]],
    summary: Callable[[L, Any], Any] = lambda _, losses: jax.tree.map(jnp.mean, losses),
) -> Train[L]:
    """Builds a run from its start and its update: equally many updates come before each evaluation.

    ``env`` and ``eval_env`` have all lanes. ``init`` is a function of a key and `RunConfig.arrays`, and ``update`` of
    the settings, with the learner's hyperparameters, and of the learner. It returns the next learner, whose updates are
    counted here, and the losses. ``summary`` is a function of the learner and the losses since the previous evaluation,
    leaves ``[N, ...]``.
    """

    def one(learner: Any, _: None) -> tuple[Any, Any]:
        number = learner.update + 1
        learner, losses = update(tree.rebuild(lanes.config, **learner.hyperparameters), learner)
        return tree.rebuild(learner, update=number), losses

    def iteration(learner: L) -> tuple[L, Curve]:
        number = lanes.config.num_updates // lanes.config.num_evaluations
        learner, losses = jax.lax.scan(one, learner, length=number)
        return evaluate(lanes, eval_env, make_policy, learner, summary(learner, losses))

    return lanes.train(env, learner, Curve, init, iteration)


def unrolled(
    lanes: DeviceLanes, env: Environment, policy: Any, learner: L, num_steps: int, **options: Any
) -> tuple[L, Any, rollout.Experience]:
    """Steps the learner's lanes by `jaxenv.unroll`; returns the learner, the policy's memory and the rows."""
    now: Any = learner
    stack, metrics = lanes.on_device(env), rollout.Metrics()
    (env_state, last, memory), rows = rollout.unroll(stack, policy, now.env_state, now.timestep, num_steps, **options)
    finished = metrics.update_rows(now.metrics, rows.timestep)
    return tree.rebuild(now, env_state=env_state, timestep=last, metrics=finished), memory, rows


def longest_episode(env: Environment) -> int | None:
    """Returns the longest time limit of the lanes in steps; ``None`` without a limit, or if it is traced."""
    longest = env._longest_episode
    return int(np.max(longest)) if is_known_array(longest) and np.max(longest) < INT32_MAX else None


def normalizer(config: RunConfig, axis_name: str | None = None) -> Any:
    """Returns the transformer of observations for policy and learner, with statistics over a mesh axis."""
    if not config.normalize_observation:
        return transformers.Identity()
    return transformers.ObservationNormalizer(clip=10.0, axis_name=axis_name)


def check_acting(kind: type[RunConfig], config: Any, env: Any, explore: Any) -> None:
    """Raises a ``ValueError`` unless these are arguments of the ``make_policy`` of a learner with settings ``kind``."""
    check_config(config, kind)
    check_environment(config.learner, env)
    check_bool(config.learner, "explore", explore)


def learned_policy(
    config: RunConfig,
    env: Environment,
    policy: Callable,
    init: Callable,
    params: Any,
    statistics: Any = (),
    memory: Any = (),
) -> tuple[Callable, Any]:
    """Makes a policy for `jaxenv.unroll`, `jaxenv.evaluate` and `jaxenv.record` that carries its weights in its memory.

    ``make_policy(config, env, params, statistics, explore)`` of every learner returns it: of the stack to act in, and
    of ``learner.params`` and ``learner.statistics`` of one seed. With ``explore`` it acts as in training.

    ``policy(timestep, stream, (weights, memory))`` reads its weights from ``weights.value``; ``init`` initialises such
    weights for rows of ``env``, and ``memory`` is the policy's further memory, leaves ``[B, ...]``.

    Returns:
        ``policy(timestep, stream, memory)`` and its ``initial_memory``. A function compiled with the memory of one
        learner runs with any other learner's without recompilation.
    """
    name, (_, timestep) = config.learner, env.start_shapes()
    if config.normalize_observation and isinstance(statistics, tuple):
        raise ValueError(f"{name}: the config normalises observations: pass statistics=learner.statistics")
    expected = jax.eval_shape(init, timestep)
    if (difference := mismatch(expected, params, "params")) is not None:
        raise ValueError(f"{name}: {difference}")
    for (path, leaf), given in zip(jax.tree.flatten_with_path(expected)[0], jax.tree.leaves(params), strict=True):
        if given.shape[1:] == leaf.shape != given.shape:
            how = "choose one of params and statistics, for example by jax.tree.map(lambda x: x[0], learner.params)"
            raise ValueError(f"{name}: params are the weights of {given.shape[0]} seeds: {how}")
        if given.shape != leaf.shape:
            rule = f"params.{tree.path_name(path)} must have shape {leaf.shape} for {env} and this config"
            how = "config.make_env(num_envs, 'eval') makes the stack with the config's wrappers"
            raise ValueError(f"{name}: {rule}, got {given.shape}: {how}")
    start = tree.Shared(params), memory
    return normalizer(config).frozen().wrap_policy(policy, timestep, start, state=statistics)


def evaluate(lanes: DeviceLanes, env: Environment, make_policy: Callable, learner: L, losses: Any) -> tuple[L, Curve]:
    """Plays the whole episodes that end an iteration, by ``make_policy`` of the learner.

    Returns the learner with cleared metrics, and a `Curve` without its leading axis, with the mean ``losses``.
    """
    now: Any = learner
    config = tree.rebuild(lanes.config, **now.hyperparameters)
    policy, memory = make_policy(config, lanes.on_device(env), now.params, now.statistics, config.eval_explore)
    _, key = jax.random.split(jax.random.fold_in(now.key, now.update))
    metrics = rollout.Metrics()
    totals = metrics.totals(now.metrics)
    curve = Curve(
        steps=now.update * np.int32(config.rows_per_update) + np.int32(config.num_warmup_rows),
        train=metrics.compute(totals if lanes.axis_name is None else totals.psum(lanes.axis_name)),
        losses=losses,
        **episodes(lanes, env, policy, memory, key),
    )
    return tree.rebuild(now, metrics=metrics.clear_finished(now.metrics)), curve


def episodes(
    lanes: DeviceLanes, env: Environment, policy: Callable, memory: Any, key: jax.Array
) -> dict[str, jax.Array]:
    """Plays the whole episodes of an evaluation, as many in each lane; returns the last four fields of a `Curve`."""
    of_device, num_episodes = lanes.on_device(env), lanes.per_device("num_eval_episodes")
    rows = None
    if lanes.config.max_eval_steps is not None:  # a restart takes a row, too
        rows = min(num_episodes // of_device.num_envs * (lanes.config.max_eval_steps + 1) - 1, INT32_MAX)
    played = rollout.evaluate(
        of_device, policy, key, num_episodes, initial_memory=memory, max_steps=rows, env_id=lanes.numbers(env)
    )
    finished = played.finished & ~played.abnormal
    return {
        "returns": jnp.where(finished, played.returns, np.float32(np.nan)),
        "lengths": jnp.where(finished, played.lengths, np.int32(-1)),
        "terminated": played.terminated & finished,
        "finished": finished,
    }
