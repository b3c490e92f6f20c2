"""
Keeps the process alive that ships a writer's files to a root that is not on this node.

Nothing here touches the root, and nothing in the step path waits for that process: what cannot be
shipped stays in the spool.
"""

import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading
import time
import weakref
from importlib.util import find_spec
from pathlib import Path

from ledger_audit.errors import LedgerWriteError
from ledger_audit.ledger.address import Address, place_of
from ledger_audit.ledger.shipping.waybill import Waybill

AGAIN = 10.0
"""Seconds between two starts of a process that ends too early."""

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_log = logging.getLogger("ledger_audit")
_live: "weakref.WeakSet[Shipping]" = weakref.WeakSet()


def root_of(root: str | os.PathLike[str], spool: str | os.PathLike[str] | None) -> Path:
    """
    Give the place of a ledger's root.

    Raises:
        UsageError: it is an address in a store that is not known.
        LedgerWriteError: it is in an object store, and nothing can be shipped there.
    """
    place = place_of(root)
    if spool is not None and isinstance(place_of(spool), Address):
        raise LedgerWriteError(
            f"{place_of(spool)}: is no folder on this node",
            hint="give a folder of a local disk as spool=, and the address as the root",
        )
    if isinstance(place, Address):
        if spool is None:
            raise LedgerWriteError(
                f"{place}: is in an object store, where no record can be written at once",
                hint="give spool=, a folder on this node: files are written there and shipped",
            )
        if find_spec("boto3") is None:
            raise LedgerWriteError(
                f"{place}: boto3, which ships to it, is not installed",
                hint="pip install 'ledger-audit[s3]'",
            )
    return place


class _Process(subprocess.Popen[bytes]):
    """A process that may outlive the one that started it, without a word."""

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.poll()


