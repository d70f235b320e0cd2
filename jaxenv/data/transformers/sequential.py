"""One transformer after the other, in an order that is checked when it is written down."""

import dataclasses
from typing import Any

import jax

from jaxenv._fields import select
from jaxenv.data.transformers.base import Transformer
from jaxenv.data.transformers.frame_stacker import FrameStacker
from jaxenv.data.transformers.hindsight import Hindsight
from jaxenv.data.transformers.identity import Identity


@dataclasses.dataclass(frozen=True, init=False)
class Sequential(Transformer):
    """Applies transformers in the order given. Its state is the tuple of theirs, and its rows ``[B, ...]`` as theirs.

    What reads raw data must come before what changes it: `Untransformed` first, then `FrameStacker` and `Hindsight` in
    either order, then all others, as in ALF's ``SequentialDataTransformer``. A `Sequential` among them stands for its
    transformers.

    Raises:
        ValueError: for what is no transformer, or an order that would be wrong; the message says what must stand before
            what, and why.

    >>> from jaxenv.data.transformers import FrameStacker, RewardClipping
    >>> stack, clip = FrameStacker(3), RewardClipping(-1, 1)
    >>> Sequential(stack, clip) == Sequential(Sequential(stack), clip)
    True
    >>> try:
    ...     Sequential(clip, stack)
    ... except ValueError as error:
    ...     print(str(error)[:61])
    Sequential: FrameStacker must stand before RewardClipping: it
    """

    transformers: tuple[Transformer, ...]

    def __init__(self, *transformers: Transformer):
        flat: list[Transformer] = []
        for transformer in transformers:
            if not isinstance(transformer, Transformer):
                raise ValueError(f"Sequential: transformers must be data transformers, got {transformer!r}")
            flat.extend(transformer.transformers if isinstance(transformer, Sequential) else [transformer])
        object.__setattr__(self, "transformers", tuple(flat))
        self.check()

    def check(self):
        for place, late in enumerate(self.transformers):
            for early in self.transformers[:place]:
                if early.tier > late.tier and not isinstance(early, Identity):
                    raise ValueError(
                        f"Sequential: {type(late).__name__} must stand before {type(early).__name__}: {late.reason}"
                    )

    @property
    def draws(self):
        return any(transformer.draws for transformer in self.transformers)

    def init(self, timestep, key=None):
        states, step_type = [], timestep.step_type
        for place, transformer in enumerate(self.transformers):
            own = None if key is None else jax.random.fold_in(key, place)
            states.append(transformer.init(timestep, own))
            timestep = jax.eval_shape(transformer.transform_timestep, states[-1], timestep)[1]
            # Under shard_map the real step type, and no shape, tells over which axes the rows vary.
            timestep = dataclasses.replace(timestep, step_type=step_type)
        return tuple(states)

    def transform_timestep(self, state, timestep):
        states = []
        for transformer, own in zip(self.transformers, state, strict=True):
            own, timestep = transformer.transform_timestep(own, timestep)
            states.append(own)
        return tuple(states), timestep

    def transform_batch(self, state, batch, replay=None, stored=None):
        self._check_goals(batch.experience.timestep.observation)
        states = []
        for transformer, own in zip(self.transformers, state, strict=True):
            own, batch = transformer.transform_batch(own, batch, replay, stored)
            states.append(own)
        return tuple(states), batch

    def transform_spec(self, spec):
        for transformer in self.transformers:
            spec = transformer.transform_spec(spec)
        return spec

    def frozen(self):
        return Sequential(*(transformer.frozen() for transformer in self.transformers))

    def _check_goals(self, observation: Any) -> None:
        """Refuses stacks of a goal that hindsight replaces: frames from before the window would keep the old one."""
        for stacker in (t for t in self.transformers if isinstance(t, FrameStacker)):
            stacked = select("FrameStacker", observation, stacker.fields)
            for hindsight in (t for t in self.transformers if isinstance(t, Hindsight)):
                if any(jax.tree.leaves(hindsight.goals(stacked)[1])):
                    raise ValueError(
                        f"Sequential: FrameStacker must not stack {hindsight.desired_goal!r}, which Hindsight replaces "
                        f"in the window and not in the rows before it: name other fields, got {stacker.fields}"
                    )


def create(transformers: Any) -> Transformer:
    """One transformer for a list of them (`Sequential`), for one (itself), or for ``None`` (`Identity`).

    As ALF's ``create_data_transformer``; arrays of rows ``[B, ...]`` and of windows ``[N, L, ...]`` go through either.
    """
    if transformers is None:
        return Identity()
    if isinstance(transformers, list | tuple):
        return Sequential(*transformers)
    if not isinstance(transformers, Transformer):
        raise ValueError(
            f"create: transformers must be a data transformer, a list of them or None, got {transformers!r}"
        )
    return transformers
