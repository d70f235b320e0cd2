"""Gumbel AlphaZero: a network learns from a search with the true model, as one compiled function of a key.

Silver et al. (2018), doi:10.1126/science.aar6404, with the search of Danihelka et al. (2022, "Policy improvement by
planning with Gumbel"), which improves the policy with few simulations. The environment is the model: each simulation
steps it, and nothing is learned about its rules. In a game of turns the learner plays both sides. The policy learns the
search's distribution over actions, the value the outcome of the episode, or lambda-returns of the search's values.
Stochastic tasks are planned with random numbers of their own, so the search does not foresee chance; tasks of one agent
work as well.

The file reads from top to bottom and stands alone: the config, the state of a run, `make_train`, the policy, the
network. `mctx` searches.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import mctx
import numpy as np
import optax

import jaxenv
from jaxenv import data, interop, random, rollout, tree
from jaxenv.core.environment import Environment
from jaxenv.training import distributions, evaluation
from jaxenv.training.config import RunConfig
from jaxenv.training.evaluation import Curve as Curve
from jaxenv.training.lanes import DeviceLanes, PerLane, Train
from jaxenv.training.networks import MLP, Reader, orthogonal, patches
from jaxenv.wrappers import Opponent, StateInInfo


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(RunConfig):
    """The settings of a run; `RunConfig` has the others.

    Attributes:
        num_steps: steps of every lane between two updates.
        num_simulations: simulations of a search, steps of the model for each step of the environment.
        max_considered_actions: actions that the search considers at its root.
        num_epochs: passes over the rows of an update.
        num_minibatches: minibatches in a pass; must divide ``num_envs * num_steps``.
        learning_rate: Adam's initial learning rate; it falls to 0 linearly.
        lambda_: the target of a value: 1 for the outcome of the episode, 0 for the value that the search found one step
            later.
        value_cost: weight of the value loss.
        max_gradient_norm: gradients with a larger norm are scaled down to it.
        channels: filters of each convolution, 3x3, where the observation is a board.
        blocks: residual blocks of two convolutions, behind a first convolution.
        hidden: widths of the hidden layers of both heads.
    """

    env_id: str = "ConnectFour-v0"
    torso: Literal["auto", "mlp", "cnn"] = "cnn"
    total_steps: int = 200_000
    num_envs: int = 128
    num_steps: int = tree.static(default=32, low=1)
    num_simulations: int = tree.static(default=32, low=1)
    max_considered_actions: int = tree.static(default=16, low=1)
    num_epochs: int = tree.static(default=2, low=1)
    num_minibatches: int = tree.static(default=16, low=1)
    learning_rate: float = 2e-3
    gamma: float = 1.0
    lambda_: float = tree.leaf(default=1.0, low=0, high=1)
    value_cost: float = tree.leaf(default=1.0, low=0, below=np.inf)
    max_gradient_norm: float = tree.leaf(default=1.0, above=0, below=np.inf)
    hidden: tuple[int, ...] = (64,)
    channels: int = tree.static(default=32, low=1)
    blocks: int = tree.static(default=2, low=0)

    @property
    def rows_per_update(self) -> int:
        return self.num_envs * self.num_steps

    def check(self) -> None:
        if self.rows_per_update % self.num_minibatches:
            rule = f"num_minibatches must divide num_envs * num_steps = {self.rows_per_update}"
            raise ValueError(f"{self.owner}: {rule}, got {self.num_minibatches}")
        if self.normalize_observation:
            raise ValueError(f"{self.owner}: normalize_observation must be off, a search sees no statistics, got True")

    def make_env(self, num_envs: int = 1, mode: str = "train", **options: Any) -> Environment:
        """Makes the config's stack with `StateInInfo`; in a game of turns ``mode="eval"`` plays against random moves."""

        def with_state(env: Environment) -> Environment:
            shown = StateInInfo(env)
            return Opponent(shown, side="drawn") if mode == "eval" and env.turns else shown

        given = {"wrappers": (*self.wrappers, with_state), "mode": mode, **dict(self.env_options), **options}
        return jaxenv.load(self.env_id, num_envs, **given)


