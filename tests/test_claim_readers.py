"""Claims as frameworks write them: each state says a count, whose, since when and in what unit."""

import copy
import json
import re
import time
from array import array
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tallies import checkpoints

from ledger_audit import LedgerWriter
from ledger_audit.continuity.claims import MOST_NOTES, read_claim
from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.claims.compare import compare
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.writer.cursor import Cursor
from ledger_audit.ledger.writer.plain import told as as_logged


def saved(case: str) -> Any:
    """Give the first state that rank 0 of a zoo run saved."""
    return copy.deepcopy(_first(case))


@cache
def _first(case: str) -> object:
    return next(checkpoints(case)).claims[0]


def counts(claim: Claim) -> list[tuple[str, int, str, str, str | None]]:
    """Give what a claim counts: key, value, whose, since and unit."""
    return [(one.key, one.value, one.of, one.since, one.unit) for one in claim.counts]


REAL = {
    "grain-loader-correct": (
        "Grain",
        [("last_seen_indices", 24, "rank", "run", "sequences")],
    ),
    "grain-map-correct": ("Grain", [("next_index", 6, "rank", "run", "elements")]),
    "hf-datasets-iterable-correct": (
        "Hugging Face datasets",
        [("examples_iterable.batch_idx", 24, "rank", "epoch", "elements")],
    ),
    "hf-datasets-plain-loader-state": (
        "Hugging Face datasets",
        [("examples_iterable.batch_idx", 0, "rank", "epoch", "elements")],
    ),
    "hf-trainer-correct": (
        "Hugging Face Trainer",
        [("trainer_state.json.global_step", 11, "all", "run", "steps")],
    ),
    "lightning-epoch-end": (
        "Lightning",
        [
            (
                "loops.fit_loop.epoch_loop.batch_progress.total.processed",
                16,
                "rank",
                "run",
                "micro-batches",
            ),
            (
                "loops.fit_loop.epoch_loop.batch_progress.current.processed",
                16,
                "rank",
                "epoch",
                "micro-batches",
            ),
        ],
    ),
    "lightning-plain-midepoch": ("Lightning", []),
    "lightning-stateful": (
        "Lightning, torchdata StatefulDataLoader",
        [
            (
                "loops.fit_loop.state_dict.combined_loader.0._sampler_iter_state.samples_yielded",
                40,
                "rank",
                "epoch",
                "sequences",
            ),
            (
                "loops.fit_loop.state_dict.combined_loader.0._num_yielded",
                10,
                "rank",
                "epoch",
                "micro-batches",
            ),
        ],
    ),
    "litdata-correct": (
        "LitData",
        [
            ("num_samples_yielded", 24, "rank", "epoch", "sequences"),
            ("dataset.sample_in_epoch", 48, "all", "epoch", "sequences"),
        ],
    ),
    "megatron-correct": (
        "Megatron",
        [
            ("consumed_train_samples", 40, "all", "run", "sequences"),
            ("iteration", 5, "all", "run", "steps"),
        ],
    ),
    "olmo-correct": (
        "OLMo-core",
        [
            ("tokens_processed", 1152, "all", "epoch", "tokens"),
            ("batches_processed", 9, "all", "epoch", "steps"),
        ],
    ),
    "streaming-correct": (
        "MosaicML Streaming",
        [("sample_in_epoch", 96, "all", "epoch", "sequences")],
    ),
    "torch-ddp-correct": ("claim keys", [("rank_epoch_samples", 32, "rank", "epoch", None)]),
    "torchdata-sdl-correct": (
        "torchdata StatefulDataLoader",
        [
            (
                "state_dict._snapshot._main_snapshot._sampler_iter_state.samples_yielded",
                24,
                "rank",
                "epoch",
                "sequences",
            ),
            ("state_dict._snapshot._snapshot_step", 6, "rank", "epoch", "micro-batches"),
        ],
    ),
    "torchdata-iterable-rank0-state": (
        "torchdata StatefulDataLoader",
        [("state_dict._snapshot._snapshot_step", 6, "rank", "epoch", "micro-batches")],
    ),
    "accelerate-correct": ("accelerate", []),
    "webdataset-manual-skip": ("unknown", []),
}


