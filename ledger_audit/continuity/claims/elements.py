"""
Judges a count of elements: what the loader's last stage hands out, which the state does not tell.

Samples and micro-batches are two readings of it. Where they are two numbers, one that fits is no
proof that it is meant: the agreement names what it rests on, and no distance is given.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ledger_audit.continuity.claims.number import EACH, Judged, Number, Reading
from ledger_audit.continuity.claims.proven import Cell
from ledger_audit.continuity.claims.wording import amount, going_on

UNITS: tuple[Literal["sequences", "micro-batches"], ...] = ("sequences", "micro-batches")


def judge_elements(number: Number) -> Judged:
    """Judge what the loader's last stage handed out, whatever that is."""
    known, value = number.known, number.count.value
    if known.may_have_come_round:
        return number.not_compared(
            "void samples were used again, maybe in the next pass, and no epoch is logged"
        )
    found = _readings(number)
    used = found[0].cell
    fits = [one for one in found if one.amount == value]
    fitting = [one for one in fits if number.readings is None or one.key in number.readings]
    if fits and not fitting:
        return number.not_compared("of its ranks some fit in one unit, and some in another")
    if fitting:
        return _agreeing(number, fitting[0], is_sure=len(fitting) == len(found))
    ending = known.passes.ending(known.passes.newest_of.get(number.rank or 0))
    is_new = number.count.since == "run" and ending in ("over", "rest")
    consumed = amount(used.sequences, known.noun("sequences"))
    if value == 0 and not is_new:
        text = f", committed updates consumed {consumed}: "
        text += going_on(-used.sequences, known.noun("sequences")) + EACH
        return number.judged("contradicts", text, found=used.sequences, ahead=-used.sequences)
    return number.not_compared(
        f"it is neither its {consumed} nor its {amount(used.micro_batches, 'micro-batches')}: "
        "a filter, a shuffle buffer or batches make it another number",
        used.sequences,
    )


def common(numbers: Iterable[Number]) -> frozenset[Reading]:
    """Give the readings in which every rank's number fits, of those that fit at all."""
    fitting = [
        {one.key for one in _readings(number) if one.amount == number.count.value}
        for number in numbers
    ]
    heard = [one for one in fitting if one]
    return frozenset(set.intersection(*heard)) if heard else frozenset()


@dataclass(frozen=True)
class _Read:
    """What the number would be in one reading."""

    unit: Literal["sequences", "micro-batches"]
    label: int | None
    """The pass that it is since; null: the run, or the only one."""
    is_run: bool
    cell: Cell

    @property
    def key(self) -> Reading:
        return self.unit, self.is_run

    @property
    def amount(self) -> int:
        return self.cell.sequences if self.unit == "sequences" else self.cell.micro_batches


def _readings(number: Number) -> list[_Read]:
    known = number.known
    cells = [
        known.committed.cell(number.rank, label, is_run=is_run)
        + known.voided.cell(number.rank, label, is_run=is_run)
        for label, is_run in _scopes(number)
    ]
    of_scopes = list(zip(_scopes(number), cells, strict=True))
    return [_Read(unit, *scope, cell) for unit in UNITS for scope, cell in of_scopes]


def _agreeing(number: Number, read: _Read, *, is_sure: bool) -> Judged:
    """Tell which reading fits, and what that rests on unless all of them are one number."""
    value, noun = number.count.value, number.known.noun(read.unit)
    text = f", as many as the {noun} that committed updates consumed"
    if is_sure:
        return number.judged("agrees", text, found=value, ahead=0)
    rests = f"if its elements are {noun}"
    if number.count.since == "run" and read.label is not None:
        rests += f" of pass {read.label:,}"
    note = f"{number.count.key} agrees {rests}: the state does not tell what it counts"
    return number.judged("agrees", f"{text}, {rests}", found=value, note=note)


def _scopes(number: Number) -> list[tuple[int | None, bool]]:
    """List what an element may count: its pass, or the run; an iterator may be made for a pass."""
    passes = number.known.passes
    if number.count.since == "epoch" and passes.sizes is not None:
        return [(number.where.label, False)]
    newest = passes.newest_of.get(number.rank or 0)
    return [(None, True)] if newest is None else [(None, True), (newest, False)]
