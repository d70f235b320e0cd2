"""Every wrapper with a toy environment that fits it, for the conformance tests of wrappers."""

import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import random, specs, wrappers
from jaxenv.core.environment import Environment
from jaxenv.testing import Counting, check_env, random_environment
from jaxenv.testing.report import Status
from jaxenv.wrappers import TimeLimit
from tests.games import Nim, best_move
from tests.testing.twins import Walk
from tests.wrappers.paying import paying


class Entry(NamedTuple):
    """A wrapper with its arguments bound, and an environment without restarts that it accepts."""

    wrapper: Callable[[Environment], Environment]
    env: Callable[[], Environment] = Walk


def counting() -> Environment:
    return Counting(np.array([1, 3, 2]), stride=10)


def mixed_actions() -> Environment:
    return random_environment(
        specs.discrete(7), {"force": specs.Bounded((2,), np.float32, -2, 3), "gear": specs.discrete(3, start=1)}
    )


def mirrored(action):
    return 1 - action


def never(episode):
    """Films nothing: the checks run a thousand episodes."""
    return episode < 0


# Goals of the walk, uniform in [-1, 1].
goal_of_walk = (
    lambda stream: random.uniform(stream, (1,), -1, 1),
    lambda achieved, goal: -jnp.abs(achieved - goal)[:, 0],
    lambda observation: observation,
)


def pictured() -> Environment:
    """An environment with a picture."""
    return jaxenv.spec("PointRobot-misc").make()


def seeing() -> Environment:
    """An image and a vector."""
    camera = specs.Bounded((6, 5, 3), np.uint8, 0, 255, "camera")
    speed = specs.Bounded((2,), np.float32, -1, 1, "speed")
    return random_environment({"camera": camera, "speed": speed}, specs.discrete(2, name="action"))


def bound(name: str, *args, **kwargs) -> Callable[[Environment], Environment]:
    """The wrapper of that name with its arguments."""
    return lambda env: getattr(wrappers, name)(env, *args, **kwargs)


