"""
The second oracle: section 5 of the design in DuckDB SQL, written from the text alone.

The rules are the named tables of the `.sql` files beside this one; here lines are loaded,
parameters passed and answers shaped, and nothing is decided.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb

RESUMED = (
    "in-place",
    "moved",
    "void",
    "padding",
    "replayed",
    "duplicated",
    "repeat-unexplained",
    "unexpected",
    "fresh",
)
EXPECTED = ("matched", "skipped", "pending", "repeat-missing", "declared", "undecided")
ENDLESS = 2**62  # the window of the newest attempt has no last step


def _sections() -> dict[str, list[str]]:
    """Give the SQL files as named sections of single statements."""
    files = sorted(Path(__file__).parent.glob("*.sql"))
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    found = re.split(r"^--: (.+)$", text, flags=re.MULTILINE)[1:]
    bare = (re.sub(r"--.*$", "", body, flags=re.MULTILINE) for body in found[1::2])
    return {
        name: [part for part in body.split(";") if part.strip()]
        for name, body in zip(found[::2], bare, strict=True)
    }


SECTIONS = _sections()


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sort attempt2 before attempt10."""
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _load(con: duckdb.DuckDBPyConnection, side: str, folder: Path) -> None:
    files = [str(path) for path in sorted(folder.rglob("*.jsonl"), key=_natural)]
    files = [name for name in files if Path(name).stat().st_size]
    if files:
        con.execute(
            "INSERT INTO raw SELECT ?, row_number() OVER (), json FROM read_ndjson_objects(?)",
            [side, files],
        )


def _run(con: duckdb.DuckDBPyConnection, section: str) -> None:
    for statement in SECTIONS[section]:
        con.execute(statement)


def _rows(con: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    cursor = con.execute(query)
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _counts(con: duckdb.DuckDBPyConnection, table: str, keys: tuple[str, ...]) -> dict[str, int]:
    found = con.execute(f"SELECT outcome, count(*) FROM {table} GROUP BY outcome").fetchall()
    return dict.fromkeys(keys, 0) | dict(found)


def _answer(con: duckdb.DuckDBPyConnection, resume: dict[str, Any]) -> dict[str, Any]:
    """Shape one resume like an entry of outcomes.json, with its positions beside."""
    sizes = dict(con.execute("SELECT win, count(*) FROM w GROUP BY win").fetchall())
    facts = _rows(con, "SELECT v.*, k.reference AS kind FROM verdict v, kind k")[0]
    misplaced = con.execute("SELECT count(*) FROM resumed WHERE misplaced").fetchall()[0][0]
    block = _rows(con, "FROM position_")[0]
    return {
        "reference": facts["kind"],
        "windows": {
            "committed": sizes.get("com", 0),
            "reference": sizes.get("ref", 0),
            "resumed": sizes.get("res", 0),
        },
        "outcomes": {
            "resumed": _counts(con, "resumed", RESUMED),
            "expected": _counts(con, "expected", EXPECTED),
            "overlays": {"misplaced": misplaced, "out-of-order": facts["disorder"]},
        },
        "shift": facts["shift"],
        "verdict": facts["verdict"],
        "from_attempt": resume["parent"],
        "to_attempt": resume["attempt"],
        "checkpoint_step": resume["c"],
        "positions": block if block.pop("here") else None,
    }


def judge(
    run: Path, control: Path | None = None, order: str | None = None, stream: str | None = None
) -> list[dict[str, Any]]:
    """
    Judge every resume of a run's lineage, oldest first.

    Args:
        run: folder with the *.jsonl files of the run.
        control: the same of a control run; with it this is `gate`, without it `diff --full`.
        order: step, relative or none; by default step with a control and relative without.
        stream: the stream to audit; null is training.

    Returns:
        one dict for each resume, like the entries of outcomes.json, and `positions` or None.

    """
    mode = order or ("relative" if control is None else "step")
    answers = []
    with duckdb.connect() as con:
        con.execute("SET threads=1")
        con.execute("SET VARIABLE stream = ?::VARCHAR", [stream])
        con.execute("SET VARIABLE order_mode = ?", [mode])
        con.execute("SET VARIABLE side_ref = ?", ["run" if control is None else "control"])
        con.execute("CREATE TEMP TABLE former (sid VARCHAR)")
        _run(con, "tables")
        _load(con, "run", run)
        if control is not None:
            _load(con, "control", control)
        _run(con, "ledger")
        for resume in _rows(
            con,
            "FROM chain WHERE side = 'run' AND parent IS NOT NULL AND c IS NOT NULL ORDER BY k",
        ):
            last = ENDLESS if resume["next_c"] is None else resume["next_c"]
            for name, value in (
                ("k", resume["k"]),
                ("parent", resume["parent"]),
                ("attempt", resume["attempt"]),
                ("c", resume["c"]),
                ("last", last),
                ("newest", resume["next_c"] is None),
            ):
                con.execute(f"SET VARIABLE {name} = ?", [value])
            _run(con, "resume")
            if con.execute("FROM w WHERE void AND win IN ('ref', 'res') LIMIT 1").fetchall():
                _run(con, "void rounds")
            _run(con, "outcomes")
            _run(con, "verdict")
            answers.append(_answer(con, resume))
    return answers
