"""The page of a post-mortem, whole: golden files of real and tiny cases, and one of its frame."""

import re
from dataclasses import replace
from difflib import unified_diff
from functools import cache
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import pytest
from conftest import FIXTURES, ROOT
from test_formats import CASES

from ledger_audit import __version__, audit
from ledger_audit.postmortem import LIBRARIES, postmortem
from ledger_audit.report.html_page import to_html

GOLDEN = FIXTURES / "golden" / "pages"
FRAME = "frame.html"
"""What is the same on every page: a third of its bytes, which is stored once."""
FRAMING = re.compile(
    r'<meta http-equiv="Content-Security-Policy"[^>]*>|<style>.*?</style>'
    r'|<svg class="defs".*?</svg>|<script>.*?</script>',
    re.DOTALL,
)
PIECES = 4


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@cache
def _page(command: str, case: str) -> str:
    """Write the page by a path that is the same everywhere, of versions that never change."""
    run, control = Path("fixtures") / case, None
    contract = audit.DIFF
    if command == "gate":
        run, control, contract = run / "run", run / "control", audit.GATE
    compared = [] if control is None else ["--control", str(control)]
    words = ["ledger-audit", "postmortem", str(run), *compared, "--report", "html=page.html"]
    post = postmortem([run], control, audit.Reading(), contract, command=words)
    versions = tuple((name, "VERSION") for name, _ in post.recipe.versions)
    post = replace(post, recipe=replace(post.recipe, versions=versions))
    return to_html(post).replace(__version__, "VERSION")


def _taken_apart(page: str) -> tuple[str, str]:
    """Give the frame of a page, and the page with the place of each piece of it."""
    pieces: list[str] = []

    def cut(found: re.Match[str]) -> str:
        pieces.append(found[0])
        return f"<!-- {len(pieces)} of {FRAME} -->"

    left = FRAMING.sub(cut, page)
    assert len(pieces) == PIECES
    return "\n".join(pieces) + "\n", left


def _file(command: str, case: str) -> str:
    return f"{command}-{'-'.join(case.split('/')[1:])}.html"


def _differences(path: Path, told: str) -> str:
    """Give the first lines that differ: all of them would take long, and nobody reads them."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = unified_diff(lines, told.splitlines(), "golden", "told", lineterm="", n=0)
    return "\n".join(line[:200] for line in islice(found, 40))


@pytest.mark.parametrize(("command", "case"), CASES, ids=lambda text: text.split("/")[-1])
def test_a_page_reads_as_it_did(command: str, case: str, pytestconfig: pytest.Config) -> None:
    """Every case that the other formats have, as postmortem judges it; all have one frame."""
    frame, left = _taken_apart(_page(command, case))
    told = {FRAME: frame, _file(command, case): left}

    for name, text in told.items():
        if pytestconfig.getoption("--update-golden"):
            GOLDEN.mkdir(exist_ok=True)
            (GOLDEN / name).write_text(text, encoding="utf-8")
        assert "" == _differences(GOLDEN / name, text)
        assert (GOLDEN / name).read_bytes() == text.encode()


def test_no_golden_page_is_left_over() -> None:
    """Every stored page belongs to a case, and all of them together stay small."""
    expected = {FRAME, *(_file(command, case) for command, case in CASES)}

    assert expected == {path.name for path in GOLDEN.iterdir()}
    assert sum(path.stat().st_size for path in GOLDEN.iterdir()) < 800_000


def test_golden_pages_hold_for_every_checkout_and_version() -> None:
    """Neither a version of ours or of a library, nor a path of the machine is stored."""
    stored = "".join(path.read_text(encoding="utf-8") for path in sorted(GOLDEN.iterdir()))

    for name in ("ledger-audit", *LIBRARIES):
        assert f"{name} {version(name)}" not in stored
        assert f"{name} VERSION" in stored
    assert str(ROOT) not in stored
    assert set(re.findall(r"(?<![\w./-])/[a-z]+/[a-z]+", stored)) == set()
