"""`--probe` looks at names and sizes, knows what must stand beside what, and touches no more."""

import json
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ledger_audit.ledger import probing
from ledger_audit.ledger.probing import probe
from ledger_audit.model.checkpoints import Probed

Files = Mapping[str, str]
INDEX = json.dumps(
    {
        "weight_map": {
            "a": "model-00001-of-00002.safetensors",
            "b": "model-00002-of-00002.safetensors",
        }
    }
)
SHARDS = {f"model-0000{n}-of-00002.safetensors": "x" for n in (1, 2)}
TORCH = {".metadata": "x", "__0_0.distcp": "x", "__1_0.distcp": "x"}
MEGATRON = {
    **TORCH,
    "common.pt": "x",
    "metadata.json": json.dumps({"sharded_backend": "torch_dist"}),
}
TRAINER = {
    "trainer_state.json": json.dumps({"global_step": 8}),
    "model.safetensors": "x",
    "optimizer.pt": "x",
}
DEEPSPEED = {
    "latest": "global_step8\n",
    "global_step8/mp_rank_00_model_states.pt": "x",
    "global_step8/zero_pp_rank_0_mp_rank_00_optim_states.pt": "x",
    "global_step8/zero_pp_rank_1_mp_rank_00_optim_states.pt": "x",
}
ORBAX = {
    "_CHECKPOINT_METADATA": "x",
    "commit_success.txt": "",
    "default/_METADATA": "{}",
    "default/manifest.ocdbt": "x",
    "default/d/0123": "x",
    "default/ocdbt.process_0/manifest.ocdbt": "x",
}
TRACKER = "latest_checkpointed_iteration.txt"
WHOLE: dict[str, Files] = {
    "torch distributed checkpoint": TORCH,
    "Megatron, torch distributed checkpoint": MEGATRON,
    "weights in shards": {"model.safetensors.index.json": INDEX, **SHARDS},
    "Hugging Face Trainer": TRAINER,
    "Hugging Face Trainer, weights in shards": {
        **{name: text for name, text in TRAINER.items() if name != "model.safetensors"},
        "model.safetensors.index.json": INDEX,
        **SHARDS,
    },
    "DeepSpeed": DEEPSPEED,
    "orbax": ORBAX,
    "folder": {"weights.npz": "x", "done": "", "weights.npz.lock": ""},
}


def made(files: Files, folder: Path) -> Path:
    """Make the files of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def without(files: Files, *names: str) -> Files:
    """Take files away."""
    return {name: text for name, text in files.items() if name not in names}


@pytest.mark.parametrize("kind", WHOLE)
def test_whole_checkpoints_of_every_layout(kind: str, tmp_path: Path) -> None:
    """What frameworks leave behind is loadable, counted, and named by its framework."""
    files = WHOLE[kind]
    found = probe(str(made(files, tmp_path)))

    assert (True, (), kind) == (found.loadable, found.faults, found.kind)
    assert (len(files), sum(map(len, files.values()))) == (found.files, found.bytes)


ALSO_WHOLE: dict[str, Files] = {
    "one of one": {"model-00001-of-00001.safetensors": "x"},
    "one of one as Hugging Face's": {"model-00001-of-00001.safetensors": "x", "config.json": "{}"},
    "all of two, and no index": SHARDS,
    "torch writes the rank first": {
        "shard-00000-model-00001-of-00002.safetensors": "x",
        "shard-00001-model-00002-of-00002.safetensors": "x",
    },
    "an optimizer in shards beside a whole model": {
        "model.safetensors": "x",
        "config.json": "{}",
        "optimizer-00001-of-00002.bin": "x",
        "optimizer-00002-of-00002.bin": "x",
    },
    "a shard of an older save beside an index": {
        "model.safetensors.index.json": INDEX,
        **SHARDS,
        "model-00003-of-00003.safetensors": "x",
    },
    "latest is anybody's word": {"latest": "step 8 of the run", "weights.pt": "x"},
    "a tag of one's own": {"latest": "best", "best/mp_rank_00_model_states.pt": "x"},
    "Megatron's root": {TRACKER: "8\n", "iter_0000008/model.pt": "x"},
    "Megatron's release": {TRACKER: "release", "release/mp_rank_00/model.pt": "x"},
    "locks": {"weights.pt": "x", "cache/.lock": "", "weights.pt.lock": ""},
}


@pytest.mark.parametrize("kind", ALSO_WHOLE)
def test_what_looks_odd_and_is_whole(kind: str, tmp_path: Path) -> None:
    """Nothing is missing where shards say that all are there, or a file is somebody else's."""
    found = probe(str(made(ALSO_WHOLE[kind], tmp_path)))

    assert (True, ()) == (found.loadable, found.faults)


