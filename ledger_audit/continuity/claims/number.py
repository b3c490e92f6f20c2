"""One number of a claim, as one rank says it, and what it is worth."""

from dataclasses import dataclass

from ledger_audit.continuity.claims.claim import Count
from ledger_audit.continuity.claims.gap import Gap
from ledger_audit.continuity.claims.passes import Pass
from ledger_audit.continuity.claims.proven import Proven
from ledger_audit.continuity.claims.wording import amount
from ledger_audit.model.claims import Agreement

WHOSE = "{whose}"
"""Where a story names the ranks, once it is known for which it is the same."""
EACH = "{each}"
"""Where it says that an amount is that of each of them."""

Reading = tuple[str, bool]
"""What elements may be: samples or micro-batches, and whether since the run or the pass began."""


@dataclass(frozen=True)
class Judged:
    """What one number is worth."""

    claimed: int
    found: int | None
    agreement: Agreement
    story: str
    """What comes after `the claim says`."""
    ahead: int | None = None
    """Sequences of those whose use it counts that a resume would skip; negative: replay; null:
    it does not say."""
    note: str | None = None


@dataclass(frozen=True)
class Number:
    """One number, as one rank says it."""

    count: Count
    rank: int | None
    """Null: it counts the use of all ranks."""
    where: Pass
    known: Proven
    shared: str | None = None
    """That it is another rank's number, if it is."""
    readings: frozenset[Reading] | None = None
    """Of elements: the readings in which all ranks' numbers fit; null: it stands alone."""

    @property
    def what(self) -> str:
        """Say the number: how many of what, whose and since when."""
        since = "since the run began"
        if self.count.since == "epoch":
            label = self.where.label
            since = f"in the {'next' if self.where.place == 'next' else 'first'} pass"
            since = since if label is None else f"in pass {label:,}"
        told = amount(self.count.value, self.known.noun(self.count.unit))
        # a step is that of all ranks, whoever says it
        return f"{told} {since}" if self.count.unit == "steps" else f"{told} {WHOSE} {since}"

    def gap(self, committed: int = 0, voided: int = 0) -> Gap:
        """Put it beside what was found."""
        label = self.where.label
        return Gap(self.count, self.rank, label, committed, voided, self.known)

    def judged(
        self,
        agreement: Agreement,
        text: str,
        *,
        found: int | None = None,
        ahead: int | None = None,
        note: str | None = None,
    ) -> Judged:
        """Give what it is worth."""
        return Judged(self.count.value, found, agreement, f"{self.what}{text}", ahead, note)

    def not_compared(self, why: str, found: int | None = None) -> Judged:
        """Leave it alone, and say why."""
        return self.judged("not-compared", f"; not compared: {why}", found=found)
