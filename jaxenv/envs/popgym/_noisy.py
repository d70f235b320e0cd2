"""Base class of the tasks whose observation has normal noise, to be mixed into the task without noise."""

from typing import Any

import jax

from jaxenv import random, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Transition, clip
from jaxenv.envs.popgym._partly_observed import PartlyObserved


@tree.struct
class State:
    """The state without noise, and the noise of its observation."""

    exact: Any
    noise: jax.Array  # float32[B, 2], standard normal


class Noisy(PartlyObserved):
    """Adds noise of standard deviation ``params.noise_sigma`` to two observed numbers, clipped to their bounds."""

    params: Any = None

    def initial(self, stream: random.Stream) -> Any:
        exact = super().initial(stream)  # type: ignore[safe-super]
        return State(exact, random.normal(random.fold_in(stream, "noise"), (2,)))

    def initial_bounds(self) -> Any:
        return None

    def transition(self, state: Any, action: jax.Array, stream: random.Stream) -> Transition:
        after = super().transition(state.exact, action, stream)  # type: ignore[safe-super]
        return Transition(State(after.state, random.normal(stream, (2,))), after.reward, after.terminated)

    def observe(self, state: Any) -> jax.Array:
        shown = super().observe(state.exact)  # type: ignore[safe-super]
        if self.is_full:
            return shown
        spec = self.observation_spec()
        noisy = shown + tree.expand(self.params.noise_sigma, 2) * state.noise
        return clip(noisy, spec.minimum[None], spec.maximum[None])

    def draw(self, state: Any, canvas: Canvas) -> Canvas:
        return super().draw(state.exact, canvas)
