"""Stacks that combine features, drawn by a generator, and what must hold for each of them.

``python -m tests.compositions --seed 5 --count 200`` checks other stacks than the tests do and prints what it found;
``--refused`` prints the table of the pairs that are refused.
"""

import argparse
import collections
import contextlib
import dataclasses
import functools
import itertools
import json
import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import random, specs, tree
from jaxenv.core import Task, Transition, registry
from jaxenv.wrappers import LevelReplay

GAMES, STEPS = 4, 13
ORDER = np.array([2, 0, 3, 1], np.int32)  # the games in another order
LIMIT = np.array([3, 5, 2, 4], np.int32)
RATE = np.array([1.0, 3.0, 2.0, 5.0], np.float32)
MASK = np.array([True, False, True, True])

# --- three tasks whose returns follow from their levels ---------------------------------------------------------------


@tree.struct
class Params:
    rate: float = tree.leaf(default=2.0, low=0)


@tree.struct
class Plan:
    """A level, int32 ``[B]`` each: the steps of an episode, and what a step pays or who begins."""

    length: jax.Array
    value: jax.Array


@tree.struct
class State:
    plan: Plan
    step: jax.Array
    seen: jax.Array  # float32 [B], a random number and the action


class Planned(Task):
    """An episode of as many steps as its level has."""

    params: Params = Params()
    Level = Plan
    highest = 4  # of the level's value, from 1

    def sample_level(self, stream):
        length = random.integers(random.fold_in(stream, "length"), (), 1, 7)
        return Plan(length, random.integers(stream, (), 1, self.highest + 1))

    def mutate_level(self, level, stream):
        return Plan(jnp.clip(level.length + random.integers(stream, (), -1, 2), 1, 7), level.value)

    def check_level(self, level):
        if np.any(np.asarray(level.length) < 1):
            raise ValueError(f"{self}: level.length must be at least 1")

    def initial(self, stream, level):
        return State(level, jnp.zeros(stream.shape, jnp.int32), random.uniform(random.fold_in(stream, "seen")))

    def moved(self, state, action, stream):
        """The state one step later, and whether that is the end."""
        seen = random.uniform(stream) + action.astype(jnp.float32)
        after = State(state.plan, state.step + 1, seen)
        return after, after.step >= state.plan.length

    def numbers(self, state):
        numbers = [state.plan.length, state.plan.value, state.step]
        return jnp.stack([*(x.astype(jnp.float32) for x in numbers), state.seen], axis=1)

    def state_info(self, state):
        return {"length": state.plan.length, "value": state.plan.value, "step": state.step}

    def observe(self, state):
        return self.numbers(state)

    def observation_spec(self):
        return specs.Array((4,), np.float32, "numbers")

    def action_spec(self):
        return specs.discrete(3)

    def draw(self, state, canvas):
        return canvas.disc(0.5, 0.5, 0.05 * state.step.astype(jnp.float32), (200, 50, 50))


class Walk(Planned):
    """One agent, paid ``value * rate`` a step, and the value again as a bonus."""

    summed_entries = frozenset({"bonus"})

    def transition(self, state, action, stream):
        after, over = self.moved(state, action, stream)
        pay = state.plan.value.astype(jnp.float32)
        return Transition(after, pay * self.params.rate, over, {"bonus": pay, "latest": after.step})


class Team(Planned):
    """Three agents, paid ``rate``, ``10 * rate`` and ``100 * rate`` a step; the first leaves after ``value`` steps."""

    agent_names = ("a", "b", "c")
    summed_entries = frozenset({"bonus"})
    PAY = np.array([1, 10, 100], np.float32)

    def present(self, state):
        """The agents that are in the game, bool ``[B, A]``."""
        leave = jnp.stack([state.plan.value, *[jnp.full_like(state.plan.value, 99)] * 2], axis=1)
        return state.step[:, None] < leave

    def transition(self, state, action, stream):
        after, over = self.moved(state, action[:, 0] + 3 * action[:, 1] + 9 * action[:, 2], stream)
        here = self.present(state)
        pay = jnp.where(here, self.PAY[None], np.float32(0))
        left = here & ~self.present(after)
        rate = jnp.broadcast_to(jnp.asarray(self.params.rate), over.shape)
        return Transition(after, pay * rate[:, None], over, {"bonus": pay, "agent_terminated": left})

    def state_info(self, state):
        by_agent = {k: jnp.repeat(x[:, None], 3, axis=1) for k, x in super().state_info(state).items()}
        return {**by_agent, "agent_alive": self.present(state)}

    def observe(self, state):
        numbers = jnp.repeat(self.numbers(state)[:, None], 3, axis=1)
        return jnp.concatenate([numbers, jnp.broadcast_to(self.PAY[None, :, None], (len(state.step), 3, 1))], axis=2)

    def observation_spec(self):
        return specs.Array((3, 5), np.float32, "numbers")

    def action_spec(self):
        return specs.Bounded((3,), np.int32, 0, 2)


