"""Policies of run folders: which seed, which memory, which error, and what the commands show of them."""

import dataclasses
import functools
import io
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import jaxenv
from jaxenv import cli, data, specs
from jaxenv._util import version
from jaxenv.cli import watch
from jaxenv.rollout._film import Reel
from jaxenv.training import Trained, evaluation, ppo, seeds
from jaxenv.wrappers import AutoReset
from tests.cli.commands import refusal
from tests.training import drift

CONFIG = ppo.Config(total_steps=2048, num_evaluations=2, num_eval_episodes=3, normalize_observation=True, hidden=(4,))
SETTINGS = {"algorithm": "ppo", **dataclasses.asdict(CONFIG), "num_seeds": 3, "seed": 0}
# Returns [evaluation, seed, episode]: seed 1 is the best at the last evaluation, seed 2 has no finished episode there.
RETURNS = np.array([[[9, 9, 9], [1, 1, 1], [1, 1, 1]], [[3, 3, 3], [4, 5, 99], [50, 50, 50]]], np.float32)
FINISHED = np.array([[[True] * 3] * 3, [[True] * 3, [True, True, False], [False] * 3]])


@functools.cache
def untrained():
    """The initial learners of three seeds."""
    init = ppo.make_train(CONFIG).init
    return jax.jit(jax.vmap(init))(jax.random.split(jax.random.key(0), 3))


def write(folder, settings):
    """A run as `seeds.train` writes it, with the leaves that `load` reads."""
    learner = untrained()
    steps = np.array([[1024] * 3, [2048] * 3], np.int32)
    curve = {"steps": steps, "returns": RETURNS, "finished": FINISHED}
    saved = {"learner": {"params": learner.params, "statistics": learner.statistics, "key": learner.key}}
    data.save(folder / "checkpoint.npz", {**saved, "curve": curve, "iterations": np.int32(2)}, config=settings)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write(folder, SETTINGS)
    return folder


def test_the_default_seed_is_the_best_at_the_last_evaluation_of_finished_episodes(run):
    trained = jaxenv.training.load(run)
    assert (trained.seed, trained.eval_return, trained.steps, trained.config) == (1, 4.5, 2048, CONFIG)
    assert jaxenv.training.load(run, seed=0).eval_return == 3.0
    assert np.isnan(jaxenv.training.load(str(run), seed=2).eval_return)


def test_the_policy_is_the_network_of_its_seed_with_its_statistics(run):
    trained, learner = jaxenv.training.load(run, seed=2), jax.tree.map(lambda x: x[2], untrained())
    env = trained.make_env(num_envs=64, gravity=3.0)
    assert float(env.params.gravity) == 3.0
    _, timestep = env.reset(jax.random.key(1))
    pi, network, read, _ = ppo.model(CONFIG, env)
    _, seen = evaluation.normalizer(CONFIG).frozen().transform_timestep(learner.statistics, timestep)
    expected = pi.mode(network.apply(learner.params, read(seen.observation))[0])
    np.testing.assert_array_equal(trained.policy(timestep, None, trained.memory).action, expected)
    assert len(np.unique(expected)) == 2


# --- memory ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory, drifting, request):
    """The policy of a run whose action is the parity of the number of its step in the episode."""
    folder = tmp_path_factory.mktemp("recurrent")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seeds, "draw_curve", lambda path, *_: path.touch())
        for _ in seeds.train(drift.Config(recurrent=True), 2, folder=folder):
            pass
    return jaxenv.training.load(folder)


def test_the_policy_of_another_environment_is_refused_by_its_observation(run):
    trained = jaxenv.training.load(run)
    env = jaxenv.make("MountainCar-v0", 2)
    with pytest.raises(ValueError, match=r"policy of ppo: the observation .*got Array\(\(2,\), float32"):
        jaxenv.evaluate(env, trained.policy, jax.random.key(0), initial_memory=trained.memory)


