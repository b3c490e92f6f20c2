"""Spans of documents are those that megatron-core reads, by its own index files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.frameworks

BUILD = """
import pickle, sys
import torch
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder
from ledger_audit.integrations.megatron import Spans

store = torch.distributed.HashStore()
torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)

class Tokenizer:
    def __init__(self):
        self.vocab_size, self.eod, self.pad, self.unique_identifiers = 60000, 59999, 59998, {}

SOURCES, LENGTH, SAMPLES = ("web", "code"), 32, 150

def token(source, document, place):
    return SOURCES.index(source) * 25000 + document * 97 + place

for source in SOURCES:
    builder = IndexedDatasetBuilder(f"{source}.bin", dtype=DType.optimal_dtype(60000))
    for document in range(60):
        length = 5 + 13 * document % 71
        tokens = [token(source, document, place) for place in range(length)]
        builder.add_document(torch.tensor(tokens), [length])
    builder.finalize(f"{source}.idx")
blend = (["web", "code"], [0.7, 0.3]) if sys.argv[1] == "blend" else (["web"], None)
config = GPTDatasetConfig(
    random_seed=7, sequence_length=LENGTH, blend=blend, split="100,0,0", path_to_cache="cache",
    tokenizer=Tokenizer(), reset_position_ids=False, reset_attention_mask=False,
    eod_mask_loss=False, create_attention_mask=False,
)
data = BlendedMegatronDatasetBuilder(GPTDataset, [SAMPLES, 0, 0], lambda: True, config).build()[0]
spans = pickle.loads(pickle.dumps(Spans(data)))  # as a spawned worker gets it
sources, several = set(), 0
for place in range(SAMPLES):
    item = data[place]
    told = spans(item, place)
    sources |= {one.get("source") for one in told}
    several += len(told) > 1
    rebuilt = [
        token(one.get("source") or "web", one["sample_id"], at)
        for one in told
        for at in range(one["token_start"], one["token_end"])
    ]
    assert item["tokens"].tolist() == rebuilt, place
    assert {place} == {one["position"] for one in told}
print(sorted(map(str, sources)), several > 20)
"""


@pytest.mark.parametrize(
    ("kind", "sources"), [("single", "['None'] True"), ("blend", "['code', 'web'] True")]
)
def test_spans_are_the_tokens_that_megatron_reads(kind: str, sources: str, tmp_path: Path) -> None:
    """Of every sequence of several epochs, of one data set and of a blend."""
    script = tmp_path / "build.py"
    script.write_text(BUILD)
    ran = subprocess.run(
        [sys.executable, str(script), kind],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
    )

    assert 0 == ran.returncode, ran.stderr[-3000:]
    assert sources == ran.stdout.splitlines()[-1]
