"""`selftest`: faults planted into a copy of a ledger are found, each with its cause."""

import json
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path

import pytest
import tiny
from conftest import FIXTURES, ROOT
from hypothesis import given, settings
from jsonschema import Draft202012Validator
from native import read_lines, write_ledger
from running import ledger_audit
from test_hostile import QUIETLY, TEXT, is_safe

from ledger_audit.continuity.causes import CAUSES
from ledger_audit.model import Verdict
from ledger_audit.model.selftest import Selftest, Shown, Trial, Untouched
from ledger_audit.planting import FAULTS
from ledger_audit.report import PAPER
from ledger_audit.report.selftest import to_terminal
from ledger_audit.selftest import selftest

ZOO = FIXTURES / "zoo"
LATER_PASSES = {"offset-reapplied-each-epoch", "frozen-epochs"}
PACKED = {"count-is-not-position", "packing-remainder-lost", "dataset-changed"}
SHOWN_BY = {
    "torch-ddp-prefetched-position": {*FAULTS} - LATER_PASSES - PACKED - {"read-chunk-skipped"},
    "hf-trainer-iterable": {"cursor-not-restored"} | LATER_PASSES,
    "megatron-correct": {"cursor-not-restored"} | PACKED,
    "webdataset-manual-skip": {"cursor-not-restored", "epoch-not-set", "epoch-exhausted"},
}
"""Ledger of the zoo → faults that it can show, at least."""
CHUNKS = tiny.attempt(0, tiny.dealt(1, 30, ranks=1, rows=3))
"""A job whose batch of three divides no chunk of 16 samples."""
BESIDE = {
    ("hf-trainer-iterable", "rank-count-for-global"),
    ("megatron-correct", "workers-changed"),
}
"""Ledger and fault where another cause leaves the same records."""

Line = tiny.Line


def controls() -> list[Path]:
    """Give the right runs of the zoo, each content once."""
    found: dict[str, Path] = {}
    for folder in sorted(ZOO.glob("*/control")):
        content = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
        found.setdefault(sha256(content).hexdigest(), folder)
    return list(found.values())


def with_start(lines: Iterable[Line], **told: object) -> list[Line]:
    """Say more in every start event; null takes away."""
    return [
        {**one, "data": {key: new for key, new in (one["data"] | told).items() if new is not None}}
        if one["kind"] == "start"
        else one
        for one in lines
    ]


def without_column(lines: Iterable[Line], *columns: str) -> list[Line]:
    """Take columns away."""
    return [{key: value for key, value in one.items() if key not in columns} for one in lines]


def job(steps: int = 20, **told: object) -> list[Line]:
    """Give a clean job of two ranks and two rows; `told` is its fingerprint."""
    return tiny.attempt(0, tiny.dealt(1, steps), fingerprint=told)


def shown_of(folder: Path, *faults: str) -> dict[str, str]:
    """Give fault → what was seen of it."""
    options = [part for one in faults for part in ("--fault", one)]
    report = ledger_audit("selftest", folder, *options, "--format", "json").report
    return {one["fault"]: one["shown"] for one in report["trials"]}


def test_every_cause_has_a_fault() -> None:
    """Each cause that is ever named can be planted, and nothing else."""
    assert {*CAUSES} == {*FAULTS}


def test_every_fault_is_shown_by_a_ledger() -> None:
    """What one of the ledgers below cannot show, another one does."""
    assert {*FAULTS} == set.union({"read-chunk-skipped"}, *SHOWN_BY.values())


@pytest.mark.parametrize("name", SHOWN_BY)
def test_every_fault_that_a_real_ledger_can_show_is_named_first(name: str) -> None:
    """Planted faults are found with their own cause; of the others it is said what is lacking."""
    report = selftest([ZOO / name / "control"])

    planted = {one.fault: one for one in report.trials if one.shown != Shown.NOT_PLANTED}
    assert SHOWN_BY[name] <= {*planted}
    assert {*FAULTS} - {*planted} == {one.fault for one in report.trials if one.lacks}
    beside = {(name, fault) for fault, one in planted.items() if one.shown == Shown.BESIDE}
    assert beside <= BESIDE
    assert set() == {
        fault for fault, one in planted.items() if one.shown not in (Shown.FIRST, Shown.BESIDE)
    }
    assert Verdict.CONTINUOUS == report.verdict


