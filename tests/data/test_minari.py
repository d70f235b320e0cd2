"""Data sets of Minari from rollouts, and rows from data sets."""

import pathlib
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data, interop
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset, TimeLimit
from tests.data.rollouts import unrolled
from tests.packages import imported, lazy
from tests.rows import assert_equal

minari = lazy("minari")
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "howto" / "export-episodes.md"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    imported("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def single(**options):
    return interop.to_gymnasium(TimeLimit(Counting(np.array([2]), stride=10, **options), 3))


def episodes(dataset):
    """The lists of each episode: observations, actions, terminations and truncations."""
    return [
        [x.tolist() for x in (found.observations, found.actions, found.terminations, found.truncations)]
        for found in dataset.iterate_episodes()
    ]


def expected(episode, length, end):
    """The lists of an episode of `unrolled` whose last step has ``(terminated, truncated)``."""
    flags = [[False] * (length - 1) + [flag] for flag in end]
    return [[10 * episode + i for i in range(length + 1)], [1, 8, 5][:length], *flags]


TERMINATED, TRUNCATED = (True, False), (False, True)


def test_episodes_of_uneven_lanes_are_written_whole_and_the_last_one_as_cut_off():
    dataset = data.to_minari(*unrolled("next_step"), "counting/lanes-v0", single())
    numbers = [[(2, TERMINATED), (3, TERMINATED), (2, TERMINATED)], [(3, TRUNCATED), (3, TRUNCATED), (2, TRUNCATED)]]
    numbers.append([(3, TERMINATED), (1, TERMINATED), (3, TERMINATED)])
    written = [expected(i, *episode) for lane in numbers for i, episode in enumerate(lane)]
    assert episodes(dataset) == written
    loaded = minari.load_dataset("counting/lanes-v0")
    assert episodes(loaded) == written
    assert [found.rewards.tolist() for found in loaded.iterate_episodes()] == [actions for _, actions, *_ in written]
    assert loaded.total_steps == sum(length for lane in numbers for length, _ in lane)


def test_both_modes_write_the_same_episodes():
    found = {}
    for mode in ("next_step", "same_step"):
        dataset = data.to_minari(*unrolled(mode, 9), f"counting/{mode}-v0", single(), mode)
        found[mode] = [x for x in episodes(dataset) if x != expected(x[0][0] // 10, len(x[1]), TRUNCATED)]
    # next_step takes a row to start an episode, so the other mode has played further.
    assert all(x in found["same_step"] for x in found["next_step"])
    assert expected(2, 2, TERMINATED) in found["same_step"]


def test_rows_come_back_and_windows_of_a_replay_buffer_are_their_transitions():
    rows, last = unrolled("next_step")
    back = data.from_minari(data.to_minari(rows, last, "counting/back-v0", single()))
    # Lane by lane; the cut episode of the second lane ends in the row after the rollout, here as LAST.
    kinds = np.concatenate([rows.timestep.step_type, last.step_type[None]])
    shown = np.concatenate([rows.timestep.observation, last.observation[None]])
    discount = np.concatenate([rows.timestep.discount, last.discount[None]])
    kinds[-1, 1] = jaxenv.StepType.LAST
    ends = [10, 11, 10]  # the first and the last lane end in row 9
    for mine, whole in ((back.timestep.step_type, kinds), (back.timestep.observation, shown)):
        assert mine[:, 0].tolist() == np.concatenate([whole[:end, lane] for lane, end in enumerate(ends)]).tolist()
    assert (
        back.timestep.discount[:, 0].tolist()
        == np.concatenate([discount[:end, lane] for lane, end in enumerate(ends)]).tolist()
    )
    assert back.action.dtype == back.timestep.step_type.dtype == jnp.int32
    last_row = jax.tree.map(lambda x: x[-1], back.timestep)
    transitions = data.to_transitions(jax.tree.map(lambda x: x[:-1], back), last_row)
    assert int(transitions.valid.sum()) == sum(len(x[1]) for x in episodes(minari.load_dataset("counting/back-v0")))
    replay = data.Replay(capacity=len(back.action), num_envs=1)
    buffer = replay.add(replay.init(back), back)
    sampled, _ = replay.sample_transitions(buffer, jax.random.key(0), 64)
    following = np.asarray(sampled.next_observation - sampled.observation)[np.asarray(sampled.valid)]
    assert (following == 1).all()


def test_dicts_tuples_continuous_actions_and_images_come_back_exactly():
    for shows in ("dict", "tuple"):
        env = AutoReset(Counting(np.array([2, 3]), stride=10, shows=shows, num_envs=2))
        (_, last, _), rows = jaxenv.unroll(env, jaxenv.rollout.random_policy(env), *env.reset(jax.random.key(0)), 7)
        back = data.from_minari(data.to_minari(rows, last, f"{shows}-v0", single(shows=shows)))
        assert jax.tree.structure(back.timestep.observation) == jax.tree.structure(rows.timestep.observation)
        assert [x[:3, 0].tolist() for x in jax.tree.leaves(back.timestep.observation)] == [[0, 0, 0], [0, 1, 2]]
    env = jaxenv.make("Pendulum-v1", num_envs=1, max_episode_steps=4, wrappers=["PixelObservation"])
    gym = interop.to_gymnasium("Pendulum-v1", wrappers=["PixelObservation"])
    (_, last, _), rows = jaxenv.unroll(env, jaxenv.rollout.random_policy(env), *env.reset(jax.random.key(0)), 4)
    assert rows.timestep.observation.shape[-3:] == (84, 84, 3)
    back = data.from_minari(data.to_minari(rows, last, "pendulum/pixels-v0", gym))
    assert_equal(back.timestep.observation, jnp.concatenate([rows.timestep.observation, last.observation[None]]))
    assert_equal(back.action[:-1], rows.action)
    assert back.action.dtype == jnp.float32
    assert back.timestep.truncated[:, 0].tolist() == [False] * 4 + [True]


def test_the_environment_is_recovered_and_metadata_is_kept():
    gym = interop.to_gymnasium("CartPole-v1", wrappers=["ActionRepeat"])
    env = jaxenv.make("CartPole-v1", num_envs=2, wrappers=["ActionRepeat"])
    (_, last, _), rows = jaxenv.unroll(env, jaxenv.rollout.random_policy(env), *env.reset(jax.random.key(0)), 9)
    dataset = data.to_minari(rows, last, "cart-pole/random-v3", gym, author="A. Uthor")
    assert dataset.storage.metadata["author"] == {"A. Uthor"}
    dataset = minari.load_dataset("cart-pole/random-v3")
    assert dataset.spec.env_spec.id == "jaxenv/CartPole-v1"
    assert "ActionRepeat" in str(dataset.recover_environment().unwrapped.env)
    assert dataset.action_space == gym.action_space
    assert dataset.observation_space == gym.observation_space


def test_a_failed_step_ends_an_episode_and_is_left_out():
    rows, last = unrolled("next_step")
    failed = np.zeros(rows.timestep.step_type.shape, bool)
    failed[2, 0] = True
    info = {"abnormal": failed}
    rows = jaxenv.tree.rebuild(rows, timestep=jaxenv.tree.rebuild(rows.timestep, env_info=info))
    last = jaxenv.tree.rebuild(last, env_info={"abnormal": failed[0]})
    first, second, *_ = episodes(data.to_minari(rows, last, "failed-v0", single()))
    assert first == expected(0, 1, TRUNCATED)
    assert second == expected(1, 3, TERMINATED)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset_id": "counting"}, r"to_minari: dataset_id must .*got 'counting'"),
        ({"env": "CartPole-v1"}, r"to_minari: env must .*got 'CartPole-v1'"),
        ({"start": 1}, r"to_minari: rows must .*row 0 of lane 0 in the middle"),
        ({"discount": 0.5}, r"to_minari: Minari has no discounts"),
        ({"stop": 0}, r"to_minari: the rows must hold"),
        ({"shows": "dict"}, r"to_minari: the observation space of env, .*got 0"),
    ],
)
def test_what_minari_cannot_store_raises_and_leaves_no_folder(change, message, tmp_path):
    rows, last = unrolled("next_step")
    rows = jax.tree.map(lambda x: x[change.get("start", 0) : change.get("stop")], rows)
    discount = rows.timestep.discount * np.float32(change.get("discount", 1))
    rows = jaxenv.tree.rebuild(rows, timestep=jaxenv.tree.rebuild(rows.timestep, discount=discount))
    env = change.get("env") or single(shows=change.get("shows", "number"))
    with pytest.raises(ValueError, match=message):
        data.to_minari(rows, last, change.get("dataset_id", "counting/bad-v0"), env)
    assert list(tmp_path.iterdir()) == []


def test_from_minari_names_what_it_cannot_read():
    with pytest.raises(ValueError, match=r"from_minari: dataset must .*got 'counting-v0'"):
        data.from_minari("counting-v0")
    dataset = data.to_minari(*unrolled("next_step"), "counting-v0", single())
    with pytest.raises(ValueError, match=r"from_minari: dataset must .*got none"):
        data.from_minari(dataset.filter_episodes(lambda episode: len(episode) > 9))
    chosen = data.from_minari(dataset.filter_episodes(lambda episode: len(episode) == 1))
    assert chosen.timestep.observation[:, 0].tolist() == [10, 11]


def test_without_minari_an_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ImportError, match=r"minari is not installed: pip install 'jaxenv\[minari\]'"):
        data.to_minari(*unrolled("next_step"), "counting-v0", None)


def test_the_code_of_the_page_prints_what_its_comments_say(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page, names = PAGE.read_text(), {"__name__": "page"}
    for block in re.findall(r"^```(?:python|py)\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE):
        exec(compile(block, str(PAGE), "exec"), names)
    assert capsys.readouterr().out.splitlines() == re.findall(r"^print\(.*\)  # (.*)$", page, flags=re.MULTILINE)
