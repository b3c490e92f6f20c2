"""The documents say what the program does: names, codes, columns, examples."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import command_page
import pytest
from conftest import ANY_RUNS, FIXTURES, ROOT
from jsonschema import Draft202012Validator
from running import ledger_audit

from ledger_audit.cli import COMMANDS
from ledger_audit.continuity.limit_codes import LIMITS
from ledger_audit.errors import ExitCode
from ledger_audit.ledger.schema import EVENT_KINDS, EVENTS, SAMPLES
from ledger_audit.model import Expected, Overlay, Resumed

DOCS = ROOT / "docs"
README = ROOT / "README.md"
EXAMPLE = re.compile(
    r"<!-- exit: (\d+) -->\n```console\n\$ ledger-audit (.*?)\n(.*?)```", re.DOTALL
)
EXAMPLES = [
    pytest.param(page, *match.groups(), id=f"{page.name}: {match[2]}")
    for page in sorted(DOCS.glob("*.md"))
    for match in EXAMPLE.finditer(page.read_text())
]


@pytest.mark.parametrize(("page", "code", "command", "output"), EXAMPLES)
def test_an_example_prints_what_its_page_says(
    page: Path,
    code: str,
    command: str,
    output: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    """Every console block of the documents is run, after what its page converted before it."""
    monkeypatch.chdir(tmp_path)
    Path("fixtures").symlink_to(FIXTURES)
    for _, earlier, _ in EXAMPLE.findall(page.read_text()):
        if earlier == command:
            break
        if earlier.startswith(("convert ", "reference ", "plan ")) or " --bucket " in earlier:
            ledger_audit(*shlex.split(earlier))

    ran = ledger_audit(*shlex.split(command))

    if pytestconfig.getoption("--update-golden"):
        block = "$ ledger-audit {}\n{}```"
        text = page.read_text()
        page.write_text(text.replace(block.format(command, output), block.format(command, ran.out)))
        output = ran.out

    assert output == ran.out, page
    assert int(code) == ran.code


def test_there_are_examples() -> None:
    """A verdict is explained by at least three examples that a reader can check by hand."""
    assert len([one for one in EXAMPLES if "verdict.md" in str(one.id)]) >= 3


def test_every_outcome_has_a_section() -> None:
    """`outcomes.md` explains every outcome and overlay."""
    page = (DOCS / "outcomes.md").read_text()
    for name in (*Resumed, *Expected, *Overlay):
        assert f"## `{name}`" in page


def test_every_limit_has_a_section() -> None:
    """`limits.md` explains every limit, and no other."""
    page = (DOCS / "limits.md").read_text()
    assert set(LIMITS) == set(re.findall(r"^##+ `([a-z-]+)`", page, re.MULTILINE))


def test_every_exit_code_is_in_the_table() -> None:
    """`exit-codes.md` and the program agree."""
    page = (DOCS / "exit-codes.md").read_text()
    found = {int(code) for code in re.findall(r"^\| `?(\d+)`? \|", page, re.MULTILINE)}
    assert {int(code) for code in ExitCode} <= found


def test_every_column_and_event_is_specified() -> None:
    """`ledger-format.md` names every column, with its type, and every kind of event."""
    page = (DOCS / "ledger-format.md").read_text()
    for column in (*SAMPLES, *EVENTS):
        line = next(line for line in page.splitlines() if line.startswith(f"| `{column.name}` |"))
        if column.type is not None:
            assert column.type in line.lower()
    for kind in EVENT_KINDS:
        assert f"`{kind}`" in page


def test_every_json_report_fits_the_published_schema() -> None:
    """Reports of both commands, on ledgers of all kinds, fit `report.schema.json`."""
    schema = json.loads((DOCS / "report.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for folder in (path.parent for path in ANY_RUNS):
        told = [ledger_audit("diff", folder / "run", "--format", "json").report]
        if (folder / "control").exists():
            ran = ledger_audit("gate", folder / "control", folder / "run", "--format", "json")
            told.append(ran.report)
        for report in told:
            errors = [error.message for error in validator.iter_errors(report)]
            assert errors == [], folder


def test_every_command_is_in_the_readme_or_the_docs() -> None:
    """No command goes unmentioned."""
    pages = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
    text = "".join(page.read_text() for page in pages)
    for name in COMMANDS:
        assert f"ledger-audit {name}" in text


def test_the_example_of_the_readme_is_a_real_screen(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first block is how the report of that run begins, down to what to do."""
    text = README.read_text()
    block = re.search(r"```console\n\$ ledger-audit ([^\n]*)\n(.*?)```", text, re.DOTALL)
    assert block is not None
    monkeypatch.chdir(ROOT)

    told = ledger_audit(*block[1].split()).out.partition("\n\nResume ")[0] + "\n"

    if pytestconfig.getoption("--update-golden"):
        README.write_text(text.replace(block[2], told))
    assert block[2] == told
    for verdict, code in (("continuous", 0), ("broken", 1), ("unproven", 3)):
        assert f"\n| `{verdict}` | {code} | " in README.read_text()


def test_links_lead_somewhere() -> None:
    """Every relative link of a page points at a file that is there."""
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page} links to {target}"


def test_the_top_level_is_what_it_should_be() -> None:
    """Nothing visible but what the house allows; the name on the command line is the project's."""
    visible = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    allowed = {"pyproject.toml", "ledger_audit", "tests", "fixtures", "docs", "README.md"}
    assert allowed == {name for name in visible if not name.endswith(".egg-info")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"ledger-audit"} == set(project["scripts"])


def test_the_page_of_commands_is_what_the_program_says(pytestconfig: pytest.Config) -> None:
    """`commands.md` is generated: no option is missing there, and none is made up."""
    path = DOCS / "commands.md"
    told = command_page.page()
    if pytestconfig.getoption("--update-golden"):
        path.write_text(told)

    assert path.read_text() == told
