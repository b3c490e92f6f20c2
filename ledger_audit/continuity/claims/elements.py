"""
Judges a count of elements: what the loader's last stage hands out, which the state does not tell.

Samples and micro-batches are two readings of it. Where they are two numbers, one that fits is no
proof that it is meant: the agreement names what it rests on, and no distance is given.
"""

from ledger_audit.continuity.claims.number import EACH, Judged, Number
from ledger_audit.continuity.claims.proven import Cell
from ledger_audit.continuity.claims.wording import amount, going_on


def judge_elements(number: Number) -> Judged:
    """Judge what the loader's last stage handed out, whatever that is."""
    known, value = number.known, number.count.value
    if known.may_have_come_round:
        return number.not_compared(
            "void samples were used again, maybe in the next pass, and no epoch is logged"
        )
    scopes = _scopes(number)
    cells = [_used(number, label, is_run=is_run) for label, is_run in scopes]
    used = cells[0]
    readings = [(cell.sequences, "sequences", at) for cell, at in zip(cells, scopes, strict=True)]
    readings += [
        (cell.micro_batches, "micro-batches", at) for cell, at in zip(cells, scopes, strict=True)
    ]
    fitting = [(unit, label) for amount_used, unit, (label, _) in readings if value == amount_used]
    if fitting:
        return _agreeing(number, *fitting[0], is_sure=len(fitting) == len(readings))
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


def _agreeing(number: Number, unit: str, label: int | None, *, is_sure: bool) -> Judged:
    """Tell which reading fits, and what that rests on unless all of them are one number."""
    value, noun = number.count.value, number.known.noun(unit)
    text = f", as many as the {noun} that committed updates consumed"
    if is_sure:
        return number.judged("agrees", text, found=value, ahead=0)
    rests = f"if its elements are {noun}"
    if number.count.since == "run" and label is not None:
        rests += f" of pass {label:,}"
    note = f"{number.count.key} agrees {rests}: the state does not tell what it counts"
    return number.judged("agrees", f"{text}, {rests}", found=value, note=note)


def _used(number: Number, label: int | None, *, is_run: bool) -> Cell:
    known = number.known
    return known.committed.cell(number.rank, label, is_run=is_run) + known.voided.cell(
        number.rank, label, is_run=is_run
    )


def _scopes(number: Number) -> list[tuple[int | None, bool]]:
    """List what an element may count: its pass, or the run; an iterator may be made for a pass."""
    passes = number.known.passes
    if number.count.since == "epoch" and passes.sizes is not None:
        return [(number.where.label, False)]
    newest = passes.newest_of.get(number.rank or 0)
    return [(None, True)] if newest is None else [(None, True), (newest, False)]
