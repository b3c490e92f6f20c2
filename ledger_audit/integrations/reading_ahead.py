"""
Records what a loader asks for ahead of its use: the stages `read` and `queued`.

A sampler is drawn from by the main process, workers x prefetch batches before they are used. So its
position is no position of the stream; beside what was used it shows how far the loader had read.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from torch.utils.data import Sampler

from ledger_audit.errors import UsageError
from ledger_audit.integrations.describing import plain
from ledger_audit.integrations.tagging import Stateful

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
        if isinstance(sampler, Stateful):
            self.__class__ = _StatefulReadAhead

    def __iter__(self) -> Iterator[Any]:
        drawn = iter(self.sampler)
        return (_StatefulDraws if isinstance(drawn, Stateful) else _Draws)(drawn, self)

    def __len__(self) -> int:
        return len(self.sampler)

    def __getattr__(self, name: str) -> Any:
        if name == "sampler" or name.startswith("__"):  # while it is unpickled or copied
            raise AttributeError(name)
        return getattr(self.sampler, name)

    def hand_out(self, drawn: Any) -> None:
        """Record what the loader gets now."""
        if self.ledger is None:
            raise UsageError(
                "a sampler that records what it hands out belongs to no ledger",
                hint="hand its loader to the ledger before the first batch is asked for",
            )
        several = plain(drawn)
        listed = several if isinstance(several, list) else [several]
        self.ledger.staged(self.stage, [plain(one) for one in listed])


class _StatefulReadAhead(ReadAhead):
    """Stands in for a sampler with a state: torchdata restores by that, not by drawing anew."""

    def state_dict(self) -> Any:
        """Give the sampler's state."""
        return self.sampler.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Give it back."""
        self.sampler.load_state_dict(state)


class _Draws(Iterator[Any]):
    """What a sampler draws in one pass."""

    def __init__(self, draws: Iterator[Any], owner: ReadAhead) -> None:
        self._draws, self._owner = draws, owner

    def __next__(self) -> Any:
        drawn = next(self._draws)
        self._owner.hand_out(drawn)
        return drawn

    def __getattr__(self, name: str) -> Any:
        if name in ("_draws", "_owner") or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._draws, name)


class _StatefulDraws(_Draws):
    """What is drawn by an iterator with a state."""

    def state_dict(self) -> Any:
        """Give the iterator's state."""
        return self._draws.state_dict()  # type: ignore[attr-defined]  # it has one

    def load_state_dict(self, state: Any) -> None:
        """Give it back."""
        self._draws.load_state_dict(state)  # type: ignore[attr-defined]


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
