"""Markdown, JUnit, GitHub's annotations and JSON: golden files, and nothing that an id could do."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from conftest import FIXTURES, ROOT
from format_readers import (
    cases_of,
    code_of,
    commands_of,
    obeyed_in,
    shape_of,
    strings_in,
    texts_of,
    words_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ledger_audit import __version__, audit
from ledger_audit.model import Clause, ClauseName, Limit, Report, Resume, Verdict
from ledger_audit.model.forbidden import (
    Forbidden,
    ForbiddenExample,
    ForbiddenHits,
    ForbiddenList,
)
from ledger_audit.redaction import hide, redact
from ledger_audit.report import EVERYWHERE, PAPER, REPORTERS, Screen
from ledger_audit.report.github import MOST, to_github
from ledger_audit.report.markdown import COMMENT, SUMMARY, to_markdown

GOLDEN = FIXTURES / "golden" / "formats"
ENDINGS = {"json": "json", "markdown": "md", "junit": "xml", "github": "github.txt"}
CASES = [
    ("diff", "zoo/torch-ddp-correct/run"),
    ("diff", "zoo/torch-ddp-correct/control"),
    ("diff", "zoo/torch-ddp-prefetched-position/run"),
    ("diff", "zoo/torch-ddp-double-failure/run"),
    ("diff", "zoo/torch-ddp-elastic-4to2-correct/run"),
    ("diff", "zoo/webdataset-epoch-restart/run"),
    ("diff", "traps/one-silent-rank-hides-nothing/run"),
    ("diff", "traps/planned-stop-jumped-by-two-positions/run"),
    ("diff", "traps/planned-stop-without-positions/run"),
    ("diff", "traps/two-resumes-wrong-in-the-same-way/run"),
    ("gate", "zoo/megatron-correct"),
    ("gate", "zoo/olmo-state-not-loaded"),
    ("gate", "traps/control-was-never-the-same"),
]
LEVELS = {"broken": "error", "unproven": "warning", "continuous": "notice"}


@cache
def _report(command: str, case: str) -> Report:
    """Audit by a path that is the same everywhere."""
    folder = Path("fixtures") / case
    if command == "gate":
        return audit.gate([folder / "control"], [folder / "run"], audit.Reading(full=True))
    return audit.diff([folder])


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def _file(command: str, case: str, kind: str) -> str:
    return f"{command}-{'-'.join(case.split('/')[1:])}.{ENDINGS[kind]}"


@pytest.mark.parametrize("kind", ENDINGS)
@pytest.mark.parametrize(("command", "case"), CASES, ids=lambda text: text.split("/")[-1])
def test_a_format_reads_as_it_did(
    command: str, case: str, kind: str, pytestconfig: pytest.Config
) -> None:
    """A dozen real and tiny cases, in every format that is not for a screen."""
    path = GOLDEN / _file(command, case, kind)

    told = REPORTERS[kind](_report(command, case), PAPER).replace(__version__, "VERSION")

    if pytestconfig.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(told)
    assert path.read_text() == told


def test_no_golden_format_is_left_over() -> None:
    """Every stored file belongs to a case, and every kind but the screen's has some."""
    expected = {_file(command, case, kind) for command, case in CASES for kind in ENDINGS}

    assert expected == {path.name for path in GOLDEN.iterdir()}
    assert {"terminal", *ENDINGS} <= set(REPORTERS)
    assert set(EVERYWHERE) <= set(REPORTERS)


@pytest.mark.parametrize(("command", "case"), CASES, ids=lambda text: text.split("/")[-1])
def test_every_format_has_the_verdict(command: str, case: str) -> None:
    """A failure is broken, a skipped case unproven; the first annotation has its level."""
    report = _report(command, case)
    outcomes = {one[2] for one in cases_of(REPORTERS["junit"](report, PAPER))}
    annotations = commands_of(to_github(report))

    told = "broken" if "failure" in outcomes else "unproven"
    assert report.verdict == (told if outcomes != {"passed"} else "continuous")
    assert LEVELS[report.verdict] == annotations[0][0]
    assert f"ledger-audit {command}: {report.verdict.upper()}" in annotations[0][1]["title"]
    assert f"## ledger-audit {command}: {report.verdict.upper()}" == _first_line(report)
    assert ("error" in {one[0] for one in annotations}) == (report.verdict == "broken")


