"""Reads JSON Lines, plain or gzip: our dialect of samples and events, or samples alone."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.lines import Lines, shown
from ledger_audit.ledger.numbering import Numbering
from ledger_audit.ledger.schema import EVENT_KINDS, EVENTS, FOREIGN_REQUIRED, SAMPLE_ID, SAMPLES
from ledger_audit.ledger.tables import events_schema, samples_schema


def read_json_lines(
    path: Path, *, columns: Mapping[str, str], attempt: str | None, numbering: Numbering
) -> tuple[pl.DataFrame, pl.DataFrame, bool]:
    """
    Read the JSON Lines dialect, or plain JSON Lines without a `kind`.

    Args:
        path: the file.
        columns: our column name → theirs.
        attempt: the label to give to every line; null: its own, or "0".
        numbering: numbers the lines without `seq` within their attempt and rank.

    Returns:
        SAMPLES rows, EVENTS rows, and whether the last line is torn (then it is left out).

    Raises:
        UnreadableError: a line is not an object, or a field is missing or of the wrong type.
    """
    rows = _Rows(path, columns, attempt, numbering)
    is_torn = False
    lines = Lines(path)
    for number, raw in enumerate(lines, 1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw)
        except ValueError as problem:
            if not raw.endswith(b"\n"):
                is_torn = True  # the writer died inside its last line
                break
            raise rows.error(number, f"is not JSON ({problem})") from problem
        except RecursionError as problem:
            raise rows.error(number, "is nested too deeply") from problem
        try:
            rows.add(number, line)
        except (RecursionError, UnicodeError) as problem:
            raise rows.error(number, f"cannot be read ({problem})") from problem
    return rows.samples(), rows.events(), is_torn or lines.is_cut


class _Rows:
    """Columns filled line by line; the types are checked where a line still has a number."""

    def __init__(
        self, path: Path, columns: Mapping[str, str], attempt: str | None, numbering: Numbering
    ) -> None:
        self.path = path
        self.attempt = attempt
        self.numbering = numbering
        self.theirs = {column.name: columns.get(column.name, column.name) for column in SAMPLES}
        self.sample: dict[str, list[Any]] = {column.name: [] for column in SAMPLES}
        self.event: dict[str, list[Any]] = {column.name: [] for column in EVENTS}
        self.id_type: type | None = None

    def error(self, number: int, problem: str) -> UnreadableError:
        return UnreadableError(
            f"{self.path}: line {number} {problem}",
            hint="one JSON object a line, as docs/ledger-format.md describes; mend or remove it",
        )

    def add(self, number: int, line: Any) -> None:
        if not isinstance(line, dict):
            raise self.error(number, "is not a JSON object")
        kind = line.get("kind", "sample")
        if kind != "sample" and kind not in EVENT_KINDS:
            raise self.error(number, f"has the unknown kind {shown(kind)}")
        attempt, rank = self._label(number, line), line.get(self.theirs["rank"])
        if type(rank) is not int:
            raise self.error(number, f"has {shown(rank)} as 'rank', not an integer")
        seq = line.get(self.theirs["seq"] if kind == "sample" else "seq")
        if type(seq) not in (int, type(None)):
            raise self.error(number, f"has {shown(seq)} as 'seq', not an integer")
        seq = self.numbering.take(attempt, rank, seq)
        if kind == "sample":
            self._add_sample(number, line, attempt, seq)
        else:
            self._add_event(number, line, attempt, seq)

    def _label(self, number: int, line: dict[str, Any]) -> str:
        if self.attempt is not None:
            return self.attempt
        label = line.get(self.theirs["attempt"])
        if type(label) not in (int, str, type(None)):
            raise self.error(number, f"has {shown(label)} as 'attempt', not a label")
        return "0" if label is None else str(label)

    def _add_sample(self, number: int, line: dict[str, Any], attempt: str, seq: int) -> None:
        is_used = line.get("stage") in (None, "used")
        for column in SAMPLES:
            name = column.name
            value = line.get(self.theirs[name])
            if name == "attempt":
                value = attempt
            elif name == "seq":
                value = seq
            elif name == SAMPLE_ID:
                self._check_id(number, value)
            elif value is None:
                if name in FOREIGN_REQUIRED and is_used:
                    raise self.error(number, f"has no {self.theirs[name]!r}")
            elif type(value) is not (str if column.type == "string" else int):
                raise self.error(number, f"has {shown(value)} as {self.theirs[name]!r}")
            self.sample[name].append(value)

    def _check_id(self, number: int, value: Any) -> None:
        if type(value) not in (int, str):
            raise self.error(number, f"has {shown(value)} as {self.theirs[SAMPLE_ID]!r}")
        if self.id_type not in (None, type(value)):
            raise self.error(number, "changes the type of 'sample_id' (integers or text, not both)")
        self.id_type = type(value)

    def _add_event(self, number: int, line: dict[str, Any], attempt: str, seq: int) -> None:
        data = line.get("data")
        if data is not None and not isinstance(data, dict):
            raise self.error(number, "has 'data' that is not an object")
        for name in ("step", "time_ns"):
            if type(line.get(name)) not in (int, type(None)):
                raise self.error(number, f"has {shown(line[name])} as {name!r}, not an integer")
        values = {
            "attempt": attempt,
            "rank": line[self.theirs["rank"]],
            "seq": seq,
            "time_ns": line.get("time_ns"),
            "kind": line["kind"],
            "step": line.get("step"),
            "data": None if data is None else json.dumps(data),
        }
        for name, value in values.items():
            self.event[name].append(value)

    def samples(self) -> pl.DataFrame:
        text = self.id_type is str
        return self._frame(self.sample, samples_schema(pl.String() if text else pl.Int64()))

    def events(self) -> pl.DataFrame:
        return self._frame(self.event, events_schema())

    def _frame(self, columns: dict[str, list[Any]], schema: dict[str, pl.DataType]) -> pl.DataFrame:
        try:
            return pl.DataFrame(columns, schema=schema, strict=True)
        except (pl.exceptions.PolarsError, OverflowError, TypeError, UnicodeError) as problem:
            raise UnreadableError(
                f"{self.path}: a number or a text does not fit its column: {problem}",
                hint="docs/ledger-format.md names the type of each column",
            ) from problem
