"""Plays in a notebook: a picture and a button per action, by ipywidgets."""

import io
from typing import Any

from jaxenv._util.library import import_library
from jaxenv.rollout.play._game import Game

_SIZE = 256  # pixels


def player(game: Game) -> Any:
    """Returns the widget. Every button is one step; the picture and the status follow.

    Raises:
        ImportError: if ipywidgets or pillow is not installed.
    """
    widgets = import_library("ipywidgets", "pip install ipywidgets")
    picture = widgets.Image(format="png", width=_SIZE, height=_SIZE) if game.has_picture else widgets.HTML()
    status = widgets.HTML()

    def show() -> None:
        if game.has_picture:
            picture.value = _png(game)
        else:
            picture.value = f"<pre>{game.observation()}</pre>"
        line, end = game.status
        status.value = f"{line}   <b>{end}</b>"

    def button(name: str, act: Any) -> Any:
        made = widgets.Button(description=name)

        def clicked(_: Any) -> None:
            act()
            show()

        made.on_click(clicked)
        return made

    buttons = [button(control.name, lambda control=control: game.take(control)) for control in game.controls]
    buttons.append(button("restart", game.restart))
    show()
    return widgets.VBox([picture, status, widgets.HBox(buttons, layout=widgets.Layout(flex_flow="row wrap"))])


def _png(game: Game) -> bytes:
    image = import_library("PIL.Image", "pip install pillow")
    buffer = io.BytesIO()
    image.fromarray(game.picture(_SIZE)).save(buffer, "PNG")
    return buffer.getvalue()
