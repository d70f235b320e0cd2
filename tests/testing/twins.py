"""Broken environments and wrappers, each wrong in one way, beside the sound ones that they come from.

Every twin is a fault that somebody shipped or nearly did. ``TWINS`` says which property of ``check_env`` rejects it.
"""

import dataclasses
import importlib
import random as python_random
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.environment import Environment
from jaxenv.task import Task, Transition
from jaxenv.wrapper import Wrapper
from jaxenv.wrappers import AutoReset, EpisodeStatistics, LaneWrapper, RewardWrapper, TimeLimit

# --- sound ----------------------------------------------------------------------------------------------------------


@tree.struct
class Params:
    """``stride``: how far a step goes; ``spread``: how far from 0 a walk may start."""

    stride: float = 0.3
    spread: float = 0.5


@tree.struct
class Place:
    """``x``: float32 ``[B]``."""

    x: jax.Array


class Walk(Task):
    """Steps left or right from a random place near 0, and ends beyond -1 and 1: floats, a random start, params."""

    params: Params = Params()

    def initial(self, stream):
        return Place(random.uniform(stream, (), -self.params.spread, self.params.spread))

    def transition(self, state, action, stream):
        x = jnp.clip(state.x + self.params.stride * (2 * action - 1).astype(jnp.float32), -4, 4)
        return Transition(Place(x), reward=x, terminated=jnp.abs(x) > 1)

    def observe(self, state):
        return state.x[:, None]

    def observation_spec(self):
        return specs.Bounded((1,), np.float32, -4, 4, "observation")

    def action_spec(self):
        return specs.discrete(2, name="action")

    def state_info(self, state):
        return {"action_mask": jnp.ones((*state.x.shape, 2), bool)}

    def initial_bounds(self):
        return (-self.params.spread,), (self.params.spread,)


class Glide(Walk):
    """The same with a push of any size up to 1 for its action."""

    def transition(self, state, action, stream):
        x = jnp.clip(state.x + self.params.stride * action[:, 0], -4, 4)
        return Transition(Place(x), reward=x, terminated=jnp.abs(x) > 1)

    def action_spec(self):
        return specs.Bounded((1,), np.float32, -1, 1, "action")

    def state_info(self, state):
        return {}


class DictWalk(Walk):
    """The same with a dict for its state."""

    def initial(self, stream):
        return {"x": super().initial(stream).x}

    def initial_bounds(self):
        return None

    def transition(self, state, action, stream):
        out = super().transition(Place(state["x"]), action, stream)
        return dataclasses.replace(out, state={"x": out.state.x})

    def observe(self, state):
        return state["x"][:, None]

    def state_info(self, state):
        return {}


def walk() -> Environment:
    return Walk()


def limited() -> Environment:
    return TimeLimit(Walk(), 20)


def restarted() -> Environment:
    return AutoReset(TimeLimit(Walk(), 20))


# --- structure ------------------------------------------------------------------------------------------------------


class Stepped(Wrapper):
    """A wrapper whose ``change`` is applied to every row that ``step`` returns."""

    owns = frozenset({"reward", "observation", "discount", "env_info"})

    def step(self, state, action):
        state, timestep = self.env.step(state, action)
        return state, self.change(timestep)

    def observation_spec(self):
        return self.env.observation_spec()


class WeakReward(Stepped):
    def change(self, timestep):
        return dataclasses.replace(timestep, reward=jnp.where(timestep.is_last(), 1.0, 0.0))


class HalfReward(Stepped):
    def change(self, timestep):
        return dataclasses.replace(timestep, reward=timestep.reward.astype(jnp.float16))


class TotalInInfo(Stepped):
    """A number of the whole batch among the lanes'."""

    def begin(self, *args, **kwargs):
        state, timestep = self.env.begin(*args, **kwargs)
        return state, self.change(timestep)

    def change(self, timestep):
        return tree.set_field(timestep, "env_info", {**timestep.env_info, "total": jnp.sum(timestep.reward)})


class SpecForgotten(TotalInInfo):
    """Two numbers where the spec says one."""

    def change(self, timestep):
        return dataclasses.replace(timestep, observation=jnp.tile(timestep.observation, (1, 2)))


