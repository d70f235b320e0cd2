"""The player in a notebook: buttons that step, a picture and a status."""

import sys
import types

import pytest

import jaxenv
from jaxenv.rollout.play import _notebook
from jaxenv.rollout.play._game import Game
from jaxenv.rollout.play._notebook import player


class Widget:
    def __init__(self, children=(), value="", description="", **_):
        self.children, self.value, self.description = children, value, description

    def on_click(self, function):
        self.click = lambda: function(self)


@pytest.fixture
def widgets(monkeypatch):
    """Stands in for ipywidgets."""
    module = types.ModuleType("ipywidgets")
    for name in ("Image", "HTML", "Button", "VBox", "HBox", "Layout"):
        setattr(module, name, type(name, (Widget,), {}))
    monkeypatch.setitem(sys.modules, "ipywidgets", module)


def test_buttons_step_and_restart(widgets, monkeypatch):
    monkeypatch.setattr(_notebook, "_SIZE", 32)
    game = Game(jaxenv.make("FrozenLake-v1", is_slippery=False))
    picture, status, buttons = player(game).children
    by_name = {button.description: button for button in buttons.children}
    assert list(by_name) == ["left", "down", "right", "up", "restart"]
    before = picture.value
    assert before.startswith(b"\x89PNG")
    by_name["down"].click()
    assert picture.value != before
    by_name["right"].click()
    assert "<b>terminated after 2 steps</b>" in status.value
    by_name["restart"].click()
    assert "step 0" in status.value


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(ImportError, match="ipywidgets is not installed"):
        player(Game(jaxenv.make("CardGame-v0")))


def test_play_needs_a_terminal_or_a_notebook(monkeypatch, widgets):
    env = jaxenv.make("CardGame-v0")
    with pytest.raises(ValueError, match="play: stdin must"):
        jaxenv.play(env)
    with pytest.raises(ValueError, match=r"play: fps .*got -1"):
        jaxenv.play(env, fps=-1)
    shell = types.SimpleNamespace(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert len(jaxenv.play(env).children) == 3
