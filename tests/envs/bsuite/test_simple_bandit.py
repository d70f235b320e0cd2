"""SimpleBandit compared with the package ``bsuite``, and its ``compat="gymnax"`` with gymnax."""

import itertools

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.envs.bsuite.simple_bandit import SimpleBandit, State
from tests.envs.bsuite import reference
from tests.errors import like
from tests.packages import lazy
from tests.parity import certify

bsuite_bandit = lazy("bsuite.environments.bandit")
sweep = lazy("bsuite.experiments.bandit.sweep")

ID = "SimpleBandit-bsuite"


def translated(env):
    return State(np.float32(env._rewards), np.int32(round(env._total_regret * (env._num_actions - 1))))


TRANSLATION = reference.Translation(ID, translated)


def pulled(env, num_steps):
    """Steps of the original with each arm in turn, at regrets below 30, where float32 resolves 1e-5."""
    arms = itertools.count()

    def place(env, rng):
        env._total_regret = int(rng.integers(30 * (env._num_actions - 1))) / (env._num_actions - 1)
        return next(arms) % env._num_actions

    return reference.injected_steps(reference.recorded(env), TRANSLATION, num_steps, place)


# bsuite sums regrets in float64, ours is a quotient in float32 with an error of 2e-6 at 30.
def test_every_arm_of_bsuites_twenty_settings_pays_as_in_the_original():
    steps = [pulled(bsuite_bandit.SimpleBandit(**setting), 110) for setting in sweep.SETTINGS]
    for setting, found in zip(sweep.SETTINGS, steps, strict=True):
        arms = reference.start(reference.bare(ID, **setting), 1).arms[0]
        np.testing.assert_array_equal(arms, found[0].before.arms)
    played = list(itertools.chain(*steps))
    error = reference.assert_steps_match(reference.bare(ID), played, 1e-5)
    certify(ID, "bsuite", states=len(played), tolerance=1e-5, error=error)


@pytest.mark.parametrize("num_actions", [2, 5])
def test_another_number_of_arms_pays_as_in_the_original(num_actions):
    played = pulled(bsuite_bandit.SimpleBandit(3, num_actions), 10 * num_actions)
    env = reference.bare(ID, num_actions=num_actions, mapping_seed=3)
    np.testing.assert_array_equal(reference.start(env, 1).arms[0], played[0].before.arms)
    error = reference.assert_steps_match(env, played, 1e-5)
    certify(ID, "bsuite", states=len(played), tolerance=1e-5, error=error)


@jax.jit
def rows(env, actions):
    """The trajectory of a stack after its reset, for actions ``[T, B]``."""
    return jax.lax.scan(env.step, env.reset(jax.random.key(0))[0], actions)[1]


def test_a_sequence_of_episodes_equals_the_original_including_the_regret():
    # The original restarts on the step after an end, as our default does.
    actions = np.random.default_rng(0).integers(11, size=(400, 1)).astype(np.int32)
    ours = jax.device_get(rows(jaxenv.make(ID, num_envs=1, mapping_seed=7), actions))
    theirs = bsuite_bandit.SimpleBandit(7)
    theirs.reset()
    error = 0.0
    for t, (action,) in enumerate(actions):
        timestep = theirs.step(int(action))
        assert ours.step_type[t, 0] == timestep.step_type
        pairs = [
            (ours.reward[t, 0], timestep.reward or 0.0),
            (ours.discount[t, 0], 1.0 if timestep.first() else timestep.discount),
            (ours.observation[t, 0, 0, 0], timestep.observation[0, 0]),
            (ours.env_info["total_regret"][t, 0], theirs.bsuite_info()["total_regret"]),
        ]
        error = max(error, *(abs(float(a) - b) for a, b in pairs))
    # The rounding error of a regret of 100 in float32 is 4e-6.
    assert theirs.bsuite_info()["total_regret"] > 80
    certify(ID, "bsuite", episodes=200, steps=200, tolerance=1e-5, error=error)


def test_arms_differ_by_lane_and_stay_the_same_for_all_episodes():
    # All lanes pull the same arm. It always pays the same in a lane, and 300 lanes show all payoffs.
    paid = np.asarray(rows(jaxenv.make(ID, num_envs=300), np.full((20, 300), 4, np.int32)).reward)[::2]
    np.testing.assert_array_equal(paid, np.broadcast_to(paid[:1], paid.shape))
    assert len(np.unique(paid[0])) == 11


def test_the_payoff_of_every_arm_is_uniform():
    ranks = np.rint(reference.start(reference.bare(ID), 11_000).arms * 10).astype(int)
    np.testing.assert_array_equal(np.sort(ranks, axis=-1), np.broadcast_to(np.arange(11), ranks.shape))
    for arm in range(11):
        reference.assert_counts_match(np.bincount(ranks[:, arm], minlength=11), [1000] * 11)


def test_only_compat_gymnax_redraws_arms_and_clears_the_regret_with_every_episode():
    old, new = State("old arms", 5), State("new arms", 0)
    assert reference.bare(ID).carry(old, new) is old
    assert reference.bare(ID, compat="gymnax").carry(old, new) is new


def test_compat_gymnax_equals_gymnax():
    bandit = pytest.importorskip("gymnax.environments.bsuite.bandit")
    theirs = bandit.SimpleBandit()

    @jax.jit
    def step_all(arms, action):
        def one(arms, action):
            state = bandit.EnvState(rewards=arms, total_regret=0.0, time=0)
            return theirs.step_env(jax.random.key(0), state, action, theirs.default_params)[:4]

        return jax.vmap(one)(arms, action)

    arms = np.float32(np.random.default_rng(0).permuted(np.tile(np.linspace(0, 1, 11), (2200, 1)), axis=1))
    action, regret = np.resize(np.arange(11, dtype=np.int32), 2200), np.zeros(2200, np.int32)
    observation, after, reward, terminated = jax.device_get(step_all(arms, action))
    ours, shown = jax.device_get(
        reference.advance(reference.bare(ID, compat="gymnax"), State(arms, regret), action, ())
    )
    np.testing.assert_array_equal(ours.arms, after.rewards)
    for ours_value, theirs_value in zip(shown[:3], (reward, terminated, observation), strict=True):
        np.testing.assert_array_equal(ours_value, theirs_value)
    np.testing.assert_allclose(shown[3]["total_regret"], after.total_regret, atol=1e-6)


def test_specs_equal_those_of_the_original_and_have_bounds():
    env, theirs = reference.bare(ID), bsuite_bandit.SimpleBandit()
    observation, action = env.observation_spec(), env.action_spec()
    assert (observation.shape, observation.dtype) == (theirs.observation_spec().shape, theirs.observation_spec().dtype)
    assert (observation.minimum, observation.maximum) == (1, 1)
    assert action.num_values == theirs.action_spec().num_values
    assert jaxenv.spec(ID).max_episode_steps is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_actions": 1}, "num_actions ...got 1"),
        ({"mapping_seed": -1}, "mapping_seed ...got -1"),
        ({"mapping_seed": 0.5}, "mapping_seed ...got 0.5"),
        ({"compat": "gym"}, r"compat ...got 'gym'"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=like(f"{ID}: {message}")):
        SimpleBandit(name=ID, **options)
