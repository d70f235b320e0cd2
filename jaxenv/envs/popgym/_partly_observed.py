"""Base classes of the tasks of POPGym: each has a fully observable twin, and some show it with noise."""

from typing import Any, Literal

import jax

from jaxenv import random, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Task, Transition, check_choice, clip


class PartlyObserved(Task):
    """A task that hides part of its state unless it is asked to show it."""

    observability: Literal["partial", "full"] = tree.static(
        default="partial", doc='``"full"`` for the fully observable twin, which shows what the agent must remember'
    )

    @property
    def is_full(self) -> bool:
        """Whether this is the fully observable twin."""
        return self.observability == "full"

    def check(self) -> None:
        super().check()
        check_choice(f"{self}", "observability", self.observability, ("partial", "full"))


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
