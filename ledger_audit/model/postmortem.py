"""All that the page of a post-mortem tells: the report, and what is asked of the whole run."""

from dataclasses import dataclass
from typing import Literal

from ledger_audit.model import Report
from ledger_audit.model.checkpoints import Checkpoint
from ledger_audit.model.exposure import Exposure


@dataclass(frozen=True)
class Save:
    """A checkpoint in the lane of its attempt."""

    step: int
    is_whole: bool | None
    """Null: it is not known."""
    loaded_by: tuple[str, ...]
    """Attempts that resumed from it."""


@dataclass(frozen=True)
class Lane:
    """One attempt on the time line; steps are closed ranges, null where there are none."""

    attempt: str
    parent: str | None
    """The attempt whose checkpoint it loaded; null: it began the run."""
    resumed_at: int | None
    in_lineage: bool
    kept: tuple[int, int] | None
    """Steps that the newest weights went through."""
    superseded: tuple[int, int] | None
    """Steps that were rolled back, or lead to no newest weights: work that was lost."""
    reached: int | None
    """The last step of which anything is left."""
    end: Literal["ended", "failed", "open"]
    """`failed`: it has no `end` event, and another attempt came later; `open`: it has none, and is
    the newest."""
    saves: tuple[Save, ...]
    """Some of its checkpoints, the loaded ones among them, in the order of steps."""
    saves_count: int
    """All of its checkpoints."""


@dataclass(frozen=True)
class Timeline:
    """The attempts of a run as lanes, in the order of their launches."""

    steps: tuple[int, int]
    """The first and the last step of any lane."""
    lanes: tuple[Lane, ...]
    left_out: int
    """Attempts without a lane: the oldest that are not in the newest weights, then the oldest."""


@dataclass(frozen=True)
class Input:
    """A ledger as it lay on disk."""

    name: str
    files: int
    bytes: int
    sha256: str | None
    """Over the names, sizes and contents of its files; null: they are too many or too large, or
    have changed while they were read."""
    has_changed: bool = False
    """A job wrote into it while the page was made."""


@dataclass(frozen=True)
class Recipe:
    """How the page can be made again."""

    command: tuple[str, ...]
    """The words of the command line."""
    versions: tuple[tuple[str, str], ...]
    """Program or library, and its version."""
    inputs: tuple[Input, ...]


@dataclass(frozen=True)
class Postmortem:
    """What a page tells; it is judged as the report is, and nothing else changes the verdict."""

    report: Report
    timeline: Timeline
    loaded: tuple[Checkpoint | None, ...]
    """For each resume of the report, the checkpoint that it loaded; null: no event tells of it."""
    exposure: Exposure | None
    """How often each sample was used; null: it was not counted."""
    unexposed: str | None
    """Why it was not counted; null: it was."""
    recipe: Recipe