def test_every_count_that_is_read_is_in_the_documents() -> None:
    """`claims.md` names each framework, and the key that each of its counts stands under."""
    page = (ROOT / "docs" / "claims.md").read_text()
    for reader, found in REAL.values():
        names = {"claim keys": "ledger's keys", "unknown": "no known kind"}
        for name in reader.split(", "):
            assert names.get(name, name.removeprefix("Hugging Face ")) in page
        for key, *_ in found:
            assert key.rsplit(".", maxsplit=1)[-1] in page


@pytest.mark.parametrize("case", REAL)
def test_a_real_state_is_read(case: str) -> None:
    """Of a state that a framework really saved, each count has its owner, start and unit."""
    reader, found = REAL[case]

    claim = read_claim(saved(case))

    assert (reader, found) == (claim.reader, counts(claim))
    assert (claim.silence is None) == bool(found)


@pytest.mark.parametrize(
    ("case", "epoch", "first_epoch", "seed", "workers", "world_size"),
    [
        ("litdata-correct", 1, 1, 7, 2, 2),
        ("olmo-correct", 1, 1, 11, None, None),
        ("streaming-correct", 0, 0, 7, None, None),
        ("grain-loader-correct", None, None, 21, 0, 2),
        ("hf-datasets-iterable-correct", 1, None, None, None, None),
        ("torchdata-sdl-correct", 0, None, None, 2, None),
        ("lightning-stateful", 0, None, None, 0, None),
        ("lightning-epoch-end", 0, None, None, None, None),
        ("torch-ddp-correct", 0, None, None, None, None),
    ],
)
def test_a_real_state_tells_its_pass_and_its_loader(
    case: str,
    epoch: int | None,
    first_epoch: int | None,
    seed: int | None,
    workers: int | None,
    world_size: int | None,
) -> None:
    """Pass, seed, workers and ranks are read where a state has them, and only there."""
    claim = read_claim(saved(case))

    assert (epoch, first_epoch, seed, workers, world_size) == (
        claim.epoch,
        claim.first_epoch,
        claim.seed,
        claim.workers,
        claim.world_size,
    )


def test_a_loader_says_what_it_does_not_keep() -> None:
    """Without a sampler's state the order is not in it; with a generator's nothing is missing."""
    state = saved("lightning-stateful")["loops.fit_loop.state_dict"]["combined_loader"][0]
    generator = {"samples_yielded": 40, "sampler_iter_state": {"yielded": 40, "generator": [1]}}

    unordered = read_claim(state)
    seeded = read_claim({**state, "_sampler_iter_state": generator})

    assert "the order is not in the state" in unordered.notes[0]
    assert () == seeded.notes
    assert "seed and epoch must be set" in read_claim(saved("torchdata-sdl-correct")).notes[0]


def test_keys_of_another_kind_are_no_state() -> None:
    """A step without a Trainer's other keys, or a place of no known data set, is unknown."""
    for state in ({"global_step": 5, "max_steps": 9}, {"global_step": 5}, {"sample_in_epoch": 5}):
        assert "unknown" == read_claim(state).reader


def test_an_iterable_data_set_keeps_a_state_of_its_rank() -> None:
    """Where workers hold places of their own, each rank must get its own; else none is told."""
    state = saved("torchdata-iterable-rank0-state")
    workers = state["state_dict"]["_snapshot"]["_worker_snapshots"]

    assert any("own state back" in note for note in read_claim(state).notes)
    for one in workers.values():
        one["dataset_state"] = None
    assert () == read_claim(state).notes


def test_batches_since_a_snapshot_are_added() -> None:
    """A snapshot is as old as the batches since: they are added, and its samples left out."""
    state = saved("torchdata-sdl-correct")
    state["state_dict"]["_steps_since_snapshot"] = 3

    found = counts(read_claim(state))

    assert [9] == [value for _, value, _, _, _ in found]
    assert "state_dict._snapshot._snapshot_step + _steps_since_snapshot" == found[0][0]


