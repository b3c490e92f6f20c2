"""A contract's file: what may stand in it, where it is found, and how mistakes are told."""

import os
import re
import subprocess
import sys
import threading
import tomllib
from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from conftest import FIXTURES, ROOT
from contracts import terms_of
from hypothesis import given, settings
from hypothesis import strategies as st
from running import ledger_audit

from ledger_audit.cli.options import under_contract
from ledger_audit.cli.output import complain
from ledger_audit.continuity.contract import (
    FORGIVABLE,
    Allowance,
    Bound,
    Contract,
    Fingerprints,
    IdList,
    Minimum,
    Ranks,
)
from ledger_audit.continuity.limit_codes import LIMITS
from ledger_audit.contract_file import MOST_BYTES, MOST_MISTAKES, find_contract, read_contract
from ledger_audit.contract_file.checking import checked
from ledger_audit.contract_file.toml_text import text
from ledger_audit.errors import ExitCode, UsageError

PAGE = (ROOT / "docs" / "contract.md").read_text()
BLOCK = re.compile(r"(?:<!-- ([a-z .]+) -->\n)?```toml\n(.*?)```", re.DOTALL)
BLOCKS = BLOCK.findall(PAGE)

RIGHT = {
    "promise": '"bounded-replay"',
    "bounded_replay": "{ samples = 3 }",
    "order": '"step"',
    "placement": '"kept"',
    "token_overlap": "0",
    "shuffle_buffer": "7",
    "repeats": '{ "*" = 2, "a b" = 3 }',
    "held_out": '["eval"]',
    "ranks": "{ may_change = false, sampled = [0, 2] }",
    "fingerprint": '{ must_match = ["*", "my own key"], restore_first = true }',
    "minimum": "{ reference_steps = 1 }",
}


def block(mark: str) -> str:
    """Give the example of the page that is marked so."""
    return next(body for marked, body in BLOCKS if marked == mark)


def with_lists(folder: Path) -> Path:
    """Put the lists of ids that the examples name into a folder."""
    (folder / "lists").mkdir()
    for name in re.findall(r'file = "(.*?)"', PAGE):
        (folder / name).write_text("17\n")
    return folder


def written(folder: Path, terms: str, name: str = "contract.toml") -> Path:
    """Write a file of terms."""
    (folder / name).write_text(terms)
    return folder / name


def mistakes(folder: Path, terms: str) -> list[str]:
    """Read terms that are wrong, and give each mistake without the file's name."""
    path = written(folder, terms)
    with pytest.raises(UsageError) as caught:
        read_contract(path)
    assert ExitCode.USAGE == caught.value.exit_code
    lines = str(caught.value).split("\n")
    if len(lines) > 1:
        assert f"{path}: {len(lines) - 1} mistakes" == lines.pop(0)
    assert all(line.startswith(f"{path}: ") for line in lines)
    return [line.removeprefix(f"{path}: ") for line in lines]


def test_the_example_with_every_term_is_what_it_says(tmp_path: Path) -> None:
    """The page's example is read term by term; no term is missing in it."""
    path = written(with_lists(tmp_path), block("every term"))

    expected = Contract(
        promise="bounded-replay",
        bounded_replay=Bound(samples=512, tokens=2_000_000, steps=2),
        order="step",
        placement="kept",
        token_overlap=1,
        shuffle_buffer=1000,
        repeats={"books": 3, "*": 1},
        held_out=("eval", "holdout"),
        forbid=(IdList(tmp_path / "lists/excluded.txt", name="withdrawn documents", source="web"),),
        only=(IdList(tmp_path / "lists/manifest.parquet", column="doc"),),
        ranks=Ranks(may_change=False, sampled=(0, 64, 128)),
        fingerprint=Fingerprints(must_match=("dataset", "seed", "packing"), restore_first=True),
        minimum=Minimum(reference_steps=10, resumed_steps=5),
        allow=(
            Allowance("shard 17 was unreadable, ticket 4711", finding="skipped", at_most=64),
            Allowance("the job ends inside its first epoch", limit="no-later-epoch"),
            Allowance("torch 2.8 was checked to shuffle as 2.7 does", change="versions.torch"),
        ),
        file=str(path),
    )
    assert expected == read_contract(path)
    assert list(terms_of()) == [name for name in terms_of() if told(name)]


