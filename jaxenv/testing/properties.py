"""The properties that `check_env` checks, by name."""

import dataclasses
from collections.abc import Callable, Iterable

from jaxenv._util.names import did_you_mean
from jaxenv.testing._properties import (
    agents,
    batch,
    episodes,
    gradients,
    randomness,
    restarts,
    sharding,
    structure,
    transformations,
    values,
    wrapping,
)
from jaxenv.testing._subject import Subject


@dataclasses.dataclass(frozen=True)
class Property:
    """A property that every environment should have.

    ``check`` takes a `Subject` and returns a remark or nothing. It raises `Failure` if the property does not hold and
    `NotApplicable` if there is nothing to check. Its name is the property's, and its docstring states it.
    """

    number: int  # its position in the tables
    title: str
    check: Callable[[Subject], str | None]

    @property
    def name(self) -> str:
        """The key of the property in `PROPERTIES`."""
        return self.check.__name__

    @property
    def description(self) -> str:
        """The full statement of the property."""
        return " ".join((self.check.__doc__ or "").split())


_ALL = (
    # Structure
    Property(1, "reset and step return the same tree", structure.same_tree),
    Property(2, "every leaf has a leading lane axis", structure.leading_lanes),
    Property(3, "rows match time_step_spec", structure.rows_match_specs),
    Property(4, "jax_enable_x64 changes nothing", structure.x64_invariant),
    Property(5, "no implicit dtype or rank promotion", structure.strict_promotion),
    Property(6, "lax.cond can choose between reset and step", structure.cond_compatible),
    Property(7, "a saved state continues bitwise", structure.state_round_trip),
    # Transformations
    Property(8, "jit equals eager execution", transformations.jit_equals_eager),
    Property(9, "reset and step are traced once", transformations.one_trace),
    Property(10, "scan equals a Python loop", transformations.scan_equals_loop),
    Property(11, "state and TimeStep can be a loop carry", transformations.loop_compatible),
    Property(12, "compiled code calls no Python", transformations.no_callback),
    Property(13, "vmap equals a Python loop", transformations.vmap_equals_loop),
    Property(14, "jax.checkpoint changes nothing", gradients.checkpoint_invariant),
    Property(15, "states can be donated", transformations.donation_safe),
    Property(16, "gradients are finite and stop at restarts", gradients.gradients_sound),
    Property(17, "sharding over devices changes nothing", sharding.sharding_invariant),
    # Batch
    Property(18, "a batch equals single lanes", batch.batch_equals_single_lanes),
    Property(19, "permuting lanes permutes their rows", batch.permutation_equivariant),
    Property(20, "lanes do not affect each other", batch.lane_independent),
    Property(21, "NaN stays in its lane and episode", batch.nan_contained),
    Property(22, "any number of lanes works", batch.any_number_of_lanes),
    Property(23, "adding lanes keeps existing lanes unchanged", batch.growth_invariant),
    Property(24, "malformed actions are refused", batch.wrong_actions_refused),
    Property(25, "scalar values equal per-lane values", batch.scalar_equals_per_lane),
    # Randomness and purity
    Property(26, "equal keys give equal bits", randomness.reproducible),
    Property(27, "lanes start differently", randomness.lanes_differ),
    Property(28, "episodes start differently", randomness.episodes_differ),
    Property(29, "no random word is used twice", randomness.no_word_reused),
    Property(30, "starts follow the stated distribution", randomness.starts_distribution),
    Property(31, "repeated calls return equal results", randomness.step_repeatable),
    Property(32, "arguments are not modified", randomness.inputs_unmodified),
    Property(33, "the environment is immutable", randomness.immutable),
    Property(34, "importing has no side effects", structure.light_import),
    # Values
    Property(35, "values lie within their specs", values.within_specs),
    Property(36, "values stay finite", values.stays_finite),
    Property(37, "out-of-range actions are clipped", values.actions_clipped),
    Property(38, "NaN actions are contained", values.nan_action_contained),
    Property(39, "values stay finite after LAST", values.finite_past_end),
    Property(40, "an action mask leaves a legal action", values.mask_leaves_an_action),
    # Episodes
    Property(41, "step types follow FIRST MID* LAST", episodes.episode_grammar),
    Property(42, "the discount is 0 only at LAST", episodes.discount_zero_only_at_last),
    Property(43, "TimeLimit is exact and changes nothing else", episodes.time_limit_exact),
    Property(44, "termination at the time limit has discount 0", episodes.both_ends_on_one_step),
    Property(45, "AutoReset keeps the values of the last step", episodes.boundary_keeps_step),
    Property(46, "AutoReset modes and strategies agree", episodes.modes_agree),
    Property(47, "episodes may last one step", episodes.one_step_episodes),
    # Wrappers and restarts
    Property(48, "wrappers change only fields they own", wrapping.owned_fields_only),
    Property(49, "a restart equals a reset", restarts.restart_is_reset),
    Property(50, "lane wrappers commute with AutoReset", restarts.autoreset_commutes),
    Property(51, "specs hold at episode boundaries", wrapping.specs_at_boundaries),
    Property(52, "noop_kwargs make a wrapper the identity", wrapping.noop_settings),
    Property(53, "episode statistics are exact", wrapping.statistics_exact),
    Property(54, "repeated actions stop at the end", wrapping.repeat_stops_at_end),
    # Rollouts
    Property(55, "one rollout equals two unrolls", transformations.unroll_in_halves),
    # Agents
    Property(56, "agents are lanes of their own", agents.agents_agree),
)

