"""Films from inside compiled code: which episodes, which frames, and what vmap makes of them."""

import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs, tree
from jaxenv.canvas import _films
from jaxenv.core.registry import EnvSpec
from jaxenv.interop import to_gymnax
from jaxenv.wrappers import RecordVideo

LANES = 3


@tree.struct
class Params:
    length: int = 4  # steps of an episode


class Meter(jaxenv.Task):
    """Counts; the picture has the colour of the count."""

    params: Params = Params()

    def initial(self, stream):
        return jnp.zeros(stream.shape, jnp.int32)

    def transition(self, state, action, stream):
        state = state + 1
        return jaxenv.Transition(state, reward=0.5 * state.astype(jnp.float32), terminated=state >= self.params.length)

    def observe(self, state):
        return state.astype(jnp.float32)[:, None]

    def observation_spec(self):
        return specs.Array((1,), np.float32, "observation")

    def action_spec(self):
        return specs.discrete(2, name="action")

    def draw(self, state, canvas):
        return canvas.fill(jnp.stack([state, state, self.params.length + 0 * state], -1).astype(jnp.float32) * 0.1)


@pytest.fixture
def films(monkeypatch):
    """The films that are complete, in place of files: name -> frames."""
    found = {}

    def keep(film):
        found[film.name] = film.shown

    monkeypatch.setattr(_films, "_write", keep)
    monkeypatch.setattr(_films, "RECORDER", _films.Recorder())
    yield found
    _films.RECORDER.flush(unfinished=True)


def make(wrappers=(), length=4, **options):
    wrapper = ("RecordVideo", {"folder": "films", "size": 8, **options})
    spec = EnvSpec("Meter", Meter)
    return jaxenv.make(spec, LANES, length=length, wrappers=[*wrappers, wrapper])


def play(env, num_steps):
    """A function of a key that plays some steps, and waits for the films."""
    policy = jaxenv.rollout.random_policy(env)
    unroll = jax.jit(lambda key: jaxenv.unroll(env, policy, *env.reset(key), num_steps, fields=["reward"])[1])

    def run(key):
        jax.block_until_ready(unroll(key))
        RecordVideo.flush()

    return run


def colour(picture):
    """Step and length of the episode in a picture."""
    assert (picture == picture[0, 0]).all()
    return round(picture[0, 0, 0] / 25.5), round(picture[0, 0, 2] / 25.5)


def test_a_film_holds_every_picture_of_the_episode_with_its_rewards_and_the_params_of_its_lane(films):
    env = make(episode_trigger=lambda episode: episode == 1, lane=2, length=np.array([3, 4, 5]))
    play(env, 12)(jax.random.key(0))
    assert list(films) == ["lane-2-episode-1"]
    frames = films["lane-2-episode-1"]
    assert [colour(frame.picture) for frame in frames] == [(step, 5) for step in range(6)]
    assert [frame.step for frame in frames] == [0, 1, 2, 3, 4, 5]
    assert [frame.reward for frame in frames] == [0.5, 1.0, 1.5, 2.0, 2.5, 0.0]
    assert [frame.last for frame in frames] == [False] * 5 + [True]


def test_without_a_trigger_cubes_are_filmed():
    env = RecordVideo(jaxenv.spec("CartPole-v1").make(), "films")
    chosen = env._is_chosen(jnp.arange(2001, dtype=jnp.int32))
    assert np.flatnonzero(chosen).tolist() == [0, 1, 8, 27, 64, 125, 216, 343, 512, 729, 1000, 2000]


def test_under_vmap_every_batch_has_its_own_films(films):
    env = make(every=2)
    policy = jaxenv.rollout.random_policy(env)
    lengths = np.array([[2], [3]], np.int32)

    @jax.jit
    @jax.vmap
    def unroll(length, key):
        changed = env.with_params(length=length[0])
        return jaxenv.unroll(changed, policy, *changed.reset(key), 8, fields=["reward"])[1]

    jax.block_until_ready(unroll(lengths, jax.random.split(jax.random.key(0), 2)))
    RecordVideo.flush()
    assert sorted(films) == ["batch-0-lane-0-episode-0", "batch-0-lane-0-episode-2", "batch-1-lane-0-episode-0"]
    for name, length in (("batch-0-lane-0-episode-2", 2), ("batch-1-lane-0-episode-0", 3)):
        assert [colour(frame.picture) for frame in films[name]] == [(step, length) for step in range(length + 1)]


