"""Trains as Megatron does: `torchrun --standalone --nproc-per-node 4 megatron_loop.py FOLDER`."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from megatron.core import num_microbatches_calculator as batch_sizes
from megatron.core import parallel_state
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder
from torch.utils.data import DataLoader

from ledger_audit.integrations.megatron import MegatronLedger

FOLDER = Path(sys.argv[1])
DOCUMENTS, LENGTH, ROWS, BATCH, SAMPLES, EVERY = 90, 32, 1, 8, 96, 5
RAMPUP = [4, 4, 24]  # the batch begins with 4 sequences and grows by 4, over 24 samples


class Tokenizer:
    """What the data set asks of a tokenizer."""

    def __init__(self):
        self.vocab_size, self.eod, self.pad = 5000, 4999, 4998
        self.unique_identifiers = {"class": "Tokenizer"}


def token(document, place):
    """Give a token that tells where it stands, as far as 5,000 numbers can."""
    return (document * 97 + place) % 4998


def dataset():
    """Build the index files, on the first rank, and read them."""
    lengths = [9 + 61 * document % 59 for document in range(DOCUMENTS)]
    os.chdir(FOLDER)  # so that the paths in the index are the same wherever the folder is
    if dist.get_rank() == 0 and not Path("toy.idx").exists():
        builder = IndexedDatasetBuilder("toy.bin", dtype=DType.optimal_dtype(5000))
        for document, length in enumerate(lengths):
            tokens = [token(document, place) for place in range(length)]
            builder.add_document(torch.tensor(tokens), [length])
        builder.finalize("toy.idx")
    dist.barrier()
    config = GPTDatasetConfig(
        random_seed=1234,
        sequence_length=LENGTH,
        blend=(["toy"], None),
        split="100,0,0",
        path_to_cache="cache",
        tokenizer=Tokenizer(),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
    )
    sizes = [SAMPLES, 0, 0]
    return BlendedMegatronDatasetBuilder(GPTDataset, sizes, lambda: True, config).build()[0]


def sampler(consumed, rank, ranks):
    """Give the places of this rank's micro-batches, from the samples that were consumed on."""
    for first in range(consumed, SAMPLES - ROWS * ranks + 1, ROWS * ranks):
        yield list(range(first + rank * ROWS, first + (rank + 1) * ROWS))


def main():
    """Train, save every few steps, and go on from what was saved last."""
    dist.init_process_group("gloo")
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
    rank = parallel_state.get_data_parallel_rank()
    ranks = parallel_state.get_data_parallel_world_size()
    source = parallel_state.get_tensor_model_parallel_src_rank()
    torch.manual_seed(0)
    model = torch.nn.Linear(LENGTH, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)

    state = {"iteration": 0, "consumed_train_samples": 0, "ledger": None}
    saved = FOLDER / "checkpoint.pt"
    if saved.exists():
        state = torch.load(saved)
        model.load_state_dict(state["model"])
    iteration, consumed = state["iteration"], state["consumed_train_samples"]
    calculator = (dist.get_rank(), RAMPUP, BATCH, ROWS, ranks, False)
    batch_sizes.init_num_microbatches_calculator(*calculator)

    data, loader = dataset(), None
    if dist.get_rank() == source:  # of the tensor-parallel peers, the first one reads
        places = list(sampler(consumed, rank, ranks))
        loader = DataLoader(data, batch_sampler=places, num_workers=2, prefetch_factor=4)
    ledger = MegatronLedger(
        FOLDER / "ledger",
        data,
        loader,
        micro_batch_size=ROWS,
        global_batch_size=BATCH,
        rampup=RAMPUP,
        restored=state["ledger"],
        guard="stop",
    )
    batches = None if loader is None else ledger.batches()
    while True:
        batch_sizes.update_num_microbatches(consumed, consistency_check=False)
        size = batch_sizes.get_current_global_batch_size()
        if consumed + size > SAMPLES:
            break
        for _ in range(batch_sizes.get_num_microbatches()):
            tokens = torch.empty(ROWS, LENGTH, dtype=torch.int64)
            if batches is not None:
                tokens = next(batches)["tokens"].contiguous()
            dist.broadcast(tokens, source, group=parallel_state.get_tensor_model_parallel_group())
            model(tokens.float()).mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=parallel_state.get_data_parallel_group())
        optimizer.step()
        optimizer.zero_grad()
        iteration, consumed = iteration + 1, consumed + size
        ledger.commit(iteration)
        if iteration % EVERY == 0:
            position = {"iteration": iteration, "consumed_train_samples": consumed}
            with ledger.checkpoint(claim=position, path=saved) as cursor:
                if dist.get_rank() == 0:
                    weights = {"model": model.state_dict()}
                    torch.save({**weights, **position, "ledger": cursor}, FOLDER / "partial")
                    (FOLDER / "partial").replace(saved)
                dist.barrier()
    ledger.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
