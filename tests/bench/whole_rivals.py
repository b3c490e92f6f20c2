"""
Answers one question of the whole-run benchmark by another tool, as a good engineer would ask it.

    python whole_rivals.py TOOL QUESTION '{"left": …, "right": …, "first": …, "last": …, …}'

It prints the answer as JSON, and ends with `MISSING` where the tool is not installed.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

MISSING = 9
"""Exit code: the tool is not installed."""

Answer = Mapping[str, int]
KEYS = ["step", "sample_id"]


@dataclass(frozen=True)
class Asked:
    """Where the records are."""

    left: str
    """Pattern of the files of the run itself: the control, the epoch, the history."""
    right: str
    """Of what it is compared with: the other run, or the resumed attempt."""
    first: int
    """Step of the resumed attempt from which on samples are looked up."""
    last: int
    memory: str
    """Such as 2GiB, for tools that can be told."""
    spill: str
    """A folder for what does not fit into it."""


def duckdb_differences(asked: Asked) -> Answer:
    """Count the records of two runs that are on one side only."""
    return _sql(
        asked,
        """
        select count(*) as one_sided
        from (select step, sample_id from read_parquet($left)) as one
        full outer join (select step, sample_id from read_parquet($right)) as other
            using (step, sample_id)
        where one.step is null or other.step is null
        """,
    )


def duckdb_digests(asked: Asked) -> Answer:
    """Count the steps whose records differ, by the sums of their hashes."""
    sums = "select step, sum(hash(sample_id)) as digest from read_parquet({}) group by step"
    return _sql(
        asked,
        f"""
        select count(*) as steps
        from ({sums.format("$left")}) as one
        full outer join ({sums.format("$right")}) as other using (step)
        where one.digest is distinct from other.digest
        """,
    )


def duckdb_repeats(asked: Asked) -> Answer:
    """Count the samples that were used more than once, and all that were used."""
    return _sql(
        asked,
        """
        select count(*) filter (uses <> 1) as repeated, count(*) as "distinct"
        from (
            select sample_id, count(*) as uses from read_parquet($left) group by sample_id
        )
        """,
    )


def duckdb_found(asked: Asked) -> Answer:
    """Count the records of the history whose samples are in the resumed window."""
    return _sql(
        asked,
        """
        select count(*) as found
        from read_parquet($left) as history
        semi join (
            select sample_id from read_parquet($right) where step between $first and $last
        ) as resumed using (sample_id)
        """,
    )


def _sql(asked: Asked, query: str) -> Answer:
    duckdb: Any = import_module("duckdb")
    connection = duckdb.connect()
    connection.execute("set threads = 2")
    connection.execute(f"set memory_limit = '{asked.memory}'")
    connection.execute(f"set temp_directory = '{asked.spill}'")
    connection.execute("set preserve_insertion_order = false")
    given = {name: getattr(asked, name) for name in Asked.__dataclass_fields__}
    used = {name: value for name, value in given.items() if f"${name}" in query}
    result = connection.execute(query, used)
    names = [column[0] for column in result.description]
    return dict(zip(names, result.fetchone(), strict=True))


def polars_differences(asked: Asked) -> Answer:
    """Count the records of two runs that are on one side only."""
    pl: Any = import_module("polars")
    one = pl.scan_parquet(asked.left).select(*KEYS, one=True)
    other = pl.scan_parquet(asked.right).select(*KEYS, other=True)
    joined = one.join(other, on=KEYS, how="full", coalesce=True)
    differs = pl.col("one").is_null() | pl.col("other").is_null()
    return _collected(joined.select(one_sided=differs.sum()))


def polars_repeats(asked: Asked) -> Answer:
    """Count the samples that were used more than once, and all that were used."""
    pl: Any = import_module("polars")
    uses = pl.scan_parquet(asked.left).group_by("sample_id").agg(uses=pl.len())
    return _collected(uses.select(repeated=(pl.col("uses") != 1).sum(), distinct=pl.len()))


def polars_found(asked: Asked) -> Answer:
    """Count the records of the history whose samples are in the resumed window."""
    pl: Any = import_module("polars")
    window = pl.col("step").is_between(asked.first, asked.last)
    resumed = pl.scan_parquet(asked.right).filter(window).select("sample_id")
    history = pl.scan_parquet(asked.left).select("sample_id")
    joined = history.join(resumed, on="sample_id", how="semi")
    return _collected(joined.select(found=pl.len()))


def floor_both(asked: Asked) -> Answer:
    """Read steps and samples of two runs, and add them up."""
    return {"read": _added(asked.left) + _added(asked.right)}


def floor_one(asked: Asked) -> Answer:
    """Read steps and samples of one run, and add them up."""
    return {"read": _added(asked.left)}


def _added(files: str) -> int:
    pl: Any = import_module("polars")
    scan = pl.scan_parquet(files)
    ids = pl.col("sample_id")
    ids = ids.str.len_bytes() if scan.collect_schema()["sample_id"] == pl.String else ids
    sums = scan.select(rows=pl.len(), steps=pl.col("step").sum(), ids=ids.cast(pl.Int64).sum())
    return _collected(sums)["rows"]


def _collected(query: Any) -> Answer:
    told: Answer = query.collect(engine="streaming").row(0, named=True)
    return told


def pandas_differences(asked: Asked) -> Answer:
    """Count the records of two runs that are on one side only."""
    one, other = _frame(asked.left, KEYS), _frame(asked.right, KEYS)
    merged = one.merge(other, on=KEYS, how="outer", indicator=True)
    return {"one_sided": int((merged["_merge"] != "both").sum())}


def pandas_repeats(asked: Asked) -> Answer:
    """Count the samples that were used more than once, and all that were used."""
    uses = _frame(asked.left, ["sample_id"])["sample_id"].value_counts(sort=False)
    return {"repeated": int((uses != 1).sum()), "distinct": len(uses)}


def pandas_found(asked: Asked) -> Answer:
    """Count the records of the history whose samples are in the resumed window."""
    resumed = _frame(asked.right, KEYS)
    resumed = resumed[resumed["step"].between(asked.first, asked.last)]["sample_id"]
    history = _frame(asked.left, ["sample_id"])["sample_id"]
    return {"found": int(history.isin(resumed).sum())}


def _frame(files: str, columns: list[str]) -> Any:
    pandas: Any = import_module("pandas")
    paths = sorted(Path(files).parent.glob(Path(files).name))
    return pandas.concat([pandas.read_parquet(path, columns=columns) for path in paths])


def datacompy_differences(asked: Asked) -> Answer:
    """Count the records of two runs that are on one side only."""
    datacompy: Any = import_module("datacompy")
    pl: Any = import_module("polars")
    one, other = (pl.scan_parquet(files).select(KEYS) for files in (asked.left, asked.right))
    found = datacompy.PolarsCompare(one.collect(), other.collect(), join_columns=KEYS)
    return {"one_sided": found.df1_unq_rows.height + found.df2_unq_rows.height}


GATE, VERIFY = ("equal", "shuffled"), ("clean", "replays")
TOOLS: Mapping[str, Mapping[tuple[str, ...], Callable[[Asked], Answer]]] = {
    "floor": {GATE: floor_both, VERIFY: floor_one, ("lookup",): floor_one},
    "duckdb": {GATE: duckdb_differences, VERIFY: duckdb_repeats, ("lookup",): duckdb_found},
    "duckdb-digests": {GATE: duckdb_digests},
    "polars": {GATE: polars_differences, VERIFY: polars_repeats, ("lookup",): polars_found},
    "pandas": {GATE: pandas_differences, VERIFY: pandas_repeats, ("lookup",): pandas_found},
    "datacompy": {GATE: datacompy_differences},
}
"""What each tool can answer."""


def answering(tool: str, question: str) -> Callable[[Asked], Answer] | None:
    """Give what answers a question; null: the tool does not."""
    return next((call for asked, call in TOOLS[tool].items() if question in asked), None)


def main() -> None:
    """Answer."""
    tool, question, told = sys.argv[1:]
    answer = answering(tool, question)
    if answer is None:
        raise SystemExit(f"{tool} does not answer {question}")
    try:
        said = answer(Asked(**json.loads(told)))
    except ModuleNotFoundError as problem:
        sys.stderr.write(f"{problem}\n")
        raise SystemExit(MISSING) from problem
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
