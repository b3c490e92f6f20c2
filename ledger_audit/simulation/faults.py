"""The faults that a resume of the simulated job can have, each with what must come out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ledger_audit.model import Verdict
from ledger_audit.simulation import restoring
from ledger_audit.simulation.job import JOB
from ledger_audit.simulation.restoring import Restore


class Moment(StrEnum):
    """When a checkpoint of step C takes the loader's position."""

    COMMITTED = "once step C is committed"
    FETCHED = "once the batches of step C + 1 are taken from the loader, too"
    ACCUMULATING = "inside step C + 1, when its first slot is used"


@dataclass(frozen=True)
class Fault:
    """One way to save and to restore; without any argument, the right one."""

    wrong: str
    """What happens, in one sentence."""
    look: str
    """What to look at in the report; `explanation.py` fills in the numbers."""
    verdict: Verdict = Verdict.BROKEN
    """What `diff` must find."""
    gate: Verdict = Verdict.BROKEN
    """What `gate` must find against the control."""
    restore: Restore = restoring.own_state
    moment: Moment = Moment.COMMITTED
    saves_read: bool = False
    """The checkpoint keeps where the workers have read to."""
    writes: Callable[[int, int], bool] = lambda step, rank: True  # noqa: ARG005
    """Whether a checkpoint (step, rank) gets this rank's file."""
    ranks_after: int = JOB.ranks
    """Ranks of the resumed attempt."""
    voids: frozenset[int] = frozenset()
    """Steps whose update is thrown away."""
    lost_ranks: frozenset[int] = frozenset()
    """Ranks of the first attempt whose node dies with the disk that their ledger lies on."""


FULL_FROM = 23
"""The step from which on the disk of rank 2 is full, where a fault wants that."""

DEFAULT = "off-by-one-batch"