PROPERTIES: dict[str, Property] = {p.name: p for p in _ALL}

# The checks of these compile nothing.
TRACED_ONLY = (
    *("same_tree", "leading_lanes", "rows_match_specs", "strict_promotion", "cond_compatible", "one_trace"),
    *("loop_compatible", "no_callback", "wrong_actions_refused"),
)

# The checks of these step one state several times, or restart some of the lanes. Only a class that opts out of
# ``no_callback`` may opt out of them.
HOST_OPT_OUTS = (
    *("cond_compatible", "state_round_trip", "jit_equals_eager", "scan_equals_loop", "checkpoint_invariant"),
    *("donation_safe", "step_repeatable", "inputs_unmodified", "immutable", "stays_finite"),
    *("actions_clipped", "restart_is_reset", "specs_at_boundaries", "unroll_in_halves"),
)

# The properties that a class may opt out of (``opt_outs``), and the kind of class that has a reason to.
ALLOWED_OPT_OUTS: dict[str, str] = {
    "x64_invariant": "third-party code that follows the default float dtype",
    "no_callback": "environments computed on the host, and films",
    "vmap_equals_loop": "environments computed on the host",
    "gradients_sound": "functions without a gradient",
    "sharding_invariant": "state shared by the batch, films of one lane, loops that gather rows of several lanes, "
    "third-party loops that run until the last lane has finished, or third-party branches and loops that shard_map "
    "cannot type",
    "batch_equals_single_lanes": "state shared by the batch",
    "permutation_equivariant": "state shared by the batch",
    "lane_independent": "state shared by the batch",
    "nan_contained": "state shared by the batch",
    "any_number_of_lanes": "state shared by the batch",
    "growth_invariant": "state shared by the batch",
    "lanes_differ": "third-party code that starts all episodes alike",
    "episodes_differ": "third-party code that starts all episodes alike",
    "no_word_reused": "environments computed on the host, or third-party code that uses a key twice",
    "within_specs": "third-party code whose bounds do not hold",
    **dict.fromkeys(
        ("time_limit_exact", "both_ends_on_one_step", "one_step_episodes"), "wrappers that go on after an episode"
    ),
    "discount_zero_only_at_last": "discounts that mark more than the end of an episode",
    **dict.fromkeys(HOST_OPT_OUTS, "environments computed on the host"),
}


def select_properties(properties: Iterable[str] | None) -> list[str]:
    """Returns the given names without duplicates, in the order of `PROPERTIES`; all for None."""
    if properties is None:
        return list(PROPERTIES)
    if isinstance(properties, str) or not isinstance(properties, Iterable):
        raise ValueError(f"properties must be a sequence of names, got {properties!r}")
    given = list(properties)
    for name in given:
        if name not in PROPERTIES:
            every = f"the properties are {', '.join(PROPERTIES)}"
            raise ValueError(f"unknown property {name!r}, {did_you_mean(str(name), PROPERTIES, otherwise=every)}")
    return [name for name in PROPERTIES if name in given]
