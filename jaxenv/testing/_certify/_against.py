"""Compares an environment with a reference: in lock-step from equal states, else by distributions of episodes."""

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import jax
import numpy as np

from jaxenv.testing._certify._dialects import Failure
from jaxenv.testing._certify._trial import LANES, STARTS, Record, Trial, leaves
from jaxenv.testing._compare import take_steps as at
from jaxenv.testing.report import Undecided

STEPS, EPISODES = 200, 512
_TOLERANCE = (1e-4, 1e-5)  # relative and absolute, of floats: a reference may compute in float64
_MARGIN = 0.25  # of the reference's standard deviation: smaller differences of means do not count
_ALPHA, _ERROR = 0.05, 1e-4  # of the two one-sided tests of equivalence, and of a finding


def matches(trial: Trial, reference: Trial) -> str:
    """Compares limits, then rows or distributions; returns what was compared, and how."""
    if None not in (trial.limit, reference.limit) and trial.limit != reference.limit:
        raise Failure(f"the limit of the reference, {reference.limit} steps", f"{trial.limit} steps")
    if reference.on_host and not trial.on_host and (inject := _injection(trial, reference)):
        return _lock_step(trial, reference, inject)
    return _distributions(trial, reference)


def _vector(*values: Any) -> np.ndarray:
    """Joins the floats of trees of one lane."""
    arrays = [np.asarray(x) for value in values for x in leaves(value).values()]
    return np.concatenate([[], *(x.ravel() for x in arrays if x.dtype.kind == "f")])


def _injection(trial: Trial, reference: Trial) -> Callable[[np.ndarray], None] | None:
    """Finds the numbers of observation and state that set ``state`` of a Gymnasium environment to equal states.

    They are a window of all floats with which the reference shows the same observation in four starts.
    """
    env = reference.env.unwrapped
    env.reset(seed=0)
    if (state := getattr(env, "state", None)) is None or np.ndim(state) != 1:
        return None
    observe = getattr(env, "_get_obs", getattr(env, "_get_ob", lambda: np.asarray(env.state)))
    starts = [at(jax.device_get((trial.starts[1], trial.starts[0])), lane) for lane in range(4)]
    vectors = [(_vector(row["observation"], carry["state"]), _vector(row["observation"])) for row, carry in starts]

    def inject(vector: np.ndarray, first: int) -> None:
        env.state = np.asarray(vector[first : first + len(state)], np.float64)
        env.steps_beyond_terminated = None  # CartPole warns of steps after the end

    def agrees(first: int) -> bool:
        for vector, seen in vectors:
            inject(vector, first)
            shown = np.ravel(observe())
            if shown.shape != seen.shape or not np.allclose(shown, seen, *_TOLERANCE):
                return False
        return True

    found = next((i for i in range(len(vectors[0][0]) - len(state) + 1) if agrees(i)), None)
    return None if found is None else lambda vector: inject(vector, found)


def _lock_step(trial: Trial, reference: Trial, inject: Callable[[np.ndarray], None]) -> str:
    """Steps both from equal states with equal actions and compares observation, reward and termination."""
    env, d, compared = reference.env.unwrapped, trial.dialect, 0
    make = reference.source.setup[-1].replace("env = ", "ref = ", 1)
    for t, (carry, _), row in trial.steps(LANES, STEPS, trial.seconds / 2):
        before, row = jax.device_get((carry, row))
        for lane in range(LANES):
            of_lane, x = at((before, row), lane)
            inject(_vector(trial.value(d.observation, **of_lane), of_lane["state"]))
            was = [float(n) for n in env.state]
            action, space = x["action"], env.action_space
            action = action.item() if hasattr(space, "n") else action.reshape(space.shape)
            obs, reward, terminated, *_ = env.step(action)
            pairs = {d.reward: (x["reward"], reward)}
            if not x["done"] or not d.restarts or "final" in x:
                pairs[d.final or d.observation] = _vector(x.get("final", x["observation"])), np.ravel(obs)
            if "terminated" in x or not x["done"]:
                pairs[d.terminated or d.done] = x.get("terminated", x["done"]), terminated
            for show, (mine, other) in pairs.items():
                exact = np.asarray(mine).dtype.kind in "biu"
                if not np.allclose(mine, other, *((0, 0) if exact else _TOLERANCE)):
                    after = (
                        f"{reference.source.setup[0]}; {make}.unwrapped",
                        f"ref.reset(); ref.state = {was}",
                        f"print(ref.step({np.asarray(action).tolist()}))",
                    )
                    seen = f"{show} is {mine}, and {other} in the reference"
                    raise Failure("rows equal to the reference's from an equal state", seen, lane, t, show, after=after)
            compared += 1
    return f"lock-step: {compared} steps from equal states, ends and integers exact, floats within {_TOLERANCE[0]:g}"


def _distributions(trial: Trial, reference: Trial) -> str:
    """Compares mean length and mean return of episodes with random actions by two one-sided tests."""
    mine, other = (_episodes(x) for x in (trial, reference))
    if min(len(mine), len(other)) < 32:
        raise Undecided(f"{len(mine)} and {len(other)} episodes ended, 32 of each are needed")
    said, undecided = [], False
    for number, name in enumerate(("length", "return")):
        a, b = mine[:, number], other[:, number]
        margin = max(_MARGIN * b.std(), 1e-3 * (1 + abs(b.mean())))
        difference, error = abs(a.mean() - b.mean()), np.sqrt(a.var() / len(a) + b.var() / len(b))
        text = f"mean {name} {a.mean():.4g} of {len(a)} episodes, and {b.mean():.4g} of {len(b)} of the reference"
        if difference + NormalDist().inv_cdf(1 - _ALPHA) * error >= margin:
            if difference > NormalDist().inv_cdf(1 - _ERROR / 2) * error:
                expected = f"a mean {name} within {margin:.3g} of the reference's, {_MARGIN} standard deviations"
                raise Failure(expected, f"{text}, standard error {error:.2g}")
            undecided = True
        said.append(f"{text} (margin {margin:.3g})")
    if undecided:
        raise Undecided(f"undecided with so few episodes: {'; '.join(said)}")
    return f"equivalent at level {_ALPHA}: {'; '.join(said)}"


def _episodes(trial: Trial) -> np.ndarray:
    """Returns length and return of episodes, equally many of each lane, so that none is chosen by its length."""
    if trial.on_host:
        record = trial.replay(10 * STEPS)  # type: ignore[attr-defined]
    else:
        rows = (row for _, _, row in trial.steps(STARTS, 10 * STEPS, trial.seconds / 3))
        record = Record([jax.device_get({name: row[name] for name in ("reward", "done")}) for row in rows], {})
    parts = jax.tree.leaves(record.rows["reward"])
    rewards = np.mean([x.reshape(*record.done.shape, -1).mean(-1) for x in parts], axis=0)
    lanes: list[list[Any]] = [[] for _ in range(record.done.shape[1])]
    for lane, t, length in record.episodes:
        lanes[lane].append((length, rewards[t + 1 - length : t + 1, lane].sum()))
    each = min(EPISODES // len(lanes), *map(len, lanes))
    return np.array([episode for lane in lanes for episode in lane[:each]], np.float64).reshape(-1, 2)
