"""Faults of trees, shapes, dtypes and imports."""

import dataclasses
import importlib

import jax
import jax.numpy as jnp

from jaxenv import random, tree
from tests.testing.twins.twin import Twin
from tests.testing.twins.walk import Place, Stepped, Walk, walk


class WeakReward(Stepped):
    def change(self, timestep):
        return dataclasses.replace(timestep, reward=jnp.where(timestep.is_last(), 1.0, 0.0))


class HalfReward(Stepped):
    def change(self, timestep):
        return dataclasses.replace(timestep, reward=timestep.reward.astype(jnp.float16))


class TotalInInfo(Stepped):
    """Adds one number for the whole batch to env_info."""

    def begin(self, *args, **kwargs):
        state, timestep = self.env.begin(*args, **kwargs)
        return state, self.change(timestep)

    def change(self, timestep):
        return tree.set_field(timestep, "env_info", {**timestep.env_info, "total": jnp.sum(timestep.reward)})


class OldSpec(TotalInInfo):
    """Observes two numbers although the spec declares one."""

    def change(self, timestep):
        return dataclasses.replace(timestep, observation=jnp.tile(timestep.observation, (1, 2)))


class MixesDtypes(Walk):
    """Adds an integer to a float."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, reward=out.reward + action)


class DefaultFloats(Walk):
    """Adds zeros of JAX's default float dtype to env_info."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, env_info={"nothing": jnp.zeros(state.x.shape)})


class KeyInState(Walk):
    """Keeps typed JAX keys in its state, which cannot be pickled."""

    def initial(self, stream):
        return {"x": super().initial(stream).x, "key": random.jax_keys(stream)}

    def initial_bounds(self):
        return None

    def transition(self, state, action, stream):
        out = super().transition(Place(state["x"]), action, stream)
        return dataclasses.replace(out, state={**state, "x": out.state.x})

    def observe(self, state):
        return state["x"][:, None]

    def state_info(self, state):
        return {}


class LocalState(Walk):
    """The class of its state is local to a function, so that pickle cannot import it."""

    def initial(self, stream):
        return _local_class()(super().initial(stream).x)

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, state=type(state)(out.state.x))


def _local_class():
    if not _LOCAL:

        @tree.struct
        class Local:
            x: jax.Array

        _LOCAL.append(Local)
    return _LOCAL[0]


_LOCAL: list[type] = []


TWINS: dict[str, Twin] = {
    "weakly typed reward": Twin(lambda: WeakReward(Walk()), walk, ("same_tree",)),
    "wrong dtype from step": Twin(lambda: HalfReward(Walk()), walk, ("same_tree",)),
    "leaf without a lane axis": Twin(lambda: TotalInInfo(Walk()), walk, ("leading_lanes",)),
    "observation spec not updated": Twin(lambda: OldSpec(Walk()), walk, ("rows_match_specs",)),
    "default float dtype": Twin(DefaultFloats, walk, ("x64_invariant",)),
    "implicit dtype promotion": Twin(MixesDtypes, walk, ("strict_promotion",)),
    "state that cannot be pickled": Twin(KeyInState, walk, ("state_round_trip",)),
    "array created on import": Twin(
        lambda: importlib.import_module("tests.testing.eager_import").Eager(), walk, ("light_import",)
    ),
}
