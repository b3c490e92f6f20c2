"""`python -m ledger_audit.simulation LAUNCH`: the process in which the job lives and dies."""

import sys

from ledger_audit.simulation.training import Launch, Training

if __name__ == "__main__":
    Training(Launch.read(sys.argv[1])).run()
