"""
Records what a loader asks for ahead of its use: the stages `read` and `queued`.

A sampler is drawn from by the main process, workers x prefetch batches before they are used. So its
position is no position of the stream; beside what was used it shows how far the loader had read.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from torch.utils.data import Sampler

from ledger_audit.errors import UsageError

if TYPE_CHECKING:
    from ledger_audit.integrations.stepping import StepLedger


_SAMPLERS = ("batch_sampler", "sampler")
"""What a loader draws from, and where samplers keep those that they wrap."""


class ReadAhead(Sampler[Any]):
    """
    Stands in for a sampler, or for a batch sampler, and records each index that it hands out.

    A batch sampler costs one message a batch, a sampler one a sample. The ledger that the loader is
    handed to finds it there.

    Args:
        sampler: whose indices are handed on.
        stage: what being handed out means.
    """

    def __init__(self, sampler: Any, stage: Literal["read", "queued"] = "read") -> None:
        self.sampler, self.stage = sampler, stage
        self.ledger: StepLedger | None = None

    def __iter__(self) -> Iterator[Any]:
        for drawn in self.sampler:
            if self.ledger is None:
                raise UsageError(
                    "a sampler that records what it hands out belongs to no ledger",
                    hint="hand its loader to the ledger before the first batch is asked for",
                )
            self.ledger.staged(self.stage, drawn if isinstance(drawn, list) else [drawn])
            yield drawn

    def __len__(self) -> int:
        return len(self.sampler)

    def __getattr__(self, name: str) -> Any:
        if name == "sampler":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.sampler, name)


def attach(loader: Any, ledger: "StepLedger") -> None:
    """Tell the samplers of a loader that record, however they are wrapped, whose they are."""
    seen = set[int]()
    left = [getattr(loader, name, None) for name in _SAMPLERS]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, ReadAhead):
            one.ledger = ledger
        left += [getattr(one, "__dict__", {}).get(name) for name in _SAMPLERS]
