"""The page of a post-mortem: complete, in one file, true to the JSON report, obeyed by nothing."""

import json
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import FIXTURES, ROOT
from native import read_lines, write_ledger
from pages import Page, counts_in, counts_of, hash_of
from running import ledger_audit
from test_hostile import NASTY
from tiny import attempt, dealt, write

from ledger_audit import audit
from ledger_audit.model import Expected, Resumed
from ledger_audit.model.postmortem import Postmortem
from ledger_audit.postmortem import postmortem
from ledger_audit.report.html_page import to_html

sys.path.append(str(ROOT / "tests" / "bench"))
from page_size import measured, postmortem_of

ZOO = FIXTURES / "zoo"
BROKEN = ZOO / "torch-ddp-epoch-restart" / "run"
TWICE = ZOO / "torch-ddp-double-failure" / "run"
SIZE = 3_000_000


def page_of(tmp_path: Path, *arguments: str | Path) -> str:
    """Write a page and give its text; the exit code is that of a verdict."""
    path = tmp_path / "page.html"
    ran = ledger_audit("postmortem", *arguments, "--report", f"html={path}")
    assert ran.code in (0, 1, 3), ran.err
    return path.read_text(encoding="utf-8")


def asked(root: Path) -> Postmortem:
    return postmortem([root], None, audit.Reading(), audit.DIFF, command=("ledger-audit",))


@pytest.mark.parametrize(
    ("run", "control"),
    [
        (BROKEN, None),
        (TWICE, None),
        (FIXTURES / "traps" / "void-step-rewound" / "run", None),
        (ZOO / "olmo-state-not-loaded" / "run", ZOO / "olmo-state-not-loaded" / "control"),
    ],
    ids=["broken", "twice", "void", "gate"],
)
def test_the_page_says_what_the_json_report_says(
    run: Path, control: Path | None, tmp_path: Path
) -> None:
    """Verdict, clauses, every count, causes and limits; the exit code is that of the judgement."""
    page, beside = tmp_path / "page.html", tmp_path / "report.json"
    compared = [] if control is None else ["--control", control]
    judged = ("diff", "--full", run) if control is None else ("gate", control, run)

    ran = ledger_audit(
        "postmortem", run, *compared, "--report", f"html={page}", "--report", f"json={beside}"
    )
    alone = ledger_audit(*judged)

    text, report = page.read_text(), json.loads(beside.read_text())
    assert {**ledger_audit(*judged, "--format", "json").report, "command": "postmortem"} == report
    assert (alone.code, alone.out.splitlines()[0]) == (ran.code, ran.out.splitlines()[0])
    assert f'<strong id="verdict">{report["verdict"].upper()}</strong>' in text
    parts = {f"resume-{number}": one for number, one in enumerate(report["resumes"], 1)}
    parts |= {"stream": report["stream"]} if control is not None else {}
    read = Page(text).text
    for ident, resume in parts.items():
        assert counts_of(resume) == counts_in(text, ident)
        told = re.search(rf'id="findings-{ident}">(.*?)</ul>', text, re.S)
        assert len(resume["findings"]) == (0 if told is None else told[1].count("<li>"))
        for one in [*resume["causes"], *resume["limits"]]:
            assert f"<code>{one['code']}</code>" in text
        for one in [*resume["clauses"], *report["clauses"]]:
            assert f"{one['clause']}" in read
            assert one["because"] in read


def test_the_page_stands_alone(tmp_path: Path) -> None:
    """Nothing is fetched, nothing but our own script and style may run, and both are hashed."""
    text = page_of(tmp_path, TWICE)
    page = Page(text)

    assert [] == page.open
    assert [] == re.findall(r"https?://|data:|javascript:|@import|url\((?!#)", text)
    assert {"style", "script"} == page.inside.keys()
    for name in ("style", "script"):
        assert 1 == len(page.all(name))
        assert f"{name}-src {hash_of(page.inside[name])};" in page.policy
    assert page.policy.startswith("default-src 'none';")
    for _, attributes in page.elements:
        assert {"src", "style", "srcset", "action", "formaction", "xlink:href"}.isdisjoint(
            attributes
        )
        assert [] == [name for name in attributes if name.startswith("on")]
    targets = {str(one["href"]) for one in page.all("a")}
    idents = [str(one["id"]) for _, one in page.elements if "id" in one]
    assert targets <= {f"#{ident}" for ident in idents}
    assert len(set(idents)) == len(idents)