@pytest.mark.parametrize(
    ("workers", "sampler", "finished", "yields_nothing"),
    [
        (0, {"sampler_iter_state": {"yielded": 10, "generator": [1]}}, False, True),
        (0, {"sampler_iter_state": {"yielded": 10, "generator": [1]}}, True, False),
        (0, {"sampler_state": {"yielded": 10}}, False, True),
        (0, {"sampler_state": {"yielded": 10}}, True, True),
        (2, {"sampler_iter_state": {"yielded": 10, "generator": [1]}}, False, True),
        (2, {"sampler_iter_state": {"yielded": 10, "generator": [1]}}, True, False),
        (2, {"sampler_state": {"yielded": 10}}, False, True),
        (2, {"sampler_state": {"yielded": 10}}, True, False),
    ],
)
def test_a_loader_at_its_pass_end_may_first_yield_nothing(
    workers: int, sampler: dict[str, Any], finished: bool, yields_nothing: bool
) -> None:
    """As torchdata 0.11 does: an unfinished iterator, or a sampler that stays at its end."""
    inner = {"_sampler_iter_state": {"samples_yielded": 10, **sampler}}
    state: dict[str, Any] = {**inner, "_num_yielded": 3, "fetcher_state": None}
    if workers:
        snapshot = {"_snapshot_step": 3, "_main_snapshot": {**inner, "_num_workers": workers}}
        state = {"_snapshot": snapshot, "_steps_since_snapshot": 0}

    claim = read_claim({**state, "_iterator_finished": finished})

    assert yields_nothing == (claim.end_note is not None)


@pytest.mark.parametrize(
    ("shard", "shards", "workers", "last", "used"),
    [
        (0, 2, 0, {"0": -2}, 0),
        (1, 2, 0, {"0": -1}, 0),
        (0, 2, 0, {"0": 6}, 4),
        (1, 2, 0, {"0": 43}, 22),
        (0, 2, 2, {"0": 12, "1": -2}, 4),
        (0, 2, 2, {"0": 40, "1": 30}, 19),
        (1, 2, 2, {"0": 41, "1": 43}, 22),
        (0, 2, 3, {"0": 18, "1": -4, "2": -2}, 4),
        (0, 2, 3, {"0": 42, "1": 38, "2": 22}, 19),
        (1, 2, 3, {"0": 43, "1": 39, "2": 41}, 22),
    ],
)
def test_grain_counts_by_the_last_index_of_each_worker(
    shard: int, shards: int, workers: int, last: dict[str, int], used: int
) -> None:
    """As grain 0.2.18 saved them for 23 samples in two passes: -2 can be nothing, or 12."""
    state = {
        "last_seen_indices": last,
        "worker_count": workers,
        "sampler": f"IndexSampler(num_records=23, shard_options=ShardOptions(shard_index={shard}, "
        f"shard_count={shards}, drop_remainder=True), shuffle=True, num_epochs=2, seed=1)",
    }

    as_text = read_claim({"loader": json.dumps(state)})

    assert [used] == [one.value for one in read_claim(state).counts]
    assert [("loader.last_seen_indices", used)] == [(one.key, one.value) for one in as_text.counts]


@pytest.mark.parametrize(
    "change",
    [
        {"last_seen_indices": {"0": 47}},
        {"last_seen_indices": {"0": -4}},
        {"last_seen_indices": {"0": True}},
        {"last_seen_indices": {"1": 46}},
        {"last_seen_indices": {}},
        {"sampler": "<Sampler object>"},
        {"sampler": 3},
    ],
)
def test_grain_indices_that_fit_no_shard_are_left_out(change: dict[str, Any]) -> None:
    """An index of another shard, a missing worker or an unknown sampler gives no count."""
    claim = read_claim({**saved("grain-loader-correct"), **change})

    assert () == claim.counts
    assert claim.silence is not None


def test_a_number_in_a_state_decides_not_how_long_reading_takes() -> None:
    """As many workers as have an index are counted; a count of a billion is only said."""
    sampler = "shard_index=0, shard_count=2"
    began = time.perf_counter()
    for workers in (10**9, 2**63 - 1, 10**4000):
        state = {"last_seen_indices": {"0": 8}, "worker_count": workers, "sampler": sampler}
        assert () == read_claim(state).counts
    honest = {"last_seen_indices": {"0": 8}, "worker_count": 1, "sampler": sampler}
    assert [5] == [one.value for one in read_claim(honest).counts]
    for case in sorted(REAL):
        for number in (2**31, 2**63 - 1):
            compare({0: read_claim(enlarged(saved(case), number))}, next(checkpoints(case)).tally)

    assert 10 > time.perf_counter() - began


def enlarged(state: Any, number: int) -> Any:
    """Put one number in the place of every number of a state."""
    if isinstance(state, dict):
        return {key: enlarged(one, number) for key, one in state.items()}
    if isinstance(state, list):
        return [enlarged(one, number) for one in state]
    if isinstance(state, str):
        return re.sub(r"=\d+", f"={number}", state)
    return number if type(state) is int else state