def told(name: str) -> bool:
    """Tell whether the page's example uses a term, and the page explains it."""
    is_used = re.search(rf"^\[*{name}\b", block("every term"), re.MULTILINE) is not None
    return is_used and f"`{name}`" in PAGE


@pytest.mark.parametrize(
    ("mark", "body"), BLOCKS, ids=[f"{mark or body.split()[0]}" for mark, body in BLOCKS]
)
def test_every_example_of_the_page_is_read(mark: str, body: str, tmp_path: Path) -> None:
    """Every TOML block of the page is a contract, but for the one that shows mistakes."""
    name = mark if mark == "pyproject.toml" else "contract.toml"
    path = written(with_lists(tmp_path), body, name)
    if mark == "mistakes":
        with pytest.raises(UsageError):
            read_contract(path)
    else:
        assert Contract(file=str(path)) != read_contract(path)


def test_the_mistakes_of_the_page_are_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page says about its example of mistakes is what the program says."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, block("mistakes"))
    (expected,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)

    with pytest.raises(UsageError) as caught:
        read_contract(Path("contract.toml"))

    assert expected == str(caught.value).replace("\n", "\n  ") + "\n"


@pytest.mark.parametrize("name", RIGHT)
def test_each_term_is_read_alone(name: str, tmp_path: Path) -> None:
    """A term needs no other, but for a bound of replay and its promise."""
    terms = {name: RIGHT[name]}
    if name in ("promise", "bounded_replay"):
        terms = {one: RIGHT[one] for one in ("promise", "bounded_replay")}
    lines = "\n".join(f"{key} = {value}" for key, value in terms.items())

    found = read_contract(written(tmp_path, lines))

    default = Contract()
    changed = [
        one.name
        for one in fields(Contract)
        if getattr(found, one.name) != getattr(default, one.name)
    ]
    assert [*terms, "file"] == changed


@pytest.mark.parametrize(
    "terms",
    [
        "",
        "# nothing\n",
        "[bounded_replay]\n[repeats]\n[ranks]\n[fingerprint]\n[minimum]\n",
        "forbid = []\nonly = []\nallow = []\nheld_out = []\n",
        "\ufeffpromise = 'exactly-once'\r\n[ranks]\r\n",
    ],
    ids=["nothing", "a comment", "tables", "lists", "of an editor"],
)
def test_what_says_nothing_is_the_default(terms: str, tmp_path: Path) -> None:
    """Empty files, tables and lists promise what no contract promises."""
    path = tmp_path / "contract.toml"
    path.write_bytes(terms.encode())

    assert Contract(file=str(path)) == read_contract(path)


PROMISES = "'exactly-once', 'bounded-replay', 'at-least-once', 'resampled'"
UNBOUNDED = (
    "bounded_replay: is missing: promise 'bounded-replay' needs at least one of samples, tokens, "
    "steps"
)
TERMS = (
    "promise, bounded_replay, order, placement, token_overlap, shuffle_buffer, repeats, held_out, "
    "forbid, only, ranks, fingerprint, minimum, allow"
)

