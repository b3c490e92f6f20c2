"""
Runs one shipper: `python -m ledger_audit.ledger.shipping WAYBILL PARENT EVERY`.

It goes on until the writer has ended, however it ended, and everything has arrived. Nobody waits
for it: what it has to say goes to its standard error, which is a file, and to its writer's log.
"""

import contextlib
import os
import random
import select
import signal
import socket
import stat
import sys
import time
from pathlib import Path

from ledger_audit.ledger.address import Address
from ledger_audit.ledger.shipping import waybill as waybills
from ledger_audit.ledger.shipping.copies import RefusedError
from ledger_audit.ledger.shipping.shipment import Shipment
from ledger_audit.ledger.shipping.upload import Upload
from ledger_audit.ledger.shipping.waybill import Waybill

FIRST = 5.0
"""Seconds over which the shippers of a job spread their first round."""
SPREAD = 0.1
"""Share of the time between two rounds over which they spread the later ones."""
LOOK = 1.0
"""Seconds after which it looks whether its parent is still there."""
LEAST_PAUSE, MOST_PAUSE = 1.0, 60.0
"""Seconds between two rounds while the root cannot be written."""
PATIENCE = 3600.0
"""Seconds without any progress after which the shipper of a dead writer gives up."""


class Shipper:
    """
    Ships for one writer, round by round.

    Args:
        waybill: of the writer.
        parent: the writer's process.
        every: seconds between two rounds.
    """

    def __init__(self, waybill: Waybill, parent: int, every: float) -> None:
        self._waybill, self._parent, self._every = waybill, parent, every
        self._known = os.stat(waybill.path)
        self._shipment = _shipment_of(waybill, is_first=not waybill.arrived.exists())
        self._is_over = False
        self._trouble = ""
        self._pause = LEAST_PAUSE

    def run(self) -> int:
        """Ship until the writer has ended and all of its files have arrived; give the status."""
        due = time.monotonic() + random.random() * min(FIRST, self._every)
        has_looked_around = False
        patience = time.monotonic() + PATIENCE
        while True:
            self._wait(due)
            shipped = self._shipment.shipped
            is_over = self._is_over
            if self._round(is_over):
                if is_over:
                    self._waybill.clear(self._known)
                    return 0
                due = time.monotonic() + self._every * (1 + SPREAD * (random.random() - 0.5))
                if not has_looked_around:
                    has_looked_around = True
                    self._ship_remains()
                continue
            if not is_over or self._shipment.shipped > shipped:
                patience = time.monotonic() + PATIENCE
            elif time.monotonic() > patience:
                self._tell(f"gives up; what has not arrived stays in {self._waybill.spool}")
                return 1
            if is_over:  # it may be a long way: whoever shuts the machine down need not wait
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            due = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, MOST_PAUSE)

    def _round(self, is_over: bool) -> bool:
        try:
            self._shipment.ship(is_over=is_over)
        except (OSError, RefusedError) as problem:
            if str(problem) != self._trouble:
                self._trouble = str(problem)
                self._tell(
                    f"cannot ship to {self._waybill.root} ({problem}); what is not there yet stays "
                    f"in {self._waybill.spool}, and is tried again"
                )
            return False
        if self._trouble:
            self._trouble, self._pause = "", LEAST_PAUSE
            self._tell(f"ships to {self._waybill.root} again")
        return True

    def _ship_remains(self) -> None:
        """Ship what dead writers left on this machine for the same root."""
        for other, lock in waybills.unclaimed(self._waybill.spool):
            if other.root == self._waybill.root:
                try:
                    _shipment_of(other, is_first=False).ship(is_over=True)
                    other.clear(os.fstat(lock))
                    self._tell(f"shipped what the dead writer {other.writer} had left")
                except (OSError, RefusedError) as problem:
                    self._tell(f"cannot ship what the dead writer {other.writer} left: {problem}")

    def _wait(self, due: float) -> None:
        """Wait until the next round, or until the writer says something or has ended."""
        if self._is_over:
            time.sleep(max(0.0, due - time.monotonic()))
            return
        while True:
            left = max(0.0, due - time.monotonic())
            is_told = bool(select.select([0], [], [], min(left, LOOK))[0])
            self._is_over = os.getppid() != self._parent or (is_told and not _heard())
            if self._is_over or is_told or left <= LOOK:
                return

    def _tell(self, text: str) -> None:
        told = f"writer {self._waybill.writer}: {text}"
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with contextlib.suppress(OSError):
            os.write(2, f"{now} {told}\n".encode(errors="replace"))
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(0)) as writer:
            flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
            writer.send(f"{told}\n".encode(errors="replace"), flags)


def _shipment_of(waybill: Waybill, *, is_first: bool) -> Shipment | Upload:
    if isinstance(waybill.root, Address):
        return Upload(waybill)
    return Shipment(waybill, is_first=is_first)


def _heard() -> bool:
    """Take what the writer said; not so: it has ended, and says nothing any more."""
    try:
        return bool(os.read(0, 4096))
    except OSError:
        return False


def main(arguments: list[str]) -> int:
    """Ship for the writer of a waybill, until both are done."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with its writer, and a moment later
    with contextlib.suppress(OSError):
        os.nice(5)
    path, parent, every = arguments
    waybill = waybills.read(Path(path))
    status = Shipper(waybill, int(parent), float(every)).run()
    with contextlib.suppress(OSError):
        log = os.fstat(2)
        is_ours = stat.S_ISREG(log.st_mode) and os.path.samestat(log, os.stat(waybill.log))
        if is_ours and log.st_size == 0:
            waybill.log.unlink()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
