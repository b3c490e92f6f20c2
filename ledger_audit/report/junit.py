"""The report for dashboards of tests, as JUnit XML: a suite a resume, a test case a clause."""

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator

from ledger_audit import __version__
from ledger_audit.model import Clause, Report, Resume, Verdict
from ledger_audit.printable import printable, quoted, shortened
from ledger_audit.report import phrases
from ledger_audit.report.beside import against, examples_of, hits_of
from ledger_audit.report.opening import opening

NOTHING_TO_JUDGE = "a resume to judge"
"""The test case of a report that judged nothing: a suite without one would pass."""


def to_junit(report: Report) -> str:
    """
    Give the report as JUnit XML.

    A broken clause is a failure with its reason, an unproven one is skipped with its reason, and
    one that holds passes. What XML cannot hold stands as an escape. There are no times: the same
    ledger gives the same bytes.
    """
    root = ET.Element("testsuites", name=f"ledger-audit {report.command}")
    root.extend(_suites(report))
    _count(root, root.iter("testcase"))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suites(report: Report) -> Iterator[ET.Element]:
    if report.stream is not None:
        yield _suite(report, report.stream, phrases.WHOLE_STREAM, "whole-stream")
    for number, resume in enumerate(report.resumes, 1):
        title = phrases.title_of(report, number)
        yield _suite(report, resume, title, f"resume-{number}")
    of_all = [one for one in report.clauses if one.clause == "forbidden"]
    if report.forbidden is not None and of_all:
        # what an attempt used that no judged resume is about breaks the contract all the same
        yield _whole_lineage(report, of_all)
    if not report.resumes and report.stream is None:
        suite = ET.Element("testsuite", name="The ledger")
        _properties(suite, {**_facts(report), "verdict": report.verdict})
        case = _case(suite, NOTHING_TO_JUDGE, f"{report.command}.ledger")
        told = opening(report)
        lines = [f"{label}: {text}" for label, text in told.rows]
        _say(case, "skipped", report.decision.text, lines)
        _count(suite, suite.iter("testcase"))
        yield suite


def _suite(report: Report, resume: Resume, title: str, place: str) -> ET.Element:
    suite = ET.Element("testsuite", name=_fit(title))
    told: dict[str, object] = {
        **_facts(report),
        "verdict": resume.verdict,
        "from_attempt": resume.from_attempt,
        "to_attempt": resume.to_attempt,
        "checkpoint_step": resume.checkpoint_step,
        "through_step": resume.through_step,
        "reference": resume.reference_kind,
        "first_divergence": resume.first_divergence,
        "allowed_without_proof": ", ".join(one.code for one in resume.limits if one.is_waived)
        or None,
    }
    _properties(suite, told)
    for clause in resume.clauses:
        case = _case(suite, str(clause.clause), f"{report.command}.{place}")
        _judge(case, clause, _details(resume, clause))
    _count(suite, suite.iter("testcase"))
    return suite


def _whole_lineage(report: Report, clauses: Iterable[Clause]) -> ET.Element:
    suite = ET.Element("testsuite", name="The whole lineage")
    _properties(suite, {**_facts(report), "verdict": report.verdict})
    found = report.forbidden
    lines = []
    for listed in () if found is None else found.lists:
        if listed.records:
            lines.append(against(listed))
            for one in listed.hits:
                examples = ", ".join(examples_of(one))
                lines.append(f"attempt {quoted(one.attempt)}: {hits_of(one)}; e.g. {examples}")
    for clause in clauses:
        _judge(_case(suite, str(clause.clause), f"{report.command}.lineage"), clause, lines)
    _count(suite, suite.iter("testcase"))
    return suite


def _facts(report: Report) -> dict[str, object]:
    stream = report.options.get("stream")
    return {
        "tool": f"ledger-audit {__version__}",
        "stream": stream or "training",
        "decision": report.decision.text,
    }


def _properties(suite: ET.Element, told: dict[str, object]) -> None:
    parent = ET.SubElement(suite, "properties")
    for name, value in told.items():
        if value is not None:
            ET.SubElement(parent, "property", name=name, value=_fit(str(value)))


def _case(suite: ET.Element, name: str, place: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=f"ledger-audit.{place}", name=name)


def _judge(case: ET.Element, clause: Clause, details: Iterable[str]) -> None:
    kinds = {Verdict.BROKEN: "failure", Verdict.UNPROVEN: "skipped"}
    if clause.verdict in kinds:
        _say(case, kinds[clause.verdict], clause.because, details)


def _say(case: ET.Element, kind: str, message: str, details: Iterable[str]) -> None:
    told = ET.SubElement(case, kind, message=_fit(message))
    if kind == "failure":
        told.set("type", "broken")
    lines = [*details]
    if not (lines and lines[0].startswith(message)):
        lines.insert(0, message)
    told.text = "\n".join(map(_fit, lines))


def _details(resume: Resume, clause: Clause) -> Iterator[str]:
    """Give what a reader of one failed or skipped case wants to know: where, why, what to do."""
    if clause.verdict == Verdict.UNPROVEN:
        for limit in resume.limits:
            if clause.clause in limit.blocks and not limit.is_waived:
                yield f"{limit.text} [{limit.code}]; settled by {limit.settled_by}"
        return
    for one in resume.findings:
        if one.clause == clause.clause:
            examples = ", ".join(quoted(each) for each in one.examples)
            where = phrases.places(one)
            yield f"{one.code}: {phrases.told(one.amount)}; {where}; e.g. {examples}"
    for cause in resume.causes:
        yield f"cause: {cause.code}, {cause.confidence}: {cause.evidence}"
        yield f"remedy: {cause.remedy}"


def _count(element: ET.Element, cases: Iterable[ET.Element]) -> None:
    cases = [*cases]
    element.set("tests", str(len(cases)))
    element.set("failures", str(sum(one.find("failure") is not None for one in cases)))
    element.set("errors", "0")  # what cannot be read is no report at all, and exit code 4
    element.set("skipped", str(sum(one.find("skipped") is not None for one in cases)))


def _fit(text: str) -> str:
    return shortened(printable(text))
