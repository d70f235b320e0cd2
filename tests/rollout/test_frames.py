"""What a frame of a film shows, and when a film ends."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas._grid import Grid
from jaxenv.rollout import _film as _frames
from jaxenv.rollout._film import Reel
from jaxenv.wrappers import AgentsAsLanes, AutoReset
from tests.interop.games import Walkers


@pytest.fixture(scope="module")
def env():
    return jaxenv.make("CartPole-v1", 3)


def push_right(timestep, stream):
    return jnp.ones(timestep.reward.shape, jnp.int32)


def moments_of(env, policy, num_steps, max_steps, size):
    return list(Reel("film", env, policy, size, num_steps, max_steps).play(jax.random.key(1), ()))


def moments(env, num_steps=None, max_steps=40):
    return moments_of(env, push_right, num_steps, max_steps, (8, 8))


def test_a_film_shows_the_first_episode_of_every_lane_and_lanes_that_ended_stand_still(env):
    shown = moments(env)
    rows = jaxenv.unroll(env, push_right, *env.reset(jax.random.key(1)), len(shown) + 1)[1].timestep
    lengths = np.argmax(rows.step_type == 2, axis=0)
    assert len(shown) == lengths.max() + 1
    for lane, length in enumerate(lengths):
        assert [m.step[lane] for m in shown] == [min(t, length) for t in range(len(shown))]
        np.testing.assert_array_equal([m.total[lane] for m in shown], [min(t, length) for t in range(len(shown))])
        assert not shown[length - 1].over[lane]
        np.testing.assert_array_equal(shown[-1].picture[lane], shown[length].picture[lane])


def test_a_film_of_a_number_of_steps_goes_on_with_the_next_episodes(env):
    shown = moments(env, num_steps=35)
    assert len(shown) == 36
    assert not any(m.over.any() for m in shown)
    first = [m.step.tolist().index(0) if 0 in m.step else None for m in shown]
    assert any(lane is not None for lane in first[1:])  # a restart
    ends = [t for t in range(1, 36) if shown[t].step[0] == 0]
    assert all(shown[t].total[0] == 0 and shown[t - 1].total[0] == shown[t - 1].step[0] for t in ends)


def test_a_film_ends_at_its_limit(env):
    assert len(moments(env, max_steps=4)) == 5


def test_a_film_that_its_default_limit_ends_counts_the_lanes_that_are_cut_off(monkeypatch):
    monkeypatch.setattr(_frames, "_MAX_STEPS", 9)
    long = jaxenv.make("Pendulum-v1", 2)
    with pytest.warns(UserWarning, match=r"^film: the film.* 9 steps, before the.* 2 of 2 lanes"):
        assert len(jaxenv.film(long, size=8)) == 10
    assert len(jaxenv.film(long, size=8, num_steps=5)) == 6
    assert len(jaxenv.film(long, size=8, max_steps=5)) == 6


def test_a_frame_shows_every_lane_with_its_step_and_return(env):
    moment = moments(env, max_steps=1)[-1]
    plain, titled = (Grid((8, 8), 3, captions).frame(moment) for captions in (False, True))
    np.testing.assert_array_equal(plain[:8, :8], moment.picture[0])
    np.testing.assert_array_equal(plain[:8, 14:22], moment.picture[1])
    np.testing.assert_array_equal(plain[14:22, :8], moment.picture[2])
    np.testing.assert_array_equal(titled[:8, :8], moment.picture[0])
    assert (titled[8:18, :8] < 200).any()  # the caption


def test_lanes_without_restarts_stand_still_where_a_number_of_steps_is_given():
    env = jaxenv.make("CartPole-v1", 2, autoreset=None)
    shown = moments(env, num_steps=20)
    assert len(shown) == 21
    assert shown[-1].over.all()
    assert (shown[-1].step < 15).all()
    np.testing.assert_array_equal(shown[-1].total, shown[-1].step)


def move(timestep, stream):
    return (jnp.sum(timestep.observation > 0, axis=-1) % 5).astype(jnp.int32)


@pytest.mark.parametrize("num_steps", [None, 9])
def test_a_game_whose_agents_are_lanes_is_shown_as_that_of_all_agents(num_steps):
    make = partial(jaxenv.make, "SimpleSpread-mpe", max_episode_steps=5)
    shown = [moments_of(env, move, num_steps, 40, (8, 12)) for env in (make(3, wrappers=["AgentsAsLanes"]), make(1))]
    assert len(shown[0]) == len(shown[1]) == (num_steps or 5) + 1
    for lanes, games in zip(*shown, strict=True):
        np.testing.assert_allclose(lanes.picture.astype(int), games.picture, atol=1)
        np.testing.assert_array_equal((lanes.step, lanes.over), (games.step, games.over))
        np.testing.assert_allclose(lanes.total, games.total, rtol=1e-5)


def test_games_whose_agents_are_lanes_have_a_picture_and_the_sum_of_returns_each():
    env = jaxenv.make("SimpleSpread-mpe", 6, wrappers=["AgentsAsLanes"], max_episode_steps=5)
    shown = moments_of(env, move, None, 40, (8, 12))
    rewards = jaxenv.unroll(env, move, *env.reset(jax.random.key(1)), 6)[1].timestep.reward[1:]
    np.testing.assert_allclose(shown[-1].total, rewards.reshape(5, 2, 3).sum(axis=(0, 2)), rtol=1e-5)
    assert shown[-1].picture.shape == (2, 8, 12, 3)
    assert np.any(shown[-1].picture[0] != shown[-1].picture[1])
    assert len(jaxenv.film(env, size=8, num_steps=2).parts) == 2


@pytest.mark.parametrize(("num_steps", "max_steps"), [(4, None), (None, 4)])
def test_an_agent_that_has_left_keeps_its_return_until_the_game_ends(num_steps, max_steps):
    env = AgentsAsLanes(AutoReset(Walkers(num_envs=1)))

    def leave_or_go_on(timestep, stream):
        """The first walks to 2 and stays, the second leaves at once."""
        place = jnp.argmax(timestep.observation, axis=-1)
        return jnp.where(jnp.arange(2) == 0, (place < 2).astype(jnp.int32), np.int32(2))

    shown = moments_of(env, leave_or_go_on, num_steps, max_steps, (8, 12))
    assert [float(moment.total[0]) for moment in shown] == [0, 2, 4, 6, 8]  # the second got 1
