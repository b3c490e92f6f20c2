"""Decides whether one can resume from a checkpoint with coherent model and data position."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ledger_audit.continuity.checkpoints.wholeness import named
from ledger_audit.model.checkpoints import Digest, Label, Probed, Wholeness
from ledger_audit.model.claims import ClaimFacts

Answer = Literal["yes", "no", "unknown"]


@dataclass(frozen=True)
class Data:
    """What is known of a checkpoint's data position."""

    claim: ClaimFacts | None
    unseen: str | None
    digest: Digest
    silent: frozenset[int] = frozenset()
    """Ranks that wrote a part of it and claim nothing, while others count for themselves."""


def resumable(
    wholeness: Wholeness, label: Label, data: Data, probed: Sequence[Probed] | None
) -> tuple[Answer, tuple[str, ...]]:
    """
    Decide by all that was found; `no` beats `unknown` beats `yes`.

    Returns:
        The answer, and why: of `no` what is wrong, of `unknown` what is open, of `yes` what it
        rests on.
    """
    model, position, files = _of_model(wholeness, label), _of_data(data), _of_files(probed or ())
    for answer in ("no", "unknown"):
        because = tuple(why for one, why in (*model, *position, *files) if one == answer)
        if because:
            return answer, because
    return "yes", tuple(why for _, why in (*position, *model))


def _of_model(wholeness: Wholeness, label: Label) -> list[tuple[Answer, str]]:
    found: list[tuple[Answer, str]] = []
    if not wholeness.is_whole:
        found.append(("unknown" if wholeness.is_whole is None else "no", wholeness.text))
    if label.state in ("behind", "ahead"):
        found.append(("no", label.text))
    elif label.state == "unknown":
        found.append(("yes", label.text))
    return found


def _of_data(data: Data) -> list[tuple[Answer, str]]:
    claim, found = data.claim, list[tuple[Answer, str]]()
    if claim is None:
        found.append(("unknown", "no claim was saved with it: nothing says where the data stands"))
    elif claim.agreement == "contradicts":
        found.append(("no", claim.text))
    elif claim.agreement == "not-compared":
        found.append(("unknown", f"nothing of its claim is compared: {claim.text}"))
    elif data.unseen is not None:
        found.append(("unknown", f"its claim agrees with what can be seen, but {data.unseen}"))
    elif data.silent:
        who = named(data.silent)
        found.append(("unknown", f"nothing that {who} saved says where the data stands"))
    else:
        found.append(("yes", claim.text))
    if data.digest.cursor == "contradicts":
        found.append(("no", data.digest.text))
    return found


def _of_files(probed: Sequence[Probed]) -> list[tuple[Answer, str]]:
    return [
        ("unknown" if one.loadable is None else "no", f"{one.path}: {'; '.join(one.faults)}")
        for one in probed
        if one.is_tried and not one.loadable
    ]