WRAPPERS: dict[str, Entry] = {
    # --- actions ---
    "ClipAction": Entry(bound("ClipAction"), lambda: jaxenv.spec("Pendulum-v1").make()),
    "RescaleAction": Entry(bound("RescaleAction", -1, 2), mixed_actions),
    "DiscreteActions": Entry(bound("DiscreteActions", [[-2], [0], [1.5]]), lambda: jaxenv.spec("Pendulum-v1").make()),
    "DiscretizeAction": Entry(bound("DiscretizeAction", 5), lambda: jaxenv.spec("Pendulum-v1").make()),
    "ActionOffset": Entry(bound("ActionOffset"), counting),
    "OneHotAction": Entry(bound("OneHotAction")),
    "FlattenAction": Entry(bound("FlattenAction", np.float32), mixed_actions),
    "TransformAction": Entry(bound("TransformAction", mirrored)),
    "MaskedActions": Entry(bound("MaskedActions"), lambda: jaxenv.spec("TicTacToe-v0").make()),
    "StickyAction": Entry(bound("StickyAction", 0.5, (1, 3))),
    "ActionNoise": Entry(bound("ActionNoise", 0.3), lambda: jaxenv.spec("Pendulum-v1").make()),
    "ActionDelay": Entry(bound("ActionDelay", 2)),
    "ActionRepeat": Entry(bound("ActionRepeat", 3)),
    "MaxAndSkip": Entry(bound("MaxAndSkip", 3)),
    # --- observations ---
    "TransformObservation": Entry(bound("TransformObservation", mirrored)),
    "ClipObservation": Entry(bound("ClipObservation", -0.5, 0.5)),
    "FilterObservation": Entry(bound("FilterObservation", ("camera",)), seeing),
    "FlattenObservation": Entry(bound("FlattenObservation"), seeing),
    "RescaleObservation": Entry(bound("RescaleObservation", 0, 1)),
    "ReshapeObservation": Entry(bound("ReshapeObservation", (1, 1))),
    "DtypeObservation": Entry(bound("DtypeObservation", "int32")),
    "DiscretizeObservation": Entry(bound("DiscretizeObservation", 10)),
    "OneHotObservation": Entry(bound("OneHotObservation", 4, fields="camera"), seeing),
    "StandardizeObservation": Entry(bound("StandardizeObservation", 0.1, 0.7)),
    "ChannelFirst": Entry(bound("ChannelFirst"), seeing),
    "ResizeObservation": Entry(bound("ResizeObservation", (3, 4)), seeing),
    "CropObservation": Entry(bound("CropObservation", x=1, y=2, width=3, height=2), seeing),
    "RandomCrop": Entry(bound("RandomCrop", width=3, height=4), seeing),
    "FlipObservation": Entry(bound("FlipObservation"), seeing),
    "GrayscaleObservation": Entry(bound("GrayscaleObservation"), seeing),
    "ScaleImage": Entry(bound("ScaleImage"), seeing),
    "AddWhiteNoise": Entry(bound("AddWhiteNoise", 0.3), seeing),
    "PixelObservation": Entry(bound("PixelObservation", (8, 8)), pictured),
    "ObstructView": Entry(bound("ObstructView", 0.4, 2), seeing),
    # --- normalisation and history ---
    "FrameStack": Entry(bound("FrameStack", 3)),
    "History": Entry(bound("History", 3, include_actions=True)),
    "TimeAwareObservation": Entry(bound("TimeAwareObservation", 9, normalize=True)),
    "DelayObservation": Entry(bound("DelayObservation", 2), counting),
    "PreviousActionAndReward": Entry(bound("PreviousActionAndReward")),
    "NoisyObservation": Entry(bound("NoisyObservation", 0.1)),
    "NormalizeObservation": Entry(bound("NormalizeObservation")),
    "NormalizeReward": Entry(bound("NormalizeReward")),
    # --- rewards and episodes ---
    "TimeLimit": Entry(bound("TimeLimit", 9)),
    "GuardNonFinite": Entry(bound("GuardNonFinite")),
    "TransformReward": Entry(bound("TransformReward", lambda reward: -reward)),
    "ClipReward": Entry(bound("ClipReward", -0.5, 0.5)),
    "SparseReward": Entry(bound("SparseReward", 0.2)),
    "SignReward": Entry(bound("SignReward")),
    "RewardNoise": Entry(bound("RewardNoise", 0.3)),
    "RewardFromInfo": Entry(bound("RewardFromInfo", lambda info: info["reward_dist"] + info["reward_ctrl"]), paying),
    "ShapedReward": Entry(bound("ShapedReward", 20, "cost"), paying),
    "VectorReward": Entry(bound("VectorReward", ("cost",), (1, -1)), paying),
    "ScalarizeReward": Entry(bound("ScalarizeReward", (1, 2)), lambda: wrappers.VectorReward(paying(), ("cost",))),
    "DelayReward": Entry(bound("DelayReward", 2)),
    "RandomFirstEpisodeLength": Entry(bound("RandomFirstEpisodeLength", 3, np.array([2, 0])), lambda: Walk(num_envs=2)),
    "NonEpisodic": Entry(bound("NonEpisodic")),
    "NonTerminating": Entry(bound("NonTerminating")),
    "Discount": Entry(bound("Discount", 0.9)),
    "TerminateOn": Entry(bound("TerminateOn", lambda timestep: timestep.reward > 0.5)),
    "TerminalOnInfo": Entry(bound("TerminalOnInfo", "life_lost"), paying),
    "NoopReset": Entry(bound("NoopReset", 3)),
    "ResampleParams": Entry(bound("ResampleParams", {"stride": (0.1, 0.6)})),
    "Trials": Entry(bound("Trials", 3), lambda: TimeLimit(Walk(), 9)),
    "LevelReplay": Entry(bound("LevelReplay")),
    "GoalConditioned": Entry(bound("GoalConditioned", *goal_of_walk)),
    "Multitask": Entry(lambda env: jaxenv.Multitask((env, wrappers.TransformReward(env, lambda reward: -reward)))),
    "Opponent": Entry(bound("Opponent", best_move, "drawn"), Nim),
    # --- statistics and structure ---
    "EpisodeStatistics": Entry(bound("EpisodeStatistics")),
    "EvalReturn": Entry(bound("EvalReturn")),
    "RunStats": Entry(bound("RunStats")),
    "StateInInfo": Entry(bound("StateInInfo")),
    "RecordVideo": Entry(bound("RecordVideo", tempfile.gettempdir(), episode_trigger=never), pictured),
}


def main(names: list[str]) -> None:
    """Checks wrappers (all by default) for all properties and prints the rows that docs/evidence/conformance.md has."""
    print(
        "| wrapper | around | passed | failed | not applicable | opted out | seconds |\n|---|---|---|---|---|---|---|"
    )
    for name in names or WRAPPERS:
        entry = WRAPPERS[name]
        started, inner = time.perf_counter(), entry.env()
        report = check_env(entry.wrapper, inner)
        of = {s: [r.name for r in report if r.status is s] for s in Status}
        others = [", ".join(of[s]) or "-" for s in (Status.FAILED, Status.NOT_APPLICABLE, Status.OPTED_OUT)]
        seconds = time.perf_counter() - started
        print(f"| {name} | `{inner!r}` | {len(of[Status.PASSED])} | {' | '.join(others)} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 4)
    main(sys.argv[1:])
