"""Knows the folders that frameworks save into: which files must stand beside which."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

MOST_NAMED = 3
"""Files that are named for one fault; the rest is counted."""

MARKERS = frozenset(
    {
        "commit_success.txt",
        "orbax.checkpoint",
        "_SUCCESS",
        "_COMMITTED",
        "done",
        ".done",
        ".complete",
        "COMPLETE",
        "__init__.py",
    }
)
"""Files that say something by being there: they may be empty."""

_SHARD = re.compile(r"(?:shard-\d{1,9}-)?(.*)-(\d{5})-of-(\d{5})\.(safetensors|bin)")
"""One of several files of weights; torch puts the rank that wrote it before its name."""
_LOADED_BY_INDEX = frozenset({"model.safetensors", "pytorch_model.bin"})
"""What Hugging Face's libraries find the shards of by their index alone, beside a `config.json`."""
_TRACKER = "latest_checkpointed_iteration.txt"
_TAG = re.compile(r"global_step\d+")
"""The names that DeepSpeed gives to its folders, unless it is told another."""
_ZERO = re.compile(r"zero_pp_rank_(\d{1,9})_mp_rank_(\d{1,9})_optim_states\.pt")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".distcp")


@dataclass(frozen=True)
class Folder:
    """One folder of a checkpoint: names and sizes."""

    path: str
    files: Mapping[str, int]
    """Name → bytes."""
    folders: frozenset[str]
    read: Callable[[str], str | None]
    """Name → its text; null: it is too large, or cannot be read."""
    links: frozenset[str] = frozenset()
    """Links to folders, which are not followed."""
    others: frozenset[str] = frozenset()
    """What is neither a file nor a folder: pipes, sockets and devices."""
    hollow: frozenset[str] = frozenset()
    """Those of `folders` in which there is no file, however deep, and nothing left unread."""


@dataclass(frozen=True)
class Layout:
    """Whose folder it is, and what is wrong with it."""

    kinds: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """What could not be looked at, so that it may be wrong."""
    notes: tuple[str, ...] = ()


def layout_of(folder: Folder) -> Layout:
    """Tell whose layout a folder has, and what it lacks."""
    found = [one for rule in RULES if (one := rule(folder)) is not None]
    return Layout(
        *(
            tuple(dict.fromkeys(text for one in found for text in getattr(one, name)))
            for name in ("kinds", "faults", "unknown", "notes")
        )
    )


def some(names: Sequence[str]) -> str:
    """Name a few of many."""
    shown = ", ".join(sorted(names)[:MOST_NAMED])
    left = len(names) - MOST_NAMED
    return f"{shown} and {left:,} more" if left > 0 else shown


def _empty(folder: Folder) -> Layout | None:
    has_metadata = ".metadata" in folder.files
    empty = [
        name
        for name, size in folder.files.items()
        # torch writes a shard for a rank that had nothing to save, and its metadata last of all
        if not size and not _may_be_empty(name) and not (has_metadata and name.endswith(".distcp"))
    ]
    return Layout(faults=(f"empty: {some(empty)}",)) if empty else None


def _may_be_empty(name: str) -> bool:
    return name in MARKERS or name.endswith(".lock")


def _torch(folder: Folder) -> Layout | None:
    """Look at a checkpoint of torch.distributed.checkpoint: `.metadata` is written last."""
    shards = [name for name in folder.files if name.endswith(".distcp")]
    if not shards and ".metadata" not in folder.files:
        return None
    faults = []
    if ".metadata" not in folder.files:
        begun = ", and .metadata.tmp is: the save did not end"
        begun = begun if ".metadata.tmp" in folder.files else ""
        faults.append(f".metadata is not there beside {len(shards):,} .distcp shards{begun}")
    if not shards:
        faults.append(".metadata is there, and no .distcp shard beside it")
    return Layout(("torch distributed checkpoint",), tuple(faults))


