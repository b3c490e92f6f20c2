"""The heaviest non-decreasing subsequence, against every subsequence there is."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from ledger_audit.continuity.order import heaviest_non_decreasing


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3)), max_size=9))
def test_no_heavier_one_exists(groups: list[tuple[int, int]]) -> None:
    """What is kept is in order, does not decrease, and nothing heavier does."""
    values, weights = [value for value, _ in groups], [weight for _, weight in groups]

    kept = heaviest_non_decreasing(values, weights)

    picked = [values[index] for index in kept]
    assert sorted(kept) == kept
    assert sorted(picked) == picked
    heaviest = max(
        sum(weights[index] for index in choice)
        for size in range(len(values) + 1)
        for choice in combinations(range(len(values)), size)
        if [values[index] for index in choice] == sorted(values[index] for index in choice)
    )
    assert heaviest == sum(weights[index] for index in kept)