class MixesTypes(Walk):
    """Adds an integer to a float."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, reward=out.reward + action)


class DefaultFloats(Walk):
    """Has zeros of whatever type JAX takes for floats in its env_info."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, env_info={"nothing": jnp.zeros(state.x.shape)})


class LocalState(Walk):
    """The class of its state stands in a function, where no other process finds it."""

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

# --- transformations ------------------------------------------------------------------------------------------------


class Paying(Walk):
    """A walk whose reward is changed by ``extra(state, action)``."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, reward=out.reward + self.extra(out.state.x, action))


class KnowsItIsTraced(Paying):
    def extra(self, x, action):
        return jnp.full_like(x, isinstance(x, jax.core.Tracer))


class Retraced(Paying):
    """Pays more with every trace."""

    traces = 0

    def extra(self, x, action):
        Retraced.traces += 1
        return jnp.full_like(x, Retraced.traces)


@tree.struct
class StaticParams:
    """The stride is part of the program."""

    stride: float = tree.static(default=0.3)
    spread: float = 0.5


class StaticStride(Walk):
    params: StaticParams = StaticParams()


class RootOfNegative(Paying):
    """Takes the root where it is real, and NaN for its gradient elsewhere."""

    def extra(self, x, action):
        return jnp.where(x > 0, jnp.sqrt(x), 0)


class GradientPassesRestart(AutoReset):
    """Adds nothing to the start of an episode but the gradient of where the last one ended."""

    def step(self, state, action):
        before = self.unwrapped_x(state)
        state, row = super().step(state, action)
        nothing = before - jax.lax.stop_gradient(before)
        inner = tree.set_field(state.inner, "task.x", state.inner.task.x + nothing)
        return dataclasses.replace(state, inner=inner), row

    def unwrapped_x(self, state):
        return state.inner.task.x


class Smooth(Glide):
    smooth = True


class GradientStopped(Smooth):
    """Says that it is smooth, and lets no gradient through."""

    def transition(self, state, action, stream):
        return super().transition(jax.lax.stop_gradient(state), action, stream)


class HostCallback(Paying):
    def extra(self, x, action):
        jax.debug.callback(_nothing, x)
        return jnp.zeros_like(x)


class HostComputes(Paying):
    def extra(self, x, action):
        return jax.pure_callback(np.zeros_like, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def _nothing(x):
    pass


class SharedLeaf(Walk):
    def reset(self, key, env_id=None):
        state, timestep = super().reset(key, env_id)
        return state, dataclasses.replace(timestep, env_id=state.clock.env_id)


# --- batch ----------------------------------------------------------------------------------------------------------


class MeanLeaks(Paying):
    def extra(self, x, action):
        return jnp.full_like(x, jnp.mean(x))


class SumOfNothing(Paying):
    """Adds zero, computed from all lanes."""

    def extra(self, x, action):
        return jnp.full_like(x, 0 * jnp.sum(x))


class PaysByPlace(Paying):
    """Looks at where a lane stands, not at its id."""

    def extra(self, x, action):
        return jnp.arange(x.shape[0], dtype=jnp.float32)


class NeighboursFrozen(AutoReset):
    """When a lane begins anew, the others stand still."""

    def step(self, state, action):
        new, row = super().step(state, action)
        if self.mode == "same_step":
            return new, row
        frozen = jnp.any(state.ended) & ~state.ended
        return tree.where(frozen, state, new), row


class Squeezed(Walk):
    def observe(self, state):
        return jnp.squeeze(state.x)[..., None]


class StartsByNumberOfLanes(Walk):
    def initial(self, stream):
        return Place(super().initial(stream).x / stream.shape[0])


class BroadcastsActions(Wrapper):
    owns = frozenset({"prev_action"})

    def step(self, state, action):
        count = self.clock(state).step.shape[0]
        return self.env.step(state, jnp.broadcast_to(action[:1], (count,)))


class OneLanesParams(Walk):
    def transition(self, state, action, stream):
        stride = jnp.ravel(self.params.stride)[0]
        return Walk(Params(stride, self.params.spread)).transition(state, action, stream)


# --- randomness and purity ------------------------------------------------------------------------------------------


class PythonRandom(Paying):
    def extra(self, x, action):
        return jnp.full_like(x, python_random.random())


class OneKeyForAll(Walk):
    def initial(self, stream):
        return super().initial(jax.tree.map(lambda word: jnp.full_like(word, word[0]), stream))


class SameStart(Walk):
    def initial(self, stream):
        return super().initial(dataclasses.replace(stream, c0=jnp.zeros_like(stream.c0)))


class DrawsTwice(Paying):
    """Draws its wind and its luck from one stream."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        wind, luck = random.uniform(stream), random.uniform(stream)
        return dataclasses.replace(out, reward=out.reward + wind + luck)

    def extra(self, x, action):
        return jnp.zeros_like(x)


