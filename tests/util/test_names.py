"""Suggestions for names that were not found."""

import pytest

from jaxenv._util.names import closest, did_you_mean, unknown_keyword


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("cartpole", ["Taxi-v4", "CartPole-v1"], ["CartPole-v1"]),
        ("CartPole-v9", ["Taxi-v9", "CartPole-v1", "CartPole-v0"], ["CartPole-v1", "CartPole-v0"]),
        ("max_steps", ["mode", "max_episode_steps"], ["max_episode_steps"]),
        ("steps", ["mode", "max_episode_steps"], ["max_episode_steps"]),
        ("Ant-v4", ["Taxi-v4", "Pendulum-v4"], []),
        ("n", ["num", "name"], []),
        ("", ["num", "name"], []),
    ],
)
def test_the_closest_names_ignore_case_and_version_and_leave_out_distant_ones(name, known, found):
    assert closest(name, known) == found


def test_at_most_three_names_are_suggested():
    assert did_you_mean("length", [f"length_{x}" for x in "abcd"]).count("'length_") == 3


def test_without_a_close_name_the_hint_is_the_alternative():
    assert did_you_mean("x", ["length"], otherwise="see the list") == "see the list"


def test_the_message_about_a_keyword_leaves_out_empty_groups():
    message = unknown_keyword("A", "x", {"params": [], "arguments": ["length"]})
    assert message == "A: unknown keyword 'x'; arguments: length"
