"""The report of `checkpoints` for eyes: which one to resume from, then all, then why."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ledger_audit.model.checkpoints import Checkpoint, Checkpoints, Ladder, Probed
from ledger_audit.printable import counted, printable, quoted, ranges_of
from ledger_audit.report.phrases import as_sentence
from ledger_audit.report.screen import Screen
from ledger_audit.report.terminal import labelled, plain, render

EXPLAINED = 3
"""Checkpoints that are explained unless all are asked for."""
MOST_COMPARISONS = 12
MOST_PATHS = 8
"""What is told of one checkpoint; the rest is counted."""

_STYLES = {
    "yes": "green",
    "no": "bold red",
    "unknown": "bold yellow",
    "agrees": "green",
    "contradicts": "bold red",
    "not-compared": "yellow",
}
_TITLES = {"yes": "resumable", "no": "not resumable", "unknown": "not known to be resumable"}


def to_terminal(report: Checkpoints, screen: Screen, *, is_long: bool = False) -> str:
    """Give the report as lines for a screen; all checkpoints explained, or the newest few."""
    return render([*_blocks(report, is_long=is_long)], screen)


def _blocks(report: Checkpoints, *, is_long: bool) -> Iterator[RenderableType]:
    yield from _head(report)
    if report.found:
        yield ""
        yield Padding(_rows(report.found), (0, 0, 0, 2))
    shown = report.found if is_long else report.found[:EXPLAINED]
    for one in shown:
        yield ""
        yield from _explained(one)
    left = len(report.found) - len(shown)
    if left:
        yield ""
        yield plain(f"--all explains {counted(left, 'more checkpoint')}.")
    for note in report.notes:
        yield ""
        yield plain(f"Note: {note}.")


def _head(report: Checkpoints) -> Iterator[RenderableType]:
    """Say in one sentence what to resume from, and what is wrong with newer ones."""
    choice, newest = report.choice, report.newest_whole
    if not report.found:
        yield Text("NO CHECKPOINT", style=_STYLES["unknown"]) + plain(" is logged", "bold")
        yield plain("Nothing says what a resume would begin with.")
        yield ""
        yield labelled(
            [("settle", "ledger.checkpoint(step, claim=...) in the trainer logs each save")]
        )
        return
    if choice is not None:
        yield Text("RESUME FROM", style=_STYLES["yes"]) + plain(f" {_name(choice)}", "bold")
        yield plain(as_sentence(f"{choice.wholeness.text}; {choice.because[0]}"))
        if not choice.in_lineage:
            yield plain("The newest weights do not hold its work: they went on from an older one.")
    elif any(one.resumable == "unknown" for one in report.found):
        told = plain(" is known to be fit to resume from", "bold")
        yield Text("NO CHECKPOINT", style=_STYLES["unknown"]) + told
    else:
        yield Text("NO CHECKPOINT", style=_STYLES["no"]) + plain(" is fit to resume from", "bold")
    if newest is None:
        yield plain("No checkpoint is whole on all its writers.")
    elif newest is not choice:
        yield plain(as_sentence(f"{_name(newest)}, the newest whole one: {newest.because[0]}"))
    if choice is not None and any(choice.attempt in one.loaded_by for one in report.found):
        why = "whether the resume before it was right, which no checkpoint tells"
        yield ""
        yield labelled([("more", f"ledger-audit diff LEDGER: {why}")])
    if choice is None and newest is not None and newest.agreement == "contradicts":
        command = f"ledger-audit plan LEDGER --checkpoint-step {newest.step} ..."
        yield ""
        yield labelled(
            [("more", f"{command}: what is left by what was committed, not by the claim")]
        )
    if choice is not None and choice.claim is not None and choice.claim.notes:
        yield ""
        yield labelled([("note", note) for note in choice.claim.notes])


def _name(one: Checkpoint) -> str:
    again = f" (save {one.nth})" if one.nth > 1 else ""
    return f"step {one.step:,}{again} of attempt {one.attempt}"


def _rows(found: tuple[Checkpoint, ...]) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("attempt", overflow="fold", max_width=24)
    table.add_column("step", justify="right", no_wrap=True)
    for name in ("whole", "claim", "resumable"):
        table.add_column(name, no_wrap=True)
    table.add_column("a resume would", overflow="fold")
    for one in found:
        table.add_row(
            plain(one.attempt),
            f"{one.step:,}" + (f" ({one.nth})" if one.nth > 1 else ""),
            {True: "yes", False: "no", None: "unknown"}[one.wholeness.is_whole],
            Text(_agreement(one), style=_STYLES[one.agreement]),
            Text(one.resumable, style=_STYLES[one.resumable]),
            _would(one),
        )
    return table


def _agreement(one: Checkpoint) -> str:
    if one.claim is None:
        return "none"
    return "not compared" if one.claim.agreement == "not-compared" else one.claim.agreement


def _would(one: Checkpoint) -> str:
    """Say what a resume would do with the data, as far as anything says it."""
    if one.wholeness.is_whole is False:
        return "-"  # nobody can load it
    parts = []
    if one.label.state == "behind":
        parts.append("train updates again")
    if one.label.state == "ahead":
        parts.append("leave updates out")
    if one.ahead:
        did = "skip" if one.ahead > 0 else "replay"
        parts.append(f"{did} {counted(abs(one.ahead), 'sequence')}")
    elif one.ahead == 0:
        parts.append("neither skip nor replay" if not parts else "")
    return "; ".join(part for part in parts if part) or "-"


def _explained(one: Checkpoint) -> Iterator[RenderableType]:
    yield plain(f"{_name(one)[:1].upper()}{_name(one)[1:]}: ", "bold") + Text(
        _TITLES[one.resumable], style=_STYLES[one.resumable]
    )
    rows = [("because", text) for text in _because(one)]
    rows.append(("whole", one.wholeness.text))
    if one.wholeness.unsynced:
        ranks = ranges_of(one.wholeness.unsynced)
        rows.append(("whole", f"not safe on storage by then: the ledger of rank {ranks}"))
    rows.append(("weights", one.label.text))
    rows += _claim(one)
    rows.append(("ladder", _ladder(one.ladder)))
    if one.unseen is not None:
        rows.append(("unseen", one.unseen))
    rows.append(("digest", f"{one.digest.value or 'not known'}: {one.digest.text}"))
    rows.append(("fingerprint", _fingerprint(one)))
    rows += _files(one)
    if one.loaded_by:
        labels = ", ".join(quoted(label) for label in one.loaded_by)
        rows.append(("loaded by", f"attempt {labels}"))
    if not one.in_lineage:
        rows.append(("lineage", "what it holds is not in the newest weights"))
    yield labelled(rows)


def _because(one: Checkpoint) -> Iterator[str]:
    """Give the reasons, without what other lines say."""
    below = [one.wholeness.text, one.label.text, one.digest.text]
    if one.claim is not None:
        below += [comparison.text for comparison in one.claim.comparisons[:MOST_COMPARISONS]]
        # of several that contradict, it is the first, and how many more there are
        is_told = one.claim.text.startswith(tuple(below[3:])) if below[3:] else True
        below += [one.claim.text] if is_told else []
    for text in one.because:
        told = next((each for each in below if text.endswith(f": {each}")), None)
        if text not in below:
            yield text if told is None else text.removesuffix(f": {told}")


def _claim(one: Checkpoint) -> Iterator[tuple[str, str]]:
    if one.claim is None:
        yield "claim", "none was saved"
        return
    shown = one.claim.comparisons[:MOST_COMPARISONS]
    for comparison in shown:
        word = "" if comparison.agreement == "not-compared" else f"{comparison.agreement}: "
        key = "" if comparison.key in comparison.text else f" ({printable(comparison.key)})"
        yield "claim", f"{word}{comparison.text}{key}"
    if not shown:
        yield "claim", one.claim.text
    left = len(one.claim.comparisons) - len(shown)
    if left:
        yield "claim", f"and {counted(left, 'more number')}"
    for note in one.claim.notes:
        yield "note", note


def _ladder(ladder: Ladder) -> str:
    rungs = {
        "read": ladder.read,
        "queued": ladder.queued,
        "used": ladder.used,
        "committed": ladder.committed,
    }
    told = [f"{name} {'-' if n is None else f'{n:,}'}" for name, n in rungs.items()]
    return f"{', '.join(told)} sequences"


def _fingerprint(one: Checkpoint) -> str:
    told = one.fingerprint
    if not told.value:
        return "none is logged"
    if not told.changes:
        return f"{counted(len(told.value), 'key')}, as at the start of the attempt"
    changes = [
        f"{quoted(key)} was {quoted(str(then))} and is {quoted(str(now))}"
        for key, then, now in told.changes
    ]
    return f"changed since the start of the attempt: {'; '.join(changes)}"


def _files(one: Checkpoint) -> Iterator[tuple[str, str]]:
    if one.probed is None:
        for path in one.paths[:MOST_PATHS]:
            yield "files", f"{path} (not looked at: --probe does)"
    for probed in (one.probed or ())[:MOST_PATHS]:
        yield "files", _probed(probed)
    if one.probed is not None and not one.paths:
        yield "files", "no path is logged: nothing was looked at"
    left = len(one.paths) - MOST_PATHS
    if left > 0:
        yield "files", f"and {counted(left, 'more path')}"


def _probed(probed: Probed) -> str:
    parts = []
    if probed.kind is not None:
        size = "" if probed.bytes is None else f", {counted(probed.bytes, 'byte')}"
        parts.append(f"{probed.kind}, {counted(probed.files or 0, 'file')}{size}")
    parts += [*probed.faults, *probed.notes]
    return f"{probed.path}: {'; '.join(parts)}"
