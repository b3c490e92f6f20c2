"""Samples that must not be trained on: who used them, where, since when, and what may hide them."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import FIXTURES
from emitting import emit_ledger
from forbidden_oracle import Listed, against_allowed, against_forbidden, uses
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native import Line, read_lines, tables, write_ledger, write_segment

from ledger_audit.continuity.contract import Contract, IdList, Ranks
from ledger_audit.continuity.findings import amount, runs
from ledger_audit.continuity.forbidden import Found, find_forbidden, hits_of
from ledger_audit.continuity.forbidden.searching import Rule
from ledger_audit.errors import UnreadableError
from ledger_audit.model import ClauseName, Reading
from ledger_audit.model.forbidden import ForbiddenExample, ForbiddenList, Kind
from ledger_audit.sources import forbidden_in, open_source, open_windows, read_lists

OVER_AND_OVER = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@dataclass
class Story:
    """A ledger that is told attempt by attempt."""

    lines: list[Line] = field(default_factory=list)
    counts: bool = True
    """Commits say how many records their tries had."""

    def start(
        self, attempt: int, resumed: tuple[int, int] | None = None, ranks: int = 1, **data: Any
    ) -> "Story":
        """Launch an attempt, resumed from (attempt, step)."""
        origin = None if resumed is None else {"attempt": resumed[0], "step": resumed[1]}
        told = {"world_size": ranks, "resumed_from": origin, **data}
        for rank in range(ranks):
            self.lines.append({"kind": "start", "attempt": attempt, "rank": rank, "data": told})
        return self

    def use(self, attempt: int, step: int, *ids: Any, rank: int = 0, **more: Any) -> "Story":
        """Use samples in one slot of a step; an id may be (id, start, end)."""
        for row, one in enumerate(ids):
            sample, *span = one if isinstance(one, tuple) else (one,)
            line = {"kind": "sample", "attempt": attempt, "rank": rank, "step": step, "slot": 0}
            line |= {"row": row, "sample_id": sample, **more}
            if span:
                line |= {"token_start": span[0], "token_end": span[1]}
            self.lines.append(line)
        return self

    def end(self, kind: str, attempt: int, step: int, rank: int = 0) -> "Story":
        """Commit or void what a rank used in a step since the last commit or void."""
        last = max(
            (
                at
                for at, line in enumerate(self.lines)
                if line["kind"] in ("commit", "void")
                and (line["attempt"], line["rank"]) == (attempt, rank)
            ),
            default=-1,
        )
        used = [
            line
            for line in self.lines[last + 1 :]
            if line["kind"] == "sample"
            and (line["attempt"], line["rank"], line["step"]) == (attempt, rank, step)
            and line.get("stream") is None
        ]
        data = {"samples": len(used)} if kind == "commit" and self.counts else {}
        self.lines.append(
            {"kind": kind, "attempt": attempt, "rank": rank, "step": step, "data": data}
        )
        return self

    def step(self, attempt: int, step: int, *ids: Any, **more: Any) -> "Story":
        """Use samples on rank 0, and commit them."""
        return self.use(attempt, step, *ids, **more).end("commit", attempt, step)


def told_plainly(lines: Sequence[Line], root: Path) -> Path:
    """Write JSON Lines."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "all.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root


WAYS: dict[str, Callable[[Sequence[Line], Path], Path]] = {
    "JSON Lines": told_plainly,
    "the writer": emit_ledger,
    "sealed segments": lambda lines, root: write_ledger(lines, root, rng=random.Random(1)),
    "open segments": lambda lines, root: write_ledger(lines, root, sealed=False),
}


def ids(*lines: Any, name: str = "ids", kind: Kind = "forbid") -> Rule:
    """Make a list: of ids, or of (id, source, start, end)."""
    rows = [line if isinstance(line, tuple) else (line, None, None, None) for line in lines]
    text = any(isinstance(row[0], str) for row in rows)
    schema = {
        "sample_id": pl.String() if text else pl.Int64(),
        "source": pl.String(),
        "token_start": pl.Int64(),
        "token_end": pl.Int64(),
    }
    return Rule(name, kind, pl.DataFrame(rows, schema=schema, orient="row"))


def find(root: Path, *lists: Rule, **asked: Any) -> Found:
    """Open a ledger and look for what is against the lists."""
    source = open_source([root], Reading())
    return find_forbidden(source, source.search, lists, **asked)


def found_in(story: Story, tmp_path: Path, *lists: Rule, **asked: Any) -> ForbiddenList:
    """Look for what is against one list, and give what is told of it."""
    report = find(told_plainly(story.lines, tmp_path), *lists, **asked).report
    assert () == report.unseen
    (told,) = report.lists
    return told


def amounts(told: ForbiddenList) -> list[tuple[str, int, int, int | None]]:
    """Give attempt, records, samples and tokens of a list."""
    return [(one.attempt, one.records, one.samples, one.tokens) for one in told.hits]


def codes(found: Found) -> set[tuple[str, str | None]]:
    """Give why something may be unseen, and of which attempt."""
    return {(one.code, one.attempt) for one in found.report.unseen}


RESUMED = Story().start(0).step(0, 1, 1, 2).step(0, 2, 3, 4).step(0, 3, 5, 6)
RESUMED.start(1, (0, 2)).step(1, 3, 5, 6).step(1, 4, 7, 8)
"""One rank used 1 to 8, two a step, and resumed rightly after 4."""


@pytest.mark.parametrize("way", WAYS)
def test_a_hit_tells_who_where_and_since_when(way: str, tmp_path: Path) -> None:
    """However the ledger was written."""
    story = Story().start(0, ranks=2)
    for step in (1, 2, 3):
        for rank in (0, 1):
            sample = 10 * step + rank
            story.use(0, step, sample, sample + 5, rank=rank).end("commit", 0, step, rank)
    found = find(WAYS[way](story.lines, tmp_path / "ledger"), ids(21, 36, 99))

    assert () == found.report.unseen
    (told,) = found.report.lists
    (hits,) = told.hits
    assert ("0", 2, 2, None) == (hits.attempt, hits.records, hits.samples, hits.tokens)
    assert (((1, 1),), ((0, 0),), 2, 3) == (
        hits.ranks,
        hits.slots,
        hits.first_step,
        hits.last_step,
    )
    assert (ForbiddenExample("21", None, None), ForbiddenExample("36", None, None)) == hits.examples
    assert ("0", 0, 3) == (told.since_attempt, told.since, told.ids)


@pytest.mark.parametrize("way", WAYS)
def test_a_list_that_nothing_is_against_is_clean(way: str, tmp_path: Path) -> None:
    """Nothing found, nothing unseen, nothing to note."""
    found = find(WAYS[way](RESUMED.lines, tmp_path / "ledger"), ids(0, 9, -1), ids(*range(1, 9)))

    clean, hit = found.report.lists
    assert ((), None, None, 0, 0, 0) == (
        clean.hits,
        clean.since,
        clean.came(1),
        clean.voided,
        clean.uncommitted,
        clean.undecided,
    )
    assert 8 == hit.records
    assert () == found.report.unseen
    assert () == found.report.notes


