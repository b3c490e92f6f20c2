"""Makes a plan: what is left of a stream, dealt to ranks, beside the cursor that it begins at."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from ledger_audit.errors import UnprovenError
from ledger_audit.ledger.digest import signed
from ledger_audit.ledger.expected import write_expected
from ledger_audit.ledger.spent import Identity
from ledger_audit.ledger.tables import hash_frame
from ledger_audit.model.plan import (
    Amounts,
    Cursor,
    Deal,
    Pass,
    Plan,
    PlanLimit,
    Replay,
)
from ledger_audit.printable import counted as told_count
from ledger_audit.stream.consumed import Compared, Consumed, unmatched
from ledger_audit.stream.dealing import Batches, batches_of, pieces_of, shape_of
from ledger_audit.stream.halves import Halves
from ledger_audit.stream.ordered import Ordered
from ledger_audit.stream.remaining import Refused, Survey, rest_of, survey

LABELS = ("source", "epoch", "token_start", "token_end")
LABEL = "plan"

MOST_EXAMPLES = 8

Bounds = tuple[int, int] | None


@dataclass(frozen=True)
class Wanted:
    """What is asked of a plan."""

    world_size: int
    micro_batch: int | None = None
    accumulation: int | None = None
    replay_window: int = 0


@dataclass(frozen=True)
class Rest:
    """What is left of a stream, and how it is dealt; nothing is written yet."""

    stream: Ordered
    consumed: Consumed
    found: Survey
    halves: Halves
    batches: Batches
    again: tuple[int, ...]
    """Steps of the reference that are given whole, though parts of them were consumed."""
    replay: Replay
    unmatched: pl.DataFrame
    """Consumed records that the reference does not hold: sample_id."""
    n_unmatched: int

    @property
    def reference_digest(self) -> int:
        """The sum of the hashes of the whole stream."""
        return signed(self.found.digest)

    @property
    def first_step(self) -> int:
        """The first step of the plan."""
        step = self.consumed.library.archive.source.lineage.chain[-1].resumed_at
        assert step is not None
        return step + 1


def compared(stream: Ordered, has: Callable[[str], bool], bounds: Bounds) -> Compared:
    """
    Say how a stream is compared with what a ledger consumed.

    Args:
        stream: the stream.
        has: column → whether the ledger has a value in it.
        bounds: the lowest and the highest id of the ledger; null: ids are text.
    """
    own, others = stream.bounds(), set()
    both = None
    if bounds is not None and own is not None:
        both = min(bounds[0], own[0]), max(bounds[1], own[1])
    columns = []
    for name in LABELS:
        asked = "token_start" if name == "token_end" else name  # spans have both
        one, other = has(asked), stream.has(asked)
        columns += [name] if one and other else []
        others |= {name} if one != other else set()
    return Compared(Identity(tuple(columns)), frozenset(others), both, stream.first_step)


def rest(stream: Ordered, consumed: Consumed, refused: Refused | None, wanted: Wanted) -> Rest:
    """
    Find what is left, and deal it.

    Raises:
        UnprovenError: so much was consumed that the reference does not hold that it is another
            stream, or two different records cannot be told apart.
    """
    spent = consumed.spent
    halves = Halves(_no_spans(stream), spent.columns)
    seen = survey(stream, spent, halves, refused)
    left = spent.left
    lacking = unmatched(consumed)
    if left and "token_start" in spent.columns and lacking["token_start"].count():
        halves = Halves(lacking, spent.columns)
        spent.renew()
        seen = survey(stream, spent, halves, refused)
        rows = pl.Series("sample_id", halves.left, dtype=lacking.schema["sample_id"])
        whole = lacking.filter(pl.col("token_start").is_null())["sample_id"]
        lacking = pl.concat([rows, whole]).to_frame()
        left = lacking.height
        halves.renew()
    if not left and not seen.halved:
        _check_keys(consumed, seen)
    replay, again = _replay(seen, wanted.replay_window)
    return Rest(
        stream=stream,
        consumed=consumed,
        found=seen,
        halves=halves,
        batches=_batches(seen, again, wanted),
        again=again,
        replay=replay,
        unmatched=lacking,
        n_unmatched=left,
    )


def write(made: Rest, root: Path) -> tuple[int, int, dict[tuple[Any, Any], int]]:
    """
    Write the rest of the stream as an expected stream.

    Returns:
        Its records, the sum of their hashes, and the records of each pass.
    """
    total, mixed = 0, 0
    passes: dict[tuple[Any, Any], int] = {}

    def pieces() -> Iterator[pl.DataFrame]:
        nonlocal total, mixed
        rows = rest_of(made.stream, made.found, made.halves, made.again)
        for piece in pieces_of(rows, made.batches, made.first_step):
            total += piece.height
            mixed += int(hash_frame(piece).sum())
            for source, epoch, count in piece.group_by("source", "epoch").len().iter_rows():
                passes[source, epoch] = passes.get((source, epoch), 0) + count
            yield piece

    shape = made.batches.shape
    recipe = {
        "checkpoint_step": made.first_step - 1,
        "cursor": str(made.consumed.amounts.digest),
        "reference": str(made.reference_digest),
        "extent": made.stream.kind,
        "micro_batch": shape.micro_batch,
        "accumulation": shape.accumulation,
        "replayed": made.replay.records,
        "forbidden": made.found.forbidden[0],
    }
    write_expected(
        root,
        LABEL,
        pieces(),
        world_size=shape.world_size,
        expected={"kind": "plan", "recipe": recipe},
    )
    return total, signed(mixed), passes


def told(
    made: Rest,
    written: tuple[int, int, dict[tuple[Any, Any], int]],
    inputs: dict[str, Any],
    options: dict[str, Any],
) -> Plan:
    """Tell what was planned."""
    records, digest, passes = written
    sizes, batches = made.batches.sizes, made.batches
    first = made.first_step
    differs = batches.differs_at
    extent: Literal["reference", "rolled-back"] = (
        "reference" if made.stream.kind == "reference" else "rolled-back"
    )
    return Plan(
        inputs=inputs,
        options=options,
        extent=extent,
        through_step=made.stream.last_step,
        cursor=_cursor(made),
        passes=tuple(_passes(made, passes)),
        deal=Deal(
            world_size=batches.shape.world_size,
            micro_batch=batches.shape.micro_batch,
            accumulation=batches.accumulation,
            first_step=first,
            last_step=first + len(sizes) - 1,
            records=records,
            sequences=int(sizes.sum()),
            digest=digest,
            reference_batch=_batch(made.found),
            differs_from=None if differs is None else first + differs,
            differs_because=batches.because,
            ragged=tuple((first + place, size, few) for place, size, few in batches.ragged),
            n_ragged=batches.n_ragged,
        ),
        replay=made.replay,
        forbidden=Amounts(made.found.forbidden[0], None, None, signed(made.found.forbidden[1])),
        limits=tuple(_limits(made)),
        notes=tuple(_notes(made)),
    )


def _no_spans(stream: Ordered) -> pl.DataFrame:
    schema = {
        "source": pl.String(),
        "epoch": pl.Int32(),
        "sample_id": stream.id_type,
        "token_start": pl.Int64(),
        "token_end": pl.Int64(),
    }
    return pl.DataFrame(schema=schema)


def _check_keys(consumed: Consumed, seen: Survey) -> None:
    """Refuse to go on where equal keys stood for different records, as their hashes show."""
    if consumed.others:  # hashes cover what is not compared
        return
    since = pl.col("step") >= consumed.spent.since
    mixed = sum(int(one.filter(since)["mixed"].sum()) for one in consumed.counted.counts)
    matched = int(seen.passes["matched_digest"].sum())
    if signed(mixed) != signed(matched):
        raise UnprovenError(
            "what was consumed and what the reference holds of it have different digests",
            hint="report this: two different records have one key",
        )


def _replay(seen: Survey, allowed: int) -> tuple[Replay, tuple[int, ...]]:
    """Find what would have to be used again so that no step of the reference is half used."""
    partial = seen.steps.filter(pl.col("consumed") > 0, pl.col("rest") > 0)
    needed = int(partial["consumed"].sum())
    if not needed or needed > allowed:
        return Replay(allowed, 0, 0, needed), ()
    digest = signed(int(partial["consumed_digest"].sum()))
    return Replay(allowed, needed, digest, needed), tuple(partial["step"].to_list())


def _batches(seen: Survey, again: tuple[int, ...], wanted: Wanted) -> Batches:
    is_again = pl.col("step").is_in(pl.Series(again, dtype=pl.Int64).implode())
    steps = seen.steps.with_columns(rest=pl.when(is_again).then("allowed").otherwise("rest"))
    left = steps.filter(pl.col("rest") > 0)
    like = (_batch(seen), seen.micro_batch)
    shape = shape_of(wanted.world_size, wanted.micro_batch, wanted.accumulation, like)
    short = left.filter(pl.col("rest") < pl.col("sequences"))
    why = ""
    if short.height:
        step = short.row(0, named=True)
        lost, all_of, rest = step["forbidden"], step["sequences"], step["rest"]
        why = (
            f"step {step['step']:,} of the reference has forbidden samples, which are left out"
            if lost and not step["consumed"]
            else f"the cursor is inside step {step['step']:,} of the reference: {rest:,} of its "
            f"{all_of:,} sequences are left"
        )
    return batches_of(left["sequences"].to_list(), left["rest"].to_list(), shape, why)


def _batch(seen: Survey) -> int:
    """Give the sequences of the first step of the reference of which something is left."""
    left = seen.steps.filter(pl.col("rest") > 0)["sequences"]
    return int(left[0]) if len(left) else 1


def _cursor(made: Rest) -> Cursor:
    consumed, step = made.consumed, made.first_step - 1
    examples = made.unmatched["sample_id"].unique().sort().head(MOST_EXAMPLES)
    return Cursor(
        checkpoint_step=step,
        attempt=consumed.holder.label,
        consumed=consumed.amounts,
        unit="position" if made.stream.has_positions else "order",
        before_reference=consumed.spent.earlier,
        unmatched=made.n_unmatched,
        unmatched_examples=tuple(str(one) for one in examples.to_list()),
        halved=made.found.halved,
        in_flight=consumed.in_flight,
    )


def _passes(made: Rest, planned: dict[tuple[Any, Any], int]) -> Iterator[Pass]:
    """Tell of every generation that the ledger or the reference names."""
    used = {
        (row["source"], row["epoch"]): row for row in made.consumed.passes.iter_rows(named=True)
    }
    seen = {(row["source"], row["epoch"]): row for row in made.found.passes.iter_rows(named=True)}
    for of in sorted({*used, *seen}, key=lambda one: (str(one[0] or ""), one[1] or 0)):
        stretches = made.found.stretches.get(of)
        spans = stretches.found if stretches else []
        yield Pass(
            source=of[0],
            epoch=of[1],
            consumed=used[of]["records"] if of in used else 0,
            matched=seen[of]["matched"] if of in seen else 0,
            expected=seen[of]["records"] if of in seen else 0,
            planned=planned.get(of, 0),
            forbidden=seen[of]["forbidden"] if of in seen else 0,
            matched_digest=signed(seen[of]["matched_digest"]) if of in seen else 0,
            ranges=tuple((start, stop) for start, stop in spans),
            n_ranges=stretches.counts[0] if stretches else 0,
            holes=stretches.holes if stretches else 0,
        )


def _limits(made: Rest) -> Iterator[PlanLimit]:
    if made.stream.kind == "rolled-back":
        yield PlanLimit(
            "rolled-back-only",
            "without a reference, the plan goes only as far as the whole steps that the failure "
            f"rolled back: through step {made.stream.last_step:,}",
        )
    if made.n_unmatched:
        yield PlanLimit(
            "consumed-unexpected",
            f"{told_count(made.n_unmatched, 'consumed record')} not in the reference, or not so "
            "often: what was used in their place is not known",
        )


def _notes(made: Rest) -> Iterator[str]:
    if made.consumed.is_assumed:
        yield (
            "the ledger has no commit event: what every rank reached counts as committed, except "
            "the last step of an attempt without an end"
        )
    if any(one.declares for one in made.consumed.library.archive.source.lineage.chain):
        yield "deliberate acts are declared: what they left out was not consumed, and is planned"
    if made.stream.left_out:
        yield (
            f"{told_count(made.stream.left_out, 'record')} of the reference after step "
            f"{made.stream.last_step:,} left out: that step is cut, and its rest is not known"
        )
    missing = [name for name in LABELS[:3] if name in made.consumed.others]
    if missing:
        named = ", ".join("span" if name == "token_start" else name for name in missing)
        yield f"not compared, because only one side has it: {named}"
    steps = made.found.steps
    last = steps.filter(pl.col("consumed") > 0)["step"].max()
    if isinstance(last, int):
        behind = int(steps.filter(pl.col("step") < last)["rest"].sum())
        if behind:
            yield (
                f"{told_count(behind, 'sequence')} before step {last:,} of the reference, of "
                "which something was consumed, never were used: they come first"
            )