class UsesAKeyTwice(DrawsTwice):
    """The same with a key of JAX's own."""

    def transition(self, state, action, stream):
        out = Paying.transition(self, state, action, stream)
        keys = random.jax_keys(stream)
        wind, luck = jax.vmap(jax.random.uniform)(keys), jax.vmap(jax.random.uniform)(keys)
        return dataclasses.replace(out, reward=out.reward + wind + luck)


class NarrowStart(Walk):
    """Starts nearer to 0 than it states."""

    def initial(self, stream):
        return Place(0.9 * super().initial(stream).x)


class PairsAlike(Walk):
    """Two neighbours get one key."""

    def initial(self, stream):
        return super().initial(jax.tree.map(lambda word: word[jnp.arange(word.shape[0]) // 2 * 2], stream))


class CounterInClass(Paying):
    count = 0

    def extra(self, x, action):
        type(self).count += 1
        return jnp.full_like(x, self.count)


class DictMutated(DictWalk):
    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        state["x"] = out.state["x"]
        return out


class Assignable(Walk):
    """Nothing stops whoever assigns its fields."""


Assignable.__setattr__ = object.__setattr__


class ByIdentity:
    """Equal to nothing but itself."""


class StaticByIdentity(Walk):
    tag: ByIdentity = tree.static(default=ByIdentity())


# --- values ---------------------------------------------------------------------------------------------------------


class TightBounds(Walk):
    def observation_spec(self):
        return specs.Bounded((1,), np.float32, -1, 1, "observation")


class VacuousBounds(Walk):
    def observation_spec(self):
        return specs.Bounded((1,), np.float32, -np.inf, np.inf, "observation")


class Runaway(Walk):
    """Grows without end."""

    def transition(self, state, action, stream):
        x = 4 * state.x
        return Transition(Place(x), jnp.zeros_like(x), jnp.zeros_like(x, bool))

    def observation_spec(self):
        return specs.Array((1,), np.float32, "observation")


class RoundAndRound(Wrapper):
    """Takes actions modulo their number."""

    owns = frozenset({"prev_action"})

    def step(self, state, action):
        return self.env.step(state, action % 2)


class NothingPastTheEnd(Walk):
    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, state=Place(jnp.where(jnp.abs(state.x) > 1, jnp.nan, out.state.x)))


class RawActionShown(Wrapper):
    """Shows the agent's action as it is, NaN and all."""

    owns = frozenset({"prev_action"})

    def step(self, state, action):
        state, row = self.env.step(state, action)
        return state, dataclasses.replace(row, prev_action=action)


class MeanOfActions(Glide):
    """Pushes every lane by what is left of the mean push."""

    def transition(self, state, action, stream):
        return super().transition(state, action + 0 * jnp.mean(action), stream)


class NothingLegal(Walk):
    def state_info(self, state):
        return {"action_mask": jnp.stack([state.x > 0, state.x > 0.5], axis=-1)}


# --- episodes -------------------------------------------------------------------------------------------------------


class PaidAtFirst(RewardWrapper):
    def reward(self, reward):
        return reward + 1

    def _with_reward(self, timestep):
        return dataclasses.replace(timestep, reward=self.reward(timestep.reward))


class IgnoredActionShown(AutoReset):
    def step(self, state, action):
        state, row = super().step(state, action)
        return state, dataclasses.replace(row, prev_action=action)


class InnerActionShown(Wrapper):
    """Swaps the actions, and shows the agent those that it did not choose."""

    owns = frozenset({"prev_action"})

    def step(self, state, action):
        return self.env.step(state, 1 - action)


class NeverFirst(AutoReset):
    """Hides where episodes begin."""

    def step(self, state, action):
        state, row = super().step(state, action)
        return state, dataclasses.replace(row, step_type=jnp.maximum(row.step_type, 1))


class GammaInside(Stepped):
    """Ends what follows whenever the walk goes left, without saying LAST."""

    def change(self, timestep):
        return dataclasses.replace(timestep, discount=jnp.where(timestep.reward < 0, 0 * timestep.discount, 1))


class LimitTerminates(TimeLimit):
    """Reports a time limit as a termination."""

    def step(self, state, action):
        state, row = super().step(state, action)
        reached = row.env_info["time_limit_reached"]
        return state, dataclasses.replace(row, discount=jnp.where(reached, np.float32(0), row.discount))


class LimitWins(TimeLimit):
    """Reports a termination at the limit as a truncation."""

    def step(self, state, action):
        state, row = super().step(state, action)
        reached = row.env_info["time_limit_reached"]
        return state, dataclasses.replace(row, discount=jnp.where(reached, np.float32(1), row.discount))


class LimitLate(TimeLimit):
    """Ends an episode one step after its limit."""

    def step(self, state, action):
        return tree.rebuild(TimeLimit(self.env, 1), duration=self.duration + 1).step(state, action)


class RewardLost(AutoReset):
    """Pays nothing on the step that ends an episode."""

    def step(self, state, action):
        state, row = super().step(state, action)
        return state, dataclasses.replace(row, reward=jnp.where(row.is_last(), np.float32(0), row.reward))


class FinalObservationLost(AutoReset):
    """Shows the next episode's first observation for the last one of this."""

    def step(self, state, action):
        state, row = super().step(state, action)
        if self.mode == "next_step":
            return state, row
        return state, tree.set_field(row, "env_info.final_observation", row.observation)


class StartsByPlace(Walk):
    """Starts a lane by where it stands: among the lanes that ended it stands elsewhere."""

    def initial(self, stream):
        return Place(jnp.arange(stream.shape[0], dtype=jnp.float32) / 16)


class PaysAndEnds(Stepped):
    """Owns the reward alone, and changes the discount too."""

    owns = frozenset({"reward"})

    def change(self, timestep):
        return dataclasses.replace(timestep, reward=2 * timestep.reward, discount=0.5 * timestep.discount)


class Paid(Stepped):
    owns = frozenset({"reward"})

    def change(self, timestep):
        return dataclasses.replace(timestep, reward=2 * timestep.reward)


# --- wrappers with state ----------------------------------------------------------------------------------------------


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


class MixesEpisodes(Stack):
    """Goes on stacking when an episode begins."""

    def _advance(self, own, timestep, ticked, clock):
        return self._after(own, timestep, ticked)


class ParamsDropped(AutoReset):
    """Begins every episode but the first with the params that the class has by default."""

    def _start_episodes(self, mask, state, timestep):
        return AutoReset(self.env.with_params(spread=0.5))._start_episodes(mask, state, timestep)


class Tired(Walk):
    """Walks slower with every episode: what outlives an episode is carried."""

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


class CarryForgotten(AutoReset):
    """Begins every episode as if there had been none before."""

    def _start_episodes(self, mask, state, timestep):
        clock = self.env.clock(state)
        return self.env.begin(clock.key, clock.env_id, clock.episode + 1)


class ForgetsFinal(Wrapper):
    """Moves the observation by 10, and forgets the final one."""

    owns = frozenset({"observation"})

    def begin(self, *args, **kwargs):
        state, timestep = self.env.begin(*args, **kwargs)
        return state, self.moved(timestep)

    def step(self, state, action):
        state, timestep = self.env.step(state, action)
        return state, self.moved(timestep)

    def moved(self, timestep):
        return dataclasses.replace(timestep, observation=timestep.observation + 10)

    def observation_spec(self):
        return specs.Bounded((1,), np.float32, 6, 14, "observation")


class Scaled(RewardWrapper):
    """Pays ``factor`` times the reward."""

    factor: float = 2.0
    noop_kwargs = {"factor": 1.0}

    def reward(self, reward):
        return self.factor * reward


class ScaledAndMore(Scaled):
    def reward(self, reward):
        return self.factor * reward + 0.5


class Nudged(Stepped):
    """Moves what is seen by ``size``."""

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
    """Moves the first observation of an episode in any case."""

    def begin(self, *args, **kwargs):
        state, timestep = super().begin(*args, **kwargs)
        return state, self.nudged(timestep, np.float32(0.5))


class LastRewardNotCounted(EpisodeStatistics):
    """Sums what was paid before the episode ended."""

    def after(self, own, timestep, stream):
        paid = jnp.where(timestep.is_last(), np.float32(0), timestep.reward)
        own, row = super().after(own, dataclasses.replace(timestep, reward=paid), stream)
        return own, dataclasses.replace(row, reward=timestep.reward)


class Twice(Wrapper):
    """Takes two steps at once, and none past the end."""

    owns = frozenset({"reward", "discount", "step_type", "observation", "env_info"})
    multi_step = True

    def begin(self, *args, **kwargs):
        state, timestep = self.env.begin(*args, **kwargs)
        return state, self.framed(timestep, 0 * timestep.step_type)

    def step(self, state, action):
        middle, one = self.env.step(state, action)
        end, two = self.env.step(middle, action)
        over = self.over(one)
        state, row = tree.where(over, (middle, one), (end, two))
        reward = one.reward + jnp.where(over, np.float32(0), two.reward)
        return state, self.framed(dataclasses.replace(row, reward=reward), jnp.where(over, 1, 2))

    def over(self, one):
        return one.is_last()

    def framed(self, timestep, frames):
        return tree.set_field(timestep, "env_info", {**timestep.env_info, "num_env_frames": frames.astype(jnp.int32)})

    def observation_spec(self):
        return self.env.observation_spec()


class TwicePastTheEnd(Twice):
    def over(self, one):
        return jnp.zeros_like(one.is_last())


class Lucky(LaneWrapper):
    """Adds a little luck to the reward."""

    owns = frozenset({"reward"})

    def init(self, timestep, stream):
        return ()

    def after(self, own, timestep, stream):
        paid = jnp.where(timestep.is_first(), np.float32(0), timestep.reward + self.luck(stream))
        return own, dataclasses.replace(timestep, reward=paid)

    def luck(self, stream):
        return random.uniform(stream)


class TwiceTheLuck(Lucky):
    def luck(self, stream):
        return random.uniform(stream) + random.uniform(stream)


class EndHidden(Twice):
    """Stops at the end and says that the episode goes on."""

    def step(self, state, action):
        state, row = super().step(state, action)
        return state, dataclasses.replace(row, step_type=jnp.ones_like(row.step_type))


class TwiceUncounted(Twice):
    """The same without saying how many steps were taken."""

    def framed(self, timestep, frames):
        return timestep


class UncountedPastTheEnd(TwiceUncounted):
    def over(self, one):
        return jnp.zeros_like(one.is_last())


# --- the table ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Twin:
    """A broken environment, the sound one it comes from, and the properties that must reject it."""

    broken: Callable[[], Environment]
    sound: Callable[[], Environment]
    rejected_by: tuple[str, ...]


def glide() -> Environment:
    return Glide()


def elsewhere() -> Environment:
    return AutoReset(Walk(Params(spread=0.1)))


TWINS: dict[str, Twin] = {
    "weak types": Twin(lambda: WeakReward(Walk()), walk, ("same_tree",)),
    "wrong dtype from step": Twin(lambda: HalfReward(Walk()), walk, ("same_tree",)),
    "wrong dtype from step, seen by cond": Twin(
        lambda: HalfReward(Walk()), walk, ("cond_compatible", "loop_compatible")
    ),
    "a leaf without lanes": Twin(lambda: TotalInInfo(Walk()), walk, ("leading_lanes",)),
    "spec forgotten": Twin(lambda: SpecForgotten(Walk()), walk, ("rows_match_specs",)),
    "zeros of the default float type": Twin(DefaultFloats, walk, ("x64_invariant",)),
    "mixes dtypes": Twin(MixesTypes, walk, ("strict_promotion",)),
    "state that cannot be pickled": Twin(LocalState, walk, ("state_round_trip",)),
    "asks whether it is traced": Twin(KnowsItIsTraced, walk, ("jit_equals_eager",)),
    "params in the program": Twin(StaticStride, walk, ("one_trace",)),
    "counts its traces": Twin(
        Retraced, walk, ("scan_equals_loop", "checkpoint_invariant", "reproducible", "unroll_in_halves")
    ),
    "NaN for a gradient": Twin(RootOfNegative, walk, ("gradients_sound",)),
    "gradient stopped": Twin(GradientStopped, Smooth, ("gradients_sound",)),
    "gradient passes a restart": Twin(lambda: GradientPassesRestart(Walk()), restarted, ("gradients_sound",)),
    "gradient passes a restart in same_step": Twin(
        lambda: GradientPassesRestart(Walk(), "same_step"), lambda: AutoReset(Walk(), "same_step"), ("gradients_sound",)
    ),
    "host callback": Twin(HostCallback, walk, ("no_callback",)),
    "computed by the host": Twin(HostComputes, walk, ("no_callback", "vmap_equals_loop")),
    "shared leaf on reset": Twin(SharedLeaf, restarted, ("donation_safe",)),
    "batch mean leaking": Twin(MeanLeaks, walk, ("batch_equals_single_lanes", "lane_independent")),
    "neighbours frozen when one lane resets": Twin(
        lambda: NeighboursFrozen(Walk()), restarted, ("batch_equals_single_lanes", "lane_independent")
    ),
    "lane told by its place": Twin(PaysByPlace, walk, ("batch_equals_single_lanes", "permutation_equivariant")),
    "NaN leaking through a batch sum": Twin(SumOfNothing, walk, ("nan_contained",)),
    "one lane squeezed away": Twin(Squeezed, walk, ("any_number_of_lanes",)),
    "start depends on the number of lanes": Twin(StartsByNumberOfLanes, walk, ("growth_invariant",)),
    "wrong batch size broadcast": Twin(lambda: BroadcastsActions(Walk()), walk, ("wrong_actions_refused",)),
    "one lane's params for all": Twin(OneLanesParams, walk, ("scalar_equals_per_lane",)),
    "Python's random numbers": Twin(PythonRandom, walk, ("reproducible",)),
    "one key for all lanes": Twin(OneKeyForAll, walk, ("lanes_differ",)),
    "same start every episode": Twin(SameStart, walk, ("episodes_differ",)),
    "one stream for two draws": Twin(DrawsTwice, walk, ("no_word_reused",)),
    "one stream for two draws, around a repeat": Twin(
        lambda: TwiceTheLuck(Twice(Walk())), lambda: Lucky(Twice(Walk())), ("no_word_reused",)
    ),
    "one key for two draws": Twin(UsesAKeyTwice, walk, ("no_word_reused",)),
    "starts nearer than stated": Twin(NarrowStart, walk, ("starts_distribution",)),
    "one key for two neighbours": Twin(PairsAlike, walk, ("no_word_reused", "starts_distribution")),
    "an array made at import": Twin(
        lambda: importlib.import_module("tests.testing.eager_import").Eager(), walk, ("light_import",)
    ),
    "counter in self": Twin(CounterInClass, walk, ("step_repeatable", "immutable")),
    "caller's dict mutated": Twin(DictMutated, DictWalk, ("inputs_unmodified",)),
    "fields can be assigned": Twin(Assignable, walk, ("immutable",)),
    "static field compared by identity": Twin(StaticByIdentity, walk, ("immutable",)),
    "bounds too tight": Twin(TightBounds, walk, ("within_specs",)),
    "bounds vacuous": Twin(VacuousBounds, walk, ("within_specs",)),
    "grows without end": Twin(Runaway, walk, ("stays_finite",)),
    "actions modulo their number": Twin(lambda: RoundAndRound(Walk()), walk, ("actions_clipped",)),
    "NaN shown as prev_action": Twin(lambda: RawActionShown(Glide()), glide, ("nan_action_contained",)),
    "NaN action leaking through a batch mean": Twin(MeanOfActions, glide, ("nan_action_contained",)),
    "NaN past the end": Twin(NothingPastTheEnd, walk, ("finite_past_end",)),
    "nothing legal": Twin(NothingLegal, walk, ("mask_leaves_an_action",)),
    "reward at FIRST": Twin(lambda: PaidAtFirst(Walk()), walk, ("episode_grammar",)),
    "prev_action shows the ignored action": Twin(lambda: IgnoredActionShown(Walk()), restarted, ("episode_grammar",)),
    "prev_action shows another action": Twin(lambda: InnerActionShown(Walk()), walk, ("episode_grammar",)),
    "no FIRST after LAST": Twin(lambda: NeverFirst(Walk()), restarted, ("episode_grammar",)),
    "discount 0 amid an episode": Twin(lambda: GammaInside(Walk()), walk, ("discount_zero_only_at_last",)),
    "time limit reported as termination": Twin(lambda: LimitTerminates(Walk(), 20), limited, ("time_limit_exact",)),
    "termination reported as time limit": Twin(
        lambda: LimitWins(Walk(), 20), limited, ("time_limit_exact", "both_ends_on_one_step")
    ),
    "time limit one step late": Twin(lambda: LimitLate(Walk(), 20), limited, ("time_limit_exact", "one_step_episodes")),
    "terminal reward lost": Twin(lambda: RewardLost(Walk()), restarted, ("boundary_keeps_step",)),
    "final observation lost": Twin(
        lambda: FinalObservationLost(Walk()), restarted, ("boundary_keeps_step", "modes_agree")
    ),
    "a discount that is not its own": Twin(lambda: PaysAndEnds(Walk()), lambda: Paid(Walk()), ("owned_fields_only",)),
    "start told by the lane's place": Twin(StartsByPlace, walk, ("modes_agree",)),
    "params dropped at reset": Twin(lambda: ParamsDropped(Walk(Params(spread=0.1))), elsewhere, ("restart_is_reset",)),
    "carry forgotten": Twin(
        lambda: CarryForgotten(Tired(), "same_step"), lambda: AutoReset(Tired(), "same_step"), ("restart_is_reset",)
    ),
    "frame stack mixing episodes": Twin(
        lambda: MixesEpisodes(AutoReset(Walk())),
        lambda: Stack(AutoReset(Walk())),
        ("restart_is_reset", "autoreset_commutes"),
    ),
    "final observation forgotten by a wrapper": Twin(
        lambda: ForgetsFinal(AutoReset(Walk(), "same_step")),
        lambda: AutoReset(Walk(), "same_step"),
        ("within_specs", "specs_at_boundaries"),
    ),
    "identity that is none": Twin(lambda: ScaledAndMore(Walk()), lambda: Scaled(Walk()), ("noop_settings",)),
    "identity that is none at FIRST": Twin(lambda: NudgedAtFirst(Walk()), lambda: Nudged(Walk()), ("noop_settings",)),
    "last reward not counted": Twin(
        lambda: LastRewardNotCounted(Walk()), lambda: EpisodeStatistics(Walk()), ("statistics_exact",)
    ),
    "repeats an action past the end": Twin(
        lambda: TwicePastTheEnd(Walk()), lambda: Twice(Walk()), ("repeat_stops_at_end",)
    ),
    "repeats it past the end, uncounted": Twin(
        lambda: UncountedPastTheEnd(Walk()), lambda: TwiceUncounted(Walk()), ("repeat_stops_at_end",)
    ),
    "end of a repeat hidden": Twin(lambda: EndHidden(Walk()), lambda: Twice(Walk()), ("repeat_stops_at_end",)),
}
