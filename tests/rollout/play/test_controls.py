"""Which key chooses which action: names of actions, arrows, digits, and what keys cannot choose."""

import numpy as np
import pytest

import jaxenv
from jaxenv.rollout.play._game import action_names, controls
from jaxenv.specs import Bounded


def keys_of(env):
    return {control.name: control.keys for control in controls(env)}


@pytest.mark.parametrize("id", jaxenv.ids())
def test_named_actions_are_as_many_as_there_are(id):
    env = jaxenv.make(id)
    spec, names = env.action_spec(), action_names(env)
    if names:
        assert len(names) == (spec.num_values if spec.is_discrete else np.prod(spec.shape))
        assert len(set(names)) == len(names)


# Actions of two parts, of three or four numbers, and more actions than keys.
UNPLAYED = ("MixedPolicyUnittest-v0", "CarRacing-v3", "BipedalWalker-v3", "BipedalWalkerHardcore-v3")
UNPLAYED += ("Othello-v0", "Hex-11x11-v0", "Go-9x9-v0")
UNPLAYED += tuple(id for id in jaxenv.ids() if id.startswith(("Battleship", "Concentration", "MineSweeper")))
AT_ONCE = [id for id in jaxenv.ids() if (env := jaxenv.make(id)).num_agents > 1 and not env.turns]


@pytest.mark.parametrize("id", AT_ONCE)
def test_a_person_plays_one_agent(id):
    with pytest.raises(ValueError, match=rf"^play: .*one agent, {id} has [234] "):
        controls(jaxenv.make(id))


@pytest.mark.parametrize("id", [id for id in jaxenv.ids() if id not in (*UNPLAYED, *AT_ONCE)])
def test_no_key_has_two_meanings(id):
    keys = [key for control in controls(jaxenv.make(id)) for key in control.keys]
    assert len(set(keys)) == len(keys) > 1
    assert not {"q", "r"} & set(keys)


def test_directions_are_arrows_and_letters_and_digits():
    assert keys_of(jaxenv.make("FrozenLake-v1")) == {
        "left": ("left", "a", "0"),
        "down": ("down", "s", "1"),
        "right": ("right", "d", "2"),
        "up": ("up", "w", "3"),
    }
    assert keys_of(jaxenv.make("Taxi-v4"))["north"] == ("up", "w", "1")


def test_the_space_bar_is_the_action_that_does_nothing():
    assert keys_of(jaxenv.make("MountainCar-v0"))["coast"] == ("space", ".", "1")
    assert "space" not in sum(keys_of(jaxenv.make("CartPole-v1")).values(), ())


def test_unique_initials_that_are_free_are_keys():
    assert keys_of(jaxenv.make("Blackjack-v1")) == {"stick": ("s", "0"), "hit": ("h", "1")}
    assert keys_of(jaxenv.make("MiniGrid-Empty-5x5-v0"))["drop"] == ("4",)  # d is a direction
    assert keys_of(jaxenv.make("MemoryChain-bsuite"))["bit 1"] == ("1",)  # b would be both


def test_actions_without_names_are_digits_and_then_letters():
    assert keys_of(jaxenv.make("SimpleBandit-bsuite"))["9"] == ("9",)
    assert keys_of(jaxenv.make("SimpleBandit-bsuite"))["10"] == ("a",)


def test_a_discrete_action_that_starts_at_one_keeps_its_numbers(monkeypatch):
    env = jaxenv.make("CardGame-v0")
    monkeypatch.setattr(type(env), "action_spec", lambda self: Bounded((), np.int32, 1, 3))
    assert [control.action.tolist() for control in controls(env)] == [1, 2, 3]


def test_keys_push_continuous_actions_to_their_ends():
    actions = {control.keys[0]: control.action.tolist() for control in controls(jaxenv.make("Pendulum-v1"))}
    assert actions == {"left": [-2.0], "right": [2.0], "space": [0.0]}
    swim = {control.keys[0]: control.action.tolist() for control in controls(jaxenv.make("Swimmer-misc"))}
    assert swim == {"left": [-1, 0], "right": [1, 0], "down": [0, -1], "up": [0, 1], "space": [0, 0]}


def test_a_wrapper_that_changes_the_action_drops_its_names():
    env = jaxenv.make("Pendulum-v1", wrappers=[("DiscretizeAction", {"num_actions": 3})])
    assert action_names(env) == ()
    assert [control.name for control in controls(env)] == ["0", "1", "2"]


def test_many_named_actions_have_a_key_each():
    names = tuple(f"{letter}-{i}" for i, letter in enumerate("abcdefghijklmnoptuvw")) + tuple(
        f"b{i}" for i in range(10)
    )

    class Many(jaxenv.testing.Chain):
        action_names = names

        def action_spec(self):
            return jaxenv.specs.discrete(len(names))

    keys = [key for control in controls(Many(5)) for key in control.keys]
    assert all(control.keys for control in controls(Many(5)))
    assert len(set(keys)) == len(keys)


def test_what_keys_cannot_choose_is_refused():
    with pytest.raises(ValueError, match=r"play: the action.* MixedPolicyUnittest-v0 .*got \('int32\["):
        controls(jaxenv.make("MixedPolicyUnittest-v0"))
    with pytest.raises(ValueError, match=r"one or two.* Bounded"):
        controls(jaxenv.make("Reacher-misc", num_joints=3))
