"""What changed between a checkpoint and its resume, and what a contract makes of it."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pytest
from conftest import FIXTURES, ROOT
from fingerprinting import NOTHING, Job, must

from ledger_audit.continuity.contract import Allowance, Contract, Fingerprints
from ledger_audit.continuity.fingerprints import (
    at_checkpoint,
    at_restore,
    audit_fingerprints,
    changes,
    changes_of,
    faults,
    limits,
    mismatches,
    rank_change,
    rank_differences,
    undecided,
    unlogged,
)
from ledger_audit.continuity.fingerprints.changes import LONGEST, MOST_IN_ALL, MOST_OF_A_KEY
from ledger_audit.continuity.fingerprints.effects import EFFECTS, FURTHER, OF_A_RANK, REQUIRED
from ledger_audit.continuity.lineage import Attempt, reconstruct
from ledger_audit.errors import UnreadableError
from ledger_audit.fingerprint import index_files
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.model.fingerprints import (
    DATA_LIBRARIES,
    Change,
    RestoreOrder,
)

PAGE = (ROOT / "docs" / "fingerprints.md").read_text()


def told(found: tuple[Change, ...]) -> list[tuple[Any, ...]]:
    """Give the keys and values of changes."""
    return [(one.key, one.before, one.after) for one in found]


def test_what_is_the_same_is_no_change() -> None:
    """Whatever the order of keys, for numbers that are equal, and for NaN."""
    before = {"versions": {"a": 1, "b": 2}, "blend": [0.5, 1], "x": float("nan"), "y": None}
    after = {"x": float("nan"), "blend": [0.5, 1.0], "versions": {"b": 2, "a": 1}}

    assert () == changes(before, after, NOTHING)


def test_objects_are_told_by_their_keys() -> None:
    """Libraries, index files, workers, and others down to four levels; lists are one value."""
    before = {
        "versions": {"torch": "2.13.0", "numpy": "2.4.6"},
        "index_files": {"a.npy": "sha256:1", "b.npy": "sha256:2"},
        "worker_states": {"0": "sha256:3", "1": "sha256:4"},
        "dataset_order": ["web", "books"],
        "mine": {"a": {"b": {"c": {"d": {"e": 1}}}}},
    }
    after = {
        "versions": {"torch": "2.14.0", "numpy": "2.4.6"},
        "index_files": {"a.npy": "sha256:9", "b.npy": "sha256:2"},
        "worker_states": {"0": "sha256:3", "1": "sha256:8"},
        "dataset_order": ["books", "web"],
        "mine": {"a": {"b": {"c": {"d": {"e": 2}}}}},
    }

    assert [
        ("dataset_order", ["web", "books"], ["books", "web"]),
        ("index_files.a.npy", "sha256:1", "sha256:9"),
        ("versions.torch", "2.13.0", "2.14.0"),
        ("worker_states.1", "sha256:4", "sha256:8"),
        ("mine.a.b.c.d", {"e": 1}, {"e": 2}),
    ] == told(changes(before, after, NOTHING))


def test_a_key_of_one_side_is_told_and_not_compared() -> None:
    """It breaks nothing that it should match, and leaves it unproven."""
    contract = must("seed", "packing")
    found = changes({"seed": 7, "drop_last": True}, {"seed": 7, "packing": "best-fit"}, contract)

    assert [("drop_last", True, None), ("packing", None, "best-fit")] == told(found)
    assert ["before", "after"] == [one.logged for one in found]
    assert [False, False] == [one.is_compared for one in found]
    assert () == mismatches(found)
    before, after = {"seed": 7, "drop_last": True}, {"seed": 7, "packing": "best-fit"}
    assert ("packing",) == unlogged(before, after, contract)


def test_an_index_file_that_is_gone_is_a_change_and_a_library_is_not() -> None:
    """Index files are listed in full; of libraries, one side may have asked for more."""
    before = {"index_files": {"a": "1", "b": "2"}, "versions": {"torch": "2", "numpy": "2"}}
    after = {"index_files": {"a": "1"}, "versions": {"torch": "2"}}
    contract = must("index_files", "versions")
    found = changes(before, after, contract)

    assert [("index_files.b", "2", None)] == told(mismatches(found))
    assert ("versions.numpy",) == unlogged(before, after, contract)


def test_a_side_without_a_fingerprint_is_one_fact() -> None:
    """Not one for each key of the other side; the number of ranks is known all the same."""
    before = {"world_size": 4}
    after = {"world_size": 2, "seed": 7, "packing": "none"}
    world, nothing = changes(before, after, must("seed"))

    assert ("world_size", 4, 2) == (world.key, world.before, world.after)
    assert ("*", 2, "after") == (nothing.key, nothing.count, nothing.logged)
    assert "before" in nothing.because
    assert ("seed",) == unlogged(before, after, must("seed"))


@pytest.mark.parametrize(("key", "effect"), [*EFFECTS.items(), *FURTHER.items()])
def test_every_known_key_says_what_it_can_change(key: str, effect: Any) -> None:
    """And why, in a sentence."""
    (found,) = changes({key: 1, "seed": 7}, {key: 2, "seed": 7 + (key == "seed")}, NOTHING)

    assert effect.can_change_order == found.can_change_order
    assert effect.because == found.because


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        *((name, "yes") for name in DATA_LIBRARIES),
        ("Megatron_Core", "yes"),
        ("streaming", "yes"),
        ("python", "unknown"),
        ("rich", "unknown"),
    ],
)
def test_a_library_is_known_or_not(library: str, expected: str) -> None:
    """Under the names of pip and of imports; of others nothing is known."""
    (found,) = changes({"versions": {library: "1"}}, {"versions": {library: "2"}}, NOTHING)

    assert (f"versions.{library}", expected) == (found.key, found.can_change_order)


def test_an_unknown_key_can_do_anything() -> None:
    """It is told, and its effect is unknown."""
    (found,) = changes({"curriculum": "a"}, {"curriculum": "b"}, NOTHING)

    assert "unknown" == found.can_change_order


def test_what_must_match_breaks_unless_it_is_allowed() -> None:
    """By the key, by an object that holds it, or by `*`; an allowance gives its reason."""
    before = {"versions": {"torch": "1", "rich": "1"}, "seed": 7, "prefetch_factor": 2}
    after = {"versions": {"torch": "2", "rich": "2"}, "seed": 8, "prefetch_factor": 4}

    def broken(contract: Contract) -> list[str]:
        return [one.key for one in mismatches(changes(before, after, contract))]

    assert [] == broken(NOTHING)
    assert ["seed"] == broken(must("seed", "world_size"))
    assert ["versions.torch"] == broken(must("versions.torch"))
    assert ["versions.torch", "versions.rich"] == broken(must("versions"))
    assert ["seed", "versions.torch"] == broken(must("*"))
    assert ["seed"] == broken(must("*", allow={"versions": "a patch"}))
    assert [] == broken(must("seed", allow={"seed": "a new phase"}))
    assert ["prefetch_factor"] == broken(must("prefetch_factor"))
    allowed = changes(before, after, must("*", allow={"versions.torch": "a patch"}))
    assert {"versions.torch": "a patch"} == {one.key: one.allowed for one in allowed if one.allowed}


def test_everything_that_can_change_the_order_must_be_logged_for_a_star() -> None:
    """A key that is logged nowhere could have changed; an allowance, or a value, settles it."""
    whole = {key: {"torch": "2"} if key == "versions" else 1 for key in REQUIRED}

    assert () == unlogged(whole, whole, must("*"))
    for key in REQUIRED:
        less = {name: value for name, value in whole.items() if name != key}
        assert (key,) == unlogged(less, whole, must("*"))
        assert (key,) == unlogged(whole, less, must("*"))
        assert (key,) == unlogged(less, less, must("*"))
        assert () == unlogged(less, less, must("*", allow={key: "there is none"}))
    assert ("versions",) == unlogged({**whole, "versions": {}}, whole, must("*"))


def test_a_star_is_open_where_nothing_is_known_of_a_change() -> None:
    """Naming the key or allowing it settles that."""
    before, after = {"seed": 7, "curriculum": "a"}, {"seed": 7, "curriculum": "b"}

    def left(contract: Contract) -> list[str]:
        return [one.key for one in undecided(changes(before, after, contract), contract)]

    assert ["curriculum"] == left(must("*"))
    assert [] == left(must("seed"))
    assert [] == left(must("*", "curriculum"))
    assert [] == left(must("*", allow={"curriculum": "it only names a file"}))


def test_a_key_below_others_is_found_whatever_its_name_holds() -> None:
    """File names have dots; a name deeper than four levels is looked for as deep."""
    deep = {"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}, "index_files": {"x.y.npy": "1"}}
    other = {"a": {"b": {"c": {"d": {"e": {"f": 2}}}}}, "index_files": {"x.y.npy": "1"}}
    contract = must("a.b.c.d.e.f", "index_files.x.y.npy", "index_files.z.npy")

    assert [("a.b.c.d.e.f", 1, 2)] == told(mismatches(changes(deep, other, contract)))
    assert ("index_files.z.npy",) == unlogged(deep, other, contract)


def test_long_values_are_cut_around_their_first_difference() -> None:
    """A report is bounded, and what differs is seen; short values stay as they are."""
    long = "a" * 5000
    (text,) = changes({"x": f"{long}1{long}"}, {"x": f"{long}2{long}"}, NOTHING)
    (listed,) = changes({"x": [*range(9000)]}, {"x": [*range(8000)]}, NOTHING)
    (key,) = changes({"k" * 5000: 1}, {"k" * 5000: 2}, NOTHING)

    assert "1" in text.before
    assert "2" in text.after
    for value in (text.before, text.after, listed.before, listed.after, key.key):
        assert len(value) < LONGEST + 30
        assert "...(+" in value or "(+" in value
    assert [("x", float("inf")), ("y", 2.5)] == [
        (one.key, one.before if one.key == "y" else float(one.before))
        for one in changes({"x": float("inf"), "y": 2.5}, {"x": 1.0, "y": 1}, NOTHING)
    ]


def test_many_changes_are_counted() -> None:
    """Some of each key are told, and some in all; none that must match is lost."""
    workers = {"worker_states": {f"{n}": "a" for n in range(500)}}
    other = {"worker_states": {f"{n}": "b" for n in range(500)}}
    keys, others = ({f"k{n}": value for n in range(900)} for value in (1, 2))
    contract = must("worker_states", allow={"worker_states.7": "it was replaced"})
    found = changes(workers | keys, other | others, contract)

    assert len(found) <= MOST_IN_ALL + 3
    assert 1400 == sum(one.count for one in found)
    assert 499 == sum(one.count for one in mismatches(found))
    listed = [one for one in found if one.key.startswith("worker_states.")]
    assert MOST_OF_A_KEY == len(listed)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"world_size": 4}, {"world_size": 4}, None),
        ({"world_size": 4}, {"world_size": 2}, ("both", True)),
        ({"world_size": 4}, {}, ("before", False)),
        ({}, {"world_size": 4}, ("after", False)),
        ({}, {}, ("neither", False)),
    ],
)
def test_the_number_of_ranks_changed_or_not_or_is_unknown(
    before: dict[str, Any], after: dict[str, Any], expected: tuple[str, bool] | None
) -> None:
    """Three answers: where a side does not log it, the change is not compared."""
    found = rank_change(before, after, NOTHING)

    assert expected == (None if found is None else (found.logged, found.is_compared))


def test_the_checkpoint_counts_and_what_it_leaves_out_is_as_the_launch_began(
    tmp_path: Path,
) -> None:
    """Of the resumed attempt, what its iterator saw counts more than what it asked for."""
    job = Job(ranks=1)
    job.start(0, 0, {"seed": 7, "packing": "none", "filter": "a"})
    job.run(0, 0, "iterator", fingerprint={"filter": "b"})
    job.use(0, 0, 1)
    job.use(0, 0, 2)
    job.say("checkpoint", 0, 0, 2, phase="begin", fingerprint={"packing": "first-fit"})
    job.start(1, 0, {"seed": 99, "packing": "none", "filter": "b"})
    job.run(1, 0, "restore", "iterator", "use", fingerprint={"seed": 7})
    job.run(1, 0, "iterator", fingerprint={"seed": 5})

    assert [("packing", "first-fit", "none")] == told(job.changes(tmp_path))


def test_a_change_on_one_rank_is_seen(tmp_path: Path) -> None:
    """The lowest rank does not speak for all; the ranks that show it are named."""
    job = Job(ranks=4)
    for rank in range(4):
        job.start(0, rank, {"seed": 7})
        job.use(0, rank, 2)
    for rank in range(4):
        job.start(1, rank, {"seed": 7 if rank != 2 else 8})
    facts = job.facts(tmp_path, must("seed"))

    assert [("seed", 7, 8)] == told(facts.changes)
    assert ((2, 2),) == facts.changes[0].ranks
    assert ("seed was 7 and is 8 on rank 2",) == faults(facts, must("seed"))


def test_a_rank_is_compared_with_itself(tmp_path: Path) -> None:
    """One that said something else before, and says it again, did not change."""
    job = Job(ranks=3)
    for attempt in (0, 1):
        for rank in range(3):
            job.start(attempt, rank, {"seed": 7 if rank != 2 else 8})
            job.use(attempt, rank, 2 + attempt)

    assert () == job.changes(tmp_path)


def test_ranks_of_one_launch_that_differ_are_told(tmp_path: Path) -> None:
    """Except in what each rank has for itself; a rank that logs nothing does not differ."""
    job = Job(ranks=4)
    for rank in range(3):
        own = {"host": f"n{rank}", "worker_states": {"0": f"{rank}"}, "shuffle_state": rank}
        seed = 7 if rank != 1 else 8
        job.start(0, rank, {"seed": seed, "versions": {"torch": "2"}, **own})
        job.use(0, rank, 2)
    job.start(0, 3)
    acts, _, _ = job.opened(tmp_path)
    (found,) = rank_differences(acts, "0")

    assert ("seed", 2) == (found.key, found.count)
    assert ((((0, 0), (2, 2)), 7), (((1, 1),), 8)) == found.values


def test_states_are_compared_rank_by_rank_from_checkpoint_to_restore(tmp_path: Path) -> None:
    """One worker of one rank that was restored from elsewhere is found."""
    job = Job(ranks=3)
    for rank in range(3):
        job.start(0, rank, {"seed": 7, "worker_states": {"0": "new", "1": "new"}})
        job.use(0, rank, 2)
        states = {"0": f"{rank}a", "1": f"{rank}b"}
        job.say("checkpoint", 0, rank, 2, phase="begin", fingerprint={"worker_states": states})
        job.start(1, rank, {"seed": 7})
        loaded = {**states, "1": "0b"}
        job.run(1, rank, "restore", fingerprint={"worker_states": loaded})
        job.run(1, rank, "iterator", "use", fingerprint={"worker_states": {"0": "x", "1": "y"}})
    facts = job.facts(tmp_path, must("worker_states"))

    (found,) = facts.changes
    assert ("worker_states.1", ((1, 2),), True) == (found.key, found.ranks, found.is_compared)
    assert ["restored-first"] == [one.order for one in facts.restoring]
    assert (found,) == mismatches(facts.changes)


@pytest.mark.parametrize("moment", ["start", "iterator"])
def test_states_of_other_moments_prove_nothing(moment: str, tmp_path: Path) -> None:
    """They move while the job runs: told at the start or by an iterator, they may differ."""
    job = Job(ranks=1)
    job.start(0, 0, {"seed": 7})
    job.use(0, 0, 2)
    job.say("checkpoint", 0, 0, 2, phase="begin", fingerprint={"shuffle_state": "a"})
    job.start(1, 0, {"seed": 7, **({"shuffle_state": "b"} if moment == "start" else {})})
    job.run(1, 0, "iterator", "use", fingerprint={"shuffle_state": "b"})
    facts = job.facts(tmp_path, must("shuffle_state"))

    (found,) = facts.changes
    assert ("shuffle_state", False) == (found.key, found.is_compared)
    assert () == faults(facts, must("shuffle_state"))
    assert ["fingerprint-not-logged"] == [
        code for code, _ in limits(facts, must("shuffle_state")) if "fingerprint" in code
    ]


@pytest.mark.parametrize(("after", "is_saved"), [(2, True), (2, False), (1, True)])
def test_a_rank_without_its_state_leaves_it_unproven(
    after: int, is_saved: bool, tmp_path: Path
) -> None:
    """Others log theirs; and where ranks are dealt anew, states are not the same things."""
    job = Job(ranks=2, after=after)
    for rank in range(2):
        job.start(0, rank, {"seed": 7})
        job.use(0, rank, 2)
        states = {"worker_states": {"0": "a"}} if is_saved or rank == 0 else {}
        job.say("checkpoint", 0, rank, 2, phase="begin", fingerprint=states)
    for rank in range(after):
        job.start(1, rank, {"seed": 7})
        job.run(1, rank, "restore", fingerprint={"worker_states": {"0": "a"}} if not rank else {})
    contract = must("worker_states")
    facts = job.facts(tmp_path, contract)
    texts = [text for code, text in limits(facts, contract) if code == "fingerprint-not-logged"]

    assert () == faults(facts, contract)
    assert ["rank 1" in texts[0] if after == 2 else "ranks are others" in texts[0]] == [True]


def test_members_count_where_ranks_left_or_joined(tmp_path: Path) -> None:
    """The world size at the checkpoint is that of the last membership before it."""
    job = Job(ranks=4, after=2)
    for rank in range(4):
        job.start(0, rank, {"seed": 7})
        job.use(0, rank, 1)
    job.say("membership", 0, 0, 2, ranks=[0, 1])
    job.start(1, 0, {"seed": 7})
    acts, _, lineage = job.opened(tmp_path)

    assert 2 == at_checkpoint(acts, lineage.chain[0], 2).world_size
    assert 4 == at_checkpoint(acts, lineage.chain[0], 1).world_size
    assert () == job.changes(tmp_path / "again")


def test_the_fingerprint_tells_the_ranks_where_no_start_does(tmp_path: Path) -> None:
    """A start event without `world_size` leaves it to the fingerprint's."""
    job = Job(ranks=2)
    job.start(0, 0, {"world_size": 8}, world_size=None)
    job.use(0, 0, 2)
    job.start(1, 0, {"world_size": 4}, world_size=None)

    assert [("world_size", 8, 4)] == told(job.changes(tmp_path))


