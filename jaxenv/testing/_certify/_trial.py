"""One environment under test: its loop as functions of one lane, and the rows that its lanes record."""

import functools
import itertools
import math
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.testing._certify._dialects import Dialect, Failure, Source
from jaxenv.testing._compare import stack
from jaxenv.testing._compare import take_steps as at
from jaxenv.testing._programs import quick_options
from jaxenv.testing.report import described
from jaxenv.tree._typed_keys import to_words

LANES, STARTS, STEPS = 8, 64, 600
_MOST_STEPS = 3000  # where the environment states a limit of steps
_BYTES = 2**27  # of recorded rows
_ON_RESET = ("observation", "mask", "step_type", "discount")
ON_STEP = (*_ON_RESET, "reward", "done", "terminated", "truncated", "final", "dones")
# Names of leaves of the state: counters of the steps of an episode, and keys.
CLOCKS, KEYS = ("time", "step", "steps", "step_count", "t"), ("key", "rng", "rng_key")

_code = functools.lru_cache(maxsize=256)(compile)
_where = jax.jit(tree.where)


class Trial:
    """An environment, and what was computed of it, which properties share.

    Lane ``i`` starts from ``PRNGKey(seed + i)``. Every step splits the key of its lane, as reproductions do.
    """

    on_host = False

    def __init__(self, source: Source, dialect: Dialect, made: Any, seed: int, seconds: float) -> None:
        self.made = made if isinstance(made, tuple) else (made,)  # an environment, and its params if they were made
        self.source, self.dialect, self.seed, self.seconds = source, dialect, seed, seconds
        self.env = env = self.made[0]
        self._names = {"env": env, "jax": jax, "jnp": jnp}
        self._names |= {"reset": env.init if "init" in dialect.members else env.reset, "step": env.step}
        if "default_params" in dialect.members:
            self._names["params"] = self.made[1] if self.made[1:] else self.run(dialect.prepare)["params"]
        limit = self.value(dialect.limit)
        self.limit = None if limit is None or np.ndim(limit) or isinstance(limit, float) else int(limit)
        self.attributes = self.numbers()
        # The compiled reset and step of many lanes.
        self.begin_lanes = jax.jit(jax.vmap(self.begin), compiler_options=quick_options())
        self.advance_lanes = jax.jit(jax.vmap(self.advance), compiler_options=quick_options())

    def numbers(self) -> dict[str, list[Any]]:
        """Copies the attributes of the object that hold numbers, arrays, or collections of them."""
        kinds = (bool, int, float, np.ndarray, np.generic, jax.Array)
        held = {n: jax.tree.leaves(x) for n, x in getattr(self.env, "__dict__", {}).items() if x is not None}
        held = {n: found for n, found in held.items() if all(isinstance(x, kinds) for x in found)}
        return jax.tree.map(lambda x: x if isinstance(x, jax.core.Tracer) else np.array(to_words(x)), held)

    def value(self, expression: str, **names: Any) -> Any:
        return eval(_code(expression, "<loop>", "eval"), self._names | names)

    def run(self, *statements: str, **names: Any) -> dict[str, Any]:
        names = self._names | names
        for statement in statements:
            exec(_code(statement, "<loop>", "exec"), names)
        return names

    def row(self, names: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
        """Evaluates the fields that the API has; raises a `Failure` if the environment did not return one of them."""
        row = {}
        for field in fields:
            if text := getattr(self.dialect, field):
                try:
                    row[field] = self.value(text, **names)
                except Exception as error:
                    expected = f"to find `{text}` in what the environment returns"
                    raise Failure(expected, described(error), show=text) from error
        return row

    def begin(self, key: jax.Array) -> tuple[dict[str, Any], dict[str, Any]]:
        """Starts an episode: what the loop carries, and the row of a reset."""
        names = self.run(self.dialect.reset.format(key="key"), key=key)
        return {name: names[name] for name in self.dialect.carry}, self.row(names, _ON_RESET)

    def advance(self, carry: dict[str, Any], key: jax.Array) -> tuple[dict[str, Any], dict[str, Any], jax.Array]:
        """Draws an action and steps: what the loop carries, the row, and the next key of the lane."""
        names = self.run(self.dialect.split, self.dialect.action, self.dialect.step, **carry, key=key)
        carry = {name: names[name] for name in self.dialect.carry}
        row = self.row(names, ON_STEP)
        row["action"] = names["action"]
        row["held"] = {n: x for n, x in leaves(to_words(carry)).items() if n.split(".")[-1] in CLOCKS + KEYS}
        return carry, row, names["key"]

    @functools.cached_property
    def keys(self) -> jax.Array:
        """The keys of ``STARTS`` lanes, of which the first ``LANES`` are stepped."""
        return jnp.stack([jax.random.PRNGKey(self.seed + lane) for lane in range(STARTS)])

    @functools.cached_property
    def starts(self) -> tuple[Any, dict[str, Any]]:
        """The carry and the rows of ``STARTS`` resets."""
        carry, row = self.begin_lanes(self.keys)
        return carry, jax.device_get(row)

    @functools.cached_property
    def record(self) -> "Record":
        """Steps lanes with random legal actions, for at most half of the time that a property has."""
        rows, kept = [], {}
        steps = STEPS if self.limit is None else max(200, min(self.limit + 20, _MOST_STEPS))
        for t, before, row in self.steps(LANES, steps, self.seconds / 2):
            rows.append(row)
            if t < 3 or t % 100 == 0:
                kept[t] = before
            # Programs run in the background until a row is read.
            enough = t >= 200 and t % 50 == 0 and np.sum(list(map(ended, rows)), 0).min() >= 3
            if enough or t > _BYTES // sum(x.nbytes for x in jax.tree.leaves(row)) + 8:
                break
        return Record(jax.device_get(rows), kept)

    def steps(self, lanes: int, most: int, seconds: float) -> Iterator[tuple[int, Any, dict[str, Any]]]:
        """Yields step, carry and keys before it, and row, restarting lanes whose dialect leaves that to wrappers."""
        carry, key = at((self.starts[0], self.keys), slice(lanes))
        row: dict[str, Any] = {}
        until = math.inf
        for t in range(most):
            carry = self.restarted(carry, row, key) if row else carry
            before = carry, key
            carry, row, key = self.advance_lanes(carry, key)
            yield t, before, row
            until = min(until, time.perf_counter() + seconds)  # without the compilation
            if time.perf_counter() > until:
                return

    def restarted(self, carry: Any, row: dict[str, Any], key: jax.Array) -> Any:
        """Starts new episodes in the lanes that ended, unless the API does so itself."""
        if self.dialect.restarts or not (done := ended(row)).any():
            return carry
        resets = jnp.tile(jax.vmap(lambda k: jax.random.split(k, 4)[3])(key), (STARTS // len(key), 1))
        return _where(done, at(self.begin_lanes(resets)[0], slice(len(key))), carry)

    @functools.cached_property
    def first_step(self) -> Any:
        """The results of the first step of all lanes, which compiles it."""
        return self.advance_lanes(*at((self.starts[0], self.keys), slice(LANES)))


class Record:
    """Rows of all lanes ``[T, B, ...]``; ``kept`` holds the carry and the keys before some steps."""

    def __init__(self, rows: list[dict[str, Any]], kept: dict[int, Any]) -> None:
        self.kept = kept
        self.rows: dict[str, Any] = stack(rows)
        self.done = np.stack(list(map(ended, rows)))
        # Complete episodes as `(lane, step of the end, length)`, lane by lane.
        ends = [(lane, [-1, *np.flatnonzero(self.done[:, lane])]) for lane in range(self.done.shape[1])]
        self.episodes = [(b, int(t), int(t - s)) for b, at in ends for s, t in itertools.pairwise(at)]


class HostTrial(Trial):
    """An environment that keeps its state in the object: lanes are run one after another, from different seeds."""

    on_host = True

    @functools.cached_property
    def starts(self) -> tuple[Any, dict[str, Any]]:
        return {}, stack([self._reset(self.seed + lane) for lane in range(STARTS)])

    def _reset(self, seed: int | None) -> dict[str, Any]:
        return jax.tree.map(np.array, self.row(self.run(self.dialect.reset.format(key=f"seed={seed}")), _ON_RESET))

    @functools.cached_property
    def record(self) -> Record:
        return self.replay(STEPS)

    @property
    def first_step(self) -> Any:
        return self.record

    def replay(self, steps: int) -> Record:
        """Steps all lanes for a quarter of the time; all are as long as the shortest one, which had its share."""
        until = time.perf_counter() + self.seconds / 4  # a property may replay twice
        lanes: list[list[Any]] = []
        for lane in range(LANES):
            self._reset(self.seed + lane)
            self.env.action_space.seed(self.seed + lane)
            rows: list[Any] = []
            stop = time.perf_counter() + (until - time.perf_counter()) / (LANES - lane)
            while len(rows) < min([steps, *map(len, lanes)]) and (len(rows) < 10 or time.perf_counter() < stop):
                if rows and rows[-1]["done"]:
                    self._reset(None)
                row = self.row(self.run(self.dialect.action, self.dialect.step), ON_STEP)
                rows.append(jax.tree.map(np.array, row))
            lanes.append(rows)
        return Record([stack(rows) for rows in zip(*lanes, strict=False)], {})


def leaves(values: Any) -> dict[str, Any]:
    return {tree.path_name(path): x for path, x in jax.tree_util.tree_leaves_with_path(values)}


def ended(row: dict[str, Any]) -> Any:
    """Returns whether the episodes of lanes ended, of all agents (``bool[B]``)."""
    done = np.asarray(row["done"])
    return done.astype(bool).reshape(len(done), -1).all(-1)