def test_the_workers_of_a_grain_iterator_are_counted_apart() -> None:
    """Several iterators in one state give no count that could be compared."""
    state = {"iterators_in_use_states": [{"next_index": 1}, {"next_index": 1}], "exhausted": [0, 0]}

    assert read_claim(state).silence == "its workers' iterators are counted apart: not compared"


def test_a_data_set_that_repeats_or_stands_in_a_later_shard_counts_only_a_part() -> None:
    """An index inside the first shard is a count; inside a later one, or a later round, not."""
    shard = {"shard_idx": 0, "shard_example_idx": 6, "type": "ArrowExamplesIterable"}
    later = {**shard, "shard_idx": 1}
    again = {"repeat_index": 1, "examples_iterable": shard, "type": "RepeatExamplesIterable"}

    def found(stage: object) -> list[int]:
        claim = read_claim({"examples_iterable": stage, "epoch": 0})
        assert bool(claim.counts) == (claim.silence is None)
        return [one.value for one in claim.counts]

    assert [6] == found(shard)
    assert [] == found(later)
    assert [] == found(again)
    assert [6] == found({**again, "repeat_index": 0})
    assert [] == found({"ex_iterables": [shard, shard], "type": "Concatenated"})


def test_the_first_epoch_of_a_data_set_may_be_one_that_was_never_set() -> None:
    """Epoch 0 stands there too if set_epoch was never called: it is no pass then."""
    state = saved("hf-datasets-iterable-correct")

    assert 1 == read_claim(state).epoch
    assert read_claim({**state, "epoch": 0}).epoch is None


def test_lightning_restores_no_position_of_a_plain_loader() -> None:
    """In the middle of a pass its progress is no position; at its end, or beginning, it is."""
    state = saved("lightning-plain-midepoch")
    progress = state["loops.fit_loop.epoch_loop.batch_progress"]

    assert "its pass will begin again" in (read_claim(state).silence or "")
    progress["is_last_batch"] = True
    assert [10, 10] == [one.value for one in read_claim(state).counts]
    progress.update(is_last_batch=False, current={"processed": 0})
    assert [10, 0] == [one.value for one in read_claim(state).counts]


def test_a_whole_lightning_checkpoint_is_read() -> None:
    """The loops of a checkpoint are nested, and its validation loop has progress too."""
    flat = saved("lightning-stateful")
    progress = {"total": {"processed": 99}, "current": {"processed": 99}}
    fit = {
        "state_dict": flat["loops.fit_loop.state_dict"],
        "epoch_loop.batch_progress": flat["loops.fit_loop.epoch_loop.batch_progress"],
        "epoch_loop.val_loop.batch_progress": progress,
    }
    validate = {"state_dict": {}, "batch_progress": progress}
    whole = {
        "epoch": 3,
        "global_step": 5,
        "state_dict": {"layer.weight": [0.5]},
        "loops": {"fit_loop": fit, "validate_loop": validate},
    }

    claim = read_claim(whole)

    assert [40, 10] == [one.value for one in claim.counts]
    assert 3 == claim.epoch


def test_a_loader_of_an_unknown_kind_says_nothing_in_lightning() -> None:
    """Batch progress beside a loader's state that nobody knows is no position of the loader."""
    state = saved("lightning-stateful")
    state["loops.fit_loop.state_dict"]["combined_loader"] = [{"place": 7}]

    claim = read_claim(state)

    assert () == claim.counts
    assert "of no known kind" in (claim.silence or "")


def test_megatron_keeps_its_counts_among_its_arguments() -> None:
    """`args` of a checkpoint is read as the counts themselves are."""
    claim = read_claim({"iteration": 5, "args": {"consumed_train_samples": 40, "seed": 3}})

    assert [("args.consumed_train_samples", 40), ("iteration", 5)] == [
        (one.key, one.value) for one in claim.counts
    ]
    assert 3 == claim.seed


def test_litdata_counts_a_rank_anew_after_an_elastic_resume() -> None:
    """Then only the count of all ranks goes on; without it there is none."""
    state = saved("litdata-correct")
    state["dataset"]["resume_mode"] = "elastic"

    assert ["dataset.sample_in_epoch"] == [one.key for one in read_claim(state).counts]


