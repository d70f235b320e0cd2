"""Soft actor-critic for continuous actions: the whole of training as one compiled function of a key.

Haarnoja et al. (2018), arXiv:1801.01290, with twin critics and a learned temperature (2018, arXiv:1812.05905). The
policy is a normal distribution that a tanh squashes into the bounds of the action. It is rewarded for its entropy, in
proportion to a temperature that keeps the entropy near a target. Unlike most versions it reads the ends of episodes
from the TimeStep: a time limit is not a failure, and invalid transitions are masked out of the loss. With
``noise_correlation`` the noise of exploration persists over steps (Eberhard et al., 2023, "Pink noise is all you need",
ICLR), which tasks need that pay only after many consistent actions.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from jaxenv import data, random, rollout, specs, tree
from jaxenv.core import Environment, TimeStep
from jaxenv.training import evaluation
from jaxenv.training.config import RunConfig
from jaxenv.training.distributions import TanhNormal
from jaxenv.training.evaluation import Curve as Curve
from jaxenv.training.lanes import DeviceLanes, LaneBuffer, PerLane, Train
from jaxenv.training.networks import MLP, Reader, Torso, dense


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(RunConfig):
    """The settings of a run; `RunConfig` has the others. The defaults learn Pendulum-v1 within 20,000 steps.

    Attributes:
        num_gradient_steps: gradient steps of an update, each on a new batch.
        batch_size: transitions in a batch.
        buffer_size: rows in the replay buffer, of all lanes together; rounded down to whole rows per lane.
        warmup_steps: rows of all lanes together that uniform actions collect at first; rounded up to whole updates.
        target_rate: rate of the moving average of the critics' weights that the target critics use.
        temperature: weight of the entropy, or its initial value if it is learned.
        learn_temperature: whether the temperature is learned, so that the entropy approaches ``target_entropy``.
        target_entropy: target of the entropy in nats of actions from -1 to 1; ``None`` for minus their number.
        layer_norm: whether the critics normalise their hidden layers (Ba et al., 2016, arXiv:1607.06450), which keeps
            values from growing without bound where ``gamma`` is close to 1.
        noise_correlation: correlation of the noise of exploration between two steps of an episode. With 0 actions are
            independent samples of the policy. It applies to the warm-up too. Each single action keeps its distribution.
    """

    env_id: str = "Pendulum-v1"
    total_steps: int = 20_000
    num_envs: int = 4
    num_gradient_steps: int = tree.static(default=2, low=1)
    batch_size: int = tree.static(default=128, low=1)
    buffer_size: int = tree.static(default=102_400, low=1)
    warmup_steps: int = tree.static(default=1_000, low=1)
    learning_rate: float = 2e-3
    target_rate: float = tree.leaf(default=0.02, above=0, high=1)
    temperature: float = tree.leaf(default=1.0, above=0, below=np.inf)
    learn_temperature: bool = True
    target_entropy: float | None = tree.static(default=None, above=-np.inf, below=np.inf)
    layer_norm: bool = False
    noise_correlation: float = tree.leaf(default=0.0, low=0, high=1)

    @property
    def num_warmups(self) -> int:
        """Unrolls of uniform actions before the first update."""
        return -(-self.warmup_steps // self.rows_per_update)

    @property
    def num_warmup_rows(self) -> int:
        return self.num_warmups * self.rows_per_update

    def check(self) -> None:
        least = self.num_envs * max(self.num_steps, 2)
        if self.buffer_size < least:
            rule = f"at least num_envs * max(num_steps, 2) = {least}"
            raise ValueError(f"{self.owner}: buffer_size must be {rule}, got {self.buffer_size}")


@tree.struct
class Weights:
    """The quantities that gradient steps change."""

    actor: Any  # the weights of the policy's network
    critics: Any  # the weights of both critics, leaves [2, ...]
    log_temperature: jax.Array  # float32[]


@tree.struct
class Learner(evaluation.Learner):
    """The state of a run; `evaluation.Learner` has the other fields."""

    params: Weights
    target: Any  # the weights of the target critics, leaves [2, ...]
    buffer: LaneBuffer  # the `data.ReplayState`, which holds raw observations
    noise: PerLane[jax.Array]  # the noise of the last actions, float32[B, n]


@tree.struct
class Losses:
    """Means over the valid transitions of a batch, float32 ``()``."""

    actor_loss: jax.Array  # temperature * log(probability) - value of the policy's actions
    critic_loss: jax.Array  # the squared error of a critic, halved; the mean of both
    value: jax.Array  # the smaller of both critics' values of the policy's actions
    entropy: jax.Array  # the entropy of the policy in nats, where actions are measured from -1 to 1
    temperature: jax.Array  # the weight of the entropy


def make_train(
    config: Config, env: Environment | None = None, eval_env: Environment | None = None, mesh: Mesh | None = None
) -> Train[Learner]:
    """Makes SAC as one function of a key, ``train(key)``. `Train` describes the function and the arguments."""
    env, eval_env = evaluation.environments(Config, config, env, eval_env)
    pi, actor, critics, read = model(config, env)
    policy_inputs: Callable[..., Any] = actor.apply
    values: Callable[..., Any] = critics.apply
    target_entropy = np.float32(-pi.num_log_std if config.target_entropy is None else config.target_entropy)
    lanes = DeviceLanes(config, mesh)
    num_envs, batch_size = lanes.per_device("num_envs"), lanes.per_device("batch_size")
    view = evaluation.normalizer(config, lanes.axis_name)
    replay = data.Replay(config.buffer_size // config.num_envs, num_envs, pack_bits=True)
    seen = data.TransformedReplay(replay, view.frozen())
    adam = optax.flatten(optax.scale_by_adam())  # as one vector: small arrays would be a kernel each

    def init(key: jax.Array, hyperparameters: dict[str, jax.Array]) -> Learner:
        def untrained(key: jax.Array, timestep: TimeStep) -> dict[str, Any]:
            actor_key, critics_key = jax.random.split(key)
            noise, observation = jnp.zeros((num_envs, pi.num_log_std), jnp.float32), read(timestep.observation)
            params = Weights(
                actor=actor.init(actor_key, observation),
                critics=critics.init(critics_key, observation, noise),
                log_temperature=jnp.log(hyperparameters["temperature"]),
            )
            fields = {"params": params, "target": params.critics, "optimizer": adam.init(params)}
            return {**fields, "statistics": view.init(timestep), "buffer": (), "noise": noise}

        learner = evaluation.begin(Learner, lanes, env, key, hyperparameters, untrained)
        rows = jax.eval_shape(lambda learner: collect(learner, uniform=True)[1], learner)
        learner = dataclasses.replace(learner, buffer=replay.init(rows))

        def warm_up(learner: Learner, _: None) -> tuple[Learner, None]:
            return store(*collect(learner, uniform=True)), None

        # Here and not in the first updates, which would need a branch.
        return jax.lax.scan(warm_up, learner, length=config.num_warmups)[0]

    def update(settings: Config, learner: Learner) -> tuple[Learner, Losses]:
        return learn(settings, store(*collect(learner)))

    # === 1. Collect: step all lanes with the exploring policy =========================================================

    def collect(learner: Learner, uniform: bool = False) -> tuple[Learner, rollout.Experience]:
        weights, correlation = learner.params.actor, learner.hyperparameters["noise_correlation"]

        def explore(timestep: TimeStep, stream: random.Stream, noise: jax.Array) -> rollout.PolicyStep:
            noise = _next_noise(noise, env.episode_starts(timestep), stream, correlation)
            if uniform:
                unit = jax.lax.erf(noise * np.float32(np.sqrt(0.5)))  # the distribution function of a normal number
            else:
                unit = jnp.tanh(pi.displaced(policy_inputs(weights, read(timestep.observation)), noise))
            return rollout.PolicyStep(pi.scaled(unit), noise, unit)

        start = jnp.zeros_like(learner.noise)
        policy, start = view.wrap_policy(explore, learner.timestep, start, state=learner.statistics)
        fields = ["step_type", "reward", "discount", "observation", "env_info", "policy_info"]
        memory = {"initial_memory": start, "memory": (start[0], learner.noise)}
        learner, (statistics, noise), rows = evaluation.unrolled(
            lanes, env, policy, learner, config.num_steps, **memory, fields=fields
        )
        learner = dataclasses.replace(learner, statistics=statistics, noise=noise)
        # Of env_info, the learner reads only which rows are abnormal.
        env_info = {name: x for name, x in rows.timestep.env_info.items() if name == "abnormal"}
        return learner, dataclasses.replace(rows, timestep=dataclasses.replace(rows.timestep, env_info=env_info))

    def store(learner: Learner, rows: rollout.Experience) -> Learner:
        return dataclasses.replace(learner, buffer=replay.add(learner.buffer, rows))

    # === 2. Sample: transitions from the replay buffer, as the policy sees them =======================================

    def sample(learner: Learner, key: jax.Array) -> data.Transitions:
        _, windows = seen.sample(learner.statistics, learner.buffer, key, batch_size)
        batch = jax.tree.map(lambda x: x[0], data.to_transitions(*windows.split()))
        batch = data.mask_non_finite(batch, batch.valid)
        observation, next_observation = read(batch.observation), read(batch.next_observation)
        return dataclasses.replace(batch, observation=observation, next_observation=next_observation)

    # === 3. Learn: critics, actor and temperature at once =============================================================

    def loss(
        params: Weights, target: Any, settings: Config, batch: data.Transitions, key: jax.Array
    ) -> tuple[jax.Array, Losses]:
        fixed = jax.lax.stop_gradient(params)
        temperature: Any = jnp.exp(fixed.log_temperature) if config.learn_temperature else settings.temperature
        next_noise, noise = jax.random.normal(key, (2, batch_size, pi.num_log_std))

        def act(weights: Any, observation: Any, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
            inputs = policy_inputs(weights, observation)
            chosen = pi.displaced(inputs, noise)
            return jnp.tanh(chosen), pi.log_probability(inputs, chosen)

        action, log_p = act(fixed.actor, batch.next_observation, next_noise)
        next_values = values(target, batch.next_observation, action)
        goal = soft_target(batch, next_values, log_p, temperature, settings.gamma)
        squared_error = 0.5 * (values(params.critics, batch.observation, batch.policy_info) - goal[None]) ** 2

        action, log_p = act(params.actor, batch.observation, noise)
        value = jnp.min(values(fixed.critics, batch.observation, action), axis=0)
        cost = temperature * log_p - value

        mean = lanes.means(batch.valid)
        entropy = -mean(jax.lax.stop_gradient(log_p))
        actor_loss, critic_loss = mean(cost), mean(squared_error)
        total = actor_loss + critic_loss
        if config.learn_temperature:
            total += params.log_temperature * (entropy - target_entropy)
        return total, Losses(actor_loss, critic_loss / 2, mean(value), entropy, temperature)

    def learn(settings: Config, learner: Learner) -> tuple[Learner, Losses]:
        rate = settings.learning_rate * (1 - learner.update.astype(jnp.float32) / np.float32(config.num_updates))

        def descend(fitted: tuple[Weights, Any, Any], key: jax.Array) -> tuple[tuple[Weights, Any, Any], Losses]:
            params, target, state = fitted
            sample_key, noise_key = jax.random.split(key)
            batch = sample(learner, sample_key)
            gradient, losses = lanes.mean(jax.grad(loss, has_aux=True)(params, target, settings, batch, noise_key))
            direction, state = adam.update(gradient, state)
            params = jax.tree.map(lambda p, d: p - rate * d, params, direction)
            target = jax.tree.map(lambda old, new: old + settings.target_rate * (new - old), target, params.critics)
            return (params, target, state), losses

        learn_key, _ = jax.random.split(jax.random.fold_in(learner.key, learner.update))
        keys = jax.random.split(lanes.device_key(learn_key), config.num_gradient_steps)
        fitted = learner.params, learner.target, learner.optimizer
        (params, target, state), losses = jax.lax.scan(descend, fitted, keys)
        learner = dataclasses.replace(learner, params=params, target=target, optimizer=state)
        return learner, jax.tree.map(jnp.mean, losses)

    return evaluation.train(lanes, env, eval_env, Learner, make_policy, init, update)


def make_policy(
    config: Config, env: Environment, params: Weights, statistics: Any = (), explore: bool = False
) -> tuple[Callable, Any]:
    """Returns the policy of a learner and its ``initial_memory``; `evaluation.learned_policy` describes the arguments.

    Actions come from the mean before the tanh; with ``explore`` they are sampled, with the noise of training.
    """
    evaluation.check_acting(Config, config, env, explore)
    if not isinstance(params, Weights):
        kind = type(params).__name__
        raise ValueError(f"{config.learner}: params must be the Weights of one seed, learner.params, got a {kind}")
    pi, actor, _, read = model(config, env)

    def policy(timestep: TimeStep, stream: random.Stream, carried: Any) -> rollout.PolicyStep:
        weights, noise = carried
        noise = _next_noise(noise, env.episode_starts(timestep), stream, config.noise_correlation)
        inputs: Any = actor.apply(weights.value, read(timestep.observation))
        chosen = pi.displaced(inputs, noise) if explore else pi.mode(inputs)
        return rollout.PolicyStep(pi.to_action(chosen), memory=(weights, noise))

    def init(timestep: TimeStep) -> Any:
        return actor.init(jax.random.key(0), read(timestep.observation))

    noise = jnp.zeros((env.num_envs, pi.num_log_std), jnp.float32)
    return evaluation.learned_policy(config, env, policy, init, params.actor, statistics, noise)


def soft_target(
    batch: data.Transitions, next_values: jax.Array, log_p: jax.Array, temperature: Any, gamma: Any
) -> jax.Array:
    """Computes the critics' targets, float32 ``[N]``: they bootstrap past a time limit, not past a termination.

    ``next_values``, ``[2, N]``, are both target critics' values of new actions on the next observations, and ``log_p``,
    ``[N]``, the logarithms of these actions' probabilities.
    """
    return batch.target(jnp.min(next_values, axis=0) - temperature * log_p, gamma)


def _next_noise(noise: jax.Array, starts: jax.Array, stream: random.Stream, correlation: Any) -> jax.Array:
    """Draws standard normal numbers ``[B, n]`` that correlate with the previous step of the episode."""
    correlation = jnp.where(starts, np.float32(0), correlation)[:, None]
    fresh = random.normal(stream, noise.shape[1:])
    return correlation * noise + jnp.sqrt(1 - correlation**2) * fresh


# --- the networks ----------------------------------------------------------------------------------------------------


class Actor(nn.Module):
    """Computes the policy's inputs ``[B, 2 n]``, means and log standard deviations, by a network of ReLU layers."""

    num_inputs: int
    hidden: tuple[int, ...]
    reader: Reader

    @nn.compact
    def __call__(self, observation: Any) -> jax.Array:
        return MLP(self.hidden, self.num_inputs, 0.01, nn.relu)(Torso(self.reader)(observation))


