"""
Plants faults into a stretch of a ledger: cut it out, plant, play.

Each fault is a function from the stretch to a job that dies and is resumed wrongly. What the
stretch does not show, a fault cannot be planted into: it tells what is lacking.
"""

from collections.abc import Mapping

from ledger_audit.planting import data, order, position, ranks
from ledger_audit.planting.job import CannotPlant, Plant, Planted, script
from ledger_audit.planting.playing import ledger_of
from ledger_audit.planting.stretch import Stretch, cut

FAULTS: Mapping[str, Plant] = {**position.FAULTS, **ranks.FAULTS, **order.FAULTS, **data.FAULTS}
"""Cause → the fault that it is the cause of."""


def untouched(stretch: Stretch) -> Planted:
    """Give the job without any fault."""
    job = script(stretch)
    return job.planted(job.going_on(job.used))


__all__ = ["FAULTS", "CannotPlant", "Planted", "Stretch", "cut", "ledger_of", "untouched"]
