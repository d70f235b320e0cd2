"""The properties that `certify` checks, written once over the dialects of all APIs: every public function is one."""

import copy
import itertools
import math
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.core
import numpy as np

from jaxenv import tree
from jaxenv._util.programs import equations
from jaxenv.testing._certify._analysis import draws, ragged, violations
from jaxenv.testing._certify._dialects import Failure
from jaxenv.testing._certify._trial import CLOCKS, KEYS, LANES, ON_STEP, STARTS, Trial, ended, leaves
from jaxenv.testing._compare import take_steps as at
from jaxenv.testing._programs import quick_options
from jaxenv.testing.report import NotApplicable, Undecided, described, require_applicable
from jaxenv.tree._typed_keys import to_words

_TOLERANCE = 1e-3  # two programs may round differently, and the physics of a step amplifies that
_CHANCE = 1e-6  # of a false alarm of the comparisons of starts


def _forbid(wrong: Any, expected: str, seen: Any, show: str, at_reset: bool = False) -> None:
    """Raises a `Failure` at the first true element of ``bool[T, B]``, or one; ``seen`` is text, or ``[T, B, ...]``."""
    if np.any(wrong):
        t, lane = map(int, np.argwhere(np.atleast_2d(wrong))[0])
        seen = seen if isinstance(seen, str) else str(seen[t, lane])
        raise Failure(expected, seen, lane, None if at_reset else t, show)


def runs_under_jit(trial: Trial) -> None:
    """Reset and step can be traced and compiled."""
    if trial.on_host and (name := ragged(trial.value(trial.dialect.space))):
        raise NotApplicable(f"values of the space {name} have no fixed shape and dtype")
    reset, how = trial.dialect.reset.format(key="key"), "" if trial.on_host else " under jax.jit"
    for step, line, stage in ((None, reset, "starts"), (0, trial.dialect.step, "first_step")):
        try:
            getattr(trial, stage)
        except Failure as missing:
            missing.step = step
            raise
        except Exception as error:
            seen = " ".join(described(error).split())
            seen = seen if len(seen) <= 300 else f"{seen[:150]} ... {seen[-140:]}"
            call = re.sub(r"^(env\.\w+)", r"jax.jit(\1)", line.partition(" = ")[2])
            raise Failure(f"`{line}` to run{how}", seen, step=step, after=(call,) if how else ()) from None


def same_types(trial: Trial) -> str | None:
    """What the loop carries keeps its tree, shapes and dtypes, as ``lax.scan`` demands."""
    key = trial.keys[0]
    first = jax.eval_shape(trial.begin, key)[0]
    second = jax.eval_shape(trial.advance, first, key)
    third = jax.eval_shape(trial.advance, second[0], key)
    for step, (a, b) in enumerate(((first, second[0]), (second, third))):
        x, y = ({n: f"{x.dtype}{list(x.shape)}" for n, x in leaves(values).items()} for values in (a, b))
        changed = [n for n in x | y if x.get(n) != y.get(n)]
        if changed or tree.structure(a) != tree.structure(b):
            name = changed[0] if changed else "the tree"
            expected = f"{name} to stay {x.get(name, 'absent' if changed else 'the same')} in a step"
            seen = y.get(name, "absent" if changed else "other classes or static fields")
            raise Failure(expected, seen, 0, step, f"jax.tree.map(jax.typeof, {trial.dialect.carry[-1]})", "steps")
    weak = [n for n, x in leaves(first).items() if x.weak_type != leaves(second[0])[n].weak_type]
    return f"jit compiles the second step again, as the weak type of {', '.join(weak)} changes" if weak else None