def test_the_page_can_be_read_without_seeing_it(tmp_path: Path) -> None:
    """Landmarks, one heading of the page, a header for every table, a text for every drawing."""
    page = Page(page_of(tmp_path, TWICE))
    names = [name for name, _ in page.elements]

    assert {"header", "nav", "main", "footer"} <= set(names)
    assert 1 == names.count("h1")
    levels = [int(name[1]) for name in names if re.fullmatch(r"h[1-6]", name)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert names.count("table") == names.count("caption") == names.count("thead")
    assert all("scope" in one for one in page.all("th"))
    for one in page.all("svg"):
        assert one.get("aria-hidden") == "true" or (one["role"] == "img" and one["aria-label"])
    assert "en" == page.all("html")[0]["lang"]


def test_the_same_ledger_gives_the_same_bytes(tmp_path: Path) -> None:
    """Whenever and wherever to; from a copy elsewhere only the name of the input differs."""
    copy = shutil.copytree(BROKEN, tmp_path / "copy")
    ours = page_of(tmp_path, BROKEN)
    (tmp_path / "other").mkdir()

    again = page_of(tmp_path / "other", BROKEN)
    elsewhere = page_of(tmp_path, copy)

    assert ours == again
    assert ours.replace(str(BROKEN), "LEDGER") == elsewhere.replace(str(copy), "LEDGER")


def test_redacted_pages_hold_no_id_and_no_salt(tmp_path: Path) -> None:
    """Examples, limits and uses tell hashes; the command line leaves the salt out."""
    lines = read_lines(ZOO / "webdataset-epoch-restart" / "run")
    ids = {str(line["sample_id"]) for line in lines if line["kind"] == "sample"}
    plain = page_of(tmp_path, ZOO / "webdataset-epoch-restart" / "run")

    hidden = page_of(tmp_path, ZOO / "webdataset-epoch-restart" / "run", "--redact", "s3cr3t-salt")

    assert sum(f"{one}<" in plain or f"{one}," in plain for one in ids) > 5
    assert not [
        one for one in ids if re.search(rf"(?<![0-9a-f]){re.escape(one)}(?![0-9a-f])", hidden)
    ]
    assert "redacted:" in hidden
    assert "s3cr3t-salt" not in hidden


def test_a_reference_judges_as_diff_does_by_it(tmp_path: Path) -> None:
    """A control run may be named as one; both at once are refused."""
    case = ZOO / "torch-ddp-prefetched-position"
    named = ("--reference", case / "control")

    page = Page(page_of(tmp_path, case / "run", *named, "--report", f"json={tmp_path / 'json'}"))

    told = json.loads((tmp_path / "json").read_text())
    by_diff = ledger_audit("diff", "--full", case / "run", *named, "--format", "json").report
    assert by_diff["resumes"][0]["outcomes"] == told["resumes"][0]["outcomes"]
    assert "reference" == told["resumes"][0]["reference"]["kind"]
    assert "64 samples skipped" in page.text
    both = ledger_audit(
        "postmortem", case / "run", *named, "--control", case / "control", "--report", "html=x"
    )
    assert 2 == both.code


def test_the_digest_of_an_input_changes_with_it(tmp_path: Path) -> None:
    """A copy has the same digest, a changed copy another, and hidden files have no say."""
    copy = shutil.copytree(BROKEN, tmp_path / "copy")
    (copy / ".index").write_text("an aid")
    before = asked(copy).recipe.inputs[0]
    file = next(copy.glob("*.jsonl"))
    file.write_text(file.read_text() + "\n")

    assert asked(BROKEN).recipe.inputs[0].sha256 == before.sha256
    assert 64 == len(before.sha256 or "")
    assert before.sha256 != asked(copy).recipe.inputs[0].sha256


@pytest.mark.parametrize("is_gated", [False, True], ids=["alone", "by a control"])
def test_a_page_tells_of_one_moment_of_a_live_ledger(is_gated: bool, tmp_path: Path) -> None:
    """What is written while the page is made is in no part of it, and its digest is not told."""
    control = write(tmp_path / "control", attempt(0, dealt(1, 9)))
    root = write(tmp_path / "run", attempt(0, dealt(1, 5)), attempt(1, dealt(4, 6), after=(0, 3)))
    (late,) = write(tmp_path / "late", attempt(2, dealt(5, 9), after=(1, 4))).iterdir()

    def tell(words: str) -> None:
        if words.startswith(("judging resume", "comparing whole streams")):
            shutil.copy(late, root / "late.jsonl")

    def page(tell: Callable[[str], None]) -> Postmortem:
        by = control if is_gated else None
        return postmortem([root], by, audit.Reading(), audit.DIFF, command=(), tell=tell)

    before, during, after = page(lambda _: None), page(tell), page(lambda _: None)

    assert (before.report, before.timeline) == (during.report, during.timeline)
    assert before.exposure == during.exposure
    assert ["0", "1"] == [one.attempt for one in during.timeline.lanes]
    assert ["0", "1", "2"] == [one.attempt for one in after.timeline.lanes]
    assert (None, True) == (during.recipe.inputs[-1].sha256, during.recipe.inputs[-1].has_changed)
    assert after.recipe.inputs[-1].sha256 is not None
    assert "none: it changed while it was read" in to_html(during)


def test_nothing_in_a_log_is_obeyed(tmp_path: Path) -> None:
    """Ids, sources and labels of any kind add no element, no attribute and no steering mark."""
    lines = list(read_lines(FIXTURES / "traps" / "two-resumes-wrong-in-the-same-way" / "run"))
    nasty = [*NASTY, '"><img src=x onerror=alert(1)>', "</script><script>alert(1)</script>"]
    nasty = [
        "'--><b onclick=x>",
        *nasty,
        "{{ 7 * 7 }}",
        "{% raw %}",
        "&lt;b&gt;",
        "</title><h1>",
        "\ud800",
    ]

    def renamed(sample_id: str, texts: list[str]) -> str:
        return texts[sum(map(ord, sample_id)) % len(texts)] + sample_id

    def page(texts: list[str], name: str) -> Page:
        hostile = [
            {
                **one,
                "sample_id": renamed(one["sample_id"], texts),
                "source": texts[0],
            }
            if one["kind"] == "sample"
            else one
            for one in lines
        ]
        return Page(page_of(tmp_path, write_ledger(hostile, tmp_path / name)))

    nasty = [one.encode("utf-8", "replace").decode() for one in nasty]
    ids = [f"id-{number}-" for number in range(len(nasty))]
    plain, told = page(ids, "plain"), page(nasty, "nasty")

    shape = [(name, sorted(attributes)) for name, attributes in told.elements]
    assert [(name, sorted(attributes)) for name, attributes in plain.elements] == shape
    assert [] == told.open
    read = "".join(told.texts) + "".join(
        str(value) for _, attributes in told.elements for value in attributes.values()
    )
    assert all(
        one in "\n"
        or (one.isprintable() and unicodedata.bidirectional(one) not in ("R", "AL", "AN"))
        for one in read
    )
    assert "49" not in [each.strip() for each in told.texts]
    assert max(len(one) for one in told.texts) < 5_000


def test_a_label_and_a_path_of_any_kind_are_only_shown(tmp_path: Path) -> None:
    """An attempt named in markup, in a folder whose name is no UTF-8."""
    label = "<b>\u202e\u05d0 1\n" + "x" * 10_000
    steps = {1: [[0, 1]], 2: [[2, 3]], 3: [[4, 5]]}
    first = [{**one, "attempt": "0"} for one in attempt(0, steps)]
    then = attempt(1, {2: [[0, 1]], 3: [[2, 3]]}, after=(0, 1))
    folder = tmp_path / "bad\udcff<i>"
    root = write(folder, first, [{**one, "attempt": label} for one in then])

    page = Page(page_of(tmp_path, root))

    assert [] == page.open
    assert not page.all("b")[0]
    assert "i" not in {name for name, _ in page.elements}
    assert "\\udcff<i>" in page.text
    assert "<b>\\u202e\\u05d0 1\\n" in page.text


def test_a_ledger_without_a_resume_has_a_page(tmp_path: Path) -> None:
    """It says that nothing was resumed, and what the ledger holds; exit 3, as diff."""
    root = write(tmp_path / "run", attempt(0, dealt(1, 3)))
    path = tmp_path / "page.html"

    ran = ledger_audit("postmortem", root, "--report", f"html={path}")

    assert 3 == ran.code
    text = Page(path.read_text()).text
    assert "UNPROVEN: nothing was resumed" in text
    assert "attempt 0: steps 1 to 3, 2 ranks" in text
    assert "Without a resume nothing can be proven." in text


def test_draws_are_not_counted(tmp_path: Path) -> None:
    """Where the contract lets samples be drawn anew, the page says why their uses are not told."""
    contract = tmp_path / "contract.toml"
    contract.write_text('promise = "resampled"\n')
    root = write(tmp_path / "run", attempt(0, dealt(1, 3)), attempt(1, dealt(3, 4), after=(0, 2)))

    text = Page(page_of(tmp_path, root, "--contract", contract)).text

    assert "Not counted: the contract lets samples be drawn anew" in text


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([str(BROKEN)], 2, "--report html=FILE"),
        ([str(BROKEN), "--report", "json=x.json"], 2, "--report html=FILE"),
        ([str(BROKEN), "--report", "pdf=x"], 2, "'pdf' is none of"),
        ([str(BROKEN), "--report", "html=nowhere/x.html"], 2, "cannot write"),
        (
            [str(BROKEN), str(BROKEN), "--control", str(BROKEN), "--report", "html=x"],
            2,
            "one LEDGER",
        ),
        (["nowhere", "--report", "html=x.html"], 4, "does not exist"),
        ([str(BROKEN), "--control", "nowhere", "--report", "html=x.html"], 4, "does not exist"),
    ],
)
def test_what_is_wrong_with_the_command_is_said(
    arguments: list[str], code: int, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Usage exits with 2, what cannot be read with 4, and no page is left behind."""
    monkeypatch.chdir(tmp_path)

    ran = ledger_audit("postmortem", *arguments)

    assert code == ran.code
    assert told in ran.err
    assert [] == list(tmp_path.iterdir())


def test_only_postmortem_writes_pages() -> None:
    """Another command says who does."""
    ran = ledger_audit("diff", BROKEN, "--report", "html=x.html")

    assert 2 == ran.code
    assert "html is written by postmortem" in ran.err


def test_the_page_tells_how_it_was_made(tmp_path: Path) -> None:
    """The words of the command line, quoted for a shell, whatever the page is called."""
    text = Page(page_of(tmp_path, BROKEN, "--order=none", "--report=json=/dev/null")).text

    assert f"ledger-audit postmortem {BROKEN} --order=none --report html=page.html" in text


@pytest.mark.parametrize("run", [BROKEN, TWICE])
def test_a_plot_holds_every_resumed_record_once(run: Path) -> None:
    """Matched, replayed and placeless records add up to what was used; skips stand beside."""
    for resume in asked(run).report.resumes:
        plot = resume.plot
        assert plot is not None
        matched = sum(one.records for one in plot.cells if one.kind == "matched")
        replayed = sum(one.records for one in plot.cells if one.kind == "replayed")
        lone = sum(records for _, records, _ in plot.placeless)
        counts = {name: amount.records for name, amount in resume.resumed.items()}
        assert counts[Resumed.IN_PLACE] + counts[Resumed.MOVED] == matched
        assert counts[Resumed.REPLAYED] == replayed
        assert sum(counts.values()) - counts[Resumed.VOID] == matched + replayed + lone
        assert resume.expected[Expected.SKIPPED].records == sum(n for _, n in plot.skipped)


def test_a_clean_run_lies_on_the_diagonal(tmp_path: Path) -> None:
    """Each record stands at its own step; one that goes back lies below, at the step it repeats."""
    clean = write(
        tmp_path / "clean", attempt(0, dealt(1, 6)), attempt(1, dealt(4, 6), after=(0, 3))
    )
    back = dealt(4, 6, at=4)  # from step 2 on once more
    again = write(tmp_path / "again", attempt(0, dealt(1, 6)), attempt(1, back, after=(0, 3)))

    def places(root: Path) -> list[tuple[int, int, str]]:
        plot = asked(root).report.resumes[0].plot
        assert plot is not None
        assert (1, 1) == (plot.steps_across, plot.steps_up)
        return [(plot.across[0] + one.column, plot.up[0] + one.row, one.kind) for one in plot.cells]

    assert [(4, 4, "matched"), (5, 5, "matched"), (6, 6, "matched")] == places(clean)
    assert [(4, 2, "replayed"), (5, 3, "replayed"), (6, 4, "matched")] == places(again)


def test_slots_come_to_what_their_ranks_come_to() -> None:
    """The worst of the slots of a strip, column by column, is what the strip shows."""
    picture = asked(BROKEN).report.resumes[0].picture
    order = [*Resumed, *Expected, "committed"]

    assert picture.slots
    for strip in picture.strips:
        own = [one for one in picture.slots if one.ranks == strip.ranks]
        assert ((0, 0), (1, 1)) == tuple(pair for one in own for pair in one.slots)
        for place, cell in enumerate(strip.resumed):
            seen = {one.resumed[place] for one in own} - {None}
            assert cell in seen if cell is not None else not seen
            assert len(seen) <= len(order)


def test_the_time_line_tells_kept_from_lost_work(tmp_path: Path) -> None:
    """A chain of three, and a dead end that nothing resumed from."""
    root = write(
        tmp_path / "run",
        attempt(0, dealt(1, 5)),
        attempt(1, dealt(4, 6), after=(0, 3)),
        attempt(2, dealt(4, 7), after=(0, 3)),
        [{"kind": "end", "attempt": 2, "rank": 0, "data": {"reason": "done"}}],
    )

    lanes = asked(root).timeline.lanes

    told = [(one.attempt, one.parent, one.kept, one.superseded, one.end) for one in lanes]
    assert [
        ("0", None, (1, 3), (4, 5), "failed"),
        ("1", "0", None, (4, 6), "failed"),
        ("2", "0", (4, 7), None, "ended"),
    ] == told


def test_the_ladder_is_that_of_the_checkpoint(tmp_path: Path) -> None:
    """The four positions are those that `checkpoints` tells; what is not known is called so."""
    told = ledger_audit("checkpoints", BROKEN, "--format", "json").report
    found = next(one for one in told["checkpoints"] if (one["attempt"], one["step"]) == ("0", 8))

    text = page_of(tmp_path, BROKEN)

    rows = dict(re.findall(r'<tr data-rung="(\w+)">.*?<td class="num">([^<]*)</td>', text))
    assert {
        rung: "unknown" if value is None else f"{value:,}"
        for rung, value in found["ladder"].items()
    } == rows
    assert "unknown" in rows.values()


def test_shares_of_data_sets_are_told_attempt_by_attempt(tmp_path: Path) -> None:
    """Half and half before the resume, a quarter after it."""

    def named(steps: dict[int, list[list[int]]], every: int) -> dict[int, list[list[object]]]:
        return {
            step: [
                [{"sample_id": one, "source": "web" if one % every else "code"} for one in row]
                for row in rows
            ]
            for step, rows in steps.items()
        }

    root = write(
        tmp_path / "run",
        attempt(0, named(dealt(1, 5), 2)),
        attempt(1, named(dealt(4, 9), 4), after=(0, 3)),
    )

    shares = re.search(r'id="shares">.*?</table>', page_of(tmp_path, root), re.S)

    assert shares is not None
    assert ["50.00 %", "75.00 %", "50.00 %", "25.00 %"] == re.findall(r"[\d.]+ %", shares[0])


@pytest.mark.parametrize("resumes", [1, 30])
def test_a_page_of_a_huge_run_stays_small(resumes: int) -> None:
    """4,096 ranks by 10,000 steps in which no two neighbours are alike: under 3 MB, still whole."""
    found = measured(postmortem_of(4_096, 10_000, resumes))

    assert SIZE > found["bytes"]
    page = Page(found["page"])
    assert [] == page.open
    assert f"Resume {resumes} of {resumes}" in page.text
    assert resumes == 1 or "Resumes told in one line" in page.text
