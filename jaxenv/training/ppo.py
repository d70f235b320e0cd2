"""Proximal policy optimisation: the whole of training as one compiled function of a key.

Schulman et al. (2017), arXiv:1707.06347, with generalised advantage estimation (2016, arXiv:1506.02438) and the details
that Huang et al. (2022, "The 37 implementation details of PPO") found to matter: orthogonal weights, advantages
normalised per minibatch, a learning rate that falls to 0, gradients clipped by their norm. Unlike most versions it
reads the ends of episodes from the TimeStep: a time limit is not a failure, and invalid transitions are masked out of
the loss.

The file is long because it is complete, to be copied and changed. It reads from top to bottom: the config,
`make_train`, and `make_iteration` with its four stages (collect, advantages, optimise, evaluate); then the network and
the distributions over actions. An environment is given by its id or as two stacks.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import _export, _source, data, random, rollout, specs, tree
from jaxenv._checks import Range, check_choice, check_real
from jaxenv._declared import check_option
from jaxenv._xla import in_sequence
from jaxenv.data import transformers
from jaxenv.environment import Environment
from jaxenv.timestep import TimeStep
from jaxenv.wrapper import layers
from jaxenv.wrappers import BatchWrapper

try:
    import flax.linen as nn
    import optax
except ImportError as missing:
    raise _source.missing("jaxenv.training", missing, "training") from missing


@dataclasses.dataclass(frozen=True)
class Config:
    """The settings of a run. The defaults learn CartPole-v1 within 300,000 steps.

    Attributes:
        env_id: an id for `jaxenv.load`.
        wrappers: the wrappers for `jaxenv.load`, innermost first: names, or pairs of a name and its options.
            Evaluations leave out those that own only the reward (``"NormalizeReward"``).
        normalize_observation: normalise observations by the running mean and variance of the run.
        total_steps: upper bound on the rows of all lanes together; rounded down to whole updates per evaluation.
        num_envs: number of lanes.
        num_steps: steps of every lane between two updates.
        num_epochs: passes over the rows of an update.
        num_minibatches: minibatches in a pass; must divide ``num_envs * num_steps``.
        learning_rate: Adam's initial learning rate; it falls to 0 linearly.
        gamma: discount rate.
        lambda_: decay rate of generalised advantage estimation.
        clip: the probability ratio is clipped to [1 - clip, 1 + clip].
        entropy_cost: weight of the entropy bonus.
        value_cost: weight of the value loss.
        max_gradient_norm: gradients with a larger norm are scaled down to it.
        hidden: widths of the hidden layers of actor and critic.
        torso: what reads the observation before these layers: ``"mlp"`` flattens it, ``"cnn"`` convolves an image
            ``[H, W]`` or ``[H, W, C]``; ``"auto"`` convolves images of at least 10 rows and columns.
        num_evaluations: number of evaluations, at equal intervals, the last one at the end.
        num_eval_episodes: whole episodes of each evaluation, without exploration.
        max_eval_steps: episodes of more steps are cut off and not counted.
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
    torso: Literal["auto", "mlp", "cnn"] = "auto"
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
                raise ValueError(f"ppo.Config: hidden must hold widths of at least 1, got {self.hidden!r}")
        check_choice("ppo.Config", "torso", self.torso, ("auto", "mlp", "cnn"))
        for name in ("gamma", "lambda_"):
            check_real("ppo.Config", name, getattr(self, name), 0, 1)
        for name in ("clip", "max_gradient_norm"):
            Range(above=0).check("ppo.Config", name, getattr(self, name))
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
        """Updates of a run, equally many before each evaluation."""
        return self.total_steps // (self.num_envs * self.num_steps * self.num_evaluations) * self.num_evaluations


