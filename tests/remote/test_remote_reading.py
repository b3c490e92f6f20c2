"""Ledgers at an s3:// address: every command reads them as it reads a folder, or says why not."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import FIXTURES
from running import Ran, ledger_audit
from storing import SECRET, Network, Store, served, variables

from ledger_audit import LedgerWriter
from ledger_audit.errors import VanishedError
from ledger_audit.ledger import remote
from ledger_audit.ledger.address import Address, place_of
from ledger_audit.ledger.opening import open_ledger

pytestmark = pytest.mark.remote

RUNS = ("torch-ddp-double-failure", "torch-ddp-epoch-restart")
PLANNED = ("--checkpoint-step", "4", "--world-size", "2")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with real runs in it, which are in the working directory, too."""
    here = os.getcwd()
    folder = tmp_path_factory.mktemp("runs")
    with served() as found, variables(found):
        os.chdir(folder)
        for name in RUNS:
            for side in ("run", "control"):
                (folder / name).mkdir(exist_ok=True)
                source = FIXTURES / "zoo" / name / side
                assert 0 == ledger_audit("convert", source, "-o", f"{name}/{side}").code
            found.upload(folder / name, name)
        yield found
        os.chdir(here)


@pytest.fixture
def network(store: Store) -> Iterator[Network]:
    """The way to the store, without any harm; what is planted is gone afterwards."""
    store.network.heal()
    yield store.network
    store.network.heal()


def there(path: str) -> str:
    """Give the address of what is in the working directory, too."""
    return f"s3://ledgers/{path}"


COMMANDS = {
    "diff": ("diff", "RUN", "--format", "json"),
    "diff-full": ("diff", "RUN", "--full", "--format", "json"),
    "diff-by-reference": ("diff", "RUN", "--reference", "CONTROL", "--format", "json"),
    "gate": ("gate", "CONTROL", "RUN", "--format", "json"),
    "verify": ("verify", "RUN", "--format", "json"),
    "preflight": ("preflight", "RUN", "--format", "json"),
    "checkpoints": ("checkpoints", "RUN", "--format", "json"),
    "selftest": ("selftest", "RUN", "--format", "json"),
    "postmortem": ("postmortem", "RUN", "--report", "html=p.html", "--report", "json=p.json"),
    "plan": ("plan", "RUN", *PLANNED, "--reference", "CONTROL", "-o", "PLAN", "--format", "json"),
    "show": ("show", "RUN"),
    "init": ("init", "RUN", "-o", "-"),
}


@pytest.mark.parametrize(
    ("command", "name"),
    [(one, RUNS[1]) for one in COMMANDS] + [(one, RUNS[0]) for one in ("diff", "gate", "verify")],
)
def test_every_command_says_the_same_of_an_address(
    network: Network, command: str, name: str, tmp_path: Path
) -> None:
    """Reports, pages and plans have the same bytes, but for the path; each opening lists once."""
    told = []
    for at in (str, there):
        words = {"RUN": at(f"{name}/run"), "CONTROL": at(f"{name}/control")}
        words["PLAN"] = str(tmp_path / f"plan-{len(told)}")
        ran = ledger_audit(*(words.get(word, word) for word in COMMANDS[command]))
        texts = [ran.out]
        for file in (Path("p.html"), Path("p.json"), *sorted(Path(words["PLAN"]).glob("*.json"))):
            texts += [file.read_text()] if file.exists() else []
            file.unlink(missing_ok=True)
        told.append((ran.code, [_alike(text, words["PLAN"]) for text in texts]))
    assert told[0] == told[1]
    assert told[0][0] in (0, 1, 3), told[0]
    assert told[0][1] != [""]
    openings = {"diff-by-reference": 2, "gate": 2, "plan": 2, "postmortem": 3}
    assert openings.get(command, 1) == network.count("GET", "list-type=2")


def test_pieces_of_an_address_are_merged(network: Network, tmp_path: Path) -> None:
    """A piece names what it is of; `merge` finds it there again."""
    address = there(f"{RUNS[0]}/run")
    pieces = [str(tmp_path / f"piece-{number}") for number in (1, 2)]
    for number, piece in enumerate(pieces, 1):
        assert ledger_audit("verify", address, "--bucket", f"{number}/2", "-o", piece).code == 0
    network.heal()

    merged = ledger_audit("merge", *pieces, "--format", "json")

    assert merged.report == ledger_audit("verify", address, "--format", "json").report
    assert network.count("GET", "list-type=2") == 2


