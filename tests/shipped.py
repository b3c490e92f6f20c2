"""A trainer in a process of its own, for tests of shipping; it says what it does."""

import ctypes
import json
import logging
import os
import sys
import time

from ledger_audit import LedgerWriter
from ledger_audit.ledger.writer import shipping


def main() -> None:
    """Train; options come as JSON, what is done goes to standard output, line by line."""
    told = json.loads(sys.argv[1])
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    shipping.AGAIN = 0.0
    writer = LedgerWriter(told.pop("root"), rank=0, world_size=1, **told.pop("options"))
    say(writer.writer, shipper(writer))
    if told.get("forks") == "python" and os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    if told.get("forks") == "c":
        libc = ctypes.CDLL(None)
        if libc.fork() == 0:
            libc.sleep(60)
            libc._exit(0)
    for step in range(1, told["steps"] + 1):
        began = time.monotonic()
        writer.record(step, 0, range(10 * step, 10 * step + 10))
        writer.commit(step)
        took = time.monotonic() - began
        if told.get("checkpoints"):
            with writer.checkpoint(step):
                pass
        say(step, took, shipper(writer))
        time.sleep(told.get("pause", 0.0))
    if told.get("waits"):
        sys.stdin.readline()
    if told.get("closes", True):
        began = time.monotonic()
        writer.close()
        say("closed", time.monotonic() - began, None)


def say(*told: object) -> None:
    """Write a line to standard output, whole."""
    os.write(1, f"{json.dumps(told)}\n".encode())


def shipper(writer: LedgerWriter) -> int | None:
    """Tell which process ships."""
    process = writer._shipping._process
    return None if process is None else process.pid


if __name__ == "__main__":
    main()
