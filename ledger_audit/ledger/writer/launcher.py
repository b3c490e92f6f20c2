"""Reads from the launcher's variables which launch of the job this is."""

import os
import secrets
import time
from collections.abc import Mapping

PREFIXES = (
    "TORCHELASTIC_",
    "SLURM_JOB_ID",
    "SLURM_RESTART_COUNT",
    "SLURM_ARRAY_",
    "SLURM_PROCID",
    "JOBSET_",
    "JOB_COMPLETION_INDEX",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "GROUP_RANK",
    "ROLE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
)
"""Variables that are recorded raw: no one of them orders all attempts."""

_ANONYMOUS = {"", "none"}
"""What torchrun calls a run that nobody named."""


def variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Give the variables of the launcher, as they are."""
    return {name: environ[name] for name in sorted(environ) if name.startswith(PREFIXES)}


def attempt_label(generation: int, world_size: int, environ: Mapping[str, str] = os.environ) -> str:
    """
    Name this launch so that all its ranks find the same name without asking each other.

    Scheduler job, its restarts, the elastic agent's restarts, and how many resumes came before:
    none of them alone is unique. A process that is alone in its world may add what only it knows.

    Args:
        generation: resumes in the lineage before this one, as the loaded cursor tells.
        world_size: ranks of the launch.
        environ: where to read.
    """
    parts = []
    if job := environ.get("SLURM_JOB_ID"):
        task = environ.get("SLURM_ARRAY_TASK_ID")
        parts.append(f"slurm{job}" + (f"_{task}" if task else ""))
        parts.append(f"r{environ.get('SLURM_RESTART_COUNT', '0')}")
    if job := environ.get("JOBSET_NAME"):
        parts.append(job)
    for name in ("JOBSET_RESTART_ATTEMPT", "JOB_RESTART_ATTEMPT", "IN_PLACE_RESTART_ATTEMPT"):
        if (count := environ.get(name)) is not None:
            parts.append(f"{name[0].lower()}{count}")
    run = environ.get("TORCHELASTIC_RUN_ID", "")
    if run.lower() not in _ANONYMOUS:
        parts.append(run)
    if (count := environ.get("TORCHELASTIC_RESTART_COUNT")) is not None:
        parts.append(f"e{count}")
    if not parts and world_size == 1:
        parts.append(f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(2)}")
    return "-".join([*parts, f"g{generation}"])