def test_answers_in_pieces_are_merged_at_an_address(network: Network, tmp_path: Path) -> None:
    """`gate` and `diff` alike: two ledgers, and what their windows leave unmatched."""
    control, run = there(f"{RUNS[0]}/control"), there(f"{RUNS[0]}/run")
    for asked in (("gate", control, run), ("diff", run, "--before", "2", "--after", "2")):
        pieces = [str(tmp_path / f"{asked[0]}-{number}") for number in (1, 2)]
        for number, piece in enumerate(pieces, 1):
            assert ledger_audit(*asked, "--bucket", f"{number}/2", "-o", piece).code == 0

        merged = ledger_audit("merge", *pieces, "--format", "json")

        assert merged.out == ledger_audit(*asked, "--format", "json").out
    network.heal()


def test_a_list_of_samples_may_be_at_an_address(store: Store, tmp_path: Path) -> None:
    """It is read as it is from a disk; what is wrong with it is said of its address."""
    run, ids = f"{FIXTURES}/zoo/{RUNS[0]}/run", "".join(f"{one}\n" for one in range(300))
    local = tmp_path / "ids.txt"
    local.write_text(ids)
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    store.upload(tmp_path, "lists")
    here = ledger_audit("verify", run, "--manifest", local, "--format", "json")
    far = ledger_audit("verify", run, "--manifest", there("lists/ids.txt"), "--format", "json")

    assert here.report["generations"] == far.report["generations"]
    assert here.code == far.code
    for name, says in (("no.txt", "does not exist"), ("torn.parquet", "")):
        ran = ledger_audit("verify", run, "--manifest", there(f"lists/{name}"))
        assert 4 == ran.code
        assert f"{there(f'lists/{name}')}: {says}" in ran.err
        assert "/tmp" not in ran.err


def _alike(text: str, plan: str) -> str:
    return text.replace(there(""), "").replace(plan, "PLAN")


def test_other_addresses_are_refused_by_name(network: Network) -> None:
    """Nothing is read or made for an address of another kind, and no folder is called like one."""
    before = sorted(os.listdir())
    run, far = f"{RUNS[0]}/run", there("new")
    for arguments in (
        ("diff", "gs://bucket/ledger"),
        ("diff", "hdfs://host/ledger"),
        ("diff", "az://bucket/ledger"),
        ("diff", "s3a://bucket/ledger"),
        ("diff", "s3://"),
        ("diff", "s3://ledgers//run"),
        ("diff", "s3://ledgers/../run"),
        ("gate", run, "file:///ledger"),
        ("diff", run, "--reference", "gs://bucket/ledger"),
        ("seal", there(run)),
        ("plan", run, *PLANNED, "-o", far),
        ("plan", run, "--check", far),
        ("convert", f"{FIXTURES}/zoo/{RUNS[0]}/run", "-o", far),
        ("init", run, "-o", far),
        ("diff", run, "--report", f"json={far}"),
        ("diff", run, "--contract", far),
        ("demo", "--keep", far),
    ):
        ran = ledger_audit(*arguments)
        assert 2 == ran.code, (arguments, ran)
        assert "://" in ran.err, (arguments, ran.err)
        assert "try: " in ran.err or "Usage" in ran.err, (arguments, ran.err)
    assert before == sorted(os.listdir())
    assert [] == network.requests


def plant_refusing(network: Network) -> None:
    network.refuse()


def plant_forbidding(network: Network) -> None:
    network.forbids = True


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (plant_refusing, "check that the server of AWS_ENDPOINT_URL answers"),
        (plant_forbidding, "s3:ListBucket and s3:GetObject"),
    ],
)
def test_a_server_that_fails_is_said_and_no_ledger_without_records(
    network: Network, harm: Callable[[Network], None], says: str
) -> None:
    """Exit code 4, the address, the server, a remedy, and no secret; never a verdict."""
    address = there(f"{RUNS[0]}/run")
    harm(network)
    ran = ledger_audit("diff", address)
    assert 4 == ran.code, ran
    assert "" == ran.out
    assert address in ran.err
    assert network.url in ran.err
    assert says in ran.err
    assert SECRET not in ran.err


