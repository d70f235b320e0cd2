"""The quick check accepts what is sound and rejects one broken environment for each of its rules."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, specs, tree
from jaxenv.task import Task, Transition
from jaxenv.testing import Chain, Counting, mock_012, random_environment
from jaxenv.testing.validate_env import validate_env
from jaxenv.wrappers import AutoReset, ObservationWrapper, TimeLimit

FIRST, MID, LAST = (np.int32(i) for i in range(3))


class Scripted(Task):
    """Rows as they are written down, over and over: each field holds ``[B, T]`` entries, lane by lane."""

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

    def step(self, state, action):
        return self._scripted(*super().step(state, action))

    def _scripted(self, state, row):
        at = state.clock.step % np.int32(self.step_type.shape[-1])
        fields = {name: getattr(self, name) for name in ("step_type", "reward", "discount", "prev_action")}
        fields = {name: jnp.take_along_axis(x, at[:, None], axis=1)[:, 0] for name, x in fields.items()}
        return state, dataclasses.replace(row, **fields)


def script(field=None, lane=0, step=0, value=0, mode="next_step"):
    """Episodes of three steps in each of five lanes, 208 rows, sound but for one value in one place."""
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


def fault_of(env, **kwargs):
    with pytest.raises(ValueError, match="validate_env") as error:
        validate_env(env, **kwargs)
    return str(error.value).removeprefix(f"validate_env: {env}")


# --- the card game as it was published -------------------------------------------------------------------------------


@tree.struct
class Round:
    """The sum of the cards, int32 ``[B]``, and whether the environment believes that the episode is over."""

    total: jax.Array
    ended: jax.Array


class PublishedCardGame(Task):
    """The card game line by line as the TF-Agents tutorial prints it.

    It restarts its lanes itself, and a sum of 21 or more gives a LAST row without being marked as an end.
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

    def step(self, state, action):
        clock = state.clock
        fresh = self.begin(clock.key, clock.env_id, clock.episode + 1)
        return tree.where(state.task.ended, fresh, super().step(state, action))

    def observe(self, state):
        return state.total[:, None]

    def observation_spec(self):
        return specs.Bounded((1,), np.int32, 0, np.iinfo(np.int32).max, "observation")

    def action_spec(self):
        return specs.discrete(2, name="action")


@pytest.mark.parametrize("seed", range(3))
def test_the_card_game_as_published_is_rejected_for_last_after_last(seed):
    fault = fault_of(PublishedCardGame(), key=jax.random.key(seed))
    assert "step_type is 2, must be 0 (FIRST) after LAST" in fault


def test_the_published_card_game_with_every_end_marked_is_accepted():
    validate_env(PublishedCardGame(marks_every_end=True))


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_the_card_game_of_the_library_is_accepted(mode):
    validate_env(jaxenv.make("CardGame-v0", autoreset=mode))


# --- sound environments ----------------------------------------------------------------------------------------------

_NESTED = {
    "place": specs.Bounded((2, 3), np.float32, -1.0, 1.0),
    "parts": (specs.Array((0,), np.float32), specs.Bounded((), np.uint8, 3, 200), specs.Array((), np.bool_)),
}

SOUND = {
    "mock": lambda: mock_012(),
    "corridor": lambda: Chain(3),
    "ends at once": lambda: AutoReset(Counting(np.array([1])), "same_step"),
    "a length for each lane": lambda: Counting(np.array([[1], [4], [40]]), num_envs=3),
    "nested spaces and vector reward": lambda: random_environment(
        _NESTED, {"a": specs.discrete(3, start=5)}, specs.Bounded((3,), np.float32, -1.0, 1.0)
    ),
    "time limit of the length": lambda: AutoReset(TimeLimit(mock_012(), 2)),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_environment_is_accepted(name):
    validate_env(SOUND[name](), episodes=2)


# --- specs -----------------------------------------------------------------------------------------------------------


class Place(Chain):
    """A corridor that shows an array instead of the cell: zeros, and ``1.5`` in one element beyond cell 1 of lane 3."""

    def transition(self, state, action, stream):
        return super().transition(state, jnp.ones_like(action), stream)

    def observe(self, state):
        beyond = (state > 1) & (jnp.arange(state.shape[0]) == 3)
        zeros = jnp.zeros((*state.shape, 2, 3))
        return {"place": zeros.at[:, 1, 2].set(jnp.where(beyond, 1.5, 0.0))}

    def observation_spec(self):
        return {"place": specs.Bounded((2, 3), np.float32, -1.0, 1.0)}


def test_an_observation_out_of_bounds_is_named_by_path_element_lane_and_step():
    assert fault_of(Place()) == (
        " at step 2, lane 3: observation.place[1, 2] is 1.5, "
        "must lie within the bounds of Bounded((2, 3), float32, -1.0, 1.0)"
    )


def test_bounds_are_checked_on_the_last_row_of_an_episode():
    class Beyond(Chain):
        def observation_spec(self):
            return specs.discrete(self.length - 1, name="observation")

    fault = fault_of(Beyond(2))
    assert "observation is 1, must lie within the bounds of Bounded((), int32, 0, 0, name='observation')" in fault


def test_the_final_observation_of_a_same_step_stream_has_the_bounds_of_the_observation():
    class Beyond(Chain):
        def observation_spec(self):
            return specs.discrete(self.length - 1, name="observation")

    fault = fault_of(AutoReset(Beyond(2), "same_step"))
    assert "env_info.final_observation is 1, must lie within the bounds of" in fault


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_reward_that_is_not_finite_is_rejected_though_the_spec_has_no_bounds(value):
    assert fault_of(script("reward", 3, 2, value)) == f" at step 2, lane 3: reward is {value}, must be finite"


def test_a_discount_above_one_is_rejected():
    fault = fault_of(script("discount", 3, 2, 1.25))
    assert fault.startswith(" at step 2, lane 3: discount is 1.25, must lie within the bounds of")


class Padded(ObservationWrapper):
    """Shows a count three times and announces ``announced``."""

    announced: specs.Array = tree.static(default=None)

    def observation(self, observation):
        return jnp.stack([observation] * 3, axis=-1)

    def observation_spec(self):
        return self.announced


@pytest.mark.parametrize(
    ("announced", "fault"),
    [
        (specs.Array((2,), np.int32), "observation does not fit Array((64, 2), int32): its shape is (64, 3)"),
        (specs.Array((3,), np.int16), "observation does not fit Array((64, 3), int16): its dtype is int32"),
        (tree.Static({"x": specs.Array((3,), np.int32)}), "structure differs"),
    ],
)
def test_a_spec_of_another_shape_dtype_or_structure_is_rejected(announced, fault):
    class Announced(Padded):
        def observation_spec(self):
            return announced.value if isinstance(announced, tree.Static) else announced

    assert fault_of(AutoReset(Announced(mock_012()))).startswith(f".reset: {fault}")


def test_a_step_that_returns_another_dtype_than_reset_is_rejected():
    class Widened(jaxenv.Wrapper):
        owns = frozenset({"step_type"})

        def step(self, state, action):
            state, row = self.env.step(state, action)
            return state, dataclasses.replace(row, step_type=row.step_type.astype(jnp.int16))

    fault = fault_of(Widened(AutoReset(mock_012())))
    assert fault == (
        ".step: step_type does not fit Array((64,), int32, name='step_type'): its dtype is int16; "
        "it must match time_step_spec()"
    )


# --- the grammar -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_the_script_is_sound_where_nothing_is_changed(mode):
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
        # Rows are looked at 32 at a time: the one before stands in an earlier chunk.
        (32, MID, "must be 0 (FIRST) after LAST"),
        (64, LAST, "must be 0 (FIRST) after LAST"),
    ],
)
def test_a_step_type_against_the_grammar_is_rejected(step, value, rule):
    fault = fault_of(script("step_type", 3, step, value), episodes=20)
    assert fault == f" at step {step}, lane 3: step_type is {value}, {rule}"


