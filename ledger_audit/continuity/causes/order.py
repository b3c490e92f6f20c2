"""Causes of another order, of another data set, and of passes that end or repeat."""

from ledger_audit.continuity.causes.case import Case
from ledger_audit.continuity.causes.position import Found
from ledger_audit.model import Expected, Overlay, Resumed, Verdict
from ledger_audit.model.causes import Confidence

DATA_KEYS = ("dataset", "index_files", "index_hash", "train_samples", "dataset_order", "filter")
PACKING_KEYS = ("packing", "sequence_length", "seq_length")
ORDER_KEYS = (
    "seed",
    "shuffle_state",
    "sampler",
    "shuffle",
    "shuffle_algo",
    "versions",
    "framework",
)


def epoch_exhausted(case: Case) -> Found:
    """The checkpoint lies at the end of a pass, and the next one is missing."""
    before, now = case.clues.passes
    if not case.clues.is_pass_over or before is None:
        return None
    if now is None:
        return "likely", f"step {case.step} ends pass {before}, and nothing was used after it"
    if now <= before + 1 or not case.amount(Expected.SKIPPED):
        return None
    return "proven", (
        f"step {case.step} ends pass {before}, and the resumed attempt begins with pass {now}: "
        f"pass {before + 1} is missing"
    )


def epoch_not_set(case: Case) -> Found:
    """The place is right, and the order is that of another pass."""
    other, (_, now) = case.clues.order_of, case.clues.passes
    if other is not None and (_is_other_order(case) or case.shift != 0):
        return "proven", (
            f"the first resumed step, labelled pass {now}, holds what pass {other} held at this "
            f"place"
        )
    later = _repeated_pass(case)
    is_right_at_first = case.resume.reference_kind == "control" and case.resume.first_place == 0
    if later is not None and is_right_at_first and case.is_disordered:
        return "likely", (
            f"pass {later[0]} has exactly the order of pass {later[1]}, and another in the control"
        )
    return None


def dataset_changed(case: Case) -> Found:
    """The same places hold other samples."""
    changed = case.changed(*DATA_KEYS)
    drift = 0 if case.resume.positions is None else case.resume.positions.drift
    if case.changed(*PACKING_KEYS) or not changed or not _is_other_order(case):
        return None
    parts = [f"{drift} places of the stream hold other samples"] if drift else []
    parts.append(f"{', '.join(changed)} changed")
    return ("proven" if drift else "likely"), "; ".join(parts)


def packing_changed(case: Case) -> Found:
    """Documents go on, and their spans do not."""
    changed = case.changed(*PACKING_KEYS)
    if not case.clues.is_repacked or (not changed and case.changed(*DATA_KEYS)):
        return None
    told = "documents are used again in other spans"
    is_rest = bool(case.clues.holed_documents or case.clues.reread[0])
    sure: Confidence = "proven" if changed else "possible" if is_rest else "likely"
    return sure, told + (f"; {', '.join(changed)} changed" if changed else "")


def shuffle_changed(case: Case) -> Found:
    """The place is right, and the order is unrelated."""
    if not _is_other_order(case) or case.clues.is_repacked or case.clues.order_of is not None:
        return None
    replayed, skipped = case.clues.replayed, case.amount(Expected.SKIPPED)
    drift = 0 if case.resume.positions is None else case.resume.positions.drift
    if not drift and not (replayed and (skipped or case.amount(Resumed.UNEXPECTED))):
        return None
    changed = case.changed(*ORDER_KEYS)
    told = (
        f"{replayed} records are used again, {skipped} of the next are not used, and what is used "
        f"comes in no order of theirs"
    )
    told += f"; {drift} places of the stream hold other samples" if drift else ""
    return "likely", told + (f"; {', '.join(changed)} changed" if changed else "")


def frozen_epochs(case: Case) -> Found:
    """Passes share one order."""
    later = _repeated_pass(case)
    if later is None or epoch_not_set(case) is not None:
        return None
    return "proven", f"pass {later[0]} has exactly the order of pass {later[1]}"


def split_leak(case: Case) -> Found:
    """Forbidden samples entered."""
    hits = case.resume.overlays.get(Overlay.FORBIDDEN)
    clauses = {one.clause: one.verdict for one in case.resume.clauses}
    if hits is None or not hits.records or clauses.get("forbidden") != Verdict.BROKEN:
        return None
    return "proven", f"{hits.records} records of forbidden samples were used"


