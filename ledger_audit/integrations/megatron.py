"""The ledger of a loop in the manner of Megatron: positions in a global order, packed sequences."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from megatron.core import parallel_state

from ledger_audit.integrations.carrying import CarryingLedger


class MegatronLedger(CarryingLedger):
    """
    Records, for each sequence, the spans of documents in it and its place in the global order.

    Of the model-parallel peers that share a data-parallel rank, one records: the first by tensor,
    pipeline and context; the others only take part in the guard, and may have no batches.

    Args:
        root: the ledger's folder.
        dataset: the `GPTDataset` or `BlendedDataset` that the loader reads.
        loader: the training loader; null on processes that have none.
        micro_batch_size: sequences of a rank and slot.
        global_batch_size: sequences of a step; under a ramp, of its end.
        rampup: start, increment and samples of the ramp; null: there is none.
        fingerprint: what decides the order beside this.
        options: of `CarryingLedger` and `LedgerWriter`; `restored=` and `guard=` among them.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        dataset: Any,
        loader: Any,
        *,
        micro_batch_size: int,
        global_batch_size: int,
        rampup: tuple[int, int, int] | None = None,
        fingerprint: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        known = {
            "global_batch_size": global_batch_size,
            "rampup": None if rampup is None else list(rampup),
            **_fingerprint_of(dataset),
            **(fingerprint or {}),
        }
        fit = {name: value for name, value in known.items() if value is not None}
        place = _place() if parallel_state.model_parallel_is_initialized() else {}
        super().__init__(root, describe=Spans(dataset), fingerprint=fit, **{**place, **options})
        self._fingerprint["micro_batch_size"] = micro_batch_size
        if loader is not None:
            self.carry(loader)


class Spans:
    """
    Tells which tokens of which documents a sequence holds.

    A sequence is looked up by its place in the global order, in the index arrays of a data set and,
    in a blend, of the blend. Tokens are counted without the extra one that serves as a label.

    Args:
        dataset: a `GPTDataset`, or a `BlendedDataset` of such.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __call__(self, item: Any, place: int) -> list[dict[str, Any]]:
        """Give the columns of each span; when an item was read, the arrays are there."""
        own, at = self._dataset, int(place)
        known: dict[str, Any] = {"position": at}
        if hasattr(own, "datasets"):
            number, at = int(own.dataset_index[at]), int(own.dataset_sample_index[at])
            own = own.datasets[number]
            known["source"] = _name_of(own, number)
        return [
            {"sample_id": document, "token_start": first, "token_end": last, **known}
            for document, first, last in _documents(own, at)
        ]


def _documents(dataset: Any, at: int) -> Iterator[tuple[int, int, int]]:
    """Give document, first token and the token after the last, of each part of a sequence."""
    shuffled = int(dataset.shuffle_index[at])
    (first, start), (last, end) = dataset.sample_index[shuffled : shuffled + 2].tolist()
    lengths = dataset.dataset.sequence_lengths
    for place in range(first, last + 1):
        document = int(dataset.document_index[place])
        begins = start if place == first else 0
        ends = end if place == last else int(lengths[document])
        if ends > begins:
            yield document, begins, ends


def _name_of(dataset: Any, number: int) -> str:
    path = getattr(dataset, "dataset_path", None)
    return str(number) if path is None else Path(path).name


def _fingerprint_of(dataset: Any) -> dict[str, Any]:
    config = dataset.config
    return {
        "index_hash": dataset.unique_description_hash,
        "seed": config.random_seed,
        "sequence_length": config.sequence_length,
        "split": config.split,
        "dataset_samples": int(np.int64(len(dataset))),
    }


def _place() -> dict[str, Any]:
    """Tell which data-parallel rank this process has, and whether a peer records for it."""
    is_first = (
        parallel_state.get_tensor_model_parallel_rank() == 0
        and parallel_state.get_context_parallel_rank() == 0
        and parallel_state.is_pipeline_first_stage(ignore_virtual=True)
    )
    return {
        "rank": parallel_state.get_data_parallel_rank(with_context_parallel=False),
        "world_size": parallel_state.get_data_parallel_world_size(with_context_parallel=False),
        "is_peer": not is_first,
    }