@tree.struct
class Learner:
    """The complete state of a run: saved and restored, it continues bit for bit.

    Attributes:
        params: the weights of the network.
        optimizer: the state of Adam.
        statistics: the statistics of the observations, ``()`` if they are not normalised.
        env_state: the state of the environment, leaves ``[B, ...]``.
        timestep: the last TimeStep, ``[B]``.
        metrics: the metrics of the episodes in progress, and of those that ended since the last evaluation.
        key: the key of the run, a typed key ``()``.
        update: int32 ``()``, the number of updates so far.
    """

    params: Any
    optimizer: Any
    statistics: Any
    env_state: Any
    timestep: TimeStep
    metrics: Any
    key: jax.Array
    update: jax.Array


@_export.named_tuple
class Losses(NamedTuple):
    """Means over the valid rows of a minibatch, float32 ``()``.

    Attributes:
        policy: the clipped surrogate loss.
        value: the squared error of the critic, halved.
        entropy: the entropy of the policy, in nats.
        kl: estimate of the divergence from the policy that collected the rows, mean of ``ratio - 1 - log(ratio)``.
        clip_fraction: fraction of rows whose probability ratio lies outside the clipping range.
    """

    policy: jax.Array
    value: jax.Array
    entropy: jax.Array
    kl: jax.Array
    clip_fraction: jax.Array


@_export.named_tuple
class Curve(NamedTuple):
    """The evaluations of a run, ``[num_evaluations]`` each.

    Attributes:
        steps: int32, the number of rows of all lanes so far.
        train: metrics of `rollout.Metrics` over the episodes that ended since the previous evaluation, with the rewards
            of the training stack.
        losses: `Losses`, averaged over all minibatches since the previous evaluation.
        returns: float32 ``[num_evaluations, num_eval_episodes]``, of the policy without exploration.
        lengths: int32, same shape.
        terminated: bool, same shape, whether the task ended the episode.
        finished: bool, same shape; False where ``max_eval_steps`` or a non-finite row cut the episode off.
    """

    steps: jax.Array
    train: dict[str, Any]
    losses: Losses
    returns: jax.Array
    lengths: jax.Array
    terminated: jax.Array
    finished: jax.Array


def make_train(
    config: Config, env: Environment | None = None, eval_env: Environment | None = None
) -> Callable[[jax.Array], tuple[Learner, Curve]]:
    """Returns the whole training run as one function of a key, which can be jitted and vmapped over keys.

    Args:
        config: the settings of the run.
        env: a stack with ``num_envs`` lanes and ``next_step`` restarts; made from ``config.env_id`` by default.
        eval_env: the stack to evaluate on, given together with ``env``; its number of lanes must divide
            ``num_eval_episodes``.

    Returns:
        ``train(key)``, which returns the final learner and the curve. Under ``jax.vmap`` over N keys both have a
        leading axis ``[N, ...]``.
    """
    init, iteration = make_iteration(config, env, eval_env)

    def train(key: jax.Array) -> tuple[Learner, Curve]:
        return jax.lax.scan(lambda learner, _: iteration(learner), init(key), length=config.num_evaluations)

    return train


