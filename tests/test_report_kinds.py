"""Several reports of one run: which command has which, where they go, and ids told as hashes."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import FIXTURES, ROOT
from format_readers import commands_of, strings_in
from native import Line, read_lines
from running import Ran, ledger_audit

from ledger_audit.redaction import hide
from ledger_audit.report import REPORTERS
from ledger_audit.report.markdown import SUMMARY

BROKEN = FIXTURES / "traps" / "two-resumes-wrong-in-the-same-way" / "run"
HASH = re.compile(r"redacted:[0-9a-f]{16}")


@pytest.mark.parametrize("command", ["verify", "checkpoints", "preflight", "selftest"])
@pytest.mark.parametrize("option", [("--format", "junit"), ("--report", "junit=x.xml")])
def test_a_kind_that_a_command_lacks_is_refused(command: str, option: tuple[str, str]) -> None:
    """The message names the kinds that there are."""
    ran = ledger_audit(command, BROKEN, *option)

    assert ran.code == 2
    assert "terminal" in ran.err
    assert "json" in ran.err
    assert "markdown" not in ran.err


@pytest.mark.parametrize("command", ["diff", "gate"])
def test_a_kind_that_nobody_has_is_refused(command: str) -> None:
    """The message of a judging command names all kinds."""
    ran = ledger_audit(command, BROKEN, BROKEN, "--report", "sarif=x")

    assert ran.code == 2
    assert all(kind in ran.err for kind in REPORTERS)


def test_one_run_feeds_all(tmp_path: Path) -> None:
    """Each file holds what `--format` writes, and standard output what was asked for."""
    files = {kind: tmp_path / f"report.{kind}" for kind in REPORTERS}
    reports = [word for kind in files for word in ("--report", f"{kind}={files[kind]}")]

    ran = ledger_audit("diff", BROKEN, "--format", "junit", *reports)

    assert ran.code == 1
    assert ran.out == files["junit"].read_text()
    for kind in ("json", "markdown"):
        assert ledger_audit("diff", BROKEN, "--format", kind).out == files[kind].read_text()


def test_two_reports_do_not_share_a_file(tmp_path: Path) -> None:
    """The second would replace the first: nothing is judged."""
    file = tmp_path / "x"

    ran = ledger_audit("diff", BROKEN, "--report", f"json={file}", "--report", f"junit={file}")

    assert ran.code == 2
    assert not file.exists()


def test_a_report_on_standard_output_stands_above_the_other(tmp_path: Path) -> None:
    """`/dev/stdout` is a pipe or a file: neither is replaced, and nothing that is told is lost."""
    command = [sys.executable, "-m", "ledger_audit", "diff", BROKEN]
    command += ["--report", "github=/dev/stdout"]
    file = tmp_path / "log"

    piped = subprocess.run(command, capture_output=True, text=True, check=False)
    with file.open("w") as log:
        subprocess.run(command, stdout=log, check=False)

    assert piped.returncode == 1
    assert piped.stdout.startswith("::error ")
    assert "\nBROKEN after step" in piped.stdout
    assert piped.stdout == file.read_text()


# GitHub's summary


@pytest.fixture
def summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the file that GitHub shows below a run."""
    file = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    return file


def test_the_summary_is_added_to(summary: Path) -> None:
    """Another tool of the same step has written there already; other formats leave it alone."""
    ledger_audit("diff", BROKEN, "--report", "markdown=/dev/null")
    assert not summary.exists()
    summary.write_text("# before\n")

    ran = ledger_audit("diff", BROKEN, "--format", "github")

    assert commands_of(ran.out)[0][0] == "error"
    markdown = ledger_audit("diff", BROKEN, "--format", "markdown").out
    assert f"# before\n\n{markdown}" == summary.read_text()


def test_a_full_summary_stays_as_it_is(summary: Path) -> None:
    """GitHub shows nothing of one that is too long, so nothing is added, and that is said."""
    summary.write_text("x" * (SUMMARY - 1000))

    ran = ledger_audit("diff", BROKEN, "--report", "github=/dev/null")

    assert ran.code == 1
    assert SUMMARY - 1000 == summary.stat().st_size
    assert "GITHUB_STEP_SUMMARY" in ran.err


def test_a_summary_that_cannot_be_written_changes_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said on standard error."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "folder"))

    ran = ledger_audit("diff", BROKEN, "--format", "github")

    assert ran.code == 1
    assert "cannot append" in ran.err
    assert commands_of(ran.out)


# Ids told as hashes


Name = Callable[[int | str], int | str]
NAMED = re.compile(r"sécret/\w+|7\d{8}")
"""What an id is called by either of these."""


def _as_text(sample_id: int | str) -> str:
    return f"sécret/{sample_id}"


def _as_number(sample_id: int | str) -> int:
    number = int.from_bytes(sample_id.encode()) if isinstance(sample_id, str) else sample_id
    return 700_000_000 + 7919 * number


def _renamed(folder: Path, target: Path, name: Name) -> Path:
    """Write the log of a run with other sample ids."""
    target.mkdir(parents=True)
    lines = [_with_name(line, name) for line in read_lines(folder)]
    log = target / "run.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return log


def _with_name(line: Line, name: Name) -> Line:
    return {**line, "sample_id": name(line["sample_id"])} if line["kind"] == "sample" else line