@pytest.mark.parametrize("folder", controls(), ids=lambda folder: folder.parent.name)
def test_the_untouched_copy_of_a_right_run_stays_clean(folder: Path) -> None:
    """Cut, killed and resumed rightly, a right run is continuous and has no cause."""
    untouched = selftest([folder], faults=()).untouched

    assert Untouched(Verdict.CONTINUOUS, (), (), ()) == untouched


@pytest.mark.parametrize("form", ["json-lines", "native"])
def test_nothing_is_written(form: str, tmp_path: Path) -> None:
    """The ledger's files are the same bytes afterwards, and no other file is there."""
    run = tiny.write(tmp_path / "run", job())
    if form == "native":
        run = write_ledger(read_lines(run), tmp_path / "ledger")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    assert 0 == ledger_audit("selftest", run, "--fault", "stale-cursor").code

    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def packed(lines: list[Line]) -> list[Line]:
    """Say of every sample that it is a span of tokens, of lengths of their own."""
    return [
        {**one, "token_start": 0, "token_end": 8 + 2 * (one["sample_id"] % 5)}
        if one["kind"] == "sample"
        else one
        for one in lines
    ]


@pytest.mark.parametrize(
    ("fault", "lacking", "lines"),
    [
        ("worker-state-lost", "column worker", job()),
        ("partial-accumulation-lost", "a second accumulation slot", job()),
        ("steps-for-micro-batches", "a second accumulation slot", job()),
        ("prefetch-counted", "prefetch_factor", job(workers=2)),
        ("prefetch-counted", "prefetch_factor", job(workers=0, prefetch_factor=2)),
        ("workers-changed", "fingerprint key workers", job()),
        ("count-is-not-position", "column position", job()),
        ("dataset-changed", "dataset, index_files, index_hash", job()),
        ("epoch-not-set", "column epoch", job()),
        ("epoch-exhausted", "fingerprint key dataset_samples", job()),
        ("frozen-epochs", "three passes", job()),
        ("packing-changed", "columns token_start and token_end", job()),
        ("ids-not-unique", "columns token_start and token_end", job()),
        ("void-steps-rewound", "event commit", [one for one in job() if one["kind"] != "commit"]),
        ("label-behind-weights", "event commit", [one for one in job() if one["kind"] != "commit"]),
        ("stale-cursor", "more steps", job(6)),
        ("relative-cursor", "more steps", job(6)),
        ("read-chunk-skipped", "a chunk", job()),
        ("ranks-swapped", "a second rank", tiny.attempt(0, tiny.dealt(1, 20, ranks=1))),
        ("resharded-wrongly", "a second rank", tiny.attempt(0, tiny.dealt(1, 20, ranks=1))),
    ],
)
def test_what_a_ledger_lacks_is_named(
    fault: str, lacking: str, lines: list[Line], tmp_path: Path
) -> None:
    """A fault that the ledger cannot show is not planted, and the report says what it takes."""
    ran = ledger_audit("selftest", tiny.write(tmp_path, lines), "--fault", fault)

    assert ran.out.startswith("UNPROVEN: no fault could be planted\n")
    assert lacking in " ".join(ran.out.split())
    assert 3 == ran.code


@pytest.mark.parametrize(
    ("fault", "lines"),
    [
        ("prefetch-counted", job(40, workers=1, prefetch_factor=2)),
        ("workers-changed", job(workers=2)),
        ("dataset-changed", job(dataset="one")),
        ("packing-changed", packed(job())),
        ("ids-not-unique", packed(job())),
        ("read-chunk-skipped", CHUNKS),
    ],
)
def test_what_was_lacking_makes_the_fault_plantable(
    fault: str, lines: list[Line], tmp_path: Path
) -> None:
    """With the column or key that was named, the same fault is found with its cause."""
    assert {fault: "first"} == shown_of(tiny.write(tmp_path, lines), fault)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "the ledger holds no record"),
        (tiny.attempt(0, {}), "the ledger holds no record"),
        (job(5), "attempt 0 has fewer than 6 whole committed steps in a row"),
        (
            tiny.attempt(0, tiny.dealt(1, 14), void=(5, 10)),
            "attempt 0 has fewer than 6 whole committed steps in a row",
        ),
    ],
    ids=["empty", "start events alone", "five steps", "a void step in every five"],
)
def test_a_ledger_that_is_too_short_is_refused(
    lines: list[Line], told: str, tmp_path: Path
) -> None:
    """Exit code 2, with the reason and what to do, and no report."""
    ran = ledger_audit("selftest", tiny.write(tmp_path, lines))

    assert (2, "") == (ran.code, ran.out)
    assert told in ran.err
    assert "try:" in ran.err