class Critic(nn.Module):
    """Computes the values ``[B]`` of actions ``[B, n]``, measured from -1 to 1."""

    hidden: tuple[int, ...]
    reader: Reader
    layer_norm: bool

    @nn.compact
    def __call__(self, observation: Any, action: jax.Array) -> jax.Array:
        x = jnp.concatenate([Torso(self.reader)(observation), action], axis=-1)
        for width in self.hidden:
            x = dense(width)(x)
            x = nn.relu(nn.LayerNorm()(x) if self.layer_norm else x)
        return dense(1, 1.0)(x)[..., 0]


# Two critics with separate weights in one batched pass: the values are [2, B].
Critics: Any = nn.vmap(Critic, variable_axes={"params": 0}, split_rngs={"params": True}, in_axes=None, axis_size=2)


def model(config: Config, env: Environment) -> tuple[TanhNormal, Actor, Any, Reader]:
    """Returns the distribution, actor, critics, and the reader of observations."""
    spec = env.action_spec()
    continuous = isinstance(spec, specs.Bounded) and not spec.is_discrete
    if not (continuous and np.isfinite([spec.minimum, spec.maximum]).all()):
        rule = "the action must be one array of floats with finite bounds"
        raise ValueError(f"{config.learner}: {rule}, got {spec}: ppo learns other actions")
    pi = TanhNormal(spec)
    read = Reader.from_spec(config.learner, env.observation_spec(), config.torso)
    return pi, Actor(pi.num_inputs, config.hidden, read), Critics(config.hidden, read, config.layer_norm), read