def same_key_same_episode(trial: Trial) -> None:
    """A second run from equal keys gives equal rows."""
    try:
        if trial.on_host:
            first, again = (trial.replay(100).rows for _ in range(2))  # type: ignore[attr-defined]
            for t in range(min(len(first["done"]), len(again["done"]))):
                _compare(trial, at(first, t), at(again, t), "equal rows for an equal seed", "in a second run", 0, t)
            return
        _compare(trial, trial.starts[1], trial.begin_lanes(trial.keys)[1], "equal starts for equal keys", "again", 0)
        for t, (carry, key) in trial.record.kept.items():
            row = trial.advance_lanes(carry, key)[1]
            _compare(trial, at(trial.record.rows, t), row, "equal rows for equal keys", "again", 0, t)
    except Failure as found:
        found.runs = 8 if trial.on_host else 2  # an engine such as Box2D differs now and then
        raise


def pure(trial: Trial) -> None:
    """Another instance, traced later, does the same, and the object stays as it was."""
    other = trial.source.make() if trial.source.make else (copy.copy(trial.env), *trial.made[1:])
    twin = type(trial)(trial.source, trial.dialect, other, trial.seed, trial.seconds)
    start, row = at(trial.starts[1], 0), at(at(trial.record.rows, 0), 0)
    _compare_programs(trial, start, trial.begin_lanes, twin.begin_lanes, (trial.keys,))
    _compare_programs(trial, row, trial.advance_lanes, twin.advance_lanes, trial.record.kept[0], 0)
    for name, now in trial.numbers().items():
        old = trial.attributes.get(name, now)
        if any(isinstance(x, jax.core.Tracer) for x in now):
            raise Failure("no tracer to leave its trace", f"env.{name} holds one", 0, 0, f"env.{name}")
        if changed := [pair for pair in itertools.zip_longest(old, now) if not _same(*pair)]:
            seen = f"env.{name} went from {changed[0][0]} to {changed[0][1]}"
            raise Failure("reset and step to leave the object alone", seen, 0, 0, f"env.{name}", "reset")


def _compare_programs(trial: Trial, row: Any, program: Any, twin: Any, args: Any, t: int | None = None) -> None:
    """Compares ``row``, from ``program`` and lane 0, with the twin's, where their texts differ or call Python."""
    # Under another setting JAX traces the author's compiled functions again, and with them what NumPy draws there.
    with jax.numpy_rank_promotion("warn"), warnings.catch_warnings(action="ignore"):
        traced = twin.trace(*args)
    first, again = program.trace(*args).lower(), traced.lower()
    on_host = any("callback" in equation.primitive.name for equation in equations(traced.jaxpr))
    if on_host or first.as_text() != again.as_text():
        expected = f"the same {'start' if t is None else 'step'} from every instance"
        rows = again.compile()(*args)[1]
        try:
            _compare(trial, row, at(rows, 0), expected, "from another instance", _TOLERANCE, t, 0)
        except Failure as found:
            found.runs, found.instances = 2, True
            raise


def _same(a: Any, b: Any) -> bool:
    return np.array_equal(a, b) or np.asarray(a).tobytes() == np.asarray(b).tobytes()  # NaN does not equal NaN


def jit_equals_eager(trial: Trial) -> None:
    """A lane alone, without jit, does what it does in a compiled batch."""
    kept = list(trial.record.kept)
    _alone(trial, trial.advance, "without jit", ((kept[0], 0), (kept[-1], 1)))  # few: each compiles its loops again


def vmap_equals_single(trial: Trial) -> None:
    """A lane alone, compiled, does what it does in a batch: lanes do not leak into each other."""
    step = jax.jit(trial.advance, compiler_options=quick_options())
    _alone(trial, step, "alone", itertools.product(list(trial.record.kept)[:4], (0, LANES - 1)))


def _alone(trial: Trial, step: Callable[..., Any], how: str, places: Iterable[tuple[int, int]]) -> None:
    """Compares steps ``(t, lane)`` of single lanes with the record."""
    expected = f"a lane {how} to give the row that it has in a batch"
    for t, lane in places:
        row = step(*at(trial.record.kept[t], lane))[1]
        _compare(trial, at(at(trial.record.rows, t), lane), row, expected, how, _TOLERANCE, t, lane)


