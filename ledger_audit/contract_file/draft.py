"""
Writes a contract that says what a job already does: every term, with what it means and why.

Terms that a ledger settles are active. The others stand behind a `#` without a blank, so that
taking it away makes them terms, and prose stands behind a `#` and a blank.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ledger_audit.contract_file.toml_text import aside, comment, many, text
from ledger_audit.printable import counted, quoted

if TYPE_CHECKING:
    from ledger_audit.continuity.lineage import Attempt
    from ledger_audit.continuity.shape import Shape

MOST = 50
"""Attempts, streams and sources that are listed; the rest is counted."""

_SAID = {"token_start": "token spans"}
"""Columns by another name."""


def draft(shape: "Shape", ledger: str) -> str:
    """
    Write the contract of a ledger.

    Args:
        shape: what the ledger looks like.
        ledger: its name, for the heading.
    """
    sections = (
        _heading(shape, ledger),
        _promise(shape),
        _order(shape),
        _tokens(shape),
        _buffer(shape),
        _held_out(shape),
        _bounds(shape),
        _repeats(shape),
        _ranks(shape),
        _fingerprint(shape),
        _minimum(),
        _lists(),
        _allow(),
    )
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def _heading(shape: "Shape", ledger: str) -> list[str]:
    from ledger_audit.continuity.shape import COLUMNS  # noqa: PLC0415  # loads the engine

    logged = [_SAID.get(one, one) for one in COLUMNS if one in shape.columns]
    absent = [_SAID.get(one, one) for one in COLUMNS if one not in shape.columns]
    left_out = len(shape.chain) - MOST
    first, last = shape.steps
    return [
        *comment("What the data stream of this job promises. docs/contract.md explains each term."),
        *comment("Every term is here: take a # that has no blank after it away to use the term."),
        "#",
        *comment(f"Drafted by ledger-audit init from {ledger}:"),
        *([f"#   {counted(left_out, 'older attempt')}"] if left_out > 0 else []),
        *(f"#   {_attempt(one)}" for one in shape.chain[-MOST:]),
        *comment(f"Logged: {_listed(logged)}; not logged: {_listed(absent)}."),
        *(comment(f"Stages: {_listed(map(quoted, shape.stages))}.") if shape.stages else []),
        *comment(f"Looked at: {counted(shape.records, 'record')} of steps {first:,} to {last:,}."),
    ]


def _attempt(attempt: "Attempt") -> str:
    name = f"attempt {quoted(attempt.label)}"
    if attempt.is_absent:
        return f"{name}: left nothing here"
    origin = "a first launch"
    if attempt.parent is not None:
        origin = f"resumed from attempt {quoted(attempt.parent)} at step {attempt.resumed_at:,}"
    return f"{name}: {counted(len(attempt.everyone), 'rank')}, {origin}"


def _promise(shape: "Shape") -> list[str]:  # noqa: ARG001  # no ledger can say what was meant
    return [
        *comment(
            "Each sample once in each pass. Less is promised by bounded-replay (a resume may "
            "repeat up to a bound), at-least-once (repeats are fine, gaps are not) and resampled "
            "(drawn anew at each restart)."
        ),
        'promise = "exactly-once"',
    ]


def _order(shape: "Shape") -> list[str]:
    why = "Left free, a record may move to another rank or slot of its step."
    if len(shape.world_sizes) > 1:
        why = "The number of ranks changed in this ledger, so no record can keep its rank."
    return [
        *comment(
            "step: every record at its step; relative: in the reference's order; none: any order. "
            "Without the term, diff asks for relative and gate for step."
        ),
        '#order = "relative"',
        "",
        *comment(f"Every record stays at the rank and slot that the reference has it at. {why}"),
        '#placement = "kept"',
    ]


def _tokens(shape: "Shape") -> list[str]:
    pairs, shared = counted(shape.neighbours.count, "pair"), shape.neighbours.shared
    if "token_start" not in shape.columns:
        why = "No spans are logged here."
    elif not shape.neighbours.count:
        why = "No neighbours were among the records looked at."
    elif shared is None:
        why = f"The {pairs} of neighbours looked at do not all share as many."
    else:
        why = f"Of the {pairs} of neighbours looked at, each shares {shared or 'none'}."
    term = f"token_overlap = {1 if shared is None else shared}"
    return [
        *comment(f"Tokens that neighbouring spans of a document share by design. {why}"),
        term if shared == 1 else aside(term),
    ]


def _buffer(shape: "Shape") -> list[str]:
    size = shape.number("shuffle_buffer")
    why = "No fingerprint here names a shuffle_buffer."
    if size is not None:
        why = f"The fingerprint names a shuffle_buffer of {size:,}: is its content not saved?"
    return [
        *comment(f"Sequences of each rank that a restart may lose from a shuffle buffer. {why}"),
        f"#shuffle_buffer = {size or 1000}",
    ]


def _held_out(shape: "Shape") -> list[str]:
    named = shape.held_out if shape.stream is None else ()
    others = [one for one in shape.other_streams if one not in named][:MOST]
    lines = comment(
        "Streams whose samples must not be trained on. Their ids are compared: two data sets that "
        "both count theirs from 0 need a source."
    )
    if named:
        told = f" Others here: {_listed(map(quoted, others))}." if others else ""
        lines += comment(f"By their names, these are such streams.{told}")
        return [*lines, f"held_out = {many(map(text, named))}"]
    if not others:
        lines += comment("There is no such stream here.")
    return [*lines, f"#held_out = [{', '.join(map(text, others or ['eval']))}]"]


def _bounds(shape: "Shape") -> list[str]:
    batch, why = shape.global_batch, "No fingerprint here tells the global batch."
    if batch is not None:
        why = f"By the fingerprint, one global batch is {counted(batch, 'sequence')}."
    return [
        *comment(
            "The most that one resume may replay under bounded-replay: distinct samples, tokens, "
            f"steps that hold a replayed record. Whatever is given must hold. {why}"
        ),
        "[bounded_replay]",
        f"#samples = {batch or 1}",
        "#tokens = 1000000",
        "#steps = 1",
    ]


def _repeats(shape: "Shape") -> list[str]:
    # A source that is called * cannot be named: the term stands for every other one too.
    named = {source: most for source, most in shape.uses.items() if source not in ("", "*")}
    left_out = len(named) - MOST
    why = "No record looked at names a source."
    if named:
        why = "Each source looked at is here, with the most uses of one sample that were seen."
    return [
        *comment(
            "Uses that a sample of a source may have in one pass; more is a replay. * stands for "
            f"every source that is not named. {why}"
        ),
        "[repeats]",
        *(f"#{text(source)} = {most}" for source, most in [*named.items()][:MOST]),
        *(comment(f"{left_out:,} more sources") if left_out > 0 else []),
        f'#"*" = {shape.uses.get("*", 1)}',
    ]


def _ranks(shape: "Shape") -> list[str]:
    sizes = [f"{size:,}" for size in shape.world_sizes]
    lines = ["[ranks]"]
    if len(sizes) > 1:
        lines += comment(
            f"A resume may have another number of ranks: here there were {_listed(sizes)}."
        )
        lines += ["may_change = true"]
    else:
        always = f"here it was always {sizes[0]}" if sizes else "no start event here tells it"
        lines += comment(f"false: another number of ranks breaks the contract; {always}.")
        lines += ["#may_change = false"]
    sampled = shape.sampled
    if sampled is None:
        lines += comment(
            "The only ranks that log, where that is on purpose. Here all of them should."
        )
        lines += ["#sampled = [0]"]
    else:
        lines += comment(
            "The only ranks that log, as their start events say. With it no other rank is asked "
            "for, and what the others did is not promised."
        )
        lines.append(aside(f"sampled = {many(map(str, sampled))}"))
    return lines


def _fingerprint(shape: "Shape") -> list[str]:
    lines = [
        "[fingerprint]",
        *comment(
            "Keys that must be as they were before a resume; * is every key that can change the "
            "order. These are logged by every attempt here, and never changed."
            if shape.kept_keys
            else "Keys that must be as they were before a resume; * is every key that can change "
            "the order. No such key is logged by every attempt here without a change."
        ),
    ]
    for key, label in shape.changed_keys.items():
        lines += comment(f"{key} is left out: it changed with attempt {quoted(label)}.")
    if shape.kept_keys:
        lines.append(f"must_match = {many(map(text, shape.kept_keys))}")
    else:
        lines += ['#must_match = ["*"]']
    late = [label for label, is_right in shape.restores.items() if not is_right]
    resumed = [one.label for one in shape.chain if one.parent is not None]
    is_kept = bool(resumed) and set(resumed) == {*shape.restores} and not late
    why = "No resumed attempt here says both, with their fingerprints."
    if is_kept:
        why = "Every resume here says so."
    elif late:
        why = f"Attempt {_listed(map(quoted, late[:3]))} does not say so."
    lines += comment(
        "The loader's state is restored before its iterator is made, with one fingerprint "
        f"(events restore and iterator). {why}"
    )
    return [*lines, "restore_first = true" if is_kept else "#restore_first = true"]


def _minimum() -> list[str]:
    return [
        "[minimum]",
        *comment(
            "Fewer whole steps than these prove nothing: of the reference, and after a resume."
        ),
        "#reference_steps = 2",
        "#resumed_steps = 2",
    ]


def _lists() -> list[str]:
    return [
        *comment(
            "Samples that must not be trained on: a file of ids, one a line, or a table with a "
            "column of them; relative to this file. A name and a source may be given."
        ),
        *aside(
            '[[forbid]]\nfile = "excluded.txt"\nname = "excluded documents"\n'
            'column = "sample_id"\nsource = "web"'
        ).split("\n"),
        "",
        *comment("The same for samples outside of which nothing may be trained on."),
        *aside('[[only]]\nfile = "manifest.parquet"').split("\n"),
    ]


def _allow() -> list[str]:
    return [
        *comment(
            "What breaks or blocks nothing, and why: a finding up to a number of records a resume, "
            "a limit, or a key of the fingerprint that may change. The report prints the reason."
        ),
        *aside(
            '[[allow]]\nfinding = "skipped"\nat_most = 8\nreason = "the rest of a broken shard"\n'
            '[[allow]]\nlimit = "no-later-epoch"\nreason = "the job has one epoch"\n'
            '[[allow]]\nchange = "versions"\nreason = "checked by hand that the order is the same"'
        ).split("\n"),
    ]


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words) or "nothing"