FAULTS: Mapping[str, Fault] = {
    "none": Fault(
        wrong="Nothing goes wrong: every rank goes on after the last batch that it used.",
        look=(
            "CONTINUOUS, and how far that is proven: through step {through}, the last that attempt "
            "0 finished. All {n_reference} samples that the failure rolled back came again, in "
            "their places. About the {n_fresh} fresh ones after them the ledger of this run alone "
            "says little: to judge those, gate takes a control run."
        ),
        verdict=Verdict.CONTINUOUS,
        gate=Verdict.CONTINUOUS,
    ),
    "none-elastic": Fault(
        wrong=(
            "Nothing goes wrong: the job goes on with half of its ranks, and what is left of the "
            "epoch is dealt to them anew."
        ),
        look=(
            "CONTINUOUS, although the ranks have other samples than before: of the {n_in_place} "
            "that came again in their step, {n_misplaced} are misplaced, which means on another "
            "rank or in another slot. A right elastic restart looks like that, and it breaks "
            "nothing."
        ),
        verdict=Verdict.CONTINUOUS,
        gate=Verdict.CONTINUOUS,
        restore=restoring.dealt_anew,
        ranks_after=JOB.ranks // 2,
    ),
    DEFAULT: Fault(
        wrong=(
            "The checkpoint takes the loader's position when the next step's batches are already "
            "fetched, so the resume never uses them."
        ),
        look=(
            "S skipped: {skipped}, all of them from step {skipped_steps} of what was rolled back. "
            "A step has {batch}, so that is {skipped_batches}. The checkpoint of step "
            "{checkpoint} claims {claimed} used samples, and the ledger holds {used}: the "
            "{skipped} between were fetched and never used. The step counter cannot see it, "
            "because step {next_step} of attempt 1 is a whole step, only of the wrong samples: "
            "its own are gone, and each later step came one too early (m moved). The "
            "{n_unexpected} unexpected are the rest of step {died_step}, which attempt 0 did not "
            "live to use."
        ),
        moment=Moment.FETCHED,
    ),
    "prefetch-counted": Fault(
        wrong=(
            "The checkpoint takes the position up to which the loader's workers have read, so "
            "what waits in their queues is skipped."
        ),
        look=(
            "S skipped: {skipped}, {skipped_batches}. That is what the queues held: {workers} "
            "workers on each of {world_size} ranks, {prefetch_factor} batches of "
            "{micro_batch_size} each. The checkpoint of step {checkpoint} claims {claimed} used "
            "samples, and the ledger holds {used}."
        ),
        saves_read=True,
    ),
    "partial-accumulation-lost": Fault(
        wrong=(
            "The checkpoint is saved inside an accumulation group, so the position counts a slot "
            "whose gradients die with the process."
        ),
        look=(
            "S skipped: {skipped}, {skipped_batches}, all from slot {skipped_slots} of step "
            "{skipped_steps}. The checkpoint is labelled step {checkpoint}, which is right for "
            "the weights; its claim of {claimed} used samples is not, for the ledger holds "
            "{used} up to there. Attempt 1 began step {next_step} with what was its second half."
        ),
        moment=Moment.ACCUMULATING,
    ),
    "cursor-not-restored": Fault(
        wrong=(
            "The loader's position is never loaded, so the loader begins the epoch again while "
            "the step counter goes on."
        ),
        look=(
            "R replayed: {replayed}, {replayed_batches}. At step {checkpoint} the job had used "
            "{epoch_used} samples of epoch {epoch}, and all of those came a second time, in "
            "steps {replayed_steps}. Nothing is skipped: the rest of the epoch follows, too late."
        ),
        restore=restoring.epoch_begun_again,
    ),
    "steps-for-micro-batches": Fault(
        wrong=(
            "The loader passes over one batch for each step of the epoch, but a step takes one "
            "for each of its slots."
        ),
        look=(
            "R replayed: {replayed}, of the {epoch_used} that epoch {epoch} had used by step "
            "{checkpoint}. With {accumulation} slots a step, only one batch in {accumulation} "
            "was passed over, and the others came a second time, in steps {replayed_steps}."
        ),
        restore=restoring.as_many_batches_as_steps,
    ),
    "void-steps-rewound": Fault(
        wrong=(
            "The position is computed from the updates that changed the weights; one update was "
            "thrown away, though its samples were used."
        ),
        look=(
            "R replayed: {replayed}, {replayed_batches}. The update of step {voids} was thrown "
            "away, so up to step {checkpoint} there were fewer updates than steps, and the "
            "position fell back by a global batch for each such step. What comes again are the "
            "last samples before the checkpoint, not those of step {voids}."
        ),
        restore=restoring.as_many_samples_as_updates,
        voids=frozenset({21}),
    ),
    "offset-reapplied-each-epoch": Fault(
        wrong=(
            "What was used of the epoch is rightly passed over, and then passed over again in "
            "every later epoch."
        ),
        look=(
            "The promise: epoch {missing_epoch} misses {missing} samples, as many as epoch "
            "{epoch} had used by step {checkpoint}. Right after the checkpoint nothing is wrong: "
            "all {n_in_place} samples came again in their places. The fault shows only where the "
            "next epoch ends."
        ),
        restore=restoring.offset_kept,
    ),
    "epoch-not-set": Fault(
        wrong=(
            "The position is right, but the new sampler is not told its epoch and draws the order "
            "of epoch 0."
        ),
        look=(
            "Everything at once, on all ranks: {replayed} replayed, {skipped} skipped, "
            "{n_out_of_order} out of order. A right position in a wrong order looks like that: "
            "the resumed steps are a mixture of what epoch {epoch} had used and what it had not."
        ),
        restore=restoring.order_of_first_epoch,
    ),
    "shuffle-changed": Fault(
        wrong="The position is right, but the restart draws the order from another seed.",
        look=(
            "Everything at once, on all ranks: {replayed} replayed, {skipped} skipped, "
            "{n_out_of_order} out of order. The ledger names the reason, too: the seed in the "
            "fingerprint was {seed} before the failure and is {seed_after} after it."
        ),
        restore=restoring.another_seed,
    ),
    "rank-cursor-stale": Fault(
        wrong=(
            "The newest position of one rank was never written, so that rank loads one from an "
            "older checkpoint."
        ),
        look=(
            "R replayed: {replayed}, all on rank {replayed_ranks}. The other ranks are in place. "
            "In the picture, rank {replayed_ranks} has a line of its own."
        ),
        restore=restoring.newest_own_file,
        writes=lambda step, rank: rank != 2 or step < FULL_FROM,
    ),
    "rank-cursor-shared": Fault(
        wrong=(
            "Only rank 0 saves its loader's state, its share of the samples included, and every "
            "rank loads that."
        ),
        look=(
            "S skipped on ranks {skipped_ranks} and duplicated samples everywhere: all "
            "{world_size} ranks now use the share of rank 0, each sample {world_size} times, and "
            "nobody uses the shares of the others. Every step is still whole."
        ),
        restore=restoring.state_of_rank_0,
        writes=lambda step, rank: rank == 0,  # noqa: ARG005
    ),
    "ranks-swapped": Fault(
        wrong=(
            "The hosts are numbered in another order after the restart, so each rank loads the "
            "position of another one."
        ),
        look=(
            "CONTINUOUS: every sample came again in its step, so every update sees the samples "
            "that it should. That the ranks changed places is in the overlay misplaced, "
            "{n_misplaced} of {n_in_place}, and breaks nothing."
        ),
        verdict=Verdict.CONTINUOUS,
        gate=Verdict.CONTINUOUS,
        restore=restoring.state_of_the_host,
    ),
    "resharded-wrongly": Fault(
        wrong=(
            "The job goes on with half of its ranks; each loads the share that it had, and nobody "
            "has the shares of the ranks that are gone."
        ),
        look=(
            "S skipped: {skipped}, all on ranks {skipped_ranks}, which are gone. The {ranks_after} "
            "ranks that are left go on with their own share and with more slots, so the global "
            "batch is what it was."
        ),
        ranks_after=JOB.ranks // 2,
    ),
    "worker-state-lost": Fault(
        wrong=(
            "Only the loader worker that delivered last is restored; the others begin their share "
            "of the epoch again."
        ),
        look=(
            "R replayed: {replayed}, in steps {replayed_steps}, between samples that are right: "
            "one worker of {workers} goes on, and {n_out_of_order} of the samples that it "
            "delivers are out of order because the others lag behind. Nothing is skipped."
        ),
        restore=restoring.last_worker_only,
    ),
    "worker-turn-lost": Fault(
        wrong=(
            "Every loader worker goes on where it was, but the first one begins, and not the one "
            "whose turn it was."
        ),
        look=(
            "The order, and nothing else: {skipped} skipped, {replayed} replayed, "
            "{n_out_of_order} out of order, because the batches of one worker come after those of "
            "the next. Where the order within a few steps means nothing, --order none says so."
        ),
        restore=restoring.turn_of_worker_0,
    ),
    "ledger-lost": Fault(
        wrong=(
            "Nothing goes wrong with the data, but one node dies together with the disk that its "
            "rank's ledger lies on."
        ),
        look=(
            "UNPROVEN: the {n_in_place} samples that can be compared came again in their places, "
            "but what rank {silent} had used after step {checkpoint} is unknown, so nobody can "
            "say that nothing of it was skipped. The limits name what would settle it."
        ),
        verdict=Verdict.UNPROVEN,
        gate=Verdict.UNPROVEN,
        lost_ranks=frozenset({3}),
    ),
}
"""Name → fault; where the fault is one of the audit's causes, the name is the same."""
