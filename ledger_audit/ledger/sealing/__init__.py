"""
Seals what dead writers left: open segments become Parquet, and many small files become few.

Nothing is lost in between. What is written anew names what it stands for, and is on storage and
read back before anything is removed: a seal that is killed anywhere leaves a ledger that reads the
same, and the next seal goes on.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa

from ledger_audit.errors import UnreadableError, UsageError, VanishedError
from ledger_audit.ledger import index, store
from ledger_audit.ledger.address import Address
from ledger_audit.ledger.merging import merged
from ledger_audit.ledger.sealing.account import Live, Merged, SealedAttempt, Sealing
from ledger_audit.ledger.sealing.alive import alive, alone
from ledger_audit.ledger.sealing.examining import Examined, Place, examine, told_before
from ledger_audit.ledger.sealing.merge import let_go, metadata_of
from ledger_audit.ledger.sealing.plan import Item, items_of, plan
from ledger_audit.ledger.sealing.publish import publish, remove, sweep, sync_folder
from ledger_audit.ledger.sealing.settling import settle
from ledger_audit.ledger.sealing.source import Source, read, replaced_by
from ledger_audit.ledger.segment import Table, segment_name

SMALL = 8 << 20
"""Bytes below which a sealed file is merged with others."""
MOST_BYTES = 128 << 20
"""Bytes of rows that are in memory and become one file."""

Tell = Callable[[str], None]


class _AliveError(Exception):
    """A writer that seemed dead wrote while its files were sealed."""


def seal(
    root: Path,
    *,
    idle: float,
    most_bytes: int = MOST_BYTES,
    small: int = SMALL,
    tell: Tell = lambda _: None,
) -> Sealing:
    """
    Seal the segments of dead writers in a ledger's folder.

    Args:
        root: the ledger's folder.
        idle: seconds for which nobody wrote an open segment of a writer that is taken for dead;
            whoever holds the lock of one is alive all the same.
        most_bytes: of rows that become one file, unless they are in one file already.
        small: bytes below which a sealed file is merged with others.
        tell: told what is being done.

    Raises:
        UnreadableError: something in the ledger is not named like a part of one.
        UsageError: it is no ledger, cannot be written, or another seal is at work.
    """
    if isinstance(root, Address):
        raise UsageError(
            f"{root}: is in an object store, and ledgers are sealed on local disks",
            hint="what a shipper has uploaded is sealed already; to merge small files, `aws s3 "
            "sync` it to a local folder, seal that, and put it at a new address",
        )
    if not store.is_ledger_folder(root):
        raise UsageError(
            f"{root}: is no ledger",
            hint="name the folder that holds attempt=… folders; `convert` makes one of a log",
        )
    try:
        with alone(root):
            done = []
            for folder in map(Path, dict.fromkeys(one.folder for one in store.segments(root))):
                tell(f"sealing {folder.name}")
                sweep(folder)
                done.append(_seal_attempt(folder, idle, most_bytes, small))
                index.refresh(folder)
    except OSError as problem:
        raise UsageError(
            f"{root}: cannot be sealed: {problem}",
            hint="nothing was lost; make room or get the permission, and seal again",
        ) from problem
    return Sealing(str(root), tuple(done))


def _seal_attempt(folder: Path, idle: float, most_bytes: int, small: int) -> SealedAttempt:
    segments = store.in_attempt(folder)
    live = alive(segments, idle)
    problems: list[str] = []
    left, removed = settle(segments, live, problems)
    wanted = [one for one in left if one.writer not in live and _is_wanted(one, small)]
    others = [one for one in left if one.writer not in live and not _is_wanted(one, small)]
    examined: list[Examined] = []
    done: list[Merged] = []
    try:
        known = told_before(left)
        large = _by_writer(others)
        for writer, own in sorted(_by_writer(wanted).items()):
            examined.append(examine(writer, own, large.get(writer, ())))
        done = _written(segments, examined, known, most_bytes, problems)
    except UnreadableError as problem:
        if isinstance(problem, VanishedError):
            raise
        problems.append(problem.message)
    except _AliveError as problem:
        live[str(problem)] = "wrote while it was sealed"
    sources = [one for each in examined for one in (*each.samples, *each.events)]
    gone = {name for one in done for name in one.sources}
    return SealedAttempt(
        attempt=segments[0].attempt,
        files_before=len(segments),
        files_after=len(segments) - len(removed) - len(gone) + len(done),
        merged=tuple(done),
        dropped=tuple(
            hole
            for each in examined
            for hole in each.dropped()
            if hole.file in gone and (hole.file, hole.start, hole.end) not in known
        ),
        live=tuple(Live(name, why) for name, why in sorted(live.items())),
        removed=tuple(removed),
        let_go=tuple(told for one in sources if not one.segment.is_sealed for told in let_go(one)),
        digests=sum(each.digests for each in examined),
        unchecked=tuple(each.unchecked for each in examined if each.unchecked is not None),
        problems=(*problems, *(text for each in examined for text in each.problems)),
    )


def _by_writer(segments: Sequence[store.Segment]) -> dict[str, list[store.Segment]]:
    writers: dict[str, list[store.Segment]] = {}
    for segment in segments:
        writers.setdefault(segment.writer, []).append(segment)
    return writers


def _is_wanted(segment: store.Segment, small: int) -> bool:
    return not segment.is_sealed or segment.path.stat().st_size < small


def _written(
    segments: Sequence[store.Segment],
    examined: Sequence[Examined],
    known: frozenset[Place],
    most_bytes: int,
    problems: list[str],
) -> list[Merged]:
    """Write everything anew, then remove what that stands for."""
    items: dict[Table, list[Item]] = {"events": [], "samples": []}
    for one in examined:
        if one.problems:
            continue
        samples = items_of(one.writer, one.samples, most_bytes)
        if one.overlaps and len(samples) > 1:
            problems.append(
                f"writer {one.writer}: its files hold the same records, and are too large to be "
                "merged; remove the copies"
            )
            continue
        told = one.told(segments[0].attempt, known)
        items["samples"] += samples
        items["events"] += items_of(one.writer, one.events, most_bytes, told, one.run)
    folder = segments[0].path.parent
    done: list[tuple[Merged, list[Source]]] = []
    for table in ("events", "samples"):  # what is dropped is told before its file is replaced
        for group in plan(items[table], most_bytes):
            try:
                done.append(_merge(table, folder, group))
            except UnreadableError as problem:
                if isinstance(problem, VanishedError) or table == "events":
                    _withdraw(folder, done)
                    raise
                problems.append(f"{', '.join(one.writer for one in group)}: {problem.message}")
            except BaseException:
                _withdraw(folder, done)
                raise
    used = [source for _, sources in done for source in sources]
    awake = {source.segment.writer for source in used if not source.is_unchanged}
    awake |= alive([source.segment for source in used], 0, segments).keys()
    if awake:
        _withdraw(folder, done)
        raise _AliveError(min(awake))
    remove(source.segment.path for _, sources in done for source in sources)
    if done:
        sync_folder(folder)
    return [one for one, _ in done]


def _withdraw(folder: Path, done: Sequence[tuple[Merged, list[Source]]]) -> None:
    """Take back what was written anew: all that it stands for is still there."""
    remove(folder / one.file for one, _ in reversed(done))


def _merge(table: Table, folder: Path, group: Sequence[Item]) -> tuple[Merged, list[Source]]:
    """Write one file anew, for all files of a group."""
    sources = [source for item in group for source in item.sources]
    names = {source.name for source in sources}
    for source in sources:
        names |= replaced_by(source.metadata, source.segment.path)
    parts = []
    for source in sources:
        if source.key is None:
            continue
        contents = read(source.segment)
        if contents.rows.num_rows != source.rows:
            raise _AliveError(source.segment.writer)
        parts.append(contents.rows)
    parts += [events for item in group for events in item.told]
    rows, starts = merged(table, parts)
    digest = blake2b(digest_size=8)
    for name in sorted({*names, *(name for item in group for name in item.told_of)}):
        digest.update(name.encode("utf-8", "surrogateescape") + b"\0")
    writer = f"sealed-{digest.hexdigest()}"
    path = folder / f"{segment_name(table, writer, 0)}.parquet"
    run = next((item.key.run for item in group if item.key is not None), None)
    metadata = metadata_of(sources, run=run, writer=writer, names=sorted(names))
    try:
        size = publish(rows, starts, path, metadata)
    except pa.ArrowException as problem:
        raise UnreadableError(
            f"{path}: its rows cannot be written: {problem}",
            hint="convert the column that the message names",
        ) from problem
    told = Merged(
        file=path.name,
        table=table,
        sources=tuple(sorted(source.name for source in sources)),
        rows=rows.num_rows,
        bytes_before=sum(source.size for source in sources),
        bytes_after=size,
    )
    return told, sources
