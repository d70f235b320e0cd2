"""PPO in one file, to copy and change: ``python docs/examples/ppo.py`` learns CartPole-v1.

It is built of `jaxenv.unroll`, `jaxenv.data.gae` and optax, for vectors of floats and one integer as the action, and
makes the same update as `jaxenv.training.ppo`, which also has masks, memory, images, meshes and other actions. It needs
``pip install jaxenv optax``.
"""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

import jaxenv
from jaxenv import data, random, rollout


class Config(NamedTuple):
    """The settings of a run."""

    env_id: str = "CartPole-v1"
    total_steps: int = 200_000
    num_envs: int = 16
    num_steps: int = 64  # of every lane between two updates
    num_epochs: int = 8
    num_minibatches: int = 4
    learning_rate: float = 1e-3  # falls to 0 linearly
    gamma: float = 0.98
    lambda_: float = 0.9
    clip: float = 0.2
    entropy_cost: float = 0.0
    value_cost: float = 0.5
    max_gradient_norm: float = 0.5
    hidden: tuple[int, ...] = (64, 64)

    @property
    def num_updates(self) -> int:
        """Updates of a run."""
        return self.total_steps // (self.num_envs * self.num_steps)


class Learner(NamedTuple):
    """The state of a run."""

    params: Any
    optimizer: Any
    env_state: Any
    timestep: jaxenv.TimeStep


class Batch(NamedTuple):
    """Rows to learn from, ``[N, ...]`` each."""

    observation: jax.Array
    action: jax.Array
    log_probability: jax.Array
    advantage: jax.Array
    return_: jax.Array
    valid: jax.Array


# --- the networks ----------------------------------------------------------------------------------------------------


def init_network(key: jax.Array, widths: tuple[int, ...], last_scale: float) -> list[dict[str, jax.Array]]:
    """Initialises layers of these widths: orthogonal weights, biases of 0."""
    scales = [2**0.5] * (len(widths) - 2) + [last_scale]
    keys = jax.random.split(key, len(scales))
    return [
        {"kernel": jax.nn.initializers.orthogonal(scale)(key, shape), "bias": jnp.zeros(shape[1])}
        for key, scale, shape in zip(keys, scales, itertools.pairwise(widths), strict=True)
    ]


def apply(layers: list[dict[str, jax.Array]], x: jax.Array) -> jax.Array:
    """Applies the layers to ``[..., n]``, with a tanh after each but the last."""
    for number, layer in enumerate(layers):
        x = jnp.dot(jnp.tanh(x) if number else x, layer["kernel"])
        x = x + layer["bias"].reshape((1,) * (x.ndim - 1) + (-1,))
    return x


def init_params(config: Config, env: jaxenv.Environment, key: jax.Array) -> dict[str, Any]:
    """Initialises actor and critic."""
    actor_key, critic_key = jax.random.split(key)
    inputs, actions = env.observation_spec().shape[0], env.action_spec().num_values
    return {
        "actor": init_network(actor_key, (inputs, *config.hidden, actions), 0.01),
        "critic": init_network(critic_key, (inputs, *config.hidden, 1), 1.0),
    }


def log_probability(logits: jax.Array, action: jax.Array) -> jax.Array:
    """Returns the logarithm of the probability of each action, ``[...]`` for logits ``[..., n]``."""
    return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], axis=-1)[..., 0]


# --- an update: collect, advantages, optimise ------------------------------------------------------------------------


def collect(config: Config, env: jaxenv.Environment, learner: Learner) -> tuple[Learner, rollout.Experience]:
    """Steps all lanes with the policy; the rows are ``[T, B]``."""

    def policy(timestep: jaxenv.TimeStep, stream: random.Stream) -> rollout.PolicyStep:
        logits = apply(learner.params["actor"], timestep.observation)
        action = random.categorical(stream, logits=logits)
        return rollout.PolicyStep(action, info={"log_probability": log_probability(logits, action)})

    (env_state, last, _), rows = jaxenv.unroll(env, policy, learner.env_state, learner.timestep, config.num_steps)
    return learner._replace(env_state=env_state, timestep=last), rows


