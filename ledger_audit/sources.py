"""Opens what a command names, and finds the lineage in it: where archive and reasoning meet."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from ledger_audit import machine
from ledger_audit.continuity.checkpoints.archive import Archive
from ledger_audit.continuity.contract import Contract, IdList
from ledger_audit.continuity.exposure.library import Library
from ledger_audit.continuity.forbidden import Found, find_forbidden
from ledger_audit.continuity.forbidden.searching import Rule, Search, Searchable
from ledger_audit.continuity.holding import RECORD
from ledger_audit.continuity.lineage import Attempt, Lineage, reconstruct
from ledger_audit.continuity.settling import ROWS
from ledger_audit.continuity.summing import Both, Tally
from ledger_audit.continuity.terms import asked_of
from ledger_audit.continuity.windows import Source
from ledger_audit.errors import UsageError
from ledger_audit.ledger.id_lists import read_ids
from ledger_audit.ledger.opening import open_ledger, same_id_type
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.recovery import still_unread
from ledger_audit.ledger.remembered import Remembered
from ledger_audit.ledger.schema import DIGEST_COLUMNS
from ledger_audit.ledger.searching import Search as AllSamples
from ledger_audit.ledger.tables import hash_frame
from ledger_audit.ledger.tallying import Sums
from ledger_audit.ledger.whole import Whole
from ledger_audit.libraries import LOCAL, Engine
from ledger_audit.model import Reading
from ledger_audit.model.forbidden import Kind
from ledger_audit.printable import counted


@dataclass(frozen=True)
class Opened(Searchable):
    """A ledger that is open, and can be summed up."""

    archive: Callable[[], Archive] = field(kw_only=True)
    """Gives sums over the ledger; nothing is read for them before."""
    library: Callable[[], Library] = field(kw_only=True)
    """Lets all records of the ledger pass by."""
    tally: Tally | None = None
    """What others have counted of them, each of its own samples; null: nothing is counted yet."""


def open_source(roots: Sequence[Path], reading: Reading) -> Opened:
    """
    Open the ledger of a run.

    Raises:
        UsageError: it is an expected stream, which nobody ran.
    """
    ledger = open_ledger(roots, columns=reading.columns, stream=reading.stream)
    return opened_run(ledger, reading.engine)


def opened_run(ledger: Ledger, engine: Engine | None = None) -> Opened:
    """
    Give what the ledger of a run holds; `engine` lets all records pass by, null: this process.

    Raises:
        UsageError: it is an expected stream, which nobody ran.
    """
    source = source_of(ledger, engine)
    if source.lineage.is_expected:
        raise UsageError(
            f"{ledger.name}: is a stream that is expected, and no run",
            hint="name it as --reference of diff, or as CONTROL of gate",
        )
    return replace(source, most=machine.memory() // RECORD)


def _archive(ledger: Ledger, source: Source) -> Archive:
    """Open one ledger, to judge its checkpoints."""
    sums = Sums(ledger)
    return Archive(
        source=source,
        stretches=sums.stretches,
        usage=sums.usage,
        records=sums.records,
        tokens=sums.tokens,
        places=sums.places,
        documents=sums.documents,
        read=sums.read,
        size=sums.size,
        staged=sums.staged,
        dropped=sums.dropped,
        sources=sums.sources,
        stages=sums.stages(),
        put_away={label: records for label, (_, records) in sums.put_away().items()},
    )


def open_pair(
    control: Sequence[Path], run: Sequence[Path], reading: Reading
) -> tuple[Opened, Opened]:
    """
    Open a control and a run that are to be compared.

    Raises:
        UsageError: one of them holds no record.
    """
    ledgers = [
        open_ledger(roots, columns=reading.columns, stream=reading.stream)
        for roots in (control, run)
    ]
    same_id_type(ledgers)
    expected, source = (
        source_of(ledgers[0], reading.engine),
        opened_run(ledgers[1], reading.engine),
    )
    for one, ledger in ((expected, ledgers[0]), (source, ledgers[1])):
        if not any(attempt.seen for attempt in one.lineage.chain):
            raise UsageError(
                f"{ledger.name}: holds no record", hint="point at a ledger with records"
            )
    return _as_peers(expected, source), _as_peers(source, expected)


def both_of(control: Opened, run: Opened, reading: Reading) -> Both | None:
    """Let the steps be found that both consumed alike; null: all records are sooner looked at."""
    if control.rows + run.rows < ROWS and not reading.trusts_digests:
        return None
    libraries = control.library(), run.library()
    both = Both(*libraries, reading.memory, reading.trusts_digests)
    if control.tally is None or run.tally is None:
        return both
    return replace(both, tallies=(control.tally, run.tally))


def open_windows(pre: Path, post: Path, checkpoint_step: int, reading: Reading) -> Searchable:
    """
    Open two plain logs as one lineage: `post` resumed from `pre` at a step.

    No start event need say how many ranks there are: those seen in either are expected in both.
    """
    ledgers = {
        label: open_ledger([path], columns=reading.columns, attempt=label, stream=reading.stream)
        for label, path in (("pre", pre), ("post", post))
    }
    same_id_type(ledgers.values())
    before, after = (_only_attempt(label, ledger) for label, ledger in ledgers.items())
    ranks = before.seen | after.seen
    before = replace(before, parent=None, resumed_at=None, loaded_at=checkpoint_step, peers=ranks)
    after = replace(after, parent="pre", resumed_at=checkpoint_step, peers=ranks)

    def of(label: str) -> Ledger:
        return ledgers.get(label, ledgers["pre"])

    return Searchable(
        lineage=Lineage((before, after), ()),
        records=lambda label, first, last: of(label).records(label, first, last),
        tries=lambda label, first, last: of(label).tries(label, first, last),
        lookup=lambda label, ids: of(label).lookup(label, ids),
        has_commits=any(ledger.has_commits() for ledger in ledgers.values()),
        unread=tuple(
            part
            for ledger in ledgers.values()
            for part in still_unread(ledger.acts(), ledger.unread)
        ),
        search=_search(of, ledgers.values()),
    )


def read_lists(contract: Contract, search: Search) -> list[Rule]:
    """
    Read the lists of ids that a contract names.

    Raises:
        UnreadableError: one of them cannot be read, or holds ids of another type.
    """
    named: list[tuple[Kind, IdList]] = [("forbid", one) for one in contract.forbid]
    named += [("only", one) for one in contract.only]
    return [
        Rule(
            one.name or one.file.name,
            kind,
            read_ids(one.file, column=one.column, source=one.source, id_type=search.id_type),
        )
        for kind, one in named
    ]


def forbidden_in(
    source: Searchable, contract: Contract, tell: Callable[[str], None] = lambda _: None
) -> Found | None:
    """Look in the lineage for what a contract forbids; null: it forbids nothing."""
    if not contract.forbids:
        return None
    tell("looking for forbidden samples")
    return find_forbidden(
        asked_of(source, contract),
        source.search,
        read_lists(contract, source.search),
        held_out=contract.held_out,
        token_overlap=contract.token_overlap,
    )


def chosen_resumes(source: Source, reading: Reading) -> list[int]:
    """
    Give the places in the lineage of the attempts whose resume is to be judged, oldest first.

    Raises:
        UsageError: there are fewer resumes than the one asked for.
    """
    resumed = list(range(1, len(source.lineage.chain)))
    if reading.resume is None:
        return resumed
    if reading.resume > len(resumed):
        raise UsageError(
            f"--resume {reading.resume}: the lineage has {counted(len(resumed), 'resume')}",
            hint="resumes are counted from 1, oldest first",
        )
    return [resumed[reading.resume - 1]]


def source_of(ledger: Ledger, engine: Engine | None = None) -> Opened:
    """
    Give what a ledger holds, with the lineage that its events tell.

    Args:
        ledger: that is open.
        engine: lets all records pass by; null: this process.
    """
    engine = LOCAL if engine is None else engine
    acts = ledger.acts()
    lineage = reconstruct(_told(acts), ledger.extents(), ledger.runs)
    opened = Opened(
        lineage=lineage,
        records=ledger.records,
        tries=Remembered(ledger.tries).tries,
        lookup=engine.lookup(ledger),
        has_commits=ledger.has_commits() or lineage.is_expected,
        hashed=hash_frame if ledger.stream is None else None,
        digest_columns=DIGEST_COLUMNS,
        unread=still_unread(acts, ledger.unread),
        dropped=Sums(ledger).dropped,
        acts=acts,
        search=_search(lambda _: ledger, [ledger]),
        archive=lambda: _archive(ledger, opened),
        rows=Whole(ledger).rows(),
        library=lambda: engine.library(ledger, opened.archive()),
    )
    return opened


def _search(of: Callable[[str], Ledger], ledgers: Iterable[Ledger]) -> Search:
    """Ask about all samples of the ledger that holds an attempt."""
    every = [AllSamples(one) for one in ledgers]

    def put_away() -> Mapping[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for one in every:
            found.update(one.put_away())
        return found

    return Search(
        id_type=next((one.id_type for one in every if one.id_type is not None), None),
        size=lambda label: AllSamples(of(label)).size(label),
        among=lambda label, *asked: AllSamples(of(label)).among(label, *asked),
        strangers=lambda label, *asked: AllSamples(of(label)).strangers(label, *asked),
        counts=lambda label, *asked: AllSamples(of(label)).counts(label, *asked),
        sources=lambda label: AllSamples(of(label)).sources(label),
        stream=lambda name: pl.concat([one.stream(name) for one in every], how="vertical_relaxed"),
        put_away=put_away,
    )


def _told(acts: pl.DataFrame) -> pl.DataFrame:
    """Leave out what sealing said: an attempt of which nothing else is there left nothing."""
    return acts.filter(pl.col("kind") != "recovered")


def _only_attempt(label: str, ledger: Ledger) -> Attempt:
    """Give the one attempt of a plain log; a log without any record has one that did nothing."""
    chain = reconstruct(_told(ledger.acts()), ledger.extents()).chain
    return replace(chain[-1], label=label, is_assumed=False) if chain else Attempt(label)


def _as_peers(source: Opened, other: Source) -> Opened:
    """Let attempts without a start event miss the ranks that the other side has."""
    ranks: frozenset[int] = frozenset().union(*(one.everyone for one in other.lineage.chain))
    chain = tuple(
        replace(one, peers=ranks) if one.world_size is None and one.seen else one
        for one in source.lineage.chain
    )
    return replace(source, lineage=replace(source.lineage, chain=chain))
