"""The stack that ``make`` builds: the order of wrappers, modes, and guards."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.wrappers import AutoReset, ClipAction, GuardNonFinite
from tests.toys import Double, Endless, Mean, Remember, Repeat, Scatter, find, names, stepped
from tests.toys import registered as registered


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
        ([lambda env: Double(Repeat(env))], "AutoReset Double TimeLimit Repeat Chain"),
        ([lambda env: env], "AutoReset TimeLimit Chain"),
    ],
)
def test_time_limit_and_autoreset_are_inserted_at_their_places(wrappers, expected):
    assert names(jaxenv.make("Chain-v0", wrappers=wrappers)) == expected.split()


@pytest.mark.parametrize(
    ("wrappers", "inside", "outside"),
    [([Mean, Repeat], "Repeat", "Mean"), ([Double, Mean, Double, Endless], "Endless", "Mean")],
)
def test_an_invalid_order_is_refused_with_the_wrappers_to_swap(wrappers, inside, outside):
    with pytest.raises(ValueError, match=rf"^make: .*AutoReset.* put {inside} before {outside} in wrappers$"):
        jaxenv.make("Chain-v0", wrappers=wrappers)


@pytest.mark.parametrize("sees", ["EpisodeStatistics", ("DelayReward", {"num": 100}), "EvalReturn", "RunStats"])
@pytest.mark.parametrize(
    "moves", [Repeat, ("NoopReset", {"maximum": 3}), ("TerminateOn", {"fn": lambda row: row.reward > 0})]
)
def test_a_wrapper_that_acts_at_ends_stands_outside_those_that_move_them(sees, moves):
    with pytest.raises(ValueError, match=r"must see where.* before .* in wrappers"):
        jaxenv.make("Chain-v0", wrappers=[sees, moves])
    env = jaxenv.make("Chain-v0", wrappers=[moves, Double, sees])
    assert names(env)[1] == (sees if isinstance(sees, str) else sees[0])


def test_an_invalid_order_inside_a_callable_is_refused():
    with pytest.raises(ValueError, match="put Repeat before Mean"):
        jaxenv.make("Chain-v0", wrappers=[lambda env: Repeat(Mean(env))])


def test_autoreset_in_wrappers_is_refused():
    with pytest.raises(ValueError, match=r"AutoReset is added by.* autoreset="):
        jaxenv.make("Chain-v0", wrappers=[AutoReset])


@pytest.mark.parametrize("autoreset", ["next_step", "same_step", None])
def test_the_autoreset_argument_sets_the_mode_of_the_stack(autoreset):
    env = jaxenv.make("Chain-v0", autoreset=autoreset, wrappers=[Mean])
    assert env.autoreset == autoreset
    assert names(env) == ["Mean", *(["AutoReset"] if autoreset else []), "TimeLimit", "Chain"]


@pytest.mark.parametrize("strategy", ["select", "cond", "compact", {"cpu": "cond", "default": "compact"}])
def test_the_restart_strategy_has_one_name_in_make_in_autoreset_and_on_the_stack(strategy):
    env = jaxenv.make("Chain-v0", reset_strategy=strategy, wrappers=[Mean])
    assert find(env, AutoReset).reset_strategy == env.reset_strategy == strategy


def test_the_restart_strategy_is_the_declared_one_by_default():
    assert jaxenv.make("Chain-v0").reset_strategy == "select"
    env = jaxenv.make("CardGame-v0")
    assert env.reset_strategy == {"cpu": "cond", "default": "select"}
    assert hash(jax.tree.structure(env)) == hash(jax.tree.structure(jaxenv.make("CardGame-v0")))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"mode": "test"}, r"make: mode .*got 'test'"),
        ({"autoreset": "never"}, r"make: autoreset .*got 'never'"),
        ({"reset_strategy": {"cpu": "cond"}}, r"make: reset_strategy per platform .*got {'cpu'"),
        ({"reset_strategy": {"default": "fast"}}, r"make: reset_strategy of 'default' .*got 'fast'"),
        ({"reset_strategy": "fast"}, r"reset_strategy .*got 'fast'"),
    ],
)
def test_unknown_modes_are_refused_with_the_known_ones(kwargs, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.make("Chain-v0", **kwargs)


def test_the_time_limit_counts_steps_of_the_agent():
    env = jaxenv.make("Counting-v0", wrappers=[Repeat], max_episode_steps=2, lengths=[0], autoreset=None)
    observations, (_, timestep) = stepped(env, 2)
    assert observations[:, 0].tolist() == [0, 3, 6]
    assert timestep.truncated.tolist() == [True]


def test_a_wrapper_may_be_given_by_name():
    env = jaxenv.make("Pendulum-v1", wrappers=[("RescaleAction", {"minimum": 0, "maximum": 1})])
    assert names(env) == ["AutoReset", "RescaleAction", "TimeLimit", "ClipAction", "GuardNonFinite", "Pendulum"]
    assert env.action_spec() == specs.Bounded((1,), np.float32, 0, 1)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Rescale", "did you mean 'RescaleAction'"),
        ("frame_stack", "did you mean 'FrameStack'"),
        ("specs", "jaxenv.wrappers has the names;"),
    ],
)
def test_an_unknown_wrapper_is_refused_with_the_closest_ones(name, hint):
    with pytest.raises(ValueError, match=f"no wrapper '{name}', {hint}.* of your own is passed as its class"):
        jaxenv.make("Chain-v0", wrappers=[(name, {})])


@pytest.mark.parametrize("name", ["Wrapper", "LaneWrapper", "ObservationWrapper", "LeafObservationWrapper"])
def test_a_base_of_wrappers_is_refused_and_never_suggested(name):
    with pytest.raises(ValueError, match=f"{name} is a base to subclass"):
        jaxenv.make("Chain-v0", wrappers=[(name, {})])
    with pytest.raises(ValueError, match=f"no wrapper '{name}s'") as error:
        jaxenv.make("Chain-v0", wrappers=[f"{name}s"])
    assert f"{name!r}" not in str(error.value)


def test_one_name_in_place_of_a_sequence_of_wrappers_is_refused():
    with pytest.raises(ValueError, match=r"make: wrappers .*got 'ClipAction'"):
        jaxenv.make("Pendulum-v1", wrappers="ClipAction")


def test_a_wrapper_may_be_named_or_given_as_a_class_with_its_arguments():
    for wrapper in ("FrameStack", jaxenv.wrappers.FrameStack):
        env = jaxenv.make("Pendulum-v1", wrappers=[(wrapper, {"num": 2})])
        assert env.observation_spec().shape == (2, 3)
        with pytest.raises(ValueError, match=r"make: wrappers\[0\]: the arguments of FrameStack .*got 2"):
            jaxenv.make("Pendulum-v1", wrappers=[(wrapper, 2)])


def test_what_is_no_wrapper_is_refused_with_the_accepted_forms():
    rule = r"must be a wrapper class, a name, one of them with its arguments as a dict, or a function, got"
    with pytest.raises(ValueError, match=rf"make: wrappers\[0\] {rule} \('FrameStack', 'num', 2\)"):
        jaxenv.make("Pendulum-v1", wrappers=[("FrameStack", "num", 2)])
    with pytest.raises(ValueError, match=r"FrameStack: unknown keyword 'number'"):
        jaxenv.make("Pendulum-v1", wrappers=[("FrameStack", {"number": 2})])


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


def test_an_environment_that_can_diverge_is_guarded_even_with_discrete_actions():
    class Wild(Scatter):
        can_diverge = True

    jaxenv.register("Wild-v0", Wild)
    assert names(jaxenv.make("Wild-v0")) == ["AutoReset", "GuardNonFinite", "Wild"]


def test_make_returns_a_named_environment_with_num_envs_lanes():
    env = jaxenv.make("CartPole-v1", num_envs=3)
    assert (env.num_envs, env.name, env.batched) == (3, "CartPole-v1", True)