@pytest.mark.parametrize(("name", "file"), [("global_step8", "latest"), ("iter_0000008", TRACKER)])
def test_a_newest_save_that_is_named_is_looked_for(name: str, file: str, tmp_path: Path) -> None:
    """An empty folder is a fault; what lies behind a link is not known."""
    told = "global_step8" if file == "latest" else "8"
    empty = made({file: told, "other/x.pt": "x"}, tmp_path / "empty")
    (empty / name / "below").mkdir(parents=True)
    found = probe(str(empty))
    assert (False, (f"{file} names a folder that holds no file",)) == seen(found)

    linked = made({file: told, "other/x.pt": "x"}, tmp_path / "linked")
    (linked / name).symlink_to(linked / "other")
    found = probe(str(linked))
    assert (None, (f"{file} names a link to a folder, which is not followed",)) == seen(found)


def test_a_folder_of_links_or_pipes_alone_is_unknown(tmp_path: Path) -> None:
    """There may be a checkpoint behind them; in a folder without anything there is none."""
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "step8").symlink_to(made(TORCH, tmp_path / "real"))
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes" / "stream")
    for name, what in (("links", "step8"), ("pipes", "stream")):
        why = f"there is no file in it but what is not looked at: {what}"
        assert (None, (why,)) == seen(probe(str(tmp_path / name)))


CUT: list[tuple[str, Files, str]] = [
    ("torch-metadata", without(TORCH, ".metadata"), ".metadata is not there beside 2 .distcp"),
    (
        "torch-begun",
        {**without(TORCH, ".metadata"), ".metadata.tmp": "x"},
        ".metadata.tmp is: the save did not end",
    ),
    ("torch-shards", {".metadata": "x"}, "no .distcp shard beside it"),
    ("megatron-metadata", without(MEGATRON, "metadata.json"), "metadata.json is not there"),
    ("megatron-common", without(MEGATRON, "common.pt"), "common.pt is not there"),
    ("megatron-shards", without(MEGATRON, *TORCH), "no .distcp shard is there"),
    ("megatron-broken", {**MEGATRON, "metadata.json": "{"}, "metadata.json is no JSON"),
    (
        "index-shard",
        {"model.safetensors.index.json": INDEX, "model-00001-of-00002.safetensors": "x"},
        "names shards that are not there: model-00002-of-00002.safetensors",
    ),
    ("index-gone", {**SHARDS, "config.json": "{}"}, "shards without an index beside them"),
    (
        "shard-gone",
        without(SHARDS, "model-00001-of-00002.safetensors"),
        "model.safetensors has 2 shards, and 1 of them not there: the first is 00001-of-00002",
    ),
    (
        "optimizer-shard-gone",
        {"model.safetensors": "x", "optimizer-00001-of-00002.bin": "x"},
        "optimizer.bin has 2 shards, and 1 of them not there: the first is 00002-of-00002",
    ),
    (
        "optimizer-shard-gone-beside-an-index",
        {"model.safetensors.index.json": INDEX, **SHARDS, "optimizer-00002-of-00002.bin": "x"},
        "the first is 00001-of-00002",
    ),
    (
        "torch-shard-gone",
        {"shard-00000-model-00001-of-00002.safetensors": "x"},
        "model.safetensors has 2 shards, and 1 of them not there",
    ),
    ("tracker-folder", {TRACKER: "8", "iter_0000007/x.pt": "x"}, "a folder that is not there"),
    ("tracker-odd", {TRACKER: "../8", "iter_0000008/x.pt": "x"}, "names no iteration"),
    ("deepspeed-sibling", {"latest": "b", "global_step8/x.pt": "x"}, "that is not there"),
    ("index-broken", {"model.safetensors.index.json": "[1]", **SHARDS}, "names no shard"),
    (
        "index-outside",
        {"model.safetensors.index.json": json.dumps({"weight_map": {"a": "../../etc/passwd"}})},
        "names shards outside its folder",
    ),
    (
        "index-deep",
        {"model.safetensors.index.json": "[" * 100_000},
        "model.safetensors.index.json is no JSON",
    ),
    ("trainer-weights", without(TRAINER, "model.safetensors"), "no weights are there"),
    (
        "trainer-optimizer",
        {
            "trainer_state.json": "{}",
            "optimizer-00001-of-00002.bin": "x",
            "optimizer-00002-of-00002.bin": "x",
        },
        "no weights are there",
    ),
    ("trainer-broken", {**TRAINER, "trainer_state.json": "7"}, "is no JSON object"),
    ("deepspeed-tag", {"latest": "global_step9"}, "latest names a folder that is not there"),
    ("deepspeed-up", {**DEEPSPEED, "latest": ".."}, "latest names a folder that is not there"),
    (
        "deepspeed-rank",
        without(DEEPSPEED, "global_step8/zero_pp_rank_0_mp_rank_00_optim_states.pt"),
        "global_step8: no optimizer shard of rank 0 is there",
    ),
    (
        "deepspeed-model",
        without(DEEPSPEED, "global_step8/mp_rank_00_model_states.pt"),
        "no model_states.pt is there",
    ),
    ("orbax-metadata", without(ORBAX, "default/_METADATA"), "default: _METADATA is not there"),
    ("empty", {**TRAINER, "optimizer.pt": ""}, "empty: optimizer.pt"),
    ("nothing", {}, "there is no file in it"),
]


