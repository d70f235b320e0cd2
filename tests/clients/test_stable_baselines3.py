"""`to_stable_baselines3`, next to stable-baselines3's own vector environments, and its PPO."""

import copy
import pickle
import re

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3 import DQN, PPO
from stable_baselines3.common import vec_env
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

import jaxenv
import jaxenv.interop.gymnasium
from docs.examples import stable_baselines3_ppo
from jaxenv import specs
from jaxenv.interop import batch, to_gymnasium, to_stable_baselines3
from jaxenv.testing import Counting, every_kind
from jaxenv.wrappers import AutoReset, EpisodeStatistics, TimeLimit, preset
from tests.interop.ends import LANES, LIMIT, TERMINATED, TRUNCATED, ending

RIGHT = np.ones(3, np.int64)


def cart_pole():
    return to_stable_baselines3("CartPole-v1", 3, max_episode_steps=8)


def counting(shows="number"):
    """Episodes of 2 steps end in lane 0, those of lane 1 are cut after 3."""
    task = Counting(np.array([[2], [9]]), num_envs=2, stride=10, shows=shows)
    return to_stable_baselines3(AutoReset(TimeLimit(task, 3), "same_step"))


def vector_reward():
    return next(env for env in every_kind() if env.reward_spec().shape)


def played(envs, num_steps, action=RIGHT):
    """The results of the steps."""
    envs.seed(5)
    envs.reset()
    return [envs.step(action) for _ in range(num_steps)]


def test_where_both_ends_meet_there_is_no_truncation():
    envs = to_stable_baselines3(ending("same_step"))
    rows = played(envs, LIMIT, np.ones(LANES, np.int64))
    for t, (_, _, dones, infos) in enumerate(rows):
        first = ~np.any((TERMINATED | TRUNCATED)[:t], axis=0)
        assert dones[first].tolist() == (TERMINATED | TRUNCATED)[t][first].tolist()
        cut = np.array([info["TimeLimit.truncated"] for info in infos])
        assert cut[first].tolist() == TRUNCATED[t][first].tolist()
        assert ["terminal_observation" in info for info in infos] == dones.tolist()


def test_steps_are_those_of_single_environments_in_a_dummy_vec_env():
    theirs = vec_env.DummyVecEnv([lambda: to_gymnasium("CartPole-v1", max_episode_steps=8)] * 3)
    ends = []
    for step, their_step in zip(played(cart_pole(), 40), played(theirs, 40), strict=True):
        for found, expected in zip(step[:3], their_step[:3], strict=True):
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(found, expected, atol=1e-5)
        for ended, info, expected in zip(step[2], step[3], their_step[3], strict=True):
            assert ("terminal_observation" in info) == ended
            final, their_final = (x.pop("terminal_observation", np.zeros(4)) for x in (info, expected))
            np.testing.assert_allclose(final, their_final, atol=1e-5)
            assert info == expected
            ends += [info["TimeLimit.truncated"]] if ended else []
    assert set(ends) == {True, False}


@pytest.mark.parametrize(("shows", "entry"), [("number", int), ("tuple", tuple), ("dict", dict)])
def test_the_last_observation_and_the_kind_of_the_end_are_in_the_infos(shows, entry):
    found = [step[3] for step in played(counting(shows), 3, np.ones(2, np.int64))]
    finals = [[info.get("terminal_observation") for info in infos] for infos in found]
    assert [[final is not None for final in row] for row in finals] == [[0, 0], [1, 0], [0, 1]]
    assert isinstance(finals[1][0], entry)
    assert finals[1][0] == {"number": 2, "tuple": (0, 2), "dict": {"episode": 0, "step": 2}}[shows]
    assert finals[2][1] == {"number": 3, "tuple": (0, 3), "dict": {"episode": 0, "step": 3}}[shows]
    assert [[info["TimeLimit.truncated"] for info in infos] for infos in found] == [[0, 0], [0, 0], [0, 1]]


def test_what_a_step_returns_belongs_to_the_caller():
    envs = cart_pole()
    steps = played(envs, 11)
    copies = [(obs.copy(), reward.copy()) for obs, reward, _, _ in steps]
    for _ in range(3):
        envs.step(RIGHT)
    for (obs, reward, _, infos), (old_obs, old_reward) in zip(steps, copies, strict=True):
        np.testing.assert_array_equal(obs, old_obs)
        np.testing.assert_array_equal(reward, old_reward)
        reward += 1  # stable-baselines3 adds the value of the observation where a limit ended the episode
        infos[0]["mark"] = 1
        assert all("mark" not in info for info in infos[1:])


