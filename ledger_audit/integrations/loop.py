"""The ledger of a plain loop, whose batches hold their ids: no framework is needed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ledger_audit.errors import UsageError
from ledger_audit.integrations.stepping import StepLedger


class LoopLedger(StepLedger):
    """Records each batch of a loader when the loop gets it."""

    def batches(
        self,
        batches: Iterable[Any],
        *,
        ids: str | Callable[[Any], Any] = "sample_id",
        epoch: int | None = None,
    ) -> Iterator[Any]:
        """
        Give batches as they are, and record each as it is given.

        Args:
            batches: of the loader.
            ids: the key of a batch that holds its ids, or a function of a batch that gives them,
                or a dictionary of columns.
            epoch: pass over the data.

        Raises:
            UsageError: a batch has no such key.
        """
        found = iter(batches)
        self.iterator()
        return self._used(found, ids, epoch)

    def _used(
        self, batches: Iterator[Any], ids: str | Callable[[Any], Any], epoch: int | None
    ) -> Iterator[Any]:
        for batch in batches:
            told = ids(batch) if callable(ids) else _at(batch, ids)
            columns = dict(told) if isinstance(told, Mapping) else {"sample_id": told}
            if "sample_id" not in columns:
                raise UsageError(
                    "the columns that ids= gives of a batch have no sample_id",
                    hint="let the function give the ids, or a dictionary that has them",
                )
            self.record(columns.pop("sample_id"), **{"epoch": epoch, **columns})
            yield batch


def _at(batch: Any, key: str) -> Any:
    try:
        return batch[key]
    except (KeyError, TypeError, IndexError) as problem:
        raise UsageError(
            f"a batch has no {key!r}: its samples cannot be recorded",
            hint="let the data set give each sample its id, or say where it is with ids=",
        ) from problem
