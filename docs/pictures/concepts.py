"""Draws the pictures of the concept pages: ``python docs/pictures/concepts.py [FOLDER]``.

Every picture is a list of shapes on a panel of its own colour, so it reads on light and on dark pages. Coordinates are
pixels of a panel 840 wide; y points down.
"""

import pathlib
import sys
from xml.sax.saxutils import escape

from jaxenv.canvas import BLUE, GOLD, GREY, INK, ORANGE, PAPER, PURPLE, RED, SILVER, TEAL, WHITE, mix

WIDTH = 840
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

# The colours of step types, in all pictures.
FIRST, MID, TERMINATED, TRUNCATED = TEAL, mix(PAPER, BLUE, 0.28), RED, ORANGE
DARK = mix(GREY, INK, 0.6)  # second line of text


class Picture:
    """A panel to which shapes are added in the order in which they are painted."""

    def __init__(self, height, title, description):
        self.height, self.description = height, description
        self.shapes = []
        self.box(1, 1, WIDTH - 2, height - 2, PAPER, line=SILVER, radius=14)
        self.text(28, 42, title, size=20, bold=True)

    def shape(self, tag, content=None, **attributes):
        given = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
        self.shapes.append(f"  <{tag}{given}/>" if content is None else f"  <{tag}{given}>{content}</{tag}>")

    def box(self, x, y, width, height, colour, line=None, radius=6, weight=1.5, dashed=False):
        place = {"x": x, "y": y, "width": width, "height": height, "rx": radius}
        self.shape("rect", **place, fill=code(colour), **stroke(line, weight, dashed))

    def disc(self, x, y, radius, colour, line=None, dashed=False):
        self.shape("circle", cx=x, cy=y, r=radius, fill=code(colour), **stroke(line, 1.5, dashed))

    def text(self, x, y, text, size=15, colour=INK, anchor="start", bold=False, mono=False):
        """One line of text; ``y`` is its base line."""
        family = {"font_family": MONO} if mono else {}
        weight = {"font_weight": 600} if bold else {}
        at = {"x": x, "y": y, "font_size": size, "fill": code(colour), "text_anchor": anchor}
        self.shape("text", escape(text), **at, **family, **weight)

    def label(self, x, y, width, height, text, colour, ink=INK, line=None, dashed=False, size=15, **font):
        """A box with a line of text in its middle."""
        self.box(x, y, width, height, colour, line, dashed=dashed)
        self.text(x + width / 2, y + height / 2 + size * 0.35, text, size, ink, "middle", **font)

    def path(self, points, colour, weight=2.0, dashed=False, head=True):
        """A polyline, or for four points a cubic curve, with an arrow head at its end."""
        (x0, y0), *rest = points
        verb = "C" if len(points) == 4 else "L"
        d = f"M{x0:g} {y0:g} {verb}" + " ".join(f"{x:g} {y:g}" for x, y in rest)
        self.shape("path", d=d, fill="none", stroke_linecap="round", **stroke(colour, weight, dashed))
        if head:
            (x1, y1), (x, y) = points[-2:]
            length = ((x - x1) ** 2 + (y - y1) ** 2) ** 0.5
            ux, uy = (x - x1) / length, (y - y1) / length
            corners = [(x + 2 * ux, y + 2 * uy)]
            corners += [(x - 8 * ux - side * uy, y - 8 * uy + side * ux) for side in (5, -5)]
            self.shape("polygon", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in corners), fill=code(colour))

    def legend(self, x, y, entries):
        """Squares with their meanings in a row: pairs of colour and text, then the width of the entry."""
        for colour, text, width in entries:
            self.box(x, y - 13, 16, 16, colour, radius=3)
            self.text(x + 24, y, text, 14, DARK)
            x += width

    def svg(self):
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" '
                f'height="{self.height}" role="img" font-family="{SANS}">',
                f"  <desc>{escape(self.description)}</desc>",
                *self.shapes,
                "</svg>\n",
            ]
        )


def code(colour):
    """The code of a colour of `jaxenv.canvas` in SVG."""
    return "none" if colour is None else "#" + "".join(f"{round(float(part) * 255):02x}" for part in colour)


def tint(colour, fraction=0.2):
    """A colour mixed into the paper."""
    return mix(PAPER, colour, fraction)


def ink(colour):
    """A darker version of a colour, for text on paper."""
    return mix(colour, INK, 0.3)


