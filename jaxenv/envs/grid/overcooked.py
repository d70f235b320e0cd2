"""Two cooks fill pots with onions, wait until the soup is ready, and deliver it in plates; they share the reward.

Reference: JaxMARL 0.2.0, ``Overcooked`` (tests/envs/grid/test_overcooked.py), after Overcooked-AI.
Papers: Carroll et al. (2019), "On the Utility of Learning about Humans for Human-AI Coordination", arXiv:1910.05789;
Rutherford et al. (2023), "JaxMARL: Multi-Agent RL Environments in JAX", arXiv:2311.10090.

Agents        agent_0, agent_1, both in every step: observation, action, reward and env_info lead with them
Observation   uint8[2, height, width, 26]   the layers of each cell, for each cook its own before the other's:
              0 the cook, 1 the other cook, 2 to 5 the cook by direction, 6 to 9 the other cook by direction, 10 pot,
              11 free counter, 12 onion pile, 14 plate pile, 15 delivery, 16 onions in a pot that is not cooking (0 to
              3), 18 onions in soup (3), 20 cooking time that remains (0 to 19), 21 soup that is ready, 22 plate, 23
              onion, 25 in every cell, fewer than 40 steps remain; 13, 17, 19 and 24 are tomatoes, always 0. Plates,
              onions and soups are shown on counters and in the cell of a cook who carries them
Action        int32[2]                      0 up, 1 down, 2 right, 3 left, 4 stays, 5 interacts
Reward        float32[2]                    delivery_reward for each delivered soup, a team reward: both cooks get it
Starts        with empty pots, hands and counters; the cooks in the cells of the layout, facing random directions; with
              random_start in random cells, with random items, and with pots of any status, all uniform
Terminates    never
Time limit    max_steps, 400 (registry), a truncation
env_info      shaped_reward: float32[2], each cook's own: onion_reward for an onion put into a pot, soup_reward for a
              soup taken from a pot, and plate_reward for a plate taken from the pile if no plate is on a counter and
              more pots are in use than cooks carry a plate

A move turns the cook and takes it to the next cell if that is floor. If both would enter one cell, or swap cells, both
stay. A cook interacts with the cell that it faces: it puts an item on a free counter or takes one from it, takes an
onion or a plate from a pile, puts an onion into a pot, takes the soup of a ready pot with its plate, or delivers a
soup. Cook 0 interacts before cook 1. The third onion starts a pot, which is ready after 20 steps, that one included.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, RED, Canvas
from jaxenv.core import Task, Transition, in_one_kernel, in_own_kernels, take_rows
from jaxenv.envs.grid import _overcooked_picture, _overcooked_view
from jaxenv.envs.grid._overcooked_layout import COUNTER, DELIVERY, FLOOR, ONIONS, PLATES, POT, parse
from jaxenv.envs.grid._overcooked_view import EMPTY_POT, FULL_POT, NUM_LAYERS, URGENT_STEPS, Arrays
from jaxenv.envs.grid.grid_world import choice, other_choice

_UP, _DOWN, _RIGHT, _LEFT, _STAY, _INTERACT = (np.int32(i) for i in range(6))
# Items in hands, and with two bits each on counters.
_NOTHING, _ONION, _PLATE, _SOUP = (np.int32(i) for i in range(4))
_ODD_BITS, _ITEM = np.uint32(0x55555555), np.uint32(3)


@tree.struct
class Params:
    """Parameters of the task: scalars, or ``[B]`` for one value per lane."""

    max_steps: int = tree.leaf(default=400, unit="steps", low=1, doc="time limit; the cooks observe when it is near")
    delivery_reward: float = tree.leaf(default=20.0, doc="reward of both cooks for a delivered soup")
    onion_reward: float = tree.leaf(default=3.0, doc="shaped reward for an onion that is put into a pot")
    plate_reward: float = tree.leaf(default=3.0, doc="shaped reward for a plate that is taken when a pot needs it")
    soup_reward: float = tree.leaf(default=5.0, doc="shaped reward for a soup that is taken from a pot")


@tree.struct
class Cook:
    """A cook, int32 ``[B]`` each."""

    cell: jax.Array  # x + width * y
    direction: jax.Array  # 0 up, 1 down, 2 right, 3 left
    item: jax.Array  # 0 nothing, 1 onion, 2 plate, 3 soup


@tree.struct
class State:
    """The kitchen."""

    cooks: tuple[Cook, Cook]
    counters: Arrays  # uint32[B] for each 16 counters, two bits for what lies on one
    pots: Arrays  # int32[B] for each pot: 23 minus its onions, then the cooking time that remains
    step: jax.Array  # int32[B]


class Overcooked(Task):
    """The kitchen; the module docstring is the specification."""

    params: Params = Params()
    layout: str = tree.static(
        default="cramped_room",
        doc='``"cramped_room"``, ``"asymm_advantages"``, ``"coord_ring"``, ``"forced_coord"``, ``"counter_circuit"``, '
        "or a text with a line per row: W counter, O onion pile, B plate pile, P pot, X delivery, a space for floor, "
        "and 0 and 1 where the cooks start",
    )
    random_start: bool = tree.static(default=False, doc="whether cooks, what they carry, and pots start at random")

    agent_names = ("agent_0", "agent_1")
    action_names = ("up", "down", "right", "left", "stay", "interact")
    summed_entries = frozenset({"shaped_reward"})

    def check(self) -> None:
        parse(self.layout)

    @property
    def time_limit(self) -> Any:
        return self.params.max_steps

    def initial(self, stream: random.Stream) -> State:
        layout = parse(self.layout)
        floor, num_pots = layout.where(FLOOR), len(layout.where(POT))
        zeros = jnp.zeros(stream.shape, jnp.int32)
        directions = [choice(word, zeros + 4) for word in random.separate_bits(random.fold_in(stream, "directions"), 2)]
        if self.random_start:
            first, second, *words = random.separate_bits(stream, 4 + num_pots)
            place = choice(first, zeros + len(floor))
            cells = [take_rows(floor, at) for at in (place, other_choice(second, zeros + len(floor), taken=place))]
            items = [choice(word, zeros + 4) for word in words[:2]]
            pots = [choice(word, zeros + (EMPTY_POT + 1)) for word in words[2:]]
        else:
            cells = [zeros + np.int32(cell) for cell in layout.cooks]
            items, pots = [zeros, zeros], [zeros + EMPTY_POT] * num_pots
        counters = (jnp.zeros(stream.shape, jnp.uint32),) * _overcooked_view.num_words(layout)
        first_cook, second_cook = (Cook(*cook) for cook in zip(cells, directions, items, strict=True))
        return State((first_cook, second_cook), counters, tuple(pots), zeros)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        layout = parse(self.layout)
        width, actions = np.int32(layout.kinds.shape[1]), (action[:, 0], action[:, 1])
        facing = [take_rows(layout.cells, cook.cell + _offset(cook.direction, width)) for cook in state.cooks]
        moves = zip(state.cooks, actions, strict=True)
        ahead = [take_rows(layout.cells, cook.cell + _offset(move, width)) for cook, move in moves]
        state, soups, shaped = in_one_kernel(_stepped, state, actions, tuple(facing), tuple(ahead), self.params, width)
        reward = self.params.delivery_reward * soups.astype(jnp.float32)
        env_info = {"shaped_reward": jnp.stack(shaped, axis=1)}
        return Transition(state, jnp.stack([reward, reward], axis=1), jnp.zeros_like(soups, bool), env_info)

    def observe(self, state: State) -> jax.Array:
        urgent = self.params.max_steps - state.step < URGENT_STEPS
        sources = in_one_kernel(_overcooked_view.sources, state.cooks, state.counters, state.pots, urgent)
        image = in_own_kernels(partial(_overcooked_view.layers, self.layout), *(x[:, None] for x in sources))
        return image.reshape(-1, *self.observation_spec().shape)

    def observation_spec(self) -> specs.Bounded:
        shape = (2, *parse(self.layout).kinds.shape, NUM_LAYERS)
        return specs.Bounded(shape, np.uint8, 0, _overcooked_view.LARGEST, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.Bounded((2,), np.int32, 0, len(self.action_names) - 1, "action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        return _overcooked_picture.draw(state, parse(self.layout), (BLUE, RED), canvas)


def _offset(direction: jax.Array, width: Any) -> jax.Array:
    """Returns the difference to the next cell, 0 for an action that is no direction."""
    vertical = jnp.where(direction == _UP, -width, width)
    horizontal = jnp.where(direction == _RIGHT, np.int32(1), np.int32(-1))
    offset = jnp.where(direction <= _DOWN, vertical, horizontal)
    return jnp.where(direction <= _LEFT, offset, np.int32(0))


def _stepped(
    state: State, actions: Arrays, facing: Arrays, ahead: Arrays, params: Params, width: Any
) -> tuple[State, jax.Array, list[jax.Array]]:
    """Returns the state after a step, the number of soups that were delivered, and the shaped rewards.

    ``facing`` and ``ahead`` are entries of `Layout.cells`: of the cells that the cooks face and would enter.
    """
    moved = _moved(state.cooks, actions, ahead, width)
    items, counters, pots = [cook.item for cook in state.cooks], state.counters, state.pots
    soups, shaped = jnp.zeros_like(state.step), list[jax.Array]()
    for i in range(2):
        held, acts = (items[i], items[1 - i]), actions[i] == _INTERACT
        items[i], counters, pots, delivers, bonus = _interacted(acts, facing[i], held, counters, pots, params)
        soups, shaped = soups + delivers.astype(jnp.int32), [*shaped, bonus]
    pots = tuple(jnp.where((pot > 0) & (pot <= FULL_POT), pot - 1, pot) for pot in pots)
    first, second = (tree.rebuild(cook, item=item) for cook, item in zip(moved, items, strict=True))
    return State((first, second), counters, pots, state.step + 1), soups, shaped


def _moved(cooks: tuple[Cook, Cook], actions: Arrays, ahead: Arrays, width: Any) -> list[Cook]:
    cells, moved = [], []
    for cook, action, code in zip(cooks, actions, ahead, strict=True):
        cells.append(cook.cell + jnp.where(code % 8 == FLOOR, _offset(action, width), np.int32(0)))
    swap = (cells[0] == cooks[1].cell) & (cells[1] == cooks[0].cell)
    blocked = (cells[0] == cells[1]) | swap
    for cook, action, cell in zip(cooks, actions, cells, strict=True):
        direction = jnp.where(action <= _LEFT, action, cook.direction)
        moved.append(Cook(jnp.where(blocked, cook.cell, cell), direction, cook.item))
    return moved


def _interacted(
    acts: jax.Array, facing: jax.Array, items: Arrays, counters: Arrays, pots: Arrays, params: Params
) -> tuple[jax.Array, Arrays, Arrays, jax.Array, jax.Array]:
    """Returns item, counters and pots after a cook interacts, whether it delivered a soup, and its shaped reward.

    ``items`` are what it and the other cook carry.
    """
    kind, number = facing % 8, facing // 8
    item, others_item = items
    free = item == _NOTHING

    takes_plate = acts & (kind == PLATES) & free
    need = sum((pot != EMPTY_POT).astype(jnp.int32) for pot in pots) > (others_item == _PLATE).astype(jnp.int32)
    lies = jnp.zeros_like(acts)  # a plate, bits 10
    for word in counters:
        lies = lies | ((word >> 1) & ~word & _ODD_BITS != 0)
    is_useful = takes_plate & need & ~lies
    after = jnp.where(takes_plate, _PLATE, jnp.where(acts & (kind == ONIONS) & free, _ONION, item))

    delivers = acts & (kind == DELIVERY) & (item == _SOUP)
    fills = takes_soup = jnp.zeros_like(acts)
    new_pots = []
    for i, pot in enumerate(pots):
        here = acts & (kind == POT) & (number == i)
        fill, take = here & (pot > FULL_POT) & (item == _ONION), here & (pot == 0) & (item == _PLATE)
        new_pots.append(jnp.where(fill, pot - 1, jnp.where(take, EMPTY_POT, pot)))
        fills, takes_soup = fills | fill, takes_soup | take
    after = jnp.where(takes_soup, _SOUP, jnp.where(fills | delivers, _NOTHING, after))

    new_counters, shift = [], 2 * (number % 16).astype(jnp.uint32)
    for i, word in enumerate(counters):
        found = (word >> shift & _ITEM).astype(jnp.int32)
        swap = acts & (kind == COUNTER) & (number // 16 == i) & (free | (found == _NOTHING))
        new_counters.append(jnp.where(swap, word ^ (found ^ item).astype(jnp.uint32) << shift, word))
        after = jnp.where(swap, found, after)

    zero = np.float32(0)
    bonus = jnp.where(fills, params.onion_reward, zero) + jnp.where(takes_soup, params.soup_reward, zero)
    bonus = bonus + jnp.where(is_useful, params.plate_reward, zero)
    return after, tuple(new_counters), tuple(new_pots), delivers, bonus
