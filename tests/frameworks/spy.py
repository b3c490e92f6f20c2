"""
Runs a script as it stands, writes down what its model's forward() really saw, and may kill it.

`spy.py LOG KILL SCRIPT ARGUMENT...`: one line a micro-batch goes to LOG/RANK in one write, a JSON
list of the rows of the inputs; where a model has indices as inputs, they come first in a row. KILL
is `RANK:COUNT`: that rank ends itself by SIGKILL in its COUNT-th forward(), when the line is
written; `-` kills nobody.
"""

import json
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any


class Spy:
    """Stands before forward()."""

    def __init__(self, log: Path, kill: str) -> None:
        rank = os.environ.get("RANK", "0")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._log = os.open(log / rank, flags)
        doomed, _, count = kill.partition(":")
        self._left = int(count) if doomed == rank else 0

    def see(self, rows: list[list[float]]) -> None:
        """Write one micro-batch down, and die if it is time."""
        os.write(self._log, f"{json.dumps(rows)}\n".encode())
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def spy_on_torch(spy: Spy) -> None:
    """See the inputs of every linear layer that trains; the models here have one."""
    import torch

    def hook(module: Any, inputs: Any) -> None:
        if isinstance(module, torch.nn.Linear) and module.training:
            spy.see(inputs[0].tolist())

    torch.nn.modules.module.register_module_forward_pre_hook(hook)


def spy_on_loop(spy: Spy, script: str) -> None:
    """See the batches of a script's own function `forward`, which trains without a framework."""
    space = runpy.run_path(script)
    forward = space["forward"]

    def seen(weight: float, batch: dict[str, Any]) -> Any:
        spy.see([[index] for index in batch["sample_id"]])
        return forward(weight, batch)

    space["main"].__globals__["forward"] = seen
    space["main"]()


def main() -> None:
    """Run the script."""
    log, kill, script, *arguments = sys.argv[1:]
    sys.argv = [script, *arguments]
    spy = Spy(Path(log), kill)
    if "plain" in Path(script).name:
        spy_on_loop(spy, script)
    else:
        spy_on_torch(spy)
        runpy.run_path(script, run_name="__main__")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the script is over; what gloo's threads do at the interpreter's end is not ours


if __name__ == "__main__":
    main()