@tree.struct
class Learner:
    """The complete state of a run: saved and restored, it continues bit for bit.

    Attributes:
        params: the weights of the network.
        optimizer: the state of Adam.
        statistics: ``()``, observations are not normalised.
        env_state: the state of the environment, leaves ``[B, ...]``.
        timestep: the last TimeStep, ``[B]``.
        metrics: metrics of the episodes in progress and of the episodes that ended since the last evaluation.
        hyperparameters: the numbers of `RunConfig.hyperparameters`, float32 ``()`` each.
        key: the key of the run, a typed key ``()``.
        update: int32 ``()``, the number of updates so far.
    """

    params: Any
    optimizer: Any
    statistics: Any
    env_state: PerLane[Any]
    timestep: PerLane[jaxenv.TimeStep]
    metrics: PerLane[Any]
    hyperparameters: dict[str, jax.Array]
    key: jax.Array
    update: jax.Array


@tree.struct
class Losses:
    """Means over the valid rows of a minibatch, float32 ``()``.

    Attributes:
        policy_loss: the cross entropy of the policy with the search's distribution, in nats.
        value_loss: the squared error of the value, halved.
        entropy: the entropy of the search's distribution, in nats.
        improvement: the value that the search found, less the network's own.
    """

    policy_loss: jax.Array
    value_loss: jax.Array
    entropy: jax.Array
    improvement: jax.Array


@tree.struct
class _Batch:
    """Rows to learn from, ``[N, ...]`` each."""

    observation: Any
    mask: Any
    target: jax.Array  # the search's distribution over actions
    found: jax.Array  # its value
    return_: jax.Array
    valid: jax.Array


