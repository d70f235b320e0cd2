"""Faults of randomness, and side effects."""

import dataclasses
import functools
import random as python_random

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.wrappers import LaneWrapper
from tests.testing.twins.twin import Twin
from tests.testing.twins.walk import DictWalk, Paying, Place, Walk, walk
from tests.testing.twins.wrapping import Twice


class PythonRandom(Paying):
    def extra(self, x, action):
        return jnp.full_like(x, python_random.random())


class SaltedByHash(Paying):
    """Salts its stream with the hash of a text, which differs between processes."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        luck = random.uniform(random.fold_in(stream, hash("luck")))
        return dataclasses.replace(out, reward=out.reward + luck)

    def extra(self, x, action):
        return jnp.zeros_like(x)


class DrawnOnImport(Paying):
    """Pays a number that was drawn when the module was imported."""

    bonus = np.float32(np.random.default_rng().uniform())

    def extra(self, x, action):
        return jnp.full_like(x, self.bonus)


class DefaultDrawnOnImport(Walk):
    wind: float = float(np.random.default_rng().uniform())


class OneKeyForAll(Walk):
    def initial(self, stream):
        return super().initial(jax.tree.map(lambda word: jnp.full_like(word, word[0]), stream))


class SameStart(Walk):
    def initial(self, stream):
        return super().initial(dataclasses.replace(stream, c0=jnp.zeros_like(stream.c0)))


class DrawsTwice(Paying):
    """Draws its wind and its luck from the same stream."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        wind, luck = random.uniform(stream), random.uniform(stream)
        return dataclasses.replace(out, reward=out.reward + wind + luck)

    def extra(self, x, action):
        return jnp.zeros_like(x)


class UsesKeyTwice(DrawsTwice):
    """Draws its wind and its luck from the same JAX key."""

    def transition(self, state, action, stream):
        out = Paying.transition(self, state, action, stream)
        keys = random.jax_keys(stream)
        wind, luck = jax.vmap(jax.random.uniform)(keys), jax.vmap(jax.random.uniform)(keys)
        return dataclasses.replace(out, reward=out.reward + wind + luck)


def _luck(stream, salt):
    return random.uniform(random.fold_in(stream, salt))


# Ways to draw twice, with the salts of both draws.
DRAWN_IN = {
    "a scan": lambda stream, salts: jax.lax.map(lambda salt: _luck(stream, salt), salts).sum(axis=0),
    "a loop whose rounds depend on values": lambda stream, salts: jax.lax.while_loop(
        lambda carry: carry[0] < jnp.sum(stream.k0 * 0 + 2) // stream.k0.size,
        lambda carry: (carry[0] + 1, carry[1] + _luck(stream, salts[carry[0]])),
        (jnp.uint32(0), jnp.zeros(stream.shape)),
    )[1],
    "a branch": lambda stream, salts: sum(
        jax.lax.cond(jnp.all(stream.k0 == stream.k0[0]), lambda *_: jnp.zeros(stream.shape), _luck, stream, salt)
        for salt in salts
    ),
    "a compiled function": lambda stream, salts: sum(_compiled_luck(stream, salt) for salt in salts),
    "a vmap": lambda stream, salts: jax.vmap(lambda salt: _luck(stream, salt))(salts).sum(axis=0),
    "a function with its own gradient": lambda stream, salts: sum(_luck_with_gradient(stream, salt) for salt in salts),
}
_compiled_luck = jax.jit(_luck)
_luck_with_gradient = jax.custom_jvp(_luck)
_luck_with_gradient.defjvp(lambda given, _: (_luck(*given), jnp.zeros(given[0].shape)))


class DrawsIn(Paying):
    """Draws twice ``way``, with two salts or ``again`` with one."""

    way: str = tree.static(default="a scan")
    again: bool = tree.static(default=True)

    def transition(self, state, action, stream):
        out = Paying.transition(self, state, action, stream)
        luck = DRAWN_IN[self.way](stream, jnp.array([3, 3 if self.again else 4], jnp.uint32))
        return dataclasses.replace(out, reward=out.reward + luck)

    def extra(self, x, action):
        return jnp.zeros_like(x)


class Lucky(LaneWrapper):
    """Adds a random number to the reward."""

    owns = frozenset({"reward"})

    def init(self, timestep, stream):
        return ()

    def after(self, own, timestep, stream):
        paid = jnp.where(timestep.is_first(), np.float32(0), timestep.reward + self.luck(stream))
        return own, dataclasses.replace(timestep, reward=paid)

    def luck(self, stream):
        return random.uniform(stream)


class DrawsLuckTwice(Lucky):
    def luck(self, stream):
        return random.uniform(stream) + random.uniform(stream)


class NarrowStart(Walk):
    """Starts closer to 0 than it states."""

    def initial(self, stream):
        return Place(0.9 * super().initial(stream).x)


class OneKeyForTwoLanes(Walk):
    def initial(self, stream):
        return super().initial(jax.tree.map(lambda word: word[jnp.arange(word.shape[0]) // 2 * 2], stream))


class CounterOnClass(Paying):
    count = 0

    def extra(self, x, action):
        type(self).count += 1
        return jnp.full_like(x, self.count)


class ModifiesDict(DictWalk):
    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        state["x"] = out.state["x"]
        return out


class Assignable(Walk):
    """A class that is not frozen."""


Assignable.__setattr__ = object.__setattr__


class ByIdentity:
    """Equal only to itself."""


class StaticByIdentity(Walk):
    tag: ByIdentity = tree.static(default=ByIdentity())


TWINS: dict[str, Twin] = {
    "Python's random module": Twin(PythonRandom, walk, ("reproducible",)),
    "salt from the hash of a text": Twin(SaltedByHash, walk, ("reproducible",)),
    "constant drawn on import": Twin(DrawnOnImport, walk, ("reproducible",)),
    "default drawn on import": Twin(DefaultDrawnOnImport, walk, ("reproducible",)),
    "one key for all lanes": Twin(OneKeyForAll, walk, ("lanes_differ",)),
    "same start in every episode": Twin(SameStart, walk, ("episodes_differ",)),
    "one stream for two draws": Twin(DrawsTwice, walk, ("no_word_reused",)),
    "one stream for two draws, around a repeat": Twin(
        lambda: DrawsLuckTwice(Twice(Walk())), lambda: Lucky(Twice(Walk())), ("no_word_reused",)
    ),
    "one key for two draws": Twin(UsesKeyTwice, walk, ("no_word_reused",)),
    **{
        f"one stream for two draws in {way}": Twin(
            functools.partial(DrawsIn, way=way), functools.partial(DrawsIn, way=way, again=False), ("no_word_reused",)
        )
        for way in DRAWN_IN
    },
    "starts narrower than stated": Twin(NarrowStart, walk, ("starts_distribution",)),
    "one key for two lanes": Twin(OneKeyForTwoLanes, walk, ("no_word_reused", "starts_distribution")),
    "counter on the class": Twin(CounterOnClass, walk, ("step_repeatable", "immutable")),
    "dict of the caller modified": Twin(ModifiesDict, DictWalk, ("inputs_unmodified",)),
    "assignable fields": Twin(Assignable, walk, ("immutable",)),
    "static field compared by identity": Twin(StaticByIdentity, walk, ("immutable",)),
}
