"""Chooses what lets all records of a ledger pass by: this process, or a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ledger_audit.cli.options import Command

if TYPE_CHECKING:
    from ledger_audit.libraries import Engine


def on_engine(command: Command) -> Command:
    """Add `--engine` and `--master`."""
    for option in (_MASTER, _ENGINE):
        command = option(command)
    return command


_ENGINE = click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="What reads all records: this process, or Spark (pip install 'ledger-audit[spark]'). The "
    "report is the same.",
)
_MASTER = click.option(
    "--master",
    metavar="URL",
    help="With --engine spark: the cluster, for instance spark://HOST:7077 or yarn. Default: what "
    "Spark's configuration says, or all cores of this machine.",
)


@contextmanager
def running(engine: str, master: str | None) -> Iterator["Engine"]:
    """Give the engine that is asked for, while it runs."""
    if engine == "local":
        if master is not None:
            raise click.UsageError("--master belongs to --engine spark")
        from ledger_audit.libraries import LOCAL

        yield LOCAL
        return
    from ledger_audit.spark.session import session

    with session(master) as spark:
        from ledger_audit.spark.library import spark_engine

        yield spark_engine(spark)
