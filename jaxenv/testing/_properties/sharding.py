"""Lanes sharded over several devices."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxenv.core.environment import Environment
from jaxenv.core.lanes import partition_specs
from jaxenv.testing._compare import require_equal, take_lanes, to_numpy
from jaxenv.testing._programs import replay
from jaxenv.testing._stacks import LANES, with_strategy
from jaxenv.testing._subject import Subject
from jaxenv.testing.report import Failure, NotApplicable
from jaxenv.tree import Tree

_DEVICES = (2, 4)
_LANES = 8  # divisible by the numbers of devices
_COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-permute",
    "reduce-scatter",
    "collective-broadcast",
)


def sharding_invariant(subject: Subject) -> str:
    """Lanes sharded over 2 and 4 devices equal lanes on one device, and the step needs no cross-device communication.

    This holds for ``select`` under ``jit`` and for ``compact`` under ``shard_map``.
    """
    needed = max(_DEVICES)
    if len(jax.devices()) < needed:
        how = f"call jax.config.update('jax_num_cpu_devices', {needed}) before any computation"
        raise NotApplicable(f"needs {needed} devices: {how}")
    rollout, index = subject.rollout, np.arange(_LANES) % LANES
    env = subject.stack.take(jnp.asarray(index, jnp.int32))
    inputs, expected = take_lanes((rollout.before, rollout.actions), index), take_lanes(rollout.after, index)
    for count in _DEVICES:
        mesh = Mesh(np.array(jax.devices()[:count]), ("lanes",))
        for strategy, shard in (("select", _by_jit), ("compact", _by_shard_map)):
            chosen = with_strategy(env, strategy)
            placed = jax.tree.map(
                lambda x, spec, m=mesh: jax.device_put(x, NamedSharding(m, spec)), *_placement(chosen, inputs)
            )
            compiled = shard(mesh, chosen).lower(*placed).compile()
            if found := [name for name in _COLLECTIVES if name in compiled.as_text()]:
                hint = ": index an array of each lane under jax.vmap, not by the lanes" if "all-gather" in found else ""
                raise Failure(f"the step on {count} devices with {strategy} contains {found[0]}{hint}")
            labels = ("on one device", f"on {count} devices with {strategy}")
            require_equal(expected, to_numpy(compiled(*placed)), labels, tolerance=subject.rounding, first_step=1)
    return f"{' and '.join(map(str, _DEVICES))} devices"


def _placement(env: Environment, inputs: Tree) -> tuple[Tree, Tree]:
    """Returns the arguments of `replay` and their partition specs: leaves per lane are sharded, others replicated."""
    return (env, *inputs), (partition_specs(env), *jax.tree.map(lambda _: P(None, "lanes"), inputs))


def _by_jit(mesh: Mesh, env: Environment) -> Any:
    return jax.jit(replay, out_shardings=NamedSharding(mesh, P(None, "lanes")))


def _by_shard_map(mesh: Mesh, env: Environment) -> Any:
    steps = P(None, "lanes")
    return jax.jit(jax.shard_map(replay, mesh=mesh, in_specs=(partition_specs(env), steps, steps), out_specs=steps))