def test_litdata_alone_and_several_data_sets() -> None:
    """The state of its data set alone is read; counts of several data sets are not added up."""
    state = saved("litdata-correct")

    alone = read_claim(state["dataset"])
    several = read_claim({**state, "num_samples_yielded": {"0": [12, 13]}})

    assert ["num_samples_yielded", "sample_in_epoch"] == [one.key for one in alone.counts]
    assert "several data sets apart" in (several.silence or "")


def test_accelerate_keeps_no_position_unless_a_loader_does() -> None:
    """Its files hold none; a loader's state among them is read if its content is there."""
    loader = saved("torchdata-sdl-correct")["state_dict"]
    files = ["random_states_0.pkl", "dl_state_dict.bin"]

    named = read_claim({"files": files})
    held = read_claim({"files": files, "dl_state_dict.bin": loader})

    assert read_claim(saved("accelerate-correct")).silence == "no data position in it"
    assert "whose content is not in the claim" in (named.silence or "")
    assert [24, 6] == [one.value for one in held.counts]
    assert "seed and epoch only" in (
        read_claim({"files": [*files[:1], "sampler.bin"]}).silence or ""
    )
    assert read_claim({"files": ["a.bin"]}).reader == "unknown"


def test_the_fixed_keys_of_a_claim() -> None:
    """Each key has its owner, start and stage; an unknown unit is left out, with a note."""
    state = {
        "consumed_samples": 1,
        "rank_samples": 2,
        "epoch": 3,
        "epoch_samples": 4,
        "rank_epoch_samples": 5,
        "read_samples": 6,
        "queued_samples": 7,
        "queued_batches": 8,
        "slot": 2,
        "unit": "records",
    }

    claim = read_claim(state)

    assert [
        ("consumed_samples", 1, "all", "run", "records"),
        ("rank_samples", 2, "rank", "run", "records"),
        ("epoch_samples", 4, "all", "epoch", "records"),
        ("rank_epoch_samples", 5, "rank", "epoch", "records"),
        ("read_samples", 6, "rank", "run", "records"),
        ("queued_samples", 7, "rank", "run", "records"),
        ("queued_batches", 8, "rank", "run", "micro-batches"),
    ] == counts(claim)
    assert ["consumed"] * 4 + ["read", "queued", "queued"] == [one.stage for one in claim.counts]
    assert (3, 2) == (claim.epoch, claim.slot)
    odd = read_claim({**state, "unit": "lines"})
    assert odd.counts[0].unit is None
    assert "unit is none of" in odd.notes[0]


FIXED = {"consumed_samples": 901, "rank_samples": 902, "read_samples": 903, "slot": 3}


@pytest.mark.parametrize("case", sorted(REAL))
def test_fixed_keys_beside_a_frameworks_state_are_read_too(case: str) -> None:
    """At the top of any state they keep their meaning, and the framework's own counts stay."""
    state = saved(case)
    alone = read_claim(state)

    claim = read_claim({**state, **FIXED})

    fixed = [(one.key, one.value) for one in claim.counts if one.key in FIXED]
    assert [("consumed_samples", 901), ("rank_samples", 902), ("read_samples", 903)] == fixed
    assert [one for one in claim.counts if one.key not in FIXED] == list(alone.counts)
    assert 3 == claim.slot
    assert (alone.epoch, alone.first_epoch) == (claim.epoch, claim.first_epoch)
    assert (alone.seed, alone.workers) == (claim.seed, claim.workers)
    assert set(alone.notes) == set(claim.notes)


def test_a_framework_adds_to_fixed_keys_and_takes_none_away() -> None:
    """A key that a framework shares by name makes the state no less the trainer's own."""
    claim = read_claim({"rank_samples": 3, "next_index": 7})
    nested = read_claim({"loader": {"rank_epoch_samples": 3, "epoch": 1, "next_index": 7}})
    odd = read_claim({"rank_samples": "three", "next_index": 7})

    assert [("rank_samples", 3), ("next_index", 7)] == [
        (one.key, one.value) for one in claim.counts
    ]
    assert "claim keys, Grain" == claim.reader
    assert ["loader.rank_epoch_samples", "loader.next_index"] == [one.key for one in nested.counts]
    assert 1 == nested.epoch
    assert "rank_samples is no count and was left out" in odd.notes


