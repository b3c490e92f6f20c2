"""A standalone cluster of Spark on loopback: a master and workers, each a process of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
PATIENCE = 60.0
"""Seconds within which a daemon of Spark says that it is there."""
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",  # a second application finds cores, too
    "spark.sql.shuffle.partitions": "4",
}

BRIEFLY = {
    f"spark.{one}.extraJavaOptions": "-XX:TieredStopAtLevel=1" for one in ("driver", "executor")
}
"""What runs for seconds is not worth being compiled twice."""


@dataclass(frozen=True)
class Standalone:
    """A cluster that runs."""

    url: str
    daemons: tuple[int, ...]
    """The process ids of the master and its workers."""
    folder: Path
    """What workers keep of applications: APP/EXECUTOR/stderr in the folder of each."""


@contextmanager
def standalone(
    folder: Path, workers: int = 2, settings: Mapping[str, str] = SETTINGS, memory: str = "3g"
) -> Iterator[Standalone]:
    """Run a master and some workers; SPARK_CONF_DIR tells drivers the settings."""
    conf = folder / "conf"
    conf.mkdir(parents=True)
    lines = [f"{key} {value}\n" for key, value in settings.items()]
    (conf / "spark-defaults.conf").write_text("".join(lines))
    kept = {key: os.environ.get(key) for key in ("SPARK_CONF_DIR", "SPARK_LOCAL_IP")}
    os.environ.update(SPARK_CONF_DIR=str(conf), SPARK_LOCAL_IP="127.0.0.1")
    here = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    try:
        with ExitStack() as running:
            master, log = running.enter_context(_daemon("master.Master", here, folder / "master"))
            url = _said(log, r"Starting Spark master at (spark://\S+)")
            found = [master]
            for number in range(workers):
                own = folder / f"worker-{number}"
                more = ["--cores", "2", "--memory", memory, "--work-dir", str(own)]
                process, log = running.enter_context(
                    _daemon("worker.Worker", [*here, *more, url], own)
                )
                _said(log, r"(Successfully registered) with master")
                found.append(process)
            yield Standalone(url, tuple(found), folder)
    finally:
        for key, value in kept.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


@contextmanager
def _daemon(name: str, arguments: list[str], folder: Path) -> Iterator[tuple[int, Path]]:
    """Run one of Spark's own daemons until the end."""
    folder.mkdir(parents=True)
    log = folder / "log"
    command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{name}", *arguments]
    surroundings = {**os.environ, "SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable}
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, env=surroundings, stdout=said, stderr=said, start_new_session=True
        )
    try:
        yield process.pid, log
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _said(log: Path, pattern: str) -> str:
    """Wait for a line of a daemon's log."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{log} never said {pattern}:\n{log.read_text(errors='replace')[-2000:]}")