@pytest.mark.parametrize(("files", "fault"), [one[1:] for one in CUT], ids=[one[0] for one in CUT])
def test_what_is_missing_is_named(files: Files, fault: str, tmp_path: Path) -> None:
    """A missing metadata, a missing shard or an empty file is no checkpoint to load."""
    found = probe(str(made(files, tmp_path)))

    assert found.loadable is False
    assert fault in "; ".join(found.faults)


def test_an_unfinished_save_of_orbax(tmp_path: Path) -> None:
    """A folder with the name that orbax gives to saves in progress is none to load."""
    found = probe(str(made({"d/0": "x"}, tmp_path / "8.orbax-checkpoint-tmp-17")))

    assert ("orbax", False) == (found.kind, found.loadable)


def test_a_shard_of_a_rank_that_had_nothing_to_save_may_be_empty(tmp_path: Path) -> None:
    """Torch writes it, and its metadata last: with that, all is there; without it, nothing is."""
    files = {**TORCH, "__1_0.distcp": ""}

    assert probe(str(made(files, tmp_path / "whole"))).loadable is True
    cut = probe(str(made(without(files, ".metadata"), tmp_path / "cut")))
    assert "empty: __1_0.distcp" in cut.faults


def test_one_file(tmp_path: Path) -> None:
    """A file is there and not empty, or it is not."""
    path = tmp_path / "model.pt"
    assert (False, ("nothing is there",)) == seen(probe(str(path)))
    path.write_bytes(b"")
    assert (False, ("the file is empty",)) == seen(probe(str(path)))
    path.write_bytes(b"abc")
    assert (True, ()) == seen(probe(str(path)))
    assert (False, ("nothing is there",)) == seen(probe(str(path / "below")))


def seen(found: Probed) -> tuple[bool | None, tuple[str, ...]]:
    """Give whether it can be loaded, and what is wrong."""
    return found.loadable, found.faults


@pytest.mark.parametrize(
    "path", ["s3://bucket/step8", "gs://b/x", "file:///etc/passwd", "hf+x://y"]
)
def test_remote_paths_are_not_probed(path: str) -> None:
    """An address of another storage is told, and neither looked for nor held against it."""
    found = probe(path)

    assert (None, False, ("not probed: remote",)) == (found.loadable, found.is_tried, found.notes)


def test_paths_that_cannot_be_looked_at_are_told(tmp_path: Path) -> None:
    """A loop of links, a null character, a name that is too long: told, not raised."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (str(loop), "a\0b", "x" * 5000):
        found = probe(path)
        assert (None, True) == (found.loadable, found.is_tried)
        assert found.faults[0].startswith("it cannot be looked at: ")


def test_a_folder_without_permission_is_told(tmp_path: Path) -> None:
    """What may not be read is unknown: neither loadable nor broken."""
    folder = made(TORCH, tmp_path / "saved" / "inner").parent
    folder.chmod(0)
    try:
        found = as_nobody(lambda: probe(str(folder)))
    finally:
        folder.chmod(0o755)

    assert found[:1] == ("None",)
    assert "Permission denied" in found[1]


def as_nobody(look: Callable[[], Probed]) -> tuple[str, str]:
    """Look in a child that is no superuser, who may read everything."""
    out, into = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are threads: the child uses none of them
        child = os.fork()
    if child == 0:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        found = look()
        os.write(into, f"{found.loadable}|{'; '.join(found.faults)}".encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as told:
        loadable, faults = told.read().split("|")
    os.waitpid(child, 0)
    return loadable, faults


def test_links_and_pipes_lead_nowhere(tmp_path: Path) -> None:
    """A link to a folder is not followed, a pipe is not read, a broken link is a missing file."""
    folder = made({"model.bin": "x"}, tmp_path / "saved")
    (folder / "up").symlink_to(tmp_path)
    (folder / "linked.bin").symlink_to(folder / "model.bin")
    os.mkfifo(folder / "trainer_state.json")
    found = probe(str(folder))
    assert (True, 2) == (found.loadable, found.files)
    assert ("links to folders are not followed: up",) == found.notes

    (folder / "gone.bin").symlink_to(tmp_path / "gone")
    assert (False, ("links that lead nowhere: gone.bin",)) == seen(probe(str(folder)))
    os.mkfifo(tmp_path / "pipe")
    assert (False, ("it is neither a file nor a folder",)) == seen(probe(str(tmp_path / "pipe")))


def test_listings_and_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many entries, levels or bytes are told, and what was not looked at is unknown."""
    monkeypatch.setattr(probing, "MOST_ENTRIES", 5)
    monkeypatch.setattr(probing, "MOST_BYTES", 10)
    many = made({f"{n}.bin": "x" for n in range(9)}, tmp_path / "many")
    assert (None, ("it holds more than 5 entries",)) == seen(probe(str(many)))

    deep = made({"/".join("abcdefghijklmnop") + "/x.bin": "x"}, tmp_path / "deep")
    monkeypatch.setattr(probing, "MOST_ENTRIES", 100)
    assert (None, ("it is more than 12 folders deep",)) == seen(probe(str(deep)))

    large = made({"model.safetensors.index.json": INDEX, **SHARDS}, tmp_path / "large")
    found = probe(str(large))
    assert found.loadable is None
    assert "is too large to be looked at" in found.faults[0]
