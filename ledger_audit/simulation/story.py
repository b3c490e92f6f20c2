"""Tells what was simulated and what to look at, in plain words, with what was measured."""

import signal
from collections.abc import Mapping

from ledger_audit.model import Amount, Expected, Overlay, Report, Resume, Resumed
from ledger_audit.printable import counted
from ledger_audit.simulation.account import Account, ranges
from ledger_audit.simulation.faults import FAULTS
from ledger_audit.simulation.process import DEAD, RESUMED, Ran


def tell_job(ran: Ran, account: Account) -> tuple[str, ...]:
    """Tell what was run, as paragraphs."""
    before, after = account.starts[DEAD], account.starts[RESUMED]
    print_of = before["fingerprint"]
    step, slot, rank = account.died_in
    how = signal.Signals(-ran.endings[0]).name
    job = (
        f"A training job on {before['world_size']} ranks. Every epoch uses "
        f"{print_of['dataset_samples']} samples in an order of its own. A step has "
        f"{print_of['accumulation']} accumulation slots of {print_of['micro_batch_size']} samples "
        f"on each rank, {account.batch} in all. Each rank has a loader with {print_of['workers']} "
        f"workers that read ahead, and writes down which samples it uses: the ledger. Process, "
        f"kill, checkpoint and ledger are real; only the arithmetic is left out."
    )
    died = (
        f"Attempt {DEAD} was killed by {how} in the middle of step {step}, when rank {rank} had "
        f"just used its batch of slot {slot}."
    )
    is_elastic = after["world_size"] != before["world_size"]
    ranks = f" with {after['world_size']} ranks" if is_elastic else ""
    resumed = (
        f"Attempt {RESUMED} loaded the newest checkpoint, that of step "
        f"{account.checkpoint_step}, and went on{ranks} to step {max(account.records)}."
    )
    return job, f"{died} {resumed}", f"Planted: {ran.fault}. {FAULTS[ran.fault].wrong}"


def tell_look(ran: Ran, account: Account, report: Report) -> str:
    """Tell what to look at in this report, with its numbers."""
    return FAULTS[ran.fault].look.format(**_numbers(account, report.resumes[-1]))


def _numbers(account: Account, resume: Resume) -> Mapping[str, str]:
    """Name every number that a fault's text may want."""
    told: dict[str, str] = {}
    shown: list[tuple[str, Amount | None]] = [
        *resume.resumed.items(),
        *resume.expected.items(),
        *resume.overlays.items(),
    ]
    for name, amount in shown:
        records = 0 if amount is None else amount.records
        key = str(name).replace("-", "_")
        told[f"n_{key}"] = f"{records:,}"
        told[key] = counted(records, "sample")
        told[f"{key}_batches"] = _in_batches(records, account.batch)
    for name in (*Resumed, *Expected, *Overlay):
        key = str(name).replace("-", "_")
        found = [one for one in resume.findings if one.code == name]
        for what in ("ranks", "slots"):
            told[f"{key}_{what}"] = _closed([pair for one in found for pair in getattr(one, what)])
        told[f"{key}_steps"] = _closed([(one.first_step, one.last_step) for one in found])
    first = account.starts[DEAD]["fingerprint"]
    later = next((one for one in resume.later_epochs if one.missing), None)
    return {
        **told,
        **{key: str(one) for key, one in first.items()},
        "seed_after": str(account.starts[RESUMED]["fingerprint"]["seed"]),
        "ranks_after": str(account.starts[RESUMED]["world_size"]),
        "checkpoint": str(account.checkpoint_step),
        "next_step": str(account.checkpoint_step + 1),
        "died_step": str(account.died_in[0]),
        "through": str(resume.through_step),
        "n_reference": f"{resume.windows['reference']:,}",
        "batch": str(account.batch),
        "claimed": str(account.claim["consumed_samples"]),
        "epoch": str(account.epoch),
        "epoch_used": str(account.epoch_used),
        "used": str(account.used),
        "voids": ranges(account.voids),
        "silent": ranges(account.silent),
        "missing": "0" if later is None else str(later.missing),
        "missing_epoch": "" if later is None else str(later.epoch),
    }


def _in_batches(records: int, batch: int) -> str:
    if 2 * records == batch:
        return "half a global batch"
    return f"{records / batch:g} global batch{'' if records == batch else 'es'}"


def _closed(pairs: list[tuple[int, int]]) -> str:
    """Tell closed ranges that may overlap."""
    return ranges(sorted({one for first, last in pairs for one in range(first, last + 1)}))