def make_iteration(
    config: Config, env: Environment | None = None, eval_env: Environment | None = None
) -> tuple[Callable[[jax.Array], Learner], Callable[[Learner], tuple[Learner, Curve]]]:
    """Splits the training run into equal iterations, for host loops that report or save after each one.

    Args:
        config: the settings of the run.
        env: as in `make_train`.
        eval_env: as in `make_train`.

    Returns:
        ``init(key)``, which returns the initial `Learner`, and ``iteration(learner)``, which runs the updates up to the
        next evaluation and returns the next learner and the evaluation: a `Curve` without its leading axis.
        `make_train` is ``config.num_evaluations`` iterations.
    """
    if env is None and eval_env is None:
        env = jaxenv.load(config.env_id, config.num_envs, wrappers=config.wrappers)
        eval_env = jaxenv.load(config.env_id, config.num_eval_episodes, wrappers=config.wrappers, mode="eval")
    if env is None or eval_env is None:
        raise ValueError("ppo: env and eval_env must be given together")
    _check(config, env, eval_env)
    pi, network, shown, view = _model(config, env)
    heads: Callable[..., Any] = network.apply
    metrics = rollout.Metrics()
    batch_size = config.num_envs * config.num_steps
    schedule = optax.linear_schedule(
        config.learning_rate, 0.0, config.num_updates * config.num_epochs * config.num_minibatches
    )
    optimizer = optax.chain(optax.clip_by_global_norm(config.max_gradient_norm), optax.adam(schedule, eps=1e-5))

    def init(key: jax.Array) -> Learner:
        random.check_typed(key)
        network_key, env_key, key = jax.random.split(key, 3)
        env_state, timestep = env.reset(env_key)
        params = network.init(network_key, shown(timestep.observation))
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

    def update(learner: Learner, _) -> tuple[Learner, Losses]:
        learner, rows, last_observation = collect(learner)
        batch = advantages(learner, rows, last_observation)
        learner, losses = optimise(learner, batch)
        return dataclasses.replace(learner, update=learner.update + 1), losses

    def iteration(learner: Learner) -> tuple[Learner, Curve]:
        learner, losses = jax.lax.scan(update, learner, length=config.num_updates // config.num_evaluations)
        return evaluate(learner, jax.tree.map(jnp.mean, losses))

    # === 1. Collect: step all lanes with the exploring policy =========================================================

    def explore(params):
        def policy(timestep, stream):
            observation = shown(timestep.observation)
            logits, _ = heads(params, observation)
            action = pi.sample(logits, stream)
            info = {"observation": observation, "log_probability": pi.log_probability(logits, action)}
            return rollout.PolicyStep(action, info=info)

        return policy

    def collect(learner: Learner) -> tuple[Learner, rollout.Experience, jax.Array]:
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
        _, seen = view.frozen().transform_timestep(statistics, last)
        learner = dataclasses.replace(
            learner,
            statistics=statistics,
            env_state=env_state,
            timestep=last,
            metrics=metrics.update_rows(learner.metrics, rows.timestep),
        )
        return learner, rows, shown(seen.observation)

    # === 2. Advantages: a time limit bootstraps, a termination does not ===============================================

    def advantages(learner: Learner, rows: rollout.Experience, last_observation: jax.Array) -> _Batch:
        observation, last = rows.policy_info["observation"], learner.timestep
        _, values = heads(learner.params, data.with_last(observation, last_observation))
        advantage, return_ = data.gae(rows.timestep, last, values, gamma=config.gamma, lambda_=config.lambda_)
        batch = _Batch(
            observation=observation,
            action=rows.action,
            log_probability=rows.policy_info["log_probability"],
            advantage=advantage,
            return_=return_,
            valid=data.transition_mask(rows.timestep, last),
        )
        return jax.tree.map(lambda x: x.reshape(batch_size, *x.shape[2:]), batch)

    # === 3. Optimise: several epochs of minibatches ===================================================================

    def loss(params, batch: _Batch) -> tuple[jax.Array, Losses]:
        logits, values = heads(params, batch.observation)
        valid = batch.valid.astype(jnp.float32)
        weight = valid / jnp.maximum(valid.sum(), 1)
        mean = jnp.sum(weight * batch.advantage)
        spread = jnp.sqrt(jnp.sum(weight * (batch.advantage - mean) ** 2))
        advantage = (batch.advantage - mean) / (spread + 1e-8)
        log_ratio = pi.log_probability(logits, batch.action) - batch.log_probability
        ratio = jnp.exp(log_ratio)
        clipped = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
        surrogate = jnp.minimum(ratio * advantage, clipped * advantage)
        squared_error = 0.5 * (values - batch.return_) ** 2
        entropy = pi.entropy(logits)
        total = jnp.sum(weight * (config.value_cost * squared_error - surrogate - config.entropy_cost * entropy))
        losses = Losses(
            policy=-jnp.sum(weight * surrogate),
            value=jnp.sum(weight * squared_error),
            entropy=jnp.sum(weight * entropy),
            kl=jnp.sum(weight * (ratio - 1 - log_ratio)),
            clip_fraction=jnp.sum(weight * (jnp.abs(ratio - 1) > config.clip)),
        )
        return total, losses

    def descend(fitted, minibatch: _Batch):
        params, state = fitted
        gradient, losses = jax.grad(loss, has_aux=True)(params, minibatch)
        change, state = optimizer.update(gradient, state)
        return (optax.apply_updates(params, change), state), losses

    def optimise(learner: Learner, batch: _Batch) -> tuple[Learner, Losses]:
        def epoch(fitted, key):
            return jax.lax.scan(descend, fitted, data.minibatches(key, batch, config.num_minibatches))

        shuffle_key, _ = jax.random.split(jax.random.fold_in(learner.key, learner.update))
        keys = jax.random.split(shuffle_key, config.num_epochs)
        (params, state), losses = jax.lax.scan(epoch, (learner.params, learner.optimizer), keys)
        return dataclasses.replace(learner, params=params, optimizer=state), jax.tree.map(jnp.mean, losses)

    # === 4. Evaluate: whole episodes without exploration ==============================================================

    def exploit(params):
        return lambda timestep, stream: pi.mode(heads(params, shown(timestep.observation))[0])

    def evaluate(learner: Learner, losses: Losses) -> tuple[Learner, Curve]:
        _, key = jax.random.split(jax.random.fold_in(learner.key, learner.update))
        _, timestep = jax.eval_shape(eval_env.reset, key)
        policy, memory = view.frozen().wrap_policy(exploit(learner.params), timestep, state=learner.statistics)
        episodes = rollout.evaluate(
            eval_env, policy, key, config.num_eval_episodes, initial_memory=memory, max_steps=config.max_eval_steps
        )
        curve = Curve(
            steps=learner.update * np.int32(batch_size),
            train=metrics.compute(metrics.totals(learner.metrics)),
            losses=losses,
            returns=episodes.returns,
            lengths=episodes.lengths,
            terminated=episodes.terminated,
            finished=episodes.finished & ~episodes.abnormal,
        )
        return dataclasses.replace(learner, metrics=metrics.clear_finished(learner.metrics)), curve

    return init, iteration


def make_policy(
    config: Config, env: Environment, params: Any, statistics: Any = (), explore: bool = False
) -> tuple[Callable, Any]:
    """The policy of a learner, for `jaxenv.unroll`, `jaxenv.evaluate` and `jaxenv.record`.

    Args:
        config: the settings of the run.
        env: the stack to act in, with any number of lanes ``[B]``.
        params: the weights, ``learner.params`` of one seed.
        statistics: ``learner.statistics``.
        explore: sample the actions, as in training, instead of taking the most probable ones.

    Returns:
        ``policy(timestep, stream, memory)`` and its ``initial_memory``, which holds weights and statistics. A function
        that was compiled with the memory of one learner runs with that of any other without recompiling.
    """
    pi, network, shown, view = _model(config, env)

    def policy(timestep, stream, weights):
        inputs: Any = network.apply(weights.value, shown(timestep.observation))[0]
        action = pi.sample(inputs, stream) if explore else pi.mode(inputs)
        return rollout.PolicyStep(action, memory=weights)

    _, timestep = jax.eval_shape(env.reset, jax.random.key(0))
    return view.frozen().wrap_policy(policy, timestep, tree.Shared(params), state=statistics)


def _model(config: Config, env: Environment) -> "tuple[_Categorical | _Gaussian, ActorCritic, Callable, Any]":
    """The distribution over actions, the network, the form in which it is shown observations, and their normaliser."""
    pi = _distribution(env.action_spec())
    filters = _filters(config.torso, env.observation_spec())
    network = ActorCritic(pi.num_inputs, pi.num_log_std, config.hidden, filters)
    view = transformers.ObservationNormalizer(clip=10.0) if config.normalize_observation else transformers.Identity()
    return pi, network, _image if filters else _flat, view


@tree.struct
class _Batch:
    """Rows to learn from, ``[N, ...]`` each."""

    observation: jax.Array
    action: jax.Array
    log_probability: jax.Array
    advantage: jax.Array
    return_: jax.Array
    valid: jax.Array


def _check(config: Config, env: Environment, eval_env: Environment) -> None:
    if env.autoreset != "next_step":
        raise ValueError(f"ppo: env must restart lanes by autoreset='next_step', got {env.autoreset!r} in {env}")
    if env.num_envs != config.num_envs:
        raise ValueError(f"ppo: config.num_envs is {config.num_envs}, {env} has {env.num_envs} lanes")
    for name in ("observation_spec", "action_spec"):
        ours, theirs = getattr(env, name)(), getattr(eval_env, name)()
        if ours != theirs:
            raise ValueError(f"ppo: env and eval_env must have the same {name}, got {ours} and {theirs}")
    if env.reward_spec().shape != ():
        raise ValueError(f"ppo: the reward must be one number per lane, got {env.reward_spec()}")
    for level in layers(eval_env):
        if isinstance(level, BatchWrapper) and "observation" in level.owns:
            raise ValueError(f"ppo: evaluation cannot share the statistics of {level}, set normalize_observation")


# --- the network -----------------------------------------------------------------------------------------------------


class ActorCritic(nn.Module):
    """Two networks of tanh layers: the distribution's inputs ``[..., num_outputs]`` and the value ``[...]``.

    The last ``num_log_std`` inputs are log standard deviations, which do not depend on the observation. With
    ``filters``, convolutions that both networks share turn an image ``[..., H, W, C]`` into features first.
    """

    num_outputs: int
    num_log_std: int
    hidden: tuple[int, ...]
    filters: tuple["_Filters", ...] = ()

    @nn.compact
    def __call__(self, x):
        def layers(x, num_outputs, scale):
            for width in self.hidden:
                x = nn.tanh(nn.Dense(width, kernel_init=_orthogonal(np.sqrt(2)))(x))
            return nn.Dense(num_outputs, kernel_init=_orthogonal(scale))(x)

        if self.filters:
            x = self._features(x)
        inputs, value = layers(x, self.num_outputs - self.num_log_std, 0.01), layers(x, 1, 1.0)[..., 0]
        log_std = self.param("log_std", nn.initializers.zeros, (self.num_log_std,))
        return jnp.concatenate([inputs, jnp.broadcast_to(log_std, (*value.shape, self.num_log_std))], axis=-1), value

    def _features(self, image):
        """A convolution as a dense layer on patches: on a CPU its gradient is 10 times faster than ``nn.Conv``'s."""
        scale, x = np.float32(1 / 255 if image.dtype == jnp.uint8 else 1), image
        for layer in self.filters:
            x = _patches(x, layer.side, layer.stride).astype(jnp.float32) * scale
            x, scale = nn.relu(nn.Dense(layer.num, kernel_init=_orthogonal(np.sqrt(2)))(x)), np.float32(1)
        return x.reshape(*x.shape[:-3], -1)


class _Filters(NamedTuple):
    """A convolution with ``num`` square filters of ``side`` pixels; ``stride`` must divide ``side``."""

    num: int
    side: int
    stride: int


# The networks of the first DQN (Mnih et al., 2013, arXiv:1312.5602) and for MinAtar (Young and Tian, 2019,
# arXiv:1903.03176).
_LARGE = (_Filters(16, 8, 4), _Filters(32, 4, 2))
_SMALL = (_Filters(16, 3, 1),)
_LEAST_PIXELS, _LEAST_LARGE = 10, 32


def _filters(torso: str, spec: Any) -> tuple[_Filters, ...]:
    """The convolutions for an observation, none where dense layers read it."""
    shape = spec.shape if torso != "mlp" and specs.is_spec(spec) and spec.ndim in (2, 3) else (0, 0)
    if min(shape[:2]) >= _LEAST_PIXELS:
        return _LARGE if min(shape[:2]) >= _LEAST_LARGE else _SMALL
    if len(shape) == 3 and min(shape[1:]) >= _LEAST_PIXELS:
        raise ValueError(f"ppo: the channels of an image must come last, as of FrameStack(axis=-1), got {spec}")
    if torso == "cnn":
        rule = f"an image [H, W] or [H, W, C] of at least {_LEAST_PIXELS} rows and columns"
        raise ValueError(f"ppo: the observation must be {rule} for torso='cnn', got {spec}")
    return ()


def _patches(image: jax.Array, side: int, stride: int) -> jax.Array:
    """All square patches of an image ``[..., H, W, C]``, ``stride`` apart: ``[..., h, w, side * side * C]``."""
    *batch, height, width, channels = image.shape
    rows, columns, blocks = height // stride, width // stride, side // stride
    # The image is cut into blocks of stride * stride pixels. A patch is blocks * blocks of them.
    image = image[..., : rows * stride, : columns * stride, :].reshape(*batch, rows, stride, columns, stride, channels)
    image = jnp.moveaxis(image, -4, -3).reshape(*batch, rows, columns, stride * stride * channels)
    h, w = rows - blocks + 1, columns - blocks + 1
    return jnp.concatenate([image[..., i : i + h, j : j + w, :] for i in range(blocks) for j in range(blocks)], axis=-1)


def _orthogonal(scale: float) -> Any:
    """Orthogonal weights, which seeds that are vmapped draw one after another."""
    initializer = nn.initializers.orthogonal(scale)
    return lambda key, shape, dtype: in_sequence(lambda key: initializer(key, shape, dtype))(key)


def _flat(observation: Any) -> jax.Array:
    """A tree of observations ``[B, ...]`` as one float32 array ``[B, n]``."""
    leaves = [x.reshape(x.shape[0], -1).astype(jnp.float32) for x in jax.tree.leaves(observation)]
    return jnp.concatenate(leaves, axis=-1)


def _image(observation: Any) -> jax.Array:
    """Images ``[B, H, W]`` or ``[B, H, W, C]`` as ``[B, H, W, C]``, in their own dtype: bytes are stored as bytes."""
    return observation[..., None] if observation.ndim == 3 else observation


# --- distributions over actions --------------------------------------------------------------------------------------


class _Categorical(NamedTuple):
    """A choice among ``num_inputs`` consecutive integers, starting at ``first``."""

    num_inputs: int
    first: int

    @property
    def num_log_std(self):
        return 0

    def sample(self, logits, stream):
        return random.categorical(stream, logits=logits) + np.int32(self.first)

    def mode(self, logits):
        return jnp.argmax(logits, axis=-1).astype(jnp.int32) + np.int32(self.first)

    def log_probability(self, logits, action):
        index = (action - np.int32(self.first))[..., None]
        return jnp.take_along_axis(jax.nn.log_softmax(logits), index, axis=-1)[..., 0]

    def entropy(self, logits):
        return -jnp.sum(jax.nn.softmax(logits) * jax.nn.log_softmax(logits), axis=-1)


class _Gaussian(NamedTuple):
    """Independent normal numbers in the shape of the spec; the standard deviation does not depend on the observation.

    Samples may lie outside the bounds of the spec. ``ClipAction`` in the stack clips them.
    """

    shape: tuple[int, ...]

    @property
    def num_inputs(self):
        return 2 * self.num_log_std

    @property
    def num_log_std(self):
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
    raise ValueError(f"ppo: the action must be one discrete number or a continuous array, got {spec}")
