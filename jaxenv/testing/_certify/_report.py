"""Findings of `certify`, and the programs that reproduce them."""

from jaxenv.testing._certify._dialects import Dialect, Source


class Failure(AssertionError):
    """Raised by a property that does not hold.

    ``step`` is None for a reset. ``show`` is the expression that a reproduction prints, also ``before`` its steps;
    statements may come ``after``.
    """

    def __init__(
        self,
        expected: str,
        seen: str,
        lane: int = 0,
        step: int | None = None,
        show: str = "",
        before: bool = False,
        after: tuple[str, ...] = (),
    ) -> None:
        super().__init__(f"expected {expected}, saw {seen}")
        self.expected, self.seen, self.lane, self.step = expected, seen, lane, step
        self.show, self.before, self.after = show, before, after


class Skip(Exception):
    """Raised by a property that does not apply or cannot be decided; the arguments are the status and the reason."""


def reproduction(source: Source, dialect: Dialect, seed: int, failure: Failure) -> str:
    """Returns a program of at most 15 lines, without this library, that shows a failure."""
    show = [f"print({failure.show})"] if failure.show else []
    if dialect.api == "gymnasium":
        start = [dialect.reset.format(key=f"seed={seed}"), f"env.action_space.seed({seed})"]
        loop = [f"if t and ({dialect.done}): {dialect.reset.format(key='')}", dialect.action, dialect.step]
    else:
        start = [f"key = jax.random.PRNGKey({seed})", dialect.reset.format(key="key")]
        again = [] if dialect.restarts else [f"if {dialect.done}: {dialect.reset.format(key='key_reset')}"]
        loop = [dialect.split, *again, *dialect.action.splitlines(), dialect.step]
    lines = [*source.setup, dialect.prepare, *start, *(show if failure.before else [])]
    if failure.step is not None:
        lines += [f"for t in range({failure.step + 1}):", *(f"    {line}" for line in loop)]
    text = "\n".join(filter(None, [*lines, *show, *failure.after]))
    return "".join(f"import {name}\n" for name in ("jax", "jax.numpy as jnp") if f"{name[-3:]}." in text) + text
