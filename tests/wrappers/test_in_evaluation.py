"""What an evaluation makes of every wrapper: the table, the classes, `make` and the documentation."""

import json
import re
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import wrappers
from jaxenv.core.registry import EnvSpec
from jaxenv.core.wrapper import layers
from jaxenv.testing import Chain, Counting
from jaxenv.wrappers.stack import role_in_evaluation
from tests.wrappers.catalogue import WRAPPERS

# The task as the policy acts in it and sees it is kept, with its noise and its random starts. What only a learner needs
# is left out: rewards and ends in another form, shortened episodes, films of the training.
LEFT_OUT = {
    *("TransformReward", "ClipReward", "SparseReward", "SignReward", "RewardNoise", "RewardFromInfo", "DelayReward"),
    "ShapedReward",
    *("NormalizeReward", "RandomFirstEpisodeLength", "NonTerminating", "TerminalOnInfo", "RecordVideo", "LevelReplay"),
}
FROZEN = {"NormalizeObservation"}
KEPT = {
    *("ClipAction", "RescaleAction", "DiscreteActions", "DiscretizeAction"),
    *("ActionOffset", "OneHotAction", "FlattenAction", "TransformAction", "MaskedActions", "StickyAction"),
    *("ActionNoise", "ActionDelay", "ActionRepeat", "MaxAndSkip"),
    *("TransformObservation", "ClipObservation", "FilterObservation", "FlattenObservation", "RescaleObservation"),
    *("ReshapeObservation", "DtypeObservation", "DiscretizeObservation", "OneHotObservation"),
    *("StandardizeObservation", "ChannelFirst", "ResizeObservation", "CropObservation", "RandomCrop"),
    *("FlipObservation", "GrayscaleObservation", "ScaleImage", "AddWhiteNoise", "PixelObservation", "ObstructView"),
    *("FrameStack", "History", "TimeAwareObservation", "DelayObservation", "PreviousActionAndReward"),
    *("NoisyObservation", "TimeLimit", "GuardNonFinite", "FixedResetKey", "AutoReset", "VectorReward"),
    "Trials",
    *("ScalarizeReward", "NonEpisodic", "Discount", "TerminateOn", "NoopReset", "ResampleParams", "GoalConditioned"),
    *("EpisodeStatistics", "EvalReturn", "RunStats", "StateInInfo", "AgentsAsLanes", "Opponent"),
}
TABLE = dict.fromkeys(LEFT_OUT, "left out") | dict.fromkeys(FROZEN, "frozen") | dict.fromkeys(KEPT, "kept")
WORDS = {"kept": "kept", "left_out": "left out"}

BASES = {
    f"{kind}Wrapper" for kind in ("Action", "Observation", "LeafObservation", "Reward", "RowReward", "Lane", "Batch")
}
LIBRARY = {name: x for name, x in vars(wrappers).items() if isinstance(x, type) and issubclass(x, jaxenv.Wrapper)}


def names(env):
    return [type(level).__name__ for level in layers(env)]


# --- the table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(LIBRARY.keys() - BASES))
def test_every_wrapper_declares_in_its_class_what_it_is_in_evaluation(name):
    declared = vars(LIBRARY[name]).get("in_evaluation")
    shown = "frozen" if declared == {"frozen": True} else WORDS.get(declared)
    assert shown == TABLE[name]


def test_the_table_names_wrappers_of_the_library_alone():
    assert TABLE.keys() == LIBRARY.keys() - BASES
    assert WRAPPERS.keys() - {"Multitask"} == TABLE.keys() - {"AutoReset", "FixedResetKey", "AgentsAsLanes"}


@pytest.mark.parametrize("name", sorted(WRAPPERS.keys() - {"Multitask"}))
def test_make_does_in_evaluation_what_the_table_says(name):
    entry = WRAPPERS[name]
    spec = EnvSpec("Toy", lambda num_envs: entry.env().unwrapped if name == "Trials" else entry.env())
    options = {"num_envs": entry.env().num_envs, "wrappers": [entry.wrapper], "clip_action": name != "ClipAction"}
    options |= {"max_episode_steps": 9} if name == "Trials" else {}
    train, evaluated = (jaxenv.make(spec, mode=mode, **options) for mode in ("train", "eval"))
    missing = Counter(names(train)) - Counter(names(evaluated))
    assert missing == ({name: 1} if TABLE[name] == "left out" else {})
    assert not Counter(names(evaluated)) - Counter(names(train))
    frozen = [level.frozen for level in layers(evaluated) if hasattr(level, "frozen")]
    assert frozen == ([True] if TABLE[name] == "frozen" else [])


def test_the_documentation_shows_the_table():
    page = (Path(__file__).parents[2] / "docs/wrappers.md").read_text()
    rows = re.findall(r"^\| (\w+)[^|]*\| ([^|]+) \|", page[page.index("## Counterparts") :], re.MULTILINE)
    shown = {name: role for name, role in rows if name in TABLE}
    assert shown == TABLE


# --- wrappers of one's own -------------------------------------------------------------------------------------------


class Doubled(wrappers.LaneWrapper):
    """Owns the reward alone and declares nothing."""

    owns = frozenset({"reward"})

    def init(self, timestep, stream):
        return ()

    def after(self, own, timestep, stream):
        return own, jaxenv.tree.rebuild(timestep, reward=2 * timestep.reward)


