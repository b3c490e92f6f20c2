"""Makes text from logs safe to show: nothing in it steers a terminal or hides what follows."""


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
