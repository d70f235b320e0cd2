"""Agents as lanes, and opponents that answer inside a step."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.core import Multitask
from jaxenv.testing import Chain, check_env
from jaxenv.wrappers import AgentsAsLanes, AutoReset, Discount, EpisodeStatistics, NormalizeReward, Opponent, TimeLimit
from tests.games import Duel, Leavers, Nim, best_move


def duel(num_envs=4, **options):
    return AgentsAsLanes(AutoReset(TimeLimit(Duel(num_envs=num_envs), np.array([2, 5, 3, 4][:num_envs]))), **options)


def rolled(env, num_steps=20, seed=0):
    state, timestep = env.reset(jax.random.key(seed))
    policy = jaxenv.rollout.random_policy(env)
    return jax.jit(lambda s, t: jaxenv.unroll(env, policy, s, t, num_steps))(state, timestep)[1]


# --- several agents in a lane ----------------------------------------------------------------------------------------


def test_an_environment_has_one_agent_unless_it_names_more():
    assert (Chain().num_agents, Chain().agent_names, Chain().turns) == (1, ("agent",), False)
    assert (Duel().num_agents, TimeLimit(Duel(), 3).agent_names) == (2, ("row", "column"))
    assert Nim().turns
    assert Multitask((Duel(), Duel())).num_agents == 2


@pytest.mark.parametrize(
    ("method", "result", "message"),
    [
        ("observe", lambda self, state: state["round"], r"observe: .* must have shape \(1, 2\)"),
        (
            "observation_spec",
            lambda self: specs.Bounded((3,), np.int32, -3, 3),
            r"observation_spec: .*2 agents .*\(3,\)",
        ),
        ("action_spec", lambda self: specs.discrete(3), r"action_spec: .*2 agents \(row, column\), got .*\(\)"),
        (
            "state_info",
            lambda self, state: {"round": state["round"]},
            r"env_info: .*2 agents \(row, column\), round has",
        ),
    ],
)
def test_what_lacks_the_axis_of_agents_is_refused(method, result, message):
    with pytest.raises(ValueError, match=rf"^Broken\.{message}"):
        type("Broken", (Duel,), {method: result})().reset(jax.random.key(0))


def test_a_reward_for_the_wrong_number_of_agents_is_refused():
    class Broken(Duel):
        def transition(self, state, action, stream):
            out = super().transition(state, action, stream)
            return dataclasses.replace(out, reward=out.reward[:, 0])

    with pytest.raises(
        ValueError, match=r"Broken\.transition: the reward .* each of 2 agents \(row, column\), got \[\]"
    ):
        Broken().reset(jax.random.key(0))


def test_an_end_of_each_agent_is_refused():
    class Broken(Duel):
        def transition(self, state, action, stream):
            out = super().transition(state, action, stream)
            return dataclasses.replace(out, terminated=jnp.stack([out.terminated] * 2, axis=1))

    with pytest.raises(
        ValueError, match=r"Broken\.transition: terminated .*bool\[1\], got bool\[1, 2\].* all of its agents"
    ):
        Broken().reset(jax.random.key(0))


def test_a_game_of_turns_must_name_the_player():
    silent = type("Silent", (Nim,), {"state_info": lambda self, state: {}})
    with pytest.raises(ValueError, match=r"Silent\.state_info: .*env_info\['player'\].*got none"):
        silent().reset(jax.random.key(0))


def test_tasks_with_other_agents_are_no_multitask():
    with pytest.raises(ValueError, match=r"Multitask: agents .*\('row', 'column'\), got \('agent',\) of task 1"):
        Multitask((Duel(), Chain()))


# --- agents as lanes -------------------------------------------------------------------------------------------------


def test_lanes_are_the_agents_of_the_games_in_order():
    folded, env = duel(), duel().env
    keys = jax.random.split(jax.random.key(3), 8)
    state, row = folded.reset(keys)
    games, expected = env.reset(keys[::2], jnp.arange(0, 8, 2, dtype=jnp.int32))
    action = np.array([0, 1, 2, 2, 0, 2, 2, 1], np.int32)
    for _ in range(6):
        state, row = folded.step(state, action)
        games, expected = env.step(games, action.reshape(4, 2))
        assert row.reward.reshape(4, 2).tolist() == expected.reward.tolist()
        assert row.observation.reshape(4, 2).tolist() == expected.observation.tolist()
        assert row.step_type.reshape(4, 2).tolist() == np.repeat(expected.step_type[:, None], 2, 1).tolist()
    assert row.env_info["action_mask"].shape == (8, 3)
    assert row.env_id.tolist() == list(range(8))


def test_specs_are_those_of_any_agent():
    env = duel(agent_id=True)
    assert env.num_agents == 1
    assert env.num_envs == 8
    observation = env.observation_spec()
    assert observation["observation"] == specs.Bounded((), np.int32, -3, 3)
    assert observation["agent_id"] == specs.discrete(2, name="agent_id")
    assert env.action_spec() == specs.discrete(3)
    assert env.reward_spec().shape == ()
    assert env.reset(jax.random.key(0))[1].observation["agent_id"].tolist() == [0, 1] * 4


class Told(Leavers):
    """`Leavers` with a global state: the sums of all, and the number of the agent."""

    def state_info(self, state):
        agents = jnp.broadcast_to(jnp.arange(3, dtype=jnp.int32), state["sum"].shape)
        sums = jnp.broadcast_to(state["sum"][:, None], (*state["sum"].shape, 3))
        shown = jnp.concatenate([sums, agents[..., None]], axis=2)
        return super().state_info(state) | {"global_state": shown}


def told(task, autoreset="next_step"):
    env = AgentsAsLanes(AutoReset(task(num_envs=4), autoreset), global_state=True)
    state, row = env.reset(jax.random.key(0))
    for seed in range(3):
        action = jax.random.randint(jax.random.key(seed), (12,), 1, 4, jnp.int32)
        state, row = env.step(state, action)
    return env, state, row


def test_the_global_state_is_what_all_agents_of_the_game_observe_the_own_first():
    env, state, row = told(Leavers)
    observed = np.asarray(row.observation["observation"]).reshape(4, 3, 2)
    assert len(np.unique(observed[..., 1])) > 3  # games and agents differ
    for agent in range(3):
        expected = np.concatenate([observed[:, (agent + i) % 3] for i in range(3)], axis=1)
        assert row.observation["global_state"].reshape(4, 3, 6)[:, agent].tolist() == expected.tolist()
    assert env.observation_spec()["global_state"] == specs.Bounded((6,), np.int32, 0, 27)
    shown = env.observation_of(state)
    assert shown["global_state"].tolist() == row.observation["global_state"].tolist()


def test_a_task_may_declare_its_global_state():
    env, state, row = told(Told)
    sums = np.asarray(row.observation["observation"])[:, 1].reshape(4, 3)
    expected = [[*sums[lane // 3], lane % 3] for lane in range(12)]
    assert row.observation["global_state"].tolist() == expected
    assert env.observation_of(state)["global_state"].tolist() == expected
    assert (
        row.env_info.keys()
        == env.env_info_of(state).keys() | {"agent_terminated"}
        == {
            "agent_alive",
            "agent_terminated",
        }
    )
    assert env.observation_spec()["global_state"].shape == (4,)
    with pytest.raises(ValueError, match=r"AgentsAsLanes: .*global_state.*got 'same_step'"):
        told(Told, "same_step")


def test_the_global_state_has_the_form_of_the_observation():
    env = AgentsAsLanes(AutoReset(Duel(num_envs=2), "same_step"), global_state=True)
    state, row = env.reset(jax.random.key(0))
    state, row = env.step(state, row.prev_action)
    assert row.observation["global_state"].tolist() == [[1, -1], [-1, 1]] * 2
    final = row.env_info["final_observation"]
    assert jax.tree.map(lambda x: x.tolist(), final) == jax.tree.map(lambda x: x.tolist(), row.observation)
    kitchen = jaxenv.make("Overcooked-CrampedRoom-v1", wrappers=[("AgentsAsLanes", {"global_state": True})])
    assert kitchen.observation_spec()["global_state"].shape == (4, 5, 52)


def test_agents_of_a_game_draw_their_own_actions():
    actions = np.asarray(rolled(duel()).action).reshape(20, 4, 2)
    assert (actions[..., 0] != 1).all()  # masks
    assert (actions[..., 1] != 0).all()
    both = (actions[..., 0] == 2) & (actions[..., 1] == 2)
    assert 0.1 < both.mean() < 0.4


def test_an_agent_that_leaves_ends_its_episode_and_waits_on_first_rows():
    env = AgentsAsLanes(AutoReset(EpisodeStatistics(Leavers(num_envs=1))))
    state, _ = env.reset(jax.random.key(0))
    rows = []
    for action in ([1, 0, 2], [3, 3, 1], [0, 2, 0], [1, 1, 1], [2, 2, 2]):
        state, row = env.step(state, np.array(action, np.int32))
        rows.append(row)
    rows = jax.tree.map(lambda *x: np.stack(x), *rows)
    assert rows.step_type.T.tolist() == [[1, 1, 2, 0, 1], [2, 0, 0, 0, 1], [1, 1, 2, 0, 1]]
    assert rows.discount.T.tolist() == [[1, 1, 0, 1, 1], [0, 1, 1, 1, 1], [1, 1, 0, 1, 1]]
    assert rows.reward.T.tolist() == [[1, 3, 0, 0, 2], [0, 0, 0, 0, 2], [2, 1, 0, 0, 2]]
    assert rows.prev_action.T.tolist() == [[1, 3, 0, 0, 2], [0, 0, 0, 0, 2], [2, 1, 0, 0, 2]]
    assert rows.env_info["agent_terminated"].T.tolist() == [[0, 0, 1, 0, 0], [1, 0, 0, 0, 0], [0, 0, 1, 0, 0]]


def test_a_learner_leaves_the_wait_out():
    env = AgentsAsLanes(AutoReset(Leavers(num_envs=5)))
    experience = rolled(env, 40)
    rows = experience.timestep
    last = jax.tree.map(lambda x: x[-1], rows)
    valid = np.asarray(jaxenv.data.transition_mask(jax.tree.map(lambda x: x[:-1], rows), last))
    entered = np.asarray(rows.step_type[1:])
    assert (valid == (entered != 0)).all()
    assert valid.mean() < 0.9


def test_waiting_needs_first_rows():
    with pytest.raises(ValueError, match=r"AgentsAsLanes: agents that leave .*got 'same_step'"):
        AgentsAsLanes(AutoReset(Leavers(num_envs=2), "same_step"))


def test_make_counts_lanes_and_wrappers_outside_see_agents():
    spec = jaxenv.EnvSpec("Duel-test", Duel, max_episode_steps=2)
    env = jaxenv.make(spec, num_envs=6, wrappers=["AgentsAsLanes", NormalizeReward])
    assert (env.num_envs, env.unwrapped.num_envs) == (6, 3)
    assert jaxenv.make(spec, wrappers=["AgentsAsLanes"]).num_envs == 2  # one game
    assert rolled(env).timestep.reward.shape == (20, 6)
    with pytest.raises(ValueError, match=r"AgentsAsLanes.*num_envs .*2 agents.*got 5 lanes"):
        jaxenv.make(spec, num_envs=5, wrappers=["AgentsAsLanes"])


def test_whole_episodes_of_agents_are_evaluated():
    env = duel()
    played = jaxenv.evaluate(env, jaxenv.rollout.random_policy(env), jax.random.key(0), 16)
    assert played.finished.all()
    assert np.asarray(played.returns).reshape(4, 2, 2).sum(axis=1).tolist() == [[0, 0]] * 4


def test_lanes_of_a_device_are_whole_games():
    env = duel()
    assert env.take(jnp.arange(4, 8)).env.env.duration.tolist() == [3, 4]
    with pytest.raises(ValueError, match=r"num_envs .*got 3 lanes"):
        env.take(jnp.arange(3))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: AgentsAsLanes(Chain()), "AgentsAsLanes: env .*two or more agents, Chain has one"),
        (lambda: AgentsAsLanes(Nim()), "AgentsAsLanes: env .*at once, .*turns.*Opponent"),
        (
            lambda: AgentsAsLanes(
                type("Uneven", (Duel,), {"action_spec": lambda self: specs.Bounded((2,), np.int32, 0, [2, 3])})()
            ),
            "AgentsAsLanes: all agents .*same actions.*Uneven",
        ),
    ],
)
def test_agents_that_are_no_lanes_of_one_policy_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_one_agent_of_a_game_can_neither_restart_nor_wait_alone():
    env = duel()
    state, row = env.reset(jax.random.key(0))
    mask = np.array([True] + [False] * 7)
    with pytest.raises(ValueError, match="reset_where: the agents of a game restart together"):
        jaxenv.reset_where(env, state, row, mask)
    with pytest.raises(ValueError, match=r"tree\.where: .*groups of lanes"):
        jaxenv.step_where(env, state, row, row.prev_action, mask)
    with pytest.raises(ValueError, match=r"action must have shape \(8,\).*got \(4, 2\)"):
        env.step(state, np.zeros((4, 2), np.int32))


@pytest.mark.parametrize("task", [Duel, Leavers, Nim])
def test_games_have_the_properties_of_an_environment(task):
    check_env(task(num_envs=3), raise_on_failure=True, progress=None)


# --- opponents -------------------------------------------------------------------------------------------------------


def against(side, num_envs=64, policy=best_move, **options):
    return AutoReset(EpisodeStatistics(Opponent(Nim(num_envs=num_envs), policy, side, **options)))


def returns(env, policy, num_episodes=64):
    return np.asarray(jaxenv.evaluate(env, policy, jax.random.key(1), num_episodes).returns)


def test_who_moves_first_wins_nim_by_the_best_moves():
    assert returns(against("first"), best_move).tolist() == [1] * 64
    assert returns(against("second"), best_move).tolist() == [-1] * 64
    drawn = returns(against("drawn"), best_move)
    assert set(drawn.tolist()) == {-1, 1}


def test_the_opponent_moves_before_the_first_row_of_the_second_side():
    _, row = against("second").reset(jax.random.key(0))
    assert set(row.observation.tolist()) == {8}
    assert set(row.step_type.tolist()) == {0}
    assert set(row.reward.tolist()) == {0}
    assert set(row.env_info["player"].tolist()) == {1}


def test_a_step_is_a_move_and_its_answer():
    env = Opponent(Nim(num_envs=2), best_move)
    state, _ = env.reset(jax.random.key(0))
    state, row = env.step(state, np.array([0, 2], np.int32))  # 8 and 6 are left; the answers leave 7 and 4
    assert row.observation.tolist() == [7, 4]
    assert row.prev_action.tolist() == [0, 2]
    assert row.env_info["player"].tolist() == [0, 0]
    state, row = env.step(state, np.array([2, 2], np.int32))  # 4 and 1 are left
    assert row.observation.tolist() == [3, 0]
    assert row.step_type.tolist() == [1, 2]
    assert row.reward.tolist() == [0, -1]
    state, row = env.step(state, np.array([2, 0], np.int32))
    assert (row.step_type[0], row.reward[0], row.discount[0]) == (2, 1, 0)


def test_the_agent_is_paid_for_its_move_and_for_the_answer():
    class Paid(Nim):
        """A move pays its player ten for each stick and costs the other player one."""

        def transition(self, state, action, stream):
            out = super().transition(state, action, stream)
            taken = (action + 1).astype(jnp.float32)[:, None]
            moves = state["player"][:, None] == np.arange(2, dtype=np.int32)[None]
            return dataclasses.replace(out, reward=jnp.where(moves, 10 * taken, -taken))

        def reward_spec(self):
            return specs.Array((2,), np.float32)

    env = Opponent(Paid(num_envs=2), best_move)
    state, _ = env.reset(jax.random.key(0))
    _, row = env.step(state, np.array([1, 0], np.int32))  # 7 and 8 are left; the answers take three and one
    assert row.reward.tolist() == [20 - 3, 10 - 1]


def test_a_discount_counts_once_for_each_move_that_was_made():
    class Fails(Nim):
        """Taking three sticks fails: the row is abnormal."""

        def transition(self, state, action, stream):
            out = super().transition(state, action, stream)
            return dataclasses.replace(out, env_info={"abnormal": action == 2})

    env = Opponent(Discount(Fails(num_envs=2), 0.5), best_move)
    state, _ = env.reset(jax.random.key(0))
    _, row = env.step(state, np.array([0, 2], np.int32))
    assert row.step_type.tolist() == [1, 2]
    assert row.discount.tolist() == [0.25, 0.5]


def skilled(timestep, stream, weights):
    """Plays well with skill, else takes one stick."""
    return jnp.where(weights["skill"] > 0, best_move(timestep, stream), 0)


def test_weights_are_exchanged_without_compiling_anew():
    traces = []

    def policy(timestep, stream, weights):
        traces.append(1)
        return skilled(timestep, stream, weights)

    env = Opponent(Nim(num_envs=4), policy, weights={"skill": jnp.float32(0)})

    @jax.jit
    def play(env):
        state, _ = env.reset(jax.random.key(0))
        rewards = [(out := env.step(state, np.zeros(4, np.int32)))[1].observation]
        return rewards, out[1].reward

    weak = play(env)[0][0].tolist()
    count = len(traces)
    strong = play(env.with_weights({"skill": jnp.float32(1)}))[0][0].tolist()
    assert (weak, strong) == ([7] * 4, [7] * 4)
    assert len(traces) == count


def test_every_member_of_the_league_plays_in_a_third_of_the_episodes():
    def takes(timestep, stream, weights):
        return jnp.broadcast_to(weights["takes"], timestep.observation.shape)

    env = against("second", 300, takes, weights={"takes": jnp.arange(3, dtype=jnp.int32)}, league=3)
    state, row = env.reset(jax.random.key(0))
    member = 8 - np.asarray(row.observation)  # which took one more than its number from nine sticks
    assert np.bincount(member, minlength=3).min() > 75
    _, row = env.step(state, np.zeros(300, np.int32))
    np.testing.assert_array_equal(row.observation, 6 - 2 * member)  # and does so until the end of the episode


def test_a_random_opponent_makes_legal_moves_alone():
    # Of two sticks the agent takes one, and the last one is the only legal move.
    env = AutoReset(Opponent(Nim(2, num_envs=32)))
    assert returns(env, lambda timestep, stream: jnp.zeros(32, jnp.int32), 32).tolist() == [-1] * 32


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Opponent(Duel()), "Opponent: env .*turns, Duel has 2 and acts at once"),
        (lambda: Opponent(Chain()), "Opponent: env .*turns, Chain has 1"),
        (lambda: Opponent(Nim(), "random"), "Opponent: policy .*got 'random'"),
        (
            lambda: Opponent(Nim(), skilled, weights={"skill": jnp.zeros(2)}, league=3),
            r"league, skill have shape \(2,\)",
        ),
        (lambda: Opponent(AutoReset(Nim())), "Opponent: AutoReset"),
        (
            lambda: Opponent(Nim(), skilled, weights={"skill": jnp.zeros(2)}).with_weights({"skill": jnp.zeros(3)}),
            "Opponent: weights differ at skill",
        ),
    ],
)
def test_opponents_for_other_games_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
