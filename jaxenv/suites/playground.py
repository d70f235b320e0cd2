"""MuJoCo Playground's environments as batched environments: ``jaxenv.make("playground:CartpoleBalance", num_envs=8)``.

Physics is MJX. Nothing is downloaded.
"""

from collections.abc import Mapping
from typing import Any

from jaxenv.core.environment import Environment
from jaxenv.suites._options import check_known, library, reporting
from jaxenv.suites._task import BraxLike, functions_of, load_task

# Entries of a config for trainers, which do not change the environment.
_OF_TRAINERS = ("episode_length", "action_repeat")
# Environments whose starts use a key twice, by the beginnings of their names.
_KEYS_REUSED = ("Cartpole", "Finger")


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts: all ids registered with Playground."""
    return sorted(name for part in _parts() for name in part.ALL_ENVS)


def load(name: str, /, num_envs: int | None = None, **kwargs: Any) -> Environment:
    """Builds a Playground environment; keywords are also entries of its config, such as ``sim_dt=0.005``.

    Entries of inner configs have dots: ``**{"reward_config.scales.energy": 0.0}``. ``impl`` is ``"jax"`` by default.
    ``max_episode_steps`` is the config's ``episode_length``. Models are never downloaded.
    """
    check_known("playground", name, ids())
    if "action_repeat" in kwargs:
        rule = "action_repeat must be left out, pass wrappers=[('ActionRepeat', {'num': ...})] to load"
        raise ValueError(f"playground:{name}: {rule}, got {kwargs['action_repeat']!r}")
    return load_task("playground", name, num_envs, _flat(_part(name).get_default_config(name)), kwargs)


class PlaygroundSingle(BraxLike):
    """A Playground environment without wrappers; `single` builds each configuration once."""

    suite = "playground"

    def build(self, id: str, arguments: dict[str, Any]) -> None:
        reason = "MJX's loops fail the type check of shard_map, they need check_vma=False"
        self.opt_outs = {"sharding_invariant": reason}
        if id.startswith(_KEYS_REUSED):
            self.opt_outs["no_word_reused"] = f"the start of {id} uses a key twice"
        path = _registry().mjx_env.MENAGERIE_PATH
        if _part(id) is not _registry().dm_control_suite and not path.exists():
            rule = "its models are in mujoco_menagerie, which jaxenv does not download"
            fetch = f'python -c "from mujoco_playground import registry; registry.load({id!r})" does'
            raise ValueError(f"{self.owner}: {rule}: {fetch}, to {path}")
        if "impl" in _part(id).get_default_config(id):
            arguments.setdefault("impl", "jax")  # Playground's default, Warp, runs on GPUs of NVIDIA alone
        with reporting(self.owner, arguments):
            self.env = _registry().load(id, config_overrides=arguments)
        self.limit = int(self.env._config.episode_length)


single, action_and_limit, docstring = functions_of(PlaygroundSingle)


def _part(name: str) -> Any:
    return next(part for part in _parts() if name in part.ALL_ENVS)


def _parts() -> tuple[Any, ...]:
    registry = _registry()
    return registry.dm_control_suite, registry.locomotion, registry.manipulation


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in config.items():
        inner = isinstance(value, Mapping) or hasattr(value, "items")
        found |= _flat(value, f"{prefix}{name}.") if inner else {prefix + name: value}
    return {name: value for name, value in found.items() if name not in _OF_TRAINERS}


def _registry() -> Any:
    return library("playground", "mujoco_playground")().registry
