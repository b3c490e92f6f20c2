"""`ledger-audit explain`: what a cause, an outcome, a limit or a word is, for who reads it."""

from difflib import get_close_matches

import click

from ledger_audit.cli.output import say
from ledger_audit.errors import ExitCode, UsageError
from ledger_audit.printable import quoted


@click.command()
@click.argument("slug", required=False)
def explain(slug: str | None) -> int:
    """
    Say what the cause, outcome or limit SLUG is, or a word of a report, such as `lane`.

    Of a cause also why it matters, how the ledger shows it, how to fix it, and what looks alike.
    Without SLUG, list all causes, outcomes and limits.
    """
    from ledger_audit.explained import names, pages, words

    known = list(names())
    if slug is None:
        width = max(len(name) for _, name, _ in known)
        say("".join(f"{kind:8}{name:{width}}  {told}\n" for kind, name, told in known))
        return ExitCode.CONTINUOUS
    found = pages(slug)
    if not found:
        near = get_close_matches(slug, [*(name for _, name, _ in known), *words()], n=1)
        raise UsageError(
            f"{quoted(slug)} is no cause, outcome, limit or word of the glossary",
            hint=f"did you mean {near[0]}?" if near else "`ledger-audit explain` lists them all",
        )
    say("\n".join(found))
    return ExitCode.CONTINUOUS
