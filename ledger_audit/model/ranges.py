"""Closed ranges: how ranks, slots and steps are told in reports of jobs with thousands of them."""

from collections.abc import Iterable

Ranges = tuple[tuple[int, int], ...]
"""First and last of each range, ascending, none touching the next."""


def closed_ranges(numbers: Iterable[int]) -> Ranges:
    """Give the closed ranges that cover exactly these numbers, however often each comes."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)
