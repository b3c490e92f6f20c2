"""`--engine spark` on a standalone cluster: two workers, and the bytes of one process."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
import tiny
from conftest import FIXTURES, ROOT
from faults import make
from native import read_lines, write_ledger
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from standalone import BRIEFLY, SETTINGS, Standalone, standalone
from storing import Store, served, variables
from test_hostile import NASTY
from test_verify import ZOO, cut, used

from ledger_audit import audit, sources, verification
from ledger_audit.continuity.contract import DIFF
from ledger_audit.errors import ClusterError, ExitCode, LedgerAuditError
from ledger_audit.ledger.address import place_of
from ledger_audit.ledger.schema import DIGEST_COLUMNS
from ledger_audit.ledger.tables import hash_frame
from ledger_audit.model import Reading
from ledger_audit.report.exposure_json import to_json
from ledger_audit.report.json_v1 import to_json as to_report
from ledger_audit.spark import frames
from ledger_audit.spark import session as session_of_spark
from ledger_audit.spark.library import hash_of, spark_engine
from ledger_audit.spark.session import session

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RUNS = [
    *(ZOO / name / "run" for name in ("torch-ddp-epoch-restart", "megatron-correct")),
    *sorted(FIXTURES.glob("traps/*/run"))[::16],
    *sorted(FIXTURES.glob("cases/*/run"))[::80],
]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master and two workers, for all tests."""
    folder = tmp_path_factory.mktemp("cluster")
    with standalone(folder, settings=SETTINGS | BRIEFLY) as found:
        yield found


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    """An object store, and the variables that lead to it."""
    with served() as found, variables(found):
        yield found


@pytest.fixture(scope="session")
def spark(cluster: Standalone, store: Store) -> Iterator[SparkSession]:
    """One session on it: to start one takes longer than most of what it is asked."""
    assert store.variables.keys() <= os.environ.keys()  # before the session: executors get them
    with session(cluster.url) as found:
        yield found


def told(question: verification.Question, spark: SparkSession | None) -> str:
    """Give the report, or the error, of this process or of the cluster."""
    try:
        if spark is None:
            return to_json(verification.verified(question))
        reading = replace(question.reading, engine=spark_engine(spark))
        return to_json(verification.verified(replace(question, reading=reading)))
    except PySparkException as found:
        problem = session_of_spark._meant(found, Path(os.devnull), None, has_begun=True)
        return f"{type(problem).__name__}: {problem.message}; {problem.hint}"
    except LedgerAuditError as problem:
        return f"{type(problem).__name__}: {problem.message}; {problem.hint}"


def same(root: Path, spark: SparkSession, **asked: Any) -> str:
    """Ask both: the same bytes."""
    manifest, samples = asked.pop("manifest", None), asked.pop("samples", {})
    question = verification.Question([root], Reading(**asked), DIFF, manifest, samples)
    one = told(question, None)
    assert one == told(question, spark)
    return one


@pytest.mark.parametrize("number", range(len(RUNS)), ids=[one.parent.name for one in RUNS])
def test_reports_of_any_run_are_those_of_one_process(
    number: int, spark: SparkSession, tmp_path: Path
) -> None:
    """Real runs, traps and cases: in sealed files for executors, every third still open."""
    lines, is_sealed = read_lines(RUNS[number]), number % 3 != 1
    same(write_ledger(lines, tmp_path, rng=random.Random(number), sealed=is_sealed), spark)


