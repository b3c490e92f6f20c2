"""
The limits that there are: each blocks clauses of the contract, or is a note that blocks nothing.

LIMITS is the one home of their codes; `docs/limits.md` tells the same for people.
"""

from ledger_audit.model import ClauseName, Limit

PROMISE = (ClauseName.PROMISE,)
STREAM = (ClauseName.PROMISE, ClauseName.ORDER, ClauseName.UNEXPECTED, ClauseName.PLACEMENT)
EVERYTHING = tuple(ClauseName)

LIMITS: dict[str, tuple[tuple[ClauseName, ...], str]] = {
    "mixed-attempt": (EVERYTHING, "start events, and files, of one launch under each label"),
    "resume-step-mismatch": (EVERYTHING, "a start event that names the checkpoint really loaded"),
    "parent-missing": (EVERYTHING, "the ledger of the attempt that was resumed from"),
    "lineage-assumed": (EVERYTHING, "start events with resumed_from"),
    "no-whole-reference-step": (
        STREAM,
        "a control run, positions, or a failure later after the checkpoint",
    ),
    "reference-departs": (
        STREAM,
        "the reference of this very run: its data, order, ranks and batches from the first step",
    ),
    "no-whole-resumed-step": (STREAM, "one more committed step of the resumed attempt"),
    "fewer-steps-than-awaited": (STREAM, "a longer --timeout, or fewer steps to --wait for"),
    "window-too-short": (STREAM, "more whole steps, or a smaller minimum in the contract"),
    "tokens-not-logged": (PROMISE, "token_start and token_end, or a bound in samples or steps"),
    "skip-hides-reference": (STREAM, "a longer reference, or less that may be skipped"),
    "draws-too-few": (PROMISE, "more resumed steps"),
    "draws-repeat": (PROMISE, "a control run, or an allowance with its reason"),
    "world-size-not-logged": ((ClauseName.RANKS,), "world_size in every start event"),
    "fingerprint-not-logged": (
        (ClauseName.FINGERPRINT,),
        "the keys in the fingerprint of the checkpoint and of the resumed attempt",
    ),
    "restore-not-logged": ((ClauseName.FINGERPRINT,), "restore and iterator events of every rank"),
    "forbidden-unseen": ((ClauseName.FORBIDDEN,), "the ledgers or records that are missing"),
    "too-large-to-hold": (STREAM, "a machine with so much memory, or a control run for `gate`"),
    "digest-mismatch": (EVERYTHING, "the files as their writer left them"),
    "undecided": (PROMISE, "the ledgers or records that are missing"),
    "order-undecided": ((ClauseName.ORDER,), "the ledgers or records that are missing"),
    "repeat-unexplained": (
        PROMISE,
        "an epoch column, dataset_samples in the fingerprint, a control run, or ids qualified by "
        "their shard",
    ),
    "records-unseen": (PROMISE, "the ledgers or records that are missing"),
    "pass-not-over": (PROMISE, "positions, or another verify after the pass has ended"),
    "pass-size-unknown": (
        PROMISE,
        "--samples or --manifest, or dataset_samples in the fingerprint",
    ),
    "few-missing": (PROMISE, "positions, a control run, or an allowance with its reason"),
    "pass-too-large": (PROMISE, "--manifest, or the number of samples that a pass really has"),
    "tokens-never-used": (PROMISE, "an allowance, if documents are cropped by design"),
    "nothing-used": (PROMISE, "committed updates that used records"),
    "passes-not-told": (PROMISE, "epoch, source and spans in every record, or in none"),
    "rank-missing": (STREAM, "the ledgers of the missing ranks"),
    "ranks-not-logged": (PROMISE, "a ledger of every rank"),
    "lane-without-evidence": (PROMISE, "the dead attempt's ledgers of these ranks, or a control"),
    "fewer-micro-batches-than-workers": (
        STREAM,
        "positions, a control run, or a longer rolled-back window",
    ),
    "unread-segment": (STREAM, "the missing or whole segment"),
    "recipe-departs": ((), "a fingerprint that states what the run does"),
    "recipe-not-derived": ((), "PyTorch beside ledger-audit: pip install 'ledger-audit[torch]'"),
    "steps-not-read": ((), "--full, or a larger --after"),
    "label-behind-weights": ((), "a save that begins before the next update is committed"),
    "iterator-before-restore": ((), "a loader whose state is restored before it is iterated"),
    "restore-missing": ((), "restore events of every rank"),
    "fingerprint-seen-otherwise": ((), "one fingerprint at start, restore and iterator"),
    "fingerprint-differs-between-ranks": ((), "one fingerprint for all ranks of a launch"),
    "draws-not-measured": ((), "dataset_samples in the fingerprint"),
    "epoch-size-unknown": ((), "dataset_samples in the fingerprint"),
    "no-later-epoch": ((), "another diff after the next epoch's end"),
    "commits-assumed": ((), "commit events"),
    "column-left-out": ((), "the column in every window"),
    "epoch-label-changed": ((), "epoch labels that go on after a resume"),
    "frozen-epochs": ((), "the sampler's epoch, if another order was meant"),
    "negative-ids": ((), "ids from 0, if these are placeholders"),
    "id-outside-dataset": ((), "the file list that the ids were drawn from"),
    "source-repeated": ((), "each source listed once, or its repeats in the contract"),
    "ids-unique-per-shard-suspected": ((), "ids qualified by their shard, or a source column"),
}
"""Code → the clauses that it blocks (none: a note), and what would settle it."""


def limit(code: str, text: str) -> Limit:
    """Make a limit of a known code."""
    blocks, settled_by = LIMITS[code]
    return Limit(code, blocks, text, settled_by)