def test_a_seed_starts_the_same_episodes_once():
    envs = cart_pole()
    assert list(envs.seed(2**32 - 2)) == [2**32 - 2, 2**32 - 1, 2**32]
    first, second = envs.reset(), envs.reset()
    envs.seed(2**32 - 2)
    np.testing.assert_array_equal(envs.reset(), first)
    assert len(np.unique(np.concatenate([first, second, cart_pole().reset()]), axis=0)) == 9


def test_statistics_of_episodes_have_the_form_of_a_monitor_where_an_episode_ended():
    lengths = np.array([[2, 5, 1], [4, 2, 3], [9, 1, 9]])
    task = EpisodeStatistics(TimeLimit(Counting(lengths, num_envs=3), 3))
    envs = vec_env.VecMonitor(to_stable_baselines3(AutoReset(task, "same_step")))
    found = []
    monitored, inside = envs, envs.venv
    inside.step_wait = lambda step=inside.step_wait: found.append(step()) or copy.deepcopy(found[-1])
    expected = played(monitored, 20, np.array([1, 2, 3]))  # the reward of a step is the action
    for (_, _, ended, infos), (*_, their_infos) in zip(found, expected, strict=True):
        for lane in range(3):
            assert ("episode" in infos[lane]) == ended[lane]
            if ended[lane]:
                ours, theirs = infos[lane]["episode"], their_infos[lane]["episode"]
                assert {**ours, "t": theirs["t"]} == theirs
                assert [type(ours[name]) for name in "rl"] == [float, int]
    assert sum(ended.sum() for _, _, ended, _ in found) > 5


def test_ppo_learns_and_logs_with_the_default_preset(capsys):
    envs = to_stable_baselines3("CartPole-v1", 8, wrappers=preset("default"))
    model = PPO("MlpPolicy", envs, n_steps=32, batch_size=64, seed=0, verbose=1, device="cpu")
    model.learn(512, log_interval=1)
    printed = capsys.readouterr().out
    assert len(re.findall(r"ep_rew_mean +\| [1-9]", printed)) == 2
    assert {"r", "l"} == set(model.ep_info_buffer[0])


@pytest.mark.parametrize(
    "name", ["episode", "final_obs", "final_info", "terminal_observation", "TimeLimit.truncated", "_wind"]
)
def test_names_that_it_reads_are_refused_in_another_meaning(name):
    env = batch(
        lambda key: (jnp.zeros(()), jnp.zeros(1)),
        lambda state, action, key: (state, state[None], 0.0, False, {name: state}),
        action=specs.discrete(3),
        autoreset="same_step",
    )
    with pytest.raises(ValueError, match=rf"^to_stable_baselines3: env_info\['{re.escape(name)}'\]"):
        to_stable_baselines3(env)


def test_action_masks_are_those_of_the_last_row():
    envs = to_stable_baselines3("TicTacToe-v0", 3, opponent="random")
    assert is_masking_supported(envs)
    assert not is_masking_supported(cart_pole())
    with pytest.raises(ValueError, match="call reset before action_masks"):
        get_action_masks(envs)
    envs.seed(0)
    envs.reset()
    for _ in range(12):
        masks = get_action_masks(envs)
        np.testing.assert_array_equal(envs.env_method("action_masks", indices=[2, 0]), masks[[2, 0]])
        shown, _, _, infos = envs.step(masks.argmax(axis=1))
        masks = get_action_masks(envs)
        np.testing.assert_array_equal(masks, [info["action_mask"] for info in infos])
        np.testing.assert_array_equal(masks, ~shown.reshape(3, 9, -1).any(axis=2))
        infos[1]["action_mask"][:] = False  # infos belong to the caller
        np.testing.assert_array_equal(get_action_masks(envs), masks)


