"""`LevelBuffer` in plain Python: a list of places, sorted where the library merges."""

import math


class Model:
    """Each place holds a dict with the bytes of a level, its score, note and time; ``None`` if empty."""

    def __init__(self, capacity):
        self.places, self.time = [None] * capacity, 0

    def insert(self, levels, scores, mask, notes):
        self.time += 1
        entries = {
            level: {"level": level, **found, "time": self.time}
            for level, found in merged(levels, scores, mask, notes).items()
        }
        for place in self.places:
            if place is not None and place["level"] in entries:
                new = entries.pop(place["level"])
                place.update(new, note=max(place["note"], new["note"]))
        score_of = lambda place: -math.inf if self.places[place] is None else self.places[place]["score"]  # noqa: E731
        worst = sorted(range(len(self.places)), key=score_of)
        for entry, place in zip(sorted(entries.values(), key=lambda e: -e["score"]), worst, strict=False):
            if entry["score"] > score_of(place):
                self.places[place] = entry

    def update(self, places, scores, mask, notes):
        for place, found in merged(places, scores, mask, notes).items():
            if 0 <= place < self.size:
                self.places[place].update(found)

    def use(self, places):
        self.time += 1
        for place in places:
            self.places[place]["time"] = self.time

    @property
    def size(self):
        return sum(place is not None for place in self.places)

    def weights(self, prioritization, temperature, staleness):
        used = [place for place in self.places if place is not None]
        if prioritization == "rank":
            order = sorted(range(len(used)), key=lambda i: -used[i]["score"])
            of_score = [(1 + order.index(i)) ** (-1 / temperature) for i in range(len(used))]
        else:
            of_score = [max(place["score"], 0) ** (1 / temperature) for place in used]
        stale = [self.time - place["time"] for place in used]
        mixed = zip(shares(of_score), shares(stale), strict=True)
        weights = [(1 - staleness) * a + staleness * b for a, b in mixed]
        return weights + [0.0] * (len(self.places) - len(used))


def merged(names, scores, mask, notes):
    """The mean score and the greatest note of each name, in the order of the last entries."""
    found = {}
    for name, score, chosen, note in zip(names, scores, mask, notes, strict=True):
        if chosen and math.isfinite(score):
            found[name] = [*found.pop(name, []), (score, note)]
    return {
        name: {"score": math.fsum(score for score, _ in given) / len(given), "note": max(note for _, note in given)}
        for name, given in found.items()
    }


def shares(values):
    total = sum(values)
    return [x / total if total else 1 / len(values) for x in values]
