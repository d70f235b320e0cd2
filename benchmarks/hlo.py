"""The work of a compiled program, read from its HLO text: kernels and collectives, counted once per loop round."""

import math
import re
from typing import NamedTuple

_COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
# Instructions that run nothing themselves.
_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id"}
_ARRAY = re.compile(r"\b(pred|[a-z]+?(\d+)[a-z0-9]*)\[([\d,]*)\]")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.-]+) .*\{$")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?[\w.-]+ = (\(.*?\)|\S+) ([a-z][a-z-]*)\((.*)$")


class Work(NamedTuple):
    """The work of one device.

    Attributes:
        kernels: instructions that run one after another, fusions counted once; of a conditional, the longest branch.
        collectives: how many of them communicate.
        collective_bytes: the bytes of their results.
        open_loops: loops whose number of rounds is not known when compiling; none of their rounds is counted.
    """

    kernels: int = 0
    collectives: int = 0
    collective_bytes: int = 0
    open_loops: int = 0

    def plus(self, other: "Work", times: int = 1) -> "Work":
        """Adds ``times`` the other work."""
        return Work(*(a + times * b for a, b in zip(self, other, strict=True)))


def work(text: str) -> Work:
    """Counts the work of a program from ``compiled.as_text()``."""
    computations: dict[str, list[str]] = {}
    entry, lines = "", []
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            lines = computations.setdefault(header[2], [])
            entry = header[2] if header[1] else entry
        else:
            lines.append(line)
    known: dict[str, Work] = {}

    def of(name: str) -> Work:
        if name not in known:
            known[name] = Work()
            for line in computations[name]:
                if found := _INSTRUCTION.match(line):
                    known[name] = known[name].plus(*of_instruction(*found.groups()))
        return known[name]

    def of_instruction(result: str, opcode: str, rest: str) -> tuple[Work, int]:
        if opcode == "while":
            rounds = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', rest)
            return (of(_named("body", rest)), int(rounds[1])) if rounds else (Work(open_loops=1), 1)
        if opcode == "conditional":
            branches = re.search(r"branch_computations=\{([^}]*)\}", rest)
            if branches is None:
                return max(of(_named("true_computation", rest)), of(_named("false_computation", rest))), 1
            return max(of(name.lstrip("%")) for name in branches[1].split(", ")), 1
        if opcode == "call":
            return of(_named("to_apply", rest)), 1
        if opcode in _FREE or opcode.endswith("-done"):
            return Work(), 1
        if opcode.removesuffix("-start") in _COLLECTIVES:
            return Work(1, 1, _bytes(result)), 1
        return Work(1), 1

    return of(entry)


def _named(attribute: str, text: str) -> str:
    found = re.search(rf"\b{attribute}=%?([\w.-]+)", text)
    assert found is not None, f"no {attribute} in {text[:200]}"
    return found[1]


def _bytes(shapes: str) -> int:
    """Returns the size of the arrays of a type, such as ``(f32[64,1]{1,0}, pred[])``."""
    return sum(
        math.prod(int(n) for n in sizes.split(",") if n) * (max(int(bits) // 8, 1) if bits else 1)
        for _, bits, sizes in _ARRAY.findall(shapes)
    )