def batch_of(config: Config, params: Any, rows: rollout.Experience, last: jaxenv.TimeStep) -> Batch:
    """Computes advantages and returns: a time limit bootstraps, a termination does not."""
    values = apply(params["critic"], data.with_last(rows.timestep.observation, last.observation))[..., 0]
    advantage, return_ = data.gae(rows.timestep, last, values, gamma=config.gamma, lambda_=config.lambda_)
    valid = data.transition_mask(rows.timestep, last)  # False where the action was ignored, at a restart
    rows = rows.timestep.observation, rows.action, rows.policy_info["log_probability"]
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), Batch(*rows, advantage, return_, valid))


def loss(params: Any, config: Config, batch: Batch) -> jax.Array:
    """The clipped surrogate loss, the loss of the critic, and the bonus for entropy."""

    def mean(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(batch.valid, x, 0)) / jnp.maximum(jnp.sum(batch.valid), 1)

    logits, values = apply(params["actor"], batch.observation), apply(params["critic"], batch.observation)[..., 0]
    advantage = batch.advantage - mean(batch.advantage)
    advantage = advantage / (jnp.sqrt(mean(advantage**2)) + 1e-8)
    ratio = jnp.exp(log_probability(logits, batch.action) - batch.log_probability)
    clipped = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
    surrogate = jnp.minimum(ratio * advantage, clipped * advantage)
    entropy = -jnp.sum(jax.nn.softmax(logits) * jax.nn.log_softmax(logits), axis=-1)
    squared_error = 0.5 * (values - batch.return_) ** 2
    return mean(config.value_cost * squared_error - surrogate - config.entropy_cost * entropy)


def make_optimizer(config: Config) -> optax.GradientTransformation:
    """Makes Adam with clipped gradients and a rate that falls to 0."""
    num_steps = config.num_updates * config.num_epochs * config.num_minibatches
    rate = optax.linear_schedule(config.learning_rate, 0.0, num_steps)
    return optax.chain(optax.clip_by_global_norm(config.max_gradient_norm), optax.adam(rate, eps=1e-5))


def optimise(config: Config, learner: Learner, batch: Batch, key: jax.Array) -> Learner:
    """Takes a gradient step on each minibatch, in several epochs."""
    optimizer = make_optimizer(config)

    def descend(fitted: Any, minibatch: Batch) -> Any:
        params, state = fitted
        steps, state = optimizer.update(jax.grad(loss)(params, config, minibatch), state)
        return (optax.apply_updates(params, steps), state), None

    def epoch(fitted: Any, key: jax.Array) -> Any:
        return jax.lax.scan(descend, fitted, data.minibatches(key, batch, config.num_minibatches))

    fitted = learner.params, learner.optimizer
    (params, state), _ = jax.lax.scan(epoch, fitted, jax.random.split(key, config.num_epochs))
    return learner._replace(params=params, optimizer=state)


# --- a run -----------------------------------------------------------------------------------------------------------


def train(config: Config, key: jax.Array) -> Learner:
    """Trains and returns the last learner; jit it, or vmap it over keys."""
    env = jaxenv.make(config.env_id, num_envs=config.num_envs)
    params_key, env_key, key = jax.random.split(key, 3)
    params = init_params(config, env, params_key)
    learner = Learner(params, make_optimizer(config).init(params), *env.reset(env_key))

    def update(learner: Learner, key: jax.Array) -> tuple[Learner, None]:
        collected, rows = collect(config, env, learner)
        batch = batch_of(config, collected.params, rows, collected.timestep)
        return optimise(config, collected, batch, key), None

    return jax.lax.scan(update, learner, jax.random.split(key, config.num_updates))[0]


if __name__ == "__main__":
    config = Config()
    params = jax.jit(lambda key: train(config, key))(jax.random.key(0)).params
    env = jaxenv.make(config.env_id, num_envs=100, mode="eval")
    played = jaxenv.evaluate(
        env, lambda timestep, _: random.argmax(apply(params["actor"], timestep.observation)), jax.random.key(1)
    )
    print(f"mean return of 100 episodes: {played.returns.mean():.1f}")