def test_the_memory_of_a_policy_without_recurrence_fits_any_number_of_lanes(run):
    trained = jaxenv.training.load(run)
    for x, y in zip(*(jax.tree.leaves(memory) for memory in (trained.memory, trained.make_memory(7))), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_recurrent_policy_has_a_memory_per_lane(recurrent):
    with pytest.raises(ValueError, match=r"memory: the policy.* make_memory\(num_envs\)"):
        recurrent.memory
    with pytest.raises(ValueError, match=r"make_memory: num_envs must be .*, got 0"):
        recurrent.make_memory(0)
    env = recurrent.make_env(num_envs=3)
    (_, _, memory), rows = jaxenv.unroll(
        env, recurrent.policy, *env.reset(jax.random.key(0)), 5, initial_memory=recurrent.make_memory(3)
    )
    np.testing.assert_array_equal(rows.action, [[0] * 3, [1] * 3, [0] * 3, [1] * 3, [0] * 3])
    np.testing.assert_array_equal(memory[1], [5] * 3)


class Parity(jaxenv.Task):
    """Pays the action; three steps an episode, and black pictures."""

    def initial(self, stream):
        return jnp.zeros(stream.shape, jnp.int32)

    def transition(self, state, action, stream):
        return jaxenv.Transition(state + 1, action.astype(jnp.float32), state == 2)

    def observe(self, state):
        return state.astype(jnp.float32)[:, None]

    def observation_spec(self):
        return specs.Array((1,), np.float32)

    def action_spec(self):
        return specs.discrete(2)

    def draw(self, state, canvas):
        return canvas


def test_films_and_the_terminal_play_recurrent_policies_with_their_memory(recurrent):
    policy, _ = drift.make_policy(recurrent.config, Parity(), recurrent.params)
    reel = Reel("watch", AutoReset(Parity(num_envs=2)), policy, (8, 8), max_steps=10)
    for _ in range(2):  # a second episode restarts the memory
        moments = list(reel.play(jax.random.key(0), recurrent.make_memory(2)))
        assert [moment.total.tolist() for moment in moments] == [[0, 0], [0, 0], [1, 1], [1, 1]]


def test_a_reel_plays_other_weights_without_compiling_again():
    def follow(timestep, stream, memory):
        return jaxenv.rollout.PolicyStep(jnp.broadcast_to(memory.value, timestep.reward.shape), memory)

    reel = Reel("watch", jaxenv.make("CartPole-v1", 2), follow, (8, 8), max_steps=9)
    ends = []
    for action in (0, 1):
        shown = list(reel.play(jax.random.key(0), jaxenv.tree.Shared(jnp.int32(action))))
        ends.append(shown[-1].picture)
    assert (ends[0] != ends[1]).any()
    assert reel._advance._cache_size() == 1


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "seed", "message"),
    [
        (None, None, "load: there is no folder '.*nowhere'"),
        ((), None, "holds no run of jaxenv train"),
        (("config.json",), None, "holds no checkpoint yet"),
        (("checkpoint.npz",), None, "is not a checkpoint of data.save"),
    ],
)
def test_a_folder_without_a_policy_is_refused(tmp_path, files, seed, message):
    folder = tmp_path / ("nowhere" if files is None else "")
    for name in files or ():
        (folder / name).write_text("{}")
    with pytest.raises(ValueError, match=message):
        jaxenv.training.load(folder, seed)


def test_a_folder_that_is_not_there_is_answered_with_a_run_of_a_similar_name(tmp_path):
    for name in ("CartPole-v1", "Catch-bsuite"):
        (tmp_path / name).mkdir()
    (tmp_path / "CartPole-v1" / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"no folder '.*cartpole', did you mean 'CartPole-v1'"):
        jaxenv.training.load(tmp_path / "cartpole")
    with pytest.raises(ValueError, match=r"no folder '.*nothing-like-it', `jaxenv train ID` writes"):
        jaxenv.training.load(tmp_path / "nothing-like-it")


@pytest.mark.parametrize("seed", [3, -1, 1.0, True])
def test_a_seed_that_the_run_does_not_have_is_refused(run, seed):
    with pytest.raises(ValueError, match=r"load: seed .*got "):
        jaxenv.training.load(run, seed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"algorithm": None},
            r"is damaged, was changed, or .*: its config .*got None",
        ),
        ({"algorithm": "a2c"}, r"its config .*got 'a2c'"),
        ({"temperature": 1.0}, r"is damaged, was changed, or .*: there is no.* 'temperature'"),
        ({"hidden": [8]}, r"is damaged, .* holds learner.params.*\[3, 4\] where the tree.*\[3, 8\]"),
    ],
)
def test_a_run_that_does_not_fit_its_settings_is_refused(tmp_path, changed, message):
    write(tmp_path, {**SETTINGS, **changed})
    with pytest.raises(ValueError, match=message):
        jaxenv.training.load(tmp_path)


