"""Faults of bounds, finiteness, actions and masks."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jaxenv import specs
from jaxenv.core.timestep import Transition
from jaxenv.core.wrapper import Wrapper
from tests.testing.twins.twin import Twin
from tests.testing.twins.walk import Glide, Place, Walk, glide, walk


class TightBounds(Walk):
    def observation_spec(self):
        return specs.Bounded((1,), np.float32, -1, 1, "observation")


class VacuousBounds(Walk):
    def observation_spec(self):
        return specs.Bounded((1,), np.float32, -np.inf, np.inf, "observation")


class Runaway(Walk):
    """The state grows until it overflows."""

    def transition(self, state, action, stream):
        x = 4 * state.x
        return Transition(Place(x), jnp.zeros_like(x), jnp.zeros_like(x, bool))

    def observation_spec(self):
        return specs.Array((1,), np.float32, "observation")


class WrapsAround(Wrapper):
    """Takes actions modulo their number."""

    owns = frozenset({"prev_action"})

    def proceed(self, state, action):
        return self.env.proceed(state, action % 2)


class Counted(Walk):
    """Walks, and counts steps and episodes in its state."""

    steps_dtype = jnp.int32
    episodes_dtype = jnp.int32

    def initial(self, stream):
        place = super().initial(stream)
        zero = jnp.zeros(stream.shape, jnp.int32)
        return {"x": place.x, "steps": zero.astype(self.steps_dtype), "episodes": zero.astype(self.episodes_dtype)}

    def initial_bounds(self):
        return None

    def carry(self, old, new):
        return {**new, "episodes": old["episodes"] + 1}

    def transition(self, state, action, stream):
        out = super().transition(Place(state["x"]), action, stream)
        counted = {**state, "x": out.state.x, "steps": state["steps"] + 1}
        return dataclasses.replace(out, state=counted)

    def observe(self, state):
        return state["x"][:, None]

    def state_info(self, state):
        return {}


class ShortSteps(Counted):
    steps_dtype = jnp.int16


class ByteEpisodes(Counted):
    episodes_dtype = jnp.uint8


class NanAfterLast(Walk):
    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, state=Place(jnp.where(jnp.abs(state.x) > 1, jnp.nan, out.state.x)))


class ShowsRawAction(Wrapper):
    """Shows the action of the caller unchanged, including NaN."""

    owns = frozenset({"prev_action"})

    def proceed(self, state, action):
        state, row = self.env.proceed(state, action)
        return state, dataclasses.replace(row, prev_action=action)


class MeanOfActions(Glide):
    """Adds zero to every action, computed from all lanes."""

    def transition(self, state, action, stream):
        return super().transition(state, action + 0 * jnp.mean(action), stream)


class NothingLegal(Walk):
    def state_info(self, state):
        return {"action_mask": jnp.stack([state.x > 0, state.x > 0.5], axis=-1)}


TWINS: dict[str, Twin] = {
    "bounds too tight": Twin(TightBounds, walk, ("within_specs",)),
    "vacuous bounds": Twin(VacuousBounds, walk, ("within_specs",)),
    "unbounded growth": Twin(Runaway, walk, ("stays_finite",)),
    "step counter of 16 bits": Twin(ShortSteps, Counted, ("stays_finite",)),
    "episode counter of 8 bits": Twin(ByteEpisodes, Counted, ("stays_finite",)),
    "actions wrap around": Twin(lambda: WrapsAround(Walk()), walk, ("actions_clipped",)),
    "NaN in prev_action": Twin(lambda: ShowsRawAction(Glide()), glide, ("nan_action_contained",)),
    "NaN action leaks through a batch mean": Twin(MeanOfActions, glide, ("nan_action_contained",)),
    "NaN after LAST": Twin(NanAfterLast, walk, ("finite_past_end",)),
    "mask without a legal action": Twin(NothingLegal, walk, ("mask_leaves_an_action",)),
}
