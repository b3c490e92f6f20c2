"""
Reads the windows of a resume, or of a whole stream, and judges them: narrowly first.

What a window of steps does not explain is looked up in the rest of the lineage; if a repeat stays
unexplained, everything is read, because where epochs end decides what is padding.
"""

from dataclasses import replace

import polars as pl

from ledger_audit.continuity import windows as cut
from ledger_audit.continuity.beside import look_beside
from ledger_audit.continuity.circumstances import Circumstances
from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.expectation import Expectation, guide
from ledger_audit.continuity.forbidden import Found
from ledger_audit.continuity.frames import IS_USED, Side
from ledger_audit.continuity.holding import check_held
from ledger_audit.continuity.resume import Audited, audit_resume
from ledger_audit.continuity.terms import asked_of
from ledger_audit.continuity.weights import trained_again
from ledger_audit.continuity.windows import Source, Windows
from ledger_audit.model import Expected, Reading, Resume


def judge(
    source: Source,
    index: int,
    contract: Contract,
    reading: Reading,
    forbidden: Found | None = None,
    expected: Expectation | None = None,
    too_large: int | None = None,
) -> Resume:
    """
    Judge the resume of attempt `index` by an expected stream, or by its rolled-back window.

    Args:
        source: the ledger.
        index: the place of the resumed attempt in the lineage.
        contract: what the stream promises.
        reading: how much to read around the checkpoint: so many steps, or everything.
        forbidden: what was found in the lineage of what the contract forbids.
        expected: what the run is to follow; null, or where it did not before: the rolled-back
            window is the reference.
        too_large: records that were all to be looked at, and that memory does not hold; null:
            this is found out here.

    Raises:
        UsageError: everything is to be read, and memory does not hold it.
    """
    source = asked_of(source, contract)
    is_whole = reading.full or contract.draws_anew
    last = None if is_whole else (source.lineage.chain[index].resumed_at or 0) + reading.after
    beside = look_beside(source, index, contract, forbidden, last)
    around = Circumstances(
        has_commits=source.has_commits,
        awaited=reading.awaited,
        beside=beside,
        too_large=too_large,
    )
    if not is_whole:
        return _judge_narrowly(source, index, contract, reading, around, expected)
    check_held(source.rows, source.most)
    return _judge_whole(source, index, contract, reading, around, expected)


def _judge_whole(
    source: Source,
    index: int,
    contract: Contract,
    reading: Reading,
    around: Circumstances,
    expected: Expectation | None,
) -> Resume:
    """Judge by everything; of an expected stream, by as many steps and some more."""
    windows = whole_windows(source, index)
    if expected is not None:
        reached = windows.resumed.steps["step"].max()
        far = reached if isinstance(reached, int) else windows.checkpoint_step
        last = far + reading.after
        windows, around = _guided(expected, windows, contract, around, last)
        if around.departs_at is None and expected.reaches_beyond(last):
            audited = audit_windows(windows, source, index, contract, around)
            windows = _with_later(windows, expected, audited, last)
    return judge_windows(windows, source, index, contract, around)


def _with_later(windows: Windows, expected: Expectation, audited: Audited, last: int) -> Windows:
    """Look up what has no match in the steps of an expected stream that were not read."""
    rows = audited.classified.resumed
    unmatched = rows.filter(IS_USED, pl.col("ref").is_null())["sample_id"].unique()
    found = list(expected.lookup(unmatched, last))
    return replace(windows, reference=cut.with_beyond(expected.source, windows.reference, found))


def _guided(
    expected: Expectation,
    windows: Windows,
    contract: Contract,
    around: Circumstances,
    last: int,
) -> tuple[Windows, Circumstances]:
    """Take an expected stream for the reference, or say why it is none."""
    guided = guide(expected, windows, contract.token_overlap, last)
    return guided.windows, replace(around, departs_at=guided.departs_at, departs_from=expected.kind)


def _judge_narrowly(
    source: Source,
    index: int,
    contract: Contract,
    reading: Reading,
    around: Circumstances,
    expected: Expectation | None,
) -> Resume:
    """Judge by the steps around the checkpoint, and by more where they do not explain all."""
    checkpoint = source.lineage.chain[index].resumed_at or 0
    first, last = checkpoint - reading.before + 1, checkpoint + reading.after
    near = cut.read_ahead(source, index - 1, max(0, first), last)
    windows = Windows(
        checkpoint_step=checkpoint,
        committed=cut.committed_window(near, index, max(0, first)),
        reference=cut.rolled_back_window(near, index, last),
        resumed=cut.resumed_window(near, index, last),
        reference_kind="rolled-back",
    )
    if expected is not None:
        windows, around = _guided(expected, windows, contract, around, last)
        expected = None if around.departs_at is not None else expected
    is_longer = expected is not None and expected.reaches_beyond(last)
    if not is_longer and not _cuts_off(source, index, first=first, last=last):
        return judge_windows(windows, source, index, contract, around)
    reached = source.lineage.chain[index].last_step
    unread = last + 1 if reached is not None and reached > last else None
    narrow = replace(around, is_narrow=True, unread_from=unread)
    audited = audit_windows(windows, source, index, contract, narrow)
    wider = _looked_up(windows, source, index, audited, expected, first=first, last=last)
    if wider is not windows:
        audited = audit_windows(wider, source, index, contract, narrow)
    if audited.needs_more and around.too_large is None:
        if not source.is_too_large:
            return _judge_whole(source, index, contract, reading, around, expected)
        narrow = replace(narrow, too_large=source.rows)
        audited = audit_windows(wider, source, index, contract, narrow)
    return replace(audited.told(), read_steps=(max(0, first), last))