WRONG = [
    (
        'promise = "once"',
        f"promise: is 'once', not one of {PROMISES}",
    ),
    (
        "promise = 1",
        f"promise: is 1, not one of {PROMISES}",
    ),
    ('order = "any"', "order: is 'any', not one of 'step', 'relative', 'none'"),
    ("placement = true", "placement: is true, not one of 'free', 'kept'"),
    ("shuffle_buffer = -1", "shuffle_buffer: is -1, not an integer from 0"),
    ("shuffle_buffer = 3.0", "shuffle_buffer: is 3.0, not an integer from 0"),
    ("shuffle_buffer = true", "shuffle_buffer: is true, not an integer from 0"),
    ('token_overlap = "1"', "token_overlap: is '1', not an integer from 0"),
    ("token_overlap = nan", "token_overlap: is nan, not an integer from 0"),
    ("token_overlap = -inf", "token_overlap: is -inf, not an integer from 0"),
    ("token_overlap = 2026-01-31", "token_overlap: is 2026-01-31, not an integer from 0"),
    ("token_overlap = 07:32:00", "token_overlap: is 07:32:00, not an integer from 0"),
    (
        "token_overlap = 9223372036854775808",
        "token_overlap: is 9223372036854775808, not an integer from 0 to 9223372036854775807",
    ),
    ("token_overlap = []", "token_overlap: is a list, not an integer from 0"),
    ("token_overlap = [[[[[[[[1]]]]]]]]", "token_overlap: is a list, not an integer from 0"),
    ('held_out = "eval"', "held_out: is 'eval', not a list of texts"),
    ('held_out = ["eval", ""]', "held_out[1]: is '', not text of at least one character"),
    (
        "held_out = [1979-05-27T07:32:00Z]",
        "held_out[0]: is 1979-05-27T07:32:00+00:00, not text of at least one character",
    ),
    ("repeats = 2", "repeats: is 2, not a table"),
    ("[repeats]\nweb = 0", "repeats.web: is 0, not an integer from 1"),
    ("[repeats]\n'a.b' = 1.5", 'repeats."a.b": is 1.5, not an integer from 1'),
    ("[repeats]\n'' = 1", 'repeats."": is a name of no characters'),
    ("[repeats]\nweb = { books = 2 }", "repeats.web: is a table, not an integer from 1"),
    ("ranks = [1]", "ranks: is a list, not a table"),
    ("[ranks]\nmay_change = 0", "ranks.may_change: is 0, not true or false"),
    ("[ranks]\nsampled = 3", "ranks.sampled: is 3, not a list of integers"),
    ("[ranks]\nsampled = [0, true]", "ranks.sampled[1]: is true, not an integer from 0"),
    ("[ranks]\nsampled = [0, 1, 0, 0]", "ranks.sampled: names rank 0 more than once"),
    ("[ranks]\nsampled = []", "ranks.sampled: names no rank: leave it out where all ranks log"),
    ("[minimum]\nresumed_steps = 0", "minimum.resumed_steps: is 0, not an integer from 1"),
    (
        '[fingerprint]\nmust_match = ["seed", 1]',
        "fingerprint.must_match[1]: is 1, not text of at least one character",
    ),
    (
        'promise = "bounded-replay"',
        UNBOUNDED,
    ),
    (
        'promise = "bounded-replay"\n[bounded_replay]',
        UNBOUNDED,
    ),
    (
        "[bounded_replay]\nsteps = 1",
        "bounded_replay: belongs to promise 'bounded-replay', and the promise is 'exactly-once'",
    ),
    (
        'promise = "resampled"\norder = "step"',
        "order: is 'step', and what is resampled has no order: leave it out",
    ),
    (
        'promise = "resampled"\nplacement = "kept"',
        "placement: is 'kept', and what is resampled has no place to keep",
    ),
    ("[[forbid]]", "forbid[0].file: is missing"),
    ("[forbid]\nfile = 'a'", "forbid: is a table, not a list of tables, each under [[forbid]]"),
    ("only = ['a.txt']", "only[0]: is 'a.txt', not a table"),
    ("[[only]]\nfile = 3", "only[0].file: is 3, not text"),
    (
        "[[allow]]\nreason = ''\nchange = 'seed'",
        "allow[0].reason: is '', not text of at least one character",
    ),
    ("[[allow]]\nchange = 'seed'", "allow[0].reason: is missing"),
    (
        "[[allow]]\nreason = 'so'",
        "allow[0]: allows nothing: give exactly one of finding, limit, change",
    ),
    (
        "[[allow]]\nreason = 'so'\nlimit = 'undecided'\nchange = 'seed'",
        "allow[0]: has limit and change: give exactly one of finding, limit, change",
    ),
    (
        "[[allow]]\nreason = 'so'\nfinding = 'skipped'",
        "allow[0].at_most: is missing: a finding is allowed up to a number",
    ),
    (
        "[[allow]]\nreason = 'so'\nlimit = 'undecided'\nat_most = 3",
        "allow[0].at_most: goes with finding, and there is none",
    ),
    (
        "[[allow]]\nreason = 'so'\nfinding = 'skiped'\nat_most = 3",
        "allow[0].finding: is 'skiped', which is no outcome that breaks anything; "
        "skipped may be meant",
    ),
    (
        "[[allow]]\nreason = 'so'\nlimit = 'no-epoch'",
        "allow[0].limit: is 'no-epoch', which is no limit; no-later-epoch may be meant",
    ),
    (
        "[[allow]]\nreason = 'so'\nchange = 'seed'\n[[allow]]\nreason = 'no'\nchange = 'seed'",
        "allow[1].change: is 'seed', which allow[0] allows already",
    ),
    ("promis = 'exactly-once'", "promis: is no term here; promise may be meant"),
    ("held-out = ['eval']", "held-out: is no term here; held_out may be meant"),
    ("[ranks]\nsample = [1]", "ranks.sample: is no term here; sampled may be meant"),
    ("may_change = true", "may_change: is no term here; it stands at ranks.may_change"),
    (
        "[ranks]\norder = 'step'",
        "ranks.order: is no term here; it stands at order, before the first table",
    ),
    ("file = 'contract.toml'", "file: is no term here; it stands at forbid.file and only.file"),
    ("[minimum]\nx = 1", "minimum.x: is no term here; there are reference_steps, resumed_steps"),
    (
        "'\\u001b[31m' = 1".replace("'", '"'),
        '"\x1b[31m": is no term here; there are ' + TERMS,
    ),
]


