"""
Makes the page of a huge run out of made-up, worst-case values, and tells its size and time.

    python tests/bench/page_size.py [--ranks 4096] [--steps 10000] [--resumes 8]

Every cell differs from its neighbour, every bin of the plot is full, every name is long: no real
run is so large.
"""

import argparse
import random
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ledger_audit import audit
from ledger_audit.continuity import order_plot, picture
from ledger_audit.model import Expected, Report, Resume, Resumed
from ledger_audit.model.picture import OrderPlot, Picture, PlotCell, Strip
from ledger_audit.model.postmortem import Input, Lane, Postmortem, Recipe, Save, Timeline

RUN = Path(__file__).parent.parent.parent / "fixtures" / "zoo" / "torch-ddp-epoch-restart" / "run"


def picture_of(ranks: int, steps: int, drawn: random.Random) -> Picture:
    """Fill as many cells as there may be, at random."""
    after = -(-steps // picture.MOST_AFTER)
    columns = [(one, one) for one in range(1, picture.MOST_BEFORE + 1)]
    first = picture.MOST_BEFORE + 1
    columns += [(one, one + after - 1) for one in range(first, first + steps, after)]
    share = -(-ranks // picture.MOST_STRIPS)

    def cells(kinds: list[str]) -> tuple[str | None, ...]:
        return tuple(drawn.choice(kinds) for _ in columns)

    def strip(place: int, slots: tuple[tuple[int, int], ...] = ()) -> Strip:
        ends = place * share, place * share + share - 1
        return Strip(ends, share, cells([*map(str, Expected)]), cells([*map(str, Resumed)]), slots)

    return Picture(
        tuple(columns),
        tuple(strip(place) for place in range(picture.MOST_STRIPS)),
        tuple(strip(place, ((place % 8, place % 8),)) for place in range(picture.MOST_SLOT_STRIPS)),
    )


def plot_of(steps: int, drawn: random.Random) -> OrderPlot:
    """Fill every bin."""
    bins = order_plot.MOST_BINS
    size = -(-steps // bins)
    ends = (13, 12 + size * bins)
    cells = [
        PlotCell(column, row, drawn.randint(1, 10**6), drawn.choice(("matched", "replayed")))
        for column in range(bins)
        for row in range(bins)
    ]
    beside = tuple((one, 10**6) for one in range(bins))
    lone = tuple((one, count, "fresh") for one, count in beside)
    return OrderPlot(ends, ends, size, size, tuple(cells), beside, lone)


def report_of(ranks: int, steps: int, resumes: int) -> Report:
    """Blow a real report up."""
    drawn = random.Random(7)
    report = audit.diff([RUN], audit.Reading(full=True))
    one = report.resumes[0]
    long = "an id that is rather long " * 40
    finding = replace(
        one.findings[0], ranks=tuple((at, at) for at in range(0, ranks, 2)), examples=(long,) * 8
    )

    filled = [(picture_of(ranks, steps, drawn), plot_of(steps, drawn)) for _ in range(2)]

    def blown(number: int) -> Resume:
        return replace(
            one,
            checkpoint_step=picture.MOST_BEFORE,
            from_attempt=f"{long}{number}",
            picture=filled[number % 2][0],
            plot=filled[number % 2][1],
            findings=(finding,) * 2_000,
            limits=one.limits * 100,
            shift=replace(one.shift, by_rank=dict.fromkeys(range(ranks), 1)),
        )

    return replace(report, resumes=tuple(blown(number) for number in range(resumes)))


def postmortem_of(ranks: int, steps: int, resumes: int) -> Postmortem:
    """Give a run of so many ranks and steps, in which everything went wrong."""
    report = report_of(ranks, steps, resumes)
    saves = tuple(Save(step, None, ()) for step in range(1, steps, -(-steps // 120)))
    lane = Lane("0", None, None, True, (1, steps), (steps, 2 * steps), steps, "failed", saves, 999)
    return Postmortem(
        report=report,
        timeline=Timeline((1, 2 * steps), (lane,) * 48, 1_000),
        loaded=(None,) * resumes,
        exposure=None,
        unexposed="nothing is counted here",
        recipe=Recipe(("ledger-audit",), (("ledger-audit", "0"),), (Input("run", 1, 1, None),)),
    )


def measured(post: Postmortem) -> dict[str, Any]:
    """Give the size of the page and the time that it took."""
    from ledger_audit.report.html_page import to_html  # noqa: PLC0415  # its time is measured, too

    start = time.perf_counter()
    page = to_html(post)
    return {"bytes": len(page.encode()), "seconds": time.perf_counter() - start, "page": page}


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    for name, default in (("ranks", 4096), ("steps", 10_000), ("resumes", 8)):
        options.add_argument(f"--{name}", type=int, default=default)
    asked = options.parse_args()
    found = measured(postmortem_of(asked.ranks, asked.steps, asked.resumes))
    sys.stdout.write("| ranks | steps | resumes | MB | s |\n|---|---|---|---|---|\n")
    sys.stdout.write(
        f"| {asked.ranks:,} | {asked.steps:,} | {asked.resumes} | {found['bytes'] / 1e6:.2f} "
        f"| {found['seconds']:.2f} |\n"
    )