class Race(Planned):
    """Two players in turns; the last move wins. The value of a level says who begins, 1 or 2."""

    agent_names = ("first", "second")
    turns = True
    highest = 2
    summed_entries = frozenset({"bonus"})

    def player(self, state):
        return (state.plan.value - 1 + state.step) % 2

    def transition(self, state, action, stream):
        after, over = self.moved(state, action, stream)
        mover = self.player(state)
        result = jnp.where(over, self.params.rate, np.float32(0))
        reward = jnp.stack([jnp.where(mover == p, result, -result) for p in (0, 1)], axis=1)
        return Transition(after, reward, over, {"bonus": jnp.ones_like(result)})

    def state_info(self, state):
        mask = jnp.ones((*state.step.shape, 3), bool)
        return {**super().state_info(state), "player": self.player(state), "action_mask": mask}


TASKS = {"walk": Walk, "team": Team, "race": Race}

# --- the choices ------------------------------------------------------------------------------------------------------

# Wrappers by the names that the table shows. Those outside restarts come last.
INSIDE: dict[str, Any] = {
    "ActionRepeat": ("ActionRepeat", {"num": 2}),
    "MaxAndSkip": ("MaxAndSkip", {"num": 3}),
    "NoopReset": ("NoopReset", {"maximum": 2}),
    "StickyAction": ("StickyAction", {"probability": 0.4}),
    "ActionDelay": ("ActionDelay", {"delay": 1}),
    "FrameStack": ("FrameStack", {"num": 2}),
    "History": ("History", {"num": 2, "include_actions": True}),
    "PreviousActionAndReward": "PreviousActionAndReward",
    "DelayObservation": ("DelayObservation", {"delay": 1}),
    "ResampleParams": ("ResampleParams", {"distributions": {"rate": (1.0, 3.0)}}),
    "StateInInfo": "StateInInfo",
    "EpisodeStatistics": "EpisodeStatistics",
    "RunStats": ("RunStats", {"num_recent": 2}),
    "FixedResetKey": "FixedResetKey",
    "Trials": ("Trials", {"num_episodes": 2}),
    "RandomFirstEpisodeLength": ("RandomFirstEpisodeLength", {"maximum": 3}),
    "PixelObservation": ("PixelObservation", {"size": 8}),
    "VectorReward": ("VectorReward", {"names": ("bonus",)}),
}
OUTSIDE: dict[str, Any] = {
    "NormalizeObservation": "NormalizeObservation",
    "NormalizeReward": "NormalizeReward",
    "ShapedReward": ("ShapedReward", {"steps": 10**9, "entry": "bonus"}),
}
AGENTS = {
    "walk": ("one agent",),
    "team": ("axis of agents", "AgentsAsLanes"),
    "race": ("turns", "Opponent first", "Opponent second", "Opponent drawn"),
}
STARTS = ("new levels", "level", "from_state", "with_level", "LevelReplay", "LevelReplay of states")
MODES = ("next_step", "same_step", None)
LIMITS = ("no limit", "limit", "limit per lane")
BATCH = frozenset({"NormalizeObservation", "NormalizeReward"})  # all lanes share their state


@dataclasses.dataclass(frozen=True)
class Choice:
    """The features of a stack."""

    task: str
    agents: str
    start: str
    mode: str | None
    limit: str
    per_lane: bool  # values of a param
    wrappers: tuple[str, ...]  # innermost first

    @property
    def features(self) -> tuple[str, ...]:
        mode = "no restarts" if self.mode is None else self.mode
        values = ("params per lane",) if self.per_lane else ()
        return (self.agents, self.start, mode, self.limit, *values, *self.wrappers)

    @property
    def lanes_per_game(self) -> int:
        return 3 if self.agents == "AgentsAsLanes" else 1


