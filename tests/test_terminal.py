"""The report for eyes: golden screens, counts that equal the JSON's, and what a screen may be."""

import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from conftest import ANY_RUNS, FIXTURES, ROOT
from native import read_lines, write_ledger
from rich.cells import cell_len
from running import ledger_audit
from tiny import attempt, dealt, write

from ledger_audit import audit
from ledger_audit.continuity.classify import WORST_EXPECTED, WORST_RESUMED
from ledger_audit.model import (
    Amount,
    Decision,
    Expected,
    Overlay,
    Picture,
    Report,
    Resumed,
    Strip,
    Verdict,
)
from ledger_audit.printable import quoted
from ledger_audit.report.json_v1 import to_json
from ledger_audit.report.marks import LETTERS, STYLES, VERDICTS
from ledger_audit.report.phrases import damage_of
from ledger_audit.report.picture import set_picture
from ledger_audit.report.screen import Screen
from ledger_audit.report.terminal import to_terminal

GOLDEN = FIXTURES / "golden"
SCREENS = {
    "80": Screen(80),
    "80.colour": Screen(80, has_colour=True),
    "200": Screen(200),
    "200.colour": Screen(200, has_colour=True),
}
CASES = {
    "diff": [
        "zoo/torch-ddp-prefetched-position",
        "zoo/torch-ddp-correct",
        "zoo/torch-ddp-double-failure",
        "zoo/torch-ddp-elastic-4to2-correct",
        "zoo/torch-ddp-partial-accum",
        "zoo/webdataset-epoch-restart",
        "zoo/accelerate-docs-epoch0",
        "traps/one-silent-rank-hides-nothing",
        "traps/planned-stop-jumped-by-two-positions",
        "traps/resumed-ended-and-did-nothing",
        "traps/stopped-by-the-time-limit",
        "traps/two-resumes-wrong-in-the-same-way",
        "traps/void-step-rewound",
    ],
    "gate": [
        "zoo/megatron-seqlen-changed",
        "zoo/megatron-correct",
        "zoo/olmo-state-not-loaded",
        "traps/control-was-never-the-same",
    ],
}
FOLDERS = [path.parent for path in ANY_RUNS]
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@cache
def _report(command: str, folder: Path) -> Report:
    """Judge a case once for all of its screens."""
    if command == "gate":
        return audit.gate([folder / "control"], [folder / "run"], audit.Reading(full=True))
    return audit.diff([folder / "run"])


def _golden() -> list[tuple[str, str, str]]:
    return [
        (command, case, size) for command in CASES for case in CASES[command] for size in SCREENS
    ]


@pytest.mark.parametrize(("command", "case", "size"), _golden())
def test_a_screen_looks_as_it_did(
    command: str, case: str, size: str, pytestconfig: pytest.Config
) -> None:
    """A dozen real and tiny cases, narrow and wide, with and without colour."""
    path = GOLDEN / f"{command}-{case.split('/')[1]}.{size}.txt"

    told = to_terminal(_report(command, FIXTURES / case), SCREENS[size])

    if pytestconfig.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(told)
    assert path.read_text() == told


def test_no_golden_screen_is_left_over() -> None:
    """Every stored screen belongs to a case."""
    expected = {f"{one}-{case.split('/')[1]}.{size}.txt" for one, case, size in _golden()}

    assert expected == {path.name for path in GOLDEN.iterdir() if path.is_file()}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_the_screen_tells_what_the_json_tells(folder: Path) -> None:
    """Counts by outcome, verdicts and limits are the JSON's, on every screen, in every colour."""
    report = audit.diff([folder / "run"])
    told = json.loads(to_json(report))

    for screen in (Screen(60), Screen(80), Screen(200), Screen(200, has_colour=True)):
        text = ESCAPE.sub("", to_terminal(report, screen))
        assert told["verdict"] == text.split()[0].strip(":").lower()
        assert all(cell_len(line) <= screen.width for line in text.splitlines())
        sections = re.split(r"^Resume \d+ of \d+: ", text, flags=re.MULTILINE)[1:]
        for section, resume in zip(sections, reversed(told["resumes"]), strict=True):
            title = " ".join(section.partition("\n\n")[0].split())
            assert resume["verdict"] in title.partition(": ")[2].split()[0]
            if re.search(r"^  reach ", section, re.MULTILINE):
                assert resume["verdict"] == "continuous"
                continue
            assert _counts_of(resume) == _counts_on(section)
            flat = " ".join(section.split())
            for limit in resume["limits"]:
                assert f"[{limit['code']}]" in flat
            for one in resume["findings"]:
                assert f"{LETTERS[one['code']]} {one['code']} " in flat


