"""
Puts records and events on disk in the order of their telling, and never stops the job.

One act at a time: a call from another thread waits its turn, a call from a signal handler in the
middle of another comes right after it, a call in a forked child does nothing.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ledger_audit.errors import LedgerWriteError
from ledger_audit.ledger.writer.losses import Losses
from ledger_audit.ledger.writer.plain import told
from ledger_audit.ledger.writer.segments import Segments

Act = Callable[[], None]


class Emitter:
    """
    The files of one rank of one launch.

    Args:
        folder: of the attempt.
        writer: unique to this process.
        rank: of every line.
        metadata: of every file.
        strict: raise instead of losing records.
        rolls_at: bytes and seconds after which a segment is closed and the next begun.
        on_close: called when a segment is closed.
    """

    def __init__(
        self,
        folder: Path,
        writer: str,
        rank: int,
        metadata: Mapping[str, str],
        *,
        strict: bool,
        rolls_at: tuple[int, float],
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._attempt = pa.scalar(metadata["attempt"], pa.string())
        self._rank = pa.scalar(rank, pa.int32())
        self._constants: dict[int, dict[str, pa.Array]] = {}
        self._rows: dict[int, pa.Array] = {}
        self._losses = Losses(writer)
        self._strict = strict
        self._seq = 0
        self._process = os.getpid()
        self._turn = threading.RLock()
        self._is_busy = False
        self._later: list[tuple[Act, int | None, int]] = []
        self.is_closed = False
        kept = {name: value for name, value in metadata.items() if name != "attempt"}
        self.samples, self.events = (
            Segments(
                folder,
                table,
                writer,
                kept,
                rolls_at=rolls_at,
                on_close=on_close,
            )
            for table in ("samples", "events")
        )
        own = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _let_go(own()))

    @property
    def is_elsewhere(self) -> bool:
        """A forked child is asking: the files are its parent's."""
        return os.getpid() != self._process

    def act(self, act: Act, *, step: int | None = None, records: int = 0) -> None:
        """
        Do something that writes; what goes wrong costs `records` of `step`, and no more.

        Raises:
            Exception: what went wrong, if the writer is strict.
        """
        if self.is_elsewhere:
            return
        with self._turn:
            if self._is_busy:  # a signal handler of this very thread
                self._later.append((act, step, records))
                return
            self._is_busy = True
            try:
                self._do(act, step, records)
            finally:
                try:
                    while self._later:
                        self._do(*self._later.pop(0))
                finally:
                    self._is_busy = False

    def _do(self, act: Act, step: int | None, records: int) -> None:
        try:
            if self.is_closed:
                if self._strict:
                    raise LedgerWriteError("the writer is closed", hint="record before close()")
                self._refuse(step, records)
                return
            self._tell_losses()
            act()
        except Exception as problem:
            if self._strict:
                raise
            self._losses.add(step, records, str(problem) or type(problem).__name__)

    def _refuse(self, step: int | None, records: int) -> None:
        """Count what is told after the end, and say so at once: nobody may come again."""
        self._losses.add(step, records, "it was told after the writer was closed")
        self._tell_losses()
        self._close()

    def records(self, columns: Mapping[str, pa.Array], step: int | None) -> None:
        """Append the records of one micro-batch."""
        length = len(columns["sample_id"])
        if not length:
            return
        first = self._numbers(length)
        seq = pa.array(np.arange(first, first + length, dtype=np.int64))
        known = {**self._constants_of(length), "row": self._rows[length]}
        self.samples.append({**known, **columns, "seq": seq}, step)

    def event(self, kind: str, step: int | None, data: Mapping[str, Any] | None) -> None:
        """Append one event."""
        columns = {
            **self._constants_of(1),
            "seq": pa.array([self._numbers(1)], pa.int64()),
            "time_ns": pa.array([time.time_ns()], pa.int64()),
            "kind": pa.array([kind], pa.string()),
            "step": pa.array([step], pa.int64()),
            "data": pa.array([None if data is None else told(dict(data))], pa.string()),
        }
        self.events.append(columns, step)

    def _numbers(self, length: int) -> int:
        """Take the next numbers before anything is written: none may ever be used twice."""
        first = self._seq
        self._seq += length
        return first

    def sync(self) -> None:
        """
        Wait until storage has all that was told; others may go on telling.

        Raises:
            OSError: it has not.
        """
        with self._turn:
            handles = [*self.samples.to_sync(), *self.events.to_sync()]
        problems = []
        for handle in handles:
            try:
                os.fsync(handle)
            except OSError as problem:
                problems.append(problem)
            finally:
                os.close(handle)
        if problems:
            raise problems[0]

    def drop_until(self, step: int) -> None:
        """Do not keep the records of closed segments that hold none after a step."""
        with self._turn:
            self.samples.drop_until(step)

    def close(self, last: Act) -> None:
        """Do one last thing and close the files; what is told later is lost, and said so."""

        def end() -> None:
            try:
                last()
            finally:
                self._close()
                self.is_closed = True

        self.act(end)

    def _close(self) -> None:
        self.samples.close()
        self.events.close()

    def _tell_losses(self) -> None:
        """Write what was lost before; what cannot be written now stays counted."""
        for segments in (self.samples, self.events):
            for step, records in segments.vanished.items():
                kept = records if segments is self.samples else 0
                self._losses.add(step, kept, "a file was removed while it was written")
            segments.vanished.clear()
        while (lost := self._losses.take()) is not None:
            step, records, reason = lost
            try:
                self.event("lost", step, {"records": records, "reason": reason})
            except OSError:
                return  # later, then
            self._losses.forget(step)

    def _constants_of(self, length: int) -> dict[str, pa.Array]:
        if length not in self._constants:
            if len(self._constants) > 64:
                self._constants.clear()
                self._rows.clear()
            self._rows[length] = pa.array(np.arange(length, dtype=np.int32))
            self._constants[length] = {
                "attempt": pa.repeat(self._attempt, length),
                "rank": pa.repeat(self._rank, length),
            }
        return self._constants[length]


def _let_go(emitter: Emitter | None) -> None:
    if emitter is not None:
        emitter.samples.let_go()
        emitter.events.let_go()