def arguments_unchanged(trial: Trial) -> None:
    """A step leaves the state that it is given as it is."""

    def step(carry: dict[str, Any], key: jax.Array) -> None:
        was = leaves(carry)
        trial.advance(carry, key)
        now = leaves(carry)
        if changed := [n for n in was | now if was.get(n) is not now.get(n)]:
            raise Failure("step to leave its arguments alone", f"{changed[0]} was replaced in the given state", 0, 0)

    jax.eval_shape(step, *at(trial.record.kept[0], 0))


def draws_from_its_keys(trial: Trial) -> str | None:
    """Random numbers come from the keys: other keys give other episodes, and each step draws other numbers."""
    distinct = len({x.tobytes() for x in _flat(trial.starts[1]["observation"])})
    show, restarts = trial.dialect.observation, trial.dialect.restarts
    if not trial.on_host:
        carry, key = at(trial.record.kept[0], 0)
        of_reset = draws(jax.make_jaxpr(trial.begin)(trial.keys[0]).jaxpr).counts
        of_step, noise, _ = draws(jax.make_jaxpr(trial.advance)(carry, key).jaxpr)
        # A step repeats the draws of a reset to restart. What it draws more often, or what a reset draws as well, is
        # no noise but a constant, and so is a matrix or a table, such as a fixed projection to observations.
        if distinct == 1 and any(not d.inputs and of_step[d] <= n * restarts for d, n in of_reset.items()):
            seen = f"one start for {STARTS} keys: it draws from a constant key"
            raise Failure("starts that differ with the key, as reset draws random numbers", seen, 1, None, show)
        lines = dict(noise)
        if found := [lines[d.computation] for d in of_step.keys() - of_reset.keys() if d.computation in lines]:
            where = f" at {min(found)}" if min(found) else ""
            seen = f"a draw from a constant key{where}: it is the same in every step"
            raise Failure("a step to draw from its key, or from one in the state", seen, 0, 0, show)
        done = trial.record.done
        running = ~done[:-1] & ~(done[1:] & restarts)  # both rows are of one episode
        held = {n: x for n, x in trial.record.rows["held"].items() if n.split(".")[-1] in KEYS}
        stuck = [n for n, x in held.items() if (x[1:] == x[:-1]).reshape(*running.shape, -1).all(-1)[running].all()]
        stays = {number for number, name in enumerate(leaves(carry)) if name in stuck}
        alone = any(draw.inputs and draw.inputs <= stays for draw in of_step)
        if running.any() and alone and len(stuck) == len(held) and _matters(trial, stuck):
            seen = f"{stuck[0]} stays the same through every episode, and so do the draws"
            expected = "a step that draws random numbers to replace the key in the state"
            path = next(
                p for p, _ in jax.tree_util.tree_leaves_with_path(to_words(carry)) if tree.path_name(p) == stuck[0]
            )
            raise Failure(expected, seen, 0, 0, path[0].key + jax.tree_util.keystr(path[1:]), "steps")
    return None if distinct > 1 else "all starts look the same, and reset draws nothing that shows"


def _matters(trial: Trial, stuck: list[str]) -> bool:
    """Says whether other keys in the state change a step within an episode, and not only the next start."""
    for before, key in trial.record.kept.values():
        swapped = jax.tree_util.tree_map_with_path(lambda p, x: x[::-1] if tree.path_name(p) in stuck else x, before)
        both = [trial.advance_lanes(carry, key)[:2] for carry in (before, swapped)]
        goes_on = np.flatnonzero(~(ended(both[0][1]) | ended(both[1][1])))
        shown = (leaves(to_words({**carry, **row, "held": {}})) for carry, row in both)
        mine, other = ({n: x[goes_on] for n, x in values.items() if n not in stuck} for values in shown)
        if not all(_same(x, other[name]) for name, x in mine.items()):
            return True
    return False


def _observations(trial: Trial) -> list[tuple[Any, str, bool]]:
    """Returns observations ``[T, B, ...]``, their expression, and whether a reset shows them."""
    d, rows = trial.dialect, trial.record.rows
    at_reset = jax.tree.map(lambda x: np.asarray(x)[None], trial.starts[1]["observation"])
    found = [(at_reset, d.observation, True), (rows["observation"], d.observation, False)]
    return [*found, (rows["final"], d.final, False)] if d.final else found


