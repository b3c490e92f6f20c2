"""Which pass a claim is in, and whether a pass is over, as far as the ledger can tell."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from ledger_audit.continuity.claims.tally import Tally

Place = Literal["newest", "older", "next", "beyond", "whole", "unknown"]
"""Where a claim's pass lies: `whole`: all that was used is one pass; `next`: the one after the
newest that was used; `unknown`: it cannot be told."""


Ending = Literal["over", "open", "rest", "unknown"]
"""Whether a pass is over: `rest`: if drop_last leaves its rest out, which is not logged;
`unknown`: the data set's size is not logged."""


class Amounts(Protocol):
    """What is needed of what a rank used."""

    @property
    def records(self) -> int:
        """Lines of the ledger."""

    @property
    def sequences(self) -> int:
        """Rows of model input."""


@dataclass(frozen=True)
class Pass:
    """The pass that an in-pass count is about."""

    place: Place
    label: int | None = None
    """As the ledger labels it."""
    why: str = ""
    """Why it cannot be told."""


@dataclass(frozen=True)
class Passes:
    """The passes of a lineage up to a checkpoint."""

    sizes: Mapping[int, int] | None
    """Label → sequences that were used in it; null where passes are not logged throughout."""
    newest_of: Mapping[int, int]
    """Rank → the newest pass that it used something of."""
    used: int
    """Sequences of all passes."""
    most: int
    """The same, if what void updates used counts where it was used again, too."""
    samples: int | None
    """Sequences of the data set; null where its size is not logged, or counts something else."""
    slack: int
    """What fewer than, at a pass's end, may be left out or repeated: a global batch, or a
    micro-batch of every worker."""
    sources: int
    drop_last: bool | None

    @classmethod
    def of(
        cls,
        tally: Tally,
        committed: Mapping[int, Mapping[int | None, Amounts]],
        voided: Mapping[int, Mapping[int | None, Amounts]],
        whole: Amounts,
        most: int,
    ) -> "Passes":
        """
        Find the passes of what was committed or voided, by rank and label.

        Args:
            tally: what the ledger proves.
            committed: rank → label → what was used of it.
            voided: the same of void updates, without what was used again.
            whole: all of both.
            most: sequences of `whole`, and of what void updates used and was used again.
        """
        sizes: dict[int, int] = {}
        newest_of: dict[int, int] = {}
        is_logged = True
        for cells in (committed, voided):
            for rank, passes in cells.items():
                for label, cell in passes.items():
                    if label is None:
                        is_logged = False
                        continue
                    sizes[label] = sizes.get(label, 0) + cell.sequences
                    newest_of[rank] = max(label, newest_of.get(rank, label))
        is_one = tally.sources == 1
        of_step = -(-whole.sequences // max(1, tally.step))
        of_workers = len(committed) * (tally.workers or 0) * (tally.micro_batch_size or 0)
        return cls(
            sizes=dict(sorted(sizes.items())) if is_logged else None,
            newest_of=newest_of,
            used=whole.sequences,
            most=most,
            # of packed rows it is not known whether documents or sequences were meant, and of
            # several data sets, how much each of them holds
            samples=tally.dataset_samples if is_one and whole.records == whole.sequences else None,
            slack=max(of_step, of_workers, 1),
            sources=tally.sources,
            drop_last=tally.drop_last,
        )

    def locate(self, epoch: int | None, first_epoch: int | None, rank: int | None) -> Pass:
        """
        Find the pass that a claim is in.

        Args:
            epoch: as the claim numbers it; null: it does not say, and means its newest.
            first_epoch: the claim's number of the first pass; null: it has the ledger's labels.
            rank: whose use it counts; null: of all.
        """
        if self.sources > 1 and (self.sizes is None or len(self.sizes) > 1):
            return Pass("unknown", why="each of several data sets has passes of its own")
        if self.sizes is None:
            return self._unlabelled(epoch, first_epoch)
        if not self.sizes:
            return Pass("whole")
        newest = max(self.sizes) if rank is None else self.newest_of.get(rank, max(self.sizes))
        if epoch is None:
            return Pass("newest", newest)
        first = min(self.sizes)
        label = epoch
        if first_epoch is not None and first in (0, 1):
            # two ways to count from the run's beginning; any other label is the run's own
            label = first + epoch - first_epoch
        if label > newest:
            return Pass("next" if label == newest + 1 else "beyond", label)
        return Pass("newest" if label == newest else "older", label)

    def _unlabelled(self, epoch: int | None, first_epoch: int | None) -> Pass:
        if epoch is not None:
            if epoch == (first_epoch or 0):
                return Pass("whole")
            return Pass("unknown", why=f"the ledger logs no epoch: its pass {epoch} is not known")
        if self.samples is None:
            why = "neither the claim nor the ledger says the pass, nor is the data set's size known"
            return Pass("unknown", why=why)
        if self.most > self.samples:
            what = "was" if self.used > self.samples else "may have been"
            why = f"more than one pass {what} used, and neither the claim nor the ledger says which"
            return Pass("unknown", why=why)
        return Pass("whole")

    @property
    def may_have_turned(self) -> bool:
        """Whether a second pass may have begun unseen: none is labelled, or not all."""
        return self.sizes is None and (self.samples is None or self.most > self.samples)

    def ending(self, label: int | None) -> Ending:
        """
        Tell whether a pass is over.

        It is, too, if every earlier one was left at exactly as many.
        """
        size = self.size(label)
        earlier = {} if self.sizes is None or label is None else self.sizes
        lengths = {used for one, used in earlier.items() if label is not None and one < label}
        if self.samples is None:
            return "unknown"
        if size >= self.samples or lengths == {size}:
            return "over"
        if self.samples - size >= self.slack or self.drop_last is False:
            return "open"
        return "over" if self.drop_last else "rest"

    def size(self, label: int | None) -> int:
        """Give how many sequences of a pass were used; null: of all."""
        return self.used if label is None or self.sizes is None else self.sizes.get(label, 0)

    def left(self, label: int | None) -> int | None:
        """Give how many sequences of a pass were not used; null: not known."""
        return None if self.samples is None else max(0, self.samples - self.size(label))

    def nominal(self, label: int) -> int:
        """Give a pass's size, taking one that was left, or filled, for the data set's."""
        size, samples = self.size(label), self.samples
        is_left = size >= (samples or 0) or label < max(self.sizes or {label: 0})
        is_near = samples is not None and abs(samples - size) < self.slack
        return samples if samples is not None and is_left and is_near else size