def test_a_hit_before_the_resume_is_not_of_the_resume(tmp_path: Path) -> None:
    """`came` tells it of each resume; in an attempt before the first, it is of none."""
    story = Story(list(RESUMED.lines)).start(2, (1, 4)).step(2, 5, 9)

    before = found_in(story, tmp_path, ids(2, 8))
    assert [("0", 1, 1, None), ("1", 1, 1, None)] == amounts(before)
    assert ["before", "before"] == [before.came(1), before.came(2)]
    with_it = found_in(story, tmp_path, ids(8))
    assert ["with the restart", "before"] == [with_it.came(1), with_it.came(2)]
    after = found_in(story, tmp_path, ids(9))
    assert [None, "with the restart"] == [after.came(1), after.came(2)]


def test_samples_that_were_used_before_are_not_new(tmp_path: Path) -> None:
    """Of each attempt it is told how many samples no attempt before it had used."""
    story = Story(list(RESUMED.lines)).start(2, (1, 4)).step(2, 5, 1, 9, 9)

    told = found_in(story, tmp_path, ids(1, 8, 9))
    assert [("0", 1), ("1", 1), ("2", 1)] == [(one.attempt, one.new_samples) for one in told.hits]
    assert [("0", 1), ("1", 1), ("2", 2)] == [(one.attempt, one.samples) for one in told.hits]
    assert 5 == told.records


def test_rolled_back_steps_are_not_committed(tmp_path: Path) -> None:
    """What the failure rolled back is in no weights."""
    story = Story().start(0).step(0, 1, 1).step(0, 2, 66)
    story.start(1, (0, 1)).step(1, 2, 2)

    assert [] == amounts(found_in(story, tmp_path, ids(66)))
    story.start(2, (0, 2)).step(2, 3, 3)  # but this one loaded them
    assert [("0", 1, 1, None)] == amounts(found_in(story, tmp_path, ids(66)))


def test_attempts_outside_the_lineage_train_other_weights(tmp_path: Path) -> None:
    """An abandoned attempt is not looked at, unless the newest goes on from it."""
    story = Story().start(0).step(0, 1, 1).start(1, (0, 1)).step(1, 2, 66)
    story.start(2, (0, 1)).step(2, 2, 2)

    assert [] == amounts(found_in(story, tmp_path, ids(66)))
    story.start(3, (1, 2)).step(3, 3, 3)
    assert [("1", 1, 1, None)] == amounts(found_in(story, tmp_path, ids(66)))


def test_void_tries_change_no_weights(tmp_path: Path) -> None:
    """They are counted apart; the same sample in the try that was committed is a hit."""
    story = Story().start(0).use(0, 1, 66, 1).end("void", 0, 1).step(0, 1, 1, 2)
    found = find(told_plainly(story.lines, tmp_path), ids(66))

    assert (0, 1) == (found.report.lists[0].records, found.report.lists[0].voided)
    assert ("1 record in void tries against list ids: no weights changed",) == found.report.notes
    told = found_in(story, tmp_path, ids(1))
    assert (1, 1) == (told.records, told.voided)


def test_a_step_that_is_not_committed_yet_is_no_hit(tmp_path: Path) -> None:
    """It is counted apart; with the commit of every rank it is a hit."""
    story = Story().start(0, ranks=2)
    for step in (1, 2):
        for rank in (0, 1):
            story.use(0, step, 10 * step + rank, rank=rank)
            if (step, rank) != (2, 1):
                story.end("commit", 0, step, rank)

    told = found_in(story, tmp_path, ids(20))
    assert (0, 1, 0) == (told.records, told.uncommitted, told.undecided)
    story.end("commit", 0, 2, 1)
    told = found_in(story, tmp_path, ids(20))
    assert (1, 0, 0) == (told.records, told.uncommitted, told.undecided)


def test_a_step_whose_commit_is_lost_is_undecided(tmp_path: Path) -> None:
    """Later steps are committed, so most likely this one was, too."""
    story = Story().start(0).use(0, 1, 66).step(0, 2, 2)
    found = find(told_plainly(story.lines, tmp_path), ids(66))

    assert (0, 1) == (found.report.lists[0].records, found.report.lists[0].undecided)
    assert {("commits-missing", "0")} == codes(found)
    assert set() == codes(find(tmp_path, ids(67)))


def test_without_commits_what_every_rank_reached_is_committed(tmp_path: Path) -> None:
    """All but the last step of an attempt without an end."""
    story = Story().start(0).use(0, 1, 1).use(0, 2, 2)

    assert [[("0", 1, 1, None)], []] == [
        amounts(found_in(story, tmp_path, ids(one))) for one in (1, 2)
    ]
    story.lines.append({"kind": "end", "attempt": 0, "rank": 0})
    assert [("0", 1, 1, None)] == amounts(found_in(story, tmp_path, ids(2)))


def test_spans_must_overlap(tmp_path: Path) -> None:
    """Half-open, and counted in tokens; what touches does not overlap."""
    story = Story().start(0).step(0, 1, (1, 0, 10), (1, 10, 20), (1, 20, 30))

    assert [("0", 2, 1, 5)] == amounts(
        found_in(story, tmp_path, ids((1, None, 8, 10), (1, None, 27, 90)))
    )
    assert [("0", 1, 1, 10)] == amounts(found_in(story, tmp_path, ids((1, None, 10, 20))))
    assert [] == amounts(found_in(story, tmp_path, ids((1, None, 30, 40))))
    assert [("0", 3, 1, 30)] == amounts(found_in(story, tmp_path, ids(1)))
    hits = found_in(story, tmp_path, ids((1, None, 8, 11))).hits[0]
    spans = (ForbiddenExample("1", None, (0, 10)), ForbiddenExample("1", None, (10, 20)))
    assert spans == hits.examples


def test_tokens_that_are_listed_twice_count_once(tmp_path: Path) -> None:
    """Listed spans may overlap each other, and repeat."""
    story = Story().start(0).step(0, 1, (1, 0, 10))
    twice = ids((1, None, 2, 5), (1, None, 4, 6), (1, None, 2, 5), (1, "web", 3, 6))

    assert [("0", 1, 1, 4)] == amounts(found_in(story, tmp_path, twice))


def test_neighbouring_spans_may_share_tokens_by_design(tmp_path: Path) -> None:
    """With `token_overlap`, no more than so many tokens of a listed stretch are no hit."""
    story = Story().start(0).step(0, 1, (1, 0, 11), (1, 20, 30))
    listed = ids((1, None, 10, 21))

    assert [("0", 2, 1, 2)] == amounts(found_in(story, tmp_path, listed))
    assert [] == amounts(found_in(story, tmp_path, listed, token_overlap=1))
    story.step(0, 2, (1, 0, 12))
    assert [("0", 1, 1, 2)] == amounts(found_in(story, tmp_path, listed, token_overlap=1))


