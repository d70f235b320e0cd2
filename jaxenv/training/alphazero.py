"""Gumbel AlphaZero: a network learns from a search with the true model, as one compiled function of a key.

Silver et al. (2018), doi:10.1126/science.aar6404, with the search of Danihelka et al. (2022, "Policy improvement by
planning with Gumbel"), which improves the policy with few simulations. The environment is the model: each simulation
steps it, and nothing is learned about its rules. In a game of turns the learner plays both sides. The policy learns the
search's distribution over actions, the value the outcome of the episode, or lambda-returns of the search's values.
Stochastic tasks are planned with other random numbers, so the search foresees no chance; one agent works, too.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import mctx
import numpy as np
from jax.sharding import Mesh

import jaxenv
from jaxenv import data, interop, random, rollout, tree
from jaxenv.core import Environment, TimeStep, layers
from jaxenv.training import distributions, evaluation
from jaxenv.training.config import RunConfig
from jaxenv.training.evaluation import Curve as Curve
from jaxenv.training.lanes import DeviceLanes, PerLane, Train
from jaxenv.training.networks import MLP, Reader, Torso, clipped_adam, orthogonal, patches
from jaxenv.wrappers import Opponent, StateInInfo


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(RunConfig):
    """The settings of a run; `RunConfig` has the others.

    Attributes:
        num_simulations: simulations of a search, steps of the model for each step of the environment.
        max_considered_actions: actions that the search considers at its root.
        buffer_size: rows to learn from, the latest of all lanes together; rounded down to whole updates.
        num_gradient_steps: gradient steps of an update.
        batch_size: rows of a gradient step.
        lambda_: the target of a value: 1 for the outcome of the episode, 0 for the search's value one step later.
        value_cost: weight of the value loss.
        value_scale: the size of a usual return; the network predicts returns divided by it.
        max_gradient_norm: gradients with a larger norm are scaled down to it.
        channels: filters of each convolution, 3x3, where the observation is a board.
        blocks: residual blocks of two convolutions, behind a first convolution.
        hidden: widths of the hidden layers of both heads.
    """

    env_id: str = "ConnectFour-v0"
    torso: Literal["auto", "mlp", "cnn"] = "cnn"
    total_steps: int = 400_000
    num_envs: int = 128
    num_steps: int = 32
    num_simulations: int = tree.static(default=32, low=1)
    max_considered_actions: int = tree.static(default=16, low=1)
    buffer_size: int = tree.static(default=65_536, low=1)
    num_gradient_steps: int = tree.static(default=64, low=1)
    batch_size: int = tree.static(default=512, low=1)
    learning_rate: float = 2e-3
    gamma: float = 1.0
    lambda_: float = tree.leaf(default=1.0, low=0, high=1)
    value_cost: float = tree.leaf(default=1.0, low=0, below=np.inf)
    value_scale: float = tree.static(default=1.0, above=0, below=np.inf)
    max_gradient_norm: float = tree.leaf(default=1.0, above=0, below=np.inf)
    hidden: tuple[int, ...] = (64,)
    channels: int = tree.static(default=32, low=1)
    blocks: int = tree.static(default=2, low=0)

    @property
    def updates_in_buffer(self) -> int:
        """Updates whose rows the buffer holds."""
        return self.buffer_size // self.rows_per_update

    def check(self) -> None:
        if not self.updates_in_buffer:
            rule = f"buffer_size must be at least num_envs * num_steps = {self.rows_per_update}"
            raise ValueError(f"{self.owner}: {rule}, got {self.buffer_size}")
        if self.normalize_observation:
            raise ValueError(f"{self.owner}: normalize_observation must be off, a search sees no statistics, got True")

    def make_env(self, num_envs: int | None = None, mode: str = "train", **options: Any) -> Environment:
        """Makes the stack with `StateInInfo`; in a game of turns ``mode="eval"`` plays against random moves."""

        def with_state(env: Environment) -> Environment:
            shown = StateInInfo(env)
            return Opponent(shown, side="drawn") if mode == "eval" and env.turns else shown

        return super().make_env(num_envs, mode, **{"wrappers": (*self.wrappers, with_state), **options})


@tree.struct
class Rows:
    """Rows to learn from, leaves ``[N, ...]``."""

    observation: Any
    mask: Any
    target: jax.Array  # the search's distribution over actions
    found: jax.Array  # its value
    return_: jax.Array
    valid: jax.Array


@tree.struct
class Learner(evaluation.Learner):
    """The state of a run; `evaluation.Learner` has the other fields."""

    rows: PerLane[Rows]  # the rows to learn from, leaves [buffer_size, ...]. Observations are not normalised


@tree.struct
class Losses:
    """Means over the valid rows of a minibatch, float32 ``()``."""

    policy_loss: jax.Array  # the cross entropy of the policy with the search's distribution, in nats
    value_loss: jax.Array  # the squared error of the value divided by value_scale, halved
    entropy: jax.Array  # the entropy of the search's distribution, in nats
    improvement: jax.Array  # the value that the search found, less the network's own


def make_train(
    config: Config, env: Environment | None = None, eval_env: Environment | None = None, mesh: Mesh | None = None
) -> Train[Learner]:
    """Makes Gumbel AlphaZero as one function of a key, ``train(key)``. `Train` describes the function and arguments.

    A stack has `StateInInfo`, as ``config.make_env`` makes it, and discrete actions.
    """
    env, eval_env = evaluation.environments(Config, config, env, eval_env, turns=True)
    lanes = DeviceLanes(config, mesh)
    network, read, search = model(config, env)
    heads: Callable[..., Any] = network.apply
    metrics = rollout.Metrics()
    fields = [f"env_info.{name}" for name in env.env_info_spec() if name != "state"]

    def of_first(timestep: TimeStep) -> TimeStep:
        """Returns rows with the rewards of player 0, for whom a move of player 1 is a step like any other."""
        return dataclasses.replace(timestep, reward=timestep.reward[..., 0]) if env.turns else timestep

    def init(key: jax.Array, hyperparameters: dict[str, jax.Array]) -> Learner:
        return evaluation.begin(Learner, lanes, env, key, hyperparameters, untrained)

    def untrained(key: jax.Array, timestep: TimeStep) -> dict[str, Any]:
        params = network.init(key, read(timestep.observation))
        fields = {"params": params, "optimizer": clipped_adam(config.max_gradient_norm).init(params)}
        return {**fields, "rows": empty(timestep), "metrics": metrics.init(of_first(timestep))}

    def empty(timestep: TimeStep) -> Rows:
        """Returns a buffer without a valid row."""
        count = config.updates_in_buffer * lanes.per_device("num_envs") * config.num_steps
        mask = distributions.legal_actions(env.action_spec(), timestep)
        observation, mask = jax.tree.map(
            lambda x: jnp.zeros((count, *x.shape[1:]), x.dtype), (read(timestep.observation), mask)
        )
        target, zeros = jnp.zeros((count, env.action_spec().num_values), jnp.float32), jnp.zeros(count, jnp.float32)
        return Rows(observation, mask, target, found=zeros, return_=zeros, valid=jnp.zeros(count, bool))

    # === 1. Collect: step all lanes with the search ===================================================================

    def collect(settings: Config, learner: Learner) -> tuple[Learner, rollout.Experience]:
        def policy(timestep: TimeStep, stream: random.Stream) -> rollout.PolicyStep:
            found = search(settings, learner.params, timestep, stream, explore=True)
            value, observation = found.search_tree.summary().value, read(timestep.observation)
            info = {"observation": observation, "target": found.action_weights, "value": value}
            return rollout.PolicyStep(found.action, info=info)

        given = lanes.on_device(env), policy, learner.env_state, learner.timestep, config.num_steps
        shown = ["step_type", "reward", "discount", *fields, "policy_info"]
        (env_state, last, _), rows = jaxenv.unroll(*given, fields=shown)
        finished = metrics.update_rows(learner.metrics, of_first(rows.timestep))
        return dataclasses.replace(learner, env_state=env_state, timestep=last, metrics=finished), rows

    # === 2. Returns: what became of each row, in the view of its player ===============================================

    def returns(settings: Config, learner: Learner, rows: rollout.Experience) -> Rows:
        last, info = learner.timestep, rows.policy_info
        _, last_value = heads(learner.params, read(last.observation))
        values = data.with_last(info["value"], last_value)
        timestep, last = of_first(rows.timestep), of_first(last)
        sign = jnp.ones_like(values)
        if env.turns:
            players = data.with_last(timestep.env_info["player"], last.env_info["player"])
            sign = 1 - 2 * players.astype(jnp.float32)
        return_ = data.td_lambda(timestep, last, values * sign, gamma=settings.gamma, lambda_=settings.lambda_)
        mask = distributions.legal_actions(env.action_spec(), timestep)
        valid = data.transition_mask(timestep, last)
        new = Rows(info["observation"], mask, info["target"], info["value"], return_ * sign[:-1], valid)
        new = data.mask_non_finite(new, valid)
        return jax.tree.map(lambda x: x.reshape(valid.size, *x.shape[2:]), new)

    # === 3. Optimise: imitate the search and predict the outcome ======================================================

    def loss(params: Any, settings: Config, batch: Rows) -> tuple[jax.Array, Losses]:
        logits, values = heads(params, batch.observation)
        mean = lanes.means(batch.valid)
        log_probability = jax.nn.log_softmax(distributions.masked(logits, batch.mask))
        cross_entropy = -jnp.sum(batch.target * log_probability, axis=-1)
        squared_error = 0.5 * ((values - batch.return_) / config.value_scale) ** 2
        losses = Losses(
            policy_loss=mean(cross_entropy),
            value_loss=mean(squared_error),
            entropy=mean(jax.scipy.special.entr(batch.target).sum(axis=-1)),
            improvement=mean(batch.found - values),
        )
        return losses.policy_loss + settings.value_cost * losses.value_loss, losses

    def optimise(settings: Config, learner: Learner, new: Rows) -> tuple[Learner, Losses]:
        # The rows of an update take the place of the oldest ones.
        per_update, size = new.valid.size, lanes.per_device("batch_size")
        place = learner.update % np.int32(config.updates_in_buffer) * np.int32(per_update)
        written = jax.lax.dynamic_update_slice_in_dim
        rows = jax.tree.map(lambda old, x: written(old, x, place, axis=0), learner.rows, new)
        stored = jnp.minimum(learner.update + 1, config.updates_in_buffer) * np.int32(per_update)
        remaining = 1 - learner.update.astype(jnp.float32) / np.float32(config.num_updates)
        adam = clipped_adam(settings.max_gradient_norm)

        def descend(fitted: tuple[Any, Any], key: jax.Array) -> tuple[tuple[Any, Any], Losses]:
            params, state = fitted
            index = jax.random.randint(lanes.device_key(key), (size,), 0, stored)
            batch = jax.tree.map(lambda x: x[index], rows)
            gradient, losses = lanes.mean(jax.grad(loss, has_aux=True)(params, settings, batch))
            direction, state = adam.update(gradient, state)
            rate = settings.learning_rate * remaining
            return (jax.tree.map(lambda p, d: p - rate * d, params, direction), state), losses

        keys = jax.random.split(jax.random.fold_in(learner.key, learner.update), config.num_gradient_steps + 1)[1:]
        (params, state), losses = jax.lax.scan(descend, (learner.params, learner.optimizer), keys)
        learner = dataclasses.replace(learner, params=params, optimizer=state, rows=rows)
        return learner, jax.tree.map(jnp.mean, losses)

    def update(settings: Config, learner: Learner) -> tuple[Learner, Losses]:
        collected, rows = collect(settings, learner)
        return optimise(settings, collected, returns(settings, collected, rows))

    return evaluation.train(lanes, env, eval_env, Learner, make_policy, init, update)


def make_policy(
    config: Config, env: Environment, params: Any, statistics: Any = (), explore: bool = False
) -> tuple[Callable, Any]:
    """Returns the policy of a learner and its ``initial_memory``; `evaluation.learned_policy` describes the arguments.

    It searches before each move, in a stack with `StateInInfo`. With ``explore`` the search draws the actions that it
    considers, as in training; without, it takes those that the network prefers.
    """
    evaluation.check_acting(Config, config, env, explore)
    network, read, search = model(config, env)

    def policy(timestep: TimeStep, stream: random.Stream, carried: Any) -> rollout.PolicyStep:
        weights, memory = carried
        found = search(config, weights.value, timestep, stream, explore)
        return rollout.PolicyStep(found.action, memory=(weights, memory))

    def init(timestep: TimeStep) -> Any:
        return network.init(jax.random.key(0), read(timestep.observation))

    return evaluation.learned_policy(config, env, policy, init, params, statistics)


# --- the network and the search --------------------------------------------------------------------------------------


class Network(nn.Module):
    """Computes the policy's logits ``[..., num_actions]`` and the values ``[...]``.

    Boards go through a residual tower (He et al., 2016, arXiv:1512.03385), everything else directly to both heads.
    """

    num_actions: int
    hidden: tuple[int, ...]
    reader: Reader
    channels: int
    blocks: int
    value_scale: float

    @nn.compact
    def __call__(self, observation: Any) -> tuple[jax.Array, jax.Array]:
        x = Torso(self.reader, Tower(self.channels, self.blocks))(observation)
        logits = MLP(self.hidden, self.num_actions, 0.01, nn.relu, name="policy")(x)
        return logits, MLP(self.hidden, 1, 0.01, nn.relu, name="value")(x)[..., 0] * self.value_scale


class Tower(nn.Module):
    """Turns boards ``[..., H, W, C]`` into features ``[..., n]`` by residual blocks of two convolutions each."""

    channels: int
    blocks: int

    @nn.compact
    def __call__(self, board: jax.Array) -> jax.Array:
        x = board.reshape(-1, *board.shape[-3:]).astype(jnp.float32)
        x = nn.relu(Convolution(self.channels)(x))
        for _ in range(self.blocks):
            y = nn.relu(Convolution(self.channels)(x))
            x = nn.relu(x + Convolution(self.channels, 0.1)(y))
        return x.reshape(*board.shape[:-3], -1)


class Convolution(nn.Module):
    """Convolves boards ``[N, H, W, C]`` with 3x3 filters and zeros around them."""

    num: int
    scale: float = float(np.sqrt(2))

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = self.param("kernel", orthogonal(self.scale), (9 * x.shape[-1], self.num), jnp.float32)
        return _convolve(kernel, x) + self.param("bias", nn.initializers.zeros, (self.num,), jnp.float32)


@jax.custom_vjp
def _convolve(kernel: jax.Array, x: jax.Array) -> jax.Array:
    """Convolves with the filters, ``[9 * C, num]``.

    On a CPU a convolution is faster forwards, and the product with patches backwards.
    """
    filters = kernel.reshape(3, 3, x.shape[-1], -1)
    return jax.lax.conv_general_dilated(x, filters, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _on_patches(kernel: jax.Array, x: jax.Array) -> jax.Array:
    return patches(jnp.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)]), 3, 1) @ kernel


_convolve.defvjp(
    lambda kernel, x: (_convolve(kernel, x), (kernel, x)),
    lambda saved, gradient: jax.vjp(_on_patches, *saved)[1](gradient),
)


def model(config: Config, env: Environment) -> tuple[Network, Reader, Callable]:
    """Returns the network, its reader of observations, and the search.

    ``search(settings, params, timestep, stream, explore)`` returns mctx's output, with actions of the environment.
    """
    read = Reader.from_spec(config.learner, env.observation_spec(), config.torso)

    def predict(params: Any, key: jax.Array, state: Any, timestep: TimeStep) -> tuple[jax.Array, jax.Array]:
        heads: Any = network.apply(params, read(timestep.observation))
        return heads

    if not any(isinstance(layer, StateInInfo) for layer in layers(env)):
        raise ValueError(f"{config.learner}: env must have StateInInfo, as config.make_env makes it, got {env!r}")
    rules = interop.to_mctx(env, predict)
    tower = config.channels, config.blocks
    network = Network(env.action_spec().num_values, config.hidden, read, *tower, config.value_scale)

    def search(settings: Config, params: Any, timestep: Any, stream: random.Stream, explore: bool) -> Any:
        discounted = dataclasses.replace(rules, gamma=settings.gamma)
        root_key, search_key = jax.random.split(random.jax_keys(stream)[0])
        found = mctx.gumbel_muzero_policy(
            params,
            search_key,
            discounted.root(params, root_key, timestep),
            discounted.recurrent_fn,
            config.num_simulations,
            rules.invalid_actions(timestep),
            max_num_considered_actions=config.max_considered_actions,
            gumbel_scale=float(explore),
        )
        return found.replace(action=rules.action(found.action))

    return network, read, search
