"""What the machine can hold."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_CGROUPS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def memory() -> int:
    """Give the bytes of memory that a process may have here; where nothing tells: no bound."""
    return min(_told(), default=sys.maxsize)


def _told() -> Iterator[int]:
    with suppress(ValueError, OSError, AttributeError):  # not told on every system
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415  # not on every system

        for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            allowed, _ = resource.getrlimit(limit)
            if allowed != resource.RLIM_INFINITY:
                yield allowed
    for file in _CGROUPS:
        with suppress(OSError, ValueError):  # "max" is no number
            yield int(file.read_text())
