"""`ledger-audit explain`: the page of a cause, for who reads its name in a report."""

from difflib import get_close_matches

import click

from ledger_audit.cli.output import say
from ledger_audit.errors import ExitCode, UsageError
from ledger_audit.printable import quoted


@click.command()
@click.argument("slug", required=False)
def explain(slug: str | None) -> int:
    """
    Say of the cause SLUG what it is, how the ledger shows it, and how to fix it.

    Also why it matters, and what looks alike. Without SLUG, list all causes.
    """
    from ledger_audit.explained import causes, page

    known = causes()
    if slug is None:
        width = max(map(len, known))
        say("".join(f"{name:{width}}  {told['title']}\n" for name, told in known.items()))
        return ExitCode.CONTINUOUS
    if slug not in known:
        near = get_close_matches(slug, known, n=1)
        raise UsageError(
            f"{quoted(slug)} is no cause that is known",
            hint=f"did you mean {near[0]}?" if near else "`ledger-audit explain` lists all causes",
        )
    say(page(slug))
    return ExitCode.CONTINUOUS
