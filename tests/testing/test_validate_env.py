"""`validate_env` accepts sound environments and rejects one broken environment per rule."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, specs, tree
from jaxenv.core.starts import next_episodes
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.testing import Chain, Counting, count_to_two, random_environment
from jaxenv.testing._validate_env import validate_env
from jaxenv.wrappers import AutoReset, BatchWrapper, ObservationWrapper, TimeLimit

FIRST, MID, LAST = (np.int32(i) for i in range(3))


class Scripted(Task):
    """Repeats scripted rows; each field is ``[B, T]``."""

    step_type: np.ndarray = tree.leaf(rank=1, dtype=np.int32)
    reward: np.ndarray = tree.leaf(rank=1)
    discount: np.ndarray = tree.leaf(rank=1)
    prev_action: np.ndarray = tree.leaf(rank=1, dtype=np.int32)
    mode: str = tree.static(default="next_step")

    @property
    def autoreset(self):
        return self.mode

    def initial(self, stream):
        return ()

    def transition(self, state, action, stream):
        return Transition(state, jnp.zeros(stream.shape), terminated=jnp.zeros(stream.shape, bool))

    def observe(self, state):
        return ()

    def observation_spec(self):
        return ()

    def action_spec(self):
        return specs.discrete(10, name="action")

    def begin(self, *args):
        return self._scripted(*super().begin(*args))

    def proceed(self, state, action):
        return self._scripted(*super().proceed(state, action))

    def _scripted(self, state, row):
        at = state.clock.step % np.int32(self.step_type.shape[-1])
        fields = {name: getattr(self, name) for name in ("step_type", "reward", "discount", "prev_action")}
        fields = {name: jnp.take_along_axis(x, at[:, None], axis=1)[:, 0] for name, x in fields.items()}
        return state, dataclasses.replace(row, **fields)


def script(field=None, lane=0, step=0, value=0, mode="next_step"):
    """Episodes of three steps in five lanes, 208 rows, sound except for one value."""
    start = FIRST if mode == "next_step" else MID
    rows = {
        "step_type": np.array([[FIRST, MID, MID, LAST] + [start, MID, MID, LAST] * 51] * 5),
        "reward": np.zeros((5, 208), np.float32),
        "discount": np.ones((5, 208), np.float32),
        "prev_action": np.zeros((5, 208), np.int32),
    }
    env = Scripted(**rows, mode=mode, num_envs=5)
    if field is None:
        return env
    rows[field][lane, step] = value
    return tree.rebuild(env, **{field: rows[field]})  # the constructor refuses NaN


def message_of(env, **kwargs):
    with pytest.raises(ValueError, match="validate_env") as error:
        validate_env(env, **kwargs)
    return str(error.value).removeprefix(f"validate_env: {env}")


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
        return specs.Bounded((1,), np.int32, 0, np.iinfo(np.int32).max, "observation")

    def action_spec(self):
        return specs.discrete(2, name="action")


@pytest.mark.parametrize("seed", range(3))
def test_the_published_card_game_is_rejected_for_last_after_last(seed):
    message = message_of(PublishedCardGame(), key=jax.random.key(seed))
    assert re.search(r"step_type is 2, .*after LAST", message)


def test_the_corrected_card_game_is_accepted():
    validate_env(PublishedCardGame(marks_every_end=True))


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_the_card_game_of_the_library_is_accepted(mode):
    validate_env(jaxenv.make("CardGame-v0", autoreset=mode))


# --- sound environments -----------------------------------------------------------------------------------------------

_NESTED = {
    "place": specs.Bounded((2, 3), np.float32, -1.0, 1.0),
    "parts": (specs.Array((0,), np.float32), specs.Bounded((), np.uint8, 3, 200), specs.Array((), np.bool_)),
}

SOUND = {
    "mock": lambda: count_to_two(),
    "corridor": lambda: Chain(3),
    "ends on the first step": lambda: AutoReset(Counting(np.array([1])), "same_step"),
    "one length per lane": lambda: Counting(np.array([[1], [4], [40]]), num_envs=3),
    "nested spaces and vector reward": lambda: random_environment(
        _NESTED, {"a": specs.discrete(3, start=5)}, specs.Bounded((3,), np.float32, -1.0, 1.0)
    ),
    "time limit of the length": lambda: AutoReset(TimeLimit(count_to_two(), 2)),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_environment_is_accepted(name):
    validate_env(SOUND[name](), episodes=2)


# --- specs ------------------------------------------------------------------------------------------------------------


class Place(Chain):
    """A corridor that observes an array: zeros, and 1.5 in one element beyond cell 1 of lane 3."""

    def transition(self, state, action, stream):
        return super().transition(state, jnp.ones_like(action), stream)

    def observe(self, state):
        beyond = (state > 1) & (jnp.arange(state.shape[0]) == 3)
        zeros = jnp.zeros((*state.shape, 2, 3))
        return {"place": zeros.at[:, 1, 2].set(jnp.where(beyond, 1.5, 0.0))}

    def observation_spec(self):
        return {"place": specs.Bounded((2, 3), np.float32, -1.0, 1.0)}


def test_an_observation_out_of_bounds_is_reported_with_path_element_lane_and_step():
    message = message_of(Place())
    assert message.startswith(" at step 2, lane 3: observation.place[1, 2] is 1.5, ")
    assert message.endswith("Bounded((2, 3), float32, -1.0, 1.0)")


def test_bounds_are_checked_on_the_last_row_of_an_episode():
    class Beyond(Chain):
        def observation_spec(self):
            return specs.discrete(self.length - 1, name="observation")

    message = message_of(Beyond(2))
    assert re.search(r"observation is 1, .*Bounded\(\(\), int32, 0, 0", message)


def test_the_final_observation_has_the_bounds_of_the_observation():
    class Beyond(Chain):
        def observation_spec(self):
            return specs.discrete(self.length - 1, name="observation")

    message = message_of(AutoReset(Beyond(2), "same_step"))
    assert re.search(r"env_info\.final_observation is 1, .*Bounded", message)


def test_the_final_observation_is_the_observation_before_the_end():
    class Doubled(BatchWrapper):
        owns = frozenset({"observation"})

        def init(self, timestep):
            return jnp.int32(2)

        def after(self, shared, lanes, timestep, learn):
            return shared, lanes, dataclasses.replace(timestep, observation=shared * timestep.observation)

    message = message_of(Doubled(AutoReset(Counting([3]), "same_step")))
    assert re.search(r"^ at step 1, lane 0: env_info\.final_observation is 1, .*LAST", message)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_non_finite_reward_is_rejected_although_the_spec_has_no_bounds(value):
    assert message_of(script("reward", 3, 2, value)).startswith(f" at step 2, lane 3: reward is {value}, ")


def test_a_discount_above_one_is_rejected():
    message = message_of(script("discount", 3, 2, 1.25))
    assert message.startswith(" at step 2, lane 3: discount is 1.25, must lie within the bounds of")


class Padded(ObservationWrapper):
    """Observes a count three times, with the spec ``declared``."""

    declared: specs.Array = tree.static(default=None)

    def observation(self, observation):
        return jnp.stack([observation] * 3, axis=-1)

    def observation_spec(self):
        return self.declared


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (specs.Array((2,), np.int32), "observation does not fit Array((64, 2), int32): its shape is (64, 3)"),
        (specs.Array((3,), np.int16), "observation does not fit Array((64, 3), int16): its dtype is int32"),
        (tree.Static({"x": specs.Array((3,), np.int32)}), "value.observation must be a dict with 'x', got an array"),
    ],
)
def test_a_spec_of_another_shape_dtype_or_structure_is_rejected(declared, expected):
    class Declared(Padded):
        def observation_spec(self):
            return declared.value if isinstance(declared, tree.Static) else declared

    assert message_of(AutoReset(Declared(count_to_two()))).startswith(f".reset: {expected}")


def test_a_step_with_another_dtype_than_reset_is_rejected():
    class Widened(jaxenv.Wrapper):
        owns = frozenset({"step_type"})

        def proceed(self, state, action):
            state, row = self.env.proceed(state, action)
            return state, dataclasses.replace(row, step_type=row.step_type.astype(jnp.int16))

    message = message_of(Widened(AutoReset(count_to_two())))
    assert re.search(r"^\.step: step_type .*int32.* int16", message)


# --- the grammar ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_the_unchanged_script_is_accepted(mode):
    validate_env(script(mode=mode))


@pytest.mark.parametrize(
    ("step", "value", "rule"),
    [
        (2, 7, "must be 0 (FIRST), 1 (MID) or 2 (LAST)"),
        (0, MID, "must be 0 (FIRST) on the row of a reset"),
        (4, MID, "must be 0 (FIRST) after LAST"),
        (4, LAST, "must be 0 (FIRST) after LAST"),
        (2, FIRST, "may be 0 (FIRST) only after LAST"),
        (5, FIRST, "may be 0 (FIRST) only after LAST"),
        # Rows are checked in chunks of 32: the previous row is in an earlier chunk.
        (32, MID, "must be 0 (FIRST) after LAST"),
        (64, LAST, "must be 0 (FIRST) after LAST"),
    ],
)
def test_a_step_type_that_breaks_the_grammar_is_rejected(step, value, rule):
    message = message_of(script("step_type", 3, step, value), episodes=20)
    assert message == f" at step {step}, lane 3: step_type is {value}, {rule}"


@pytest.mark.parametrize("step", [2, 4])
def test_first_from_a_step_is_rejected_in_same_step_mode(step):
    message = message_of(script("step_type", 3, step, FIRST, "same_step"))
    assert re.search(rf"^ at step {step}, lane 3: step_type is 0, .*same_step", message)


# --- FIRST, and the discount ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0, 4])
@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("reward", 0.5, "reward is 0.5, must be 0 at FIRST"),
        ("discount", 0.5, "discount is 0.5, must be 1 at FIRST"),
        ("prev_action", 4, "prev_action is 4, must be 0 at FIRST"),
    ],
)
def test_a_first_row_with_values_of_a_transition_is_rejected(field, value, rule, step):
    assert message_of(script(field, 3, step, value)) == f" at step {step}, lane 3: {rule}"


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_a_discount_of_zero_before_the_end_is_rejected(mode):
    message = message_of(script("discount", 3, 2, 0, mode))
    assert re.search(r"^ at step 2, lane 3: discount is 0\.0, .*LAST$", message)


@pytest.mark.parametrize(("field", "value"), [("reward", 2.5), ("discount", 0.5), ("prev_action", 12)])
def test_values_without_a_rule_are_accepted(field, value):
    validate_env(script(field, 3, 2, value))


def test_the_earliest_fault_in_the_lowest_lane_is_reported():
    env = script("step_type", 1, 3, 9)
    discount = np.array(env.discount)
    discount[2:, 2] = 0
    assert message_of(tree.rebuild(env, discount=discount)).startswith(" at step 2, lane 2: discount is 0.0")


# --- ends -------------------------------------------------------------------------------------------------------------


def test_an_episode_that_does_not_end_is_rejected_with_a_hint():
    env = Counting(np.array([[3], [0], [3]]), num_envs=3)
    assert re.search(r"^ at step 50, lane 1: .* 50 steps, .*max_steps .*TimeLimit", message_of(env, max_steps=50))


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_an_episode_may_take_max_steps_and_no_more(mode):
    # In same_step mode there are no FIRST rows, so that all episodes but the first take four steps.
    steps = 3 if mode == "next_step" else 4
    validate_env(script(mode=mode), max_steps=steps)
    message = message_of(script(mode=mode), max_steps=steps - 1)
    assert re.search(rf"lane 0: .* {steps - 1} steps", message)


def test_the_row_after_the_last_episode_is_checked():
    # Eight episodes of four rows fill a chunk of 32 rows.
    validate_env(script("step_type", 3, 32, MID), episodes=7)
    assert message_of(script("step_type", 3, 32, MID), episodes=8).startswith(" at step 32, lane 3: step_type is 1")


@pytest.mark.parametrize(("name", "value"), [("episodes", 0), ("max_steps", -1)])
def test_a_count_below_one_is_refused(name, value):
    assert f"{name} must be at least 1, got {value}" in message_of(count_to_two(), **{name: value})


def test_what_is_no_count_and_no_environment_is_refused():
    with pytest.raises(ValueError, match=r"validate_env: episodes .*got 1\.5"):
        validate_env(count_to_two(), episodes=1.5)
    with pytest.raises(ValueError, match=r"validate_env: env .*got 'CartPole-v1'"):
        validate_env("CartPole-v1")


def test_a_raw_key_is_refused():
    with pytest.raises(ValueError, match=r"must be a.* jax\.random\.key"):
        validate_env(count_to_two(), jax.random.PRNGKey(0))