def _megatron(folder: Folder) -> Layout | None:
    """Look at a distributed checkpoint of Megatron-core: `metadata.json` and `common.pt`."""
    has_common = "common.pt" in folder.files
    shards = [name for name in folder.files if name.endswith(".distcp")]
    if "metadata.json" not in folder.files:
        if not (has_common and shards):
            return None
        return Layout(("Megatron",), ("metadata.json is not there beside common.pt and shards",))
    told, why = _json(folder, "metadata.json")
    if told is None and has_common:
        return Layout(("Megatron",), *why)
    if not isinstance(told, dict) or "sharded_backend" not in told:
        return None
    faults = [] if has_common else ["common.pt is not there beside metadata.json"]
    if told["sharded_backend"] == "torch_dist" and not shards:
        faults.append("metadata.json tells of torch_dist shards, and no .distcp shard is there")
    return Layout(("Megatron",), tuple(faults))


def _indexed(folder: Folder) -> Layout | None:
    """Look for the shards that an index of weights names."""
    indices = [name for name in folder.files if name.endswith(".index.json")]
    shards = {name: match for name in folder.files if (match := _SHARD.fullmatch(name))}
    indexed: set[str] = set()
    faults: list[str] = []
    unknown: list[str] = []
    for index in sorted(indices):
        told, why = _json(folder, index)
        weights = told.get("weight_map") if isinstance(told, dict) else None
        if told is None:
            faults += why[0]
            unknown += why[1]
        elif not isinstance(weights, dict) or not weights:
            faults.append(f"{index} names no shard")
        else:
            named = {str(one) for one in weights.values()}
            faults += _missing(folder, index, named)
            indexed |= {_kind(match) for one in named if (match := _SHARD.fullmatch(one))}
        indexed.add(index.removesuffix(".index.json"))
    faults += _incomplete(folder, [one for one in shards.values() if _kind(one) not in indexed])
    if not indices and not shards:
        return None
    return Layout(("weights in shards",), tuple(faults), tuple(unknown))


def _kind(shard: re.Match[str]) -> str:
    """Give the name that a file of weights would have alone."""
    return f"{shard[1]}.{shard[4]}"


def _incomplete(folder: Folder, shards: Sequence[re.Match[str]]) -> Iterator[str]:
    """Find what is missing of shards that no index names: each says how many there are."""
    groups: dict[tuple[str, int], set[int]] = {}
    for one in shards:
        groups.setdefault((_kind(one), int(one[3])), set()).add(int(one[2]))
    is_by_index = bool({"config.json", "trainer_state.json"} & folder.files.keys())
    for (kind, count), there in sorted(groups.items()):
        missing = sorted(set(range(1, count + 1)) - there)
        if missing:
            yield (
                f"{kind} has {count:,} shards, and {len(missing):,} of them not there: the first "
                f"is {missing[0]:05d}-of-{count:05d}"
            )
        elif is_by_index and count > 1 and kind in _LOADED_BY_INDEX:
            yield f"shards without an index beside them: {kind}.index.json is not there"


def _missing(folder: Folder, index: str, named: set[str]) -> Iterator[str]:
    outside = [name for name in named if "/" in name or "\\" in name or name in ("..", ".")]
    missing = [name for name in named if name not in folder.files and name not in outside]
    if outside:
        yield f"{index} names shards outside its folder: {some(outside)}"
    if missing:
        yield f"{index} names shards that are not there: {some(missing)}"


def _trainer(folder: Folder) -> Layout | None:
    """Look at a checkpoint of Hugging Face's Trainer."""
    if "trainer_state.json" not in folder.files:
        return None
    told, (faults, unknown) = _json(folder, "trainer_state.json")
    if told is not None and not isinstance(told, dict):
        faults = ("trainer_state.json is no JSON object",)
    others = {"training_args.bin", "scaler.pt"}
    states = ("rng_state", "optimizer", "scheduler")
    weights = [
        name
        for name in folder.files
        if name.endswith(_WEIGHTS) and name not in others and not name.startswith(states)
    ]
    if not weights and not folder.folders:
        faults = (*faults, "no weights are there beside trainer_state.json")
    notes: tuple[str, ...] = ()
    if not any("optim" in name for name in (*folder.files, *folder.folders)):
        is_deep = any(name.startswith("global_step") for name in folder.folders)
        notes = () if is_deep else ("no state of the optimizer is there",)
    return Layout(("Hugging Face Trainer",), faults, unknown, notes)


