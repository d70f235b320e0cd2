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
    *(structure.same_tree, structure.leading_lanes, structure.rows_match_specs, structure.x64_invariant),
    *(structure.strict_promotion, structure.state_round_trip),
    # Transformations
    *(transformations.jit_equals_eager, transformations.one_trace, transformations.scan_equals_loop),
    *(transformations.no_callback, transformations.vmap_equals_loop, transformations.donation_safe),
    *(gradients.gradients_sound, sharding.sharding_invariant),
    # Batch
    *(batch.batch_equals_single_lanes, batch.lane_independent, batch.nan_contained, batch.any_number_of_lanes),
    *(batch.wrong_actions_refused, batch.scalar_equals_per_lane),
    # Randomness and purity
    *(randomness.reproducible, randomness.lanes_differ, randomness.episodes_differ, randomness.no_word_reused),
    *(randomness.starts_distribution, randomness.step_repeatable, randomness.inputs_unmodified, randomness.immutable),
    structure.light_import,
    # Values
    *(values.within_specs, values.stays_finite, values.actions_clipped, values.nan_action_contained),
    *(values.finite_past_end, values.mask_leaves_an_action),
    # Episodes
    *(episodes.episode_grammar, episodes.discount_zero_only_at_last, episodes.time_limit_exact),
    *(episodes.boundary_keeps_step, episodes.modes_agree),
    # Wrappers and restarts
    *(wrapping.owned_fields_only, restarts.restart_is_reset, wrapping.specs_at_boundaries, wrapping.noop_settings),
    *(wrapping.statistics_exact, wrapping.repeat_stops_at_end),
    # Agents
    agents.agents_agree,
)

PROPERTIES: dict[str, Property] = {check.__name__: Property(check) for check in _ALL}

# The checks of these compile nothing.
TRACED_ONLY = (
    *("same_tree", "leading_lanes", "rows_match_specs", "strict_promotion", "one_trace", "no_callback"),
    "wrong_actions_refused",
)

# The checks of these step one state several times, or restart some of the lanes. Only a class that opts out of
# ``no_callback`` may opt out of them.
HOST_OPT_OUTS = (
    *("state_round_trip", "jit_equals_eager", "scan_equals_loop", "donation_safe", "step_repeatable"),
    *("inputs_unmodified", "immutable", "stays_finite", "actions_clipped", "specs_at_boundaries"),
)

# The properties that a class may opt out of (``opt_outs``). The reasons: state shared by the batch, films, third-party
# code that starts all episodes alike, uses a key twice, follows the default float dtype or leaves its bounds, functions
# without a gradient, discounts that mark more than the end of an episode, episodes that go on after a limit inside,
# starts of which a level fixes a part, and environments computed on the host.
ALLOWED_OPT_OUTS = frozenset(
    {
        *("x64_invariant", "no_callback", "vmap_equals_loop", "gradients_sound", "sharding_invariant"),
        *("batch_equals_single_lanes", "lane_independent", "nan_contained", "any_number_of_lanes", "lanes_differ"),
        *("episodes_differ", "no_word_reused", "within_specs", "discount_zero_only_at_last", "time_limit_exact"),
        "restart_is_reset",
        *HOST_OPT_OUTS,
    }
)

# "quick": specs and step types, in one rollout per mode.
_QUICK = (
    *("same_tree", "leading_lanes", "rows_match_specs", "within_specs", "stays_finite", "mask_leaves_an_action"),
    *("episode_grammar", "discount_zero_only_at_last", "specs_at_boundaries"),
)


def select_properties(properties: Iterable[str] | None) -> list[str]:
    """Returns the given names without duplicates, in the order of `PROPERTIES`; all for None."""
    if properties is None:
        return list(PROPERTIES)
    if isinstance(properties, str) or not isinstance(properties, Iterable):
        raise ValueError(f"properties must be a sequence of names, got {properties!r}")
    given = [name for chosen in properties for name in (_QUICK if chosen == "quick" else (chosen,))]
    for name in given:
        if name not in PROPERTIES:
            every = f"the properties are {', '.join(PROPERTIES)}, and 'quick' for some of them"
            raise ValueError(f"unknown property {name!r}, {did_you_mean(str(name), PROPERTIES, otherwise=every)}")
    return [name for name in PROPERTIES if name in given]
