"""bsuite's swing-up compared with the package ``bsuite``."""

import functools

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.canvas import GREEN, ORANGE
from jaxenv.envs.bsuite._pole_task import Pole, last_step
from jaxenv.envs.bsuite.cart_pole_swingup import CartPoleSwingup, Cost, State
from tests.envs.bsuite import poles, reference
from tests.packages import lazy
from tests.parity import certify
from tests.pictures import lanes, picture, shows

swingup = lazy("bsuite.experiments.cartpole_swingup.cartpole_swingup")
sweep = lazy("bsuite.experiments.cartpole_swingup.sweep")

ID = "CartPoleSwingup-bsuite"

SETS = {
    "defaults": ({}, {}),
    "one of bsuite's twenty": ({"height_threshold": 0.65, "x_reward_threshold": 0.35}, {}),
    "expensive moves, heavy pole": (
        {"height_threshold": -0.5, "theta_dot_threshold": 4.0, "move_cost": 0.3, "x_threshold": 2.0},
        {"mass_cart": 0.7, "mass_pole": 0.4, "length": 0.8, "gravity": 3.7, "force_mag": 4.0},
    ),
}


@functools.cache
def counting():
    """A class, made when a test needs it, because bsuite is imported then."""

    class Original(swingup.CartpoleSwingup):
        """The original with its moves counted, which its float returns do not determine."""

        moves = total_moves = upright = 0

        def reset(self):
            self.moves = self.upright = 0
            return super().reset()

        def step(self, action):
            before = self._total_upright
            timestep = super().step(action)
            if not timestep.first():
                self.moves, self.total_moves = self.moves + (action != 1), self.total_moves + (action != 1)
                self.upright += int(self._total_upright - before)
            return timestep

    return Original


def original(options, config):
    return poles.configure(counting()(**options), **config)


def ours(options, config):
    return reference.bare(ID, **options, **{{"force_mag": "force"}.get(k, k): v for k, v in config.items()})


def translated(env):
    upright, total_upright = np.int32(env.upright), np.int32(env._total_upright)
    spent, total_spent = (Cost(np.float32(env._move_cost * n), np.float32(0)) for n in (env.moves, env.total_moves))
    best = np.float32(env._best_episode)
    return State(poles.pole(env), poles.steps(env), upright, spent, total_upright, total_spent, best)


TRANSLATION = reference.Translation(ID, translated)


def anywhere(env, rng):
    """States within the limits and a little outside, a tenth of them in the last steps before the horizon."""
    horizon = last_step(env._timescale, env._max_time)
    num_steps = rng.integers(horizon - 5, horizon) if rng.random() < 0.1 else rng.integers(horizon)
    poles.place(env, rng, np.array([1.2 * env._x_threshold, 5, np.pi, 8]), num_steps)
    if rng.random() < 0.5:  # near upright
        poles.place(env, rng, np.array([1.5 * env._x_reward_threshold, 3, 1.2, 1.5]), num_steps)
    # Sums of rewards stay below 100, where float32 resolves 1e-5.
    env.upright, env.moves, env._total_upright, env.total_moves = rng.integers(50, size=4).tolist()
    env._episode_return = env.upright - env._move_cost * env.moves
    env._raw_return = env._total_upright - env._move_cost * env.total_moves
    env._best_episode = float(np.float32(rng.uniform(0, 50)))


def distances(env):
    """The distances of a step's numbers from the thresholds of its flags."""

    def of(step):
        p = step.after.pole
        return [
            np.cos(float(p.theta)) - env._height_threshold,
            abs(p.theta_dot) - env._theta_dot_threshold,
            abs(p.x) - env._x_reward_threshold,
            abs(p.x) - env._x_threshold,
        ]

    return of


# Numbers of the pole are below 16, where float32 has a spacing of 1e-6; a step rounds a few times.
@pytest.mark.parametrize(("options", "config"), SETS.values(), ids=SETS.keys())
def test_one_step_from_any_state_equals_the_original(options, config):
    env = reference.recorded(original(options, config))
    found = reference.injected_steps(env, TRANSLATION, poles.NUM_STEPS + 20, anywhere)
    played = poles.decided(found, distances(env))
    assert 0.1 < np.mean([s.terminated for s in played]) < 0.9
    assert sum(s.terminated and abs(s.after.pole.x) < env._x_threshold for s in played) >= 10
    assert len({round(s.reward, 6) for s in played}) == 4, "upright or not, pushed or not"
    error = reference.assert_steps_match(ours(options, config), played, 1e-5)
    certify(ID, "bsuite", states=len(played), tolerance=1e-5, error=error)


def test_whole_random_episodes_equal_the_original_to_their_ends():
    # With these thresholds any pole that does not hang straight down is upright, so that random play earns rewards.
    # With rare pushes some carts stay on their track to the end.
    options = {"height_threshold": -0.999, "x_reward_threshold": 0.5}
    played = reference.episodes(
        lambda: counting()(**options), TRANSLATION, 8, lambda env, rng: rng.choice(3, p=[0.01, 0.98, 0.01])
    )
    assert {len(steps) == 1001 for steps in played} == {True, False}
    assert len({round(s.reward, 6) for steps in played for s in steps}) == 4
    # Errors of a hanging pole grow little; returns near 1000 are rounded to 3e-5.
    error = reference.assert_episodes_match(reference.bare(ID, **options), played, 5e-5)
    certify(ID, "bsuite", episodes=len(played), steps=sum(map(len, played)), tolerance=5e-5, error=error)


