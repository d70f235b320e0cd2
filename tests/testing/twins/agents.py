"""Faults of several agents in a lane."""

import dataclasses

import jax.numpy as jnp

from tests.games import Leavers, Nim
from tests.testing.twins.twin import Twin


class PaysTheGone(Leavers):
    def transition(self, state, action, stream):
        return dataclasses.replace(super().transition(state, action, stream), reward=action.astype(jnp.float32))


class MovesTheGone(Leavers):
    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, state={**out.state, "sum": (state["sum"] + action) % 28})


class AllAlive(Leavers):
    def state_info(self, state):
        return {"agent_alive": jnp.ones_like(state["alive"])}


class CountsFromOne(Nim):
    def state_info(self, state):
        return {**super().state_info(state), "player": state["player"] + 1}


class MovesTwice(Nim):
    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        player = jnp.where(action == 0, state["player"], out.state["player"])
        return dataclasses.replace(out, state={**out.state, "player": player})


TWINS = {
    "agent that has left is paid": Twin(PaysTheGone, Leavers, ("agents_agree",)),
    "agent that has left still moves": Twin(MovesTheGone, Leavers, ("agents_agree",)),
    "agent that has left is alive": Twin(AllAlive, Leavers, ("agents_agree",)),
    "players count from one": Twin(CountsFromOne, Nim, ("agents_agree",)),
    "agent moves twice in a row": Twin(MovesTwice, Nim, ("agents_agree",)),
}
