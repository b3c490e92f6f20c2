"""Progress is told late, on standard error, to people alone; an interruption leaves nothing."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import FIXTURES

RUN = FIXTURES / "zoo" / "torch-ddp-correct" / "run"


def _said(*arguments: str | Path, **variables: str) -> tuple[str, str]:
    """Run with a terminal as standard error: what it showed there, and standard output."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "ledger_audit", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", **variables},
    )
    os.close(theirs)
    assert child.stdout is not None
    told = child.stdout.read().decode()
    child.wait()
    child.stdout.close()
    said = b""
    while True:
        try:
            said += os.read(ours, 65536)
        except OSError:
            break
    os.close(ours)
    return said.decode(), told


def test_what_takes_longer_than_a_second_says_what_it_does() -> None:
    """Waiting two seconds in vain shows what is awaited, and the report stays clean."""
    said, told = _said("diff", RUN, "--wait", "99", "--timeout", "2s")

    assert "18 of 99 whole resumed steps" in said
    assert "whole resumed steps" not in told
    assert said.rstrip().endswith("\x1b[2K") or "\x1b[?25h" in said  # the line is taken away


def test_what_is_quick_says_nothing() -> None:
    """No flicker for what is done at once."""
    said, told = _said("diff", RUN)

    assert "" == said
    assert told.startswith("CONTINUOUS")


def test_a_pipe_and_a_dumb_terminal_are_told_nothing() -> None:
    """A log file is no place for a spinner."""
    said, _ = _said("diff", RUN, "--wait", "99", "--timeout", "1.5s", TERM="dumb")
    piped = subprocess.run(
        [sys.executable, "-m", "ledger_audit", "diff", RUN, "--wait", "99", "--timeout", "1.5s"],
        capture_output=True,
        check=False,
    )

    assert ("", b"") == (said, piped.stderr)


@pytest.mark.parametrize("report", ["terminal", "json"])
def test_an_interruption_leaves_nothing_half_written(tmp_path: Path, report: str) -> None:
    """Control-C while it waits: code 130, no report, no temporary file."""
    child = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ledger_audit",
            "diff",
            RUN,
            "--wait",
            "99",
            "--timeout",
            "60s",
            "--report",
            f"{report}={tmp_path / 'report'}",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(1.5)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()

    assert (130, b"") == (child.returncode, out)
    assert b"Traceback" not in err
    assert [] == list(tmp_path.iterdir())


COMPLETIONS = [
    (["ledger-audit", "di"], "diff"),
    (["ledger-audit", "diff", "--ti"], "--timeout"),
    (["ledger-audit", "diff", "--order", "re"], "relative"),
    (["ledger-audit", "diff", "--allow-unproven", "rank"], "rank-missing"),
]


@pytest.mark.parametrize(("words", "expected"), COMPLETIONS, ids=str)
def test_a_shell_completes_commands_options_and_words(words: list[str], expected: str) -> None:
    """The script that bash is given completes what was begun."""
    folder = Path(sys.executable).parent
    typed = " ".join(f"'{word}'" for word in words)
    script = (
        'eval "$(_LEDGER_AUDIT_COMPLETE=bash_source ledger-audit)"; '
        f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; "
        'COMPREPLY=(); _ledger_audit_completion ledger-audit; echo "${COMPREPLY[@]}"'
    )
    told = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
    ).stdout

    assert expected in told.split()
