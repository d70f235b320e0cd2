"""A toy task with every feature of a task, without symmetry, and a model of it that plays one lane at a time in Python.

All sizes differ, no action mask is a palindrome, masks repeat every five steps and no episode lasts a multiple of five,
and the numbers of each lane, episode and task are distinct.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core.task import Task
from jaxenv.core.timestep import StepType, Transition

# Actions that are legal, by phase.
MASKS = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 1], [1, 0, 1, 1], [0, 0, 1, 0]], bool)
# Lengths of the episodes of a lane, one after the other.
LENGTHS = np.array([[3, 7, 2], [4, 1, 6], [2, 3, 4], [7, 9, 3], [1, 2, 8]], np.int32)
RATES = np.array([2, 3, 5, 7, 11], np.int32)
LANES = len(LENGTHS)


@tree.struct
class Book:
    """Finished episodes, steps of the current one, and what all episodes have spent: int32 ``[B]`` each."""

    episode: jax.Array
    step: jax.Array
    spent: jax.Array


@tree.struct
class Params:
    """The price of an action per lane."""

    rate: int = 1


class Ledger(Task):
    """An action costs ``rate`` times its number; ``shift`` tells tasks apart."""

    lengths: Any = tree.leaf(rank=1, dtype=np.int32)
    params: Params = Params()
    shift: int = tree.static(default=0)

    def initial(self, stream):
        zero = jnp.zeros(stream.shape, jnp.int32)
        return Book(zero, zero, zero + 1000 * self.shift)

    def carry(self, old, new):
        return Book(old.episode + 1, new.step, old.spent)

    def transition(self, state, action, stream):
        price = self.params.rate * (action - 1)
        state = Book(state.episode, state.step + 1, state.spent + price)
        lengths = jnp.broadcast_to(self.lengths, (*price.shape, self.lengths.shape[-1]))
        length = jnp.take_along_axis(lengths, (state.episode % lengths.shape[-1])[:, None], axis=1)[:, 0]
        reward = (price + 100 * state.step).astype(jnp.float32)
        return Transition(state, reward, state.step == length, {"price": price})

    def state_info(self, state):
        return {"action_mask": jnp.asarray(MASKS)[self._phase(state)], "phase": self._phase(state)}

    def _phase(self, state):
        return (state.step + 3 * state.episode + self.shift) % len(MASKS)

    def observe(self, state):
        return jnp.stack([state.episode, state.step, state.spent], axis=-1)

    def observation_spec(self):
        return specs.Array((3,), np.int32, "observation")

    def action_spec(self):
        return specs.discrete(4, start=1, name="action")


def ledger(shift: int = 0) -> Ledger:
    """A ledger with the lengths and rates of its lanes; other tasks, by ``shift``, have other ones."""
    return Ledger(LENGTHS + 2 * (shift > 0), Params(rate=RATES + shift), shift, num_envs=LANES)


class Model:
    """One lane of ledgers, numbered by their ``shift``, of which one is played per episode."""

    def __init__(self, lane: int, shifts: tuple[int, ...], limit: float, masked: bool):
        self.lane, self.limit, self.masked, self.task = lane, limit, masked, 0
        self.shifts, self.books = shifts, [[0, 0, 1000 * shift] for shift in shifts]

    def begin(self, task: int, first: bool = False) -> None:
        """Starts an episode of a task; every task carries its book over."""
        self.task = task
        if not first:
            self.books = [[episode + 1, 0, spent] for episode, _, spent in self.books]

    def seen(self) -> dict[str, Any]:
        """What the state shows."""
        episode, step, _ = self.books[self.task]
        phase = (step + 3 * episode + self.shifts[self.task]) % len(MASKS)
        return {
            "observation": list(self.books[self.task]),
            "action_mask": MASKS[phase].tolist(),
            "phase": phase,
            "task_id": self.task,
        }

    def row(self, kind: StepType, **changes: Any) -> dict[str, Any]:
        """A row of the state."""
        zero = {"reward": 0, "discount": 1, "prev_action": 0, "price": 0, "time_limit_reached": False}
        return {"step_type": int(kind), **zero, "action_was_illegal": False, **self.seen(), **changes}

    def step(self, action: int) -> dict[str, Any]:
        """The row that an action leads to."""
        book, shift, given = self.books[self.task], self.shifts[self.task], action
        mask = self.seen()["action_mask"]
        illegal = self.masked and not mask[action - 1]
        if illegal:
            action = mask.index(True) + 1
        length = LENGTHS[self.lane, book[0] % LENGTHS.shape[1]] + 2 * (shift > 0)
        price = (int(RATES[self.lane]) + shift) * (action - 1)
        book[1] += 1
        book[2] += price
        ended, reached = book[1] == length, book[1] >= self.limit
        return self.row(
            StepType.LAST if ended or reached else StepType.MID,
            reward=price + 100 * book[1],
            discount=0 if ended else 1,
            prev_action=given,
            price=price,
            time_limit_reached=reached,
            action_was_illegal=illegal,
        )


def play(model: Model, actions: np.ndarray, same_step: bool, tasks: np.ndarray) -> list[dict[str, Any]]:
    """The rows of a lane; ``tasks`` are those that its rows report, of which only the starts of episodes are used."""
    model.begin(int(tasks[0]), first=True)
    rows = [model.row(StepType.FIRST, final_observation=model.seen()["observation"])]
    for action, task in zip(actions.tolist(), tasks[1:].tolist(), strict=True):
        if rows[-1]["step_type"] == StepType.LAST and not same_step:
            model.begin(task)
            rows.append(model.row(StepType.FIRST))
            continue
        row = model.step(action)
        row["final_observation"] = row["observation"]
        if row["step_type"] == StepType.LAST and same_step:
            model.begin(task)
            row |= model.seen()
        rows.append(row)
    return rows
