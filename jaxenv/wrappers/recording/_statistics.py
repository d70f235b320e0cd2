"""Read and replace the statistics of a wrapper with batch state anywhere in a stack."""

import jax

from jaxenv.core import BatchWrapper, Environment, check_environment, layers
from jaxenv.core._checks import given as _checks
from jaxenv.tree import Tree


def statistics(env: Environment, state: Tree, name: str | None = None) -> Tree:
    """Returns the statistics of a wrapper with batch state, such as `NormalizeObservation`, from a state of the stack.

    Args:
        env: the stack, with other wrappers on either side of that wrapper.
        state: a state of ``env``.
        name: the class of the wrapper; ``None`` if the stack has only one wrapper with batch state.

    Raises:
        ValueError: if no wrapper or several fit; the message lists the stack's.

    >>> import jaxenv
    >>> env = jaxenv.make("Pendulum-v1", 4, wrappers=["NormalizeObservation", ("FrameStack", {"num": 2})])
    >>> state, _ = env.reset(jax.random.key(0))
    >>> int(statistics(env, state).count)
    4
    """
    check_environment("statistics", env)
    with _checks.explained("statistics", env, state):
        wrapper, own = _find("statistics", env, state, name)
        return wrapper.statistics(own)


def with_statistics(env: Environment, state: Tree, statistics: Tree, name: str | None = None) -> Tree:
    """Replaces the statistics of one wrapper in a state, for example by saved ones; see `BatchWrapper.with_statistics`.

    Args:
        env: as for `statistics`.
        state: as for `statistics`.
        statistics: a result of `statistics`; leaves may be NumPy arrays.
        name: as for `statistics`.

    Raises:
        ValueError: if no wrapper or several fit, or if structure, a shape or a dtype differs from those in ``state``.
    """
    check_environment("with_statistics", env)
    with _checks.explained("with_statistics", env, state):
        wrapper, own = _find("with_statistics", env, state, name)
        new = wrapper.with_statistics(own, statistics)
    return jax.tree.map(lambda node: new if node is own else node, state, is_leaf=lambda node: node is own)


def _find(owner: str, env: Environment, state: Tree, name: str | None) -> tuple[BatchWrapper, Tree]:
    """Finds the wrapper with batch state that is called ``name``, and its part of ``state``."""
    found = []
    for layer in layers(env)[:-1]:
        if isinstance(layer, BatchWrapper):
            found.append((layer, state))
        state = layer.inner(state)  # type: ignore[attr-defined]
    fitting = [entry for entry in found if name in (None, type(entry[0]).__name__)]
    if len(fitting) != 1:
        names = ", ".join(type(layer).__name__ for layer, _ in found) or "none"
        rule = "name must be given unless the stack has" if name is None else "name must be that of"
        raise ValueError(f"{owner}: {rule} one wrapper with batch state, got {name!r}; {env} has {names}")
    return fitting[0]
