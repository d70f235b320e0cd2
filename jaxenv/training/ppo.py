"""Proximal policy optimisation: the whole of training as one compiled function of a key.

Schulman et al. (2017), arXiv:1707.06347, with generalised advantage estimation (2016, arXiv:1506.02438) and the details
that Huang et al. (2022, "The 37 implementation details of PPO") found to matter: orthogonal weights, advantages
normalised per minibatch, a learning rate that falls to 0, gradients clipped by their norm. Unlike most versions it
reads the ends of episodes from the TimeStep: a time limit is not a failure, and invalid transitions are masked out of
the loss. With ``recurrent`` a memory keeps earlier rows; the loss replays it, with the same restarts.

To change a learner, copy its file. What all of them share is in other files: the general settings (config.py), layers
and the optimiser (networks.py), distributions over actions (distributions.py), the loop over updates and evaluations
(evaluation.py), devices (lanes.py). ``docs/examples/ppo.py`` is PPO in one file.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxenv import data, random, rollout, tree
from jaxenv.core import Environment, TimeStep
from jaxenv.training import distributions, evaluation, memories, networks
from jaxenv.training.config import RunConfig
from jaxenv.training.evaluation import Curve as Curve
from jaxenv.training.lanes import DeviceLanes, PerLane, Train, weighted_sum
from jaxenv.training.networks import MLP, Reader, Torso, clipped_adam, dense


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(RunConfig):
    """The settings of a run; `RunConfig` has the others. The defaults learn CartPole-v1 within 300,000 steps.

    Attributes:
        num_epochs: passes over the rows of an update.
        num_minibatches: minibatches in a pass; must divide ``num_envs * num_steps``, with ``recurrent`` ``num_envs``.
        lambda_: decay rate of generalised advantage estimation.
        clip: the probability ratio is clipped to [1 - clip, 1 + clip].
        entropy_cost: weight of the entropy bonus.
        anneal_entropy: the weight of the entropy bonus falls to 0 linearly, like the learning rate. Where a task ends
            at the first mistake, a policy that keeps exploring never sees the late part of an episode.
        value_cost: weight of the value loss.
        clip_value: in the value loss, a value that an update has moved by more than ``clip`` counts as moved by
            ``clip``, where that makes its error larger. Its gradient is then zero, and cannot outweigh the policy's.
        max_gradient_norm: gradients with a larger norm are scaled down to it.
        normalize_advantage: bring the advantages of each minibatch to mean 0 and variance 1. Where rewards are rare,
            this turns the noise of a minibatch without rewards into large steps.
        activation: ``"tanh"`` or ``"relu"``, after each hidden layer.
        recurrent: width of the memory between the torso and the hidden layers; 0 for none.
        cell: the model of the memory: ``"gru"``, ``"mingru"`` or ``"gtrxl"`` behind a dense layer; the hidden layers
            read its input as well. ``"lstm"``: an LSTM; the hidden layers read its output alone. `memories.MODELS` has
            them.
        num_layers: layers of ``"mingru"`` and ``"gtrxl"``.
        num_heads: heads of the attention of ``"gtrxl"``; must divide ``recurrent``.
        window: rows before a row that ``"gtrxl"`` attends to, at most ``num_steps``.
        squash: continuous actions are squashed into their bounds by a tanh, instead of clipped.
        critic_only: the name of an entry of the observation, a dict, that the critic reads and the policy does not,
            such as ``"global_state"`` of `jaxenv.wrappers.AgentsAsLanes`: a centralised critic (Yu et al., 2022,
            arXiv:2103.01955). Both read the other entries.
    """

    num_steps: int = 64
    num_epochs: int = tree.static(default=8, low=1)
    num_minibatches: int = tree.static(default=4, low=1)
    gamma: float = 0.98
    lambda_: float = tree.leaf(default=0.9, low=0, high=1)
    clip: float = tree.leaf(default=0.2, above=0, below=np.inf)
    entropy_cost: float = tree.leaf(default=0.0, low=0, below=np.inf)
    anneal_entropy: bool = False
    value_cost: float = tree.leaf(default=0.5, low=0, below=np.inf)
    clip_value: bool = False
    max_gradient_norm: float = tree.leaf(default=0.5, above=0, below=np.inf)
    normalize_advantage: bool = True
    activation: Literal["tanh", "relu"] = "tanh"
    recurrent: int = tree.static(default=0, low=0)
    cell: str = "gru"
    num_layers: int = tree.static(default=1, low=1)
    num_heads: int = tree.static(default=4, low=1)
    window: int = tree.static(default=32, low=1)
    squash: bool = False
    critic_only: str = ""

    def check(self) -> None:
        memories.check(self)
        entries, of = (self.num_envs, "num_envs") if self.recurrent else (self.rows_per_update, "num_envs * num_steps")
        if entries % self.num_minibatches:
            raise ValueError(f"{self.owner}: num_minibatches must divide {of} = {entries}, got {self.num_minibatches}")


@tree.struct
class Learner(evaluation.Learner):
    """The state of a run; `evaluation.Learner` has the other fields."""

    memory: PerLane[Any]  # the memory of the network, leaves [B, ...]; () without one


@tree.struct
class Losses:
    """Means over the valid rows of a minibatch, float32 ``()``."""

    policy_loss: jax.Array  # the clipped surrogate loss
    value_loss: jax.Array  # the squared error of the critic, halved; with clip_value the larger of two
    entropy: jax.Array  # the entropy of the policy, in nats
    # Estimate of the divergence from the policy that collected the rows, mean of ratio - 1 - log(ratio).
    kl: jax.Array
    clip_fraction: jax.Array  # fraction of rows whose probability ratio lies outside the clipping range


def make_train(
    config: Config, env: Environment | None = None, eval_env: Environment | None = None, mesh: Mesh | None = None
) -> Train[Learner]:
    """Makes PPO as one function of a key, ``train(key)``. `Train` describes the function and the arguments."""
    env, eval_env = evaluation.environments(Config, config, env, eval_env)
    lanes = DeviceLanes(config, mesh)
    init, collect, advantages, optimise = make_stages(config, env, lanes)

    def update(settings: Config, learner: Learner) -> tuple[Learner, Losses]:
        collected, rows, last_observation = collect(learner, env)
        batch, _ = advantages(settings, learner.memory, collected, rows, last_observation)
        return optimise(settings, collected, batch)

    return evaluation.train(lanes, env, eval_env, Learner, make_policy, init, update)


class Stages(NamedTuple):
    """The parts of PPO, as `make_stages` returns them for the lanes of one device. Other learners are built of them.

    Attributes:
        init: a function of a key and `RunConfig.arrays` that returns the initial `Learner`.
        collect: a function of a learner and a stack that steps all lanes ``num_steps`` times. It returns the learner
            after these steps, the rows and the observation after them.
        advantages: a function of the settings, the memory before the rows, and what ``collect`` returned. It returns
            the batch to learn from, and the values and advantages of the rows, float32 ``[T, B]`` each.
        optimise: a function of the settings, a learner and a batch. It returns the new learner and the mean `Losses`.
    """

    init: Callable[..., Any]
    collect: Callable[..., Any]
    advantages: Callable[..., Any]
    optimise: Callable[..., Any]


def make_stages(config: Config, env: Environment, lanes: DeviceLanes) -> Stages:
    """Makes the stages of an update for a stack; ``lanes`` says which of its lanes this device steps."""
    pi, network, read, legal = model(config, env)
    heads: Callable[..., Any] = network.apply
    num_envs = lanes.per_device("num_envs")
    view = evaluation.normalizer(config, lanes.axis_name)

    def init(key: jax.Array, hyperparameters: dict[str, jax.Array]) -> Learner:
        return evaluation.begin(Learner, lanes, env, key, hyperparameters, untrained)

    def untrained(key: jax.Array, timestep: TimeStep) -> dict[str, Any]:
        memory = network.start(num_envs)
        params = network.init(key, *_one_row(read(timestep.observation), memory))
        adam = clipped_adam(config.max_gradient_norm, eps=1e-5)
        return {
            "params": params,
            "optimizer": adam.init(network.joined(params)),
            "statistics": view.init(timestep),
            "memory": memory,
        }

    # === 1. Collect: step all lanes with the exploring policy =========================================================

    def explore(params: Any) -> rollout.Policy:
        def policy(timestep: TimeStep, stream: random.Stream, memory: Any = ()) -> rollout.PolicyStep:
            observation, mask = read(timestep.observation), legal(timestep)
            inputs, value, memory = _step(heads, params, observation, mask, memory)
            sample = pi.sample(inputs, stream)
            info = {"observation": observation, "mask": mask, "sample": sample}
            if config.recurrent:
                info |= {"log_probability": pi.log_probability(inputs, sample), "value": value}
            return rollout.PolicyStep(pi.to_action(sample), memory, info)

        return policy

    def collect(learner: Learner, env: Environment) -> tuple[Learner, rollout.Experience, Any]:
        start = network.start(num_envs)
        policy, start = view.wrap_policy(explore(learner.params), learner.timestep, start, state=learner.statistics)
        fields = ["step_type", "reward", "discount", "env_info", "policy_info"]
        given = {"initial_memory": start, "memory": (start[0], learner.memory) if start else None}
        learner, memory, rows = evaluation.unrolled(
            lanes, env, policy, learner, config.num_steps, **given, fields=fields
        )
        statistics, memory = memory if start else ((), ())
        _, seen = view.frozen().transform_timestep(statistics, learner.timestep)
        learner = dataclasses.replace(learner, statistics=statistics, memory=memory)
        return learner, rows, read(seen.observation)

    # === 2. Advantages: a time limit bootstraps, a termination does not ===============================================

    def advantages(
        settings: Config, memory: Any, learner: Learner, rows: rollout.Experience, last_observation: Any
    ) -> tuple["_Batch", tuple[jax.Array, jax.Array]]:
        last, info = learner.timestep, rows.policy_info
        if config.recurrent:  # the memory after the rows has read them already
            next_row = jax.tree.map(lambda x: x[None], (last_observation, env.episode_starts(last)))
            _, last_value, _ = heads(learner.params, next_row[0], learner.memory, next_row[1])
            values, log_probability = jnp.concatenate([info["value"], last_value]), info["log_probability"]
        else:  # for all rows at once, in fewer kernels than row by row
            inputs, values, _ = heads(learner.params, data.with_last(info["observation"], last_observation))
            inputs = distributions.masked(inputs[:-1], info["mask"])
            log_probability = pi.log_probability(inputs, info["sample"])
        advantage, return_ = data.gae(rows.timestep, last, values, gamma=settings.gamma, lambda_=settings.lambda_)
        estimates, valid = (values[:-1], advantage), data.transition_mask(rows.timestep, last)
        old = values[:-1] if config.clip_value else ()
        batch = _Batch(
            info["observation"], info["mask"], info["sample"], log_probability, advantage, old, return_, valid
        )
        batch = data.mask_non_finite(batch, valid)
        if config.recurrent:  # whole lanes [B, T, ...], with the memory that they had before the unroll
            batch = jax.tree.map(
                lambda x: x.swapaxes(0, 1), dataclasses.replace(batch, starts=env.episode_starts(rows.timestep))
            )
            return dataclasses.replace(batch, memory=memory), estimates
        return jax.tree.map(lambda x: x.reshape(advantage.size, *x.shape[2:]), batch), estimates

    # === 3. Optimise: several epochs of minibatches ===================================================================

    def loss(params: Any, settings: Config, batch: "_Batch") -> tuple[jax.Array, jax.Array]:
        if jax.default_backend() != "gpu":  # where the layout of joint products costs more than launches
            params = network.parted(params)
        if config.recurrent:
            rows = jax.tree.map(lambda x: x.swapaxes(0, 1), dataclasses.replace(batch, memory=()))
            batch = dataclasses.replace(rows, memory=batch.memory)
        inputs, values, _ = heads(params, batch.observation, batch.memory, batch.starts)
        inputs = distributions.masked(inputs, batch.mask)
        mean = functools.partial(weighted_sum, batch.weight)
        log_ratio = pi.log_probability(inputs, batch.sample) - batch.log_probability
        log_ratio = jnp.where(batch.weight > 0, log_ratio, np.float32(0))  # in other rows the ratio may overflow
        ratio = jnp.exp(log_ratio)
        clipped = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
        surrogate = jnp.minimum(ratio * batch.advantage, clipped * batch.advantage)
        squared_error = 0.5 * (values - batch.return_) ** 2
        if config.clip_value:
            moved = jnp.clip(values - batch.value, -settings.clip, settings.clip)
            squared_error = jnp.maximum(squared_error, 0.5 * (batch.value + moved - batch.return_) ** 2)
        entropy = pi.entropy(inputs)
        total = mean(settings.value_cost * squared_error - surrogate - settings.entropy_cost * entropy)
        clipped_rows = (jnp.abs(ratio - 1) > settings.clip).astype(jnp.float32)
        recorded = jnp.stack([-surrogate, squared_error, entropy, ratio - 1 - log_ratio, clipped_rows])
        return total, jax.vmap(mean)(jax.lax.stop_gradient(recorded))  # the `Losses`, in few kernels

    def prepared(batch: "_Batch") -> "_Batch":
        weight, advantage = lanes.weights(batch.valid), batch.advantage
        mean = functools.partial(weighted_sum, weight)
        if config.normalize_advantage:
            advantage = advantage - lanes.mean(mean(advantage))
            advantage = advantage / (jnp.sqrt(lanes.mean(mean(advantage**2))) + 1e-8)
        return dataclasses.replace(batch, advantage=advantage, valid=(), weight=weight)

    def optimise(settings: Config, learner: Learner, batch: "_Batch") -> tuple[Learner, Losses]:
        remaining = 1 - learner.update.astype(jnp.float32) / np.float32(config.num_updates)
        if config.anneal_entropy:
            settings = tree.rebuild(settings, entropy_cost=settings.entropy_cost * remaining)
        adam = clipped_adam(settings.max_gradient_norm, eps=1e-5)

        def descend(fitted: tuple[Any, Any], minibatch: "_Batch") -> tuple[tuple[Any, Any], jax.Array]:
            params, state = fitted
            gradient, losses = lanes.mean(jax.grad(loss, has_aux=True)(params, settings, minibatch))
            direction, state = adam.update(gradient, state)
            rate = settings.learning_rate * remaining
            return (jax.tree.map(lambda p, d: p - rate * d, params, direction), state), losses

        def epoch(fitted: tuple[Any, Any], key: jax.Array) -> tuple[tuple[Any, Any], jax.Array]:
            # What does not depend on the params is computed for all minibatches at once, in fewer kernels.
            batches = jax.vmap(prepared)(data.minibatches(key, batch, config.num_minibatches))
            return jax.lax.scan(descend, fitted, batches)

        shuffle_key, _ = jax.random.split(jax.random.fold_in(learner.key, learner.update))
        keys = jax.random.split(shuffle_key, config.num_epochs)
        fitted = network.joined(learner.params), learner.optimizer
        (params, state), losses = jax.lax.scan(epoch, fitted, keys)
        return dataclasses.replace(learner, params=network.parted(params), optimizer=state), Losses(
            *losses.mean(axis=(0, 1))
        )

    return Stages(init, collect, advantages, optimise)


def make_policy(
    config: Config, env: Environment, params: Any, statistics: Any = (), explore: bool = False
) -> tuple[Callable, Any]:
    """Returns the policy of a learner and its ``initial_memory``; `evaluation.learned_policy` describes the arguments.

    Actions are the most probable ones; with ``explore`` they are sampled.
    """
    evaluation.check_acting(Config, config, env, explore)
    pi, network, read, legal = model(config, env)

    def policy(timestep: TimeStep, stream: random.Stream, carried: Any) -> rollout.PolicyStep:
        weights, memory = carried
        inputs, _, memory = _step(network.apply, weights.value, read(timestep.observation), legal(timestep), memory)
        action = pi.to_action(pi.sample(inputs, stream) if explore else pi.mode(inputs))
        return rollout.PolicyStep(action, memory=(weights, memory))

    start = network.start(env.num_envs)

    def init(timestep: TimeStep) -> Any:
        return network.init(jax.random.key(0), *_one_row(read(timestep.observation), start))

    return evaluation.learned_policy(config, env, policy, init, params, statistics, start)


@tree.struct
class _Batch:
    """Rows to learn from, ``[N, ...]`` each, or whole lanes ``[B, T, ...]``."""

    observation: Any
    mask: Any
    sample: jax.Array
    log_probability: jax.Array
    advantage: jax.Array
    value: Any
    return_: jax.Array
    valid: Any
    starts: Any = ()
    memory: Any = ()
    weight: Any = ()  # of valid rows, in a minibatch


# --- the network -----------------------------------------------------------------------------------------------------


class ActorCritic(nn.Module):
    """Computes the distribution's inputs ``[..., num_outputs]``, the values ``[...]`` and the new memory.

    Actor and critic are two separate networks. They share the convolutions that turn an image into features and, with
    ``make_memory``, a dense layer and a memory, which reads rows in order: all leaves are then ``[T, B, ...]``. They
    see the memory's output next to its input, so that they can react to a row before the memory has learned to keep it.
    An LSTM takes the place of both layers, and of the input. The last ``num_log_std`` inputs are log standard
    deviations, which do not depend on the observation. With a ``critic_reader`` only the critic reads the second of two
    observations. In an update both are one network, whose weights are `joined`; the state of Adam has their form.
    """

    num_outputs: int
    num_log_std: int
    hidden: tuple[int, ...]
    reader: Reader
    make_memory: Callable[[], memories.Memory] | None = None
    activation: str = "tanh"
    critic_reader: Reader | None = None

    @nn.compact
    def __call__(self, observation: Any, memory: Any = (), starts: Any = ()) -> tuple[jax.Array, jax.Array, Any]:
        activation = getattr(nn, self.activation)
        if self.critic_reader is not None:
            observation, of_critic = observation
        x = Torso(self.reader)(observation)
        if self.make_memory is not None:
            model = self.make_memory()
            if isinstance(model, memories.LSTM):
                memory, x = model(memory, x, starts)
            else:
                x = activation(dense(model.width)(x))
                memory, remembered = model(memory, x, starts)
                x = jnp.concatenate([x, remembered], axis=-1)
        if self.has_variable("params", "both"):
            inputs, values = networks.outputs_of_two(self.get_variable("params", "both"), x, activation)
            values = values[..., 0]
        else:
            inputs = MLP(self.hidden, self.num_outputs - self.num_log_std, 0.01, activation, name="actor")(x)
            if self.critic_reader is not None:
                x = jnp.concatenate([x, Torso(self.critic_reader)(of_critic)], axis=-1)
            values = MLP(self.hidden, 1, activation=activation, name="critic")(x)[..., 0]
        log_std = self.param("log_std", nn.initializers.zeros, (self.num_log_std,), jnp.float32)
        log_std = jnp.broadcast_to(log_std, (*values.shape, self.num_log_std))
        return jnp.concatenate([inputs, log_std], axis=-1), values, memory

    def joined(self, params: Any) -> Any:
        """Returns the params with actor and critic as one network, unless the critic reads more."""
        if self.critic_reader is not None:
            return params
        others = dict(params["params"])
        both = jax.tree.map(networks.stacked_weights, others.pop("actor"), others.pop("critic"))
        return {"params": {**others, "both": both}}

    def parted(self, params: Any) -> Any:
        """Inverts `joined`."""
        if self.critic_reader is not None:
            return params
        others = dict(params["params"])
        both, last = others.pop("both"), f"Dense_{len(self.hidden)}"
        actor, critic = jax.tree.map(lambda x: x[..., 0, :], both), jax.tree.map(lambda x: x[..., 1, :], both)
        critic[last] = jax.tree.map(lambda x: x[..., :1], critic[last])
        return {"params": {**others, "actor": actor, "critic": critic}}

    @nn.nowrap  # else Flax refuses a module that is made here
    def start(self, num_envs: int) -> Any:
        """Returns the memory at the start of an episode, leaves ``[B, ...]``; ``()`` without one."""
        return () if self.make_memory is None else self.make_memory().start(num_envs)


def _step(heads: Callable, params: Any, observation: Any, mask: Any, memory: Any) -> tuple[jax.Array, jax.Array, Any]:
    """Returns inputs, values and memory for one row of all lanes, ``[B, ...]``. Rollouts have restarted the memory."""
    inputs, values, new_memory = heads(params, *_one_row(observation, memory))
    if jax.tree.leaves(memory):
        inputs, values = inputs[0], values[0]
    return distributions.masked(inputs, mask), values, new_memory


def _one_row(observation: Any, memory: Any) -> tuple[Any, ...]:
    """Returns the arguments of the network for one row: a memory reads a time axis."""
    leaves = jax.tree.leaves(memory)
    if not leaves:
        return (observation,)
    return jax.tree.map(lambda x: x[None], observation), memory, jnp.zeros((1, leaves[0].shape[0]), bool)


def model(config: Config, env: Environment) -> tuple[distributions.Distribution, ActorCritic, Callable, Callable]:
    """Returns the distribution, the network, its reader of observations, and a function that finds legal actions."""
    spec = env.action_spec()
    pi = distributions.of_spec(config.learner, spec, config.squash)
    if config.squash and not isinstance(pi, distributions.TanhNormal):
        raise ValueError(f"{config.owner}: squash must be False for actions that are not floats, got True and {spec}")
    reader, of_critic, read = _readers(config, env.observation_spec())
    memory = functools.partial(memories.MODELS[config.cell], config) if config.recurrent else None
    network = ActorCritic(pi.num_inputs, pi.num_log_std, config.hidden, reader, memory, config.activation, of_critic)
    return pi, network, read, functools.partial(distributions.legal_actions, spec)


def _readers(config: Config, spec: Any) -> tuple[Reader, Reader | None, Callable[[Any], Any]]:
    """Returns the reader of the policy, what the critic reads besides, and the function that reads observations."""
    name, from_spec = config.critic_only, functools.partial(Reader.from_spec, config.learner, torso=config.torso)
    if not name:
        reader = from_spec(spec)
        return reader, None, reader
    entries = sorted(spec) if isinstance(spec, dict) else []
    if name not in entries or len(entries) == 1:
        rule = "critic_only must name one of several entries of the observation"
        hint = "AgentsAsLanes with global_state=True adds 'global_state'"
        raise ValueError(f"{config.owner}: {rule}, got {name!r} and the entries {entries}: {hint}")
    others = {key: x for key, x in spec.items() if key != name}
    reader, of_critic = from_spec(others), from_spec(spec[name])
    return reader, of_critic, lambda x: (reader({key: x[key] for key in others}), of_critic(x[name]))