def test_the_angle_stays_exact_over_many_turns():
    # The pole rotates about ten times a second for ten seconds, without gravity.
    env = reference.bare(ID, gravity=0.0, mass_pole=0.0, x_threshold=1e6)
    zero, count = np.zeros(8, np.float32), np.zeros(8, np.int32)
    none = Cost(zero, zero)
    state = State(Pole(zero, zero, zero, np.float32([60, -60] * 4)), count, count, none, count, none, zero)
    observation = np.asarray(reference.follow(env, state, np.ones((1001, 8), np.int32), ())[2])[:, 0, 0]
    angle = np.arange(1, 1002) * 60 * float(np.float32(0.01))
    np.testing.assert_allclose(observation[:, 2], np.sin(angle), atol=1e-4)
    np.testing.assert_allclose(observation[:, 3], np.cos(angle), atol=1e-4)


def test_best_episode_is_at_least_zero_and_counts_finished_episodes_only():
    # A push in a state that terminates by its position, and in one that does not. With NUM_STEPS lanes nothing is
    # recompiled.
    zero, count = np.zeros(poles.NUM_STEPS, np.float32), np.zeros(poles.NUM_STEPS, np.int32)
    x = np.resize(np.float32([4, 0]), poles.NUM_STEPS)
    none = Cost(zero, zero)
    state = State(Pole(x, zero, zero + 3, zero), count, count + 9, none, count, none, zero + 5)
    for best, upright, expected in ((5, 9, [8.9, 5]), (0, 0, [0, 0])):
        given = tree.rebuild(state, upright=count + upright, best_episode=zero + best)
        after, _ = reference.advance(reference.bare(ID), given, count, ())
        np.testing.assert_allclose(after.best_episode[:2], expected, rtol=1e-6)


def test_every_push_is_counted_at_the_cost_of_its_step():
    zero, count = np.zeros(poles.NUM_STEPS, np.float32), np.zeros(poles.NUM_STEPS, np.int32)
    none, total = Cost(zero, zero), 0.0
    state = State(Pole(zero, zero, zero + 3, zero), count, count, none, count, none, zero)
    for move_cost in (0.1, 0.7, 0.0):
        env = reference.bare(ID, move_cost=move_cost)
        state, (reward, _, _, info) = reference.advance(env, state, count, ())
        total += float(reward[0])
        np.testing.assert_allclose(info["raw_return"], total, rtol=1e-6)


def test_the_cost_of_a_hundred_thousand_pushes_is_exact():
    zero = np.float32(0)
    spent = jax.jit(lambda cost: jax.lax.fori_loop(0, 100_000, lambda _, c: c.plus(np.float32(0.1)), cost))
    # An uncompensated float32 sum would be 9998.6.
    assert float(spent(Cost(zero, zero)).total) == np.float32(100_000 * float(np.float32(0.1)))


def test_only_the_counters_are_carried_over_to_the_next_episode():
    old = State(Pole(1.0, 2.0, 3.0, 4.0), 5, 6, Cost(7.0, 0.7), 8, Cost(9.0, 0.9), 10.0)
    new = State(Pole(0.1, 0.2, 0.3, 0.4), 0, 0, Cost(0.0, 0.0), 0, Cost(0.0, 0.0), 0.0)
    kept = reference.bare(ID).carry(old, new)
    assert (kept.pole, kept.steps, kept.upright, kept.cost) == (new.pole, 0, 0, new.cost)
    assert (kept.total_upright, kept.total_cost, kept.best_episode) == (8, old.total_cost, 10.0)


def test_initial_states_hang_down_within_the_range_of_the_original():
    state = reference.start(reference.bare(ID), 4000)
    columns = jax.tree.leaves(state.pole)
    for column, middle in zip(columns, (0, 0, np.pi, 0), strict=True):
        reference.assert_uniform(column, middle - 0.05, middle + 0.05)
    assert np.abs(np.corrcoef(columns) - np.eye(4)).max() < 5 / np.sqrt(4000)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(state)[4:])


def test_specs_equal_those_of_the_original_and_have_bounds():
    env, theirs = reference.bare(ID), swingup.CartpoleSwingup()
    observation, action = env.observation_spec(), env.action_spec()
    assert (observation.shape, observation.dtype) == (theirs.observation_spec().shape, theirs.observation_spec().dtype)
    assert action.num_values == theirs.action_spec().num_values
    assert observation.maximum.tolist() == [[np.inf, np.inf, 1, 1, np.inf, np.float32(1.001), 1, 1]]
    assert jaxenv.spec(ID).max_episode_steps is None


def test_bsuites_twenty_settings_fit_in_one_batch():
    columns = {name: np.array([setting[name] for setting in sweep.SETTINGS]) for name in sweep.SETTINGS[0]}
    env = reference.bare(ID, 20, **columns)
    np.testing.assert_array_equal(env.params.height_threshold, np.float32(columns["height_threshold"]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timescale": 0.0}, r"CartPoleSwingup-bsuite: timescale .*got 0.0"),
        ({"max_time": -1.0}, r"CartPoleSwingup-bsuite: max_time .*got -1.0"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        CartPoleSwingup(name=ID, **options)


def test_in_the_picture_the_pole_is_green_while_it_is_upright_central_and_slow():
    pole = Pole(*lanes([0, 0, 2, 0], [0, 0, 0, 0], [0, np.pi, 0, 0], [0, 0, 0, 3]))
    none, zero = np.zeros(4, np.float32), np.zeros(4, np.int32)
    state = State(pole, zero, zero, Cost(none, none), zero, Cost(none, none), none)
    images = picture(CartPoleSwingup(), state, 4)
    np.testing.assert_array_equal(shows(images, ORANGE).any(axis=(1, 2)), [False, True, True, True])
    assert shows(images, GREEN)[0].sum() > shows(images, GREEN)[1].sum()
