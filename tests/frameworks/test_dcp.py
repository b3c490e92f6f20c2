"""The ledger is a part of the state that torch.distributed.checkpoint saves and loads."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from launching import attempts_of, events
from torch.utils.data import DataLoader, TensorDataset

from ledger_audit.errors import UsageError
from ledger_audit.integrations.torch import TorchLedger

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled"),
]


def _trained(root: Path, step: int, last: int, **options: Any) -> TorchLedger:
    """Train up to a step, and save there; the state is loaded first if there is one."""
    loader = DataLoader(TensorDataset(torch.arange(40)), 2)
    ledger = TorchLedger(root / "ledger", loader, attempt=f"from-{step}", **options)
    state = {"ledger": ledger}
    if step:
        dcp.load(state, checkpoint_id=root / f"step-{step}", no_dist=True)
    for number, _ in enumerate(ledger.batches(itertools.islice(loader, step, last)), step + 1):
        ledger.commit()
        if number == last - 2:
            with ledger.checkpoint(path=root / f"step-{number}"):
                dcp.save(state, checkpoint_id=root / f"step-{number}", no_dist=True)
    return ledger


def test_the_cursor_comes_back_through_it(tmp_path: Path) -> None:
    """A resumed attempt knows which attempt and step were loaded."""
    _trained(tmp_path, 0, 5).writer.close()
    _trained(tmp_path, 3, 8).writer.close()
    (start,) = events(tmp_path / "ledger", attempts_of(tmp_path / "ledger")[1], "start")

    assert {"attempt": "from-0", "step": 3} == start["resumed_from"]


def test_a_state_is_not_given_where_no_checkpoint_is_begun(tmp_path: Path) -> None:
    """An older cursor would say that more was rolled back than was."""
    ledger = _trained(tmp_path, 0, 4)

    with pytest.raises(UsageError, match="no checkpoint is begun"):
        ledger.state_dict()
