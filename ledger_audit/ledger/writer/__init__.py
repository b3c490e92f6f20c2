"""
Emits a ledger from a trainer: what each rank used, and which updates were applied.

Every micro-batch is on node-local storage before `record` returns. Trouble costs records and never
the job: what is lost is counted, and said in the ledger.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from ledger_audit.errors import LedgerWriteError
from ledger_audit.ledger.digest import signed
from ledger_audit.ledger.schema import DIGEST_COLUMNS
from ledger_audit.ledger.segment import attempt_folder, metadata_of
from ledger_audit.ledger.writer.columns import MicroBatches, counted_of, length_of
from ledger_audit.ledger.writer.cursor import Cursor, first_cursor, restored_from, start_of
from ledger_audit.ledger.writer.emitter import Emitter
from ledger_audit.ledger.writer.guard import AllReduce, Mode, guard_of, place_of
from ledger_audit.ledger.writer.saving import Checkpoint, told_claim
from ledger_audit.ledger.writer.shipping import Shipping, root_of
from ledger_audit.ledger.writer.tries import Tries

MOST_SETTLING = 10.0
"""Seconds that `close` waits for checkpoints to be safe on storage."""


class LedgerWriter:
    """
    Writes what one rank does, into files that no other process writes.

    Args:
        root: the ledger's folder, one for all ranks or each its own; or `s3://BUCKET/FOLDER`, with
            a spool.
        rank: index in the group that shards data.
        world_size: ranks that shard data.
        attempt: label of this launch, the same on all ranks; null: from the launcher's variables.
            One that it resumes from gets a suffix.
        run_id: name of the run, the same in all its attempts; null: the cursor's, else the first
            attempt's label.
        restored: the cursor that the loaded checkpoint held; null: none was loaded.
        resumed_from: (attempt, step) that was loaded, where no cursor tells.
        fingerprint: what decides the order of the stream; docs/ledger-format.md names the keys.
        logged_ranks: the ranks that write a ledger, if not all; the others write nothing.
        checkpoint_writers: the ranks that save, if not all.
        retain: keep the samples of the last so many checkpoints; null: all. Digests stay.
        strict: raise instead of losing records.
        segment_bytes: after which a file is closed and the next begun.
        segment_seconds: likewise.
        spool: a folder on this node, if the root is not: files are written there and shipped.
        ship_every: seconds after which open segments are shipped.
        ship_timeout: seconds that `close` waits for what is on its way.
        keep_spool: leave the files in the spool when they have arrived.
        guard: `warn` or `stop` at the first step of a resumed attempt that is not the one which
            the failure rolled back; null: do not look. The same on every process of the job.
        all_reduce: sums each of some integers over all processes; null: there is but this one.
        is_peer: a model-parallel peer of the process that records for this rank: it writes
            nothing, and takes part in the guard.

    Raises:
        LedgerWriteError: only if strict, or if the root is none that can be written to.
        UsageError: the root is an address in a store that is not known.
    """

    _kept: list[int]
    """The steps of all checkpoints of this launch."""
    _saving: list[Checkpoint]

    def __init__(  # noqa: PLR0913  # the trainer's face: every option by its name
        self,
        root: str | os.PathLike[str],
        *,
        rank: int,
        world_size: int,
        attempt: str | None = None,
        run_id: str | None = None,
        restored: Cursor | Mapping[str, Any] | None = None,
        resumed_from: tuple[str, int] | None = None,
        fingerprint: Mapping[str, Any] | None = None,
        logged_ranks: Sequence[int] | None = None,
        checkpoint_writers: Sequence[int] | None = None,
        retain: int | None = None,
        strict: bool = False,
        segment_bytes: int = 64 << 20,
        segment_seconds: float = 4 * 3600.0,
        spool: str | os.PathLike[str] | None = None,
        ship_every: float = 30.0,
        ship_timeout: float = 30.0,
        keep_spool: bool = False,
        guard: Mode | None = None,
        all_reduce: AllReduce | None = None,
        is_peer: bool = False,
    ) -> None:
        self.rank, self.world_size = place = int(rank), int(world_size)
        self._is_logged = not is_peer and (logged_ranks is None or self.rank in set(logged_ranks))
        self._retain, self._ship_timeout = retain, ship_timeout
        self._tries, self._batches, self._kept, self._saving = Tries(), MicroBatches(), [], []
        parent, problem = restored_from(restored, strict=strict)
        self._total = first_cursor(parent, resumed_from, place, attempt, run_id)
        self.attempt, self.run_id = self._total.attempt, self._total.run
        self.writer = f"r{self.rank:05d}-{secrets.token_hex(4)}"
        home = root_of(root, spool)
        own, target = (
            spool if self._is_logged else None,
            attempt_folder(home, self.attempt),
        )
        self._shipping = Shipping(own, target, self.writer, every=ship_every, keeps=keep_spool)
        self._emitter = self._opened(strict=strict, rolls_at=(segment_bytes, segment_seconds))
        known = {
            "logged_ranks": logged_ranks,
            "checkpoint_writers": checkpoint_writers,
            "fingerprint": fingerprint,
            "restored_problem": problem,
        }
        self._say("start", None, start_of(self._total, parent, resumed_from, known))
        at = place_of(self._total, parent, resumed_from, known, is_peer=is_peer)
        self._guard = guard_of(guard, all_reduce, home, at)

    def _opened(self, *, strict: bool, rolls_at: tuple[int, float]) -> Emitter:
        metadata = metadata_of(self.writer, run_id=self.run_id, host=socket.gethostname())
        return Emitter(
            self._shipping.folder,
            self.writer,
            self.rank,
            {**metadata, "attempt": self.attempt},
            strict=strict,
            rolls_at=rolls_at,
            on_close=self._shipping.nudge,
        )

    def record(  # noqa: PLR0913  # one name for each column of the table
        self,
        step: int | None,
        slot: int | None,
        sample_id: Any,
        *,
        row: Any = None,
        token_start: Any = None,
        token_end: Any = None,
        source: Any = None,
        epoch: Any = None,
        position: Any = None,
        stream: Any = None,
        worker: Any = None,
        stage: Any = None,
    ) -> None:
        """
        Record one micro-batch, before or after it is used; when this returns, it is on disk.

        Each column is one value a row, or one for all: a list, a numpy array, a torch tensor on
        the CPU, an Arrow array.

        Args:
            step: the optimizer update that it contributes to, from 1; null unless it is used.
            slot: index of the micro-batch in the step, from 0; null unless it is used.
            sample_id: shape (rows,), integers or text, one type in the whole ledger.
            row: index of the sequence in the micro-batch; null: one sequence a row. Spans of a
                packed sequence share it.
            token_start: first token of the span; null: the whole sample.
            token_end: the token after its last.
            source: data set of a blend.
            epoch: pass over the source.
            position: place of the sequence in the global stream, from 0.
            stream: null is training; anything else is audited apart.
            worker: loader worker.
            stage: `read`, `queued`, `dropped`; null: used.
        """
        given = {
            "row": row,
            "token_start": token_start,
            "token_end": token_end,
            "source": source,
            "epoch": epoch,
            "position": position,
            "stream": stream,
            "worker": worker,
            "stage": stage,
        }

        length = length_of(sample_id)

        def write() -> None:
            try:
                columns = self._batches.columns(step, slot, sample_id, given)
            except LedgerWriteError:
                if stream is None and stage is None and step is not None:
                    self._tries.miss(step, length)
                raise
            counted = counted_of(columns)
            if step is not None and counted["sample_id"]:  # first: what is then lost is missed
                hashed = [counted.get(name) for name in DIGEST_COLUMNS]
                self._tries.add(step, slot or 0, hashed, len(counted["sample_id"]))
            self._emitter.records(columns, step)

        if self._is_logged:
            self._emitter.act(write, step=step, records=length)

    def commit(self, step: int) -> None:
        """
        Say that the optimizer applied the update of a step, with all that was used for it.

        Raises:
            DivergedError: the guard stops the job, on every rank.
        """
        used: tuple[int, int | None] = 0, None

        def write() -> None:
            nonlocal used
            ended = self._tries.take(step)
            tokens, digest = ended.sums()
            used = ended.records, digest
            total = self._total
            self._total = replace(
                total,
                step=step,
                records=total.records + ended.records,
                tokens=total.tokens if tokens is None else (total.tokens or 0) + tokens,
                digest=str(signed(int(total.digest) + (digest or 0))),
            )
            told = {"samples": ended.records, "tokens": tokens}
            sure = {} if digest is None else {"digest": str(digest)}
            self._emitter.event("commit", step, {**told, **sure})

        if self._is_logged:
            self._emitter.act(write, step=step)
        else:
            self._total = replace(self._total, step=step)
        if self._guard is not None and not self._emitter.is_elsewhere:
            self._guard.committed(step, *used)

    def void(self, step: int, reason: str | None = None) -> None:
        """Say that the update of a step was thrown away: its samples were used in vain."""

        def write() -> None:
            self._tries.take(step)
            self._emitter.event("void", step, {"reason": reason})

        if self._is_logged:
            self._emitter.act(write, step=step)
        if self._guard is not None and not self._emitter.is_elsewhere:
            self._guard.voided(step)

    def begin_checkpoint(
        self,
        step: int,
        *,
        claim: Any = None,
        fingerprint: Mapping[str, Any] | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> Checkpoint:
        """
        Say that the state is being snapshot: it holds the updates 1 to `step`.

        Args:
            step: the last update that it holds.
            claim: what the loader says its position is: its state, or a dictionary.
            fingerprint: if it changed since the start.
            path: where the checkpoint is written.

        Returns:
            The checkpoint: its `cursor` belongs into the saved state, `complete()` is to be
            called when it is whole on storage.
        """
        open_step, open_slots = self._tries.newest
        cursor = replace(
            self._total,
            open_step=open_step,
            open_slots={str(slot): n for slot, n in open_slots.items()},
        )
        told = {
            "phase": "begin",
            "claim": told_claim(claim),
            "fingerprint": fingerprint,
            "path": None if path is None else os.fspath(path),
            "cursor": cursor.told(),
        }
        self._say("checkpoint", step, {key: told[key] for key in told if told[key] is not None})
        self._kept.append(step)

        def finish(failure: str | None) -> None:
            synced = {"phase": "complete", "synced": failure is None, "reason": failure}
            self._say("checkpoint", step, {k: v for k, v in synced.items() if v is not None})

        is_written = self._is_logged and not self._emitter.is_elsewhere
        saving = Checkpoint(cursor, self._make_safe if is_written else lambda: None, finish)
        self._saving = [one for one in self._saving if not one.is_done] + [saving]
        return saving

    def checkpoint(
        self,
        step: int,
        *,
        claim: Any = None,
        fingerprint: Mapping[str, Any] | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> Checkpoint:
        """
        Do the same around a block that saves: `with ledger.checkpoint(step) as cursor:`.

        The checkpoint is complete when the block ends well, and never if it raises.
        """
        return self.begin_checkpoint(step, claim=claim, fingerprint=fingerprint, path=path)

    def declare(self, step: int | None = None, **acts: Any) -> None:
        """
        Say that something was done on purpose, so that the audit does not call it a fault.

        Args:
            step: at which it was done.
            acts: `skip`, `reset`, `reshuffle`, `blend`, `sources`, `reason`, as
                docs/ledger-format.md describes them.
        """
        self._say("declare", step, acts)
        if self._guard is not None:
            self._guard.declared()

    def membership(self, step: int, ranks: Sequence[int]) -> None:
        """Say which ranks take part from a step on."""
        self._say("membership", step, {"ranks": [int(rank) for rank in ranks]})

    def restore(self, **told: Any) -> None:
        """Say that the loader's state was restored just now; `fingerprint=` as seen then."""
        self._say("restore", None, told)

    def iterator(self, **told: Any) -> None:
        """Say that the loader's iterator was made just now; `fingerprint=` as seen then."""
        self._say("iterator", None, told)

    def close(self, reason: str = "done") -> None:
        """Say that this launch ends by itself, and close the files."""
        if not self._emitter.is_closed:
            self._settle()
            self._emitter.close(self._last(reason))
            self._shipping.finish(self._ship_timeout)

    def __enter__(self) -> "LedgerWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        elif not self._emitter.is_closed:
            # a launch that fails does not end by itself: the next one resumes it
            self._settle()
            self._emitter.close(lambda: None)
            self._shipping.finish(0.0)

    def _last(self, reason: str) -> Callable[[], None]:
        if not self._is_logged:
            return lambda: None
        return lambda: self._emitter.event("end", None, {"reason": reason})

    def _settle(self) -> None:
        """Let the checkpoints that are whole be told; those that are not stay without an end."""
        deadline = time.monotonic() + MOST_SETTLING
        for saving in self._saving:
            saving.abandon()
            saving.wait(max(0.0, deadline - time.monotonic()))

    def _say(self, kind: str, step: int | None, data: Mapping[str, Any]) -> None:
        if self._is_logged:
            self._emitter.act(lambda: self._emitter.event(kind, step, data), step=step)

    def _make_safe(self) -> None:
        """Wait until storage has the ledger, then let go of what need not be kept."""
        self._shipping.watch()
        self._emitter.sync()
        if self._retain is not None and len(self._kept) > self._retain:
            self._emitter.drop_until(self._kept[-self._retain])


__all__ = ["Checkpoint", "Cursor", "LedgerWriter"]