def choices(count: int, seed: int = 0) -> list[Choice]:
    """Draws stacks; each of the first ones has a pair of features that no earlier one has."""
    draws = np.random.default_rng(seed)
    found: list[Choice] = []
    pairs: set[frozenset[str]] = set()
    while len(found) < count:
        # Of a few draws that which has most new pairs.
        drawn = [_draw(draws) for _ in range(8)]
        new = [{frozenset(p) for p in _pairs(choice)} - pairs for choice in drawn]
        best = max(range(len(drawn)), key=lambda k: len(new[k]))
        pairs |= new[best]
        found.append(drawn[best])
    return found


def _draw(draws: np.random.Generator) -> Choice:
    def one(options: Any) -> Any:
        return options[int(draws.integers(len(options)))]

    task = one(("walk", "team", "race"))
    agents = one(AGENTS[task])
    inside = list(draws.permutation(list(INSIDE))[: int(draws.integers(0, 4))])
    inside.sort(key="FixedResetKey".__ne__)  # which stands around the task itself
    outside = list(draws.permutation(list(OUTSIDE))[: int(draws.integers(0, 2))])
    if agents.startswith("Opponent"):
        inside.insert(int(draws.integers(len(inside) + 1)), agents)
    if agents == "AgentsAsLanes":
        outside.insert(int(draws.integers(len(outside) + 1)), agents)
    start = one(STARTS)
    if start.startswith("LevelReplay"):
        outside.insert(int(draws.integers(len(outside) + 1)), start)
    wrappers = tuple(map(str, (*inside, *outside)))
    return Choice(task, agents, start, one(MODES), one(LIMITS), bool(draws.integers(2)), wrappers)


def _pairs(choice: Choice) -> set[tuple[str, str]]:
    return {(a, b) for a in choice.features for b in choice.features if a < b}


def stack(choice: Choice) -> jaxenv.Environment:
    """Makes the stack of a choice; raises a ``ValueError`` where it is refused."""
    special = {
        "AgentsAsLanes": "AgentsAsLanes",
        "LevelReplay": "LevelReplay",
        "LevelReplay of states": ("LevelReplay", {"of": "state"}),
        "FixedResetKey": lambda env: jaxenv.wrappers.FixedResetKey(env, jax.random.key(8)),
        **{f"Opponent {side}": ("Opponent", {"side": side}) for side in ("first", "second", "drawn")},
    }
    known = INSIDE | OUTSIDE | special
    limit = {"no limit": 0, "limit": 4, "limit per lane": LIMIT}[choice.limit]
    return jaxenv.make(
        f"{choice.task.title()}-composed",
        GAMES * choice.lanes_per_game,
        max_episode_steps=limit,
        autoreset=choice.mode,
        wrappers=[known[name] for name in choice.wrappers],
        **({"rate": RATE} if choice.per_lane else {}),
    )


@contextlib.contextmanager
def registered() -> Any:
    """Registers the tasks."""
    before = dict(registry._registry)
    for name, task in TASKS.items():
        jaxenv.register(f"{name.title()}-composed", task)
    try:
        yield
    finally:
        registry._registry.clear()
        registry._registry.update(before)


# --- what must hold ---------------------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames="restarts")
def _played(env: Any, start: Any, actions: Any, restarts: bool) -> Any:
    """Plays and returns the rows ``[T + 1, B, ...]``; ``restarts`` restarts lanes that ended, in place of a step."""

    def one(carry: Any, action: Any) -> Any:
        state, row = carry
        stepped = env.step(state, action)
        if restarts:
            stepped = tree.where(row.is_last(), jaxenv.reset_where(env, state, row, row.is_last()), stepped)
        return stepped, stepped[1]

    _, rows = jax.lax.scan(one, start, actions)
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start[1], rows)


class Wrong(Exception):
    """A property does not hold."""