@pytest.mark.parametrize(("terms", "line"), WRONG, ids=[terms for terms, _ in WRONG])
def test_a_mistake_is_one_line_with_its_place_value_and_remedy(
    terms: str, line: str, tmp_path: Path
) -> None:
    """Each mistake names the field, what stands there, and what may."""
    assert [line] == mistakes(tmp_path, terms)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_terms(tmp_path: Path) -> None:
    """Mistakes of types and between terms come together; unknown terms come last."""
    terms = """
        promis = "x"
        order = 3
        promise = "bounded-replay"
        [[allow]]
        finding = "replayed"
        at_most = "3"
        [[allow]]
        [[only]]
        file = "no such file"
        [bounded_replay]
        samples = -1
    """
    expected = [
        "bounded_replay.samples",
        "order",
        "only[0].file",
        "allow[0].reason",
        "allow[0].at_most",
        "allow[1].reason",
        "allow[1]",
        "promis",
    ]
    assert expected == [line.split(": ")[0] for line in mistakes(tmp_path, terms)]


def test_more_mistakes_than_anyone_reads_are_counted(tmp_path: Path) -> None:
    """A list of a thousand wrong ranks does not fill the screen."""
    path = written(tmp_path, f"[ranks]\nsampled = {[-1 - one for one in range(1000)]}")

    with pytest.raises(UsageError) as caught:
        read_contract(path)

    assert f"{path}: 1,000 mistakes" == caught.value.message
    assert MOST_MISTAKES + 1 == len(caught.value.details)
    assert f"and {1000 - MOST_MISTAKES} more" == caught.value.details[-1]


SCALARS = (
    st.none().map(lambda _: float("nan"))
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.dates()
    | st.sampled_from(["step", "resampled", "bounded-replay", "skipped", "undecided", "kept", "*"])
)
NAMES = st.sampled_from([*dict.fromkeys(terms_of())]) | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)  # the first one loads the checker
@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_whatever_stands_in_a_file_is_read_or_told_in_our_words(terms: dict[str, Any]) -> None:
    """No value of TOML ends in a crash, nor in the words of the library that checks it."""
    contract, lines = checked(terms, Path())

    assert contract is not None or lines
    for line in lines:
        assert re.search(r": (is|has|names|goes|belongs|allows|give) ?", line), line
        for theirs in ("should", "Input", "pydantic", "https://", "_type", "Unexpected"):
            assert theirs not in re.sub(r"'.*?'|\".*?\"", "", line)


@pytest.mark.parametrize("code", FORGIVABLE)
def test_every_outcome_that_can_break_a_clause_can_be_allowed(code: str, tmp_path: Path) -> None:
    """An allowance up to a number, with its reason."""
    terms = f'[[allow]]\nfinding = "{code}"\nat_most = 0\nreason = "so"'
    assert (Allowance("so", finding=code, at_most=0),) == read_contract(
        written(tmp_path, terms)
    ).allow