def _counts_of(
    resume: dict[str, dict[str, dict[str, dict[str, int | None] | None]]],
) -> set[object]:
    headline = {"skipped", "replayed", "out-of-order"}
    return {
        (name, *(None if amount is None else amount[key] for key in ("records", "samples")))
        for group in resume["outcomes"].values()
        for name, amount in group.items()
        if name in headline or (amount is not None and amount["records"])
    }


def _counts_on(section: str) -> set[object]:
    """Read the tables of a screen: name, records, samples."""
    number = r"(-|[\d,]+)"
    rows = re.findall(
        rf"(?:^|\s)\S ([a-z-]+) +{number} +{number}(?=[\s]|$)", section, flags=re.MULTILINE
    )
    return {
        (name, *(None if one == "-" else int(one.replace(",", "")) for one in numbers))
        for name, *numbers in rows
        if name in {*Resumed, *Expected, *Overlay}
    }


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_the_picture_shows_what_was_found(folder: Path) -> None:
    """Each finding has a cell at least as bad in its first step, on one of its ranks."""
    order = [*LETTERS]
    for resume in audit.diff([folder / "run"], audit.Reading(full=True)).resumes:
        for one in resume.findings:
            if one.code == Overlay.MISPLACED:
                continue
            side = "reference" if one.code in set(Expected) else "resumed"
            column = next(
                index
                for index, (first, last) in enumerate(resume.picture.columns)
                if first <= one.first_step <= last
            )
            cells = [
                cell
                for strip in resume.picture.strips
                if any(a <= strip.ranks[1] and strip.ranks[0] <= b for a, b in one.ranks)
                and (cell := getattr(strip, side)[column]) is not None
            ]
            assert any(order.index(cell) <= order.index(one.code) for cell in cells)


@pytest.mark.parametrize(
    ("share", "records", "told"),
    [
        (None, 4, "replayed; share of the epoch unknown: dataset_samples is not logged"),
        (None, 0, "0 samples skipped, 0 samples replayed"),
        (0.0, 0, "replayed; 0 % of an epoch"),
        (0.0, 4, "replayed; less than 0.001 % of an epoch"),
        (0.000002, 4, "replayed; less than 0.001 % of an epoch"),
        (0.125, 4, "replayed; 12.5 % of an epoch"),
    ],
)
def test_a_small_damage_is_not_called_none(share: float | None, records: int, told: str) -> None:
    """Four samples of a trillion are more than nothing; of nothing no share is asked for."""
    amount, nothing = Amount(records, records, None), Amount(0, 0, None)
    decision = Decision("go-back", "", nothing, amount, share, None)

    assert damage_of(decision).endswith(told)


OPENINGS = [
    ("torch-ddp-correct", "diff", [], []),
    (
        "torch-ddp-prefetched-position",
        "diff",
        [
            "shift at least +40: it jumped ahead.",
            "step 8 of attempt 0: its weights, not the data position that was saved with them",
        ],
        ["explain prefetch-counted", "show LEDGER", "checkpoints LEDGER"],
    ),
    (
        "torch-ddp-epoch-restart",
        "diff",
        ["shift -128: it went back.", "safe the checkpoint at step 8 of attempt 0 more"],
        ["explain cursor-not-restored", "show LEDGER", "checkpoints LEDGER"],
    ),
    (
        "resumed-rank-left-no-ledger",
        "diff",
        ["doubt 3 records undecided, which may be damage"],
        ["explain no-whole-resumed-step", "show LEDGER", "checkpoints LEDGER"],
    ),
    (
        "olmo-state-not-loaded",
        "gate",
        [],
        ["explain cursor-not-restored", "show RUN", "checkpoints RUN"],
    ),
    ("control-was-never-the-same", "gate", [], ["show RUN --step 1"]),
]


