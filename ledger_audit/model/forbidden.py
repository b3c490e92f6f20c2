"""What a ledger shows of samples that must not be trained on: which, where, and since when."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from ledger_audit.model.ranges import Ranges

Kind = Literal["forbid", "only", "held-out"]
"""A list of forbidden ids; a list of all ids that are allowed; a stream that is held out."""

Came = Literal["before", "with the restart"]

UnseenCode = Literal[
    "parent-missing",
    "rank-missing",
    "ranks-not-logged",
    "steps-missing",
    "records-missing",
    "records-put-away",
    "unread-segment",
    "commits-missing",
    "voids-missing",
    "stream-not-held",
]


@dataclass(frozen=True)
class ForbiddenExample:
    """One sample that must not have been trained on."""

    sample_id: str
    source: str | None
    span: tuple[int, int] | None
    """The tokens [start, end) that the record used; null: the whole sample."""


@dataclass(frozen=True)
class ForbiddenHits:
    """What committed updates of one attempt of the lineage used against one list."""

    attempt: str
    records: int
    samples: int
    """Distinct samples."""
    tokens: int | None
    """Tokens of these records that the list forbids; null where no record has a span."""
    new_samples: int
    """Distinct samples that no earlier attempt of the lineage had used against the list."""
    former: int
    """Distinct samples that an earlier attempt held out, and this one no more."""
    ranks: Ranges
    slots: Ranges
    first_step: int
    last_step: int
    examples: tuple[ForbiddenExample, ...]
    """Up to eight, in the order of steps."""


@dataclass(frozen=True)
class ForbiddenList:
    """One list of ids, or one stream that is held out, and what was used against it."""

    name: str
    kind: Kind
    ids: int
    """Distinct samples in it; of `only`, in all such lists together."""
    hits: tuple[ForbiddenHits, ...]
    """Attempts that used any, in the order of the lineage."""
    since: int | None
    """Place in the lineage, from 0, of the attempt since which this is so; null: nothing was used.
    A sample that was held out only after it had been used: since the attempt that held it out."""
    since_attempt: str | None
    """The label of that attempt."""
    voided: int
    """Records in void tries: they changed no weights."""
    uncommitted: int
    """Records of the newest attempt in steps that are not committed."""
    undecided: int
    """Records that may be void or not committed: what would tell is missing."""
    redrawn: tuple[str, ...] = ()
    """Of a held-out stream: attempts whose samples are neither part of those of the attempt before
    (of those that hold any), nor all of them and more."""

    @property
    def records(self) -> int:
        """Records of the lineage that are against the list."""
        return sum(one.records for one in self.hits)

    @property
    def former(self) -> int:
        """Samples that were trained on when they were held out no more."""
        return sum(one.former for one in self.hits)

    def came(self, resume: int) -> Came | None:
        """
        Tell whether what is against the list was there before a resume.

        Args:
            resume: the place of the resumed attempt in the lineage, from 0.

        Returns:
            Null: nothing was used against it up to this attempt.
        """
        if self.since is None or self.since > resume:
            return None
        return "before" if self.since < resume else "with the restart"


@dataclass(frozen=True)
class Unseen:
    """Why a sample that must not be trained on may be among what is not there."""

    code: UnseenCode
    attempt: str | None
    """The attempt that it is about; null: the ledger."""
    text: str


@dataclass(frozen=True)
class Forbidden:
    """All that a ledger shows of samples that must not be trained on."""

    lists: tuple[ForbiddenList, ...]
    unseen: tuple[Unseen, ...]
    """Nothing: every training record of the lineage was there to be looked at."""
    notes: tuple[str, ...]
    """What a reader should know of the lists; none of it breaks or blocks anything."""

    def blocking(
        self, waived: Collection[str] = (), later: Collection[str] = ()
    ) -> tuple[Unseen, ...]:
        """
        Give the reasons that leave something unproven.

        Args:
            waived: limits that block nothing, `ranks-not-logged` for instance.
            later: attempts that come after what is judged: what they hide is not of it.
        """
        return tuple(
            one for one in self.unseen if one.code not in waived and one.attempt not in later
        )

    @property
    def records(self) -> int:
        """Records against any list; one that is against two counts twice."""
        return sum(one.records for one in self.lists)