def on(colour):
    """The colour of text on a label of another colour."""
    return WHITE if colour is FIRST or colour is TERMINATED else INK


def stroke(colour, weight, dashed):
    """The attributes of an outline, none without a colour."""
    if colour is None:
        return {}
    return {"stroke": code(colour), "stroke_width": weight} | ({"stroke_dasharray": "5 4"} if dashed else {})


def sub(letter, number):
    """A letter with a subscript."""
    return letter + "₀₁₂₃₄₅₆₇₈₉"[number]


# --- the pictures -----------------------------------------------------------------------------------------------------


def timestep():
    """Two episodes as columns of rows: FIRST, MID, LAST. Each action points to the reward of the next row."""
    picture = Picture(398, "A reward arrives with the observation that its action caused", timestep.__doc__)
    rows = [("FIRST", 0), ("MID", 1), ("LAST", 2), ("FIRST", 0), ("MID", 1), ("MID", 2), ("LAST", 3)]
    left, width, gap, top, row = 136, 74, 25, 96, 32
    places = [left + i * (width + gap) + (8 if i > 2 else 0) for i in range(len(rows))]
    for name, y in (("step_type", 0), ("observation", 1), ("reward", 2), ("discount", 3), ("action", 5.0)):
        picture.text(28, top + row * y + 21, name, 14, DARK, mono=True)
    for first, last, text in ((0, 2, "the task ends this episode"), (3, 6, "the time limit cuts this one off")):
        x, end = places[first], places[last] + width
        picture.text((x + end) / 2, 80, text, 15, DARK, "middle")
    for i, ((kind, t), x) in enumerate(zip(rows, places, strict=True)):
        truncated, last = i == 6, kind == "LAST"
        colour = {"FIRST": FIRST, "MID": MID}.get(kind, TRUNCATED if truncated else TERMINATED)
        picture.box(x, top, width, 4 * row, WHITE, SILVER)
        picture.label(x, top, width, row, kind, colour, on(colour), bold=True, size=14)
        reward = "0" if kind == "FIRST" else sub("r", t)
        discount = "0" if last and not truncated else "1"
        for place, value in enumerate((sub("o", t), reward, discount), 1):
            strong = place == 3 and last
            picture.text(
                x + width / 2, top + row * place + 22, value, 17, ink(colour) if strong else INK, "middle", strong
            )
        y = top + 5.5 * row
        ignored, line = last, GREY if last else BLUE
        picture.disc(x + width / 2, y, 17, tint(BLUE, 0 if ignored else 0.25), line, dashed=ignored)
        picture.text(x + width / 2, y + 5, sub("a", t), 16, line if ignored else INK, "middle")
        if ignored:
            picture.text(x + width / 2, y + 36, "ignored", 14, DARK, "middle")
        if i < len(rows) - 1:
            turn, reward = places[i + 1] - gap / 2 - 3, top + 2.5 * row
            curve = [(x + width / 2 + 19, y), (turn + 8, y), (turn - 10, reward), (places[i + 1] - 2, reward)]
            picture.path(curve, line, dashed=ignored)
    for i, colour, lines in (
        (2, TERMINATED, ("terminated", "discount 0: no value follows")),
        (6, TRUNCATED, ("truncated", "discount 1: bootstrap from V(o₃)")),
    ):
        x = places[i] + width
        for n, line in enumerate(lines):
            picture.text(x, 342 + 24 * n, line, 15, DARK if n else ink(colour), "end", bold=n == 0)
    return picture


