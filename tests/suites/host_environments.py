"""Environments of Gymnasium that misbehave, in a module that worker processes can import."""

import os
import signal
import time

import gymnasium
import numpy as np


class Counter(gymnasium.Env):
    """Shows the seed's low bits and the number of steps; ends after 3 steps.

    On the second step it does ``fault``, unless that step moves by -1.
    """

    observation_space = gymnasium.spaces.Dict(
        {
            "seed": gymnasium.spaces.Box(0, 255, (2,), np.uint8),
            "steps": gymnasium.spaces.Box(-np.inf, np.inf, (), np.float64),
        }
    )
    action_space = gymnasium.spaces.Dict(
        {
            "move": gymnasium.spaces.Discrete(3, start=-1),
            "pair": gymnasium.spaces.Tuple((gymnasium.spaces.MultiDiscrete([2, 3]), gymnasium.spaces.Box(-1, 1, (1,)))),
        }
    )

    def __init__(self, fault=""):
        self.fault = fault

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def step(self, action):
        assert action in self.action_space, action
        self.steps += 1
        if self.steps == 2 and self.fault and action["move"] >= 0:
            FAULTS[self.fault]()
        reward = float(action["move"]) + float(action["pair"][0].sum()) / 8
        return self._observation(), reward, self.steps == 3, False, {"cannot be pickled": lambda: None}

    def _observation(self):
        word = int(self.np_random_seed or 0)
        return {"seed": np.array([word & 255, word >> 8 & 255], np.uint8), "steps": np.array(self.steps, np.float64)}


def _raise():
    raise ZeroDivisionError("the physics divided by zero")


def _raise_at_the_end_of_a_file():
    raise EOFError("the recording is over")


def _raise_unpicklable():
    class Local(Exception):
        pass

    raise Local("cannot leave the process")


FAULTS = {
    "raises": _raise,
    "raises_eof": _raise_at_the_end_of_a_file,
    "raises_unpicklable": _raise_unpicklable,
    "exits": lambda: os._exit(3),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hangs": lambda: time.sleep(600),
}


class Text(Counter):
    """Has observations that are not arrays."""

    observation_space = gymnasium.spaces.Text(5)
