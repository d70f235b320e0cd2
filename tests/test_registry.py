"""Ids, and the one order in which `make` builds a stack."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import registry, specs, wrappers
from jaxenv.task import Task, Transition
from jaxenv.testing import Chain, Counting, mock_012
from jaxenv.wrapper import Wrapper, layers
from jaxenv.wrappers import (
    AutoReset,
    BatchWrapper,
    ClipAction,
    FixedResetKey,
    GuardNonFinite,
    LaneWrapper,
    RescaleAction,
    RewardWrapper,
    TimeLimit,
)


class Repeat(Wrapper):
    """Steps three times."""

    owns = frozenset({"reward"})
    multi_step = True

    def step(self, state, action):
        for _ in range(3):
            state, timestep = self.env.step(state, action)
        return state, timestep


class Endless(Wrapper):
    """Stands for a wrapper that removes ends."""

    removes_ends = True


class Remember(LaneWrapper):
    """Counts the rows of an episode."""

    def init(self, timestep, stream):
        return jnp.zeros_like(timestep.step_type)

    def after(self, own, timestep, stream):
        return own + 1, timestep


class Mean(BatchWrapper):
    """Subtracts the mean of all rewards so far from the observation's first element."""

    owns = frozenset({"observation"})

    def init(self, timestep):
        return {"total": jnp.float32(0), "rows": jnp.float32(0)}

    def after(self, shared, lanes, timestep, learn):
        rows = np.float32(timestep.step_type.shape[0])
        seen = {"total": shared["total"] + jnp.sum(timestep.reward), "rows": shared["rows"] + rows}
        return seen, lanes, timestep


class Double(RewardWrapper):
    def reward(self, reward):
        return 2 * reward


class PaysAndShows(RewardWrapper):
    owns = frozenset({"reward", "observation"})

    def reward(self, reward):
        return reward


class Scatter(Task):
    """Starts at a random place and moves at random: for what a fixed start does and does not fix."""

    def initial(self, stream):
        return jaxenv.random.uniform(stream)

    def transition(self, state, action, stream):
        return Transition(state + jaxenv.random.uniform(stream), state, jnp.zeros(stream.shape, bool))

    def observe(self, state):
        return state

    def observation_spec(self):
        return specs.Array((), np.float32)

    def action_spec(self):
        return specs.discrete(2)


