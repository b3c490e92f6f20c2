"""Causes by arithmetic: the distance from where the stream should go on to where it does."""

from ledger_audit.continuity.causes.case import Case
from ledger_audit.model import Expected, Resumed
from ledger_audit.model.causes import Confidence

Found = tuple[Confidence, str] | None
"""How sure, and the arithmetic; null: it is something else."""


_MOST_OF = 0.8
"""Share of what was consumed that comes again where a stream begins again; some of it pads."""

_TOO_LARGE = 16
"""Batches in a chunk that a shift of whole batches does not end by chance."""

_CHUNKS = (
    16,
    32,
    64,
    100,
    128,
    256,
    500,
    512,
    1000,
    1024,
    2048,
    4096,
    8192,
    10_000,
    16_384,
    65_536,
)
"""What readers take at once, most often."""


def cursor_not_restored(case: Case) -> Found:
    """The stream began again: of the run, or of the pass."""
    again = case.amount(Resumed.REPLAYED)
    for amount, since in case.amounts:
        if case.clues.jumps_on and again < _MOST_OF * amount:
            continue  # it began again, and jumped on: something else mixes the two
        if case.shift == -amount:
            return "proven", f"{_where(case)}: {case.shift} = all that was committed {since}"
    return None


def stale_cursor(case: Case) -> Found:
    """It goes on from another checkpoint."""
    for step in case.checkpoints:
        gone, ahead = case.since(step), case.until(step)
        if gone and case.shift == -gone:
            return "likely", f"{_where(case)}: {case.shift} = back to the checkpoint at step {step}"
        if ahead and case.shift == ahead:
            return "likely", f"{_where(case)}: +{ahead} = on to the checkpoint at step {step}"
    return None


def relative_cursor(case: Case) -> Found:
    """The claim counts since the last resume, and is read as if since the run's beginning."""
    for step in case.earlier:
        own, consumed = case.since(step), case.consumed
        if own is not None and consumed and own < consumed and case.shift == own - consumed:
            steps = case.step - step
            return "likely", (
                f"{_where(case)}: {case.shift} = {own} {case.unit}s of the {steps} steps since the "
                f"resume at step {step}, instead of {consumed}"
            )
    return None


def steps_for_micro_batches(case: Case) -> Found:
    """A count of steps was read as one of micro-batches."""
    slots = case.clues.deal.slots
    if (base := _one_part_of(case, slots)) is None:
        return None
    return "likely", (
        f"{_where(case)}: {case.shift} = -{base[0]} {base[1]} x {slots - 1}/{slots}; the count is "
        f"of steps, and a step has {slots} micro-batches"
    )


def rank_count_for_global(case: Case) -> Found:
    """A rank's own count was restored where that of all ranks belongs."""
    ranks = case.clues.deal.ranks
    if (base := _one_part_of(case, ranks)) is None:
        return None
    return "likely", (
        f"{_where(case)}: {case.shift} = -{base[0]} {base[1]} x {ranks - 1}/{ranks}; one of "
        f"{ranks} ranks had used {base[0] // ranks}"
    )


def batch_size_rescaled(case: Case) -> Found:
    """A count of steps was multiplied by another batch, or rounded to one."""
    before, now, consumed = case.batch, case.batch_now, case.consumed
    if not before or not now or before == now:
        return None
    if case.least is not None and case.step * (now - before) >= case.least:
        return "likely", (
            f"at least {case.least} are skipped, and {case.step} steps x ({now} - {before}) = "
            f"{case.step * (now - before)}: the step was multiplied by the new batch"
        )
    if case.shift is None:
        return None
    if case.shift == case.step * (now - before):
        return "likely", (
            f"{_where(case)}: {case.shift} = {case.step} steps x ({now} - {before}): the step was "
            f"multiplied by the new batch"
        )
    if consumed and case.shift and case.shift == -(consumed % now):
        return "likely", (
            f"{_where(case)}: {case.shift} = {consumed} rounded down to a multiple of the new "
            f"batch of {now}"
        )
    return None


def off_by_one_batch(case: Case) -> Found:
    """One global batch, or one micro-batch of every rank, too early or too late."""
    batch, deal = case.batch, case.clues.deal
    if not case.shift or batch is None or not (case.is_even or not case.clues.by_rank):
        return None
    back = case.since(case.step - 1)
    if case.shift in (batch, -(back or batch)):
        return "likely", f"{_where(case)}: {case.shift:+} = one global batch"
    if deal.slots > 1 and abs(case.shift) == deal.ranks * deal.rows:
        return "likely", (
            f"{_where(case)}: {case.shift:+} = one micro-batch of {deal.rows} on each of "
            f"{deal.ranks} ranks"
        )
    return None


def offset_applied_twice(case: Case) -> Found:
    """The offset was skipped by two parts of the program."""
    of_pass, size = case.of_pass, case.clues.size
    if not case.clues.now and of_pass and size and of_pass < size < 2 * of_pass:
        return "likely", (
            f"nothing was used after the resume: {of_pass} that were committed in this pass, "
            f"skipped twice, are more than the {size} samples of the pass"
        )
    for amount, since in case.amounts if not case.clues.is_pass_over else ():
        if case.shift == amount:
            told = f"{_where(case)}: +{amount} = all that was committed {since}, once more"
            return "likely", told
    return None


def void_steps_rewound(case: Case) -> Found:
    """Void updates moved the stream, and not the count."""
    batch = case.batch
    if not case.voids or not batch or case.shift != -case.voids * batch:
        return None
    return "likely", (
        f"{_where(case)}: {case.shift} = {case.voids} updates that were thrown away x {batch}"
    )