def check(choice: Choice) -> str:
    """Checks the stack of a choice; returns "" or why the stack is refused.

    Raises:
        Wrong: with the property and what was found.
    """
    try:
        env = stack(choice)
    except ValueError as refusal:
        return str(refusal)
    key, lanes = jax.random.key(7), env.num_envs
    level = None
    try:
        if choice.start in ("level", "with_level", "LevelReplay"):
            level = jaxenv.sample_level(env, jax.random.key(3))
            _require("levels are those of games", len(level_values(level)) == GAMES)
        if choice.start == "with_level":
            env = env.with_level(level)
    except ValueError as refusal:
        return str(refusal)
    restarts = choice.mode is None and choice.lanes_per_game == 1
    actions = specs.sample(env.action_spec(), jax.random.key(1), (STEPS, lanes))
    number = np.arange(lanes, dtype=np.int32)
    order = (ORDER[:, None] * choice.lanes_per_game + np.arange(choice.lanes_per_game)).ravel().astype(np.int32)

    def begun(env: Any, key: Any, env_id: Any, games: Any) -> Any:
        """Resets; ``games`` are the numbers of the games, from which levels and states are taken."""
        taken = lambda values: jax.tree.map(lambda x: x[games], values)  # noqa: E731
        if choice.start == "level":
            return env.reset(key, env_id, level=taken(level))
        if choice.start == "from_state":
            return env.reset(key, env_id, from_state=state_of(env, env_id, actions))
        state, row = env.reset(key, env_id)
        if choice.start == "LevelReplay":
            state = env_assign(env, state, taken(level), jnp.asarray(MASK[games]))
        if choice.start == "LevelReplay of states":
            state = env_assign(env, state, state_of(env, env_id, actions), jnp.asarray(MASK[games]))
        return state, row

    every = np.arange(GAMES)
    try:
        start = begun(env, key, number, every)
    except ValueError as refusal:
        if not re.search(r"LevelReplay: its episodes start in a|cannot start in a state|Multitask", str(refusal)):
            raise
        return str(refusal)
    rows = _played(env, start, actions, restarts)

    # Lanes do not matter to each other, nor where they stand.
    if not BATCH & set(choice.wrappers):
        moved = begun(env.take(jnp.asarray(order)), key, order, ORDER)
        found = _played(env.take(jnp.asarray(order)), moved, jax.tree.map(lambda x: x[:, order], actions), restarts)
        _equal("lanes in another order", jax.tree.map(lambda x: x[:, order], rows), found)

    # A stack that was saved is the stack.
    data = saved(env)
    if data is not None:
        again = jaxenv.from_data(json.loads(json.dumps(data)))
        _equal("a saved stack", rows, _played(again, begun(again, key, number, every), actions, restarts))

    # Episodes start where they are to: in a state, or in a level that holds for all episodes of some lanes.
    given = env.env_info_of(state_of(env, number, actions)) if "state" in choice.start else level
    _check_places(choice, given, jax.device_get(rows))

    # A level starts the same under every key.
    if level is not None and choice.start != "LevelReplay":
        other = begun(env, jax.random.key(8), number, every)[1]
        for name in ("length", "value"):
            same = np.array_equal(other.env_info[name], start[1].env_info[name])
            _require(f"a level fixes {name}", same or "NoopReset" in choice.wrappers)
            if not set(choice.wrappers) & {"NoopReset"}:
                shown = np.asarray(other.env_info[name]).reshape(GAMES, -1)[:, 0]
                _require(
                    f"{name} is that of the level", np.array_equal(shown, np.asarray(getattr(level_of(level), name)))
                )

    # Lanes without an assigned level start where they would without LevelReplay.
    if choice.start.startswith("LevelReplay") and not BATCH & set(choice.wrappers):
        wrappers = tuple(name for name in choice.wrappers if name != choice.start)
        plain = stack(dataclasses.replace(choice, start="new levels", wrappers=wrappers))
        free = np.repeat(~MASK, choice.lanes_per_game)
        expected = _played(plain, plain.reset(key, number), actions, restarts)
        _equal("lanes without a level", *(jax.tree.map(lambda x: x[:, free], found) for found in (expected, rows)))

    _check_order(choice, jax.device_get(rows))

    # Returns are those of a model of one lane.
    if "RandomFirstEpisodeLength" not in choice.wrappers and (restarts or choice.mode):
        _check_returns(choice, env, jax.device_get(rows))
    return ""


def level_of(level: Any) -> Plan:
    """The task's level inside a level of the stack."""
    return level["level"] if isinstance(level, dict) else level


def level_values(level: Any) -> Any:
    return level_of(level).length


def env_assign(env: Any, state: Any, start: Any, mask: Any) -> Any:
    """Assigns starts by the `LevelReplay` of a stack."""
    if isinstance(env, LevelReplay):
        return env.assign(state, start, mask)
    inner = env.inner(state)
    assigned = env_assign(env.env, inner, env.inner(start) if isinstance(start, type(state)) else start, mask)
    return jax.tree.map(lambda x: assigned if x is inner else x, state, is_leaf=lambda x: x is inner)


