"""Counts of what the starts of episodes look like, for MiniGrid's and ours alike; needs nothing but NumPy.

A start is an agent (x, y, direction) and a grid in MiniGrid's encoding, ``[W, H, 3]``, columns first. Every function
counts over all starts and returns a flat array of counts of a fixed length.
"""

import itertools

import numpy as np

WALL, DOOR, LAVA = 2, 4, 9
KINDS = range(DOOR, LAVA + 1)
HEADINGS = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])


def counts(agents, grids):
    """Returns all counts by name.

    Args:
        agents: ``[N, 3]``.
        grids: ``[N, W, H, 3]``.
    """
    agents, grids = np.asarray(agents, np.int64), np.asarray(grids, np.int64)
    lanes, size = np.arange(len(grids)), grids.shape[1:3]
    kind, colour, state = np.moveaxis(grids, -1, 0)
    found = {"pose": _pose(agents, size)}
    ahead = agents[:, :2] + HEADINGS[agents[:, 2]]
    found["ahead of the agent"] = _tally(kind[lanes, ahead[:, 0], ahead[:, 1]], 11)
    found["walls in a grid"] = _tally(np.sum(kind == WALL, axis=(1, 2)), size[0] * size[1] + 1)
    for k in (WALL, *KINDS):
        if np.any(kind == k):
            found[f"cells of {k}"] = np.sum(kind == k, axis=0).ravel()
    for k in KINDS:
        if np.any(kind == k):
            found[f"number of {k}"] = _tally(np.sum(kind == k, axis=(1, 2)), 64)
            found[f"looks of {k}"] = _tally((6 * state + colour)[kind == k], 18)
    if not np.any(kind == LAVA):  # rivers of lava are many objects, and told by their cells
        things = [(agents[:, 0], agents[:, 1], lanes, np.zeros_like(lanes))]
        for k in KINDS:
            lane, x, y = np.nonzero(kind == k)
            things.append((x, y, lane, colour[lane, x, y]))
        for (i, a), (j, b) in itertools.combinations_with_replacement(enumerate(things), 2):
            pairs = _pairs(a, b, size, same=i == j)
            if pairs is not None:
                found[f"offsets of {i}, {j}"], alike = pairs
                if i:
                    found[f"colours of {i}, {j}"] = alike
    return found


def _pose(agents, size):
    return _tally((agents[:, 0] * size[1] + agents[:, 1]) * 4 + agents[:, 2], 4 * size[0] * size[1])


def _pairs(first, second, size, same):
    """Counts the offsets between objects of one start, and the pairs of colours."""
    (x1, y1, lane1, colour1), (x2, y2, lane2, colour2) = first, second
    if not len(lane1) or not len(lane2):
        return None
    order1, order2 = np.argsort(lane1, kind="stable"), np.argsort(lane2, kind="stable")
    starts = np.searchsorted(lane2[order2], lane1[order1], "left")
    ends = np.searchsorted(lane2[order2], lane1[order1], "right")
    a = np.repeat(order1, ends - starts)
    b = order2[np.concatenate([np.arange(s, e) for s, e in zip(starts, ends, strict=True)])]
    if same:
        a, b = a[a < b], b[a < b]
    if not len(a):
        return None
    dx, dy = x2[b] - x1[a] + size[0], y2[b] - y1[a] + size[1]
    return _tally(dx * 2 * size[1] + dy, 4 * size[0] * size[1]), _tally(6 * colour1[a] + colour2[b], 36)


def _tally(values, length):
    return np.bincount(np.asarray(values).ravel(), minlength=length)