@pytest.mark.parametrize("fault", ["rewind", "void-before-checkpoint"])
def test_reports_of_random_jobs_are_those_of_one_process(
    fault: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Blends, packed rows, spans, text ids and voids."""
    for seed in range(1):
        root, _ = make(fault, seed, clean=False).write(tmp_path / str(seed))
        same(root, spark)


def test_effects_are_those_of_one_process(spark: SparkSession, tmp_path: Path) -> None:
    """What came again, and what was lost, is listed sample by sample whoever counts."""
    source = ZOO / "torch-ddp-epoch-restart" / "run"
    root = write_ledger(read_lines(source), tmp_path / "run")
    tables = []
    for name, engine in (("here", None), ("there", spark_engine(spark))):
        question = verification.Question(
            [root], Reading(engine=engine), DIFF, None, {}, effects=tmp_path / name
        )
        verification.verified(question)
        tables.append(pl.read_parquet(tmp_path / name))

    assert tables[0].height
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize("is_gate", [True, False], ids=["gate", "diff"])
def test_gate_and_diff_are_those_of_one_process(
    is_gate: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that both consumed alike, and keys in the history, are found by the cluster."""
    monkeypatch.setattr(sources, "ROWS", 0)
    asked, rows = [], frames.Frames.rows

    def noted(self: frames.Frames, scan: Any, *more: Any, **named: Any) -> Any:
        asked.append(scan)
        return rows(self, scan, *more, **named)

    monkeypatch.setattr(frames.Frames, "rows", noted)
    for one in ("control", "run"):
        write_ledger(read_lines(ZOO / "torch-ddp-epoch-restart" / one), tmp_path / one)
    reports = []
    for engine in (None, spark_engine(spark)):
        reading = Reading(full=is_gate, engine=engine)
        if is_gate:
            found = audit.gate([tmp_path / "control"], [tmp_path / "run"], reading)
        else:
            found = audit.diff([tmp_path / "run"], reading)
        reports.append(to_report(found))
        assert bool(asked) == (engine is not None)

    assert reports[0] == reports[1]


def test_executors_read_from_an_object_store(
    store: Store, spark: SparkSession, tmp_path: Path
) -> None:
    """They fetch row groups themselves, as whom the driver asks: the bytes of one process."""
    lines = read_lines(ZOO / "torch-ddp-epoch-restart" / "run")
    address = store.upload(write_ledger(lines, tmp_path / "run"), "spark/run")
    question = verification.Question([place_of(address)], Reading(), DIFF, None, {})
    one = told(question, None)
    store.network.heal()

    assert one == told(question, spark)
    assert json.loads(one)["verdict"] == "broken"
    assert store.network.count("GET", "samples-") > 0


def test_both_workers_have_read(cluster: Standalone, spark: SparkSession) -> None:
    """The cluster has two executors, in two processes, and tasks ran in both."""

    def process(batches: Any) -> Any:  # executors have no module of tests
        for batch in batches:
            time.sleep(0.05)
            yield pa.RecordBatch.from_pydict({"id": pa.array([os.getppid()] * batch.num_rows)})

    where = spark.range(0, 40, 1, 40).mapInArrow(process, "id bigint").distinct().collect()
    executors = [*cluster.folder.glob("worker-*/app-*/*/stderr")]

    assert 2 == len({row[0] for row in where})
    assert 2 == len({path.parts[-4] for path in executors})


def test_ids_of_any_text_are_told_alike(spark: SparkSession, tmp_path: Path) -> None:
    """What is missing, not listed and used again, whatever ids hold."""
    names = [*dict.fromkeys([*NASTY, *(f"doc-{n:03}" for n in range(10)), "ß漢\u202e", "x" * 5000])]
    every = [one for epoch in (0, 1) for one in used(names, epoch)] + used(names[:3], 1)
    root = tiny.write(tmp_path / "run", tiny.attempt(0, cut(every)))
    manifest = tmp_path / "ids.parquet"
    pl.DataFrame({"sample_id": [*names[:-4], "never-1", "never-2"]}).write_parquet(manifest)

    report = json.loads(same(root, spark, manifest=manifest))

    first = report["generations"][0]
    assert sorted(names[-4:]) == sorted(first["unlisted_examples"])
    assert ["never-1", "never-2"] == first["missing_examples"]


def test_a_task_reads_only_its_row_groups(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are cut where row groups end, and no record is read twice or not at all."""
    monkeypatch.setattr(frames, "_ROWS", 7)
    root = tmp_path / "run"
    write_ledger(read_lines(ZOO / "torch-ddp-epoch-restart" / "run"), root)

    same(root, spark)


def test_what_commits_tell_is_the_sum_of_sparks_own_hash(spark: SparkSession) -> None:
    """XXH64 chained over the columns: hostile ids, negative numbers, nulls, no text at all."""
    texts = [*NASTY, "", "a" * 31, "b" * 32, "ß漢字" * 20, "\0"]
    none = [None] * len(texts)
    numbers = [0, -1, 1, -(1 << 63), (1 << 63) - 1] + [7] * len(texts)
    spans = pl.Series(
        [(-1) ** n * n * 4096 if n % 3 else None for n in range(len(texts))], dtype=pl.Int64
    )
    kinds = [
        {"sample_id": pl.Series(texts), "source": pl.Series([*texts[1:], None], dtype=pl.String)},
        {"sample_id": pl.Series(numbers[: len(texts)]), "source": pl.Series(none, dtype=pl.String)},
    ]
    for kind in kinds:
        rows = pl.DataFrame(
            {
                **kind,
                "token_start": spans,
                "token_end": spans.reverse(),
                "epoch": pl.Series(
                    [n - 3 if n % 4 else None for n in range(len(texts))], dtype=pl.Int32
                ),
            }
        ).select(DIGEST_COLUMNS)
        known = {pl.String(): "string", pl.Int64(): "bigint", pl.Int32(): "int"}
        columns = ", ".join(f"{name} {known[dtype]}" for name, dtype in rows.schema.items())
        table = spark.createDataFrame([*rows.iter_rows()], columns)
        found = [row[0] for row in table.select(hash_of()).collect()]
        assert hash_frame(rows).reinterpret(signed=True).to_list() == found


def test_errors_of_executors_are_told_as_ours(spark: SparkSession, tmp_path: Path) -> None:
    """A file that vanished from where executors look, and one that is no Parquet inside."""
    root = tmp_path / "run"
    write_ledger(read_lines(ZOO / "torch-ddp-epoch-restart" / "run"), root)
    file = sorted(root.rglob("samples-*.parquet"))[0]
    told_whole = file.read_bytes()
    file.write_bytes(
        told_whole[:4] + bytes(len(told_whole) // 2) + told_whole[4 + len(told_whole) // 2 :]
    )
    question = verification.Question([root], Reading(), DIFF, None, {})

    found = told(question, spark)

    assert found.startswith("UnreadableError: ")
    assert str(root) in found
    assert "Traceback" not in found


def test_an_executor_that_is_killed_is_replaced(spark: SparkSession) -> None:
    """What it had done is done again by another one: the same bytes."""

    def executor(batches: Any) -> Any:  # a worker of Python is a child of a child of it
        for batch in batches:
            told = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
            yield pa.RecordBatch.from_pydict({"id": pa.array([int(told[1])] * batch.num_rows)})

    found = spark.range(0, 1, 1, 1).mapInArrow(executor, "id bigint").collect()[0][0]
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{found}/cmdline").read_bytes()
    os.kill(found, signal.SIGKILL)

    same(ZOO / "torch-ddp-double-failure" / "run", spark)


def test_a_cluster_that_gives_up_is_no_verdict(spark: SparkSession) -> None:
    """A task that fails again and again, for no reason of ours."""

    def failing(batches: Any) -> Any:
        yield from batches
        raise ValueError("no reason of ours")

    with pytest.raises(PySparkException) as caught:
        spark.range(0, 1, 1, 1).mapInArrow(failing, "id bigint").collect()

    found = session_of_spark._meant(caught.value, Path(os.devnull), None, has_begun=True)
    assert isinstance(found, ClusterError)
    assert ExitCode.UNREADABLE == found.exit_code


def test_the_command_writes_the_report_and_nothing_else(cluster: Standalone) -> None:
    """Spark says a lot; none of it is on standard output or error."""
    run = str(ZOO / "torch-ddp-double-failure" / "run")
    ours = [sys.executable, "-m", "ledger_audit", "verify", run, "--format", "json"]
    one = subprocess.run(ours, capture_output=True, check=False, cwd=ROOT)
    command = [*ours, "--engine", "spark", "--master", cluster.url]

    many = subprocess.run(command, capture_output=True, check=False, cwd=ROOT)

    assert (one.stdout, one.returncode, b"") == (many.stdout, many.returncode, many.stderr)


def test_a_master_that_is_not_there_is_told_at_once() -> None:
    """Nobody answers: a wrong option, and no verdict."""
    run = str(ZOO / "torch-ddp-double-failure" / "run")
    command = [sys.executable, "-m", "ledger_audit", "verify", run]
    command += ["--engine", "spark", "--master", "spark://127.0.0.1:1"]

    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert "cannot be reached" in ran.stderr
    assert "Traceback" not in ran.stderr
