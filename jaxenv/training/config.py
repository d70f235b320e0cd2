"""The settings that all learners have, and hyperparameters that may be arrays."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_text, described
from jaxenv._util.names import did_you_mean, unknown_keyword
from jaxenv.core._declared import Declared, check_number, check_static
from jaxenv.core.environment import Environment
from jaxenv.wrappers.stack._make import make


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Settings of a run that all learners share.

    A subclass declares its fields as an environment does: `jaxenv.tree.leaf` for the hyperparameters, numbers that
    compiled code may read as arrays, and `jaxenv.tree.static` for all others, each with its range. A subclass that only
    changes a default keeps the declaration.

    Attributes:
        env_id: an id for `jaxenv.make`.
        env_options: further arguments of `jaxenv.make`, a mapping such as ``{"size": 20}`` or pairs of name and value:
            params and options of the environment, ``max_episode_steps``.
        wrappers: the wrappers for `jaxenv.make`, innermost first: names, or pairs of a name and its options.
            Evaluations leave out those for training alone (``"NormalizeReward"``, ``"RandomFirstEpisodeLength"``), as
            ``make(mode="eval")`` does.
        normalize_observation: normalise observations by the running mean and variance of the run.
        total_steps: upper bound on the rows of all lanes together; rounded down to whole updates per evaluation.
        num_envs: number of lanes.
        num_steps: steps of every lane between two updates.
        learning_rate: Adam's initial learning rate; it falls to 0 linearly.
        gamma: discount rate.
        hidden: widths of the hidden layers of each network.
        torso: how the observation is read before these layers: ``"mlp"`` flattens it, ``"cnn"`` convolves an image
            ``[H, W]`` or ``[H, W, C]`` of at least 3 rows and columns; ``"auto"`` convolves images of at least 10.
        num_evaluations: number of evaluations, at equal intervals, the last one at the end.
        num_eval_episodes: whole episodes of each evaluation.
        max_eval_steps: episodes of more steps are cut off and not counted. Where a lane plays several episodes, it is
            the limit of their mean. ``None`` for the time limit of the environment, and 100,000 without one.
        eval_explore: evaluate the policy that explores, instead of the one that takes the best action.
    """

    env_id: str = "CartPole-v1"
    env_options: Any = ()
    wrappers: tuple = ()
    normalize_observation: bool = False
    total_steps: int = tree.static(default=300_000, low=1)
    num_envs: int = tree.static(default=16, low=1)
    num_steps: int = tree.static(default=1, low=1)
    learning_rate: float = tree.leaf(default=1e-3, low=0, below=np.inf)
    gamma: float = tree.leaf(default=0.99, low=0, high=1)
    hidden: tuple[int, ...] = tree.static(default=(64, 64), low=1)
    torso: Literal["auto", "mlp", "cnn"] = "auto"
    num_evaluations: int = tree.static(default=10, low=1)
    num_eval_episodes: int = tree.static(default=100, low=1)
    max_eval_steps: int | None = tree.static(default=None, low=1)
    eval_explore: bool = False

    def __init_subclass__(cls) -> None:
        # The decorator of the subclass has not run yet, so these are the fields of its base.
        for field in dataclasses.fields(cls):
            default = vars(cls).get(field.name, dataclasses.MISSING)
            if default is not dataclasses.MISSING and not isinstance(default, dataclasses.Field):
                setattr(cls, field.name, dataclasses.field(default=default, metadata=field.metadata))

    def __new__(cls, *_: Any, **settings: Any) -> Self:
        names = [field.name for field in dataclasses.fields(cls)]
        if unknown := settings.keys() - names:
            owner = f"{learner_name(cls)}.{cls.__name__}"
            raise TypeError(unknown_keyword(owner, min(unknown), {"settings": names}))
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = check_static(self.owner, field, _as_tuples(getattr(self, field.name)))
            object.__setattr__(self, field.name, value)
        options = self._data(
            "env_options", "a mapping of names to numbers, text or tuples of them", lambda x: dict(**dict(x))
        )
        self._data("wrappers", "a tuple of names, or of pairs of a name and a dict of options", tuple)
        if taken := options.keys() & {"num_envs", "wrappers", "mode", "autoreset"}:
            raise ValueError(f"{self.owner}: env_options must not hold {min(taken)!r}, which the learner sets")
        object.__setattr__(self, "env_options", _as_tuples(list(options.items())))  # hashable
        self.check()
        if not self.num_updates:
            least = self.num_warmup_rows + self.rows_per_update * self.num_evaluations
            warmup = "the warm-up and " if self.num_warmup_rows else ""
            update = f"{warmup}an update of {self.rows_per_update} rows (num_envs, num_steps)"
            rule = f"{least}, {update} before each of {self.num_evaluations} evaluations (num_evaluations)"
            raise ValueError(f"{self.owner}: total_steps must be at least {rule}, got {self.total_steps}")

    def check(self) -> None:
        """Checks settings that depend on each other; raises a ``ValueError`` that names one and its value."""

    def make_env(self, num_envs: int | None = None, mode: str = "train", **options: Any) -> Environment:
        """Makes the config's stack, ``jaxenv.make(env_id, num_envs, wrappers=wrappers, mode=mode, **env_options)``.

        By default it has the lanes of one game. ``options`` are further arguments; they replace ``env_options``.
        """
        given = {"wrappers": self.wrappers, "mode": mode, **dict(self.env_options), **options}
        return make(self.env_id, num_envs, **given)

    @property
    def learner(self) -> str:
        """The name of the learner in errors, from its module: ``"ppo"``."""
        return learner_name(type(self))

    @property
    def owner(self) -> str:
        """The name of the class in errors: ``"ppo.Config"``."""
        return f"{self.learner}.{type(self).__name__}"

    @property
    def rows_per_update(self) -> int:
        """Rows of all lanes together that are collected before an update."""
        return self.num_envs * self.num_steps

    @property
    def num_warmup_rows(self) -> int:
        """Rows of all lanes together that are collected before the first update."""
        return 0

    @property
    def num_updates(self) -> int:
        """Updates of a run after the warm-up, equally many before each evaluation."""
        left = max(self.total_steps - self.num_warmup_rows, 0)
        return left // (self.rows_per_update * self.num_evaluations) * self.num_evaluations

    @property
    def num_rows(self) -> int:
        """Rows of all lanes together in a whole run: ``total_steps``, rounded down to whole updates per evaluation."""
        return self.num_warmup_rows + self.num_updates * self.rows_per_update

    @property
    def hyperparameters(self) -> dict[str, float]:
        """The numbers that may be arrays, by name: `jaxenv.tree.rebuild` puts arrays in their place."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if "rank" in field.metadata}

    def arrays(self, given: Mapping[str, Any] | None = None) -> dict[str, jax.Array]:
        """Returns the hyperparameters as float32 ``()``, for a learner to carry.

        Some may be ``given``, as numbers or traced arrays of shape ``()``; the others come from this config.
        """
        own, given = self.hyperparameters, {} if given is None else given
        if not isinstance(given, Mapping):
            example = dict([next(iter(own.items()))])
            raise ValueError(f"{self.owner}: hyperparameters must be a dict such as {example}, got {described(given)}")
        for name in given:
            check_text(self.owner, "the name of a hyperparameter", name)
            if name not in own:
                hint = did_you_mean(name, own, otherwise=f"they are {', '.join(own)}")
                raise ValueError(f"{self.owner}: no hyperparameter {name!r}, {hint}")
        arrays = {}
        for field in dataclasses.fields(self):
            if field.name in own:
                value = given.get(field.name, own[field.name])
                array = jnp.asarray(check_number(self.owner, Declared(field.name, value, **field.metadata)))
                if array.shape:
                    rule = f"one number, got shape {array.shape}: jax.vmap over several"
                    raise ValueError(f"{self.owner}: {field.name} must be {rule}")
                arrays[field.name] = array
        return arrays

    def _data(self, name: str, rule: str, convert: Callable) -> Any:
        """Converts a setting to the form in which the JSON file of a run stores it."""
        value = getattr(self, name)
        try:
            converted = convert(value)
            json.dumps(converted)
        except (TypeError, ValueError):
            raise ValueError(f"{self.owner}: {name} must be {rule}, got {value!r}") from None
        return converted


def learner_name(kind: type[RunConfig]) -> str:
    """Returns the name of the learner with this class of settings, from its module: ``"ppo"``."""
    return kind.__module__.rpartition(".")[2]


def check_config(config: Any, kind: type[RunConfig]) -> None:
    """Raises a ``ValueError`` unless ``config`` is of the class ``kind``, the settings of one learner."""
    if not isinstance(config, kind):
        owner = learner_name(kind)
        raise ValueError(f"{owner}: config must be {owner}.{kind.__name__}(...), got {described(config)}")


def _as_tuples(value: Any) -> Any:
    """Converts lists, which JSON has, to tuples, which are hashable."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple) else value
