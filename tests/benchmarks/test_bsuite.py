"""bsuite's score: the logs are those that bsuite writes, its own functions score them, and runs can be resumed."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import jaxenv
from benchmarks import __main__ as program
from benchmarks import bsuite, bsuite_logs, bsuite_score
from jaxenv.core.wrapper import layers
from jaxenv.suites import bsuite as suite
from jaxenv.training import ppo

bsuite_package = pytest.importorskip("bsuite")
# From the imports of bsuite and plotnine, and from pandas where bsuite was written for an older one.
pytestmark = pytest.mark.filterwarnings("ignore")

SMALL = ppo.Config(
    num_envs=1,
    num_steps=16,
    num_epochs=1,
    num_minibatches=1,
    hidden=(8,),
    torso="mlp",
    num_evaluations=2,
    total_steps=256,
    num_eval_episodes=1,
    max_eval_steps=1,
)
# What each agent has after one episode, in every column that a score reads.
PERFECT = {
    "total_regret": 0,
    "raw_return": 1000,
    "best_episode": 1000,
    "total_return": 1.1,
    "total_bad_episodes": 0,
    "total_perfect": 1,
}
HOPELESS = {
    "total_regret": 2,
    "raw_return": 0,
    "best_episode": 0,
    "total_return": 1.0,
    "total_bad_episodes": 1,
    "total_perfect": 0.5,
}


def test_the_logged_episodes_are_those_of_bsuite():
    from bsuite.utils import wrappers

    expected = [n for n in range(1, 10_001) if wrappers._logarithmic_logging(n)]
    assert list(bsuite_logs.logged_episodes(10_000)) == expected
    assert bsuite_logs.logged_episodes(999)[-1] == 900


@pytest.mark.parametrize("id", ["bandit/3", "discounting_chain/2", "deep_sea/0"])
def test_the_same_actions_leave_the_same_log_as_in_bsuite(id, tmp_path):
    """Nothing is drawn in these settings."""
    env, episodes = bsuite.stack(id, 13), 13
    original = bsuite_package.load_and_record_to_csv(id, str(tmp_path / "theirs"))
    rng = np.random.default_rng(0)
    step, (state, _) = jax.jit(env.step), env.reset(jax.random.key(0))
    while int(state.episodes[0]) < episodes:
        timestep = original.reset()
        while not timestep.last():
            action = rng.integers(env.action_spec().num_values, dtype=np.int32)
            timestep = original.step(int(action))
            state, _ = step(state, action[None])
        state, _ = step(state, action[None])  # starts the next episode and ignores its action
    (tmp_path / "ours").mkdir()
    bsuite_logs.write(tmp_path / "ours", id, env.columns, np.asarray(state.table)[0])
    ours, expected = (read(bsuite_logs.path_of(tmp_path / side, id)) for side in ("ours", "theirs"))
    assert ours.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(ours[name], expected[name], rtol=1e-5, err_msg=name)


def read(path):
    table = np.genfromtxt(path, delimiter=",", names=True)
    return {name: table[name] for name in table.dtype.names}


def write_logs(folder, per_episode, names=tuple(suite.EXPERIMENTS)):
    folder.mkdir()
    for id in suite.ids():
        name = id.partition("/")[0]
        if name not in names:
            continue
        own = dict(per_episode)
        if name.startswith("mountain_car"):  # the best runs take 100 steps, the worst 1000
            own["raw_return"] = -100 if per_episode is PERFECT else -1000
        if name == "cartpole_swingup":
            own["total_return"] = 1000 if per_episode is PERFECT else 0
        episodes = np.array(bsuite_logs.logged_episodes(suite.EXPERIMENTS[name].num_episodes))
        columns = {key: value * episodes for key, value in own.items()}
        columns |= {"episode": episodes, "best_episode": np.full(len(episodes), own["best_episode"])}
        bsuite_logs.write(folder, id, list(columns), np.stack(list(columns.values()), axis=-1))


def test_bsuite_scores_the_logs_of_a_perfect_and_of_a_hopeless_agent(tmp_path):
    write_logs(tmp_path / "best", PERFECT)
    write_logs(tmp_path / "worst", HOPELESS)
    rows = bsuite.results("best", tmp_path / "best")
    assert {row["experiment"]: row["score"] for row in rows} == pytest.approx(dict.fromkeys(suite.EXPERIMENTS, 1.0))
    assert all(row["finished"] for row in rows)
    assert bsuite_score.by_tag(rows) == pytest.approx(dict.fromkeys(bsuite_score.TAGS, 1.0))
    worst = bsuite.results("worst", tmp_path / "worst")
    # bsuite measures the car against runs of 100 steps, but a run of 1000 against 1000.
    expected = {name: 0.1 * name.startswith("mountain_car") for name in suite.EXPERIMENTS}
    assert {row["experiment"]: row["score"] for row in worst} == pytest.approx(expected)
    bsuite_score.draw(rows + worst, tmp_path / "radar.png")
    assert (tmp_path / "radar.png").read_bytes().startswith(b"\x89PNG")
    assert "| `catch` | basic, credit_assignment | 1.00 | 0.00 |" in bsuite_score.report(rows + worst)


def test_experiments_without_all_of_their_settings_are_not_scored(tmp_path):
    write_logs(tmp_path / "some", PERFECT, names=("catch", "memory_len"))
    bsuite_logs.path_of(tmp_path / "some", "catch/7").unlink()
    rows = bsuite.results("some", tmp_path / "some")
    assert [row["experiment"] for row in rows] == ["memory_len"]
    assert "| memory | 1 of 2 | 1.00 |" in bsuite_score.report(rows)
    assert np.isnan(bsuite_score.by_tag(rows)["basic"])


@pytest.mark.parametrize("name", suite.EXPERIMENTS)
def test_what_is_trained_is_the_task_of_the_id(name):
    for id in (f"{name}/0", f"{name}/{len(suite.EXPERIMENTS[name].settings) - 1}"):
        ours, theirs = bsuite.stack(id, 1), jaxenv.make(f"bsuite:{id}")
        tasks = [dataclasses.replace(env.unwrapped, name="") for env in (ours, theirs)]
        assert jax.tree.structure(tasks[0]) == jax.tree.structure(tasks[1]), id
        assert jax.tree.leaves(tasks[0]) == jax.tree.leaves(tasks[1]), id
        assert scales(ours) == scales(theirs), id


def scales(env):
    """The noise and the factor of the rewards."""
    found = {type(level).__name__: level for level in layers(env)}
    noise = found["RewardNoise"].scale if "RewardNoise" in found else 0.0
    if "RewardScale" in found:
        return noise, found["RewardScale"].scale
    return noise, found["TransformReward"].fn(np.float32(1)) if "TransformReward" in found else 1.0


TOGETHER = [
    (None, ["bandit/0", "bandit/3"]),  # their arms are state
    (None, ["catch_scale/0", "catch_scale/19"]),
    (None, ["umbrella_length/1", "umbrella_length/4"]),
    (SMALL, ["catch_noise/0", "catch_noise/19"]),
]


@pytest.mark.parametrize(("config", "ids"), TOGETHER, ids=["arms", "scales", "lengths", "trained"])
def test_a_setting_trained_with_others_has_the_same_log_as_alone(config, ids):
    assert any(set(ids) <= set(group) for group in bsuite.groups(ids[0].partition("/")[0]))
    together = bsuite.run(ids, config, num_episodes=20)
    start, advance = map(jax.jit, bsuite.functions(config, bsuite.stack(ids[1], 20)))
    learner = start(jax.random.fold_in(jax.random.key(0), suite.ids().index(ids[1])))
    while int(learner.env_state.episodes[0]) < 20:
        learner = advance(learner)
    np.testing.assert_allclose(together[1], np.asarray(learner.env_state.table)[0], rtol=1e-4, atol=1e-4)
    assert not np.allclose(together[0], together[1])


def test_a_run_that_was_killed_resumes_with_the_first_program_that_has_no_log(tmp_path, monkeypatch):
    ran = []

    def run(ids, config, num_episodes):
        ran.append(ids[0])
        if len(ran) == 3:
            raise KeyboardInterrupt
        return [np.ones((2, 7))] * len(ids)

    monkeypatch.setattr(bsuite, "run", run)
    with pytest.raises(KeyboardInterrupt):
        bsuite.train("ppo", "memory_len", tmp_path, None)
    bsuite.train("ppo", "memory_len", tmp_path, None)
    bsuite.train("ppo", "memory_len", tmp_path, None)
    first = [group[0] for group in bsuite.groups("memory_len")]
    assert ran == [*first[:3], *first[2:]]
    assert json.loads((tmp_path / "seconds.json").read_text()).keys() == set(first)
    monkeypatch.setitem(bsuite.AGENTS, "ppo", dataclasses.replace(bsuite.AGENTS["ppo"], gamma=0.5))
    with pytest.raises(ValueError, match=r"has the settings.* --folder"):
        bsuite.train("ppo", "memory_len", tmp_path, None)


def test_a_folder_that_another_process_writes_to_is_left_alone(tmp_path, monkeypatch):
    second = []

    def run(ids, config, num_episodes):
        with pytest.raises(ValueError, match=r"^bsuite: .* is in use"):
            bsuite.train("random", "catch", tmp_path, 3)
        second.append(sorted(path.name for path in tmp_path.iterdir()))
        raise KeyboardInterrupt

    monkeypatch.setattr(bsuite, "run", run)
    for _ in range(2):  # the folder is free again after the first
        with pytest.raises(KeyboardInterrupt):
            bsuite.train("ppo", "memory_len", tmp_path, None)
    assert second == [[".lock", "config.json"]] * 2
    assert json.loads((tmp_path / "config.json").read_text())["agent"] == "ppo"


def test_one_command_trains_scores_and_draws(tmp_path, capsys):
    files = ["--folder", str(tmp_path), "--json", str(tmp_path / "a.json"), "--plot", str(tmp_path / "a.png")]
    arguments = ["--agents", "random", "--experiments", "discounting_chain", "--episodes", "12", *files]
    assert program.run_part("bsuite", arguments) == 0
    (row,) = json.loads((tmp_path / "a.json").read_text())["rows"]
    assert (row["experiment"], row["settings"], row["programs"], row["finished"]) == ("discounting_chain", 20, 1, False)
    assert 0 < row["score"] < 0.5  # a random choice of the chain already earns most of the reward
    assert "| `discounting_chain` | credit_assignment | 0." in capsys.readouterr().out
    assert (tmp_path / "a.png").exists()


def test_every_experiment_is_run_once_by_default():
    assert sorted(bsuite.CHEAPEST_FIRST) == sorted(suite.EXPERIMENTS)
    ids = [id for name in bsuite.CHEAPEST_FIRST for group in bsuite.groups(name) for id in group]
    assert sorted(ids) == sorted(suite.ids())
