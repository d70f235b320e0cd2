"""Deep Q-learning: the whole of training as one compiled function of a key.

Mnih et al. (2015), doi:10.1038/nature14236, with double Q-learning (van Hasselt et al., 2016, arXiv:1509.06461) and, as
options, duelling networks (Wang et al., 2016, arXiv:1511.06581), targets over several steps, and prioritised replay
(Schaul et al., 2016, arXiv:1511.05952). The target network is a moving average of the online network (Lillicrap et al.,
2016, arXiv:1509.02971), and the learning rate falls to 0. The ends of episodes are read from the TimeStep: a time limit
is not a failure, the ignored action on a LAST row is not learned from, and a target is the maximum over legal actions.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from jaxenv import data, random, rollout, tree
from jaxenv.core import Environment, TimeStep
from jaxenv.training import distributions, evaluation
from jaxenv.training.config import RunConfig
from jaxenv.training.evaluation import Curve as Curve
from jaxenv.training.lanes import DeviceLanes, LaneBuffer, Train
from jaxenv.training.networks import MLP, Reader, Torso, clipped_adam

# The parts of a row that the buffer keeps.
_STORED = ("timestep.step_type", "timestep.reward", "timestep.discount", "timestep.observation", "action")
_STORED_INFO = ("action_mask", "abnormal")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(RunConfig):
    """The settings of a run; `RunConfig` has the others. The defaults learn CartPole-v1 within 50,000 steps.

    Attributes:
        num_gradient_steps: gradient steps of an update.
        batch_size: transitions of a gradient step.
        buffer_size: rows in the replay buffer, of all lanes together; rounded down to whole rows per lane.
        warmup_steps: rows of all lanes together collected at random at first; rounded down to whole rows per lane.
        n_step: number of rewards in a target.
        double: the online network chooses the action whose value the target network estimates.
        dueling: the network has separate layers for the value of a state and the advantages of actions.
        loss: ``"huber"``, linear for errors above 1, or ``"squared"``.
        priority_exponent: transitions are drawn in proportion to their error to this power; 0 draws all equally.
        importance_exponent: initial exponent of the weights that correct for priorities; it rises to 1 linearly.
        target_rate: rate of the moving average that is the target network, per gradient step; 1 copies the weights.
        max_gradient_norm: gradients with a larger norm are scaled down to it.
        epsilon_start: probability of a random action in the first update.
        epsilon_end: probability of a random action at the end, and of ``eval_explore``.
        exploration_fraction: fraction of the updates over which the probability falls linearly.
        initial_value: estimate of every value at the start. If it exceeds all reachable returns, the best action is the
            least explored one. This lasts where states share no weights: with ``hidden=()``, a table.
    """

    num_envs: int = 8
    num_steps: int = 8
    num_gradient_steps: int = tree.static(default=32, low=1)
    batch_size: int = tree.static(default=64, low=1)
    buffer_size: int = tree.static(default=10_000, low=1)
    warmup_steps: int = tree.static(default=1000, low=0)
    n_step: int = tree.static(default=4, low=1)
    double: bool = True
    dueling: bool = False
    loss: Literal["huber", "squared"] = "squared"
    learning_rate: float = 2.3e-3
    hidden: tuple[int, ...] = (128, 128)
    priority_exponent: float = tree.static(default=0.0, low=0, below=np.inf)
    importance_exponent: float = tree.leaf(default=0.4, low=0, high=1)
    target_rate: float = tree.leaf(default=0.01, above=0, high=1)
    max_gradient_norm: float = tree.leaf(default=10.0, above=0, below=np.inf)
    epsilon_start: float = tree.leaf(default=1.0, low=0, high=1)
    epsilon_end: float = tree.leaf(default=0.05, low=0, high=1)
    exploration_fraction: float = tree.leaf(default=0.16, above=0, below=np.inf)
    initial_value: float = tree.static(default=0.0, above=-np.inf, below=np.inf)

    @property
    def warmup_rows(self) -> int:
        """Rows of every lane before the first update."""
        return self.warmup_steps // self.num_envs

    @property
    def num_warmup_rows(self) -> int:
        return self.num_envs * self.warmup_rows

    def check(self) -> None:
        least = self.num_envs * max(self.warmup_rows, self.num_steps, self.n_step + 1)
        if self.buffer_size < least:
            needs = "for the warm-up, for num_steps rows and for a window of n_step + 1 rows of each lane"
            raise ValueError(f"{self.owner}: buffer_size must be at least {least}, {needs}, got {self.buffer_size}")
        if self.warmup_rows + self.num_steps <= self.n_step:
            least = self.num_envs * (self.n_step + 1 - self.num_steps)
            needs = f"so that the first update has transitions of n_step = {self.n_step} steps"
            raise ValueError(f"{self.owner}: warmup_steps must be at least {least}, {needs}, got {self.warmup_steps}")


@tree.struct
class Learner(evaluation.Learner):
    """The state of a run; `evaluation.Learner` has the other fields."""

    target: Any  # the weights of the target network
    buffer: LaneBuffer  # the `data.ReplayState`, which holds raw observations


@tree.struct
class Losses:
    """Means over the valid transitions of a batch, float32 ``()``."""

    loss: jax.Array  # the Huber loss or half the squared error, times the importance weight
    q_value: jax.Array  # the estimated value of the actions that were taken
    td_error: jax.Array  # the absolute difference between this value and its target


def make_train(
    config: Config, env: Environment | None = None, eval_env: Environment | None = None, mesh: Mesh | None = None
) -> Train[Learner]:
    """Makes DQN as one function of a key, ``train(key)``. `Train` describes the function and the arguments."""
    env, eval_env = evaluation.environments(Config, config, env, eval_env)
    pi, network, see = model(config, env)
    q_values: Callable[..., Any] = network.apply
    lanes = DeviceLanes(config, mesh)
    num_envs, batch_size = lanes.per_device("num_envs"), lanes.per_device("batch_size")
    view = evaluation.normalizer(config, lanes.axis_name)
    sampling: Any = data.UniformSampling()
    if config.priority_exponent:
        sampling = data.PrioritizedSampling(config.priority_exponent, length=config.n_step + 1)
    replay = data.Replay(config.buffer_size // config.num_envs, num_envs, pack_bits=True, sampling=sampling)
    normalized = data.TransformedReplay(replay, view)

    def init(key: jax.Array, hyperparameters: dict[str, jax.Array]) -> Learner:
        learner = evaluation.begin(Learner, lanes, env, key, hyperparameters, untrained)
        learner, rows = collect(learner, config.warmup_rows, np.float32(1))
        return dataclasses.replace(learner, buffer=replay.add(replay.init(rows), rows))

    def untrained(key: jax.Array, timestep: TimeStep) -> dict[str, Any]:
        params = network.init(key, see(timestep).observation[0])
        state, statistics = clipped_adam(config.max_gradient_norm, eps=1e-5).init(params), view.init(timestep)
        return {"params": params, "target": params, "optimizer": state, "statistics": statistics, "buffer": ()}

    def update(settings: Config, learner: Learner) -> tuple[Learner, Losses]:
        progress = learner.update.astype(jnp.float32) / np.float32(config.num_updates)
        learner, rows = collect(learner, config.num_steps, _epsilon(settings, progress))
        learner = dataclasses.replace(learner, buffer=replay.add(learner.buffer, rows))
        return learn(settings, progress, learner)

    # === 1. Collect: step all lanes, with a random action where a draw is below epsilon ===============================

    def collect(learner: Learner, num_steps: int, epsilon: Any) -> tuple[Learner, rollout.Experience]:
        params = learner.params

        def explore(timestep: TimeStep, stream: random.Stream) -> jax.Array:
            observation, mask = see(timestep).observation
            return pi.to_action(_epsilon_greedy(q_values(params, observation), mask, epsilon, stream))

        policy, start = view.wrap_policy(explore, learner.timestep, state=learner.statistics)
        learner, memory, rows = evaluation.unrolled(lanes, env, policy, learner, num_steps, initial_memory=start)
        learner = dataclasses.replace(learner, statistics=memory[0] if start else ())
        info = [f"timestep.env_info.{name}" for name in _STORED_INFO if name in learner.timestep.env_info]
        return learner, tree.select_fields(rows, [*_STORED, *info])

    # === 2. Learn: gradient steps on transitions from the buffer ======================================================

    def sample(settings: Config, learner: Learner, key: jax.Array, progress: jax.Array) -> tuple[Any, data.Batch]:
        exponent = settings.importance_exponent + (1 - settings.importance_exponent) * progress
        _, batch = normalized.sample(learner.statistics, learner.buffer, key, batch_size, config.n_step + 1, exponent)
        rows, last = batch.split()
        rows = dataclasses.replace(rows, timestep=jax.vmap(see)(rows.timestep))
        transitions = data.to_n_step_transitions(rows, see(last), config.n_step, settings.gamma)
        transitions = jax.tree.map(lambda x: x[0], transitions)
        return data.mask_non_finite(transitions, transitions.valid), batch

    def targets(settings: Config, learner: Learner, transitions: data.Transitions) -> jax.Array:
        observation, mask = transitions.next_observation
        values = q_values(learner.target, observation)
        chosen_by = q_values(learner.params, observation) if config.double else values
        value = _of_action(values, random.argmax(distributions.masked(chosen_by, mask)))
        return transitions.target(value, settings.gamma)

    def loss(params: Any, transitions: data.Transitions, target: jax.Array, weight: jax.Array) -> tuple[jax.Array, Any]:
        index = transitions.action.astype(jnp.int32) - np.int32(pi.first)
        q_value = _of_action(q_values(params, transitions.observation[0]), index)
        error = q_value - target
        each = weight * (optax.huber_loss(error) if config.loss == "huber" else 0.5 * error**2)
        mean = lanes.means(transitions.valid)
        losses = Losses(*map(mean, (each, q_value, jnp.abs(error))))
        return losses.loss, (losses, error)

    def learn(settings: Config, progress: jax.Array, learner: Learner) -> tuple[Learner, Losses]:
        adam = clipped_adam(settings.max_gradient_norm, eps=1e-5)
        rate = settings.learning_rate * (1 - progress)

        def descend(learner: Learner, key: jax.Array) -> tuple[Learner, Losses]:
            transitions, batch = sample(settings, learner, key, progress)
            target = targets(settings, learner, transitions)
            gradient, (losses, error) = jax.grad(loss, has_aux=True)(learner.params, transitions, target, batch.weight)
            gradient, losses = lanes.mean((gradient, losses))
            direction, state = adam.update(gradient, learner.optimizer)
            params = jax.tree.map(lambda p, d: p - rate * d, learner.params, direction)
            average = optax.incremental_update(params, learner.target, settings.target_rate)
            learner = dataclasses.replace(learner, params=params, target=average, optimizer=state)
            if config.priority_exponent:
                # Windows that are not transitions are not drawn again.
                buffer = replay.update_priorities(learner.buffer, batch, jnp.abs(error), transitions.valid)
                learner = dataclasses.replace(learner, buffer=buffer)
            return learner, losses

        sample_key, _ = jax.random.split(jax.random.fold_in(learner.key, learner.update))
        keys = jax.random.split(lanes.device_key(sample_key), config.num_gradient_steps)
        learner, losses = jax.lax.scan(descend, learner, keys)
        return learner, jax.tree.map(jnp.mean, losses)

    return evaluation.train(lanes, env, eval_env, Learner, make_policy, init, update)


def make_policy(
    config: Config, env: Environment, params: Any, statistics: Any = (), explore: bool = False
) -> tuple[Callable, Any]:
    """Returns the policy of a learner and its ``initial_memory``; `evaluation.learned_policy` describes the arguments.

    Actions are the best ones; with ``explore`` they are random with probability ``config.epsilon_end``.
    """
    evaluation.check_acting(Config, config, env, explore)
    pi, network, see = model(config, env)
    epsilon = jnp.float32(config.epsilon_end if explore else 0)

    def policy(timestep: TimeStep, stream: random.Stream, carried: Any) -> rollout.PolicyStep:
        weights, _ = carried
        observation, mask = see(timestep).observation
        values: Any = network.apply(weights.value, observation)
        action = _epsilon_greedy(values, mask, epsilon, stream)
        return rollout.PolicyStep(pi.to_action(action), memory=carried)

    def init(timestep: TimeStep) -> Any:
        return network.init(jax.random.key(0), see(timestep).observation[0])

    return evaluation.learned_policy(config, env, policy, init, params, statistics)


def _epsilon(settings: Config, progress: jax.Array) -> jax.Array:
    """Returns the probability of a random action: it falls from start to end over the exploration fraction."""
    left = jnp.maximum(1 - progress / settings.exploration_fraction, 0)
    return settings.epsilon_end + (settings.epsilon_start - settings.epsilon_end) * left


def _epsilon_greedy(q_values: jax.Array, mask: Any, epsilon: Any, stream: random.Stream) -> jax.Array:
    """Chooses indices of actions, int32 ``[B]``: with probability epsilon any legal one, else the best legal one."""
    legal = jnp.ones_like(q_values) if isinstance(mask, tuple) else mask.astype(jnp.float32)
    best = random.argmax(distributions.masked(q_values, mask))
    weights = epsilon * legal / jnp.maximum(legal.sum(axis=-1, keepdims=True), 1)
    return random.categorical(stream, weights=weights + (1 - epsilon) * jax.nn.one_hot(best, q_values.shape[-1]))


def _of_action(values: jax.Array, index: jax.Array) -> jax.Array:
    """Selects the entries ``[N]`` of values ``[N, n]`` by index."""
    return jnp.take_along_axis(values, index[:, None], axis=-1)[:, 0]


# --- the network -----------------------------------------------------------------------------------------------------


class QNetwork(nn.Module):
    """Computes the values of all actions, ``[..., num_actions]``: ReLU layers on the output of the `Torso`.

    With ``dueling`` two sets of layers compute the value of the state and the advantages of the actions, minus their
    mean. All values start near ``initial_value``.
    """

    num_actions: int
    hidden: tuple[int, ...]
    reader: Reader
    dueling: bool = False
    initial_value: float = 0.0

    @nn.compact
    def __call__(self, observation: Any) -> jax.Array:
        x = Torso(self.reader)(observation)
        bias = bool(self.hidden)  # the entries of a table are independent
        q_values = MLP(self.hidden, self.num_actions, 0.01, nn.relu, bias, name="actions")(x)
        if not self.dueling:
            return q_values + np.float32(self.initial_value)
        value = MLP(self.hidden, 1, 0.01, nn.relu, bias, name="state")(x)
        return value + q_values - q_values.mean(axis=-1, keepdims=True) + np.float32(self.initial_value)


def model(config: Config, env: Environment) -> tuple[distributions.Categorical, QNetwork, Callable]:
    """Returns the distribution, the network, and a function that makes the observation of rows ``[B]`` a pair.

    The pair is the input of the network and the mask of legal actions. In transitions both belong to the row that the
    action led to.
    """
    spec = env.action_spec()
    pi = distributions.of_spec(config.learner, spec)
    if not isinstance(pi, distributions.Categorical):
        wrapper = "the wrapper DiscretizeAction(num_actions=5,flatten=True) makes one integer of bounded floats"
        how = f"ppo learns it as it is, and {wrapper}"
        raise ValueError(f"{config.learner}: the action must be one integer, got {spec}: {how}")
    read = Reader.from_spec(config.learner, env.observation_spec(), config.torso)

    def see(timestep: TimeStep) -> TimeStep:
        pair = (read(timestep.observation), distributions.legal_actions(spec, timestep))
        return dataclasses.replace(timestep, observation=pair)

    return pi, QNetwork(pi.num_inputs, config.hidden, read, config.dueling, config.initial_value), see
