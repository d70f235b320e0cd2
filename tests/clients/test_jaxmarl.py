"""`to_jaxmarl`: games under JaxMARL's wrappers, and its IPPO, unchanged but for the import of the environment."""

import pathlib
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import wrappers
from jaxenv._util.library import default_types
from jaxenv.interop import to_jaxmarl
from jaxenv.testing import Counting
from tests import packages
from tests.errors import like
from tests.interop.games import Nim, Walkers
from tests.rows import assert_equal

packages.imported("jaxmarl")
from jaxmarl.wrappers.baselines import CTRolloutManager, LogWrapper  # noqa: E402

KEYS = jax.random.split(jax.random.PRNGKey(0), 4)


def step_all(env, state, actions, key=1):
    return jax.jit(jax.vmap(env.step))(jax.random.split(jax.random.key(key), 4), state, actions)


def acts(*actions):
    """The actions of both walkers in four lanes."""
    return {f"walker_{number}": jnp.full(4, action, jnp.int32) for number, action in enumerate(actions)}


def test_lanes_are_those_of_the_batch():
    env = jaxenv.make("SimpleSpread-mpe", 4, autoreset=None, max_episode_steps=3)
    state, timestep = env.reset(jax.random.wrap_key_data(KEYS))
    found = to_jaxmarl("SimpleSpread-mpe", max_episode_steps=3)
    observations, lanes = jax.vmap(found.reset)(KEYS)
    for t in range(3):
        for number, agent in enumerate(found.agents):
            np.testing.assert_allclose(observations[agent], timestep.observation[:, number], rtol=1e-5, atol=1e-6)
        actions = jax.random.randint(jax.random.key(t), (4, 3), 0, 5)
        state, timestep = env.step(state, actions)
        by_agent = {agent: actions[:, number] for number, agent in enumerate(found.agents)}
        observations, lanes, rewards, dones, _ = jax.vmap(found.step_env)(KEYS, lanes, by_agent)
        np.testing.assert_allclose(rewards["agent_1"], timestep.reward[:, 1], rtol=1e-5)
        np.testing.assert_array_equal(dones["__all__"], timestep.is_last())
    assert all(np.all(done) for done in dones.values())


def test_a_single_lane_equals_its_row_under_vmap():
    env = to_jaxmarl(Walkers())
    _, state = jax.vmap(env.reset)(KEYS)
    found = jax.vmap(env.step)(KEYS, state, acts(1, 2))
    _, alone = env.reset(KEYS[2])
    expected = env.step(KEYS[2], alone, {"walker_0": 1, "walker_1": 2})
    assert_equal(jax.tree.map(lambda x: x[2], found), expected)


def test_an_agent_is_done_from_the_step_on_which_it_leaves_and_its_actions_are_ignored():
    env = to_jaxmarl(Walkers())
    _, state = jax.vmap(env.reset)(KEYS)
    for action in (2, 1):
        observations, state, rewards, dones, infos = step_all(env, state, acts(1, action))
        assert {name: bool(done.all()) for name, done in dones.items()} == {
            "walker_0": False,
            "walker_1": True,
            "__all__": False,
        }
    assert np.argmax(observations["walker_1"], axis=1).tolist() == [1] * 4
    assert rewards["walker_1"].tolist() == [0.0] * 4
    assert infos["agent_alive"].tolist() == [[True, False]] * 4
    observations, state, _, dones, _ = step_all(env, state, acts(2, 1))
    assert all(done.all() for done in dones.values())
    assert np.argmax(observations["walker_0"], axis=1).tolist() == [0] * 4  # of the next game


def test_legal_actions_are_those_of_the_state():
    env = to_jaxmarl(Walkers())
    _, state = env.reset(jax.random.key(0))
    _, state, *_ = env.step(jax.random.key(1), state, {"walker_0": 0, "walker_1": 1})
    legal = {agent: flags.tolist() for agent, flags in env.get_avail_actions(state).items()}
    assert legal == {"walker_0": [True] * 3, "walker_1": [True, False, True]}
    assert np.argmax(env.get_obs(state)["walker_1"]) == 2
    free = to_jaxmarl("SimpleSpread-mpe")
    assert free.get_avail_actions(free.reset(jax.random.key(0))[1])["agent_2"].tolist() == [True] * 5


def test_the_next_game_starts_from_a_given_state():
    env = to_jaxmarl(Walkers())
    _, start = env.reset(jax.random.key(0))
    _, later, *_ = env.step(jax.random.key(1), start, {"walker_0": 1, "walker_1": 0})
    for action, position in ((2, 1), (0, 0)):  # the game ends, or goes on
        actions = dict.fromkeys(env.agents, jnp.int32(action))
        observations, state, *_ = env.step(jax.random.key(2), start, actions, later)
        assert np.argmax(observations["walker_0"]) == position
        assert env.get_obs(state)["walker_0"].tolist() == observations["walker_0"].tolist()


