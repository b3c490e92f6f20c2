"""A trainer in a process of its own, for tests of shipping: says what it did, does what it is told."""

import ctypes
import json
import logging
import os
import sys
import time

import ledger_audit.ledger.writer.shipping as shipping
from ledger_audit import LedgerWriter


def main() -> None:
    """Train; options come as JSON, what is done goes to standard output, line by line."""
    told = json.loads(sys.argv[1])
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    shipping.AGAIN = 0.0
    writer = LedgerWriter(told.pop("root"), rank=0, world_size=1, **told.pop("options"))
    print(json.dumps([writer.writer, shipper(writer)]), flush=True)
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
        print(json.dumps([step, took, shipper(writer)]), flush=True)
        time.sleep(told.get("pause", 0.0))
    if told.get("waits"):
        sys.stdin.readline()
    if told.get("closes", True):
        began = time.monotonic()
        writer.close()
        print(json.dumps(["closed", time.monotonic() - began, None]), flush=True)


def shipper(writer: LedgerWriter) -> int | None:
    """Tell which process ships."""
    process = writer._shipping._process
    return None if process is None else process.pid


if __name__ == "__main__":
    main()
