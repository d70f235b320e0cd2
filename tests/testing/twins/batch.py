"""Lanes that affect each other, or depend on their position or number."""

import jax.numpy as jnp

from jaxenv import tree
from jaxenv.core.wrapper import Wrapper
from jaxenv.wrappers import AutoReset
from tests.testing.twins.twin import Twin
from tests.testing.twins.walk import Params, Paying, Place, Walk, restarted, walk


class MeanLeaks(Paying):
    def extra(self, x, action):
        return jnp.full_like(x, jnp.mean(x))


class ZeroTimesSum(Paying):
    """Adds zero, computed from all lanes."""

    def extra(self, x, action):
        return jnp.full_like(x, 0 * jnp.sum(x))


class PaysByLaneIndex(Paying):
    """The reward depends on the index of a lane instead of its id."""

    def extra(self, x, action):
        return jnp.arange(x.shape[0], dtype=jnp.float32)


class FreezesOtherLanes(AutoReset):
    """While a lane restarts, the others do not step."""

    def proceed(self, state, action):
        new, row = super().proceed(state, action)
        if self.mode == "same_step":
            return new, row
        frozen = jnp.any(state.ended) & ~state.ended
        return tree.where(frozen, state, new), row


class Squeezed(Walk):
    def observe(self, state):
        return jnp.squeeze(state.x)[..., None]


class ByteIndex(Paying):
    """Reads every lane at an index of 8 bits, which overflows from lane 128 on."""

    def extra(self, x, action):
        return x[jnp.arange(x.shape[0]).astype(jnp.int8)] - x


class ByteIndexAtStart(Walk):
    def initial(self, stream):
        x = super().initial(stream).x
        return Place(x[jnp.arange(x.shape[0]).astype(jnp.uint8)])


class StartsByNumberOfLanes(Walk):
    def initial(self, stream):
        return Place(super().initial(stream).x / stream.shape[0])


class BroadcastsActions(Wrapper):
    owns = frozenset({"prev_action"})

    def proceed(self, state, action):
        count = self.clock(state).step.shape[0]
        return self.env.proceed(state, jnp.broadcast_to(action[:1], (count,)))


class ParamsOfOneLane(Walk):
    def transition(self, state, action, stream):
        stride = jnp.ravel(self.params.stride)[0]
        return Walk(Params(stride, self.params.spread)).transition(state, action, stream)


TWINS: dict[str, Twin] = {
    "reward depends on the batch mean": Twin(MeanLeaks, walk, ("batch_equals_single_lanes", "lane_independent")),
    "other lanes freeze while one restarts": Twin(
        lambda: FreezesOtherLanes(Walk()), restarted, ("batch_equals_single_lanes", "lane_independent")
    ),
    "reward depends on the lane index": Twin(PaysByLaneIndex, walk, ("batch_equals_single_lanes",)),
    "NaN leaks through a batch sum": Twin(ZeroTimesSum, walk, ("nan_contained",)),
    "squeeze drops a single lane": Twin(Squeezed, walk, ("any_number_of_lanes",)),
    "lane index of 8 bits": Twin(ByteIndex, walk, ("any_number_of_lanes",)),
    "lane index of 8 bits at the start": Twin(ByteIndexAtStart, walk, ("any_number_of_lanes",)),
    "start depends on the number of lanes": Twin(StartsByNumberOfLanes, walk, ("any_number_of_lanes",)),
    "wrong batch size is broadcast": Twin(lambda: BroadcastsActions(Walk()), walk, ("wrong_actions_refused",)),
    "params of one lane for all": Twin(ParamsOfOneLane, walk, ("scalar_equals_per_lane",)),
}