@pytest.mark.parametrize("code", LIMITS)
def test_every_limit_can_be_allowed(code: str, tmp_path: Path) -> None:
    """So that whatever stands in a report can be answered in the contract."""
    terms = f'[[allow]]\nlimit = "{code}"\nreason = "so"'
    assert {code: "so"} == read_contract(written(tmp_path, terms)).waived


@settings(deadline=None)
@given(st.text(min_size=1))
def test_a_reason_holds_anything(reason: str) -> None:
    """It is told as it was written: making it fit a page is the reporters' work."""
    terms = tomllib.loads(f'[[allow]]\nreason = {text(reason)}\nchange = "seed"')
    contract, _ = checked(terms, Path())

    assert contract is not None
    assert reason == contract.allow[0].reason


def test_lists_are_found_from_the_contracts_folder(tmp_path: Path) -> None:
    """A relative path starts there, an absolute one is itself, wherever the command runs."""
    folder = tmp_path / "configs"
    folder.mkdir()
    (tmp_path / "a.txt").write_text("1\n")
    terms = f'[[forbid]]\nfile = "../a.txt"\n[[only]]\nfile = {text(str(tmp_path / "a.txt"))}'

    found = read_contract(written(folder, terms))

    assert folder / "../a.txt" == found.forbid[0].file
    assert tmp_path / "a.txt" == found.only[0].file


@pytest.mark.parametrize(
    ("file", "what"),
    [
        ("no.txt", "and {folder}/no.txt does not exist"),
        (".", "which is no file"),
        ("a.txt/b", "and {folder}/a.txt/b does not exist"),
        ("x" * 300, "which cannot be read: File name too long"),
    ],
    ids=["missing", "a folder", "below a file", "too long"],
)
def test_a_list_that_is_not_there_is_a_mistake(file: str, what: str, tmp_path: Path) -> None:
    """A list that would forbid nothing, because it is not there, is no contract."""
    (tmp_path / "a.txt").write_text("1\n")

    (line,) = mistakes(tmp_path, f'[[forbid]]\nfile = "{file}"')

    assert f"forbid[0].file: is {file!r}, {what.format(folder=tmp_path)}" == line


@pytest.mark.parametrize(
    ("terms", "what"),
    [
        ("promise = ", "line 1, column 11: no TOML: "),
        ("\n\npromise exactly", "line 3, column 9: no TOML: "),
        ('a = 1\nb = "', "line 2, column 6: no TOML: "),
        ("held_out = [\n  'a',\n", "line 3, column 1: no TOML: "),
        ("[ranks]\n[ranks]", "line 2, column 7: no TOML: "),
        ("a = 1\na = 2", "line 2, column 6: no TOML: "),
        ("a = " + "[" * 5000, "is nested too deep, or holds a number that is too long"),
        ("a = " + "1" * 5000, "is nested too deep, or holds a number that is too long"),
    ],
    ids=["value", "key", "string", "array", "table", "twice", "deep", "long"],
)
def test_what_is_no_toml_is_told_with_its_line_and_column(
    terms: str, what: str, tmp_path: Path
) -> None:
    """An editor can go there."""
    path = written(tmp_path, terms)

    with pytest.raises(UsageError) as caught:
        read_contract(path)

    assert str(caught.value).startswith(f"{path}: {what}")


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    """Bytes that are no UTF-8, files without an end, folders and nothing at all."""
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'promise = "exactly-once"\n# caf\xe9\n')
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * (MOST_BYTES + 1))
    expected = {
        latin: "line 2: is not UTF-8",
        large: "is longer than 16 MiB",
        Path("/dev/zero"): "is longer than 16 MiB",
        tmp_path: "cannot be read: Is a directory",
        tmp_path / "no.toml": "cannot be read: No such file or directory",
        Path("a\0b"): "cannot be read: it is no path",
    }
    for path, what in expected.items():
        with pytest.raises(UsageError) as caught:
            read_contract(path)
        assert f"{path}: {what}" == str(caught.value)


