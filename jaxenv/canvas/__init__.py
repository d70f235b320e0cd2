"""Pictures as arrays: shapes, tiles and text, drawn for all lanes at once and inside ``jit``."""

from jaxenv.canvas._canvas import Canvas as Canvas
from jaxenv.canvas._canvas import Colour as Colour
from jaxenv.canvas._canvas import Number as Number
from jaxenv.canvas._canvas import check_size as check_size
from jaxenv.canvas._canvas import turn as turn
from jaxenv.canvas._grid import text_width as text_width
from jaxenv.canvas._grid import write as write
from jaxenv.canvas._palette import BLACK as BLACK
from jaxenv.canvas._palette import BLUE as BLUE
from jaxenv.canvas._palette import BROWN as BROWN
from jaxenv.canvas._palette import GOLD as GOLD
from jaxenv.canvas._palette import GREEN as GREEN
from jaxenv.canvas._palette import GREY as GREY
from jaxenv.canvas._palette import INK as INK
from jaxenv.canvas._palette import NIGHT as NIGHT
from jaxenv.canvas._palette import ORANGE as ORANGE
from jaxenv.canvas._palette import PAPER as PAPER
from jaxenv.canvas._palette import PINK as PINK
from jaxenv.canvas._palette import PURPLE as PURPLE
from jaxenv.canvas._palette import RED as RED
from jaxenv.canvas._palette import SAND as SAND
from jaxenv.canvas._palette import SILVER as SILVER
from jaxenv.canvas._palette import SKY as SKY
from jaxenv.canvas._palette import TEAL as TEAL
from jaxenv.canvas._palette import WHITE as WHITE
from jaxenv.canvas._palette import mix as mix
