"""Lanes over several devices."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxenv import tree
from jaxenv._declared import declared_leaves
from jaxenv.environment import Environment
from jaxenv.testing.compare import ROUNDING, host, lanes, require_equal
from jaxenv.testing.report import Failure, NotApplicable
from jaxenv.testing.subject import LANES, Subject, replay, with_strategy
from jaxenv.tree import Tree

_DEVICES = (2, 4)
_LANES = 8  # divisible among the devices
_COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-permute",
    "reduce-scatter",
    "collective-broadcast",
)


def sharding_invariant(subject: Subject) -> str:
    """Lanes spread over 2 and 4 devices give what one device gives, and the step needs no word from another device.

    That is so for ``select`` under ``jit`` and for ``compact`` under ``shard_map``.
    """
    if len(jax.devices()) < max(_DEVICES):
        raise NotApplicable(
            f"it needs {max(_DEVICES)} devices; jax.config.update('jax_num_cpu_devices', {max(_DEVICES)}) ahead of "
            "everything makes them"
        )
    made, index = subject.rollout, np.arange(_LANES) % LANES
    env = subject.stack.take(jnp.asarray(index, jnp.int32))
    given, wanted = lanes((made.before, made.actions), index), lanes(made.after, index)
    for count in _DEVICES:
        mesh = Mesh(np.array(jax.devices()[:count]), ("lanes",))
        for strategy, spread in (("select", _by_jit), ("compact", _by_shard_map)):
            chosen = with_strategy(env, strategy)
            placed = jax.tree.map(
                lambda x, spec, m=mesh: jax.device_put(x, NamedSharding(m, spec)), *_placed(chosen, given)
            )
            compiled = spread(mesh, chosen).lower(*placed).compile()
            if found := [name for name in _COLLECTIVES if name in compiled.as_text()]:
                raise Failure(f"the step of {count} devices by {strategy} holds {found[0]}")
            text = f"on one device and on {count} by {strategy}"
            require_equal(wanted, host(compiled(*placed)), text, tolerance=ROUNDING, first_step=1)
    return f"{' and '.join(map(str, _DEVICES))} devices"


def _placed(env: Environment, given: Tree) -> tuple[Tree, Tree]:
    """Arguments of ``replay`` and where they lie: lanes over the devices, all else on each of them."""
    return (env, *given), (_axes(env), *jax.tree.map(lambda _: P(None, "lanes"), given))


def _axes(env: Environment) -> Tree:
    """Where the leaves of an environment lie: those per lane over the devices."""
    per_lane = [d.per_lane for d in declared_leaves(env)]
    values, structure = tree.flatten(env)
    assert len(per_lane) == len(values), "every leaf of an environment is declared"
    return structure.unflatten([P("lanes") if own else P() for own in per_lane])


def _by_jit(mesh: Mesh, env: Environment) -> Any:
    return jax.jit(replay, out_shardings=NamedSharding(mesh, P(None, "lanes")))


def _by_shard_map(mesh: Mesh, env: Environment) -> Any:
    steps = P(None, "lanes")
    return jax.jit(jax.shard_map(replay, mesh=mesh, in_specs=(_axes(env), steps, steps), out_specs=steps))
