"""The rules of Go in plain Python."""

import numpy as np

SIZE, PASS = 9, 81
POINTS = [(row, column) for row in range(SIZE) for column in range(SIZE)]


def touching(point):
    row, column = point
    return [p for p in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)) if inside(p)]


def inside(point):
    return all(0 <= x < SIZE for x in point)


def area(stones, start, colour):
    """The points of one colour (``None`` for free ones) connected with ``start``, and the other colours around them."""
    found, waiting, around = {start}, [start], set()
    while waiting:
        for point in touching(waiting.pop()):
            if stones.get(point) != colour:
                around.add((point, stones.get(point)))
            elif point not in found:
                found.add(point)
                waiting.append(point)
    return found, around


def liberties(stones, start):
    return [point for point, colour in area(stones, start, stones[start])[1] if colour is None]


class Go:
    """A dict from points to players; 0 is black."""

    def __init__(self, komi=7.5):
        self.stones, self.player, self.komi, self.passed, self.ko = {}, 0, komi, False, None
        self.positions = []  # after each move

    def placed(self, point):
        """The stones after the player's move to a free point, and the captured points."""
        stones = {**self.stones, point: self.player}
        captured = set()
        for other in touching(point):
            if stones.get(other) == 1 - self.player and not liberties(stones, other):
                captured |= area(stones, other, 1 - self.player)[0]
        return {p: colour for p, colour in stones.items() if p not in captured}, captured

    def may_place(self, point):
        if point in self.stones or point == self.ko:
            return False
        if any(p not in self.stones for p in touching(point)):
            return True
        return bool(liberties(self.placed(point)[0], point))

    def legal(self):
        return [*(self.may_place(point) for point in POINTS), True]

    def view(self):
        planes = np.zeros((SIZE, SIZE, 17), bool)
        for back, stones in enumerate(self.positions[:-9:-1]):
            for point, colour in stones.items():
                planes[(*point, 2 * back + (colour != self.player))] = True
        planes[..., 16] = self.player == 1
        return planes

    def play(self, action):
        """Makes a legal move; returns the rewards of both players and whether the game is over."""
        passes, passed, player = action == PASS, self.passed, self.player
        self.ko, self.player, self.passed = None, 1 - player, passes
        if not passes:
            point = POINTS[action]
            surrounded = all(self.stones.get(p) == 1 - player for p in touching(point))
            self.player = player
            self.stones, captured = self.placed(point)
            self.player = 1 - player
            self.ko = captured.copy().pop() if surrounded and len(captured) == 1 else None
        repeats = not passes and self.stones in self.positions
        self.positions.append(self.stones)
        if repeats:
            return ((-1, 1) if player == 0 else (1, -1)), True
        if (passes and passed) or len(self.positions) == 162:
            return ((1, -1) if self.lead() > self.komi else (-1, 1)), True
        return (0, 0), False

    def refuse(self):
        """Ends the game by an illegal move, after which the stones are as before."""
        self.positions.append(self.stones)
        self.player = 1 - self.player

    def lead(self):
        """By how much black's area is larger than white's."""
        free = [area(self.stones, point, None)[1] for point in POINTS if point not in self.stones]
        borders = [{colour for _, colour in around} for around in free]
        counts = [list(self.stones.values()).count(player) for player in (0, 1)]
        for player in (0, 1):
            counts[player] += sum(1 - player not in border for border in borders)
        return counts[0] - counts[1]
