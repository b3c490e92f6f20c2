"""`--engine` and `--master`, as far as they can be told without Spark; tests/spark has the rest."""

import sys

import pytest
from running import ledger_audit
from test_verify import RIGHT, ZOO

RUN = ZOO / RIGHT / "run"


@pytest.mark.parametrize("command", ["verify", "diff"])
def test_without_spark_it_is_said_what_to_install(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong option, with its remedy, and no verdict."""
    for name in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)

    ran = ledger_audit(command, RUN, "--engine", "spark")

    assert (2, "") == (ran.code, ran.out)
    assert "pip install 'ledger-audit[spark]'" in ran.err


@pytest.mark.parametrize(
    "options",
    [
        ["verify", RUN, "--master", "local[2]"],
        ["gate", RUN, RUN, "--master", "local[2]"],
        ["verify", RUN, "--engine", "other"],
        ["verify", RUN, "--engine", "spark", "--bucket", "1/2", "-o", "piece"],
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: list[str]) -> None:
    """A master without Spark, an engine that is none, a share of a cluster's work."""
    assert 2 == ledger_audit(*options).code
