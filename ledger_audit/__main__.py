"""`python -m ledger_audit` and the `ledger-audit` command."""

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    from ledger_audit.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
