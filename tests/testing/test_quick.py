"""The quick properties of `check_env`: rows outside of their specs, and step types out of order."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, specs, tree
from jaxenv.core.starts import next_episodes
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.core.wrapper import Wrapper
from jaxenv.testing import Chain, Counting, check_env
from jaxenv.wrappers import AutoReset, BatchWrapper
from tests.testing.twins import Walk

FIRST, MID, LAST = (np.int32(i) for i in range(3))
QUICK = {"properties": ["quick"], "progress": None}


def failed(env, **kwargs):
    return {r.name: r.evidence for r in check_env(env, **QUICK, **kwargs).failed}


# --- the published card game ------------------------------------------------------------------------------------------


@tree.struct
class Round:
    """The sum of the cards, int32 ``[B]``, and whether the environment marked the episode as ended, bool ``[B]``."""

    total: jax.Array
    ended: jax.Array


class PublishedCardGame(Task):
    """The card game of the TF-Agents tutorial, with its fault.

    It restarts its own lanes. A sum of 21 or more gives a LAST row but does not mark the episode as ended.
    """

    marks_every_end: bool = tree.static(default=False)

    @property
    def autoreset(self):
        return "next_step"

    def initial(self, stream):
        return Round(jnp.zeros(stream.shape, jnp.int32), jnp.zeros(stream.shape, bool))

    def transition(self, state, action, stream):
        card = random.integers(stream, (), 1, 11)
        ended = action == 1
        total = state.total + jnp.where(ended, np.int32(0), card)
        last = ended | (total >= 21)
        score = jnp.where(total <= 21, total - 21, np.int32(-21)).astype(jnp.float32)
        state = Round(total, last if self.marks_every_end else ended)
        return Transition(state, jnp.where(last, score, np.float32(0)), terminated=last)

    def proceed(self, state, action):
        fresh = self.begin(next_episodes(state.clock))
        return tree.where(state.task.ended, fresh, super().proceed(state, action))

    def observe(self, state):
        return state.total[:, None]

    def observation_spec(self):
        return specs.Bounded((1,), np.int32, 0, 1000, "observation")

    def action_spec(self):
        return specs.discrete(2, name="action")


@pytest.mark.parametrize("seed", range(3))
def test_the_published_card_game_is_rejected_for_last_after_last(seed):
    found = failed(PublishedCardGame(), key=jax.random.key(seed))
    assert "no FIRST after LAST" in found["episode_grammar"]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_sound_card_games_are_accepted(mode):
    assert failed(PublishedCardGame(marks_every_end=True)) == {}
    assert failed(jaxenv.make("CardGame-v0", autoreset=mode)) == {}


# --- one wrong value --------------------------------------------------------------------------------------------------


class Planted(Wrapper):
    """Shows another value of a field on the rows of lane 3 that have a step type."""

    field: str = tree.static(default="", kw_only=True)
    value: float = tree.static(default=0.0, kw_only=True)
    on: int = tree.static(default=0, kw_only=True)

    owns = frozenset({"step_type", "reward", "discount", "prev_action"})

    def begin(self, starts, previous=None):
        return self._planted(*self.env.begin(starts, previous))

    def proceed(self, state, action):
        return self._planted(*self.env.proceed(state, action))

    def _planted(self, state, row):
        wrong = (row.step_type == self.on) & (self.clock(state).env_id == 3)
        x = getattr(row, self.field)
        return state, dataclasses.replace(row, **{self.field: jnp.where(wrong, jnp.asarray(self.value, x.dtype), x)})


@pytest.mark.parametrize(
    ("field", "on", "value", "name"),
    [
        ("step_type", MID, 7, "episode_grammar"),
        ("step_type", FIRST, MID, "episode_grammar"),
        ("step_type", FIRST, LAST, "episode_grammar"),
        ("step_type", MID, FIRST, "episode_grammar"),
        ("reward", FIRST, 0.5, "episode_grammar"),
        ("discount", FIRST, 0.5, "episode_grammar"),
        ("prev_action", FIRST, 1, "episode_grammar"),
        ("discount", MID, 0, "discount_zero_only_at_last"),
        ("discount", MID, 1.25, "discount_zero_only_at_last"),
        ("reward", MID, np.nan, "stays_finite"),
        ("reward", LAST, np.inf, "stays_finite"),
    ],
)
def test_one_wrong_value_in_one_lane_is_found(field, on, value, name):
    assert "lane 3" in failed(Planted(AutoReset(Walk()), field=field, on=int(on), value=float(value)))[name]


def test_first_from_a_step_is_found_in_same_step_mode():
    env = Planted(AutoReset(Walk(), "same_step"), field="step_type", on=int(LAST), value=float(FIRST))
    assert "FIRST from a step" in failed(env)["episode_grammar"]


@pytest.mark.parametrize(("field", "value"), [("reward", 2.5), ("discount", 0.5)])
def test_values_without_a_rule_are_accepted(field, value):
    assert failed(Planted(AutoReset(Walk()), field=field, on=int(MID), value=float(value))) == {}


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_bounds_hold_on_the_last_row_of_an_episode_and_for_the_final_observation(mode):
    class Beyond(Chain):
        def observation_spec(self):
            return specs.discrete(self.length - 1, name="observation")

    found = failed(AutoReset(Beyond(2), mode))
    assert "outside of its bounds 0 and 0" in found["within_specs"]
    assert "outside of its bounds 0 and 0" in found["specs_at_boundaries"]


def test_the_final_observation_is_the_observation_before_the_end():
    class Doubled(BatchWrapper):
        owns = frozenset({"observation"})

        def init(self, timestep):
            return jnp.int32(2)

        def after(self, shared, lanes, timestep, learn):
            return shared, lanes, dataclasses.replace(timestep, observation=shared * timestep.observation)

    found = failed(Doubled(AutoReset(Counting([3]), "same_step")))
    assert "env_info['final_observation']" in found["specs_at_boundaries"]
