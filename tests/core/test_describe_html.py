"""What notebooks show for an environment: the facts of ``describe``, escaped, without compiling anything."""

import html
import re

import jax
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.core.multitask import Multitask
from jaxenv.testing import Chain
from tests.toys import registered as registered


def words(env):
    """The text of the page, one piece per element."""
    body = re.sub("<style>.*?</style>", "", env._repr_html_())
    return [html.unescape(piece) for piece in re.split("<[^>]*>", body) if piece.strip()]


def test_the_page_shows_the_facts_that_describe_prints():
    env = jaxenv.make("CartPole-v1", 2, length=[0.5, 0.75], force=20, position_limit=3, autoreset="same_step")
    shown = words(env)
    assert shown[:2] == ["CartPole-v1", " 2 lanes · autoreset same_step · time limit 500 · 36 bytes of state per lane"]
    at = shown.index("CartPole-v1(position_limit=3)")
    assert shown[at + 1] == "+36 B, observation float32[4], action int32[]"
    assert shown.index("AutoReset(mode=same_step, reset_strategy=select)") < shown.index("TimeLimit(duration=500)") < at
    at = shown.index("length")
    assert shown[at : at + 4] == ["length", "0.5 to 0.75 per lane", "m", "above 0"]


def test_the_page_shows_specs_with_one_range_per_element():
    shown = words(jaxenv.make("CartPole-v1"))
    at = shown.index("observation", shown.index("Specs of one lane"))
    ranges = "-4.8 to 4.8\n-∞ to ∞\n-0.418879 to 0.418879\n-∞ to ∞"
    assert shown[at : at + 4] == ["observation", "float32", "(4,)", ranges]
    assert shown[shown.index("action") :][:4] == ["action", "int32", "()", "0 .. 1"]
    assert "reward" in shown
    assert "discount" in shown


class Hostile(Chain):
    """A chain whose option holds markup."""

    label: str = jaxenv.tree.static(default="")

    def observation_spec(self):
        return {"<b>": specs.discrete(4)}

    def observe(self, state):
        return {"<b>": super().observe(state)}


def test_names_and_values_are_escaped():
    page = Hostile(label="<script>alert(1)</script>")._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page


def test_limits_that_differ_by_lane_and_traced_params_are_shown():
    env = jaxenv.make("Chain-v0", 2, max_episode_steps=[1, 2])
    assert "time limit 1 to 2" in words(env)[1]
    pages = []

    def traced(gravity):
        pendulum = jaxenv.spec("Pendulum-v1").make()
        pages.append(words(Multitask((pendulum, pendulum.with_params(gravity=gravity)))))
        return gravity

    jax.eval_shape(traced, 1.0)
    assert "traced" in pages[0]
    assert "time limit" not in pages[0][1]


@pytest.mark.parametrize("id", ["Catch-bsuite", pytest.param("gymnax:Catch-bsuite", marks=pytest.mark.thorough)])
def test_an_environment_without_params_or_with_a_large_observation_has_a_page(id):
    env = jaxenv.make(id, 2)
    shown = words(env)
    assert shown[0] == env.name
    assert "observation" in shown
