"""NAVIX's environments: equal to NAVIX's own loop, under the episodes of this library."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import jaxenv
from jaxenv._util.library import default_types
from jaxenv.suites import navix as suite
from jaxenv.testing import check_env
from tests.suites.comparison import compare

# Names of JAX that NAVIX's dependencies still use.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
navix = pytest.importorskip("navix")

LANES = 6


def load(id, num_envs=LANES, **kwargs):
    return jaxenv.make(f"navix:{id}", num_envs, **kwargs)


def own_step(id, **kwargs):
    env = navix.make(id, **kwargs)

    def step(state, action):
        inner, steps = state
        inner = inner.replace(cache=navix.rendering.cache.RenderingCache.init(inner.grid))
        zero = np.float32(0)
        timestep = navix.environments.Timestep(
            t=steps,
            observation=env.observation_fn(inner),
            action=action,
            reward=zero,
            step_type=np.int32(0),
            state=inner,
        ).replace(info={"return": zero})
        timestep = env.step(timestep, action)
        state = timestep.state.replace(cache=()), timestep.t
        return state, timestep.observation, timestep.reward, timestep.is_termination(), timestep.is_done()

    return step


@pytest.mark.parametrize(
    ("id", "kwargs"),
    [
        ("Navix-LavaGapS5-v0", {"max_steps": 60}),
        ("Navix-Empty-Random-5x5-v0", {"observation_fn": navix.observations.rgb_first_person, "max_steps": 20}),
        ("Navix-Dynamic-Obstacles-5x5-v0", {"penality_coeff": 0.5, "max_steps": 20}),
    ],
)
def test_episodes_equal_those_of_navix_with_its_limit_as_truncation(id, kwargs):
    _, terminations, truncations = compare(
        load(id, autoreset=None, **kwargs), kwargs["max_steps"] + 1, own_step(id, **kwargs)
    )
    assert terminations + truncations == LANES
    assert terminations > 0


@pytest.mark.parametrize("id", ["Navix-DoorKey-5x5-v0", "Navix-SimpleCrossingS9N1-v0"])
def test_the_picture_that_navix_carries_is_always_that_of_the_grid(id):
    env = navix.make(id)
    with default_types():
        start = jax.jit(env.reset)(jax.random.key(0))
        played = start
        for action in range(7):
            played = jax.jit(env.step)(played, np.int32(action))
        for timestep in (start, played):
            drawn = navix.rendering.cache.RenderingCache.init(timestep.state.grid)
            np.testing.assert_array_equal(timestep.state.cache.patches, drawn.patches)


def test_steps_that_end_an_episode_are_not_the_start_of_the_next_one():
    # navix's own step restarts an episode when it is called after its end.
    env = load("Navix-Empty-Random-5x5-v0", max_episode_steps=3)
    policy = jaxenv.rollout.random_policy(env)
    state, first = jax.jit(env.reset)(jax.random.key(0))
    _, rows = jax.jit(lambda state, first: jaxenv.unroll(env, policy, state, first, 12))(state, first)
    rows = jax.device_get(rows.timestep)
    assert (rows.is_first()[1:] == rows.is_last()[:-1]).all()
    starts = rows.observation[rows.is_first()].reshape(rows.is_first().sum(), -1)
    assert len(np.unique(starts, axis=0)) > LANES  # every episode has a start of its own


def test_the_limit_is_navixs_unless_one_is_given():
    assert load("Navix-Empty-5x5-v0").env.duration == suite.action_and_limit("Navix-Empty-5x5-v0")[1] == 100
    assert load("Navix-Empty-5x5-v0", max_steps=7).env.duration == 7
    assert load("Navix-Empty-5x5-v0", max_steps=7, max_episode_steps=5).env.duration == 5


def test_observation_functions_and_actions_are_options():
    cells = load("Navix-Empty-5x5-v0", 2, observation_fn=navix.observations.categorical)
    assert type(cells.observation_spec()) is jaxenv.specs.Array  # navix declares fewer kinds of cells than it has
    own = load("Navix-Empty-5x5-v0", 2, observation_fn=lambda state: state.get_player().position)
    assert own.observation_spec().shape == (2,)
    moves = load("Navix-Empty-5x5-v0", 2, action_set=navix.actions.MINIGRID_ACTION_SET[:3])
    assert moves.action_spec().num_values == 3


def test_branches_of_navix_shard_without_the_check_of_types():
    # The reason why navix opts out of sharding_invariant.
    env = load("Navix-Empty-5x5-v0")
    mesh, lanes = Mesh(np.array(jax.devices()[:1]), ("lanes",)), P("lanes")
    state, first = jax.jit(env.reset)(jax.random.key(0))

    def step(check):
        return jax.jit(jax.shard_map(env.step, mesh=mesh, in_specs=lanes, out_specs=lanes, check_vma=check))

    with pytest.raises(TypeError, match="cond branches must"):
        step(True)(state, first.prev_action)
    _, row = step(False)(state, first.prev_action)
    np.testing.assert_array_equal(row.observation, jax.jit(env.step)(state, first.prev_action)[1].observation)


def test_a_step_keeps_dtypes_structure_bounds_and_grammar():
    check_env(
        load("Navix-Empty-Random-5x5-v0", 4),
        properties=["same_tree", "rows_match_specs", "within_specs", "episode_grammar"],
        num_steps=24,
        raise_on_failure=True,
    )


@pytest.mark.parametrize(
    ("id", "kwargs", "message"),
    [
        ("Navix-Empty-5x5", {}, r"navix: no environment 'Navix-Empty-5x5'.*'Navix-Empty-5x5-v0'"),
        ("Navix-Empty-5x5-v0", {"steps": 5}, "navix:Navix-Empty-5x5-v0: unknown keyword 'steps'"),
        ("Navix-Empty-5x5-v0", {"max_steps": 5.5}, r"max_steps .*got 5.5"),
        ("Navix-Empty-5x5-v0", {"max_steps": 0}, r"navix:Navix-Empty-5x5-v0: max_steps .*got 0"),
    ],
)
def test_wrong_ids_and_keywords_are_refused(id, kwargs, message):
    with pytest.raises(ValueError, match=message):
        load(id, **kwargs)