def test_an_unknown_fault_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    """Exit code 2, and all names."""
    ran = ledger_audit("selftest", tiny.write(tmp_path, job()), "--fault", "no-such-thing")

    assert (2, "") == (ran.code, ran.out)
    assert "--fault no-such-thing: no such fault" in ran.err
    assert all(fault in ran.err for fault in FAULTS)


def test_a_fault_that_is_asked_for_twice_is_planted_once(tmp_path: Path) -> None:
    """The order is that of the options."""
    shown = shown_of(
        tiny.write(tmp_path, job()), "stale-cursor", "cursor-not-restored", "stale-cursor"
    )

    assert ["stale-cursor", "cursor-not-restored"] == list(shown)


def replayed(lines: list[Line]) -> list[Line]:
    """Let step 18 use what step 2 used, within one pass."""
    batch = {one["rank"]: [] for one in lines}
    for one in lines:
        if one["kind"] == "sample" and one["step"] == 2:
            batch[one["rank"]].append(one["sample_id"])
    return [
        {**one, "sample_id": batch[one["rank"]][one["row"]]}
        if one["kind"] == "sample" and one["step"] == 18
        else one
        for one in lines
    ]


def one_pass(lines: list[Line]) -> list[Line]:
    """Say that all samples are of the first pass."""
    return [{**one, "epoch": 0} if one["kind"] == "sample" else one for one in lines]


def sampled(lines: list[Line], rank: int) -> list[Line]:
    """Let one rank alone write a ledger, and say so."""
    return [one for one in with_start(lines, logged_ranks=[rank]) if one["rank"] == rank]


LEDGERS: dict[str, tuple[int, Callable[[], list[Line]]]] = {
    "a clean job": (0, job),
    "a job that repeats a batch": (
        1,
        lambda: one_pass(replayed(job(dataset_samples=1000))),
    ),
    "a job that may repeat a batch": (3, lambda: replayed(job())),
    "one rank of two": (3, lambda: sampled(job(), 0)),
}
"""Ledger → exit code, lines."""