@pytest.mark.parametrize(("case", "command", "told", "more"), OPENINGS)
def test_the_first_lines_lead_on(case: str, command: str, told: list[str], more: list[str]) -> None:
    """Which way the stream moved, what is in doubt, what of a checkpoint is safe; what to run."""
    folder = next(one for one in FOLDERS if one.name == case)

    text = to_terminal(_report(command, folder), Screen(200))

    opening = " ".join(text.partition("\n\nResume")[0].partition("\n\nThe whole")[0].split())
    assert [] == [one for one in told if one not in f"{opening} "]
    named = re.findall(r"ledger-audit ([a-z]+ [^:]+):", opening)
    assert more == named


def test_what_is_named_can_be_run() -> None:
    """Of a job that broke at an older resume, the command shows that resume; it runs."""
    folder = next(one for one in FOLDERS if one.name == "torch-ddp-double-failure")
    report = _report("diff", folder)
    older = replace(report.resumes[0], verdict=Verdict.BROKEN)
    report = replace(report, verdict=Verdict.BROKEN, resumes=(older, report.resumes[1]))

    told = re.search(r"ledger-audit (show LEDGER --resume 1):", to_terminal(report, Screen(80)))

    assert told is not None
    words = [str(folder / "run") if one == "LEDGER" else one for one in told[1].split()]
    ran = ledger_audit(*words)
    assert (0, True) == (ran.code, " checkpoint step 8 " in ran.out)


def test_a_reason_is_told_once() -> None:
    """The clauses below say that theirs is the same; each short one stands as it is."""
    folder = next(one for one in FOLDERS if one.name == "resumed-rank-left-no-ledger")

    text = to_terminal(_report("diff", folder), Screen(200))

    reason = "unproven    no step after 2 is committed with records of every rank"
    assert (1, 2) == (text.count(reason), text.count("unproven    likewise"))
    assert "drift       continuous  nothing found" in text


def test_every_outcome_has_a_letter_of_its_own() -> None:
    """Within one side no two outcomes share a letter, and colour says nothing more than it."""
    for side in ([*Resumed, *Overlay], [*Expected, "committed"]):
        assert len(side) == len({LETTERS[name] for name in side})
    assert LETTERS.keys() == STYLES.keys()
    assert set(Verdict) == set(VERDICTS)


def test_the_worst_is_the_same_everywhere() -> None:
    """A folded cell of the screen is what the reasoning calls worst."""
    for worst in (WORST_RESUMED, WORST_EXPECTED):
        assert list(worst) == [name for name in LETTERS if name in set(worst)]


def _drawn(picture: Picture, width: int, checkpoint: int = 8) -> list[str]:
    lines = set_picture(picture, checkpoint, width=width, sides=("rolled back", "resumed"))
    return [line.plain for line in lines]


def test_many_ranks_and_steps_fold_into_bands_and_columns() -> None:
    """4,096 ranks over 1,600 steps fit a narrow screen, and the one bad cell is still there."""
    columns = tuple((8 + n, 8 + n) if n < 1 else (9 + 10 * (n - 1), 8 + 10 * n) for n in range(161))
    strips = tuple(
        Strip(
            (rank, rank + 63),
            64,
            (*["committed"], *["matched"] * 160),
            (None, *("replayed" if (rank, n) == (640, 80) else "in-place" for n in range(160))),
        )
        for rank in range(0, 4096, 64)
    )

    lines = _drawn(Picture(columns, strips), 78)

    assert all(len(line) <= 78 for line in lines)
    assert len(lines) <= 2 * 12 + 5
    assert sum(line.count("R") for line in lines) == 1 + 1  # the cell and the legend
    assert "one letter: the worst of up to" in " ".join(lines)


