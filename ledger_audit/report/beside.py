"""What is told beside the records of a resume: claims, fingerprints, forbidden samples."""

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ledger_audit.model import Resume
from ledger_audit.model.causes import Cause
from ledger_audit.model.fingerprints import Change, FingerprintFacts
from ledger_audit.model.forbidden import Forbidden, ForbiddenHits, ForbiddenList
from ledger_audit.printable import counted, printable, quoted, ranges_of, several

MOST_CHANGES = 8
"""Changes of the fingerprint that a screen shows; the JSON report has more."""

PAIRS = {
    "saved-restored": "saved, restored",
    "saved-ledger": "saved, ledger",
    "restored-records": "restored, records",
}
_AGREEMENTS = {"agrees": "green", "contradicts": "bold red", "not-compared": "dim"}
_EFFECTS = {"yes": "can change the order", "unknown": "may change the order", "no": "cannot"}


def beside(resume: Resume) -> Iterator[RenderableType]:
    """Set causes, claims and fingerprints of a resume, if they tell anything."""
    if resume.causes:
        yield _causes(resume.causes)
    compared = [one for one in resume.claims if one.agreement != "not-compared"]
    if compared:
        grid = columns_of_three()
        for one in compared:
            word = Text(one.agreement, style=_AGREEMENTS[one.agreement])
            grid.add_row(Text(PAIRS[one.pair]), word, Text(printable(one.text)))
        yield grid
    facts = resume.fingerprints
    if facts is not None and (told := fingerprint_rows(facts)):
        grid = columns_of_three()
        for name, what, text in told:
            grid.add_row(Text(printable(name)), Text(what), Text(printable(text)))
        yield grid


def _causes(causes: tuple[Cause, ...]) -> Table:
    grid = columns_of_three()
    for one in causes:
        when = ", before the failure already" if one.is_older else ""
        grid.add_row(Text(one.code), Text(one.confidence), Text(f"{one.title}{when}"))
        grid.add_row("", "", Text(printable(one.evidence)))
        for other in one.alternatives if one is causes[0] else ():
            grid.add_row("", "or", Text(f"{other.code}: {other.decided_by} would decide"))
    return grid


def columns_of_three() -> Table:
    """Give a table without lines: a name, a word, and a text that may be long."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def fingerprint_rows(facts: FingerprintFacts) -> list[tuple[str, str, str]]:
    """Tell what changed and can matter, worst first, and how ranks began where it was faulty."""
    changed = [one for one in facts.changes if one.is_compared and one.can_change_order != "no"]
    changed.sort(key=lambda one: (not one.must_match or one.allowed is not None, one.key))
    told = [(one.key, "changed", _change(one)) for one in changed[:MOST_CHANGES]]
    if len(changed) > MOST_CHANGES:
        told.append(("", "", f"and {counted(len(changed) - MOST_CHANGES, 'more change')}"))
    for one in facts.restoring:
        if one.is_faulty:
            told.append(("restore", "order", f"rank {ranges_of(one.ranks)}: {one.text}"))
    return told


def _change(change: Change) -> str:
    text = f"{_value(change.before)} before, {_value(change.after)} after"
    if change.allowed is not None:
        return f"{text}; allowed: {change.allowed}"
    return f"{text}; {_EFFECTS[change.can_change_order]}: {change.because}"


def _value(value: Any) -> str:
    return "nothing" if value is None else quoted(str(value))


def forbidden_block(found: Forbidden) -> Iterator[RenderableType]:
    """Set every list that something was used against: by which attempt, where, since when."""
    for listed in found.lists:
        if listed.records:
            yield Text(against(listed), style="bold")
            grid = columns_of_three()
            for hits in listed.hits:
                grid.add_row(
                    f"  attempt {printable(hits.attempt)}",
                    "",
                    Text(f"{hits_of(hits)}; e.g. {', '.join(examples_of(hits))}"),
                )
            yield grid
    for note in found.notes:
        yield Text(f"note: {printable(note)}")


def against(listed: ForbiddenList) -> str:
    """Tell against which list how much was used, and since when."""
    return f"Against {_named(listed)}: {_since(listed)}"


def _named(listed: ForbiddenList) -> str:
    kind = {"forbid": "the list", "only": "the allowed list", "held-out": "the held-out stream"}
    return f"{kind[listed.kind]} {quoted(listed.name)}"


def _since(listed: ForbiddenList) -> str:
    records = counted(listed.records, "record")
    if listed.since == 0:
        return f"{records}, since the first attempt, before any restart"
    former = f"; {counted(listed.former, 'sample')} held out before" if listed.former else ""
    return f"{records}, with the restart as attempt {quoted(listed.since_attempt or '')}{former}"


def hits_of(hits: ForbiddenHits) -> str:
    """Tell what one attempt used against a list, and where."""
    tokens = "" if hits.tokens is None else f", {counted(hits.tokens, 'token')}"
    steps = ((hits.first_step, hits.last_step),)
    return (
        f"{counted(hits.records, 'record')} of {counted(hits.samples, 'sample')}{tokens}; "
        f"{several('rank', hits.ranks)}, {several('step', steps)}"
    )


def examples_of(hits: ForbiddenHits) -> list[str]:
    """Name some of the samples, with the tokens that were used."""
    return [
        quoted(one.sample_id) + ("" if one.span is None else f" [{one.span[0]}:{one.span[1]})")
        for one in hits.examples
    ]