@pytest.mark.parametrize("name", [_as_text, _as_number], ids=["text", "numbers"])
@pytest.mark.parametrize(
    "case",
    [
        "zoo/torch-ddp-prefetched-position",
        "traps/two-resumes-wrong-in-the-same-way",
        "traps/control-was-never-the-same",
    ],
)
def test_no_report_tells_an_id(case: str, name: Name, tmp_path: Path, summary: Path) -> None:
    """No format of any command has one; each has the hash of the same id where the id would be."""
    run = _renamed(FIXTURES / case / "run", tmp_path / "run", name)
    commands: list[tuple[str | Path, ...]] = [("diff", run), ("verify", run), ("preflight", run)]
    if (FIXTURES / case / "control").exists():
        control = _renamed(FIXTURES / case / "control", tmp_path / "control", name)
        commands.append(("gate", control, run))
    found: set[str] = set()
    for command in commands:
        bare = ledger_audit(*command, "--format", "json")
        ids = {one for one in strings_in(bare.report) if NAMED.fullmatch(one)}
        found |= ids
        told = _all_formats(command, tmp_path)
        for kind, text in told.items():
            assert not re.search(r"cret/|7\d{8}", HASH.sub("", text)), kind
        hidden = set(HASH.findall(told["json"]))
        assert {hide(one, "pepper") for one in ids} == hidden
        assert all(set(HASH.findall(text)) <= hidden for text in told.values())
        if hidden:
            assert HASH.search(told["terminal"])
        assert _without_ids(bare) == _without_ids(_ran(told["json"], bare.code))
    assert found
    assert "sécret" not in summary.read_text()


def _all_formats(command: tuple[str | Path, ...], tmp_path: Path) -> dict[str, str]:
    kinds = REPORTERS if command[0] in ("diff", "gate") else ("terminal", "json")
    files = {kind: tmp_path / f"{command[0]}.{kind}" for kind in kinds}
    reports = [word for kind in files for word in ("--report", f"{kind}={files[kind]}")]
    ledger_audit(*command, "--redact", "pepper", *reports)
    return {kind: file.read_text() for kind, file in files.items()}


def _ran(out: str, code: int) -> Ran:
    return Ran(code, out, "")


def _without_ids(ran: Ran) -> str:
    report = ran.report
    report["options"].pop("redacted", None)
    return re.sub(rf"{HASH.pattern}|{NAMED.pattern}", "ID", json.dumps(report, ensure_ascii=False))


def test_what_a_whole_run_lacks_is_hidden(tmp_path: Path) -> None:
    """Samples that never came, and those that are not in the manifest."""
    manifest = tmp_path / "ids.txt"
    manifest.write_text("".join(f"sécret/{number}\n" for number in (0, 1, 777)))
    lines = [
        {"kind": "sample", "attempt": 0, "rank": 0, "step": step, "slot": 0, "epoch": epoch}
        | {"sample_id": f"sécret/{number}"}
        for step, (epoch, number) in enumerate([(0, 0), (0, 5), (1, 1), (1, 0)], 1)
    ]
    log = tmp_path / "run.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))

    command = ("verify", log, "--manifest", manifest)
    bare = ledger_audit(*command).out
    told = ledger_audit(*command, "--redact", "pepper", "--report", f"json={tmp_path / 'x'}").out

    for number in (777, 5):
        assert f"sécret/{number}" in bare
        assert hide(f"sécret/{number}", "pepper") in told.replace("\n", "")
        assert hide(f"sécret/{number}", "pepper") in (tmp_path / "x").read_text()
    assert "cret/" not in told + (tmp_path / "x").read_text()


def test_an_id_in_a_sentence_is_hidden() -> None:
    """A limit that names an id beyond the data set names its hash, wherever the limit is told."""
    run = FIXTURES / "cases" / "an-id-lies-beyond-the-data-set" / "run"
    bare = ledger_audit("diff", run, "--format", "json")
    limits = bare.report["resumes"][0]["limits"]
    text = next(one["text"] for one in limits if one["code"] == "id-outside-dataset")
    named = re.match(r"sample id (\d+) is beyond", text)
    assert named is not None

    told = ledger_audit("diff", run, "--redact", "pepper", "--format", "markdown").out

    assert f"sample id {named[1]}" not in told
    assert hide(named[1], "pepper") in told


def test_the_salt_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same salt, and no report tells it."""
    given = ledger_audit("diff", BROKEN, "--redact", "pepper", "--format", "markdown")
    monkeypatch.setenv("LEDGER_AUDIT_REDACT", "pepper")
    found = ledger_audit("diff", BROKEN, "--format", "markdown")

    assert given == found
    assert HASH.search(found.out)
    assert "pepper" not in found.out
    assert "LEDGER_AUDIT_REDACT" in found.out  # how to see the same again
    assert HASH.search(ledger_audit("verify", BROKEN).out)


@pytest.mark.parametrize("salt", ["", "x" * 65, "é" * 33])
def test_a_salt_that_is_no_key_is_refused(salt: str) -> None:
    """An empty one would hide nothing, and one beyond 64 bytes is no key of BLAKE2b."""
    ran = ledger_audit("diff", BROKEN, "--redact", salt)

    assert ran.code == 2
    assert "1 to 64 bytes" in ran.err


def test_a_hash_is_what_the_page_says() -> None:
    """The same id and salt give the same; another id, another salt, or an odd id another."""
    page = (ROOT / "docs" / "formats.md").read_text()
    told = {hide(one, salt) for one in ("42", "43", "", "\ud800") for salt in ("pepper", "salt")}

    assert len(told) == 8
    assert all(HASH.fullmatch(one) for one in told)
    assert f"`{hide('42', 'pepper')}`" in page
