"""The rules of Hex in plain Python."""

import numpy as np

SIZE, SWAP = 11, 121


def touching(cell):
    row, column = cell
    steps = ((0, -1), (0, 1), (-1, 0), (1, 0), (-1, 1), (1, -1))
    return [(row + down, column + right) for down, right in steps]


class Hex:
    """A dict from cells to players; 0 is black."""

    def __init__(self):
        self.stones, self.player, self.moves = {}, 0, 0

    def legal(self):
        free = [divmod(cell, SIZE) not in self.stones for cell in range(SIZE * SIZE)]
        return [*free, self.moves == 1]

    def view(self):
        planes = np.zeros((SIZE, SIZE, 4), bool)
        for cell, player in self.stones.items():
            planes[(*cell, int(player != self.player))] = True
        planes[..., 2], planes[..., 3] = self.player == 1, self.moves == 1
        return planes

    def play(self, action):
        """Makes a legal move; returns the rewards of both players and whether the game is over."""
        player = self.player
        if action == SWAP:
            ((row, column),) = self.stones
            self.stones = {(column, row): player}
        else:
            self.stones[divmod(action, SIZE)] = player
        self.refuse()
        over = self.connects(player)
        return ((1, -1) if player == 0 else (-1, 1)) if over else (0, 0), over

    def refuse(self):
        """Passes the turn on, as an illegal move does."""
        self.player, self.moves = 1 - self.player, self.moves + 1

    def connects(self, player):
        """Whether stones of the player connect the first and the last row, for white the columns."""
        own = {cell for cell, colour in self.stones.items() if colour == player}
        found = {cell for cell in own if cell[player] == 0}
        waiting = list(found)
        while waiting:
            new = {cell for cell in touching(waiting.pop()) if cell in own} - found
            found |= new
            waiting += new
        return any(cell[player] == SIZE - 1 for cell in found)