def test_the_version_that_wrote_a_run_is_named_where_it_is_another_one(tmp_path, monkeypatch):
    write(tmp_path, {**SETTINGS, "temperature": 1.0})
    monkeypatch.setattr(version, "__version__", "9.8")
    with pytest.raises(ValueError, match=rf"was written by jaxenv {jaxenv.__version__}, this is 9\.8: there is no"):
        jaxenv.training.load(tmp_path)


def test_options_of_the_run_cannot_be_changed(run):
    with pytest.raises(ValueError, match=r"make_env: wrappers .*the run"):
        jaxenv.training.load(run).make_env(wrappers=["TimeLimit"])


@pytest.mark.thorough
def test_films_of_a_run_show_the_best_seed_of_an_evaluation(tmp_path):
    curve = ppo.Curve(np.array([[1024] * 3, [2048] * 3]), {}, None, RETURNS, None, None, FINISHED)
    bias = jnp.array([[9.0, 0], [0, 9], [0, 0]])  # seed 0 pushes to the left, seed 1 to the right
    learner = untrained()
    actor = learner.params["params"]["actor"]
    actor = {**actor, "Dense_1": {**actor["Dense_1"], "bias": bias}}
    learner = dataclasses.replace(learner, params={"params": {**learner.params["params"], "actor": actor}})
    films = seeds._RunFilms(tmp_path, CONFIG)
    for number in range(2):
        films.write(*seeds._best_of(learner, curve, number))
    first, last = sorted((tmp_path / "films").iterdir())
    assert (first.name, last.name) == ("steps-00001024.gif", "steps-00002048.gif")
    assert first.read_bytes() != last.read_bytes()  # seeds 0 and 1


def test_a_film_that_ends_before_its_episode_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(seeds, "_MAX_STEPS", 2)
    warned = []
    monkeypatch.setattr(seeds.warnings, "warn", lambda text, **_: warned.append(text))
    curve = ppo.Curve(np.array([[1024] * 3]), {}, None, RETURNS, None, None, FINISHED)
    seeds._RunFilms(tmp_path, CONFIG).write(*seeds._best_of(untrained(), curve, 0))
    assert warned == ["train: steps-00001024.gif ends after 2 steps, its episode does not"]


# --- the commands -----------------------------------------------------------------------------------------------------


def test_render_films_the_policy_of_a_run(run, tmp_path, capsys):
    out = tmp_path / "film.gif"
    argv = ["render", str(run), "--out", str(out), "--num-steps", "2", "--size", "16"]
    assert cli.main([*argv, "--env", "gravity=5", "--max-episode-steps", "7"]) == 0
    assert "CartPole-v1, seed 1 after 2,048 steps" in capsys.readouterr().out
    assert out.read_bytes()[:3] == b"GIF"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((), "the following arguments are required: ID"),
        (("CartPole-v1", "--policy-seed", "1"), "argument --policy-seed: it is for the folder of a run, got CartPole"),
        (("Pendulum-v1", "--run", "RUN"), ", use the folder in place of ID"),
        (("RUN", "--policy-seed", "3"), "load: seed must be at least 0 and below 3"),
    ],
)
def test_render_refuses_what_does_not_fit_in_one_line(run, capsys, argv, message):
    assert message in refusal(capsys, "render", *(str(run) if part == "RUN" else part for part in argv))


def test_watch_without_a_terminal_names_the_command_for_a_film(run, capsys):
    assert f"jaxenv render {run} --out film.gif" in refusal(capsys, "watch", str(run))


class Screen:
    """A terminal of 80 columns and 24 lines that shows nothing."""

    size = (80, 24)

    def __init__(self, console):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def show(self, text):
        pass