def test_without_a_span_on_either_side_whole_samples_are_compared(tmp_path: Path) -> None:
    """A record without one has no tokens to count, and a note says that its list has spans."""
    story = Story().start(0).step(0, 1, 1)
    found = find(told_plainly(story.lines, tmp_path), ids((1, None, 500, 501)))

    assert [("0", 1, 1, None)] == amounts(found.report.lists[0])
    assert "whole samples were compared" in found.report.notes[0]


def test_sources_must_be_the_same_where_both_sides_name_one(tmp_path: Path) -> None:
    """Null on either side is any."""
    story = Story().start(0).use(0, 1, 1, source="web").step(0, 1, 1, 2, source="code")
    story.step(0, 2, 1)

    for source, records in (("web", 2), ("code", 2), (None, 3)):
        told = found_in(story, tmp_path, ids((1, source, None, None)))
        assert records == told.records
    assert 1 == found_in(story, tmp_path, ids((1, "books", None, None))).records  # of no source
    assert 0 == found_in(story, tmp_path, ids((2, "web", None, None))).records


def test_a_list_of_other_sources_is_said(tmp_path: Path) -> None:
    """Nothing can be found then, which may be right, or a name that is written otherwise."""
    story = Story().start(0).step(0, 1, 1, source="web")
    found = find(told_plainly(story.lines, tmp_path), ids((1, "Web", None, None)))

    assert ("no source of list ids (Web) is among those of the ledger (web)",) == found.report.notes
    assert () == find(tmp_path, ids((2, "web", None, None))).report.notes
    assert () == find(tmp_path, ids((2, None, None, None))).report.notes


def test_a_ledger_without_sources_is_compared_by_ids(tmp_path: Path) -> None:
    """A note says so where that made a hit."""
    story = Story().start(0).step(0, 1, 1)
    found = find(told_plainly(story.lines, tmp_path), ids((1, "web", None, None)))

    assert 1 == found.report.lists[0].records
    assert ("the ledger names no sources: list ids was compared by ids alone",) == (
        found.report.notes
    )
    assert () == find(tmp_path, ids((2, "web", None, None))).report.notes


def test_only_what_is_listed_may_be_used(tmp_path: Path) -> None:
    """A labelled subset that is drawn anew at the restart is found, and came with it."""
    story = Story().start(0).step(0, 1, *range(40))
    story.start(1, (0, 1)).step(1, 2, *range(30, 110))

    told = found_in(story, tmp_path, ids(*range(40), kind="only"))
    assert [("1", 70, 70, None)] == amounts(told)
    assert "with the restart" == told.came(1)
    assert [] == amounts(found_in(story, tmp_path, ids(*range(110), kind="only")))


def test_several_lists_of_allowed_ids_are_one(tmp_path: Path) -> None:
    """An id must be in any of them."""
    lists = [ids(1, 2, 3, 4, 5, name="a", kind="only"), ids(6, 7, name="b", kind="only")]

    told = found_in(RESUMED, tmp_path, *lists)
    assert ("a, b", "only", 7) == (told.name, told.kind, told.ids)
    assert [("1", 1, 1, None)] == amounts(told)


def test_an_allowed_id_may_be_of_one_source_and_span(tmp_path: Path) -> None:
    """Where both sides tell: tokens beyond the listed span are not allowed."""
    story = Story().start(0).step(0, 1, (1, 0, 10), (2, 0, 10), source="web")

    def told(*lines: Any, **asked: Any) -> list[Any]:
        return amounts(found_in(story, tmp_path, ids(*lines, kind="only"), **asked))

    assert [] == told((1, "web", None, None), (2, None, None, None))
    assert [("0", 1, 1, 10)] == told((1, "web", None, None), (2, "code", None, None))
    assert [("0", 1, 1, 1)] == told((1, None, 0, 9), (2, None, 0, 5), (2, None, 5, 99))
    assert [] == told((1, None, 0, 9), (2, None, 0, 10), token_overlap=1)


def test_each_record_that_is_used_again_counts(tmp_path: Path) -> None:
    """Records are lines of the ledger, samples are distinct."""
    story = Story().start(0).step(0, 1, 1, 1).step(0, 2, 1)

    assert [("0", 3, 1, None)] == amounts(found_in(story, tmp_path, ids(1)))


def test_examples_are_few(tmp_path: Path) -> None:
    """Up to eight, each once, in the order of steps."""
    story = Story().start(0).step(0, 1, *range(20, 10, -1)).step(0, 2, *range(10, 0, -1))

    hits = found_in(story, tmp_path, ids(*range(99))).hits[0]
    assert [str(one) for one in range(20, 12, -1)] == [one.sample_id for one in hits.examples]


HOSTILE = [
    "\x1b[31mred\x1b[0m",
    "[bold]",
    "<script>",
    "a\nb",
    "",
    " ",
    "\u202eabc",
    "日本",
    "a,b\"'",
]


@pytest.mark.parametrize("way", WAYS)
def test_hostile_names_are_names(way: str, tmp_path: Path) -> None:
    """In ids, sources and streams; whatever they do to a screen, they are compared as they are."""
    story = Story().start(0)
    for step, name in enumerate(HOSTILE, 1):
        story.step(0, step, name, f"{name}!", source=name)
        story.use(0, step, f"{name}!", stream="\x1b[2J", source=name)
    listed = ids(*((name, name, None, None) for name in HOSTILE))
    found = find(WAYS[way](story.lines, tmp_path / "ledger"), listed, held_out=["\x1b[2J"])

    assert [len(HOSTILE)] * 2 == [one.records for one in found.report.lists]


def test_streams_that_are_held_out_are_forbidden_by_themselves(tmp_path: Path) -> None:
    """Each rank's validation samples are in another rank's training set, from the first step."""
    story = Story().start(0, ranks=2)
    for step, ours, theirs in ((1, (0, 4), (9, 5)), (2, (1, 2), (6, 7))):
        story.use(0, step, *ours, rank=0).end("commit", 0, step, 0)
        story.use(0, step, *theirs, rank=1).end("commit", 0, step, 1)
    story.use(0, 2, 9, rank=0, stream="eval").use(0, 2, 4, rank=1, stream="eval")

    told = found_in(story, tmp_path, held_out=["eval"])
    assert ("eval", "held-out", 2) == (told.name, told.kind, told.ids)
    assert [("0", 2, 2, None)] == amounts(told)
    assert ((0, 1),) == told.hits[0].ranks
    assert 0 == told.since


def test_a_stream_that_shares_no_sample_with_training_is_clean(tmp_path: Path) -> None:
    """Whatever its own ids are; other streams hold nothing out unless they are named."""
    story = Story().start(0).step(0, 1, 1, 2).use(0, 1, 77, stream="eval")
    story.use(0, 1, 1, stream="probe")

    assert [] == amounts(found_in(story, tmp_path, held_out=["eval"]))


REDRAWN = Story().start(0).step(0, 1, 0, 2).step(0, 2, 4, 5).use(0, 2, 3, 8, stream="eval")
REDRAWN.start(1, (0, 2)).step(1, 3, 3, 7).step(1, 4, 8, 9).use(1, 4, 1, 6, stream="eval")


