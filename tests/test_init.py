"""`init` drafts a contract from what a ledger shows, and the draft is a contract."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import FIXTURES, ROOT
from contracts import terms_of
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from native import FORMAT, Line, read_lines, write_ledger
from running import Ran, ledger_audit
from test_extents import rot

from ledger_audit.continuity.contract import Contract
from ledger_audit.contract_file import read_contract
from ledger_audit.contract_file.toml_text import aside, comment, many, text
from ledger_audit.drafting import STEPS
from ledger_audit.errors import ExitCode
from ledger_audit.ledger.opening import open_ledger

LEDGERS = sorted(
    path
    for kind in ("zoo", "traps", "cases")
    for path in (FIXTURES / kind).glob("*/*")
    if path.is_dir()
)
RUN = FIXTURES / "zoo" / "torch-ddp-correct" / "run"
TERM = re.compile(r"#(?=[^ #])")
"""What makes a comment of a term."""


def drafted(ledger: Path | str, *options: str) -> str:
    """Give the contract that is drafted from a ledger."""
    ran = ledger_audit("init", ledger, "-o", "-", *options)
    assert (ExitCode.CONTINUOUS, "") == (ran.code, ran.err)
    return ran.out


def prose(draft: str) -> str:
    """Give a draft with each comment on one line."""
    return draft.replace("\n# ", " ")


def with_all_terms(draft: str) -> str:
    """Take away every # that hides a term, and choose the promise that they fit."""
    lines = [TERM.sub("", line, count=1) for line in draft.splitlines()]
    return "\n".join(lines).replace('promise = "exactly-once"', 'promise = "bounded-replay"')


def read(folder: Path, terms: str) -> Contract:
    """Read terms in a folder that has the lists which drafts name."""
    for name in ("excluded.txt", "manifest.parquet"):
        (folder / name).write_text("17\n")
    (folder / "contract.toml").write_text(terms, encoding="utf-8")
    return read_contract(folder / "contract.toml")


def log(folder: Path, lines: Iterable[Line]) -> Path:
    """Write a log of the JSON Lines dialect."""
    folder.mkdir(exist_ok=True)
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "log.jsonl").write_text(text, encoding="utf-8")
    return folder


def start(
    attempt: Any = 0, rank: int = 0, origin: tuple[Any, int] | None = None, **data: Any
) -> Line:
    """Make a start event."""
    parent = None if origin is None else {"attempt": origin[0], "step": origin[1]}
    told = {"world_size": 1, "resumed_from": parent, **data}
    return {"kind": "start", "attempt": attempt, "rank": rank, "data": told}


def sample(step: int, sample_id: Any = 0, attempt: Any = 0, **columns: Any) -> Line:
    """Make a record of rank 0."""
    return {
        "kind": "sample",
        "attempt": attempt,
        "rank": 0,
        "step": step,
        "slot": 0,
        "sample_id": sample_id,
        **columns,
    }


