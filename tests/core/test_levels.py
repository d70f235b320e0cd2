"""Levels and states in which episodes start: sampled, given for one episode or for all, through every kind of stack."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, specs, tree
from jaxenv.wrappers import AutoReset, FrameStack, ResampleParams, TimeLimit

KEY, OTHER = jax.random.key(3), jax.random.key(8)
LANES = 5


@tree.struct
class Goal:
    """``at``: int32 ``[B]``; ``speed``: float32 ``[B]``."""

    at: jax.Array
    speed: jax.Array


@tree.struct
class Speed:
    """``speed``: one float."""

    speed: float = 0.7


@tree.struct
class Track:
    level: Goal
    x: jax.Array


class ToGoal(jaxenv.Task):
    """Runs to the goal of the level, at its speed plus noise."""

    Level = Goal

    def sample_level(self, stream):
        at = random.integers(stream, (), 3, 9)
        return Goal(at, random.uniform(random.fold_in(stream, "speed"), (), 0.5, 1.5))

    def check_level(self, level):
        if np.any(np.asarray(level.at) < 1):
            raise ValueError(f"ToGoal: level.at must be at least 1, got {np.asarray(level.at)}")

    def mutate_level(self, level, stream):
        return dataclasses.replace(level, at=level.at + random.integers(stream, (), 1, 3))

    def initial(self, stream, level):
        return Track(level, jnp.zeros(stream.shape))

    def transition(self, state, action, stream):
        x = state.x + state.level.speed + 0.1 * random.uniform(stream)
        reached = x >= state.level.at.astype(jnp.float32)
        return jaxenv.Transition(dataclasses.replace(state, x=x), reached.astype(jnp.float32), terminated=reached)

    def observe(self, state):
        return jnp.stack([state.level.at.astype(jnp.float32), state.level.speed, state.x], axis=-1)

    def observation_spec(self):
        return specs.Array((3,), np.float32, "observation")

    def action_spec(self):
        return specs.discrete(2)


def resampled(num_envs=LANES):
    env = jaxenv.spec("Pendulum-v1").make(num_envs=num_envs)
    return ResampleParams(env, {"gravity": (8.0, 12.0)})


STACKS = {
    "declared": lambda: ToGoal(num_envs=LANES),
    "start state": lambda: jaxenv.make("FrozenLake8x8-v1", num_envs=LANES, autoreset=None),
    "drawn params": resampled,
    "fixed key": lambda: jaxenv.make("CartPole-v1", num_envs=LANES, fixed_reset_key=OTHER),
    "tasks": lambda: jaxenv.Multitask((ToGoal(num_envs=LANES), ToGoal(num_envs=LANES)), names=("a", "b")),
    "frames": lambda: FrameStack(AutoReset(TimeLimit(ToGoal(num_envs=LANES), 4)), num=3),
}


@pytest.mark.parametrize("name", STACKS)
def test_a_reset_starts_in_the_levels_that_its_key_samples(name):
    env = STACKS[name]()
    chex.assert_trees_all_equal(env.reset(KEY), env.reset(KEY, level=jaxenv.sample_level(env, KEY)))


@pytest.mark.parametrize("name", STACKS)
def test_the_levels_of_other_lanes_do_not_matter(name):
    env = STACKS[name]()
    level, other = (jaxenv.sample_level(env, key) for key in (KEY, OTHER))
    mixed = jax.tree.map(lambda x, y: jnp.concatenate([x[:2], y[2:]]), level, other)
    one, two = env.reset(KEY, level=level), env.reset(KEY, level=mixed)
    action = specs.sample(env.action_spec(), KEY, LANES)
    for _ in range(3):
        head = lambda values: jax.tree.map(lambda x: x[:2], values)  # noqa: E731
        chex.assert_trees_all_equal(head(one), head(two))
        one, two = env.step(one[0], action), env.step(two[0], action)


def test_a_level_given_at_a_reset_is_that_of_the_first_episode_alone():
    env = AutoReset(ToGoal(num_envs=LANES))
    level = Goal(jnp.full(LANES, 2), jnp.full(LANES, 1.0))
    state, timestep = env.reset(KEY, level=level)
    assert timestep.observation[:, 0].tolist() == [2.0] * LANES
    for _ in range(3):
        state, timestep = env.step(state, jnp.zeros(LANES, jnp.int32))
    assert (timestep.observation[:, 0] > 2).all()


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("strategy", ["select", "cond", "compact"])
def test_every_episode_starts_in_the_level_of_its_lane(strategy, mode):
    env = AutoReset(ToGoal(num_envs=LANES), mode, strategy, block=2)
    at = jnp.arange(2, 2 + LANES)
    env = env.with_level(Goal(at, jnp.ones(LANES)))
    state, timestep = env.reset(KEY)
    ends = np.zeros(LANES, int)
    for _ in range(15):
        np.testing.assert_array_equal(timestep.observation[:, 0], at)
        state, timestep = jax.jit(env.step)(state, jnp.zeros(LANES, jnp.int32))
        ends += np.asarray(timestep.is_last())
    assert ends.min() >= 2
    assert ends[0] > ends[-1]


def test_seeds_under_vmap_have_levels_of_their_own():
    env = AutoReset(ToGoal(num_envs=LANES), reset_strategy="compact", block=2)
    levels = Goal(jnp.arange(2, 2 + 2 * LANES).reshape(2, LANES), jnp.ones((2, LANES)))

    @jax.jit
    def play(level, key):
        own = env.with_level(level)
        _, rows = jaxenv.unroll(own, lambda t, s: jnp.zeros(LANES, jnp.int32), *own.reset(key), 20)
        return rows.timestep.observation[..., 0], rows.timestep.is_last()

    seen, ends = jax.vmap(lambda level, key: play(level, key))(levels, jax.random.split(KEY, 2))
    np.testing.assert_array_equal(seen, np.broadcast_to(levels.at[:, None], seen.shape))
    assert (ends.sum(axis=1) >= 1).all()


def test_restarted_lanes_start_in_the_given_levels_and_the_others_go_on():
    env = ToGoal(num_envs=LANES)
    state, timestep = env.reset(KEY)
    mask = jnp.array([True, False, False, True, False])
    level = Goal(jnp.full(LANES, 20), jnp.full(LANES, 2.0))
    state, row = jaxenv.reset_where(env, state, timestep, mask, level=level)
    expected = np.where(mask, 20, timestep.observation[:, 0])
    np.testing.assert_array_equal(row.observation[:, 0], expected)


def test_an_episode_that_starts_in_a_state_is_a_new_one():
    """Its clock, time limit and stacked frames start afresh, and the place is that of the state."""
    env = FrameStack(TimeLimit(ToGoal(num_envs=LANES), 4), num=3)
    state, timestep = env.reset(KEY, level=Goal(jnp.full(LANES, 100), jnp.ones(LANES)))
    for _ in range(3):
        state, timestep = env.step(state, jnp.zeros(LANES, jnp.int32))
    later, row = env.reset(OTHER, from_state=state)
    np.testing.assert_array_equal(row.observation, np.tile(timestep.observation[:, -1:], (1, 3, 1)))
    assert env.clock(later).step.tolist() == env.clock(later).episode.tolist() == [0] * LANES
    ends = []
    for _ in range(4):
        later, row = env.step(later, jnp.zeros(LANES, jnp.int32))
        ends.append(row.truncated.all().item())
    assert ends == [False, False, False, True]


def test_a_state_brings_the_params_that_were_drawn():
    env = resampled()
    state, _ = env.reset(KEY)
    gravity = env.reset(OTHER, from_state=state)[1].env_info["params"]["gravity"]
    np.testing.assert_array_equal(gravity, state.own["gravity"])
    level = jaxenv.sample_level(env, KEY)
    with pytest.raises(ValueError, match=r"with_level: level\.params\.gravity must be finite, in lane 0 it is not"):
        env.with_level({**level, "params": {"gravity": np.full(LANES, np.inf, np.float32)}})


def test_given_levels_are_not_dropped_from_a_stack_as_data():
    env = jaxenv.make("CartPole-v1", num_envs=2)
    given = env.with_level(jaxenv.sample_level(env, KEY))
    with pytest.raises(ValueError, match=r"to_data: .* starts in given levels: store env without them, and the levels"):
        jaxenv.to_data(given)


def test_mutations_are_drawn_per_lane():
    env = ToGoal(num_envs=LANES)
    level = jaxenv.sample_level(env, KEY)
    mutated = jaxenv.mutate_level(env, level, OTHER)
    assert set((mutated.at - level.at).tolist()) == {1, 2}
    np.testing.assert_array_equal(mutated.speed, level.speed)
    cart = jaxenv.make("CartPole-v1", num_envs=2)
    level = jaxenv.sample_level(cart, KEY)
    with pytest.raises(ValueError, match="CartPole-v1 has no mutations: implement mutate_level"):
        jaxenv.mutate_level(cart, level, KEY)


@pytest.mark.parametrize(
    "use",
    [
        lambda env, level: jaxenv.mutate_level(env, level, KEY),
        lambda env, level: env.with_level(level),
        lambda env, level: env.reset(KEY, level=level),
    ],
)
def test_no_levels_at_all_are_refused(use):
    env = ToGoal(num_envs=LANES)
    level = jax.tree.map(lambda x: x[:0], jaxenv.sample_level(env, KEY))
    with pytest.raises(ValueError, match=r": level\.at .*got 0$"):
        use(env, level)


def test_mutations_keep_drawn_params_and_the_task_of_a_lane():
    class Fixed(ToGoal):
        params: Speed = Speed()

    env = ResampleParams(Fixed(num_envs=LANES), {"speed": (0.5, 1.0)})
    level = jaxenv.sample_level(env, KEY)
    mutated = jaxenv.mutate_level(env, level, OTHER)
    chex.assert_trees_all_equal(mutated["params"], level["params"])
    assert (mutated["level"].at > level["level"].at).all()
    env = STACKS["tasks"]()
    level = jaxenv.sample_level(env, KEY)
    mutated = jaxenv.mutate_level(env, level, OTHER)
    np.testing.assert_array_equal(mutated["task_id"], level["task_id"])
    edits = [(new.at - old.at).tolist() for new, old in zip(mutated["levels"], level["levels"], strict=True)]
    assert set(edits[0] + edits[1]) == {1, 2}
    assert edits[0] != edits[1]


def test_the_level_of_several_tasks_fixes_the_task():
    env = AutoReset(STACKS["tasks"]())
    level = jaxenv.sample_level(env, KEY)
    state, timestep = env.with_level(level).reset(OTHER)
    for _ in range(12):
        np.testing.assert_array_equal(timestep.env_info["task_id"], level["task_id"])
        state, timestep = env.with_level(level).step(state, jnp.zeros(LANES, jnp.int32))
    with pytest.raises(ValueError, match=r"level.task_id must be one of 2 tasks"):
        env.with_level({**level, "task_id": level["task_id"] + 2})
    for wrong in (0, 1):
        own = [dataclasses.replace(one, at=one.at * np.int32(i != wrong)) for i, one in enumerate(level["levels"])]
        with pytest.raises(ValueError, match=r"level.at must be at least 1"):
            env.with_level({**level, "levels": tuple(own)})


@pytest.mark.parametrize(
    ("mutation", "message"),
    [
        (lambda level: dataclasses.replace(level, at=level.at * 0), "level.at must be at least 1"),
        (lambda level: dataclasses.replace(level, at=level.speed), r"the result: level.at must be int32\[lanes\]"),
    ],
)
def test_wrong_mutations_are_refused(mutation, message):
    class Wrong(ToGoal):
        def mutate_level(self, level, stream):
            return mutation(level)

    env = Wrong(num_envs=LANES)
    level = jaxenv.sample_level(env, KEY)
    with pytest.raises(ValueError, match=message):
        jaxenv.mutate_level(env, level, KEY)


def test_sampled_levels_are_of_the_declared_class():
    class Wrong(ToGoal):
        def sample_level(self, stream):
            return {"at": jnp.ones(stream.shape, jnp.int32)}

    with pytest.raises(ValueError, match=r"Wrong.sample_level: must return a Goal, its Level, got a dict"):
        Wrong().reset(KEY)


def test_states_out_of_a_table_are_refused():
    env = jaxenv.make("FrozenLake-v1", num_envs=2)
    level = jaxenv.sample_level(jaxenv.make("FrozenLake8x8-v1", num_envs=2), KEY)
    with pytest.raises(ValueError, match=r"FrozenLake-v1: level.index .*, got 60"):
        env.with_level(dataclasses.replace(level, index=level.index + 60))


def test_levels_are_sampled_alike_inside_jit_and_for_a_part_of_the_lanes():
    env = AutoReset(ToGoal(num_envs=LANES))
    level = jaxenv.sample_level(env, KEY)
    chex.assert_trees_all_equal(level, jax.jit(lambda key: jaxenv.sample_level(env, key))(KEY))
    part = jaxenv.sample_level(env, KEY, env_id=jnp.array([1, 3]))
    chex.assert_trees_all_equal(part, jax.tree.map(lambda x: x[jnp.array([1, 3])], level))


def given(**changes):
    return dataclasses.replace(GOOD, **changes)


GOOD = Goal(np.full(LANES, 3, np.int32), np.ones(LANES, np.float32))


@pytest.mark.parametrize(
    ("level", "message"),
    [
        (3, "level must be a Goal, got an array"),
        (Track(GOOD, np.zeros(LANES)), "level must be a Goal, got a Track"),
        (given(at=np.ones(LANES, np.float32)), r"level.at must be int32\[lanes\], got float32\[5\]"),
        (given(at=np.ones((LANES, 2), np.int32)), r"level.at must be int32\[lanes\], got int32\[5, 2\]"),
        (given(at=np.ones(3, np.int32)), "level.speed must have 3 lanes, as the other arrays, got 5"),
        (jax.tree.map(lambda x: x[:3], GOOD), r"reset: level .* 5 lanes.* got 3"),
        (given(speed=np.array([1, 1, np.nan, 1, 1], np.float32)), "level.speed must be finite, in lane 2"),
        (given(at=np.array([1, 1, 0, 1, 1], np.int32)), "level.at must be at least 1, got"),
    ],
    ids=["number", "another class", "dtype", "shape", "uneven", "lanes", "nan", "refused by the task"],
)
def test_levels_that_do_not_fit_are_refused(level, message):
    env = AutoReset(ToGoal(num_envs=LANES))
    with pytest.raises(ValueError, match=message):
        env.reset(KEY, level=level)


@pytest.mark.parametrize("id", ["FrozenLake-v1", "AMaze-13x13-v0"])
def test_levels_and_a_layer_that_chooses_states_exclude_each_other(id):
    env = jaxenv.make(id, 2, wrappers=[("LevelReplay", {"of": "state"})])
    level = jaxenv.sample_level(env, jax.random.key(0))
    with pytest.raises(ValueError, match=r"LevelReplay: env must not start in levels .*leave out with_level"):
        env.with_level(level)


def test_level_and_state_exclude_each_other():
    env = ToGoal(num_envs=LANES)
    state, _ = env.reset(KEY)
    with pytest.raises(ValueError, match="reset: pass level or from_state, one of the two"):
        env.reset(KEY, level=GOOD, from_state=state)
    with pytest.raises(ValueError, match="reset: from_state: state must be"):
        AutoReset(env).reset(KEY, from_state=state)


def test_a_task_with_a_level_must_sample_it():
    class Unsampled(ToGoal):
        sample_level = jaxenv.Task.sample_level

    with pytest.raises(
        NotImplementedError, match=r"Unsampled: a task with a Level must implement sample_level\(stream\)"
    ):
        Unsampled().reset(KEY)


def test_a_task_with_a_level_must_start_in_it():
    with pytest.raises(TypeError, match=r"Deaf: initial .*\(self, stream, level\).* Goal .*got \(self, stream\)"):

        class Deaf(ToGoal):
            def initial(self, stream):
                return Track(self.sample_level(stream), jnp.zeros(stream.shape))


def test_levels_and_states_of_another_number_of_lanes_are_refused_by_the_call():
    env = AutoReset(ToGoal(num_envs=LANES))
    (state, timestep), every_lane = env.reset(KEY), jnp.ones(LANES, bool)
    fewer = AutoReset(ToGoal(num_envs=3)).reset(KEY)[0]
    with pytest.raises(ValueError, match=r"reset_where: level .* 5 lanes.* got 3"):
        jaxenv.reset_where(env, state, timestep, every_lane, level=jax.tree.map(lambda x: x[:3], GOOD))
    with pytest.raises(ValueError, match=r"reset_where: from_state .* 5 lanes.* got 3"):
        jaxenv.reset_where(env, state, timestep, every_lane, from_state=fewer)
    with pytest.raises(ValueError, match=r"reset: level .* 3 lanes.* got 5"):
        env.reset(jax.random.split(KEY, 3), jnp.arange(3), level=GOOD)