def observation_in_space(trial: Trial) -> None:
    """Observations have the shape, the dtype and the bounds of the declared space."""
    for values, show, is_reset in _observations(trial):
        for expected, seen, where in violations(trial.value(trial.dialect.space), values, trial.on_host, show):
            _forbid(where, expected, seen, f"repr({show})", is_reset)


def finite(trial: Trial) -> None:
    """No reward is NaN or infinite, and no observation NaN."""
    rewards = trial.record.rows["reward"], trial.dialect.reward, False
    for values, show, is_reset in (rewards, *_observations(trial)):
        for name, x in leaves(values).items():
            if x.dtype.kind == "f":
                wrong = np.isnan(x) if values is not rewards[0] else ~np.isfinite(x)
                label = f"{show}{f'.{name}' if name else ''} to be a number"
                _forbid(wrong.reshape(*x.shape[:2], -1).any(-1), label, x, show, is_reset)


def reward_shape(trial: Trial) -> None:
    """The reward is one number, or one per player or agent."""
    shape = tuple(trial.value(trial.dialect.reward_shape))
    for name, x in leaves(trial.record.rows["reward"]).items():
        label, seen = f"reward{f' of {name}' if name else ''}", f"{x.dtype}{list(x.shape[2:])}"
        wrong = x.shape[2:] != shape or x.dtype.kind not in "fiub"
        _forbid(wrong, f"{label} to be a number of shape {shape}", seen, trial.dialect.reward)


def done_is_a_flag(trial: Trial) -> None:
    """Booleans mark the end of an episode; in Brax 0.0 or 1.0 does."""
    rows, d = trial.record.rows, trial.dialect
    flags = {getattr(d, f): rows[f] for f in ("terminated", "truncated", "done") if f in rows}
    for text, x in (flags | {f"dones[{a!r}]": x for a, x in rows.get("dones", {}).items()}).items():
        wrong = x.shape[2:] != () or x.dtype.kind not in d.flags
        _forbid(wrong, f"{text} to be a boolean of shape ()", f"{x.dtype}{list(x.shape[2:])}", text)
        _forbid((x != 0) & (x != 1), f"{text} to be 0 or 1", x, text)


def step_types(trial: Trial) -> None:
    """A reset is FIRST and no step is; the discount lies in [0, 1], and 0 means a termination."""
    rows, d = trial.record.rows, trial.dialect
    require_applicable(d.step_type, "the API has no step types and no discounts")
    at_reset = trial.starts[1]["step_type"][None]
    _forbid(at_reset != 0, "step_type FIRST (0) at a reset", at_reset, d.step_type, at_reset=True)
    discount, step_type = rows["discount"], rows["step_type"]
    highest = 3 if d.api == "stoa" else 2
    _forbid((step_type < 1) | (step_type > highest), "step_type MID or LAST after a step", step_type, d.step_type)
    by_lane = discount.reshape(*step_type.shape, -1)
    show, is_zero = f"{d.discount}, {d.step_type}", (by_lane == 0).all(-1)
    _forbid(~((by_lane >= 0) & (by_lane <= 1)).all(-1), "a discount in [0, 1]", discount, show)
    _forbid(is_zero & (step_type == 1), "a discount above 0 in a row that ends no episode", discount, show)
    if d.api == "stoa":
        _forbid(~is_zero & (step_type == 2), "discount 0 at a termination", discount, show)
        _forbid(is_zero & (step_type == 3), "a discount above 0 at a truncation", discount, show)