def test_an_epoch_beside_a_loaders_state_is_the_trainers_unless_the_loader_has_that_key() -> None:
    """Where a framework calls its own pass `epoch`, beside it no other one can be told."""
    torchdata = {**saved("torchdata-sdl-correct")["state_dict"], "epoch": 4}
    grain = {"epoch": 4, "rank_epoch_samples": 6, "next_index": 7}
    datasets = {**saved("hf-datasets-iterable-correct"), "epoch": 0, "rank_samples": 6}
    olmo = {**saved("olmo-correct"), "rank_epoch_samples": 6}
    litdata = {"consumed_samples": 48, "loader": saved("litdata-correct")}

    assert 4 == read_claim(torchdata).epoch
    assert 4 == read_claim(grain).epoch
    assert read_claim(datasets).epoch is None
    assert (1, 1) == (read_claim(olmo).epoch, read_claim(olmo).first_epoch)
    assert (1, 1) == (read_claim(litdata).epoch, read_claim(litdata).first_epoch)


@pytest.mark.parametrize("case", sorted(REAL))
def test_a_state_that_was_saved_as_text_is_read(case: str) -> None:
    """JSON text is looked into, at the top and inside of another state, whoever wrote it."""
    state = saved(case)
    text = json.dumps(state, indent=2)

    assert read_claim(state) == read_claim(text)
    inside = read_claim({"loader": text})
    assert [one.value for one in read_claim(state).counts] == [one.value for one in inside.counts]


def test_text_that_holds_no_state_is_left_alone() -> None:
    """Numbers, prose, broken JSON and text without end say nothing, and neither do many texts."""
    for text in ("7", '"next_index"', "rank_samples: 3", '{"rank_samples": 3', "[" * 60_000):
        assert "unknown" == read_claim(text).reader
        assert "unknown" == read_claim({"loader": text}).reader
    long = json.dumps({"rank_samples": 3, "more": "x" * 70_000})
    many = {f"k{place:03}": "text" for place in range(100)} | {"last": '{"rank_samples": 3}'}
    assert "unknown" == read_claim(long).reader
    assert "unknown" == read_claim(many).reader


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("case", ["grain-loader-correct", "grain-map-correct"])
def test_a_state_of_bytes_is_read_from_our_own_ledger(
    case: str, kind: Callable[[bytes], object], tmp_path: Path
) -> None:
    """What Grain's `get_state` gives is kept as the JSON text that it is, wherever it is nested."""
    state = saved(case)
    held = kind(json.dumps(state, indent=4).encode())
    with LedgerWriter(tmp_path, rank=0, world_size=1, attempt="0", strict=True) as ledger:
        ledger.record(1, 0, [0, 1])
        ledger.commit(1)
        for step, claim in ((1, held), (2, {"epoch": 1, "loader": [held]})):
            with ledger.checkpoint(step, claim=claim):
                pass

    _, events = open_ledger([tmp_path]).everything("0")
    begun = [json.loads(data) for data in events.filter(kind="checkpoint")["data"]]
    top, nested = (read_claim(one["claim"]) for one in begun if one["phase"] == "begin")

    assert counts(read_claim(state)) == counts(top)
    assert [one.value for one in top.counts] == [one.value for one in nested.counts]
    assert (1, "Grain") == (nested.epoch, nested.reader)


@pytest.mark.parametrize(
    ("held", "kept"),
    [
        (b'{"next_index": 3}', '{"next_index": 3}'),
        ('["é"]'.encode(), '["é"]'),
        (b"", {"bytes": 0}),
        (b"7", {"bytes": 1}),
        (b'"text"', {"bytes": 6}),
        (b'{"next_index": ', {"bytes": 15}),
        ('["é"]'.encode("latin-1"), {"bytes": 5}),
        (b"\x80\x04}q\x00.", {"bytes": 6}),
        (b"[" * 50_000, {"bytes": 50_000}),
        (b"[" + b"1" * 50_000 + b"]", {"bytes": 50_002}),
        (b"[" + b" " * 70_000 + b"]", {"bytes": 70_002}),
        (memoryview(b"]0[")[::-1], "[0]"),
        (memoryview(array("d", [1.0, 2.0])), {"bytes": 16}),
    ],
)
def test_bytes_are_kept_if_they_are_the_text_of_an_object_or_a_list(
    held: object, kept: object
) -> None:
    """Of all other bytes only their number is told, and none of them stops a job."""
    assert {"state": kept} == json.loads(as_logged({"state": held}))


