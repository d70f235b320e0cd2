"""The trajectory, with actions, that a rollout returns to a learner."""

from typing import Any

from jaxenv import tree


@tree.struct
class Experience:
    """A part of a rollout, every leaf ``[T, B, ...]``; fields that are not kept are ``()``.

    Attributes:
        timestep: the TimeSteps that the policy saw.
        action: its actions. The environment ignores those on LAST rows in ``next_step`` mode.
        policy_info: what the policy returned as ``PolicyStep.info``.
    """

    timestep: Any = ()
    action: Any = ()
    policy_info: Any = ()