def prefetch_counted(case: Case) -> Found:
    """What was read or queued counts as consumed."""
    ahead, shift = case.claimed_ahead, case.shift
    skipped = case.amount(Expected.SKIPPED)
    if case.is_replaying or not skipped or case.loaders == (0, 0):
        return None
    if not case.is_even or not case.clues.skips_first:
        return None
    queue = None
    if case.loaders is not None:
        workers, batches = case.loaders
        queue = workers * batches * case.clues.deal.ranks * case.clues.deal.rows
    shift = case.resume.shift.records if shift is None else shift
    at_least = skipped if shift is None else shift
    is_exact = not case.resume.shift.is_lower_bound and shift is not None
    fits = {
        one for one in (ahead, queue) if one and (one == at_least if is_exact else one >= at_least)
    }
    if not fits or (ahead or 0) < 0 or (queue is not None and queue not in fits):
        return None
    told = "at least " * (not is_exact)
    parts = []
    if ahead in fits:
        parts.append(f"the claim is {ahead} ahead of what was committed")
    if queue in fits and case.loaders is not None:
        workers, batches = case.loaders
        parts.append(
            f"{case.clues.deal.ranks} ranks x {workers} workers x {batches} batches x "
            f"{case.clues.deal.rows} = {queue} were read ahead"
        )
    is_sure = ahead is not None and ahead == queue
    return ("proven" if is_sure else "likely"), f"{told}{at_least} skipped; " + "; ".join(parts)


def partial_accumulation_lost(case: Case) -> Found:
    """The cursor counts micro-batches of a step that is in no update."""
    slots = case.clues.skipped_slots
    first = case.step + 1
    own = slots.get(first, frozenset())
    every = case.clues.deal.slots
    if (
        case.is_replaying
        or set(slots) != {first}
        or not own
        or own != frozenset(range(len(own)))
        or len(own) >= every
    ):
        return None
    skipped = case.amount(Expected.SKIPPED)
    which = "slot 0" if len(own) == 1 else f"slots 0 to {len(own) - 1}"
    return "likely", (
        f"{which} of step {first}, {skipped} records, are skipped and the next follow: they were "
        f"used before the checkpoint, and their update was not made"
    )


def offset_reapplied_each_epoch(case: Case) -> Found:
    """The first resumed pass is right, and later ones begin at its offset."""
    offset = case.of_pass
    missing: dict[int | None, int] = {}
    for one in case.resume.later_epochs:  # of each source
        missing[one.epoch] = missing.get(one.epoch, 0) + (one.missing or 0)
    for epoch, count in missing.items():
        # what pads the end of the pass may be of its beginning
        is_alike = offset and offset - (case.batch or 1) < count <= offset
        if is_alike and case.resume.first_place == 0 and not case.is_scattered:
            return "likely", (
                f"pass {epoch} misses {count} samples, and {offset} were used in the pass of the "
                f"checkpoint before it"
            )
    return None


def read_chunk_skipped(case: Case) -> Found:
    """One stretch up to the end of a chunk is skipped."""
    shift, consumed, batch = case.shift, case.consumed, case.batch
    if not shift or shift < 0 or not consumed or not batch or case.clues.skip_runs != 1:
        return None
    chunks = [size for size in _CHUNKS if (consumed + shift) % size == 0 and shift < size]
    is_whole = batch > 1 and shift % batch == 0
    if not chunks or (is_whole and max(chunks) < _TOO_LARGE * batch) or shift == batch:
        return None
    return "possible", (
        f"{_where(case)}: the {shift} that are skipped end at a multiple of {max(chunks)}, as a "
        f"chunk that is read at once would"
    )


def declared_skip_reapplied(case: Case) -> Found:
    """A stretch as long as a declared skip is left out once more, later."""
    skipped = case.amount(Expected.SKIPPED)
    if skipped not in case.declared or case.clues.skip_runs != 1 or case.is_replaying:
        return None
    return "likely", (
        f"{skipped} records in a row are skipped that no declaration names, as many as were "
        f"declared as skipped before the checkpoint"
    )


def count_is_not_position(case: Case) -> Found:
    """A count of samples was restored as a place in a stream that has holes."""
    positions, reached, consumed = case.resume.positions, case.clues.reached, case.consumed
    if positions is None or reached is None or not consumed or reached <= consumed or case.voids:
        return None
    if positions.first != consumed:
        return None
    return "likely", (
        f"resumed at place {consumed}, as many as were used, and the last used had place "
        f"{reached - 1}: {reached - consumed} places below it held nothing"
    )


def label_behind_weights(case: Case) -> Found:
    """The checkpoint holds later updates than its label says."""
    for limit in case.resume.limits:
        if limit.code == "label-behind-weights":
            return "proven", limit.text
    return None


def _one_part_of(case: Case, parts: int) -> tuple[int, str] | None:
    """Give the amount of which the stream goes on after one of so many parts, and since when."""
    if parts < 2 or not case.shift or not (case.is_even or not case.clues.by_rank):
        return None
    bases = ((at, since) for at, since in case.amounts if case.shift * parts == -at * (parts - 1))
    return next(bases, None)


def _where(case: Case) -> str:
    shift, consumed = case.shift or 0, case.consumed
    if consumed is not None:
        return f"resumed at {case.unit} {consumed + shift} where {consumed} was expected"
    return f"resumed {abs(shift)} {case.unit}s too {'early' if shift < 0 else 'late'}"