def test_the_writers_own_cursor_is_read() -> None:
    """A cursor counts records and tokens of its rank, as far as it was handed down."""
    cursor = Cursor("run", "a", 8, 1, 4, records=32, tokens=256, digest="5")

    claim = read_claim(json.loads(as_logged(cursor)))

    assert "cursor" == claim.reader
    assert [
        ("records", 32, "rank", "run", "records"),
        ("tokens", 256, "rank", "run", "tokens"),
        ("step", 8, "rank", "run", "steps"),
    ] == counts(claim)
    assert [True, True, False] == [one.may_restart for one in claim.counts]


def test_a_state_inside_a_trainers_own_is_found() -> None:
    """A few levels down it is read under its dotted key; beyond them it is not looked for."""
    state = saved("megatron-correct")

    near = read_claim({"trainer": {"data": [{"loader": state}]}})
    deep: Any = state
    for _ in range(20):
        deep = {"in": deep}

    assert "trainer.data.0.loader.consumed_train_samples" == near.counts[0].key
    assert "unknown" == read_claim(deep).reader


def test_several_loaders_in_one_state_are_told_apart_by_name_or_not_at_all() -> None:
    """The one that is named after training counts; of two without such names none does."""
    one = saved("streaming-correct")
    other = {**one, "sample_in_epoch": 5}

    named = read_claim({"train_loader": one, "val_loader": other})
    unnamed = read_claim({"a": one, "b": other})

    assert [("train_loader.sample_in_epoch", 96)] == [(it.key, it.value) for it in named.counts]
    assert () == unnamed.counts
    assert "several states of MosaicML Streaming (a and b)" in (unnamed.silence or "")


KEPT = {"consumed_samples": 99}
OTHER = {"consumed_samples": 16}


@pytest.mark.parametrize(
    "state",
    [
        {"train_loader": KEPT, "val_loader": OTHER},
        {"trainLoader": KEPT, "validLoader": OTHER},
        {"data.training": KEPT, "data.dev": OTHER},
        {"train-data": [KEPT], "eval-data": [OTHER]},
        {"job": {"TrainState": KEPT, "loader": OTHER}},
        {"test_run": {"train": KEPT, "val": OTHER}},
        {"trainer": {"train_loader": KEPT, "EvalLoader": OTHER}},
        {"loader": KEPT},
        {"test_run": {"loader": KEPT}},
    ],
)
def test_the_state_that_is_named_after_training_counts(state: dict[str, Any]) -> None:
    """By a whole word of its last name, however words are put together."""
    assert [99] == [one.value for one in read_claim(state).counts]


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"trainer": {"val_loader": OTHER}, "loader": KEPT}, "several states"),
        ({"train": {"val_loader": OTHER}, "loader": KEPT}, "several states"),
        ({"training": {"loader": OTHER}, "loader": KEPT}, "several states"),
        ({"eval": {"train_loader": OTHER}, "loader": KEPT}, "several states"),
        ({"trained_loader": OTHER, "loader": KEPT}, "several states"),
        ({"train_val_loader": OTHER, "loader": KEPT}, "several states"),
        ({"train_a": OTHER, "train_b": KEPT}, "several states"),
        ({"val_loader": {**OTHER, "slot": 3}}, "named after an evaluation"),
        ({"trainer": {"testLoader": [OTHER]}}, "named after an evaluation"),
    ],
)
def test_an_evaluations_state_is_no_position_of_the_training(
    state: dict[str, Any], why: str
) -> None:
    """A wrapper's name does not make it one, and neither does standing alone."""
    claim = read_claim(state)

    assert () == claim.counts
    assert claim.slot is None
    assert why in (claim.silence or "")


def test_a_trainers_epoch_is_that_of_a_loader_without_one() -> None:
    """A loader that numbers its passes itself is believed; another takes the trainer's number."""
    litdata = {"epoch": 7, "loader": saved("litdata-correct")}
    torchdata = {"epoch": 7, "loader": saved("torchdata-sdl-correct")["state_dict"]}

    assert (1, 1) == (read_claim(litdata).epoch, read_claim(litdata).first_epoch)
    assert (7, None) == (read_claim(torchdata).epoch, read_claim(torchdata).first_epoch)