def test_a_contract_may_come_through_a_pipe(tmp_path: Path) -> None:
    """As a shell gives it with `--contract <(...)`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_text, args=("shuffle_buffer = 5",), daemon=True).start()

    assert 5 == read_contract(pipe).shuffle_buffer


def test_a_project_file_has_its_terms_in_a_table(tmp_path: Path) -> None:
    """Mistakes are told with their whole place; a file without the table is no contract."""
    path = written(tmp_path, "[tool.ledger-audit]\nshuffle_buffer = 5", "pyproject.toml")
    assert Contract(shuffle_buffer=5, file=str(path)) == read_contract(path)

    for terms, line in (
        ("[tool.ledger-audit]\norder = 1", "tool.ledger-audit.order: is 1, not one of"),
        ("tool.ledger-audit = 3", "tool.ledger-audit: is 3, not a table"),
        ("[[tool.ledger-audit]]\norder = 'step'", "tool.ledger-audit: is a list, not a table"),
        ("[tool]\nx = 1", "has no table [tool.ledger-audit]"),
        ("tool = 3", "has no table [tool.ledger-audit]"),
        ("order = 'step'", "has no table [tool.ledger-audit]"),
    ):
        written(tmp_path, terms, "pyproject.toml")
        with pytest.raises(UsageError) as caught:
            read_contract(path)
        assert str(caught.value).startswith(f"{path}: {line}")


OWN, PROJECT = "contract.toml", "pyproject.toml"
TABLE = "[tool.ledger-audit]\norder = 'step'\n"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, None),
        ({OWN: ""}, OWN),
        ({OWN: "promise = "}, OWN),
        ({PROJECT: TABLE}, PROJECT),
        ({PROJECT: "[tool.ledger-audit]"}, PROJECT),
        ({PROJECT: "[tool.other]"}, None),
        ({PROJECT: "tool = 1"}, None),
        ({OWN: "", PROJECT: "[tool.other]"}, OWN),
        ({OWN: "", PROJECT: "[tool.ledger-audit]"}, OWN),
        ({PROJECT: "[project\nname = 'ledger-audit'"}, None),
        ({PROJECT: "dependencies = [\n'ledger-audit>=1',\n"}, None),
        ({OWN: "", PROJECT: "[project\n"}, OWN),
    ],
    ids=str,
)
def test_the_contract_of_a_folder(
    files: dict[str, str], found: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`contract.toml`, else the table of `pyproject.toml`; what is broken of others is theirs."""
    monkeypatch.chdir(tmp_path)
    for name, terms in files.items():
        written(tmp_path, terms, name)

    assert (None if found is None else Path(found)) == find_contract()


def test_a_project_file_in_bytes_is_no_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a folder of that name nor bytes that are no text stop a command."""
    monkeypatch.chdir(tmp_path)
    Path(PROJECT).mkdir()
    assert find_contract() is None
    Path(PROJECT).rmdir()
    Path(PROJECT).write_bytes(b"\xff" + TABLE.encode())
    assert find_contract() is None


def test_two_contracts_in_one_folder_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of the two holds is not guessed: both are named."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "", OWN)
    written(tmp_path, TABLE, PROJECT)

    with pytest.raises(UsageError) as caught:
        find_contract()

    assert "contract.toml and [tool.ledger-audit] in pyproject.toml both hold terms" == str(
        caught.value
    )


@pytest.mark.parametrize(
    "line",
    [
        "[tool.ledger-audit]",
        "[ tool . 'ledger-audit' ]",
        "tool.ledger-audit.order = 1",
        "[[tool.ledger-audit.allow]]",
    ],
)
def test_a_broken_project_file_that_names_the_table_is_told(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terms that were written down do not vanish because of a slip of the pen."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, f"{line}\norder = \n", PROJECT)

    with pytest.raises(UsageError, match=r"pyproject\.toml: line 2, column 9: no TOML"):
        find_contract()


@click.command()
@under_contract
def judging(contract: Contract) -> None:
    """Stand for a command that judges."""
    click.echo(f"{contract.order} {contract.file}")


def run(*arguments: str) -> tuple[str, BaseException | None]:
    """Run the command that stands for others."""
    ran = CliRunner().invoke(judging, arguments)
    return ran.output.strip(), ran.exception


def test_the_option_names_finds_or_leaves_out_a_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--contract reads a file, --no-contract none, and without both the folder's is found."""
    monkeypatch.chdir(tmp_path)
    assert ("None None", None) == run()
    written(tmp_path, "order = 'none'", OWN)
    other = written(tmp_path, "order = 'step'", "other.toml")

    assert ("none contract.toml", None) == run()
    assert ("step other.toml", None) == run("--contract", "other.toml")
    assert (f"step {other}", None) == run("--contract", str(other))
    assert ("None None", None) == run("--no-contract")
    written(tmp_path, TABLE, PROJECT)
    assert isinstance(run()[1], UsageError)
    assert ("none contract.toml", None) == run("--contract", OWN)
    assert ("step pyproject.toml", None) == run("--contract", PROJECT)
    assert ("None None", None) == run("--no-contract")
    for both in (("--contract", OWN, "--no-contract"), ("--no-contract", "--contract", OWN)):
        assert "it does not go with --no-contract" in run(*both)[0]
    assert "--no-contract" in run("--help")[0]


