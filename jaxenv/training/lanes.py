"""A training run, as returned by `make_train` of every learner, and its lanes on the devices of a mesh."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Generic, TypeVar, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh
from jax.sharding import PartitionSpec as P

from jaxenv import random, tree
from jaxenv._util.checks import check_kind
from jaxenv.core._checks.given import check_devices
from jaxenv.core.bases.stateful import summed_over
from jaxenv.core.environment import Environment
from jaxenv.core.lanes import partition_specs
from jaxenv.data.replay.replay_state import ReplayState
from jaxenv.training.config import RunConfig

T = TypeVar("T")
L = TypeVar("L")
AXIS = "lanes"


# Declare the fields of a learner that lead with the lanes, such as ``timestep: PerLane[TimeStep]``, and the one that
# holds a `ReplayState`, or ``()``. Over the devices of a mesh these are spread; all others are the same on each.
PerLane = Annotated[T, P(AXIS)]
_PAGES: Any = P(None, AXIS)  # [C / 16, B, 16, ...]
LaneBuffer = Annotated[Any, ReplayState(rows=_PAGES, position=P(), origin=P(), sampling=P(AXIS))]


@tree.struct
class Curve:
    """The evaluations of a run, ``[num_evaluations]`` each."""

    steps: jax.Array  # int32, the number of rows of all lanes so far
    # Metrics of `rollout.Metrics` over the episodes since the previous evaluation, in the training stack.
    train: dict[str, Any]
    losses: Any  # the learner's Losses, averaged over all minibatches since the previous evaluation
    # float32[num_evaluations, num_eval_episodes], of whole episodes; NaN where one was cut off.
    returns: PerLane[jax.Array]
    lengths: PerLane[jax.Array]  # int32, same shape; -1 where the episode was cut off
    terminated: PerLane[jax.Array]  # bool, same shape, whether the task ended the episode
    # bool, same shape; False where max_eval_steps or a non-finite row cut the episode off.
    finished: PerLane[jax.Array]


@dataclasses.dataclass(frozen=True, eq=False)
class Train(Generic[L]):
    """A whole training run as one function of a key, which can be jitted and vmapped: ``train(key)``.

    ``make_train(config, env, eval_env, mesh)`` of every learner returns it:

    - ``config``: the settings of the run.
    - ``env``: a stack with ``num_envs`` lanes and ``next_step`` restarts; made from ``config.env_id`` by default.
    - ``eval_env``: the stack to evaluate on, given together with ``env``; its number of lanes must divide
      ``num_eval_episodes``. ``make(mode="eval")`` makes one.
    - ``mesh``: a mesh with an axis ``"lanes"``: its devices share the lanes, equally many each, and the rows that a
      gradient step learns from. Each has a replay buffer for its own lanes.

    Attributes:
        config: the settings of the run.
        init: ``init(key, hyperparameters=None)`` returns the initial learner, after the warm-up if there is one.
        iteration: ``iteration(learner)`` runs the updates up to the next evaluation. It returns the next learner and
            the evaluation, a `Curve` without its leading axis. With ``init`` it splits the run, for host loops that
            report or save after each evaluation; a run is ``config.num_evaluations`` iterations.
    """

    config: RunConfig
    init: Callable[..., L]
    iteration: Callable[[L], tuple[L, Curve]]

    def __call__(self, key: jax.Array, hyperparameters: Mapping[str, Any] | None = None) -> tuple[L, Curve]:
        """Trains; returns the final learner and the `Curve`.

        ``hyperparameters`` are numbers that replace the config's, by the names in ``config.hyperparameters``; they may
        be traced. Under ``jax.vmap`` over N keys, or N values, both results lead with ``[N]``.
        """
        learner = self.init(key, hyperparameters)
        return jax.lax.scan(lambda learner, _: self.iteration(learner), learner, length=self.config.num_evaluations)


@dataclasses.dataclass(frozen=True)
class DeviceLanes:
    """The lanes that a learner steps: all lanes, or on a mesh the lanes of one device.

    Weights are the same on all devices: each computes the gradient on its own rows, and their mean is applied on all.
    Without a mesh every method returns its argument unchanged.
    """

    config: RunConfig  # the settings of the run
    mesh: Mesh | None  # its axis "lanes" shares lanes and episodes of evaluations equally

    def __post_init__(self) -> None:
        if self.mesh is not None:
            check_kind(self.config.owner, "mesh", self.mesh, (Mesh, AbstractMesh), f" with an axis {AXIS!r}")
            if AXIS not in self.mesh.shape:
                raise ValueError(f"{self.config.owner}: mesh must have an axis {AXIS!r}, got {self.mesh.axis_names}")
        self.per_device("num_envs")
        self.per_device("num_eval_episodes")

    @property
    def axis_name(self) -> str | None:
        """The mesh axis, for transformers and wrappers that sum over it."""
        return None if self.mesh is None else AXIS

    @property
    def devices(self) -> int:
        """The number of devices on the axis."""
        return 1 if self.mesh is None else self.mesh.shape[AXIS]

    def per_device(self, name: str) -> int:
        """Divides a setting that counts lanes, rows or episodes equally among the devices."""
        number = getattr(self.config, name)
        if number % self.devices:
            raise ValueError(f"{self.config.owner}: {self.devices} devices must divide {name}, got {number}")
        return number // self.devices

    def on_device(self, env: Environment) -> Environment:
        """Returns the stack with the lanes of one device."""
        numbers = self.numbers(env)
        return env if numbers is None else summed_over(env, AXIS).take(numbers)

    def numbers(self, env: Environment) -> jax.Array | None:
        """Returns the global numbers of one device's lanes, int32 ``[B]``; ``None`` without a mesh."""
        if self.mesh is None:
            return None
        check_devices(self.config.owner, env, self.devices)
        if env.num_envs % self.devices:
            raise ValueError(f"{self.config.owner}: {self.devices} devices must divide the lanes, got {env.num_envs}")
        count = env.num_envs // self.devices
        return jax.lax.axis_index(AXIS) * np.int32(count) + jnp.arange(count, dtype=jnp.int32)

    def device_key(self, key: jax.Array) -> jax.Array:
        """Folds the number of the device into a key, so that devices draw different rows."""
        return key if self.mesh is None else jax.random.fold_in(key, jax.lax.axis_index(AXIS))

    def mean(self, values: T) -> T:
        """Averages over the devices: gradients, or values in a loss that do not depend on the weights."""
        return values if self.mesh is None else jax.lax.pmean(values, AXIS)

    def weights(self, valid: jax.Array) -> jax.Array:
        """Returns the weights of rows in a mean over the valid ones, float32 in the shape of ``valid``."""
        weight = valid.astype(jnp.float32)
        count = self.mean(weight.sum())
        return weight / jnp.where(count > 0, count, np.float32(1))

    def means(self, valid: jax.Array) -> Callable[[jax.Array], jax.Array]:
        """Returns the function `weighted_sum` with the weights of ``valid``."""
        return functools.partial(weighted_sum, self.weights(valid))

    def train(
        self, env: Environment, learner: type[L], curve: type, init: Callable[..., L], iteration: Callable[..., Any]
    ) -> Train[L]:
        """Builds the run of a learner over the whole mesh from two functions of one device's lanes.

        ``init``, of a key and `RunConfig.arrays`, returns a ``learner``, whose fields `PerLane` and `LaneBuffer`
        annotate; ``iteration``, of the learner, also returns a ``curve``.
        """
        if self.mesh is not None:
            state_specs = partition_specs(summed_over(env, AXIS).start_shapes()[0], AXIS)
            specs = dataclasses.replace(_specs(learner), env_state=state_specs)
            # The check of varying types is off: it would require marking every constant in a learner as varying.
            over_mesh = functools.partial(jax.shard_map, mesh=self.mesh, check_vma=False)
            of_device, next_of_device = init, iteration

            def joined_init(key: jax.Array, hyperparameters: dict[str, jax.Array]) -> L:
                return _with_sampling(of_device(key, hyperparameters), lambda x: x[None])

            def joined_iteration(learner: L) -> tuple[L, Any]:
                learner, evaluation = next_of_device(_with_sampling(learner, lambda x: x[0]))
                return _with_sampling(learner, lambda x: x[None]), evaluation

            init = over_mesh(joined_init, in_specs=(P(), P()), out_specs=specs)
            iteration = over_mesh(joined_iteration, in_specs=(specs,), out_specs=(specs, _specs(curve)))

        def checked_init(key: jax.Array, hyperparameters: Mapping[str, Any] | None = None) -> L:
            random.check_one("train", key)
            return init(key, self.config.arrays(hyperparameters))

        def checked_iteration(given: L) -> tuple[L, Any]:
            check_kind("iteration", "learner", given, learner, ", as init and iteration return it")
            return iteration(given)

        return Train(self.config, checked_init, checked_iteration)


def weighted_sum(weight: jax.Array, x: jax.Array) -> jax.Array:
    """Sums rows ``x``, ``[..., N]``, times their weights ``[N]``. Rows of weight 0 may be NaN.

    With `DeviceLanes.weights`, and averaged over the devices, the result is the mean over all valid rows.
    """
    mask, weights = (jnp.broadcast_to(y, x.shape) for y in (weight > 0, weight))
    return jnp.sum(weights * jnp.where(mask, x, np.float32(0)))


def _specs(cls: Any) -> Any:
    """Returns the partition specs of the fields of a learner, or of its evaluations."""
    hints = get_type_hints(cls, include_extras=True)
    return cls(**{name: getattr(hint, "__metadata__", [P()])[0] for name, hint in hints.items()})


def _with_sampling(learner: Any, change: Callable) -> Any:
    """Changes the layout of the learner's priorities, which span the lanes of a device: ``[1, ...]`` on a mesh."""
    if not hasattr(learner, "buffer"):
        return learner
    sampling = jax.tree.map(change, learner.buffer.sampling)
    return dataclasses.replace(learner, buffer=dataclasses.replace(learner.buffer, sampling=sampling))