@pytest.mark.parametrize("single", [False, True], ids=["lanes", "single"])
def test_maskable_ppo_plays_legal_moves(single):
    envs = gymnasium.make("jaxenv/TicTacToe-v0") if single else to_stable_baselines3("TicTacToe-v0", 8)
    model = MaskablePPO("MlpPolicy", envs, n_steps=32, batch_size=64, seed=0, device="cpu")
    illegal = []

    def note(local, _):
        illegal.extend(info["invalid_move"] for info in local["infos"])
        return True

    model.learn(256, callback=note)
    assert len(illegal) == 256
    assert not any(illegal)


def test_attributes_and_methods_are_those_of_the_environment_of_a_lane():
    envs = to_stable_baselines3(jaxenv.make("CartPole-v1", 3, autoreset="same_step", force=np.arange(3.0)))
    assert envs.get_attr("name", [0, 2]) == ["CartPole-v1"] * 2
    assert [params.force.tolist() for params in envs.get_attr("params")] == [[0], [1], [2]]
    assert envs.env_method("close", indices=1) == [None]
    assert envs.get_attr("observation_space", 0) == [envs.observation_space]
    assert not envs.has_attr("velocity")
    assert envs.env_is_wrapped(object) == [False] * 3
    with pytest.raises(AttributeError, match=r"^to_stable_baselines3: force cannot be.*\('CartPole-v1', force=3\)"):
        envs.set_attr("force", 3)
    for name in ("state", "num_envs", "action_space"):
        with pytest.raises(
            AttributeError, match=rf"^to_stable_baselines3: {name} cannot be set, .*docs/howto/branch.md"
        ):
            setattr(envs, name, 3)


def test_pictures_are_those_of_the_lanes_and_a_recorder_films_them(tmp_path):
    envs = to_stable_baselines3("CartPole-v1", 3, render_mode="rgb_array")
    with pytest.raises(ValueError, match="call reset before render"):
        envs.get_images()
    envs.seed(0)
    envs.reset()
    images = envs.get_images()
    assert [image.shape for image in images] == [(256, 256, 3)] * 3
    assert not np.array_equal(images[0], images[1])
    np.testing.assert_array_equal(envs.render()[:256, :256], images[0])  # a mosaic of two columns
    with pytest.raises(ValueError, match="render needs render_mode='rgb_array'"):
        to_stable_baselines3("CartPole-v1").get_images()
    pytest.importorskip("moviepy")
    recorder = vec_env.VecVideoRecorder(envs, str(tmp_path), lambda step: step == 0, video_length=5)
    recorder.reset()
    for _ in range(6):
        recorder.step(np.zeros(3, int))
    recorder.close()
    (film,) = tmp_path.glob("*.mp4")
    assert film.stat().st_size > 1000


def test_wrappers_of_stable_baselines3_work_around_it():
    envs = vec_env.VecCheckNan(vec_env.VecMonitor(cart_pole(), info_keywords=("time_limit_reached",)))
    episodes = [info["episode"] for step in played(envs, 20) for info in step[3] if "episode" in info]
    assert {e["l"] for e in episodes} <= {7, 8}
    assert all(e["r"] == e["l"] and e["time_limit_reached"] <= (e["l"] == 8) for e in episodes)
    stacked = played(vec_env.VecFrameStack(cart_pole(), 2), 10)
    for obs, _, ended, infos in stacked:
        assert obs.shape == (3, 8)
        for lane in np.flatnonzero(ended):
            assert not obs[lane, :4].any()
            assert infos[lane]["terminal_observation"].shape == (8,)
    normalized = played(vec_env.VecNormalize(cart_pole()), 30)
    assert np.abs(normalized[-1][0]).max() <= 10
    assert np.ptp([reward for _, reward, _, _ in normalized]) > 0


@pytest.mark.parametrize("id", ["CartPole-v1", "FrozenLake-v1"])
def test_a_single_environment_passes_check_env(id):
    check_env(to_gymnasium(id))


def test_make_vec_env_makes_it_by_its_id_of_gymnasium():
    envs = make_vec_env("jaxenv/CartPole-v1", n_envs=2, seed=0)
    lanes = to_stable_baselines3("CartPole-v1", 2)
    lanes.seed(0)
    np.testing.assert_allclose(envs.reset(), lanes.reset(), atol=1e-6)


