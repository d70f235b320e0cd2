"""Names that clients reserve in infos: the statistics of episodes in their form, and no other meanings."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import jaxenv
import jaxenv.interop.gymnasium
from jaxenv import specs
from jaxenv.interop import batch, to_brax, to_gymnasium, to_gymnasium_vector, to_gymnax, to_stoa
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset, EpisodeStatistics, TimeLimit, preset
from tests.packages import imported

MODES = {"next_step": AutoresetMode.NEXT_STEP, "same_step": AutoresetMode.SAME_STEP, None: AutoresetMode.DISABLED}
# Lane 0 plays episodes of 2, 5 and 1 steps; those of lane 1 are cut after 3.
LENGTHS = np.array([[2, 5, 1], [9, 9, 9]])


def task(lanes=2):
    return EpisodeStatistics(TimeLimit(Counting(LENGTHS[:lanes], num_envs=lanes), 3))


def counting(mode, **options):
    return to_gymnasium_vector(task() if mode is None else AutoReset(task(), mode), **options)


def played(envs, num_steps=9):
    """The infos and the ends of the steps; lane i earns i + 1 per step."""
    envs.reset(seed=0)
    rows = []
    for _ in range(num_steps):
        *_, terminated, truncated, infos = envs.step(np.array([1, 2]))
        rows.append((infos, terminated | truncated))
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and rows[-1][1].any():
            assert "episode" not in envs.reset(options={"reset_mask": rows[-1][1]})[1]
    return rows


def statistics(infos, ended, same_step):
    return (infos.get("final_info", {}) if same_step else infos).get("episode")


@pytest.mark.parametrize("mode", list(MODES))
def test_a_vector_environment_reports_the_episodes_that_ended_and_only_where_they_did(mode):
    found = {0: [], 1: []}
    for infos, ended in played(counting(mode)):
        inside = infos.get("final_info", {}) if mode == "same_step" else infos
        assert ("episode" in inside) == ended.any()
        assert mode != "same_step" or "episode" not in infos
        if not ended.any():
            continue
        episode = inside["episode"]
        assert set(episode) == {"r", "l", "_r", "_l"}
        for name in ("episode", *"rl"):
            np.testing.assert_array_equal((inside if name == "episode" else episode)[f"_{name}"], ended)
        assert [episode[name].dtype for name in "rl"] == [np.float64, np.int64]
        for lane in (0, 1):
            values = episode["r"][lane].item(), episode["l"][lane].item()
            if ended[lane]:
                found[lane].append(values)
            else:
                assert values == (0, 0)
    assert found[0][:3] == [(2, 2), (3, 3), (1, 1)]
    assert found[1][:2] == [(6, 3), (6, 3)]


@pytest.mark.parametrize("mode", list(MODES))
def test_the_statistics_are_in_the_place_and_the_dtypes_of_a_sync_vector_env(mode):
    singles = SyncVectorEnv([lambda: to_gymnasium(task(1))] * 2, autoreset_mode=MODES[mode])
    env = EpisodeStatistics(TimeLimit(Counting(np.tile(LENGTHS[:1], (2, 1)), num_envs=2), 3))
    ours = to_gymnasium_vector(env if mode is None else AutoReset(env, mode))
    found, expected = played(ours), played(singles)
    for infos, _ in (*found, *expected):
        infos.pop("final_obs", None)
    assert any("episode" in infos or "final_info" in infos for infos, _ in found)
    assert data_equivalence([infos for infos, _ in found], [infos for infos, _ in expected])


@pytest.mark.parametrize("mode", list(MODES))
def test_arrays_of_jax_have_the_statistics_of_all_lanes_under_a_mask(mode):
    for infos, ended in played(counting(mode, arrays="jax")):
        inside = infos["final_info"] if mode == "same_step" else infos
        assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(inside["episode"]))
        np.testing.assert_array_equal(inside["_episode"], ended)
        np.testing.assert_array_equal(inside["episode"]["l"] > 0, ended)


def test_a_wrapper_of_gymnasium_that_records_episodes_finds_the_same_ones():
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(counting("next_step"), stats_key="theirs")
    ends = 0
    for infos, ended in played(envs):
        for name in "rl":
            np.testing.assert_array_equal(infos.get("episode", {}).get(name), infos.get("theirs", {}).get(name))
        ends += ended.sum()
    assert ends == 5


def test_a_single_environment_reports_an_episode_on_its_last_step():
    env = to_gymnasium(EpisodeStatistics(TimeLimit(Counting(np.array([2, 5])), 3)))
    found = []
    for _ in range(2):
        assert "episode" not in env.reset(seed=None)[1]
        ended = False
        while not ended:
            *_, terminated, truncated, info = env.step(4)
            ended = terminated or truncated
            assert ("episode" in info) == ended
        found.append(info["episode"])
    assert [(e["r"], e["l"]) for e in found] == [(8, 2), (12, 3)]
    assert [type(e[name]) for e in found for name in "rl"] == [float, int] * 2


def test_gymnasiums_make_reports_episodes_that_its_time_limit_cuts():
    env = gymnasium.make("jaxenv/MountainCar-v0", wrappers=preset("default"))
    env.reset(seed=0)
    infos = [env.step(1)[4] for _ in range(200)]
    assert ["episode" in info for info in infos] == [False] * 199 + [True]
    assert (infos[-1]["episode"]["r"], infos[-1]["episode"]["l"]) == (-200, 200)


# --- names in another meaning -----------------------------------------------------------------------------------------


def reporting(info, **options):
    """An environment whose task reports ``info`` in ``env_info``."""
    return batch(
        lambda key: (jnp.float32(0), jnp.zeros(3)),
        lambda state, action, key: (state + 1, jnp.full(3, state), jnp.float32(1), state > 3, info),
        action=specs.Bounded((2,), np.float32, -1.0, 1.0),
        **options,
    )


ON_HOST = {
    "to_gymnasium": lambda info: to_gymnasium(reporting(info, autoreset=None)),
    "to_gymnasium_vector": lambda info: to_gymnasium_vector(reporting(info, num_envs=3)),
}


@pytest.mark.parametrize("adapter", ON_HOST)
@pytest.mark.parametrize(
    "name",
    ["episode", "final_obs", "final_info", "terminal_observation", "TimeLimit.truncated"],
)
def test_names_that_clients_on_the_host_read_are_refused_in_another_meaning(adapter, name):
    with pytest.raises(ValueError, match=rf"^{adapter}: env_info\['{re.escape(name)}'\] is a name that its clients"):
        ON_HOST[adapter]({name: jnp.float32(1)})


@pytest.mark.parametrize("adapter", ON_HOST)
def test_the_success_of_an_episode_is_one_number(adapter):
    ON_HOST[adapter]({"is_success": jnp.array(True)})
    with pytest.raises(ValueError, match=rf"^{adapter}: env_info\['is_success'\] must"):
        ON_HOST[adapter]({"is_success": jnp.array([True, False, True])})


def test_masks_of_several_choices_lie_one_after_the_other():
    mask = np.arange(6).reshape(2, 3) % 5 < 2
    env = to_gymnasium(reporting({"action_mask": jnp.array(mask)}, autoreset=None))
    env.reset(seed=0)
    env.step(np.zeros(2, np.float32))
    assert env.action_masks().tolist() == [True, True, False, False, False, True]


@pytest.mark.parametrize("adapter", ON_HOST)
def test_masks_of_vector_environments_have_no_namesakes(adapter):
    with pytest.raises(ValueError, match=rf"^{adapter}: env_info\['_wind'\] .*'_'"):
        ON_HOST[adapter]({"_wind": jnp.float32(1)})
    with pytest.raises(ValueError, match=rf"^{adapter}: env_info\['air'\]\['_wind'\] .*'_'"):
        ON_HOST[adapter]({"air": {"_wind": jnp.float32(1)}})


def test_statistics_of_a_vector_reward_are_refused():
    inner = next(env for env in jaxenv.testing.every_kind() if env.reward_spec().shape)
    env = jaxenv.wrappers.ScalarizeReward(EpisodeStatistics(inner), np.ones(inner.reward_spec().shape, np.float32))
    with pytest.raises(ValueError, match=r"env_info\['episode'\] .*got \{'length':"):
        to_gymnasium_vector(env)


@pytest.mark.parametrize("name", ["discount", "terminated", "returned_episode_returns"])
def test_to_gymnax_refuses_names_that_its_steps_and_its_log_fill(name):
    with pytest.raises(ValueError, match=rf"^to_gymnax: env_info\['{name}'\] is a name"):
        to_gymnax(reporting({name: jnp.float32(1)}, autoreset=None))


@pytest.mark.parametrize("name", ["reward", "sum_reward", "length"])
def test_to_brax_refuses_names_of_its_own_metrics(name):
    imported("brax.envs.base")
    with pytest.raises(ValueError, match=rf"^to_brax: env_info\['{name}'\] is a name"):
        to_brax(reporting({name: jnp.float32(1)}, autoreset=None))


@pytest.mark.parametrize("name", ["next_obs", "episode_metrics"])
def test_to_stoa_refuses_names_that_its_wrappers_fill(name):
    imported("stoa")
    with pytest.raises(ValueError, match=rf"^to_stoa: env_info\['{name}'\] is a name"):
        to_stoa(reporting({name: jnp.float32(1)}, autoreset=None))
