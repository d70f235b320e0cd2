"""Single environments, spaces and ids for Gymnasium."""

import os
import warnings

import jax
import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import PassiveEnvChecker, TimeLimit

import jaxenv
from jaxenv import specs
from jaxenv.core.wrapper import layers
from jaxenv.interop import to_gymnasium, to_gymnasium_vector
from jaxenv.interop.gymnasium import to_space
from jaxenv.specs import from_gymnasium
from jaxenv.testing import Counting
from tests.errors import like

# Advice about spaces, which Gymnasium's own CartPole and Pendulum do not follow either.
_ADVICE = "space minimum value is -infinity|space maximum value is infinity|symmetric and normalized space"


@pytest.mark.slow
@pytest.mark.parametrize(
    "id", ["CartPole-v1", "Pendulum-v1", "Blackjack-v1", "FrozenLake-v1", "Breakout-MinAtar", "CardGame-v0"]
)
def test_gymnasiums_checker_accepts_it(id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", f".*({_ADVICE})")
        check_env(gymnasium.make(f"jaxenv/{id}", disable_env_checker=True).unwrapped)


def test_results_are_pythons_numbers_and_samples_of_the_space():
    env = to_gymnasium("Blackjack-v1")
    observation, info = env.reset(seed=np.int64(0))
    assert all(type(x) is int for x in observation)
    observation, reward, terminated, truncated, info = env.step(np.int64(0))
    assert observation in env.observation_space
    assert [type(x) for x in (reward, terminated, truncated)] == [float, bool, bool]
    assert type(info) is dict


def test_an_episode_ends_and_the_next_one_must_be_started():
    env = to_gymnasium(Counting(np.array([2, 1]), stride=10))
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset before step"):
        env.step(0)
    assert env.reset(seed=0)[0] == 0
    assert env.step(3)[:4] == (1, 3.0, False, False)
    assert env.step(3)[:4] == (2, 3.0, True, False)
    with pytest.raises(gymnasium.error.ResetNeeded, match="the episode ended, call reset"):
        env.step(3)
    assert env.reset()[0] == 10
    assert env.step(3)[:4] == (11, 3.0, True, False)
    limited = to_gymnasium(jaxenv.wrappers.TimeLimit(Counting(np.array([9])), 1))
    limited.reset(seed=0)
    assert limited.step(3)[2:4] == (False, True)
    with pytest.raises(gymnasium.error.ResetNeeded, match="the episode ended, call reset"):
        limited.step(3)
    env.close()
    env.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="the environment is closed"):
        env.reset()


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0"])
def test_a_step_of_one_lane_is_compiled_without_the_reductions_of_many_lanes(id):
    # XLA:CPU allocates a buffer for every operation of a reducer in every call.
    def program(env):
        env.reset(seed=0)
        action = env._actions(env.action_space.sample())
        return env._programs.step.lower(env._leaves, env._state, action).as_text()

    assert "reducer(" not in program(to_gymnasium(id))
    assert "reducer(" in program(to_gymnasium_vector(id, 65, autoreset=None))


def test_an_action_is_checked_however_often_it_was_given():
    env = cart_pole()
    for action in (1, np.int64(1), np.array(1), 1):
        env.step(action)
    for wrong in (1.0, np.float32(1), np.array([1])):
        with pytest.raises(ValueError, match="to_gymnasium: action must"):
            env.step(wrong)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"action .*got 2"):
            env.step(2)


def test_the_mask_of_the_last_row_is_what_maskable_ppo_asks_for():
    env = gymnasium.make("jaxenv/TicTacToe-v0", opponent="random")
    ask = env.get_wrapper_attr("action_masks")
    with pytest.raises(gymnasium.error.ResetNeeded, match="to_gymnasium: call reset before action_masks"):
        ask()
    observation, _ = env.reset(seed=0)
    ended = False
    while not ended:
        np.testing.assert_array_equal(ask(), observation.ravel() == 0)
        ask()[:] = False  # the array belongs to the caller
        observation, _, terminated, truncated, info = env.step(int(ask().argmax()))
        ended = terminated or truncated
    np.testing.assert_array_equal(ask(), info["action_mask"])
    observation, _ = env.reset()
    np.testing.assert_array_equal(ask(), observation.ravel() == 0)
    assert not hasattr(to_gymnasium("CartPole-v1"), "action_masks")
    assert not gymnasium.make("jaxenv/CartPole-v1").has_wrapper_attr("action_masks")


