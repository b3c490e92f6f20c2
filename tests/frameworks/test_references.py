"""Derived streams are those that the frameworks themselves give."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import FIXTURES
from running import ledger_audit
from torch.utils.data import BatchSampler, DistributedSampler

from ledger_audit.stream.distributed_sampler import EPOCH_ENDS, EpochEnd, Recipe, derive
from ledger_audit.stream.megatron import Ramp, legs_of
from ledger_audit.stream.pieces import Sharding

pytestmark = pytest.mark.frameworks


def really(recipe: Recipe, ranks: int, batch: int) -> list[tuple[int, ...]]:
    """Train as a loop does: step, rank, slot, row, id, epoch; a loader's own sampler batches."""
    found = []
    for rank in range(ranks):
        slot, step = 0, 1
        for epoch in range(recipe.first_epoch, recipe.first_epoch + recipe.epochs):
            data = range(recipe.samples)
            sampler = DistributedSampler(
                data,  # type: ignore[arg-type]
                num_replicas=ranks,
                rank=rank,
                shuffle=recipe.shuffle,
                seed=recipe.seed,
                drop_last=recipe.drop_last,
            )
            sampler.set_epoch(epoch)
            loader = BatchSampler(sampler, batch, recipe.drop_last_batch)
            held: list[tuple[int, ...]] = []
            for ids in loader:
                held += [(step, rank, slot, row, one, epoch) for row, one in enumerate(ids)]
                slot += 1
                if slot == recipe.accumulation:
                    found += held
                    slot, step, held = 0, step + 1, []
            if recipe.epoch_end == "flush" and slot:
                slot, step = 0, step + 1
            if recipe.epoch_end == "drop":
                slot, held = 0, []
            found += held
    return sorted(found)


@pytest.mark.parametrize("epoch_end", EPOCH_ENDS)
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("drop_last_batch", [False, True])
def test_a_distributed_sampler_gives_these_very_samples(
    epoch_end: EpochEnd, drop_last: bool, drop_last_batch: bool
) -> None:
    """Over a grid of sizes: padding, a ragged end, more ranks than samples, two epochs."""
    compared = 0
    for samples in (3, 12, 29, 64):
        for ranks, batch, slots in ((1, 1, 1), (2, 3, 2), (4, 2, 3), (5, 4, 1)):
            for shuffle, seed in ((True, 0), (True, 41), (False, 7)):
                recipe = Recipe(
                    samples, seed, shuffle, drop_last, drop_last_batch, slots, epoch_end, 2, 1
                )
                truth = really(recipe, ranks, batch)
                if not truth:
                    continue
                pieces = list(derive(recipe, Sharding(ranks, batch, is_strided=True)).pieces)
                ours = pl.concat(pieces).select("step", "rank", "slot", "row", "sample_id", "epoch")
                assert truth == sorted(ours.iter_rows()), recipe
                compared += 1
    assert compared >= 24


RAMPS = ((8, 8, 400, 64), (4, 4, 999, 24), (16, 16, 77, 32))
"""Start, increment, samples, and the batch of the end; 2 ranks, micro-batches of 2."""

CALCULATOR = """
import json, sys
from megatron.core.num_microbatches_calculator import RampupBatchsizeNumMicroBatchesCalculator

found = []
for start, increment, samples, batch in json.loads(sys.argv[1]):
    calculator = RampupBatchsizeNumMicroBatchesCalculator(
        batch, 2, 2, False, 1, start, increment, samples
    )
    consumed, sizes = 0, []
    while consumed < 5000:
        calculator.update(consumed, consistency_check=True)
        sizes.append((consumed, calculator.num_micro_batches * 4))
        consumed += sizes[-1][1]
    found.append(sizes)
print(json.dumps(found))
"""


