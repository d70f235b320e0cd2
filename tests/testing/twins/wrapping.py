"""Faults of wrappers and restarts."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core.environment import Environment
from jaxenv.core.starts import next_episodes
from jaxenv.core.wrapper import Wrapper
from jaxenv.wrappers import AutoReset, BatchWrapper, EpisodeStatistics, LaneWrapper, RewardWrapper, map_observation
from tests.testing.twins.restarting import Restarting
from tests.testing.twins.twin import Twin
from tests.testing.twins.walk import Params, Place, Stepped, Walk


class Doubled(Stepped):
    owns = frozenset({"reward"})

    def change(self, timestep):
        return dataclasses.replace(timestep, reward=2 * timestep.reward)


class DoubledAndDiscounted(Stepped):
    """Owns the reward and changes the discount too."""

    owns = frozenset({"reward"})

    def change(self, timestep):
        return dataclasses.replace(timestep, reward=2 * timestep.reward, discount=0.5 * timestep.discount)


class Stack(LaneWrapper):
    """Shows the last two observations."""

    owns = frozenset({"observation"})

    def init(self, timestep, stream):
        return timestep.observation

    def after(self, own, timestep, stream):
        both = jnp.concatenate([own, timestep.observation], axis=1)
        return timestep.observation, dataclasses.replace(timestep, observation=both)

    def observation_spec(self):
        return specs.Bounded((2,), np.float32, -4, 4, "observation")


class StackAcrossEpisodes(Stack):
    """Keeps the last observation when an episode starts."""

    def _advance(self, own, timestep, ticked, clock):
        return self._after(own, timestep, ticked)


class DividesObservations(BatchWrapper):
    """Divides observations by the largest magnitude so far, at least 2."""

    owns = frozenset({"observation"})

    def init(self, timestep):
        return jnp.float32(2)

    def after(self, shared, lanes, timestep, learn):
        largest = jnp.maximum(shared, jnp.abs(timestep.observation).max()) if learn else shared
        return largest, lanes, self.divided(timestep, largest)

    def divided(self, timestep, largest):
        return map_observation(lambda x: x / largest, timestep)


class DividesObservationOnly(DividesObservations):
    """Leaves the final observations as they are, within the same bounds."""

    def divided(self, timestep, largest):
        return dataclasses.replace(timestep, observation=timestep.observation / largest)


class DropsParams(Restarting):
    """Starts every episode except the first with the default params of the class."""

    def start(self, env, *arguments):
        return super().start(env.with_params(spread=0.5), *arguments)


class BeginsWithDefaults(Wrapper):
    """Begins every episode except the first with the default params."""

    def begin(self, starts, previous=None):
        env = self.env if previous is None else self.env.with_params(spread=0.5)
        return env.begin(starts, previous)


class StepsWithDefaults(Stepped):
    """Steps with the default params."""

    owns = frozenset({"reward"})

    def proceed(self, state, action):
        return self.env.with_params(stride=0.3).proceed(state, action)


class ReturnOfLane(BatchWrapper):
    """Shows the return of the episode, kept per lane in a state that restarts with the episode."""

    owns = frozenset({"env_info"})

    def init(self, timestep):
        return ()

    def init_lanes(self, timestep):
        return jnp.zeros_like(timestep.reward)

    def after(self, shared, lanes, timestep, learn):
        lanes = lanes + timestep.reward
        return shared, lanes, self.shown(timestep, lanes)

    def shown(self, timestep, total):
        return tree.set_field(timestep, "env_info", {**timestep.env_info, "return": total})


class ReturnOfRun(ReturnOfLane):
    """Keeps the return per lane in the state of the batch, which no episode restarts."""

    def init(self, timestep):
        return jnp.zeros_like(timestep.reward)

    def init_lanes(self, timestep):
        return ()

    def after(self, shared, lanes, timestep, learn):
        shared = shared + timestep.reward
        return shared, lanes, self.shown(timestep, shared)


class ReturnOfEpisodes(ReturnOfLane):
    """Keeps the return per lane in a state that restarts with the episode, and then puts the old one back."""

    def proceed(self, state, action):
        new, row = super().proceed(state, action)
        total = state.lanes + row.reward
        return dataclasses.replace(new, lanes=total), self.shown(row, total)


class Tired(Walk):
    """Walks slower with every episode; the state carries the number of episodes."""

    def initial(self, stream):
        return {"x": super().initial(stream).x, "episodes": jnp.zeros(stream.shape, jnp.float32)}

    def initial_bounds(self):
        return None

    def carry(self, old, new):
        return {"x": new["x"], "episodes": old["episodes"] + 1}

    def transition(self, state, action, stream):
        out = super().transition(Place(state["x"] / (1 + state["episodes"])), action, stream)
        return dataclasses.replace(out, state={"x": out.state.x, "episodes": state["episodes"]})

    def observe(self, state):
        return state["x"][:, None]

    def state_info(self, state):
        return {}


class IgnoresCarry(Restarting):
    """Starts every episode like the first."""

    def start(self, env, mask, state, *arguments):
        return env.begin(next_episodes(env.clock(state)))


class ShiftsObservation(Wrapper):
    """Adds 10 to the observation but not to the final one."""

    owns = frozenset({"observation"})

    def begin(self, *args, **kwargs):
        state, timestep = self.env.begin(*args, **kwargs)
        return state, self.shifted(timestep)

    def proceed(self, state, action):
        state, timestep = self.env.proceed(state, action)
        return state, self.shifted(timestep)

    def shifted(self, timestep):
        return dataclasses.replace(timestep, observation=timestep.observation + 10)

    def observation_spec(self):
        return specs.Bounded((1,), np.float32, 6, 14, "observation")


class Scaled(RewardWrapper):
    """Multiplies the reward by ``factor``."""

    factor: float = 2.0
    noop_kwargs = {"factor": 1.0}

    def reward(self, reward):
        return self.factor * reward


class ScaledAndShifted(Scaled):
    def reward(self, reward):
        return self.factor * reward + 0.5


class Nudged(Stepped):
    """Adds ``size`` to the observation."""

    size: float = 0.5
    owns = frozenset({"observation"})
    noop_kwargs = {"size": 0.0}

    def begin(self, *args, **kwargs):
        state, timestep = self.env.begin(*args, **kwargs)
        return state, self.nudged(timestep, self.size)

    def change(self, timestep):
        return self.nudged(timestep, self.size)

    def nudged(self, timestep, size):
        return dataclasses.replace(timestep, observation=timestep.observation + size)


class NudgedAtFirst(Nudged):
    """Adds 0.5 to the first observation of an episode, whatever the ``size``."""

    def begin(self, *args, **kwargs):
        state, timestep = super().begin(*args, **kwargs)
        return state, self.nudged(timestep, np.float32(0.5))


class IgnoresLastReward(EpisodeStatistics):
    """Leaves the reward of the LAST row out of the return."""

    def after(self, own, timestep, stream):
        paid = jnp.where(timestep.is_last(), np.float32(0), timestep.reward)
        own, row = super().after(own, dataclasses.replace(timestep, reward=paid), stream)
        return own, dataclasses.replace(row, reward=timestep.reward)


class Twice(Wrapper):
    """Takes two steps at once but none past the end."""

    owns = frozenset({"reward", "discount", "step_type", "observation", "env_info"})
    place = "several_steps"

    def begin(self, *args, **kwargs):
        state, timestep = self.env.begin(*args, **kwargs)
        return state, self.counted(timestep, 0 * timestep.step_type)

    def proceed(self, state, action):
        middle, one = self.env.proceed(state, action)
        end, two = self.env.proceed(middle, action)
        stops = self.stops(one)
        state, row = tree.where(stops, (middle, one), (end, two))
        reward = one.reward + jnp.where(stops, np.float32(0), two.reward)
        return state, self.counted(dataclasses.replace(row, reward=reward), jnp.where(stops, 1, 2))

    def stops(self, one):
        return one.is_last()

    def counted(self, timestep, frames):
        return tree.set_field(timestep, "env_info", {**timestep.env_info, "num_env_frames": frames.astype(jnp.int32)})

    def observation_spec(self):
        return self.env.observation_spec()


class TwicePastEnd(Twice):
    def stops(self, one):
        return jnp.zeros_like(one.is_last())


class TwiceHidingEnd(Twice):
    """Stops at the end but reports MID."""

    def proceed(self, state, action):
        state, row = super().proceed(state, action)
        return state, dataclasses.replace(row, step_type=jnp.ones_like(row.step_type))


class TwiceUncounted(Twice):
    """Does not report the number of steps."""

    def counted(self, timestep, frames):
        return timestep


class UncountedPastEnd(TwiceUncounted):
    def stops(self, one):
        return jnp.zeros_like(one.is_last())


class UncountedPaidPastEnd(TwiceUncounted):
    """Takes its state and row from the step that ends the episode but adds the reward of the next one."""

    def proceed(self, state, action):
        middle, one = self.env.proceed(state, action)
        _, two = self.env.proceed(middle, action)
        state, row = super().proceed(state, action)
        return state, dataclasses.replace(row, reward=one.reward + two.reward)


class Levels(Walk):
    """Starts in a level."""

    Level = Place

    def sample_level(self, stream):
        return Walk.initial(self, stream)

    def initial(self, stream, level):
        return level


class DrawsAnotherLevel(Levels):
    """Starts in a level of its own where one is given."""

    def initial(self, stream, level):
        return Walk.initial(self, random.fold_in(stream, "other"))


class Edits(Levels):
    """Moves the place of a level."""

    def mutate_level(self, level, stream):
        return Place(level.x + random.uniform(stream, (), -0.1, 0.1))

    def check_level(self, level):
        if np.any(np.abs(np.asarray(level.x)) > 1):
            raise ValueError(f"Edits: level.x must lie within the ends, got {level.x}")


class EditsTooFar(Edits):
    """Edits levels to ones that it refuses."""

    def mutate_level(self, level, stream):
        return Place(level.x + 2)


class EditsInAnotherForm(Edits):
    """Returns integers in place of floats."""

    def mutate_level(self, level, stream):
        return Place(jnp.zeros_like(level.x, jnp.int32))


class EditsTogether(Edits):
    """Moves every level to the mean of all lanes."""

    def mutate_level(self, level, stream):
        return Place(jnp.broadcast_to(jnp.mean(level.x), level.x.shape))


class StartsEditsElsewhere(Edits):
    """Draws the start of levels that only edits reach."""

    def mutate_level(self, level, stream):
        return Place(jnp.full_like(level.x, 0.5))

    def initial(self, stream, level):
        return Place(jnp.where(level.x == 0.5, random.uniform(stream, (), -0.1, 0.1), level.x))


class DropsGivenLevels(Levels):
    """Samples levels where they are given."""

    def _begun(self, stream):
        return self._in_level(self._sampled(stream), stream)


def narrow_walk() -> Environment:
    return AutoReset(Walk(Params(spread=0.1)))


TWINS: dict[str, Twin] = {
    "wrapper changes a field it does not own": Twin(
        lambda: DoubledAndDiscounted(Walk()), lambda: Doubled(Walk()), ("owned_fields_only",)
    ),
    "params dropped at a restart": Twin(
        lambda: DropsParams(Walk(Params(spread=0.1))), narrow_walk, ("restart_is_reset",)
    ),
    "params dropped at a restart, with defaults": Twin(
        lambda: DropsParams(Walk()), lambda: AutoReset(Walk()), ("restart_is_reset",)
    ),
    "start that its level does not fix": Twin(DrawsAnotherLevel, Levels, ("restart_is_reset",)),
    "mutated level that the task refuses": Twin(EditsTooFar, Edits, ("restart_is_reset",)),
    "mutated level of another dtype": Twin(EditsInAnotherForm, Edits, ("restart_is_reset",)),
    "mutated level that depends on other lanes": Twin(EditsTogether, Edits, ("restart_is_reset",)),
    "start that a mutated level does not fix": Twin(StartsEditsElsewhere, Edits, ("restart_is_reset",)),
    "level dropped at a reset": Twin(DropsGivenLevels, Levels, ("restart_is_reset",)),
    "params dropped by a wrapper when it begins": Twin(lambda: BeginsWithDefaults(Walk()), Walk, ("restart_is_reset",)),
    "params dropped by a wrapper when it steps": Twin(
        lambda: StepsWithDefaults(Walk()), lambda: Doubled(Walk()), ("owned_fields_only",)
    ),
    "state of a lane among the statistics of the batch": Twin(
        lambda: ReturnOfRun(AutoReset(Walk())), lambda: ReturnOfLane(AutoReset(Walk())), ("leading_lanes",)
    ),
    "state of a lane not restarted outside of AutoReset": Twin(
        lambda: ReturnOfEpisodes(AutoReset(Walk())), lambda: ReturnOfLane(AutoReset(Walk())), ("restart_is_reset",)
    ),
    "carry ignored": Twin(
        lambda: IgnoresCarry(Tired(), "same_step"), lambda: AutoReset(Tired(), "same_step"), ("restart_is_reset",)
    ),
    "frame stack mixes episodes": Twin(
        lambda: StackAcrossEpisodes(AutoReset(Walk())),
        lambda: Stack(AutoReset(Walk())),
        ("restart_is_reset",),
    ),
    "final observation not transformed": Twin(
        lambda: ShiftsObservation(AutoReset(Walk(), "same_step")),
        lambda: AutoReset(Walk(), "same_step"),
        ("within_specs", "specs_at_boundaries"),
    ),
    "final observation not divided": Twin(
        lambda: DividesObservationOnly(AutoReset(Walk())),
        lambda: DividesObservations(AutoReset(Walk())),
        ("specs_at_boundaries",),
    ),
    "noop_kwargs that change the reward": Twin(
        lambda: ScaledAndShifted(Walk()), lambda: Scaled(Walk()), ("noop_settings",)
    ),
    "noop_kwargs that change the first observation": Twin(
        lambda: NudgedAtFirst(Walk()), lambda: Nudged(Walk()), ("noop_settings",)
    ),
    "last reward not counted": Twin(
        lambda: IgnoresLastReward(Walk()), lambda: EpisodeStatistics(Walk()), ("statistics_exact",)
    ),
    "repeat continues after the end": Twin(
        lambda: TwicePastEnd(Walk()), lambda: Twice(Walk()), ("repeat_stops_at_end",)
    ),
    "uncounted repeat continues after the end": Twin(
        lambda: UncountedPastEnd(Walk()), lambda: TwiceUncounted(Walk()), ("repeat_stops_at_end",)
    ),
    "uncounted repeat adds a reward past the end": Twin(
        lambda: UncountedPaidPastEnd(Walk()), lambda: TwiceUncounted(Walk()), ("repeat_stops_at_end",)
    ),
    "repeat hides the end": Twin(lambda: TwiceHidingEnd(Walk()), lambda: Twice(Walk()), ("repeat_stops_at_end",)),
}