def test_a_split_that_is_drawn_anew_is_said(tmp_path: Path) -> None:
    """Former held-out samples are trained on: it came with the restart, and the set changed."""
    found = find(told_plainly(REDRAWN.lines, tmp_path), held_out=["eval"])

    (told,) = found.report.lists
    assert [("1", 2, 2, None)] == amounts(told)
    assert (2, ("1",), "with the restart") == (told.former, told.redrawn, told.came(1))
    assert found.report.notes == (
        "attempt 1 drew the samples of stream eval anew; it used 2 samples that were held out "
        "before",
    )


def test_a_sample_is_held_out_since_an_attempt_holds_it_out(tmp_path: Path) -> None:
    """That it was trained on before is a leak since the restart that drew the split anew."""
    story = Story().start(0).step(0, 1, 0, 1).use(0, 1, 3, stream="eval")
    story.start(1, (0, 1)).step(1, 2, 4).use(1, 2, 1, stream="eval")

    told = found_in(story, tmp_path, held_out=["eval"])
    assert [("0", 1, 1, None)] == amounts(told)
    assert (1, 0, "with the restart") == (told.since, told.former, told.came(1))


@pytest.mark.parametrize(
    ("first", "second", "redrawn"),
    [((3, 8), (3, 8), ()), ((3, 8), (3,), ()), ((3,), (8, 3), ()), ((3, 8), (8, 1), ("1",))],
)
def test_a_split_that_was_seen_in_part_was_not_drawn_anew(
    first: tuple[int, ...], second: tuple[int, ...], redrawn: tuple[str, ...], tmp_path: Path
) -> None:
    """An attempt that died during its evaluation holds fewer samples, not others."""
    story = Story().start(0).step(0, 1, 0).use(0, 1, *first, stream="eval")
    story.start(1, (0, 1)).step(1, 2, 5).use(1, 2, *second, stream="eval")

    assert redrawn == found_in(story, tmp_path, held_out=["eval"]).redrawn


def test_an_attempt_that_did_not_evaluate_drew_nothing_anew(tmp_path: Path) -> None:
    """What it used is held out, not held out before."""
    story = Story().start(0).step(0, 1, 0).use(0, 1, 3, stream="eval")
    story.start(1, (0, 1)).step(1, 2, 3)

    told = found_in(story, tmp_path, held_out=["eval"])
    assert (1, 0, ()) == (told.records, told.former, told.redrawn)


def test_attempts_outside_the_lineage_hold_out_too(tmp_path: Path) -> None:
    """A model was chosen by these samples, whichever attempt evaluated it."""
    story = Story().start(0).step(0, 1, 1).start(1, (0, 1)).step(1, 2, 2)
    story.use(1, 2, 66, stream="eval").start(2, (0, 1)).step(2, 2, 66)

    told = found_in(story, tmp_path, held_out=["eval"])
    assert [("2", 1, 1, None)] == amounts(told)
    assert 1 == told.since


def test_held_out_spans_and_sources_are_compared_as_in_lists(tmp_path: Path) -> None:
    """Half a document may be held out."""
    story = Story().start(0).step(0, 1, (1, 0, 10), source="web").step(0, 2, (2, 0, 5))
    story.use(0, 2, (1, 10, 20), (2, 4, 6), stream="eval", source="web")

    assert [("0", 1, 1, 1)] == amounts(found_in(story, tmp_path, held_out=["eval"]))


def test_a_stream_that_is_not_there_is_not_known(tmp_path: Path) -> None:
    """Nothing can be proven of it; of those that are there, it can."""
    found = find(told_plainly(REDRAWN.lines, tmp_path), held_out=["test", "eval"])

    assert {("stream-not-held", None)} == codes(found)
    assert ["eval"] == [one.name for one in found.report.lists]
    assert "stream test" in found.report.unseen[0].text


def test_training_on_every_held_out_sample_is_suspicious(tmp_path: Path) -> None:
    """Ids that each stream counts from 0 are not the same samples: a note says so."""
    story = Story().start(0).step(0, 1, 0, 1, 2, 3).use(0, 1, 0, 1, stream="eval")
    found = find(told_plainly(story.lines, tmp_path), held_out=["eval"])

    assert 2 == found.report.lists[0].records
    assert "counts its ids anew" in found.report.notes[-1]


def test_unused_stages_are_not_trained_on_and_hold_out(tmp_path: Path) -> None:
    """A sample that was only read trains nothing; one that was read for evaluation is held out."""
    story = Story().start(0).step(0, 1, 1, 2).use(0, 1, 66, stage="read")
    story.use(0, 1, 2, stream="eval", stage="dropped")

    assert [] == amounts(found_in(story, tmp_path, ids(66)))
    assert [("0", 1, 1, None)] == amounts(found_in(story, tmp_path, held_out=["eval"]))


def test_nothing_to_look_for_finds_nothing(tmp_path: Path) -> None:
    """No list, no stream."""
    found = find(told_plainly(RESUMED.lines, tmp_path))

    assert ((), (), ()) == (found.report.lists, found.report.unseen, found.report.notes)
    assert hits_of(found).is_empty()


# What may hide a forbidden sample


def two_ranks() -> Story:
    """Two ranks, two attempts, two steps each, all counted."""
    story = Story()
    for attempt, resumed in ((0, None), (1, (0, 2))):
        story.start(attempt, resumed, ranks=2)
        for step in (1, 2) if attempt == 0 else (3, 4):
            for rank in (0, 1):
                story.use(attempt, step, 10 * step + rank, 10 * step + rank + 5, rank=rank)
                story.end("commit", attempt, step, rank)
    return story


def without(story: Story, **wanted: Any) -> Story:
    """Lose the lines that have all of these values."""
    return Story(
        [
            line
            for line in story.lines
            if not all(line.get(name) == value for name, value in wanted.items())
        ]
    )


LOST: dict[str, tuple[dict[str, Any], set[tuple[str, str | None]]]] = {
    "nothing": ({"rank": 7}, set()),
    "a rank": ({"attempt": 0, "rank": 1}, {("rank-missing", "0")}),
    "a rank of all attempts": ({"rank": 1}, {("rank-missing", "0"), ("rank-missing", "1")}),
    "a record": ({"sample_id": 21}, {("records-missing", "0")}),
    "a record of the newest": ({"sample_id": 46}, {("records-missing", "1")}),
    "a rank's step": (
        {"kind": "sample", "step": 3, "rank": 0},
        {("records-missing", "1")},
    ),
    "a step": ({"step": 1}, {("steps-missing", "0")}),
    "an attempt": ({"attempt": 0}, {("parent-missing", "0")}),
}


@pytest.mark.parametrize("what", LOST)
def test_what_is_missing_is_unseen(what: str, tmp_path: Path) -> None:
    """Ranks, records, steps, a whole attempt: each may have held a forbidden sample."""
    wanted, expected = LOST[what]
    story = without(two_ranks(), **wanted)
    found = find(told_plainly(story.lines, tmp_path), ids(66))

    assert expected == codes(found)
    assert 0 == found.report.lists[0].records


