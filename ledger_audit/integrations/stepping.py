"""Counts the steps and slots of a training loop; its ledger begins when the first batch is used."""

import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Literal, Self

from ledger_audit.errors import UsageError
from ledger_audit.ledger.writer import Checkpoint, LedgerWriter
from ledger_audit.ledger.writer.cursor import Cursor, restored_from


class StepLedger:
    """
    The ledger of one process of a training loop.

    It is opened with the first record, checkpoint or `close`: until then a checkpoint may be
    loaded, so that the ledger knows from the first line on what was resumed.

    Args:
        root: the ledger's folder.
        rank: index in the group that shards data.
        world_size: ranks that shard data.
        restored: the cursor that `checkpoint` gave, from the loaded checkpoint; null: none was.
        fingerprint: what decides the order of the stream.
        options: of `LedgerWriter`.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        rank: int = 0,
        world_size: int = 1,
        restored: Cursor | Mapping[str, Any] | None = None,
        fingerprint: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._root, self._options = root, {"rank": rank, "world_size": world_size, **options}
        self._fingerprint = dict(fingerprint or {})
        self._writer: LedgerWriter | None = None
        self._early: list[tuple[str, dict[str, Any]]] = []
        self._slots: dict[int, int] = {}
        self._restored: Cursor | Mapping[str, Any] | None = None
        self._saving: Checkpoint | None = None
        resumed_from = options.get("resumed_from")
        self.committed = 0 if resumed_from is None else int(resumed_from[1])
        """The last step whose update was applied, in this launch or before it."""
        if restored is not None:
            self.load_state_dict(restored)

    @property
    def step(self) -> int:
        """The step that the next micro-batch contributes to."""
        return self.committed + 1

    @property
    def writer(self) -> LedgerWriter:
        """The writer beneath, which is opened now if it was not."""
        if self._writer is None:
            self._writer = LedgerWriter(
                self._root,
                restored=self._restored,
                fingerprint=self._fingerprint,
                **self._options,
            )
            for kind, told in self._early:
                getattr(self._writer, kind)(**told)
            self._early.clear()
        return self._writer

    def record(self, sample_id: Any, *, step: int | None = None, **columns: Any) -> None:
        """
        Record the next micro-batch, where it is used.

        Args:
            sample_id: one a row.
            step: that it contributes to; null: the one after the last commit.
            columns: as `LedgerWriter.record` takes them.
        """
        at = self.step if step is None else step
        slot = self._slots.get(at, 0)
        self.writer.record(at, slot, sample_id, **columns)
        self._slots[at] = slot + 1

    def staged(self, stage: str, sample_id: Any, **columns: Any) -> None:
        """Record samples that are `read`, `queued` or `dropped`, and not used."""
        self.writer.record(None, None, sample_id, stage=stage, **columns)

    def commit(self, step: int | None = None) -> None:
        """
        Say that the optimizer applied the update.

        Args:
            step: of the update; null: the next one.

        Raises:
            DivergedError: the guard stops the job, on every rank.
        """
        self.committed = self.step if step is None else step
        self._slots = {at: slots for at, slots in self._slots.items() if at > self.committed}
        self.writer.commit(self.committed)

    def void(self, reason: str | None = None, *, step: int | None = None) -> None:
        """
        Say that the update was thrown away.

        Args:
            reason: why.
            step: of the update; null: the next one, whose number is then used again.
        """
        at = self.step if step is None else step
        self._slots.pop(at, None)
        self.writer.void(at, reason)

    @contextmanager
    def checkpoint(
        self, *, claim: Any = None, path: str | os.PathLike[str] | None = None, **told: Any
    ) -> Iterator[dict[str, Any]]:
        """
        Stand around the code that saves, and hand out the cursor that belongs in the checkpoint.

        Args:
            claim: what the loader says its position is.
            path: where the checkpoint is written.
            told: what else `LedgerWriter.checkpoint` takes.
        """
        with self.begin_checkpoint(claim=claim, path=path, **told) as cursor:
            yield cursor.told()

    def begin_checkpoint(self, **told: Any) -> Checkpoint:
        """Begin one that is saved while training goes on; its `complete()` says when it is over."""
        self._saving = self.writer.begin_checkpoint(self.committed, **told)
        return self._saving

    def completing(self, save: Callable[..., Any]) -> Callable[..., Any]:
        """Let a framework's saving end the checkpoint that was begun while it saved."""

        @functools.wraps(save)
        def saved(*arguments: Any, **options: Any) -> Any:
            found = save(*arguments, **options)
            if self._saving is not None:
                self._saving.complete()
            return found

        return saved

    def state_dict(self) -> dict[str, str]:
        """
        Give the cursor of the checkpoint that is begun, to savers that ask objects for states.

        Before the loop it is empty: loaders of checkpoints ask what there is to load.

        Raises:
            UsageError: no checkpoint is begun at this step.
        """
        if self._writer is None:
            return {"cursor": ""}
        if self._saving is None or self._saving.cursor.step != self.committed:
            raise UsageError(
                f"the ledger is saved at step {self.committed}, and no checkpoint is begun there",
                hint="save it inside `with ledger.checkpoint(...)`",
            )
        return {"cursor": json.dumps(self._saving.cursor.told())}

    def load_state_dict(self, state: Cursor | Mapping[str, Any]) -> None:
        """
        Take the cursor back that `checkpoint` or `state_dict` gave, out of what is loaded.

        Raises:
            UsageError: samples were used already.
        """
        if self._writer is not None:
            raise UsageError(
                "the ledger's cursor is restored after the first sample was used",
                hint="load the checkpoint before the loop begins",
            )
        if isinstance(state, Mapping) and isinstance(text := state.get("cursor"), str):
            if not text:
                return
            with suppress(ValueError):  # what cannot be read is told in the ledger
                state = json.loads(text)
        self._restored = state
        cursor, _ = restored_from(state, strict=False)
        self.committed = self.committed if cursor is None else cursor.step
        self.restore(of="cursor")

    def restore(self, **told: Any) -> None:
        """Say that the loader's position was restored just now."""
        if told.get("of") != "cursor":  # the loader's own state says more than the ledger's
            self._early = [one for one in self._early if one[1].get("of") != "cursor"]
        self._tell("restore", told)

    def iterator(self, **told: Any) -> None:
        """Say that the loader's iterator was made just now."""
        self._tell("iterator", told)

    def _tell(self, kind: Literal["restore", "iterator"], told: Mapping[str, Any]) -> None:
        seen = {**told, "fingerprint": {**self._fingerprint, **told.get("fingerprint", {})}}
        if self._writer is None:
            self._early.append((kind, seen))
        else:
            getattr(self._writer, kind)(**seen)

    def close(self, reason: str = "done") -> None:
        """Say that this launch ends by itself."""
        self.writer.close(reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None or self._writer is not None:
            self.writer.__exit__(kind, problem, trace)
