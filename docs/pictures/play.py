"""Draws ``play.png``: `jaxenv play` in a terminal of 80 columns and 24 lines. ``python docs/pictures/play.py``."""

import io
import pathlib
import re

import jax
import matplotlib
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console

import jaxenv
from jaxenv.rollout.play._game import Game
from jaxenv.rollout.play._terminal import frame

WIDTH, HEIGHT = 9, 18  # pixels of a character
TEXT, NIGHT = (222, 222, 222), (24, 24, 27)
FONTS = pathlib.Path(matplotlib.get_data_path()) / "fonts" / "ttf"
REGULAR, BOLD = (ImageFont.truetype(FONTS / f"DejaVuSansMono{style}.ttf", 15) for style in ("", "-Bold"))


def draw(lines: list[str], columns: int) -> Image.Image:
    """The picture of a terminal: text, and half blocks in 24-bit colour."""
    image = Image.new("RGB", ((columns + 2) * WIDTH, (len(lines) + 1) * HEIGHT), NIGHT)
    pen = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        x, y = WIDTH, number * HEIGHT + HEIGHT // 2
        front, back, font = TEXT, None, REGULAR
        for codes, character in re.findall(r"\x1b\[([0-9;]*)m|(.)", line):
            if not character:
                for plane, *colour in re.findall(r"(38|48);2;(\d+);(\d+);(\d+)", codes):
                    colour = tuple(map(int, colour))
                    front, back = (colour, back) if plane == "38" else (front, colour)
                if codes in ("0", "1"):
                    front, back, font = TEXT, None, BOLD if codes == "1" else REGULAR
                continue
            if back:
                pen.rectangle((x, y, x + WIDTH - 1, y + HEIGHT - 1), fill=back)
            if character == "▀":
                pen.rectangle((x, y, x + WIDTH - 1, y + HEIGHT // 2 - 1), fill=front)
            else:
                pen.text((x, y), character, font=font, fill=front)
            x += WIDTH
    return image


game = Game(jaxenv.make("Seaquest-MinAtar"), jax.random.key(1))
controls = {control.name: control for control in game.controls}
for name in ["down"] * 4 + ["left", "right", "fire"] * 12:
    game.take(controls[name])
terminal = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="truecolor")
terminal.print(frame(game, (80, 24), None, 0))
image = draw([line for line in terminal.file.getvalue().split("\n") if line], 80)
image.quantize(64, dither=Image.Dither.NONE).save(pathlib.Path(__file__).parent / "play.png", optimize=True)