@pytest.mark.parametrize("step", [2, 4])
def test_first_within_a_same_step_stream_is_rejected(step):
    assert fault_of(script("step_type", 3, step, FIRST, "same_step")) == (
        f" at step {step}, lane 3: step_type is 0, may be 0 (FIRST) only on the row of a reset in same_step mode"
    )


# --- FIRST, and the discount -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0, 4])
@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("reward", 0.5, "reward is 0.5, must be 0 at FIRST"),
        ("discount", 0.5, "discount is 0.5, must be 1 at FIRST"),
        ("prev_action", 4, "prev_action is 4, must be 0 at FIRST"),
    ],
)
def test_a_first_row_that_is_not_blank_is_rejected(field, value, rule, step):
    assert fault_of(script(field, 3, step, value)) == f" at step {step}, lane 3: {rule}"


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_a_discount_of_zero_before_the_end_is_rejected(mode):
    fault = fault_of(script("discount", 3, 2, 0, mode))
    assert fault == " at step 2, lane 3: discount is 0.0, may be 0 only at LAST"


@pytest.mark.parametrize(("field", "value"), [("reward", 2.5), ("discount", 0.5), ("prev_action", 12)])
def test_what_the_rules_leave_open_is_accepted(field, value):
    validate_env(script(field, 3, 2, value))


def test_the_earliest_fault_is_reported_and_at_one_step_the_one_in_the_lowest_lane():
    env = script("step_type", 1, 3, 9)
    discount = np.array(env.discount)
    discount[2:, 2] = 0
    assert fault_of(tree.rebuild(env, discount=discount)).startswith(" at step 2, lane 2: discount is 0.0")


# --- ends ------------------------------------------------------------------------------------------------------------


def test_an_episode_that_does_not_end_is_rejected_with_a_hint():
    env = Counting(np.array([[3], [0], [3]]), num_envs=3)
    assert fault_of(env, max_steps=50) == (
        " at step 50, lane 1: the episode has not ended after 50 steps, it must end within max_steps "
        "(TimeLimit ends endless tasks)"
    )


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_an_episode_may_take_max_steps_and_no_more(mode):
    # A same_step stream has no FIRST rows: but for the first, its episodes here take four steps.
    steps = 3 if mode == "next_step" else 4
    validate_env(script(mode=mode), max_steps=steps)
    fault = fault_of(script(mode=mode), max_steps=steps - 1)
    assert f"lane 0: the episode has not ended after {steps - 1} steps" in fault


def test_the_row_after_the_last_episode_is_looked_at():
    # Eight episodes of four rows fill the 32 that are looked at together.
    validate_env(script("step_type", 3, 32, MID), episodes=7)
    assert fault_of(script("step_type", 3, 32, MID), episodes=8).startswith(" at step 32, lane 3: step_type is 1")


@pytest.mark.parametrize(("name", "value"), [("episodes", 0), ("max_steps", -1)])
def test_a_count_below_one_is_refused(name, value):
    assert f"{name} must be at least 1, got {value}" in fault_of(mock_012(), **{name: value})


def test_a_raw_key_is_refused():
    with pytest.raises(ValueError, match=r"must be a typed key from jax\.random\.key"):
        validate_env(mock_012(), jax.random.PRNGKey(0))
