"""The lanes of a learner over the devices of a mesh: what each device has of its own, and what they average."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh
from jax.sharding import PartitionSpec as P

from jaxenv._util.checks import check_kind
from jaxenv.core.bases.batch_wrapper import summed_over
from jaxenv.core.environment import Environment, check_devices
from jaxenv.core.lanes import partition_specs
from jaxenv.core.timestep import TimeStep
from jaxenv.data.replay.replay_state import ReplayState
from jaxenv.rollout.metrics import Totals
from jaxenv.training.config import RunConfig

T = TypeVar("T")
AXIS = "lanes"

# The fields of a learner that lead with lanes, and those of its evaluations.
_PER_LANE = ("memory", "noise", "timestep", "metrics", "returns", "lengths", "terminated", "finished")


@dataclasses.dataclass(frozen=True)
class Lanes:
    """The lanes that a learner steps: all of them, or on a mesh those of one device.

    Weights are the same on all devices: each computes the gradient on its own rows, and their mean is applied on all.
    Without a mesh every method returns what it was given.

    Attributes:
        config: the settings of the run.
        mesh: a mesh with an axis ``"lanes"``, or ``None``.

    Raises:
        ValueError: if the mesh has no such axis, or its devices cannot share lanes and episodes of evaluations equally.
    """

    config: RunConfig
    mesh: Mesh | None

    def __post_init__(self):
        if self.mesh is not None:
            check_kind(self.config.owner, "mesh", self.mesh, (Mesh, AbstractMesh), f" with an axis {AXIS!r}")
        if self.mesh is not None and AXIS not in self.mesh.shape:
            raise ValueError(f"{self.config.owner}: mesh must have an axis {AXIS!r}, got {self.mesh.axis_names}")
        self.share("num_envs")
        self.share("num_eval_episodes")

    @property
    def devices(self) -> int:
        """The number of devices on the axis."""
        return 1 if self.mesh is None else self.mesh.shape[AXIS]

    @property
    def axis_name(self) -> str | None:
        """The mesh axis, for transformers and wrappers that sum over it."""
        return None if self.mesh is None else AXIS

    def share(self, name: str) -> int:
        """What one device has of a setting that counts lanes, rows or episodes.

        Raises:
            ValueError: if the devices cannot share it equally.
        """
        number = getattr(self.config, name)
        if number % self.devices:
            raise ValueError(f"{self.config.owner}: {self.devices} devices must divide {name}, got {number}")
        return number // self.devices

    def of(self, env: Environment) -> Environment:
        """The stack of one device's lanes."""
        numbers = self.numbers(env)
        return env if numbers is None else summed_over(env, AXIS).take(numbers)

    def reset(self, env: Environment, key: jax.Array) -> tuple[Any, TimeStep]:
        """``env.reset`` of one device's lanes, which keep the numbers that they have among all."""
        return self.of(env).reset(key, self.numbers(env))

    def numbers(self, env: Environment) -> jax.Array | None:
        """The numbers of one device's lanes among all, int32 ``[B]``; ``None`` without a mesh."""
        if self.mesh is None:
            return None
        check_devices(self.config.owner, env, self.devices)
        if env.num_envs % self.devices:
            raise ValueError(f"{self.config.owner}: {self.devices} devices must divide the lanes, got {env.num_envs}")
        count = env.num_envs // self.devices
        return jax.lax.axis_index(AXIS) * np.int32(count) + jnp.arange(count, dtype=jnp.int32)

    def own(self, key: jax.Array) -> jax.Array:
        """Another key on every device, to draw from rows that differ."""
        return key if self.mesh is None else jax.random.fold_in(key, jax.lax.axis_index(AXIS))

    def mean(self, values: T) -> T:
        """Means over the devices, such as that of gradients; values that do not depend on the weights, in a loss."""
        return values if self.mesh is None else jax.lax.pmean(values, AXIS)

    def weights(self, valid: jax.Array) -> jax.Array:
        """Weights ``[N]`` of rows for which sums, averaged over the devices, are means over all valid rows."""
        weight = valid.astype(jnp.float32)
        count = self.mean(weight.sum())
        return weight / jnp.where(count > 0, count, np.float32(1))

    def totals(self, totals: Totals) -> Totals:
        """The totals of all lanes."""
        return totals if self.mesh is None else totals.psum(AXIS)

    def over_devices(
        self, env: Environment, learner: type, curve: type, init: Callable, iteration: Callable
    ) -> tuple[Callable, Callable]:
        """The two functions of a learner over the whole mesh.

        Args:
            env: the stack to train on.
            learner: the class of what ``init`` returns.
            curve: the class of the evaluation that ``iteration`` returns too.
            init: of one device's lanes.
            iteration: of one device's lanes.
        """
        if self.mesh is None:
            return init, _checked(learner, iteration)
        specs = _specs(learner)
        specs = dataclasses.replace(specs, env_state=partition_specs(summed_over(env, AXIS).start_shapes()[0], AXIS))

        def init_of_device(key, hyperparameters):
            return _joined(init(key, hyperparameters))

        def iteration_of_device(learner):
            learner, evaluation = iteration(_own(learner))
            return _joined(learner), evaluation

        # Without the check of types, for which every constant in a learner would have to be marked as varying.
        over_mesh = functools.partial(jax.shard_map, mesh=self.mesh, check_vma=False)
        sharded = over_mesh(init_of_device, in_specs=(P(), P()), out_specs=specs)

        def init_over_mesh(key: jax.Array, hyperparameters: dict[str, Any] | None = None) -> Any:
            return sharded(key, hyperparameters)

        over_devices = over_mesh(iteration_of_device, in_specs=(specs,), out_specs=(specs, _specs(curve)))
        return init_over_mesh, _checked(learner, over_devices)


def _checked(kind: type, iteration: Callable) -> Callable:
    """The function of a learner of this class, which it checks."""

    def checked(learner):
        check_kind("iteration", "learner", learner, kind, ", as init and iteration return it")
        return iteration(learner)

    return checked


def _specs(cls: Any) -> Any:
    """The partition specs of the fields of a learner, or of its evaluations."""
    names = cls._fields if issubclass(cls, tuple) else [field.name for field in dataclasses.fields(cls)]
    specs: dict[str, Any] = {name: P(AXIS) if name in _PER_LANE else P() for name in names}
    if "buffer" in specs:
        pages = P(None, AXIS)  # [C / 16, B, 16, ...]
        specs["buffer"] = ReplayState(rows=pages, position=P(), origin=P(), sampling=P(AXIS))  # type: ignore[arg-type]
    return cls(**specs)


def _joined(learner: Any) -> Any:
    """A device's learner as a part of that of all: priorities, which span its lanes, get an axis of devices."""
    return _with_sampling(learner, lambda x: x[None])


def _own(learner: Any) -> Any:
    """The inverse of `_joined`."""
    return _with_sampling(learner, lambda x: x[0])


def _with_sampling(learner: Any, change: Callable) -> Any:
    if not hasattr(learner, "buffer"):
        return learner
    sampling = jax.tree.map(change, learner.buffer.sampling)
    return dataclasses.replace(learner, buffer=dataclasses.replace(learner.buffer, sampling=sampling))
