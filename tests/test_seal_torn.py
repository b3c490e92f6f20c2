"""Whatever a crash did to a ledger, an audit says the same before and after it is sealed."""

import random
from pathlib import Path

import pytest
from auditing import age, audited, rows_of
from emitting import emit_ledger
from faults import FAULTS, make
from native import write_ledger

from ledger_audit.ledger.sealing import seal

SHAPES = ("cut", "zeroed tail", "zeroed hole", "zeroed whole", "flipped bit", "grown", "removed")


def damage(rng: random.Random, root: Path) -> None:
    """Do to some open segments what crashes do."""
    files = sorted(root.rglob("*.arrows"))
    for path in rng.sample(files, min(len(files), rng.randint(0, 3))):
        content = bytearray(path.read_bytes())
        at = rng.randrange(len(content))
        shape = rng.choice(SHAPES)
        if shape == "removed":
            path.unlink()
            continue
        if shape == "cut":
            content = content[:at]
        elif shape == "zeroed tail":
            content[at:] = bytes(len(content) - at)
        elif shape == "zeroed hole":
            stop = min(len(content), at + rng.choice([1, 8, 64, 512]))
            content[at:stop] = bytes(stop - at)
        elif shape == "zeroed whole":
            content = bytearray(len(content))
        elif shape == "flipped bit":
            content[at] ^= 1 << rng.randrange(8)
        else:
            content += rng.randbytes(rng.randrange(100))
        path.write_bytes(content)


def write(rng: random.Random, seed: int, root: Path) -> None:
    """Write a random job, by one of the writers that there are."""
    job = make(rng.choice(FAULTS), seed)
    how = rng.choice(("ours", "ours", "open", "open in parts", "sealed"))
    if how == "ours":
        emit_ledger(job.run, root, segment_bytes=rng.choice([500, 5000, 1 << 20]))
    else:
        parts = None if how == "open" else rng
        write_ledger(job.run, root, rng=parts, sealed=how == "sealed")


@pytest.mark.parametrize("seed", range(40))
def test_an_audit_says_the_same_before_and_after(seed: int, tmp_path: Path) -> None:
    """Verdicts, counts, limits and errors, of random jobs with random damage."""
    rng = random.Random(seed)
    root = tmp_path / "ledger"
    write(rng, seed, root)
    damage(rng, root)
    age(root)
    before = audited(root)
    options = {
        "most_bytes": rng.choice([2000, 20_000, 1 << 27]),
        "small": rng.choice([0, 3000, 8 << 20]),
    }

    seal(root, idle=60, **options)
    once = audited(root)
    seal(root, idle=60, **options)

    assert before == once, seed
    assert before == audited(root), seed


@pytest.mark.parametrize("table", ["samples", "events"])
def test_cut_at_any_byte(table: str, tmp_path: Path) -> None:
    """What was sound is kept, and that something was torn is said, wherever the end is."""
    lines = make("one-dropped", 3).run
    root = tmp_path / "ledger"
    emit_ledger(lines, root)
    path = sorted(root.glob(f"attempt=0/{table}-*"))[0]
    content = path.read_bytes()
    template = {file: file.read_bytes() for file in root.rglob("*.arrows")}
    for length in range(0, len(content), max(1, len(content) // 11)):
        for file in root.glob("*/*"):
            file.unlink()
        for file, whole in template.items():
            file.write_bytes(whole[:length] if file == path else whole)
        age(root)
        before, rows = audited(root), rows_of(root)

        done = seal(root, idle=60)

        assert audited(root) == before, length
        assert rows_of(root) == rows, length
        assert {path.name} == {hole.file for one in done.attempts for hole in one.dropped} or (
            length and not any(one.dropped for one in done.attempts)
        )
        assert not list(root.rglob("*.arrows"))
