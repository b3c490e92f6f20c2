"""The ledger that a rank of the job writes: an open segment of samples and one of events."""

import json
import secrets
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ledger_audit.ledger.segment import (
    OpenSegment,
    Table,
    arrow_schema,
    attempt_folder,
    metadata_of,
    segment_name,
)
from ledger_audit.simulation.loader import Batch

RUN = "demo"


class RankLedger:
    """What one rank of one attempt records; every call is on disk when it returns."""

    def __init__(self, root: Path, attempt: str, rank: int) -> None:
        self._attempt = attempt
        self._rank = rank
        self._seq = 0
        folder = attempt_folder(root, attempt)
        folder.mkdir(parents=True, exist_ok=True)
        writer = f"r{rank:05d}-{secrets.token_hex(4)}"
        metadata = metadata_of(writer, run_id=RUN, host=socket.gethostname())

        def opened(table: Table) -> OpenSegment:
            path = folder / f"{segment_name(table, writer, 0)}.arrows"
            return OpenSegment(path, arrow_schema(table), metadata)

        self._samples = opened("samples")
        self._events = opened("events")

    def record(self, step: int, slot: int, batch: Batch) -> None:
        """Record a micro-batch that this rank uses."""
        n = len(batch.ids)
        self._samples.append(
            {
                "attempt": [self._attempt] * n,
                "rank": [self._rank] * n,
                "step": [step] * n,
                "slot": [slot] * n,
                "row": range(n),
                "sample_id": batch.ids,
                "epoch": [batch.epoch] * n,
                "worker": [batch.worker] * n,
                "seq": range(self._seq, self._seq + n),
            }
        )
        self._seq += n

    def say(self, kind: str, step: int | None, data: Mapping[str, Any]) -> None:
        """Record an event."""
        self._events.append(
            {
                "attempt": [self._attempt],
                "rank": [self._rank],
                "seq": [self._seq],
                "time_ns": [time.time_ns()],
                "kind": [kind],
                "step": [step],
                "data": [json.dumps(data)],
            }
        )
        self._seq += 1

    def close(self) -> None:
        """Close both segments."""
        self._samples.close()
        self._events.close()