def test_jaxmarls_log_wrapper_counts_returns():
    env = LogWrapper(to_jaxmarl(wrappers.TimeLimit(Walkers(), 3)))
    _, state = jax.vmap(env.reset)(KEYS)
    for _ in range(3):
        *_, state, _, dones, infos = step_all(env, state, acts(1, 0))
    assert dones["__all__"].all()
    assert infos["returned_episode_returns"].tolist() == [[6.0, 3.0]] * 4  # 1 + 2 + 3, and 1 each
    assert infos["returned_episode_lengths"].tolist() == [[3, 3]] * 4


def test_jaxmarls_rollout_manager_of_q_learning_runs():
    env = CTRolloutManager(to_jaxmarl("SimpleTag-mpe"), batch_size=4)
    observations, state = env.batch_reset(jax.random.PRNGKey(0))
    actions = {agent: jnp.zeros(4, jnp.int32) for agent in env.agents}
    observations, _, rewards, *_ = env.batch_step(jax.random.PRNGKey(1), state, actions)
    assert observations["agent_0"].shape == (4, 20)  # with the agent's number of four
    assert observations["__all__"].shape == (4, 64)
    assert rewards["__all__"].shape == (4,)


# --- IPPO ------------------------------------------------------------------------------------------------------------

SOURCE = pathlib.Path(__file__).parent / "jaxmarl_baselines/ippo_ff_mpe.py"
IMPORT, OURS = "import jaxmarl\n", "from jaxenv.interop import jaxmarl\n"
# Of its config file ippo_ff_mpe.yaml, with fewer steps.
CONFIG = {
    "LR": 2.5e-4,
    "NUM_ENVS": 16,
    "NUM_STEPS": 128,
    "TOTAL_TIMESTEPS": 5e4,
    "UPDATE_EPOCHS": 4,
    "NUM_MINIBATCHES": 4,
    "GAMMA": 0.99,
    "GAE_LAMBDA": 0.95,
    "CLIP_EPS": 0.2,
    "ENT_COEF": 0.01,
    "VF_COEF": 0.5,
    "MAX_GRAD_NORM": 0.5,
    "ACTIVATION": "tanh",
    "ANNEAL_LR": True,
    "ENV_KWARGS": {},
}


@pytest.fixture
def ippo(monkeypatch):
    pytest.importorskip("distrax")
    # Only the main program uses these, and wandb's log.
    stubs = {
        "hydra": {"main": lambda **_: lambda f: f},
        "wandb": {"log": lambda _: None},
        "omegaconf": {"OmegaConf": 0},
    }
    for name, members in stubs.items():
        monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(**members))
    source = SOURCE.read_text()
    assert source.count(IMPORT) == 1
    module = types.ModuleType("ippo_ff_mpe")
    with default_types():
        exec(compile(source.replace(IMPORT, OURS), str(SOURCE), "exec"), module.__dict__)
        yield module


@pytest.mark.filterwarnings("ignore")  # from the import of distrax
def test_ippo_of_jaxmarl_learns_a_game(ippo):
    config = {"ENV_NAME": wrappers.TimeLimit(Walkers(), 10), **CONFIG}
    metrics = jax.device_get(jax.jit(ippo.make_train(config))(jax.random.PRNGKey(30))["metrics"])
    returns = metrics["returned_episode_returns"]
    assert np.mean(returns[1:3]) < 16
    assert np.mean(returns[-3:]) > 32


REFUSED = {
    "one agent": (lambda: to_jaxmarl(Counting([3])), "to_jaxmarl: env ...to_gymnax"),
    "turns": (lambda: to_jaxmarl(Nim()), "to_jaxmarl: env ...to_pettingzoo"),
    "restarts": (lambda: to_jaxmarl("SimpleSpread-mpe", autoreset="same_step"), "to_jaxmarl: ...autoreset"),
    "an action is missing": (lambda: stepped({"walker_0": 0}), "actions ...walker_1, got walker_0"),
    "no dict": (lambda: stepped(jnp.zeros(2, jnp.int32)), "actions ...got "),
    "an action of another shape": (
        lambda: stepped({"walker_0": jnp.zeros(2, jnp.int32), "walker_1": 0}),
        "walker_0: action ...(2,)",
    ),
    "a seed": (lambda: to_jaxmarl(Walkers()).reset(3), "key ...got 3"),
}


def stepped(actions):
    env = to_jaxmarl(Walkers())
    return env.step(jax.random.key(0), env.reset(jax.random.key(0))[1], actions)


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_by_name(case):
    use, message = REFUSED[case]
    with pytest.raises(ValueError, match=like(message)):
        use()
