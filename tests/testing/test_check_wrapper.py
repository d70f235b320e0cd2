"""`check_env` of wrappers, and the properties of all wrappers."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import wrappers
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.testing import Chain, Counting, check_env
from jaxenv.testing.report import Status
from tests.testing.twins import Walk
from tests.testing.twins.wrapping import DoubledAndDiscounted
from tests.wrappers.catalogue import WRAPPERS

# --- all wrappers ----------------------------------------------------------------------------------------------------

# `python -m tests.wrappers.catalogue` checks all properties of every wrapper.
SHAPES = (
    "same_tree",
    "leading_lanes",
    "rows_match_specs",
    "strict_promotion",
    "wrong_actions_refused",
)
VALUES = ("lane_independent", "within_specs", "episode_grammar", "discount_zero_only_at_last", "restart_is_reset")

# Wrappers without state, and those of which a similar one is left; all have their own tests.
THOROUGH = [
    "FlattenAction",
    "TransformAction",
    "OneHotAction",
    "DiscreteActions",
    "DiscretizeAction",
    "ActionOffset",
    "ChannelFirst",
    "ScaleImage",
    "ClipObservation",
    "FilterObservation",
    "RescaleObservation",
    "ReshapeObservation",
    "DtypeObservation",
    "DiscretizeObservation",
    "ResizeObservation",
    "CropObservation",
    "GrayscaleObservation",
    "ClipReward",
    "SparseReward",
    "SignReward",
    "TransformReward",
    "AddWhiteNoise",
    "ObstructView",
    "RandomCrop",
    "FlipObservation",
    "NoisyObservation",
    "NoopReset",
    "NormalizeReward",
    "RandomFirstEpisodeLength",
    "DelayReward",
    "DelayObservation",
    "ActionDelay",
    "EvalReturn",
    "MaxAndSkip",
    "PreviousActionAndReward",
    "TimeAwareObservation",
    "RecordVideo",
]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough) if name in THOROUGH else name for name in WRAPPERS]
)
def test_a_wrapper_has_the_properties(name):
    entry = WRAPPERS[name]
    env = entry.env()
    added = layers(entry.wrapper(env))[: -len(layers(env))]
    stateless = all(type(layer).inner is jaxenv.Wrapper.inner and layer.place != "several_steps" for layer in added)
    properties = SHAPES if stateless else SHAPES + VALUES
    check_env(entry.wrapper, env, properties=properties, raise_on_failure=True)


def test_thorough_runs_name_existing_wrappers():
    assert set(THOROUGH) <= WRAPPERS.keys()


def test_every_wrapper_is_in_the_catalogue():
    kinds = ("Action", "Observation", "LeafObservation", "Reward", "RowReward", "Lane", "Batch")
    bases = {f"{kind}Wrapper" for kind in kinds}
    known = {name for name, x in vars(wrappers).items() if isinstance(x, type) and issubclass(x, jaxenv.Wrapper)}
    checked = {type(layer).__name__ for e in WRAPPERS.values() for layer in layers(e.wrapper(e.env()))}
    assert known - bases - checked == {
        *("AutoReset", "FixedResetKey"),  # test_properties checks these
        "AgentsAsLanes",  # tests/wrappers/test_agents.py does
    }


STANDARD = [
    ("ActionRepeat", {"num": 2}),
    ("StickyAction", {"probability": 0.25}),
    ("FrameStack", {"num": 3}),
    "EpisodeStatistics",
    "NormalizeObservation",
    "NormalizeReward",
]


@pytest.mark.thorough
@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1"])
def test_a_stack_of_many_wrappers_has_the_properties(id):
    properties = ("same_tree", "leading_lanes", "rows_match_specs", "wrong_actions_refused")
    properties += ("within_specs", "episode_grammar", "discount_zero_only_at_last", "restart_is_reset")
    check_env(jaxenv.make(id, wrappers=STANDARD), properties=properties, raise_on_failure=True)


# --- the function ----------------------------------------------------------------------------------------------------


def test_a_wrapper_is_checked_around_all_toy_environments_that_it_accepts():
    properties = ["same_tree", "rows_match_specs", "mask_leaves_an_action"]
    report = check_env(lambda env: wrappers.RescaleAction(env, 0, 1), properties=properties)
    assert report.target == "RescaleAction around <RandomEnvironment>, <RandomEnvironment>"  # not discrete actions
    assert [r.status for r in report] == [Status.PASSED, Status.PASSED, Status.NOT_APPLICABLE]
    everywhere = check_env(lambda env: wrappers.TimeLimit(env, 5), properties=["same_tree"])
    assert everywhere.target.count(",") == 3


class Doubled(wrappers.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


def test_a_failure_around_one_environment_names_that_environment():
    report = check_env(
        lambda env: Doubled(env) if isinstance(env, Chain) else DoubledAndDiscounted(env),
        Chain(),
        Walk(),
        properties=["owned_fields_only"],
    )
    assert report["owned_fields_only"].evidence.startswith("around <Walk>: ")
    assert "discount" in report["owned_fields_only"].evidence
    with pytest.raises(AssertionError, match="DoubledAndDiscounted around <Walk>: 0 passed, 1 failed"):
        check_env(DoubledAndDiscounted, Walk(), properties=["owned_fields_only"], raise_on_failure=True)


def test_a_wrapper_that_refuses_all_toy_environments_is_refused_with_its_messages():
    def fussy(env):
        raise ValueError(f"fussy: not around {env}")

    with pytest.raises(ValueError, match=r"refuses all toy environments.*fussy: not around Counting"):
        check_env(fussy)


@pytest.mark.parametrize("wrapper", ["FrameStack", Chain, ("FrameStack", {"num": 4})])
def test_what_is_no_wrapper_and_no_environment_is_refused(wrapper):
    with pytest.raises(ValueError, match=r"^check_env: env must be an environment.*got "):
        check_env(wrapper)
    with pytest.raises(ValueError, match=r"got 'FrameStack': pass jaxenv\.wrappers\.FrameStack$"):
        check_env("FrameStack")


def test_environments_around_which_nothing_is_put_are_refused():
    with pytest.raises(ValueError, match=r"^check_env: around .*got the class Chain"):
        check_env(lambda env: env, Chain)
    with pytest.raises(ValueError, match=r"^check_env: around must be empty .*<Chain>.*<Walk>"):
        check_env(Walk(), Chain())


class NeverLast(Wrapper):
    """Hides the ends of a chain, inside of which lanes restart."""

    owns = frozenset({"step_type"})

    def proceed(self, state, action):
        state, timestep = self.env.proceed(state, action)
        hidden = timestep.is_last() & isinstance(self.unwrapped, Chain)
        step_type = jnp.where(hidden, np.int32(1), timestep.step_type)
        return state, dataclasses.replace(timestep, step_type=step_type)


@pytest.mark.parametrize("around", [(Chain(),), (Chain(), Counting([3]))], ids=["alone", "with one that ends"])
def test_hidden_ends_are_a_failure_around_one_of_several_environments(around):
    names = ["episode_grammar", "lane_independent"]
    report = check_env(lambda env: NeverLast(wrappers.AutoReset(env)), *around, properties=names, progress=None)
    assert [result.name for result in report.failed] == ["lane_independent", "episode_grammar"]