def _deepspeed(folder: Folder) -> Layout | None:
    """Look at a folder of DeepSpeed: `latest` names the folder of the newest save."""
    tag = _tag(folder)
    if tag is not None:
        return Layout(("DeepSpeed",), *_named(folder, tag, "latest"))
    zero = [match for name in folder.files if (match := _ZERO.search(name))]
    models = [name for name in folder.files if name.endswith("model_states.pt")]
    if not zero and not models:
        return None
    faults = [] if models else ["no model_states.pt is there beside the optimizer's shards"]
    for peer in sorted({match[2] for match in zero}):
        ranks = {int(match[1]) for match in zero if match[2] == peer}
        missing = sorted(set(range(max(ranks) + 1)) - ranks) if max(ranks) < 1 << 20 else []
        if missing:
            faults.append(f"no optimizer shard of rank {missing[0]} is there")
    return Layout(("DeepSpeed",), tuple(faults))


def _tag(folder: Folder) -> str | None:
    """Read which folder `latest` names; null: it is no file of DeepSpeed's."""
    if "latest" not in folder.files:
        return None
    tag = (folder.read("latest") or "").strip()
    beside = folder.folders | folder.links
    is_ours = tag in beside or any(_TAG.fullmatch(one) for one in (tag, *beside))
    return tag if is_ours else None


def _named(folder: Folder, name: str, by: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Say what is wrong, and what is not known, of a folder that a file names."""
    if name in folder.links:
        return (), (f"{by} names a link to a folder, which is not followed",)
    if name not in folder.folders:
        return (f"{by} names a folder that is not there",), ()
    return ((f"{by} names a folder that holds no file",) if name in folder.hollow else ()), ()


def _tracked(folder: Folder) -> Layout | None:
    """Look at a root folder of Megatron: one file names the iteration of the newest save."""
    if _TRACKER not in folder.files:
        return None
    told = (folder.read(_TRACKER) or "").strip()
    if not told:
        # that it is empty is said of all files
        unknown = (f"{_TRACKER} cannot be read",) if folder.files[_TRACKER] else ()
        return Layout(("Megatron",), (), unknown)
    if told != "release" and not re.fullmatch("[0-9]{1,18}", told):
        return Layout(("Megatron",), (f"{_TRACKER} names no iteration",))
    name = told if told == "release" else f"iter_{int(told):07d}"
    return Layout(("Megatron",), *_named(folder, name, _TRACKER))


def _orbax(folder: Folder) -> Layout | None:
    """Look at a checkpoint of orbax: `_METADATA` beside the arrays."""
    signs = {"_METADATA", "_CHECKPOINT_METADATA", "orbax.checkpoint", "manifest.ocdbt"}
    own = PurePath(folder.path).name
    is_unfinished = ".orbax-checkpoint-tmp" in own
    if not is_unfinished and not signs & folder.files.keys():
        return None
    faults = ["its name is that of a save that did not end"] if is_unfinished else []
    is_part = own.startswith("ocdbt.process_")  # what one process wrote, merged later
    if "manifest.ocdbt" in folder.files and "_METADATA" not in folder.files and not is_part:
        faults.append("_METADATA is not there beside manifest.ocdbt")
    return Layout(("orbax",), tuple(faults))


RULES: tuple[Callable[[Folder], Layout | None], ...] = (
    _megatron,
    _tracked,
    _torch,
    _trainer,
    _deepspeed,
    _orbax,
    _indexed,
    _empty,
)


def _json(folder: Folder, name: str) -> tuple[Any, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Read a small JSON file; where it cannot be, say what is wrong and what is not known."""
    if not folder.files[name]:
        return None, ((), ())  # that it is empty is said of all files
    text = folder.read(name)
    if text is None:
        return None, ((), (f"{name} is too large to be looked at, or cannot be read",))
    try:
        return json.loads(text), ((), ())
    except (ValueError, RecursionError):
        return None, ((f"{name} is no JSON",), ())
