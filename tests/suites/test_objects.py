"""Environments that a program made itself, of Gymnasium and dm_env, in lock-step with the originals."""

import copy

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import specs

dm_env, gymnasium = pytest.importorskip("dm_env"), pytest.importorskip("gymnasium")


class Walk(gymnasium.Env):
    """Walks by the action; ends beyond 3."""

    observation_space = gymnasium.spaces.Dict({"x": gymnasium.spaces.Box(-9, 9, (2,), np.float32)})
    action_space = gymnasium.spaces.Discrete(3, start=-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return {"x": self.x}, {}

    def step(self, action):
        self.x = self.x + np.float32([action, 2 * action])
        return {"x": self.x}, float(self.x[0]), bool(self.x[0] > 3), False, {}


class Corridor(dm_env.Environment):
    """Counts the steps; a termination (discount 0) or a truncation (discount 1) after ``length`` of them."""

    def __init__(self, length=3, discount=0.0, middle=1.0):
        self.length, self.discount, self.middle = length, discount, middle

    def reset(self):
        self.count = 0
        return dm_env.restart(self._shown())

    def step(self, action):
        self.count += 1
        last = self.count == self.length
        kind = dm_env.StepType.LAST if last else dm_env.StepType.MID
        return dm_env.TimeStep(kind, 2.0 * int(action), self.discount if last else self.middle, self._shown())

    def _shown(self):
        return {"count": np.array(self.count, np.int32), "image": np.full((2, 3), self.count, np.float32)}

    def observation_spec(self):
        return {
            "count": dm_env.specs.BoundedArray((), np.int32, 0, 9),
            "image": dm_env.specs.Array((2, 3), np.float32),
        }

    def action_spec(self):
        return dm_env.specs.DiscreteArray(4)


def play(env, actions, lanes):
    state, row = env.reset(jax.random.key(3))
    rows = [row]
    for action in actions:
        state, row = env.step(state, np.full(lanes, action, np.int32))
        rows.append(row)
    return rows


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_function_makes_lanes_in_lock_step_with_the_original(lanes):
    actions = [1, 0, 1, 1, 1, 1, -1, 1, 1, 1, 1, 1, 1]
    with jaxenv.make(Walk, lanes, max_episode_steps=7) as env:
        rows = play(env, actions, lanes)
        seeds = [int(x) for x in env.unwrapped.engine._env.np_random_seed]
    assert len(set(seeds)) == lanes
    for lane, seed in enumerate(seeds):
        own = gymnasium.wrappers.TimeLimit(Walk(), 7)
        shown, ended = own.reset(seed=seed)[0], False
        np.testing.assert_array_equal(rows[0].observation["x"][lane], shown["x"])
        for action, row in zip(actions, rows[1:], strict=True):
            if ended:
                shown, ended = own.reset()[0], False
                assert (int(row.step_type[lane]), float(row.reward[lane])) == (0, 0)
            else:
                shown, reward, terminated, truncated, _ = own.step(action)
                ended = terminated or truncated
                given = [float(row.reward[lane]), bool(row.terminated[lane]), bool(row.truncated[lane])]
                assert given == [np.float32(reward), terminated, truncated and not terminated]
            np.testing.assert_array_equal(row.observation["x"][lane], shown["x"])


def test_an_object_is_one_lane():
    with jaxenv.make(Walk()) as env:
        assert len(play(env, [1, 1], 1)) == 3
    with pytest.raises(ValueError, match=r"Walk: num_envs .*got 2"):
        jaxenv.make(Walk(), 2)
    with pytest.raises(ValueError, match="Walk: vectorization must be 'sync'"):
        jaxenv.make(Walk(), vectorization="async")


def test_an_object_is_not_copied_and_is_closed_once():
    class Counted(Walk):
        closed = 0

        def close(self):
            self.closed += 1

    counted = Counted()
    with jaxenv.make(counted) as env:
        with pytest.raises(TypeError, match="an environment object cannot be copied"):
            copy.deepcopy(env)
        env.reset(jax.random.key(0))
        assert counted.closed == 0
    assert counted.closed == 1


def test_an_unknown_option_is_refused_by_name():
    with pytest.raises(ValueError, match=r"load: Walk: unknown keyword 'max_steps', did you mean 'max_episode_steps'"):
        jaxenv.make(Walk, max_steps=3)


def test_an_object_shows_its_own_pictures():
    class Drawn(Walk):
        render_mode = "rgb_array"

        def render(self):
            return np.full((2, 4, 3), np.arange(4, dtype=np.uint8)[:, None])

    with jaxenv.make(Drawn()) as env:
        picture = env.render(env.reset(jax.random.key(0))[0], (10, 8))
    np.testing.assert_array_equal(picture[0, :, :, 0], [[0, 0, 1, 1, 2, 2, 3, 3]] * 10)
    with jaxenv.make(Walk()) as env, pytest.raises(ValueError, match="render needs pictures"):
        env.render(env.reset(jax.random.key(0))[0], (10, 8))


def test_a_function_for_processes_must_be_picklable():
    lock = __import__("threading").Lock()
    with pytest.raises(ValueError, match=r"the function .*'async'"):
        jaxenv.make(lambda: lock and Walk(), 2, vectorization="async")
    with jaxenv.make(lambda: Walk(), 2, vectorization="async") as env:
        assert len(play(env, [1, 1], 2)) == 3


@pytest.mark.parametrize(("discount", "terminated"), [(0.0, True), (1.0, False)])
@pytest.mark.parametrize("whole", [True, False])
def test_dm_env_maps_step_types_discounts_and_specs_one_to_one(discount, terminated, whole):
    made = Corridor(3, discount) if whole else (lambda: Corridor(3, discount))
    with jaxenv.make(made) as env:
        assert env.observation_spec()["count"] == specs.Bounded((), np.int32, 0, 9)
        assert env.observation_spec()["image"] == specs.Array((2, 3), np.float32)
        assert env.action_spec().num_values == 4
        rows = play(env, [1, 2, 3, 0, 1], 1)
    assert [int(row.step_type[0]) for row in rows] == [0, 1, 1, 2, 0, 1]
    assert [float(row.reward[0]) for row in rows] == [0, 2, 4, 6, 0, 2]
    assert [float(row.discount[0]) for row in rows] == [1, 1, 1, discount, 1, 1]
    assert bool(rows[3].terminated[0]) == terminated
    assert [int(row.observation["count"][0]) for row in rows] == [0, 1, 2, 3, 0, 1]


def test_other_discounts_of_dm_env_are_refused():
    with jaxenv.make(Corridor(3, middle=0.9)) as env, pytest.raises(RuntimeError, match="discount must be 1, or 0"):
        play(env, [1], 1)


def test_a_function_must_return_an_environment():
    with pytest.raises(ValueError, match=r"must return .*got 3"):
        jaxenv.make(lambda: 3)


def test_an_environment_without_an_id_is_evaluated():
    for limit, longest in ((None, 99), (5, 5)):
        with jaxenv.make(Walk, num_envs=2, max_episode_steps=limit) as env:
            found = jaxenv.evaluate(env, lambda row, stream: np.ones(2, np.int32), jax.random.key(0), 4)
        assert ((found.lengths > 0) & (found.lengths <= longest)).all()
