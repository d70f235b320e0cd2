"""The settings that all learners have, and hyperparameters that may be arrays."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv._checks import Range, check_choice, check_integer, check_real, is_concrete
from jaxenv._declared import check_option
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
    total_steps: int = 300_000
    num_envs: int = 16
    learning_rate: float = 1e-3
    gamma: float = 0.99
    hidden: tuple[int, ...] = (64, 64)
    torso: Literal["auto", "mlp", "cnn"] = "auto"
    num_evaluations: int = 10
    num_eval_episodes: int = 100
    max_eval_steps: int | None = None
    eval_explore: bool = False

    # Numbers that `with_arrays` replaces: jitted code reads them, and shapes do not depend on them.
    hyperparameters: ClassVar[tuple[str, ...]] = ("learning_rate", "gamma")
    # Fields of type int that may be 0; fields of type float that must be above 0, lie in [0, 1], or may be negative.
    _or_zero: ClassVar[tuple[str, ...]] = ()
    _positive: ClassVar[tuple[str, ...]] = ()
    _fractions: ClassVar[tuple[str, ...]] = ("gamma",)
    _signed: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self):
        for field in dataclasses.fields(self):
            name = field.name
            value = check_option(self.owner, name, getattr(self, name), field.default)
            object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)
            if field.type is int:
                check_integer(self.owner, name, value, 0 if name in self._or_zero else 1)
            if field.type is float:
                self._check_number(name, value)
        if self.max_eval_steps is not None:
            check_integer(self.owner, "max_eval_steps", self.max_eval_steps, 1)
        object.__setattr__(self, "env_options", self._pairs(self.env_options))
        for name, of in (("hidden", "widths"), ("wrappers", "names, or of pairs of a name and a dict of options")):
            if not isinstance(getattr(self, name), tuple):
                raise ValueError(f"{self.owner}: {name} must be a tuple of {of}, got {getattr(self, name)!r}")
        for width in self.hidden:
            if isinstance(width, bool) or not isinstance(width, int) or width < 1:
                raise ValueError(f"{self.owner}: hidden must hold widths of at least 1, got {self.hidden!r}")
        check_choice(self.owner, "torso", self.torso, ("auto", "mlp", "cnn"))
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
        given = given or {}
        if unknown := sorted(given.keys() - set(self.hyperparameters)):
            hint = did_you_mean(
                unknown[0], self.hyperparameters, otherwise=f"they are {', '.join(self.hyperparameters)}"
            )
            raise ValueError(f"{self.owner}: no hyperparameter {unknown[0]!r}, {hint}")
        for name, value in given.items():
            if jnp.shape(value) != ():
                raise ValueError(
                    f"{self.owner}: {name} must be one number, got shape {jnp.shape(value)}: jax.vmap over several"
                )
            if is_concrete(value):
                self._check_number(name, float(value))
        values = {name: getattr(self, name) for name in self.hyperparameters} | given
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

    def _check_number(self, name: str, value: float) -> None:
        if name in self._fractions:
            check_real(self.owner, name, value, 0, 1)
        elif name in self._positive:
            Range(above=0).check(self.owner, name, value)
        if name in self._signed:
            check_real(self.owner, name, value, -np.inf)
        elif not 0 <= value < np.inf:
            raise ValueError(f"{self.owner}: {name} must be a number of at least 0, got {value!r}")