def _first_line(report: Report) -> str:
    return to_markdown(report).splitlines()[0]


def test_junit_has_a_case_for_each_clause_of_each_resume() -> None:
    """Suites are resumes, oldest first; a clause that holds passes."""
    report = _report("diff", "zoo/torch-ddp-double-failure/run")
    outcomes = {"broken": "failure", "unproven": "skipped", "continuous": "passed"}

    assert [
        (number, str(clause.clause), outcomes[clause.verdict])
        for number, resume in enumerate(report.resumes, 1)
        for clause in resume.clauses
    ] == [
        (int(suite.split()[1]), name, outcome)
        for suite, name, outcome in cases_of(REPORTERS["junit"](report, PAPER))
    ]


def test_what_only_the_whole_lineage_breaks_is_told() -> None:
    """An attempt that no judged resume is about used a forbidden sample: no format is quiet."""
    report = _report("diff", "zoo/torch-ddp-correct/run")
    clause = Clause(ClauseName.FORBIDDEN, Verdict.BROKEN, "1 record of the list 'eval'")
    report = replace(
        _with_forbidden(report, "the-bad-one", "eval"),
        verdict=Verdict.BROKEN,
        clauses=(*report.clauses, clause),
    )

    assert ("The whole lineage", "forbidden", "failure") in cases_of(
        REPORTERS["junit"](report, PAPER)
    )
    assert "forbidden broken: the whole lineage" in [
        one[1]["title"] for one in commands_of(to_github(report))
    ]
    assert "the-bad-one [0:8)" in code_of(to_markdown(report))


def test_a_forbidden_sample_is_hidden_in_every_kind() -> None:
    """Its hash stands where its id stood; the name of the list is told."""
    report = redact(_with_forbidden(_report(*BASES[0]), "the-bad-one", "eval"), "pepper")

    for kind in ("terminal", "json", "markdown", "junit"):
        told = REPORTERS[kind](report, PAPER)
        assert "the-bad-one" not in told
        assert kind == "junit" or hide("the-bad-one", "pepper") in told
        assert kind == "junit" or "eval" in told


def _with_forbidden(report: Report, sample_id: str, name: str) -> Report:
    example = ForbiddenExample(sample_id, name, (0, 8))
    hits = ForbiddenHits(
        name, 1, 1, 8, 1, 0, ((0, 0),), ((0, 0),), 3, 3, examples=(example, example)
    )
    listed = ForbiddenList(name, "forbid", 1, (hits,), 0, name, 0, 0, 0)
    return replace(report, forbidden=Forbidden((listed,), (), (f"a note on {name}",)))


# Hostile text


NASTY = [
    "@octocat",
    "a@b.example",
    "#1",
    "owner/repo#12",
    "GH-7",
    "https://evil.example/x",
    "www.evil.example",
    "<https://evil.example>",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</failure><!-- ",
    "]]>",
    "&amp;&#64;",
    "![x](http://evil.example/a.png)",
    "[x](http://evil.example)",
    "[x]: http://evil.example",
    "`code` and ``more``",
    "`",
    "\\`",
    "a|b",
    "a\\|b",
    "|---|---|",
    "# heading",
    "- item",
    "1. item",
    "> quote",
    "***",
    "==",
    "```\n# out\n```",
    "two\nlines",
    "a\r\n::error::x",
    "::error title=x::y",
    "::stop-commands::x",
    "##[error]x",
    "100%0A::error::x",
    "a,title=b:c",
    "\x1b[31m\x1b]0;t\x07",
    "\u202egnp.exe",
    "\u05d0\u05d1 7",
    "\x00\x0b\ufffe\uffff",
    "\ud800",
    "\udcff\udcfe",
    ":skull:",
    "%v1 and %7",
    "'quoted', and more",
    "$(touch x); `id`",
    "~~x~~ *y* _z_ __w__",
    "deadbeefdeadbeef",
    "x" * 10_000,
    "| " * 5_000,
    "\U0001f480" * 3_000,
    " ",
    "",
]
TEXT = st.one_of(
    st.sampled_from(NASTY),
    st.text(max_size=40),
    st.text(alphabet="`|\\[]()<>!#@&*_~:%,/\n\r\"' -=1.a", max_size=40),
    st.builds("".join, st.lists(st.sampled_from(NASTY[:-5]), min_size=2, max_size=4)),
)
BASES = [
    ("diff", "zoo/torch-ddp-prefetched-position/run"),
    ("diff", "traps/one-silent-rank-hides-nothing/run"),
    ("gate", "traps/control-was-never-the-same"),
]


