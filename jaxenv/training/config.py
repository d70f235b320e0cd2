"""The settings that all learners have, and hyperparameters that may be arrays."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, get_args, get_origin

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import tree
from jaxenv._checks import (
    INT32_MAX,
    Range,
    check_array,
    check_choice,
    check_text,
    described,
    is_concrete,
    is_integer,
    is_real,
)
from jaxenv._declared import check_static
from jaxenv._names import did_you_mean
from jaxenv.environment import Environment


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Settings of a run, whichever its learner.

    Attributes:
        env_id: an id for `jaxenv.load`.
        env_options: further arguments of `jaxenv.load`, a mapping such as ``{"size": 20}`` or pairs of name and value:
            params and options of the environment, ``max_episode_steps``.
        wrappers: the wrappers for `jaxenv.load`, innermost first: names, or pairs of a name and its options.
            Evaluations leave out those for training alone (``"NormalizeReward"``, ``"RandomFirstEpisodeLength"``), as
            ``make(mode="eval")`` does.
        normalize_observation: normalise observations by the running mean and variance of the run.
        total_steps: upper bound on the rows of all lanes together; rounded down to whole updates per evaluation.
        num_envs: number of lanes.
        learning_rate: Adam's learning rate.
        gamma: discount rate.
        hidden: widths of the hidden layers of each network.
        torso: what reads the observation before these layers: ``"mlp"`` flattens it, ``"cnn"`` convolves an image
            ``[H, W]`` or ``[H, W, C]``; ``"auto"`` convolves images of at least 10 rows and columns.
        num_evaluations: number of evaluations, at equal intervals, the last one at the end.
        num_eval_episodes: whole episodes of each evaluation.
        max_eval_steps: episodes of more steps are cut off and not counted. Where a lane plays several episodes, it is
            the limit of their mean. ``None`` for the time limit of the environment, and 100,000 where it has none.
        eval_explore: evaluate the policy that explores, instead of the one that takes the best action.
    """

    env_id: str = "CartPole-v1"
    env_options: Any = ()
    wrappers: tuple = ()
    normalize_observation: bool = False
    total_steps: int = tree.static(default=300_000, low=1)
    num_envs: int = tree.static(default=16, low=1)
    learning_rate: float = tree.static(default=1e-3, low=0, below=np.inf)
    gamma: float = tree.static(default=0.99, low=0, high=1)
    hidden: tuple[int, ...] = (64, 64)
    torso: Literal["auto", "mlp", "cnn"] = "auto"
    num_evaluations: int = tree.static(default=10, low=1)
    num_eval_episodes: int = tree.static(default=100, low=1)
    max_eval_steps: int | None = tree.static(default=None, low=1)
    eval_explore: bool = False

    # Numbers that `with_arrays` replaces: jitted code reads them, and shapes do not depend on them.
    hyperparameters: ClassVar[tuple[str, ...]] = ("learning_rate", "gamma")

    def __post_init__(self):
        for field in dataclasses.fields(self):
            name = field.name
            value = getattr(self, name)
            if get_origin(field.type) is Literal:
                check_choice(self.owner, name, value, get_args(field.type))
            value = check_static(self.owner, field, value)
            object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)
            if field.type in (int, float):
                self._check_number(name, value)
        object.__setattr__(self, "env_options", self._pairs(self.env_options))
        for name, of, fits in (
            ("hidden", "widths", _is_width),
            ("wrappers", "names, or of pairs of a name and a dict of options", _is_wrapper),
        ):
            if not isinstance(getattr(self, name), tuple):
                raise ValueError(f"{self.owner}: {name} must be a tuple of {of}, got {getattr(self, name)!r}")
            for entry in getattr(self, name):
                if not fits(entry):
                    of = "widths of at least 1" if name == "hidden" else of
                    raise ValueError(f"{self.owner}: {name} must hold {of}, got {getattr(self, name)!r}")
        self.check()
        if not self.num_updates:
            least = self.rows_per_update * self.num_evaluations
            raise ValueError(
                f"{self.owner}: total_steps must be at least {least}, an update of {self.rows_per_update} rows "
                f"(num_envs, num_steps) before each of {self.num_evaluations} evaluations (num_evaluations), "
                f"got {self.total_steps}"
            )

    def check(self) -> None:
        """Checks what only this learner has; raises a ``ValueError`` that names the setting and its value."""

    def make_env(self, num_envs: int = 1, mode: str = "train", **options) -> Environment:
        """The stack of this config, ``jaxenv.load(env_id, num_envs, wrappers=wrappers, mode=mode, **env_options)``.

        Args:
            num_envs: the number of lanes.
            mode: ``"train"`` or ``"eval"``.
            **options: further arguments of `jaxenv.load`; they replace those of ``env_options``.
        """
        return jaxenv.load(
            self.env_id, num_envs, wrappers=self.wrappers, mode=mode, **(dict(self.env_options) | options)
        )

    @property
    def owner(self) -> str:
        """The name of the class in errors: ``"ppo.Config"``."""
        return f"{type(self).__module__.rpartition('.')[2]}.{type(self).__name__}"

    @property
    def rows_per_update(self) -> int:
        """Rows of all lanes together that are collected before an update."""
        return self.num_envs

    @property
    def num_updates(self) -> int:
        """Updates of a run, equally many before each evaluation."""
        return self.total_steps // (self.rows_per_update * self.num_evaluations) * self.num_evaluations

    @property
    def num_rows(self) -> int:
        """Rows of all lanes together in a whole run: ``total_steps``, rounded down to whole updates per evaluation."""
        return self.num_updates * self.rows_per_update

    def arrays(self, given: dict[str, Any] | None = None) -> dict[str, jax.Array]:
        """The hyperparameters as float32 ``()``, for a learner to carry.

        Args:
            given: values for some of them, numbers or traced arrays; the others are those of this config.

        Raises:
            ValueError: for a name that is no hyperparameter, a number out of range, or another shape than ``()``.
        """
        given = {} if given is None else given
        if not isinstance(given, Mapping):
            example = f"{{{self.hyperparameters[0]!r}: {getattr(self, self.hyperparameters[0])}}}"
            raise ValueError(f"{self.owner}: hyperparameters must be a dict such as {example}, got {described(given)}")
        for name in given:
            check_text(self.owner, "the name of a hyperparameter", name)
        if unknown := sorted(given.keys() - set(self.hyperparameters)):
            hint = did_you_mean(
                unknown[0], self.hyperparameters, otherwise=f"they are {', '.join(self.hyperparameters)}"
            )
            raise ValueError(f"{self.owner}: no hyperparameter {unknown[0]!r}, {hint}")
        for name, value in given.items():
            check_array(self.owner, name, value)
            if jnp.shape(value) != ():
                raise ValueError(
                    f"{self.owner}: {name} must be one number, got shape {jnp.shape(value)}: jax.vmap over several"
                )
            if is_concrete(value):
                self._check_number(name, np.asarray(value).item())
        values = {name: getattr(self, name) for name in self.hyperparameters} | dict(given)
        return {name: jnp.asarray(value, jnp.float32) for name, value in values.items()}

    def with_arrays(self, values: dict[str, jax.Array]) -> Self:
        """This config with traced hyperparameters, for the inside of jitted code."""
        new = object.__new__(type(self))
        for field in dataclasses.fields(self):
            object.__setattr__(new, field.name, values.get(field.name, getattr(self, field.name)))
        return new

    def _pairs(self, options: Any) -> tuple[tuple[str, Any], ...]:
        """``env_options`` as pairs, which are hashable; lists, as JSON has them, become tuples."""
        pairs = tuple(options.items()) if isinstance(options, Mapping) else options
        if not isinstance(pairs, tuple) or not all(
            isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
        ):
            raise ValueError(f"{self.owner}: env_options must be a mapping of names to values, got {options!r}")
        for name, value in pairs:
            if name in ("num_envs", "wrappers", "mode", "autoreset"):
                raise ValueError(f"{self.owner}: env_options must not hold {name!r}, which the learner sets")
            if not isinstance(value, bool | int | float | str | tuple | list | None):
                raise ValueError(
                    f"{self.owner}: env_options must be numbers, text or tuples of them, got {name} = {value!r}"
                )
        return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in pairs)

    def _check_number(self, name: str, value: Any) -> None:
        if not is_real(value):
            raise ValueError(f"{self.owner}: {name} must be one number, got {value!r}")
        self._range(name).check(self.owner, name, value)
        if is_integer(value):
            Range(high=INT32_MAX).check(self.owner, name, value)

    @classmethod
    def _range(cls, name: str) -> Range:
        """The declared range of a field. A subclass that changes only the default keeps it."""
        fields = (vars(base).get("__dataclass_fields__", {}).get(name) for base in cls.__mro__)
        return next((field.metadata["range"] for field in fields if field and "range" in field.metadata), Range())


def _is_width(entry: Any) -> bool:
    return is_integer(entry) and entry >= 1


def _is_wrapper(entry: Any) -> bool:
    """Whether an entry of ``wrappers`` is a name, or a pair of a name and options."""
    pair = isinstance(entry, tuple | list) and len(entry) == 2 and isinstance(entry[1], Mapping)
    return isinstance(entry[0] if pair else entry, str)


def check_config(owner: str, config: Any, kind: type[RunConfig]) -> None:
    """Raises a ``ValueError`` unless ``config`` holds the settings of the learner ``owner``."""
    if not isinstance(config, kind):
        raise ValueError(f"{owner}: config must be {owner}.{kind.__name__}(...), got {described(config)}")
