"""`plan`: consumed and planned samples make up the stream, each once, in its order."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from running import ledger_audit
from tiny import Line, attempt, dealt, write
from xxhash import xxh64_intdigest

from ledger_audit.cli import run
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.schema import DIGEST_COLUMNS
from ledger_audit.model import Reading
from ledger_audit.planning import check, plan
from ledger_audit.stream.plan import Wanted

DOCS = Path(__file__).parent.parent / "docs"


def uses(root: Path, label: str | None = None) -> list[dict[str, Any]]:
    """Give the records of a ledger in the order of steps, slots, ranks, rows and writing."""
    ledger = open_ledger([root])
    rows = ledger.records(label or ledger.attempts[0], 0)
    return list(rows.sort("step", "slot", "rank", "row", "seq").iter_rows(named=True))


def ids(root: Path, label: str | None = None) -> list[Any]:
    """Give their samples."""
    return [one["sample_id"] for one in uses(root, label)]


def by_step(root: Path) -> dict[int, list[Any]]:
    """Give the samples of each step."""
    found: dict[int, list[Any]] = {}
    for one in uses(root):
        found.setdefault(one["step"], []).append(one["sample_id"])
    return found


def planned(tmp_path: Path, *more: str, world: int = 2, step: int = 3, **kinds: Any) -> Any:
    """Run the command on `run` with `control`; give its exit code and its report."""
    command = ["plan", str(tmp_path / "run"), "--checkpoint-step", str(step)]
    command += ["--world-size", str(world), "-o", str(tmp_path / "plan"), "--no-contract"]
    if kinds.get("reference", True):
        command += ["--reference", str(tmp_path / "control")]
    report = tmp_path / "report.json"
    code = run([*command, *more, "--report", f"json={report}"])
    return code, json.loads(report.read_text()) if report.exists() else None


def checked(tmp_path: Path, *more: str, reference: bool = True) -> int:
    """Check the plan, and give the exit code."""
    told = ["--reference", str(tmp_path / "control")] if reference else []
    return run(["plan", "--check", str(tmp_path / "plan"), str(tmp_path / "run"), *told, *more])


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Four ranks with two rows each: ten steps expected, five of them done when it died."""
    write(tmp_path / "control", attempt(0, dealt(1, 10, ranks=4)))
    write(tmp_path / "run", attempt(0, dealt(1, 5, ranks=4), uncommitted=(5,)))
    return tmp_path


