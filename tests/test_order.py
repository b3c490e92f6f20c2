"""The longest non-decreasing subsequence, against every subsequence there is."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from ledger_audit.continuity.order import longest_non_decreasing


@given(st.lists(st.integers(0, 6), max_size=9))
def test_no_longer_one_exists(values: list[int]) -> None:
    """What is kept is in order, does not decrease, and nothing longer does."""
    kept = longest_non_decreasing(values)

    picked = [values[index] for index in kept]
    assert sorted(kept) == kept
    assert sorted(picked) == picked
    longest = max(
        size
        for size in range(len(values) + 1)
        for choice in combinations(values, size)
        if list(choice) == sorted(choice)
    )
    assert longest == len(kept)
