"""
Names why a stream did not continue: each cause a small function from a case to its arithmetic.

None is named for a resume that is right. Causes that fit the same records are all named, the
surest first, each with the fact that would decide.
"""

from collections.abc import Callable, Mapping

from ledger_audit.continuity.causes import order, position, ranks
from ledger_audit.continuity.causes.case import Case
from ledger_audit.continuity.causes.position import Found
from ledger_audit.model import Verdict
from ledger_audit.model.causes import Alternative, Cause, Confidence

Sign = Callable[[Case], Found]
Told = Mapping[str, tuple[Confidence, str]]
"""Slug → how sure, and the arithmetic."""

CAUSES: Mapping[str, Sign] = {
    "epoch-exhausted": order.epoch_exhausted,
    "packing-remainder-lost": order.packing_remainder_lost,
    "partial-accumulation-lost": position.partial_accumulation_lost,
    "batch-size-rescaled": position.batch_size_rescaled,
    "dataset-changed": order.dataset_changed,
    "declared-skip-reapplied": position.declared_skip_reapplied,
    "prefetch-counted": position.prefetch_counted,
    "label-behind-weights": position.label_behind_weights,
    "count-is-not-position": position.count_is_not_position,
    "void-steps-rewound": position.void_steps_rewound,
    "cursor-not-restored": position.cursor_not_restored,
    "relative-cursor": position.relative_cursor,
    "stale-cursor": position.stale_cursor,
    "resharded-wrongly": ranks.resharded_wrongly,
    "off-by-one-batch": position.off_by_one_batch,
    "steps-for-micro-batches": position.steps_for_micro_batches,
    "rank-count-for-global": position.rank_count_for_global,
    "offset-applied-twice": position.offset_applied_twice,
    "offset-reapplied-each-epoch": position.offset_reapplied_each_epoch,
    "ranks-swapped": ranks.ranks_swapped,
    "rank-cursor-shared": ranks.rank_cursor_shared,
    "worker-state-lost": ranks.worker_state_lost,
    "packing-changed": order.packing_changed,
    "epoch-not-set": order.epoch_not_set,
    "shuffle-changed": order.shuffle_changed,
    "workers-changed": order.workers_changed,
    "rank-cursor-stale": ranks.rank_cursor_stale,
    "shuffle-buffer-lost": order.shuffle_buffer_lost,
    "read-chunk-skipped": position.read_chunk_skipped,
    "split-leak": order.split_leak,
    "unsharded-ranks": order.unsharded_ranks,
    "ids-not-unique": order.ids_not_unique,
    "frozen-epochs": order.frozen_epochs,
}
"""Slug → its sign, the more special before the more general."""

OLDER = frozenset({"frozen-epochs", "unsharded-ranks", "ids-not-unique"})
"""Was there before the failure."""

DECIDED_BY: Mapping[str, str] = {
    "cursor-not-restored": "the state that the job loaded: none, or one that was ignored",
    "stale-cursor": "the path and step of the checkpoint whose loader state was loaded",
    "relative-cursor": "the saved claim: it counts since the last resume",
    "off-by-one-batch": "the saved claim: one batch from what was committed",
    "steps-for-micro-batches": "the restored claim: it is the checkpoint's step",
    "rank-count-for-global": "the saved claim: it is one rank's count",
    "batch-size-rescaled": "the restored claim and the batch size that it was multiplied by",
    "void-steps-rewound": "whether the trainer counts updates that it throws away",
    "declared-skip-reapplied": "whether the skip of the same length was meant again",
    "worker-state-lost": "the state that each loader worker saved and restored",
    "prefetch-counted": "the stages read and queued, or the saved claim",
}
"""Slug → the fact that tells it from others with the same arithmetic."""

_SURE = ("proven", "likely", "possible")


_PLACES = frozenset(slug for slug, sign in CAUSES.items() if sign.__module__ == position.__name__)
"""Told by how far the stream is from its place."""


def _not_proven_twice(found: Told) -> Told:
    """Where two sums fit one place, neither is proven."""
    sums = [slug for slug, (sure, _) in found.items() if slug in _PLACES and sure != "possible"]
    if len(sums) < 2:
        return found
    return {
        slug: ("likely", told) if slug in sums else (sure, told)
        for slug, (sure, told) in found.items()
    }


def causes_of(case: Case, texts: Mapping[str, Mapping[str, str]]) -> tuple[Cause, ...]:
    """
    Name the causes of a resume.

    Args:
        case: of the resume.
        texts: slug → `title` and `remedy`.
    """
    signs = CAUSES
    if case.resume.verdict != Verdict.BROKEN:  # no fault of the resume is named
        signs = {slug: sign for slug, sign in CAUSES.items() if slug in OLDER}
    found: Told = {slug: told for slug, sign in signs.items() if (told := sign(case)) is not None}
    found = _not_proven_twice(found)
    ordered = sorted(found, key=lambda slug: (slug in OLDER, _SURE.index(found[slug][0])))
    return tuple(
        Cause(
            code=slug,
            title=texts[slug]["title"],
            confidence=found[slug][0],
            evidence=found[slug][1],
            remedy=texts[slug]["remedy"],
            alternatives=tuple(
                Alternative(other, DECIDED_BY.get(other, "what the job logged of its restore"))
                for other in ordered
                if other != slug and other not in OLDER
            ),
            is_older=slug in OLDER,
        )
        for slug in ordered
    )
