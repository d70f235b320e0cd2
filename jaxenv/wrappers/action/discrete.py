"""Wrappers that take or offer discrete actions."""

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import ActionWrapper, LaneWrapper, TimeStep, clip
from jaxenv.random import Stream
from jaxenv.tree import Tree


class DiscreteActions(ActionWrapper):
    """Lets the agent choose an action from a table by its number: int32 in 0 .. N - 1.

    Owns ``prev_action``: the number.

    Args:
        env: an environment with one action array.
        table: ``[N, ...]``, actions of the environment, each within its bounds.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.DiscreteActions(jaxenv.spec("Pendulum-v1").make(), [[-2], [0], [1.5]])
    >>> env.action_spec()
    Bounded((), int32, 0, 2, name='action')
    >>> env.action(jnp.array([2, 0])).tolist()
    [[1.5], [-2.0]]
    """

    table: Any = tree.static()

    in_evaluation = "kept"

    def check(self) -> None:
        spec = self.env.action_spec()
        if not specs.is_spec(spec):
            raise ValueError(f"DiscreteActions: the action must be one array, got {spec}")
        try:
            given = np.asarray(self.table)
        except ValueError:
            raise ValueError(f"DiscreteActions: the actions in table differ in shape: {self.table}") from None
        if given.ndim != 1 + spec.ndim or len(given) == 0 or given.shape[1:] != spec.shape:
            rule = f"table must have shape (N, *{spec.shape}), N at least 1"
            raise ValueError(f"DiscreteActions: {rule}, got {given.shape}")
        fits = given.dtype.kind in ("b" if spec.dtype.kind == "b" else "iu" if spec.is_discrete else "iuf")
        if spec.is_discrete and fits:
            fits = np.array_equal(given.astype(spec.dtype), given)  # no value wraps around
        if not fits or not spec.batched(len(given)).contains(given.astype(spec.dtype)):
            raise ValueError(f"DiscreteActions: table must hold actions of {spec}, got {self.table}")

    def action_spec(self) -> Tree:
        return specs.discrete(len(self.table), name=self.env.action_spec().name)

    def action(self, action: Tree) -> Tree:
        table = np.asarray(self.table, self.env.action_spec().dtype)
        return jnp.take(table, action, axis=0, mode="clip")


class DiscretizeAction(ActionWrapper):
    """Replaces each element of a continuous action by the int32 number of an evenly spaced value.

    The action keeps its shape with one number per element, except that shape ``(1,)`` becomes ``()``. With ``flatten``
    one number encodes all elements, the first being the most significant. Owns ``prev_action``: the agent's numbers.

    Args:
        env: an environment with one continuous action array and finite bounds.
        num_actions: number of values per element, at least 2: a number, or a nested tuple that broadcasts to the
            action's shape.
        mode: ``"ends"``: both bounds are among the values. ``"centers"``: the values are the centres of bins of equal
            size.
        flatten: use one number, an int32, for all elements.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.DiscretizeAction(jaxenv.spec("Pendulum-v1").make(), 5)
    >>> env.action_spec()
    Bounded((), int32, 0, 4, name='action')
    >>> env.action(np.array([0, 1, 4])).tolist()
    [[-2.0], [-1.0], [2.0]]
    """

    num_actions: Any = tree.static()
    mode: Literal["ends", "centers"] = tree.static(default="ends")
    flatten: bool = tree.static(default=False)

    in_evaluation = "kept"

    def check(self) -> None:
        spec, counts = self.env.action_spec(), np.asarray(self.num_actions)
        if not (isinstance(spec, specs.Bounded) and spec.is_continuous and spec.is_bounded):
            rule = "the action must be one continuous array with finite bounds"
            raise ValueError(f"DiscretizeAction: {rule}, got {spec}")
        if counts.dtype.kind not in "iu" or np.any(counts < 2):
            raise ValueError(f"DiscretizeAction: num_actions must be integers of at least 2, got {self.num_actions}")
        try:
            counts = np.broadcast_to(counts, spec.shape)
        except ValueError:
            raise ValueError(
                f"DiscretizeAction: num_actions of shape {counts.shape} does not broadcast to {spec.shape}"
            ) from None
        if self.flatten and np.prod(counts, dtype=np.float64) > 2**31 - 1:
            rule = "the combinations of num_actions must fit int32 if flatten=True"
            raise ValueError(f"DiscretizeAction: {rule}, got {counts}")

    @property
    def _counts(self) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.num_actions, np.int32), self.env.action_spec().shape)

    def action_spec(self) -> Tree:
        inner, counts = self.env.action_spec(), self._counts
        if self.flatten:
            return specs.discrete(int(np.prod(counts)), name=inner.name)
        shape = () if inner.shape == (1,) else inner.shape
        return specs.Bounded(shape, np.int32, 0, counts.reshape(shape) - 1, inner.name)

    def action(self, action: Tree) -> Tree:
        inner = self.env.action_spec()
        ndim = 1 + inner.ndim
        counts = specs.aligned(self._counts, ndim)
        if self.flatten:
            # The place value of each element: the number of combinations of the elements after it.
            weights = np.cumprod([1, *self._counts.reshape(-1)[:0:-1]], dtype=np.int32)[::-1].reshape(inner.shape)
            number = tree.expand(action, ndim) // specs.aligned(weights, ndim) % counts
        else:
            number = action.reshape(action.shape[0], *inner.shape)
        number, counts = number.astype(np.float32), counts.astype(np.float32)
        fraction = number / (counts - 1) if self.mode == "ends" else (number + 0.5) / counts
        low, high = (specs.aligned(bound, ndim).astype(np.float32) for bound in (inner.minimum, inner.maximum))
        # Weighted bounds are exact at both ends; between them rounding could exceed a narrow range.
        return clip(low * (1 - fraction) + high * fraction, low, high).astype(inner.dtype)


