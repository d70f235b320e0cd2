"""Loading of the policies that commands show."""

import os
from collections.abc import Sequence

from jaxenv import training
from jaxenv.training import Trained


def load_policy(folder: str | os.PathLike, seed: int | None = None, modules: Sequence[str] = ()) -> Trained:
    """Loads the policy of a run's folder, or a shipped one: ``baseline:ID`` or ``baseline:ID:LEARNER``."""
    prefix, _, name = str(folder).partition(":")
    if prefix != "baseline":
        return training.load(folder, seed, modules)
    if seed is not None:
        raise ValueError(f"{folder} is one policy: leave out --policy-seed")
    if modules:
        raise ValueError(f"{folder} is a policy of this library: leave out --module")
    env_id, _, algorithm = name.partition(":")
    return training.baseline(env_id, algorithm or None)