def state_of(env: Any, env_id: Any, actions: Any) -> Any:
    """A state of the stack, two steps after a start."""
    state, _ = env.reset(jax.random.key(5), env_id)
    for _ in range(2):
        state, _ = env.step(state, specs.zeros(env.action_spec(), env_id.shape))
    return state


def saved(env: Any) -> Any:
    """The stack as data, ``None`` where that is refused."""
    try:
        return jaxenv.to_data(env)
    except ValueError:
        return None


def _require(what: str, holds: Any) -> None:
    if not holds:
        raise Wrong(what)


def _equal(what: str, a: Any, b: Any) -> None:
    for (path, x), y in zip(
        jax.tree_util.tree_leaves_with_path(jax.device_get(a)), jax.tree.leaves(jax.device_get(b)), strict=True
    ):
        if not np.array_equal(x, y, equal_nan=x.dtype.kind == "f") and not np.allclose(x, y, rtol=1e-5, atol=1e-5):
            raise Wrong(f"{what}: {tree.path_name(path)} differs, first at {np.argwhere(x != y)[0].tolist()}")


def _check_places(choice: Choice, given: Any, rows: Any) -> None:
    """Compares the first rows of episodes with the levels or states in which they are to start."""
    if given is None:
        return
    begins = _begins(choice, rows)
    where = begins & (MASK if choice.start.startswith("LevelReplay") else True)
    where[0] &= not choice.start.startswith("LevelReplay")
    if choice.start in ("level", "from_state"):  # the first episodes alone
        where[1:] = False
    moved = "NoopReset" in choice.wrappers or (choice.agents.startswith("Opponent") and "state" not in choice.start)
    for name in ("length", "value", "step", "params")[: None if "ResampleParams" in choice.wrappers else 3]:
        if name == "step" and moved:
            continue
        shown, wanted = rows.env_info[name], _wanted(choice, given, name)
        shown, wanted = (x["rate"] if isinstance(x, dict) else x for x in (shown, wanted))
        shown = np.asarray(shown).reshape(STEPS + 1, GAMES, -1)[..., 0]
        wrong = where & (shown != np.asarray(wanted).reshape(GAMES, -1)[:, 0])
        _require(f"episodes start in their {name}: {np.argwhere(wrong)[:1].tolist()}", not wrong.any())


def _wanted(choice: Choice, given: Any, name: str) -> Any:
    """What an episode shows in its first row that starts in ``given``, entries of a state or a level."""
    if "state" in choice.start or name == "params":
        return given[name]
    return np.zeros(GAMES) if name == "step" else getattr(level_of(given), name)


def _begins(choice: Choice, rows: Any) -> np.ndarray:
    """The rows with which episodes of the games begin, bool [T, games]."""
    kinds = np.asarray(rows.step_type).reshape(STEPS + 1, GAMES, -1)
    first = (kinds == 0).all(axis=2) & np.concatenate([np.ones((1, GAMES), bool), (kinds[:-1] != 0).any(axis=2)])
    return first | ((kinds == 2).all(axis=2) if choice.mode == "same_step" else False)


def _check_order(choice: Choice, rows: Any) -> None:
    """Checks that step types follow each other, that agents who left wait, and that games begin before their end."""
    before, kinds = rows.step_type[:-1], rows.step_type[1:]
    if choice.mode == "same_step":
        _require("no row is FIRST after a start", not np.any(kinds == 0) and not np.any(before[1:] == 0))
    elif choice.mode or choice.lanes_per_game == 1:
        _require("FIRST follows LAST", np.all(kinds[before == 2] == 0))
        if choice.lanes_per_game == 1:
            _require("only LAST is followed by FIRST", np.all(before[kinds == 0] == 2))
        else:
            gone = ~rows.env_info["agent_alive"]
            _require("agents that left wait", not np.any(gone & (rows.step_type == 1)))
            _require("agents that wait earn nothing", not np.any(rows.reward[gone & (rows.step_type == 0)]))
    if choice.start in ("new levels", "level", "with_level"):
        first = rows.step_type == 0
        if choice.mode == "same_step":
            first |= rows.step_type == 2
        length, step = (rows.env_info[name].reshape(*first.shape, -1)[..., 0] for name in ("length", "step"))
        first &= ~_waiting(rows)
        _require("games begin before their end", np.all(step[first] < length[first]))


