"""`LevelBuffer` in plain Python: a list of places, sorted where the library merges."""

import math


class Model:
    """Each place holds a dict with the bytes of a level, its score, note and time; ``None`` if empty."""

    def __init__(self, capacity):
        self.places, self.time = [None] * capacity, 0

    def insert(self, levels, scores, mask, notes):
        self.time += 1
        entries = {}
        for level, score, chosen, note in zip(levels, scores, mask, notes, strict=True):
            if chosen and math.isfinite(score):
                entries.pop(level, None)  # the last one counts, at its own position
                entries[level] = {"level": level, "score": score, "note": note, "time": self.time}
        for place in self.places:
            if place is not None and place["level"] in entries:
                place.update(entries.pop(place["level"]))
        score_of = lambda place: -math.inf if self.places[place] is None else self.places[place]["score"]  # noqa: E731
        worst = sorted(range(len(self.places)), key=score_of)
        for entry, place in zip(sorted(entries.values(), key=lambda e: -e["score"]), worst, strict=False):
            if entry["score"] > score_of(place):
                self.places[place] = entry

    def update(self, places, scores, mask, notes):
        for place, score, chosen, note in zip(places, scores, mask, notes, strict=True):
            if chosen and math.isfinite(score) and 0 <= place < self.size:
                self.places[place].update(score=score, note=note)

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


def shares(values):
    total = sum(values)
    return [x / total if total else 1 / len(values) for x in values]
