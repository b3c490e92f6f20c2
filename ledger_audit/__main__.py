"""`python -m ledger_audit` and the `ledger-audit` command."""

import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _NoPandas(MetaPathFinder, Loader):
    """
    Keeps pandas out of this process.

    Arrow imports it, if it is installed, with the first array: a fifth of a second, and 40 MB, for
    what no command uses. To Arrow, it is as if it were not installed.
    """

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        """Find pandas here, and nothing else."""
        return ModuleSpec(fullname, self) if fullname == "pandas" else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Make no module of a kind of its own."""

    def exec_module(self, module: ModuleType) -> None:
        """Refuse to be imported."""
        raise ImportError("ledger-audit keeps pandas out of its process", name=module.__name__)


def main() -> None:
    """Run the command line and leave with its exit code."""
    from ledger_audit.cli import run
    from ledger_audit.errors import ExitCode

    if not any("spark" in word for word in sys.argv[1:]):  # which may ask for it
        sys.meta_path.insert(0, _NoPandas())
    code = run(sys.argv[1:])
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:  # nobody reads any more
        code = ExitCode.INTERNAL
    os._exit(code)  # nothing is left to tidy up, and the engine takes its time for that


if __name__ == "__main__":
    main()