def episodes():
    """The rows that follow the end of an episode in the three autoreset modes."""
    picture = Picture(486, "What the step after LAST returns", episodes.__doc__)
    names = {"F": ("FIRST", FIRST), "M": ("MID", MID), "L": ("LAST", TERMINATED)}
    left, width, gap = 196, 76, 14
    modes = [
        ('"next_step"', ("the default",), "F A₀,M A₁,M A₂,L A₃,F B₀,M B₁,M B₂"),
        ('"same_step"', ("as in gymnax", "and Brax"), "F A₀,M A₁,M A₂,L B₀,M B₁,M B₂,M B₃"),
        ("None", ("the caller", "restarts lanes"), "F A₀,M A₁,M A₂,L A₃,F B₀,M B₁,M B₂"),
    ]
    for line, (mode, notes, rows) in enumerate(modes):
        top = 76 + 124 * line
        picture.text(28, top + 22, mode, 16, bold=True, mono=True)
        for n, note in enumerate(notes):
            picture.text(28, top + 44 + 19 * n, note, 14, DARK)
        for i, (kind, observation) in enumerate(row.split() for row in rows.split(",")):
            x = left + i * (width + gap)
            name, colour = names[kind]
            picture.box(x, top, width, 64, WHITE, SILVER)
            picture.label(x, top, width, 28, name, colour, on(colour), bold=True, size=14)
            picture.text(x + width / 2, top + 52, observation, 18, anchor="middle", bold=observation == "B₀")
            restart = i == 3 and line != 1
            if i < 6 and not restart:
                picture.path([(x + width + 2, top + 32), (x + width + gap - 3, top + 32)], GREY, 1.5)
        x, end = left + 3 * (width + gap) + width / 2, left + 4 * (width + gap) + width / 2
        if line == 1:
            picture.path([(x, top + 66), (x, top + 78)], GREY, 1.5, head=False)
            picture.label(
                x - 140, top + 78, 280, 28, 'env_info["final_observation"]: A₃', WHITE, line=SILVER, size=13, mono=True
            )
        else:
            text, colour = ("a step that ignores its action", GREY) if line == 0 else ("jaxenv.reset_where", PURPLE)
            picture.path([(x, top + 68), (x, top + 92), (end, top + 92), (end, top + 70)], colour, dashed=line == 0)
            picture.text((x + end) / 2, top + 106, text, 14, DARK if line == 0 else colour, "middle", mono=line == 2)
    picture.text(28, 462, "A₀ to A₃ are the observations of one episode, B₀ is the first one of the next.", 14, DARK)
    return picture


def lanes():
    """A grid of lanes and time steps. Episodes have different lengths, and each lane restarts on its own."""
    picture = Picture(412, "One step advances every lane, each in its own episode", lanes.__doc__)
    limit, ends = 9, [(6, 15, 21), (9, 19), (3, 8, 12, 20), (3, 13, 23), (5, 15, 22), (8, 18)]
    left, top, width, height, steps = 108, 112, 24, 34, 24
    picture.text(left, 94, "time", 14, DARK)
    picture.path([(left + 38, 89), (left + 110, 89)], GREY, 1.5)
    now = []
    for lane, last in enumerate(ends):
        y = top + lane * (height + 4)
        picture.text(28, y + 23, f"lane {lane}", 15)
        start, shade = 0, 0.4
        for t in range(steps):
            colour = FIRST if t == start else mix(PAPER, BLUE, shade)
            if t in last:
                colour = TRUNCATED if t - start == limit else TERMINATED
                start, shade = t + 1, 0.62 - shade
            picture.box(left + t * width + (6 if t == steps - 1 else 0), y, width - 2, height, colour, radius=4)
        now.append(("0", FIRST) if colour is FIRST else ("2", colour) if t in last else ("1", MID))
    x, bottom = left + (steps - 1) * width + 6, top + 6 * (height + 4)
    picture.box(x - 5, top - 6, width + 8, bottom - top + 8, None, INK, radius=8, weight=2)
    picture.text(x + width + 2, top - 18, "state, timestep = env.step(state, action)", 14, anchor="end", mono=True)
    middle = (top + bottom) / 2 - 2
    picture.path([(x + width + 6, middle), (x + width + 34, middle)], INK)
    for lane, (value, colour) in enumerate(now):
        y = top + lane * (height + 4)
        picture.label(x + width + 44, y, 36, height, value, colour, on(colour), bold=True)
    picture.text(x + width + 62, bottom + 20, "step_type", 14, anchor="middle", mono=True)
    picture.text(x + width + 62, bottom + 38, "int32 [6]", 14, DARK, "middle", mono=True)
    picture.legend(
        left,
        376,
        [
            (FIRST, "FIRST", 92),
            (MID, "MID", 80),
            (TERMINATED, "LAST, terminated", 172),
            (TRUNCATED, "LAST, truncated", 140),
        ],
    )
    return picture