def test_what_was_rolled_back_hides_nothing(tmp_path: Path) -> None:
    """Records that are missing after the checkpoint are in no weights."""
    story = two_ranks()
    story.start(2, (0, 1), ranks=2)
    for rank in (0, 1):
        story.use(2, 2, 50 + rank, rank=rank).end("commit", 2, 2, rank)

    for lost in ({"sample_id": 21}, {"attempt": 1, "rank": 1}, {"step": 3}):
        found = find(told_plainly(without(story, **lost).lines, tmp_path), ids(66))
        assert set() == codes(found)


def test_ranks_that_do_not_log_are_unseen(tmp_path: Path) -> None:
    """On purpose or not, nobody saw what they used."""
    story = without(two_ranks(), rank=1)
    for line in story.lines:
        if line["kind"] == "start":
            line["data"] = {**line["data"], "logged_ranks": [0]}

    found = find(told_plainly(story.lines, tmp_path), ids(66))
    assert {("ranks-not-logged", "0"), ("ranks-not-logged", "1")} == codes(found)
    assert found.report.unseen[0].text == "rank 1 of attempt 0 does not log"


def test_what_blocks_may_be_waived_or_come_later(tmp_path: Path) -> None:
    """Ranks that the contract does not ask are not missed, and a later attempt hides nothing."""
    story = without(two_ranks(), rank=1, attempt=1)
    for line in story.lines:
        if line["kind"] == "start" and line["attempt"] == 1:
            line["data"] = {**line["data"], "logged_ranks": [0]}
    report = find(told_plainly(story.lines, tmp_path), ids(66)).report

    assert [("ranks-not-logged", "1")] == [(one.code, one.attempt) for one in report.blocking()]
    assert () == report.blocking(waived={"ranks-not-logged"})
    assert () == report.blocking(later={"1"})
    assert 1 == len(report.blocking(waived={"rank-missing"}, later={"0"}))


def test_only_the_ranks_that_the_contract_samples_are_asked(tmp_path: Path) -> None:
    """That others do not log is then a limit that it waives."""
    (tmp_path / "ids.txt").write_text("66\n")
    contract = Contract(forbid=(IdList(tmp_path / "ids.txt"),), ranks=Ranks(sampled=(0,)))
    root = told_plainly(without(two_ranks(), rank=1).lines, tmp_path / "ledger")
    found = forbidden_in(open_source([root], Reading()), contract)

    assert found is not None
    assert {("ranks-not-logged", "0"), ("ranks-not-logged", "1")} == codes(found)
    terms = contract.with_terms(default="relative")
    assert () == found.report.blocking(terms.waived)


def test_a_rank_that_joined_after_the_checkpoint_is_not_missed(tmp_path: Path) -> None:
    """Its records would be rolled back."""
    story = Story().start(0)
    story.step(0, 1, 1).step(0, 2, 2)
    for since in (2, 1):
        told = {"kind": "membership", "attempt": 0, "rank": 0, "step": since}
        lines = [*story.lines, {**told, "data": {"ranks": [0, 1]}}]
        whole = Story(lines).start(1, (0, 1)).step(1, 2, 3)
        found = find(told_plainly(whole.lines, tmp_path), ids(66))
        assert ({("rank-missing", "0")} if since == 1 else set()) == codes(found)


def test_a_void_try_need_not_be_whole(tmp_path: Path) -> None:
    """Its records changed no weights, and a step that all ranks voided needs no count."""
    story = Story().start(0).use(0, 1, 1).end("void", 0, 1).step(0, 1, 2).step(0, 2, 3)
    story.use(0, 3, 4).end("void", 0, 3).start(1, (0, 3)).step(1, 4, 5)

    assert set() == codes(find(told_plainly(story.lines, tmp_path), ids(66)))
    assert set() == codes(find(told_plainly(without(story, sample_id=1).lines, tmp_path), ids(66)))


def torn_after(story: Story, tmp_path: Path) -> Path:
    """Write JSON Lines whose last line is cut."""
    root = told_plainly(story.lines, tmp_path)
    with (root / "all.jsonl").open("a") as file:
        file.write('{"kind": "sample", "attempt": ')
    return root


@pytest.mark.parametrize("counts", [True, False])
def test_a_torn_file_hides_what_is_not_counted(counts: bool, tmp_path: Path) -> None:
    """Commits that count all that is there leave no doubt."""
    story = Story(counts=counts).start(0).step(0, 1, 1).step(0, 2, 2)
    found = find(torn_after(story, tmp_path), ids(66))

    assert (set() if counts else {("unread-segment", "0")}) == codes(found)


def test_a_torn_file_may_have_lost_what_ended_a_try(tmp_path: Path) -> None:
    """A hit in a step whose void may be lost is undecided; one that is counted is a hit."""
    story = Story(counts=False).start(0).step(0, 1, 1).step(0, 2, 66)
    found = find(torn_after(story, tmp_path), ids(66, 1))

    assert (1, 1) == (found.report.lists[0].records, found.report.lists[0].undecided)
    counted = Story().start(0).step(0, 1, 1).step(0, 2, 66)
    assert 1 == find(torn_after(counted, tmp_path), ids(66)).report.lists[0].records


def test_a_try_with_more_records_than_its_commit_says_is_undecided(tmp_path: Path) -> None:
    """The void between its two tries is lost, and nothing tells which of them was committed."""
    story = Story().start(0).use(0, 1, 66).end("void", 0, 1).step(0, 1, 1)
    assert 0 == found_in(story, tmp_path, ids(66)).records

    found = find(told_plainly(without(story, kind="void").lines, tmp_path), ids(66))
    assert (0, 1) == (found.report.lists[0].records, found.report.lists[0].undecided)
    assert {("voids-missing", "0")} == codes(found)


def test_a_rank_without_the_void_of_a_step_that_others_voided_is_undecided(tmp_path: Path) -> None:
    """A step that a checkpoint holds was committed by that fact, but not this one."""
    story = Story().start(0, ranks=2)
    for rank in (0, 1):
        story.use(0, 1, 66 + rank, rank=rank).end("void", 0, 1, rank)
    story.start(1, (0, 1), ranks=2)
    for rank in (0, 1):
        story.use(1, 2, rank, rank=rank).end("commit", 1, 2, rank)
    assert 1 == found_in(story, tmp_path, ids(66)).voided

    found = find(told_plainly(without(story, kind="void", rank=0).lines, tmp_path), ids(66))
    assert (0, 1) == (found.report.lists[0].records, found.report.lists[0].undecided)
    assert ("voids-missing", "0") in codes(found)


@pytest.mark.parametrize("table", ["samples", "events"])
def test_a_missing_segment_hides_records(table: str, tmp_path: Path) -> None:
    """Of samples: unless commits count every step in full. Of events, there are no records."""
    root = emit_ledger(two_ranks().lines, tmp_path / "ledger", segment_bytes=1)
    assert set() == codes(find(root, ids(66)))
    victim = sorted((root / "attempt=0").glob(f"{table}-*-000000.arrows"))[0]
    victim.unlink()

    found = codes(find(root, ids(66)))
    if table == "samples":
        assert {("unread-segment", "0"), ("records-missing", "0")} == found
    else:
        assert set() == found


