"""Jumanji's environments: equal to Jumanji's own loop, under the episodes of this library."""

import pickle

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.suites import jumanji as suite
from jaxenv.testing import check_env
from tests.suites.comparison import compare

jumanji = pytest.importorskip("jumanji")
# Arrays of NumPy 2 in Jumanji's databases; names of JAX in its dependencies.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

LANES = 6


def load(id, num_envs=LANES, **kwargs):
    return jaxenv.load(f"jumanji:{id}", num_envs, **kwargs)


def own_step(id):
    env = jumanji.make(id)  # with its own time limit

    def step(state, action):
        state, timestep = env.step(state, action)
        terminated = timestep.last() & (timestep.discount == 0).all()
        return state, suite._as_dicts(timestep.observation), timestep.reward, terminated, timestep.last()

    return env, step


@pytest.mark.parametrize(("id", "ends"), [("Snake-v1", 0), ("Minesweeper-v0", LANES)])
def test_episodes_equal_those_of_jumanji(id, ends):
    _, step = own_step(id)
    _, terminations, truncations = compare(load(id, autoreset=None), 40, step)
    assert (terminations, truncations) == (ends, 0)


def test_the_time_limit_truncates_where_jumanji_reports_a_termination():
    own, step = own_step("Maze-v0")
    assert own.time_limit == 100

    def as_truncation(state, action):
        state, observation, reward, _, over = step(state, action)
        reached = (state.agent_position.row == state.target_position.row) & (
            state.agent_position.col == state.target_position.col
        )
        return state, observation, reward, reached, over

    rows, terminations, truncations = compare(load("Maze-v0", autoreset=None), 101, as_truncation)
    assert terminations + truncations == LANES
    assert truncations > 0
    assert rows.observation["step_count"].max() >= 100


def test_rewards_and_discounts_of_several_agents_are_vectors():
    env = load("LevelBasedForaging-v0", 2, autoreset=None)
    _, first = jax.eval_shape(env.reset, jax.random.key(0))
    assert first.reward.shape == (2, 2)
    assert first.discount.shape == (2,)
    assert first.env_info["agent_discount"].shape == (2, 2)


def test_the_action_mask_is_in_env_info_and_in_the_observation():
    env = load("Snake-v1")
    state, first = jax.jit(env.reset)(jax.random.key(0))
    _, later = jax.jit(env.step)(state, np.zeros(LANES, np.int32))
    for row in (first, later):
        assert row.env_info["action_mask"].shape == (LANES, 4)
        np.testing.assert_array_equal(row.env_info["action_mask"], row.observation["action_mask"])


def test_every_episode_starts_in_a_new_state():
    env = load("Snake-v1", 2, max_episode_steps=2)
    policy = jaxenv.rollout.random_policy(env)
    state, first = jax.jit(env.reset)(jax.random.key(0))
    _, rows = jax.jit(lambda state, first: jaxenv.unroll(env, policy, state, first, 12))(state, first)
    starts = rows.timestep.observation["grid"][np.asarray(rows.timestep.is_first())]
    assert len(np.unique(starts, axis=0)) > len(starts) / 2


def test_a_step_keeps_dtypes_structure_bounds_and_grammar():
    check_env(
        load("Snake-v1", 4),
        properties=["same_tree", "rows_match_specs", "within_specs", "episode_grammar", "mask_leaves_an_action"],
        num_steps=24,
        raise_on_failure=True,
    )


@pytest.mark.parametrize(
    ("id", "kwargs", "message"),
    [
        ("Snake", {}, r"jumanji: no environment 'Snake'.*'Snake-v1'"),
        ("Snake-v1", {"num_row": 5}, r"jumanji:Snake-v1: unknown keyword 'num_row'.*'num_rows'"),
        ("Snake-v1", {"time_limit": 5}, r"time_limit is the time.* max_episode_steps to load, got 5"),
        ("Sokoban-v0", {}, "jumanji:Sokoban-v0: its default generator"),
        ("RubiksCube-v0", {"generator": 3}, "jumanji:RubiksCube-v0: jumanji rejects {'generator': 3}"),
    ],
)
def test_wrong_ids_and_keywords_are_refused(id, kwargs, message):
    with pytest.raises(ValueError, match=message):
        load(id, **kwargs)


def test_constructor_arguments_are_options_and_survive_pickling():
    env = load("Snake-v1", num_rows=5, num_cols=7)
    again = pickle.loads(pickle.dumps(env))
    assert again.observation_spec()["grid"].shape == (5, 7, 5)
    assert again.unwrapped._single is env.unwrapped._single


def test_every_id_but_those_that_download_has_specs():
    assert suite.ids() == sorted(jumanji.registered_environments())
    for id in set(suite.ids()) - {"Sokoban-v0"}:
        action, _ = suite.action_and_limit(id)
        assert isinstance(action, specs.Bounded)