def rewards():
    """An episode as rows, whose reward is that of the action one row before, and as transitions, with their own."""
    picture = Picture(348, "Which reward belongs to which action", rewards.__doc__)
    top, step, height, paid = 118, 46, 34, {"r₁": BLUE, "r₂": PURPLE}
    rows = [row.split() for row in ("FIRST o₀ 0 a₀", "MID o₁ r₁ a₁", "LAST o₂ r₂ a₂", "FIRST p₀ 0 b₀")]
    transitions = [("o₀", "a₀", "r₁", "o₁", ""), ("o₁", "a₁", "r₂", "o₂", "terminated")]
    left, right = (67, 152, 228, 296), (492, 560, 622, 680, 754)
    heads = [
        (28, "rows: TimeStep, dm_env", left, "step_type observation reward action"),
        (448, "transitions: Gymnasium", right, "observation action reward next end"),
    ]
    for x, title, centres, words in heads:
        picture.text(x, 76, title, 16, bold=True)
        for centre, word in zip(centres, words.split(), strict=True):
            picture.text(centre, 106, word, 13, DARK, "middle")

    def write(values, centres, y):
        for value, x in zip(values, centres, strict=True):
            colour = GREY if value == "a₂" else RED if value == "terminated" else paid.get(value, INK)
            picture.text(x, y + 23, value, 14 if len(value) > 2 else 17, colour, "middle", bold=value in paid)

    for i, (kind, *values) in enumerate(rows):
        y, colour = top + step * i, {"FIRST": FIRST, "MID": MID, "LAST": TERMINATED}[kind]
        picture.box(28, y, 304, height, WHITE, SILVER)
        picture.label(28, y, 78, height, kind, colour, on(colour), bold=True, size=14)
        write(values, left[1:], y)
    for i, colour in enumerate((BLUE, PURPLE, GREY)):
        y, ignored = top + step * i, colour is GREY
        picture.path([(left[3] - 13, y + 25), (left[2] + 15, y + step + 11)], colour, dashed=ignored)
        for row, middle in ((y + 19, y + 40), (y + 61, y + 40)):  # from both rows to what lies between them
            picture.path([(338, row), (388, row), (398, middle), (440, middle)], SILVER, 1.5, head=False)
        picture.box(448, y + 23, 364, height, None if ignored else WHITE, SILVER, dashed=ignored)
        if ignored:
            picture.text(630, y + 45, "no transition: the action on a LAST row is ignored", 14, DARK, "middle")
        else:
            write(transitions[i], right, y + 23)
    picture.text(28, 330, "data.to_transitions makes the right side from the left one.", 14, DARK)
    return picture


def streams():
    """A key gives each lane its key words. Episode and step choose a place, a salt chooses the consumer."""
    picture = Picture(420, "From one key to every random number", streams.__doc__)
    head = [(28, "key"), (150, "lane"), (284, "clock"), (488, "consumer"), (632, "draws")]
    for x, text in head:
        picture.text(x, 84, text, 16, bold=True)
    for x, text in ((28, "of reset"), (150, "two words"), (284, "episode and step"), (488, "salt")):
        picture.text(x, 104, text, 14, DARK)
    picture.label(28, 208, 84, 40, "key(0)", tint(GOLD, 0.55), line=GOLD, mono=True)
    for lane, name in enumerate(("lane 0", "lane 1", "lane 2", "⋮", "lane B-1")):
        y = 128 + 48 * lane
        chosen = lane == 1
        if name == "⋮":
            picture.text(194, y + 25, name, 20, DARK, "middle")
            continue
        picture.path([(114, 228), (132, 228), (128, y + 18), (146, y + 18)], GOLD, 2.5 if chosen else 1.5)
        picture.label(150, y, 88, 36, name, tint(TEAL, 0.6 if chosen else 0.15), line=TEAL, bold=chosen)
    cell, x0, y0, at = 20, 284, 132, (5, 2)
    for episode in range(6):
        for step in range(8):
            here = (step, episode) == at
            colour = BLUE if here else tint(BLUE, 0.14 + 0.05 * (episode % 2))
            picture.box(x0 + step * cell, y0 + episode * cell, cell - 2, cell - 2, colour, radius=3)
    picture.box(x0 - 6, y0 - 6, 8 * cell + 10, 6 * cell + 10, None, TEAL, radius=7)
    picture.path([(240, 194), (274, 194)], TEAL, 2.5)
    picture.text(x0, y0 + 6 * cell + 26, "episode 2, step 5", 15, BLUE, bold=True)
    picture.text(x0, y0 + 6 * cell + 48, "four words: k₀ k₁ c₀ c₁", 14, DARK)
    source = (x0 + (at[0] + 1) * cell, y0 + (at[1] + 0.5) * cell - 1)
    consumers = [
        (120, "the task", "no salt", ("uniform(stream)", 'fold_in(stream, "wind")')),
        (208, "a wrapper", "its class", ("bernoulli(stream)",)),
        (296, "the policy", "“policy”", ("categorical(stream, …)",)),
    ]
    for y, name, salt, draws in consumers:
        picture.path([source, (446, source[1]), (442, y + 27), (483, y + 27)], BLUE)
        picture.box(488, y, 112, 54, WHITE, BLUE)
        picture.text(544, y + 23, name, 15, anchor="middle", bold=True)
        picture.text(544, y + 43, salt, 14, DARK, "middle")
        picture.path([(602, y + 27), (624, y + 27)], GREY, 1.5)
        for n, draw in enumerate(draws):
            picture.text(632, y + (32 if len(draws) == 1 else 22 + 21 * n), draw, 13, mono=True)
    picture.text(28, 396, "Nothing is split or carried along: the same place gives the same numbers.", 15, DARK)
    return picture