class Shipping:
    """
    The shipping of one writer's files, as its trainer sees it.

    Args:
        spool: the folder on this node that the writer writes below; null: nothing is shipped.
        target: the attempt's folder below the ledger's root.
        writer: unique to this process.
        every: seconds after which open segments are shipped.
        keeps: leave the files in the spool when they have arrived.
    """

    def __init__(
        self,
        spool: str | os.PathLike[str] | None,
        target: Path,
        writer: str,
        *,
        every: float,
        keeps: bool,
    ) -> None:
        is_far = isinstance(target, Address)
        root = target.parent if is_far else Path(os.path.abspath(target.parent))
        name = target.name
        self._is_needed = spool is not None
        own = root if spool is None else Path(os.path.abspath(spool))
        self.folder = target if spool is None else own / name
        """The attempt's folder that the writer writes into."""
        self._waybill = Waybill(own, root, name, writer, keeps)
        self._every = every
        self._owner = os.getpid()
        self._turn = threading.RLock()  # a signal handler may close what is being watched
        self._lock: int | None = None
        self._line: socket.socket | None = None
        self._process: _Process | None = None
        self._started_s = -AGAIN
        self._is_finished = False
        self._is_late = False
        self._later: threading.Thread | None = None
        self._is_told = False
        if self._is_needed:
            _live.add(self)
            self.watch()

    def nudge(self) -> None:
        """Tell that a segment was closed."""
        if not self._is_needed or os.getpid() != self._owner:
            return
        if self._is_finished:
            self._again()
            return
        if self._line is not None:
            with contextlib.suppress(OSError):
                self._line.send(b".", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        self.watch()

    def watch(self) -> None:
        """Start the process if it is not there, and pass on what it says; it is not waited for."""
        if not self._is_needed or os.getpid() != self._owner:
            return
        if not self._turn.acquire(blocking=False):
            return
        try:
            self._listen()
            if not self._is_finished and not self._is_running():
                self._start()
        finally:
            self._turn.release()

    def finish(self, timeout_s: float) -> bool:
        """
        Tell that nothing more is written, and wait for what is on its way, but not for ever.

        Returns:
            Whether everything has arrived; if not, the process goes on by itself.
        """
        if not self._is_needed or os.getpid() != self._owner:
            return not self._is_needed
        with self._turn:
            if not self._is_finished and not self._is_running():
                self._started_s = -AGAIN
                self._start()
            self._is_finished = True
            if self._line is not None:
                with contextlib.suppress(OSError):
                    self._line.shutdown(socket.SHUT_WR)
        try:
            status = None if self._process is None else self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            status = None
        with self._turn:
            self._listen()
            self._release()
        if timeout_s > 0 and status != 0:
            _log.warning(
                "ledger-audit: writer %s: not all of it is at %s; the rest is in %s%s",
                self._waybill.writer,
                self._waybill.root,
                self._waybill.spool,
                ", and a process of its own goes on shipping it" if status is None else "",
            )
        return status == 0

    def let_go(self) -> None:
        """Close in a forked child what is its parent's: the process must see its parent's end."""
        self._turn = threading.RLock()
        self._release()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._release()

    def _release(self) -> None:
        line, self._line = self._line, None
        lock, self._lock = self._lock, None
        with contextlib.suppress(OSError):
            if line is not None:
                line.close()
            if lock is not None:
                os.close(lock)

    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _start(self) -> None:
        now = time.monotonic()
        if now - self._started_s < AGAIN:
            return
        self._started_s = now
        if self._process is not None:
            self._warn(f"the shipper has ended too early (status {self._process.returncode})")
        try:
            self._launch(self._place())
        except OSError as problem:
            self._warn(f"the shipper cannot be started: {problem}")

    def _place(self) -> int:
        """Put a waybill beside the files, unless it is there; give its lock."""
        with self._turn:
            if self._lock is None or not self._waybill.path.exists():
                lock = self._waybill.place()
                if self._lock is not None:
                    os.close(self._lock)
                self._lock = lock
            return self._lock

    def _launch(self, lock: int) -> None:
        spool, root = self._waybill.spool, self._waybill.root
        if not isinstance(root, Address) and os.path.realpath(spool) == os.path.realpath(root):
            raise OSError("spool and root are one folder")
        name = os.path.basename(sys.executable or "")
        if getattr(sys, "frozen", False) or not ("python" in name or "pypy" in name):
            raise OSError(f"{name or 'this program'} is no Python that could run it")
        ours, theirs = socket.socketpair()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        log = os.open(self._waybill.log, flags, 0o644)
        arguments = [str(self._waybill.path), str(self._owner), str(self._every)]
        modules = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
        try:
            self._process = _Process(
                [sys.executable, "-P", "-m", "ledger_audit.ledger.shipping", *arguments],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd="/",
                env={**os.environ, "PYTHONPATH": modules, **dict.fromkeys(_ONE_THREAD, "1")},
                start_new_session=True,
                pass_fds=(lock,),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(log)
        if self._line is not None:
            self._line.close()
        self._line = ours

    def _listen(self) -> None:
        """Say in the job's log what the process has to say."""
        if self._line is None:
            return
        with contextlib.suppress(OSError):
            told = self._line.recv(1 << 16, socket.MSG_DONTWAIT)
            for text in told.decode("utf-8", "replace").splitlines():
                _log.warning("ledger-audit: %s", text)

    def _warn(self, text: str) -> None:
        if not self._is_told:
            self._is_told = True
            _log.warning(
                "ledger-audit: writer %s: %s; its files stay in %s",
                self._waybill.writer,
                text,
                self._waybill.spool,
            )

    def _again(self) -> None:
        """Ship what was written after the end, by another process, once the first has ended."""
        with self._turn:
            with contextlib.suppress(OSError):
                self._place()  # whatever becomes of this process, somebody finds what it left
            self._is_late = True
            if self._later is None:
                self._later = threading.Thread(target=self._ship_late, daemon=True)
                self._later.start()

    def _ship_late(self) -> None:
        while True:
            if self._process is not None:
                self._process.wait()
            with self._turn:
                if not self._is_late:
                    self._later = None
                    return
                self._is_late = False
                self._started_s, self._process = -AGAIN, None
                self._start()
                self._release()


def _let_go() -> None:
    for one in list(_live):
        one.let_go()


os.register_at_fork(after_in_child=_let_go)
