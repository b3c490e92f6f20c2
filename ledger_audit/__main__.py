"""`python -m ledger_audit` and the `ledger-audit` command."""

import os
import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    from ledger_audit.cli import run
    from ledger_audit.errors import ExitCode

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
