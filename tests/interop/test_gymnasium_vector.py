"""`to_gymnasium_vector`: batches behind Gymnasium's vector interface, compared with its own ``SyncVectorEnv``."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

import jaxenv
from jaxenv.interop import to_gymnasium, to_gymnasium_vector
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset, TimeLimit
from tests.errors import like
from tests.wrappers.paying import paying

MODES = {"next_step": AutoresetMode.NEXT_STEP, "same_step": AutoresetMode.SAME_STEP, None: AutoresetMode.DISABLED}
T, F = True, False


def counting(mode, lengths=((2,), (3,), (3,)), **options):
    env = Counting(np.array(lengths, np.int32), num_envs=len(lengths))
    return to_gymnasium_vector(env if mode is None else jaxenv.wrappers.AutoReset(env, mode), **options)


def cart_poles(mode="next_step", num_envs=3, **options):
    return to_gymnasium_vector("CartPole-v1", num_envs, autoreset=mode, max_episode_steps=5, **options)


def as_numpy(tree):
    return jax.tree.map(np.asarray, tree)


@pytest.mark.parametrize("arrays", ["numpy", "jax"])
@pytest.mark.parametrize(
    ("mode", "observations", "rewards", "terminations"),
    [
        ("next_step", [[1, 1, 1], [2, 2, 2], [0, 3, 3], [1, 0, 0]], [[1, 2, 3], [1, 2, 3], [0, 2, 3], [1, 0, 0]], None),
        (
            "same_step",
            [[1, 1, 1], [0, 2, 2], [1, 0, 0], [0, 1, 1]],
            [[1, 2, 3]] * 4,
            [[F, F, F], [T, F, F], [F, T, T], [T, F, F]],
        ),
    ],
)
def test_restarts_follow_gymnasiums_tables(mode, observations, rewards, terminations, arrays):
    envs = counting(mode, arrays=arrays)
    assert envs.metadata["autoreset_mode"] is MODES[mode]
    assert envs.autoreset_mode is MODES[mode]  # where SyncVectorEnv has it, and TorchRL reads it
    assert envs.reset(seed=0)[0].tolist() == [0, 0, 0]
    rows = [envs.step(np.array([1, 2, 3])) for _ in range(4)]
    assert [row[0].tolist() for row in rows] == observations
    assert [row[1].tolist() for row in rows] == rewards
    expected = terminations or [[F, F, F], [T, F, F], [F, T, T], [F, F, F]]
    assert [row[2].tolist() for row in rows] == expected
    assert not np.any([row[3] for row in rows])


def test_disabled_restarts_are_left_to_the_caller():
    envs = counting(None)
    envs.reset(seed=0)
    shown = []
    for _ in range(4):
        observation, _, terminated, _, _ = envs.step(np.array([1, 2, 3]))
        shown.append(observation.tolist())
        if terminated.any():
            observation, info = envs.reset(options={"reset_mask": terminated})
            shown.append(observation.tolist())
            assert info == {}
    assert shown == [[1, 1, 1], [2, 2, 2], [0, 2, 2], [1, 3, 3], [1, 0, 0], [2, 1, 1], [0, 1, 1]]


@pytest.mark.parametrize("mode", list(MODES))
def test_rows_and_infos_are_those_of_a_sync_vector_env(mode):
    ours = cart_poles(mode)
    theirs = SyncVectorEnv([lambda: to_gymnasium("CartPole-v1", max_episode_steps=5)] * 3, autoreset_mode=MODES[mode])
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.single_observation_space == theirs.single_observation_space
    assert data_equivalence(ours.reset(seed=[3, 4, 5]), theirs.reset(seed=[3, 4, 5]))
    lengths = np.zeros(3)
    for t in range(14):
        if t == 3:  # lanes out of phase
            options = [{"reset_mask": np.array([T, F, F])} for _ in range(2)]
            assert data_equivalence(
                *(e.reset(seed=[9, 0, 0], options=o) for e, o in zip((ours, theirs), options, strict=True))
            )
        action = np.array([t % 2, 1, 0])
        mine, other = ours.step(action), theirs.step(action)
        assert data_equivalence(mine, other), (t, mine, other)
        ended = mine[2] | mine[3]
        lengths += ended
        if mode is None and ended.any():
            options = [{"reset_mask": ended.copy()} for _ in range(2)]
            assert data_equivalence(*(e.reset(options=o) for e, o in zip((ours, theirs), options, strict=True)))
    assert np.all(lengths == 2)


@pytest.mark.parametrize("mode", list(MODES))
def test_an_export_plays_the_episodes_of_the_environment_itself(mode):
    envs = cart_poles(mode)
    env = jaxenv.make("CartPole-v1", 3, autoreset=mode, max_episode_steps=5)
    step = jax.jit(env.step)
    state, timestep = env.reset(jax.random.key(7))
    observation, infos = envs.reset(seed=7)
    for t in range(12):
        np.testing.assert_allclose(observation, timestep.observation, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(
            infos["time_limit_reached"], timestep.env_info["time_limit_reached"] & (mode != "same_step")
        )
        action = np.array([t % 2, 1, 0], np.int32)
        state, timestep = step(state, action)
        observation, reward, terminated, truncated, infos = envs.step(action)
        np.testing.assert_array_equal(reward, timestep.reward)
        np.testing.assert_array_equal(terminated, timestep.terminated)
        np.testing.assert_array_equal(truncated, timestep.truncated)
        if mode == "same_step" and truncated.any():
            final = timestep.env_info["final_observation"]
            np.testing.assert_allclose(np.stack(infos["final_obs"]), final, rtol=1e-5, atol=1e-6)
        if mode is None and truncated.any():
            state, timestep = jaxenv.reset_where(env, state, timestep, np.asarray(truncated))
            observation, infos = envs.reset(options={"reset_mask": truncated})


def test_infos_about_the_state_belong_to_the_next_episode_and_not_to_the_final_info():
    envs = to_gymnasium_vector("Catch-bsuite", 2, autoreset="same_step")
    envs.reset(seed=0)
    while True:
        *_, terminated, _, infos = envs.step(np.array([1, 1]))
        if terminated.any():
            break
    assert set(infos) >= {"final_obs", "final_info", "total_regret"}
    assert "total_regret" not in infos["final_info"]


def test_infos_of_the_step_are_final_in_lanes_that_ended_and_0_there_outside():
    envs = to_gymnasium_vector(AutoReset(paying(3), "same_step"))
    envs.reset(seed=0)
    for _ in range(2):  # lane 1 ends
        *_, infos = envs.step(np.array([1, 2, 3]))
    assert infos["final_info"]["cost"].tolist() == [0, 4, 0]
    assert infos["cost"].tolist() == [2, 0, 6]


# --- seeds ------------------------------------------------------------------------------------------------------------


def test_a_seed_determines_this_and_all_later_resets():
    envs = cart_poles()
    runs = [[envs.reset(seed=seed)[0], envs.reset()[0], envs.reset()[0]] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert len(np.unique(np.concatenate([*runs[0], *runs[2]]), axis=0)) == 18


def test_seeds_per_lane_are_those_of_single_environments():
    envs, single = cart_poles(), to_gymnasium("CartPole-v1", max_episode_steps=5)
    observation, _ = envs.reset(seed=[8, 8, 2])
    np.testing.assert_array_equal(observation[0], observation[1])
    np.testing.assert_allclose(observation[2], single.reset(seed=2)[0], rtol=1e-6)
    assert envs.np_random_seed == (8, 8, 2)


def test_the_first_reset_without_a_seed_takes_np_random_seed():
    envs, other = cart_poles(), cart_poles()
    observation, _ = envs.reset()
    np.testing.assert_array_equal(observation, other.reset(seed=envs.np_random_seed)[0])
    assert not np.array_equal(observation, cart_poles().reset()[0])
    envs.reset(seed=3)
    envs.reset()
    assert envs.np_random_seed == 3
    assert envs.np_random.random() == np.random.default_rng(3).random()


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        ([1, 2], "seed ...got 2 of them"),
        ([1, 2, None], "seed ...got None"),
        ("one", "seed ...got 'one'"),
        (2**32, "seed ...got 4294967296"),
        (jax.random.key(0), "seed ...got a JAX key"),
        (jnp.int32(3), "seed ...got Array(3"),
        ([1, 2, -1], "seed ...got -1"),
    ],
)
def test_wrong_seeds_are_refused(seed, message):
    with pytest.raises(ValueError, match=like(f"to_gymnasium_vector: {message}")):
        cart_poles().reset(seed=seed)


# --- masks ------------------------------------------------------------------------------------------------------------


class Foreign:
    """An array of a library with dtypes of its own, as torch has."""

    dtype = "foreign.bool"

    def __init__(self, values):
        self._values = np.array(values)

    def __array__(self, dtype=None, copy=None):
        return self._values


@pytest.mark.parametrize("array", [np.array, jnp.array, Foreign])
@pytest.mark.parametrize("mode", list(MODES))
def test_a_mask_resets_its_lanes_and_leaves_the_others(mode, array):
    envs = cart_poles(mode)
    first, _ = envs.reset(seed=[0, 1, 2])
    envs.step(np.array([0, 1, 1]))
    shown = envs.step(np.array([0, 1, 1]))[0]
    kept = shown.copy()
    shown[:] = np.nan  # arrays belong to the caller
    options = {"reset_mask": array([T, T, F])}
    observation, infos = envs.reset(seed=[0, 1, 0], options=options)
    np.testing.assert_array_equal(observation, np.stack([first[0], first[1], kept[2]]))
    assert options.keys() == {"reset_mask"}
    assert infos["_time_limit_reached"].tolist() == [T, T, F]


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.array([T]), "reset_mask ...got bool[1]"),
        (np.array([[T, T, T]]), "reset_mask ...got bool[1, 3]"),
        (np.array([1, 1, 0]), "reset_mask ...got int64[3]"),
        (jnp.array([1, 1, 0]), "reset_mask ...got int32[3]"),
        ([T, T, F], "reset_mask ...got a list"),
        (np.array([F, F, F]), "reset_mask ...got [False False False]"),
    ],
)
def test_wrong_masks_are_refused(mask, message):
    envs = cart_poles()
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=like(message)):
        envs.reset(options={"reset_mask": mask})


def test_the_first_reset_starts_all_lanes():
    envs = cart_poles(None)
    with pytest.raises(ValueError, match=r"the first reset.* reset_mask of 1 lanes"):
        envs.reset(options={"reset_mask": np.array([T, F, F])})
    envs.reset(options={"reset_mask": np.array([T, T, T])})
    with pytest.raises(ValueError, match=r"the only option.* reset_mask, got 'mask'"):
        envs.reset(options={"mask": np.array([T, T, T])})


@pytest.mark.parametrize("arrays", ["numpy", "jax"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_stepping_a_lane_whose_episode_ended_raises_where_restarts_are_disabled(arrays, is_cut):
    task = Counting(np.array([[9 if is_cut else 2], [3], [3]], np.int32), num_envs=3)
    envs = to_gymnasium_vector(TimeLimit(task, np.array([2, 9, 9])), arrays=arrays)
    envs.reset(seed=0)
    for _ in range(2):
        *_, terminated, truncated, _ = envs.step(np.array([1, 2, 3]))
    assert (terminated[0], truncated[0]) == (not is_cut, is_cut)
    for _ in range(2):
        with pytest.raises(gymnasium.error.ResetNeeded, match="the episode of lane 0 ended, reset it by"):
            envs.step(np.array([1, 2, 3]))
    envs.reset(options={"reset_mask": np.array(terminated | truncated)})
    assert envs.step(np.array([1, 2, 3]))[0].tolist() == [1, 3, 3]


# --- arrays -----------------------------------------------------------------------------------------------------------


def test_numpy_arrays_have_gymnasiums_dtypes_belong_to_the_caller_and_never_change():
    envs = cart_poles("same_step")
    rows = [envs.reset(seed=0)] + [envs.step(np.array([0, 1, 1])) for _ in range(6)]
    kept = [jax.tree.map(np.copy, row) for row in rows]
    for _ in range(6):
        envs.step(np.array([1, 0, 0]))
    assert data_equivalence(rows, kept, exact=True)
    observation, reward, terminated, truncated, _ = rows[1]
    assert [x.dtype for x in (observation, reward, terminated, truncated)] == [np.float32, np.float64, bool, bool]
    arrays = [x for row in rows for x in jax.tree.leaves(row)]
    assert all(x.flags.writeable for x in arrays)
    for x in arrays:
        x[...] = 0 if x.dtype != object else None
    observation, _ = envs.reset(seed=0)
    np.testing.assert_array_equal(observation, kept[0][0])


def test_jax_arrays_are_read_through_dlpack_without_a_copy_and_stay_valid():
    envs = cart_poles(arrays="jax")
    rows = [envs.reset(seed=0)[0]] + [envs.step(np.array([0, 1, 1]))[0] for _ in range(6)]
    views = [np.from_dlpack(row) for row in rows]
    assert [view.ctypes.data for view in views] == [row.unsafe_buffer_pointer() for row in rows]
    other = cart_poles()
    same = [other.reset(seed=0)[0]] + [other.step(np.array([0, 1, 1]))[0] for _ in range(6)]
    np.testing.assert_allclose(views, same, rtol=1e-6)


def test_final_observations_of_jax_arrays_are_those_of_all_lanes_under_a_mask():
    envs = counting("same_step", arrays="jax")
    envs.reset(seed=0)
    infos = [envs.step(np.array([1, 2, 3]))[4] for _ in range(3)]
    assert [info["_final_obs"].tolist() for info in infos] == [[F, F, F], [T, F, F], [F, T, T]]
    assert infos[2]["final_obs"].tolist()[1:] == [3, 3]


def test_integers_have_the_dtype_of_the_space():
    envs = to_gymnasium_vector("FrozenLake-v1", 2)
    observation, _ = envs.reset(seed=0)
    assert observation.dtype == envs.observation_space.dtype == np.int64
    assert observation in envs.observation_space


# --- actions ----------------------------------------------------------------------------------------------------------


def test_actions_of_any_integer_dtype_and_origin_step_without_recompiling(caplog):
    envs = cart_poles()
    envs.reset(seed=0)
    envs.step(np.ones(3, np.int32))
    ones = jax.numpy.ones(3, "int32")
    committed = jax.device_put(ones, jax.devices()[0])  # as arrays from DLPack are
    with jax.log_compiles():
        for action in (np.ones(3, np.int64), np.ones(3, np.uint8), [1, 1, 1], ones, committed, np.ones(3, np.int32)):
            envs.step(action)
    assert "jit(step)" not in caplog.text


def test_float64_actions_are_cast_for_a_box():
    envs, other = (to_gymnasium_vector("Pendulum-v1", 2) for _ in range(2))
    envs.reset(seed=0), other.reset(seed=0)
    action = np.array([[0.1], [9.0]])
    np.testing.assert_array_equal(envs.step(action)[0], other.step(action.astype(np.float32))[0])


@pytest.mark.parametrize(
    ("id", "action", "message"),
    [
        ("CartPole-v1", np.zeros(3), "action ...got float64"),
        (
            "CartPole-v1",
            np.zeros(2, int),
            "action ...got (2,)",
        ),
        (
            "CartPole-v1",
            0,
            "action ...got ()",
        ),
        (
            "CartPole-v1",
            np.array([0, 1, 2]),
            "action ...got 2 in lane 2",
        ),
        (
            "CartPole-v1",
            np.array([0, -1, 1]),
            "action ...got -1 in lane 1",
        ),
        (
            "CartPole-v1",
            np.array([0, 2**32, 1]),
            "action ...got 4294967296 in lane 1",
        ),
        ("CartPole-v1", [[0], [0, 1], [0]], "action ...got [[0], [0, 1], [0]]"),
        (
            "Pendulum-v1",
            np.zeros((3, 1), int),
            "action ...got int64",
        ),
    ],
)
def test_wrong_actions_are_refused(id, action, message):
    envs = to_gymnasium_vector(id, 3)
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=like(f"to_gymnasium_vector: {message}")):
        envs.step(action)


def test_trees_of_actions_and_observations_are_samples_of_their_spaces():
    envs = to_gymnasium_vector("MixedPolicyUnittest-v0", 2)
    assert envs.reset(seed=0)[0] in envs.observation_space
    assert envs.step(envs.action_space.sample())[0] in envs.observation_space
    with pytest.raises(ValueError, match=r"action .*got a list"):
        envs.step(list(envs.action_space.sample()))


# --- life cycle and bad input -----------------------------------------------------------------------------------------


def test_a_closed_environment_says_so():
    envs = cart_poles()
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset before step"):
        envs.step(np.zeros(3, int))
    envs.reset(seed=0)
    envs.close()
    envs.close()
    for call in (envs.reset, lambda: envs.step(np.zeros(3, int))):
        with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="the environment is closed"):
            call()


def test_it_renders_every_lane():
    with pytest.raises(ValueError, match=r"render_mode .*got 'human'"):
        cart_poles(render_mode="human")
    with pytest.raises(ValueError, match="render needs render_mode='rgb_array'"):
        cart_poles().render()
    envs = cart_poles(render_mode="rgb_array")
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset before render"):
        envs.render()
    envs.reset(seed=[3] * envs.num_envs)
    pictures = envs.render()
    assert len(pictures) == envs.num_envs
    env = jaxenv.make("CartPole-v1", 1)
    np.testing.assert_array_equal(pictures[0], env.render(env.reset(jax.random.key(3)[None])[0], 256)[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: to_gymnasium_vector(jaxenv.make("CartPole-v1"), autoreset=None), "options belong to an id"),
        (lambda: to_gymnasium_vector(jaxenv.make("CartPole-v1"), 2), r"num_envs .*got 2"),
        (lambda: to_gymnasium_vector("CartPole-v1", arrays="torch"), r"arrays .*got 'torch'"),
        (lambda: to_gymnasium_vector(jaxenv.testing.every_kind()[3]), "a reward must"),
        (lambda: to_gymnasium_vector(3), r"to_gymnasium_vector: env .*got 3"),
    ],
)
def test_what_cannot_be_exported_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- Gymnasium's own wrappers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(MODES))
def test_record_episode_statistics_counts_our_episodes(mode):
    env = Counting(np.array([2, 4, 1]), num_envs=1)
    singles = SyncVectorEnv([lambda: to_gymnasium(env)] * 2, autoreset_mode=MODES[mode])
    recorded = []
    for envs in (counting(mode, ((2, 4, 1), (2, 4, 1))), singles):
        envs = wrappers.RecordEpisodeStatistics(envs)
        envs.reset(seed=0)
        for _ in range(12):
            _, _, terminated, _, _ = envs.step(np.array([1, 2]))
            if mode is None and terminated.any():
                envs.reset(options={"reset_mask": terminated})
        recorded.append((list(envs.length_queue), list(envs.return_queue)))
    assert recorded[0] == recorded[1]
    if mode != "same_step":  # in which Gymnasium 1.3 omits the first step of all episodes but the first
        lengths = [n for n in (2, 4, 1, 2, 4)[: len(recorded[0][0]) // 2] for _ in range(2)]
        assert recorded[0] == (lengths, [n * (1 + i % 2) for i, n in enumerate(lengths)])


def test_wrappers_of_vector_environments_work_around_it():
    envs = cart_poles()
    for wrapper in (
        wrappers.RecordEpisodeStatistics,
        wrappers.NormalizeObservation,
        wrappers.NormalizeReward,
        lambda e: wrappers.ClipReward(e, -1, 1),
    ):
        envs = wrapper(envs)
    envs.reset(seed=0)
    for _ in range(5):
        observation, reward, _, truncated, infos = envs.step(envs.action_space.sample())
    assert observation.dtype == np.float32
    assert np.all(reward <= 1)
    assert truncated.all()
    assert infos["time_limit_reached"].all()
    assert infos["episode"]["l"].tolist() == [5, 5, 5]


def test_dict_info_to_list_finds_final_observations_and_infos():
    envs = wrappers.DictInfoToList(cart_poles("same_step"))
    assert envs.reset(seed=0)[1] == [{"time_limit_reached": False}] * 3
    for _ in range(5):
        observation, *_, infos = envs.step(np.array([0, 1, 1]))
    for lane, info in enumerate(infos):
        assert info["final_info"] == {"time_limit_reached": True}
        assert info["time_limit_reached"] == False  # noqa: E712
        assert not np.array_equal(info["final_obs"], observation[lane])


@pytest.mark.parametrize("mode", list(MODES))
def test_wrappers_that_convert_arrays_work_around_arrays_of_jax(mode):
    pytest.importorskip("array_api_compat")
    envs, plain = wrappers.JaxToNumpy(cart_poles(mode, arrays="jax")), cart_poles(mode)
    np.testing.assert_allclose(envs.reset(seed=0)[0], plain.reset(seed=0)[0], rtol=1e-6)
    for _ in range(5):
        row, other = envs.step(np.array([0, 1, 1])), plain.step(np.array([0, 1, 1]))
        for mine, expected in zip(row[:4], other[:4], strict=True):
            assert isinstance(mine, np.ndarray)
            np.testing.assert_allclose(mine, expected, rtol=1e-6)
    assert row[4]["time_limit_reached"].tolist() == other[4]["time_limit_reached"].tolist()


def test_each_lane_has_its_own_action_mask():
    envs = to_gymnasium_vector("TicTacToe-v0", 2, opponent="random")  # MaskablePPO reads masks by this adapter
    envs.reset(seed=0)
    masks = np.arange(18).reshape(2, 9) % 2 == 0
    envs._keep_masks(types.SimpleNamespace(info={"action_mask": masks}))
    for lane in range(2):
        np.testing.assert_array_equal(envs._masks_of(lane), masks[lane])