def _waiting(rows: Any) -> np.ndarray:
    """The rows of agents that left, bool [T, B]."""
    alive = rows.env_info.get("agent_alive")
    return ~alive if alive is not None and alive.ndim == 2 else np.zeros(rows.step_type.shape, bool)


def _check_returns(choice: Choice, env: Any, rows: Any) -> None:
    """Compares rewards, bonuses, ends and lengths of all complete episodes with what their levels say."""
    pays = not set(choice.wrappers) & {"NormalizeReward", "VectorReward", "ShapedReward"}
    for lane in range(env.num_envs):
        firsts, total, bonus, length = [], 0.0, 0.0, 0  # rows with which the episode, or each one of a trial, begins
        for t in range(STEPS + 1):
            row = jax.tree.map(lambda x, t=t, lane=lane: x[t, lane], rows)
            kind = int(row.step_type)
            if firsts and kind != 0:
                total, bonus = total + np.asarray(row.reward, np.float64), bonus + row.env_info["bonus"]
                length += 1
            if kind == 2 and firsts:
                models, where = [_model(choice, first, lane) for first in firsts], f"lane {lane}, row {t}"
                _require(f"{where}: episodes {len(firsts)}", len(firsts) == (2 if "Trials" in choice.wrappers else 1))
                model = Expected(*(sum(x) for x in list(zip(*models, strict=True))[:3]), models[-1].terminated)
                if pays:
                    _require(
                        f"{where}: return {total}, a model has {model}", np.allclose(total, model.total, rtol=1e-4)
                    )
                _require(f"{where}: bonus {bonus}, a model has {model}", np.array_equal(bonus, model.bonus))
                _require(f"{where}: {length} rows, a model has {model}", length == model.length)
                _require(f"{where}: discount {row.discount}, {model}", bool(row.discount == 0) == model.terminated)
                firsts = []
            if kind == 0 or (kind == 2 and choice.mode == "same_step"):
                firsts, total, bonus, length = [row], 0.0, 0.0, 0
            elif firsts and "trial" in row.env_info and row.env_info["trial"]["episode_end"]:
                firsts.append(row)


class Expected(NamedTuple):
    """What a model says of an episode."""

    total: Any
    bonus: Any
    length: int
    terminated: bool