@pytest.mark.parametrize("name", LEDGERS)
def test_the_json_report_fits_the_published_schema(name: str, tmp_path: Path) -> None:
    """Reports fit `selftest.schema.json`, and the exit code is the verdict's."""
    schema = json.loads((ROOT / "docs" / "selftest.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    code, lines = LEDGERS[name]
    folder = tiny.write(tmp_path / "run", lines())
    beside = tmp_path / "report.json"
    faults = ("--fault", "stale-cursor", "--fault", "split-leak", "--fault", "worker-state-lost")

    ran = ledger_audit(
        "selftest", folder, *faults, "--format", "json", "--report", f"json={beside}"
    )

    errors = [error.message for error in Draft202012Validator(schema).iter_errors(ran.report)]
    assert [] == errors
    assert beside.read_text() == ran.out
    assert code == {"continuous": 0, "broken": 1, "unproven": 3}[ran.report["verdict"]] == ran.code


def test_the_cause_in_the_schema_is_that_of_the_main_report() -> None:
    """Both schemas define a cause alike."""
    ours, main = (
        json.loads((ROOT / "docs" / f"{name}.schema.json").read_text())
        for name in ("selftest", "report")
    )
    assert main["$defs"]["cause"] == ours["$defs"]["cause"]


def test_a_broken_untouched_copy_is_told_first(tmp_path: Path) -> None:
    """The headline says that it is broken, and its row says by what."""
    lines = one_pass(replayed(job(dataset_samples=1000)))

    ran = ledger_audit("selftest", tiny.write(tmp_path, lines), "--fault", "stale-cursor")

    assert ran.out.startswith("FAILED: the untouched copy is broken; 1 of 1 planted fault found")
    assert "untouched  broken; 4 records replayed" in ran.out


WORDS = {
    Shown.FIRST: ("named", Verdict.CONTINUOUS),
    Shown.BESIDE: ("named beside", Verdict.CONTINUOUS),
    Shown.OTHER: ("found, named otherwise", Verdict.BROKEN),
    Shown.MISSED: ("missed", Verdict.BROKEN),
    Shown.UNPROVEN: ("not proven", Verdict.CONTINUOUS),
    Shown.NOT_PLANTED: ("not planted", Verdict.CONTINUOUS),
}


def told_of(*trials: Trial, untouched: Verdict = Verdict.CONTINUOUS) -> Selftest:
    """Give a report of these trials."""
    return Selftest({}, {}, "0", 20, 80, Untouched(untouched, (), (), ()), trials)


@pytest.mark.parametrize("shown", Shown)
def test_every_way_in_which_a_fault_is_shown_has_a_word_and_a_verdict(shown: Shown) -> None:
    """Beside a fault that is named, only one that is missed or named otherwise fails."""
    [named] = selftest([ZOO / "grain-loader-correct" / "control"], faults=["stale-cursor"]).trials
    lacks = ("this",) if shown in (Shown.UNPROVEN, Shown.NOT_PLANTED) else ()
    other = Trial("stale-cursor", shown, None, named.causes, lacks)
    report = told_of(named, other)
    word, verdict = WORDS[shown]

    _, row = to_terminal(report, PAPER).split("likely", 1)

    assert set(word.split()) <= {*row.split()}
    assert verdict == report.verdict


def test_nothing_is_passed_that_was_not_planted() -> None:
    """An untouched copy that is unproven, or no fault at all, gives no pass; a miss outweighs."""
    missed = Trial("stale-cursor", Shown.MISSED, Verdict.CONTINUOUS)
    absent = Trial("stale-cursor", Shown.NOT_PLANTED, None, lacks=("this",))

    assert Verdict.UNPROVEN == told_of(absent).verdict
    assert Verdict.UNPROVEN == told_of(untouched=Verdict.UNPROVEN).verdict
    assert Verdict.BROKEN == told_of(untouched=Verdict.BROKEN).verdict
    assert Verdict.BROKEN == told_of(absent, untouched=Verdict.BROKEN).verdict
    assert Verdict.BROKEN == told_of(missed, untouched=Verdict.UNPROVEN).verdict


def test_no_more_steps_are_copied_than_asked_for(tmp_path: Path) -> None:
    """The copy is the first steps of the attempt, up to `--steps`."""
    run = tiny.write(tmp_path, job(200))

    for options, steps in (((), 64), (("--steps", "9"), 9), (("--steps", "500"), 200)):
        ran = ledger_audit("selftest", run, "--fault", "stale-cursor", *options, "--format", "json")
        assert {"attempt": "0", "steps": steps, "records": 4 * steps} == ran.report["copy"]
    assert 2 == ledger_audit("selftest", run, "--steps", "5").code


def test_the_longest_attempt_is_copied(tmp_path: Path) -> None:
    """Of a resumed job it may be the resumed one; its steps are counted from 1 again."""
    dead = tiny.attempt(0, tiny.dealt(1, 12))
    alive = tiny.attempt(1, tiny.dealt(9, 30), after=(0, 8))
    run = tiny.write(tmp_path, dead, alive)

    report = ledger_audit("selftest", run, "--fault", "stale-cursor", "--format", "json").report

    assert {"attempt": "1", "steps": 22, "records": 88} == report["copy"]
    assert {"continuous"} == {report["verdict"], report["untouched"]["verdict"]}


def test_a_resumed_attempt_is_copied_from_one_end_of_a_pass(tmp_path: Path) -> None:
    """The rest of the pass that it resumed in, or what comes after it, whichever is longer."""
    size = 40
    stream = [
        {"sample_id": number % size, "epoch": number // size} for number in range(4 * 60)
    ]  # ten steps a pass
    steps = {
        step: [stream[4 * step - 4 : 4 * step - 2], stream[4 * step - 2 : 4 * step]]
        for step in range(1, 61)
    }
    first = tiny.attempt(0, {step: steps[step] for step in range(1, 9)})
    for last, copied in ((12, None), (17, 7), (40, 30)):
        later = {step: steps[step] for step in range(7 if last > 12 else 9, last + 1)}
        again = tiny.attempt(1, later, after=(0, min(later) - 1))
        run = tiny.write(tmp_path / str(last), first, again)

        ran = ledger_audit("selftest", run, "--fault", "stale-cursor", "--format", "json")

        if copied is None:
            assert 8 == ran.report["copy"]["steps"]  # attempt 0 is longer
        else:
            assert ("1", copied) == (ran.report["copy"]["attempt"], ran.report["copy"]["steps"])


def with_eval(lines: list[Line]) -> list[Line]:
    """Let the job evaluate on other samples in between, and on one sample again and again."""
    eval_rows = [
        {**one, "stream": "eval", "sample_id": 1000 + one["row"]}
        for one in lines
        if one["kind"] == "sample"
    ]
    return [*lines, *eval_rows]


ODD: dict[str, tuple[int, Callable[[], list[Line]]]] = {
    "no commit": (80, lambda: [one for one in job(dataset="one") if one["kind"] != "commit"]),
    "no start event": (80, lambda: [one for one in job() if one["kind"] != "start"]),
    "string ids": (
        80,
        lambda: [
            {**one, "sample_id": f"shard-{one['sample_id']}"} if "sample_id" in one else one
            for one in job(dataset="one")
        ],
    ),
    "ids at the end of their type": (
        80,
        lambda: [
            {**one, "sample_id": 2**63 - 1 - one["sample_id"]} if "sample_id" in one else one
            for one in job(dataset="one")
        ],
    ),
    "rows of an eval stream": (80, lambda: with_eval(job(dataset="one"))),
    "a void step in the middle": (
        44,
        lambda: tiny.attempt(0, tiny.dealt(1, 20), void=(9,), fingerprint={"dataset": "one"}),
    ),
    "a rank that is silent in one step": (
        48,
        lambda: [one for one in job(dataset="one") if (one["rank"], one.get("step")) != (1, 8)],
    ),
    "a rank that commits one step less": (
        76,
        lambda: [
            one
            for one in job(dataset="one")
            if (one["kind"], one["rank"], one.get("step")) != ("commit", 1, 20)
        ],
    ),
    "steps that begin late": (
        80,
        lambda: [
            {**one, "step": one["step"] + 10**9} if "step" in one else one
            for one in job(dataset="one")
        ],
    ),
}
"""Ledger → records of the copy, lines."""
SOME = (
    "cursor-not-restored",
    "stale-cursor",
    "rank-cursor-stale",
    "ranks-swapped",
    "resharded-wrongly",
    "shuffle-changed",
    "dataset-changed",
    "split-leak",
)
"""Faults of every kind that no odd ledger hides."""


@pytest.mark.parametrize("name", ODD)
def test_an_odd_ledger_is_tested_like_any_other(name: str, tmp_path: Path) -> None:
    """Every fault is named first, and the untouched copy is clean."""
    records, lines = ODD[name]
    lacks_recipe = name == "no start event"

    report = selftest([tiny.write(tmp_path, lines())], faults=SOME)

    expected = dict.fromkeys(SOME, Shown.FIRST)
    expected |= {"dataset-changed": Shown.NOT_PLANTED} if lacks_recipe else {}
    assert expected == {one.fault: one.shown for one in report.trials}
    assert Untouched(Verdict.CONTINUOUS, (), (), ()) == report.untouched
    # the last step is not known to be over where nothing is committed
    assert records - (4 if name == "no commit" else 0) == report.records


def test_of_sampled_ranks_nothing_is_called_clean_and_nothing_missed(tmp_path: Path) -> None:
    """Where only some ranks are logged, what cannot be known is said."""
    lines = tiny.attempt(0, tiny.dealt(1, 30, ranks=4))
    report = selftest([tiny.write(tmp_path, sampled(lines, 0))], faults=SOME)

    assert Verdict.UNPROVEN == report.untouched.verdict
    assert report.untouched.lacks
    assert Shown.MISSED not in {one.shown for one in report.trials}


@settings(QUIETLY, max_examples=8)
@given(label=TEXT, sample=TEXT, source=TEXT, key=TEXT)
def test_no_text_of_the_ledger_is_obeyed(
    label: str, sample: str, source: str, key: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Labels, ids, sources and fingerprints of any kind give lines that a terminal only shows."""
    lines = [
        {**one, "attempt": f"{label}0"}
        | ({"sample_id": f"{sample}{one['sample_id']}", "source": source} if "row" in one else {})
        for one in job(8, dataset=key, **{key or "seed": 7})
    ]
    run = tiny.write(tmp_path_factory.mktemp("hostile"), lines)
    faults = ("--fault", "cursor-not-restored", "--fault", "dataset-changed")

    ran = ledger_audit("selftest", run, *faults)
    beside = ledger_audit("selftest", run, "--fault", "cursor-not-restored", "--format", "json")

    assert (0, 0) == (ran.code, beside.code), ran.err
    assert is_safe(ran.out + ran.err + beside.out)
    assert ran.out.startswith("PASSED: 2 of 2 planted faults found and named\n")
    assert max(map(len, ran.out.splitlines())) <= 80
