"""Faults at the starts and ends of episodes."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core.wrapper import Wrapper
from jaxenv.wrappers import AutoReset, RewardWrapper, TimeLimit
from tests.testing.twins.restarting import Restarting
from tests.testing.twins.twin import Twin
from tests.testing.twins.walk import Place, Stepped, Walk, limited, restarted, walk


class PaysAtFirst(RewardWrapper):
    def reward(self, reward):
        return reward + 1

    def _with_reward(self, timestep):
        return dataclasses.replace(timestep, reward=self.reward(timestep.reward))


class ShowsIgnoredAction(AutoReset):
    def proceed(self, state, action):
        state, row = super().proceed(state, action)
        return state, dataclasses.replace(row, prev_action=action)


class ShowsInnerAction(Wrapper):
    """Swaps the actions and shows the swapped ones."""

    owns = frozenset({"prev_action"})

    def proceed(self, state, action):
        return self.env.proceed(state, 1 - action)


class NeverFirst(AutoReset):
    """Shows MID instead of FIRST."""

    def proceed(self, state, action):
        state, row = super().proceed(state, action)
        return state, dataclasses.replace(row, step_type=jnp.maximum(row.step_type, 1))


class ZeroDiscountWithin(Stepped):
    """Sets the discount to 0 on MID rows with a negative reward."""

    def change(self, timestep):
        return dataclasses.replace(timestep, discount=jnp.where(timestep.reward < 0, 0 * timestep.discount, 1))


class LimitTerminates(TimeLimit):
    """Reports a time limit as a termination."""

    def proceed(self, state, action):
        state, row = super().proceed(state, action)
        reached = row.env_info["time_limit_reached"]
        return state, dataclasses.replace(row, discount=jnp.where(reached, np.float32(0), row.discount))


class LimitTruncates(TimeLimit):
    """Reports a termination on the step of the time limit as a truncation."""

    def proceed(self, state, action):
        state, row = super().proceed(state, action)
        reached = row.env_info["time_limit_reached"]
        return state, dataclasses.replace(row, discount=jnp.where(reached, np.float32(1), row.discount))


class LimitLate(TimeLimit):
    """Ends an episode one step after its limit."""

    def proceed(self, state, action):
        return tree.rebuild(TimeLimit(self.env, 1), duration=self.duration + 1).proceed(state, action)


class ShortClock(TimeLimit):
    """Reads the clock as an integer of 16 bits, so that a limit above 32,767 is never reached."""

    def proceed(self, state, action):
        clock = self.clock(state)
        step = clock.step.astype(jnp.int16).astype(jnp.int32)
        short = dataclasses.replace(state, clock=dataclasses.replace(clock, step=step))
        _, row = super().proceed(short, action)
        state, _ = super().proceed(state, action)
        return state, row


class FirstBlock(Restarting):
    """Its compact restarts start one block of lanes and forget the others."""

    def start(self, env, mask, state, timestep, strategy, block):
        started = super().start(env, mask, state, timestep, strategy, block)
        if strategy != "compact":
            return started
        return tree.where(mask & (jnp.cumsum(mask, dtype=jnp.int32) <= block), started, (state, timestep))


class LosesReward(AutoReset):
    """Has reward 0 on LAST rows."""

    def proceed(self, state, action):
        state, row = super().proceed(state, action)
        return state, dataclasses.replace(row, reward=jnp.where(row.is_last(), np.float32(0), row.reward))


class LosesFinalObservation(AutoReset):
    """Shows the first observation of the next episode as the final one."""

    def proceed(self, state, action):
        state, row = super().proceed(state, action)
        if self.mode == "next_step":
            return state, row
        return state, tree.set_field(row, "env_info.final_observation", row.observation)


class ShowsPlace(Walk):
    """Reports the place, which differs between the end of an episode and the start of the next one."""

    def state_info(self, state):
        return {**super().state_info(state), "place": state.x}


class KeepsStateInfo(AutoReset):
    """Shows the info of the last state of an episode next to the first observation of the next one."""

    def _same_step(self, state, stepped, timestep):
        state, row = super()._same_step(state, stepped, timestep)
        return state, dataclasses.replace(row, env_info={**row.env_info, **timestep.env_info})


class StartsByLaneIndex(Walk):
    """The start depends on the index of a lane, which differs in a batch of the lanes that restart."""

    def initial(self, stream):
        return Place(jnp.arange(stream.shape[0], dtype=jnp.float32) / 16)


TWINS: dict[str, Twin] = {
    "reward at FIRST": Twin(lambda: PaysAtFirst(Walk()), walk, ("episode_grammar",)),
    "prev_action shows an ignored action": Twin(lambda: ShowsIgnoredAction(Walk()), restarted, ("episode_grammar",)),
    "prev_action shows the inner action": Twin(lambda: ShowsInnerAction(Walk()), walk, ("episode_grammar",)),
    "no FIRST after LAST": Twin(lambda: NeverFirst(Walk()), restarted, ("episode_grammar",)),
    "discount 0 within an episode": Twin(lambda: ZeroDiscountWithin(Walk()), walk, ("discount_zero_only_at_last",)),
    "time limit reported as termination": Twin(lambda: LimitTerminates(Walk(), 20), limited, ("time_limit_exact",)),
    "termination reported as time limit": Twin(lambda: LimitTruncates(Walk(), 20), limited, ("time_limit_exact",)),
    "time limit one step late": Twin(lambda: LimitLate(Walk(), 20), limited, ("time_limit_exact",)),
    "time limit read from a clock of 16 bits": Twin(lambda: ShortClock(Walk(), 20), limited, ("time_limit_exact",)),
    "compact restarts of the first block only": Twin(
        lambda: FirstBlock(Walk(), reset_strategy="compact"),
        lambda: AutoReset(Walk(), reset_strategy="compact"),
        ("modes_agree",),
    ),
    "terminal reward lost": Twin(lambda: LosesReward(Walk()), restarted, ("boundary_keeps_step",)),
    "final observation lost": Twin(
        lambda: LosesFinalObservation(Walk()), restarted, ("boundary_keeps_step", "modes_agree")
    ),
    "state info of the episode that ended": Twin(
        lambda: KeepsStateInfo(ShowsPlace()), lambda: AutoReset(ShowsPlace()), ("modes_agree",)
    ),
    "start depends on the lane index": Twin(StartsByLaneIndex, walk, ("modes_agree",)),
}
