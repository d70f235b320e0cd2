"""The registry: ids, specs, and the bare environments that a spec makes."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.core import registry
from jaxenv.testing import Chain, Counting
from jaxenv.wrappers import FrameStack, TimeLimit
from tests.toys import Double, find
from tests.toys import registered as registered

# --- ids -------------------------------------------------------------------------------------------------------------


def test_ids_are_sorted_and_include_classic_control():
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
def test_spec_returns_the_limit_and_the_threshold(id, limit, threshold):
    spec = jaxenv.spec(id)
    assert (spec.id, spec.max_episode_steps, spec.reward_threshold) == (id, limit, threshold)


@pytest.mark.parametrize("id", registry.ids())
def test_every_registered_environment_can_be_made_and_reset(id):
    env = jaxenv.make(id, num_envs=3)
    _, timestep = jax.eval_shape(env.reset, jax.random.key(0))
    assert timestep.step_type.shape == (3,)


@pytest.mark.parametrize(
    ("id", "first"), [("cartpole-v1", "CartPole-v1"), ("PENDULUM", "Pendulum-v1"), ("MountainCa-v0", "MountainCar-v0")]
)
@pytest.mark.parametrize("use", [jaxenv.spec, jaxenv.make, jaxenv.load])
def test_an_unknown_id_is_refused_with_the_closest_ones(use, id, first):
    with pytest.raises(ValueError, match=rf"no environment '{id}', did you mean '{first}'"):
        use(id)


@pytest.mark.parametrize("id", ["Unheard-v4", "Quux-v4", "x"])
def test_an_id_far_from_all_others_is_refused_with_a_pointer_to_the_list(id):
    every = r"`jaxenv list` and jaxenv\.ids\(\) list all ids; 'module:ID' imports"
    with pytest.raises(ValueError, match=f"no environment '{id}', {every}"):
        jaxenv.spec(id)


def test_an_id_cannot_be_registered_twice():
    with pytest.raises(ValueError, match=r"register: 'Chain-v0' is registered already.*Chain"):
        jaxenv.register("Chain-v0", Counting)
    with pytest.raises(ValueError, match=r"register: 'Chain-v0' is registered already.*Chain"):
        jaxenv.register("Chain-v0", lambda num_envs: Chain(num_envs=num_envs))


def test_a_class_that_is_defined_again_replaces_the_earlier_one():
    for limit in (5, 6):  # a cell of a notebook that runs twice

        class Cell(Chain):
            pass

        assert jaxenv.register("Cell-v0", Cell, max_episode_steps=limit).environment is Cell
    assert (jaxenv.spec("Cell-v0").environment, jaxenv.spec("Cell-v0").max_episode_steps) == (Cell, 6)
    del registry._registry["Cell-v0"]


def test_a_module_that_is_loaded_again_may_register_the_same_text():
    for limit in (5, 6):
        jaxenv.register("Text-v0", "jaxenv.testing:Chain", max_episode_steps=limit)
    assert jaxenv.spec("Text-v0").max_episode_steps == 6
    with pytest.raises(ValueError, match=r"'Text-v0' is registered already.* jaxenv\.testing:Chain"):
        jaxenv.register("Text-v0", "jaxenv.testing:Counting")
    del registry._registry["Text-v0"]


@pytest.mark.parametrize("id", [None, 4, Chain, Chain()])
@pytest.mark.parametrize("use", [jaxenv.spec, jaxenv.make, jaxenv.load])
def test_an_id_must_be_text(use, id):
    with pytest.raises(ValueError, match=r"id .*got .*jaxenv\.register gives"):
        use(id)


@pytest.mark.parametrize("entry_point", ["jaxenv.testing", ":Chain", None, Chain()])
def test_an_entry_point_must_be_callable_or_name_a_class(entry_point):
    with pytest.raises(ValueError, match=r"EnvSpec: entry_point .*got "):
        jaxenv.register("New-v0", entry_point)


@pytest.mark.parametrize(("entry_point", "got"), [(dict, "the class dict"), (FrameStack, "the wrapper FrameStack")])
def test_a_class_that_is_no_environment_of_its_own_is_refused(entry_point, got):
    with pytest.raises(ValueError, match=rf"EnvSpec: entry_point .*got {got}"):
        jaxenv.register("New-v0", entry_point)
    assert "New-v0" not in jaxenv.ids()


def test_a_function_without_num_envs_is_refused():
    jaxenv.register("New-v0", lambda: Chain())
    with pytest.raises(ValueError, match=r"New-v0: entry_point .*num_envs"):
        jaxenv.make("New-v0")


def test_keywords_that_are_no_dict_are_refused():
    with pytest.raises(ValueError, match=r"EnvSpec: kwargs .*got \[1\]"):
        jaxenv.register("New-v0", Chain, kwargs=[1])


def test_an_entry_point_without_its_module_is_refused():
    jaxenv.register("New-v0", "jaxenv.testing.nowhere:Chain")
    with pytest.raises(ValueError, match=r"New-v0: entry_point .*'jaxenv\.testing\.nowhere'"):
        jaxenv.make("New-v0")


def test_an_entry_point_without_its_class_is_refused():
    jaxenv.register("New-v0", "jaxenv.testing:Nothing")
    with pytest.raises(ValueError, match=r"New-v0: entry_point .*'Nothing'"):
        jaxenv.make("New-v0")


@pytest.mark.parametrize("id", ["suite:Chain-v0", ":", ""])
def test_an_id_with_a_colon_is_refused(id):
    with pytest.raises(ValueError, match=rf"id .*got '{id}'"):
        jaxenv.register(id, Chain)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_registered_limit_must_be_at_least_1(limit):
    with pytest.raises(ValueError, match=rf"EnvSpec: max_episode_steps .*got {limit}"):
        jaxenv.register("New-v0", Chain, max_episode_steps=limit)
    assert "New-v0" not in jaxenv.ids()


def test_register_returns_the_spec_and_copies_the_keywords():
    kwargs = {"length": 3}
    spec = jaxenv.register("New-v0", Chain, reward_threshold=1.0, kwargs=kwargs)
    kwargs["length"] = 9
    assert jaxenv.spec("New-v0") is spec
    assert spec.make().length == 3


# --- the bare environment --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry_point", [Chain, "jaxenv.testing.toys:Chain"])
def test_an_entry_point_may_be_a_class_or_an_import_path(entry_point):
    jaxenv.register("New-v0", entry_point)
    env = jaxenv.spec("New-v0").make(num_envs=2, length=9)
    assert isinstance(env, Chain)
    assert (env.num_envs, env.length, repr(env)) == (2, 9, "<New-v0>")


def test_gyms_name_of_the_limit_is_refused_with_the_word_of_this_library():
    spec = jaxenv.spec("MountainCar-v0")
    with pytest.raises(AttributeError, match=r"'timestep_limit': use jaxenv.spec\(id\).max_episode_steps$"):
        spec.timestep_limit
    with pytest.raises(ValueError, match=r"'timestep_limit', use jaxenv.make\(..., max_episode_steps=...\);"):
        jaxenv.make("MountainCar-v0", timestep_limit=5)
    assert copy.deepcopy(spec) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_a_limit_may_be_registered_as_the_end_of_the_task():
    jaxenv.register("New-v0", Chain, max_episode_steps=7, terminal_limit=True)
    assert find(jaxenv.make("New-v0"), TimeLimit).terminal


def test_an_entry_point_may_be_a_factory_function():
    env = jaxenv.spec("Counting-v0").make(num_envs=2, lengths=[5, 6])
    assert isinstance(env, Counting)
    assert env.lengths.tolist() == [5, 6]
    assert (env.num_envs, repr(env)) == (2, "<Counting-v0>")


def test_a_factory_may_return_a_stack_whose_environment_is_named_after_the_id():
    jaxenv.register("New-v0", lambda num_envs: Double(Chain(num_envs=num_envs)))
    env = jaxenv.spec("New-v0").make(3)
    assert (repr(env), env.name, env.num_envs) == ("<Double<New-v0>>", "New-v0", 3)


def test_keywords_of_the_call_replace_the_registered_ones():
    assert jaxenv.spec("Chain-v0").make().length == 4
    assert jaxenv.spec("Chain-v0").make(length=6).length == 6


def test_spec_refuses_the_id_of_a_suite_with_a_pointer_to_make():
    with pytest.raises(ValueError, match=r"no environment 'gymnax:Catch-bsuite' here: .* made by jaxenv\.make"):
        jaxenv.spec("gymnax:Catch-bsuite")


@pytest.mark.parametrize("num_envs", [0, -1, 2.5, True, "3"])
@pytest.mark.parametrize("use", [jaxenv.make, jaxenv.load, lambda id, n: jaxenv.spec(id).make(n)])
def test_num_envs_must_be_a_positive_integer(use, num_envs):
    with pytest.raises(ValueError, match=rf"Chain-v0: num_envs .*got {num_envs!r}"):
        use("Chain-v0", num_envs)


def test_num_envs_may_be_a_numpy_integer():
    assert type(jaxenv.make("Chain-v0", np.int64(3)).num_envs) is int


def test_an_unknown_keyword_is_refused_with_the_valid_ones():
    with pytest.raises(ValueError, match=r"Chain-v0: unknown keyword 'lenght'.*'length'"):
        jaxenv.make("Chain-v0", lenght=3)
    with pytest.raises(ValueError, match=r"unknown keyword 'gravitas'.*'gravity'.* params: gravity, "):
        jaxenv.spec("CartPole-v1").make(gravitas=3)
    with pytest.raises(ValueError, match="Scatter-v0: unknown keyword 'x'; it takes none"):
        jaxenv.spec("Scatter-v0").make(x=3)


@pytest.mark.parametrize(("made", "got"), [(lambda: Chain(5, num_envs=3), "one of 3"), (lambda: None, "None")])
def test_a_factory_must_return_as_many_lanes_as_are_asked_for(made, got):
    spec = jaxenv.EnvSpec("Other-v0", lambda num_envs: made())
    with pytest.raises(ValueError, match=rf"Other-v0: entry_point .*got {got}"):
        jaxenv.make(spec, 2)


def test_an_unknown_keyword_of_a_factory_is_refused_with_the_valid_ones():
    jaxenv.register("New-v0", lambda num_envs, length=3: Chain(length, num_envs=num_envs))
    with pytest.raises(ValueError, match=r"New-v0: unknown keyword 'lenght'.*'length'"):
        jaxenv.make("New-v0", lenght=3)


@pytest.mark.parametrize("values", [[9.8, 1.6], (9.8, 1.6), np.array([9.8, 1.6]), jnp.array([9.8, 1.6])])
def test_a_param_may_have_one_value_per_lane(values):
    gravity = jaxenv.make("CartPole-v1", 2, gravity=values).unwrapped.params.gravity
    assert (gravity.dtype, gravity.tolist()) == (np.float32, np.float32([9.8, 1.6]).tolist())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0, 3.0], r"params.gravity holds 3 lanes, the batch.* 2"),
        ("9.8", r"gravity .*got '9\.8'"),
    ],
)
def test_an_invalid_param_is_refused(value, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.make("CartPole-v1", 2, gravity=value)


@pytest.mark.parametrize(
    ("id", "hint"),
    [
        ("ant", "jaxenv.make takes 'brax:ant' or 'gymnasium:Ant-v4' or 'gymnasium:Ant-v5'$"),
        ("HalfCheetah-v4", "'brax:halfcheetah' or 'gymnasium:HalfCheetah-v4' or 'gymnasium:HalfCheetah-v5'$"),
        ("InvertedPendulum-v5", "brax:inverted_pendulum"),
        ("ALE/Pong-v5", "jaxenv.make takes 'envpool:Pong-v5'"),
        ("Snake-v1", "jaxenv.make takes 'jumanji:Snake-v1'$"),
        ("snak", r"did you mean 'jumanji:Snake-v1'\?$"),
        ("FrozenLake-misc", "jaxenv.make takes 'gymnax:FrozenLake-misc'"),
        ("MPE_simple_spread_v3", r"'jaxmarl:MPE_simple_spread_v3', or did you mean 'SimpleSpread-mpe'\?$"),
        ("connect_four", r"did you mean 'ConnectFour-v0'\?$"),  # the game itself, which pgx has as well
        ("runs/nothing", "find no folder of a run there$"),
        ("Unheard-v3", "`jaxenv list` and"),
    ],
)
def test_an_id_of_another_library_is_answered_with_its_suite(id, hint):
    with pytest.raises(ValueError, match=f"no environment '{id}', .*{hint}"):
        jaxenv.make(id)


def test_dm_control_and_a_seed_are_answered_with_what_takes_their_place():
    with pytest.raises(ValueError, match=r"'dm_control'.*playground:, or jaxenv.make\(function\)"):
        jaxenv.make("dm_control:cartpole")
    with pytest.raises(ValueError, match=r"unknown keyword 'seed', use env.reset\(jax.random.key\(seed\)\)"):
        jaxenv.make("CartPole-v1", seed=3)
