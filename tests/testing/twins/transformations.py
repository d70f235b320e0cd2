"""Faults under JAX transformations, and of gradients."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.wrappers import AutoReset
from tests.testing.twins.twin import Twin
from tests.testing.twins.walk import Glide, Paying, Walk, restarted, walk


class ChecksForTracers(Paying):
    def extra(self, x, action):
        return jnp.full_like(x, isinstance(x, jax.core.Tracer))


class CountsTraces(Paying):
    """The reward grows with every trace."""

    traces = 0

    def extra(self, x, action):
        CountsTraces.traces += 1
        return jnp.full_like(x, CountsTraces.traces)


@tree.struct
class StaticParams:
    """The stride is a static field, and therefore part of the compiled code."""

    stride: float = tree.static(default=0.3)
    spread: float = 0.5


class StaticStride(Walk):
    params: StaticParams = StaticParams()


class RootOfNegative(Paying):
    """Takes a square root where it is real; its gradient is NaN elsewhere."""

    def extra(self, x, action):
        return jnp.where(x > 0, jnp.sqrt(x), 0)


class GradientCrossesRestart(AutoReset):
    """Adds zero to the start of an episode, with a gradient by the last state of the previous one."""

    def proceed(self, state, action):
        before = state.inner.task.x
        state, row = super().proceed(state, action)
        zero = before - jax.lax.stop_gradient(before)
        inner = tree.set_field(state.inner, "task.x", state.inner.task.x + zero)
        return dataclasses.replace(state, inner=inner), row


class Smooth(Glide):
    smooth = True


class GradientStopped(Smooth):
    """Declares itself smooth but stops gradients."""

    def transition(self, state, action, stream):
        return super().transition(jax.lax.stop_gradient(state), action, stream)


class HostCallback(Paying):
    def extra(self, x, action):
        jax.debug.callback(_do_nothing, x)
        return jnp.zeros_like(x)


class ComputesOnHost(Paying):
    def extra(self, x, action):
        return jax.pure_callback(np.zeros_like, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


class UsesTheHostsMemory(Paying):
    def extra(self, x, action):
        return jnp.zeros_like(jax.device_put(x, jax.memory.Space.Host))


def _do_nothing(x):
    pass


class SharedLeaf(Walk):
    pass


def _sharing_reset(self, key, env_id=None):
    state, timestep = Walk.reset(self, key, env_id)
    return state, dataclasses.replace(timestep, env_id=state.clock.env_id)


SharedLeaf.reset = _sharing_reset  # reset is final, which is checked when a class is created


TWINS: dict[str, Twin] = {
    "behaves differently when traced": Twin(ChecksForTracers, walk, ("jit_equals_eager",)),
    "static params": Twin(StaticStride, walk, ("one_trace",)),
    "reward depends on the number of traces": Twin(CountsTraces, walk, ("scan_equals_loop", "reproducible")),
    "NaN gradient": Twin(RootOfNegative, walk, ("gradients_sound",)),
    "gradient stopped": Twin(GradientStopped, Smooth, ("gradients_sound",)),
    "gradient crosses a restart": Twin(lambda: GradientCrossesRestart(Walk()), restarted, ("gradients_sound",)),
    "gradient crosses a restart in same_step mode": Twin(
        lambda: GradientCrossesRestart(Walk(), "same_step"),
        lambda: AutoReset(Walk(), "same_step"),
        ("gradients_sound",),
    ),
    "host callback": Twin(HostCallback, walk, ("no_callback",)),
    "computed on the host": Twin(ComputesOnHost, walk, ("no_callback", "vmap_equals_loop")),
    "stored in the memory of the host": Twin(UsesTheHostsMemory, walk, ("no_callback",)),
    "one array in state and TimeStep": Twin(SharedLeaf, restarted, ("donation_safe",)),
}