@pytest.mark.parametrize(
    ("limit", "out", "error"),
    [
        (3, "", "jaxenv watch: 2 episodes are left out, max_eval_steps of the run cut them off\n"),
        (None, "2 episodes, mean return ", ""),
    ],
)
def test_watch_leaves_out_episodes_that_were_cut_off(tmp_path, capsys, monkeypatch, limit, out, error):
    write(tmp_path, {**SETTINGS, "max_eval_steps": limit})
    monkeypatch.setattr(watch._terminal, "shows_pictures", lambda console: True)
    monkeypatch.setattr(watch._terminal, "Screen", Screen)
    monkeypatch.setattr(watch._Pace, "wait", lambda pace: False)
    assert cli.main(["watch", str(tmp_path), "--episodes", "1", "--num-envs", "2", "--max-episode-steps", "9"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(out)
    assert shown.err == error


@pytest.mark.parametrize(
    ("lanes", "terminal", "layout"),
    [
        (1, (80, 24), watch.Layout(1, 1, 42)),
        (4, (120, 36), watch.Layout(4, 2, 32)),
        (4, (36, 12), watch.Layout(2, 2, 16)),  # two of four lanes fit
        (1, (10, 5), watch.Layout(1, 1, 8)),
    ],
)
def test_as_many_lanes_as_fit_are_shown_as_large_as_possible(lanes, terminal, layout):
    assert watch.Layout.fit(lanes, *terminal) == layout


def test_a_frame_shows_every_game_with_step_and_return():
    moment = watch.Moment(
        picture=np.zeros((2, 8, 40, 3), np.uint8),
        step=np.array([3, 5]),
        total=np.array([2.5, 4.0]),
        over=np.array([False, True]),
    )
    trained = Trained(None, "ppo", CONFIG, 1, 3, 1024, 7.25, None, None)
    console = Console(file=io.StringIO(), width=90, force_terminal=True, color_system="truecolor")
    console.print(watch.frame(trained, moment, watch.Layout(2, 2, 40), 6))
    lines = console.file.getvalue().split("\n")
    assert "CartPole-v1  seed 1, trained for 1,024 of 2,048 steps, return 7.25" in lines[0]
    assert len(lines) == 1 + 4 + 1 + 1 + 1
    assert re.sub("\x1b[^m]*m", "", lines[5]).split() == ["step", "3", "return", "2.5", "step", "5", "return", "4"]
    assert "\x1b[2mstep 5  return 4" in lines[5]
    assert "episode 7" in lines[6]


@pytest.fixture
def hover(tmp_path, monkeypatch):
    """The folder of a run whose id names a module that registers it, and which is not imported."""
    monkeypatch.setitem(sys.modules, "hover_tasks", None)  # removed at the end
    del sys.modules["hover_tasks"]
    monkeypatch.syspath_prepend(tmp_path)
    entry_point = jaxenv.spec(CONFIG.env_id).entry_point
    (tmp_path / "hover_tasks.py").write_text(f"import jaxenv\njaxenv.register('Hover-v0', {entry_point!r})\n")
    (tmp_path / "run").mkdir()
    write(tmp_path / "run", {**SETTINGS, "env_id": "hover_tasks:Hover-v0"})
    return tmp_path / "run"


def test_a_run_imports_no_module_that_the_caller_does_not_name(hover):
    rule = (
        r"^load: the id 'hover_tasks:Hover-v0' from data names a module, which would run its code: import it first, or "
    )
    with pytest.raises(
        ValueError, match=rule + r"pass modules=\['hover_tasks'\] \(--module hover_tasks\) if you trust"
    ):
        jaxenv.training.load(hover)
    assert "hover_tasks" not in sys.modules
    trained = jaxenv.training.load(hover, modules=["hover_tasks"])
    assert repr(trained.make_env(2).unwrapped) == "<Hover-v0>"


def test_a_module_is_imported_before_the_settings_are_read(hover):
    write(hover, {**SETTINGS, "env_id": "hover_tasks:Hover-v0", "cell": "trace", "recurrent": 3})
    (hover.parent / "hover_tasks.py").write_text("raise RuntimeError('imported')")
    with pytest.raises(RuntimeError, match="imported"):
        jaxenv.training.load(hover, modules=["hover_tasks"])


@pytest.mark.parametrize(
    "argv",
    [["eval", "RUN", "--episodes", "2"], ["render", "RUN", "--num-steps", "1"], ["watch", "RUN"]],
    ids=lambda argv: argv[0],
)
def test_commands_import_the_module_of_a_run_if_it_is_named(hover, argv, capsys, monkeypatch):
    monkeypatch.chdir(hover)
    monkeypatch.setattr(watch._terminal, "shows_pictures", lambda console: True)
    monkeypatch.setattr(watch._terminal, "Screen", None)  # nothing is played: this raises a TypeError
    argv = [str(hover) if word == "RUN" else word for word in argv]
    assert "the id 'hover_tasks:Hover-v0' from data names a module" in refusal(capsys, *argv)
    assert "hover_tasks" not in sys.modules
    assert cli.main([*argv, "--module", "hover_tasks"]) == (2 if argv[0] == "watch" else 0)
    assert "hover_tasks" in sys.modules


def test_modules_are_for_folders_of_runs(capsys):
    argv = ("--module", "json")
    assert "is a policy of this library: leave out --module" in refusal(capsys, "eval", "baseline:CartPole-v1", *argv)
    assert "argument --module: it is for the folder of a run" in refusal(capsys, "render", "CartPole-v1", *argv)