def counting(lengths=(3,), **kwargs):
    """A factory: no class, so it takes whatever it takes."""
    return Counting(np.array(lengths), **kwargs)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Ids that exist in these tests only."""
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    jaxenv.register("Chain-v0", Chain, max_episode_steps=7, kwargs={"length": 4})
    jaxenv.register("Counting-v0", counting, max_episode_steps=50)
    jaxenv.register("Scatter-v0", Scatter, max_episode_steps=2)


def names(env):
    """Class names of a stack, outermost first."""
    return [type(layer).__name__ for layer in layers(env)]


def find(env, cls):
    return next((layer for layer in layers(env) if isinstance(layer, cls)), None)


def stepped(env, num_steps, key=None, action=None):
    """``num_steps`` steps with one action: the observations ``[T + 1, B]`` and the last state and row."""

    @jax.jit
    def run(env, key):
        def one(carry, _):
            state, timestep = env.step(carry[0], given)
            return (state, timestep), timestep.observation

        state, first = env.reset(key)
        given = specs.zeros(env.action_spec(), first.step_type.shape) if action is None else action
        last, rest = jax.lax.scan(one, (state, first), length=num_steps)
        return jnp.concatenate([first.observation[None], rest]), last

    return run(env, jax.random.key(0) if key is None else key)


# --- ids -------------------------------------------------------------------------------------------------------------


def test_ids_are_sorted_and_hold_the_classics():
    assert jaxenv.ids() == sorted(jaxenv.ids())
    assert {"CartPole-v1", "MountainCar-v0", "Pendulum-v1", "Chain-v0"} <= set(jaxenv.ids())


@pytest.mark.parametrize(
    ("id", "limit", "threshold"),
    [
        ("CartPole-v0", 200, 195.0),
        ("CartPole-v1", 500, 475.0),
        ("MountainCar-v0", 200, -110.0),
        ("MountainCarContinuous-v0", 999, 90.0),
        ("Pendulum-v1", 200, None),
        ("Acrobot-v1", 500, -100.0),
    ],
)
def test_spec_tells_the_limit_and_the_threshold(id, limit, threshold):
    spec = jaxenv.spec(id)
    assert (spec.id, spec.max_episode_steps, spec.reward_threshold) == (id, limit, threshold)


@pytest.mark.parametrize("id", registry.ids())
def test_every_registered_environment_makes_and_resets_abstractly(id):
    env = jaxenv.make(id, num_envs=3)
    _, timestep = jax.eval_shape(env.reset, jax.random.key(0))
    assert timestep.step_type.shape == (3,)


@pytest.mark.parametrize(
    ("id", "first"), [("cartpole-v1", "CartPole-v1"), ("PENDULUM", "Pendulum-v1"), ("MountainCa-v0", "MountainCar-v0")]
)
@pytest.mark.parametrize("use", [jaxenv.spec, jaxenv.make, jaxenv.load])
def test_an_unknown_id_is_answered_with_the_three_closest(use, id, first):
    with pytest.raises(ValueError, match=rf"no environment '{id}'; the closest ids are {first}, ") as error:
        use(id)
    assert all(name in jaxenv.ids() for name in str(error.value).split("closest ids are ")[1].split(", "))
    assert str(error.value).count(", ") == 2


def test_an_id_is_registered_once():
    with pytest.raises(ValueError, match=r"register: 'Chain-v0' is registered already, as .*Chain"):
        jaxenv.register("Chain-v0", Chain)


@pytest.mark.parametrize("id", ["suite:Chain-v0", ":", ""])
def test_an_id_holds_no_colon(id):
    with pytest.raises(ValueError, match=f"an id is a name without a colon, got '{id}'"):
        jaxenv.register(id, Chain)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_registered_limit_is_at_least_1(limit):
    with pytest.raises(ValueError, match=f"max_episode_steps must be at least 1 or None, got {limit}"):
        jaxenv.register("New-v0", Chain, max_episode_steps=limit)
    assert "New-v0" not in jaxenv.ids()


def test_register_returns_what_spec_returns_and_keeps_a_copy_of_the_keywords():
    kwargs = {"length": 3}
    spec = jaxenv.register("New-v0", Chain, reward_threshold=1.0, kwargs=kwargs)
    kwargs["length"] = 9
    assert jaxenv.spec("New-v0") is spec
    assert spec.make().length == 3


# --- the bare environment --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry_point", [Chain, "jaxenv.testing.toys:Chain"])
def test_an_entry_point_is_a_class_or_where_to_import_it(entry_point):
    jaxenv.register("New-v0", entry_point)
    env = jaxenv.spec("New-v0").make(num_envs=2, length=9)
    assert isinstance(env, Chain)
    assert (env.num_envs, env.length, repr(env)) == (2, 9, "<New-v0>")


def test_a_limit_may_be_registered_as_the_end_of_the_task():
    jaxenv.register("New-v0", Chain, max_episode_steps=7, terminal_limit=True)
    assert find(jaxenv.make("New-v0"), TimeLimit).terminal


def test_an_entry_point_may_be_a_factory_function():
    env = jaxenv.spec("Counting-v0").make(num_envs=2, lengths=[5, 6])
    assert isinstance(env, Counting)
    assert env.lengths.tolist() == [5, 6]
    assert (env.num_envs, repr(env)) == (2, "<Counting-v0>")


def test_a_factory_may_return_a_stack_whose_environment_gets_the_name():
    jaxenv.register("New-v0", lambda num_envs: Double(Chain(num_envs=num_envs)))
    env = jaxenv.spec("New-v0").make(3)
    assert (repr(env), env.name, env.num_envs) == ("<Double<New-v0>>", "New-v0", 3)


def test_keywords_of_the_call_replace_the_registered_ones():
    assert jaxenv.spec("Chain-v0").make().length == 4
    assert jaxenv.spec("Chain-v0").make(length=6).length == 6


@pytest.mark.parametrize("use", [jaxenv.spec, jaxenv.make])
def test_for_an_id_of_a_suite_it_names_load(use):
    with pytest.raises(ValueError, match=r"no environment 'gymnax:Catch-bsuite' here: .* made by jaxenv\.load"):
        use("gymnax:Catch-bsuite")


@pytest.mark.parametrize("num_envs", [0, -1, 2.5, True, "3", None])
@pytest.mark.parametrize("use", [jaxenv.make, jaxenv.load, lambda id, n: jaxenv.spec(id).make(n)])
def test_num_envs_is_an_integer_of_at_least_1(use, num_envs):
    with pytest.raises(ValueError, match=f"Chain-v0: num_envs must be an integer of at least 1, got {num_envs!r}"):
        use("Chain-v0", num_envs)


def test_num_envs_may_be_a_numpy_integer():
    assert type(jaxenv.make("Chain-v0", np.int64(3)).num_envs) is int


def test_an_unknown_keyword_is_answered_with_the_valid_ones():
    with pytest.raises(ValueError, match="Chain-v0: unknown keyword 'lenght', the valid ones are length"):
        jaxenv.make("Chain-v0", lenght=3)
    with pytest.raises(ValueError, match=r"unknown keyword 'gravitas', the valid ones are .*gravity"):
        jaxenv.make("CartPole-v1", gravitas=3)
    with pytest.raises(ValueError, match=r"Scatter-v0: unknown keyword 'x', the valid ones are \(none\)"):
        jaxenv.make("Scatter-v0", x=3)


@pytest.mark.parametrize("values", [[9.8, 1.6], (9.8, 1.6), np.array([9.8, 1.6]), jnp.array([9.8, 1.6])])
def test_a_param_may_have_one_value_per_lane(values):
    gravity = jaxenv.make("CartPole-v1", 2, gravity=values).unwrapped.params.gravity
    assert (gravity.dtype, gravity.tolist()) == (np.float32, np.float32([9.8, 1.6]).tolist())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0, 3.0], "gravity has 3 values, one per lane would be num_envs = 2"),
        ("9.8", "gravity must be a number"),
    ],
)
def test_a_param_that_does_not_fit_is_refused(value, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.make("CartPole-v1", 2, gravity=value)


# --- the time limit --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "duration"), [(None, 200), (50, 50), ([3, 4], [3, 4]), (np.array([3, 4]), [3, 4])])
def test_max_episode_steps_is_the_registered_one_or_the_given(given, duration):
    limit = find(jaxenv.make("MountainCar-v0", 2, max_episode_steps=given), TimeLimit)
    assert limit.duration.tolist() == duration


@pytest.mark.parametrize("id", ["MountainCar-v0", "CardGame-v0"])
def test_0_steps_mean_no_limit(id):
    assert find(jaxenv.make(id, max_episode_steps=0), TimeLimit) is None


def test_an_environment_without_a_registered_limit_has_none():
    assert find(jaxenv.make("CardGame-v0"), TimeLimit) is None
    assert find(jaxenv.make("CardGame-v0", max_episode_steps=3), TimeLimit).duration == 3


@pytest.mark.parametrize("given", [-1, 2.5, True, [0, 5], "x"])
def test_a_limit_below_1_or_of_no_integer_is_refused(given):
    with pytest.raises(ValueError, match=r"TimeLimit.*: duration"):
        jaxenv.make("MountainCar-v0", 2, max_episode_steps=given)


def test_lanes_end_at_limits_of_their_own():
    env = jaxenv.make("MountainCar-v0", 2, max_episode_steps=[1, 2], autoreset=None)
    _, (_, timestep) = stepped(env, 1)
    assert timestep.truncated.tolist() == [True, False]


def test_limits_of_another_number_of_lanes_are_refused():
    with pytest.raises(ValueError, match="duration holds 3 lanes, the batch has 2"):
        jaxenv.make("MountainCar-v0", 2, max_episode_steps=[1, 2, 3])


@pytest.mark.parametrize(
    ("limit", "fault"), [([0, 5], "must be at least 1"), ("ten", "must be a number"), (-1, "least 1")]
)
def test_a_wrong_limit_is_named_as_the_caller_wrote_it(limit, fault):
    with pytest.raises(ValueError, match=f"^make: max_episode_steps: .*{fault}"):
        jaxenv.make("MountainCar-v0", 2, max_episode_steps=limit)


def test_evaluation_keeps_what_a_callable_did_to_the_environment():
    lighter = [lambda env: env.with_params(gravity=1.6)]
    for mode in ("train", "eval"):
        assert jaxenv.make("CartPole-v1", wrappers=lighter, mode=mode).unwrapped.params.gravity == np.float32(1.6)


def test_a_fixed_reset_key_stands_around_the_environment_itself():
    with pytest.raises(ValueError, match="put it around the environment itself, not around <Remember"):
        jaxenv.wrappers.FixedResetKey(Remember(jaxenv.spec("CartPole-v1").make()), jax.random.key(0))


# --- the order of a stack --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrappers", "expected"),
    [
        ([], "AutoReset TimeLimit Chain"),
        ([Double], "AutoReset Double TimeLimit Chain"),
        ([Remember], "AutoReset Remember TimeLimit Chain"),
        ([Repeat], "AutoReset TimeLimit Repeat Chain"),
        ([Endless], "AutoReset TimeLimit Endless Chain"),
        ([Double, Repeat, Remember], "AutoReset Remember TimeLimit Repeat Double Chain"),
        ([Repeat, Endless, Double], "AutoReset Double TimeLimit Endless Repeat Chain"),
        ([Mean], "Mean AutoReset TimeLimit Chain"),
        ([Mean, Double], "Double Mean AutoReset TimeLimit Chain"),
        ([Repeat, Remember, Mean], "Mean AutoReset Remember TimeLimit Repeat Chain"),
        ([Repeat, Mean, Mean, Double], "Double Mean Mean AutoReset TimeLimit Repeat Chain"),
        ([lambda env: Double(Repeat(env))], "AutoReset TimeLimit Double Repeat Chain"),
        ([lambda env: env], "AutoReset TimeLimit Chain"),
    ],
)
def test_make_puts_the_limit_and_the_restarts_where_they_belong(wrappers, expected):
    assert names(jaxenv.make("Chain-v0", wrappers=wrappers)) == expected.split()


@pytest.mark.parametrize(
    ("wrappers", "inside", "outside"),
    [([Mean, Repeat], "Repeat", "Mean"), ([Double, Mean, Double, Endless], "Endless", "Mean")],
)
def test_an_order_that_cannot_be_is_refused_by_what_to_swap(wrappers, inside, outside):
    with pytest.raises(ValueError, match="in wrappers") as error:
        jaxenv.make("Chain-v0", wrappers=wrappers)
    assert str(error.value) == (
        f"make: {inside} must stand inside AutoReset, and {outside} outside it: "
        f"put {inside} before {outside} in wrappers"
    )


def test_an_order_inside_one_callable_is_judged_too():
    with pytest.raises(ValueError, match="put Repeat before Mean"):
        jaxenv.make("Chain-v0", wrappers=[lambda env: Repeat(Mean(env))])


def test_autoreset_is_no_wrapper_to_pass():
    with pytest.raises(ValueError, match="AutoReset is made by make itself, choose it with autoreset="):
        jaxenv.make("Chain-v0", wrappers=[AutoReset])


@pytest.mark.parametrize("autoreset", ["next_step", "same_step", None])
def test_autoreset_is_the_mode_of_the_stack(autoreset):
    env = jaxenv.make("Chain-v0", autoreset=autoreset, wrappers=[Mean])
    assert env.autoreset == autoreset
    assert names(env) == ["Mean", *(["AutoReset"] if autoreset else []), "TimeLimit", "Chain"]


@pytest.mark.parametrize("reset", ["select", "cond", "compact", None])
def test_reset_is_the_strategy_of_autoreset(reset):
    assert jaxenv.make("Chain-v0", reset=reset).strategy == reset


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"mode": "test"}, "make: mode must be 'train' or 'eval', got 'test'"),
        ({"autoreset": "never"}, "make: autoreset must be 'next_step', 'same_step' or None, got 'never'"),
        ({"reset": "fast"}, "reset must be 'select', 'cond', 'compact' or None, got 'fast'"),
    ],
)
def test_unknown_modes_are_answered_with_the_known_ones(kwargs, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.make("Chain-v0", **kwargs)


def test_the_limit_counts_the_steps_of_the_agent():
    env = jaxenv.make("Counting-v0", wrappers=[Repeat], max_episode_steps=2, lengths=[0], autoreset=None)
    observations, (_, timestep) = stepped(env, 2)
    assert observations[:, 0].tolist() == [0, 3, 6]
    assert timestep.truncated.tolist() == [True]


def test_a_wrapper_may_be_given_by_name():
    env = jaxenv.make("Pendulum-v1", wrappers=[("RescaleAction", {"minimum": 0, "maximum": 1})])
    assert names(env) == ["AutoReset", "RescaleAction", "TimeLimit", "ClipAction", "GuardNonFinite", "Pendulum"]
    assert env.action_spec() == specs.Bounded((1,), np.float32, 0, 1)


@pytest.mark.parametrize("name", ["Rescale", "specs", "base"])
def test_an_unknown_wrapper_is_answered_with_the_known_ones(name):
    with pytest.raises(ValueError, match=f"make: no wrapper '{name}', the wrappers are .*ClipAction.*RescaleAction"):
        jaxenv.make("Chain-v0", wrappers=[(name, {})])


@pytest.mark.parametrize(
    ("id", "clip", "expected"),
    [
        ("Pendulum-v1", True, "AutoReset TimeLimit ClipAction GuardNonFinite Pendulum"),
        ("Pendulum-v1", False, "AutoReset TimeLimit GuardNonFinite Pendulum"),
        ("CartPole-v1", True, "AutoReset TimeLimit CartPole"),
    ],
)
def test_continuous_actions_are_clipped_and_guarded(id, clip, expected):
    assert names(jaxenv.make(id, clip_action=clip)) == expected.split()


def test_actions_without_finite_bounds_are_guarded_and_not_clipped():
    class Open(Scatter):
        def action_spec(self):
            return specs.Bounded((), np.float32, 0, np.inf)

    jaxenv.register("Open-v0", Open)
    env = jaxenv.make("Open-v0")
    assert find(env, GuardNonFinite)
    assert not find(env, ClipAction)


def test_an_environment_that_can_diverge_is_guarded_whatever_its_actions():
    class Wild(Scatter):
        can_diverge = True

    jaxenv.register("Wild-v0", Wild)
    assert names(jaxenv.make("Wild-v0")) == ["AutoReset", "GuardNonFinite", "Wild"]


def test_what_make_returns_is_one_environment_of_named_lanes():
    env = jaxenv.make("CartPole-v1", num_envs=3)
    assert (env.num_envs, env.batch_size, env.name, env.batched) == (3, 3, "CartPole-v1", True)


# --- evaluation ------------------------------------------------------------------------------------------------------


def test_evaluation_leaves_out_wrappers_that_own_only_the_reward():
    env = jaxenv.make("Chain-v0", wrappers=[Double, Remember, PaysAndShows], mode="eval")
    assert names(env) == ["AutoReset", "PaysAndShows", "Remember", "TimeLimit", "Chain"]


def test_evaluation_looks_inside_callables_that_make_several_wrappers():
    env = jaxenv.make("Chain-v0", wrappers=[lambda env: Remember(Double(Repeat(env)))], mode="eval")
    assert names(env) == ["AutoReset", "TimeLimit", "Remember", "Repeat", "Chain"]


@pytest.mark.parametrize(("mode", "rows"), [("train", 8), ("eval", 0)])
def test_evaluation_freezes_wrappers_with_batch_state(mode, rows):
    env = jaxenv.make("Counting-v0", 2, wrappers=[Mean], mode=mode)
    assert env.frozen is (mode == "eval")
    _, (state, _) = stepped(env, 3)
    assert state.shared.value["rows"] == rows


def test_evaluation_keeps_the_arguments_of_wrappers():
    env = jaxenv.make("Pendulum-v1", wrappers=[("RescaleAction", {"minimum": 0, "maximum": 1})], mode="eval")
    assert env.action_spec() == specs.Bounded((1,), np.float32, 0, 1)


# --- a fixed start ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key_shape", [(), (3,)])
@pytest.mark.parametrize("reset", ["select", "cond", "compact"])
def test_a_fixed_reset_key_starts_every_episode_of_a_lane_alike(key_shape, reset):
    fixed = jax.random.key(7) if key_shape == () else jax.random.split(jax.random.key(7), key_shape)
    env = jaxenv.make("Scatter-v0", 3, fixed_reset_key=fixed, reset=reset)
    observations, _ = stepped(env, 6)  # FIRST, MID, LAST, FIRST, ...
    assert names(env) == ["AutoReset", "TimeLimit", "FixedResetKey", "Scatter"]
    starts = observations[::3]
    assert (starts == starts[:1]).all()
    assert len(set(starts[0].tolist())) == 3
    steps = np.concatenate([np.diff(observations[i : i + 3], axis=0) for i in (0, 3)])
    assert len(set(steps.ravel().tolist())) == steps.size
    others, _ = stepped(env, 6, key=jax.random.key(1))
    assert (others[0] == starts[0]).all()
    assert (others[1] != observations[1]).all()


def test_without_a_fixed_reset_key_episodes_start_anywhere():
    observations, _ = stepped(jaxenv.make("Scatter-v0", 3), 3)
    assert (observations[0] != observations[3]).all()


@pytest.mark.parametrize("key", [0, np.zeros(2, np.uint32)])
def test_a_fixed_reset_key_is_a_typed_key(key):
    with pytest.raises(ValueError, match=r"key must be a typed key from jax\.random\.key"):
        jaxenv.make("Scatter-v0", fixed_reset_key=key)


def test_a_fixed_reset_key_is_kept_where_it_is_asked_for():
    assert find(jaxenv.make("Scatter-v0"), FixedResetKey) is None


# --- load ------------------------------------------------------------------------------------------------------------


def test_load_without_a_prefix_is_make():
    assert jaxenv.load.batched is True
    env = jaxenv.load("MountainCar-v0", num_envs=2, max_episode_steps=5, wrappers=[Double])
    assert env.describe() == jaxenv.make("MountainCar-v0", 2, max_episode_steps=5, wrappers=[Double]).describe()


@pytest.mark.parametrize("id", ["nosuite:Chain-v0", "nosuite:module:Chain-v0", ":Chain-v0"])
def test_load_names_a_suite_that_it_does_not_know(id):
    with pytest.raises(ValueError, match=rf"load: no suite '{id.split(':')[0]}' \(known: .*\)"):
        jaxenv.load(id)


def test_load_asks_the_suite_that_the_prefix_names(monkeypatch):
    asked = []

    class Suite:
        @staticmethod
        def load(name, num_envs, **kwargs):
            asked.append((name, num_envs, kwargs))
            return "environment"

    monkeypatch.setattr(registry, "_SUITES", {"toys": "toys_module"})
    real = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", lambda n: Suite if n == "toys_module" else real(n))
    assert jaxenv.load("toys:module:Name-v0", 4, speed=2) == "environment"
    assert asked == [("module:Name-v0", 4, {"speed": 2})]


def test_make_takes_what_is_not_registered_and_a_limit_may_be_the_end_of_the_task():
    env = jaxenv.make(registry.EnvSpec("Other-v0", Chain, max_episode_steps=7, terminal_limit=True))
    assert repr(env.unwrapped) == "<Other-v0>"
    assert (find(env, TimeLimit).duration, find(env, TimeLimit).terminal) == (7, True)
    assert not find(jaxenv.make("Chain-v0"), TimeLimit).terminal
    assert "Other-v0" not in jaxenv.ids()


# --- what a stack says of itself -------------------------------------------------------------------------------------


def test_describe_shows_the_levels_the_lanes_and_the_specs():
    # Bytes. Clock: two key words, lane, episode, step. Chain: its cell. AutoReset: a flag.
    assert jaxenv.make("Chain-v0", 2, max_episode_steps=[1, 2], wrappers=[Double]).describe().splitlines() == [
        "AutoReset(mode=next_step, strategy=None, block=64)  +1 B",
        "Double",
        "TimeLimit(duration=<per lane>, terminal=False)",
        "Chain-v0(length=4)                                  +24 B, observation int32[], action int32[]",
        "lanes 2, autoreset next_step, 25 bytes of state a lane",
        "observation Bounded((), int32, 0, 3, name='observation')",
        "action Bounded((), int32, 0, 1, name='action')",
    ]


def test_describe_tells_where_spaces_change_and_what_all_lanes_share():
    env = wrappers.NormalizeObservation(AutoReset(RescaleAction(jaxenv.spec("Pendulum-v1").make(num_envs=2), 0, 1)))
    outermost, *_, bottom, lanes, _, _ = env.describe().splitlines()
    assert outermost.endswith(" B shared")
    assert bottom.endswith("+28 B, observation float32[3], action float32[1]")
    assert lanes.startswith("lanes 2, autoreset next_step, 29 bytes of state a lane and ")
    filtered = wrappers.FrameStack(jaxenv.spec("Pendulum-v1").make(), 4).describe()
    assert "observation float32[4, 3]" in filtered.splitlines()[0]


def test_repr_nests_as_the_wrappers_do():
    base = jaxenv.spec("Pendulum-v1").make()
    env = AutoReset(RescaleAction(TimeLimit(base, 200), 0, 1))
    assert repr(env) == "<AutoReset<RescaleAction<TimeLimit<Pendulum-v1>>>>"
    assert repr(env.env) == "<RescaleAction<TimeLimit<Pendulum-v1>>>"
    assert env.env.env.env is base
    assert env.unwrapped is base
    assert base.unwrapped is base
    assert env.action_spec() == specs.Bounded((1,), np.float32, 0, 1)


def test_rescaled_actions_reach_the_environment_in_its_own_range():
    env = RescaleAction(jaxenv.spec("Pendulum-v1").make(num_envs=3), 0, 1)
    assert env.action(np.array([[0.0], [0.5], [1.0]], np.float32)).tolist() == [[-2], [0], [2]]


def test_an_unnamed_environment_shows_its_class():
    assert repr(TimeLimit(mock_012(), 3)) == "<TimeLimit<Counting>>"