@pytest.mark.thorough
def test_a_trainer_that_vmaps_over_one_lane_films_the_first(films):
    env = to_gymnax("CartPole-v1", wrappers=[("RecordVideo", {"folder": "films", "size": 8, "every": 1})])

    def body(state, key):
        keys = jax.random.split(key, 4)
        _, state, _, terminated, *_ = jax.vmap(env.step)(keys, state, jnp.ones(4, jnp.int32))
        return state, terminated[0]

    _, state = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 4))
    _, ended = jax.jit(lambda state, keys: jax.lax.scan(body, state, keys))(
        state, jax.random.split(jax.random.key(1), 25)
    )
    RecordVideo.flush()
    (first, *_) = np.flatnonzero(ended)
    assert [one.step for one in films["lane-0-episode-0"]] == list(range(first + 2))
    assert len(films) == ended.sum()


def test_steps_of_several_steps_make_one_frame(films):
    play(make([("ActionRepeat", {"num": 3})], length=7, max_steps=9), 4)(jax.random.key(0))
    assert [frame.step for frame in films["lane-0-episode-0"]] == [0, 3, 6, 7]


def test_an_episode_after_noops_starts_at_its_first_agent_step(films):
    env = make([("NoopReset", {"maximum": 4})], length=9)
    for _ in range(2):  # the second run starts the same episodes again
        play(env, 22)(jax.random.key(0))
        for shown in films.values():
            steps = [one.step for one in shown]
            assert steps == list(range(steps[0], 10))
        assert len(films) >= 2
        assert any(shown[0].step for shown in films.values())
        films.clear()


def test_the_end_of_the_process_writes_the_first_film_though_it_is_unfinished(tmp_path):
    script = textwrap.dedent(f"""
        import jax, jaxenv
        video = ("RecordVideo", {{"folder": {str(tmp_path)!r}, "size": 16}})
        env = jaxenv.make("Pendulum-v1", wrappers=[video])
        policy = jaxenv.rollout.random_policy(env)
        jax.block_until_ready(jax.jit(lambda key: jaxenv.unroll(env, policy, *env.reset(key), 5)[1])(jax.random.key(0)))
    """)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=200)
    assert [path.name for path in tmp_path.iterdir()] == ["lane-0-episode-0.gif"]


def test_outside_autoreset_restarts_are_not_sent(films, monkeypatch):
    env = RecordVideo(jaxenv.make(EnvSpec("Meter", Meter), LANES), "films", every=1, size=8)
    sent, receive = [], _films.RECORDER.receive
    monkeypatch.setattr(
        _films.RECORDER, "receive", lambda settings, frame: (sent.append(frame), receive(settings, frame))
    )
    play(env, 10)(jax.random.key(0))
    assert sorted((one.episode, one.step) for one in sent) == [
        (episode, step) for episode in (0, 1) for step in range(5)
    ]
    assert [colour(one.picture)[0] for one in films["lane-0-episode-1"]] == [0, 1, 2, 3, 4]


def test_a_film_ends_after_max_steps(films):
    play(make(max_steps=3), 6)(jax.random.key(0))
    assert [frame.step for frame in films["lane-0-episode-0"]] == [0, 1, 2]


def frame(step, following, last=False, episode=0):
    return _films.Frame(-1, 0, episode, step, following, 1.0, last, np.zeros((8, 8, 3), np.uint8))


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 2, 0], [1, 3, 0, 2]])
def test_frames_may_arrive_in_any_order(films, order):
    recorder, settings = _films.RECORDER, _films.Settings("films", ".gif", 30)
    frames = [frame(0, 2), frame(2, 4), frame(4, 5), frame(5, 5, last=True)]
    for i in order[:-1]:
        recorder.receive(settings, frames[i])
    recorder._queue.join()
    assert not films
    recorder.receive(settings, frames[order[-1]])
    recorder.receive(settings, frame(5, 6))  # a step after the end
    recorder.flush(unfinished=True)
    assert [one.step for one in films["lane-0-episode-0"]] == [0, 2, 4, 5]