@pytest.mark.parametrize(
    ("others", "address", "says"),
    [
        ({}, "s3://no-such-bucket/run", "check the name of the bucket"),
        ({}, there("no-such-run"), "does not exist"),
        ({}, there(RUNS[0]), "no attempt=… folder"),
        ({}, there(f"{RUNS[0]}/log.jsonl"), "no plain logs"),
        ({"AWS_ENDPOINT_URL": "localhost:9000"}, there("run"), "http://HOST:PORT"),
        ({"AWS_ENDPOINT_URL_S3": "ftp://localhost"}, there("run"), "https://HOST"),
    ],
)
@pytest.mark.usefixtures("network")
def test_what_is_not_there_is_said(others: dict[str, str], address: str, says: str) -> None:
    """A bucket, a run or a server that cannot be is exit code 4, with what to look at."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in others.items():
            patch.setenv(name, value)
        ran = ledger_audit("diff", address)
    assert (4, "") == (ran.code, ran.out), ran
    assert address in ran.err
    assert says in ran.err


def test_no_credentials_are_said_with_and_without_boto3(store: Store) -> None:
    """Without the two variables, profiles and roles are looked for, and their absence is told."""
    told = {**os.environ, **store.variables, "AWS_EC2_METADATA_DISABLED": "true", "HOME": "/none"}
    told = {name: one for name, one in told.items() if "KEY" not in name}
    program = (
        "import sys; {}; from ledger_audit.cli import run; sys.exit(run(['diff', 's3://b/l']))"
    )
    for hides, says in (("sys.modules['boto3'] = None", "not installed"), ("1", "no role gives")):
        code = [sys.executable, "-c", program.format(hides)]
        ran = subprocess.run(code, env=told, capture_output=True, text=True, check=False)
        assert 4 == ran.returncode, ran
        assert says in ran.stderr
        assert "ledger-audit[s3]" in ran.stderr


def test_a_profile_gives_credentials(store: Store, tmp_path: Path) -> None:
    """What no variable tells is taken from a profile, for both clients alike."""
    file = tmp_path / "credentials"
    file.write_text(f"[ci]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = {SECRET}\n")
    told = {**os.environ, **store.variables}
    told = {name: one for name, one in told.items() if "KEY" not in name}
    told |= {"AWS_PROFILE": "ci", "AWS_SHARED_CREDENTIALS_FILE": str(file)}
    command = [sys.executable, "-m", "ledger_audit", "diff", there(f"{RUNS[0]}/run")]
    ran = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
    assert 0 == ran.returncode, ran.stderr
    assert ran.stdout == ledger_audit("diff", f"{RUNS[0]}/run").out


def test_every_client_follows_the_same_variables(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The endpoint of S3 goes before that of all services, for who lists and for who reads."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", network.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token")
    told = remote.options_of(place_of(there("any")))
    assert told["credential_provider"] is None
    assert {
        "aws_access_key_id": "AKIDEXAMPLE",
        "aws_secret_access_key": SECRET,
        "aws_session_token": "a-token",
        "aws_region": "eu-central-1",
        "aws_endpoint_url": network.url,
        "aws_allow_http": "true",
    }.items() <= told["storage_options"].items()
    assert {} == remote.options_of(Path("any"))
    run = f"{RUNS[1]}/run"
    there_too = ledger_audit("diff", there(run))
    assert ledger_audit("diff", run) == there_too


def test_a_slow_server_changes_nothing(network: Network) -> None:
    """What comes late is waited for."""
    network.delay_s = 0.02
    slow = ledger_audit("diff", there(f"{RUNS[1]}/run"), "--full")
    assert ledger_audit("diff", f"{RUNS[1]}/run", "--full") == slow


def test_a_connection_that_breaks_never_changes_a_verdict(network: Network) -> None:
    """What is cut now and then is asked for again; what is cut each time is exit code 4."""
    run = f"{RUNS[1]}/run"
    true = ledger_audit("diff", run, "--format", "json")
    network.cuts_after, network.cuts_each = 1_500, 3
    ran = ledger_audit("diff", there(run), "--format", "json")
    assert network.cuts > 0
    assert true == Ran(ran.code, ran.out.replace(there(""), ""), "")
    network.heal()
    network.cuts_after = 4_000
    ran = ledger_audit("diff", there(run), "--format", "json")
    assert network.cuts > 0
    assert (4, "") == (ran.code, ran.out)
    assert there(run) in ran.err


def test_a_silent_server_is_given_up(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes connections and never answers costs a bounded time."""
    monkeypatch.setattr(remote, "SILENT_S", 1)
    monkeypatch.setattr(remote, "ATTEMPTS", 2)
    remote._files_of.cache_clear()
    network.is_silent = True
    ran = ledger_audit("diff", there(f"{RUNS[0]}/run"))
    remote._files_of.cache_clear()
    assert 4 == ran.code, ran
    assert network.url in ran.err


