"""Starts and ends a session of Spark, and turns what goes wrong there into errors of ours."""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledger_audit.errors import ClusterError, LedgerAuditError, UnreadableError, UsageError
from ledger_audit.spark.executing import MARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # what Polars does in one task is one core's work
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    # sums of hashes are modulo 2^64
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
_PATIENCE = 5.0
"""Seconds within which a master takes a connection."""
_LEAVING = 30.0
"""Seconds that Java may take to end."""
_NEED = "pip install 'ledger-audit[spark]', on every node, with Java 17 or later"


@contextmanager
def session(master: str | None) -> Iterator["SparkSession"]:
    """
    Run with a session of Spark, which is over at the end.

    Args:
        master: its URL; null: what Spark's own configuration says, or else this machine.

    Raises:
        UsageError: Spark is not installed, does not start, or does not reach its master.
        ClusterError: the cluster failed at its work.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as problem:
        raise UsageError(f"--engine spark: {problem}", hint=_NEED) from problem
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkSession.getActiveSession() is not None:
        raise UsageError("a session of Spark runs in this process", hint="stop it first")
    builder = SparkSession.builder.appName("ledger-audit")
    for key, value in {**_QUIET, **_identity()}.items():
        builder = builder.config(key, value)
    if master is not None:
        builder = builder.master(master)
    handle, name = tempfile.mkstemp(prefix="ledger-audit-spark-", suffix=".log")
    log = Path(name)
    _reach(master)
    try:
        with warnings.catch_warnings():
            # it complains of newer libraries, and of sockets when it stops
            warnings.filterwarnings("ignore", module="pyspark|py4j")
            warnings.filterwarnings("ignore", category=ResourceWarning)
            yield from _run(builder, handle, log, master)
    finally:
        os.close(handle)
        log.unlink(missing_ok=True)


def _identity() -> dict[str, str]:
    """Let executors ask an object store as whom the variables of the driver say."""
    named = {key: value for key, value in os.environ.items() if key.startswith("AWS_")}
    return {f"spark.executorEnv.{key}": value for key, value in named.items()}


def _run(builder: Any, handle: int, log: Path, master: str | None) -> Iterator["SparkSession"]:
    """Give the session, and stop it at the end, whatever happens."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    found = None
    try:
        with _said_to(handle):
            found = builder.getOrCreate()
        yield found
    except (PySparkException, Py4JError, ConnectionError) as problem:
        raise _meant(problem, log, master, has_begun=found is not None) from problem
    except FileNotFoundError as problem:
        if found is not None:
            raise
        raise UsageError(f"Spark does not start: {problem}", hint=_NEED) from problem
    finally:
        if found is not None:
            _end(found)


def _reach(master: str | None) -> None:
    """
    Refuse a standalone master that nobody answers for: Spark itself would try for a minute.

    Raises:
        UsageError: none of those that the URL names can be reached.
    """
    if master is None or not master.startswith("spark://"):
        return
    problems = []
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE):
                return
        except (OSError, ValueError) as problem:
            problems.append(f"{place}: {problem}")
    raise UsageError(
        f"--master {master}: cannot be reached: {'; '.join(problems)}",
        hint="check the URL, and that the master of the cluster runs",
    )


def _end(found: "SparkSession") -> None:
    """Stop a session, which may have stopped by itself, and the Java process that held it."""
    from pyspark import SparkContext

    with suppress(Exception):  # it is gone, whatever it says
        found.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            try:
                process.wait(_LEAVING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _said_to(handle: int) -> Iterator[None]:
    """
    Let what Java says go into a file.

    The process inherits where standard output and error lead when it is started; it would write
    between the lines of a report.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(one) for one in (1, 2)]
    try:
        for one in (1, 2):
            os.dup2(handle, one)
        yield
    finally:
        for one, before in zip((1, 2), kept, strict=True):
            os.dup2(before, one)
            os.close(before)


def _meant(
    problem: BaseException, log: Path, master: str | None, *, has_begun: bool
) -> LedgerAuditError:
    """Say what an error of Spark means."""
    text = str(problem)
    said = re.search(re.escape(MARK) + r"(\{.*\})", text)
    if said is not None:
        told: dict[str, Any] = json.loads(said[1])
        known = {"UsageError": UsageError}.get(told["kind"], UnreadableError)
        return known(told["message"], hint=told["hint"])
    lines = log.read_text(errors="replace").splitlines()
    reasons = [line for line in lines if _TELLING.search(line)] or lines
    reason = (text.strip().splitlines() or [type(problem).__name__])[0]
    details = [line.strip()[:300] for line in [reason, *reasons[-5:]]]
    unreached = any("All masters are unresponsive" in line for line in lines)
    if not has_begun or unreached:
        where = "this machine" if master is None else master
        return UsageError(
            f"Spark does not start on {where}",
            hint=f"check --master and that the cluster runs; {_NEED}",
            details=details,
        )
    return ClusterError(
        "the cluster did not finish its work: nothing is said of the ledger",
        hint="look at Spark's own logs, and try again",
        details=details,
    )


_TELLING = re.compile(r"ERROR|Exception|unresponsive|JAVA_HOME|not found", re.IGNORECASE)