def test_plain_logs_have_no_fingerprints() -> None:
    """Two logs without events: nothing is known, and what must match is unproven."""
    before, after = Attempt("pre"), Attempt("post", parent="pre", resumed_at=2, seen=frozenset({0}))
    first = pl.DataFrame({"attempt": ["post"], "rank": [0], "seq": [5]})
    contract = must("seed", restore_first=True)
    facts = audit_fingerprints(pl.DataFrame(), first, before, after, contract)

    assert () == faults(facts, contract)
    assert ["fingerprint-not-logged", "restore-not-logged"] == [
        code for code, _ in limits(facts, contract)
    ]


def test_a_hostile_fingerprint_is_refused_or_escaped(tmp_path: Path) -> None:
    """No object, or nested without end: exit code 4; escape sequences never reach a sentence."""
    job = Job(ranks=1)
    job.start(0, 0, {"\x1b[31mkey": "\x1b[2J"})
    job.use(0, 0, 2)
    job.start(1, 0, {"\x1b[31mkey": "\x1b[3J\n::error::"})
    contract = must("\x1b[31mkey")
    (text,) = faults(job.facts(tmp_path / "escape", contract), contract)
    assert text.isprintable()

    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    for number, wrong in enumerate(([1], "seed", {"a": deep})):
        job.run(1, 0, "restore", fingerprint=wrong)
        with pytest.raises(UnreadableError, match="'fingerprint' of its restore event"):
            job.facts(tmp_path / f"{number}")
        job.lines.pop()


