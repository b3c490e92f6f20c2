"""Makes text fit to show: nothing in it steers a terminal, and amounts read like a sentence."""


def printable(text: str) -> str:
    """
    Give text with every character that is not printable written as an escape.

    That covers control characters, escape sequences, and marks that turn the direction of
    writing; line breaks too, so that one value stays on its line.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text
    )


def counted(number: int, noun: str) -> str:
    """Give a number and its noun, in the plural where there is not exactly one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