class Watching(wrappers.LaneWrapper):
    """Owns nothing and declares nothing."""

    def init(self, timestep, stream):
        return ()


class Counted(wrappers.BatchWrapper):
    """State of the batch, and no declaration."""

    def init(self, timestep):
        return jnp.int32(0)

    def after(self, shared, lanes, timestep, learn):
        return shared + 1, lanes, timestep


class Curriculum(Watching):
    """A limit for training alone."""

    in_evaluation = "left_out"


class Slippery(wrappers.ActionWrapper):
    """An argument has another value in evaluation."""

    slip: float = 0.5

    in_evaluation = {"slip": 0.0}

    def action_spec(self):
        return self.env.action_spec()

    def action(self, action):
        return action


class Paid(Doubled):
    """The reward of the task itself."""

    in_evaluation = "kept"


def test_a_wrapper_without_a_declaration_is_kept_frozen_or_left_out_by_what_it_owns():
    env = jaxenv.make(EnvSpec("Chain", Chain), wrappers=[Doubled, Watching, Counted], mode="eval")
    assert names(env) == ["Counted", "AutoReset", "Watching", "Chain"]
    assert env.frozen


def test_a_declaration_replaces_the_default():
    env = jaxenv.make(EnvSpec("Chain", Chain), 3, wrappers=[Paid, Curriculum, Slippery], mode="eval")
    assert names(env) == ["AutoReset", "Slippery", "Paid", "Chain"]
    assert float(env.env.slip) == 0
    assert env.env.slip.dtype == np.float32
    state, _ = env.reset(jax.random.key(0))
    assert env.step(state, jnp.ones(3, jnp.int32))[0] is not None


def test_an_argument_per_lane_is_replaced_for_all_lanes():
    slip = np.array([0.1, 0.2, 0.3], np.float32)
    env = jaxenv.make(EnvSpec("Chain", Chain), 3, wrappers=[(Slippery, {"slip": slip})], mode="eval")
    assert np.all(env.env.slip == 0)


@pytest.mark.parametrize("declared", ["left out", "frozen", {"speed": 1.0}, True])
def test_a_declaration_that_says_nothing_is_refused_where_the_class_is_defined(declared):
    with pytest.raises(TypeError, match=r"^Odd: in_evaluation .*'left_out'"):
        type("Odd", (Slippery,), {"in_evaluation": declared, "__module__": __name__})


def test_a_wrapper_that_the_policy_needs_is_not_left_out():
    class Halves(wrappers.ObservationWrapper):
        in_evaluation = "left_out"

        def observation(self, observation):
            return observation.astype(jnp.float32) / 2

    with pytest.raises(ValueError, match="mode='eval' leaves out Halves, which changes the observation_spec from"):
        jaxenv.make(EnvSpec("Chain", Chain), wrappers=[Halves], mode="eval")


def test_a_reward_of_another_shape_is_kept_since_what_is_outside_was_built_for_it():
    double = ("TransformReward", {"fn": lambda reward: jnp.stack([reward, -reward], axis=-1)})
    env = jaxenv.make(EnvSpec("Chain", Chain), wrappers=[double, "ScalarizeReward"], mode="eval")
    assert names(env)[:3] == ["AutoReset", "ScalarizeReward", "TransformReward"]
    assert role_in_evaluation(env.env.env) == "kept"


# --- episodes ----------------------------------------------------------------------------------------------


def test_evaluations_play_whole_episodes_where_training_shortens_the_first():
    spec = EnvSpec("Counting", lambda num_envs: Counting(np.array([17, 23, 31]), num_envs=num_envs))
    short = ("RandomFirstEpisodeLength", {"maximum": np.array([5, 1, 9]), "num_episodes": 2})
    env = jaxenv.make(spec, 3, wrappers=[short], mode="eval")
    found = jaxenv.evaluate(env, jaxenv.rollout.random_policy(env), jax.random.key(0), 6)
    assert found.lengths.tolist() == [17, 23] * 3
    assert found.terminated.all()


def seven(num_envs):
    return Counting(np.array([7]), num_envs=num_envs)


@pytest.mark.parametrize("ids", ["SevenSteps-v0", ["SevenSteps-v0", "SevenSteps-v0"]])
def test_wrappers_of_one_task_and_of_several_follow_the_same_rule(ids):
    jaxenv.register("SevenSteps-v0", seven, max_episode_steps=9)
    given = [("RandomFirstEpisodeLength", {"maximum": 3}), ("ActionRepeat", {"num": 2}), "NonTerminating"]
    env = jaxenv.make(ids, 3, wrappers=given, mode="eval")
    evaluated = jaxenv.evaluate(env, jaxenv.rollout.random_policy(env), jax.random.key(0))
    assert evaluated.lengths.tolist() == [4, 4, 4]  # 7 steps, two at a time
    assert evaluated.terminated.all()


def test_a_stack_for_evaluation_is_stored_as_any_other():
    given = [("RandomFirstEpisodeLength", {"maximum": 3}), "NormalizeObservation", "NormalizeReward"]
    env = jaxenv.make("Pendulum-v1", 2, wrappers=given, mode="eval")
    again = jaxenv.from_data(json.loads(json.dumps(jaxenv.to_data(env))))
    assert names(again) == names(env) == ["NormalizeObservation", "AutoReset", "TimeLimit", *names(env)[3:]]
    assert again.frozen
    assert again.describe() == env.describe()