def test_rebuilt_index_files_are_seen(tmp_path: Path) -> None:
    """Megatron's own index, rebuilt because the run was made longer: other names, other bytes."""
    job = Job(ranks=1)
    for attempt, folder in enumerate(("before", "after")):
        files = sorted((FIXTURES / "index-files" / folder).iterdir())
        job.start(attempt, 0, {"seed": 1234, "index_files": index_files(files)})
        job.use(attempt, 0, 2 + attempt)
    found = job.changes(tmp_path, must("index_files"))

    assert 8 == len(found) == len(mismatches(found))
    assert ["after", "before"] == sorted({one.logged for one in found})
    assert not any("toy_text_document.idx" in one.key for one in found)


@pytest.mark.parametrize("case", sorted((FIXTURES / "zoo").iterdir()), ids=lambda case: case.name)
def test_real_runs_change_what_their_names_say(case: Path) -> None:
    """Every other key of every real run is the same before and after its resumes."""
    expected = {
        "hf-trainer-batch-changed": {"micro_batch_size"},
        "hf-trainer-elastic-2to1": {"accumulation", "world_size"},
        "litdata-workers-changed": {"workers"},
        "megatron-gbs-doubled-correct": {"accumulation"},
        "megatron-seqlen-changed": {"seq_length", "dataset_samples", "index_hash"},
        "megatron-train-iters-extended": {"train_samples", "dataset_samples", "index_hash"},
        "olmo-gbs-changed": {"micro_batch_size"},
        "olmo-seed-changed": {"seed"},
        "streaming-elastic-4to2": {"micro_batch_size", "world_size"},
        "torch-ddp-elastic-4to2-correct": {"accumulation", "world_size"},
    }
    ledger = open_ledger([case / "run"])
    acts = ledger.acts()
    chain = reconstruct(acts, ledger.extents()).chain
    for before, after in pairwise(chain):
        first = ledger.records(after.label, 0).group_by("rank").agg(pl.col("seq").min())
        now = at_restore(acts, after, dict(first.iter_rows()))
        found = changes_of(at_checkpoint(acts, before, after.resumed_at or 0), now, NOTHING)
        can = {one.key for one in found if one.can_change_order == "yes"}
        assert expected.get(case.name, set()) == can
        assert () == rank_differences(acts, after.label)


