"""Show the picture of the state as the observation."""

import dataclasses
from typing import Any, ClassVar

import numpy as np

from jaxenv import specs, tree
from jaxenv.canvas import check_size
from jaxenv.core import Facts, Starts, TimeStep, Wrapper
from jaxenv.tree import Tree


class PixelObservation(Wrapper):
    """Observes the picture that ``env.render`` draws, uint8 ``[H, W, 3]``, in place of the observation.

    The picture is drawn inside ``jit``, for all lanes at once. Owns ``observation``.

    Args:
        env: an environment that has a picture, without a ``same_step`` ``AutoReset``.
        size: height and width in pixels, or one number for both.

    >>> import jax, jaxenv
    >>> env = jaxenv.make("CartPole-v1", num_envs=4, wrappers=[("PixelObservation", {"size": 64})])
    >>> env.reset(jax.random.key(0))[1].observation.shape
    (4, 64, 64, 3)
    """

    size: Any = tree.static(default=(84, 84))

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    in_evaluation = "kept"

    def convert(self) -> dict[str, Any]:
        return {"size": check_size("PixelObservation", self.size)}

    def check(self) -> None:
        if self.autoreset == "same_step":
            fault = "a LAST row of a same_step AutoReset shows two episodes, the state only the new one"
            raise ValueError(f"PixelObservation: {fault}: put it inside AutoReset")

    def facts_of(self, inner: Facts) -> Facts:
        return dataclasses.replace(inner, observes_state=True, agents_lead=False)

    def observation_of(self, state: Tree) -> Tree:
        return self.env.picture_of(self.inner(state), self.size)

    def observation_spec(self) -> Tree:
        return specs.Bounded((*self.size, 3), np.uint8, 0, 255, "pixels")

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        return state, tree.rebuild(timestep, observation=self.observation_of(state))

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        state, timestep = self.env.proceed(state, action)
        return state, tree.rebuild(timestep, observation=self.observation_of(state))