def legal_actions(trial: Trial) -> None:
    """Masks are boolean and leave an action at each start; in Pgx and JaxMARL also while an episode runs."""
    rows, d = trial.record.rows, trial.dialect
    require_applicable("mask" in rows, "the environment states no legal actions")
    for name, at_reset in leaves(trial.starts[1]["mask"]).items():
        x, label = leaves(rows["mask"])[name], f"the mask{f' of {name}' if name else ''}"
        if d.api != "jaxmarl":
            _forbid(x.dtype != bool, f"{label} to be boolean", str(x.dtype), d.mask)
        none = ~at_reset.astype(bool).reshape(1, STARTS, -1).any(-1)
        _forbid(none, f"{label} to allow an action", "none", d.mask, at_reset=True)
        if d.api != "jumanji":  # a snake that cannot move has no legal action there, and its next one ends the episode
            active = ~trial.record.done & ~rows.get("dones", {}).get(name, False)
            _forbid(active & ~x.astype(bool).any(-1), f"{label} to allow an action", "none", d.mask)
        if d.api == "pgx":
            ended = rows["terminated"] & ~x.all(-1)
            _forbid(ended, "all actions to be legal in a terminated state, as Pgx documents", x, d.mask)


def agents(trial: Trial) -> None:
    """Observations, rewards and dones have an entry per agent, and ``"__all__"`` is set when all are done."""
    require_applicable(trial.dialect.dones, "the API has no dicts by agent")
    rows, names, number = trial.record.rows, list(trial.env.agents), trial.env.num_agents
    shown = f"{number} for {names}", "env.num_agents, env.agents"
    _forbid(number != len(names), "num_agents to be the number of agents", *shown, at_reset=True)
    for field in ("observation", "reward", "dones"):
        missing, text = sorted(set(names) - set(rows[field])), getattr(trial.dialect, field)
        _forbid(bool(missing), f"an entry of {text} for every agent", f"none for {missing}", f"{text}.keys()")
    wrong = np.all([rows["dones"][a] for a in names], axis=0) & ~trial.record.done
    _forbid(wrong, "dones['__all__'] when all agents are done", "False", "dones")


def ends_within_its_limit(trial: Trial) -> None:
    """No episode is longer than the limit that the environment states."""
    limit, done = trial.limit, trial.record.done
    if limit is None:
        raise NotApplicable("the environment states no limit of steps")
    age = np.zeros(done.shape, int)
    for t in range(len(done)):
        age[t] = 1 + (age[t - 1] * ~done[t - 1] if t else 0)
    name = re.search(r"time_limit|max_\w+", trial.dialect.limit)[0]  # type: ignore[index]
    _forbid(age > limit, f"an episode to end within {limit} steps, as {name} says", age, f"t, {trial.dialect.done}")
    if not done.any() and len(done) < limit:
        raise Undecided(f"the time sufficed for {len(done)} of {limit} steps, and no episode ended")


def _episodes(trial: Trial, least: int) -> list[tuple[int, int, int]]:
    found, steps = trial.record.episodes, len(trial.record.done)
    if len(found) < least:
        raise Undecided(f"{len(found)} episodes ended in {steps} steps of {LANES} lanes, {least} are needed")
    return found


def truncation(trial: Trial) -> str | None:
    """Only a time limit truncates an episode; the rules may end it in the same step."""
    require_applicable(trial.limit is not None, "the environment states no limit of steps")
    at_limit = []
    for lane, t, length in _episodes(trial, 1):
        told = bool(trial.record.rows["truncated"][t, lane])
        if told and length != trial.limit:
            expected = f"truncated only in step {trial.limit} of an episode, its limit"
            raise Failure(expected, f"{told} in step {length}, its last", lane, t, "terminated, truncated")
        at_limit += [told] if length == trial.limit else []
    remark = f"at the limit, step {trial.limit}, {len(at_limit)} episodes terminated and none was truncated"
    return remark if at_limit and not any(at_limit) else None


