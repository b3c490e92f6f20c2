"""Addresses in an object store: paths of their own kind, which no local disk is touched for."""

import copy
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger_audit.errors import UsageError
from ledger_audit.ledger.address import Address, place_of

ON_DISK: list[Callable[[Path], Any]] = [
    Path.exists,
    Path.is_dir,
    Path.is_file,
    Path.is_symlink,
    Path.stat,
    Path.lstat,
    Path.resolve,
    Path.touch,
    Path.unlink,
    Path.read_bytes,
    lambda path: path.mkdir(parents=True),
    lambda path: path.write_text("x"),
    lambda path: path.rename("other"),
    lambda path: list(path.iterdir()),
    lambda path: list(path.glob("*")),
    lambda path: list(path.rglob("*")),
    os.path.exists,
    os.path.realpath,
    os.makedirs,
    os.fspath,
]


def test_an_address_has_the_parts_of_a_path() -> None:
    """Name, parent, children and bucket are those of its text, in which nothing is normalised."""
    found = place_of("s3://bucket/runs/a%2Fb/")
    assert isinstance(found, Address)
    assert ("bucket", "runs/a%2Fb", "a%2Fb") == (found.bucket, found.key, found.name)
    assert "s3://bucket/runs" == str(found.parent)
    assert "s3://bucket/runs/a%2Fb/x" == str(found / "x")
    assert found.is_absolute()
    for same in (found.absolute(), copy.copy(found), pickle.loads(pickle.dumps(found))):
        assert (Address, str(found)) == (type(same), str(same))
    assert {found} == {place_of("S3://bucket/runs/a%2Fb"), place_of(found)}


@pytest.mark.parametrize("act", ON_DISK)
def test_no_local_disk_is_touched(
    act: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever would open, make or look for a file refuses, also where a folder has the name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:" / "bucket" / "run").mkdir(parents=True)
    with pytest.raises(UsageError, match="s3://bucket/run: is in an object store"):
        act(place_of("s3://bucket/run"))
    assert ["s3:"] == os.listdir()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gs://bucket/run", "gs://"),
        ("abfss://host/run", "abfss://"),
        ("file:///run", "file://"),
        ("s3a://bucket/run", "write s3://bucket/run"),
        ("s3://", "s3://BUCKET/FOLDER"),
        ("s3:///run", "s3://BUCKET/FOLDER"),
        ("s3://bucket//run", "s3://BUCKET/FOLDER"),
        ("s3://bucket/./run", "s3://BUCKET/FOLDER"),
        ("s3://bucket/../run", "s3://BUCKET/FOLDER"),
    ],
)
def test_what_no_key_can_be_is_refused(text: str, says: str) -> None:
    """Other stores, and keys that a path would change, are named with their remedy."""
    with pytest.raises(UsageError) as problem:
        place_of(text)
    assert text in problem.value.message
    assert says in f"{problem.value.message} {problem.value.hint}"


def test_a_path_stays_a_path() -> None:
    """What has no scheme is a path on this machine, whatever else is in its name."""
    for text in ("runs/a", "/runs", "s3:", "s3:/bucket", "a b/c?d#e", "1://x"):
        found = place_of(text)
        assert (str(Path(text)), False) == (str(found), isinstance(found, Address))