def stacks():
    """A stack as nested boxes, from NormalizeObservation outside to the task inside."""
    picture = Picture(530, "Actions go in, TimeSteps come out", stacks.__doc__)
    layers = [
        ("NormalizeObservation", "state of the batch", "observation", PURPLE),
        ("AutoReset", "starts the next episode", "FIRST rows", GOLD),
        ("FrameStack", "state of each lane", "observation", TEAL),
        ("TimeLimit", "counts the agent's steps", "step_type, …", ORANGE),
        ("ActionRepeat", "several steps inside", "reward, …", RED),
        ("CartPole-v1", "the task: only physics", "", BLUE),
    ]
    left, right, top, head, foot, inset = 28, 812, 108, 52, 13, 15
    inward, outward = 130, 714
    picture.text(inward, 80, "action", 15, BLUE, "middle", bold=True)
    picture.text(outward - 10, 80, "TimeStep", 15, ink(RED), bold=True)
    picture.text(outward - 24, 80, "rewrites", 14, DARK, "end")
    for n, (_, _, _, colour) in enumerate(layers):
        x, y = left + inset * n, top + head * n
        height = head * (len(layers) - n) + foot * (len(layers) - n) - 4
        picture.box(x, y, right - left - 2 * inset * n, height, tint(colour, 0.2), colour, radius=10)
    inner = top + head * len(layers) - 12
    bend = [(inward, inner), (inward, inner + 20), (outward, inner + 20), (outward, inner)]
    picture.path([(inward, 88), (inward, inner)], BLUE, 3, head=False)
    picture.path([(outward, inner), (outward, 90)], RED, 3)
    picture.path(bend, GREY, 2, dashed=True, head=False)
    for n, (name, note, owns, _) in enumerate(layers):
        y = top + head * n + 32
        picture.text(inward + 22, y, name, 16, mono=True, bold=True)
        picture.text(inward + 232, y, note, 14, DARK)
        if owns:
            picture.text(outward - 24, y, owns, 13, ink(RED), "end", mono=True)
            picture.disc(outward, y - 5, 6, WHITE, RED)
        if name == "ActionRepeat":
            picture.disc(inward, y - 5, 6, WHITE, BLUE)
    return picture


def params():
    """Two batches of five cart-poles. In the first all poles have the same length, in the second each has its own."""
    picture = Picture(432, "A param is one number for all lanes, or one number per lane", params.__doc__)
    one, many = [0.5] * 5, [0.2, 0.4, 0.6, 0.8, 1.0]
    for row, (lengths, call, shape) in enumerate(
        [(one, "length=0.5", "shape ()"), (many, "length=jnp.linspace(0.2, 1.0, 5)", "shape (5,)")]
    ):
        top = 74 + 178 * row
        picture.text(28, top + 12, call, 15, mono=True, bold=True)
        picture.text(WIDTH - 28, top + 12, shape, 15, DARK, "end", mono=True)
        for lane, length in enumerate(lengths):
            x = 28 + 160 * lane
            picture.box(x, top + 26, 144, 126, WHITE, SILVER, radius=8)
            _cart_pole(picture, x + 72, top + 122, length)
            picture.text(x + 72, top + 143, f"{length}", 15, ink(BLUE), "middle", bold=True)
    return picture