def make_train(
    config: Config,
    env: Environment | None = None,
    eval_env: Environment | None = None,
    mesh: jax.sharding.Mesh | None = None,
) -> Train[Learner]:
    """Makes Gumbel AlphaZero as one function of a key, ``train(key)``. `Train` describes the function and arguments.

    Raises:
        ValueError: for a stack without `StateInInfo`, as ``config.make_env`` makes it, for a task without discrete
            actions, and as the ``make_train`` of `ppo`.
    """
    env, eval_env = evaluation.environments(Config, config, env, eval_env, turns=True)
    lanes = DeviceLanes(config, mesh)
    network, read, search = model(config, env)
    heads: Callable[..., Any] = network.apply
    metrics = rollout.Metrics()
    fields = [f"env_info.{name}" for name in env.env_info_spec() if name != "state"]

    def optimizer(max_gradient_norm: Any) -> optax.GradientTransformation:
        clip_norm, adam = optax.clip_by_global_norm(max_gradient_norm), optax.scale_by_adam()
        return optax.flatten(optax.chain(clip_norm, adam))

    def init(key: jax.Array, hyperparameters: dict[str, jax.Array]) -> Learner:
        network_key, env_key, key = jax.random.split(key, 3)
        env_state, timestep = lanes.on_device(env).reset(env_key, lanes.numbers(env))
        params = network.init(network_key, read(timestep.observation))
        return Learner(
            params=params,
            optimizer=optimizer(config.max_gradient_norm).init(params),
            statistics=(),
            env_state=env_state,
            timestep=timestep,
            metrics=metrics.init(timestep),
            hyperparameters=hyperparameters,
            key=key,
            update=jnp.zeros((), jnp.int32),
        )

    # === 1. Collect: step all lanes with the search ===================================================================

    def collect(settings: Config, learner: Learner) -> tuple[Learner, rollout.Experience]:
        def policy(timestep: jaxenv.TimeStep, stream: random.Stream) -> rollout.PolicyStep:
            found = search(settings, learner.params, timestep, stream, explore=True)
            info = {
                "observation": read(timestep.observation),
                "target": found.action_weights,
                "value": found.search_tree.summary().value,
            }
            return rollout.PolicyStep(found.action, info=info)

        (env_state, last, _), rows = jaxenv.unroll(
            lanes.on_device(env),
            policy,
            learner.env_state,
            learner.timestep,
            config.num_steps,
            fields=["step_type", "reward", "discount", *fields, "policy_info"],
        )
        finished = metrics.update_rows(learner.metrics, rows.timestep)
        return dataclasses.replace(learner, env_state=env_state, timestep=last, metrics=finished), rows

    # === 2. Returns: what became of each row, in the view of its player ===============================================

    def returns(settings: Config, learner: Learner, rows: rollout.Experience) -> _Batch:
        last, info = learner.timestep, rows.policy_info
        _, last_value = heads(learner.params, read(last.observation))
        values = data.with_last(info["value"], last_value)
        timestep = rows.timestep
        if env.turns:  # in the view of player 0, for whom a move of player 1 is a step like any other
            players = data.with_last(timestep.env_info["player"], last.env_info["player"])
            sign = 1 - 2 * players.astype(jnp.float32)
            timestep, last = (dataclasses.replace(x, reward=x.reward[..., 0]) for x in (timestep, last))
        else:
            sign = jnp.ones_like(values)
        found = data.td_lambda(timestep, last, values * sign, gamma=settings.gamma, lambda_=settings.lambda_)
        mask = timestep.env_info.get("action_mask", ())
        valid = data.transition_mask(timestep, last)
        batch = _Batch(info["observation"], mask, info["target"], info["value"], found * sign[:-1], valid)
        return jax.tree.map(lambda x: x.reshape(valid.size, *x.shape[2:]), batch)

    # === 3. Optimise: imitate the search and predict the outcome ======================================================

    def loss(params: Any, settings: Config, batch: _Batch) -> tuple[jax.Array, Losses]:
        logits, values = heads(params, batch.observation)
        weight = lanes.weights(batch.valid)
        log_probability = jax.nn.log_softmax(distributions.masked(logits, batch.mask))
        cross_entropy = -jnp.sum(batch.target * log_probability, axis=-1)
        squared_error = 0.5 * (values - batch.return_) ** 2
        losses = Losses(
            policy_loss=jnp.sum(weight * cross_entropy),
            value_loss=jnp.sum(weight * squared_error),
            entropy=jnp.sum(weight * jax.scipy.special.entr(batch.target).sum(axis=-1)),
            improvement=jnp.sum(weight * (batch.found - values)),
        )
        return losses.policy_loss + settings.value_cost * losses.value_loss, losses

    def optimise(settings: Config, learner: Learner, batch: _Batch) -> tuple[Learner, Losses]:
        remaining = 1 - learner.update.astype(jnp.float32) / np.float32(config.num_updates)
        adam = optimizer(settings.max_gradient_norm)

        def descend(fitted: tuple[Any, Any], minibatch: _Batch) -> tuple[tuple[Any, Any], Losses]:
            params, state = fitted
            gradient, losses = lanes.mean(jax.grad(loss, has_aux=True)(params, settings, minibatch))
            direction, state = adam.update(gradient, state)
            rate = settings.learning_rate * remaining
            return (jax.tree.map(lambda p, d: p - rate * d, params, direction), state), losses

        def epoch(fitted: tuple[Any, Any], key: jax.Array) -> tuple[tuple[Any, Any], Losses]:
            return jax.lax.scan(descend, fitted, data.minibatches(key, batch, config.num_minibatches))

        keys = jax.random.split(jax.random.fold_in(learner.key, learner.update), config.num_epochs + 1)[1:]
        (params, state), losses = jax.lax.scan(epoch, (learner.params, learner.optimizer), keys)
        return dataclasses.replace(learner, params=params, optimizer=state), jax.tree.map(jnp.mean, losses)

    def update(learner: Learner, _: None) -> tuple[Learner, Losses]:
        settings = tree.rebuild(config, **learner.hyperparameters)
        collected, rows = collect(settings, learner)
        learner, losses = optimise(settings, collected, returns(settings, collected, rows))
        return dataclasses.replace(learner, update=learner.update + 1), losses

    def iteration(learner: Learner) -> tuple[Learner, Curve]:
        learner, losses = jax.lax.scan(update, learner, length=config.num_updates // config.num_evaluations)
        return evaluation.evaluate(lanes, eval_env, make_policy, learner, jax.tree.map(jnp.mean, losses))

    return lanes.train(env, Learner, Curve, init, iteration)


def make_policy(
    config: Config, env: Environment, params: Any, statistics: Any = (), explore: bool = False
) -> tuple[Callable, Any]:
    """Returns the policy of a learner and its ``initial_memory``; `evaluation.learned_policy` describes the arguments.

    It searches before each move, in a stack with `StateInInfo`. With ``explore`` the search draws the actions that it
    considers, as in training; without, it takes those that the network prefers.
    """
    evaluation.check_acting(Config, config, env, explore)
    network, read, search = model(config, env)

    def policy(timestep: jaxenv.TimeStep, stream: random.Stream, carried: Any) -> rollout.PolicyStep:
        weights, memory = carried
        found = search(config, weights.value, timestep, stream, explore)
        return rollout.PolicyStep(found.action, memory=(weights, memory))

    def init(timestep: jaxenv.TimeStep) -> Any:
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

    @nn.compact
    def __call__(self, observation: Any) -> tuple[jax.Array, jax.Array]:
        values = [number for number in self.reader.num_values if number]
        num_boards = sum(map(bool, self.reader.filters))
        boards, categories, numbers = np.split(np.arange(len(observation)), [num_boards, num_boards + len(values)])
        parts = [Tower(self.channels, self.blocks)(observation[i]) for i in boards]
        parts += [jax.nn.one_hot(observation[i], number) for i, number in zip(categories, values, strict=True)]
        parts += [observation[i].astype(jnp.float32) for i in numbers]
        x = jnp.concatenate(parts, axis=-1)
        logits = MLP(self.hidden, self.num_actions, 0.01, nn.relu, name="policy")(x)
        return logits, MLP(self.hidden, 1, 0.01, nn.relu, name="value")(x)[..., 0]


class Tower(nn.Module):
    """Turns boards ``[..., H, W, C]`` into features ``[..., n]`` by residual blocks of two 3x3 convolutions each."""

    channels: int
    blocks: int

    @nn.compact
    def __call__(self, board: jax.Array) -> jax.Array:
        x = board.reshape(-1, *board.shape[-3:]).astype(jnp.float32)
        x = nn.relu(self._convolved("first", x))
        for number in range(self.blocks):
            y = nn.relu(self._convolved(f"block{number}_in", x))
            x = nn.relu(x + self._convolved(f"block{number}_out", y, 0.1))
        return x.reshape(*board.shape[:-3], -1)

    def _convolved(self, name: str, x: jax.Array, scale: float = float(np.sqrt(2))) -> jax.Array:
        kernel = self.param(name, orthogonal(scale), (9 * x.shape[-1], self.channels), jnp.float32)
        bias = self.param(f"{name}_bias", nn.initializers.zeros, (self.channels,), jnp.float32)
        return _convolve(kernel, x) + bias


@jax.custom_vjp
def _convolve(kernel: jax.Array, x: jax.Array) -> jax.Array:
    """Convolves ``[N, H, W, C]`` with filters ``[9 * C, num]`` and zeros around the board.

    On a CPU a convolution is faster forwards, and the product with patches backwards.
    """
    filters = kernel.reshape(3, 3, x.shape[-1], -1)
    return jax.lax.conv_general_dilated(x, filters, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _on_patches(kernel: jax.Array, x: jax.Array) -> jax.Array:
    return patches(jnp.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)]), 3, 1) @ kernel


_convolve.defvjp(
    lambda kernel, x: (_convolve(kernel, x), (kernel, x)), lambda saved, gradient: jax.vjp(_on_patches, *saved)[1](gradient)
)


def model(config: Config, env: Environment) -> tuple[Network, Reader, Callable]:
    """Returns the network, its reader of observations, and the search.

    ``search(settings, params, timestep, stream, explore)`` returns mctx's output, with actions of the environment.
    """
    read = Reader.from_spec(config.learner, env.observation_spec(), config.torso)

    def predict(params: Any, key: jax.Array, state: Any, timestep: jaxenv.TimeStep) -> tuple[jax.Array, jax.Array]:
        return network.apply(params, read(timestep.observation))

    rules = interop.to_mctx(env, predict)
    if rules.env is env:
        raise ValueError(f"{config.learner}: env must have StateInInfo, as config.make_env makes it, got {env!r}")
    num_actions = env.action_spec().num_values
    network = Network(num_actions, config.hidden, read, config.channels, config.blocks)

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
            max_num_considered_actions=min(config.max_considered_actions, num_actions),
            gumbel_scale=float(explore),
        )
        return found.replace(action=rules.action(found.action))

    return network, read, search