def test_the_page_has_the_same_table() -> None:
    """`fingerprints.md` and the program agree on every key, every library and every order."""
    rows = re.findall(r"^\| `(\w+)` \| (yes|no) \| (.*?) \|$", PAGE, re.MULTILINE)
    known = {**EFFECTS, **FURTHER}
    assert [(key, effect.can_change_order, effect.because) for key, effect in known.items()] == rows
    table = PAGE.split("| found | meaning |")[1].split("\n\n")[0]
    assert [*get_args(RestoreOrder)] == re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)
    libraries = ", ".join(f"`{name}`" for name in DATA_LIBRARIES)
    assert libraries in PAGE
    for key in OF_A_RANK:
        assert f"`{key}`" in PAGE


def test_the_format_has_the_same_keys() -> None:
    """`ledger-format.md` names each key of the table, and no other."""
    page = (ROOT / "docs" / "ledger-format.md").read_text()
    table = page.split("### Fingerprint")[1].split("\n## ")[0]
    assert {*EFFECTS} == {*re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)}


def test_the_contract_of_the_page_is_one() -> None:
    """Its terms are those of the contract's classes."""
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    terms = tomllib.loads(block)

    asked = Fingerprints(**terms["fingerprint"])
    allowed = [Allowance(**one) for one in terms["allow"]]
    assert asked.restore_first
    assert ["versions.torch"] == [one.change for one in allowed]