def levels():
    """Episodes of four lanes in time. Two lanes are given levels, in which all of their next episodes start."""
    picture = Picture(352, "The next episodes of a lane start in the level that it was given", levels.__doc__)
    left, top, height, unit, given = 108, 112, 38, 34, 8
    lanes = [
        ("5 4 3 3 3 3", "ℓ₁ ℓ₂ A A A A"),
        ("3 4 4 5 5", "ℓ₁ ℓ₂ ℓ₃ ℓ₄ ℓ₅"),
        ("9 4 4 4", "ℓ₁ B B B"),
        ("4 3 6 4 4", "ℓ₁ ℓ₂ ℓ₃ ℓ₄ ℓ₅"),
    ]
    picture.text(left, 94, "time", 14, DARK)
    picture.path([(left + 38, 89), (left + 110, 89)], GREY, 1.5)
    for lane, (durations, names) in enumerate(lanes):
        x, y = left, top + lane * (height + 8)
        picture.text(28, y + 25, f"lane {lane}", 15)
        for duration, name in zip(durations.split(), names.split(), strict=True):
            replayed = name in "AB"
            colour = tint(ORANGE if name == "A" else PURPLE, 0.5) if replayed else MID
            picture.label(x, y, int(duration) * unit - 4, height, name, colour, bold=replayed)
            x += int(duration) * unit
    x = left + given * unit - 2
    picture.path([(x, top - 12), (x, top + 4 * (height + 8))], INK, dashed=True, head=False)
    picture.text(x + 8, 94, "assign(state, level, mask): A to lane 0, B to lane 2", 14, mono=True)
    picture.text(28, 328, "ℓ₁, ℓ₂, … are new levels. An episode that has begun goes on in its own.", 14, DARK)
    return picture


def agents():
    """Three games of two agents as an array of games by agents; the same agents as six lanes; a game of turns."""
    picture = Picture(388, "Agents are an axis after the lanes, or lanes of their own", agents.__doc__)
    colours, height, step = (BLUE, ORANGE), 34, 38
    top = 116
    picture.text(28, 84, "at once: [B, A]", 16, bold=True)
    picture.text(28, 104, "reward float32 [3, 2]", 13, DARK, mono=True)
    picture.text(268, 84, "AgentsAsLanes: [B * A]", 16, bold=True)
    picture.text(268, 104, "reward float32 [6]", 13, DARK, mono=True)
    picture.text(528, 84, "in turns: Opponent", 16, bold=True)
    picture.text(528, 104, "a move and its answer are one step", 13, DARK)
    for game in range(3):
        y = top + 18 + game * 2 * step
        picture.text(28, y + 23, f"game {game}", 14)
        for agent, colour in enumerate(colours):
            x, lane = 92 + agent * 62, 2 * game + agent
            picture.label(x, y, 56, height, f"{'ab'[agent]}{game}", tint(colour, 0.45), bold=True)
            at = top + lane * step
            picture.path([(x + 58, y + 17), (232, y + 17), (236, at + 17), (262, at + 17)], tint(colour, 0.7), 1.5)
            picture.label(268, at, 56, height, f"{'ab'[agent]}{game}", tint(colour, 0.45), bold=True)
            picture.text(334, at + 22, f"lane {lane}", 14)
    for i, (who, what) in enumerate(
        (("a", "FIRST"), ("a", "the agent's move"), ("b", "the policy's answer"), ("a", "MID: the agent's turn"))
    ):
        y, colour = top + i * 52, colours["ab".index(who)]
        picture.label(528, y, 44, height, who, tint(colour, 0.45), bold=True)
        picture.text(584, y + 22, what, 14)
        if i < 3:
            picture.path([(550, y + height + 2), (550, y + 50)], GREY, 1.5)
    picture.text(28, 368, "All agents of a game share its step_type, and discount unless one leaves earlier.", 14, DARK)
    return picture


def _cart_pole(picture, x, y, length):
    """A cart at (x, y) whose pole has the given half-length in metres."""
    tip = (x + 22 * length, y - 12 - 66 * length)
    picture.path([(x - 58, y), (x + 58, y)], SILVER, head=False)
    picture.box(x - 17, y - 16, 34, 15, BLUE, radius=3)
    picture.path([(x, y - 14), tip], ORANGE, 6, head=False)
    picture.disc(x, y - 14, 3.5, INK)


PICTURES = {f.__name__: f for f in (timestep, episodes, lanes, rewards, streams, stacks, params, levels, agents)}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_suffix(""))
    folder.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw().svg())