def test_records_that_a_writer_put_away_are_unseen(tmp_path: Path) -> None:
    """With `retain`, a segment that older checkpoints need not is emptied, and says so."""
    story = Story().start(0)
    for step in range(1, 7):
        story.step(0, step, step)
        told = {"kind": "checkpoint", "attempt": 0, "rank": 0, "step": step}
        story.lines.append({**told, "data": {"phase": "begin"}})
    root = emit_ledger(story.lines, tmp_path / "kept", segment_bytes=1)
    assert set() == codes(find(root, ids(66)))

    root = emit_ledger(story.lines, tmp_path / "ledger", segment_bytes=1, retain=1)
    found = find(root, ids(66))
    assert {("records-missing", "0"), ("records-put-away", "0")} == codes(found)
    assert any("not kept (`retain`)" in one.text for one in found.report.unseen)


def test_records_that_a_writer_lost_are_unseen(tmp_path: Path) -> None:
    """It says of which step; a step that is counted in full lost nothing."""
    for step, counts in ((1, False), (1, True), (9, False), (None, False)):
        story = Story(counts=counts).start(0).step(0, 1, 1)
        lost = {"kind": "lost", "attempt": 0, "rank": 0, "step": step, "data": {"records": 3}}
        story.lines.append(lost)
        found = find(told_plainly(story.lines, tmp_path), ids(66))
        is_hidden = not counts and step in (1, None)
        assert ({("records-missing", "0")} if is_hidden else set()) == codes(found)


def test_a_log_that_begins_later_does_not_show_what_came_before(tmp_path: Path) -> None:
    """Two windows around a checkpoint say nothing of the steps before them."""
    before = Story().start(0).step(0, 8, 1).step(0, 9, 2)
    after = Story().start(1, (0, 9)).step(1, 10, 3)
    pre, post = (
        told_plainly(one.lines, tmp_path / name) / "all.jsonl"
        for one, name in ((before, "pre"), (after, "post"))
    )
    source = open_windows(pre, post, 9, Reading())
    found = find_forbidden(source, source.search, [ids(2, 3)], held_out=["eval"])

    assert [("pre", 1, 1, None), ("post", 1, 1, None)] == amounts(found.report.lists[0])
    assert {("steps-missing", "pre"), ("stream-not-held", None)} == codes(found)
    assert "steps 1 to 7 of attempt pre left nothing" in [one.text for one in found.report.unseen]


def attempts_apart(story: Story, root: Path, torn: int) -> Path:
    """Write each attempt to a file of its own, one of them with a last line that is cut."""
    root.mkdir(parents=True, exist_ok=True)
    for attempt in sorted({line["attempt"] for line in story.lines}):
        lines = [json.dumps(line) for line in story.lines if line["attempt"] == attempt]
        cut = '{"kind": "sample", "att' if attempt == torn else ""
        (root / f"{attempt}.jsonl").write_text("".join(f"{line}\n" for line in lines) + cut)
    return root


def test_a_torn_file_may_have_held_a_step_of_which_nothing_is_left(tmp_path: Path) -> None:
    """The checkpoint that was loaded holds it."""
    story = Story().start(0).step(0, 1, 1).start(1, (0, 2)).step(1, 3, 3)
    found = find(attempts_apart(story, tmp_path, torn=0), ids(66))

    assert {("steps-missing", "0"), ("unread-segment", "0")} == codes(found)


def test_a_torn_file_hides_nothing_of_a_step_that_all_ranks_voided(tmp_path: Path) -> None:
    """And a void try stays void, whatever was lost after it."""
    story = Story().start(0).step(0, 1, 1).use(0, 2, 66).end("void", 0, 2)
    story.start(1, (0, 2)).step(1, 3, 3)
    found = find(attempts_apart(story, tmp_path, torn=0), ids(66))

    assert set() == codes(found)
    assert (0, 1) == (found.report.lists[0].records, found.report.lists[0].voided)


def test_one_rank_that_does_not_count_leaves_a_doubt(tmp_path: Path) -> None:
    """A step is counted in full by all of its ranks, or not at all."""
    story = Story().start(0, ranks=2).use(0, 1, 1).end("commit", 0, 1)
    story.use(0, 1, 2, rank=1).end("commit", 0, 1, rank=1)
    assert set() == codes(find(torn_after(story, tmp_path), ids(66)))

    story.lines[-1]["data"] = {}
    assert {("unread-segment", "0")} == codes(find(torn_after(story, tmp_path), ids(66)))


def test_steps_may_begin_at_0(tmp_path: Path) -> None:
    """A log that counts so is read as it is."""
    story = Story().start(0).step(0, 0, 1, 2).step(0, 1, 3)
    assert [("0", 1, 1, None)] == amounts(found_in(story, tmp_path, ids(2)))

    found = find(told_plainly(without(story, sample_id=1).lines, tmp_path), ids(66))
    assert {("records-missing", "0")} == codes(found)


def test_a_torn_segment_of_samples_loses_no_void(tmp_path: Path) -> None:
    """What it still holds is a hit if its step is committed."""
    story = Story().start(0).use(0, 1, 66).use(0, 1, 1, slot=1).end("commit", 0, 1)
    root = emit_ledger(story.lines, tmp_path / "ledger")
    (path,) = (root / "attempt=0").glob("samples-*.arrows")
    path.write_bytes(path.read_bytes()[:-100])
    found = find(root, ids(66))

    assert (1, 0) == (found.report.lists[0].records, found.report.lists[0].undecided)
    assert {("records-missing", "0"), ("unread-segment", "0")} == codes(found)


def test_a_segment_of_events_holds_no_records(tmp_path: Path) -> None:
    """One that is missing may hide commits and voids of what was found, and nothing else."""
    story = Story(counts=False).start(0)
    for step in range(1, 6):
        story.use(0, step, step, stream="eval").step(0, step, 10 * step)
    root = write_ledger(story.lines, tmp_path, rng=random.Random(3))
    for name in ("000000", "000001"):
        assert (root / f"attempt=0/events-r00000x-{name}.parquet").exists()
    (root / "attempt=0/events-r00000x-000000.parquet").unlink()

    assert set() == codes(find(root, ids(66), held_out=["eval"]))
    assert {("unread-segment", "0")} == codes(find(root, ids(40)))


def test_rows_that_two_files_hold_count_once(tmp_path: Path) -> None:
    """A copy does not stand for a record that is missing."""
    story = Story().start(0).step(0, 1, 1, 2, 3, 4)
    ((samples, events),) = tables(story.lines).values()
    (tmp_path / "attempt=0").mkdir()
    for nth, part in enumerate((samples.slice(0, 3), samples.slice(1, 2))):
        write_segment(part, tmp_path / f"attempt=0/samples-r00000x-{nth:06d}")
    write_segment(events, tmp_path / "attempt=0/events-r00000x-000000")
    found = find(tmp_path, ids(2))

    assert [("0", 1, 1, None)] == amounts(found.report.lists[0])
    assert {("records-missing", "0")} == codes(found)
    assert "1 record that commits" in found.report.unseen[0].text


