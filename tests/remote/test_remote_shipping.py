"""A root in an object store: nothing is lost, nothing counts twice, and no step waits."""

import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import ROOT
from running import ledger_audit
from storing import SECRET, Network, Store, served, until, variables

from ledger_audit import LedgerWriter
from ledger_audit.errors import LedgerAuditError
from ledger_audit.ledger.address import place_of
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.rolled_back import rolled_back
from ledger_audit.ledger.shipping.upload import Upload, sealed_of
from ledger_audit.ledger.shipping.waybill import Waybill

pytestmark = pytest.mark.remote

TRAINER = Path(__file__).parent.parent / "shipped.py"
ROWS = 10


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """A store, and the variables that lead to it."""
    with served() as found, variables(found):
        yield found


@pytest.fixture
def network(store: Store) -> Iterator[Network]:
    """The way to the store, without any harm; what is planted is gone afterwards."""
    store.network.heal()
    yield store.network
    store.network.heal()


class Trainer:
    """A process that trains, and the one that ships for it."""

    def __init__(self, spool: Path, name: str, told: dict[str, Any]) -> None:
        self.spool, self.root = spool, f"s3://ledgers/{name}"
        options = {"spool": str(spool), "ship_every": 0.2, "attempt": "a", "run_id": "r"}
        options |= {"segment_bytes": 20_000, **told.pop("options", {})}
        arguments = json.dumps({"root": self.root, "options": options, **told})
        self.process = subprocess.Popen(
            [sys.executable, str(TRAINER), arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.writer, self.shipper = self.line()
        self.step, self.slowest = 0, 0.0

    def line(self) -> list[Any]:
        """Read the next line that the trainer says; none where it has ended."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        return json.loads(text) if text else []

    def until_step(self, step: int) -> None:
        """Wait until a step is committed."""
        while self.step < step:
            self.step, took, self.shipper = self.line()
            self.slowest = max(self.slowest, took)

    def kill(self, *, also_shipper: bool) -> None:
        """Kill the trainer, and what ships for it."""
        self.process.kill()
        if also_shipper:
            os.kill(self.shipper, signal.SIGKILL)
        for text in iter(self.line, []):
            if isinstance(text[0], int):
                self.step = text[0]
        self.process.wait()

    @property
    def has_shipped_all(self) -> bool:
        """Nothing is under way any more."""
        return not (self.spool / f".waybill-{self.writer}.json").exists()

    def end(self) -> str:
        """Wait for its end; give what it said in its log."""
        _, told = self.process.communicate(timeout=60)
        return told


@pytest.fixture
def train(network: Network, tmp_path: Path) -> Iterator[Callable[..., Trainer]]:
    """Start trainers, and leave none of their processes behind."""
    started: list[Trainer] = []

    def start(name: str, **told: Any) -> Trainer:
        assert network.url
        started.append(Trainer(tmp_path / "spool", name, told))
        return started[-1]

    yield start
    for one in started:
        for process in (one.process.pid, one.shipper):
            with suppress(ProcessLookupError, TypeError):
                os.kill(process, signal.SIGKILL)
        one.process.communicate()


def opened(address: str) -> Ledger:
    """Open what is there."""
    return open_ledger([place_of(address)])


def check_whole(address: str, steps: int, attempt: str = "a") -> None:
    """See that each record and each commit of so many steps is there once."""
    ledger = opened(address)
    records = ledger.records(attempt, 1, steps)
    ids = [at for step in range(1, steps + 1) for at in range(10 * step, 10 * step + ROWS)]
    assert ids == records.sort("seq")["sample_id"].to_list()
    assert list(range(1, steps + 1)) == ledger.tries(attempt, 1, steps)["step"].to_list()
    assert () == ledger.unread


def test_a_clean_end_leaves_sealed_objects_alone(
    train: Callable[..., Trainer], store: Store
) -> None:
    """When `close` returns, all is there, sealed, with a row group's worth of statistics each."""
    trainer = train("clean", steps=60)
    assert "" == trainer.end()
    objects = store.objects("clean/")
    assert {".parquet"} == {Path(name).suffix for name in objects}
    assert [] == [path.name for path in trainer.spool.rglob("*")]
    check_whole(trainer.root, 60)
    for name, data in objects.items():
        footer = pq.read_metadata(io.BytesIO(data))
        assert b"r" == footer.metadata[b"run_id"], name
        assert footer.row_group(0).column(0).statistics is not None, name


@pytest.mark.usefixtures("network")
def test_it_reads_as_what_a_writer_without_a_spool_leaves(tmp_path: Path) -> None:
    """The reports of both are the same."""
    folder = write(tmp_path / "same", steps=range(1, 31), segment_bytes=8_000)
    own = shutil.copytree(folder.parent, tmp_path / "own")
    Upload(waybill_of(folder, "same")).ship(is_over=True)
    for command in (("show",), ("verify", "--format", "json"), ("preflight", "--format", "json")):
        there, here = (ledger_audit(*command, root) for root in ("s3://ledgers/same", own))
        assert here.code == there.code
        assert here.out == there.out.replace("s3://ledgers/same", str(own))


def test_open_segments_are_there_while_the_job_runs(
    train: Callable[..., Trainer], store: Store
) -> None:
    """A copy of what is open follows within `ship_every`, and is one of whole messages."""
    trainer = train("open", steps=400, pause=0.02, options={"segment_bytes": 1 << 30})
    trainer.until_step(10)
    until(lambda: any(name.endswith(".arrows") for name in store.objects("open/")))
    seen = 0
    for _ in range(5):
        with suppress(LedgerAuditError):
            ledger = opened(trainer.root)
            ids = ledger.records("a", 1)["sample_id"].to_list()
            assert list(range(10, 10 + len(ids))) == ids
            assert () == ledger.unread
            commits = ledger.tries("a", 1)["step"].to_list()
            assert list(range(1, len(commits) + 1)) == commits
            assert len(commits) * ROWS <= len(ids)
            seen += 1
        trainer.until_step(trainer.step + 15)
    assert seen >= 3
    assert {".arrows"} == {Path(name).suffix for name in store.objects("open/")}


@pytest.mark.parametrize("also_shipper", [False, True], ids=["writer", "both"])
def test_a_kill_takes_nothing_back(train: Callable[..., Trainer], *, also_shipper: bool) -> None:
    """What `record` returned from arrives once, by the shipper that lives or by the next one's."""
    name = f"killed-{also_shipper}"
    trainer = train(name, steps=1000, pause=0.01)
    trainer.until_step(random.Random(also_shipper).randrange(30, 60))
    trainer.kill(also_shipper=also_shipper)
    steps = trainer.step
    if also_shipper:
        assert not trainer.has_shipped_all
        after = train(name, steps=3, options={"attempt": "b", "resumed_from": ["a", 20]}, waits=1)
        until(lambda: trainer.has_shipped_all)
        assert after.process.stdin is not None
        after.process.communicate("\n", timeout=60)
        check_whole(trainer.root, 3, "b")
    until(lambda: trainer.has_shipped_all)
    check_whole(trainer.root, steps)


def test_a_killed_shipper_is_followed_by_another(train: Callable[..., Trainer]) -> None:
    """Another goes on where it stopped, again and again, and no step waits for it."""
    trainer = train("followed", steps=80, pause=0.02, checkpoints=True)
    for step in (20, 45):
        trainer.until_step(step)
        with suppress(ProcessLookupError):
            os.kill(trainer.shipper, signal.SIGKILL)
    trainer.until_step(80)
    trainer.end()
    until(lambda: trainer.has_shipped_all)
    check_whole(trainer.root, 80)


def test_a_bad_server_costs_neither_records_nor_time(
    train: Callable[..., Trainer], network: Network, store: Store
) -> None:
    """While it is bad, no step waits and files stay; nothing there is cut; then all arrives."""
    options = {"ship_timeout": 40.0}
    trainer = train("bad", steps=120, pause=0.02, options=options, waits=True)
    trainer.until_step(20)
    network.refuse()
    until(lambda: network.refused > 0)
    network.heal()
    network.cuts_after = 2_000
    until(lambda: network.cuts > 0)
    network.heal()
    network.forbids = True
    until(lambda: network.count("PUT", "bad/") > 0)
    trainer.until_step(120)
    for name, data in store.objects("bad/").items():
        if name.endswith(".parquet"):
            assert pq.read_table(io.BytesIO(data)).num_rows > 0
    assert not trainer.has_shipped_all
    network.heal()
    _, told = trainer.process.communicate("\n", timeout=60)
    until(lambda: trainer.has_shipped_all, seconds=60)
    assert trainer.slowest < 2.0
    assert SECRET not in told
    check_whole(trainer.root, 120)


def test_a_silent_server_never_hangs_the_job(
    train: Callable[..., Trainer], network: Network
) -> None:
    """No step waits for an answer, and `close` waits as long as it may."""
    network.is_silent = True
    trainer = train("silent", steps=30, pause=0.02, options={"ship_timeout": 0.5})
    trainer.until_step(30)
    said, took, _ = trainer.line()
    assert ("closed", True) == (said, 0.4 < took < 4.0), took
    assert trainer.slowest < 2.0
    assert not trainer.has_shipped_all
    network.heal()
    until(lambda: trainer.has_shipped_all, seconds=60)
    check_whole(trainer.root, 30)


def test_what_is_wrong_is_said_in_the_log_of_the_job(
    train: Callable[..., Trainer], network: Network
) -> None:
    """A refused upload is told once, with the address, and without what is secret."""
    network.forbids = True
    trainer = train("told", steps=20, pause=0.05, checkpoints=True, options={"ship_timeout": 0.1})
    told = trainer.end()
    assert 1 == told.count("cannot ship to s3://ledgers/told"), told
    assert "403" in told or "Forbidden" in told or "AccessDenied" in told, told
    assert SECRET not in told


def write(root: Path, *, steps: Sequence[int], segment_bytes: int = 1 << 30) -> Path:
    """Write a small attempt without a spool; give its folder."""
    with LedgerWriter(
        root, rank=0, world_size=1, attempt="a", run_id="r", segment_bytes=segment_bytes
    ) as ledger:
        for step in steps:
            ledger.record(step, 0, range(10 * step, 10 * step + ROWS))
            ledger.commit(step)
    return root / "attempt=a"


def waybill_of(folder: Path, name: str) -> Waybill:
    """Say that the files of a folder go to the store."""
    writer = next(folder.glob("events-*")).name.removeprefix("events-").rsplit("-", 1)[0]
    root = place_of(f"s3://ledgers/{name}")
    return Waybill(folder.parent, root, folder.name, writer, keeps=False)


class CrashedError(Exception):
    """Stands for the death of a shipper."""


@pytest.mark.usefixtures("network")
def test_a_shipper_that_dies_at_any_request_leaves_what_the_next_one_mends(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after each request: what is there never counts twice, and in the end it is all."""
    most = 0
    for dies_at in range(100):
        name = f"dies-{dies_at}"
        folder = write(tmp_path / name, steps=range(1, 7), segment_bytes=3_500)
        count = 0

        def counted(act: Callable[..., None], at: int = dies_at) -> Callable[..., None]:
            def counting(*args: Any) -> None:
                nonlocal count
                count += 1
                if at == count:
                    raise CrashedError
                act(*args)
                if act.__name__ == "remove":  # else it is as before the next call
                    count += 1
                    if at == count:
                        raise CrashedError

            return counting

        first = Upload(waybill_of(folder, name))
        for call in ("put", "confirm", "remove"):
            monkeypatch.setattr(first._bucket, call, counted(getattr(first._bucket, call)))
        with suppress(CrashedError):
            first.ship(is_over=True)
        if dies_at == 0:
            most = count
        elif store.objects(f"{name}/"):
            _check_prefix(f"s3://ledgers/{name}")
        if list(folder.iterdir()):
            Upload(waybill_of(folder, name)).ship(is_over=True)
        check_whole(f"s3://ledgers/{name}", 6)
        assert [] == list(folder.iterdir())
        if dies_at == most:
            break
    assert most > 15


def _check_prefix(address: str) -> None:
    """See that each line there is there once, and no commit before its records."""
    ledger = opened(address)
    records, commits = ledger.records("a", 1), ledger.tries("a", 1)["step"].to_list()
    assert not records["seq"].is_duplicated().any()
    held = set(records["sample_id"].to_list())
    assert all({*range(10 * step, 10 * step + ROWS)} <= held for step in commits)


@pytest.mark.usefixtures("network")
def test_what_is_damaged_is_not_sealed_away(store: Store, tmp_path: Path) -> None:
    """A segment with unsound bytes goes up as it is, and what was lost is still told."""
    folder = write(tmp_path / "torn", steps=range(1, 5))
    (samples,) = folder.glob("samples-*")
    data = bytearray(samples.read_bytes())
    data[len(data) // 2] ^= 1
    samples.write_bytes(data)
    Upload(waybill_of(folder, "torn")).ship(is_over=True)
    objects = store.objects("torn/")
    assert bytes(data) == objects[samples.name]
    assert [] == list(folder.iterdir())
    assert ["torn"] == [one.reason for one in opened("s3://ledgers/torn").unread]


def test_what_a_seal_gives_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    """Whoever puts it again after a crash puts the same."""
    folder = write(tmp_path / "twice", steps=range(1, 50))
    for path in folder.iterdir():
        table = path.name.partition("-")[0]
        one, other = (sealed_of(table, path.read_bytes()) for _ in range(2))  # type: ignore[arg-type]
        assert one is not None
        assert one == other


@pytest.mark.usefixtures("network")
def test_samples_that_are_not_kept_are_let_go_of_there_too(store: Store, tmp_path: Path) -> None:
    """`retain` puts an empty object in the place of one that has arrived."""
    spool = tmp_path / "spool"
    with LedgerWriter(
        "s3://ledgers/retained",
        rank=0,
        world_size=1,
        attempt="a",
        spool=spool,
        retain=1,
        segment_bytes=3_000,
        ship_every=0.1,
    ) as ledger:
        for step in range(1, 21):
            ledger.record(step, 0, range(100 * step, 100 * step + 50))
            ledger.commit(step)
            if step % 10 == 0:
                until(lambda: len(list(spool.glob("*/samples-*"))) <= 1)
                with ledger.checkpoint(step):
                    pass
    rows = {
        name: pq.read_table(io.BytesIO(data)).num_rows
        for name, data in store.objects("retained/").items()
        if name.startswith("samples-")
    }
    assert 0 in rows.values()
    assert any(rows.values())
    assert 20 == opened("s3://ledgers/retained").tries("a", 1).height


@pytest.mark.usefixtures("network")
def test_kept_files_stay_and_go_up_once(store: Store, tmp_path: Path) -> None:
    """With `keep_spool` the spool holds all, and a second round puts nothing."""
    folder = write(tmp_path / "kept", steps=range(1, 9), segment_bytes=4_000)
    told = waybill_of(folder, "kept")
    kept = Upload(Waybill(told.spool, told.root, told.folder, told.writer, keeps=True))
    kept.ship(is_over=True)
    before, there = kept.shipped, sorted(path.name for path in folder.iterdir())
    store.network.requests.clear()
    kept.ship(is_over=True)
    assert (before, []) == (kept.shipped, store.network.requests)
    assert len(there) == len(store.objects("kept/"))
    check_whole("s3://ledgers/kept", 8)


@pytest.mark.usefixtures("network")
def test_an_object_that_is_not_what_was_put_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No local file goes before what is there is known to be the same."""
    folder = write(tmp_path / "other", steps=range(1, 5))
    before = sorted(folder.iterdir())
    first = Upload(waybill_of(folder, "other"))
    put = first._bucket.put

    def spoiled(name: str, data: bytes) -> None:
        put(name, data[:-1] if name.endswith(".parquet") else data)

    monkeypatch.setattr(first._bucket, "put", spoiled)
    with pytest.raises(OSError, match="not what was put"):
        first.ship(is_over=True)
    assert before == sorted(folder.iterdir())
    Upload(waybill_of(folder, "other")).ship(is_over=True)
    check_whole("s3://ledgers/other", 4)


def test_whoever_may_not_delete_ships_all_the_same(
    tmp_path: Path, network: Network, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open copy that cannot be removed stays beside the sealed one, and does not count."""
    folder = write(tmp_path / "undeleted", steps=range(1, 5))
    shipping = Upload(waybill_of(folder, "undeleted"))
    remove = shipping._bucket.remove

    def forbidden(name: str) -> None:
        network.forbids = True
        try:
            remove(name)
        finally:
            network.forbids = False

    monkeypatch.setattr(shipping._bucket, "remove", forbidden)
    shipping.ship(is_over=True)
    assert [] == list(folder.iterdir())
    assert 4 == len(store.objects("undeleted/"))
    check_whole("s3://ledgers/undeleted", 4)


@pytest.mark.usefixtures("network")
def test_the_guard_reads_what_was_rolled_back(store: Store, tmp_path: Path) -> None:
    """A resumed job is compared with steps that are in the store."""
    folder = write(tmp_path / "guarded", steps=range(1, 9))
    local = rolled_back(folder.parent, "a", 4)
    store.upload(folder.parent, "guarded")
    assert {5, 6, 7, 8} == set(local.steps)
    assert local == rolled_back(place_of("s3://ledgers/guarded"), "a", 4)


@pytest.mark.parametrize(
    ("root", "spool", "says"),
    [
        ("s3://ledgers/run", None, "spool="),
        ("s3://ledgers/run", "s3://ledgers/spool", "no folder on this node"),
        ("gs://ledgers/run", "spool", "gs://"),
        ("hdfs://ledgers/run", None, "hdfs://"),
        ("s3://", "spool", "s3://BUCKET/FOLDER"),
    ],
)
def test_a_writer_refuses_what_it_cannot_write_to(
    root: str, spool: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first step, and without a folder of that name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LedgerAuditError) as problem:
        LedgerWriter(root, rank=0, world_size=1, spool=spool)
    assert says in f"{problem.value} {problem.value.hint}"
    assert [] == os.listdir()


def test_a_writer_needs_what_ships_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without boto3 it says so at once, and not in the log of a shipper."""
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(LedgerAuditError, match="boto3"):
        LedgerWriter("s3://ledgers/run", rank=0, world_size=1, spool=tmp_path / "spool")


def test_the_uploading_process_loads_no_engine() -> None:
    """What ships and seals needs neither polars nor a client before it is used."""
    program = (
        "import sys; from ledger_audit.ledger.shipping import __main__, upload; "
        "from ledger_audit.ledger import merging; "
        "print([name for name in ('polars', 'boto3') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert b"[]\n" == ran.stdout


PAGE = (ROOT / "docs" / "object-stores.md").read_text()


@pytest.mark.usefixtures("network")
def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job trains, fails and is resumed by the page's lines, and is audited by its commands."""
    monkeypatch.chdir(tmp_path)
    (lines,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    here = lines.replace("/local/ledger", str(tmp_path / "spool"))
    assert here != lines
    state: dict[str, Any] = {"step": 0}
    for last in (5, 8):
        names = {"LedgerWriter": LedgerWriter, "rank": 0, "world": 1, "state": state}
        exec(here, names)
        ledger: Any = names["ledger"]
        for step in range(state["step"] + 1, last + 1):
            ledger.record(step, 0, [2 * step, 2 * step + 1])
            ledger.commit(step)
            if step == 4:
                with ledger.checkpoint(step) as cursor:
                    state = {"step": step, "cursor": cursor}
        ledger.close()
    asked = [line.split() for line in commands.splitlines() if line.startswith("ledger-audit ")]
    codes = [ledger_audit(*words[1:]).code for words in asked]
    assert [0, 0] == codes[:2]
    assert codes[2] in (0, 3)  # as far as it can be planned
    assert (tmp_path / "page.html").exists()
    assert list((tmp_path / "plan").glob("attempt=*"))
    assert not (tmp_path / "s3:").exists()


def test_the_page_names_every_variable() -> None:
    """What is read from the surroundings is what the page says."""
    source = "".join(path.read_text() for path in (ROOT / "ledger_audit" / "ledger").rglob("*.py"))
    assert set(re.findall(r"\bAWS_[A-Z0-9_]+\b", source)) - {"AWS_"} <= set(
        re.findall(r"\bAWS_[A-Z0-9_]+\b", PAGE)
    )