def _poisoned(report: Report, sample_id: str, label: str) -> Report:
    """Put an id and a label wherever a log can put its words."""

    def resume(one: Resume) -> Resume:
        return replace(
            one,
            to_attempt=label,
            from_attempt=None if one.from_attempt is None else label,
            clauses=tuple(replace(each, because=f"of {label}") for each in one.clauses),
            findings=tuple(
                replace(each, examples=(sample_id,) * len(each.examples)) for each in one.findings
            ),
            causes=tuple(replace(each, evidence=f"{label} is 1") for each in one.causes),
            limits=tuple(_limit(each, label) for each in one.limits),
            claims=tuple(replace(each, text=f"the claim {label}") for each in one.claims),
            by_source=tuple(replace(each, source=label) for each in one.by_source),
        )

    return replace(
        _with_forbidden(report, sample_id, label),
        inputs={key: [f"{label}x"] for key in report.inputs},
        resumes=tuple(map(resume, report.resumes)),
        stream=None if report.stream is None else resume(report.stream),
        lineage=tuple(
            replace(one, attempt=label, in_lineage=bool(place))
            for place, one in enumerate(report.lineage)
        ),
        decision=replace(report.decision, text=f"Go back to {label}.", safe_checkpoint=(label, 2)),
        contract={**report.contract, "file": f"{label}x"},
    )


def _limit(limit: Limit, label: str) -> Limit:
    return replace(limit, text=f"of {label}", settled_by=f"what {label} says", reason=label)


HARMLESS = "harmless"
Base = tuple[str, str]


@cache
def _twin(command: str, case: str) -> Report:
    return _poisoned(_report(command, case), HARMLESS, HARMLESS)


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(json.loads((ROOT / "docs" / "report.schema.json").read_text()))


def _check_markdown(sample_id: str, label: str, base: Base) -> None:
    """A parser finds what it finds with harmless ids, and words that link to nothing."""
    report = _poisoned(_report(*base), sample_id, label)
    text = to_markdown(report, SUMMARY)  # in a comment, texts of a thousand signs push others out

    assert shape_of(to_markdown(_twin(*base), SUMMARY)) == shape_of(text)
    words = words_of(text)
    assert not re.search(r"[@#<>&`|\[\]*_~]|://|www\.|GH-\d|:\w+:|%\w", words, re.IGNORECASE)
    assert not re.search(r"(?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z])", words)
    assert obeyed_in(text) == []
    assert len(to_markdown(report).encode()) <= COMMENT


def _check_junit(sample_id: str, label: str, base: Base) -> None:
    """It fits the schema, has the same cases with the same outcomes, and holds nothing odd."""
    told = REPORTERS["junit"](_poisoned(_report(*base), sample_id, label), PAPER)
    twin = REPORTERS["junit"](_twin(*base), PAPER)

    assert [one[1:] for one in cases_of(twin)] == [one[1:] for one in cases_of(told)]
    assert all(one.replace("\n", "").isprintable() for one in texts_of(told))
    assert obeyed_in(told) == []


def _check_github(sample_id: str, label: str, base: Base) -> None:
    """GitHub's runner reads as many annotations of the same kinds, and not one command more."""
    report = _poisoned(_report(*base), sample_id, label)
    told, twin = commands_of(to_github(report)), commands_of(to_github(_twin(*base)))

    assert [one[0] for one in twin] == [one[0] for one in told]
    assert [one[1].keys() for one in twin] == [one[1].keys() for one in told]
    assert all(one[2].replace("\n", "").isprintable() for one in told)
    assert obeyed_in(REPORTERS["terminal"](report, PAPER)) == []