def workers_changed(case: Case) -> Found:
    """Another number of loader workers deals the stream in another order."""
    changed = case.changed("workers")
    lost = case.clues.replayed or case.amount(Expected.SKIPPED)
    if not changed or lost or not (case.is_disordered or case.amount(Resumed.MOVED)):
        return None
    facts = case.resume.fingerprints
    assert facts is not None
    one = next(one for one in facts.changes if one.key == "workers")
    return "likely", (
        f"{one.before} workers became {one.after}; nothing is lost or repeated, and "
        f"{case.amount(Resumed.MOVED)} records are at other steps"
    )


def shuffle_buffer_lost(case: Case) -> Found:
    """What is skipped lies scattered behind the cursor, about a buffer in number."""
    skipped, runs = case.amount(Expected.SKIPPED), case.clues.skip_runs
    others = max(case.amount(Resumed.REPLAYED), case.amount(Resumed.UNEXPECTED))
    held = case.shuffle_buffer
    is_late = not case.clues.skips_first or not skipped
    for one in case.resume.later_epochs if not case.clues.replayed else ():
        missing = one.missing or 0
        is_same = is_late and 0 < skipped == missing
        if held is not None and (skipped < missing <= held or (is_same and missing <= held)):
            told = f"pass {one.epoch} misses {one.missing} samples, and the buffer holds {held}"
            return "likely", told
        if held is None and is_same:
            told = f"pass {one.epoch} misses {one.missing} samples, from between others"
            return "possible", told
    if runs < 3 or others > skipped or case.clues.lanes or case.shift:
        return None
    if case.is_disordered and (held is None or case.clues.replayed):
        return None  # a buffer that is filled anew draws in another order, and nothing twice
    if held is not None and skipped > held:
        return None
    buffer = "" if held is None else f"; the buffer holds {held}"
    sure: Confidence = "possible" if held is None else "likely"
    return (
        sure,
        f"{skipped} records are skipped, in {runs} places between others that are used{buffer}",
    )


def packing_remainder_lost(case: Case) -> Found:
    """The rest of documents that a packer held is skipped."""
    holed, skipped = case.clues.holed_documents, case.amount(Expected.SKIPPED)
    if case.changed(*PACKING_KEYS):
        return None
    documents, tokens = case.clues.reread
    if documents and not skipped:
        return "likely", (
            f"of {documents} documents that the checkpoint cut, {tokens} tokens are used again, "
            f"and nothing else is"
        )
    most = case.clues.deal.ranks * max(1, (case.loaders or (1, 1))[0])
    if case.clues.is_packed and not holed and case.clues.shift == 0 and 0 < skipped <= most:
        return "possible", (
            f"{skipped} whole documents are skipped inside sequences, no more than the packers of "
            f"{case.clues.deal.ranks} ranks may hold, and no sequence is"
        )
    if not holed or case.amount(Resumed.REPLAYED):
        return None
    return "likely", (
        f"of {holed} documents a part is used and the rest, {case.amount(Expected.SKIPPED)} spans "
        f"in all, is skipped"
    )


def unsharded_ranks(case: Case) -> Found:
    """Ranks used the same samples before the failure, too."""
    shared, of = case.clues.unsharded
    if not shared:
        return None
    return "proven", (
        f"{shared} of {of} samples were used by several of the {case.clues.deal.ranks} ranks "
        f"before the failure; whether these are model-parallel peers cannot be told from records"
    )


def ids_not_unique(case: Case) -> Found:
    """One id names several samples."""
    for limit in case.resume.limits:
        if limit.code == "ids-unique-per-shard-suspected":
            return "likely", limit.text
    return None


def _repeated_pass(case: Case) -> tuple[int | None, int] | None:
    for one in case.resume.later_epochs:
        if one.same_order_as is not None:
            return one.epoch, one.same_order_as
    return None


def _is_other_order(case: Case) -> bool:
    """Tell whether the stream is neither where it should be nor merely early or late."""
    is_mixed = case.clues.mixed_ranks > 0
    return not case.is_shifted and (
        case.is_disordered or is_mixed or case.amount(Resumed.UNEXPECTED) > 0
    )