@pytest.mark.parametrize("ledger", LEDGERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_draft_of_any_ledger_is_a_contract_with_every_term(ledger: Path, tmp_path: Path) -> None:
    """It is read back without a mistake, as it is and with every hidden term taken."""
    draft = drafted(ledger)
    whole = with_all_terms(draft)

    assert "exactly-once" == read(tmp_path, draft).promise
    assert read(tmp_path, whole).bounded_replay is not None
    named = {
        line.strip("[]").split(" ")[0] for line in whole.splitlines() if line and line[0] != "#"
    }
    assert set() == set(terms_of()) - named
    assert max(map(len, draft.splitlines())) <= 100
    assert draft == drafted(ledger)


def test_every_term_of_a_draft_has_a_comment_before_it() -> None:
    """One or a few lines say what a term means, or a table, and why it is so."""
    for part in drafted(RUN).split("\n\n"):
        first = part.split("\n")[0]
        assert first.startswith("# ") or re.fullmatch(r"\[[a-z_]+\]", first)
        assert re.search(r"^# ", part, re.MULTILINE)


@pytest.mark.parametrize(
    ("ledger", "active"),
    [
        (
            "zoo/torch-ddp-correct",
            {"fingerprint": {"must_match": ["dataset_samples", "seed", "drop_last"]}},
        ),
        (
            "zoo/torch-ddp-elastic-4to2-correct",
            {
                "ranks": {"may_change": True},
                "fingerprint": {"must_match": ["dataset_samples", "seed", "drop_last"]},
            },
        ),
        ("zoo/olmo-seed-changed", {"fingerprint": {"must_match": ["dataset_samples"]}}),
        ("traps/eval-rows-in-the-same-ledger", {"held_out": ["eval"]}),
        (
            "traps/only-one-rank-in-four-is-logged",
            {"fingerprint": {"must_match": ["dataset_samples"]}},
        ),
        (
            "cases/neighbouring-spans-share-one-token",
            {"token_overlap": 1, "fingerprint": {"must_match": ["packing"]}},
        ),
        ("cases/a-long-document-spreads-over-many-samples", {}),
        (
            "zoo/megatron-seqlen-changed",
            {"fingerprint": {"must_match": ["seed"]}},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_ledger_settles_is_active(ledger: str, active: dict[str, Any]) -> None:
    """The rest of the terms stay comments."""
    terms = tomllib.loads(drafted(FIXTURES / ledger / "run"))

    assert "exactly-once" == terms.pop("promise")
    assert active == {name: value for name, value in terms.items() if value != {}}


def test_a_key_that_changed_is_left_out_and_named() -> None:
    """A draft must not promise what this ledger breaks, nor keep quiet about it."""
    draft = drafted(FIXTURES / "zoo" / "olmo-seed-changed" / "run")

    assert "# seed is left out: it changed with attempt 1." in draft


def test_what_is_worth_knowing_of_the_ledger_stands_at_the_top() -> None:
    """Attempts with their ranks and where they resumed, columns, and how much was looked at."""
    head = drafted(FIXTURES / "zoo" / "torch-ddp-double-failure" / "run").split("\n\n")[0]

    assert "#   attempt 2: 4 ranks, resumed from attempt 1 at step 15" in head
    assert "# Logged: epoch, token spans; not logged: position, source, worker." in head
    assert re.search(r"# Looked at: \d+ records of steps \d+ to \d+\.", head)


def test_sources_come_with_the_uses_that_were_seen(tmp_path: Path) -> None:
    """A source that is used twice in a pass is listed so, as a comment."""
    ledger = FIXTURES / "cases" / "an-upsampled-source-repeats-as-often-as-the-control" / "run"
    draft = drafted(ledger)

    assert {} == read(tmp_path, draft).repeats
    assert {"books": 2, "web": 1, "*": 1} == read(tmp_path, with_all_terms(draft)).repeats


def test_other_streams_and_sizes_are_told(tmp_path: Path) -> None:
    """Streams by any name, the buffer of the fingerprint, the global batch, spans of no number."""
    fingerprint = {"shuffle_buffer": 512, "micro_batch_size": 4, "accumulation": 2, "world_size": 8}
    spans = [(0, 10), (8, 20), (17, 30)]
    lines = [
        start(fingerprint=fingerprint),
        *(sample(1, 7, token_start=first, token_end=last) for first, last in spans),
        sample(1, 8, stream="rollout"),
    ]
    draft = drafted(log(tmp_path / "a", lines))

    assert '#held_out = ["rollout"]' in draft
    assert "#shuffle_buffer = 512" in draft
    assert "#samples = 64" in draft
    assert "#token_overlap = 1" in draft
    assert "The 2 pairs of neighbours looked at do not all share as many." in prose(draft)
    lines.append(sample(1, 9, stream="c4/validation-0"))
    draft = drafted(log(tmp_path / "a", lines))
    assert ["c4/validation-0"] == tomllib.loads(draft)["held_out"]
    assert "Others here: rollout." in prose(draft)


@pytest.mark.parametrize(
    ("name", "is_held_out"),
    [
        ("eval", True),
        ("Valid", True),
        ("validation2", True),
        ("held_out", True),
        ("c4.dev", True),
        ("rollout", False),
        ("devices", False),
        ("held", False),
        ("contest", False),
    ],
)
def test_held_out_streams_are_known_by_their_names(
    name: str, is_held_out: bool, tmp_path: Path
) -> None:
    """Whole words of a name count, in any case."""
    lines = [start(), sample(1, 1), sample(1, 2, stream=name)]

    terms = tomllib.loads(drafted(log(tmp_path / "a", lines)))

    assert ([name] if is_held_out else None) == terms.get("held_out")


def test_overlaps_are_measured_within_an_attempt_and_a_pass(tmp_path: Path) -> None:
    """The next attempt may cut its documents otherwise: that is no overlap by design."""
    lines = [
        start(),
        sample(1, 7, token_start=0, token_end=10, epoch=0),
        sample(2, 7, token_start=9, token_end=20, epoch=0),
        sample(3, 7, token_start=5, token_end=12, epoch=1),
        start(1, origin=(0, 2)),
        sample(3, 7, 1, token_start=15, token_end=25, epoch=0),
    ]
    terms = tomllib.loads(drafted(log(tmp_path / "a", lines)))

    assert 1 == terms["token_overlap"]


FINGERPRINT = {"seed": 7}


def restoring(*kinds: str, told: Any = FINGERPRINT) -> list[Line]:
    """Make a resume that says these things in this order."""
    events = [
        {"kind": kind, "attempt": 1, "rank": 0, "data": {"fingerprint": told}} for kind in kinds
    ]
    return [
        start(fingerprint=FINGERPRINT),
        sample(1),
        start(1, origin=(0, 1), fingerprint=FINGERPRINT),
        *events,
        sample(2, attempt=1),
    ]


@pytest.mark.parametrize(
    ("lines", "is_active", "why"),
    [
        (restoring("restore", "iterator"), True, "Every resume here says so."),
        (restoring("iterator", "restore"), False, "Attempt 1 does not say so."),
        (restoring("iterator"), False, "Attempt 1 does not say so."),
        (restoring("restore", "iterator", told={"seed": 8}), False, "Attempt 1 does not say so."),
        (restoring("restore", "iterator", told=None), False, "Attempt 1 does not say so."),
        (restoring("restore", "iterator", told=[3]), False, "Attempt 1 does not say so."),
        (restoring(), False, "No resumed attempt here says both, with their fingerprints."),
    ],
)
def test_restoring_first_is_promised_where_it_is_seen(
    lines: list[Line], is_active: bool, why: str, tmp_path: Path
) -> None:
    """Both events of every rank, in this order, with the fingerprint of the start."""
    draft = drafted(log(tmp_path / "a", lines))

    assert is_active == tomllib.loads(draft)["fingerprint"].get("restore_first", False)
    assert why in prose(draft)


def test_a_ledger_without_a_record_says_so(tmp_path: Path) -> None:
    """Nothing can be drafted from nothing; the streams that are there are named."""
    empty = log(tmp_path / "a", [start()])
    other = log(tmp_path / "b", [start(), sample(1, stream="eval")])

    for ran, message in (
        (ledger_audit("init", empty, "-o", "-"), "holds no used record"),
        (ledger_audit("init", other, "-o", "-"), "holds no used record"),
        (ledger_audit("init", other, "-o", "-", "--stream", "x y"), "of the stream 'x y'"),
    ):
        assert (ExitCode.USAGE, "") == (ran.code, ran.out)
        assert message in ran.err
    assert "it has eval with --stream" in ledger_audit("init", other).err
    assert ExitCode.UNREADABLE == ledger_audit("init", tmp_path / "no").code


def test_another_stream_has_a_draft_of_its_own(tmp_path: Path) -> None:
    """What is held out is held out of training: for another stream the term stays a comment."""
    lines = [start(), sample(1), sample(1, 8, stream="eval"), sample(1, 8, stream="test")]
    root = log(tmp_path / "a", lines)

    assert ["eval", "test"] == tomllib.loads(drafted(root))["held_out"]
    draft = drafted(root, "--stream", "eval")
    assert "held_out" not in tomllib.loads(draft)
    assert '#held_out = ["test"]' in draft


def test_a_foreign_log_needs_its_columns_named(tmp_path: Path) -> None:
    """--column is that of diff."""
    (tmp_path / "log.csv").write_text("rank,step,slot,idx\n0,1,0,7\n0,2,0,8\n")

    assert ExitCode.UNREADABLE == ledger_audit("init", tmp_path / "log.csv").code
    assert "2 records" in drafted(tmp_path / "log.csv", "--column", "sample_id=idx")


def test_the_file_is_new_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without -o it is contract.toml; whatever exists is never overwritten."""
    monkeypatch.chdir(tmp_path)

    ran = ledger_audit("init", RUN)
    assert (0, "") == (ran.code, ran.err)
    assert ran.out.startswith("Wrote contract.toml from 456 records\n")
    assert ran.out.endswith("; commands that judge in this folder follow it.\n")
    assert ledger_audit("init", RUN, "-o", "x.toml").out.endswith("; --contract names it.\n")
    assert drafted(RUN) == Path("contract.toml").read_text(encoding="utf-8")
    Path("contract.toml").write_text("mine")
    Path("link.toml").symlink_to("nowhere")
    for name in ("contract.toml", "link.toml"):
        ran = ledger_audit("init", RUN, "-o", name)
        assert (ExitCode.USAGE, "") == (ran.code, ran.out)
        assert f"{name}: exists, and nothing is overwritten" in ran.err
        assert "-o FILE" in ran.err
    assert "mine" == Path("contract.toml").read_text()
    ran = ledger_audit("init", RUN, "-o", "no/such/folder.toml")
    assert ExitCode.USAGE == ran.code
    assert "-o: cannot write no/such/folder.toml: No such file or directory" in ran.err


def test_a_full_disk_leaves_no_half_contract(tmp_path: Path) -> None:
    """What cannot be written whole is not there, and the error says why."""
    command = (
        f"ulimit -f 1; {sys.executable} -B -m ledger_audit init {RUN} -o {tmp_path / 'a.toml'}"
    )

    ran = subprocess.run(
        ["bash", "-c", command], check=False, capture_output=True, text=True, cwd=ROOT
    )

    assert (ExitCode.USAGE, "") == (ran.returncode, ran.stdout)
    assert "a.toml: File too large" in ran.stderr
    assert [] == list(tmp_path.iterdir())


def test_a_project_file_that_holds_terms_is_a_contract_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second contract beside it would stop every command; elsewhere it may be written."""
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text("[tool.ledger-audit]\norder = 'step'\n")

    ran = ledger_audit("init", RUN)
    assert ExitCode.USAGE == ran.code
    assert "[tool.ledger-audit] in pyproject.toml holds a contract already" in ran.err
    assert not Path("contract.toml").exists()
    assert 0 == ledger_audit("init", RUN, "-o", "other.toml").code


@example(label="a", source="*", stream="")
@example(label="*", source='"', stream="*")
@given(label=st.text(min_size=1), source=st.text(), stream=st.text())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_nothing_in_a_ledger_writes_terms(
    label: str, source: str, stream: str, tmp_path: Path
) -> None:
    """Labels, sources and streams of any text stay inside their quotes and comments."""
    held_out = f"{stream} eval"
    lines = [
        start(label),
        sample(1, 1, label, source=source),
        sample(1, 2, label, source="web"),
        sample(1, 3, label, stream=held_out),
        sample(1, 4, label, stream=source),
    ]
    draft = drafted(log(tmp_path / "a", lines))

    found = read(tmp_path, draft)
    assert held_out in found.held_out
    assert {} == found.repeats
    assert all(one.isprintable() for line in draft.split("\n") for one in line)
    named = {source, "web", "*"} - {""}
    assert named == read(tmp_path, with_all_terms(draft)).repeats.keys()


@given(st.text())
def test_text_is_written_as_toml_reads_it(value: str) -> None:
    """Quotes, backslashes, control characters and marks of direction are escaped."""
    assert {"a": value} == tomllib.loads(f"a = {text(value)}")
    assert "\n" not in text(value)


@given(st.lists(st.text(), max_size=40))
def test_lists_are_written_as_toml_reads_them(values: list[str]) -> None:
    """On one line or on several, with whatever stands in them."""
    assert {"a": values} == tomllib.loads(f"a = {many(map(text, values))}")


@given(st.text())
def test_a_comment_is_nothing_but_a_comment(prose: str) -> None:
    """Whatever stands in it, it has no term."""
    lines = comment(prose)

    assert {} == tomllib.loads("\n".join(lines))
    assert not any(TERM.match(line) for line in lines)


def test_half_a_surrogate_pair_can_be_written() -> None:
    """TOML has no way to write it: a question mark stands for it."""
    assert {"a": "?"} == tomllib.loads("a = " + text("\ud800"))
    assert {} == tomllib.loads("\n".join(comment("\ud800")))
    assert "#a = [\n#  1,\n#]" == aside("a = [\n  1,\n]")


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_native_ledger_has_the_same_draft(is_sealed: bool, tmp_path: Path) -> None:
    """Sealed or open, Parquet or Arrow: the shape is the same."""
    for name in (
        "traps/eval-rows-in-the-same-ledger",
        "zoo/megatron-correct",
        "traps/sampled-rank-changed-places",
    ):
        folder = FIXTURES / name / "run"
        root = write_ledger(read_lines(folder), tmp_path / Path(name).name, sealed=is_sealed)

        theirs, ours = drafted(folder), drafted(root)

        assert terms(theirs) == terms(ours)


def terms(draft: str) -> str:
    """Give a draft without its heading, which names the ledger."""
    return draft.split("\n\n", 1)[1]


def table(steps: int, **columns: Any) -> pa.Table:
    """Give one record a step, and columns that have the same value in all."""
    n = range(steps)
    told = {
        "rank": pa.array([0] * steps, pa.int32()),
        "step": pa.array([step + 1 for step in n], pa.int64()),
        "slot": pa.array([0] * steps, pa.int32()),
        "sample_id": pa.array(n, pa.int64()),
        "seq": pa.array(n, pa.int64()),
        **{name: pa.array([value] * steps) for name, value in columns.items()},
    }
    return pa.table(told).replace_schema_metadata(FORMAT)


def sealed(root: Path, found: pa.Table, name: str, size: int) -> Path:
    """Write one sealed segment of attempt 0."""
    path = root / "attempt=0" / f"samples-{name}-000000.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(found, path, row_group_size=size, compression="none", use_dictionary=False)
    return path


def test_only_the_newest_steps_are_read(tmp_path: Path) -> None:
    """What lies before them may be rotten: footers tell its streams and its steps."""
    path = sealed(tmp_path, table(400, source="web"), "a", STEPS)
    rot(path, range(19))
    rot(sealed(tmp_path, table(100, stream="eval"), "b", 50), range(2))

    draft = drafted(tmp_path)

    assert f"# Looked at: {STEPS} records of steps 381 to 400." in draft
    assert ["eval"] == tomllib.loads(draft)["held_out"]


def test_streams_and_stages_are_listed_from_footers_or_rows(tmp_path: Path) -> None:
    """Mixed row groups are read, and files without the columns are training that was used."""
    mixed = table(6).append_column("stream", pa.array(["eval", None, "test", None, None, None]))
    mixed = mixed.append_column("stage", pa.array([None, "read", "used", None, None, None]))
    sealed(tmp_path, mixed, "a", 3)
    expected = {("eval", None), (None, "read"), ("test", "used"), (None, None)}
    assert expected == open_ledger([tmp_path]).streams()

    sealed(tmp_path, table(6, stream="dev", stage="queued"), "b", 3)
    sealed(tmp_path, table(6), "c", 3)
    expected |= {("dev", "queued")}
    assert expected == open_ledger([tmp_path]).streams()
    assert frozenset() == open_ledger([log(tmp_path / "d", [start()])]).streams()


def test_the_ranks_of_a_large_job_are_listed(tmp_path: Path) -> None:
    """A list of a thousand ranks is written in lines, and read back."""
    ranks = list(range(0, 8000, 8))
    root = log(tmp_path / "a", [start(world_size=8000, logged_ranks=ranks), sample(1)])

    text = drafted(root)
    hidden, commented = "#sampled = [", text.index("#sampled = [")
    end = text.index("#]", commented) + 2
    shown = text[commented:end].replace("#", "")
    found = read(tmp_path, text[:commented] + shown + text[end:])

    assert hidden in text
    assert tuple(ranks) == found.ranks.sampled


def ran_with(*arguments: str) -> Ran:
    """Run init on a clean run."""
    return ledger_audit("init", RUN, *arguments)


def test_standard_output_is_toml_in_utf8() -> None:
    """With -o - nothing but the contract is written, and no file is made."""
    ran = ran_with("-o", "-")

    assert (0, "") == (ran.code, ran.err)
    assert "exactly-once" == tomllib.loads(ran.out)["promise"]
    assert not Path("-").exists()