def test_a_run_that_is_reset_starts_another_film(films):
    recorder, settings = _films.RECORDER, _films.Settings("films", ".gif", 30)
    for one in (frame(0, 1), frame(1, 2), frame(0, 1)):
        recorder.receive(settings, one)
    recorder.flush()
    assert [one.step for one in films["lane-0-episode-0"]] == [0, 1]


def test_files_of_earlier_films_are_kept(tmp_path):
    recorder, settings = _films.Recorder(), _films.Settings(str(tmp_path / "new"), ".gif", 30)
    for _ in range(2):
        recorder.receive(settings, frame(0, 1))
        recorder.receive(settings, frame(1, 1, last=True))
    recorder.flush()
    names = ["lane-0-episode-0-2.gif", "lane-0-episode-0.gif"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == names


def test_films_that_two_processes_write_at_the_same_time_are_both_kept(tmp_path, monkeypatch):
    first, second = (_films._Film(_films.Settings(str(tmp_path), ".gif", 30), "film") for _ in range(2))
    for film, last in ((first, 1), (second, 3)):
        for step in range(last + 1):
            film.add(frame(step, step + 1, last=step == last))
    write = _films.write_gif

    def meanwhile(*arguments):
        monkeypatch.undo()
        _films._write(second)
        write(*arguments)

    monkeypatch.setattr(_films, "write_gif", meanwhile)
    _films._write(first)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["film-2.gif", "film.gif"]
    assert (tmp_path / "film-2.gif").stat().st_size < (tmp_path / "film.gif").stat().st_size


def test_a_film_that_cannot_be_written_does_not_end_the_others(films, monkeypatch):
    recorder, settings = _films.RECORDER, _films.Settings("films", ".gif", 30)
    written = []

    def write(film):
        if film.name.endswith("-0"):
            raise OSError("disk full")
        written.append(film.name)

    def film_two_episodes():
        for episode in (0, 1):
            recorder.receive(settings, frame(0, 1, episode=episode))
            recorder.receive(settings, frame(1, 1, last=True, episode=episode))
        recorder.flush()

    monkeypatch.setattr(_films, "_write", write)
    with pytest.warns(UserWarning, match="lane-0-episode-0 is not written"):
        film_two_episodes()
    assert written == ["lane-0-episode-1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 1, "episode_trigger": lambda episode: episode == 0}, "give every or episode_trigger, not both"),
        ({"every": 0}, "RecordVideo: every must be "),
        ({"format": "avi"}, "RecordVideo: format must be "),
        ({"episode_trigger": 5}, r"episode_trigger .*got 5"),
        ({"episode_trigger": lambda episode: episode}, r"must return bool\[3\], one per lane.* int32\[3\]"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda env: env.step(env.reset(jax.random.key(0))[0], jnp.ones(3, jnp.int32)), make(**options))


def test_a_lane_that_may_not_exist_is_warned_about():
    with pytest.warns(UserWarning, match=r"RecordVideo: lane 3 may not exist.* 0 to 2"):
        make(lane=3)


def test_same_step_restarts_inside_are_refused():
    env = jaxenv.make("CartPole-v1", autoreset="same_step")
    with pytest.raises(ValueError, match="put it inside AutoReset"):
        RecordVideo(env, "films")


def test_in_same_step_mode_the_film_ends_with_the_last_picture(films):
    wrapper = ("RecordVideo", {"folder": "films", "size": 8, "every": 2})
    env = jaxenv.make(EnvSpec("Meter", Meter), LANES, autoreset="same_step", wrappers=[wrapper])
    play(env, 5)(jax.random.key(0))
    assert [colour(frame.picture)[0] for frame in films["lane-0-episode-0"]] == [0, 1, 2, 3, 4]
