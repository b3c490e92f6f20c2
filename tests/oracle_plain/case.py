"""One resume: its windows, and the identity of a record in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from oracle_plain.epochs import Epochs, Key, pick
from oracle_plain.lineage import END, Part, held, owner, solid
from oracle_plain.reading import COLUMNS, Act, Attempt, Row


@dataclass(eq=False)
class Case:
    """One resume: its three windows and everything that is worked out about them."""

    parent: Attempt
    to: Attempt
    at: int
    order: str
    past: list[Part]
    until: float
    kind: str
    source: list[Part]
    columns: tuple[str, ...] = COLUMNS
    notes: set[str] = field(default_factory=set)
    mate: dict[Row, Row] = field(default_factory=dict)
    outcome: dict[Row, str] = field(default_factory=dict)

    @cached_property
    def before(self) -> list[Row]:
        """Everything the lineage used at steps up to C, void tries too."""
        return held(self.past)

    @cached_property
    def committed(self) -> list[Row]:
        """The committed window: void tries are never committed."""
        return solid(self.before)

    @cached_property
    def reference(self) -> list[Row]:
        """The reference window, committed or not."""
        return held(self.source, self.at)

    @cached_property
    def resumed(self) -> list[Row]:
        """Up to the next resume everything; of the newest the committed steps and void tries."""
        mine = [row for row in self.to.rows if self.at < row.step <= self.until]
        if self.until == END:
            mine = [row for row in mine if row.void or self.to.committed(row.step)]
        return sorted(mine, key=lambda row: row.order)

    @cached_property
    def lost_commits(self) -> set[int]:
        """The steps of the newest attempt that are not committed, while a later one is."""
        # Decision: such a step has lost a commit: its unvoided records are out of the window, and
        # count as missing.
        mine = {step for step in self.to.by_step if step > self.at}
        mine |= {step for _, step in self.to.commits if step > self.at}
        last = max((step for step in mine if self.to.committed(step)), default=0)
        newest = self.until == END
        return {step for step in mine if newest and step < last and not self.to.committed(step)}

    @cached_property
    def acts(self) -> list[Act]:
        """What is declared for this resume."""
        # Decision: only what the resumed attempt declares, at a step >= C or at none.
        return [act for act in self.to.acts if act.step is None or act.step >= self.at]

    @cached_property
    def reset(self) -> bool:
        """Whether the stream was deliberately started anew."""
        return any(act.kind == "reset" for act in self.acts)

    @cached_property
    def steps(self) -> list[int]:
        """The steps of the resumed window, those too whose records are all lost."""
        events = {
            step
            for _, step in self.to.commits
            if self.at < step <= self.until and self.to.committed(step)
        }
        return sorted({row.step for row in self.resumed} | events | self.lost_commits)

    @cached_property
    def whole_resumed(self) -> list[int]:
        """The whole steps of the resumed window."""
        return [step for step in self.steps if self.to.whole(step)]

    @cached_property
    def whole_through(self) -> int:
        """The reference is whole through this step (C where no step is)."""
        step = self.at
        while owner(self.source, step + 1).whole(step + 1):
            step += 1
        return step

    @cached_property
    def missing(self) -> int:
        """Records known to be missing in the resumed window."""
        return sum(self.lacking(step) for step in self.steps)

    def lacking(self, step: int) -> int:
        """Count the records known to be missing in a resumed step."""
        gone = solid(self.to.by_step.get(step, ())) if step in self.lost_commits else []
        return self.to.missing(step) + len(gone)

    @cached_property
    def sampled(self) -> bool:
        """Whether ranks are not logged on either side."""
        sides = [(self.to, self.at + 1), (owner(self.source, self.at + 1), self.at + 1)]
        return any(attempt.sampled(step) for attempt, step in sides)

    @cached_property
    def by_positions(self) -> bool:
        """Where all records of both windows have positions, places are positions."""
        rows = self.reference + self.resumed
        # Decision: not after a declared reset.
        return bool(self.reference and self.resumed and not self.reset) and all(
            row.position is not None for row in rows
        )

    @cached_property
    def consumed(self) -> set[Key]:
        """What committed updates up to C had consumed."""
        return {self.key(row) for row in self.committed}

    @cached_property
    def used(self) -> set[Key]:
        """What was used in the resumed window, void tries too."""
        return {self.key(row) for row in self.resumed}

    @cached_property
    def met(self) -> set[Row]:
        """The reference records that have a partner, once all rounds are over."""
        return set(self.mate.values())

    @cached_property
    def consumed_by_all(self) -> set[Key]:
        """What the lineage consumed, before C and in the resumed window."""
        return self.consumed | {self.key(row) for row in solid(self.resumed)}

    @cached_property
    def to_epochs(self) -> Epochs:
        """Epochs as the whole resumed attempt shows them, steps that the crash cut included."""
        later = [row for row in self.to.rows if row.step > self.at]
        return Epochs(
            self.columns,
            [*self.before, *sorted(later, key=lambda row: row.order)],
            [(self.to, 0, END)],
        )

    @cached_property
    def window_epochs(self) -> Epochs:
        """Epochs as the resumed window alone shows them."""
        return Epochs(self.columns, [*self.before, *self.resumed], [(self.to, 0, END)])

    @cached_property
    def ref_epochs(self) -> Epochs:
        """Epochs as the reference shows them, from the beginning of its own run."""
        clipped = held([(attempt, lo, min(hi, self.at)) for attempt, lo, hi in self.source])
        earlier = self.before if self.kind == "rolled-back" else clipped
        return Epochs(self.columns, [*earlier, *self.reference], self.source)

    def key(self, row: Row) -> Key:
        """Give the identity of a record."""
        return pick(row, self.columns)


def choose_columns(case: Case) -> None:
    """Leave out each column that is null in every record of a non-empty window."""
    windows = [rows for rows in (case.committed, case.reference, case.resumed) if rows]
    for name in COLUMNS:
        empty = [all(getattr(row, name) is None for row in rows) for rows in windows]
        if any(empty):
            case.columns = tuple(column for column in case.columns if column != name)
            if not all(empty):
                case.notes.add("column-left-out")


def settled(rows: Sequence[Row]) -> list[Row]:
    """One try of each step: its void tries are left out where it has another."""
    tried = {row.step for row in rows if not row.void}
    return [row for row in rows if not row.void or row.step not in tried]


def drop_wrong_epoch(case: Case) -> None:
    """Leave the epoch out if the first resumed step matches only, and wholly, without it."""
    if "epoch" not in case.columns or not case.resumed or not case.reference:
        return
    # Reading: a batch tried twice counts once here, on both sides.
    first = settled([row for row in case.resumed if row.step == case.resumed[0].step])
    if {case.key(row) for row in first} & {case.key(row) for row in case.reference}:
        return
    bare = tuple(name for name in case.columns if name != "epoch")
    head = settled(case.reference)[: len(first)]
    if Counter(pick(row, bare) for row in first) == Counter(pick(row, bare) for row in head):
        case.columns = bare
        case.notes.add("epoch-label-changed")
