"""Jumanji's environments: equal to Jumanji's own loop, under the episodes of this library."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv._util.library import default_types
from jaxenv.suites import jumanji as suite
from jaxenv.testing import check_env
from tests.suites.comparison import compare

jumanji = pytest.importorskip("jumanji")
# Arrays of NumPy 2 in Jumanji's databases; names of JAX in its dependencies.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

from jumanji.environments.routing.lbf.generator import RandomGenerator  # noqa: E402

LANES = 6


def load(id, num_envs=LANES, **kwargs):
    return jaxenv.make(f"jumanji:{id}", num_envs, **kwargs)


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


def cleaner_sees(observation, agents):
    own_first = [np.roll(np.arange(agents), -agent) for agent in range(agents)]
    locations = jnp.stack([observation["agents_locations"][order] for order in own_first])
    return {**observation, "agents_locations": locations}


def connector_sees(observation, agents):
    """Relabels path, position and target of every other agent by its distance from the agent that sees them."""
    grids = []
    for me in range(agents):
        table = np.zeros(3 * agents + 1, np.int32)
        for other in range(agents):
            table[3 * other + 1 : 3 * other + 4] = 3 * ((other - me) % agents) + np.arange(1, 4)
        grids.append(jnp.asarray(table)[observation["grid"]])
    return {**observation, "grid": jnp.stack(grids)}


def as_it_is(observation, agents):
    return observation


AGENTS = {
    "Cleaner-v0": (cleaner_sees, ("grid", "step_count")),
    "Connector-v3": (connector_sees, ("step_count",)),
    "LevelBasedForaging-v0": (as_it_is, ("step_count",)),
    "RobotWarehouse-v0": (as_it_is, ("step_count",)),
    "SearchAndRescue-v0": (as_it_is, ("targets_remaining", "step")),
}


SLOW = ("Connector-v3", "SearchAndRescue-v0")  # to compile


@pytest.mark.parametrize("id", [pytest.param(id, marks=pytest.mark.thorough) if id in SLOW else id for id in AGENTS])
def test_agents_are_an_axis_and_see_what_jumanji_shows_them(id):
    sees, shared = AGENTS[id]
    with default_types():
        own = jumanji.make(id)
    agents = own.num_agents

    def step(state, action):
        state, timestep = own.step(state, action)
        seen = sees(suite._as_dicts(timestep.observation), agents)
        seen |= {name: jnp.stack([seen[name]] * agents) for name in shared}
        reward = timestep.reward if timestep.reward.ndim else jnp.stack([timestep.reward] * agents)
        terminated = timestep.last() & (timestep.discount == 0).all()
        return state, seen, reward, terminated, timestep.last()

    env = load(id, autoreset=None)
    rows, _, _ = compare(env, 25, step)
    assert env.agent_names == tuple(f"agent_{number}" for number in range(agents))
    assert rows.reward.shape[1:] == (LANES, agents)
    assert all(x.shape[1:3] == (LANES, agents) for x in jax.tree.leaves((rows.observation, rows.prev_action)))
    assert rows.discount.shape[1:] == (LANES,)
    if id in ("Connector-v3", "LevelBasedForaging-v0", "SearchAndRescue-v0"):
        assert rows.env_info["agent_discount"].shape[1:] == (LANES, agents)


def test_a_generator_of_one_agent_gives_an_environment_without_an_axis_of_agents():
    env = load("LevelBasedForaging-v0", 3, generator=RandomGenerator(8, 1, 2, 8), autoreset=None)
    _, first = jax.eval_shape(env.reset, jax.random.key(0))
    assert (env.num_agents, first.reward.shape) == (1, (3,))


def test_agents_are_lanes_of_one_policy():
    env = load("LevelBasedForaging-v0", 8, wrappers=["AgentsAsLanes"])
    _, first = jax.eval_shape(env.reset, jax.random.key(0))
    assert (env.num_agents, env.action_spec().num_values, first.reward.shape) == (1, 6, (8,))
    assert first.env_info["action_mask"].shape == (8, 6)
    check_env(load("Cleaner-v0", 2), properties=["agents_agree", "within_specs"], num_steps=16, raise_on_failure=True)


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
