"""How a tree of lanes is sharded over a mesh axis."""

from typing import Any

import jax
from jax.sharding import PartitionSpec as P

from jaxenv import tree
from jaxenv._util.checks import check_arrays, check_text
from jaxenv.core._declared import declared_leaves
from jaxenv.core.environment import Environment
from jaxenv.tree import Tree


def partition_specs(values: Tree, axis_name: str = "lanes") -> Tree:
    """The partition spec of every leaf: what leads with the lanes is sharded, what all lanes share is replicated.

    Of an `Environment` the values per lane are sharded, and of any other tree every leaf that is not in a
    `jaxenv.tree.Shared`, such as the statistics of ``NormalizeObservation``. For a trajectory ``[T, B]`` without
    statistics no function is needed: its spec is ``P(None, "lanes")``.

    Args:
        values: an environment, a state, a row, a policy's memory, or a tree of these; arrays or their shapes.
        axis_name: the mesh axis.

    Returns:
        A tree of the same structure, for ``jax.shard_map``, or for ``jax.device_put`` as ``NamedSharding(mesh, spec)``.

    >>> import jax.numpy as jnp, jaxenv
    >>> env = jaxenv.make("CartPole-v1", num_envs=8, length=jnp.linspace(0.5, 1, 8))
    >>> specs = partition_specs(env)
    >>> specs.params.length == P("lanes"), specs.params.gravity == P()
    (True, True)
    >>> state, timestep = partition_specs(env.start_shapes())  # of what `reset` returns
    >>> timestep.observation == P("lanes")
    True
    """
    check_text("partition_specs", "axis_name", axis_name)
    check_arrays("partition_specs", "values", values)

    def of_node(node: Any) -> Any:
        if isinstance(node, Environment):
            per_lane = [d.per_lane for d in declared_leaves(node)]
            leaves, structure = tree.flatten(node)
            assert len(per_lane) == len(leaves), "every leaf of an environment is declared"
            return jax.tree.unflatten(structure, [P(axis_name) if x else P() for x in per_lane])
        spec = P() if tree.is_shared(node) else P(axis_name)
        return jax.tree.map(lambda _: spec, node)

    return jax.tree.map(of_node, values, is_leaf=lambda node: isinstance(node, Environment) or tree.is_shared(node))