@pytest.mark.parametrize(("world", "last"), [(2, 10), (8, 10)])
def test_steps_keep_their_samples_where_ranks_divide_them(job: Path, world: int, last: int) -> None:
    """Dealt to fewer or more ranks, each step holds what it holds in the reference."""
    code, report = planned(job, world=world)

    assert 0 == code
    assert dict(zip(range(4, 11), map(list, _steps(24, 80, 8)), strict=True)) == by_step(
        job / "plan"
    )
    assert (4, last, None) == tuple(
        report["plan"][key] for key in ("first_step", "last_step", "differs_from")
    )
    ranks = Counter(one["rank"] for one in uses(job / "plan"))
    assert dict.fromkeys(range(world), 56 // world) == ranks
    assert 0 == checked(job)


def _steps(first: int, last: int, size: int) -> list[range]:
    return [range(at, min(at + size, last)) for at in range(first, last, size)]


def test_steps_that_ranks_cannot_share_are_cut_anew_and_the_last_is_ragged(job: Path) -> None:
    """Three ranks cannot share eight samples evenly: the plan says from where, and why."""
    code, report = planned(job, world=3)

    assert 0 == code
    deal = report["plan"]
    assert 4 == deal["differs_from"]
    assert "no multiple of 3 ranks" in deal["differs_because"]
    assert list(range(24, 80)) == ids(job / "plan")
    assert [*_steps(24, 80, 6)] == [
        range(one[0], one[-1] + 1) for one in by_step(job / "plan").values()
    ]
    assert [{"step": 13, "sequences": 2, "ranks_with_fewer": 1}] == deal["ragged"]
    last = Counter(one["rank"] for one in uses(job / "plan") if one["step"] == 13)
    assert {0: 1, 1: 1} == last
    assert 0 == checked(job)


def test_the_cursor_is_what_committed_updates_consumed(job: Path) -> None:
    """It tells counts, the digest of the records, ranges, and what was on its way."""
    _, report = planned(job)
    cursor = json.loads((job / "plan" / "cursor.json").read_text())
    Draft202012Validator(json.loads((DOCS / "cursor.schema.json").read_text())).validate(cursor)
    Draft202012Validator(json.loads((DOCS / "plan.schema.json").read_text())).validate(report)

    assert (24, 24) == (cursor["consumed"]["records"], cursor["consumed"]["samples"])
    whole = uses(job / "control")[:24]
    hashes = [xxh64_intdigest(one["sample_id"].to_bytes(8, "little"), 42) for one in whole]
    signed = (sum(hashes) + (1 << 63)) % (1 << 64) - (1 << 63)
    assert str(signed) == cursor["consumed"]["digest"]
    (one,) = cursor["generations"]
    assert ([[0, 24]], 0, 80, 56) == (one["ranges"], one["holes"], one["expected"], one["planned"])
    assert {"attempt": "0", "steps": 2, "committed_steps": 1, "records": 16, "stages": {}} == (
        cursor["in_flight"]
    )


def test_partial_accumulation_returns_to_the_stream_at_its_place(tmp_path: Path) -> None:
    """Of a step that no update applied nothing was consumed, whatever its slots used."""
    cut = dealt(1, 4, ranks=2)
    cut[4] = [cut[4][0], cut[4][1][:1]]
    write(tmp_path / "control", attempt(0, dealt(1, 6)))
    write(tmp_path / "run", attempt(0, cut, uncommitted=(4,)))

    code, _ = planned(tmp_path)

    assert 0 == code
    assert list(range(12, 24)) == ids(tmp_path / "plan")


def test_what_void_tries_used_comes_again(tmp_path: Path) -> None:
    """A void try changed no weights: its samples were not consumed, and come first."""
    write(tmp_path / "control", attempt(0, dealt(1, 6)))
    write(tmp_path / "run", attempt(0, dealt(1, 4), void=(2,)))

    code, report = planned(tmp_path)

    assert 0 == code
    assert [*range(4, 8), *range(12, 24)] == ids(tmp_path / "plan")
    assert report["notes"]
    assert 0 == checked(tmp_path)


@pytest.mark.parametrize("reference", [True, False])
def test_a_batch_that_was_tried_again_is_in_the_stream_once(
    tmp_path: Path, reference: bool
) -> None:
    """In a control run, or in the work that was rolled back: a void try adds no sample."""
    lines = attempt(0, dealt(1, 6))
    retried = []
    for one in lines:
        if one.get("step") == 5 and one["kind"] == "commit":
            again = [each for each in lines if each.get("step") == 5 and each["kind"] == "sample"]
            own = [each for each in again if each["rank"] == one["rank"]]
            retried += [{**one, "kind": "void"}, *own]
        retried.append(one)
    write(tmp_path / "control", retried)
    write(tmp_path / "run", retried)

    planned(tmp_path, reference=reference)

    assert list(range(12, 24)) == ids(tmp_path / "plan")


def test_a_lineage_of_attempts_counts_once(tmp_path: Path) -> None:
    """What a failure rolled back and the next attempt redid was consumed once."""
    write(tmp_path / "control", attempt(0, dealt(1, 9)))
    first = attempt(0, dealt(1, 5))
    write(tmp_path / "run", first, attempt(1, dealt(4, 7), after=(0, 3)))

    code, report = planned(tmp_path, step=6, world=3)

    assert 0 == code
    assert list(range(24, 36)) == ids(tmp_path / "plan")
    assert "1" == report["cursor"]["attempt"]
    assert 0 == checked(tmp_path)


def test_a_cursor_inside_a_step_shifts_all_others_unless_replay_is_allowed(tmp_path: Path) -> None:
    """Skipped samples leave a step of the reference half used: two uses again would mend it."""
    write(tmp_path / "control", attempt(0, dealt(1, 8)))
    odd = dealt(1, 3)
    odd[3] = [[8, 9], [12, 13]]  # 10 and 11 were skipped
    write(tmp_path / "run", attempt(0, odd))

    code, report = planned(tmp_path)

    assert 0 == code
    assert [10, 11, *range(14, 32)] == ids(tmp_path / "plan")
    assert (4, 4) == (report["plan"]["differs_from"], report["replay"]["needed"])
    assert "inside step 3" in report["plan"]["differs_because"]
    assert 0 == checked(tmp_path)
    (tmp_path / "plan").rename(tmp_path / "exact")
    code, report = planned(tmp_path, "--replay-window", "3")
    assert (0, 0) == (code, report["replay"]["records"])
    (tmp_path / "plan").rename(tmp_path / "too-few")
    code, report = planned(tmp_path, "--replay-window", "4")
    assert (0, 4, None) == (code, report["replay"]["records"], report["plan"]["differs_from"])
    assert list(range(8, 32)) == ids(tmp_path / "plan")
    assert 0 == checked(tmp_path)


def _documents(*steps: list[tuple[int, int, int]]) -> dict[int, list[list[dict[str, int]]]]:
    return {
        number: [
            [{"sample_id": doc, "token_start": start, "token_end": end} for doc, start, end in step]
        ]
        for number, step in enumerate(steps, 1)
    }


def test_half_consumed_documents_go_on_where_they_stopped(tmp_path: Path) -> None:
    """Of a document of which a part was consumed only the other tokens are planned."""
    write(
        tmp_path / "control",
        attempt(0, _documents([(1, 0, 100)], [(2, 0, 100)], [(3, 0, 100)], [(4, 0, 50)])),
    )
    write(tmp_path / "run", attempt(0, _documents([(1, 0, 100)], [(2, 0, 30)], [(2, 60, 80)])))

    code, report = planned(tmp_path, world=1)

    assert 0 == code
    assert [(2, 30, 60), (2, 80, 100), (3, 0, 100), (4, 0, 50)] == [
        (one["sample_id"], one["token_start"], one["token_end"]) for one in uses(tmp_path / "plan")
    ]
    assert (1, 0) == (report["cursor"]["halved"], report["cursor"]["unmatched"])
    assert 0 == checked(tmp_path)


def test_forbidden_samples_are_left_out_and_counted(job: Path) -> None:
    """What the contract forbids, by a list or by a held-out stream, is not planned."""
    (job / "eval.txt").write_text("30\n31\n5\n")
    (job / "contract.toml").write_text('[[forbid]]\nfile = "eval.txt"\n')
    command = ["plan", str(job / "run"), "--checkpoint-step", "3", "--world-size", "2"]
    command += ["--reference", str(job / "control"), "--contract", str(job / "contract.toml")]
    assert 0 == run([*command, "-o", str(job / "plan"), "--report", f"json={job / 'r.json'}"])

    report = json.loads((job / "r.json").read_text())
    assert [*range(24, 30), *range(32, 80)] == ids(job / "plan")
    assert 2 == report["forbidden"]["records"]
    assert "forbidden samples" in report["plan"]["differs_because"]
    assert 0 == checked(job)


def test_without_a_reference_it_plans_what_the_failure_rolled_back(job: Path) -> None:
    """Only whole steps are known: the report says how far, and the exit code that it is limited."""
    code, report = planned(job, reference=False)

    assert 3 == code
    assert ("rolled-back", 4) == (report["extent"], report["through_step"])
    assert list(range(24, 32)) == ids(job / "plan")
    assert 3 == checked(job, reference=False)


def test_consumed_samples_that_the_reference_lacks_limit_a_plan(tmp_path: Path) -> None:
    """What was used beside the reference is named; nobody knows in whose place it was."""
    write(tmp_path / "control", attempt(0, dealt(1, 6)))
    odd = dealt(1, 3)
    odd[2] = [[4, 5], [6, 99]]
    write(tmp_path / "run", attempt(0, odd))

    code, report = planned(tmp_path)

    assert 3 == code
    assert (1, ["99"]) == (report["cursor"]["unmatched"], report["cursor"]["unmatched_examples"])
    assert [7, *range(12, 24)] == ids(tmp_path / "plan")
    assert 3 == checked(tmp_path)


def test_a_redacted_report_names_no_sample(tmp_path: Path) -> None:
    """Neither of a plan nor of its check; the plan itself is a ledger, and holds them all."""
    write(tmp_path / "control", attempt(0, dealt(1, 6)))
    odd = dealt(1, 3)
    odd[2] = [[4, 5], [6, 7799]]
    write(tmp_path / "run", attempt(0, odd))
    roots = (tmp_path / "run", "--reference", tmp_path / "control", "--redact", "pepper")
    asked = ("--checkpoint-step", "3", "--world-size", "2", "-o", tmp_path / "plan")

    made = [ledger_audit("plan", *roots, *asked, "--format", "json")]
    (tmp_path / "plan").rename(tmp_path / "kept")
    made += [ledger_audit("plan", *roots, *asked)]
    made += [ledger_audit("plan", "--check", tmp_path / "kept", *roots)]

    assert [3, 3, 3] == [one.code for one in made], made[0].err
    assert not [one for one in made if "7799" in one.out]
    assert "redacted:" in made[0].out
    assert "redacted:" in made[1].out
    assert made[0].report["options"]["redacted"]
    schema = json.loads((DOCS / "plan.schema.json").read_text())
    assert not [*Draft202012Validator(schema).iter_errors(made[0].report)]


HOSTILE = ("\x1b[31m", "[bold]x[/bold]", "\u202e", "x" * 5000, "'\"\n", "a", "b", "c")


def _labelled(epoch: int, first: int, last: int) -> dict[int, list[list[dict[str, Any]]]]:
    """Give steps of two text ids, one of each source, with places; eight are an epoch."""
    return {
        step: [
            [
                {
                    "sample_id": HOSTILE[(step - 1) % 4 * 2 + rank],
                    "source": ("web", "books")[rank],
                    "epoch": epoch,
                    "position": (step - 1) * 2 + rank,
                }
            ]
            for rank in range(2)
        ]
        for step in range(first, last + 1)
    }


def test_sources_and_epochs_are_generations_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sample comes again in the next epoch; what the last one left comes first."""
    write(tmp_path / "control", attempt(0, {**_labelled(0, 1, 4), **_labelled(1, 5, 8)}))
    done = {**_labelled(0, 1, 4), **_labelled(1, 5, 6)}
    done[3][1] = []  # a sample of books, at place 5, was skipped
    write(tmp_path / "run", attempt(0, done))

    code, report = planned(tmp_path, "--memory", "64MiB", step=6, world=1)

    assert 0 == code
    assert "\x1b" not in capsys.readouterr().out
    assert [(0, 5), (1, 12), (1, 13), (1, 14), (1, 15)] == [
        (one["epoch"], one["position"]) for one in uses(tmp_path / "plan")
    ]
    told = [
        (one["source"], one["epoch"], one["consumed"], one["planned"], one["holes"])
        for one in report["generations"]
    ]
    of_books = [("books", 0, 3, 1, 1), ("books", 1, 2, 2, 0)]
    assert [*of_books, ("web", 0, 4, 0, 0), ("web", 1, 2, 2, 0)] == told
    assert "position" == report["cursor"]["unit"]
    assert any("come first" in one for one in report["notes"])
    assert 0 == checked(tmp_path)


def test_held_out_samples_are_not_planned(job: Path) -> None:
    """What any attempt used in a held-out stream stays out of training."""
    lines = attempt(0, dealt(1, 5, ranks=4), uncommitted=(5,))
    used = attempt(0, {1: [[60, 61]]}, stream="eval")
    write(job / "run", lines, [one for one in used if one["kind"] == "sample"])
    (job / "contract.toml").write_text('held_out = ["eval"]\n')
    command = ["plan", str(job / "run"), "--checkpoint-step", "3", "--world-size", "2"]
    command += ["--reference", str(job / "control"), "-o", str(job / "plan")]

    assert 0 == run([*command, "--contract", str(job / "contract.toml")])
    assert [*range(24, 60), *range(62, 80)] == ids(job / "plan")
    assert 0 == checked(job)


def test_what_loaders_had_read_at_the_checkpoint_is_told(tmp_path: Path) -> None:
    """Queued is not consumed: it is counted, and comes again."""
    write(tmp_path / "control", attempt(0, dealt(1, 6)))
    lines: list[Line] = []
    for one in attempt(0, dealt(1, 4)):
        if one["kind"] == "commit" and one["step"] == 3:
            queued = {"kind": "sample", "stage": "queued", "rank": one["rank"], "attempt": 0}
            lines.append({**queued, "sample_id": 14 + one["rank"]})
        lines.append(one)
    write(tmp_path / "run", lines)

    code, report = planned(tmp_path)

    assert (0, {"queued": 2}) == (code, report["cursor"]["in_flight"]["stages"])
    assert list(range(12, 24)) == ids(tmp_path / "plan")


def test_a_checkpoint_that_was_resumed_from_can_be_planned_from_again(tmp_path: Path) -> None:
    """What the attempts after it did is in no weights that it holds."""
    write(tmp_path / "control", attempt(0, dealt(1, 8)))
    wrong = attempt(1, dealt(4, 6, at=0), after=(0, 3))
    write(tmp_path / "run", attempt(0, dealt(1, 5)), wrong)

    code, _ = planned(tmp_path)

    assert 0 == code
    assert list(range(12, 32)) == ids(tmp_path / "plan")
    assert 0 == checked(tmp_path)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (attempt(0, dealt(1, 5), world_size=3), "rank 2"),
        (attempt(0, dealt(1, 5), uncommitted=(2,)), "step 2"),
        ([one for one in attempt(0, dealt(1, 5)) if one.get("step") != 2], "step 2"),
        (
            [
                {**one, "data": {"samples": 3}} if one["kind"] == "commit" else one
                for one in attempt(0, dealt(1, 5))
            ],
            "are not there",
        ),
        (
            [
                {**one, "data": {"samples": 2, "digest": "7"}} if one["kind"] == "commit" else one
                for one in attempt(0, dealt(1, 5), digest_columns=list(DIGEST_COLUMNS))
            ],
            "another digest",
        ),
    ],
)
def test_what_was_consumed_is_proven_or_no_plan_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[Line], said: str
) -> None:
    """A rank, a step or a record that is not there might have consumed anything."""
    write(tmp_path / "control", attempt(0, dealt(1, 6)))
    write(tmp_path / "run", lines)

    code, _ = planned(tmp_path)

    assert 3 == code
    assert said in capsys.readouterr().err
    assert not (tmp_path / "plan").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--checkpoint-step", "9", "--world-size", "2", "-o", "{0}/plan"], "has steps 1 to 5"),
        (["--checkpoint-step", "3", "--world-size", "2", "-o", "{0}/run"], "exists"),
        (["--checkpoint-step", "3", "--world-size", "2", "-o", "{0}/no/plan"], "does not exist"),
        (["--checkpoint-step", "3", "--world-size", "2"], "Missing option '-o'"),
        (["--world-size", "2", "-o", "{0}/plan"], "--checkpoint-step"),
        (["--check", "{0}/run"], "cursor.json"),
        (["--check", "{0}/run", "--world-size", "2"], "does not go with --check"),
    ],
)
def test_what_cannot_be_done_is_said(
    job: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """Each mistake has its own words, and nothing is written."""
    before = sorted(job.rglob("*"))
    told = [one.replace("{0}", str(job)) for one in arguments]

    code = run(["plan", str(job / "run"), "--reference", str(job / "control"), *told])

    assert code in (2, 4)
    assert said in " ".join(capsys.readouterr().err.split())
    assert before == sorted(job.rglob("*"))


def test_the_same_input_gives_the_same_bytes(job: Path) -> None:
    """No time, host or chance is in a plan."""
    planned(job)
    (job / "plan").rename(job / "one")
    planned(job)

    files = [
        {path.name: path.read_bytes() for path in (job / name).rglob("*") if path.is_file()}
        for name in ("one", "plan")
    ]
    assert files[0] == files[1]


def _plan_lines(root: Path) -> list[Line]:
    return [
        {"attempt": 0, "kind": "sample"}
        | {key: one[key] for key in ("rank", "step", "slot", "row", "sample_id")}
        for one in uses(root)
    ]


@pytest.mark.parametrize("fault", ["lost", "twice", "other", "order", "reference", "run"])
def test_check_finds_a_plan_that_is_none(job: Path, fault: str) -> None:
    """A sample lost, planned twice or exchanged, another order, another stream: each is broken."""
    planned(job)
    lines = _plan_lines(job / "plan")
    if fault == "lost":
        del lines[5]
    elif fault == "twice":
        lines.append({**lines[-1], "row": 9})
    elif fault == "other":
        lines[3]["sample_id"] = 5
    elif fault == "order":
        lines[0]["sample_id"], lines[-1]["sample_id"] = (
            lines[-1]["sample_id"],
            lines[0]["sample_id"],
        )
    elif fault == "reference":
        write(job / "control", attempt(0, dealt(1, 11, ranks=4)))
    else:
        write(job / "run", attempt(0, dealt(1, 5, ranks=4, at=8)))
    cursor = (job / "plan" / "cursor.json").read_text()
    if fault not in ("reference", "run"):
        write(job / "bad", lines)
        (job / "bad" / "cursor.json").write_text(cursor)
        (job / "plan").rename(job / "good")
        (job / "bad").rename(job / "plan")
        # a plan is a ledger; a log beside its cursor stands for one whose files were changed
        (job / "plan" / "cursor.json").rename(job / "cursor.json")
        code = _check_log(job)
    else:
        code = checked(job)

    assert 1 == code


def _check_log(job: Path) -> int:
    """Make a ledger of a log, put the cursor beside it, and check it."""
    (job / "plan").rename(job / "log")
    assert 0 == run(["convert", str(job / "log"), "-o", str(job / "plan")])
    (job / "cursor.json").rename(job / "plan" / "cursor.json")
    return checked(job)


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a job, a checkpoint, and who goes on."""
    ranks, rows = draw(st.sampled_from([(4, 1), (4, 2), (2, 3), (3, 2)]))
    steps = draw(st.integers(2, 9))
    return {
        "ranks": ranks,
        "rows": rows,
        "steps": steps,
        "at": draw(st.integers(1, steps - 1)),
        "world": draw(st.sampled_from([1, 2, 3, 5, 8])),
        "micro_batch": draw(st.sampled_from([None, 1, 2])),
        "accumulation": draw(st.sampled_from([None, 1, 3])),
        "extra": draw(st.integers(0, 5)),
        "lost": draw(st.integers(0, 2)),
    }


@settings(max_examples=8)
@given(drawn=jobs())
def test_every_sample_is_consumed_or_planned_once(
    tmp_path_factory: pytest.TempPathFactory, drawn: dict[str, Any]
) -> None:
    """Whatever the sizes: a partition, in order, and a plan of a plan is one, too."""
    tmp_path = tmp_path_factory.mktemp("job")
    shape = {"ranks": drawn["ranks"], "rows": drawn["rows"]}
    batch = drawn["ranks"] * drawn["rows"]
    whole = dealt(1, drawn["steps"], **shape)
    if drawn["extra"]:  # the last step is ragged
        extra = [batch * drawn["steps"] + nth for nth in range(min(drawn["extra"], batch - 1) or 1)]
        whole[drawn["steps"] + 1] = [extra] + [[] for _ in range(drawn["ranks"] - 1)]
    total = sum(len(own) for step in whole.values() for own in step)
    ran = dealt(1, drawn["at"], **shape)
    lost = set(range(drawn["lost"]))
    ran[1] = [[one for one in own if one not in lost] for own in ran[1]]
    write(tmp_path / "control", [
        one for one in attempt(0, whole) if one["kind"] == "sample"
    ])  # fmt: skip
    write(tmp_path / "run", attempt(0, ran))
    wanted = Wanted(drawn["world"], drawn["micro_batch"], drawn["accumulation"])
    roots, target = [tmp_path / "run"], tmp_path / "plan"
    reference = [tmp_path / "control"]

    report = plan(
        roots, target, Reading(), wanted, checkpoint_step=drawn["at"], reference=reference
    )

    left = [*sorted(lost), *range(batch * drawn["at"], total)]
    assert left == ids(target)
    assert report.cursor.consumed.records + report.deal.records == total
    assert "continuous" == check(target, roots, Reading(), reference=reference).verdict
    _look_at_ranks(target, wanted, report.deal.micro_batch)
    steps = by_step(target)
    if len(steps) > 1:
        _plan_again(tmp_path, steps, left)


def _look_at_ranks(target: Path, wanted: Wanted, rows: int) -> None:
    """No micro-batch is too large, and ranks of a step differ by one sample at most."""
    used = uses(target)
    slots = Counter((one["step"], one["rank"], one["slot"]) for one in used)
    assert max(slots.values()) <= rows
    ranks = Counter((one["step"], one["rank"]) for one in used)
    for step in {one["step"] for one in used}:
        sizes = [ranks[step, rank] for rank in range(wanted.world_size)]
        assert max(sizes) - min(sizes) <= 1


def _plan_again(tmp_path: Path, steps: dict[int, list[int]], left: list[int]) -> None:
    """Run the first step of the plan, and plan what is left of it."""
    first = min(steps)
    run_of = [one for one in _plan_lines(tmp_path / "plan") if one["step"] == first]
    ranks = 1 + max(one["rank"] for one in run_of)
    start = {"world_size": ranks, "resumed_from": {"attempt": 0, "step": first - 1}}
    lines: list[Line] = [
        {"attempt": 1, "kind": "start", "rank": rank, "data": start} for rank in range(ranks)
    ]
    lines += [{**one, "attempt": 1} for one in run_of]
    lines += [
        {"attempt": 1, "kind": "commit", "rank": rank, "step": first} for rank in range(ranks)
    ]
    text = (tmp_path / "run" / "run.jsonl").read_text()
    before = [json.loads(line) for line in text.splitlines()]
    write(tmp_path / "run2", before, lines)

    again = plan(
        [tmp_path / "run2"],
        tmp_path / "plan2",
        Reading(),
        Wanted(2),
        checkpoint_step=first,
        reference=[tmp_path / "plan"],
    )

    assert left[len(steps[first]) :] == ids(tmp_path / "plan2")
    assert again.cursor.before_reference == len(before_records(before))
    roots, reference = [tmp_path / "run2"], [tmp_path / "plan"]
    assert "continuous" == check(tmp_path / "plan2", roots, Reading(), reference=reference).verdict


def before_records(lines: list[Line]) -> list[Line]:
    """Keep the records among lines."""
    return [one for one in lines if one["kind"] == "sample"]