def test_a_ramp_is_the_one_that_the_framework_reckons(tmp_path: Path) -> None:
    """Step by step, its own calculator gives the batch."""
    told = json.loads(script(CALCULATOR, tmp_path, json.dumps(RAMPS)))

    for (start, increment, samples, batch), sizes in zip(RAMPS, told, strict=True):
        legs = legs_of(sum(sizes[-1]), batch, Sharding(2, 2), Ramp(start, increment, samples))
        ours = [
            [leg.first + at * leg.size, leg.size]
            for leg in legs
            for at in range(leg.count // leg.size)
        ]
        assert sizes == ours
        assert len({size for _, size in sizes}) > 1


def script(text: str, folder: Path, *arguments: str) -> str:
    """Run a script in a process of its own, and give the last line that it prints."""
    (folder / "script.py").write_text(text)
    ran = subprocess.run(
        [sys.executable, "script.py", *arguments],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
    )
    assert 0 == ran.returncode, ran.stderr[-3000:]
    return ran.stdout.splitlines()[-1]


BLEND = """
import json
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

for source in ("web", "code"):
    builder = IndexedDatasetBuilder(f"{source}.bin", dtype=DType.optimal_dtype(60000))
    for document in range(60):
        length = 5 + 13 * document % 71
        builder.add_document(torch.zeros(length, dtype=torch.int64), [length])
    builder.finalize(f"{source}.idx")
config = GPTDatasetConfig(
    random_seed=7, sequence_length=32, blend=(["web", "code"], [0.7, 0.3]), split="100,0,0",
    path_to_cache="cache", tokenizer=Tokenizer(), reset_position_ids=False,
    reset_attention_mask=False, eod_mask_loss=False, create_attention_mask=False,
)
data = BlendedMegatronDatasetBuilder(GPTDataset, [150, 0, 0], lambda: True, config).build()[0]
spans = Spans(data)
print(json.dumps([spans(data[place], place) for place in range(144)]))
"""


def test_a_blend_is_the_one_that_megatron_reads(tmp_path: Path) -> None:
    """Its index files, and those of its data sets, give what the running data set gives."""
    told = json.loads(script(BLEND, tmp_path))
    (description,) = (tmp_path / "cache").glob("*-BlendedDataset-train-description.txt")

    done = ledger_audit(
        "reference", "megatron", description, "-o", tmp_path / "ref", "--world-size", "2",
        "--micro-batch", "2", "--global-batch", "24", "--rampup", "8", "8", "40",
        "--data-prefix", tmp_path / "web", "--data-prefix", tmp_path / "code",
        "--samples", "144",
    )  # fmt: skip

    assert 0 == done.code, done.err
    rows = pl.read_parquet(tmp_path / "ref" / "attempt=reference" / "samples-*.parquet")
    columns = ["position", "source", "sample_id", "token_start", "token_end"]
    real = [one for spans in told for one in spans]
    used = pl.DataFrame(real).filter(pl.col("position") <= rows["position"].max())
    ours = rows.select(columns).cast(pl.String).sort(columns)
    assert ours.equals(used.select(columns).cast(pl.String).sort(columns))
    assert {"web", "code"} == set(rows["source"])


def planned_stop(folder: Path, fingerprint: dict[str, Any], shift: int = 0) -> Path:
    """Write a real run as if it had stopped right after its checkpoint at step 8."""
    run = folder / "run.jsonl"
    lines: list[dict[str, Any]] = []
    for name in ("attempt0.jsonl", "attempt1.jsonl"):
        text = (FIXTURES / "zoo" / "torch-ddp-correct" / "run" / name).read_text()
        lines += map(json.loads, text.splitlines())
    for line in lines:
        if line["kind"] == "start":
            line["data"]["fingerprint"] |= fingerprint
    kept = [one for one in lines if one["attempt"] == 1 or (one.get("step") or 0) <= 8]
    for line in kept:
        if line["attempt"] == 1 and line["kind"] in ("sample", "commit"):
            line["step"] -= shift
    kept = [one for one in kept if one["attempt"] == 0 or (one.get("step") or 9) > 8]
    run.write_text("\n".join(map(json.dumps, kept)) + "\n")
    return run


@pytest.mark.parametrize("full", [(), ("--full",)])
@pytest.mark.parametrize(("shift", "code"), [(0, 0), (2, 1)])
def test_a_planned_stop_is_judged_by_the_recipe(
    shift: int, code: int, full: tuple[str, ...], tmp_path: Path
) -> None:
    """Nothing was rolled back: the fingerprint states the order, and a skip of two steps shows."""
    run = planned_stop(tmp_path, {"sampler": "DistributedSampler"}, shift)

    ran = ledger_audit("diff", run, *full, "--format", "json")

    (resume,) = ran.report["resumes"]
    assert code == ran.code
    assert "recipe" == resume["reference"]["kind"]
    assert 32 * (shift > 0) == resume["outcomes"]["expected"]["skipped"]["samples"]


def test_a_recipe_that_the_run_does_not_follow_is_no_reference(tmp_path: Path) -> None:
    """It states another seed than the committed steps have: nothing is proven by it."""
    run = planned_stop(tmp_path, {"sampler": "DistributedSampler", "seed": 18})

    ran = ledger_audit("diff", run, "--format", "json")

    (resume,) = ran.report["resumes"]
    codes = {one["code"] for one in resume["limits"]}
    assert 3 == ran.code
    assert {"recipe-departs", "no-whole-reference-step"} <= codes