@tree.struct
class Masked:
    """The action mask of the latest row, bool ``[B, n]``, and whether the latest action was illegal, bool ``[B]``."""

    mask: jax.Array
    illegal: jax.Array


class MaskedActions(LaneWrapper):
    """Replaces every action that ``env_info["action_mask"]`` forbids by a legal one.

    The mask comes from the row that the agent saw. If it forbids every action, the agent's action passes through.
    ``env_info["action_was_illegal"]`` (bool ``[B]``, False at FIRST) marks replacements. Owns ``prev_action``, the
    agent's action, and ``env_info["action_was_illegal"]``.

    Args:
        env: an environment whose action is one bounded integer of n values, and whose `Task.state_info` holds an
            ``action_mask``, bool ``[n]`` for one lane.
        replacement: ``"random"`` draws uniformly from the legal actions; ``"first"`` takes the lowest legal action and
            needs no random numbers.

    >>> import jaxenv
    >>> env = MaskedActions(jaxenv.spec("TicTacToe-v0").make(), "first")
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> for cell in (4, 4):
    ...     state, timestep = env.step(state, jnp.array([cell]))
    >>> timestep.observation[0, 0].tolist(), timestep.env_info["action_was_illegal"].tolist()
    ([1, 0, 0], [True])
    """

    replacement: Literal["random", "first"] = tree.static(default="random")

    owns: ClassVar[frozenset[str]] = frozenset({"prev_action", "env_info"})
    in_evaluation = "kept"
    summed_entries = frozenset({"action_was_illegal"})

    def check(self) -> None:
        spec = self.action_spec()
        if not (isinstance(spec, specs.Bounded) and spec.dtype.kind in "iu" and spec.shape == ()):
            raise ValueError(f"MaskedActions: the action must be one bounded integer, got {spec}")
        info = specs.unbatched(jax.eval_shape(lambda state: self.env.env_info_of(state), self.env.start_shapes()[0]))
        mask = specs.Array((spec.num_values,), np.bool_)
        if info.get("action_mask") != mask:
            raise ValueError(f"MaskedActions: state_info must hold an action_mask {mask}, got {info}")

    def init(self, timestep: TimeStep, stream: Stream) -> Masked:
        return Masked(timestep.env_info["action_mask"], jnp.zeros(timestep.env_id.shape, bool))

    def before(self, own: Masked, action: Tree, stream: Stream) -> tuple[Tree, Tree]:
        spec = self.action_spec()
        number = action.astype(np.int32) - spec.minimum.astype(np.int32)
        allowed = jnp.take_along_axis(own.mask, number[:, None], axis=1)[:, 0]
        illegal = ~allowed & jnp.any(own.mask, axis=1)
        if self.replacement == "random":
            legal = random.categorical(stream, weights=own.mask)
        else:
            legal = jnp.argmax(own.mask, axis=1)
        action = jnp.where(illegal, legal.astype(spec.dtype) + spec.minimum, action)
        return dataclasses.replace(own, illegal=illegal), action

    def after(self, own: Masked, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        env_info = {**timestep.env_info, "action_was_illegal": own.illegal}
        own = Masked(timestep.env_info["action_mask"], own.illegal)
        return own, dataclasses.replace(timestep, env_info=env_info)


class OneHotAction(ActionWrapper):
    """Takes a vector of n numbers for each discrete action with n values and executes the index of its largest element.

    A discrete leaf ``[B, ...]`` becomes float32 ``[B, ..., n]`` in [0, 1], one-hot or a distribution. The index counts
    from the minimum of the leaf. Continuous leaves pass through. Owns ``prev_action``: the agent's vectors.

    Args:
        env: an environment whose action has discrete leaves, all of them bounded integers of one range.

    >>> import jaxenv
    >>> env = OneHotAction(jaxenv.spec("CartPole-v1").make())
    >>> env.action_spec()
    Bounded((2,), float32, 0.0, 1.0, name='action')
    >>> env.action(np.array([[0.0, 1.0], [0.7, 0.3]], np.float32)).tolist()
    [1, 0]
    """

    in_evaluation = "kept"

    def check(self) -> None:
        spec = self.env.action_spec()
        discrete = [s for s in jax.tree.leaves(spec) if s.is_discrete]
        if not discrete or not all(_one_range(s) for s in discrete):
            rule = "the action must have discrete leaves, each bounded integers of one range"
            raise ValueError(f"OneHotAction: {rule}, got {spec}")

    def action_spec(self) -> Tree:
        def vectors(s: specs.Bounded) -> specs.Bounded:
            return s if s.is_continuous else specs.Bounded((*s.shape, s.num_values), np.float32, 0, 1, s.name)

        return jax.tree.map(vectors, self.env.action_spec())

    def action(self, action: Tree) -> Tree:
        def largest(s: specs.Bounded, a: jax.Array) -> jax.Array:
            if s.is_continuous:
                return a
            return jnp.argmax(a, axis=-1).astype(s.dtype) + specs.aligned(s.minimum, a.ndim - 1)

        return jax.tree.map(largest, self.env.action_spec(), action)


def _one_range(spec: specs.Array) -> bool:
    return isinstance(spec, specs.Bounded) and spec.dtype.kind in "iu" and np.ptp(spec.maximum - spec.minimum) == 0
