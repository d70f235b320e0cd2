"""Lanes sharded over several devices."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxenv.core.lanes import partition_specs
from jaxenv.testing._compare import take_lanes, to_numpy
from jaxenv.testing._programs import quick_options, replayed
from jaxenv.testing._stacks import LANES, with_strategy
from jaxenv.testing._subject import Subject
from jaxenv.testing.report import Failure, NotApplicable

_DEVICES = {"select": 2, "compact": 4}  # by restart strategy
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
    """Lanes sharded over several devices equal lanes on one device, and the step needs no cross-device communication.

    This holds for ``select`` under ``jit`` on 2 devices and for ``compact`` under ``shard_map`` on 4.
    """
    needed = max(_DEVICES.values())
    if len(jax.devices()) < needed:
        how = f"call jax.config.update('jax_num_cpu_devices', {needed}) before any computation"
        raise NotApplicable(f"needs {needed} devices: {how}")
    rollout, index = subject.rollout, np.arange(_LANES) % LANES
    env = subject.take(index)
    inputs, expected = take_lanes((rollout.before, rollout.actions), index), take_lanes(rollout.after, index)
    for strategy, count in _DEVICES.items():
        mesh, chosen = Mesh(np.array(jax.devices()[:count]), ("lanes",)), with_strategy(env, strategy)
        steps, of_env = P(None, "lanes"), partition_specs(chosen)  # leaves per lane are sharded, others replicated
        sharded = jax.tree.map(lambda spec, m=mesh: NamedSharding(m, spec), (of_env, steps, steps))
        if strategy == "select":
            program = jax.jit(replayed, in_shardings=sharded, out_shardings=sharded[-1])
        else:
            program = jax.jit(jax.shard_map(replayed, mesh=mesh, in_specs=(of_env, steps, steps), out_specs=steps))
        placed = jax.device_put((chosen, *inputs), sharded)
        compiled = program.lower(*placed).compile(compiler_options=quick_options())
        if found := [name for name in _COLLECTIVES if name in (compiled.as_text() or "")]:
            hint = ": index an array of each lane under jax.vmap, not by the lanes" if "all-gather" in found else ""
            raise Failure(f"the step on {count} devices with {strategy} contains {found[0]}{hint}")
        labels = ("on one device", f"on {count} devices with {strategy}")
        subject.same_steps(expected, to_numpy(compiled(*placed)), labels)
    return " and ".join(map(str, _DEVICES.values())) + " devices"