def test_bands_that_show_the_same_are_one() -> None:
    """Of 512 ranks every fifth is wrong: one band says so, and that it shows the worst of them."""
    strips = tuple(
        Strip((rank, rank), 1, ("matched",), ("replayed" if rank % 5 == 3 else "in-place",))
        for rank in range(512)
    )

    lines = _drawn(Picture(((9, 9),), strips), 78)

    assert ["ranks 0-511"] == [line.partition("  ")[0] for line in lines if line[:4] == "rank"]
    assert any("one band: the worst of its ranks" in line for line in lines)
    assert not any("one band" in line for line in _drawn(Picture(((9, 9),), strips[:4]), 78))


def test_of_many_ranks_one_is_shown(tmp_path: Path) -> None:
    """The command that shows records names a rank that is wrong, where all would be too many."""
    ranks = 20
    right, again = dealt(1, 6, ranks=ranks), dealt(5, 8, ranks=ranks)
    wrong = {step: [*rows[:13], right[step - 4][13], *rows[14:]] for step, rows in again.items()}
    root = write(tmp_path / "run", attempt(0, right), attempt(1, wrong, after=(0, 4)))

    told = re.search(r"ledger-audit show LEDGER (--rank 13):", ledger_audit("diff", root).out)

    assert told is not None
    shown = ledger_audit("show", root, *told[1].split()).out
    assert {"13"} == {*re.findall(r"rank (\d+)", shown)}


def test_a_picture_without_cells_has_no_line() -> None:
    """Nothing to draw, nothing drawn."""
    assert _drawn(Picture((), ()), 78) == []