def _model(choice: Choice, first: Any, lane: int) -> Expected:
    """Computes an episode from what its first row shows."""
    one = lambda name: int(np.ravel(first.env_info[name])[0])  # noqa: E731
    length, value, step, game = one("length"), one("value"), one("step"), lane // choice.lanes_per_game
    if "params" in first.env_info:
        rate = float(np.ravel(first.env_info["params"]["rate"])[0])
    else:
        rate = float(RATE[game]) if choice.per_lane else 2.0
    limit = {"no limit": 10**6, "limit": 4, "limit per lane": int(LIMIT[game])}[choice.limit]
    repeat = int(np.prod([{"ActionRepeat": 2, "MaxAndSkip": 3}.get(name, 1) for name in choice.wrappers]))
    per_row = repeat * (2 if choice.agents.startswith("Opponent") else 1)
    left = max(length - step, 1)  # a start in a state at the end of the task goes on for a step
    taken = min(left, limit * per_row)
    ends, rows = taken == left, -(-taken // per_row)
    if choice.task == "walk":
        return Expected(value * rate * taken, value * taken, rows, ends)
    if choice.task == "team":
        stays = [max(min(step + taken, value) - step, 0), taken, taken]
        totals = Team.PAY * rate * stays, Team.PAY * stays
        if choice.lanes_per_game == 1:
            return Expected(*totals, rows, ends)
        agent = lane % 3
        if agent == 0 and value <= step + taken:
            return Expected(totals[0][0], totals[1][0], -(-stays[0] // per_row), True)
        return Expected(totals[0][agent], totals[1][agent], rows, ends)
    result = rate if ends else 0.0
    if choice.agents == "turns":
        last = (one("player") + left - 1) % 2
        return Expected(np.array([result, -result]) * (1 if last == 0 else -1), taken, rows, ends)
    return Expected(result * (1 if left % 2 else -1), taken, rows, ends)


# --- the pairs that are refused ---------------------------------------------------------------------------------------


def refusals() -> list[tuple[str, str, str, str]]:
    """Returns the pairs of features that are refused: one, how, the other, and the reason.

    ``how`` is "with" for features that no stack combines, and "outside" for a wrapper that does not stand outside of
    another one. A pair stands in the smallest stack that has both.
    """
    found = []
    for task, kinds in AGENTS.items():
        for agents in kinds[:2]:  # one side of an Opponent stands for all
            for other in (*INSIDE, *OUTSIDE, *STARTS[1:], "same_step", "no restarts"):
                reasons = [_reason(_with(task, agents, (other,), outer)) for outer in (True, False)]
                if all(reasons):
                    found.append((agents, "with", other, reasons[0]))
                elif any(reasons) and other in INSIDE | OUTSIDE and agents not in ("axis of agents", "turns"):
                    pair = (agents, other) if reasons[0] else (other, agents)
                    found.append((pair[0], "outside", pair[1], "".join(reasons)))
    plain = [name for name in INSIDE | OUTSIDE if not _reason(_with("walk", "one agent", (name,)))]
    for one, other in itertools.combinations(plain, 2):
        reasons = [_reason(_with("walk", "one agent", names)) for names in ((one, other), (other, one))]
        if all(reasons):
            found.append((one, "with", other, reasons[0]))
        elif any(reasons):
            pair = (other, one) if reasons[0] else (one, other)
            found.append((pair[0], "outside", pair[1], "".join(reasons)))
    for one in plain:
        for other in ("same_step", "no restarts", *STARTS[1:]):
            if why := _reason(_with("walk", "one agent", (one, other))):
                found.append((one, "with", other, why))
    return found


def _with(task: str, agents: str, names: tuple[str, ...], outer: bool = True) -> Choice:
    """The smallest stack with these features; the wrapper of the agents is the outermost or the innermost."""
    mode: str | None = "same_step" if "same_step" in names else "next_step"
    mode = None if "no restarts" in names else mode
    start = next((name for name in names if name in STARTS), STARTS[0])
    wrappers = [name for name in names if name in INSIDE or name in OUTSIDE]
    if agents in ("AgentsAsLanes", "Opponent first", "Opponent second", "Opponent drawn"):
        wrappers.insert(len(wrappers) if outer else 0, agents)
    if start.startswith("LevelReplay"):
        wrappers.append(start)
    return Choice(task, agents, start, mode, "limit", False, tuple(wrappers))


def _reason(choice: Choice) -> str:
    """Why a stack is refused; "" if it is not."""
    key = jax.random.key(0)
    try:
        env = stack(choice)
        if choice.start == "with_level":
            env.with_level(jaxenv.sample_level(env, key))
        elif choice.start == "level":
            jax.eval_shape(lambda: env.reset(key, level=jaxenv.sample_level(env, key)))
        elif choice.start == "from_state":
            jax.eval_shape(lambda: env.reset(key, from_state=env.reset(key)[0]))
    except ValueError as refusal:
        return str(refusal)
    return ""


def table(found: list[tuple[str, str, str, str]]) -> str:
    """The refused pairs as a table in Markdown; those with one reason share a row."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for one, how, other, why in found:
        short = re.sub(r"<[^ ]*>|\b(Walk|Team|Race)-composed\b", "env", why.split(": ", 1)[-1])
        short = re.sub(r", got .*?( of env)?(?=: |$)", "", short)
        one = one.removesuffix(" first")
        if how == "outside":
            short = short.replace(one, "the first").replace(other, "the second")
        rows.setdefault((one, how, short), []).append(other)
    lines = ["| feature | not | feature | reason |", "|---|---|---|---|"]
    return "\n".join(
        lines + [f"| {one} | {how} | {', '.join(others)} | {why} |" for (one, how, why), others in rows.items()]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--refused", action="store_true")
    options = parser.parse_args()
    if options.refused:
        with registered():
            print(table(refusals()))
        return
    jax.config.update("jax_disable_most_optimizations", True)
    refused: collections.Counter[str] = collections.Counter()
    equal = wrong = 0
    with registered():
        for number, choice in enumerate(choices(options.count, options.seed)):
            if number < options.start:
                continue
            try:
                why = check(choice)
            except Exception as error:
                wrong += 1
                print(number, choice, f"\n   {type(error).__name__}: {error}"[:600], flush=True)
                continue
            equal += not why
            if why:
                refused[re.sub(r"<.*>", "<...>", why)[:150]] += 1
    print(f"{equal} equal, {sum(refused.values())} refused, {wrong} wrong")
    for why, count in refused.most_common():
        print(count, why)


if __name__ == "__main__":
    main()
