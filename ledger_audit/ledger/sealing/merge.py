"""Says what a sealed file says of itself, and still of those that it stands for."""

import json
from collections.abc import Mapping, Sequence

from ledger_audit.ledger.schema import FORMAT
from ledger_audit.ledger.sealing.source import Source, replaced_by, told_by_file

_OURS = {b"format", b"run_id", b"writer", b"host", b"replaces", b"replaced_bytes", b"dropped"}
_STALE = {b"pandas", b"ARROW:schema"}
"""Descriptions of the columns of one file."""


def metadata_of(
    sources: Sequence[Source], *, run: bytes | None, writer: str, names: Sequence[str]
) -> dict[bytes, bytes]:
    """
    Give what a merged file says of itself, and still of the files that it stands for.

    Args:
        sources: the files.
        run: the run id that they name.
        writer: of the merged file.
        names: all that it stands for.
    """
    hosts = {_text(source.metadata[b"host"]) for source in sources if b"host" in source.metadata}
    told = {
        "format": FORMAT,
        "run_id": None if run is None else run.decode("utf-8", "replace"),
        "writer": writer,
        "host": ", ".join(sorted(hosts)) or None,
        "replaces": json.dumps(sorted(names)),
        "replaced_bytes": json.dumps({one.name: one.size for one in sources}),
        "dropped": _json({name: text for one in sources for name, text in let_go(one)}),
    }
    for key in sorted({key for one in sources for key in one.metadata} - _OURS - _STALE):
        said = {one.name: _text(one.metadata[key]) for one in sources if key in one.metadata}
        agree = len(said) == len(sources) and len(set(said.values())) == 1
        told[_text(key)] = next(iter(said.values())) if agree else _json(said)
    # Parquet knows text alone, and some readers refuse what is none
    return {key.encode(): value.encode() for key, value in told.items() if value is not None}


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _json(told: Mapping[str, str]) -> str | None:
    return json.dumps(dict(sorted(told.items()))) if told else None


def let_go(source: Source) -> list[tuple[str, str]]:
    """Give the files, this one or those that it stands for, whose records were not kept."""
    text = source.metadata.get(b"dropped")
    if text is None:
        return []
    if replaced_by(source.metadata, source.segment.path):
        return [
            (name, str(told)) for name, told in told_by_file(source.metadata, b"dropped").items()
        ]
    return [(source.name, _text(text))]
