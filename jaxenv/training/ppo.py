"""Proximal policy optimisation, from a key to a learned policy in one compiled function.

Schulman et al. (2017), arXiv:1707.06347, with generalised advantage estimates (2016, arXiv:1506.02438) and what Huang
et al. (2022, "The 37 implementation details of PPO") found to matter: orthogonal weights, advantages normalised in each
minibatch, a learning rate that falls to 0, gradients clipped by their norm. One thing differs from most versions: ends
are read off the TimeStep, so that a time limit is no failure and rows that lead nowhere teach nothing.

The file reads from top to bottom: `Config`, `make_train`, `make_legs` (one update after another), the network, the
distributions. An environment comes in as its id, or as two stacks of your own.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import data, random, rollout, specs, tree
from jaxenv._declared import check_option
from jaxenv.data import transformers
from jaxenv.environment import Environment
from jaxenv.timestep import TimeStep
from jaxenv.wrapper import layers
from jaxenv.wrappers import BatchWrapper

try:
    import flax.linen as nn
    import optax
except ImportError as missing:
    raise ImportError(f"jaxenv.training needs {missing.name}: pip install 'jaxenv[training]'") from missing


@dataclasses.dataclass(frozen=True)
class Config:
    """What a run is made of. The defaults learn CartPole-v1 within 300,000 steps.

    Attributes:
        env_id: as `jaxenv.load` takes it.
        wrappers: for `jaxenv.load`, innermost first: names, or pairs of a name and its options. Those that own only the
            reward (``"NormalizeReward"``) are left out of evaluations.
        normalize_observation: show the network observations of mean 0 and variance 1, by all that a run has seen.
        total_steps: rows of all lanes together, at most: as many updates before each evaluation as fit.
        num_envs: lanes.
        num_steps: steps of every lane between two updates.
        num_epochs: passes over the rows of an update.
        num_minibatches: parts that a pass is cut into; must divide ``num_envs * num_steps``.
        learning_rate: of Adam, at the start; it falls to 0 linearly.
        gamma: discount rate of the learner.
        lambda_: of the advantage estimates.
        clip: how far the probability ratio counts, as a share of 1.
        entropy_cost: weight of the entropy bonus.
        value_cost: weight of the value loss.
        max_gradient_norm: longer gradients are scaled down to it.
        hidden: widths of the layers of actor and critic.
        num_evaluations: how often the policy is evaluated, at equal distances, the last time at the end.
        num_eval_episodes: whole episodes of each evaluation, without exploration.
        max_eval_steps: longer ones are cut off, and not counted.
    """

    env_id: str = "CartPole-v1"
    wrappers: tuple = ()
    normalize_observation: bool = False
    total_steps: int = 300_000
    num_envs: int = 16
    num_steps: int = 64
    num_epochs: int = 8
    num_minibatches: int = 4
    learning_rate: float = 1e-3
    gamma: float = 0.98
    lambda_: float = 0.9
    clip: float = 0.2
    entropy_cost: float = 0.0
    value_cost: float = 0.5
    max_gradient_norm: float = 0.5
    hidden: tuple[int, ...] = (64, 64)
    num_evaluations: int = 10
    num_eval_episodes: int = 100
    max_eval_steps: int = 10_000

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = check_option("ppo.Config", field.name, getattr(self, field.name), field.default)
            object.__setattr__(self, field.name, tuple(value) if isinstance(value, list) else value)
            if field.type is int and not 1 <= value < 2**31:
                raise ValueError(f"ppo.Config: {field.name} must be at least 1 and below 2**31, got {value!r}")
            if field.type is float and not 0 <= value < np.inf:
                raise ValueError(f"ppo.Config: {field.name} must be a number of at least 0, got {value!r}")
        for name in ("hidden", "wrappers"):
            if not isinstance(getattr(self, name), tuple):
                raise ValueError(f"ppo.Config: {name} must be a tuple, got {getattr(self, name)!r}")
        for width in self.hidden:
            if isinstance(width, bool) or not isinstance(width, int) or width < 1:
                raise ValueError(f"ppo.Config: hidden must be widths of at least 1, got {self.hidden!r}")
        for name in ("gamma", "lambda_"):
            if getattr(self, name) > 1:
                raise ValueError(f"ppo.Config: {name} must be in [0, 1], got {getattr(self, name)}")
        if self.num_envs * self.num_steps % self.num_minibatches:
            raise ValueError(
                f"ppo.Config: num_minibatches must divide num_envs * num_steps = {self.num_envs * self.num_steps}, "
                f"got {self.num_minibatches}"
            )
        if not self.num_updates:
            least = self.num_envs * self.num_steps * self.num_evaluations
            raise ValueError(
                f"ppo.Config: total_steps must be at least {least}, an update of num_envs * num_steps rows before each "
                f"evaluation, got {self.total_steps}"
            )

    @property
    def num_updates(self) -> int:
        """Updates of a run, as many before each evaluation."""
        return self.total_steps // (self.num_envs * self.num_steps * self.num_evaluations) * self.num_evaluations


@tree.struct
class Learner:
    """The whole of a run at one moment: saved and restored, it goes on bit for bit.

    Attributes:
        params: of the network.
        optimizer: Adam's state.
        statistics: of the observations, ``()`` where they are not normalised.
        env_state: of the environment, lanes ``[B]``.
        timestep: the row that goes with it.
        metrics: episodes under way, and those that ended since the last evaluation.
        key: typed key ``()`` of the run.
        update: int32 ``()``, updates so far.
    """

    params: Any
    optimizer: Any
    statistics: Any
    env_state: Any
    timestep: TimeStep
    metrics: Any
    key: jax.Array
    update: jax.Array


class Curve(NamedTuple):
    """How a run went, one entry per evaluation, ``[num_evaluations]`` each.

    Attributes:
        steps: int32, rows that lanes had been stepped for in all.
        train: figures of `rollout.Metrics` over the episodes that ended since the evaluation before, in rewards as the
            wrappers of training pay them.
        returns: float32 ``[num_evaluations, num_eval_episodes]``, of the policy without exploration.
        lengths: int32, likewise.
        terminated: bool, likewise, whether the task ended the episode.
        finished: bool, likewise; False where ``max_eval_steps`` or a row that was not finite cut it off.
    """

    steps: jax.Array
    train: dict[str, jax.Array]
    returns: jax.Array
    lengths: jax.Array
    terminated: jax.Array
    finished: jax.Array


def make_train(
    config: Config, env: Environment | None = None, eval_env: Environment | None = None
) -> Callable[[jax.Array], tuple[Learner, Curve]]:
    """The whole of training as one function of a key, to be jitted, and vmapped over keys.

    Args:
        config: of the run.
        env: a stack with ``num_envs`` lanes and ``next_step`` restarts; made from ``config.env_id`` by default.
        eval_env: the stack to evaluate on, given together with ``env``; ``num_eval_episodes`` must be a multiple of its
            lanes.

    Returns:
        ``train(key)``, which gives the learner at the end and the curve up to there, and for ``jax.vmap`` over ``N``
        keys the same with an axis ``[N, ...]`` in front.
    """
    begin, leg = make_legs(config, env, eval_env)

    def train(key: jax.Array) -> tuple[Learner, Curve]:
        return jax.lax.scan(lambda learner, _: leg(learner), begin(key), length=config.num_evaluations)

    return train


def make_legs(
    config: Config, env: Environment | None = None, eval_env: Environment | None = None
) -> tuple[Callable[[jax.Array], Learner], Callable[[Learner], tuple[Learner, Curve]]]:
    """Training in equal legs, each closed by an evaluation: for loops on the host that report or save in between.

    Returns:
        ``begin(key)``, which gives the `Learner` at the start, and ``leg(learner)``, which gives the next one and the
        entry of the `Curve` (scalars for ``[num_evaluations]``). ``config.num_evaluations`` legs are `make_train`.
    """
    if env is None and eval_env is None:
        env = jaxenv.load(config.env_id, config.num_envs, wrappers=config.wrappers)
        eval_env = jaxenv.load(config.env_id, config.num_eval_episodes, wrappers=config.wrappers, mode="eval")
    if env is None or eval_env is None:
        raise ValueError("ppo: env and eval_env are given together, or neither is")
    _check(config, env, eval_env)
    pi = _distribution(env.action_spec())
    network = ActorCritic(pi.num_inputs, pi.num_free, config.hidden)
    heads: Callable[..., Any] = network.apply
    view = transformers.ObservationNormalizer(clip=10.0) if config.normalize_observation else transformers.Identity()
    metrics = rollout.Metrics()
    batch_size = config.num_envs * config.num_steps
    decay = optax.linear_schedule(
        config.learning_rate, 0.0, config.num_updates * config.num_epochs * config.num_minibatches
    )
    optimizer = optax.chain(optax.clip_by_global_norm(config.max_gradient_norm), optax.adam(decay, eps=1e-5))

    def begin(key: jax.Array) -> Learner:
        network_key, env_key, key = jax.random.split(key, 3)
        env_state, timestep = env.reset(env_key)
        params = network.init(network_key, _flat(timestep.observation))
        return Learner(
            params=params,
            optimizer=optimizer.init(params),
            statistics=view.init(timestep),
            env_state=env_state,
            timestep=timestep,
            metrics=metrics.init(timestep),
            key=key,
            update=jnp.zeros((), jnp.int32),
        )

    def explore(params):
        def policy(timestep, stream):
            observation = _flat(timestep.observation)
            logits, _ = heads(params, observation)
            action = pi.sample(logits, stream)
            seen = {"observation": observation, "log_probability": pi.log_probability(logits, action)}
            return rollout.PolicyStep(action, info=seen)

        return policy

    def exploit(params):
        return lambda timestep, stream: pi.mode(heads(params, _flat(timestep.observation))[0])

    def update(learner: Learner, _) -> tuple[Learner, None]:
        policy, memory = view.wrap_policy(explore(learner.params), learner.timestep, state=learner.statistics)
        (env_state, last, memory), rows = jaxenv.unroll(
            env,
            policy,
            learner.env_state,
            learner.timestep,
            config.num_steps,
            initial_memory=memory,
            fields=["step_type", "reward", "discount", "env_info", "action", "policy_info"],
        )
        statistics = memory[0] if config.normalize_observation else ()
        _, shown = view.frozen().transform_timestep(statistics, last)
        observation = rows.policy_info["observation"]
        _, values = heads(learner.params, data.with_last(observation, _flat(shown.observation)))
        advantages, returns = data.gae(rows.timestep, last, values, gamma=config.gamma, lambda_=config.lambda_)
        batch = _Batch(
            observation=observation,
            action=rows.action,
            log_probability=rows.policy_info["log_probability"],
            advantage=advantages,
            return_=returns,
            learned=data.transition_mask(rows.timestep, last),
        )
        batch = jax.tree.map(lambda x: x.reshape(batch_size, *x.shape[2:]), batch)

        def epoch(fitted, key):
            return jax.lax.scan(improve, fitted, data.minibatches(key, batch, config.num_minibatches))

        shuffle_key, _ = jax.random.split(jax.random.fold_in(learner.key, learner.update))
        keys = jax.random.split(shuffle_key, config.num_epochs)
        (params, state), _ = jax.lax.scan(epoch, (learner.params, learner.optimizer), keys)
        counted = metrics.update_rows(learner.metrics, rows.timestep)
        return Learner(params, state, statistics, env_state, last, counted, learner.key, learner.update + 1), None

    def improve(fitted, minibatch):
        params, state = fitted
        change, state = optimizer.update(jax.grad(loss)(params, minibatch), state)
        return (optax.apply_updates(params, change), state), None

    def loss(params, batch: _Batch) -> jax.Array:
        logits, values = heads(params, batch.observation)
        learned = batch.learned.astype(jnp.float32)
        weight = learned / jnp.maximum(learned.sum(), 1)
        mean = jnp.sum(weight * batch.advantage)
        spread = jnp.sqrt(jnp.sum(weight * (batch.advantage - mean) ** 2))
        advantage = (batch.advantage - mean) / (spread + 1e-8)
        ratio = jnp.exp(pi.log_probability(logits, batch.action) - batch.log_probability)
        clipped = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
        gain = jnp.minimum(ratio * advantage, clipped * advantage)
        miss = 0.5 * (values - batch.return_) ** 2
        return jnp.sum(weight * (config.value_cost * miss - gain - config.entropy_cost * pi.entropy(logits)))

    def leg(learner: Learner) -> tuple[Learner, Curve]:
        learner, _ = jax.lax.scan(update, learner, length=config.num_updates // config.num_evaluations)
        _, key = jax.random.split(jax.random.fold_in(learner.key, learner.update))
        _, timestep = jax.eval_shape(eval_env.reset, key)
        policy, memory = view.frozen().wrap_policy(exploit(learner.params), timestep, state=learner.statistics)
        found = rollout.evaluate(
            eval_env, policy, key, config.num_eval_episodes, initial_memory=memory, max_steps=config.max_eval_steps
        )
        train = metrics.compute(metrics.totals(learner.metrics))
        learner = dataclasses.replace(learner, metrics=metrics.clear_finished(learner.metrics))
        steps = learner.update * np.int32(batch_size)
        finished = found.finished & ~found.abnormal
        return learner, Curve(steps, train, found.returns, found.lengths, found.terminated, finished)

    return begin, leg


@tree.struct
class _Batch:
    """Rows to learn from, ``[N, ...]`` each."""

    observation: jax.Array
    action: jax.Array
    log_probability: jax.Array
    advantage: jax.Array
    return_: jax.Array
    learned: jax.Array


def _check(config: Config, env: Environment, eval_env: Environment) -> None:
    if env.autoreset != "next_step":
        raise ValueError(f"ppo: the environment must restart by autoreset 'next_step', got {env.autoreset!r} in {env}")
    if env.num_envs != config.num_envs:
        raise ValueError(f"ppo: config.num_envs is {config.num_envs}, {env} has {env.num_envs} lanes")
    for what in ("observation_spec", "action_spec"):
        ours, theirs = getattr(env, what)(), getattr(eval_env, what)()
        if ours != theirs:
            raise ValueError(f"ppo: env and eval_env must have the same {what}, got {ours} and {theirs}")
    if env.reward_spec().shape != ():
        raise ValueError(f"ppo: the reward must be one number a lane, got {env.reward_spec()}")
    for level in layers(eval_env):
        if isinstance(level, BatchWrapper) and "observation" in level.owns:
            raise ValueError(f"ppo: evaluations would not know the statistics of {level}: set normalize_observation")


# --- the network -----------------------------------------------------------------------------------------------------


class ActorCritic(nn.Module):
    """Two networks of tanh layers: inputs of the distribution ``[..., num_outputs]``, and the value ``[...]``.

    The last ``num_free`` of the inputs are the same for all observations.
    """

    num_outputs: int
    num_free: int
    hidden: tuple[int, ...]

    @nn.compact
    def __call__(self, x):
        def layers(x, num_outputs, scale):
            for width in self.hidden:
                x = nn.tanh(nn.Dense(width, kernel_init=nn.initializers.orthogonal(np.sqrt(2)))(x))
            return nn.Dense(num_outputs, kernel_init=nn.initializers.orthogonal(scale))(x)

        inputs, value = layers(x, self.num_outputs - self.num_free, 0.01), layers(x, 1, 1.0)[..., 0]
        free = self.param("free", nn.initializers.zeros, (self.num_free,))
        return jnp.concatenate([inputs, jnp.broadcast_to(free, (*value.shape, self.num_free))], axis=-1), value


def _flat(observation: Any, axes: int = 1) -> jax.Array:
    """A tree of observations ``[T, B, ...]`` (or ``[B, ...]``, as ``axes`` says) as float32 ``[T, B, n]``."""
    leaves = [x.reshape(*x.shape[:axes], -1).astype(jnp.float32) for x in jax.tree.leaves(observation)]
    return jnp.concatenate(leaves, axis=-1)


# --- distributions over actions --------------------------------------------------------------------------------------


class _Categorical(NamedTuple):
    """One of ``num_inputs`` actions, the first of which is ``first``."""

    num_inputs: int
    first: int

    @property
    def num_free(self):
        return 0

    def sample(self, logits, stream):
        return random.categorical(stream, jax.nn.softmax(logits)) + np.int32(self.first)

    def mode(self, logits):
        return jnp.argmax(logits, axis=-1).astype(jnp.int32) + np.int32(self.first)

    def log_probability(self, logits, action):
        place = (action - np.int32(self.first))[..., None]
        return jnp.take_along_axis(jax.nn.log_softmax(logits), place, axis=-1)[..., 0]

    def entropy(self, logits):
        return -jnp.sum(jax.nn.softmax(logits) * jax.nn.log_softmax(logits), axis=-1)


class _Gaussian(NamedTuple):
    """Independent normal numbers in the shape of the spec, as wide everywhere; the stack clips them to its bounds."""

    shape: tuple[int, ...]

    @property
    def num_inputs(self):
        return 2 * self.num_free

    @property
    def num_free(self):
        return int(np.prod(self.shape))

    def _moments(self, inputs):
        mean, log_std = jnp.split(inputs, 2, axis=-1)
        return mean, jnp.clip(log_std, -5.0, 1.0)

    def sample(self, inputs, stream):
        mean, log_std = self._moments(inputs)
        action = mean + jnp.exp(log_std) * random.normal(stream, mean.shape[1:])
        return action.reshape(-1, *self.shape)

    def mode(self, inputs):
        return self._moments(inputs)[0].reshape(-1, *self.shape)

    def log_probability(self, inputs, action):
        mean, log_std = self._moments(inputs)
        distance = (action.reshape(mean.shape) - mean) / jnp.exp(log_std)
        return jnp.sum(-0.5 * distance**2 - log_std - 0.5 * np.float32(np.log(2 * np.pi)), axis=-1)

    def entropy(self, inputs):
        return jnp.sum(self._moments(inputs)[1] + 0.5 * np.float32(np.log(2 * np.pi * np.e)), axis=-1)


def _distribution(spec: Any) -> _Categorical | _Gaussian:
    if isinstance(spec, specs.Bounded) and spec.is_discrete and spec.shape == ():
        return _Categorical(spec.num_values, int(spec.minimum))
    if specs.is_spec(spec) and spec.is_continuous:
        return _Gaussian(spec.shape)
    raise ValueError(f"ppo: actions must be one discrete number or continuous, got {spec}")