def restart(trial: Trial) -> None:
    """The step that ends an episode starts a new one, which looks like a start, and another one each time."""
    d, record = trial.dialect, trial.record
    require_applicable(d.restarts, "the API leaves restarts to wrappers")
    ends = _episodes(trial, 6)
    starts = _flat(trial.starts[1]["observation"]).astype(np.float64)
    rows = _flat(record.rows["observation"], 2).astype(np.float64)
    begun, (lane, t, _) = np.stack([rows[t, b] for b, t, _ in ends]), ends[0]
    # Half of the starts give the range. Were all others drawn alike, those outside would be any of them.
    half, others = starts[: STARTS // 2], starts[STARTS // 2 :]
    low, high = half.min(0), half.max(0)
    outside, among = ((x < 2 * low - high - 1e-6) | (x > 2 * high - low + 1e-6) for x in (begun, others))
    few = int(among.any(-1).sum())
    chance = math.comb(len(others), few) / math.comb(len(others) + len(ends), few + len(ends))
    if outside.any(-1).all() and chance < _CHANCE:
        i = int(np.flatnonzero(outside[0])[0])
        expected = f"a start in the step that ends an episode: resets have [{low[i]:g}, {high[i]:g}] in element {i}"
        raise Failure(expected, f"{begun[0][i]:g}: the episode goes on", lane, t, d.observation)
    for name, held in record.rows["held"].items():
        if name.split(".")[-1] in CLOCKS and held.ndim == 2:
            was, now = np.asarray(leaves(trial.starts[0])[name]), np.array([held[t, b] for b, t, _ in ends])
            if (was == was[0]).all() and (now != was[0]).all():
                expected = f"{name} to be {was[0]} in the step that ends an episode, as at resets"
                raise Failure(expected, f"{now[0]}: the episode goes on", lane, t, d.carry[0])
    _, counts = np.unique(starts, axis=0, return_counts=True)
    alike = float(((counts / STARTS) ** 2).sum())  # the chance that two starts look the same
    first_again = [np.array_equal(x, starts[b]) for x, (b, _, _) in zip(begun, ends, strict=True)]
    alikes = ((begun == begun[0]).all(), "one start after all ends"), (all(first_again), "the first one again")
    for same, seen in alikes:
        if same and alike ** (len(ends) - 1) < _CHANCE:
            raise Failure(f"another start after each of {len(ends)} ends", seen, lane, t, d.observation)


def final_observation(trial: Trial) -> None:
    """The last observation of an episode is reported next to the first one of the next."""
    ends, rows = _episodes(trial, 4), trial.record.rows
    final, obs = _flat(rows["final"], 2), _flat(rows["observation"], 2)
    if final.shape != obs.shape:
        return  # `observation_in_space` reports it
    differs = (final != obs).any(-1)
    _, counts = np.unique(_flat(trial.starts[1]["observation"]), axis=0, return_counts=True)
    show, done = trial.dialect.final, trial.record.done
    # The chance that each episode ended where the next one starts is at most this.
    if (counts.max() / STARTS) ** len(ends) < _CHANCE and not differs[done].any():
        _forbid(done, f"{show} to be the last observation of the episode", "the first one of the next episode", show)
    if differs[~done].all():
        _forbid(~done, f"{show} to be the observation of the step", "another", show)


def _flat(values: Any, axes: int = 1) -> np.ndarray:
    """Joins the leaves of ``[N, ...]`` or ``[T, B, ...]`` to vectors."""
    return np.concatenate([x.reshape(*x.shape[:axes], -1) for x in map(np.asarray, jax.tree.leaves(values))], axis=-1)


def _compare(
    trial: Trial, a: Any, b: Any, expected: str, where: str, tolerance: float, t: int | None = None, lane: Any = None
) -> None:
    """Raises a `Failure` at the first difference of two rows; without ``lane`` their first axis counts lanes."""
    other = leaves(b)
    for name, x in leaves(a).items():
        x, y = np.asarray(x), np.asarray(other[name])
        equal = (x == y) | (x != x) & (y != y)
        if x.dtype.kind == "f":
            equal |= np.abs(x - y) <= tolerance * (1 + np.max(np.abs(x), initial=0, where=np.isfinite(x)))
        if not np.all(equal):
            index = tuple(map(int, np.argwhere(~equal)[0]))
            seen, field = f"{name}{list(index) or ''} is {x[index]}, and {y[index]} {where}", name.partition(".")[0]
            show = getattr(trial.dialect, field if field in ON_STEP else "observation")
            raise Failure(expected, seen, index[0] if lane is None else lane, t, show)