def _run_in_terminal(*arguments: str | Path, **variables: str) -> str:
    """Run the program with a real terminal, 80 columns wide, as its standard output."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "ledger_audit", *map(str, arguments)],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm-256color", "PAGER": "cat", **variables},
    )
    os.close(theirs)
    told = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not part:
            break
        told += part
    os.close(ours)
    child.wait()
    return told.decode()


def test_a_terminal_gets_colour_and_a_pipe_does_not() -> None:
    """`NO_COLOR` and a dumb terminal take colour away; `FORCE_COLOR` gives it to a pipe."""
    run = FIXTURES / "traps" / "void-step-rewound" / "run"

    assert "\x1b[1;31mBROKEN" in _run_in_terminal("diff", run)
    assert "\x1b" not in _run_in_terminal("diff", run, NO_COLOR="1")
    assert "\x1b" not in _run_in_terminal("diff", run, TERM="dumb")
    assert "\x1b[" in _run_in_terminal("show", run)
    assert "\x1b" not in _run_in_terminal("show", run, NO_COLOR="1")
    for forced, expected in (("", False), ("1", True)):
        ran = subprocess.run(
            [sys.executable, "-m", "ledger_audit", "diff", run],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "FORCE_COLOR": forced},
        )
        assert expected == ("\x1b[" in ran.stdout)


def test_the_width_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """`COLUMNS` sets it; nothing makes a line longer."""
    run = FIXTURES / "zoo" / "torch-ddp-partial-accum" / "run"
    for columns in (20, 60, 61, 133, 200):
        width = max(60, columns)  # narrower ones fold lines themselves
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = ledger_audit("diff", run).out.splitlines()
        assert max(map(len, lines)) <= width
        assert max(map(len, ledger_audit("show", run).out.splitlines())) <= width


def test_an_encoding_that_lacks_a_letter_gets_its_escape(tmp_path: Path) -> None:
    """A terminal in plain ASCII is told the same, and nothing crashes."""
    lines = [
        {**one, "sample_id": f"größe-{one['sample_id']}"} if one["kind"] == "sample" else one
        for one in read_lines(FIXTURES / "traps" / "void-step-rewound" / "run")
    ]
    root = write_ledger(lines, tmp_path / "ledger")

    for command in ("diff", "show"):
        ran = subprocess.run(
            [sys.executable, "-m", "ledger_audit", command, root],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
        )
        assert "gr\\xf6\\xdfe-" in ran.stdout
        assert ran.stderr == ""


@pytest.mark.parametrize(
    ("sample_id", "told"),
    [
        ("42", "42"),
        ("doc-7/part.3", "doc-7/part.3"),
        ("a, b", "'a, b'"),
        ("it's", "'it\\'s'"),
        ("", "''"),
        ("x" * 1000, "x" * 48 + "...(+952)"),
        ("\u05d0\u05d1 12", "'\\u05d0\\u05d1 12'"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("日本", "日本"),
    ],
)
def test_an_id_ends_where_it_ends(sample_id: str, told: str) -> None:
    """Blanks, commas and quotes are quoted, what is long is cut, what turns a line is escaped."""
    assert told == quoted(sample_id)


def test_the_page_names_every_letter() -> None:
    """`docs/terminal-report.md` has a row for each letter, and links to each outcome."""
    page = (ROOT / "docs" / "terminal-report.md").read_text()
    for name, letter in LETTERS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{letter}` |"))
        assert name == "committed" or f"(outcomes.md#{name})" in row


ZOO = FIXTURES / "zoo"
NEXT_STEPS = [
    (("verify", ZOO / "webdataset-epoch-restart" / "run"), "ledger-audit diff LEDGER: at which"),
    (("verify", ZOO / "torch-ddp-correct" / "run"), None),
    (
        ("checkpoints", ZOO / "torch-ddp-partial-accum" / "run"),
        "ledger-audit diff LEDGER: whether the resume before it was right",
    ),
    (("checkpoints", ZOO / "torch-ddp-correct" / "run" / "attempt0.jsonl"), None),
    (
        ("checkpoints", ZOO / "torch-ddp-prefetched-position" / "run"),
        "ledger-audit plan LEDGER --checkpoint-step 15 ...: what is left by what",
    ),
    (
        ("checkpoints", FIXTURES / "traps" / "void-step-rewound" / "run"),
        "ledger.checkpoint(step, claim=...)",
    ),
]


@pytest.mark.parametrize(("arguments", "told"), NEXT_STEPS)
def test_what_is_wrong_comes_with_a_next_step(
    arguments: tuple[str | Path, ...], told: str | None
) -> None:
    """Each report that says no names a command, or a line of code, that leads on."""
    head = ledger_audit(*arguments).out.partition("\n\n  attempt ")[0]

    lead = re.findall(r"^  (?:more|settle)  (.*)$", head, re.MULTILINE)
    assert ([] if told is None else [told]) == [one[: len(told or "")] for one in lead]


def test_a_resume_keeps_its_number_where_it_is_judged_alone() -> None:
    """`--resume 1` of two is resume 1 of 2 in every report, and not the only one."""
    run = ZOO / "torch-ddp-double-failure" / "run"

    for form in ("terminal", "markdown", "junit"):
        told = [ledger_audit("diff", run, "--resume", n, "--format", form).out for n in "12"]
        assert [True, True] == [f"Resume {n} of 2" in one for n, one in enumerate(told, 1)]
    assert "Resume 2 of 2" in ledger_audit("diff", run).out


def test_a_stream_that_nobody_logged_is_called_so() -> None:
    """Nothing is judged of it, and the report asks whether that is its name."""
    run = FIXTURES / "traps" / "eval-rows-in-the-same-ledger" / "run"

    absent = ledger_audit("diff", run, "--stream", "evil\x1b[2J").out
    there = ledger_audit("diff", run, "--stream", "eval").out

    assert "  stream    no record that was read is of evil\\x1b[2J: is it called so" in absent
    assert "no record that was read" not in there
    assert "ledger-audit show LEDGER --stream eval: the records" in there
