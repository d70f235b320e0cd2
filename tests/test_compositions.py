"""Stacks that combine features, drawn by a generator: what must hold for each of them, or why it is refused."""

import functools
import itertools
import pathlib

import jax
import pytest

from tests import compositions

COUNT, PART = 400, 8  # a test for each part, since single tests would take longer to start than to run


@pytest.fixture(autouse=True, scope="module")
def _registered():
    with compositions.registered():
        yield


@pytest.fixture(autouse=True)
def _without_programs_of_earlier_stacks():
    """Frees compiled programs: those of all stacks take more memory maps than Linux allows a process by default."""
    yield
    jax.clear_caches()


@functools.cache
def choices():
    return compositions.choices(COUNT)


def failures(numbers):
    """The stacks for which a property does not hold, with the property."""
    found = {}
    for number in numbers:
        try:
            compositions.check(choices()[number])
        except Exception as error:
            found[number] = f"{choices()[number]}: {type(error).__name__}: {error}"
    return found


@pytest.mark.parametrize("start", range(0, COUNT, PART))
def test_stacks_are_right_or_refused(start):
    assert not failures(range(start, start + PART))


def test_the_stacks_combine_all_pairs_of_features():
    features = {feature for choice in choices() for feature in choice.features}
    met = {frozenset(pair) for choice in choices() for pair in itertools.combinations(choice.features, 2)}
    alternatives = [compositions.STARTS, (*compositions.MODES[:2], "no restarts"), compositions.LIMITS]
    alternatives += [[name for kinds in compositions.AGENTS.values() for name in kinds], compositions.OUTSIDE]
    apart = {frozenset(pair) for names in alternatives for pair in itertools.combinations(names, 2)}
    missing = {frozenset(pair) for pair in itertools.combinations(features, 2)} - met - apart
    assert not missing
    assert len(features) > 35


def test_the_page_lists_the_pairs_that_are_refused():
    page = pathlib.Path(__file__).parents[1] / "docs" / "evidence" / "compositions.md"
    assert compositions.table(compositions.refusals()) in page.read_text()