HELD_LOST: dict[str, tuple[dict[str, Any], str]] = {
    "a rank of an attempt outside the lineage": ({"attempt": 1, "rank": 1}, "rank-missing"),
    "a rank": ({"rank": 1}, "rank-missing"),
}


@pytest.mark.parametrize("what", HELD_LOST)
def test_ids_of_a_held_out_stream_may_be_lost(what: str, tmp_path: Path) -> None:
    """In any attempt: what else the stream holds is not known."""
    wanted, code = HELD_LOST[what]
    story = two_ranks().use(1, 4, 77, stream="eval")
    story.start(2, (0, 2), ranks=2)
    for rank in (0, 1):
        story.use(2, 3, 50 + rank, rank=rank).end("commit", 2, 3, rank)
    assert set() == codes(find(told_plainly(story.lines, tmp_path), held_out=["eval"]))

    found = find(told_plainly(without(story, **wanted).lines, tmp_path), held_out=["eval"])
    assert (code, "1") in codes(found)
    assert any(
        "what else is in stream eval is not known" in one.text for one in found.report.unseen
    )


def test_a_torn_file_may_hold_ids_of_a_held_out_stream(tmp_path: Path) -> None:
    """Nothing counts these, so nothing clears it."""
    story = Story().start(0).step(0, 1, 1).use(0, 1, 77, stream="eval").step(0, 2, 2)

    assert set() == codes(find(torn_after(story, tmp_path), ids(66)))
    assert {("unread-segment", "0")} == codes(find(torn_after(story, tmp_path), held_out=["eval"]))


# Frames for the reports


def test_hits_are_measured_like_records(tmp_path: Path) -> None:
    """Each record once, however many lists it is against, in the order of steps."""
    story = Story().start(0).step(0, 1, (1, 0, 10), (2, 0, 10)).step(0, 2, (3, 0, 4))
    story.start(1, (0, 2)).step(1, 3, (1, 5, 9)).step(1, 5, (1, 9, 12))
    root = told_plainly(story.lines, tmp_path)
    found = find(root, ids((1, None, 0, 4), (1, None, 6, 99), name="a"), ids(1, 3, name="b"))

    whole = hits_of(found)
    assert [("0", 1, "1", 10), ("0", 2, "3", 4), ("1", 3, "1", 4), ("1", 5, "1", 3)] == [
        (attempt, step, str(sample), tokens)
        for attempt, step, sample, tokens in whole.select(
            "attempt", "step", "sample_id", "tokens"
        ).iter_rows()
    ]
    assert [["a", "b"], ["b"], ["a", "b"], ["a", "b"]] == whole["lists"].to_list()
    assert (4, 2, 21) == (amount(whole).records, amount(whole).samples, amount(whole).tokens)
    resumed = hits_of(found, "1")
    findings = runs(resumed, "forbidden", ClauseName.FORBIDDEN)
    assert [(3, 3, 4), (5, 5, 3)] == [
        (one.first_step, one.last_step, one.amount.tokens) for one in findings
    ]
    assert [3] == hits_of(found, "1", 1, 4)["step"].to_list()
    assert hits_of(found, "2").is_empty()


def test_a_contract_names_its_lists(tmp_path: Path) -> None:
    """By the file's name, unless it says another; the file must hold ids of the ledger's type."""
    root = told_plainly(RESUMED.lines, tmp_path / "ledger")
    (tmp_path / "a.txt").write_text("1\n8\n")
    (tmp_path / "b.csv").write_text("index,source\n2,web\n")
    (tmp_path / "c.txt").write_text("x\n")
    source = open_source([root], Reading())
    lists = (
        IdList(tmp_path / "a.txt"),
        IdList(tmp_path / "b.csv", name="spam", column="index", source="code"),
    )
    rules = read_lists(Contract(forbid=lists, only=lists[:1]), source.search)

    assert [("a.txt", "forbid"), ("spam", "forbid"), ("a.txt", "only")] == [
        (one.name, one.kind) for one in rules
    ]
    assert [(2, "code", None, None)] == rules[1].listed.rows()
    found = find_forbidden(source, source.search, rules)
    assert [2, 1, 6] == [one.records for one in found.report.lists]
    with pytest.raises(UnreadableError, match=r"c\.txt"):
        read_lists(Contract(forbid=(IdList(tmp_path / "c.txt"),)), source.search)


@pytest.mark.parametrize("rows_at_once", [1, 3, 1000])
def test_however_little_is_read_at_once_the_same_is_found(
    rows_at_once: int, tmp_path: Path
) -> None:
    """Stretches of steps only bound the memory."""
    rng = random.Random(5)
    root = write_ledger(
        read_lines(FIXTURES / "zoo/torch-ddp-double-failure/run"), tmp_path, rng=rng
    )
    lists = [ids(*range(0, 205, 7)), ids(*range(200), kind="only")]

    whole, parts = find(root, *lists), find(root, *lists, rows_at_once=rows_at_once)
    assert whole.report == parts.report
    assert whole.hits.equals(parts.hits)
    assert whole.hits.height > 0
    assert () == whole.report.unseen


@pytest.mark.parametrize("folder", sorted((FIXTURES / "zoo").iterdir()), ids=lambda one: one.name)
def test_real_runs_hold_what_they_hold(folder: Path) -> None:
    """A tenth of the ids of each zoo run, looked for by plain Python and by us."""
    run = folder / "run"
    lines = read_lines(run)
    known = sorted({line["sample_id"] for line in lines if line["kind"] == "sample"}, key=str)
    listed: list[Listed] = [(one, None, None, None) for one in known[::10]]
    found = find(run, ids(*listed), ids(*listed, kind="only"))

    assert expected_of(lines, listed, against_forbidden, 0) == places_of(found, 0)
    assert expected_of(lines, listed, against_allowed, 0) == places_of(found, 1)


# Random ledgers, against an oracle


def expected_of(
    lines: Sequence[Line],
    listed: Sequence[Listed],
    against: Callable[[Listed, Sequence[Listed], int], list[int | None]],
    overlap: int,
) -> dict[str, list[tuple[Any, ...]]]:
    """Say, by the oracle, what of each status is against a list: the place, and tokens."""
    found: dict[str, list[tuple[Any, ...]]] = {"hit": []}
    for use in uses(lines):
        for tokens in against(use.listed, listed, overlap):
            found.setdefault(use.status, []).append((*use.place, tokens))
    amounts_of = {status: len(rows) for status, rows in found.items() if status != "hit"}
    return {"hit": sorted(found["hit"], key=repr), **{key: [(n,)] for key, n in amounts_of.items()}}