@pytest.mark.parametrize(
    "value",
    [True, -1, 1.0, "5", [], {}, 2**63, pytest.param(10**6000, id="huge"), float("nan")],
)
def test_what_is_no_count_is_left_out_with_a_note(value: object) -> None:
    """Truth values, negative and huge numbers, fractions and text are no counts."""
    claim = read_claim({"consumed_samples": value, "epoch": value, "slot": value})

    assert () == claim.counts
    assert (None, None) == (claim.epoch, claim.slot)
    assert ("consumed_samples is no count and was left out",) == claim.notes
    assert claim.silence is not None


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (None, "it is empty"),
        ({}, "it is empty"),
        (b"pickled", "no key with a known meaning"),
        (json.loads(as_logged(b"pickled")), "it was bytes"),
        (json.loads(as_logged({"place": "x" * 100_000})), "too large"),
        ({"epoch": 0, "samples_in_epoch_per_rank": 24}, "no key with a known meaning"),
        ([1, 2], "no key with a known meaning"),
        ("text", "no key with a known meaning"),
    ],
)
def test_an_unknown_state_says_why_nothing_is_known(state: object, why: str) -> None:
    """What no reader knows is left alone, with the reason."""
    claim = read_claim(state)

    assert "unknown" == claim.reader
    assert () == claim.counts
    assert why in (claim.silence or "")


def test_a_hostile_key_is_told_so_that_it_steers_nothing() -> None:
    """A key with control characters, or without end, is escaped and cut."""
    claim = read_claim({"\x1b[31m" + "x" * 500: {"consumed_samples": 3}})

    assert claim.counts[0].key.isprintable()
    assert 200 > len(claim.counts[0].key)


def test_a_huge_state_is_read_in_no_time() -> None:
    """Neither its width nor its depth decides how long reading takes."""
    deep: Any = {}
    for _ in range(100_000):
        deep = {"state": deep}
    wide = {f"k{i}": {"x": {}} for i in range(200_000)}
    many = [{"consumed_samples": i} for i in range(200_000)]
    files = {"files": ["random_states_0.pkl"] * 200_000}
    worker = {"dataset_state": {"next_id": 1}, "fetcher_state": {}}
    loader = {
        "_snapshot": {
            "_snapshot_step": 1,
            "_worker_snapshots": dict.fromkeys(map(str, range(10**5)), worker),
        },
        "_steps_since_snapshot": 0,
    }
    texts = {f"k{i}": '{"next_index": ' + "[" * 60_000 for i in range(100)}
    began = time.perf_counter()

    for state in (deep, wide, many, files, loader, texts):
        read_claim(state)

    assert 5 > time.perf_counter() - began


KNOWN_KEYS = sorted(
    {key for case in REAL for key in re.findall(r'"([^"]{1,40})":', json.dumps(saved(case)))}
    | {"consumed_samples", "queued_samples", "unit", "slot", "args", "loops", "fit_loop", "digest"}
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(0, 50)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        ["records", "RebatchedArrowExamplesIterable", '{"next_index": 3}', '{"next_index"']
    )
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KNOWN_KEYS) | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=25,
)


def check(claim: Claim) -> None:
    """Whatever was read, it holds what a claim may hold."""
    for count in claim.counts:
        assert type(count.value) is int
        assert 0 <= count.value < 2**63
        assert count.key.isprintable()
    numbers = (claim.epoch, claim.slot, claim.seed, claim.workers, claim.world_size)
    assert all(one is None or 0 <= one for one in numbers)
    assert (claim.silence is None) == bool(claim.counts or claim.slot)
    assert MOST_NOTES >= len(claim.notes)
    assert all(note.isprintable() for note in claim.notes)


@given(ANYTHING)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_state_makes_reading_fail(state: object) -> None:
    """Any JSON is read, and only sound numbers come out of it."""
    check(read_claim(state))


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_no_damage_to_a_real_state_makes_reading_fail(data: st.DataObject) -> None:
    """A real state with any of its values replaced is read, and only sound numbers come out."""
    state = saved(data.draw(st.sampled_from(sorted(REAL))))
    at = state
    while isinstance(at, dict | list) and at:
        keys: list[Any] = sorted(at) if isinstance(at, dict) else list(range(len(at)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
            at[key] = data.draw(ANYTHING)
            break
        at = at[key]

    check(read_claim(state))
