"""The house rules, as data: floors, wings, lengths, and where each library may be met."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

PACKAGE = ROOT / "ledger_audit"
FILES = sorted(PACKAGE.rglob("*.py"))
MAX_FILE, MAX_FUNCTION = 400, 50

FLOORS: dict[str, set[str]] = {
    "__main__": {"cli", "errors"},
    "cli": {
        "cli",
        "audit",
        "survey",
        "selftest",
        "verification",
        "piecework",
        "libraries",
        "spark",
        "references",
        "planning",
        "stream",
        "postmortem",
        "planting",
        "contract_file",
        "drafting",
        "waiting",
        "simulation",
        "report",
        "redaction",
        "ledger",
        "continuity",
        "model",
        "explained",
        "errors",
        "printable",
        "",
    },
    "audit": {"sources", "expectations", "continuity", "model"},
    "expectations": {"sources", "stream", "continuity", "ledger", "model", "errors"},
    "verification": {"sources", "libraries", "ledger", "continuity", "model", "errors"},
    "piecework": {
        "audit",
        "expectations",
        "sources",
        "libraries",
        "ledger",
        "continuity",
        "model",
        "errors",
    },
    "references": {"stream", "ledger", "errors"},
    "planning": {"sources", "stream", "ledger", "continuity", "model", "errors"},
    "stream": {"stream", "continuity", "ledger", "model", "errors", "printable"},
    "postmortem": {"audit", "expectations", "sources", "ledger", "continuity", "model"},
    "selftest": {"sources", "planting", "continuity", "model"},
    "planting": {"planting", "continuity", "ledger", "errors"},
    "explained": set(),
    "survey": {"sources", "continuity", "model"},
    "drafting": {"ledger", "continuity", "contract_file", "errors", "printable"},
    "contract_file": {"contract_file", "continuity", "errors", "printable"},
    "waiting": {"sources", "continuity", "model", "errors", "printable"},
    "simulation": {"simulation", "ledger", "model", "errors", "printable", ""},
    "sources": {"libraries", "machine", "ledger", "continuity", "model", "errors", "printable"},
    "machine": set(),
    "libraries": {"ledger", "continuity"},
    "spark": {"spark", "libraries", "ledger", "continuity", "errors", ""},
    "continuity": {"continuity", "explained", "model", "errors", "printable"},
    "redaction": {"model"},
    "report": {"report", "model", "printable", ""},
    "ledger": {"ledger", "model", "errors"},
    "integrations": {"integrations", "ledger", "fingerprint", "errors"},
    "fingerprint": {"model", "errors", "printable"},
    "model": set(),
    "errors": set(),
    "printable": set(),
    "": {"ledger"},
}
"""Room → the rooms that it may import from; the package itself (`""`) holds the version."""

FRAMEWORKS = ("torch", "accelerate", "transformers", "lightning", "megatron")
"""Each has a file of its own among the integrations, which is named after it."""

GUESTS = {*FRAMEWORKS, "loop"}

LIBRARIES: dict[str, set[str]] = {
    "annotated_types": {"continuity", "contract_file"},
    "boto3": {"ledger"},
    "pydantic": {"contract_file"},
    "click": {"cli"},
    "jinja2": {"report"},
    "markupsafe": {"report"},
    "polars": {
        "continuity",
        "ledger",
        "sources",
        "libraries",
        "spark",
        "planting",
        "verification",
        "piecework",
        "references",
        "expectations",
        "stream",
    },
    "py4j": {"spark"},
    "pyarrow": {"ledger", "spark"},
    "pyspark": {"spark"},
    "rich": {"cli", "report"},
    **{framework: {"integrations"} for framework in FRAMEWORKS},
    "torch": {"integrations", "stream"},
}
"""Library → the rooms that may import it."""


def room_of(path: Path) -> str:
    """Name the room that a file is in."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return "" if parts == ("__init__",) else parts[0]


def imports_of(path: Path) -> set[str]:
    """List the modules that a file imports, late ones included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
            if node.module == "ledger_audit":
                found |= {f"ledger_audit.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_arrow_runs_up(path: Path) -> None:
    """A file imports only from its own room and from the rooms that its floor allows."""
    room = room_of(path)
    for module in imports_of(path):
        if module.startswith("ledger_audit."):
            name = module.split(".")[1]
            target = name if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists() else ""
            assert target in FLOORS[room] | {room}, f"{path} imports {module}"
        library = module.split(".")[0]
        if library in LIBRARIES:
            assert room in LIBRARIES[library], f"{path} imports {library}"


@pytest.mark.parametrize("guest", sorted(GUESTS))
def test_integrations_do_not_know_each_other(guest: str) -> None:
    """Each is one file, which needs torch and its own framework at most, and no other guest."""
    left, found, imported = [guest], set[str](), set[str]()
    while left:
        path = PACKAGE / "integrations" / f"{left.pop()}.py"
        for module in imports_of(path):
            name = module.removeprefix("ledger_audit.integrations.")
            if name != module and name not in found:
                found.add(name)
                left.append(name)
            imported.add(module.split(".")[0])

    assert not found & GUESTS
    assert imported & {*FRAMEWORKS} <= ({guest, "torch"} if guest != "loop" else set())


def test_no_circle() -> None:
    """Files of a room do not import each other in a circle."""
    names = {
        "ledger_audit." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
        for path in FILES
    }
    graph = {name: imports_of(path) & names.keys() for name, path in names.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, f"a circle: {' > '.join((*trail, name))}"
        if name not in done:
            for target in sorted(graph[name]):
                visit(target, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_and_functions_are_short(path: Path) -> None:
    """A file has at most 400 lines, a function at most 50 beside its docstring."""
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            docstring = len((ast.get_docstring(node) or "").splitlines())
            length = (node.end_lineno or 0) - node.lineno + 1 - docstring
            assert length <= MAX_FUNCTION, f"{path}: {node.name} has {length} lines"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_command_line_prints(path: Path) -> None:
    """Nothing below the command line writes to the terminal; dataclasses are frozen."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            assert name != "print"
            assert not name.startswith("click.echo") or room_of(path) == "cli"
        if isinstance(node, ast.ClassDef):
            for decorator in node.decorator_list:
                if "dataclass" in ast.unparse(decorator):
                    assert ast.unparse(decorator) == "dataclass(frozen=True)"


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import ledger_audit", {"polars", "rich", "click"}),
        ("import ledger_audit.cli", {"polars", "pyarrow", "rich"}),
        ("import ledger_audit.simulation.training", {"polars", "rich", "click"}),
        ("import ledger_audit.integrations.loop", {"polars", "rich", "click", "torch"}),
        (
            "from ledger_audit import fingerprint",
            {"polars", "pyarrow", "rich", "click", "numpy"},
        ),
    ],
)
def test_imports_are_late(statement: str, forbidden: set[str]) -> None:
    """The package itself is light, and `--help` loads no engine."""
    code = f"import sys; {statement}; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()

    assert not forbidden & set(loaded)


def test_the_path_fits_on_a_screen() -> None:
    """`audit.py` is the path, written once: it stays under 100 lines."""
    assert len((PACKAGE / "audit.py").read_text().splitlines()) < 100
