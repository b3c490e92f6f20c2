"""
Plants faults into a stretch of a ledger: cut it out, plant, play.

Each fault is a function from the stretch to a job that dies and is resumed wrongly. What the
stretch does not show, a fault cannot be planted into: it tells what is lacking.
"""

from collections.abc import Mapping

import polars as pl

from ledger_audit.continuity.contract import DIFF
from ledger_audit.planting import data, order, position, ranks
from ledger_audit.planting.job import CannotPlant, Leg, Plant, Planted, script
from ledger_audit.planting.playing import ledger_of
from ledger_audit.planting.stretch import Stretch, cut

_USED = ("step", "sample_id", "token_start", "token_end", "source", "epoch")

FAULTS: Mapping[str, Plant] = {**position.FAULTS, **ranks.FAULTS, **order.FAULTS, **data.FAULTS}
"""Cause → the fault that it is the cause of."""


def plant(fault: str, stretch: Stretch) -> Planted:
    """
    Plant a fault into a stretch.

    Raises:
        CannotPlant: the ledger does not show such a fault.
    """
    planted = FAULTS[fault](stretch)
    is_plain = planted.contract == DIFF and not (planted.legs[0].late or planted.legs[0].void)
    if is_plain and _is_as_before(planted.legs[-1], stretch):
        raise CannotPlant("samples that differ from one step to the other")
    return planted


def _is_as_before(leg: Leg, stretch: Stretch) -> bool:
    """Tell whether every step uses what it did, and nothing else is wrong."""
    if leg.has_end or leg.records.is_empty():
        return False
    used = leg.records.select(_USED).sort(_USED)
    steps = stretch.records.filter(pl.col("step").is_in(leg.records["step"].implode()))
    return used.equals(steps.select(_USED).sort(_USED))


def untouched(stretch: Stretch) -> Planted:
    """Give the job without any fault."""
    job = script(stretch)
    return job.planted(job.going_on(job.used))


__all__ = ["FAULTS", "CannotPlant", "Planted", "Stretch", "cut", "ledger_of", "plant", "untouched"]