def whole_windows(source: Source, index: int, control: Side | None = None) -> Windows:
    """Give the windows of a resume, all of them; the reference is a control, if there is one."""
    return Windows(
        checkpoint_step=source.lineage.chain[index].resumed_at or 0,
        committed=cut.committed_window(source, index),
        reference=cut.rolled_back_window(source, index) if control is None else control,
        resumed=cut.resumed_window(source, index),
        reference_kind="rolled-back" if control is None else "control",
    )


def judge_windows(
    windows: Windows, source: Source, index: int, contract: Contract, around: Circumstances
) -> Resume:
    """Judge a resume by its windows."""
    audited = audit_windows(windows, source, index, contract, around)
    later = audited.report.later_epochs
    if index > 1 and any(epoch.is_broken and epoch.missing for epoch in later):
        # an epoch may miss what an earlier resume skipped, which is no fault of this one
        around = replace(around, skipped_before=_skipped_before(source, index, contract))
        audited = audit_windows(windows, source, index, contract, around)
    return audited.told()


def _skipped_before(source: Source, index: int, contract: Contract) -> pl.DataFrame:
    """Collect what earlier resumes of the lineage skipped: source, epoch, sample_id."""
    around = Circumstances(has_commits=source.has_commits)
    found = []
    for earlier in range(1, index):
        windows = whole_windows(source, earlier)
        expected = audit_windows(windows, source, earlier, contract, around).classified.expected
        skipped = expected.filter(pl.col("worst") == Expected.SKIPPED)
        found.append(skipped.select("source", "epoch", "sample_id"))
    return pl.concat(found)


def audit_windows(
    windows: Windows, source: Source, index: int, contract: Contract, around: Circumstances
) -> Audited:
    """Audit a resume; where that asks something more of the ledger, once more with the answer."""
    labels = {
        "from_attempt": source.lineage.chain[index - 1].label,
        "to_attempt": source.lineage.chain[index].label,
    }
    audited = audit_resume(windows, contract, around, **labels)
    again = _with_weights(audited, windows, around)
    places = _dropped(audited, source, index)
    if again is around and places is None:
        return audited
    windows = windows if places is None else replace(windows, dropped=places)
    return audit_resume(windows, contract, again, **labels)


def _with_weights(audited: Audited, windows: Windows, around: Circumstances) -> Circumstances:
    """Say what was used again of what the weights hold beyond their label."""
    beside = around.beside
    if beside is None or beside.held is None:
        return around
    told = trained_again(audited.classified, windows.checkpoint_step, beside.held)
    return replace(around, beside=replace(beside, trained_again=told))


def _dropped(audited: Audited, source: Source, index: int) -> pl.Series | None:
    """Give the positions that loaders dropped, where some are missing; null: there are none."""
    positions = audited.report.positions
    if positions is None or not (positions.holes or positions.shift) or source.dropped is None:
        return None
    dropped = [source.dropped(one.label) for one in source.lineage.chain[: index + 1]]
    places = pl.concat(dropped).unique().sort()
    return None if places.is_empty() else places


def _cuts_off(source: Source, index: int, *, first: int, last: int) -> bool:
    """Tell whether a window of steps leaves anything of the lineage unread."""
    chain = source.lineage.chain[: index + 1]
    begins = [one.first_step for one in chain if one.first_step is not None]
    ends = [one.last_step for one in chain if one.last_step is not None]
    return min(begins, default=first) < first or max(ends, default=last) > last


def _looked_up(
    windows: Windows,
    source: Source,
    index: int,
    audited: Audited,
    expected: Expectation | None,
    *,
    first: int,
    last: int,
) -> Windows:
    """
    Look up what the windows leave unmatched in the rest of the lineage and the lost work.

    Returns:
        The same windows, not a copy, if there was nothing to find.
    """
    rows, hoped = audited.classified.resumed, audited.classified.expected
    unmatched = rows.filter(IS_USED, pl.col("ref").is_null())["sample_id"]
    awaited = hoped.filter(pl.col("resumed").is_null())["sample_id"]
    chain, step = source.lineage.chain, pl.col("step")
    either = pl.concat([unmatched, awaited]).unique()
    found = {one.label: source.lookup(one.label, either) for one in chain[:index]}
    committed = [
        (one, found[one.label].filter(step < first, step <= until))
        for position, one in enumerate(chain[:index])
        if (until := source.lineage.until(position, index)) is not None
    ]
    parent, resumed = chain[index - 1], chain[index]
    is_unmatched = pl.col("sample_id").is_in(unmatched.unique().implode())
    lost = [(parent, found[parent.label].filter(step > last, is_unmatched))]
    if expected is not None:
        lost = list(expected.lookup(unmatched.unique(), last))
    until = source.lineage.until(index, len(chain) - 1)
    later = source.lookup(resumed.label, awaited).filter(
        step > last, step <= (cut.END if until is None else until)
    )
    if later.is_empty() and all(rows.is_empty() for _, rows in (*committed, *lost)):
        return windows
    return replace(
        windows,
        committed=cut.with_beyond(source, windows.committed, committed),
        reference=cut.with_beyond(
            source if expected is None else expected.source, windows.reference, lost
        ),
        resumed=cut.with_beyond(source, windows.resumed, [(resumed, later)]),
    )