def test_the_first_seed_determines_all_episodes():
    env = to_gymnasium("CartPole-v1")
    starts = [[env.reset(seed=seed)[0], env.reset()[0]] for seed in (2**32 - 1, 2**32 - 1, 3)]
    np.testing.assert_array_equal(starts[0], starts[1])
    assert len(np.unique(np.concatenate([starts[0], starts[2]]), axis=0)) == 4
    other = to_gymnasium("CartPole-v1")
    np.testing.assert_array_equal(other.reset()[0], env.reset(seed=other.np_random_seed)[0])
    assert not np.array_equal(other.reset()[0], to_gymnasium("CartPole-v1").reset()[0])


def cart_pole():
    env = to_gymnasium("CartPole-v1")
    env.reset(seed=0)
    return env


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: to_gymnasium(jaxenv.make("CartPole-v1")), "to_gymnasium: the caller restarts"),
        (lambda: to_gymnasium("CartPole-v1", autoreset="same_step"), "leave out autoreset, got 'same_step'"),
        (lambda: to_gymnasium("CartPole-v1", num_envs=2), "leave out num_envs, ...got 2"),
        (lambda: to_gymnasium(Counting(np.array([1]), num_envs=2)), "env ...got 2"),
        (
            lambda: to_gymnasium("CartPole-v1", render_mode="human"),
            "render_mode ...got 'human'",
        ),
        (lambda: to_gymnasium("CartPole-v1").render(), "render needs render_mode='rgb_array'"),
        (lambda: to_gymnasium("CartPole-v1").reset(options={"low": 1}), "reset ...got 'low'"),
        (
            lambda: to_gymnasium("CartPole-v1").reset(seed=2**32),
            "seed ...got 4294967296",
        ),
        (lambda: cart_pole().step(np.array([1])), "to_gymnasium: action ...got (1,)"),
        (lambda: cart_pole().reset(seed=jax.random.key(0)), "in [0, 2**32), got a JAX key"),
        (lambda: cart_pole().step(2), "to_gymnasium: action ...got 2"),
        (lambda: to_gymnasium(jaxenv.testing.every_kind()[3]), "a reward must"),
    ],
)
def test_what_cannot_be_exported_is_refused(make, message):
    with pytest.raises(ValueError, match=like(message)):
        make()


# --- Gymnasium's registry ---------------------------------------------------------------------------------------------


def test_every_id_is_registered():
    for id in jaxenv.ids():
        spec, ours = gymnasium.spec(f"jaxenv/{id}"), jaxenv.spec(id)
        is_tasks_own = ours.terminal_limit or ours.limit_follows_params
        assert spec.max_episode_steps == (None if is_tasks_own else ours.max_episode_steps)
        assert spec.reward_threshold == ours.reward_threshold


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "limit"), [({}, 100), ({"max_steps": 130}, 130), ({"size": 4}, 64), ({"max_episode_steps": 9}, 9)]
)
def test_a_limit_that_follows_params_does_so_under_gymnasiums_make(options, limit):
    id = "jaxenv/MiniGrid-Empty-5x5-v0"
    for make in (gymnasium.make, lambda id, **options: gymnasium.make_vec(id, num_envs=2, **options)):
        env = make(id, **options)
        env.reset(seed=0)
        ends = [np.all(env.step(env.action_space.sample() * 0)[3]) for _ in range(limit)]  # turns left
        assert ends == (limit - 1) * [False] + [True]


