"""The launches and bytes of a loop of a compiled program, read from its HLO text."""

import math
import re
from typing import NamedTuple

# Instructions that run nothing themselves.
FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id"}
FREE |= {"opt-barrier", "add-dependency"}
COPIES = ("copy", "slice")  # slice: an asynchronous copy of a part
LIBRARY = ("custom-call", "rng-get-and-update-state", "infeed", "outfeed", "send", "recv")
LIBRARY += ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
_ARRAY = re.compile(r"\b(pred|[a-z]+?(\d+)[a-z0-9]*)\[([\d,]*)\]")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.-]+) .*\{$")
_INSTRUCTION = re.compile(r"\s+(ROOT )?%?([\w.-]+) = (\(.*?\)|\S+) ([a-z][a-z-]*)\((.*)$")


class Instruction(NamedTuple):
    """An instruction of HLO text: the type of its result, its opcode, and the text behind ``opcode(``."""

    root: bool
    name: str
    result: str
    opcode: str
    rest: str

    @property
    def operands(self) -> list[str]:
        """The names of the operands."""
        listed = re.sub(r"/\*.*?\*/", "", self.rest).partition(")")[0]
        return [operand.split("%")[-1] for operand in listed.split(", ") if operand]


Computations = dict[str, list[Instruction]]


def computations_of(text: str) -> Computations:
    """Reads the text of a program."""
    computations: Computations = {}
    instructions: list[Instruction] = []
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            instructions = computations.setdefault(header[1], [])
        elif found := _INSTRUCTION.match(line):
            instructions.append(Instruction(found[1] is not None, *found.groups()[1:]))
    return computations


def named(attribute: str, text: str) -> str:
    """Returns the computation that an attribute of an instruction names."""
    found = re.search(rf"\b{attribute}=%?([\w.-]+)", text)
    assert found is not None, f"no {attribute} in {text[:200]}"
    return found[1]


def branches(text: str) -> list[str]:
    """Returns the names of the branches of a conditional."""
    found = re.search(r"branch_computations=\{([^}]*)\}", text)
    if found is None:
        return [named("true_computation", text), named("false_computation", text)]
    return [name.lstrip("%") for name in found[1].split(", ")]


def size(shapes: str) -> int:
    """Returns the size of the arrays of a type, such as ``(f32[64,1]{1,0}, pred[])``."""
    return sum(
        math.prod(int(n) for n in sizes.split(",") if n) * (max(int(bits) // 8, 1) if bits else 1)
        for _, bits, sizes in _ARRAY.findall(shapes)
    )


class Launches(NamedTuple):
    """What one step of a loop runs.

    Attributes:
        kernels: fusions and other instructions that compute; those of an inner loop once for each of its rounds.
        copies: instructions that copy an array.
        others: calls of libraries, and communication.
        branches: conditionals, of which the longest branch counts, and loops of a length that depends on data, of
            which one round counts. A GPU asks the host at each of them, unless it runs in a CUDA graph.
        bytes: what all these read and write; of an array of which a kernel touches a slice, that slice.
    """

    kernels: float = 0
    copies: float = 0
    others: float = 0
    branches: float = 0
    bytes: float = 0

    @property
    def total(self) -> float:
        """The number of launches."""
        return self.kernels + self.copies + self.others

    def plus(self, other: "Launches", times: float = 1) -> "Launches":
        """Adds ``times`` the other launches."""
        return Launches(*(a + times * b for a, b in zip(self, other, strict=True)))


def launches(text: str, num_steps: int) -> Launches:
    """Counts what one step of a loop of ``num_steps`` steps runs; a loop unrolled by two has half as many rounds.

    Raises:
        ValueError: If the program has no such loop.
    """
    computations = computations_of(text)
    body, steps = _loop(computations, num_steps)
    return Launches().plus(_launches(body, computations), 1 / steps)


def loops(text: str, num_steps: int) -> list[tuple[int, Launches]]:
    """Returns the loops inside of one step of a loop of ``num_steps`` steps: rounds, and launches of all rounds."""
    computations = computations_of(text)
    body, steps = _loop(computations, num_steps)
    found = [(_rounds(i, computations) or 1, named("body", i.rest)) for i in computations[body] if i.opcode == "while"]
    return [(rounds, Launches().plus(_launches(inner, computations), rounds / steps)) for rounds, inner in found]


def _loop(computations: Computations, num_steps: int) -> tuple[str, int]:
    """Returns the body of the longest loop of ``num_steps`` steps, and how many steps a round has."""
    loops = [
        (len(computations[body]), body, num_steps // rounds)
        for computation in computations.values()
        for i in computation
        if i.opcode == "while" and (rounds := _rounds(i, computations)) in (num_steps, num_steps // 2)
        if (body := named("body", i.rest))
    ]
    if not loops:
        raise ValueError(f"the program has no loop of {num_steps} steps")
    _, body, steps = max(loops)
    return body, steps


def _rounds(loop: Instruction, computations: Computations) -> int | None:
    """Returns the rounds that XLA knows, or else those of a condition that compares a counter with a constant."""
    if known := re.search(r'"known_trip_count":\{"n":"(\d+)"\}', loop.rest):
        return int(known[1])
    condition = _by_name(computations[named("condition", loop.rest)])
    root = _root(condition)
    if root.opcode != "compare" or "direction=LT" not in root.rest:
        return None
    counter, limit = (condition[name] for name in root.operands)
    compared = counter.opcode == "get-tuple-element" and limit.opcode == "constant"
    constant = re.match(r"\d+", limit.rest) if compared else None
    return int(constant[0]) if constant else None


def _launches(name: str, computations: Computations) -> Launches:
    """Counts what one call of a computation runs."""
    total, values = Launches(), _by_name(computations[name])
    for i in values.values():
        kind = i.opcode.removesuffix("-start")
        if i.opcode == "while":
            rounds = _rounds(i, computations)
            total = total.plus(_launches(named("body", i.rest), computations), rounds or 1)
            if rounds is None:
                total = total.plus(_launches(named("condition", i.rest), computations)).plus(Launches(branches=1))
        elif i.opcode == "conditional":
            parts = [_launches(branch, computations) for branch in branches(i.rest)]
            total = total.plus(max(parts, key=lambda part: part.total)).plus(Launches(branches=1))
        elif i.opcode == "call":
            total = total.plus(_launches(named("to_apply", i.rest), computations))
        elif kind not in FREE and not i.opcode.endswith("-done"):
            field = "copies" if kind in COPIES else "others" if kind in LIBRARY else "kernels"
            read = sum(_read(values[x], [i], computations) for x in set(i.operands) if x in values)
            total = total.plus(Launches(**{field: 1}, bytes=read + _written(i, values, computations)))
    return total


def _read(value: Instruction, users: list[Instruction], computations: Computations) -> int:
    """Returns the bytes of a value that its users read: all instructions of its fusion, or one that is launched."""
    whole, read = size(value.result), 0
    for user in users:
        for position, operand in enumerate(user.operands):
            if operand != value.name:
                continue
            if user.opcode in ("dynamic-slice", "gather") and position == 0:
                read += size(user.result)
            elif user.opcode == "bitcast":
                read += _read(user, users, computations)
            elif " calls=" in user.rest:
                inner = computations[named("calls", user.rest)]
                if len(users) > 1 and all(j.opcode in ("parameter", "bitcast", "copy") for j in inner):  # a new layout
                    read += _read(user, users, computations)
                    continue
                parameter = next(j for j in inner if j.opcode == "parameter" and j.rest.startswith(f"{position})"))
                read += _read(parameter, inner, computations)
            elif user.opcode not in ("dynamic-update-slice", "scatter") or position > 0:
                return whole
    return min(read, whole)


def _written(i: Instruction, values: dict[str, Instruction], computations: Computations) -> int:
    """Returns the bytes of a result that are written: of an array that is updated in place, the update."""
    if " calls=" in i.rest:
        inner = _by_name(computations[named("calls", i.rest)])
        return _written(_root(inner), inner, computations)
    if i.opcode == "tuple":
        return sum(_written(values[name], values, computations) for name in i.operands)
    source = {"bitcast": 0, "dynamic-update-slice": 1, "scatter": 2}.get(i.opcode)
    if source == 0:
        return _written(values[i.operands[0]], values, computations)
    if source is not None and len(i.operands) > source:
        return size(values[i.operands[source]].result)
    if i.opcode.endswith("-start"):  # its result holds the operand too, and a word
        return size(_ARRAY.search(i.result)[0])
    return size(i.result)


def _by_name(computation: list[Instruction]) -> dict[str, Instruction]:
    return {i.name: i for i in computation}


def _root(values: dict[str, Instruction]) -> Instruction:
    return next(i for i in values.values() if i.root)