def test_a_replay_buffer_and_numbers_as_observations_work():
    model = DQN("MlpPolicy", to_stable_baselines3("FrozenLake-v1", 3, max_episode_steps=4), learning_starts=20)
    model.learn(60)
    assert model.replay_buffer.timeouts[:20].any()
    PPO("MlpPolicy", to_stable_baselines3("FrozenLake-v1", 3, max_episode_steps=4), n_steps=8, batch_size=8).learn(24)


def test_ppo_learns_and_is_evaluated(tmp_path):
    curve = stable_baselines3_ppo.train(num_steps=40_000)
    assert curve[0][1] < 40
    assert curve[-1][1] > 100
    envs, evaluation = vec_env.VecMonitor(cart_pole()), vec_env.VecMonitor(cart_pole())
    model = PPO("MlpPolicy", envs, n_steps=8, batch_size=8)
    model.learn(48, callback=EvalCallback(evaluation, eval_freq=8, log_path=tmp_path, verbose=0))
    assert (tmp_path / "evaluations.npz").exists()
    assert 1 <= evaluate_policy(model, evaluation)[0] <= 8


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: to_stable_baselines3("CartPole-v1", autoreset="next_step"), "with autoreset='same_step', got 'next_"),
        (lambda: to_stable_baselines3(jaxenv.make("CartPole-v1", autoreset=None)), "'same_step', got None"),
        (lambda: to_stable_baselines3(AutoReset(vector_reward(), "same_step")), "a reward must"),
        (lambda: to_stable_baselines3(5), r"to_stable_baselines3: env .*got 5"),
        (lambda: cart_pole().step(RIGHT), "to_stable_baselines3: call reset before"),
        (lambda: played(cart_pole(), 1, RIGHT[:2]), r"action .*got \(2,\)"),
        (lambda: played(cart_pole(), 1, RIGHT / 2), r"action .*got float64"),
        (lambda: played(cart_pole(), 1, RIGHT * 2), r"must be in 0 \.\. 1, got 2 in lane 0"),
    ],
)
def test_what_does_not_fit_is_refused(use, message):
    with pytest.raises(ValueError, match=message):
        use()


def test_options_and_a_closed_environment_are_refused():
    envs = cart_pole()
    envs.set_options({"low": 1})
    with pytest.raises(ValueError, match=r"to_stable_baselines3: reset .*got "):
        envs.reset()
    envs.close()
    envs.close()
    for use in (envs.reset, lambda: envs.step(RIGHT)):
        with pytest.raises(ValueError, match="to_stable_baselines3: the environment is closed"):
            use()


def test_a_pickled_copy_continues_from_the_same_state():
    envs = cart_pole()
    played(envs, 3)
    twin = pickle.loads(pickle.dumps(envs))
    for found, expected in zip(twin.step(RIGHT)[:3], envs.step(RIGHT)[:3], strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_step_needs_its_actions():
    envs = cart_pole()
    played(envs, 1)
    with pytest.raises(ValueError, match=r"^to_stable_baselines3: call step_async before step_wait$"):
        envs.step_wait()


def test_ppo_acts_on_vectors_of_bools():
    env = batch(
        lambda key: (jnp.zeros(()), jnp.zeros(1)),
        lambda state, action, key: (state + 1, state[None], jnp.mean(action.astype(jnp.float32)), state > 3),
        action=specs.Bounded((2,), np.bool_, False, True),
        num_envs=2,
        autoreset="same_step",
    )
    PPO("MlpPolicy", to_stable_baselines3(env), n_steps=8, batch_size=8, device="cpu").learn(16)


@pytest.mark.parametrize(
    "action",
    [
        {"x": specs.discrete(2)},
        specs.Bounded((), np.bool_, False, True),
        specs.Bounded((), np.uint8, 0, 3),
        specs.Bounded((2, 2), np.int32, 0, 2),
    ],
)
def test_actions_that_its_policies_do_not_know_are_refused(action):
    def step(state, action, key):
        return state, state[None], 0.0, False

    env = batch(lambda key: (jnp.zeros(()), jnp.zeros(1)), step, action=action, autoreset="same_step")
    with pytest.raises(ValueError, match=r"action must.* FlattenAction"):
        to_stable_baselines3(env)


def test_metadata_tell_how_to_draw():
    envs = to_stable_baselines3("CartPole-v1", 2, render_mode="rgb_array")
    assert envs.metadata == {"render_modes": ["rgb_array"], "render_fps": 30}