def _check_json(sample_id: str, label: str, base: Base) -> None:
    """It fits the published schema, and reads back as what was logged, whatever that was."""
    told = REPORTERS["json"](_poisoned(_report(*base), sample_id, label), PAPER)

    assert told.isascii()
    assert obeyed_in(told) == []
    report = json.loads(told)
    assert [] == [error.message for error in _validator().iter_errors(report)]
    assert sample_id in set(strings_in(report["forbidden"]))
    assert {label} == {one["attempt"] for one in report["lineage"]}


CHECKS = [_check_markdown, _check_junit, _check_github, _check_json]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("_check_"))
def test_no_known_trick_works(check: Callable[[str, str, Base], None]) -> None:
    """Every one of them as an id, and as a label."""
    for number, text in enumerate(NASTY):
        check(text, NASTY[-number], BASES[number % len(BASES)])


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("_check_"))
@settings(max_examples=15, deadline=None)
@given(sample_id=TEXT, label=TEXT, base=st.sampled_from(BASES))
def test_no_id_does_anything(
    check: Callable[[str, str, Base], None], sample_id: str, label: str, base: Base
) -> None:
    """Whatever ids and labels hold, each format tells them, and other people's parsers agree."""
    check(sample_id, label, base)


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("sign", ["::error::x", "##[error]x"])
def test_no_line_of_a_screen_is_a_command(sign: str, width: int) -> None:
    """Wherever a screen breaks its lines, none begins with what GitHub's runner obeys."""
    for filling in range(0, 60, 7):
        label = f"{'a' * filling} {sign} {sign}"
        for base in BASES:
            report = _poisoned(_report(*base), sign, label)
            assert obeyed_in(REPORTERS["terminal"](report, Screen(width))) == []


# Limits of code hosts


def _many(resumes: int) -> Report:
    """A job that broke that often, with as much to say as a resume can have."""
    report = _report("diff", "zoo/torch-ddp-prefetched-position/run")
    one = report.resumes[0]
    findings = tuple(
        replace(one.findings[0], first_step=step, examples=("x" * 10_000,) * 8)
        for step in range(20)
    )
    causes = (replace(one.causes[0], evidence="e" * 10_000),)
    broken = replace(one, findings=findings, causes=causes)
    return replace(report, resumes=(broken,) * resumes)


@pytest.mark.parametrize("most", [COMMENT, SUMMARY])
def test_a_comment_fits_and_says_what_it_leaves_out(most: int) -> None:
    """However much there is to tell; clauses and findings are kept before the rest."""
    text = to_markdown(_many(200), most)

    assert len(text.encode()) <= most
    assert f"Left out, so that this fits {most:,} bytes: " in text
    assert "How to reproduce" in text
    left = _left(text)
    kept = text.count("\n| unexpected | 29 samples ")
    assert 200 * 20 == kept + left.get("findings", 0)
    assert 200 == text.count("#### Causes") + left.get("causes", 0)
    assert 200 == text.count("#### Rank by step") + left.get("pictures", 0)
    if left.get("findings"):
        assert "#### Causes" not in text


def _left(text: str) -> dict[str, int]:
    told = re.search(r"^Left out, so that this fits [\d,]+ bytes: (.*)\.$", text, re.MULTILINE)
    found = re.findall(r"([\d,]+) ([a-z ]+)", "" if told is None else told[1])
    return {noun: int(number.replace(",", "")) for number, noun in found}


def test_what_fits_is_whole() -> None:
    """A report that fits leaves nothing out."""
    assert all("Left out" not in to_markdown(_report(*case)) for case in CASES)


def test_github_is_given_no_more_than_it_shows() -> None:
    """Ten of a kind; the verdict first, and the last one says how many there are more."""
    told = commands_of(to_github(_many(40)))

    assert MOST == len(told) == sum(one[0] == "error" for one in told)
    assert "BROKEN" in told[0][1]["title"]
    # the verdict and two broken clauses a resume: 81, of which nine are told
    assert "and 72 more" == told[-1][1]["title"]