@pytest.fixture(scope="module")
def large(store: Store, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    """The address of a ledger whose records do not pack well, and its bytes."""
    root = tmp_path_factory.mktemp("large") / "ledger"
    rng = random.Random(11)
    ids = [f"{rng.getrandbits(256):064x}" for _ in range(500 * 512)]
    for attempt, first, last, parent in (("a", 1, 500, None), ("b", 491, 500, ("a", 490))):
        with LedgerWriter(
            root, rank=0, world_size=1, attempt=attempt, run_id="r", resumed_from=parent
        ) as ledger:
            for step in range(first, last + 1):
                ledger.record(step, 0, ids[512 * (step - 1) : 512 * step])
                ledger.commit(step)
                if step == 490:
                    with ledger.checkpoint(step):
                        pass
    assert 0 == ledger_audit("seal", root, "--idle", "0").code
    size = sum(path.stat().st_size for path in root.rglob("*.parquet"))
    return store.upload(root, "large"), size


@pytest.mark.parametrize("command", ["diff", "show"])
def test_a_narrow_question_reads_a_part(
    network: Network, large: tuple[str, int], command: str
) -> None:
    """One listing, and most of the ledger stays where it is: only row groups of the window come."""
    address, size = large
    ran = ledger_audit(command, address)
    assert 0 == ran.code, ran
    assert 1 == network.count("GET", "list-type=2")
    assert 0.5 * size > network.down > 0, f"{network.down:,} of {size:,} bytes"


def test_whoever_may_only_read_can_read(network: Network, large: tuple[str, int]) -> None:
    """No command that reads writes, or tries to: not even an aid."""
    address, _ = large
    assert ledger_audit("verify", address).code in (0, 3)
    assert {"GET", "HEAD"} == {method for method, _ in network.requests}


def test_records_ahead_of_their_events_are_left_out(store: Store, tmp_path: Path) -> None:
    """Records that stand there before a void that was told among them are not taken for more."""
    root = tmp_path / "ledger"
    writer = LedgerWriter(root, rank=0, world_size=1, attempt="a", run_id="r")
    for step in (1, 2):
        writer.record(step, 0, [step])
        writer.commit(step)
    folder = root / "attempt=a"
    (events,) = folder.glob("events-*")
    before = events.read_bytes()
    writer.record(3, 0, [3])
    writer.void(3, "overflow")
    writer.record(3, 0, [3])
    (samples,) = folder.glob("samples-*")
    name = f"ahead/attempt=a/{samples.name}"
    store.put(f"ahead/attempt=a/{events.name}", before)
    store.put(name, samples.read_bytes())
    shown = ledger_audit("show", there("ahead"), "--format", "json")
    ledger = open_ledger([place_of(there("ahead"))])
    assert [1, 2, 3] == ledger.records("a", 1)["sample_id"].to_list(), shown
    assert () == ledger.unread
    store.put(f"ahead/attempt=a/{events.name}", events.read_bytes())
    whole = open_ledger([place_of(there("ahead"))])
    assert [1, 2, 3, 3] == whole.records("a", 1)["sample_id"].to_list()
    assert () == whole.unread
    writer.close()


def test_a_copy_that_grows_is_read_as_it_was_listed(store: Store) -> None:
    """What is put between the listing and the reading counts with the next listing."""
    place = place_of(there("grows/object"))
    assert isinstance(place, Address)
    store.put("grows/object", b"first and more")
    assert b"first" == remote.fetch(place, 5)
    assert b"st" == remote.fetch(place, 5, last=2)
    with pytest.raises(VanishedError):
        remote.fetch(place, 50)


@pytest.mark.usefixtures("network")
def test_a_damaged_object_is_named(store: Store) -> None:
    """A sealed object that is cut, or of another format, is exit code 4 with its address."""
    for name, data in (("cut", b"PAR1 and no more"), ("empty", b""), ("tiny", b"PAR1")):
        store.put(f"{name}/attempt=a/samples-w-000000.parquet", data)
        ran = ledger_audit("diff", there(name))
        assert (4, "") == (ran.code, ran.out), ran
        assert f"{there(name)}/attempt=a/samples-w-000000.parquet" in ran.err


@pytest.mark.usefixtures("network")
def test_reports_hold_no_secret() -> None:
    """Neither key nor token is in what is told."""
    ran = ledger_audit("postmortem", there(f"{RUNS[0]}/run"), "--report", "html=secret.html")
    assert ran.code in (0, 1, 3)
    page = Path("secret.html").read_text()
    assert SECRET not in page + ran.out + ran.err
    assert json.dumps(SECRET) not in page