RUN = FIXTURES / "zoo" / "torch-ddp-correct"


def test_a_judging_command_stops_at_a_wrong_contract(tmp_path: Path) -> None:
    """Exit code 2, nothing on standard output, and each mistake on a line of its own."""
    path = written(tmp_path, "order = 'any'\n[ranks]\nsampled = 3\n")

    for command in (("diff", RUN / "run"), ("gate", RUN / "control", RUN / "run")):
        ran = ledger_audit(*command, "--contract", path)
        assert (ExitCode.USAGE, "") == (ran.code, ran.out)
        assert [
            f"ledger-audit: {path}: 2 mistakes",
            f"  {path}: order: is 'any', not one of 'step', 'relative', 'none'",
            f"  {path}: ranks.sampled: is 3, not a list of integers",
            "  try: docs/contract.md describes every term; `ledger-audit init LEDGER -o -` writes "
            "them all",
        ] == ran.err.splitlines()


def test_flags_go_before_the_file_and_the_file_before_the_default(tmp_path: Path) -> None:
    """The report says which terms held, and where they stand."""
    path = written(tmp_path, "order = 'none'\n")
    run = ("diff", RUN / "run", "--format", "json")

    told = [
        ledger_audit(*run, *flags).report["contract"]
        for flags in ((), ("--contract", path), ("--contract", path, "--order", "step"))
    ]

    assert [("relative", None), ("none", str(path)), ("step", str(path))] == [
        (one["order"], one["file"]) for one in told
    ]


def test_mistakes_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each stands on its own line, and names from the file cannot open another."""
    path = written(tmp_path, '"\\u001b[31m\\nledger-audit: fine" = 1\norder = "\\u202e"\n')

    with pytest.raises(UsageError) as caught:
        read_contract(path)
    complain(caught.value.message, caught.value.hint, caught.value.details)

    lines = capsys.readouterr().err.splitlines()
    assert 4 == len(lines)
    assert all(one.isprintable() for line in lines for one in line)
    assert lines[2].startswith(f'  {path}: "\\x1b[31m\\nledger-audit: fine": is no term here')


def test_a_contract_without_limits_needs_no_engine(tmp_path: Path) -> None:
    """Reading terms is quick: the engine is loaded only where a limit's code is looked up."""
    path = written(tmp_path, "order = 'step'\n[[allow]]\nreason = 'so'\nchange = 'seed'")
    code = (
        "import sys; from pathlib import Path; import ledger_audit.contract_file as one; "
        "assert 'pydantic' not in sys.modules; "
        f"one.read_contract(Path({str(path)!r})); "
        "print(*sorted({'polars', 'pyarrow'} & sys.modules.keys()))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert "" == ran.stdout.strip()


def test_a_date_is_shown_as_it_is_written(tmp_path: Path) -> None:
    """A value that no other format has is told as TOML has it."""
    contract, lines = checked({"order": date(2026, 1, 31)}, tmp_path)

    assert contract is None
    assert ("order: is 2026-01-31, not one of 'step', 'relative', 'none'",) == lines