def test_ids_that_are_registered_later_are_found_and_those_without_a_name_stay_out():
    jaxenv.register("OneStep-v0", lambda num_envs: Counting(np.array([2]), num_envs=num_envs), max_episode_steps=1)
    jaxenv.register("a name with spaces", Counting)
    envs = gymnasium.make_vec("jaxenv/OneStep-v0", num_envs=2)
    envs.reset(seed=0)
    assert envs.step(np.array([1, 2]))[3].tolist() == [True, True]
    assert not any("spaces" in id for id in gymnasium.registry)
    del gymnasium.registry["jaxenv/OneStep-v0"]


def test_make_applies_the_time_limit_once():
    env = gymnasium.make("jaxenv/CartPole-v1")
    levels = []
    while isinstance(env, gymnasium.Wrapper):
        levels, env = [*levels, type(env)], env.env
    assert levels.count(TimeLimit) == 1
    assert PassiveEnvChecker in levels
    assert not any(isinstance(level, jaxenv.wrappers.TimeLimit) for level in layers(env.env))


@pytest.mark.parametrize("mode", ["vector_entry_point", "sync"])
def test_time_limits_given_to_gymnasium_are_those_of_the_episodes(mode):
    envs = gymnasium.make_vec("jaxenv/MountainCar-v0", 1, vectorization_mode=mode, max_episode_steps=3)
    envs.reset(seed=0)
    assert [envs.step(np.array([1]))[3].item() for _ in range(3)] == [False, False, True]


def test_a_time_limit_given_to_gymnasium_may_be_longer_than_the_registered_one():
    assert gymnasium.spec("jaxenv/MountainCar-v0").max_episode_steps == 200
    env = gymnasium.make("jaxenv/MountainCar-v0", max_episode_steps=202)
    env.reset(seed=0)
    ends = [env.step(1)[3] for _ in range(202)]
    assert ends == [False] * 201 + [True]


def test_options_reach_the_environment():
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    envs = gymnasium.make_vec("jaxenv/CartPole-v1", num_envs=2, autoreset=mode, arrays="jax", gravity=5.0)
    assert envs.metadata["autoreset_mode"] is mode
    assert envs.env.params.gravity == 5.0
    assert isinstance(envs.reset(seed=0)[0], jax.Array)
    again = gymnasium.make_vec(envs.spec)
    assert (again.num_envs, again.env.params.gravity) == (2, 5.0)
    assert gymnasium.make_vec("jaxenv.interop.gymnasium:jaxenv/CartPole-v1", num_envs=2).num_envs == 2


@pytest.mark.parametrize("keyword", ["size", "frameskip"])
def test_make_raises_a_type_error_for_keywords_that_its_callers_try(keyword):
    with pytest.raises(TypeError, match=f"got an unexpected keyword argument '{keyword}'"):
        gymnasium.make("jaxenv/CartPole-v1", **{keyword: "rgb_array"})


def test_make_names_the_render_mode():
    with pytest.raises(TypeError, match=r"to_gymnasium: render_mode .*got 'human'"):
        gymnasium.make("jaxenv/CartPole-v1", render_mode="human")


def test_wrappers_of_gymnasium_record_its_pictures(tmp_path):
    env = gymnasium.wrappers.RenderCollection(gymnasium.make("jaxenv/CartPole-v1", render_mode="rgb_array"))
    env.reset(seed=0)
    for _ in range(3):
        env.step(1)
    pictures = env.render()
    assert [picture.shape for picture in pictures] == [(256, 256, 3)] * 4
    assert not np.array_equal(pictures[0], pictures[-1])


def test_specs_of_environments_that_were_not_made_by_gymnasium_make_them_again():
    env = to_gymnasium("CartPole-v1", gravity=5.0, max_episode_steps=7)
    assert env.spec.max_episode_steps == 7
    assert gymnasium.make(env.spec).unwrapped.env.params.gravity == 5.0
    envs = jaxenv.interop.to_gymnasium_vector("CartPole-v1", 2, autoreset=None)
    assert gymnasium.make_vec(envs.spec).metadata == envs.metadata
    assert repr(envs) == "JaxenvVectorEnv(jaxenv/CartPole-v1, num_envs=2)"
    assert to_gymnasium(Counting(np.array([2]))).spec is None
    assert repr(env) == "<JaxenvEnv<TimeLimit<CartPole-v1>>>"


