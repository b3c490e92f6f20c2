"""What a report for eyes is shown on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Screen:
    """A terminal, a pipe or a file."""

    width: int = 80
    """Characters in a line."""
    has_colour: bool = False


PAPER = Screen()
"""A file: nobody knows who will read it."""
