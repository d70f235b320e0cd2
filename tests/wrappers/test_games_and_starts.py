"""Games where their features meet: opponents, agents as lanes and repeats, in levels, states and values per game."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs, tree
from jaxenv.core import Task, Transition
from jaxenv.testing import checked
from jaxenv.wrappers import (
    ActionDelay,
    ActionRepeat,
    AgentsAsLanes,
    AutoReset,
    EpisodeStatistics,
    FrameStack,
    LevelReplay,
    MaxAndSkip,
    NoopReset,
    Opponent,
    PixelObservation,
    RewardFromInfo,
    ShapedReward,
    StateInInfo,
    StickyAction,
    TerminalOnInfo,
    VectorReward,
)
from tests.games import Leavers, Nim, best_move

KEY, OTHER = jax.random.key(0), jax.random.key(7)


# --- opponents, where an episode does not begin at the beginning ------------------------------------------------------


def test_the_player_to_move_in_a_level_is_the_agent():
    game = jaxenv.make("ConnectFour-v0", num_envs=1, autoreset=None)
    state, _ = game.reset(KEY)
    for column in (6, 0, 6, 0, 6, 0, 5):  # the second player has three in column 0 and is to move
        state, _ = game.step(state, np.array([column]))
    env = jaxenv.make("ConnectFour-v0", num_envs=1, wrappers=["Opponent"])
    state, row = env.reset(OTHER, level=env.levels().of_state(game_state(env, state)))
    assert row.env_info["player"].tolist() == [1]
    _, row = env.step(state, np.array([0]))
    assert (row.reward.tolist(), row.step_type.tolist(), row.discount.tolist()) == ([1], [2], [0])


def game_state(env, state):
    """A state of ``env`` whose game is in ``state``."""
    own, _ = env.reset(KEY)
    task = state.task if hasattr(state, "task") else state.inner.task
    return jax.tree.map(
        lambda node: tree.rebuild(node, task=task) if hasattr(node, "task") else node,
        own,
        is_leaf=lambda n: hasattr(n, "task"),
    )


class Pile(Nim):
    """Nim in which a level says how many sticks there are and who begins."""

    def sample_level(self, stream):
        left = 2 + jnp.arange(stream.shape[0], dtype=jnp.int32) % 7
        return {"left": left, "player": jnp.arange(stream.shape[0], dtype=jnp.int32) % 2}


@pytest.mark.parametrize("side", ["first", "second", "drawn"])
def test_a_row_shows_the_turn_of_the_agent_wherever_an_episode_begins(side):
    env = Opponent(Pile(num_envs=28), best_move, side)
    level = jaxenv.sample_level(env, KEY)
    state, row = env.reset(KEY, level=level)
    moved = row.observation != level["left"]
    np.testing.assert_array_equal(row.env_info["player"], np.where(moved, 1 - level["player"], level["player"]))
    np.testing.assert_array_equal(state.own.side, row.env_info["player"])
    assert set(moved.tolist()) == {"first": {False}, "second": {True, False}, "drawn": {True, False}}[side]
    # The first move of the opponent never ends the game.
    assert row.observation.min() >= 1
    assert not moved[level["left"] <= 3].any()


@pytest.mark.parametrize("side", ["first", "second", "drawn"])
def test_an_episode_goes_on_from_a_state_of_the_stack_with_the_move_of_the_agent(side):
    env = Opponent(Nim(num_envs=16, sticks=12), best_move, side)
    state, _ = env.reset(KEY)
    state, _ = env.step(state, np.arange(16, dtype=np.int32) % 3)
    again, row = env.reset(OTHER, from_state=state)
    np.testing.assert_array_equal(row.observation, state.inner.task["left"])
    np.testing.assert_array_equal(again.own.side, state.own.side)
    np.testing.assert_array_equal(again.own.side, row.env_info["player"])


def test_an_agent_takes_the_seat_of_the_player_to_move_after_random_moves():
    env = Opponent(NoopReset(Nim(num_envs=64, sticks=20), 3), best_move, "first")
    state, row = env.reset(KEY)
    np.testing.assert_array_equal(state.own.side, row.env_info["player"])
    assert set(state.own.side.tolist()) == {0, 1}
    for _ in range(12):  # agent and opponent play well: the agent loses wherever a multiple of four is left for it
        state, after = env.step(state, best_move(row, None))
        won = np.where(np.asarray(row.observation) % 4 == 0, -1, 1)
        ended = np.asarray(after.is_last() & ~row.is_last())
        np.testing.assert_array_equal(after.reward[ended], won[ended])
        row = after


@pytest.mark.parametrize("inner", [lambda env: ActionRepeat(env, 2), lambda env: MaxAndSkip(env, 3)])
def test_a_stack_that_plays_an_action_for_both_sides_does_not_alternate(inner):
    assert not inner(Nim()).alternates
    assert ActionRepeat(Nim(), 1).alternates
    with pytest.raises(ValueError, match="Opponent: every move must pass the turn"):
        Opponent(inner(Nim()))


@pytest.mark.parametrize("wrap", [lambda env: StickyAction(env, 0.2), lambda env: ActionDelay(env, 1)])
def test_the_last_action_of_the_other_side_is_not_played(wrap):
    with pytest.raises(ValueError, match=r"env must not be a game of turns.*put \w+ outside Opponent"):
        wrap(Nim())
    wrap(Opponent(Nim()))


def test_checked_raises_where_an_opponent_moves_out_of_range():
    def policy(timestep, stream):
        return jnp.where(timestep.observation == 6, np.int32(7), np.int32(0))

    env = checked(AutoReset(Opponent(Nim(num_envs=2), policy)))
    state, _ = env.reset(KEY)
    state, _ = env.step(state, np.array([0, 1], np.int32))  # 8 and 7 are left, then 7 and 6
    with pytest.raises(ValueError, match=r"action of the opponent at lane 0, episode 0, step 3 is 7"):
        env.step(state, np.array([0, 1], np.int32))


def moved(policy):
    """A step in which a policy answers."""
    env = Opponent(Nim(), policy)
    return env.step(env.reset(KEY)[0], jnp.zeros(1, jnp.int32))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Opponent(Nim(), league=3), "Opponent: league must have weights .*got 3 and none"),
        (lambda: Opponent(Nim(), weights={"w": jnp.zeros(2)}), "Opponent: weights must have a policy"),
        (
            lambda: moved(lambda timestep, stream: jnp.zeros(1)),
            "Opponent: policy: action must be integers.*got float32",
        ),
        (
            lambda: moved(lambda timestep, stream: jnp.zeros(3, int)),
            r"Opponent: policy: action must have shape.*got \(3,\)",
        ),
    ],
)
def test_opponents_without_what_they_need_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


# --- agents as lanes, and what belongs to games -----------------------------------------------------------------------

GAMES = 4
NUMBERS = np.arange(12).reshape(4, 3)


@tree.struct
class Params:
    pay: float = tree.leaf(default=1.0)


class Seats(Task):
    """Three agents; a level says how many steps a game lasts and which agent is missing, 3 for none."""

    params: Params = Params()
    agent_names = ("a", "b", "c")
    summed_entries = frozenset({"shaped"})

    def sample_level(self, stream):
        return {
            "length": jaxenv.random.integers(stream, (), 2, 9),
            "missing": jaxenv.random.integers(jaxenv.random.fold_in(stream, "missing"), (), 0, 4),
            "step": jnp.zeros(stream.shape, jnp.int32),
        }

    def initial(self, stream):
        return self.sample_level(stream)

    def transition(self, state, action, stream):
        after = {**state, "step": state["step"] + 1}
        here = self.state_info(state)["agent_alive"]
        pay = jnp.where(
            here, (jnp.broadcast_to(self.params.pay, after["step"].shape))[:, None] * np.float32([[1, 10, 100]]), 0
        )
        over = after["step"] >= state["length"]
        info = {"shaped": pay, "agent_terminated": jnp.zeros_like(here), "latest": pay}
        return Transition(after, pay.astype(jnp.float32), over, info)

    def state_info(self, state):
        return {"agent_alive": jnp.arange(3, dtype=jnp.int32)[None] != state["missing"][:, None]}

    def observe(self, state):
        return jnp.repeat(jnp.stack([state["length"], state["step"]], axis=1)[:, None], 3, axis=1)

    def observation_spec(self):
        return specs.Bounded((3, 2), np.int32, 0, 99)

    def action_spec(self):
        return specs.Bounded((3,), np.int32, 0, 1)


def folded(**options):
    return jaxenv.make(jaxenv.EnvSpec("Seats-test", Seats), 12, wrappers=["AgentsAsLanes"], **options)


def lengths(row):
    """The lengths that a row shows, of each game once."""
    shown = np.asarray(row.observation)[:, 0].reshape(4, 3)
    assert (shown == shown[:, :1]).all()
    return shown[:, 0].tolist()


def test_levels_of_agents_that_are_lanes_are_those_of_their_games():
    env = folded()
    level = jaxenv.sample_level(env, OTHER)
    assert level["length"].shape == (4,)
    _, sampled = env.reset(OTHER)
    assert lengths(sampled) == level["length"].tolist()
    _, row = env.reset(KEY, level=level)
    assert lengths(row) == level["length"].tolist()
    with pytest.raises(ValueError, match=r"reset: level .*4 games.*12 lanes.*got 12"):
        env.reset(KEY, level=jax.tree.map(lambda x: jnp.repeat(x, 3), level))
    kept = env.with_level({**level, "length": jnp.array([2, 3, 4, 5], jnp.int32)})
    state, row = kept.reset(KEY)
    for _ in range(8):
        assert lengths(row) == [2, 3, 4, 5]
        state, row = kept.step(state, jnp.zeros(12, jnp.int32))


def test_states_of_agents_that_are_lanes_start_their_games():
    env = folded()
    state, _ = env.reset(KEY)
    state, row = env.step(state, jnp.zeros(12, jnp.int32))
    _, again = env.reset(OTHER, from_state=state)
    np.testing.assert_array_equal(again.observation, row.observation)
    assert again.observation[:, 1].tolist() == [1] * 12


def test_games_replay_their_levels():
    env = LevelReplay(folded())
    state, row = env.reset(KEY)
    level = {**jaxenv.sample_level(env, OTHER), "length": jnp.array([11, 12, 13, 14], jnp.int32)}
    mask = np.array([True, False, True, True])
    state = env.assign(state, level, mask)
    seen = [set() for _ in range(4)]
    for _ in range(20):
        state, row = env.step(state, jnp.zeros(12, jnp.int32))
        if (row.observation[:, 1] == 0).any():
            for game, length in enumerate(lengths(row)):
                seen[game].add(length)
    assert [max(found) for found in seen if max(found) > 10] == [11, 13, 14]
    assert max(seen[1]) < 11
    assert jaxenv.partition_specs(state) is not None


def test_params_and_limits_of_games_have_one_value_per_game():
    pay = np.array([1.0, 2.0, 3.0, 5.0], np.float32)
    env = folded(pay=pay, max_episode_steps=np.array([9, 2, 3, 4], np.int32))
    state, _ = env.reset(
        KEY, level={"length": jnp.full(4, 6), "missing": jnp.full(4, 3), "step": jnp.zeros(4, jnp.int32)}
    )
    rewards, ends = [], []
    for _ in range(4):
        state, row = env.step(state, jnp.zeros(12, jnp.int32))
        rewards.append(row.reward.reshape(4, 3))
        ends.append(row.is_last().reshape(4, 3)[:, 0].tolist())
    assert rewards[0].tolist() == (pay[:, None] * [1, 10, 100]).tolist()
    assert ends == [[False] * 4, [False, True, False, False], [False, False, True, False], [False, False, False, True]]
    again = jaxenv.from_data(registered_data(env))
    assert (again.num_envs, again.params.pay.tolist()) == (12, pay.tolist())
    with pytest.raises(ValueError, match=r"Seats-test: params.pay holds 12 lanes, the batch has 4"):
        folded(pay=np.ones(12))


def registered_data(env):
    jaxenv.register("Seats-test", Seats)
    return jaxenv.to_data(env)


def test_lanes_move_as_whole_games():
    env = folded(pay=np.array([1.0, 2.0, 3.0, 5.0], np.float32))
    assert env.take(np.array([9, 10, 11, 3, 4, 5])).params.pay.tolist() == [5, 2]
    assert FrameStack(env, 2).take(np.array([9, 10, 11])).params.pay.tolist() == [5]
    for call in (lambda index: env.take(index), lambda index: env.reset(KEY, env_id=index)):
        for index in ([0, 3, 6], [8, 0, 1], [5, 1, 0, 2, 3, 4], [1, 0, 2]):
            with pytest.raises(ValueError, match="must be those of whole games, such as"):
                call(np.array(index, np.int32))
    _, row = env.take(np.arange(6, 12)).reset(KEY, env_id=np.arange(6, 12, dtype=np.int32))
    np.testing.assert_array_equal(row.observation, env.reset(KEY)[1].observation[6:])


def test_an_agent_that_is_missing_from_the_start_waits():
    env = folded()
    level = {"length": jnp.array([3, 4, 5, 6]), "missing": jnp.array([1, 3, 0, 2]), "step": jnp.zeros(4, jnp.int32)}
    state, row = env.reset(KEY, level=jax.tree.map(lambda x: x.astype(jnp.int32), level))
    types = [row.step_type]
    for _ in range(3):
        state, row = env.step(state, jnp.zeros(12, jnp.int32))
        types.append(row.step_type)
    types = np.stack(types).reshape(4, 4, 3)
    assert types[:, 0].T.tolist() == [[0, 1, 1, 2], [0, 0, 0, 0], [0, 1, 1, 2]]
    assert types[:, 2, 0].tolist() == [0, 0, 0, 0]
    assert types[:, 1].T.tolist() == [[0, 1, 1, 1]] * 3


def test_entries_are_split_among_agents_where_they_have_an_axis_of_agents():
    class Shown(Seats):
        """The state has three numbers of the game, as many as there are agents."""

        def sample_level(self, stream):
            return {**super().sample_level(stream), "three": jnp.tile(jnp.arange(3)[None], (*stream.shape, 1))}

        def initial(self, stream):
            return self.sample_level(stream)

    inner = EpisodeStatistics(StateInInfo(Shown(num_envs=2)))
    env = AgentsAsLanes(AutoReset(inner))
    state, row = env.reset(KEY)
    assert row.env_info["state"].task["three"].tolist() == [[0, 1, 2]] * 6
    for _ in range(9):
        state, row = env.step(state, jnp.zeros(6, jnp.int32))
        ended = np.asarray(row.env_info["episode"]["valid"])
        if ended.any():
            found = np.asarray(row.env_info["episode"]["return"]).reshape(2, 3)
            length = np.asarray(row.env_info["episode"]["length"]).reshape(2, 3)
            alive = np.asarray(row.env_info["agent_alive"]).reshape(2, 3)
            np.testing.assert_array_equal(found, np.where(alive, length * [1, 10, 100], 0))


@pytest.mark.parametrize("wrap", [lambda env: FrameStack(env, 3), lambda env: PixelObservation(env, 8)])
def test_an_observation_that_no_longer_leads_with_the_agents_is_refused(wrap):
    class Drawn(Seats):
        def draw(self, state, canvas):
            return canvas

    with pytest.raises(ValueError, match="AgentsAsLanes: every array of the observation must lead with the 3 agents"):
        AgentsAsLanes(wrap(Drawn()))
    AgentsAsLanes(FrameStack(Drawn(), 3, axis=-1))


# --- several steps of one action --------------------------------------------------------------------------------------


def early(leave, end, num_envs=1):
    """A game whose agents leave on given steps."""

    class Early(Leavers):
        def transition(self, state, action, stream):
            leaves = (state["step"] + 1)[:, None] == np.array(leave, np.int32)[None]
            out = super().transition(state, jnp.where(leaves, 0, 1), stream)
            return Transition(out.state, out.reward, out.state["step"] >= end, out.env_info)

    return Early(num_envs=num_envs)


def test_an_agent_that_leaves_on_an_earlier_step_of_a_repeat_is_seen_to_leave():
    env = AgentsAsLanes(AutoReset(ActionRepeat(early((1, 3, 99), 8), 2)))
    state, row = env.reset(KEY)
    types, discounts = [row.step_type.tolist()], [row.discount.tolist()]
    for _ in range(4):
        state, row = env.step(state, jnp.ones(3, jnp.int32))
        types.append(row.step_type.tolist())
        discounts.append(row.discount.tolist())
    assert np.transpose(types).tolist() == [[0, 2, 0, 0, 0], [0, 1, 2, 0, 0], [0, 1, 1, 1, 2]]
    assert np.transpose(discounts).tolist() == [[1, 0, 1, 1, 1], [1, 1, 0, 1, 1], [1, 1, 1, 1, 0]]


def test_summed_entries_add_up_and_others_are_the_last():
    env = ActionRepeat(Seats(num_envs=2), 3)
    level = {"length": jnp.array([5, 2]), "missing": jnp.array([3, 1]), "step": jnp.zeros(2, jnp.int32)}
    state, _ = env.reset(KEY, level=jax.tree.map(lambda x: x.astype(jnp.int32), level))
    _, row = env.step(state, jnp.zeros((2, 3), jnp.int32))
    assert row.env_info["shaped"].tolist() == [[3, 30, 300], [2, 0, 200]]  # the second game ends after two
    assert row.env_info["latest"].tolist() == [[1, 10, 100], [1, 0, 100]]
    assert row.env_info["num_env_frames"].tolist() == [3, 2]


@pytest.mark.parametrize("merged", [lambda info: info | {}, lambda info: {} | info])
def test_rewards_from_info_are_given_no_dict_whose_reads_go_unnoticed(merged):
    with pytest.raises(TypeError, match="unsupported operand"):
        RewardFromInfo(ActionRepeat(Seats(num_envs=2), 3), lambda info: merged(info)["latest"].sum(1))


def test_shaped_rewards_outside_a_repeat_are_those_of_all_its_steps():
    actions = np.random.default_rng(3).integers(0, 6, (200, 64, 2))

    def total(wrappers, times):
        env = jaxenv.make("Overcooked-CrampedRoom-v1", 64, max_episode_steps=0, wrappers=wrappers)
        shaped = jnp.repeat(jnp.asarray(actions, jnp.int32), times, axis=0)
        state, _ = env.reset(KEY)
        return jax.jit(lambda state: jax.lax.scan(env.step, state, shaped)[1].reward.sum((0, 2)))(state)

    shaped = ("ShapedReward", {"steps": 10**9})
    found = total([("ActionRepeat", {"num": 2}), shaped], 1)
    np.testing.assert_allclose(found, total([shaped], 2), rtol=1e-5)
    assert (np.asarray(found) > 0).sum() > 20


@pytest.mark.parametrize(
    ("reader", "name"),
    [
        (lambda env: ShapedReward(env, 5, entry="latest"), "latest"),
        (lambda env: RewardFromInfo(env, lambda info: info["latest"].sum(1)), "latest"),
        (lambda env: RewardFromInfo(env, lambda info: info["shaped"].sum(1) if "latest" in info else 0), "latest"),
        (lambda env: VectorReward(env, ("marked",)), "marked"),
        (lambda env: TerminalOnInfo(env, "late"), "late"),
    ],
)
def test_readers_of_an_entry_of_the_last_step_alone_are_refused_around_a_repeat(reader, name):
    class Marked(Seats):
        agent_names = ("alone",)

        def transition(self, state, action, stream):
            out = super().transition(state, action, stream)
            info = {**out.env_info, "marked": out.state["step"], "late": out.state["step"] > 2}
            return Transition(out.state, out.reward, out.terminated, info)

    reader(Marked())
    reader(ActionRepeat(Marked(), 1))
    with pytest.raises(
        ValueError, match=rf"\w+: a step of .* several of the task, and env_info\['{name}'\] shows the last"
    ):
        reader(ActionRepeat(Marked(), 2))


# --- caches of shapes -------------------------------------------------------------------------------------------------


def test_levels_fit_under_x64_whether_or_not_the_task_was_used_without():
    class Wide(Task):
        def initial(self, stream):
            return {"x": jnp.zeros(stream.shape)}

        def transition(self, state, action, stream):
            return Transition(state, jnp.zeros(action.shape, jnp.float32), action > 5)

        def observe(self, state):
            return state["x"].astype(jnp.float32)

        def observation_spec(self):
            return specs.Array((), np.float32)

        def action_spec(self):
            return specs.discrete(2)

    env = Wide(num_envs=2)
    env.reset(KEY, level=jaxenv.sample_level(env, KEY))
    with jax.enable_x64(True):
        level = jaxenv.sample_level(env, KEY)
        assert level["x"].dtype == np.float64
        env.reset(KEY, level=level)
    env.reset(KEY, level=jaxenv.sample_level(env, KEY))


def test_a_level_with_weak_types_traces_a_step_once():
    traces = []
    env = jaxenv.make("FrozenLake-v1", num_envs=3)
    level = jaxenv.sample_level(env, KEY)
    weak = jax.tree.map(lambda x: jax.lax.full(x.shape, 2) if x.dtype == np.int32 else x, level)
    assert any(x.weak_type for x in jax.tree.leaves(weak))

    @jax.jit
    def step(state):
        traces.append(1)
        return env.step(state, jnp.zeros(3, jnp.int32))[0]

    state, _ = env.reset(KEY, level=weak)
    assert not any(x.weak_type for x in jax.tree.leaves(state))
    step(step(state))
    assert len(traces) == 1
