"""Text from a log goes to terminals and files: nothing in it is obeyed, whatever the command."""

import json
import unicodedata
from pathlib import Path

import pytest
from conftest import FIXTURES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native import read_lines, write_ledger
from running import ledger_audit

RUN = FIXTURES / "traps" / "two-resumes-wrong-in-the-same-way" / "run"
NASTY = [
    "\x1b]0;title\x07",
    "\x1b[2J",
    "[red]markup[/red]",
    "[link=http://x]y[/link]",
    ":skull:",
    "two\nlines",
    "a\rb",
    "\u202egnp.exe",
    "\u2066isolate\u2069",
    "\u05d0\u05d1\u05d2 7",
    "\u0661\u0662",
    "\x00",
    "\x9b31m",
    "\ufeff",
    "'quoted', and more",
    "<script>alert(1)</script>",
    "e\u0301",
    "\U0001f480",
    "x" * 10_000,
    " ",
    "",
]
TEXT = st.one_of(
    st.sampled_from(NASTY),
    st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=60),
    st.text(alphabet="\x1b[]()0;:\x07\x9b\u202e\u2066\n\r\t \\'\",", max_size=30),
)
QUIETLY = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def is_safe(text: str) -> bool:
    return all(
        one == "\n"
        or (one.isprintable() and unicodedata.bidirectional(one) not in ("R", "AL", "AN"))
        for one in text
    )


@QUIETLY
@given(texts=st.lists(TEXT, min_size=1, max_size=6), source=TEXT)
def test_no_id_is_obeyed(
    texts: list[str], source: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Ids and sources of any kind: every command gives lines that a terminal only shows."""
    tmp_path = tmp_path_factory.mktemp("hostile")
    lines = [
        {**one, "sample_id": f"{texts[number % len(texts)]}{one['sample_id']}", "source": source}
        if one["kind"] == "sample"
        else one
        for number, one in enumerate(read_lines(RUN))
    ]
    root = write_ledger(lines, tmp_path / "ledger")

    for arguments in (
        ("diff", root),
        ("diff", root, "--format", "json"),
        ("gate", root, root),
        ("show", root, "--ids", "--sources", "--epochs"),
        ("show", root, "--step", "99"),
    ):
        ran = ledger_audit(*arguments)
        assert ran.code in (0, 1, 2, 3), ran.err
        assert is_safe(ran.out + ran.err)
        if arguments[0] != "show" and "json" not in arguments:
            assert max(map(len, ran.out.splitlines())) <= 80


@QUIETLY
@given(label=TEXT, reason=TEXT)
def test_no_label_and_no_event_is_obeyed(
    label: str, reason: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Labels of attempts, and whatever events say, are shown and not obeyed."""
    tmp_path = tmp_path_factory.mktemp("hostile")
    lines = []
    for one in read_lines(RUN):
        names = {"0": f"{label}0", "1": f"{label}1", "2": f"{label}2"}
        data = dict(one.get("data") or {})
        if data.get("resumed_from"):
            parent = str(data["resumed_from"]["attempt"])
            data["resumed_from"] = {**data["resumed_from"], "attempt": names[parent]}
        data["reason"] = reason
        changed = {**one, "attempt": names[str(one["attempt"])]}
        lines.append(changed if one["kind"] == "sample" else {**changed, "data": data})
    log = tmp_path / "run.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))

    for arguments in (
        ("diff", log),
        ("show", log),
        ("diff", log, "--format", "json"),
        ("convert", log, "-o", tmp_path / "ledger"),
        ("diff", tmp_path / "ledger"),
        ("seal", tmp_path / "ledger", "--idle", "0"),
        ("diff", tmp_path / "ledger"),
    ):
        ran = ledger_audit(*arguments)
        is_too_long = len(label) > 200  # for the name of a folder
        assert ran.code in ((0, 1, 2, 3, 4) if is_too_long else (0, 1, 3)), ran.err
        assert is_safe(ran.out + ran.err)


@pytest.mark.parametrize("name", ["\x1b[31m.csv", "a\nb.csv", "\u202e.csv", "[red].csv"])
def test_no_path_is_obeyed(name: str, tmp_path: Path) -> None:
    """The name of a file that is refused is shown, not obeyed."""
    (tmp_path / name).write_text("no,such,columns\n1,2,3\n")

    for command in ("diff", "show"):
        ran = ledger_audit(command, tmp_path / name)
        assert ran.code == 4
        assert is_safe(ran.err)


@pytest.mark.parametrize("odd", ["file", "folder", "root", "match"])
def test_a_name_that_is_no_text_is_refused(odd: str, tmp_path: Path) -> None:
    """The bytes of a name need be no UTF-8; the libraries that read columns cannot be told it."""
    root = write_ledger(
        read_lines(FIXTURES / "zoo" / "torch-ddp-correct" / "run"), tmp_path / "run"
    )
    folder = root / "attempt=0"
    segment = next(folder.glob("samples-*-000000.*"))
    arguments: list[str | Path] = ["diff", root]
    if odd == "file":
        segment.rename(folder / f"samples-r\udcff-000000{segment.suffix}")
    elif odd == "folder":
        folder.rename(root / "attempt=\udcff")
    elif odd == "root":
        arguments[1] = root.rename(tmp_path / "\udcff")
    else:
        segment.rename(tmp_path / "log\udcff.parquet")
        arguments[1] = tmp_path / "log*.parquet"

    ran = ledger_audit(*arguments)

    assert 4 == ran.code
    assert "utf-8" in ran.err.lower()
    assert "\\udcff" in ran.err
    assert "try: " in ran.err