def places_of(found: Found, nth: int) -> dict[str, list[tuple[Any, ...]]]:
    """Give what was found in the shape of the oracle's answer."""
    told = found.report.lists[nth]
    columns = ["attempt", "step", "slot", "rank", "row", "sample_id", "source"]
    hits = found.hits.filter(list=nth).select(*columns, "token_start", "token_end", "against")
    others = {
        "voided": told.voided,
        "uncommitted": told.uncommitted,
        "undecided": told.undecided,
    }
    assert hits.height == told.records
    return {
        "hit": sorted(hits.rows(), key=repr),
        **{status: [(n,)] for status, n in others.items() if n},
    }


SOURCES = st.sampled_from([None, "web", "co\x1bde"])


@st.composite
def spans(draw: st.DrawFn) -> tuple[int | None, int | None]:
    """A short span, or none."""
    start = draw(st.integers(0, 9))
    return draw(st.sampled_from([(None, None), *((start, start + n) for n in range(6))]))


@st.composite
def listed_lines(draw: st.DrawFn) -> list[Listed]:
    """Some lines of a list, of ids that ledgers have and of others."""
    lines = draw(st.lists(st.tuples(st.integers(-2, 4), SOURCES, spans()), min_size=1, max_size=6))
    return [(one, source, *span) for one, source, span in lines]


@st.composite
def ledgers(draw: st.DrawFn) -> list[Line]:
    """
    One to three attempts of one or two ranks, with void tries, a cut end and evaluation.

    The last attempt but one may be abandoned.
    """
    story = Story(counts=draw(st.booleans()))
    has_source, has_span = draw(st.booleans()), draw(st.booleans())
    ranks = draw(st.integers(1, 2))
    reached: dict[int, tuple[int, int]] = {}
    """Attempt → the first and the last step that can be resumed from."""
    for attempt in range(draw(st.integers(1, 3))):
        parent = draw(st.sampled_from(sorted(reached))) if reached else None
        at = None if parent is None else draw(st.integers(*reached[parent]))
        story.start(attempt, None if parent is None or at is None else (parent, at), ranks)
        first = (at or 0) + 1
        last = first + draw(st.integers(0, 2))
        for step in range(first, last + 1):
            tries = draw(st.sampled_from([("commit",), ("void", "commit")]))
            for kind in tries:
                for rank in range(ranks):
                    _use(draw, story, attempt, step, rank, has_source, has_span)
                    story.end(kind, attempt, step, rank)
            if draw(st.booleans()):
                story.use(attempt, step, draw(st.integers(-2, 4)), stream="eval")
        reached[attempt] = (first, last)
        for rank in range(ranks):  # the step in which it died
            _use(draw, story, attempt, last + 1, rank, has_source, has_span)
            if rank and draw(st.booleans()):
                story.end("commit", attempt, last + 1, rank)
    return story.lines


def _use(
    draw: st.DrawFn,
    story: Story,
    attempt: int,
    step: int,
    rank: int,
    has_source: bool,
    has_span: bool,
) -> None:
    for row in range(draw(st.integers(1, 2))):
        sample = draw(st.integers(-2, 4))
        start, end = draw(spans()) if has_span else (None, None)
        more = {"source": draw(SOURCES)} if has_source else {}
        line = {"kind": "sample", "attempt": attempt, "rank": rank, "step": step, "slot": 0}
        nth = len(story.lines)  # no row is there twice: nothing looks like a try again
        line |= {"row": 10 * nth + row, "sample_id": sample, **more}
        story.lines.append(line | {"token_start": start, "token_end": end})


def as_text(lines: Sequence[Line]) -> list[Line]:
    """Give the same ledger with text ids."""
    return [
        {**line, "sample_id": f"[{line['sample_id']}]\x1b"} if "sample_id" in line else line
        for line in lines
    ]


@OVER_AND_OVER
@given(
    lines=ledgers(),
    forbidden=listed_lines(),
    allowed=listed_lines(),
    overlap=st.sampled_from([None, 0, 1, 2]),
    text=st.booleans(),
    way=st.sampled_from(["JSON Lines", "JSON Lines", "sealed segments", "open segments"]),
)
def test_random_ledgers_are_searched_as_the_oracle_does(
    lines: list[Line],
    forbidden: list[Listed],
    allowed: list[Listed],
    overlap: int | None,
    text: bool,
    way: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Both kinds of lists, both types of ids, every way that a ledger is written."""
    if text:
        lines = as_text(lines)
        forbidden = [(f"[{one[0]}]\x1b", *one[1:]) for one in forbidden]
        allowed = [(f"[{one[0]}]\x1b", *one[1:]) for one in allowed]
    root = WAYS[way](lines, tmp_path_factory.mktemp("run") / "ledger")
    held = {line["sample_id"] for line in lines if line.get("stream") == "eval"}
    found = find(
        root,
        ids(*forbidden),
        ids(*allowed, kind="only"),
        held_out=["eval"] if held else [],
        token_overlap=overlap,
    )

    assert expected_of(lines, forbidden, against_forbidden, overlap or 0) == places_of(found, 0)
    assert expected_of(lines, allowed, against_allowed, overlap or 0) == places_of(found, 1)
    if held:
        whole: list[Listed] = [(one, None, None, None) for one in held]
        assert expected_of(lines, whole, against_forbidden, 0) == places_of(found, 2)
    assert {code for code, _ in codes(found)} <= {"commits-missing"}


@settings(OVER_AND_OVER, max_examples=20)
@given(lines=ledgers(), forbidden=listed_lines(), allowed=listed_lines())
def test_ledgers_of_the_real_writer_are_searched_as_the_oracle_does(
    lines: list[Line],
    forbidden: list[Listed],
    allowed: list[Listed],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """What ranks emitted through the writer, each then killed."""
    root = emit_ledger(lines, tmp_path_factory.mktemp("run") / "ledger", segment_bytes=1)
    found = find(root, ids(*forbidden), ids(*allowed, kind="only"))

    assert expected_of(lines, forbidden, against_forbidden, 0) == places_of(found, 0)
    assert expected_of(lines, allowed, against_allowed, 0) == places_of(found, 1)


@OVER_AND_OVER
@given(lines=ledgers(), forbidden=listed_lines(), nth=st.integers(0, 200))
def test_losing_a_line_of_training_never_decides(
    lines: list[Line],
    forbidden: list[Listed],
    nth: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A record, commit or void less makes nothing clean that was not, and nothing a hit."""
    for line in lines:
        if line["kind"] == "commit" and not line["data"]:
            return  # without counts, a record that is lost leaves no trace
    candidates = [
        at
        for at, line in enumerate(lines)
        if line["kind"] in ("sample", "commit", "void") and line.get("stream") is None
    ]
    gone = candidates[nth % len(candidates)]
    folder = tmp_path_factory.mktemp("run")
    before = find(told_plainly(lines, folder / "whole"), ids(*forbidden))
    after = find(
        told_plainly([*lines[:gone], *lines[gone + 1 :]], folder / "less"), ids(*forbidden)
    )

    was, left = before.report.lists[0], after.report.lists[0]
    if not was.records:
        assert 0 == left.records
    elif not left.records:
        assert after.report.unseen or left.uncommitted > was.uncommitted