def test_the_spec_of_trials_has_no_limit_of_one_episode():
    trials = to_gymnasium("CardGame-v0", max_episode_steps=4, wrappers=[("Trials", {"num_episodes": 3})])
    assert trials.spec.max_episode_steps is None
    again = gymnasium.make(trials.spec)
    lengths = []
    for env in (trials, again):
        env.reset(seed=0)
        lengths.append(1 + next(t for t in range(99) if any(env.step(0)[2:4])))
    assert lengths[0] == lengths[1] > 4


# --- spaces -----------------------------------------------------------------------------------------------------------

SPACES = [
    spaces.Discrete(3),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiDiscrete([2, 3], start=[-1, 4]),
    spaces.MultiBinary(3),
    spaces.Box(-1, 1, (2,)),
    spaces.Box(-np.inf, np.inf, (2, 1)),
    spaces.Box(0, np.inf, (2,)),
    spaces.Box(0, 255, (2, 2, 3), np.uint8),
    spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([2.0, 3.0], np.float32)),
    spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Tuple((spaces.MultiBinary(2), spaces.Box(-1, 1, (1,))))}),
]


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_spaces_survive_the_way_to_specs_and_back(space):
    spec = from_gymnasium(space)
    assert to_space(spec) == space
    space.seed(0)
    for _ in range(5):
        cast = jax.tree.map(lambda x, s: np.asarray(x).astype(s.dtype), space.sample(), spec)
        assert specs.contains(spec, cast)
        assert jax.device_get(specs.sample(spec, jax.random.key(0))) in space


@pytest.mark.parametrize("id", jaxenv.ids())
def test_the_spaces_of_every_id_hold_samples_of_its_specs(id):
    env = jaxenv.spec(id).make()
    for spec in (env.observation_spec(), env.action_spec()):
        space = to_space(spec)
        assert to_space(from_gymnasium(space)) == space
        sample = jax.tree.map(lambda s: np.zeros(s.shape, s.dtype) if s.ndim else s.dtype.type(0), spec)
        sample = jax.tree.map(lambda x, s: np.maximum(x, getattr(s, "minimum", x)).astype(s.dtype), sample, spec)
        assert sample in space


def test_dtypes_of_64_bits_become_those_of_jax():
    assert from_gymnasium(spaces.Box(-1, 1, (2,), np.float64)).dtype == np.float32
    assert from_gymnasium(spaces.Box(-np.finfo(np.float64).max, 1, (1,), np.float64)).minimum == -np.inf
    assert from_gymnasium(spaces.Discrete(2)).dtype == np.int32


@pytest.mark.parametrize("high", [2**40, 2**63 - 1])
def test_integers_that_do_not_fit_in_32_bits_need_x64(high):
    space = spaces.Box(0, high, (1,), np.int64)
    with pytest.raises(ValueError, match=r"from_gymnasium: the bounds of.* Box of int64"):
        from_gymnasium(space)
    with jax.enable_x64(True):
        assert from_gymnasium(space) == jaxenv.specs.Bounded((1,), np.int64, 0, high)


def test_spaces_whose_samples_are_no_arrays_are_refused():
    with pytest.raises(ValueError, match=r"from_gymnasium: space .*got Text\(1"):
        from_gymnasium(spaces.Dict({"a": spaces.Text(3)}))


def test_a_forked_process_is_refused_instead_of_hanging(monkeypatch):
    to_gymnasium("CartPole-v1")
    monkeypatch.setattr(os, "getpid", lambda: -1)  # a fork is another process, with the memory of its parent
    with pytest.raises(RuntimeError, match=r"^to_gymnasium: JAX does not run.*context='forkserver'"):
        to_gymnasium("CartPole-v1")
