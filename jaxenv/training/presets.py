"""Settings that were tuned for an environment, by learner and id. They stand in presets.toml."""

import pathlib
import tomllib
from typing import Any

from jaxenv._util.checks import check_choice, check_text
from jaxenv._util.names import did_you_mean
from jaxenv.training import _algorithms


def _read() -> dict[str, dict[str, dict[str, Any]]]:
    learners = _with_tuples(tomllib.loads(pathlib.Path(__file__).with_suffix(".toml").read_text("utf-8")))
    shared = learners.pop("shared")

    def merged(settings: dict[str, Any]) -> dict[str, Any]:
        parts = [*(shared[name] for name in settings.pop("shared", ())), settings]
        return {name: value for part in parts for name, value in part.items()}

    return {name: {env_id: merged(found) for env_id, found in by_id.items()} for name, by_id in learners.items()}


def _with_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_tuples(each) for name, each in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


PRESETS = _read()


def preset(env_id: str, algorithm: str | None = None) -> Any:
    """Returns the settings of a learner that were tuned for an environment, the ``Config`` of that learner.

    The learner, ``"sac"``, ``"ppo"``, ``"alphazero"`` or ``"dqn"``, is by default the first with a preset. An error
    lists the ids with one.

    >>> import dataclasses, jaxenv
    >>> config = jaxenv.training.preset("CartPole-v1")  # doctest: +SKIP
    >>> short = dataclasses.replace(config, total_steps=50_000)  # doctest: +SKIP
    """
    check_text("preset", "env_id", env_id)
    if algorithm is not None:
        check_choice("preset", "algorithm", algorithm, tuple(PRESETS))
    among = PRESETS if algorithm is None else {algorithm: PRESETS[algorithm]}
    for name, by_id in among.items():
        if env_id in by_id:
            return _algorithms.module("preset", name).Config(env_id=env_id, **by_id[env_id])
    ids = sorted({known for by_id in among.values() for known in by_id})
    hint = did_you_mean(env_id, ids)
    listed = f"there are presets for {', '.join(ids)}" if ids else "there are no presets"
    owner = "there is" if algorithm is None else f"{algorithm} has"
    raise ValueError(f"preset: {owner} none for {env_id!r}{f', {hint}' if hint else ';'} {listed}")
